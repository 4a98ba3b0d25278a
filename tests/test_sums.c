/* test_sums.c - how exact long sums are: within 1e-6 of the sum of the magnitudes for 10^8 f32
 * (CHAINRULE_TEST_FULL=1; else 2 10^6), whichever axes are summed and wherever the elements lie;;
 * half precision, which is summed in f32 and rounded once; and variances of numbers far from 0. */
#include "test.h"
#include "use_isa.h"

enum { A, B, C };
/* (n / b / c, b, c): which axes, every step-th of b */
typedef struct sum_case { const char *what; int64_t b, c; unsigned axes; int64_t step; bool turned; } sum_case;
static const sum_case sum_cases[] = {{"all", 1, 1, 1 << A, 1, false},
                                     {"rows", 1, 50021, 1 << C, 1, false},
                                     {"short rows", 1, 997, 1 << C, 1, false},
                                     {"columns", 1, 1009, 1 << A, 1, false},
                                     {"wide columns", 1, 20011, 1 << A, 1, false},
                                     {"few columns", 1, 7, 1 << A, 1, false},
                                     {"a middle axis", 5003, 64, 1 << B, 1, false},
                                     {"outer axes", 101, 211, 1 << A | 1 << C, 1, false},
                                     {"all of a part", 1009, 13, 1 << A | 1 << B | 1 << C, 3, false},
                                     {"rows of a part", 1009, 13, 1 << B | 1 << C, 3, false},
                                     {"rows of a transposed tensor", 1, 1009, 1 << A, 1, true},
                                     {"one axis of a turned tensor", 131, 37, 1 << A, 1, true}};

static uint64_t state;
static float draw(int kind) {                       /* 0: [0, 1), 1: [-1, 1), 2: always the same, so that every
                                                     * addition errs to one side */
    state = state * 6364136223846793005u + 1442695040888963407u;
    float u = (float)(state >> 40) * 0x1p-24f;
    return kind == 0 ? u : kind == 1 ? 2 * u - 1 : 0.1f;
}

static cr_tensor *seen(const cr_tensor *base, const sum_case *k) {
    const cr_tensor *part = cr_slice(base, 1, 0, k->b, k->step);
    return k->turned ? cr_permute(part, CR_LIST(2, 1, 0)) : cr_slice(part, 0, 0, INT64_MAX, 1);
}

static void check_sums(const sum_case *k, int64_t n, int kind) {
    const int64_t a = n / k->b / k->c, shape[3] = {a, k->b, k->c};
    float *x = malloc(sizeof *x * (size_t)(a * k->b * k->c));
    const int64_t kept[3] = {k->axes >> A & 1 ? 1 : a, k->axes >> B & 1 ? 1 : (k->b + k->step - 1) / k->step,
                             k->axes >> C & 1 ? 1 : k->c};
    const int64_t results = kept[0] * kept[1] * kept[2];
    double *sum = calloc((size_t)results, sizeof *sum), *sizes = calloc((size_t)results, sizeof *sizes),
           *got = malloc(sizeof *got * (size_t)results);
    REQUIRE(x && sum && sizes && got, "no memory for %lld numbers", (long long)n);
    for (int64_t i = 0; i < a * k->b * k->c; i++) {
        x[i] = draw(kind);
        int64_t at[3] = {i / k->c / k->b, i / k->c % k->b, i % k->c}, to = 0;
        if (at[1] % k->step) continue;
        at[1] /= k->step;
        for (int d = 0; d < 3; d++) to = to * kept[d] + (kept[d] == 1 ? 0 : at[d]);
        sum[to] += (double)x[i];
        sizes[to] += fabs((double)x[i]);
    }
    cr_scope_begin();
    int64_t axes[3];
    int count = 0;
    for (int d = 0; d < 3; d++) if (k->axes >> d & 1) axes[count++] = k->turned ? 2 - d : d;
    const cr_tensor *y = cr_sum(seen(cr_borrow(x, 3, shape, CR_F32, NULL, NULL), k), count, axes, true);
    if (k->turned) y = cr_permute(y, CR_LIST(2, 1, 0));
    OK(cr_read(y, CR_F64, got, sizeof *got * (size_t)results));
    double worst = 0;
    for (int64_t i = 0; i < results; i++) worst = fmax(worst, fabs(got[i] - sum[i]) / sizes[i]);
    CHECK(worst <= 1e-6, "v%d: sum over %s of %lld numbers of kind %d: an error of %.3g of the sum of magnitudes",
          cr_cpu_isa(), k->what, (long long)n, kind, worst);
    cr_scope_end();
    free(x); free(sum); free(sizes); free(got);
    test_ran_on(cr_cpu());
}

