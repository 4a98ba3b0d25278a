/* test_tensors.c - tensors made, read, seen in parts, joined, copied and written in place, at their
 * edges: rules, refusals with their messages, empty ones.  Values over many shapes, dtypes and devices
 * are test_ops.c's; gradients by differences are test_grad.c's. */
#include "structured.h"

/* ---- making */
static void check_make(void) {
    VALUES(cr_arange(0, 5, 2, CR_F32, dev), 0, 2, 4);
    VALUES(cr_arange(3, -2, -1.5, CR_F64, dev), 3, 1.5, 0, -1.5);
    VALUES(cr_arange(0.9, 4, 1.9, CR_I64, dev), 0, 1);
    VALUES(cr_arange(0, 5, 1.5, CR_I64, dev), 0, 1, 2, 3);         /* integers step by integers, as PyTorch's */
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
    FAILS(CR_BAD_VALUE, "[empty] shape (4611686018427387904, 4) holds too many",
          cr_empty(CR_LIST(INT64_C(1) << 62, 4), CR_F32, dev));
    int64_t ones[CR_MAX_DIMS + 1];
    for (int i = 0; i <= CR_MAX_DIMS; i++) ones[i] = 1;
    FAILS(CR_BAD_VALUE, "[empty] 9 axes", cr_empty(CR_MAX_DIMS + 1, ones, CR_F32, dev));
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
    CHECK(cr_item(cr_max(n, CR_ALL, false)) > 0x1p60 && cr_item(cr_min(n, CR_ALL, false)) < -0x1p60,
          "randint over all of int64");
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
              cr_dtype_of(cr_add(cr_ones(CR_LIST(3), CR_U8, cr_cpu()), cr_scalar_bool(true))) == CR_U8,
          "a bool scalar promotes nothing");
    CHECK(cr_item(cr_scalar(0.1)) == 0.1 && cr_item_int(cr_scalar_int(1 - INT64_MAX)) == 1 - INT64_MAX,
          "scalars are exact");
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
    /* (4, 3, 1, 4): an axis of size 1 may have any stride */
    cr_tensor *turned = cr_permute(counting(CR_LIST(1, 4, 3, 4)), CR_LIST(1, 2, 0, 3));
    SHAPE(cr_view(cr_slice(turned, 0, 0, 4, 2), CR_LIST(2, 12)), 2, 12);
    FAILS(CR_BAD_VALUE, "[view] cannot view (4, 3) with strides (1, 4) as (12,) without a copy",
          cr_view(t, CR_LIST(12)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 12 elements as (5, -1)", cr_reshape(x, CR_LIST(5, -1)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 12 elements as (3, 5)", cr_reshape(x, CR_LIST(3, 5)));
    FAILS(CR_BAD_VALUE, "[reshape] only one size may be -1", cr_reshape(x, CR_LIST(-1, -1)));
    FAILS(CR_BAD_VALUE, "[reshape] negative size in shape (-2,)", cr_reshape(x, CR_LIST(-2)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 12 elements", cr_reshape(x, CR_LIST(INT64_MAX, INT64_MAX, -1)));
    FAILS(CR_BAD_VALUE, "any size would do", cr_reshape(cr_zeros(CR_LIST(0), CR_F32, dev), CR_LIST(0, -1)));
    FAILS(CR_BAD_VALUE, "[reshape] cannot view 0 elements as (3,)",
          cr_reshape(cr_zeros(CR_LIST(0), CR_F32, dev), CR_LIST(3)));
    FAILS(CR_BAD_INDEX, "[transpose] axis 2 is out of range", cr_transpose(x, 0, 2));
    FAILS(CR_BAD_VALUE, "[permute] 1 axes given for a tensor of shape (3, 4)", cr_permute(x, CR_LIST(0)));
    FAILS(CR_BAD_VALUE, "[permute] axis 0 appears more than once", cr_permute(x, CR_LIST(0, 0)));
    FAILS(CR_BAD_INDEX, "[permute] axis 5", cr_permute(x, CR_LIST(0, 5)));
    FAILS(CR_BAD_VALUE, "[slice] the step must not be 0", cr_slice(x, 0, 0, 2, 0));
    FAILS(CR_BAD_INDEX, "[slice] a 0-d tensor", cr_slice(cr_ones(CR_ALL, CR_F32, dev), 0, 0, 1, 1));
    FAILS(CR_BAD_INDEX, "[select] index 3 is out of range for axis 0 of (3, 4)", cr_select(x, 0, 3));
    FAILS(CR_BAD_INDEX, "[select] index -5", cr_select(x, 1, -5));
    FAILS(CR_BAD_VALUE, "[expand] cannot expand (3, 4) to (6, 4): axis 0 has size 3", cr_expand(x, CR_LIST(6, 4)));
    FAILS(CR_BAD_VALUE, "[expand] 1 sizes for a tensor of shape (3, 4)", cr_expand(x, CR_LIST(4)));
    FAILS(CR_BAD_VALUE, "[expand] negative size in shape (-1, 3, 4)", cr_expand(x, CR_LIST(-1, 3, 4)));
    FAILS(CR_BAD_VALUE, "[expand] shape (4611686018427387904, 3, 4) holds too many",
          cr_expand(x, CR_LIST(INT64_C(1) << 62, 3, 4)));
    FAILS(CR_BAD_INDEX, "[unsqueeze] axis 4", cr_unsqueeze(x, 4));
    FAILS(CR_BAD_VALUE, "[unsqueeze] 8 axes are the most",
          cr_unsqueeze(cr_zeros(CR_LIST(1, 1, 1, 1, 1, 1, 1, 1), CR_F32, dev), 0));
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
                CHECK(has_shape(y, CR_LIST(count)), "[%lld:%lld:%lld]: %d elements wanted", (long long)start,
                      (long long)stop, (long long)step, count);
                OK(cr_read(y, CR_F64, got, sizeof *got * (size_t)count));
                CHECK(!memcmp(got, want, sizeof *got * (size_t)count), "[%lld:%lld:%lld]", (long long)start,
                      (long long)stop, (long long)step);
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
    FAILS(CR_BAD_VALUE, "[cat] 0-d tensors", cr_cat(2, pair, 0));
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
    CHECK(cr_contiguous(x)->storage == x->storage && cr_clone(x)->storage != x->storage,
          "contiguous may share, clone may not");
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
    FAILS(CR_BAD_VALUE, "[copy_] (4,) does not broadcast into (1,)",
          cr_copy_(cr_zeros(CR_LIST(1), CR_F32, dev), cr_zeros(CR_LIST(4), CR_F32, dev)));
    FAILS(CR_BAD_VALUE, "[copy_] shapes (6,) and (4,) do not broadcast",
          cr_copy_(line, cr_zeros(CR_LIST(4), CR_F32, dev)));
    FAILS(CR_BAD_VALUE, "[fill_] cannot write in place: axis 0 of (3, 2) is expanded",
          cr_fill_(cr_expand(cr_zeros(CR_LIST(1, 2), CR_F32, dev), CR_LIST(3, 2)), 1));
    FAILS(CR_BAD_VALUE, "[fill_] 1000 does not fit int8", cr_fill_(cr_zeros(CR_LIST(2), CR_I8, dev), 1000));
    FAILS(CR_BAD_VALUE, "[write] cannot write",
          cr_write(cr_expand(cr_zeros(CR_LIST(1), CR_F32, dev), CR_LIST(2)), CR_F32, (float[]){1, 2}, 8));

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

/* Overwritten elements pass no gradient on; copied elements receive it. */
static void check_in_place_gradients(void) {
    cr_tensor *a = cr_requires_grad_(OF(1, 2), true),
              *b = cr_requires_grad_(cr_from((float[]){5}, CR_LIST(1), CR_F32, dev), true);
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
    CHECK(cr_backward(cr_sum(saved, CR_ALL, false), CR_NONE, NULL) == CR_RUNTIME,
          "a saved tensor was overwritten: backward must refuse");
    cr_error_clear();
}
TEST(in_place_gradients) { EACH_DEVICE SCOPED(check_in_place_gradients()); }

/* ---- meta: shapes and dtypes, no elements */
static void check_meta(void) {
    const cr_device *meta = cr_device_find("meta");
    REQUIRE(meta && !strcmp(cr_device_name(meta), "meta"), "no device meta: %s", cr_error());
    cr_generator *g = cr_generator_new(1);
    cr_tensor *huge = cr_zeros(CR_LIST(1 << 20, 1 << 20), CR_F32, meta);
    SHAPE(cr_sum(cr_add(huge, cr_scalar(1)), CR_LIST(0), false), 1 << 20);
    CHECK(cr_storage_bytes(huge) == INT64_C(4) << 40, "%lld bytes", (long long)cr_storage_bytes(huge));
    cr_tensor *w = cr_requires_grad_(cr_randn(CR_LIST(5, 3), CR_F32, meta, g), true);
    cr_tensor *x = cr_arange(0, 21, 1, CR_F32, meta);
    cr_tensor *y = cr_linear(cr_reshape(x, CR_LIST(7, 3)), w, CR_NONE);
    SHAPE(y, 7, 5);
    OK(cr_backward(cr_sum(cr_tanh(y), CR_ALL, false), CR_NONE, NULL));
    SHAPE(cr_grad(w), 5, 3);
    CHECK(cr_grad(w)->dev == meta, "the gradient is elsewhere");
    const cr_memory held = cr_memory_stats(meta);
    cr_reset_peak(meta);
    cr_scope_begin();
    cr_zeros(CR_LIST(1000), CR_F64, meta);
    CHECK(cr_memory_stats(meta).current == held.current + 8000, "bytes that nobody has are not counted");
    cr_scope_end();
    CHECK(cr_memory_stats(meta).current == held.current && cr_memory_stats(meta).peak == held.current + 8000,
          "peak %lld, not %lld", (long long)cr_memory_stats(meta).peak, (long long)held.current + 8000);
    double out[21];
    FAILS(CR_RUNTIME, "[meta] no data", cr_item(cr_sum(x, CR_ALL, false)));
    FAILS(CR_RUNTIME, "[meta] no data", cr_read(x, CR_F64, out, sizeof out));
    FAILS(CR_RUNTIME, "[meta] no data", cr_to(x, CR_F32, dev));
    FAILS(CR_RUNTIME, "[meta] no data", cr_nonzero(x));
    FAILS(CR_BAD_VALUE, "memory of meta has no address", cr_data(x));
    FAILS(CR_BAD_VALUE, "two devices", cr_add(x, cr_ones(CR_LIST(21), CR_F32, dev)));
    SHAPE(cr_copy_(x, cr_ones(CR_LIST(21), CR_F32, dev)), 21);
    SHAPE(cr_to(cr_ones(CR_LIST(2), CR_F32, dev), CR_F64, meta), 2);
    for (int i = 0; cr_device_at(i); i++) CHECK(cr_device_at(i) != meta, "meta is among the devices that compute");
    cr_generator_free(g);
}
TEST(meta) { EACH_DEVICE SCOPED(check_meta()); }

TEST(nothing_leaks) {
    CHECK_LEAKS(check_view_rules, check_cat, check_in_place, check_in_place_gradients, check_to, check_meta);
}
