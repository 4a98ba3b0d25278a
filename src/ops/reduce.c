/* reduce.c - reductions over any axes: sum, prod, max, min and the tests any, all, count_nonzero with
 * kernels; mean, nansum, nanmean composed of them.  Fast twins of the kernel: dev/cpu/reduce.c. */
#include "reduce.h"
#include "transform.h"

int64_t cr_reduced_count(const cr_tensor *x, uint32_t mask) {
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++) if (mask >> i & 1) n *= x->shape[i];
    return n;
}

cr_status cr_reduced_meta(const cr_call *c, cr_meta *out) {
    const cr_tensor *x = c->in[0];
    const cr_reduce_params *p = c->params;
    *out = (cr_meta){.dtype = x->dtype};
    for (int i = 0; i < x->ndim; i++) {
        bool gone = p->mask >> i & 1;
        if (!gone || p->keepdim) out->shape[out->ndim++] = gone ? 1 : x->shape[i];
    }
    return CR_OK;
}

cr_tensor *cr_spread(const cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) shape[i] = mask >> i & 1 ? 1 : x->shape[i];
    return cr_reshape(y, x->ndim, shape);
}

cr_tensor *cr_sums_for(cr_tensor *y) {
    cr_meta m = cr_meta_of(y);
    m.dtype = wide_dtype(y);
    return m.dtype == y->dtype ? cr_tensor_alias(y, NULL) : cr_new_like(&m, y->dev);
}

cr_status cr_round_into(cr_tensor *y, const cr_tensor *sums) {
    return sums->dtype == y->dtype ? CR_OK : cr_copy_elements(y, sums);
}

cr_status cr_no_extreme(const cr_call *c) {
    const cr_tensor *x = c->in[0];
    if (cr_reduced_count(x, mask_of(c))) return CR_OK;
    return cr_fail(CR_BAD_VALUE, c->op->name, "over no elements has no value: the reduced axes of %s are empty",
                   cr_shape_text(x->ndim, x->shape).s);
}

bool cr_float_axes(const char *op, const cr_tensor *x, int n, const int64_t *axes, uint32_t *mask) {
    return cr_given(op, "x", x) && cr_want_float(op, x) == CR_OK && cr_axes_mask(op, n, axes, x->ndim, mask) == CR_OK;
}

cr_tensor *cr_reduce_batch(const cr_batched *b) {
    cr_reduce_params p = *(const cr_reduce_params *)b->call->params;
    p.mask <<= 1;
    return cr_batch_apply(b, b->in, &p);
}

/* The gradient for the cotangent 1. */
static cr_tensor *slope(const cr_call *c) {
    cr_call of_one = *c;
    cr_tensor *dx = same(CR_NONE);
    of_one.needs = &(bool){true};
    of_one.differentiable = true;
    const cr_tensor *one = cr_ones_like(c->out);
    if (!one) return NULL;
    c->op->grad(&of_one, one, &dx);
    return dx;
}

cr_tensor *cr_reduce_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_reduce_params *p = c->params;
    cr_tensor *dx = slope(c);
    return dx ? cr_sum_mask(mul(dx, t[0]), p->mask, p->keepdim, false) : NULL;
}

/* Any op of this file over the axes that the user lists. */
static cr_tensor *over_axes(const cr_op *op, const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_given(op->name, "x", x) || cr_axes_mask(op->name, n, axes, x->ndim, &mask) != CR_OK) return NULL;
    return cr_apply(op, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = keepdim});
}


/* ---- sum: over axes; integers and bool sum as i64 */
static cr_status sum_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    cr_reduced_meta(c, out);
    if (!cr_dtype_is_float(x->dtype) || ((const cr_reduce_params *)c->params)->wide)
        out->dtype = cr_dtype_sum(x->dtype);
    return CR_OK;
}

static cr_status sum_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_reduce_axes(&(cr_reduce_how){.kind = CR_REDUCE_SUM}, out, c->in[0], mask_of(c));
}

