/* tensor.c - the type Tensor: making and freeing the object, operators, properties, the error that a failure raises. */
#include "extension.h"

#include <string.h>

PyTypeObject *tensor_type;
PyObject *bad_value, *bad_type;
static PyObject *no_memory;                         /* exceptions of our own: RuntimeError, as PyTorch raises, and
                                                     * ValueError... as NumPy does */

/* ---- errors */
PyObject *raise_error(void) {
    const char *message = cr_error();
    PyObject *type = PyExc_RuntimeError;
    switch (cr_error_status()) {
        case CR_BAD_VALUE: type = bad_value; break;
        case CR_BAD_TYPE: type = bad_type; break;
        case CR_BAD_INDEX: type = PyExc_IndexError; break;
        case CR_NO_MEMORY: type = no_memory; break;
        case CR_IO: type = PyExc_OSError; break;
        case CR_INTERRUPTED: type = PyExc_KeyboardInterrupt; break;
        case CR_RUNTIME:
            if (message && !strncmp(message, "[meta] ", 7)) type = PyExc_NotImplementedError;
            break;
        case CR_OK: break;
    }
    /* else: a callback's own exception caused it */
    if (!PyErr_Occurred()) PyErr_SetString(type, message ? message : "failed without a message");
    cr_error_clear();
    return NULL;
}

/* The "] " after the op of a message that may name the call instead; NULL: a device's own message, an
 * anomaly, another exception. */
