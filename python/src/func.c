/* func.c - levels of transforms of functions, for chainrule.func (func.py). */
#include "extension.h"

#include <string.h>

static PyObject *level_or_error(uint64_t level) { return level ? PyLong_FromUnsignedLongLong(level) : raise_error(); }

/* (size, randomness) */
PyObject *api__vmap_begin(const arg *a) {
    const cr_randomness random = !strcmp(a[1].s, "same")        ? CR_RANDOM_SAME
                                 : !strcmp(a[1].s, "different") ? CR_RANDOM_DIFFERENT
                                                                : CR_RANDOM_ERROR;
    return level_or_error(cr_vmap_begin(a[0].i, random));
}
PyObject *api__jvp_begin(const arg *a) { (void)a; return level_or_error(cr_jvp_begin()); }
PyObject *api__transform_end(const arg *a) { return done(cr_transform_end((uint64_t)a[0].i)); }
PyObject *api__transform_depth(const arg *a) { (void)a; return PyLong_FromLong(cr_transform_depth()); }
PyObject *api__level_of(const arg *a) { return PyLong_FromUnsignedLongLong(cr_level_of(a[0].t)); }
PyObject *api__vmap_has(const arg *a) { return PyBool_FromLong(cr_vmap_has(a[0].t, (uint64_t)a[1].i)); }

/* (input, dim, level) */
cr_tensor *api__vmap_enter(const arg *a) { return cr_vmap_enter(a[0].t, (int)a[1].i, (uint64_t)a[2].i); }
cr_tensor *api__vmap_leave(const arg *a) { return cr_vmap_leave(a[0].t, (int)a[1].i, (uint64_t)a[2].i); }
/* (input, tangent, level) */
cr_tensor *api__jvp_enter(const arg *a) { return cr_jvp_enter(a[0].t, a[1].t, (uint64_t)a[2].i); }
cr_tensor *api__grad_enter(const arg *a) { return cr_grad_enter(a[0].t); }
cr_tensor *api__ungraph(const arg *a) { return cr_ungraph(a[0].t); }

/* (input, level) */
PyObject *api__jvp_leave(const arg *a) {
    cr_tensor *t, *y = cr_jvp_leave(a[0].t, (uint64_t)a[1].i, &t);
    if (!y) return raise_error();
    PyObject *value = wrap(y), *tangent = wrap(t), *pair = value && tangent ? PyTuple_Pack(2, value, tangent) : NULL;
    Py_XDECREF(value);
    Py_XDECREF(tangent);
    return pair;
}

PyObject *api__grad_nested(const arg *a) {
    bool nested = false;
    const cr_status status = cr_grad_nested(a[0].list.n, a[0].list.v, a[1].list.n, a[1].list.v, &nested);
    return status == CR_OK ? PyBool_FromLong(nested) : raise_error();
}

/* (outputs, grad_outputs: as many, or none, inputs, retain, record) */
PyObject *api__grad_leave(const arg *a) {
    const int n_out = a[0].list.n, n_in = a[2].list.n;
    const cr_tensor *const *cotangents = a[1].list.n ? a[1].list.v : NULL;
    const cr_backward_options o = {.retain_graph = a[3].b, .create_graph = a[4].b};
    cr_tensor **grads = PyMem_Calloc((size_t)n_in + 1, sizeof *grads);
    cr_status status = CR_OK;
    if (!grads) return PyErr_NoMemory();
    if (cotangents && a[1].list.n != n_out) {
        PyMem_Free(grads);
        return PyErr_Format(PyExc_RuntimeError, "%d cotangents for %d results", a[1].list.n, n_out);
    }
    WITHOUT_GIL(status = cr_grad_leave(n_out, a[0].list.v, cotangents, n_in, a[2].list.v, grads, &o));
    PyObject *all = status == CR_OK ? PyList_New(n_in) : raise_error();
    for (int i = 0; all && i < n_in; i++) {
        PyObject *g = grads[i] == CR_NONE ? Py_NewRef(Py_None) : wrap(grads[i]);
        if (!g || PyList_SetItem(all, i, g) < 0) Py_CLEAR(all);
    }
    PyMem_Free(grads);
    return all;
}
