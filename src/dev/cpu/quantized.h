/* quantized.h - rows of weights of 4 or 8 bits times a row of x, for one instruction set (quantized_isa.c,
 * quantized_bytes.c).
 *
 * x is read as 16-bit integers q that share a scale in each group of G, so that a group is a sum of integer products:
 * x w = sum over groups of (x's scale times w's scale) (sum of q code).  q lies as the kernels read it. */
#ifndef CR_QUANTIZED_H
#define CR_QUANTIZED_H

#include <stdbool.h>
#include <stdint.h>

#include "isa_name.h"
#include "../../core/ints.h"

enum {
    CR_QUANTIZED_UNIT = 128,                        /* codes that the widest vectors unpack at a time */
    CR_QUANTIZED_X = 3,                             /* bytes of q for a code, at most */
    CR_QUANTIZED_MOST = 32512                       /* of q: 127 x 256, so that its two bytes have a sign each */
};

typedef struct cr_quantized_row {                   /* a row of x; room for K, rounded up to units */
    void *q;                                        /* zeros behind K */
    float *scale;                                   /* of each group, zeros up to a multiple of 16 */
    float *offset;                                  /* quantized_isa.c: -8 sum of q, because 4 bits are stored + 8; 8
                                                     * bits: 0; zeros behind */
} cr_quantized_row;

typedef struct cr_quantized_shape { int64_t K, G; bool eight; } cr_quantized_shape;

struct cr_quantizeds {
    void (*prepare)(const cr_quantized_shape *s, const cr_quantized_row *to, const float *x);
    /* y[n] = row n of w times x, n < rows; codes and scales lie row after row */
    void (*rows)(const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales, int64_t rows,
                 const cr_quantized_row *x);
    /* y (K) = a row of w; quantized_isa.c only */
    void (*unpack)(const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales);
};
/* Rows of w are read side by side, a few at a time, while the codes behind the next rows are fetched, in the order of
 * memory: `next` moves as fast as all rows together. */
enum { CR_QUANTIZED_FAR = 2048 };
static inline const uint8_t *cr_quantized_fetch(const uint8_t *next, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i);
    return next + bytes;
}
CR_ISA_TABLE(cr_quantizeds);
extern const struct cr_quantizeds cr_quantizeds_bytes;      /* x86-64 only, where cr_cpu_bytes() */

#endif
