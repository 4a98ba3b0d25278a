/* advanced_index.c - keys of index tensors and bool masks, x[a, :, b] and x[mask], and where a mask is true.
 *
 * A key says for the axes of x, in order: CR_NONE, the whole axis; integers, positions along it; a
 * bool mask of d axes, the positions in d axes of x where it is true, one after the other.  Integers and
 * masks broadcast to one shape I, which in the result stands where the axes stood that they index, or
 * in front if those are not neighbours.  All of it comes down to one index along one axis (take.c). */
#include "compose.h"
#include "transform.h"

#include <string.h>

/* ---- nonzero: where x, a bool tensor, is true : (K, ndim) i64, in memory one axis after the other */
typedef struct nonzero_params { int64_t count; } nonzero_params;

static cr_status nonzero_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const int64_t K = ((const nonzero_params *)c->params)->count;
    *out = (cr_meta){.dtype = CR_I64, .ndim = 2, .shape = {K, c->in[0]->ndim}, .strides = {1, K}, .strided = true};
    return cr_shape_check("nonzero", 2, out->shape, CR_I64, NULL);
}

static cr_status nonzero_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    int64_t count;
    return out->numel ? c->dev->kernels->nonzero(&(cr_nonzero_args){out->array, c->in[0]->array, &count}) : CR_OK;
}

const cr_op cr_op_nonzero = {
    .name = "nonzero",
    .arity = 1,
    .params_bytes = sizeof(nonzero_params),
    .contiguous = true,
    .infer = nonzero_infer,
    .forward = nonzero_forward,
    .no_grad = "positions are integers",
};

cr_tensor *cr_nonzero(const cr_tensor *x) {
    nonzero_params p = {0};
    if (!cr_given("nonzero", "x", x)) return NULL;
    cr_scope_begin();
    const cr_tensor *mask = cr_contiguous(x->dtype == CR_BOOL ? x : cr_ne(x, cr_scalar_int(0)));
    bool counted = mask && cr_await("nonzero", mask->storage) == CR_OK;
    if (counted && mask->numel)
        counted = mask->dev->kernels->nonzero(&(cr_nonzero_args){.x = mask->array, .count = &p.count}) == CR_OK;
    return cr_leave(counted ? cr_apply(&cr_op_nonzero, 1, &mask, &p) : NULL);
}

cr_tensor *cr_mask_positions(const cr_tensor *mask) {
    cr_tensor *at = mask ? cr_nonzero(cr_reshape(mask, 1, &mask->numel)) : NULL;
    return at ? cr_reshape(at, 1, &at->numel) : NULL;
}

/* ---- ravel: positions along several axes as positions in all of them : n x (I) -> (I) i64, negative
 * ones counted from the end */
typedef struct ravel_params { const char *name; int64_t size[CR_MAX_DIMS]; } ravel_params;

static const char *ravel_name(const void *p) { return ((const ravel_params *)p)->name; }

static cr_status ravel_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    out->dtype = CR_I64;
    return CR_OK;
}

static cr_status ravel_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const ravel_params *p = c->params;
    const cr_array *index[CR_MAX_DIMS];
    for (int i = 0; i < c->n; i++) index[i] = &c->in[i]->array;
    return out->numel ? c->dev->kernels->ravel(&(cr_ravel_args){p->name, out->array, c->n, index, p->size}) : CR_OK;
}

const cr_op cr_op_ravel = {
    .name = "ravel",
    .name_of = ravel_name,
    .arity = -1,
    .params_bytes = sizeof(ravel_params),
    .contiguous = true,
    .infer = ravel_infer,
    .forward = ravel_forward,
    .batch = cr_batch_all,
    .no_grad = "positions are integers",
};

/* ---- keys */
/* what indexes `count` axes of x, of `size` positions */
typedef struct part { int axis, count; const cr_tensor *given; int64_t size; } part;

typedef struct key {
    int n; part parts[CR_MAX_DIMS];
    const cr_tensor *x;                             /* with the axes that they index as neighbours */
    bool moved; int8_t order[CR_MAX_DIMS];          /* its axis i is the given one's axis order[i] */
    const cr_tensor *index;                         /* all parts as one, once it was asked for */
    cr_take_params take;
} key;

static bool is_mask(const part *p) { return p->given->dtype == CR_BOOL; }

