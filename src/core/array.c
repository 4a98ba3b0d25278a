/* array.c - making arrays. */
#include "array.h"

cr_array cr_array_narrowed(const cr_array *a, int axis, int64_t first, int64_t size) {
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < a->ndim; i++) shape[i] = i == axis ? size : a->shape[i];
    return cr_array_strided(a, a->ndim, shape, a->strides, a->offset + first * a->strides[axis]);
}

cr_array cr_array_transposed(const cr_array *a) {
    cr_array y = *a;
    const int i = a->ndim - 2, j = a->ndim - 1;
    y.shape[i] = a->shape[j], y.shape[j] = a->shape[i];
    y.strides[i] = a->strides[j], y.strides[j] = a->strides[i];
    y.contiguous = cr_strides_are_contiguous(y.ndim, y.shape, y.strides);
    return y;
}
