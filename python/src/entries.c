/* entries.c - the modules of a model, looked at for each call: entries of dicts that must be as they were, and the
 * modules that train. */
#include "extension.h"

#include <string.h>

/* what a Tensor was */
typedef struct snapshot {
    const cr_tensor *t;                             /* compared only */
    cr_dtype dt; const cr_device *dev;
    int ndim; int64_t shape[CR_MAX_DIMS];
} snapshot;

static const char snapshot_name[] = "chainrule.snapshot";

static void free_snapshot(PyObject *capsule) { PyMem_Free(PyCapsule_GetPointer(capsule, snapshot_name)); }

/* None of what is no Tensor */
static PyObject *snapshot_of(PyObject *value) {
    if (!is_tensor(value)) return Py_NewRef(Py_None);
    const cr_tensor *t = handle(value);
    snapshot *s = PyMem_Calloc(1, sizeof *s);
    if (!s) return PyErr_NoMemory();
    *s = (snapshot){.t = t, .dt = cr_dtype_of(t), .dev = cr_device_of(t), .ndim = cr_ndim(t)};
    memcpy(s->shape, cr_shape(t), (size_t)s->ndim * sizeof *s->shape);
    PyObject *capsule = PyCapsule_New(s, snapshot_name, free_snapshot);
    if (!capsule) PyMem_Free(s);
    return capsule;
}

/* (rows) -> a list with the same and a snapshot in each, in Python's own objects, which the garbage collector sees */
PyObject *api__entries_new(const arg *a) {
    PyObject *list = PyList_New(0), *dict, *key, *value;
    for (Py_ssize_t i = 0; list && i < PyList_Size(a[0].o); i++) {
        PyObject *row = NULL, *kept = NULL;
        if (PyArg_ParseTuple(PyList_GetItem(a[0].o, i), "OOO", &dict, &key, &value)) kept = snapshot_of(value);
        if (kept) row = PyTuple_Pack(4, dict, key, value, kept);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(kept);
        Py_XDECREF(row);
    }
    return list;
}

static bool is_same(PyObject *row) {
    PyObject *dict = PyTuple_GetItem(row, 0), *key = PyTuple_GetItem(row, 1), *value = PyTuple_GetItem(row, 2);
    PyObject *kept = PyTuple_GetItem(row, 3);
    if (key == Py_None && PyLong_Check(value)) return PyDict_Size(dict) == PyLong_AsSsize_t(value);
    if (key == Py_None) return (PyObject *)Py_TYPE(dict) == value;
    if (PyDict_GetItemWithError(dict, key) != (value == Py_Ellipsis ? NULL : value)) return false;
    if (kept == Py_None) return true;
    const snapshot *s = PyCapsule_GetPointer(kept, snapshot_name);
    const cr_tensor *t = handle(value);
    return s->t == t && cr_dtype_of(t) == s->dt && cr_device_of(t) == s->dev && cr_ndim(t) == s->ndim &&
           !memcmp(cr_shape(t), s->shape, (size_t)s->ndim * sizeof *s->shape);
}

/* (entries) */
PyObject *api__entries_hold(const arg *a) {
    const Py_ssize_t n = PyList_Size(a[0].o);
    for (Py_ssize_t i = 0; i < n; i++) if (!is_same(PyList_GetItem(a[0].o, i))) Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* ---- modules that train */
typedef struct walk { PyObject *seen, *found, *kinds, *covered, *module, *training; } walk;

static bool enter(const walk *w, PyObject *module);

/* The module of this name in a dict of attributes, or in those that a method of the class covers. */
static bool enter_child(const walk *w, PyObject *dict, PyObject *name) {
    PyObject *covered = PyDict_GetItemWithError(dict, w->covered);
    PyObject *child = covered ? PyDict_GetItemWithError(covered, name) : NULL;
    if (!child) child = PyDict_GetItemWithError(dict, name);
    if (!child || child == Py_None || PySet_Contains(w->seen, child)) return !PyErr_Occurred();
    PyObject *trains = PyObject_GetAttr(child, w->training);
    bool ok = trains && PySet_Add(w->seen, child) == 0;
    if (ok && PyObject_IsTrue(trains)) ok = PyList_Append(w->found, child) == 0;
    Py_XDECREF(trains);
    return ok && enter(w, child);
}

static bool enter(const walk *w, PyObject *module) {
    PyObject *dict = PyObject_GenericGetDict(module, NULL), *name, *what;
    PyObject *kinds = dict ? PyDict_GetItemWithError(dict, w->kinds) : NULL;
    Py_ssize_t at = 0;
    bool ok = dict && !PyErr_Occurred();
    while (ok && kinds && PyDict_Next(kinds, &at, &name, &what))
        if (PyUnicode_Compare(what, w->module) == 0) ok = enter_child(w, dict, name);
    Py_XDECREF(dict);
    return ok;
}

/* (module) */
PyObject *api__training_inside(const arg *a) {
    walk w = {PySet_New(NULL), PyList_New(0), PyUnicode_InternFromString("_kinds"),
              PyUnicode_InternFromString("_covered"), PyUnicode_InternFromString("module"),
              PyUnicode_InternFromString("training")};
    bool ok = w.seen && w.found && w.kinds && w.covered && w.module && w.training && PySet_Add(w.seen, a[0].o) == 0;
    ok = ok && enter(&w, a[0].o);
    Py_XDECREF(w.seen);
    Py_XDECREF(w.kinds);
    Py_XDECREF(w.covered);
    Py_XDECREF(w.module);
    Py_XDECREF(w.training);
    if (!ok) Py_CLEAR(w.found);
    return w.found;
}
