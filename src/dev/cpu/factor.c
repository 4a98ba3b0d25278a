/* factor.c - factorizations of matrices and triangular solves: Cholesky, LU with partial pivoting, QR by reflections,
 * symmetric eigenvalues and SVD by Jacobi rotations, of more than 64 columns by LAPACK where it is found; values
 * without vectors by reflections, then QL or differential qd.
 *
 * Matrices of a batch run side by side.  A large matrix is cut into panels, whose sizes depend on its shape only, so
 * that the results have the same bits for any number of threads. */
#include "cpu.h"
#include "isa.h"
#include "lapack.h"
#include "../../core/pool.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NB = CR_FACTOR_PANEL,
    LANES = CR_FACTOR_LANES,                        /* numbers of a vector, at most */
    STRIP = 256,                                    /* columns of a right-hand side that one chunk solves */
    OWN = 64,                                       /* columns up to which eigenvalues and SVD need no LAPACK */
    SMALL = 32                                      /* rows and columns up to which matrices lie side by side */
};

/* The eigenvalues of a symmetric tridiagonal matrix by the QL method without square roots (Pal, Walker and Kahan;
 * Parlett, The Symmetric Eigenvalue Problem, 8.15), from the diagonal d (n) and the squares e (n - 1) beside it.  They
 * replace d, in no order.  False: no convergence. */
static bool tridiagonal_values(double *d, double *e, int64_t n) {
    const double relative = 0.25 * DBL_EPSILON * DBL_EPSILON;
    double size = 0;
    for (int64_t i = 0; i < n; i++) size = fmax(size, d[i] * d[i] + (i + 1 < n ? e[i] : 0));
    int64_t turns = 60 * n;
    for (int64_t first = 0, last; first < n; first++)
        for (;;) {
            for (last = first; last + 1 < n; last++)
                if (e[last] <= relative * fmax(fabs(d[last] * d[last + 1]), 0.25 * size)) break;
            if (last == first) break;
            if (!turns--) return false;
            const double root = sqrt(e[first]), half = (d[first + 1] - d[first]) / (2 * root),
                         shift = d[first] - root / (half + copysign(sqrt(half * half + 1), half));
            double c = 1, s = 0, gamma = d[last] - shift, p = gamma * gamma;
            for (int64_t i = last - 1; i >= first; i--) {
                const double b = e[i], r = p + b, before = c, other = gamma;
                if (i + 1 < last) e[i + 1] = s * r;
                c = p / r;
                s = b / r;
                gamma = c * (d[i] - shift) - s * other;
                d[i + 1] = other + (d[i] - gamma);
                p = c != 0 ? gamma * gamma / c : before * b;
            }
            e[first] = s * p;
            d[first] = shift + gamma;
        }
    return true;
}

/* One step of the differential qd method with shift s (Fernando and Parlett 1994) from q, e to q_new, e_new.  Returns
 * n, or the first position at which the matrix less s is not positive; last: the last number of the step. */
static int64_t qd_step(double *q_new, double *e_new, const double *q, const double *e, int64_t n, double s,
                       double *last) {
    double d = q[0] - s;
    for (int64_t i = 0; i + 1 < n; i++) {
        if (d < 0) return i;
        const double sum = d + e[i], t = q[i + 1] / sum;
        q_new[i] = sum;
        e_new[i] = sum > 0 ? e[i] * t : 0;
        d = sum > 0 ? d * t - s : q[i + 1] - s;
    }
    q_new[n - 1] = *last = d;
    return d < 0 ? n - 1 : n;
}

/* A bound from below on the eigenvalues of the matrix of q and e (Gershgorin). */
static double least_of(const double *q, const double *e, int64_t n) {
    double least = INFINITY, before = 0;
    for (int64_t i = 0; i < n; i++) {
        const double beside = i + 1 < n ? sqrt(q[i] * e[i]) : 0;
        least = fmin(least, q[i] + (i ? e[i - 1] : 0) - before - beside);
        before = beside;
    }
    return least;
}

