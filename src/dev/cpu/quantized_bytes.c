/* quantized_bytes.c - y[n] = sum over k of x[k] w[n, k] for weights of 4 or 8 bits, by AVX-512's vpdpbusd: sums of four
 * products of bytes, without sign and with one.  Beyond x86-64-v4, so compiled on its own.
 *
 * The integers q of x (quantized.h) are 256 high + low, both bytes with a sign.  Codes are taken without their sign,
 * w + 8 or w + 128; the sums begin with what a code of zero gives, negative.  So they are those of quantized_isa.c. */
#include "quantized.h"
#include "vec.h"

enum {
    UNIT = 64,                                      /* bytes of codes in a vector: 64 codes of 8 bits, 128 of 4 */
    ROWS = 4                                        /* of w at a time */
};
typedef __m512i bytes;

/* x for a unit of codes.  4 bits: the low halves of the bytes, then the high ones. */
typedef struct unit_8 { bytes high, low, zero; } unit_8;
typedef struct unit_4 { bytes high[2], low[2], zero; } unit_4;
_Static_assert(sizeof(unit_8) <= CR_QUANTIZED_X * UNIT && sizeof(unit_4) <= CR_QUANTIZED_X * 2 * UNIT, "room of x");

static inline bytes both(bytes high, bytes low) { return _mm512_add_epi32(_mm512_slli_epi32(high, 8), low); }

/* lane i: of the codes of its four bytes */
static inline bytes products_8(bytes w, const unit_8 *x) {
    const bytes code = _mm512_xor_si512(w, _mm512_set1_epi8(-128));
    return both(_mm512_dpbusd_epi32(_mm512_setzero_si512(), code, x->high), _mm512_dpbusd_epi32(x->zero, code, x->low));
}

static inline bytes products_4(bytes w, const unit_4 *x) {
    const bytes half = _mm512_set1_epi8(15);
    const bytes first = _mm512_and_si512(w, half), second = _mm512_and_si512(_mm512_srli_epi16(w, 4), half);
    const bytes high = _mm512_dpbusd_epi32(_mm512_setzero_si512(), first, x->high[0]);
    const bytes low = _mm512_dpbusd_epi32(x->zero, first, x->low[0]);
    return both(_mm512_dpbusd_epi32(high, second, x->high[1]), _mm512_dpbusd_epi32(low, second, x->low[1]));
}

/* ---- x */
static float largest(const float *x, int64_t n) {   /* n a multiple of 16; NaN is above infinity */
    bytes most = _mm512_setzero_si512();
    for (int64_t k = 0; k < n; k += V)
        most = _mm512_max_epu32(most, _mm512_and_si512(_mm512_loadu_si512(x + k), _mm512_set1_epi32(0x7fffffff)));
    const uint32_t bits = _mm512_reduce_max_epu32(most);
    float size;
    memcpy(&size, &bits, sizeof size);
    return size;
}

/* 16 numbers, the first of them number k of the row */
static void put_codes(const cr_quantized_shape *s, int8_t *q, int64_t k, const float *x, float inverse) {
    const bytes whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), _mm512_set1_ps(inverse)));
    const bytes high = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(128)), 8);
    const bytes low = _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 8));
    const int64_t codes = s->eight ? UNIT : 2 * UNIT, unit = s->eight ? sizeof(unit_8) : sizeof(unit_4), at = k % codes;
    int8_t *to = q + k / codes * unit + (s->eight ? at : at % 32 / 16 * UNIT + at / 32 * 16);
    _mm_storeu_si128((__m128i_u *)(void *)to, _mm512_cvtepi32_epi8(high));
    _mm_storeu_si128((__m128i_u *)(void *)(to + codes), _mm512_cvtepi32_epi8(low));
}

static void quantize_row(const cr_quantized_shape *s, const cr_quantized_row *to, const float *x) {
    const int64_t units = cr_pieces(s->K, s->eight ? UNIT : 2 * UNIT), groups = s->K / s->G;
    const size_t bytes_of_x = (size_t)units * (s->eight ? sizeof(unit_8) : sizeof(unit_4));
    memset(to->q, 0, bytes_of_x);
    for (int64_t g = groups; g < (groups + 15) / 16 * 16; g++) to->scale[g] = 0;
    for (int64_t g = 0; g < groups; g++) {
        const float size = largest(x + g * s->G, s->G);
        to->scale[g] = size / CR_QUANTIZED_MOST;    /* infinite or NaN: so is the sum, 0 times that */
        if (!(size >= 0x1p-100f && isfinite(size))) continue;        /* so small that products vanish */
        for (int64_t k = g * s->G; k < (g + 1) * s->G; k += V)
            put_codes(s, to->q, k, x + k, CR_QUANTIZED_MOST / size);
    }
    for (int64_t u = 0; u < units && s->eight; u++) {
        unit_8 *at = (unit_8 *)to->q + u;
        at->zero = _mm512_sub_epi32(_mm512_setzero_si512(), products_8(_mm512_setzero_si512(), at));
    }
    for (int64_t u = 0; u < units && !s->eight; u++) {
        unit_4 *at = (unit_4 *)to->q + u;
        at->zero = _mm512_sub_epi32(_mm512_setzero_si512(), products_4(_mm512_set1_epi8((char)0x88), at));
    }
}

