/* test_views.c - in-place work on views inside a graph: every story is a function of x and w, (4, 6)
 * each, whose first and second derivatives are held against differences; then what is refused, and
 * what views share with threads and strides. */
#include "test.h"
#include "ops/op.h"

static const cr_device *devices[2];
static int n_devices(void) { devices[0] = cr_cpu(); devices[1] = cr_ref(); return 2; }
#define EACH_DEVICE(d) for (int d##_i = 0, d##_n = n_devices(); d##_i < d##_n; d##_i++) for (const cr_device *d = \
    devices[d##_i]; d; d = NULL, test_ran_on(devices[d##_i]))

static cr_tensor *line(const cr_tensor *x, int64_t i) { return cr_select(x, 0, i); }
static cr_tensor *backwards(const cr_tensor *x, int axis) { return cr_slice(x, axis, INT64_MAX, INT64_MIN, -1); }
static cr_tensor *square(const cr_tensor *x) { return cr_mul(x, x); }
static cr_tensor *zeros_of(const cr_tensor *x) { return cr_zeros_like(x); }

static cr_tensor *fill_a_line(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_mul(x, w);
    cr_fill_(line(y, 1), 0);
    return y;
}
static cr_tensor *scale_a_line(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x);
    cr_mul_(line(y, 0), line(w, 2));
    return cr_mul(y, w);
}
static cr_tensor *line_by_another(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_mul(x, w);
    cr_mul_(line(y, 0), line(y, 1));
    cr_mul_(line(y, 2), line(y, 0));
    return y;
}
static cr_tensor *view_before_the_tensor(const cr_tensor *x, const cr_tensor *w) {         /* the view follows */
    cr_tensor *y = square(x), *v = cr_slice(y, 1, 1, 5, 2);
    cr_mul_(y, w);
    return cr_mul(v, cr_slice(w, 1, 0, 2, 1));
}
static cr_tensor *view_before_another(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x), *v = cr_transpose(y, 0, 1), *u = line(y, 1);
    cr_add_(u, line(w, 0));
    cr_mul_(cr_slice(v, 0, 2, 4, 1), cr_slice(cr_transpose(w, 0, 1), 0, 0, 2, 1));
    return cr_add(cr_mul(v, v), cr_unsqueeze(cr_sum(u, CR_ALL, false), 0));
}
static cr_tensor *same_view_again(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x), *v = cr_slice(y, 0, 1, 3, 1), *first = line(v, 0);
    cr_mul_(v, cr_slice(w, 0, 0, 2, 1));
    cr_add_(first, line(w, 3));
    cr_mul_(y, w);
    cr_mul_(v, cr_scalar(0.5));
    return cr_add(y, cr_mul(first, line(w, 1)));
}
/* a recurrence, line by line */
static cr_tensor *into_zeros(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = zeros_of(x);
    cr_copy_(line(y, 0), line(x, 0));
    /* cloned: mul saves it */
    for (int i = 1; i < 4; i++) cr_copy_(line(y, i), cr_add(cr_mul(cr_clone(line(y, i - 1)), line(w, i)), line(x, i)));
    return y;
}
static cr_tensor *kept_views(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x), *part[3], *total = NULL;
    if (cr_split(y, 2, 1, 3, part) != CR_OK) return NULL;
    for (int i = 0; i < 3; i++) cr_mul_(part[i], cr_slice(w, 1, i, i + 2, 1));
    for (int i = 0; i < 3; i++) total = i ? cr_add(total, cr_mul(part[i], part[0])) : square(part[0]);
    return cr_cat(2, (const cr_tensor *[]){total, y}, 1);
}
static cr_tensor *turned_view(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x);
    cr_mul_(cr_slice(cr_transpose(backwards(y, 1), 0, 1), 0, 0, 3, 2), cr_slice(cr_transpose(w, 0, 1), 0, 1, 3, 1));
    return cr_mul(backwards(y, 0), w);
}
/* every fifth of all elements */
static cr_tensor *across_lines(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x), *all = cr_view(y, CR_LIST(24)), *last = line(y, 3);
    cr_mul_(cr_slice(all, 0, 1, 24, 5), cr_slice(line(w, 0), 0, 0, 5, 1));
    return cr_add(cr_mul(y, w), last);
}
static cr_tensor *diagonal_and_windows(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x), *windows = cr_unfold(y, 1, 3, 1), *apart = cr_unfold(y, 1, 2, 2);
    cr_add_(cr_diagonal(y, 1, 0, 1), cr_slice(line(w, 0), 0, 0, 4, 1));
    cr_mul_(cr_select(apart, 2, 1), cr_slice(w, 1, 0, 3, 1));
    /* elements of these share memory */
    return cr_mul(windows, cr_unsqueeze(cr_slice(w, 1, 0, 4, 1), 2));
}
/* elements 3 + i + 5 j, written, and windows whose elements share memory */
static cr_tensor *any_strides(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = square(x), *some = cr_as_strided(y, 2, (int64_t[]){2, 3}, (int64_t[]){1, 5}, 3);
    cr_mul_(some, cr_slice(cr_slice(w, 0, 0, 2, 1), 1, 0, 3, 1));
    cr_tensor *shared = cr_as_strided(y, 3, (int64_t[]){4, 6, 2}, (int64_t[]){2, 3, 0}, 1);
    return cr_mul(cr_sum(shared, CR_LIST(2), false), w);
}
static cr_tensor *expanded_view(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_sum(square(x), CR_LIST(0), true), *wide = cr_expand(y, CR_LIST(4, 6));
    cr_mul_(cr_select(y, 0, 0), line(w, 1));
    return cr_mul(wide, w);
}
/* in order only when turned: a view across its lines */
static cr_tensor *transposed_memory(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_detach(cr_transpose(cr_zeros(CR_LIST(6, 4), CR_F64, cr_device_of(x)), 0, 1)), *first = line(y, 0);
    cr_copy_(y, square(x));
    cr_mul_(cr_slice(cr_view(cr_transpose(y, 0, 1), CR_LIST(24)), 0, 2, 24, 7), cr_slice(line(w, 0), 0, 0, 4, 1));
    return cr_add(cr_mul(y, w), first);
}
/* of a tensor with gaps, backwards and in another order */
static cr_tensor *strided_memory(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *room = cr_detach(
        cr_transpose(backwards(cr_slice(zeros_of(cr_cat(2, (const cr_tensor *[]){x, x}, 1)), 1, 1, 12, 2), 1), 0, 1));
    cr_tensor *before = cr_slice(room, 0, 2, 5, 1);
    cr_copy_(cr_slice(room, 0, 0, 4, 1), cr_slice(cr_transpose(square(x), 0, 1), 0, 1, 5, 1));
    cr_mul_(line(before, 1), cr_slice(line(w, 0), 0, 0, 4, 1));
    return cr_add(cr_mul(room, cr_transpose(w, 0, 1)), cr_sum(before, CR_ALL, false));
}
/* y[0] += 1, as Python does it */
static cr_tensor *in_place_twice(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_mul(x, w), *v = line(y, 0);
    cr_add_(v, line(x, 1));
    cr_copy_(line(y, 0), v);
    return square(y);
}
static cr_tensor *cast_into_a_view(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_mul(x, w);
    cr_copy_(cr_slice(y, 1, 0, 2, 1), cr_to(cr_scalar(2), CR_F32, cr_device_of(x)));
    cr_copy_(line(y, 2), cr_sum(x, CR_ALL, false));
    return y;
}
static cr_tensor *detached_source(const cr_tensor *x, const cr_tensor *w) {
    cr_tensor *y = cr_mul(x, w);
    cr_copy_(line(y, 0), cr_mul_scalar(cr_detach(line(zeros_of(y), 0)), 1));
    return y;
}

