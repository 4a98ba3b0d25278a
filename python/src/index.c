/* index.c - x[key] and x[key] = value: integers, slices, None and ... as views. */
#include "extension.h"

/* One item of a key applied to the view so far; *axis is the next axis of it.  Consumes x, returns the next view. */
static cr_tensor *apply_item(cr_tensor *x, PyObject *item, int *axis) {
    cr_tensor *y = NULL;
    if (item == Py_None) {
        y = cr_unsqueeze(x, (*axis)++);
    } else if (PySlice_Check(item)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(item, &start, &stop, &step) < 0) goto failed;
        if (step < 0) {
            PyErr_SetString(PyExc_ValueError, "a step must be greater than zero (negative ones do not work yet)");
            goto failed;
        }
        y = start == 0 && step == 1 && stop == PY_SSIZE_T_MAX ? cr_retain(x) : cr_slice(x, *axis, start, stop, step);
        (*axis)++;
    } else if (PyBool_Check(item) || !PyIndex_Check(item) || (is_tensor(item) && (cr_ndim(handle(item)) || cr_dtype_of(handle(item)) == CR_BOOL))) {
        raise_type(item, "a key is made of ints, slices, None and ... (index tensors and bool masks do not work yet), not of");
        goto failed;
    } else {
        int64_t i;
        if (!to_int64(item, &i)) {
            if (PyErr_ExceptionMatches(PyExc_OverflowError)) { PyErr_Clear(); PyErr_SetString(PyExc_IndexError, "an index beyond 64 bits"); }
            goto failed;
        }
        y = cr_select(x, *axis, i);
    }
    if (!y) raise_error();
failed:
    cr_drop(x);
    return y;
}

cr_tensor *get_item(PyObject *self, PyObject *key) {
    cr_tensor *x = cr_retain(handle(self));
    if (!PyTuple_Check(key)) key = PyTuple_Pack(1, key);
    else Py_INCREF(key);
    if (!key) { cr_drop(x); return NULL; }
    Py_ssize_t n = PyTuple_Size(key), used = 0, ellipses = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(key, i);
        if (item == Py_Ellipsis) ellipses++;
        else if (item != Py_None) used++;
    }
    if (ellipses > 1 || used > cr_ndim(x)) {
        PyErr_Format(PyExc_IndexError, ellipses > 1 ? "an index can only have one ellipsis ('...')" : "too many indices for tensor of dimension %d", cr_ndim(x));
        cr_drop(x);
        x = NULL;
    }
    int axis = 0, skipped = x ? cr_ndim(x) - (int)used : 0;
    for (Py_ssize_t i = 0; x && i < n; i++) {
        PyObject *item = PyTuple_GetItem(key, i);
        if (item == Py_Ellipsis) axis += skipped;
        else x = apply_item(x, item, &axis);
    }
    Py_DECREF(key);
    return x;
}

int set_item(PyObject *self, PyObject *key, PyObject *value) {
    if (!value) { PyErr_SetString(PyExc_TypeError, "a tensor's elements cannot be deleted"); return -1; }
    cr_tensor *view = get_item(self, key), *y = NULL, *made = NULL;
    if (!view) return -1;
    number x;
    if (is_tensor(value)) y = handle(value);
    else if (to_number(value, &x)) y = made = scalar_of(&x);
    else if (!PyErr_Occurred()) y = made = tensor_from(value, NULL, cr_device_of(view));
    bool ok = !PyErr_Occurred() && y && cr_copy_(view, y);
    if (!ok && !PyErr_Occurred()) raise_error();
    if (made) cr_release(made);
    cr_drop(view);
    return ok ? 0 : -1;
}
