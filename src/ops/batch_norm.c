/* batch_norm.c - normalization by channel: x (B, C, ...), w and b (C) or absent.  Fast twin: dev/cpu/channel_norm.c. */
#include "compose.h"
#include "transform.h"

#include <math.h>

typedef struct batch_norm_params { double eps; } batch_norm_params;
static double eps_of(const cr_call *c) { return ((const batch_norm_params *)c->params)->eps; }

/* Checks that t, if it is given, has a value for each channel of x. */
static cr_status check_channels(const char *what, const cr_tensor *t, const cr_tensor *x) {
    if (t == CR_NONE) return CR_OK;
    if (t->ndim == 1 && t->shape[0] == x->shape[1]) return cr_want_float("batch_norm", t);
    return cr_fail(CR_BAD_VALUE, "batch_norm", "the %s must be (%lld,), a value for each channel of %s: %s", what,
                   (long long)x->shape[1], cr_shape_text(x->ndim, x->shape).s, cr_shape_text(t->ndim, t->shape).s);
}

static cr_status check_input(const cr_tensor *x, double eps) {
    if (x->ndim < 2)
        return cr_fail(CR_BAD_VALUE, "batch_norm", "needs at least 2 axes, (batch, channels, ...): %s",
                       cr_shape_text(x->ndim, x->shape).s);
    if (!(eps >= 0 && isfinite(eps))) return cr_fail(CR_BAD_VALUE, "batch_norm", "eps must be 0 or more: %g", eps);
    return cr_want_float("batch_norm", x);
}

/* x as (B, C, S) */
static cr_array by_channel(const cr_array *x) { return cr_around(x, 1, 1); }

static cr_status batch_norm_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    cr_status status = check_input(x, eps_of(c));
    if (status == CR_OK) status = check_channels("weight", c->in[1], x);
    if (status == CR_OK) status = check_channels("bias", c->in[2], x);
    *out = cr_meta_of(x);
    for (int k = 0; k < 2; k++)                     /* mean and variance of each channel */
        aux[k] = (cr_meta){.dtype = wide_dtype(x), .ndim = 1, .shape = {x->shape[1]}};
    return status;
}

static cr_status batch_norm_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    for (int k = 0; k < 2 && !out->numel; k++)
        if (cr_fill_elements(aux[k], (double)NAN) != CR_OK) return cr_error_status();
    if (!out->numel) return CR_OK;
    return c->dev->kernels->channel_norm(&(cr_channel_norm_args){.y = by_channel(&out->array),
                                                                 .mean = aux[0]->array,
                                                                 .var = aux[1]->array,
                                                                 .x = by_channel(&c->in[0]->array),
                                                                 .w = c->in[1]->array,
                                                                 .b = c->in[2]->array,
                                                                 .eps = eps_of(c)});
}

/* t (C) as (C, 1, 1...), which broadcasts over x */
static cr_tensor *as_column(const cr_tensor *t, const cr_tensor *x) {
    int64_t shape[CR_MAX_DIMS] = {t ? t->numel : 0, 1, 1, 1, 1, 1, 1, 1};
    return cr_reshape(t, x->ndim - 1, shape);
}

/* with h = (x - mean) r and r = 1 / sqrt(var + eps):
 *   dx = w r (g - mean(g) - h mean(g h)),  dw = sum(g h),  db = sum(g), over all axes but the channels' */
