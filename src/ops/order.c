/* order.c - the elements of an axis in order: all of them (sort), the first few (topk), one of them
 * (kthvalue, median), and where a number belongs among them (searchsorted).  Fast twins of the
 * kernels: dev/cpu/order.c. */
#include "compose.h"
#include "transform.h"

#include <math.h>
#include <string.h>

/* ---- rows along an axis */
static int64_t row_size(const cr_tensor *x, int axis) { return x->ndim ? x->shape[axis] : 1; }

/* x with the axis last, as contiguous rows (M, R); the scope around owns a copy. */
static cr_status rows_along(const cr_tensor *x, int axis, cr_array *rows) {
    const int64_t R = row_size(x, axis);
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS];
    int n = 0;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < x->ndim; i++)
            if ((i == axis) == last) shape[n] = x->shape[i], strides[n++] = x->strides[i];
    *rows = cr_array_strided(&x->array, n, shape, strides, x->offset);
    const cr_status status = cr_pack(rows);
    *rows = cr_array_as(rows, CR_LIST(x->numel / R, R));
    return status;
}

/* x's shape with K along the axis, which has stride 1: a kernel writes rows of K. */
static cr_meta meta_of_rows(const cr_tensor *x, int axis, int64_t K, cr_dtype dt) {
    cr_meta m = {.dtype = dt, .ndim = x->ndim, .strided = axis < x->ndim - 1 && x->numel && K};
    int64_t stride = K;
    for (int i = x->ndim - 1; i >= 0; i--) {
        m.shape[i] = i == axis ? K : x->shape[i];
        m.strides[i] = i == axis ? 1 : stride;
        if (i != axis) stride *= x->shape[i];
    }
    return m;
}

/* ---- sort: the elements of an axis, or the first K of them, in order; stable; NaN is the largest */
typedef struct sort_params { int axis; bool descending; int64_t K; } sort_params;     /* the first K of each row */

static cr_status sort_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    const sort_params *p = c->params;
    *out = meta_of_rows(x, p->axis, p->K, x->dtype);
    aux[0] = meta_of_rows(x, p->axis, p->K, CR_I64);
    return CR_OK;
}

static cr_status sort_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const cr_tensor *x = c->in[0];
    const sort_params *p = c->params;
    if (!out->numel) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    const int64_t M = out->numel / p->K;
    cr_sort_args args = {.y = cr_array_as(&out->array, CR_LIST(M, p->K)),
                         .index = cr_array_as(&aux[0]->array, CR_LIST(M, p->K)),
                         .descending = p->descending};
    cr_status status = rows_along(x, p->axis, &args.x);
    if (status == CR_OK) status = c->dev->kernels->sort(&args);
    cr_scope_leave(&own);
    return status;
}

/* y = x[index]:  dx = zeros with g added at index */
static void sort_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    dx[0] = cr_spread_at(c, g, ((const sort_params *)c->params)->axis, c->aux[0]);
}

static cr_tensor *sort_tangent(const cr_call *c, const cr_tensor *const *t) {
    return c->out->ndim ? cr_gather(t[0], ((const sort_params *)c->params)->axis, c->aux[0]) : same(t[0]);
}

const cr_op cr_op_sort = {
    .name = "sort", .arity = 1, .params_bytes = sizeof(sort_params), .saves = CR_SAVE_AUX, .n_aux = 1,
    .infer = sort_infer, .forward = sort_forward, .grad = sort_grad,
    .batch = cr_batch_axis, .tangent = sort_tangent,
};

static cr_tensor *sort(const char *op, const cr_tensor *x, int axis, bool descending, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given(op, "x", x)) return NULL;
    const int a = cr_axis(op, axis, x->ndim);
    return a < 0 ? NULL : cr_apply_with_index(&cr_op_sort, x, &(sort_params){a, descending, row_size(x, a)}, index);
}

cr_tensor *cr_sort(const cr_tensor *x, int axis, bool descending, cr_tensor **index) {
    return sort("sort", x, axis, descending, index);
}

cr_tensor *cr_argsort(const cr_tensor *x, int axis, bool descending) {
    cr_tensor *index;
    bool recording = cr_set_grad_enabled(false);
    cr_release(sort("argsort", x, axis, descending, &index));
    cr_set_grad_enabled(recording);
    return index;
}

cr_tensor *cr_topk(const cr_tensor *x, int64_t k, int axis, bool largest, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given("topk", "x", x)) return NULL;
    int a = cr_axis("topk", axis, x->ndim);
    if (a < 0) return NULL;
    if (k < 0 || k > row_size(x, a))
        return cr_fail(CR_BAD_VALUE, "topk", "k is %lld, but axis %d of %s has %lld elements", (long long)k, a,
                       cr_shape_text(x->ndim, x->shape).s, (long long)row_size(x, a)),
               NULL;
    /* a scalar stays one */
    return cr_apply_with_index(&cr_op_sort, x, &(sort_params){a, largest, x->ndim ? k : 1}, index);
}

