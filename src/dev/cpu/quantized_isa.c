/* quantized_isa.c - y[n] = sum over k of x[k] w[n, k] for weights of 4 or 8 bits, one row of x at a time (quantized.h).
 * Limited by the bytes of the codes: bench/memory, bench/products. */
#include "../../core/dtype.h"
#include "quantized.h"
#include "pairs.h"

typedef uint16_t vushort_at __attribute__((vector_size(V_BYTES), aligned(1), may_alias));
typedef int16_t vshort_at __attribute__((vector_size(V_BYTES), aligned(2), may_alias));
enum {
    S = V_BYTES / 2,                                /* lanes of 16 bits */
    UNIT = 2 * V_BYTES,                             /* codes of 4 bits in a vector */
    MOST_GROUPS = 64,                               /* groups of a row at a time */
    ROWS = 4                                        /* of w at a time */
};
_Static_assert(CR_QUANTIZED_UNIT % (4 * V_BYTES / 2) == 0, "a unit holds whole vectors");

#if CR_ISA == 4
static inline vshort widened(const uint8_t *p) {
    return (vshort)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
}
#elif CR_ISA == 3
static inline vshort widened(const uint8_t *p) {
    return (vshort)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u *)(const void *)p));
}
#elif CR_ISA == 2
static inline vshort widened(const uint8_t *p) {
    return (vshort)_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i_u *)(const void *)p));
}
#else
static inline vshort widened(const uint8_t *p) {
    vshort y;
    for (int i = 0; i < S; i++) y[i] = (int16_t)(int8_t)p[i];
    return y;
}
#endif

static inline vshort q_at(const int16_t *q) { return (vshort)*(const vshort_at *)q; }

/* V scales as floats; there are n, the others become 0.  Parts of a vector go into it by moves of a fixed size: one
 * through memory would wait for the store. */
#if CR_ISA == 4
static inline vec scales_at(const uint16_t *p, int64_t n) {
    return (vec)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)(n < V ? (1u << n) - 1 : 0xffff), p));
}
#elif CR_ISA == 3
static inline __m128i halves_4(const uint16_t *p, int64_t n) {          /* n < 4 */
    int32_t two = 0;
    if (n & 2) memcpy(&two, p, sizeof two);
    const __m128i x = _mm_cvtsi32_si128(two);
    return !(n & 1) ? x : n & 2 ? _mm_insert_epi16(x, p[2], 2) : _mm_insert_epi16(x, p[0], 0);
}
static inline vec scales_at(const uint16_t *p, int64_t n) {
    const __m128i_u *at = (const __m128i_u *)(const void *)p;
    if (n >= V) return (vec)_mm256_cvtph_ps(_mm_loadu_si128(at));
    if (n < 4) return (vec)_mm256_cvtph_ps(halves_4(p, n));
    return (vec)_mm256_cvtph_ps(_mm_unpacklo_epi64(_mm_loadl_epi64(at), halves_4(p + 4, n - 4)));
}
#else
static inline vec scales_at(const uint16_t *p, int64_t n) {
    vec y = {0};
    for (int i = 0; i < V && i < n; i++) y[i] = cr_f16_to_f32(p[i]);
    return y;
}
#endif

/* ---- x */

/* The position of code k of a group's first code among the q of 4 bits: a vector of UNIT codes becomes four, of the
 * low and high halves of its even bytes, then of its odd ones. */
static int64_t index_of(int64_t k) {
    const int64_t unit = k / UNIT, byte = k % UNIT / 32 * 16 + k % 16;
    return unit * UNIT + (2 * (byte % 2) + (k % 32 >= 16)) * S + byte / 2;
}

static void quantize_row(const cr_quantized_shape *s, const cr_quantized_row *to, const float *x) {
    const int64_t whole = (s->K + CR_QUANTIZED_UNIT - 1) / CR_QUANTIZED_UNIT * CR_QUANTIZED_UNIT, groups = s->K / s->G;
    int16_t *all = to->q;
    memset(all, 0, (size_t)whole * sizeof *all);
    for (int64_t g = 0; g < (groups + 15) / 16 * 16; g++) {
        const float *from = x + g * s->G;
        uint32_t most = 0;                          /* as bits, which puts NaN above infinity */
        int32_t sum = 0;
        to->scale[g] = to->offset[g] = 0;
        if (g >= groups) continue;
        for (int64_t k = 0; k < s->G; k++) {
            uint32_t bits;
            memcpy(&bits, from + k, sizeof bits);
            bits &= 0x7fffffff;
            most = bits > most ? bits : most;
        }
        float size;
        memcpy(&size, &most, sizeof size);
        to->scale[g] = size / CR_QUANTIZED_MOST;
        if (!isfinite(size)) to->scale[g] = NAN;    /* where f32 would give infinities, or NaN */
        if (!(size >= 0x1p-100f && isfinite(size))) continue;        /* so small that products vanish */
        const float inverse = CR_QUANTIZED_MOST / size;
        for (int64_t k = 0; k < s->G; k++) {
            const int32_t q = (int32_t)rintf(from[k] * inverse);
            const int64_t at = g * s->G + k;
            all[s->eight ? at : index_of(at)] = (int16_t)q;
            sum += q;
        }
        to->offset[g] = s->eight ? 0 : -8 * (float)sum;
    }
}

