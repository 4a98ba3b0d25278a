/* faults.c - an index out of range, an integer divided by zero.  A kernel notes the first position;
 * the host learns of it when it next reads results of that kernel or of a later one.  Until then work
 * goes on: a bad index reads nothing, and nothing is written where there is one. */
#include "gpu.h"

#include <stdio.h>

enum { BYTES = 8 * CUDA_FAULT_WORDS };              /* of one fault */

/* Clears n faults from the k-th on. */
static cr_status clear(cuda *g, const char *op, uint64_t k, uint64_t n) {
    const cuda_address at = g->faults->at + BYTES * (k % CUDA_FAULTS);
    return cr_cuda_check(g, op, "cannot write", cr_cu.MemsetD8Async(at, 0xff, BYTES * (size_t)n, g->stream));
}

static bool has_memory(cuda *g, const char *op) {
    if (g->faults) return true;
    if (!(g->faults = cr_cuda_block_take(g, op, BYTES * CUDA_FAULTS))) return false;
    if (clear(g, op, 0, CUDA_FAULTS) == CR_OK) return true;
    cr_cuda_block_give(g, g->faults);
    g->faults = NULL;
    return false;
}

cuda_address cr_cuda_fault_new(cuda *g, const char *op, int64_t bound) {
    if (g->issued - g->polled == CUDA_FAULTS && cr_cuda_faults_check(g, op) != CR_OK) return 0;
    if (!has_memory(g, op)) return 0;
    cuda_fault *f = &g->fault[g->issued % CUDA_FAULTS];
    snprintf(f->op, sizeof f->op, "%s", op);
    f->bound = bound;
    f->epoch = g->queue[CUDA_KERNELS].epoch;
    return g->faults->at + BYTES * (g->issued++ % CUDA_FAULTS);
}

cr_status cr_cuda_faults_room(cuda *g, const char *op) {
    return g->issued - g->polled > CUDA_FAULTS / 2 ? cr_cuda_faults_check(g, op) : CR_OK;
}

/* Each word: 40 bits of the position, 24 of the value (note in device.cuh). */
static cr_status read_fault(const cuda_fault *f, const uint64_t *words) {
    const uint64_t part = (1 << 24) - 1, value = (words[0] & part) | (words[1] & part) << 24 | (words[2] & part) << 48;
    if (*words == UINT64_MAX) return CR_OK;
    if (!f->bound) return cr_fail(CR_BAD_VALUE, f->op, "an integer divided by zero");
    return cr_fail(CR_BAD_INDEX, f->op, "index %lld at position %llu is out of range for size %lld",
                   (long long)value, (unsigned long long)(*words >> 24), (long long)f->bound);
}

/* The first error among n faults from the k-th on: *found; they are cleared where there is one, or was
 * one before them. */
static cr_status read_faults(cuda *g, const char *op, uint64_t k, uint64_t n, cr_status *found) {
    uint64_t words[CUDA_FAULT_WORDS * CUDA_FAULTS];
    const cr_status status = cr_cuda_receive(g, op, words, g->faults->at + BYTES * (k % CUDA_FAULTS),
                                             BYTES * (size_t)n);
    if (status != CR_OK) return status;
    for (uint64_t i = 0; i < n && *found == CR_OK; i++)
        *found = read_fault(&g->fault[(k + i) % CUDA_FAULTS], words + CUDA_FAULT_WORDS * i);
    return *found == CR_OK ? CR_OK : clear(g, op, k, n);
}

cr_status cr_cuda_faults_poll(cuda *g, const char *op) {
    uint64_t end = g->polled;
    cr_status found = CR_OK;
    while (end < g->issued && g->fault[end % CUDA_FAULTS].epoch <= g->queue[CUDA_COPIES].waited[CUDA_KERNELS]) end++;
    while (g->polled < end) {                       /* the ring of faults in one piece, or in two where it wraps */
        const uint64_t k = g->polled, rest = CUDA_FAULTS - k % CUDA_FAULTS, n = end - k < rest ? end - k : rest;
        const cr_status status = read_faults(g, op, k, n, &found);
        if (status != CR_OK) return status;
        g->polled += n;
    }
    return found;
}

cr_status cr_cuda_faults_check(cuda *g, const char *op) {
    if (g->polled == g->issued) return CR_OK;
    const uint64_t last = g->fault[(g->issued - 1) % CUDA_FAULTS].epoch;
    const cr_status status = cr_cuda_wait_epoch(g, op, CUDA_COPIES, CUDA_KERNELS, last);
    return status == CR_OK ? cr_cuda_faults_poll(g, op) : status;
}
