/* value.c - the type Value: micrograd's names over cr_value.
 *
 * Its methods are a plain table, not rows of api.def: they take one argument at most, and binding
 * arguments is what the rows are for.  A Value object is a reference to a node of the graph, which may
 * have several: == and hash() go by the node. */
#include "extension.h"

typedef struct Value { PyObject_HEAD cr_value *v; } Value;

static PyTypeObject *value_type;

static inline bool is_value(PyObject *o) { return Py_TYPE(o) == value_type; }
static inline cr_value *node(PyObject *o) { return ((Value *)(void *)o)->v; }

static PyObject *wrap_value(cr_value *v) {          /* takes the reference; NULL: raises cr_error() */
    if (!v) return raise_error();
    Value *self = PyObject_New(Value, value_type);
    if (self) self->v = v;
    else SHARED(cr_value_release(v));
    return (PyObject *)self;
}

static void value_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    SHARED(cr_value_release(node(self)));
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Ints of any size count, as in float(); false without an exception: no number. */
static bool to_double(PyObject *o, double *x) {
    number n;
    if (PyFloat_Check(o) || PyLong_Check(o)) *x = PyFloat_AsDouble(o);
    else if (is_value(o) || !to_number(o, &n)) return false;
    else *x = n.d;
    return *x != -1 || !PyErr_Occurred();
}

static int set_label(PyObject *self, PyObject *value, void *unused);

static PyObject *value_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"data", "device", "label", NULL};
    PyObject *data, *device = Py_None, *label = NULL;
    const cr_device *dev = cr_default_device();
    double x;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|O$O:Value", keywords, &data, &device, &label)) return NULL;
    if (!to_double(data, &x))
        return PyErr_Occurred() ? NULL : raise_type(data, "Value(): argument 'data' must be a number, not");
    if (device != Py_None && !to_device(device, &dev))
        return PyErr_Occurred() ? NULL : raise_type(device, "Value(): argument 'device' must be Device or str, not");
    cr_value *v;
    SHARED(v = cr_value_new(x, dev));
    PyObject *self = wrap_value(v);
    if (self && label && set_label(self, label, NULL)) Py_CLEAR(self);
    return self;
}

/* ---- operators */
typedef cr_value *(*binary)(cr_value *, cr_value *);

/* A number becomes a leaf of the same graph as the other operand. */
static PyObject *apply_number(PyObject *a, PyObject *b, binary f) {
    double x;
    if (!to_double(is_value(a) ? b : a, &x)) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NOTIMPLEMENTED;
    }
    cr_value *y;
    SHARED(cr_value *leaf = cr_value_new(x, cr_value_device(node(is_value(a) ? a : b)));
           y = f(is_value(a) ? node(a) : leaf, is_value(a) ? leaf : node(b));
           cr_value_release(leaf));
    return wrap_value(y);
}

static inline PyObject *apply(PyObject *a, PyObject *b, binary f) {
    if (!is_value(a) || !is_value(b)) return apply_number(a, b, f);
    cr_value *y;
    SHARED(y = f(node(a), node(b)));
    return wrap_value(y);
}
static inline PyObject *apply_one(PyObject *a, cr_value *(*f)(cr_value *)) {
    cr_value *y;
    SHARED(y = f(node(a)));
    return wrap_value(y);
}

static PyObject *op_add(PyObject *a, PyObject *b) { return apply(a, b, cr_value_add); }
static PyObject *op_sub(PyObject *a, PyObject *b) { return apply(a, b, cr_value_sub); }
static PyObject *op_mul(PyObject *a, PyObject *b) { return apply(a, b, cr_value_mul); }
static PyObject *op_div(PyObject *a, PyObject *b) { return apply(a, b, cr_value_div); }
static PyObject *op_pow(PyObject *a, PyObject *b, PyObject *modulus) {
    double n;
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    if (is_value(a) && to_double(b, &n)) {
        cr_value *y;
        SHARED(y = cr_value_pow_scalar(node(a), n));
        return wrap_value(y);
    }
    return PyErr_Occurred() ? NULL : apply(a, b, cr_value_pow);
}
static PyObject *op_neg(PyObject *a) { return apply_one(a, cr_value_neg); }

