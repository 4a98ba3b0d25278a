/* test_bad_input.c - what no caller means, op by op and on every device: it is refused, and the
 * message names the op and the values. */
#include "test.h"
#include "ops/op.h"

static const cr_device *dev;                        /* the one under test */
#define EACH_DEVICE for (int device_ = 0; device_ < 2 && (dev = device_ ? cr_ref() : cr_cpu()); device_++, \
    test_ran_on(dev))
#define SCOPED(...) do { cr_scope_begin(); __VA_ARGS__; cr_scope_end(); } while (0)
#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))
#define GENERATOR cr_default_generator()

static cr_tensor *ones(int n, const int64_t *shape) { return cr_ones(n, shape, CR_F32, dev); }
static cr_tensor *column(const cr_tensor *t) { return cr_reshape(t, CR_LIST(-1, 1)); }

/* ---- indices out of range: each element is looked at, in both dtypes; x is (5, 3), the index a vector of 7 */
typedef struct indexed {
    const char *op;
    int64_t bound;
    bool wraps;
    cr_tensor *(*f)(const cr_tensor *x, const cr_tensor *i);
} indexed;

#define KEY(i) 1, (const cr_tensor *[]){i}
#define SEVEN ones(CR_LIST(7, 3))
static cr_tensor *gather(const cr_tensor *x, const cr_tensor *i) { return cr_gather(x, 0, column(i)); }
static cr_tensor *along(const cr_tensor *x, const cr_tensor *i) {
    return cr_take_along_axis(cr_slice(x, 1, 0, 1, 1), 0, column(i));
}
static cr_tensor *take(const cr_tensor *x, const cr_tensor *i) { return cr_take(x, i); }
static cr_tensor *embedding(const cr_tensor *x, const cr_tensor *i) { return cr_embedding(x, i); }
static cr_tensor *select_rows(const cr_tensor *x, const cr_tensor *i) { return cr_index_select(x, 0, i); }
static cr_tensor *get(const cr_tensor *x, const cr_tensor *i) { return cr_index_get(x, KEY(i)); }
static cr_tensor *one_hot(const cr_tensor *x, const cr_tensor *i) { (void)x; return cr_one_hot(i, 5); }
static cr_tensor *classes(const cr_tensor *x, const cr_tensor *i) {
    (void)x;
    return cr_cross_entropy(ones(CR_LIST(7, 5)), i, NULL);
}
static cr_tensor *scatter(const cr_tensor *x, const cr_tensor *i) {
    return cr_scatter(x, 0, column(i), column(ones(CR_LIST(7))));
}
static cr_tensor *scatter_add(const cr_tensor *x, const cr_tensor *i) {
    return cr_scatter_add(x, 0, column(i), column(ones(CR_LIST(7))));
}
static cr_tensor *add(const cr_tensor *x, const cr_tensor *i) { return cr_index_add(x, 0, i, SEVEN); }
static cr_tensor *copy(const cr_tensor *x, const cr_tensor *i) { return cr_index_copy(x, 0, i, SEVEN); }
static cr_tensor *fill(const cr_tensor *x, const cr_tensor *i) { return cr_index_fill(x, 0, i, cr_scalar(2)); }
static cr_tensor *put(const cr_tensor *x, const cr_tensor *i) { return cr_index_put(x, KEY(i), cr_scalar(2), false); }
static cr_tensor *put_added(const cr_tensor *x, const cr_tensor *i) { return cr_index_put(x, KEY(i), SEVEN, true); }

static const indexed indexed_ops[] = {
    {"gather", 5, false, gather},
    {"gather", 5, false, along},
    {"take", 15, true, take},
    {"embedding", 5, false, embedding},
    {"index_select", 5, false, select_rows},
    {"index", 5, true, get},
    {"scatter", 5, false, one_hot},
    {"cross_entropy", 5, false, classes},
    {"scatter", 5, false, scatter},
    {"scatter_add", 5, false, scatter_add},
    {"index_add", 5, false, add},
    {"index_copy", 5, false, copy},
    {"index_fill", 5, false, fill},
    {"index_put", 5, true, put},
    {"index_put", 5, true, put_added},
};

static void check_index(const indexed *op, int at, int64_t bad, cr_dtype dt) {
    char text[128];
    int64_t index[7] = {0};
    index[at] = bad;
    snprintf(text, sizeof text, "[%s] index %lld at position %d is out of range for size %lld", op->op, (long long)bad,
             at, (long long)op->bound);
    FAILS(CR_BAD_INDEX, text,
          (op->f(ones(CR_LIST(5, 3)), cr_to(cr_from(index, CR_LIST(7), CR_I64, dev), dt, dev)), cr_synchronize(dev)));
}

