/* all.c - the list of structured ops, for tests. */
#include "compose.h"

const cr_op *const cr_ops_all[] = {
    &cr_op_alias, &cr_op_view, &cr_op_permute, &cr_op_expand, &cr_op_part, &cr_op_embed_part, &cr_op_replace_part,
    &cr_op_clone, &cr_op_cast, &cr_op_transfer, &cr_op_cat, &cr_op_roll, &cr_op_pad, &cr_op_triangle,
    &cr_op_sum, &cr_op_sum_squares, &cr_op_nansum, &cr_op_prod, &cr_op_max, &cr_op_min, &cr_op_any, &cr_op_all, &cr_op_count_nonzero,
    &cr_op_var, &cr_op_std, &cr_op_vector_norm, &cr_op_logsumexp, &cr_op_argmax, &cr_op_argmin,
    &cr_op_cumsum, &cr_op_cumprod, &cr_op_logcumsumexp, &cr_op_cummax, &cr_op_cummin,
    &cr_op_sort, &cr_op_kth, &cr_op_search, &cr_op_runs,
    &cr_op_matmul, &cr_op_addmm, &cr_op_linear, &cr_op_linear_gelu, &cr_op_mlp, &cr_op_gather, &cr_op_scatter, &cr_op_scatter_extreme,
    &cr_op_take, &cr_op_put, &cr_op_ravel, &cr_op_nonzero,
    &cr_op_softmax, &cr_op_log_softmax, &cr_op_layer_norm, &cr_op_rms_norm, &cr_op_cross_entropy,
    &cr_op_attention,
    NULL,
};
