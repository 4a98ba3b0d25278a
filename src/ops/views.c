/* views.c - the same storage under other sizes and strides: no op here has a forward pass, infer
 * places the view. view (reshape, flatten, unflatten, squeeze, unsqueeze), permute (transpose,
 * movedim), expand (meshgrid), alias.  Views of a part of a tensor: strided_view.c. */
#include "compose.h"
#include "transform.h"

#include <string.h>

/* A view of x that still has x's sizes and strides. */
static cr_meta seen_as(const cr_tensor *x) {
    cr_meta m = cr_meta_of(x);
    m.strided = true;
    m.offset = x->offset;
    memcpy(m.strides, x->strides, sizeof m.strides);
    return m;
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
    .name = "alias", .arity = 1, .view = true, .infer = alias_infer, .grad = alias_grad,
    .batch = cr_batch_same,
    .tangent = cr_tangent_linear,
};

cr_tensor *cr_alias(const cr_tensor *x) { return cr_apply(&cr_op_alias, 1, &x, NULL); }

/* ---- view: the same elements in the same order */
typedef struct view_params { int ndim; int64_t shape[CR_MAX_DIMS]; } view_params;

static cr_status view_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const view_params *p = c->params;
    *out = (cr_meta){.dtype = x->dtype, .ndim = p->ndim, .offset = x->offset, .strided = true};
    memcpy(out->shape, p->shape, sizeof p->shape);
    if (cr_view_strides(x, p->ndim, p->shape, out->strides)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, "view", "cannot view %s with strides %s as %s without a copy: cr_reshape makes one",
                   cr_shape_text(x->ndim, x->shape).s, cr_shape_text(x->ndim, x->strides).s,
                   cr_shape_text(p->ndim, p->shape).s);
}

/* y = view(x):  dx = reshape(g) */
static void view_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { dx[0] = reshaped_like(g, c->in[0]); }

static view_params behind_batch(const cr_batched *b) {
    const view_params *p = b->call->params;
    view_params q = {.ndim = p->ndim + 1, .shape = {b->size}};
    memcpy(q.shape + 1, p->shape, sizeof *p->shape * (size_t)cr_imin(p->ndim, CR_MAX_DIMS - 1));
    return q;
}

static cr_status check_axes(const cr_batched *b, int n) {
    if (n <= CR_MAX_DIMS) return CR_OK;
    return cr_fail(CR_BAD_VALUE, b->call->op->name, "%d axes with that of vmap: %d are the most supported", n,
                   CR_MAX_DIMS);
}

static cr_tensor *view_batch(const cr_batched *b) {
    const view_params p = behind_batch(b);
    return check_axes(b, p.ndim) == CR_OK ? cr_apply(&cr_op_view, 1, b->in, &p) : NULL;
}

const cr_op cr_op_view = {
    .name = "view",
    .arity = 1,
    .params_bytes = sizeof(view_params),
    .view = true,
    .infer = view_infer,
    .grad = view_grad,
    .batch = view_batch,
    .tangent = cr_tangent_linear,
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
        if (shape[i] == -1 && open >= 0)
            return cr_fail(CR_BAD_VALUE, op, "only one size may be -1: %s", cr_shape_text(n, shape).s);
        if (shape[i] == -1) open = i;
        else if (shape[i] == 0) zero = true;
        else overflow |= __builtin_mul_overflow(known, shape[i], &known);
    }
    if (zero) known = 0;
    else if (overflow) known = -1;
    if (open >= 0 && known == 0 && x->numel == 0)
        return cr_fail(CR_BAD_VALUE, op, "cannot work out -1 in %s for 0 elements: any size would do",
                       cr_shape_text(n, shape).s);
    if (open < 0 ? known != x->numel : known <= 0 || x->numel % known)
        return cr_fail(CR_BAD_VALUE, op, "cannot view %lld elements as %s", (long long)x->numel,
                       cr_shape_text(n, shape).s);
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
    if (x->ndim == CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "unsqueeze", "%d axes are the most supported", CR_MAX_DIMS), NULL;
    int a = cr_axis("unsqueeze", axis, x->ndim + 1);
    if (a < 0) return NULL;
    p.ndim = x->ndim + 1;
    p.shape[a] = 1;
    for (int i = 0; i < x->ndim; i++) p.shape[i + (i >= a)] = x->shape[i];
    return view(x, &p);
}

