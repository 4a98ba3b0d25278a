/* test_params.c - parameter sets, gradient clipping, initialisers. */
#include "test.h"

static double *values(const cr_tensor *t) {         /* freed by the caller */
    const size_t bytes = (size_t)cr_numel(t) * sizeof(double);
    double *v = malloc(bytes + 1);
    if (!v) exit(9);
    OK(cr_read(t, CR_F64, v, bytes));
    return v;
}

static cr_tensor *fresh(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev) {
    return cr_requires_grad_(cr_zeros(n, shape, dt, dev), true);
}

/* ---- sets */
TEST(params_names) {
    cr_params *p = cr_params_new();
    cr_tensor *t = cr_zeros(CR_LIST(2, 3), CR_F32, cr_cpu()), *u = cr_zeros(CR_LIST(5), CR_F32, cr_cpu());
    char name[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "h.%d.weight", i * 7919 % 1000);
        OK(cr_params_add(p, name, i % 2 ? t : u));
    }
    CHECK(cr_params_count(p) == 1000 && cr_params_numel(p) == 11, "%lld names, %lld elements",
          (long long)cr_params_count(p), (long long)cr_params_numel(p));
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "h.%d.weight", i * 7919 % 1000);
        CHECK(!strcmp(cr_params_name(p, i), name) && cr_params_at(p, i) == (i % 2 ? t : u) &&
                  cr_params_get(p, name) == cr_params_at(p, i),
              "%s", name);
    }
    FAILS(CR_BAD_VALUE, "no tensor is named 'h.1000.weight' among 1000", cr_params_get(p, "h.1000.weight"));
    FAILS(CR_BAD_VALUE, "'h.3.weight' is already used", cr_params_add(p, "h.3.weight", t));
    FAILS(CR_BAD_VALUE, "may not be empty", cr_params_add(p, "", t));
    FAILS(CR_BAD_VALUE, "not UTF-8 at byte 1 of 3", cr_params_add(p, "a\xc0\xaf", t));
    FAILS(CR_BAD_VALUE, "not UTF-8 at byte 0 of 3", cr_params_add(p, "\xed\xa0\x80", t));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_params_add(p, "none", (cr_tensor *)(uintptr_t)CR_NONE));
    FAILS(CR_BAD_VALUE, "NULL", cr_params_add(p, "x", NULL));
    FAILS(CR_BAD_VALUE, "NULL", cr_params_add(p, NULL, t));
    FAILS(CR_BAD_VALUE, "NULL", cr_params_add(NULL, "x", t));
    FAILS(CR_BAD_INDEX, "index 1000 is not in [0, 1000)", cr_params_at(p, 1000));
    FAILS(CR_BAD_INDEX, "index -1", cr_params_name(p, -1));
    FAILS(CR_BAD_VALUE, "NULL", cr_params_count(NULL));
    CHECK(cr_params_count(p) == 1000, "a refused name was added");
    OK(cr_params_add(p, "\xe2\x88\x9a", t));
    cr_params_free(p);
    CHECK(cr_numel(t) == 6, "the tensor went with the set");
    cr_release(t);
    cr_release(u);
}

TEST(params_and_scopes) {                           /* the set's references are its own, whatever scopes do */
    const int64_t before = cr_memory_stats(cr_cpu()).current;
    cr_params *p = cr_params_new();
    cr_scope_begin();
    OK(cr_params_add(p, "w", cr_full(CR_LIST(3), 7, CR_F32, cr_cpu())));
    cr_scope_end();
    double *v = values(cr_params_get(p, "w"));
    CHECK(v[2] == 7, "%g after the scope", v[2]);
    free(v);
    cr_params_free(p);
    cr_scope_begin();
    p = cr_params_new();
    cr_tensor *t = cr_full(CR_LIST(3), 7, CR_F32, cr_cpu());
    OK(cr_params_add(p, "w", t));
    cr_params_free(p);                              /* inside the scope that owns the tensor */
    CHECK(cr_numel(t) == 3, "the scope's tensor is gone");
    cr_scope_end();
    CHECK(cr_memory_stats(cr_cpu()).current == before, "%lld bytes stay",
          (long long)(cr_memory_stats(cr_cpu()).current - before));
}

