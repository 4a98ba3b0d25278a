/* strided_view.c - parts of a tensor, described by strides over its elements in row-major order.
 *     part          a view: index (slice, select, narrow, split, chunk, unbind), diagonal, unfold
 *     embed_part    zeros with g added to the part: the gradient of part
 *     replace_part  a copy of x with the part replaced, with which grad/rewrite.c records in-place work on views */
#include "compose.h"
#include "transform.h"

#include <string.h>

/* ---- where a part lies */

/* A distance made of steps along axes of strides `from`, which fall from axis to axis, as the same
 * steps along axes of strides `to`. False: a rest is left. */
static bool translate(int ndim, const int64_t *shape, const int64_t *from, const int64_t *to, int64_t distance,
                      int64_t *result) {
    int64_t left = distance < 0 ? -distance : distance, sum = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1 || !from[i]) continue;
        sum += left / from[i] * to[i];
        left %= from[i];
    }
    *result = distance < 0 ? -sum : sum;
    return left == 0;
}

bool cr_part_of(const cr_meta *whole, const cr_tensor *t, cr_part_params *p) {
    int64_t order[CR_MAX_DIMS];
    cr_strides_contiguous(whole->ndim, whole->shape, order);
    p->ndim = t->ndim;
    p->offset = 0;
    bool there = !t->numel ||
                 translate(whole->ndim, whole->shape, whole->strides, order, t->offset - whole->offset, &p->offset);
    for (int i = 0; i < t->ndim; i++) {
        p->shape[i] = t->shape[i];
        p->strides[i] = 0;
        if (t->numel && t->shape[i] > 1)
            there &= translate(whole->ndim, whole->shape, whole->strides, order, t->strides[i], &p->strides[i]);
    }
    return there;
}

/* The part p of contiguous x, for kernels. */
static cr_array array_of_part(const cr_tensor *x, const cr_part_params *p) {
    return cr_array_strided(&x->array, p->ndim, p->shape, p->strides, x->offset + p->offset);
}

/* The same as a handle outside any graph. */
static cr_tensor *embedded(const cr_tensor *x, const cr_part_params *p) {
    cr_meta m = {.dtype = x->dtype, .ndim = p->ndim, .offset = x->offset + p->offset, .strided = true};
    memcpy(m.shape, p->shape, sizeof m.shape);
    memcpy(m.strides, p->strides, sizeof m.strides);
    return cr_tensor_alias(x, &m);
}

/* ---- part: y = the part p of x, a view */
static cr_status part_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const cr_part_params *p = c->params;
    int64_t order[CR_MAX_DIMS], offset = p->offset;
    *out = (cr_meta){.dtype = x->dtype, .ndim = p->ndim, .strided = true};
    memcpy(out->shape, p->shape, sizeof p->shape);
    memcpy(out->strides, p->strides, sizeof p->strides);
    if (!x->contiguous) {                           /* then x has elements, and p follows its axes */
        cr_strides_contiguous(x->ndim, x->shape, order);
        translate(x->ndim, x->shape, order, x->strides, p->offset, &offset);
        for (int i = 0; i < p->ndim; i++)
            translate(x->ndim, x->shape, order, x->strides, p->strides[i], &out->strides[i]);
    }
    out->offset = x->offset + offset;
    return CR_OK;
}

/* The part p of x, which may have any strides: p need not follow its axes. */
static cr_tensor *part(const cr_tensor *x, const cr_part_params *p) {
    const cr_tensor *dense = x ? cr_contiguous(x) : NULL;
    return dense ? cr_apply(&cr_op_part, 1, &dense, p) : NULL;
}

/* part += g.  Where elements of the part share memory, each position of one axis is added separately. */
static cr_status add_part(cr_tensor *part, const cr_tensor *g) {
    int axis = -1;
    const bool shares = cr_shape_overlaps(part->ndim, part->shape, part->strides);
    for (int i = 0; i < part->ndim; i++)            /* the shortest axis: the fewest and largest additions */
        if (shares && part->shape[i] > 1 && (axis < 0 || part->shape[i] < part->shape[axis])) axis = i;
    if (axis < 0) return cr_add_(part, g) ? CR_OK : cr_error_status();
    cr_status status = CR_OK;
    for (int64_t i = 0; i < part->shape[axis] && status == CR_OK; i++) {
        cr_tensor *p = cr_select(part, axis, i), *d = cr_select(g, axis, i);
        status = p && d ? add_part(p, d) : cr_error_status();
        cr_release(p); cr_release(d);
    }
    return status;
}

