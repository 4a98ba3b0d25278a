/* subclass.c - calls with subclasses of Tensor: the results are of their class, or what its __torch_function__ gives.
 *
 * A type is PLAIN (Tensor, Parameter, Buffer: results are Tensors), KEPT (it inherits Tensor.__torch_function__, of
 * chainrule/_subclass.py, which is done here without a call) or ASKED (it defines its own). */
#include "extension.h"

#include <stdatomic.h>

static _Thread_local int plain_calls;               /* calls under way whose results stay Tensors */

typedef enum { PLAIN, KEPT, ASKED } type_kind;

bool seen_subclass;
PyTypeObject *plain_type;

/* Types that are known to be PLAIN: those whose __torch_function__ is _disabled_torch_function_impl. */
static PyTypeObject *known[8];
static atomic_int known_count;

static type_kind kind_of(PyTypeObject *type) {
    PyObject *own = PyObject_GetAttrString((PyObject *)type, "__torch_function__");
    PyObject *bound = own ? PyObject_GetAttrString(own, "__func__") : NULL;
    PyErr_Clear();
    type_kind found = own ? ASKED : PLAIN;
    if (bound && bound == python_function("_subclass", "torch_function")) found = KEPT;
    if (own && own == python_function("_core", "_disabled_torch_function_impl")) {
        found = PLAIN;
        SHARED(if (known_count < (int)(sizeof known / sizeof *known)) {
            plain_type = known[known_count] = (PyTypeObject *)(void *)Py_NewRef((PyObject *)type);
            known_count++;
        });
    }
    Py_XDECREF(own);
    Py_XDECREF(bound);
    return found;
}

void consider(overloads *s, PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    for (int i = 0; i < known_count; i++)
        if (known[i] == type) return;
    if (PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || plain_calls || !is_tensor(o)) return;
    for (int i = 0; i < s->count; i++)
        if (s->type[i] == type) return;
    const type_kind how = kind_of(type);
    if (how == PLAIN || s->count == MOST_TYPES) return;
    s->asked |= how == ASKED;
    int at = s->count++;                             /* a subclass comes before its base */
    for (; at > 0 && PyType_IsSubtype(type, s->type[at - 1]); at--) {
        s->type[at] = s->type[at - 1];
        s->object[at] = s->object[at - 1];
    }
    s->type[at] = type;
    s->object[at] = o;
}

void plain_begin(void) { plain_calls++; }
void plain_end(void) { plain_calls--; }

/* The type of the results: the first that all others are bases of; NULL with a TypeError. */
static PyTypeObject *common(const overloads *s, const char *name) {
    for (int i = 0; i < s->count; i++) {
        bool all = true;
        for (int k = 0; k < s->count; k++) all &= PyType_IsSubtype(s->type[i], s->type[k]) != 0;
        if (all) return s->type[i];
    }
    PyErr_Format(PyExc_TypeError, "no implementation found for '%s' on the types of its arguments, of which none is a "
                                  "subclass of all others", name);
    return NULL;
}

