/* ops.h - functions of tensors: a part of chainrule.h. */
#ifndef CHAINRULE_H
#error "include <chainrule.h>, which includes this part"
#endif
#ifndef CHAINRULE_OPS_H
#define CHAINRULE_OPS_H

/* ---- elementwise: shapes broadcast, dtypes promote; generated from src/ops/ops.def ----------- */
/* generated: begin */
/* arithmetic */
cr_tensor *cr_add(const cr_tensor *a, const cr_tensor *b);  /* a + b */
cr_tensor *cr_sub(const cr_tensor *a, const cr_tensor *b);  /* a - b */
cr_tensor *cr_mul(const cr_tensor *a, const cr_tensor *b);  /* a * b */
cr_tensor *cr_div(const cr_tensor *a, const cr_tensor *b);  /* a / b */
cr_tensor *cr_floor_divide(const cr_tensor *a, const cr_tensor *b);
                            /* floor(a / b); integers: an error where b is 0 */
cr_tensor *cr_trunc_divide(const cr_tensor *a, const cr_tensor *b);
                            /* trunc(a / b); integers: an error where b is 0 */
cr_tensor *cr_remainder(const cr_tensor *a, const cr_tensor *b);
                            /* a - b floor(a / b): b's sign; integers: an error where b is 0 */
cr_tensor *cr_fmod(const cr_tensor *a, const cr_tensor *b);
                            /* a - b trunc(a / b): a's sign; integers: an error where b is 0 */
cr_tensor *cr_pow(const cr_tensor *a, const cr_tensor *b);  /* a to the b; 0 to the 0 is 1 */
cr_tensor *cr_maximum(const cr_tensor *a, const cr_tensor *b);
                            /* the larger; NaN wins, ties share the gradient */
cr_tensor *cr_minimum(const cr_tensor *a, const cr_tensor *b);
                            /* the smaller; NaN wins, ties share the gradient */
cr_tensor *cr_fmax(const cr_tensor *a, const cr_tensor *b);
                            /* the larger; a number wins over NaN; ties give the gradient to a */
cr_tensor *cr_fmin(const cr_tensor *a, const cr_tensor *b);
                            /* the smaller; a number wins over NaN; ties give the gradient to a */
cr_tensor *cr_clamp(const cr_tensor *x, double min, double max);
                            /* min(max(x, min), max); gradient 1 at the bounds */
cr_tensor *cr_clamp_min(const cr_tensor *x, const cr_tensor *min);
                            /* max(x, min); at the bound the gradient is x's */
cr_tensor *cr_clamp_max(const cr_tensor *x, const cr_tensor *max);
                            /* min(x, max); at the bound the gradient is x's */
cr_tensor *cr_neg(const cr_tensor *x);                      /* -x */
cr_tensor *cr_abs(const cr_tensor *x);                      /* |x|; gradient 0 at 0 */
cr_tensor *cr_nan_to_num(const cr_tensor *x, double nan, double posinf, double neginf);
                            /* x with NaN and the infinities replaced; gradient 0 there */
cr_tensor *cr_sign(const cr_tensor *x);                     /* -1, 0 or 1 */
cr_tensor *cr_copysign(const cr_tensor *a, const cr_tensor *b);
                            /* |a| with the sign of b; gradient 0 at 0 */
cr_tensor *cr_square(const cr_tensor *x);                   /* x^2 */
cr_tensor *cr_hypot(const cr_tensor *a, const cr_tensor *b); /* sqrt(a^2 + b^2), no overflow */
cr_tensor *cr_reciprocal(const cr_tensor *x);               /* 1 / x */
cr_tensor *cr_sqrt(const cr_tensor *x);                     /* square root */
cr_tensor *cr_rsqrt(const cr_tensor *x);                    /* 1 / sqrt(x) */
cr_tensor *cr_where(const cr_tensor *c, const cr_tensor *a, const cr_tensor *b);
                            /* a where c, else b; c is bool */
cr_tensor *cr_lerp(const cr_tensor *a, const cr_tensor *end, const cr_tensor *weight);
                            /* a + weight (end - a) */
cr_tensor *cr_addcmul(const cr_tensor *x, const cr_tensor *tensor1, const cr_tensor *tensor2,
                      double value);                        /* x + value tensor1 tensor2 */
cr_tensor *cr_addcdiv(const cr_tensor *x, const cr_tensor *tensor1, const cr_tensor *tensor2,
                      double value);                        /* x + value tensor1 / tensor2 */

/* exponentials and logarithms */
cr_tensor *cr_exp(const cr_tensor *x);                      /* e^x */
cr_tensor *cr_exp2(const cr_tensor *x);                     /* 2^x */
cr_tensor *cr_expm1(const cr_tensor *x);                    /* e^x - 1, exact near 0 */
cr_tensor *cr_log(const cr_tensor *x);                      /* natural logarithm */
cr_tensor *cr_log2(const cr_tensor *x);                     /* logarithm to the base 2 */
cr_tensor *cr_log10(const cr_tensor *x);                    /* logarithm to the base 10 */
cr_tensor *cr_logaddexp(const cr_tensor *a, const cr_tensor *b); /* log(e^a + e^b), no overflow */
cr_tensor *cr_logaddexp2(const cr_tensor *a, const cr_tensor *b); /* log2(2^a + 2^b), no overflow */
cr_tensor *cr_xlogy(const cr_tensor *a, const cr_tensor *b);
                            /* a log(b); 0 where a is 0 and b is a number */
cr_tensor *cr_logit(const cr_tensor *x, double eps);
                            /* log(z / (1 - z)), z = x clamped to [eps, 1 - eps], gradient 0
                               outside; eps -INFINITY: z = x */
