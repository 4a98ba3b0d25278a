/* order.h - sorted rows for other kernels. */
#ifndef CR_CUDA_ORDER_H
#define CR_CUDA_ORDER_H

#include "gpu.h"

typedef struct cuda_ordering {
    const char *op;
    cr_dtype dtype;
    bool descending;
    cuda_address y, index, x;                       /* y: the sorted elements; 0: not wanted */
    int64_t M, R, K;
} cuda_ordering;
/* the first K of each row of x (M, R): (M, K) */
cr_status cr_cuda_order_rows(cuda *g, const cuda_ordering *s);

#endif