TEST(params_copy) {
    cr_params *a = cr_params_new(), *b = cr_params_new();
    cr_tensor *w = fresh(CR_LIST(2, 3), CR_F32, cr_cpu()), *from = cr_full(CR_LIST(2, 3), 2.5, CR_F64, cr_ref()),
              *other = cr_zeros(CR_LIST(3, 2), CR_F32, cr_cpu());
    OK(cr_params_add(a, "w", w));
    OK(cr_params_add(b, "w", from));
    OK(cr_params_copy(a, b));                       /* across devices and dtypes, into a leaf */
    double *v = values(w);
    CHECK(v[0] == 2.5 && v[5] == 2.5, "%g %g", v[0], v[5]);
    free(v);
    OK(cr_params_add(a, "bias", other));
    OK(cr_params_add(a, "gone", other));
    OK(cr_params_add(b, "bias", from));
    OK(cr_params_add(b, "extra", from));
    FAILS(CR_BAD_VALUE, "'bias' is (2, 3) instead of (3, 2), 'gone' is missing, 'extra' is not wanted",
          cr_params_copy(a, b));
    cr_params *flat = cr_params_new(), *deep = cr_params_new();
    cr_tensor *axes = cr_zeros(CR_LIST(2, 3, 1), CR_F32, cr_cpu());
    OK(cr_params_add(flat, "w", w));
    OK(cr_params_add(deep, "w", axes));
    FAILS(CR_BAD_VALUE, "'w' is (2, 3, 1) instead of (2, 3)", cr_params_copy(flat, deep));
    char name[32];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "layer.%d.weight", i);
        OK(cr_params_add(a, name, other));
    }
    OK(cr_params_add(a, "x", other));               /* short, behind one that is left out */
    FAILS(CR_BAD_VALUE, " more", cr_params_copy(a, b));
    (void)cr_params_copy(a, b);
    CHECK(!strstr(cr_error(), "'x'") && !strstr(cr_error(), "extra"), "a list with a hole: %s", cr_error());
    cr_params_free(flat);
    cr_params_free(deep);
    cr_release(axes);
    FAILS(CR_BAD_VALUE, "NULL", cr_params_copy(a, NULL));
    cr_params_free(a);
    cr_params_free(b);
    cr_release(w); cr_release(from); cr_release(other);
}

