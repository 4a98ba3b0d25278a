/* integer_windows.c - convolutions and pooling of integers, which have no kernels: a loop over the elements of a
 * window, each step for all windows at once. */
#include "windows.h"

static int64_t elements(const cr_windows *w) {
    int64_t n = 1;
    for (int i = 0; i < w->n; i++) n *= w->kernel[i];
    return n;
}

/* Element t of each window over the last axes of x: a view. */
static cr_tensor *element(const cr_tensor *x, const cr_windows *w, int64_t t) {
    const cr_tensor *y = x;
    for (int i = w->n - 1; i >= 0 && y; i--) {
        const int64_t at = t % w->kernel[i] * w->dilation[i];
        t /= w->kernel[i];
        y = cr_slice(y, x->ndim - w->n + i, at, at + (w->count[i] - 1) * w->stride[i] + 1, w->stride[i]);
    }
    return (cr_tensor *)(uintptr_t)y;
}

/* x with `value` around it: all windows lie inside. */
static cr_tensor *padded(const cr_tensor *x, const cr_windows *w, double value) {
    int64_t sizes[6];
    if (!x) return NULL;
    for (int i = 0; i < w->n; i++) {
        const int64_t end = (w->count[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1,
                      k = 2 * (w->n - 1 - i);
        sizes[k] = w->pad[i];
        sizes[k + 1] = cr_imax(0, end - w->pad[i] - x->shape[x->ndim - w->n + i]);
    }
    return cr_pad(x, 2 * w->n, sizes, CR_PAD_CONSTANT, value);
}

/* The weights of tap t, of groups: (groups, w.shape[0] / groups, w.shape[1]) */
static cr_tensor *tap(const cr_tensor *w, int64_t t, int64_t groups) {
    cr_tensor *at = cr_select(cr_flatten(w, 2, -1), 2, t);
    return cr_reshape(at, CR_LIST(groups, w->shape[0] / groups, w->shape[1]));
}

cr_tensor *cr_integer_conv(const cr_tensor *x, const cr_tensor *w, const cr_windows *windows, int64_t groups) {
    const int64_t B = x->shape[0];
    int64_t shape[5] = {B, w->shape[0]};
    cr_tensor *from = padded(x, windows, 0), *y = NULL;
    for (int i = 0; i < windows->n; i++) shape[2 + i] = windows->count[i];
    for (int64_t t = 0; t < elements(windows) && from; t++) {
        cr_tensor *of_groups = cr_reshape(element(from, windows, t), CR_LIST(B, groups, w->shape[1], -1)),
                  *product = cr_matmul(tap(w, t, groups), of_groups);
        y = t ? cr_add(y, product) : product;
    }
    return cr_reshape(y, 2 + windows->n, shape);
}

/* Each element of x is added to its window of the result, multiplied by the weights; size: of the result. */
cr_tensor *cr_integer_conv_transpose(const cr_tensor *x, const cr_tensor *w, const cr_windows *windows, int64_t groups,
                                     const int64_t *size) {
    const int64_t B = x->shape[0], OC = w->shape[1] * groups;
    int64_t shape[5] = {B, OC}, part[5] = {B, OC};
    for (int i = 0; i < windows->n; i++) {
        const int64_t end = (windows->count[i] - 1) * windows->stride[i] +
                            (windows->kernel[i] - 1) * windows->dilation[i] + 1;
        shape[2 + i] = cr_imax(end, windows->pad[i] + size[i]);
        part[2 + i] = windows->count[i];
    }
    cr_tensor *y = cr_zeros(2 + windows->n, shape, x->dtype, x->dev),
              *of_groups = cr_reshape(x, CR_LIST(B, groups, w->shape[0] / groups, -1));
    for (int64_t t = 0; t < elements(windows) && y; t++) {
        cr_tensor *product = cr_matmul(transposed(tap(w, t, groups)), of_groups);
        if (!cr_add_(element(y, windows, t), cr_reshape(product, 2 + windows->n, part))) return NULL;
    }
    for (int i = 0; i < windows->n && y; i++) y = cr_narrow(y, 2 + i, windows->pad[i], size[i]);
    return y;
}

/* Positions in the n last axes of x, flattened. */
static cr_tensor *positions(const cr_tensor *x, int n) {
    int64_t numel = 1;
    for (int i = x->ndim - n; i < x->ndim; i++) numel *= x->shape[i];
    return cr_reshape(cr_arange(0, (double)numel, 1, CR_I64, x->dev), n, x->shape + x->ndim - n);
}

/* The first largest element of each window, and its position: -1 stands for padding. */
cr_tensor *cr_integer_max_pool(const cr_tensor *x, const cr_windows *w, cr_tensor **index) {
    cr_tensor *from = padded(x, w, 0), *all = padded(positions(x, w->n), w, -1);
    cr_tensor *y = element(from, w, 0), *at = cr_expand(element(all, w, 0), y ? y->ndim : 0, y ? y->shape : NULL);
    for (int64_t t = 1; t < elements(w) && y && at; t++) {
        cr_tensor *value = element(from, w, t), *position = element(all, w, t), *none = cr_scalar_int(0);
        cr_tensor *better = cr_logical_and(cr_ge(position, none), cr_logical_or(cr_lt(at, none), cr_gt(value, y)));
        y = cr_where(better, value, y);
        at = cr_where(better, position, at);
    }
    if (index) *index = cr_contiguous(at);
    return cr_contiguous(y);
}

/* The sum of each window, divided by `divisor`, or by how many of its elements count (divisor 0). */
cr_tensor *cr_integer_avg_pool(const cr_tensor *x, const cr_windows *w, bool count_pad, int64_t divisor) {
    cr_windows inside = *w;
    cr_tensor *from = padded(x, w, 0), *ones = cr_ones(w->n, x->shape + x->ndim - w->n, x->dtype, x->dev), *y = NULL,
              *count = NULL;
    if (count_pad) {
        int64_t sizes[6];
        for (int i = 0; i < w->n; i++) {
            sizes[2 * (w->n - 1 - i)] = sizes[2 * (w->n - 1 - i) + 1] = w->pad[i];
            inside.pad[i] = 0;
        }
        ones = cr_pad(ones, 2 * w->n, sizes, CR_PAD_CONSTANT, 1);
    }
    ones = padded(ones, &inside, 0);
    for (int64_t t = 0; t < elements(w); t++) {
        y = t ? cr_add(y, element(from, w, t)) : element(from, w, t);
        count = t ? cr_add(count, element(ones, w, t)) : element(ones, w, t);
    }
    return cr_trunc_divide(y, divisor ? cr_scalar_int(divisor) : count);
}
