/* views.c - the same storage under other sizes and strides: no op here has a forward pass, infer places the view.
 * view (reshape, flatten, squeeze, unsqueeze), permute (transpose), slice (split), select, expand, alias; and unslice, the one
 * with a kernel: zeros around a cotangent, the gradient of slice and select. */
#include "compose.h"

#include <string.h>

/* A view of x that still has x's sizes and strides. */
static cr_meta seen_as(const cr_tensor *x) {
    cr_meta m = cr_meta_of(x);
    m.strided = true;
    m.offset = x->offset;
    memcpy(m.strides, x->strides, sizeof m.strides);
    return m;
}

static void drop_axis(cr_meta *m, int axis) {
    for (int i = axis; i < m->ndim - 1; i++) { m->shape[i] = m->shape[i + 1]; m->strides[i] = m->strides[i + 1]; }
    m->ndim--;
}

/* ---- alias: y = x, a new handle */
static cr_status alias_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = seen_as(c->in[0]);
    return CR_OK;
}

/* y = x:  dx = g */
static void alias_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { (void)c; dx[0] = same(g); }

const cr_op cr_op_alias = {
    .name = "alias", .arity = 1, .view = true, .infer = alias_infer, .grad = alias_grad, .doc = "x itself under a new handle",
    .tests = {{.in = {{2, {3, 5}}}}, {.in = {{0, {0}}}}},
};

cr_tensor *cr_alias(const cr_tensor *x) { return cr_apply(&cr_op_alias, 1, &x, NULL); }

/* ---- view: the same elements in the same order */
typedef struct view_params { int ndim; int64_t shape[CR_MAX_DIMS]; } view_params;

static cr_status view_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const view_params *p = c->params;
    *out = (cr_meta){.dtype = dtype_of(x), .ndim = p->ndim, .offset = x->offset, .strided = true};
    memcpy(out->shape, p->shape, sizeof p->shape);
    if (cr_view_strides(x, p->ndim, p->shape, out->strides)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, "view", "cannot view %s with strides %s as %s without a copy: cr_reshape makes one", cr_shape_text(x->ndim, x->shape).s,
                   cr_shape_text(x->ndim, x->strides).s, cr_shape_text(p->ndim, p->shape).s);
}

/* y = view(x):  dx = reshape(g) */
static void view_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { dx[0] = reshaped_like(g, c->in[0]); }

const cr_op cr_op_view = {
    .name = "view", .arity = 1, .params_bytes = sizeof(view_params), .view = true, .infer = view_infer, .grad = view_grad,
    .doc = "the same elements in the same order under another shape",
    .tests = {{.in = {{2, {3, 10}}}, .params = &(const view_params){3, {5, 3, 2}}}, {.in = {{3, {2, 0, 3}}}, .params = &(const view_params){1, {0}}},
              {.in = {{1, {1}}}, .params = &(const view_params){0, {0}}}},
};

/* The shape asked for, its -1 worked out. */
static cr_status resolve(const char *op, const cr_tensor *x, int n, const int64_t *shape, view_params *p) {
    int64_t known = 1;
    int open = -1;
    if (n < 0 || n > CR_MAX_DIMS) return cr_fail(CR_BAD_VALUE, op, "%d axes: 0 to %d are supported", n, CR_MAX_DIMS);
    if (n && !shape) return cr_fail_null(op, "shape");
    p->ndim = n;
    bool overflow = false, zero = false;
    for (int i = 0; i < n; i++) {
        p->shape[i] = shape[i];
        if (shape[i] < -1) return cr_fail(CR_BAD_VALUE, op, "negative size in shape %s", cr_shape_text(n, shape).s);
        if (shape[i] == -1 && open >= 0) return cr_fail(CR_BAD_VALUE, op, "only one size may be -1: %s", cr_shape_text(n, shape).s);
        if (shape[i] == -1) open = i;
        else if (shape[i] == 0) zero = true;
        else overflow |= __builtin_mul_overflow(known, shape[i], &known);
    }
    if (zero) known = 0;
    else if (overflow) known = -1;
    if (open >= 0 && known == 0 && x->numel == 0)
        return cr_fail(CR_BAD_VALUE, op, "cannot work out -1 in %s for 0 elements: any size would do", cr_shape_text(n, shape).s);
    if (open < 0 ? known != x->numel : known <= 0 || x->numel % known)
        return cr_fail(CR_BAD_VALUE, op, "cannot view %lld elements as %s", (long long)x->numel, cr_shape_text(n, shape).s);
    if (open >= 0) p->shape[open] = x->numel / known;
    return CR_OK;
}

