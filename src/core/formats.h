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
/* github.com/ggml-org/ggml, ggml-common.h; gguf-py, quants.py.  In the header, so that kernels fold its numbers. */
static const cr_format_traits cr_formats[CR_FORMATS] = {
    [CR_FORMAT_F32] = {"f32", 0, 1, 4, 0, 0},
    [CR_FORMAT_F16] = {"f16", 1, 1, 2, 0, 0},
    [CR_FORMAT_BF16] = {"bf16", 30, 1, 2, 0, 0},
    [CR_FORMAT_Q8_0] = {"q8_0", 8, 32, 34, 32, 0},
    [CR_FORMAT_Q4_0] = {"q4_0", 2, 32, 18, 32, 0},
    [CR_FORMAT_Q4_1] = {"q4_1", 3, 32, 20, 32, 1},
    [CR_FORMAT_Q5_0] = {"q5_0", 6, 32, 22, 32, 0},
    [CR_FORMAT_Q5_1] = {"q5_1", 7, 32, 24, 32, 1},
    [CR_FORMAT_IQ4_NL] = {"iq4_nl", 20, 32, 18, 32, 0},
    [CR_FORMAT_MXFP4] = {"mxfp4", 39, 32, 17, 32, 0},
    [CR_FORMAT_Q2_K] = {"q2_k", 10, 256, 84, 16, 1},
    [CR_FORMAT_Q3_K] = {"q3_k", 11, 256, 110, 16, 0},
    [CR_FORMAT_Q4_K] = {"q4_k", 12, 256, 144, 32, 1},
    [CR_FORMAT_Q5_K] = {"q5_k", 13, 256, 176, 32, 1},
    [CR_FORMAT_Q6_K] = {"q6_k", 14, 256, 210, 16, 0},
    [CR_FORMAT_IQ4_XS] = {"iq4_xs", 23, 256, 136, 32, 0},
};

int cr_format_named(const char *name);              /* a packed format; -1: none */

/* values of codes of 4 bits */
extern const int8_t cr_iq4_values[16], cr_mxfp4_values[16];

#endif