static const char *end_of_op(const char *message) {
    static const char *const kept[] = {"[cuda] ", "[meta] ", "[webgpu] "};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (!strncmp(message, kept[i], strlen(kept[i]))) return NULL;
    const size_t op = *message == '[' ? strspn(message + 1, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;
    const char *end = message + 1 + op;
    return op && !strncmp(end, "] ", 2) && strncmp(end, "] anomaly", 9) ? end : NULL;
}

void name_error(const char *name) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    /* with one it comes from Python code: a callback */
    if (!traceback) PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value && !traceback ? PyObject_Str(value) : NULL;
    const char *message = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    const char *end = message ? end_of_op(message) : NULL;
    if (end) {
        PyErr_Format(type, "[%s%s", name, end);
        Py_XDECREF(type);
        Py_XDECREF(value);
    } else {
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(text);
}

void set_error(PyObject *type, const char *format, ...) {
    PyGILState_STATE state = PyGILState_Ensure();
    va_list rest;
    va_start(rest, format);
    PyErr_FormatV(type, format, rest);
    va_end(rest);
    PyGILState_Release(state);
}

static PyObject *add_exception(PyObject *module, const char *name, PyObject *second, const char *doc) {
    PyObject *bases = PyTuple_Pack(2, PyExc_RuntimeError, second);
    PyObject *type = bases ? PyErr_NewExceptionWithDoc(name, doc, bases, NULL) : NULL;
    Py_XDECREF(bases);
    if (type && PyModule_AddObjectRef(module, strchr(name, '.') + 1, type) < 0) Py_CLEAR(type);
    return type;
}

/* ---- making and freeing */

/* Only a Tensor that holds other objects can be part of a cycle: the collector looks at it from then
 * on, and at no other. */
static void track(PyObject *self) {
    if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

/* Memory of freed Tensors, for the next ones: most calls of a Python program make a result and free one. */
#ifndef Py_GIL_DISABLED
static Tensor *spare[64];
static int spares;

static Tensor *take_spare(void) { return spares ? spare[--spares] : NULL; }
static bool keep_spare(Tensor *s) {
    const bool room = spares < (int)(sizeof spare / sizeof *spare);
    if (room) spare[spares++] = s;
    return room;
}
#else                                               /* its allocator has such lists, for each thread */
static Tensor *take_spare(void) { return NULL; }
static bool keep_spare(Tensor *s) { (void)s; return false; }
#endif

static Tensor *allocate(PyTypeObject *type) {
    if (type != tensor_type) return (Tensor *)(void *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    Tensor *s = take_spare();
    return s ? (Tensor *)(void *)PyObject_Init((PyObject *)s, type) : PyObject_GC_New(Tensor, type);
}

static PyObject *object_of(cr_tensor *t, PyTypeObject *type) {          /* takes a reference that no scope owns */
    Tensor *self = allocate(type);
    if (!self) { cr_drop(t); return NULL; }
    self->t = t;
    self->grad = self->weak = self->dict = NULL;
    self->owner = NULL;
    self->from_data = false;
    return (PyObject *)self;
}

PyObject *wrap_as(cr_tensor *t, PyTypeObject *type) { return t ? object_of(cr_unscope(t), type) : raise_error(); }
PyObject *wrap(cr_tensor *t) { return wrap_as(t, tensor_type); }

PyObject *retyped(PyObject *o, PyTypeObject *type) { return object_of(hold(o), type); }

PyObject *wrap_borrowed(const cr_tensor *t) {
    if (!t || t == CR_NONE) Py_RETURN_NONE;
    return object_of(cr_retain(t), tensor_type);
}

/* The object that x.grad returns from now on, taken; NULL: none yet. */
static void keep_grad(Tensor *s, PyObject *grad) {
    PyObject *before = s->grad;
    if (!before && !grad) return;
    SHARED(if (before && ((Tensor *)(void *)before)->owner == s) ((Tensor *)(void *)before)->owner = NULL;
           s->grad = grad;
           if (grad) ((Tensor *)(void *)grad)->owner = s);
    if (grad) track((PyObject *)s);
    Py_XDECREF(before);
}

static void tensor_free(PyObject *self) {
    Tensor *s = (Tensor *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (s->weak) PyObject_ClearWeakRefs(self);
    keep_grad(s, NULL);
    Py_XDECREF(s->dict);
    cr_drop(s->t);
    if (type != tensor_type) ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    else if (!keep_spare(s)) PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int tensor_traverse(PyObject *self, visitproc visit, void *context) {
    PyObject *held[] = {(PyObject *)Py_TYPE(self), ((Tensor *)(void *)self)->grad, ((Tensor *)(void *)self)->dict};
    int stop = 0;
    for (int i = 0; i < 3 && !stop; i++)
        if (held[i]) stop = visit(held[i], context);
    return stop;
}

static int tensor_clear(PyObject *self) {
    Tensor *s = (Tensor *)(void *)self;
    keep_grad(s, NULL);
    Py_CLEAR(s->dict);
    return 0;
}

/* ---- attributes that a user sets: __dict__ is made with the first */
static int set_attribute(PyObject *self, PyObject *name, PyObject *value) {
    const int status = PyObject_GenericSetAttr(self, name, value);
    if (((Tensor *)(void *)self)->dict) track(self);
    return status;
}

static PyObject *get_dict(PyObject *self, void *context) {
    PyObject *dict = PyObject_GenericGetDict(self, context);
    if (dict) track(self);
    return dict;
}

static int set_dict(PyObject *self, PyObject *value, void *context) {
    const int status = PyObject_GenericSetDict(self, value, context);
    if (!status) track(self);
    return status;
}

/* Sizes in the place of data, as torch.Tensor(3, 4) takes them: an exception, true. */
static bool are_sizes(PyObject *args) {
    const Py_ssize_t n = PyTuple_Size(args);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!PyLong_CheckExact(PyTuple_GetItem(args, i))) return false;
    if (n < 2) return false;
    PyErr_Format(PyExc_TypeError, "Tensor(): takes data, not the sizes %R: chainrule.empty%R or chainrule.zeros%R "
                 "makes a tensor of this shape", args, args, args);
    return true;
}

/* Tensor(data, device=None, dtype=None, *, shape=None): micrograd's way.  A leaf that collects a gradient. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"data", "device", "dtype", "shape", NULL};
    PyObject *data, *device = Py_None, *dtype = Py_None, *shape = Py_None;
    if (are_sizes(args)) return NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|OO$O:Tensor", keywords, &data, &device, &dtype, &shape))
        return NULL;
    const cr_device *dev = cr_default_device();
    cr_dtype dt = CR_F32;
    if (device != Py_None && !to_device(device, &dev))
        return PyErr_Occurred() ? NULL : raise_type(device, "Tensor(): argument 'device' must be Device or str, not");
    if (dtype != Py_None && !to_dtype(dtype, &dt))
        return raise_type(dtype, "Tensor(): argument 'dtype' must be dtype, not");
    if (dtype == Py_None && is_tensor(data) && cr_dtype_is_float(cr_dtype_of(handle(data))))
        dt = cr_dtype_of(handle(data));
    int n;
    int64_t sizes[CR_MAX_DIMS];
    if (shape != Py_None && !to_size(shape, &n, sizes))
        return PyErr_Occurred() ? NULL : raise_type(shape, "Tensor(): argument 'shape' must be ints, not");
    cr_tensor *t = tensor_from(data, &dt, dev);
    if (t && shape != Py_None) {
        cr_tensor *flat = t;
        t = cr_reshape(flat, n, sizes);
        cr_release(flat);
        if (!t) return raise_error();
    }
    if (!t) return NULL;
    if (cr_dtype_is_float(dt)) cr_requires_grad_(t, true);
    PyObject *self = wrap_as(t, type);
    if (self) ((Tensor *)(void *)self)->from_data = true;
    return self;
}

/* ---- operators */
typedef cr_tensor *(*binary)(const cr_tensor *, const cr_tensor *);
enum { LONG = 1 << 15 };                            /* elements from which the GIL is given up */

/* The operand as a handle, for cr_drop: a tensor's, or of a number or an array of NumPy a new one.
 * NULL without an exception: neither. */
static cr_tensor *operand(PyObject *o) {
    number x;
    cr_tensor *made = NULL;
    if (is_tensor(o)) return hold(o);
    if (!to_number(o, &x)) {
        if (!PyErr_Occurred() && is_ndarray(o)) from_array(o, COPY_IF_NEEDED, NULL, NULL, &made);
        return cr_unscope(made);
    }
    made = scalar_of(&x);
    if (!made) raise_error();
    return cr_unscope(made);
}

static bool is_long(const cr_tensor *a, const cr_tensor *b) {
    int64_t n = cr_numel(a), m = cr_numel(b);
    return n > LONG || m > LONG || n * m > LONG * 32;
}

static PyObject *apply_plain(PyObject *a, PyObject *b, binary f) {
    cr_tensor *x = operand(a), *z = x ? operand(b) : NULL, *y = NULL;
    if (z && is_long(x, z)) WITHOUT_GIL(y = f(x, z));
    else if (z) y = f(x, z);
    cr_drop(x);
    cr_drop(z);
    if (z) return wrap(y);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NOTIMPLEMENTED;
}

/* name: the method that a subclass is asked for; reflected: the same with the operands exchanged */
static PyObject *apply_special(PyObject *a, PyObject *b, binary f, const char *name, const char *reflected) {
    overloads s = {.count = 0};
    consider(&s, a);
    consider(&s, b);
    if (!s.count) return apply_plain(a, b, f);
    if (s.asked) return is_tensor(a) ? ask_method(&s, name, a, b) : ask_method(&s, reflected, b, a);
    PyObject *result = apply_plain(a, b, f);
    return result == Py_NotImplemented ? result : as_special(&s, name, result);
}

static inline bool asks_nobody(PyObject *o) { return is_plain(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o); }

static inline PyObject *apply(PyObject *a, PyObject *b, binary f, const char *name, const char *reflected) {
    if (asks_nobody(a) && asks_nobody(b)) return apply_plain(a, b, f);
    return apply_special(a, b, f, name, reflected);
}

/* A result of one tensor in its class. */
static PyObject *like_special(PyObject *self, PyObject *result) {
    overloads s = {.count = 0};
    consider(&s, self);
    return s.count ? as_class(result, s.type[0]) : result;
}

static inline PyObject *like(PyObject *self, PyObject *result) {
    return !result || is_plain(self) ? result : like_special(self, result);
}

/* A call of one tensor, or of one and a key: is its class asked? */
static bool asked(PyObject *self, const char *name, PyObject *key, PyObject **answer) {
    overloads s = {.count = 0};
    consider(&s, self);
    if (s.asked) *answer = answered(&s, name, ask_method(&s, name, self, key));
    return s.asked;
}

static PyObject *apply_inplace(PyObject *a, PyObject *b, binary f) {
    cr_tensor *x = hold(a), *z = operand(b), *y = NULL;
    if (z && is_long(x, z)) WITHOUT_GIL(y = f(x, z));
    else if (z) y = f(x, z);
    cr_drop(x);
    cr_drop(z);
    if (z && !y) return raise_error();
    if (PyErr_Occurred()) return NULL;
    PyObject *result = z ? a : Py_NotImplemented;
    Py_INCREF(result);
    return result;
}

#define OPERATOR(slot, f, name, reflected)                                                         \
    static PyObject *slot(PyObject *a, PyObject *b) { return apply(a, b, f, name, "__r" reflected "__"); }
#define INPLACE(slot, name) static cr_tensor *slot##_into(const cr_tensor *x, const cr_tensor *y) { \
                                return cr_program_apply_(cr_program_find(name), (cr_tensor *)(uintptr_t)x, 2, \
                                    (const cr_tensor *const[]){x, y}, NULL); } \
                            static PyObject *slot(PyObject *a, PyObject *b) { return apply_inplace(a, b, slot##_into); }

OPERATOR(op_add, cr_add, "add", "add")
OPERATOR(op_sub, cr_sub, "sub", "sub")
OPERATOR(op_mul, cr_mul, "mul", "mul")
OPERATOR(op_div, cr_div, "div", "truediv")
OPERATOR(op_floordiv, cr_floor_divide, "floor_divide", "floordiv")
OPERATOR(op_mod, cr_remainder, "remainder", "mod")
OPERATOR(op_and, cr_bitwise_and, "bitwise_and", "and")
OPERATOR(op_or, cr_bitwise_or, "bitwise_or", "or")
OPERATOR(op_xor, cr_bitwise_xor, "bitwise_xor", "xor")
OPERATOR(op_lshift, cr_left_shift, "__lshift__", "lshift")
OPERATOR(op_rshift, cr_right_shift, "__rshift__", "rshift")
INPLACE(op_iadd, "add")
INPLACE(op_isub, "sub")
INPLACE(op_imul, "mul")
INPLACE(op_idiv, "div")
INPLACE(op_ifloordiv, "floor_divide")
INPLACE(op_imod, "remainder")
INPLACE(op_iand, "bitwise_and")
INPLACE(op_ior, "bitwise_or")
INPLACE(op_ixor, "bitwise_xor")
INPLACE(op_ilshift, "left_shift")
INPLACE(op_irshift, "right_shift")
INPLACE(op_ipow_binary, "pow")

static cr_tensor *power_of_number(const cr_tensor *x, const cr_tensor *y) { return power(x, y, true); }

static PyObject *op_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return apply(a, b, is_tensor(a) && !is_tensor(b) ? power_of_number : cr_pow, "pow", "__rpow__");
}
static PyObject *op_ipow(PyObject *a, PyObject *b, PyObject *unused) { (void)unused; return op_ipow_binary(a, b); }

static PyObject *op_matmul(PyObject *a, PyObject *b) {
    if (!(is_tensor(a) || is_ndarray(a)) || !(is_tensor(b) || is_ndarray(b))) Py_RETURN_NOTIMPLEMENTED;
    return apply(a, b, cr_matmul, "matmul", "__rmatmul__");
}

static PyObject *unary(PyObject *x, cr_tensor *(*f)(const cr_tensor *), const char *name) {
    PyObject *answer;
    if (!is_plain(x) && asked(x, name, NULL, &answer)) return answer;
    cr_tensor *t = hold(x), *y;
    if (cr_numel(t) > LONG) WITHOUT_GIL(y = f(t));
    else y = f(t);
    cr_drop(t);
    return like(x, wrap(y));
}
static PyObject *op_neg(PyObject *x) { return unary(x, cr_neg, "neg"); }
static PyObject *op_abs(PyObject *x) { return unary(x, cr_abs, "abs"); }
static PyObject *op_invert(PyObject *x) { return unary(x, cr_bitwise_not, "bitwise_not"); }
static PyObject *op_pos(PyObject *x) { Py_INCREF(x); return x; }

static PyObject *op_compare(PyObject *a, PyObject *b, int op) {
    static const binary of[] = {
        [Py_LT] = cr_lt, [Py_LE] = cr_le, [Py_EQ] = cr_eq, [Py_NE] = cr_ne, [Py_GT] = cr_gt, [Py_GE] = cr_ge};
    static const char *const names[] = {
        [Py_LT] = "__lt__", [Py_LE] = "__le__", [Py_EQ] = "__eq__",
        [Py_NE] = "__ne__", [Py_GT] = "__gt__", [Py_GE] = "__ge__"};
    return apply(a, b, of[op], names[op], names[op]);
}

/* of the object: == is elementwise */
static Py_hash_t op_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)self >> 4); }

/* ---- one element */
static PyObject *element(const void *at, cr_dtype dt) {      /* read as CR_BOOL, CR_I64, CR_U64 or CR_F64 */
    switch (dt) {
        case CR_BOOL: return PyBool_FromLong(*(const uint8_t *)at);
        case CR_I64: return PyLong_FromLongLong(*(const int64_t *)at);
        case CR_U64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
        default: return PyFloat_FromDouble(*(const double *)at);
    }
}

static cr_dtype widest(cr_dtype dt) {
    return cr_dtype_is_float(dt) ? CR_F64 : dt == CR_BOOL || dt == CR_U64 ? dt : CR_I64;
}

PyObject *api_item(const arg *a) {
    cr_dtype dt = widest(cr_dtype_of(a[0].t));
    union { double d; int64_t i; } value;
    if (cr_numel(a[0].t) != 1) {
        PyErr_Format(bad_value, "a Tensor with %lld elements cannot be converted to Scalar",
                     (long long)cr_numel(a[0].t));
        return NULL;
    }
    if (cr_read(a[0].t, dt, &value, cr_dtype_size(dt)) != CR_OK) return raise_error();
    return element(&value, dt);
}

static PyObject *item_of(PyObject *self) {
    cr_tensor *t = hold(self);
    PyObject *item = api_item(&(arg){.t = t});
    cr_drop(t);
    return item;
}

static PyObject *nested(const char **at, cr_dtype dt, int ndim, const int64_t *shape) {
    if (ndim == 0) return element(*at, dt);
    PyObject *list = PyList_New((Py_ssize_t)shape[0]);
    const size_t size = ndim == 1 ? cr_dtype_size(dt) : 0;
    for (int64_t i = 0; list && i < shape[0]; i++, *at += size) {
        PyObject *x = ndim == 1 ? element(*at, dt) : nested(at, dt, ndim - 1, shape + 1);
        if (x) PyList_SetItem(list, (Py_ssize_t)i, x);
        else Py_CLEAR(list);
    }
    return list;
}

PyObject *api_tolist(const arg *a) {
    const cr_tensor *t = a[0].t;
    cr_dtype dt = widest(cr_dtype_of(t));
    size_t bytes = (size_t)cr_numel(t) * cr_dtype_size(dt);
    char *data = PyMem_Malloc(bytes ? bytes : 1);
    if (!data) return PyErr_NoMemory();
    cr_status bad;
    WITHOUT_GIL(bad = cr_read(t, dt, data, bytes));
    const char *at = data;
    PyObject *list = bad ? raise_error() : nested(&at, dt, cr_ndim(t), cr_shape(t));
    PyMem_Free(data);
    return list;
}

static int op_bool(PyObject *self) {
    if (cr_numel(handle(self)) != 1) {
        PyErr_Format(PyExc_RuntimeError, "Boolean value of Tensor with %s is ambiguous",
                     cr_numel(handle(self)) ? "more than one value" : "no values");
        return -1;
    }
    PyObject *x = item_of(self);
    int answer = x ? PyObject_IsTrue(x) : -1;
    Py_XDECREF(x);
    return answer;
}

/* The number of a tensor that Python converts. */
static PyObject *number_of(PyObject *self) {
    if (cr_numel(handle(self)) == 1) return item_of(self);
    PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
    return NULL;
}

static PyObject *op_float(PyObject *self) {
    PyObject *x = number_of(self), *y = x ? PyNumber_Float(x) : NULL;
    Py_XDECREF(x);
    return y;
}

PyObject *api___complex__(const arg *a) {
    PyObject *x = api_item(a);
    const double real = x ? PyFloat_AsDouble(x) : 0;
    Py_XDECREF(x);
    return x && !PyErr_Occurred() ? PyComplex_FromDoubles(real, 0) : NULL;
}

static PyObject *op_int(PyObject *self) {
    PyObject *x = number_of(self), *y = x ? PyNumber_Long(x) : NULL;
    Py_XDECREF(x);
    return y;
}

static PyObject *op_index(PyObject *self) {
    if (cr_numel(handle(self)) != 1 || cr_dtype_is_float(cr_dtype_of(handle(self)))) {
        PyErr_SetString(PyExc_TypeError, "only integer tensors of a single element can be converted to an index");
        return NULL;
    }
    return op_int(self);
}

static Py_ssize_t op_length(PyObject *self) {
    if (cr_ndim(handle(self))) return (Py_ssize_t)cr_size(handle(self), 0);
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
}

static PyObject *op_iter(PyObject *self) {
    if (!cr_ndim(handle(self))) { PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor"); return NULL; }
    cr_tensor *t = hold(self);
    Py_ssize_t n = (Py_ssize_t)cr_size(t, 0);
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *x = like(self, wrap(cr_select(t, 0, i)));
        if (x) PyList_SetItem(list, i, x);
        else Py_CLEAR(list);
    }
    cr_drop(t);
    PyObject *iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static int op_contains(PyObject *self, PyObject *x) {
    PyObject *same = apply_plain(self, x, cr_eq);
    if (!same) return -1;
    int found = -1;
    if (same == Py_NotImplemented) raise_type(x, "in: a Tensor holds numbers, not");
    else if (cr_numel(handle(same)) == 0) found = 0;
    else {
        cr_tensor *most = cr_max(handle(same), CR_ALL, false);
        if (most) found = cr_item(most) != 0, cr_release(most);
        else raise_error();
    }
    Py_DECREF(same);
    return found;
}

static PyObject *op_repr(PyObject *self) {
    PyObject *f = python_function("_print", "tensor_repr");
    plain_begin();
    PyObject *text = f ? PyObject_CallFunctionObjArgs(f, self, NULL) : NULL;
    plain_end();
    return text;
}

static PyObject *op_get(PyObject *self, PyObject *key) {
    PyObject *answer;
    if (!is_plain(self) && asked(self, "__getitem__", key, &answer)) return answer;
    cr_tensor *t = get_item(self, key);
    return t ? like(self, wrap(t)) : NULL;
}

/* ---- properties */
static PyObject *get_shape(PyObject *self, void *unused) {
    (void)unused;
    return size_object(cr_ndim(handle(self)), cr_shape(handle(self)));
}
static PyObject *get_strides(PyObject *self, void *unused) {
    (void)unused;
    return size_object(cr_ndim(handle(self)), cr_strides(handle(self)));
}
static PyObject *get_dtype(PyObject *self, void *unused) {
    (void)unused;
    return dtype_object(cr_dtype_of(handle(self)));
}
static PyObject *get_device(PyObject *self, void *unused) {
    (void)unused;
    return device_object(cr_device_of(handle(self)));
}
static PyObject *lives_on(PyObject *self, const char *type) {
    return PyBool_FromLong(!strncmp(cr_device_name(cr_device_of(handle(self))), type, strlen(type)));
}
static PyObject *get_is_cuda(PyObject *self, void *unused) { (void)unused; return lives_on(self, "cuda"); }
static PyObject *get_is_meta(PyObject *self, void *unused) { (void)unused; return lives_on(self, "meta"); }
static PyObject *get_ndim(PyObject *self, void *unused) { (void)unused; return PyLong_FromLong(cr_ndim(handle(self))); }
static PyObject *get_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(cr_dtype_size(cr_dtype_of(handle(self))));
}
static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLongLong(cr_numel(handle(self)) * (long long)cr_dtype_size(cr_dtype_of(handle(self))));
}
static PyObject *get_requires_grad(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_requires_grad(handle(self)));
}
static PyObject *get_is_leaf(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_is_leaf(handle(self)));
}
static PyObject *get_retains_grad(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_retains_grad(handle(self)));
}
static PyObject *get_grad_fn(PyObject *self, void *unused) {
    (void)unused;
    if (cr_is_leaf(handle(self))) Py_RETURN_NONE;
    return node_object(cr_node_of(handle(self)));
}
static PyObject *get_version(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(cr_tensor_version(handle(self)));
}
static PyObject *get_data(PyObject *self, void *unused) {
    (void)unused;
    return like(self, wrap(cr_variable_data(handle(self))));
}
static PyObject *get_mT(PyObject *self, void *unused) {
    (void)unused;
    return like(self, wrap(cr_transpose(handle(self), -2, -1)));
}
static PyObject *get_T(PyObject *self, void *unused) {
    (void)unused;
    int64_t axes[CR_MAX_DIMS];
    int n = cr_ndim(handle(self));
    for (int i = 0; i < n; i++) axes[i] = n - 1 - i;
    return like(self, wrap(cr_permute(handle(self), n, axes)));
}

