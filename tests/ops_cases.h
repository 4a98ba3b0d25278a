/* ops_cases.h - every structured op as a table: what to call, over which shapes, for which dtypes.
 * test_ops holds the values against `ref`, test_grad the gradients.  Sizes are distinct primes, empty
 * and 0-d shapes are normal, one or two cases of each op are longer than a block of the cpu's kernels. */
#ifndef CR_OPS_CASES_H
#define CR_OPS_CASES_H

#include "check.h"
#include "ops/linear.h"
#include "ops/op.h"

typedef enum takes { FLOATS = 1, WHOLES = 2, BOOLS = 4, NUMBERS = 3, ANYTHING = 7 } takes;
typedef const cr_tensor *const *inputs;

typedef struct op_case {
    const char *op, *what;                          /* op: as in cr_ops_all, or the name of the public function */
    cr_tensor *(*run)(inputs in);
    takes dtypes;
    bool smooth;                                    /* has first and second derivatives that differences can see */
    int64_t terms;                                  /* in the longest sum behind an element */
    spec in[4];                                     /* ends with an entry of ndim -1, see IN */
} op_case;

#define SHAPE(...) .ndim = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .shape = {__VA_ARGS__}

/* ---- reductions */
static cr_tensor *sum_all(inputs in) { return cr_sum(in[0], CR_ALL, false); }
static cr_tensor *sum_squares(inputs in) { return cr_sum_squares(in[0]); }
static cr_tensor *sum_0(inputs in) { return cr_sum(in[0], CR_LIST(0), false); }
static cr_tensor *sum_1(inputs in) { return cr_sum(in[0], CR_LIST(1), true); }
static cr_tensor *sum_last(inputs in) { return cr_sum(in[0], CR_LIST(-1), false); }
static cr_tensor *sum_0_2(inputs in) { return cr_sum(in[0], CR_LIST(2, 0), false); }
static cr_tensor *sum_0_2_kept(inputs in) { return cr_sum(in[0], CR_LIST(0, 2), true); }
static cr_tensor *mean_all(inputs in) { return cr_mean(in[0], CR_ALL, false); }
static cr_tensor *mean_0_2(inputs in) { return cr_mean(in[0], CR_LIST(0, 2), true); }
static cr_tensor *max_all(inputs in) { return cr_max(in[0], CR_ALL, true); }
static cr_tensor *max_1(inputs in) { return cr_max(in[0], CR_LIST(1), false); }
static cr_tensor *max_last(inputs in) { return cr_max(in[0], CR_LIST(-1), true); }
static cr_tensor *min_all(inputs in) { return cr_min(in[0], CR_ALL, false); }
static cr_tensor *min_0_2(inputs in) { return cr_min(in[0], CR_LIST(0, 2), false); }
static cr_tensor *var_all(inputs in) { return cr_var(in[0], CR_ALL, 1, false); }
static cr_tensor *var_last(inputs in) { return cr_var(in[0], CR_LIST(-1), 0, true); }
static cr_tensor *var_0(inputs in) { return cr_var(in[0], CR_LIST(0), 1.5, false); }
static cr_tensor *var_0_2(inputs in) { return cr_var(in[0], CR_LIST(0, 2), 1, false); }
static cr_tensor *std_last(inputs in) { return cr_std(in[0], CR_LIST(-1), 1, false); }
static cr_tensor *std_0_2(inputs in) { return cr_std(in[0], CR_LIST(2, 0), 0, true); }
static cr_tensor *prod_all(inputs in) { return cr_prod(in[0], CR_ALL, false); }
static cr_tensor *prod_1(inputs in) { return cr_prod(in[0], CR_LIST(1), false); }
static cr_tensor *prod_0_2(inputs in) { return cr_prod(in[0], CR_LIST(0, 2), true); }
static cr_tensor *nansum_1(inputs in) { return cr_nansum(in[0], CR_LIST(1), false); }
static cr_tensor *nanmean_0_2(inputs in) { return cr_nanmean(in[0], CR_LIST(0, 2), true); }
static cr_tensor *any_all(inputs in) { return cr_any(in[0], CR_ALL, true); }
static cr_tensor *any_1(inputs in) { return cr_any(in[0], CR_LIST(1), false); }
static cr_tensor *all_last(inputs in) { return cr_all(in[0], CR_LIST(-1), false); }
static cr_tensor *all_0_2(inputs in) { return cr_all(in[0], CR_LIST(0, 2), true); }
static cr_tensor *count_all(inputs in) { return cr_count_nonzero(in[0], CR_ALL); }
static cr_tensor *count_0_2(inputs in) { return cr_count_nonzero(in[0], CR_LIST(0, 2)); }
static cr_tensor *norm_2(inputs in) { return cr_norm(in[0], 2, CR_ALL, false); }
static cr_tensor *norm_2_1(inputs in) { return cr_norm(in[0], 2, CR_LIST(1), true); }
static cr_tensor *norm_1_last(inputs in) { return cr_norm(in[0], 1, CR_LIST(-1), false); }
static cr_tensor *norm_0_0(inputs in) { return cr_norm(in[0], 0, CR_LIST(0), false); }
static cr_tensor *norm_inf_1(inputs in) { return cr_norm(in[0], INFINITY, CR_LIST(1), false); }
static cr_tensor *norm_low_0_2(inputs in) { return cr_norm(in[0], -INFINITY, CR_LIST(0, 2), false); }
static cr_tensor *norm_3_0_2(inputs in) { return cr_norm(in[0], 3, CR_LIST(0, 2), true); }
static cr_tensor *norm_half(inputs in) { return cr_norm(in[0], 0.5, CR_LIST(-1), false); }
static cr_tensor *norm_less(inputs in) { return cr_norm(in[0], -1.5, CR_LIST(-1), false); }
static cr_tensor *logsumexp_0_2(inputs in) { return cr_logsumexp(in[0], CR_LIST(0, 2), false); }
static cr_tensor *both_ends(inputs in) {
    cr_tensor *max, *min = cr_aminmax(in[0], CR_LIST(1), false, &max);
    return cr_sub(cr_mul_scalar(max, 2), min);
}
static cr_tensor *max_along_1(inputs in) { return cr_max_along(in[0], 1, false, NULL); }
static cr_tensor *min_along_last(inputs in) { return cr_min_along(in[0], -1, true, NULL); }
static cr_tensor *logsumexp_all(inputs in) { return cr_logsumexp(in[0], CR_ALL, false); }
static cr_tensor *logsumexp_1(inputs in) { return cr_logsumexp(in[0], CR_LIST(1), true); }
static cr_tensor *argmax_0(inputs in) { return cr_argmax(in[0], 0, false); }
static cr_tensor *argmax_last(inputs in) { return cr_argmax(in[0], -1, true); }
static cr_tensor *argmin_1(inputs in) { return cr_argmin(in[0], 1, false); }

/* ---- order */
extern const cr_op cr_op_runs;
static cr_tensor *sort_last(inputs in) { return cr_sort(in[0], -1, false, NULL); }
static cr_tensor *sort_0_down(inputs in) { return cr_sort(in[0], 0, true, NULL); }
static cr_tensor *argsort_last(inputs in) { return cr_argsort(in[0], -1, false); }
static cr_tensor *argsort_0_down(inputs in) { return cr_argsort(in[0], 0, true); }
static cr_tensor *topk_last(inputs in) { return cr_topk(in[0], 3, -1, true, NULL); }
static cr_tensor *topk_0_low(inputs in) { return cr_topk(in[0], 2, 0, false, NULL); }
static cr_tensor *kthvalue_last(inputs in) { return cr_kthvalue(in[0], 5, -1, true, NULL); }
static cr_tensor *kthvalue_0(inputs in) { return cr_kthvalue(in[0], 2, 0, false, NULL); }
static cr_tensor *median_all(inputs in) { return cr_median(in[0], CR_ALL, false, NULL); }
static cr_tensor *median_1(inputs in) { return cr_median(in[0], CR_LIST(1), true, NULL); }
static cr_tensor *nanmedian_all(inputs in) { return cr_nanmedian(in[0], CR_ALL, true, NULL); }
static cr_tensor *nanmedian_0(inputs in) { return cr_nanmedian(in[0], CR_LIST(0), false, NULL); }
static cr_tensor *mode_1(inputs in) { return cr_mode(in[0], 1, false, NULL); }
static cr_tensor *quantile_all(inputs in) {
    return cr_quantile(in[0], cr_scalar(0.3), CR_ALL, false, CR_LINEAR, false);
}
static cr_tensor *quantile_0(inputs in) {
    return cr_quantile(in[0], cr_scalar(0.75), CR_LIST(0), true, CR_MIDPOINT, true);
}
static cr_tensor *searchsorted(inputs in) {
    return cr_searchsorted(cr_sort(in[0], -1, false, NULL), in[1], false, CR_NONE);
}
static cr_tensor *searchsorted_right(inputs in) {
    return cr_searchsorted(in[0], in[1], true, cr_argsort(in[0], -1, false));
}
static cr_tensor *runs(inputs in) {
    struct { bool wanted; } which = {true};
    return cr_apply(&cr_op_runs, 2, (const cr_tensor *[]){in[0], CR_NONE}, &which);
}

/* ---- scans */
extern const cr_op cr_op_cumsum;
/* what the gradients of cumprod and logcumsumexp are made of (ops/scan.h) */
static cr_tensor *recurrence_of(inputs in, bool reverse) {
    struct { int axis; bool reverse; } along = {1, reverse};
    return cr_apply(&cr_op_cumsum, 2, in, &along);
}
static cr_tensor *recurrence(inputs in) { return recurrence_of(in, false); }
static cr_tensor *recurrence_back(inputs in) { return recurrence_of(in, true); }
static cr_tensor *cumsum_0(inputs in) { return cr_cumsum(in[0], 0); }
static cr_tensor *cumsum_last(inputs in) { return cr_cumsum(in[0], -1); }
static cr_tensor *cumprod_1(inputs in) { return cr_cumprod(in[0], 1); }
static cr_tensor *cumprod_0(inputs in) { return cr_cumprod(in[0], 0); }
static cr_tensor *logcumsumexp_0(inputs in) { return cr_logcumsumexp(in[0], 0); }
static cr_tensor *logcumsumexp_last(inputs in) { return cr_logcumsumexp(in[0], -1); }
static cr_tensor *cummax_1(inputs in) { return cr_cummax(in[0], 1, NULL); }
static cr_tensor *cummin_last(inputs in) { return cr_cummin(in[0], -1, NULL); }
static cr_tensor *cummax_where(inputs in) { cr_tensor *index; return cr_cummax(in[0], 0, &index) ? index : NULL; }
static cr_tensor *cummin_where(inputs in) { cr_tensor *index; return cr_cummin(in[0], -1, &index) ? index : NULL; }
static cr_tensor *diff_1(inputs in) { return cr_diff(in[0], 1, 1); }
static cr_tensor *diff_twice(inputs in) { return cr_diff(in[0], 2, -1); }

/* ---- shape and copies */
static cr_tensor *reshape_35(inputs in) { return cr_reshape(in[0], CR_LIST(5, -1, 7)); }
static cr_tensor *reshape_flat(inputs in) { return cr_reshape(in[0], CR_LIST(-1)); }
static cr_tensor *reshape_scalar(inputs in) { return cr_reshape(in[0], CR_ALL); }
static cr_tensor *view_split(inputs in) { return cr_view(cr_contiguous(in[0]), CR_LIST(3, 5, 7)); }
static cr_tensor *transpose_02(inputs in) { return cr_transpose(in[0], 0, 2); }
static cr_tensor *permute_201(inputs in) { return cr_permute(in[0], CR_LIST(2, 0, 1)); }
static cr_tensor *slice_middle(inputs in) { return cr_slice(in[0], 1, 1, -1, 2); }
static cr_tensor *slice_back(inputs in) { return cr_slice(in[0], 1, -2, INT64_MIN, -3); }
static cr_tensor *slice_none(inputs in) { return cr_slice(in[0], 0, 2, 2, 1); }
static cr_tensor *select_1(inputs in) { return cr_select(in[0], 1, -2); }
static cr_tensor *index_part(inputs in) {
    return cr_index(in[0], 3, (cr_part[]){{1, INT64_MAX, 2}, {-2, 0, 0}, {0, -1, 1}});
}
static cr_tensor *index_one(inputs in) { return cr_index(in[0], 2, (cr_part[]){{1, 0, 0}, {-1, 0, 0}}); }
static cr_tensor *expand_3(inputs in) { return cr_expand(in[0], CR_LIST(4, -1, 3, 5)); }
static cr_tensor *squeeze_all(inputs in) { return cr_squeeze(in[0], CR_ALL); }
static cr_tensor *squeeze_1(inputs in) { return cr_squeeze(in[0], CR_LIST(1)); }
static cr_tensor *unsqueeze_1(inputs in) { return cr_unsqueeze(in[0], 1); }
static cr_tensor *flatten_12(inputs in) { return cr_flatten(in[0], 1, -1); }
static cr_tensor *contiguous(inputs in) { return cr_contiguous(cr_transpose(in[0], 0, -1)); }
static cr_tensor *clone(inputs in) { return cr_clone(in[0]); }
static cr_tensor *cat_0(inputs in) { return cr_cat(3, in, 0); }
static cr_tensor *cat_1(inputs in) { return cr_cat(2, in, -1); }
static cr_tensor *stack_1(inputs in) { return cr_stack(2, in, 1); }
static cr_tensor *split_middle(inputs in) {         /* pieces 3, 3 and 1 of 7, put together in another order */
    cr_tensor *part[3];
    if (cr_split(in[0], 3, 1, 3, part) != CR_OK) return NULL;
    const cr_tensor *order[3] = {part[2], part[0], part[1]};
    return cr_cat(3, order, 1);
}
static cr_tensor *chunked(inputs in) {              /* pieces 3, 3 and 1 of 7, and the unbound first, put together in
                                                     * another order */
    cr_tensor *part[4], *row[3];
    if (cr_split_chunks(in[0], 3, 1, part) != 3 || cr_split_sizes(part[0], 1, 3, (int64_t[]){0, 2, 1}, row) != CR_OK)
        return NULL;
    return cr_cat(4, (const cr_tensor *[]){row[2], part[2], row[1], part[1]}, 1);
}
static cr_tensor *unbound(inputs in) {
    cr_tensor *part[3];
    return cr_unbind(in[0], -1, 3, part) == CR_OK ? cr_sub(part[2], part[0]) : NULL;
}
static cr_tensor *narrow_1(inputs in) { return cr_narrow(in[0], 1, -4, 3); }
static cr_tensor *unflatten_1(inputs in) { return cr_unflatten(in[0], 1, 2, (int64_t[]){5, -1}); }
static cr_tensor *movedim_02(inputs in) { return cr_movedim(in[0], 2, (int64_t[]){0, -1}, (int64_t[]){1, 0}); }
static cr_tensor *diagonal_0(inputs in) { return cr_diagonal(in[0], 0, 0, 1); }
static cr_tensor *diagonal_up(inputs in) { return cr_diagonal(in[0], 2, -1, 0); }
static cr_tensor *diagonal_none(inputs in) { return cr_diagonal(in[0], -3, 0, 1); }
static cr_tensor *unfold_apart(inputs in) { return cr_unfold(in[0], 1, 2, 3); }
static cr_tensor *unfold_shared(inputs in) { return cr_unfold(in[0], 0, 3, 2); }
static cr_tensor *unfold_twice(inputs in) { return cr_unfold(cr_unfold(in[0], 0, 3, 1), 1, 2, 1); }
static cr_tensor *unfold_scalar(inputs in) { return cr_unfold(in[0], 0, 1, 1); }
static cr_tensor *meshgrid_xy(inputs in) {
    cr_tensor *out[3];
    return cr_meshgrid(3, in, true, out) == CR_OK ? cr_add(cr_mul(out[0], out[1]), out[2]) : NULL;
}
static cr_tensor *flip_all(inputs in) { return cr_flip(in[0], CR_ALL); }
static cr_tensor *flip_0(inputs in) { return cr_flip(in[0], CR_LIST(0)); }
static cr_tensor *roll_flat(inputs in) { return cr_roll(in[0], 1, (int64_t[]){-4}, NULL); }
static cr_tensor *roll_2(inputs in) { return cr_roll(in[0], 3, (int64_t[]){2, -1, 100}, (int64_t[]){0, 2, 0}); }
static cr_tensor *repeat_3(inputs in) { return cr_repeat(in[0], CR_LIST(2, 3, 1, 2)); }
static cr_tensor *repeat_many(inputs in) { return cr_repeat(in[0], CR_LIST(2, 1, 3, 2, 2, 2)); }
static cr_tensor *repeat_none(inputs in) { return cr_repeat(in[0], CR_LIST(2, 0)); }
static cr_tensor *tile_1(inputs in) { return cr_tile(in[0], CR_LIST(3)); }
static cr_tensor *each_1(inputs in) { return cr_repeat_interleave(in[0], 3, 1); }
static cr_tensor *each_last(inputs in) { return cr_repeat_interleave(in[0], 2, -1); }
static cr_tensor *each_by(inputs in) {
    return cr_repeat_interleave_by(in[0], cr_from((int64_t[]){2, 0, 3}, CR_LIST(3), CR_I64, cr_device_of(in[0])), 1);
}
static cr_tensor *pad_one(inputs in) { return cr_pad(in[0], CR_LIST(1, 2, 0, 3), CR_PAD_CONSTANT, 1); }
static cr_tensor *pad_crop(inputs in) { return cr_pad(in[0], CR_LIST(-1, 2, 4, -2), CR_PAD_CONSTANT, 0); }
static cr_tensor *pad_reflect(inputs in) { return cr_pad(in[0], CR_LIST(2, 4, 1, 0), CR_PAD_REFLECT, 0); }
static cr_tensor *pad_replicate(inputs in) { return cr_pad(in[0], CR_LIST(2, 7, 0, 1), CR_PAD_REPLICATE, 0); }
static cr_tensor *pad_circular(inputs in) { return cr_pad(in[0], CR_LIST(2, 5, 1, 3), CR_PAD_CIRCULAR, 0); }
static cr_tensor *part_backwards(inputs in) {
    return cr_apply(&cr_op_part, 1, (const cr_tensor *[]){cr_contiguous(in[0])},
                    &(cr_part_params){2, {2, 3}, {11, -3}, 9});
}
static cr_tensor *embed_shared(inputs in) {
    return cr_apply(&cr_op_embed_part, 1, in, &(cr_embed_params){{2, {4, 5}, {2, 1}, 1}, 1, {13}});
}
static cr_tensor *replace_part(inputs in) {
    return cr_apply(&cr_op_replace_part, 2, in, &(cr_part_params){2, {2, 3}, {11, 2}, 1});
}
/* its cotangent is nobody else's, and written over */
static cr_tensor *replace_inside(inputs in) { return cr_neg(replace_part(in)); }
static cr_tensor *pick_diagonal_low(inputs in) { return cr_tril(in[0], -1); }
static cr_tensor *pick_diagonal_high(inputs in) { return cr_triu(in[0], 1); }
static cr_tensor *pick_low(inputs in) { return cr_tril(in[0], 0); }

