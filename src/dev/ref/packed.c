/* packed.c - weights in packed formats (core/formats.h), one number after another: the layouts of ggml-common.h. */
#include "ref.h"
#include "../../core/formats.h"

#include <string.h>

static float half(const uint8_t *b) { return cr_f16_to_f32((uint16_t)(b[0] | b[1] << 8)); }
static int nibble(const uint8_t *b, int k) { return k < 16 ? b[k] & 15 : b[k - 16] >> 4; }
static int fifth(const uint8_t *b, int k) { return b[k / 8] >> k % 8 & 1; }
static float sum(float a, float b) { return a + b; }

/* q4_k, q5_k: the scale and the offset of group i, 6 bits each */
static int scale_6(const uint8_t *s, int i) { return i < 4 ? s[i] & 63 : (s[i + 4] & 15) | s[i - 4] >> 6 << 4; }
static int low_6(const uint8_t *s, int i) { return i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | s[i] >> 6 << 4; }

/* 2^(e - 128) */
static float power(uint8_t e) {
    const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* Number k of a block. */
static float number(cr_block_format format, const uint8_t *b, int k) {
    const int g32 = k / 32, in = k % 32, part = k / 128, row = k / 32 % 4, g16 = k / 16;
    switch (format) {
    case CR_FORMAT_Q8_0: return half(b) * (float)(int8_t)b[2 + k];
    case CR_FORMAT_Q4_0: return half(b) * (float)(nibble(b + 2, k) - 8);
    case CR_FORMAT_Q4_1: return sum(half(b) * (float)nibble(b + 4, k), half(b + 2));
    case CR_FORMAT_Q5_0: return half(b) * (float)((nibble(b + 6, k) | fifth(b + 2, k) << 4) - 16);
    case CR_FORMAT_Q5_1: return sum(half(b) * (float)(nibble(b + 8, k) | fifth(b + 4, k) << 4), half(b + 2));
    case CR_FORMAT_IQ4_NL: return half(b) * (float)cr_iq4_values[nibble(b + 2, k)];
    case CR_FORMAT_MXFP4: return power(b[0]) * (float)cr_mxfp4_values[nibble(b + 1, k)];
    case CR_FORMAT_Q2_K: {
        const int q = b[16 + part * 32 + in] >> 2 * row & 3;
        return sum(half(b + 80) * (float)(b[g16] & 15) * (float)q, -(half(b + 82) * (float)(b[g16] >> 4)));
    }
    case CR_FORMAT_Q3_K: {
        const int q = (b[32 + part * 32 + in] >> 2 * row & 3) - (b[in] >> g32 & 1 ? 0 : 4);
        const int low = b[96 + g16 % 8] >> g16 / 8 * 4 & 15, high = b[104 + g16 % 4] >> g16 / 4 * 2 & 3;
        return half(b + 108) * (float)((low | high << 4) - 32) * (float)q;
    }
    case CR_FORMAT_Q4_K: {
        const int q = b[16 + g32 / 2 * 32 + in] >> g32 % 2 * 4 & 15;
        return sum(half(b) * (float)scale_6(b + 4, g32) * (float)q, -(half(b + 2) * (float)low_6(b + 4, g32)));
    }
    case CR_FORMAT_Q5_K: {
        const int q = (b[48 + g32 / 2 * 32 + in] >> g32 % 2 * 4 & 15) | (b[16 + in] >> g32 & 1) << 4;
        return sum(half(b) * (float)scale_6(b + 4, g32) * (float)q, -(half(b + 2) * (float)low_6(b + 4, g32)));
    }
    case CR_FORMAT_Q6_K: {
        const int low = b[part * 64 + row % 2 * 32 + in] >> row / 2 * 4 & 15;
        const int high = b[128 + part * 32 + in] >> row * 2 & 3;
        return half(b + 208) * (float)(int8_t)b[192 + g16] * (float)((low | high << 4) - 32);
    }
    case CR_FORMAT_IQ4_XS: {
        const int high = (b[2] | b[3] << 8) >> 2 * g32 & 3, low = b[4 + g32 / 2] >> g32 % 2 * 4 & 15;
        return half(b) * (float)((low | high << 4) - 32) * (float)cr_iq4_values[nibble(b + 8 + 16 * g32, in)];
    }
    case CR_FORMAT_F32:
    case CR_FORMAT_F16:
    case CR_FORMAT_BF16:
    case CR_FORMATS: break;
    }
    return 0;
}

static double weight(const cr_array *w, int format, int64_t n, int64_t k) {
    const cr_format_traits *f = &cr_formats[format];
    const uint8_t *row = (const uint8_t *)address(w, 0) + n * w->strides[0];
    return (double)number((cr_block_format)format, row + k / f->block * f->bytes, (int)(k % f->block));
}

cr_status cr_ref_unpack(const cr_unpack_args *args) {
    const int64_t N = args->y.shape[0], K = args->y.shape[1];
    EACH(n, N)
        EACH(k, K) put(&args->y, n * K + k, weight(&args->w, args->format, n, k));
    return CR_OK;
}

cr_status cr_ref_linear_packed(const cr_linear_packed_args *args) {
    const cr_array *x = &args->x, *bias = cr_present(&args->bias);
    const int64_t M = x->shape[0], K = x->shape[1], N = args->y.shape[1];
    EACH(m, M)
        EACH(n, N) {
            double total = 0;
            EACH(k, K) total += get(x, m * K + k) * weight(&args->w, args->format, n, k);
            put(&args->y, m * N + n, total + (bias ? get(bias, n) : 0));
        }
    cr_note_done(args->done, true);
    return CR_OK;
}
