/* autograd.c - the backward walk from Python, and Python functions inside it: hooks, gradients that
 * are closures, checks. */
#include "extension.h"

#include <stdlib.h>
#include <string.h>

/* ---- callbacks: the walk runs without the GIL */

/* Gives back an object that the library kept.  After the interpreter has ended there is nothing to give it back to. */
static void forget(void *object) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)object);
    PyGILState_Release(state);
}

/* Borrowed handles as a tuple; CR_NONE becomes None. */
static PyObject *tuple_of(int n, const cr_tensor *const *t) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) {
        PyObject *x = wrap_borrowed(t[i]);
        if (x) PyTuple_SetItem(tuple, i, x);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

/* The result of a callback as a handle that the caller owns; CR_NONE for None; NULL with an exception set for
 * anything else. */
static cr_tensor *given_back(PyObject *result, const char *who) {
    if (!result) return NULL;
    if (result == Py_None) return cr_retain(CR_NONE);
    if (is_tensor(result)) return cr_retain(handle(result));
    raise_type(result, "%s must return a Tensor or None, not", who);
    return NULL;
}

/* ---- hooks */
typedef struct Handle { PyObject_HEAD PyObject *tensor; int64_t id; } Handle;     /* tensor: a weak reference */
static PyTypeObject *handle_type;

static cr_tensor *call_hook(const cr_tensor *grad, void *hook) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *g = wrap_borrowed(grad), *result = g ? PyObject_CallFunctionObjArgs((PyObject *)hook, g, NULL) : NULL;
    cr_tensor *y = given_back(result, "a hook");
    Py_XDECREF(result);
    Py_XDECREF(g);
    PyGILState_Release(state);
    return y;
}

/* The hook of a pair (weak reference to the Tensor, hook), with the Tensor that it was registered on. */
static cr_tensor *call_late_hook(const cr_tensor *leaf, void *pair) {
    (void)leaf;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *tensor = Py_NewRef(PyWeakref_GetObject(PyTuple_GetItem((PyObject *)pair, 0))),
             *hook = PyTuple_GetItem((PyObject *)pair, 1);
    PyObject *result = tensor == Py_None ? Py_NewRef(Py_None) : PyObject_CallFunctionObjArgs(hook, tensor, NULL);
    const bool ok = result == Py_None;
    if (result && !ok) raise_type(result, "a hook behind the accumulation of a gradient must return None, not");
    Py_XDECREF(result);
    Py_DECREF(tensor);
    PyGILState_Release(state);
    return ok ? cr_retain(CR_NONE) : NULL;
}

static PyObject *hooked(const arg *a, bool late) {
    Handle *h = PyObject_New(Handle, handle_type);
    if (!h) return NULL;
    h->tensor = PyWeakref_NewRef(a[0].from, NULL);
    h->id = 0;
    PyObject *ctx = !h->tensor ? NULL : late ? PyTuple_Pack(2, h->tensor, a[1].o) : Py_NewRef(a[1].o);
    if (ctx) {
        h->id = late ? cr_add_late_hook(a[0].t, call_late_hook, ctx, forget)
                     : cr_add_hook(a[0].t, call_hook, ctx, forget);
        if (!h->id) { Py_DECREF(ctx); raise_error(); }
    }
    if (h->id) return (PyObject *)h;
    Py_DECREF(h);
    return NULL;
}

PyObject *api_register_hook(const arg *a) {
    if (!PyCallable_Check(a[1].o)) return raise_type(a[1].o, "register_hook(): argument 'hook' must be callable, not");
    return hooked(a, false);
}

PyObject *api_register_post_accumulate_grad_hook(const arg *a) {
    if (PyCallable_Check(a[1].o)) return hooked(a, true);
    return raise_type(a[1].o, "register_post_accumulate_grad_hook(): argument 'hook' must be callable, not");
}

