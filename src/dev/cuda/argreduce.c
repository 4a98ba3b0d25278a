/* argreduce.c - where the first largest or smallest element of x (M, R, N) lies along R: (M, N) i64.  In stages as in reduce.c, with
 * positions in place of values: a later stage looks at the elements where those before found the best of their part. */
#include "reduce.h"

/* before: (M, candidates, N) positions; 0: every position is a candidate. */
static cr_status run_stages(cuda *g, const char *op, bool max, cuda_address y, const cr_array *x, const cr_array *at, cuda_address before, int64_t candidates) {
    const cuda_cut c = cr_cuda_cut_of(at->shape[0] * at->shape[2], candidates, at->shape[2], at->strides[1], at->strides[2]);
    const bool last = c.parts == 1;
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_argreduce, "arg_reduce", "#define T %s\n#define MAX %d\n", cr_cuda_type(x->dtype), max);
    if (!k) return cr_error_status();
    cuda_block *found = last ? NULL : cr_cuda_block_take(g, op, 8 * (size_t)(at->shape[0] * c.parts * at->shape[2]));
    if (!last && !found) return cr_error_status();
    cuda_words q = {.n = 13, .w = {last ? y : found->at, cuda_address_of(x), before, (uint64_t)at->shape[2], (uint64_t)candidates, (uint64_t)at->strides[0], (uint64_t)at->strides[1],
                                   (uint64_t)at->strides[2], (uint64_t)c.parts, (uint64_t)c.part_size, (uint64_t)(at->shape[0] * c.parts * at->shape[2]), (uint64_t)c.width, c.along}};
    cr_status status = cr_cuda_launch(g, op, k, &q, c.blocks);
    if (last) return status;
    if (status == CR_OK) status = run_stages(g, op, max, y, x, at, found->at, c.parts);
    cr_cuda_block_give(g, found);
    return status;
}

cr_status cr_cuda_arg_reduce(const cr_arg_reduce_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *at = &args->x;
    const bool max = args->max;
    const char *op = max ? "argmax" : "argmin";
    if (!at->shape[0] || !at->shape[2]) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    return g ? cr_cuda_leave(g, run_stages(g, op, max, cuda_address_of(y), x, at, 0, at->shape[1])) : cr_error_status();
}