static void composed_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    const uint32_t mask = ((1u << x->ndim) - 1) & ~2u;
    const double count = (double)(x->numel / (x->shape[1] ? x->shape[1] : 1));
    cr_tensor *wide = widened(x), *wide_g = widened(g);
    cr_tensor *d = sub(wide, cr_div_scalar(cr_sum_mask(wide, mask, true, false), count));
    cr_tensor *r = cr_rsqrt(cr_add_scalar(cr_div_scalar(cr_sum_mask(mul(d, d), mask, true, false), count), eps_of(c)));
    cr_tensor *h = mul(d, r), *dot = cr_sum_mask(mul(wide_g, h), mask, true, false);
    cr_tensor *sum = cr_sum_mask(wide_g, mask, true, false);
    if (c->needs[0]) {
        cr_tensor *rest = sub(sub(wide_g, cr_div_scalar(sum, count)), mul(h, cr_div_scalar(dot, count)));
        cr_tensor *scale = c->in[1] == CR_NONE ? r : mul(r, as_column(c->in[1], x));
        dx[0] = cast_to(mul(rest, scale), x->dtype);
    }
    if (c->needs[1]) dx[1] = dot ? cr_reshape(dot, CR_LIST(x->shape[1])) : NULL;
    if (c->needs[2]) dx[2] = sum ? cr_reshape(sum, CR_LIST(x->shape[1])) : NULL;
}

static void fused_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_channel_norm_bwd_args args = {.x = x->array, .w = array_of(c->in[1]), .mean = c->aux[0]->array,
                                     .var = c->aux[1]->array, .g = g->array, .eps = eps_of(c)};
    cr_array *const packed[] = {&args.x, &args.g, &args.w}, *const results[] = {&args.dx, &args.dw, &args.db};
    cr_tensor *out[3] = {NULL};
    cr_status status = CR_OK;
    for (int k = 0; k < 3 && status == CR_OK; k++) status = cr_pack(packed[k]);
    for (int k = 0; k < 3 && status == CR_OK; k++) {
        if (!c->needs[k]) continue;
        const cr_meta m = cr_meta_of(c->in[k]);
        out[k] = x->numel ? cr_new_like(&m, c->dev) : cr_filled(&m, c->dev, 0);
        if (!out[k]) { status = cr_error_status(); break; }
        *results[k] = k ? out[k]->array : by_channel(&out[k]->array);
    }
    if (status == CR_OK && x->numel) {
        args.x = by_channel(&args.x);
        args.g = by_channel(&args.g);
        status = c->dev->kernels->channel_norm_bwd(&args);
    }
    for (int k = 0; k < 3; k++)
        if (c->needs[k]) dx[k] = status == CR_OK ? out[k] : NULL;
}

static void batch_norm_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->differentiable && c->in[0]->numel) composed_grad(c, g, dx);
    else fused_grad(c, g, dx);
}

/* vmap: the channels of all samples lie side by side */
static const cr_tensor *channels_joined(const cr_tensor *t) {
    int64_t shape[CR_MAX_DIMS];
    if (!t || t == CR_NONE) return t;
    if (t->ndim == 2) return cr_reshape(t, CR_LIST(-1));
    for (int i = 0; i + 1 < t->ndim; i++)
        shape[i] = !i ? t->shape[1] : i == 1 ? t->shape[0] * t->shape[2] : t->shape[i + 1];
    return cr_reshape(cr_movedim(t, 1, (int64_t[]){0}, (int64_t[]){1}), t->ndim - 1, shape);
}

static cr_tensor *batch_norm_batch(const cr_batched *b) {
    const cr_tensor *in[5];
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < b->call->n; i++) in[i] = channels_joined(cr_batch_in(b, i));
    cr_tensor *y = cr_batch_apply(b, in, b->call->params);
    for (int k = 0; y && k < b->call->op->n_aux; k++) b->aux[k] = cr_batch_shaped(b, b->aux[k], &b->aux_meta[k]);
    for (int i = 0; y && i <= y->ndim; i++) shape[i] = !i ? y->shape[0] : i == 1 ? b->size : b->out->shape[i - 1];
    return y ? cr_movedim(cr_reshape(y, y->ndim + 1, shape), 1, (int64_t[]){1}, (int64_t[]){0}) : NULL;
}

/* with h = (x - mean) r and r = 1 / sqrt(var + eps):
 *   dy = w r (t - mean(t) - h mean(t h)) + tw h + tb, means over all axes but the channels' */
