/* arithmetic.c - elementwise functions that take more than their row of ops.def says: alpha,
 * rounding_mode, bounds, powers. */
#include "extension.h"

#include <float.h>
#include <math.h>
#include <string.h>

cr_tensor *api_in_place(const char *row, const arg *a, int n, const double *params) {
    const cr_tensor *in[3];
    for (int i = 0; i < n; i++) in[i] = a[i].t;
    return cr_program_apply_(cr_program_find(row), a[0].t, n, in, params);
}

/* other alpha, in the scope of the caller where there is something to compute.  (input, other, alpha) */
static const cr_tensor *scaled(const arg *a) {
    const number *alpha = &a[2].x;
    cr_dtype x = cr_dtype_of(a[0].t), y = cr_dtype_of(a[1].t);
    if (alpha->boolean ? x != CR_BOOL || y != CR_BOOL
                       : !alpha->integral && !cr_dtype_is_float(x) && !cr_dtype_is_float(y)) {
        set_error(PyExc_RuntimeError, "alpha is a %s, the result is not", alpha->boolean ? "bool" : "float");
        return NULL;
    }
    return alpha->d == 1 ? a[1].t : cr_mul(a[1].t, scalar_of(alpha));
}

static bool two_floats(const arg *a) {
    return cr_dtype_is_float(cr_dtype_of(a[0].t)) && cr_dtype_is_float(cr_dtype_of(a[1].t));
}

/* x + sign alpha y; floats in one pass */
static cr_tensor *with_alpha(const arg *a, double sign) {
    cr_tensor *(*f)(const cr_tensor *, const cr_tensor *) = sign > 0 ? cr_add : cr_sub;
    if (a[2].x.d == 1 && a[2].x.integral && !a[2].x.boolean) return f(a[0].t, a[1].t);
    cr_scope_begin();
    if (two_floats(a) && !a[2].x.boolean) return leave(cr_addcmul(a[0].t, a[1].t, cr_scalar(1), sign * a[2].x.d));
    return leave(f(a[0].t, scaled(a)));
}
cr_tensor *api_add(const arg *a) { return with_alpha(a, 1); }
cr_tensor *api_sub(const arg *a) { return with_alpha(a, -1); }

static cr_tensor *with_alpha_(const arg *a, double sign) {
    const double value = sign * a[2].x.d;
    cr_scope_begin();
    cr_tensor *x;
    if (two_floats(a) && value != sign && !a[2].x.boolean)
        x = cr_program_apply_(cr_program_find("addcmul"), a[0].t, 3,
                              (const cr_tensor *[]){a[0].t, a[1].t, cr_scalar(1)}, &value);
    else x = sign > 0 ? cr_add_(a[0].t, scaled(a)) : cr_sub_(a[0].t, scaled(a));
    cr_scope_end();
    return x;
}
cr_tensor *api_add_(const arg *a) { return with_alpha_(a, 1); }
cr_tensor *api_sub_(const arg *a) { return with_alpha_(a, -1); }

/* Which row divides so; NULL and an error for another mode. */
static const char *division(const arg *mode) {
    if (!mode->given) return "div";
    if (!strcmp(mode->s, "trunc")) return "trunc_divide";
    if (!strcmp(mode->s, "floor")) return "floor_divide";
    set_error(PyExc_RuntimeError, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '%s'",
              mode->s);
    return NULL;
}
cr_tensor *api_div(const arg *a) {
    const char *row = division(&a[2]);
    return row ? cr_program_apply(cr_program_find(row), 2, (const cr_tensor *const[]){a[0].t, a[1].t}, NULL) : NULL;
}
cr_tensor *api_div_(const arg *a) {
    const char *row = division(&a[2]);
    return row ? api_in_place(row, a, 2, NULL) : NULL;
}

cr_tensor *power(const cr_tensor *x, const cr_tensor *y, bool is_number) {
    return is_number && cr_dtype_is_float(cr_dtype_of(x)) ? cr_pow_scalar(x, cr_item(y)) : cr_pow(x, y);
}
cr_tensor *no_tensor(const char *name) {
    set_error(PyExc_TypeError, "%s(): one of the two operands must be Tensor, not both numbers", name);
    return NULL;
}
cr_tensor *api_pow(const arg *a) {
    if (a[0].owned && a[1].owned) return no_tensor("pow");
    return power(a[0].t, a[1].t, a[1].owned && !a[0].owned);
}
cr_tensor *api_pow_(const arg *a) { return api_in_place("pow", a, 2, NULL); }

cr_tensor *written(const char *name, const arg *a, cr_tensor *y) {
    cr_dtype to = cr_dtype_of(a[0].t), from = y ? cr_dtype_of(y) : to;
    cr_tensor *x = NULL;
    if (!cr_can_cast(from, to))
        set_error(PyExc_RuntimeError, "[%s] a result of dtype %s cannot be written into %s", name, cr_dtype_name(from),
                  cr_dtype_name(to));
    else if (y) x = cr_copy_(a[0].t, y);
    cr_release(y);
    return x;
}