/* Another gradient, or none: the object given out for the one before must not keep its memory. */
void forget_grad(PyObject *self) { LOCKED(self, keep_grad((Tensor *)(void *)self, NULL)); }

PyObject *api__grad_owner(const arg *a) {
    Tensor *owner = ((Tensor *)(void *)a[0].from)->owner;
    return Py_NewRef(owner ? (PyObject *)owner : Py_None);
}

/* Where the object is the gradient of another one, that one gets the new handle too. */
static bool become_grad(Tensor *s, cr_tensor *t) {
    cr_tensor *owner = NULL;
    SHARED(if (s->owner) owner = cr_retain(s->owner->t));
    cr_tensor *g = owner ? cr_grad_retain(owner) : NULL;
    const bool ok = !g || g != s->t || cr_set_grad(owner, t) == CR_OK;
    cr_drop(g);
    cr_drop(owner);
    return ok;
}

static bool replace(Tensor *s, cr_tensor *t) {
    if (!t || !become_grad(s, t)) {
        cr_release(t);
        return raise_error();
    }
    cr_tensor *old;
    LOCKED((PyObject *)s, old = s->t; s->t = cr_unscope(t));
    cr_drop(old);
    return true;
}

bool become(PyObject *self, cr_tensor *t) {
    if (!replace((Tensor *)(void *)self, t)) return false;
    forget_grad(self);
    return true;
}

