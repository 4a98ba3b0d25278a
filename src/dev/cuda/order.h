/* order.h - scans and sorted rows within other kernels. */
#ifndef CR_CUDA_ORDER_H
#define CR_CUDA_ORDER_H

#include "gpu.h"

typedef struct cuda_scanned {                       /* as dev.h's scan */
    cr_scan_kind kind;
    bool reverse;
    cr_dtype from, to;
    cuda_address y, index, x, a;                    /* index, a: 0: none */
    int64_t M, R, N;
} cuda_scanned;
cr_status cuda_scan_at(cuda *g, const char *op, const cuda_scanned *s);

/* Rows of x (M, R) in order, as keys that are in the same order (u32, or u64 where elements have 8 bytes), and where each lay, i64.  Stable;
 * NaN is the largest.  The caller gives both back. */
typedef struct cuda_sorted { cuda_block *keys, *order; } cuda_sorted;
cr_status cuda_sort_rows(cuda *g, const char *op, cr_dtype dt, cuda_address x, int64_t M, int64_t R, bool descending, cuda_sorted *s);
void      cuda_sorted_give(cuda *g, cuda_sorted *s);
/* The first K of each row: y (M, K), NULL: not wanted, and index (M, K). */
cr_status cuda_sorted_pick(cuda *g, const char *op, cr_dtype dt, const cuda_sorted *s, cuda_address y, cuda_address index, cuda_address x, int64_t M, int64_t R, int64_t K);

#endif
