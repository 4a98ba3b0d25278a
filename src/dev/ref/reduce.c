/* reduce.c - x (M, R, N) -> y (M, N): one accumulator for each result, from the first element to the last. */
#include <math.h>
#include "ref.h"

static double mapped(const cr_reduce_how *how, double v, double mean) {
    switch (how->map) {
    case CR_MAP_NONZERO: return v != 0;
    case CR_MAP_ABS: return fabs(v);
    case CR_MAP_SQUARE: return v * v;
    case CR_MAP_POWER: return pow(fabs(v), how->p);
    case CR_MAP_NUMBER: return isnan(v) ? 0 : v;
    case CR_MAP_DEVIATION: return (v - mean) * (v - mean);
    default: return v;
    }
}

static double float_step(cr_reduce_kind kind, double acc, double v) {
    switch (kind) {
    case CR_REDUCE_SUM: return acc + v;
    case CR_REDUCE_PROD: return acc * v;
    case CR_REDUCE_MAX: return isnan(acc) || acc > v ? acc : v;
    default: return isnan(acc) || acc < v ? acc : v;
    }
}

static int64_t int_step(cr_reduce_kind kind, cr_dtype dt, int64_t acc, int64_t v) {
    switch (kind) {
    case CR_REDUCE_SUM: return add_wrap(acc, v);
    case CR_REDUCE_PROD: return mul_wrap(acc, v);
    case CR_REDUCE_MAX: return less_int(dt, acc, v) ? v : acc;
    default: return less_int(dt, v, acc) ? v : acc;
    }
}

static double reduce_floats(const cr_reduce_how *how, const cr_array *x, int64_t first, int64_t R, int64_t stride) {
    double mean = 0, acc = how->kind == CR_REDUCE_PROD;
    if (how->map == CR_MAP_DEVIATION) EACH(r, R) mean += get(x, first + r * stride) / (double)R;
    EACH(r, R) {
        double v = mapped(how, get(x, first + r * stride), mean);
        /* extremes start from the first element */
        acc = r == 0 && how->kind >= CR_REDUCE_MAX ? v : float_step(how->kind, acc, v);
    }
    return acc;
}

static int64_t reduce_ints(const cr_reduce_how *how, const cr_array *x, int64_t first, int64_t R, int64_t stride) {
    bool test = how->map == CR_MAP_NONZERO;
    int64_t acc = how->kind == CR_REDUCE_PROD || (how->kind == CR_REDUCE_MIN && !R);
    EACH(r, R) {
        int64_t at = first + r * stride, v = !test         ? get_int(x, at)
                                             : is_float(x) ? get(x, at) != 0
                                                           : get_int(x, at) != 0;
        acc = r == 0 && how->kind >= CR_REDUCE_MAX ? v : int_step(how->kind, test ? CR_BOOL : x->dtype, acc, v);
    }
    return acc;
}

cr_status cr_ref_reduce(const cr_reduce_args *args) {
    const cr_array *y = &args->y, *x = &args->x;
    const cr_reduce_how *how = &args->how;
    const int64_t M = x->shape[0], R = x->shape[1], N = x->shape[2];
    const bool whole = !is_float(x) || how->map == CR_MAP_NONZERO;
    EACH(i, M * N) {
        int64_t first = i / N * x->strides[0] + i % N * x->strides[2];
        if (!whole) put(y, i, reduce_floats(how, x, first, R, x->strides[1]));
        else if (is_float(y)) put(y, i, (double)reduce_ints(how, x, first, R, x->strides[1]));
        else put_int(y, i, reduce_ints(how, x, first, R, x->strides[1]));
    }
    return CR_OK;
}

/* Whether `v` beats `best`: strictly, so that the first of equals stays; NaN beats every number. */
static bool beats(bool max, const cr_array *x, int64_t v, int64_t best) {
    if (!is_float(x)) {
        int64_t a = get_int(x, v), b = get_int(x, best);
        return max ? less_int(x->dtype, b, a) : less_int(x->dtype, a, b);
    }
    double a = get(x, v), b = get(x, best);
    if (isnan(a) || isnan(b)) return !isnan(b);
    return max ? a > b : a < b;
}

cr_status cr_ref_arg_reduce(const cr_arg_reduce_args *args) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], R = x->shape[1], N = x->shape[2];
    EACH(i, M * N) {
        int64_t first = i / N * x->strides[0] + i % N * x->strides[2], best = 0;
        EACH(r, R)
            if (beats(args->max, x, first + r * x->strides[1], first + best * x->strides[1])) best = r;
        put_int(&args->y, i, best);
    }
    return CR_OK;
}