bool become_data(PyObject *self, const cr_tensor *data) {
    return replace((Tensor *)(void *)self, cr_with_data(handle(self), data));
}

static int set_data(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (value && is_tensor(value)) return become_data(self, handle(value)) ? 0 : -1;
    raise_type(value ? value : Py_None, "data must be a Tensor, not");
    return -1;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (!value || !PyBool_Check(value)) { PyErr_SetString(PyExc_TypeError, "requires_grad must be a bool"); return -1; }
    if (cr_requires_grad_(handle(self), value == Py_True)) return 0;
    raise_error();
    return -1;
}

static PyObject *grad_of(Tensor *s) {
    cr_tensor *g = cr_grad_retain(s->t);
    PyObject *before = s->grad, *grad = before;
    if (before && handle(before) == g) {
        Py_INCREF(grad);
    } else {
        grad = wrap_borrowed(g);
        keep_grad(s, g && g != CR_NONE ? Py_XNewRef(grad) : NULL);
    }
    cr_drop(g);
    return grad;
}

static PyObject *get_grad(PyObject *self, void *unused) {
    (void)unused;
    PyObject *grad;
    LOCKED(self, grad = grad_of((Tensor *)(void *)self));
    return grad;
}

static int set_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    const cr_tensor *g = CR_NONE;
    if (value && value != Py_None) {
        if (!is_tensor(value)) { raise_type(value, "grad must be a Tensor or None, not"); return -1; }
        g = handle(value);
    }
    if (cr_set_grad(handle(self), g) != CR_OK) {
        raise_error();
        return -1;
    }
    LOCKED(self, keep_grad((Tensor *)(void *)self, g == CR_NONE ? NULL : Py_NewRef(value)));
    return 0;
}

