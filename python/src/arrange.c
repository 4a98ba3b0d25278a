/* arrange.c - copies of elements in another arrangement: mirrored, rolled, repeated, padded, joined, triangles. */
#include "extension.h"

#include <stdlib.h>
#include <string.h>

cr_tensor *api_flip(const arg *a) { return a[1].size.n ? cr_flip(a[0].t, a[1].size.n, a[1].size.v) : cr_clone(a[0].t); }

static cr_tensor *mirrored(const char *name, const cr_tensor *x, int at) {
    if (cr_ndim(x) > at) return cr_flip(x, CR_LIST(at));
    set_error(PyExc_RuntimeError, "[%s] needs at least %d axes, got %d", name, at + 1, cr_ndim(x));
    return NULL;
}
cr_tensor *api_fliplr(const arg *a) { return mirrored("fliplr", a[0].t, 1); }
cr_tensor *api_flipud(const arg *a) { return mirrored("flipud", a[0].t, 0); }

cr_tensor *api_roll(const arg *a) {
    if (!a[2].size.n) return cr_roll(a[0].t, a[1].size.n, a[1].size.v, NULL);
    if (a[1].size.n == a[2].size.n) return cr_roll(a[0].t, a[1].size.n, a[1].size.v, a[2].size.v);
    set_error(PyExc_RuntimeError, "[roll] %d shifts and %d axes", a[1].size.n, a[2].size.n);
    return NULL;
}
cr_tensor *api_repeat(const arg *a) { return cr_repeat(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api_tile(const arg *a) { return cr_tile(a[0].t, a[1].size.n, a[1].size.v); }

/* Along the axis, or in order as one; counts NULL: `times` for all. */
static cr_tensor *interleaved(const cr_tensor *x, const cr_tensor *counts, int64_t times, const arg *dim) {
    cr_scope_begin();
    const cr_tensor *line = dim->given ? x : cr_reshape(x, CR_LIST(-1));
    int at = dim->given ? axis(dim->i) : 0;
    return leave(counts ? cr_repeat_interleave_by(line, counts, at) : cr_repeat_interleave(line, times, at));
}

/* (input, repeats, dim, output_size); without repeats the input has them, and the positions are repeated */
PyObject *api_repeat_interleave(const arg *a) {
    cr_tensor *y;
    int64_t times = 0;
    if (a[1].o == Py_None) {
        const cr_tensor *counts = a[0].t;
        if (a[2].given) return PyErr_Format(PyExc_TypeError, "repeat_interleave(): one tensor of repeats takes no dim");
        if (cr_ndim(counts) != 1)
            return PyErr_Format(PyExc_RuntimeError,
                                "[repeat_interleave] repeats must be a vector, not a tensor of %d axes",
                                cr_ndim(counts));
        cr_scope_begin();
        WITHOUT_GIL(y = leave(cr_repeat_interleave_by(
                        cr_arange(0, (double)cr_numel(counts), 1, CR_I64, cr_device_of(counts)), counts, 0)));
    } else if (is_tensor(a[1].o)) {
        cr_tensor *counts = hold(a[1].o);
        WITHOUT_GIL(y = interleaved(a[0].t, counts, 0, &a[2]));
        cr_drop(counts);
    } else {
        if (!PyIndex_Check(a[1].o))
            return raise_type(a[1].o, "repeat_interleave(): argument 'repeats' must be int or Tensor, not");
        if (!to_int64(a[1].o, &times)) return NULL;
        WITHOUT_GIL(y = interleaved(a[0].t, NULL, times, &a[2]));
    }
    if (y && a[3].given && cr_size(y, a[2].given ? axis(a[2].i) : 0) != a[3].i) {
        PyErr_Format(PyExc_RuntimeError, "[repeat_interleave] output_size %lld, but %lld positions result",
                     (long long)a[3].i, (long long)cr_size(y, a[2].given ? axis(a[2].i) : 0));
        cr_release(y);
        return NULL;
    }
    return wrap(y);
}

static bool pad_mode(const char *name, cr_pad_mode *mode) {
    static const char *const names[] = {"constant", "reflect", "replicate", "circular"};
    for (int i = 0; i < 4; i++)
        if (!strcmp(name, names[i])) { *mode = (cr_pad_mode)i; return true; }
    PyErr_Format(PyExc_NotImplementedError,
                 "[pad] the mode is 'constant', 'reflect', 'replicate' or 'circular', not '%s'", name);
    return false;
}

/* (input, pad, mode, value) */
PyObject *api_pad(const arg *a) {
    int64_t sizes[2 * CR_MAX_DIMS];
    cr_pad_mode mode;
    if (!pad_mode(a[2].s, &mode)) return NULL;
    if (mode != CR_PAD_CONSTANT && a[3].given)
        return PyErr_Format(PyExc_RuntimeError, "[pad] the mode '%s' takes no value", a[2].s);
    PyObject *items = PyTuple_Check(a[1].o) || PyList_Check(a[1].o) ? PySequence_Tuple(a[1].o) : NULL;
    if (!items) return PyErr_Occurred() ? NULL : raise_type(a[1].o, "pad(): argument 'pad' must be ints, not");
    const Py_ssize_t n = PyTuple_Size(items);
    bool ok = n <= 2 * CR_MAX_DIMS;
    if (!ok) PyErr_Format(PyExc_RuntimeError, "[pad] %zd sizes, at most %d", n, 2 * CR_MAX_DIMS);
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = to_int64(PyTuple_GetItem(items, i), &sizes[i]);
    Py_DECREF(items);
    if (!ok) return NULL;
    cr_tensor *y;
    WITHOUT_GIL(y = cr_pad(a[0].t, (int)n, sizes, mode, a[3].given ? a[3].x.d : 0));
    return wrap(y);
}

cr_tensor *api_tril(const arg *a) { return cr_tril(a[0].t, a[1].i); }
cr_tensor *api_triu(const arg *a) { return cr_triu(a[0].t, a[1].i); }
cr_tensor *api_tril_(const arg *a) { return cr_tril_(a[0].t, a[1].i); }
cr_tensor *api_triu_(const arg *a) { return cr_triu_(a[0].t, a[1].i); }

/* Empty vectors are left out where the others have more axes, so that a list can be grown from tensor([]). */
cr_tensor *api_cat(const arg *a) {
    const cr_tensor **in = a[0].list.v;
    int n = 0, ndim = 1;
    for (int i = 0; i < a[0].list.n; i++) if (cr_ndim(in[i]) > ndim) ndim = cr_ndim(in[i]);
    for (int i = 0; i < a[0].list.n; i++) {
        const cr_tensor *t = in[i];
        if (ndim > 1 && cr_ndim(t) == 1 && cr_numel(t) == 0) continue;
        in[i] = in[n];
        in[n++] = t;
    }
    return cr_cat(n, in, axis(a[1].i));
}
cr_tensor *api_stack(const arg *a) { return cr_stack(a[0].list.n, a[0].list.v, axis(a[1].i)); }

/* Along `at`, after axes were added in front of tensors with fewer than `ndim`. */
static cr_tensor *stacked(const arg *a, int ndim, int at) {
    int n = a[0].list.n;
    const cr_tensor **in = malloc(sizeof *in * (size_t)(n ? n : 1));
    if (!in) {
        set_error(PyExc_MemoryError, "no memory for a list of %d tensors", n);
        return NULL;
    }
    cr_scope_begin();
    for (int i = 0; i < n; i++)
        for (in[i] = a[0].list.v[i]; in[i] && cr_ndim(in[i]) < ndim;) in[i] = cr_unsqueeze(in[i], 0);
    cr_tensor *y = cr_cat(n, in, n && in[0] && cr_ndim(in[0]) == 1 ? 0 : at);
    free((void *)in);
    return leave(y);
}
cr_tensor *api_hstack(const arg *a) { return stacked(a, 1, 1); }
cr_tensor *api_vstack(const arg *a) { return stacked(a, 2, 0); }
