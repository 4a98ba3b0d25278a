/* argreduce.c - the position of the first largest or smallest element of x (M, R, N) along R: (M, N)
 * i64.  In stages as in reduce.c, with positions in place of values: a later stage reads the elements
 * at the positions that the stage before it found, one of each part. */
#include "reduce.h"
#include "argreduce.cu"

/* before: (M, candidates, N) positions; 0: every position is a candidate. */
static cr_status run_stages(cuda *g, const char *op, const cr_arg_reduce_args *args, cuda_address before,
                            int64_t candidates) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], N = x->shape[2];
    const cuda_cut c = cr_cuda_cut_of(M * N, candidates, N, x->strides[1], x->strides[2]);
    const bool last = c.parts == 1;
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_argreduce, "arg_reduce",
                                             "#define T %s\n#define MAX %d\n", cr_cuda_type(x->dtype), args->max);
    if (!k) return cr_error_status();
    cuda_block *found = last ? NULL : cr_cuda_block_take(g, op, 8 * (size_t)(M * c.parts * N));
    if (!last && !found) return cr_error_status();
    const arg_reduce_arguments q = {.y = last ? cuda_address_of(&args->y) : found->at,
                                    .x = cuda_address_of(x),
                                    .before = before,
                                    .N = N,
                                    .candidates = candidates,
                                    .stride_m = x->strides[0],
                                    .stride_r = x->strides[1],
                                    .stride_n = x->strides[2],
                                    .parts = c.parts,
                                    .part_size = c.part_size,
                                    .results = M * c.parts * N,
                                    .width = c.width,
                                    .along = c.along};
    cr_status status = cr_cuda_launch(g, op, k, &q, c.blocks);
    if (last) return status;
    if (status == CR_OK) status = run_stages(g, op, args, found->at, c.parts);
    cr_cuda_block_give(g, found);
    return status;
}

cr_status cr_cuda_arg_reduce(const cr_arg_reduce_args *args) {
    const char *op = args->max ? "argmax" : "argmin";
    if (!args->x.shape[0] || !args->x.shape[2]) return CR_OK;
    cuda *g = cr_cuda_enter(op, args->y.dev);
    return g ? cr_cuda_leave(g, run_stages(g, op, args, 0, args->x.shape[1])) : cr_error_status();
}