/* ---- hooks of saved tensors: ctx is (pack, unpack), a packed tensor (unpack, what pack returned) */
static void *pack_saved(const cr_tensor *t, void *pair) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *hooks = (PyObject *)pair, *x = wrap_borrowed(t);
    PyObject *given = x ? PyObject_CallFunctionObjArgs(PyTuple_GetItem(hooks, 0), x, NULL) : NULL;
    PyObject *packed = given ? PyTuple_Pack(2, PyTuple_GetItem(hooks, 1), given) : NULL;
    Py_XDECREF(given);
    Py_XDECREF(x);
    PyGILState_Release(state);
    return packed;
}

static cr_tensor *unpack_saved(void *packed) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *pair = (PyObject *)packed, *unpack = PyTuple_GetItem(pair, 0);
    PyObject *result = PyObject_CallFunctionObjArgs(unpack, PyTuple_GetItem(pair, 1), NULL);
    cr_tensor *y = result && is_tensor(result) ? cr_retain(handle(result)) : NULL;
    if (result && !y)
        raise_type(result, "Output of saved tensor unpack_hook expected to be a Tensor but got result of type");
    Py_XDECREF(result);
    PyGILState_Release(state);
    return y;
}

/* The thread owns the pair that is set; the one before goes to the caller. */
PyObject *api__set_saved_hooks(const arg *a) {
    cr_saved_hooks h = {0};
    if (a[0].o != Py_None) h = (cr_saved_hooks){pack_saved, unpack_saved, forget, Py_NewRef(a[0].o)};
    const cr_saved_hooks old = cr_set_saved_hooks(h);
    return old.ctx ? (PyObject *)old.ctx : Py_NewRef(Py_None);
}

static cr_status call_behind(void *function) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallNoArgs((PyObject *)function);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return result ? CR_OK : CR_RUNTIME;              /* the exception stays set */
}

PyObject *api__after_backward(const arg *a) {
    if (!PyCallable_Check(a[0].o)) return raise_type(a[0].o, "_after_backward(): the function must be callable, not");
    const cr_status status = cr_after_backward(call_behind, Py_NewRef(a[0].o), forget);
    if (status != CR_OK) Py_DECREF(a[0].o);
    return done(status);
}

static PyObject *handle_remove(PyObject *self, PyObject *unused) {
    (void)unused;
    Handle *h = (Handle *)(void *)self;
    /* borrowed; None once it is gone, and the hook with its last use */
    PyObject *tensor = PyWeakref_GetObject(h->tensor);
    if (tensor && tensor != Py_None && h->id) {
        cr_remove_hook(handle(tensor), h->id);
        cr_error_clear();                                      /* it may be gone already */
    }
    h->id = 0;
    Py_RETURN_NONE;
}

static PyObject *handle_enter(PyObject *self, PyObject *unused) { (void)unused; return Py_NewRef(self); }
static PyObject *handle_exit(PyObject *self, PyObject *exception) { (void)exception; return handle_remove(self, NULL); }

static void handle_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Handle *)(void *)self)->tensor);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef handle_methods[] = {
    {"remove", handle_remove, METH_NOARGS, "remove($self, /)\n--\n\nThe hook is called no more."},
    {"__enter__", handle_enter, METH_NOARGS,
     "__enter__($self, /)\n--\n\nThe handle: the end of the block removes the hook."},
    {"__exit__", handle_exit, METH_VARARGS, "__exit__($self, /, *exception)\n--\n\nremove()"},
    {0}};
static PyType_Slot handle_slots[] = {{Py_tp_dealloc, (void *)handle_free},
                                     {Py_tp_methods, handle_methods},
                                     {Py_tp_doc, "What register_hook returns: remove() ends the hook."},
                                     {0}};
static PyType_Spec handle_spec = {"chainrule.RemovableHandle", sizeof(Handle), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, handle_slots};

/* ---- nodes of the graph */
typedef struct Node { PyObject_HEAD cr_node *node; PyObject *address, *weak; } Node;       /* node: owned */
static PyTypeObject *node_type;
static PyObject *node_classes;                       /* "MulBackward0" -> a subclass of Node, made when first seen */
static PyObject *node_names;                         /* those that Python gave; each once */
static PyObject *node_objects;                       /* a node's address -> a weak reference to its object: there is
                                                      * one for each node, as PyTorch has it */

