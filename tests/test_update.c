/* test_update.c - run-time programs on devices: cr_program_apply with gradients of two orders,
 * cr_program_update in place, and the hand-written neighbours of the elementwise functions. */
#include "test.h"
#include "core/tensor.h"

#define EACH_DEVICE(d) for (int di = 0; di < 99; di++) for (const cr_device *d = cr_device_at(di); d; d = NULL)

static double at(const cr_tensor *t, int64_t i) {
    double v[256] = {0};
    OK(cr_read(t, CR_F64, v, sizeof *v * (size_t)cr_numel(t)));
    return v[i];
}

static cr_tensor *vector(const cr_device *d, cr_dtype dt, int n, const double *v) {
    return cr_to(cr_from(v, CR_LIST(n), CR_F64, d), dt, d);
}
#define VECTOR(d, dt, ...) vector(d, dt, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
    (double[]){__VA_ARGS__})

/* ---- apply */
static const cr_program *under_test;
static cr_tensor *apply(int n, const cr_tensor *const *in, void *ctx) {
    return cr_program_apply(under_test, n, in, ctx);
}

TEST(apply_and_gradients) {
    static const struct { const char *inputs, *body; int n;
    } programs[] = {{"a b", "y = a * sigmoid(a) * b; y", 2},
                    {"a b c", "where(a < b, tanh(a * c), b ** 2 / (1 + c * c))", 3},
                    {"x", "t = exp(-abs(x)); log1p(t) + max(x, 0) + s * x", 1},
                    {"a b", "min(a, b) ** 3 + gelu(a - b)", 2},
                    {"a b", "(a > b) * a + elu(b, 0.5)", 2}};
    double s = 0.75;
    EACH_DEVICE(d)
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
            cr_scope_begin();
            cr_program *p = cr_program_new("f", programs[i].inputs, "s", programs[i].body);
            REQUIRE(p, "%s", cr_error());
            cr_generator *g = cr_generator_new(test_seed() + i);
            const cr_tensor *in[] = {cr_requires_grad_(cr_randn(CR_LIST(3, 5), CR_F64, d, g), true),
                                     cr_requires_grad_(cr_randn(CR_LIST(5), CR_F64, d, g), true),
                                     cr_requires_grad_(cr_randn(CR_LIST(3, 1), CR_F64, d, g), true)};
            under_test = p;
            CHECK(cr_gradcheck(apply, &s, programs[i].n, in, NULL) == CR_OK, "'%s' on %s: %s", programs[i].body,
                  cr_device_name(d), cr_error());
            CHECK(cr_gradgradcheck(apply, &s, programs[i].n, in, NULL) == CR_OK, "'%s' on %s: %s", programs[i].body,
                  cr_device_name(d), cr_error());
            cr_error_clear();
            cr_tensor *y = cr_program_apply(p, programs[i].n, in, &s);
            cr_program_free(p);                      /* y's graph still holds it */
            OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
            CHECK(!cr_is_none(cr_grad(in[0])), "a gradient after the program was freed");
            cr_generator_free(g);
            cr_scope_end();
            test_ran_on(d);
        }
}

TEST(apply_refuses) {
    cr_scope_begin();
    const cr_device *d = cr_default_device();
    cr_program *p = cr_program_new("f", "a b", "s", "a * s + b");
    const cr_tensor *x = cr_ones(CR_LIST(3), CR_F32, d), *y = cr_ones(CR_LIST(2), CR_F32, d);
    double s = 2;
    FAILS(CR_BAD_VALUE, "[f] takes 1 params", cr_program_apply(p, 2, (const cr_tensor *const[]){x, x}, NULL));
    FAILS(CR_BAD_VALUE, "do not broadcast", cr_program_apply(p, 2, (const cr_tensor *const[]){x, y}, &s));
    FAILS(CR_BAD_VALUE, "is NULL", cr_program_apply(p, 2, (const cr_tensor *const[]){x, NULL}, &s));
    FAILS(CR_BAD_VALUE, "CR_NONE", cr_program_apply(p, 2, (const cr_tensor *const[]){x, CR_NONE}, &s));
    cr_tensor *whole = cr_program_apply(p, 2, (const cr_tensor *const[]){cr_arange(0, 3, 1, CR_I64, d), x}, &s);
    CHECK(whole && cr_dtype_of(whole) == CR_F32 && at(whole, 2) == 5, "integers compute as float32: %s", cr_error());
    cr_program_free(p);
    cr_scope_end();
}