/* Does a step with a shift that leaves the matrix q, e of n rows positive, and returns the shift.  First the smaller
 * eigenvalue of the last two rows, a bound from above.  Where a step fails at its end only, that shift plus the end is
 * one from below, of third order. */
static double qd_shifted(double *q_new, double *e_new, const double *q, const double *e, int64_t n, int64_t *turns) {
    const double top = q[n - 2] + e[n - 2], low = q[n - 1], product = q[n - 2] * low, half = 0.5 * (top + low),
                 sum = half + sqrt(fmax(half * half - product, 0));
    double s = sum > 0 ? product / sum : 0, last = 0, least = -1;
    for (int tries = 0;; tries++) {
        --*turns;
        const int64_t reached = qd_step(q_new, e_new, q, e, n, s, &last);
        if (reached == n || s == 0) return s;
        if (reached == n - 1 && s + last > 0 && tries < 2) { s += last; continue; }
        if (least < 0) least = fmax(least_of(q, e, n), 0);
        s = tries == 0 ? fmax(0.25 * s, least) : tries < 3 && least < s ? least : 0;
    }
}

/* The squares of the singular values of an upper bidiagonal matrix: of the squares q (n) of its diagonal and e (n - 1)
 * beside it, in no order; room: 4 n numbers.  False: no convergence. */
static bool bidiagonal_values(double *q, double *e, int64_t n, double *room) {
    double *const q_of[] = {q, room}, *const e_of[] = {e, room + n};
    double *const sums = room + 2 * n, *const outer = sums + n;
    double size = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) size = fmax(size, q[i] + (i + 1 < n ? e[i] : 0));
    const double tiny = DBL_EPSILON * DBL_EPSILON / 64;
    /* rows first .. n - 1 are a block, less `sum`; sums, outer: of the block before the one that begins at an index */
    int64_t turns = 60 * n, first = 0;
    int at = 0;
    while (n > 0) {
        double *const a = q_of[at], *const b = e_of[at];
        int64_t i = n - 1;
        while (i > first && b[i - 1] > tiny * fmax(16 * (sum + a[i]), size)) i--;
        if (i == n - 1) {
            q[i] = sum + a[i];
            n--;
            if (n == first && n > 0) {
                sum = sums[n];
                first = (int64_t)outer[n] / 2;
                at = (int)((int64_t)outer[n] % 2);
            }
            continue;
        }
        if (i > first) {
            sums[i] = sum;
            outer[i] = (double)(2 * first + at);
            first = i;
        }
        if (turns <= 0) return false;
        sum += qd_shifted(q_of[!at] + first, e_of[!at] + first, a + first, b + first, n - first, &turns);
        at = !at;
    }
    return true;
}

static int descending(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a < b) - (a > b);
}

#define T float
#define NAME(name) name##_f32
#define DTYPE CR_F32
#define EPSILON ((double)FLT_EPSILON)
#define FLOOR ((double)FLT_MIN)
#include "factor_kernels.h"
#undef T
#undef NAME
#undef DTYPE
#undef EPSILON
#undef FLOOR
#define T double
#define NAME(name) name##_f64
#define DTYPE CR_F64
#define EPSILON DBL_EPSILON
#define FLOOR DBL_MIN
#include "factor_kernels.h"

typedef struct batch {
    const void *args;
    bool (*one)(const void *args, int64_t b);
    int64_t count, each;                            /* each: matrices of a chunk */
    atomic_bool failed;
} batch;

static bool factor_one(const void *args, int64_t b) {
    const cr_factor_args *f = args;
    return f->x.dtype == CR_F32 ? factor_one_f32(f, b) : factor_one_f64(f, b);
}
static bool substitute_one(const void *args, int64_t b) {
    const cr_substitute_args *s = args;
    return s->x.dtype == CR_F32 ? substitute_one_f32(s, b) : substitute_one_f64(s, b);
}
static bool solve_one(const void *args, int64_t b) {
    const cr_solve_args *s = args;
    return s->x.dtype == CR_F32 ? solve_one_f32(s, b) : solve_one_f64(s, b);
}

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    batch *w = ctx;
    for (int64_t b = chunk * w->each; b < cr_imin(w->count, (chunk + 1) * w->each) && !cr_pool_stopped(); b++)
        if (!w->one(w->args, b)) atomic_store(&w->failed, true);
}

