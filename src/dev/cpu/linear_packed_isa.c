/* linear_packed_isa.c - y[m, n] = sum over k of x[m, k] w[n, k], w (N, K) in a packed format (linear_packed.h).  For
 * one row of x limited by the bytes of w, for many by integer products.
 *
 * linear_packed_bytes.c compiles this text too, with CR_BYTES: by AVX-512's vpdpbusd, sums of four products of bytes
 * without sign and with one.  There q is 256 high + low, both bytes with a sign, and codes are taken with a bias
 * (bias_of).  The integers are the same. */
#include "linear_packed.h"
#include "format_tiles.h"
#include "../../core/ints.h"

enum {
    MOST_Q = 32512,                                 /* of q: 127 x 256, so that its two bytes have a sign each */
    ACROSS = 2,                                     /* vectors of rows of w at a time, which share the loads of x */
    ROWS = 4,                                       /* of x at a time, which share the loads of codes */
    FAR = 2048,                                     /* bytes from rows that follow to those that are fetched */
    PAGES = 16384                                   /* bytes from those to a page that is fetched next */
};

static inline vint v_words(int32_t x) { return x + (vint){0}; }

#ifdef CR_BYTES
/* a + of each lane the sum of its four bytes of `code` times those of x */
static ALWAYS_INLINE vint add_fours(vint a, vbyte code, vint x) {
    return (vint)_mm512_dpbusd_epi32((__m512i)a, (__m512i)code, (__m512i)x);
}
#endif

/* ---- x */

/* 16 neighbours as the words that kernels read. */
static ALWAYS_INLINE void put_half(int32_t first[4], int32_t second[4], const int32_t q[16]) {
#ifdef CR_BYTES
    int8_t high[16], low[16];
    for (int i = 0; i < 16; i++) {
        high[i] = (int8_t)((q[i] + 128) >> 8);
        low[i] = (int8_t)(q[i] & 255);              /* q - 256 high */
    }
    memcpy(first, high, sizeof high);
    memcpy(second, low, sizeof low);
#else                                               /* the even ones, the odd ones */
    for (int i = 0; i < 4; i++) {
        first[i] = (int32_t)((uint32_t)(q[4 * i] & 0xffff) | (uint32_t)q[4 * i + 2] << 16);
        second[i] = (int32_t)((uint32_t)(q[4 * i + 1] & 0xffff) | (uint32_t)q[4 * i + 3] << 16);
    }
#endif
}

static inline vint plus(vint a, vint b) { return a + b; }
static ALWAYS_INLINE int32_t sum_of_16(const int32_t *q) {
    vint sum = {0};
    CR_UNROLL(4)
    for (int k = 0; k < 16; k += V) sum += (vint)LOAD((const float *)(const void *)(q + k));
    FOLD_LANES(vint, V, sum, plus);
    return sum[0];
}

