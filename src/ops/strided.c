/* strided.c - parts of a tensor that strides over its elements in order can tell: strided (a view: diagonal, unfold), unstrided (zeros around
 * a cotangent, its gradient) and inset (a copy of x with the part replaced), with which grad/rewrite.c writes down in-place work on views. */
#include "compose.h"

#include <string.h>

/* ---- where a part lies */

cr_meta cr_in_memory_order(const cr_meta *m, int64_t *axes, uint32_t *turned) {
    cr_meta y = *m;
    *turned = 0;
    for (int i = 0; i < m->ndim; i++) {
        int64_t stride = m->strides[i], step = stride < 0 ? -stride : stride;
        if (stride < 0) y.offset += (m->shape[i] - 1) * stride;
        int k = i;
        for (; k > 0 && y.strides[k - 1] < step; k--) {
            y.strides[k] = y.strides[k - 1];
            y.shape[k] = y.shape[k - 1];
            axes[k] = axes[k - 1];
        }
        y.strides[k] = step;
        y.shape[k] = m->shape[i];
        axes[k] = i;
    }
    for (int k = 0; k < m->ndim; k++) *turned |= (uint32_t)(m->strides[axes[k]] < 0) << k;
    return y;
}

/* Steps along axes of strides `from` as a distance, taken as the same steps along axes of strides `to`; from is that of a row-major order. */
static bool translate(int ndim, const int64_t *shape, const int64_t *from, const int64_t *to, int64_t distance, int64_t *result) {
    int64_t left = distance < 0 ? -distance : distance, sum = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1 || !from[i]) continue;
        sum += left / from[i] * to[i];
        left %= from[i];
    }
    *result = distance < 0 ? -sum : sum;
    return left == 0;
}

bool cr_part_of(const cr_meta *whole, const cr_tensor *t, cr_strided_params *p) {
    int64_t order[CR_MAX_DIMS];
    cr_strides_contiguous(whole->ndim, whole->shape, order);
    p->ndim = t->ndim;
    p->offset = 0;
    bool there = !t->numel || translate(whole->ndim, whole->shape, whole->strides, order, t->offset - whole->offset, &p->offset);
    for (int i = 0; i < t->ndim; i++) {
        p->shape[i] = t->shape[i];
        p->strides[i] = 0;
        if (t->numel && t->shape[i] > 1) there &= translate(whole->ndim, whole->shape, whole->strides, order, t->strides[i], &p->strides[i]);
    }
    return there;
}

/* The part p of x, which is in order, outside any graph. */
static cr_tensor *placed(const cr_tensor *x, const cr_strided_params *p) {
    cr_meta m = {.dtype = x->dtype, .ndim = p->ndim, .offset = x->offset + p->offset, .strided = true};
    memcpy(m.shape, p->shape, sizeof m.shape);
    memcpy(m.strides, p->strides, sizeof m.strides);
    return cr_tensor_alias(x, &m);
}

/* ---- strided: y is the part p of x */
static cr_status strided_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const cr_strided_params *p = c->params;
    int64_t order[CR_MAX_DIMS], offset = 0;
    *out = (cr_meta){.dtype = x->dtype, .ndim = p->ndim, .strided = true};
    memcpy(out->shape, p->shape, sizeof p->shape);
    cr_strides_contiguous(x->ndim, x->shape, order);
    for (int i = 0; i < p->ndim && x->numel; i++) translate(x->ndim, x->shape, order, x->strides, p->strides[i], &out->strides[i]);
    if (x->numel) translate(x->ndim, x->shape, order, x->strides, p->offset, &offset);
    out->offset = x->offset + offset;
    return CR_OK;
}

static cr_tensor *strided(const cr_tensor *x, const cr_strided_params *p) {
    const cr_tensor *dense = x ? cr_contiguous(x) : NULL;
    return dense ? cr_apply(&cr_op_strided, 1, &dense, p) : NULL;
}

