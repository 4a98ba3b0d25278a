/* take.c - take and put: elements read from, or written to, the positions of x that one index names.
 *
 * Neighbouring axes of x are seen as one of R positions, so that x is (pre, R, post), and the index (I) says which:
 *     take   y (pre, I, post):  y[:, i, :] = x[:, index[i], :]
 *     put    y = x, or zeros, then y[:, index[i], :] = src[:, i, :], or += it, in order of i
 *     embedding, take, index_select, index_add, index_copy, index_fill are uses of the two; advanced_index.c
 *     brings keys of several tensors to this form. */
#include "compose.h"
#include "transform.h"

#include <string.h>

static const cr_take_params *params(const cr_call *c) { return c->params; }
static const char *name_of(const void *p) { return ((const cr_take_params *)p)->name; }

/* (pre, I, post) for these sizes of x. */
static cr_status taken(const char *name, const cr_take_params *p, int ndim, const int64_t *shape,
                       const cr_tensor *index, cr_meta *m) {
    const int axes = ndim - p->count + index->ndim;
    if (axes > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, name, "a result of %d axes: %d are the most supported", axes, CR_MAX_DIMS);
    m->ndim = 0;
    for (int i = 0; i < p->axis; i++) m->shape[m->ndim++] = shape[i];
    for (int i = 0; i < index->ndim; i++) m->shape[m->ndim++] = index->shape[i];
    for (int i = p->axis + p->count; i < ndim; i++) m->shape[m->ndim++] = shape[i];
    cr_status status = cr_want_index(name, index);
    return status == CR_OK ? cr_shape_check(name, m->ndim, m->shape, m->dtype, NULL) : status;
}

cr_status cr_taken_shape(const cr_take_params *p, const cr_tensor *x, const cr_tensor *index, int64_t *shape,
                         int *ndim) {
    cr_meta m = {.dtype = x->dtype};
    cr_status status = taken(p->name, p, x->ndim, x->shape, index, &m);
    *ndim = m.ndim;
    memcpy(shape, m.shape, sizeof m.shape);
    return status;
}

/* t as (pre, axes, post): the same memory, or a copy where its strides do not allow that. */
static cr_status in_three(const cr_tensor *t, int axis, int count, cr_array *a) {
    const cr_array around = cr_around(&t->array, axis, count);
    return cr_see_as(t, 3, around.shape, a);
}

static cr_status in_line(const cr_tensor *index, cr_array *a) {
    *a = index->array;
    const cr_status status = cr_pack(a);
    *a = cr_array_as(a, 1, &index->numel);
    return status;
}

/* ---- take: y = the elements of x at the given positions */
static cr_status take_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    out->dtype = c->in[0]->dtype;
    return taken(cr_call_name(c), params(c), c->in[0]->ndim, c->in[0]->shape, c->in[1], out);
}

static cr_status take_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_take_params *p = params(c);
    const cr_tensor *index = c->in[1];
    if (!index->numel) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    cr_take_rows_args args = {.op = p->name, .y = cr_around(&out->array, p->axis, index->ndim), .wrap = p->wrap};
    cr_status status = in_three(c->in[0], p->axis, p->count, &args.x);
    if (status == CR_OK) status = in_line(index, &args.index);
    if (status == CR_OK) status = c->dev->kernels->take_rows(&args);
    cr_scope_leave(&own);
    return status;
}

/* y[:, index[i], :] = src[:, i, :], or += it; through a copy where y's strides do not let it be seen
 * as (pre, R, post) */
static cr_status put_into(const cr_call *c, cr_tensor *y) {
    const cr_take_params *p = params(c);
    const cr_tensor *index = c->in[1], *src = c->in[2];
    if (!index->numel) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    cr_put_rows_args args = {.op = p->name, .sum = p->sum, .wrap = p->wrap};
    cr_status status = in_three(y, p->axis, p->count, &args.x);
    if (status == CR_OK) status = in_three(src, p->axis, index->ndim, &args.src);
    if (status == CR_OK) status = in_line(index, &args.index);
    if (status == CR_OK) status = c->dev->kernels->put_rows(&args);
    if (status == CR_OK && args.x.storage != y->storage) {
        const cr_array result = cr_array_as(&args.x, y->ndim, y->shape);
        status = cr_copy_array(&y->array, &result);
    }
    cr_scope_leave(&own);
    return status;
}

