/* types.c - the small types: Size, dtype, Device, Generator. */
#include "extension.h"

#include <string.h>

PyTypeObject *size_type, *dtype_type, *device_type, *generator_type;
static PyObject *dtypes[CR_DTYPES];

const char *namespace = "chainrule";

PyObject *api__namespace(const arg *a) {
    namespace = strcmp(a[0].s, "torch") ? "chainrule" : "torch";
    Py_RETURN_NONE;
}

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, PyObject *bases) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);
    if (type && PyModule_AddType(module, (PyTypeObject *)(void *)type) < 0) Py_CLEAR(type);
    return (PyTypeObject *)(void *)type;
}

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- Size: a tuple that also equals a list */
static PyObject *size_compare(PyObject *self, PyObject *other, int op) {
    static richcmpfunc of_tuple;
    if (!of_tuple) of_tuple = (richcmpfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_richcompare);
    if (!PyList_Check(other)) return of_tuple(self, other, op);
    PyObject *items = PyList_AsTuple(other), *answer = items ? of_tuple(self, items, op) : NULL;
    Py_XDECREF(items);
    return answer;
}

static PyObject *size_repr(PyObject *self) {
    static reprfunc of_tuple;
    if (!of_tuple) of_tuple = (reprfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_repr);
    PyObject *inner = PySequence_List(self);
    PyObject *text = inner ? PyUnicode_FromFormat("%s.Size(%R)", namespace, inner) : NULL;
    Py_XDECREF(inner);
    return text;
}

static PyObject *size_numel(PyObject *self, PyObject *unused) {
    (void)unused;
    int64_t n = 1, v;
    for (Py_ssize_t i = 0; i < PyTuple_Size(self); i++) {
        if (!to_int64(PyTuple_GetItem(self, i), &v)) return NULL;
        n *= v;
    }
    return PyLong_FromLongLong(n);
}

static Py_hash_t size_hash(PyObject *self) {
    static hashfunc of_tuple;
    if (!of_tuple) of_tuple = (hashfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_hash);
    return of_tuple(self);
}

static PyObject *as_size(PyObject *tuple) {          /* taken */
    PyObject *made = tuple ? PyObject_CallFunctionObjArgs((PyObject *)size_type, tuple, NULL) : NULL;
    Py_XDECREF(tuple);
    return made;
}

/* shape[1:] and shape + (2,) are shapes too */
static PyObject *size_subscript(PyObject *self, PyObject *key) {
    static binaryfunc of_tuple;
    if (!of_tuple) of_tuple = (binaryfunc)PyType_GetSlot(&PyTuple_Type, Py_mp_subscript);
    return PySlice_Check(key) ? as_size(of_tuple(self, key)) : of_tuple(self, key);
}

static PyObject *size_concat(PyObject *self, PyObject *other) {
    static binaryfunc of_tuple;
    if (!of_tuple) of_tuple = (binaryfunc)PyType_GetSlot(&PyTuple_Type, Py_sq_concat);
    return as_size(of_tuple(self, other));
}

static PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "numel($self, /)\n--\n\nThe product of the sizes."}, {0}
};
static PyType_Slot size_slots[] = {{Py_tp_richcompare, (void *)size_compare},
                                   {Py_tp_repr, (void *)size_repr},
                                   {Py_tp_hash, (void *)size_hash},
                                   {Py_mp_subscript, (void *)size_subscript},
                                   {Py_sq_concat, (void *)size_concat},
                                   {Py_tp_methods, size_methods},
                                   {Py_tp_doc, "A shape, or strides: a tuple of ints that also equals a list of them."},
                                   {0}};
static PyType_Spec size_spec = {"chainrule.Size", 0, 0, Py_TPFLAGS_DEFAULT, size_slots};

static PyObject *fill_tuple(PyObject *t, int n, const int64_t *v) {
    for (int i = 0; t && i < n; i++) {
        PyObject *x = PyLong_FromLongLong(v[i]);
        if (!x) Py_CLEAR(t);
        else PyTuple_SetItem(t, i, x);
    }
    return t;
}

PyObject *int_tuple(int n, const int64_t *v) { return fill_tuple(PyTuple_New(n), n, v); }

PyObject *size_object(int n, const int64_t *shape) {
    static allocfunc allocate;
    if (!allocate) allocate = (allocfunc)PyType_GetSlot(size_type, Py_tp_alloc);
    return fill_tuple(allocate(size_type, n), n, shape);
}

