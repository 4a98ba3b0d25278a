/* products.c - matrix products, tensordot, einsum. */
#include "extension.h"

#include <string.h>

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
        bool ok = PyTuple_Size(pair) == 2 && to_size(PyTuple_GetItem(pair, 0), &n[0], axes[0]) &&
                  to_size(PyTuple_GetItem(pair, 1), &n[1], axes[1]);
        Py_DECREF(pair);
        if (!ok)
            return PyErr_Occurred()
                       ? NULL
                       : PyErr_Format(PyExc_RuntimeError, "[tensordot] dims is an int or two lists of axes");
        if (n[0] != n[1])
            return PyErr_Format(PyExc_RuntimeError,
                                "[tensordot] both dims lists should have same length: %d and %d axes", n[0], n[1]);
    } else {
        int64_t k = 2;
        if (a[2].o != Py_None && !PyIndex_Check(a[2].o))
            return raise_type(a[2].o, "tensordot(): argument 'dims' must be an int or two lists of axes, not");
        if (a[2].o != Py_None && !to_int64(a[2].o, &k)) return NULL;
        if (k < 0 || k > CR_MAX_DIMS)
            return PyErr_Format(PyExc_RuntimeError, "[tensordot] dims is %lld: 0 to %d axes can be summed over",
                                (long long)k, CR_MAX_DIMS);
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
    if (!ok)
        PyErr_Format(PyExc_ValueError, "einsum(): %zd labels for one operand, at most %d", PyTuple_Size(items),
                     CR_MAX_DIMS + 1);
    for (Py_ssize_t i = 0; ok && i < PyTuple_Size(items); i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        int64_t label = 0;
        if (item == Py_Ellipsis) { memcpy(at, "...", 3); at += 3; continue; }
        ok = to_int64(item, &label) && label >= 0 && label < 52;
        if (ok) *at++ = (char)(label < 26 ? 'A' + label : 'a' + label - 26);
        else if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "einsum(): label %lld is not within 0 ... 51", (long long)label);
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
        if (n == MOST_OPERANDS)
            return PyErr_Format(PyExc_ValueError, "einsum(): more than %d operands", MOST_OPERANDS), -1;
        in[n] = hold(item);
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
    const cr_tensor *in[MOST_OPERANDS] = {NULL};     /* held */
    char text[EQUATION] = "";
    const char *equation = text;
    PyObject *rest = a[1].o, *items, *result = NULL;
    int n;
    if (!a[1].given) items = PyTuple_New(0);
    else if (PyTuple_Check(rest) || (PyUnicode_Check(a[0].o) && PyList_Check(rest)))
        items = PySequence_Tuple(rest);     /* einsum(equation, [a, b]) */
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
    for (int i = 0; i < MOST_OPERANDS; i++) cr_drop(in[i]);
    Py_DECREF(items);
    return result;
}
