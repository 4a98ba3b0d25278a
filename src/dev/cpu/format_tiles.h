/* format_tiles.h - tiles of packed rows (core/formats.h) as codes of 8 bits, for one instruction set: 256 neighbours of
 * V rows, a row in each lane of 32 bits.
 *
 * 16 bytes of each row are read and transposed, so that a vector has the same four bytes of V rows; the formats are
 * taken apart there, scales too. */
#ifndef CR_FORMAT_TILES_H
#define CR_FORMAT_TILES_H

#include "format_rows.h"

enum { TILE = 256 };                                /* codes of a row */

typedef struct tile {
    vbyte q[TILE / 4];                              /* lane r of q[i]: codes 4 i .. 4 i + 3 of row r */
    vec scale[TILE / 16], low[TILE / 16];           /* of each group; low: where the format has offsets */
} tile;
typedef const uint8_t *const rows_at[V];            /* addresses of the rows */

/* ---- bytes of all rows */

/* to[i]: bytes at + 4 i .. at + 4 i + 3 */
#if CR_ISA == 4
static inline __m512i four_rows(const uint8_t *const *row, int64_t at) {
    const __m512i a = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i_u *)(const void *)(row[0] + at)));
    const __m512i b = _mm512_inserti32x4(a, _mm_loadu_si128((const __m128i_u *)(const void *)(row[4] + at)), 1);
    const __m512i c = _mm512_inserti32x4(b, _mm_loadu_si128((const __m128i_u *)(const void *)(row[8] + at)), 2);
    return _mm512_inserti32x4(c, _mm_loadu_si128((const __m128i_u *)(const void *)(row[12] + at)), 3);
}
static inline void piece(vbyte to[4], rows_at row, int64_t at) {
    const __m512i r0 = four_rows(row, at), r1 = four_rows(row + 1, at), r2 = four_rows(row + 2, at),
                  r3 = four_rows(row + 3, at);
    const __m512i a = _mm512_unpacklo_epi32(r0, r1), b = _mm512_unpacklo_epi32(r2, r3),
                  c = _mm512_unpackhi_epi32(r0, r1), d = _mm512_unpackhi_epi32(r2, r3);
    to[0] = (vbyte)_mm512_unpacklo_epi64(a, b), to[1] = (vbyte)_mm512_unpackhi_epi64(a, b);
    to[2] = (vbyte)_mm512_unpacklo_epi64(c, d), to[3] = (vbyte)_mm512_unpackhi_epi64(c, d);
}
#elif CR_ISA == 3
static inline __m256i two_rows(const uint8_t *const *row, int64_t at) {
    const __m256i a = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i_u *)(const void *)(row[0] + at)));
    return _mm256_inserti128_si256(a, _mm_loadu_si128((const __m128i_u *)(const void *)(row[4] + at)), 1);
}
static inline void piece(vbyte to[4], rows_at row, int64_t at) {
    const __m256i r0 = two_rows(row, at), r1 = two_rows(row + 1, at), r2 = two_rows(row + 2, at),
                  r3 = two_rows(row + 3, at);
    const __m256i a = _mm256_unpacklo_epi32(r0, r1), b = _mm256_unpacklo_epi32(r2, r3),
                  c = _mm256_unpackhi_epi32(r0, r1), d = _mm256_unpackhi_epi32(r2, r3);
    to[0] = (vbyte)_mm256_unpacklo_epi64(a, b), to[1] = (vbyte)_mm256_unpackhi_epi64(a, b);
    to[2] = (vbyte)_mm256_unpacklo_epi64(c, d), to[3] = (vbyte)_mm256_unpackhi_epi64(c, d);
}
#else
static inline void piece(vbyte to[4], rows_at row, int64_t at) {
    quad h[4];
    four_words(h, row, at);
    for (int i = 0; i < 4; i++) to[i] = (vbyte)h[i];
}
#endif

static inline vuint words(rows_at row, int64_t at) {
    vuint y;
    CR_UNROLL(16)
    for (int r = 0; r < V; r++) {
        uint32_t one;
        memcpy(&one, row[r] + at, sizeof one);
        y[r] = one;
    }
    return y;
}

static inline vhalf halves(rows_at row, int64_t at) {
    vhalf y;
    CR_UNROLL(16)
    for (int r = 0; r < V; r++) {
        uint16_t one;
        memcpy(&one, row[r] + at, sizeof one);
        y[r] = one;
    }
    return y;
}

/* f16 numbers */
static inline vec scale_at(rows_at row, int64_t at) { return f16_widen(halves(row, at)); }
static inline vuint byte_of(vuint x, int i) { return x >> (8 * i) & 255; }

