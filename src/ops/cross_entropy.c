/* cross_entropy.c - -log softmax(x)[target] of each row; the mean or sum over rows is composed of it.
 * x (..., V), target (...) of class numbers.  With label smoothing s the wanted distribution is q = (1
 * - s) onehot(target) + s / V. Fast twins: dev/cpu/rows.c.  linear_cross_entropy: the same of x w^T. */
#include "compose.h"
#include "transform.h"

#include <string.h>

typedef struct ce_params { int64_t ignore; double smoothing; } ce_params;
static const ce_params *params(const cr_call *c) { return c->params; }

static cr_status ce_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0], *target = c->in[1];
    const double s = params(c)->smoothing;
    cr_status status = cr_want_float("cross_entropy", x);
    if (status == CR_OK && !x->ndim)
        status = cr_fail(CR_BAD_VALUE, "cross_entropy", "the logits need a last axis of classes");
    if (status == CR_OK) status = cr_want_index("cross_entropy", target);
    if (status != CR_OK) return status;
    if (!cr_shape_equal(target->ndim, target->shape, x->ndim - 1, x->shape))
        return cr_fail(CR_BAD_VALUE, "cross_entropy", "logits %s take a target of shape %s: %s",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(x->ndim - 1, x->shape).s,
                       cr_shape_text(target->ndim, target->shape).s);
    if (!x->shape[x->ndim - 1] && target->numel)
        return cr_fail(CR_BAD_VALUE, "cross_entropy", "no classes: logits %s", cr_shape_text(x->ndim, x->shape).s);
    if (!(s >= 0 && s <= 1)) return cr_fail(CR_BAD_VALUE, "cross_entropy", "label smoothing must be in [0, 1]: %g", s);
    *out = cr_meta_of(target);
    out->dtype = wide_dtype(x);
    aux[0] = *out;                                  /* log(sum(exp(x))) of each row */
    return CR_OK;
}

static cr_status ce_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const cr_array x = cr_rows_array(c->in[0]);
    if (!x.shape[0]) return CR_OK;
    return c->dev->kernels->cross_entropy(&(cr_cross_entropy_args){out->array, aux[0]->array, x, c->in[1]->array,
                                                                   params(c)->ignore, params(c)->smoothing});
}

/* The target with 0 in place of ignored classes; *ignored: where they are. */
static cr_tensor *safe_target(const cr_call *c, cr_tensor **ignored) {
    cr_tensor *ignore = cr_scalar_int(params(c)->ignore), *target = cast_to(c->in[1], CR_I64);
    *ignored = cr_eq(target, ignore);
    return cr_masked_fill(target, *ignored, 0);
}

/* loss = -(1 - s) logp[target] - s mean(logp), 0 where ignored */
static cr_tensor *ce_composite(const cr_call *c) {
    const double s = params(c)->smoothing;
    cr_tensor *ignored, *target = safe_target(c, &ignored), *logp = cr_log_softmax(widened(c->in[0]), -1);
    if (!c->in[1]->numel) return cr_sum(logp, CR_LIST(-1), false);
    cr_tensor *loss = mul_k(cr_gather(logp, -1, cr_unsqueeze(target, -1)), s - 1);
    if (s > 0) loss = sub(loss, mul_k(mean_last(logp), s));
    return cr_masked_fill(cr_squeeze(loss, CR_LIST(-1)), ignored, 0);
}

/* q: (1 - s) onehot(target) + s / V, of x's shape; a constant */
static cr_tensor *wanted(const cr_call *c, const cr_tensor *target, cr_dtype dt) {
    const cr_tensor *x = c->in[0];
    const double s = params(c)->smoothing;
    cr_tensor *at = cr_unsqueeze(target, -1);
    cr_tensor *base = cr_full(x->ndim, x->shape, s / (double)x->shape[x->ndim - 1], dt, x->dev);
    return at ? cr_scatter_add(base, -1, at, cr_full(at->ndim, at->shape, 1 - s, dt, x->dev)) : NULL;
}

/* A cotangent that is one number for all rows, as that of their mean or sum, stays one number. */
static cr_status one_or_packed(const cr_tensor *g, cr_array *a) {
    *a = g->array;
    for (int i = 0; i < g->ndim; i++)
        if (g->shape[i] != 1 && g->strides[i]) return cr_pack(a);
    *a = cr_array_as(a, 0, NULL);
    return CR_OK;
}

