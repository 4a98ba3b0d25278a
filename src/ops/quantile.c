/* quantile.c - from sorted rows: quantiles, interpolated between two elements, and the mode. */
#include "compose.h"
#include "transform.h"

#include <string.h>

/* Axis `from` moved to position `to`; the others keep their order. */
static cr_tensor *moved(const cr_tensor *x, int from, int to) {
    int64_t order[CR_MAX_DIMS];
    if (!x) return NULL;
    for (int i = 0, next = 0; i < x->ndim; i++) {
        if (next == from) next++;
        order[i] = i == to ? from : next++;
    }
    return cr_permute(x, x->ndim, order);
}

/* Where quantile q of each row lies among its R elements in order, NaN last: (..., Q).  A NaN is the
 * quantile, unless they are skipped. */
static cr_tensor *ranks(const cr_tensor *sorted, const cr_tensor *q, bool skip_nan) {
    const int64_t R = sorted->shape[sorted->ndim - 1];
    if (!skip_nan)
        return cr_where(cr_isnan(cr_slice(sorted, -1, R - 1, R, 1)), cr_scalar((double)(R - 1)),
                        mul_k(q, (double)(R - 1)));
    cr_tensor *numbers = cast_to(cr_sum(cr_logical_not(cr_isnan(sorted)), CR_LIST(-1), true), q->dtype);
    return mul(q, cr_maximum(sub(numbers, cr_scalar(1)), cr_scalar(0)));
}

static cr_tensor *picked(const cr_tensor *sorted, const cr_tensor *rank) {
    return widened(cr_gather(sorted, -1, cast_to(rank, CR_I64)));
}

static cr_tensor *between(const cr_tensor *sorted, const cr_tensor *rank, cr_interpolation how) {
    if (how == CR_NEAREST) return picked(sorted, cr_round(rank));
    if (how == CR_HIGHER) return picked(sorted, cr_ceil(rank));
    cr_tensor *below = cr_floor(rank);
    if (how == CR_LOWER) return picked(sorted, below);
    return cr_lerp(picked(sorted, below), picked(sorted, cr_ceil(rank)),
                   how == CR_LINEAR ? sub(rank, below) : cr_scalar(0.5));
}

cr_tensor *cr_quantile(const cr_tensor *x, const cr_tensor *q, int n, const int64_t *axis, bool keepdim,
                       cr_interpolation how, bool skip_nan) {
    if (!cr_given("quantile", "x", x) || !cr_given("quantile", "q", q)) return NULL;
    if (cr_want_float("quantile", x) != CR_OK || (!(q->flags & CR_FLAG_WEAK) && cr_want_float("quantile", q) != CR_OK))
        return NULL;
    if (n > 1) return cr_fail(CR_BAD_VALUE, "quantile", "%d axes: one, or all of them (CR_ALL)", n), NULL;
    if (q->ndim > 1)
        return cr_fail(CR_BAD_VALUE, "quantile", "q has at most one axis: %s", cr_shape_text(q->ndim, q->shape).s),
               NULL;
    if (!x->numel)
        return cr_fail(CR_BAD_VALUE, "quantile", "a tensor without elements has no quantiles: %s",
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    const int a = n ? cr_axis("quantile", axis[0], x->ndim) : 0;
    if (a < 0) return NULL;
    const bool along = n && x->ndim;
    int64_t ones[1 + CR_MAX_DIMS] = {q->numel};
    for (int i = 1; i <= CR_MAX_DIMS; i++) ones[i] = 1;
    if (q->ndim + (keepdim ? x->ndim : along ? x->ndim - 1 : 0) > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "quantile", "the result has more than %d axes", CR_MAX_DIMS), NULL;
    cr_scope_begin();
    const cr_tensor *every = cr_bottom(q);
    const bool known = q->numel && !cr_watching();     /* a recorded step reads no values */
    if (known && !(cr_item(cr_min(every, CR_ALL, false)) >= 0 && cr_item(cr_max(every, CR_ALL, false)) <= 1))
        return cr_fail(CR_BAD_VALUE, "quantile", "q must be in [0, 1]"), cr_leave(NULL);
    cr_tensor *sorted = along ? moved(cr_sort(x, a, false, NULL), a, x->ndim - 1)
                              : cr_sort(cr_reshape(x, CR_LIST(-1)), 0, false, NULL);
    cr_tensor *many = cr_reshape(cr_to(q, wide_dtype(x), x->dev), CR_LIST(-1)),
              *rank = sorted && many ? ranks(sorted, cr_detach(many), skip_nan) : NULL;
    cr_tensor *wide = NULL;
    if (rank) {                                     /* the ranks of every row */
        int64_t shape[CR_MAX_DIMS];
        memcpy(shape, sorted->shape, sizeof shape);
        shape[sorted->ndim - 1] = many->numel;
        wide = cast_to(between(sorted, cr_expand(rank, sorted->ndim, shape), how), x->dtype);
    }
    cr_tensor *y = wide && q->ndim ? moved(wide, wide->ndim - 1, 0) : cr_squeeze(wide, CR_LIST(-1));
    if (keepdim) y = along ? cr_unsqueeze(y, a + q->ndim) : cr_reshape(y, q->ndim + x->ndim, q->ndim ? ones : ones + 1);
    return cr_leave(y);
}

/* Where the run of equal elements begins that each element of the rows s, in order, belongs to, i64.
 * NaN is equal to nothing. */
static cr_tensor *run_starts(const cr_tensor *s, const cr_tensor *position) {
    /* the first begins at 0 in any case */
    cr_tensor *before = cr_roll(s, 1, (int64_t[]){1}, (int64_t[]){-1}), *begins = cr_ne(s, before);
    return cr_cummax(cr_where(begins, position, cr_scalar_int(0)), -1, NULL);
}

/* The most frequent is the first element that has most equal ones before it: of several, the smallest. */
cr_tensor *cr_mode(const cr_tensor *x, int axis, bool keepdim, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given("mode", "x", x)) return NULL;
    const int a = cr_axis("mode", axis, x->ndim);
    if (a < 0) return NULL;
    if (x->ndim && !x->shape[a])
        return cr_fail(CR_BAD_INDEX, "mode", "axis %d of %s is empty: there is no element to give", a,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *order, *s = cr_sort(x->ndim ? moved(x, a, x->ndim - 1) : cr_reshape(x, CR_LIST(1)), -1, false, &order);
    cr_tensor *position = cr_arange(0, (double)(x->ndim ? x->shape[a] : 1), 1, CR_I64, x->dev),
              *start = run_starts(s, position);
    cr_tensor *at = cr_gather(order, -1, cr_gather(start, -1, cr_argmax(sub(position, start), -1, true)));
    at = x->ndim ? moved(at, x->ndim - 1, a) : cr_reshape(at, CR_ALL);
    cr_set_grad_enabled(recording);
    cr_tensor *y = cr_gather(x, a, at);
    if (!keepdim && x->ndim) {
        y = cr_squeeze(y, CR_LIST(a));
        at = cr_squeeze(at, CR_LIST(a));
    }
    if (y && index) *index = cr_keep(at);
    return cr_leave(y);
}
