/* factor.c - factorizations of matrices and triangular solves: Cholesky, LU with partial pivoting, QR by reflections,
 * symmetric eigenvalues and SVD by Jacobi rotations, of more than 64 columns by LAPACK where it is found; values without
 * vectors by reflections and the QL method.
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

/* The eigenvalues of a symmetric tridiagonal matrix by the QL method without square roots (Pal, Walker and Kahan; Parlett,
 * The Symmetric Eigenvalue Problem, 8.15): of the diagonal d (n) and the squares e (n - 1) beside it; d has them after
 * that, in no order.  False: no convergence. */
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
    return args->kind != CR_FACTOR_QR && args->kind < CR_FACTOR_EIGVALSH && args->x.shape[1] <= SMALL && args->x.shape[2] <= SMALL;
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
