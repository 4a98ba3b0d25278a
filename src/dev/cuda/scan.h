/* scan.h - running sums for other kernels. */
#ifndef CR_CUDA_SCAN_H
#define CR_CUDA_SCAN_H

#include "gpu.h"

typedef struct cuda_running {
    const char *op;
    cr_scan_kind kind;
    bool reverse, in_order;                         /* in_order: step by step, with weights a (0: none) */
    cr_dtype from, to;
    cuda_address y, index, x, a;                    /* index, a: 0: absent */
    int64_t M, R, N;
} cuda_running;
cr_status cr_cuda_run_along(cuda *g, const cuda_running *s);

#endif
