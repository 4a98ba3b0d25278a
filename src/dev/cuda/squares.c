/* squares.c - the sum of the squares of many tensors, an optimizer's gradients, in two launches: of pieces of all of them, then of the
 * pieces (squares.cu).  Pieces depend on the shapes alone. */
#include "reduce.h"

enum { PIECE = 16384 };                             /* elements of a block */
static int64_t pieces(const cr_array *x) { return (x->numel + PIECE - 1) / PIECE; }

/* The first of the tensors, and those after it of its dtype that the parameters of a kernel hold; returns how many.  first: where its sums begin. */
static int64_t run(cuda *g, const char *op, cuda_address sums, int64_t first, int64_t n, const cr_array *const *x) {
    const cr_dtype dt = x[0]->dtype;
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_squares, "squares", "#define T %s\n#define A %s\n#define PIECE %d\n#define WORDS %d\n", cr_cuda_type(dt), cr_cuda_wide(dt), PIECE, CUDA_WORDS);
    cuda_words q = {.n = 2, .w = {sums, (uint64_t)first}};
    int64_t blocks = 0, i = 0;
    for (; i < n && x[i]->dtype == dt && q.n + 2 <= CUDA_WORDS; i++) {
        if (!x[i]->numel) continue;
        cuda_push(&q, cuda_address_of(x[i]));
        cuda_push(&q, (uint64_t)x[i]->numel);
        blocks += pieces(x[i]);
    }
    return k && cr_cuda_launch_struct(g, op, k, &q, blocks) == CR_OK ? i : 0;
}

cr_status cr_cuda_sum_squares(const cr_sum_squares_args *args) {
    const cr_array *y = &args->y;
    const int64_t n = args->n;
    const cr_array *const *x = args->x;
    static const char op[] = "sum_squares";
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    int64_t all = 0, done = 1, first = 0;
    for (int64_t i = 0; i < n; i++) all += pieces(x[i]);
    cuda_block *sums = cr_cuda_block_take(g, op, (size_t)(all + 1) * sizeof(double));
    if (!sums) return cr_cuda_leave(g, cr_error_status());
    for (int64_t i = 0; i < n && done; i += done) {
        done = run(g, op, sums->at, first, n - i, x + i);
        for (int64_t j = i; j < i + done; j++) first += pieces(x[j]);
    }
    const cuda_reduction s = {.op = op, .how = {.kind = CR_REDUCE_SUM}, .from = CR_F64, .acc = CR_F64, .to = CR_F64, .at = {1, all, 1, {0, 1, 1}}, .x = sums->at};
    const cr_status status = done ? cr_cuda_reduce_slab(g, &s, cuda_address_of(y)) : cr_error_status();
    cr_cuda_block_give(g, sums);
    return cr_cuda_leave(g, status);
}
