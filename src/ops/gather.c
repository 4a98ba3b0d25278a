/* gather.c - elements picked, written, added or otherwise reduced along one axis at given positions:
 * gather, scatter and their composites. */
#include "compose.h"
#include "transform.h"

#include <string.h>

typedef struct axis_params { int axis; bool sum; } axis_params;     /* sum: scatter adds */

/* index must have x's axes, and none but `axis` longer than x's. */
static cr_status check_index(const char *op, const cr_tensor *x, int axis, const cr_tensor *index) {
    bool within = index->ndim == x->ndim;
    for (int i = 0; within && i < x->ndim; i++) within = i == axis || index->shape[i] <= x->shape[i];
    if (!within)
        return cr_fail(CR_BAD_VALUE, op, "the index %s must have the axes of %s and may be longer only along axis %d",
                       cr_shape_text(index->ndim, index->shape).s, cr_shape_text(x->ndim, x->shape).s, axis);
    return cr_want_index(op, index);
}

/* x cut to `like`'s size on every axis but `axis` (-1: on all of them). */
static cr_tensor *cut_like(const cr_tensor *x, const cr_tensor *like, int axis) {
    cr_tensor *y = same(x);
    for (int i = 0; y && i < x->ndim; i++)
        if (i != axis && x->shape[i] != like->shape[i]) y = cr_slice(y, i, 0, like->shape[i], 1);
    return y;
}

static bool covers(const cr_tensor *src, const cr_tensor *index) {
    bool is = src->ndim == index->ndim;
    for (int i = 0; is && i < src->ndim; i++) is = src->shape[i] >= index->shape[i];
    return is;
}

static cr_status uncovered(const char *op, const cr_tensor *src, const cr_tensor *index) {
    return cr_fail(CR_BAD_VALUE, op, "the source %s does not cover the index %s",
                   cr_shape_text(src->ndim, src->shape).s, cr_shape_text(index->ndim, index->shape).s);
}

static const axis_params *params(const cr_call *c) { return c->params; }

/* ---- gather: y[i][j] = x[index[i][j]][j] for axis 0 */
static cr_status gather_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *index = c->in[1];
    *out = cr_meta_of(index);
    out->dtype = x->dtype;
    return check_index("gather", x, params(c)->axis, index);
}

static cr_status gather_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *index = c->in[1];
    const int axis = params(c)->axis;
    if (!out->numel) return CR_OK;
    return c->dev->kernels->gather(&(cr_gather_args){.y = cr_around(&out->array, axis, 1),
                                                     .x = cr_around(&x->array, axis, 1),
                                                     .index = cr_around(&index->array, axis, 1)});
}

/* y = gather(x, index):  dx = scatter_add(zeros, index, g) */
static void gather_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0], *index = c->in[1];
    if (c->needs[0])
        dx[0] = cr_scatter_add(cr_zeros(x->ndim, x->shape, x->dtype, c->dev), params(c)->axis, index,
                               cast_to(g, x->dtype));
}

const cr_op cr_op_gather = {
    .name = "gather", .arity = 2, .params_bytes = sizeof(axis_params), .contiguous = true, .saves = CR_SAVE_IN(1),
    .infer = gather_infer, .forward = gather_forward, .grad = gather_grad,
    .batch = cr_batch_axis, .tangent = cr_tangent_linear,
};

cr_tensor *cr_gather(const cr_tensor *x, int axis, const cr_tensor *index) {
    if (!cr_given("gather", "x", x) || !cr_given("gather", "index", index)) return NULL;
    int a = cr_axis("gather", axis, x->ndim);
    if (a < 0 || check_index("gather", x, a, index) != CR_OK) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {cut_like(x, index, a), index};
    return cr_leave(cr_apply(&cr_op_gather, 2, in, &(axis_params){.axis = a}));
}

/* ---- scatter: y = x, then y[index[i][j]][j] = src[i][j] for axis 0, or += it */
static const char *scatter_name(const void *p) { return ((const axis_params *)p)->sum ? "scatter_add" : "scatter"; }