/* Ops whose node has another name in PyTorch than theirs. */
static const char *const NODES[][2] = {
    {"batch_norm", "NativeBatchNorm"}, {"cast", "ToCopy"}, {"conv", "Convolution"}, {"conv_transpose", "Convolution"},
    {"cross_entropy", "NllLoss"},
    {"layer_norm", "NativeLayerNorm"}, {"linear", "Addmm"}, {"log1p", "Log1P"}, {"logsigmoid", "LogSigmoid"},
    {"deg2rad", "Deg2Rad"}, {"entr", "SpecialEntr"}, {"erfcx", "SpecialErfcx"}, {"i0e", "SpecialI0E"},
    {"i1", "SpecialI1"}, {"i1e", "SpecialI1E"}, {"log_ndtr", "SpecialLogNdtr"}, {"ndtri", "SpecialNdtri"},
    {"rad2deg", "Rad2Deg"}, {"relu6", "Hardtanh"}, {"softsign", "Div"}, {"xlog1py", "SpecialXlog1Py"},
    {"zeta", "SpecialZeta"}, {"max_pool", "MaxPool2DWithIndices"}, {"norm", "LinalgVectorNorm"},
    {"pad", "ConstantPadNd"},
    {"part", "Slice"}, {"selu", "Elu"}, {"square", "Pow"},
};

/* As PyTorch calls it: log_softmax is LogSoftmaxBackward0, a Function Cube is CubeBackward. */
static PyObject *node_name(const cr_node *node) {
    const cr_node_info info = cr_node_look(node);
    if (!*info.op) return PyUnicode_FromString("AccumulateGrad");
    if (info.function) return PyUnicode_FromFormat("%sBackward", info.op);
    if (!strcmp(info.op, "matmul")) {
        static const char *const products[] = {"Dot", "Mv", "Mm", "Bmm"};
        return PyUnicode_FromFormat("%sBackward0", products[info.ndim < 3 ? info.ndim : 3]);
    }
    for (size_t i = 0; i < sizeof NODES / sizeof *NODES; i++)
        if (!strcmp(info.op, NODES[i][0])) return PyUnicode_FromFormat("%sBackward0", NODES[i][1]);
    char name[128];
    const char *c = info.op;
    size_t n = 0;
    for (; *c && *c != ':' && n < sizeof name - 1; c++) {
        const bool begins = c == info.op || c[-1] == '_';
        if (*c != '_') name[n++] = (char)(begins && *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    }
    name[n] = 0;
    return PyUnicode_FromFormat("%sBackward%s", name, *c == ':' ? c + 1 : "0");
}

static PyTypeObject *node_class(PyObject *name);

static PyObject *node_new(cr_node *n, PyObject *address) {         /* takes both */
    PyObject *name = node_name(n);
    PyTypeObject *class = name ? node_class(name) : NULL;
    Node *self = class ? PyObject_New(Node, class) : NULL;
    Py_XDECREF(name);
    if (!self) { Py_DECREF(address); cr_node_release(n); return NULL; }
    self->node = n;
    self->address = address;
    self->weak = NULL;
    PyObject *weak = PyWeakref_NewRef((PyObject *)self, NULL);
    if (!weak || PyDict_SetItem(node_objects, address, weak) < 0) Py_CLEAR(self);
    Py_XDECREF(weak);
    return (PyObject *)self;
}

/* The object of a node, a new reference; NULL: it has none. */
static PyObject *object_at(PyObject *address) {
    PyObject *object = NULL;
#ifdef Py_GIL_DISABLED
    PyObject *weak = NULL;
    if (PyDict_GetItemRef(node_objects, address, &weak) > 0) PyWeakref_GetRef(weak, &object);
    Py_XDECREF(weak);
#else
    PyObject *weak = PyDict_GetItemWithError(node_objects, address);
    if (weak && PyWeakref_GetObject(weak) != Py_None) object = Py_NewRef(PyWeakref_GetObject(weak));
#endif
    return object;
}

PyObject *node_object(cr_node *n) {
    if (!n) {
        if (cr_error()) return raise_error();
        Py_RETURN_NONE;
    }
    PyObject *address = PyLong_FromVoidPtr(n), *self = address ? object_at(address) : NULL;
    if (address && !self && !PyErr_Occurred()) return node_new(n, address);
    Py_XDECREF(address);
    cr_node_release(n);
    return self;
}

static void node_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Node *n = (Node *)(void *)self;
    if (n->weak) PyObject_ClearWeakRefs(self);
    PyObject *other = object_at(n->address);        /* made by another thread meanwhile */
    if (!other && PyDict_DelItem(node_objects, n->address) < 0) PyErr_Clear();
    Py_XDECREF(other);
    Py_DECREF(n->address);
    cr_node_release(n->node);
    PyObject_Free(self);
    Py_DECREF(type);
}

