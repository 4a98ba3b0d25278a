/* scan.c - running sums, products, log-sum-exps and extremes of x (M, R, N) along R: one element after the other. */
#include <math.h>
#include "ref.h"

/* Is v at least as extreme as the best so far?  The later of equals, and a NaN, is. */
static bool reaches(cr_scan_kind kind, const cr_array *x, int64_t v, int64_t best) {
    if (!is_float(x)) {
        int64_t a = get_int(x, v), b = get_int(x, best);
        return kind == CR_SCAN_MAX ? !less_int(x->dtype, a, b) : !less_int(x->dtype, b, a);
    }
    double a = get(x, v), b = get(x, best);
    return isnan(a) || (kind == CR_SCAN_MAX ? a >= b : a <= b);
}

static double log_add(double a, double b) {
    double most = fmax(a, b);
    return isnan(a) || isnan(b) ? NAN : isinf(most) ? most : most + log1p(exp(fmin(a, b) - most));
}

static double float_step(cr_scan_kind kind, double acc, double v) {
    return kind == CR_SCAN_SUM ? acc + v : kind == CR_SCAN_PROD ? acc * v : log_add(acc, v);
}

/* One line of R elements, from `first` on: i is the position of the element, `before` that of the one before it. */
static void scan_line(const cr_scan_args *args, int64_t first) {
    const cr_array *x = &args->x, *y = &args->y, *a = cr_present(&args->a);
    const int64_t R = x->shape[1], stride = x->shape[2];
    const bool reverse = args->reverse;
    double f = 0;
    int64_t n = 0, best = 0;
    EACH(k, R) {
        int64_t at = reverse ? R - 1 - k : k, i = first + at * stride, before = reverse ? i + stride : i - stride;
        if (args->kind >= CR_SCAN_MAX) {
            if (k == 0 || reaches(args->kind, x, i, first + best * stride)) best = at;
            put_int(&args->index, i, best);
            if (is_float(x)) put(y, i, get(x, first + best * stride));
            else put_int(y, i, get_int(x, first + best * stride));
        } else if (is_float(x)) {
            double v = get(x, i);
            f = k == 0 ? v : a ? v + get(a, reverse ? before : i) * f : float_step(args->kind, f, v);
            put(y, i, f);
        } else {
            int64_t v = get_int(x, i);
            n = k == 0 ? v : args->kind == CR_SCAN_SUM ? add_wrap(n, v) : mul_wrap(n, v);
            put_int(y, i, n);
        }
    }
}

cr_status cr_ref_scan(const cr_scan_args *args) {
    const int64_t M = args->x.shape[0], R = args->x.shape[1], N = args->x.shape[2];
    EACH(i, M * N) scan_line(args, i / N * R * N + i % N);
    return CR_OK;
}
