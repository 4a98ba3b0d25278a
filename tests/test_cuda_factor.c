/* test_cuda_factor.c - factors of matrices on an NVIDIA GPU, or a simulated one, against the cpu's: small matrices by
 * our own kernels, large ones by cuSOLVER, or on the host where it is switched off. */
#define CR_TEST_CUDA
#include "test.h"

#include "cudasim/control.h"
#include "dev/cuda/gpu.h"
#include "said_by.h"

static const cr_device *dev(void) { return cr_cuda(0); }
static const cuda_counters *counters(void) { return &((cuda *)(uintptr_t)cr_cuda(0))->counters; }
static bool has_solver(void) { return cr_cuda_factors(dev(), CR_FACTOR_SVD, 1, 99, 99); }
static double tolerance(cr_dtype dt) { return dt == CR_F64 ? 1e-12 : 1e-4; }

/* The largest difference, relative to the largest expected number. */
static double off(const cr_tensor *x, const cr_tensor *want) {
    if (!x || !want || !cr_numel(want)) return x && want ? 0 : NAN;
    test_ran_on(cr_device_of(x));
    const cr_tensor *y = cr_to(x, CR_F64, cr_cpu()), *z = cr_to(want, CR_F64, cr_cpu());
    return cr_item(cr_max(cr_abs(cr_sub(y, z)), CR_ALL, false)) / (1e-300 + cr_item(cr_max(cr_abs(z), CR_ALL, false)));
}
static void near(const cr_tensor *x, const cr_tensor *want, const char *what, const cr_tensor *of, double factor) {
    const cr_dtype dt = cr_dtype_of(of);
    const double error = off(x, want);
    CHECK(error <= factor * tolerance(dt), "%s of %s %s: off by %g, %s", what, cr_dtype_name(dt),
          cr_shape_text(cr_ndim(of), cr_shape(of)).s, error, cr_error() ? cr_error() : "no error");
}
static cr_tensor *turned(const cr_tensor *x) { return cr_transpose(x, -1, -2); }
static cr_tensor *on_cpu(const cr_tensor *x) { return cr_to(x, cr_dtype_of(x), cr_cpu()); }

static cr_tensor *random_of(int ndim, const int64_t *shape, cr_dtype dt, cr_generator *g) {
    return cr_to(cr_randn(ndim, shape, dt, cr_cpu(), g), dt, dev());
}
/* x x^T + 1 */
static cr_tensor *positive(const cr_tensor *x) {
    const int64_t N = cr_shape(x)[cr_ndim(x) - 2];
    return cr_add(cr_matmul(x, turned(x)), cr_eye(N, N, cr_dtype_of(x), cr_device_of(x)));
}

static void check_cholesky_and_lu(const cr_tensor *x, bool square) {
    cr_tensor *pivots, *order, *pivots_of_cpu, *order_of_cpu;
    near(cr_lu_factor(x, &pivots, &order), cr_lu_factor(on_cpu(x), &pivots_of_cpu, &order_of_cpu), "LU", x, 30);
    CHECK(off(pivots, pivots_of_cpu) == 0 && off(order, order_of_cpu) == 0, "pivots or order differ");
    if (!square) return;
    const cr_tensor *a = positive(x);
    near(cr_cholesky(a), cr_cholesky(on_cpu(a)), "Cholesky", x, 10);
    const int64_t N = cr_shape(x)[cr_ndim(x) - 1];
    const cr_tensor *b = cr_slice(turned(x), -1, 0, (N + 1) / 2, 1);
    near(cr_solve(a, b, NULL), cr_solve(on_cpu(a), on_cpu(b), NULL), "solve", x, 1000);
    for (int how = 0; how < 4; how++) {
        const cr_tensor *t = how & 2 ? cr_mul_scalar(x, 1.0 / (double)N) : a;      /* with ones on the diagonal */
        near(cr_solve_triangular(t, b, how & 1, how & 2), cr_solve_triangular(on_cpu(t), on_cpu(b), how & 1, how & 2),
             how & 1 ? "upper" : "lower", x, 100);
    }
}

