/* format_rows.h - codes and scales of packed rows (core/formats.h) for one row of x and one instruction set: four rows
 * of w side by side, whose bytes are read as they lie.
 *
 * A unit is 128 neighbours of a row: four blocks of 32.  Lane j of 16 bytes of a vector of codes belongs to block j:
 * `a` to its first 16 numbers, `b` to its last 16.  Lane 4 j + r of scales belongs to block j of row r.  A vector of 64
 * bytes holds a unit; shorter ones hold a part of it. */
#ifndef CR_FORMAT_ROWS_H
#define CR_FORMAT_ROWS_H

#include "../../core/formats.h"
#include "../../core/ints.h"
#include "pairs.h"

enum { UNIT = 128, LINES = 4, BLOCKS = V_BYTES / 16, PARTS = 4 / BLOCKS };     /* BLOCKS: of a part */
typedef const uint8_t *const lines[LINES];          /* addresses in the rows */
typedef uint8_t vbyte __attribute__((vector_size(V_BYTES)));
typedef uint32_t quad __attribute__((vector_size(16)));
typedef struct codes { vbyte a, b; } codes;

/* ---- 16 bytes for each block */
static inline quad quad_at(const uint8_t *p) {
    quad q;
    memcpy(&q, p, sizeof q);
    return q;
}

/* to[i]: word i of each of the four */
static inline void transpose(quad to[4], const quad r[4]) {
#if CR_ISA
    const __m128i *v = (const __m128i *)r;
    const __m128i a = _mm_unpacklo_epi32(v[0], v[1]), b = _mm_unpacklo_epi32(v[2], v[3]),
                  c = _mm_unpackhi_epi32(v[0], v[1]), d = _mm_unpackhi_epi32(v[2], v[3]);
    to[0] = (quad)_mm_unpacklo_epi64(a, b), to[1] = (quad)_mm_unpackhi_epi64(a, b);
    to[2] = (quad)_mm_unpacklo_epi64(c, d), to[3] = (quad)_mm_unpackhi_epi64(c, d);
#else
    const quad a = V_SHUFFLE(r[0], r[1], 0, 4, 1, 5), b = V_SHUFFLE(r[2], r[3], 0, 4, 1, 5),
               c = V_SHUFFLE(r[0], r[1], 2, 6, 3, 7), d = V_SHUFFLE(r[2], r[3], 2, 6, 3, 7);
    to[0] = V_SHUFFLE(a, b, 0, 1, 4, 5), to[1] = V_SHUFFLE(a, b, 2, 3, 6, 7);
    to[2] = V_SHUFFLE(c, d, 0, 1, 4, 5), to[3] = V_SHUFFLE(c, d, 2, 3, 6, 7);
#endif
}

/* the same in each lane of 16 bytes */
static inline vuint everywhere(quad q) {
#if CR_ISA == 4
    return (vuint)_mm512_broadcast_i32x4((__m128i)q);
#elif CR_ISA == 3
    return (vuint)_mm256_broadcastsi128_si256((__m128i)q);
#else
    return q;
#endif
}

/* lane j: the 16 bytes at p + j step */
static ALWAYS_INLINE vuint every(const uint8_t *p, int64_t step) {
#if CR_ISA == 4
    __m512i y = _mm512_castsi128_si512((__m128i)quad_at(p));
    if (step == 16) return (vuint)_mm512_loadu_si512(p);
    y = _mm512_inserti32x4(y, (__m128i)quad_at(p + step), 1);
    y = _mm512_inserti32x4(y, (__m128i)quad_at(p + 2 * step), 2);
    return (vuint)_mm512_inserti32x4(y, (__m128i)quad_at(p + 3 * step), 3);
#elif CR_ISA == 3
    return (vuint)_mm256_set_m128i((__m128i)quad_at(p + step), (__m128i)quad_at(p));
#else
    (void)step;
    return quad_at(p);
#endif
}

