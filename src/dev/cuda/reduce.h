/* reduce.h - reductions for other kernels, and their division over threads. */
#ifndef CR_CUDA_REDUCE_H
#define CR_CUDA_REDUCE_H

#include "gpu.h"

typedef struct cuda_cut {                           /* how x (M, R, N) is divided over threads; depends on the shape
                                                     * only */
    int64_t width;                                  /* threads that share a result, a power of two */
    bool along;                                     /* they are neighbours along R; else along N */
    int64_t parts, part_size, blocks;               /* parts of R, each with a result of its own */
} cuda_cut;
cuda_cut cr_cuda_cut_of(int64_t results, int64_t R, int64_t N, int64_t stride_r, int64_t stride_n);

typedef struct cuda_reduction {
    const char *op;
    cr_reduce_how how;
    cr_dtype from, acc, to;
    cr_slab at;
    cuda_address x, sums;                           /* sums (M, N): of deviations */
} cuda_reduction;
cr_status cr_cuda_reduce_slab(cuda *g, const cuda_reduction *s, cuda_address y);      /* y (M, N) */

#endif