/* A tuple or list of results. */
static PyObject *all_as(PyObject *results, PyTypeObject *type) {
    const Py_ssize_t n = parts_of(results);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *one = as_class(Py_NewRef(part_of(results, i)), type);
        if (!one || PyList_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    if (!list || PyList_Check(results)) return list;
    PyObject *made = PyObject_CallFunctionObjArgs((PyObject *)Py_TYPE(results), list, NULL);
    Py_DECREF(list);
    return made;
}

PyObject *as_class(PyObject *result, PyTypeObject *type) {
    if (!result) return NULL;
    PyObject *made;
    if (is_tensor(result)) {
        if (PyType_IsSubtype(Py_TYPE(result), type)) return result;
        made = retyped(result, type);
    } else if (PyTuple_Check(result) || PyList_Check(result)) {
        if (Py_TYPE(result) == size_type) return result;
        made = all_as(result, type);
    } else {
        return result;
    }
    Py_DECREF(result);
    return made;
}

PyObject *as_special(const overloads *s, const char *name, PyObject *result) {
    if (!result) return NULL;
    PyTypeObject *type = common(s, name);
    if (!type) Py_CLEAR(result);
    return type ? as_class(result, type) : NULL;
}

PyObject *ask_types(const overloads *s, PyObject *function, PyObject *args, PyObject *kwargs) {
    PyObject *types = PyTuple_New(s->count), *answer = NULL;
    for (int i = 0; types && i < s->count; i++) PyTuple_SetItem(types, i, Py_NewRef((PyObject *)s->type[i]));
    bool refused = true;
    for (int i = 0; types && i < s->count && refused; i++) {
        Py_XDECREF(answer);
        answer = kwargs && PyDict_Size(kwargs)
                     ? PyObject_CallMethod((PyObject *)s->type[i], "__torch_function__", "OOOO", function, types, args,
                                           kwargs)
                     : PyObject_CallMethod((PyObject *)s->type[i], "__torch_function__", "OOO", function, types, args);
        refused = answer == Py_NotImplemented;
    }
    Py_XDECREF(types);
    return answer;
}

PyObject *answered(const overloads *s, const char *name, PyObject *answer) {
    if (answer != Py_NotImplemented) return answer;
    Py_DECREF(answer);
    PyErr_Format(PyExc_TypeError, "no implementation found for '%s' on types that implement __torch_function__: %R",
                 name, (PyObject *)s->type[0]);
    return NULL;
}

PyObject *ask_method(const overloads *s, const char *name, PyObject *a, PyObject *b) {
    PyObject *function = PyObject_GetAttrString((PyObject *)tensor_type, name);
    PyObject *args = b ? PyTuple_Pack(2, a, b) : PyTuple_Pack(1, a);
    PyObject *answer = function && args ? ask_types(s, function, args, NULL) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(args);
    return answer;
}

static bool find_special(const entry *e, PyObject *const *from, overloads *s) {
    s->count = 0;
    s->asked = false;
    for (int i = 0; i < e->count; i++) {
        PyObject *o = from[i];
        if (!o || Py_TYPE(o) == tensor_type) continue;
        const param *p = &e->params[i];
        const bool several = p->kind == TENSORS || (p->kind == OBJECT && (p->flags & VARIADIC));
        if (p->kind <= OPERAND || (several && is_tensor(o))) consider(s, o);
        else if (several && (PyTuple_Check(o) || PyList_Check(o))) {
            for (Py_ssize_t k = 0, n = parts_of(o); k < n; k++)
                if (Py_TYPE(part_of(o, k)) != tensor_type) consider(s, part_of(o, k));
        }
    }
    return s->count > 0;
}

static PyObject *call_with(const entry *e, const overloads *s, PyObject *self, PyObject *const *args, Py_ssize_t n,
                           PyObject *names) {
    if (!s->asked) {
        plain_calls++;
        PyObject *result = api_call(e, self, args, n, names);
        plain_calls--;
        return e->inplace || e->run == api__alias ? result : as_special(s, e->name, result);
    }
    PyObject *function = self ? PyObject_GetAttrString((PyObject *)tensor_type, e->name)
                              : Py_XNewRef(python_function("_core", e->name));
    const Py_ssize_t first = self ? 1 : 0;
    PyObject *all = PyTuple_New(n + first), *kwargs = PyDict_New(), *answer = NULL;
    if (all && self) PyTuple_SetItem(all, 0, Py_NewRef(self));
    for (Py_ssize_t i = 0; all && i < n; i++) PyTuple_SetItem(all, i + first, Py_NewRef(args[i]));
    bool ok = function && all && kwargs;
    for (Py_ssize_t k = 0, m = names ? PyTuple_Size(names) : 0; ok && k < m; k++)
        ok = PyDict_SetItem(kwargs, PyTuple_GetItem(names, k), args[n + k]) == 0;
    if (ok) answer = answered(s, e->name, ask_types(s, function, all, kwargs));
    Py_XDECREF(function);
    Py_XDECREF(all);
    Py_XDECREF(kwargs);
    return answer;
}

/* A call that failed for an argument which is no Tensor: has one of them a __torch_function__ of its own? */
static bool find_foreign(const entry *e, PyObject *const *from, overloads *s) {
    s->count = 0;
    s->asked = true;
    for (int i = 0; i < e->count && !plain_calls && s->count < MOST_TYPES; i++) {
        PyObject *o = from[i];
        if (!o || is_tensor(o) || PyType_Check(o) || e->params[i].kind > OPERAND) continue;
        if (!PyObject_HasAttrString((PyObject *)Py_TYPE(o), "__torch_function__")) continue;
        s->type[s->count] = Py_TYPE(o);
        s->object[s->count++] = o;
    }
    return s->count > 0;
}

bool call_special(const entry *e, PyObject *const *from, bool other, PyObject *self, PyObject *const *args,
                  Py_ssize_t n, PyObject *names, PyObject **result) {
    overloads s;
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    if (other) PyErr_Fetch(&type, &value, &traceback);
    if (!(other ? find_foreign(e, from, &s) : find_special(e, from, &s))) {
        if (other) PyErr_Restore(type, value, traceback);
        return false;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    *result = call_with(e, &s, self, args, n, names);
    return true;
}

/* (func, types, args, kwargs) */
PyObject *api__disabled_torch_function_impl(const arg *a) {
    PyObject *args = PySequence_Tuple(a[2].o);
    if (!args) return NULL;
    plain_calls++;
    PyObject *result = PyObject_Call(a[0].o, args, a[3].o == Py_None ? NULL : a[3].o);
    plain_calls--;
    Py_DECREF(args);
    return result;
}

/* (result, type) */
PyObject *api__as_class(const arg *a) {
    if (!PyType_Check(a[1].o) || !PyType_IsSubtype((PyTypeObject *)(void *)a[1].o, tensor_type))
        return raise_type(a[1].o, "_as_class(): argument 'type' must be Tensor or a subclass, not");
    return as_class(Py_NewRef(a[0].o), (PyTypeObject *)(void *)a[1].o);
}

/* (step): how many calls are under way whose results stay Tensors, changed by 1 or -1 */
PyObject *api__plain_results(const arg *a) {
    plain_calls += a[0].i > 0 ? 1 : -1;
    Py_RETURN_NONE;
}

/* (input, cls) */
PyObject *api_as_subclass(const arg *a) {
    PyObject *self = a[0].o;
    PyTypeObject *type = (PyTypeObject *)(void *)a[1].o;
    if (!PyType_Check(a[1].o) || !PyType_IsSubtype(type, tensor_type))
        return raise_type(a[1].o, "as_subclass(): argument 'cls' must be Tensor or a subclass, not");
    const cr_tensor *t = handle(self);
    if (cr_grad_enabled() && cr_requires_grad(t)) return wrap_as(cr_view(t, cr_ndim(t), cr_shape(t)), type);
    return leaf_as(cr_detach(t), type, cr_requires_grad(t), false);
}