/* ---- gradients */
TEST(clip_grad_norm) {
    for (int d = 0; cr_device_at(d); d++) {
        const cr_device *dev = cr_device_at(d);
        cr_params *p = cr_params_new();
        cr_tensor *a = fresh(CR_LIST(1031, 7), CR_F32, dev), *b = fresh(CR_LIST(5), CR_F64, dev),
                  *h = fresh(CR_LIST(3), CR_F16, dev), *none = fresh(CR_LIST(2), CR_F32, dev);
        OK(cr_params_add(p, "a", a));
        OK(cr_params_add(p, "tied", a));
        OK(cr_params_add(p, "b", b));
        OK(cr_params_add(p, "h", h));
        OK(cr_params_add(p, "none", none));
        cr_tensor *ga = cr_full(CR_LIST(1031, 7), 0.5, CR_F32, dev), *gb = cr_full(CR_LIST(5), -2, CR_F64, dev),
                  *gh = cr_full(CR_LIST(3), 300, CR_F16, dev);
        OK(cr_set_grad(a, ga)); OK(cr_set_grad(b, gb)); OK(cr_set_grad(h, gh));
        const double want = sqrt(1031 * 7 * 0.25 + 5 * 4 + 3 * 90000.0);        /* 300^2 is beyond f16 */
        double norm = 0, again = 0;
        OK(cr_params_clip_grad_norm(p, INFINITY, &norm));
        CHECK(fabs(norm - want) < 1e-6 * want, "norm %.9g, wanted %.9g", norm, want);
        OK(cr_params_clip_grad_norm(p, 1.0, &norm));
        CHECK(fabs(norm - want) < 1e-6 * want, "norm %.9g, wanted %.9g", norm, want);
        double *v = values(cr_grad(b));
        CHECK(fabs(v[4] * (want + 1e-6) + 2) < 4e-6, "gradient %.9g, wanted %.9g", v[4], -2 / want);
        free(v);
        OK(cr_params_clip_grad_norm(p, 2.0, &again));
        CHECK(fabs(again - 1) < 1e-3, "norm %.9g after clipping to 1", again);  /* f16 rounds its share */
        v = values(cr_grad(b));
        CHECK(fabs(v[4] * (want + 1e-6) + 2) < 4e-6, "a norm below the limit was scaled: %.9g", v[4]);
        free(v);
        CHECK(cr_is_none(cr_grad(none)), "a gradient appeared");
        cr_params_zero_grad(p);
        CHECK(cr_is_none(cr_grad(a)) && cr_is_none(cr_grad(b)), "gradients stay");
        OK(cr_params_clip_grad_norm(p, 1.0, &norm));
        CHECK(norm == 0, "norm %g without gradients", norm);
        cr_tensor *g = cr_full(CR_LIST(3), 1, CR_F32, dev), *half = cr_full(CR_LIST(2), 1, CR_F16, cr_cpu());
        OK(cr_scale_grads(5, (cr_tensor *[]){g, half, g, half, g}, 2));         /* each as often as it stands there */
        double *three = values(g), *two = values(half);
        CHECK(three[2] == 8 && two[1] == 4, "scaled by 2 three and two times: %g and %g", three[2], two[1]);
        free(three); free(two);
        cr_release(g); cr_release(half);
        cr_tensor *small = cr_full(CR_LIST(5), 0, CR_F64, dev);
        OK(cr_set_grad(b, small));
        OK(cr_params_clip_grad_norm(p, 0, &norm));
        v = values(cr_grad(b));
        CHECK(norm == 0 && v[4] == 0, "a gradient of 0 clipped to 0 is %g", v[4]);
        free(v);
        cr_release(small);
        test_ran_on(dev);
        cr_params_free(p);
        cr_release(a); cr_release(b); cr_release(h); cr_release(none); cr_release(ga); cr_release(gb); cr_release(gh);
    }
    cr_params *p = cr_params_new();
    FAILS(CR_BAD_VALUE, "at least 0, not -1", cr_params_clip_grad_norm(p, -1, NULL));
    FAILS(CR_BAD_VALUE, "not nan", cr_params_clip_grad_norm(p, NAN, NULL));
    OK(cr_scale_grads(0, NULL, 2));
    FAILS(CR_BAD_VALUE, "gradient", cr_scale_grads(1, (cr_tensor *[]){NULL}, 2));
    FAILS(CR_BAD_VALUE, "NULL", cr_params_clip_grad_norm(NULL, 1, NULL));
    cr_params_free(p);
}

TEST(clip_grad_norm_on_two_devices) {
    cr_params *p = cr_params_new();
    cr_scope_begin();
    for (int i = 0; i < 6; i++) {
        const cr_device *dev = i % 3 ? cr_cpu() : cr_ref();
        cr_tensor *t = fresh(CR_LIST(1), CR_F32, dev);
        OK(cr_params_add(p, (const char *const[]){"a", "b", "c", "d", "e", "f"}[i], t));
        OK(cr_set_grad(t, cr_full(CR_LIST(1), i, CR_F32, dev)));
    }
    cr_scope_end();
    double norm = 0;
    OK(cr_params_clip_grad_norm(p, 1, &norm));
    CHECK(fabs(norm - sqrt(55)) < 1e-6, "norm %g", norm);
    for (int i = 0; i < 6; i++)
        CHECK(fabs(cr_item(cr_grad(cr_params_at(p, i))) - i / sqrt(55)) < 1e-6, "gradient %d is %g", i,
              cr_item(cr_grad(cr_params_at(p, i))));
    cr_params_free(p);
}

TEST(clip_grad_norm_not_finite) {                   /* as torch: the norm says so, and so do the gradients */
    cr_params *p = cr_params_new();
    cr_tensor *a = fresh(CR_LIST(3), CR_F32, cr_cpu()),
              *g = cr_from((const float[]){1, NAN, 2}, CR_LIST(3), CR_F32, cr_cpu());
    double norm = 0;
    OK(cr_params_add(p, "a", a));
    OK(cr_set_grad(a, g));
    OK(cr_params_clip_grad_norm(p, 1, &norm));
    double *v = values(cr_grad(a));
    CHECK(isnan(norm) && isnan(v[0]), "norm %g, gradient %g", norm, v[0]);
    free(v);
    cr_params_free(p);
    cr_release(a);
    cr_release(g);
}

