/* gather.c - elements picked, or added, along one axis at given positions: gather and its transpose scatter_add. */
#include "compose.h"

#include <string.h>

typedef struct axis_params { int axis; } axis_params;

/* x (M, R, N) around the axis, index (M, K, N). */
typedef struct extent { int64_t M, R, N, K; } extent;
static extent extent_of(const cr_tensor *x, const cr_tensor *index, int axis) {
    extent e = {1, 1, 1, 1};
    for (int i = 0; i < index->ndim; i++) {
        if (i < axis) e.M *= index->shape[i];
        else if (i > axis) e.N *= index->shape[i];
        else { e.R = x->shape[i]; e.K = index->shape[i]; }
    }
    return e;
}

/* index must have x's axes, and none but `axis` longer than x's. */
static cr_status check_index(const char *op, const cr_tensor *x, int axis, const cr_tensor *index) {
    bool within = index->ndim == x->ndim;
    for (int i = 0; within && i < x->ndim; i++) within = i == axis || index->shape[i] <= x->shape[i];
    if (!within)
        return cr_fail(CR_BAD_VALUE, op, "the index %s must have the axes of %s and may be longer along axis %d alone",
                       cr_shape_text(index->ndim, index->shape).s, cr_shape_text(x->ndim, x->shape).s, axis);
    return cr_want_index(op, index);
}

/* x cut to `like`'s size on every axis but `axis` (-1: on all of them). */
static cr_tensor *cut(const cr_tensor *x, const cr_tensor *like, int axis) {
    cr_tensor *y = same(x);
    for (int i = 0; y && i < x->ndim; i++)
        if (i != axis && x->shape[i] != like->shape[i]) y = cr_slice(y, i, 0, like->shape[i], 1);
    return y;
}

static const axis_params *params(const cr_call *c) { return c->params; }

/* ---- gather: y[i][j] = x[index[i][j]][j] for axis 0 */
static cr_status gather_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *index = c->in[1];
    *out = cr_meta_of(index);
    out->dtype = dtype_of(x);
    return check_index("gather", x, params(c)->axis, index);
}

static cr_status gather_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *index = c->in[1];
    extent e = extent_of(x, index, params(c)->axis);
    return out->numel ? c->dev->kernels->gather(out, x, index, e.M, e.R, e.N, e.K) : CR_OK;
}

/* y = gather(x, index):  dx = scatter_add(zeros, index, g) */
static void gather_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0], *index = c->in[1];
    if (c->needs[0]) dx[0] = cr_scatter_add(cr_zeros(x->ndim, x->shape, dtype_of(x), c->dev), params(c)->axis, index, cast_to(g, dtype_of(x)));
}

const cr_op cr_op_gather = {
    .name = "gather", .arity = 2, .params_bytes = sizeof(axis_params), .contiguous = true, .saves = CR_SAVE_IN(1),
    .infer = gather_infer, .forward = gather_forward, .grad = gather_grad, .doc = "elements of x at the given positions of an axis",
};

cr_tensor *cr_gather(const cr_tensor *x, int axis, const cr_tensor *index) {
    if (!cr_given("gather", "x", x) || !cr_given("gather", "index", index)) return NULL;
    int a = cr_axis("gather", axis, x->ndim);
    if (a < 0 || check_index("gather", x, a, index) != CR_OK) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {cut(x, index, a), index};
    return cr_leave(cr_apply(&cr_op_gather, 2, in, &(axis_params){a}));
}

/* ---- scatter_add: y = x, then y[index[i][j]][j] += src[i][j] for axis 0 */
static cr_status scatter_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *index = c->in[1], *src = c->in[2];
    *out = cr_meta_of(x);
    cr_status status = check_index("scatter_add", x, params(c)->axis, index);
    if (status == CR_OK) status = cr_want_same_dtype("scatter_add", x, src);
    if (status == CR_OK && x->dtype == CR_BOOL) status = cr_fail(CR_BAD_TYPE, "scatter_add", "adds numbers, not bool");
    if (status == CR_OK && (src->ndim != index->ndim || memcmp(src->shape, index->shape, sizeof(int64_t) * src->ndim)))
        status = cr_fail(CR_BAD_VALUE, "scatter_add", "the source %s does not cover the index %s", cr_shape_text(src->ndim, src->shape).s,
                         cr_shape_text(index->ndim, index->shape).s);
    return status;
}

/* The kernel wants y and index of one size but for the axis: a smaller index works on a copy of the corner that it covers. */
static cr_status scatter_into(cr_tensor *y, const cr_call *c) {
    const cr_tensor *index = c->in[1], *src = c->in[2];
    const int axis = params(c)->axis;
    cr_meta m = cr_meta_of(y);
    bool whole = true;
    m.strided = true;
    m.offset = y->offset;
    memcpy(m.strides, y->strides, sizeof m.strides);
    for (int i = 0; i < y->ndim; i++)
        if (i != axis && index->shape[i] != y->shape[i]) { m.shape[i] = index->shape[i]; whole = false; }
    extent e = extent_of(y, index, axis);
    if (whole) return c->dev->kernels->scatter_add(y, index, src, e.M, e.R, e.N, e.K);
    cr_tensor *corner = cr_tensor_alias(y, &m), *dense = corner ? cr_fused(corner) : NULL;
    cr_status status = dense ? cr_copy_elements(dense, corner) : cr_error_status();
    if (status == CR_OK) status = c->dev->kernels->scatter_add(dense, index, src, e.M, e.R, e.N, e.K);
    if (status == CR_OK) status = cr_copy_elements(corner, dense);
    cr_release(corner); cr_release(dense);
    return status;
}

static cr_status scatter_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_status status = cr_copy_elements(out, c->in[0]);
    return status == CR_OK && c->in[1]->numel ? scatter_into(out, c) : status;
}

/* y = scatter_add(x, index, src):  dx = g,  dsrc = gather(g, index) */
static void scatter_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->needs[0]) dx[0] = same(g);
    if (c->needs[2]) dx[2] = cr_gather(g, params(c)->axis, c->in[1]);
}

static uint32_t scatter_saves(const cr_call *c) { return c->needs[2] ? CR_SAVE_IN(1) : 0; }

const cr_op cr_op_scatter_add = {
    .name = "scatter_add", .arity = 3, .params_bytes = sizeof(axis_params), .contiguous = true, .saves_for = scatter_saves,
    .infer = scatter_infer, .forward = scatter_forward, .grad = scatter_grad, .doc = "x with the source added at the given positions of an axis",
};

cr_tensor *cr_scatter_add(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    if (!cr_given("scatter_add", "x", x) || !cr_given("scatter_add", "index", index) || !cr_given("scatter_add", "src", src)) return NULL;
    int a = cr_axis("scatter_add", axis, x->ndim);
    if (a < 0) return NULL;
    bool covers = src->ndim == index->ndim;
    for (int i = 0; covers && i < src->ndim; i++) covers = src->shape[i] >= index->shape[i];
    cr_scope_begin();
    const cr_tensor *in[] = {x, index, covers ? cut(src, index, -1) : src};
    return cr_leave(cr_apply(&cr_op_scatter_add, 3, in, &(axis_params){a}));
}