cr_tensor *cr_log1p(const cr_tensor *x);                    /* log(1 + x), exact near 0 */

/* trigonometry */
cr_tensor *cr_sin(const cr_tensor *x);                      /* sine */
cr_tensor *cr_cos(const cr_tensor *x);                      /* cosine */
cr_tensor *cr_tan(const cr_tensor *x);                      /* tangent */
cr_tensor *cr_asin(const cr_tensor *x);                     /* inverse sine */
cr_tensor *cr_acos(const cr_tensor *x);                     /* inverse cosine */
cr_tensor *cr_atan(const cr_tensor *x);                     /* inverse tangent */
cr_tensor *cr_atan2(const cr_tensor *a, const cr_tensor *b);
                            /* angle of the point (b, a); gradient 0 at (0, 0) */
cr_tensor *cr_sinh(const cr_tensor *x);                     /* hyperbolic sine */
cr_tensor *cr_cosh(const cr_tensor *x);                     /* hyperbolic cosine */
cr_tensor *cr_tanh(const cr_tensor *x);                     /* hyperbolic tangent */
cr_tensor *cr_asinh(const cr_tensor *x);                    /* inverse hyperbolic sine */
cr_tensor *cr_acosh(const cr_tensor *x);                    /* inverse hyperbolic cosine */
cr_tensor *cr_atanh(const cr_tensor *x);                    /* inverse hyperbolic tangent */
cr_tensor *cr_deg2rad(const cr_tensor *x);                  /* degrees as radians */
cr_tensor *cr_rad2deg(const cr_tensor *x);                  /* radians as degrees */
cr_tensor *cr_sinc(const cr_tensor *x);                     /* sin(pi x) / (pi x); 1 at 0 */
cr_tensor *cr_erf(const cr_tensor *x);                      /* error function */
cr_tensor *cr_erfc(const cr_tensor *x); /* 1 - erf(x), exact where that is small */

/* special functions */
cr_tensor *cr_lgamma(const cr_tensor *x);                   /* log |Gamma(x)| */
cr_tensor *cr_digamma(const cr_tensor *x);                  /* the derivative of lgamma */
cr_tensor *cr_zeta(const cr_tensor *x, const cr_tensor *q);
                            /* Hurwitz's zeta function: the sum of (q + k)^-x, k = 0, 1 ...; x >
                               1, q > 0, no gradient for x */
cr_tensor *cr_erfinv(const cr_tensor *x); /* the inverse of erf; infinite at -1 and 1 */
cr_tensor *cr_ndtri(const cr_tensor *x);
                            /* the inverse of ndtr: the normal distribution's quantiles */
cr_tensor *cr_ndtr(const cr_tensor *x);                     /* the normal distribution function */
cr_tensor *cr_erfcx(const cr_tensor *x);                    /* exp(x^2) erfc(x) */
cr_tensor *cr_log_ndtr(const cr_tensor *x); /* log(ndtr(x)), also where that is small */
cr_tensor *cr_xlog1py(const cr_tensor *a, const cr_tensor *b);
                            /* a log(1 + b); 0 where a is 0 and b is a number */
cr_tensor *cr_entr(const cr_tensor *x);                     /* -x log(x); 0 at 0, -infinity below */
cr_tensor *cr_i0(const cr_tensor *x); /* modified Bessel function of the first kind, order 0 */
cr_tensor *cr_i0e(const cr_tensor *x);                      /* exp(-|x|) i0(x) */
cr_tensor *cr_i1(const cr_tensor *x); /* modified Bessel function of the first kind, order 1 */
cr_tensor *cr_i1e(const cr_tensor *x);                      /* exp(-|x|) i1(x) */

/* activations */
cr_tensor *cr_sigmoid(const cr_tensor *x);                  /* 1 / (1 + e^-x) */
cr_tensor *cr_relu(const cr_tensor *x);                     /* max(x, 0); gradient 0 at 0 */
cr_tensor *cr_leaky_relu(const cr_tensor *x, double negative_slope);
                            /* x where x > 0, else negative_slope x */
cr_tensor *cr_elu(const cr_tensor *x, double alpha); /* x where x > 0, else alpha (e^x - 1) */
cr_tensor *cr_selu(const cr_tensor *x);
                            /* 1.0507 (x where x > 0, else 1.6733 (e^x - 1)) (Klambauer et al.
                               2017) */
cr_tensor *cr_celu(const cr_tensor *x, double alpha);
                            /* x where x > 0, else alpha (e^(x / alpha) - 1) */
cr_tensor *cr_gelu(const cr_tensor *x); /* x Phi(x), Phi the normal distribution */
cr_tensor *cr_gelu_tanh(const cr_tensor *x);
                            /* x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): GPT-2's gelu */
cr_tensor *cr_silu(const cr_tensor *x);                     /* x sigmoid(x) */
cr_tensor *cr_swiglu(const cr_tensor *gate, const cr_tensor *up);
                            /* silu(gate) up: a gated linear unit (Shazeer 2020) */
cr_tensor *cr_geglu(const cr_tensor *gate, const cr_tensor *up); /* gelu(gate) up (Shazeer 2020) */
cr_tensor *cr_mish(const cr_tensor *x);                     /* x tanh(softplus(x)) */
cr_tensor *cr_softplus(const cr_tensor *x, double beta, double threshold);
                            /* log(1 + e^(beta x)) / beta; x where beta x > threshold */
cr_tensor *cr_softsign(const cr_tensor *x);                 /* x / (1 + |x|) */
cr_tensor *cr_hardtanh(const cr_tensor *x, double min_val, double max_val);
                            /* min(max(x, min_val), max_val); gradient 0 at the bounds */
