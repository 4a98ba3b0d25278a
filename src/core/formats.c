/* formats.c - the table of packed formats (github.com/ggml-org/ggml, ggml-common.h; gguf-py, quants.py). */
#include "formats.h"

#include <string.h>

const cr_format_traits cr_formats[CR_FORMATS] = {
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

const int8_t cr_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t cr_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int cr_format_named(const char *name) {
    for (int i = CR_FORMAT_PACKED; i < CR_FORMATS; i++) if (!strcmp(cr_formats[i].name, name)) return i;
    return -1;
}
