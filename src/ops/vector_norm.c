/* vector_norm.c - norms of all numbers along any axes: sum(|x|^p)^(1/p), the largest |x| (p inf), the
 * smallest (-inf), how many are not 0 (0). */
#include "reduce.h"
#include "transform.h"
#include "programs.h"

#include <math.h>
#include <stdlib.h>

static double power(const cr_call *c) { return ((const cr_reduce_params *)c->params)->p; }

static cr_status norm_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const bool none = isinf(power(c)) || power(c) < 0;      /* 0 to a negative power is no sum to start from */
    return none && cr_no_extreme(c) != CR_OK ? cr_error_status() : cr_reduced_meta(c, out);
}

static cr_status norm_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const double p = power(c), root = p == 0 ? 1 : 1 / p;
    cr_reduce_how how = {.kind = isinf(p) ? p > 0 ? CR_REDUCE_MAX : CR_REDUCE_MIN : CR_REDUCE_SUM,
                         .p = p,
                         .map = p == 0               ? CR_MAP_NONZERO
                                : p == 1 || isinf(p) ? CR_MAP_ABS
                                : p == 2             ? CR_MAP_SQUARE
                                                     : CR_MAP_POWER};
    cr_tensor *s = cr_sums_for(out);
    cr_status status = s ? cr_reduce_axes(&how, s, c->in[0], mask_of(c)) : cr_error_status();
    if (status == CR_OK && (how.map == CR_MAP_SQUARE || how.map == CR_MAP_POWER)) {
        const cr_tensor *in[] = {s, how.map == CR_MAP_POWER ? cr_scalar(root) : CR_NONE};
        if (!cr_apply_program_(&cr_rows[p == 2 ? CR_ROW_SQRT : CR_ROW_POW], s, in, NULL)) status = cr_error_status();
        cr_release(in[1]);
    }
    if (status == CR_OK) status = cr_round_into(out, s);
    cr_release(s);
    return status;
}

/* y = sum(|x|^p)^(1/p):  dx = sign(x) |x|^(p - 1) g y^(1 - p), 0 where x or y is 0 */
static cr_tensor *power_grad(const cr_tensor *x, const cr_tensor *y, const cr_tensor *g, double p) {
    cr_tensor *none = cr_eq(y, cr_scalar(0)), *weight = cr_masked_fill(g, none, 0), *some = cr_masked_fill(y, none, 1);
    if (p == 2) return mul(x, divide(weight, some));
    cr_tensor *size = cr_masked_fill(cr_abs(x), cr_eq(x, cr_scalar(0)), 1);
    return mul(mul(cr_sign(x), cr_pow_scalar(size, p - 1)), mul(weight, cr_pow_scalar(some, 1 - p)));
}

/* y = max(|x|), or min:  dx = sign(x) g / (how many |x| are y) where |x| is y, else 0 */
static cr_tensor *extreme_grad(const cr_tensor *x, const cr_tensor *y, const cr_tensor *g, uint32_t mask) {
    cr_tensor *hit = cr_eq(cr_abs(x), y);
    return mul(mul(cr_sign(x), hit), divide(g, cast_to(cr_sum_mask(hit, mask, true, false), g->dtype)));
}

static void norm_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const double p = power(c);
    const uint32_t mask = mask_of(c);
    cr_tensor *x = widened(c->in[0]), *y = widened(cr_spread(c->out, c->in[0], mask)),
              *weight = widened(cr_spread(g, c->in[0], mask)), *wide;
    if (p == 0) wide = cr_zeros_like(c->in[0]);
    else if (!weight) wide = NULL;
    else if (isinf(p)) wide = extreme_grad(x, y, weight, mask);
    else wide = p == 1 ? mul(cr_sign(x), weight) : power_grad(x, y, weight, p);
    dx[0] = cast_to(wide, c->in[0]->dtype);
}

