/* variance.c - var and std over any axes: sum((x - mean)^2) / (N - correction), the difference first,
 * so that nothing cancels. */
#include "reduce.h"
#include "transform.h"
#include "programs.h"

#include <math.h>

/* N - correction, not below 0: then the result is NaN or infinite */
static double degrees(const cr_call *c) {
    double n = (double)cr_reduced_count(c->in[0], mask_of(c)) - ((const cr_reduce_params *)c->params)->p;
    return n > 0 ? n : 0;
}

static cr_status var_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    return cr_reduced_meta(c, out);
}

static cr_status var_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_tensor *s = cr_sums_for(out);
    if (!s) return cr_error_status();
    cr_status status = cr_reduce_axes(&(cr_reduce_how){.kind = CR_REDUCE_SUM, .map = CR_MAP_DEVIATION}, s, c->in[0],
                                      mask_of(c));
    const cr_tensor *divided[] = {s, cr_scalar(degrees(c))};
    if (status == CR_OK && !cr_apply_program_(&cr_rows[CR_ROW_DIV], s, divided, NULL)) status = cr_error_status();
    if (status == CR_OK && c->op == &cr_op_std && !cr_apply_program_(&cr_rows[CR_ROW_SQRT], s, divided, NULL))
        status = cr_error_status();
    if (status == CR_OK) status = cr_round_into(out, s);
    cr_release(divided[1]); cr_release(s);
    return status;
}

/* y = var(x):  dx = 2 g (x - mean(x)) / degrees
 * y = std(x):  dx = g / y (x - mean(x)) / degrees, 0 where y is 0 */
static void var_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_tensor *wide = widened(x), *weight = widened(g);
    if (!wide) { dx[0] = NULL; return; }
    if (c->op == &cr_op_std) {
        cr_tensor *y = widened(c->out);
        weight = divide(weight, cr_masked_fill(y, cr_eq(y, cr_scalar(0)), INFINITY));
    }
    cr_tensor *scale = cr_spread(mul_k(weight, (c->op == &cr_op_std ? 1 : 2) / degrees(c)), x, mask_of(c));
    cr_tensor *mean = cr_div_scalar(cr_sum_mask(wide, mask_of(c), true, false),
                                    (double)cr_reduced_count(x, mask_of(c)));
    dx[0] = cast_to(mul(scale, sub(wide, mean)), x->dtype);
}

const cr_op cr_op_var = {
    .name = "var",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .saves = CR_SAVE_IN(0),
    .infer = var_infer,
    .forward = var_forward,
    .grad = var_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_reduce_tangent,
};
const cr_op cr_op_std = {
    .name = "std",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = var_infer,
    .forward = var_forward,
    .grad = var_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_reduce_tangent,
};

static cr_tensor *deviation(const cr_op *op, const cr_tensor *x, int n, const int64_t *axes, double correction,
                            bool keepdim) {
    uint32_t mask;
    if (!cr_float_axes(op->name, x, n, axes, &mask)) return NULL;
    if (!isfinite(correction))
        return cr_fail(CR_BAD_VALUE, op->name, "the correction must be finite: %g", correction), NULL;
    return cr_apply(op, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = keepdim, .p = correction});
}

cr_tensor *cr_var(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim) {
    return deviation(&cr_op_var, x, n, axes, correction, keepdim);
}
cr_tensor *cr_std(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim) {
    return deviation(&cr_op_std, x, n, axes, correction, keepdim);
}