/* ---- dtype */
static cr_dtype held(PyObject *self) { return ((Dtype *)(void *)self)->dt; }

PyObject *dtype_object(cr_dtype dt) { Py_INCREF(dtypes[dt]); return dtypes[dt]; }

static PyObject *dtype_repr(PyObject *self) {
    return PyUnicode_FromFormat("%s.%s", namespace, cr_dtype_name(held(self)));
}
/* pickled by its name */
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyUnicode_FromString(cr_dtype_name(held(self)));
}
static PyObject *dtype_itemsize(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(cr_dtype_size(held(self)));
}
static PyObject *dtype_floating(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(cr_dtype_is_float(held(self)));
}
static PyObject *dtype_signed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(held(self) >= CR_I8);
}

static PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, NULL}, {0}};
static PyGetSetDef dtype_getset[] = {
    {"itemsize", dtype_itemsize, NULL, "Bytes of one element.", NULL},
    {"is_floating_point", dtype_floating, NULL, "Is it float16, bfloat16, float32 or float64?", NULL},
    {"is_signed", dtype_signed, NULL, "Can it hold negative numbers?", NULL},
    {0}
};
static PyType_Slot dtype_slots[] = {{Py_tp_dealloc, (void *)free_object},
                                    {Py_tp_repr, (void *)dtype_repr},
                                    {Py_tp_methods, dtype_methods},
                                    {Py_tp_getset, dtype_getset},
                                    {Py_tp_doc, "The type of a tensor's elements, such as chainrule.float32."},
                                    {0}};
static PyType_Spec dtype_spec = {"chainrule.dtype", sizeof(Dtype), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

static bool make_dtypes(PyObject *module) {
    static const struct { const char *name; cr_dtype dt; } others[] = {
        {"float", CR_F32}, {"double", CR_F64}, {"half", CR_F16}, {"long", CR_I64}, {"int", CR_I32}, {"short", CR_I16}
    };
    dtype_type = add_type(module, &dtype_spec, NULL);
    if (!dtype_type) return false;
    for (int i = 0; i < CR_DTYPES; i++) {
        Dtype *d = PyObject_New(Dtype, dtype_type);
        if (!d) return false;
        d->dt = (cr_dtype)i;
        dtypes[i] = (PyObject *)d;
        if (PyModule_AddObjectRef(module, cr_dtype_name(d->dt), dtypes[i]) < 0) return false;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (PyModule_AddObjectRef(module, others[i].name, dtypes[others[i].dt]) < 0) return false;
    return true;
}

/* ---- Device */
static const char *device_name(PyObject *self) { return cr_device_name(((Device *)(void *)self)->dev); }

static PyObject *cpu_object;                         /* asked for most: one object */

PyObject *device_object(const cr_device *dev) {
    if (dev == cr_cpu() && cpu_object) return Py_NewRef(cpu_object);
    Device *d = PyObject_New(Device, device_type);
    if (d) d->dev = dev;
    return (PyObject *)d;
}

static PyObject *no_device(void) {
    name_error("Device");
    return NULL;
}

static PyObject *device_named(const char *name) {
    const cr_device *dev = cr_device_find(name);
    if (dev) return device_object(dev);
    raise_error();
    return no_device();
}

static PyObject *device_indexed(const char *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"index", NULL};
    int index = 0;
    char name[32];
    if (!PyArg_ParseTupleAndKeywords(args, names, "|i", keywords, &index)) return NULL;
    PyOS_snprintf(name, sizeof name, "%s:%d", type, index);
    return device_named(name);
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"type", "index", NULL};
    (void)type;
    PyObject *what, *index = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|O:Device", keywords, &what, &index)) return NULL;
    const cr_device *dev;
    if (index != Py_None) {
        int64_t i;
        if (!PyUnicode_Check(what)) return raise_type(what, "Device(): with an index, type must be str, not");
        if (!to_int64(index, &i)) return NULL;
        PyObject *text = i ? PyUnicode_FromFormat("%U:%lld", what, (long long)i) : (Py_INCREF(what), what);
        bool found = text && to_device(text, &dev);
        Py_XDECREF(text);
        return found ? device_object(dev) : no_device();
    }
    if (to_device(what, &dev)) return device_object(dev);
    return PyErr_Occurred() ? no_device() : raise_type(what, "Device(): argument 'type' must be Device or str, not");
}

static size_t type_length(PyObject *self) { return strcspn(device_name(self), ":"); }