/* y = sum(x):  dx = g repeated */
static void sum_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    dx[0] = cr_expand(cast_to(cr_spread(g, x, mask_of(c)), x->dtype), x->ndim, x->shape);
}

const cr_op cr_op_sum = {
    .name = "sum",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .infer = sum_infer,
    .forward = sum_forward,
    .grad = sum_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_tangent_linear,
};

cr_tensor *cr_sum_mask(const cr_tensor *x, uint32_t mask, bool keepdim, bool wide) {
    return cr_apply(&cr_op_sum, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = keepdim, .wide = wide});
}

cr_tensor *cr_sum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    return over_axes(&cr_op_sum, x, n, axes, keepdim);
}

/* ---- sum of squares: of all elements; half precision in f32 */
static cr_status squares_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = (cr_meta){.dtype = wide_dtype(c->in[0])};
    return cr_want_float("sum_squares", c->in[0]);
}

static cr_status squares_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_reduce_axes(&(cr_reduce_how){.kind = CR_REDUCE_SUM, .map = CR_MAP_SQUARE}, out, c->in[0],
                          (1u << c->in[0]->ndim) - 1);
}

/* y = sum(x^2):  dx = 2 g x */
static void squares_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    dx[0] = cast_to(mul(cr_mul_scalar(g, 2), widened(x)), x->dtype);
}

static cr_tensor *squares_batch(const cr_batched *b) {
    cr_tensor *wide = widened(b->in[0]);
    return cr_sum_mask(mul(wide, wide), ((1u << b->call->in[0]->ndim) - 1) << 1, false, false);
}

/* y = sum(x^2):  dy = 2 sum(x t) */
static cr_tensor *squares_tangent(const cr_call *c, const cr_tensor *const *t) {
    return cr_mul_scalar(cr_sum(mul(widened(c->in[0]), widened(t[0])), CR_ALL, false), 2);
}

const cr_op cr_op_sum_squares = {
    .name = "sum_squares",
    .arity = 1,
    .saves = CR_SAVE_IN(0),
    .infer = squares_infer,
    .forward = squares_forward,
    .grad = squares_grad,
    .batch = squares_batch,
    .tangent = squares_tangent,
};

cr_tensor *cr_sum_squares(const cr_tensor *x) { return cr_apply(&cr_op_sum_squares, 1, &x, NULL); }

/* ---- max, min: over axes; NaN wins, ties share the gradient */
static cr_status extreme_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    return cr_no_extreme(c) == CR_OK ? cr_reduced_meta(c, out) : cr_error_status();
}

static cr_status extreme_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_reduce_axes(&(cr_reduce_how){.kind = c->op == &cr_op_max ? CR_REDUCE_MAX : CR_REDUCE_MIN}, out, c->in[0],
                          mask_of(c));
}

/* y = max(x):  dx = g / (how many x are y) where x is y, else 0 */
static void extreme_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_tensor *hit = cr_eq(x, cr_spread(c->out, x, mask_of(c)));
    cr_tensor *count = cr_sum_mask(hit, mask_of(c), true, false);
    dx[0] = mul(hit, divide(cr_spread(g, x, mask_of(c)), cast_to(count, x->dtype)));
}


const cr_op cr_op_max = {
    .name = "max", .arity = 1, .params_bytes = sizeof(cr_reduce_params), .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = extreme_infer, .forward = extreme_forward, .grad = extreme_grad,
    .batch = cr_reduce_batch, .tangent = cr_reduce_tangent,
};
const cr_op cr_op_min = {
    .name = "min", .arity = 1, .params_bytes = sizeof(cr_reduce_params), .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = extreme_infer, .forward = extreme_forward, .grad = extreme_grad,
    .batch = cr_reduce_batch, .tangent = cr_reduce_tangent,
};

cr_tensor *cr_max(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    return over_axes(&cr_op_max, x, n, axes, keepdim);
}
cr_tensor *cr_min(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    return over_axes(&cr_op_min, x, n, axes, keepdim);
}

