/* call.c - binds and converts the arguments of every function and method, runs it, wraps the result or raises. */
#include "extension.h"

#include <string.h>

PyObject *raise_type(PyObject *got, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    PyObject *text = PyUnicode_FromFormatV(format, rest), *name = PyType_GetName(Py_TYPE(got));
    va_end(rest);
    if (text && name) PyErr_Format(PyExc_TypeError, "%U %U", text, name);
    Py_XDECREF(text);
    Py_XDECREF(name);
    return NULL;
}

/* ---- conversions */
bool to_int64(PyObject *o, int64_t *v) {
    PyObject *index = PyNumber_Index(o);
    if (!index) return false;
    *v = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *v != -1 || !PyErr_Occurred();
}

static bool to_huge(PyObject *o, int sign, number *x) {      /* an int beyond int64 */
    const uint64_t bits = sign > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
    if (sign < 0 || PyErr_Occurred()) {
        PyErr_SetString(PyExc_OverflowError, "int too big: 64 bits is the widest");
        return false;
    }
    *x = (number){.d = (double)bits, .i = (int64_t)bits, .integral = true, .huge = true};
    return true;
}

bool to_number(PyObject *o, number *x) {
    *x = (number){0};
    if (PyFloat_Check(o)) { x->d = PyFloat_AsDouble(o); return true; }
    if (PyLong_Check(o)) {
        int overflow;
        x->i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return to_huge(o, overflow, x);
        x->integral = true;
        x->boolean = PyBool_Check(o);
        x->d = (double)x->i;
        return !PyErr_Occurred();
    }
    if (is_tensor(o)) return false;
    cr_dtype dt;
    if (PyObject_CheckBuffer(o)) return scalar_of_array(o, x, &dt);
    if (PyIndex_Check(o)) {                          /* integers of other libraries */
        if (!to_int64(o, &x->i)) return false;
        x->integral = true;
        x->d = (double)x->i;
        return true;
    }
    if (PyUnicode_Check(o) || PyBytes_Check(o) || PySequence_Check(o)) return false;
    if (!PyObject_HasAttrString(o, "__float__")) return false;
    x->d = PyFloat_AsDouble(o);
    return !PyErr_Occurred();
}

