/* launch.c - kernels into the stream. */
#include "gpu.h"

static cr_status launch(cuda *g, const char *op, const cuda_kernel *k, void **parameters, int64_t blocks, int threads, unsigned shared) {
    if (!blocks) return CR_OK;
    if (blocks > INT32_MAX) return cr_fail(CR_BAD_VALUE, op, "%s runs at most %d blocks of a kernel: this takes %lld", g->name, INT32_MAX, (long long)blocks);
    g->counters.launches++;
    int error;
    do error = cr_cu.LaunchKernel(k->function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, shared, g->stream, parameters, NULL);
    while (error && cr_cuda_make_room(g, error));
    return cr_cuda_check(g, op, "a kernel does not start", error);
}

cr_status cr_cuda_launch(cuda *g, const char *op, const cuda_kernel *k, cuda_words *q, int64_t blocks) {
    void *parameters[64];
    CR_ASSERT(q->n <= 64);
    for (int i = 0; i < q->n; i++) parameters[i] = &q->w[i];
    return launch(g, op, k, parameters, blocks, CUDA_GROUP, 0);
}

cr_status cr_cuda_launch_shared(cuda *g, const char *op, const cuda_kernel *k, cuda_words *q, int64_t blocks, int threads, int shared) {
    void *parameters[] = {q->w};
    enum { MORE = 48 << 10 };                       /* bytes of shared memory that a kernel must ask for */
    if (shared > MORE && cr_cuda_check(g, op, "shared memory", cr_cu.FuncSetAttribute(k->function, CUDA_DYNAMIC_SHARED, shared)) != CR_OK) return cr_error_status();
    return launch(g, op, k, parameters, blocks, threads, (unsigned)shared);
}
cr_status cr_cuda_launch_struct(cuda *g, const char *op, const cuda_kernel *k, cuda_words *q, int64_t blocks) { return cr_cuda_launch_shared(g, op, k, q, blocks, CUDA_GROUP, 0); }

int64_t cr_cuda_blocks(const cuda *g, int64_t threads) {
    enum { EACH = 16 };                             /* blocks for a multiprocessor: twice what it holds, so that none waits for the last */
    const int64_t wanted = (threads + CUDA_GROUP - 1) / CUDA_GROUP, most = (int64_t)g->multiprocessors * EACH;
    return wanted < most ? wanted : most;
}