#ifdef CR_BYTES
/* Byte i of lane j is byte first + i / each of block j, by AVX-512 VBMI from two times 64 bytes of the four blocks. */
static ALWAYS_INLINE __m512i picked(const uint8_t *p, int first, int step, int each) {
    const int from = (int)cr_imax(0, first + 3 * step + 16 - 128), apart = (int)cr_imin(64, 4 * step - 64 - from);
    vbyte index = {0};
    CR_UNROLL(64)
    for (int i = 0; i < V_BYTES; i++) {
        const int at = first + i / 16 * step + i % 16 / each - from;
        index[i] = (uint8_t)(at < 64 ? at : 64 + at - apart);
    }
    const __m512i low = _mm512_loadu_si512(p + from), high = _mm512_loadu_si512(p + from + apart);
    return _mm512_permutex2var_epi8(low, (__m512i)index, high);
}
#endif

/* Lane j: the bytes from `first` of block j on; blocks lie `step` apart. */
static ALWAYS_INLINE vuint of_each(const uint8_t *p, int first, int step) {
#ifdef CR_BYTES
    return (vuint)picked(p, first, step, 1);
#else
    return every(p + first, step);
#endif
}

/* Blocks 0, 1 of a unit get `first`, blocks 2, 3 `second`. */
static ALWAYS_INLINE vuint halves_of(quad first, quad second, int part) {
#if CR_ISA == 4
    (void)part;
    return (vuint)_mm512_inserti64x4((__m512i)everywhere(first), _mm256_broadcastsi128_si256((__m128i)second), 1);
#else
    return everywhere(part < PARTS / 2 ? first : second);
#endif
}

/* p has four parts of 16 bytes.  Blocks 0 to 3 get parts 0, 0, 2, 2, or with `twice` 0, 2, 0, 2; with `odd` the
 * next ones. */
static ALWAYS_INLINE vuint shared(const uint8_t *p, bool twice, bool odd, int part) {
#if CR_ISA == 4
    (void)part;
    const __m512i w = (__m512i)_mm512_loadu_si512(p);
    if (odd) return twice ? (vuint)_mm512_shuffle_i64x2(w, w, 0xdd) : (vuint)_mm512_shuffle_i64x2(w, w, 0xf5);
    return twice ? (vuint)_mm512_shuffle_i64x2(w, w, 0x88) : (vuint)_mm512_shuffle_i64x2(w, w, 0xa0);
#else
    p += 16 * odd;
#if CR_ISA == 3
    return twice ? every(p, 32) : everywhere(quad_at(p + 32 * part));
#else
    return quad_at(p + 32 * (twice ? part % 2 : part / 2));
#endif
#endif
}

/* Lane j of a part: first + step j in all its four words, for block number j of a unit. */
static ALWAYS_INLINE vuint by_block(int part, uint32_t first, uint32_t step) {
    vuint y = {0};
    CR_UNROLL(16)
    for (int i = 0; i < V; i++) y[i] = first + step * (uint32_t)(part * BLOCKS + i / 4);
    return y;
}
/* The same for the pairs of blocks 0, 1 and 2, 3: first, or first + step of the second. */
static ALWAYS_INLINE vuint by_two(int part, bool second, uint32_t step) {
    vuint y = {0};
    CR_UNROLL(16)
    for (int i = 0; i < V; i++) {
        const int block = part * BLOCKS + i / 4;
        y[i] = step * (uint32_t)(second ? block / 2 : block % 2);
    }
    return y;
}

/* ---- codes without a sign: q + bias_of[format] */
static const uint8_t bias_of[CR_FORMATS] = {
    [CR_FORMAT_Q8_0] = 128, [CR_FORMAT_IQ4_NL] = 128, [CR_FORMAT_MXFP4] = 128, [CR_FORMAT_IQ4_XS] = 128,
    [CR_FORMAT_Q4_0] = 8,   [CR_FORMAT_Q5_0] = 16,    [CR_FORMAT_Q3_K] = 4,    [CR_FORMAT_Q6_K] = 32,
};

static const int8_t *table_of(cr_block_format format) {
    return format == CR_FORMAT_MXFP4 ? cr_mxfp4_values : cr_iq4_values;
}

