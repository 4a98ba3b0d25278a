/* dlpack.c - tensors to and from other libraries by DLPack, version 1 and the form before it.
 *
 * The exchange is a capsule around a struct, named "dltensor_versioned" or "dltensor".  Who takes the
 * memory renames the capsule to "used_..." and calls the struct's deleter when done; an unused capsule
 * calls it itself.  The structs are those of the public specification (dmlc.github.io/dlpack), under
 * our names. */
#include "extension.h"

#include <stdlib.h>

enum { DL_CPU = 1 };                                 /* device types */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };                  /* kinds of element */
enum { DL_READ_ONLY = 1, DL_IS_COPIED = 2 };         /* flags */

typedef struct dl_device { int32_t type, id; } dl_device;
typedef struct dl_dtype { uint8_t code, bits; uint16_t lanes; } dl_dtype;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides;                        /* in elements; strides NULL: dense */
    uint64_t byte_offset;                            /* of the first element from data */
} dl_tensor;
typedef struct dl_legacy {
    dl_tensor tensor;
    void *ctx;
    void (*deleter)(struct dl_legacy *);
} dl_legacy;
typedef struct dl_versioned {
    uint32_t major, minor;
    void *ctx;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static const char legacy_name[] = "dltensor", versioned_name[] = "dltensor_versioned";

/* ---- out */
typedef struct exported {
    /* first: the deleter is given its address */
    union { dl_legacy legacy; dl_versioned versioned; };
    cr_tensor *t;
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS];
} exported;

/* Called by the consumer, on any thread, with or without the GIL. */
static void drop_exported(void *e) {
    cr_drop(((exported *)e)->t);
    free(e);
}
static void delete_legacy(dl_legacy *m) { drop_exported(m); }
static void delete_versioned(dl_versioned *m) { drop_exported(m); }

static void destroy_capsule(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, legacy_name)) drop_exported(PyCapsule_GetPointer(capsule, legacy_name));
    else if (PyCapsule_IsValid(capsule, versioned_name)) drop_exported(PyCapsule_GetPointer(capsule, versioned_name));
}

static dl_dtype dtype_out(cr_dtype dt) {
    const uint8_t bits = (uint8_t)(8 * cr_dtype_size(dt));
    const uint8_t code = dt == CR_BOOL           ? DL_BOOL
                         : dt == CR_BF16         ? DL_BFLOAT
                         : cr_dtype_is_float(dt) ? DL_FLOAT
                         : dt >= CR_I8           ? DL_INT
                                                 : DL_UINT;
    return (dl_dtype){code, bits, 1};
}

/* A capsule over t; takes the reference. */
static PyObject *capsule_of(cr_tensor *t, bool versioned, bool is_copy) {
    void *data = cr_data(t);
    if (!data && cr_numel(t)) { cr_drop(t); return raise_error(), NULL; }
    exported *e = calloc(1, sizeof *e);
    if (!e) { cr_drop(t); return PyErr_NoMemory(); }
    e->t = t;
    for (int i = 0; i < cr_ndim(t); i++) {
        e->shape[i] = cr_shape(t)[i];
        e->strides[i] = cr_strides(t)[i];
    }
    const dl_tensor tensor = {.data = data,
                              .device = {DL_CPU, 0},
                              .ndim = cr_ndim(t),
                              .dtype = dtype_out(cr_dtype_of(t)),
                              .shape = e->shape,
                              .strides = e->strides};
    if (versioned)
        e->versioned = (dl_versioned){
            .major = 1, .deleter = delete_versioned, .flags = is_copy ? DL_IS_COPIED : 0, .tensor = tensor};
    else e->legacy = (dl_legacy){.tensor = tensor, .deleter = delete_legacy};
    PyObject *capsule = PyCapsule_New(e, versioned ? versioned_name : legacy_name, destroy_capsule);
    if (!capsule) drop_exported(e);
    return capsule;
}

static bool on_host(const cr_tensor *t) {
    if (cr_device_of(t) == cr_cpu() || cr_device_of(t) == cr_ref()) return true;
    PyErr_Format(PyExc_BufferError, "__dlpack__: a Tensor on %s cannot be exported yet: use cpu()",
                 cr_device_name(cr_device_of(t)));
    return false;
}

