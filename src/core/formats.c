/* formats.c - packed formats by name, and their values. */
#include "formats.h"

#include <string.h>

const int8_t cr_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const int8_t cr_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int cr_format_named(const char *name) {
    for (int i = CR_FORMAT_PACKED; i < CR_FORMATS; i++) if (!strcmp(cr_formats[i].name, name)) return i;
    return -1;
}