static PyObject *op_compare(PyObject *a, PyObject *b, int op) {
    if (!is_value(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((node(a) == node(b)) == (op == Py_EQ));
}
/* nodes are 64 bytes; never -1 */
static Py_hash_t op_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)node(self) >> 6); }

/* ---- methods */
#define UNARY(name) static PyObject *method_##name(PyObject *self, PyObject *unused) { (void)unused; \
    return apply_one(self, cr_value_##name); }
UNARY(relu)
UNARY(tanh)
UNARY(exp)
UNARY(log)
UNARY(sigmoid)

static PyObject *backward(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_status status;
    SHARED(status = cr_value_backward(node(self)));
    if (status != CR_OK) return raise_error();
    Py_RETURN_NONE;
}

static PyObject *zero_grad(PyObject *self, PyObject *unused) {
    (void)unused;
    cr_value_set_grad(node(self), 0);
    Py_RETURN_NONE;
}

static PyObject *move(PyObject *self, const cr_device *dev) {
    if (!dev) return raise_error();
    cr_value *y;
    SHARED(y = cr_value_to(node(self), dev));
    return wrap_value(y);
}
static PyObject *cpu(PyObject *self, PyObject *unused) { (void)unused; return move(self, cr_cpu()); }
static PyObject *cuda(PyObject *self, PyObject *unused) { (void)unused; return move(self, cr_device_find("cuda")); }
static PyObject *to(PyObject *self, PyObject *device) {
    const cr_device *dev;
    if (!to_device(device, &dev))
        return PyErr_Occurred() ? NULL : raise_type(device, "to(): argument 'device' must be Device or str, not");
    return move(self, dev);
}

/* pickle, copy: a leaf's number and place.  A result without its graph would be something else. */
static PyObject *reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    if (*cr_value_op(node(self))) {
        PyErr_SetString(PyExc_RuntimeError, "only Values that were made, not computed, can be copied or pickled");
        return NULL;
    }
    return Py_BuildValue("O(ds)", value_type, cr_value_data(node(self)), cr_device_name(cr_value_device(node(self))));
}

static PyMethodDef methods[] = {
    {"relu", method_relu, METH_NOARGS, "relu($self, /)\n--\n\nmax(x, 0); its gradient at 0 is 0."},
    {"tanh", method_tanh, METH_NOARGS, "tanh($self, /)\n--\n\nThe hyperbolic tangent."},
    {"exp", method_exp, METH_NOARGS, "exp($self, /)\n--\n\ne to the power of x."},
    {"log", method_log, METH_NOARGS, "log($self, /)\n--\n\nThe natural logarithm."},
    {"sigmoid", method_sigmoid, METH_NOARGS, "sigmoid($self, /)\n--\n\n1 / (1 + exp(-x))."},
    {"backward", backward, METH_NOARGS,
     "backward($self, /)\n--\n\nThe gradients of this Value: those of results are set, those of leaves added to."},
    {"zero_grad", zero_grad, METH_NOARGS, "zero_grad($self, /)\n--\n\nSets the gradient to 0."},
    {"to", to, METH_O, "to($self, device, /)\n--\n\nThe Value on another device, recorded; itself where it is there."},
    {"cpu", cpu, METH_NOARGS, "cpu($self, /)\n--\n\nto(\"cpu\")."},
    {"cuda", cuda, METH_NOARGS, "cuda($self, /)\n--\n\nto(\"cuda\"); RuntimeError where there is none."},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {0}};

/* ---- properties */
static PyObject *get_data(PyObject *self, void *unused) {
    (void)unused;
    return PyFloat_FromDouble(cr_value_data(node(self)));
}
static PyObject *get_grad(PyObject *self, void *unused) {
    (void)unused;
    return PyFloat_FromDouble(cr_value_grad(node(self)));
}
static PyObject *get_device(PyObject *self, void *unused) {
    (void)unused;
    return device_object(cr_value_device(node(self)));
}

