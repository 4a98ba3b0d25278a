/* test_structured.c - the structured ops at their edges: shape rules, refusals with their messages, views, empty tensors, what
 * happens in place, and the composites that a device without fused kernels runs.  Values over many shapes, dtypes and devices
 * are test_ops.c's; gradients by differences are test_grad.c's. */
#include "test.h"
#include "ops/compose.h"

static const cr_device *dev;                        /* the one under test */
#define EACH_DEVICE for (int device_ = 0; device_ < 2 && (dev = device_ ? cr_ref() : cr_cpu()); device_++, test_ran_on(dev))

static cr_tensor *counting(int n, const int64_t *shape) {           /* 0, 1, 2 ... */
    int64_t numel = 1;
    for (int i = 0; i < n; i++) numel *= shape[i];
    return cr_reshape(cr_arange(0, (double)numel, 1, CR_F32, dev), n, shape);
}

static cr_tensor *of(int n, const double *v) { return cr_from(v, CR_LIST(n), CR_F64, dev); }
#define OF(...) of((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
static cr_tensor *of_index(int n, const int64_t *v) { return cr_from(v, CR_LIST(n), CR_I64, dev); }
static cr_tensor *normal(int n, const int64_t *shape, uint64_t seed) {
    cr_generator *g = cr_generator_new(seed);
    cr_tensor *t = cr_randn(n, shape, CR_F64, dev, g);
    cr_generator_free(g);
    return t;
}

static bool has_shape(const cr_tensor *t, int n, const int64_t *shape) {
    return t && t->ndim == n && (!n || !memcmp(t->shape, shape, sizeof *shape * (size_t)n));
}

/* t must be these numbers in order, each within tolerance (NaN equals NaN). */
static void check_values(const char *file, int line, const cr_tensor *t, int n, const double *want, double tolerance) {
    double got[128];
    if (!t || t->numel != n || n > 128) { test_fail(file, line, "%s: no tensor of %d elements: %s", dev->name, n, cr_error() ? cr_error() : ""); return; }
    OK(cr_read(t, CR_F64, got, sizeof *got * (size_t)n));
    for (int i = 0; i < n; i++) {
        bool same_kind = isnan(want[i]) ? isnan(got[i]) : isinf(want[i]) ? got[i] == want[i] : fabs(got[i] - want[i]) <= tolerance;
        if (!same_kind) test_fail(file, line, "%s: element %d is %.17g, wanted %.17g", dev->name, i, got[i], want[i]);
    }
}
#define VALUES(t, ...) check_values(__FILE__, __LINE__, t, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__}, 1e-6)
#define SHAPE(t, ...) do { const cr_tensor *t_ = (t); CHECK(has_shape(t_, CR_LIST(__VA_ARGS__)), "%s: %s is %s: %s", dev->name, #t, \
    t_ ? cr_shape_text(t_->ndim, t_->shape).s : "NULL", cr_error() ? cr_error() : ""); } while (0)
#define SCOPED(...) do { cr_scope_begin(); __VA_ARGS__; cr_scope_end(); } while (0)

