/* faults.c - an index out of range, an integer divided by zero: kernels note the first position, and the host hears of it with what it
 * next reads of theirs or of later kernels.  Until then work goes on; nothing is read by a bad index, nor written where there is one. */
#include "gpu.h"

#include <stdio.h>

enum { BYTES = 8 * CUDA_FAULT_WORDS };              /* of one */

/* n faults, from the k-th on, are as new. */
static cr_status forget(cuda *g, const char *op, uint64_t k, uint64_t n) {
    return cr_cuda_check(g, op, "cannot write", cr_cu.MemsetD8Async(g->faults->at + BYTES * (k % CUDA_FAULTS), 0xff, BYTES * (size_t)n, g->stream));
}

cuda_address cr_cuda_fault_new(cuda *g, const char *op, int64_t bound) {
    if (g->noted - g->heard == CUDA_FAULTS && cr_cuda_faults_check(g, op) != CR_OK) return 0;
    if (!g->faults) {
        if (!(g->faults = cr_cuda_block_take(g, op, BYTES * CUDA_FAULTS))) return 0;
        if (forget(g, op, 0, CUDA_FAULTS) != CR_OK) {
            cr_cuda_block_give(g, g->faults);
            g->faults = NULL;
            return 0;
        }
    }
    cuda_fault *f = &g->fault[g->noted % CUDA_FAULTS];
    snprintf(f->op, sizeof f->op, "%s", op);
    f->bound = bound;
    f->turn = g->line[CUDA_KERNELS].turn;
    return g->faults->at + BYTES * (g->noted++ % CUDA_FAULTS);
}

/* Each word: 40 bits of the position, 24 of the value (device.cuh's note). */
static cr_status read_fault(const cuda_fault *f, const uint64_t *words) {
    const uint64_t part = (1 << 24) - 1, value = (words[0] & part) | (words[1] & part) << 24 | (words[2] & part) << 48;
    if (*words == UINT64_MAX) return CR_OK;
    if (!f->bound) return cr_fail(CR_BAD_VALUE, f->op, "an integer divided by zero");
    return cr_fail(CR_BAD_INDEX, f->op, "index %lld at position %llu is out of range for size %lld", (long long)value, (unsigned long long)(*words >> 24), (long long)f->bound);
}

cr_status cr_cuda_faults_hear(cuda *g, const char *op) {
    uint64_t words[CUDA_FAULT_WORDS * CUDA_FAULTS], end = g->heard;
    cr_status found = CR_OK;
    while (end < g->noted && g->fault[end % CUDA_FAULTS].turn <= g->line[CUDA_COPIES].after) end++;
    while (g->heard < end) {                        /* one piece, or two where they begin again at the first */
        const uint64_t k = g->heard, rest = CUDA_FAULTS - k % CUDA_FAULTS, n = end - k < rest ? end - k : rest;
        cr_status status = cr_cuda_receive(g, op, words, g->faults->at + BYTES * (k % CUDA_FAULTS), BYTES * (size_t)n), piece = CR_OK;
        for (uint64_t i = 0; i < n && status == CR_OK && piece == CR_OK && found == CR_OK; i++) piece = read_fault(&g->fault[(k + i) % CUDA_FAULTS], words + CUDA_FAULT_WORDS * i);
        if (status == CR_OK && (piece != CR_OK || found != CR_OK)) status = forget(g, op, k, n);
        if (status != CR_OK) return status;
        if (found == CR_OK) found = piece;
        g->heard += n;
    }
    return found;
}

cr_status cr_cuda_faults_check(cuda *g, const char *op) {
    if (g->heard == g->noted) return CR_OK;
    const cr_status status = cr_cuda_wait_turn(g, op, CUDA_COPIES, g->fault[(g->noted - 1) % CUDA_FAULTS].turn);
    return status == CR_OK ? cr_cuda_faults_hear(g, op) : status;
}