/* part += g, where elements of the part share memory position by position of an axis of it. */
static cr_status add_part(cr_tensor *part, const cr_tensor *g) {
    int axis = -1;
    bool shares = cr_shape_overlaps(part->ndim, part->shape, part->strides);
    for (int i = 0; i < part->ndim && shares; i++)         /* the shortest: fewer additions, of more at once */
        if (part->shape[i] > 1 && (axis < 0 || part->shape[i] < part->shape[axis])) axis = i;
    if (axis < 0) return cr_add_(part, g) ? CR_OK : cr_error_status();
    cr_status status = CR_OK;
    for (int64_t i = 0; i < part->shape[axis] && status == CR_OK; i++) {
        cr_tensor *p = cr_select(part, axis, i), *d = cr_select(g, axis, i);
        status = p && d ? add_part(p, d) : cr_error_status();
        cr_release(p); cr_release(d);
    }
    return status;
}

/* sum itself, g added to its part p */
static cr_tensor *add_to(cr_tensor *sum, const cr_strided_params *p, const cr_tensor *g) {
    cr_tensor *part = g ? placed(sum, p) : NULL;
    return part && add_part(part, g) == CR_OK ? sum : NULL;
}

/* y = strided(x):  dx = unstrided(g).  What a stride of 0 repeats is summed first. */
static void strided_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_unstrided_params q = {.part = *(const cr_strided_params *)c->params, .ndim = x->ndim};
    memcpy(q.shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
    uint32_t repeated = 0;
    for (int i = 0; i < q.part.ndim; i++) {
        if (q.part.strides[i] || q.part.shape[i] < 2) continue;
        repeated |= 1u << i;
        q.part.shape[i] = 1;
    }
    if (repeated) g = cr_sum_mask(g, repeated, true, false);
    dx[0] = c->accumulated ? add_to(c->accumulated, &q.part, g) : cr_apply(&cr_op_unstrided, 1, &g, &q);
}

const cr_op cr_op_strided = {
    .name = "strided", .arity = 1, .params_bytes = sizeof(cr_strided_params), .view = true, .infer = strided_infer, .grad = strided_grad,
    .doc = "a part of x whose elements lie at strides among its elements in order",
    .tests = {{.in = {{2, {3, 11}}}, .params = &(const cr_strided_params){2, {2, 3}, {11, 2}, 1}},
              {.in = {{2, {5, 7}}}, .params = &(const cr_strided_params){1, {5}, {8}, 0}},
              {.in = {{1, {11}}}, .params = &(const cr_strided_params){2, {4, 5}, {2, 1}, 0}},
              {.in = {{2, {2, 3}}}, .params = &(const cr_strided_params){2, {3, 5}, {-1, 0}, 5}},
              {.in = {{1, {0}}}, .params = &(const cr_strided_params){1, {0}, {1}, 0}}},
};

/* ---- unstrided: y = zeros, then the part p of it += g */
static cr_status unstrided_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_unstrided_params *p = c->params;
    *out = (cr_meta){.dtype = c->in[0]->dtype, .ndim = p->ndim};
    memcpy(out->shape, p->shape, sizeof p->shape);
    return CR_OK;
}

static cr_status unstrided_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *g = c->in[0];
    const cr_strided_params *p = &((const cr_unstrided_params *)c->params)->part;
    const bool shares = cr_shape_overlaps(p->ndim, p->shape, p->strides);
    cr_status status = shares || g->numel < out->numel ? cr_fill_elements(out, 0) : CR_OK;
    if (status != CR_OK || !g->numel) return status;
    cr_tensor *part = placed(out, p), *d = cr_tensor_alias(g, NULL);
    if (!part || !d) status = cr_error_status();
    else status = shares ? add_part(part, d) : cr_copy_elements(part, d);
    cr_release(part); cr_release(d);
    return status;
}

/* y = unstrided(g):  dg = strided(its cotangent) */
static void unstrided_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { dx[0] = strided(g, &((const cr_unstrided_params *)c->params)->part); }

