/* interop.c - memory shared with other libraries: NumPy both ways and the buffer protocol (DLPack is in dlpack.c).
 *
 * Nothing is copied where dtype, device and layout allow.  What a tensor cannot be made over -
 * read-only memory, which it would write to; negative strides; unaligned elements - is copied, or
 * refused where the caller forbids a copy.  Another byte order is always refused.  Writes from outside
 * are not seen by the autograd's version check, as in PyTorch. */
#include "extension.h"

#include <string.h>

/* ---- from other libraries */

static int64_t numel_of(const foreign *f) {
    int64_t n = 1;
    for (int i = 0; i < f->ndim; i++) n *= f->shape[i];
    return n;
}

/* Why a tensor cannot be made over the memory; NULL: it can. */
static const char *obstacle(const foreign *f) {
    const int64_t size = (int64_t)cr_dtype_size(f->dt);
    if (!numel_of(f)) return NULL;
    if ((uintptr_t)f->data % (uintptr_t)size) return "an element is not aligned";
    for (int i = 0; i < f->ndim; i++) {
        if (f->shape[i] <= 1) continue;
        if (f->strides[i] < 0) return "a stride is negative";
        if (f->strides[i] % size) return "a stride is not a multiple of the element's size";
    }
    return NULL;
}

/* A tensor over the memory; `done` gives it back when the last view is gone. */
static cr_tensor *share(const foreign *f) {
    int64_t strides[CR_MAX_DIMS];
    for (int i = 0; i < f->ndim; i++) strides[i] = f->strides[i] / (int64_t)cr_dtype_size(f->dt);
    cr_tensor *t = cr_borrow_strided(f->data, f->ndim, f->shape, strides, f->dt, f->done, f->ctx);
    if (!t) f->done(f->ctx);
    return t;
}

/* The elements behind `axis`, in order, to `to`; returns the end of the written elements. */
static char *pack(char *to, const foreign *f, int axis, const char *at) {
    const size_t size = cr_dtype_size(f->dt);
    if (axis == f->ndim) { memcpy(to, at, size); return to + size; }
    const int64_t n = f->shape[axis], stride = f->strides[axis];
    if (axis == f->ndim - 1 && stride == (int64_t)size) {
        memcpy(to, at, (size_t)n * size);
        return to + (size_t)n * size;
    }
    for (int64_t i = 0; i < n; i++) to = pack(to, f, axis + 1, at + i * stride);
    return to;
}

static cr_tensor *copied(const foreign *f) {
    cr_tensor *t = cr_empty(f->ndim, f->shape, f->dt, cr_cpu());
    if (t && cr_numel(t)) WITHOUT_GIL(pack(cr_data(t), f, 0, f->data));
    f->done(f->ctx);
    return t;
}

cr_tensor *take_foreign(foreign *f, copying mode, const cr_dtype *dt, const cr_device *dev) {
    const bool changes = (dt && *dt != f->dt) || (dev && dev != cr_cpu());      /* so that there is a copy anyway */
    const char *why = obstacle(f);
    if (mode == COPY_NEVER && (why || changes || f->read_only)) {
        PyErr_Format(f->refusal, "cannot share the memory without a copy: %s",
                     why       ? why
                     : changes ? "another dtype or device is asked for"
                               : "it is read-only");
        f->done(f->ctx);
        return NULL;
    }
    const bool must_copy = why || !numel_of(f) || (!changes && (f->read_only || mode == COPY_ALWAYS));
    cr_tensor *t = must_copy ? copied(f) : share(f);
    if (t && changes) {
        cr_tensor *moved;
        WITHOUT_GIL(moved = cr_to(t, dt ? *dt : f->dt, dev ? dev : cr_cpu()));
        cr_release(t);
        t = moved;
    }
    if (!t) raise_error();
    return t;
}

/* Others' code that takes memory back may run Python, may be called by any thread that drops the last
 * view, and at any moment: an exception that is under way stays. */
void release_foreign(void (*release)(void *), void *ctx) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    release(ctx);
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
}

/* ---- buffers of other objects */

