/* gather.c - reading and writing by tensors of indices and by masks. */
#include "extension.h"

#include <string.h>

cr_tensor *api_gather(const arg *a) { return cr_gather(a[0].t, axis(a[1].i), a[2].t); }
cr_tensor *api_take(const arg *a) { return cr_take(a[0].t, a[1].t); }
/* Along an axis the index is taken modulo its size, as in PyTorch: -1 is the last. */
cr_tensor *api_take_along_dim(const arg *a) {
    const int at = axis(a[2].i), n = cr_ndim(a[0].t);
    const int64_t size = at >= -n && at < n ? cr_size(a[0].t, at) : 0;
    const bool whole = !cr_dtype_is_float(cr_dtype_of(a[1].t)) && cr_dtype_of(a[1].t) != CR_BOOL;
    cr_scope_begin();
    if (a[2].given)
        return leave(
            cr_take_along_axis(a[0].t, at, size && whole ? cr_remainder(a[1].t, cr_scalar_int(size)) : a[1].t));
    return leave(cr_gather(cr_reshape(a[0].t, CR_LIST(-1)), 0, cr_reshape(a[1].t, CR_LIST(-1))));
}

/* (input, dim, index, src, value, reduce): src or value */
static const cr_tensor *source(const arg *a) {
    if (a[3].given != a[4].given) return a[3].given ? a[3].t : a[4].t;
    set_error(PyExc_TypeError, a[3].given ? "scatter() takes src or value, not both"
                                          : "scatter() missing required argument 'src' (position 4)");
    return NULL;
}
static cr_tensor *reduced(const arg *a, const cr_tensor *x, const cr_tensor *src) {
    const cr_tensor *index = a[2].t;
    if (!strcmp(a[5].s, "multiply")) return cr_scatter_multiply(x, axis(a[1].i), index, src);
    if (!strcmp(a[5].s, "add"))
        return cr_scatter_add(x, axis(a[1].i), index,
                              cr_ndim(src) ? src
                                           : cr_expand(cast(src, cr_dtype_of(x)), cr_ndim(index), cr_shape(index)));
    set_error(PyExc_RuntimeError, "[scatter] reduce is 'add' or 'multiply', not '%s'", a[5].s);
    return NULL;
}
/* The tensor that is to be written, or a copy where a gradient reads it. */
static const cr_tensor *not_written_over(const arg *a, const cr_tensor *src) {
    return cr_requires_grad(a[0].t) || cr_requires_grad(src) ? cr_clone(a[0].t) : a[0].t;
}
cr_tensor *api_scatter(const arg *a) {
    const cr_tensor *src = source(a);
    if (!src || !a[5].given) return src ? cr_scatter(a[0].t, axis(a[1].i), a[2].t, src) : NULL;
    cr_scope_begin();
    return leave(reduced(a, a[0].t, src));
}
cr_tensor *api_scatter_(const arg *a) {
    const cr_tensor *src = source(a);
    if (!src || !a[5].given) return src ? cr_scatter_(a[0].t, axis(a[1].i), a[2].t, src) : NULL;
    cr_scope_begin();
    const cr_tensor *x = not_written_over(a, src);
    cr_tensor *y = written("scatter_", a, x ? reduced(a, x, src) : NULL);
    cr_scope_end();
    return y;
}
cr_tensor *api_scatter_add(const arg *a) { return cr_scatter_add(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_scatter_add_(const arg *a) { return cr_scatter_add_(a[0].t, axis(a[1].i), a[2].t, a[3].t); }

/* (input, dim, index, src, reduce, include_self), of x instead of input */
static cr_tensor *scatter_reduced(const arg *a, const cr_tensor *x) {
    static const char *const kinds[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int k = 0; k < 5; k++)
        if (!strcmp(a[4].s, kinds[k]))
            return cr_scatter_reduce(x, axis(a[1].i), a[2].t, a[3].t, (cr_scatter_kind)k, a[5].b);
    set_error(PyExc_RuntimeError, "[scatter_reduce] reduce is 'sum', 'prod', 'mean', 'amax' or 'amin', not '%s'",
              a[4].s);
    return NULL;
}
cr_tensor *api_scatter_reduce(const arg *a) { return scatter_reduced(a, a[0].t); }
cr_tensor *api_scatter_reduce_(const arg *a) {
    cr_scope_begin();
    const cr_tensor *x = not_written_over(a, a[3].t);
    cr_tensor *y = written("scatter_reduce_", a, x ? scatter_reduced(a, x) : NULL);
    cr_scope_end();
    return y;
}

cr_tensor *api_index_select(const arg *a) { return cr_index_select(a[0].t, axis(a[1].i), a[2].t); }
cr_tensor *api_index_copy(const arg *a) { return cr_index_copy(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_index_copy_(const arg *a) { return cr_index_copy_(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_index_fill(const arg *a) { return cr_index_fill(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_index_fill_(const arg *a) { return cr_index_fill_(a[0].t, axis(a[1].i), a[2].t, a[3].t); }

/* (input, dim, index, source, alpha) */
static const cr_tensor *times_alpha(const arg *a) {
    return a[4].x.d == 1 ? a[3].t : cr_mul(a[3].t, scalar_of(&a[4].x));
}
cr_tensor *api_index_add(const arg *a) {
    cr_scope_begin();
    return leave(cr_index_add(a[0].t, axis(a[1].i), a[2].t, times_alpha(a)));
}
cr_tensor *api_index_add_(const arg *a) {
    cr_scope_begin();
    cr_tensor *x = cr_index_add_(a[0].t, axis(a[1].i), a[2].t, times_alpha(a));
    cr_scope_end();
    return x;
}

/* (input, indices, values, accumulate) */
static const cr_tensor **with_masks(const arg *list) {      /* uint8 is a mask, which the caller's scope owns */
    for (int i = 0; i < list->list.n; i++) {
        const cr_tensor *t = list->list.v[i], *mask = cr_dtype_of(t) == CR_U8 ? mask_of(t, "an index") : t;
        if (mask != t) cr_drop(t), list->list.v[i] = cr_retain(mask);
    }
    return list->list.v;
}
cr_tensor *api_index_put(const arg *a) {
    cr_scope_begin();
    return leave(cr_index_put(a[0].t, a[1].list.n, with_masks(&a[1]), a[2].t, a[3].b));
}
cr_tensor *api_index_put_(const arg *a) {
    cr_scope_begin();
    cr_tensor *x = cr_index_put_(a[0].t, a[1].list.n, with_masks(&a[1]), a[2].t, a[3].b);
    cr_scope_end();
    return x;
}

/* (input, mask, value): the value as an operand of where, in the scope of the caller */
static const cr_tensor *masked_value(const arg *a) {
    if (cr_ndim(a[2].t) == 0) return cast(a[2].t, cr_dtype_of(a[0].t));
    set_error(PyExc_RuntimeError, "[masked_fill] the value has %d axes: a number or a 0-d tensor is expected",
              cr_ndim(a[2].t));
    return NULL;
}
cr_tensor *api_masked_fill(const arg *a) {
    if (fits_double(&a[2])) return cr_masked_fill(a[0].t, a[1].t, cr_item(a[2].t));
    cr_scope_begin();
    return leave(cr_where(a[1].t, masked_value(a), a[0].t));
}
cr_tensor *api_masked_fill_(const arg *a) {
    if (fits_double(&a[2])) return cr_masked_fill_(a[0].t, a[1].t, cr_item(a[2].t));
    cr_scope_begin();
    cr_tensor *x = cr_program_apply_(cr_program_find("where"), a[0].t, 3,
                                     (const cr_tensor *const[]){a[1].t, masked_value(a), a[0].t}, NULL);
    cr_scope_end();
    return x;
}
cr_tensor *api_masked_select(const arg *a) { return cr_masked_select(a[0].t, a[1].t); }
cr_tensor *api_masked_scatter(const arg *a) { return cr_masked_scatter(a[0].t, a[1].t, a[2].t); }
cr_tensor *api_masked_scatter_(const arg *a) { return cr_masked_scatter_(a[0].t, a[1].t, a[2].t); }

cr_tensor *api_argwhere(const arg *a) { return cr_nonzero(a[0].t); }
cr_tensor *api_one_hot(const arg *a) { return cr_one_hot(a[0].t, a[1].i); }

/* One tensor for each axis of x; a scalar counts as a vector of one. */
static PyObject *nonzeros(cr_tensor *x) {
    cr_tensor *positions;
    Py_BEGIN_ALLOW_THREADS
    cr_scope_begin();
    positions = leave(cr_nonzero(cr_ndim(x) ? x : cr_reshape(x, CR_LIST(1))));
    Py_END_ALLOW_THREADS
    if (!positions) return raise_error();
    const int64_t n = cr_size(positions, 1);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *along = wrap(cr_select(positions, 1, i));
        if (along) PyTuple_SetItem(tuple, (Py_ssize_t)i, along);
        else Py_CLEAR(tuple);
    }
    cr_release(positions);
    return tuple;
}
PyObject *api_nonzero(const arg *a) {
    cr_tensor *y;
    if (a[1].b) return nonzeros(a[0].t);
    WITHOUT_GIL(y = cr_nonzero(a[0].t));
    return wrap(y);
}

static cr_tensor *where(const cr_tensor *condition, const cr_tensor *x, const cr_tensor *y) {
    cr_scope_begin();
    return leave(cr_where(cr_dtype_of(condition) == CR_U8 ? mask_of(condition, "a condition") : condition, x, y));
}
cr_tensor *api_where_method(const arg *a) { return where(a[1].t, a[0].t, a[2].t); }

PyObject *api_where(const arg *a) {
    cr_tensor *y;
    if (!a[1].given && !a[2].given) return nonzeros(a[0].t);
    if (!a[1].given || !a[2].given)
        return PyErr_Format(PyExc_TypeError, "where() missing required argument '%s'", a[1].given ? "other" : "input");
    WITHOUT_GIL(y = where(a[0].t, a[1].t, a[2].t));
    return wrap(y);
}
