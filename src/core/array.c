/* array.c - making arrays. */
#include "array.h"

cr_array cr_array_of(cr_storage *s, const cr_device *dev, cr_dtype dt, int n, const int64_t *shape) {
    cr_array a = {.storage = s, .dev = dev, .dtype = dt, .ndim = n, .contiguous = true, .numel = 1};
    for (int i = 0; i < n; i++) a.numel *= a.shape[i] = shape[i];
    cr_strides_contiguous(n, shape, a.strides);
    return a;
}

cr_array cr_array_as(const cr_array *a, int n, const int64_t *shape) {
    cr_array y = cr_array_of(a->storage, a->dev, a->dtype, n, shape);
    y.offset = a->offset;
    return y;
}

cr_array cr_array_strided(const cr_array *a, int n, const int64_t *shape, const int64_t *strides, int64_t offset) {
    cr_array y = {.storage = a->storage, .dev = a->dev, .dtype = a->dtype, .ndim = n, .offset = offset, .numel = 1};
    for (int i = 0; i < n; i++) {
        y.numel *= y.shape[i] = shape[i];
        y.strides[i] = strides[i];
    }
    y.contiguous = cr_strides_are_contiguous(n, shape, strides);
    return y;
}

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