static cr_node_info look(PyObject *self) { return cr_node_look(((Node *)(void *)self)->node); }

static PyObject *named_as(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyObject_GetAttrString((PyObject *)Py_TYPE(self), "__name__");
}

static PyObject *node_repr(PyObject *self) {
    PyObject *name = named_as(self, NULL), *text = name ? PyUnicode_FromFormat("<%U object at %p>", name, self) : NULL;
    Py_XDECREF(name);
    return text;
}

static PyObject *get_next_functions(PyObject *self, void *unused) {
    (void)unused;
    const int n = look(self).inputs;
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        PyObject *next = node_object(cr_node_input(((Node *)(void *)self)->node, i)),
                 *pair = next ? Py_BuildValue("(Ni)", next, 0) : NULL;
        if (pair) PyTuple_SetItem(all, i, pair);
        else Py_CLEAR(all);
    }
    return all;
}

static PyObject *get_tensor(PyObject *self, void *unused) {
    (void)unused;
    cr_tensor *t = cr_node_tensor(((Node *)(void *)self)->node);
    PyObject *object = wrap_borrowed(t);
    cr_drop(t);
    return object;
}

static PyObject *get_variable(PyObject *self, void *unused) {
    if (!*look(self).op) return get_tensor(self, unused);
    PyErr_Format(PyExc_AttributeError, "%S has no variable: it is not a leaf", self);
    return NULL;
}
static PyObject *get_node_shape(PyObject *self, void *unused) {
    (void)unused;
    return size_object(look(self).ndim, look(self).shape);
}
static PyObject *get_node_dtype(PyObject *self, void *unused) { (void)unused; return dtype_object(look(self).dtype); }

static PyMethodDef node_methods[] = {
    {"name", named_as, METH_NOARGS,
     "name($self, /)\n--\n\nAs PyTorch calls it: \"MulBackward0\"; of a leaf, \"AccumulateGrad\"."},
    {0}};
static PyGetSetDef node_getset[] = {
    {"next_functions", get_next_functions, NULL,
     "(node, 0) of the op that made each input; (None, 0) where no gradient goes.", NULL},
    {"variable", get_variable, NULL, "The leaf, or None once it is freed; AttributeError: not a leaf.", NULL},
    {"shape", get_node_shape, NULL, "Of the result, or the leaf.", NULL},
    {"dtype", get_node_dtype, NULL, "Of the result, or the leaf.", NULL},
    {"_tensor", get_tensor, NULL,
     "The leaf, or the result if it retains its gradient; None where no reference to it is left.", NULL},
    {0}};
static PyMemberDef node_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Node, weak), READONLY, NULL}, {0}};
static PyType_Slot node_slots[] = {
    {Py_tp_dealloc, (void *)node_free},
    {Py_tp_members, node_members},
    {Py_tp_repr, (void *)node_repr},
    {Py_tp_methods, node_methods},
    {Py_tp_getset, node_getset},
    {Py_tp_doc,
     "What a Tensor's grad_fn is: one use of an op in the graph, or a leaf.  It keeps all that it was computed from."},
    {0}};
static PyType_Spec node_spec = {"chainrule.Node", sizeof(Node), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                node_slots};

