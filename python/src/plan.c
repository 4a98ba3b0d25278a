/* plan.c - recorded steps (chainrule/plan.h) as capsules, for chainrule.compile. */
#include "extension.h"

#include <stdlib.h>
#include <string.h>

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
    cr_record_captures(a[1].list.n, a[1].list.v);
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
PyObject *api__record_recomputes(const arg *a) { return done(cr_record_recomputes(a[0].s)); }
PyObject *api__recording(const arg *a) { (void)a; return PyBool_FromLong(cr_recording()); }
PyObject *api__record_params(const arg *a) { (void)a; return PyLong_FromLong(cr_record_params()); }

/* ---- before(plan) precedes each replay; before(None) follows one that failed */
static _Thread_local bool misfit;                   /* before() was false: the plan does not fit */

static cr_status call_before(cr_plan *p, void *ctx) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *raised[3];                            /* before the call: it stays */
    PyErr_Fetch(&raised[0], &raised[1], &raised[2]);
    PyObject *plan = p ? PyCapsule_New(p, plan_name, NULL) : Py_NewRef(Py_None);          /* borrows during the call */
    PyObject *result = plan ? PyObject_CallFunctionObjArgs(ctx, plan, NULL) : NULL;
    const bool ok = result && result != Py_False, fails = !result && PyErr_ExceptionMatches(PyExc_Exception);
    if (p) misfit = result == Py_False || fails;     /* the step itself raises it at its place, or does not */
    if (fails) PyErr_Clear();
    Py_XDECREF(result);
    Py_XDECREF(plan);
    if (raised[0]) PyErr_Restore(raised[0], raised[1], raised[2]);
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

/* ---- signatures: what two calls must share to share a plan */
typedef struct key { char *at; size_t n, room; PyObject *tensors; char few[512]; } key;

static bool put(key *k, const void *data, size_t bytes) {
    if (k->n + bytes > k->room) {
        const size_t room = 2 * (k->n + bytes);
        char *more = realloc(k->at == k->few ? NULL : k->at, room);
        if (!more) return PyErr_NoMemory(), false;
        if (k->at == k->few) memcpy(more, k->few, k->n);
        k->at = more, k->room = room;
    }
    memcpy(k->at + k->n, data, bytes);
    k->n += bytes;
    return true;
}

static bool put_int(key *k, int64_t i) { return put(k, &i, sizeof i); }
static bool put_pointer(key *k, const void *p) { return put(k, &p, sizeof p); }
static bool put_text(key *k, const char *text, Py_ssize_t n) {
    return text && put_int(k, n) && put(k, text, (size_t)n);
}

static bool put_repr(key *k, PyObject *o) {
    PyObject *text = PyObject_Repr(o);
    Py_ssize_t n = 0;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
    const bool ok = put_text(k, s, n);
    Py_XDECREF(text);
    return ok;
}

static bool put_tensor(key *k, PyObject *o) {
    const cr_tensor *t = handle(o);
    const size_t bytes = sizeof(int64_t) * (size_t)cr_ndim(t);
    const int is[] = {(int)cr_dtype_of(t), cr_ndim(t), cr_requires_grad(t) + 2 * cr_is_leaf(t),
                      (int)cr_autocast_dtype(cr_device_of(t))};
    return PyList_Append(k->tensors, o) == 0 && put(k, is, sizeof is) && put_pointer(k, cr_device_of(t)) &&
           put(k, cr_shape(t), bytes) && put(k, cr_strides(t), bytes);
}

static bool put_object(key *k, PyObject *o);

static bool put_parts(key *k, PyObject *o) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    bool ok = true;
    if (!PyDict_Check(o)) {
        const Py_ssize_t n = PySequence_Size(o);
        ok = put_int(k, n);
        for (; ok && at < n; at++)
            ok = put_object(k, PyTuple_Check(o) ? PyTuple_GetItem(o, at) : PyList_GetItem(o, at));
        return ok;
    }
    ok = put_int(k, PyDict_Size(o));
    while (ok && PyDict_Next(o, &at, &name, &value)) ok = put_object(k, name) && put_object(k, value);
    return ok;
}

/* Its type, and its value where that has one; other objects are told apart by identity. */
static bool put_object(key *k, PyObject *o) {
    if (!put_pointer(k, Py_TYPE(o))) return false;
    if (is_tensor(o)) return put_tensor(k, o);
    if (PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o)) {
        if (Py_EnterRecursiveCall(" in the arguments of a compiled function")) return false;
        const bool ok = put_parts(k, o);
        Py_LeaveRecursiveCall();
        return ok;
    }
    if (PyFloat_Check(o)) return put(k, &(double){PyFloat_AsDouble(o)}, sizeof(double));       /* a NaN is itself */
    if (PyUnicode_Check(o)) {
        Py_ssize_t n = 0;
        const char *text = PyUnicode_AsUTF8AndSize(o, &n);
        return put_text(k, text, n);
    }
    if (PyLong_Check(o) || PyComplex_Check(o) || PyBytes_Check(o) || Py_TYPE(o) == dtype_type ||
        Py_TYPE(o) == device_type)
        return put_repr(k, o);
    return put_pointer(k, o);
}