static const struct { const char *name; cr_tensor *(*run)(const cr_tensor *x, const cr_tensor *w);
} stories[] = {
    {"fill a line", fill_a_line},
    {"scale a line", scale_a_line},
    {"a line by another", line_by_another},
    {"a view taken before", view_before_the_tensor},
    {"views taken before another is written", view_before_another},
    {"the same view again", same_view_again},
    {"a recurrence into zeros", into_zeros},
    {"views that are kept", kept_views},
    {"turned views", turned_view},
    {"across lines", across_lines},
    {"diagonal and windows", diagonal_and_windows},
    {"any strides", any_strides},
    {"an expanded view", expanded_view},
    {"transposed memory", transposed_memory},
    {"strided memory", strided_memory},
    {"twice", in_place_twice},
    {"a cast", cast_into_a_view},
    {"a source outside the graph", detached_source},
};
enum { STORIES = sizeof stories / sizeof *stories };

static cr_tensor *run_story(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    return stories[*(int *)ctx].run(in[0], in[1]);
}

TEST(stories) {
    EACH_DEVICE(d) {
        for (int i = 0; i < STORIES; i++) {
            cr_scope_begin();
            cr_generator *g = cr_generator_new(test_seed() + (uint64_t)i);
            cr_tensor *x = cr_requires_grad_(cr_rand(CR_LIST(4, 6), CR_F64, d, g), true),
                      *w = cr_requires_grad_(cr_rand(CR_LIST(4, 6), CR_F64, d, g), true);
            const cr_tensor *in[] = {x, w};
            CHECK(cr_gradcheck(run_story, &i, 2, in, NULL) == CR_OK, "%s on %s: %s", stories[i].name, cr_device_name(d),
                  cr_error());
            cr_error_clear();
            CHECK(cr_gradgradcheck(run_story, &i, 2, in, NULL) == CR_OK, "%s on %s, second order: %s", stories[i].name,
                  cr_device_name(d), cr_error());
            cr_error_clear();
            cr_generator_free(g);
            cr_scope_end();
        }
    }
}

