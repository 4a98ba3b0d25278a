/* windows.h - the table of kernels for pooling, banded products and normalization by channel (windows_isa.c). */
#ifndef CR_WINDOWS_CPU_H
#define CR_WINDOWS_CPU_H

#include <stdint.h>
#include "isa_name.h"

/* Pointers to void point to lanes: of f32 at index 0 of a pair, of f64 at index 1. */
struct cr_windows {
    /* v = x[i stride], at position + i stride: where at[i] < 0, v > best[i] or v is NaN, best[i] = v, and at[i] = its
     * place */
    void (*most[2])(void *best, int32_t *at, const void *x, int64_t stride, int32_t position, int64_t n);
    /* The same for v at from[i stride], where of equals, and not of NaNs, the one with the lower position is the
     * first. */
    void (*merge[2])(void *best, int32_t *at, const void *x, const int32_t *from, int64_t stride, int64_t n);
    /* best[i] = max(best[i], x[i stride]); NaN wins */
    void (*peak[2])(void *best, const void *x, int64_t stride, int64_t n);
    void (*pairs[2])(void *y, const void *x, int64_t n);     /* y[i] = max(x[2 i], x[2 i + 1]); NaN wins */
    void (*widen)(int64_t *y, const int32_t *x, int64_t n);
    /* y[i] = sum over k of w[k] x[k stride + i]; a weight of 0 adds nothing */
    void (*mix[2])(void *y, const void *x, int64_t stride, const void *w, int64_t K, int64_t n);
    /* y[i P + p] = sum over k of w[p K + k] x[i Q + offset[p] + k], p < P; P = 1 and Q <= 4, or P <= 4 and Q = 1 */
    void (*slide[2])(void *y, const void *x, const void *w, const int64_t *offset, int64_t K, int P, int Q, int64_t n);
    /* One channel, n <= 2048: the sum, and the sum of (x - sum / n)^2; y = (x - mean) scale + shift; the sums of g and
     * of g (x - mean); dx = a g + b (x - mean) + c. */
    void (*moments[2])(double sums[2], const void *x, int64_t n);
    void (*scale[2])(void *y, const void *x, double mean, double scale, double shift, int64_t n);
    void (*dots[2])(double sums[2], const void *x, const void *g, double mean, int64_t n);
    void (*scale_two[2])(void *dx, const void *x, const void *g, double mean, double a, double b, double c, int64_t n);
    /* `count` channels of S elements with one mean: scale and shift, or a, of each; sums and dots: of g and of
     * g (x - mean) */
    void (*scale_planes[2])(void *y, const void *x, double mean, const double *scale, const double *shift,
                            int64_t count, int64_t S);
    void (*dots_planes[2])(double *sums, double *dots, const void *x, const void *g, double mean, int64_t count,
                           int64_t S);
    void (*scale_two_planes[2])(void *dx, const void *x, const void *g, double mean, const double *a, double b,
                                double c, int64_t count, int64_t S);
    /* The same where each lane has numbers of its own, added to sums: x; (x - mean)^2; g and g (x - mean). */
    void (*add_lanes[2])(double *sum, const void *x, int64_t n);
    void (*add_squares[2])(double *sum, const void *x, const void *mean, int64_t n);
    void (*scale_lanes[2])(void *y, const void *x, const void *mean, const void *scale, const void *shift, int64_t n);
    void (*add_dots[2])(double *sum, double *dot, const void *x, const void *g, const void *mean, int64_t n);
    void (*scale_two_lanes[2])(void *dx, const void *x, const void *g, const void *mean, const void *a, const void *b,
                               const void *c, int64_t n);
};
CR_ISA_TABLE(cr_windows);

#endif