static cr_status scatter_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
    const char *name = cr_call_name(c);
    *out = cr_meta_of(x);
    cr_status status = check_index(name, x, params(c)->axis, index);
    if (status == CR_OK) status = cr_want_same_dtype(name, x, src);
    if (status == CR_OK && params(c)->sum && x->dtype == CR_BOOL)
        status = cr_fail(CR_BAD_TYPE, name, "adds numbers, not bool");
    if (status == CR_OK && (!cr_shape_equal(src->ndim, src->shape, index->ndim, index->shape)))
        status = uncovered(name, src, index);
    return status;
}

typedef enum meeting { LAST, SUM, LARGEST, LEAST } meeting;     /* how elements with one index are combined */

/* The kernel takes contiguous arrays, and y and index of one size but for the axis: other arrays, and
 * the corner of y that the index covers, are copied. */
static cr_status scatter_by(meeting how, const cr_call *c, int axis, cr_tensor *y) {
    const cr_kernels *device = c->dev->kernels;
    cr_array corner = y->array, dense, index = c->in[1]->array, src = c->in[2]->array;
    if (!index.numel) return CR_OK;
    for (int i = 0; i < y->ndim; i++)
        if (i != axis) corner = cr_array_narrowed(&corner, i, 0, index.shape[i]);
    dense = corner;
    cr_scope own;
    cr_scope_enter(&own);
    cr_status status = cr_pack(&dense);
    if (status == CR_OK) status = cr_pack(&index);
    if (status == CR_OK) status = cr_pack(&src);
    if (status == CR_OK) {
        const cr_array to = cr_around(&dense, axis, 1), at = cr_around(&index, axis, 1),
                       from = cr_around(&src, axis, 1);
        status = how <= SUM ? device->scatter(&(cr_scatter_args){to, at, from, how == SUM})
                            : device->scatter_extreme(&(cr_scatter_extreme_args){to, at, from, how == LEAST});
    }
    if (status == CR_OK && dense.storage != corner.storage) status = cr_copy_array(&corner, &dense);
    cr_scope_leave(&own);
    return status;
}

static cr_status scatter_into(const cr_call *c, cr_tensor *y) {
    return scatter_by(params(c)->sum ? SUM : LAST, c, params(c)->axis, y);
}

static cr_status scatter_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_status status = cr_copy_elements(out, c->in[0]);
    return status == CR_OK ? scatter_into(c, out) : status;
}

/* y = scatter(x, index, src):      dx = g with 0 at index,  dsrc = gather(g, index), of positions named
 * twice too, as in PyTorch y = scatter_add(x, index, src):  dx = g,                  dsrc = gather(g,
 * index) */
static void scatter_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *index = c->in[1];
    if (c->needs[0])
        dx[0] = params(c)->sum ? same(g) : cr_scatter(g, params(c)->axis, index, cr_zeros(CR_ALL, g->dtype, c->dev));
    if (c->needs[2]) dx[2] = cr_gather(g, params(c)->axis, index);
}

static uint32_t scatter_saves(const cr_call *c) { return c->needs[2] || !params(c)->sum ? CR_SAVE_IN(1) : 0; }

const cr_op cr_op_scatter = {
    .name = "scatter",
    .name_of = scatter_name,
    .arity = 3,
    .params_bytes = sizeof(axis_params),
    .saves_for = scatter_saves,
    .infer = scatter_infer,
    .forward = scatter_forward,
    .write = scatter_into,
    .grad = scatter_grad,
    .batch = cr_batch_axis,
    .tangent = cr_tangent_linear,
};

/* to: NULL, or x, to be written in place */
static cr_tensor *scatter(cr_tensor *to, const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src,
                          bool sum) {
    const char *op = sum ? "scatter_add" : "scatter";
    if (!cr_given(op, "x", x) || !cr_given(op, "index", index) || !cr_given(op, "src", src)) return NULL;
    const int a = cr_axis(op, axis, x->ndim);
    if (a < 0) return NULL;
    cr_scope_begin();
    if (!sum && !src->ndim && (index->ndim || src->flags & CR_FLAG_WEAK))
        src = cr_expand(cr_to(src, x->dtype, x->dev), index->ndim, index->shape);
    else if (covers(src, index)) src = cut_like(src, index, -1);
    const cr_tensor *in[] = {x, index, src};
    const axis_params p = {a, sum};
    return cr_leave_with(to, to ? cr_apply_(&cr_op_scatter, to, 3, in, &p) : cr_apply(&cr_op_scatter, 3, in, &p));
}