/* Byte i of a lane of 16: byte index[i] of the same lane. */
static ALWAYS_INLINE vbyte bytes_at(vbyte x, vbyte index) {
#if CR_ISA == 4
    return (vbyte)_mm512_shuffle_epi8((__m512i)x, (__m512i)index);
#elif CR_ISA == 3
    return (vbyte)_mm256_shuffle_epi8((__m256i)x, (__m256i)index);
#elif CR_ISA == 2
    return (vbyte)_mm_shuffle_epi8((__m128i)x, (__m128i)index);
#elif defined __wasm_simd128__
    return (vbyte)wasm_i8x16_swizzle((v128_t)x, (v128_t)index);
#elif defined __aarch64__
    return (vbyte)vqtbl1q_u8((uint8x16_t)x, (uint8x16_t)index);
#else
    vbyte y;
    for (int i = 0; i < V_BYTES; i++) y[i] = x[index[i]];
    return y;
#endif
}

static ALWAYS_INLINE vbyte value_of(cr_block_format format, vuint q) {
    return bytes_at((vbyte)everywhere(quad_at((const uint8_t *)table_of(format))) + 128, (vbyte)q);
}

/* q, and 16 more where a bit is set: bit i of the two bytes from `first` on, of each block. */
static ALWAYS_INLINE vuint with_fifth(vuint q, const uint8_t *p, int first, int step) {
#ifdef CR_BYTES
    const __m512i bits = picked(p, first, step, 8), each = _mm512_set1_epi64((int64_t)0x8040201008040201u);
    return q | (vuint)_mm512_maskz_set1_epi8(_mm512_test_epi8_mask(bits, each), 16);
#else
    vbyte index = {0}, bit = {0};
    CR_UNROLL(64)
    for (int i = 0; i < V_BYTES; i++) {
        index[i] = (uint8_t)(first + i % 16 / 8);
        bit[i] = (uint8_t)(1 << i % 8);
    }
    const vbyte bits = bytes_at((vbyte)every(p, step), index) & bit;
    return q | ((vuint)(bits == bit) & 0x10101010u);
#endif
}

/* Bits 2 j and 2 j + 1 of block j become bits 4 and 5. */
static ALWAYS_INLINE vuint sixth_bits(vuint x, int part) {
    const vuint by = by_block(part, 0, 2);
    if (PARTS == 1) return (x >> by & 0x03030303) << 4;
    return (part < PARTS / 2 ? x << (4 - by) : x >> (by - 4)) & 0x30303030;
}