cr_tensor *cr_unflatten(const cr_tensor *x, int axis, int n, const int64_t *sizes) {
    if (!cr_given("unflatten", "x", x)) return NULL;
    int a = cr_axis("unflatten", axis, x->ndim);
    if (a < 0) return NULL;
    if (!x->ndim || n < 1 || x->ndim - 1 + n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "unflatten", "an axis of %s as %d: 1 to %d axes can result",
                       cr_shape_text(x->ndim, x->shape).s, n, CR_MAX_DIMS),
               NULL;
    if (!sizes) return cr_fail_null("unflatten", "sizes"), NULL;
    int64_t shape[CR_MAX_DIMS], known = 1, size = x->shape[a];
    int open = -1, opens = 0, k = 0;
    bool fits = true;
    for (int i = 0; i < a; i++) shape[k++] = x->shape[i];
    for (int i = 0; i < n; i++, k++) {
        shape[k] = sizes[i];
        if (sizes[i] == -1) open = k, opens++;
        else fits &= sizes[i] >= 0 && !__builtin_mul_overflow(known, sizes[i], &known);
    }
    for (int i = a + 1; i < x->ndim; i++) shape[k++] = x->shape[i];
    if (!fits || opens > 1 || (opens ? known == 0 || size % known : known != size))
        return cr_fail(CR_BAD_VALUE, "unflatten", "the sizes %s do not multiply to %lld, that of axis %d",
                       cr_shape_text(n, sizes).s, (long long)size, a),
               NULL;
    if (opens) shape[open] = size / known;
    return reshape("unflatten", x, k, shape);
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

static cr_tensor *permute_batch(const cr_batched *b) {
    const permute_params *p = b->call->params;
    permute_params q = {.n = p->n + 1};
    for (int i = 0; i < p->n; i++) q.axis[i + 1] = (int8_t)(p->axis[i] + 1);
    return cr_apply(&cr_op_permute, 1, b->in, &q);
}

const cr_op cr_op_permute = {
    .name = "permute",
    .arity = 1,
    .params_bytes = sizeof(permute_params),
    .view = true,
    .infer = permute_infer,
    .grad = permute_grad,
    .batch = permute_batch,
    .tangent = cr_tangent_linear,
};

cr_tensor *cr_permute(const cr_tensor *x, int n, const int64_t *axes) {
    uint32_t mask;
    permute_params p = {.n = n};
    if (!cr_given("permute", "x", x)) return NULL;
    if (n != x->ndim)
        return cr_fail(CR_BAD_VALUE, "permute", "%d axes given for a tensor of shape %s", n,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
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

cr_tensor *cr_movedim(const cr_tensor *x, int n, const int64_t *from, const int64_t *to) {
    uint32_t moved, taken;
    permute_params p = {0};
    if (!cr_given("movedim", "x", x)) return NULL;
    if (!n) return cr_alias(x);
    for (int i = 0; from && to && i < n; i++)
        if (cr_axis("movedim", from[i], x->ndim) < 0 || cr_axis("movedim", to[i], x->ndim) < 0) return NULL;
    if (cr_axes_mask("movedim", n, from, x->ndim, &moved) != CR_OK ||
        cr_axes_mask("movedim", n, to, x->ndim, &taken) != CR_OK)
        return NULL;
    p.n = x->ndim;
    for (int i = 0; i < n && x->ndim; i++)
        p.axis[to[i] < 0 ? to[i] + p.n : to[i]] = (int8_t)(from[i] < 0 ? from[i] + p.n : from[i]);
    for (int i = 0, next = 0; i < p.n; i++) {
        if (taken >> i & 1) continue;
        while (moved >> next & 1) next++;
        p.axis[i] = (int8_t)next++;
    }
    return cr_apply(&cr_op_permute, 1, &x, &p);
}

/* ---- expand: axes of size 1 repeat, by stride 0; new axes come first */
static cr_status expand_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const view_params *p = c->params;
    int extra = p->ndim - x->ndim;
    *out = (cr_meta){.dtype = x->dtype, .ndim = p->ndim, .offset = x->offset, .strided = true};
    for (int i = 0; i < p->ndim; i++) {
        int64_t size = i < extra ? 1 : x->shape[i - extra];
        out->shape[i] = p->shape[i];
        if (size == p->shape[i] && i >= extra) out->strides[i] = x->strides[i - extra];
        else if (size != 1)
            return cr_fail(CR_BAD_VALUE, "expand", "cannot expand %s to %s: axis %d has size %lld",
                           cr_shape_text(x->ndim, x->shape).s, cr_shape_text(p->ndim, p->shape).s, i, (long long)size);
    }
    return CR_OK;
}

/* y = x repeated:  dx = g, which the walk sums to x's shape */
static void expand_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { (void)c; dx[0] = same(g); }

static cr_tensor *expand_batch(const cr_batched *b) {
    const view_params p = behind_batch(b);
    if (check_axes(b, p.ndim) != CR_OK) return NULL;
    const cr_tensor *x = cr_batch_aligned(b, 0, p.ndim - 1);
    return x ? cr_apply(&cr_op_expand, 1, &x, &p) : NULL;
}

const cr_op cr_op_expand = {
    .name = "expand",
    .arity = 1,
    .params_bytes = sizeof(view_params),
    .view = true,
    .infer = expand_infer,
    .grad = expand_grad,
    .batch = expand_batch,
    .tangent = cr_tangent_linear,
};

cr_tensor *cr_expand(const cr_tensor *x, int n, const int64_t *shape) {
    view_params p = {.ndim = n};
    if (!cr_given("expand", "x", x)) return NULL;
    if (n < x->ndim || n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "expand", "%d sizes for a tensor of shape %s: %d to %d are possible", n,
                       cr_shape_text(x->ndim, x->shape).s, x->ndim, CR_MAX_DIMS),
               NULL;
    if (n && !shape) return cr_fail_null("expand", "shape"), NULL;
    for (int i = 0; i < n; i++) {
        bool keeps = shape[i] == -1 && i >= n - x->ndim;
        if (shape[i] < 0 && !keeps)
            return cr_fail(CR_BAD_VALUE, "expand",
                           "negative size in shape %s: -1 keeps the size of an axis that is there",
                           cr_shape_text(n, shape).s),
                   NULL;
        p.shape[i] = keeps ? x->shape[i - (n - x->ndim)] : shape[i];
    }
    return cr_shape_check("expand", n, p.shape, x->dtype, NULL) == CR_OK ? cr_apply(&cr_op_expand, 1, &x, &p) : NULL;
}

/* ---- meshgrid: vectors, each along an axis of its own and expanded along the others */
cr_status cr_meshgrid(int n, const cr_tensor *const *in, bool xy, cr_tensor **out) {
    int64_t shape[CR_MAX_DIMS], line[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    int made = 0;
    if (n < 1 || n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "meshgrid", "%d tensors: 1 to %d are supported", n, CR_MAX_DIMS);
    if (!in || !out) return cr_fail_null("meshgrid", "an array");
    for (int i = 0; i < n; i++) {
        if (!cr_given("meshgrid", "a tensor", in[i])) return cr_error_status();
        if (in[i]->ndim > 1)
            return cr_fail(CR_BAD_VALUE, "meshgrid", "tensor %d has the shape %s: vectors are expected", i,
                           cr_shape_text(in[i]->ndim, in[i]->shape).s);
        if (in[i]->dtype != in[0]->dtype || in[i]->dev != in[0]->dev)
            return cr_fail(
                CR_BAD_VALUE, "meshgrid", "tensors of one dtype on one device are expected: %s on %s, %s on %s",
                cr_dtype_name(in[0]->dtype), in[0]->dev->name, cr_dtype_name(in[i]->dtype), in[i]->dev->name);
        shape[xy && i < 2 && n > 1 ? 1 - i : i] = in[i]->numel;
    }
    for (; made < n; made++) {
        const int axis = xy && made < 2 && n > 1 ? 1 - made : made;
        cr_scope_begin();
        line[axis] = shape[axis];
        cr_tensor *apart = cr_reshape(in[made], n, line);
        line[axis] = 1;
        if (!(out[made] = cr_leave(apart ? cr_expand(apart, n, shape) : NULL))) break;
    }
    return cr_all_or_none(made, n, out);
}