/* block b of a unit */
static void prepare_block(cr_packed_x *to, int b, const float *x, int group, int32_t bias) {
    uint32_t most = 0;                              /* as bits, which puts NaN above infinity */
    for (int k = 0; k < 32; k++) {
        uint32_t bits;
        memcpy(&bits, x + k, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float size;
    memcpy(&size, &most, sizeof size);
    const float scale = isfinite(size) ? size / MOST_Q : NAN;      /* where f32 would give infinities */
    for (int i = 4 * b; i < 4 * b + 4; i++) {
        to->scale[i] = scale;
        if (!isfinite(size)) to->sum[0][i] = to->sum[1][i] = NAN;
    }
    if (!(size >= 0x1p-100f && isfinite(size))) return;            /* so small that products vanish */
    const float inverse = MOST_Q / size;
    int32_t q[32], sum[2];
    for (int k = 0; k < 32; k++) q[k] = (int32_t)rintf(x[k] * inverse);
    for (int half = 0; half < 2; half++) {
        put_half(&to->q[0][half][4 * b], &to->q[1][half][4 * b], q + 16 * half);
        sum[half] = sum_of_16(q + 16 * half);
    }
    if (group == 32) sum[0] += sum[1];
    for (int i = 0; i < 8; i++) {
        to->sum[i / 4][4 * b + i % 4] = scale * (float)sum[i / 4];
        to->zero[i / 4][4 * b + i % 4] = -bias * sum[i / 4];
    }
}

static void prepare(int format, cr_packed_x *to, const float *x, int64_t K) {
    memset(to, 0, (size_t)cr_pieces(K, CR_PACKED_TILE) * (CR_PACKED_TILE / CR_PACKED_UNIT) * sizeof *to);
    for (int64_t k = 0; k < K; k += 32)
        prepare_block(to + k / UNIT, (int)(k % UNIT) / 32, x + k, cr_formats[format].group, bias_of[format]);
}

/* The rows behind these are fetched in the order of memory, as fast as these.  Unrolled, the loop was slower.  Pages of
 * a mapped file have 4 kB: their addresses are translated well before (a plain loop over a file: 18 -> 40 GB/s). */
static inline const uint8_t *fetched(const uint8_t *next, int64_t bytes) {
    __builtin_prefetch(next + PAGES);
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i);
    return next + bytes;
}

/* Else GCC computes all products first and has no registers for them. */
static ALWAYS_INLINE vint in_register(vint x) {
#if CR_ISA && defined __GNUC__
    __asm__("" : "+x"(x));
#endif
    return x;
}

/* ---- one row of x */
#ifdef __EMSCRIPTEN__                               /* `rows` has the same sums, is as fast, and less to download */
#define ONE_ROW NULL
#else
#define ONE_ROW row

/* y[half]: of the codes of a part a sum for each four of them; whole: y[0] of both halves.  x: [word][half] */
static ALWAYS_INLINE void products(cr_block_format format, const uint8_t *p, int unit, int part, vint x[2][2],
                                   bool whole, vint y[2]) {
#ifdef CR_BYTES
    const codes code = codes_of(format, p, unit, part);
    const vint none = {0}, first = add_fours(none, code.a, x[0][0]);
    vint sum = add_fours(whole ? first : none, code.b, x[0][1]) << 8;
    if (whole) sum = add_fours(sum, code.a, x[1][0]);
    else y[0] = add_fours(first << 8, code.a, x[1][0]);
    y[whole ? 0 : 1] = add_fours(sum, code.b, x[1][1]);
#else
    const shorts c = shorts_of(format, p, unit, part);
    y[0] = pairs(c.a[0], (vshort)x[0][0]) + pairs(c.a[1], (vshort)x[1][0]);
    y[1] = pairs(c.b[0], (vshort)x[0][1]) + pairs(c.b[1], (vshort)x[1][1]);
    if (whole) y[0] += y[1];
#endif
}

/* Lane 4 j + r: the sum of the four lanes of block j of a[r]. */
static ALWAYS_INLINE vint sums_of_four(const vint a[LINES]) {
#if CR_ISA == 4
    const __m512i *v = (const __m512i *)a;
    const __m512i p = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1])),
                  q = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return (vint)_mm512_add_epi32(_mm512_unpacklo_epi64(p, q), _mm512_unpackhi_epi64(p, q));
#elif CR_ISA == 3
    const __m256i *v = (const __m256i *)a;
    return (vint)_mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
#elif CR_ISA == 2
    const __m128i *v = (const __m128i *)a;
    return (vint)_mm_hadd_epi32(_mm_hadd_epi32(v[0], v[1]), _mm_hadd_epi32(v[2], v[3]));
#else
    quad t[4];
    transpose(t, (const quad *)a);
    return (vint)(t[0] + t[1] + t[2] + t[3]);
#endif
}

