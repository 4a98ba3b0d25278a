/* logsumexp.c - log(sum(exp(x))) over any axes, without overflow. */
#include "reduce.h"
#include "transform.h"

#include <math.h>

static cr_status logsumexp_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    return cr_reduced_meta(c, out);
}

/* m + log(sum(exp(x - m))) with m the largest x, or 0 where that is infinite; of no elements log(0) */
static cr_tensor *shifted(const cr_tensor *x, uint32_t mask) {
    if (!cr_reduced_count(x, mask)) return cr_log(cr_sum_mask(x, mask, true, false));
    cr_tensor *m = cr_apply(&cr_op_max, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = true});
    m = cr_masked_fill(m, cr_isinf(m), 0);
    return add(cr_log(cr_sum_mask(cr_exp(sub(x, m)), mask, true, false)), m);
}

static cr_status logsumexp_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    if (!out->numel) return CR_OK;
    const bool grad = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *wide = widened(c->in[0]), *y = wide ? reshaped_like(shifted(wide, mask_of(c)), out) : NULL;
    cr_status status = y ? cr_copy_elements(out, y) : cr_error_status();
    cr_scope_end();
    cr_set_grad_enabled(grad);
    return status;
}

/* y = logsumexp(x):  dx = g exp(x - y), 0 where all x are -Inf.  In half precision y is formed again:
 * an exponent rounded to it would be off by percents. */
static void logsumexp_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0], *wide = widened(x);
    const bool rounded = wide_dtype(x) != x->dtype;
    cr_tensor *y = rounded
                       ? cr_apply(&cr_op_logsumexp, 1, &wide, &(cr_reduce_params){.mask = mask_of(c), .keepdim = true})
                       : cr_spread(c->out, x, mask_of(c));
    cr_tensor *finite = cr_masked_fill(y, cr_eq(y, cr_scalar(-INFINITY)), 0);
    dx[0] = cast_to(mul(widened(cr_spread(g, x, mask_of(c))), cr_exp(sub(wide, finite))), x->dtype);
}

const cr_op cr_op_logsumexp = {
    .name = "logsumexp", .arity = 1, .params_bytes = sizeof(cr_reduce_params), .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = logsumexp_infer, .forward = logsumexp_forward, .grad = logsumexp_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_reduce_tangent,
};

cr_tensor *cr_logsumexp(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_float_axes("logsumexp", x, n, axes, &mask)) return NULL;
    return cr_apply(&cr_op_logsumexp, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = keepdim});
}