/* y = take(x, index):  dx = zeros with g added at index.  A gradient accumulated so far is added to in
 * place: a tied table has its head's. */
static void take_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (!c->needs[0]) return;
    const cr_tensor *x = c->in[0], *in[] = {CR_NONE, c->in[1], cast_to(g, cr_gradient_dtype(c, 0))};
    cr_take_params p = *params(c);
    p.sum = true;
    p.ndim = x->ndim;
    memcpy(p.shape, x->shape, sizeof p.shape);
    const cr_call addition = {.op = &cr_op_put, .params = &p, .n = 3, .in = in, .dev = c->dev};
    cr_tensor *sum = c->accumulated;
    if (in[2] && sum && sum->dtype == in[2]->dtype && g->numel) dx[0] = put_into(&addition, sum) == CR_OK ? sum : NULL;
    else dx[0] = cr_apply(&cr_op_put, 3, in, &p);
}

/* vmap.  One index for all samples: the same rows of each.  An index for each: gather, over t as (size, pre, R,
 * post). */
static cr_tensor *in_four(const cr_batched *b, const cr_tensor *t, int axis, int count) {
    int64_t shape[4] = {b->size, 1, 1, 1};
    for (int i = 1; t && i < t->ndim; i++) shape[i <= axis ? 1 : i <= axis + count ? 2 : 3] *= t->shape[i];
    return t ? cr_reshape(t, 4, shape) : NULL;
}

static cr_tensor *index_of_each(const cr_batched *b, const cr_tensor *like) {
    const cr_take_params *p = params(b->call);
    const cr_tensor *index = b->in[1];
    if (!like) return NULL;
    const int64_t R = like->shape[2];
    cr_tensor *at = cr_reshape(index, CR_LIST(b->size, 1, b->call->in[1]->numel, 1));
    if (p->wrap && at) at = cr_where(cr_lt(at, cr_scalar_int(0)), cr_add(at, cr_scalar_int(R)), at);
    return at ? cr_expand(at, CR_LIST(b->size, like->shape[1], at->shape[2], like->shape[3])) : NULL;
}

static cr_tensor *take_batch(const cr_batched *b) {
    cr_take_params p = *params(b->call);
    if (!b->has[1]) {
        p.axis++;
        return cr_apply(&cr_op_take, 2, b->in, &p);
    }
    if (!b->has[0]) {                               /* y (pre, size, I, post) */
        cr_tensor *y = cr_apply(&cr_op_take, 2, b->in, &p);
        return cr_movedim(y, 1, (int64_t[]){p.axis}, (int64_t[]){0});
    }
    cr_tensor *x = in_four(b, b->in[0], p.axis, p.count), *at = index_of_each(b, x);
    return cr_batch_shaped(b, at ? cr_gather(x, 2, at) : NULL, b->out);
}

const cr_op cr_op_take = {
    .name = "take", .name_of = name_of, .arity = 2, .params_bytes = sizeof(cr_take_params), .saves = CR_SAVE_IN(1),
    .infer = take_infer, .forward = take_forward, .grad = take_grad,
    .batch = take_batch, .tangent = cr_tangent_linear,
};

/* ---- put: y = x, or zeros, with the source written or added at the given positions */
static cr_status put_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_take_params *p = params(c);
    const cr_tensor *x = c->in[0], *src = c->in[2];
    const char *name = cr_call_name(c);
    cr_meta room = {.dtype = src->dtype};
    if (x == CR_NONE) {
        *out = (cr_meta){.dtype = src->dtype, .ndim = p->ndim};
        memcpy(out->shape, p->shape, sizeof p->shape);
    } else {
        *out = cr_meta_of(x);
        cr_status same = cr_want_same_dtype(name, x, src);
        if (same != CR_OK) return same;
    }
    cr_status status = taken(name, p, out->ndim, out->shape, c->in[1], &room);
    if (status != CR_OK || (cr_shape_equal(room.ndim, room.shape, src->ndim, src->shape))) return status;
    return cr_fail(CR_BAD_VALUE, name, "a source of shape %s for positions of shape %s",
                   cr_shape_text(src->ndim, src->shape).s, cr_shape_text(room.ndim, room.shape).s);
}

static cr_status put_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_status status = c->in[0] == CR_NONE ? cr_fill_elements(out, 0) : cr_copy_elements(out, c->in[0]);
    return status == CR_OK ? put_into(c, out) : status;
}