const cr_op cr_op_unstrided = {
    .name = "unstrided", .arity = 1, .params_bytes = sizeof(cr_unstrided_params), .infer = unstrided_infer, .forward = unstrided_forward, .grad = unstrided_grad,
    .doc = "zeros with x added at strides: the gradient of strided",
    .tests = {{.in = {{2, {2, 3}}}, .params = &(const cr_unstrided_params){{2, {2, 3}, {11, 2}, 1}, 2, {3, 11}}},
              {.in = {{2, {4, 5}}}, .params = &(const cr_unstrided_params){{2, {4, 5}, {2, 1}, 0}, 1, {11}}},
              {.in = {{1, {0}}}, .params = &(const cr_unstrided_params){{1, {0}, {1}, 0}, 1, {7}}}},
};

/* ---- inset: y = x, but v in the part p */
static cr_status inset_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return CR_OK;
}

static cr_status inset_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_tensor *part = placed(out, c->params);
    cr_status status = part ? cr_copy_elements(out, c->in[0]) : cr_error_status();
    if (status == CR_OK) status = cr_copy_elements(part, c->in[1]);
    cr_release(part);
    return status;
}

/* g's own memory may be written: the walk alone holds it. */
static bool spent(const cr_call *c, const cr_tensor *g) {
    return !c->differentiable && atomic_load(&g->refs) == 1 && atomic_load(&g->storage->refs) == 1 && g->contiguous;
}

/* y = inset(x, v):  dv = the part of g,  dx = g with zeros in the part: g itself where it is spent, so that a loop that fills y
 * piece by piece does not cost a copy of y for each */
static void inset_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_strided_params *p = c->params;
    const bool over = c->needs[0] && spent(c, g);
    cr_tensor *part = strided(g, p);
    if (!part) { dx[c->needs[0] ? 0 : 1] = NULL; return; }
    if (c->needs[1]) dx[1] = over ? cr_clone(part) : part;
    if (over) dx[0] = dx[1] && cr_fill_elements(part, 0) == CR_OK ? same(g) : NULL;
    else if (c->needs[0]) dx[0] = cr_apply(&cr_op_inset, 2, (const cr_tensor *const[]){g, cr_zeros(p->ndim, p->shape, g->dtype, g->dev)}, p);
}

const cr_op cr_op_inset = {
    .name = "inset", .arity = 2, .params_bytes = sizeof(cr_strided_params), .infer = inset_infer, .forward = inset_forward, .grad = inset_grad,
    .doc = "x with a part of it replaced, as a write to a view does in place",
    .tests = {{.in = {{2, {3, 11}}, {2, {2, 3}}}, .params = &(const cr_strided_params){2, {2, 3}, {11, 2}, 1}},
              {.in = {{1, {7}}, {1, {3}}}, .params = &(const cr_strided_params){1, {3}, {-2}, 5}}},
};

/* ---- diagonal: two axes become one, the last: x[i, i + offset] */
cr_tensor *cr_diagonal(const cr_tensor *x, int64_t offset, int axis1, int axis2) {
    if (!cr_given("diagonal", "x", x)) return NULL;
    int a = cr_axis("diagonal", axis1, x->ndim), b = cr_axis("diagonal", axis2, x->ndim);
    if (a < 0 || b < 0) return NULL;
    if (a == b) return cr_fail(CR_BAD_VALUE, "diagonal", "the axes %d and %d are the same", axis1, axis2), NULL;
    cr_strided_params p = {.ndim = x->ndim - 1};
    int64_t order[CR_MAX_DIMS], rows = x->shape[a], columns = x->shape[b], count = 0;
    cr_strides_contiguous(x->ndim, x->shape, order);
    if (offset >= 0 && offset < columns) count = rows < columns - offset ? rows : columns - offset;
    if (offset < 0 && offset > -rows) count = rows + offset < columns ? rows + offset : columns;
    if (count) p.offset = offset >= 0 ? offset * order[b] : -offset * order[a];
    for (int i = 0, k = 0; i < x->ndim; i++) {
        if (i == a || i == b) continue;
        p.shape[k] = x->shape[i];
        p.strides[k++] = order[i];
    }
    p.shape[p.ndim - 1] = count;
    p.strides[p.ndim - 1] = x->numel ? order[a] + order[b] : 1;
    return cr_apply(&cr_op_strided, 1, &x, &p);
}