/* table[q], q < 16 in each byte */
static inline vbyte looked_up(const int8_t table[16], vbyte q) {
    return bytes_at((vbyte)everywhere(quad_at((const uint8_t *)table)), q);
}

/* ---- codes */

/* n vectors of codes q - bias_of[format], or with bias 128 of codes q. */
static ALWAYS_INLINE void put(cr_block_format format, vbyte *to, const vbyte *q, int n) {
#ifdef CR_BYTES
    const uint8_t add = bias_of[format] & 128;
#else
    const uint8_t add = (uint8_t)-(bias_of[format] & 127);
#endif
    CR_UNROLL(8)
    for (int i = 0; i < n; i++) to[i] = add ? q[i] + add : q[i];
}

/* 32 codes: the low halves of 16 bytes, then the high ones */
static ALWAYS_INLINE void nibbles(vbyte q[8], const vbyte p[4]) {
    CR_UNROLL(4)
    for (int i = 0; i < 4; i++) {
        q[i] = p[i] & 15;
        q[4 + i] = p[i] >> 4;
    }
}

/* Bits 4 i .. 4 i + 3 of each row's word, as the value 16 in four bytes. */
static inline vbyte fifth_bits(vuint bits, int i) {
    return (vbyte)(((bits >> (4 * i) & 15) * 0x00204081u & 0x01010101u) << 4);
}

/* A block of 32 codes in the four words p; bits: the fifth ones, of some formats. */
static ALWAYS_INLINE void put_nibbles(cr_block_format format, vbyte *to, const vbyte p[4], vuint bits) {
    vbyte q[8];
    nibbles(q, p);
    CR_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        if (format == CR_FORMAT_Q5_0 || format == CR_FORMAT_Q5_1) q[i] |= fifth_bits(bits, i);
        if (format == CR_FORMAT_IQ4_NL || format == CR_FORMAT_IQ4_XS) q[i] = looked_up(cr_iq4_values, q[i]);
        if (format == CR_FORMAT_MXFP4) q[i] = looked_up(cr_mxfp4_values, q[i]);
    }
    put(format, to, q, 8);
}

/* the same from `at` on */
static ALWAYS_INLINE void put_block(cr_block_format format, vbyte *to, rows_at row, int64_t at, vuint bits) {
    vbyte p[4];
    piece(p, row, at);
    put_nibbles(format, to, p, bits);
}

/* ---- blocks of 32: n of them from `at` on */
/* Blocks of f16 and `words` words of codes lie two by two on whole words: of a full tile all words are read, those of
 * every other block straddle two. */
enum { TILE_BLOCKS = TILE / 32 };
static ALWAYS_INLINE void put_straddling(cr_block_format format, int words, tile *t, rows_at row, int64_t at) {
    const int both = 2 * words + 1;
    vuint all[(2 * 8 + 1) * TILE_BLOCKS / 2];
    for (int i = 0; i < both * TILE_BLOCKS / 2; i += 4) piece((vbyte *)all + i, row, at + 4 * i);
    for (int b = 0; b < TILE_BLOCKS; b++) {
        const vuint *w = all + b / 2 * both + b % 2 * words;
        vuint q[8];
        CR_UNROLL(8)
        for (int i = 0; i < words; i++) q[i] = b % 2 ? w[i + 1] : w[i] >> 16 | w[i + 1] << 16;
        t->scale[b] = b % 2 ? high_half(w[0]) : low_half(w[0]);
        if (words == 8) put(format, t->q + 8 * b, (const vbyte *)q, 8);
        else put_nibbles(format, t->q + 8 * b, (const vbyte *)q, (vuint){0});
    }
}

static void tile_q8_0(tile *t, rows_at row, int64_t at, int n) {
    if (n == TILE_BLOCKS) { put_straddling(CR_FORMAT_Q8_0, 8, t, row, at); return; }
    for (int b = 0; b < n; b++, at += 34) {
        vbyte q[8];
        piece(q, row, at + 2);
        piece(q + 4, row, at + 18);
        put(CR_FORMAT_Q8_0, t->q + 8 * b, q, 8);
        t->scale[b] = scale_at(row, at);
    }
}

static ALWAYS_INLINE void tile_of_4(cr_block_format format, tile *t, rows_at row, int64_t at, int n) {
    if (n == TILE_BLOCKS) { put_straddling(format, 4, t, row, at); return; }
    for (int b = 0; b < n; b++, at += 18) {
        put_block(format, t->q + 8 * b, row, at + 2, (vuint){0});
        t->scale[b] = scale_at(row, at);
    }
}

static void tile_q4_0(tile *t, rows_at row, int64_t at, int n) { tile_of_4(CR_FORMAT_Q4_0, t, row, at, n); }
static void tile_iq4_nl(tile *t, rows_at row, int64_t at, int n) { tile_of_4(CR_FORMAT_IQ4_NL, t, row, at, n); }