cr_tensor *cr_aminmax(const cr_tensor *x, int n, const int64_t *axes, bool keepdim, cr_tensor **max) {
    const cr_status before = cr_error_status();
    cr_tensor *min = cr_named("aminmax", before, cr_min(x, n, axes, keepdim));
    if (!max) return min;
    *max = min ? cr_named("aminmax", before, cr_max(x, n, axes, keepdim)) : NULL;
    if (*max) return min;
    cr_release(min);
    return NULL;
}

/* ---- any, all: bool, u8 for u8.  count_nonzero: i64 */
static cr_status tests_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    cr_reduced_meta(c, out);
    out->dtype = c->op == &cr_op_count_nonzero ? CR_I64 : c->in[0]->dtype == CR_U8 ? CR_U8 : CR_BOOL;
    return CR_OK;
}

static cr_status tests_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_reduce_kind kind = c->op == &cr_op_any ? CR_REDUCE_MAX : c->op == &cr_op_all ? CR_REDUCE_MIN : CR_REDUCE_SUM;
    return cr_reduce_axes(&(cr_reduce_how){.kind = kind, .map = CR_MAP_NONZERO}, out, c->in[0], mask_of(c));
}

const cr_op cr_op_any = {
    .name = "any", .arity = 1, .params_bytes = sizeof(cr_reduce_params), .infer = tests_infer, .forward = tests_forward,
    .batch = cr_reduce_batch, .no_grad = "the result is a truth value",
};
const cr_op cr_op_all = {
    .name = "all", .arity = 1, .params_bytes = sizeof(cr_reduce_params), .infer = tests_infer, .forward = tests_forward,
    .batch = cr_reduce_batch, .no_grad = "the result is a truth value",
};
const cr_op cr_op_count_nonzero = {
    .name = "count_nonzero",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .infer = tests_infer,
    .forward = tests_forward,
    .batch = cr_reduce_batch,
    .no_grad = "the result is a count",
};

cr_tensor *cr_any(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    return over_axes(&cr_op_any, x, n, axes, keepdim);
}
cr_tensor *cr_all(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    return over_axes(&cr_op_all, x, n, axes, keepdim);
}
cr_tensor *cr_count_nonzero(const cr_tensor *x, int n, const int64_t *axes) {
    return over_axes(&cr_op_count_nonzero, x, n, axes, false);
}

/* ---- nansum: sum with NaN counted as 0 */
static cr_status nansum_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    cr_reduce_map map = cr_dtype_is_float(c->in[0]->dtype) ? CR_MAP_NUMBER : CR_MAP_SAME;
    return cr_reduce_axes(&(cr_reduce_how){.kind = CR_REDUCE_SUM, .map = map}, out, c->in[0], mask_of(c));
}

/* y = sum(x that are numbers):  dx = g repeated, 0 where x is NaN */
static void nansum_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    dx[0] = cr_masked_fill(cast_to(cr_spread(g, x, mask_of(c)), x->dtype), cr_isnan(x), 0);
}

const cr_op cr_op_nansum = {
    .name = "nansum",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .saves = CR_SAVE_IN(0),
    .infer = sum_infer,
    .forward = nansum_forward,
    .grad = nansum_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_reduce_tangent,
};

cr_tensor *cr_nansum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    return over_axes(&cr_op_nansum, x, n, axes, keepdim);
}

/* ---- means: sum / N, formed in f32 for half precision */
cr_tensor *cr_mean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_float_axes("mean", x, n, axes, &mask)) return NULL;
    cr_scope_begin();
    return cr_leave(
        cast_to(cr_div_scalar(cr_sum_mask(x, mask, keepdim, true), (double)cr_reduced_count(x, mask)), x->dtype));
}

cr_tensor *cr_nanmean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_float_axes("nanmean", x, n, axes, &mask)) return NULL;
    cr_scope_begin();
    cr_tensor *sum = cr_apply(&cr_op_nansum, 1, &x,
                              &(cr_reduce_params){.mask = mask, .keepdim = keepdim, .wide = true});
    return cr_leave(cast_to(divide(sum, cr_sum_mask(cr_eq(x, x), mask, keepdim, false)), x->dtype));
}