static cr_tensor *cast(inputs in) { return cr_to(in[0], CR_F64, cr_device_of(in[0])); }
static cr_tensor *cast_around(inputs in) {
    return cr_to(cr_to(in[0], CR_BF16, cr_device_of(in[0])), cr_dtype_of(in[0]), cr_device_of(in[0]));
}
static const cr_device *other_device(const cr_tensor *x) {
    return !strcmp(cr_device_name(cr_device_of(x)), "ref") ? cr_cpu() : cr_ref();
}
static cr_tensor *transfer(inputs in) { return cr_to(in[0], cr_dtype_of(in[0]), other_device(in[0])); }
static cr_tensor *transfer_odd(inputs in) { return transfer((const cr_tensor *[]){cr_transpose(in[0], 0, -1)}); }

/* Functions that otherwise only gradients use (ops/compose.h). */
cr_tensor *cr_alias(const cr_tensor *x);
extern const cr_op cr_op_put, cr_op_ravel;
static cr_tensor *alias(inputs in) { return cr_alias(in[0]); }
static cr_tensor *embed_inside(inputs in) {
    return cr_apply(&cr_op_embed_part, 1, in, &(cr_embed_params){{2, {3, 5}, {38, 6}, 5}, 3, {3, 19, 2}});
}
static cr_tensor *put_zeros(inputs in) {
    return cr_apply(&cr_op_put, 3, (const cr_tensor *[]){CR_NONE, in[1], in[0]},
                    &(cr_take_params){.name = "put", .count = 1, .sum = true, .ndim = 2, .shape = {5, 7}});
}
typedef struct ravel_sizes { const char *name; int64_t size[CR_MAX_DIMS]; } ravel_sizes;
static cr_tensor *ravel(inputs in) { return cr_apply(&cr_op_ravel, 2, in, &(ravel_sizes){"ravel", {5, 11}}); }

/* ---- products */
static cr_tensor *matmul(inputs in) { return cr_matmul(in[0], in[1]); }
static cr_tensor *matmul_turned(inputs in) {
    return cr_matmul(cr_transpose(in[0], -1, -2), cr_transpose(in[1], -1, -2));
}
static cr_tensor *addmm(inputs in) { return cr_addmm(in[0], in[1], in[2], 1, 1); }
static cr_tensor *addmm_scaled(inputs in) { return cr_addmm(in[0], in[1], in[2], -2, 3); }
static cr_tensor *addmm_only(inputs in) { return cr_addmm(in[0], in[1], in[2], 0, 1); }
static cr_tensor *addmv(inputs in) { return cr_addmv(in[0], in[1], in[2], 2, -1); }
static cr_tensor *addr(inputs in) { return cr_addr(in[0], in[1], in[2], 1, 3); }
static cr_tensor *baddbmm(inputs in) { return cr_baddbmm(in[0], in[1], in[2], 1, 1); }
static cr_tensor *addbmm(inputs in) { return cr_addbmm(in[0], in[1], in[2], 2, 1); }
static cr_tensor *outer(inputs in) { return cr_outer(in[0], in[1]); }
static cr_tensor *inner(inputs in) { return cr_inner(in[0], in[1]); }
static cr_tensor *kron(inputs in) { return cr_kron(in[0], in[1]); }
static cr_tensor *trace(inputs in) { return cr_trace(in[0]); }
static cr_tensor *tensordot(inputs in) {
    return cr_tensordot(in[0], in[1], 2, (const int64_t[]){-1, 0}, (const int64_t[]){0, 1});
}
static cr_tensor *einsum_heads(inputs in) { return cr_einsum("bqhd,bkhd->bhqk", 2, in); }
static cr_tensor *einsum_three(inputs in) { return cr_einsum("iji,jk,k", 3, in); }
static cr_tensor *linear(inputs in) { return cr_linear(in[0], in[1], in[2]); }
static cr_tensor *linear_bare(inputs in) { return cr_linear(in[0], in[1], CR_NONE); }
static cr_tensor *linear_relu(inputs in) { return cr_relu(cr_linear(in[0], in[1], in[2])); }
static cr_tensor *linear_gelu(inputs in) { return cr_gelu(cr_linear(in[0], in[1], in[2])); }
static cr_tensor *linear_gelu_tanh(inputs in) { return cr_linear_gelu(in[0], in[1], in[2]); }
static cr_tensor *linear_gelu_tanh_bare(inputs in) { return cr_linear_gelu(in[0], in[1], CR_NONE); }
static cr_tensor *linear_silu(inputs in) { return cr_silu(cr_linear(in[0], in[1], CR_NONE)); }
static cr_tensor *linear_tanh(inputs in) { return cr_tanh(cr_linear(in[0], in[1], in[2])); }
static cr_tensor *linear_sigmoid(inputs in) { return cr_sigmoid(cr_linear(in[0], in[1], in[2])); }
/* Packed rows (OC, C).  q8_0, q4_0: codes and scales follow formulas (golden/structured.py has them too); q4_k: bytes
 * that do, with 2^-9 for both halves. */
static cr_tensor *packed_weight(const cr_device *dev, int64_t OC, int64_t C, const char *format) {
    const bool k = !strcmp(format, "q4_k"), eight = !strcmp(format, "q8_0");
    const int64_t block = k ? 144 : eight ? 34 : 18, head = k ? 4 : 2, bytes = C / (k ? 256 : 32) * block;
    uint8_t *b = malloc((size_t)(OC * bytes));
    for (int64_t i = 0; i < OC * bytes; i++) {
        const int64_t n = i / bytes, at = i % bytes % block, group = i % bytes / block;
        const int64_t code = k ? i % bytes : group * (block - head) + at - head;
        if (at >= head) b[i] = (uint8_t)((n * 37 + code * 11 + 5) % 256);
        else if (k) b[i] = at % 2 ? 0x18 : 0;
        else if (!at) {
            const uint16_t half = cr_f32_to_f16((float)((n + 2 * group) % 7 + 1) / (eight ? 512 : 32));
            memcpy(b + i, &half, sizeof half);
        }
    }
    cr_tensor *w = cr_from(b, CR_LIST(OC, bytes), CR_U8, dev);
    free(b);
    return w;
}
static cr_tensor *packed(const cr_tensor *x, int64_t OC, const char *format, const cr_tensor *b) {
    return cr_linear_packed(x, packed_weight(cr_device_of(x), OC, cr_size(x, -1), format), format, b);
}
/* w + like */
static cr_tensor *unpacked(const cr_tensor *like, const char *format) {
    const cr_tensor *w = packed_weight(cr_device_of(like), cr_size(like, 0), cr_size(like, 1), format);
    return cr_add(cr_unpack(w, format, cr_dtype_of(like)), like);
}
static cr_tensor *unpacked_8(inputs in) { return unpacked(in[0], "q8_0"); }
static cr_tensor *unpacked_4(inputs in) { return unpacked(in[0], "q4_0"); }
static cr_tensor *unpacked_4_k(inputs in) { return unpacked(in[0], "q4_k"); }
static cr_tensor *packed_8(inputs in) { return packed(in[0], 7, "q8_0", in[1]); }
static cr_tensor *packed_8_bare(inputs in) { return cr_tanh(packed(in[0], 5, "q8_0", CR_NONE)); }
static cr_tensor *packed_8_long(inputs in) { return packed(in[0], 131, "q8_0", in[1]); }
static cr_tensor *packed_4(inputs in) { return packed(in[0], 7, "q4_0", in[1]); }
static cr_tensor *packed_4_gelu(inputs in) { return cr_gelu_tanh(packed(in[0], 7, "q4_0", in[1])); }
static cr_tensor *packed_4_long(inputs in) { return packed(in[0], 131, "q4_0", in[1]); }
static cr_tensor *packed_4_k(inputs in) { return packed(in[0], 5, "q4_k", CR_NONE); }
static cr_tensor *packed_4_k_long(inputs in) { return packed(in[0], 131, "q4_k", in[1]); }

/* ---- indexing */
static cr_tensor *gather_0(inputs in) { return cr_gather(in[0], 0, in[1]); }
static cr_tensor *gather_1(inputs in) { return cr_gather(in[0], 1, in[1]); }
static cr_tensor *gather_narrow(inputs in) { return cr_gather(in[0], -1, cr_to(in[1], CR_I32, cr_device_of(in[1]))); }
static cr_tensor *scatter_add_0(inputs in) { return cr_scatter_add(in[0], 0, in[1], in[2]); }
static cr_tensor *scatter_add_1(inputs in) { return cr_scatter_add(in[0], 1, in[1], in[2]); }
static cr_tensor *masked_fill(inputs in) { return cr_masked_fill(in[0], in[1], -3.5); }
static cr_tensor *masked_select(inputs in) { return cr_masked_select(in[0], in[1]); }
static cr_tensor *masked_scatter(inputs in) { return cr_masked_scatter(in[0], in[1], in[2]); }
static cr_tensor *nonzero(inputs in) { return cr_nonzero(in[0]); }
static cr_tensor *one_hot(inputs in) { return cr_one_hot(in[0], 7); }
static cr_tensor *take_along_axis(inputs in) { return cr_take_along_axis(in[0], 1, in[1]); }
static cr_tensor *take(inputs in) { return cr_take(in[0], in[1]); }
static cr_tensor *index_select_1(inputs in) { return cr_index_select(in[0], 1, in[1]); }
static cr_tensor *index_select_turned(inputs in) { return cr_index_select(cr_transpose(in[0], 0, -1), 0, in[1]); }
static cr_tensor *index_add_0(inputs in) { return cr_index_add(in[0], 0, in[1], in[2]); }
static cr_tensor *index_add_1(inputs in) { return cr_index_add(in[0], 1, in[1], in[2]); }
/* Places that differ: of two writes to one place the gradient is not that of the function. */
static cr_tensor *indices(inputs in, int n, const int64_t *shape) {
    return cr_reshape(cr_from((int64_t[]){4, 0, 2, 1}, CR_LIST(4), CR_I64, cr_device_of(in[0])), n, shape);
}
static cr_tensor *scatter_0(inputs in) {
    return cr_scatter(in[0], 0, cr_expand(indices(in, CR_LIST(4, 1)), CR_LIST(4, 3)), in[1]);
}
static cr_tensor *scatter_value(inputs in) {
    return cr_scatter(in[0], 1, indices(in, CR_LIST(2, 2)), cr_reshape(in[1], CR_ALL));
}
static cr_tensor *index_copy_1(inputs in) { return cr_index_copy(in[0], 1, indices(in, CR_LIST(4)), in[1]); }
static cr_tensor *index_fill_1(inputs in) {
    return cr_index_fill(in[0], 1, indices(in, CR_LIST(4)), cr_reshape(in[1], CR_ALL));
}
static cr_tensor *scatter_multiply_0(inputs in) { return cr_scatter_multiply(in[0], 0, in[1], in[2]); }
static cr_tensor *scatter_multiply_1(inputs in) { return cr_scatter_multiply(in[0], 1, in[1], in[2]); }
static cr_tensor *scatter_prod(inputs in) { return cr_scatter_reduce(in[0], 0, in[1], in[2], CR_SCATTER_PROD, false); }
static cr_tensor *scatter_mean(inputs in) { return cr_scatter_reduce(in[0], 1, in[1], in[2], CR_SCATTER_MEAN, true); }
static cr_tensor *scatter_mean_of(inputs in) {
    return cr_scatter_reduce(in[0], 0, in[1], in[2], CR_SCATTER_MEAN, false);
}
static cr_tensor *scatter_amax(inputs in) { return cr_scatter_reduce(in[0], 0, in[1], in[2], CR_SCATTER_AMAX, true); }
static cr_tensor *scatter_amax_of(inputs in) {
    return cr_scatter_reduce(in[0], 1, in[1], in[2], CR_SCATTER_AMAX, false);
}
static cr_tensor *scatter_amin(inputs in) { return cr_scatter_reduce(in[0], 1, in[1], in[2], CR_SCATTER_AMIN, true); }
static cr_tensor *scatter_amin_of(inputs in) {
    return cr_scatter_reduce(in[0], 0, in[1], in[2], CR_SCATTER_AMIN, false);
}
static cr_tensor *get_rows(inputs in) { return cr_index_get(in[0], 1, (const cr_tensor *[]){in[1]}); }
/* two gradients meet */
static cr_tensor *get_twice(inputs in) {             /* in this order, which the sum of the gradients has */
    const cr_tensor *first = get_rows(in), *second = cr_exp(get_rows(in));
    return cr_mul(first, second);
}
static cr_tensor *get_pairs(inputs in) {
    return cr_index_get(in[0], 2, (const cr_tensor *[]){in[1], cr_reshape(in[2], CR_LIST(-1, 1))});
}
static cr_tensor *get_apart(inputs in) { return cr_index_get(in[0], 3, (const cr_tensor *[]){in[1], CR_NONE, in[2]}); }
static cr_tensor *get_mask(inputs in) { return cr_index_get(in[0], 2, (const cr_tensor *[]){CR_NONE, in[1]}); }
static cr_tensor *put_apart(inputs in) {
    return cr_index_put(in[0], 3, (const cr_tensor *[]){indices(in, CR_LIST(2, 2)), CR_NONE, in[1]}, in[2], false);
}
static cr_tensor *put_mask(inputs in) {
    return cr_index_put(in[0], 2, (const cr_tensor *[]){CR_NONE, in[1]}, in[2], false);
}
static cr_tensor *put_added(inputs in) {
    return cr_index_put(in[0], 2, (const cr_tensor *[]){cr_select(in[1], 0, 0), cr_select(in[1], 0, 1)}, in[2], true);
}

