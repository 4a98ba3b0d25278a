/* scan.c - scans along an axis: cumsum, logcumsumexp, cummax, cummin; and diff, the inverse of cumsum.
 * Fast twin: dev/cpu/scan.c. */
#include "scan.h"
#include "transform.h"

#include <math.h>
#include <string.h>

static const cr_scan_params *params(const cr_call *c) { return c->params; }

cr_status cr_scan_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    if (!cr_dtype_is_float(out->dtype)) out->dtype = CR_I64;
    return CR_OK;
}

cr_status cr_run_scan(const cr_call *c, cr_scan_kind kind, cr_tensor *out, cr_tensor *index) {
    const cr_tensor *x = c->in[0], *a = c->n > 1 && c->in[1] != CR_NONE ? c->in[1] : NULL;
    const int axis = params(c)->axis;
    if (!out->numel) return CR_OK;
    return c->dev->kernels->scan(&(cr_scan_args){.y = cr_around(&out->array, axis, 1),
                                                 .index = array_of(index),
                                                 .x = cr_around(&x->array, axis, 1),
                                                 .a = array_of(a),
                                                 .kind = kind,
                                                 .reverse = params(c)->reverse});
}

cr_tensor *cr_scan_over(const cr_op *op, const cr_tensor *x, int axis) {
    if (!cr_given(op->name, "x", x)) return NULL;
    int a = cr_axis(op->name, axis, x->ndim);
    const cr_tensor *in[] = {x, CR_NONE};
    return a < 0 ? NULL : cr_apply(op, op->arity, in, &(cr_scan_params){.axis = a});
}

cr_tensor *cr_before(const cr_tensor *y, const cr_tensor *first, int axis) {
    const cr_tensor *parts[] = {first, cr_slice(y, axis, 0, y ? y->shape[axis] - 1 : 0, 1)};
    return cr_cat(2, parts, axis);
}

/* ---- cumsum: y[k] = x[k] + a[k] y[k - 1], a recurrence; without a, running sums.  Integers and bool sum as i64 */
static cr_status cumsum_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0], *a = c->in[1];
    cr_scan_infer(c, out, aux);
    if (a == CR_NONE) return CR_OK;
    if (cr_want_float("cumsum", x) != CR_OK || cr_want_same_dtype("cumsum", x, a) != CR_OK) return cr_error_status();
    if (cr_shape_equal(a->ndim, a->shape, x->ndim, x->shape)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, "cumsum", "weights %s for %s: the shapes must be equal",
                   cr_shape_text(a->ndim, a->shape).s, cr_shape_text(x->ndim, x->shape).s);
}

static cr_status cumsum_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_run_scan(c, CR_SCAN_SUM, out, NULL);
}

static uint32_t cumsum_saves(const cr_call *c) {
    return c->in[1] == CR_NONE ? 0 : CR_SAVE_IN(1) | (c->needs[1] ? CR_SAVE_OUT : 0);
}

/* y = the recurrence of x:  dx = its transpose of g;  da[k] = (the forward one of the two)[k - 1] (the
 * reverse one)[k] */
static void cumsum_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *a = c->in[1], *y = c->out;
    const int axis = params(c)->axis;
    const bool reverse = params(c)->reverse;
    cr_tensor *t = cr_recurrence(g, a, axis, !reverse);
    if (c->needs[0]) dx[0] = t;
    if (a == CR_NONE || !c->needs[1]) return;
    const cr_tensor *ahead = reverse ? t : y, *back = reverse ? y : t;
    dx[1] = y->numel && t ? mul(cr_before(ahead, cr_zeros_like(cr_slice(ahead, axis, 0, 1, 1)), axis), back) : t;
}

/* y[k] = x[k] + a[k] y[k - 1]:  dy[k] = t[k] + ta[k] y[k - 1] + a[k] dy[k - 1]; reverse:
 * y[k] = x[k] + a[k + 1] y[k + 1], where ta[k + 1] y[k + 1] is the next element of ta y */