/* What a dict of this file has for a str, of which it keeps the first value for ever; borrowed. */
static PyObject *kept_in(PyObject *dict, PyObject *key, PyObject *value) {
    PyObject *found;
    SHARED(found = PyDict_GetItemWithError(dict, key);
           if (!found && !PyErr_Occurred() && PyDict_SetItem(dict, key, value) == 0) found = value);
    return found;
}

/* The class of the nodes of this name, which lives for ever, as its name does. */
static PyTypeObject *node_class(PyObject *name) {
    static PyType_Slot no_slots[] = {{0}};
    PyObject *class = PyDict_GetItemWithError(node_classes, name);
    if (class || PyErr_Occurred()) return (PyTypeObject *)(void *)class;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const size_t room = text ? strlen(text) + sizeof "chainrule." : 0;
    char *full = text ? malloc(room) : NULL;
    if (!full) return text ? PyErr_NoMemory(), NULL : NULL;
    PyOS_snprintf(full, room, "chainrule.%s", text);
    PyType_Spec spec = {full, sizeof(Node), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, no_slots};
    class = PyType_FromSpecWithBases(&spec, (PyObject *)node_type);
    PyObject *kept = class ? kept_in(node_classes, name, class) : NULL;
    Py_XDECREF(class);
    return (PyTypeObject *)(void *)kept;
}

bool make_autograd_types(PyObject *module) {
    handle_type = (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &handle_spec, NULL);
    node_type = (PyTypeObject *)(void *)PyType_FromModuleAndSpec(module, &node_spec, NULL);
    node_objects = PyDict_New();
    node_classes = PyDict_New();
    node_names = PyDict_New();
    return node_objects && node_classes && node_names && handle_type && PyModule_AddType(module, handle_type) == 0 &&
           node_type && PyModule_AddType(module, node_type) == 0;
}

/* ---- the walk */
cr_tensor *api_requires_grad_(const arg *a) { return cr_requires_grad_(a[0].t, a[1].b); }

PyObject *api_detach_(const arg *a) {
    const bool ok = cr_is_leaf(a[0].t) ? cr_requires_grad_(a[0].t, false) || raise_error()
                                       : become(a[0].from, cr_detach(a[0].t));
    return ok ? Py_NewRef(a[0].from) : NULL;
}

/* (input, name): the names live for ever, each once */
PyObject *api__named(const arg *a) {
    PyObject *known = kept_in(node_names, a[1].from, a[1].from);
    const char *text = known ? PyUnicode_AsUTF8AndSize(known, NULL) : NULL;
    if (!text) return NULL;
    cr_node_rename(a[0].t, text);
    return Py_NewRef(a[0].from);
}

PyObject *api_retain_grad(const arg *a) {
    if (cr_retain_grad(a[0].t) != CR_OK) return raise_error();
    Py_RETURN_NONE;
}

PyObject *api_backward(const arg *a) {
    cr_backward_options o = {.retain_graph = a[2].given ? a[2].b : a[3].b, .create_graph = a[3].b};
    cr_status bad;
    if (a[4].given && a[4].list.n == 0) {
        PyErr_SetString(PyExc_RuntimeError, "'inputs' argument to backward cannot be empty.");
        return NULL;
    }
    if (a[4].given) {
        o.n_inputs = a[4].list.n;
        o.inputs = a[4].list.v;
    }
    WITHOUT_GIL(bad = cr_backward(a[0].t, a[1].t, &o));
    if (bad != CR_OK) return raise_error();
    Py_RETURN_NONE;
}