/* numpy.float32 and numpy.dtype("float32"), by the names of NumPy. */
static bool to_dtype_of_numpy(PyObject *o, cr_dtype *dt) {
    PyObject *module = PyObject_GetAttrString(PyType_Check(o) ? o : (PyObject *)Py_TYPE(o), "__module__");
    const char *from = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    PyObject *name = from && !strncmp(from, "numpy", 5)
                         ? PyObject_GetAttrString(o, PyType_Check(o) ? "__name__" : "name")
                         : NULL;
    bool found = false;
    for (int i = 0; name && PyUnicode_Check(name) && i < CR_DTYPES && !found; i++) {
        found = !PyUnicode_CompareWithASCIIString(name, cr_dtype_name((cr_dtype)i));
        if (found) *dt = (cr_dtype)i;
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

bool to_dtype(PyObject *o, cr_dtype *dt) {
    if (Py_TYPE(o) == dtype_type) { *dt = ((Dtype *)(void *)o)->dt; return true; }
    if (o == (PyObject *)&PyFloat_Type) { *dt = CR_F64; return true; }
    if (o == (PyObject *)&PyBool_Type) { *dt = CR_BOOL; return true; }
    if (o == (PyObject *)&PyLong_Type) { *dt = CR_I64; return true; }
    return to_dtype_of_numpy(o, dt);
}

bool to_device(PyObject *o, const cr_device **dev) {
    if (Py_TYPE(o) == device_type) { *dev = ((Device *)(void *)o)->dev; return true; }
    char numbered[32];
    const char *name = numbered;
    if (PyLong_Check(o) && !PyBool_Check(o)) {      /* a number is CUDA's, as in PyTorch */
        int64_t i;
        if (!to_int64(o, &i)) return false;
        PyOS_snprintf(numbered, sizeof numbered, "cuda:%lld", (long long)i);
    } else {
        if (!PyUnicode_Check(o)) return false;
        name = PyUnicode_AsUTF8AndSize(o, NULL);
    }
    if (!name) return false;
    *dev = cr_device_find(name);
    if (!*dev) raise_error();
    return *dev;
}

bool to_size(PyObject *o, int *n, int64_t *v) {
    if (PyBool_Check(o)) return false;
    if (PyIndex_Check(o) && !PyList_Check(o) && !PyTuple_Check(o)) { *n = 1; return to_int64(o, v); }
    if (PyUnicode_Check(o) || PyBytes_Check(o) || !PySequence_Check(o)) return false;
    PyObject *items = PySequence_Tuple(o);           /* a copy: code of __index__ cannot change it */
    if (!items) return false;
    Py_ssize_t count = PyTuple_Size(items);
    bool ok = count <= CR_MAX_DIMS;
    if (!ok) PyErr_Format(PyExc_ValueError, "%zd dimensions, at most %d", count, CR_MAX_DIMS);
    for (Py_ssize_t i = 0; ok && i < count; i++) ok = to_int64(PyTuple_GetItem(items, i), &v[i]);
    *n = (int)count;
    Py_DECREF(items);
    return ok;
}

cr_dtype dtype_of(const number *x) { return x->boolean ? CR_BOOL : x->integral ? CR_I64 : cr_default_dtype(); }
cr_tensor *scalar_of(const number *x) {
    if (x->huge) return cr_from(&x->i, CR_ALL, CR_U64, cr_cpu());
    return x->boolean ? cr_scalar_bool(x->i) : x->integral ? cr_scalar_int(x->i) : cr_scalar(x->d);
}

static bool to_tensors(PyObject *o, arg *a) {
    if (is_tensor(o) || PyUnicode_Check(o) || !PySequence_Check(o)) return false;
    PyObject *items = PySequence_Tuple(o);
    if (!items) return false;
    Py_ssize_t n = PyTuple_Size(items);
    a->list.v = PyMem_Malloc(sizeof *a->list.v * (size_t)(n ? n : 1));
    a->list.n = 0;
    bool ok = a->list.v && n < INT32_MAX;
    if (!a->list.v) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        ok = is_tensor(item);
        if (ok) notice(item);
        if (ok) a->list.v[a->list.n++] = hold(item);
        else raise_type(item, "expected Tensor as element %zd, got", i);
    }
    Py_DECREF(items);
    return ok;
}

/* ---- one argument */
static const char *const wanted[] = {
    "Tensor", "Tensor or a number",    "a number",  "int",   "float", "bool", "str", "dtype", "Device or str",
    "ints",   "a sequence of Tensors", "Generator", "object"};

/* Where a number is wanted a 0-d tensor is one, unless that would cut a graph. */
static bool number_of(PyObject *o, number *x) {
    if (!is_tensor(o)) return to_number(o, x);
    if (cr_ndim(handle(o)) || cr_requires_grad(handle(o))) return false;
    PyObject *item = api_item(&(arg){.t = handle(o)});
    const bool ok = item && to_number(item, x);
    Py_XDECREF(item);
    return ok;
}

static bool convert(const param *p, PyObject *o, arg *a) {
    number x;
    a->given = true;
    switch (p->kind) {
        case OPERAND:
            if (!is_tensor(o)) {
                if (!to_number(o, &x)) return false;
                a->t = scalar_of(&x);
                a->owned = a->t;
                return a->t || raise_error();
            }                                        /* fall through */
        case TENSOR:
            if (!is_tensor(o)) return false;
            notice(o);
            a->t = hold(o);
            return true;
        case NUMBER: return number_of(o, &a->x);
        case INT: return !PyBool_Check(o) && to_int64(o, &a->i);
        case FLOAT:
            if (!number_of(o, &x)) return false;
            a->d = x.d;
            return true;
        case BOOL:
            a->b = o == Py_True;
            return PyBool_Check(o);
        case STR: return PyUnicode_Check(o) && (a->s = PyUnicode_AsUTF8AndSize(o, NULL));
        case DTYPE: return to_dtype(o, &a->dt);
        case DEVICE: return to_device(o, &a->dev);
        case SIZE: return to_size(o, &a->size.n, a->size.v);
        case TENSORS: return a->owned = true, to_tensors(o, a);
        case GENERATOR:
            if (Py_TYPE(o) != generator_type) return false;
            a->g = ((Generator *)(void *)o)->g;
            return true;
        case OBJECT:
            seen_subclass |= (p->flags & VARIADIC) != 0;
            a->o = o;
            return true;
    }
    return false;
}

/* The value of an absent argument: its default, else "not given"; an implementation may always read it. */
static void set_default(const param *p, arg *a) {
    *a = (arg){.given = p->text != NULL};
    switch (p->kind) {
        case NUMBER:
            a->x = (number){.d = p->value, .i = (int64_t)p->value, .integral = (double)(int64_t)p->value == p->value};
            break;
        case INT: a->i = (int64_t)p->value; break;
        case FLOAT: a->d = p->value; break;
        case BOOL: a->b = p->value != 0; break;
        case STR: a->s = p->text; break;
        case DTYPE: a->dt = cr_default_dtype(); break;
        case DEVICE: a->dev = cr_default_device(); break;
        case GENERATOR: a->g = cr_default_generator(); break;
        case OBJECT: a->o = Py_None; break;
        case TENSOR: case OPERAND: a->t = (cr_tensor *)(uintptr_t)CR_NONE; break;
        case SIZE: case TENSORS: break;
    }
}

static void release_args(int n, arg *a, const param *p) {
    for (int i = 0; i < n; i++) {
        if (p[i].kind == TENSORS && a[i].owned) {
            for (int k = 0; k < a[i].list.n; k++) cr_drop(a[i].list.v[k]);
            PyMem_Free((void *)a[i].list.v);
        } else if (p[i].kind <= OPERAND) {
            if (a[i].owned) cr_release(a[i].t);
            else cr_drop(a[i].t);
        }
    }
}

/* ---- binding: which object goes to which parameter */
static const char *called(const entry *e) { return e->called ? e->called : e->name; }

static int find_parameter(const entry *e, PyObject *name) {
    static const struct { const char *theirs, *ours;
    } numpys[] = {{"axis", "dim"}, {"keepdims", "keepdim"}, {"ddof", "correction"},
                  {"x", "input"},  {"x1", "input"},         {"x2", "other"}};
    for (int i = 0; i < e->count; i++)
        if (!PyUnicode_CompareWithASCIIString(name, e->params[i].name)) return i;
    for (size_t k = 0; k < sizeof numpys / sizeof *numpys; k++)
        if (!PyUnicode_CompareWithASCIIString(name, numpys[k].theirs))
            for (int i = 0; i < e->count; i++)
                if (!strcmp(e->params[i].name, numpys[k].ours)) return i;
    return -1;
}

/* numpy.sum(x) calls x.sum(axis=None, out=None), numpy.std(x) x.std(..., dtype=None): None stands for the default. */
static bool is_numpys(PyObject *name, PyObject *value) {
    return value == Py_None &&
           (!PyUnicode_CompareWithASCIIString(name, "out") || !PyUnicode_CompareWithASCIIString(name, "dtype"));
}

/* The variadic parameter takes the rest of the positional arguments: `rest` is a tuple of them when
 * there is not just one. */
static bool bind(const entry *e, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **to,
                 PyObject **rest, PyObject **out, bool *numpys) {
    int at = 0;
    if (self) to[at++] = self;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (at >= e->count || (e->params[at].flags & KEYWORD)) {
            int positional = 0;
            while (positional < e->count && !(e->params[positional].flags & KEYWORD)) positional++;
            PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given", called(e),
                         positional - (self != NULL), n);
            return false;
        }
        /* x.view(int32) */
        if (Py_TYPE(args[i]) == dtype_type && self && !strcmp(e->name, "view")) at = e->count - 1;
        else if ((e->params[at].flags & VARIADIC) && n - i > 1) {
            *rest = PyTuple_New(n - i);
            if (!*rest) return false;
            for (Py_ssize_t k = i; k < n; k++) { Py_INCREF(args[k]); PyTuple_SetItem(*rest, k - i, args[k]); }
            to[at] = *rest;
            break;
        }
        /* var(True) */
        if (i == n - 1 && !names && PyBool_Check(args[i]) && at + 1 < e->count &&
            !strcmp(e->params[at + 1].name, "unbiased"))
            at++;
        to[at++] = args[i];
    }
    for (Py_ssize_t k = 0, m = names ? PyTuple_Size(names) : 0; k < m; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        int i = find_parameter(e, name);
        if (i < 0 && is_numpys(name, args[n + k])) {
            *numpys = !PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "axis");
            continue;
        }
        if (i < 0 && !self && *e->name != '_' && !PyUnicode_CompareWithASCIIString(name, "out")) {
            *out = args[n + k];
            continue;
        }
        if (i < 0 || to[i]) {
            PyErr_Format(PyExc_TypeError,
                         i < 0 ? "%s() got an unexpected keyword argument '%U'"
                               : "%s() got multiple values for argument '%U'",
                         called(e), name);
            return false;
        }
        to[i] = args[n + k];
    }
    return true;
}