static cr_tensor *view(const cr_tensor *x, const view_params *p) { return cr_apply(&cr_op_view, 1, &x, p); }

static cr_tensor *reshape(const char *op, const cr_tensor *x, int n, const int64_t *shape) {
    view_params p = {0};
    int64_t strides[CR_MAX_DIMS];
    if (!cr_given(op, "x", x) || resolve(op, x, n, shape, &p) != CR_OK) return NULL;
    if (cr_view_strides(x, p.ndim, p.shape, strides)) return view(x, &p);
    cr_scope_begin();
    cr_tensor *dense = cr_clone(x);
    return cr_leave(dense ? view(dense, &p) : NULL);
}

cr_tensor *cr_reshape(const cr_tensor *x, int n, const int64_t *shape) { return reshape("reshape", x, n, shape); }

cr_tensor *cr_view(const cr_tensor *x, int n, const int64_t *shape) {
    view_params p = {0};
    return cr_given("view", "x", x) && resolve("view", x, n, shape, &p) == CR_OK ? view(x, &p) : NULL;
}

cr_tensor *cr_flatten(const cr_tensor *x, int first, int last) {
    if (!cr_given("flatten", "x", x)) return NULL;
    int a = cr_axis("flatten", first, x->ndim), b = cr_axis("flatten", last, x->ndim), n = 0;
    if (a < 0 || b < 0) return NULL;
    if (a > b) return cr_fail(CR_BAD_VALUE, "flatten", "the first axis %d comes after the last, %d", first, last), NULL;
    int64_t shape[CR_MAX_DIMS], merged = 1;
    for (int i = 0; i < a; i++) shape[n++] = x->shape[i];
    for (int i = a; i <= b && i < x->ndim; i++) merged *= x->shape[i];
    shape[n++] = merged;
    for (int i = b + 1; i < x->ndim; i++) shape[n++] = x->shape[i];
    return reshape("flatten", x, n, shape);
}

cr_tensor *cr_squeeze(const cr_tensor *x, int n, const int64_t *axes) {
    uint32_t mask;
    view_params p = {0};
    if (!cr_given("squeeze", "x", x) || cr_axes_mask("squeeze", n, axes, x->ndim, &mask) != CR_OK) return NULL;
    for (int i = 0; i < x->ndim; i++)
        if (!(mask >> i & 1) || x->shape[i] != 1) p.shape[p.ndim++] = x->shape[i];
    return view(x, &p);
}

cr_tensor *cr_unsqueeze(const cr_tensor *x, int axis) {
    view_params p = {0};
    if (!cr_given("unsqueeze", "x", x)) return NULL;
    if (x->ndim == CR_MAX_DIMS) return cr_fail(CR_BAD_VALUE, "unsqueeze", "%d axes are the most there can be", CR_MAX_DIMS), NULL;
    int a = cr_axis("unsqueeze", axis, x->ndim + 1);
    if (a < 0) return NULL;
    p.ndim = x->ndim + 1;
    p.shape[a] = 1;
    for (int i = 0; i < x->ndim; i++) p.shape[i + (i >= a)] = x->shape[i];
    return view(x, &p);
}

/* ---- permute: y's axis i is x's axis[i] */
typedef struct permute_params { int n; int8_t axis[CR_MAX_DIMS]; } permute_params;

static cr_status permute_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const permute_params *p = c->params;
    *out = seen_as(x);
    for (int i = 0; i < p->n; i++) {
        out->shape[i] = x->shape[p->axis[i]];
        out->strides[i] = x->strides[p->axis[i]];
    }
    return CR_OK;
}

