/* linear_packed_isa.c - y[m, n] = sum over k of x[m, k] w[n, k], w (N, K) in a packed format: V rows of w side by side
 * (linear_packed.h).  For one row of x limited by the bytes of w, for many by integer products.
 *
 * linear_packed_bytes.c compiles this text too, with CR_BYTES: by AVX-512's vpdpbusd, sums of four products of bytes
 * without sign and with one.  There q is 256 high + low, both bytes with a sign, and codes are taken with a bias
 * (bias_of).  The integers are the same. */
#include "linear_packed.h"
#include "format_tiles.h"
#include "../../core/ints.h"

enum {
    MOST_Q = 32512,                                 /* of q: 127 x 256, so that its two bytes have a sign each */
    ROWS = 4                                        /* of x at a time, which share the loads of codes */
};

static inline vint v_words(int32_t x) { return x + (vint){0}; }

/* ---- x */

/* Four neighbours as the two words that kernels read. */
static inline void put_four(cr_packed_x *to, int i, const int32_t q[4]) {
    uint32_t a = 0, b = 0;
#ifdef CR_BYTES
    for (int k = 0; k < 4; k++) {
        const int32_t high = (q[k] + 128) >> 8;
        a |= (uint32_t)(high & 255) << 8 * k;
        b |= (uint32_t)((q[k] - high * 256) & 255) << 8 * k;
    }
#else                                               /* the even ones, the odd ones */
    a = (uint32_t)(q[0] & 0xffff) | (uint32_t)q[2] << 16;
    b = (uint32_t)(q[1] & 0xffff) | (uint32_t)q[3] << 16;
#endif
    to->q[i] = (int32_t)a;
    to->q[8 + i] = (int32_t)b;
}