/* The first element of a tuple or list that is no int, or the sequence itself. */
static PyObject *not_an_int(PyObject *sequence) {
    for (Py_ssize_t i = 0; i < parts_of(sequence); i++)
        if (!PyIndex_Check(part_of(sequence, i))) return part_of(sequence, i);
    return sequence;
}

static bool convert_all(const entry *e, PyObject **from, PyObject *rest, arg *a, int *done) {
    for (int i = 0; i < e->count; i++, *done = i) {
        const param *p = &e->params[i];
        set_default(p, &a[i]);
        if (!from[i] || (from[i] == Py_None && (p->flags & OPTIONAL))) {
            if (from[i] || p->text || (p->flags & OPTIONAL)) continue;
            if (p->flags & VARIADIC) continue;       /* zeros(): a scalar */
            PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s' (position %d)", called(e), p->name,
                         i + 1);
            return false;
        }
        a[i].from = from[i];
        if (convert(p, from[i], &a[i])) continue;
        *done = i + 1;                               /* a list may be half made */
        if (!PyErr_Occurred() || (PyErr_ExceptionMatches(PyExc_TypeError) && p->kind != TENSORS)) {
            PyErr_Clear();
            PyObject *got = from[i] == rest && rest && PyTuple_Size(rest) ? PyTuple_GetItem(rest, 0) : from[i];
            if (p->kind == SIZE && (PyTuple_Check(got) || PyList_Check(got))) got = not_an_int(got);
            raise_type(got, "%s(): argument '%s' (position %d) must be %s, not", called(e), p->name, i + 1,
                       wanted[p->kind]);
        }
        return false;
    }
    return true;
}