/* y = permute(x, axes):  dx = permute(g, inverse of axes) */
static void permute_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const permute_params *p = c->params;
    permute_params inverse = {.n = p->n};
    for (int i = 0; i < p->n; i++) inverse.axis[p->axis[i]] = (int8_t)i;
    dx[0] = cr_apply(&cr_op_permute, 1, &g, &inverse);
}

const cr_op cr_op_permute = {
    .name = "permute", .arity = 1, .params_bytes = sizeof(permute_params), .view = true, .infer = permute_infer, .grad = permute_grad,
    .doc = "the axes in another order",
    .tests = {{.in = {{3, {2, 3, 5}}}, .params = &(const permute_params){3, {2, 0, 1}}}, {.in = {{2, {0, 7}}}, .params = &(const permute_params){2, {1, 0}}}},
};

cr_tensor *cr_permute(const cr_tensor *x, int n, const int64_t *axes) {
    uint32_t mask;
    permute_params p = {.n = n};
    if (!cr_given("permute", "x", x)) return NULL;
    if (n != x->ndim) return cr_fail(CR_BAD_VALUE, "permute", "%d axes given for a tensor of shape %s", n, cr_shape_text(x->ndim, x->shape).s), NULL;
    if (cr_axes_mask("permute", n, axes, n, &mask) != CR_OK) return NULL;
    for (int i = 0; i < n; i++) p.axis[i] = (int8_t)(axes[i] < 0 ? axes[i] + n : axes[i]);
    return cr_apply(&cr_op_permute, 1, &x, &p);
}

cr_tensor *cr_transpose(const cr_tensor *x, int a, int b) {
    if (!cr_given("transpose", "x", x)) return NULL;
    int i = cr_axis("transpose", a, x->ndim), k = cr_axis("transpose", b, x->ndim);
    if (i < 0 || k < 0) return NULL;
    permute_params p = {.n = x->ndim, .axis = {0, 1, 2, 3, 4, 5, 6, 7}};
    p.axis[i] = (int8_t)k;
    p.axis[k] = (int8_t)i;
    return cr_apply(&cr_op_permute, 1, &x, &p);
}

/* ---- slice: x[start : start + (count - 1) step + 1 : step] along one axis */
typedef struct slice_params { int axis; int64_t start, count, step; } slice_params;

static cr_status slice_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const slice_params *p = c->params;
    *out = seen_as(c->in[0]);
    out->offset += p->count ? p->start * out->strides[p->axis] : 0;
    out->shape[p->axis] = p->count;
    if (p->count > 1) out->strides[p->axis] *= p->step;     /* of one element the stride does not matter, and could overflow */
    return CR_OK;
}

/* y is a part of x:  the same part of what has arrived for x += g */
static cr_tensor *add_to_part(const cr_call *c, const cr_tensor *g) {
    const cr_tensor *sum = c->arrived[0], *part = cr_apply(c->op, 1, &sum, c->params);
    return part && cr_add_((cr_tensor *)(uintptr_t)part, g) ? c->arrived[0] : NULL;
}

/* y = slice(x):  dx = unslice(g) */
static void slice_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const slice_params *p = c->params;
    dx[0] = c->arrived[0] ? add_to_part(c, g) : cr_unslice(g, p->axis, p->start, p->step, c->in[0]->shape[p->axis]);
}

const cr_op cr_op_slice = {
    .name = "slice", .arity = 1, .params_bytes = sizeof(slice_params), .view = true, .infer = slice_infer, .grad = slice_grad,
    .doc = "every step-th element of a range along one axis",
    .tests = {{.in = {{2, {3, 11}}}, .params = &(const slice_params){1, 2, 4, 2}}, {.in = {{3, {5, 2, 3}}}, .params = &(const slice_params){0, 1, 3, 1}},
              {.in = {{1, {7}}}, .params = &(const slice_params){0, 3, 0, 1}}},
};

static int64_t clamped(int64_t i, int64_t size) {
    if (i < 0) i += size;
    return i < 0 ? 0 : i > size ? size : i;
}

