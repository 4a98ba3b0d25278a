/* reduce.c - reductions and scans along axes. */
#include "extension.h"

#include <string.h>

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

/* No elements have no extreme: an error with the name of the call, an IndexError where the call names
 * an axis, as in PyTorch. */
static cr_tensor *extreme_of(const char *name, const arg *a, bool axis_named, cr_tensor *y) {
    const char *what = y || cr_numel(a[0].t) || cr_error_status() != CR_BAD_VALUE ? NULL : strchr(cr_error(), ']');
    if (what) set_error(axis_named ? PyExc_IndexError : bad_value, "[%s%s", name, what);
    return y;
}
cr_tensor *api_amax(const arg *a) { return extreme_of("amax", a, a[1].size.n, cr_max(a[0].t, AXES, a[2].b)); }
cr_tensor *api_amin(const arg *a) { return extreme_of("amin", a, a[1].size.n, cr_min(a[0].t, AXES, a[2].b)); }
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

static PyObject *all_axes(const cr_tensor *x) {
    PyObject *axes = PyTuple_New(cr_ndim(x));
    for (int i = 0; axes && i < cr_ndim(x); i++) PyTuple_SetItem(axes, i, PyLong_FromLong(i));
    return axes;
}

/* p "nuc": linalg.matrix_norm, which refuses other numbers of axes than two */
static PyObject *nuclear(const arg *a) {
    PyObject *linalg = PyImport_ImportModule("chainrule.linalg"), *dim = NULL, *x = NULL, *y = NULL;
    if (linalg) dim = a[2].given ? Py_NewRef(a[2].from) : all_axes(a[0].t);
    if (dim) x = a[4].given ? PyObject_CallMethod(a[0].from, "to", "O", a[4].from) : Py_NewRef(a[0].from);
    if (x) y = PyObject_CallMethod(linalg, "matrix_norm", "OsOO", x, "nuc", dim, a[3].b ? Py_True : Py_False);
    Py_XDECREF(linalg);
    Py_XDECREF(dim);
    Py_XDECREF(x);
    return y;
}

/* (input, p, dim, keepdim, dtype) */
PyObject *api_norm(const arg *a) {
    number p = {.d = 2};
    if (PyUnicode_Check(a[1].o)) {
        if (!PyUnicode_CompareWithASCIIString(a[1].o, "nuc")) return nuclear(a);
        if (PyUnicode_CompareWithASCIIString(a[1].o, "fro"))
            return PyErr_Format(PyExc_RuntimeError, "[norm] p is a number, 'fro' or 'nuc', not %R", a[1].o);
    } else if (a[1].o != Py_None && !to_number(a[1].o, &p)) {
        return PyErr_Occurred() ? NULL
                                : raise_type(a[1].o, "norm(): argument 'p' must be a number, 'fro' or 'nuc', not");
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

/* dtype must be that of the tensor, as in PyTorch. */
static cr_tensor *scanned(const char *name, const arg *a, cr_tensor *(*f)(const arg *a)) {
    if (!a[2].given || a[2].dt == cr_dtype_of(a[0].t)) return written(name, a, f(a));
    set_error(PyExc_RuntimeError, "[%s] the dtype is %s, but the tensor has %s", name, cr_dtype_name(a[2].dt),
              cr_dtype_name(cr_dtype_of(a[0].t)));
    return NULL;
}
cr_tensor *api_cumsum_(const arg *a) { return scanned("cumsum_", a, api_cumsum); }
/* The gradient reads the values that the call overwrites. */
static cr_tensor *cumprod_of_copy(const arg *a) {
    arg copy[] = {a[0], a[1], a[2]};
    cr_scope_begin();
    if (cr_requires_grad(a[0].t)) copy[0].t = cr_clone(a[0].t);
    return leave(copy[0].t ? api_cumprod(copy) : NULL);
}
cr_tensor *api_cumprod_(const arg *a) { return scanned("cumprod_", a, cumprod_of_copy); }

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
cr_tensor *api_argmax(const arg *a) { return extreme_of("argmax", a, true, arg_reduce(a, cr_argmax)); }
cr_tensor *api_argmin(const arg *a) { return extreme_of("argmin", a, true, arg_reduce(a, cr_argmin)); }

PyObject *named_pair(const char *type_name, cr_tensor *first, cr_tensor *second) {
    static struct { const char *name; PyTypeObject *type; } types[24];
    static PyStructSequence_Field fields[] = {{"values", "the elements"}, {"indices", "where they are, int64"}, {0}},
                                  ends[] = {{"min", "the smallest"}, {"max", "the largest"}, {0}},
                                  floats[] = {{"mantissa", "in [0.5, 1) by size"}, {"exponent", "int32"}, {0}};
    int i = 0;
    SHARED(while (types[i].name && strcmp(types[i].name, type_name)) i++;
           types[i].name = type_name);
    PyTypeObject **type = &types[i].type;
    PyStructSequence_Desc d = {
        .name = type_name,
        .fields = strstr(type_name, "aminmax") ? ends : strstr(type_name, "frexp") ? floats : fields,
        .n_in_sequence = 2};
    if (!*type) {
        PyTypeObject *made = PyStructSequence_NewType(&d);
        SHARED(if (!*type) *type = made);
    }
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
static PyObject *extreme(const arg *a, const char *type_name,
                         cr_tensor *(*all)(const cr_tensor *, int, const int64_t *, bool),
                         cr_tensor *(*along_axis)(const cr_tensor *, int, bool, cr_tensor **),
                         cr_tensor *(*two)(const cr_tensor *, const cr_tensor *)) {
    cr_tensor *y, *index;
    int64_t dim;
    if (a[3].given || is_tensor(a[1].o)) {
        cr_tensor *other = a[3].given ? cr_retain(a[3].t) : hold(a[1].o);
        WITHOUT_GIL(y = two(a[0].t, other));
        cr_drop(other);
        return wrap(y);
    }
    if (a[1].o == Py_None) {
        WITHOUT_GIL(y = all(a[0].t, CR_ALL, a[2].b));
        return wrap(y);
    }
    if (!to_int64(a[1].o, &dim)) return NULL;
    WITHOUT_GIL(y = extreme_of(strrchr(type_name, '.') + 1, a, true, along_axis(a[0].t, axis(dim), a[2].b, &index)));
    if (!y) return raise_error();
    cr_node_rename(y, strrchr(type_name, '.') + 1);
    return named_pair(type_name, y, index);
}
PyObject *api_max(const arg *a) { return extreme(a, "chainrule.return_types.max", cr_max, cr_max_along, cr_maximum); }
PyObject *api_min(const arg *a) { return extreme(a, "chainrule.return_types.min", cr_min, cr_min_along, cr_minimum); }

/* (input, dim) */
PyObject *api_cummax(const arg *a) { PAIR("cummax", cr_cummax(a[0].t, axis(a[1].i), &second)); }
PyObject *api_cummin(const arg *a) { PAIR("cummin", cr_cummin(a[0].t, axis(a[1].i), &second)); }

/* (input, dim, keepdim) */
PyObject *api_aminmax(const arg *a) {
    PAIR("aminmax", extreme_of("aminmax", a, a[1].size.n, cr_aminmax(a[0].t, AXES, a[2].b, &second)));
}