/* (input, decimals): of integers none is asked for */
cr_tensor *api_round(const arg *a) {
    if (!a[1].i) return cr_round(a[0].t);
    if (!cr_dtype_is_float(cr_dtype_of(a[0].t))) {
        set_error(bad_type, "[round] decimals=%lld is for floats, not %s", (long long)a[1].i,
                  cr_dtype_name(cr_dtype_of(a[0].t)));
        return NULL;
    }
    cr_scope_begin();
    const cr_tensor *power = cr_scalar(pow(10, fabs((double)a[1].i)));
    if (a[1].i > 0) return leave(cr_div(cr_round(cr_mul(a[0].t, power)), power));
    return leave(cr_mul(cr_round(cr_div(a[0].t, power)), power));
}
cr_tensor *api_round_(const arg *a) {
    return a[1].i ? written("round_", a, api_round(a)) : api_in_place("round", a, 1, NULL);
}

/* May a bound be a parameter of the program?  A number that x's dtype holds, and a double. */
static bool is_parameter(const arg *bound, cr_dtype dt) {
    if (!bound->given || !bound->owned || cr_dtype_is_float(dt)) return !bound->given || bound->owned;
    const int bits = 8 * (int)cr_dtype_size(dt) - (dt >= CR_I8);
    const double limit = ldexp(1, bits < 53 ? bits : 53), v = cr_item(bound->t);
    return dt != CR_BOOL && !cr_dtype_is_float(cr_dtype_of(bound->t)) && v < limit && v >= (dt >= CR_I8 ? -limit : 0);
}

/* min and max as numbers: one pass. */
static bool clamp_numbers(const arg *a, double bound[2]) {
    const arg *low = &a[1], *high = &a[2];
    const cr_dtype dt = cr_dtype_of(a[0].t);
    if ((!low->given && !high->given) || !is_parameter(low, dt) || !is_parameter(high, dt)) return false;
    bound[0] = low->given ? cr_item(low->t) : -INFINITY;
    bound[1] = high->given ? cr_item(high->t) : INFINITY;
    return true;
}
static cr_tensor *clamp_tensors(const arg *low, const arg *high, cr_tensor *y) {
    if (!low->given && !high->given) {
        set_error(PyExc_RuntimeError, "[clamp] at least one of min and max must not be None");
        return NULL;
    }
    cr_scope_begin();
    if (low->given) y = cr_clamp_min(y, low->t);
    if (high->given) y = cr_clamp_max(y, high->t);
    return leave(y);
}
cr_tensor *api_clamp(const arg *a) {
    double bound[2];
    return clamp_numbers(a, bound) ? cr_clamp(a[0].t, bound[0], bound[1]) : clamp_tensors(&a[1], &a[2], a[0].t);
}
cr_tensor *api_clamp_(const arg *a) {
    double bound[2];
    if (clamp_numbers(a, bound)) return api_in_place("clamp", a, 1, bound);
    /* the gradients read the old x */
    cr_tensor *x = cr_clone(a[0].t), *y = written("clamp_", a, clamp_tensors(&a[1], &a[2], x));
    cr_release(x);
    return y;
}

cr_tensor *api_nextafter(const arg *a) { return cr_nextafter(a[0].t, a[1].t); }

/* (input, nan, posinf, neginf) */
static const double *replacements(const arg *a, double by[3]) {
    const cr_dtype dt = cr_dtype_of(a[0].t);
    const double most = dt == CR_F16 ? 65504 : dt == CR_BF16 ? 0x1.fep127 : dt == CR_F64 ? DBL_MAX : FLT_MAX;
    by[0] = a[1].given ? a[1].d : 0, by[1] = a[2].given ? a[2].d : most, by[2] = a[3].given ? a[3].d : -most;
    return by;
}
cr_tensor *api_nan_to_num(const arg *a) {
    const double *by = replacements(a, (double[3]){0});
    return cr_nan_to_num(a[0].t, by[0], by[1], by[2]);
}
cr_tensor *api_nan_to_num_(const arg *a) { return api_in_place("nan_to_num", a, 1, replacements(a, (double[3]){0})); }

static double clamped_by(const arg *eps) { return eps->given && eps->d >= 0 ? eps->d : -INFINITY; }
cr_tensor *api_logit(const arg *a) { return cr_logit(a[0].t, clamped_by(&a[1])); }
cr_tensor *api_logit_(const arg *a) { return api_in_place("logit", a, 1, (const double[]){clamped_by(&a[1])}); }

cr_tensor *api_gelu(const arg *a) {
    if (!strcmp(a[1].s, "none")) return cr_gelu(a[0].t);
    if (!strcmp(a[1].s, "tanh")) return cr_gelu_tanh(a[0].t);
    set_error(PyExc_RuntimeError, "approximate argument must be either none or tanh.");
    return NULL;
}

bool fits_double(const arg *value) {
    return value->owned && (cr_dtype_is_float(cr_dtype_of(value->t)) || fabs(cr_item(value->t)) < 0x1p53);
}

cr_tensor *api_copy_(const arg *a) { return cr_copy_(a[0].t, a[1].t); }
cr_tensor *api_fill_(const arg *a) {
    if (cr_ndim(a[1].t) == 0) return fits_double(&a[1]) ? cr_fill_(a[0].t, cr_item(a[1].t)) : cr_copy_(a[0].t, a[1].t);
    set_error(PyExc_RuntimeError, "[fill_] the value has %d axes: a number or a 0-d tensor is expected",
              cr_ndim(a[1].t));
    return NULL;
}
cr_tensor *api_zero_(const arg *a) { return cr_fill_(a[0].t, 0); }

cr_tensor *api_rsub(const arg *a) {
    arg turned[] = {a[1], a[0], a[2]};
    return api_sub(turned);
}