static void tile_q4_1(tile *t, rows_at row, int64_t at, int n) {
    for (int b = 0; b < n; b++, at += 20) {
        const vuint d = words(row, at);
        put_block(CR_FORMAT_Q4_1, t->q + 8 * b, row, at + 4, (vuint){0});
        t->scale[b] = low_half(d);
        t->low[b] = high_half(d);
    }
}

static void tile_q5_0(tile *t, rows_at row, int64_t at, int n) {
    for (int b = 0; b < n; b++, at += 22) {
        put_block(CR_FORMAT_Q5_0, t->q + 8 * b, row, at + 6, words(row, at + 2));
        t->scale[b] = scale_at(row, at);
    }
}

static void tile_q5_1(tile *t, rows_at row, int64_t at, int n) {
    for (int b = 0; b < n; b++, at += 24) {
        const vuint d = words(row, at);
        put_block(CR_FORMAT_Q5_1, t->q + 8 * b, row, at + 8, words(row, at + 4));
        t->scale[b] = low_half(d);
        t->low[b] = high_half(d);
    }
}

/* the scale is 2^(byte - 128): the values are doubled */
static void tile_mxfp4(tile *t, rows_at row, int64_t at, int n) {
    for (int b = 0; b < n; b++, at += 17) {
        vuint e;
        for (int r = 0; r < V; r++) e[r] = row[r][at];
        const vuint tiny = (vuint)(e < 2u);
        put_block(CR_FORMAT_MXFP4, t->q + 8 * b, row, at + 1, (vuint){0});
        t->scale[b] = (vec)((tiny & 0x00200000u << (e & 1)) | (~tiny & (e - 1) << 23));
    }
}

/* ---- blocks of 256 */

/* 8 scales and 8 offsets of 6 bits in the words h[1..3], times the halves of h[0] */
static ALWAYS_INLINE void scales_6(tile *t, const vuint h[4]) {
    const vec d = low_half(h[0]), m = high_half(h[0]);
    const vuint s[2] = {h[1] & 0x3f3f3f3f, (h[3] & 0x0f0f0f0f) | (h[1] >> 6 & 0x03030303) << 4},
                low[2] = {h[2] & 0x3f3f3f3f, (h[3] >> 4 & 0x0f0f0f0f) | (h[2] >> 6 & 0x03030303) << 4};
    CR_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        t->scale[i] = d * number(byte_of(s[i / 4], i % 4));
        t->low[i] = -(m * number(byte_of(low[i / 4], i % 4)));
    }
}

static void tile_q4_k(tile *t, rows_at row, int64_t at, int n) {
    (void)n;
    vbyte h[4];
    piece(h, row, at);
    scales_6(t, (const vuint *)h);
    for (int i = 0; i < 8; i++) {                   /* 16 bytes: half of the codes of two groups */
        vbyte p[4], q[8];
        piece(p, row, at + 16 + 16 * i);
        nibbles(q, p);
        put(CR_FORMAT_Q4_K, t->q + i / 2 * 16 + i % 2 * 4, q, 4);
        put(CR_FORMAT_Q4_K, t->q + i / 2 * 16 + i % 2 * 4 + 8, q + 4, 4);
    }
}

static void tile_q5_k(tile *t, rows_at row, int64_t at, int n) {
    (void)n;
    vbyte h[4], high[8];
    piece(h, row, at);
    scales_6(t, (const vuint *)h);
    piece(high, row, at + 16);
    piece(high + 4, row, at + 32);
    for (int i = 0; i < 8; i++) {
        vbyte p[4], q[8];
        piece(p, row, at + 48 + 16 * i);
        nibbles(q, p);
        for (int k = 0; k < 4; k++) {
            const vbyte bits = high[i % 2 * 4 + k] >> (i / 2 * 2);
            q[k] |= (bits & 1) << 4;
            q[4 + k] |= (bits & 2) << 3;
        }
        put(CR_FORMAT_Q5_K, t->q + i / 2 * 16 + i % 2 * 4, q, 4);
        put(CR_FORMAT_Q5_K, t->q + i / 2 * 16 + i % 2 * 4 + 8, q + 4, 4);
    }
}