/* ---- rows of w: R at a time, a constant, which share the loads of q; a row's bits do not depend on R.  codes: of the
 * first row, the next one `line` bytes behind; next: to fetch. */
typedef float row_scale[MOST_GROUPS + 4];           /* zeros behind the last */

/* t[g] = w's scale times x's; sum += t[g] offset[g]. */
static inline vec row_scales(float *t, const uint16_t *scales, const float *of_x, const float *offset, int64_t n) {
    vec sum = {0};
    for (int64_t g = 0; g < n; g += V) {
        const vec both = scales_at(scales + g, n - g) * LOAD(of_x + g);
        STORE(t + g, both);
        sum = v_fma(both, LOAD(offset + g), sum);
    }
    return sum;
}

static inline void add_8(int R, vec *sum, row_scale *t, const uint8_t *codes, int64_t line,
                         const uint8_t *next, const int16_t *q, int64_t groups, int64_t G) {
    for (int64_t g = 0; g < groups; g++) {
        vint a[ROWS] = {{0}};
        next = cr_quantized_fetch(next, R * G);
        for (int64_t k = 0; k < G; k += S) {
            const vshort x = q_at(q + k);
            for (int r = 0; r < R; r++) a[r] += pairs(widened(codes + r * line + k), x);
        }
        for (int r = 0; r < R; r++) sum[r] = v_fma(to_float(a[r]), v_k(t[r][g]), sum[r]);
        codes += G;
        q += G;
    }
}

typedef struct unit_x { vshort q[4]; } unit_x;
static inline unit_x x_at(const int16_t *q) {
    return (unit_x){{q_at(q), q_at(q + S), q_at(q + 2 * S), q_at(q + 3 * S)}};
}

static inline vint unit_4(vushort w, const unit_x *x) {
    const vint a = pairs((vshort)(w & 15), x->q[0]) + pairs((vshort)(w >> 4 & 15), x->q[1]);
    const vint b = pairs((vshort)(w >> 8 & 15), x->q[2]) + pairs((vshort)(w >> 12), x->q[3]);
    return a + b;
}

/* groups of whole units */
static inline void add_4(int R, vec *sum, row_scale *t, const uint8_t *codes, int64_t line,
                         const uint8_t *next, const int16_t *q, int64_t groups, int64_t G) {
    for (int64_t g = 0; g < groups; g++) {
        vint a[ROWS] = {{0}};
        next = cr_quantized_fetch(next, R * G / 2);
        for (int64_t k = 0; k < G; k += UNIT) {
            const unit_x x = x_at(q + k);
            for (int r = 0; r < R; r++) a[r] += unit_4(*(const vushort_at *)(codes + r * line + k / 2), &x);
        }
        for (int r = 0; r < R; r++) sum[r] = v_fma(to_float(a[r]), v_k(t[r][g]), sum[r]);
        codes += G / 2;
        q += G;
    }
}

/* Equal lanes for each scale: four for a block of 32 codes, eight for a group of 64. */
static inline vec unit_scales(const float *t, int64_t blocks) {
#if CR_ISA == 4
    const __m512i one = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0),
                  two = _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    return (vec)_mm512_permutexvar_ps(blocks == 2 ? two : one, _mm512_castps128_ps512(_mm_loadu_ps(t)));
#elif CR_ISA == 3
    (void)blocks;
    return (vec)_mm256_set_m128(_mm_broadcast_ss(t + 1), _mm_broadcast_ss(t));
#else
    (void)blocks;
    return v_k(t[0]);
#endif
}

