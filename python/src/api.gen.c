/* api.gen.c - made from api.def and ops.def by tools/gen_python.py: the entry of every function and method. */
#include "extension.h"

#define CALL(f, e, self) static PyObject *f(PyObject *s, PyObject *const *v, Py_ssize_t n, PyObject *k) { (void)s; return api_call(&e, self, v, n, k); }
#define FAST (METH_FASTCALL | METH_KEYWORDS)
#define AS(f) (PyCFunction)(void (*)(void))(f)

PyObject *api_tensor(const arg *a);
cr_tensor *api_zeros(const arg *a);
cr_tensor *api_ones(const arg *a);
cr_tensor *api_empty(const arg *a);
cr_tensor *api_full(const arg *a);
PyObject *api_arange(const arg *a);
cr_tensor *api_linspace(const arg *a);
cr_tensor *api_eye(const arg *a);
cr_tensor *api_rand(const arg *a);
cr_tensor *api_randn(const arg *a);
PyObject *api_randint(const arg *a);
cr_tensor *api_zeros_like(const arg *a);
cr_tensor *api_ones_like(const arg *a);
cr_tensor *api_empty_like(const arg *a);
cr_tensor *api_full_like(const arg *a);
cr_tensor *api_rand_like(const arg *a);
cr_tensor *api_randn_like(const arg *a);
cr_tensor *api_randint_like(const arg *a);
cr_tensor *api_randperm(const arg *a);
cr_tensor *api_multinomial(const arg *a);
cr_tensor *api_bernoulli(const arg *a);
cr_tensor *api_normal(const arg *a);
cr_tensor *api_uniform_(const arg *a);
cr_tensor *api_normal_(const arg *a);
cr_tensor *api_log_normal_(const arg *a);
cr_tensor *api_exponential_(const arg *a);
cr_tensor *api_cauchy_(const arg *a);
cr_tensor *api_geometric_(const arg *a);
cr_tensor *api_bernoulli_(const arg *a);
cr_tensor *api_random_(const arg *a);
cr_tensor *api_new_zeros(const arg *a);
cr_tensor *api_new_ones(const arg *a);
cr_tensor *api_new_empty(const arg *a);
cr_tensor *api_new_full(const arg *a);
PyObject *api_new_tensor(const arg *a);
PyObject *api_manual_seed(const arg *a);
PyObject *api_asarray(const arg *a);
PyObject *api_as_tensor(const arg *a);
PyObject *api_from_numpy(const arg *a);
PyObject *api_from_dlpack(const arg *a);
PyObject *api__rebuild(const arg *a);
PyObject *api_numel(const arg *a);
PyObject *api_is_tensor(const arg *a);
PyObject *api_is_floating_point(const arg *a);
PyObject *api_dim(const arg *a);
PyObject *api_size(const arg *a);
PyObject *api_stride(const arg *a);
PyObject *api_storage_offset(const arg *a);
PyObject *api_is_contiguous(const arg *a);
PyObject *api_element_size(const arg *a);
PyObject *api_data_ptr(const arg *a);
PyObject *api_item(const arg *a);
PyObject *api___complex__(const arg *a);
PyObject *api_tolist(const arg *a);
PyObject *api_numpy(const arg *a);
PyObject *api___array__(const arg *a);
PyObject *api___dlpack__(const arg *a);
PyObject *api___dlpack_device__(const arg *a);
PyObject *api___array_namespace__(const arg *a);
PyObject *api___reduce_ex__(const arg *a);
PyObject *api___copy__(const arg *a);
PyObject *api___deepcopy__(const arg *a);
PyObject *api___format__(const arg *a);
PyObject *api_promote_types(const arg *a);
PyObject *api_result_type(const arg *a);
PyObject *api_can_cast(const arg *a);
PyObject *api_save(const arg *a);
PyObject *api_load(const arg *a);
PyObject *api__node(const arg *a);
PyObject *api__load_metadata(const arg *a);
PyObject *api__training_save(const arg *a);
PyObject *api__training_load(const arg *a);
PyObject *api__training_weights(const arg *a);
PyObject *api_set_printoptions(const arg *a);
PyObject *api_to(const arg *a);
PyObject *api_cpu(const arg *a);
PyObject *api_cuda(const arg *a);
PyObject *api_gpu(const arg *a);
PyObject *api_to_device(const arg *a);
PyObject *api_type_as(const arg *a);
PyObject *api_float(const arg *a);
PyObject *api_double(const arg *a);
PyObject *api_half(const arg *a);
PyObject *api_bfloat16(const arg *a);
PyObject *api_int(const arg *a);
PyObject *api_long(const arg *a);
PyObject *api_short(const arg *a);
PyObject *api_bool(const arg *a);
cr_tensor *api_contiguous(const arg *a);
cr_tensor *api_clone(const arg *a);
cr_tensor *api_detach(const arg *a);
cr_tensor *api_reshape(const arg *a);
cr_tensor *api_view(const arg *a);
cr_tensor *api_transpose(const arg *a);
cr_tensor *api_t(const arg *a);
cr_tensor *api_permute(const arg *a);
cr_tensor *api_flatten(const arg *a);
cr_tensor *api_ravel(const arg *a);
cr_tensor *api_unflatten(const arg *a);
cr_tensor *api_squeeze(const arg *a);
cr_tensor *api_unsqueeze(const arg *a);
cr_tensor *api_expand(const arg *a);
cr_tensor *api_broadcast_to(const arg *a);
cr_tensor *api_expand_as(const arg *a);
cr_tensor *api_view_as(const arg *a);
cr_tensor *api_reshape_as(const arg *a);
cr_tensor *api_narrow(const arg *a);
cr_tensor *api_select(const arg *a);
cr_tensor *api_slice(const arg *a);
PyObject *api_split(const arg *a);
PyObject *api_chunk(const arg *a);
PyObject *api_unbind(const arg *a);
cr_tensor *api_movedim(const arg *a);
cr_tensor *api_diagonal(const arg *a);
cr_tensor *api_diag_embed(const arg *a);
cr_tensor *api_diag(const arg *a);
cr_tensor *api_unfold(const arg *a);
PyObject *api_meshgrid(const arg *a);
PyObject *api_atleast_1d(const arg *a);
PyObject *api_atleast_2d(const arg *a);
PyObject *api_atleast_3d(const arg *a);
cr_tensor *api_flip(const arg *a);
cr_tensor *api_fliplr(const arg *a);
cr_tensor *api_flipud(const arg *a);
cr_tensor *api_roll(const arg *a);
cr_tensor *api_repeat(const arg *a);
cr_tensor *api_tile(const arg *a);
PyObject *api_repeat_interleave(const arg *a);
PyObject *api_pad(const arg *a);
cr_tensor *api_tril(const arg *a);
cr_tensor *api_triu(const arg *a);
cr_tensor *api_add(const arg *a);
cr_tensor *api_sub(const arg *a);
cr_tensor *api_rsub(const arg *a);
cr_tensor *api_div(const arg *a);
cr_tensor *api_pow(const arg *a);
cr_tensor *api_clamp(const arg *a);
cr_tensor *api_round(const arg *a);
cr_tensor *api_nextafter(const arg *a);
cr_tensor *api_nan_to_num(const arg *a);
cr_tensor *api_logit(const arg *a);
cr_tensor *api_gelu(const arg *a);
cr_tensor *api_add_(const arg *a);
cr_tensor *api_sub_(const arg *a);
cr_tensor *api_div_(const arg *a);
cr_tensor *api_round_(const arg *a);
cr_tensor *api_pow_(const arg *a);
cr_tensor *api_nan_to_num_(const arg *a);
cr_tensor *api_logit_(const arg *a);
cr_tensor *api_clamp_(const arg *a);
cr_tensor *api_copy_(const arg *a);
cr_tensor *api_tril_(const arg *a);
cr_tensor *api_triu_(const arg *a);
cr_tensor *api_fill_(const arg *a);
cr_tensor *api_zero_(const arg *a);
cr_tensor *api_sum(const arg *a);
cr_tensor *api_nansum(const arg *a);
cr_tensor *api_mean(const arg *a);
cr_tensor *api_nanmean(const arg *a);
cr_tensor *api_prod(const arg *a);
cr_tensor *api_var(const arg *a);
cr_tensor *api_std(const arg *a);
PyObject *api_var_mean(const arg *a);
PyObject *api_std_mean(const arg *a);
cr_tensor *api_any(const arg *a);
cr_tensor *api_all(const arg *a);
cr_tensor *api_count_nonzero(const arg *a);
PyObject *api_norm(const arg *a);
cr_tensor *api_amax(const arg *a);
cr_tensor *api_amin(const arg *a);
PyObject *api_aminmax(const arg *a);
PyObject *api_max(const arg *a);
PyObject *api_min(const arg *a);
cr_tensor *api_argmax(const arg *a);
cr_tensor *api_argmin(const arg *a);
cr_tensor *api_logsumexp(const arg *a);
cr_tensor *api_cumsum(const arg *a);
cr_tensor *api_cumprod(const arg *a);
cr_tensor *api_cumsum_(const arg *a);
cr_tensor *api_cumprod_(const arg *a);
cr_tensor *api_logcumsumexp(const arg *a);
PyObject *api_cummax(const arg *a);
PyObject *api_cummin(const arg *a);
cr_tensor *api_diff(const arg *a);
cr_tensor *api_softmax(const arg *a);
cr_tensor *api_log_softmax(const arg *a);
PyObject *api_sort(const arg *a);
cr_tensor *api_argsort(const arg *a);
cr_tensor *api_msort(const arg *a);
PyObject *api_topk(const arg *a);
PyObject *api_kthvalue(const arg *a);
PyObject *api_mode(const arg *a);
PyObject *api_median(const arg *a);
PyObject *api_nanmedian(const arg *a);
PyObject *api_unique(const arg *a);
PyObject *api_unique_consecutive(const arg *a);
cr_tensor *api_quantile(const arg *a);
cr_tensor *api_nanquantile(const arg *a);
cr_tensor *api_searchsorted(const arg *a);
cr_tensor *api_bucketize(const arg *a);
cr_tensor *api_isclose(const arg *a);
PyObject *api_allclose(const arg *a);
PyObject *api_equal(const arg *a);
cr_tensor *api_isin(const arg *a);
cr_tensor *api_bincount(const arg *a);
cr_tensor *api_histc(const arg *a);
cr_tensor *api_matmul(const arg *a);
cr_tensor *api_mm(const arg *a);
cr_tensor *api_bmm(const arg *a);
cr_tensor *api_mv(const arg *a);
cr_tensor *api_dot(const arg *a);
cr_tensor *api_vdot(const arg *a);
cr_tensor *api_inner(const arg *a);
cr_tensor *api_outer(const arg *a);
cr_tensor *api_kron(const arg *a);
cr_tensor *api_trace(const arg *a);
cr_tensor *api_addmm(const arg *a);
cr_tensor *api_addmv(const arg *a);
cr_tensor *api_addr(const arg *a);
cr_tensor *api_baddbmm(const arg *a);
cr_tensor *api_addbmm(const arg *a);
cr_tensor *api_addmm_(const arg *a);
cr_tensor *api_addmv_(const arg *a);
cr_tensor *api_addr_(const arg *a);
cr_tensor *api_baddbmm_(const arg *a);
cr_tensor *api_addbmm_(const arg *a);
PyObject *api_tensordot(const arg *a);
PyObject *api_einsum(const arg *a);
cr_tensor *api_index_select(const arg *a);
cr_tensor *api_gather(const arg *a);
cr_tensor *api_take_along_dim(const arg *a);
cr_tensor *api_take(const arg *a);
cr_tensor *api_scatter(const arg *a);
cr_tensor *api_scatter_(const arg *a);
cr_tensor *api_scatter_add(const arg *a);
cr_tensor *api_scatter_add_(const arg *a);
cr_tensor *api_scatter_reduce(const arg *a);
cr_tensor *api_scatter_reduce_(const arg *a);
cr_tensor *api_index_add(const arg *a);
cr_tensor *api_index_add_(const arg *a);
cr_tensor *api_index_copy(const arg *a);
cr_tensor *api_index_copy_(const arg *a);
cr_tensor *api_index_fill(const arg *a);
cr_tensor *api_index_fill_(const arg *a);
cr_tensor *api_index_put(const arg *a);
cr_tensor *api_index_put_(const arg *a);
cr_tensor *api_masked_fill(const arg *a);
cr_tensor *api_masked_fill_(const arg *a);
cr_tensor *api_masked_select(const arg *a);
cr_tensor *api_masked_scatter(const arg *a);
cr_tensor *api_masked_scatter_(const arg *a);
PyObject *api_nonzero(const arg *a);
cr_tensor *api_argwhere(const arg *a);
cr_tensor *api_one_hot(const arg *a);
cr_tensor *api_cat(const arg *a);
cr_tensor *api_stack(const arg *a);
cr_tensor *api_hstack(const arg *a);
cr_tensor *api_vstack(const arg *a);
PyObject *api_where(const arg *a);
cr_tensor *api_where_method(const arg *a);
cr_tensor *api__linear(const arg *a);
cr_tensor *api__mlp(const arg *a);
cr_tensor *api__layer_norm(const arg *a);
cr_tensor *api__rms_norm(const arg *a);
cr_tensor *api__embedding(const arg *a);
cr_tensor *api__cross_entropy(const arg *a);
cr_tensor *api__dropout(const arg *a);
cr_tensor *api__attention(const arg *a);
cr_tensor *api__sum_squares(const arg *a);
PyObject *api__total_norm(const arg *a);
PyObject *api__sample(const arg *a);
PyObject *api__init_uniform(const arg *a);
PyObject *api__init_normal(const arg *a);
PyObject *api__init_trunc_normal(const arg *a);
PyObject *api__init_orthogonal(const arg *a);
cr_tensor *api__zeros_offloaded(const arg *a);
PyObject *api__update(const arg *a);
PyObject *api__alias(const arg *a);
PyObject *api__tokenizer_bytes(const arg *a);
PyObject *api__tokenizer_chars(const arg *a);
PyObject *api__tokenizer_load(const arg *a);
PyObject *api__tokenizer_save(const arg *a);
PyObject *api__tokenizer_size(const arg *a);
PyObject *api__tokenizer_encode(const arg *a);
PyObject *api__tokenizer_decode(const arg *a);
PyObject *api__tokens_open(const arg *a);
PyObject *api__tokens_save(const arg *a);
PyObject *api__tokens_slice(const arg *a);
PyObject *api__tokens_info(const arg *a);
PyObject *api__loader_new(const arg *a);
PyObject *api__loader_next(const arg *a);
PyObject *api__loader_place(const arg *a);
PyObject *api__loader_seek(const arg *a);
cr_tensor *api_requires_grad_(const arg *a);
PyObject *api_detach_(const arg *a);
PyObject *api_retain_grad(const arg *a);
PyObject *api_backward(const arg *a);
PyObject *api_register_hook(const arg *a);
PyObject *api__gradients(const arg *a);
PyObject *api__record(const arg *a);
PyObject *api__gradcheck(const arg *a);
PyObject *api_is_grad_enabled(const arg *a);
PyObject *api__set_grad_enabled(const arg *a);
PyObject *api__set_anomaly(const arg *a);
PyObject *api_get_num_threads(const arg *a);
PyObject *api_set_num_threads(const arg *a);
PyObject *api_set_float32_matmul_precision(const arg *a);
PyObject *api_get_float32_matmul_precision(const arg *a);
PyObject *api_set_default_device(const arg *a);
PyObject *api__set_auto_transfer(const arg *a);
PyObject *api_get_default_device(const arg *a);
PyObject *api_synchronize(const arg *a);
PyObject *api_memory_stats(const arg *a);
PyObject *api_empty_cache(const arg *a);
PyObject *api__devices(const arg *a);
PyObject *api__switches(const arg *a);
PyObject *api__switch_set(const arg *a);
PyObject *api__profile_begin(const arg *a);
PyObject *api__profile_end(const arg *a);
static cr_tensor *api_mul(const arg *a) { return cr_mul(a[0].t, a[1].t); }
static cr_tensor *api_mul_(const arg *a) { return api_in_place("mul", a, 2, NULL); }
static cr_tensor *api_floor_divide(const arg *a) { return cr_floor_divide(a[0].t, a[1].t); }
static cr_tensor *api_floor_divide_(const arg *a) { return api_in_place("floor_divide", a, 2, NULL); }
static cr_tensor *api_remainder(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("remainder"); return cr_remainder(a[0].t, a[1].t); }
static cr_tensor *api_remainder_(const arg *a) { return api_in_place("remainder", a, 2, NULL); }
static cr_tensor *api_fmod(const arg *a) { return cr_fmod(a[0].t, a[1].t); }
static cr_tensor *api_fmod_(const arg *a) { return api_in_place("fmod", a, 2, NULL); }
static cr_tensor *api_maximum(const arg *a) { return cr_maximum(a[0].t, a[1].t); }
static cr_tensor *api_maximum_(const arg *a) { return api_in_place("maximum", a, 2, NULL); }
static cr_tensor *api_minimum(const arg *a) { return cr_minimum(a[0].t, a[1].t); }
static cr_tensor *api_minimum_(const arg *a) { return api_in_place("minimum", a, 2, NULL); }
static cr_tensor *api_fmax(const arg *a) { return cr_fmax(a[0].t, a[1].t); }
static cr_tensor *api_fmax_(const arg *a) { return api_in_place("fmax", a, 2, NULL); }
static cr_tensor *api_fmin(const arg *a) { return cr_fmin(a[0].t, a[1].t); }
static cr_tensor *api_fmin_(const arg *a) { return api_in_place("fmin", a, 2, NULL); }
static cr_tensor *api_clamp_min(const arg *a) { return cr_clamp_min(a[0].t, a[1].t); }
static cr_tensor *api_clamp_min_(const arg *a) { return api_in_place("clamp_min", a, 2, NULL); }
static cr_tensor *api_clamp_max(const arg *a) { return cr_clamp_max(a[0].t, a[1].t); }
static cr_tensor *api_clamp_max_(const arg *a) { return api_in_place("clamp_max", a, 2, NULL); }
static cr_tensor *api_neg(const arg *a) { return cr_neg(a[0].t); }
static cr_tensor *api_neg_(const arg *a) { return api_in_place("neg", a, 1, NULL); }
static cr_tensor *api_abs(const arg *a) { return cr_abs(a[0].t); }
static cr_tensor *api_abs_(const arg *a) { return api_in_place("abs", a, 1, NULL); }
static cr_tensor *api_sign(const arg *a) { return cr_sign(a[0].t); }
static cr_tensor *api_sign_(const arg *a) { return api_in_place("sign", a, 1, NULL); }
static cr_tensor *api_copysign(const arg *a) { return cr_copysign(a[0].t, a[1].t); }
static cr_tensor *api_copysign_(const arg *a) { return api_in_place("copysign", a, 2, NULL); }
static cr_tensor *api_square(const arg *a) { return cr_square(a[0].t); }
static cr_tensor *api_square_(const arg *a) { return api_in_place("square", a, 1, NULL); }
static cr_tensor *api_hypot(const arg *a) { return cr_hypot(a[0].t, a[1].t); }
static cr_tensor *api_hypot_(const arg *a) { return api_in_place("hypot", a, 2, NULL); }
static cr_tensor *api_reciprocal(const arg *a) { return cr_reciprocal(a[0].t); }
static cr_tensor *api_reciprocal_(const arg *a) { return api_in_place("reciprocal", a, 1, NULL); }
static cr_tensor *api_sqrt(const arg *a) { return cr_sqrt(a[0].t); }
static cr_tensor *api_sqrt_(const arg *a) { return api_in_place("sqrt", a, 1, NULL); }
static cr_tensor *api_rsqrt(const arg *a) { return cr_rsqrt(a[0].t); }
static cr_tensor *api_rsqrt_(const arg *a) { return api_in_place("rsqrt", a, 1, NULL); }
static cr_tensor *api_lerp(const arg *a) { return cr_lerp(a[0].t, a[1].t, a[2].t); }
static cr_tensor *api_lerp_(const arg *a) { return api_in_place("lerp", a, 3, NULL); }
static cr_tensor *api_addcmul(const arg *a) { return cr_addcmul(a[0].t, a[1].t, a[2].t, a[3].d); }
static cr_tensor *api_addcmul_(const arg *a) { return api_in_place("addcmul", a, 3, (const double[]){a[3].d}); }
static cr_tensor *api_addcdiv(const arg *a) { return cr_addcdiv(a[0].t, a[1].t, a[2].t, a[3].d); }
static cr_tensor *api_addcdiv_(const arg *a) { return api_in_place("addcdiv", a, 3, (const double[]){a[3].d}); }
static cr_tensor *api_exp(const arg *a) { return cr_exp(a[0].t); }
static cr_tensor *api_exp_(const arg *a) { return api_in_place("exp", a, 1, NULL); }
static cr_tensor *api_exp2(const arg *a) { return cr_exp2(a[0].t); }
static cr_tensor *api_exp2_(const arg *a) { return api_in_place("exp2", a, 1, NULL); }
static cr_tensor *api_expm1(const arg *a) { return cr_expm1(a[0].t); }
static cr_tensor *api_expm1_(const arg *a) { return api_in_place("expm1", a, 1, NULL); }
static cr_tensor *api_log(const arg *a) { return cr_log(a[0].t); }
static cr_tensor *api_log_(const arg *a) { return api_in_place("log", a, 1, NULL); }
static cr_tensor *api_log2(const arg *a) { return cr_log2(a[0].t); }
static cr_tensor *api_log2_(const arg *a) { return api_in_place("log2", a, 1, NULL); }
static cr_tensor *api_log10(const arg *a) { return cr_log10(a[0].t); }
static cr_tensor *api_log10_(const arg *a) { return api_in_place("log10", a, 1, NULL); }
static cr_tensor *api_logaddexp(const arg *a) { return cr_logaddexp(a[0].t, a[1].t); }
static cr_tensor *api_logaddexp_(const arg *a) { return api_in_place("logaddexp", a, 2, NULL); }
static cr_tensor *api_logaddexp2(const arg *a) { return cr_logaddexp2(a[0].t, a[1].t); }
static cr_tensor *api_logaddexp2_(const arg *a) { return api_in_place("logaddexp2", a, 2, NULL); }
static cr_tensor *api_xlogy(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("xlogy"); return cr_xlogy(a[0].t, a[1].t); }
static cr_tensor *api_xlogy_(const arg *a) { return api_in_place("xlogy", a, 2, NULL); }
static cr_tensor *api_log1p(const arg *a) { return cr_log1p(a[0].t); }
static cr_tensor *api_log1p_(const arg *a) { return api_in_place("log1p", a, 1, NULL); }
static cr_tensor *api_sin(const arg *a) { return cr_sin(a[0].t); }
static cr_tensor *api_sin_(const arg *a) { return api_in_place("sin", a, 1, NULL); }
static cr_tensor *api_cos(const arg *a) { return cr_cos(a[0].t); }
static cr_tensor *api_cos_(const arg *a) { return api_in_place("cos", a, 1, NULL); }
static cr_tensor *api_tan(const arg *a) { return cr_tan(a[0].t); }
static cr_tensor *api_tan_(const arg *a) { return api_in_place("tan", a, 1, NULL); }
static cr_tensor *api_asin(const arg *a) { return cr_asin(a[0].t); }
static cr_tensor *api_asin_(const arg *a) { return api_in_place("asin", a, 1, NULL); }
static cr_tensor *api_acos(const arg *a) { return cr_acos(a[0].t); }
static cr_tensor *api_acos_(const arg *a) { return api_in_place("acos", a, 1, NULL); }
static cr_tensor *api_atan(const arg *a) { return cr_atan(a[0].t); }
static cr_tensor *api_atan_(const arg *a) { return api_in_place("atan", a, 1, NULL); }
static cr_tensor *api_atan2(const arg *a) { return cr_atan2(a[0].t, a[1].t); }
static cr_tensor *api_atan2_(const arg *a) { return api_in_place("atan2", a, 2, NULL); }
static cr_tensor *api_sinh(const arg *a) { return cr_sinh(a[0].t); }
static cr_tensor *api_sinh_(const arg *a) { return api_in_place("sinh", a, 1, NULL); }
static cr_tensor *api_cosh(const arg *a) { return cr_cosh(a[0].t); }
static cr_tensor *api_cosh_(const arg *a) { return api_in_place("cosh", a, 1, NULL); }
static cr_tensor *api_tanh(const arg *a) { return cr_tanh(a[0].t); }
static cr_tensor *api_tanh_(const arg *a) { return api_in_place("tanh", a, 1, NULL); }
static cr_tensor *api_asinh(const arg *a) { return cr_asinh(a[0].t); }
static cr_tensor *api_asinh_(const arg *a) { return api_in_place("asinh", a, 1, NULL); }
static cr_tensor *api_acosh(const arg *a) { return cr_acosh(a[0].t); }
static cr_tensor *api_acosh_(const arg *a) { return api_in_place("acosh", a, 1, NULL); }
static cr_tensor *api_atanh(const arg *a) { return cr_atanh(a[0].t); }
static cr_tensor *api_atanh_(const arg *a) { return api_in_place("atanh", a, 1, NULL); }
static cr_tensor *api_deg2rad(const arg *a) { return cr_deg2rad(a[0].t); }
static cr_tensor *api_deg2rad_(const arg *a) { return api_in_place("deg2rad", a, 1, NULL); }
static cr_tensor *api_rad2deg(const arg *a) { return cr_rad2deg(a[0].t); }
static cr_tensor *api_rad2deg_(const arg *a) { return api_in_place("rad2deg", a, 1, NULL); }
static cr_tensor *api_sinc(const arg *a) { return cr_sinc(a[0].t); }
static cr_tensor *api_sinc_(const arg *a) { return api_in_place("sinc", a, 1, NULL); }
static cr_tensor *api_erf(const arg *a) { return cr_erf(a[0].t); }
static cr_tensor *api_erf_(const arg *a) { return api_in_place("erf", a, 1, NULL); }
static cr_tensor *api_erfc(const arg *a) { return cr_erfc(a[0].t); }
static cr_tensor *api_erfc_(const arg *a) { return api_in_place("erfc", a, 1, NULL); }
static cr_tensor *api_sigmoid(const arg *a) { return cr_sigmoid(a[0].t); }
static cr_tensor *api_sigmoid_(const arg *a) { return api_in_place("sigmoid", a, 1, NULL); }
static cr_tensor *api_relu(const arg *a) { return cr_relu(a[0].t); }
static cr_tensor *api_relu_(const arg *a) { return api_in_place("relu", a, 1, NULL); }
static cr_tensor *api_leaky_relu(const arg *a) { return cr_leaky_relu(a[0].t, a[1].d); }
static cr_tensor *api_leaky_relu_(const arg *a) { return api_in_place("leaky_relu", a, 1, (const double[]){a[1].d}); }
static cr_tensor *api_elu(const arg *a) { return cr_elu(a[0].t, a[1].d); }
static cr_tensor *api_elu_(const arg *a) { return api_in_place("elu", a, 1, (const double[]){a[1].d}); }
static cr_tensor *api_selu(const arg *a) { return cr_selu(a[0].t); }
static cr_tensor *api_selu_(const arg *a) { return api_in_place("selu", a, 1, NULL); }
static cr_tensor *api_celu(const arg *a) { return cr_celu(a[0].t, a[1].d); }
static cr_tensor *api_celu_(const arg *a) { return api_in_place("celu", a, 1, (const double[]){a[1].d}); }
static cr_tensor *api_silu(const arg *a) { return cr_silu(a[0].t); }
static cr_tensor *api_silu_(const arg *a) { return api_in_place("silu", a, 1, NULL); }
static cr_tensor *api_mish(const arg *a) { return cr_mish(a[0].t); }
static cr_tensor *api_mish_(const arg *a) { return api_in_place("mish", a, 1, NULL); }
static cr_tensor *api_softplus(const arg *a) { return cr_softplus(a[0].t, a[1].d, a[2].d); }
static cr_tensor *api_softplus_(const arg *a) { return api_in_place("softplus", a, 1, (const double[]){a[1].d, a[2].d}); }
static cr_tensor *api_softsign(const arg *a) { return cr_softsign(a[0].t); }
static cr_tensor *api_softsign_(const arg *a) { return api_in_place("softsign", a, 1, NULL); }
static cr_tensor *api_hardtanh(const arg *a) { return cr_hardtanh(a[0].t, a[1].d, a[2].d); }
static cr_tensor *api_hardtanh_(const arg *a) { return api_in_place("hardtanh", a, 1, (const double[]){a[1].d, a[2].d}); }
static cr_tensor *api_hardsigmoid(const arg *a) { return cr_hardsigmoid(a[0].t); }
static cr_tensor *api_hardsigmoid_(const arg *a) { return api_in_place("hardsigmoid", a, 1, NULL); }
static cr_tensor *api_hardswish(const arg *a) { return cr_hardswish(a[0].t); }
static cr_tensor *api_hardswish_(const arg *a) { return api_in_place("hardswish", a, 1, NULL); }
static cr_tensor *api_relu6(const arg *a) { return cr_relu6(a[0].t); }
static cr_tensor *api_relu6_(const arg *a) { return api_in_place("relu6", a, 1, NULL); }
static cr_tensor *api_logsigmoid(const arg *a) { return cr_logsigmoid(a[0].t); }
static cr_tensor *api_logsigmoid_(const arg *a) { return api_in_place("logsigmoid", a, 1, NULL); }
static cr_tensor *api_floor(const arg *a) { return cr_floor(a[0].t); }
static cr_tensor *api_floor_(const arg *a) { return api_in_place("floor", a, 1, NULL); }
static cr_tensor *api_ceil(const arg *a) { return cr_ceil(a[0].t); }
static cr_tensor *api_ceil_(const arg *a) { return api_in_place("ceil", a, 1, NULL); }
static cr_tensor *api_trunc(const arg *a) { return cr_trunc(a[0].t); }
static cr_tensor *api_trunc_(const arg *a) { return api_in_place("trunc", a, 1, NULL); }
static cr_tensor *api_frac(const arg *a) { return cr_frac(a[0].t); }
static cr_tensor *api_frac_(const arg *a) { return api_in_place("frac", a, 1, NULL); }
static cr_tensor *api_isnan(const arg *a) { return cr_isnan(a[0].t); }
static cr_tensor *api_isinf(const arg *a) { return cr_isinf(a[0].t); }
static cr_tensor *api_isposinf(const arg *a) { return cr_isposinf(a[0].t); }
static cr_tensor *api_isneginf(const arg *a) { return cr_isneginf(a[0].t); }
static cr_tensor *api_isfinite(const arg *a) { return cr_isfinite(a[0].t); }
static cr_tensor *api_signbit(const arg *a) { return cr_signbit(a[0].t); }
static cr_tensor *api_eq(const arg *a) { return cr_eq(a[0].t, a[1].t); }
static cr_tensor *api_eq_(const arg *a) { return api_in_place("eq", a, 2, NULL); }
static cr_tensor *api_ne(const arg *a) { return cr_ne(a[0].t, a[1].t); }
static cr_tensor *api_ne_(const arg *a) { return api_in_place("ne", a, 2, NULL); }
static cr_tensor *api_lt(const arg *a) { return cr_lt(a[0].t, a[1].t); }
static cr_tensor *api_lt_(const arg *a) { return api_in_place("lt", a, 2, NULL); }
static cr_tensor *api_le(const arg *a) { return cr_le(a[0].t, a[1].t); }
static cr_tensor *api_le_(const arg *a) { return api_in_place("le", a, 2, NULL); }
static cr_tensor *api_gt(const arg *a) { return cr_gt(a[0].t, a[1].t); }
static cr_tensor *api_gt_(const arg *a) { return api_in_place("gt", a, 2, NULL); }
static cr_tensor *api_ge(const arg *a) { return cr_ge(a[0].t, a[1].t); }
static cr_tensor *api_ge_(const arg *a) { return api_in_place("ge", a, 2, NULL); }
static cr_tensor *api_logical_and(const arg *a) { return cr_logical_and(a[0].t, a[1].t); }
static cr_tensor *api_logical_and_(const arg *a) { return api_in_place("logical_and", a, 2, NULL); }
static cr_tensor *api_logical_or(const arg *a) { return cr_logical_or(a[0].t, a[1].t); }
static cr_tensor *api_logical_or_(const arg *a) { return api_in_place("logical_or", a, 2, NULL); }
static cr_tensor *api_logical_xor(const arg *a) { return cr_logical_xor(a[0].t, a[1].t); }
static cr_tensor *api_logical_xor_(const arg *a) { return api_in_place("logical_xor", a, 2, NULL); }
static cr_tensor *api_logical_not(const arg *a) { return cr_logical_not(a[0].t); }
static cr_tensor *api_logical_not_(const arg *a) { return api_in_place("logical_not", a, 1, NULL); }
static cr_tensor *api_bitwise_and(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("bitwise_and"); return cr_bitwise_and(a[0].t, a[1].t); }
static cr_tensor *api_bitwise_and_(const arg *a) { return api_in_place("bitwise_and", a, 2, NULL); }
static cr_tensor *api_bitwise_or(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("bitwise_or"); return cr_bitwise_or(a[0].t, a[1].t); }
static cr_tensor *api_bitwise_or_(const arg *a) { return api_in_place("bitwise_or", a, 2, NULL); }
static cr_tensor *api_bitwise_xor(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("bitwise_xor"); return cr_bitwise_xor(a[0].t, a[1].t); }
static cr_tensor *api_bitwise_xor_(const arg *a) { return api_in_place("bitwise_xor", a, 2, NULL); }
static cr_tensor *api_bitwise_not(const arg *a) { return cr_bitwise_not(a[0].t); }
static cr_tensor *api_bitwise_not_(const arg *a) { return api_in_place("bitwise_not", a, 1, NULL); }
static cr_tensor *api_bitwise_left_shift(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("bitwise_left_shift"); return cr_left_shift(a[0].t, a[1].t); }
static cr_tensor *api_bitwise_left_shift_(const arg *a) { return api_in_place("left_shift", a, 2, NULL); }
static cr_tensor *api_bitwise_right_shift(const arg *a) { if (a[0].owned && a[1].owned) return no_tensor("bitwise_right_shift"); return cr_right_shift(a[0].t, a[1].t); }
static cr_tensor *api_bitwise_right_shift_(const arg *a) { return api_in_place("right_shift", a, 2, NULL); }