cr_tensor *cr_diag_embed(const cr_tensor *x, int64_t offset, int axis1, int axis2) {
    if (!cr_given("diag_embed", "x", x)) return NULL;
    if (x->ndim == CR_MAX_DIMS) return cr_fail(CR_BAD_VALUE, "diag_embed", "%d axes are the most there can be", CR_MAX_DIMS), NULL;
    const int n = x->ndim + 1, a = cr_axis("diag_embed", axis1, n), b = cr_axis("diag_embed", axis2, n);
    if (a < 0 || b < 0) return NULL;
    if (a == b) return cr_fail(CR_BAD_VALUE, "diag_embed", "the axes %d and %d are the same", axis1, axis2), NULL;
    int64_t shape[CR_MAX_DIMS], size;
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->ndim);
    if (offset < -INT32_MAX || offset > INT32_MAX || __builtin_add_overflow(shape[n - 2], offset < 0 ? -offset : offset, &size))
        return cr_fail(CR_BAD_VALUE, "diag_embed", "offset %lld is too far", (long long)offset), NULL;
    shape[n - 2] = shape[n - 1] = size;
    cr_scope_begin();
    cr_tensor *y = cr_zeros(n, shape, x->dtype, x->dev);
    if (!cr_copy_(cr_diagonal(y, offset, -2, -1), x)) y = NULL;
    return cr_leave(cr_movedim(y, 2, (int64_t[]){-2, -1}, (int64_t[]){a, b}));
}

cr_tensor *cr_diag(const cr_tensor *x, int64_t offset) {
    if (!cr_given("diag", "x", x)) return NULL;
    if (x->ndim != 1 && x->ndim != 2) return cr_fail(CR_BAD_VALUE, "diag", "a vector or a matrix is expected, not %s", cr_shape_text(x->ndim, x->shape).s), NULL;
    cr_scope_begin();
    return cr_leave(x->ndim == 1 ? cr_diag_embed(x, offset, 0, 1) : cr_clone(cr_diagonal(x, offset, 0, 1)));
}

/* ---- unfold: windows of an axis: it counts them, their elements are a new last axis */
cr_tensor *cr_unfold(const cr_tensor *x, int axis, int64_t size, int64_t step) {
    if (!cr_given("unfold", "x", x)) return NULL;
    int a = cr_axis("unfold", axis, x->ndim);
    if (a < 0) return NULL;
    const int64_t length = x->ndim ? x->shape[a] : 1;
    if (x->ndim == CR_MAX_DIMS) return cr_fail(CR_BAD_VALUE, "unfold", "%d axes are the most there can be", CR_MAX_DIMS), NULL;
    if (step < 1) return cr_fail(CR_BAD_VALUE, "unfold", "the step must be positive: %lld", (long long)step), NULL;
    if (size < 0 || size > length)
        return cr_fail(CR_BAD_VALUE, "unfold", "windows of %lld on axis %d of %s", (long long)size, a, cr_shape_text(x->ndim, x->shape).s), NULL;
    cr_strided_params p = {.ndim = x->ndim + 1};
    cr_strides_contiguous(x->ndim, x->shape, p.strides);
    for (int i = 0; i < x->ndim; i++) p.shape[i] = x->shape[i];
    p.shape[x->ndim] = size;
    p.strides[x->ndim] = x->ndim ? p.strides[a] : 1;
    if (x->ndim) {
        p.shape[a] = 1 + (length - size) / step;
        if (p.shape[a] > 1) p.strides[a] *= step;
    }
    return cr_apply(&cr_op_strided, 1, &x, &p);
}