static int set_number(PyObject *self, PyObject *value, void (*set)(cr_value *, double), const char *what) {
    double x;
    if (value && to_double(value, &x)) { set(node(self), x); return 0; }
    if (!PyErr_Occurred()) raise_type(value ? value : Py_None, "%s must be a number, not", what);
    return -1;
}
static int set_data(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    return set_number(self, value, cr_value_set_data, "data");
}
static int set_grad(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    return set_number(self, value, cr_value_set_grad, "grad");
}

static PyObject *get_prev(PyObject *self, void *unused) {
    (void)unused;
    cr_value *in[2];
    PyObject *set = PySet_New(NULL);
    for (int i = 0, n = cr_value_inputs(node(self), in, NULL); set && i < n; i++) {
        cr_value *v;
        SHARED(v = cr_value_retain(in[i]));
        PyObject *x = wrap_value(v);
        if (!x || PySet_Add(set, x) < 0) Py_CLEAR(set);
        Py_XDECREF(x);
    }
    return set;
}

/* As float.__repr__, or shortest: 2 for 2.0. */
static PyObject *digits(double x, bool shortest) {
    char *text = PyOS_double_to_string(x, 'r', 0, shortest ? 0 : Py_DTSF_ADD_DOT_0, NULL);
    PyObject *o = text ? PyUnicode_FromString(text) : NULL;
    PyMem_Free(text);
    return o;
}

static PyObject *get_op(PyObject *self, void *unused) {
    (void)unused;
    cr_value *in[2];
    double exponent;
    const char *op = cr_value_op(node(self));
    if (cr_value_inputs(node(self), in, &exponent) != 1 || op[0] != '*') return PyUnicode_FromString(op);
    PyObject *n = digits(exponent, true), *text = n ? PyUnicode_FromFormat("%s%U", op, n) : NULL;
    Py_XDECREF(n);
    return text;
}

static PyObject *get_label(PyObject *self, void *unused) {
    (void)unused;
    const char *label = cr_value_label(node(self));
    return PyUnicode_FromString(label ? label : "");
}

static int set_label(PyObject *self, PyObject *value, void *unused) {
    (void)unused;
    if (!value || !PyUnicode_Check(value)) { raise_type(value ? value : Py_None, "label must be str, not"); return -1; }
    const char *label = PyUnicode_AsUTF8AndSize(value, NULL);
    if (!label) return -1;
    cr_status status;
    SHARED(status = cr_value_set_label(node(self), *label ? label : NULL));
    if (status == CR_OK) return 0;
    raise_error();
    return -1;
}

static PyGetSetDef getset[] = {
    {"data", get_data, set_data, "The number.  Setting it changes no result that was computed from it.", NULL},
    {"grad", get_grad, set_grad,
     "What backward() found: the derivative by this Value, added up over calls if it is a leaf.", NULL},
    {"device", get_device, NULL, "The device that was asked for; Values are computed on the host.", NULL},
    {"label", get_label, set_label, "A name for pictures and messages; \"\" at first.", NULL},
    {"_prev", get_prev, NULL, "The set of Values that this one was computed from.", NULL},
    {"_op", get_op, NULL, "What computed it: \"+\", \"**2\", \"ReLU\"...; \"\" for a leaf.", NULL},
    {0}};

static PyObject *repr(PyObject *self) {
    PyObject *data = digits(cr_value_data(node(self)), false), *grad = digits(cr_value_grad(node(self)), false),
             *text = NULL;
    if (data && grad)
        text = PyUnicode_FromFormat("Value(data=%U, grad=%U, device=%s)", data, grad,
                                    cr_device_name(cr_value_device(node(self))));
    Py_XDECREF(data);
    Py_XDECREF(grad);
    return text;
}

