/* views.c - the same storage under other sizes and strides: no op here has a forward pass, infer places the view.
 * view (reshape, flatten, unflatten, squeeze, unsqueeze), permute (transpose, movedim), index (slice, select, narrow, split, chunk, unbind),
 * expand (meshgrid), alias; and unindex, the one with a kernel: zeros around a cotangent, the gradient of index.  More views: strided.c. */
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
    *out = (cr_meta){.dtype = x->dtype, .ndim = p->ndim, .offset = x->offset, .strided = true};
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

cr_tensor *cr_unflatten(const cr_tensor *x, int axis, int n, const int64_t *sizes) {
    if (!cr_given("unflatten", "x", x)) return NULL;
    int a = cr_axis("unflatten", axis, x->ndim);
    if (a < 0) return NULL;
    if (!x->ndim || n < 1 || x->ndim - 1 + n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "unflatten", "an axis of %s as %d: 1 to %d axes can result", cr_shape_text(x->ndim, x->shape).s, n, CR_MAX_DIMS), NULL;
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
        return cr_fail(CR_BAD_VALUE, "unflatten", "the sizes %s do not multiply to %lld, that of axis %d", cr_shape_text(n, sizes).s, (long long)size, a), NULL;
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

cr_tensor *cr_movedim(const cr_tensor *x, int n, const int64_t *from, const int64_t *to) {
    uint32_t moved, taken;
    permute_params p = {0};
    if (!cr_given("movedim", "x", x)) return NULL;
    if (!n) return cr_alias(x);
    for (int i = 0; from && to && i < n; i++) if (cr_axis("movedim", from[i], x->ndim) < 0 || cr_axis("movedim", to[i], x->ndim) < 0) return NULL;
    if (cr_axes_mask("movedim", n, from, x->ndim, &moved) != CR_OK || cr_axes_mask("movedim", n, to, x->ndim, &taken) != CR_OK) return NULL;
    p.n = x->ndim;
    for (int i = 0; i < n && x->ndim; i++) p.axis[to[i] < 0 ? to[i] + p.n : to[i]] = (int8_t)(from[i] < 0 ? from[i] + p.n : from[i]);
    for (int i = 0, next = 0; i < p.n; i++) {
        if (taken >> i & 1) continue;
        while (moved >> next & 1) next++;
        p.axis[i] = (int8_t)next++;
    }
    return cr_apply(&cr_op_permute, 1, &x, &p);
}

/* ---- index: along each axis a range, of which one position leaves no axis */
/* Where the part lies in a tensor with these strides, onto which m starts as a view. */
static void place(cr_meta *m, const cr_index_params *p) {
    m->ndim = 0;
    for (int i = 0; i < p->ndim; i++) {
        int64_t count = p->at[i].count, stride = m->strides[i];
        m->offset += count ? p->at[i].start * stride : 0;
        if (count < 0) continue;
        m->shape[m->ndim] = count;
        m->strides[m->ndim++] = count > 1 ? stride * p->at[i].step : stride;     /* of one element the stride does not matter, and could overflow */
    }
}

static cr_status index_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = seen_as(c->in[0]);
    place(out, c->params);
    return CR_OK;
}

/* y is a part of x:  the same part of the gradient accumulated for x += g */
static cr_tensor *add_to_part(const cr_call *c, const cr_tensor *g) {
    const cr_tensor *sum = c->accumulated, *part = cr_apply(c->op, 1, &sum, c->params);
    return part && cr_add_((cr_tensor *)(uintptr_t)part, g) ? c->accumulated : NULL;
}

/* ---- unindex: y = zeros with the part p of it = g */
static cr_status unindex_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_unindex_params *p = c->params;
    *out = (cr_meta){.dtype = c->in[0]->dtype, .ndim = p->part.ndim};
    memcpy(out->shape, p->shape, sizeof p->shape);
    return CR_OK;
}

static cr_status unindex_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *g = c->in[0];
    cr_status status = g->numel < out->numel ? cr_fill_elements(out, 0) : CR_OK;
    if (status != CR_OK || !g->numel) return status;
    cr_meta m = seen_as(out);
    place(&m, &((const cr_unindex_params *)c->params)->part);
    cr_tensor *inside = cr_tensor_alias(out, &m);
    if (!inside) return cr_error_status();
    status = cr_copy_elements(inside, g);
    cr_release(inside);
    return status;
}

