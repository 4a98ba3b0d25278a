/* faults.c - an index out of range, an integer divided by zero: kernels note the first position, and the host hears of it with what it
 * next reads.  Until then work goes on; nothing is read by a bad index, nor written where there is one. */
#include "gpu.h"

#include <stdio.h>

enum { BYTES = 8 * CUDA_FAULT_WORDS * CUDA_FAULTS };

static cr_status forget(cuda *g, const char *op) {
    g->may_fail = 0;
    return cuda_check(g, op, "cannot write", cu.MemsetD8Async(g->faults->at, 0xff, BYTES, g->stream));
}

cuda_address cuda_fault_new(cuda *g, const char *op, int64_t bound) {
    if (g->may_fail == CUDA_FAULTS && cuda_faults_check(g, op) != CR_OK) return 0;
    if (!g->faults) {
        if (!(g->faults = cuda_block_take(g, op, BYTES))) return 0;
        if (forget(g, op) != CR_OK) {
            cuda_block_give(g, g->faults);
            g->faults = NULL;
            return 0;
        }
    }
    cuda_fault *f = &g->fault[g->may_fail];
    snprintf(f->op, sizeof f->op, "%s", op);
    f->bound = bound;
    return g->faults->at + 8 * CUDA_FAULT_WORDS * (cuda_address)g->may_fail++;
}

/* Each word: 40 bits of the position, 24 of the value (device.cuh's note). */
cr_status cuda_faults_seen(cuda *g, const uint64_t *words) {
    cr_status status = CR_OK;
    for (int i = 0; i < g->may_fail && status == CR_OK; i++, words += CUDA_FAULT_WORDS) {
        const cuda_fault *f = &g->fault[i];
        if (*words == UINT64_MAX) continue;
        const uint64_t part = (1 << 24) - 1, value = (words[0] & part) | (words[1] & part) << 24 | (words[2] & part) << 48;
        status = f->bound ? cr_fail(CR_BAD_INDEX, f->op, "index %lld at position %llu is out of range for size %lld", (long long)value, (unsigned long long)(*words >> 24),
                                    (long long)f->bound)
                          : cr_fail(CR_BAD_VALUE, f->op, "an integer divided by zero");
    }
    const cr_status cleared = forget(g, "synchronize");
    return status == CR_OK ? cleared : status;
}