static PyObject *device_repr(PyObject *self) {
    const int n = (int)type_length(self);
    const char *name = device_name(self);
    if (!strcmp(namespace, "chainrule")) return PyUnicode_FromFormat("Device(type='%s')", name);
    if (!name[n]) return PyUnicode_FromFormat("device(type='%s')", name);
    return PyUnicode_FromFormat("device(type='%.*s', index=%s)", n, name, name + n + 1);
}
static PyObject *device_str(PyObject *self) { return PyUnicode_FromString(device_name(self)); }
static PyObject *device_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("O(s)", device_type, device_name(self));
}
static Py_hash_t device_hash(PyObject *self) {
    PyObject *name = device_str(self);
    Py_hash_t h = name ? PyObject_Hash(name) : -1;
    Py_XDECREF(name);
    return h;
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op) {
    if (Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((Device *)(void *)a)->dev == ((Device *)(void *)b)->dev) == (op == Py_EQ));
}

static PyObject *device_cpu(PyObject *type, PyObject *unused) { (void)type; (void)unused; return device_named("cpu"); }
static PyObject *device_ref(PyObject *type, PyObject *unused) { (void)type; (void)unused; return device_named("ref"); }
static PyObject *device_cuda(PyObject *type, PyObject *args, PyObject *names) {
    (void)type;
    return device_indexed("cuda", args, names);
}
static PyObject *device_gpu(PyObject *type, PyObject *args, PyObject *names) {
    (void)type;
    return device_indexed("gpu", args, names);
}

static bool exists(const char *name) {
    bool there = cr_device_find(name);
    if (!there) cr_error_clear();
    return there;
}
static PyObject *cuda_available(PyObject *type, PyObject *unused) {
    (void)type;
    (void)unused;
    return PyBool_FromLong(exists("cuda"));
}
static PyObject *gpu_available(PyObject *type, PyObject *unused) {
    (void)type;
    (void)unused;
    return PyBool_FromLong(exists("gpu"));
}

static PyObject *is_a(PyObject *self, const char *type) {
    return PyBool_FromLong(strlen(type) == type_length(self) && !strncmp(device_name(self), type, strlen(type)));
}
static PyObject *is_cpu(PyObject *self, PyObject *unused) { (void)unused; return is_a(self, "cpu"); }
static PyObject *is_cuda(PyObject *self, PyObject *unused) { (void)unused; return is_a(self, "cuda"); }
static PyObject *is_gpu(PyObject *self, PyObject *unused) {
    (void)unused;
    const char *name = device_name(self);
    return PyBool_FromLong(strcmp(name, "cpu") && strcmp(name, "ref") && strcmp(name, "meta"));
}
static PyObject *get_type(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromStringAndSize(device_name(self), (Py_ssize_t)type_length(self));
}
static PyObject *get_info(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(cr_device_info(((Device *)(void *)self)->dev));
}
static PyObject *get_index(PyObject *self, void *unused) {
    (void)unused;
    const char *colon = strchr(device_name(self), ':');
    if (!colon) Py_RETURN_NONE;
    return PyLong_FromString(colon + 1, NULL, 10);
}

#define NAMED(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS | METH_CLASS
static PyMethodDef device_methods[] = {
    {"cpu", device_cpu, METH_NOARGS | METH_CLASS, "cpu()\n--\n\nThe processor."},
    {"ref", device_ref, METH_NOARGS | METH_CLASS,
     "ref()\n--\n\nThe reference device: plain loops in double; the tests compare every other device with it."},
    {"cuda", NAMED(device_cuda), "cuda(index=0)\n--\n\nAn NVIDIA GPU; RuntimeError where there is none."},
    {"gpu", NAMED(device_gpu), "gpu(index=0)\n--\n\nThe best hardware GPU; RuntimeError where there is none."},
    {"is_cuda_available", cuda_available, METH_NOARGS | METH_CLASS,
     "is_cuda_available()\n--\n\nIs there a CUDA device?"},
    {"is_gpu_available", gpu_available, METH_NOARGS | METH_CLASS,
     "is_gpu_available()\n--\n\nIs there a hardware GPU of any kind?"},
    {"is_cpu", is_cpu, METH_NOARGS, "is_cpu($self, /)\n--\n\nIs this the processor?"},
    {"is_cuda", is_cuda, METH_NOARGS, "is_cuda($self, /)\n--\n\nIs this a CUDA device?"},
    {"is_gpu", is_gpu, METH_NOARGS, "is_gpu($self, /)\n--\n\nIs this a GPU of any kind?"},
    {"__reduce__", device_reduce, METH_NOARGS, NULL},
    {0}};