/* ---- kth: one element of an axis in its order (kthvalue, median) */
/* k: from 0, or a cr_kth; share: equal elements share the gradient */
typedef struct kth_params { int axis; bool keepdim, share; int64_t k; } kth_params;

static cr_status kth_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    const kth_params *p = c->params;
    *out = (cr_meta){.dtype = x->dtype};
    for (int i = 0; i < x->ndim; i++)
        if (i != p->axis || p->keepdim) out->shape[out->ndim++] = i == p->axis ? 1 : x->shape[i];
    aux[0] = *out;
    aux[0].dtype = CR_I64;
    return CR_OK;
}

static cr_status kth_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const cr_tensor *x = c->in[0];
    const kth_params *p = c->params;
    if (!out->numel) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    cr_kth_args args = {.y = out->array, .index = aux[0]->array, .k = p->k};
    cr_status status = rows_along(x, p->axis, &args.x);
    if (status == CR_OK) status = c->dev->kernels->kth(&args);
    cr_scope_leave(&own);
    return status;
}

/* With the axis, as 1. */
static cr_tensor *with_axis(const cr_tensor *t, const kth_params *p, const cr_tensor *x) {
    return p->keepdim || !x->ndim ? same(t) : cr_unsqueeze(t, p->axis);
}

/* y = x[index]:  dx = zeros with g at index; or, shared, g / (how many x are y) where x is y */
static void kth_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const kth_params *p = c->params;
    const cr_tensor *x = c->in[0];
    if (!p->share) { dx[0] = cr_spread_at(c, with_axis(g, p, x), p->axis, with_axis(c->aux[0], p, x)); return; }
    cr_tensor *y = with_axis(c->out, p, x), *hit = cr_logical_or(cr_eq(x, y), cr_logical_and(cr_isnan(x), cr_isnan(y)));
    cr_tensor *count = cast_to(cr_sum(hit, CR_LIST(p->axis), true), x->dtype);
    dx[0] = mul(hit, divide(with_axis(g, p, x), count));
}

static uint32_t kth_saves(const cr_call *c) {
    return ((const kth_params *)c->params)->share ? CR_SAVE_IN(0) | CR_SAVE_OUT : CR_SAVE_AUX;
}

/* The tangent at index or, shared, the mean of those where x is y. */
static cr_tensor *kth_tangent(const cr_call *c, const cr_tensor *const *t) {
    const kth_params *p = c->params;
    if (!c->in[0]->ndim) return same(t[0]);
    const cr_tensor *one = cr_ones_like(c->out);
    cr_tensor *dx = NULL;
    if (one) kth_grad(c, one, &dx);
    return dx ? cr_sum(mul(dx, t[0]), CR_LIST(p->axis), p->keepdim) : NULL;
}

const cr_op cr_op_kth = {
    .name = "kthvalue", .arity = 1, .params_bytes = sizeof(kth_params), .saves_for = kth_saves, .n_aux = 1,
    .infer = kth_infer, .forward = kth_forward, .grad = kth_grad,
    .batch = cr_batch_axis, .tangent = kth_tangent,
};

/* Not empty along the axis, unless nothing is asked for. */
static bool has_elements(const char *op, const cr_tensor *x, int axis) {
    if (row_size(x, axis)) return true;
    cr_fail(CR_BAD_INDEX, op, "axis %d of %s is empty: there is no element to give", axis,
            cr_shape_text(x->ndim, x->shape).s);
    return false;
}

cr_tensor *cr_kthvalue(const cr_tensor *x, int64_t k, int axis, bool keepdim, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given("kthvalue", "x", x)) return NULL;
    int a = cr_axis("kthvalue", axis, x->ndim);
    if (a < 0 || !has_elements("kthvalue", x, a)) return NULL;
    if (k < 1 || k > row_size(x, a))
        return cr_fail(CR_BAD_VALUE, "kthvalue", "k is %lld, but axis %d of %s has elements 1 to %lld", (long long)k, a,
                       cr_shape_text(x->ndim, x->shape).s, (long long)row_size(x, a)),
               NULL;
    return cr_apply_with_index(&cr_op_kth, x, &(kth_params){a, keepdim, false, k - 1}, index);
}