/* (outputs, inputs, grad_outputs: a tuple of Tensor or None, retain_graph, create_graph) */
PyObject *api__gradients(const arg *a) {
    int n_out = a[0].list.n, n_in = a[1].list.n;
    cr_backward_options o = {.retain_graph = a[3].b, .create_graph = a[4].b};
    const cr_tensor **cotangents = PyMem_Calloc((size_t)n_out + 1, sizeof *cotangents);
    cr_tensor **grads = PyMem_Calloc((size_t)n_in + 1, sizeof *grads);
    PyObject *result = NULL;
    cr_status bad = CR_OK;
    if (!cotangents || !grads) { PyErr_NoMemory(); goto end; }
    if (!PyTuple_Check(a[2].o) || PyTuple_Size(a[2].o) != n_out) {
        PyErr_SetString(PyExc_RuntimeError, "as many grad_outputs as outputs are needed");
        goto end;
    }
    for (int i = 0; i < n_out; i++) {
        PyObject *g = PyTuple_GetItem(a[2].o, i);
        cotangents[i] = is_tensor(g) ? hold(g) : CR_NONE;
        if (!is_tensor(g) && g != Py_None) { raise_type(g, "grad_outputs must be Tensors or None, not"); goto end; }
    }
    WITHOUT_GIL(bad = cr_gradients(n_out, a[0].list.v, cotangents, n_in, a[1].list.v, grads, &o));
    if (bad != CR_OK) { raise_error(); goto end; }
    result = PyTuple_New(n_in);
    for (int i = 0; i < n_in; i++) {
        PyObject *g = NULL;
        if (grads[i] != CR_NONE) g = wrap(grads[i]);
        else Py_INCREF(g = Py_None);
        if (result && g) PyTuple_SetItem(result, i, g);
        else { Py_XDECREF(g); Py_CLEAR(result); }
    }
end:
    for (int i = 0; cotangents && i < n_out; i++) cr_drop(cotangents[i]);
    PyMem_Free(cotangents);
    PyMem_Free(grads);
    return result;
}

/* ---- functions with a Python callable as gradient */
static cr_status call_backward(const cr_function_call *c, cr_tensor **dx) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *grads = tuple_of(c->n_out, c->grads), *saved = tuple_of(c->n_saved, c->saved),
             *needs = PyTuple_New(c->n_in), *frees = PyBool_FromLong(c->frees), *result = NULL, *each = NULL;
    for (int i = 0; needs && i < c->n_in; i++) PyTuple_SetItem(needs, i, PyBool_FromLong(c->needs[i]));
    if (grads && saved && needs)
        result = PyObject_CallFunctionObjArgs((PyObject *)c->ctx, grads, needs, saved, frees, NULL);
    if (result) each = PySequence_Tuple(result);
    bool ok = each && PyTuple_Size(each) == c->n_in;
    if (each && !ok)
        PyErr_Format(PyExc_RuntimeError, "backward returned %zd gradients for %d tensors", PyTuple_Size(each), c->n_in);
    for (int i = 0; ok && i < c->n_in; i++) ok = (dx[i] = given_back(PyTuple_GetItem(each, i), "backward"));
    Py_XDECREF(grads);
    Py_XDECREF(saved);
    Py_XDECREF(needs);
    Py_DECREF(frees);
    Py_XDECREF(result);
    Py_XDECREF(each);
    PyGILState_Release(state);
    return ok ? CR_OK : CR_RUNTIME;
}

/* The results of a use: as inputs of older nodes where a mark is given. */
static PyObject *recorded(cr_function_use *use, PyObject *backward, const int64_t *mark) {
    const int n = use->n_out;
    cr_tensor **results = PyMem_Calloc((size_t)n + 1, sizeof *results);
    if (!results) return PyErr_NoMemory();
    use->backward = call_backward;
    use->ctx = Py_NewRef(backward);
    use->done = forget;
    PyObject *tuple = NULL;
    const cr_status status = mark ? cr_recompute_record(use, (uint64_t)*mark, results)
                                  : cr_function_record(use, results);
    if (status == CR_OK) tuple = PyTuple_New(n);
    else { Py_DECREF(backward); raise_error(); }
    for (int i = 0; i < n && results[i]; i++) {
        PyObject *y = wrap(results[i]);
        if (tuple && y) PyTuple_SetItem(tuple, i, y);
        else { Py_XDECREF(y); Py_CLEAR(tuple); }
    }
    PyMem_Free(results);
    return tuple;
}

