/* group_norm.c - normalization of groups of channels of each sample: x (B, C, ...), w and b (C) or absent.  Fast twin:
 * dev/cpu/channel_norm.c; elsewhere a layer norm without weights, and the weights. */
#include "compose.h"
#include "transform.h"

#include <math.h>

enum { LEAST_PLANE = 8 };                           /* elements of a channel for which the kernel pays */
typedef struct group_norm_params { int64_t groups; double eps; } group_norm_params;
static const group_norm_params *params_of(const cr_call *c) { return c->params; }

static cr_status check_channels(const char *what, const cr_tensor *t, const cr_tensor *x) {
    if (t == CR_NONE || (t->ndim == 1 && t->shape[0] == x->shape[1])) return CR_OK;
    return cr_fail(CR_BAD_VALUE, "group_norm", "the %s must be (%lld,), a value for each channel of %s: %s", what,
                   (long long)x->shape[1], cr_shape_text(x->ndim, x->shape).s, cr_shape_text(t->ndim, t->shape).s);
}

/* The rows that are normalized: groups of all samples. */
static int64_t group_rows(const cr_call *c) { return c->in[0]->shape[0] * params_of(c)->groups; }
/* a as (rows, channels of a group, elements of a channel) */
static cr_array by_group(const cr_call *c, const cr_array *a) {
    const int64_t *n = c->in[0]->shape, groups = params_of(c)->groups;
    return cr_array_as(a, CR_LIST(n[0] * groups, n[1] / groups, a->numel / cr_imax(1, n[0] * n[1])));
}

static cr_status group_norm_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    const group_norm_params *p = params_of(c);
    if (x->ndim < 2)
        return cr_fail(CR_BAD_VALUE, "group_norm", "needs at least 2 axes, (batch, channels, ...): %s",
                       cr_shape_text(x->ndim, x->shape).s);
    if (p->groups < 1 || x->shape[1] % p->groups)
        return cr_fail(CR_BAD_VALUE, "group_norm", "%lld groups do not divide the %lld channels of %s",
                       (long long)p->groups, (long long)x->shape[1], cr_shape_text(x->ndim, x->shape).s);
    if (!(p->eps >= 0 && isfinite(p->eps)))
        return cr_fail(CR_BAD_VALUE, "group_norm", "eps must be 0 or more: %g", p->eps);
    cr_status status = cr_want_float("group_norm", x);
    if (status == CR_OK) status = check_channels("weight", c->in[1], x);
    if (status == CR_OK) status = check_channels("bias", c->in[2], x);
    *out = cr_meta_of(x);
    for (int k = 0; k < 2; k++)                     /* mean and variance of each row */
        aux[k] = (cr_meta){.dtype = wide_dtype(x), .ndim = 1, .shape = {group_rows(c)}};
    return status;
}

static bool has_long_planes(const cr_call *c) {
    return c->in[0]->numel >= LEAST_PLANE * c->in[0]->shape[0] * c->in[0]->shape[1];
}

static cr_status group_norm_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    if (!out->numel) return CR_OK;
    return c->dev->kernels->group_norm(&(cr_group_norm_args){.y = by_group(c, &out->array),
                                                             .mean = aux[0]->array,
                                                             .var = aux[1]->array,
                                                             .x = by_group(c, &c->in[0]->array),
                                                             .w = c->in[1]->array,
                                                             .b = c->in[2]->array,
                                                             .eps = params_of(c)->eps});
}

/* x as (B, groups, the rest) */
static cr_tensor *in_groups(const cr_call *c, const cr_tensor *x) {
    const int64_t B = x->shape[0], groups = params_of(c)->groups;
    return cr_reshape(x, CR_LIST(B, groups, x->numel / cr_imax(1, B * groups)));
}
/* t (C) as (C, 1, 1...), which broadcasts over x */
static cr_tensor *as_column(const cr_tensor *t, const cr_tensor *x) {
    int64_t shape[CR_MAX_DIMS] = {t->numel, 1, 1, 1, 1, 1, 1, 1};
    return cr_reshape(t, x->ndim - 1, shape);
}
static cr_tensor *as_x(const cr_tensor *t, const cr_tensor *x) { return cr_reshape(t, x->ndim, x->shape); }

static cr_tensor *group_norm_composite(const cr_call *c) {
    const cr_tensor *x = c->in[0], *w = c->in[1], *b = c->in[2];
    cr_tensor *y = as_x(cr_layer_norm(in_groups(c, widened(x)), CR_NONE, CR_NONE, params_of(c)->eps), x);
    if (w != CR_NONE && b != CR_NONE) y = cr_addcmul(as_column(b, x), y, as_column(w, x), 1);
    else if (w != CR_NONE) y = mul(y, as_column(w, x));
    else if (b != CR_NONE) y = add(y, as_column(b, x));
    return cast_to(y, x->dtype);
}

