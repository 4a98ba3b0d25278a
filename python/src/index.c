/* index.c - x[key] and x[key] = value.  Ints, slices, None and ... are one view; index tensors, bool
 * masks and sequences that become them (lists, arrays) are then one cr_index_get or cr_index_put_ of
 * that view. */
#include "extension.h"

#include <string.h>

enum { MAX_ITEMS = 3 * CR_MAX_DIMS };               /* each axis, as many None, and some bools */

/* t: an index tensor, held; made: for this key */
typedef struct key_item { PyObject *o; const cr_tensor *t; bool made; } key_item;

typedef struct key {
    int count;
    key_item items[MAX_ITEMS];
    int parts;                                      /* axes it uses so far */
    cr_part part[CR_MAX_DIMS];
    int news;                                       /* of None: */
    int at[CR_MAX_DIMS];                            /* where it stands among the axes of the view */
    int axes;                                       /* of the view so far */
    bool whole;                                     /* the view is x itself */
    int tensors, indices;                           /* how many there are; entries of index: */
    const cr_tensor *index[MAX_ITEMS + CR_MAX_DIMS];       /* for the axes of the view, as cr_index_get wants them */
} key;

static const cr_part whole = {0, INT64_MAX, 1};

/* ---- the items of a key */
static bool is_integer(PyObject *o) {
    if (PyLong_Check(o)) return !PyBool_Check(o);
    if (is_tensor(o))
        return cr_ndim(handle(o)) == 0 && cr_dtype_of(handle(o)) != CR_BOOL && cr_dtype_of(handle(o)) != CR_U8;
    return PyIndex_Check(o) && !is_ndarray(o);
}

static bool too_many(int ndim) {
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", ndim);
    return false;
}

/* A list or an array as a tensor; of no elements it indexes nothing, whatever its dtype. */
static cr_tensor *index_from(PyObject *o, const cr_device *dev) {
    cr_tensor *t = NULL;
    if (PyBytes_Check(o) || !from_array(o, COPY_IF_NEEDED, NULL, dev, &t))
        t = PyErr_Occurred() ? NULL : tensor_from(o, NULL, dev);
    if (t && cr_numel(t) == 0 && cr_dtype_is_float(cr_dtype_of(t)) && PySequence_Check(o) && !is_ndarray(o)) {
        cr_tensor *none = cr_to(t, CR_I64, dev);
        cr_release(t);
        t = none;
        if (!t) raise_error();
    }
    return t;
}

static bool is_numpys_bool(PyObject *o, bool *value) {
    number x;
    cr_dtype dt;
    if (is_tensor(o) || !PyObject_CheckBuffer(o)) return false;
    if (!scalar_of_array(o, &x, &dt) || dt != CR_BOOL) { PyErr_Clear(); return false; }
    *value = x.i;
    return true;
}

cr_tensor *mask_of(const cr_tensor *bytes, const char *what) {
    PyGILState_STATE state = PyGILState_Ensure();
    const int raised = PyErr_WarnFormat(
        PyExc_UserWarning, 1,
        "%s of dtype uint8 is taken for a mask, as in PyTorch, where that is deprecated: use bool", what);
    PyGILState_Release(state);
    return raised ? NULL : cast(bytes, CR_BOOL);
}

/* A uint8 tensor is a mask. */
static bool open_bytes(key_item *it) {
    cr_tensor *mask = mask_of(it->t, "an index");
    if (it->made) cr_release(it->t);
    else cr_drop(it->t);
    it->t = mask;
    it->made = true;
    if (!mask && !PyErr_Occurred()) raise_error();
    return mask;
}

