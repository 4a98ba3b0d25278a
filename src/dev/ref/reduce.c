/* reduce.c - x (M, R, N) -> y (M, N): one accumulator for each result, from the first element to the last. */
#include <math.h>
#include "ref.h"

static double float_step(cr_reduce_kind kind, double acc, double v) {
    switch (kind) {
    case CR_REDUCE_SUM: return acc + v;
    case CR_REDUCE_SQUARES: return acc + v * v;
    case CR_REDUCE_PROD: return acc * v;
    case CR_REDUCE_MAX: return isnan(acc) || acc > v ? acc : v;
    case CR_REDUCE_MIN: return isnan(acc) || acc < v ? acc : v;
    case CR_REDUCE_ANY: return acc != 0 || v != 0;
    default: return acc != 0 && v != 0;
    }
}

static int64_t int_step(cr_reduce_kind kind, cr_dtype dt, int64_t acc, int64_t v) {
    switch (kind) {
    case CR_REDUCE_SUM: return add_wrap(acc, v);
    case CR_REDUCE_PROD: return mul_wrap(acc, v);
    case CR_REDUCE_MAX: return less_int(dt, acc, v) ? v : acc;
    case CR_REDUCE_MIN: return less_int(dt, v, acc) ? v : acc;
    case CR_REDUCE_ANY: return acc != 0 || v != 0;
    default: return acc != 0 && v != 0;
    }
}

cr_status ref_reduce(cr_reduce_kind kind, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    bool extreme = kind == CR_REDUCE_MAX || kind == CR_REDUCE_MIN;     /* these start from the first element */
    int start = kind == CR_REDUCE_PROD || kind == CR_REDUCE_ALL;
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            double f = extreme ? get(x, m * R * N + n) : start;
            int64_t i = extreme ? get_int(x, m * R * N + n) : start;
            for (int64_t r = 0; r < R; r++) {
                if (is_float(x)) f = float_step(kind, f, get(x, (m * R + r) * N + n));
                else i = int_step(kind, (cr_dtype)x->dtype, i, get_int(x, (m * R + r) * N + n));
            }
            if (is_float(x)) put(y, m * N + n, f);
            else put_int(y, m * N + n, i);
        }
    return CR_OK;
}

/* Whether `v` beats `best`: strictly, so that the first of equals stays; NaN beats every number. */
static bool beats(bool max, const cr_tensor *x, int64_t v, int64_t best) {
    if (!is_float(x)) {
        int64_t a = get_int(x, v), b = get_int(x, best);
        return max ? less_int((cr_dtype)x->dtype, b, a) : less_int((cr_dtype)x->dtype, a, b);
    }
    double a = get(x, v), b = get(x, best);
    if (isnan(a) || isnan(b)) return !isnan(b);
    return max ? a > b : a < b;
}

cr_status ref_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
            int64_t best = 0;
            for (int64_t r = 1; r < R; r++)
                if (beats(max, x, (m * R + r) * N + n, (m * R + best) * N + n)) best = r;
            put_int(y, m * N + n, best);
        }
    return CR_OK;
}