/* The codes of n blocks of 32, fewer than a unit; zeros behind. */
static inline vushort last_codes(const uint8_t *p, int64_t n) {
#if CR_ISA == 4
    return (vushort)_mm512_maskz_loadu_epi32((__mmask16)((1u << 4 * n) - 1), p);
#elif CR_ISA == 3
    (void)n;
    return (vushort)_mm256_zextsi128_si256(_mm_loadu_si128((const __m128i_u *)(const void *)p));
#else
    vushort w = {0};
    memcpy(&w, p, (size_t)(16 * n));
    return w;
#endif
}

/* n blocks of 32, of groups that share units; t: one for `blocks` of them */
static inline void add_4_shared(int R, vec *sum, row_scale *t, const uint8_t *codes, int64_t line,
                                const uint8_t *next, const int16_t *q, int64_t n, int64_t blocks) {
    enum { EACH = UNIT / 32 };
    for (int64_t b = 0; b < n; b += EACH) {
        const unit_x x = x_at(q + 32 * b);
        const bool whole = b + EACH <= n;
        next = cr_quantized_fetch(next, R * UNIT / 2);
        for (int r = 0; r < R; r++) {
            const uint8_t *at = codes + r * line + 16 * b;
            const vushort w = whole ? (vushort)*(const vushort_at *)at : last_codes(at, n - b);
            sum[r] = v_fma(to_float(unit_4(w, &x)), unit_scales(t[r] + b / blocks, blocks), sum[r]);
        }
    }
}

/* The scales of n groups as those of their blocks of 32, and zeros up to a unit; in place. */
static void spread(float *t, int64_t n, int64_t blocks) {
    for (int i = 0; i < 3; i++) t[n * blocks + i] = 0;
    for (int64_t i = n * blocks - 1; i >= 0; i--) t[i] = t[i / blocks];
}

static inline void some_rows(int R, const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales,
                             const cr_quantized_row *x) {
    const int64_t groups = s->K / s->G, line = s->eight ? s->K : s->K / 2;
    _Alignas(64) row_scale t[ROWS];
    vec sum[ROWS] = {{0}};
    const bool odd = !s->eight && s->G % UNIT && s->G != 32 && !(s->G == 64 && UNIT == 128);
    const int64_t most = odd ? MOST_GROUPS / 4 : MOST_GROUPS;           /* at most 4 blocks in a group */
    for (int64_t g = 0; g < groups; g += most) {
        const int64_t n = cr_imin(most, groups - g), at = g * s->G;
        const int16_t *q = (const int16_t *)x->q + at;
        for (int r = 0; r < R; r++)
            sum[r] += row_scales(t[r], scales + r * groups + g, x->scale + g, x->offset + g, n);
        const uint8_t *from = codes + (s->eight ? at : at / 2), *next = from + R * line + CR_QUANTIZED_FAR;
        next += (R - 1) * (from - codes);
        if (s->eight) add_8(R, sum, t, from, line, next, q, n, s->G);
        else if (s->G % UNIT == 0) add_4(R, sum, t, from, line, next, q, n, s->G);
        else {
            const int64_t blocks = s->G / 32;
            for (int r = 0; odd && r < R; r++) spread(t[r], n, blocks);
            if (odd || blocks == 1) add_4_shared(R, sum, t, from, line, next, q, n * blocks, 1);
            else add_4_shared(R, sum, t, from, line, next, q, n * blocks, 2);
        }
    }
    for (int r = 0; r < R; r++) y[r] = v_sum_lanes(sum[r]);
}

static void rows(const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales, int64_t n,
                 const cr_quantized_row *x) {
    const int64_t line = s->eight ? s->K : s->K / 2, groups = s->K / s->G;
    int64_t i = 0;
    for (; i + ROWS <= n; i += ROWS) some_rows(ROWS, s, y + i, codes + i * line, scales + i * groups, x);
    for (; i < n; i++) some_rows(1, s, y + i, codes + i * line, scales + i * groups, x);
}

/* ---- to floats */
static void unpack(const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales) {
    for (int64_t g = 0; g < s->K / s->G; g++) {
        const float scale = cr_f16_to_f32(scales[g]);
        if (s->eight) {
            for (int64_t k = 0; k < s->G; k++) y[k] = scale * (float)(int8_t)codes[k];
            codes += s->G;
        }
        for (int64_t b = 0; !s->eight && b < s->G; b += 32, codes += 16)
            for (int k = 0; k < 16; k++) {
                y[b + k] = scale * (float)((codes[k] & 15) - 8);
                y[b + 16 + k] = scale * (float)((codes[k] >> 4) - 8);
            }
        y += s->G;
    }
}

const struct cr_quantizeds CR_ISA_NAME(cr_quantizeds) = {quantize_row, rows, unpack};