TEST(clip_grad_norm_in_pieces) {                    /* longer than one piece of the sum of squares, and not a
                                                     * multiple of it */
    cr_params *p = cr_params_new();
    const int64_t n = (1 << 20) * 2 + 12345;
    cr_tensor *a = fresh(CR_LIST(n), CR_F32, cr_cpu()), *g = cr_ones(CR_LIST(n), CR_F32, cr_cpu());
    double norm = 0;
    OK(cr_params_add(p, "a", a));
    OK(cr_set_grad(a, g));
    OK(cr_params_clip_grad_norm(p, INFINITY, &norm));
    CHECK(fabs(norm - sqrt((double)n)) < 1e-12 * norm, "norm %.12g, wanted %.12g", norm, sqrt((double)n));
    cr_params_free(p);
    cr_release(a);
    cr_release(g);
}

/* ---- initialisers */
typedef struct moments { double mean, std, least, most; } moments;
static moments moments_of(const cr_tensor *t) {
    double *v = values(t);
    const int64_t n = cr_numel(t);
    moments m = {.least = INFINITY, .most = -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        m.mean += v[i] / (double)n;
        m.least = fmin(m.least, v[i]);
        m.most = fmax(m.most, v[i]);
    }
    for (int64_t i = 0; i < n; i++) m.std += (v[i] - m.mean) * (v[i] - m.mean) / (double)n;
    m.std = sqrt(m.std);
    free(v);
    return m;
}

enum { UNIFORM, NORMAL, XAVIER_U, XAVIER_N, KAIMING_U, KAIMING_N, INITS };
static cr_status init(int which, cr_tensor *t, double a, double b, cr_generator *g) {
    switch (which) {
    case UNIFORM: return cr_init_uniform(t, a, b, g);
    case NORMAL: return cr_init_normal(t, a, b, g);
    case XAVIER_U: return cr_init_xavier_uniform(t, a, g);
    case XAVIER_N: return cr_init_xavier_normal(t, a, g);
    case KAIMING_U: return cr_init_kaiming_uniform(t, a, g);
    default: return cr_init_kaiming_normal(t, a, g);
    }
}

TEST(init_distributions) {
    /* (OC, C, 3, 3): fan_in 97 * 9, fan_out 61 * 9; bound 0: unbounded */
    const double in = 97 * 9, out = 61 * 9, a5 = sqrt(5);
    const struct { const char *name; double a, b, mean, std, bound; } want[INITS] = {
        [UNIFORM] = {"uniform", -0.5, 1.5, 0.5, 2 / sqrt(12), 1.5}, [NORMAL] = {"normal", 0.3, 0.02, 0.3, 0.02, 0},
        [XAVIER_U] = {"xavier_uniform", 2, 0, 0, 2 * sqrt(2 / (in + out)), 2 * sqrt(6 / (in + out))},
        [XAVIER_N] = {"xavier_normal", 0.5, 0, 0, 0.5 * sqrt(2 / (in + out)), 0},
        [KAIMING_U] = {"kaiming_uniform", a5, 0, 0, sqrt(2 / (6 * in)), 1 / sqrt(in)},
        [KAIMING_N] = {"kaiming_normal", 0, 0, 0, sqrt(2 / in), 0}};
    const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16};
    for (int d = 0; cr_device_at(d); d++)
        for (int w = 0; w < INITS; w++)
            for (int k = 0; k < 3; k++) {
                cr_generator *g = cr_generator_new(test_seed()), *h = cr_generator_new(test_seed());
                cr_tensor *t = fresh(CR_LIST(61, 97, 3, 3), dtypes[k], cr_device_at(d)),
                          *again = fresh(CR_LIST(61, 97, 3, 3), dtypes[k], cr_device_at(d));
                OK(init(w, t, want[w].a, want[w].b, g));
                OK(init(w, again, want[w].a, want[w].b, h));
                const moments m = moments_of(t), same = moments_of(again);
                const double n = 61 * 97 * 9, loose = k == 2 ? 0.01 : 0;
                CHECK(fabs(m.mean - want[w].mean) < 5 * want[w].std / sqrt(n) + loose * want[w].std,
                      "%s: mean %g, wanted %g", want[w].name, m.mean, want[w].mean);
                CHECK(fabs(m.std - want[w].std) < (5 / sqrt(2 * n) + loose) * want[w].std, "%s: std %g, wanted %g",
                      want[w].name, m.std, want[w].std);
                if (want[w].bound > 0)
                    CHECK(m.most <= want[w].bound * (1 + loose) && m.most > 0.99 * want[w].bound,
                          "%s: largest %g, bound %g", want[w].name, m.most, want[w].bound);
                CHECK(m.mean == same.mean && m.most == same.most, "%s: the same seed gives other numbers",
                      want[w].name);
                CHECK(cr_requires_grad(t) && cr_is_leaf(t), "%s: the parameter is no leaf any more", want[w].name);
                test_ran_on(cr_device_at(d));
                cr_release(t); cr_release(again);
                cr_generator_free(g); cr_generator_free(h);
            }
}