cr_tensor *cr_scatter(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return scatter(NULL, x, axis, index, src, false);
}
cr_tensor *cr_scatter_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return scatter(x, x, axis, index, src, false);
}
cr_tensor *cr_scatter_add(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return scatter(NULL, x, axis, index, src, true);
}
cr_tensor *cr_scatter_add_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return scatter(x, x, axis, index, src, true);
}

/* ---- scatter_extreme: at each index the largest or the least of src's elements for it and, with self, of x there */
typedef struct extreme_params { int axis; bool least, self; } extreme_params;

static cr_status extreme_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return CR_OK;                                   /* cr_scatter_reduce has checked */
}

/* For devices without the kernel: scatter keeps the last element for a position.  In order of value that
 * is the largest, NaN above all. For the least, floats are negated and integers sorted the other way. */
static cr_status extreme_by_order(const cr_call *c, cr_tensor *out) {
    const extreme_params *p = c->params;
    const cr_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
    const bool recording = cr_set_grad_enabled(false), negate = p->least && cr_dtype_is_float(x->dtype);
    cr_scope_begin();
    cr_tensor *seen = cr_gather(x, p->axis, index); /* checks all indices in their order */
    cr_tensor *order, *sorted = seen ? cr_sort(negate ? cr_neg(src) : src, p->axis, p->least && !negate, &order) : NULL;
    cr_tensor *y = sorted ? cr_scatter(x, p->axis, cr_gather(index, p->axis, order), negate ? cr_neg(sorted) : sorted)
                          : NULL;
    if (y && p->self) y = p->least ? cr_minimum(x, y) : cr_maximum(x, y);
    const cr_status status = y ? cr_copy_elements(out, y) : cr_error_status();
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

/* Without self, one of the source's elements takes the place of x's first. */
static cr_status extreme_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const extreme_params *p = c->params;
    if (!c->dev->kernels->scatter_extreme) return extreme_by_order(c, out);
    cr_status status = cr_copy_elements(out, c->in[0]);
    if (status == CR_OK && !p->self) status = scatter_by(LAST, c, p->axis, out);
    return status == CR_OK ? scatter_by(p->least ? LEAST : LARGEST, c, p->axis, out) : status;
}

/* y = extreme(x, index, src):  elements equal to y share its cotangent, as in PyTorch */
static void extreme_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const extreme_params *p = c->params;
    const cr_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2], *y = c->out, *none = cr_scalar(0);
    cr_tensor *from = cr_eq(src, cr_gather(y, p->axis, index)), *own = cr_eq(x, y);
    if (!p->self) own = cr_scatter(own, p->axis, index, cr_zeros(CR_ALL, CR_BOOL, c->dev));
    cr_tensor *count = cr_scatter_add(cast_to(own, wide_dtype(x)), p->axis, index, cast_to(from, wide_dtype(x)));
    cr_tensor *share = cast_to(divide(g, cr_maximum(count, cr_scalar(1))), g->dtype);
    if (c->needs[0]) dx[0] = cr_where(own, share, none);
    if (c->needs[2]) dx[2] = cr_where(from, cr_gather(share, p->axis, index), none);
}

/* The tangents of the elements that are equal to y, on average. */
static cr_tensor *extreme_tangent(const cr_call *c, const cr_tensor *const *t) {
    const extreme_params *p = c->params;
    const cr_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2], *y = c->out, *none = cr_scalar(0);
    cr_tensor *from = cr_eq(src, cr_gather(y, p->axis, index)), *own = cr_eq(x, y);
    if (!p->self) own = cr_scatter(own, p->axis, index, cr_zeros(CR_ALL, CR_BOOL, c->dev));
    cr_tensor *count = cr_scatter_add(cast_to(own, x->dtype), p->axis, index, cast_to(from, x->dtype));
    cr_tensor *sum = t[0] == CR_NONE ? cr_zeros_like(x) : cr_where(own, t[0], none);
    if (t[2] != CR_NONE) sum = cr_scatter_add(sum, p->axis, index, cr_where(from, t[2], none));
    return divide(sum, cr_maximum(count, cr_scalar(1)));
}

const cr_op cr_op_scatter_extreme = {
    .name = "scatter_reduce",
    .arity = 3,
    .params_bytes = sizeof(extreme_params),
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_IN(2) | CR_SAVE_OUT,
    .infer = extreme_infer,
    .forward = extreme_forward,
    .grad = extreme_grad,
    .batch = cr_batch_axis,
    .tangent = extreme_tangent,
};

