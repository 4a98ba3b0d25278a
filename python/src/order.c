/* order.c - the rows of api.def about elements in order: sort, topk, median, unique, searchsorted. */
#include "extension.h"

#include <string.h>

/* (input, dim, descending, stable): every sort is stable */
PyObject *api_sort(const arg *a) { PAIR("sort", cr_sort(a[0].t, axis(a[1].i), a[2].b, &second)); }
cr_tensor *api_argsort(const arg *a) { return cr_argsort(a[0].t, axis(a[1].i), a[2].b); }
cr_tensor *api_msort(const arg *a) { return cr_sort(a[0].t, 0, false, NULL); }
/* (input, k, dim, largest, sorted): sorted in any case */
PyObject *api_topk(const arg *a) { PAIR("topk", cr_topk(a[0].t, a[1].i, axis(a[2].i), a[3].b, &second)); }
/* (input, k, dim, keepdim) */
PyObject *api_kthvalue(const arg *a) { PAIR("kthvalue", cr_kthvalue(a[0].t, a[1].i, axis(a[2].i), a[3].b, &second)); }

/* (input, dim, keepdim) */
PyObject *api_mode(const arg *a) { PAIR("mode", cr_mode(a[0].t, axis(a[1].i), a[2].b, &second)); }

/* (input, dim, keepdim): the value, or with an axis the pair */
PyObject *api_median(const arg *a) {
    cr_tensor *y;
    if (a[1].given) PAIR("median", cr_median(a[0].t, 1, &a[1].i, a[2].b, &second));
    WITHOUT_GIL(y = cr_median(a[0].t, CR_ALL, false, NULL));
    return wrap(y);
}
PyObject *api_nanmedian(const arg *a) {
    cr_tensor *y;
    if (a[1].given) PAIR("nanmedian", cr_nanmedian(a[0].t, 1, &a[1].i, a[2].b, &second));
    WITHOUT_GIL(y = cr_nanmedian(a[0].t, CR_ALL, false, NULL));
    return wrap(y);
}

/* ---- which there are */
typedef cr_tensor *(*unique_fn)(const cr_tensor *x, int n, const int64_t *axis, cr_tensor **inverse,
                                cr_tensor **counts);

/* The values, or a tuple with the other results that the call asks for. */
static PyObject *unique(unique_fn f, const cr_tensor *x, bool inverse, bool counts, const arg *dim) {
    cr_tensor *y, *more[2];
    WITHOUT_GIL(y = f(x, dim->given, &dim->i, inverse ? &more[0] : NULL, counts ? &more[1] : NULL));
    if (!y || (!inverse && !counts)) return wrap(y);
    PyObject *parts[3] = {wrap(y), inverse ? wrap(more[0]) : NULL, counts ? wrap(more[1]) : NULL},
             *tuple = PyTuple_New(1 + inverse + counts);
    for (int i = 0, n = 0; i < 3; i++) {
        if (i && !(i == 1 ? inverse : counts)) continue;
        if (tuple && parts[i]) PyTuple_SetItem(tuple, n++, parts[i]);
        else { Py_CLEAR(tuple); Py_XDECREF(parts[i]); }
    }
    return tuple;
}
/* (input, sorted, return_inverse, return_counts, dim): sorted in any case */
PyObject *api_unique(const arg *a) { return unique(cr_unique, a[0].t, a[2].b, a[3].b, &a[4]); }
/* (input, return_inverse, return_counts, dim) */
PyObject *api_unique_consecutive(const arg *a) { return unique(cr_unique_consecutive, a[0].t, a[1].b, a[2].b, &a[3]); }

cr_tensor *api_isclose(const arg *a) { return cr_isclose(a[0].t, a[1].t, a[2].d, a[3].d, a[4].b); }

/* The value of a tensor of one bool, which is released. */
static PyObject *truth(cr_tensor *y) {
    unsigned char yes = 0;
    const bool ok = y && cr_read(y, CR_BOOL, &yes, sizeof yes) == CR_OK;
    cr_release(y);
    return ok ? PyBool_FromLong(yes) : raise_error();
}
PyObject *api_allclose(const arg *a) {
    cr_tensor *y;
    WITHOUT_GIL(y = cr_allclose(a[0].t, a[1].t, a[2].d, a[3].d, a[4].b));
    return truth(y);
}
PyObject *api_equal(const arg *a) {
    cr_tensor *y;
    WITHOUT_GIL(y = cr_equal(a[0].t, a[1].t));
    return truth(y);
}

