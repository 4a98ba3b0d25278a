/* mxfp4.c - the experts of gpt-oss's folders, in blocks of MXFP4 (OCP Microscaling Formats 1.0): their bytes are put
 * in the order of GGUF files once, when a folder is loaded, and never become floats.
 *
 * NAME_blocks (E, rows, G, 16) and NAME_scales (E, rows, G) are u8.  Byte i of a block has the elements 2 i (low bits)
 * and 2 i + 1; in a GGUF file the scale comes first, and byte i has the elements i and i + 16.  Rows of gate and up
 * take turns. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

/* n blocks and their scales in GGUF's order: 17 bytes each */
static void reorder_blocks(const uint8_t *blocks, const uint8_t *scales, int64_t n, uint8_t *out) {
    for (int64_t b = 0; b < n; b++, blocks += 16, out += 17) {
        out[0] = scales[b];
        for (int i = 0; i < 8; i++) {
            const unsigned first = blocks[i], second = blocks[8 + i];       /* elements 2 i, 2 i + 1; these and 16 on */
            out[1 + 2 * i] = (uint8_t)((first & 15) | second << 4);
            out[2 + 2 * i] = (uint8_t)(first >> 4 | (second & 240));
        }
    }
}

/* (rows, G, 16) and (rows, G) -> (rows, 17 G) */
static cr_tensor *packed_rows(const cr_tensor *blocks, const cr_tensor *scales) {
    const int64_t n = scales ? cr_numel(scales) : 0, rows = n ? cr_size(scales, 0) : 0;
    uint8_t *out = n && blocks ? malloc((size_t)n * 34) : NULL, *in = out ? out + n * 17 : NULL;
    cr_tensor *y = NULL;
    if (!out) return blocks && scales ? cr_fail(CR_NO_MEMORY, "lm_load", "no memory for blocks"), NULL : NULL;
    if (!cr_read(blocks, CR_U8, in, (size_t)n * 16) && !cr_read(scales, CR_U8, in + n * 16, (size_t)n)) {
        reorder_blocks(in, in + n * 16, n, out);
        y = cr_from(out, CR_LIST(rows, n / rows * 17), CR_U8, cr_cpu());
    }
    free(out);
    return y;
}

/* Rows of one expert: all, or with 2 parts every other one. */
static cr_tensor *rows_of(const cr_tensor *t, int64_t e, int parts, int part) {
    t = cr_select(t, 0, e);
    return t ? cr_slice(t, 0, part, cr_size(t, 0), parts) : NULL;
}

/* The experts of one matrix, or bias, each by its name; scales NULL: a bias. */
static cr_status add_experts(const char *base, const cr_tensor *t, const cr_tensor *scales, bool down,
                             const cr_device *dev, cr_params *into) {
    static const char *const layer[] = {"gate_proj", "up_proj", "down_proj"};
    const bool floats = dev != cr_cpu() && dev != cr_ref();
    cr_status status = CR_OK;
    char name[256];
    for (int64_t i = 0; i < cr_size(t, 0) * (down ? 1 : 2) && status == CR_OK; i++) {
        const int parts = down ? 1 : 2, part = (int)(i % parts);
        cr_scope_begin();
        cr_tensor *rows = rows_of(t, i / parts, parts, part);
        if (scales) rows = packed_rows(rows, rows_of(scales, i / parts, parts, part));
        if (scales && floats) rows = cr_unpack(rows, "mxfp4", CR_BF16);
        if (rows) rows = cr_to(rows, cr_dtype_of(rows), dev);
        snprintf(name, sizeof name, "%s%lld.%s.%s", base, (long long)(i / parts), layer[down ? 2 : part],
                 !scales ? "bias" : floats ? "weight" : "mxfp4");
        status = rows ? cr_params_add(into, name, rows) : cr_error_status();
        cr_scope_end();
    }
    return status;
}

static bool are_blocks(const cr_tensor *b, const cr_tensor *s) {
    bool ok = s && cr_ndim(b) == 4 && cr_ndim(s) == 3 && cr_dtype_of(b) == CR_U8 && cr_dtype_of(s) == CR_U8 &&
              cr_size(b, 3) == 16;
    for (int i = 0; i < 3 && ok; i++) ok = cr_size(b, i) == cr_size(s, i) && cr_size(b, i) > 0;
    return ok;
}

/* Cuts the end off a name; false: it has another one. */
static bool cut_end(char *name, const char *end) {
    const size_t n = strlen(name), k = strlen(end);
    if (n < k || strcmp(name + n - k, end)) return false;
    name[n - k] = 0;
    return true;
}

cr_status cr_mxfp4_take(const char *name, size_t skip, const cr_tensor *t, const cr_params *from, cr_params *into,
                        bool *taken) {
    static const char op[] = "lm_load";
    const cr_device *dev = cr_device_of(t);
    char base[256], full[280];
    snprintf(base, sizeof base, "%s", name);
    const bool scales = cut_end(base, "_scales"), blocks = !scales && cut_end(base, "_blocks"),
               bias = !scales && !blocks && cut_end(base, "_bias");
    snprintf(full, sizeof full, "%s_blocks", base);
    const bool down = cut_end(base, "down_proj");
    *taken = (scales || blocks || bias) && (down || cut_end(base, "gate_up_proj")) && cr_params_if(from, full);
    if (!*taken || scales) return CR_OK;
    if (bias && cr_ndim(t) != 2) return cr_fail(CR_BAD_VALUE, op, "'%s' has %d axes, not 2", name, cr_ndim(t));
    if (bias) return add_experts(base + skip, t, NULL, down, dev, into);
    strcpy(full + strlen(full) - strlen("blocks"), "scales");
    const cr_tensor *s = cr_params_if(from, full);
    if (!are_blocks(t, s))
        return cr_fail(CR_BAD_VALUE, op, "'%s' and its scales are no blocks of MXFP4: (experts, rows, groups, 16) and "
                       "(experts, rows, groups), u8", name);
    cr_scope_begin();
    const cr_status status = add_experts(base + skip, cr_to(t, CR_U8, cr_cpu()), cr_to(s, CR_U8, cr_cpu()), down, dev,
                                         into);
    cr_scope_end();
    return status;
}