static ALWAYS_INLINE void add_part(cr_block_format format, vec *sum, lines line, int64_t at, int unit, int part,
                                   const scales *s, const cr_packed_x *x) {
    const int halves = 32 / cr_formats[format].group;
    vint q[2][LINES], of[2][2];
    CR_UNROLL(4)
    for (int i = 0; i < 4; i++) of[i / 2][i % 2] = in_register(((const vint *)(const void *)x->q[i / 2][i % 2])[part]);
    CR_UNROLL(4)
    for (int r = 0; r < LINES; r++) {
        vint y[2];
        products(format, line[r] + at, unit, part, of, halves == 1, y);
        for (int half = 0; half < halves; half++) q[half][r] = in_register(y[half]);
    }
    CR_UNROLL(2)
    for (int half = 0; half < halves; half++) {
        vint all = sums_of_four(q[half]);
        if (bias_of[format]) all += ((const vint *)(const void *)x->zero[half])[part];
        const vec scale = s->scale[unit][part][half] * LOAD(x->scale + part * V);
        *sum = v_fma(to_float(all), scale, *sum);
        if (cr_formats[format].low)
            *sum = v_fma(s->low[unit][part][half], LOAD(x->sum[half] + part * V), *sum);
    }
}

static ALWAYS_INLINE void add_tile(cr_block_format format, vec sum[PARTS], lines line, int64_t at,
                                   const cr_packed_x *x) {
    scales s;
    scales_of(format, &s, line, at, 2);
    CR_UNROLL(2)
    for (int u = 0; u < 2; u++)
        CR_UNROLL(4)
        for (int p = 0; p < PARTS; p++) add_part(format, &sum[p], line, at, u, p, &s, x + u);
}

/* A unit of blocks of 32, of which `blocks` belong to the rows.  All are read; x is zero there. */
static ALWAYS_INLINE void add_unit(cr_block_format format, vec sum[PARTS], lines line, int64_t at,
                                   const cr_packed_x *x, int blocks) {
    scales s;
    scales_of(format, &s, line, at, 1);
    if (blocks < 4)                                 /* those behind may be infinite */
        for (int p = 0; p < PARTS; p++) {
            const vuint in = (vuint)(by_block(p, 0, 1) < (uint32_t)blocks);
            s.scale[0][p][0] = (vec)((vuint)s.scale[0][p][0] & in);
            if (cr_formats[format].low) s.low[0][p][0] = (vec)((vuint)s.low[0][p][0] & in);
        }
    CR_UNROLL(4)
    for (int p = 0; p < PARTS; p++) add_part(format, &sum[p], line, at, 0, p, &s, x);
}

/* behind: the end of w */
static ALWAYS_INLINE void four_lines(cr_block_format format, float y[LINES], lines line, int64_t K,
                                     const cr_packed_x *x, const uint8_t *next, const uint8_t *behind) {
    const cr_format_traits *f = &cr_formats[format];
    const int64_t bytes = TILE / f->block * f->bytes, unit = bytes / 2;
    vec sum[PARTS] = {{0}};
    int64_t k = 0, at = 0;
    const bool tiles = f->block == TILE || CR_ISA != 2;            /* v2: code that is half as long is as fast */
    for (; tiles && k + TILE <= K; k += TILE, at += bytes) {
        next = fetched(next, LINES * bytes);
        add_tile(format, sum, line, at, x + k / UNIT);
    }
    uint8_t last[LINES][4 * 34];
    const uint8_t *from[LINES];
    for (; f->block == 32 && k < K; k += UNIT, at += unit) {
        const int blocks = (int)cr_imin(4, (K - k) / 32);
        next = fetched(next, LINES * unit);
        for (int r = 0; r < LINES; r++) {
            from[r] = line[r] + at;
            if (behind - from[r] >= unit) continue;
            memset(last[r], 0, sizeof last[r]);
            from[r] = memcpy(last[r], from[r], (size_t)(blocks * f->bytes));
        }
        add_unit(format, sum, from, 0, x + k / UNIT, blocks);
    }
    float chain[CR_PACKED_CHAINS][LINES];
    memcpy(chain, sum, sizeof chain);
    for (int r = 0; r < LINES; r++) y[r] = (chain[0][r] + chain[2][r]) + (chain[1][r] + chain[3][r]);
}

