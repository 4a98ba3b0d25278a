/* nonzero.c - where a bool tensor is true (nonzero.cu): counts of its pieces, added up, then the places.  How many there are is read back. */
#include "scan.h"

enum { PIECE = 512, WARPS = CUDA_GROUP / 32 };      /* elements of a warp; warps of a block */
static const char op[] = "nonzero";

static cr_status count(cuda *g, const cr_array *x, cuda_address ends, int64_t pieces) {
    cuda_block *counts = cr_cuda_block_take(g, op, 4 * (size_t)pieces);
    const cuda_kernel *k = counts ? cr_cuda_kernel_of(g, op, cr_cuda_source_nonzero, "count", "#define PIECE %d\n", PIECE) : NULL;
    cuda_words q = {.n = 4, .w = {counts ? counts->at : 0, cuda_address_of(x), (uint64_t)x->numel, (uint64_t)pieces}};
    const cuda_running sum = {.op = op, .kind = CR_SCAN_SUM, .from = CR_U32, .to = CR_I64, .y = ends, .x = q.w[0], .M = 1, .R = pieces, .N = 1};
    cr_status status = k ? cr_cuda_launch(g, op, k, &q, (pieces + WARPS - 1) / WARPS) : cr_error_status();
    if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
    if (counts) cr_cuda_block_give(g, counts);
    return status;
}

static cr_status write(cuda *g, const cr_array *y, const cr_array *x, cuda_address ends, int64_t pieces) {
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_nonzero, "write", "#define PIECE %d\n", PIECE);
    cuda_words q = {.n = 9, .w = {cuda_address_of(y), cuda_address_of(x), ends, (uint64_t)x->numel, (uint64_t)pieces, (uint64_t)y->shape[0], (uint64_t)y->strides[0], (uint64_t)y->strides[1],
                                  (uint64_t)x->ndim}};
    for (int d = 0; d < CR_MAX_DIMS; d++) cuda_push(&q, d < x->ndim ? (uint64_t)x->shape[d] : 1);
    return k ? cr_cuda_launch_struct(g, op, k, &q, (pieces + WARPS - 1) / WARPS) : cr_error_status();
}

cr_status cr_cuda_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    int64_t *found = args->count;
    const int64_t pieces = (x->numel + PIECE - 1) / PIECE;
    *found = y ? y->shape[0] : 0;
    if (!pieces) return CR_OK;
    cuda *g = cr_cuda_enter(op, x->dev);
    cuda_block *ends = g ? cr_cuda_block_take(g, op, 8 * (size_t)pieces) : NULL;      /* of each piece: how many up to there */
    if (!g) return cr_error_status();
    cr_status status = ends ? count(g, x, ends->at, pieces) : cr_error_status();
    if (status == CR_OK && y) status = write(g, y, x, ends->at, pieces);
    if (status == CR_OK && !y) {
        g->counters.downloads++;
        status = cr_cuda_read_bytes(g, op, found, ends->at + 8 * (cuda_address)(pieces - 1), 8, g->line[CUDA_KERNELS].turn);
    }
    if (ends) cr_cuda_block_give(g, ends);
    return cr_cuda_leave(g, status);
}