/* ---- neural network */
static cr_tensor *softmax_last(inputs in) { return cr_softmax(in[0], -1); }
static cr_tensor *softmax_0(inputs in) { return cr_softmax(in[0], 0); }
static cr_tensor *log_softmax_last(inputs in) { return cr_log_softmax(in[0], -1); }
static cr_tensor *log_softmax_1(inputs in) { return cr_log_softmax(in[0], 1); }
static cr_tensor *layer_norm(inputs in) { return cr_layer_norm(in[0], in[1], in[2], 1e-5); }
static cr_tensor *layer_norm_w(inputs in) { return cr_layer_norm(in[0], in[1], CR_NONE, 1e-3); }
static cr_tensor *layer_norm_bare(inputs in) { return cr_layer_norm(in[0], CR_NONE, CR_NONE, 1e-5); }
static cr_tensor *rms_norm(inputs in) { return cr_rms_norm(in[0], in[1], 1e-6); }
static cr_tensor *rms_norm_bare(inputs in) { return cr_rms_norm(in[0], CR_NONE, 1e-6); }
/* The gradient of the norm is added to the cotangent that x has from the sum. */
static cr_tensor *residual(const cr_tensor *x, const cr_tensor *normed) { return cr_neg(cr_add(x, cr_tanh(normed))); }
static cr_tensor *residual_layer_norm(inputs in) { return residual(in[0], layer_norm(in)); }
static cr_tensor *residual_rms_norm(inputs in) { return residual(in[0], rms_norm(in)); }
static cr_tensor *embedding(inputs in) { return cr_embedding(in[0], in[1]); }
static cr_tensor *embedding_narrow(inputs in) { return cr_embedding(in[0], cr_to(in[1], CR_I32, cr_device_of(in[1]))); }
static cr_tensor *cross_entropy(inputs in) { return cr_cross_entropy(in[0], in[1], NULL); }
static cr_tensor *cross_entropy_with(inputs in, int64_t ignore, double smoothing, cr_reduction reduction) {
    return cr_cross_entropy(
        in[0], in[1],
        &(cr_cross_entropy_options){.ignore_index = ignore, .label_smoothing = smoothing, .reduction = reduction});
}
static cr_tensor *linear_cross_entropy(inputs in) { return cr_linear_cross_entropy(in[0], in[1], in[2], NULL); }
static cr_tensor *linear_cross_entropy_each(inputs in) {
    return cr_linear_cross_entropy(
        in[0], in[1], in[2],
        &(cr_cross_entropy_options){.ignore_index = 1, .label_smoothing = 0.2, .reduction = CR_EACH});
}
static cr_tensor *cross_entropy_ignore(inputs in) { return cross_entropy_with(in, 2, 0, CR_MEAN); }
static cr_tensor *cross_entropy_smooth(inputs in) { return cross_entropy_with(in, 0, 0.1, CR_MEAN); }
static cr_tensor *cross_entropy_sum(inputs in) { return cross_entropy_with(in, -1, 0, CR_SUM); }
static cr_tensor *cross_entropy_each(inputs in) { return cross_entropy_with(in, 1, 0.2, CR_EACH); }
static cr_tensor *dropout(inputs in) {              /* a generator of its own: the same mask whenever it is called */
    cr_generator *g = cr_generator_new(41);
    cr_tensor *y = cr_dropout(in[0], 0.3, true, g);
    cr_generator_free(g);
    return y;
}
static cr_tensor *dropout_off(inputs in) { return cr_dropout(in[0], 0.3, false, NULL); }
static cr_tensor *conv(inputs in) { return cr_conv(in[0], in[1], in[2], NULL); }
static cr_tensor *conv_bare(inputs in) { return cr_conv(in[0], in[1], CR_NONE, NULL); }
static const cr_conv_options conv_spread = {        /* differs by axis */
    .stride = {2, 1, 3}, .dilation = {1, 2, 1}, .padding = {{1, 0}, {2, 3}, {0, 2}}, .groups = 1};
static const cr_conv_options conv_in_groups = {
    .stride = {2, 1}, .dilation = {1, 2}, .padding = {{1, 1}, {2, 2}}, .groups = 3};
static const cr_conv_options conv_framed = {
    .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .padding = {{1, 1}, {1, 1}, {1, 1}}, .groups = 1};
static const cr_conv_options conv_spread_back = {
    .stride = {2, 3, 1}, .dilation = {2, 1, 1}, .padding = {{1, 1}, {0, 2}, {1, 0}}, .output_padding = {1, 2},
    .groups = 1};
static cr_tensor *conv_uneven(inputs in) { return cr_conv(in[0], in[1], in[2], &conv_spread); }
static cr_tensor *conv_groups(inputs in) { return cr_conv(in[0], in[1], in[2], &conv_in_groups); }
static cr_tensor *conv_same(inputs in) { return cr_conv(in[0], in[1], in[2], &conv_framed); }
static cr_tensor *conv_channels_last(inputs in) {
    return cr_conv(cr_permute(in[0], CR_LIST(0, 3, 1, 2)), in[1], in[2], &conv_framed);
}
static cr_tensor *conv_depthwise(inputs in) {
    cr_conv_options o = conv_framed;
    o.groups = cr_shape(in[0])[1];
    return cr_conv(in[0], in[1], in[2], &o);
}
static cr_tensor *conv_transpose(inputs in) { return cr_conv_transpose(in[0], in[1], in[2], NULL); }
static cr_tensor *conv_transpose_uneven(inputs in) {
    return cr_conv_transpose(in[0], in[1], in[2], &conv_spread_back);
}
static cr_tensor *conv_transpose_groups(inputs in) {
    return cr_conv_transpose(in[0], in[1], in[2], &conv_in_groups);
}
static cr_tensor *attention(inputs in) { return cr_attention(in[0], in[1], in[2], NULL); }
static cr_tensor *attention_causal(inputs in) {
    return cr_attention(in[0], in[1], in[2], &(cr_attention_options){.causal = true});
}
static cr_tensor *attention_packed(inputs in) { return cr_attention_packed(in[0], NULL); }
static cr_tensor *attention_packed_window(inputs in) {
    return cr_attention_packed(in[0], &(cr_attention_options){.causal = true, .window = 3, .scale = 0.7});
}
static cr_tensor *attention_scaled(inputs in) {
    return cr_attention(in[0], in[1], in[2], &(cr_attention_options){.causal = true, .scale = 0.7});
}
static cr_tensor *attention_heads(inputs in) {      /* as in GPT: (B, T, H, D) in memory, seen as (B, H, T, D) */
    return cr_attention(cr_transpose(in[0], 1, 2), cr_transpose(in[1], 1, 2), cr_transpose(in[2], 1, 2),
                        &(cr_attention_options){.causal = true});
}
static cr_tensor *rope_with(inputs in, bool interleaved) {   /* tables have the dtype of statistics */
    return cr_rope(in[0], cr_to(in[1], cr_dtype_wide(cr_dtype_of(in[0])), cr_device_of(in[0])), interleaved);
}
static cr_tensor *rope(inputs in) { return rope_with(in, false); }
static cr_tensor *rope_interleaved(inputs in) { return rope_with(in, true); }
static cr_tensor *rope_heads(inputs in) {
    return rope_with((const cr_tensor *const[]){cr_transpose(in[0], 1, 2), in[1]}, false);
}
static cr_tensor *attention_window(inputs in) {
    return cr_attention(in[0], in[1], in[2], &(cr_attention_options){.causal = true, .window = 3});
}
static cr_tensor *attention_shift(inputs in) {      /* query 0 sees key 0 */
    const int64_t shift = cr_shape(in[0])[2] - cr_shape(in[1])[2];
    return cr_attention(in[0], in[1], in[2], &(cr_attention_options){.causal = true, .window = 4, .shift = shift});
}
static cr_tensor *attention_mask_window(inputs in) {
    return cr_attention(in[0], in[1], in[1], &(cr_attention_options){.mask = in[2], .causal = true, .window = 40});
}
static cr_tensor *attention_mask(inputs in) {
    return cr_attention(in[0], in[1], in[1], &(cr_attention_options){.mask = in[2]});
}
static cr_tensor *attention_mask_causal(inputs in) {
    return cr_attention(in[0], in[1], in[1], &(cr_attention_options){.mask = in[2], .causal = true});
}


/* ---- windows of the last axes */
static cr_pool_options windows(int n, const int64_t (*sizes)[3], bool ceil) {      /* kernel, stride, pad, dilation */
    cr_pool_options o = {.n = n, .ceil = ceil, .count_pad = true};
    for (int i = 0; i < n; i++) {
        o.kernel[i] = sizes[0][i];
        o.stride[i] = sizes[1][i];
        o.pad[i] = sizes[2][i];
        o.dilation[i] = sizes[3][i];
    }
    return o;
}
static cr_tensor *max_pool_with(inputs in, int n, const int64_t (*sizes)[3], bool ceil) {
    const cr_pool_options o = windows(n, sizes, ceil);
    return cr_max_pool(in[0], &o, NULL);
}
static cr_tensor *max_pool_2(inputs in) {
    const cr_pool_options o = cr_pool_defaults(2, 2);
    return cr_max_pool(in[0], &o, NULL);
}
static cr_tensor *max_pool_8(inputs in) {
    const cr_pool_options o = cr_pool_defaults(2, 8);
    return cr_max_pool(in[0], &o, NULL);
}
static cr_tensor *max_pool_8_where(inputs in) {
    const cr_pool_options o = cr_pool_defaults(2, 8);
    cr_tensor *index;
    return cr_max_pool(in[0], &o, &index) ? index : NULL;
}
static cr_tensor *max_pool_pairs(inputs in) {
    const cr_pool_options o = cr_pool_defaults(1, 2);
    return cr_max_pool(in[0], &o, NULL);
}
static cr_tensor *max_pool_3(inputs in) {           /* as in ResNet: 3 x 3, stride 2, pad 1 */
    return max_pool_with(in, 2, (const int64_t[][3]){{3, 3}, {2, 2}, {1, 1}, {1, 1}}, false);
}
static cr_tensor *max_pool_odd(inputs in) {
    return max_pool_with(in, 2, (const int64_t[][3]){{3, 2}, {1, 3}, {1, 0}, {2, 1}}, true);
}
static cr_tensor *max_pool_line(inputs in) {
    return max_pool_with(in, 1, (const int64_t[][3]){{5}, {3}, {2}, {1}}, true);
}
static cr_tensor *max_pool_box(inputs in) {
    return max_pool_with(in, 3, (const int64_t[][3]){{2, 3, 2}, {1, 2, 3}, {1, 0, 1}, {1, 1, 2}}, false);
}
static cr_tensor *max_pool_where(inputs in) {
    const cr_pool_options o = windows(2, (const int64_t[][3]){{3, 3}, {2, 1}, {0, 1}, {1, 1}}, false);
    cr_tensor *index;
    return cr_max_pool(in[0], &o, &index) ? index : NULL;
}
static cr_tensor *avg_pool_2(inputs in) {
    const cr_pool_options o = cr_pool_defaults(2, 2);
    return cr_avg_pool(in[0], &o);
}
static cr_tensor *avg_pool_pad(inputs in) {
    cr_pool_options o = windows(2, (const int64_t[][3]){{3, 5}, {2, 3}, {1, 2}, {1, 1}}, true);
    o.count_pad = false;
    return cr_avg_pool(in[0], &o);
}
static cr_tensor *avg_pool_box(inputs in) {
    cr_pool_options o = windows(3, (const int64_t[][3]){{2, 3, 2}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}}, true);
    o.divisor = 5;
    return cr_avg_pool(in[0], &o);
}
static cr_tensor *adaptive_avg(inputs in) { return cr_adaptive_avg_pool(in[0], 2, (int64_t[]){3, 2}); }
static cr_tensor *adaptive_one(inputs in) { return cr_adaptive_avg_pool(in[0], 2, (int64_t[]){1, 1}); }
static cr_tensor *adaptive_none(inputs in) { return cr_adaptive_avg_pool(in[0], 1, (int64_t[]){0}); }
static cr_tensor *adaptive_max(inputs in) { return cr_adaptive_max_pool(in[0], 2, (int64_t[]){3, 2}, NULL); }
static cr_tensor *adaptive_max_where(inputs in) {
    cr_tensor *index;
    return cr_adaptive_max_pool(in[0], 2, (int64_t[]){4, 3}, &index) ? index : NULL;
}
static cr_tensor *interpolate(inputs in, cr_resample_mode mode, bool align, bool antialias, int n,
                              const int64_t *size) {
    return cr_interpolate(in[0], n, size,
                          &(cr_interpolate_options){.mode = mode, .align_corners = align, .antialias = antialias});
}
static cr_tensor *resize_nearest(inputs in) { return interpolate(in, CR_RESAMPLE_NEAREST, 0, 0, CR_LIST(10, 3)); }
static cr_tensor *resize_double(inputs in) { return interpolate(in, CR_RESAMPLE_NEAREST, 0, 0, CR_LIST(10, 14)); }
static cr_tensor *resize_exact(inputs in) { return interpolate(in, CR_RESAMPLE_NEAREST_EXACT, 0, 0, CR_LIST(3, 11)); }
static cr_tensor *resize_linear(inputs in) { return interpolate(in, CR_RESAMPLE_LINEAR, 0, 0, CR_LIST(10, 3)); }
static cr_tensor *resize_corners(inputs in) { return interpolate(in, CR_RESAMPLE_LINEAR, 1, 0, CR_LIST(3, 14)); }
static cr_tensor *resize_cubic(inputs in) { return interpolate(in, CR_RESAMPLE_CUBIC, 0, 0, CR_LIST(11, 14)); }
static cr_tensor *resize_smooth(inputs in) { return interpolate(in, CR_RESAMPLE_CUBIC, 0, 1, CR_LIST(2, 3)); }
static cr_tensor *resize_line(inputs in) { return interpolate(in, CR_RESAMPLE_LINEAR, 0, 1, CR_LIST(4)); }

/* ---- matrices: far from singular, with values far from each other; squares of vectors, whose signs are free */
/* x / 4 with 3, 6, 9 ... added to the diagonal */
static cr_tensor *spread(const cr_tensor *x) {
    const int64_t M = cr_size(x, -2), N = cr_size(x, -1);
    const cr_tensor *ramp = cr_arange(3, 3 * (double)N + 3, 3, cr_dtype_of(x), cr_device_of(x));
    return cr_add(cr_mul_scalar(x, 0.25), cr_mul(cr_eye(M, N, cr_dtype_of(x), cr_device_of(x)), ramp));
}
static cr_tensor *symmetric(const cr_tensor *x) { return cr_add(spread(x), cr_transpose(spread(x), -2, -1)); }
static cr_tensor *cholesky(inputs in) { return cr_cholesky(symmetric(in[0])); }
static cr_tensor *lu_factor(inputs in) { return cr_lu_factor(spread(in[0]), NULL, NULL); }
static cr_tensor *solve_upper(inputs in) { return cr_solve_triangular(spread(in[0]), in[1], true, false); }
static cr_tensor *solve_unit(inputs in) { return cr_solve_triangular(cr_mul_scalar(in[0], 0.1), in[1], false, true); }
static cr_tensor *solve(inputs in) { return cr_solve(spread(in[0]), in[1], NULL); }
static cr_tensor *qr(inputs in) {
    cr_tensor *r, *q = cr_qr(spread(in[0]), &r);
    return cr_matmul(cr_tanh(q), cr_tanh(r));
}
static cr_tensor *eigh(inputs in) {
    cr_tensor *vectors, *values = cr_eigh(symmetric(in[0]), &vectors);
    return cr_add(cr_square(vectors), cr_unsqueeze(cr_tanh(values), -1));
}
static cr_tensor *svd(inputs in) {
    cr_tensor *s, *v, *u = cr_svd(spread(in[0]), &s, &v);
    return cr_matmul(cr_mul(cr_square(u), cr_unsqueeze(s, -2)), cr_transpose(cr_square(v), -2, -1));
}
static cr_tensor *eigvalsh(inputs in) { return cr_eigvalsh(symmetric(in[0])); }
static cr_tensor *svdvals(inputs in) { return cr_svdvals(spread(in[0])); }