static PyGetSetDef device_getset[] = {
    {"type", get_type, NULL, "\"cpu\", \"ref\", \"cuda\"...", NULL},
    {"info", get_info, NULL, "The model, the instruction set or the engine, and its version, as text.", NULL},
    {"index", get_index, NULL, "The number after the colon, or None.", NULL},
    {0}
};
static PyType_Slot device_slots[] = {
    {Py_tp_new, (void *)device_new},
    {Py_tp_dealloc, (void *)free_object},
    {Py_tp_repr, (void *)device_repr},
    {Py_tp_str, (void *)device_str},
    {Py_tp_hash, (void *)device_hash},
    {Py_tp_richcompare, (void *)device_compare},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getset},
    {Py_tp_doc,
     "Device(type, index=None)\n--\n\nA place where tensors live and are computed: Device(\"cpu\"), Device.cpu().  "
     "Device.Cpu and Device.Gpu name the processor and the best GPU (AttributeError where there is none);\n"
     "Device(\"auto\") is CUDA's first GPU, else another GPU of hardware, else the cpu."},
    {0}};
static PyType_Spec device_spec = {"chainrule.Device", sizeof(Device), 0, Py_TPFLAGS_DEFAULT, device_slots};

/* Device.Gpu: the GPU is looked for when the name is read.  AttributeError where there is none, as
 * hasattr and inspect expect. */
static PyObject *gpu_name_get(PyObject *self, PyObject *object, PyObject *type) {
    (void)self; (void)object; (void)type;
    const cr_device *dev = cr_device_find("gpu");
    if (dev) return device_object(dev);
    PyErr_SetString(PyExc_AttributeError, cr_error());
    cr_error_clear();
    return NULL;
}
static PyType_Slot gpu_name_slots[] = {
    {Py_tp_descr_get, (void *)gpu_name_get}, {Py_tp_dealloc, (void *)free_object}, {Py_tp_doc, "The best GPU."}, {0}};
static PyType_Spec gpu_name_spec = {"chainrule._GpuName", 0, 0, Py_TPFLAGS_DEFAULT, gpu_name_slots};

static bool make_device(PyObject *module) {
    if (!(device_type = add_type(module, &device_spec, NULL))) return false;
    PyObject *type = PyType_FromSpec(&gpu_name_spec), *gpu = type ? PyObject_CallNoArgs(type) : NULL,
             *cpu = device_object(cr_cpu());
    const bool made = gpu && cpu && !PyObject_SetAttrString((PyObject *)device_type, "Gpu", gpu) &&
                      !PyObject_SetAttrString((PyObject *)device_type, "Cpu", cpu) &&
                      !PyModule_AddObjectRef(module, "device", (PyObject *)device_type);
    Py_XDECREF(type);
    Py_XDECREF(gpu);
    Py_XDECREF(cpu);
    return made;
}

/* ---- Generator */
static cr_generator *generator_of(PyObject *self) { return ((Generator *)(void *)self)->g; }

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *names) {
    static char *keywords[] = {"device", NULL};
    PyObject *device = NULL;
    const cr_device *dev;
    if (!PyArg_ParseTupleAndKeywords(args, names, "|O:Generator", keywords, &device)) return NULL;
    if (device && device != Py_None && !to_device(device, &dev))
        return PyErr_Occurred() ? NULL
                                : raise_type(device, "Generator(): argument 'device' must be Device or str, not");
    Generator *self = PyObject_New(Generator, type);
    if (!self) return NULL;
    self->owned = true;
    self->dev = device && device != Py_None ? dev : cr_cpu();
    self->g = cr_generator_new(0);
    if (self->g) return (PyObject *)self;
    Py_DECREF(self);
    return raise_error();
}

static void generator_free(PyObject *self) {
    if (((Generator *)(void *)self)->owned) cr_generator_free(generator_of(self));
    free_object(self);
}

static PyObject *generator_manual_seed(PyObject *self, PyObject *seed) {
    uint64_t s;
    if (!to_seed(seed, &s)) return NULL;
    cr_generator_set(generator_of(self), s, 0);
    Py_INCREF(self);
    return self;
}

static PyObject *generator_seed(PyObject *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(cr_generator_seed(generator_of(self)));
}
static PyObject *generator_device(PyObject *self, void *unused) {
    (void)unused;
    return device_object(((Generator *)(void *)self)->dev);
}