/* (elements, test_elements, assume_unique, invert) */
cr_tensor *api_isin(const arg *a) {
    if (a[0].owned && a[1].owned) {
        set_error(PyExc_TypeError, "isin(): one of elements and test_elements must be a Tensor");
        return NULL;
    }
    cr_tensor *y = cr_isin(a[0].t, a[1].t);
    if (!a[3].b) return y;
    cr_tensor *other = cr_logical_not(y);
    cr_release(y);
    return other;
}

/* (input, weights, minlength) */
cr_tensor *api_bincount(const arg *a) { return cr_bincount(a[0].t, a[1].t, a[2].i); }

/* (input, bins, min, max) */
cr_tensor *api_histc(const arg *a) { return cr_histc(a[0].t, a[1].i, a[2].x.d, a[3].x.d); }

/* (input, edges, weight) */
cr_tensor *api__histogram(const arg *a) { return cr_histogram(a[0].t, a[1].list.n, a[1].list.v, a[2].t); }

/* (input, bins, range, weight, density) */
static PyObject *histogram_of(const char *name, const arg *a) {
    PyObject *f = python_function("_histogram", name), *density = a[4].b ? Py_True : Py_False;
    return f ? PyObject_CallFunctionObjArgs(f, a[0].from, a[1].o, a[2].o, a[3].given ? a[3].from : Py_None, density,
                                            NULL)
             : NULL;
}
PyObject *api_histogram(const arg *a) { return histogram_of("histogram", a); }
PyObject *api_histogramdd(const arg *a) { return histogram_of("histogramdd", a); }

/* (input, q, dim, keepdim, interpolation) */
static cr_tensor *quantile(const arg *a, bool skip_nan) {
    static const char *const names[] = {"linear", "lower", "higher", "nearest", "midpoint"};
    for (int how = 0; how < 5; how++) {
        if (strcmp(a[4].s, names[how])) continue;
        return cr_quantile(a[0].t, a[1].t, a[2].given, &a[2].i, a[3].b, (cr_interpolation)how, skip_nan);
    }
    set_error(PyExc_RuntimeError, "[quantile] interpolation is linear, lower, higher, nearest or midpoint, not '%.60s'",
              a[4].s);
    return NULL;
}
cr_tensor *api_quantile(const arg *a) { return quantile(a, false); }
cr_tensor *api_nanquantile(const arg *a) { return quantile(a, true); }

/* ---- positions in a sorted row */
static cr_tensor *positions(const cr_tensor *sorted, const cr_tensor *v, bool right, const cr_tensor *sorter,
                            bool narrow) {
    cr_tensor *y = cr_searchsorted(sorted, v, right, sorter);
    if (!narrow || !y) return y;
    cr_tensor *small = cr_to(y, CR_I32, cr_device_of(y));
    cr_release(y);
    return small;
}
/* (sorted_sequence, input, out_int32, right, side, sorter) */
cr_tensor *api_searchsorted(const arg *a) {
    const char *side = a[4].given ? a[4].s : NULL;
    bool right = side && !strcmp(side, "right");
    if (side && !right && strcmp(side, "left")) {
        set_error(PyExc_RuntimeError, "[searchsorted] side is 'left' or 'right', not '%.60s'", side);
        return NULL;
    }
    if (side && !right && a[3].b) {
        set_error(PyExc_RuntimeError, "[searchsorted] side says left, right says the opposite");
        return NULL;
    }
    return positions(a[0].t, a[1].t, right || a[3].b, a[5].t, a[2].b);
}
/* (input, boundaries, out_int32, right) */
cr_tensor *api_bucketize(const arg *a) {
    if (cr_ndim(a[1].t) == 1) return positions(a[1].t, a[0].t, a[3].b, CR_NONE, a[2].b);
    set_error(PyExc_RuntimeError, "[bucketize] boundaries lie along one axis, not %d", cr_ndim(a[1].t));
    return NULL;
}