static cr_tensor *batch_norm_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *x = c->in[0];
    const uint32_t mask = ((1u << x->ndim) - 1) & ~2u;
    const double count = (double)(x->numel / (x->shape[1] ? x->shape[1] : 1));
    cr_tensor *wide = widened(x), *d = sub(wide, cr_div_scalar(cr_sum_mask(wide, mask, true, false), count));
    cr_tensor *r = cr_rsqrt(cr_add_scalar(cr_div_scalar(cr_sum_mask(mul(d, d), mask, true, false), count), eps_of(c)));
    cr_tensor *h = mul(d, r), *sum = same(CR_NONE);
    if (t[0] != CR_NONE) {
        cr_tensor *tx = widened(t[0]), *dot = cr_sum_mask(mul(tx, h), mask, true, false);
        cr_tensor *rest = sub(sub(tx, cr_div_scalar(cr_sum_mask(tx, mask, true, false), count)),
                              mul(h, cr_div_scalar(dot, count)));
        sum = mul(rest, c->in[1] == CR_NONE ? r : mul(r, as_column(c->in[1], x)));
    }
    if (t[1] != CR_NONE) sum = cr_tangent_sum(sum, mul(as_column(t[1], x), h));
    if (t[2] != CR_NONE) sum = cr_tangent_sum(sum, as_column(t[2], x));
    return sum;
}

const cr_op cr_op_batch_norm = {
    .name = "batch_norm",
    .arity = 3,
    .optional = 6,
    .params_bytes = sizeof(batch_norm_params),
    .contiguous = true,
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_AUX,
    .n_aux = 2,
    .infer = batch_norm_infer,
    .forward = batch_norm_forward,
    .grad = batch_norm_grad,
    .batch = batch_norm_batch,
    .tangent = batch_norm_tangent,
};

/* t, a weight or CR_NONE, in the dtype of x's statistics */
static const cr_tensor *of_channel(const cr_tensor *t, const cr_tensor *x) {
    return t && t != CR_NONE && cr_dtype_is_float(t->dtype) ? cast_to(t, wide_dtype(x)) : t;
}

cr_tensor *cr_batch_norm(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, double eps, cr_tensor **mean,
                         cr_tensor **var) {
    cr_tensor *aux[2] = {NULL};
    if (mean) *mean = NULL;
    if (var) *var = NULL;
    if (!cr_given("batch_norm", "x", x)) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {x, of_channel(w, x), of_channel(b, x)};
    cr_tensor *y = cr_apply_aux(&cr_op_batch_norm, 3, in, &(batch_norm_params){eps}, aux);
    if (y && mean) cr_keep(*mean = aux[0]);
    if (y && var) cr_keep(*var = aux[1]);
    return cr_leave(y);
}

/* ---- with statistics that are given: x, mean, var, w, b */

static cr_tensor *with_composite(const cr_call *c) {
    const cr_tensor *x = c->in[0], *w = c->in[3], *b = c->in[4];
    cr_tensor *scale = cr_rsqrt(cr_add_scalar(c->in[2], eps_of(c)));
    if (w != CR_NONE) scale = mul(scale, w);
    cr_tensor *shift = cr_neg(mul(c->in[1], scale));
    if (b != CR_NONE) shift = add(shift, b);
    return cast_to(cr_addcmul(as_column(shift, x), x, as_column(scale, x), 1), x->dtype);
}

static cr_status with_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return CR_OK;
}

static cr_status with_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    if (!out->numel) return CR_OK;
    return c->dev->kernels->channel_scale(&(cr_channel_scale_args){.y = by_channel(&out->array),
                                                                   .mean = c->in[1]->array,
                                                                   .var = c->in[2]->array,
                                                                   .x = by_channel(&c->in[0]->array),
                                                                   .w = c->in[3]->array,
                                                                   .b = c->in[4]->array,
                                                                   .eps = eps_of(c)});
}

