/* faults.c - an index out of range, an integer divided by zero.  Kernels note the first position;
 * the host checks for faults when it next reads or synchronizes.  Until then kernels go on, but do
 * not write by such an index. */
#include "gpu.h"

#include <stdio.h>
#include <string.h>

enum { BYTES = 4 * GPU_FAULT_WORDS * GPU_FAULTS };

static void reset(gpu *g) {
    unsigned char ones[BYTES];
    memset(ones, 0xff, sizeof ones);
    cr_wg.QueueWriteBuffer(g->queue, g->faults->handle, 0, ones, sizeof ones);
    g->may_fail = 0;
}

int cr_gpu_fault_new(gpu *g, const char *op, int64_t bound) {
    if (g->may_fail == GPU_FAULTS && cr_gpu_faults_check(g, op) != CR_OK) return -1;
    if (!g->faults) {
        if (!(g->faults = cr_gpu_buffer_take(g, op, BYTES))) return -1;
        if (g->faults->batch == g->batch && cr_gpu_submit(g, op) != CR_OK) return -1;
        reset(g);
    }
    gpu_fault *f = &g->fault[g->may_fail];
    snprintf(f->op, sizeof f->op, "%s", op);
    f->bound = bound;
    return g->may_fail++;
}

cr_status cr_gpu_faults_report(gpu *g, const uint32_t *words) {
    cr_status status = CR_OK;
    for (int i = 0; i < g->may_fail; i++, words += GPU_FAULT_WORDS) {
        const gpu_fault *f = &g->fault[i];
        if (*words == ~0u) continue;
        const long long value = (long long)(words[1] | (uint64_t)words[2] << 32), bound = f->bound;
        status = !bound ? cr_fail(CR_BAD_VALUE, f->op, "an integer divided by zero")
                        : cr_fail(CR_BAD_INDEX, f->op, "index %lld at position %u is out of range for size %lld",
                                  value, *words, bound);
        break;
    }
    reset(g);
    return status;
}
