/* ops.c - what stands behind the rows of api.def that are more than one elementwise function. */
#include "extension.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cr_tensor *leave(cr_tensor *y) {             /* ends the scope of a composite; its result moves out */
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

cr_tensor *api_in_place(const char *row, const arg *a, int n, const double *params) {
    const cr_tensor *in[3];
    for (int i = 0; i < n; i++) in[i] = a[i].t;
    return cr_program_apply_(cr_program_find(row), a[0].t, n, in, params);
}

/* ---- make ------------------------------------------------------------------------------------------------------------ */
static cr_tensor *leaf(cr_tensor *t, const arg *requires_grad) {
    if (!t || !requires_grad->b || cr_requires_grad_(t, true)) return t;
    cr_release(t);
    return NULL;
}

/* (size, dtype, device, requires_grad) */
cr_tensor *api_zeros(const arg *a) { return leaf(cr_zeros(a[0].size.n, a[0].size.v, a[1].dt, a[2].dev), &a[3]); }
cr_tensor *api_ones(const arg *a) { return leaf(cr_ones(a[0].size.n, a[0].size.v, a[1].dt, a[2].dev), &a[3]); }
cr_tensor *api_empty(const arg *a) { return leaf(cr_empty(a[0].size.n, a[0].size.v, a[1].dt, a[2].dev), &a[3]); }
/* (size, fill_value, dtype, device, requires_grad) */
cr_tensor *api_full(const arg *a) {
    return leaf(cr_full(a[0].size.n, a[0].size.v, a[1].x.d, a[2].given ? a[2].dt : dtype_of(&a[1].x), a[3].dev), &a[4]);
}
/* (start, end, steps, dtype, device, requires_grad) */
cr_tensor *api_linspace(const arg *a) { return leaf(cr_linspace(a[0].x.d, a[1].x.d, a[2].i, a[3].dt, a[4].dev), &a[5]); }
/* (n, m, dtype, device, requires_grad) */
cr_tensor *api_eye(const arg *a) { return leaf(cr_eye(a[0].i, a[1].given ? a[1].i : a[0].i, a[2].dt, a[3].dev), &a[4]); }
/* (size, generator, dtype, device, requires_grad) */
cr_tensor *api_rand(const arg *a) { return leaf(cr_rand(a[0].size.n, a[0].size.v, a[2].dt, a[3].dev, a[1].g), &a[4]); }
cr_tensor *api_randn(const arg *a) { return leaf(cr_randn(a[0].size.n, a[0].size.v, a[2].dt, a[3].dev, a[1].g), &a[4]); }

/* (input, dtype, device, requires_grad): what they are like where nothing else is asked for */
static cr_dtype dtype_like(const arg *a, int at) { return a[at].given ? a[at].dt : cr_dtype_of(a[0].t); }
static const cr_device *device_like(const arg *a, int at) { return a[at].given ? a[at].dev : cr_device_of(a[0].t); }
#define LIKE(f, ...) leaf(f(cr_ndim(a[0].t), cr_shape(a[0].t), dtype_like(a, 1), device_like(a, 2) __VA_ARGS__), &a[3])
cr_tensor *api_zeros_like(const arg *a) { return LIKE(cr_zeros, ); }
cr_tensor *api_ones_like(const arg *a) { return LIKE(cr_ones, ); }
cr_tensor *api_empty_like(const arg *a) { return LIKE(cr_empty, ); }
cr_tensor *api_rand_like(const arg *a) { return LIKE(cr_rand, , cr_default_generator()); }
cr_tensor *api_randn_like(const arg *a) { return LIKE(cr_randn, , cr_default_generator()); }
cr_tensor *api_full_like(const arg *a) {
    return leaf(cr_full(cr_ndim(a[0].t), cr_shape(a[0].t), a[1].x.d, dtype_like(a, 2), device_like(a, 3)), &a[4]);
}

/* (input, size, dtype, device, requires_grad) */
#define NEW(f) leaf(f(a[1].size.n, a[1].size.v, dtype_like(a, 2), device_like(a, 3)), &a[4])
cr_tensor *api_new_zeros(const arg *a) { return NEW(cr_zeros); }
cr_tensor *api_new_ones(const arg *a) { return NEW(cr_ones); }
cr_tensor *api_new_empty(const arg *a) { return NEW(cr_empty); }
cr_tensor *api_new_full(const arg *a) { return leaf(cr_full(a[1].size.n, a[1].size.v, a[2].x.d, dtype_like(a, 3), device_like(a, 4)), &a[5]); }
/* (input, data, dtype, device, requires_grad) */
PyObject *api_new_tensor(const arg *a) {
    cr_dtype dt = dtype_like(a, 2);
    cr_tensor *t = tensor_from(a[1].o, &dt, device_like(a, 3));
    return t ? wrap(leaf(t, &a[4])) : NULL;
}

/* (input, low, high, dtype, device, requires_grad) */
cr_tensor *api_randint_like(const arg *a) {
    int64_t low = a[2].given ? a[1].i : 0, high = a[2].given ? a[2].i : a[1].i;
    return leaf(cr_randint(low, high, cr_ndim(a[0].t), cr_shape(a[0].t), dtype_like(a, 3), device_like(a, 4), cr_default_generator()), &a[5]);
}

PyObject *api_arange(const arg *a) {
    number zero = {.integral = true}, start = a[0].given && a[1].given ? a[0].x : zero, end = a[1].given ? a[1].x : a[0].x;
    if (!a[0].given && !a[1].given) return PyErr_Format(PyExc_TypeError, "arange() missing required argument 'end'");
    cr_dtype dt = a[3].given ? a[3].dt : start.integral && end.integral && a[2].x.integral ? CR_I64 : CR_F32;
    cr_tensor *t;
    WITHOUT_GIL(t = leaf(cr_arange(start.d, end.d, a[2].x.d, dt, a[4].dev), &a[5]));
    return wrap(t);
}

PyObject *api_randint(const arg *a) {
    int64_t low = a[0].i, high = low, shape[CR_MAX_DIMS];
    int n;
    PyObject *size = a[2].o;
    if (a[2].o == Py_None && a[1].o != Py_None && !PyIndex_Check(a[1].o)) size = a[1].o, low = 0;      /* randint(high, size) */
    else if (a[1].o == Py_None) low = 0;                                                               /* randint(high, size=...) */
    else if (!to_int64(a[1].o, &high)) return NULL;
    if (!a[0].given && a[1].o == Py_None) return PyErr_Format(PyExc_TypeError, "randint() missing required argument 'high'");
    if (!to_size(size, &n, shape)) return PyErr_Occurred() ? NULL : raise_type(size, "randint(): argument 'size' must be ints, not");
    cr_tensor *t;
    WITHOUT_GIL(t = leaf(cr_randint(low, high, n, shape, a[4].given ? a[4].dt : CR_I64, a[5].dev, a[3].g), &a[6]));
    return wrap(t);
}

/* (n, generator, dtype, device, requires_grad) */
cr_tensor *api_randperm(const arg *a) { return leaf(cr_randperm(a[0].i, a[2].given ? a[2].dt : CR_I64, a[3].dev, a[1].g), &a[4]); }

/* (input, num_samples, replacement, generator) */
cr_tensor *api_multinomial(const arg *a) { return cr_multinomial(a[0].t, a[1].i, a[2].b, a[3].g); }

/* (input, p, generator) */
cr_tensor *api_bernoulli(const arg *a) {
    const cr_tensor *x = a[0].t;
    return a[1].given ? cr_bernoulli(a[1].d, cr_ndim(x), cr_shape(x), cr_dtype_of(x), cr_device_of(x), a[2].g) : cr_bernoulli_of(x, a[2].g);
}
cr_tensor *api_bernoulli_(const arg *a) {
    cr_scope_begin();
    cr_tensor *x = cr_bernoulli_(a[0].t, a[1].given ? a[1].t : cr_scalar(0.5), a[2].g);
    cr_scope_end();
    return x;
}