/* ---- normalization by channel */
static cr_tensor *batch_norm(inputs in) { return cr_batch_norm(in[0], in[1], in[2], 1e-5, NULL, NULL); }
static cr_tensor *batch_norm_w(inputs in) { return cr_batch_norm(in[0], in[1], CR_NONE, 1e-3, NULL, NULL); }
static cr_tensor *batch_norm_bare(inputs in) { return cr_batch_norm(in[0], CR_NONE, CR_NONE, 1e-5, NULL, NULL); }
static cr_tensor *batch_norm_turned(inputs in) {    /* channels last in memory */
    return cr_batch_norm(cr_permute(in[0], CR_LIST(0, 2, 1)), in[1], in[2], 1e-5, NULL, NULL);
}
static cr_tensor *group_norm(inputs in) { return cr_group_norm(in[0], 2, in[1], in[2], 1e-5); }
static cr_tensor *group_norm_w(inputs in) { return cr_group_norm(in[0], 3, in[1], CR_NONE, 1e-3); }
static cr_tensor *batch_norm_with(inputs in) {
    return cr_batch_norm_with(in[0], in[1], cr_square(in[2]), in[3], in[1], 1e-2);
}
static cr_tensor *batch_norm_fixed(inputs in) {     /* the statistics have no gradients */
    const int64_t C = cr_size(in[0], 1);
    const cr_tensor *numbers = cr_linspace(0.5, 1.5, C, cr_dtype_of(in[0]), cr_device_of(in[0]));
    return cr_batch_norm_with(in[0], numbers, cr_square(numbers), in[1], in[2], 1e-2);
}

/* in: x; weights side by side, (G H, I + P + 2), the last two the biases; states side by side, (B, P + H) or (B, P);
 * the projection.  The result: outputs and last states as one vector. */
static cr_tensor *recurrent(cr_cell cell, inputs in, bool bias, bool projected, cr_recurrent_options o) {
    const int64_t I = cr_shape(in[0])[cr_ndim(in[0]) - 1], P = cr_shape(in[1])[1] - I - 2, H = cr_shape(in[2])[1] - P;
    const bool lstm = cell == CR_LSTM;
    cr_tensor *h, *c = NULL;
    o.x = in[0];
    o.w_ih = cr_slice(in[1], 1, 0, I, 1);
    o.w_hh = cr_slice(in[1], 1, I, I + P, 1);
    if (bias) o.b_ih = cr_select(in[1], 1, I + P), o.b_hh = cr_select(in[1], 1, I + P + 1);
    o.h0 = cr_slice(in[2], 1, 0, P, 1);
    if (lstm) o.c0 = cr_slice(in[2], 1, P, P + H, 1);
    if (projected) o.w_hr = in[3];
    cr_tensor *y = cr_reshape(cr_recurrent(cell, &o, &h, lstm ? &c : NULL), CR_LIST(-1));
    h = cr_reshape(h, CR_LIST(-1));
    if (lstm) c = cr_reshape(c, CR_LIST(-1));
    return cr_cat(lstm ? 3 : 2, (const cr_tensor *const[]){y, h, c}, 0);
}
static const int64_t shrinking[] = {3, 3, 2, 2, 2, 1};
#define PACKED .steps = 6, .batch_sizes = shrinking
static cr_tensor *rnn_tanh(inputs in) { return recurrent(CR_RNN_TANH, in, true, false, (cr_recurrent_options){0}); }
static cr_tensor *rnn_relu(inputs in) {
    return recurrent(CR_RNN_RELU, in, false, false, (cr_recurrent_options){.reverse = true, PACKED});
}
static cr_tensor *gru(inputs in) { return recurrent(CR_GRU, in, true, false, (cr_recurrent_options){0}); }
static cr_tensor *gru_plain(inputs in) {
    return recurrent(CR_GRU, in, false, false, (cr_recurrent_options){.reverse = true});
}
static cr_tensor *gru_packed(inputs in) { return recurrent(CR_GRU, in, true, false, (cr_recurrent_options){PACKED}); }
static cr_tensor *lstm(inputs in) { return recurrent(CR_LSTM, in, true, false, (cr_recurrent_options){0}); }
static cr_tensor *lstm_plain(inputs in) {
    return recurrent(CR_LSTM, in, false, false, (cr_recurrent_options){.reverse = true});
}
static cr_tensor *lstm_packed(inputs in) {
    return recurrent(CR_LSTM, in, true, false, (cr_recurrent_options){.reverse = true, PACKED});
}
static const int64_t many[] = {17, 17, 10, 3};      /* more sequences than a thread of the cpu takes at a time */
#define PACKED_MANY .steps = 4, .batch_sizes = many
static cr_tensor *gru_packed_many(inputs in) {
    return recurrent(CR_GRU, in, true, false, (cr_recurrent_options){PACKED_MANY});
}
static cr_tensor *lstm_packed_many(inputs in) {
    return recurrent(CR_LSTM, in, true, false, (cr_recurrent_options){.reverse = true, PACKED_MANY});
}
static cr_tensor *lstm_projected(inputs in) {
    return recurrent(CR_LSTM, in, true, true, (cr_recurrent_options){PACKED});
}

