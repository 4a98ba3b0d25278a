/* pooling.c - pooling, resampling and batch normalization, for the Python of chainrule.nn. */
#include "extension.h"

#include <string.h>

/* ---- sizes by axis: one for all n axes, or one for each */
static bool by_axis(const char *op, const char *what, const arg *a, int n, int64_t *out) {
    if (a->size.n != 1 && a->size.n != n) {
        set_error(PyExc_RuntimeError, "[%s%dd] %s must be an int or %d ints, got %d", op, n, what, n,
                  a->size.n);
        return false;
    }
    for (int i = 0; i < n; i++) out[i] = a->size.v[a->size.n == 1 ? 0 : i];
    return true;
}

/* (n, kernel_size, stride, padding) from a on; no stride: the kernel size */
static bool pool_options(const char *op, const arg *a, cr_pool_options *o) {
    const int n = a[0].i >= 1 && a[0].i <= 3 ? (int)a[0].i : 0;
    const bool strides = a[2].size.n;             /* (): PyTorch's way to leave it out */
    *o = cr_pool_defaults(n, 1);
    return by_axis(op, "kernel_size", &a[1], n, o->kernel) &&
           by_axis(op, "stride", strides ? &a[2] : &a[1], n, o->stride) && by_axis(op, "padding", &a[3], n, o->pad);
}

PyObject *tuple_with(cr_tensor *first, int n, cr_tensor **more) {
    PyObject *tuple = first ? PyTuple_New(1 + n) : raise_error();
    for (int i = 0; i <= n && first; i++) {
        cr_tensor *t = i ? more[i - 1] : first;
        PyObject *piece = tuple ? wrap(t) : (cr_release(t), NULL);
        if (piece) PyTuple_SetItem(tuple, i, piece);
        else Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- pooling: (input, n, kernel_size, stride, padding, dilation, ceil_mode) */
static bool max_options(const arg *a, cr_pool_options *o) {
    if (!pool_options("max_pool", a + 1, o) || !by_axis("max_pool", "dilation", &a[5], o->n, o->dilation)) return false;
    o->ceil = a[6].b;
    return true;
}
cr_tensor *api__max_pool(const arg *a) {
    cr_pool_options o;
    return max_options(a, &o) ? cr_max_pool(a[0].t, &o, NULL) : NULL;
}
PyObject *api__max_pool_with_indices(const arg *a) {
    cr_pool_options o;
    cr_tensor *y, *index;
    if (!max_options(a, &o)) return raise_error();
    WITHOUT_GIL(y = cr_max_pool(a[0].t, &o, &index));
    return tuple_with(y, 1, &index);
}

/* (input, n, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor) */
cr_tensor *api__avg_pool(const arg *a) {
    cr_pool_options o;
    if (!pool_options("avg_pool", a + 1, &o)) return NULL;
    o.ceil = a[5].b;
    o.count_pad = a[6].b;
    o.divisor = a[7].i;
    return cr_avg_pool(a[0].t, &o);
}

/* (input, output_size) */
cr_tensor *api__adaptive_avg_pool(const arg *a) { return cr_adaptive_avg_pool(a[0].t, a[1].size.n, a[1].size.v); }
cr_tensor *api__adaptive_max_pool(const arg *a) {
    return cr_adaptive_max_pool(a[0].t, a[1].size.n, a[1].size.v, NULL);
}
PyObject *api__adaptive_max_pool_with_indices(const arg *a) {
    cr_tensor *y, *index;
    WITHOUT_GIL(y = cr_adaptive_max_pool(a[0].t, a[1].size.n, a[1].size.v, &index));
    return tuple_with(y, 1, &index);
}

/* ---- resampling: (input, size, mode, align_corners, antialias, scale of each axis) */
cr_tensor *api__interpolate(const arg *a) {
    static const char *const names[] = {
        [CR_RESAMPLE_NEAREST] = "nearest", [CR_RESAMPLE_NEAREST_EXACT] = "nearest-exact",
        [CR_RESAMPLE_LINEAR] = "linear", [CR_RESAMPLE_CUBIC] = "cubic"};
    cr_interpolate_options o = {
        .align_corners = a[3].b, .antialias = a[4].b, .scale = {a[5].d, a[6].d, a[7].d}};
    for (; o.mode <= CR_RESAMPLE_CUBIC; o.mode++)
        if (!strcmp(a[2].s, names[o.mode])) return cr_interpolate(a[0].t, a[1].size.n, a[1].size.v, &o);
    set_error(PyExc_ValueError, "[interpolate] unknown mode '%s'", a[2].s);
    return NULL;
}

/* ---- batch normalization: (input, eps, weight, bias) */
PyObject *api__batch_norm(const arg *a) {
    cr_tensor *y, *statistics[2];
    WITHOUT_GIL(y = cr_batch_norm(a[0].t, a[2].t, a[3].t, a[1].d, &statistics[0], &statistics[1]));
    return tuple_with(y, 2, statistics);
}
/* (input, groups, eps, weight, bias) */
cr_tensor *api__group_norm(const arg *a) { return cr_group_norm(a[0].t, a[1].i, a[3].t, a[4].t, a[2].d); }
/* (input, mean, var, eps, weight, bias) */
cr_tensor *api__batch_norm_with(const arg *a) {
    return cr_batch_norm_with(a[0].t, a[1].t, a[2].t, a[4].t, a[5].t, a[3].d);
}
