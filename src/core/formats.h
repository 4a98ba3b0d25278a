/* formats.h - blocks of packed numbers, as GGUF files have them: one table for readers, ops and devices.
 *
 * A block holds neighbours of a row as small integers q, with a scale for each group of them and in some formats an
 * offset: w = scale q + low.  Formats of whole floats are blocks of one number. */
#ifndef CR_FORMATS_H
#define CR_FORMATS_H

#include <stdint.h>

typedef enum cr_block_format {
    CR_FORMAT_F32, CR_FORMAT_F16, CR_FORMAT_BF16,
    CR_FORMAT_Q8_0, CR_FORMAT_Q4_0, CR_FORMAT_Q4_1, CR_FORMAT_Q5_0, CR_FORMAT_Q5_1, CR_FORMAT_IQ4_NL, CR_FORMAT_MXFP4,
    CR_FORMAT_Q2_K, CR_FORMAT_Q3_K, CR_FORMAT_Q4_K, CR_FORMAT_Q5_K, CR_FORMAT_Q6_K, CR_FORMAT_IQ4_XS, CR_FORMATS
} cr_block_format;
enum { CR_FORMAT_PACKED = CR_FORMAT_Q8_0 };         /* the first that is no float */

typedef struct cr_format_traits {
    const char *name;
    uint32_t ggml;                                  /* its number in GGUF files */
    int block, bytes;                               /* numbers of a block, its bytes */
    int group;                                      /* numbers with one scale: 32 or 16 */
    int low;                                        /* 1: each group has an offset too */
} cr_format_traits;
extern const cr_format_traits cr_formats[CR_FORMATS];

int cr_format_named(const char *name);              /* a packed format; -1: none */

/* values of codes of 4 bits */
extern const int8_t cr_iq4_values[16], cr_mxfp4_values[16];

#endif