static bool read_parts(const cr_tensor *x, int given, const cr_tensor *const *index, key *k) {
    const char *op = k->take.name;
    int axis = 0;
    for (int i = 0; i < given; i++) {
        const cr_tensor *t = index[i];
        if (cr_missing(op, "an index", t)) return false;
        const int count = t != CR_NONE && t->dtype == CR_BOOL ? t->ndim : 1;
        if (axis + count > x->ndim)
            return cr_fail(CR_BAD_INDEX, op, "too many indices for a tensor of %d axes", x->ndim), false;
        axis += count;
        if (t == CR_NONE) continue;
        if (k->n == CR_MAX_DIMS) return cr_fail(CR_BAD_INDEX, op, "more than %d index tensors", CR_MAX_DIMS), false;
        part *p = &k->parts[k->n++];
        *p = (part){axis - count, count, t, 1};
        if (cr_dtype_is_float(t->dtype) || t->dtype == CR_U64)
            return cr_fail(CR_BAD_INDEX, op,
                           "an index tensor holds signed integers, unsigned ones of at most 32 bits, or bool: %s",
                           cr_dtype_name(t->dtype)),
                   false;
        const int64_t *sizes = x->shape + p->axis;
        if (is_mask(p) && memcmp(t->shape, sizes, sizeof *sizes * (size_t)count))
            return cr_fail(CR_BAD_INDEX, op, "a mask of shape %s for the axes of shape %s",
                           cr_shape_text(count, t->shape).s, cr_shape_text(count, sizes).s),
                   false;
        for (int d = 0; d < count; d++) p->size *= sizes[d];
    }
    return true;
}

/* The parts' axes become neighbours: they stay where they are or go in front. */
static bool move_parts(const cr_tensor *x, key *k) {
    bool indexed[CR_MAX_DIMS] = {false};
    int64_t order[CR_MAX_DIMS];
    int at = 0;
    k->x = x;
    k->take.axis = k->parts[0].axis;
    for (const part *p = k->parts; p < k->parts + k->n; p++) {
        if (p > k->parts && p->axis != p[-1].axis + p[-1].count) k->moved = true;
        for (int d = p->axis; d < p->axis + p->count; d++) {
            indexed[d] = true;
            order[at++] = d;
        }
    }
    k->take.count = at;
    if (!k->moved) return true;
    for (int d = 0; d < x->ndim; d++) if (!indexed[d]) order[at++] = d;
    for (int d = 0; d < x->ndim; d++) k->order[d] = (int8_t)order[d];
    k->take.axis = 0;
    k->x = cr_permute(x, x->ndim, order);
    return k->x;
}

static bool read_key(const char *op, const cr_tensor *x, int given, const cr_tensor *const *index, key *k) {
    *k = (key){.take = {.name = op}};
    if (!cr_given(op, "x", x)) return false;
    if (given < 0) return cr_fail(CR_BAD_VALUE, op, "%d indices", given), false;
    if (given && !index) return cr_fail_null(op, "the list of indices"), false;
    return read_parts(x, given, index, k) && (!k->n || move_parts(x, k));
}

/* The shape of two index tensors broadcast; where that cannot be it is an error of the index. */
static bool meet(const char *op, const cr_tensor *t, int *ndim, int64_t *shape) {
    for (int i = 1; i <= t->ndim && i <= *ndim; i++) {
        const int64_t a = shape[*ndim - i], b = t->shape[t->ndim - i];
        if (a != b && a != 1 && b != 1)
            return cr_fail(CR_BAD_INDEX, op, "index tensors of shapes %s and %s do not broadcast",
                           cr_shape_text(*ndim, shape).s, cr_shape_text(t->ndim, t->shape).s),
                   false;
    }
    return cr_broadcast(op, *ndim, shape, t->ndim, t->shape, ndim, shape) == CR_OK;
}

/* Masks become positions, and all parts one index of the shape that they broadcast to; false: a message. */
static bool locate(key *k) {
    ravel_params p = {.name = k->take.name};
    const cr_tensor *in[CR_MAX_DIMS];
    int ndim = 0;
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < k->n; i++) {
        const cr_tensor *given = k->parts[i].given;
        in[i] = is_mask(&k->parts[i])                 ? cr_mask_positions(given)
                : given->dtype == CR_I32 && k->n == 1 ? given
                                                      : cast_to(given, CR_I64);
        if (!in[i] || !meet(k->take.name, in[i], &ndim, shape)) return false;
        p.size[i] = k->parts[i].size;
    }
    k->take.wrap = k->n == 1 && !is_mask(k->parts);
    for (int i = 0; k->n > 1 && i < k->n; i++) in[i] = cr_expand(in[i], ndim, shape);
    k->index = k->n > 1 ? cr_apply(&cr_op_ravel, k->n, in, &p) : in[0];
    return k->index;
}

