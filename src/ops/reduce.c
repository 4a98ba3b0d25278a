/* reduce.c - reductions over any axes: sum, max, min with kernels; mean, var, logsumexp composed of them.
 * Fast twins of the kernel: dev/cpu/reduce.c. */
#include "compose.h"

#include <math.h>
#include <string.h>

typedef struct reduce_params { uint32_t mask; bool keepdim, wide; } reduce_params;    /* wide: a sum of half precision is f32 */

static int64_t reduced_count(const cr_tensor *x, uint32_t mask) {
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++) if (mask >> i & 1) n *= x->shape[i];
    return n;
}

static cr_status reduced_meta(const cr_call *c, cr_meta *out) {
    const cr_tensor *x = c->in[0];
    const reduce_params *p = c->params;
    *out = (cr_meta){.dtype = dtype_of(x)};
    for (int i = 0; i < x->ndim; i++) {
        bool gone = p->mask >> i & 1;
        if (!gone || p->keepdim) out->shape[out->ndim++] = gone ? 1 : x->shape[i];
    }
    return CR_OK;
}

/* Do the reduced axes lie together?  Then x is (M, R, N); axes of size 1 do not matter. */
static bool together(const cr_tensor *x, uint32_t mask, int64_t size[3]) {
    int phase = 0;                                  /* 0: before the reduced axes, 1: among them, 2: behind */
    size[0] = size[1] = size[2] = 1;
    for (int i = 0; i < x->ndim; i++) {
        bool gone = mask >> i & 1;
        if (x->shape[i] == 1) continue;
        if (gone && phase == 2) return false;
        if (gone) phase = 1;
        else if (phase == 1) phase = 2;
        size[phase] *= x->shape[i];
    }
    return true;
}

/* x in order as (M, R, N), copied only where it must be; the caller releases it. */
static cr_tensor *arranged(const cr_tensor *x, uint32_t mask, int64_t size[3]) {
    if ((x->flags & CR_FLAG_CONTIGUOUS) && together(x, mask, size)) return cr_tensor_alias(x, NULL);
    cr_meta m = {.dtype = dtype_of(x), .ndim = x->ndim, .offset = x->offset, .strided = true};
    int n = 0;
    for (int reduced = 0; reduced < 2; reduced++)
        for (int i = 0; i < x->ndim; i++)
            if ((int)(mask >> i & 1) == reduced) { m.shape[n] = x->shape[i]; m.strides[n++] = x->strides[i]; }
    size[1] = reduced_count(x, mask);
    size[2] = 1;
    size[0] = reduced_count(x, ~mask);
    cr_tensor *order = cr_tensor_alias(x, &m), *y = order ? cr_packed(order) : NULL;
    cr_release(order);
    return y;
}

static cr_status run(cr_reduce_kind kind, cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    int64_t size[3];
    if (!y->numel) return CR_OK;
    cr_tensor *from = arranged(x, mask, size);
    if (!from) return cr_error_status();
    cr_status status = x->dev->kernels->reduce(kind, y, from, size[0], size[1], size[2]);
    cr_release(from);
    return status;
}

/* A result of the reduction over mask, seen with the reduced axes as 1: it broadcasts against x. */
static cr_tensor *spread(const cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) shape[i] = mask >> i & 1 ? 1 : x->shape[i];
    return cr_reshape(y, x->ndim, shape);
}

static uint32_t mask_of(const cr_call *c) { return ((const reduce_params *)c->params)->mask; }

/* ---- sum */
static cr_status sum_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    reduced_meta(c, out);
    if (!cr_dtype_is_float(dtype_of(x))) out->dtype = CR_I64;
    else if (((const reduce_params *)c->params)->wide) out->dtype = wide_dtype(x);
    return CR_OK;
}

static cr_status sum_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return run(CR_REDUCE_SUM, out, c->in[0], mask_of(c));
}

/* y = sum(x):  dx = g repeated */
static void sum_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    dx[0] = cr_expand(cast_to(spread(g, x, mask_of(c)), dtype_of(x)), x->ndim, x->shape);
}