static bool two_ints(PyObject *o, const char *what, int64_t v[2]) {
    if (PyTuple_Check(o) && PyTuple_Size(o) == 2)
        return to_int64(PyTuple_GetItem(o, 0), &v[0]) && to_int64(PyTuple_GetItem(o, 1), &v[1]);
    raise_type(o, "__dlpack__(): %s must be a tuple of two ints, not", what);
    return false;
}

/* (input) */
PyObject *api___dlpack_device__(const arg *a) { return on_host(a[0].t) ? Py_BuildValue("(ii)", DL_CPU, 0) : NULL; }

/* (input, stream, max_version, dl_device, copy) */
PyObject *api___dlpack__(const arg *a) {
    int64_t version[2] = {0}, device[2] = {DL_CPU, 0};
    if (cr_requires_grad(a[0].t)) {
        PyErr_SetString(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
        return NULL;
    }
    if (!on_host(a[0].t)) return NULL;
    if (a[1].o != Py_None) {
        PyErr_SetString(PyExc_ValueError, "__dlpack__(): stream must be None on cpu");
        return NULL;
    }
    if (a[2].o != Py_None && !two_ints(a[2].o, "max_version", version)) return NULL;
    if (a[3].o != Py_None && !two_ints(a[3].o, "dl_device", device)) return NULL;
    if (device[0] != DL_CPU || device[1]) {
        PyErr_Format(PyExc_BufferError, "__dlpack__(): cannot export to device (%lld, %lld): the Tensor is on (1, 0)",
                     (long long)device[0], (long long)device[1]);
        return NULL;
    }
    bool backwards = false;                         /* strides below 0 are not for every library: a copy has none */
    for (int i = 0; i < cr_ndim(a[0].t); i++) backwards |= cr_strides(a[0].t)[i] < 0;
    if (backwards && a[4].given && !a[4].b) {
        PyErr_SetString(PyExc_BufferError,
                        "__dlpack__(): a Tensor with negative strides cannot be exported without a copy");
        return NULL;
    }
    if (!a[4].b && !backwards) return capsule_of(cr_retain(a[0].t), version[0] >= 1, false);
    cr_tensor *copy;
    WITHOUT_GIL(copy = cr_clone(a[0].t));
    return copy ? capsule_of(cr_unscope(copy), version[0] >= 1, true) : raise_error();
}

/* ---- in */
static void delete_theirs(void *m) { if (((dl_legacy *)m)->deleter) ((dl_legacy *)m)->deleter(m); }
static void delete_theirs_versioned(void *m) { if (((dl_versioned *)m)->deleter) ((dl_versioned *)m)->deleter(m); }

/* After interpreter shutdown there is no GIL to take; deleters that need Python look for that themselves. */
static void done_with(void (*release)(void *), void *m) {
    if (Py_IsInitialized()) release_foreign(release, m);
    else release(m);
}
static void done_legacy(void *m) { done_with(delete_theirs, m); }
static void done_versioned(void *m) { done_with(delete_theirs_versioned, m); }

static bool dtype_in(dl_dtype d, cr_dtype *dt) {
    for (int i = 0; i < CR_DTYPES; i++) {
        const dl_dtype known = dtype_out((cr_dtype)i);
        *dt = (cr_dtype)i;
        if (d.code == known.code && d.bits == known.bits && d.lanes == 1) return true;
    }
    PyErr_Format(PyExc_BufferError, "from_dlpack(): no dtype for elements of kind %d, %d bits, %d lanes", d.code,
                 d.bits, d.lanes);
    return false;
}

static bool read_tensor(const dl_tensor *x, foreign *f) {
    if (x->device.type != DL_CPU) {
        PyErr_Format(PyExc_BufferError, "from_dlpack(): memory of device type %d: bring it to the host first",
                     (int)x->device.type);
        return false;
    }
    if (!dtype_in(x->dtype, &f->dt)) return false;
    if (x->ndim < 0 || x->ndim > CR_MAX_DIMS || (x->ndim && !x->shape)) {
        PyErr_Format(PyExc_BufferError, "from_dlpack(): %d dimensions, at most %d", (int)x->ndim, CR_MAX_DIMS);
        return false;
    }
    int64_t dense = (int64_t)cr_dtype_size(f->dt);
    f->ndim = x->ndim;
    f->data = (char *)x->data + x->byte_offset;
    for (int i = x->ndim - 1; i >= 0; i--) {
        f->shape[i] = x->shape[i];
        bool bad = x->shape[i] < 0;
        if (x->strides) bad |= __builtin_mul_overflow(x->strides[i], (int64_t)cr_dtype_size(f->dt), &f->strides[i]);
        else f->strides[i] = dense;
        if (x->shape[i] > 0) bad |= __builtin_mul_overflow(dense, x->shape[i], &dense);
        if (bad) {
            PyErr_Format(PyExc_BufferError, "from_dlpack(): size %lld of axis %d", (long long)x->shape[i], i);
            return false;
        }
    }
    return true;
}

/* Reads the capsule's struct and takes it over; on failure the capsule keeps it. */
static bool open_capsule(PyObject *capsule, foreign *f) {
    *f = (foreign){.refusal = PyExc_BufferError};
    if (PyCapsule_IsValid(capsule, versioned_name)) {
        dl_versioned *m = PyCapsule_GetPointer(capsule, versioned_name);
        if (m->major != 1) {
            PyErr_Format(PyExc_BufferError, "from_dlpack(): version %u.%u, 1 is known", m->major, m->minor);
            return false;
        }
        if (!read_tensor(&m->tensor, f)) return false;
        f->read_only = m->flags & DL_READ_ONLY;
        f->is_copy = m->flags & DL_IS_COPIED;
        f->done = done_versioned;
        f->ctx = m;
        return PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0;
    }
    if (PyCapsule_IsValid(capsule, legacy_name)) {
        dl_legacy *m = PyCapsule_GetPointer(capsule, legacy_name);
        if (!read_tensor(&m->tensor, f)) return false;
        f->done = done_legacy;
        f->ctx = m;
        return PyCapsule_SetName(capsule, "used_dltensor") == 0;
    }
    PyErr_SetString(PyExc_RuntimeError, "from_dlpack(): not a DLPack capsule, or one that was consumed already");
    return false;
}

/* Asks for version 1; exporters from before it do not know the argument. */
static PyObject *ask(PyObject *o) {
    PyObject *f = PyObject_GetAttrString(o, "__dlpack__"), *none = f ? PyTuple_New(0) : NULL,
             *names = none ? Py_BuildValue("{s:(ii)}", "max_version", 1, 0) : NULL;
    PyObject *capsule = names ? PyObject_Call(f, none, names) : NULL;
    if (names && !capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(f);
    }
    Py_XDECREF(f);
    Py_XDECREF(none);
    Py_XDECREF(names);
    return capsule;
}

static bool check_device(PyObject *o) {
    PyObject *device = PyObject_CallMethod(o, "__dlpack_device__", NULL);
    int64_t v[2];
    bool ok = device && two_ints(device, "__dlpack_device__()'s result", v);
    if (ok && v[0] != DL_CPU) {
        PyErr_Format(PyExc_BufferError, "from_dlpack(): memory of device type %lld: bring it to the host first",
                     (long long)v[0]);
        ok = false;
    }
    Py_XDECREF(device);
    return ok;
}

bool open_dlpack(PyObject *o, foreign *f) {
    if (PyCapsule_CheckExact(o)) return open_capsule(o, f);
    if (!check_device(o)) return false;
    PyObject *capsule = ask(o);
    bool ok = capsule && PyCapsule_CheckExact(capsule) && open_capsule(capsule, f);
    if (capsule && !ok && !PyErr_Occurred()) raise_type(capsule, "__dlpack__() must return a capsule, not");
    Py_XDECREF(capsule);
    return ok;
}

/* (ext_tensor, device, copy) */
PyObject *api_from_dlpack(const arg *a) {
    foreign f;
    if (!PyCapsule_CheckExact(a[0].o) && !PyObject_HasAttrString(a[0].o, "__dlpack__"))
        return raise_type(a[0].o, "from_dlpack(): expected an object with __dlpack__, got");
    if (!open_dlpack(a[0].o, &f)) return NULL;
    if (f.is_copy && a[2].given && !a[2].b) {
        f.done(f.ctx);
        PyErr_SetString(PyExc_BufferError, "from_dlpack(): the exporter made a copy");
        return NULL;
    }
    const copying mode = !a[2].given || (a[2].b && f.is_copy) ? COPY_IF_NEEDED : a[2].b ? COPY_ALWAYS : COPY_NEVER;
    cr_tensor *t = take_foreign(&f, mode, NULL, a[1].given ? a[1].dev : NULL);
    return t ? wrap(t) : NULL;
}