/* (name, inputs, outputs, saved, backward, written: a bool for each output) */
PyObject *api__record(const arg *a) {
    const int n = a[2].list.n;
    bool *written = PyMem_Calloc((size_t)n + 1, sizeof *written);
    if (!written) return PyErr_NoMemory();
    for (int i = 0; i < n && i < PyTuple_Size(a[5].o); i++) written[i] = PyTuple_GetItem(a[5].o, i) == Py_True;
    cr_function_use use = {.name = a[0].s,
                           .n_in = a[1].list.n,
                           .in = a[1].list.v,
                           .n_out = n,
                           .out = a[2].list.v,
                           .n_saved = a[3].list.n,
                           .saved = a[3].list.v,
                           .written = written};
    PyObject *results = recorded(&use, a[4].o, NULL);
    PyMem_Free(written);
    return results;
}

PyObject *api__graph_mark(const arg *a) { (void)a; return PyLong_FromUnsignedLongLong(cr_graph_mark()); }

/* (name, mark, outputs, backward) */
PyObject *api__record_again(const arg *a) {
    cr_function_use use = {.name = a[0].s, .n_out = a[2].list.n, .out = a[2].list.v};
    return recorded(&use, a[3].o, &a[1].i);
}

PyObject *api__backward_through(const arg *a) { return done(cr_backward_through(a[0].t, a[1].t)); }

/* ---- checks */
static cr_tensor *call_function(int n, const cr_tensor *const *in, void *function) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *args = tuple_of(n, in), *result = args ? PyObject_CallObject((PyObject *)function, args) : NULL;
    cr_tensor *y = given_back(result, "the function");
    if (y == CR_NONE) { raise_type(Py_None, "the function must return a Tensor, not"); y = NULL; }
    Py_XDECREF(args);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return y;
}

/* (function, inputs, eps, atol, rtol, second) */
PyObject *api__gradcheck(const arg *a) {
    cr_gradcheck_options o = cr_gradcheck_defaults();
    o.eps = a[2].d;
    o.atol = a[3].d;
    o.rtol = a[4].d;
    cr_status bad;
    if (a[5].b) WITHOUT_GIL(bad = cr_gradgradcheck(call_function, a[0].o, a[1].list.n, a[1].list.v, &o));
    else WITHOUT_GIL(bad = cr_gradcheck(call_function, a[0].o, a[1].list.n, a[1].list.v, &o));
    if (bad != CR_OK) return raise_error();
    Py_RETURN_NONE;
}

/* ---- modes */
PyObject *api_is_grad_enabled(const arg *a) { (void)a; return PyBool_FromLong(cr_grad_enabled()); }
PyObject *api__set_grad_enabled(const arg *a) { return PyBool_FromLong(cr_set_grad_enabled(a[0].b)); }
PyObject *api__set_anomaly(const arg *a) { return PyBool_FromLong(cr_set_anomaly(a[0].b)); }

/* ---- mixed precision */
PyObject *api__autocast_begin(const arg *a) { return done(cr_autocast_begin(a[0].dev, a[1].dt, a[2].b)); }
PyObject *api__autocast_end(const arg *a) { (void)a; return done(cr_autocast_end()); }
PyObject *api__autocast_dtype(const arg *a) { return dtype_object(cr_autocast_dtype(a[0].dev)); }
PyObject *api__set_autocast(const arg *a) { return PyBool_FromLong(cr_set_autocast(a[0].b)); }
PyObject *api__autocast_policy(const arg *a) {
    static const char *const names[] = {
        [CR_CAST_UNLISTED] = "", [CR_CAST_NONE] = "none",   [CR_CAST_LOW] = "low",
        [CR_CAST_F32] = "f32",   [CR_CAST_FIRST] = "first", [CR_CAST_WIDEST] = "widest"};
    return PyUnicode_FromString(names[cr_autocast_policy(a[0].s)]);
}
PyObject *api__autocasting(const arg *a) { (void)a; return PyBool_FromLong(cr_autocasting()); }
cr_tensor *api__autocast_cast(const arg *a) { return cr_autocast_cast(a[0].t, a[1].dt); }
PyObject *api__autocast_clear(const arg *a) {
    (void)a;
    cr_autocast_clear();
    Py_RETURN_NONE;
}