/* ---- out=: of every function that gives tensors */

/* y, taken, written into a tensor that was given for it, which gets its shape. */
static bool write_out(const entry *e, cr_tensor *y, PyObject *out) {
    if (!is_tensor(out)) {
        raise_type(out, "%s(): argument 'out' must be Tensor, not", e->name);
        return false;
    }
    cr_tensor *to = hold(out), *fresh;
    bool ok = false;
    if (cr_grad_enabled() && (cr_requires_grad(y) || cr_requires_grad(to)))
        PyErr_Format(PyExc_RuntimeError,
                     "%s(): functions with out=... arguments don't support automatic differentiation, but one of the "
                     "arguments requires grad",
                     e->name);
    else if (!cr_can_cast(cr_dtype_of(y), cr_dtype_of(to)))
        PyErr_Format(bad_type, "%s(): %s cannot be written into out, which is %s", e->name,
                     cr_dtype_name(cr_dtype_of(y)), cr_dtype_name(cr_dtype_of(to)));
    else if (cr_ndim(y) == cr_ndim(to) &&
             !memcmp(cr_shape(y), cr_shape(to), (size_t)cr_ndim(y) * sizeof(int64_t)))
        ok = cr_copy_(to, y) || raise_error();
    else if ((fresh = cr_to(y, cr_dtype_of(to), cr_device_of(to))) || raise_error()) {
        ok = become(out, cr_detach(fresh));
        cr_release(fresh);
    }
    cr_drop(to);
    return ok;
}