/* ---- composites */

/* Elements with one index become neighbours; then products of 1, 2, 4... of them, so that the last of
 * each position has all. */
cr_tensor *cr_scatter_multiply(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    static const char op[] = "scatter_multiply";
    if (!cr_given(op, "x", x) || !cr_given(op, "index", index) || !cr_given(op, "src", src)) return NULL;
    const int a = cr_axis(op, axis, x->ndim);
    if (a < 0 || check_index(op, x, a, index) != CR_OK) return NULL;
    if (cr_want_same_dtype(op, x, src->ndim || !(src->flags & CR_FLAG_WEAK) ? src : x) != CR_OK) return NULL;
    if (x->dtype == CR_BOOL) return cr_fail(CR_BAD_TYPE, op, "multiplies numbers, not bool"), NULL;
    if (src->ndim && !covers(src, index)) return uncovered(op, src, index), NULL;
    const int64_t K = index->ndim ? index->shape[a] : 1;
    int64_t along[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    cr_scope_begin();
    const cr_tensor *one = cr_scalar_int(1), *none = cr_scalar_int(0);
    if (!src->ndim) src = cr_expand(cr_to(src, x->dtype, x->dev), index->ndim, index->shape);
    /* looks at all indices */
    cr_tensor *count = cr_scatter_add(cr_zeros(x->ndim, x->shape, CR_I64, x->dev), a, index,
                                      cr_ones(index->ndim, index->shape, CR_I64, x->dev));
    if (!index->numel) return cr_leave(count ? cr_clone(x) : NULL);
    along[a] = K;
    cr_tensor *order, *at = cr_sort(index, a, false, &order), *p = cr_gather(src, a, order),
                      *position = cr_reshape(cr_arange(0, (double)K, 1, CR_I64, x->dev), x->ndim, along);
    cr_tensor *begins = cr_ne(at, cr_roll(at, 1, (int64_t[]){1}, x->ndim ? (int64_t[]){a} : NULL));
    cr_tensor *rank = sub(position, cr_cummax(cr_where(begins, position, none), a, NULL));
    for (int64_t d = 1; p && d < K; d *= 2)
        p = mul(p, cr_where(cr_ge(rank, cr_scalar_int(d)), cr_roll(p, 1, &d, (int64_t[]){a}), one));
    cr_tensor *last = cr_eq(cr_add(rank, one), cr_gather(count, a, at));
    cr_tensor *all = cr_scatter_add(cr_zeros(x->ndim, x->shape, p ? p->dtype : CR_F32, x->dev), a, at,
                                    cr_where(last, p, none));
    return cr_leave(mul(x, cr_where(cr_gt(count, none), all, one)));
}

/* x with src added, in the scope of the caller; not with x itself: its positions are 0 first. */
static cr_tensor *added_up(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src, bool self) {
    return cr_scatter_add(self ? x : cr_scatter(x, axis, index, cr_zeros(CR_ALL, x->dtype, x->dev)), axis, index, src);
}

static cr_tensor *mean_of(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src, bool self) {
    const bool floats = cr_dtype_is_float(x->dtype);
    const cr_dtype dt = cr_dtype_sum(x->dtype);
    cr_tensor *sum = added_up(x, axis, index, src, self);
    cr_tensor *ones = cr_ones(x->ndim, x->shape, dt, x->dev),
              *count = added_up(ones, axis, index, cr_ones(index->ndim, index->shape, dt, x->dev), self);
    count = cr_maximum(count, cr_scalar_int(1));
    return cast_to(floats ? divide(sum, count) : cr_floor_divide(sum, count), x->dtype);
}

cr_tensor *cr_scatter_reduce(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src,
                             cr_scatter_kind kind, bool self) {
    static const char op[] = "scatter_reduce";
    if (!cr_given(op, "x", x) || !cr_given(op, "index", index) || !cr_given(op, "src", src)) return NULL;
    const int a = cr_axis(op, axis, x->ndim);
    if (a < 0 || check_index(op, x, a, index) != CR_OK || cr_want_same_dtype(op, x, src) != CR_OK) return NULL;
    if (!covers(src, index)) return uncovered(op, src, index), NULL;
    if (kind > CR_SCATTER_AMIN) return cr_fail(CR_BAD_VALUE, op, "there is no kind %d", (int)kind), NULL;
    if (kind <= CR_SCATTER_MEAN && x->dtype == CR_BOOL)
        return cr_fail(CR_BAD_TYPE, op, "adds and multiplies numbers, not bool"), NULL;
    const cr_status before = cr_error_status();
    cr_tensor *y;
    cr_scope_begin();
    src = cut_like(src, index, -1);
    if (kind == CR_SCATTER_SUM) y = added_up(x, a, index, src, self);
    else if (kind == CR_SCATTER_MEAN) y = mean_of(x, a, index, src, self);
    else if (kind == CR_SCATTER_PROD)
        y = cr_scatter_multiply(self ? x : cr_scatter(x, a, index, cr_ones(CR_ALL, x->dtype, x->dev)), a, index, src);
    else
        y = cr_apply(&cr_op_scatter_extreme, 3, (const cr_tensor *const[]){x, index, src},
                     &(extreme_params){a, kind == CR_SCATTER_AMIN, self});
    return cr_named(op, before, cr_leave(y));
}

cr_tensor *cr_take_along_axis(const cr_tensor *x, int axis, const cr_tensor *index) {
    int64_t shape[2][CR_MAX_DIMS];                  /* of x and index, broadcast against each other but along the
                                                     * axis */
    if (!cr_given("take_along_axis", "x", x) || !cr_given("take_along_axis", "index", index)) return NULL;
    if (x->ndim != index->ndim)
        return cr_fail(CR_BAD_VALUE, "take_along_axis", "%s and an index %s have different numbers of axes",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(index->ndim, index->shape).s),
               NULL;
    const int a = cr_axis("take_along_axis", axis, x->ndim);
    if (a < 0) return NULL;
    memcpy(shape[0], x->shape, sizeof shape[0]);
    memcpy(shape[1], index->shape, sizeof shape[1]);
    for (int i = 0; i < x->ndim; i++) {
        if (i == a) continue;
        if (x->shape[i] != index->shape[i] && x->shape[i] != 1 && index->shape[i] != 1)
            return cr_fail(CR_BAD_VALUE, "take_along_axis", "%s and an index %s do not broadcast: axis %d",
                           cr_shape_text(x->ndim, x->shape).s, cr_shape_text(index->ndim, index->shape).s, i),
                   NULL;
        shape[0][i] = shape[1][i] = x->shape[i] == 1 ? index->shape[i] : x->shape[i];
    }
    cr_scope_begin();
    return cr_leave(cr_gather(cr_expand(x, x->ndim, shape[0]), a, cr_expand(index, index->ndim, shape[1])));
}

/* 1 at the position that each element of index names, of C; C -1: one more than the largest of them */
cr_tensor *cr_one_hot(const cr_tensor *index, int64_t C) {
    int64_t shape[CR_MAX_DIMS];
    if (!cr_given("one_hot", "the index", index) || cr_want_index("one_hot", index) != CR_OK) return NULL;
    if (index->ndim == CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "one_hot", "an index of %d axes leaves none for the classes", CR_MAX_DIMS), NULL;
    if (C < -1 || (C <= 0 && (index->numel == 0 || C == 0)))
        return cr_fail(CR_BAD_VALUE, "one_hot", "%lld classes for an index of shape %s", (long long)C,
                       cr_shape_text(index->ndim, index->shape).s),
               NULL;
    cr_scope_begin();
    cr_tensor *y = NULL;
    if (C < 0) {
        int64_t most;
        if (cr_read(cr_max(index, CR_ALL, false), CR_I64, &most, sizeof most) != CR_OK) return cr_leave(NULL);
        C = most < 0 ? 1 : most < INT64_MAX ? most + 1 : most;      /* scatter refuses negative ones */
    }
    memcpy(shape, index->shape, sizeof shape);
    shape[index->ndim] = C;
    cr_tensor *zeros = cr_zeros(index->ndim + 1, shape, CR_I64, index->dev);
    if (zeros) y = cr_scatter(zeros, -1, cr_unsqueeze(index, -1), cr_ones(CR_ALL, CR_I64, index->dev));
    return cr_leave(y);
}