/* ---- update: momentum, over tensors of several shapes, strides and dtypes */
static unsigned version(const cr_tensor *t) { return atomic_load(&t->storage->version); }

TEST(update_in_place) {
    cr_program *p = cr_program_new("momentum", "w m g scale", "lr beta", "m2 = beta * m + g * scale; w - lr * m2, m2");
    REQUIRE(p, "%s", cr_error());
    const double params[] = {0.1, 0.5};
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *scale = cr_full(CR_ALL, 2, CR_F32, d);
        cr_tensor *wide = cr_ones(CR_LIST(3, 10), CR_F32, d), *w[] = {
            VECTOR(d, CR_F32, 1, 2, 3), cr_full(CR_LIST(7, 11), 4, CR_F64, d), cr_zeros(CR_LIST(0, 3), CR_F32, d),
            cr_slice(wide, 1, 1, 10, 3), VECTOR(d, CR_BF16, 1, 2), cr_full(CR_ALL, 1, CR_F32, d)};
        enum { N = sizeof w / sizeof *w };
        cr_tensor *out[2 * N];
        const cr_tensor *in[4 * N];
        unsigned before[N];
        for (int i = 0; i < N; i++) {
            cr_tensor *m = cr_full(cr_ndim(w[i]), cr_shape(w[i]), 3, CR_F32, d), *g = cr_full(CR_ALL, i + 1, CR_F32, d);
            cr_requires_grad_(w[i], i == 0);
            out[2 * i] = w[i], out[2 * i + 1] = m;
            in[4 * i] = w[i], in[4 * i + 1] = m, in[4 * i + 2] = g, in[4 * i + 3] = scale;
            before[i] = version(w[i]);
        }
        bool grad = cr_set_grad_enabled(false);
        OK(cr_program_update(p, N, out, in, params));
        cr_set_grad_enabled(grad);
        static const double start[N] = {1, 4, 0, 1, 1, 1};
        for (int i = 0; i < N; i++) {
            double m = 1.5 + 2 * (i + 1), tolerance = i == 4 ? 4e-3 : 1e-6;
            CHECK(version(w[i]) == before[i] + 1, "version of tensor %d on %s", i, cr_device_name(d));
            for (int64_t k = 0; k < cr_numel(w[i]); k++) {
                double want = start[i] + (i == 0 || i == 4 ? (double)k : 0) - 0.1 * m;
                CHECK(fabs(at(w[i], k) - want) <= tolerance && at(out[2 * i + 1], k) == m,
                      "%s, tensor %d, element %lld: %.9g, wanted %.9g", cr_device_name(d), i, (long long)k, at(w[i], k),
                      want);
            }
        }
        CHECK(at(wide, 0) == 1 && at(wide, 2) == 1 && at(wide, 3) == 1 && at(wide, 1) != 1 && at(wide, 4) != 1,
              "a strided view only");
        OK(cr_program_update(p, 0, NULL, NULL, params));
        test_ran_on(d);
        cr_scope_end();
    }
    cr_program_free(p);
}

TEST(update_refuses) {
    cr_scope_begin();
    const cr_device *d = cr_default_device();
    cr_program *p = cr_program_new("step", "w g", "lr", "w - lr * g");
    double lr = 0.5;
    cr_tensor *w = cr_ones(CR_LIST(4), CR_F32, d), *g = cr_ones(CR_LIST(4), CR_F32, d),
              *leaf = cr_requires_grad_(cr_ones(CR_LIST(4), CR_F32, d), true);
    cr_tensor *part = cr_slice(w, 0, 1, 4, 1), *front = cr_slice(w, 0, 0, 3, 1),
              *whole = cr_zeros(CR_LIST(4), CR_I32, d);
    cr_tensor *grown = cr_add(leaf, g), *expanded = cr_expand(cr_ones(CR_LIST(1), CR_F32, d), CR_LIST(4));
#define UPDATE(n, out, ...) cr_program_update(p, n, (cr_tensor *const[]){out}, \
    (const cr_tensor *const[]){__VA_ARGS__}, &lr)