static cr_tensor *cumsum_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_scan_params *p = params(c);
    const cr_tensor *x = c->in[0], *y = c->out;
    cr_tensor *sum = same(t[0]);
    if (c->in[1] != CR_NONE && t[1] != CR_NONE && x->numel) {
        const cr_tensor *none = cr_zeros_like(cr_slice(y, p->axis, 0, 1, 1)),
                        *product = p->reverse ? mul(t[1], y) : NULL;
        const cr_tensor *parts[] = {product ? cr_slice(product, p->axis, 1, INT64_MAX, 1) : NULL, none};
        sum = cr_tangent_sum(sum, p->reverse ? cr_cat(2, parts, p->axis) : mul(t[1], cr_before(y, none, p->axis)));
    }
    return sum && sum != CR_NONE ? cr_recurrence(sum, c->in[1], p->axis, p->reverse) : sum;
}

const cr_op cr_op_cumsum = {
    .name = "cumsum",
    .arity = 2,
    .optional = 2,
    .params_bytes = sizeof(cr_scan_params),
    .contiguous = true,
    .saves_for = cumsum_saves,
    .infer = cumsum_infer,
    .forward = cumsum_forward,
    .grad = cumsum_grad,
    .batch = cr_batch_axis,
    .tangent = cumsum_tangent,
};

cr_tensor *cr_recurrence(const cr_tensor *x, const cr_tensor *a, int axis, bool reverse) {
    const cr_tensor *in[] = {x, a};
    return cr_apply(&cr_op_cumsum, 2, in, &(cr_scan_params){axis, reverse});
}

cr_tensor *cr_cumsum(const cr_tensor *x, int axis) { return cr_scan_over(&cr_op_cumsum, x, axis); }

/* ---- logcumsumexp: y[k] = log(sum(exp(x[0 ... k]))) */
static cr_status logcumsumexp_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    return cr_want_float("logcumsumexp", c->in[0]) == CR_OK ? cr_scan_infer(c, out, aux) : cr_error_status();
}

static cr_status logcumsumexp_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_run_scan(c, CR_SCAN_LOGSUMEXP, out, NULL);
}

/* y[k] = log(sum of exp(x) up to k):  dx[k] = sum from k on of g[i] exp(x[k] - y[i])
 *                                           = exp(x[k] - y[k]) t[k],  t[k] = g[k] + exp(y[k] - y[k + 1])
 *                                           t[k + 1]: no exponent is above 0 In half precision y is
 *                                           formed again: an exponent rounded to it would be off by
 *                                           percents. */
static void logcumsumexp_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    const int axis = params(c)->axis;
    cr_tensor *wide = widened(x), *y = wide_dtype(x) != x->dtype ? cr_logcumsumexp(wide, axis) : same(c->out);
    cr_tensor *finite = cr_masked_fill(y, cr_eq(y, cr_scalar(-INFINITY)), 0);
    if (!finite || !x->numel || !x->ndim) { dx[0] = finite ? same(g) : NULL; return; }
    cr_tensor *decay = cr_exp(sub(cr_before(y, cr_slice(y, axis, 0, 1, 1), axis), finite));
    dx[0] = cast_to(mul(cr_exp(sub(wide, finite)), cr_recurrence(widened(g), decay, axis, true)), x->dtype);
}

/* exp(y[k]) dy[k] = sum up to k of exp(x[i]) t[i], so dy[k] = exp(x[k] - y[k]) t[k] + exp(y[k - 1] - y[k]) dy[k - 1] */
static cr_tensor *logcumsumexp_tangent(const cr_call *c, const cr_tensor *const *t) {
    const int axis = params(c)->axis;
    cr_tensor *x = widened(c->in[0]), *y = widened(c->out), *wide = widened(t[0]);
    cr_tensor *finite = cr_masked_fill(y, cr_eq(y, cr_scalar(-INFINITY)), 0);
    if (!finite || !x->numel || !x->ndim) return finite ? wide : NULL;
    cr_tensor *decay = cr_exp(sub(cr_before(y, cr_slice(y, axis, 0, 1, 1), axis), finite));
    return cr_recurrence(mul(cr_exp(sub(x, finite)), wide), decay, axis, false);
}