/* ---- rows of w: R at a time, a constant, which share the loads of x; a row's bits do not depend on R */
typedef struct lines { const uint8_t *codes[ROWS], *next; __m512 scale[ROWS]; vec sum[ROWS]; } lines;

/* The sum of each line's lanes. */
static ALWAYS_INLINE __m128 sums_of(const vec sum[ROWS]) {
    const __m512 a = (__m512)sum[0], b = (__m512)sum[1], c = (__m512)sum[2], d = (__m512)sum[3];
    const __m512d ab = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512d cd = (__m512d)_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 all = _mm512_add_ps((__m512)_mm512_unpacklo_pd(ab, cd), (__m512)_mm512_unpackhi_pd(ab, cd));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* The unit `at` bytes into the lines, of which the bytes `in` exist; of_lane: which scale each lane has. */
static ALWAYS_INLINE void add_unit(int R, bool eight, lines *l, int64_t at, __mmask64 in, const int8_t *q,
                                   bytes of_lane) {
    l->next = cr_quantized_fetch(l->next, R * UNIT);
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
        const bytes w = _mm512_maskz_loadu_epi8(in, l->codes[r] + at);
        const bytes p = eight ? products_8(w, (const unit_8 *)(const void *)q)
                              : products_4(w, (const unit_4 *)(const void *)q);
        l->sum[r] = v_fma((vec)_mm512_cvtepi32_ps(p), (vec)_mm512_permutexvar_ps(of_lane, l->scale[r]), l->sum[r]);
    }
}

static ALWAYS_INLINE void some_rows(int R, bool eight, const cr_quantized_shape *s, float *y, const uint8_t *codes,
                                    const uint16_t *scales, const cr_quantized_row *x) {
    const int64_t groups = s->K / s->G, line = eight ? s->K : s->K / 2, most = V * s->G / (eight ? 1 : 2);
    /* in groups, from the middle of four codes on, so that rounding does not matter */
    const vec lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vec index = eight ? lane * 4 : (vec)_mm512_floor_ps((__m512)(lane / 4)) * 32;
    const vec first = (index + 2) / (float)s->G, step = v_k((float)(eight ? UNIT : 2 * UNIT) / (float)s->G);
    const int64_t x_bytes = eight ? sizeof(unit_8) : sizeof(unit_4);
    const int8_t *q = x->q;
    lines l = {.next = codes + R * line + CR_QUANTIZED_FAR};
    for (int r = 0; r < R; r++) l.codes[r] = codes + r * line;
    for (int64_t g = 0, at = 0; g < groups; g += V) {
        const __mmask16 there = (__mmask16)(groups - g < V ? (1u << (groups - g)) - 1 : 0xffff);
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
            l.scale[r] = _mm512_mul_ps(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(there, scales + r * groups + g)),
                                       _mm512_loadu_ps(x->scale + g));
        const int64_t end = cr_imin(line, at + most);
        vec group = first;
        for (; at + UNIT <= end; at += UNIT, q += x_bytes, group += step)
            add_unit(R, eight, &l, at, ~0ull, q, _mm512_cvttps_epi32((__m512)group));
        if (at < end) add_unit(R, eight, &l, at, (1ull << (end - at)) - 1, q, _mm512_cvttps_epi32((__m512)group));
    }
    const __m128 y4 = sums_of(l.sum);
    memcpy(y, &y4, (size_t)R * sizeof *y);
}

static ALWAYS_INLINE void all_rows(bool eight, const cr_quantized_shape *s, float *y, const uint8_t *codes,
                                   const uint16_t *scales, int64_t n, const cr_quantized_row *x) {
    const int64_t line = eight ? s->K : s->K / 2, groups = s->K / s->G;
    int64_t i = 0;
    for (; i + ROWS <= n; i += ROWS) some_rows(ROWS, eight, s, y + i, codes + i * line, scales + i * groups, x);
    for (; i < n; i++) some_rows(1, eight, s, y + i, codes + i * line, scales + i * groups, x);
}

static void rows(const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales, int64_t n,
                 const cr_quantized_row *x) {
    if (s->eight) all_rows(true, s, y, codes, scales, n, x);
    else all_rows(false, s, y, codes, scales, n, x);
}

const struct cr_quantizeds cr_quantizeds_bytes = {quantize_row, rows, NULL};