const cr_op cr_op_vector_norm = {
    .name = "norm",
    .arity = 1,
    .params_bytes = sizeof(cr_reduce_params),
    .saves = CR_SAVE_IN(0) | CR_SAVE_OUT,
    .infer = norm_infer,
    .forward = norm_forward,
    .grad = norm_grad,
    .batch = cr_reduce_batch,
    .tangent = cr_reduce_tangent,
};

cr_tensor *cr_norm(const cr_tensor *x, double p, int n, const int64_t *axes, bool keepdim) {
    uint32_t mask;
    if (!cr_float_axes("norm", x, n, axes, &mask)) return NULL;
    if (isnan(p)) return cr_fail(CR_BAD_VALUE, "norm", "p must be a number or an infinity: nan"), NULL;
    return cr_apply(&cr_op_vector_norm, 1, &x, &(cr_reduce_params){.mask = mask, .keepdim = keepdim, .p = p});
}

/* ---- the norm of many tensors: contiguous tensors of one device are one call, and all calls are
 * queued before the first sum is read */
static bool goes_along(const cr_tensor *t, const cr_device *dev) {
    return t->dev == dev && t->contiguous && dev->kernels->sum_squares;
}

/* The sum of squares of the first tensor and the tensors of the same call; *n: how many. */
static cr_tensor *joint_squares(const cr_tensor *const *x, int64_t *n) {
    const cr_device *dev = x[0]->dev;
    int64_t together = 0;
    while (together < *n && goes_along(x[together], dev)) together++;
    *n = together ? together : 1;
    if (!together) return cr_sum_squares(x[0]);
    cr_tensor *y = cr_new_like(&(cr_meta){.dtype = CR_F64}, dev);
    const cr_array **arrays = malloc((size_t)together * sizeof *arrays);
    if (!arrays) return cr_fail(CR_NO_MEMORY, "total_norm", "no memory for %lld arrays", (long long)together), NULL;
    bool there = y != NULL;
    for (int64_t i = 0; i < together && there; i++) {
        arrays[i] = &x[i]->array;
        there = cr_await("total_norm", x[i]->storage) == CR_OK;
    }
    const bool done = there && cr_finished("total_norm", dev->kernels->sum_squares(
                                                         &(cr_sum_squares_args){y->array, together, arrays})) == CR_OK;
    free(arrays);
    return done ? y : NULL;
}

static int64_t sums_of_squares(const char *op, int64_t n, const cr_tensor *const *x, cr_tensor **sums) {
    if (n && (!x || !sums)) return cr_fail_null(op, x ? "the sums" : "the tensors"), -1;
    if (n < 0) return cr_fail(CR_BAD_VALUE, op, "%lld tensors", (long long)n), -1;
    for (int64_t i = 0; i < n; i++)
        if (!cr_given(op, "a tensor", x[i]) || cr_want_float(op, x[i]) != CR_OK) return -1;
    int64_t count = 0;
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0, took; i < n && count >= 0; i += took) {
        took = n - i;
        if ((sums[count] = joint_squares(x + i, &took))) { count++; continue; }
        while (count) cr_release(sums[--count]);
        count = -1;
    }
    cr_set_grad_enabled(recording);
    return count;
}

int64_t cr_sums_of_squares(int64_t n, const cr_tensor *const *x, cr_tensor **sums) {
    return sums_of_squares("sums_of_squares", n, x, sums);
}

cr_status cr_total_norm(int64_t n, const cr_tensor *const *x, double *norm) {
    static const char op[] = "total_norm";
    if (!norm) return cr_fail_null(op, "the norm");
    cr_tensor **sums = malloc((size_t)(n > 0 ? n + 1 : 1) * sizeof *sums);
    if (!sums) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld sums", (long long)n);
    double total = 0, one = 0;
    cr_scope_begin();
    const int64_t count = sums_of_squares(op, n, x, sums);
    cr_status status = count < 0 ? cr_error_status() : CR_OK;
    for (int64_t i = 0; i < count && status == CR_OK; i++) {
        status = cr_read(sums[i], CR_F64, &one, sizeof one);
        total += one;
    }
    cr_scope_end();
    free(sums);
    if (status == CR_OK) *norm = sqrt(total);
    return status;
}