static void release_buffer(void *b) {
    PyBuffer_Release(b);
    PyMem_Free(b);
}

/* At interpreter shutdown the exporter is gone or going: it keeps its memory. */
static void give_back(void *b) { if (Py_IsInitialized()) release_foreign(release_buffer, b); }

/* The struct module's letters.  The size comes from the exporter, for `l` has two, and ctypes writes
 * the native one where the standard one is meant. */
static bool dtype_of_format(const char *format, Py_ssize_t size, cr_dtype *dt) {
    static const cr_dtype kinds[][4] = {/* by size: 1, 2, 4, 8 */
                                        {CR_I8, CR_I16, CR_I32, CR_I64},
                                        {CR_U8, CR_U16, CR_U32, CR_U64},
                                        {CR_DTYPES, CR_F16, CR_F32, CR_F64},
                                        {CR_BOOL, CR_DTYPES, CR_DTYPES, CR_DTYPES}};
    static const char *const letters[] = {"bhilqn", "BHILQNc", "efd", "?"};
    if (*format == '@' || *format == '=' || *format == '<' || *format == '>' || *format == '!') format++;
    if (!format[0] || format[1] || (size != 1 && size != 2 && size != 4 && size != 8)) return false;
    for (int k = 0; k < 4; k++)
        if (strchr(letters[k], *format)) {
            *dt = kinds[k][size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3];
            return *dt != CR_DTYPES;
        }
    return false;
}

static bool is_swapped(const char *format, Py_ssize_t size) {
    const int one = 1;
    const bool little = *(const char *)&one;
    return size > 1 && (*format == '<' ? !little : (*format == '>' || *format == '!') && little);
}

static bool unsuitable(PyObject *o, const char *format) {
    PyObject *name = PyType_GetName(Py_TYPE(o));
    if (name)
        PyErr_Format(
            PyExc_TypeError,
            "can't convert a %U with elements of format '%s': bool, ints and floats of 8 to 64 bits are supported",
            name, format);
    Py_XDECREF(name);
    return false;
}

/* The layout of an open buffer; an exporter is not believed. */
static bool read_layout(PyObject *o, const Py_buffer *b, foreign *f) {
    const char *format = b->format ? b->format : "B";
    if (!dtype_of_format(format, b->itemsize, &f->dt)) return unsuitable(o, format);
    if (is_swapped(format, b->itemsize)) {
        PyErr_SetString(PyExc_ValueError, "the byte order is not this machine's: convert it first, as with "
                                          "array.astype(array.dtype.newbyteorder('='))");
        return false;
    }
    if (b->ndim < 0 || b->ndim > CR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%d dimensions, at most %d", b->ndim, CR_MAX_DIMS);
        return false;
    }
    Py_ssize_t dense = b->itemsize;                   /* bytes that the shape needs */
    bool bad = false;
    f->ndim = b->ndim;
    for (int i = b->ndim - 1; i >= 0; i--) {
        f->shape[i] = b->shape ? b->shape[i] : b->len / b->itemsize;
        f->strides[i] = b->strides ? b->strides[i] : dense;
        bad |= f->shape[i] < 0 || (b->suboffsets && b->suboffsets[i] >= 0) ||
               __builtin_mul_overflow(dense, f->shape[i], &dense);
    }
    if (!bad && dense == b->len) return true;
    PyErr_SetString(PyExc_BufferError, "a buffer whose sizes do not fit together, or a buffer of pointers");
    return false;
}

/* NumPy has arrays that are no buffers (dates): their ValueError is about the dtype. */
static void no_buffer(PyObject *o) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError)) return;
    PyObject *type, *value, *trace, *name = PyType_GetName(Py_TYPE(o));
    PyErr_Fetch(&type, &value, &trace);
    if (name) PyErr_Format(PyExc_TypeError, "can't read the memory of a %U: %S", name, value ? value : Py_None);
    Py_XDECREF(name);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