/* A handle that was written through another one says so before it is used for anything else. */
TEST(follows) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F64, d), true), *y = cr_zeros(CR_LIST(2, 3), CR_F64, d),
                  *other = line(y, 1);
        CHECK(!cr_requires_grad(y) && cr_is_leaf(y), "y belongs to no graph yet");
        CHECK(cr_copy_(line(y, 0), w) != NULL, "copy_: %s", cr_error());
        CHECK(cr_requires_grad(y) && !cr_is_leaf(y) && !strcmp(cr_op_name(y), "replace_part"),
              "y was written to in a graph: %s", cr_op_name(y));
        CHECK(cr_requires_grad(other) && !strcmp(cr_op_name(other), "part"), "so its views follow: %s",
              cr_op_name(other));
        cr_tensor *grad = NULL;
        const cr_tensor *out[] = {cr_sum(y, CR_ALL, false)}, *of[] = {y};
        OK(cr_gradients(1, out, NULL, 1, of, &grad, NULL));
        CHECK(grad && cr_numel(grad) == 6, "the gradient of y itself");
        cr_tensor *free_of_it = cr_zeros(CR_LIST(2, 3), CR_F64, d), *part = line(free_of_it, 0);
        cr_fill_(part, 3);
        CHECK(!cr_requires_grad(free_of_it), "a write without gradients records nothing");
        cr_scope_end();
    }
}