static bool anomaly(void) {
    const bool on = cr_set_anomaly(false);
    cr_set_anomaly(on);
    return on;
}

PyObject *api__signature(const arg *a) {
    key k = {.at = k.few, .room = sizeof k.few, .tensors = a[1].o};
    if (cr_recording() || anomaly()) Py_RETURN_NONE;
    const cr_precision precision = cr_set_f32_products(CR_HIGHEST);
    cr_set_f32_products(precision);
    const int modes[] = {cr_grad_enabled(), cr_autocasting(), (int)cr_autocast_dtype(cr_cpu()), (int)precision,
                         (int)cr_default_dtype()};
    const bool ok = put(&k, modes, sizeof modes) && put_pointer(&k, cr_default_device()) && put_object(&k, a[0].o);
    PyObject *bytes = ok ? PyBytes_FromStringAndSize(k.at, (Py_ssize_t)k.n) : NULL;
    if (k.at != k.few) free(k.at);
    return bytes;
}

/* ---- guards: what a step read from Python, and how that was (_guards.py).  The list that the entries come from owns
 * all objects, and the garbage collector sees them there; the capsule owns handles of tensors only. */
enum { G_ITEM, G_INDEX, G_SIZE, G_ATTRIBUTE, G_TYPE, G_TENSOR, G_VALUE, G_ENTRIES };
                                                     /* as in _guards.py */
typedef struct guard { int kind; PyObject *of, *key, *was; Py_ssize_t n; cr_tensor *t; } guard;
typedef struct guards {
    PyObject *plan; int outputs;                    /* whose guards they are, and how many results it has; owned */
    Py_ssize_t n;
    guard at[];
} guards;
static const char guards_name[] = "chainrule.guards";

static void free_guards(PyObject *capsule) {
    guards *g = PyCapsule_GetPointer(capsule, guards_name);
    for (Py_ssize_t i = 0; i < g->n; i++) cr_drop(g->at[i].t);
    Py_XDECREF(g->plan);
    free(g);
}

/* Numbers and texts are compared by their values, other objects by identity. */
static bool as_it_was(PyObject *now, PyObject *was) {
    if (now == was) return true;
    if (!now || !was || Py_TYPE(now) != Py_TYPE(was)) return false;
    if (PyFloat_CheckExact(was)) {
        const double x[] = {PyFloat_AsDouble(now), PyFloat_AsDouble(was)};
        return !memcmp(&x[0], &x[1], sizeof *x);
    }
    const bool plain = PyLong_CheckExact(was) || PyUnicode_CheckExact(was) || PyBytes_CheckExact(was) ||
                       PyComplex_CheckExact(was) || Py_TYPE(was) == dtype_type || Py_TYPE(was) == device_type;
    return plain && PyObject_RichCompareBool(now, was, Py_EQ) == 1;
}

/* A value that is computed anew: an attribute, or the result of a function. */
static bool computes(PyObject *now, PyObject *was) {
    const bool ok = as_it_was(now, was);
    Py_XDECREF(now);
    if (PyErr_Occurred()) PyErr_Clear();
    return ok;
}

/* The entries of a dict, in its order: was has its keys and values in turn. */
static bool same_entries(PyObject *dict, PyObject *was) {
    PyObject *name, *value;
    Py_ssize_t at = 0, i = 0;
    if (2 * PyDict_Size(dict) != PyTuple_Size(was)) return false;
    for (; PyDict_Next(dict, &at, &name, &value); i += 2)
        if (!as_it_was(name, PyTuple_GetItem(was, i)) || !as_it_was(value, PyTuple_GetItem(was, i + 1))) return false;
    return true;
}

static bool holds(const guard *g) {
    switch (g->kind) {
        case G_ITEM: return as_it_was(PyDict_GetItemWithError(g->of, g->key), g->was);
        case G_INDEX:
            if (PyTuple_Check(g->of)) return PyTuple_GetItem(g->of, g->n) == g->was;
            return g->n < PyList_Size(g->of) && as_it_was(PyList_GetItem(g->of, g->n), g->was);
        case G_SIZE: return PyObject_Size(g->of) == g->n;
        case G_ATTRIBUTE: return computes(PyObject_GetAttr(g->of, g->key), g->was);
        case G_TYPE: return Py_TYPE(g->of) == (PyTypeObject *)(void *)g->was;
        case G_ENTRIES: return same_entries(g->of, g->was);
        case G_TENSOR: return handle(g->of) == g->t;
        default: return computes(PyObject_CallFunctionObjArgs(g->key, g->of, NULL), g->was);
    }
}