cr_tensor *cr_hardsigmoid(const cr_tensor *x);              /* min(max(x + 3, 0), 6) / 6 */
cr_tensor *cr_hardswish(const cr_tensor *x);                /* x hardsigmoid(x) */
cr_tensor *cr_relu6(const cr_tensor *x);                    /* min(max(x, 0), 6) */
cr_tensor *cr_logsigmoid(const cr_tensor *x);               /* log(sigmoid(x)) */

/* rounding */
cr_tensor *cr_floor(const cr_tensor *x);                    /* next integer below */
cr_tensor *cr_ceil(const cr_tensor *x);                     /* next integer above */
cr_tensor *cr_round(const cr_tensor *x);                    /* nearest integer, ties to even */
cr_tensor *cr_trunc(const cr_tensor *x);                    /* next integer towards 0 */
cr_tensor *cr_frac(const cr_tensor *x);                     /* x - trunc(x) */

/* questions: the result is bool */
cr_tensor *cr_isnan(const cr_tensor *x);                    /* is x NaN? */
cr_tensor *cr_isinf(const cr_tensor *x);                    /* is x an infinity? */
cr_tensor *cr_isposinf(const cr_tensor *x);                 /* is x +infinity? */
cr_tensor *cr_isneginf(const cr_tensor *x);                 /* is x -infinity? */
cr_tensor *cr_isfinite(const cr_tensor *x);                 /* is x neither NaN nor an infinity? */
cr_tensor *cr_signbit(const cr_tensor *x);                  /* is x negative, or -0? */
cr_tensor *cr_eq(const cr_tensor *a, const cr_tensor *b);   /* a == b */
cr_tensor *cr_ne(const cr_tensor *a, const cr_tensor *b);   /* a != b */
cr_tensor *cr_lt(const cr_tensor *a, const cr_tensor *b);   /* a < b */
cr_tensor *cr_le(const cr_tensor *a, const cr_tensor *b);   /* a <= b */
cr_tensor *cr_gt(const cr_tensor *a, const cr_tensor *b);   /* a > b */
cr_tensor *cr_ge(const cr_tensor *a, const cr_tensor *b);   /* a >= b */
cr_tensor *cr_logical_and(const cr_tensor *a, const cr_tensor *b); /* a and b, true where not 0 */
cr_tensor *cr_logical_or(const cr_tensor *a, const cr_tensor *b); /* a or b */
cr_tensor *cr_logical_xor(const cr_tensor *a, const cr_tensor *b); /* either a or b */
cr_tensor *cr_logical_not(const cr_tensor *x);              /* not x */

/* bits: integers and bool */
cr_tensor *cr_bitwise_and(const cr_tensor *a, const cr_tensor *b); /* a & b */
cr_tensor *cr_bitwise_or(const cr_tensor *a, const cr_tensor *b); /* a | b */
cr_tensor *cr_bitwise_xor(const cr_tensor *a, const cr_tensor *b); /* a ^ b */
cr_tensor *cr_bitwise_not(const cr_tensor *x);              /* ~x; bool: not x */
cr_tensor *cr_left_shift(const cr_tensor *a, const cr_tensor *b);
                            /* a << b; 0 where b < 0 or b >= the width */
cr_tensor *cr_right_shift(const cr_tensor *a, const cr_tensor *b); /* a >> b, keeps the sign */
/* generated: end */

/* more elementwise functions */
cr_tensor *cr_nextafter(const cr_tensor *a, const cr_tensor *b);
                            /* next number after a towards b; floats; no gradient */
cr_tensor *cr_add_scalar(const cr_tensor *x, double s); /* x + s: as cr_add(x, cr_scalar(s)) */
cr_tensor *cr_sub_scalar(const cr_tensor *x, double s); /* x - s */
cr_tensor *cr_mul_scalar(const cr_tensor *x, double s); /* x * s */
cr_tensor *cr_div_scalar(const cr_tensor *x, double s); /* x / s */
cr_tensor *cr_pow_scalar(const cr_tensor *x, double s); /* x^s */

/* in place: x keeps its shape and dtype; returns x (borrowed) or NULL */
cr_tensor *cr_add_(cr_tensor *x, const cr_tensor *y);   /* x += y */
cr_tensor *cr_sub_(cr_tensor *x, const cr_tensor *y);   /* x -= y */
cr_tensor *cr_mul_(cr_tensor *x, const cr_tensor *y);   /* x *= y */
cr_tensor *cr_div_(cr_tensor *x, const cr_tensor *y);   /* x /= y */
cr_tensor *cr_copy_(cr_tensor *x, const cr_tensor *y);  /* x = y, broadcast and cast */
cr_tensor *cr_fill_(cr_tensor *x, double value);        /* x = value */

/* ---- fused elementwise expressions: one pass over memory, differentiable to any order -------- */
/* cr_program_new("silu_mul", "a b", "", "y = a * sigmoid(a) * b; y").  The body may call every
 * elementwise function above and use + - * / **, comparisons, unary -, numbers, and params (numbers
 * passed at each run).  Statements end with ';'.  The last one lists the results with commas. */
typedef struct cr_program cr_program;
cr_program       *cr_program_new(const char *name, const char *inputs, const char *params,
                                 const char *body);
const cr_program *cr_program_find(const char *name);
                            /* a function above, or an update of docs/ops.md ("adamw"); borrowed */
int         cr_program_inputs(const cr_program *p, int *results, int *params);
                            /* returns the number of inputs (-1: p is NULL); *results, *params
                               (or NULL): their numbers */
void        cr_program_free(cr_program *p);         /* graphs that use p keep it alive */
cr_tensor  *cr_program_apply(const cr_program *p, int n, const cr_tensor *const *in,
                             const double *params); /* p must have one result */
