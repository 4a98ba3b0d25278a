/* shape.c - arithmetic on shapes, and the checks that every op shares. */
#include "dtype.h"
#include "shape.h"

#include <stdio.h>
#include <string.h>

cr_text cr_shape_text(int ndim, const int64_t *shape) {
    cr_text t;
    size_t n = 0, room = sizeof t.s;
    n += (size_t)snprintf(t.s, room, "(");
    for (int i = 0; i < ndim && n < room - 24; i++)
        n += (size_t)snprintf(t.s + n, room - n, i ? ", %lld" : "%lld", (long long)shape[i]);
    snprintf(t.s + n, room - n, ndim == 1 ? ",)" : ")");
    return t;
}

cr_status cr_shape_check(const char *op, int ndim, const int64_t *shape, cr_dtype dt, int64_t *numel) {
    if (!cr_dtype_valid((int)dt)) return cr_fail(CR_BAD_TYPE, op, "%d is not a dtype", (int)dt);
    if (ndim < 0 || ndim > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, op, "%d axes: 0 to %d are supported", ndim, CR_MAX_DIMS);
    if (ndim && !shape) return cr_fail_null(op, "shape");
    int64_t n = 1, limit = INT64_MAX / 2 / (int64_t)cr_dtype_size(dt);
    bool zero = false;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) return cr_fail(CR_BAD_VALUE, op, "negative size in shape %s", cr_shape_text(ndim, shape).s);
        if (shape[i] == 0) { zero = true; continue; }
        if (n > limit / shape[i])
            return cr_fail(CR_BAD_VALUE, op, "shape %s holds too many elements", cr_shape_text(ndim, shape).s);
        n *= shape[i];
    }
    if (numel) *numel = zero ? 0 : n;
    return CR_OK;
}

int cr_axis(const char *op, int64_t axis, int ndim) {
    int n = ndim ? ndim : 1;
    if (axis < -n || axis >= n) {
        cr_fail(CR_BAD_INDEX, op, "axis %lld is out of range: a tensor of %d axes takes %d to %d", (long long)axis,
                ndim, -n, n - 1);
        return -1;
    }
    return (int)(axis < 0 ? axis + n : axis);
}

cr_status cr_axes_mask(const char *op, int n, const int64_t *axes, int ndim, uint32_t *mask) {
    if (n < 0) return cr_fail(CR_BAD_VALUE, op, "%d axes", n);
    if (n && !axes) return cr_fail_null(op, "axes");
    *mask = n ? 0 : (1u << ndim) - 1;
    for (int i = 0; i < n; i++) {
        int a = cr_axis(op, axes[i], ndim);
        if (a < 0) return cr_error_status();
        if (*mask >> a & 1) return cr_fail(CR_BAD_VALUE, op, "axis %lld appears more than once", (long long)axes[i]);
        *mask |= 1u << a;
    }
    return CR_OK;
}

cr_status cr_broadcast(const char *op, int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out) {
    int ndim = na > nb ? na : nb;
    int64_t result[CR_MAX_DIMS];
    for (int i = 1; i <= ndim; i++) {
        int64_t x = i <= na ? a[na - i] : 1, y = i <= nb ? b[nb - i] : 1;
        if (x != y && x != 1 && y != 1)
            return cr_fail(CR_BAD_VALUE, op, "shapes %s and %s do not broadcast", cr_shape_text(na, a).s,
                           cr_shape_text(nb, b).s);
        result[ndim - i] = x == 1 ? y : x;
    }
    memcpy(out, result, sizeof(int64_t) * (size_t)ndim);
    *n = ndim;
    return CR_OK;
}

bool cr_strides_are_contiguous(int ndim, const int64_t *shape, const int64_t *strides) {
    int64_t expected = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0) return true;
    for (int i = ndim - 1; i >= 0; i--) {
        if (shape[i] == 1) continue;
        if (strides[i] != expected) return false;
        expected *= shape[i];
    }
    return true;
}

void cr_strides_contiguous(int ndim, const int64_t *shape, int64_t *strides) {
    uint64_t s = 1;                                 /* may wrap if another size is 0; the strides are not used then */
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = (int64_t)s;
        s *= shape[i] > 0 ? (uint64_t)shape[i] : 1;
    }
}