#define TWICE(a, b, ...) cr_program_update(p, 2, (cr_tensor *const[]){a, b}, (const cr_tensor *const[]){__VA_ARGS__}, \
    &lr)
    FAILS(CR_BAD_VALUE, "the program is NULL", cr_program_update(NULL, 1, NULL, NULL, NULL));
    FAILS(CR_BAD_VALUE, "out is NULL", cr_program_update(p, 1, NULL, (const cr_tensor *const[]){w, g}, &lr));
    FAILS(CR_BAD_VALUE, "in is NULL", cr_program_update(p, 1, (cr_tensor *const[]){w}, NULL, &lr));
    FAILS(CR_BAD_VALUE, "takes 1 params",
          cr_program_update(p, 1, (cr_tensor *const[]){w}, (const cr_tensor *const[]){w, g}, NULL));
    FAILS(CR_BAD_VALUE, "-1 tensors", UPDATE(-1, w, w, g));
    FAILS(CR_BAD_VALUE, "is NULL", UPDATE(1, NULL, w, g));
    FAILS(CR_BAD_VALUE, "is NULL", UPDATE(1, w, w, NULL));
    FAILS(CR_BAD_VALUE, "is CR_NONE", UPDATE(1, w, w, CR_NONE));
    FAILS(CR_BAD_TYPE, "is int32", UPDATE(1, whole, w, g));
    FAILS(CR_BAD_TYPE, "is int32", UPDATE(1, w, w, whole));
    FAILS(CR_BAD_VALUE, "does not broadcast", UPDATE(1, w, w, cr_ones(CR_LIST(3), CR_F32, d)));
    FAILS(CR_RUNTIME, "requires grad", UPDATE(1, leaf, leaf, g));
    FAILS(CR_RUNTIME, "requires grad", UPDATE(1, grown, grown, g));
    FAILS(CR_BAD_VALUE, "expanded", UPDATE(1, expanded, expanded, g));
    FAILS(CR_BAD_VALUE, "overlaps what is written", UPDATE(1, part, front, part));
    FAILS(CR_BAD_VALUE, "share memory", TWICE(w, w, w, g, w, g));
    FAILS(CR_BAD_VALUE, "share memory", TWICE(part, w, part, part, w, g));
    FAILS(CR_BAD_VALUE, "overlaps what is written", TWICE(w, g, w, w, g, w));
    if (cr_device_at(1))
        FAILS(CR_BAD_VALUE, "two devices",
              UPDATE(1, w, w, cr_to(g, CR_F32, cr_device_at(0) == d ? cr_device_at(1) : cr_device_at(0))));
    for (int i = 0; i < 4; i++) CHECK(at(w, i) == 1 && at(leaf, i) == 1, "something was written");
    cr_tensor *left = cr_slice(w, 0, 0, 2, 1), *right = cr_slice(w, 0, 2, 4, 1), *two = cr_slice(g, 0, 0, 2, 1);
    OK(TWICE(right, left, right, two, left, two));   /* neighbours in one storage may be written at once */
    for (int i = 0; i < 4; i++) CHECK(at(w, i) == 0.5, "element %d: %g", i, at(w, i));
    cr_program_free(p);
    cr_scope_end();
}

/* ---- with a number, and in place */
/* sgd of a (128, 128) weight whose gradient is a product, given as its operands; what is asked wrongly. */
TEST(update_product) {
    const cr_program *sgd = cr_program_find("sgd");
    enum { M = 128, K = 40, N = 128, PARAMS = 8 };
    REQUIRE(sgd, "%s", cr_error());
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_generator *g = cr_generator_new(7);
        cr_tensor *a = cr_randn(CR_LIST(M, K), CR_F32, d, g), *b = cr_randn(CR_LIST(K, N), CR_F32, d, g),
                  *w = cr_randn(CR_LIST(M, N), CR_F32, d, g);
        cr_tensor *same = cr_clone(w), *dw = cr_matmul(a, b);
        const double params[PARAMS] = {0.5, 0, 1};
        bool taken = true;
        CHECK(cr_program_update_product(sgd, &w, (const cr_tensor *const[]){w, w}, params, 1, a, b, &taken) == CR_OK,
              "%s", cr_error());
        CHECK(taken == (d == cr_cpu()), "taken on %s: %d", cr_device_name(d), taken);
        CHECK(cr_program_update(sgd, 1, &same, (const cr_tensor *const[]){same, dw}, params) == CR_OK, "%s",
              cr_error());
        double apart = cr_item(cr_max(cr_abs(cr_sub(w, same)), CR_ALL, false));
        CHECK(taken ? apart <= 1e-4 : apart > 0.1, "on %s: %g apart", cr_device_name(d), apart);
        FAILS(CR_BAD_VALUE, "the product (128, 40) x (128, 40)",
              cr_program_update_product(sgd, &w, (const cr_tensor *const[]){w, w}, params, 1, a, a, &taken));
        CHECK(!taken, "taken though refused");
        FAILS(CR_BAD_VALUE, "input 2 of 2",
              cr_program_update_product(sgd, &w, (const cr_tensor *const[]){w, w}, params, 2, a, b, &taken));
        FAILS(CR_BAD_VALUE, "NULL",
              cr_program_update_product(sgd, &w, (const cr_tensor *const[]){w, w}, params, 1, NULL, b, &taken));
        FAILS(CR_BAD_VALUE, "NULL", cr_program_update_product(NULL, &w, NULL, params, 1, a, b, &taken));
        cr_generator_free(g);
        test_ran_on(d);
        cr_scope_end();
    }
}

