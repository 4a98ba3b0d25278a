/* test_half.c - f16 and bf16 compute in f32 (ref: in double) and round once, to nearest and ties to
 * even: every elementwise row, products and sums, against the wide result rounded by a search among
 * all numbers of the dtype. */
#include "test.h"
#include "core/tensor.h"
#include "dev/dev.h"
#include "ops/elementwise_tests.gen.h"

static const cr_dtype halves[] = {CR_F16, CR_BF16};
static const cr_device *devices[2];
static void find_devices(void) { devices[0] = cr_cpu(); devices[1] = cr_ref(); }

static double value_of(uint16_t bits, cr_dtype dt) { return cr_load_f64(&bits, dt); }

/* The bits of the number nearest to |v|, of two the even one.  Behind the largest comes what would be
 * the next: it stands for infinity. */
static uint16_t nearest(double v, cr_dtype dt) {
    const uint16_t infinity = dt == CR_F16 ? 0x7c00 : 0x7f80, sign = signbit(v) ? 0x8000 : 0;
    const double next = dt == CR_F16 ? 65536 : 0x1p128, a = fabs(v);
    uint32_t low = 0, high = infinity;              /* value(low) <= a < value(high) */
    if (isnan(v) || a >= next) return isnan(v) ? infinity | 1 : sign | infinity;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (value_of((uint16_t)middle, dt) <= a) low = middle;
        else high = middle;
    }
    const double below = a - value_of((uint16_t)low, dt),
                 above = (high == infinity ? next : value_of((uint16_t)high, dt)) - a;
    return (uint16_t)(sign | (below < above || (below == above && low % 2 == 0) ? low : high));
}

static bool is_nan(uint16_t bits, cr_dtype dt) { return isnan(value_of(bits, dt)); }

