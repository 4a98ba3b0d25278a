/* views.c - views: other shapes, axes and parts of the same memory, one or several at once. */
#include "extension.h"

#include <string.h>

cr_tensor *api_reshape(const arg *a) { return cr_reshape(a[0].t, a[1].size.n, a[1].size.v); }
/* (input, *shape, dtype) */
cr_tensor *api_view(const arg *a) {
    if (!a[2].given) return cr_view(a[0].t, a[1].size.n, a[1].size.v);
    if (!a[1].given) return cr_view_dtype(a[0].t, a[2].dt);
    return set_error(PyExc_TypeError, "view(): a shape and a dtype exclude one another"), NULL;
}
cr_tensor *api_expand(const arg *a) { return cr_expand(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_broadcast_to(const arg *a) { return cr_expand(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_expand_as(const arg *a) { return cr_expand(a[0].t, cr_ndim(a[1].t), cr_shape(a[1].t)); }
cr_tensor *api_view_as(const arg *a) { return cr_view(a[0].t, cr_ndim(a[1].t), cr_shape(a[1].t)); }
cr_tensor *api_reshape_as(const arg *a) { return cr_reshape(a[0].t, cr_ndim(a[1].t), cr_shape(a[1].t)); }
cr_tensor *api_permute(const arg *a) { return cr_permute(a[0].t, a[1].size.n, a[1].size.v); }

cr_tensor *api_transpose(const arg *a) { return cr_transpose(a[0].t, axis(a[1].i), axis(a[2].i)); }
cr_tensor *api_flatten(const arg *a) { return cr_flatten(a[0].t, axis(a[1].i), axis(a[2].i)); }
cr_tensor *api_ravel(const arg *a) { return cr_flatten(a[0].t, 0, -1); }
cr_tensor *api_unsqueeze(const arg *a) { return cr_unsqueeze(a[0].t, axis(a[1].i)); }
cr_tensor *api_select(const arg *a) { return cr_select(a[0].t, axis(a[1].i), a[2].i); }

cr_tensor *api_t(const arg *a) {
    if (cr_ndim(a[0].t) == 2) return cr_transpose(a[0].t, 0, 1);
    /* a view of it as it is */
    if (cr_ndim(a[0].t) < 2) return cr_expand(a[0].t, cr_ndim(a[0].t), cr_shape(a[0].t));
    set_error(PyExc_RuntimeError, "t() expects a tensor with <= 2 dimensions, but self is %dD", cr_ndim(a[0].t));
    return NULL;
}

/* 0 ... ndim - 1, or -1 and an IndexError */
static int checked_axis(const char *op, int64_t i, int ndim) {
    int n = ndim ? ndim : 1;
    if (i >= -n && i < n) return (int)(i < 0 ? i + n : i);
    set_error(PyExc_IndexError, "[%s] axis %lld of a tensor of %d axes", op, (long long)i, ndim);
    return -1;
}

static int own_axis(const char *op, const arg *a, const arg *dim) {
    if (cr_ndim(a[0].t)) return checked_axis(op, dim->i, cr_ndim(a[0].t));
    set_error(strcmp(op, "unbind") ? PyExc_RuntimeError : PyExc_IndexError,
              "[%s] expects at least a 1-dimensional tensor", op);
    return -1;
}

cr_tensor *api_unflatten(const arg *a) { return cr_unflatten(a[0].t, axis(a[1].i), a[2].size.n, a[2].size.v); }

cr_tensor *api_squeeze(const arg *a) {
    if (!a[1].given) return cr_squeeze(a[0].t, CR_ALL);
    int64_t ones[CR_MAX_DIMS];
    int n = 0, ndim = cr_ndim(a[0].t);
    unsigned seen = 0;
    for (int i = 0; i < a[1].size.n; i++) {          /* axes of another size stay, as in PyTorch */
        int at = checked_axis("squeeze", a[1].size.v[i], ndim);
        if (at < 0) return NULL;
        if (seen >> at & 1) {
            set_error(PyExc_RuntimeError, "[squeeze] axis %d is named twice", at);
            return NULL;
        }
        seen |= 1u << at;
        if (ndim && cr_size(a[0].t, at) == 1) ones[n++] = at;
    }
    return n ? cr_squeeze(a[0].t, n, ones) : cr_reshape(a[0].t, ndim, cr_shape(a[0].t));
}

/* ---- in place: the object itself becomes the view.  A leaf stays the leaf that it is; a result of the graph gets the
 * node of the view in every mode, since its values are the same. */
static PyObject *reshaped(const arg *a, const char *name, cr_tensor *(*view)(const arg *)) {
    PyObject *self = a[0].from;
    const bool in_graph = cr_requires_grad(a[0].t), leaf = cr_is_leaf(a[0].t), retains = cr_retains_grad(a[0].t);
    if (in_graph && leaf && cr_grad_enabled())
        return PyErr_Format(PyExc_RuntimeError, "[%s] a leaf Variable that requires grad is being used in an in-place "
                            "operation.", name);
    const bool mode = cr_set_grad_enabled(cr_grad_enabled() || !leaf);
    cr_tensor *y = view(a);
    const bool recorded = cr_set_grad_enabled(mode);
    if (!y || recorded) {
        if (!become(self, y)) return NULL;
        if (retains) cr_retain_grad(handle(self));
        return Py_NewRef(self);
    }
    const bool ok = become_data(self, y);
    cr_release(y);
    return ok ? Py_NewRef(self) : NULL;
}
PyObject *api_unsqueeze_(const arg *a) { return reshaped(a, "unsqueeze_", api_unsqueeze); }
PyObject *api_squeeze_(const arg *a) { return reshaped(a, "squeeze_", api_squeeze); }
PyObject *api_transpose_(const arg *a) { return reshaped(a, "transpose_", api_transpose); }
PyObject *api_t_(const arg *a) { return reshaped(a, "t_", api_t); }

/* (input, size, stride, storage_offset) */
cr_tensor *api_as_strided(const arg *a) {
    const cr_tensor *x = a[0].t;
    if (a[1].size.n == a[2].size.n)
        return cr_as_strided(x, a[1].size.n, a[1].size.v, a[2].size.v, a[3].given ? a[3].i - cr_storage_offset(x) : 0);
    set_error(PyExc_RuntimeError, "[as_strided] %d sizes and %d strides", a[1].size.n, a[2].size.n);
    return NULL;
}

cr_tensor *api_narrow(const arg *a) { return cr_narrow(a[0].t, axis(a[1].i), a[2].i, a[3].i); }
cr_tensor *api_slice(const arg *a) {
    const bool back = a[4].i < 0;
    return cr_slice(a[0].t, axis(a[1].i),
                    a[2].given ? a[2].i
                    : back     ? INT64_MAX
                               : 0,
                    a[3].given ? a[3].i
                    : back     ? INT64_MIN
                               : INT64_MAX,
                    a[4].i);
}
cr_tensor *api_diagonal(const arg *a) { return cr_diagonal(a[0].t, a[1].i, axis(a[2].i), axis(a[3].i)); }
cr_tensor *api_diag_embed(const arg *a) { return cr_diag_embed(a[0].t, a[1].i, axis(a[2].i), axis(a[3].i)); }
cr_tensor *api_diag(const arg *a) { return cr_diag(a[0].t, a[1].i); }
cr_tensor *api_unfold(const arg *a) { return cr_unfold(a[0].t, axis(a[1].i), a[2].i, a[3].i); }

cr_tensor *api_movedim(const arg *a) {
    if (a[1].size.n == a[2].size.n) return cr_movedim(a[0].t, a[1].size.n, a[1].size.v, a[2].size.v);
    set_error(PyExc_RuntimeError, "[movedim] %d source axes and %d destinations", a[1].size.n, a[2].size.n);
    return NULL;
}

/* ---- several views at once */
/* Room for n handles; NULL with an exception. */
static cr_tensor **room_for(int64_t n) {
    cr_tensor **out = n < INT32_MAX ? PyMem_Calloc((size_t)n + 1, sizeof *out) : NULL;
    if (!out) PyErr_NoMemory();
    return out;
}

/* The n handles in out, which goes with them; n < 0: they could not be made. */
static PyObject *tuple_of(int n, cr_tensor **out) {
    PyObject *tuple = n < 0 ? raise_error() : PyTuple_New(n);
    for (int i = 0; i < n; i++) {
        PyObject *piece = tuple ? wrap(out[i]) : (cr_release(out[i]), NULL);
        if (piece) PyTuple_SetItem(tuple, i, piece);
        else Py_CLEAR(tuple);
    }
    PyMem_Free(out);
    return tuple;
}

static PyObject *split_equally(cr_tensor *x, int at, int64_t each) {
    int64_t size = cr_size(x, at), n = each > 0 && size ? (size - 1) / each + 1 : 1;
    cr_tensor **out = room_for(n);
    return out ? tuple_of(cr_split(x, each || size ? each : 1, at, (int)n, out) == CR_OK ? (int)n : -1, out) : NULL;
}

PyObject *api_split(const arg *a) {
    PyObject *given = a[1].o;
    if (PyUnicode_Check(given) || !(PyIndex_Check(given) || PySequence_Check(given)))
        return raise_type(given, "split(): argument 'split_size_or_sections' must be int or ints, not");
    if (PyIndex_Check(given) && !PySequence_Check(given)) {
        int64_t each;
        const int along = own_axis("split", a, &a[2]);
        if (along < 0) return raise_error();
        return to_int64(given, &each) ? split_equally(a[0].t, along, each) : NULL;
    }
    PyObject *items = PySequence_Tuple(given), *result = NULL;
    if (!items) return NULL;
    Py_ssize_t n = PyTuple_Size(items);
    int64_t *sizes = PyMem_Malloc(sizeof *sizes * (size_t)(n ? n : 1));
    bool ok = sizes || PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = to_int64(PyTuple_GetItem(items, i), &sizes[i]);
    const int at = ok ? own_axis("split", a, &a[2]) : -1;       /* PyTorch looks at the sizes first */
    if (ok && at < 0) raise_error();
    cr_tensor **out = at >= 0 ? room_for(n) : NULL;
    if (out) result = tuple_of(cr_split_sizes(a[0].t, at, (int)n, sizes, out) == CR_OK ? (int)n : -1, out);
    PyMem_Free(sizes);
    Py_DECREF(items);
    return result;
}

PyObject *api_chunk(const arg *a) {
    int at = own_axis("chunk", a, &a[2]);
    if (at < 0) return raise_error();
    int64_t size = cr_size(a[0].t, at), n = size && a[1].i > size ? size : a[1].i;
    cr_tensor **out = room_for(n > 0 ? n : 0);
    return out ? tuple_of(cr_split_chunks(a[0].t, axis(n), at, out), out) : NULL;
}

PyObject *api_unbind(const arg *a) {
    int at = own_axis("unbind", a, &a[1]);
    if (at < 0) return raise_error();
    int64_t n = cr_size(a[0].t, at);
    cr_tensor **out = room_for(n);
    return out ? tuple_of(cr_unbind(a[0].t, at, (int)n, out) == CR_OK ? (int)n : -1, out) : NULL;
}

/* The tensors given one by one or as one sequence: a new tuple; NULL with an exception. */
static PyObject *tensors_of(const char *name, PyObject *given) {
    PyObject *items = is_tensor(given)                              ? Py_BuildValue("(O)", given)
                      : PyTuple_Check(given) || PyList_Check(given) ? PySequence_Tuple(given)
                                                                    : NULL;
    if (!items && !PyErr_Occurred()) raise_type(given, "%s(): Tensors are expected, not", name);
    for (Py_ssize_t i = 0; items && i < PyTuple_Size(items); i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        if (is_tensor(item)) continue;
        raise_type(item, "%s(): expected Tensor as element %zd, got", name, i);
        Py_CLEAR(items);
    }
    return items;
}

PyObject *api_meshgrid(const arg *a) {
    const bool xy = !strcmp(a[1].s, "xy");
    PyObject *items = tensors_of("meshgrid", a[0].o);
    if (items && !xy && strcmp(a[1].s, "ij")) {
        PyErr_Format(PyExc_RuntimeError, "[meshgrid] indexing is 'xy' or 'ij', not '%s'", a[1].s);
        Py_CLEAR(items);
    }
    if (!items) return NULL;
    const cr_tensor *in[CR_MAX_DIMS];
    Py_ssize_t n = PyTuple_Size(items);
    for (Py_ssize_t i = 0; i < n && i < CR_MAX_DIMS; i++) in[i] = handle(PyTuple_GetItem(items, i));
    cr_tensor **out = room_for(n);
    PyObject *result = out ? tuple_of(cr_meshgrid((int)n, in, xy, out) == CR_OK ? (int)n : -1, out) : NULL;
    Py_DECREF(items);
    return result;
}

/* With axes of size 1 up to ndim: in front, of three axes also behind; NumPy's rule. */
static cr_tensor *grown(const cr_tensor *x, int ndim) {
    const int n = cr_ndim(x);
    int64_t shape[3] = {1, 1, 1};
    for (int i = 0; i < n && n < ndim; i++) shape[n == 2 ? i : 1] = cr_shape(x)[i];        /* 1 or 2 axes */
    return n < ndim ? cr_view(x, ndim, shape) : cr_view(x, n, cr_shape(x));
}

static PyObject *grown_object(PyObject *x, int ndim) {
    return cr_ndim(handle(x)) < ndim ? wrap(grown(handle(x), ndim)) : Py_NewRef(x);
}

static PyObject *at_least(const char *name, const arg *a, int ndim) {
    if (is_tensor(a[0].o)) return grown_object(a[0].o, ndim);
    PyObject *items = tensors_of(name, a[0].o);
    Py_ssize_t n = items ? PyTuple_Size(items) : 0;
    PyObject *result = items ? PyTuple_New(n) : NULL;
    for (Py_ssize_t i = 0; result && i < n; i++) {
        PyObject *y = grown_object(PyTuple_GetItem(items, i), ndim);
        if (y) PyTuple_SetItem(result, i, y);
        else Py_CLEAR(result);
    }
    Py_XDECREF(items);
    return result;
}
PyObject *api_atleast_1d(const arg *a) { return at_least("atleast_1d", a, 1); }
PyObject *api_atleast_2d(const arg *a) { return at_least("atleast_2d", a, 2); }
PyObject *api_atleast_3d(const arg *a) { return at_least("atleast_3d", a, 3); }

/* ---- parts: (input, indices_or_sections, dim) */
enum { MOST_PARTS = 1 << 20 };

/* The positions where parts begin, and *sections = -1; or NULL and their number, -1 with an exception. */
static int64_t *positions_of(const char *name, PyObject *given, int64_t *sections, Py_ssize_t *count) {
    PyObject *list = is_tensor(given) ? PyObject_CallMethod(given, "tolist", NULL) : Py_NewRef(given), *items = NULL;
    int64_t *at = NULL;
    *sections = -1;
    if (list && is_tensor(given) && cr_dtype_of(handle(given)) != CR_I64)
        PyErr_Format(bad_type, "%s(): positions are int64, not %s", name, cr_dtype_name(cr_dtype_of(handle(given))));
    else if (list && PyIndex_Check(list)) {
        if (!to_int64(list, sections)) *sections = -1;
        else if (*sections <= 0 || *sections > MOST_PARTS) {
            PyErr_Format(PyExc_RuntimeError, "[%s] number of sections must be larger than 0, got %lld", name,
                         (long long)*sections);
            *sections = -1;
        }
    } else if (list && (PyTuple_Check(list) || PyList_Check(list))) {
        items = PySequence_Tuple(list);
        *count = items ? PyTuple_Size(items) : 0;
        at = items ? PyMem_Malloc(sizeof *at * (size_t)(*count + 1)) : NULL;
        for (Py_ssize_t i = 0; at && i < *count; i++) {
            if (to_int64(PyTuple_GetItem(items, i), &at[i])) continue;
            PyMem_Free(at);
            at = NULL;
        }
    } else if (list) {
        raise_type(given, "%s(): argument 'indices_or_sections' must be int, ints or Tensor, not", name);
    }
    Py_XDECREF(items);
    Py_XDECREF(list);
    return at;
}

/* The tensor must have at least `ndim` axes; the cut is along axis `along`. */
static PyObject *parted(const char *name, const arg *a, int along, int ndim, bool equally) {
    int64_t sections;
    Py_ssize_t count = 0;
    int64_t *at = positions_of(name, a[1].o, &sections, &count);
    if (!at && sections < 0) return NULL;
    if (cr_ndim(a[0].t) < ndim) {
        PyMem_Free(at);
        return PyErr_Format(PyExc_RuntimeError, "[%s] requires a tensor with at least %d dimensions, but got %d", name,
                            ndim, cr_ndim(a[0].t));
    }
    const int64_t size = cr_size(a[0].t, along), n = at ? count + 1 : sections;
    if (!at && equally && size % n)
        return PyErr_Format(PyExc_RuntimeError, "[%s] %lld sections do not divide an axis of %lld evenly", name,
                            (long long)n, (long long)size);
    cr_tensor **out = room_for(n);
    int64_t begin = 0, made = 0;
    bool ok = out != NULL;
    while (ok && made < n) {
        int64_t end = made == n - 1 ? size : at ? at[made] : begin + size / n + (made < size % n);
        if (end < 0) end = end + size < 0 ? 0 : end + size;
        cr_tensor *piece = cr_slice(a[0].t, along, begin, end > begin ? end : begin, 1);
        if (piece) out[made++] = piece;
        ok = piece != NULL;
        begin = end;
    }
    PyMem_Free(at);
    if (ok) return tuple_of((int)n, out);
    while (out && made > 0) cr_release(out[--made]);
    PyMem_Free(out);
    return PyErr_Occurred() ? NULL : raise_error();
}

PyObject *api_tensor_split(const arg *a) {
    const int at = own_axis("tensor_split", a, &a[2]);
    return at < 0 ? raise_error() : parted("tensor_split", a, at, 1, false);
}
PyObject *api_hsplit(const arg *a) { return parted("hsplit", a, cr_ndim(a[0].t) > 1, 1, true); }
PyObject *api_vsplit(const arg *a) { return parted("vsplit", a, 0, 2, true); }
PyObject *api_dsplit(const arg *a) { return parted("dsplit", a, 2, 3, true); }

PyObject *api_cartesian_prod(const arg *a) {
    PyObject *items = tensors_of("cartesian_prod", a[0].o);
    if (!items) return NULL;
    const Py_ssize_t n = PyTuple_Size(items);
    const cr_tensor *in[CR_MAX_DIMS];
    cr_tensor *out[CR_MAX_DIMS], *y = NULL;
    bool ok = n > 0 && n <= CR_MAX_DIMS;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        in[i] = handle(PyTuple_GetItem(items, i));
        ok = cr_ndim(in[i]) == 1;
    }
    if (!ok) PyErr_Format(PyExc_RuntimeError, "[cartesian_prod] takes 1 to %d vectors", CR_MAX_DIMS);
    cr_scope_begin();
    if (ok && n == 1) y = cr_view(in[0], cr_ndim(in[0]), cr_shape(in[0]));
    else if (ok && cr_meshgrid((int)n, in, false, out) == CR_OK) {
        for (Py_ssize_t i = 0; i < n; i++) in[i] = cr_reshape(out[i], CR_LIST(-1));
        y = cr_stack((int)n, in, 1);
    }
    y = leave(y);
    Py_DECREF(items);
    return ok ? wrap(y) : NULL;
}

PyObject *api_block_diag(const arg *a) {
    PyObject *items = tensors_of("block_diag", a[0].o);
    if (!items) return NULL;
    const Py_ssize_t n = PyTuple_Size(items);
    int64_t columns = 0, before = 0;
    cr_tensor **rows = room_for(n), *y = NULL;
    bool ok = rows != NULL;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        const cr_tensor *x = handle(PyTuple_GetItem(items, i));
        ok = cr_ndim(x) <= 2;
        if (ok) columns += cr_ndim(x) ? cr_size(x, -1) : 1;
        else PyErr_Format(PyExc_RuntimeError, "[block_diag] Input tensors must have 2 or fewer dimensions, got %d",
                          cr_ndim(x));
    }
    cr_scope_begin();
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        cr_tensor *x = grown(handle(PyTuple_GetItem(items, i)), 2);
        if (cr_ndim(handle(PyTuple_GetItem(items, i))) == 1) x = cr_reshape(x, CR_LIST(1, cr_numel(x)));
        const int64_t wide = x ? cr_size(x, 1) : 0, margins[] = {before, columns - before - wide};
        rows[i] = cr_pad(x, 2, margins, CR_PAD_CONSTANT, 0);
        before += wide;
    }
    if (ok) y = n ? cr_cat((int)n, (const cr_tensor *const *)rows, 0)
                  : cr_zeros(CR_LIST(1, 0), cr_default_dtype(), cr_default_device());
    y = leave(y);
    PyMem_Free(rows);
    Py_DECREF(items);
    return ok ? wrap(y) : NULL;
}
