/* plan.c - recorded steps (chainrule/plan.h) as capsules, for chainrule.compile. */
#include "extension.h"

#include <stdlib.h>

static const char plan_name[] = "chainrule.plan";

static void free_plan(PyObject *capsule) { cr_plan_free(PyCapsule_GetPointer(capsule, plan_name)); }

cr_plan *plan_of(PyObject *o) { return PyCapsule_GetPointer(o, plan_name); }

PyObject *api__record_begin(const arg *a) {
    if (cr_record_begin(a[0].list.n, a[0].list.v) != CR_OK) return raise_error();
    cr_record_lenient();
    Py_RETURN_NONE;
}

PyObject *api__record_end(const arg *a) {
    cr_plan *p;
    WITHOUT_GIL(p = cr_record_end(a[0].list.n, a[0].list.v));
    PyObject *capsule = p ? PyCapsule_New(p, plan_name, free_plan) : raise_error();
    if (!capsule) cr_plan_free(p);
    return capsule;
}

PyObject *api__record_cancel(const arg *a) {
    (void)a;
    cr_record_cancel();
    Py_RETURN_NONE;
}

PyObject *api__record_refuse(const arg *a) { return done(cr_record_refuse(a[0].s, a[1].s)); }
PyObject *api__recording(const arg *a) { (void)a; return PyBool_FromLong(cr_recording()); }
PyObject *api__record_params(const arg *a) { (void)a; return PyLong_FromLong(cr_record_params()); }

/* ---- before(plan) precedes each replay */
static cr_status call_before(cr_plan *p, void *ctx) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *capsule = PyCapsule_New(p, plan_name, NULL);        /* borrows: valid during the call */
    PyObject *result = capsule ? PyObject_CallFunctionObjArgs(ctx, capsule, NULL) : NULL;
    const bool ok = result != NULL;
    Py_XDECREF(result);
    Py_XDECREF(capsule);
    PyGILState_Release(state);
    return ok ? CR_OK : CR_RUNTIME;                  /* the exception stays set */
}

static void drop_before(void *ctx) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)ctx);
    PyGILState_Release(state);
}

PyObject *api__record_replay(const arg *a) {
    return done(cr_record_replay(call_before, Py_NewRef(a[0].o), drop_before));
}

/* ---- plans */
PyObject *api__plan_fits(const arg *a) {
    const cr_plan *p = plan_of(a[0].o);
    return p ? PyBool_FromLong(cr_plan_fits(p, a[1].list.v)) : NULL;
}

PyObject *api__plan_run(const arg *a) {
    cr_plan *p = plan_of(a[0].o);
    const int n = axis(a[2].i);
    cr_tensor **out = p ? calloc((size_t)n + 1, sizeof *out) : NULL;
    if (!out) return p ? PyErr_NoMemory() : NULL;
    cr_status status;
    WITHOUT_GIL(status = cr_plan_run(p, a[1].list.v, out));
    PyObject *list = PyErr_Occurred() ? NULL : status != CR_OK ? raise_error() : PyList_New(n);
    if (!list) cr_error_clear();
    for (int i = 0; i < n; i++) {
        PyObject *y = list ? wrap(out[i]) : NULL;
        if (list && y) PyList_SetItem(list, i, y);
        else if (list) Py_CLEAR(list);
        else if (out[i]) cr_release(out[i]);
    }
    free(out);
    return list;
}

PyObject *api__plan_wait(const arg *a) {
    cr_plan *p = plan_of(a[0].o);
    if (!p) return NULL;
    WITHOUT_GIL(cr_plan_wait(p));
    Py_RETURN_NONE;
}

static PyObject *plan_text(const arg *a, char *(*write)(const cr_plan *p)) {
    const cr_plan *p = plan_of(a[0].o);
    char *text = p ? write(p) : NULL;
    PyObject *result = text ? PyUnicode_FromString(text) : p ? raise_error() : NULL;
    free(text);
    return result;
}

PyObject *api__plan_text(const arg *a) { return plan_text(a, cr_plan_text); }
PyObject *api__plan_dot(const arg *a) { return plan_text(a, cr_plan_dot); }

/* kernels recorded, kernels, fused, calls, escaped, bytes of the arena, of temporaries, from outside, loops */
PyObject *api__plan_info(const arg *a) {
    const cr_plan *p = plan_of(a[0].o);
    if (!p) return NULL;
    const cr_plan_info i = cr_plan_look(p);
    const int64_t numbers[] = {i.recorded, i.kernels, i.fused, i.calls, i.escaped, i.arena, i.temporaries, i.kept,
                               i.loops};
    return int_tuple(9, numbers);
}