/* Adds g to the part p of sum; returns sum. */
static cr_tensor *add_to(cr_tensor *sum, const cr_part_params *p, const cr_tensor *g) {
    cr_tensor *part = g ? embedded(sum, p) : NULL;
    return part && add_part(part, g) == CR_OK ? sum : NULL;
}

/* y = part(x):  dx = embed_part(g), where g is summed first along axes of stride 0 */
static void part_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_embed_params q = {.part = *(const cr_part_params *)c->params, .ndim = x->ndim};
    memcpy(q.shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
    uint32_t repeated = 0;
    for (int i = 0; i < q.part.ndim; i++) {
        if (q.part.strides[i] || q.part.shape[i] < 2) continue;
        repeated |= 1u << i;
        q.part.shape[i] = 1;
    }
    if (repeated) g = cr_sum_mask(g, repeated, true, false);
    const bool adds = c->accumulated && g && c->accumulated->dtype == g->dtype;
    dx[0] = adds ? add_to(c->accumulated, &q.part, g) : cr_apply(&cr_op_embed_part, 1, &g, &q);
}

/* The same part of each sample: samples lie numel elements apart. */
static bool part_of_each(const cr_batched *b, const cr_part_params *p, int64_t numel, cr_part_params *q) {
    if (p->ndim == CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, b->call->op->name, "%d axes with that of vmap: %d are the most supported",
                       p->ndim + 1, CR_MAX_DIMS), false;
    *q = (cr_part_params){.ndim = p->ndim + 1, .shape = {b->size}, .strides = {numel}, .offset = p->offset};
    memcpy(q->shape + 1, p->shape, sizeof *p->shape * (size_t)p->ndim);
    memcpy(q->strides + 1, p->strides, sizeof *p->strides * (size_t)p->ndim);
    return true;
}

static cr_tensor *part_batch(const cr_batched *b) {
    cr_part_params p;
    return part_of_each(b, b->call->params, b->call->in[0]->numel, &p) ? cr_apply(&cr_op_part, 1, b->in, &p) : NULL;
}

const cr_op cr_op_part = {
    .name = "part",
    .arity = 1,
    .params_bytes = sizeof(cr_part_params),
    .view = true,
    .infer = part_infer,
    .grad = part_grad,
    .batch = part_batch,
    .tangent = cr_tangent_linear,
};

/* ---- embed_part: y = zeros, then the part p of y += g */
static cr_status embed_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_embed_params *p = c->params;
    *out = (cr_meta){.dtype = c->in[0]->dtype, .ndim = p->ndim};
    memcpy(out->shape, p->shape, sizeof p->shape);
    return CR_OK;
}

static cr_status embed_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *g = c->in[0];
    const cr_part_params *p = &((const cr_embed_params *)c->params)->part;
    const bool shares = cr_shape_overlaps(p->ndim, p->shape, p->strides);
    cr_status status = shares || g->numel < out->numel ? cr_fill_elements(out, 0) : CR_OK;
    if (status != CR_OK || !g->numel) return status;
    const cr_array to = array_of_part(out, p);
    if (!shares) return cr_copy_array(&to, &g->array);
    cr_tensor *part = embedded(out, p), *d = cr_tensor_alias(g, NULL);
    status = part && d ? add_part(part, d) : cr_error_status();
    cr_release(part); cr_release(d);
    return status;
}

/* y = embed_part(g):  dg = part(its cotangent) */
static void embed_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    dx[0] = part(g, &((const cr_embed_params *)c->params)->part);
}

static cr_tensor *embed_batch(const cr_batched *b) {
    const cr_embed_params *p = b->call->params;
    cr_embed_params q = {.ndim = p->ndim + 1, .shape = {b->size}};
    int64_t numel = 1;
    for (int i = 0; i < p->ndim; i++) numel *= p->shape[i];
    if (!part_of_each(b, &p->part, numel, &q.part)) return NULL;
    memcpy(q.shape + 1, p->shape, sizeof *p->shape * (size_t)cr_imin(p->ndim, CR_MAX_DIMS - 1));
    return cr_apply(&cr_op_embed_part, 1, b->in, &q);
}

