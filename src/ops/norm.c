/* norm.c - layer norm and RMS norm over the last axis: x (..., C), w and b (C) or absent.  Fast twins:
 * dev/cpu/rows.c. */
#include "compose.h"
#include "transform.h"

#include <math.h>

typedef struct norm_params { double eps; } norm_params;
typedef struct norm_inputs { const cr_tensor *x, *w, *b; bool centered; double eps; int64_t M, N; } norm_inputs;

static norm_inputs inputs(const cr_call *c) {
    bool centered = c->op == &cr_op_layer_norm;
    norm_inputs i = {c->in[0], c->in[1], centered ? c->in[2] : CR_NONE, centered, ((const norm_params *)c->params)->eps,
                     0,        0};
    cr_rows_of(i.x, &i.M, &i.N);
    return i;
}

static cr_status check_weight(const char *op, const char *what, const cr_tensor *w, const norm_inputs *i) {
    if (w == CR_NONE) return CR_OK;
    if (w->ndim != 1 || w->shape[0] != i->N)
        return cr_fail(CR_BAD_VALUE, op, "the %s must be (%lld,), as the last axis of %s: %s", what, (long long)i->N,
                       cr_shape_text(i->x->ndim, i->x->shape).s, cr_shape_text(w->ndim, w->shape).s);
    return cr_want_same_dtype(op, i->x, w);
}

static cr_status norm_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const norm_inputs i = inputs(c);
    const char *op = c->op->name;
    cr_status status = cr_want_float(op, i.x);
    if (status == CR_OK && !i.x->ndim)
        status = cr_fail(CR_BAD_VALUE, op, "needs a last axis to normalise: the tensor has none");
    if (status == CR_OK && !(i.eps >= 0 && isfinite(i.eps)))
        status = cr_fail(CR_BAD_VALUE, op, "eps must be 0 or more: %g", i.eps);
    if (status == CR_OK) status = check_weight(op, "weight", i.w, &i);
    if (status == CR_OK) status = check_weight(op, "bias", i.b, &i);
    *out = cr_meta_of(i.x);
    for (int k = 0; k < c->op->n_aux; k++)          /* mean (only layer norm) and 1 / deviation of each row */
        aux[k] = (cr_meta){.dtype = wide_dtype(i.x), .ndim = 1, .shape = {i.M}};
    return status;
}

static cr_status norm_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const norm_inputs i = inputs(c);
    if (!out->numel) return CR_OK;
    return c->dev->kernels->norm(&(cr_norm_args){.y = cr_rows_array(out),
                                                 .mean = array_of(i.centered ? aux[0] : NULL),
                                                 .rstd = aux[i.centered]->array,
                                                 .x = cr_rows_array(i.x),
                                                 .w = i.w->array,
                                                 .b = i.b->array,
                                                 .eps = i.eps});
}

/* The normalised input h = (x - mean) r and r = 1 / sqrt(mean((x - mean)^2) + eps), in the dtype that
 * statistics have. */
typedef struct normed { cr_tensor *h, *r; } normed;
static normed normalise(const norm_inputs *i) {
    cr_tensor *x = widened(i->x), *d = i->centered ? sub(x, mean_last(x)) : x;
    cr_tensor *r = cr_rsqrt(cr_add_scalar(mean_last(mul(d, d)), i->eps));
    return (normed){mul(d, r), r};
}

/* y = h w + b */
static cr_tensor *norm_composite(const cr_call *c) {
    const norm_inputs i = inputs(c);
    cr_tensor *y = normalise(&i).h;
    if (i.w != CR_NONE) y = mul(y, widened(i.w));
    if (i.b != CR_NONE) y = add(y, widened(i.b));
    return cast_to(y, i.x->dtype);
}

/* with dh = g w:  dx = r (dh - mean(dh) - h mean(dh h)), no mean(dh) for the RMS norm;  dw = sum of g
 * h,  db = sum of g, over rows */
