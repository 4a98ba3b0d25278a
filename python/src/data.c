/* data.c - copies of Python data as tensors: numbers, nested sequences of them, tensors, arrays (which
 * interop.c opens). */
#include "extension.h"

#include <math.h>
#include <string.h>

/* The leaves of a nested sequence in order.  Each level is copied into a tuple before it is walked, so
 * that code run by an element (__index__, __float__, __len__) cannot change the data that is read;
 * recursion ends at CR_MAX_DIMS levels. */
typedef struct flat {
    union cell { double d; int64_t i; } *cells;     /* all ints until the first float */
    size_t count, room;
    bool integral;                                  /* so far: no float */
    bool huge, negative, to_u64;                    /* an int from 2^63 on, or below 0, was among them; the result is
                                                     * uint64, which keeps all bits */
    cr_dtype dt;                                    /* the dtype the numbers promote to: float32, int64, bool, or a
                                                     * tensor's own */
    int ndim;                                       /* known from the first leaf on, else -1 */
    int64_t shape[CR_MAX_DIMS];                     /* -1: not seen yet */
} flat;

static bool push_number(flat *f, const number *x, cr_dtype dt) {
    if (f->count == f->room) {
        size_t room = f->room ? 2 * f->room : 16;
        void *more = PyMem_Realloc(f->cells, room * sizeof *f->cells);
        if (!more) return PyErr_NoMemory();
        f->cells = more;
        f->room = room;
    }
    const bool as_float = !x->integral || (x->huge && !f->to_u64);
    f->huge |= x->huge;
    f->negative |= x->integral && !x->huge && x->i < 0;
    if (as_float && f->integral) {
        for (size_t i = 0; i < f->count; i++) f->cells[i].d = (double)f->cells[i].i;
        f->integral = false;
    }
    f->dt = f->count ? cr_promote(f->dt, dt) : dt;
    if (f->integral) f->cells[f->count++].i = x->i;
    else f->cells[f->count++].d = x->d;
    return f->count % (1 << 16) || PyErr_CheckSignals() == 0;
}

static bool ragged(int depth) {
    PyErr_Format(PyExc_ValueError,
                 "the nested sequence is ragged: at depth %d some elements are numbers and some are sequences", depth);
    return false;
}

static bool walk(flat *f, PyObject *o, int depth);

static bool walk_items(flat *f, PyObject *o, int depth) {
    if (depth == CR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "more than %d levels of nesting", CR_MAX_DIMS);
        return false;
    }
    if (f->ndim >= 0 && depth >= f->ndim) return ragged(depth);
    PyObject *items = PySequence_Tuple(o);
    if (!items) return false;
    Py_ssize_t n = PyTuple_Size(items);
    bool ok = true;
    if (f->shape[depth] < 0) f->shape[depth] = n;
    else if (f->shape[depth] != n) {
        PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                     (long long)f->shape[depth], depth, n);
        ok = false;
    }
    if (ok && n == 0 && f->ndim < 0) f->ndim = depth + 1;
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = walk(f, PyTuple_GetItem(items, i), depth + 1);
    Py_DECREF(items);
    return ok;
}

static bool walk(flat *f, PyObject *o, int depth) {
    number x;
    PyObject *value = NULL;
    const bool t = is_tensor(o);                    /* a number, whatever its axes */
    if (t && cr_numel(handle(o)) != 1) {
        PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars");
        return false;
    }
    const cr_dtype its = t ? cr_dtype_of(handle(o)) : CR_F32;
    if (t) {
        value = PyObject_CallMethod(o, "item", NULL);
        if (!value) return false;
        o = value;
    }
    cr_dtype dt;
    /* of NumPy: it has a dtype */
    const bool scalar = !t && PyObject_CheckBuffer(o) && scalar_of_array(o, &x, &dt);
    bool ok = scalar || (!PyErr_Occurred() && to_number(o, &x));
    if (ok) {
        if (f->ndim < 0) f->ndim = depth;
        ok = f->ndim == depth ? push_number(f, &x, t ? its : scalar ? dt : dtype_of(&x)) : ragged(depth);
    } else if (!PyErr_Occurred()) {
        if (PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) || !PySequence_Check(o))
            raise_type(o, "a tensor is made of numbers and sequences of them, not of");
        else ok = walk_items(f, o, depth);
    }
    Py_XDECREF(value);
    return ok;
}