TEST(long_sums) {
    const int64_t n = test_full() ? 100000000 : 2000000;
    const int best = cr_cpu_isa();
    for (int isa = 0; isa <= best; isa++) {
        if (!test_use_isa(isa)) continue;
        for (size_t k = 0; k < sizeof sum_cases / sizeof *sum_cases; k++)
            for (int kind = 0; kind < 3; kind++) check_sums(&sum_cases[k], n, kind);
    }
    test_use_isa(-1);
}

/* Sums, norms and products whose partial results no half precision could hold. */
TEST(half_precision_is_rounded_once) {
    static const struct { cr_dtype dt; double unit; } halves[] = {{CR_F16, 0x1p-11}, {CR_BF16, 0x1p-8}};
    enum { N = 100003 };
    for (int h = 0; h < 2; h++) {
        double v[N], sum = 0, squares = 0, got;
        cr_scope_begin();
        for (int i = 0; i < N; i++) v[i] = (double)draw(0) * 0.5;
        cr_tensor *x = cr_to(cr_from(v, CR_LIST(N), CR_F64, cr_cpu()), halves[h].dt, cr_cpu());
        OK(cr_read(x, CR_F64, v, sizeof v));
        for (int i = 0; i < N; i++) { sum += v[i]; squares += v[i] * v[i]; }
        got = cr_item(cr_sum(x, CR_ALL, false));
        CHECK(fabs(got - sum) <= halves[h].unit * sum + 1e-6 * sum, "sum of %s: %.9g, exactly %.9g",
              cr_dtype_name(halves[h].dt), got, sum);
        got = cr_item(cr_norm(x, 2, CR_ALL, false));
        CHECK(fabs(got - sqrt(squares)) <= (halves[h].unit + 1e-6) * sqrt(squares), "norm of %s: %.9g, exactly %.9g",
              cr_dtype_name(halves[h].dt), got, sqrt(squares));
        cr_tensor *pair = cr_to(cr_from((double[]){30000, 4, 0x1p-14, 0.5}, CR_LIST(4), CR_F64, cr_cpu()), halves[h].dt,
                                cr_cpu());
        double want = cr_item(cr_select(pair, 0, 0)) * 0x1p-13;
        got = cr_item(cr_prod(pair, CR_ALL, false));
        CHECK(fabs(got - want) <= halves[h].unit * want, "product of %s: %.9g, exactly %.9g",
              cr_dtype_name(halves[h].dt), got, want);
        cr_scope_end();
        test_ran_on(cr_cpu());
    }
}

/* Numbers whose mean no f32 holds: the variance is as exact as their deviations.  Rows, columns, few
 * columns, one long row. */
static void check_variance(int64_t rows, int64_t columns, int axis, double mean) {
    const int64_t n = rows * columns, results = axis ? rows : columns, count = n / results;
    float *x = malloc(sizeof *x * (size_t)n);
    double *got = malloc(sizeof *got * (size_t)results), worst = 0;
    REQUIRE(x && got, "no memory for %lld numbers", (long long)n);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(mean + (double)draw(1));
    cr_scope_begin();
    const cr_tensor *t = cr_borrow(x, 2, (const int64_t[]){rows, columns}, CR_F32, NULL, NULL);
    OK(cr_read(cr_var(t, 1, (const int64_t[]){axis}, 1, false), CR_F64, got, sizeof *got * (size_t)results));
    for (int64_t k = 0; k < results; k++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < count; i++) sum += (double)x[axis ? k * columns + i : i * columns + k];
        for (int64_t i = 0; i < count; i++) {
            const double d = (double)x[axis ? k * columns + i : i * columns + k] - sum / (double)count;
            squares += d * d;
        }
        worst = fmax(worst, fabs(got[k] * (double)(count - 1) / squares - 1));
    }
    CHECK(worst <= 1e-6, "v%d: var of (%lld, %lld) over axis %d about %g: relative error %.3g", cr_cpu_isa(),
          (long long)rows, (long long)columns, axis, mean, worst);
    cr_scope_end();
    free(x); free(got);
    test_ran_on(cr_cpu());
}

TEST(variance_far_from_0) {
    const int best = cr_cpu_isa();
    for (int isa = 0; isa <= best; isa++) {
        if (!test_use_isa(isa)) continue;
        for (double mean = 1; mean < 1e7; mean *= 1000) {
            check_variance(31, 1009, 1, mean);
            check_variance(1009, 131, 0, mean);
            check_variance(5003, 3, 0, mean);
            check_variance(1, 300007, 1, mean);
        }
    }
    test_use_isa(-1);
}