static cr_status write_grad(const cr_call *c, const cr_tensor *g, cr_array dx, cr_array x) {
    cr_cross_entropy_bwd_args args = {.dx = dx,
                                      .x = x,
                                      .target = c->in[c->n - 1]->array,
                                      .lse = c->aux[0]->array,
                                      .ignore = params(c)->ignore,
                                      .smoothing = params(c)->smoothing};
    if (!dx.numel) return CR_OK;
    const cr_status status = one_or_packed(g, &args.g);
    return status == CR_OK ? c->dev->kernels->cross_entropy_bwd(&args) : status;
}

/* The logits are the largest tensor of a language model's step: their gradient is written over them. */
static cr_tensor *fused_grad(const cr_call *c, const cr_tensor *g) {
    cr_tensor *dx = cr_fused_over(c, c->in[0]);
    if (!dx || !dx->numel) return dx;
    return write_grad(c, g, cr_rows_array(dx), cr_rows_array(c->in[0])) == CR_OK ? dx : NULL;
}

/* loss = -sum(q log softmax(x)):  dx = g (softmax(x) - q), 0 where ignored */
static void ce_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    if (!c->needs[0]) return;
    if (!c->differentiable && c->dev->kernels->cross_entropy_bwd) { dx[0] = fused_grad(c, g); return; }
    if (!c->in[0]->numel) { dx[0] = cr_zeros_like(c->in[0]); return; }
    cr_tensor *ignored, *target = safe_target(c, &ignored), *x = widened(c->in[0]);
    cr_tensor *gap = x ? sub(cr_softmax(x, -1), wanted(c, target, x->dtype)) : NULL;
    dx[0] = mul(cr_unsqueeze(cr_masked_fill(g, ignored, 0), -1), gap);
}

const cr_op cr_op_cross_entropy = {
    .name = "cross_entropy",
    .arity = 2,
    .params_bytes = sizeof(ce_params),
    .contiguous = true,
    .needs_kernel = offsetof(cr_kernels, cross_entropy),
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1) | CR_SAVE_AUX,
    .n_aux = 1,
    .infer = ce_infer,
    .forward = ce_forward,
    .composite = ce_composite,
    .grad = ce_grad,
    .batch = cr_batch_all,
};

/* ---- linear_cross_entropy: the loss of the logits x w^T, x (..., C), w (V, C): the head of a language model.  The
 * logits belong to the op, so their rows begin where the device's products want them, whatever V is, and
 * the gradient is always written over them.  aux: lse; the logits (rows, pitch), of which V columns are used. */
enum { X, W, TARGET };

static int64_t pitch_of(const cr_device *dev, cr_dtype dt, int64_t V) {
    const int64_t unit = dev->row_bytes / (int64_t)cr_dtype_size(dt);
    return unit > 1 ? (V + unit - 1) / unit * unit : V;
}

static cr_status head_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    cr_meta m;
    const cr_call of_linear = {.in = (const cr_tensor *const[]){c->in[X], c->in[W], CR_NONE}};
    cr_status status = cr_op_linear.infer(&of_linear, &m, NULL);
    if (status != CR_OK) return status;
    cr_tensor logits = {.dtype = m.dtype, .ndim = m.ndim};
    memcpy(logits.shape, m.shape, sizeof *m.shape * (size_t)m.ndim);
    const cr_call of_loss = {.in = (const cr_tensor *const[]){&logits, c->in[TARGET]}, .params = c->params};
    if ((status = ce_infer(&of_loss, out, aux)) != CR_OK) return status;
    int64_t rows = 1;
    for (int i = 0; i < out->ndim; i++) rows *= out->shape[i];
    aux[1] = m;
    aux[1].ndim = 2;
    aux[1].shape[0] = rows;
    aux[1].shape[1] = pitch_of(c->dev, m.dtype, c->in[W]->shape[0]);
    return cr_shape_check("linear_cross_entropy", 2, aux[1].shape, m.dtype, NULL);
}

static cr_array logits_in(const cr_call *c, const cr_tensor *wide) {
    return cr_array_narrowed(&wide->array, 1, 0, c->in[W]->shape[0]);
}

static cr_status head_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    if (!out->numel) return CR_OK;
    const cr_kernels *k = c->dev->kernels;
    const cr_array x = cr_rows_array(c->in[X]), logits = logits_in(c, aux[1]);
    const cr_matmul_args product = {
        .c = logits, .a = x, .b = cr_array_transposed(&c->in[W]->array), .how = cr_product_how()};
    const cr_status status = x.shape[1] ? k->matmul(&product) : cr_fill_array(&logits, 0);
    if (status != CR_OK) return status;
    return k->cross_entropy(&(cr_cross_entropy_args){out->array, aux[0]->array, logits, c->in[TARGET]->array,
                                                     params(c)->ignore, params(c)->smoothing});
}