cr_tensor *cr_index_get(const cr_tensor *x, int n, const cr_tensor *const *index) {
    key k;
    cr_scope_begin();
    if (!read_key("index", x, n, index, &k)) return cr_leave(NULL);
    if (!k.n) return cr_leave(cr_alias(x));
    return cr_leave(locate(&k) ? cr_apply(&cr_op_take, 2, (const cr_tensor *[]){k.x, k.index}, &k.take) : NULL);
}

/* values, cast to x's dtype and broadcast to what the key sees; leading axes of size 1 more than that
 * fall away; one without axes comes from any device */
static const cr_tensor *fitted(const key *k, const cr_tensor *values) {
    int ndim, n = 0, ones = 0;
    int64_t shape[CR_MAX_DIMS], both[CR_MAX_DIMS];
    if (cr_taken_shape(&k->take, k->x, k->index, shape, &ndim) != CR_OK) return NULL;
    while (ones < values->ndim - ndim && values->shape[ones] == 1) ones++;
    if (ones) values = cr_reshape(values, values->ndim - ones, values->shape + ones);
    if (!values || cr_broadcast(k->take.name, values->ndim, values->shape, ndim, shape, &n, both) != CR_OK) return NULL;
    if (!cr_shape_equal(n, both, ndim, shape))
        return cr_fail(CR_BAD_VALUE, k->take.name, "values of shape %s do not broadcast into %s",
                       cr_shape_text(values->ndim, values->shape).s, cr_shape_text(ndim, shape).s),
               NULL;
    return cr_expand(values->ndim ? cast_to(values, k->x->dtype) : cr_to(values, k->x->dtype, k->x->dev), ndim, shape);
}

/* One value at the positions of one mask: its positions are not needed. */
static cr_tensor *fill_mask(cr_tensor *to, const cr_tensor *x, const key *k, const cr_tensor *value) {
    const cr_tensor *mask = k->parts[0].given;
    int64_t shape[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    memcpy(shape, mask->shape, sizeof *shape * (size_t)mask->ndim);
    return cr_masked_where(to, x, cr_reshape(mask, x->ndim - k->take.axis, shape), cr_reshape(value, CR_ALL));
}

/* In place through the view with its axes moved; else they are moved back. */
static cr_tensor *put_moved(cr_tensor *to, const cr_tensor *x, const key *k, const cr_tensor *src) {
    if (to) return cr_put(&k->take, (cr_tensor *)(uintptr_t)k->x, k->x, k->index, src) ? to : NULL;
    int64_t back[CR_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++) back[k->order[d]] = d;
    return cr_permute(cr_put(&k->take, NULL, k->x, k->index, src), x->ndim, back);
}

static cr_tensor *put_values(const char *op, cr_tensor *to, const cr_tensor *x, int n, const cr_tensor *const *index,
                      const cr_tensor *values, bool accumulate) {
    key k;
    const cr_tensor *src;
    cr_tensor *y = NULL;
    if (!cr_given(op, "values", values)) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    if (!read_key(op, x, n, index, &k)) return cr_leave_with(to, NULL);
    k.take.sum = accumulate;
    if (!k.n) cr_fail(CR_BAD_INDEX, op, "no index tensor is given");
    else if (k.n == 1 && is_mask(k.parts) && k.take.count && !accumulate && values->numel == 1 && values->ndim < 2)
        y = fill_mask(to, x, &k, values);
    else if (locate(&k) && (src = fitted(&k, values)))
        y = k.moved ? put_moved(to, x, &k, src) : cr_put(&k.take, to, x, k.index, src);
    return cr_named(op, before, cr_leave_with(to, y));
}

cr_tensor *cr_index_put(const cr_tensor *x, int n, const cr_tensor *const *index, const cr_tensor *values,
                        bool accumulate) {
    return put_values("index_put", NULL, x, n, index, values, accumulate);
}
cr_tensor *cr_index_put_(cr_tensor *x, int n, const cr_tensor *const *index, const cr_tensor *values, bool accumulate) {
    return put_values("index_put_", x, x, n, index, values, accumulate);
}
