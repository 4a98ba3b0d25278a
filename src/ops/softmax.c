/* softmax.c - softmax and its logarithm, over the last axis; another axis is moved there and back.
 * Fast twins: dev/cpu/rows.c. */
#include "compose.h"
#include "transform.h"

static bool is_log(const cr_call *c) { return c->op == &cr_op_log_softmax; }

static cr_status softmax_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return cr_want_float(c->op->name, c->in[0]);
}

static cr_status softmax_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return out->numel
               ? c->dev->kernels->softmax(&(cr_softmax_args){cr_rows_array(out), cr_rows_array(c->in[0]), is_log(c)})
               : CR_OK;
}

/* e / sum(e) with e = exp(x - max(x)); its logarithm: x - max(x) - log(sum(e)) */
static cr_tensor *softmax_composite(const cr_call *c) {
    const cr_tensor *x = c->in[0];
    if (!x->numel) return cr_clone(x);
    cr_tensor *wide = widened(x->ndim ? x : cr_unsqueeze(x, 0));
    cr_tensor *shifted = sub(wide, cr_detach(cr_max(wide, CR_LIST(-1), true))), *e = cr_exp(shifted);
    cr_tensor *y = is_log(c) ? sub(shifted, cr_log(sum_last(e))) : divide(e, sum_last(e));
    return reshaped_like(cast_to(y, x->dtype), x);
}

static cr_tensor *fused_grad(const cr_call *c, const cr_tensor *g) {
    cr_tensor *dx = cr_fused(c->out);
    cr_array dense = g->array;
    if (!dx || !dx->numel) return dx;
    if (cr_pack(&dense) != CR_OK) return NULL;
    const cr_array y = cr_rows_array(c->out);
    const cr_softmax_bwd_args args = {
        .dx = cr_rows_array(dx), .y = y, .g = cr_array_as(&dense, 2, y.shape), .log = is_log(c)};
    return c->dev->kernels->softmax_bwd(&args) == CR_OK ? dx : NULL;
}

/* y = softmax(x):      dx = y (g - sum(g y))
 * y = log_softmax(x):  dx = g - exp(y) sum(g) */
static void softmax_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *y = c->out;
    if (!c->differentiable && c->dev->kernels->softmax_bwd) dx[0] = fused_grad(c, g);
    else if (!y->ndim) dx[0] = cr_zeros_like(y);            /* of one element: y is 1, or 0, whatever x */
    else if (is_log(c)) dx[0] = sub(g, mul(cr_exp(y), sum_last(g)));
    else dx[0] = mul(y, sub(g, sum_last(mul(g, y))));
}

/* y = softmax(x):      dy = y (t - sum(t y))
 * y = log_softmax(x):  dy = t - sum(t exp(y)) */
static cr_tensor *softmax_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *y = c->out;
    if (!y->ndim) return cr_zeros_like(y);
    if (is_log(c)) return sub(t[0], sum_last(mul(t[0], cr_exp(y))));
    return mul(y, sub(t[0], sum_last(mul(t[0], y))));
}

#define ROW(op_name) \
    .name = op_name, .arity = 1, .contiguous = true, .needs_kernel = offsetof(cr_kernels, softmax), \
    .saves = CR_SAVE_OUT, .infer = softmax_infer, .forward = softmax_forward, .composite = softmax_composite, \
    .grad = softmax_grad, .batch = cr_batch_last, .tangent = softmax_tangent
const cr_op cr_op_softmax = {ROW("softmax")};
const cr_op cr_op_log_softmax = {ROW("log_softmax")};

static cr_tensor *over_axis(const cr_op *op, const cr_tensor *x, int axis) {
    if (!cr_given(op->name, "x", x)) return NULL;
    int a = cr_axis(op->name, axis, x->ndim);
    if (a < 0) return NULL;
    if (a >= x->ndim - 1) return cr_apply(op, 1, &x, NULL);
    cr_scope_begin();
    const cr_tensor *last = cr_transpose(x, a, -1);
    return cr_leave(cr_transpose(cr_apply(op, 1, &last, NULL), a, -1));
}

cr_tensor *cr_softmax(const cr_tensor *x, int axis) { return over_axis(&cr_op_softmax, x, axis); }
cr_tensor *cr_log_softmax(const cr_tensor *x, int axis) { return over_axis(&cr_op_log_softmax, x, axis); }
