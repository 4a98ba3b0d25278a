/* launch.c - launches kernels in the stream of kernels. */
#include "gpu.h"

cr_status cr_cuda_launch_shared(cuda *g, const char *op, const cuda_kernel *k, const void *argument, int64_t blocks,
                                int threads, int shared) {
    enum { DEFAULT_SHARED = 48 << 10 };             /* bytes of dynamic shared memory above which a kernel must ask
                                                     * for them */
    void *parameters[] = {(void *)(uintptr_t)argument};
    if (!k) return cr_error_status();
    if (!blocks) return CR_OK;
    if (blocks > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, op, "%s runs at most %d blocks of a kernel: this takes %lld", g->name, INT32_MAX,
                       (long long)blocks);
    if (shared > DEFAULT_SHARED) {
        const cr_status status = cr_cuda_check(g, op, "shared memory",
                                               cr_cu.FuncSetAttribute(k->function, CUDA_DYNAMIC_SHARED, shared));
        if (status != CR_OK) return status;
    }
    g->counters.launches++;
    cuda_span *span = cr_cuda_span_begin(g, CUDA_KERNELS, op, k->name);
    int error;
    do
        error = cr_cu.LaunchKernel(k->function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, (unsigned)shared,
                                   g->stream, parameters, NULL);
    while (error && cr_cuda_make_room(g, error));
    cr_cuda_span_stop(g, span);
    return cr_cuda_check(g, op, "a kernel does not start", error);
}

cr_status cr_cuda_launch(cuda *g, const char *op, const cuda_kernel *k, const void *argument, int64_t blocks) {
    return cr_cuda_launch_shared(g, op, k, argument, blocks, CUDA_GROUP, 0);
}

int64_t cr_cuda_blocks(const cuda *g, int64_t threads) {
    enum { EACH = 16 };                             /* blocks for a multiprocessor: twice what it holds, so that
                                                     * multiprocessors end at about the same time */
    return cr_imin(cuda_pieces(threads, CUDA_GROUP), (int64_t)g->multiprocessors * EACH);
}