/* Part `part` of unit `unit` of a tile that begins at p. */
static ALWAYS_INLINE codes codes_of(cr_block_format format, const uint8_t *p, int unit, int part) {
    const int step = cr_formats[format].bytes;
    const uint32_t four = 0x0f0f0f0f, two = 0x03030303, one = 0x01010101;
    vuint a, b;
    if (cr_formats[format].block == 32) p += (4 * unit + part * BLOCKS) * step;
    switch (format) {
    case CR_FORMAT_Q8_0:
        return (codes){(vbyte)of_each(p, 2, step) ^ 128, (vbyte)of_each(p, 18, step) ^ 128};
    case CR_FORMAT_Q4_0: case CR_FORMAT_Q4_1: case CR_FORMAT_Q5_0: case CR_FORMAT_Q5_1:
    case CR_FORMAT_IQ4_NL: case CR_FORMAT_MXFP4: case CR_FORMAT_IQ4_XS: {
        const bool xs = format == CR_FORMAT_IQ4_XS;
        const vuint w = xs ? every(p + 8 + 64 * unit + 16 * BLOCKS * part, 16) : of_each(p, step - 16, step);
        a = w & four, b = w >> 4 & four;
        if (xs || format == CR_FORMAT_IQ4_NL || format == CR_FORMAT_MXFP4)
            return (codes){value_of(format, a), value_of(format, b)};
        if (format == CR_FORMAT_Q5_0 || format == CR_FORMAT_Q5_1) {
            a = with_fifth(a, p, step - 20, step);
            b = with_fifth(b, p, step - 18, step);
        }
        return (codes){(vbyte)a, (vbyte)b};
    }
    case CR_FORMAT_Q4_K: case CR_FORMAT_Q5_K: {
        const int64_t at = format == CR_FORMAT_Q4_K ? 16 : 48;
        const vuint by = by_two(part, false, 4);
        a = shared(p + at + 64 * unit, false, false, part) >> by & four;
        b = shared(p + at + 64 * unit, false, true, part) >> by & four;
        if (format == CR_FORMAT_Q5_K) {
            const vuint c = everywhere(quad_at(p + 16)), d = everywhere(quad_at(p + 32)), j = by_block(part, 0, 1);
            a |= (unit ? c >> j : c << (4 - j)) & 0x10101010;           /* bit 4 unit + j becomes bit 4 */
            b |= (unit ? d >> j : d << (4 - j)) & 0x10101010;
        }
        return (codes){(vbyte)a, (vbyte)b};
    }
    case CR_FORMAT_Q6_K: {
        const vuint by = by_two(part, true, 4);
        a = shared(p + 64 * unit, true, false, part) >> by & four;
        b = shared(p + 64 * unit, true, true, part) >> by & four;
        a |= sixth_bits(everywhere(quad_at(p + 128 + 32 * unit)), part);
        b |= sixth_bits(everywhere(quad_at(p + 144 + 32 * unit)), part);
        return (codes){(vbyte)a, (vbyte)b};
    }
    default: {                                      /* Q2_K, Q3_K */
        const int64_t at = (format == CR_FORMAT_Q2_K ? 16 : 32) + 32 * unit;
        const vuint by = by_block(part, 0, 2), bit = by_block(part, 4 * (uint32_t)unit, 1);
        a = everywhere(quad_at(p + at)) >> by & two;
        b = everywhere(quad_at(p + at + 16)) >> by & two;
        if (format == CR_FORMAT_Q3_K) {
            a |= (everywhere(quad_at(p)) >> bit & one) << 2;
            b |= (everywhere(quad_at(p + 16)) >> bit & one) << 2;
        }
        return (codes){(vbyte)a, (vbyte)b};
    }
    }
}

#ifndef CR_BYTES
/* Codes as 16-bit numbers: of even bytes, of odd ones.  Of Q4_K those of blocks 1 and 3 are 16 times as large. */
typedef struct shorts { vshort a[2], b[2]; } shorts;
static ALWAYS_INLINE shorts shorts_of(cr_block_format format, const uint8_t *p, int unit, int part) {
    if (format == CR_FORMAT_Q4_0 || format == CR_FORMAT_Q4_1) {
        const int step = cr_formats[format].bytes;
        const vushort w = (vushort)of_each(p + (4 * unit + part * BLOCKS) * step, step - 16, step);
        return (shorts){{(vshort)(w & 15), (vshort)(w >> 8 & 15)}, {(vshort)(w >> 4 & 15), (vshort)(w >> 12)}};
    }
    if (format == CR_FORMAT_Q4_K) {
        const vushort in = (vushort)(0x000f000fu << by_two(part, false, 4)),
                      a = (vushort)shared(p + 16 + 64 * unit, false, false, part),
                      b = (vushort)shared(p + 16 + 64 * unit, false, true, part);
        return (shorts){{(vshort)(a & in), (vshort)(a >> 8 & in)}, {(vshort)(b & in), (vshort)(b >> 8 & in)}};
    }
    const codes c = codes_of(format, p, unit, part);
    const vushort a = (vushort)c.a, b = (vushort)c.b;
    return (shorts){{(vshort)(a & 255), (vshort)(a >> 8)}, {(vshort)(b & 255), (vshort)(b >> 8)}};
}
#endif

/* ---- scales */
typedef struct scales { vec scale[2][PARTS][2], low[2][PARTS][2]; } scales;    /* [unit][part][half of a block] */
static inline vec low_half(vuint x) { return f16_widen(u_to_halves(x & 0xffff)); }
static inline vec high_half(vuint x) { return f16_widen(u_to_halves(x >> 16)); }
static inline vec number(vuint x) { return __builtin_convertvector((vint)x, vec); }  /* below 2^31 */