/* (mean, std, size, generator, dtype, device, requires_grad); mean and std as numbers: size says the shape, else they do */
cr_tensor *api_normal(const arg *a) {
    const bool numbers = a[0].owned && (a[1].owned || !a[1].given);
    if (numbers != a[2].given || (!numbers && (a[4].given || a[5].given || a[6].b))) {
        set_error(PyExc_TypeError, numbers ? "normal() of two numbers needs a size" : "normal() of tensors takes no size, dtype, device or requires_grad: the tensors say them");
        return NULL;
    }
    cr_scope_begin();
    const cr_tensor *mean = a[0].owned ? cr_scalar(cr_item(a[0].t)) : a[0].t, *std = !a[1].given ? cr_scalar(1) : a[1].owned ? cr_scalar(cr_item(a[1].t)) : a[1].t;
    if (!numbers) return leave(cr_normal(mean, std, a[3].g));
    cr_tensor *y = cr_empty(a[2].size.n, a[2].size.v, a[4].dt, a[5].dev);
    return leave(y ? leaf(cr_normal_(y, cr_item(mean), cr_item(std), a[3].g), &a[6]) : NULL);
}

/* (input, two numbers, generator) */
cr_tensor *api_uniform_(const arg *a) { return cr_uniform_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_normal_(const arg *a) { return cr_normal_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_log_normal_(const arg *a) { return cr_log_normal_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_cauchy_(const arg *a) { return cr_cauchy_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_exponential_(const arg *a) { return cr_exponential_(a[0].t, a[1].d, a[2].g); }
cr_tensor *api_geometric_(const arg *a) { return cr_geometric_(a[0].t, a[1].d, a[2].g); }
/* (input, from_, to, generator): random_(), random_(to), random_(from_, to) */
cr_tensor *api_random_(const arg *a) {
    if (!a[1].given && !a[2].given) return cr_random_all_(a[0].t, a[3].g);
    return cr_random_(a[0].t, a[1].given && a[2].given ? a[1].i : 0, a[2].given ? a[2].i : a[1].i, a[3].g);
}

PyObject *api_tensor(const arg *a) {
    cr_tensor *t = tensor_from(a[0].o, a[1].given ? &a[1].dt : NULL, a[2].dev);
    return t ? wrap(leaf(t, &a[3])) : NULL;
}

/* Any int of 64 bits, signed or not. */
bool to_seed(PyObject *o, uint64_t *seed) {
    PyObject *index = PyNumber_Index(o);
    if (!index) return false;
    *seed = (uint64_t)PyLong_AsLongLong(index);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        *seed = PyLong_AsUnsignedLongLong(index);
    }
    Py_DECREF(index);
    return !PyErr_Occurred();
}

PyObject *api_manual_seed(const arg *a) {
    uint64_t seed;
    if (!to_seed(a[0].o, &seed)) return NULL;
    cr_manual_seed(seed);
    PyObject *module = PyImport_ImportModule("chainrule._core"), *g = module ? PyObject_GetAttrString(module, "default_generator") : NULL;
    Py_XDECREF(module);
    return g;
}

/* ---- look ------------------------------------------------------------------------------------------------------------- */
PyObject *api_numel(const arg *a) { return PyLong_FromLongLong(cr_numel(a[0].t)); }
PyObject *api_is_tensor(const arg *a) { return PyBool_FromLong(is_tensor(a[0].o)); }
PyObject *api_is_floating_point(const arg *a) { return PyBool_FromLong(cr_dtype_is_float(cr_dtype_of(a[0].t))); }
PyObject *api_dim(const arg *a) { return PyLong_FromLong(cr_ndim(a[0].t)); }
PyObject *api_is_contiguous(const arg *a) { return PyBool_FromLong(cr_is_contiguous(a[0].t)); }
PyObject *api_element_size(const arg *a) { return PyLong_FromSize_t(cr_dtype_size(cr_dtype_of(a[0].t))); }
PyObject *api_data_ptr(const arg *a) { return PyLong_FromVoidPtr(cr_data(a[0].t)); }

static PyObject *along(const arg *a, const int64_t *values, PyObject *(*whole)(int, const int64_t *)) {
    int n = cr_ndim(a[0].t);
    if (!a[1].given) return whole(n, values);
    if (a[1].i >= -n && a[1].i < n) return PyLong_FromLongLong(values[a[1].i < 0 ? a[1].i + n : a[1].i]);
    PyErr_Format(PyExc_IndexError, "axis %lld of a tensor of %d axes", (long long)a[1].i, n);
    return NULL;
}
PyObject *api_size(const arg *a) { return along(a, cr_shape(a[0].t), size_object); }
PyObject *api_stride(const arg *a) { return along(a, cr_strides(a[0].t), int_tuple); }

/* ---- move --------------------------------------------------------------------------------------------------------------- */
static PyObject *moved(const arg *a, cr_dtype dt, const cr_device *dev, bool copy) {
    cr_tensor *x = a[0].t, *y;
    bool same = dt == cr_dtype_of(x) && dev == cr_device_of(x);
    if (same && !copy) { Py_INCREF(a[0].from); return a[0].from; }
    if (same) WITHOUT_GIL(y = cr_clone(x));
    else WITHOUT_GIL(y = cr_to(x, dt, dev));
    return wrap(y);
}

static bool one_target(PyObject *o, cr_dtype *dt, const cr_device **dev) {
    if (is_tensor(o)) { *dt = cr_dtype_of(handle(o)); *dev = cr_device_of(handle(o)); return true; }
    if (o == Py_None || PyBool_Check(o) || to_dtype(o, dt) || to_device(o, dev)) return true;
    if (!PyErr_Occurred()) raise_type(o, "to(): expected a dtype, a device or a Tensor, got");
    return false;
}

/* (input, *target, dtype, device, copy, non_blocking) */
PyObject *api_to(const arg *a) {
    cr_dtype dt = a[2].given ? a[2].dt : cr_dtype_of(a[0].t);
    const cr_device *dev = a[3].given ? a[3].dev : cr_device_of(a[0].t);
    PyObject *given = a[1].o;
    if (!PyTuple_Check(given)) { if (!one_target(given, &dt, &dev)) return NULL; }
    else for (Py_ssize_t i = 0; i < PyTuple_Size(given); i++) if (!one_target(PyTuple_GetItem(given, i), &dt, &dev)) return NULL;
    return moved(a, dt, dev, a[4].b);
}

static PyObject *to_named(const arg *a, const char *device) {
    char name[32];
    PyOS_snprintf(name, sizeof name, a[1].given ? "%s:%lld" : "%s", device, (long long)a[1].i);
    const cr_device *dev = cr_device_find(name);
    return dev ? moved(a, cr_dtype_of(a[0].t), dev, false) : raise_error();
}
PyObject *api_cpu(const arg *a) { return moved(a, cr_dtype_of(a[0].t), cr_cpu(), false); }
PyObject *api_cuda(const arg *a) { return to_named(a, "cuda"); }
PyObject *api_gpu(const arg *a) { return to_named(a, "gpu"); }

PyObject *api_to_device(const arg *a) {
    if (a[2].given) return PyErr_Format(PyExc_ValueError, "to_device(): no device has streams to choose from");
    return moved(a, cr_dtype_of(a[0].t), a[1].dev, false);
}
PyObject *api___array_namespace__(const arg *a) {
    PyObject *f = python_function("array_api", "_namespace");
    return f ? PyObject_CallFunction(f, "z", a[1].given ? a[1].s : NULL) : NULL;
}

static cr_tensor *cast(const cr_tensor *x, cr_dtype dt) { return cr_to(x, dt, cr_device_of(x)); }
static PyObject *as(const arg *a, cr_dtype dt) { return moved(a, dt, cr_device_of(a[0].t), false); }
PyObject *api_type_as(const arg *a) { return as(a, cr_dtype_of(a[1].t)); }
PyObject *api_float(const arg *a) { return as(a, CR_F32); }
PyObject *api_double(const arg *a) { return as(a, CR_F64); }
PyObject *api_half(const arg *a) { return as(a, CR_F16); }
PyObject *api_bfloat16(const arg *a) { return as(a, CR_BF16); }
PyObject *api_int(const arg *a) { return as(a, CR_I32); }
PyObject *api_long(const arg *a) { return as(a, CR_I64); }
PyObject *api_short(const arg *a) { return as(a, CR_I16); }
PyObject *api_bool(const arg *a) { return as(a, CR_BOOL); }
cr_tensor *api_contiguous(const arg *a) { return cr_contiguous(a[0].t); }
cr_tensor *api_clone(const arg *a) { return cr_clone(a[0].t); }
cr_tensor *api_detach(const arg *a) { return cr_detach(a[0].t); }

/* ---- views ---------------------------------------------------------------------------------------------------------------- */
cr_tensor *api_reshape(const arg *a) { return cr_reshape(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_view(const arg *a) { return cr_view(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_expand(const arg *a) { return cr_expand(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_broadcast_to(const arg *a) { return cr_expand(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_expand_as(const arg *a) { return cr_expand(a[0].t, cr_ndim(a[1].t), cr_shape(a[1].t)); }
cr_tensor *api_view_as(const arg *a) { return cr_view(a[0].t, cr_ndim(a[1].t), cr_shape(a[1].t)); }
cr_tensor *api_reshape_as(const arg *a) { return cr_reshape(a[0].t, cr_ndim(a[1].t), cr_shape(a[1].t)); }
cr_tensor *api_permute(const arg *a) { return cr_permute(a[0].t, a[1].size.n, a[1].size.v); }

cr_tensor *api_transpose(const arg *a) { return cr_transpose(a[0].t, axis(a[1].i), axis(a[2].i)); }
cr_tensor *api_flatten(const arg *a) { return cr_flatten(a[0].t, axis(a[1].i), axis(a[2].i)); }
cr_tensor *api_unsqueeze(const arg *a) { return cr_unsqueeze(a[0].t, axis(a[1].i)); }
cr_tensor *api_select(const arg *a) { return cr_select(a[0].t, axis(a[1].i), a[2].i); }
cr_tensor *api_tril(const arg *a) { return cr_tril(a[0].t, a[1].i); }
cr_tensor *api_triu(const arg *a) { return cr_triu(a[0].t, a[1].i); }

cr_tensor *api_t(const arg *a) {
    if (cr_ndim(a[0].t) == 2) return cr_transpose(a[0].t, 0, 1);
    if (cr_ndim(a[0].t) < 2) return cr_expand(a[0].t, cr_ndim(a[0].t), cr_shape(a[0].t));        /* a view of it as it is */
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
    set_error(PyExc_RuntimeError, "[%s] expects at least a 1-dimensional tensor", op);
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

cr_tensor *api_narrow(const arg *a) { return cr_narrow(a[0].t, axis(a[1].i), a[2].i, a[3].i); }
cr_tensor *api_slice(const arg *a) {
    const bool back = a[4].i < 0;
    return cr_slice(a[0].t, axis(a[1].i), a[2].given ? a[2].i : back ? INT64_MAX : 0, a[3].given ? a[3].i : back ? INT64_MIN : INT64_MAX, a[4].i);
}
cr_tensor *api_diagonal(const arg *a) { return cr_diagonal(a[0].t, a[1].i, axis(a[2].i), axis(a[3].i)); }
cr_tensor *api_unfold(const arg *a) { return cr_unfold(a[0].t, axis(a[1].i), a[2].i, a[3].i); }

cr_tensor *api_movedim(const arg *a) {
    if (a[1].size.n == a[2].size.n) return cr_movedim(a[0].t, a[1].size.n, a[1].size.v, a[2].size.v);
    set_error(PyExc_RuntimeError, "[movedim] %d source axes and %d destinations", a[1].size.n, a[2].size.n);
    return NULL;
}

/* ---- several views at once ---------------------------------------------------------------------------------------------------- */
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
    int at = own_axis("split", a, &a[2]);
    if (at < 0) return raise_error();
    PyObject *given = a[1].o;
    if (PyIndex_Check(given) && !PySequence_Check(given)) {
        int64_t each;
        return to_int64(given, &each) ? split_equally(a[0].t, at, each) : NULL;
    }
    PyObject *items = PySequence_Check(given) && !PyUnicode_Check(given) ? PySequence_Tuple(given) : NULL, *result = NULL;
    if (!items) return PyErr_Occurred() ? NULL : raise_type(given, "split(): argument 'split_size_or_sections' must be int or ints, not");
    Py_ssize_t n = PyTuple_Size(items);
    int64_t *sizes = PyMem_Malloc(sizeof *sizes * (size_t)(n ? n : 1));
    bool ok = sizes || PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = to_int64(PyTuple_GetItem(items, i), &sizes[i]);
    cr_tensor **out = ok ? room_for(n) : NULL;
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
    PyObject *items = is_tensor(given) ? Py_BuildValue("(O)", given) : PyTuple_Check(given) || PyList_Check(given) ? PySequence_Tuple(given) : NULL;
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

static PyObject *at_least(const char *name, const arg *a, int ndim) {
    if (is_tensor(a[0].o)) return wrap(grown(handle(a[0].o), ndim));
    PyObject *items = tensors_of(name, a[0].o);
    Py_ssize_t n = items ? PyTuple_Size(items) : 0;
    PyObject *result = items ? PyTuple_New(n) : NULL;
    for (Py_ssize_t i = 0; result && i < n; i++) {
        PyObject *y = wrap(grown(handle(PyTuple_GetItem(items, i)), ndim));
        if (y) PyTuple_SetItem(result, i, y);
        else Py_CLEAR(result);
    }
    Py_XDECREF(items);
    return result;
}
PyObject *api_atleast_1d(const arg *a) { return at_least("atleast_1d", a, 1); }
PyObject *api_atleast_2d(const arg *a) { return at_least("atleast_2d", a, 2); }
PyObject *api_atleast_3d(const arg *a) { return at_least("atleast_3d", a, 3); }

/* ---- other arrangements ------------------------------------------------------------------------------------------------------- */
cr_tensor *api_flip(const arg *a) { return a[1].size.n ? cr_flip(a[0].t, a[1].size.n, a[1].size.v) : cr_clone(a[0].t); }

static cr_tensor *mirrored(const char *name, const cr_tensor *x, int at) {
    if (cr_ndim(x) > at) return cr_flip(x, CR_LIST(at));
    set_error(PyExc_RuntimeError, "[%s] needs at least %d axes, got %d", name, at + 1, cr_ndim(x));
    return NULL;
}
cr_tensor *api_fliplr(const arg *a) { return mirrored("fliplr", a[0].t, 1); }
cr_tensor *api_flipud(const arg *a) { return mirrored("flipud", a[0].t, 0); }

cr_tensor *api_roll(const arg *a) {
    if (!a[2].size.n) return cr_roll(a[0].t, a[1].size.n, a[1].size.v, NULL);
    if (a[1].size.n == a[2].size.n) return cr_roll(a[0].t, a[1].size.n, a[1].size.v, a[2].size.v);
    set_error(PyExc_RuntimeError, "[roll] %d shifts and %d axes", a[1].size.n, a[2].size.n);
    return NULL;
}
cr_tensor *api_repeat(const arg *a) { return cr_repeat(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_tile(const arg *a) { return cr_tile(a[0].t, a[1].size.n, a[1].size.v); }

/* Along the axis, or in order as one; counts NULL: `times` for all. */
static cr_tensor *interleaved(const cr_tensor *x, const cr_tensor *counts, int64_t times, const arg *dim) {
    cr_scope_begin();
    const cr_tensor *line = dim->given ? x : cr_reshape(x, CR_LIST(-1));
    int at = dim->given ? axis(dim->i) : 0;
    return leave(counts ? cr_repeat_interleave_by(line, counts, at) : cr_repeat_interleave(line, times, at));
}

/* (input, repeats, dim, output_size); without repeats they are the input, and what is repeated are the positions */
PyObject *api_repeat_interleave(const arg *a) {
    cr_tensor *y;
    int64_t times = 0;
    if (a[1].o == Py_None) {
        const cr_tensor *counts = a[0].t;
        if (a[2].given) return PyErr_Format(PyExc_TypeError, "repeat_interleave(): repeats alone are without dim");
        if (cr_ndim(counts) != 1) return PyErr_Format(PyExc_RuntimeError, "[repeat_interleave] repeats alone are a vector: %d axes", cr_ndim(counts));
        cr_scope_begin();
        WITHOUT_GIL(y = leave(cr_repeat_interleave_by(cr_arange(0, (double)cr_numel(counts), 1, CR_I64, cr_device_of(counts)), counts, 0)));
    } else if (is_tensor(a[1].o)) {
        WITHOUT_GIL(y = interleaved(a[0].t, handle(a[1].o), 0, &a[2]));
    } else {
        if (!PyIndex_Check(a[1].o)) return raise_type(a[1].o, "repeat_interleave(): argument 'repeats' must be int or Tensor, not");
        if (!to_int64(a[1].o, &times)) return NULL;
        WITHOUT_GIL(y = interleaved(a[0].t, NULL, times, &a[2]));
    }
    if (y && a[3].given && cr_size(y, a[2].given ? axis(a[2].i) : 0) != a[3].i) {
        PyErr_Format(PyExc_RuntimeError, "[repeat_interleave] output_size %lld, but %lld positions result", (long long)a[3].i, (long long)cr_size(y, a[2].given ? axis(a[2].i) : 0));
        cr_release(y);
        return NULL;
    }
    return wrap(y);
}

static bool pad_mode(const char *name, cr_pad_mode *mode) {
    static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i])) { *mode = (cr_pad_mode)i; return true; }
    PyErr_Format(PyExc_NotImplementedError, "[pad] the mode is 'constant', 'reflect', 'replicate' or 'circular', not '%s'", name);
    return false;
}

/* (input, pad, mode, value) */
PyObject *api_pad(const arg *a) {
    int64_t sizes[2 * CR_MAX_DIMS];
    cr_pad_mode mode;
    if (!pad_mode(a[2].s, &mode)) return NULL;
    if (mode != CR_PAD_CONSTANT && a[3].given) return PyErr_Format(PyExc_RuntimeError, "[pad] the mode '%s' takes no value", a[2].s);
    PyObject *items = PyTuple_Check(a[1].o) || PyList_Check(a[1].o) ? PySequence_Tuple(a[1].o) : NULL;
    if (!items) return PyErr_Occurred() ? NULL : raise_type(a[1].o, "pad(): argument 'pad' must be ints, not");
    const Py_ssize_t n = PyTuple_Size(items);
    bool ok = n <= 2 * CR_MAX_DIMS;
    if (!ok) PyErr_Format(PyExc_RuntimeError, "[pad] %zd sizes, at most %d", n, 2 * CR_MAX_DIMS);
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = to_int64(PyTuple_GetItem(items, i), &sizes[i]);
    Py_DECREF(items);
    if (!ok) return NULL;
    cr_tensor *y;
    WITHOUT_GIL(y = cr_pad(a[0].t, (int)n, sizes, mode, a[3].given ? a[3].x.d : 0));
    return wrap(y);
}

/* ---- arithmetic --------------------------------------------------------------------------------------------------------------- */
/* other alpha, in the scope of the caller where there is something to compute.  (input, other, alpha) */
static const cr_tensor *scaled(const arg *a) {
    const number *alpha = &a[2].x;
    cr_dtype x = cr_dtype_of(a[0].t), y = cr_dtype_of(a[1].t);
    if (alpha->boolean ? x != CR_BOOL || y != CR_BOOL : !alpha->integral && !cr_dtype_is_float(x) && !cr_dtype_is_float(y)) {
        set_error(PyExc_RuntimeError, "alpha is a %s, the result is not", alpha->boolean ? "bool" : "float");
        return NULL;
    }
    return alpha->d == 1 ? a[1].t : cr_mul(a[1].t, scalar_of(alpha));
}

static bool two_floats(const arg *a) { return cr_dtype_is_float(cr_dtype_of(a[0].t)) && cr_dtype_is_float(cr_dtype_of(a[1].t)); }

/* x + sign alpha y; floats in one pass */
static cr_tensor *with_alpha(const arg *a, double sign) {
    cr_tensor *(*f)(const cr_tensor *, const cr_tensor *) = sign > 0 ? cr_add : cr_sub;
    if (a[2].x.d == 1 && a[2].x.integral && !a[2].x.boolean) return f(a[0].t, a[1].t);
    cr_scope_begin();
    if (two_floats(a) && !a[2].x.boolean) return leave(cr_addcmul(a[0].t, a[1].t, cr_scalar(1), sign * a[2].x.d));
    return leave(f(a[0].t, scaled(a)));
}
cr_tensor *api_add(const arg *a) { return with_alpha(a, 1); }
cr_tensor *api_sub(const arg *a) { return with_alpha(a, -1); }

static cr_tensor *with_alpha_(const arg *a, double sign) {
    const double value = sign * a[2].x.d;
    cr_scope_begin();
    cr_tensor *x;
    if (two_floats(a) && value != sign && !a[2].x.boolean)
        x = cr_program_apply_(cr_program_find("addcmul"), a[0].t, 3, (const cr_tensor *[]){a[0].t, a[1].t, cr_scalar(1)}, &value);
    else x = sign > 0 ? cr_add_(a[0].t, scaled(a)) : cr_sub_(a[0].t, scaled(a));
    cr_scope_end();
    return x;
}
cr_tensor *api_add_(const arg *a) { return with_alpha_(a, 1); }
cr_tensor *api_sub_(const arg *a) { return with_alpha_(a, -1); }

/* Which row divides so; NULL and an error for another mode. */
static const char *division(const arg *mode) {
    if (!mode->given) return "div";
    if (!strcmp(mode->s, "trunc")) return "trunc_divide";
    if (!strcmp(mode->s, "floor")) return "floor_divide";
    set_error(PyExc_RuntimeError, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'", mode->s);
    return NULL;
}
cr_tensor *api_div(const arg *a) {
    const char *row = division(&a[2]);
    return row ? cr_program_apply(cr_program_find(row), 2, (const cr_tensor *const[]){a[0].t, a[1].t}, NULL) : NULL;
}
cr_tensor *api_div_(const arg *a) {
    const char *row = division(&a[2]);
    return row ? api_in_place(row, a, 2, NULL) : NULL;
}

static bool negative_power(const cr_tensor *x, const cr_tensor *y, bool is_number) {
    if (!is_number || cr_dtype_is_float(cr_dtype_of(x)) || cr_dtype_is_float(cr_dtype_of(y)) || cr_item(y) >= 0) return false;
    set_error(PyExc_RuntimeError, "Integers to negative integer powers are not allowed: cast to a float dtype first");
    return true;
}

cr_tensor *power(const cr_tensor *x, const cr_tensor *y, bool is_number) {
    if (negative_power(x, y, is_number)) return NULL;
    return is_number && cr_dtype_is_float(cr_dtype_of(x)) ? cr_pow_scalar(x, cr_item(y)) : cr_pow(x, y);
}
cr_tensor *api_pow(const arg *a) {
    if (a[0].owned && a[1].owned) {
        set_error(PyExc_TypeError, "pow(): argument 'input' or 'exponent' must be Tensor, not numbers");
        return NULL;
    }
    return power(a[0].t, a[1].t, a[1].owned && !a[0].owned);
}
cr_tensor *api_pow_(const arg *a) { return negative_power(a[0].t, a[1].t, a[1].owned) ? NULL : api_in_place("pow", a, 2, NULL); }

/* A result written into the first argument, by the rule of the other in-place forms: no float into integers, no number into bool. */
static cr_tensor *written(const char *name, const arg *a, cr_tensor *y) {
    cr_dtype to = cr_dtype_of(a[0].t), from = y ? cr_dtype_of(y) : to;
    cr_tensor *x = NULL;
    if (!cr_can_cast(from, to))
        set_error(PyExc_RuntimeError, "[%s] a result of dtype %s cannot be written into %s", name, cr_dtype_name(from), cr_dtype_name(to));
    else if (y) x = cr_copy_(a[0].t, y);
    cr_release(y);
    return x;
}

/* May a bound be a parameter of the program?  A number that x's dtype holds, and a double. */
static bool is_parameter(const arg *bound, cr_dtype dt) {
    if (!bound->given || !bound->owned || cr_dtype_is_float(dt)) return !bound->given || bound->owned;
    const int bits = 8 * (int)cr_dtype_size(dt) - (dt >= CR_I8);
    const double limit = ldexp(1, bits < 53 ? bits : 53), v = cr_item(bound->t);
    return dt != CR_BOOL && !cr_dtype_is_float(cr_dtype_of(bound->t)) && v < limit && v >= (dt >= CR_I8 ? -limit : 0);
}

/* min and max as numbers: one pass. */
static bool clamp_numbers(const arg *a, double bound[2]) {
    const arg *low = &a[1], *high = &a[2];
    const cr_dtype dt = cr_dtype_of(a[0].t);
    if ((!low->given && !high->given) || !is_parameter(low, dt) || !is_parameter(high, dt)) return false;
    bound[0] = low->given ? cr_item(low->t) : -INFINITY;
    bound[1] = high->given ? cr_item(high->t) : INFINITY;
    return true;
}
static cr_tensor *clamp_tensors(const arg *low, const arg *high, cr_tensor *y) {
    if (!low->given && !high->given) {
        set_error(PyExc_RuntimeError, "[clamp] at least one of min and max must not be None");
        return NULL;
    }
    cr_scope_begin();
    if (low->given) y = cr_clamp_min(y, low->t);
    if (high->given) y = cr_clamp_max(y, high->t);
    return leave(y);
}
cr_tensor *api_clamp(const arg *a) {
    double bound[2];
    return clamp_numbers(a, bound) ? cr_clamp(a[0].t, bound[0], bound[1]) : clamp_tensors(&a[1], &a[2], a[0].t);
}
cr_tensor *api_clamp_(const arg *a) {
    double bound[2];
    if (clamp_numbers(a, bound)) return api_in_place("clamp", a, 1, bound);
    cr_tensor *x = cr_clone(a[0].t), *y = written("clamp_", a, clamp_tensors(&a[1], &a[2], x));    /* the gradients read what x was */
    cr_release(x);
    return y;
}

cr_tensor *api_nextafter(const arg *a) { return cr_nextafter(a[0].t, a[1].t); }

cr_tensor *api_gelu(const arg *a) {
    if (!strcmp(a[1].s, "none")) return cr_gelu(a[0].t);
    if (!strcmp(a[1].s, "tanh")) return cr_gelu_tanh(a[0].t);
    set_error(PyExc_RuntimeError, "approximate argument must be either none or tanh.");
    return NULL;
}

cr_tensor *api_copy_(const arg *a) { return cr_copy_(a[0].t, a[1].t); }
cr_tensor *api_fill_(const arg *a) {
    if (cr_ndim(a[1].t) == 0) return a[1].owned ? cr_fill_(a[0].t, cr_item(a[1].t)) : cr_copy_(a[0].t, a[1].t);
    set_error(PyExc_RuntimeError, "[fill_] the value has %d axes: a number or a tensor without axes is expected", cr_ndim(a[1].t));
    return NULL;
}
cr_tensor *api_zero_(const arg *a) { return cr_fill_(a[0].t, 0); }

/* ---- reductions ------------------------------------------------------------------------------------------------------------------ */
/* In another dtype: cast to it first, and the result is of it, also where integers would give int64. */
static cr_tensor *in_dtype(const arg *a, const arg *dtype, cr_tensor *(*f)(const cr_tensor *x, const arg *a)) {
    if (!dtype->given) return f(a[0].t, a);
    cr_scope_begin();
    cr_tensor *y = f(dtype->dt == cr_dtype_of(a[0].t) ? a[0].t : cast(a[0].t, dtype->dt), a);
    return leave(!y || cr_dtype_of(y) == dtype->dt ? y : cast(y, dtype->dt));
}

/* (input, dim, keepdim, dtype) */
#define AXES a[1].size.n, a[1].size.v
static cr_tensor *sum(const cr_tensor *x, const arg *a) { return cr_sum(x, AXES, a[2].b); }
static cr_tensor *nansum(const cr_tensor *x, const arg *a) { return cr_nansum(x, AXES, a[2].b); }
static cr_tensor *mean(const cr_tensor *x, const arg *a) { return cr_mean(x, AXES, a[2].b); }
static cr_tensor *nanmean(const cr_tensor *x, const arg *a) { return cr_nanmean(x, AXES, a[2].b); }
static cr_tensor *prod(const cr_tensor *x, const arg *a) { return cr_prod(x, AXES, a[2].b); }
cr_tensor *api_sum(const arg *a) { return in_dtype(a, &a[3], sum); }
cr_tensor *api_nansum(const arg *a) { return in_dtype(a, &a[3], nansum); }
cr_tensor *api_mean(const arg *a) { return in_dtype(a, &a[3], mean); }
cr_tensor *api_nanmean(const arg *a) { return in_dtype(a, &a[3], nanmean); }
cr_tensor *api_prod(const arg *a) { return in_dtype(a, &a[3], prod); }
cr_tensor *api_amax(const arg *a) { return cr_max(a[0].t, AXES, a[2].b); }
cr_tensor *api_amin(const arg *a) { return cr_min(a[0].t, AXES, a[2].b); }
cr_tensor *api_any(const arg *a) { return cr_any(a[0].t, AXES, a[2].b); }
cr_tensor *api_all(const arg *a) { return cr_all(a[0].t, AXES, a[2].b); }
cr_tensor *api_count_nonzero(const arg *a) { return cr_count_nonzero(a[0].t, AXES); }
cr_tensor *api_logsumexp(const arg *a) {
    cr_scope_begin();
    const cr_tensor *x = cr_dtype_is_float(cr_dtype_of(a[0].t)) ? a[0].t : cast(a[0].t, CR_F32);
    return leave(cr_logsumexp(x, AXES, a[2].b));
}

/* (input, dim, unbiased, keepdim, correction) */
static double correction(const arg *a) { return a[4].given ? a[4].x.d : a[2].given ? a[2].b : 1; }
cr_tensor *api_var(const arg *a) { return cr_var(a[0].t, AXES, correction(a), a[3].b); }
cr_tensor *api_std(const arg *a) { return cr_std(a[0].t, AXES, correction(a), a[3].b); }

static PyObject *with_mean(const arg *a, cr_tensor *(*f)(const arg *)) {
    cr_tensor *y, *mean = NULL;
    WITHOUT_GIL(if ((y = f(a))) mean = cr_mean(a[0].t, AXES, a[3].b));
    if (y && mean) return Py_BuildValue("NN", wrap(y), wrap(mean));
    cr_release(y);
    return raise_error();
}
PyObject *api_var_mean(const arg *a) { return with_mean(a, api_var); }
PyObject *api_std_mean(const arg *a) { return with_mean(a, api_std); }

/* (input, p, dim, keepdim, dtype) */
PyObject *api_norm(const arg *a) {
    number p = {.d = 2};
    if (PyUnicode_Check(a[1].o)) {
        if (PyUnicode_CompareWithASCIIString(a[1].o, "fro")) return PyErr_Format(PyExc_RuntimeError, "[norm] p is a number or 'fro', not %R", a[1].o);
    } else if (a[1].o != Py_None && !to_number(a[1].o, &p)) {
        return PyErr_Occurred() ? NULL : raise_type(a[1].o, "norm(): argument 'p' must be a number or 'fro', not");
    }
    cr_tensor *y;
    Py_BEGIN_ALLOW_THREADS
    cr_scope_begin();
    y = leave(cr_norm(a[4].given ? cast(a[0].t, a[4].dt) : a[0].t, p.d, a[2].size.n, a[2].size.v, a[3].b));
    Py_END_ALLOW_THREADS
    return wrap(y);
}

/* ---- scans: (input, dim, dtype) */
static cr_tensor *cumsum(const cr_tensor *x, const arg *a) { return cr_cumsum(x, axis(a[1].i)); }
static cr_tensor *cumprod(const cr_tensor *x, const arg *a) { return cr_cumprod(x, axis(a[1].i)); }
cr_tensor *api_cumsum(const arg *a) { return in_dtype(a, &a[2], cumsum); }
cr_tensor *api_cumprod(const arg *a) { return in_dtype(a, &a[2], cumprod); }
cr_tensor *api_logcumsumexp(const arg *a) { return cr_logcumsumexp(a[0].t, axis(a[1].i)); }

/* (input, n, dim, prepend, append) */
cr_tensor *api_diff(const arg *a) {
    const cr_tensor *parts[3];
    int n = 0;
    if (a[3].given) parts[n++] = a[3].t;
    parts[n++] = a[0].t;
    if (a[4].given) parts[n++] = a[4].t;
    if (n == 1) return cr_diff(a[0].t, a[1].i, axis(a[2].i));
    cr_scope_begin();
    return leave(cr_diff(cr_cat(n, parts, axis(a[2].i)), a[1].i, axis(a[2].i)));
}

/* (input, dim, dtype) */
static cr_tensor *softmax(const cr_tensor *x, const arg *a) { return cr_softmax(x, axis(a[1].i)); }
static cr_tensor *log_softmax(const cr_tensor *x, const arg *a) { return cr_log_softmax(x, axis(a[1].i)); }
cr_tensor *api_softmax(const arg *a) { return in_dtype(a, &a[2], softmax); }
cr_tensor *api_log_softmax(const arg *a) { return in_dtype(a, &a[2], log_softmax); }

typedef cr_tensor *(*position)(const cr_tensor *x, int axis, bool keepdim);

static cr_tensor *arg_reduce(const arg *a, position f) {
    if (a[1].given) return f(a[0].t, axis(a[1].i), a[2].b);
    cr_scope_begin();
    cr_tensor *y = f(cr_reshape(a[0].t, CR_LIST(-1)), 0, false);
    int64_t ones[CR_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    return leave(a[2].b ? cr_reshape(y, cr_ndim(a[0].t), ones) : y);
}
cr_tensor *api_argmax(const arg *a) { return arg_reduce(a, cr_argmax); }
cr_tensor *api_argmin(const arg *a) { return arg_reduce(a, cr_argmin); }

PyObject *named_pair(const char *type_name, cr_tensor *first, cr_tensor *second) {
    static struct { const char *name; PyTypeObject *type; } types[16];
    static PyStructSequence_Field places[] = {{"values", "the elements"}, {"indices", "where they are, int64"}, {0}},
                                  ends[] = {{"min", "the smallest"}, {"max", "the largest"}, {0}};
    int i = 0;
    while (types[i].name && strcmp(types[i].name, type_name)) i++;
    types[i].name = type_name;
    PyTypeObject **type = &types[i].type;
    PyStructSequence_Desc d = {.name = type_name, .fields = strstr(type_name, "aminmax") ? ends : places, .n_in_sequence = 2};
    if (!*type) *type = PyStructSequence_NewType(&d);
    PyObject *a = wrap(first), *b = wrap(second), *pair = *type && a && b ? PyStructSequence_New(*type) : NULL;
    if (pair) {
        PyStructSequence_SetItem(pair, 0, a);
        PyStructSequence_SetItem(pair, 1, b);
        return pair;
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    return NULL;
}

/* max(), max(dim, keepdim), max(other); (input, dim or other, keepdim, other) */
static PyObject *extreme(const arg *a, const char *type_name, cr_tensor *(*all)(const cr_tensor *, int, const int64_t *, bool),
                         cr_status (*along_axis)(const cr_tensor *, int, bool, cr_tensor **, cr_tensor **), cr_tensor *(*two)(const cr_tensor *, const cr_tensor *)) {
    cr_tensor *y, *index;
    cr_status status;
    int64_t dim;
    if (a[3].given || is_tensor(a[1].o)) {
        WITHOUT_GIL(y = two(a[0].t, a[3].given ? a[3].t : handle(a[1].o)));
        return wrap(y);
    }
    if (a[1].o == Py_None) {
        WITHOUT_GIL(y = all(a[0].t, CR_ALL, a[2].b));
        return wrap(y);
    }
    if (!to_int64(a[1].o, &dim)) return NULL;
    WITHOUT_GIL(status = along_axis(a[0].t, axis(dim), a[2].b, &y, &index));
    return status == CR_OK ? named_pair(type_name, y, index) : raise_error();
}
PyObject *api_max(const arg *a) { return extreme(a, "chainrule.return_types.max", cr_max, cr_max_along, cr_maximum); }
PyObject *api_min(const arg *a) { return extreme(a, "chainrule.return_types.min", cr_min, cr_min_along, cr_minimum); }

/* (input, dim) */
static PyObject *running_extreme(const arg *a, const char *type_name, cr_status (*f)(const cr_tensor *, int, cr_tensor **, cr_tensor **)) {
    cr_tensor *y, *index;
    cr_status status;
    WITHOUT_GIL(status = f(a[0].t, axis(a[1].i), &y, &index));
    return status == CR_OK ? named_pair(type_name, y, index) : raise_error();
}
PyObject *api_cummax(const arg *a) { return running_extreme(a, "chainrule.return_types.cummax", cr_cummax); }
PyObject *api_cummin(const arg *a) { return running_extreme(a, "chainrule.return_types.cummin", cr_cummin); }

/* (input, dim, keepdim) */
PyObject *api_aminmax(const arg *a) {
    cr_tensor *min, *max;
    cr_status status;
    WITHOUT_GIL(status = cr_aminmax(a[0].t, AXES, a[2].b, &min, &max));
    return status == CR_OK ? named_pair("chainrule.return_types.aminmax", min, max) : raise_error();
}

/* ---- products and indexing ----------------------------------------------------------------------------------------------------------- */
cr_tensor *api_matmul(const arg *a) { return cr_matmul(a[0].t, a[1].t); }
cr_tensor *api_mm(const arg *a) { return cr_mm(a[0].t, a[1].t); }
cr_tensor *api_bmm(const arg *a) { return cr_bmm(a[0].t, a[1].t); }
cr_tensor *api_mv(const arg *a) { return cr_mv(a[0].t, a[1].t); }
cr_tensor *api_dot(const arg *a) { return cr_dot(a[0].t, a[1].t); }
cr_tensor *api_vdot(const arg *a) { return cr_dot(a[0].t, a[1].t); }
cr_tensor *api_inner(const arg *a) { return cr_inner(a[0].t, a[1].t); }
cr_tensor *api_outer(const arg *a) { return cr_outer(a[0].t, a[1].t); }
cr_tensor *api_kron(const arg *a) { return cr_kron(a[0].t, a[1].t); }
cr_tensor *api_trace(const arg *a) { return cr_trace(a[0].t); }
/* (input, first, second, beta, alpha) */
cr_tensor *api_addmm(const arg *a) { return cr_addmm(a[0].t, a[1].t, a[2].t, a[3].x.d, a[4].x.d); }
cr_tensor *api_addmv(const arg *a) { return cr_addmv(a[0].t, a[1].t, a[2].t, a[3].x.d, a[4].x.d); }
cr_tensor *api_addr(const arg *a) { return cr_addr(a[0].t, a[1].t, a[2].t, a[3].x.d, a[4].x.d); }
cr_tensor *api_baddbmm(const arg *a) { return cr_baddbmm(a[0].t, a[1].t, a[2].t, a[3].x.d, a[4].x.d); }
cr_tensor *api_addbmm(const arg *a) { return cr_addbmm(a[0].t, a[1].t, a[2].t, a[3].x.d, a[4].x.d); }
cr_tensor *api_addmm_(const arg *a) { return written("addmm_", a, api_addmm(a)); }
cr_tensor *api_addmv_(const arg *a) { return written("addmv_", a, api_addmv(a)); }
cr_tensor *api_addr_(const arg *a) { return written("addr_", a, api_addr(a)); }
cr_tensor *api_baddbmm_(const arg *a) { return written("baddbmm_", a, api_baddbmm(a)); }
cr_tensor *api_addbmm_(const arg *a) { return written("addbmm_", a, api_addbmm(a)); }

/* (a, b, dims) */
PyObject *api_tensordot(const arg *a) {
    int64_t axes[2][CR_MAX_DIMS];
    int n[2];
    PyObject *pair = PySequence_Check(a[2].o) && !PyUnicode_Check(a[2].o) ? PySequence_Tuple(a[2].o) : NULL;
    if (PyErr_Occurred()) return NULL;
    if (pair) {
        bool ok = PyTuple_Size(pair) == 2 && to_size(PyTuple_GetItem(pair, 0), &n[0], axes[0]) && to_size(PyTuple_GetItem(pair, 1), &n[1], axes[1]);
        Py_DECREF(pair);
        if (!ok) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "[tensordot] dims is an int or two lists of axes");
        if (n[0] != n[1]) return PyErr_Format(PyExc_RuntimeError, "[tensordot] both dims lists should have same length: %d and %d axes", n[0], n[1]);
    } else {
        int64_t k = 2;
        if (a[2].o != Py_None && !PyIndex_Check(a[2].o)) return raise_type(a[2].o, "tensordot(): argument 'dims' must be an int or two lists of axes, not");
        if (a[2].o != Py_None && !to_int64(a[2].o, &k)) return NULL;
        if (k < 0 || k > CR_MAX_DIMS) return PyErr_Format(PyExc_RuntimeError, "[tensordot] dims is %lld: 0 to %d axes can be summed over", (long long)k, CR_MAX_DIMS);
        n[0] = (int)k;
        for (int i = 0; i < n[0]; i++) axes[0][i] = i - n[0], axes[1][i] = i;
    }
    cr_tensor *y;
    WITHOUT_GIL(y = cr_tensordot(a[0].t, a[1].t, n[0], axes[0], axes[1]));
    return wrap(y);
}

/* ---- einsum: an equation and operands, or operands that alternate with lists of labels, which become an equation */
enum { MOST_OPERANDS = 64, EQUATION = (MOST_OPERANDS + 1) * (3 * (CR_MAX_DIMS + 1) + 2) };

static bool append_labels(char *text, PyObject *list) {
    PyObject *items = PySequence_Check(list) && !PyUnicode_Check(list) ? PySequence_Tuple(list) : NULL;
    if (!items) return PyErr_Occurred() || raise_type(list, "einsum(): labels must be a list of ints, not");
    char *at = text + strlen(text);
    bool ok = PyTuple_Size(items) <= CR_MAX_DIMS + 1;
    if (!ok) PyErr_Format(PyExc_ValueError, "einsum(): %zd labels for one operand, at most %d", PyTuple_Size(items), CR_MAX_DIMS + 1);
    for (Py_ssize_t i = 0; ok && i < PyTuple_Size(items); i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        int64_t label = 0;
        if (item == Py_Ellipsis) { memcpy(at, "...", 3); at += 3; continue; }
        ok = to_int64(item, &label) && label >= 0 && label < 52;
        if (ok) *at++ = (char)(label < 26 ? 'A' + label : 'a' + label - 26);
        else if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "einsum(): label %lld is not within 0 ... 51", (long long)label);
    }
    *at = 0;
    Py_DECREF(items);
    return ok;
}

/* The operands of `items` from `from` on, every step-th; how many, or -1 and an exception. */
static int operands_of(PyObject *items, Py_ssize_t from, Py_ssize_t to, int step, const cr_tensor **in) {
    int n = 0;
    for (Py_ssize_t i = from; i < to; i += step, n++) {
        PyObject *item = PyTuple_GetItem(items, i);
        if (!is_tensor(item)) return raise_type(item, "einsum(): operand %d must be Tensor, not", n), -1;
        if (n == MOST_OPERANDS) return PyErr_Format(PyExc_ValueError, "einsum(): more than %d operands", MOST_OPERANDS), -1;
        in[n] = handle(item);
    }
    return n;
}

/* all: (a, [0, 1], b, [1, 2], [0, 2]) */
static int read_lists(PyObject *all, char *text, const cr_tensor **in) {
    const Py_ssize_t count = PyTuple_Size(all);
    int n = operands_of(all, 0, count - count % 2, 2, in);
    for (int i = 0; i < n; i++) {
        if (i) strcat(text, ",");
        if (!append_labels(text, PyTuple_GetItem(all, 2 * i + 1))) return -1;
    }
    if (n < 0 || count % 2 == 0) return n;
    strcat(text, "->");
    return append_labels(text, PyTuple_GetItem(all, count - 1)) ? n : -1;
}

PyObject *api_einsum(const arg *a) {
    const cr_tensor *in[MOST_OPERANDS];
    char text[EQUATION] = "";
    const char *equation = text;
    PyObject *rest = a[1].o, *items, *result = NULL;
    int n;
    if (!a[1].given) items = PyTuple_New(0);
    else if (PyTuple_Check(rest) || (PyUnicode_Check(a[0].o) && PyList_Check(rest))) items = PySequence_Tuple(rest);     /* einsum(equation, [a, b]) */
    else items = PyTuple_Pack(1, rest);
    if (!items) return NULL;
    if (PyUnicode_Check(a[0].o)) {
        equation = PyUnicode_AsUTF8AndSize(a[0].o, NULL);
        n = equation ? operands_of(items, 0, PyTuple_Size(items), 1, in) : -1;
    } else {
        PyObject *first = PyTuple_Pack(1, a[0].o), *all = first ? PySequence_Concat(first, items) : NULL;
        n = all ? read_lists(all, text, in) : -1;
        Py_XDECREF(first);
        Py_XDECREF(all);
    }
    cr_tensor *y;
    if (n >= 0) {
        WITHOUT_GIL(y = cr_einsum(equation, n, in));
        result = wrap(y);
    }
    Py_DECREF(items);
    return result;
}

/* ---- indexing ------------------------------------------------------------------------------------------------------------------------ */
cr_tensor *api_gather(const arg *a) { return cr_gather(a[0].t, axis(a[1].i), a[2].t); }
cr_tensor *api_take(const arg *a) { return cr_take(a[0].t, a[1].t); }
cr_tensor *api_take_along_dim(const arg *a) {
    if (a[2].given) return cr_take_along_axis(a[0].t, axis(a[2].i), a[1].t);
    cr_scope_begin();
    return leave(cr_gather(cr_reshape(a[0].t, CR_LIST(-1)), 0, cr_reshape(a[1].t, CR_LIST(-1))));
}

/* (input, dim, index, src, value): one of the last two */
static const cr_tensor *source(const arg *a) {
    if (a[3].given != a[4].given) return a[3].given ? a[3].t : a[4].t;
    set_error(PyExc_TypeError, a[3].given ? "scatter() takes src or value, not both" : "scatter() missing required argument 'src' (position 4)");
    return NULL;
}
cr_tensor *api_scatter(const arg *a) {
    const cr_tensor *src = source(a);
    return src ? cr_scatter(a[0].t, axis(a[1].i), a[2].t, src) : NULL;
}
cr_tensor *api_scatter_(const arg *a) {
    const cr_tensor *src = source(a);
    return src ? cr_scatter_(a[0].t, axis(a[1].i), a[2].t, src) : NULL;
}
cr_tensor *api_scatter_add(const arg *a) { return cr_scatter_add(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_scatter_add_(const arg *a) { return cr_scatter_add_(a[0].t, axis(a[1].i), a[2].t, a[3].t); }

cr_tensor *api_index_select(const arg *a) { return cr_index_select(a[0].t, axis(a[1].i), a[2].t); }
cr_tensor *api_index_copy(const arg *a) { return cr_index_copy(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_index_copy_(const arg *a) { return cr_index_copy_(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_index_fill(const arg *a) { return cr_index_fill(a[0].t, axis(a[1].i), a[2].t, a[3].t); }
cr_tensor *api_index_fill_(const arg *a) { return cr_index_fill_(a[0].t, axis(a[1].i), a[2].t, a[3].t); }

/* (input, dim, index, source, alpha) */
static const cr_tensor *times_alpha(const arg *a) { return a[4].x.d == 1 ? a[3].t : cr_mul(a[3].t, scalar_of(&a[4].x)); }
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
cr_tensor *api_index_put(const arg *a) { return cr_index_put(a[0].t, a[1].list.n, a[1].list.v, a[2].t, a[3].b); }
cr_tensor *api_index_put_(const arg *a) { return cr_index_put_(a[0].t, a[1].list.n, a[1].list.v, a[2].t, a[3].b); }

/* (input, mask, value): the value as an operand of where, in the scope of the caller */
static const cr_tensor *masked_value(const arg *a) {
    if (cr_ndim(a[2].t) == 0) return cast(a[2].t, cr_dtype_of(a[0].t));
    set_error(PyExc_RuntimeError, "[masked_fill] the value has %d axes: a number or a tensor without axes is expected", cr_ndim(a[2].t));
    return NULL;
}
cr_tensor *api_masked_fill(const arg *a) {
    if (a[2].owned) return cr_masked_fill(a[0].t, a[1].t, cr_item(a[2].t));
    cr_scope_begin();
    return leave(cr_where(a[1].t, masked_value(a), a[0].t));
}
cr_tensor *api_masked_fill_(const arg *a) {
    if (a[2].owned) return cr_masked_fill_(a[0].t, a[1].t, cr_item(a[2].t));
    cr_scope_begin();
    cr_tensor *x = cr_program_apply_(cr_program_find("where"), a[0].t, 3, (const cr_tensor *const[]){a[1].t, masked_value(a), a[0].t}, NULL);
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
    cr_tensor *places;
    Py_BEGIN_ALLOW_THREADS
    cr_scope_begin();
    places = leave(cr_nonzero(cr_ndim(x) ? x : cr_reshape(x, CR_LIST(1))));
    Py_END_ALLOW_THREADS
    if (!places) return raise_error();
    const int64_t n = cr_size(places, 1);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (int64_t i = 0; tuple && i < n; i++) {
        PyObject *along = wrap(cr_select(places, 1, i));
        if (along) PyTuple_SetItem(tuple, (Py_ssize_t)i, along);
        else Py_CLEAR(tuple);
    }
    cr_release(places);
    return tuple;
}
PyObject *api_nonzero(const arg *a) {
    cr_tensor *y;
    if (a[1].b) return nonzeros(a[0].t);
    WITHOUT_GIL(y = cr_nonzero(a[0].t));
    return wrap(y);
}
PyObject *api_where(const arg *a) {
    cr_tensor *y;
    if (!a[1].given && !a[2].given) return nonzeros(a[0].t);
    if (!a[1].given || !a[2].given) return PyErr_Format(PyExc_TypeError, "where() missing required argument '%s'", a[1].given ? "other" : "input");
    WITHOUT_GIL(y = cr_where(a[0].t, a[1].t, a[2].t));
    return wrap(y);
}

/* Empty vectors are left out where the others have more axes, so that a list can be grown from tensor([]). */
cr_tensor *api_cat(const arg *a) {
    const cr_tensor **in = a[0].list.v;
    int n = 0, ndim = 1;
    for (int i = 0; i < a[0].list.n; i++) if (cr_ndim(in[i]) > ndim) ndim = cr_ndim(in[i]);
    for (int i = 0; i < a[0].list.n; i++) {
        const cr_tensor *t = in[i];
        if (ndim > 1 && cr_ndim(t) == 1 && cr_numel(t) == 0) continue;
        in[i] = in[n];
        in[n++] = t;
    }
    return cr_cat(n, in, axis(a[1].i));
}
cr_tensor *api_stack(const arg *a) { return cr_stack(a[0].list.n, a[0].list.v, axis(a[1].i)); }

/* ---- dtypes ---------------------------------------------------------------------------------------------------------------------------- */
PyObject *api_promote_types(const arg *a) { return dtype_object(cr_promote(a[0].dt, a[1].dt)); }
PyObject *api_can_cast(const arg *a) { return PyBool_FromLong(cr_can_cast(a[0].dt, a[1].dt)); }
PyObject *api_result_type(const arg *a) { return dtype_object(cr_result_type(2, (const cr_tensor *const[]){a[0].t, a[1].t})); }

/* ---- a few ops in a row ------------------------------------------------------------------------------------------------------------------ */
cr_tensor *api_rsub(const arg *a) {
    arg turned[] = {a[1], a[0], a[2]};
    return api_sub(turned);
}

/* Along `at`, after axes in front were added to what has fewer than `ndim`. */
static cr_tensor *stacked(const arg *a, int ndim, int at) {
    int n = a[0].list.n;
    const cr_tensor **in = malloc(sizeof *in * (size_t)(n ? n : 1));
    if (!in) {
        set_error(PyExc_MemoryError, "no memory for a list of %d tensors", n);
        return NULL;
    }
    cr_scope_begin();
    for (int i = 0; i < n; i++)
        for (in[i] = a[0].list.v[i]; in[i] && cr_ndim(in[i]) < ndim;) in[i] = cr_unsqueeze(in[i], 0);
    cr_tensor *y = cr_cat(n, in, n && in[0] && cr_ndim(in[0]) == 1 ? 0 : at);
    free((void *)in);
    return leave(y);
}
cr_tensor *api_hstack(const arg *a) { return stacked(a, 1, 1); }
cr_tensor *api_vstack(const arg *a) { return stacked(a, 2, 0); }

cr_tensor *api_tril_(const arg *a) { return cr_tril_(a[0].t, a[1].i); }
cr_tensor *api_triu_(const arg *a) { return cr_triu_(a[0].t, a[1].i); }

/* ---- settings ------------------------------------------------------------------------------------------------------------------------- */
PyObject *done(cr_status status) {
    if (status != CR_OK) return raise_error();
    Py_RETURN_NONE;
}
PyObject *api_get_num_threads(const arg *a) { (void)a; return PyLong_FromLong(cr_num_threads()); }
PyObject *api_set_num_threads(const arg *a) {
    return done(cr_set_num_threads(axis(a[0].i)));
}

PyObject *api_set_default_device(const arg *a) { return done(cr_set_default_device(a[0].dev)); }
PyObject *api_get_default_device(const arg *a) { (void)a; return device_object(cr_default_device()); }
PyObject *api_synchronize(const arg *a) {
    cr_status status;
    WITHOUT_GIL(status = cr_synchronize(a[0].dev));
    return done(status);
}
PyObject *api_memory_stats(const arg *a) {
    cr_memory m = cr_memory_stats(a[0].dev);
    return int_tuple(3, (int64_t[]){m.current, m.peak, m.cached});
}
PyObject *api_empty_cache(const arg *a) {
    cr_empty_cache(a[0].dev);
    Py_RETURN_NONE;
}
PyObject *api__devices(const arg *a) {
    (void)a;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && cr_device_at(i); i++) {
        PyObject *name = PyUnicode_FromString(cr_device_name(cr_device_at(i)));
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* CHAINRULE_NUM_THREADS as num_threads */
static PyObject *switch_name(const char *name) {
    PyObject *whole = PyUnicode_FromString(strchr(name, '_') + 1), *lower = whole ? PyObject_CallMethod(whole, "lower", NULL) : NULL;
    Py_XDECREF(whole);
    return lower;
}
PyObject *api__switches(const arg *a) {
    (void)a;
    PyObject *list = PyList_New(0);
    const char *name, *doc, *value;
    for (int i = 0; list && cr_switch_at(i, &name, &doc, &value); i++) {
        PyObject *row = Py_BuildValue("Nsz", switch_name(name), doc, value);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}
PyObject *api__switch_set(const arg *a) { return done(cr_switch_set(a[0].s, a[1].given ? a[1].s : NULL)); }
PyObject *api__profile_begin(const arg *a) { (void)a; return done(cr_profile_begin()); }
PyObject *api__profile_end(const arg *a) {
    cr_status status;
    WITHOUT_GIL(status = cr_profile_end(a[0].s));
    return done(status);
}