static void check_others(const cr_tensor *x, bool square) {
    cr_tensor *r, *r_of_cpu, *s, *v, *vectors;
    const cr_tensor *q = cr_qr(x, &r), *q_of_cpu = cr_qr(on_cpu(x), &r_of_cpu);
    near(q, q_of_cpu, "Q", x, 30);
    near(r, r_of_cpu, "R", x, 30);
    const cr_tensor *u = cr_svd(x, &s, &v);
    cr_tensor *s_of_cpu;
    cr_svd(on_cpu(x), &s_of_cpu, NULL);
    near(s, s_of_cpu, "singular values", x, 1);
    near(cr_svdvals(x), s_of_cpu, "singular values without vectors", x, 1);
    near(cr_matmul(cr_mul(u, cr_unsqueeze(s, -2)), turned(v)), x, "SVD", x, 10);
    const int64_t K = cr_shape(u)[cr_ndim(u) - 1];
    const cr_tensor *gram = cr_matmul(turned(u), u), *one = cr_eye(K, K, cr_dtype_of(x), dev());
    near(gram, cr_expand(one, cr_ndim(x), cr_shape(gram)), "U^T U", x, 10);
    if (!square) return;
    const cr_tensor *a = cr_add(x, turned(x)), *w = cr_eigh(a, &vectors);
    near(w, cr_eigh(on_cpu(a), NULL), "eigenvalues", x, 10);
    near(cr_matmul(cr_mul(vectors, cr_unsqueeze(w, -2)), turned(vectors)), a, "eigh", x, 10);
    near(cr_eigh(cr_tril(a, 0), NULL), w, "eigenvalues of the lower triangle", x, 10);
    near(cr_eigvalsh(cr_tril(a, 0)), w, "eigenvalues without vectors", x, 10);
}

TEST(factors) {
    static const struct { int ndim; int64_t shape[4]; } of[] = {
        {2, {1, 1}},     {2, {7, 7}},    {3, {5, 8, 8}},  {2, {32, 32}}, {2, {33, 33}},    {3, {2, 41, 41}},
        {2, {101, 101}}, {2, {32, 5}},   {2, {5, 31}},    {2, {67, 33}}, {3, {3, 35, 4}},  {2, {29, 65}},
        {4, {3, 2, 3, 2}}, {3, {0, 40, 40}}, {2, {0, 40}}};
    cr_generator *g = cr_generator_new(test_seed());
    for (int dt = CR_F32; dt <= CR_F64; dt++)
        for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
            cr_scope_begin();
            const int64_t *s = of[i].shape, n = of[i].ndim;
            const cr_tensor *x = random_of(of[i].ndim, s, (cr_dtype)dt, g);
            check_cholesky_and_lu(x, s[n - 1] == s[n - 2]);
            check_others(x, s[n - 1] == s[n - 2]);
            cr_scope_end();
        }
    cr_generator_free(g);
}

/* Nothing is copied to the host; only large matrices need cuSOLVER. */
TEST(places) {
    cr_generator *g = cr_generator_new(test_seed());
    cr_scope_begin();
    for (int large = 0; large < 2; large++) {
        const int64_t N = large ? 33 : 32, factored = counters()->factored, downloads = counters()->downloads;
        const cr_tensor *x = random_of(3, (int64_t[]){3, N, N}, CR_F32, g), *a = positive(x);
        const bool here = cr_cholesky(a) && cr_lu_factor(a, NULL, NULL) && cr_solve(a, x, NULL);
        CHECK(here, "%s", cr_error());
        CHECK(counters()->factored - factored == (large && has_solver() ? 9 : 0), "N = %lld: %lld calls of cuSOLVER",
              (long long)N, (long long)(counters()->factored - factored));
        CHECK((counters()->downloads == downloads) == (!large || has_solver()), "N = %lld: copies to the host",
              (long long)N);
        const int64_t before = counters()->downloads;
        CHECK(cr_solve_triangular(a, x, false, false), "%s", cr_error());
        CHECK(counters()->downloads == before, "a triangular system is copied to the host");
        test_ran_on(dev());
    }
    cr_scope_end();
    cr_generator_free(g);
}