cr_tensor  *cr_program_apply_(const cr_program *p, cr_tensor *x, int n, const cr_tensor *const *in,
                              const double *params);
                            /* writes into x, which may be an input; returns x (borrowed) */
cr_status   cr_program_update(const cr_program *p, int64_t count, cr_tensor *const *out,
                              const cr_tensor *const *in, const double *params);
                            /* update `count` sets of tensors in place, no gradient; set i has
                               results out[i * results + r] and inputs in[i * inputs + k] */
cr_status   cr_program_params(const cr_program *p, int n, const char *const *names,
                              const double *values, double *params);
                            /* params of an update from n named options: "lr", "beta1"...;
                               docs/ops.md */
cr_status   cr_program_update_product(const cr_program *p, cr_tensor *const *out,
                                      const cr_tensor *const *in, const double *params, int input,
                                      const cr_tensor *a, const cr_tensor *b, bool *taken);
                            /* one set; its input number `input` is the product a b, computed in
                               pieces; in[input] is any tensor with the product's shape and
                               dtype; *taken false: unsupported, nothing written */

/* ---- shape, views, copies */
cr_tensor *cr_reshape(const cr_tensor *x, int n, const int64_t *shape);
                            /* one size may be -1; a view where possible */
cr_tensor *cr_view(const cr_tensor *x, int n, const int64_t *shape);
                            /* the same; an error if it needs a copy */
cr_tensor *cr_view_dtype(const cr_tensor *x, cr_dtype dt);
                            /* view: the bytes of x as elements of dt, outside the graph; the last
                               axis (of stride 1) has k times as many or as few, where the sizes
                               of the dtypes differ by k */
cr_tensor *cr_transpose(const cr_tensor *x, int a, int b); /* view */
cr_tensor *cr_permute(const cr_tensor *x, int n, const int64_t *axes); /* view */
cr_tensor *cr_slice(const cr_tensor *x, int axis, int64_t start, int64_t stop, int64_t step);
                            /* view: x[start:stop:step], Python's rules */
cr_tensor *cr_select(const cr_tensor *x, int axis, int64_t index); /* view without the axis */
typedef struct cr_part { int64_t start, stop, step; } cr_part;
                            /* Python's slice; step < 0: backwards, and stop INT64_MIN: through
                               element 0; step 0: select index `start` and drop the axis */
cr_tensor *cr_index(const cr_tensor *x, int n, const cr_part *parts);
                            /* view: one part for each of the first n axes */
cr_tensor *cr_expand(const cr_tensor *x, int n, const int64_t *shape); /* view; -1 keeps a size */
cr_tensor *cr_squeeze(const cr_tensor *x, int n, const int64_t *axes);
                            /* view; CR_ALL: every axis of size 1 */
cr_tensor *cr_unsqueeze(const cr_tensor *x, int axis);  /* view */
cr_tensor *cr_flatten(const cr_tensor *x, int first, int last); /* axes first ... last as one */
cr_tensor *cr_unflatten(const cr_tensor *x, int axis, int n, const int64_t *sizes);
                            /* one axis as n; one size may be -1 */
cr_tensor *cr_movedim(const cr_tensor *x, int n, const int64_t *from, const int64_t *to);
                            /* view; the other axes keep their order */
cr_tensor *cr_narrow(const cr_tensor *x, int axis, int64_t start, int64_t length);
                            /* view: x[start : start + length] */
cr_tensor *cr_diagonal(const cr_tensor *x, int64_t offset, int axis1, int axis2);
                            /* view: x[i, i + offset] as the last axis */
cr_tensor *cr_diag_embed(const cr_tensor *x, int64_t offset, int axis1, int axis2);
                            /* inverse of cr_diagonal: x's last axis on a diagonal of two new
                               axes, else 0 */
cr_tensor *cr_diag(const cr_tensor *x, int64_t offset);
                            /* (N) -> matrix with this diagonal; matrix -> copy of its diagonal */
cr_tensor *cr_unfold(const cr_tensor *x, int axis, int64_t size, int64_t step);
                            /* view: windows x[i step : i step + size] along a new last axis */
cr_tensor *cr_as_strided(const cr_tensor *x, int ndim, const int64_t *shape,
                         const int64_t *strides, int64_t offset);
                            /* view: elements that lie `strides` apart in memory, from x's first
                               plus `offset` on, within those that x reaches; x in a graph:
                               contiguous */
cr_tensor *cr_contiguous(const cr_tensor *x);           /* a view if x is contiguous, else a copy */
cr_tensor *cr_clone(const cr_tensor *x);                /* copy */
cr_tensor *cr_to(const cr_tensor *x, cr_dtype dt, const cr_device *dev);
                            /* cast and copy to dev; a view if nothing changes */
cr_tensor *cr_cat(int n, const cr_tensor *const *in, int axis); /* join along an axis */
cr_tensor *cr_stack(int n, const cr_tensor *const *in, int axis); /* join along a new axis */
cr_status  cr_split(const cr_tensor *x, int64_t size, int axis, int n, cr_tensor **out);
                            /* n = ceil(dim / size) views */
cr_status  cr_split_sizes(const cr_tensor *x, int axis, int n, const int64_t *sizes,
                          cr_tensor **out);             /* n views; the sizes add up to the axis */
int        cr_split_chunks(const cr_tensor *x, int chunks, int axis, cr_tensor **out);
                            /* at most `chunks` equal views, the last may be smaller; returns
                               their number or -1 */
cr_status  cr_unbind(const cr_tensor *x, int axis, int n, cr_tensor **out);
                            /* n = size of the axis: views x[0], x[1]... */