const cr_op cr_op_logcumsumexp = {
    .name = "logcumsumexp",
    .arity = 1,
    .params_bytes = sizeof(cr_scan_params),
    .contiguous = true,
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = logcumsumexp_infer,
    .forward = logcumsumexp_forward,
    .grad = logcumsumexp_grad,
    .batch = cr_batch_axis,
    .tangent = logcumsumexp_tangent,
};

cr_tensor *cr_logcumsumexp(const cr_tensor *x, int axis) { return cr_scan_over(&cr_op_logcumsumexp, x, axis); }

/* ---- cummax, cummin: the last of equals; NaN wins */
static cr_status extreme_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    *out = aux[0] = cr_meta_of(c->in[0]);
    aux[0].dtype = CR_I64;
    return CR_OK;
}

static cr_status extreme_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    return cr_run_scan(c, c->op == &cr_op_cummax ? CR_SCAN_MAX : CR_SCAN_MIN, out, aux[0]);
}

static void extreme_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    dx[0] = cr_spread_at(c, g, params(c)->axis, c->aux[0]);
}

static cr_tensor *extreme_tangent(const cr_call *c, const cr_tensor *const *t) {
    return c->out->ndim ? cr_gather(t[0], params(c)->axis, c->aux[0]) : same(t[0]);
}

const cr_op cr_op_cummax = {
    .name = "cummax",
    .arity = 1,
    .params_bytes = sizeof(cr_scan_params),
    .contiguous = true,
    .saves = CR_SAVE_AUX,
    .n_aux = 1,
    .infer = extreme_infer,
    .forward = extreme_forward,
    .grad = extreme_grad,
    .batch = cr_batch_axis,
    .tangent = extreme_tangent,
};
const cr_op cr_op_cummin = {
    .name = "cummin",
    .arity = 1,
    .params_bytes = sizeof(cr_scan_params),
    .contiguous = true,
    .saves = CR_SAVE_AUX,
    .n_aux = 1,
    .infer = extreme_infer,
    .forward = extreme_forward,
    .grad = extreme_grad,
    .batch = cr_batch_axis,
    .tangent = extreme_tangent,
};

static cr_tensor *running(const cr_op *op, const cr_tensor *x, int axis, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given(op->name, "x", x)) return NULL;
    int a = cr_axis(op->name, axis, x->ndim);
    return a < 0 ? NULL : cr_apply_with_index(op, x, &(cr_scan_params){.axis = a}, index);
}

cr_tensor *cr_cummax(const cr_tensor *x, int axis, cr_tensor **index) { return running(&cr_op_cummax, x, axis, index); }
cr_tensor *cr_cummin(const cr_tensor *x, int axis, cr_tensor **index) { return running(&cr_op_cummin, x, axis, index); }

/* ---- diff */
cr_tensor *cr_diff(const cr_tensor *x, int64_t n, int axis) {
    if (!cr_given("diff", "x", x)) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_VALUE, "diff", "a 0-d tensor has no differences"), NULL;
    int a = cr_axis("diff", axis, x->ndim);
    if (a < 0) return NULL;
    if (n < 0)
        return cr_fail(CR_BAD_VALUE, "diff", "differences of order %lld: 0 or more are expected", (long long)n), NULL;
    cr_scope_begin();
    cr_tensor *y = cr_alias(x);
    for (int64_t size = x->shape[a]; y && n > 0 && size > 0; n--, size--) {
        cr_tensor *later = cr_slice(y, a, 1, size, 1), *earlier = cr_slice(y, a, 0, size - 1, 1);
        y = x->dtype == CR_BOOL ? cr_logical_xor(later, earlier) : sub(later, earlier);
    }
    return cr_leave(y);
}