/* y = x with src at index:      dx = g with 0 at index,  dsrc = take(g, index), of positions named twice
 * too, as in PyTorch y = x with src added there:   dx = g,                  dsrc = take(g, index) */
static void put_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *index = c->in[1], *src = c->in[2];
    const cr_take_params *p = params(c);
    if (c->needs[0] && p->sum) dx[0] = same(g);
    else if (c->needs[0]) {
        const cr_tensor *none = cr_expand(cr_zeros(CR_ALL, g->dtype, c->dev), src->ndim, src->shape),
                        *in[] = {g, index, none};
        dx[0] = none ? cr_apply(&cr_op_put, 3, in, p) : NULL;
    }
    if (c->needs[2]) dx[2] = cr_apply(&cr_op_take, 2, (const cr_tensor *[]){g, index}, p);
}

static cr_tensor *put_batch(const cr_batched *b) {
    cr_take_params p = *params(b->call);
    const cr_tensor *src = cr_batch_in(b, 2), *x = cr_batch_in(b, 0);
    if (!b->has[1]) {
        const cr_tensor *in[] = {x, b->in[1], src};
        memmove(p.shape + 1, p.shape, sizeof *p.shape * (CR_MAX_DIMS - 1));
        p.shape[0] = b->size;
        p.ndim++;
        p.axis++;
        return src && x ? cr_apply(&cr_op_put, 3, in, &p) : NULL;
    }
    int64_t shape[CR_MAX_DIMS] = {b->size};
    memcpy(shape + 1, b->out->shape, sizeof *shape * (size_t)b->out->ndim);
    if (x == CR_NONE && src) x = cr_zeros(b->out->ndim + 1, shape, src->dtype, src->dev);
    if (x && !b->call->in[1]->numel) return same(x);
    cr_tensor *to = in_four(b, x, p.axis, p.count), *at = index_of_each(b, to),
              *from = in_four(b, src, p.axis, b->call->in[1]->ndim);
    const bool truths = p.sum && from && from->dtype == CR_BOOL;            /* their sum is or */
    if (truths) to = cast_to(to, CR_I32), from = cast_to(from, CR_I32);
    cr_tensor *y = !at || !from ? NULL : p.sum ? cr_scatter_add(to, 2, at, from) : cr_scatter(to, 2, at, from);
    if (truths) y = cast_to(y, CR_BOOL);
    return cr_batch_shaped(b, y, b->out);
}

static cr_tensor *put_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *x = c->in[0] == CR_NONE ? CR_NONE : cr_tangent_or_zeros(t[0], c->in[0]),
                    *in[] = {x, c->in[1], cr_tangent_or_zeros(t[2], c->in[2])};
    return in[0] && in[2] ? cr_apply(&cr_op_put, 3, in, c->params) : NULL;
}

const cr_op cr_op_put = {
    .name = "put",
    .name_of = name_of,
    .arity = 3,
    .optional = 1,
    .params_bytes = sizeof(cr_take_params),
    .saves = CR_SAVE_IN(1),
    .infer = put_infer,
    .forward = put_forward,
    .write = put_into,
    .grad = put_grad,
    .batch = put_batch,
    .tangent = put_tangent,
};

/* ---- their uses along one axis */
cr_tensor *cr_embedding(const cr_tensor *w, const cr_tensor *index) {
    if (!cr_given("embedding", "the table", w) || !cr_given("embedding", "the index", index)) return NULL;
    if (w->ndim != 2)
        return cr_fail(CR_BAD_VALUE, "embedding", "the table must be (rows, columns): %s",
                       cr_shape_text(w->ndim, w->shape).s),
               NULL;
    return cr_apply(&cr_op_take, 2, (const cr_tensor *[]){w, index},
                    &(cr_take_params){.name = "embedding", .count = 1});
}

cr_tensor *cr_take(const cr_tensor *x, const cr_tensor *index) {
    if (!cr_given("take", "x", x)) return NULL;
    return cr_apply(&cr_op_take, 2, (const cr_tensor *[]){x, index},
                    &(cr_take_params){.name = "take", .count = x->ndim, .wrap = true});
}

