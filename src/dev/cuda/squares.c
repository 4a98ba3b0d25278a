/* squares.c - the sum of the squares of many tensors, such as an optimizer's gradients, in two
 * launches: over pieces of all tensors, then over the sums of the pieces (squares.cu).  Pieces depend
 * on the shapes only. */
#include "reduce.h"
#include "squares.cu"

#include <assert.h>

static_assert((int)SQUARES_PIECE == (int)CR_SQUARES_PIECE, "the caller counts the pieces");

static int64_t pieces(const cr_array *x) { return cuda_pieces(x->numel, SQUARES_PIECE); }

/* The first of the tensors, and those after it of its dtype, as many as the arguments of a kernel
 * hold; returns how many, 0: an error.  first: the number of its first piece. */
static int64_t launch_squares(cuda *g, const char *op, cuda_address sums, int64_t first, int64_t n,
                              const cr_array *const *x) {
    const cr_dtype dt = x[0]->dtype;
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_squares, "squares", "#define T %s\n#define A %s\n",
                                             cr_cuda_type(dt), cr_cuda_wide(dt));
    squares_arguments q = {.sums = sums, .first = first};
    int64_t blocks = 0, i = 0;
    for (int used = 0; i < n && x[i]->dtype == dt && used < SQUARES_TENSORS; i++) {
        if (!x[i]->numel) continue;
        q.tensor[used].x = cuda_address_of(x[i]);
        q.tensor[used++].numel = x[i]->numel;
        blocks += pieces(x[i]);
    }
    return cr_cuda_launch(g, op, k, &q, blocks) == CR_OK ? i : 0;
}

cr_status cr_cuda_sum_squares(const cr_sum_squares_args *args) {
    static const char op[] = "sum_squares";
    cuda *g = cr_cuda_enter(op, args->y.dev);
    if (!g) return cr_error_status();
    int64_t all = 0, done = 1, first = 0;
    for (int64_t i = 0; i < args->n; i++) all += pieces(args->x[i]);
    const bool each = args->y.ndim > 0;
    cuda_block *sums = each ? NULL : cr_cuda_block_take(g, op, (size_t)(all + 1) * sizeof(double));
    if (!each && !sums) return cr_cuda_leave(g, cr_error_status());
    const cuda_address at = each ? cuda_address_of(&args->y) : sums->at;
    for (int64_t i = 0; i < args->n && done; i += done) {
        done = launch_squares(g, op, at, first, args->n - i, args->x + i);
        for (int64_t j = i; j < i + done; j++) first += pieces(args->x[j]);
    }
    if (each) return cr_cuda_leave(g, done ? CR_OK : cr_error_status());
    const cuda_reduction s = {.op = op, .how = {.kind = CR_REDUCE_SUM}, .from = CR_F64, .acc = CR_F64, .to = CR_F64,
                              .at = {1, all, 1, {0, 1, 1}}, .x = sums->at};
    const cr_status status = done ? cr_cuda_reduce_slab(g, &s, cuda_address_of(&args->y)) : cr_error_status();
    cr_cuda_block_give(g, sums);
    return cr_cuda_leave(g, status);
}