/* y = unindex(g):  dg = index(its cotangent) */
static void unindex_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    dx[0] = cr_apply(&cr_op_index, 1, &g, &((const cr_unindex_params *)c->params)->part);
}

const cr_op cr_op_unindex = {
    .name = "unindex", .arity = 1, .params_bytes = sizeof(cr_unindex_params), .infer = unindex_infer, .forward = unindex_forward, .grad = unindex_grad,
    .doc = "zeros around x: the gradient of index",
    .tests = {{.in = {{2, {3, 4}}}, .params = &(const cr_unindex_params){{2, {{0, 3, 1}, {2, 4, 2}}}, {3, 11}}},
              {.in = {{1, {0}}}, .params = &(const cr_unindex_params){{1, {{3, 0, 1}}}, {7}}},
              {.in = {{1, {2}}}, .params = &(const cr_unindex_params){{3, {{1, 2, 3}, {4, -1, 1}, {0, -1, 1}}}, {5, 7, 3}}}},
};

/* y = index(x):  dx = unindex(g) */
static void index_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    cr_unindex_params p = {.part = *(const cr_index_params *)c->params};
    memcpy(p.shape, c->in[0]->shape, sizeof(int64_t) * (size_t)c->in[0]->ndim);
    dx[0] = c->accumulated ? add_to_part(c, g) : cr_apply(&cr_op_unindex, 1, &g, &p);
}

const cr_op cr_op_index = {
    .name = "index", .arity = 1, .params_bytes = sizeof(cr_index_params), .view = true, .infer = index_infer, .grad = index_grad,
    .doc = "every step-th element of a range, or one position, along each axis",
    .tests = {{.in = {{2, {3, 11}}}, .params = &(const cr_index_params){2, {{0, 3, 1}, {2, 4, 2}}}},
              {.in = {{3, {5, 2, 3}}}, .params = &(const cr_index_params){3, {{1, 3, 1}, {0, -1, 1}, {1, 2, 1}}}},
              {.in = {{1, {7}}}, .params = &(const cr_index_params){1, {{3, 0, 1}}}}, {.in = {{1, {7}}}, .params = &(const cr_index_params){1, {{6, -1, 1}}}}},
};

/* A bound of a range that runs over low ... high. */
static int64_t clamped(int64_t i, int64_t size, int64_t low, int64_t high) {
    if (i < 0) i += size;
    return i < low ? low : i > high ? high : i;
}

/* Python's rules: backwards a range begins at the last element at most and stops before the first at least. */
static int64_t range_of(int64_t size, const cr_part *part, int64_t *first) {
    const bool back = part->step < 0;
    const int64_t low = back ? -1 : 0, high = back ? size - 1 : size, stop = clamped(part->stop, size, low, high);
    *first = clamped(part->start, size, low, high);
    const uint64_t step = back ? 0 - (uint64_t)part->step : (uint64_t)part->step, length = (uint64_t)(back ? *first - stop : stop - *first);
    return (int64_t)length > 0 ? (int64_t)(1 + (length - 1) / step) : 0;
}

/* One axis of a part; `op` for the message. */
static bool set_part(const char *op, const cr_tensor *x, int axis, const cr_part *part, cr_index_params *p) {
    int64_t size = x->shape[axis], start = part->start;
    if (part->step == 0 && (start < -size || start >= size))
        return cr_fail(CR_BAD_INDEX, op, "index %lld is out of range for axis %d of %s", (long long)start, axis, cr_shape_text(x->ndim, x->shape).s), false;
    p->at[axis].step = part->step;
    p->at[axis].start = start < 0 ? start + size : start;
    p->at[axis].count = part->step == 0 ? -1 : range_of(size, part, &p->at[axis].start);
    return true;
}

static void whole_from(const cr_tensor *x, int axis, int end, cr_index_params *p) {
    for (; axis < end; axis++) {
        p->at[axis].start = 0;
        p->at[axis].count = x->shape[axis];
        p->at[axis].step = 1;
    }
}