/* ---- making */
static void check_make(void) {
    VALUES(cr_arange(0, 5, 2, CR_F32, dev), 0, 2, 4);
    VALUES(cr_arange(3, -2, -1.5, CR_F64, dev), 3, 1.5, 0, -1.5);
    VALUES(cr_arange(0.9, 4, 1.9, CR_I64, dev), 0, 1);
    SHAPE(cr_arange(5, 5, 1, CR_F32, dev), 0);
    VALUES(cr_linspace(-1, 1, 5, CR_F64, dev), -1, -0.5, 0, 0.5, 1);
    VALUES(cr_linspace(3, 9, 1, CR_F32, dev), 3);
    SHAPE(cr_linspace(3, 9, 0, CR_F32, dev), 0);
    VALUES(cr_eye(2, 3, CR_I32, dev), 1, 0, 0, 0, 1, 0);
    VALUES(cr_eye(3, 2, CR_BOOL, dev), 1, 0, 0, 1, 0, 0);
    VALUES(cr_full(CR_LIST(2), -7.9, CR_I8, dev), -7, -7);
    VALUES(cr_ones_like(cr_zeros(CR_LIST(3), CR_U8, dev)), 1, 1, 1);
    VALUES(cr_full(CR_LIST(1), INFINITY, CR_F16, dev), INFINITY);
    SHAPE(cr_zeros(CR_LIST(2, 0, 3), CR_F32, dev), 2, 0, 3);
    CHECK(cr_ndim(cr_ones(CR_ALL, CR_F32, dev)) == 0, "a scalar has no axes");
    FAILS(CR_BAD_VALUE, "[full] 300 does not fit uint8", cr_full(CR_LIST(2), 300, CR_U8, dev));
    FAILS(CR_BAD_VALUE, "[full] -1 does not fit uint8", cr_full(CR_LIST(2), -1, CR_U8, dev));
    FAILS(CR_BAD_VALUE, "[full] nan does not fit int64", cr_full(CR_LIST(2), NAN, CR_I64, dev));
    FAILS(CR_BAD_VALUE, "does not fit float16", cr_full(CR_LIST(2), 1e6, CR_F16, dev));
    FAILS(CR_BAD_VALUE, "[zeros] negative size in shape (2, -3)", cr_zeros(CR_LIST(2, -3), CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[empty] shape (4611686018427387904, 4) holds too many", cr_empty(CR_LIST(INT64_C(1) << 62, 4), CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[empty] 9 axes", cr_empty(CR_LIST(1, 1, 1, 1, 1, 1, 1, 1, 1), CR_F32, dev));
    FAILS(CR_BAD_TYPE, "[ones] 99 is not a dtype", cr_ones(CR_LIST(2), (cr_dtype)99, dev));
    FAILS(CR_BAD_VALUE, "[empty]", cr_empty(CR_LIST(2), CR_F32, NULL));
    FAILS(CR_BAD_VALUE, "[arange] steps of 1 do not lead from 5 to 2", cr_arange(5, 2, 1, CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[arange] the step must not be 0", cr_arange(0, 2, 0, CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[arange] the range must be finite", cr_arange(0, INFINITY, 1, CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[arange]", cr_arange(0, 1e30, 1, CR_F32, dev));
    FAILS(CR_BAD_VALUE, "does not fit int8", cr_arange(0, 200, 1, CR_I8, dev));
    FAILS(CR_BAD_VALUE, "[linspace] negative number", cr_linspace(0, 1, -1, CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[eye]", cr_eye(-1, 2, CR_F32, dev));
    FAILS(CR_BAD_VALUE, "[from]", cr_from(NULL, CR_LIST(2), CR_F32, dev));
    SHAPE(cr_from(NULL, CR_LIST(2, 0), CR_F32, dev), 2, 0);
}
TEST(make) { EACH_DEVICE SCOPED(check_make()); }

static void check_random(void) {
    cr_generator *g = cr_generator_new(7), *same_seed = cr_generator_new(7);
    double a[5], b[5];
    OK(cr_read(cr_rand(CR_LIST(5), CR_F64, dev, g), CR_F64, a, sizeof a));
    OK(cr_read(cr_rand(CR_LIST(5), CR_F64, dev, same_seed), CR_F64, b, sizeof b));
    CHECK(!memcmp(a, b, sizeof a), "the same seed gives the same numbers");
    OK(cr_read(cr_rand(CR_LIST(5), CR_F64, dev, g), CR_F64, b, sizeof b));
    CHECK(memcmp(a, b, sizeof a), "the next numbers are others");
    cr_tensor *n = cr_randint(-3, 4, CR_LIST(1000), CR_I8, dev, g);
    CHECK(cr_item(cr_min(n, CR_ALL, false)) == -3 && cr_item(cr_max(n, CR_ALL, false)) == 3, "randint covers [-3, 4)");
    n = cr_randint(INT64_MIN, INT64_MAX, CR_LIST(100), CR_I64, dev, g);
    CHECK(cr_item(cr_max(n, CR_ALL, false)) > 0x1p60 && cr_item(cr_min(n, CR_ALL, false)) < -0x1p60, "randint over all of int64");
    VALUES(cr_randint(7, 8, CR_LIST(2), CR_F32, dev, g), 7, 7);
    double share = cr_item(cr_mean(cr_bernoulli(0.3, CR_LIST(10000), CR_F32, dev, g), CR_ALL, false));
    CHECK(fabs(share - 0.3) < 0.02, "bernoulli(0.3) gave a share of %g", share);
    VALUES(cr_bernoulli(1, CR_LIST(3), CR_BOOL, dev, g), 1, 1, 1);
    VALUES(cr_bernoulli(0, CR_LIST(3), CR_I64, dev, g), 0, 0, 0);
    SHAPE(cr_randn(CR_LIST(0, 3), CR_BF16, dev, g), 0, 3);
    FAILS(CR_BAD_TYPE, "[rand] needs a floating point dtype: int64", cr_rand(CR_LIST(2), CR_I64, dev, g));
    FAILS(CR_BAD_VALUE, "[randint] low must be below high: 3, 3", cr_randint(3, 3, CR_LIST(2), CR_I64, dev, g));
    FAILS(CR_BAD_VALUE, "does not fit int8", cr_randint(0, 300, CR_LIST(2), CR_I8, dev, g));
    FAILS(CR_BAD_VALUE, "[bernoulli] the chance must be in [0, 1]: 1.5", cr_bernoulli(1.5, CR_LIST(2), CR_F32, dev, g));
    FAILS(CR_BAD_VALUE, "[randn]", cr_randn(CR_LIST(2), CR_F32, dev, NULL));
    cr_generator_free(g);
    cr_generator_free(same_seed);
}
TEST(random) { EACH_DEVICE SCOPED(check_random()); }

static void check_reading(void) {
    cr_tensor *x = cr_transpose(counting(CR_LIST(2, 3)), 0, 1);
    int32_t got[6];
    OK(cr_read(x, CR_I32, got, sizeof got));
    CHECK(!memcmp(got, (int32_t[]){0, 3, 1, 4, 2, 5}, sizeof got), "a transposed read is in the view's order");
    FAILS(CR_BAD_VALUE, "[read] (3, 2) as int32 takes 24 bytes, not 20", cr_read(x, CR_I32, got, 20));
    FAILS(CR_BAD_VALUE, "[read]", cr_read(x, CR_I32, NULL, sizeof got));
    FAILS(CR_BAD_VALUE, "[item] needs a tensor of one element: (3, 2)", cr_item(x));
    FAILS(CR_BAD_TYPE, "[item_int] needs an integer tensor: float32", cr_item_int(cr_ones(CR_ALL, CR_F32, dev)));
    CHECK(cr_item_int(cr_from(&(int64_t){INT64_MAX}, CR_LIST(1, 1), CR_I64, dev)) == INT64_MAX, "item_int is exact");
    CHECK(cr_dtype_of(cr_scalar_bool(true)) == CR_BOOL && cr_item(cr_scalar_bool(true)) == 1, "a bool is a scalar");
    CHECK(cr_dtype_of(cr_add(cr_ones(CR_LIST(3), CR_BOOL, cr_ref()), cr_scalar_bool(true))) == CR_BOOL &&
          cr_dtype_of(cr_add(cr_ones(CR_LIST(3), CR_U8, cr_cpu()), cr_scalar_bool(true))) == CR_U8, "a bool scalar promotes nothing");
    CHECK(cr_item(cr_scalar(0.1)) == 0.1 && cr_item_int(cr_scalar_int(1 - INT64_MAX)) == 1 - INT64_MAX, "scalars are exact");
    double d[6] = {5, 4, 3, 2, 1, 0};
    OK(cr_write(x, CR_F64, d, sizeof d));
    VALUES(x, 5, 4, 3, 2, 1, 0);
    FAILS(CR_BAD_VALUE, "[write]", cr_write(x, CR_F64, d, 8));
    OK(cr_write(cr_zeros(CR_LIST(0), CR_F32, dev), CR_F32, NULL, 0));
}
TEST(reading) { EACH_DEVICE SCOPED(check_reading()); }

/* ---- views */
static void check_view_rules(void) {
    cr_tensor *x = counting(CR_LIST(3, 4)), *t = cr_transpose(x, 0, 1);
    SHAPE(cr_reshape(x, CR_LIST(2, -1)), 2, 6);
    CHECK(cr_reshape(x, CR_LIST(12))->storage == x->storage, "reshape of a contiguous tensor is a view");
    CHECK(cr_reshape(t, CR_LIST(12))->storage != x->storage, "reshape of a transposed one copies");
    VALUES(cr_reshape(t, CR_LIST(12)), 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
    SHAPE(cr_view(t, CR_LIST(2, 2, 3)), 2, 2, 3);
    FAILS(CR_BAD_VALUE, "[view] cannot view (4, 3) with strides (1, 4) as (12,) without a copy", cr_view(t, CR_LIST(12)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 12 elements as (5, -1)", cr_reshape(x, CR_LIST(5, -1)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 12 elements as (3, 5)", cr_reshape(x, CR_LIST(3, 5)));
    FAILS(CR_BAD_VALUE, "[reshape] only one size may be -1", cr_reshape(x, CR_LIST(-1, -1)));
    FAILS(CR_BAD_VALUE, "[reshape] negative size in shape (-2,)", cr_reshape(x, CR_LIST(-2)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 12 elements", cr_reshape(x, CR_LIST(INT64_MAX, INT64_MAX, -1)));
    FAILS(CR_BAD_VALUE, "any size would do", cr_reshape(cr_zeros(CR_LIST(0), CR_F32, dev), CR_LIST(0, -1)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 0 elements as (3,)", cr_reshape(cr_zeros(CR_LIST(0), CR_F32, dev), CR_LIST(3)));
    FAILS(CR_BAD_INDEX, "[transpose] axis 2 is out of range", cr_transpose(x, 0, 2));
    FAILS(CR_BAD_VALUE, "[permute] 1 axes given for a tensor of shape (3, 4)", cr_permute(x, CR_LIST(0)));
    FAILS(CR_BAD_VALUE, "[permute] axis 0 appears more than once", cr_permute(x, CR_LIST(0, 0)));
    FAILS(CR_BAD_INDEX, "[permute] axis 5", cr_permute(x, CR_LIST(0, 5)));
    FAILS(CR_BAD_VALUE, "[slice] the step must not be 0", cr_slice(x, 0, 0, 2, 0));
    FAILS(CR_BAD_INDEX, "[slice] a tensor without axes", cr_slice(cr_ones(CR_ALL, CR_F32, dev), 0, 0, 1, 1));
    FAILS(CR_BAD_INDEX, "[select] index 3 is out of range for axis 0 of (3, 4)", cr_select(x, 0, 3));
    FAILS(CR_BAD_INDEX, "[select] index -5", cr_select(x, 1, -5));
    FAILS(CR_BAD_VALUE, "[expand] cannot expand (3, 4) to (6, 4): axis 0 has size 3", cr_expand(x, CR_LIST(6, 4)));
    FAILS(CR_BAD_VALUE, "[expand] 1 sizes for a tensor of shape (3, 4)", cr_expand(x, CR_LIST(4)));
    FAILS(CR_BAD_VALUE, "[expand] negative size in shape (-1, 3, 4)", cr_expand(x, CR_LIST(-1, 3, 4)));
    FAILS(CR_BAD_VALUE, "[expand] shape (4611686018427387904, 3, 4) holds too many", cr_expand(x, CR_LIST(INT64_C(1) << 62, 3, 4)));
    FAILS(CR_BAD_INDEX, "[unsqueeze] axis 4", cr_unsqueeze(x, 4));
    FAILS(CR_BAD_VALUE, "[unsqueeze] 8 axes are the most", cr_unsqueeze(cr_zeros(CR_LIST(1, 1, 1, 1, 1, 1, 1, 1), CR_F32, dev), 0));
    FAILS(CR_BAD_VALUE, "[flatten] the first axis 1 comes after the last, 0", cr_flatten(x, 1, 0));
    FAILS(CR_BAD_INDEX, "[squeeze] axis 2", cr_squeeze(x, CR_LIST(2)));
    SHAPE(cr_expand(cr_ones(CR_LIST(3, 1), CR_F32, dev), CR_LIST(2, -1, 5)), 2, 3, 5);
    SHAPE(cr_squeeze(cr_zeros(CR_LIST(1, 3, 1), CR_F32, dev), CR_ALL), 3);
    SHAPE(cr_squeeze(cr_zeros(CR_LIST(1, 3, 1), CR_F32, dev), CR_LIST(1, -1)), 1, 3);
    SHAPE(cr_flatten(cr_ones(CR_ALL, CR_F32, dev), 0, -1), 1);
    SHAPE(cr_flatten(cr_zeros(CR_LIST(2, 3, 0, 5), CR_F32, dev), 1, 2), 2, 0, 5);
}
TEST(view_rules) { EACH_DEVICE SCOPED(check_view_rules()); }

/* Every slice of 5 elements, by Python's rules, against the rules themselves. */
static void check_slices(void) {
    const int64_t n = 5;
    cr_tensor *x = counting(CR_LIST(n));
    for (int64_t start = -7; start <= 7; start++)
        for (int64_t stop = -7; stop <= 7; stop++)
            for (int64_t step = 1; step <= 6; step++) {
                double want[5], got[5];
                int count = 0;
                int64_t from = start < 0 ? start + n : start, to = stop < 0 ? stop + n : stop;
                for (int64_t i = from < 0 ? 0 : from; i < to && i < n; i += step) want[count++] = (double)i;
                cr_tensor *y = cr_slice(x, 0, start, stop, step);
                CHECK(has_shape(y, CR_LIST(count)), "[%lld:%lld:%lld]: %d elements wanted", (long long)start, (long long)stop, (long long)step, count);
                OK(cr_read(y, CR_F64, got, sizeof *got * (size_t)count));
                CHECK(!memcmp(got, want, sizeof *got * (size_t)count), "[%lld:%lld:%lld]", (long long)start, (long long)stop, (long long)step);
                cr_release(y);
            }
    VALUES(cr_slice(x, 0, 0, INT64_MAX, INT64_MAX), 0);
    VALUES(cr_slice(cr_expand(x, CR_LIST(3, 5)), 1, INT64_MIN, 2, 1), 0, 1, 0, 1, 0, 1);
}
TEST(slices) { EACH_DEVICE SCOPED(check_slices()); }

static void check_split(void) {
    cr_tensor *x = counting(CR_LIST(2, 5)), *out[3] = {NULL};
    OK(cr_split(x, 2, 1, 3, out));
    SHAPE(out[0], 2, 2);
    SHAPE(out[2], 2, 1);
    VALUES(out[1], 2, 3, 7, 8);
    OK(cr_split(cr_zeros(CR_LIST(0, 2), CR_F32, dev), 3, 0, 1, out));
    SHAPE(out[0], 0, 2);
    OK(cr_split(x, INT64_MAX, 0, 1, out));
    SHAPE(out[0], 2, 5);
    FAILS(CR_BAD_VALUE, "[split] axis 1 of (2, 5) in pieces of 2 makes 3 of them, not 2", cr_split(x, 2, 1, 2, out));
    FAILS(CR_BAD_VALUE, "[split] the size of a piece must be positive: 0", cr_split(x, 0, 1, 2, out));
    FAILS(CR_BAD_INDEX, "[split] axis 2", cr_split(x, 1, 2, 2, out));
    FAILS(CR_BAD_VALUE, "[split]", cr_split(x, 2, 1, 3, NULL));
}
TEST(split) { EACH_DEVICE SCOPED(check_split()); }

static void check_cat(void) {
    enum { MANY = 300 };
    const cr_tensor *each[MANY], *pair[2];
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(2, 1), CR_F32, dev), true);
    for (int i = 0; i < MANY; i++) each[i] = i == 250 ? x : cr_full(CR_LIST(2, 1), i, CR_F32, dev);
    cr_tensor *y = cr_cat(MANY, each, -1);
    SHAPE(y, 2, MANY);
    CHECK(cr_item(cr_select(cr_select(y, 1, 299), 0, 1)) == 299, "the last of %d", MANY);
    OK(cr_backward(cr_sum(cr_mul(y, y), CR_ALL, false), CR_NONE, NULL));
    VALUES(cr_grad(x), 2, 2);
    pair[0] = cr_zeros(CR_LIST(2, 3), CR_I32, dev), pair[1] = cr_ones(CR_LIST(0, 3), CR_F16, dev);
    CHECK(cr_dtype_of(cr_cat(2, pair, 0)) == CR_F16, "cat promotes");
    pair[1] = cr_zeros(CR_LIST(2, 4), CR_I32, dev);
    FAILS(CR_BAD_VALUE, "[cat] shapes (2, 3) and (2, 4) differ in more than axis 0", cr_cat(2, pair, 0));
    FAILS(CR_BAD_INDEX, "[cat] axis 2", cr_cat(2, pair, 2));
    FAILS(CR_BAD_VALUE, "[stack] shapes differ: (2, 3), (2, 4)", cr_stack(2, pair, 0));
    FAILS(CR_BAD_VALUE, "[cat] needs at least one tensor, got 0", cr_cat(0, pair, 0));
    FAILS(CR_BAD_VALUE, "[cat]", cr_cat(2, NULL, 0));
    pair[0] = pair[1] = cr_ones(CR_ALL, CR_F32, dev);
    FAILS(CR_BAD_VALUE, "[cat] tensors without axes", cr_cat(2, pair, 0));
    VALUES(cr_stack(2, pair, -1), 1, 1);
    FAILS(CR_BAD_INDEX, "[stack] axis 1", cr_stack(2, pair, 1));
}
TEST(cat) { EACH_DEVICE SCOPED(check_cat()); }

/* ---- copies */
static void check_to(void) {
    cr_tensor *x = cr_requires_grad_(cr_from((double[]){1.5, -2.5}, CR_LIST(2), CR_F64, dev), true);
    cr_tensor *moved = cr_to(x, CR_F32, cr_ref());
    CHECK(moved && moved->dev == cr_ref() && moved->dtype == CR_F32, "cast and moved");
    OK(cr_backward(cr_sum(cr_mul(moved, moved), CR_ALL, false), CR_NONE, NULL));
    VALUES(cr_grad(x), 3, -5);
    CHECK(cr_grad(x)->dev == dev, "the gradient is on the leaf's device");
    VALUES(cr_to(cr_slice(x, 0, 1, 2, 1), CR_F64, cr_ref()), -2.5);
    VALUES(cr_to(x, CR_I32, dev), 1, -2);
    VALUES(cr_to(x, CR_BOOL, dev), 1, 1);
    SHAPE(cr_to(cr_zeros(CR_LIST(0, 3), CR_F32, dev), CR_F32, cr_ref()), 0, 3);
    CHECK(cr_to(x, CR_F64, dev)->storage == x->storage, "nothing to do: the same elements");
    CHECK(cr_contiguous(x)->storage == x->storage && cr_clone(x)->storage != x->storage, "contiguous may share, clone may not");
    FAILS(CR_BAD_TYPE, "[to] 99 is not a dtype", cr_to(x, (cr_dtype)99, dev));
    FAILS(CR_BAD_VALUE, "[to]", cr_to(x, CR_F32, NULL));
}
TEST(to) { EACH_DEVICE SCOPED(check_to()); }

static void check_in_place(void) {
    cr_tensor *x = cr_zeros(CR_LIST(2, 3), CR_I32, dev);
    CHECK(cr_copy_(x, OF(1.9, 2.9, -3.9)) == x, "copy_ returns x");
    VALUES(x, 1, 2, -3, 1, 2, -3);
    cr_tensor *line = counting(CR_LIST(6));
    cr_copy_(cr_slice(line, 0, 1, 6, 1), cr_slice(line, 0, 0, 5, 1));
    VALUES(line, 0, 0, 1, 2, 3, 4);
    cr_fill_(cr_slice(line, 0, 0, 6, 2), 9);
    VALUES(line, 9, 0, 9, 2, 9, 4);
    cr_copy_(line, cr_to(line, CR_F32, dev == cr_ref() ? cr_cpu() : cr_ref()));
    VALUES(line, 9, 0, 9, 2, 9, 4);
    FAILS(CR_BAD_VALUE, "[copy_] (4,) does not broadcast into (1,)", cr_copy_(cr_zeros(CR_LIST(1), CR_F32, dev), cr_zeros(CR_LIST(4), CR_F32, dev)));
    FAILS(CR_BAD_VALUE, "[copy_] shapes (6,) and (4,) do not broadcast", cr_copy_(line, cr_zeros(CR_LIST(4), CR_F32, dev)));
    FAILS(CR_BAD_VALUE, "[fill_] cannot write in place: axis 0 of (3, 2) is expanded", cr_fill_(cr_expand(cr_zeros(CR_LIST(1, 2), CR_F32, dev), CR_LIST(3, 2)), 1));
    FAILS(CR_BAD_VALUE, "[fill_] 1000 does not fit int8", cr_fill_(cr_zeros(CR_LIST(2), CR_I8, dev), 1000));
    FAILS(CR_BAD_VALUE, "[write] cannot write", cr_write(cr_expand(cr_zeros(CR_LIST(1), CR_F32, dev), CR_LIST(2)), CR_F32, (float[]){1, 2}, 8));

    cr_tensor *leaf = cr_requires_grad_(OF(1, 2), true);
    FAILS(CR_RUNTIME, "[fill_] a leaf that requires grad", cr_fill_(leaf, 0));
    FAILS(CR_RUNTIME, "[copy_] a leaf that requires grad", cr_copy_(leaf, OF(3, 4)));
    FAILS(CR_RUNTIME, "[write] a leaf that requires grad", cr_write(leaf, CR_F64, (double[]){3, 4}, 16));
    bool old = cr_set_grad_enabled(false);
    CHECK(cr_fill_(leaf, 3) == leaf, "under no_grad a leaf may be written: %s", cr_error());
    cr_set_grad_enabled(old);
    cr_tensor *y = cr_mul_scalar(leaf, 2);
    CHECK(cr_fill_(cr_slice(y, 0, 0, 1, 1), 0), "a view inside a graph may be written: %s", cr_error());
}
TEST(in_place) { EACH_DEVICE SCOPED(check_in_place()); }

/* What is overwritten hands no gradient on; what is copied in gets it. */
static void check_in_place_gradients(void) {
    cr_tensor *a = cr_requires_grad_(OF(1, 2), true), *b = cr_requires_grad_(cr_from((float[]){5}, CR_LIST(1), CR_F32, dev), true);
    cr_tensor *y = cr_mul_scalar(a, 3);
    REQUIRE(cr_copy_(y, b), "copy_ in a graph: %s", cr_error());
    OK(cr_backward(cr_sum(cr_mul(y, y), CR_ALL, false), CR_NONE, NULL));
    VALUES(cr_grad(b), 20);
    if (!cr_is_none(cr_grad(a))) VALUES(cr_grad(a), 0, 0);
    cr_tensor *z = cr_mul_scalar(a, 3);
    REQUIRE(cr_fill_(z, 7), "fill_ in a graph: %s", cr_error());
    OK(cr_backward(cr_sum(cr_add(z, a), CR_ALL, false), CR_NONE, NULL));
    VALUES(cr_grad(a), 1, 1);
    cr_tensor *squared = cr_mul(a, a), *saved = cr_mul(squared, squared);
    bool old = cr_set_grad_enabled(false);
    cr_fill_(squared, 0);
    cr_set_grad_enabled(old);
    cr_error_clear();
    CHECK(cr_backward(cr_sum(saved, CR_ALL, false), CR_NONE, NULL) == CR_RUNTIME, "a saved tensor was overwritten: backward must refuse");
    cr_error_clear();
}
TEST(in_place_gradients) { EACH_DEVICE SCOPED(check_in_place_gradients()); }

/* ---- reductions */
/* Sum, max and mean of a permuted tensor over every set of axes, against adding up element by element. */
static void check_reduction_axes(void) {
    const int64_t shape[4] = {2, 3, 1, 5}, axes_of[3][4] = {{0, 1, 2, 3}, {3, 0, 2, 1}, {1, 3, 0, 2}};
    for (int order = 0; order < 3; order++) {
        cr_tensor *x = cr_permute(counting(CR_LIST(2, 3, 1, 5)), 4, axes_of[order]);
        for (uint32_t mask = 1; mask < 16; mask++) {
            double all[30], sum[30] = {0}, max[30];
            int64_t axes[4], index[4] = {0};
            int n = 0, results = 1, each;
            for (int i = 0; i < 4; i++) { if (mask >> i & 1) axes[n++] = i; else results *= (int)shape[axes_of[order][i]]; }
            each = 30 / results;
            OK(cr_read(x, CR_F64, all, sizeof all));
            for (int i = 0; i < 30; i++) max[i] = -1;
            for (int e = 0; e < 30; e++) {
                int to = 0, rest = e;
                for (int i = 3; i >= 0; i--) { index[i] = rest % x->shape[i]; rest /= (int)x->shape[i]; }
                for (int i = 0; i < 4; i++) if (!(mask >> i & 1)) to = to * (int)x->shape[i] + (int)index[i];
                sum[to] += all[e];
                max[to] = fmax(max[to], all[e]);
            }
            check_values(__FILE__, __LINE__, cr_sum(x, n, axes, false), results, sum, 0);
            check_values(__FILE__, __LINE__, cr_max(x, n, axes, true), results, max, 0);
            for (int i = 0; i < results; i++) sum[i] /= each;
            check_values(__FILE__, __LINE__, cr_mean(x, n, axes, false), results, sum, 1e-5);
        }
    }
}
TEST(reduction_axes) { EACH_DEVICE SCOPED(check_reduction_axes()); }

static void check_reduction_edges(void) {
    const double inf = INFINITY;
    cr_tensor *none = cr_zeros(CR_LIST(0, 3), CR_F32, dev);
    VALUES(cr_sum(none, CR_LIST(0), false), 0, 0, 0);
    VALUES(cr_mean(none, CR_LIST(0), false), NAN, NAN, NAN);
    VALUES(cr_logsumexp(none, CR_LIST(0), false), -inf, -inf, -inf);
    SHAPE(cr_max(none, CR_LIST(1), true), 0, 1);
    FAILS(CR_BAD_VALUE, "[max] over no elements has no value: the reduced axes of (0, 3) are empty", cr_max(none, CR_ALL, false));
    FAILS(CR_BAD_VALUE, "[argmin] axis 0 of (0, 3) is empty", cr_argmin(none, 0, false));
    VALUES(cr_var(OF(1, 2, 6), CR_ALL, 1, false), 7);
    VALUES(cr_var(OF(4), CR_ALL, 1, false), NAN);
    VALUES(cr_std(OF(1, 2, 6), CR_ALL, 1, false), sqrt(7));
    VALUES(cr_prod(none, CR_LIST(0), false), 1, 1, 1);
    VALUES(cr_any(none, CR_ALL, false), 0);
    VALUES(cr_all(none, CR_LIST(0), true), 1, 1, 1);
    VALUES(cr_any(OF(0, -0.0, 0), CR_ALL, false), 0);
    VALUES(cr_all(OF(1, NAN, -2), CR_ALL, false), 1);
    VALUES(cr_count_nonzero(OF(0, NAN, -0.0, inf, 3), CR_ALL), 3);
    VALUES(cr_nansum(OF(1, NAN, 3), CR_ALL, false), 4);
    VALUES(cr_nanmean(OF(1, NAN, 3), CR_ALL, true), 2);
    VALUES(cr_nanmean(OF(NAN, NAN), CR_ALL, false), NAN);
    VALUES(cr_norm(OF(3, -4), 2, CR_ALL, false), 5);
    VALUES(cr_norm(OF(3, -4, NAN), INFINITY, CR_ALL, false), NAN);
    VALUES(cr_norm(OF(3, 0, -4), 0, CR_ALL, false), 2);
    VALUES(cr_norm(none, 1, CR_LIST(0), false), 0, 0, 0);
    FAILS(CR_BAD_VALUE, "[norm] over no elements has no value", cr_norm(none, -INFINITY, CR_ALL, false));
    FAILS(CR_BAD_VALUE, "[norm] over no elements has no value", cr_norm(none, -2, CR_LIST(0), false));
    FAILS(CR_BAD_VALUE, "[norm] p must be a number or an infinity: nan", cr_norm(none, NAN, CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[norm] needs a floating point tensor: int64", cr_norm(cr_ones(CR_LIST(2), CR_I64, dev), 2, CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[nanmean] needs a floating point tensor: int64", cr_nanmean(cr_ones(CR_LIST(2), CR_I64, dev), CR_ALL, false));
    CHECK(cr_dtype_of(cr_any(cr_ones(CR_LIST(2), CR_U8, dev), CR_ALL, false)) == CR_U8, "any of uint8 is uint8, as in PyTorch");
    CHECK(cr_dtype_of(cr_prod(cr_ones(CR_LIST(2), CR_BOOL, dev), CR_ALL, false)) == CR_I64, "bool multiplies as int64");
    VALUES(cr_logsumexp(OF(-inf, -inf), CR_ALL, false), -inf);
    VALUES(cr_logsumexp(OF(1, inf), CR_ALL, true), inf);
    VALUES(cr_logsumexp(OF(1000, 1000), CR_ALL, false), 1000 + log(2));
    VALUES(cr_logsumexp(OF(-1, NAN), CR_ALL, false), NAN);
    VALUES(cr_max(OF(1, NAN, 3), CR_ALL, false), NAN);
    VALUES(cr_argmax(OF(1, NAN, 3, NAN), 0, false), 1);
    VALUES(cr_argmin(OF(2, 1, 1), -1, true), 1);
    cr_tensor *bits = cr_ones(CR_LIST(300), CR_BOOL, dev), *half = cr_full(CR_LIST(10000), 10, CR_F16, dev);
    CHECK(cr_dtype_of(cr_sum(bits, CR_ALL, false)) == CR_I64 && cr_item(cr_sum(bits, CR_ALL, false)) == 300, "bool sums as int64");
    VALUES(cr_mean(half, CR_ALL, false), 10);       /* the sum alone would overflow a float16 */
    FAILS(CR_BAD_TYPE, "[mean] needs a floating point tensor: int64", cr_mean(cr_ones(CR_LIST(2), CR_I64, dev), CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[var] needs a floating point tensor", cr_var(bits, CR_ALL, 1, false));
    FAILS(CR_BAD_TYPE, "[logsumexp] needs a floating point tensor", cr_logsumexp(bits, CR_ALL, false));
    FAILS(CR_BAD_VALUE, "[var] the correction must be finite", cr_var(half, CR_ALL, NAN, false));
    FAILS(CR_BAD_INDEX, "[sum] axis 1 is out of range", cr_sum(half, CR_LIST(1), false));
    FAILS(CR_BAD_VALUE, "[sum] axis -1 appears more than once", cr_sum(half, CR_LIST(0, -1), false));
    FAILS(CR_BAD_INDEX, "[argmax] axis -2", cr_argmax(half, -2, false));
}
/* Whatever lies around the elements in memory: every set of axes of a tensor that is a part of a larger one, repeated and turned, against its copy. */
static void check_reduction_layouts(void) {
    cr_tensor *base = cr_reshape(normal(CR_LIST(2520), 7), CR_LIST(5, 6, 7, 12)), *views[4];
    views[0] = cr_slice(cr_slice(base, 1, 1, 6, 2), 3, 2, 11, 3);
    views[1] = cr_permute(cr_slice(base, 2, 0, 7, 2), CR_LIST(3, 1, 0, 2));
    views[2] = cr_expand(cr_slice(base, 1, 2, 3, 1), CR_LIST(5, 4, 7, 12));
    views[3] = cr_transpose(cr_expand(cr_slice(base, 3, 0, 1, 1), CR_LIST(5, 6, 7, 3)), 0, 3);
    for (int v = 0; v < 4; v++) {
        cr_tensor *x = views[v], *dense = cr_clone(cr_contiguous(x));
        for (uint32_t mask = 1; mask < 16; mask++) {
            int64_t axes[4];
            int n = 0;
            for (int i = 0; i < 4; i++) if (mask >> i & 1) axes[n++] = i;
            const cr_tensor *pair[5][2] = {
                {cr_sum(x, n, axes, false), cr_sum(dense, n, axes, false)}, {cr_max(x, n, axes, true), cr_max(dense, n, axes, true)},
                {cr_var(x, n, axes, 1, false), cr_var(dense, n, axes, 1, false)}, {cr_norm(x, 1.5, n, axes, false), cr_norm(dense, 1.5, n, axes, false)},
                {cr_count_nonzero(cr_gt(x, cr_scalar(0)), n, axes), cr_count_nonzero(cr_gt(dense, cr_scalar(0)), n, axes)}};
            for (int k = 0; k < 5; k++) {
                double worst = cr_item(cr_max(cr_abs(cr_sub(pair[k][0], pair[k][1])), CR_ALL, false));
                CHECK(worst < 1e-11, "%s: reduction %d of view %d over the axes of %x differs by %g from that of its copy", dev->name, k, v, mask, worst);
            }
        }
        for (int axis = 0; axis < 4; axis++)
            CHECK(cr_item(cr_all(cr_eq(cr_argmax(x, axis, false), cr_argmax(dense, axis, false)), CR_ALL, false)) == 1, "%s: argmax of view %d along %d", dev->name, v, axis);
    }
}
TEST(reduction_layouts) { EACH_DEVICE SCOPED(check_reduction_layouts()); }

TEST(reduction_edges) { EACH_DEVICE SCOPED(check_reduction_edges()); }

static cr_tensor *gradient_of(const cr_tensor *y, const cr_tensor *x) {
    OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
    return cr_grad(x);
}

static void check_reduction_gradients(void) {
    const double inf = INFINITY;
    cr_tensor *x = cr_requires_grad_(OF(3, 1, 3, 3), true), *m = cr_requires_grad_(OF(2, 2, 5), true);
    VALUES(gradient_of(cr_max(x, CR_ALL, false), x), 1. / 3, 0, 1. / 3, 1. / 3);
    VALUES(gradient_of(cr_min(m, CR_ALL, true), m), 0.5, 0.5, 0);
    cr_tensor *dead = cr_requires_grad_(OF(-inf, -inf), true), *part = cr_requires_grad_(OF(-inf, 0), true);
    VALUES(gradient_of(cr_logsumexp(dead, CR_ALL, false), dead), 0, 0);
    VALUES(gradient_of(cr_logsumexp(part, CR_ALL, false), part), 0, 1);
    cr_tensor *zero = cr_requires_grad_(OF(0, 0), true), *some = cr_requires_grad_(OF(2, 0, 3), true), *twice = cr_requires_grad_(OF(0, 5, 0), true);
    VALUES(gradient_of(cr_norm(zero, 2, CR_ALL, false), zero), 0, 0);
    cr_tensor *equal = cr_requires_grad_(OF(3, -3, 1), true), *flat = cr_requires_grad_(OF(4, 4), true);
    VALUES(gradient_of(cr_norm(equal, inf, CR_ALL, false), equal), 0.5, -0.5, 0);
    VALUES(gradient_of(cr_std(flat, CR_ALL, 1, false), flat), 0, 0);
    VALUES(gradient_of(cr_prod(some, CR_ALL, false), some), 0, 6, 0);
    VALUES(gradient_of(cr_prod(twice, CR_ALL, false), twice), 0, 0, 0);
    cr_tensor *run = cr_requires_grad_(OF(2, 0, 3, 0), true);
    VALUES(gradient_of(cr_cumprod(run, 0), run), 1, 8, 0, 0);
    cr_tensor *missing = cr_requires_grad_(OF(1, NAN, 3), true), *lost = cr_requires_grad_(OF(-inf, 1), true);
    VALUES(gradient_of(cr_nansum(missing, CR_ALL, false), missing), 1, 0, 1);
    VALUES(gradient_of(cr_logcumsumexp(lost, 0), lost), 0, 1);
    cr_tensor *tied = cr_requires_grad_(OF(1, 3, 3), true);
    VALUES(gradient_of(cr_max_along(tied, 0, false, NULL), tied), 0, 1, 0);
    cr_tensor *half = cr_requires_grad_(cr_ones(CR_LIST(3), CR_BF16, dev), true);
    VALUES(gradient_of(cr_mean(half, CR_ALL, false), half), 0.333984375, 0.333984375, 0.333984375);
    CHECK(cr_dtype_of(cr_grad(half)) == CR_BF16, "a gradient has its tensor's dtype");
}
TEST(reduction_gradients) { EACH_DEVICE SCOPED(check_reduction_gradients()); }

/* The second derivative of a product is that of its other elements, whether one, two or none of them are 0. */
static void check_second_of_products(void) {
    const double numbers[3][3] = {{2, 3, 5}, {2, 0, 5}, {0, 0, 5}};
    cr_backward_options graph = {.create_graph = true};
    for (int k = 0; k < 3; k++)
        for (int running = 0; running < 2; running++) {
            const double *v = numbers[k];
            const cr_tensor *x = cr_requires_grad_(of(3, v), true), *y = running ? cr_select(cr_cumprod(x, 0), 0, 2) : cr_prod(x, CR_ALL, false);
            cr_tensor *g;
            OK(cr_gradients(1, &y, NULL, 1, &x, &g, &graph));
            VALUES(cr_detach(g), v[1] * v[2], v[0] * v[2], v[0] * v[1]);
            VALUES(gradient_of(cr_select(g, 0, 0), x), 0, v[2], v[1]);
        }
}
TEST(second_of_products) { EACH_DEVICE SCOPED(check_second_of_products()); }

static void check_scans(void) {
    const double inf = INFINITY;
    cr_tensor *index;
    VALUES(cr_cumsum(OF(1, 2, NAN, 4), 0), 1, 3, NAN, NAN);
    VALUES(cr_cumsum(OF(1, inf, -inf, 4, 5), 0), 1, inf, NAN, NAN, NAN);
    VALUES(cr_cumprod(OF(2, 0, inf, 1), -1), 2, 0, NAN, NAN);
    VALUES(cr_logcumsumexp(OF(-inf, 0, 0, inf, 1), 0), -inf, 0, log(2), inf, inf);
    VALUES(cr_cummax(OF(1, 3, 3, NAN, 9, NAN), 0, &index), 1, 3, 3, NAN, NAN, NAN);
    VALUES(index, 0, 1, 2, 3, 3, 5);
    VALUES(cr_cummin(cr_scalar_int(7), -1, &index), 7);
    VALUES(index, 0);
    VALUES(cr_diff(OF(1, 4, 9, 16), 2, 0), 2, 2);
    SHAPE(cr_diff(OF(1, 4), 9, 0), 0);
    VALUES(cr_diff(cr_from((uint8_t[]){3, 1}, CR_LIST(2), CR_U8, dev), 1, 0), 254);
    CHECK(cr_dtype_of(cr_cumsum(cr_ones(CR_LIST(2), CR_BOOL, dev), 0)) == CR_I64, "bool sums as int64");
    cr_tensor *most = cr_cumprod(cr_from((int64_t[]){INT64_MAX, 2}, CR_LIST(2), CR_I64, dev), 0);
    CHECK(cr_item_int(cr_select(most, 0, 1)) == -2, "int64 wraps");
    FAILS(CR_BAD_INDEX, "[cumsum] axis 1 is out of range", cr_cumsum(OF(1), 1));
    FAILS(CR_BAD_TYPE, "[logcumsumexp] needs a floating point tensor", cr_logcumsumexp(cr_ones(CR_LIST(2), CR_I64, dev), 0));
    FAILS(CR_BAD_VALUE, "[diff] differences of order -1", cr_diff(OF(1), -1, 0));
    FAILS(CR_BAD_VALUE, "[diff] a tensor without axes", cr_diff(cr_zeros(CR_ALL, CR_F32, dev), 1, 0));
    FAILS(CR_BAD_VALUE, "[cummax]", cr_cummax(NULL, 0, &index));
    CHECK(!index, "no index without values");
}
TEST(scans) { EACH_DEVICE SCOPED(check_scans()); }

/* ---- products */
static void check_matmul_rules(void) {
    static const struct { int na; int64_t a[4]; int nb; int64_t b[4]; int n; int64_t out[4]; } rules[] = {
        {1, {5}, 1, {5}, 0, {0}},                   {1, {5}, 2, {5, 3}, 1, {3}},                    {2, {2, 5}, 1, {5}, 1, {2}},
        {2, {2, 5}, 2, {5, 3}, 2, {2, 3}},          {3, {7, 2, 5}, 2, {5, 3}, 3, {7, 2, 3}},        {2, {2, 5}, 3, {7, 5, 3}, 3, {7, 2, 3}},
        {4, {7, 1, 2, 5}, 3, {3, 5, 1}, 4, {7, 3, 2, 1}}, {3, {7, 2, 5}, 1, {5}, 2, {7, 2}},        {1, {5}, 4, {2, 3, 5, 7}, 3, {2, 3, 7}},
        {2, {2, 0}, 2, {0, 3}, 2, {2, 3}},          {2, {0, 5}, 2, {5, 3}, 2, {0, 3}},              {3, {0, 2, 5}, 2, {5, 3}, 3, {0, 2, 3}},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        cr_tensor *y = cr_matmul(cr_ones(rules[i].na, rules[i].a, CR_F32, dev), cr_ones(rules[i].nb, rules[i].b, CR_F32, dev));
        CHECK(has_shape(y, rules[i].n, rules[i].out), "rule %zu: %s", i, y ? cr_shape_text(y->ndim, y->shape).s : cr_error());
        if (y && y->numel) CHECK(cr_item(cr_max(y, CR_ALL, false)) == (double)rules[i].a[rules[i].na - 1], "rule %zu: K ones add up to K", i);
    }
    cr_tensor *a = cr_ones(CR_LIST(2, 4), CR_F32, dev), *b = cr_ones(CR_LIST(3, 5), CR_F32, dev);
    FAILS(CR_BAD_VALUE, "[matmul] inner dimensions differ: (2, 4) x (3, 5)", cr_matmul(a, b));
    FAILS(CR_BAD_VALUE, "[matmul] shapes (2,) and (3,) do not broadcast", cr_matmul(cr_ones(CR_LIST(2, 4, 3), CR_F32, dev), cr_ones(CR_LIST(3, 3, 4), CR_F32, dev)));
    FAILS(CR_BAD_VALUE, "[matmul] both operands need an axis: () x (3, 5)", cr_matmul(cr_ones(CR_ALL, CR_F32, dev), b));
    FAILS(CR_BAD_TYPE, "[matmul] expected both to have the same dtype: float32, float64", cr_matmul(a, cr_ones(CR_LIST(4, 2), CR_F64, dev)));
    FAILS(CR_BAD_VALUE, "[matmul] shape (1099511627776, 1099511627776) holds too many",
          cr_matmul(cr_zeros(CR_LIST(INT64_C(1) << 40, 0), CR_F32, dev), cr_zeros(CR_LIST(0, INT64_C(1) << 40), CR_F32, dev)));
    FAILS(CR_BAD_TYPE, "[matmul] takes numbers, not bool", cr_matmul(cr_ones(CR_LIST(2), CR_BOOL, dev), cr_ones(CR_LIST(2), CR_BOOL, dev)));
    FAILS(CR_BAD_VALUE, "[matmul] operands on two devices", cr_matmul(cr_ones(CR_LIST(2), CR_F32, cr_cpu()), cr_ones(CR_LIST(2), CR_F32, cr_ref())));
    bool old = cr_auto_transfer(true);
    VALUES(cr_matmul(cr_ones(CR_LIST(2), CR_F32, cr_cpu()), cr_ones(CR_LIST(2), CR_F32, cr_ref())), 2);
    cr_auto_transfer(old);
}
TEST(matmul_rules) { EACH_DEVICE SCOPED(check_matmul_rules()); }

static void check_linear(void) {
    cr_tensor *x = counting(CR_LIST(2, 3)), *w = cr_ones(CR_LIST(2, 3), CR_F32, dev), *b = cr_from((float[]){10, -20}, CR_LIST(2), CR_F32, dev);
    VALUES(cr_linear(x, w, b, CR_ACT_NONE), 13, -17, 22, -8);
    VALUES(cr_linear(x, w, b, CR_ACT_RELU), 13, 0, 22, 0);
    VALUES(cr_linear(cr_transpose(counting(CR_LIST(3, 2)), 0, 1), w, CR_NONE, CR_ACT_NONE), 6, 6, 9, 9);
    VALUES(cr_linear(cr_zeros(CR_LIST(2, 0), CR_F32, dev), cr_zeros(CR_LIST(2, 0), CR_F32, dev), b, CR_ACT_NONE), 10, -20, 10, -20);
    SHAPE(cr_linear(cr_zeros(CR_LIST(5, 0, 3), CR_F32, dev), w, b, CR_ACT_TANH), 5, 0, 2);
    FAILS(CR_BAD_VALUE, "[linear] the weight must be (outputs, inputs): (2,)", cr_linear(x, b, CR_NONE, CR_ACT_NONE));
    FAILS(CR_BAD_VALUE, "[linear] the last axis of (2,) must be the 3 inputs of the weight (2, 3)", cr_linear(b, w, CR_NONE, CR_ACT_NONE));
    FAILS(CR_BAD_VALUE, "[linear] the bias must be (2,): (2, 3)", cr_linear(x, w, w, CR_ACT_NONE));
    FAILS(CR_BAD_TYPE, "[linear] expected both to have the same dtype: float32, float64", cr_linear(x, cr_to(w, CR_F64, dev), b, CR_ACT_NONE));
    FAILS(CR_BAD_VALUE, "[linear] 99 is not an activation", cr_linear(x, w, b, (cr_act)99));
}
TEST(linear) { EACH_DEVICE SCOPED(check_linear()); }

/* ---- indexing */
static void check_indexing(void) {
    cr_tensor *x = counting(CR_LIST(3, 4)), *index = cr_reshape(of_index(4, (int64_t[]){2, 0, 1, 1}), CR_LIST(2, 2));
    VALUES(cr_gather(x, 0, index), 8, 1, 4, 5);
    VALUES(cr_gather(x, -1, cr_to(index, CR_I32, dev)), 2, 0, 5, 5);
    VALUES(cr_scatter_add(x, 0, index, cr_full(CR_LIST(2, 3), 100, CR_F32, dev)), 0, 101, 2, 3, 104, 105, 6, 7, 108, 9, 10, 11);
    VALUES(x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    FAILS(CR_BAD_INDEX, "index 3 at position 1 is out of range for size 3", cr_gather(x, 0, cr_reshape(of_index(2, (int64_t[]){2, 3}), CR_LIST(1, 2))));
    FAILS(CR_BAD_INDEX, "index -1", cr_scatter_add(x, 0, cr_reshape(of_index(1, (int64_t[]){-1}), CR_LIST(1, 1)), x));
    FAILS(CR_BAD_TYPE, "[gather] indices must be int32 or int64: float32", cr_gather(x, 0, x));
    FAILS(CR_BAD_VALUE, "[gather] the index (4,) must have the axes of (3, 4)", cr_gather(x, 0, of_index(4, (int64_t[]){0, 0, 0, 0})));
    FAILS(CR_BAD_VALUE, "[scatter_add] the source (2, 1) does not cover the index (2, 2)", cr_scatter_add(x, 0, index, cr_ones(CR_LIST(2, 1), CR_F32, dev)));
    FAILS(CR_BAD_TYPE, "[scatter_add] expected both to have the same dtype", cr_scatter_add(x, 0, index, cr_ones(CR_LIST(2, 2), CR_F64, dev)));

    cr_tensor *own = cr_requires_grad_(OF(2, 3, 1, 7), true), *src = cr_requires_grad_(OF(2, 2, 0, 1, 1), true), *at = of_index(5, (int64_t[]){0, 0, 1, 2, 2});
    static const struct { cr_scatter_kind kind; bool self; double y[4], down[4], dsrc[5]; } reduced[] = {       /* equal extremes share: PyTorch's own example */
        {CR_SCATTER_SUM, false, {4, 0, 2, 7}, {0, 0, 0, 1}, {1, 1, 1, 1, 1}},
        {CR_SCATTER_PROD, true, {8, 0, 1, 7}, {4, 0, 1, 1}, {4, 4, 3, 1, 1}},
        {CR_SCATTER_MEAN, true, {2, 1.5, 1, 7}, {1. / 3, 0.5, 1. / 3, 1}, {1. / 3, 1. / 3, 0.5, 1. / 3, 1. / 3}},
        {CR_SCATTER_MEAN, false, {2, 0, 1, 7}, {0, 0, 0, 1}, {0.5, 0.5, 1, 0.5, 0.5}},
        {CR_SCATTER_AMAX, true, {2, 3, 1, 7}, {1. / 3, 1, 1. / 3, 1}, {1. / 3, 1. / 3, 0, 1. / 3, 1. / 3}},
        {CR_SCATTER_AMAX, false, {2, 0, 1, 7}, {0, 0, 0, 1}, {0.5, 0.5, 1, 0.5, 0.5}},
        {CR_SCATTER_AMIN, true, {2, 0, 1, 7}, {1. / 3, 0, 1. / 3, 1}, {1. / 3, 1. / 3, 1, 1. / 3, 1. / 3}},
    };
    for (size_t k = 0; k < sizeof reduced / sizeof *reduced; k++) {
        cr_tensor *y = cr_scatter_reduce(own, 0, at, src, reduced[k].kind, reduced[k].self);
        check_values(__FILE__, __LINE__, y, 4, reduced[k].y, 1e-12);
        OK(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL));
        check_values(__FILE__, __LINE__, cr_grad(own), 4, reduced[k].down, 1e-12);
        check_values(__FILE__, __LINE__, cr_grad(src), 5, reduced[k].dsrc, 1e-12);
        OK(cr_set_grad(own, CR_NONE));
        OK(cr_set_grad(src, CR_NONE));
    }
    cr_tensor *ends = of_index(3, (int64_t[]){0, 1, 1}), *nan = OF(1, NAN, -INFINITY), *whole = cr_to(OF(1, -4, 6), CR_I8, dev);
    VALUES(cr_scatter_reduce(OF(0, 0), 0, ends, nan, CR_SCATTER_AMIN, true), 0, NAN);
    VALUES(cr_scatter_reduce(OF(0, 0), 0, ends, nan, CR_SCATTER_AMAX, false), 1, NAN);
    VALUES(cr_scatter_reduce(cr_to(OF(-4, -5), CR_I8, dev), 0, ends, whole, CR_SCATTER_MEAN, true), -2, -1);        /* floored */
    VALUES(cr_scatter_reduce(cr_to(OF(-128, -5), CR_I8, dev), 0, ends, whole, CR_SCATTER_AMIN, false), 1, -4);
    FAILS(CR_BAD_INDEX, "[scatter_reduce] index 1 at position 1 is out of range for size 1", cr_scatter_reduce(OF(0), 0, ends, nan, CR_SCATTER_AMAX, true));
    FAILS(CR_BAD_INDEX, "[scatter_reduce] index 1 at position 1 is out of range for size 1", cr_scatter_reduce(OF(0), 0, ends, nan, CR_SCATTER_MEAN, true));
    FAILS(CR_BAD_VALUE, "[scatter_reduce] the source (2,) does not cover the index (3,)", cr_scatter_reduce(OF(0), 0, ends, OF(0, 0), CR_SCATTER_SUM, true));
    FAILS(CR_BAD_VALUE, "[scatter_reduce] there is no kind 5", cr_scatter_reduce(OF(0), 0, ends, nan, (cr_scatter_kind)5, true));
    FAILS(CR_BAD_TYPE, "[scatter_reduce] adds and multiplies numbers, not bool", cr_scatter_reduce(cr_gt(nan, nan), 0, ends, cr_gt(nan, nan), CR_SCATTER_PROD, true));
    FAILS(CR_BAD_TYPE, "[scatter_reduce] expected both to have the same dtype", cr_scatter_reduce(x, 0, index, cr_ones(CR_LIST(2, 2), CR_F64, dev), CR_SCATTER_AMIN, true));
    FAILS(CR_BAD_INDEX, "[scatter_reduce]", cr_scatter_reduce(x, 2, index, x, CR_SCATTER_AMIN, true));

    cr_tensor *w = cr_requires_grad_(counting(CR_LIST(3, 2)), true), *rows = of_index(3, (int64_t[]){2, 0, 2});
    VALUES(cr_embedding(w, rows), 4, 5, 0, 1, 4, 5);
    VALUES(gradient_of(cr_embedding(w, rows), w), 1, 1, 0, 0, 2, 2);
    SHAPE(cr_embedding(w, cr_zeros(CR_LIST(2, 0), CR_I64, dev)), 2, 0, 2);
    FAILS(CR_BAD_INDEX, "index 3 at position 0", cr_embedding(w, of_index(1, (int64_t[]){3})));
    FAILS(CR_BAD_TYPE, "[embedding] indices must be int32 or int64: uint8", cr_embedding(w, cr_zeros(CR_LIST(2), CR_U8, dev)));
    FAILS(CR_BAD_VALUE, "[embedding] the table must be (rows, columns): (3,)", cr_embedding(rows, rows));

    cr_tensor *mask = cr_gt(x, cr_scalar(9));
    VALUES(cr_masked_fill(x, mask, -1), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1);
    FAILS(CR_BAD_TYPE, "[masked_fill] the mask must be bool: float32", cr_masked_fill(x, x, 0));
    FAILS(CR_BAD_VALUE, "[masked_fill] shapes (3,) and (3, 4) do not broadcast", cr_masked_fill(x, cr_ones(CR_LIST(3), CR_BOOL, dev), 0));
    FAILS(CR_BAD_VALUE, "[masked_fill_] a result of shape (2, 3, 4)", cr_masked_fill_(x, cr_ones(CR_LIST(2, 3, 4), CR_BOOL, dev), 0));
    FAILS(CR_BAD_VALUE, "[masked_fill] 300 does not fit uint8", cr_masked_fill(cr_zeros(CR_LIST(1), CR_U8, dev), cr_ones(CR_LIST(1), CR_BOOL, dev), 300));
    VALUES(cr_tril(cr_full(CR_LIST(2, 3), NAN, CR_F32, dev), -1), 0, 0, 0, NAN, 0, 0);
    VALUES(cr_triu(x, 2), 0, 0, 2, 3, 0, 0, 0, 7, 0, 0, 0, 0);
    SHAPE(cr_tril(cr_zeros(CR_LIST(2, 0, 3), CR_F32, dev), 0), 2, 0, 3);
    FAILS(CR_BAD_VALUE, "[tril] needs a matrix: (3,)", cr_tril(rows, 0));
}
TEST(indexing) { EACH_DEVICE SCOPED(check_indexing()); }

/* What rows of ops_cases.h cannot say: duplicates, in place, parts of other tensors, refusals. */
static void check_places(void) {
    cr_tensor *x = counting(CR_LIST(3, 4)), *twice = of_index(3, (int64_t[]){2, 0, 2}), *rows = counting(CR_LIST(3, 4)), *ten = cr_full(CR_ALL, 10, CR_F32, dev);
    VALUES(cr_index_copy(x, 0, twice, rows), 4, 5, 6, 7, 4, 5, 6, 7, 8, 9, 10, 11);
    VALUES(cr_index_add(x, 0, twice, rows), 4, 6, 8, 10, 4, 5, 6, 7, 16, 19, 22, 25);
    VALUES(cr_index_fill(x, 1, twice, cr_scalar(-1)), -1, 1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11);
    VALUES(x, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);

    cr_tensor *turned = cr_transpose(cr_clone(x), 0, 1), *part = cr_slice(turned, 0, 1, 4, 2);      /* (2, 3): columns 1 and 3 of x */
    CHECK(cr_index_add_(part, 1, twice, cr_ones(CR_LIST(2, 3), CR_F32, dev)) == part, "%s: %s", dev->name, cr_error());
    CHECK(cr_index_fill_(part, 0, of_index(1, (int64_t[]){1}), ten) == part, "%s: %s", dev->name, cr_error());
    CHECK(cr_scatter_(part, 1, cr_zeros(CR_LIST(1, 1), CR_I32, dev), cr_scalar(7)) == part, "%s: %s", dev->name, cr_error());
    CHECK(cr_scatter_add_(part, 0, cr_zeros(CR_LIST(1, 3), CR_I64, dev), cr_ones(CR_LIST(1, 3), CR_F32, dev)) == part, "%s: %s", dev->name, cr_error());
    VALUES(cr_transpose(turned, 0, 1), 0, 8, 2, 10, 4, 6, 6, 10, 8, 12, 10, 10);
    const cr_tensor *pair[] = {twice, cr_reshape(of_index(2, (int64_t[]){-1, 0}), CR_LIST(2, 1))}, *apart[] = {twice, CR_NONE, twice};
    cr_tensor *deep = cr_clone(cr_reshape(counting(CR_LIST(3, 1, 4)), CR_LIST(3, 1, 4)));
    VALUES(cr_index_get(x, 2, pair), 11, 3, 11, 8, 0, 8);
    SHAPE(cr_index_get(deep, 3, apart), 3, 1);
    CHECK(cr_index_put_(deep, 3, apart, ten, true) == deep, "%s: %s", dev->name, cr_error());
    VALUES(deep, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 11);
    CHECK(cr_index_put_(deep, 3, apart, cr_slice(cr_reshape(deep, CR_LIST(12)), 0, 0, 1, 1), false) == deep, "%s: %s", dev->name, cr_error());
    VALUES(deep, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    const cr_tensor *ends = of_index(2, (int64_t[]){-1, 0}), *last[] = {ends}, *narrow[] = {cr_to(ends, CR_I32, dev)}, *columns[] = {CR_NONE, ends};     /* from the end */
    VALUES(cr_index_get(x, 1, last), 8, 9, 10, 11, 0, 1, 2, 3);
    VALUES(cr_index_get(x, 1, narrow), 8, 9, 10, 11, 0, 1, 2, 3);
    VALUES(cr_index_get(x, 2, columns), 3, 0, 7, 4, 11, 8);
    VALUES(cr_index_put(x, 2, columns, ten, true), 10, 1, 2, 13, 14, 5, 6, 17, 18, 9, 10, 21);
    cr_tensor *written = cr_clone(x);
    CHECK(cr_index_put_(written, 1, narrow, ten, false) == written, "%s: %s", dev->name, cr_error());
    VALUES(written, 10, 10, 10, 10, 4, 5, 6, 7, 10, 10, 10, 10);
    cr_tensor *own = cr_clone(x);
    CHECK(cr_index_copy_(own, 0, of_index(2, (int64_t[]){0, 1}), cr_slice(own, 0, 1, 3, 1)) == own, "%s: %s", dev->name, cr_error());
    VALUES(own, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11);

    cr_tensor *mask = cr_gt(x, cr_scalar(8)), *yes = cr_ones(CR_ALL, CR_BOOL, dev);
    VALUES(cr_masked_select(x, mask), 9, 10, 11);
    VALUES(cr_masked_scatter(x, mask, cr_neg(cr_arange(1, 5, 1, CR_F32, dev))), 0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -2, -3);
    VALUES(cr_nonzero(mask), 2, 1, 2, 2, 2, 3);
    VALUES(cr_nonzero(OF(0, -0.0, NAN, 2)), 2, 3);
    SHAPE(cr_nonzero(cr_zeros(CR_LIST(3, 0), CR_F32, dev)), 0, 2);
    SHAPE(cr_nonzero(yes), 1, 0);
    SHAPE(cr_index_get(x, 1, (const cr_tensor *[]){yes}), 1, 3, 4);
    SHAPE(cr_index_get(x, 2, (const cr_tensor *[]){CR_NONE, CR_NONE}), 3, 4);
    VALUES(cr_one_hot(of_index(2, (int64_t[]){2, 0}), -1), 0, 0, 1, 1, 0, 0);
    VALUES(cr_take(x, of_index(2, (int64_t[]){-1, 3})), 11, 3);
    SHAPE(cr_index_get(cr_zeros(CR_LIST(3, 0), CR_F32, dev), 1, pair), 3, 0);

#define LEAF(t) cr_requires_grad_(t, true)
    cr_tensor *w[4], *v = LEAF(cr_ones(CR_LIST(3), CR_F32, dev));
    for (int i = 0; i < 4; i++) w[i] = LEAF(counting(CR_LIST(3)));
    VALUES(gradient_of(cr_index_put(w[0], 1, pair, cr_ones(CR_LIST(3), CR_F32, dev), true), w[0]), 1, 1, 1);
    VALUES(gradient_of(cr_index_put(w[1], 1, pair, cr_ones(CR_LIST(3), CR_F32, dev), false), w[1]), 0, 1, 0);
    VALUES(gradient_of(cr_index_put(w[2], 1, pair, v, false), v), 1, 1, 1);
    VALUES(gradient_of(cr_mul(cr_index_get(w[3], 1, pair), OF(1, 2, 4)), w[3]), 2, 0, 5);

    FAILS(CR_BAD_INDEX, "index 3 at position 0 is out of range for size 0", cr_index_get(cr_zeros(CR_LIST(0, 2), CR_F32, dev), 1, (const cr_tensor *[]){of_index(1, (int64_t[]){3})}));
    FAILS(CR_BAD_INDEX, "[index] index -4 at position 1 is out of range for size 3", cr_index_get(x, 1, (const cr_tensor *[]){of_index(2, (int64_t[]){-3, -4})}));
    FAILS(CR_BAD_INDEX, "[index_put] index 4 at position 0 is out of range for size 4", cr_index_put(x, 2, (const cr_tensor *[]){CR_NONE, of_index(1, (int64_t[]){4})}, ten, true));
    FAILS(CR_BAD_INDEX, "[index] too many indices for a tensor of 2 axes", cr_index_get(x, 3, apart));
    FAILS(CR_BAD_INDEX, "[index] a mask of shape (3, 4) for the axes of shape (3, 1)", cr_index_get(deep, 1, (const cr_tensor *const *)&mask));
    FAILS(CR_BAD_INDEX, "[index] an index tensor holds signed integers, unsigned ones of at most 32 bits, or bool: float32", cr_index_get(x, 1, (const cr_tensor *const *)&x));
    FAILS(CR_BAD_VALUE, "[index_put] shapes (2,) and (3, 4) do not broadcast", cr_index_put(x, 1, pair, OF(1, 2), false));
    FAILS(CR_BAD_VALUE, "[index_add] a source of shape (2,) for places of shape (3, 4)", cr_index_add(x, 0, twice, counting(CR_LIST(2))));
    FAILS(CR_BAD_TYPE, "[index_copy] expected both to have the same dtype: float32, int64", cr_index_copy(x, 0, twice, cr_zeros(CR_LIST(3, 4), CR_I64, dev)));
    FAILS(CR_BAD_VALUE, "[masked_scatter] 2 elements for a mask that is true in 3 places", cr_masked_scatter(x, mask, OF(1, 2)));
    FAILS(CR_BAD_VALUE, "[one_hot] 0 classes", cr_one_hot(twice, 0));
    FAILS(CR_BAD_INDEX, "[scatter] index 2 at position 0", cr_one_hot(twice, 2));
    FAILS(CR_RUNTIME, "leaf that requires grad", cr_index_put_(w[0], 1, pair, v, true));
    FAILS(CR_BAD_VALUE, "axis 0 of (3, 4) is expanded", cr_index_fill_(cr_expand(OF(1, 2, 3, 4), CR_LIST(3, 4)), 0, twice, ten));
}
TEST(places) { EACH_DEVICE SCOPED(check_places()); }

/* ---- neural network */
static void check_rows(void) {
    const double inf = INFINITY;
    VALUES(cr_softmax(OF(1000, 1000), 0), 0.5, 0.5);
    VALUES(cr_softmax(OF(-inf, 3), -1), 0, 1);
    VALUES(cr_log_softmax(OF(-inf, 3), -1), -inf, 0);
    VALUES(cr_softmax(OF(-inf, -inf), -1), NAN, NAN);
    VALUES(cr_softmax(cr_ones(CR_LIST(2, 2), CR_F16, dev), 0), 0.5, 0.5, 0.5, 0.5);
    VALUES(cr_softmax(cr_ones(CR_ALL, CR_F32, dev), -1), 1);
    SHAPE(cr_softmax(cr_zeros(CR_LIST(2, 0, 3), CR_F32, dev), 1), 2, 0, 3);
    FAILS(CR_BAD_TYPE, "[softmax] needs a floating point tensor: int64", cr_softmax(cr_ones(CR_LIST(2), CR_I64, dev), 0));
    FAILS(CR_BAD_INDEX, "[log_softmax] axis 1", cr_log_softmax(OF(1), 1));

    cr_tensor *x = cr_requires_grad_(cr_zeros(CR_LIST(0, 3), CR_F32, dev), true), *w = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, dev), true);
    VALUES(gradient_of(cr_layer_norm(x, w, CR_NONE, 1e-5), w), 0, 0, 0);
    VALUES(cr_layer_norm(cr_full(CR_LIST(2), 7, CR_F32, dev), CR_NONE, cr_ones(CR_LIST(2), CR_F32, dev), 1e-5), 1, 1);
    VALUES(cr_rms_norm(OF(3, 4), CR_NONE, 0), 3 / sqrt(12.5), 4 / sqrt(12.5));
    FAILS(CR_BAD_VALUE, "[layer_norm] the weight must be (3,), as the last axis of (0, 3): (0, 3)", cr_layer_norm(x, x, CR_NONE, 1e-5));
    FAILS(CR_BAD_VALUE, "[layer_norm] the bias must be (3,)", cr_layer_norm(x, w, x, 1e-5));
    FAILS(CR_BAD_VALUE, "[rms_norm] eps must be 0 or more: -1", cr_rms_norm(x, w, -1));
    FAILS(CR_BAD_VALUE, "[rms_norm] needs a last axis", cr_rms_norm(cr_ones(CR_ALL, CR_F32, dev), CR_NONE, 0));
    FAILS(CR_BAD_TYPE, "[layer_norm] needs a floating point tensor: int32", cr_layer_norm(cr_ones(CR_LIST(2), CR_I32, dev), CR_NONE, CR_NONE, 0));
    FAILS(CR_BAD_TYPE, "[layer_norm] expected both to have the same dtype: float32, float64", cr_layer_norm(w, OF(1, 1, 1), CR_NONE, 0));
}
TEST(rows) { EACH_DEVICE SCOPED(check_rows()); }

static void check_cross_entropy(void) {
    cr_tensor *x = cr_requires_grad_(cr_zeros(CR_LIST(3, 4), CR_F32, dev), true), *target = of_index(3, (int64_t[]){0, -100, 3});
    cr_cross_entropy_options o = cr_cross_entropy_defaults();
    VALUES(cr_cross_entropy(x, target, NULL), log(4));
    VALUES(gradient_of(cr_cross_entropy(x, target, NULL), x), -.375, .125, .125, .125, 0, 0, 0, 0, .125, .125, .125, -.375);
    o.reduction = CR_SUM;
    VALUES(cr_cross_entropy(x, target, &o), 2 * log(4));
    o.reduction = CR_EACH;
    VALUES(cr_cross_entropy(x, target, &o), log(4), 0, log(4));
    VALUES(cr_cross_entropy(x, cr_full(CR_LIST(3), -100, CR_I64, dev), NULL), NAN);
    VALUES(cr_cross_entropy(cr_zeros(CR_LIST(0, 4), CR_F32, dev), cr_zeros(CR_LIST(0), CR_I64, dev), NULL), NAN);
    VALUES(cr_cross_entropy(OF(0, 0), cr_zeros(CR_ALL, CR_I32, dev), NULL), log(2));
    FAILS(CR_BAD_INDEX, "index 4 at position 1", cr_cross_entropy(x, of_index(3, (int64_t[]){0, 4, 3}), NULL));
    FAILS(CR_BAD_VALUE, "[cross_entropy] logits (3, 4) take a target of shape (3,): (2,)", cr_cross_entropy(x, of_index(2, (int64_t[]){0, 1}), NULL));
    FAILS(CR_BAD_TYPE, "[cross_entropy] indices must be int32 or int64: float32", cr_cross_entropy(x, cr_zeros(CR_LIST(3), CR_F32, dev), NULL));
    FAILS(CR_BAD_TYPE, "[cross_entropy] needs a floating point tensor: int64", cr_cross_entropy(target, target, NULL));
    FAILS(CR_BAD_VALUE, "[cross_entropy] no classes: logits (3, 0)", cr_cross_entropy(cr_zeros(CR_LIST(3, 0), CR_F32, dev), target, NULL));
    o.label_smoothing = 1.5;
    FAILS(CR_BAD_VALUE, "label smoothing must be in [0, 1]: 1.5", cr_cross_entropy(x, target, &o));
    o = (cr_cross_entropy_options){.reduction = (cr_reduction)9};
    FAILS(CR_BAD_VALUE, "9 is not a reduction", cr_cross_entropy(x, target, &o));
}
TEST(cross_entropy) { EACH_DEVICE SCOPED(check_cross_entropy()); }

static void check_dropout(void) {
    cr_generator *g = cr_generator_new(3);
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(5000), CR_F32, dev), true), *y = cr_dropout(x, 0.2, true, g);
    double kept = cr_item(cr_sum(cr_gt(y, cr_scalar(0)), CR_ALL, false)) / 5000;
    CHECK(fabs(kept - 0.8) < 0.02 && cr_item(cr_max(y, CR_ALL, false)) == 1.25, "dropout(0.2) kept a share of %g", kept);
    cr_tensor *d = gradient_of(y, x);
    CHECK(cr_item(cr_sum(cr_ne(d, y), CR_ALL, false)) == 0, "the gradient of ones is the mask and scale itself");
    CHECK(cr_dropout(x, 0.5, false, NULL)->storage == x->storage && cr_dropout(x, 0, true, g)->storage == x->storage, "nothing is dropped: x itself");
    CHECK(cr_item(cr_sum(cr_dropout(x, 1, true, g), CR_ALL, false)) == 0, "p = 1 drops everything");
    SHAPE(cr_dropout(cr_zeros(CR_LIST(0, 2), CR_F32, dev), 0.5, true, g), 0, 2);
    FAILS(CR_BAD_VALUE, "[dropout] the chance must be in [0, 1]: -0.1", cr_dropout(x, -0.1, true, g));
    FAILS(CR_BAD_TYPE, "[dropout] needs a floating point tensor", cr_dropout(cr_ones(CR_LIST(2), CR_I64, dev), 0.5, true, g));
    FAILS(CR_BAD_VALUE, "[dropout]", cr_dropout(x, 0.5, true, NULL));
    cr_generator_free(g);
}
TEST(dropout) { EACH_DEVICE SCOPED(check_dropout()); }

static cr_tensor *masked(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask) {
    return cr_attention(q, k, v, &(cr_attention_options){.mask = mask});
}

/* q (2, 3, 5, 7), k and v (2, 3, 4, 7) */
static void check_attention_mask(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v) {
    cr_tensor *plain = cr_attention(q, k, v, NULL), *all = cr_ones(CR_LIST(5, 4), CR_BOOL, dev), *none = cr_zeros(CR_LIST(4), CR_BOOL, dev);
    CHECK(cr_item(cr_max(cr_abs(cr_sub(masked(q, k, v, CR_NONE), plain)), CR_ALL, false)) == 0, "CR_NONE is no mask");
    CHECK(cr_item(cr_max(cr_abs(cr_sub(masked(q, k, v, all), plain)), CR_ALL, false)) == 0, "a mask of true hides nothing");
    CHECK(cr_item(cr_max(cr_abs(masked(q, k, v, none)), CR_ALL, false)) == 0, "queries that see nothing give 0");
    cr_tensor *low = cr_tril(cr_ones(CR_LIST(5, 4), CR_BOOL, dev), -1), *causal = cr_attention(q, k, v, &(cr_attention_options){.causal = true});
    CHECK(cr_item(cr_max(cr_abs(cr_sub(masked(q, k, v, low), causal)), CR_ALL, false)) < 1e-12, "causal is a mask that is true below the diagonal");
    cr_tensor *lost = cr_requires_grad_(cr_full(CR_LIST(5, 4), -INFINITY, CR_F64, dev), true), *x = cr_requires_grad_(cr_clone(q), true);
    cr_tensor *y = masked(x, k, v, lost), *grads[2];
    OK(cr_gradients(1, (const cr_tensor *[]){y}, (const cr_tensor *[]){q}, 2, (const cr_tensor *[]){x, lost}, grads, NULL));
    for (int i = 0; i < 2; i++) CHECK(cr_item(cr_sum(cr_abs(grads[i]), CR_ALL, false)) == 0, "no gradient where nothing is seen, and no NaN: input %d", i);
    FAILS(CR_BAD_TYPE, "[attention] the mask must be bool or float64, as q is: float32", masked(q, k, v, cr_ones(CR_LIST(5, 4), CR_F32, dev)));
    FAILS(CR_BAD_TYPE, "[attention] the mask must be bool or float64, as q is: int64", masked(q, k, v, cr_ones(CR_LIST(5, 4), CR_I64, dev)));
    FAILS(CR_BAD_VALUE, "[attention] the mask does not broadcast to the scores (B, H, T, S): (5, 5), (2, 3, 5, 4)", masked(q, k, v, cr_ones(CR_LIST(5, 5), CR_BOOL, dev)));
    FAILS(CR_BAD_VALUE, "[attention] the mask does not broadcast", masked(q, k, v, cr_ones(CR_LIST(1, 1, 1, 5, 4), CR_BOOL, dev)));
    FAILS(CR_BAD_VALUE, "[attention] operands on two devices", masked(q, k, v, cr_ones(CR_LIST(5, 4), CR_BOOL, dev == cr_cpu() ? cr_ref() : cr_cpu())));
}

static void check_attention(void) {
    cr_tensor *q = normal(CR_LIST(2, 3, 5, 7), 1), *k = normal(CR_LIST(2, 3, 4, 7), 2), *v = normal(CR_LIST(2, 3, 4, 7), 3);
    const cr_attention_options causal = {.causal = true};
    cr_tensor *y = cr_attention(q, k, v, &causal);
    SHAPE(y, 2, 3, 5, 7);
    CHECK(cr_is_contiguous(cr_transpose(y, 1, 2)), "heads side by side need no copy");
    cr_tensor *blind = cr_select(y, 2, 0);          /* T = S + 1: the first query sees no key */
    CHECK(cr_item(cr_max(cr_abs(blind), CR_ALL, false)) == 0, "a query that sees nothing gives 0");
    cr_tensor *first = cr_sub(cr_select(y, 2, 1), cr_select(v, 2, 0));
    CHECK(cr_item(cr_max(cr_abs(first), CR_ALL, false)) < 1e-12, "a query that sees one key gives its value");
    cr_tensor *spread = cr_permute(cr_contiguous(cr_permute(q, CR_LIST(3, 2, 1, 0))), CR_LIST(3, 2, 1, 0));      /* D not contiguous */
    cr_tensor *apart = cr_sub(cr_attention(spread, k, v, &causal), y);
    CHECK(cr_item(cr_max(cr_abs(apart), CR_ALL, false)) < 1e-12, "strides do not matter");
    cr_tensor *nothing = cr_zeros(CR_LIST(2, 3, 0, 7), CR_F64, dev), *zero = cr_attention(q, nothing, nothing, NULL);
    CHECK(cr_item(cr_max(cr_abs(zero), CR_ALL, false)) == 0, "no keys at all give 0");
    SHAPE(cr_attention(nothing, k, v, &causal), 2, 3, 0, 7);
    FAILS(CR_BAD_VALUE, "[attention] takes q (B, H, T, D) and k, v (B, H, S, D): (2, 3, 5, 7), (2, 3, 4, 7), (2, 3, 5, 7)", cr_attention(q, k, q, NULL));
    FAILS(CR_BAD_VALUE, "[attention] takes q", cr_attention(cr_select(q, 0, 0), k, v, NULL));
    FAILS(CR_BAD_TYPE, "[attention] expected both to have the same dtype: float64, float32", cr_attention(q, k, cr_to(v, CR_F32, dev), NULL));
    check_attention_mask(q, k, v);
    FAILS(CR_BAD_VALUE, "[attention] the scale must be finite: nan", cr_attention(q, k, v, &(cr_attention_options){.scale = NAN}));
}
TEST(attention) { EACH_DEVICE SCOPED(check_attention()); }

/* ---- a device without fused kernels: every composite against the kernel of ref, and its gradients */
static cr_kernels plain_kernels;
static cr_device plain;

static void make_plain_device(void) {
    plain_kernels = *cr_device_ref.kernels;
    plain_kernels.softmax = NULL; plain_kernels.softmax_bwd = NULL;
    plain_kernels.norm = NULL; plain_kernels.norm_bwd = NULL;
    plain_kernels.cross_entropy = NULL; plain_kernels.cross_entropy_bwd = NULL;
    plain_kernels.attention = NULL; plain_kernels.attention_bwd = NULL;
    plain = cr_device_ref;
    plain.name = "plain"; plain.type = "plain"; plain.kernels = &plain_kernels;
}

typedef cr_tensor *(*fused_fn)(const cr_tensor *const *in, const cr_tensor *index);
static cr_tensor *run_softmax(const cr_tensor *const *in, const cr_tensor *i) { (void)i; return cr_softmax(in[0], 1); }
static cr_tensor *run_log_softmax(const cr_tensor *const *in, const cr_tensor *i) { (void)i; return cr_log_softmax(in[0], -1); }
static cr_tensor *run_layer_norm(const cr_tensor *const *in, const cr_tensor *i) { (void)i; return cr_layer_norm(in[0], in[1], in[2], 1e-5); }
static cr_tensor *run_bare_norm(const cr_tensor *const *in, const cr_tensor *i) { (void)i; return cr_layer_norm(in[0], CR_NONE, CR_NONE, 1e-5); }
static cr_tensor *run_rms_norm(const cr_tensor *const *in, const cr_tensor *i) { (void)i; return cr_rms_norm(in[0], in[1], 1e-6); }
static cr_tensor *run_cross_entropy(const cr_tensor *const *in, const cr_tensor *i) {
    return cr_cross_entropy(in[0], i, &(cr_cross_entropy_options){.ignore_index = 2, .label_smoothing = 0.1});
}
static cr_tensor *run_attention(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    const cr_tensor *x = cr_unsqueeze(in[0], 0);    /* T 3, S 2 of 3: the first query sees nothing */
    return cr_attention(x, cr_slice(x, 2, 0, 2, 1), cr_slice(cr_mul(x, x), 2, 1, 3, 1), &(cr_attention_options){.causal = true, .scale = 0.7});
}

static cr_tensor *run_attention_mask(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    const cr_tensor *x = cr_unsqueeze(in[0], 0);    /* the mask (1, 3, 3) hides some keys, and all of them from the second query */
    cr_tensor *sees = cr_gt(cr_reshape(of_index(9, (int64_t[]){1, 0, 1, 0, 0, 0, 1, 1, 0}), CR_LIST(3, 3)), cr_scalar_int(0));
    return cr_attention(x, x, cr_mul(x, x), &(cr_attention_options){.mask = sees});
}
static cr_tensor *run_attention_bias(const cr_tensor *const *in, const cr_tensor *i) {
    (void)i;
    const cr_tensor *x = cr_unsqueeze(in[0], 0);    /* the mask's gradient is wanted, over 3 queries */
    return cr_attention(x, x, cr_mul(x, x), &(cr_attention_options){.mask = cr_slice(in[1], 0, 0, 3, 1), .causal = true});
}

/* Value and gradients of f at the same numbers on one device; with create_graph the gradients of a gradient too. */
static void run_on(const cr_device *d, fused_fn f, cr_dtype dt, bool second, double *out, int *n) {
    dev = d;
    const cr_tensor *in[3] = {normal(CR_LIST(2, 3, 5), 11), normal(CR_LIST(5), 12), normal(CR_LIST(5), 13)};
    for (int i = 0; i < 3; i++) in[i] = cr_requires_grad_(cr_to(in[i], dt, d), true);
    cr_tensor *index = cr_reshape(of_index(6, (int64_t[]){0, 4, 2, 1, 2, 3}), CR_LIST(2, 3)), *y = f(in, index), *grads[3];
    *n = 0;
    if (!y) { CHECK(false, "%s: %s", d->name, cr_error()); return; }
    cr_tensor *loss = cr_sum(cr_mul(y, cr_to(cr_reshape(cr_arange(1, 1 + (double)y->numel, 1, CR_F32, d), y->ndim, y->shape), dt, d)), CR_ALL, false);
    OK(cr_gradients(1, (const cr_tensor *const[]){loss}, NULL, 3, in, grads, &(cr_backward_options){.create_graph = second}));
    if (second) {
        cr_tensor *square = cr_sum(cr_mul(grads[0], grads[0]), CR_ALL, false);
        OK(cr_gradients(1, (const cr_tensor *const[]){square}, NULL, 3, in, grads, NULL));
    }
    OK(cr_read(y, CR_F64, out, sizeof *out * (size_t)y->numel));
    *n = (int)y->numel;
    for (int i = 0; i < 3; i++) {
        if (!grads[i] || cr_is_none(grads[i])) continue;
        OK(cr_read(grads[i], CR_F64, out + *n, sizeof *out * (size_t)grads[i]->numel));
        *n += (int)grads[i]->numel;
    }
}

static void compare_composite(const char *name, fused_fn f, cr_dtype dt, bool second, double tolerance) {
    double want[256], got[256];
    int n_want, n_got;
    cr_scope_begin();
    run_on(cr_ref(), f, dt, second, want, &n_want);
    run_on(&plain, f, dt, second, got, &n_got);
    CHECK(n_want == n_got && n_got, "%s: %d numbers, wanted %d", name, n_got, n_want);
    double scale = 1;
    for (int i = 0; i < n_want; i++) scale = fmax(scale, fabs(want[i]));
    for (int i = 0; i < n_got && n_got == n_want; i++)
        CHECK(fabs(got[i] - want[i]) <= tolerance * scale, "%s %s%s: number %d is %.17g, wanted %.17g", name, cr_dtype_name(dt), second ? " second" : "", i, got[i], want[i]);
    cr_scope_end();
}

TEST(composites) {
    static const struct { const char *name; fused_fn f; } all[] = {
        {"softmax", run_softmax}, {"log_softmax", run_log_softmax}, {"layer_norm", run_layer_norm}, {"bare layer_norm", run_bare_norm},
        {"rms_norm", run_rms_norm}, {"cross_entropy", run_cross_entropy}, {"attention", run_attention}, {"attention", run_attention_mask}, {"attention", run_attention_bias}};
    make_plain_device();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        compare_composite(all[i].name, all[i].f, CR_F64, false, 1e-12);
        compare_composite(all[i].name, all[i].f, CR_F64, true, 1e-11);
        compare_composite(all[i].name, all[i].f, CR_F32, false, 1e-5);
        compare_composite(all[i].name, all[i].f, CR_BF16, false, 0.03);
    }
}

/* Without a fused gradient alone, the gradient of the fused forward pass is the composed one. */
TEST(composed_gradients) {
    make_plain_device();
    plain_kernels.softmax = cr_device_ref.kernels->softmax;
    plain_kernels.norm = cr_device_ref.kernels->norm;
    plain_kernels.cross_entropy = cr_device_ref.kernels->cross_entropy;
    plain_kernels.attention = cr_device_ref.kernels->attention;
    compare_composite("softmax", run_softmax, CR_F64, false, 1e-12);
    compare_composite("layer_norm", run_layer_norm, CR_F64, false, 1e-12);
    compare_composite("cross_entropy", run_cross_entropy, CR_F64, false, 1e-12);
    compare_composite("attention", run_attention, CR_F64, false, 1e-12);
    compare_composite("attention", run_attention_mask, CR_F64, false, 1e-12);
}

/* ---- every function with NULL and CR_NONE: NULL, a message with its name, and no crash */
#define REFUSES(name, call)                                                                            \
    do {                                                                                               \
        for (int none = 0; none < 2; none++) {                                                         \
            const cr_tensor *n = none ? CR_NONE : NULL;                                                \
            cr_error_clear();                                                                          \
            CHECK(!(call) && cr_error() && strstr(cr_error(), "[" name "]"), "%s of %s: message '%s'", \
                  #call, none ? "CR_NONE" : "NULL", cr_error() ? cr_error() : "");                     \
        }                                                                                              \
        cr_error_clear();                                                                              \
    } while (0)

static void check_null(void) {
    cr_tensor *x = cr_ones(CR_LIST(2, 2), CR_F32, dev), *i = cr_zeros(CR_LIST(2, 2), CR_I64, dev);
    cr_generator *g = cr_default_generator();
    REFUSES("empty_like", cr_empty_like(n)); REFUSES("zeros_like", cr_zeros_like(n)); REFUSES("ones_like", cr_ones_like(n));
    REFUSES("reshape", cr_reshape(n, CR_LIST(1))); REFUSES("view", cr_view(n, CR_LIST(1))); REFUSES("transpose", cr_transpose(n, 0, 1));
    REFUSES("permute", cr_permute(n, CR_LIST(0))); REFUSES("slice", cr_slice(n, 0, 0, 1, 1)); REFUSES("select", cr_select(n, 0, 0));
    REFUSES("expand", cr_expand(n, CR_LIST(1))); REFUSES("squeeze", cr_squeeze(n, CR_ALL)); REFUSES("unsqueeze", cr_unsqueeze(n, 0));
    REFUSES("flatten", cr_flatten(n, 0, -1)); REFUSES("contiguous", cr_contiguous(n)); REFUSES("clone", cr_clone(n)); REFUSES("to", cr_to(n, CR_F32, dev));
    REFUSES("cat", cr_cat(1, &n, 0)); REFUSES("stack", cr_stack(1, &n, 0));
    REFUSES("sum", cr_sum(n, CR_ALL, false)); REFUSES("mean", cr_mean(n, CR_ALL, false)); REFUSES("max", cr_max(n, CR_ALL, false));
    REFUSES("min", cr_min(n, CR_ALL, false)); REFUSES("var", cr_var(n, CR_ALL, 1, false)); REFUSES("logsumexp", cr_logsumexp(n, CR_ALL, false));
    REFUSES("prod", cr_prod(n, CR_ALL, false)); REFUSES("nansum", cr_nansum(n, CR_ALL, false)); REFUSES("nanmean", cr_nanmean(n, CR_ALL, false));
    REFUSES("any", cr_any(n, CR_ALL, false)); REFUSES("all", cr_all(n, CR_ALL, false)); REFUSES("count_nonzero", cr_count_nonzero(n, CR_ALL));
    REFUSES("std", cr_std(n, CR_ALL, 1, false)); REFUSES("norm", cr_norm(n, 2, CR_ALL, false));
    REFUSES("cumsum", cr_cumsum(n, 0)); REFUSES("cumprod", cr_cumprod(n, 0)); REFUSES("logcumsumexp", cr_logcumsumexp(n, 0)); REFUSES("diff", cr_diff(n, 1, 0));
    REFUSES("argmax", cr_argmax(n, 0, false)); REFUSES("argmin", cr_argmin(n, 0, false));
    REFUSES("matmul", cr_matmul(n, x)); REFUSES("matmul", cr_matmul(x, n));
    REFUSES("linear", cr_linear(n, x, CR_NONE, CR_ACT_NONE)); REFUSES("linear", cr_linear(x, n, CR_NONE, CR_ACT_NONE));
    REFUSES("gather", cr_gather(n, 0, i)); REFUSES("gather", cr_gather(x, 0, n)); REFUSES("scatter_add", cr_scatter_add(n, 0, i, x));
    REFUSES("scatter_reduce", cr_scatter_reduce(n, 0, i, x, CR_SCATTER_SUM, true));
    REFUSES("scatter_reduce", cr_scatter_reduce(x, 0, n, x, CR_SCATTER_SUM, true)); REFUSES("scatter_reduce", cr_scatter_reduce(x, 0, i, n, CR_SCATTER_SUM, true));
    REFUSES("scatter_add", cr_scatter_add(x, 0, n, x)); REFUSES("scatter_add", cr_scatter_add(x, 0, i, n));
    REFUSES("scatter", cr_scatter(x, 0, n, x)); REFUSES("take", cr_take(n, i)); REFUSES("index_select", cr_index_select(x, 0, n)); REFUSES("index_add", cr_index_add(x, 0, i, n));
    REFUSES("index_fill", cr_index_fill(n, 0, i, x)); REFUSES("index", cr_index_get(n, 0, NULL));
    REFUSES("index_put", cr_index_put(x, 1, (const cr_tensor *const *)&i, n, false)); REFUSES("masked_select", cr_masked_select(x, n)); REFUSES("nonzero", cr_nonzero(n));
    REFUSES("masked_scatter", cr_masked_scatter(x, n, x)); REFUSES("one_hot", cr_one_hot(n, 3)); REFUSES("take_along_axis", cr_take_along_axis(x, 0, n));
    REFUSES("masked_fill", cr_masked_fill(n, x, 0)); REFUSES("masked_fill", cr_masked_fill(x, n, 0)); REFUSES("tril", cr_tril(n, 0)); REFUSES("triu", cr_triu(n, 0));
    REFUSES("softmax", cr_softmax(n, 0)); REFUSES("log_softmax", cr_log_softmax(n, 0)); REFUSES("layer_norm", cr_layer_norm(n, CR_NONE, CR_NONE, 1e-5));
    REFUSES("rms_norm", cr_rms_norm(n, CR_NONE, 1e-5)); REFUSES("embedding", cr_embedding(n, i)); REFUSES("embedding", cr_embedding(x, n));
    REFUSES("cross_entropy", cr_cross_entropy(n, i, NULL)); REFUSES("cross_entropy", cr_cross_entropy(x, n, NULL));
    REFUSES("dropout", cr_dropout(n, 0.5, true, g)); REFUSES("attention", cr_attention(n, x, x, NULL)); REFUSES("attention", cr_attention(x, n, x, NULL));
    REFUSES("copy_", cr_copy_(x, n)); REFUSES("copy_", cr_copy_(same(n), x)); REFUSES("fill_", cr_fill_(same(n), 0));
    FAILS(CR_BAD_VALUE, "[linear]", cr_linear(x, x, NULL, CR_ACT_NONE));        /* a bias that failed is not "no bias" */
    FAILS(CR_BAD_VALUE, "[layer_norm]", cr_layer_norm(x, NULL, CR_NONE, 1e-5));
    FAILS(CR_BAD_VALUE, "[item]", cr_item(NULL));
    FAILS(CR_BAD_VALUE, "[item_int]", cr_item_int(CR_NONE));
    FAILS(CR_BAD_VALUE, "[read]", cr_read(NULL, CR_F32, NULL, 0));
    FAILS(CR_BAD_VALUE, "[write]", cr_write(same(CR_NONE), CR_F32, NULL, 0));
    FAILS(CR_BAD_VALUE, "[split]", cr_split(NULL, 1, 0, 1, NULL));
}
TEST(null) { EACH_DEVICE SCOPED(check_null()); }

/* The first failure of a chain is the one that is told. */
TEST(first_message) {
    dev = cr_cpu();
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(2, 3), CR_F32, dev), *bad = cr_matmul(x, x);
    CHECK(!cr_softmax(cr_layer_norm(cr_mean(bad, CR_ALL, false), CR_NONE, CR_NONE, 1e-5), 0), "NULL in gives NULL out");
    CHECK(cr_error() && strstr(cr_error(), "[matmul] inner dimensions differ"), "'%s'", cr_error());
    cr_error_clear();
    cr_scope_end();
}

/* Bytes in use before and after: nothing stays behind, on success or failure, with or without a graph. */
TEST(nothing_leaks) {
    EACH_DEVICE {
        int64_t before = cr_memory_stats(dev).current;
        SCOPED(check_view_rules(); check_cat(); check_in_place(); check_in_place_gradients(); check_reduction_gradients(); check_reduction_layouts(); check_second_of_products(); check_scans(); check_linear();
               check_indexing(); check_places(); check_rows(); check_cross_entropy(); check_dropout(); check_attention(); check_to());
        int64_t after = cr_memory_stats(dev).current;
        CHECK(before == after, "%s: %lld bytes in use before, %lld after", dev->name, (long long)before, (long long)after);
    }
}