/* Words at `at` of the rows. */
static inline quad words_at(lines line, int64_t at) {
    quad y;
    for (int r = 0; r < LINES; r++) {
        uint32_t one;
        memcpy(&one, line[r] + at, sizeof one);
        y[r] = one;
    }
    return y;
}

/* h[i]: words at + 4 i of the rows */
static inline void four_words(quad h[4], lines line, int64_t at) {
    quad r[4];
    for (int i = 0; i < 4; i++) r[i] = quad_at(line[i] + at);
    transpose(h, r);
}

/* Lane 4 j + r: the first word of block j of row r; the first block of the part begins `at` bytes into the rows. */
static ALWAYS_INLINE vuint block_words(lines line, int64_t at, int step) {
#ifdef CR_BYTES
    const int apart = (int)cr_imin(64, 4 * step - 64);
    vuint y = {0};
    CR_UNROLL(4)
    for (int r = 0; r < LINES; r++) {
        vbyte index = {0};
        CR_UNROLL(16)
        for (int i = 0; i < 16; i++) {
            const int from = i / 4 * step + i % 4;
            index[i / 4 * 16 + 4 * r + i % 4] = (uint8_t)(from < 64 ? from : 64 + from - apart);
        }
        const __m512i low = _mm512_loadu_si512(line[r] + at), high = _mm512_loadu_si512(line[r] + at + apart);
        y |= (vuint)_mm512_maskz_permutex2var_epi8((__mmask64)0x000f000f000f000f << 4 * r, low, (__m512i)index, high);
    }
    return y;
#else
    vuint r[LINES];
    CR_UNROLL(4)
    for (int i = 0; i < LINES; i++) r[i] = every(line[i] + at, step);
#if CR_ISA == 4
    const __m512i *v = (const __m512i *)r;
    return (vuint)_mm512_unpacklo_epi64(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpacklo_epi32(v[2], v[3]));
#elif CR_ISA == 3
    const __m256i *v = (const __m256i *)r;
    return (vuint)_mm256_unpacklo_epi64(_mm256_unpacklo_epi32(v[0], v[1]), _mm256_unpacklo_epi32(v[2], v[3]));
#else
    return (vuint){r[0][0], r[1][0], r[2][0], r[3][0]};
#endif
#endif
}

#if CR_ISA == 3
/* The two bytes at `at` of each row. */
static inline uint64_t halves_of_rows(lines line, int64_t at) {
    uint64_t y = 0;
    for (int r = 0; r < LINES; r++) {
        uint16_t one;
        memcpy(&one, line[r] + at, sizeof one);
        y |= (uint64_t)one << 16 * r;
        __asm__("" : "+r"(y));                      /* GCC would take vectors */
    }
    return y;
}
#endif

/* of blocks of 32 */
static ALWAYS_INLINE void block_scales(cr_block_format format, scales *s, lines line, int64_t from, int unit,
                                       int part) {
    const int step = cr_formats[format].bytes;
    from += (4 * unit + part * BLOCKS) * step;
    if (format == CR_FORMAT_MXFP4) {                /* 2^(byte - 128): the values are doubled */
        const vuint e = block_words(line, from, step) & 255, tiny = (vuint)(e < 2u);
        s->scale[unit][part][0] = (vec)((tiny & 0x00200000u << (e & 1)) | (~tiny & (e - 1) << 23));
        return;
    }
#if CR_ISA == 3
    if (!cr_formats[format].low) {                  /* by loads of whole numbers, of which there are more each cycle */
        const uint64_t first = halves_of_rows(line, from), second = halves_of_rows(line, from + step);
        s->scale[unit][part][0] = f16_widen((vhalf)_mm_set_epi64x((int64_t)second, (int64_t)first));
        return;
    }
#endif
    const vuint w = block_words(line, from, step);
    s->scale[unit][part][0] = low_half(w);
    if (cr_formats[format].low) s->low[unit][part][0] = high_half(w);
}