static cr_tensor *from_tensor(const cr_tensor *x, const cr_dtype *dt, const cr_device *dev) {
    cr_tensor *y;
    Py_BEGIN_ALLOW_THREADS
    bool mode = cr_set_grad_enabled(false);
    cr_scope_begin();
    y = cr_clone(cr_to(x, dt ? *dt : cr_dtype_of(x), dev));
    if (y) cr_keep(y);
    cr_scope_end();
    cr_set_grad_enabled(mode);
    Py_END_ALLOW_THREADS
    if (!y) raise_error();
    return y;
}

static cr_tensor *from_cells(const flat *f, cr_dtype dt, const cr_device *dev) {
    cr_tensor *t;
    Py_BEGIN_ALLOW_THREADS
    cr_dtype held = f->integral ? CR_I64 : CR_F64;
    t = cr_from(f->cells, f->ndim, f->shape, held, held == dt ? dev : cr_cpu());
    if (t && held != dt) {
        cr_tensor *values = t;
        t = cr_to(values, dt, dev);
        cr_release(values);
    }
    Py_END_ALLOW_THREADS
    if (!t) raise_error();
    return t;
}

/* Do all numbers fit an integer dtype?  PyTorch's rule: unsigned ones take negative ints of their
 * width, which wrap, but no negative floats. */
static bool fits(const flat *f, cr_dtype to) {
    const int bits = 8 * (int)cr_dtype_size(to);
    const bool is_signed = to == CR_I8 || to == CR_I16 || to == CR_I32 || to == CR_I64;
    if (to == CR_BOOL || cr_dtype_is_float(to)) return true;
    if (f->huge && to != CR_U64)
        return PyErr_Format(PyExc_OverflowError, "an int from 2^63 on fits uint64 only, not %s", cr_dtype_name(to)),
               false;
    if (f->negative && to == CR_U64)
        return PyErr_SetString(PyExc_OverflowError, "a negative int does not fit uint64"), false;
    if (f->integral && bits == 64) return true;
    const double most = ldexp(1, is_signed ? bits - 1 : bits), least = is_signed ? -most : f->integral ? 1 - most : 0;
    for (size_t i = 0; i < f->count; i++) {
        const double v = f->integral ? (double)f->cells[i].i : f->cells[i].d;
        if (v >= least && (bits < 64 ? v <= most - 1 : v < most)) continue;
        PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow", cr_dtype_name(to));
        return false;
    }
    return true;
}

cr_tensor *tensor_from(PyObject *data, const cr_dtype *dt, const cr_device *dev) {
    cr_tensor *t = is_tensor(data) ? hold(data) : NULL;
    if (t) {
        cr_tensor *copy = from_tensor(t, dt, dev);
        cr_drop(t);
        return copy;
    }
    /* bytes: text more often than numbers; asarray takes them */
    if (!PyBytes_Check(data) && from_array(data, COPY_ALWAYS, dt, dev, &t)) return t;
    flat f = {.integral = true,
              .to_u64 = dt && *dt == CR_U64,
              .dt = cr_default_dtype(),
              .ndim = -1,
              .shape = {-1, -1, -1, -1, -1, -1, -1, -1}};
    const bool read = walk(&f, data, 0);
    const cr_dtype to = dt ? *dt : f.dt;
    if (read && fits(&f, to)) t = from_cells(&f, to, dev);
    PyMem_Free(f.cells);
    return t;
}