const cr_op cr_op_embed_part = {
    .name = "embed_part",
    .arity = 1,
    .params_bytes = sizeof(cr_embed_params),
    .infer = embed_infer,
    .forward = embed_forward,
    .grad = embed_grad,
    .batch = embed_batch,
    .tangent = cr_tangent_linear,
};

/* ---- replace_part: y = x, but v in the part p */
static cr_status replace_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return CR_OK;
}

static cr_status replace_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_array part = array_of_part(out, c->params);
    const cr_status status = cr_copy_elements(out, c->in[0]);
    return status == CR_OK ? cr_copy_array(&part, &c->in[1]->array) : status;
}

/* May g's own memory be written?  Only the backward walk holds it then. */
static bool writable(const cr_call *c, const cr_tensor *g) {
    return !c->differentiable && atomic_load(&g->refs) == 1 && atomic_load(&g->storage->refs) == 1 && g->contiguous;
}

/* y = replace_part(x, v):  dv = part(g),  dx = g with zeros in the part.  dx is g itself where g is
 * writable, so that a loop that fills y piece by piece does not copy y for each piece. */
static void replace_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_part_params *p = c->params;
    const bool in_place = c->needs[0] && writable(c, g);
    cr_tensor *dv = part(g, p);
    if (!dv) { dx[c->needs[0] ? 0 : 1] = NULL; return; }
    if (c->needs[1]) dx[1] = in_place ? cr_clone(dv) : dv;
    if (in_place) {
        dx[0] = dx[1] && cr_fill_elements(dv, 0) == CR_OK ? same(g) : NULL;
    } else if (c->needs[0]) {
        const cr_tensor *in[] = {g, cr_zeros(p->ndim, p->shape, g->dtype, g->dev)};
        dx[0] = cr_apply(&cr_op_replace_part, 2, in, p);
    }
}

static cr_tensor *replace_batch(const cr_batched *b) {
    cr_part_params p;
    const cr_tensor *in[] = {cr_batch_in(b, 0), cr_batch_in(b, 1)};
    return in[0] && in[1] && part_of_each(b, b->call->params, b->call->in[0]->numel, &p)
               ? cr_apply(&cr_op_replace_part, 2, in, &p) : NULL;
}

const cr_op cr_op_replace_part = {
    .name = "replace_part",
    .arity = 2,
    .params_bytes = sizeof(cr_part_params),
    .infer = replace_infer,
    .forward = replace_forward,
    .grad = replace_grad,
    .batch = replace_batch,
    .tangent = cr_tangent_linear,
};

/* ---- index: a range of each axis, or one position, which drops the axis */

/* A bound of a range that runs over low ... high. */
static int64_t clamped(int64_t i, int64_t size, int64_t low, int64_t high) {
    if (i < 0) i += size;
    return i < low ? low : i > high ? high : i;
}

/* Python's rules: backwards a range begins at the last element at most and stops before the first at least. */
static int64_t range_of(int64_t size, const cr_part *range, int64_t *first) {
    const bool back = range->step < 0;
    const int64_t low = back ? -1 : 0, high = back ? size - 1 : size, stop = clamped(range->stop, size, low, high);
    *first = clamped(range->start, size, low, high);
    const uint64_t step = back ? 0 - (uint64_t)range->step : (uint64_t)range->step;
    const uint64_t length = (uint64_t)(back ? *first - stop : stop - *first);
    return (int64_t)length > 0 ? (int64_t)(1 + (length - 1) / step) : 0;
}

/* The index of one axis of x, NULL for all of it; `stride`: of that axis in the order of x's elements. */
static bool add_axis(const char *op, const cr_tensor *x, int axis, const cr_part *index, int64_t stride,
                     cr_part_params *p) {
    int64_t size = x->shape[axis], start = 0, count = size, step = 1;
    if (index && !index->step) {
        start = index->start;
        if (start < -size || start >= size)
            return cr_fail(CR_BAD_INDEX, op, "index %lld is out of range for axis %d of %s", (long long)start, axis,
                           cr_shape_text(x->ndim, x->shape).s), false;
        if (x->numel) p->offset += (start < 0 ? start + size : start) * stride;
        return true;
    }
    if (index) {
        count = range_of(size, index, &start);
        step = index->step;
    }
    if (x->numel && count) p->offset += start * stride;
    p->shape[p->ndim] = count;
    p->strides[p->ndim++] = x->numel && count > 1 ? step * stride : stride;
    return true;
}