static bool open_buffer(PyObject *o, foreign *f) {
    Py_buffer *b = PyMem_Calloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (PyObject_GetBuffer(o, b, PyBUF_RECORDS_RO) < 0) {
        no_buffer(o);
        PyMem_Free(b);
        return false;
    }
    *f = (foreign){.data = b->buf, .read_only = b->readonly, .done = give_back, .ctx = b, .refusal = PyExc_ValueError};
    if (read_layout(o, b, f)) return true;
    give_back(b);
    return false;
}

bool scalar_of_array(PyObject *o, number *x, cr_dtype *dt) {
    Py_buffer b;
    *x = (number){0};
    if (PyObject_GetBuffer(o, &b, PyBUF_RECORDS_RO) < 0) { PyErr_Clear(); return false; }
    const bool scalar = b.ndim == 0 && b.format && dtype_of_format(b.format, b.itemsize, dt);
    PyBuffer_Release(&b);
    if (!scalar) return false;
    x->integral = !cr_dtype_is_float(*dt);
    x->boolean = *dt == CR_BOOL;
    PyObject *value = x->integral ? PyNumber_Long(o) : PyNumber_Float(o);
    if (!value) return false;
    if (x->integral) x->i = PyLong_AsLongLong(value);
    x->d = PyFloat_AsDouble(value);
    Py_DECREF(value);
    return !PyErr_Occurred();
}

/* numpy.ndarray, borrowed; NULL before NumPy is imported, when no array exists. */
bool is_ndarray(PyObject *o) {
    static PyObject *type;
    if (!type) {
        PyObject *name = PyUnicode_FromString("numpy"), *numpy = name ? PyImport_GetModule(name) : NULL;
        type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
        Py_XDECREF(name);
        Py_XDECREF(numpy);
        if (!type) { PyErr_Clear(); return false; }
    }
    return PyObject_TypeCheck(o, (PyTypeObject *)(void *)type);
}

/* Opens an object that holds its numbers in memory.  0: o does not, -1: a failure. */
static int open_array(PyObject *o, foreign *f) {
    if (PyList_Check(o) || PyTuple_Check(o) || PyLong_Check(o) || PyUnicode_Check(o)) return 0;
    if (PyObject_CheckBuffer(o)) return open_buffer(o, f) ? 1 : -1;
    if (PyObject_HasAttrString(o, "__dlpack__")) return open_dlpack(o, f) ? 1 : -1;
    if (!PyObject_HasAttrString(o, "__array__")) return 0;
    PyObject *array = PyObject_CallMethod(o, "__array__", NULL);
    int opened = !array ? -1 : open_buffer(array, f) ? 1 : -1;
    Py_XDECREF(array);                                /* the buffer holds it */
    return opened;
}

bool from_array(PyObject *o, copying mode, const cr_dtype *dt, const cr_device *dev, cr_tensor **t) {
    foreign f;
    int opened = open_array(o, &f);
    *t = opened > 0 ? take_foreign(&f, mode, dt, dev) : NULL;
    return opened != 0;
}

PyObject *api_from_numpy(const arg *a) {
    foreign f;
    if (!is_ndarray(a[0].o)) return raise_type(a[0].o, "expected np.ndarray, got");
    if (!open_buffer(a[0].o, &f)) return NULL;
    const char *why = obstacle(&f);
    if (!why) {
        cr_tensor *t = take_foreign(&f, COPY_IF_NEEDED, NULL, NULL);
        return t ? wrap(t) : NULL;
    }
    f.done(f.ctx);
    PyErr_Format(PyExc_ValueError, "cannot share the memory of the array: %s (array.copy() can be shared)", why);
    return NULL;
}

static PyObject *finished(cr_tensor *t, bool requires_grad) {
    if (!t) return NULL;
    if (!requires_grad || cr_requires_grad_(t, true)) return wrap(t);
    cr_release(t);
    return raise_error();
}