static void prepare_block(cr_packed_x *to, const float *x, int group, int32_t bias) {
    uint32_t most = 0;                              /* as bits, which puts NaN above infinity */
    for (int k = 0; k < 32; k++) {
        uint32_t bits;
        memcpy(&bits, x + k, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float size;
    memcpy(&size, &most, sizeof size);
    *to = (cr_packed_x){.scale = isfinite(size) ? size / MOST_Q : NAN};        /* where f32 would give infinities */
    if (!isfinite(size)) to->sum[0] = to->sum[1] = NAN;
    if (!(size >= 0x1p-100f && isfinite(size))) return;            /* so small that products vanish */
    const float inverse = MOST_Q / size;
    int32_t q[32], sum[2] = {0};
    for (int k = 0; k < 32; k++) q[k] = (int32_t)rintf(x[k] * inverse);
    for (int k = 0; k < 16; k++) sum[0] += q[k], sum[1] += q[16 + k];
    if (group == 32) sum[0] += sum[1];
    for (int i = 0; i < 8; i++) put_four(to, i, q + 4 * i);
    for (int i = 0; i < 2; i++) {
        to->sum[i] = to->scale * (float)sum[i];
        to->zero[i] = -bias * sum[i];
    }
}

static void prepare(int format, cr_packed_x *to, const float *x, int64_t K) {
    for (int64_t k = 0; k < K; k += 32)
        prepare_block(to + k / 32, x + k, cr_formats[format].group, bias_of[format]);
}

/* ---- products */

/* a group of codes times R rows of x, whose blocks lie `step` apart; half: the second group of 16 of the block */
static ALWAYS_INLINE void add_group(int R, int group, bool low, const tile *t, int at, int half, const cr_packed_x *x,
                                    int64_t step, vec sum[ROWS]) {
    const vbyte *q = t->q + at * (group / 4);
    vint a[ROWS];
    CR_UNROLL(4)
    for (int r = 0; r < R; r++) a[r] = (vint){0};
#ifdef CR_BYTES
    vint b[ROWS];                                   /* of the low bytes */
    CR_UNROLL(4)
    for (int r = 0; r < R; r++) b[r] = v_words(x[r * step].zero[half]);
#endif
    CR_UNROLL(8)
    for (int k = 0; k < group / 4; k++) {
        const int from = 4 * half + k;
#ifdef CR_BYTES
        const __m512i w = (__m512i)q[k];
        CR_UNROLL(4)
        for (int r = 0; r < R; r++) {
            a[r] = (vint)_mm512_dpbusd_epi32((__m512i)a[r], w, _mm512_set1_epi32(x[r * step].q[from]));
            b[r] = (vint)_mm512_dpbusd_epi32((__m512i)b[r], w, _mm512_set1_epi32(x[r * step].q[8 + from]));
        }
#else
        const vshort even = (vshort)((vushort)q[k] << 8) >> 8, odd = (vshort)q[k] >> 8;
        CR_UNROLL(4)
        for (int r = 0; r < R; r++) {
            a[r] += pairs(even, (vshort)v_words(x[r * step].q[from]));
            a[r] += pairs(odd, (vshort)v_words(x[r * step].q[8 + from]));
        }
#endif
    }
    CR_UNROLL(4)
    for (int r = 0; r < R; r++) {
#ifdef CR_BYTES
        a[r] = (a[r] << 8) + b[r];
#endif
        sum[r] = v_fma(to_float(a[r]), t->scale[at] * v_k(x[r * step].scale), sum[r]);
        if (low) sum[r] = v_fma(t->low[at], v_k(x[r * step].sum[half]), sum[r]);
    }
}

static ALWAYS_INLINE void add_rows(int R, int group, bool low, const tile *t, int blocks, const cr_packed_x *x,
                                   int64_t step, float *y) {
    vec sum[ROWS];
    CR_UNROLL(4)
    for (int r = 0; r < R; r++) sum[r] = LOAD(y + r * V);
    for (int b = 0; b < blocks; b++) {
        if (group == 32) {
            add_group(R, 32, low, t, b, 0, x + b, step, sum);
            continue;
        }
        add_group(R, 16, low, t, 2 * b, 0, x + b, step, sum);
        add_group(R, 16, low, t, 2 * b + 1, 1, x + b, step, sum);
    }
    CR_UNROLL(4)
    for (int r = 0; r < R; r++) STORE(y + r * V, sum[r]);
}

static ALWAYS_INLINE void add_tile(int group, bool low, const tile *t, int blocks, const cr_packed_x *x, int64_t step,
                                   int64_t M, float *y) {
    int64_t m = 0;
    for (; m + ROWS <= M; m += ROWS) add_rows(ROWS, group, low, t, blocks, x + m * step, step, y + m * V);
    for (; m < M; m++) add_rows(1, group, low, t, blocks, x + m * step, step, y + m * V);
}

/* The rows behind these are fetched in the order of memory, as fast as these.  Unrolled, the loop was slower. */
static inline const uint8_t *fetched(const uint8_t *next, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i);
    return next + bytes;
}

static void rows(int format, float *y, const uint8_t *const *row, int64_t K, const cr_packed_x *x, int64_t M) {
    const cr_format_traits *f = &cr_formats[format];
    tile t;
    const uint8_t *next = row[V - 1] + K / f->block * f->bytes;
    const int64_t bytes = TILE / f->block * f->bytes;
    for (int64_t k = 0; k < K; k += TILE) {
        const int blocks = (int)cr_imin(TILE, K - k) / 32;
        const cr_packed_x *from = x + k / 32;
        const int64_t at = k / f->block * f->bytes;
        next = fetched(next, V * bytes);
        tile_of[format](&t, row, at, blocks);
        if (f->group == 16 && f->low) add_tile(16, true, &t, blocks, from, K / 32, M, y);
        else if (f->group == 16) add_tile(16, false, &t, blocks, from, K / 32, M, y);
        else if (f->low) add_tile(32, true, &t, blocks, from, K / 32, M, y);
        else add_tile(32, false, &t, blocks, from, K / 32, M, y);
    }
}

#ifdef CR_BYTES
const struct cr_packeds cr_packeds_bytes = {V, prepare, rows, NULL};
#else

/* ---- to floats: two roundings, of the product and of the sum, as other readers have them */
static void unpack(int format, float *y, const uint8_t *const *row, int64_t K) {
    const cr_format_traits *f = &cr_formats[format];
    tile t;
    for (int64_t k = 0; k < K; k += TILE) {
        const int n = (int)cr_imin(TILE, K - k);
        tile_of[format](&t, row, k / f->block * f->bytes, n / 32);
        for (int r = 0; r < V; r++)
            for (int i = 0; i < n; i++) {
                const int8_t code = (int8_t)((const uint8_t *)&t.q[i / 4])[4 * r + i % 4];
                const float w = t.scale[i / f->group][r] * (float)code;
                y[r * K + k + i] = f->low ? w + t.low[i / f->group][r] : w;
            }
    }
}

const struct cr_packeds CR_ISA_NAME(cr_packeds) = {V, prepare, rows, unpack};
#endif