TEST(indices_out_of_range) {
    EACH_DEVICE
        for (int k = 0; k < COUNT(indexed_ops); k++)
            for (int at = 0; at < 7; at++)
                for (int wide = 0; wide < 2; wide++) {
                    const indexed *op = &indexed_ops[k];
                    const cr_dtype dt = wide ? CR_I64 : CR_I32;
                    SCOPED(check_index(op, at, op->bound, dt));
                    SCOPED(check_index(op, at, op->wraps ? -op->bound - 1 : -1, dt));
                    SCOPED(check_index(op, at, wide ? INT64_MAX : INT32_MAX, dt));
                }
}

/* ---- an axis named twice, once from each end */
#define TWICE 2, (const int64_t[]){1, -1}
#define REFUSES(name, kind, text, call) FAILS(kind, "[" name "] " text, call)

static void check_axes(void) {
    const cr_tensor *x = ones(CR_LIST(3, 5));
    cr_tensor *max;
#define AXES(name, call) REFUSES(name, CR_BAD_VALUE, "axis -1 appears more than once", call)
    AXES("sum", cr_sum(x, TWICE, false));
    AXES("nansum", cr_nansum(x, TWICE, false));
    AXES("mean", cr_mean(x, TWICE, false));
    AXES("nanmean", cr_nanmean(x, TWICE, false));
    AXES("prod", cr_prod(x, TWICE, false));
    AXES("max", cr_max(x, TWICE, false));
    AXES("min", cr_min(x, TWICE, false));
    AXES("aminmax", cr_aminmax(x, TWICE, false, &max));
    AXES("any", cr_any(x, TWICE, false));
    AXES("all", cr_all(x, TWICE, false));
    AXES("count_nonzero", cr_count_nonzero(x, TWICE));
    AXES("var", cr_var(x, TWICE, 1, false));
    AXES("std", cr_std(x, TWICE, 1, false));
    AXES("norm", cr_norm(x, 2, TWICE, false));
    AXES("logsumexp", cr_logsumexp(x, TWICE, false));
    AXES("squeeze", cr_squeeze(x, TWICE)); AXES("flip", cr_flip(x, TWICE)); AXES("permute", cr_permute(x, TWICE));
    AXES("movedim", cr_movedim(x, TWICE, (const int64_t[]){0, 1}));
    AXES("movedim", cr_movedim(x, 2, (const int64_t[]){0, 1}, (const int64_t[]){1, -1}));
    const cr_tensor *square = ones(CR_LIST(5, 5));
    FAILS(CR_BAD_VALUE, "[tensordot] axis 1 of (5, 5) is named twice",
          cr_tensordot(square, square, TWICE, (const int64_t[]){0, 1}));
}
TEST(duplicate_axes) { EACH_DEVICE SCOPED(check_axes()); }

/* ---- what has no value for nothing */
static void check_nothing(void) {
    const cr_tensor *x = ones(CR_LIST(3, 0)), *n = cr_zeros(CR_LIST(3, 0), CR_I64, dev);
    cr_tensor *other;
#define NONE(name, kind, call) REFUSES(name, kind, "", call)
    NONE("max", CR_BAD_VALUE, cr_max(x, CR_LIST(1), false));
    NONE("min", CR_BAD_VALUE, cr_min(x, CR_ALL, false));
    NONE("aminmax", CR_BAD_VALUE, cr_aminmax(x, CR_ALL, false, &other));
    NONE("argmax", CR_BAD_VALUE, cr_argmax(x, 1, false)); NONE("argmin", CR_BAD_VALUE, cr_argmin(x, -1, true));
    NONE("argmax", CR_BAD_VALUE, cr_max_along(x, 1, false, &other));
    NONE("argmin", CR_BAD_VALUE, cr_min_along(x, 1, false, NULL));
    NONE("norm", CR_BAD_VALUE, cr_norm(x, INFINITY, CR_LIST(1), false));
    NONE("norm", CR_BAD_VALUE, cr_norm(x, -1, CR_ALL, false));
    NONE("median", CR_BAD_VALUE, cr_median(n, CR_ALL, false, NULL));
    NONE("mode", CR_BAD_INDEX, cr_mode(x, 1, false, &other));
    NONE("kthvalue", CR_BAD_INDEX, cr_kthvalue(x, 1, 1, false, &other));
    NONE("topk", CR_BAD_VALUE, cr_topk(x, 1, 1, true, &other));
    CHECK(cr_numel(cr_max(cr_zeros(CR_LIST(0, 3), CR_F32, dev), CR_LIST(1), false)) == 0,
          "no result needs no value: %s", cr_error());
}
TEST(nothing_to_reduce) { EACH_DEVICE SCOPED(check_nothing()); }