static bool open_item(key_item *it, PyObject *o, const cr_device *dev) {
    bool value = o == Py_True;
    *it = (key_item){.o = o};
    if (o == Py_None || o == Py_Ellipsis || PySlice_Check(o)) return true;
    if (PyLong_CheckExact(o)) return true;
    const bool boolean = PyBool_Check(o) || (!PyLong_Check(o) && is_numpys_bool(o, &value));
    if (!boolean && is_integer(o)) return true;
    if (is_tensor(o)) {
        it->t = cr_retain(handle(o));
        return cr_dtype_of(it->t) != CR_U8 || open_bytes(it);
    }
    it->made = true;
    if (boolean) it->t = cr_full(CR_ALL, value, CR_BOOL, dev);
    else if (PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) ||
             !(PySequence_Check(o) || PyObject_CheckBuffer(o)))
        return raise_type(o, "a key is made of ints, slices, None, ..., and index tensors, bool masks or lists of ints "
                             "and bools, not of"),
               false;
    else it->t = index_from(o, dev);
    if (!it->t) {
        if (!PyErr_Occurred()) raise_error();
        return false;
    }
    if (cr_dtype_of(it->t) == CR_U8) return open_bytes(it);
    if (cr_ndim(it->t) == 0 && cr_dtype_of(it->t) != CR_BOOL) {       /* an array without axes is an int */
        cr_release(it->t);
        *it = (key_item){.o = o};
    }
    return true;
}

static void close_key(key *k) {
    for (int i = 0; i < k->count; i++) {
        if (k->items[i].made) cr_release(k->items[i].t);
        else cr_drop(k->items[i].t);
    }
}

static bool open_items(key *k, PyObject *given, int ndim, const cr_device *dev) {
    const bool several = PyTuple_Check(given);
    const Py_ssize_t n = several ? PyTuple_Size(given) : 1;
    k->count = 0;
    if (n > MAX_ITEMS) return too_many(ndim);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!open_item(&k->items[k->count++], several ? PyTuple_GetItem(given, i) : given, dev)) return false;
    return true;
}

/* ---- messages */
static bool read_slice(PyObject *item, cr_part *p) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(item, &start, &stop, &step) < 0) return false;
    *p = (cr_part){start, stop, step};
    return true;
}

static bool read_integer(PyObject *item, cr_part *p) {
    *p = (cr_part){0};
    if (to_int64(item, &p->start)) return true;
    if (PyErr_ExceptionMatches(PyExc_OverflowError)) PyErr_SetString(PyExc_IndexError, "an index beyond 64 bits");
    return false;
}

static void keep_axes(key *k, int n) {
    for (int i = 0; i < n; i++) k->part[k->parts++] = whole;
    k->axes += n;
}

/* ... stands for all axes that no other item uses. */
static bool read_ellipsis(key *k, int ndim) {
    int used = 0, ellipses = 0;
    for (int i = 0; i < k->count; i++) {
        const key_item *it = &k->items[i];
        if (it->o == Py_Ellipsis) ellipses++;
        else if (it->o != Py_None) used += it->t && cr_dtype_of(it->t) == CR_BOOL ? cr_ndim(it->t) : 1;
    }
    if (used > ndim) return too_many(ndim);
    if (ellipses > 1) {
        PyErr_SetString(PyExc_IndexError, "an index can only have one ellipsis ('...')");
        return false;
    }
    keep_axes(k, ndim - used);
    return true;
}

static bool read_item(key *k, const key_item *it, int ndim) {
    const int before = k->axes;
    bool ok = true;
    if (it->t) {
        const int n = cr_dtype_of(it->t) == CR_BOOL ? cr_ndim(it->t) : 1;
        if (k->parts + n > ndim) return too_many(ndim);
        keep_axes(k, n);
        k->tensors++;
        k->index[k->indices++] = it->t;
        return true;
    }
    if (it->o == Py_None) {
        if (k->news == CR_MAX_DIMS) { PyErr_Format(PyExc_IndexError, "more than %d axes", CR_MAX_DIMS); return false; }
        k->at[k->news++] = k->axes++;
        k->whole = false;
    } else if (it->o == Py_Ellipsis) {
        ok = read_ellipsis(k, ndim);
    } else {
        if (k->parts >= ndim) return too_many(ndim);
        cr_part *p = &k->part[k->parts++];
        k->axes += PySlice_Check(it->o);
        ok = PySlice_Check(it->o) ? read_slice(it->o, p) : read_integer(it->o, p);
        k->whole = k->whole && ok && p->start == whole.start && p->stop == whole.stop && p->step == whole.step;
    }
    for (int i = before; i < k->axes; i++) k->index[k->indices++] = CR_NONE;
    return ok;
}