cr_status  cr_meshgrid(int n, const cr_tensor *const *in, bool xy, cr_tensor **out);
                            /* n vectors as views of one shape, vector i along axis i; xy: axes 0
                               and 1 swapped */
cr_tensor *cr_flip(const cr_tensor *x, int n, const int64_t *axes);
                            /* copy, reversed along the axes (cr_index gives a view) */
cr_tensor *cr_roll(const cr_tensor *x, int n, const int64_t *shifts, const int64_t *axes);
                            /* y[(i + shift) mod size] = x[i]; axes NULL: one shift of the
                               flattened x */
cr_tensor *cr_repeat(const cr_tensor *x, int n, const int64_t *times);
                            /* x times[i] times along axis i; n >= ndim */
cr_tensor *cr_tile(const cr_tensor *x, int n, const int64_t *times);
                            /* the same; n < ndim: for the last n axes */
cr_tensor *cr_repeat_interleave(const cr_tensor *x, int64_t times, int axis);
                            /* each position `times` times */
cr_tensor *cr_repeat_interleave_by(const cr_tensor *x, const cr_tensor *counts, int axis);
                            /* position i counts[i] times; counts (N) or (1), i32 or i64 */
typedef enum cr_pad_mode {
    CR_PAD_CONSTANT, CR_PAD_REFLECT, CR_PAD_REPLICATE, CR_PAD_CIRCULAR
} cr_pad_mode;
cr_tensor *cr_pad(const cr_tensor *x, int n, const int64_t *sizes, cr_pad_mode mode, double value);
                            /* sizes: before and after the last axis, then the axis before it...;
                               negative: crop; value: for CR_PAD_CONSTANT */