/* An index of at most one axis along this one of x, which, 0-d, is a vector of one; false: a message. */
static bool along(const char *op, const cr_tensor *x, int axis, const cr_tensor *index, cr_take_params *p) {
    if (!cr_given(op, "x", x) || !cr_given(op, "the index", index)) return false;
    const int a = cr_axis(op, axis, x->ndim);
    if (a < 0) return false;
    if (index->ndim > 1)
        return cr_fail(CR_BAD_INDEX, op, "the index %s may have one axis", cr_shape_text(index->ndim, index->shape).s),
               false;
    if (!x->ndim && index->numel != 1)
        return cr_fail(CR_BAD_INDEX, op, "%lld indices into a 0-d tensor", (long long)index->numel), false;
    *p = (cr_take_params){.name = op, .axis = a, .count = x->ndim ? 1 : 0};
    return true;
}

/* (K), or () where x has no axes. */
static cr_tensor *line_for(const cr_tensor *x, const cr_tensor *index) {
    return cr_reshape(index, x->ndim ? 1 : 0, &index->numel);
}

cr_tensor *cr_index_select(const cr_tensor *x, int axis, const cr_tensor *index) {
    cr_take_params p;
    if (!along("index_select", x, axis, index, &p)) return NULL;
    cr_scope_begin();
    return cr_leave(cr_apply(&cr_op_take, 2, (const cr_tensor *[]){x, line_for(x, index)}, &p));
}

cr_tensor *cr_put(const cr_take_params *p, cr_tensor *to, const cr_tensor *x, const cr_tensor *index,
                  const cr_tensor *src) {
    const cr_tensor *in[] = {x, index, src};
    return to ? cr_apply_(&cr_op_put, to, 3, in, p) : cr_apply(&cr_op_put, 3, in, p);
}

static cr_tensor *put_along(const char *op, cr_tensor *to, const cr_tensor *x, int axis, const cr_tensor *index,
                            const cr_tensor *src, bool sum) {
    cr_take_params p;
    if (!along(op, x, axis, index, &p) || !cr_given(op, "the source", src)) return NULL;
    p.sum = sum;
    cr_scope_begin();
    return cr_leave_with(to, cr_put(&p, to, x, line_for(x, index), src));
}

cr_tensor *cr_index_add(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return put_along("index_add", NULL, x, axis, index, src, true);
}
cr_tensor *cr_index_add_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return put_along("index_add_", x, x, axis, index, src, true);
}
cr_tensor *cr_index_copy(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return put_along("index_copy", NULL, x, axis, index, src, false);
}
cr_tensor *cr_index_copy_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src) {
    return put_along("index_copy_", x, x, axis, index, src, false);
}

/* One value at the positions, as a choice between it and x: its gradient then counts positions named twice once. */
static cr_tensor *fill_chosen(cr_tensor *to, const cr_tensor *x, const cr_take_params *p, const cr_tensor *line,
                              const cr_tensor *value) {
    int64_t shape[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    if (p->count) shape[p->axis] = x->shape[p->axis];
    cr_tensor *mask = cr_zeros(x->ndim, shape, CR_BOOL, x->dev), *yes = cr_ones(CR_ALL, CR_BOOL, x->dev);
    if (!mask || !yes) return NULL;
    if (p->count) shape[p->axis] = line->numel;
    mask = cr_put(p, NULL, mask, line, cr_expand(yes, x->ndim, shape));
    return mask ? cr_masked_where(to, x, mask, value) : NULL;
}

static cr_tensor *fill_along(const char *op, cr_tensor *to, const cr_tensor *x, int axis, const cr_tensor *index,
                             const cr_tensor *value) {
    cr_take_params p;
    int n;
    int64_t shape[CR_MAX_DIMS];
    if (!along(op, x, axis, index, &p) || !cr_given(op, "the value", value)) return NULL;
    if (value->ndim)
        return cr_fail(CR_BAD_VALUE, op, "the value must have no axes: %s", cr_shape_text(value->ndim, value->shape).s),
               NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    cr_tensor *line = line_for(x, index), *y = NULL;
    if (!line || cr_taken_shape(&p, x, line, shape, &n) != CR_OK) return cr_leave_with(to, NULL);
    if (cr_grad_enabled() && cr_in_graph(value)) y = fill_chosen(to, x, &p, line, value);
    else y = cr_put(&p, to, x, line, cr_expand(cr_to(value, x->dtype, x->dev), n, shape));
    return cr_named(op, before, cr_leave_with(to, y));
}

cr_tensor *cr_index_fill(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *value) {
    return fill_along("index_fill", NULL, x, axis, index, value);
}
cr_tensor *cr_index_fill_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *value) {
    return fill_along("index_fill_", x, x, axis, index, value);
}
