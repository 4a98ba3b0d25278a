/* elementary.h - functions of one f64 whose bits are the same for every C library, compiler and instruction set: for
 * numbers that reach tensors.  The error is at most 2 ulp (tests/test_vmath.c). */
#ifndef CR_ELEMENTARY_H
#define CR_ELEMENTARY_H

#include <stdint.h>

double cr_f64_exp(double x);
double cr_f64_log(double x);
void   cr_f64_logs(double *x, int64_t n);           /* x[i] = log(x[i]) */
double cr_f64_log1p(double x);
double cr_f64_sin(double x);                        /* |x| <= 2^20; beyond, the C library's */
double cr_f64_cos(double x);
double cr_f64_power(double a, double b);            /* exp(b log(a)): a relative error of 2^-52 |b log(a)|; a > 0 */

#endif