static cr_tensor *eigenvalues(int n, const cr_tensor *const *in, void *ctx) {
    (void)n, (void)ctx;
    cr_tensor *v, *w = cr_eigh(cr_add(in[0], turned(in[0])), &v);
    return cr_cat(2, (const cr_tensor *[]){cr_mul(v, v), cr_unsqueeze(w, -2)}, -2);
}
static cr_tensor *singular(int n, const cr_tensor *const *in, void *ctx) {
    (void)n, (void)ctx;
    cr_tensor *s, *v, *u = cr_svd(in[0], &s, &v);
    return cr_cat(3, (const cr_tensor *[]){cr_mul(u, u), cr_unsqueeze(s, -2), cr_mul(v, v)}, -2);
}
static cr_tensor *q_and_r(int n, const cr_tensor *const *in, void *ctx) {
    (void)n, (void)ctx;
    cr_tensor *r, *q = cr_qr(in[0], &r);
    return cr_cat(2, (const cr_tensor *[]){q, r}, -2);
}
static cr_tensor *solution(int n, const cr_tensor *const *in, void *ctx) {
    (void)n, (void)ctx;
    return cr_solve(in[0], in[1], NULL);
}

TEST(gradients) {
    static cr_tensor *(*const fn[])(int, const cr_tensor *const *, void *) = {eigenvalues, singular, q_and_r, solution};
    cr_generator *g = cr_generator_new(test_seed());
    for (int i = 0; i < 4; i++) {
        cr_scope_begin();
        const int64_t N = i == 3 ? 34 : 5, M = i == 0 || i == 3 ? N : 6;
        cr_tensor *x = random_of(2, (int64_t[]){M, N}, CR_F64, g), *b = random_of(2, (int64_t[]){N, 2}, CR_F64, g);
        if (i == 3) x = positive(x);
        const cr_tensor *in[] = {cr_requires_grad_(x, true), cr_requires_grad_(b, true)};
        OK(cr_gradcheck(fn[i], NULL, i == 3 ? 2 : 1, in, NULL));
        if (i != 3) OK(cr_gradgradcheck(fn[i], NULL, 1, in, NULL));
        test_ran_on(dev());
        cr_scope_end();
    }
    cr_generator_free(g);
}

/* x with x[b, i, j] = v */
static cr_tensor *with(const cr_tensor *x, int64_t b, int64_t i, int64_t j, double v) {
    cr_tensor *y = cr_clone(on_cpu(x));
    cr_fill_(cr_select(cr_select(cr_select(y, 0, b), 0, i), 0, j), v);
    return cr_to(y, cr_dtype_of(x), dev());
}
static int64_t nans(const cr_tensor *x) { return (int64_t)cr_item(cr_sum(cr_isnan(x), CR_ALL, false)); }

/* A bad matrix of a batch is NaN; the others are as they are alone. */
TEST(bad_matrices) {
    cr_generator *g = cr_generator_new(test_seed());
    for (int64_t N = 9; N <= 40; N += 31) {
        cr_scope_begin();
        const cr_tensor *x = random_of(3, (int64_t[]){3, N, N}, CR_F64, g), *a = positive(x);
        const double odd[] = {NAN, INFINITY};
        for (int k = 0; k < 2; k++) {
            cr_tensor *v, *s, *u;
            const cr_tensor *w = cr_eigh(with(a, 1, 4, 3, odd[k]), &v), *want = cr_eigh(a, NULL);
            CHECK(nans(w) == N && nans(v) == N * N, "eigh: %lld values, %lld of vectors", (long long)nans(w),
                  (long long)nans(v));
            CHECK(off(cr_select(w, 0, 2), cr_select(want, 0, 2)) < 1e-12, "the matrix after it");
            CHECK(!nans(cr_eigh(with(a, 1, 3, 4, odd[k]), NULL)), "the upper triangle is not read");
            u = cr_svd(with(x, 1, 4, 3, odd[k]), &s, &v);
            if (N > 32 && has_solver())
                CHECK(nans(s) == N && nans(u) == N * N && nans(v) == N * N, "svd: %lld values", (long long)nans(s));
            CHECK(nans(s), "the singular values of %g are numbers", odd[k]);
        }
        const cr_tensor *bad = with(a, 2, 5, 5, -1), *L = cr_cholesky(bad);
        CHECK(cr_item(cr_all(cr_eq(cr_isnan(on_cpu(L)), cr_isnan(cr_cholesky(on_cpu(bad)))), CR_ALL, false)) == 1 &&
                  nans(L) > 0, "Cholesky is NaN from the pivot on");
        CHECK(off(cr_select(L, 0, 1), cr_cholesky(cr_select(a, 0, 1))) < 1e-12, "the matrix before it");
        const cr_tensor *flat = cr_zeros(CR_LIST(2, N, N), CR_F64, dev());
        cr_tensor *pivots, *order;
        CHECK(off(cr_lu_factor(flat, &pivots, &order), flat) < 1, "LU of zeros: %s", cr_error());
        const cr_tensor *rows = cr_arange(0, (double)N, 1, CR_I64, dev());
        CHECK(off(order, cr_expand(rows, 2, (int64_t[]){2, N})) == 0, "their order");
        cr_scope_end();
    }
    cr_generator_free(g);
}