/* ---- reductions: over n axes (CR_ALL: every axis); keepdim keeps them with size 1 ------------ */
cr_tensor *cr_sum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* integers and bool: i64 */
cr_tensor *cr_sum_squares(const cr_tensor *x); /* over all elements : (...) -> (); f16, bf16: f32 */
cr_tensor *cr_nansum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* NaN counts as 0 */
cr_tensor *cr_mean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim); /* floats only */
cr_tensor *cr_nanmean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* without NaN; floats only */
cr_tensor *cr_prod(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* integers and bool: i64; gradient exact at 0 */
cr_tensor *cr_max(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* NaN wins; ties share the gradient; empty: an error */
cr_tensor *cr_min(const cr_tensor *x, int n, const int64_t *axes, bool keepdim); /* as cr_max */
cr_tensor *cr_aminmax(const cr_tensor *x, int n, const int64_t *axes, bool keepdim,
                      cr_tensor **max); /* returns the minimum; *max: the maximum */
cr_tensor *cr_max_along(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index);
                            /* first maximum, which gets the gradient; *index (or NULL): its
                               position, i64 */
cr_tensor *cr_min_along(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index);
cr_tensor *cr_any(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* any element != 0; bool, u8 for u8; empty: false */
cr_tensor *cr_all(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* every element != 0; empty: true */
cr_tensor *cr_count_nonzero(const cr_tensor *x, int n, const int64_t *axes); /* i64 */
cr_tensor *cr_var(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim);
                            /* sum((x - mean)^2) / (N - correction); floats only */
cr_tensor *cr_std(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim);
                            /* sqrt(var); gradient 0 where that is 0; floats only */
int64_t    cr_sums_of_squares(int64_t n, const cr_tensor *const *x, cr_tensor **sums);
                            /* of n float tensors, each on its device, without waiting for it:
                               how many sums there are, at most n, -1: a failure; sums[i]: (), new;
                               not recorded */
cr_status  cr_total_norm(int64_t n, const cr_tensor *const *x, double *norm);
                            /* 2-norm of n float tensors as one vector, on any devices; not
                               recorded; waits for the devices */
cr_tensor *cr_norm(const cr_tensor *x, double p, int n, const int64_t *axes, bool keepdim);
                            /* sum(|x|^p)^(1/p); p inf, -inf: max, min of |x|; p 0: number of
                               elements != 0; gradient 0 at 0; floats only */
cr_tensor *cr_logsumexp(const cr_tensor *x, int n, const int64_t *axes, bool keepdim);
                            /* log(sum(exp(x))), no overflow; floats only */
cr_tensor *cr_argmax(const cr_tensor *x, int axis, bool keepdim);
                            /* position of the first maximum, i64 */
cr_tensor *cr_argmin(const cr_tensor *x, int axis, bool keepdim);
                            /* position of the first minimum, i64 */

/* ---- order: stable; NaN is larger than every number */
/* *index receives the positions (i64); pass NULL if they are not needed.  An axis (n, axis) is
 * CR_LIST(axis), or CR_ALL for all elements. */
cr_tensor *cr_sort(const cr_tensor *x, int axis, bool descending, cr_tensor **index);
cr_tensor *cr_argsort(const cr_tensor *x, int axis, bool descending);
cr_tensor *cr_topk(const cr_tensor *x, int64_t k, int axis, bool largest, cr_tensor **index);
                            /* the k largest (else smallest), sorted */
cr_tensor *cr_kthvalue(const cr_tensor *x, int64_t k, int axis, bool keepdim, cr_tensor **index);
                            /* the k-th smallest; k counts from 1 */
cr_tensor *cr_median(const cr_tensor *x, int n, const int64_t *axis, bool keepdim,
                     cr_tensor **index);
                            /* the lower of two middle elements; NaN if any is NaN; CR_ALL: ties
                               share the gradient */
cr_tensor *cr_nanmedian(const cr_tensor *x, int n, const int64_t *axis, bool keepdim,
                        cr_tensor **index); /* the same, without NaN */
cr_tensor *cr_mode(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index);
                            /* most frequent; ties: the smallest */
typedef enum cr_interpolation {
    CR_LINEAR, CR_LOWER, CR_HIGHER, CR_NEAREST, CR_MIDPOINT
} cr_interpolation;
cr_tensor *cr_quantile(const cr_tensor *x, const cr_tensor *q, int n, const int64_t *axis,
                       bool keepdim, cr_interpolation how, bool skip_nan);
                            /* q in [0, 1] : () or (Q), which becomes the first axis; a NaN makes
                               every quantile NaN unless skipped */
cr_tensor *cr_searchsorted(const cr_tensor *sorted, const cr_tensor *v, bool right,
                           const cr_tensor *sorter);
                            /* number of elements < v (right: <=), i64 : (R) or (..., R), (...,
                               K) -> (..., K); sorter: cr_argsort of an unsorted `sorted`, or
                               CR_NONE */
cr_tensor *cr_unique(const cr_tensor *x, int n, const int64_t *axis, cr_tensor **inverse,
                     cr_tensor **counts);
                            /* distinct elements, or slices along an axis, sorted; inverse,
                               counts: NULL if not needed; NaN equals nothing */
cr_tensor *cr_unique_consecutive(const cr_tensor *x, int n, const int64_t *axis,
                                 cr_tensor **inverse, cr_tensor **counts);
                            /* first element of each run of equal ones */
cr_tensor *cr_isclose(const cr_tensor *a, const cr_tensor *b, double rtol, double atol,
                      bool equal_nan);
                            /* bool: a == b or |a - b| <= atol + rtol |b|; equal_nan: NaN is
                               close to NaN */
cr_tensor *cr_allclose(const cr_tensor *a, const cr_tensor *b, double rtol, double atol,
                       bool equal_nan);     /* bool (): cr_isclose for every element */
cr_tensor *cr_equal(const cr_tensor *a, const cr_tensor *b);
                            /* bool (): same shape and elements; NaN equals nothing */
cr_tensor *cr_isin(const cr_tensor *x, const cr_tensor *others);
                            /* bool: x equals an element of others */
cr_tensor *cr_bincount(const cr_tensor *x, const cr_tensor *weights, int64_t minlength);
                            /* number of 0, 1, 2... in x (N), i64; or the sum of their weights
                               (N)|CR_NONE */
cr_tensor *cr_histc(const cr_tensor *x, int64_t bins, double low, double high);
                            /* (bins): counts in equal parts of [low, high]; low = high: of [min,
                               max]; NaN is not counted */

cr_tensor *cr_histogram(const cr_tensor *x, int D, const cr_tensor *const *edges,
                        const cr_tensor *weights);
                            /* points x (M, D), D times rising edges (N_i + 1) -> (N_1, ..., N_D),
                               x's dtype: points in each box, or the sum of their weights
                               (M)|CR_NONE; the last box along an axis has its upper edge */

/* ---- scans along an axis: x's shape */
cr_tensor *cr_cumsum(const cr_tensor *x, int axis);
                            /* y[k] = x[0] + ... + x[k]; integers and bool: i64 */
cr_tensor *cr_cumprod(const cr_tensor *x, int axis); /* y[k] = x[0] ... x[k]; gradient exact at 0 */
cr_tensor *cr_logcumsumexp(const cr_tensor *x, int axis);
                            /* log(cumsum(exp(x))), no overflow; floats */
cr_tensor *cr_cummax(const cr_tensor *x, int axis, cr_tensor **index);
                            /* NaN wins; *index (or NULL): position of the last maximum so far,
                               i64 */
cr_tensor *cr_cummin(const cr_tensor *x, int axis, cr_tensor **index);
cr_tensor *cr_diff(const cr_tensor *x, int64_t n, int axis);
                            /* n times y[k] = x[k + 1] - x[k]; bool: != */

/* ---- products */
cr_tensor *cr_matmul(const cr_tensor *a, const cr_tensor *b);
                            /* (..., M, K) (..., K, N) -> (..., M, N); 1-D as in NumPy */
cr_tensor *cr_mm(const cr_tensor *a, const cr_tensor *b); /* (M, K) (K, N) -> (M, N) */
cr_tensor *cr_bmm(const cr_tensor *a, const cr_tensor *b); /* (B, M, K) (B, K, N) -> (B, M, N) */
cr_tensor *cr_mv(const cr_tensor *a, const cr_tensor *v); /* (M, K) (K) -> (M) */
cr_tensor *cr_dot(const cr_tensor *a, const cr_tensor *b); /* (K) (K) -> () */
cr_tensor *cr_inner(const cr_tensor *a, const cr_tensor *b);
                            /* (..., K) (...', K) -> (..., ...'); a scalar multiplies */
cr_tensor *cr_outer(const cr_tensor *a, const cr_tensor *b); /* (M) (N) -> (M, N) */
cr_tensor *cr_kron(const cr_tensor *a, const cr_tensor *b);
                            /* blocks a[i] b : (M, N) (P, Q) -> (M P, N Q); up to 4 axes */
cr_tensor *cr_trace(const cr_tensor *x);    /* sum of the diagonal : (M, N) -> (); integers: i64 */
cr_tensor *cr_newton_schulz(const cr_tensor *x, const double abc[3], double eps, int steps);
                            /* x / max(|x|, eps), then x <- a x + (b A + c A A) x, A = x x^T :
                               (M, N); Muon's step */
cr_tensor *cr_addmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta,
                    double alpha);
                            /* beta x + alpha a b; x broadcasts to (M, N); beta 0 ignores x, even
                               NaN, here and below */
cr_tensor *cr_addmv(const cr_tensor *x, const cr_tensor *a, const cr_tensor *v, double beta,
                    double alpha);          /* beta x + alpha a v : (M) */
cr_tensor *cr_addr(const cr_tensor *x, const cr_tensor *u, const cr_tensor *v, double beta,
                   double alpha);           /* beta x + alpha outer(u, v) : (M, N) */
cr_tensor *cr_baddbmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta,
                      double alpha);        /* beta x + alpha bmm(a, b) : (B, M, N) */
cr_tensor *cr_addbmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta,
                     double alpha);         /* beta x + alpha (sum of bmm(a, b) over B) : (M, N) */
cr_tensor *cr_tensordot(const cr_tensor *a, const cr_tensor *b, int n, const int64_t *axes_a,
                        const int64_t *axes_b);
                            /* sum over n pairs of axes; result: a's other axes, then b's */
cr_tensor *cr_einsum(const char *equation, int n, const cr_tensor *const *in);
                            /* "bhqd,bhkd->bhqk", "ii", "...ij,...jk": NumPy's notation, up to 64
                               operands of one dtype; without "->": "...", then the letters that
                               occur once, sorted; one operand only rearranged: a view */
typedef enum cr_precision { CR_HIGHEST, CR_HIGH, CR_MEDIUM } cr_precision;
cr_precision cr_set_f32_products(cr_precision p);
                            /* this thread, f32 products and their gradients; sums are f32;
                               operands are full f32, TF32 (GPUs that have it) or bf16; returns
                               the old setting */

/* ---- indexing: index tensors are i32 or i64, and every index is checked ---------------------- */
/* If two values are written to one element, the last one stays; both have gradients, as in PyTorch.
 * A name that ends in _ writes into x and returns it (borrowed). */
cr_tensor *cr_gather(const cr_tensor *x, int axis, const cr_tensor *index);
                            /* y[i][j] = x[index[i][j]][j] (axis 0) */
cr_tensor *cr_scatter(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
                            /* copy of x with y[index[i][j]][j] = src[i][j]; src (): one value
                               for all */
cr_tensor *cr_scatter_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_scatter_add(const cr_tensor *x, int axis, const cr_tensor *index,
                          const cr_tensor *src); /* copy of x with y[index[i][j]][j] += src[i][j] */
cr_tensor *cr_scatter_add_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_scatter_multiply(const cr_tensor *x, int axis, const cr_tensor *index,
                               const cr_tensor *src);
                            /* copy of x with y[index[i][j]][j] *= src[i][j]; gradient exact at 0 */
typedef enum cr_scatter_kind {
    CR_SCATTER_SUM, CR_SCATTER_PROD, CR_SCATTER_MEAN, CR_SCATTER_AMAX, CR_SCATTER_AMIN
} cr_scatter_kind;
cr_tensor *cr_scatter_reduce(const cr_tensor *x, int axis, const cr_tensor *index,
                             const cr_tensor *src, cr_scatter_kind kind, bool self);
                            /* y[k][j] = reduction of all src[i][j] with index[i][j] = k; self:
                               and of x[k][j]; ties share the gradient; the mean of integers is
                               floored */
cr_tensor *cr_take_along_axis(const cr_tensor *x, int axis, const cr_tensor *index);
                            /* cr_gather; the other axes of x and index broadcast */
cr_tensor *cr_take(const cr_tensor *x, const cr_tensor *index);
                            /* elements of the flattened x : (...), (I) -> (I); negative indices
                               count from the end */
cr_tensor *cr_index_select(const cr_tensor *x, int axis, const cr_tensor *index);
                            /* (..., R, ...), (K) -> (..., K, ...) */
cr_tensor *cr_index_add(const cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
                            /* copy of x with src[..., k, ...] added at index[k] : src (..., K,
                               ...) */
cr_tensor *cr_index_add_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_index_copy(const cr_tensor *x, int axis, const cr_tensor *index,
                         const cr_tensor *src); /* the same, assigned instead of added */
cr_tensor *cr_index_copy_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *src);
cr_tensor *cr_index_fill(const cr_tensor *x, int axis, const cr_tensor *index,
                         const cr_tensor *value); /* the same with one value () */
cr_tensor *cr_index_fill_(cr_tensor *x, int axis, const cr_tensor *index, const cr_tensor *value);
cr_tensor *cr_index_get(const cr_tensor *x, int n, const cr_tensor *const *index);
                            /* x[index[0], index[1], ...].  index[i] is CR_NONE (a whole axis), a
                               bool mask of d axes, or integers of any dtype but u64 (negative:
                               from the end).  The indices broadcast to (I), which replaces the
                               indexed axes, or comes first if those are not adjacent */
cr_tensor *cr_index_put(const cr_tensor *x, int n, const cr_tensor *const *index,
                        const cr_tensor *values, bool accumulate);
                            /* copy of x with cr_index_get's part = values, cast and broadcast;
                               accumulate: += */
cr_tensor *cr_index_put_(cr_tensor *x, int n, const cr_tensor *const *index,
                         const cr_tensor *values, bool accumulate);
cr_tensor *cr_masked_fill(const cr_tensor *x, const cr_tensor *mask, double value);
                            /* value where mask, else x */
cr_tensor *cr_masked_fill_(cr_tensor *x, const cr_tensor *mask, double value);
cr_tensor *cr_masked_select(const cr_tensor *x, const cr_tensor *mask);
                            /* elements where mask, in order : both broadcast -> (K) */
cr_tensor *cr_masked_scatter(const cr_tensor *x, const cr_tensor *mask, const cr_tensor *src);
                            /* the k-th true of mask takes the k-th element of src; else x */
cr_tensor *cr_masked_scatter_(cr_tensor *x, const cr_tensor *mask, const cr_tensor *src);
cr_tensor *cr_nonzero(const cr_tensor *x);  /* indices of elements != 0, in order : i64 (K, ndim) */
cr_tensor *cr_one_hot(const cr_tensor *index, int64_t classes);
                            /* 1 at index, else 0 : (...) -> i64 (..., classes); -1: largest
                               index + 1 */
cr_tensor *cr_tril(const cr_tensor *x, int64_t diagonal); /* (..., M, N); 0 above the diagonal */
cr_tensor *cr_triu(const cr_tensor *x, int64_t diagonal); /* (..., M, N); 0 below the diagonal */
cr_tensor *cr_tril_(cr_tensor *x, int64_t diagonal);
cr_tensor *cr_triu_(cr_tensor *x, int64_t diagonal);

/* ---- matrices (..., N, N), (..., M, N): factors and systems; floats, half precision in f32.
 * The processor computes; equal bits for any number of threads.  Gradients of any order; of
 * vectors they leave out the terms between two equal eigenvalues or singular values. ---------- */
cr_tensor *cr_cholesky(const cr_tensor *a);
                            /* lower L with L L^T = a, of which the lower triangle is read; NaN
                               from the first pivot on that is not above 0 */
cr_tensor *cr_lu_factor(const cr_tensor *a, cr_tensor **pivots, cr_tensor **order);
                            /* (..., M, N): U, and L below its diagonal, a[order] = L U.  pivots i32
                               (..., min(M, N)), from 1; order i64 (..., M); NULL: not wanted */
cr_tensor *cr_solve_triangular(const cr_tensor *a, const cr_tensor *b, bool upper, bool unit);
                            /* x with a x = b, a triangle of a is read; unit: ones on its diagonal :
                               (..., N, N), (..., N, K) -> (..., N, K) */
cr_tensor *cr_solve(const cr_tensor *a, const cr_tensor *b, cr_tensor **lu);
                            /* x with a x = b, by LU, whose factor has a 0 on the diagonal where
                               a is singular : (..., N, N), (..., N, K) -> (..., N, K) */
cr_tensor *cr_qr(const cr_tensor *x, cr_tensor **r);
                            /* Q (..., M, K) and R (..., K, N), K = min(M, N), by reflections */
cr_tensor *cr_eigh(const cr_tensor *x, cr_tensor **vectors);
                            /* ascending eigenvalues (..., N) of the symmetric matrix whose lower
                               triangle is read; vectors: its columns (..., N, N); by rotations */
cr_tensor *cr_svd(const cr_tensor *x, cr_tensor **s, cr_tensor **v);
                            /* U (..., M, K), descending s (..., K), V (..., N, K): x = U diag(s)
                               V^T; by rotations */
cr_tensor *cr_eigvalsh(const cr_tensor *x); /* values of cr_eigh; the gradient computes vectors */
cr_tensor *cr_svdvals(const cr_tensor *x);  /* values of cr_svd, likewise */

/* ---- ops of your own: written with the functions of this library ----------------------------- */
typedef struct cr_custom_call {
    int n; const cr_tensor *const *in;              /* borrowed; in backward: the forward inputs */
    const cr_tensor *out;                           /* in backward: the result */
    const void *params;                             /* copy of cr_custom_apply's params */
} cr_custom_call;
typedef struct cr_custom_op {
    const char *name; int arity;                    /* arity -1: any number of inputs */
    size_t params_bytes;                            /* <= 128 */
    cr_tensor *(*forward)(const cr_custom_call *c); /* returns a new tensor (owned) */
    cr_status (*backward)(const cr_custom_call *c, const cr_tensor *g, cr_tensor **dx);
                            /* sets dx[i] (owned; CR_NONE: no gradient); NULL: not differentiable */
} cr_custom_op;             /* dx[i] of every float input whose gradient is not zero, in its shape;
                               unneeded ones are dropped.  Callbacks run in scopes of their own that
                               release what they make but the results; forward with recording off,
                               on the caller's thread, backward on that of the pass, recorded under
                               create_graph */
cr_status   cr_custom_register(const cr_custom_op *op);
                            /* copied, for the whole process and for good; the name must be new */
cr_tensor  *cr_custom_apply(const char *name, int n, const cr_tensor *const *in,
                            const void *params);

/* ---- memory of tensors on the cpu, from a function of yours */
typedef struct cr_allocator {
    void *(*take)(size_t bytes, size_t alignment, void *ctx);   /* NULL: out of memory */
    void  (*give)(void *p, size_t bytes, void *ctx);
    void  *ctx;
} cr_allocator;

cr_status cr_set_allocator(const cr_allocator *a);
                            /* copied; NULL: the system's pages.  An error while memory is held:
                               call it before the first tensor, or after cr_empty_cache.  The
                               library takes regions of 64 KiB or more from any thread and keeps
                               freed tensors' memory in them for reuse; give may come at exit */

/* ---- tensors as text, as PyTorch prints them: "tensor([[1., 2.]])" */
typedef struct cr_format_options {
    int    precision;           /* digits behind the point: 4 */
    int    edgeitems;           /* shown at each end of an axis in a summary: 3 */
    int    linewidth;           /* characters in a line: 80 */
    int    sci_mode;            /* 1: with exponents, 0: without; -1: by the values */
    double threshold;           /* more elements than this are summarized: 1000 */
    const char *dtypes;         /* before the name of a dtype: "" */
    const char *grad_fn;        /* name of the op that made the tensor; NULL: cr_op_name */
} cr_format_options;

cr_format_options cr_format_defaults(void);
char             *cr_format(const cr_tensor *t, const cr_format_options *o);
                            /* o NULL: the defaults; free(); NULL: an error */
cr_status         cr_print(const cr_tensor *t);     /* cr_format and a newline, to stdout */

#endif
