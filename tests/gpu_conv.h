/* gpu_conv.h - convolutions of every kind and division for the tests of GPUs: tiles with rows and
 * columns to spare, sums in parts, groups, one channel each, strides that share a divisor with the
 * dilation. */
#ifndef GPU_CONV_H
#define GPU_CONV_H

#include "test.h"

typedef struct convolution {
    const char *what;
    int64_t B, C, OC, groups, in[2], kernel[2], stride[2], pad[2], dilation[2];
    bool transposed;
} convolution;
static const convolution convolutions[] = {
    {"more rows than a tile", 2, 5, 67, 1, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
    {"groups", 2, 6, 10, 2, {13, 7}, {3, 2}, {2, 3}, {1, 0}, {1, 2}, false},
    {"phases without taps", 1, 4, 6, 1, {11, 12}, {2, 2}, {4, 2}, {0, 1}, {2, 4}, false},
    {"long sums", 1, 40, 3, 1, {31, 17}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, false},
    {"one channel each", 2, 7, 14, 7, {11, 37}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, false},
    {"one channel each, large", 3, 2, 2, 2, {50, 43}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
    {"transposed", 2, 5, 6, 1, {4, 5}, {4, 3}, {2, 2}, {1, 0}, {1, 1}, true},
    {"transposed, groups", 1, 6, 4, 2, {5, 3}, {3, 2}, {3, 1}, {1, 0}, {2, 1}, true},
};
enum { CONVOLUTIONS = sizeof convolutions / sizeof *convolutions };

/* x, the weight, the bias */
static cr_tensor *convolve(cr_tensor *const x[], const void *how) {
    const convolution *c = how;
    cr_conv_options o = cr_conv_defaults();
    o.groups = c->groups;
    for (int i = 0; i < 2; i++) {
        o.stride[i] = c->stride[i];
        o.dilation[i] = c->dilation[i];
        o.padding[i][0] = o.padding[i][1] = c->pad[i];
    }
    return (c->transposed ? cr_conv_transpose : cr_conv)(x[0], x[1], x[2], &o);
}

/* Its operands on the cpu and, in x[3], a cotangent. */
static void convolution_inputs(const convolution *c, cr_generator *random, cr_tensor *x[4]) {
    const int64_t rows = c->transposed ? c->C : c->OC, columns = (c->transposed ? c->OC : c->C) / c->groups;
    x[0] = cr_randn(CR_LIST(c->B, c->C, c->in[0], c->in[1]), CR_F32, cr_cpu(), random);
    x[1] = cr_randn(CR_LIST(rows, columns, c->kernel[0], c->kernel[1]), CR_F32, cr_cpu(), random);
    x[2] = cr_randn(CR_LIST(c->OC), CR_F32, cr_cpu(), random);
    const cr_tensor *y = convolve(x, c);
    REQUIRE(y, "%s: %s", c->what, cr_error());
    x[3] = cr_randn(cr_ndim(y), cr_shape(y), CR_F32, cr_cpu(), random);
}

#endif