static PyGetSetDef getset[] = {
    {"shape", get_shape, NULL, "The sizes: a tuple that also equals a list.", NULL},
    {"strides", get_strides, NULL, "Elements between neighbours along each axis, as NumPy's but not in bytes.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"device", get_device, NULL, "Where the tensor lives.", NULL},
    {"is_cuda", get_is_cuda, NULL, "Does it live on a CUDA device?", NULL},
    {"is_meta", get_is_meta, NULL, "Has it a shape and no elements?", NULL},
    {"ndim", get_ndim, NULL, "The number of axes.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of one element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Are gradients computed for it?", NULL},
    {"is_leaf", get_is_leaf, NULL, "Was it made by the user, not by a recorded op?", NULL},
    {"grad", get_grad, set_grad, "The gradient that backward() added up, or None.", NULL},
    {"retains_grad", get_retains_grad, NULL, "Does it keep a gradient although it is not a leaf?", NULL},
    {"grad_fn", get_grad_fn, NULL, "The Node of the graph that made it, or None.", NULL},
    {"data", get_data, set_data,
     "The same storage outside the graph, with a version counter of its own.  Assigning a tensor puts this one over "
     "its memory; hooks, graphs recorded before and the gradient stay.",
     NULL},
    {"_version", get_version, NULL, "How often it was written in place: all views count together.", NULL},
    {"T", get_T, NULL, "The axes in reverse order: a view.", NULL},
    {"mT", get_mT, NULL, "The last two axes swapped: a view.", NULL},
    {"__dict__", get_dict, set_dict, "The attributes that were set on this object.", NULL},
    {0}};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Tensor, weak), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Tensor, dict), READONLY, NULL},
    {0}
};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)tensor_new},
    {Py_tp_dealloc, (void *)tensor_free},
    {Py_tp_traverse, (void *)tensor_traverse},
    {Py_tp_clear, (void *)tensor_clear},
    {Py_tp_setattro, (void *)set_attribute},
    {Py_tp_members, members},
    {Py_tp_getset, getset},
    {Py_tp_methods, api_methods},
    {Py_tp_repr, (void *)op_repr},
    {Py_tp_hash, (void *)op_hash},
    {Py_tp_richcompare, (void *)op_compare},
    {Py_tp_iter, (void *)op_iter},
    {Py_nb_add, (void *)op_add},
    {Py_nb_subtract, (void *)op_sub},
    {Py_nb_multiply, (void *)op_mul},
    {Py_nb_true_divide, (void *)op_div},
    {Py_nb_floor_divide, (void *)op_floordiv},
    {Py_nb_remainder, (void *)op_mod},
    {Py_nb_power, (void *)op_pow},
    {Py_nb_matrix_multiply, (void *)op_matmul},
    {Py_nb_and, (void *)op_and},
    {Py_nb_or, (void *)op_or},
    {Py_nb_xor, (void *)op_xor},
    {Py_nb_lshift, (void *)op_lshift},
    {Py_nb_rshift, (void *)op_rshift},
    {Py_nb_inplace_add, (void *)op_iadd},
    {Py_nb_inplace_subtract, (void *)op_isub},
    {Py_nb_inplace_multiply, (void *)op_imul},
    {Py_nb_inplace_true_divide, (void *)op_idiv},
    {Py_nb_inplace_floor_divide, (void *)op_ifloordiv},
    {Py_nb_inplace_remainder, (void *)op_imod},
    {Py_nb_inplace_power, (void *)op_ipow},
    {Py_nb_inplace_and, (void *)op_iand},
    {Py_nb_inplace_or, (void *)op_ior},
    {Py_nb_inplace_xor, (void *)op_ixor},
    {Py_nb_inplace_lshift, (void *)op_ilshift},
    {Py_nb_inplace_rshift, (void *)op_irshift},
    {Py_nb_negative, (void *)op_neg},
    {Py_nb_positive, (void *)op_pos},
    {Py_nb_absolute, (void *)op_abs},
    {Py_nb_invert, (void *)op_invert},
    {Py_nb_bool, (void *)op_bool},
    {Py_nb_float, (void *)op_float},
    {Py_nb_int, (void *)op_int},
    {Py_nb_index, (void *)op_index},
    {Py_mp_length, (void *)op_length},
    {Py_mp_subscript, (void *)op_get},
    {Py_mp_ass_subscript, (void *)set_item},
    {Py_sq_contains, (void *)op_contains},
    {Py_bf_getbuffer, (void *)tensor_get_buffer},
    {Py_bf_releasebuffer, (void *)tensor_release_buffer},
    {Py_tp_doc, "Tensor(data, device=None, dtype=None, *, shape=None)\n--\n\nNumbers in up to 16 axes.  Made so, "
                "from numbers, nested sequences or a buffer, it is a leaf that collects .grad\n"
                "(float32 unless a dtype is given); chainrule.tensor() follows PyTorch instead."},
    {0}};
static PyType_Spec spec = {"chainrule.Tensor", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

bool make_tensor_type(PyObject *module) {
    tensor_type = (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
    if (!tensor_type || PyModule_AddType(module, tensor_type) < 0) return false;
    make_immortal(tensor_type);
    PyObject *priority = PyFloat_FromDouble(1000);   /* array * tensor is asked of the tensor, as of PyTorch's */
    int set = priority ? PyObject_SetAttrString((PyObject *)tensor_type, "__array_priority__", priority) : -1;
    Py_XDECREF(priority);
    if (set < 0) return false;
    bad_value = add_exception(module, "chainrule.Error", PyExc_ValueError,
                              "A value that an operation cannot take.  It is a RuntimeError, which PyTorch raises "
                              "there, and a ValueError, which NumPy does.");
    bad_type = add_exception(module, "chainrule.DtypeError", PyExc_TypeError,
                             "An operation that does not exist for a dtype; a RuntimeError and a TypeError.");
    no_memory = add_exception(module, "chainrule.OutOfMemoryError", PyExc_MemoryError,
                              "No memory on a device; a RuntimeError and a MemoryError.");
    return bad_value && bad_type && no_memory;
}