/* ---- more elements than there are addresses */
static void check_sizes(void) {
    const int64_t many = INT64_C(1) << 31, huge[] = {many, many, many};
    const cr_tensor *one = ones(CR_LIST(1)), *wide = cr_expand(one, CR_LIST(many)),
                    *x = cr_expand(ones(CR_LIST(1, 1)), CR_LIST(many, many));
    const double most = ldexp(1, 62);
#define MUCH(name, call) REFUSES(name, CR_BAD_VALUE, "", call)
    MUCH("zeros", cr_zeros(3, huge, CR_F32, dev));
    MUCH("ones", cr_ones(3, huge, CR_U8, dev));
    MUCH("full", cr_full(3, huge, 1, CR_F64, dev));
    MUCH("empty", cr_empty(3, huge, CR_BF16, dev));
    MUCH("rand", cr_rand(3, huge, CR_F32, dev, GENERATOR));
    MUCH("randn", cr_randn(3, huge, CR_F32, dev, GENERATOR));
    MUCH("randint", cr_randint(0, 9, 3, huge, CR_I64, dev, GENERATOR));
    MUCH("randperm", cr_randperm(INT64_MAX, CR_I64, dev, GENERATOR));
    MUCH("eye", cr_eye(INT64_MAX, 2, CR_F32, dev));
    MUCH("arange", cr_arange(0, most, 1, CR_I64, dev));
    MUCH("linspace", cr_linspace(0, 1, INT64_MAX, CR_F32, dev));
    MUCH("expand", cr_expand(one, 3, huge));
    MUCH("expand", cr_expand(wide, CR_LIST(many, many, many)));
    MUCH("outer", cr_outer(wide, cr_expand(one, CR_LIST(INT64_C(1) << 40))));
    MUCH("kron", cr_kron(x, x)); MUCH("repeat", cr_repeat(one, 3, huge)); MUCH("tile", cr_tile(one, 3, huge));
    MUCH("repeat_interleave", cr_repeat_interleave(wide, INT64_MAX, 0));
    MUCH("pad", cr_pad(one, 2, (const int64_t[]){INT64_MAX, INT64_MAX}, CR_PAD_CONSTANT, 0));
    MUCH("cat", cr_cat(2, (const cr_tensor *[]){x, x}, 0));
    MUCH("matmul", cr_matmul(cr_unsqueeze(wide, 1), cr_unsqueeze(cr_expand(one, CR_LIST(INT64_C(1) << 40)), 0)));
}
TEST(too_many_elements) { EACH_DEVICE SCOPED(check_sizes()); }

/* ---- shapes that do not broadcast: every function of two operands, and what else broadcasts; both shapes are named */
static void check_shapes(void) {
    const cr_tensor *f[] = {ones(CR_LIST(3, 5)), ones(CR_LIST(4))},
                    *i[] = {cr_ones(CR_LIST(3, 5), CR_I32, dev), cr_ones(CR_LIST(4), CR_I32, dev)};
    const double params[CR_MAX_DIMS] = {1, 1};
    int rows = 0;
    for (int k = 0; k < cr_program_count(); k++) {
        const cr_program *p = cr_program_at(k);
        char text[128];
        if (p->n_in != 2) continue;
        snprintf(text, sizeof text, "[%s] shapes (3, 5) and (4,) do not broadcast", p->name);
        const bool bits = strstr(p->name, "bitwise") || strstr(p->name, "shift");
        FAILS(CR_BAD_VALUE, text, cr_program_apply(p, 2, bits ? i : f, params));
        rows++;
    }
    CHECK(rows > 25, "%d functions of two operands", rows);
#define BOTH(name, call) REFUSES(name, CR_BAD_VALUE, "shapes (3, 5) and (4,) do not broadcast", call)
    REFUSES("masked_fill", CR_BAD_VALUE, "shapes (4,) and (3, 5) do not broadcast",
            cr_masked_fill(f[0], cr_ones(CR_LIST(4), CR_BOOL, dev), 1));
    BOTH("normal", cr_normal(f[0], f[1], GENERATOR));
    FAILS(CR_BAD_VALUE, "(3, 5)", cr_where(cr_ones(CR_LIST(4), CR_BOOL, dev), f[0], f[0]));
    FAILS(CR_BAD_VALUE, "[copy_] shapes (3, 5) and (4,) do not broadcast", cr_copy_(ones(CR_LIST(3, 5)), f[1]));
    FAILS(CR_BAD_VALUE, "[add_] shapes (3, 5) and (4,) do not broadcast", cr_add_(ones(CR_LIST(3, 5)), f[1]));
    FAILS(CR_BAD_VALUE, "[matmul] inner dimensions differ: (3, 5) x (4,)", cr_matmul(f[0], f[1]));
    FAILS(CR_BAD_VALUE, "[expand] cannot expand (4,) to (3, 5)", cr_expand(f[1], CR_LIST(3, 5)));
}
TEST(shapes_that_do_not_broadcast) { EACH_DEVICE SCOPED(check_shapes()); }