/* with r = 1 / sqrt(var + eps):  dx = g w r,  dw = sum(g (x - mean) r),  db = sum(g) */
static void with_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    static const int input[] = {0, 3, 4};
    const cr_tensor *x = c->in[0];
    if (c->differentiable) {
        const cr_tensor *y = with_composite(c);
        if ((y ? c->backward_through(y, g) : cr_error_status()) != CR_OK)
            for (int k = 0; k < 3; k++) if (c->needs[input[k]]) dx[input[k]] = NULL;
        return;
    }
    cr_channel_scale_bwd_args args = {.x = x->array, .w = array_of(c->in[3]), .mean = c->in[1]->array,
                                      .var = c->in[2]->array, .g = g->array, .eps = eps_of(c)};
    cr_array *const packed[] = {&args.x, &args.g, &args.w}, *const results[] = {&args.dx, &args.dw, &args.db};
    cr_tensor *out[3] = {NULL};
    cr_status status = CR_OK;
    for (int k = 0; k < 3 && status == CR_OK; k++) status = cr_pack(packed[k]);
    for (int k = 0; k < 3 && status == CR_OK; k++) {
        if (!c->needs[input[k]]) continue;
        const cr_meta m = k ? (cr_meta){.dtype = wide_dtype(x), .ndim = 1, .shape = {x->shape[1]}} : cr_meta_of(x);
        out[k] = x->numel ? cr_new_like(&m, c->dev) : cr_filled(&m, c->dev, 0);
        if (!out[k]) { status = cr_error_status(); break; }
        *results[k] = k ? out[k]->array : by_channel(&out[k]->array);
    }
    args.x = by_channel(&args.x);
    args.g = by_channel(&args.g);
    if (status == CR_OK && x->numel) status = c->dev->kernels->channel_scale_bwd(&args);
    for (int k = 0; k < 3; k++)
        if (c->needs[input[k]]) dx[input[k]] = status == CR_OK ? out[k] : NULL;
}

const cr_op cr_op_batch_norm_with = {
    .name = "batch_norm",
    .arity = 5,
    .optional = 1u << 3 | 1u << 4,
    .params_bytes = sizeof(batch_norm_params),
    .contiguous = true,
    .recompute_forward = true,
    .needs_kernel = offsetof(cr_kernels, channel_scale),
    .saves = CR_SAVE_INS,
    .infer = with_infer,
    .forward = with_forward,
    .composite = with_composite,
    .grad = with_grad,
    .batch = batch_norm_batch,
};

/* The statistics as they are now: a later training step writes into the running ones. */
static const cr_tensor *kept(const cr_tensor *t, bool recorded) { return recorded && t ? cr_clone(t) : t; }

cr_tensor *cr_batch_norm_with(const cr_tensor *x, const cr_tensor *mean, const cr_tensor *var, const cr_tensor *w,
                              const cr_tensor *b, double eps) {
    const cr_tensor *of[] = {mean, var, w, b};
    static const char *const what[] = {"mean", "variance", "weight", "bias"};
    if (!cr_given("batch_norm", "x", x) || !cr_given("batch_norm", "mean", mean) ||
        !cr_given("batch_norm", "var", var) || cr_missing("batch_norm", "w", w) || cr_missing("batch_norm", "b", b) ||
        check_input(x, eps) != CR_OK)
        return NULL;
    for (int k = 0; k < 4; k++)
        if (check_channels(what[k], of[k], x) != CR_OK) return NULL;
    cr_scope_begin();
    for (int k = 0; k < 4; k++) of[k] = of_channel(of[k], x);
    const batch_norm_params params = {eps};
    const bool recorded = cr_grad_enabled() && (cr_in_graph(x) || cr_in_graph(w) || cr_in_graph(b));
    const cr_tensor *in[] = {x, kept(of[0], recorded), kept(of[1], recorded), of[2], of[3]};
    const cr_call call = {.op = &cr_op_batch_norm_with, .params = &params, .n = 5, .in = in, .dev = x->dev};
    for (int k = 0; k < 5; k++)
        if (!in[k]) return cr_leave(NULL);
    if (cr_grad_enabled() && (cr_in_graph(mean) || cr_in_graph(var))) return cr_leave(with_composite(&call));
    return cr_leave(cr_apply(&cr_op_batch_norm_with, 5, in, &params));
}