/* A Tensor on the way through asarray: itself, unless something is to change. */
static PyObject *tensor_as(PyObject *o, copying mode, const arg *dtype, const arg *device, bool requires_grad) {
    cr_tensor *x = hold(o), *y;
    const cr_dtype dt = dtype->given ? dtype->dt : cr_dtype_of(x);
    const cr_device *dev = device->given ? device->dev : cr_device_of(x);
    const bool changes = dt != cr_dtype_of(x) || dev != cr_device_of(x);
    if (mode == COPY_NEVER && changes) {
        cr_drop(x);
        PyErr_SetString(PyExc_ValueError,
                        "cannot share the memory without a copy: another dtype or device is asked for");
        return NULL;
    }
    if (!changes && mode != COPY_ALWAYS && (!requires_grad || cr_requires_grad(x))) {
        cr_drop(x);
        Py_INCREF(o);
        return o;
    }
    if (changes) WITHOUT_GIL(y = cr_to(x, dt, dev));
    else if (mode == COPY_ALWAYS) WITHOUT_GIL(y = cr_clone(x));
    else y = cr_detach(x);
    cr_drop(x);
    return y ? finished(y, requires_grad && !cr_requires_grad(y)) : raise_error();
}

/* (obj, dtype, device, copy, requires_grad) */
PyObject *api_asarray(const arg *a) {
    const copying mode = !a[3].given ? COPY_IF_NEEDED : a[3].b ? COPY_ALWAYS : COPY_NEVER;
    const cr_dtype *dt = a[1].given ? &a[1].dt : NULL;
    cr_tensor *t;
    if (is_tensor(a[0].o)) return tensor_as(a[0].o, mode, &a[1], &a[2], a[4].b);
    if (!from_array(a[0].o, mode, dt, a[2].given ? a[2].dev : NULL, &t)) {
        if (PyErr_Occurred()) return NULL;
        if (mode == COPY_NEVER) {
            PyErr_SetString(PyExc_ValueError, "cannot share the memory without a copy: it is no array");
            return NULL;
        }
        t = tensor_from(a[0].o, dt, a[2].dev);
    }
    return finished(t, a[4].b);
}

PyObject *api_as_tensor(const arg *a) { return api_asarray((const arg[]){a[0], a[1], a[2], {0}, {0}}); }

/* ---- to other libraries: the buffer protocol */
static const char *format_of(cr_dtype dt) {           /* NULL: the struct module has no letter for it */
    static const char *const formats[CR_DTYPES] = {
        [CR_BOOL] = "?",
        [CR_U8] = "B",
        [CR_U16] = "H",
        [CR_U32] = "I",
        [CR_U64] = sizeof(long) == 8 ? "L" : "Q",
        [CR_I8] = "b",
        [CR_I16] = "h",
        [CR_I32] = "i",
        [CR_I64] = sizeof(long) == 8 ? "l" : "q",
        [CR_F16] = "e",
        [CR_F32] = "f",
        [CR_F64] = "d",
    };
    return formats[dt];
}

/* The contents of an open buffer.  The object may come to stand for another handle: this memory stays. */
typedef struct lent { cr_tensor *t; Py_ssize_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS]; } lent;

static int refuse(Py_buffer *view, const char *why) {
    view->obj = NULL;
    PyErr_SetString(PyExc_BufferError, why);
    return -1;
}