static ALWAYS_INLINE void all_lines(cr_block_format format, float *y, const uint8_t *w, int64_t line, int64_t N,
                                    int64_t K, const cr_packed_x *x) {
    const uint8_t *behind = w + (N - 1) * line + K / cr_formats[format].block * cr_formats[format].bytes;
    for (int64_t n = 0; n < N; n += LINES) {
        const uint8_t *row[LINES];
        float some[LINES];
        for (int r = 0; r < LINES; r++) row[r] = w + cr_imin(n + r, N - 1) * line;
        four_lines(format, some, row, K, x, w + (n + LINES) * line + FAR, behind);
        memcpy(y + n, some, (size_t)cr_imin(LINES, N - n) * sizeof *y);
    }
}

static void row(int format, float *y, const uint8_t *w, int64_t line, int64_t N, int64_t K, const cr_packed_x *x) {
#define CASE(format) case format: all_lines(format, y, w, line, N, K, x); return
    switch (format) {
    CASE(CR_FORMAT_Q8_0); CASE(CR_FORMAT_Q4_0); CASE(CR_FORMAT_Q4_1); CASE(CR_FORMAT_Q5_0); CASE(CR_FORMAT_Q5_1);
    CASE(CR_FORMAT_IQ4_NL); CASE(CR_FORMAT_MXFP4); CASE(CR_FORMAT_Q2_K); CASE(CR_FORMAT_Q3_K); CASE(CR_FORMAT_Q4_K);
    CASE(CR_FORMAT_Q5_K); CASE(CR_FORMAT_Q6_K); CASE(CR_FORMAT_IQ4_XS);
    }
#undef CASE
}
#endif

/* ---- many rows of x */

/* ACROSS vectors of rows of w, which share the loads of x */
typedef struct panel {
    tile t[ACROSS];
#ifndef CR_BYTES
    vshort q[TILE / 4][ACROSS][2];                  /* even codes, odd ones */
#endif
} panel;

static void widen(panel *p, int blocks) {
#ifndef CR_BYTES
    for (int i = 0; i < 8 * blocks; i++)
        CR_UNROLL(2)
        for (int n = 0; n < ACROSS; n++) {
            p->q[i][n][0] = (vshort)((vushort)p->t[n].q[i] << 8) >> 8;
            p->q[i][n][1] = (vshort)p->t[n].q[i] >> 8;
        }
#else
    (void)p, (void)blocks;
#endif
}

/* y (R, chains, ACROSS, V) += a group of codes times R rows of x, `step` units apart; half: of the block, where groups
 * have 16 */
static ALWAYS_INLINE void add_group(int R, int group, bool low, const panel *w, int at, int block, int half,
                                    const cr_packed_x *x, int64_t step, float *y) {
    vint a[2][ROWS * ACROSS];
    CR_UNROLL(8)
    for (int i = 0; i < R * ACROSS; i++) {
        a[0][i] = (vint){0};
#ifdef CR_BYTES
        a[1][i] = v_words(x[i / ACROSS * step].zero[half][4 * block]);
#endif
    }
    CR_UNROLL(8)
    for (int k = 0; k < group / 4; k++)
        CR_UNROLL(2)
        for (int word = 0; word < 2; word++)
            CR_UNROLL(8)
            for (int i = 0; i < R * ACROSS; i++) {
                const vint q = v_words(x[i / ACROSS * step].q[word][half + k / 4][4 * block + k % 4]);
#ifdef CR_BYTES
                a[word][i] = add_fours(a[word][i], w->t[i % ACROSS].q[at * (group / 4) + k], q);
#else
                const vshort code = w->q[at * (group / 4) + k][i % ACROSS][word];
                a[0][i] = in_register(a[0][i] + pairs(code, (vshort)q));
#endif
            }
    CR_UNROLL(8)
    for (int i = 0; i < R * ACROSS; i++) {
        const cr_packed_x *of = x + i / ACROSS * step;
        float *to = y + (i / ACROSS * CR_PACKED_CHAINS * ACROSS + i % ACROSS) * V;
#ifdef CR_BYTES
        a[0][i] = (a[0][i] << 8) + a[1][i];
#endif
        vec sum = v_fma(to_float(a[0][i]), w->t[i % ACROSS].scale[at] * v_k(of->scale[4 * block]), LOAD(to));
        if (low) sum = v_fma(w->t[i % ACROSS].low[at], v_k(of->sum[half][4 * block]), sum);
        STORE(to, sum);
    }
}