/* A workspace that cuSOLVER does not get is an error once, and nothing is held. */
TEST(failures_of_cusolver) {
    int (*fail)(const char *, int);
    void (*mend)(void);
    if (!test_simulator("cudasim_fail", &fail) || !test_simulator("cudasim_mend", &mend)) SKIP("no simulator");
    if (!has_solver()) SKIP("no cuSOLVER");
    cr_generator *g = cr_generator_new(test_seed());
    cr_scope_begin();
    const cr_tensor *x = random_of(2, (int64_t[]){50, 40}, CR_F32, g), *a = positive(x);
    cr_memory before, after;
    cr_tensor *s;
    CHECK(cr_svd(x, &s, NULL) && cr_qr(x, NULL) && cr_eigh(a, NULL) && cr_cholesky(a) && cr_lu_factor(a, NULL, NULL),
          "%s", cr_error());
    before = cr_memory_stats(dev());
    for (int i = 0; i < 5; i++) {
        cr_empty_cache(dev());                      /* else it is freed, and cuSOLVER tries again */
        fail(i < 3 ? "solver" : "launch", i < 3 ? 1 : 2);
        cr_scope_begin();
        FAILS(i < 3 ? CR_NO_MEMORY : CR_RUNTIME, i < 3 ? "fails with error 2" : "cuda:0",
              i == 0 ? cr_svd(x, &s, NULL) : i == 1 ? cr_eigh(a, NULL) : i == 2 ? cr_cholesky(a)
              : i == 3 ? cr_lu_factor(a, NULL, NULL) : cr_qr(x, NULL));
        mend();
        cr_scope_end();
        after = cr_memory_stats(dev());
        CHECK(after.current == before.current, "case %d holds %lld bytes", i,
              (long long)(after.current - before.current));
        CHECK(cr_svd(x, &s, NULL), "%s", cr_error());
        test_ran_on(dev());
        before = cr_memory_stats(dev());
    }
    cr_scope_end();
    cr_generator_free(g);
}

/* Without cuSOLVER large matrices go to the cpu; small ones stay. */
TEST(without_cusolver) {
#ifdef CHAINRULE_CUDASIM
    static const char *const how[] = {"CHAINRULE_CUSOLVER=off", "CHAINRULE_CUSOLVER=/nowhere/libcusolver.so.12",
                                      "CHAINRULE_CUSOLVER=libm.so.6", "CUDASIM_FAIL=solver:1"};
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *said = said_by(how[i], "places");
        CHECK(strstr(said, "1 passed"), "%s: said %s", how[i], said);
        test_ran_on(dev());
    }
    const char *said = said_by("CHAINRULE_CUSOLVER=off CHAINRULE_CUBLASLT=off", "factors");
    CHECK(strstr(said, "1 passed"), "off: said %s", said);
#else
    SKIP("no simulator");
#endif
}

TEST(info) {
    CHECK(strstr(cr_device_info(dev()), cr_solver_ready() ? ", cuSOLVER" : ", large factors on the host ("), "%s",
          cr_device_info(dev()));
    test_ran_on(dev());
}