/* Mean and deviation of a truncated normal (Johnson, Kotz, Balakrishnan 1994, section 10.1). */
static void truncated(double mean, double std, double low, double high, double *m, double *s) {
    const double a = (low - mean) / std, b = (high - mean) / std, root = 2.50662827463100050;
    const double pa = exp(-a * a / 2) / root, pb = exp(-b * b / 2) / root,
                 z = 0.5 * (erfc(-b / sqrt(2)) - erfc(-a / sqrt(2)));
    const double apa = isinf(a) ? 0 : a * pa, bpb = isinf(b) ? 0 : b * pb;
    *m = mean + std * (pa - pb) / z;
    *s = std * sqrt(1 + (apa - bpb) / z - (pa - pb) * (pa - pb) / (z * z));
}

TEST(init_trunc_normal) {
    const double cases[][4] = {{0, 1, -2, 2},           {0.5, 0.02, 0.46, 0.54}, {0, 1, 1, 3},
                               {0, 1, -INFINITY, -2.5}, {3, 2, 2.9, 3.1},        {0, 1, -0.25, INFINITY}};
    for (int d = 0; cr_device_at(d); d++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (int wide = 0; wide < 2; wide++) {
                cr_generator *g = cr_generator_new(test_seed());
                cr_tensor *t = fresh(CR_LIST(101, 199), wide ? CR_F64 : CR_F32, cr_device_at(d));
                double mean, std;
                OK(cr_init_trunc_normal(t, cases[c][0], cases[c][1], cases[c][2], cases[c][3], g));
                const moments m = moments_of(t);
                truncated(cases[c][0], cases[c][1], cases[c][2], cases[c][3], &mean, &std);
                CHECK(m.least >= (wide ? cases[c][2] : (float)cases[c][2]) &&
                          m.most <= (wide ? cases[c][3] : (float)cases[c][3]),
                      "case %zu: [%g, %g]", c, m.least, m.most);
                CHECK(fabs(m.mean - mean) < 5 * std / sqrt(101 * 199), "case %zu: mean %g, wanted %g", c, m.mean, mean);
                CHECK(fabs(m.std - std) < 0.05 * std, "case %zu: std %g, wanted %g", c, m.std, std);
                test_ran_on(cr_device_at(d));
                cr_release(t);
                cr_generator_free(g);
            }
}

/* The rows (or columns) of the (rows, cols) matrix have length gain and are orthogonal. */
static void check_orthogonal(int64_t rows, int64_t cols, const double *v, double gain, double tolerance) {
    const int64_t k = rows < cols ? rows : cols, n = rows < cols ? cols : rows;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j <= i; j++) {
            double dot = 0;
            for (int64_t c = 0; c < n; c++)
                dot += rows <= cols ? v[i * cols + c] * v[j * cols + c] : v[c * cols + i] * v[c * cols + j];
            CHECK(fabs(dot - (i == j ? gain * gain : 0)) < tolerance,
                  "(%lld, %lld): vectors %lld and %lld have product %g", (long long)rows, (long long)cols, (long long)i,
                  (long long)j, dot);
        }
}