/* Reads the scales of `units` units, one or two.  They begin `at` bytes into the rows; two are one tile of 256. */
static ALWAYS_INLINE void scales_of(cr_block_format format, scales *s, lines line, int64_t at, int units) {
    quad h[4];
    CR_UNROLL(2)
    for (int u = 0; u < units; u++)
        CR_UNROLL(4)
        for (int p = 0; p < PARTS; p++) {
            const vuint byte = by_block(p, 0, 8);
            switch (format) {
            case CR_FORMAT_Q4_K: case CR_FORMAT_Q5_K: {         /* 8 scales and 8 offsets of 6 bits in h[1..3] */
                if (!u && !p) four_words(h, line, at);
                const quad scale = u ? (h[3] & 0x0f0f0f0f) | (h[1] >> 6 & 0x03030303) << 4 : h[1];
                const quad low = u ? (h[3] >> 4 & 0x0f0f0f0f) | (h[2] >> 6 & 0x03030303) << 4 : h[2];
                const vuint d = everywhere(h[0]);
                vec first = low_half(d);
#ifndef CR_BYTES                                    /* as shorts_of */
                if (format == CR_FORMAT_Q4_K) first *= (vec)(0x3f800000u - by_two(p, false, 4u << 23));
#endif
                s->scale[u][p][0] = first * number(everywhere(scale) >> byte & 63);
                s->low[u][p][0] = -(high_half(d) * number(everywhere(low) >> byte & 63));
                break;
            }
            case CR_FORMAT_IQ4_XS: {                /* the high two bits of 8 scales, their low four: scale - 32 */
                const vuint first = everywhere(words_at(line, at)), low = everywhere(words_at(line, at + 4));
                const vuint q = (low >> by_block(p, 16 * (uint32_t)u, 4) & 15) |
                                (first >> by_block(p, 16 + 8 * (uint32_t)u, 2) & 3) << 4;
                s->scale[u][p][0] = low_half(first) * to_float((vint)q - 32);
                break;
            }
            case CR_FORMAT_Q6_K: {                  /* bytes with a sign, two for each block */
                if (!u && !p) four_words(h, line, at + 192);
                const vec d = low_half(everywhere(words_at(line, at + 206)) >> 16);
                const vuint w = halves_of(h[2 * u], h[2 * u + 1], p), by = by_two(p, false, 16);
                s->scale[u][p][0] = d * to_float((vint)(w << (24 - by)) >> 24);
                s->scale[u][p][1] = d * to_float((vint)(w << (16 - by)) >> 24);
                break;
            }
            case CR_FORMAT_Q2_K: {                  /* bytes: scale, offset */
                if (!u && !p) four_words(h, line, at);
                const vuint dm = everywhere(words_at(line, at + 80));
                const vuint w = halves_of(h[2 * u], h[2 * u + 1], p) >> by_two(p, false, 16);
                s->scale[u][p][0] = low_half(dm) * number(w & 15);
                s->scale[u][p][1] = low_half(dm) * number(w >> 8 & 15);
                s->low[u][p][0] = -(high_half(dm) * number(w >> 4 & 15));
                s->low[u][p][1] = -(high_half(dm) * number(w >> 12 & 15));
                break;
            }
            case CR_FORMAT_Q3_K: {                  /* 16 scales of 6 bits, + 32, in 12 bytes: low four, high two */
                const quad low[2] = {words_at(line, at + 96), words_at(line, at + 100)};
                const vuint by = by_two(p, false, 16) + 4 * (uint32_t)u;
                const vuint a = halves_of(low[0], low[1], p) >> by;
                const vuint b = everywhere(words_at(line, at + 104)) >> (by + by_two(p, true, 2));
                const vec d = low_half(everywhere(words_at(line, at + 106)) >> 16);
                CR_UNROLL(2)
                for (int half = 0; half < 2; half++) {
                    const vuint q = (a >> 8 * half & 15) | (b >> 8 * half & 3) << 4;
                    s->scale[u][p][half] = d * to_float((vint)q - 32);
                }
                break;
            }
            default: block_scales(format, s, line, at, u, p);
            }
        }
}

#endif
