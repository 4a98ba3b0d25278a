/* conv_job.h - a convolution on the cpu and the buffer that holds the part of its source that a chunk needs: shared by
 * conv.c and winograd.c. */
#ifndef CR_CONV_JOB_H
#define CR_CONV_JOB_H

#include "conv.h"
#include "isa.h"

enum { CR_CONV_SLACK = 16 };                        /* elements around the buffer that may be read */

/* One spatial axis of a pass: the element under tap i of output p is p stride + first + i step of the source; tap i is
 * element tap + i tap_step of the kernel; output p is element to + p to_step of the result. */
typedef struct cr_conv_axis { int64_t in, out, stride, taps, first, step, tap, tap_step, to, to_step; } cr_conv_axis;

typedef struct cr_conv_job {
    const cr_conv_args *a;
    cr_array from, to;                              /* FORWARD: x, y; INPUT: y, x; WEIGHT: x, and y, which is read */
    cr_dtype dtype;
    bool round;                                     /* f32 operands are rounded to bf16 */
    cr_lane lane;
    int64_t size;                                   /* bytes of a number in the buffer */
    const cr_product_kernels *product;
    const struct cr_conv_kernels *kernels;
    int64_t C, M, taps, K;                          /* of a group: source channels, results; K = C taps */
    cr_conv_axis axis[3];
    int64_t line, plane, channel, phase;            /* of the buffer, in numbers */
    int64_t rows, row_blocks, images;               /* a block: so many rows of outputs of so many images */
    bool unpacked;                                  /* elements under taps are read where they are: nothing is packed */
    int64_t *offset, *tap;                          /* (K): of each tap in the buffer; (taps): in a kernel of w */
    int64_t depth, panels, m_blocks, block_panels;
    char *plain, *packed;                           /* weights of all groups: (M, K + bias) and as panels */
    int64_t items, group;
    int64_t units, parts, strips, n_blocks, block_strips;        /* WEIGHT */
    char *partial;
    atomic_bool failed;
} cr_conv_job;

/* The lowest element under the taps of output 0; elements under those of `outs` outputs. */
int64_t cr_conv_low(const cr_conv_axis *x);
int64_t cr_conv_span(const cr_conv_axis *x, int64_t outs);

/* Sets line, plane, channel and phase for blocks of so many rows of outputs. */
void cr_conv_place_buffer(cr_conv_job *j, int64_t rows);

/* The source under rows first .. first + rows - 1 of outputs, channels c .. c_end - 1 of the group. */
void cr_conv_fill_buffer(const cr_conv_job *j, char *to, int64_t b, int64_t group, int64_t c, int64_t c_end,
                         int64_t depth, int64_t first, int64_t rows);

/* Does winograd.c take it?  It runs it. */
bool cr_conv_winograd_takes(const cr_conv_job *j);
cr_status cr_conv_winograd(cr_conv_job *j);

#endif