TEST(refused) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(4, 6), CR_F64, d), true), *y = square(x),
                  *one = cr_ones(CR_LIST(1), CR_F64, d);
        FAILS(CR_RUNTIME, "[fill_] a view of a leaf that requires grad", cr_fill_(line(x, 0), 0));
        FAILS(CR_RUNTIME, "[add_] a view of a leaf that requires grad", cr_add_(line(line(x, 0), 1), line(one, 0)));
        FAILS(CR_BAD_VALUE, "[add_] cannot write in place: axis 0 of (3, 1) is expanded",
              cr_add_(cr_expand(one, CR_LIST(3, 1)), one));
        FAILS(CR_BAD_VALUE, "[add_] cannot write in place: elements of (3, 2) with strides (1, 1) share memory",
              cr_add_(cr_unfold(cr_ones(CR_LIST(4), CR_F64, d), 0, 2, 1), one));
        FAILS(CR_BAD_VALUE, "share memory", cr_fill_(cr_unfold(y, 1, 2, 1), 0));
        bool mode = cr_set_grad_enabled(false);
        cr_tensor *blind = line(y, 0), *late = line(cr_zeros(CR_LIST(2, 6), CR_F64, d), 0);
        CHECK(cr_fill_(line(x, 0), 2) != NULL, "a view of a leaf under no-grad: %s", cr_error());
        cr_set_grad_enabled(mode);
        FAILS(CR_RUNTIME, "[copy_] a view that was made while the gradient mode was off", cr_copy_(late, line(y, 1)));
        FAILS(CR_RUNTIME, "[fill_] a view that was made while the gradient mode was off", cr_fill_(blind, 2));
        cr_tensor *e = cr_exp(x);
        cr_fill_(line(e, 0), 0);
        FAILS(CR_RUNTIME, "[exp] its result", cr_backward(cr_sum(e, CR_ALL, false), CR_NONE, NULL));
        cr_tensor *late_leaf = cr_zeros(CR_LIST(2, 6), CR_F64, d), *early = line(late_leaf, 0);
        CHECK(cr_requires_grad_(late_leaf, true) != NULL, "requires_grad: %s", cr_error());
        FAILS(CR_RUNTIME, "a view of a leaf", cr_copy_(early, line(y, 1)));
        cr_tensor *own = cr_requires_grad_(line(cr_zeros(CR_LIST(2, 6), CR_F64, d), 0), true);
        FAILS(CR_RUNTIME, "a view of a leaf", cr_copy_(cr_slice(own, 0, 0, 3, 1), cr_slice(line(y, 1), 0, 0, 3, 1)));
        FAILS(CR_RUNTIME, "[copy_] a leaf", cr_copy_(own, line(y, 1)));
        cr_scope_end();
    }
}

/* The part of two tensors in one memory, by strides of either sign. */
TEST(order_of_memory) {
    const cr_meta m = {
        .dtype = CR_F32, .ndim = 3, .shape = {3, 1, 5}, .strides = {-2, 7, 6}, .offset = 4, .strided = true};
    int64_t axes[CR_MAX_DIMS];
    uint32_t turned;
    cr_meta y = cr_in_memory_order(&m, axes, &turned);
    CHECK(y.shape[0] == 1 && y.shape[1] == 5 && y.shape[2] == 3 && y.strides[1] == 6 && y.strides[2] == 2 &&
              y.offset == 0,
          "strides (%lld, %lld, %lld) from %lld on", (long long)y.strides[0], (long long)y.strides[1],
          (long long)y.strides[2], (long long)y.offset);
    CHECK(axes[0] == 1 && axes[1] == 2 && axes[2] == 0 && turned == 4, "axes %lld %lld %lld, turned %u",
          (long long)axes[0], (long long)axes[1], (long long)axes[2], turned);
    CHECK(cr_shape_overlaps(2, (int64_t[]){3, 2}, (int64_t[]){1, -1}) &&
              !cr_shape_overlaps(2, (int64_t[]){3, 2}, (int64_t[]){-2, 1}) &&
              !cr_shape_overlaps(2, (int64_t[]){3, 0}, (int64_t[]){0, 0}) &&
              cr_shape_overlaps(1, (int64_t[]){2}, (int64_t[]){0}),
          "overlaps");
}

