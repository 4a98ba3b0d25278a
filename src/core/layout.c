/* layout.c - the axes of arrays in the order of memory, and neighbouring axes merged. */
#include "layout.h"

static int64_t step_of(int64_t stride) { return stride < 0 ? -stride : stride; }

int cr_axes_by_step(int ndim, const int64_t *shape, const int64_t *strides, int *axes) {
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape && shape[i] == 1) continue;
        int k = n++;
        for (; k > 0 && step_of(strides[axes[k - 1]]) < step_of(strides[i]); k--) axes[k] = axes[k - 1];
        axes[k] = i;
    }
    return n;
}

/* Does each operand go on along axis `before` where axis i ends? */
static bool mergeable(int before, int i, const int64_t *shape, int n, int64_t *const *strides) {
    for (int k = 0; k < n; k++)
        if (strides[k][before] != strides[k][i] * shape[i]) return false;
    return true;
}

int cr_merge_axes(int ndim, int64_t *shape, int n, int64_t *const *strides) {
    int last = -1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 1) continue;
        const bool merge = last >= 0 && mergeable(last, i, shape, n, strides);
        if (!merge) last++;
        for (int k = 0; k < n; k++) strides[k][last] = strides[k][i];
        shape[last] = merge ? shape[last] * shape[i] : shape[i];
    }
    return last + 1;
}

/* From the smallest step on, each axis must step over all that the axes before it reach. */
bool cr_shape_overlaps(int ndim, const int64_t *shape, const int64_t *strides) {
    int axes[CR_MAX_DIMS];
    int64_t reach = 0;
    for (int i = 0; i < ndim; i++)
        if (shape[i] == 0) return false;
    for (int k = cr_axes_by_step(ndim, shape, strides, axes) - 1; k >= 0; k--) {
        const int64_t step = step_of(strides[axes[k]]);
        if (step <= reach) return true;
        reach += (shape[axes[k]] - 1) * step;
    }
    return false;
}

cr_meta cr_in_memory_order(const cr_meta *m, int64_t *axes, uint32_t *reversed) {
    int order[CR_MAX_DIMS];
    cr_meta y = *m;
    *reversed = 0;
    cr_axes_by_step(m->ndim, NULL, m->strides, order);
    for (int i = 0; i < m->ndim; i++) {
        const int from = order[i];
        const int64_t stride = m->strides[from];
        axes[i] = from;
        y.shape[i] = m->shape[from];
        y.strides[i] = step_of(stride);
        if (stride >= 0) continue;
        *reversed |= 1u << i;
        y.offset += (m->shape[from] - 1) * stride;
    }
    return y;
}