cr_tensor *cr_index(const cr_tensor *x, int n, const cr_part *parts) {
    cr_index_params p = {0};
    if (!cr_given("index", "x", x)) return NULL;
    if (n < 0 || n > x->ndim)
        return cr_fail(CR_BAD_INDEX, "index", "%d indices for a tensor of shape %s", n, cr_shape_text(x->ndim, x->shape).s), NULL;
    if (n && !parts) return cr_fail_null("index", "parts"), NULL;
    p.ndim = x->ndim;
    for (int i = 0; i < n; i++)
        if (!set_part("index", x, i, &parts[i], &p)) return NULL;
    whole_from(x, n, x->ndim, &p);
    return cr_apply(&cr_op_index, 1, &x, &p);
}

static cr_tensor *along(const char *op, const cr_tensor *x, int axis, const cr_part *part) {
    cr_index_params p = {0};
    if (!cr_given(op, "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, op, "a tensor without axes has no parts"), NULL;
    int a = cr_axis(op, axis, x->ndim);
    p.ndim = x->ndim;
    if (a < 0 || !set_part(op, x, a, part, &p)) return NULL;
    whole_from(x, 0, a, &p);
    whole_from(x, a + 1, x->ndim, &p);
    return cr_apply(&cr_op_index, 1, &x, &p);
}

cr_tensor *cr_slice(const cr_tensor *x, int axis, int64_t start, int64_t stop, int64_t step) {
    if (x && step == 0) return cr_fail(CR_BAD_VALUE, "slice", "the step must not be 0"), NULL;
    return along("slice", x, axis, &(cr_part){start, stop, step});
}

cr_tensor *cr_select(const cr_tensor *x, int axis, int64_t index) { return along("select", x, axis, &(cr_part){index, 0, 0}); }

cr_tensor *cr_narrow(const cr_tensor *x, int axis, int64_t start, int64_t length) {
    if (!cr_given("narrow", "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_VALUE, "narrow", "a tensor without axes has no parts"), NULL;
    int a = cr_axis("narrow", axis, x->ndim);
    if (a < 0) return NULL;
    const int64_t size = x->shape[a], first = start < 0 ? start + size : start;
    if (first < 0 || first > size)
        return cr_fail(CR_BAD_INDEX, "narrow", "start %lld is out of range for axis %d of %s", (long long)start, a, cr_shape_text(x->ndim, x->shape).s), NULL;
    if (length < 0 || length > size - first)
        return cr_fail(CR_BAD_VALUE, "narrow", "%lld positions from %lld on of axis %d of %s", (long long)length, (long long)start, a, cr_shape_text(x->ndim, x->shape).s), NULL;
    return along("narrow", x, a, &(cr_part){first, first + length, 1});
}

/* ---- several views of one tensor: all of them, or none */
static cr_status all_or_none(int made, int n, cr_tensor **out) {
    if (made == n) return CR_OK;
    while (made-- > 0) cr_release(out[made]);
    for (int i = 0; i < n; i++) out[i] = NULL;
    return cr_error_status();
}

/* x's axis 0 ... ndim - 1, or -1 and a message; out: room for what is asked for. */
static int splittable(const char *op, const cr_tensor *x, int axis, cr_tensor **out) {
    if (!cr_given(op, "x", x)) return -1;
    if (!out) return cr_fail_null(op, "out"), -1;
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, op, "a tensor without axes cannot be split"), -1;
    return cr_axis(op, axis, x->ndim);
}

/* n pieces of `size`, the last as small as it has to be; or of sizes[i]. */
static cr_status pieces(const char *op, const cr_tensor *x, int axis, int64_t size, const int64_t *sizes, int n, cr_tensor **out) {
    int64_t start = 0;
    int made = 0;
    for (int64_t left = x->shape[axis], some; made < n; start += some, left -= some) {
        some = sizes ? sizes[made] : size < left ? size : left;
        if (!(out[made] = along(op, x, axis, &(cr_part){start, start + some, 1}))) break;
        made++;
    }
    return all_or_none(made, n, out);
}

cr_status cr_split(const cr_tensor *x, int64_t size, int axis, int n, cr_tensor **out) {
    int a = splittable("split", x, axis, out);
    if (a < 0) return cr_error_status();
    if (size < 1) return cr_fail(CR_BAD_VALUE, "split", "the size of a piece must be positive: %lld", (long long)size);
    int64_t count = x->shape[a] ? 1 + (x->shape[a] - 1) / size : 1;
    if (n != count)
        return cr_fail(CR_BAD_VALUE, "split", "axis %d of %s in pieces of %lld makes %lld of them, not %d", a, cr_shape_text(x->ndim, x->shape).s,
                       (long long)size, (long long)count, n);
    return pieces("split", x, a, size, NULL, n, out);
}

cr_status cr_split_sizes(const cr_tensor *x, int axis, int n, const int64_t *sizes, cr_tensor **out) {
    int a = splittable("split", x, axis, out);
    if (a < 0) return cr_error_status();
    if (n < 0) return cr_fail(CR_BAD_VALUE, "split", "%d pieces", n);
    if (n && !sizes) return cr_fail_null("split", "sizes");
    int64_t left = x->shape[a];
    for (int i = 0; i < n && left >= 0; i++) left = sizes[i] < 0 || sizes[i] > left ? -1 : left - sizes[i];
    if (left) return cr_fail(CR_BAD_VALUE, "split", "the %d sizes do not add up to %lld, that of axis %d of %s", n, (long long)x->shape[a], a, cr_shape_text(x->ndim, x->shape).s);
    return pieces("split", x, a, 0, sizes, n, out);
}

int cr_split_chunks(const cr_tensor *x, int chunks, int axis, cr_tensor **out) {
    int a = splittable("chunk", x, axis, out);
    if (a < 0) return -1;
    if (chunks < 1) return cr_fail(CR_BAD_VALUE, "chunk", "%d chunks: at least 1 is expected", chunks), -1;
    const int64_t size = x->shape[a], each = size / chunks + (size % chunks != 0);
    const int n = each ? (int)((size - 1) / each + 1) : chunks;
    return pieces("chunk", x, a, each, NULL, n, out) == CR_OK ? n : -1;
}

cr_status cr_unbind(const cr_tensor *x, int axis, int n, cr_tensor **out) {
    int a = splittable("unbind", x, axis, out), made = 0;
    if (a < 0) return cr_error_status();
    if (n != x->shape[a]) return cr_fail(CR_BAD_VALUE, "unbind", "axis %d of %s has %lld positions, not %d", a, cr_shape_text(x->ndim, x->shape).s, (long long)x->shape[a], n);
    while (made < n && (out[made] = along("unbind", x, a, &(cr_part){made, 0, 0}))) made++;
    return all_or_none(made, n, out);
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
    return cr_shape_check("expand", n, p.shape, x->dtype, NULL) == CR_OK ? cr_apply(&cr_op_expand, 1, &x, &p) : NULL;
}

/* ---- meshgrid: vectors, each along an axis of its own and expanded along the others */
cr_status cr_meshgrid(int n, const cr_tensor *const *in, bool xy, cr_tensor **out) {
    int64_t shape[CR_MAX_DIMS], line[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    int made = 0;
    if (n < 1 || n > CR_MAX_DIMS) return cr_fail(CR_BAD_VALUE, "meshgrid", "%d tensors: 1 to %d are supported", n, CR_MAX_DIMS);
    if (!in || !out) return cr_fail_null("meshgrid", "an array");
    for (int i = 0; i < n; i++) {
        if (!cr_given("meshgrid", "a tensor", in[i])) return cr_error_status();
        if (in[i]->ndim > 1) return cr_fail(CR_BAD_VALUE, "meshgrid", "tensor %d has the shape %s: vectors are expected", i, cr_shape_text(in[i]->ndim, in[i]->shape).s);
        if (in[i]->dtype != in[0]->dtype || in[i]->dev != in[0]->dev)
            return cr_fail(CR_BAD_VALUE, "meshgrid", "tensors of one dtype on one device are expected: %s on %s, %s on %s", cr_dtype_name(in[0]->dtype), in[0]->dev->name,
                           cr_dtype_name(in[i]->dtype), in[i]->dev->name);
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
    return all_or_none(made, n, out);
}