static cr_tensor *head_composite(const cr_call *c) {
    const cr_tensor *logits = cr_apply(&cr_op_linear, 3, (const cr_tensor *const[]){c->in[X], c->in[W], CR_NONE}, NULL);
    return cr_apply(&cr_op_cross_entropy, 2, (const cr_tensor *const[]){logits, c->in[TARGET]}, c->params);
}

/* loss = -sum(q log softmax(l)), l = x w^T:  dl = g (softmax(l) - q);  dx = dl w;  dw = dl^T x */
static void head_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    cr_status status = CR_OK;
    cr_tensor *dl = NULL;
    if (c->differentiable) {
        const cr_tensor *y = head_composite(c);
        status = y ? c->backward_through(y, g) : cr_error_status();
    } else {
        cr_tensor *wide = cr_fused_over(c, c->aux[1]);
        status = wide ? write_grad(c, g, logits_in(c, wide), logits_in(c, c->aux[1])) : cr_error_status();
        dl = status == CR_OK ? cr_slice(wide, 1, 0, c->in[W]->shape[0], 1) : NULL;
    }
    if (!dl && status == CR_OK && !c->differentiable) status = cr_error_status();
    if (dl && c->needs[X]) {
        cr_tensor *d = cr_matmul(dl, c->in[W]);
        dx[X] = d ? reshaped_like(d, c->in[X]) : NULL;
    }
    if (dl && c->needs[W]) dx[W] = c->product(W, cr_transpose(dl, 0, 1), rows_of(c->in[X]));
    for (int i = X; i <= W && status != CR_OK; i++) if (c->needs[i]) dx[i] = NULL;
}

const cr_op cr_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .arity = 3,
    .params_bytes = sizeof(ce_params),
    .contiguous = true,
    .recompute_forward = true,
    .needs_kernel = offsetof(cr_kernels, cross_entropy_bwd),
    .saves = CR_SAVE_INS | CR_SAVE_AUX,
    .n_aux = 2,
    .infer = head_infer,
    .forward = head_forward,
    .composite = head_composite,
    .grad = head_grad,
};

cr_cross_entropy_options cr_cross_entropy_defaults(void) {
    return (cr_cross_entropy_options){.ignore_index = -100, .reduction = CR_MEAN};
}

/* The number of rows that are not ignored, as a tensor: only the device knows it. */
static cr_tensor *rows_that_count(const cr_tensor *target, int64_t ignore) {
    return cr_sum(cr_ne(target, cr_scalar_int(ignore)), CR_ALL, false);
}

/* The op over its inputs, reduced, in the dtype of the first input outside of autocast. */
static cr_tensor *reduced(const cr_op *op, int n, const cr_tensor *const *in, const cr_cross_entropy_options *o) {
    const cr_cross_entropy_options plain = cr_cross_entropy_defaults();
    const cr_tensor *x = in[0], *target = in[n - 1];
    if (!o) o = &plain;
    if (o->reduction != CR_MEAN && o->reduction != CR_SUM && o->reduction != CR_EACH)
        return cr_fail(CR_BAD_VALUE, op->name, "%d is not a reduction", (int)o->reduction), NULL;
    cr_scope_begin();
    cr_tensor *each = cr_apply(op, n, in, &(ce_params){o->ignore_index, o->label_smoothing}), *y = each;
    if (y && o->reduction != CR_EACH) y = cr_sum(each, CR_ALL, false);
    if (y && o->reduction == CR_MEAN) y = divide(y, rows_that_count(target, o->ignore_index));
    return cr_leave(cr_autocast_dtype(x->dev) == CR_F32 ? cast_to(y, x->dtype) : y);
}

cr_tensor *cr_cross_entropy(const cr_tensor *logits, const cr_tensor *target, const cr_cross_entropy_options *o) {
    if (!cr_given("cross_entropy", "logits", logits) || !cr_given("cross_entropy", "target", target)) return NULL;
    return reduced(&cr_op_cross_entropy, 2, (const cr_tensor *const[]){logits, target}, o);
}

cr_tensor *cr_linear_cross_entropy(const cr_tensor *x, const cr_tensor *w, const cr_tensor *target,
                                   const cr_cross_entropy_options *o) {
    static const char op[] = "linear_cross_entropy";
    if (!cr_given(op, "x", x) || !cr_given(op, "w", w) || !cr_given(op, "target", target)) return NULL;
    /* under autocast the product is linear's; no policy lists this op, because its loss stays f32 */
    const cr_tensor *in[] = {x, w, target};
    cr_scope_begin();
    const bool cast = !cr_autocasting() || cr_autocast_inputs("linear", x->dev, 2, in) == CR_OK;
    return cr_leave(cast ? reduced(&cr_op_linear_cross_entropy, 3, in, o) : NULL);
}
