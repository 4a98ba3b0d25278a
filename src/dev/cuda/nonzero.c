/* nonzero.c - the positions where a bool tensor is true (nonzero.cu): counts of pieces, running sums
 * of the counts, then the positions.  The host reads the count. */
#include "scan.h"
#include "nonzero.cu"

enum { PIECE = 512, WARPS = CUDA_GROUP / 32 };      /* elements of a warp; warps of a block */
static const char op[] = "nonzero";

static const cuda_kernel *kernel_of(cuda *g, const char *name) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_nonzero, name, "#define PIECE %d\n", PIECE);
}

static cr_status count(cuda *g, const cr_array *x, cuda_address ends, int64_t pieces) {
    cuda_block *counts = cr_cuda_block_take(g, op, 4 * (size_t)pieces);
    if (!counts) return cr_error_status();
    const count_arguments q = {.counts = counts->at, .x = cuda_address_of(x), .numel = x->numel, .pieces = pieces};
    const cuda_running sum = {.op = op,
                              .kind = CR_SCAN_SUM,
                              .from = CR_U32,
                              .to = CR_I64,
                              .y = ends,
                              .x = counts->at,
                              .M = 1,
                              .R = pieces,
                              .N = 1};
    cr_status status = cr_cuda_launch(g, op, kernel_of(g, "count"), &q, cuda_pieces(pieces, WARPS));
    if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
    cr_cuda_block_give(g, counts);
    return status;
}

static cr_status write_positions(cuda *g, const cr_array *y, const cr_array *x, cuda_address ends, int64_t pieces) {
    write_arguments q = {.y = cuda_address_of(y),
                         .x = cuda_address_of(x),
                         .ends = ends,
                         .numel = x->numel,
                         .pieces = pieces,
                         .room = y->shape[0],
                         .step = y->strides[0],
                         .column = y->strides[1],
                         .ndim = x->ndim};
    _Static_assert(sizeof q.shape / sizeof *q.shape == CR_MAX_DIMS, "write_arguments.shape");
    for (int d = 0; d < x->ndim; d++) q.shape[d] = x->shape[d];
    return cr_cuda_launch(g, op, kernel_of(g, "write"), &q, cuda_pieces(pieces, WARPS));
}

cr_status cr_cuda_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    int64_t *found = args->count;
    const int64_t pieces = cuda_pieces(x->numel, PIECE);
    *found = y ? y->shape[0] : 0;
    if (!pieces) return CR_OK;
    cuda *g = cr_cuda_enter(op, x->dev);
    /* of each piece: how many elements are true up to its end */
    cuda_block *ends = g ? cr_cuda_block_take(g, op, 8 * (size_t)pieces) : NULL;
    if (!g) return cr_error_status();
    cr_status status = ends ? count(g, x, ends->at, pieces) : cr_error_status();
    if (status == CR_OK && y) status = write_positions(g, y, x, ends->at, pieces);
    if (status == CR_OK && !y) {
        g->counters.downloads++;
        status = cr_cuda_read_bytes(g, op, found, ends->at + 8 * (cuda_address)(pieces - 1), 8,
                                    g->queue[CUDA_KERNELS].epoch);
    }
    if (ends) cr_cuda_block_give(g, ends);
    return cr_cuda_leave(g, status);
}
