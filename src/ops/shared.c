/* shared.c - shared by the structured ops: argument checks, and handles and arrays for kernels.
 * Nothing here is recorded. */
#include "compose.h"
#include "transform.h"

#include <math.h>
#include <string.h>

bool cr_given(const char *op, const char *what, const cr_tensor *t) {
    if (cr_missing(op, what, t)) return false;
    if (t == CR_NONE) return cr_fail(CR_BAD_VALUE, op, "%s is CR_NONE, but it is not optional", what), false;
    return true;
}

cr_status cr_want_float(const char *op, const cr_tensor *t) {
    if (cr_dtype_is_float(t->dtype)) return CR_OK;
    return cr_fail(CR_BAD_TYPE, op, "needs a floating point tensor: %s", cr_dtype_name(t->dtype));
}

cr_status cr_want_index(const char *op, const cr_tensor *t) {
    if (t->dtype == CR_I32 || t->dtype == CR_I64) return CR_OK;
    return cr_fail(CR_BAD_TYPE, op, "indices must be int32 or int64: %s", cr_dtype_name(t->dtype));
}

cr_status cr_want_same_dtype(const char *op, const cr_tensor *a, const cr_tensor *b) {
    if (a->dtype == b->dtype) return CR_OK;
    return cr_fail(CR_BAD_TYPE, op, "expected both to have the same dtype: %s, %s", cr_dtype_name(a->dtype),
                   cr_dtype_name(b->dtype));
}

/* Integers drop the fraction, as PyTorch's full and fill_ do; a number outside of the dtype's range is refused. */
static bool fits_dtype(double v, cr_dtype dt) {
    const double beyond = ldexp(1, cr_dtype_digits(dt));
    switch (cr_dtype_kind(dt)) {
        case CR_KIND_UNSIGNED: return v > -1 && v < beyond;
        case CR_KIND_SIGNED: return trunc(v) >= -beyond && v < beyond;
        default: return true;
    }
}

cr_status cr_element(const char *op, double v, cr_dtype dt, void *element) {
    bool ok = fits_dtype(v, dt);
    if (ok) cr_store_f64(element, dt, v);
    if (ok && cr_dtype_is_float(dt) && isfinite(v)) ok = isfinite(cr_load_f64(element, dt));
    return ok ? CR_OK : cr_fail(CR_BAD_VALUE, op, "%.17g does not fit %s", v, cr_dtype_name(dt));
}

cr_tensor *cr_packed_as(const cr_tensor *x, cr_dtype dt) {
    if (cr_want_values("copy", x) != CR_OK) return NULL;
    if (x->contiguous && x->dtype == dt) return cr_tensor_alias(x, NULL);
    cr_meta m = cr_meta_of(x);
    m.dtype = dt;
    cr_tensor *y = cr_new_like(&m, x->dev);
    if (y && cr_copy_elements(y, x) != CR_OK) { cr_release(y); return NULL; }
    return y;
}

cr_tensor *cr_packed(const cr_tensor *x) { return cr_packed_as(x, x->dtype); }

/* Axes that lie together in x's memory form a chunk; the new axes must fill each chunk exactly. */
bool cr_view_strides(const cr_tensor *x, int n, const int64_t *shape, int64_t *strides) {
    cr_strides_contiguous(n, shape, strides);
    if (x->contiguous || !x->ndim || !x->numel) return true;    /* a wrapper is never contiguous */
    int to = n - 1;
    int64_t chunk = 1, filled = 1, base = x->strides[x->ndim - 1];
    for (int from = x->ndim - 1; from >= 0; from--) {
        chunk *= x->shape[from];
        if (from && (x->shape[from - 1] == 1 || x->strides[from - 1] == chunk * base)) continue;
        while (to >= 0 && (filled < chunk || shape[to] == 1)) {
            strides[to] = filled * base;
            filled *= shape[to--];
        }
        if (filled != chunk) return false;
        if (from) base = x->strides[from - 1];
        chunk = filled = 1;
    }
    return to < 0;
}

cr_status cr_copy_array(const cr_array *dst, const cr_array *src) {
    if (!dst->numel) return CR_OK;
    if (cr_await("copy", dst->storage) != CR_OK || cr_await("copy", src->storage) != CR_OK) return cr_error_status();
    return cr_finished("copy", dst->dev->kernels->copy(&(cr_copy_args){*dst, *src}));
}

cr_status cr_copy_elements(cr_tensor *dst, const cr_tensor *src) { return cr_copy_array(&dst->array, &src->array); }