static ALWAYS_INLINE void add_rows(int R, int group, bool low, const panel *w, int blocks, const cr_packed_x *x,
                                   int64_t step, float *y) {
    for (int b = 0; b < blocks; b++) {
        const int chain = b % CR_PACKED_CHAINS;
        for (int half = 0; half < 32 / group; half++)
            add_group(R, group, low, w, 32 / group * b + half, chain, half, x + b / 4, step, y + chain * ACROSS * V);
    }
}

static ALWAYS_INLINE void add_panel(int group, bool low, const panel *w, int blocks, const cr_packed_x *x, int64_t step,
                                    int64_t M, float *y) {
    enum { EACH = CR_PACKED_CHAINS * ACROSS * V };
    int64_t m = 0;
    for (; m + ROWS <= M; m += ROWS) add_rows(ROWS, group, low, w, blocks, x + m * step, step, y + m * EACH);
    for (; m < M; m++) add_rows(1, group, low, w, blocks, x + m * step, step, y + m * EACH);
}

static void rows(int format, float *y, const uint8_t *const *row, int64_t K, const cr_packed_x *x, int64_t M) {
    const cr_format_traits *f = &cr_formats[format];
    panel p;
    const uint8_t *next = row[ACROSS * V - 1] + K / f->block * f->bytes;
    const int64_t bytes = TILE / f->block * f->bytes, step = cr_pieces(K, TILE) * (TILE / UNIT);
    for (int64_t k = 0; k < K; k += TILE) {
        const int blocks = (int)cr_imin(TILE, K - k) / 32;
        const cr_packed_x *from = x + k / UNIT;
        const int64_t at = k / f->block * f->bytes;
        next = fetched(next, ACROSS * V * bytes);
        for (int n = 0; n < ACROSS; n++) tile_of[format](&p.t[n], row + n * V, at, blocks);
        widen(&p, blocks);
        if (f->group == 16 && f->low) add_panel(16, true, &p, blocks, from, step, M, y);
        else if (f->group == 16) add_panel(16, false, &p, blocks, from, step, M, y);
        else if (f->low) add_panel(32, true, &p, blocks, from, step, M, y);
        else add_panel(32, false, &p, blocks, from, step, M, y);
    }
}

#ifdef CR_BYTES
const struct cr_packeds cr_packeds_bytes = {ACROSS * V, prepare, row, rows, NULL};
#else

/* ---- to floats: two roundings, of the product and of the sum, as other readers have them */
static void unpack(int format, float *y, const uint8_t *const *row, int64_t N, int64_t K) {
    const cr_format_traits *f = &cr_formats[format];
    tile t;
    for (int64_t k = 0; k < K; k += TILE) {
        const int n = (int)cr_imin(TILE, K - k);
        for (int64_t r = 0; r < N; r++) {
            if (r % V == 0) tile_of[format](&t, row + r, k / f->block * f->bytes, n / 32);
            for (int i = 0; i < n; i++) {
                const int8_t code = (int8_t)((const uint8_t *)&t.q[i / 4])[4 * (r % V) + i % 4];
                const float w = t.scale[i / f->group][r % V] * (float)code;
                y[r * K + k + i] = f->low ? w + t.low[i / f->group][r % V] : w;
            }
        }
    }
}

const struct cr_packeds CR_ISA_NAME(cr_packeds) = {ACROSS * V, prepare, ONE_ROW, rows, unpack};
#endif