/* ---- the functions that give views and arrangements: their edges; values and gradients are ops_cases.h's */
#define SHAPE_IS(t, ...) do {                                                                          \
        const int64_t want_[] = {__VA_ARGS__};                                                          \
        const cr_tensor *t_ = (t);                                                                      \
        int n_ = (int)(sizeof want_ / sizeof *want_);                                                   \
        CHECK(t_ && t_->ndim == n_ && !memcmp(t_->shape, want_, sizeof want_), "%s: %s, %s", #t, t_ ? \
            cr_shape_text(t_->ndim, t_->shape).s : "NULL", cr_error() ? cr_error() : ""); \
    } while (0)
#define FAR INT64_MAX, INT64_MIN

TEST(views_at_their_edges) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = cr_ones(CR_LIST(3, 4), CR_F32, d), *none = cr_zeros(CR_LIST(0, 4), CR_F32, d),
                  *scalar = cr_ones(CR_ALL, CR_F32, d), *out[8] = {NULL};
        SHAPE_IS(cr_slice(x, 1, FAR, INT64_MIN), 3, 1);
        SHAPE_IS(cr_slice(x, 1, INT64_MIN, INT64_MAX, INT64_MAX), 3, 1);
        SHAPE_IS(cr_slice(x, 1, INT64_MIN, INT64_MAX, -1), 3, 0);
        SHAPE_IS(cr_slice(none, 0, FAR, -1), 0, 4);
        SHAPE_IS(cr_slice(x, 0, -1, -9, -2), 2, 4);
        CHECK(cr_storage_offset(cr_slice(x, 0, FAR, -1)) == cr_storage_offset(cr_select(x, 0, 2)),
              "and has its offset");
        CHECK(cr_data(cr_slice(x, 0, FAR, -1)) == cr_data(cr_select(x, 0, 2)) &&
                  !cr_is_contiguous(cr_slice(x, 0, FAR, -1)),
              "a view backwards begins at its last line");
        SHAPE_IS(cr_narrow(x, 1, 4, 0), 3, 0);
        FAILS(CR_BAD_INDEX, "[narrow] start 5 is out of range for axis 1 of (3, 4)", cr_narrow(x, 1, 5, 0));
        FAILS(CR_BAD_INDEX, "[narrow] start", cr_narrow(x, 1, INT64_MIN, 0));
        FAILS(CR_BAD_VALUE, "[narrow] 9223372036854775807 positions from 1 on", cr_narrow(x, 1, 1, INT64_MAX));
        FAILS(CR_BAD_VALUE, "[narrow]", cr_narrow(scalar, 0, 0, 0));
        SHAPE_IS(cr_unflatten(x, 1, 2, (int64_t[]){-1, 2}), 3, 2, 2);
        FAILS(CR_BAD_VALUE, "[unflatten] the sizes (3, 2) do not multiply to 4, that of axis 1",
              cr_unflatten(x, 1, 2, (int64_t[]){3, 2}));
        FAILS(CR_BAD_VALUE, "[unflatten]", cr_unflatten(x, 1, 3, (int64_t[]){INT64_MAX, 2, 2}));
        FAILS(CR_BAD_VALUE, "[movedim] axis 0 appears more than once",
              cr_movedim(x, 2, (int64_t[]){0, 0}, (int64_t[]){0, 1}));
        SHAPE_IS(cr_movedim(x, 0, NULL, NULL), 3, 4);
        SHAPE_IS(cr_diagonal(x, INT64_MIN, 0, 1), 0);
        SHAPE_IS(cr_diagonal(x, INT64_MAX, 0, 1), 0);
        SHAPE_IS(cr_diagonal(none, 0, 1, 0), 0);
        FAILS(CR_BAD_VALUE, "[diagonal] the axes 0 and -2 are the same", cr_diagonal(x, 0, 0, -2));
        FAILS(CR_BAD_INDEX, "[diagonal] axis 1 is out of range", cr_diagonal(scalar, 0, 0, 1));
        SHAPE_IS(cr_diag_embed(x, -2, 0, -1), 6, 3, 6);
        SHAPE_IS(cr_diag(none, 1), 0);
        CHECK(cr_item(cr_equal(cr_diagonal(cr_diag_embed(x, 1, 0, 2), 1, 0, 2), x)) == 1,
              "what was put on a diagonal lies there");
        CHECK(cr_item(cr_equal(cr_sum(cr_diag_embed(x, -3, 1, 0), CR_LIST(0, 1), false),
                               cr_sum(x, CR_LIST(1), false))) == 1,
              "and zeros elsewhere");
        FAILS(CR_BAD_VALUE, "[diag_embed] the axes 1 and -2 are the same", cr_diag_embed(x, 0, 1, -2));
        FAILS(CR_BAD_INDEX, "[diag_embed] axis -2 is out of range", cr_diag_embed(scalar, 0, -2, -1));
        FAILS(CR_BAD_VALUE, "[diag_embed] offset 9223372036854775807 is too far", cr_diag_embed(x, INT64_MAX, 0, 1));
        FAILS(CR_BAD_VALUE, "[diag] a vector or a matrix is expected", cr_diag(scalar, 0));
        SHAPE_IS(cr_unfold(x, 1, 2, INT64_MAX), 3, 1, 2);
        SHAPE_IS(cr_unfold(x, 1, 0, 1), 3, 5, 0);
        FAILS(CR_BAD_VALUE, "[unfold] windows of 5 on axis 1 of (3, 4)", cr_unfold(x, 1, 5, 1));
        FAILS(CR_BAD_VALUE, "[unfold] the step must be positive: 0", cr_unfold(x, 1, 1, 0));
        const int64_t two[] = {2, 2}, one_three[] = {1, 3}, huge[] = {2, INT64_MAX};
        cr_tensor *turned = cr_transpose(x, 0, 1), *part = cr_as_strided(turned, 2, two, one_three, 2);
        SHAPE_IS(part, 2, 2);
        CHECK(cr_storage_offset(cr_select(cr_select(part, 0, 1), 0, 1)) ==
                  cr_storage_offset(cr_select(cr_select(x, 0, 1), 0, 2)),
              "in memory, whatever the order of the axes");
        SHAPE_IS(cr_as_strided(none, 1, (int64_t[]){0}, one_three, 5), 0);
        CHECK(cr_item(cr_as_strided(x, 0, NULL, NULL, 11)) == 1, "the last element");
        FAILS(CR_BAD_VALUE, "[as_strided] elements 9 ... 13 of the memory, of which the tensor has 0 ... 11",
              cr_as_strided(x, 2, two, one_three, 9));
        FAILS(CR_BAD_VALUE, "[as_strided] elements -1 ", cr_as_strided(x, 2, two, one_three, -1));
        FAILS(CR_BAD_VALUE, "[as_strided] elements", cr_as_strided(x, 2, two, huge, 2));
        FAILS(CR_BAD_VALUE, "[as_strided] elements", cr_as_strided(none, 0, NULL, NULL, 0));
        FAILS(CR_BAD_VALUE, "[as_strided] size 2 with stride -1", cr_as_strided(x, 1, two, (int64_t[]){-1}, 2));
        FAILS(CR_BAD_VALUE, "[as_strided] 17 axes", cr_as_strided(x, 17, two, two, 0));
        cr_tensor *leaf = cr_mul_scalar(cr_requires_grad_(cr_clone(x), true), 1);
        FAILS(CR_BAD_VALUE, "[as_strided] a tensor in a graph or of a transform must be contiguous",
              cr_as_strided(cr_transpose(leaf, 0, 1), 2, two, one_three, 0));
        CHECK(cr_split_chunks(x, 8, 1, out) == 4 && cr_split_chunks(none, 3, 0, out) == 3, "chunk: %s",
              cr_error() ? cr_error() : "");
        FAILS(CR_BAD_VALUE, "[chunk] 0 chunks", cr_split_chunks(x, 0, 1, out));
        FAILS(CR_BAD_VALUE, "[split] the 2 sizes do not add up to 4, that of axis 1 of (3, 4)",
              cr_split_sizes(x, 1, 2, (int64_t[]){1, 2}, out));
        FAILS(CR_BAD_VALUE, "[split]", cr_split_sizes(x, 1, 2, (int64_t[]){INT64_MAX, INT64_MAX}, out));
        FAILS(CR_BAD_VALUE, "[unbind] axis 0 of (3, 4) has 3 positions, not 2", cr_unbind(x, 0, 2, out));
        FAILS(CR_BAD_VALUE, "[meshgrid] tensor 0 has the shape (3, 4)",
              cr_meshgrid(1, (const cr_tensor *[]){x}, false, out));
        OK(cr_meshgrid(2, (const cr_tensor *[]){scalar, cr_select(x, 0, 0)}, false, out));
        SHAPE_IS(out[0], 1, 4);
        cr_scope_end();
    }
}