TEST(init_orthogonal) {
    const int64_t shapes[][3] = {{5, 13, 1}, {31, 7, 1}, {17, 17, 1}, {4, 3, 5}, {101, 101, 1}};
    for (size_t s = 0; s < 5; s++) {
        cr_generator *g = cr_generator_new(test_seed());
        cr_tensor *t = fresh(CR_LIST(shapes[s][0], shapes[s][1], shapes[s][2]), CR_F64, cr_cpu());
        OK(cr_init_orthogonal(t, 1.5, g));
        CHECK(cr_grad_enabled(), "init_orthogonal turns recording off");
        double *v = values(t);
        check_orthogonal(shapes[s][0], shapes[s][1] * shapes[s][2], v, 1.5, 5e-15);
        test_ran_on(cr_cpu());
        free(v);
        cr_release(t);
        cr_generator_free(g);
    }
}

TEST(init_bad) {
    cr_generator *g = cr_generator_new(1);
    cr_tensor *t = fresh(CR_LIST(2, 3), CR_F32, cr_cpu()), *v = fresh(CR_LIST(3), CR_F32, cr_cpu()),
              *n = cr_zeros(CR_LIST(2, 3), CR_I32, cr_cpu());
    cr_tensor *empty = fresh(CR_LIST(0, 3), CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "[2, 1)", cr_init_uniform(t, 2, 1, g));
    FAILS(CR_BAD_VALUE, "finite", cr_init_uniform(t, 0, INFINITY, g));
    FAILS(CR_BAD_VALUE, "std must be finite and at least 0, not -1", cr_init_normal(t, 0, -1, g));
    FAILS(CR_BAD_VALUE, "mean must be finite, not nan", cr_init_normal(t, NAN, 1, g));
    FAILS(CR_BAD_TYPE, "not int32", cr_init_normal(n, 0, 1, g));
    FAILS(CR_BAD_VALUE, "at least two axes, (OC, C, ...), not 1", cr_init_xavier_uniform(v, 1, g));
    FAILS(CR_BAD_VALUE, "not 1", cr_init_kaiming_normal(v, 1, g));
    FAILS(CR_BAD_VALUE, "not 1", cr_init_orthogonal(v, 1, g));
    FAILS(CR_BAD_VALUE, "gain must be finite, not inf", cr_init_orthogonal(t, INFINITY, g));
    FAILS(CR_BAD_VALUE, "low must be below high: [2, 1]", cr_init_trunc_normal(t, 0, 1, 2, 1, g));
    FAILS(CR_BAD_VALUE, "std must be above 0", cr_init_trunc_normal(t, 0, 0, -2, 2, g));
    FAILS(CR_BAD_VALUE, "more than 1e6 std away", cr_init_trunc_normal(t, 0, 1e-9, 1, 2, g));
    FAILS(CR_BAD_VALUE, "NULL", cr_init_normal(NULL, 0, 1, g));
    FAILS(CR_BAD_VALUE, "NULL", cr_init_normal(t, 0, 1, NULL));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_init_uniform((cr_tensor *)(uintptr_t)CR_NONE, 0, 1, g));
    OK(cr_init_uniform(t, 2, 2, g));                /* one value; a gain below 0 */
    CHECK(moments_of(t).least == 2 && moments_of(t).most == 2, "U[2, 2) has [%g, %g]", moments_of(t).least,
          moments_of(t).most);
    OK(cr_init_xavier_uniform(t, -1, g));
    OK(cr_init_xavier_normal(t, -1, g));
    cr_set_grad_enabled(false);
    OK(cr_init_orthogonal(t, 1, g));
    CHECK(!cr_set_grad_enabled(true), "init_orthogonal turns recording on");
    OK(cr_init_trunc_normal(empty, 0, 1, -2, 2, g));
    OK(cr_init_xavier_normal(empty, 1, g));
    OK(cr_init_orthogonal(empty, 1, g));
    OK(cr_init_normal(empty, 0, 1, g));
    cr_release(t); cr_release(v); cr_release(n); cr_release(empty);
    cr_generator_free(g);
}