const cr_op cr_op_sum = {
    .name = "sum", .arity = 1, .params_bytes = sizeof(reduce_params), .infer = sum_infer, .forward = sum_forward, .grad = sum_grad,
    .doc = "the sum over axes; integers and bool sum as int64",
    .tests = {{.in = {{3, {2, 3, 5}}}, .params = &(const reduce_params){2, false, false}}, {.in = {{3, {2, 3, 5}}}, .params = &(const reduce_params){5, true, false}},
              {.in = {{2, {3, 1031}}}, .params = &(const reduce_params){3, false, false}}, {.in = {{2, {0, 3}}}, .params = &(const reduce_params){1, false, false}},
              {.in = {{0, {0}}}, .params = &(const reduce_params){0, false, false}}},
};

cr_tensor *cr_sum_mask(const cr_tensor *x, uint32_t mask, bool keepdim, bool wide) {
    return cr_apply(&cr_op_sum, 1, &x, &(reduce_params){mask, keepdim, wide});
}

cr_tensor *cr_sum(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_given("sum", "x", x) || cr_axes_mask("sum", n, axes, x->ndim, &mask) != CR_OK) return NULL;
    return cr_sum_mask(x, mask, keepdim, false);
}

/* ---- sum of squares */
static cr_status squares_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = (cr_meta){.dtype = wide_dtype(c->in[0])};
    return cr_want_float("sum_squares", c->in[0]);
}

static cr_status squares_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return run(CR_REDUCE_SQUARES, out, c->in[0], (1u << c->in[0]->ndim) - 1);
}

/* y = sum(x^2):  dx = 2 g x */
static void squares_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    dx[0] = cast_to(mul(cr_mul_scalar(g, 2), widened(x)), dtype_of(x));
}

const cr_op cr_op_sum_squares = {
    .name = "sum_squares", .arity = 1, .saves = CR_SAVE_IN(0), .infer = squares_infer, .forward = squares_forward, .grad = squares_grad,
    .doc = "the sum of all squares; half precision in float32",
    .tests = {{.in = {{3, {2, 3, 5}}}}, {.in = {{1, {1031}}}}, {.in = {{2, {0, 3}}}}, {.in = {{0, {0}}}}},
};

cr_tensor *cr_sum_squares(const cr_tensor *x) { return cr_apply(&cr_op_sum_squares, 1, &x, NULL); }

/* ---- max, min */
static cr_status extreme_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    if (!reduced_count(x, mask_of(c)))
        return cr_fail(CR_BAD_VALUE, c->op->name, "over no elements has no value: the reduced axes of %s are empty", cr_shape_text(x->ndim, x->shape).s);
    return reduced_meta(c, out);
}

static cr_status extreme_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return run(c->op == &cr_op_max ? CR_REDUCE_MAX : CR_REDUCE_MIN, out, c->in[0], mask_of(c));
}

/* y = max(x):  dx = g / (how many x are y) where x is y, else 0 */
static void extreme_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    cr_tensor *hit = cr_eq(x, spread(c->out, x, mask_of(c)));
    cr_tensor *count = cr_sum_mask(hit, mask_of(c), true, false);
    dx[0] = mul(hit, divide(spread(g, x, mask_of(c)), cast_to(count, dtype_of(x))));
}

#define EXTREME_TESTS {{.in = {{3, {2, 3, 5}}}, .params = &(const reduce_params){2, false, false}}, \
                       {.in = {{3, {2, 3, 5}}}, .params = &(const reduce_params){5, true, false}}, \
                       {.in = {{2, {3, 1031}}}, .params = &(const reduce_params){2, false, false}}, \
                       {.in = {{2, {0, 3}}}, .params = &(const reduce_params){2, false, false}}}

