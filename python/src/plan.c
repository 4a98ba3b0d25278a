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
        const Py_ssize_t n = parts_of(o);
        ok = put_int(k, n);
        for (; ok && at < n; at++) ok = put_object(k, part_of(o, at));
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

/* ---- guards: what a step read from Python, and how that was (_guards.py).  Objects are borrowed: the walk that found
 * them holds those without weak references, where the garbage collector sees them, and retires the guards when another
 * one ends.  The capsule owns handles of tensors only. */
enum { G_ITEM, G_INDEX, G_SIZE, G_ATTRIBUTE, G_TYPE, G_TENSOR, G_VALUE, G_ENTRIES };
                                                     /* as in _guards.py */
typedef struct guard {
    int kind;
    PyObject *of, *key, *was;
    Py_ssize_t n;
    cr_tensor *t;
    PyObject **entries;
    Py_ssize_t run;                                 /* guards of one dict from here on; 0: of no dict */
    uint64_t stamp;                                 /* of the dict when they held; 0: not yet */
} guard;
typedef struct guards {
    PyObject *plan; int outputs;                    /* whose guards they are, and how many results it has; owned */
    int busy;                                       /* comparisons and runs under way; under the GIL */
    bool retired;                                   /* an object has ended: nothing of `at` may be read */
    Py_ssize_t n;
    guard at[];
} guards;
static const char guards_name[] = "chainrule.guards";

static void free_guards(PyObject *capsule) {
    guards *g = PyCapsule_GetPointer(capsule, guards_name);
    for (Py_ssize_t i = 0; i < g->n; i++) {
        cr_drop(g->at[i].t);
        free(g->at[i].entries);
    }
    Py_XDECREF(g->plan);
    free(g);
}

/* Lets go of the plan and of tensors once the guards are retired and nothing uses them. */
static void done_with(guards *g) {
    g->busy--;
    if (!g->retired || g->busy) return;
    PyObject *plan = g->plan;
    g->plan = NULL;
    for (Py_ssize_t i = 0; i < g->n; i++) {
        cr_tensor *t = g->at[i].t;
        g->at[i].t = NULL;
        cr_drop(t);
    }
    if (plan) cr_plan_retire(plan_of(plan));
    Py_XDECREF(plan);
}