static void composed_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const norm_inputs i = inputs(c);
    normed n = normalise(&i);
    cr_tensor *wide = widened(g), *dh = i.w == CR_NONE ? wide : mul(wide, widened(i.w));
    uint32_t rows = (1u << (i.x->ndim - 1)) - 1;
    if (c->needs[0]) {
        cr_tensor *d = sub(dh, mul(n.h, mean_last(mul(dh, n.h))));
        dx[0] = mul(n.r, i.centered ? sub(d, mean_last(dh)) : d);
    }
    if (c->needs[1]) dx[1] = cr_sum_mask(mul(wide, n.h), rows, false, false);
    if (i.centered && c->needs[2]) dx[2] = cr_sum_mask(wide, rows, false, false);
}

static void fused_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const norm_inputs i = inputs(c);
    const cr_tensor *mean = i.centered ? c->aux[0] : NULL, *rstd = c->aux[i.centered];
    cr_norm_bwd_args args = {
        .x = i.x->array, .w = array_of(i.w), .mean = array_of(mean), .rstd = array_of(rstd), .g = g->array};
    cr_array *const results[] = {&args.dx, &args.dw, &args.db};
    cr_tensor *out[3] = {NULL};
    /* the cotangent of a residual stream, for one */
    args.add = c->accumulated && c->accumulated->dtype == i.x->dtype;
    cr_status status = cr_pack(&args.x);
    if (status == CR_OK) status = cr_pack(&args.w);
    if (status == CR_OK) status = cr_pack(&args.g);
    args.x = cr_array_as(&args.x, CR_LIST(i.M, i.N));
    args.g = cr_array_as(&args.g, CR_LIST(i.M, i.N));
    for (int k = 0; k < c->n; k++) {
        if (status != CR_OK || !c->needs[k]) continue;
        cr_meta m = cr_meta_of(c->in[k]);
        if (k) m.dtype = cr_gradient_dtype(c, k);
        out[k] = !k && args.add  ? c->accumulated
                 : i.x->numel    ? cr_new_like(&m, c->dev)
                                 : cr_filled(&m, c->dev, 0);
        *results[k] = array_of(out[k]);
        if (!out[k]) status = cr_error_status();
    }
    if (status == CR_OK && i.x->numel) status = c->dev->kernels->norm_bwd(&args);
    for (int k = 0; k < c->n; k++)
        if (c->needs[k]) dx[k] = status == CR_OK ? out[k] : NULL;
}

static void norm_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (c->differentiable || !c->dev->kernels->norm_bwd) composed_grad(c, g, dx);
    else fused_grad(c, g, dx);
}

static cr_tensor *norm_batch(const cr_batched *b) {
    const bool weights = b->has[1] || (b->call->n > 2 && b->has[2]);
    return weights ? cr_batch_composite(b) : cr_batch_same(b);
}

const cr_op cr_op_layer_norm = {
    .name = "layer_norm", .arity = 3, .optional = 6, .params_bytes = sizeof(norm_params), .contiguous = true,
    .needs_kernel = offsetof(cr_kernels, norm), .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_AUX, .n_aux = 2,
    .infer = norm_infer, .forward = norm_forward, .composite = norm_composite, .grad = norm_grad,
    .batch = norm_batch,
};
const cr_op cr_op_rms_norm = {
    .name = "rms_norm", .arity = 2, .optional = 2, .params_bytes = sizeof(norm_params), .contiguous = true,
    .needs_kernel = offsetof(cr_kernels, norm), .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_AUX, .n_aux = 1,
    .infer = norm_infer, .forward = norm_forward, .composite = norm_composite, .grad = norm_grad,
    .batch = norm_batch,
};

cr_tensor *cr_layer_norm(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, double eps) {
    return cr_apply(&cr_op_layer_norm, 3, (const cr_tensor *const[]){x, w, b}, &(norm_params){eps});
}

cr_tensor *cr_rms_norm(const cr_tensor *x, const cr_tensor *w, double eps) {
    return cr_apply(&cr_op_rms_norm, 2, (const cr_tensor *const[]){x, w}, &(norm_params){eps});
}
