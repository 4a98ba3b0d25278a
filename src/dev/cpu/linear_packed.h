/* linear_packed.h - rows of weights in a packed format (core/formats.h) times rows of x, for one instruction set
 * (linear_packed_isa.c, linear_packed_bytes.c).
 *
 * As many rows of w as a vector has lanes work side by side, a lane each.  x is read as 16-bit integers q that share a
 * scale in each block of 32, so that a group is a sum of integer products:
 * y += (x's scale times w's scale) (sum of q code) + (w's offset) (x's scale times the sum of q). */
#ifndef CR_LINEAR_PACKED_H
#define CR_LINEAR_PACKED_H

#include <stdint.h>

#include "isa_name.h"
#include "../../core/formats.h"

typedef struct cr_packed_x {                        /* 32 numbers of a row of x */
    int32_t q[16];                                  /* as the kernels read them: two words for four neighbours */
    float scale, sum[2];                            /* sum: scale times the sum of q, of each group of w */
    int32_t zero[2];                                /* linear_packed_bytes.c: -bias times the sum of q */
    int32_t unused[3];
} cr_packed_x;

enum { CR_PACKED_LANES = 16 };                      /* at most */
struct cr_packeds {
    int lanes;
    void (*prepare)(int format, cr_packed_x *to, const float *x, int64_t K);
    /* y (M, lanes) += the rows of w times M rows of x; row: addresses, one for each lane */
    void (*rows)(int format, float *y, const uint8_t *const *row, int64_t K, const cr_packed_x *x, int64_t M);
    /* y (lanes, K) = the rows of w */
    void (*unpack)(int format, float *y, const uint8_t *const *row, int64_t K);
};
CR_ISA_TABLE(cr_packeds);
extern const struct cr_packeds cr_packeds_bytes;    /* x86-64 only, where cr_cpu_bytes() */

#endif