cr_tensor *cr_slice(const cr_tensor *x, int axis, int64_t start, int64_t stop, int64_t step) {
    if (!cr_given("slice", "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, "slice", "a tensor without axes cannot be sliced"), NULL;
    int a = cr_axis("slice", axis, x->ndim);
    if (a < 0) return NULL;
    if (step <= 0) return cr_fail(CR_BAD_VALUE, "slice", "the step must be positive: %lld", (long long)step), NULL;
    slice_params p = {.axis = a, .start = clamped(start, x->shape[a]), .step = step};
    stop = clamped(stop, x->shape[a]);
    if (stop > p.start) p.count = 1 + (stop - p.start - 1) / step;
    return cr_apply(&cr_op_slice, 1, &x, &p);
}

cr_status cr_split(const cr_tensor *x, int64_t size, int axis, int n, cr_tensor **out) {
    if (!cr_given("split", "x", x)) return cr_error_status();
    if (!out) return cr_fail_null("split", "out");
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, "split", "a tensor without axes cannot be split");
    int a = cr_axis("split", axis, x->ndim);
    if (a < 0) return cr_error_status();
    if (size < 1) return cr_fail(CR_BAD_VALUE, "split", "the size of a piece must be positive: %lld", (long long)size);
    int64_t pieces = x->shape[a] ? 1 + (x->shape[a] - 1) / size : 1;
    if (n != pieces)
        return cr_fail(CR_BAD_VALUE, "split", "axis %d of %s in pieces of %lld makes %lld of them, not %d", a, cr_shape_text(x->ndim, x->shape).s,
                       (long long)size, (long long)pieces, n);
    for (int i = 0; i < n; i++) {
        int64_t start = i * size, left = x->shape[a] - start;
        out[i] = cr_slice(x, a, start, start + (left < size ? left : size), 1);
        if (out[i]) continue;
        while (i-- > 0) cr_release(out[i]);
        for (i = 0; i < n; i++) out[i] = NULL;
        return cr_error_status();
    }
    return CR_OK;
}

/* ---- select: one index of an axis, which goes */
typedef struct select_params { int axis; int64_t index; } select_params;

static cr_status select_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const select_params *p = c->params;
    *out = seen_as(c->in[0]);
    out->offset += p->index * out->strides[p->axis];
    drop_axis(out, p->axis);
    return CR_OK;
}

/* y = select(x, axis, index):  dx = unslice(g with the axis again) */
static void select_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const select_params *p = c->params;
    dx[0] = c->arrived[0] ? add_to_part(c, g) : cr_unslice(cr_unsqueeze(g, p->axis), p->axis, p->index, 1, c->in[0]->shape[p->axis]);
}

const cr_op cr_op_select = {
    .name = "select", .arity = 1, .params_bytes = sizeof(select_params), .view = true, .infer = select_infer, .grad = select_grad,
    .doc = "one position of an axis",
    .tests = {{.in = {{3, {2, 5, 3}}}, .params = &(const select_params){1, 3}}, {.in = {{1, {7}}}, .params = &(const select_params){0, 0}}},
};

