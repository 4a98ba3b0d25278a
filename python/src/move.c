/* move.c - properties of a tensor, and copies of it in another dtype or on another device. */
#include "extension.h"

#include <string.h>

/* ---- look */
PyObject *api_numel(const arg *a) { return PyLong_FromLongLong(cr_numel(a[0].t)); }
PyObject *api_nelement(const arg *a) { return api_numel(a); }
PyObject *api_is_tensor(const arg *a) { return PyBool_FromLong(is_tensor(a[0].o)); }
PyObject *api_is_floating_point(const arg *a) { return PyBool_FromLong(cr_dtype_is_float(cr_dtype_of(a[0].t))); }
PyObject *api_dim(const arg *a) { return PyLong_FromLong(cr_ndim(a[0].t)); }
PyObject *api_storage_offset(const arg *a) { return PyLong_FromLongLong(cr_storage_offset(a[0].t)); }
PyObject *api_is_contiguous(const arg *a) { return PyBool_FromLong(cr_is_contiguous(a[0].t)); }
PyObject *api_element_size(const arg *a) { return PyLong_FromSize_t(cr_dtype_size(cr_dtype_of(a[0].t))); }
PyObject *api_data_ptr(const arg *a) { return PyLong_FromVoidPtr(cr_data(a[0].t)); }

static PyObject *along(const arg *a, const int64_t *values, PyObject *(*whole)(int, const int64_t *)) {
    int n = cr_ndim(a[0].t);
    if (!a[1].given) return whole(n, values);
    if (a[1].i >= -n && a[1].i < n) return PyLong_FromLongLong(values[a[1].i < 0 ? a[1].i + n : a[1].i]);
    PyErr_Format(PyExc_IndexError, "axis %lld of a tensor of %d axes", (long long)a[1].i, n);
    return NULL;
}
PyObject *api_size(const arg *a) { return along(a, cr_shape(a[0].t), size_object); }
PyObject *api_stride(const arg *a) { return along(a, cr_strides(a[0].t), int_tuple); }

/* ---- move */
static PyObject *moved(const arg *a, cr_dtype dt, const cr_device *dev, bool copy) {
    cr_tensor *x = a[0].t, *y;
    bool same = dt == cr_dtype_of(x) && dev == cr_device_of(x);
    if (same && !copy) { Py_INCREF(a[0].from); return a[0].from; }
    if (same) WITHOUT_GIL(y = cr_clone(x));
    else WITHOUT_GIL(y = cr_to(x, dt, dev));
    return wrap(y);
}

static bool one_target(PyObject *o, cr_dtype *dt, const cr_device **dev) {
    if (is_tensor(o)) { *dt = cr_dtype_of(handle(o)); *dev = cr_device_of(handle(o)); return true; }
    if (o == Py_None || PyBool_Check(o) || to_dtype(o, dt) || to_device(o, dev)) return true;
    if (!PyErr_Occurred()) raise_type(o, "to(): expected a dtype, a device or a Tensor, got");
    return false;
}

/* (input, *target, dtype, device, copy, non_blocking) */
PyObject *api_to(const arg *a) {
    cr_dtype dt = a[2].given ? a[2].dt : cr_dtype_of(a[0].t);
    const cr_device *dev = a[3].given ? a[3].dev : cr_device_of(a[0].t);
    PyObject *given = a[1].o;
    if (!PyTuple_Check(given)) { if (!one_target(given, &dt, &dev)) return NULL;
    } else
        for (Py_ssize_t i = 0; i < PyTuple_Size(given); i++)
            if (!one_target(PyTuple_GetItem(given, i), &dt, &dev)) return NULL;
    return moved(a, dt, dev, a[4].b);
}

static PyObject *to_named(const arg *a, const char *device) {
    char name[32];
    PyOS_snprintf(name, sizeof name, a[1].given ? "%s:%lld" : "%s", device, (long long)a[1].i);
    const cr_device *dev = cr_device_find(name);
    return dev ? moved(a, cr_dtype_of(a[0].t), dev, false) : raise_error();
}
PyObject *api_cpu(const arg *a) { return moved(a, cr_dtype_of(a[0].t), cr_cpu(), false); }
PyObject *api_cuda(const arg *a) {
    if (!a[1].given) return to_named(a, "cuda");
    if (strncmp(cr_device_name(a[1].dev), "cuda", 4))
        return PyErr_Format(PyExc_ValueError, "cuda(): %s is not a CUDA device", cr_device_name(a[1].dev));
    return moved(a, cr_dtype_of(a[0].t), a[1].dev, false);
}
PyObject *api_gpu(const arg *a) { return to_named(a, "gpu"); }

PyObject *api_to_device(const arg *a) {
    if (a[2].given) return PyErr_Format(PyExc_ValueError, "to_device(): no device has streams to choose from");
    return moved(a, cr_dtype_of(a[0].t), a[1].dev, false);
}
PyObject *api___array_namespace__(const arg *a) {
    PyObject *f = python_function("array_api", "_namespace");
    return f ? PyObject_CallFunction(f, "z", a[1].given ? a[1].s : NULL) : NULL;
}

static PyObject *as(const arg *a, cr_dtype dt) { return moved(a, dt, cr_device_of(a[0].t), false); }
PyObject *api_type_as(const arg *a) { return as(a, cr_dtype_of(a[1].t)); }
PyObject *api_float(const arg *a) { return as(a, CR_F32); }
PyObject *api_double(const arg *a) { return as(a, CR_F64); }
PyObject *api_half(const arg *a) { return as(a, CR_F16); }
PyObject *api_bfloat16(const arg *a) { return as(a, CR_BF16); }
PyObject *api_int(const arg *a) { return as(a, CR_I32); }
PyObject *api_long(const arg *a) { return as(a, CR_I64); }
PyObject *api_short(const arg *a) { return as(a, CR_I16); }
PyObject *api_bool(const arg *a) { return as(a, CR_BOOL); }
PyObject *api_contiguous(const arg *a) {
    if (cr_is_contiguous(a[0].t)) return Py_NewRef(a[0].from);
    cr_tensor *y;
    WITHOUT_GIL(y = cr_contiguous(a[0].t));
    return wrap(y);
}
cr_tensor *api_clone(const arg *a) { return cr_clone(a[0].t); }
cr_tensor *api_detach(const arg *a) { return cr_detach(a[0].t); }

/* ---- dtypes */
PyObject *api_promote_types(const arg *a) { return dtype_object(cr_promote(a[0].dt, a[1].dt)); }
PyObject *api_can_cast(const arg *a) { return PyBool_FromLong(cr_can_cast(a[0].dt, a[1].dt)); }
PyObject *api_result_type(const arg *a) {
    return dtype_object(cr_result_type(2, (const cr_tensor *const[]){a[0].t, a[1].t}));
}