const cr_op cr_op_max = {
    .name = "max", .arity = 1, .params_bytes = sizeof(reduce_params), .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = extreme_infer, .forward = extreme_forward, .grad = extreme_grad, .doc = "the largest over axes; NaN wins, ties share the gradient",
    .tests = EXTREME_TESTS,
};
const cr_op cr_op_min = {
    .name = "min", .arity = 1, .params_bytes = sizeof(reduce_params), .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = extreme_infer, .forward = extreme_forward, .grad = extreme_grad, .doc = "the smallest over axes; NaN wins, ties share the gradient",
    .tests = EXTREME_TESTS,
};

static cr_tensor *extreme(const cr_op *op, const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_given(op->name, "x", x) || cr_axes_mask(op->name, n, axes, x->ndim, &mask) != CR_OK) return NULL;
    return cr_apply(op, 1, &x, &(reduce_params){mask, keepdim, false});
}

cr_tensor *cr_max(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) { return extreme(&cr_op_max, x, n, axes, keepdim); }
cr_tensor *cr_min(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) { return extreme(&cr_op_min, x, n, axes, keepdim); }

/* ---- composites: half precision computes in f32 */
static bool float_axes(const char *op, const cr_tensor *x, int n, const int64_t *axes, uint32_t *mask) {
    return cr_given(op, "x", x) && cr_want_float(op, x) == CR_OK && cr_axes_mask(op, n, axes, x->ndim, mask) == CR_OK;
}

/* sum(x) / N, in the dtype of the sums */
static cr_tensor *wide_mean(const cr_tensor *x, uint32_t mask, bool keepdim) {
    return cr_div_scalar(cr_sum_mask(x, mask, keepdim, true), (double)reduced_count(x, mask));
}

cr_tensor *cr_mean(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!float_axes("mean", x, n, axes, &mask)) return NULL;
    cr_scope_begin();
    return cr_leave(cast_to(wide_mean(x, mask, keepdim), dtype_of(x)));
}

/* sum((x - mean)^2) / (N - correction), in two passes: the difference first, so that nothing cancels */
cr_tensor *cr_var(const cr_tensor *x, int n, const int64_t *axes, double correction, bool keepdim) {
    uint32_t mask;
    if (!float_axes("var", x, n, axes, &mask)) return NULL;
    if (!isfinite(correction)) return cr_fail(CR_BAD_VALUE, "var", "the correction must be finite: %g", correction), NULL;
    cr_scope_begin();
    cr_tensor *wide = widened(x), *d = wide ? sub(wide, wide_mean(wide, mask, true)) : NULL;
    double degrees = (double)reduced_count(x, mask) - correction;
    cr_tensor *y = d ? cr_div_scalar(cr_sum_mask(mul(d, d), mask, keepdim, false), degrees > 0 ? degrees : 0) : NULL;
    return cr_leave(cast_to(y, dtype_of(x)));
}

/* m + log(sum(exp(x - m))) with m the largest x, or 0 where that is infinite.  Rows of -Inf alone give -Inf, with gradient 0:
 * their sum of 0 is replaced by 1 before the logarithm sees it. */
cr_tensor *cr_logsumexp(const cr_tensor *x, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!float_axes("logsumexp", x, n, axes, &mask)) return NULL;
    cr_scope_begin();
    cr_tensor *wide = widened(x), *m = NULL, *y = NULL;
    if (!wide) return cr_leave(NULL);
    if (!reduced_count(x, mask)) return cr_leave(cr_log(cr_sum_mask(x, mask, keepdim, false)));
    m = cr_detach(extreme(&cr_op_max, wide, n, axes, true));
    m = cr_masked_fill(m, cr_isinf(m), 0);
    cr_tensor *sum = cr_sum_mask(cr_exp(sub(wide, m)), mask, true, false);
    cr_tensor *none = cr_eq(sum, cr_scalar(0));
    y = add(cr_masked_fill(cr_log(cr_masked_fill(sum, none, 1)), none, -INFINITY), m);
    if (y && !keepdim) {
        cr_meta shape;
        reduced_meta(&(cr_call){.n = 1, .in = &x, .params = &(reduce_params){.mask = mask}}, &shape);
        y = cr_reshape(y, shape.ndim, shape.shape);
    }
    return cr_leave(cast_to(y, dtype_of(x)));
}