/* ---- written in place: elements that share memory are refused, operands that overlap are read before
 * they are written over */
static void check_in_place(void) {
    /* both (3, 5) */
    cr_tensor *wide = cr_expand(ones(CR_LIST(1, 5)), CR_LIST(3, 5)), *windows = cr_unfold(ones(CR_LIST(7)), 0, 5, 1);
    cr_tensor *written[] = {wide, windows};
    const cr_tensor *x = ones(CR_LIST(3, 5)), *rows = cr_zeros(CR_LIST(3), CR_I64, dev),
                    *mask = cr_ones(CR_LIST(3, 5), CR_BOOL, dev);
    for (int k = 0; k < 2; k++) {
        cr_tensor *y = written[k];
#define SHARED(name, call) REFUSES(name, CR_BAD_VALUE, "cannot write in place", call)
        SHARED("add_", cr_add_(y, x));
        SHARED("sub_", cr_sub_(y, x));
        SHARED("mul_", cr_mul_(y, x));
        SHARED("div_", cr_div_(y, x));
        SHARED("fill_", cr_fill_(y, 1));
        SHARED("copy_", cr_copy_(y, x));
        SHARED("exp_", cr_program_apply_(cr_program_find("exp"), y, 1, (const cr_tensor *[]){y}, NULL));
        SHARED("uniform_", cr_uniform_(y, 0, 1, GENERATOR));
        SHARED("normal_", cr_normal_(y, 0, 1, GENERATOR));
        SHARED("exponential_", cr_exponential_(y, 1, GENERATOR));
        SHARED("random_", cr_random_(y, 0, 9, GENERATOR));
        SHARED("scatter", cr_scatter_(y, 0, cr_unsqueeze(rows, 1), x));
        SHARED("scatter_add", cr_scatter_add_(y, 0, cr_unsqueeze(rows, 1), x));
        SHARED("index_add_", cr_index_add_(y, 0, rows, x));
        SHARED("index_copy_", cr_index_copy_(y, 0, rows, x));
        SHARED("index_fill_", cr_index_fill_(y, 0, rows, cr_scalar(1)));
        SHARED("index_put_", cr_index_put_(y, KEY(rows), x, true));
        SHARED("masked_fill_", cr_masked_fill_(y, mask, 1));
        SHARED("masked_scatter_", cr_masked_scatter_(y, mask, x));
    }
    double got[8];
    cr_tensor *v = cr_arange(0, 8, 1, CR_F64, dev), *back = cr_slice(v, 0, 7, -9, -1);
    CHECK(cr_add_(cr_slice(v, 0, 1, 8, 1), cr_slice(v, 0, 0, 7, 1)), "%s", cr_error());
    OK(cr_read(v, CR_F64, got, sizeof got));
    for (int k = 0; k < 8; k++)
        CHECK(got[k] == (k ? 2 * k - 1 : 0), "%s: element %d is %g after a shifted sum", cr_device_name(dev), k,
              got[k]);
    cr_fill_(v, 0);
    cr_add_(v, cr_arange(0, 8, 1, CR_F64, dev));
    CHECK(cr_copy_(v, back) == v, "%s", cr_error());
    OK(cr_read(v, CR_F64, got, sizeof got));
    for (int k = 0; k < 8; k++)
        CHECK(got[k] == 7 - k, "%s: element %d is %g after it was turned round", cr_device_name(dev), k, got[k]);
}
TEST(overlaps_in_place) { EACH_DEVICE SCOPED(check_in_place()); }