/* got: halves; wide: what they are roundings of.  Frees neither. */
static void check_rounded(const char *what, const cr_device *dev, const cr_tensor *got, const cr_tensor *wide) {
    const cr_dtype dt = cr_dtype_of(got);
    const int64_t n = cr_numel(got);
    uint16_t *bits = malloc(sizeof *bits * (size_t)n);
    double *want = malloc(sizeof *want * (size_t)n);
    OK(cr_read(got, dt, bits, sizeof *bits * (size_t)n));
    OK(cr_read(wide, CR_F64, want, sizeof *want * (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        const uint16_t right = nearest(want[i], dt);
        CHECK(bits[i] == right || (is_nan(bits[i], dt) && isnan(want[i])),
              "%s of %s on %s, element %lld: %.9g is not %.17g rounded, %.9g", what, cr_dtype_name(dt),
              cr_device_name(dev), (long long)i, value_of(bits[i], dt), want[i], value_of(right, dt));
    }
    free(bits);
    free(want);
    test_ran_on(dev);
}

/* The dtype in which a device computes: wide enough that only its result is rounded. */
static cr_dtype wide_of(const cr_device *dev) { return dev == cr_ref() ? CR_F64 : CR_F32; }
static cr_tensor *wide(const cr_tensor *x) { return cr_to(x, wide_of(cr_device_of(x)), cr_device_of(x)); }

/* ---- elementwise rows: every number there is, or pairs drawn from them all */
static void check_row(int row, cr_dtype dt, const cr_device *dev, const cr_tensor *every) {
    const elementwise_test *t = &elementwise_tests[row];
    const cr_program *p = cr_program_at(row);
    const cr_tensor *in[3], *wide_in[3];
    if (p->rule == CR_RULE_BITS) return;
    cr_scope_begin();
    for (int k = 0; k < t->n_in; k++) {             /* in another order for each: i times an odd number */
        const int64_t n = cr_numel(every), step = (const int64_t[]){1, 40503, 10007}[k];
        int64_t *index = malloc(sizeof *index * (size_t)n);
        for (int64_t i = 0; i < n; i++) index[i] = i * step % n;
        in[k] = cr_gather(every, 0, cr_from(index, 1, &n, CR_I64, dev));
        free(index);
        if (k == 0 && p->rule == CR_RULE_WHERE) in[k] = cr_gt(in[k], cr_scalar(0));
        wide_in[k] = k == 0 && p->rule == CR_RULE_WHERE ? in[k] : wide(in[k]);
    }
    cr_tensor *got = t->call(in, t->params), *want = t->call(wide_in, t->params);
    REQUIRE(got && want, "%s of %s on %s: %s", t->name, cr_dtype_name(dt), cr_device_name(dev), cr_error());
    if (cr_dtype_of(got) == CR_BOOL)
        CHECK(cr_item(cr_max(cr_ne(got, want), CR_ALL, false)) == 0, "%s of %s on %s", t->name, cr_dtype_name(dt),
              cr_device_name(dev));
    else check_rounded(t->name, dev, got, want);
    cr_scope_end();
}

TEST(half_rows) {
    static uint16_t bits[1 << 16];
    find_devices();
    for (int i = 0; i < 1 << 16; i++) bits[i] = (uint16_t)i;
    for (int h = 0; h < 2; h++)
        for (int d = 0; d < 2; d++) {               /* ref is slow: every 17th */
            cr_scope_begin();
            cr_tensor *all = cr_from(bits, CR_LIST(1 << 16), halves[h], devices[d]),
                      *every = devices[d] == cr_ref() && !test_full() ? cr_slice(all, 0, 0, 1 << 16, 17) : all;
            for (int row = 0; row < CR_ROW_COUNT; row++) check_row(row, halves[h], devices[d], every);
            cr_scope_end();
        }
}

TEST(half_casts) {
    enum { N = 1 << 16 };
    static float x[N];
    find_devices();
    uint32_t w[4];
    for (int i = 0; i < N; i += 4) {
        cr_philox(test_seed(), (uint64_t)i, w);
        for (int k = 0; k < 4; k++) {               /* half of them are ties, of f16 or of bf16, or beside one */
            const uint32_t tie = k % 2 ? 0x1000u : 0x8000u;
            uint32_t u = i % 8 ? w[k] : (w[k] & ~(2 * tie - 1)) + tie * (w[k] & 1) + (w[k] >> 1 & 1);
            memcpy(&x[i + k], &u, 4);
        }
    }
    for (int h = 0; h < 2; h++)
        for (int d = 0; d < 2; d++) {
            cr_scope_begin();
            cr_tensor *f = cr_from(x, CR_LIST(N), CR_F32, devices[d]);
            check_rounded("cast", devices[d], cr_to(f, halves[h], devices[d]), f);
            /* as f32 a tie again, which it is not */
            cr_tensor *beside = cr_mul_scalar(cr_to(cr_slice(f, 0, 0, N, 5), CR_F64, devices[d]), 1 + 0x1p-40);
            cr_tensor *apart = cr_slice(beside, 0, 0, N, 2);
            check_rounded("cast from float64", devices[d], cr_to(beside, halves[h], devices[d]), beside);
            check_rounded("strided cast from float64", devices[d], cr_to(apart, halves[h], devices[d]), apart);
            cr_scope_end();
        }
}

/* ---- products and sums of small whole numbers, which are exact in f32 in every order: only the last
 * rounding is left */
static cr_tensor *whole(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    return cr_to(cr_randint(-13, 14, n, shape, CR_I32, dev, g), dt, dev);
}

TEST(half_products) {
    static const int64_t sizes[][3] = {{1, 37, 300}, {37, 1, 300},  {1, 1, 40},     {5, 7, 11},
                                       {3, 6, 130},  {33, 40, 300}, {130, 70, 300}, {16, 16, 16}};
    find_devices();
    cr_generator *g = cr_generator_new(test_seed());
    for (int h = 0; h < 2; h++)
        for (int d = 0; d < 2; d++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                const cr_device *dev = devices[d];
                cr_scope_begin();
                cr_tensor *a = whole(CR_LIST(2, m, k), halves[h], dev, g),
                          *b = whole(CR_LIST(2, k, n), halves[h], dev, g), *bias = whole(CR_LIST(n), halves[h], dev, g);
                cr_tensor *w = cr_transpose(cr_select(b, 0, 0), 0, 1);
                check_rounded("matmul", dev, cr_matmul(a, b), cr_matmul(wide(a), wide(b)));
                check_rounded("linear", dev, cr_linear(a, w, bias),
                              cr_linear(wide(a), wide(w), wide(bias)));
                check_rounded("sum", dev, cr_sum(a, CR_LIST(1, 2), false), cr_sum(wide(a), CR_LIST(1, 2), false));
                check_rounded("sum", dev, cr_sum(a, CR_LIST(0), false), cr_sum(wide(a), CR_LIST(0), false));
                check_rounded("mean", dev, cr_mean(a, CR_LIST(-1), false),
                              cr_mean(cr_to(a, CR_F32, dev), CR_LIST(-1), false));
                cr_scope_end();
            }
    cr_generator_free(g);
}