/* The first guard that does not hold; -1: all do. */
static Py_ssize_t first_failure(const guards *g) {
    for (Py_ssize_t i = 0; i < g->n; i++)
        if (!holds(&g->at[i])) return PyErr_Clear(), i;
    return -1;
}

PyObject *api__guards(const arg *a) {
    const Py_ssize_t n = PyList_Size(a[0].o);
    guards *g = n < 0 ? NULL : calloc(1, sizeof *g + (size_t)n * sizeof *g->at);
    if (!g) return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(g, guards_name, free_guards);
    for (; capsule && g->n < n; g->n++) {
        PyObject *from = PyList_GetItem(a[0].o, g->n), *was = PyTuple_GetItem(from, 3);
        guard *to = &g->at[g->n];
        *to = (guard){.kind = (int)PyLong_AsLong(PyTuple_GetItem(from, 0)), .of = PyTuple_GetItem(from, 1),
                      .key = PyTuple_GetItem(from, 2), .was = was == Py_Ellipsis ? NULL : was};
        if (to->kind == G_SIZE) to->n = PyObject_Size(to->of);
        if (to->kind == G_INDEX) to->n = PyLong_AsSsize_t(to->key);
        if (to->kind == G_TENSOR) to->t = hold(to->of);
    }
    if (!capsule) free(g);
    if (!PyErr_Occurred()) return capsule;
    Py_XDECREF(capsule);
    return NULL;
}

PyObject *api__guards_plan(const arg *a) {
    guards *g = PyCapsule_GetPointer(a[0].o, guards_name);
    if (!g || !plan_of(a[1].o)) return NULL;
    g->plan = Py_NewRef(a[1].o);
    g->outputs = axis(a[2].i);
    Py_RETURN_NONE;
}

/* The plan where all its guards hold, else NULL; an exception is set if it has none. */
static cr_plan *guarded(PyObject *capsule, int *outputs) {
    const guards *g = PyCapsule_GetPointer(capsule, guards_name);
    cr_plan *p = g && g->plan ? plan_of(g->plan) : NULL;
    if (g && !g->plan) PyErr_SetString(PyExc_RuntimeError, "guards without a plan");
    if (!p || first_failure(g) >= 0) return NULL;
    *outputs = g->outputs;
    return p;
}

PyObject *api__guards_fail(const arg *a) {
    const guards *g = PyCapsule_GetPointer(a[0].o, guards_name);
    return g ? PyLong_FromSsize_t(first_failure(g)) : NULL;
}

/* ---- plans */
PyObject *api__plan_run(const arg *a) {
    int n;
    cr_plan *p = guarded(a[0].o, &n);
    if (!p) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    cr_tensor **out = calloc((size_t)n + 1, sizeof *out);
    if (!out) return PyErr_NoMemory();
    cr_status status;
    bool fit;
    misfit = false;
    WITHOUT_GIL(status = cr_plan_try(p, a[1].list.v, out, &fit));
    misfit |= !fit;
    PyObject *list = PyErr_Occurred() || misfit ? NULL : status != CR_OK ? raise_error() : PyList_New(n);
    if (!list) cr_error_clear();
    for (int i = 0; i < n; i++) {
        PyObject *y = list ? wrap(out[i]) : NULL;
        if (list && y) PyList_SetItem(list, i, y);
        else if (list) Py_CLEAR(list);
        else if (out[i]) cr_release(out[i]);
    }
    free(out);
    if (!list && misfit && !PyErr_Occurred()) Py_RETURN_NONE;
    return list;
}

/* ---- trials: compile(check=True) */
static const char trial_name[] = "chainrule.trial";

static void free_trial(PyObject *capsule) { cr_trial_free(PyCapsule_GetPointer(capsule, trial_name)); }

PyObject *api__plan_trial(const arg *a) {
    int n;
    cr_plan *p = guarded(a[0].o, &n);
    cr_trial *t;
    bool fit;
    if (!p) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    misfit = false;
    WITHOUT_GIL(t = cr_plan_trial(p, a[1].list.v, &fit));
    if (PyErr_Occurred()) return NULL;
    if (!fit || misfit) { cr_error_clear(); Py_RETURN_NONE; }
    PyObject *capsule = t ? PyCapsule_New(t, trial_name, free_trial) : raise_error();
    if (!capsule) cr_trial_free(t);
    return capsule;
}

PyObject *api__trial_compare(const arg *a) {
    const cr_trial *t = PyCapsule_GetPointer(a[0].o, trial_name);
    return t ? done(cr_trial_compare(t, a[1].list.n, a[1].list.v)) : NULL;
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