cr_tensor *cr_index(const cr_tensor *x, int n, const cr_part *parts) {
    cr_part_params p = {0};
    int64_t order[CR_MAX_DIMS];
    if (!cr_given("index", "x", x)) return NULL;
    if (n < 0 || n > x->ndim)
        return cr_fail(CR_BAD_INDEX, "index", "%d indices for a tensor of shape %s", n,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    if (n && !parts) return cr_fail_null("index", "parts"), NULL;
    cr_strides_contiguous(x->ndim, x->shape, order);
    for (int i = 0; i < x->ndim; i++)
        if (!add_axis("index", x, i, i < n ? &parts[i] : NULL, order[i], &p)) return NULL;
    return cr_apply(&cr_op_part, 1, &x, &p);
}

/* The index of one axis, all of the others. */
static cr_tensor *along(const char *op, const cr_tensor *x, int axis, const cr_part *index) {
    cr_part_params p = {0};
    int64_t order[CR_MAX_DIMS];
    if (!cr_given(op, "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, op, "a 0-d tensor has no parts"), NULL;
    const int a = cr_axis(op, axis, x->ndim);
    if (a < 0) return NULL;
    cr_strides_contiguous(x->ndim, x->shape, order);
    for (int i = 0; i < x->ndim; i++)
        if (!add_axis(op, x, i, i == a ? index : NULL, order[i], &p)) return NULL;
    return cr_apply(&cr_op_part, 1, &x, &p);
}

cr_tensor *cr_slice(const cr_tensor *x, int axis, int64_t start, int64_t stop, int64_t step) {
    if (x && step == 0) return cr_fail(CR_BAD_VALUE, "slice", "the step must not be 0"), NULL;
    return along("slice", x, axis, &(cr_part){start, stop, step});
}

cr_tensor *cr_select(const cr_tensor *x, int axis, int64_t index) {
    return along("select", x, axis, &(cr_part){index, 0, 0});
}

cr_tensor *cr_narrow(const cr_tensor *x, int axis, int64_t start, int64_t length) {
    if (!cr_given("narrow", "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_VALUE, "narrow", "a 0-d tensor has no parts"), NULL;
    int a = cr_axis("narrow", axis, x->ndim);
    if (a < 0) return NULL;
    const int64_t size = x->shape[a], first = start < 0 ? start + size : start;
    if (first < 0 || first > size)
        return cr_fail(CR_BAD_INDEX, "narrow", "start %lld is out of range for axis %d of %s", (long long)start, a,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    if (length < 0 || length > size - first)
        return cr_fail(CR_BAD_VALUE, "narrow", "%lld positions from %lld on of axis %d of %s", (long long)length,
                       (long long)start, a, cr_shape_text(x->ndim, x->shape).s),
               NULL;
    return along("narrow", x, a, &(cr_part){first, first + length, 1});
}

/* ---- as_strided: any elements between the first and the last that x has in memory */

/* The first and the last position of the elements, one of which is 0; false: beyond an int64. */
static bool extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t *first, int64_t *last) {
    *first = *last = 0;
    for (int i = 0; i < ndim; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach)) return false;
        if (__builtin_add_overflow(*(reach < 0 ? first : last), reach, reach < 0 ? first : last)) return false;
    }
    return true;
}

static cr_status check_strided(const char *op, const cr_tensor *x, int ndim, const int64_t *shape,
                               const int64_t *strides, int64_t offset, int64_t *count) {
    if (ndim < 0 || ndim > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, op, "%d axes: at most %d are supported", ndim, CR_MAX_DIMS);
    if (ndim && !(shape && strides)) return cr_fail_null(op, shape ? "strides" : "shape");
    bool fits = true;
    *count = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0 || strides[i] < 0)
            return cr_fail(CR_BAD_VALUE, op, "size %lld with stride %lld: neither may be negative", (long long)shape[i],
                           (long long)strides[i]);
        fits &= !__builtin_mul_overflow(*count, shape[i], count);
    }
    if (!*count) return CR_OK;
    int64_t low, high, first, last;
    extent(x->ndim, x->shape, x->strides, &low, &high);
    if (!x->numel) low = 0, high = -1;
    fits = fits && extent(ndim, shape, strides, &first, &last) && !__builtin_add_overflow(last, offset, &last);
    if (fits && offset >= low && last <= high) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "elements %lld ... %lld of the memory, of which the tensor has %lld ... %lld",
                   (long long)(x->offset + offset), (long long)(fits ? x->offset + last : INT64_MAX),
                   (long long)(x->offset + low), (long long)(x->offset + high));
}