/* with h = (x - mean) r, r = 1 / sqrt(var + eps) and dh = g w, means over a row:
 *   dx = r (dh - mean(dh) - h mean(dh h)),  dw = sum(g h),  db = sum(g), over all axes but the channels' */
static void composed_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0], *w = c->in[1];
    const uint32_t mask = ((1u << x->ndim) - 1) & ~2u;
    cr_tensor *rows = in_groups(c, widened(x)), *wide = widened(g), *d = sub(rows, mean_last(rows));
    cr_tensor *r = cr_rsqrt(cr_add_scalar(mean_last(mul(d, d)), params_of(c)->eps)), *h = mul(d, r);
    if (c->needs[0]) {
        cr_tensor *dh = in_groups(c, w == CR_NONE ? wide : mul(wide, as_column(w, x)));
        cr_tensor *centred = sub(dh, mean_last(dh)), *along = mul(h, mean_last(mul(dh, h)));
        dx[0] = cast_to(as_x(mul(r, sub(centred, along)), x), x->dtype);
    }
    if (c->needs[1]) dx[1] = cr_sum_mask(mul(wide, as_x(h, x)), mask, false, false);
    if (c->needs[2]) dx[2] = cr_sum_mask(wide, mask, false, false);
}

/* The kernel gives dw and db of each sample. */
static void fused_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_group_norm_bwd_args args = {.x = x->array, .w = array_of(c->in[1]), .mean = c->aux[0]->array,
                                   .var = c->aux[1]->array, .g = g->array, .eps = params_of(c)->eps};
    cr_array *const packed[] = {&args.x, &args.g, &args.w}, *const results[] = {&args.dx, &args.dw, &args.db};
    const cr_meta of_x = cr_meta_of(x), of_sample = {.dtype = wide_dtype(x), .ndim = 2,
                                                     .shape = {x->shape[0], x->shape[1]}};
    cr_tensor *out[3] = {NULL};
    cr_status status = CR_OK;
    for (int k = 0; k < 3 && status == CR_OK; k++) status = cr_pack(packed[k]);
    for (int k = 0; k < 3 && status == CR_OK; k++) {
        if (!c->needs[k]) continue;
        if (!(out[k] = cr_new_like(k ? &of_sample : &of_x, c->dev))) { status = cr_error_status(); break; }
        *results[k] = k ? out[k]->array : by_group(c, &out[k]->array);
    }
    args.x = by_group(c, &args.x);
    args.g = by_group(c, &args.g);
    if (status == CR_OK) status = c->dev->kernels->group_norm_bwd(&args);
    for (int k = 0; k < 3; k++)
        if (c->needs[k]) dx[k] = status != CR_OK ? NULL : k ? cr_sum_mask(out[k], 1, false, false) : out[k];
}

static void group_norm_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->differentiable || !c->in[0]->numel) composed_grad(c, g, dx);
    else fused_grad(c, g, dx);
}

static cr_tensor *group_norm_batch(const cr_batched *b) {
    if (b->has[1] || b->has[2]) return cr_batch_composite(b);
    const cr_tensor *x = b->in[0], *in[] = {NULL, b->in[1], b->in[2]};
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i + 1 < x->ndim; i++) shape[i] = i ? x->shape[i + 1] : x->shape[0] * x->shape[1];
    in[0] = cr_reshape(x, x->ndim - 1, shape);      /* the batches of all samples are one */
    return cr_batch_shaped(b, in[0] ? cr_apply(&cr_op_group_norm, 3, in, b->call->params) : NULL, b->out);
}

const cr_op cr_op_group_norm = {
    .name = "group_norm",
    .arity = 3,
    .optional = 6,
    .params_bytes = sizeof(group_norm_params),
    .contiguous = true,
    .needs_kernel = offsetof(cr_kernels, group_norm),
    .kernel_supports = has_long_planes,
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_AUX,
    .n_aux = 2,
    .infer = group_norm_infer,
    .forward = group_norm_forward,
    .composite = group_norm_composite,
    .grad = group_norm_grad,
    .batch = group_norm_batch,
};

/* t, a weight or CR_NONE, in the dtype of x's statistics */
static const cr_tensor *of_channel(const cr_tensor *t, const cr_tensor *x) {
    return t && t != CR_NONE && cr_dtype_is_float(t->dtype) ? cast_to(t, wide_dtype(x)) : t;
}

cr_tensor *cr_group_norm(const cr_tensor *x, int64_t groups, const cr_tensor *w, const cr_tensor *b, double eps) {
    if (!cr_given("group_norm", "x", x)) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {x, of_channel(w, x), of_channel(b, x)};
    return cr_leave(cr_apply(&cr_op_group_norm, 3, in, &(group_norm_params){groups, eps}));
}