int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags) {
    static char nothing;                              /* an address for tensors without elements */
    const cr_tensor *t = handle(self);
    const char *format = format_of(cr_dtype_of(t));
    const bool read_only = cr_requires_grad(t);
    if (read_only && !cr_is_leaf(t))
        return refuse(view, "a Tensor that an op computed and that requires grad cannot be exported: use detach()");
    if (!format)
        return refuse(view, "bfloat16 has no format in the buffer protocol: use float() or view another dtype");
    if (read_only && (flags & PyBUF_WRITABLE))
        return refuse(view, "a Tensor that requires grad can only be read through a buffer: use detach()");
    char *data = cr_data(t);
    if (!data && cr_numel(t)) {
        cr_error_clear();
        return refuse(view, "the Tensor is on a device whose memory has no address here: use cpu()");
    }
    lent *l = PyMem_Malloc(sizeof *l);
    if (!l) { view->obj = NULL; PyErr_NoMemory(); return -1; }
    const int ndim = cr_ndim(t);
    const Py_ssize_t size = (Py_ssize_t)cr_dtype_size(cr_dtype_of(t));
    for (int i = 0; i < ndim; i++) {
        l->shape[i] = (Py_ssize_t)cr_shape(t)[i];
        l->strides[i] = (Py_ssize_t)cr_strides(t)[i] * size;
    }
    *view = (Py_buffer){
        .buf = data ? data : &nothing,
        .obj = self,
        .len = (Py_ssize_t)cr_numel(t) * size,
        .itemsize = size,
        .readonly = read_only,
        .ndim = ndim,
        .format = (char *)(uintptr_t)format,
        .shape = l->shape,
        .strides = l->strides,
        .internal = l,
    };
    const bool wants_c = (flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_STRIDES) != PyBUF_STRIDES;
    const bool wants_f = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS,
               wants_any = (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS;
    if ((wants_c && !PyBuffer_IsContiguous(view, 'C')) || (wants_f && !PyBuffer_IsContiguous(view, 'F')) ||
        (wants_any && !PyBuffer_IsContiguous(view, 'A'))) {
        PyMem_Free(l);
        return refuse(view, "the Tensor is not contiguous: use contiguous()");
    }
    if (!(flags & PyBUF_FORMAT)) view->format = NULL;
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) view->strides = NULL;
    if (!(flags & PyBUF_ND)) view->shape = NULL;
    l->t = cr_retain(t);
    Py_INCREF(self);
    return 0;
}

void tensor_release_buffer(PyObject *self, Py_buffer *view) {
    (void)self;
    lent *l = view->internal;
    cr_drop(l->t);
    PyMem_Free(l);
}

/* ---- to NumPy */
static PyObject *call_numpy(const char *function, PyObject *args, PyObject *names) {
    PyObject *numpy = PyImport_ImportModule("numpy"), *f = numpy ? PyObject_GetAttrString(numpy, function) : NULL;
    PyObject *result = f && args ? PyObject_Call(f, args, names) : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(f);
    Py_XDECREF(args);
    Py_XDECREF(names);
    return result;
}

/* An array over the tensor's memory.  For `force` the tensor was already brought to where that works. */
static PyObject *ndarray_of(PyObject *self) {
    const cr_tensor *t = handle(self);
    if (cr_requires_grad(t) && !((Tensor *)(void *)self)->from_data) {
        PyErr_SetString(PyExc_RuntimeError,
                        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
        return NULL;
    }
    if (!format_of(cr_dtype_of(t))) {
        PyErr_Format(PyExc_TypeError, "NumPy has no %s: use float()", cr_dtype_name(cr_dtype_of(t)));
        return NULL;
    }
    if (cr_numel(t) && !cr_data(t)) {
        cr_error_clear();
        PyErr_Format(PyExc_TypeError,
                     "can't convert a Tensor on %s to numpy. Use Tensor.cpu() to copy it to host memory first.",
                     cr_device_name(cr_device_of(t)));
        return NULL;
    }
    PyObject *view = PyMemoryView_FromObject(self);
    return view ? call_numpy("asarray", Py_BuildValue("(N)", view), NULL) : NULL;
}

/* (input, force) */
PyObject *api_numpy(const arg *a) {
    if (!a[1].b) return ndarray_of(a[0].o);
    cr_tensor *x = cr_detach(handle(a[0].o)), *here;
    WITHOUT_GIL(here = cr_to(x, cr_dtype_of(x), cr_cpu()));
    cr_release(x);
    PyObject *self = wrap(here), *array = self ? ndarray_of(self) : NULL;
    Py_XDECREF(self);
    return array;
}

/* (input, dtype, copy): NumPy handles copy None, True and False, in each of its versions. */
PyObject *api___array__(const arg *a) {
    PyObject *array = ndarray_of(a[0].o);
    if (!array || (a[1].o == Py_None && a[2].o == Py_None)) return array;
    return call_numpy("array", Py_BuildValue("(N)", array),
                      Py_BuildValue("{s:O,s:O}", "dtype", a[1].o, "copy", a[2].o));
}