static PyObject *generator_initial_seed(PyObject *self, PyObject *unused) {
    (void)unused;
    uint64_t seed, counter;
    cr_generator_get(generator_of(self), &seed, &counter);
    return PyLong_FromUnsignedLongLong(seed);
}

static PyObject *generator_get_state(PyObject *self, PyObject *unused) {
    (void)unused;
    uint64_t state[2];
    cr_generator_get(generator_of(self), &state[0], &state[1]);
    cr_tensor *bytes = cr_from(state, CR_LIST(sizeof state), CR_U8, cr_cpu());
    return wrap(bytes);
}

static PyObject *generator_set_state(PyObject *self, PyObject *given) {
    uint64_t state[2];
    if (!is_tensor(given)) return raise_type(given, "set_state(): argument 'new_state' must be Tensor, not");
    if (cr_dtype_of(handle(given)) != CR_U8 || cr_numel(handle(given)) != sizeof state) {
        PyErr_Format(PyExc_ValueError, "set_state(): a state is %zu uint8 elements, as get_state() gives",
                     sizeof state);
        return NULL;
    }
    if (cr_read(handle(given), CR_U8, state, sizeof state) != CR_OK) return raise_error();
    cr_generator_set(generator_of(self), state[0], state[1]);
    Py_INCREF(self);
    return self;
}

/* For pickle and copy: a generator of its own that goes on from the same place. */
static PyObject *generator_reduce(PyObject *self, PyObject *unused) {
    PyObject *state = generator_get_state(self, unused);
    return state ? Py_BuildValue("O(N)N", generator_type, device_object(((Generator *)(void *)self)->dev), state)
                 : NULL;
}

static PyObject *generator_clone(PyObject *self, PyObject *unused) {
    (void)unused;
    uint64_t seed, counter;
    PyObject *copy = PyObject_CallNoArgs((PyObject *)generator_type);
    if (!copy) return NULL;
    cr_generator_get(generator_of(self), &seed, &counter);
    cr_generator_set(generator_of(copy), seed, counter);
    ((Generator *)(void *)copy)->dev = ((Generator *)(void *)self)->dev;
    return copy;
}

static PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O,
     "manual_seed($self, seed, /)\n--\n\nStarts the stream of this seed; returns the generator."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "initial_seed($self, /)\n--\n\nThe seed that was set last."},
    {"seed", generator_seed, METH_NOARGS, "seed($self, /)\n--\n\nStarts an unpredictable stream; returns its seed."},
    {"clone_state", generator_clone, METH_NOARGS,
     "clone_state($self, /)\n--\n\nA generator of its own that goes on from the same place."},
    {"get_state", generator_get_state, METH_NOARGS,
     "get_state($self, /)\n--\n\nSeed and position as a uint8 tensor of 16 elements."},
    {"set_state", generator_set_state, METH_O,
     "set_state($self, new_state, /)\n--\n\nContinues where get_state() was taken; returns the generator."},
    {"__reduce__", generator_reduce, METH_NOARGS, NULL},
    {"__setstate__", generator_set_state, METH_O, NULL},
    {0}};
static PyGetSetDef generator_getset[] = {
    {"device", generator_device, NULL, "What it was made for; the numbers are the same for all.", NULL}, {0}};
static PyType_Slot generator_slots[] = {{Py_tp_new, (void *)generator_new},
                                        {Py_tp_dealloc, (void *)generator_free},
                                        {Py_tp_methods, generator_methods},
                                        {Py_tp_getset, generator_getset},
                                        {Py_tp_doc, "Generator(device=None)\n--\n\nA stream of random numbers (Philox "
                                                    "4x32-10): the same seed gives the same bits on every device."},
                                        {0}};
static PyType_Spec generator_spec = {"chainrule.Generator", sizeof(Generator), 0, Py_TPFLAGS_DEFAULT, generator_slots};

static bool make_default_generator(PyObject *module) {
    Generator *g = PyObject_New(Generator, generator_type);
    if (!g) return false;
    g->owned = false;
    g->dev = cr_cpu();
    g->g = cr_default_generator();
    int added = PyModule_AddObjectRef(module, "default_generator", (PyObject *)g);
    Py_DECREF(g);
    return added == 0;
}

bool make_types(PyObject *module) {
    return (size_type = add_type(module, &size_spec, (PyObject *)&PyTuple_Type)) && make_dtypes(module) &&
           make_device(module) && (cpu_object = device_object(cr_cpu())) &&
           (generator_type = add_type(module, &generator_spec, NULL)) && make_default_generator(module);
}