static cr_tensor *median(const char *op, cr_kth k, const cr_tensor *x, int n, const int64_t *axis, bool keepdim,
                         cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given(op, "x", x)) return NULL;
    if (n > 1) return cr_fail(CR_BAD_VALUE, op, "%d axes: one, or all of them (CR_ALL)", n), NULL;
    int a = n ? cr_axis(op, axis[0], x->ndim) : 0;
    if (a < 0) return NULL;
    if (n)
        return has_elements(op, x, a) ? cr_apply_with_index(&cr_op_kth, x, &(kth_params){a, keepdim, false, k}, index)
                                      : NULL;
    if (!x->numel && !cr_dtype_is_float(x->dtype))
        return cr_fail(CR_BAD_VALUE, op, "of no %s there is none", cr_dtype_name(x->dtype)), NULL;
    if (!x->numel && !index) return cr_full(CR_ALL, NAN, x->dtype, x->dev);
    int64_t ones[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    cr_scope_begin();
    cr_tensor *flat = cr_reshape(x, CR_LIST(-1)),
              *y = flat && has_elements(op, flat, 0)
                       ? cr_apply_with_index(&cr_op_kth, flat, &(kth_params){0, false, true, k}, index)
                       : NULL;
    if (keepdim && index) *index = cr_reshape(*index, x->ndim, ones);
    if (keepdim) y = cr_reshape(y, x->ndim, ones);
    if (index && *index) cr_keep(*index);
    return cr_leave(y);
}

cr_tensor *cr_median(const cr_tensor *x, int n, const int64_t *axis, bool keepdim, cr_tensor **index) {
    return median("median", CR_KTH_MEDIAN, x, n, axis, keepdim, index);
}
cr_tensor *cr_nanmedian(const cr_tensor *x, int n, const int64_t *axis, bool keepdim, cr_tensor **index) {
    return median("nanmedian", CR_KTH_NANMEDIAN, x, n, axis, keepdim, index);
}

/* ---- search: how many numbers of a sorted row are less than each of the values (searchsorted) */
typedef struct search_params { bool right; } search_params;

static cr_status search_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *v = c->in[1];
    bool fits = x->ndim == 1 || (x->ndim && x->ndim == v->ndim);
    for (int i = 0; fits && i < x->ndim - 1; i++) fits = x->shape[i] == v->shape[i];
    if (!fits)
        return cr_fail(CR_BAD_VALUE, "searchsorted",
                       "rows %s for numbers %s: one row, or as many as there are rows of numbers",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(v->ndim, v->shape).s);
    *out = cr_meta_of(v);
    out->dtype = CR_I64;
    return cr_want_same_dtype("searchsorted", x, v);
}

static cr_status search_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0], *v = c->in[1];
    const cr_array rows = x->ndim == 1 ? x->array : cr_rows_array(x);
    const bool right = ((const search_params *)c->params)->right;
    return out->numel ? c->dev->kernels->search(&(cr_search_args){cr_rows_array(out), rows, cr_rows_array(v), right})
                      : CR_OK;
}

/* vmap: a row for each sample is (size, N), so the numbers of each sample are one row too. */
static cr_tensor *search_batch(const cr_batched *b) {
    if (!b->has[0] && b->call->in[0]->ndim == 1) return cr_batch_same(b);
    const cr_tensor *v = cr_batch_in(b, 1);
    const bool row = b->call->in[0]->ndim == 1;
    if (row && v) v = cr_reshape(v, CR_LIST(b->size, b->call->in[1]->numel));
    const cr_tensor *in[] = {cr_batch_in(b, 0), v};
    return cr_batch_shaped(b, cr_batch_apply(b, in, b->call->params), b->out);
}

const cr_op cr_op_search = {
    .name = "searchsorted",
    .arity = 2,
    .params_bytes = sizeof(search_params),
    .contiguous = true,
    .infer = search_infer,
    .forward = search_forward,
    .batch = search_batch,
    .no_grad = "positions are integers",
};

cr_dtype cr_compared(const cr_tensor *x, const cr_tensor *v) {
    if (!(v->flags & CR_FLAG_WEAK)) return cr_promote(x->dtype, v->dtype);
    return cr_dtype_is_float(v->dtype) && !cr_dtype_is_float(x->dtype) ? CR_F64 : x->dtype;
}

cr_tensor *cr_searchsorted(const cr_tensor *sorted, const cr_tensor *v, bool right, const cr_tensor *sorter) {
    if (!cr_given("searchsorted", "the sorted row", sorted) || !cr_given("searchsorted", "the numbers", v)) return NULL;
    if (!sorter) return cr_fail_null("searchsorted", "sorter"), NULL;
    if (sorter != CR_NONE && (!cr_shape_equal(sorter->ndim, sorter->shape, sorted->ndim, sorted->shape)))
        return cr_fail(CR_BAD_VALUE, "searchsorted", "the sorter %s does not cover %s",
                       cr_shape_text(sorter->ndim, sorter->shape).s, cr_shape_text(sorted->ndim, sorted->shape).s),
               NULL;
    const cr_dtype dt = cr_compared(sorted, v);
    cr_scope_begin();
    bool recording = cr_set_grad_enabled(false);
    const cr_tensor *in[] = {cast_to(sorter == CR_NONE ? sorted : cr_gather(sorted, -1, sorter), dt),
                             v->flags & CR_FLAG_WEAK ? cr_to(v, dt, sorted->dev) : cast_to(v, dt)};
    cr_tensor *y = in[0] && in[1] ? cr_apply(&cr_op_search, 2, in, &(search_params){right}) : NULL;
    cr_set_grad_enabled(recording);
    return cr_leave(y);
}
