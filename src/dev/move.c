/* move.c - copies, casts and fills as elementwise programs. */
#include "dev.h"
#include "program.h"
#include "../core/layout.h"

static const cr_program same = {
    .name = "copy", .doc = "x", .rule = CR_RULE_ANY, .n_in = 1, .n_out = 1, .out = {0}, .fused = -1, .refs = -1};

cr_walk cr_walk_of_copy(const cr_array *dst, const cr_array *src, const void *value) {
    const bool cast = src && src->dtype != dst->dtype;
    const cr_dtype to = cast ? dst->dtype : cr_dtype_bits(dst->dtype), from = cast ? src->dtype : to;
    cr_walk w = {.program = &same, .compute = cr_dtype_wide(from), .numel = dst->numel, .n_out = 1, .n_in = 1};
    w.out[0] = (cr_arg){.storage = dst->storage, .offset = dst->offset, .dtype = to};
    w.in[0] = (cr_arg){.dtype = from};
    if (src) w.in[0].storage = src->storage, w.in[0].offset = src->offset;
    else w.in[0].data = (void *)(uintptr_t)value;
    memcpy(w.shape, dst->shape, sizeof w.shape);
    memcpy(w.out[0].strides, dst->strides, sizeof dst->strides);
    if (src) memcpy(w.in[0].strides, src->strides, sizeof src->strides);
    w.ndim = cr_merge_axes(dst->ndim, w.shape, 2, (int64_t *const[]){w.out[0].strides, w.in[0].strides});
    return w;
}