/* ---- _neuron(w, x, b, relu): b + sum w[i] x[i], as zip() pairs them, then relu */

/* The items as nodes, borrowed from `items`, a tuple; numbers become leaves that `made` owns. */
static bool nodes_of(PyObject *items, Py_ssize_t n, const cr_device *dev, cr_value **to, cr_value **made) {
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        double x;
        if (is_value(item)) { to[i] = node(item); continue; }
        if (!to_double(item, &x)) {
            if (!PyErr_Occurred()) raise_type(item, "expected Value or a number, got");
            return false;
        }
        SHARED(to[i] = made[i] = cr_value_new(x, dev));
        if (!made[i]) return raise_error(), false;
    }
    return true;
}

static PyObject *neuron(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 4 || !is_value(args[2])) return PyErr_Format(PyExc_TypeError, "_neuron(w, x, b, relu)"), NULL;
    cr_value *b = node(args[2]), *y = NULL;
    PyObject *w = PySequence_Tuple(args[0]), *x = w ? PySequence_Tuple(args[1]) : NULL;
    if (!x) { Py_XDECREF(w); return NULL; }
    const Py_ssize_t nw = PyTuple_Size(w), nx = PyTuple_Size(x), n = nw < nx ? nw : nx;
    enum { FEW = 64 };
    cr_value *few[4 * FEW], **all = n <= FEW ? few : PyMem_Malloc(sizeof *all * 4 * (size_t)n), **made = all + 2 * n;
    if (!all) PyErr_NoMemory();
    else {
        for (Py_ssize_t i = 0; i < 2 * n; i++) made[i] = NULL;
        const cr_device *dev = cr_value_device(b);
        if (nodes_of(w, n, dev, all, made) && nodes_of(x, n, dev, all + n, made + n)) {
            const bool relu_after = PyObject_IsTrue(args[3]) == 1;
            SHARED(y = cr_value_neuron(n, all, all + n, b, relu_after));
            if (!y) raise_error();
        }
        SHARED(for (Py_ssize_t i = 0; i < 2 * n; i++) cr_value_release(made[i]));
        if (all != few) PyMem_Free(all);
    }
    Py_DECREF(w);
    Py_DECREF(x);
    return y ? wrap_value(y) : NULL;
}

static PyMethodDef functions[] = {{"_neuron", (PyCFunction)(void (*)(void))neuron, METH_FASTCALL,
                                   "_neuron(w, x, b, relu, /)\n--\n\nb + sum(w[i] * x[i]), then relu if it is true: "
                                   "the graph of the operators, recorded in one call."},
                                  {0}};

static PyType_Slot slots[] = {
    {Py_tp_new, (void *)value_new},
    {Py_tp_dealloc, (void *)value_free},
    {Py_tp_repr, (void *)repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, getset},
    {Py_tp_hash, (void *)op_hash},
    {Py_tp_richcompare, (void *)op_compare},
    {Py_nb_add, (void *)op_add},
    {Py_nb_subtract, (void *)op_sub},
    {Py_nb_multiply, (void *)op_mul},
    {Py_nb_true_divide, (void *)op_div},
    {Py_nb_power, (void *)op_pow},
    {Py_nb_negative, (void *)op_neg},
    {Py_tp_doc,
     "Value(data, device=None, *, label='')\n--\n\n"
     "A number that remembers how it was computed: micrograd's Value, in double.  On a "
     "GPU device too it is computed on the\n"
     "host, for one kernel launch costs a thousand multiplications; ValueBatch computes many on the device."},
    {0}};
static PyType_Spec spec = {"chainrule.Value", sizeof(Value), 0, Py_TPFLAGS_DEFAULT, slots};

bool make_value_type(PyObject *module) {
    if (cr_value_serial() != CR_OK) return raise_error(), false;    /* one thread at a time, by the GIL or SHARED */
    value_type = (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return value_type && PyModule_AddType(module, value_type) == 0 && PyModule_AddFunctions(module, functions) == 0;
}