/* work: multiplications for one matrix */
static cr_status run_batch(const char *op, const void *args, bool (*one)(const void *, int64_t), int64_t count,
                           int64_t work) {
    batch w = {.args = args, .one = one, .count = count, .each = cr_imax(1, (1 << 16) / cr_imax(1, work))};
    atomic_init(&w.failed, false);
    cr_run_chunks(cr_pieces(count, w.each), run_chunk, &w);
    return atomic_load(&w.failed) ? cr_fail(CR_NO_MEMORY, op, "out of memory") : CR_OK;
}

static bool group_of(const void *args, int64_t g) {
    const cr_factor_args *f = args;
    const int64_t b = g * CR_FACTOR_LANES, count = cr_imin(CR_FACTOR_LANES, f->x.shape[0] - b);
    return f->x.dtype == CR_F32 ? factor_group_f32(f, b, count) : factor_group_f64(f, b, count);
}

/* The bits of a matrix do not depend on its neighbours. */
static bool lies_beside_others(const cr_factor_args *args) {
    return args->kind != CR_FACTOR_QR && args->kind < CR_FACTOR_EIGVALSH && args->x.shape[1] <= SMALL &&
           args->x.shape[2] <= SMALL;
}

cr_status cr_cpu_factor(const cr_factor_args *args) {
    const int64_t M = args->x.shape[1], N = args->x.shape[2];
    if (args->x.shape[0] > 1 && lies_beside_others(args))
        return run_batch("factor", args, group_of, cr_pieces(args->x.shape[0], CR_FACTOR_LANES),
                         M * N * cr_imin(M, N) * CR_FACTOR_LANES);
    return run_batch("factor", args, factor_one, args->x.shape[0], M * N * cr_imin(M, N));
}

static bool systems_of(const void *args, int64_t g) {
    const cr_substitute_args *s = args;
    const int64_t b = g * CR_FACTOR_LANES, count = cr_imin(CR_FACTOR_LANES, s->x.shape[0] - b);
    return s->x.dtype == CR_F32 ? substitute_group_f32(s, b, count) : substitute_group_f64(s, b, count);
}

static bool are_small(const cr_array *x) {
    return x->shape[0] > 1 && x->shape[1] <= SMALL && x->shape[2] <= 2 * SMALL;
}

cr_status cr_cpu_substitute(const cr_substitute_args *args) {
    const int64_t count = args->x.shape[0], work = args->x.shape[1] * args->x.shape[1] * args->x.shape[2];
    if (are_small(&args->x))
        return run_batch("solve_triangular", args, systems_of, cr_pieces(count, CR_FACTOR_LANES),
                         work * CR_FACTOR_LANES);
    return run_batch("solve_triangular", args, substitute_one, count, work);
}

static bool solutions_of(const void *args, int64_t g) {
    const cr_solve_args *s = args;
    const int64_t b = g * CR_FACTOR_LANES, count = cr_imin(CR_FACTOR_LANES, s->x.shape[0] - b);
    return s->x.dtype == CR_F32 ? solve_group_f32(s, b, count) : solve_group_f64(s, b, count);
}

cr_status cr_cpu_solve(const cr_solve_args *args) {
    const int64_t count = args->x.shape[0], N = args->x.shape[1], work = N * N * (N + 2 * args->x.shape[2]);
    if (are_small(&args->x))
        return run_batch("solve", args, solutions_of, cr_pieces(count, CR_FACTOR_LANES), work * CR_FACTOR_LANES);
    return run_batch("solve", args, solve_one, count, work);
}