/* The result, taken, in `out`: a tensor, or a sequence of as many as there are results. */
static PyObject *into(const entry *e, PyObject *result, PyObject *out) {
    bool ok = true;
    if (is_tensor(result)) {
        ok = write_out(e, handle(result), out);
        Py_DECREF(result);
        return ok ? Py_NewRef(out) : NULL;
    }
    PyObject *outs = PyTuple_Check(result) && (PyTuple_Check(out) || PyList_Check(out)) ? PySequence_Tuple(out) : NULL;
    if (!outs || PyTuple_Size(outs) != PyTuple_Size(result)) {
        ok = false;
        if (!PyErr_Occurred()) raise_type(out, "%s(): argument 'out' must be one Tensor for each result, not", e->name);
    }
    for (Py_ssize_t i = 0; ok && i < PyTuple_Size(result); i++)
        ok = write_out(e, handle(PyTuple_GetItem(result, i)), PyTuple_GetItem(outs, i));
    Py_XDECREF(outs);
    if (!ok) Py_CLEAR(result);
    return result;
}

/* ---- the call */

/* Is the work long enough to let other Python threads run?  A guess from the sizes of the operands;
 * both answers are correct. */
static bool long_work(const entry *e, const arg *a) {
    double most = 0, product = 1;
    for (int i = 0; i < e->count; i++) {
        double n = 0;
        if (e->params[i].kind <= OPERAND && a[i].given) n = (double)cr_numel(a[i].t);
        else if (e->params[i].kind == TENSORS)
            for (int k = 0; k < a[i].list.n; k++) n += (double)cr_numel(a[i].list.v[k]);
        else if (e->params[i].kind == SIZE) {
            n = 1;
            for (int k = 0; k < a[i].size.n; k++) n *= (double)a[i].size.v[k];
        }
        if (n > most) most = n;
        if (n > 1) product *= n;
    }
    return most > 1 << 15 || product > 1 << 20;
}

/* The nodes of the result are called as the function is: MeanBackward0, and MeanBackward1 along an axis. */
static void rename_nodes(const entry *e, const arg *a, PyObject *result) {
    bool along = false;
    for (int i = 0; i < e->count && e->node[1] && !along; i++)
        along = a[i].given && !strcmp(e->params[i].name, "dim");
    const char *name = e->node[along];
    if (is_tensor(result)) cr_node_rename(handle(result), name);
    for (Py_ssize_t i = 0, n = PyTuple_Check(result) ? PyTuple_Size(result) : 0; i < n; i++) {
        PyObject *one = PyTuple_GetItem(result, i);
        if (is_tensor(one)) cr_node_rename(handle(one), name);
    }
}

/* After a call that failed: asks a class with a __torch_function__, or names the call in the message. */
static PyObject *failed(const entry *e, PyObject *const *from, bool refused, PyObject *self, PyObject *const *args,
                        Py_ssize_t n, PyObject *names) {
    PyObject *result = NULL;
    if (refused && PyErr_ExceptionMatches(PyExc_TypeError) &&
        call_special(e, from, true, self, args, n, names, &result))
        return result;
    if (e->called) name_error(e->called);
    return NULL;
}

PyObject *api_call(const entry *e, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *from[MAX_ARGS] = {NULL}, *rest = NULL, *result = NULL, *out = NULL;
    arg a[MAX_ARGS];
    int done = 0;
    bool numpys = false, suspended = false;
    const bool bound = bind(e, self, args, n, names, from, &rest, &out, &numpys);
    if (numpys && e->numpys) e = e->numpys;
    const bool seen_before = seen_subclass;          /* by a call whose conversion of an argument makes this one */
    seen_subclass = false;
    const bool converted = bound && convert_all(e, from, rest, a, &done), seen = seen_subclass;
    seen_subclass = seen_before;
    if (converted && seen && call_special(e, from, false, self, args, n, names, &result)) out = NULL;
    else if (converted && (!cr_autocasting() || mixed_begin(e, a, &suspended))) {
        if (e->run) {
            result = e->run(a);
        } else {
            cr_tensor *y;
            if (long_work(e, a)) WITHOUT_GIL(y = e->compute(a));
            else y = e->compute(a);
            if (!e->inplace || !y) result = wrap(y);
            else Py_INCREF(result = from[0]);
        }
        mixed_end(suspended);
        if (e->node[0] && result && cr_grad_enabled()) rename_nodes(e, a, result);
    }
    if (result && out && out != Py_None) result = into(e, result, out);
    release_args(done, a, e->params);
    if (!result) result = failed(e, from, bound && !converted, self, args, n, names);
    Py_XDECREF(rest);
    return result;
}