/* scales: 16 bytes with a sign */
static void tile_q6_k(tile *t, rows_at row, int64_t at, int n) {
    (void)n;
    const vec d = scale_at(row, at + 208);
    vbyte s[4];
    piece(s, row, at + 192);
    for (int i = 0; i < 16; i++) t->scale[i] = d * to_float((vint)((vuint)s[i / 4] << (24 - i % 4 * 8)) >> 24);
    for (int i = 0; i < 4; i++) {                   /* 16 columns of 32 in each half of 128 */
        vbyte low[2][4], high[4], q[4];
        const int64_t from = at + i / 2 * 64 + i % 2 * 16;
        piece(low[0], row, from);
        piece(low[1], row, from + 32);
        piece(high, row, at + 128 + i / 2 * 32 + i % 2 * 16);
        for (int j = 0; j < 4; j++) {
            for (int k = 0; k < 4; k++)
                q[k] = (low[j % 2][k] >> (j / 2 * 4) & 15) | (high[k] >> (2 * j) & 3) << 4;
            put(CR_FORMAT_Q6_K, t->q + i / 2 * 32 + j * 8 + i % 2 * 4, q, 4);
        }
    }
}

static void tile_q2_k(tile *t, rows_at row, int64_t at, int n) {
    (void)n;
    const vuint dm = words(row, at + 80);
    const vec d = low_half(dm), m = high_half(dm);
    vbyte s[4];
    piece(s, row, at);
    for (int i = 0; i < 16; i++) {
        const vuint both = byte_of((vuint)s[i / 4], i % 4);
        t->scale[i] = d * number(both & 15);
        t->low[i] = -(m * number(both >> 4));
    }
    for (int i = 0; i < 4; i++) {
        vbyte p[4], q[4];
        piece(p, row, at + 16 + 16 * i);
        for (int j = 0; j < 4; j++) {
            for (int k = 0; k < 4; k++) q[k] = p[k] >> (2 * j) & 3;
            put(CR_FORMAT_Q2_K, t->q + i / 2 * 32 + j * 8 + i % 2 * 4, q, 4);
        }
    }
}

/* 16 scales of 6 bits, + 32, in 12 bytes from 96 on: the low four bits in the halves of the first eight */
static void tile_q3_k(tile *t, rows_at row, int64_t at, int n) {
    (void)n;
    const vuint s[3] = {words(row, at + 96), words(row, at + 100), words(row, at + 104)};
    const vec d = scale_at(row, at + 108);
    vbyte high[8];
    for (int i = 0; i < 16; i++) {
        const vuint low = byte_of(s[i / 4 % 2], i % 4) >> (i / 8 * 4) & 15;
        const vuint two = byte_of(s[2], i % 4) >> (i / 4 * 2) & 3;
        t->scale[i] = d * to_float((vint)(low | two << 4) - 32);
    }
    piece(high, row, at);
    piece(high + 4, row, at + 16);
    for (int i = 0; i < 4; i++) {
        vbyte p[4], q[4];
        piece(p, row, at + 32 + 16 * i);
        for (int j = 0; j < 4; j++) {
            for (int k = 0; k < 4; k++)
                q[k] = (p[k] >> (2 * j) & 3) | (high[i % 2 * 4 + k] >> (i / 2 * 4 + j) & 1) << 2;
            put(CR_FORMAT_Q3_K, t->q + i / 2 * 32 + j * 8 + i % 2 * 4, q, 4);
        }
    }
}

/* d f16, the high two bits of 8 scales, their low four: scale - 32 */
static void tile_iq4_xs(tile *t, rows_at row, int64_t at, int n) {
    (void)n;
    const vuint first = words(row, at), low = words(row, at + 4);
    const vec d = low_half(first);
    for (int i = 0; i < 8; i++) {
        const vuint s = (low >> (4 * i) & 15) | (first >> (16 + 2 * i) & 3) << 4;
        t->scale[i] = d * to_float((vint)s - 32);
        put_block(CR_FORMAT_IQ4_XS, t->q + 8 * i, row, at + 8 + 16 * i, (vuint){0});
    }
}

typedef void tile_fn(tile *t, rows_at row, int64_t at, int n);
static tile_fn *const tile_of[CR_FORMATS] = {
    [CR_FORMAT_Q8_0] = tile_q8_0,     [CR_FORMAT_Q4_0] = tile_q4_0,   [CR_FORMAT_Q4_1] = tile_q4_1,
    [CR_FORMAT_Q5_0] = tile_q5_0,     [CR_FORMAT_Q5_1] = tile_q5_1,   [CR_FORMAT_IQ4_NL] = tile_iq4_nl,
    [CR_FORMAT_MXFP4] = tile_mxfp4,   [CR_FORMAT_Q2_K] = tile_q2_k,   [CR_FORMAT_Q3_K] = tile_q3_k,
    [CR_FORMAT_Q4_K] = tile_q4_k,     [CR_FORMAT_Q5_K] = tile_q5_k,   [CR_FORMAT_Q6_K] = tile_q6_k,
    [CR_FORMAT_IQ4_XS] = tile_iq4_xs,
};

#endif