PyObject *api__guards_retire(const arg *a) {
    guards *g = PyCapsule_GetPointer(a[0].o, guards_name);
    if (!g) return NULL;
    g->retired = true;
    g->busy++;
    const bool idle = g->busy == 1;
    done_with(g);
    return PyBool_FromLong(idle);
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

/* A value that is computed anew: an attribute, or the result of a function.  Its computation may end objects. */
static bool computes(const guards *g, PyObject *now, PyObject *was) {
    const bool ok = !g->retired && as_it_was(now, was);
    Py_XDECREF(now);
    if (PyErr_Occurred()) PyErr_Clear();
    return ok && !g->retired;
}

/* The entries of a dict, in its order: its keys and values in turn, n in all. */
static bool same_entries(const guard *g) {
    PyObject *name, *value;
    Py_ssize_t at = 0, i = 0;
    if (2 * PyDict_Size(g->of) != g->n) return false;
    if (g->n == 0) return true;
    for (; PyDict_Next(g->of, &at, &name, &value); i += 2)
        if (!as_it_was(name, g->entries[i]) || !as_it_was(value, g->entries[i + 1])) return false;
    return true;
}

static bool holds(const guards *all, const guard *g) {
    switch (g->kind) {
        case G_ITEM: return as_it_was(PyDict_GetItemWithError(g->of, g->key), g->was);
        case G_INDEX:
            if (PyTuple_Check(g->of)) return PyTuple_GetItem(g->of, g->n) == g->was;
            return g->n < PyList_Size(g->of) && as_it_was(PyList_GetItem(g->of, g->n), g->was);
        case G_SIZE: return PyObject_Size(g->of) == g->n;
        case G_ATTRIBUTE: return computes(all, PyObject_GetAttr(g->of, g->key), g->was);
        case G_TYPE: return Py_TYPE(g->of) == (PyTypeObject *)(void *)g->was;
        case G_ENTRIES: return same_entries(g);
        case G_TENSOR: return handle(g->of) == g->t;
        default: return computes(all, PyObject_CallFunctionObjArgs(g->key, g->of, NULL), g->was);
    }
}

/* ---- stamps.  CPython 3.11 and 3.12 give a dict a new number with each change (PEP 509), behind its size.  Later ones
 * have none, and each guard is compared. */
static uint64_t stamp_at(PyObject *dict) {
    uint64_t stamp;
    memcpy(&stamp, (const char *)dict + 24, sizeof stamp);
    return stamp;
}

/* Is the number there, and does each kind of change change it? */
static bool find_stamps(void) {
    if (sizeof(void *) != 8 || Py_Version >= 0x030d0000) return false;
    PyObject *dict = PyDict_New(), *name = PyUnicode_FromString("key"), *values[] = {Py_None, Py_True, Py_False};
    uint64_t seen = dict ? stamp_at(dict) : 0;
    bool ok = dict && name;
    for (int i = 0; i < 4 && ok; i++) {
        ok = (i < 3 ? PyDict_SetItem(dict, name, values[i]) : PyDict_DelItem(dict, name)) == 0 && stamp_at(dict) > seen;
        seen = stamp_at(dict);
    }
    Py_XDECREF(name);
    Py_XDECREF(dict);
    PyErr_Clear();
    return ok;
}

static uint64_t stamp_of(PyObject *dict) {
#ifdef Py_GIL_DISABLED
    (void)dict, (void)find_stamps;                  /* another thread may write it meanwhile */
    return 0;
#else
    static int found = -1;                          /* under the GIL */
    if (found < 0) found = find_stamps();
    return found ? stamp_at(dict) : 0;
#endif
}

/* The first guard that does not hold; -1: all do; their number: an object that they name has ended. */
static Py_ssize_t first_failure(guards *g) {
    if (g->retired) return g->n;
    for (Py_ssize_t i = 0; i < g->n;) {
        guard *first = &g->at[i];
        const uint64_t stamp = first->run ? stamp_of(first->of) : 0;
        const Py_ssize_t end = i + (first->run ? first->run : 1);
        if (stamp && stamp == first->stamp) { i = end; continue; }
        for (; i < end; i++)
            if (!holds(g, &g->at[i])) return PyErr_Clear(), g->retired ? g->n : i;
        first->stamp = stamp;
    }
    return -1;
}

static bool looks_in_dict(const guard *g) {
    return PyDict_Check(g->of) && (g->kind == G_ITEM || g->kind == G_SIZE || g->kind == G_ENTRIES);
}

/* Those of one dict stand together (_guards.py). */
static void find_runs(guards *g) {
    for (Py_ssize_t i = 0, end; i < g->n; i = end) {
        guard *first = &g->at[i];
        end = i + 1;
        if (!looks_in_dict(first)) continue;
        while (end < g->n && g->at[end].of == first->of && looks_in_dict(&g->at[end])) end++;
        first->run = end - i;
    }
}

static bool copy_entries(guard *g, PyObject *from) {
    g->n = PyTuple_Size(from);
    g->entries = malloc(sizeof(PyObject *) * (size_t)(g->n + 1));
    for (Py_ssize_t i = 0; g->entries && i < g->n; i++) g->entries[i] = PyTuple_GetItem(from, i);
    if (!g->entries) PyErr_NoMemory();
    return g->entries;
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
        if (to->kind == G_ENTRIES && !copy_entries(to, was)) break;
    }
    if (!capsule) free(g);
    if (!PyErr_Occurred()) return find_runs(g), capsule;
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

/* The guards, busy, where all hold, else NULL; an exception is set if they have no plan. */
static guards *entered(PyObject *capsule) {
    guards *g = PyCapsule_GetPointer(capsule, guards_name);
    if (!g || g->retired) return NULL;
    if (!g->plan) return PyErr_SetString(PyExc_RuntimeError, "guards without a plan"), NULL;
    g->busy++;
    if (first_failure(g) < 0) return g;
    done_with(g);
    return NULL;
}

PyObject *api__guards_fail(const arg *a) {
    guards *g = PyCapsule_GetPointer(a[0].o, guards_name);
    if (!g) return NULL;
    g->busy++;
    const Py_ssize_t at = first_failure(g);
    done_with(g);
    return PyLong_FromSsize_t(at);
}

/* ---- plans */
PyObject *api__plan_run(const arg *a) {
    guards *g = entered(a[0].o);
    if (!g) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    cr_plan *const p = plan_of(g->plan);
    const int n = g->outputs;
    cr_tensor **out = calloc((size_t)n + 1, sizeof *out);
    if (!out) return done_with(g), PyErr_NoMemory();
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
    done_with(g);
    if (!list && misfit && !PyErr_Occurred()) Py_RETURN_NONE;
    return list;
}

/* ---- trials: compile(check=True) */
static const char trial_name[] = "chainrule.trial";

static void free_trial(PyObject *capsule) { cr_trial_free(PyCapsule_GetPointer(capsule, trial_name)); }

PyObject *api__plan_trial(const arg *a) {
    guards *g = entered(a[0].o);
    cr_trial *t;
    bool fit;
    if (!g) return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    cr_plan *const p = plan_of(g->plan);
    misfit = false;
    WITHOUT_GIL(t = cr_plan_trial(p, a[1].list.v, &fit));
    done_with(g);
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
