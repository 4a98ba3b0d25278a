/* scalar.h - primitives of f64 that the C library lacks (the expressions of ops.def call them). */
#ifndef CR_SCALAR_H
#define CR_SCALAR_H

#include <math.h>
#include <stdbool.h>

#include "../core/dtype.h"

static inline bool is_inf(double a) { return isinf(a) != 0; }

/* NaN wins. */
static inline double f_max(double a, double b) { return isnan(a) || a > b ? a : b; }
static inline double f_min(double a, double b) { return isnan(a) || a < b ? a : b; }

/* Python's %: the result has b's sign. */
static inline double f_rem(double a, double b) {
    const double r = fmod(a, b);
    if (r == 0) return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* Python's //: the floor of the exact quotient, which floor(a / b) misses where the division rounds up to an
 * integer. */
static inline double f_floor_div(double a, double b) {
    if (b == 0) return floor(a / b);
    const double r = fmod(a, b);
    double q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    return q == 0 ? copysign(0.0, a / b) : round(q);
}

static inline double f_trunc_div(double a, double b) { return trunc(a / b); }

static inline double f_f16(double a) {
    uint16_t h;
    cr_store_f64(&h, CR_F16, a);
    return (double)cr_f16_to_f32(h);
}
static inline double f_bf16(double a) {
    uint16_t h;
    cr_store_f64(&h, CR_BF16, a);
    return (double)cr_bf16_to_f32(h);
}

#endif
