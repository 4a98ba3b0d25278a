/* pack.h - numbers as blocks of a packed format (core/formats.h). */
#ifndef CR_PACK_H
#define CR_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "formats.h"

/* Formats that are written: q8_0, q4_0, q5_0, q5_1, q4_k, q5_k, q6_k.
 * out (rows, bytes of K numbers) = x (rows, K), on all threads.  importance (K): how much the squared error of a column
 * counts, or NULL.  False: a number is beyond f16. */
bool cr_format_pack(cr_block_format format, const float *x, int64_t rows, int64_t K, const float *importance,
                    uint8_t *out);

#endif