static const op_case op_cases[] = {
    {"sum", "all", sum_all, ANYTHING, true, 105, {{SHAPE(3, 5, 7)}}},
    {"sum", "all, 0-d", sum_all, ANYTHING, true, 1, {{.ndim = 0}}},
    {"sum", "all, empty", sum_all, ANYTHING, true, 1, {{SHAPE(3, 0)}}},
    {"sum", "axis 0", sum_0, ANYTHING, true, 13, {{SHAPE(13, 7)}}},
    {"sum", "axis 0, one row", sum_0, ANYTHING, true, 1, {{SHAPE(1, 17)}}},
    {"sum", "axis 1, keepdim", sum_1, ANYTHING, true, 5, {{SHAPE(3, 5, 7)}}},
    {"sum", "axis 1 empty", sum_1, ANYTHING, true, 1, {{SHAPE(3, 0, 7)}}},
    {"sum", "last axis", sum_last, ANYTHING, true, 41, {{SHAPE(3, 41)}}},
    {"sum", "last axis, long", sum_last, NUMBERS, false, 20011, {{SHAPE(3, 20011)}}},
    {"sum", "axis 0, long", sum_0, NUMBERS, false, 1031, {{SHAPE(1031, 37)}}},
    {"sum", "axes 0 and 2", sum_0_2, ANYTHING, true, 21, {{SHAPE(3, 5, 7)}}},
    {"sum", "axes 0 and 2, keepdim", sum_0_2_kept, ANYTHING, true, 22, {{SHAPE(2, 5, 11)}}},
    {"sum_squares", "", sum_squares, FLOATS, true, 105, {{SHAPE(3, 5, 7)}}},
    {"sum_squares", "0-d", sum_squares, FLOATS, true, 1, {{.ndim = 0}}},
    {"sum_squares", "empty", sum_squares, FLOATS, true, 1, {{SHAPE(3, 0)}}},
    {"sum_squares", "long", sum_squares, FLOATS, false, 70001, {{SHAPE(70001)}}},
    {"mean", "all", mean_all, FLOATS, true, 105, {{SHAPE(3, 5, 7)}}},
    {"mean", "axes 0 and 2, keepdim", mean_0_2, FLOATS, true, 22, {{SHAPE(2, 5, 11)}}},
    {"max", "all", max_all, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"max", "0-d", max_all, ANYTHING, true, 1, {{.ndim = 0}}},
    {"max", "axis 1", max_1, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"max", "no rows", max_1, ANYTHING, true, 1, {{SHAPE(0, 5, 7)}}},
    {"max", "last axis", max_last, ANYTHING, true, 1, {{SHAPE(3, 41)}}},
    {"max", "last axis, longer", max_last, ANYTHING, false, 1, {{SHAPE(5, 1037)}}},
    {"max", "equal ones", max_1, ANYTHING, false, 1, {{SHAPE(3, 11, 2), .fill = STEPS}}},
    {"min", "equal ones", min_0_2, ANYTHING, false, 1, {{SHAPE(5, 3, 7), .fill = STEPS}}},
    {"min", "all", min_all, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"min", "axes 0 and 2", min_0_2, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"var", "all", var_all, FLOATS, true, 105, {{SHAPE(3, 5, 7)}}},
    {"var", "last axis", var_last, FLOATS, true, 37, {{SHAPE(3, 37)}}},
    {"var", "axis 0, correction 1.5", var_0, FLOATS, true, 13, {{SHAPE(13, 3)}}},
    {"var", "axes 0 and 2", var_0_2, FLOATS, true, 21, {{SHAPE(3, 5, 7)}}},
    {"var", "last axis, long", var_last, FLOATS, false, 20011, {{SHAPE(2, 20011), .lo = 2, .hi = 5}}},
    {"std", "last axis", std_last, FLOATS, true, 7, {{SHAPE(3, 5, 7)}}},
    {"std", "axes 0 and 2, keepdim", std_0_2, FLOATS, true, 22, {{SHAPE(2, 5, 11)}}},
    {"prod", "all", prod_all, ANYTHING, true, 15, {{SHAPE(3, 5), .lo = 0.5, .hi = 1.5}}},
    {"prod", "0-d", prod_all, ANYTHING, true, 1, {{.ndim = 0}}},
    {"prod", "axis 1 empty", prod_1, ANYTHING, true, 1, {{SHAPE(3, 0, 7)}}},
    {"prod", "axis 1, some 0", prod_1, ANYTHING, true, 5, {{SHAPE(7, 5, 3), .fill = STEPS, .lo = -1, .hi = 2}}},
    {"prod", "axes 0 and 2, keepdim", prod_0_2, ANYTHING, true, 10, {{SHAPE(2, 3, 5), .lo = 0.5, .hi = 1.5}}},
    {"nansum", "axis 1", nansum_1, ANYTHING, true, 5, {{SHAPE(3, 5, 7)}}},
    {"nanmean", "axes 0 and 2, keepdim", nanmean_0_2, FLOATS, true, 22, {{SHAPE(2, 5, 11)}}},
    {"any", "all", any_all, ANYTHING, false, 1, {{SHAPE(3, 5), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"any", "all, empty", any_all, ANYTHING, false, 1, {{SHAPE(3, 0)}}},
    {"any", "axis 1", any_1, ANYTHING, false, 1, {{SHAPE(11, 2, 7), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"all", "last axis", all_last, ANYTHING, false, 1, {{SHAPE(31, 2), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"all",
     "axes 0 and 2, keepdim",
     all_0_2,
     ANYTHING,
     false,
     1,
     {{SHAPE(2, 31, 2), .fill = STEPS, .lo = -1, .hi = 2}}},
    {"count_nonzero", "all", count_all, ANYTHING, false, 1, {{SHAPE(3, 211), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"count_nonzero",
     "axes 0 and 2",
     count_0_2,
     ANYTHING,
     false,
     1,
     {{SHAPE(3, 7, 5), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"norm", "2", norm_2, FLOATS, true, 105, {{SHAPE(3, 5, 7)}}},
    {"norm", "2, 0-d", norm_2, FLOATS, true, 1, {{.ndim = 0}}},
    {"norm", "2, empty", norm_2, FLOATS, true, 1, {{SHAPE(3, 0)}}},
    {"norm", "2, axis 1, keepdim", norm_2_1, FLOATS, true, 5, {{SHAPE(3, 5, 7)}}},
    {"norm", "1, last axis", norm_1_last, FLOATS, true, 7, {{SHAPE(3, 5, 7)}}},
    {"norm", "1, last axis, long", norm_1_last, FLOATS, false, 5003, {{SHAPE(3, 5003)}}},
    {"norm", "0, axis 0", norm_0_0, FLOATS, false, 1, {{SHAPE(13, 7), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"norm", "inf, axis 1", norm_inf_1, FLOATS, true, 1, {{SHAPE(3, 5, 7)}}},
    {"norm", "-inf, axes 0 and 2", norm_low_0_2, FLOATS, true, 1, {{SHAPE(3, 5, 2)}}},
    {"norm", "3, axes 0 and 2, keepdim", norm_3_0_2, FLOATS, true, 22, {{SHAPE(2, 5, 11)}}},
    {"norm", "0.5, last axis", norm_half, FLOATS, true, 7, {{SHAPE(3, 7), .lo = 0.3, .hi = 2}}},
    {"norm", "-1.5, last axis", norm_less, FLOATS, true, 7, {{SHAPE(3, 7), .lo = 0.3, .hi = 2}}},
    {"aminmax", "axis 1", both_ends, NUMBERS, true, 1, {{SHAPE(3, 5, 7)}}},
    {"max_along", "axis 1", max_along_1, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"max_along", "equal ones", max_along_1, ANYTHING, false, 1, {{SHAPE(3, 23, 2), .fill = STEPS}}},
    {"min_along", "last axis, keepdim", min_along_last, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"logsumexp", "all", logsumexp_all, FLOATS, true, 21, {{SHAPE(3, 7)}}},
    {"logsumexp", "axis 1", logsumexp_1, FLOATS, true, 11, {{SHAPE(3, 11, 2), .lo = -80, .hi = 80}}},
    {"logsumexp", "axes 0 and 2", logsumexp_0_2, FLOATS, true, 15, {{SHAPE(3, 2, 5)}}},
    {"argmax", "axis 0", argmax_0, NUMBERS, false, 1, {{SHAPE(11, 7)}}},
    {"argmax", "last axis", argmax_last, NUMBERS, false, 1, {{SHAPE(3, 2, 101)}}},
    {"argmax", "equal ones", argmax_0, NUMBERS, false, 1, {{SHAPE(23, 5), .fill = STEPS}}},
    {"argmin", "equal ones", argmin_1, NUMBERS, false, 1, {{SHAPE(3, 23, 2), .fill = STEPS}}},
    {"argmin", "axis 1", argmin_1, NUMBERS, false, 1, {{SHAPE(3, 23, 5)}}},

    {"sort", "last axis", sort_last, ANYTHING, true, 1, {{SHAPE(3, 41)}}},
    {"sort", "0-d", sort_last, ANYTHING, true, 1, {{.ndim = 0}}},
    {"sort", "empty", sort_last, ANYTHING, true, 1, {{SHAPE(3, 0)}}},
    {"sort", "axis 0, from the largest", sort_0_down, ANYTHING, true, 1, {{SHAPE(11, 3, 5)}}},
    {"sort", "equal ones", sort_last, ANYTHING, false, 1, {{SHAPE(3, 131), .fill = STEPS}}},
    {"sort", "longer rows", sort_last, ANYTHING, false, 1, {{SHAPE(3, 1031)}}},
    {"sort", "one long row", sort_last, FLOATS, false, 1, {{SHAPE(33013)}}},
    {"argsort", "last axis", argsort_last, ANYTHING, false, 1, {{SHAPE(2, 3, 17)}}},
    {"argsort", "equal ones, from the largest", argsort_0_down, ANYTHING, false, 1, {{SHAPE(211, 3), .fill = STEPS}}},
    {"topk", "last axis", topk_last, ANYTHING, true, 1, {{SHAPE(3, 41)}}},
    {"topk", "axis 0, the smallest", topk_0_low, ANYTHING, true, 1, {{SHAPE(11, 3, 5)}}},
    {"topk", "longer rows", topk_last, ANYTHING, false, 1, {{SHAPE(1, 919)}}},
    {"kthvalue", "last axis", kthvalue_last, ANYTHING, true, 1, {{SHAPE(3, 41)}}},
    {"kthvalue", "axis 0", kthvalue_0, ANYTHING, true, 1, {{SHAPE(11, 3, 5)}}},
    {"kthvalue", "longer rows", kthvalue_last, ANYTHING, false, 1, {{SHAPE(2, 409)}}},
    {"median", "all", median_all, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"median", "0-d", median_all, ANYTHING, true, 1, {{.ndim = 0}}},
    {"median", "all, equal ones", median_all, ANYTHING, false, 1, {{SHAPE(3, 53), .fill = STEPS}}},
    {"median", "axis 1", median_1, ANYTHING, true, 1, {{SHAPE(3, 8, 5)}}},
    {"nanmedian", "all", nanmedian_all, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"nanmedian", "axis 0", nanmedian_0, ANYTHING, true, 1, {{SHAPE(12, 5)}}},
    {"mode", "axis 1", mode_1, ANYTHING, true, 1, {{SHAPE(3, 11, 2)}}},
    {"quantile", "all", quantile_all, FLOATS, true, 3, {{SHAPE(3, 5, 7)}}},
    {"quantile", "axis 0, midpoint", quantile_0, FLOATS, true, 3, {{SHAPE(11, 5)}}},
    {"searchsorted",
     "one row",
     searchsorted,
     ANYTHING,
     false,
     1,
     {{SHAPE(37), .fill = STEPS}, {SHAPE(3, 5), .fill = STEPS}}},
    {"searchsorted",
     "many rows, right",
     searchsorted_right,
     ANYTHING,
     false,
     1,
     {{SHAPE(3, 37), .fill = STEPS}, {SHAPE(3, 11), .fill = STEPS}}},
    {"searchsorted", "in nothing", searchsorted, ANYTHING, false, 1, {{SHAPE(0)}, {SHAPE(7)}}},
    {"searchsorted",
     "one number, right",
     searchsorted_right,
     ANYTHING,
     false,
     1,
     {{SHAPE(7)}, {.ndim = 0, .fill = STEPS}}},
    {"runs", "of numbers", runs, ANYTHING, false, 1, {{SHAPE(331, 1), .fill = STEPS, .lo = 0, .hi = 2}}},
    {"runs", "of rows", runs, ANYTHING, false, 1, {{SHAPE(23, 2), .fill = STEPS, .lo = 0, .hi = 1}}},
    {"cumsum", "axis 0", cumsum_0, ANYTHING, true, 5, {{SHAPE(5, 7)}}},
    {"cumsum", "last axis", cumsum_last, ANYTHING, true, 7, {{SHAPE(3, 2, 7)}}},
    {"cumsum", "0-d", cumsum_0, ANYTHING, true, 1, {{.ndim = 0}}},
    {"cumsum", "empty", cumsum_last, ANYTHING, true, 1, {{SHAPE(3, 0)}}},
    {"cumsum", "last axis, long", cumsum_last, NUMBERS, false, 20011, {{SHAPE(3, 20011)}}},
    {"cumsum", "axis 0, wide", cumsum_0, NUMBERS, false, 13, {{SHAPE(13, 1031)}}},
    {"cumsum", "weighted", recurrence, FLOATS, true, 5, {{SHAPE(3, 5, 2)}, {SHAPE(3, 5, 2), .lo = -1, .hi = 1}}},
    {"cumsum",
     "weighted, backwards",
     recurrence_back,
     FLOATS,
     true,
     11,
     {{SHAPE(3, 11)}, {SHAPE(3, 11), .lo = -1, .hi = 1}}},
    {"cumprod", "axis 1", cumprod_1, ANYTHING, true, 7, {{SHAPE(3, 7), .lo = 0.5, .hi = 1.5}}},
    {"cumprod", "axis 0, some 0", cumprod_0, ANYTHING, true, 7, {{SHAPE(7, 11), .fill = STEPS, .lo = -1, .hi = 2}}},
    {"cumprod", "0-d", cumprod_0, ANYTHING, true, 1, {{.ndim = 0}}},
    {"cumprod", "empty", cumprod_1, ANYTHING, true, 1, {{SHAPE(3, 0)}}},
    {"cumprod", "long", cumprod_1, NUMBERS, false, 1031, {{SHAPE(3, 1031), .lo = 0.99, .hi = 1.01}}},
    {"logcumsumexp", "axis 0", logcumsumexp_0, FLOATS, true, 7, {{SHAPE(7, 3)}}},
    {"logcumsumexp", "last axis, large", logcumsumexp_last, FLOATS, true, 11, {{SHAPE(3, 11), .lo = -30, .hi = 30}}},
    {"logcumsumexp", "long", logcumsumexp_last, FLOATS, false, 1031, {{SHAPE(3, 1031)}}},
    {"logcumsumexp", "more than one block", logcumsumexp_last, FLOATS, false, 66001, {{SHAPE(66001)}}},
    {"cummax", "axis 1", cummax_1, ANYTHING, true, 1, {{SHAPE(3, 7, 2)}}},
    {"cummax", "where, equal ones", cummax_where, ANYTHING, false, 1, {{SHAPE(23, 5), .fill = STEPS}}},
    {"cummin", "last axis", cummin_last, ANYTHING, true, 1, {{SHAPE(3, 7)}}},
    {"cummin", "where, equal ones", cummin_where, ANYTHING, false, 1, {{SHAPE(3, 1031), .fill = STEPS}}},
    {"diff", "axis 1", diff_1, ANYTHING, true, 2, {{SHAPE(3, 5, 2)}}},
    {"diff", "twice, last axis", diff_twice, NUMBERS, true, 4, {{SHAPE(3, 7)}}},
    {"diff", "nothing left", diff_twice, NUMBERS, true, 1, {{SHAPE(3, 1)}}},

    {"reshape", "(5, -1, 7)", reshape_35, ANYTHING, true, 1, {{SHAPE(3, 35)}}},
    {"reshape", "flat", reshape_flat, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"reshape", "empty", reshape_flat, ANYTHING, true, 1, {{SHAPE(3, 0, 7)}}},
    {"reshape", "to 0-d", reshape_scalar, ANYTHING, true, 1, {{SHAPE(1, 1)}}},
    {"view", "(3, 5, 7)", view_split, ANYTHING, true, 1, {{SHAPE(3, 35)}}},
    {"transpose", "0 and 2", transpose_02, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"permute", "2 0 1", permute_201, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"slice", "1 to -1 by 2", slice_middle, ANYTHING, true, 1, {{SHAPE(3, 7, 2)}}},
    {"slice", "nothing", slice_none, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"slice", "backwards", slice_back, ANYTHING, true, 1, {{SHAPE(3, 11, 2)}}},
    {"select", "axis 1", select_1, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"index", "1::2, -2, :-1 of the first three axes", index_part, ANYTHING, true, 1, {{SHAPE(5, 3, 7, 2)}}},
    {"index", "one element", index_one, ANYTHING, true, 1, {{SHAPE(2, 3)}}},
    {"expand", "two axes", expand_3, ANYTHING, true, 4, {{SHAPE(2, 1, 5)}}},
    {"squeeze", "all", squeeze_all, ANYTHING, true, 1, {{SHAPE(1, 5, 1)}}},
    {"squeeze", "axis 1", squeeze_1, ANYTHING, true, 1, {{SHAPE(1, 1, 7)}}},
    {"unsqueeze", "axis 1", unsqueeze_1, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"flatten", "from 1", flatten_12, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"contiguous", "of a transposed one", contiguous, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"contiguous", "larger than a tile", contiguous, ANYTHING, false, 1, {{SHAPE(37, 5, 41)}}},
    {"contiguous", "0-d and one axis", contiguous, ANYTHING, true, 1, {{SHAPE(7)}}},
    {"clone", "", clone, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"clone", "empty", clone, ANYTHING, true, 1, {{SHAPE(0)}}},
    {"cat", "axis 0, one of them empty", cat_0, ANYTHING, true, 1, {{SHAPE(3, 5)}, {SHAPE(0, 5)}, {SHAPE(2, 5)}}},
    {"cat", "last axis", cat_1, ANYTHING, true, 1, {{SHAPE(3, 2, 5)}, {SHAPE(3, 2, 11)}}},
    {"stack", "axis 1", stack_1, ANYTHING, true, 1, {{SHAPE(3, 7)}, {SHAPE(3, 7)}}},
    {"split", "3, 3 and 1", split_middle, ANYTHING, true, 1, {{SHAPE(2, 7, 3)}}},
    {"split", "chunks, and sizes of one", chunked, ANYTHING, true, 1, {{SHAPE(2, 7, 3)}}},
    {"unbind", "", unbound, FLOATS, true, 1, {{SHAPE(5, 3)}}},
    {"narrow", "from the end", narrow_1, ANYTHING, true, 1, {{SHAPE(3, 5, 2)}}},
    {"unflatten", "axis 1", unflatten_1, ANYTHING, true, 1, {{SHAPE(3, 35)}}},
    {"movedim", "two axes", movedim_02, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"diagonal", "", diagonal_0, ANYTHING, true, 1, {{SHAPE(5, 7, 2)}}},
    {"diagonal", "above, of other axes", diagonal_up, ANYTHING, true, 1, {{SHAPE(5, 3, 7)}}},
    {"diagonal", "nothing", diagonal_none, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"unfold", "apart", unfold_apart, ANYTHING, true, 1, {{SHAPE(3, 11, 2)}}},
    {"unfold", "shared", unfold_shared, ANYTHING, true, 2, {{SHAPE(11, 3)}}},
    {"unfold", "of windows", unfold_twice, ANYTHING, true, 6, {{SHAPE(7, 3)}}},
    {"unfold", "0-d", unfold_scalar, ANYTHING, true, 1, {{.ndim = 0}}},
    {"part", "backwards", part_backwards, ANYTHING, true, 1, {{SHAPE(2, 11)}}},
    {"embed_part", "shared", embed_shared, NUMBERS, true, 3, {{SHAPE(4, 5)}}},
    {"replace_part", "", replace_part, ANYTHING, true, 1, {{SHAPE(3, 11)}, {SHAPE(2, 3)}}},
    {"replace_part", "inside a graph", replace_inside, NUMBERS, true, 1, {{SHAPE(3, 11)}, {SHAPE(2, 3)}}},
    {"meshgrid", "xy", meshgrid_xy, FLOATS, true, 1, {{SHAPE(3)}, {SHAPE(5)}, {SHAPE(2)}}},
    {"flip", "all", flip_all, ANYTHING, true, 1, {{SHAPE(3, 5, 7)}}},
    {"flip", "axis 0, many columns", flip_0, ANYTHING, false, 1, {{SHAPE(5, 1037)}}},
    {"flip", "long", flip_all, ANYTHING, false, 1, {{SHAPE(40009)}}},
    {"flip", "empty", flip_all, ANYTHING, true, 1, {{SHAPE(3, 0)}}},
    {"roll", "flat", roll_flat, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"roll", "two axes, one of them twice", roll_2, ANYTHING, true, 1, {{SHAPE(5, 2, 7)}}},
    {"repeat", "four axes of three", repeat_3, ANYTHING, true, 12, {{SHAPE(2, 3, 5)}}},
    {"repeat", "more axes than at once", repeat_many, ANYTHING, true, 48, {{SHAPE(2, 1, 2, 3)}}},
    {"repeat", "no time", repeat_none, ANYTHING, true, 1, {{SHAPE(2, 3)}}},
    {"tile", "last axis", tile_1, ANYTHING, true, 3, {{SHAPE(2, 5)}}},
    {"repeat_interleave", "axis 1", each_1, ANYTHING, true, 3, {{SHAPE(2, 3, 5)}}},
    {"repeat_interleave", "last axis", each_last, ANYTHING, true, 2, {{SHAPE(3, 7)}}},
    {"repeat_interleave", "by numbers", each_by, ANYTHING, true, 3, {{SHAPE(5, 3, 2)}}},
    {"pad", "ones", pad_one, ANYTHING, true, 1, {{SHAPE(2, 3, 5)}}},
    {"pad", "and crop", pad_crop, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"pad", "reflect", pad_reflect, ANYTHING, true, 4, {{SHAPE(3, 5)}}},
    {"pad", "replicate", pad_replicate, ANYTHING, true, 8, {{SHAPE(3, 5)}}},
    {"pad", "circular", pad_circular, ANYTHING, true, 6, {{SHAPE(3, 5)}}},
    {"cast", "to float64", cast, ANYTHING, false, 1, {{SHAPE(3, 5, 7)}}},
    {"cast", "to bfloat16 and back", cast_around, ANYTHING, false, 1, {{SHAPE(5, 37)}}},
    {"transfer", "to another device", transfer, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"transfer", "of a transposed one", transfer_odd, ANYTHING, true, 1, {{SHAPE(3, 2, 5)}}},
    {"alias", "", alias, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"tril", "-1", pick_diagonal_low, ANYTHING, true, 1, {{SHAPE(2, 5, 7)}}},
    {"tril", "0", pick_low, ANYTHING, true, 1, {{SHAPE(7, 3)}}},
    {"triangle", "lower, of wide rows", pick_low, ANYTHING, false, 1, {{SHAPE(5, 1031)}}},
    {"triangle", "upper", pick_diagonal_high, ANYTHING, true, 1, {{SHAPE(2, 3, 5)}}},
    {"triu", "1", pick_diagonal_high, ANYTHING, true, 1, {{SHAPE(7, 5)}}},

    {"matmul", "(5, 7) (7, 3)", matmul, NUMBERS, true, 7, {{SHAPE(5, 7)}, {SHAPE(7, 3)}}},
    {"matmul", "vector vector", matmul, NUMBERS, true, 11, {{SHAPE(11)}, {SHAPE(11)}}},
    {"matmul", "matrix vector", matmul, NUMBERS, true, 11, {{SHAPE(5, 11)}, {SHAPE(11)}}},
    {"matmul", "vector batch", matmul, NUMBERS, true, 5, {{SHAPE(5)}, {SHAPE(3, 5, 2)}}},
    {"matmul", "batch", matmul, NUMBERS, true, 7, {{SHAPE(2, 5, 7)}, {SHAPE(2, 7, 3)}}},
    {"matmul", "batch broadcast", matmul, NUMBERS, true, 7, {{SHAPE(3, 1, 5, 7)}, {SHAPE(2, 7, 3)}}},
    {"matmul", "batch times one matrix", matmul, NUMBERS, true, 7, {{SHAPE(2, 3, 5, 7)}, {SHAPE(7, 11)}}},
    {"matmul", "K 0", matmul, NUMBERS, true, 1, {{SHAPE(3, 0)}, {SHAPE(0, 5)}}},
    {"matmul", "M 0", matmul, NUMBERS, true, 1, {{SHAPE(0, 3)}, {SHAPE(3, 5)}}},
    {"matmul", "both transposed", matmul_turned, NUMBERS, true, 7, {{SHAPE(7, 5)}, {SHAPE(3, 7)}}},
    {"matmul", "one row", matmul, NUMBERS, true, 13, {{SHAPE(1, 13)}, {SHAPE(13, 5)}}},
    {"matmul", "one row, larger", matmul, NUMBERS, false, 67, {{SHAPE(1, 67)}, {SHAPE(67, 131)}}},
    {"matmul", "larger", matmul, FLOATS, false, 131, {{SHAPE(67, 131)}, {SHAPE(131, 71)}}},
    {"matmul", "larger, both transposed", matmul_turned, FLOATS, false, 131, {{SHAPE(131, 67)}, {SHAPE(71, 131)}}},
    {"addmm", "", addmm, NUMBERS, true, 8, {{SHAPE(5, 3)}, {SHAPE(5, 7)}, {SHAPE(7, 3)}}},
    {"addmm", "a row, -2 and 3", addmm_scaled, NUMBERS, true, 40, {{SHAPE(3)}, {SHAPE(5, 7)}, {SHAPE(7, 3)}}},
    {"addmm", "a number, 0 times", addmm_only, NUMBERS, true, 7, {{SHAPE(1)}, {SHAPE(5, 7)}, {SHAPE(7, 3)}}},
    {"addmm", "K 0", addmm, NUMBERS, true, 1, {{SHAPE(3, 1)}, {SHAPE(3, 0)}, {SHAPE(0, 5)}}},
    {"addmm", "larger", addmm, FLOATS, false, 132, {{SHAPE(67, 1)}, {SHAPE(67, 131)}, {SHAPE(131, 71)}}},
    {"addmv", "2 and -1", addmv, NUMBERS, true, 13, {{SHAPE(5)}, {SHAPE(5, 11)}, {SHAPE(11)}}},
    {"addr", "1 and 3", addr, NUMBERS, true, 4, {{SHAPE(5, 7)}, {SHAPE(5)}, {SHAPE(7)}}},
    {"baddbmm", "", baddbmm, NUMBERS, true, 8, {{SHAPE(2, 1, 3)}, {SHAPE(2, 5, 7)}, {SHAPE(2, 7, 3)}}},
    {"addbmm", "2 and 1", addbmm, NUMBERS, true, 16, {{SHAPE(5, 3)}, {SHAPE(2, 5, 7)}, {SHAPE(2, 7, 3)}}},
    {"outer", "", outer, ANYTHING, true, 7, {{SHAPE(5)}, {SHAPE(7)}}},
    {"inner", "", inner, NUMBERS, true, 7, {{SHAPE(2, 3, 7)}, {SHAPE(5, 7)}}},
    {"kron", "", kron, NUMBERS, true, 7, {{SHAPE(2, 3)}, {SHAPE(7)}}},
    {"trace", "wide", trace, NUMBERS, true, 3, {{SHAPE(3, 7)}}},
    {"trace", "tall", trace, NUMBERS, true, 5, {{SHAPE(11, 5)}}},
    {"trace", "nothing", trace, NUMBERS, true, 1, {{SHAPE(3, 0)}}},
    {"tensordot", "two axes", tensordot, NUMBERS, true, 35, {{SHAPE(5, 2, 7)}, {SHAPE(7, 5, 3)}}},
    {"einsum", "bqhd,bkhd->bhqk", einsum_heads, NUMBERS, true, 5, {{SHAPE(2, 3, 1, 5)}, {SHAPE(2, 7, 1, 5)}}},
    {"einsum", "iji,jk,k", einsum_three, FLOATS, true, 105, {{SHAPE(3, 5, 3)}, {SHAPE(5, 7)}, {SHAPE(7)}}},
    {"linear", "bias", linear, FLOATS, true, 7, {{SHAPE(2, 5, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear", "no bias, one vector", linear_bare, FLOATS, true, 7, {{SHAPE(7)}, {SHAPE(3, 7)}}},
    {"linear", "no rows", linear, FLOATS, true, 7, {{SHAPE(0, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear", "relu", linear_relu, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear", "gelu", linear_gelu, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear", "silu, no bias", linear_silu, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(3, 7)}}},
    {"linear", "tanh", linear_tanh, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear", "sigmoid", linear_sigmoid, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear", "larger", linear_gelu, FLOATS, false, 131, {{SHAPE(61, 131)}, {SHAPE(67, 131)}, {SHAPE(67)}}},
    {"unpack", "q8_0", unpacked_8, FLOATS, false, 1, {{SHAPE(61, 64)}}},
    {"unpack", "q4_0", unpacked_4, FLOATS, false, 1, {{SHAPE(5, 192)}}},
    {"unpack", "q4_k", unpacked_4_k, FLOATS, false, 1, {{SHAPE(5, 512)}}},
    {"linear_packed", "q8_0", packed_8, FLOATS, true, 64, {{SHAPE(2, 2, 64)}, {SHAPE(7)}}},
    {"linear_packed", "q8_0, tanh, one vector", packed_8_bare, FLOATS, true, 96, {{SHAPE(96)}}},
    {"linear_packed", "q8_0, longer", packed_8_long, FLOATS, false, 320, {{SHAPE(61, 320)}, {SHAPE(131)}}},
    {"linear_packed", "q8_0, longer rows", packed_8_long, FLOATS, false, 4672, {{SHAPE(3, 4672)}, {SHAPE(131)}}},
    {"linear_packed", "q4_0", packed_4, FLOATS, true, 96, {{SHAPE(3, 96)}, {SHAPE(7)}}},
    {"linear_packed", "q4_0, gelu, one row", packed_4_gelu, FLOATS, true, 64, {{SHAPE(1, 64)}, {SHAPE(7)}}},
    {"linear_packed", "no rows", packed_4, FLOATS, true, 1, {{SHAPE(0, 64)}, {SHAPE(7)}}},
    {"linear_packed", "q4_0, longer rows", packed_4_long, FLOATS, false, 8576, {{SHAPE(2, 8576)}, {SHAPE(131)}}},
    {"linear_packed", "q4_k, one row", packed_4_k, FLOATS, true, 256, {{SHAPE(256)}}},
    {"linear_packed", "q4_k, longer", packed_4_k_long, FLOATS, false, 512, {{SHAPE(61, 512)}, {SHAPE(131)}}},
    {"linear_gelu", "bias", linear_gelu_tanh, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(3, 7)}, {SHAPE(3)}}},
    {"linear_gelu",
     "rows of 16 bytes, no bias",
     linear_gelu_tanh_bare,
     FLOATS,
     true,
     7,
     {{SHAPE(2, 3, 7)}, {SHAPE(8, 7)}}},
    {"linear_gelu", "no rows", linear_gelu_tanh, FLOATS, true, 7, {{SHAPE(0, 7)}, {SHAPE(8, 7)}, {SHAPE(8)}}},
    {"linear_gelu", "no inputs", linear_gelu_tanh, FLOATS, true, 1, {{SHAPE(5, 0)}, {SHAPE(8, 0)}, {SHAPE(8)}}},

    {"gather", "axis 0", gather_0, ANYTHING, true, 8, {{SHAPE(5, 7)}, {SHAPE(8, 7), .fill = INDEX, .hi = 5}}},
    {"gather", "axis 1", gather_1, ANYTHING, true, 11, {{SHAPE(3, 5, 2)}, {SHAPE(3, 11, 2), .fill = INDEX, .hi = 5}}},
    {"gather", "int32", gather_narrow, ANYTHING, true, 4, {{SHAPE(3, 5)}, {SHAPE(3, 4), .fill = INDEX, .hi = 5}}},
    {"gather", "nothing", gather_0, ANYTHING, true, 1, {{SHAPE(5, 7)}, {SHAPE(0, 7), .fill = INDEX, .hi = 5}}},
    {"scatter_add",
     "axis 0",
     scatter_add_0,
     NUMBERS,
     true,
     8,
     {{SHAPE(5, 7)}, {SHAPE(8, 7), .fill = INDEX, .hi = 5}, {SHAPE(8, 7)}}},
    {"scatter_add",
     "axis 1",
     scatter_add_1,
     NUMBERS,
     true,
     11,
     {{SHAPE(3, 5, 2)}, {SHAPE(3, 11, 2), .fill = INDEX, .hi = 5}, {SHAPE(3, 11, 2)}}},
    {"scatter_multiply",
     "axis 0",
     scatter_multiply_0,
     NUMBERS,
     true,
     8,
     {{SHAPE(5, 7)}, {SHAPE(8, 7), .fill = INDEX, .hi = 5}, {SHAPE(8, 7)}}},
    {"scatter_multiply",
     "axis 1",
     scatter_multiply_1,
     NUMBERS,
     true,
     11,
     {{SHAPE(3, 5, 2)}, {SHAPE(3, 11, 2), .fill = INDEX, .hi = 5}, {SHAPE(3, 11, 2)}}},
    {"scatter_reduce",
     "product without itself",
     scatter_prod,
     NUMBERS,
     true,
     8,
     {{SHAPE(5, 7)}, {SHAPE(8, 7), .fill = INDEX, .hi = 5}, {SHAPE(8, 7)}}},
    {"scatter_reduce",
     "mean",
     scatter_mean,
     FLOATS,
     true,
     11,
     {{SHAPE(3, 5, 2)}, {SHAPE(3, 11, 2), .fill = INDEX, .hi = 5}, {SHAPE(3, 11, 2)}}},
    {"scatter_reduce",
     "mean without itself, a corner",
     scatter_mean_of,
     FLOATS,
     true,
     4,
     {{SHAPE(5, 7)}, {SHAPE(4, 6), .fill = INDEX, .hi = 5}, {SHAPE(4, 6)}}},
    {"scatter_reduce",
     "largest",
     scatter_amax,
     ANYTHING,
     true,
     8,
     {{SHAPE(5, 7)}, {SHAPE(8, 7), .fill = INDEX, .hi = 5}, {SHAPE(8, 7)}}},
    {"scatter_reduce",
     "largest, equal ones",
     scatter_amax,
     ANYTHING,
     false,
     8,
     {{SHAPE(5, 7), .fill = STEPS}, {SHAPE(8, 7), .fill = INDEX, .hi = 5}, {SHAPE(8, 7), .fill = STEPS}}},
    {"scatter_reduce",
     "largest without itself",
     scatter_amax_of,
     ANYTHING,
     true,
     11,
     {{SHAPE(3, 5, 2)}, {SHAPE(3, 11, 2), .fill = INDEX, .hi = 5}, {SHAPE(3, 11, 2)}}},
    {"scatter_reduce",
     "least",
     scatter_amin,
     ANYTHING,
     true,
     11,
     {{SHAPE(3, 5, 2)}, {SHAPE(3, 11, 2), .fill = INDEX, .hi = 5}, {SHAPE(3, 11, 2)}}},
    {"scatter_reduce",
     "least without itself, a corner",
     scatter_amin_of,
     ANYTHING,
     true,
     4,
     {{SHAPE(5, 7)}, {SHAPE(4, 6), .fill = INDEX, .hi = 5}, {SHAPE(4, 6)}}},
    {"scatter", "axis 0", scatter_0, ANYTHING, true, 1, {{SHAPE(5, 3)}, {SHAPE(4, 3)}}},
    {"scatter",
     "axis 1, one value, a corner",
     scatter_value,
     ANYTHING,
     true,
     4,
     {{SHAPE(3, 5)}, {SHAPE(1), .lo = 1, .hi = 9}}},
    {"take_along_axis",
     "index broadcast",
     take_along_axis,
     ANYTHING,
     true,
     9,
     {{SHAPE(3, 5, 1)}, {SHAPE(1, 4, 2), .fill = INDEX, .hi = 5}}},
    {"take",
     "negative ones too",
     take,
     ANYTHING,
     true,
     8,
     {{SHAPE(3, 5)}, {SHAPE(2, 7), .fill = INDEX, .lo = -15, .hi = 15}}},
    {"take", "0-d", take, ANYTHING, true, 3, {{.ndim = 0}, {SHAPE(3), .fill = INDEX, .lo = -1, .hi = 1}}},
    {"index_select",
     "axis 1",
     index_select_1,
     ANYTHING,
     true,
     11,
     {{SHAPE(3, 5, 2)}, {SHAPE(11), .fill = INDEX, .hi = 5}}},
    {"index_select",
     "of a transposed one",
     index_select_turned,
     ANYTHING,
     true,
     4,
     {{SHAPE(3, 2, 5)}, {SHAPE(4), .fill = INDEX, .hi = 5}}},
    {"put", "added into zeros", put_zeros, FLOATS, true, 6, {{SHAPE(2, 3, 7)}, {SHAPE(2, 3), .fill = INDEX, .hi = 5}}},
    {"index_add",
     "axis 0",
     index_add_0,
     ANYTHING,
     true,
     9,
     {{SHAPE(5, 7)}, {SHAPE(8), .fill = INDEX, .hi = 5}, {SHAPE(8, 7)}}},
    {"index_add",
     "axis 1, last",
     index_add_1,
     ANYTHING,
     true,
     12,
     {{SHAPE(3, 5)}, {SHAPE(11), .fill = INDEX, .hi = 5}, {SHAPE(3, 11)}}},
    {"index_copy", "axis 1", index_copy_1, ANYTHING, true, 1, {{SHAPE(3, 5, 2)}, {SHAPE(3, 4, 2)}}},
    {"index_fill", "axis 1", index_fill_1, ANYTHING, true, 24, {{SHAPE(3, 5, 2)}, {SHAPE(1), .lo = 1, .hi = 9}}},
    {"index_get",
     "rows",
     get_rows,
     ANYTHING,
     true,
     6,
     {{SHAPE(5, 3)}, {SHAPE(2, 3), .fill = INDEX, .lo = -5, .hi = 5}}},
    {"index_get",
     "twice",
     get_twice,
     FLOATS,
     true,
     12,
     {{SHAPE(5, 3)}, {SHAPE(2, 3), .fill = INDEX, .lo = -5, .hi = 5}}},
    {"index_get", "none", get_rows, ANYTHING, true, 1, {{SHAPE(5, 3)}, {SHAPE(0), .fill = INDEX, .hi = 5}}},
    {"index_get",
     "pairs that broadcast",
     get_pairs,
     ANYTHING,
     true,
     15,
     {{SHAPE(5, 7, 2)}, {SHAPE(5), .fill = INDEX, .lo = -5, .hi = 5}, {SHAPE(3), .fill = INDEX, .lo = -7, .hi = 7}}},
    {"index_get",
     "axes 0 and 2",
     get_apart,
     ANYTHING,
     true,
     4,
     {{SHAPE(5, 3, 7)}, {SHAPE(4), .fill = INDEX, .lo = -5, .hi = 5}, {SHAPE(4), .fill = INDEX, .lo = -7, .hi = 7}}},
    {"index_get", "mask of two axes", get_mask, ANYTHING, true, 1, {{SHAPE(2, 5, 7, 3)}, {SHAPE(5, 7), .fill = MASK}}},
    {"index_put",
     "axes 0 and 2",
     put_apart,
     ANYTHING,
     true,
     4,
     {{SHAPE(5, 3, 7)}, {SHAPE(2, 2), .fill = INDEX, .lo = -7, .hi = 7}, {SHAPE(2, 3)}}},
    {"index_put",
     "mask, one value",
     put_mask,
     ANYTHING,
     true,
     70,
     {{SHAPE(2, 5, 7)}, {SHAPE(5, 7), .fill = MASK}, {SHAPE(1), .lo = 1, .hi = 9}}},
    {"index_put",
     "mask, a value for each row",
     put_mask,
     ANYTHING,
     true,
     70,
     {{SHAPE(2, 5, 7)}, {SHAPE(5), .fill = MASK}, {SHAPE(2, 1, 7)}}},
    {"index_put",
     "added",
     put_added,
     ANYTHING,
     true,
     14,
     {{SHAPE(3, 5)}, {SHAPE(2, 13), .fill = INDEX, .lo = -3, .hi = 3}, {SHAPE(13)}}},
    {"ravel",
     "",
     ravel,
     WHOLES,
     false,
     1,
     {{SHAPE(13), .fill = INDEX, .lo = -5, .hi = 5}, {SHAPE(13), .fill = INDEX, .lo = -11, .hi = 11}}},
    {"nonzero", "", nonzero, ANYTHING, false, 1, {{SHAPE(3, 5, 7), .fill = STEPS, .lo = -1, .hi = 1}}},
    {"nonzero", "longer than a piece", nonzero, BOOLS, false, 1, {{SHAPE(41, 1031), .fill = MASK}}},
    {"nonzero", "0-d", nonzero, ANYTHING, false, 1, {{.ndim = 0}}},
    {"one_hot", "", one_hot, WHOLES, false, 1, {{SHAPE(3, 5), .fill = INDEX, .hi = 7}}},
    {"masked_fill", "", masked_fill, FLOATS, true, 1, {{SHAPE(3, 5, 7)}, {SHAPE(5, 7), .fill = MASK}}},
    {"masked_select",
     "mask broadcast",
     masked_select,
     ANYTHING,
     true,
     1,
     {{SHAPE(3, 5, 7)}, {SHAPE(5, 1), .fill = MASK}}},
    {"masked_scatter",
     "",
     masked_scatter,
     ANYTHING,
     true,
     1,
     {{SHAPE(5, 7)}, {SHAPE(5, 7), .fill = MASK}, {SHAPE(7, 5)}}},

    {"softmax", "last axis", softmax_last, FLOATS, true, 7, {{SHAPE(4, 7)}}},
    {"softmax", "0-d", softmax_last, FLOATS, true, 1, {{.ndim = 0}}},
    {"softmax", "one", softmax_last, FLOATS, true, 1, {{SHAPE(5, 1)}}},
    {"softmax", "empty rows", softmax_last, FLOATS, true, 1, {{SHAPE(0, 5)}}},
    {"softmax", "axis 0", softmax_0, FLOATS, true, 5, {{SHAPE(5, 3, 2)}}},
    {"softmax", "long, large", softmax_last, FLOATS, false, 1031, {{SHAPE(3, 1031), .lo = -60, .hi = 60}}},
    {"log_softmax", "last axis", log_softmax_last, FLOATS, true, 7, {{SHAPE(4, 7)}}},
    {"log_softmax", "0-d", log_softmax_last, FLOATS, true, 1, {{.ndim = 0}}},
    {"log_softmax", "axis 1", log_softmax_1, FLOATS, true, 5, {{SHAPE(2, 5, 3)}}},
    {"log_softmax", "long", log_softmax_last, FLOATS, false, 1031, {{SHAPE(3, 1031), .lo = -60, .hi = 60}}},
    {"layer_norm", "weight and bias", layer_norm, FLOATS, true, 11, {{SHAPE(2, 3, 11)}, {SHAPE(11)}, {SHAPE(11)}}},
    {"layer_norm", "weight", layer_norm_w, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(7)}}},
    {"layer_norm", "bare", layer_norm_bare, FLOATS, true, 13, {{SHAPE(5, 13)}}},
    {"layer_norm", "no rows", layer_norm, FLOATS, true, 7, {{SHAPE(0, 7)}, {SHAPE(7)}, {SHAPE(7)}}},
    {"layer_norm",
     "long",
     layer_norm,
     FLOATS,
     false,
     1031,
     {{SHAPE(7, 1031), .lo = 0.5, .hi = 2.5}, {SHAPE(1031)}, {SHAPE(1031)}}},
    {"layer_norm", "many rows", layer_norm, FLOATS, false, 509, {{SHAPE(509, 17)}, {SHAPE(17)}, {SHAPE(17)}}},
    {"layer_norm",
     "rows in three pieces",
     layer_norm,
     FLOATS,
     false,
     37,
     {{SHAPE(37, 1031)}, {SHAPE(1031)}, {SHAPE(1031)}}},
    {"layer_norm", "residual", residual_layer_norm, FLOATS, true, 11, {{SHAPE(2, 3, 11)}, {SHAPE(11)}, {SHAPE(11)}}},
    {"layer_norm",
     "residual, long",
     residual_layer_norm,
     FLOATS,
     false,
     1031,
     {{SHAPE(7, 1031)}, {SHAPE(1031)}, {SHAPE(1031)}}},
    {"rms_norm", "residual", residual_rms_norm, FLOATS, true, 11, {{SHAPE(5, 11)}, {SHAPE(11)}}},
    {"rms_norm", "weight", rms_norm, FLOATS, true, 11, {{SHAPE(2, 3, 11)}, {SHAPE(11)}}},
    {"rms_norm", "bare", rms_norm_bare, FLOATS, true, 7, {{SHAPE(5, 7)}}},
    {"rms_norm", "long", rms_norm, FLOATS, false, 1031, {{SHAPE(7, 1031)}, {SHAPE(1031)}}},
    {"embedding", "", embedding, ANYTHING, true, 6, {{SHAPE(5, 7)}, {SHAPE(2, 3), .fill = INDEX, .hi = 5}}},
    {"embedding",
     "int32, many of few",
     embedding_narrow,
     FLOATS,
     true,
     41,
     {{SHAPE(3, 5)}, {SHAPE(41), .fill = INDEX, .hi = 3}}},
    {"embedding", "one index", embedding, FLOATS, true, 1, {{SHAPE(3, 5)}, {.ndim = 0, .fill = INDEX, .hi = 3}}},
    {"embedding", "no index", embedding, FLOATS, true, 1, {{SHAPE(3, 5)}, {SHAPE(0), .fill = INDEX, .hi = 3}}},
    {"embed_part", "2, 5, 8... of 19, 1 of 2", embed_inside, ANYTHING, true, 1, {{SHAPE(3, 5)}}},
    {"cross_entropy", "mean", cross_entropy, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(5), .fill = INDEX, .hi = 7}}},
    {"linear_cross_entropy",
     "mean",
     linear_cross_entropy,
     FLOATS,
     true,
     11,
     {{SHAPE(5, 3)}, {SHAPE(11, 3)}, {SHAPE(5), .fill = INDEX, .hi = 11}}},
    {"linear_cross_entropy",
     "each of (B, T), ignored, smoothed",
     linear_cross_entropy_each,
     FLOATS,
     true,
     7,
     {{SHAPE(3, 2, 5)}, {SHAPE(7, 5)}, {SHAPE(3, 2), .fill = INDEX, .hi = 7}}},
    {"linear_cross_entropy",
     "no rows",
     linear_cross_entropy_each,
     FLOATS,
     true,
     7,
     {{SHAPE(0, 5)}, {SHAPE(7, 5)}, {SHAPE(0), .fill = INDEX, .hi = 7}}},
    {"cross_entropy",
     "mean, (B, T, V)",
     cross_entropy,
     FLOATS,
     true,
     7,
     {{SHAPE(2, 3, 7)}, {SHAPE(2, 3), .fill = INDEX, .hi = 7}}},
    {"cross_entropy",
     "ignored rows",
     cross_entropy_ignore,
     FLOATS,
     true,
     5,
     {{SHAPE(11, 5)}, {SHAPE(11), .fill = INDEX, .hi = 5}}},
    {"cross_entropy",
     "ignored, smoothed",
     cross_entropy_smooth,
     FLOATS,
     true,
     5,
     {{SHAPE(11, 5)}, {SHAPE(11), .fill = INDEX, .hi = 5}}},
    {"cross_entropy", "sum", cross_entropy_sum, FLOATS, true, 7, {{SHAPE(5, 7)}, {SHAPE(5), .fill = INDEX, .hi = 7}}},
    {"cross_entropy",
     "each",
     cross_entropy_each,
     FLOATS,
     true,
     7,
     {{SHAPE(3, 2, 7)}, {SHAPE(3, 2), .fill = INDEX, .hi = 7}}},
    {"cross_entropy",
     "long",
     cross_entropy,
     FLOATS,
     false,
     1031,
     {{SHAPE(7, 1031), .lo = -40, .hi = 40}, {SHAPE(7), .fill = INDEX, .hi = 1031}}},
    {"dropout", "0.3", dropout, FLOATS, true, 1, {{SHAPE(3, 5, 7)}}},
    {"dropout", "not training", dropout_off, FLOATS, true, 1, {{SHAPE(3, 5)}}},
    {"conv", "one axis", conv, FLOATS, true, 15, {{SHAPE(2, 3, 11)}, {SHAPE(2, 3, 5)}, {SHAPE(2)}}},
    {"conv", "one axis, no batch", conv_bare, FLOATS, true, 15, {{SHAPE(3, 7)}, {SHAPE(2, 3, 5)}}},
    {"conv", "two axes", conv_uneven, FLOATS, true, 18, {{SHAPE(2, 3, 5, 4)}, {SHAPE(2, 3, 2, 3)}, {SHAPE(2)}}},
    {"conv",
     "three axes",
     conv_uneven,
     FLOATS,
     true,
     24,
     {{SHAPE(1, 2, 3, 3, 5)}, {SHAPE(2, 2, 2, 3, 2)}, {SHAPE(2)}}},
    {"conv", "groups", conv_groups, FLOATS, true, 8, {{SHAPE(1, 6, 4, 5)}, {SHAPE(3, 2, 2, 2)}, {SHAPE(3)}}},
    {"conv",
     "one channel each",
     conv_depthwise,
     FLOATS,
     true,
     9,
     {{SHAPE(2, 2, 3, 4)}, {SHAPE(2, 1, 3, 3)}, {SHAPE(2)}}},
    {"conv",
     "channels last",
     conv_channels_last,
     FLOATS,
     true,
     27,
     {{SHAPE(1, 3, 4, 3)}, {SHAPE(2, 3, 3, 3)}, {SHAPE(2)}}},
    {"conv", "no batch elements", conv, FLOATS, true, 1, {{SHAPE(0, 3, 7)}, {SHAPE(2, 3, 5)}, {SHAPE(2)}}},
    {"conv", "only padding", conv_same, FLOATS, true, 1, {{SHAPE(2, 3, 0)}, {SHAPE(2, 3, 2)}, {SHAPE(2)}}},
    {"conv", "1 x 1, larger", conv, FLOATS, false, 37, {{SHAPE(2, 37, 13, 11)}, {SHAPE(23, 37, 1, 1)}, {SHAPE(23)}}},
    {"conv",
     "3 x 3, larger",
     conv_same,
     FLOATS,
     false,
     153,
     {{SHAPE(1, 17, 13, 29)}, {SHAPE(31, 17, 3, 3)}, {SHAPE(31)}}},
    {"conv",
     "one channel each, larger",
     conv_depthwise,
     FLOATS,
     false,
     9,
     {{SHAPE(2, 5, 23, 37)}, {SHAPE(10, 1, 3, 3)}, {SHAPE(10)}}},
    {"conv_transpose", "one axis", conv_transpose, FLOATS, true, 15, {{SHAPE(2, 3, 5)}, {SHAPE(3, 2, 5)}, {SHAPE(2)}}},
    {"conv_transpose", "no batch", conv_transpose, FLOATS, true, 15, {{SHAPE(3, 4)}, {SHAPE(3, 2, 5)}, {SHAPE(2)}}},
    {"conv_transpose",
     "two axes",
     conv_transpose_uneven,
     FLOATS,
     true,
     18,
     {{SHAPE(2, 3, 3, 2)}, {SHAPE(3, 2, 2, 3)}, {SHAPE(2)}}},
    {"conv_transpose",
     "three axes",
     conv_transpose_uneven,
     FLOATS,
     true,
     24,
     {{SHAPE(1, 2, 2, 2, 3)}, {SHAPE(2, 2, 2, 3, 2)}, {SHAPE(2)}}},
    {"conv_transpose",
     "groups",
     conv_transpose_groups,
     FLOATS,
     true,
     8,
     {{SHAPE(1, 3, 4, 5)}, {SHAPE(3, 2, 2, 2)}, {SHAPE(6)}}},
    {"attention", "", attention, FLOATS, true, 7, {{SHAPE(1, 2, 5, 4)}, {SHAPE(1, 2, 7, 4)}, {SHAPE(1, 2, 7, 4)}}},
    {"attention",
     "causal",
     attention_causal,
     FLOATS,
     true,
     5,
     {{SHAPE(2, 1, 5, 3)}, {SHAPE(2, 1, 5, 3)}, {SHAPE(2, 1, 5, 3)}}},
    {"attention",
     "causal, keys before",
     attention_scaled,
     FLOATS,
     true,
     7,
     {{SHAPE(1, 2, 3, 5)}, {SHAPE(1, 2, 7, 5)}, {SHAPE(1, 2, 7, 5)}}},
    {"attention",
     "causal, queries that see nothing",
     attention_causal,
     FLOATS,
     true,
     5,
     {{SHAPE(1, 2, 5, 3)}, {SHAPE(1, 2, 2, 3)}, {SHAPE(1, 2, 2, 3)}}},
    {"attention",
     "no keys",
     attention,
     FLOATS,
     true,
     5,
     {{SHAPE(1, 2, 3, 4)}, {SHAPE(1, 2, 0, 4)}, {SHAPE(1, 2, 0, 4)}}},
    {"attention",
     "no queries",
     attention,
     FLOATS,
     true,
     5,
     {{SHAPE(2, 1, 0, 4)}, {SHAPE(2, 1, 3, 4)}, {SHAPE(2, 1, 3, 4)}}},
    {"attention",
     "heads inside",
     attention_heads,
     FLOATS,
     true,
     5,
     {{SHAPE(2, 5, 3, 4)}, {SHAPE(2, 5, 3, 4)}, {SHAPE(2, 5, 3, 4)}}},
    {"attention_packed", "", attention_packed, FLOATS, true, 7, {{SHAPE(2, 7, 3, 2, 4)}}},
    {"attention_packed", "window", attention_packed_window, FLOATS, true, 7, {{SHAPE(1, 5, 3, 2, 3)}}},
    {"attention_packed", "longer", attention_packed_window, FLOATS, false, 67, {{SHAPE(1, 67, 3, 1, 32)}}},
    {"attention", "shared keys", attention, FLOATS, true, 7,
     {{SHAPE(1, 6, 5, 4)}, {SHAPE(1, 2, 7, 4)}, {SHAPE(1, 2, 7, 4)}}},
    {"attention", "window", attention_window, FLOATS, true, 7,
     {{SHAPE(1, 1, 5, 3)}, {SHAPE(1, 1, 7, 3)}, {SHAPE(1, 1, 7, 3)}}},
    {"attention", "shared keys, window, shift", attention_shift, FLOATS, true, 7,
     {{SHAPE(2, 2, 3, 3)}, {SHAPE(2, 1, 7, 3)}, {SHAPE(2, 1, 7, 3)}}},
    {"attention", "shared keys, queries that see nothing", attention_shift, FLOATS, true, 7,
     {{SHAPE(1, 2, 7, 3)}, {SHAPE(1, 1, 2, 3)}, {SHAPE(1, 1, 2, 3)}}},
    {"attention", "shared keys, no keys", attention, FLOATS, true, 5,
     {{SHAPE(1, 4, 3, 4)}, {SHAPE(1, 2, 0, 4)}, {SHAPE(1, 2, 0, 4)}}},
    {"attention", "one query, shared keys, window, added mask", attention_mask_window, FLOATS, false, 131,
     {{SHAPE(2, 6, 1, 20)}, {SHAPE(2, 2, 131, 20)}, {SHAPE(6, 1, 131)}}},
    {"attention", "longer, shared keys, window, added mask", attention_mask_window, FLOATS, false, 131,
     {{SHAPE(1, 6, 131, 16)}, {SHAPE(1, 2, 131, 16)}, {SHAPE(131, 131)}}},
    {"attention",
     "longer",
     attention_causal,
     FLOATS,
     false,
     131,
     {{SHAPE(1, 2, 131, 32)}, {SHAPE(1, 2, 131, 32)}, {SHAPE(1, 2, 131, 32)}}},
    {"attention",
     "bool mask",
     attention_mask,
     FLOATS,
     true,
     7,
     {{SHAPE(2, 1, 5, 3)}, {SHAPE(2, 1, 7, 3)}, {SHAPE(5, 7), .fill = MASK}}},
    {"attention",
     "bool mask over keys, causal",
     attention_mask_causal,
     FLOATS,
     true,
     7,
     {{SHAPE(1, 2, 5, 3)}, {SHAPE(1, 2, 7, 3)}, {SHAPE(2, 1, 7), .fill = MASK}}},
    {"attention",
     "added mask",
     attention_mask,
     FLOATS,
     true,
     10,
     {{SHAPE(2, 2, 5, 3)}, {SHAPE(2, 2, 7, 3)}, {SHAPE(2, 1, 5, 7)}}},
    {"attention",
     "added mask over queries, causal",
     attention_mask_causal,
     FLOATS,
     true,
     14,
     {{SHAPE(2, 1, 7, 3)}, {SHAPE(2, 1, 5, 3)}, {SHAPE(7, 1)}}},
    {"attention",
     "one number as mask",
     attention_mask_causal,
     FLOATS,
     true,
     30,
     {{SHAPE(1, 2, 5, 3)}, {SHAPE(1, 2, 5, 3)}, {SHAPE(1)}}},
    {"attention",
     "no keys, added mask",
     attention_mask,
     FLOATS,
     true,
     5,
     {{SHAPE(1, 2, 3, 4)}, {SHAPE(1, 2, 0, 4)}, {SHAPE(3, 1)}}},
    {"attention",
     "no queries, bool mask",
     attention_mask_causal,
     FLOATS,
     true,
     5,
     {{SHAPE(2, 1, 0, 4)}, {SHAPE(2, 1, 3, 4)}, {SHAPE(3), .fill = MASK}}},
    {"attention",
     "one query, one key, added mask",
     attention_mask_causal,
     FLOATS,
     true,
     5,
     {{SHAPE(2, 3, 1, 5)}, {SHAPE(2, 3, 1, 5)}, {SHAPE(3, 1, 1)}}},
    {"attention",
     "longer, added mask",
     attention_mask_causal,
     FLOATS,
     false,
     131,
     {{SHAPE(1, 2, 131, 32)}, {SHAPE(1, 2, 131, 32)}, {SHAPE(2, 131, 131)}}},
    {"attention",
     "longer, bool mask",
     attention_mask,
     FLOATS,
     false,
     131,
     {{SHAPE(1, 2, 131, 32)}, {SHAPE(1, 2, 150, 32)}, {SHAPE(131, 150), .fill = MASK}}},
    {"rope", "", rope, FLOATS, true, 2, {{SHAPE(2, 3, 5, 6)}, {SHAPE(5, 6)}}},
    {"rope", "interleaved", rope_interleaved, FLOATS, true, 2, {{SHAPE(2, 3, 5, 6)}, {SHAPE(2, 1, 5, 6)}}},
    {"rope", "part of the columns", rope, FLOATS, true, 2, {{SHAPE(3, 5, 7)}, {SHAPE(5, 4)}}},
    {"rope", "interleaved, part, one row", rope_interleaved, FLOATS, true, 2, {{SHAPE(3, 5, 7)}, {SHAPE(4)}}},
    {"rope", "heads inside", rope_heads, FLOATS, true, 2, {{SHAPE(2, 5, 3, 4)}, {SHAPE(5, 4)}}},
    {"rope", "no columns", rope, FLOATS, true, 2, {{SHAPE(3, 5, 7)}, {SHAPE(5, 0)}}},
    {"rope", "no rows", rope, FLOATS, true, 2, {{SHAPE(3, 0, 6)}, {SHAPE(0, 4)}}},
    {"rope", "longer", rope_interleaved, FLOATS, false, 2, {{SHAPE(2, 131, 64)}, {SHAPE(131, 64)}}},
    {"max_pool", "2 x 2", max_pool_2, FLOATS, true, 1, {{SHAPE(2, 3, 7, 5)}}},
    {"max_pool", "3 x 3, stride 2, pad 1", max_pool_3, FLOATS, true, 1, {{SHAPE(3, 7, 11)}}},
    {"max_pool", "unequal, dilated, ceil", max_pool_odd, FLOATS, true, 1, {{SHAPE(2, 7, 11)}}},
    {"max_pool", "one axis", max_pool_line, FLOATS, true, 1, {{SHAPE(3, 17)}}},
    {"max_pool", "three axes", max_pool_box, FLOATS, true, 1, {{SHAPE(2, 3, 5, 7)}}},
    {"max_pool", "equal ones", max_pool_3, FLOATS, false, 1, {{SHAPE(3, 7, 11), .fill = STEPS, .lo = 0, .hi = 2}}},
    {"max_pool", "where, equal ones", max_pool_where, FLOATS, false, 1, {{SHAPE(3, 7, 11), .fill = STEPS}}},
    {"max_pool", "nothing", max_pool_2, FLOATS, true, 1, {{SHAPE(0, 3, 7, 5)}}},
    {"max_pool", "2 x 2, long", max_pool_2, FLOATS, false, 1, {{SHAPE(3, 67, 131)}}},
    {"max_pool", "3 x 3, long", max_pool_3, FLOATS, false, 1, {{SHAPE(5, 61, 137)}}},
    {"max_pool", "8 x 8, long", max_pool_8, FLOATS, false, 1, {{SHAPE(3, 29, 4211), .fill = STEPS}}},
    {"max_pool", "where, 8 x 8", max_pool_8_where, FLOATS, false, 1, {{SHAPE(2, 29, 211), .fill = STEPS}}},
    {"max_pool", "pairs side by side", max_pool_pairs, FLOATS, true, 1, {{SHAPE(6, 22)}}},
    {"max_pool", "pairs, long", max_pool_pairs, FLOATS, false, 1, {{SHAPE(24, 1400)}}},
    {"max_pool", "pairs, odd", max_pool_pairs, FLOATS, false, 1, {{SHAPE(5, 1401)}}},
    {"max_pool", "adaptive", adaptive_max, FLOATS, true, 1, {{SHAPE(2, 7, 5)}}},
    {"max_pool", "adaptive, where", adaptive_max_where, FLOATS, false, 1, {{SHAPE(2, 11, 7), .fill = STEPS}}},
    {"band", "mean 2 x 2", avg_pool_2, FLOATS, true, 4, {{SHAPE(2, 3, 7, 5)}}},
    {"band", "mean 3 x 5, pad, ceil", avg_pool_pad, FLOATS, true, 15, {{SHAPE(2, 7, 11)}}},
    {"band", "mean, three axes, divisor", avg_pool_box, FLOATS, true, 12, {{SHAPE(2, 3, 5, 7)}}},
    {"band", "mean, long", avg_pool_pad, FLOATS, false, 15, {{SHAPE(3, 67, 131)}}},
    {"band", "adaptive", adaptive_avg, FLOATS, true, 9, {{SHAPE(2, 7, 5)}}},
    {"band", "adaptive, one", adaptive_one, FLOATS, true, 35, {{SHAPE(2, 3, 7, 5)}}},
    {"band", "adaptive, none", adaptive_none, FLOATS, true, 1, {{SHAPE(3, 5)}}},
    {"band", "nearest", resize_nearest, FLOATS, true, 4, {{SHAPE(2, 5, 7)}}},
    {"band", "nearest, integers", resize_nearest, WHOLES, false, 1, {{SHAPE(2, 5, 7)}}},
    {"band", "nearest, doubled", resize_double, FLOATS, true, 4, {{SHAPE(2, 5, 7)}}},
    {"band", "nearest exact", resize_exact, FLOATS, true, 4, {{SHAPE(2, 5, 7)}}},
    {"band", "linear", resize_linear, FLOATS, true, 16, {{SHAPE(2, 5, 7)}}},
    {"band", "linear, corners", resize_corners, FLOATS, true, 16, {{SHAPE(2, 5, 7)}}},
    {"band", "linear, corners of one", resize_corners, FLOATS, true, 16, {{SHAPE(2, 1, 1)}}},
    {"band", "cubic", resize_cubic, FLOATS, true, 64, {{SHAPE(2, 5, 7)}}},
    {"band", "cubic, antialias", resize_smooth, FLOATS, true, 64, {{SHAPE(2, 7, 11)}}},
    {"band", "linear, antialias", resize_line, FLOATS, true, 16, {{SHAPE(3, 13)}}},
    {"band", "linear, nothing", resize_linear, FLOATS, true, 1, {{SHAPE(0, 5, 7)}}},
    {"band", "cubic, long", resize_cubic, FLOATS, false, 64, {{SHAPE(5, 61, 137)}}},
    {"batch_norm", "weight and bias", batch_norm, FLOATS, true, 14, {{SHAPE(2, 3, 7)}, {SHAPE(3)}, {SHAPE(3)}}},
    {"batch_norm", "(B, C), weight", batch_norm_w, FLOATS, true, 11, {{SHAPE(11, 5)}, {SHAPE(5)}}},
    {"batch_norm", "bare", batch_norm_bare, FLOATS, true, 30, {{SHAPE(2, 3, 5, 3)}}},
    {"batch_norm", "channels last", batch_norm_turned, FLOATS, true, 14, {{SHAPE(2, 7, 3)}, {SHAPE(3)}, {SHAPE(3)}}},
    {"batch_norm", "nothing", batch_norm, FLOATS, true, 1, {{SHAPE(0, 3, 7)}, {SHAPE(3)}, {SHAPE(3)}}},
    {"batch_norm",
     "long",
     batch_norm,
     FLOATS,
     false,
     3093,
     {{SHAPE(3, 7, 1031), .lo = 0.5, .hi = 2.5}, {SHAPE(7)}, {SHAPE(7)}}},
    {"batch_norm", "(B, C), many", batch_norm, FLOATS, false, 509, {{SHAPE(509, 37)}, {SHAPE(37)}, {SHAPE(37)}}},
    {"batch_norm", "short planes", batch_norm, FLOATS, false, 707, {{SHAPE(101, 17, 7)}, {SHAPE(17)}, {SHAPE(17)}}},
    {"batch_norm",
     "with statistics",
     batch_norm_with,
     FLOATS,
     true,
     4,
     {{SHAPE(2, 3, 7)}, {SHAPE(3)}, {SHAPE(3), .lo = 0.5, .hi = 2}, {SHAPE(3)}}},
    {"cholesky", "batch", cholesky, FLOATS, true, 90, {{SHAPE(2, 5, 5)}}},
    {"cholesky", "panels", cholesky, FLOATS, false, 900, {{SHAPE(101, 101)}}},
    {"cholesky", "nothing", cholesky, FLOATS, true, 1, {{SHAPE(3, 0, 0)}}},
    {"lu_factor", "square", lu_factor, FLOATS, true, 90, {{SHAPE(2, 5, 5)}}},
    {"lu_factor", "tall", lu_factor, FLOATS, true, 90, {{SHAPE(7, 3)}}},
    {"lu_factor", "wide", lu_factor, FLOATS, true, 90, {{SHAPE(2, 3, 5)}}},
    {"lu_factor", "panels", lu_factor, FLOATS, false, 900, {{SHAPE(101, 53)}}},
    {"solve_triangular", "upper", solve_upper, FLOATS, true, 90, {{SHAPE(5, 5)}, {SHAPE(2, 5, 3)}}},
    {"solve_triangular", "lower, ones", solve_unit, FLOATS, true, 90, {{SHAPE(2, 5, 5)}, {SHAPE(5, 1)}}},
    {"solve_triangular", "panels", solve_upper, FLOATS, false, 900, {{SHAPE(101, 101)}, {SHAPE(101, 7)}}},
    {"solve", "batch", solve, FLOATS, true, 90, {{SHAPE(2, 5, 5)}, {SHAPE(5, 3)}}},
    {"solve", "panels", solve, FLOATS, false, 900, {{SHAPE(101, 101)}, {SHAPE(101, 7)}}},
    {"solve", "nothing", solve, FLOATS, true, 1, {{SHAPE(3, 0, 0)}, {SHAPE(0, 2)}}},
    {"qr", "tall", qr, FLOATS, true, 90, {{SHAPE(2, 5, 3)}}},
    {"qr", "wide", qr, FLOATS, true, 90, {{SHAPE(3, 5)}}},
    {"qr", "panels", qr, FLOATS, false, 900, {{SHAPE(101, 53)}}},
    {"eigh", "batch", eigh, FLOATS, true, 90, {{SHAPE(2, 5, 5)}}},
    {"svd", "tall", svd, FLOATS, true, 90, {{SHAPE(2, 5, 3)}}},
    {"svd", "wide", svd, FLOATS, true, 90, {{SHAPE(3, 5)}}},
    {"eigvalsh", "values", eigvalsh, FLOATS, true, 90, {{SHAPE(2, 17, 17)}}},
    {"svdvals", "values", svdvals, FLOATS, true, 90, {{SHAPE(17, 19)}}},
    {"group_norm", "weight and bias", group_norm, FLOATS, true, 44, {{SHAPE(2, 4, 11)}, {SHAPE(4)}, {SHAPE(4)}}},
    {"group_norm", "(B, C), weight", group_norm_w, FLOATS, true, 4, {{SHAPE(5, 12)}, {SHAPE(12)}}},
    {"group_norm", "planes", group_norm_w, FLOATS, true, 30, {{SHAPE(2, 3, 5, 3)}, {SHAPE(3)}}},
    {"group_norm", "nothing", group_norm, FLOATS, true, 1, {{SHAPE(0, 4, 9)}, {SHAPE(4)}, {SHAPE(4)}}},
    {"group_norm",
     "long",
     group_norm,
     FLOATS,
     false,
     4124,
     {{SHAPE(3, 4, 2063), .lo = 0.5, .hi = 2.5}, {SHAPE(4)}, {SHAPE(4)}}},
    {"recurrent",
     "tanh",
     rnn_tanh,
     FLOATS,
     true,
     5,
     {{SHAPE(4, 2, 3)}, {SHAPE(5, 10), .lo = -0.5, .hi = 0.5}, {SHAPE(2, 5)}}},
    {"recurrent",
     "relu, packed, reverse",
     rnn_relu,
     FLOATS,
     false,
     5,
     {{SHAPE(13, 2)}, {SHAPE(3, 7)}, {SHAPE(3, 3)}}},
    {"recurrent", "gru", gru, FLOATS, true, 5, {{SHAPE(2, 2, 3)}, {SHAPE(6, 7)}, {SHAPE(2, 2)}}},
    {"recurrent",
     "gru, reverse, no bias",
     gru_plain,
     FLOATS,
     true,
     5,
     {{SHAPE(3, 2, 2)}, {SHAPE(6, 6)}, {SHAPE(2, 2)}}},
    {"recurrent", "gru, packed", gru_packed, FLOATS, true, 5, {{SHAPE(13, 2)}, {SHAPE(6, 6)}, {SHAPE(3, 2)}}},
    {"recurrent", "gru, no batch", gru, FLOATS, true, 5, {{SHAPE(3, 0, 4)}, {SHAPE(9, 9)}, {SHAPE(0, 3)}}},
    {"recurrent", "gru, no inputs", gru, FLOATS, true, 5, {{SHAPE(3, 2, 0)}, {SHAPE(9, 5)}, {SHAPE(2, 3)}}},
    {"recurrent",
     "gru, longer",
     gru,
     FLOATS,
     false,
     92,
     {{SHAPE(7, 19, 23)}, {SHAPE(201, 92), .lo = -0.3, .hi = 0.3}, {SHAPE(19, 67)}}},
    {"recurrent", "lstm", lstm, FLOATS, true, 5, {{SHAPE(2, 2, 3)}, {SHAPE(8, 7)}, {SHAPE(2, 4)}}},
    {"recurrent",
     "lstm, reverse, no bias",
     lstm_plain,
     FLOATS,
     true,
     4,
     {{SHAPE(2, 3, 2)}, {SHAPE(8, 6)}, {SHAPE(3, 4)}}},
    {"recurrent",
     "lstm, packed, reverse",
     lstm_packed,
     FLOATS,
     true,
     4,
     {{SHAPE(13, 2)}, {SHAPE(8, 6)}, {SHAPE(3, 4)}}},
    {"recurrent",
     "gru, packed, many",
     gru_packed_many,
     FLOATS,
     false,
     12,
     {{SHAPE(47, 3)}, {SHAPE(21, 12)}, {SHAPE(17, 7)}}},
    {"recurrent",
     "lstm, packed, reverse, many",
     lstm_packed_many,
     FLOATS,
     false,
     12,
     {{SHAPE(47, 3)}, {SHAPE(28, 12)}, {SHAPE(17, 14)}}},
    {"recurrent",
     "lstm, projected, packed",
     lstm_projected,
     FLOATS,
     true,
     4,
     {{SHAPE(13, 2)}, {SHAPE(12, 6)}, {SHAPE(3, 5)}, {SHAPE(2, 3)}}},
    {"recurrent", "lstm, one step", lstm, FLOATS, true, 5, {{SHAPE(1, 1, 1)}, {SHAPE(4, 4)}, {SHAPE(1, 2)}}},
    {"recurrent",
     "lstm, longer",
     lstm,
     FLOATS,
     false,
     92,
     {{SHAPE(7, 19, 23)}, {SHAPE(268, 92), .lo = -0.3, .hi = 0.3}, {SHAPE(19, 134)}}},
    {"batch_norm", "fixed", batch_norm_fixed, FLOATS, true, 14, {{SHAPE(2, 3, 7)}, {SHAPE(3)}, {SHAPE(3)}}},
    {"batch_norm", "fixed, nothing", batch_norm_fixed, FLOATS, true, 1, {{SHAPE(0, 3, 7)}, {SHAPE(3)}, {SHAPE(3)}}},
    {"batch_norm", "fixed, planes", batch_norm_fixed, FLOATS, true, 70, {{SHAPE(2, 3, 5, 7)}, {SHAPE(3)}, {SHAPE(3)}}},
    {"batch_norm", "fixed, long", batch_norm_fixed, FLOATS, false, 6186, {{SHAPE(3, 7, 2062)}, {SHAPE(7)}, {SHAPE(7)}}},
};
enum { OP_CASES = sizeof op_cases / sizeof *op_cases };

/* An entry of `in` that was never written has ndim 0 and no numbers: a 0-d input is told from it by its place. */
static int case_inputs(const op_case *c) {
    int n = 1;
    for (int i = 1; i < 4; i++) if (c->in[i].ndim || c->in[i].fill != REALS) n = i + 1;
    return n;
}

/* The cpu rounds x to 16 bits of the largest of its group, by half a step: an error of max |x| / 65024 a term, and of
 * max |x| / 65024 times the sum of |w| in y.  The slope of an activation is at most 1.13, that of GELU.  The rest to
 * 1.2 is for the sums in f32. */
static double slack_over(const cr_tensor *x, const cr_tensor *w) {
    const cr_tensor *sizes = cr_sum(cr_abs(w), CR_LIST(1), false);
    const cr_tensor *most = cr_mul(cr_max(cr_abs(x), CR_LIST(-1), true), sizes);
    return cr_numel(x) ? cr_item(cr_max(most, CR_ALL, false)) * 1.2 / 65024 : 0;
}

/* The largest error that a format of numbers inside of the op may add. */
static double slack_of(const op_case *c, const data *in) {
    static const struct { cr_tensor *(*run)(inputs in); int64_t rows; const char *format; } cases[] = {
        {packed_8, 7, "q8_0"},      {packed_8_bare, 5, "q8_0"}, {packed_8_long, 131, "q8_0"}, {packed_4, 7, "q4_0"},
        {packed_4_gelu, 7, "q4_0"}, {packed_4_long, 131, "q4_0"}, {packed_4_k, 5, "q4_k"},
        {packed_4_k_long, 131, "q4_k"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].run != c->run) continue;
        const cr_tensor *x = data_put(&in[0], DENSE, test_ref());
        const cr_tensor *w = packed_weight(cr_device_of(x), cases[i].rows, cr_size(x, -1), cases[i].format);
        return slack_over(x, cr_unpack(w, cases[i].format, CR_F64));
    }
    return 0;
}

#endif
