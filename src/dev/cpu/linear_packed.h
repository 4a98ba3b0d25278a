/* linear_packed.h - rows of weights in a packed format (core/formats.h) times rows of x, for one instruction set
 * (linear_packed_isa.c, linear_packed_bytes.c).
 *
 * x is read as 16-bit integers q that share a scale in each block of 32, so that a group of w is a sum of integer
 * products: (x's scale times w's scale) (sum of q code) + (w's offset) (x's scale times the sum of q).  A number of y
 * is four sums of floats: sum c is over the blocks b of 32 with b % 4 = c, and y = (0 + 2) + (1 + 3).
 *
 * One row of x: four rows of w side by side, a block in each lane of 16 bytes, so that bytes are read as they lie.
 * More: as many rows of w as two vectors have lanes, a lane each, taken apart once for all rows of x.  Equal bits. */
#ifndef CR_LINEAR_PACKED_H
#define CR_LINEAR_PACKED_H

#include <stdint.h>

#include "isa_name.h"
#include "../../core/formats.h"

enum { CR_PACKED_UNIT = 128, CR_PACKED_TILE = 256, CR_PACKED_CHAINS = 4 };
typedef struct cr_packed_x {                        /* 128 numbers of a row of x: four blocks of 32, zeros behind K */
    int32_t q[2][2][16];                            /* [word][half][4 block + i]: two words for four neighbours, the
                                                     * i-th of the first or last 16 of the block */
    float scale[16], sum[2][16];                    /* four times that of each block; sum: scale times the sum of q;
                                                     * groups of 16: of each half */
    int32_t zero[2][16];                            /* -bias times the sum of q, likewise */
} cr_packed_x;

enum { CR_PACKED_LANES = 32 };                      /* at most */
struct cr_packeds {
    int lanes;                                      /* rows of w at a time */
    /* `to`: whole tiles */
    void (*prepare)(int format, cr_packed_x *to, const float *x, int64_t K);
    /* y (N) = N rows of w, `line` bytes apart, times a row of x; NULL: `rows` does it */
    void (*row)(int format, float *y, const uint8_t *w, int64_t line, int64_t N, int64_t K, const cr_packed_x *x);
    /* sum (M, 4, lanes) += the rows of w times M rows of x; row: addresses, one for each lane */
    void (*rows)(int format, float *sum, const uint8_t *const *row, int64_t K, const cr_packed_x *x, int64_t M);
    /* y (N, K) = the first N of the rows of w */
    void (*unpack)(int format, float *y, const uint8_t *const *row, int64_t N, int64_t K);
};
CR_ISA_TABLE(cr_packeds);
extern const struct cr_packeds cr_packeds_bytes;    /* x86-64 only, where cr_cpu_bytes() */

#endif
