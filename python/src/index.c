/* index.c - x[key] and x[key] = value: ints, slices, None and ... as one view. */
#include "extension.h"

typedef struct key {
    int parts, skipped;                             /* axes it uses so far; axes that ... stands for */
    cr_part part[CR_MAX_DIMS];
    int news;                                       /* of None: */
    int at[CR_MAX_DIMS];                            /* where it stands among the axes of the result */
} key;

static const cr_part whole = {0, INT64_MAX, 1};

static bool is_integer(PyObject *o) {
    if (PyLong_Check(o)) return !PyBool_Check(o);
    return PyIndex_Check(o) && !PyBool_Check(o) && (!is_tensor(o) || (cr_ndim(handle(o)) == 0 && cr_dtype_of(handle(o)) != CR_BOOL));
}

static bool read_slice(PyObject *item, cr_part *p) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(item, &start, &stop, &step) < 0) return false;
    *p = (cr_part){start, stop, step};
    return true;
}

static bool read_integer(PyObject *item, cr_part *p) {
    *p = (cr_part){0};
    if (to_int64(item, &p->start)) return true;
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) PyErr_SetString(PyExc_IndexError, "an index beyond 64 bits");
    return false;
}

/* One item; *result counts the axes of the result so far. */
static bool read_item(key *k, PyObject *item, int ndim, int *result) {
    if (item == Py_None) {
        if (k->news == CR_MAX_DIMS) { PyErr_Format(PyExc_IndexError, "more than %d axes", CR_MAX_DIMS); return false; }
        k->at[k->news++] = (*result)++;
        return true;
    }
    if (item == Py_Ellipsis) {
        for (int i = 0; i < k->skipped; i++) k->part[k->parts++] = whole;
        *result += k->skipped;
        return true;
    }
    if (k->parts >= ndim) {
        PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", ndim);
        return false;
    }
    cr_part *p = &k->part[k->parts++];
    if (PySlice_Check(item)) return ++*result, read_slice(item, p);
    if (is_integer(item)) return read_integer(item, p);
    raise_type(item, "a key is made of ints, slices, None and ... (index tensors and bool masks do not work yet), not of");
    return false;
}

static bool read_key(PyObject *given, int ndim, key *k) {
    int result = 0;
    k->parts = k->news = 0;
    if (!PyTuple_Check(given)) {
        k->skipped = ndim;                          /* of a lone ... */
        return read_item(k, given, ndim, &result);
    }
    Py_ssize_t n = PyTuple_Size(given), used = 0, ellipses = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(given, i);
        if (item == Py_Ellipsis) ellipses++;
        else used += item != Py_None;
    }
    if (ellipses > 1 || used > ndim) {
        PyErr_Format(PyExc_IndexError, ellipses > 1 ? "an index can only have one ellipsis ('...')" : "too many indices for tensor of dimension %d", ndim);
        return false;
    }
    k->skipped = ndim - (int)used;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!read_item(k, PyTuple_GetItem(given, i), ndim, &result)) return false;
    return true;
}

/* The view with its new axes: a view of a view. */
static cr_tensor *add_axes(cr_tensor *x, const key *k) {
    for (int i = 0; x && i < k->news; i++) {
        cr_tensor *wider = cr_unsqueeze(x, k->at[i]);
        cr_release(x);
        x = wider;
    }
    return x;
}

cr_tensor *get_item(PyObject *self, PyObject *given) {
    key k;
    if (!read_key(given, cr_ndim(handle(self)), &k)) return NULL;
    cr_tensor *y = cr_index(handle(self), k.parts, k.part);
    if (k.news) y = add_axes(y, &k);
    if (!y) raise_error();
    return y;
}

int set_item(PyObject *self, PyObject *given, PyObject *value) {
    if (!value) { PyErr_SetString(PyExc_TypeError, "a tensor's elements cannot be deleted"); return -1; }
    cr_tensor *view = get_item(self, given), *made = NULL;
    if (!view) return -1;
    const cr_tensor *y = NULL;
    number x;
    if (is_tensor(value)) y = handle(value);
    else if (to_number(value, &x)) y = made = scalar_of(&x);
    else if (!PyErr_Occurred()) y = made = tensor_from(value, NULL, cr_device_of(view));
    if (y && cr_ndim(y) > cr_ndim(view)) {          /* leading axes of size 1 fall away, as in NumPy */
        int extra = cr_ndim(y) - cr_ndim(view), ones = 0;
        while (ones < extra && cr_size(y, ones) == 1) ones++;
        cr_tensor *fewer = cr_reshape(y, cr_ndim(y) - ones, cr_shape(y) + ones);
        cr_release(made);
        y = made = fewer;
    }
    bool ok = !PyErr_Occurred() && y && cr_copy_(view, y);
    if (!ok && !PyErr_Occurred()) raise_error();
    cr_release(made);
    cr_release(view);
    return ok ? 0 : -1;
}