static bool read_items(key *k, int ndim) {
    k->parts = k->news = k->axes = k->tensors = k->indices = 0;
    k->whole = true;
    for (int i = 0; i < k->count; i++)
        if (!read_item(k, &k->items[i], ndim)) return false;
    return true;
}

/* ---- the view, and its elements at index tensors */

/* x itself, borrowed, where the view would be that; else a new handle. */
static cr_tensor *view_of(cr_tensor *x, const key *k) {
    if (k->tensors && k->whole) return x;
    cr_tensor *y = cr_index(x, k->parts, k->part);
    for (int i = 0; y && i < k->news; i++) {        /* a view of a view */
        cr_tensor *wider = cr_unsqueeze(y, k->at[i]);
        cr_release(y);
        y = wider;
    }
    return y;
}

static cr_tensor *get(cr_tensor *x, const key *k) {
    cr_tensor *view = view_of(x, k), *y = view;
    if (view && k->tensors) {
        WITHOUT_GIL(y = cr_index_get(view, k->indices, k->index));
        if (view != x) cr_release(view);
    }
    if (!y) raise_error();
    return y;
}

cr_tensor *get_item(PyObject *self, PyObject *given) {
    key k;
    cr_tensor *x = hold(self), *y = NULL;
    if (open_items(&k, given, cr_ndim(x), cr_device_of(x)) && read_items(&k, cr_ndim(x))) y = get(x, &k);
    /* x[0] and x[:, 0] are PyTorch's SelectBackward0 */
    const Py_ssize_t n = PyTuple_Check(given) ? PyTuple_Size(given) : 0;
    PyObject *last = n ? PyTuple_GetItem(given, n - 1) : given;
    if (y && PyLong_Check(last) && cr_requires_grad(y) && !strcmp(cr_op_name(y), "part"))
        cr_node_rename(y, "select");
    close_key(&k);
    cr_drop(x);
    return y;
}

/* value as a tensor, for cr_drop. */
static const cr_tensor *read_value(PyObject *value, const cr_device *dev, cr_tensor **made) {
    number x;
    if (is_tensor(value)) *made = hold(value);
    else if (to_number(value, &x)) *made = cr_unscope(scalar_of(&x));
    else if (!PyErr_Occurred()) *made = cr_unscope(tensor_from(value, NULL, dev));
    return *made;
}

/* Leading axes of size 1 that the place has not fall away, as in NumPy. */
static const cr_tensor *without_ones(const cr_tensor *y, int ndim, cr_tensor **made) {
    int ones = 0;
    while (ones < cr_ndim(y) - ndim && cr_size(y, ones) == 1) ones++;
    if (!ones) return y;
    cr_tensor *fewer = cr_reshape(y, cr_ndim(y) - ones, cr_shape(y) + ones);
    cr_drop(*made);
    return *made = cr_unscope(fewer);
}

static bool set(cr_tensor *x, const key *k, PyObject *value) {
    cr_tensor *view = view_of(x, k), *made = NULL;
    const cr_tensor *y = view ? read_value(value, cr_device_of(view), &made) : NULL;
    bool ok = false;
    if (y && k->tensors) WITHOUT_GIL(ok = cr_index_put_(view, k->indices, k->index, y, false));
    else if (y) ok = (y = without_ones(y, cr_ndim(view), &made)) && cr_copy_(view, y);
    if (!ok && !PyErr_Occurred()) raise_error();
    cr_drop(made);
    if (view != x) cr_release(view);
    return ok;
}

int set_item(PyObject *self, PyObject *given, PyObject *value) {
    key k;
    if (!value) { PyErr_SetString(PyExc_TypeError, "a tensor's elements cannot be deleted"); return -1; }
    cr_tensor *x = hold(self);
    const bool ok = open_items(&k, given, cr_ndim(x), cr_device_of(x)) && read_items(&k, cr_ndim(x)) &&
                    set(x, &k, value);
    close_key(&k);
    cr_drop(x);
    return ok ? 0 : -1;
}