TEST(numbers) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = VECTOR(d, CR_BF16, 1, 4, 9), *n = VECTOR(d, CR_I32, 1, 4, 9);
        const struct { cr_tensor *y; double want; cr_dtype dt;
        } all[] = {{cr_add_scalar(x, 3), 7, CR_BF16},        {cr_sub_scalar(x, 3), 1, CR_BF16},
                   {cr_mul_scalar(x, 3), 12, CR_BF16},       {cr_div_scalar(x, 8), 0.5, CR_BF16},
                   {cr_pow_scalar(x, 3), 64, CR_BF16},       {cr_pow_scalar(x, 2), 16, CR_BF16},
                   {cr_pow_scalar(x, 0.5), 2, CR_BF16},      {cr_pow_scalar(x, -1), 0.25, CR_BF16},
                   {cr_pow_scalar(x, -0.5), 0.5, CR_BF16},   {cr_add_scalar(n, 0.5), 4.5, CR_F32},
                   {cr_pow_scalar(n, 2), 16, CR_F32},        {cr_add(n, cr_scalar_int(2)), 6, CR_I32},
                   {cr_pow(n, cr_scalar_int(2)), 16, CR_I32}};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            REQUIRE(all[i].y, "case %zu: %s", i, cr_error());
            CHECK(cr_dtype_of(all[i].y) == all[i].dt && at(all[i].y, 1) == all[i].want, "case %zu on %s: %g", i,
                  cr_device_name(d), at(all[i].y, 1));
        }
        cr_tensor *y = VECTOR(d, CR_F32, 8, 6);
        const cr_tensor *two = cr_scalar(2);
        CHECK(cr_add_(y, two) == y && at(y, 0) == 10 && cr_mul_(y, two) == y && at(y, 0) == 20 &&
                  cr_sub_(y, two) == y && at(y, 0) == 18 && cr_div_(y, two) == y && at(y, 0) == 9 && at(y, 1) == 7,
              "in place on %s: %g, %g", cr_device_name(d), at(y, 0), at(y, 1));
        FAILS(CR_BAD_VALUE, "NULL", cr_add_scalar(NULL, 1));
        FAILS(CR_BAD_VALUE, "NULL", cr_pow_scalar(NULL, 2));
        FAILS(CR_BAD_VALUE, "CR_NONE", cr_pow_scalar(CR_NONE, 2));
        FAILS(CR_BAD_VALUE, "[pow] integers to the negative power -1", cr_pow(n, cr_scalar_int(-1)));
        FAILS(CR_BAD_VALUE, "[pow_] integers to the negative power -3",
              cr_program_apply_(cr_program_find("pow"), cr_clone(n), 2, (const cr_tensor *[]){n, cr_scalar_int(-3)},
                                NULL));
        CHECK(at(cr_pow(n, cr_scalar(-1)), 1) == 0.25, "integers to a float power are floats");
        FAILS(CR_BAD_VALUE, "CR_NONE", cr_mul_scalar(CR_NONE, 2));
        FAILS(CR_BAD_VALUE, "NULL", cr_add_(NULL, two));
        FAILS(CR_BAD_VALUE, "NULL", cr_add_(y, NULL));
        FAILS(CR_BAD_TYPE, "parameter 0.5 has no int32 value", cr_clamp(n, 0.5, 2));
        cr_tensor *open = cr_clamp(n, 2, (double)INFINITY);
        CHECK(open && at(open, 0) == 2 && at(open, 2) == 9 && cr_dtype_of(open) == CR_I32,
              "clamp without an upper bound on %s: %g, %g (%s)", cr_device_name(d), open ? at(open, 0) : 0,
              open ? at(open, 2) : 0, cr_error() ? cr_error() : "");
        test_ran_on(d);
        cr_scope_end();
    }
}