/* A wrapper (transform.h) has the strides of one sample. */
static bool in_row_order(const cr_tensor *x) {
    int64_t order[CR_MAX_DIMS];
    cr_strides_contiguous(x->ndim, x->shape, order);
    for (int i = 0; i < x->ndim; i++) if (x->shape[i] > 1 && x->strides[i] != order[i]) return false;
    return true;
}

cr_tensor *cr_as_strided(const cr_tensor *x, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset) {
    static const char op[] = "as_strided";
    int64_t count = 0;
    if (!cr_given(op, "x", x) || check_strided(op, x, ndim, shape, strides, offset, &count) != CR_OK) return NULL;
    cr_part_params p = {.ndim = ndim, .offset = count ? offset : 0};
    for (int i = 0; i < ndim; i++) p.shape[i] = shape[i], p.strides[i] = strides[i];
    if (!count || in_row_order(x)) return cr_apply(&cr_op_part, 1, &x, &p);
    if (!cr_wrapped(x) && !(cr_in_graph(x) && cr_grad_enabled())) return embedded(x, &p);
    return cr_fail(CR_BAD_VALUE, op, "a tensor in a graph or of a transform must be contiguous"), NULL;
}

/* ---- several views of one tensor: all of them, or none */
cr_status cr_all_or_none(int made, int n, cr_tensor **out) {
    if (made == n) return CR_OK;
    while (made-- > 0) cr_release(out[made]);
    for (int i = 0; i < n; i++) out[i] = NULL;
    return cr_error_status();
}

/* x's axis 0 ... ndim - 1, or -1 and a message. */
static int splittable(const char *op, const cr_tensor *x, int axis, cr_tensor **out) {
    if (!cr_given(op, "x", x)) return -1;
    if (!out) return cr_fail_null(op, "out"), -1;
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, op, "a 0-d tensor cannot be split"), -1;
    return cr_axis(op, axis, x->ndim);
}

/* n pieces of `size`, the last as small as it has to be; or of sizes[i]. */
static cr_status pieces(const char *op, const cr_tensor *x, int axis, int64_t size, const int64_t *sizes, int n,
                        cr_tensor **out) {
    int64_t start = 0;
    int made = 0;
    for (int64_t left = x->shape[axis], some; made < n; start += some, left -= some) {
        some = sizes ? sizes[made] : size < left ? size : left;
        if (!(out[made] = along(op, x, axis, &(cr_part){start, start + some, 1}))) break;
        made++;
    }
    return cr_all_or_none(made, n, out);
}

cr_status cr_split(const cr_tensor *x, int64_t size, int axis, int n, cr_tensor **out) {
    int a = splittable("split", x, axis, out);
    if (a < 0) return cr_error_status();
    if (size < 1) return cr_fail(CR_BAD_VALUE, "split", "the size of a piece must be positive: %lld", (long long)size);
    int64_t count = x->shape[a] ? 1 + (x->shape[a] - 1) / size : 1;
    if (n != count)
        return cr_fail(CR_BAD_VALUE, "split", "axis %d of %s in pieces of %lld makes %lld of them, not %d", a,
                       cr_shape_text(x->ndim, x->shape).s, (long long)size, (long long)count, n);
    return pieces("split", x, a, size, NULL, n, out);
}

cr_status cr_split_sizes(const cr_tensor *x, int axis, int n, const int64_t *sizes, cr_tensor **out) {
    int a = splittable("split", x, axis, out);
    if (a < 0) return cr_error_status();
    if (n < 0) return cr_fail(CR_BAD_VALUE, "split", "%d pieces", n);
    if (n && !sizes) return cr_fail_null("split", "sizes");
    int64_t left = x->shape[a];
    for (int i = 0; i < n && left >= 0; i++) left = sizes[i] < 0 || sizes[i] > left ? -1 : left - sizes[i];
    if (left)
        return cr_fail(CR_BAD_VALUE, "split", "the %d sizes do not add up to %lld, that of axis %d of %s", n,
                       (long long)x->shape[a], a, cr_shape_text(x->ndim, x->shape).s);
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
    if (n != x->shape[a])
        return cr_fail(CR_BAD_VALUE, "unbind", "axis %d of %s has %lld positions, not %d", a,
                       cr_shape_text(x->ndim, x->shape).s, (long long)x->shape[a], n);
    while (made < n && (out[made] = along("unbind", x, a, &(cr_part){made, 0, 0}))) made++;
    return cr_all_or_none(made, n, out);
}