cr_tensor *cr_select(const cr_tensor *x, int axis, int64_t index) {
    if (!cr_given("select", "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, "select", "a tensor without axes has nothing to select"), NULL;
    int a = cr_axis("select", axis, x->ndim);
    if (a < 0) return NULL;
    int64_t size = x->shape[a];
    if (index < -size || index >= size)
        return cr_fail(CR_BAD_INDEX, "select", "index %lld is out of range for axis %d of %s", (long long)index, a, cr_shape_text(x->ndim, x->shape).s), NULL;
    return cr_apply(&cr_op_select, 1, &x, &(select_params){a, index < 0 ? index + size : index});
}

/* ---- expand: axes of size 1 repeat, by stride 0; new axes come first */
static cr_status expand_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const view_params *p = c->params;
    int extra = p->ndim - x->ndim;
    *out = (cr_meta){.dtype = dtype_of(x), .ndim = p->ndim, .offset = x->offset, .strided = true};
    for (int i = 0; i < p->ndim; i++) {
        int64_t size = i < extra ? 1 : x->shape[i - extra];
        out->shape[i] = p->shape[i];
        if (size == p->shape[i] && i >= extra) out->strides[i] = x->strides[i - extra];
        else if (size != 1)
            return cr_fail(CR_BAD_VALUE, "expand", "cannot expand %s to %s: axis %d has size %lld", cr_shape_text(x->ndim, x->shape).s,
                           cr_shape_text(p->ndim, p->shape).s, i, (long long)size);
    }
    return CR_OK;
}

/* y = x repeated:  dx = g, which the walk sums to x's shape */
static void expand_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { (void)c; dx[0] = same(g); }

const cr_op cr_op_expand = {
    .name = "expand", .arity = 1, .params_bytes = sizeof(view_params), .view = true, .infer = expand_infer, .grad = expand_grad,
    .doc = "axes of size 1 repeated, without a copy",
    .tests = {{.in = {{2, {3, 1}}}, .params = &(const view_params){3, {2, 3, 5}}}, {.in = {{0, {0}}}, .params = &(const view_params){1, {7}}},
              {.in = {{2, {1, 3}}}, .params = &(const view_params){2, {0, 3}}}},
};

cr_tensor *cr_expand(const cr_tensor *x, int n, const int64_t *shape) {
    view_params p = {.ndim = n};
    if (!cr_given("expand", "x", x)) return NULL;
    if (n < x->ndim || n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "expand", "%d sizes for a tensor of shape %s: %d to %d are possible", n, cr_shape_text(x->ndim, x->shape).s, x->ndim, CR_MAX_DIMS), NULL;
    if (n && !shape) return cr_fail_null("expand", "shape"), NULL;
    for (int i = 0; i < n; i++) {
        bool keeps = shape[i] == -1 && i >= n - x->ndim;
        if (shape[i] < 0 && !keeps)
            return cr_fail(CR_BAD_VALUE, "expand", "negative size in shape %s: -1 keeps the size of an axis that is there", cr_shape_text(n, shape).s), NULL;
        p.shape[i] = keeps ? x->shape[i - (n - x->ndim)] : shape[i];
    }
    return cr_shape_check("expand", n, p.shape, dtype_of(x), NULL) == CR_OK ? cr_apply(&cr_op_expand, 1, &x, &p) : NULL;
}

/* ---- unslice: y = zeros with y[start + i step] = g[i] along one axis */
typedef struct unslice_params { int axis; int64_t start, step, size; } unslice_params;

static cr_status unslice_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const unslice_params *p = c->params;
    *out = cr_meta_of(c->in[0]);
    out->shape[p->axis] = p->size;
    return CR_OK;
}

static cr_status unslice_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const unslice_params *p = c->params;
    const cr_tensor *g = c->in[0];
    cr_status status = CR_OK;
    if (g->numel < out->numel) status = cr_fill_elements(out, 0);
    if (status != CR_OK || !g->numel) return status;
    slice_params part = {.axis = p->axis, .start = p->start, .count = g->shape[p->axis], .step = p->step};
    cr_call place = {.params = &part, .n = 1, .in = &(const cr_tensor *){out}};
    cr_meta m;
    slice_infer(&place, &m, NULL);
    cr_tensor *inside = cr_tensor_alias(out, &m);
    if (!inside) return cr_error_status();
    status = cr_copy_elements(inside, g);
    cr_release(inside);
    return status;
}

/* y = unslice(g):  dg = slice(its cotangent) */
static void unslice_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const unslice_params *p = c->params;
    dx[0] = cr_apply(&cr_op_slice, 1, &g, &(slice_params){p->axis, p->start, c->in[0]->shape[p->axis], p->step});
}

const cr_op cr_op_unslice = {
    .name = "unslice", .arity = 1, .params_bytes = sizeof(unslice_params), .infer = unslice_infer, .forward = unslice_forward, .grad = unslice_grad,
    .doc = "zeros around x: the gradient of a slice",
    .tests = {{.in = {{2, {3, 4}}}, .params = &(const unslice_params){1, 2, 2, 11}}, {.in = {{1, {0}}}, .params = &(const unslice_params){0, 3, 1, 7}}},
};

cr_tensor *cr_unslice(const cr_tensor *g, int axis, int64_t start, int64_t step, int64_t size) {
    return cr_apply(&cr_op_unslice, 1, &g, &(unslice_params){axis, start, step, size});
}