cr_status cr_copy_repeated(cr_tensor *dst, const cr_tensor *src) {
    const int more = dst->ndim - src->ndim;
    int64_t strides[CR_MAX_DIMS];
    for (int i = 0; i < dst->ndim; i++)
        strides[i] = i >= more && src->shape[i - more] == dst->shape[i] ? src->strides[i - more] : 0;
    const cr_array repeated = cr_array_strided(&src->array, dst->ndim, dst->shape, strides, src->offset);
    return cr_copy_array(&dst->array, &repeated);
}

cr_status cr_fill_array(const cr_array *dst, double v) {
    char element[8];
    if (!dst->numel) return CR_OK;
    cr_store_f64(element, dst->dtype, v);
    return cr_finished("fill", dst->dev->kernels->fill(&(cr_fill_args){*dst, element}));
}

cr_status cr_fill_elements(cr_tensor *dst, double v) { return cr_fill_array(&dst->array, v); }

cr_tensor *cr_filled(const cr_meta *m, const cr_device *dev, double v) {
    cr_tensor *y = cr_new_like(m, dev);
    if (y && cr_fill_elements(y, v) != CR_OK) { cr_release(y); return NULL; }
    return y;
}

cr_tensor *cr_fused(const cr_tensor *like) {
    cr_meta m = cr_meta_of(like);
    return cr_new_like(&m, like->dev);
}

cr_tensor *cr_fused_as(const cr_call *c, int i) {
    cr_meta m = cr_meta_of(c->in[i]);
    m.dtype = cr_gradient_dtype(c, i);
    return cr_new_like(&m, c->dev);
}

/* The walk takes what a node saved, unless the graph is kept.  Then the handle has the only reference to the storage,
 * if no other tensor or node has one.  Borrowed memory, which has no `free`, may be read by others, or only be read. */
cr_tensor *cr_fused_over(const cr_call *c, const cr_tensor *saved) {
    const bool ours = !c->differentiable && atomic_load(&saved->refs) == 1 && atomic_load(&saved->storage->refs) == 1 &&
                      saved->contiguous && saved->storage->free;
    return ours ? (cr_tensor *)(uintptr_t)saved : cr_fused(saved);
}

cr_tensor *cr_apply_with_index(const cr_op *op, const cr_tensor *x, const void *params, cr_tensor **index) {
    cr_tensor *at, *y = cr_apply_aux(op, 1, &x, params, &at);
    if (index) *index = at;
    else cr_release(at);
    return y;
}

cr_tensor *cr_spread_at(const cr_call *c, const cr_tensor *g, int axis, const cr_tensor *index) {
    const cr_tensor *x = c->in[0];
    return cr_scatter_add(cr_zeros(x->ndim, x->shape, x->dtype, c->dev), axis, index, cast_to(g, x->dtype));
}

void cr_rows_of(const cr_tensor *x, int64_t *M, int64_t *N) {
    *N = x->ndim ? x->shape[x->ndim - 1] : 1;
    *M = 1;
    for (int i = 0; i < x->ndim - 1; i++) *M *= x->shape[i];
}

cr_array cr_rows_array(const cr_tensor *x) {
    int64_t M, N;
    cr_rows_of(x, &M, &N);
    return cr_array_as(&x->array, CR_LIST(M, N));
}

cr_array cr_around(const cr_array *a, int axis, int count) {
    int64_t shape[3] = {1, 1, 1};
    for (int i = 0; i < a->ndim; i++) shape[i < axis ? 0 : i < axis + count ? 1 : 2] *= a->shape[i];
    return cr_array_as(a, 3, shape);
}

cr_status cr_pack(cr_array *a) {
    if (a->contiguous || !a->storage) return CR_OK;
    cr_meta m = {.dtype = a->dtype, .ndim = a->ndim};
    memcpy(m.shape, a->shape, sizeof m.shape);
    const cr_tensor *copy = cr_new_like(&m, a->dev);
    const cr_status status = copy ? cr_copy_array(&copy->array, a) : cr_error_status();
    if (status == CR_OK) *a = copy->array;
    return status;
}

cr_status cr_see_as(const cr_tensor *x, int n, const int64_t *shape, cr_array *a) {
    int64_t strides[CR_MAX_DIMS];
    if (cr_view_strides(x, n, shape, strides)) {
        *a = cr_array_strided(&x->array, n, shape, strides, x->offset);
        return CR_OK;
    }
    *a = x->array;
    const cr_status status = cr_pack(a);
    *a = cr_array_as(a, n, shape);
    return status;
}

cr_tensor *cr_named(const char *op, cr_status before, cr_tensor *y) {
    cr_saved_error e;
    if (y || before != CR_OK) return y;
    cr_error_take(&e);
    const char *text = strstr(e.message, "] ");
    cr_fail(e.status, op, "%s", text ? text + 2 : e.message);
    return NULL;
}