static const param tensor_entry_params[] = {{"data", OBJECT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry tensor_entry = {.name = "tensor", .run = api_tensor, .params = tensor_entry_params, .count = 4};
CALL(function_tensor, tensor_entry, NULL)
static const param zeros_entry_params[] = {{"size", SIZE, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry zeros_entry = {.name = "zeros", .compute = api_zeros, .params = zeros_entry_params, .count = 4};
CALL(function_zeros, zeros_entry, NULL)
static const param ones_entry_params[] = {{"size", SIZE, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry ones_entry = {.name = "ones", .compute = api_ones, .params = ones_entry_params, .count = 4};
CALL(function_ones, ones_entry, NULL)
static const param empty_entry_params[] = {{"size", SIZE, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry empty_entry = {.name = "empty", .compute = api_empty, .params = empty_entry_params, .count = 4};
CALL(function_empty, empty_entry, NULL)
static const param full_entry_params[] = {{"size", SIZE, 0, NULL, 0}, {"fill_value", NUMBER, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry full_entry = {.name = "full", .compute = api_full, .params = full_entry_params, .count = 5};
CALL(function_full, full_entry, NULL)
static const param arange_entry_params[] = {{"start", NUMBER, OPTIONAL, NULL, 0}, {"end", NUMBER, OPTIONAL, NULL, 0}, {"step", NUMBER, 0, "", 1.0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry arange_entry = {.name = "arange", .run = api_arange, .params = arange_entry_params, .count = 6};
CALL(function_arange, arange_entry, NULL)
static const param linspace_entry_params[] = {{"start", NUMBER, 0, NULL, 0}, {"end", NUMBER, 0, NULL, 0}, {"steps", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry linspace_entry = {.name = "linspace", .compute = api_linspace, .params = linspace_entry_params, .count = 6};
CALL(function_linspace, linspace_entry, NULL)
static const param eye_entry_params[] = {{"n", INT, 0, NULL, 0}, {"m", INT, OPTIONAL, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry eye_entry = {.name = "eye", .compute = api_eye, .params = eye_entry_params, .count = 5};
CALL(function_eye, eye_entry, NULL)
static const param rand_entry_params[] = {{"size", SIZE, VARIADIC, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry rand_entry = {.name = "rand", .compute = api_rand, .params = rand_entry_params, .count = 5};
CALL(function_rand, rand_entry, NULL)
static const param randn_entry_params[] = {{"size", SIZE, VARIADIC, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry randn_entry = {.name = "randn", .compute = api_randn, .params = randn_entry_params, .count = 5};
CALL(function_randn, randn_entry, NULL)
static const param randint_entry_params[] = {{"low", INT, OPTIONAL, NULL, 0}, {"high", OBJECT, OPTIONAL, NULL, 0}, {"size", OBJECT, OPTIONAL, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry randint_entry = {.name = "randint", .run = api_randint, .params = randint_entry_params, .count = 7};
CALL(function_randint, randint_entry, NULL)
static const param zeros_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry zeros_like_entry = {.name = "zeros_like", .compute = api_zeros_like, .params = zeros_like_entry_params, .count = 4};
CALL(function_zeros_like, zeros_like_entry, NULL)
static const param ones_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry ones_like_entry = {.name = "ones_like", .compute = api_ones_like, .params = ones_like_entry_params, .count = 4};
CALL(function_ones_like, ones_like_entry, NULL)
static const param empty_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry empty_like_entry = {.name = "empty_like", .compute = api_empty_like, .params = empty_like_entry_params, .count = 4};
CALL(function_empty_like, empty_like_entry, NULL)
static const param full_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"fill_value", NUMBER, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry full_like_entry = {.name = "full_like", .compute = api_full_like, .params = full_like_entry_params, .count = 5};
CALL(function_full_like, full_like_entry, NULL)
static const param rand_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry rand_like_entry = {.name = "rand_like", .compute = api_rand_like, .params = rand_like_entry_params, .count = 4};
CALL(function_rand_like, rand_like_entry, NULL)
static const param randn_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry randn_like_entry = {.name = "randn_like", .compute = api_randn_like, .params = randn_like_entry_params, .count = 4};
CALL(function_randn_like, randn_like_entry, NULL)
static const param randint_like_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"low", INT, 0, NULL, 0}, {"high", INT, OPTIONAL, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry randint_like_entry = {.name = "randint_like", .compute = api_randint_like, .params = randint_like_entry_params, .count = 6};
CALL(function_randint_like, randint_like_entry, NULL)
static const param randperm_entry_params[] = {{"n", INT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry randperm_entry = {.name = "randperm", .compute = api_randperm, .params = randperm_entry_params, .count = 5};
CALL(function_randperm, randperm_entry, NULL)
static const param multinomial_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"num_samples", INT, 0, NULL, 0}, {"replacement", BOOL, 0, "", 0.0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry multinomial_entry = {.name = "multinomial", .compute = api_multinomial, .params = multinomial_entry_params, .count = 4};
CALL(function_multinomial, multinomial_entry, NULL)
CALL(method_multinomial, multinomial_entry, s)
static const param bernoulli_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"p", FLOAT, OPTIONAL, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry bernoulli_entry = {.name = "bernoulli", .compute = api_bernoulli, .params = bernoulli_entry_params, .count = 3};
CALL(function_bernoulli, bernoulli_entry, NULL)
CALL(method_bernoulli, bernoulli_entry, s)
static const param normal_entry_params[] = {{"mean", OPERAND, 0, NULL, 0}, {"std", OPERAND, OPTIONAL, NULL, 0}, {"size", SIZE, OPTIONAL, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry normal_entry = {.name = "normal", .compute = api_normal, .params = normal_entry_params, .count = 7};
CALL(function_normal, normal_entry, NULL)
static const param uniform__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"from_", FLOAT, 0, "", 0.0}, {"to", FLOAT, 0, "", 1.0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry uniform__entry = {.name = "uniform_", .compute = api_uniform_, .params = uniform__entry_params, .count = 4, .inplace = true};
CALL(method_uniform_, uniform__entry, s)
static const param normal__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mean", FLOAT, 0, "", 0.0}, {"std", FLOAT, 0, "", 1.0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry normal__entry = {.name = "normal_", .compute = api_normal_, .params = normal__entry_params, .count = 4, .inplace = true};
CALL(method_normal_, normal__entry, s)
static const param log_normal__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mean", FLOAT, 0, "", 1.0}, {"std", FLOAT, 0, "", 2.0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry log_normal__entry = {.name = "log_normal_", .compute = api_log_normal_, .params = log_normal__entry_params, .count = 4, .inplace = true};
CALL(method_log_normal_, log_normal__entry, s)
static const param exponential__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"lambd", FLOAT, 0, "", 1.0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry exponential__entry = {.name = "exponential_", .compute = api_exponential_, .params = exponential__entry_params, .count = 3, .inplace = true};
CALL(method_exponential_, exponential__entry, s)
static const param cauchy__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"median", FLOAT, 0, "", 0.0}, {"sigma", FLOAT, 0, "", 1.0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry cauchy__entry = {.name = "cauchy_", .compute = api_cauchy_, .params = cauchy__entry_params, .count = 4, .inplace = true};
CALL(method_cauchy_, cauchy__entry, s)
static const param geometric__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"p", FLOAT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry geometric__entry = {.name = "geometric_", .compute = api_geometric_, .params = geometric__entry_params, .count = 3, .inplace = true};
CALL(method_geometric_, geometric__entry, s)
static const param bernoulli__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"p", OPERAND, OPTIONAL, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry bernoulli__entry = {.name = "bernoulli_", .compute = api_bernoulli_, .params = bernoulli__entry_params, .count = 3, .inplace = true};
CALL(method_bernoulli_, bernoulli__entry, s)
static const param random__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"from_", INT, OPTIONAL, NULL, 0}, {"to", INT, OPTIONAL, NULL, 0}, {"generator", GENERATOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry random__entry = {.name = "random_", .compute = api_random_, .params = random__entry_params, .count = 4, .inplace = true};
CALL(method_random_, random__entry, s)
static const param new_zeros_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"size", SIZE, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry new_zeros_entry = {.name = "new_zeros", .compute = api_new_zeros, .params = new_zeros_entry_params, .count = 5};
CALL(method_new_zeros, new_zeros_entry, s)
static const param new_ones_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"size", SIZE, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry new_ones_entry = {.name = "new_ones", .compute = api_new_ones, .params = new_ones_entry_params, .count = 5};
CALL(method_new_ones, new_ones_entry, s)
static const param new_empty_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"size", SIZE, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry new_empty_entry = {.name = "new_empty", .compute = api_new_empty, .params = new_empty_entry_params, .count = 5};
CALL(method_new_empty, new_empty_entry, s)
static const param new_full_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"size", SIZE, 0, NULL, 0}, {"fill_value", NUMBER, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry new_full_entry = {.name = "new_full", .compute = api_new_full, .params = new_full_entry_params, .count = 6};
CALL(method_new_full, new_full_entry, s)
static const param new_tensor_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"data", OBJECT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry new_tensor_entry = {.name = "new_tensor", .run = api_new_tensor, .params = new_tensor_entry_params, .count = 5};
CALL(method_new_tensor, new_tensor_entry, s)
static const param manual_seed_entry_params[] = {{"seed", OBJECT, 0, NULL, 0}};
static const entry manual_seed_entry = {.name = "manual_seed", .run = api_manual_seed, .params = manual_seed_entry_params, .count = 1};
CALL(function_manual_seed, manual_seed_entry, NULL)
static const param asarray_entry_params[] = {{"obj", OBJECT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"copy", BOOL, OPTIONAL | KEYWORD, NULL, 0}, {"requires_grad", BOOL, KEYWORD, "", 0.0}};
static const entry asarray_entry = {.name = "asarray", .run = api_asarray, .params = asarray_entry_params, .count = 5};
CALL(function_asarray, asarray_entry, NULL)
static const param as_tensor_entry_params[] = {{"data", OBJECT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL, NULL, 0}, {"device", DEVICE, OPTIONAL, NULL, 0}};
static const entry as_tensor_entry = {.name = "as_tensor", .run = api_as_tensor, .params = as_tensor_entry_params, .count = 3};
CALL(function_as_tensor, as_tensor_entry, NULL)
static const param from_numpy_entry_params[] = {{"ndarray", OBJECT, 0, NULL, 0}};
static const entry from_numpy_entry = {.name = "from_numpy", .run = api_from_numpy, .params = from_numpy_entry_params, .count = 1};
CALL(function_from_numpy, from_numpy_entry, NULL)
static const param from_dlpack_entry_params[] = {{"ext_tensor", OBJECT, 0, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"copy", BOOL, OPTIONAL | KEYWORD, NULL, 0}};
static const entry from_dlpack_entry = {.name = "from_dlpack", .run = api_from_dlpack, .params = from_dlpack_entry_params, .count = 3};
CALL(function_from_dlpack, from_dlpack_entry, NULL)
static const param _rebuild_entry_params[] = {{"type", OBJECT, 0, NULL, 0}, {"data", OBJECT, 0, NULL, 0}, {"shape", SIZE, 0, NULL, 0}, {"dtype", DTYPE, 0, NULL, 0}, {"device", DEVICE, 0, NULL, 0}, {"requires_grad", BOOL, 0, NULL, 0}, {"from_data", BOOL, 0, NULL, 0}};
static const entry _rebuild_entry = {.name = "_rebuild", .run = api__rebuild, .params = _rebuild_entry_params, .count = 7};
CALL(function__rebuild, _rebuild_entry, NULL)
static const param numel_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry numel_entry = {.name = "numel", .run = api_numel, .params = numel_entry_params, .count = 1};
CALL(function_numel, numel_entry, NULL)
CALL(method_numel, numel_entry, s)
static const param is_tensor_entry_params[] = {{"obj", OBJECT, 0, NULL, 0}};
static const entry is_tensor_entry = {.name = "is_tensor", .run = api_is_tensor, .params = is_tensor_entry_params, .count = 1};
CALL(function_is_tensor, is_tensor_entry, NULL)
static const param is_floating_point_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry is_floating_point_entry = {.name = "is_floating_point", .run = api_is_floating_point, .params = is_floating_point_entry_params, .count = 1};
CALL(function_is_floating_point, is_floating_point_entry, NULL)
CALL(method_is_floating_point, is_floating_point_entry, s)
static const param dim_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry dim_entry = {.name = "dim", .run = api_dim, .params = dim_entry_params, .count = 1};
CALL(method_dim, dim_entry, s)
static const param size_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}};
static const entry size_entry = {.name = "size", .run = api_size, .params = size_entry_params, .count = 2};
CALL(method_size, size_entry, s)
static const param stride_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}};
static const entry stride_entry = {.name = "stride", .run = api_stride, .params = stride_entry_params, .count = 2};
CALL(method_stride, stride_entry, s)
static const param storage_offset_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry storage_offset_entry = {.name = "storage_offset", .run = api_storage_offset, .params = storage_offset_entry_params, .count = 1};
CALL(method_storage_offset, storage_offset_entry, s)
static const param is_contiguous_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry is_contiguous_entry = {.name = "is_contiguous", .run = api_is_contiguous, .params = is_contiguous_entry_params, .count = 1};
CALL(method_is_contiguous, is_contiguous_entry, s)
static const param element_size_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry element_size_entry = {.name = "element_size", .run = api_element_size, .params = element_size_entry_params, .count = 1};
CALL(method_element_size, element_size_entry, s)
static const param data_ptr_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry data_ptr_entry = {.name = "data_ptr", .run = api_data_ptr, .params = data_ptr_entry_params, .count = 1};
CALL(method_data_ptr, data_ptr_entry, s)
static const param item_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry item_entry = {.name = "item", .run = api_item, .params = item_entry_params, .count = 1};
CALL(method_item, item_entry, s)
static const param __complex___entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry __complex___entry = {.name = "__complex__", .run = api___complex__, .params = __complex___entry_params, .count = 1};
CALL(method___complex__, __complex___entry, s)
static const param tolist_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry tolist_entry = {.name = "tolist", .run = api_tolist, .params = tolist_entry_params, .count = 1};
CALL(method_tolist, tolist_entry, s)
static const param numpy_entry_params[] = {{"input", OBJECT, 0, NULL, 0}, {"force", BOOL, KEYWORD, "", 0.0}};
static const entry numpy_entry = {.name = "numpy", .run = api_numpy, .params = numpy_entry_params, .count = 2};
CALL(method_numpy, numpy_entry, s)
static const param __array___entry_params[] = {{"input", OBJECT, 0, NULL, 0}, {"dtype", OBJECT, OPTIONAL, NULL, 0}, {"copy", OBJECT, OPTIONAL, NULL, 0}};
static const entry __array___entry = {.name = "__array__", .run = api___array__, .params = __array___entry_params, .count = 3};
CALL(method___array__, __array___entry, s)
static const param __dlpack___entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"stream", OBJECT, OPTIONAL | KEYWORD, NULL, 0}, {"max_version", OBJECT, OPTIONAL | KEYWORD, NULL, 0}, {"dl_device", OBJECT, OPTIONAL | KEYWORD, NULL, 0}, {"copy", BOOL, OPTIONAL | KEYWORD, NULL, 0}};
static const entry __dlpack___entry = {.name = "__dlpack__", .run = api___dlpack__, .params = __dlpack___entry_params, .count = 5};
CALL(method___dlpack__, __dlpack___entry, s)
static const param __dlpack_device___entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry __dlpack_device___entry = {.name = "__dlpack_device__", .run = api___dlpack_device__, .params = __dlpack_device___entry_params, .count = 1};
CALL(method___dlpack_device__, __dlpack_device___entry, s)
static const param __array_namespace___entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"api_version", STR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry __array_namespace___entry = {.name = "__array_namespace__", .run = api___array_namespace__, .params = __array_namespace___entry_params, .count = 2};
CALL(method___array_namespace__, __array_namespace___entry, s)
static const param __reduce_ex___entry_params[] = {{"input", OBJECT, 0, NULL, 0}, {"protocol", OBJECT, 0, NULL, 0}};
static const entry __reduce_ex___entry = {.name = "__reduce_ex__", .run = api___reduce_ex__, .params = __reduce_ex___entry_params, .count = 2};
CALL(method___reduce_ex__, __reduce_ex___entry, s)
static const param __copy___entry_params[] = {{"input", OBJECT, 0, NULL, 0}};
static const entry __copy___entry = {.name = "__copy__", .run = api___copy__, .params = __copy___entry_params, .count = 1};
CALL(method___copy__, __copy___entry, s)
static const param __deepcopy___entry_params[] = {{"input", OBJECT, 0, NULL, 0}, {"memo", OBJECT, 0, NULL, 0}};
static const entry __deepcopy___entry = {.name = "__deepcopy__", .run = api___deepcopy__, .params = __deepcopy___entry_params, .count = 2};
CALL(method___deepcopy__, __deepcopy___entry, s)
static const param __format___entry_params[] = {{"input", OBJECT, 0, NULL, 0}, {"format_spec", OBJECT, 0, NULL, 0}};
static const entry __format___entry = {.name = "__format__", .run = api___format__, .params = __format___entry_params, .count = 2};
CALL(method___format__, __format___entry, s)
static const param promote_types_entry_params[] = {{"type1", DTYPE, 0, NULL, 0}, {"type2", DTYPE, 0, NULL, 0}};
static const entry promote_types_entry = {.name = "promote_types", .run = api_promote_types, .params = promote_types_entry_params, .count = 2};
CALL(function_promote_types, promote_types_entry, NULL)
static const param result_type_entry_params[] = {{"tensor1", OPERAND, 0, NULL, 0}, {"tensor2", OPERAND, 0, NULL, 0}};
static const entry result_type_entry = {.name = "result_type", .run = api_result_type, .params = result_type_entry_params, .count = 2};
CALL(function_result_type, result_type_entry, NULL)
static const param can_cast_entry_params[] = {{"from_", DTYPE, 0, NULL, 0}, {"to", DTYPE, 0, NULL, 0}};
static const entry can_cast_entry = {.name = "can_cast", .run = api_can_cast, .params = can_cast_entry_params, .count = 2};
CALL(function_can_cast, can_cast_entry, NULL)
static const param save_entry_params[] = {{"obj", OBJECT, 0, NULL, 0}, {"f", OBJECT, 0, NULL, 0}};
static const entry save_entry = {.name = "save", .run = api_save, .params = save_entry_params, .count = 2};
CALL(function_save, save_entry, NULL)
static const param load_entry_params[] = {{"f", OBJECT, 0, NULL, 0}, {"device", DEVICE, OPTIONAL, NULL, 0}};
static const entry load_entry = {.name = "load", .run = api_load, .params = load_entry_params, .count = 2};
CALL(function_load, load_entry, NULL)
static const param _node_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry _node_entry = {.name = "_node", .run = api__node, .params = _node_entry_params, .count = 1};
CALL(function__node, _node_entry, NULL)
static const param _load_metadata_entry_params[] = {{"f", STR, 0, NULL, 0}};
static const entry _load_metadata_entry = {.name = "_load_metadata", .run = api__load_metadata, .params = _load_metadata_entry_params, .count = 1};
CALL(function__load_metadata, _load_metadata_entry, NULL)
static const param _training_save_entry_params[] = {{"folder", STR, 0, NULL, 0}, {"weights", OBJECT, 0, NULL, 0}, {"groups", OBJECT, 0, NULL, 0}, {"loader", OBJECT, 0, NULL, 0}, {"moments", OBJECT, 0, NULL, 0}, {"steps", INT, 0, NULL, 0}, {"step", INT, 0, NULL, 0}, {"metadata", STR, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _training_save_entry = {.name = "_training_save", .run = api__training_save, .params = _training_save_entry_params, .count = 9};
CALL(function__training_save, _training_save_entry, NULL)
static const param _training_load_entry_params[] = {{"folder", STR, 0, NULL, 0}, {"weights", OBJECT, 0, NULL, 0}, {"groups", OBJECT, 0, NULL, 0}, {"loader", OBJECT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _training_load_entry = {.name = "_training_load", .run = api__training_load, .params = _training_load_entry_params, .count = 5};
CALL(function__training_load, _training_load_entry, NULL)
static const param _training_weights_entry_params[] = {{"folder", STR, 0, NULL, 0}};
static const entry _training_weights_entry = {.name = "_training_weights", .run = api__training_weights, .params = _training_weights_entry_params, .count = 1};
CALL(function__training_weights, _training_weights_entry, NULL)
static const param set_printoptions_entry_params[] = {{"precision", OBJECT, OPTIONAL, NULL, 0}, {"threshold", OBJECT, OPTIONAL, NULL, 0}, {"edgeitems", OBJECT, OPTIONAL, NULL, 0}, {"linewidth", OBJECT, OPTIONAL, NULL, 0}, {"profile", OBJECT, OPTIONAL, NULL, 0}, {"sci_mode", OBJECT, OPTIONAL, NULL, 0}};
static const entry set_printoptions_entry = {.name = "set_printoptions", .run = api_set_printoptions, .params = set_printoptions_entry_params, .count = 6};
CALL(function_set_printoptions, set_printoptions_entry, NULL)
static const param to_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"target", OBJECT, VARIADIC, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}, {"device", DEVICE, OPTIONAL | KEYWORD, NULL, 0}, {"copy", BOOL, KEYWORD, "", 0.0}, {"non_blocking", BOOL, KEYWORD, "", 0.0}};
static const entry to_entry = {.name = "to", .run = api_to, .params = to_entry_params, .count = 6};
CALL(method_to, to_entry, s)
static const param cpu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry cpu_entry = {.name = "cpu", .run = api_cpu, .params = cpu_entry_params, .count = 1};
CALL(method_cpu, cpu_entry, s)
static const param cuda_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"device", INT, OPTIONAL, NULL, 0}};
static const entry cuda_entry = {.name = "cuda", .run = api_cuda, .params = cuda_entry_params, .count = 2};
CALL(method_cuda, cuda_entry, s)
static const param gpu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"device", INT, OPTIONAL, NULL, 0}};
static const entry gpu_entry = {.name = "gpu", .run = api_gpu, .params = gpu_entry_params, .count = 2};
CALL(method_gpu, gpu_entry, s)
static const param to_device_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"device", DEVICE, 0, NULL, 0}, {"stream", OBJECT, OPTIONAL | KEYWORD, NULL, 0}};
static const entry to_device_entry = {.name = "to_device", .run = api_to_device, .params = to_device_entry_params, .count = 3};
CALL(method_to_device, to_device_entry, s)
static const param type_as_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry type_as_entry = {.name = "type_as", .run = api_type_as, .params = type_as_entry_params, .count = 2};
CALL(method_type_as, type_as_entry, s)
static const param float_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry float_entry = {.name = "float", .run = api_float, .params = float_entry_params, .count = 1};
CALL(method_float, float_entry, s)
static const param double_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry double_entry = {.name = "double", .run = api_double, .params = double_entry_params, .count = 1};
CALL(method_double, double_entry, s)
static const param half_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry half_entry = {.name = "half", .run = api_half, .params = half_entry_params, .count = 1};
CALL(method_half, half_entry, s)
static const param bfloat16_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry bfloat16_entry = {.name = "bfloat16", .run = api_bfloat16, .params = bfloat16_entry_params, .count = 1};
CALL(method_bfloat16, bfloat16_entry, s)
static const param int_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry int_entry = {.name = "int", .run = api_int, .params = int_entry_params, .count = 1};
CALL(method_int, int_entry, s)
static const param long_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry long_entry = {.name = "long", .run = api_long, .params = long_entry_params, .count = 1};
CALL(method_long, long_entry, s)
static const param short_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry short_entry = {.name = "short", .run = api_short, .params = short_entry_params, .count = 1};
CALL(method_short, short_entry, s)
static const param bool_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry bool_entry = {.name = "bool", .run = api_bool, .params = bool_entry_params, .count = 1};
CALL(method_bool, bool_entry, s)
static const param contiguous_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry contiguous_entry = {.name = "contiguous", .compute = api_contiguous, .params = contiguous_entry_params, .count = 1};
CALL(function_contiguous, contiguous_entry, NULL)
CALL(method_contiguous, contiguous_entry, s)
static const param clone_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry clone_entry = {.name = "clone", .compute = api_clone, .params = clone_entry_params, .count = 1};
CALL(function_clone, clone_entry, NULL)
CALL(method_clone, clone_entry, s)
static const param detach_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry detach_entry = {.name = "detach", .compute = api_detach, .params = detach_entry_params, .count = 1};
CALL(function_detach, detach_entry, NULL)
CALL(method_detach, detach_entry, s)
static const param reshape_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"shape", SIZE, 0, NULL, 0}};
static const entry reshape_entry = {.name = "reshape", .compute = api_reshape, .params = reshape_entry_params, .count = 2};
CALL(function_reshape, reshape_entry, NULL)
static const param reshape_entry2_params[] = {{"input", TENSOR, 0, NULL, 0}, {"shape", SIZE, VARIADIC, NULL, 0}};
static const entry reshape_entry2 = {.name = "reshape", .compute = api_reshape, .params = reshape_entry2_params, .count = 2};
CALL(method_reshape, reshape_entry2, s)
static const param view_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"shape", SIZE, VARIADIC, NULL, 0}};
static const entry view_entry = {.name = "view", .compute = api_view, .params = view_entry_params, .count = 2};
CALL(method_view, view_entry, s)
static const param transpose_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim0", INT, 0, NULL, 0}, {"dim1", INT, 0, NULL, 0}};
static const entry transpose_entry = {.name = "transpose", .compute = api_transpose, .params = transpose_entry_params, .count = 3};
CALL(function_transpose, transpose_entry, NULL)
CALL(method_transpose, transpose_entry, s)
static const param t_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry t_entry = {.name = "t", .compute = api_t, .params = t_entry_params, .count = 1};
CALL(function_t, t_entry, NULL)
CALL(method_t, t_entry, s)
static const param permute_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dims", SIZE, 0, NULL, 0}};
static const entry permute_entry = {.name = "permute", .compute = api_permute, .params = permute_entry_params, .count = 2};
CALL(function_permute, permute_entry, NULL)
static const param permute_entry2_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dims", SIZE, VARIADIC, NULL, 0}};
static const entry permute_entry2 = {.name = "permute", .compute = api_permute, .params = permute_entry2_params, .count = 2};
CALL(method_permute, permute_entry2, s)
static const param flatten_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"start_dim", INT, 0, "", 0.0}, {"end_dim", INT, 0, "", -1.0}};
static const entry flatten_entry = {.name = "flatten", .compute = api_flatten, .params = flatten_entry_params, .count = 3};
CALL(function_flatten, flatten_entry, NULL)
CALL(method_flatten, flatten_entry, s)
static const param ravel_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry ravel_entry = {.name = "ravel", .compute = api_ravel, .params = ravel_entry_params, .count = 1};
CALL(function_ravel, ravel_entry, NULL)
CALL(method_ravel, ravel_entry, s)
static const param unflatten_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"sizes", SIZE, 0, NULL, 0}};
static const entry unflatten_entry = {.name = "unflatten", .compute = api_unflatten, .params = unflatten_entry_params, .count = 3};
CALL(function_unflatten, unflatten_entry, NULL)
CALL(method_unflatten, unflatten_entry, s)
static const param squeeze_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}};
static const entry squeeze_entry = {.name = "squeeze", .compute = api_squeeze, .params = squeeze_entry_params, .count = 2};
CALL(function_squeeze, squeeze_entry, NULL)
CALL(method_squeeze, squeeze_entry, s)
static const param unsqueeze_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}};
static const entry unsqueeze_entry = {.name = "unsqueeze", .compute = api_unsqueeze, .params = unsqueeze_entry_params, .count = 2};
CALL(function_unsqueeze, unsqueeze_entry, NULL)
CALL(method_unsqueeze, unsqueeze_entry, s)
static const param expand_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"size", SIZE, VARIADIC, NULL, 0}};
static const entry expand_entry = {.name = "expand", .compute = api_expand, .params = expand_entry_params, .count = 2};
CALL(method_expand, expand_entry, s)
static const param broadcast_to_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"size", SIZE, 0, NULL, 0}};
static const entry broadcast_to_entry = {.name = "broadcast_to", .compute = api_broadcast_to, .params = broadcast_to_entry_params, .count = 2};
CALL(function_broadcast_to, broadcast_to_entry, NULL)
CALL(method_broadcast_to, broadcast_to_entry, s)
static const param expand_as_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry expand_as_entry = {.name = "expand_as", .compute = api_expand_as, .params = expand_as_entry_params, .count = 2};
CALL(method_expand_as, expand_as_entry, s)
static const param view_as_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry view_as_entry = {.name = "view_as", .compute = api_view_as, .params = view_as_entry_params, .count = 2};
CALL(method_view_as, view_as_entry, s)
static const param reshape_as_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry reshape_as_entry = {.name = "reshape_as", .compute = api_reshape_as, .params = reshape_as_entry_params, .count = 2};
CALL(method_reshape_as, reshape_as_entry, s)
static const param narrow_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"start", INT, 0, NULL, 0}, {"length", INT, 0, NULL, 0}};
static const entry narrow_entry = {.name = "narrow", .compute = api_narrow, .params = narrow_entry_params, .count = 4};
CALL(function_narrow, narrow_entry, NULL)
CALL(method_narrow, narrow_entry, s)
static const param select_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", INT, 0, NULL, 0}};
static const entry select_entry = {.name = "select", .compute = api_select, .params = select_entry_params, .count = 3};
CALL(function_select, select_entry, NULL)
CALL(method_select, select_entry, s)
static const param slice_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, "", 0.0}, {"start", INT, OPTIONAL, NULL, 0}, {"end", INT, OPTIONAL, NULL, 0}, {"step", INT, 0, "", 1.0}};
static const entry slice_entry = {.name = "slice", .compute = api_slice, .params = slice_entry_params, .count = 5};
CALL(method_slice, slice_entry, s)
static const param split_entry_params[] = {{"tensor", TENSOR, 0, NULL, 0}, {"split_size_or_sections", OBJECT, 0, NULL, 0}, {"dim", INT, 0, "", 0.0}};
static const entry split_entry = {.name = "split", .run = api_split, .params = split_entry_params, .count = 3};
CALL(function_split, split_entry, NULL)
CALL(method_split, split_entry, s)
static const param chunk_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"chunks", INT, 0, NULL, 0}, {"dim", INT, 0, "", 0.0}};
static const entry chunk_entry = {.name = "chunk", .run = api_chunk, .params = chunk_entry_params, .count = 3};
CALL(function_chunk, chunk_entry, NULL)
CALL(method_chunk, chunk_entry, s)
static const param unbind_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, "", 0.0}};
static const entry unbind_entry = {.name = "unbind", .run = api_unbind, .params = unbind_entry_params, .count = 2};
CALL(function_unbind, unbind_entry, NULL)
CALL(method_unbind, unbind_entry, s)
static const param movedim_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"source", SIZE, 0, NULL, 0}, {"destination", SIZE, 0, NULL, 0}};
static const entry movedim_entry = {.name = "movedim", .compute = api_movedim, .params = movedim_entry_params, .count = 3};
CALL(function_movedim, movedim_entry, NULL)
CALL(method_movedim, movedim_entry, s)
static const param diagonal_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"offset", INT, 0, "", 0.0}, {"dim1", INT, 0, "", 0.0}, {"dim2", INT, 0, "", 1.0}};
static const entry diagonal_entry = {.name = "diagonal", .compute = api_diagonal, .params = diagonal_entry_params, .count = 4};
CALL(function_diagonal, diagonal_entry, NULL)
CALL(method_diagonal, diagonal_entry, s)
static const param diag_embed_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"offset", INT, 0, "", 0.0}, {"dim1", INT, 0, "", -2.0}, {"dim2", INT, 0, "", -1.0}};
static const entry diag_embed_entry = {.name = "diag_embed", .compute = api_diag_embed, .params = diag_embed_entry_params, .count = 4};
CALL(function_diag_embed, diag_embed_entry, NULL)
CALL(method_diag_embed, diag_embed_entry, s)
static const param diag_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"diagonal", INT, 0, "", 0.0}};
static const entry diag_entry = {.name = "diag", .compute = api_diag, .params = diag_entry_params, .count = 2};
CALL(function_diag, diag_entry, NULL)
CALL(method_diag, diag_entry, s)
static const param unfold_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dimension", INT, 0, NULL, 0}, {"size", INT, 0, NULL, 0}, {"step", INT, 0, NULL, 0}};
static const entry unfold_entry = {.name = "unfold", .compute = api_unfold, .params = unfold_entry_params, .count = 4};
CALL(method_unfold, unfold_entry, s)
static const param meshgrid_entry_params[] = {{"tensors", OBJECT, VARIADIC, NULL, 0}, {"indexing", STR, KEYWORD, "ij", 0}};
static const entry meshgrid_entry = {.name = "meshgrid", .run = api_meshgrid, .params = meshgrid_entry_params, .count = 2};
CALL(function_meshgrid, meshgrid_entry, NULL)
static const param atleast_1d_entry_params[] = {{"tensors", OBJECT, VARIADIC, NULL, 0}};
static const entry atleast_1d_entry = {.name = "atleast_1d", .run = api_atleast_1d, .params = atleast_1d_entry_params, .count = 1};
CALL(function_atleast_1d, atleast_1d_entry, NULL)
static const param atleast_2d_entry_params[] = {{"tensors", OBJECT, VARIADIC, NULL, 0}};
static const entry atleast_2d_entry = {.name = "atleast_2d", .run = api_atleast_2d, .params = atleast_2d_entry_params, .count = 1};
CALL(function_atleast_2d, atleast_2d_entry, NULL)
static const param atleast_3d_entry_params[] = {{"tensors", OBJECT, VARIADIC, NULL, 0}};
static const entry atleast_3d_entry = {.name = "atleast_3d", .run = api_atleast_3d, .params = atleast_3d_entry_params, .count = 1};
CALL(function_atleast_3d, atleast_3d_entry, NULL)
static const param flip_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dims", SIZE, 0, NULL, 0}};
static const entry flip_entry = {.name = "flip", .compute = api_flip, .params = flip_entry_params, .count = 2};
CALL(function_flip, flip_entry, NULL)
static const param flip_entry2_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dims", SIZE, VARIADIC, NULL, 0}};
static const entry flip_entry2 = {.name = "flip", .compute = api_flip, .params = flip_entry2_params, .count = 2};
CALL(method_flip, flip_entry2, s)
static const param fliplr_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry fliplr_entry = {.name = "fliplr", .compute = api_fliplr, .params = fliplr_entry_params, .count = 1};
CALL(function_fliplr, fliplr_entry, NULL)
CALL(method_fliplr, fliplr_entry, s)
static const param flipud_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry flipud_entry = {.name = "flipud", .compute = api_flipud, .params = flipud_entry_params, .count = 1};
CALL(function_flipud, flipud_entry, NULL)
CALL(method_flipud, flipud_entry, s)
static const param roll_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"shifts", SIZE, 0, NULL, 0}, {"dims", SIZE, OPTIONAL, NULL, 0}};
static const entry roll_entry = {.name = "roll", .compute = api_roll, .params = roll_entry_params, .count = 3};
CALL(function_roll, roll_entry, NULL)
CALL(method_roll, roll_entry, s)
static const param repeat_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"repeats", SIZE, VARIADIC, NULL, 0}};
static const entry repeat_entry = {.name = "repeat", .compute = api_repeat, .params = repeat_entry_params, .count = 2};
CALL(method_repeat, repeat_entry, s)
static const param tile_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dims", SIZE, 0, NULL, 0}};
static const entry tile_entry = {.name = "tile", .compute = api_tile, .params = tile_entry_params, .count = 2};
CALL(function_tile, tile_entry, NULL)
static const param tile_entry2_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dims", SIZE, VARIADIC, NULL, 0}};
static const entry tile_entry2 = {.name = "tile", .compute = api_tile, .params = tile_entry2_params, .count = 2};
CALL(method_tile, tile_entry2, s)
static const param repeat_interleave_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"repeats", OBJECT, OPTIONAL, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"output_size", INT, OPTIONAL | KEYWORD, NULL, 0}};
static const entry repeat_interleave_entry = {.name = "repeat_interleave", .run = api_repeat_interleave, .params = repeat_interleave_entry_params, .count = 4};
CALL(function_repeat_interleave, repeat_interleave_entry, NULL)
CALL(method_repeat_interleave, repeat_interleave_entry, s)
static const param pad_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"pad", OBJECT, 0, NULL, 0}, {"mode", STR, 0, "constant", 0}, {"value", NUMBER, OPTIONAL, NULL, 0}};
static const entry pad_entry = {.name = "pad", .run = api_pad, .params = pad_entry_params, .count = 4};
CALL(function_pad, pad_entry, NULL)
static const param tril_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"diagonal", INT, 0, "", 0.0}};
static const entry tril_entry = {.name = "tril", .compute = api_tril, .params = tril_entry_params, .count = 2};
CALL(function_tril, tril_entry, NULL)
CALL(method_tril, tril_entry, s)
static const param triu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"diagonal", INT, 0, "", 0.0}};
static const entry triu_entry = {.name = "triu", .compute = api_triu, .params = triu_entry_params, .count = 2};
CALL(function_triu, triu_entry, NULL)
CALL(method_triu, triu_entry, s)
static const param add_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry add_entry = {.name = "add", .compute = api_add, .params = add_entry_params, .count = 3};
CALL(function_add, add_entry, NULL)
CALL(method_add, add_entry, s)
static const param sub_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry sub_entry = {.name = "sub", .compute = api_sub, .params = sub_entry_params, .count = 3};
CALL(function_sub, sub_entry, NULL)
CALL(method_sub, sub_entry, s)
static const param rsub_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry rsub_entry = {.name = "rsub", .compute = api_rsub, .params = rsub_entry_params, .count = 3};
CALL(function_rsub, rsub_entry, NULL)
CALL(method_rsub, rsub_entry, s)
static const param div_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"rounding_mode", STR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry div_entry = {.name = "div", .compute = api_div, .params = div_entry_params, .count = 3};
CALL(function_div, div_entry, NULL)
CALL(method_div, div_entry, s)
static const param pow_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"exponent", OPERAND, 0, NULL, 0}};
static const entry pow_entry = {.name = "pow", .compute = api_pow, .params = pow_entry_params, .count = 2};
CALL(function_pow, pow_entry, NULL)
static const param pow_entry2_params[] = {{"input", TENSOR, 0, NULL, 0}, {"exponent", OPERAND, 0, NULL, 0}};
static const entry pow_entry2 = {.name = "pow", .compute = api_pow, .params = pow_entry2_params, .count = 2};
CALL(method_pow, pow_entry2, s)
static const param clamp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"min", OPERAND, OPTIONAL, NULL, 0}, {"max", OPERAND, OPTIONAL, NULL, 0}};
static const entry clamp_entry = {.name = "clamp", .compute = api_clamp, .params = clamp_entry_params, .count = 3};
CALL(function_clamp, clamp_entry, NULL)
CALL(method_clamp, clamp_entry, s)
static const param round_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"decimals", INT, KEYWORD, "", 0.0}};
static const entry round_entry = {.name = "round", .compute = api_round, .params = round_entry_params, .count = 2};
CALL(function_round, round_entry, NULL)
CALL(method_round, round_entry, s)
static const param nextafter_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry nextafter_entry = {.name = "nextafter", .compute = api_nextafter, .params = nextafter_entry_params, .count = 2};
CALL(function_nextafter, nextafter_entry, NULL)
CALL(method_nextafter, nextafter_entry, s)
static const param nan_to_num_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"nan", FLOAT, OPTIONAL, NULL, 0}, {"posinf", FLOAT, OPTIONAL, NULL, 0}, {"neginf", FLOAT, OPTIONAL, NULL, 0}};
static const entry nan_to_num_entry = {.name = "nan_to_num", .compute = api_nan_to_num, .params = nan_to_num_entry_params, .count = 4};
CALL(function_nan_to_num, nan_to_num_entry, NULL)
CALL(method_nan_to_num, nan_to_num_entry, s)
static const param logit_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"eps", FLOAT, OPTIONAL, NULL, 0}};
static const entry logit_entry = {.name = "logit", .compute = api_logit, .params = logit_entry_params, .count = 2};
CALL(function_logit, logit_entry, NULL)
CALL(method_logit, logit_entry, s)
static const param gelu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"approximate", STR, KEYWORD, "none", 0}};
static const entry gelu_entry = {.name = "gelu", .compute = api_gelu, .params = gelu_entry_params, .count = 2};
CALL(function_gelu, gelu_entry, NULL)
CALL(method_gelu, gelu_entry, s)
static const param add__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry add__entry = {.name = "add_", .compute = api_add_, .params = add__entry_params, .count = 3, .inplace = true};
CALL(method_add_, add__entry, s)
static const param sub__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry sub__entry = {.name = "sub_", .compute = api_sub_, .params = sub__entry_params, .count = 3, .inplace = true};
CALL(method_sub_, sub__entry, s)
static const param div__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}, {"rounding_mode", STR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry div__entry = {.name = "div_", .compute = api_div_, .params = div__entry_params, .count = 3, .inplace = true};
CALL(method_div_, div__entry, s)
static const param round__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"decimals", INT, KEYWORD, "", 0.0}};
static const entry round__entry = {.name = "round_", .compute = api_round_, .params = round__entry_params, .count = 2, .inplace = true};
CALL(method_round_, round__entry, s)
static const param pow__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"exponent", OPERAND, 0, NULL, 0}};
static const entry pow__entry = {.name = "pow_", .compute = api_pow_, .params = pow__entry_params, .count = 2, .inplace = true};
CALL(method_pow_, pow__entry, s)
static const param nan_to_num__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"nan", FLOAT, OPTIONAL, NULL, 0}, {"posinf", FLOAT, OPTIONAL, NULL, 0}, {"neginf", FLOAT, OPTIONAL, NULL, 0}};
static const entry nan_to_num__entry = {.name = "nan_to_num_", .compute = api_nan_to_num_, .params = nan_to_num__entry_params, .count = 4, .inplace = true};
CALL(method_nan_to_num_, nan_to_num__entry, s)
static const param logit__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"eps", FLOAT, OPTIONAL, NULL, 0}};
static const entry logit__entry = {.name = "logit_", .compute = api_logit_, .params = logit__entry_params, .count = 2, .inplace = true};
CALL(method_logit_, logit__entry, s)
static const param clamp__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"min", OPERAND, OPTIONAL, NULL, 0}, {"max", OPERAND, OPTIONAL, NULL, 0}};
static const entry clamp__entry = {.name = "clamp_", .compute = api_clamp_, .params = clamp__entry_params, .count = 3, .inplace = true};
CALL(method_clamp_, clamp__entry, s)
static const param copy__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry copy__entry = {.name = "copy_", .compute = api_copy_, .params = copy__entry_params, .count = 2, .inplace = true};
CALL(method_copy_, copy__entry, s)
static const param tril__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"diagonal", INT, 0, "", 0.0}};
static const entry tril__entry = {.name = "tril_", .compute = api_tril_, .params = tril__entry_params, .count = 2, .inplace = true};
CALL(method_tril_, tril__entry, s)
static const param triu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"diagonal", INT, 0, "", 0.0}};
static const entry triu__entry = {.name = "triu_", .compute = api_triu_, .params = triu__entry_params, .count = 2, .inplace = true};
CALL(method_triu_, triu__entry, s)
static const param fill__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"value", OPERAND, 0, NULL, 0}};
static const entry fill__entry = {.name = "fill_", .compute = api_fill_, .params = fill__entry_params, .count = 2, .inplace = true};
CALL(method_fill_, fill__entry, s)
static const param zero__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry zero__entry = {.name = "zero_", .compute = api_zero_, .params = zero__entry_params, .count = 1, .inplace = true};
CALL(method_zero_, zero__entry, s)
static const param sum_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry sum_entry = {.name = "sum", .compute = api_sum, .params = sum_entry_params, .count = 4};
CALL(function_sum, sum_entry, NULL)
CALL(method_sum, sum_entry, s)
static const param nansum_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry nansum_entry = {.name = "nansum", .compute = api_nansum, .params = nansum_entry_params, .count = 4};
CALL(function_nansum, nansum_entry, NULL)
CALL(method_nansum, nansum_entry, s)
static const param mean_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry mean_entry = {.name = "mean", .compute = api_mean, .params = mean_entry_params, .count = 4};
CALL(function_mean, mean_entry, NULL)
CALL(method_mean, mean_entry, s)
static const param nanmean_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry nanmean_entry = {.name = "nanmean", .compute = api_nanmean, .params = nanmean_entry_params, .count = 4};
CALL(function_nanmean, nanmean_entry, NULL)
CALL(method_nanmean, nanmean_entry, s)
static const param prod_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry prod_entry = {.name = "prod", .compute = api_prod, .params = prod_entry_params, .count = 4};
CALL(function_prod, prod_entry, NULL)
CALL(method_prod, prod_entry, s)
static const param var_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"unbiased", BOOL, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"correction", NUMBER, OPTIONAL | KEYWORD, NULL, 0}};
static const entry var_entry = {.name = "var", .compute = api_var, .params = var_entry_params, .count = 5};
CALL(function_var, var_entry, NULL)
CALL(method_var, var_entry, s)
static const param std_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"unbiased", BOOL, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"correction", NUMBER, OPTIONAL | KEYWORD, NULL, 0}};
static const entry std_entry = {.name = "std", .compute = api_std, .params = std_entry_params, .count = 5};
CALL(function_std, std_entry, NULL)
CALL(method_std, std_entry, s)
static const param var_mean_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"unbiased", BOOL, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"correction", NUMBER, OPTIONAL | KEYWORD, NULL, 0}};
static const entry var_mean_entry = {.name = "var_mean", .run = api_var_mean, .params = var_mean_entry_params, .count = 5};
CALL(function_var_mean, var_mean_entry, NULL)
static const param std_mean_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"unbiased", BOOL, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"correction", NUMBER, OPTIONAL | KEYWORD, NULL, 0}};
static const entry std_mean_entry = {.name = "std_mean", .run = api_std_mean, .params = std_mean_entry_params, .count = 5};
CALL(function_std_mean, std_mean_entry, NULL)
static const param any_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry any_entry = {.name = "any", .compute = api_any, .params = any_entry_params, .count = 3};
CALL(function_any, any_entry, NULL)
CALL(method_any, any_entry, s)
static const param all_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry all_entry = {.name = "all", .compute = api_all, .params = all_entry_params, .count = 3};
CALL(function_all, all_entry, NULL)
CALL(method_all, all_entry, s)
static const param count_nonzero_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}};
static const entry count_nonzero_entry = {.name = "count_nonzero", .compute = api_count_nonzero, .params = count_nonzero_entry_params, .count = 2};
CALL(function_count_nonzero, count_nonzero_entry, NULL)
CALL(method_count_nonzero, count_nonzero_entry, s)
static const param norm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"p", OBJECT, 0, "fro", 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"dtype", DTYPE, OPTIONAL, NULL, 0}};
static const entry norm_entry = {.name = "norm", .run = api_norm, .params = norm_entry_params, .count = 5};
CALL(function_norm, norm_entry, NULL)
CALL(method_norm, norm_entry, s)
static const param amax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry amax_entry = {.name = "amax", .compute = api_amax, .params = amax_entry_params, .count = 3};
CALL(function_amax, amax_entry, NULL)
CALL(method_amax, amax_entry, s)
static const param amin_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry amin_entry = {.name = "amin", .compute = api_amin, .params = amin_entry_params, .count = 3};
CALL(function_amin, amin_entry, NULL)
CALL(method_amin, amin_entry, s)
static const param aminmax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, OPTIONAL | KEYWORD, NULL, 0}, {"keepdim", BOOL, KEYWORD, "", 0.0}};
static const entry aminmax_entry = {.name = "aminmax", .run = api_aminmax, .params = aminmax_entry_params, .count = 3};
CALL(function_aminmax, aminmax_entry, NULL)
CALL(method_aminmax, aminmax_entry, s)
static const param max_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", OBJECT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"other", TENSOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry max_entry = {.name = "max", .run = api_max, .params = max_entry_params, .count = 4, .numpys = &amax_entry};
CALL(function_max, max_entry, NULL)
CALL(method_max, max_entry, s)
static const param min_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", OBJECT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"other", TENSOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry min_entry = {.name = "min", .run = api_min, .params = min_entry_params, .count = 4, .numpys = &amin_entry};
CALL(function_min, min_entry, NULL)
CALL(method_min, min_entry, s)
static const param argmax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry argmax_entry = {.name = "argmax", .compute = api_argmax, .params = argmax_entry_params, .count = 3};
CALL(function_argmax, argmax_entry, NULL)
CALL(method_argmax, argmax_entry, s)
static const param argmin_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry argmin_entry = {.name = "argmin", .compute = api_argmin, .params = argmin_entry_params, .count = 3};
CALL(function_argmin, argmin_entry, NULL)
CALL(method_argmin, argmin_entry, s)
static const param logsumexp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", SIZE, 0, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry logsumexp_entry = {.name = "logsumexp", .compute = api_logsumexp, .params = logsumexp_entry_params, .count = 3};
CALL(function_logsumexp, logsumexp_entry, NULL)
CALL(method_logsumexp, logsumexp_entry, s)
static const param cumsum_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry cumsum_entry = {.name = "cumsum", .compute = api_cumsum, .params = cumsum_entry_params, .count = 3};
CALL(function_cumsum, cumsum_entry, NULL)
CALL(method_cumsum, cumsum_entry, s)
static const param cumprod_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry cumprod_entry = {.name = "cumprod", .compute = api_cumprod, .params = cumprod_entry_params, .count = 3};
CALL(function_cumprod, cumprod_entry, NULL)
CALL(method_cumprod, cumprod_entry, s)
static const param cumsum__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry cumsum__entry = {.name = "cumsum_", .compute = api_cumsum_, .params = cumsum__entry_params, .count = 3, .inplace = true};
CALL(method_cumsum_, cumsum__entry, s)
static const param cumprod__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry cumprod__entry = {.name = "cumprod_", .compute = api_cumprod_, .params = cumprod__entry_params, .count = 3, .inplace = true};
CALL(method_cumprod_, cumprod__entry, s)
static const param logcumsumexp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}};
static const entry logcumsumexp_entry = {.name = "logcumsumexp", .compute = api_logcumsumexp, .params = logcumsumexp_entry_params, .count = 2};
CALL(function_logcumsumexp, logcumsumexp_entry, NULL)
CALL(method_logcumsumexp, logcumsumexp_entry, s)
static const param cummax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}};
static const entry cummax_entry = {.name = "cummax", .run = api_cummax, .params = cummax_entry_params, .count = 2};
CALL(function_cummax, cummax_entry, NULL)
CALL(method_cummax, cummax_entry, s)
static const param cummin_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}};
static const entry cummin_entry = {.name = "cummin", .run = api_cummin, .params = cummin_entry_params, .count = 2};
CALL(function_cummin, cummin_entry, NULL)
CALL(method_cummin, cummin_entry, s)
static const param diff_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"n", INT, 0, "", 1.0}, {"dim", INT, 0, "", -1.0}, {"prepend", TENSOR, OPTIONAL, NULL, 0}, {"append", TENSOR, OPTIONAL, NULL, 0}};
static const entry diff_entry = {.name = "diff", .compute = api_diff, .params = diff_entry_params, .count = 5};
CALL(function_diff, diff_entry, NULL)
CALL(method_diff, diff_entry, s)
static const param softmax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry softmax_entry = {.name = "softmax", .compute = api_softmax, .params = softmax_entry_params, .count = 3};
CALL(function_softmax, softmax_entry, NULL)
CALL(method_softmax, softmax_entry, s)
static const param log_softmax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"dtype", DTYPE, OPTIONAL | KEYWORD, NULL, 0}};
static const entry log_softmax_entry = {.name = "log_softmax", .compute = api_log_softmax, .params = log_softmax_entry_params, .count = 3};
CALL(function_log_softmax, log_softmax_entry, NULL)
CALL(method_log_softmax, log_softmax_entry, s)
static const param sort_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, "", -1.0}, {"descending", BOOL, 0, "", 0.0}, {"stable", BOOL, KEYWORD, "", 0.0}};
static const entry sort_entry = {.name = "sort", .run = api_sort, .params = sort_entry_params, .count = 4};
CALL(function_sort, sort_entry, NULL)
CALL(method_sort, sort_entry, s)
static const param argsort_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, "", -1.0}, {"descending", BOOL, 0, "", 0.0}, {"stable", BOOL, KEYWORD, "", 0.0}};
static const entry argsort_entry = {.name = "argsort", .compute = api_argsort, .params = argsort_entry_params, .count = 4};
CALL(function_argsort, argsort_entry, NULL)
CALL(method_argsort, argsort_entry, s)
static const param msort_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry msort_entry = {.name = "msort", .compute = api_msort, .params = msort_entry_params, .count = 1};
CALL(function_msort, msort_entry, NULL)
CALL(method_msort, msort_entry, s)
static const param topk_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"k", INT, 0, NULL, 0}, {"dim", INT, 0, "", -1.0}, {"largest", BOOL, 0, "", 1.0}, {"sorted", BOOL, 0, "", 1.0}};
static const entry topk_entry = {.name = "topk", .run = api_topk, .params = topk_entry_params, .count = 5};
CALL(function_topk, topk_entry, NULL)
CALL(method_topk, topk_entry, s)
static const param kthvalue_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"k", INT, 0, NULL, 0}, {"dim", INT, 0, "", -1.0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry kthvalue_entry = {.name = "kthvalue", .run = api_kthvalue, .params = kthvalue_entry_params, .count = 4};
CALL(function_kthvalue, kthvalue_entry, NULL)
CALL(method_kthvalue, kthvalue_entry, s)
static const param mode_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, "", -1.0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry mode_entry = {.name = "mode", .run = api_mode, .params = mode_entry_params, .count = 3};
CALL(function_mode, mode_entry, NULL)
CALL(method_mode, mode_entry, s)
static const param median_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry median_entry = {.name = "median", .run = api_median, .params = median_entry_params, .count = 3};
CALL(function_median, median_entry, NULL)
CALL(method_median, median_entry, s)
static const param nanmedian_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}};
static const entry nanmedian_entry = {.name = "nanmedian", .run = api_nanmedian, .params = nanmedian_entry_params, .count = 3};
CALL(function_nanmedian, nanmedian_entry, NULL)
CALL(method_nanmedian, nanmedian_entry, s)
static const param unique_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"sorted", BOOL, 0, "", 1.0}, {"return_inverse", BOOL, 0, "", 0.0}, {"return_counts", BOOL, 0, "", 0.0}, {"dim", INT, OPTIONAL, NULL, 0}};
static const entry unique_entry = {.name = "unique", .run = api_unique, .params = unique_entry_params, .count = 5};
CALL(function_unique, unique_entry, NULL)
CALL(method_unique, unique_entry, s)
static const param unique_consecutive_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"return_inverse", BOOL, 0, "", 0.0}, {"return_counts", BOOL, 0, "", 0.0}, {"dim", INT, OPTIONAL, NULL, 0}};
static const entry unique_consecutive_entry = {.name = "unique_consecutive", .run = api_unique_consecutive, .params = unique_consecutive_entry_params, .count = 4};
CALL(function_unique_consecutive, unique_consecutive_entry, NULL)
CALL(method_unique_consecutive, unique_consecutive_entry, s)
static const param quantile_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"q", OPERAND, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"interpolation", STR, KEYWORD, "linear", 0}};
static const entry quantile_entry = {.name = "quantile", .compute = api_quantile, .params = quantile_entry_params, .count = 5};
CALL(function_quantile, quantile_entry, NULL)
CALL(method_quantile, quantile_entry, s)
static const param nanquantile_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"q", OPERAND, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}, {"keepdim", BOOL, 0, "", 0.0}, {"interpolation", STR, KEYWORD, "linear", 0}};
static const entry nanquantile_entry = {.name = "nanquantile", .compute = api_nanquantile, .params = nanquantile_entry_params, .count = 5};
CALL(function_nanquantile, nanquantile_entry, NULL)
CALL(method_nanquantile, nanquantile_entry, s)
static const param searchsorted_entry_params[] = {{"sorted_sequence", TENSOR, 0, NULL, 0}, {"input", OPERAND, 0, NULL, 0}, {"out_int32", BOOL, KEYWORD, "", 0.0}, {"right", BOOL, KEYWORD, "", 0.0}, {"side", STR, OPTIONAL | KEYWORD, NULL, 0}, {"sorter", TENSOR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry searchsorted_entry = {.name = "searchsorted", .compute = api_searchsorted, .params = searchsorted_entry_params, .count = 6};
CALL(function_searchsorted, searchsorted_entry, NULL)
static const param bucketize_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"boundaries", TENSOR, 0, NULL, 0}, {"out_int32", BOOL, KEYWORD, "", 0.0}, {"right", BOOL, KEYWORD, "", 0.0}};
static const entry bucketize_entry = {.name = "bucketize", .compute = api_bucketize, .params = bucketize_entry_params, .count = 4};
CALL(function_bucketize, bucketize_entry, NULL)
static const param isclose_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}, {"rtol", FLOAT, 0, "", 1e-05}, {"atol", FLOAT, 0, "", 1e-08}, {"equal_nan", BOOL, 0, "", 0.0}};
static const entry isclose_entry = {.name = "isclose", .compute = api_isclose, .params = isclose_entry_params, .count = 5};
CALL(function_isclose, isclose_entry, NULL)
CALL(method_isclose, isclose_entry, s)
static const param allclose_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}, {"rtol", FLOAT, 0, "", 1e-05}, {"atol", FLOAT, 0, "", 1e-08}, {"equal_nan", BOOL, 0, "", 0.0}};
static const entry allclose_entry = {.name = "allclose", .run = api_allclose, .params = allclose_entry_params, .count = 5};
CALL(function_allclose, allclose_entry, NULL)
CALL(method_allclose, allclose_entry, s)
static const param equal_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry equal_entry = {.name = "equal", .run = api_equal, .params = equal_entry_params, .count = 2};
CALL(function_equal, equal_entry, NULL)
CALL(method_equal, equal_entry, s)
static const param isin_entry_params[] = {{"elements", OPERAND, 0, NULL, 0}, {"test_elements", OPERAND, 0, NULL, 0}, {"assume_unique", BOOL, KEYWORD, "", 0.0}, {"invert", BOOL, KEYWORD, "", 0.0}};
static const entry isin_entry = {.name = "isin", .compute = api_isin, .params = isin_entry_params, .count = 4};
CALL(function_isin, isin_entry, NULL)
static const param bincount_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"weights", TENSOR, OPTIONAL, NULL, 0}, {"minlength", INT, 0, "", 0.0}};
static const entry bincount_entry = {.name = "bincount", .compute = api_bincount, .params = bincount_entry_params, .count = 3};
CALL(function_bincount, bincount_entry, NULL)
CALL(method_bincount, bincount_entry, s)
static const param histc_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"bins", INT, 0, "", 100.0}, {"min", NUMBER, 0, "", 0.0}, {"max", NUMBER, 0, "", 0.0}};
static const entry histc_entry = {.name = "histc", .compute = api_histc, .params = histc_entry_params, .count = 4};
CALL(function_histc, histc_entry, NULL)
CALL(method_histc, histc_entry, s)
static const param matmul_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry matmul_entry = {.name = "matmul", .compute = api_matmul, .params = matmul_entry_params, .count = 2};
CALL(function_matmul, matmul_entry, NULL)
CALL(method_matmul, matmul_entry, s)
static const param mm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mat2", TENSOR, 0, NULL, 0}};
static const entry mm_entry = {.name = "mm", .compute = api_mm, .params = mm_entry_params, .count = 2};
CALL(function_mm, mm_entry, NULL)
CALL(method_mm, mm_entry, s)
static const param bmm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mat2", TENSOR, 0, NULL, 0}};
static const entry bmm_entry = {.name = "bmm", .compute = api_bmm, .params = bmm_entry_params, .count = 2};
CALL(function_bmm, bmm_entry, NULL)
CALL(method_bmm, bmm_entry, s)
static const param mv_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"vec", TENSOR, 0, NULL, 0}};
static const entry mv_entry = {.name = "mv", .compute = api_mv, .params = mv_entry_params, .count = 2};
CALL(function_mv, mv_entry, NULL)
CALL(method_mv, mv_entry, s)
static const param dot_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"tensor", TENSOR, 0, NULL, 0}};
static const entry dot_entry = {.name = "dot", .compute = api_dot, .params = dot_entry_params, .count = 2};
CALL(function_dot, dot_entry, NULL)
CALL(method_dot, dot_entry, s)
static const param vdot_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry vdot_entry = {.name = "vdot", .compute = api_vdot, .params = vdot_entry_params, .count = 2};
CALL(function_vdot, vdot_entry, NULL)
CALL(method_vdot, vdot_entry, s)
static const param inner_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry inner_entry = {.name = "inner", .compute = api_inner, .params = inner_entry_params, .count = 2};
CALL(function_inner, inner_entry, NULL)
CALL(method_inner, inner_entry, s)
static const param outer_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"vec2", TENSOR, 0, NULL, 0}};
static const entry outer_entry = {.name = "outer", .compute = api_outer, .params = outer_entry_params, .count = 2};
CALL(function_outer, outer_entry, NULL)
CALL(method_outer, outer_entry, s)
static const param kron_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", TENSOR, 0, NULL, 0}};
static const entry kron_entry = {.name = "kron", .compute = api_kron, .params = kron_entry_params, .count = 2};
CALL(function_kron, kron_entry, NULL)
CALL(method_kron, kron_entry, s)
static const param trace_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry trace_entry = {.name = "trace", .compute = api_trace, .params = trace_entry_params, .count = 1};
CALL(function_trace, trace_entry, NULL)
CALL(method_trace, trace_entry, s)
static const param addmm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mat1", TENSOR, 0, NULL, 0}, {"mat2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addmm_entry = {.name = "addmm", .compute = api_addmm, .params = addmm_entry_params, .count = 5};
CALL(function_addmm, addmm_entry, NULL)
CALL(method_addmm, addmm_entry, s)
static const param addmv_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mat", TENSOR, 0, NULL, 0}, {"vec", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addmv_entry = {.name = "addmv", .compute = api_addmv, .params = addmv_entry_params, .count = 5};
CALL(function_addmv, addmv_entry, NULL)
CALL(method_addmv, addmv_entry, s)
static const param addr_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"vec1", TENSOR, 0, NULL, 0}, {"vec2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addr_entry = {.name = "addr", .compute = api_addr, .params = addr_entry_params, .count = 5};
CALL(function_addr, addr_entry, NULL)
CALL(method_addr, addr_entry, s)
static const param baddbmm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"batch1", TENSOR, 0, NULL, 0}, {"batch2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry baddbmm_entry = {.name = "baddbmm", .compute = api_baddbmm, .params = baddbmm_entry_params, .count = 5};
CALL(function_baddbmm, baddbmm_entry, NULL)
CALL(method_baddbmm, baddbmm_entry, s)
static const param addbmm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"batch1", TENSOR, 0, NULL, 0}, {"batch2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addbmm_entry = {.name = "addbmm", .compute = api_addbmm, .params = addbmm_entry_params, .count = 5};
CALL(function_addbmm, addbmm_entry, NULL)
CALL(method_addbmm, addbmm_entry, s)
static const param addmm__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mat1", TENSOR, 0, NULL, 0}, {"mat2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addmm__entry = {.name = "addmm_", .compute = api_addmm_, .params = addmm__entry_params, .count = 5, .inplace = true};
CALL(method_addmm_, addmm__entry, s)
static const param addmv__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mat", TENSOR, 0, NULL, 0}, {"vec", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addmv__entry = {.name = "addmv_", .compute = api_addmv_, .params = addmv__entry_params, .count = 5, .inplace = true};
CALL(method_addmv_, addmv__entry, s)
static const param addr__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"vec1", TENSOR, 0, NULL, 0}, {"vec2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addr__entry = {.name = "addr_", .compute = api_addr_, .params = addr__entry_params, .count = 5, .inplace = true};
CALL(method_addr_, addr__entry, s)
static const param baddbmm__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"batch1", TENSOR, 0, NULL, 0}, {"batch2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry baddbmm__entry = {.name = "baddbmm_", .compute = api_baddbmm_, .params = baddbmm__entry_params, .count = 5, .inplace = true};
CALL(method_baddbmm_, baddbmm__entry, s)
static const param addbmm__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"batch1", TENSOR, 0, NULL, 0}, {"batch2", TENSOR, 0, NULL, 0}, {"beta", NUMBER, KEYWORD, "", 1.0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry addbmm__entry = {.name = "addbmm_", .compute = api_addbmm_, .params = addbmm__entry_params, .count = 5, .inplace = true};
CALL(method_addbmm_, addbmm__entry, s)
static const param tensordot_entry_params[] = {{"a", TENSOR, 0, NULL, 0}, {"b", TENSOR, 0, NULL, 0}, {"dims", OBJECT, 0, "", 2.0}};
static const entry tensordot_entry = {.name = "tensordot", .run = api_tensordot, .params = tensordot_entry_params, .count = 3};
CALL(function_tensordot, tensordot_entry, NULL)
static const param einsum_entry_params[] = {{"equation", OBJECT, 0, NULL, 0}, {"operands", OBJECT, VARIADIC, NULL, 0}};
static const entry einsum_entry = {.name = "einsum", .run = api_einsum, .params = einsum_entry_params, .count = 2};
CALL(function_einsum, einsum_entry, NULL)
static const param index_select_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}};
static const entry index_select_entry = {.name = "index_select", .compute = api_index_select, .params = index_select_entry_params, .count = 3};
CALL(function_index_select, index_select_entry, NULL)
CALL(method_index_select, index_select_entry, s)
static const param gather_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}};
static const entry gather_entry = {.name = "gather", .compute = api_gather, .params = gather_entry_params, .count = 3};
CALL(function_gather, gather_entry, NULL)
CALL(method_gather, gather_entry, s)
static const param take_along_dim_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"indices", TENSOR, 0, NULL, 0}, {"dim", INT, OPTIONAL, NULL, 0}};
static const entry take_along_dim_entry = {.name = "take_along_dim", .compute = api_take_along_dim, .params = take_along_dim_entry_params, .count = 3};
CALL(function_take_along_dim, take_along_dim_entry, NULL)
CALL(method_take_along_dim, take_along_dim_entry, s)
static const param take_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}};
static const entry take_entry = {.name = "take", .compute = api_take, .params = take_entry_params, .count = 2};
CALL(function_take, take_entry, NULL)
CALL(method_take, take_entry, s)
static const param scatter_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"src", OPERAND, OPTIONAL, NULL, 0}, {"value", OPERAND, OPTIONAL | KEYWORD, NULL, 0}, {"reduce", STR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry scatter_entry = {.name = "scatter", .compute = api_scatter, .params = scatter_entry_params, .count = 6};
CALL(function_scatter, scatter_entry, NULL)
CALL(method_scatter, scatter_entry, s)
static const param scatter__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"src", OPERAND, OPTIONAL, NULL, 0}, {"value", OPERAND, OPTIONAL | KEYWORD, NULL, 0}, {"reduce", STR, OPTIONAL | KEYWORD, NULL, 0}};
static const entry scatter__entry = {.name = "scatter_", .compute = api_scatter_, .params = scatter__entry_params, .count = 6, .inplace = true};
CALL(method_scatter_, scatter__entry, s)
static const param scatter_add_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"src", TENSOR, 0, NULL, 0}};
static const entry scatter_add_entry = {.name = "scatter_add", .compute = api_scatter_add, .params = scatter_add_entry_params, .count = 4};
CALL(function_scatter_add, scatter_add_entry, NULL)
CALL(method_scatter_add, scatter_add_entry, s)
static const param scatter_add__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"src", TENSOR, 0, NULL, 0}};
static const entry scatter_add__entry = {.name = "scatter_add_", .compute = api_scatter_add_, .params = scatter_add__entry_params, .count = 4, .inplace = true};
CALL(method_scatter_add_, scatter_add__entry, s)
static const param scatter_reduce_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"src", TENSOR, 0, NULL, 0}, {"reduce", STR, 0, NULL, 0}, {"include_self", BOOL, KEYWORD, "", 1.0}};
static const entry scatter_reduce_entry = {.name = "scatter_reduce", .compute = api_scatter_reduce, .params = scatter_reduce_entry_params, .count = 6};
CALL(function_scatter_reduce, scatter_reduce_entry, NULL)
CALL(method_scatter_reduce, scatter_reduce_entry, s)
static const param scatter_reduce__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"src", TENSOR, 0, NULL, 0}, {"reduce", STR, 0, NULL, 0}, {"include_self", BOOL, KEYWORD, "", 1.0}};
static const entry scatter_reduce__entry = {.name = "scatter_reduce_", .compute = api_scatter_reduce_, .params = scatter_reduce__entry_params, .count = 6, .inplace = true};
CALL(method_scatter_reduce_, scatter_reduce__entry, s)
static const param index_add_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"source", TENSOR, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry index_add_entry = {.name = "index_add", .compute = api_index_add, .params = index_add_entry_params, .count = 5};
CALL(function_index_add, index_add_entry, NULL)
CALL(method_index_add, index_add_entry, s)
static const param index_add__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"source", TENSOR, 0, NULL, 0}, {"alpha", NUMBER, KEYWORD, "", 1.0}};
static const entry index_add__entry = {.name = "index_add_", .compute = api_index_add_, .params = index_add__entry_params, .count = 5, .inplace = true};
CALL(method_index_add_, index_add__entry, s)
static const param index_copy_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"source", TENSOR, 0, NULL, 0}};
static const entry index_copy_entry = {.name = "index_copy", .compute = api_index_copy, .params = index_copy_entry_params, .count = 4};
CALL(function_index_copy, index_copy_entry, NULL)
CALL(method_index_copy, index_copy_entry, s)
static const param index_copy__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"source", TENSOR, 0, NULL, 0}};
static const entry index_copy__entry = {.name = "index_copy_", .compute = api_index_copy_, .params = index_copy__entry_params, .count = 4, .inplace = true};
CALL(method_index_copy_, index_copy__entry, s)
static const param index_fill_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"value", OPERAND, 0, NULL, 0}};
static const entry index_fill_entry = {.name = "index_fill", .compute = api_index_fill, .params = index_fill_entry_params, .count = 4};
CALL(function_index_fill, index_fill_entry, NULL)
CALL(method_index_fill, index_fill_entry, s)
static const param index_fill__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dim", INT, 0, NULL, 0}, {"index", TENSOR, 0, NULL, 0}, {"value", OPERAND, 0, NULL, 0}};
static const entry index_fill__entry = {.name = "index_fill_", .compute = api_index_fill_, .params = index_fill__entry_params, .count = 4, .inplace = true};
CALL(method_index_fill_, index_fill__entry, s)
static const param index_put_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"indices", TENSORS, 0, NULL, 0}, {"values", TENSOR, 0, NULL, 0}, {"accumulate", BOOL, 0, "", 0.0}};
static const entry index_put_entry = {.name = "index_put", .compute = api_index_put, .params = index_put_entry_params, .count = 4};
CALL(function_index_put, index_put_entry, NULL)
CALL(method_index_put, index_put_entry, s)
static const param index_put__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"indices", TENSORS, 0, NULL, 0}, {"values", TENSOR, 0, NULL, 0}, {"accumulate", BOOL, 0, "", 0.0}};
static const entry index_put__entry = {.name = "index_put_", .compute = api_index_put_, .params = index_put__entry_params, .count = 4, .inplace = true};
CALL(method_index_put_, index_put__entry, s)
static const param masked_fill_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mask", TENSOR, 0, NULL, 0}, {"value", OPERAND, 0, NULL, 0}};
static const entry masked_fill_entry = {.name = "masked_fill", .compute = api_masked_fill, .params = masked_fill_entry_params, .count = 3};
CALL(function_masked_fill, masked_fill_entry, NULL)
CALL(method_masked_fill, masked_fill_entry, s)
static const param masked_fill__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mask", TENSOR, 0, NULL, 0}, {"value", OPERAND, 0, NULL, 0}};
static const entry masked_fill__entry = {.name = "masked_fill_", .compute = api_masked_fill_, .params = masked_fill__entry_params, .count = 3, .inplace = true};
CALL(method_masked_fill_, masked_fill__entry, s)
static const param masked_select_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mask", TENSOR, 0, NULL, 0}};
static const entry masked_select_entry = {.name = "masked_select", .compute = api_masked_select, .params = masked_select_entry_params, .count = 2};
CALL(function_masked_select, masked_select_entry, NULL)
CALL(method_masked_select, masked_select_entry, s)
static const param masked_scatter_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mask", TENSOR, 0, NULL, 0}, {"source", TENSOR, 0, NULL, 0}};
static const entry masked_scatter_entry = {.name = "masked_scatter", .compute = api_masked_scatter, .params = masked_scatter_entry_params, .count = 3};
CALL(function_masked_scatter, masked_scatter_entry, NULL)
CALL(method_masked_scatter, masked_scatter_entry, s)
static const param masked_scatter__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mask", TENSOR, 0, NULL, 0}, {"source", TENSOR, 0, NULL, 0}};
static const entry masked_scatter__entry = {.name = "masked_scatter_", .compute = api_masked_scatter_, .params = masked_scatter__entry_params, .count = 3, .inplace = true};
CALL(method_masked_scatter_, masked_scatter__entry, s)
static const param nonzero_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"as_tuple", BOOL, KEYWORD, "", 0.0}};
static const entry nonzero_entry = {.name = "nonzero", .run = api_nonzero, .params = nonzero_entry_params, .count = 2};
CALL(function_nonzero, nonzero_entry, NULL)
CALL(method_nonzero, nonzero_entry, s)
static const param argwhere_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry argwhere_entry = {.name = "argwhere", .compute = api_argwhere, .params = argwhere_entry_params, .count = 1};
CALL(function_argwhere, argwhere_entry, NULL)
CALL(method_argwhere, argwhere_entry, s)
static const param one_hot_entry_params[] = {{"tensor", TENSOR, 0, NULL, 0}, {"num_classes", INT, 0, "", -1.0}};
static const entry one_hot_entry = {.name = "one_hot", .compute = api_one_hot, .params = one_hot_entry_params, .count = 2};
CALL(function_one_hot, one_hot_entry, NULL)
static const param cat_entry_params[] = {{"tensors", TENSORS, 0, NULL, 0}, {"dim", INT, 0, "", 0.0}};
static const entry cat_entry = {.name = "cat", .compute = api_cat, .params = cat_entry_params, .count = 2};
CALL(function_cat, cat_entry, NULL)
static const param stack_entry_params[] = {{"tensors", TENSORS, 0, NULL, 0}, {"dim", INT, 0, "", 0.0}};
static const entry stack_entry = {.name = "stack", .compute = api_stack, .params = stack_entry_params, .count = 2};
CALL(function_stack, stack_entry, NULL)
static const param hstack_entry_params[] = {{"tensors", TENSORS, 0, NULL, 0}};
static const entry hstack_entry = {.name = "hstack", .compute = api_hstack, .params = hstack_entry_params, .count = 1};
CALL(function_hstack, hstack_entry, NULL)
static const param vstack_entry_params[] = {{"tensors", TENSORS, 0, NULL, 0}};
static const entry vstack_entry = {.name = "vstack", .compute = api_vstack, .params = vstack_entry_params, .count = 1};
CALL(function_vstack, vstack_entry, NULL)
static const param where_entry_params[] = {{"condition", TENSOR, 0, NULL, 0}, {"input", OPERAND, OPTIONAL, NULL, 0}, {"other", OPERAND, OPTIONAL, NULL, 0}};
static const entry where_entry = {.name = "where", .run = api_where, .params = where_entry_params, .count = 3};
CALL(function_where, where_entry, NULL)
static const param where_entry2_params[] = {{"input", TENSOR, 0, NULL, 0}, {"condition", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry where_entry2 = {.name = "where", .compute = api_where_method, .params = where_entry2_params, .count = 3};
CALL(method_where, where_entry2, s)
static const param _linear_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"weight", TENSOR, 0, NULL, 0}, {"bias", TENSOR, OPTIONAL, NULL, 0}};
static const entry _linear_entry = {.name = "_linear", .compute = api__linear, .params = _linear_entry_params, .count = 3};
CALL(function__linear, _linear_entry, NULL)
static const param _mlp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"weight1", TENSOR, 0, NULL, 0}, {"weight2", TENSOR, 0, NULL, 0}, {"bias1", TENSOR, OPTIONAL, NULL, 0}, {"bias2", TENSOR, OPTIONAL, NULL, 0}};
static const entry _mlp_entry = {.name = "_mlp", .compute = api__mlp, .params = _mlp_entry_params, .count = 5};
CALL(function__mlp, _mlp_entry, NULL)
static const param _layer_norm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"eps", FLOAT, 0, NULL, 0}, {"weight", TENSOR, OPTIONAL, NULL, 0}, {"bias", TENSOR, OPTIONAL, NULL, 0}};
static const entry _layer_norm_entry = {.name = "_layer_norm", .compute = api__layer_norm, .params = _layer_norm_entry_params, .count = 4};
CALL(function__layer_norm, _layer_norm_entry, NULL)
static const param _rms_norm_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"eps", FLOAT, 0, NULL, 0}, {"weight", TENSOR, OPTIONAL, NULL, 0}};
static const entry _rms_norm_entry = {.name = "_rms_norm", .compute = api__rms_norm, .params = _rms_norm_entry_params, .count = 3};
CALL(function__rms_norm, _rms_norm_entry, NULL)
static const param _embedding_entry_params[] = {{"weight", TENSOR, 0, NULL, 0}, {"input", TENSOR, 0, NULL, 0}};
static const entry _embedding_entry = {.name = "_embedding", .compute = api__embedding, .params = _embedding_entry_params, .count = 2};
CALL(function__embedding, _embedding_entry, NULL)
static const param _cross_entropy_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"target", TENSOR, 0, NULL, 0}, {"ignore_index", INT, 0, NULL, 0}, {"label_smoothing", FLOAT, 0, NULL, 0}, {"reduction", STR, 0, NULL, 0}};
static const entry _cross_entropy_entry = {.name = "_cross_entropy", .compute = api__cross_entropy, .params = _cross_entropy_entry_params, .count = 5};
CALL(function__cross_entropy, _cross_entropy_entry, NULL)
static const param _dropout_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"p", FLOAT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _dropout_entry = {.name = "_dropout", .compute = api__dropout, .params = _dropout_entry_params, .count = 3};
CALL(function__dropout, _dropout_entry, NULL)
static const param _attention_entry_params[] = {{"query", TENSOR, 0, NULL, 0}, {"key", TENSOR, 0, NULL, 0}, {"value", TENSOR, 0, NULL, 0}, {"causal", BOOL, 0, NULL, 0}, {"scale", FLOAT, 0, NULL, 0}, {"mask", TENSOR, OPTIONAL, NULL, 0}};
static const entry _attention_entry = {.name = "_attention", .compute = api__attention, .params = _attention_entry_params, .count = 6};
CALL(function__attention, _attention_entry, NULL)
static const param _sum_squares_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry _sum_squares_entry = {.name = "_sum_squares", .compute = api__sum_squares, .params = _sum_squares_entry_params, .count = 1};
CALL(function__sum_squares, _sum_squares_entry, NULL)
static const param _total_norm_entry_params[] = {{"tensors", TENSORS, 0, NULL, 0}};
static const entry _total_norm_entry = {.name = "_total_norm", .run = api__total_norm, .params = _total_norm_entry_params, .count = 1};
CALL(function__total_norm, _total_norm_entry, NULL)
static const param _sample_entry_params[] = {{"logits", TENSOR, 0, NULL, 0}, {"temperature", FLOAT, 0, NULL, 0}, {"top_p", FLOAT, 0, NULL, 0}, {"top_k", INT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _sample_entry = {.name = "_sample", .run = api__sample, .params = _sample_entry_params, .count = 5};
CALL(function__sample, _sample_entry, NULL)
static const param _init_uniform_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"low", FLOAT, 0, NULL, 0}, {"high", FLOAT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _init_uniform_entry = {.name = "_init_uniform", .run = api__init_uniform, .params = _init_uniform_entry_params, .count = 4};
CALL(function__init_uniform, _init_uniform_entry, NULL)
static const param _init_normal_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mean", FLOAT, 0, NULL, 0}, {"std", FLOAT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _init_normal_entry = {.name = "_init_normal", .run = api__init_normal, .params = _init_normal_entry_params, .count = 4};
CALL(function__init_normal, _init_normal_entry, NULL)
static const param _init_trunc_normal_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"mean", FLOAT, 0, NULL, 0}, {"std", FLOAT, 0, NULL, 0}, {"low", FLOAT, 0, NULL, 0}, {"high", FLOAT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _init_trunc_normal_entry = {.name = "_init_trunc_normal", .run = api__init_trunc_normal, .params = _init_trunc_normal_entry_params, .count = 6};
CALL(function__init_trunc_normal, _init_trunc_normal_entry, NULL)
static const param _init_orthogonal_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"gain", FLOAT, 0, NULL, 0}, {"generator", GENERATOR, OPTIONAL, NULL, 0}};
static const entry _init_orthogonal_entry = {.name = "_init_orthogonal", .run = api__init_orthogonal, .params = _init_orthogonal_entry_params, .count = 3};
CALL(function__init_orthogonal, _init_orthogonal_entry, NULL)
static const param _zeros_offloaded_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"dtype", DTYPE, 0, NULL, 0}};
static const entry _zeros_offloaded_entry = {.name = "_zeros_offloaded", .compute = api__zeros_offloaded, .params = _zeros_offloaded_entry_params, .count = 2};
CALL(function__zeros_offloaded, _zeros_offloaded_entry, NULL)
static const param _update_entry_params[] = {{"name", STR, 0, NULL, 0}, {"outputs", TENSORS, 0, NULL, 0}, {"inputs", TENSORS, 0, NULL, 0}, {"numbers", OBJECT, 0, NULL, 0}};
static const entry _update_entry = {.name = "_update", .run = api__update, .params = _update_entry_params, .count = 4};
CALL(function__update, _update_entry, NULL)
static const param _alias_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"type", OBJECT, 0, NULL, 0}, {"requires_grad", BOOL, 0, NULL, 0}};
static const entry _alias_entry = {.name = "_alias", .run = api__alias, .params = _alias_entry_params, .count = 3};
CALL(function__alias, _alias_entry, NULL)
static const entry _tokenizer_bytes_entry = {.name = "_tokenizer_bytes", .run = api__tokenizer_bytes};
CALL(function__tokenizer_bytes, _tokenizer_bytes_entry, NULL)
static const param _tokenizer_chars_entry_params[] = {{"text", OBJECT, 0, NULL, 0}};
static const entry _tokenizer_chars_entry = {.name = "_tokenizer_chars", .run = api__tokenizer_chars, .params = _tokenizer_chars_entry_params, .count = 1};
CALL(function__tokenizer_chars, _tokenizer_chars_entry, NULL)
static const param _tokenizer_load_entry_params[] = {{"path", STR, 0, NULL, 0}};
static const entry _tokenizer_load_entry = {.name = "_tokenizer_load", .run = api__tokenizer_load, .params = _tokenizer_load_entry_params, .count = 1};
CALL(function__tokenizer_load, _tokenizer_load_entry, NULL)
static const param _tokenizer_save_entry_params[] = {{"tokenizer", OBJECT, 0, NULL, 0}, {"path", STR, 0, NULL, 0}};
static const entry _tokenizer_save_entry = {.name = "_tokenizer_save", .run = api__tokenizer_save, .params = _tokenizer_save_entry_params, .count = 2};
CALL(function__tokenizer_save, _tokenizer_save_entry, NULL)
static const param _tokenizer_size_entry_params[] = {{"tokenizer", OBJECT, 0, NULL, 0}};
static const entry _tokenizer_size_entry = {.name = "_tokenizer_size", .run = api__tokenizer_size, .params = _tokenizer_size_entry_params, .count = 1};
CALL(function__tokenizer_size, _tokenizer_size_entry, NULL)
static const param _tokenizer_encode_entry_params[] = {{"tokenizer", OBJECT, 0, NULL, 0}, {"text", OBJECT, 0, NULL, 0}};
static const entry _tokenizer_encode_entry = {.name = "_tokenizer_encode", .run = api__tokenizer_encode, .params = _tokenizer_encode_entry_params, .count = 2};
CALL(function__tokenizer_encode, _tokenizer_encode_entry, NULL)
static const param _tokenizer_decode_entry_params[] = {{"tokenizer", OBJECT, 0, NULL, 0}, {"tokens", TENSOR, 0, NULL, 0}};
static const entry _tokenizer_decode_entry = {.name = "_tokenizer_decode", .run = api__tokenizer_decode, .params = _tokenizer_decode_entry_params, .count = 2};
CALL(function__tokenizer_decode, _tokenizer_decode_entry, NULL)
static const param _tokens_open_entry_params[] = {{"path", STR, 0, NULL, 0}};
static const entry _tokens_open_entry = {.name = "_tokens_open", .run = api__tokens_open, .params = _tokens_open_entry_params, .count = 1};
CALL(function__tokens_open, _tokens_open_entry, NULL)
static const param _tokens_save_entry_params[] = {{"path", STR, 0, NULL, 0}, {"tokens", TENSOR, 0, NULL, 0}, {"vocabulary", INT, 0, NULL, 0}};
static const entry _tokens_save_entry = {.name = "_tokens_save", .run = api__tokens_save, .params = _tokens_save_entry_params, .count = 3};
CALL(function__tokens_save, _tokens_save_entry, NULL)
static const param _tokens_slice_entry_params[] = {{"tokens", OBJECT, 0, NULL, 0}, {"start", INT, 0, NULL, 0}, {"stop", INT, 0, NULL, 0}};
static const entry _tokens_slice_entry = {.name = "_tokens_slice", .run = api__tokens_slice, .params = _tokens_slice_entry_params, .count = 3};
CALL(function__tokens_slice, _tokens_slice_entry, NULL)
static const param _tokens_info_entry_params[] = {{"tokens", OBJECT, 0, NULL, 0}};
static const entry _tokens_info_entry = {.name = "_tokens_info", .run = api__tokens_info, .params = _tokens_info_entry_params, .count = 1};
CALL(function__tokens_info, _tokens_info_entry, NULL)
static const param _loader_new_entry_params[] = {{"tokens", OBJECT, 0, NULL, 0}, {"batch", INT, 0, NULL, 0}, {"context", INT, 0, NULL, 0}, {"seed", OBJECT, 0, NULL, 0}, {"shuffle", BOOL, 0, NULL, 0}, {"device", DEVICE, OPTIONAL, NULL, 0}};
static const entry _loader_new_entry = {.name = "_loader_new", .run = api__loader_new, .params = _loader_new_entry_params, .count = 6};
CALL(function__loader_new, _loader_new_entry, NULL)
static const param _loader_next_entry_params[] = {{"loader", OBJECT, 0, NULL, 0}};
static const entry _loader_next_entry = {.name = "_loader_next", .run = api__loader_next, .params = _loader_next_entry_params, .count = 1};
CALL(function__loader_next, _loader_next_entry, NULL)
static const param _loader_place_entry_params[] = {{"loader", OBJECT, 0, NULL, 0}};
static const entry _loader_place_entry = {.name = "_loader_place", .run = api__loader_place, .params = _loader_place_entry_params, .count = 1};
CALL(function__loader_place, _loader_place_entry, NULL)
static const param _loader_seek_entry_params[] = {{"loader", OBJECT, 0, NULL, 0}, {"cursor", INT, 0, NULL, 0}};
static const entry _loader_seek_entry = {.name = "_loader_seek", .run = api__loader_seek, .params = _loader_seek_entry_params, .count = 2};
CALL(function__loader_seek, _loader_seek_entry, NULL)
static const param requires_grad__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"requires_grad", BOOL, 0, "", 1.0}};
static const entry requires_grad__entry = {.name = "requires_grad_", .compute = api_requires_grad_, .params = requires_grad__entry_params, .count = 2, .inplace = true};
CALL(method_requires_grad_, requires_grad__entry, s)
static const param detach__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry detach__entry = {.name = "detach_", .run = api_detach_, .params = detach__entry_params, .count = 1};
CALL(method_detach_, detach__entry, s)
static const param retain_grad_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry retain_grad_entry = {.name = "retain_grad", .run = api_retain_grad, .params = retain_grad_entry_params, .count = 1};
CALL(method_retain_grad, retain_grad_entry, s)
static const param backward_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"gradient", TENSOR, OPTIONAL, NULL, 0}, {"retain_graph", BOOL, OPTIONAL, NULL, 0}, {"create_graph", BOOL, 0, "", 0.0}, {"inputs", TENSORS, OPTIONAL, NULL, 0}};
static const entry backward_entry = {.name = "backward", .run = api_backward, .params = backward_entry_params, .count = 5};
CALL(method_backward, backward_entry, s)
static const param register_hook_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"hook", OBJECT, 0, NULL, 0}};
static const entry register_hook_entry = {.name = "register_hook", .run = api_register_hook, .params = register_hook_entry_params, .count = 2};
CALL(method_register_hook, register_hook_entry, s)
static const param _gradients_entry_params[] = {{"outputs", TENSORS, 0, NULL, 0}, {"inputs", TENSORS, 0, NULL, 0}, {"grad_outputs", OBJECT, 0, NULL, 0}, {"retain_graph", BOOL, 0, NULL, 0}, {"create_graph", BOOL, 0, NULL, 0}};
static const entry _gradients_entry = {.name = "_gradients", .run = api__gradients, .params = _gradients_entry_params, .count = 5};
CALL(function__gradients, _gradients_entry, NULL)
static const param _record_entry_params[] = {{"name", STR, 0, NULL, 0}, {"inputs", TENSORS, 0, NULL, 0}, {"outputs", TENSORS, 0, NULL, 0}, {"saved", TENSORS, 0, NULL, 0}, {"backward", OBJECT, 0, NULL, 0}};
static const entry _record_entry = {.name = "_record", .run = api__record, .params = _record_entry_params, .count = 5};
CALL(function__record, _record_entry, NULL)
static const param _gradcheck_entry_params[] = {{"function", OBJECT, 0, NULL, 0}, {"inputs", TENSORS, 0, NULL, 0}, {"eps", FLOAT, 0, NULL, 0}, {"atol", FLOAT, 0, NULL, 0}, {"rtol", FLOAT, 0, NULL, 0}, {"second", BOOL, 0, NULL, 0}};
static const entry _gradcheck_entry = {.name = "_gradcheck", .run = api__gradcheck, .params = _gradcheck_entry_params, .count = 6};
CALL(function__gradcheck, _gradcheck_entry, NULL)
static const entry is_grad_enabled_entry = {.name = "is_grad_enabled", .run = api_is_grad_enabled};
CALL(function_is_grad_enabled, is_grad_enabled_entry, NULL)
static const param _set_grad_enabled_entry_params[] = {{"mode", BOOL, 0, NULL, 0}};
static const entry _set_grad_enabled_entry = {.name = "_set_grad_enabled", .run = api__set_grad_enabled, .params = _set_grad_enabled_entry_params, .count = 1};
CALL(function__set_grad_enabled, _set_grad_enabled_entry, NULL)
static const param _set_anomaly_entry_params[] = {{"mode", BOOL, 0, NULL, 0}};
static const entry _set_anomaly_entry = {.name = "_set_anomaly", .run = api__set_anomaly, .params = _set_anomaly_entry_params, .count = 1};
CALL(function__set_anomaly, _set_anomaly_entry, NULL)
static const entry get_num_threads_entry = {.name = "get_num_threads", .run = api_get_num_threads};
CALL(function_get_num_threads, get_num_threads_entry, NULL)
static const param set_num_threads_entry_params[] = {{"num", INT, 0, NULL, 0}};
static const entry set_num_threads_entry = {.name = "set_num_threads", .run = api_set_num_threads, .params = set_num_threads_entry_params, .count = 1};
CALL(function_set_num_threads, set_num_threads_entry, NULL)
static const param set_float32_matmul_precision_entry_params[] = {{"precision", STR, 0, NULL, 0}};
static const entry set_float32_matmul_precision_entry = {.name = "set_float32_matmul_precision", .run = api_set_float32_matmul_precision, .params = set_float32_matmul_precision_entry_params, .count = 1};
CALL(function_set_float32_matmul_precision, set_float32_matmul_precision_entry, NULL)
static const entry get_float32_matmul_precision_entry = {.name = "get_float32_matmul_precision", .run = api_get_float32_matmul_precision};
CALL(function_get_float32_matmul_precision, get_float32_matmul_precision_entry, NULL)
static const param set_default_device_entry_params[] = {{"device", DEVICE, 0, NULL, 0}};
static const entry set_default_device_entry = {.name = "set_default_device", .run = api_set_default_device, .params = set_default_device_entry_params, .count = 1};
CALL(function_set_default_device, set_default_device_entry, NULL)
static const param _set_auto_transfer_entry_params[] = {{"mode", BOOL, 0, NULL, 0}};
static const entry _set_auto_transfer_entry = {.name = "_set_auto_transfer", .run = api__set_auto_transfer, .params = _set_auto_transfer_entry_params, .count = 1};
CALL(function__set_auto_transfer, _set_auto_transfer_entry, NULL)
static const entry get_default_device_entry = {.name = "get_default_device", .run = api_get_default_device};
CALL(function_get_default_device, get_default_device_entry, NULL)
static const param synchronize_entry_params[] = {{"device", DEVICE, OPTIONAL, NULL, 0}};
static const entry synchronize_entry = {.name = "synchronize", .run = api_synchronize, .params = synchronize_entry_params, .count = 1};
CALL(function_synchronize, synchronize_entry, NULL)
static const param memory_stats_entry_params[] = {{"device", DEVICE, OPTIONAL, NULL, 0}};
static const entry memory_stats_entry = {.name = "memory_stats", .run = api_memory_stats, .params = memory_stats_entry_params, .count = 1};
CALL(function_memory_stats, memory_stats_entry, NULL)
static const param empty_cache_entry_params[] = {{"device", DEVICE, OPTIONAL, NULL, 0}};
static const entry empty_cache_entry = {.name = "empty_cache", .run = api_empty_cache, .params = empty_cache_entry_params, .count = 1};
CALL(function_empty_cache, empty_cache_entry, NULL)
static const entry _devices_entry = {.name = "_devices", .run = api__devices};
CALL(function__devices, _devices_entry, NULL)
static const entry _switches_entry = {.name = "_switches", .run = api__switches};
CALL(function__switches, _switches_entry, NULL)
static const param _switch_set_entry_params[] = {{"name", STR, 0, NULL, 0}, {"value", STR, OPTIONAL, NULL, 0}};
static const entry _switch_set_entry = {.name = "_switch_set", .run = api__switch_set, .params = _switch_set_entry_params, .count = 2};
CALL(function__switch_set, _switch_set_entry, NULL)
static const entry _profile_begin_entry = {.name = "_profile_begin", .run = api__profile_begin};
CALL(function__profile_begin, _profile_begin_entry, NULL)
static const param _profile_end_entry_params[] = {{"path", STR, 0, NULL, 0}};
static const entry _profile_end_entry = {.name = "_profile_end", .run = api__profile_end, .params = _profile_end_entry_params, .count = 1};
CALL(function__profile_end, _profile_end_entry, NULL)
static const param mul_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry mul_entry = {.name = "mul", .compute = api_mul, .params = mul_entry_params, .count = 2};
CALL(function_mul, mul_entry, NULL)
CALL(method_mul, mul_entry, s)
static const param mul__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry mul__entry = {.name = "mul_", .compute = api_mul_, .params = mul__entry_params, .count = 2, .inplace = true};
CALL(method_mul_, mul__entry, s)
static const param floor_divide_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry floor_divide_entry = {.name = "floor_divide", .compute = api_floor_divide, .params = floor_divide_entry_params, .count = 2};
CALL(function_floor_divide, floor_divide_entry, NULL)
CALL(method_floor_divide, floor_divide_entry, s)
static const param floor_divide__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry floor_divide__entry = {.name = "floor_divide_", .compute = api_floor_divide_, .params = floor_divide__entry_params, .count = 2, .inplace = true};
CALL(method_floor_divide_, floor_divide__entry, s)
static const param remainder_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry remainder_entry = {.name = "remainder", .compute = api_remainder, .params = remainder_entry_params, .count = 2};
CALL(function_remainder, remainder_entry, NULL)
CALL(method_remainder, remainder_entry, s)
static const param remainder__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry remainder__entry = {.name = "remainder_", .compute = api_remainder_, .params = remainder__entry_params, .count = 2, .inplace = true};
CALL(method_remainder_, remainder__entry, s)
static const param fmod_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry fmod_entry = {.name = "fmod", .compute = api_fmod, .params = fmod_entry_params, .count = 2};
CALL(function_fmod, fmod_entry, NULL)
CALL(method_fmod, fmod_entry, s)
static const param fmod__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry fmod__entry = {.name = "fmod_", .compute = api_fmod_, .params = fmod__entry_params, .count = 2, .inplace = true};
CALL(method_fmod_, fmod__entry, s)
static const param maximum_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry maximum_entry = {.name = "maximum", .compute = api_maximum, .params = maximum_entry_params, .count = 2};
CALL(function_maximum, maximum_entry, NULL)
CALL(method_maximum, maximum_entry, s)
static const param maximum__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry maximum__entry = {.name = "maximum_", .compute = api_maximum_, .params = maximum__entry_params, .count = 2, .inplace = true};
CALL(method_maximum_, maximum__entry, s)
static const param minimum_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry minimum_entry = {.name = "minimum", .compute = api_minimum, .params = minimum_entry_params, .count = 2};
CALL(function_minimum, minimum_entry, NULL)
CALL(method_minimum, minimum_entry, s)
static const param minimum__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry minimum__entry = {.name = "minimum_", .compute = api_minimum_, .params = minimum__entry_params, .count = 2, .inplace = true};
CALL(method_minimum_, minimum__entry, s)
static const param fmax_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry fmax_entry = {.name = "fmax", .compute = api_fmax, .params = fmax_entry_params, .count = 2};
CALL(function_fmax, fmax_entry, NULL)
CALL(method_fmax, fmax_entry, s)
static const param fmax__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry fmax__entry = {.name = "fmax_", .compute = api_fmax_, .params = fmax__entry_params, .count = 2, .inplace = true};
CALL(method_fmax_, fmax__entry, s)
static const param fmin_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry fmin_entry = {.name = "fmin", .compute = api_fmin, .params = fmin_entry_params, .count = 2};
CALL(function_fmin, fmin_entry, NULL)
CALL(method_fmin, fmin_entry, s)
static const param fmin__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry fmin__entry = {.name = "fmin_", .compute = api_fmin_, .params = fmin__entry_params, .count = 2, .inplace = true};
CALL(method_fmin_, fmin__entry, s)
static const param clamp_min_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"min", OPERAND, 0, NULL, 0}};
static const entry clamp_min_entry = {.name = "clamp_min", .compute = api_clamp_min, .params = clamp_min_entry_params, .count = 2};
CALL(function_clamp_min, clamp_min_entry, NULL)
CALL(method_clamp_min, clamp_min_entry, s)
static const param clamp_min__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"min", OPERAND, 0, NULL, 0}};
static const entry clamp_min__entry = {.name = "clamp_min_", .compute = api_clamp_min_, .params = clamp_min__entry_params, .count = 2, .inplace = true};
CALL(method_clamp_min_, clamp_min__entry, s)
static const param clamp_max_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"max", OPERAND, 0, NULL, 0}};
static const entry clamp_max_entry = {.name = "clamp_max", .compute = api_clamp_max, .params = clamp_max_entry_params, .count = 2};
CALL(function_clamp_max, clamp_max_entry, NULL)
CALL(method_clamp_max, clamp_max_entry, s)
static const param clamp_max__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"max", OPERAND, 0, NULL, 0}};
static const entry clamp_max__entry = {.name = "clamp_max_", .compute = api_clamp_max_, .params = clamp_max__entry_params, .count = 2, .inplace = true};
CALL(method_clamp_max_, clamp_max__entry, s)
static const param neg_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry neg_entry = {.name = "neg", .compute = api_neg, .params = neg_entry_params, .count = 1};
CALL(function_neg, neg_entry, NULL)
CALL(method_neg, neg_entry, s)
static const param neg__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry neg__entry = {.name = "neg_", .compute = api_neg_, .params = neg__entry_params, .count = 1, .inplace = true};
CALL(method_neg_, neg__entry, s)
static const param abs_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry abs_entry = {.name = "abs", .compute = api_abs, .params = abs_entry_params, .count = 1};
CALL(function_abs, abs_entry, NULL)
CALL(method_abs, abs_entry, s)
static const param abs__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry abs__entry = {.name = "abs_", .compute = api_abs_, .params = abs__entry_params, .count = 1, .inplace = true};
CALL(method_abs_, abs__entry, s)
static const param sign_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sign_entry = {.name = "sign", .compute = api_sign, .params = sign_entry_params, .count = 1};
CALL(function_sign, sign_entry, NULL)
CALL(method_sign, sign_entry, s)
static const param sign__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sign__entry = {.name = "sign_", .compute = api_sign_, .params = sign__entry_params, .count = 1, .inplace = true};
CALL(method_sign_, sign__entry, s)
static const param copysign_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry copysign_entry = {.name = "copysign", .compute = api_copysign, .params = copysign_entry_params, .count = 2};
CALL(function_copysign, copysign_entry, NULL)
CALL(method_copysign, copysign_entry, s)
static const param copysign__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry copysign__entry = {.name = "copysign_", .compute = api_copysign_, .params = copysign__entry_params, .count = 2, .inplace = true};
CALL(method_copysign_, copysign__entry, s)
static const param square_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry square_entry = {.name = "square", .compute = api_square, .params = square_entry_params, .count = 1};
CALL(function_square, square_entry, NULL)
CALL(method_square, square_entry, s)
static const param square__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry square__entry = {.name = "square_", .compute = api_square_, .params = square__entry_params, .count = 1, .inplace = true};
CALL(method_square_, square__entry, s)
static const param hypot_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry hypot_entry = {.name = "hypot", .compute = api_hypot, .params = hypot_entry_params, .count = 2};
CALL(function_hypot, hypot_entry, NULL)
CALL(method_hypot, hypot_entry, s)
static const param hypot__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry hypot__entry = {.name = "hypot_", .compute = api_hypot_, .params = hypot__entry_params, .count = 2, .inplace = true};
CALL(method_hypot_, hypot__entry, s)
static const param reciprocal_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry reciprocal_entry = {.name = "reciprocal", .compute = api_reciprocal, .params = reciprocal_entry_params, .count = 1};
CALL(function_reciprocal, reciprocal_entry, NULL)
CALL(method_reciprocal, reciprocal_entry, s)
static const param reciprocal__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry reciprocal__entry = {.name = "reciprocal_", .compute = api_reciprocal_, .params = reciprocal__entry_params, .count = 1, .inplace = true};
CALL(method_reciprocal_, reciprocal__entry, s)
static const param sqrt_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sqrt_entry = {.name = "sqrt", .compute = api_sqrt, .params = sqrt_entry_params, .count = 1};
CALL(function_sqrt, sqrt_entry, NULL)
CALL(method_sqrt, sqrt_entry, s)
static const param sqrt__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sqrt__entry = {.name = "sqrt_", .compute = api_sqrt_, .params = sqrt__entry_params, .count = 1, .inplace = true};
CALL(method_sqrt_, sqrt__entry, s)
static const param rsqrt_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry rsqrt_entry = {.name = "rsqrt", .compute = api_rsqrt, .params = rsqrt_entry_params, .count = 1};
CALL(function_rsqrt, rsqrt_entry, NULL)
CALL(method_rsqrt, rsqrt_entry, s)
static const param rsqrt__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry rsqrt__entry = {.name = "rsqrt_", .compute = api_rsqrt_, .params = rsqrt__entry_params, .count = 1, .inplace = true};
CALL(method_rsqrt_, rsqrt__entry, s)
static const param lerp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"end", TENSOR, 0, NULL, 0}, {"weight", OPERAND, 0, NULL, 0}};
static const entry lerp_entry = {.name = "lerp", .compute = api_lerp, .params = lerp_entry_params, .count = 3};
CALL(function_lerp, lerp_entry, NULL)
CALL(method_lerp, lerp_entry, s)
static const param lerp__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"end", TENSOR, 0, NULL, 0}, {"weight", OPERAND, 0, NULL, 0}};
static const entry lerp__entry = {.name = "lerp_", .compute = api_lerp_, .params = lerp__entry_params, .count = 3, .inplace = true};
CALL(method_lerp_, lerp__entry, s)
static const param addcmul_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"tensor1", TENSOR, 0, NULL, 0}, {"tensor2", TENSOR, 0, NULL, 0}, {"value", FLOAT, KEYWORD, "", 1.0}};
static const entry addcmul_entry = {.name = "addcmul", .compute = api_addcmul, .params = addcmul_entry_params, .count = 4};
CALL(function_addcmul, addcmul_entry, NULL)
CALL(method_addcmul, addcmul_entry, s)
static const param addcmul__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"tensor1", TENSOR, 0, NULL, 0}, {"tensor2", TENSOR, 0, NULL, 0}, {"value", FLOAT, KEYWORD, "", 1.0}};
static const entry addcmul__entry = {.name = "addcmul_", .compute = api_addcmul_, .params = addcmul__entry_params, .count = 4, .inplace = true};
CALL(method_addcmul_, addcmul__entry, s)
static const param addcdiv_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"tensor1", TENSOR, 0, NULL, 0}, {"tensor2", TENSOR, 0, NULL, 0}, {"value", FLOAT, KEYWORD, "", 1.0}};
static const entry addcdiv_entry = {.name = "addcdiv", .compute = api_addcdiv, .params = addcdiv_entry_params, .count = 4};
CALL(function_addcdiv, addcdiv_entry, NULL)
CALL(method_addcdiv, addcdiv_entry, s)
static const param addcdiv__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"tensor1", TENSOR, 0, NULL, 0}, {"tensor2", TENSOR, 0, NULL, 0}, {"value", FLOAT, KEYWORD, "", 1.0}};
static const entry addcdiv__entry = {.name = "addcdiv_", .compute = api_addcdiv_, .params = addcdiv__entry_params, .count = 4, .inplace = true};
CALL(method_addcdiv_, addcdiv__entry, s)
static const param exp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry exp_entry = {.name = "exp", .compute = api_exp, .params = exp_entry_params, .count = 1};
CALL(function_exp, exp_entry, NULL)
CALL(method_exp, exp_entry, s)
static const param exp__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry exp__entry = {.name = "exp_", .compute = api_exp_, .params = exp__entry_params, .count = 1, .inplace = true};
CALL(method_exp_, exp__entry, s)
static const param exp2_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry exp2_entry = {.name = "exp2", .compute = api_exp2, .params = exp2_entry_params, .count = 1};
CALL(function_exp2, exp2_entry, NULL)
CALL(method_exp2, exp2_entry, s)
static const param exp2__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry exp2__entry = {.name = "exp2_", .compute = api_exp2_, .params = exp2__entry_params, .count = 1, .inplace = true};
CALL(method_exp2_, exp2__entry, s)
static const param expm1_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry expm1_entry = {.name = "expm1", .compute = api_expm1, .params = expm1_entry_params, .count = 1};
CALL(function_expm1, expm1_entry, NULL)
CALL(method_expm1, expm1_entry, s)
static const param expm1__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry expm1__entry = {.name = "expm1_", .compute = api_expm1_, .params = expm1__entry_params, .count = 1, .inplace = true};
CALL(method_expm1_, expm1__entry, s)
static const param log_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log_entry = {.name = "log", .compute = api_log, .params = log_entry_params, .count = 1};
CALL(function_log, log_entry, NULL)
CALL(method_log, log_entry, s)
static const param log__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log__entry = {.name = "log_", .compute = api_log_, .params = log__entry_params, .count = 1, .inplace = true};
CALL(method_log_, log__entry, s)
static const param log2_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log2_entry = {.name = "log2", .compute = api_log2, .params = log2_entry_params, .count = 1};
CALL(function_log2, log2_entry, NULL)
CALL(method_log2, log2_entry, s)
static const param log2__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log2__entry = {.name = "log2_", .compute = api_log2_, .params = log2__entry_params, .count = 1, .inplace = true};
CALL(method_log2_, log2__entry, s)
static const param log10_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log10_entry = {.name = "log10", .compute = api_log10, .params = log10_entry_params, .count = 1};
CALL(function_log10, log10_entry, NULL)
CALL(method_log10, log10_entry, s)
static const param log10__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log10__entry = {.name = "log10_", .compute = api_log10_, .params = log10__entry_params, .count = 1, .inplace = true};
CALL(method_log10_, log10__entry, s)
static const param logaddexp_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logaddexp_entry = {.name = "logaddexp", .compute = api_logaddexp, .params = logaddexp_entry_params, .count = 2};
CALL(function_logaddexp, logaddexp_entry, NULL)
CALL(method_logaddexp, logaddexp_entry, s)
static const param logaddexp__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logaddexp__entry = {.name = "logaddexp_", .compute = api_logaddexp_, .params = logaddexp__entry_params, .count = 2, .inplace = true};
CALL(method_logaddexp_, logaddexp__entry, s)
static const param logaddexp2_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logaddexp2_entry = {.name = "logaddexp2", .compute = api_logaddexp2, .params = logaddexp2_entry_params, .count = 2};
CALL(function_logaddexp2, logaddexp2_entry, NULL)
CALL(method_logaddexp2, logaddexp2_entry, s)
static const param logaddexp2__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logaddexp2__entry = {.name = "logaddexp2_", .compute = api_logaddexp2_, .params = logaddexp2__entry_params, .count = 2, .inplace = true};
CALL(method_logaddexp2_, logaddexp2__entry, s)
static const param xlogy_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry xlogy_entry = {.name = "xlogy", .compute = api_xlogy, .params = xlogy_entry_params, .count = 2};
CALL(function_xlogy, xlogy_entry, NULL)
CALL(method_xlogy, xlogy_entry, s)
static const param xlogy__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry xlogy__entry = {.name = "xlogy_", .compute = api_xlogy_, .params = xlogy__entry_params, .count = 2, .inplace = true};
CALL(method_xlogy_, xlogy__entry, s)
static const param log1p_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log1p_entry = {.name = "log1p", .compute = api_log1p, .params = log1p_entry_params, .count = 1};
CALL(function_log1p, log1p_entry, NULL)
CALL(method_log1p, log1p_entry, s)
static const param log1p__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry log1p__entry = {.name = "log1p_", .compute = api_log1p_, .params = log1p__entry_params, .count = 1, .inplace = true};
CALL(method_log1p_, log1p__entry, s)
static const param sin_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sin_entry = {.name = "sin", .compute = api_sin, .params = sin_entry_params, .count = 1};
CALL(function_sin, sin_entry, NULL)
CALL(method_sin, sin_entry, s)
static const param sin__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sin__entry = {.name = "sin_", .compute = api_sin_, .params = sin__entry_params, .count = 1, .inplace = true};
CALL(method_sin_, sin__entry, s)
static const param cos_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry cos_entry = {.name = "cos", .compute = api_cos, .params = cos_entry_params, .count = 1};
CALL(function_cos, cos_entry, NULL)
CALL(method_cos, cos_entry, s)
static const param cos__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry cos__entry = {.name = "cos_", .compute = api_cos_, .params = cos__entry_params, .count = 1, .inplace = true};
CALL(method_cos_, cos__entry, s)
static const param tan_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry tan_entry = {.name = "tan", .compute = api_tan, .params = tan_entry_params, .count = 1};
CALL(function_tan, tan_entry, NULL)
CALL(method_tan, tan_entry, s)
static const param tan__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry tan__entry = {.name = "tan_", .compute = api_tan_, .params = tan__entry_params, .count = 1, .inplace = true};
CALL(method_tan_, tan__entry, s)
static const param asin_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry asin_entry = {.name = "asin", .compute = api_asin, .params = asin_entry_params, .count = 1};
CALL(function_asin, asin_entry, NULL)
CALL(method_asin, asin_entry, s)
static const param asin__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry asin__entry = {.name = "asin_", .compute = api_asin_, .params = asin__entry_params, .count = 1, .inplace = true};
CALL(method_asin_, asin__entry, s)
static const param acos_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry acos_entry = {.name = "acos", .compute = api_acos, .params = acos_entry_params, .count = 1};
CALL(function_acos, acos_entry, NULL)
CALL(method_acos, acos_entry, s)
static const param acos__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry acos__entry = {.name = "acos_", .compute = api_acos_, .params = acos__entry_params, .count = 1, .inplace = true};
CALL(method_acos_, acos__entry, s)
static const param atan_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry atan_entry = {.name = "atan", .compute = api_atan, .params = atan_entry_params, .count = 1};
CALL(function_atan, atan_entry, NULL)
CALL(method_atan, atan_entry, s)
static const param atan__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry atan__entry = {.name = "atan_", .compute = api_atan_, .params = atan__entry_params, .count = 1, .inplace = true};
CALL(method_atan_, atan__entry, s)
static const param atan2_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry atan2_entry = {.name = "atan2", .compute = api_atan2, .params = atan2_entry_params, .count = 2};
CALL(function_atan2, atan2_entry, NULL)
CALL(method_atan2, atan2_entry, s)
static const param atan2__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry atan2__entry = {.name = "atan2_", .compute = api_atan2_, .params = atan2__entry_params, .count = 2, .inplace = true};
CALL(method_atan2_, atan2__entry, s)
static const param sinh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sinh_entry = {.name = "sinh", .compute = api_sinh, .params = sinh_entry_params, .count = 1};
CALL(function_sinh, sinh_entry, NULL)
CALL(method_sinh, sinh_entry, s)
static const param sinh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sinh__entry = {.name = "sinh_", .compute = api_sinh_, .params = sinh__entry_params, .count = 1, .inplace = true};
CALL(method_sinh_, sinh__entry, s)
static const param cosh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry cosh_entry = {.name = "cosh", .compute = api_cosh, .params = cosh_entry_params, .count = 1};
CALL(function_cosh, cosh_entry, NULL)
CALL(method_cosh, cosh_entry, s)
static const param cosh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry cosh__entry = {.name = "cosh_", .compute = api_cosh_, .params = cosh__entry_params, .count = 1, .inplace = true};
CALL(method_cosh_, cosh__entry, s)
static const param tanh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry tanh_entry = {.name = "tanh", .compute = api_tanh, .params = tanh_entry_params, .count = 1};
CALL(function_tanh, tanh_entry, NULL)
CALL(method_tanh, tanh_entry, s)
static const param tanh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry tanh__entry = {.name = "tanh_", .compute = api_tanh_, .params = tanh__entry_params, .count = 1, .inplace = true};
CALL(method_tanh_, tanh__entry, s)
static const param asinh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry asinh_entry = {.name = "asinh", .compute = api_asinh, .params = asinh_entry_params, .count = 1};
CALL(function_asinh, asinh_entry, NULL)
CALL(method_asinh, asinh_entry, s)
static const param asinh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry asinh__entry = {.name = "asinh_", .compute = api_asinh_, .params = asinh__entry_params, .count = 1, .inplace = true};
CALL(method_asinh_, asinh__entry, s)
static const param acosh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry acosh_entry = {.name = "acosh", .compute = api_acosh, .params = acosh_entry_params, .count = 1};
CALL(function_acosh, acosh_entry, NULL)
CALL(method_acosh, acosh_entry, s)
static const param acosh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry acosh__entry = {.name = "acosh_", .compute = api_acosh_, .params = acosh__entry_params, .count = 1, .inplace = true};
CALL(method_acosh_, acosh__entry, s)
static const param atanh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry atanh_entry = {.name = "atanh", .compute = api_atanh, .params = atanh_entry_params, .count = 1};
CALL(function_atanh, atanh_entry, NULL)
CALL(method_atanh, atanh_entry, s)
static const param atanh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry atanh__entry = {.name = "atanh_", .compute = api_atanh_, .params = atanh__entry_params, .count = 1, .inplace = true};
CALL(method_atanh_, atanh__entry, s)
static const param deg2rad_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry deg2rad_entry = {.name = "deg2rad", .compute = api_deg2rad, .params = deg2rad_entry_params, .count = 1};
CALL(function_deg2rad, deg2rad_entry, NULL)
CALL(method_deg2rad, deg2rad_entry, s)
static const param deg2rad__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry deg2rad__entry = {.name = "deg2rad_", .compute = api_deg2rad_, .params = deg2rad__entry_params, .count = 1, .inplace = true};
CALL(method_deg2rad_, deg2rad__entry, s)
static const param rad2deg_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry rad2deg_entry = {.name = "rad2deg", .compute = api_rad2deg, .params = rad2deg_entry_params, .count = 1};
CALL(function_rad2deg, rad2deg_entry, NULL)
CALL(method_rad2deg, rad2deg_entry, s)
static const param rad2deg__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry rad2deg__entry = {.name = "rad2deg_", .compute = api_rad2deg_, .params = rad2deg__entry_params, .count = 1, .inplace = true};
CALL(method_rad2deg_, rad2deg__entry, s)
static const param sinc_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sinc_entry = {.name = "sinc", .compute = api_sinc, .params = sinc_entry_params, .count = 1};
CALL(function_sinc, sinc_entry, NULL)
CALL(method_sinc, sinc_entry, s)
static const param sinc__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sinc__entry = {.name = "sinc_", .compute = api_sinc_, .params = sinc__entry_params, .count = 1, .inplace = true};
CALL(method_sinc_, sinc__entry, s)
static const param erf_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry erf_entry = {.name = "erf", .compute = api_erf, .params = erf_entry_params, .count = 1};
CALL(function_erf, erf_entry, NULL)
CALL(method_erf, erf_entry, s)
static const param erf__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry erf__entry = {.name = "erf_", .compute = api_erf_, .params = erf__entry_params, .count = 1, .inplace = true};
CALL(method_erf_, erf__entry, s)
static const param erfc_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry erfc_entry = {.name = "erfc", .compute = api_erfc, .params = erfc_entry_params, .count = 1};
CALL(function_erfc, erfc_entry, NULL)
CALL(method_erfc, erfc_entry, s)
static const param erfc__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry erfc__entry = {.name = "erfc_", .compute = api_erfc_, .params = erfc__entry_params, .count = 1, .inplace = true};
CALL(method_erfc_, erfc__entry, s)
static const param sigmoid_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sigmoid_entry = {.name = "sigmoid", .compute = api_sigmoid, .params = sigmoid_entry_params, .count = 1};
CALL(function_sigmoid, sigmoid_entry, NULL)
CALL(method_sigmoid, sigmoid_entry, s)
static const param sigmoid__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry sigmoid__entry = {.name = "sigmoid_", .compute = api_sigmoid_, .params = sigmoid__entry_params, .count = 1, .inplace = true};
CALL(method_sigmoid_, sigmoid__entry, s)
static const param relu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry relu_entry = {.name = "relu", .compute = api_relu, .params = relu_entry_params, .count = 1};
CALL(function_relu, relu_entry, NULL)
CALL(method_relu, relu_entry, s)
static const param relu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry relu__entry = {.name = "relu_", .compute = api_relu_, .params = relu__entry_params, .count = 1, .inplace = true};
CALL(method_relu_, relu__entry, s)
static const param leaky_relu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"negative_slope", FLOAT, 0, "", 0.01}};
static const entry leaky_relu_entry = {.name = "leaky_relu", .compute = api_leaky_relu, .params = leaky_relu_entry_params, .count = 2};
CALL(function_leaky_relu, leaky_relu_entry, NULL)
CALL(method_leaky_relu, leaky_relu_entry, s)
static const param leaky_relu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"negative_slope", FLOAT, 0, "", 0.01}};
static const entry leaky_relu__entry = {.name = "leaky_relu_", .compute = api_leaky_relu_, .params = leaky_relu__entry_params, .count = 2, .inplace = true};
CALL(method_leaky_relu_, leaky_relu__entry, s)
static const param elu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"alpha", FLOAT, 0, "", 1.0}};
static const entry elu_entry = {.name = "elu", .compute = api_elu, .params = elu_entry_params, .count = 2};
CALL(function_elu, elu_entry, NULL)
CALL(method_elu, elu_entry, s)
static const param elu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"alpha", FLOAT, 0, "", 1.0}};
static const entry elu__entry = {.name = "elu_", .compute = api_elu_, .params = elu__entry_params, .count = 2, .inplace = true};
CALL(method_elu_, elu__entry, s)
static const param selu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry selu_entry = {.name = "selu", .compute = api_selu, .params = selu_entry_params, .count = 1};
CALL(function_selu, selu_entry, NULL)
CALL(method_selu, selu_entry, s)
static const param selu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry selu__entry = {.name = "selu_", .compute = api_selu_, .params = selu__entry_params, .count = 1, .inplace = true};
CALL(method_selu_, selu__entry, s)
static const param celu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"alpha", FLOAT, 0, "", 1.0}};
static const entry celu_entry = {.name = "celu", .compute = api_celu, .params = celu_entry_params, .count = 2};
CALL(function_celu, celu_entry, NULL)
CALL(method_celu, celu_entry, s)
static const param celu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"alpha", FLOAT, 0, "", 1.0}};
static const entry celu__entry = {.name = "celu_", .compute = api_celu_, .params = celu__entry_params, .count = 2, .inplace = true};
CALL(method_celu_, celu__entry, s)
static const param silu_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry silu_entry = {.name = "silu", .compute = api_silu, .params = silu_entry_params, .count = 1};
CALL(function_silu, silu_entry, NULL)
CALL(method_silu, silu_entry, s)
static const param silu__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry silu__entry = {.name = "silu_", .compute = api_silu_, .params = silu__entry_params, .count = 1, .inplace = true};
CALL(method_silu_, silu__entry, s)
static const param mish_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry mish_entry = {.name = "mish", .compute = api_mish, .params = mish_entry_params, .count = 1};
CALL(function_mish, mish_entry, NULL)
CALL(method_mish, mish_entry, s)
static const param mish__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry mish__entry = {.name = "mish_", .compute = api_mish_, .params = mish__entry_params, .count = 1, .inplace = true};
CALL(method_mish_, mish__entry, s)
static const param softplus_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"beta", FLOAT, 0, "", 1.0}, {"threshold", FLOAT, 0, "", 20.0}};
static const entry softplus_entry = {.name = "softplus", .compute = api_softplus, .params = softplus_entry_params, .count = 3};
CALL(function_softplus, softplus_entry, NULL)
CALL(method_softplus, softplus_entry, s)
static const param softplus__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"beta", FLOAT, 0, "", 1.0}, {"threshold", FLOAT, 0, "", 20.0}};
static const entry softplus__entry = {.name = "softplus_", .compute = api_softplus_, .params = softplus__entry_params, .count = 3, .inplace = true};
CALL(method_softplus_, softplus__entry, s)
static const param softsign_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry softsign_entry = {.name = "softsign", .compute = api_softsign, .params = softsign_entry_params, .count = 1};
CALL(function_softsign, softsign_entry, NULL)
CALL(method_softsign, softsign_entry, s)
static const param softsign__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry softsign__entry = {.name = "softsign_", .compute = api_softsign_, .params = softsign__entry_params, .count = 1, .inplace = true};
CALL(method_softsign_, softsign__entry, s)
static const param hardtanh_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"min_val", FLOAT, 0, "", -1.0}, {"max_val", FLOAT, 0, "", 1.0}};
static const entry hardtanh_entry = {.name = "hardtanh", .compute = api_hardtanh, .params = hardtanh_entry_params, .count = 3};
CALL(function_hardtanh, hardtanh_entry, NULL)
CALL(method_hardtanh, hardtanh_entry, s)
static const param hardtanh__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"min_val", FLOAT, 0, "", -1.0}, {"max_val", FLOAT, 0, "", 1.0}};
static const entry hardtanh__entry = {.name = "hardtanh_", .compute = api_hardtanh_, .params = hardtanh__entry_params, .count = 3, .inplace = true};
CALL(method_hardtanh_, hardtanh__entry, s)
static const param hardsigmoid_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry hardsigmoid_entry = {.name = "hardsigmoid", .compute = api_hardsigmoid, .params = hardsigmoid_entry_params, .count = 1};
CALL(function_hardsigmoid, hardsigmoid_entry, NULL)
CALL(method_hardsigmoid, hardsigmoid_entry, s)
static const param hardsigmoid__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry hardsigmoid__entry = {.name = "hardsigmoid_", .compute = api_hardsigmoid_, .params = hardsigmoid__entry_params, .count = 1, .inplace = true};
CALL(method_hardsigmoid_, hardsigmoid__entry, s)
static const param hardswish_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry hardswish_entry = {.name = "hardswish", .compute = api_hardswish, .params = hardswish_entry_params, .count = 1};
CALL(function_hardswish, hardswish_entry, NULL)
CALL(method_hardswish, hardswish_entry, s)
static const param hardswish__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry hardswish__entry = {.name = "hardswish_", .compute = api_hardswish_, .params = hardswish__entry_params, .count = 1, .inplace = true};
CALL(method_hardswish_, hardswish__entry, s)
static const param relu6_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry relu6_entry = {.name = "relu6", .compute = api_relu6, .params = relu6_entry_params, .count = 1};
CALL(function_relu6, relu6_entry, NULL)
CALL(method_relu6, relu6_entry, s)
static const param relu6__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry relu6__entry = {.name = "relu6_", .compute = api_relu6_, .params = relu6__entry_params, .count = 1, .inplace = true};
CALL(method_relu6_, relu6__entry, s)
static const param logsigmoid_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry logsigmoid_entry = {.name = "logsigmoid", .compute = api_logsigmoid, .params = logsigmoid_entry_params, .count = 1};
CALL(function_logsigmoid, logsigmoid_entry, NULL)
CALL(method_logsigmoid, logsigmoid_entry, s)
static const param logsigmoid__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry logsigmoid__entry = {.name = "logsigmoid_", .compute = api_logsigmoid_, .params = logsigmoid__entry_params, .count = 1, .inplace = true};
CALL(method_logsigmoid_, logsigmoid__entry, s)
static const param floor_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry floor_entry = {.name = "floor", .compute = api_floor, .params = floor_entry_params, .count = 1};
CALL(function_floor, floor_entry, NULL)
CALL(method_floor, floor_entry, s)
static const param floor__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry floor__entry = {.name = "floor_", .compute = api_floor_, .params = floor__entry_params, .count = 1, .inplace = true};
CALL(method_floor_, floor__entry, s)
static const param ceil_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry ceil_entry = {.name = "ceil", .compute = api_ceil, .params = ceil_entry_params, .count = 1};
CALL(function_ceil, ceil_entry, NULL)
CALL(method_ceil, ceil_entry, s)
static const param ceil__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry ceil__entry = {.name = "ceil_", .compute = api_ceil_, .params = ceil__entry_params, .count = 1, .inplace = true};
CALL(method_ceil_, ceil__entry, s)
static const param trunc_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry trunc_entry = {.name = "trunc", .compute = api_trunc, .params = trunc_entry_params, .count = 1};
CALL(function_trunc, trunc_entry, NULL)
CALL(method_trunc, trunc_entry, s)
static const param trunc__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry trunc__entry = {.name = "trunc_", .compute = api_trunc_, .params = trunc__entry_params, .count = 1, .inplace = true};
CALL(method_trunc_, trunc__entry, s)
static const param frac_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry frac_entry = {.name = "frac", .compute = api_frac, .params = frac_entry_params, .count = 1};
CALL(function_frac, frac_entry, NULL)
CALL(method_frac, frac_entry, s)
static const param frac__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry frac__entry = {.name = "frac_", .compute = api_frac_, .params = frac__entry_params, .count = 1, .inplace = true};
CALL(method_frac_, frac__entry, s)
static const param isnan_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry isnan_entry = {.name = "isnan", .compute = api_isnan, .params = isnan_entry_params, .count = 1};
CALL(function_isnan, isnan_entry, NULL)
CALL(method_isnan, isnan_entry, s)
static const param isinf_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry isinf_entry = {.name = "isinf", .compute = api_isinf, .params = isinf_entry_params, .count = 1};
CALL(function_isinf, isinf_entry, NULL)
CALL(method_isinf, isinf_entry, s)
static const param isposinf_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry isposinf_entry = {.name = "isposinf", .compute = api_isposinf, .params = isposinf_entry_params, .count = 1};
CALL(function_isposinf, isposinf_entry, NULL)
CALL(method_isposinf, isposinf_entry, s)
static const param isneginf_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry isneginf_entry = {.name = "isneginf", .compute = api_isneginf, .params = isneginf_entry_params, .count = 1};
CALL(function_isneginf, isneginf_entry, NULL)
CALL(method_isneginf, isneginf_entry, s)
static const param isfinite_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry isfinite_entry = {.name = "isfinite", .compute = api_isfinite, .params = isfinite_entry_params, .count = 1};
CALL(function_isfinite, isfinite_entry, NULL)
CALL(method_isfinite, isfinite_entry, s)
static const param signbit_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry signbit_entry = {.name = "signbit", .compute = api_signbit, .params = signbit_entry_params, .count = 1};
CALL(function_signbit, signbit_entry, NULL)
CALL(method_signbit, signbit_entry, s)
static const param eq_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry eq_entry = {.name = "eq", .compute = api_eq, .params = eq_entry_params, .count = 2};
CALL(function_eq, eq_entry, NULL)
CALL(method_eq, eq_entry, s)
static const param eq__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry eq__entry = {.name = "eq_", .compute = api_eq_, .params = eq__entry_params, .count = 2, .inplace = true};
CALL(method_eq_, eq__entry, s)
static const param ne_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry ne_entry = {.name = "ne", .compute = api_ne, .params = ne_entry_params, .count = 2};
CALL(function_ne, ne_entry, NULL)
CALL(method_ne, ne_entry, s)
static const param ne__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry ne__entry = {.name = "ne_", .compute = api_ne_, .params = ne__entry_params, .count = 2, .inplace = true};
CALL(method_ne_, ne__entry, s)
static const param lt_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry lt_entry = {.name = "lt", .compute = api_lt, .params = lt_entry_params, .count = 2};
CALL(function_lt, lt_entry, NULL)
CALL(method_lt, lt_entry, s)
static const param lt__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry lt__entry = {.name = "lt_", .compute = api_lt_, .params = lt__entry_params, .count = 2, .inplace = true};
CALL(method_lt_, lt__entry, s)
static const param le_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry le_entry = {.name = "le", .compute = api_le, .params = le_entry_params, .count = 2};
CALL(function_le, le_entry, NULL)
CALL(method_le, le_entry, s)
static const param le__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry le__entry = {.name = "le_", .compute = api_le_, .params = le__entry_params, .count = 2, .inplace = true};
CALL(method_le_, le__entry, s)
static const param gt_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry gt_entry = {.name = "gt", .compute = api_gt, .params = gt_entry_params, .count = 2};
CALL(function_gt, gt_entry, NULL)
CALL(method_gt, gt_entry, s)
static const param gt__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry gt__entry = {.name = "gt_", .compute = api_gt_, .params = gt__entry_params, .count = 2, .inplace = true};
CALL(method_gt_, gt__entry, s)
static const param ge_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry ge_entry = {.name = "ge", .compute = api_ge, .params = ge_entry_params, .count = 2};
CALL(function_ge, ge_entry, NULL)
CALL(method_ge, ge_entry, s)
static const param ge__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry ge__entry = {.name = "ge_", .compute = api_ge_, .params = ge__entry_params, .count = 2, .inplace = true};
CALL(method_ge_, ge__entry, s)
static const param logical_and_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logical_and_entry = {.name = "logical_and", .compute = api_logical_and, .params = logical_and_entry_params, .count = 2};
CALL(function_logical_and, logical_and_entry, NULL)
CALL(method_logical_and, logical_and_entry, s)
static const param logical_and__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logical_and__entry = {.name = "logical_and_", .compute = api_logical_and_, .params = logical_and__entry_params, .count = 2, .inplace = true};
CALL(method_logical_and_, logical_and__entry, s)
static const param logical_or_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logical_or_entry = {.name = "logical_or", .compute = api_logical_or, .params = logical_or_entry_params, .count = 2};
CALL(function_logical_or, logical_or_entry, NULL)
CALL(method_logical_or, logical_or_entry, s)
static const param logical_or__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logical_or__entry = {.name = "logical_or_", .compute = api_logical_or_, .params = logical_or__entry_params, .count = 2, .inplace = true};
CALL(method_logical_or_, logical_or__entry, s)
static const param logical_xor_entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logical_xor_entry = {.name = "logical_xor", .compute = api_logical_xor, .params = logical_xor_entry_params, .count = 2};
CALL(function_logical_xor, logical_xor_entry, NULL)
CALL(method_logical_xor, logical_xor_entry, s)
static const param logical_xor__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry logical_xor__entry = {.name = "logical_xor_", .compute = api_logical_xor_, .params = logical_xor__entry_params, .count = 2, .inplace = true};
CALL(method_logical_xor_, logical_xor__entry, s)
static const param logical_not_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry logical_not_entry = {.name = "logical_not", .compute = api_logical_not, .params = logical_not_entry_params, .count = 1};
CALL(function_logical_not, logical_not_entry, NULL)
CALL(method_logical_not, logical_not_entry, s)
static const param logical_not__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry logical_not__entry = {.name = "logical_not_", .compute = api_logical_not_, .params = logical_not__entry_params, .count = 1, .inplace = true};
CALL(method_logical_not_, logical_not__entry, s)
static const param bitwise_and_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_and_entry = {.name = "bitwise_and", .compute = api_bitwise_and, .params = bitwise_and_entry_params, .count = 2};
CALL(function_bitwise_and, bitwise_and_entry, NULL)
CALL(method_bitwise_and, bitwise_and_entry, s)
static const param bitwise_and__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_and__entry = {.name = "bitwise_and_", .compute = api_bitwise_and_, .params = bitwise_and__entry_params, .count = 2, .inplace = true};
CALL(method_bitwise_and_, bitwise_and__entry, s)
static const param bitwise_or_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_or_entry = {.name = "bitwise_or", .compute = api_bitwise_or, .params = bitwise_or_entry_params, .count = 2};
CALL(function_bitwise_or, bitwise_or_entry, NULL)
CALL(method_bitwise_or, bitwise_or_entry, s)
static const param bitwise_or__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_or__entry = {.name = "bitwise_or_", .compute = api_bitwise_or_, .params = bitwise_or__entry_params, .count = 2, .inplace = true};
CALL(method_bitwise_or_, bitwise_or__entry, s)
static const param bitwise_xor_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_xor_entry = {.name = "bitwise_xor", .compute = api_bitwise_xor, .params = bitwise_xor_entry_params, .count = 2};
CALL(function_bitwise_xor, bitwise_xor_entry, NULL)
CALL(method_bitwise_xor, bitwise_xor_entry, s)
static const param bitwise_xor__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_xor__entry = {.name = "bitwise_xor_", .compute = api_bitwise_xor_, .params = bitwise_xor__entry_params, .count = 2, .inplace = true};
CALL(method_bitwise_xor_, bitwise_xor__entry, s)
static const param bitwise_not_entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry bitwise_not_entry = {.name = "bitwise_not", .compute = api_bitwise_not, .params = bitwise_not_entry_params, .count = 1};
CALL(function_bitwise_not, bitwise_not_entry, NULL)
CALL(method_bitwise_not, bitwise_not_entry, s)
static const param bitwise_not__entry_params[] = {{"input", TENSOR, 0, NULL, 0}};
static const entry bitwise_not__entry = {.name = "bitwise_not_", .compute = api_bitwise_not_, .params = bitwise_not__entry_params, .count = 1, .inplace = true};
CALL(method_bitwise_not_, bitwise_not__entry, s)
static const param bitwise_left_shift_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_left_shift_entry = {.name = "bitwise_left_shift", .compute = api_bitwise_left_shift, .params = bitwise_left_shift_entry_params, .count = 2};
CALL(function_bitwise_left_shift, bitwise_left_shift_entry, NULL)
CALL(method_bitwise_left_shift, bitwise_left_shift_entry, s)
static const param bitwise_left_shift__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_left_shift__entry = {.name = "bitwise_left_shift_", .compute = api_bitwise_left_shift_, .params = bitwise_left_shift__entry_params, .count = 2, .inplace = true};
CALL(method_bitwise_left_shift_, bitwise_left_shift__entry, s)
static const param bitwise_right_shift_entry_params[] = {{"input", OPERAND, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_right_shift_entry = {.name = "bitwise_right_shift", .compute = api_bitwise_right_shift, .params = bitwise_right_shift_entry_params, .count = 2};
CALL(function_bitwise_right_shift, bitwise_right_shift_entry, NULL)
CALL(method_bitwise_right_shift, bitwise_right_shift_entry, s)
static const param bitwise_right_shift__entry_params[] = {{"input", TENSOR, 0, NULL, 0}, {"other", OPERAND, 0, NULL, 0}};
static const entry bitwise_right_shift__entry = {.name = "bitwise_right_shift_", .compute = api_bitwise_right_shift_, .params = bitwise_right_shift__entry_params, .count = 2, .inplace = true};
CALL(method_bitwise_right_shift_, bitwise_right_shift__entry, s)

PyMethodDef api_functions[] = {
    {"tensor", AS(function_tensor), FAST,
        "tensor(data, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "A tensor with a copy of data: a number, nested sequences of numbers, a Tensor, a buffer or an array.\n"
        "Without dtype: float32 for floats, int64 for ints, bool for bools; arrays keep theirs."},
    {"zeros", AS(function_zeros), FAST,
        "zeros(*size, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Zeros of the given shape: zeros(2, 3) or zeros((2, 3)); float32 unless a dtype is given."},
    {"ones", AS(function_ones), FAST,
        "ones(*size, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Ones of the given shape; float32 unless a dtype is given."},
    {"empty", AS(function_empty), FAST,
        "empty(*size, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "A tensor of the given shape whose values are whatever the memory held."},
    {"full", AS(function_full), FAST,
        "full(size, fill_value, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "A tensor filled with one value.  Without dtype: float32 for a float, int64 for an int, bool for a bool."},
    {"arange", AS(function_arange), FAST,
        "arange(start=None, end=None, step=1, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "start, start + step, ... up to but without end; arange(n) starts at 0.  int64 where all three are ints, else float32."},
    {"linspace", AS(function_linspace), FAST,
        "linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "steps numbers at equal distances from start to end, both included; each a number or a tensor without axes."},
    {"eye", AS(function_eye), FAST,
        "eye(n, m=None, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Ones on the diagonal, zeros elsewhere : (n, m); m is n when absent."},
    {"rand", AS(function_rand), FAST,
        "rand(*size, generator=None, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Uniform random numbers in [0, 1)."},
    {"randn", AS(function_randn), FAST,
        "randn(*size, generator=None, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Random numbers from the standard normal distribution."},
    {"randint", AS(function_randint), FAST,
        "randint(low=None, high=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Random integers in [low, high), or in [0, low) when called as randint(high, size); int64 unless a dtype is given."},
    {"zeros_like", AS(function_zeros_like), FAST,
        "zeros_like(input, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Zeros of the shape, dtype and device of input."},
    {"ones_like", AS(function_ones_like), FAST,
        "ones_like(input, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Ones of the shape, dtype and device of input."},
    {"empty_like", AS(function_empty_like), FAST,
        "empty_like(input, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Memory of the shape, dtype and device of input, not written."},
    {"full_like", AS(function_full_like), FAST,
        "full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "One value in the shape, dtype and device of input."},
    {"rand_like", AS(function_rand_like), FAST,
        "rand_like(input, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Uniform random numbers in [0, 1) in the shape, dtype and device of input."},
    {"randn_like", AS(function_randn_like), FAST,
        "randn_like(input, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Standard normal random numbers in the shape, dtype and device of input."},
    {"randint_like", AS(function_randint_like), FAST,
        "randint_like(input, low, high=None, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Random integers in [low, high), or in [0, low) when called as randint_like(input, high), in the shape, dtype and device of input."},
    {"randperm", AS(function_randperm), FAST,
        "randperm(n, *, generator=None, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "0 ... n - 1 in random order; int64 unless a dtype is given."},
    {"multinomial", AS(function_multinomial), FAST,
        "multinomial(input, num_samples, replacement=False, *, generator=None)\n"
        "--\n"
        "\n"
        "Positions drawn by their weights : (N) or (M, N) -> (num_samples) or (M, num_samples), int64.  Weights need not sum to 1.\n"
        "Without replacement no position comes twice, in the order drawn.  RuntimeError: a weight that is negative or not finite, too few above 0."},
    {"bernoulli", AS(function_bernoulli), FAST,
        "bernoulli(input, p=None, *, generator=None)\n"
        "--\n"
        "\n"
        "1 with the chance that input says, or p for all, else 0; its shape and dtype.  RuntimeError: a chance outside of [0, 1]."},
    {"normal", AS(function_normal), FAST,
        "normal(mean, std=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Normal numbers, each with its own mean and std (1 when absent), which broadcast; of two numbers, size of them."},
    {"manual_seed", AS(function_manual_seed), FAST,
        "manual_seed(seed)\n"
        "--\n"
        "\n"
        "Seeds the default generator with int(seed); returns it.  The same seed gives the same bits on every device."},
    {"asarray", AS(function_asarray), FAST,
        "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "The numbers of obj as a tensor: of an array, a buffer or what has __dlpack__ the memory itself where dtype, device and layout allow, else a copy.\n"
        "copy: True always copies, False never: ValueError where one would be needed.  Read-only memory, negative strides and unaligned elements need one;\n"
        "another byte order is refused."},
    {"as_tensor", AS(function_as_tensor), FAST,
        "as_tensor(data, dtype=None, device=None)\n"
        "--\n"
        "\n"
        "asarray: shares the memory of arrays, buffers and tensors where it can; copies numbers and sequences."},
    {"from_numpy", AS(function_from_numpy), FAST,
        "from_numpy(ndarray)\n"
        "--\n"
        "\n"
        "A tensor over the memory of a NumPy array; a copy of a read-only one, which a tensor could write to.\n"
        "TypeError: no array, or a dtype that tensors do not have.  ValueError: negative strides, unaligned elements, another byte order."},
    {"from_dlpack", AS(function_from_dlpack), FAST,
        "from_dlpack(ext_tensor, *, device=None, copy=None)\n"
        "--\n"
        "\n"
        "A tensor over the memory of another library's, taken by DLPack from an object with __dlpack__ or from a capsule (once).\n"
        "copy: True always copies, False never: BufferError where one would be needed, as for read-only memory and negative strides."},
    {"_rebuild", AS(function__rebuild), FAST,
        "_rebuild(type, data, shape, dtype, device, requires_grad, from_data)\n"
        "--\n"
        "\n"
        "What unpickling a tensor calls."},
    {"numel", AS(function_numel), FAST,
        "numel(input)\n"
        "--\n"
        "\n"
        "The number of elements."},
    {"is_tensor", AS(function_is_tensor), FAST,
        "is_tensor(obj)\n"
        "--\n"
        "\n"
        "Is it a Tensor?"},
    {"is_floating_point", AS(function_is_floating_point), FAST,
        "is_floating_point(input)\n"
        "--\n"
        "\n"
        "Is the dtype float16, bfloat16, float32 or float64?"},
    {"promote_types", AS(function_promote_types), FAST,
        "promote_types(type1, type2)\n"
        "--\n"
        "\n"
        "The dtype that holds both, by PyTorch's table (docs/dtypes.md): a float before an integer before bool, the wider of two of a kind."},
    {"result_type", AS(function_result_type), FAST,
        "result_type(tensor1, tensor2)\n"
        "--\n"
        "\n"
        "The dtype of tensor1 + tensor2: numbers, and tensors without axes, only lift it to a higher kind."},
    {"can_cast", AS(function_can_cast), FAST,
        "can_cast(from_, to)\n"
        "--\n"
        "\n"
        "May a result of the one dtype be written into a tensor of the other?  Floats not into integers, numbers not into bool."},
    {"save", AS(function_save), FAST,
        "save(obj, f)\n"
        "--\n"
        "\n"
        "Writes a dict of tensors to a safetensors file, beside and renamed: a failure leaves the old file.  No graph, no gradient.\n"
        "obj: str -> Tensor.  f: a path.  OSError: the file cannot be written."},
    {"load", AS(function_load), FAST,
        "load(f, device=None)\n"
        "--\n"
        "\n"
        "The tensors of a safetensors file, or the weights in a checkpoint's folder, as a dict, in the file's order.  On the processor they lie over the mapped file: a page is read when it is first\n"
        "touched, and writing to a tensor does not change the file.  OSError: no such file, or not a safetensors file."},
    {"_node", AS(function__node), FAST,
        "_node(input)\n"
        "--\n"
        "\n"
        "grad_fn, and for a leaf that requires a gradient the node which stands for it."},
    {"_load_metadata", AS(function__load_metadata), FAST,
        "_load_metadata(f)\n"
        "--\n"
        "\n"
        "What a safetensors file says about itself: a JSON object of strings."},
    {"_training_save", AS(function__training_save), FAST,
        "_training_save(folder, weights, groups, loader, moments, steps, step, metadata, generator=None)\n"
        "--\n"
        "\n"
        "Writes a checkpoint.  weights: a dict, or None.  groups: of an optimizer, or None: [(moments of a parameter, {name: parameter})]; moments: a dict with\n"
        "\"name.m\", \"name.v\", \"name.t\"; steps: that it took.  loader: a capsule, or None.  step: of the run.  metadata: a JSON object of strings."},
    {"_training_load", AS(function__training_load), FAST,
        "_training_load(folder, weights, groups, loader, generator=None)\n"
        "--\n"
        "\n"
        "Puts a checkpoint back into weights, generator and loader; returns the run's step, the optimizer's, and its moments."},
    {"_training_weights", AS(function__training_weights), FAST,
        "_training_weights(folder)\n"
        "--\n"
        "\n"
        "The path of a checkpoint's weights."},
    {"set_printoptions", AS(function_set_printoptions), FAST,
        "set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None)\n"
        "--\n"
        "\n"
        "How tensors are printed.  precision: digits behind the point (4); threshold: elements from which a summary is shown (1000); edgeitems: shown at each end\n"
        "of an axis then (3); linewidth: characters in a line (80); profile: \"default\", \"short\" or \"full\"; sci_mode: True, False or None, by the values."},
    {"contiguous", AS(function_contiguous), FAST,
        "contiguous(input)\n"
        "--\n"
        "\n"
        "The same values, in order and without gaps; no copy where that holds already."},
    {"clone", AS(function_clone), FAST,
        "clone(input)\n"
        "--\n"
        "\n"
        "A copy in new memory; gradients flow through."},
    {"detach", AS(function_detach), FAST,
        "detach(input)\n"
        "--\n"
        "\n"
        "The same storage, outside the graph."},
    {"reshape", AS(function_reshape), FAST,
        "reshape(input, shape)\n"
        "--\n"
        "\n"
        "The same elements in the same order in another shape; one size may be -1.  A view where possible."},
    {"transpose", AS(function_transpose), FAST,
        "transpose(input, dim0, dim1)\n"
        "--\n"
        "\n"
        "A view with two axes swapped.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"t", AS(function_t), FAST,
        "t(input)\n"
        "--\n"
        "\n"
        "A matrix transposed; tensors of fewer axes as they are."},
    {"permute", AS(function_permute), FAST,
        "permute(input, dims)\n"
        "--\n"
        "\n"
        "A view with the axes in the order given."},
    {"flatten", AS(function_flatten), FAST,
        "flatten(input, start_dim=0, end_dim=-1)\n"
        "--\n"
        "\n"
        "The axes start_dim ... end_dim as one."},
    {"ravel", AS(function_ravel), FAST,
        "ravel(input)\n"
        "--\n"
        "\n"
        "All elements along one axis: a view where that is possible."},
    {"unflatten", AS(function_unflatten), FAST,
        "unflatten(input, dim, sizes)\n"
        "--\n"
        "\n"
        "One axis as several, of the given sizes; one may be -1.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"squeeze", AS(function_squeeze), FAST,
        "squeeze(input, dim=None)\n"
        "--\n"
        "\n"
        "A view without the axes of size 1: all of them, or those of dim that have it.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unsqueeze", AS(function_unsqueeze), FAST,
        "unsqueeze(input, dim)\n"
        "--\n"
        "\n"
        "A view with one more axis of size 1, at dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"broadcast_to", AS(function_broadcast_to), FAST,
        "broadcast_to(input, size)\n"
        "--\n"
        "\n"
        "A view of the given shape, by the rules of broadcasting."},
    {"narrow", AS(function_narrow), FAST,
        "narrow(input, dim, start, length)\n"
        "--\n"
        "\n"
        "The view x[start : start + length] along dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"select", AS(function_select), FAST,
        "select(input, dim, index)\n"
        "--\n"
        "\n"
        "The view x[index] along dim, without that axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"split", AS(function_split), FAST,
        "split(tensor, split_size_or_sections, dim=0)\n"
        "--\n"
        "\n"
        "Views of split_size along dim (the last may be smaller), or of the sizes listed."},
    {"chunk", AS(function_chunk), FAST,
        "chunk(input, chunks, dim=0)\n"
        "--\n"
        "\n"
        "At most chunks views of equal size along dim; the last may be smaller.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unbind", AS(function_unbind), FAST,
        "unbind(input, dim=0)\n"
        "--\n"
        "\n"
        "The views x[0], x[1], ... along dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"movedim", AS(function_movedim), FAST,
        "movedim(input, source, destination)\n"
        "--\n"
        "\n"
        "A view with the axes source moved to destination; the others keep their order."},
    {"diagonal", AS(function_diagonal), FAST,
        "diagonal(input, offset=0, dim1=0, dim2=1)\n"
        "--\n"
        "\n"
        "The view x[i, i + offset] of the axes dim1 and dim2, as the last axis."},
    {"diag_embed", AS(function_diag_embed), FAST,
        "diag_embed(input, offset=0, dim1=-2, dim2=-1)\n"
        "--\n"
        "\n"
        "The last axis as the diagonal of two new axes, dim1 and dim2 of the result, zeros elsewhere: (..., n) -> (..., n + |offset|, n + |offset|)."},
    {"diag", AS(function_diag), FAST,
        "diag(input, diagonal=0)\n"
        "--\n"
        "\n"
        "A vector as a diagonal of a matrix of zeros; the diagonal of a matrix, as a copy."},
    {"meshgrid", AS(function_meshgrid), FAST,
        "meshgrid(*tensors, indexing='ij')\n"
        "--\n"
        "\n"
        "n vectors as views of one shape, each along an axis of its own; indexing \"xy\" swaps the first two axes."},
    {"atleast_1d", AS(function_atleast_1d), FAST,
        "atleast_1d(*tensors)\n"
        "--\n"
        "\n"
        "Tensors with at least one axis: views of one, or a tuple of several."},
    {"atleast_2d", AS(function_atleast_2d), FAST,
        "atleast_2d(*tensors)\n"
        "--\n"
        "\n"
        "Tensors with at least two axes, new ones in front: views of one, or a tuple of several."},
    {"atleast_3d", AS(function_atleast_3d), FAST,
        "atleast_3d(*tensors)\n"
        "--\n"
        "\n"
        "Tensors with at least three axes, (N) as (1, N, 1), (M, N) as (M, N, 1): views of one, or a tuple of several."},
    {"flip", AS(function_flip), FAST,
        "flip(input, dims)\n"
        "--\n"
        "\n"
        "A copy, backwards along the axes dims; x[::-1] is a view."},
    {"fliplr", AS(function_fliplr), FAST,
        "fliplr(input)\n"
        "--\n"
        "\n"
        "A copy, backwards along axis 1."},
    {"flipud", AS(function_flipud), FAST,
        "flipud(input)\n"
        "--\n"
        "\n"
        "A copy, backwards along axis 0."},
    {"roll", AS(function_roll), FAST,
        "roll(input, shifts, dims=None)\n"
        "--\n"
        "\n"
        "y[(i + shift) mod size] = x[i] along each of dims; without them one shift of all elements in order."},
    {"tile", AS(function_tile), FAST,
        "tile(input, dims)\n"
        "--\n"
        "\n"
        "The tensor dims[i] times along axis i, counted from the last one; axes not named are not repeated."},
    {"repeat_interleave", AS(function_repeat_interleave), FAST,
        "repeat_interleave(input, repeats=None, dim=None, *, output_size=None)\n"
        "--\n"
        "\n"
        "Every position of an axis repeats times, a number for all or one for each; of all elements in order when dim is absent.\n"
        "repeat_interleave(repeats): the positions 0, 1, ... so repeated.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"pad", AS(function_pad), FAST,
        "pad(input, pad, mode='constant', value=None)\n"
        "--\n"
        "\n"
        "Margins around the tensor; pad: before and after the last axis, then the one before, and so on; negative ones crop.\n"
        "mode: \"constant\" (value, 0 when absent), \"reflect\" (the edge itself is not repeated), \"replicate\" (the edge) or \"circular\"."},
    {"tril", AS(function_tril), FAST,
        "tril(input, diagonal=0)\n"
        "--\n"
        "\n"
        "Zeros above the diagonal of the last two axes."},
    {"triu", AS(function_triu), FAST,
        "triu(input, diagonal=0)\n"
        "--\n"
        "\n"
        "Zeros below the diagonal of the last two axes."},
    {"add", AS(function_add), FAST,
        "add(input, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "input + alpha other"},
    {"sub", AS(function_sub), FAST,
        "sub(input, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "input - alpha other"},
    {"rsub", AS(function_rsub), FAST,
        "rsub(input, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "other - alpha input"},
    {"div", AS(function_div), FAST,
        "div(input, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "input / other; rounding_mode \"trunc\" rounds the result towards 0, \"floor\" down."},
    {"pow", AS(function_pow), FAST,
        "pow(input, exponent)\n"
        "--\n"
        "\n"
        "input to the power exponent; 0 to the 0 is 1"},
    {"clamp", AS(function_clamp), FAST,
        "clamp(input, min=None, max=None)\n"
        "--\n"
        "\n"
        "Values below min become min, values above max become max; at least one of them is given."},
    {"round", AS(function_round), FAST,
        "round(input, *, decimals=0)\n"
        "--\n"
        "\n"
        "The nearest number of decimals digits after the point, before it where negative; ties to even.  The gradient is 0."},
    {"nextafter", AS(function_nextafter), FAST,
        "nextafter(input, other)\n"
        "--\n"
        "\n"
        "The next number of the dtype after input towards other.  Shapes broadcast, dtypes promote; no gradient."},
    {"nan_to_num", AS(function_nan_to_num), FAST,
        "nan_to_num(input, nan=None, posinf=None, neginf=None)\n"
        "--\n"
        "\n"
        "nan (0) for NaN, posinf and neginf for the infinities: without them the largest and least finite number of the dtype."},
    {"logit", AS(function_logit), FAST,
        "logit(input, eps=None)\n"
        "--\n"
        "\n"
        "log(z / (1 - z)); z is input, with eps clamped to [eps, 1 - eps]."},
    {"gelu", AS(function_gelu), FAST,
        "gelu(input, *, approximate='none')\n"
        "--\n"
        "\n"
        "x Phi(x), Phi the normal distribution; approximate=\"tanh\": x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"},
    {"sum", AS(function_sum), FAST,
        "sum(input, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The sum over the axes dim, all when absent; keepdim leaves them with size 1.  Integers and bool sum as int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nansum", AS(function_nansum), FAST,
        "nansum(input, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The sum over the axes dim, all when absent, with NaN counted as 0.  Integers and bool sum as int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"mean", AS(function_mean), FAST,
        "mean(input, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The mean over the axes dim, all when absent.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nanmean", AS(function_nanmean), FAST,
        "nanmean(input, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The mean of what is not NaN, over the axes dim, all when absent; NaN where there is nothing else.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"prod", AS(function_prod), FAST,
        "prod(input, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The product over the axes dim, all when absent.  Integers and bool multiply as int64.  The gradient is exact where elements are 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"var", AS(function_var), FAST,
        "var(input, dim=None, unbiased=None, keepdim=False, *, correction=None)\n"
        "--\n"
        "\n"
        "sum((x - mean)^2) / (N - correction) over the axes dim, all when absent; correction is 1, or 0 with unbiased=False.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"std", AS(function_std), FAST,
        "std(input, dim=None, unbiased=None, keepdim=False, *, correction=None)\n"
        "--\n"
        "\n"
        "The square root of var; the gradient is 0 where it is 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"var_mean", AS(function_var_mean), FAST,
        "var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None)\n"
        "--\n"
        "\n"
        "(var, mean) over the same axes.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"std_mean", AS(function_std_mean), FAST,
        "std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None)\n"
        "--\n"
        "\n"
        "(std, mean) over the same axes.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"any", AS(function_any), FAST,
        "any(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "Is an element not 0, over the axes dim, all when absent?  bool, uint8 for uint8; of no elements: no.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"all", AS(function_all), FAST,
        "all(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "Is no element 0, over the axes dim, all when absent?  bool, uint8 for uint8; of no elements: yes.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"count_nonzero", AS(function_count_nonzero), FAST,
        "count_nonzero(input, dim=None)\n"
        "--\n"
        "\n"
        "How many elements are not 0, over the axes dim, all when absent; int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"norm", AS(function_norm), FAST,
        "norm(input, p='fro', dim=None, keepdim=False, dtype=None)\n"
        "--\n"
        "\n"
        "sum(abs(x)^p)^(1/p) over the axes dim, all when absent; \"fro\" is 2, inf and -inf are the largest and the smallest abs(x), 0 counts what is not 0.\n"
        "The gradient is 0 where x or the norm is 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"amax", AS(function_amax), FAST,
        "amax(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The largest element over the axes dim; NaN wins, ties share the gradient.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"amin", AS(function_amin), FAST,
        "amin(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The smallest element over the axes dim; NaN wins, ties share the gradient.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"aminmax", AS(function_aminmax), FAST,
        "aminmax(input, *, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "(min, max): the smallest and the largest element over the axes dim, all when absent; NaN wins, ties share the gradient.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"max", AS(function_max), FAST,
        "max(input, dim=None, keepdim=False, *, other=None)\n"
        "--\n"
        "\n"
        "max(): the largest element; max(dim): (values, indices) along an axis; max(other): elementwise.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"min", AS(function_min), FAST,
        "min(input, dim=None, keepdim=False, *, other=None)\n"
        "--\n"
        "\n"
        "min(): the smallest element; min(dim): (values, indices) along an axis; min(other): elementwise.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"argmax", AS(function_argmax), FAST,
        "argmax(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The index of the largest element along dim, of all elements when absent; int64, the first of equals.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"argmin", AS(function_argmin), FAST,
        "argmin(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The index of the smallest element along dim, of all elements when absent; int64, the first of equals.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"logsumexp", AS(function_logsumexp), FAST,
        "logsumexp(input, dim, keepdim=False)\n"
        "--\n"
        "\n"
        "log(sum(exp(x))) over the axes dim, without overflow.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cumsum", AS(function_cumsum), FAST,
        "cumsum(input, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "y[k] = x[0] + ... + x[k] along dim.  Integers and bool sum as int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cumprod", AS(function_cumprod), FAST,
        "cumprod(input, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "y[k] = x[0] ... x[k] along dim.  Integers and bool multiply as int64.  The gradient is exact where elements are 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"logcumsumexp", AS(function_logcumsumexp), FAST,
        "logcumsumexp(input, dim)\n"
        "--\n"
        "\n"
        "y[k] = log(exp(x[0]) + ... + exp(x[k])) along dim, without overflow.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cummax", AS(function_cummax), FAST,
        "cummax(input, dim)\n"
        "--\n"
        "\n"
        "(values, indices): the largest element up to each along dim, and where it is, the last of equals; NaN wins.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cummin", AS(function_cummin), FAST,
        "cummin(input, dim)\n"
        "--\n"
        "\n"
        "(values, indices): the smallest element up to each along dim, and where it is, the last of equals; NaN wins.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"diff", AS(function_diff), FAST,
        "diff(input, n=1, dim=-1, prepend=None, append=None)\n"
        "--\n"
        "\n"
        "y[k] = x[k + 1] - x[k] along dim, n times over; prepend and append are put around x first.  Of bools: are they different?\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"softmax", AS(function_softmax), FAST,
        "softmax(input, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "exp(x) / sum(exp(x)) along dim; the same shape.  dtype: x is cast to it first.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"log_softmax", AS(function_log_softmax), FAST,
        "log_softmax(input, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "x - log(sum(exp(x))) along dim; the same shape.  dtype: x is cast to it first.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"sort", AS(function_sort), FAST,
        "sort(input, dim=-1, descending=False, *, stable=False)\n"
        "--\n"
        "\n"
        "(values, indices): the elements in order along dim, and where they were, int64.  Equal elements keep their order, with or without stable.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"argsort", AS(function_argsort), FAST,
        "argsort(input, dim=-1, descending=False, *, stable=False)\n"
        "--\n"
        "\n"
        "The indices of sort.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"msort", AS(function_msort), FAST,
        "msort(input)\n"
        "--\n"
        "\n"
        "The values of sort along the first axis."},
    {"topk", AS(function_topk), FAST,
        "topk(input, k, dim=-1, largest=True, sorted=True)\n"
        "--\n"
        "\n"
        "(values, indices): the k largest along dim, from the largest down, or the smallest; of equal ones the first.  In order whatever sorted says.\n"
        "RuntimeError: more than there are.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"kthvalue", AS(function_kthvalue), FAST,
        "kthvalue(input, k, dim=-1, keepdim=False)\n"
        "--\n"
        "\n"
        "(values, indices): the k-th smallest along dim, k from 1.  RuntimeError: there is no such element.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"mode", AS(function_mode), FAST,
        "mode(input, dim=-1, keepdim=False)\n"
        "--\n"
        "\n"
        "(values, indices): the most frequent element along dim, of those the smallest, and where it is first.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"median", AS(function_median), FAST,
        "median(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "median(): the lower of the two middle elements, NaN where there is one, ties share the gradient; median(dim): (values, indices) along an axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nanmedian", AS(function_nanmedian), FAST,
        "nanmedian(input, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "median of what is not NaN; NaN where there is nothing else.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unique", AS(function_unique), FAST,
        "unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None)\n"
        "--\n"
        "\n"
        "The different elements in order, or the different parts along dim; each NaN is different.  No gradient.\n"
        "With return_inverse, return_counts a tuple: where each element is among them, how often each occurs; int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unique_consecutive", AS(function_unique_consecutive), FAST,
        "unique_consecutive(input, return_inverse=False, return_counts=False, dim=None)\n"
        "--\n"
        "\n"
        "The first of each run of equal elements, or of equal parts along dim; the rest as in unique.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"quantile", AS(function_quantile), FAST,
        "quantile(input, q, dim=None, keepdim=False, *, interpolation='linear')\n"
        "--\n"
        "\n"
        "The quantiles q, from 0 to 1, along dim, of all elements when absent : a number, or the axis of q first.  NaN where there is one.\n"
        "interpolation between two elements: linear, lower, higher, nearest, midpoint.  RuntimeError: no elements, q outside 0 ... 1.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nanquantile", AS(function_nanquantile), FAST,
        "nanquantile(input, q, dim=None, keepdim=False, *, interpolation='linear')\n"
        "--\n"
        "\n"
        "quantile of what is not NaN; NaN where there is nothing else.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"searchsorted", AS(function_searchsorted), FAST,
        "searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None)\n"
        "--\n"
        "\n"
        "How many of the sorted sequence are less than each number (right, or side=\"right\": or equal) : (R), (...) or (..., R), (..., K); int64.\n"
        "sorter: the argsort of a sequence that is not sorted."},
    {"bucketize", AS(function_bucketize), FAST,
        "bucketize(input, boundaries, *, out_int32=False, right=False)\n"
        "--\n"
        "\n"
        "How many of the sorted boundaries, of one axis, are less than each number (right: or equal); int64."},
    {"isclose", AS(function_isclose), FAST,
        "isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)\n"
        "--\n"
        "\n"
        "input == other, or |input - other| <= atol + rtol |other|; equal_nan: NaN is close to NaN.  bool."},
    {"allclose", AS(function_allclose), FAST,
        "allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False)\n"
        "--\n"
        "\n"
        "Is isclose true everywhere?"},
    {"equal", AS(function_equal), FAST,
        "equal(input, other)\n"
        "--\n"
        "\n"
        "The same shape and elements?  NaN is equal to nothing."},
    {"isin", AS(function_isin), FAST,
        "isin(elements, test_elements, *, assume_unique=False, invert=False)\n"
        "--\n"
        "\n"
        "Is each element one of test_elements (invert: none of them)?  bool; NaN is in nothing."},
    {"bincount", AS(function_bincount), FAST,
        "bincount(input, weights=None, minlength=0)\n"
        "--\n"
        "\n"
        "How often 0, 1, 2, ... occur among integers along one axis, or the sum of their weights; at least minlength of them."},
    {"histc", AS(function_histc), FAST,
        "histc(input, bins=100, min=0, max=0)\n"
        "--\n"
        "\n"
        "How many elements lie in each of bins equal parts of [min, max], or of where they lie when both are equal; NaN in none : (bins)."},
    {"matmul", AS(function_matmul), FAST,
        "matmul(input, other)\n"
        "--\n"
        "\n"
        "(..., M, K) (..., K, N) -> (..., M, N), axes in front broadcast; vectors as in NumPy."},
    {"mm", AS(function_mm), FAST,
        "mm(input, mat2)\n"
        "--\n"
        "\n"
        "(M, K) (K, N) -> (M, N)"},
    {"bmm", AS(function_bmm), FAST,
        "bmm(input, mat2)\n"
        "--\n"
        "\n"
        "(B, M, K) (B, K, N) -> (B, M, N)"},
    {"mv", AS(function_mv), FAST,
        "mv(input, vec)\n"
        "--\n"
        "\n"
        "(M, K) (K) -> (M)"},
    {"dot", AS(function_dot), FAST,
        "dot(input, tensor)\n"
        "--\n"
        "\n"
        "(K) (K) -> ()"},
    {"vdot", AS(function_vdot), FAST,
        "vdot(input, other)\n"
        "--\n"
        "\n"
        "(K) (K) -> ()"},
    {"inner", AS(function_inner), FAST,
        "inner(input, other)\n"
        "--\n"
        "\n"
        "All dot products of rows: (..., K) (...', K) -> (..., ...'); with a 0-d operand the product."},
    {"outer", AS(function_outer), FAST,
        "outer(input, vec2)\n"
        "--\n"
        "\n"
        "(M) (N) -> (M, N): all products"},
    {"kron", AS(function_kron), FAST,
        "kron(input, other)\n"
        "--\n"
        "\n"
        "Blocks input[i, j] other : (M, N) (P, Q) -> (M P, N Q); up to 4 axes."},
    {"trace", AS(function_trace), FAST,
        "trace(input)\n"
        "--\n"
        "\n"
        "The sum of a matrix's diagonal; integers sum as int64."},
    {"addmm", AS(function_addmm), FAST,
        "addmm(input, mat1, mat2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha (mat1 @ mat2) : (M, N) or what broadcasts to it, (M, K), (K, N) -> (M, N).  With beta 0 input does not matter, not even NaN."},
    {"addmv", AS(function_addmv), FAST,
        "addmv(input, mat, vec, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha (mat @ vec) : (M) or what broadcasts to it, (M, K), (K) -> (M).  With beta 0 input does not matter."},
    {"addr", AS(function_addr), FAST,
        "addr(input, vec1, vec2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha outer(vec1, vec2) : (M, N) or what broadcasts to it, (M), (N) -> (M, N).  With beta 0 input does not matter."},
    {"baddbmm", AS(function_baddbmm), FAST,
        "baddbmm(input, batch1, batch2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha (batch1 @ batch2) : (B, M, N) or what broadcasts to it, (B, M, K), (B, K, N) -> (B, M, N).  With beta 0 input does not matter."},
    {"addbmm", AS(function_addbmm), FAST,
        "addbmm(input, batch1, batch2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha sum over B of (batch1 @ batch2) : (M, N) or what broadcasts to it, (B, M, K), (B, K, N) -> (M, N).  With beta 0 input does not matter."},
    {"tensordot", AS(function_tensordot), FAST,
        "tensordot(a, b, dims=2)\n"
        "--\n"
        "\n"
        "Products summed over pairs of axes: the last dims of a with the first of b, or the axes dims[0] of a with dims[1] of b; a's other axes, then b's."},
    {"einsum", AS(function_einsum), FAST,
        "einsum(equation, *operands)\n"
        "--\n"
        "\n"
        "Products summed over named axes: einsum(\"bij,bjk->bik\", a, b), einsum(\"ii\", a), einsum(\"...ij,...jk\", a, b); or with the labels of each\n"
        "operand, and of the result, as lists of 0 ... 51 and Ellipsis: einsum(a, [0, 1], b, [1, 2], [0, 2]).  Without an output: the axes under \"...\" and the\n"
        "labels that stand once, by the alphabet.  More than two operands are multiplied in an order that is cheap.  RuntimeError: sizes that do not match, a label\n"
        "of the output that no operand has, more than 8 axes."},
    {"index_select", AS(function_index_select), FAST,
        "index_select(input, dim, index)\n"
        "--\n"
        "\n"
        "The elements at index, int32 or int64 with at most one axis, along dim : (..., R, ...), (K) -> (..., K, ...).\n"
        "IndexError: an index outside 0 ... R - 1.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"gather", AS(function_gather), FAST,
        "gather(input, dim, index)\n"
        "--\n"
        "\n"
        "out[i][j] = input[index[i][j]][j] for dim 0, and so on; index: int64, with input's axes.\n"
        "IndexError: an index outside of the axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"take_along_dim", AS(function_take_along_dim), FAST,
        "take_along_dim(input, indices, dim=None)\n"
        "--\n"
        "\n"
        "gather with the axes other than dim broadcast; an index is taken modulo the axis's size.  Without dim: of both as vectors, and an\n"
        "index out of range is an IndexError.  For what argmax and argsort give.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"take", AS(function_take), FAST,
        "take(input, index)\n"
        "--\n"
        "\n"
        "The elements at index of input as one vector, in index's shape; negative indices count from the end.\n"
        "IndexError: an index outside -n ... n - 1."},
    {"scatter", AS(function_scatter), FAST,
        "scatter(input, dim, index, src=None, *, value=None, reduce=None)\n"
        "--\n"
        "\n"
        "A copy of input with out[index[i][j]][j] = src[i][j] for dim 0, and so on; src or value may be one number for all.  Of what goes to\n"
        "one place the last stays, and the gradient is that of all, as in PyTorch.  With reduce \"add\" or \"multiply\" it is added or multiplied.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_add", AS(function_scatter_add), FAST,
        "scatter_add(input, dim, index, src)\n"
        "--\n"
        "\n"
        "A copy of input with out[index[i][j]][j] += src[i][j] for dim 0, and so on, in order: the same bits every time.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_reduce", AS(function_scatter_reduce), FAST,
        "scatter_reduce(input, dim, index, src, reduce, *, include_self=True)\n"
        "--\n"
        "\n"
        "A copy of input where out[index[i][j]][j], for dim 0, and so on, is the \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\" of itself, unless\n"
        "not include_self, and of each src[i][j] for it.  Equal extremes share the gradient; the mean of integers is floored.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_add", AS(function_index_add), FAST,
        "index_add(input, dim, index, source, *, alpha=1)\n"
        "--\n"
        "\n"
        "A copy of input with alpha source[..., k, ...] added at index[k] along dim, in order : (..., R, ...), (K), (..., K, ...).\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_copy", AS(function_index_copy), FAST,
        "index_copy(input, dim, index, source)\n"
        "--\n"
        "\n"
        "A copy of input with source[..., k, ...] at index[k] along dim, the last where two go to one place : (..., R, ...), (K), (..., K, ...).\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_fill", AS(function_index_fill), FAST,
        "index_fill(input, dim, index, value)\n"
        "--\n"
        "\n"
        "A copy of input with value, a number or a tensor without axes, at index along dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_put", AS(function_index_put), FAST,
        "index_put(input, indices, values, accumulate=False)\n"
        "--\n"
        "\n"
        "A copy of input with out[indices] = values, which are cast and broadcast; with accumulate they are added, in order."},
    {"masked_fill", AS(function_masked_fill), FAST,
        "masked_fill(input, mask, value)\n"
        "--\n"
        "\n"
        "value where the bool mask holds, else input; the mask broadcasts."},
    {"masked_select", AS(function_masked_select), FAST,
        "masked_select(input, mask)\n"
        "--\n"
        "\n"
        "The elements where the bool mask holds, in order; both broadcast : (K)."},
    {"masked_scatter", AS(function_masked_scatter), FAST,
        "masked_scatter(input, mask, source)\n"
        "--\n"
        "\n"
        "The k-th place where the bool mask holds gets the k-th element of source; elsewhere input; the mask broadcasts."},
    {"nonzero", AS(function_nonzero), FAST,
        "nonzero(input, *, as_tuple=False)\n"
        "--\n"
        "\n"
        "Where input is not 0, in order : int64 (K, ndim); with as_tuple a tensor (K) for each axis, as input[...] takes them."},
    {"argwhere", AS(function_argwhere), FAST,
        "argwhere(input)\n"
        "--\n"
        "\n"
        "Where input is not 0, in order : int64 (K, ndim)."},
    {"one_hot", AS(function_one_hot), FAST,
        "one_hot(tensor, num_classes=-1)\n"
        "--\n"
        "\n"
        "1 at the position that each element names, else 0 : (...) -> int64 (..., num_classes); -1: one more than the largest.\n"
        "IndexError: an element outside 0 ... num_classes - 1."},
    {"cat", AS(function_cat), FAST,
        "cat(tensors, dim=0)\n"
        "--\n"
        "\n"
        "Tensors one after the other along an axis they have."},
    {"stack", AS(function_stack), FAST,
        "stack(tensors, dim=0)\n"
        "--\n"
        "\n"
        "Tensors of one shape along a new axis."},
    {"hstack", AS(function_hstack), FAST,
        "hstack(tensors)\n"
        "--\n"
        "\n"
        "Tensors side by side: along axis 1, vectors and scalars along their only one."},
    {"vstack", AS(function_vstack), FAST,
        "vstack(tensors)\n"
        "--\n"
        "\n"
        "Tensors on top of each other: along axis 0, vectors and scalars as rows."},
    {"where", AS(function_where), FAST,
        "where(condition, input=None, other=None)\n"
        "--\n"
        "\n"
        "input where condition, else other; condition is bool.  where(condition) alone is nonzero(condition, as_tuple=True)."},
    {"_linear", AS(function__linear), FAST,
        "_linear(input, weight, bias=None)\n"
        "--\n"
        "\n"
        "input weight^T + bias : (..., C), (OC, C), (OC) -> (..., OC)"},
    {"_mlp", AS(function__mlp), FAST,
        "_mlp(input, weight1, weight2, bias1=None, bias2=None)\n"
        "--\n"
        "\n"
        "gelu(input weight1^T + bias1) weight2^T + bias2, gelu in its tanh form : (..., C), (N, C), (OC, N), (N), (OC) -> (..., OC)"},
    {"_layer_norm", AS(function__layer_norm), FAST,
        "_layer_norm(input, eps, weight=None, bias=None)\n"
        "--\n"
        "\n"
        "(x - mean) / sqrt(var + eps) * weight + bias over the last axis."},
    {"_rms_norm", AS(function__rms_norm), FAST,
        "_rms_norm(input, eps, weight=None)\n"
        "--\n"
        "\n"
        "x / sqrt(mean(x^2) + eps) * weight over the last axis."},
    {"_embedding", AS(function__embedding), FAST,
        "_embedding(weight, input)\n"
        "--\n"
        "\n"
        "weight[input] : (V, C), (...) -> (..., C)"},
    {"_cross_entropy", AS(function__cross_entropy), FAST,
        "_cross_entropy(input, target, ignore_index, label_smoothing, reduction)\n"
        "--\n"
        "\n"
        "-log softmax(input)[target] over the last axis : (..., V), (...) -> () or, for the reduction \"none\", (...)"},
    {"_dropout", AS(function__dropout), FAST,
        "_dropout(input, p, generator=None)\n"
        "--\n"
        "\n"
        "input times bernoulli(1 - p) / (1 - p)"},
    {"_attention", AS(function__attention), FAST,
        "_attention(query, key, value, causal, scale, mask=None)\n"
        "--\n"
        "\n"
        "softmax(scale q k^T + mask) v : (B, H, T, D), (B, H, S, D) x 2 -> (B, H, T, D); causal: query t sees the keys <= t + S - T"},
    {"_sum_squares", AS(function__sum_squares), FAST,
        "_sum_squares(input)\n"
        "--\n"
        "\n"
        "sum(x^2) : (...) -> (); float16 and bfloat16 in float32"},
    {"_total_norm", AS(function__total_norm), FAST,
        "_total_norm(tensors)\n"
        "--\n"
        "\n"
        "The 2-norm of all elements of float tensors as one vector."},
    {"_sample", AS(function__sample), FAST,
        "_sample(logits, temperature, top_p, top_k, generator=None)\n"
        "--\n"
        "\n"
        "One token drawn from softmax(logits / temperature), of the top_k likeliest (0: all) and of these the fewest that hold top_p of the mass; temperature 0: the\n"
        "likeliest : (V) -> an int"},
    {"_init_uniform", AS(function__init_uniform), FAST,
        "_init_uniform(input, low, high, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor from U(low, high)."},
    {"_init_normal", AS(function__init_normal), FAST,
        "_init_normal(input, mean, std, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor from N(mean, std^2)."},
    {"_init_trunc_normal", AS(function__init_trunc_normal), FAST,
        "_init_trunc_normal(input, mean, std, low, high, generator=None)\n"
        "--\n"
        "\n"
        "The same within [low, high]."},
    {"_init_orthogonal", AS(function__init_orthogonal), FAST,
        "_init_orthogonal(input, gain, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with a random (semi-)orthogonal matrix times gain."},
    {"_zeros_offloaded", AS(function__zeros_offloaded), FAST,
        "_zeros_offloaded(input, dtype)\n"
        "--\n"
        "\n"
        "Zeros of its shape, for its device, in the host's memory."},
    {"_update", AS(function__update), FAST,
        "_update(name, outputs, inputs, numbers)\n"
        "--\n"
        "\n"
        "An update of docs/ops.md over many sets of tensors at once, written in place and not recorded: for each set its results and its inputs, in order."},
    {"_alias", AS(function__alias), FAST,
        "_alias(input, type, requires_grad)\n"
        "--\n"
        "\n"
        "A leaf over the same memory, as an instance of a subclass of Tensor."},
    {"_tokenizer_bytes", AS(function__tokenizer_bytes), FAST,
        "_tokenizer_bytes()\n"
        "--\n"
        "\n"
        "One token for each byte."},
    {"_tokenizer_chars", AS(function__tokenizer_chars), FAST,
        "_tokenizer_chars(text)\n"
        "--\n"
        "\n"
        "One token for each code point of a text, str or its UTF-8 as bytes."},
    {"_tokenizer_load", AS(function__tokenizer_load), FAST,
        "_tokenizer_load(path)\n"
        "--\n"
        "\n"
        "The tokenizer in a JSON file."},
    {"_tokenizer_save", AS(function__tokenizer_save), FAST,
        "_tokenizer_save(tokenizer, path)\n"
        "--\n"
        "\n"
        "Writes that file."},
    {"_tokenizer_size", AS(function__tokenizer_size), FAST,
        "_tokenizer_size(tokenizer)\n"
        "--\n"
        "\n"
        "How many tokens it has."},
    {"_tokenizer_encode", AS(function__tokenizer_encode), FAST,
        "_tokenizer_encode(tokenizer, text)\n"
        "--\n"
        "\n"
        "A text, str or bytes, as int64 (T)."},
    {"_tokenizer_decode", AS(function__tokenizer_decode), FAST,
        "_tokenizer_decode(tokenizer, tokens)\n"
        "--\n"
        "\n"
        "The bytes of integer tokens, (T)."},
    {"_tokens_open", AS(function__tokens_open), FAST,
        "_tokens_open(path)\n"
        "--\n"
        "\n"
        "A token file, memory-mapped."},
    {"_tokens_save", AS(function__tokens_save), FAST,
        "_tokens_save(path, tokens, vocabulary)\n"
        "--\n"
        "\n"
        "Writes integer tokens as such a file."},
    {"_tokens_slice", AS(function__tokens_slice), FAST,
        "_tokens_slice(tokens, start, stop)\n"
        "--\n"
        "\n"
        "A part of it, over the same memory."},
    {"_tokens_info", AS(function__tokens_info), FAST,
        "_tokens_info(tokens)\n"
        "--\n"
        "\n"
        "How many tokens, of how many kinds."},
    {"_loader_new", AS(function__loader_new), FAST,
        "_loader_new(tokens, batch, context, seed, shuffle, device=None)\n"
        "--\n"
        "\n"
        "Batches of windows."},
    {"_loader_next", AS(function__loader_next), FAST,
        "_loader_next(loader)\n"
        "--\n"
        "\n"
        "The next batch : (B, T) and the same one token later."},
    {"_loader_place", AS(function__loader_place), FAST,
        "_loader_place(loader)\n"
        "--\n"
        "\n"
        "Batches given so far, batches in an epoch."},
    {"_loader_seek", AS(function__loader_seek), FAST,
        "_loader_seek(loader, cursor)\n"
        "--\n"
        "\n"
        "Goes on as if cursor batches had been given."},
    {"_gradients", AS(function__gradients), FAST,
        "_gradients(outputs, inputs, grad_outputs, retain_graph, create_graph)\n"
        "--\n"
        "\n"
        "The gradients of outputs with respect to inputs: a tuple, None where there is none."},
    {"_record", AS(function__record), FAST,
        "_record(name, inputs, outputs, saved, backward)\n"
        "--\n"
        "\n"
        "Outputs as results of a function with the gradient backward(grads, needs, saved)."},
    {"_gradcheck", AS(function__gradcheck), FAST,
        "_gradcheck(function, inputs, eps, atol, rtol, second)\n"
        "--\n"
        "\n"
        "cr_gradcheck, or cr_gradgradcheck, of function(*inputs)."},
    {"is_grad_enabled", AS(function_is_grad_enabled), FAST,
        "is_grad_enabled()\n"
        "--\n"
        "\n"
        "Are operations of this thread recorded?"},
    {"_set_grad_enabled", AS(function__set_grad_enabled), FAST,
        "_set_grad_enabled(mode)\n"
        "--\n"
        "\n"
        "Sets that for this thread; returns the old setting."},
    {"_set_anomaly", AS(function__set_anomaly), FAST,
        "_set_anomaly(mode)\n"
        "--\n"
        "\n"
        "Anomaly mode of this thread; returns the old setting."},
    {"get_num_threads", AS(function_get_num_threads), FAST,
        "get_num_threads()\n"
        "--\n"
        "\n"
        "How many threads work on one operation."},
    {"set_num_threads", AS(function_set_num_threads), FAST,
        "set_num_threads(num)\n"
        "--\n"
        "\n"
        "Sets that; results have the same bits for any number."},
    {"set_float32_matmul_precision", AS(function_set_float32_matmul_precision), FAST,
        "set_float32_matmul_precision(precision)\n"
        "--\n"
        "\n"
        "What float32 products of this thread, forward and backward, take of their operands, to add up in float32: \"highest\", all bits; \"high\", on NVIDIA GPUs that have it, TF32's\n"
        "10 bits of the fraction; \"medium\", those of bfloat16, to which they are rounded."},
    {"get_float32_matmul_precision", AS(function_get_float32_matmul_precision), FAST,
        "get_float32_matmul_precision()\n"
        "--\n"
        "\n"
        "\"highest\", \"high\" or \"medium\" "},
    {"set_default_device", AS(function_set_default_device), FAST,
        "set_default_device(device)\n"
        "--\n"
        "\n"
        "Where tensors are made when no device is named.  \"auto\": CUDA's first GPU, else another GPU of hardware, else the cpu."},
    {"_set_auto_transfer", AS(function__set_auto_transfer), FAST,
        "_set_auto_transfer(mode)\n"
        "--\n"
        "\n"
        "Do operands on several devices move?  Of this thread; returns the old setting."},
    {"get_default_device", AS(function_get_default_device), FAST,
        "get_default_device()\n"
        "--\n"
        "\n"
        "Where tensors are made when no device is named: cpu, or what CHAINRULE_DEVICE says."},
    {"synchronize", AS(function_synchronize), FAST,
        "synchronize(device=None)\n"
        "--\n"
        "\n"
        "Waits until a device has done all its work; an error that a kernel found is raised here."},
    {"memory_stats", AS(function_memory_stats), FAST,
        "memory_stats(device=None)\n"
        "--\n"
        "\n"
        "Bytes in use on a device, the most that ever were, and bytes kept for reuse."},
    {"empty_cache", AS(function_empty_cache), FAST,
        "empty_cache(device=None)\n"
        "--\n"
        "\n"
        "Gives memory that a device keeps for reuse back to the system."},
    {"_devices", AS(function__devices), FAST,
        "_devices()\n"
        "--\n"
        "\n"
        "The names of the devices of this process."},
    {"_switches", AS(function__switches), FAST,
        "_switches()\n"
        "--\n"
        "\n"
        "Name, meaning and value of every run-time switch."},
    {"_switch_set", AS(function__switch_set), FAST,
        "_switch_set(name, value=None)\n"
        "--\n"
        "\n"
        "Sets a run-time switch; None: back to the environment's value."},
    {"_profile_begin", AS(function__profile_begin), FAST,
        "_profile_begin()\n"
        "--\n"
        "\n"
        "Starts to note every op."},
    {"_profile_end", AS(function__profile_end), FAST,
        "_profile_end(path)\n"
        "--\n"
        "\n"
        "Writes what was noted."},
    {"mul", AS(function_mul), FAST,
        "mul(input, other)\n"
        "--\n"
        "\n"
        "a * b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"floor_divide", AS(function_floor_divide), FAST,
        "floor_divide(input, other)\n"
        "--\n"
        "\n"
        "floor(a / b); integers: an error where b is 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"remainder", AS(function_remainder), FAST,
        "remainder(input, other)\n"
        "--\n"
        "\n"
        "a - b floor(a / b): b's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmod", AS(function_fmod), FAST,
        "fmod(input, other)\n"
        "--\n"
        "\n"
        "a - b trunc(a / b): a's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"maximum", AS(function_maximum), FAST,
        "maximum(input, other)\n"
        "--\n"
        "\n"
        "the larger; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"minimum", AS(function_minimum), FAST,
        "minimum(input, other)\n"
        "--\n"
        "\n"
        "the smaller; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmax", AS(function_fmax), FAST,
        "fmax(input, other)\n"
        "--\n"
        "\n"
        "the larger; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmin", AS(function_fmin), FAST,
        "fmin(input, other)\n"
        "--\n"
        "\n"
        "the smaller; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"clamp_min", AS(function_clamp_min), FAST,
        "clamp_min(input, min)\n"
        "--\n"
        "\n"
        "max(x, low); at the bound the gradient is x's.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"clamp_max", AS(function_clamp_max), FAST,
        "clamp_max(input, max)\n"
        "--\n"
        "\n"
        "min(x, high); at the bound the gradient is x's.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"neg", AS(function_neg), FAST,
        "neg(input)\n"
        "--\n"
        "\n"
        "-x."},
    {"abs", AS(function_abs), FAST,
        "abs(input)\n"
        "--\n"
        "\n"
        "|x|; gradient 0 at 0."},
    {"sign", AS(function_sign), FAST,
        "sign(input)\n"
        "--\n"
        "\n"
        "-1, 0 or 1."},
    {"copysign", AS(function_copysign), FAST,
        "copysign(input, other)\n"
        "--\n"
        "\n"
        "|a| with the sign of b; gradient 0 at 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"square", AS(function_square), FAST,
        "square(input)\n"
        "--\n"
        "\n"
        "x^2."},
    {"hypot", AS(function_hypot), FAST,
        "hypot(input, other)\n"
        "--\n"
        "\n"
        "sqrt(a^2 + b^2), no overflow.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"reciprocal", AS(function_reciprocal), FAST,
        "reciprocal(input)\n"
        "--\n"
        "\n"
        "1 / x."},
    {"sqrt", AS(function_sqrt), FAST,
        "sqrt(input)\n"
        "--\n"
        "\n"
        "square root."},
    {"rsqrt", AS(function_rsqrt), FAST,
        "rsqrt(input)\n"
        "--\n"
        "\n"
        "1 / sqrt(x)."},
    {"lerp", AS(function_lerp), FAST,
        "lerp(input, end, weight)\n"
        "--\n"
        "\n"
        "a + w (b - a).  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"addcmul", AS(function_addcmul), FAST,
        "addcmul(input, tensor1, tensor2, *, value=1.0)\n"
        "--\n"
        "\n"
        "x + value a b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"addcdiv", AS(function_addcdiv), FAST,
        "addcdiv(input, tensor1, tensor2, *, value=1.0)\n"
        "--\n"
        "\n"
        "x + value a / b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"exp", AS(function_exp), FAST,
        "exp(input)\n"
        "--\n"
        "\n"
        "e^x."},
    {"exp2", AS(function_exp2), FAST,
        "exp2(input)\n"
        "--\n"
        "\n"
        "2^x."},
    {"expm1", AS(function_expm1), FAST,
        "expm1(input)\n"
        "--\n"
        "\n"
        "e^x - 1, exact near 0."},
    {"log", AS(function_log), FAST,
        "log(input)\n"
        "--\n"
        "\n"
        "natural logarithm."},
    {"log2", AS(function_log2), FAST,
        "log2(input)\n"
        "--\n"
        "\n"
        "logarithm to the base 2."},
    {"log10", AS(function_log10), FAST,
        "log10(input)\n"
        "--\n"
        "\n"
        "logarithm to the base 10."},
    {"logaddexp", AS(function_logaddexp), FAST,
        "logaddexp(input, other)\n"
        "--\n"
        "\n"
        "log(e^a + e^b), no overflow.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logaddexp2", AS(function_logaddexp2), FAST,
        "logaddexp2(input, other)\n"
        "--\n"
        "\n"
        "log2(2^a + 2^b), no overflow.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"xlogy", AS(function_xlogy), FAST,
        "xlogy(input, other)\n"
        "--\n"
        "\n"
        "a log(b); 0 where a is 0 and b is a number.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"log1p", AS(function_log1p), FAST,
        "log1p(input)\n"
        "--\n"
        "\n"
        "log(1 + x), exact near 0."},
    {"sin", AS(function_sin), FAST,
        "sin(input)\n"
        "--\n"
        "\n"
        "sine."},
    {"cos", AS(function_cos), FAST,
        "cos(input)\n"
        "--\n"
        "\n"
        "cosine."},
    {"tan", AS(function_tan), FAST,
        "tan(input)\n"
        "--\n"
        "\n"
        "tangent."},
    {"asin", AS(function_asin), FAST,
        "asin(input)\n"
        "--\n"
        "\n"
        "inverse sine."},
    {"acos", AS(function_acos), FAST,
        "acos(input)\n"
        "--\n"
        "\n"
        "inverse cosine."},
    {"atan", AS(function_atan), FAST,
        "atan(input)\n"
        "--\n"
        "\n"
        "inverse tangent."},
    {"atan2", AS(function_atan2), FAST,
        "atan2(input, other)\n"
        "--\n"
        "\n"
        "angle of the point (b, a); gradient 0 at (0, 0).  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"sinh", AS(function_sinh), FAST,
        "sinh(input)\n"
        "--\n"
        "\n"
        "hyperbolic sine."},
    {"cosh", AS(function_cosh), FAST,
        "cosh(input)\n"
        "--\n"
        "\n"
        "hyperbolic cosine."},
    {"tanh", AS(function_tanh), FAST,
        "tanh(input)\n"
        "--\n"
        "\n"
        "hyperbolic tangent."},
    {"asinh", AS(function_asinh), FAST,
        "asinh(input)\n"
        "--\n"
        "\n"
        "inverse hyperbolic sine."},
    {"acosh", AS(function_acosh), FAST,
        "acosh(input)\n"
        "--\n"
        "\n"
        "inverse hyperbolic cosine."},
    {"atanh", AS(function_atanh), FAST,
        "atanh(input)\n"
        "--\n"
        "\n"
        "inverse hyperbolic tangent."},
    {"deg2rad", AS(function_deg2rad), FAST,
        "deg2rad(input)\n"
        "--\n"
        "\n"
        "degrees as radians."},
    {"rad2deg", AS(function_rad2deg), FAST,
        "rad2deg(input)\n"
        "--\n"
        "\n"
        "radians as degrees."},
    {"sinc", AS(function_sinc), FAST,
        "sinc(input)\n"
        "--\n"
        "\n"
        "sin(pi x) / (pi x); 1 at 0."},
    {"erf", AS(function_erf), FAST,
        "erf(input)\n"
        "--\n"
        "\n"
        "error function."},
    {"erfc", AS(function_erfc), FAST,
        "erfc(input)\n"
        "--\n"
        "\n"
        "1 - erf(x), exact where that is small."},
    {"sigmoid", AS(function_sigmoid), FAST,
        "sigmoid(input)\n"
        "--\n"
        "\n"
        "1 / (1 + e^-x)."},
    {"relu", AS(function_relu), FAST,
        "relu(input)\n"
        "--\n"
        "\n"
        "max(x, 0); gradient 0 at 0."},
    {"leaky_relu", AS(function_leaky_relu), FAST,
        "leaky_relu(input, negative_slope=0.01)\n"
        "--\n"
        "\n"
        "x where x > 0, else slope x."},
    {"elu", AS(function_elu), FAST,
        "elu(input, alpha=1.0)\n"
        "--\n"
        "\n"
        "x where x > 0, else alpha (e^x - 1)."},
    {"selu", AS(function_selu), FAST,
        "selu(input)\n"
        "--\n"
        "\n"
        "1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al. 2017)."},
    {"celu", AS(function_celu), FAST,
        "celu(input, alpha=1.0)\n"
        "--\n"
        "\n"
        "x where x > 0, else alpha (e^(x / alpha) - 1)."},
    {"silu", AS(function_silu), FAST,
        "silu(input)\n"
        "--\n"
        "\n"
        "x sigmoid(x)."},
    {"mish", AS(function_mish), FAST,
        "mish(input)\n"
        "--\n"
        "\n"
        "x tanh(softplus(x))."},
    {"softplus", AS(function_softplus), FAST,
        "softplus(input, beta=1.0, threshold=20.0)\n"
        "--\n"
        "\n"
        "log(1 + e^(beta x)) / beta; x where beta x > threshold."},
    {"softsign", AS(function_softsign), FAST,
        "softsign(input)\n"
        "--\n"
        "\n"
        "x / (1 + |x|)."},
    {"hardtanh", AS(function_hardtanh), FAST,
        "hardtanh(input, min_val=-1.0, max_val=1.0)\n"
        "--\n"
        "\n"
        "min(max(x, min), max); gradient 0 at the bounds."},
    {"hardsigmoid", AS(function_hardsigmoid), FAST,
        "hardsigmoid(input)\n"
        "--\n"
        "\n"
        "min(max(x + 3, 0), 6) / 6."},
    {"hardswish", AS(function_hardswish), FAST,
        "hardswish(input)\n"
        "--\n"
        "\n"
        "x hardsigmoid(x)."},
    {"relu6", AS(function_relu6), FAST,
        "relu6(input)\n"
        "--\n"
        "\n"
        "min(max(x, 0), 6)."},
    {"logsigmoid", AS(function_logsigmoid), FAST,
        "logsigmoid(input)\n"
        "--\n"
        "\n"
        "log(sigmoid(x))."},
    {"floor", AS(function_floor), FAST,
        "floor(input)\n"
        "--\n"
        "\n"
        "next integer below."},
    {"ceil", AS(function_ceil), FAST,
        "ceil(input)\n"
        "--\n"
        "\n"
        "next integer above."},
    {"trunc", AS(function_trunc), FAST,
        "trunc(input)\n"
        "--\n"
        "\n"
        "next integer towards 0."},
    {"frac", AS(function_frac), FAST,
        "frac(input)\n"
        "--\n"
        "\n"
        "x - trunc(x)."},
    {"isnan", AS(function_isnan), FAST,
        "isnan(input)\n"
        "--\n"
        "\n"
        "is x NaN?."},
    {"isinf", AS(function_isinf), FAST,
        "isinf(input)\n"
        "--\n"
        "\n"
        "is x an infinity?."},
    {"isposinf", AS(function_isposinf), FAST,
        "isposinf(input)\n"
        "--\n"
        "\n"
        "is x +infinity?."},
    {"isneginf", AS(function_isneginf), FAST,
        "isneginf(input)\n"
        "--\n"
        "\n"
        "is x -infinity?."},
    {"isfinite", AS(function_isfinite), FAST,
        "isfinite(input)\n"
        "--\n"
        "\n"
        "is x neither NaN nor an infinity?."},
    {"signbit", AS(function_signbit), FAST,
        "signbit(input)\n"
        "--\n"
        "\n"
        "is x negative, or -0?."},
    {"eq", AS(function_eq), FAST,
        "eq(input, other)\n"
        "--\n"
        "\n"
        "a == b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"ne", AS(function_ne), FAST,
        "ne(input, other)\n"
        "--\n"
        "\n"
        "a != b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"lt", AS(function_lt), FAST,
        "lt(input, other)\n"
        "--\n"
        "\n"
        "a < b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"le", AS(function_le), FAST,
        "le(input, other)\n"
        "--\n"
        "\n"
        "a <= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"gt", AS(function_gt), FAST,
        "gt(input, other)\n"
        "--\n"
        "\n"
        "a > b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"ge", AS(function_ge), FAST,
        "ge(input, other)\n"
        "--\n"
        "\n"
        "a >= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_and", AS(function_logical_and), FAST,
        "logical_and(input, other)\n"
        "--\n"
        "\n"
        "a and b, true where not 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_or", AS(function_logical_or), FAST,
        "logical_or(input, other)\n"
        "--\n"
        "\n"
        "a or b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_xor", AS(function_logical_xor), FAST,
        "logical_xor(input, other)\n"
        "--\n"
        "\n"
        "either a or b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_not", AS(function_logical_not), FAST,
        "logical_not(input)\n"
        "--\n"
        "\n"
        "not x."},
    {"bitwise_and", AS(function_bitwise_and), FAST,
        "bitwise_and(input, other)\n"
        "--\n"
        "\n"
        "a & b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_or", AS(function_bitwise_or), FAST,
        "bitwise_or(input, other)\n"
        "--\n"
        "\n"
        "a | b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_xor", AS(function_bitwise_xor), FAST,
        "bitwise_xor(input, other)\n"
        "--\n"
        "\n"
        "a ^ b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_not", AS(function_bitwise_not), FAST,
        "bitwise_not(input)\n"
        "--\n"
        "\n"
        "~x; bool: not x."},
    {"bitwise_left_shift", AS(function_bitwise_left_shift), FAST,
        "bitwise_left_shift(input, other)\n"
        "--\n"
        "\n"
        "a << b; 0 where b < 0 or b >= the width.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_right_shift", AS(function_bitwise_right_shift), FAST,
        "bitwise_right_shift(input, other)\n"
        "--\n"
        "\n"
        "a >> b, keeps the sign.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"absolute", AS(function_abs), FAST,
        "absolute(input)\n"
        "--\n"
        "\n"
        "The same as abs.  |x|; gradient 0 at 0."},
    {"negative", AS(function_neg), FAST,
        "negative(input)\n"
        "--\n"
        "\n"
        "The same as neg.  -x."},
    {"multiply", AS(function_mul), FAST,
        "multiply(input, other)\n"
        "--\n"
        "\n"
        "The same as mul.  a * b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"subtract", AS(function_sub), FAST,
        "subtract(input, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "The same as sub.  input - alpha other"},
    {"divide", AS(function_div), FAST,
        "divide(input, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "The same as div.  input / other; rounding_mode \"trunc\" rounds the result towards 0, \"floor\" down."},
    {"true_divide", AS(function_div), FAST,
        "true_divide(input, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "The same as div.  input / other; rounding_mode \"trunc\" rounds the result towards 0, \"floor\" down."},
    {"greater", AS(function_gt), FAST,
        "greater(input, other)\n"
        "--\n"
        "\n"
        "The same as gt.  a > b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"greater_equal", AS(function_ge), FAST,
        "greater_equal(input, other)\n"
        "--\n"
        "\n"
        "The same as ge.  a >= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"less", AS(function_lt), FAST,
        "less(input, other)\n"
        "--\n"
        "\n"
        "The same as lt.  a < b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"less_equal", AS(function_le), FAST,
        "less_equal(input, other)\n"
        "--\n"
        "\n"
        "The same as le.  a <= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"not_equal", AS(function_ne), FAST,
        "not_equal(input, other)\n"
        "--\n"
        "\n"
        "The same as ne.  a != b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fix", AS(function_trunc), FAST,
        "fix(input)\n"
        "--\n"
        "\n"
        "The same as trunc.  next integer towards 0."},
    {"clip", AS(function_clamp), FAST,
        "clip(input, min=None, max=None)\n"
        "--\n"
        "\n"
        "The same as clamp.  Values below min become min, values above max become max; at least one of them is given."},
    {"concat", AS(function_cat), FAST,
        "concat(tensors, dim=0)\n"
        "--\n"
        "\n"
        "The same as cat.  Tensors one after the other along an axis they have."},
    {"concatenate", AS(function_cat), FAST,
        "concatenate(tensors, dim=0)\n"
        "--\n"
        "\n"
        "The same as cat.  Tensors one after the other along an axis they have."},
    {"swapaxes", AS(function_transpose), FAST,
        "swapaxes(input, dim0, dim1)\n"
        "--\n"
        "\n"
        "The same as transpose.  A view with two axes swapped.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"swapdims", AS(function_transpose), FAST,
        "swapdims(input, dim0, dim1)\n"
        "--\n"
        "\n"
        "The same as transpose.  A view with two axes swapped.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"moveaxis", AS(function_movedim), FAST,
        "moveaxis(input, source, destination)\n"
        "--\n"
        "\n"
        "The same as movedim.  A view with the axes source moved to destination; the others keep their order."},
    {"arccos", AS(function_acos), FAST,
        "arccos(input)\n"
        "--\n"
        "\n"
        "The same as acos.  inverse cosine."},
    {"arccosh", AS(function_acosh), FAST,
        "arccosh(input)\n"
        "--\n"
        "\n"
        "The same as acosh.  inverse hyperbolic cosine."},
    {"ger", AS(function_outer), FAST,
        "ger(input, vec2)\n"
        "--\n"
        "\n"
        "The same as outer.  (M) (N) -> (M, N): all products"},
    {"arcsin", AS(function_asin), FAST,
        "arcsin(input)\n"
        "--\n"
        "\n"
        "The same as asin.  inverse sine."},
    {"arcsinh", AS(function_asinh), FAST,
        "arcsinh(input)\n"
        "--\n"
        "\n"
        "The same as asinh.  inverse hyperbolic sine."},
    {"arctan", AS(function_atan), FAST,
        "arctan(input)\n"
        "--\n"
        "\n"
        "The same as atan.  inverse tangent."},
    {"arctan2", AS(function_atan2), FAST,
        "arctan2(input, other)\n"
        "--\n"
        "\n"
        "The same as atan2.  angle of the point (b, a); gradient 0 at (0, 0).  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"arctanh", AS(function_atanh), FAST,
        "arctanh(input)\n"
        "--\n"
        "\n"
        "The same as atanh.  inverse hyperbolic tangent."},
    {0}
};

PyMethodDef api_methods[] = {
    {"multinomial", AS(method_multinomial), FAST,
        "multinomial($self, /, num_samples, replacement=False, *, generator=None)\n"
        "--\n"
        "\n"
        "Positions drawn by their weights : (N) or (M, N) -> (num_samples) or (M, num_samples), int64.  Weights need not sum to 1.\n"
        "Without replacement no position comes twice, in the order drawn.  RuntimeError: a weight that is negative or not finite, too few above 0."},
    {"bernoulli", AS(method_bernoulli), FAST,
        "bernoulli($self, /, p=None, *, generator=None)\n"
        "--\n"
        "\n"
        "1 with the chance that input says, or p for all, else 0; its shape and dtype.  RuntimeError: a chance outside of [0, 1]."},
    {"uniform_", AS(method_uniform_), FAST,
        "uniform_($self, /, from_=0.0, to=1.0, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with uniform numbers in [from, to)."},
    {"normal_", AS(method_normal_), FAST,
        "normal_($self, /, mean=0.0, std=1.0, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with normal numbers."},
    {"log_normal_", AS(method_log_normal_), FAST,
        "log_normal_($self, /, mean=1.0, std=2.0, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with e to normal numbers."},
    {"exponential_", AS(method_exponential_), FAST,
        "exponential_($self, /, lambd=1.0, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with numbers of density lambd exp(-lambd y), y > 0."},
    {"cauchy_", AS(method_cauchy_), FAST,
        "cauchy_($self, /, median=0.0, sigma=1.0, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with numbers of density sigma / (pi ((y - median)^2 + sigma^2))."},
    {"geometric_", AS(method_geometric_), FAST,
        "geometric_($self, /, p, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with numbers of trials up to the first success: k with chance (1 - p)^(k - 1) p, k = 1, 2 ..."},
    {"bernoulli_", AS(method_bernoulli_), FAST,
        "bernoulli_($self, /, p=None, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with 1 with chance p, which broadcasts (0.5 when absent), else 0."},
    {"random_", AS(method_random_), FAST,
        "random_($self, /, from_=None, to=None, *, generator=None)\n"
        "--\n"
        "\n"
        "Fills the tensor with integers in [from, to), or [0, to) when called as random_(to); without both from 0 to the largest of the dtype,\n"
        "of floats the largest below which every integer is exact."},
    {"new_zeros", AS(method_new_zeros), FAST,
        "new_zeros($self, /, *size, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Zeros of the given shape, in the dtype and on the device of this tensor."},
    {"new_ones", AS(method_new_ones), FAST,
        "new_ones($self, /, *size, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Ones of the given shape, in the dtype and on the device of this tensor."},
    {"new_empty", AS(method_new_empty), FAST,
        "new_empty($self, /, *size, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "Memory of the given shape, not written, in the dtype and on the device of this tensor."},
    {"new_full", AS(method_new_full), FAST,
        "new_full($self, /, size, fill_value, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "One value in the given shape, in the dtype and on the device of this tensor."},
    {"new_tensor", AS(method_new_tensor), FAST,
        "new_tensor($self, /, data, *, dtype=None, device=None, requires_grad=False)\n"
        "--\n"
        "\n"
        "tensor(data) in the dtype and on the device of this tensor."},
    {"numel", AS(method_numel), FAST,
        "numel($self, /)\n"
        "--\n"
        "\n"
        "The number of elements."},
    {"is_floating_point", AS(method_is_floating_point), FAST,
        "is_floating_point($self, /)\n"
        "--\n"
        "\n"
        "Is the dtype float16, bfloat16, float32 or float64?"},
    {"dim", AS(method_dim), FAST,
        "dim($self, /)\n"
        "--\n"
        "\n"
        "The number of axes."},
    {"size", AS(method_size), FAST,
        "size($self, /, dim=None)\n"
        "--\n"
        "\n"
        "The shape, or the size along one axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"stride", AS(method_stride), FAST,
        "stride($self, /, dim=None)\n"
        "--\n"
        "\n"
        "Elements between neighbours: along each axis, or along one.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"storage_offset", AS(method_storage_offset), FAST,
        "storage_offset($self, /)\n"
        "--\n"
        "\n"
        "Elements of its storage before its first one."},
    {"is_contiguous", AS(method_is_contiguous), FAST,
        "is_contiguous($self, /)\n"
        "--\n"
        "\n"
        "Do the elements lie in order without gaps?"},
    {"element_size", AS(method_element_size), FAST,
        "element_size($self, /)\n"
        "--\n"
        "\n"
        "Bytes of one element."},
    {"data_ptr", AS(method_data_ptr), FAST,
        "data_ptr($self, /)\n"
        "--\n"
        "\n"
        "Address of the first element; 0 where the host cannot read it."},
    {"item", AS(method_item), FAST,
        "item($self, /)\n"
        "--\n"
        "\n"
        "The one element as a Python number; RuntimeError when there are more."},
    {"__complex__", AS(method___complex__), FAST,
        "__complex__($self, /)\n"
        "--\n"
        "\n"
        "The one element as a complex number, as the array API standard wants; RuntimeError when there are more."},
    {"tolist", AS(method_tolist), FAST,
        "tolist($self, /)\n"
        "--\n"
        "\n"
        "The elements as nested lists of Python numbers, or as one number for a scalar."},
    {"numpy", AS(method_numpy), FAST,
        "numpy($self, /, *, force=False)\n"
        "--\n"
        "\n"
        "A NumPy array over the tensor's memory.  force: detached and brought to the processor first, so perhaps a copy.\n"
        "RuntimeError: the tensor requires grad (use detach); one made by Tensor(data) gives a read-only array instead.\n"
        "TypeError: NumPy has no bfloat16; the tensor is on another device (use cpu)."},
    {"__array__", AS(method___array__), FAST,
        "__array__($self, /, dtype=None, copy=None)\n"
        "--\n"
        "\n"
        "numpy() for NumPy's own functions; dtype and copy as in numpy.array."},
    {"__dlpack__", AS(method___dlpack__), FAST,
        "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n"
        "--\n"
        "\n"
        "A DLPack capsule over the tensor's memory, or over a copy, as where strides are negative: version 1 where max_version allows, else the form before it.\n"
        "BufferError: the tensor requires grad, is asked for on another device, or copy is False and one is needed."},
    {"__dlpack_device__", AS(method___dlpack_device__), FAST,
        "__dlpack_device__($self, /)\n"
        "--\n"
        "\n"
        "Device type and number as DLPack counts them: (1, 0) is the processor."},
    {"__array_namespace__", AS(method___array_namespace__), FAST,
        "__array_namespace__($self, /, *, api_version=None)\n"
        "--\n"
        "\n"
        "The module of the array API standard, chainrule.array_api.  ValueError: a version of the standard that it does not have."},
    {"__reduce_ex__", AS(method___reduce_ex__), FAST,
        "__reduce_ex__($self, /, protocol)\n"
        "--\n"
        "\n"
        "For pickle: dtype, shape, device, requires_grad and the bytes; no gradient and no graph, as in PyTorch."},
    {"__copy__", AS(method___copy__), FAST,
        "__copy__($self, /)\n"
        "--\n"
        "\n"
        "Another tensor over the same memory; a leaf."},
    {"__deepcopy__", AS(method___deepcopy__), FAST,
        "__deepcopy__($self, /, memo)\n"
        "--\n"
        "\n"
        "A copy with its own memory, requires_grad and a copy of .grad.  RuntimeError: an op made the tensor (use detach or clone)."},
    {"__format__", AS(method___format__), FAST,
        "__format__($self, /, format_spec)\n"
        "--\n"
        "\n"
        "A tensor without axes as its number is formatted; others by repr, without a specification."},
    {"to", AS(method_to), FAST,
        "to($self, /, *target, dtype=None, device=None, copy=False, non_blocking=False)\n"
        "--\n"
        "\n"
        "to(dtype), to(device), to(device, dtype) or to(other): the values in another dtype or on another device; the tensor itself when nothing changes."},
    {"cpu", AS(method_cpu), FAST,
        "cpu($self, /)\n"
        "--\n"
        "\n"
        "The tensor on the processor."},
    {"cuda", AS(method_cuda), FAST,
        "cuda($self, /, device=None)\n"
        "--\n"
        "\n"
        "The tensor on a CUDA device; RuntimeError where there is none."},
    {"gpu", AS(method_gpu), FAST,
        "gpu($self, /, device=None)\n"
        "--\n"
        "\n"
        "The tensor on the best GPU there is; RuntimeError where there is none."},
    {"to_device", AS(method_to_device), FAST,
        "to_device($self, /, device, *, stream=None)\n"
        "--\n"
        "\n"
        "to(device) as the array API standard calls it; no device has streams to choose from."},
    {"type_as", AS(method_type_as), FAST,
        "type_as($self, /, other)\n"
        "--\n"
        "\n"
        "The values in the dtype of other; the tensor itself when that is its own."},
    {"float", AS(method_float), FAST,
        "float($self, /)\n"
        "--\n"
        "\n"
        "The values as float32."},
    {"double", AS(method_double), FAST,
        "double($self, /)\n"
        "--\n"
        "\n"
        "The values as float64."},
    {"half", AS(method_half), FAST,
        "half($self, /)\n"
        "--\n"
        "\n"
        "The values as float16."},
    {"bfloat16", AS(method_bfloat16), FAST,
        "bfloat16($self, /)\n"
        "--\n"
        "\n"
        "The values as bfloat16."},
    {"int", AS(method_int), FAST,
        "int($self, /)\n"
        "--\n"
        "\n"
        "The values as int32."},
    {"long", AS(method_long), FAST,
        "long($self, /)\n"
        "--\n"
        "\n"
        "The values as int64."},
    {"short", AS(method_short), FAST,
        "short($self, /)\n"
        "--\n"
        "\n"
        "The values as int16."},
    {"bool", AS(method_bool), FAST,
        "bool($self, /)\n"
        "--\n"
        "\n"
        "The values as bool: is it not 0?."},
    {"contiguous", AS(method_contiguous), FAST,
        "contiguous($self, /)\n"
        "--\n"
        "\n"
        "The same values, in order and without gaps; no copy where that holds already."},
    {"clone", AS(method_clone), FAST,
        "clone($self, /)\n"
        "--\n"
        "\n"
        "A copy in new memory; gradients flow through."},
    {"detach", AS(method_detach), FAST,
        "detach($self, /)\n"
        "--\n"
        "\n"
        "The same storage, outside the graph."},
    {"reshape", AS(method_reshape), FAST,
        "reshape($self, /, *shape)\n"
        "--\n"
        "\n"
        "The same elements in the same order in another shape; one size may be -1.  A view where possible."},
    {"view", AS(method_view), FAST,
        "view($self, /, *shape)\n"
        "--\n"
        "\n"
        "A view in another shape, an error where a copy would be needed; one size may be -1."},
    {"transpose", AS(method_transpose), FAST,
        "transpose($self, /, dim0, dim1)\n"
        "--\n"
        "\n"
        "A view with two axes swapped.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"t", AS(method_t), FAST,
        "t($self, /)\n"
        "--\n"
        "\n"
        "A matrix transposed; tensors of fewer axes as they are."},
    {"permute", AS(method_permute), FAST,
        "permute($self, /, *dims)\n"
        "--\n"
        "\n"
        "A view with the axes in the order given."},
    {"flatten", AS(method_flatten), FAST,
        "flatten($self, /, start_dim=0, end_dim=-1)\n"
        "--\n"
        "\n"
        "The axes start_dim ... end_dim as one."},
    {"ravel", AS(method_ravel), FAST,
        "ravel($self, /)\n"
        "--\n"
        "\n"
        "All elements along one axis: a view where that is possible."},
    {"unflatten", AS(method_unflatten), FAST,
        "unflatten($self, /, dim, sizes)\n"
        "--\n"
        "\n"
        "One axis as several, of the given sizes; one may be -1.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"squeeze", AS(method_squeeze), FAST,
        "squeeze($self, /, dim=None)\n"
        "--\n"
        "\n"
        "A view without the axes of size 1: all of them, or those of dim that have it.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unsqueeze", AS(method_unsqueeze), FAST,
        "unsqueeze($self, /, dim)\n"
        "--\n"
        "\n"
        "A view with one more axis of size 1, at dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"expand", AS(method_expand), FAST,
        "expand($self, /, *size)\n"
        "--\n"
        "\n"
        "A view of a larger shape: axes of size 1 repeat; -1 keeps a size."},
    {"broadcast_to", AS(method_broadcast_to), FAST,
        "broadcast_to($self, /, size)\n"
        "--\n"
        "\n"
        "A view of the given shape, by the rules of broadcasting."},
    {"expand_as", AS(method_expand_as), FAST,
        "expand_as($self, /, other)\n"
        "--\n"
        "\n"
        "expand(other.shape)."},
    {"view_as", AS(method_view_as), FAST,
        "view_as($self, /, other)\n"
        "--\n"
        "\n"
        "view(other.shape)."},
    {"reshape_as", AS(method_reshape_as), FAST,
        "reshape_as($self, /, other)\n"
        "--\n"
        "\n"
        "reshape(other.shape)."},
    {"narrow", AS(method_narrow), FAST,
        "narrow($self, /, dim, start, length)\n"
        "--\n"
        "\n"
        "The view x[start : start + length] along dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"select", AS(method_select), FAST,
        "select($self, /, dim, index)\n"
        "--\n"
        "\n"
        "The view x[index] along dim, without that axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"slice", AS(method_slice), FAST,
        "slice($self, /, dim=0, start=None, end=None, step=1)\n"
        "--\n"
        "\n"
        "The view x[start:end:step] along dim; step < 0 goes backwards.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"split", AS(method_split), FAST,
        "split($self, /, split_size_or_sections, dim=0)\n"
        "--\n"
        "\n"
        "Views of split_size along dim (the last may be smaller), or of the sizes listed."},
    {"chunk", AS(method_chunk), FAST,
        "chunk($self, /, chunks, dim=0)\n"
        "--\n"
        "\n"
        "At most chunks views of equal size along dim; the last may be smaller.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unbind", AS(method_unbind), FAST,
        "unbind($self, /, dim=0)\n"
        "--\n"
        "\n"
        "The views x[0], x[1], ... along dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"movedim", AS(method_movedim), FAST,
        "movedim($self, /, source, destination)\n"
        "--\n"
        "\n"
        "A view with the axes source moved to destination; the others keep their order."},
    {"diagonal", AS(method_diagonal), FAST,
        "diagonal($self, /, offset=0, dim1=0, dim2=1)\n"
        "--\n"
        "\n"
        "The view x[i, i + offset] of the axes dim1 and dim2, as the last axis."},
    {"diag_embed", AS(method_diag_embed), FAST,
        "diag_embed($self, /, offset=0, dim1=-2, dim2=-1)\n"
        "--\n"
        "\n"
        "The last axis as the diagonal of two new axes, dim1 and dim2 of the result, zeros elsewhere: (..., n) -> (..., n + |offset|, n + |offset|)."},
    {"diag", AS(method_diag), FAST,
        "diag($self, /, diagonal=0)\n"
        "--\n"
        "\n"
        "A vector as a diagonal of a matrix of zeros; the diagonal of a matrix, as a copy."},
    {"unfold", AS(method_unfold), FAST,
        "unfold($self, /, dimension, size, step)\n"
        "--\n"
        "\n"
        "A view of the windows of size positions of an axis, step apart: the axis counts them, their elements are a new last axis."},
    {"flip", AS(method_flip), FAST,
        "flip($self, /, *dims)\n"
        "--\n"
        "\n"
        "A copy, backwards along the axes dims; x[::-1] is a view."},
    {"fliplr", AS(method_fliplr), FAST,
        "fliplr($self, /)\n"
        "--\n"
        "\n"
        "A copy, backwards along axis 1."},
    {"flipud", AS(method_flipud), FAST,
        "flipud($self, /)\n"
        "--\n"
        "\n"
        "A copy, backwards along axis 0."},
    {"roll", AS(method_roll), FAST,
        "roll($self, /, shifts, dims=None)\n"
        "--\n"
        "\n"
        "y[(i + shift) mod size] = x[i] along each of dims; without them one shift of all elements in order."},
    {"repeat", AS(method_repeat), FAST,
        "repeat($self, /, *repeats)\n"
        "--\n"
        "\n"
        "The tensor repeats[i] times along axis i; further axes come in front."},
    {"tile", AS(method_tile), FAST,
        "tile($self, /, *dims)\n"
        "--\n"
        "\n"
        "The tensor dims[i] times along axis i, counted from the last one; axes not named are not repeated."},
    {"repeat_interleave", AS(method_repeat_interleave), FAST,
        "repeat_interleave($self, /, repeats=None, dim=None, *, output_size=None)\n"
        "--\n"
        "\n"
        "Every position of an axis repeats times, a number for all or one for each; of all elements in order when dim is absent.\n"
        "repeat_interleave(repeats): the positions 0, 1, ... so repeated.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"tril", AS(method_tril), FAST,
        "tril($self, /, diagonal=0)\n"
        "--\n"
        "\n"
        "Zeros above the diagonal of the last two axes."},
    {"triu", AS(method_triu), FAST,
        "triu($self, /, diagonal=0)\n"
        "--\n"
        "\n"
        "Zeros below the diagonal of the last two axes."},
    {"add", AS(method_add), FAST,
        "add($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "input + alpha other"},
    {"sub", AS(method_sub), FAST,
        "sub($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "input - alpha other"},
    {"rsub", AS(method_rsub), FAST,
        "rsub($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "other - alpha input"},
    {"div", AS(method_div), FAST,
        "div($self, /, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "input / other; rounding_mode \"trunc\" rounds the result towards 0, \"floor\" down."},
    {"pow", AS(method_pow), FAST,
        "pow($self, /, exponent)\n"
        "--\n"
        "\n"
        "input to the power exponent; 0 to the 0 is 1"},
    {"clamp", AS(method_clamp), FAST,
        "clamp($self, /, min=None, max=None)\n"
        "--\n"
        "\n"
        "Values below min become min, values above max become max; at least one of them is given."},
    {"round", AS(method_round), FAST,
        "round($self, /, *, decimals=0)\n"
        "--\n"
        "\n"
        "The nearest number of decimals digits after the point, before it where negative; ties to even.  The gradient is 0."},
    {"nextafter", AS(method_nextafter), FAST,
        "nextafter($self, /, other)\n"
        "--\n"
        "\n"
        "The next number of the dtype after input towards other.  Shapes broadcast, dtypes promote; no gradient."},
    {"nan_to_num", AS(method_nan_to_num), FAST,
        "nan_to_num($self, /, nan=None, posinf=None, neginf=None)\n"
        "--\n"
        "\n"
        "nan (0) for NaN, posinf and neginf for the infinities: without them the largest and least finite number of the dtype."},
    {"logit", AS(method_logit), FAST,
        "logit($self, /, eps=None)\n"
        "--\n"
        "\n"
        "log(z / (1 - z)); z is input, with eps clamped to [eps, 1 - eps]."},
    {"gelu", AS(method_gelu), FAST,
        "gelu($self, /, *, approximate='none')\n"
        "--\n"
        "\n"
        "x Phi(x), Phi the normal distribution; approximate=\"tanh\": x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))"},
    {"add_", AS(method_add_), FAST,
        "add_($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "input + alpha other, written into input."},
    {"sub_", AS(method_sub_), FAST,
        "sub_($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "input - alpha other, written into input."},
    {"div_", AS(method_div_), FAST,
        "div_($self, /, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "input / other, written into input; rounding_mode as in div."},
    {"round_", AS(method_round_), FAST,
        "round_($self, /, *, decimals=0)\n"
        "--\n"
        "\n"
        "round, written into input."},
    {"pow_", AS(method_pow_), FAST,
        "pow_($self, /, exponent)\n"
        "--\n"
        "\n"
        "input to the power exponent, written into input."},
    {"nan_to_num_", AS(method_nan_to_num_), FAST,
        "nan_to_num_($self, /, nan=None, posinf=None, neginf=None)\n"
        "--\n"
        "\n"
        "nan_to_num, written into input."},
    {"logit_", AS(method_logit_), FAST,
        "logit_($self, /, eps=None)\n"
        "--\n"
        "\n"
        "logit, written into input."},
    {"clamp_", AS(method_clamp_), FAST,
        "clamp_($self, /, min=None, max=None)\n"
        "--\n"
        "\n"
        "clamp, written into input."},
    {"copy_", AS(method_copy_), FAST,
        "copy_($self, /, other)\n"
        "--\n"
        "\n"
        "Writes other, broadcast and cast, into the tensor."},
    {"tril_", AS(method_tril_), FAST,
        "tril_($self, /, diagonal=0)\n"
        "--\n"
        "\n"
        "tril, written into input."},
    {"triu_", AS(method_triu_), FAST,
        "triu_($self, /, diagonal=0)\n"
        "--\n"
        "\n"
        "triu, written into input."},
    {"fill_", AS(method_fill_), FAST,
        "fill_($self, /, value)\n"
        "--\n"
        "\n"
        "Writes one value everywhere: a number, or a tensor without axes."},
    {"zero_", AS(method_zero_), FAST,
        "zero_($self, /)\n"
        "--\n"
        "\n"
        "Writes zeros."},
    {"sum", AS(method_sum), FAST,
        "sum($self, /, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The sum over the axes dim, all when absent; keepdim leaves them with size 1.  Integers and bool sum as int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nansum", AS(method_nansum), FAST,
        "nansum($self, /, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The sum over the axes dim, all when absent, with NaN counted as 0.  Integers and bool sum as int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"mean", AS(method_mean), FAST,
        "mean($self, /, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The mean over the axes dim, all when absent.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nanmean", AS(method_nanmean), FAST,
        "nanmean($self, /, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The mean of what is not NaN, over the axes dim, all when absent; NaN where there is nothing else.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"prod", AS(method_prod), FAST,
        "prod($self, /, dim=None, keepdim=False, *, dtype=None)\n"
        "--\n"
        "\n"
        "The product over the axes dim, all when absent.  Integers and bool multiply as int64.  The gradient is exact where elements are 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"var", AS(method_var), FAST,
        "var($self, /, dim=None, unbiased=None, keepdim=False, *, correction=None)\n"
        "--\n"
        "\n"
        "sum((x - mean)^2) / (N - correction) over the axes dim, all when absent; correction is 1, or 0 with unbiased=False.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"std", AS(method_std), FAST,
        "std($self, /, dim=None, unbiased=None, keepdim=False, *, correction=None)\n"
        "--\n"
        "\n"
        "The square root of var; the gradient is 0 where it is 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"any", AS(method_any), FAST,
        "any($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "Is an element not 0, over the axes dim, all when absent?  bool, uint8 for uint8; of no elements: no.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"all", AS(method_all), FAST,
        "all($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "Is no element 0, over the axes dim, all when absent?  bool, uint8 for uint8; of no elements: yes.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"count_nonzero", AS(method_count_nonzero), FAST,
        "count_nonzero($self, /, dim=None)\n"
        "--\n"
        "\n"
        "How many elements are not 0, over the axes dim, all when absent; int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"norm", AS(method_norm), FAST,
        "norm($self, /, p='fro', dim=None, keepdim=False, dtype=None)\n"
        "--\n"
        "\n"
        "sum(abs(x)^p)^(1/p) over the axes dim, all when absent; \"fro\" is 2, inf and -inf are the largest and the smallest abs(x), 0 counts what is not 0.\n"
        "The gradient is 0 where x or the norm is 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"amax", AS(method_amax), FAST,
        "amax($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The largest element over the axes dim; NaN wins, ties share the gradient.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"amin", AS(method_amin), FAST,
        "amin($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The smallest element over the axes dim; NaN wins, ties share the gradient.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"aminmax", AS(method_aminmax), FAST,
        "aminmax($self, /, *, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "(min, max): the smallest and the largest element over the axes dim, all when absent; NaN wins, ties share the gradient.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"max", AS(method_max), FAST,
        "max($self, /, dim=None, keepdim=False, *, other=None)\n"
        "--\n"
        "\n"
        "max(): the largest element; max(dim): (values, indices) along an axis; max(other): elementwise.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"min", AS(method_min), FAST,
        "min($self, /, dim=None, keepdim=False, *, other=None)\n"
        "--\n"
        "\n"
        "min(): the smallest element; min(dim): (values, indices) along an axis; min(other): elementwise.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"argmax", AS(method_argmax), FAST,
        "argmax($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The index of the largest element along dim, of all elements when absent; int64, the first of equals.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"argmin", AS(method_argmin), FAST,
        "argmin($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "The index of the smallest element along dim, of all elements when absent; int64, the first of equals.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"logsumexp", AS(method_logsumexp), FAST,
        "logsumexp($self, /, dim, keepdim=False)\n"
        "--\n"
        "\n"
        "log(sum(exp(x))) over the axes dim, without overflow.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cumsum", AS(method_cumsum), FAST,
        "cumsum($self, /, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "y[k] = x[0] + ... + x[k] along dim.  Integers and bool sum as int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cumprod", AS(method_cumprod), FAST,
        "cumprod($self, /, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "y[k] = x[0] ... x[k] along dim.  Integers and bool multiply as int64.  The gradient is exact where elements are 0.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cumsum_", AS(method_cumsum_), FAST,
        "cumsum_($self, /, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "cumsum, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cumprod_", AS(method_cumprod_), FAST,
        "cumprod_($self, /, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "cumprod, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"logcumsumexp", AS(method_logcumsumexp), FAST,
        "logcumsumexp($self, /, dim)\n"
        "--\n"
        "\n"
        "y[k] = log(exp(x[0]) + ... + exp(x[k])) along dim, without overflow.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cummax", AS(method_cummax), FAST,
        "cummax($self, /, dim)\n"
        "--\n"
        "\n"
        "(values, indices): the largest element up to each along dim, and where it is, the last of equals; NaN wins.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"cummin", AS(method_cummin), FAST,
        "cummin($self, /, dim)\n"
        "--\n"
        "\n"
        "(values, indices): the smallest element up to each along dim, and where it is, the last of equals; NaN wins.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"diff", AS(method_diff), FAST,
        "diff($self, /, n=1, dim=-1, prepend=None, append=None)\n"
        "--\n"
        "\n"
        "y[k] = x[k + 1] - x[k] along dim, n times over; prepend and append are put around x first.  Of bools: are they different?\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"softmax", AS(method_softmax), FAST,
        "softmax($self, /, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "exp(x) / sum(exp(x)) along dim; the same shape.  dtype: x is cast to it first.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"log_softmax", AS(method_log_softmax), FAST,
        "log_softmax($self, /, dim, *, dtype=None)\n"
        "--\n"
        "\n"
        "x - log(sum(exp(x))) along dim; the same shape.  dtype: x is cast to it first.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"sort", AS(method_sort), FAST,
        "sort($self, /, dim=-1, descending=False, *, stable=False)\n"
        "--\n"
        "\n"
        "(values, indices): the elements in order along dim, and where they were, int64.  Equal elements keep their order, with or without stable.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"argsort", AS(method_argsort), FAST,
        "argsort($self, /, dim=-1, descending=False, *, stable=False)\n"
        "--\n"
        "\n"
        "The indices of sort.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"msort", AS(method_msort), FAST,
        "msort($self, /)\n"
        "--\n"
        "\n"
        "The values of sort along the first axis."},
    {"topk", AS(method_topk), FAST,
        "topk($self, /, k, dim=-1, largest=True, sorted=True)\n"
        "--\n"
        "\n"
        "(values, indices): the k largest along dim, from the largest down, or the smallest; of equal ones the first.  In order whatever sorted says.\n"
        "RuntimeError: more than there are.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"kthvalue", AS(method_kthvalue), FAST,
        "kthvalue($self, /, k, dim=-1, keepdim=False)\n"
        "--\n"
        "\n"
        "(values, indices): the k-th smallest along dim, k from 1.  RuntimeError: there is no such element.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"mode", AS(method_mode), FAST,
        "mode($self, /, dim=-1, keepdim=False)\n"
        "--\n"
        "\n"
        "(values, indices): the most frequent element along dim, of those the smallest, and where it is first.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"median", AS(method_median), FAST,
        "median($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "median(): the lower of the two middle elements, NaN where there is one, ties share the gradient; median(dim): (values, indices) along an axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nanmedian", AS(method_nanmedian), FAST,
        "nanmedian($self, /, dim=None, keepdim=False)\n"
        "--\n"
        "\n"
        "median of what is not NaN; NaN where there is nothing else.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unique", AS(method_unique), FAST,
        "unique($self, /, sorted=True, return_inverse=False, return_counts=False, dim=None)\n"
        "--\n"
        "\n"
        "The different elements in order, or the different parts along dim; each NaN is different.  No gradient.\n"
        "With return_inverse, return_counts a tuple: where each element is among them, how often each occurs; int64.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"unique_consecutive", AS(method_unique_consecutive), FAST,
        "unique_consecutive($self, /, return_inverse=False, return_counts=False, dim=None)\n"
        "--\n"
        "\n"
        "The first of each run of equal elements, or of equal parts along dim; the rest as in unique.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"quantile", AS(method_quantile), FAST,
        "quantile($self, /, q, dim=None, keepdim=False, *, interpolation='linear')\n"
        "--\n"
        "\n"
        "The quantiles q, from 0 to 1, along dim, of all elements when absent : a number, or the axis of q first.  NaN where there is one.\n"
        "interpolation between two elements: linear, lower, higher, nearest, midpoint.  RuntimeError: no elements, q outside 0 ... 1.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"nanquantile", AS(method_nanquantile), FAST,
        "nanquantile($self, /, q, dim=None, keepdim=False, *, interpolation='linear')\n"
        "--\n"
        "\n"
        "quantile of what is not NaN; NaN where there is nothing else.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"isclose", AS(method_isclose), FAST,
        "isclose($self, /, other, rtol=1e-05, atol=1e-08, equal_nan=False)\n"
        "--\n"
        "\n"
        "input == other, or |input - other| <= atol + rtol |other|; equal_nan: NaN is close to NaN.  bool."},
    {"allclose", AS(method_allclose), FAST,
        "allclose($self, /, other, rtol=1e-05, atol=1e-08, equal_nan=False)\n"
        "--\n"
        "\n"
        "Is isclose true everywhere?"},
    {"equal", AS(method_equal), FAST,
        "equal($self, /, other)\n"
        "--\n"
        "\n"
        "The same shape and elements?  NaN is equal to nothing."},
    {"bincount", AS(method_bincount), FAST,
        "bincount($self, /, weights=None, minlength=0)\n"
        "--\n"
        "\n"
        "How often 0, 1, 2, ... occur among integers along one axis, or the sum of their weights; at least minlength of them."},
    {"histc", AS(method_histc), FAST,
        "histc($self, /, bins=100, min=0, max=0)\n"
        "--\n"
        "\n"
        "How many elements lie in each of bins equal parts of [min, max], or of where they lie when both are equal; NaN in none : (bins)."},
    {"matmul", AS(method_matmul), FAST,
        "matmul($self, /, other)\n"
        "--\n"
        "\n"
        "(..., M, K) (..., K, N) -> (..., M, N), axes in front broadcast; vectors as in NumPy."},
    {"mm", AS(method_mm), FAST,
        "mm($self, /, mat2)\n"
        "--\n"
        "\n"
        "(M, K) (K, N) -> (M, N)"},
    {"bmm", AS(method_bmm), FAST,
        "bmm($self, /, mat2)\n"
        "--\n"
        "\n"
        "(B, M, K) (B, K, N) -> (B, M, N)"},
    {"mv", AS(method_mv), FAST,
        "mv($self, /, vec)\n"
        "--\n"
        "\n"
        "(M, K) (K) -> (M)"},
    {"dot", AS(method_dot), FAST,
        "dot($self, /, tensor)\n"
        "--\n"
        "\n"
        "(K) (K) -> ()"},
    {"vdot", AS(method_vdot), FAST,
        "vdot($self, /, other)\n"
        "--\n"
        "\n"
        "(K) (K) -> ()"},
    {"inner", AS(method_inner), FAST,
        "inner($self, /, other)\n"
        "--\n"
        "\n"
        "All dot products of rows: (..., K) (...', K) -> (..., ...'); with a 0-d operand the product."},
    {"outer", AS(method_outer), FAST,
        "outer($self, /, vec2)\n"
        "--\n"
        "\n"
        "(M) (N) -> (M, N): all products"},
    {"kron", AS(method_kron), FAST,
        "kron($self, /, other)\n"
        "--\n"
        "\n"
        "Blocks input[i, j] other : (M, N) (P, Q) -> (M P, N Q); up to 4 axes."},
    {"trace", AS(method_trace), FAST,
        "trace($self, /)\n"
        "--\n"
        "\n"
        "The sum of a matrix's diagonal; integers sum as int64."},
    {"addmm", AS(method_addmm), FAST,
        "addmm($self, /, mat1, mat2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha (mat1 @ mat2) : (M, N) or what broadcasts to it, (M, K), (K, N) -> (M, N).  With beta 0 input does not matter, not even NaN."},
    {"addmv", AS(method_addmv), FAST,
        "addmv($self, /, mat, vec, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha (mat @ vec) : (M) or what broadcasts to it, (M, K), (K) -> (M).  With beta 0 input does not matter."},
    {"addr", AS(method_addr), FAST,
        "addr($self, /, vec1, vec2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha outer(vec1, vec2) : (M, N) or what broadcasts to it, (M), (N) -> (M, N).  With beta 0 input does not matter."},
    {"baddbmm", AS(method_baddbmm), FAST,
        "baddbmm($self, /, batch1, batch2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha (batch1 @ batch2) : (B, M, N) or what broadcasts to it, (B, M, K), (B, K, N) -> (B, M, N).  With beta 0 input does not matter."},
    {"addbmm", AS(method_addbmm), FAST,
        "addbmm($self, /, batch1, batch2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "beta input + alpha sum over B of (batch1 @ batch2) : (M, N) or what broadcasts to it, (B, M, K), (B, K, N) -> (M, N).  With beta 0 input does not matter."},
    {"addmm_", AS(method_addmm_), FAST,
        "addmm_($self, /, mat1, mat2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "addmm, written into input."},
    {"addmv_", AS(method_addmv_), FAST,
        "addmv_($self, /, mat, vec, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "addmv, written into input."},
    {"addr_", AS(method_addr_), FAST,
        "addr_($self, /, vec1, vec2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "addr, written into input."},
    {"baddbmm_", AS(method_baddbmm_), FAST,
        "baddbmm_($self, /, batch1, batch2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "baddbmm, written into input."},
    {"addbmm_", AS(method_addbmm_), FAST,
        "addbmm_($self, /, batch1, batch2, *, beta=1, alpha=1)\n"
        "--\n"
        "\n"
        "addbmm, written into input."},
    {"index_select", AS(method_index_select), FAST,
        "index_select($self, /, dim, index)\n"
        "--\n"
        "\n"
        "The elements at index, int32 or int64 with at most one axis, along dim : (..., R, ...), (K) -> (..., K, ...).\n"
        "IndexError: an index outside 0 ... R - 1.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"gather", AS(method_gather), FAST,
        "gather($self, /, dim, index)\n"
        "--\n"
        "\n"
        "out[i][j] = input[index[i][j]][j] for dim 0, and so on; index: int64, with input's axes.\n"
        "IndexError: an index outside of the axis.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"take_along_dim", AS(method_take_along_dim), FAST,
        "take_along_dim($self, /, indices, dim=None)\n"
        "--\n"
        "\n"
        "gather with the axes other than dim broadcast; an index is taken modulo the axis's size.  Without dim: of both as vectors, and an\n"
        "index out of range is an IndexError.  For what argmax and argsort give.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"take", AS(method_take), FAST,
        "take($self, /, index)\n"
        "--\n"
        "\n"
        "The elements at index of input as one vector, in index's shape; negative indices count from the end.\n"
        "IndexError: an index outside -n ... n - 1."},
    {"scatter", AS(method_scatter), FAST,
        "scatter($self, /, dim, index, src=None, *, value=None, reduce=None)\n"
        "--\n"
        "\n"
        "A copy of input with out[index[i][j]][j] = src[i][j] for dim 0, and so on; src or value may be one number for all.  Of what goes to\n"
        "one place the last stays, and the gradient is that of all, as in PyTorch.  With reduce \"add\" or \"multiply\" it is added or multiplied.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_", AS(method_scatter_), FAST,
        "scatter_($self, /, dim, index, src=None, *, value=None, reduce=None)\n"
        "--\n"
        "\n"
        "scatter, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_add", AS(method_scatter_add), FAST,
        "scatter_add($self, /, dim, index, src)\n"
        "--\n"
        "\n"
        "A copy of input with out[index[i][j]][j] += src[i][j] for dim 0, and so on, in order: the same bits every time.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_add_", AS(method_scatter_add_), FAST,
        "scatter_add_($self, /, dim, index, src)\n"
        "--\n"
        "\n"
        "scatter_add, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_reduce", AS(method_scatter_reduce), FAST,
        "scatter_reduce($self, /, dim, index, src, reduce, *, include_self=True)\n"
        "--\n"
        "\n"
        "A copy of input where out[index[i][j]][j], for dim 0, and so on, is the \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\" of itself, unless\n"
        "not include_self, and of each src[i][j] for it.  Equal extremes share the gradient; the mean of integers is floored.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"scatter_reduce_", AS(method_scatter_reduce_), FAST,
        "scatter_reduce_($self, /, dim, index, src, reduce, *, include_self=True)\n"
        "--\n"
        "\n"
        "scatter_reduce, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_add", AS(method_index_add), FAST,
        "index_add($self, /, dim, index, source, *, alpha=1)\n"
        "--\n"
        "\n"
        "A copy of input with alpha source[..., k, ...] added at index[k] along dim, in order : (..., R, ...), (K), (..., K, ...).\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_add_", AS(method_index_add_), FAST,
        "index_add_($self, /, dim, index, source, *, alpha=1)\n"
        "--\n"
        "\n"
        "index_add, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_copy", AS(method_index_copy), FAST,
        "index_copy($self, /, dim, index, source)\n"
        "--\n"
        "\n"
        "A copy of input with source[..., k, ...] at index[k] along dim, the last where two go to one place : (..., R, ...), (K), (..., K, ...).\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_copy_", AS(method_index_copy_), FAST,
        "index_copy_($self, /, dim, index, source)\n"
        "--\n"
        "\n"
        "index_copy, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_fill", AS(method_index_fill), FAST,
        "index_fill($self, /, dim, index, value)\n"
        "--\n"
        "\n"
        "A copy of input with value, a number or a tensor without axes, at index along dim.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_fill_", AS(method_index_fill_), FAST,
        "index_fill_($self, /, dim, index, value)\n"
        "--\n"
        "\n"
        "index_fill, written into input.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"index_put", AS(method_index_put), FAST,
        "index_put($self, /, indices, values, accumulate=False)\n"
        "--\n"
        "\n"
        "A copy of input with out[indices] = values, which are cast and broadcast; with accumulate they are added, in order."},
    {"index_put_", AS(method_index_put_), FAST,
        "index_put_($self, /, indices, values, accumulate=False)\n"
        "--\n"
        "\n"
        "index_put, written into input: input[indices] = values."},
    {"masked_fill", AS(method_masked_fill), FAST,
        "masked_fill($self, /, mask, value)\n"
        "--\n"
        "\n"
        "value where the bool mask holds, else input; the mask broadcasts."},
    {"masked_fill_", AS(method_masked_fill_), FAST,
        "masked_fill_($self, /, mask, value)\n"
        "--\n"
        "\n"
        "masked_fill, written into input."},
    {"masked_select", AS(method_masked_select), FAST,
        "masked_select($self, /, mask)\n"
        "--\n"
        "\n"
        "The elements where the bool mask holds, in order; both broadcast : (K)."},
    {"masked_scatter", AS(method_masked_scatter), FAST,
        "masked_scatter($self, /, mask, source)\n"
        "--\n"
        "\n"
        "The k-th place where the bool mask holds gets the k-th element of source; elsewhere input; the mask broadcasts."},
    {"masked_scatter_", AS(method_masked_scatter_), FAST,
        "masked_scatter_($self, /, mask, source)\n"
        "--\n"
        "\n"
        "masked_scatter, written into input."},
    {"nonzero", AS(method_nonzero), FAST,
        "nonzero($self, /, *, as_tuple=False)\n"
        "--\n"
        "\n"
        "Where input is not 0, in order : int64 (K, ndim); with as_tuple a tensor (K) for each axis, as input[...] takes them."},
    {"argwhere", AS(method_argwhere), FAST,
        "argwhere($self, /)\n"
        "--\n"
        "\n"
        "Where input is not 0, in order : int64 (K, ndim)."},
    {"where", AS(method_where), FAST,
        "where($self, /, condition, other)\n"
        "--\n"
        "\n"
        "input where condition, else other; condition is bool."},
    {"requires_grad_", AS(method_requires_grad_), FAST,
        "requires_grad_($self, /, requires_grad=True)\n"
        "--\n"
        "\n"
        "Makes a leaf collect a gradient, or no longer; returns the tensor."},
    {"detach_", AS(method_detach_), FAST,
        "detach_($self, /)\n"
        "--\n"
        "\n"
        "Takes the tensor itself out of the graph; returns it."},
    {"retain_grad", AS(method_retain_grad), FAST,
        "retain_grad($self, /)\n"
        "--\n"
        "\n"
        "A tensor that an op made keeps its gradient too."},
    {"backward", AS(method_backward), FAST,
        "backward($self, /, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n"
        "--\n"
        "\n"
        "Adds the gradients of this tensor to the .grad of the leaves it was computed from, or of inputs only.\n"
        "gradient: the cotangent, of this tensor's shape; 1 for a scalar when absent.  retain_graph (as create_graph when absent): the graph\n"
        "can be walked again; create_graph: the gradients have gradients.  RuntimeError: nothing requires a gradient, the graph was freed,\n"
        "something it needs was overwritten."},
    {"register_hook", AS(method_register_hook), FAST,
        "register_hook($self, /, hook)\n"
        "--\n"
        "\n"
        "Calls hook(grad) whenever this tensor's gradient is computed; a tensor that it returns takes the gradient's place."},
    {"mul", AS(method_mul), FAST,
        "mul($self, /, other)\n"
        "--\n"
        "\n"
        "a * b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"mul_", AS(method_mul_), FAST,
        "mul_($self, /, other)\n"
        "--\n"
        "\n"
        "mul, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"floor_divide", AS(method_floor_divide), FAST,
        "floor_divide($self, /, other)\n"
        "--\n"
        "\n"
        "floor(a / b); integers: an error where b is 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"floor_divide_", AS(method_floor_divide_), FAST,
        "floor_divide_($self, /, other)\n"
        "--\n"
        "\n"
        "floor_divide, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"remainder", AS(method_remainder), FAST,
        "remainder($self, /, other)\n"
        "--\n"
        "\n"
        "a - b floor(a / b): b's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"remainder_", AS(method_remainder_), FAST,
        "remainder_($self, /, other)\n"
        "--\n"
        "\n"
        "remainder, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmod", AS(method_fmod), FAST,
        "fmod($self, /, other)\n"
        "--\n"
        "\n"
        "a - b trunc(a / b): a's sign; integers: an error where b is 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmod_", AS(method_fmod_), FAST,
        "fmod_($self, /, other)\n"
        "--\n"
        "\n"
        "fmod, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"maximum", AS(method_maximum), FAST,
        "maximum($self, /, other)\n"
        "--\n"
        "\n"
        "the larger; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"maximum_", AS(method_maximum_), FAST,
        "maximum_($self, /, other)\n"
        "--\n"
        "\n"
        "maximum, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"minimum", AS(method_minimum), FAST,
        "minimum($self, /, other)\n"
        "--\n"
        "\n"
        "the smaller; NaN wins, ties share the gradient.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"minimum_", AS(method_minimum_), FAST,
        "minimum_($self, /, other)\n"
        "--\n"
        "\n"
        "minimum, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmax", AS(method_fmax), FAST,
        "fmax($self, /, other)\n"
        "--\n"
        "\n"
        "the larger; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmax_", AS(method_fmax_), FAST,
        "fmax_($self, /, other)\n"
        "--\n"
        "\n"
        "fmax, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmin", AS(method_fmin), FAST,
        "fmin($self, /, other)\n"
        "--\n"
        "\n"
        "the smaller; a number wins over NaN; ties give the gradient to a.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fmin_", AS(method_fmin_), FAST,
        "fmin_($self, /, other)\n"
        "--\n"
        "\n"
        "fmin, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"clamp_min", AS(method_clamp_min), FAST,
        "clamp_min($self, /, min)\n"
        "--\n"
        "\n"
        "max(x, low); at the bound the gradient is x's.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"clamp_min_", AS(method_clamp_min_), FAST,
        "clamp_min_($self, /, min)\n"
        "--\n"
        "\n"
        "clamp_min, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"clamp_max", AS(method_clamp_max), FAST,
        "clamp_max($self, /, max)\n"
        "--\n"
        "\n"
        "min(x, high); at the bound the gradient is x's.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"clamp_max_", AS(method_clamp_max_), FAST,
        "clamp_max_($self, /, max)\n"
        "--\n"
        "\n"
        "clamp_max, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"neg", AS(method_neg), FAST,
        "neg($self, /)\n"
        "--\n"
        "\n"
        "-x."},
    {"neg_", AS(method_neg_), FAST,
        "neg_($self, /)\n"
        "--\n"
        "\n"
        "neg, written into input: its shape and dtype stay."},
    {"abs", AS(method_abs), FAST,
        "abs($self, /)\n"
        "--\n"
        "\n"
        "|x|; gradient 0 at 0."},
    {"abs_", AS(method_abs_), FAST,
        "abs_($self, /)\n"
        "--\n"
        "\n"
        "abs, written into input: its shape and dtype stay."},
    {"sign", AS(method_sign), FAST,
        "sign($self, /)\n"
        "--\n"
        "\n"
        "-1, 0 or 1."},
    {"sign_", AS(method_sign_), FAST,
        "sign_($self, /)\n"
        "--\n"
        "\n"
        "sign, written into input: its shape and dtype stay."},
    {"copysign", AS(method_copysign), FAST,
        "copysign($self, /, other)\n"
        "--\n"
        "\n"
        "|a| with the sign of b; gradient 0 at 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"copysign_", AS(method_copysign_), FAST,
        "copysign_($self, /, other)\n"
        "--\n"
        "\n"
        "copysign, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"square", AS(method_square), FAST,
        "square($self, /)\n"
        "--\n"
        "\n"
        "x^2."},
    {"square_", AS(method_square_), FAST,
        "square_($self, /)\n"
        "--\n"
        "\n"
        "square, written into input: its shape and dtype stay."},
    {"hypot", AS(method_hypot), FAST,
        "hypot($self, /, other)\n"
        "--\n"
        "\n"
        "sqrt(a^2 + b^2), no overflow.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"hypot_", AS(method_hypot_), FAST,
        "hypot_($self, /, other)\n"
        "--\n"
        "\n"
        "hypot, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"reciprocal", AS(method_reciprocal), FAST,
        "reciprocal($self, /)\n"
        "--\n"
        "\n"
        "1 / x."},
    {"reciprocal_", AS(method_reciprocal_), FAST,
        "reciprocal_($self, /)\n"
        "--\n"
        "\n"
        "reciprocal, written into input: its shape and dtype stay."},
    {"sqrt", AS(method_sqrt), FAST,
        "sqrt($self, /)\n"
        "--\n"
        "\n"
        "square root."},
    {"sqrt_", AS(method_sqrt_), FAST,
        "sqrt_($self, /)\n"
        "--\n"
        "\n"
        "sqrt, written into input: its shape and dtype stay."},
    {"rsqrt", AS(method_rsqrt), FAST,
        "rsqrt($self, /)\n"
        "--\n"
        "\n"
        "1 / sqrt(x)."},
    {"rsqrt_", AS(method_rsqrt_), FAST,
        "rsqrt_($self, /)\n"
        "--\n"
        "\n"
        "rsqrt, written into input: its shape and dtype stay."},
    {"lerp", AS(method_lerp), FAST,
        "lerp($self, /, end, weight)\n"
        "--\n"
        "\n"
        "a + w (b - a).  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"lerp_", AS(method_lerp_), FAST,
        "lerp_($self, /, end, weight)\n"
        "--\n"
        "\n"
        "lerp, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"addcmul", AS(method_addcmul), FAST,
        "addcmul($self, /, tensor1, tensor2, *, value=1.0)\n"
        "--\n"
        "\n"
        "x + value a b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"addcmul_", AS(method_addcmul_), FAST,
        "addcmul_($self, /, tensor1, tensor2, *, value=1.0)\n"
        "--\n"
        "\n"
        "addcmul, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"addcdiv", AS(method_addcdiv), FAST,
        "addcdiv($self, /, tensor1, tensor2, *, value=1.0)\n"
        "--\n"
        "\n"
        "x + value a / b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"addcdiv_", AS(method_addcdiv_), FAST,
        "addcdiv_($self, /, tensor1, tensor2, *, value=1.0)\n"
        "--\n"
        "\n"
        "addcdiv, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"exp", AS(method_exp), FAST,
        "exp($self, /)\n"
        "--\n"
        "\n"
        "e^x."},
    {"exp_", AS(method_exp_), FAST,
        "exp_($self, /)\n"
        "--\n"
        "\n"
        "exp, written into input: its shape and dtype stay."},
    {"exp2", AS(method_exp2), FAST,
        "exp2($self, /)\n"
        "--\n"
        "\n"
        "2^x."},
    {"exp2_", AS(method_exp2_), FAST,
        "exp2_($self, /)\n"
        "--\n"
        "\n"
        "exp2, written into input: its shape and dtype stay."},
    {"expm1", AS(method_expm1), FAST,
        "expm1($self, /)\n"
        "--\n"
        "\n"
        "e^x - 1, exact near 0."},
    {"expm1_", AS(method_expm1_), FAST,
        "expm1_($self, /)\n"
        "--\n"
        "\n"
        "expm1, written into input: its shape and dtype stay."},
    {"log", AS(method_log), FAST,
        "log($self, /)\n"
        "--\n"
        "\n"
        "natural logarithm."},
    {"log_", AS(method_log_), FAST,
        "log_($self, /)\n"
        "--\n"
        "\n"
        "log, written into input: its shape and dtype stay."},
    {"log2", AS(method_log2), FAST,
        "log2($self, /)\n"
        "--\n"
        "\n"
        "logarithm to the base 2."},
    {"log2_", AS(method_log2_), FAST,
        "log2_($self, /)\n"
        "--\n"
        "\n"
        "log2, written into input: its shape and dtype stay."},
    {"log10", AS(method_log10), FAST,
        "log10($self, /)\n"
        "--\n"
        "\n"
        "logarithm to the base 10."},
    {"log10_", AS(method_log10_), FAST,
        "log10_($self, /)\n"
        "--\n"
        "\n"
        "log10, written into input: its shape and dtype stay."},
    {"logaddexp", AS(method_logaddexp), FAST,
        "logaddexp($self, /, other)\n"
        "--\n"
        "\n"
        "log(e^a + e^b), no overflow.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logaddexp_", AS(method_logaddexp_), FAST,
        "logaddexp_($self, /, other)\n"
        "--\n"
        "\n"
        "logaddexp, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logaddexp2", AS(method_logaddexp2), FAST,
        "logaddexp2($self, /, other)\n"
        "--\n"
        "\n"
        "log2(2^a + 2^b), no overflow.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logaddexp2_", AS(method_logaddexp2_), FAST,
        "logaddexp2_($self, /, other)\n"
        "--\n"
        "\n"
        "logaddexp2, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"xlogy", AS(method_xlogy), FAST,
        "xlogy($self, /, other)\n"
        "--\n"
        "\n"
        "a log(b); 0 where a is 0 and b is a number.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"xlogy_", AS(method_xlogy_), FAST,
        "xlogy_($self, /, other)\n"
        "--\n"
        "\n"
        "xlogy, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"log1p", AS(method_log1p), FAST,
        "log1p($self, /)\n"
        "--\n"
        "\n"
        "log(1 + x), exact near 0."},
    {"log1p_", AS(method_log1p_), FAST,
        "log1p_($self, /)\n"
        "--\n"
        "\n"
        "log1p, written into input: its shape and dtype stay."},
    {"sin", AS(method_sin), FAST,
        "sin($self, /)\n"
        "--\n"
        "\n"
        "sine."},
    {"sin_", AS(method_sin_), FAST,
        "sin_($self, /)\n"
        "--\n"
        "\n"
        "sin, written into input: its shape and dtype stay."},
    {"cos", AS(method_cos), FAST,
        "cos($self, /)\n"
        "--\n"
        "\n"
        "cosine."},
    {"cos_", AS(method_cos_), FAST,
        "cos_($self, /)\n"
        "--\n"
        "\n"
        "cos, written into input: its shape and dtype stay."},
    {"tan", AS(method_tan), FAST,
        "tan($self, /)\n"
        "--\n"
        "\n"
        "tangent."},
    {"tan_", AS(method_tan_), FAST,
        "tan_($self, /)\n"
        "--\n"
        "\n"
        "tan, written into input: its shape and dtype stay."},
    {"asin", AS(method_asin), FAST,
        "asin($self, /)\n"
        "--\n"
        "\n"
        "inverse sine."},
    {"asin_", AS(method_asin_), FAST,
        "asin_($self, /)\n"
        "--\n"
        "\n"
        "asin, written into input: its shape and dtype stay."},
    {"acos", AS(method_acos), FAST,
        "acos($self, /)\n"
        "--\n"
        "\n"
        "inverse cosine."},
    {"acos_", AS(method_acos_), FAST,
        "acos_($self, /)\n"
        "--\n"
        "\n"
        "acos, written into input: its shape and dtype stay."},
    {"atan", AS(method_atan), FAST,
        "atan($self, /)\n"
        "--\n"
        "\n"
        "inverse tangent."},
    {"atan_", AS(method_atan_), FAST,
        "atan_($self, /)\n"
        "--\n"
        "\n"
        "atan, written into input: its shape and dtype stay."},
    {"atan2", AS(method_atan2), FAST,
        "atan2($self, /, other)\n"
        "--\n"
        "\n"
        "angle of the point (b, a); gradient 0 at (0, 0).  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"atan2_", AS(method_atan2_), FAST,
        "atan2_($self, /, other)\n"
        "--\n"
        "\n"
        "atan2, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"sinh", AS(method_sinh), FAST,
        "sinh($self, /)\n"
        "--\n"
        "\n"
        "hyperbolic sine."},
    {"sinh_", AS(method_sinh_), FAST,
        "sinh_($self, /)\n"
        "--\n"
        "\n"
        "sinh, written into input: its shape and dtype stay."},
    {"cosh", AS(method_cosh), FAST,
        "cosh($self, /)\n"
        "--\n"
        "\n"
        "hyperbolic cosine."},
    {"cosh_", AS(method_cosh_), FAST,
        "cosh_($self, /)\n"
        "--\n"
        "\n"
        "cosh, written into input: its shape and dtype stay."},
    {"tanh", AS(method_tanh), FAST,
        "tanh($self, /)\n"
        "--\n"
        "\n"
        "hyperbolic tangent."},
    {"tanh_", AS(method_tanh_), FAST,
        "tanh_($self, /)\n"
        "--\n"
        "\n"
        "tanh, written into input: its shape and dtype stay."},
    {"asinh", AS(method_asinh), FAST,
        "asinh($self, /)\n"
        "--\n"
        "\n"
        "inverse hyperbolic sine."},
    {"asinh_", AS(method_asinh_), FAST,
        "asinh_($self, /)\n"
        "--\n"
        "\n"
        "asinh, written into input: its shape and dtype stay."},
    {"acosh", AS(method_acosh), FAST,
        "acosh($self, /)\n"
        "--\n"
        "\n"
        "inverse hyperbolic cosine."},
    {"acosh_", AS(method_acosh_), FAST,
        "acosh_($self, /)\n"
        "--\n"
        "\n"
        "acosh, written into input: its shape and dtype stay."},
    {"atanh", AS(method_atanh), FAST,
        "atanh($self, /)\n"
        "--\n"
        "\n"
        "inverse hyperbolic tangent."},
    {"atanh_", AS(method_atanh_), FAST,
        "atanh_($self, /)\n"
        "--\n"
        "\n"
        "atanh, written into input: its shape and dtype stay."},
    {"deg2rad", AS(method_deg2rad), FAST,
        "deg2rad($self, /)\n"
        "--\n"
        "\n"
        "degrees as radians."},
    {"deg2rad_", AS(method_deg2rad_), FAST,
        "deg2rad_($self, /)\n"
        "--\n"
        "\n"
        "deg2rad, written into input: its shape and dtype stay."},
    {"rad2deg", AS(method_rad2deg), FAST,
        "rad2deg($self, /)\n"
        "--\n"
        "\n"
        "radians as degrees."},
    {"rad2deg_", AS(method_rad2deg_), FAST,
        "rad2deg_($self, /)\n"
        "--\n"
        "\n"
        "rad2deg, written into input: its shape and dtype stay."},
    {"sinc", AS(method_sinc), FAST,
        "sinc($self, /)\n"
        "--\n"
        "\n"
        "sin(pi x) / (pi x); 1 at 0."},
    {"sinc_", AS(method_sinc_), FAST,
        "sinc_($self, /)\n"
        "--\n"
        "\n"
        "sinc, written into input: its shape and dtype stay."},
    {"erf", AS(method_erf), FAST,
        "erf($self, /)\n"
        "--\n"
        "\n"
        "error function."},
    {"erf_", AS(method_erf_), FAST,
        "erf_($self, /)\n"
        "--\n"
        "\n"
        "erf, written into input: its shape and dtype stay."},
    {"erfc", AS(method_erfc), FAST,
        "erfc($self, /)\n"
        "--\n"
        "\n"
        "1 - erf(x), exact where that is small."},
    {"erfc_", AS(method_erfc_), FAST,
        "erfc_($self, /)\n"
        "--\n"
        "\n"
        "erfc, written into input: its shape and dtype stay."},
    {"sigmoid", AS(method_sigmoid), FAST,
        "sigmoid($self, /)\n"
        "--\n"
        "\n"
        "1 / (1 + e^-x)."},
    {"sigmoid_", AS(method_sigmoid_), FAST,
        "sigmoid_($self, /)\n"
        "--\n"
        "\n"
        "sigmoid, written into input: its shape and dtype stay."},
    {"relu", AS(method_relu), FAST,
        "relu($self, /)\n"
        "--\n"
        "\n"
        "max(x, 0); gradient 0 at 0."},
    {"relu_", AS(method_relu_), FAST,
        "relu_($self, /)\n"
        "--\n"
        "\n"
        "relu, written into input: its shape and dtype stay."},
    {"leaky_relu", AS(method_leaky_relu), FAST,
        "leaky_relu($self, /, negative_slope=0.01)\n"
        "--\n"
        "\n"
        "x where x > 0, else slope x."},
    {"leaky_relu_", AS(method_leaky_relu_), FAST,
        "leaky_relu_($self, /, negative_slope=0.01)\n"
        "--\n"
        "\n"
        "leaky_relu, written into input: its shape and dtype stay."},
    {"elu", AS(method_elu), FAST,
        "elu($self, /, alpha=1.0)\n"
        "--\n"
        "\n"
        "x where x > 0, else alpha (e^x - 1)."},
    {"elu_", AS(method_elu_), FAST,
        "elu_($self, /, alpha=1.0)\n"
        "--\n"
        "\n"
        "elu, written into input: its shape and dtype stay."},
    {"selu", AS(method_selu), FAST,
        "selu($self, /)\n"
        "--\n"
        "\n"
        "1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al. 2017)."},
    {"selu_", AS(method_selu_), FAST,
        "selu_($self, /)\n"
        "--\n"
        "\n"
        "selu, written into input: its shape and dtype stay."},
    {"celu", AS(method_celu), FAST,
        "celu($self, /, alpha=1.0)\n"
        "--\n"
        "\n"
        "x where x > 0, else alpha (e^(x / alpha) - 1)."},
    {"celu_", AS(method_celu_), FAST,
        "celu_($self, /, alpha=1.0)\n"
        "--\n"
        "\n"
        "celu, written into input: its shape and dtype stay."},
    {"silu", AS(method_silu), FAST,
        "silu($self, /)\n"
        "--\n"
        "\n"
        "x sigmoid(x)."},
    {"silu_", AS(method_silu_), FAST,
        "silu_($self, /)\n"
        "--\n"
        "\n"
        "silu, written into input: its shape and dtype stay."},
    {"mish", AS(method_mish), FAST,
        "mish($self, /)\n"
        "--\n"
        "\n"
        "x tanh(softplus(x))."},
    {"mish_", AS(method_mish_), FAST,
        "mish_($self, /)\n"
        "--\n"
        "\n"
        "mish, written into input: its shape and dtype stay."},
    {"softplus", AS(method_softplus), FAST,
        "softplus($self, /, beta=1.0, threshold=20.0)\n"
        "--\n"
        "\n"
        "log(1 + e^(beta x)) / beta; x where beta x > threshold."},
    {"softplus_", AS(method_softplus_), FAST,
        "softplus_($self, /, beta=1.0, threshold=20.0)\n"
        "--\n"
        "\n"
        "softplus, written into input: its shape and dtype stay."},
    {"softsign", AS(method_softsign), FAST,
        "softsign($self, /)\n"
        "--\n"
        "\n"
        "x / (1 + |x|)."},
    {"softsign_", AS(method_softsign_), FAST,
        "softsign_($self, /)\n"
        "--\n"
        "\n"
        "softsign, written into input: its shape and dtype stay."},
    {"hardtanh", AS(method_hardtanh), FAST,
        "hardtanh($self, /, min_val=-1.0, max_val=1.0)\n"
        "--\n"
        "\n"
        "min(max(x, min), max); gradient 0 at the bounds."},
    {"hardtanh_", AS(method_hardtanh_), FAST,
        "hardtanh_($self, /, min_val=-1.0, max_val=1.0)\n"
        "--\n"
        "\n"
        "hardtanh, written into input: its shape and dtype stay."},
    {"hardsigmoid", AS(method_hardsigmoid), FAST,
        "hardsigmoid($self, /)\n"
        "--\n"
        "\n"
        "min(max(x + 3, 0), 6) / 6."},
    {"hardsigmoid_", AS(method_hardsigmoid_), FAST,
        "hardsigmoid_($self, /)\n"
        "--\n"
        "\n"
        "hardsigmoid, written into input: its shape and dtype stay."},
    {"hardswish", AS(method_hardswish), FAST,
        "hardswish($self, /)\n"
        "--\n"
        "\n"
        "x hardsigmoid(x)."},
    {"hardswish_", AS(method_hardswish_), FAST,
        "hardswish_($self, /)\n"
        "--\n"
        "\n"
        "hardswish, written into input: its shape and dtype stay."},
    {"relu6", AS(method_relu6), FAST,
        "relu6($self, /)\n"
        "--\n"
        "\n"
        "min(max(x, 0), 6)."},
    {"relu6_", AS(method_relu6_), FAST,
        "relu6_($self, /)\n"
        "--\n"
        "\n"
        "relu6, written into input: its shape and dtype stay."},
    {"logsigmoid", AS(method_logsigmoid), FAST,
        "logsigmoid($self, /)\n"
        "--\n"
        "\n"
        "log(sigmoid(x))."},
    {"logsigmoid_", AS(method_logsigmoid_), FAST,
        "logsigmoid_($self, /)\n"
        "--\n"
        "\n"
        "logsigmoid, written into input: its shape and dtype stay."},
    {"floor", AS(method_floor), FAST,
        "floor($self, /)\n"
        "--\n"
        "\n"
        "next integer below."},
    {"floor_", AS(method_floor_), FAST,
        "floor_($self, /)\n"
        "--\n"
        "\n"
        "floor, written into input: its shape and dtype stay."},
    {"ceil", AS(method_ceil), FAST,
        "ceil($self, /)\n"
        "--\n"
        "\n"
        "next integer above."},
    {"ceil_", AS(method_ceil_), FAST,
        "ceil_($self, /)\n"
        "--\n"
        "\n"
        "ceil, written into input: its shape and dtype stay."},
    {"trunc", AS(method_trunc), FAST,
        "trunc($self, /)\n"
        "--\n"
        "\n"
        "next integer towards 0."},
    {"trunc_", AS(method_trunc_), FAST,
        "trunc_($self, /)\n"
        "--\n"
        "\n"
        "trunc, written into input: its shape and dtype stay."},
    {"frac", AS(method_frac), FAST,
        "frac($self, /)\n"
        "--\n"
        "\n"
        "x - trunc(x)."},
    {"frac_", AS(method_frac_), FAST,
        "frac_($self, /)\n"
        "--\n"
        "\n"
        "frac, written into input: its shape and dtype stay."},
    {"isnan", AS(method_isnan), FAST,
        "isnan($self, /)\n"
        "--\n"
        "\n"
        "is x NaN?."},
    {"isinf", AS(method_isinf), FAST,
        "isinf($self, /)\n"
        "--\n"
        "\n"
        "is x an infinity?."},
    {"isposinf", AS(method_isposinf), FAST,
        "isposinf($self, /)\n"
        "--\n"
        "\n"
        "is x +infinity?."},
    {"isneginf", AS(method_isneginf), FAST,
        "isneginf($self, /)\n"
        "--\n"
        "\n"
        "is x -infinity?."},
    {"isfinite", AS(method_isfinite), FAST,
        "isfinite($self, /)\n"
        "--\n"
        "\n"
        "is x neither NaN nor an infinity?."},
    {"signbit", AS(method_signbit), FAST,
        "signbit($self, /)\n"
        "--\n"
        "\n"
        "is x negative, or -0?."},
    {"eq", AS(method_eq), FAST,
        "eq($self, /, other)\n"
        "--\n"
        "\n"
        "a == b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"eq_", AS(method_eq_), FAST,
        "eq_($self, /, other)\n"
        "--\n"
        "\n"
        "eq, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"ne", AS(method_ne), FAST,
        "ne($self, /, other)\n"
        "--\n"
        "\n"
        "a != b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"ne_", AS(method_ne_), FAST,
        "ne_($self, /, other)\n"
        "--\n"
        "\n"
        "ne, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"lt", AS(method_lt), FAST,
        "lt($self, /, other)\n"
        "--\n"
        "\n"
        "a < b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"lt_", AS(method_lt_), FAST,
        "lt_($self, /, other)\n"
        "--\n"
        "\n"
        "lt, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"le", AS(method_le), FAST,
        "le($self, /, other)\n"
        "--\n"
        "\n"
        "a <= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"le_", AS(method_le_), FAST,
        "le_($self, /, other)\n"
        "--\n"
        "\n"
        "le, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"gt", AS(method_gt), FAST,
        "gt($self, /, other)\n"
        "--\n"
        "\n"
        "a > b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"gt_", AS(method_gt_), FAST,
        "gt_($self, /, other)\n"
        "--\n"
        "\n"
        "gt, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"ge", AS(method_ge), FAST,
        "ge($self, /, other)\n"
        "--\n"
        "\n"
        "a >= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"ge_", AS(method_ge_), FAST,
        "ge_($self, /, other)\n"
        "--\n"
        "\n"
        "ge, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_and", AS(method_logical_and), FAST,
        "logical_and($self, /, other)\n"
        "--\n"
        "\n"
        "a and b, true where not 0.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_and_", AS(method_logical_and_), FAST,
        "logical_and_($self, /, other)\n"
        "--\n"
        "\n"
        "logical_and, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_or", AS(method_logical_or), FAST,
        "logical_or($self, /, other)\n"
        "--\n"
        "\n"
        "a or b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_or_", AS(method_logical_or_), FAST,
        "logical_or_($self, /, other)\n"
        "--\n"
        "\n"
        "logical_or, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_xor", AS(method_logical_xor), FAST,
        "logical_xor($self, /, other)\n"
        "--\n"
        "\n"
        "either a or b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_xor_", AS(method_logical_xor_), FAST,
        "logical_xor_($self, /, other)\n"
        "--\n"
        "\n"
        "logical_xor, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"logical_not", AS(method_logical_not), FAST,
        "logical_not($self, /)\n"
        "--\n"
        "\n"
        "not x."},
    {"logical_not_", AS(method_logical_not_), FAST,
        "logical_not_($self, /)\n"
        "--\n"
        "\n"
        "logical_not, written into input: its shape and dtype stay."},
    {"bitwise_and", AS(method_bitwise_and), FAST,
        "bitwise_and($self, /, other)\n"
        "--\n"
        "\n"
        "a & b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_and_", AS(method_bitwise_and_), FAST,
        "bitwise_and_($self, /, other)\n"
        "--\n"
        "\n"
        "bitwise_and, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_or", AS(method_bitwise_or), FAST,
        "bitwise_or($self, /, other)\n"
        "--\n"
        "\n"
        "a | b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_or_", AS(method_bitwise_or_), FAST,
        "bitwise_or_($self, /, other)\n"
        "--\n"
        "\n"
        "bitwise_or, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_xor", AS(method_bitwise_xor), FAST,
        "bitwise_xor($self, /, other)\n"
        "--\n"
        "\n"
        "a ^ b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_xor_", AS(method_bitwise_xor_), FAST,
        "bitwise_xor_($self, /, other)\n"
        "--\n"
        "\n"
        "bitwise_xor, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_not", AS(method_bitwise_not), FAST,
        "bitwise_not($self, /)\n"
        "--\n"
        "\n"
        "~x; bool: not x."},
    {"bitwise_not_", AS(method_bitwise_not_), FAST,
        "bitwise_not_($self, /)\n"
        "--\n"
        "\n"
        "bitwise_not, written into input: its shape and dtype stay."},
    {"bitwise_left_shift", AS(method_bitwise_left_shift), FAST,
        "bitwise_left_shift($self, /, other)\n"
        "--\n"
        "\n"
        "a << b; 0 where b < 0 or b >= the width.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_left_shift_", AS(method_bitwise_left_shift_), FAST,
        "bitwise_left_shift_($self, /, other)\n"
        "--\n"
        "\n"
        "bitwise_left_shift, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_right_shift", AS(method_bitwise_right_shift), FAST,
        "bitwise_right_shift($self, /, other)\n"
        "--\n"
        "\n"
        "a >> b, keeps the sign.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"bitwise_right_shift_", AS(method_bitwise_right_shift_), FAST,
        "bitwise_right_shift_($self, /, other)\n"
        "--\n"
        "\n"
        "bitwise_right_shift, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"absolute", AS(method_abs), FAST,
        "absolute($self, /)\n"
        "--\n"
        "\n"
        "The same as abs.  |x|; gradient 0 at 0."},
    {"negative", AS(method_neg), FAST,
        "negative($self, /)\n"
        "--\n"
        "\n"
        "The same as neg.  -x."},
    {"multiply", AS(method_mul), FAST,
        "multiply($self, /, other)\n"
        "--\n"
        "\n"
        "The same as mul.  a * b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"subtract", AS(method_sub), FAST,
        "subtract($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "The same as sub.  input - alpha other"},
    {"divide", AS(method_div), FAST,
        "divide($self, /, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "The same as div.  input / other; rounding_mode \"trunc\" rounds the result towards 0, \"floor\" down."},
    {"true_divide", AS(method_div), FAST,
        "true_divide($self, /, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "The same as div.  input / other; rounding_mode \"trunc\" rounds the result towards 0, \"floor\" down."},
    {"greater", AS(method_gt), FAST,
        "greater($self, /, other)\n"
        "--\n"
        "\n"
        "The same as gt.  a > b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"greater_equal", AS(method_ge), FAST,
        "greater_equal($self, /, other)\n"
        "--\n"
        "\n"
        "The same as ge.  a >= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"less", AS(method_lt), FAST,
        "less($self, /, other)\n"
        "--\n"
        "\n"
        "The same as lt.  a < b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"less_equal", AS(method_le), FAST,
        "less_equal($self, /, other)\n"
        "--\n"
        "\n"
        "The same as le.  a <= b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"not_equal", AS(method_ne), FAST,
        "not_equal($self, /, other)\n"
        "--\n"
        "\n"
        "The same as ne.  a != b.  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fix", AS(method_trunc), FAST,
        "fix($self, /)\n"
        "--\n"
        "\n"
        "The same as trunc.  next integer towards 0."},
    {"clip", AS(method_clamp), FAST,
        "clip($self, /, min=None, max=None)\n"
        "--\n"
        "\n"
        "The same as clamp.  Values below min become min, values above max become max; at least one of them is given."},
    {"swapaxes", AS(method_transpose), FAST,
        "swapaxes($self, /, dim0, dim1)\n"
        "--\n"
        "\n"
        "The same as transpose.  A view with two axes swapped.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"swapdims", AS(method_transpose), FAST,
        "swapdims($self, /, dim0, dim1)\n"
        "--\n"
        "\n"
        "The same as transpose.  A view with two axes swapped.\n"
        "IndexError: an axis outside -ndim ... ndim - 1."},
    {"moveaxis", AS(method_movedim), FAST,
        "moveaxis($self, /, source, destination)\n"
        "--\n"
        "\n"
        "The same as movedim.  A view with the axes source moved to destination; the others keep their order."},
    {"arccos", AS(method_acos), FAST,
        "arccos($self, /)\n"
        "--\n"
        "\n"
        "The same as acos.  inverse cosine."},
    {"arccosh", AS(method_acosh), FAST,
        "arccosh($self, /)\n"
        "--\n"
        "\n"
        "The same as acosh.  inverse hyperbolic cosine."},
    {"ger", AS(method_outer), FAST,
        "ger($self, /, vec2)\n"
        "--\n"
        "\n"
        "The same as outer.  (M) (N) -> (M, N): all products"},
    {"arcsin", AS(method_asin), FAST,
        "arcsin($self, /)\n"
        "--\n"
        "\n"
        "The same as asin.  inverse sine."},
    {"arcsinh", AS(method_asinh), FAST,
        "arcsinh($self, /)\n"
        "--\n"
        "\n"
        "The same as asinh.  inverse hyperbolic sine."},
    {"arctan", AS(method_atan), FAST,
        "arctan($self, /)\n"
        "--\n"
        "\n"
        "The same as atan.  inverse tangent."},
    {"arctan2", AS(method_atan2), FAST,
        "arctan2($self, /, other)\n"
        "--\n"
        "\n"
        "The same as atan2.  angle of the point (b, a); gradient 0 at (0, 0).  Shapes broadcast, dtypes promote.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"arctanh", AS(method_atanh), FAST,
        "arctanh($self, /)\n"
        "--\n"
        "\n"
        "The same as atanh.  inverse hyperbolic tangent."},
    {"absolute_", AS(method_abs_), FAST,
        "absolute_($self, /)\n"
        "--\n"
        "\n"
        "The same as abs_.  abs, written into input: its shape and dtype stay."},
    {"negative_", AS(method_neg_), FAST,
        "negative_($self, /)\n"
        "--\n"
        "\n"
        "The same as neg_.  neg, written into input: its shape and dtype stay."},
    {"multiply_", AS(method_mul_), FAST,
        "multiply_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as mul_.  mul, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"subtract_", AS(method_sub_), FAST,
        "subtract_($self, /, other, *, alpha=1)\n"
        "--\n"
        "\n"
        "The same as sub_.  input - alpha other, written into input."},
    {"divide_", AS(method_div_), FAST,
        "divide_($self, /, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "The same as div_.  input / other, written into input; rounding_mode as in div."},
    {"true_divide_", AS(method_div_), FAST,
        "true_divide_($self, /, other, *, rounding_mode=None)\n"
        "--\n"
        "\n"
        "The same as div_.  input / other, written into input; rounding_mode as in div."},
    {"greater_", AS(method_gt_), FAST,
        "greater_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as gt_.  gt, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"greater_equal_", AS(method_ge_), FAST,
        "greater_equal_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as ge_.  ge, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"less_", AS(method_lt_), FAST,
        "less_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as lt_.  lt, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"less_equal_", AS(method_le_), FAST,
        "less_equal_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as le_.  le, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"not_equal_", AS(method_ne_), FAST,
        "not_equal_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as ne_.  ne, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"fix_", AS(method_trunc_), FAST,
        "fix_($self, /)\n"
        "--\n"
        "\n"
        "The same as trunc_.  trunc, written into input: its shape and dtype stay."},
    {"clip_", AS(method_clamp_), FAST,
        "clip_($self, /, min=None, max=None)\n"
        "--\n"
        "\n"
        "The same as clamp_.  clamp, written into input."},
    {"arccos_", AS(method_acos_), FAST,
        "arccos_($self, /)\n"
        "--\n"
        "\n"
        "The same as acos_.  acos, written into input: its shape and dtype stay."},
    {"arccosh_", AS(method_acosh_), FAST,
        "arccosh_($self, /)\n"
        "--\n"
        "\n"
        "The same as acosh_.  acosh, written into input: its shape and dtype stay."},
    {"arcsin_", AS(method_asin_), FAST,
        "arcsin_($self, /)\n"
        "--\n"
        "\n"
        "The same as asin_.  asin, written into input: its shape and dtype stay."},
    {"arcsinh_", AS(method_asinh_), FAST,
        "arcsinh_($self, /)\n"
        "--\n"
        "\n"
        "The same as asinh_.  asinh, written into input: its shape and dtype stay."},
    {"arctan_", AS(method_atan_), FAST,
        "arctan_($self, /)\n"
        "--\n"
        "\n"
        "The same as atan_.  atan, written into input: its shape and dtype stay."},
    {"arctan2_", AS(method_atan2_), FAST,
        "arctan2_($self, /, other)\n"
        "--\n"
        "\n"
        "The same as atan2_.  atan2, written into input: its shape and dtype stay.\n"
        "RuntimeError: shapes that do not broadcast."},
    {"arctanh_", AS(method_atanh_), FAST,
        "arctanh_($self, /)\n"
        "--\n"
        "\n"
        "The same as atanh_.  atanh, written into input: its shape and dtype stay."},
    {0}
};