TEST(arrangements_at_their_edges) {
    EACH_DEVICE(d) {
        cr_scope_begin();
        cr_tensor *x = cr_ones(CR_LIST(3, 4), CR_F32, d), *none = cr_zeros(CR_LIST(0, 4), CR_F32, d),
                  *scalar = cr_ones(CR_ALL, CR_F32, d);
        SHAPE_IS(cr_flip(none, CR_ALL), 0, 4);
        CHECK(cr_ndim(cr_flip(scalar, CR_LIST(0))) == 0 && cr_ndim(cr_roll(scalar, 1, (int64_t[]){3}, NULL)) == 0,
              "0-d: %s", cr_error() ? cr_error() : "");
        FAILS(CR_BAD_VALUE, "[flip] axis 1 appears more than once", cr_flip(x, CR_LIST(1, 1)));
        SHAPE_IS(cr_roll(x, 2, (int64_t[]){INT64_MIN, INT64_MAX}, (int64_t[]){0, 1}), 3, 4);
        SHAPE_IS(cr_roll(none, 1, (int64_t[]){1}, (int64_t[]){0}), 0, 4);
        FAILS(CR_BAD_VALUE, "[roll] 2 shifts: only one", cr_roll(x, 2, (int64_t[]){1, 2}, NULL));
        FAILS(CR_BAD_INDEX, "[roll] axis 2", cr_roll(x, 1, (int64_t[]){1}, (int64_t[]){2}));
        FAILS(CR_BAD_VALUE, "[repeat] 1 numbers for the axes of (3, 4)", cr_repeat(x, CR_LIST(2)));
        FAILS(CR_BAD_VALUE, "[repeat] a negative number of times in (2, -1)", cr_repeat(x, CR_LIST(2, -1)));
        FAILS(CR_BAD_VALUE, "holds too many elements", cr_repeat(x, CR_LIST(INT64_MAX, 1)));
        FAILS(CR_BAD_VALUE, "holds too many elements", cr_tile(x, CR_LIST(INT64_C(1) << 40, INT64_C(1) << 40)));
        FAILS(CR_BAD_VALUE, "holds too many elements", cr_repeat_interleave(x, INT64_MAX, 0));
        SHAPE_IS(cr_tile(x, CR_ALL), 3, 4);
        SHAPE_IS(cr_tile(none, CR_LIST(2, 3)), 0, 12);
        SHAPE_IS(cr_repeat_interleave(scalar, 3, 0), 3);
        cr_tensor *bad = cr_from((int64_t[]){1, -2, 3}, CR_LIST(3), CR_I64, d);
        FAILS(CR_BAD_VALUE, "[repeat_interleave] a negative number of times, -2 at position 1",
              cr_repeat_interleave_by(x, bad, 0));
        FAILS(CR_BAD_VALUE, "[repeat_interleave] (3,) numbers for an axis of size 4",
              cr_repeat_interleave_by(x, bad, 1));
        FAILS(CR_BAD_TYPE, "[repeat_interleave] indices must be int32 or int64", cr_repeat_interleave_by(x, scalar, 1));
        FAILS(CR_BAD_VALUE, "[pad] 3 sizes for (3, 4)", cr_pad(x, CR_LIST(1, 1, 1), CR_PAD_CONSTANT, 0));
        FAILS(CR_BAD_VALUE, "[pad] the result holds too many elements",
              cr_pad(x, CR_LIST(INT64_MAX, 1), CR_PAD_CONSTANT, 0));
        FAILS(CR_BAD_VALUE, "[pad] -5 and 0 take more than there is from axis 1 of (3, 4)",
              cr_pad(x, CR_LIST(-5, 0), CR_PAD_CONSTANT, 0));
        FAILS(CR_BAD_VALUE, "[pad]", cr_pad(x, CR_LIST(INT64_MIN, INT64_MIN), CR_PAD_CONSTANT, 0));
        FAILS(CR_BAD_VALUE, "[pad] 4 elements cannot be taken from axis 1 of (3, 4): the edge",
              cr_pad(x, CR_LIST(4, 0), CR_PAD_REFLECT, 0));
        FAILS(CR_BAD_VALUE, "[pad] 5 elements cannot be taken from axis 1 of (3, 4)",
              cr_pad(x, CR_LIST(0, 5), CR_PAD_CIRCULAR, 0));
        FAILS(CR_BAD_VALUE, "[pad]", cr_pad(none, CR_LIST(0, 0, 1, 1), CR_PAD_REPLICATE, 0));
        FAILS(CR_BAD_VALUE, "[pad] 1000 does not fit int8",
              cr_pad(cr_to(x, CR_I8, d), CR_LIST(1, 1), CR_PAD_CONSTANT, 1000));
        SHAPE_IS(cr_pad(none, CR_LIST(1, 2, 3, 0), CR_PAD_CONSTANT, 7), 3, 7);
        SHAPE_IS(cr_pad(x, CR_ALL, CR_PAD_REFLECT, 0), 3, 4);
        FAILS(CR_BAD_VALUE, "[tril] needs a matrix: (4,)", cr_tril(cr_select(x, 0, 0), 0));
        SHAPE_IS(cr_triu(x, INT64_MAX), 3, 4);
        CHECK(cr_item(cr_sum(cr_tril(x, INT64_MAX), CR_ALL, false)) == 12 &&
                  cr_item(cr_sum(cr_tril(x, INT64_MIN), CR_ALL, false)) == 0 &&
                  cr_item(cr_sum(cr_triu(x, INT64_MIN), CR_ALL, false)) == 12 &&
                  cr_item(cr_sum(cr_triu(x, 1), CR_ALL, false)) == 6,
              "triangles");
        const cr_tensor *absent[] = {NULL, CR_NONE};
        for (int k = 0; k < 2; k++) {
            const cr_tensor *n = absent[k];
            FAILS(CR_BAD_VALUE, "[flip]", cr_flip(n, CR_ALL));
            FAILS(CR_BAD_VALUE, "[roll]", cr_roll(n, 1, (int64_t[]){1}, NULL));
            FAILS(CR_BAD_VALUE, "[repeat]", cr_repeat(n, CR_LIST(1)));
            FAILS(CR_BAD_VALUE, "[tile]", cr_tile(n, CR_LIST(1)));
            FAILS(CR_BAD_VALUE, "[pad]", cr_pad(n, CR_ALL, CR_PAD_CONSTANT, 0));
            FAILS(CR_BAD_VALUE, "[unfold]", cr_unfold(n, 0, 1, 1));
            FAILS(CR_BAD_VALUE, "[diagonal]", cr_diagonal(n, 0, 0, 1));
            FAILS(CR_BAD_VALUE, "[narrow]", cr_narrow(n, 0, 0, 1));
            FAILS(CR_BAD_VALUE, "[meshgrid]", cr_meshgrid(1, &n, false, NULL));
        }
        cr_scope_end();
    }
}