/* ---- diagonal: two axes become one, the last: x[i, i + offset] */
cr_tensor *cr_diagonal(const cr_tensor *x, int64_t offset, int axis1, int axis2) {
    if (!cr_given("diagonal", "x", x)) return NULL;
    int a = cr_axis("diagonal", axis1, x->ndim), b = cr_axis("diagonal", axis2, x->ndim);
    if (a < 0 || b < 0) return NULL;
    if (a == b) return cr_fail(CR_BAD_VALUE, "diagonal", "the axes %d and %d are the same", axis1, axis2), NULL;
    cr_part_params p = {.ndim = x->ndim - 1};
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
    return cr_apply(&cr_op_part, 1, &x, &p);
}

cr_tensor *cr_diag_embed(const cr_tensor *x, int64_t offset, int axis1, int axis2) {
    if (!cr_given("diag_embed", "x", x)) return NULL;
    if (x->ndim == CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "diag_embed", "%d axes are the most supported", CR_MAX_DIMS), NULL;
    const int n = x->ndim + 1, a = cr_axis("diag_embed", axis1, n), b = cr_axis("diag_embed", axis2, n);
    if (a < 0 || b < 0) return NULL;
    if (a == b) return cr_fail(CR_BAD_VALUE, "diag_embed", "the axes %d and %d are the same", axis1, axis2), NULL;
    int64_t shape[CR_MAX_DIMS], size;
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->ndim);
    if (offset < -INT32_MAX || offset > INT32_MAX ||
        __builtin_add_overflow(shape[n - 2], offset < 0 ? -offset : offset, &size))
        return cr_fail(CR_BAD_VALUE, "diag_embed", "offset %lld is too far", (long long)offset), NULL;
    shape[n - 2] = shape[n - 1] = size;
    cr_scope_begin();
    cr_tensor *y = cr_zeros(n, shape, x->dtype, x->dev);
    if (y && cr_wrapped(x)) y = cr_wrapped_as(x, y);
    if (!cr_copy_(cr_diagonal(y, offset, -2, -1), x)) y = NULL;
    return cr_leave(cr_movedim(y, 2, (int64_t[]){-2, -1}, (int64_t[]){a, b}));
}

cr_tensor *cr_diag(const cr_tensor *x, int64_t offset) {
    if (!cr_given("diag", "x", x)) return NULL;
    if (x->ndim != 1 && x->ndim != 2)
        return cr_fail(CR_BAD_VALUE, "diag", "a vector or a matrix is expected, not %s",
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    cr_scope_begin();
    return cr_leave(x->ndim == 1 ? cr_diag_embed(x, offset, 0, 1) : cr_clone(cr_diagonal(x, offset, 0, 1)));
}

/* ---- unfold: windows of an axis: it counts them, their elements are a new last axis */
cr_tensor *cr_unfold(const cr_tensor *x, int axis, int64_t size, int64_t step) {
    if (!cr_given("unfold", "x", x)) return NULL;
    int a = cr_axis("unfold", axis, x->ndim);
    if (a < 0) return NULL;
    const int64_t length = x->ndim ? x->shape[a] : 1;
    if (x->ndim == CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "unfold", "%d axes are the most supported", CR_MAX_DIMS), NULL;
    if (step < 1) return cr_fail(CR_BAD_VALUE, "unfold", "the step must be positive: %lld", (long long)step), NULL;
    if (size < 0 || size > length)
        return cr_fail(CR_BAD_VALUE, "unfold", "windows of %lld on axis %d of %s", (long long)size, a,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    cr_part_params p = {.ndim = x->ndim + 1};
    cr_strides_contiguous(x->ndim, x->shape, p.strides);
    for (int i = 0; i < x->ndim; i++) p.shape[i] = x->shape[i];
    p.shape[x->ndim] = size;
    p.strides[x->ndim] = x->ndim ? p.strides[a] : 1;
    if (x->ndim) {
        p.shape[a] = 1 + (length - size) / step;
        if (p.shape[a] > 1) p.strides[a] *= step;
    }
    return cr_apply(&cr_op_part, 1, &x, &p);
}
