/* move.c - copies, casts and fills as elementwise programs. */
#include "dev.h"
#include "program.h"

static const cr_program same = {.name = "copy", .doc = "x", .rule = CR_RULE_ANY, .n_in = 1, .n_out = 1, .out = {0}, .fused = -1, .refs = -1};

cr_walk cr_walk_of_copy(const cr_array *dst, const cr_array *src, const void *value) {
    const bool cast = src && src->dtype != dst->dtype;
    const cr_dtype to = cast ? dst->dtype : cr_dtype_bits(dst->dtype), from = cast ? src->dtype : to;
    cr_walk w = {.program = &same, .compute = cr_dtype_wide(from), .numel = dst->numel, .n_out = 1, .n_in = 1};
    w.out[0] = (cr_arg){.storage = dst->storage, .offset = dst->offset, .dtype = to};
    w.in[0] = (cr_arg){.dtype = from};
    if (src) w.in[0].storage = src->storage, w.in[0].offset = src->offset;
    else w.in[0].data = (void *)(uintptr_t)value;
    for (int d = 0; d < dst->ndim; d++) {
        const int64_t n = dst->shape[d], a = dst->strides[d], b = src ? src->strides[d] : 0;
        const int last = w.ndim - 1;
        if (n == 1) continue;
        const bool follows = last >= 0 && w.out[0].strides[last] == n * a && w.in[0].strides[last] == n * b;
        const int at = follows ? last : w.ndim++;
        w.shape[at] = follows ? w.shape[at] * n : n;
        w.out[0].strides[at] = a;
        w.in[0].strides[at] = b;
    }
    return w;
}
