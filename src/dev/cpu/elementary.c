/* elementary.c - elementary.h: the functions of vmath_f64.h on one number, without fused operations; sine and cosine by
 * their series. */
#include "../elementary.h"
#include "vmath_f64.h"

#include <string.h>

double cr_f64_exp(double x) { return vd_exp(d_k(x))[0]; }
double cr_f64_log(double x) { return vd_log(d_k(x))[0]; }
double cr_f64_log1p(double x) { return vd_log1p(d_k(x))[0]; }
void cr_f64_logs(double *x, int64_t n) {
    vecd v;
    for (; n >= VD; n -= VD, x += VD) {
        memcpy(&v, x, sizeof v);
        v = vd_log(v);
        memcpy(x, &v, sizeof v);
    }
    for (; n > 0; n--, x++) *x = cr_f64_log(*x);
}
double cr_f64_power(double a, double b) { return cr_f64_exp(b * cr_f64_log(a)); }

/* x = n pi/2 + r, |r| <= pi/4: the terms after r^17 and r^16 are below 2^-59 of the result */
static double series_sin(double r) {
    const vecd z = d_k(r * r);
    return r + r * z[0] * D_POLY(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                                 -1.0 / 1307674368000, 1.0 / 355687428096000)[0];
}
static double series_cos(double r) {
    const vecd z = d_k(r * r);
    const double half = z[0] * 0.5, near = 1 - half;
    return near + ((1 - near - half) + z[0] * z[0] * D_POLY(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                                                            1.0 / 479001600, -1.0 / 87178291200,
                                                            1.0 / 20922789888000)[0]);
}

/* sin(x + quarters pi/2) */
static double circle(double x, uint64_t quarters) {
    vlong n;
    const double r = d_circle_reduce(d_k(x), &n)[0];
    quarters += (uint64_t)n[0];
    const double y = quarters & 1 ? series_cos(r) : series_sin(r);
    return quarters & 2 ? -y : y;
}
double cr_f64_sin(double x) { return !(fabs(x) <= 0x1p20) ? sin(x) : fabs(x) < 0x1p-27 ? x : circle(x, 0); }
double cr_f64_cos(double x) { return !(fabs(x) <= 0x1p20) ? cos(x) : circle(x, 1); }
