/* conv.h - the kernels of convolutions for one instruction set (conv_isa.c).
 *
 * They read the source from a buffer in which zeros surround it and the columns of one remainder modulo the stride are
 * neighbours.  So the elements under one tap lie side by side for neighbouring outputs of a row: those of output
 * (row, column) of an image lie at buffer[offset of the tap + image * skip + row * step + column]. */
#ifndef CR_CONV_H
#define CR_CONV_H

#include "product.h"

/* Rows of outputs, `per` of each image; positions count through them.  step, skip: from row to row, image to image */
typedef struct cr_conv_rows { int64_t columns, step, per, skip; } cr_conv_rows;

/* n numbers of one element type; n taps: one offset each.  Buffers may be read a vector beyond both ends. */
struct cr_conv_kernels {
    /* to[i * width + j] = the element under tap i of position first + j, j < n <= width, i < taps; zeros for other j;
     * width: the product's tile_columns.  ones: a further row of ones */
    void (*pack)(void *to, const void *buffer, const int64_t *offset, int64_t taps, const cr_conv_rows *r,
                 int64_t first, int64_t n, bool ones);
    /* dw[tap * dw_row + j] += the sum over the positions of `rows` rows of g[position * width + j] times the element
     * under the tap, j < width: the product's tile_columns; g and dw are aligned to vectors */
    void (*weights)(void *dw, int64_t dw_row, const void *g, const void *buffer, const int64_t *offset, int64_t taps,
                    const cr_conv_rows *r, int64_t rows);
    /* y[channel * y_row + row * columns + column] = the sum over taps of w[channel * w_row + tap] times the element
     * under it, and w[channel * w_row + taps] if bias */
    void (*rows)(void *y, int64_t y_row, int64_t channels, const void *buffer, const int64_t *offset, const void *w,
                 int64_t w_row, int64_t taps, const cr_conv_rows *r, int64_t rows, bool bias);
    /* dw[tap] += the sum over all positions of g[row * columns + column] times the element under the tap */
    void (*row_weights)(void *dw, const void *g, const void *buffer, const int64_t *offset, int64_t taps,
                        const cr_conv_rows *r, int64_t rows);
    /* to[i] = from[2 i], i < n */
    void (*every_second)(void *to, const void *from, int64_t n);
    /* to[2 i] = from[i], i < n; those between are read and written as they were */
    void (*into_every_second)(void *to, const void *from, int64_t n);
};
struct cr_convs { struct cr_conv_kernels f32, f64; };
CR_ISA_TABLE(cr_convs);

#endif
