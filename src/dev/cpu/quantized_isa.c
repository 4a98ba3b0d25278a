/* quantized_isa.c - y[n] = sum over k of x[k] w[n, k] for weights of 4 or 8 bits, one row of x at a time (quantized.h).
 * Limited by the bytes of the codes: bench/memory, bench/products. */
#include "../../core/dtype.h"
#include "quantized.h"
#include "vec.h"

typedef int16_t vshort __attribute__((vector_size(V_BYTES)));
typedef uint16_t vushort __attribute__((vector_size(V_BYTES)));
typedef uint16_t vushort_at __attribute__((vector_size(V_BYTES), aligned(1), may_alias));
typedef int16_t vshort_at __attribute__((vector_size(V_BYTES), aligned(2), may_alias));
enum {
    S = V_BYTES / 2,                                /* lanes of 16 bits */
    UNIT = 2 * V_BYTES,                             /* codes of 4 bits in a vector */
    MOST_GROUPS = 64,                               /* groups of a row at a time */
    FAR = 2048                                      /* bytes ahead to prefetch: of rows that follow one another */
};
_Static_assert(CR_QUANTIZED_UNIT % (4 * V_BYTES / 2) == 0, "a unit holds whole vectors");

/* lane i = a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1] */
#if CR_ISA == 4
static inline vint pairs(vshort a, vshort b) { return (vint)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
static inline vshort widened(const uint8_t *p) {
    return (vshort)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
}
#elif CR_ISA == 3
static inline vint pairs(vshort a, vshort b) { return (vint)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
static inline vshort widened(const uint8_t *p) {
    return (vshort)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i_u *)(const void *)p));
}
#elif CR_ISA == 2
static inline vint pairs(vshort a, vshort b) { return (vint)_mm_madd_epi16((__m128i)a, (__m128i)b); }
static inline vshort widened(const uint8_t *p) {
    return (vshort)_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i_u *)(const void *)p));
}
#else
static inline vint pairs(vshort a, vshort b) {
    vint y;
    for (int i = 0; i < V; i++) y[i] = (int32_t)a[2 * i] * b[2 * i] + (int32_t)a[2 * i + 1] * b[2 * i + 1];
    return y;
}
static inline vshort widened(const uint8_t *p) {
    vshort y;
    for (int i = 0; i < S; i++) y[i] = (int16_t)(int8_t)p[i];
    return y;
}
#endif

static inline vshort q_at(const int16_t *q) { return (vshort)*(const vshort_at *)q; }
static inline vec to_float(vint x) { return __builtin_convertvector(x, vec); }

/* V scales as floats; there are n, the others become 0. */
static inline vec scales_at(const uint16_t *p, int64_t n) {
    uint16_t some[V] = {0};
    if (n < V) {                                    /* by parts of a fixed size, which are moves */
        uint16_t *to = some;
        if (V > 8 && n & 8) memcpy(to, p, 16), to += 8, p += 8;
        if (V > 4 && n & 4) memcpy(to, p, 8), to += 4, p += 4;
        if (n & 2) memcpy(to, p, 4), to += 2, p += 2;
        if (n & 1) *to = *p;
        p = some;
    }
#if CR_ISA == 4
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
#elif CR_ISA == 3
    return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)p));
#else
    vec y;
    for (int i = 0; i < V; i++) y[i] = cr_f16_to_f32(p[i]);
    return y;
#endif
}

/* ---- x */

/* The position of code k of a group's first code among the q of 4 bits: a vector of UNIT codes becomes four, of the
 * low and high halves of its even bytes, then of its odd ones. */
static int64_t place_of(int64_t k) {
    const int64_t unit = k / UNIT, byte = k % UNIT / 32 * 16 + k % 16;
    return unit * UNIT + (2 * (byte % 2) + (k % 32 >= 16)) * S + byte / 2;
}

static void prepare(const cr_quantized_shape *s, const cr_quantized_row *to, const float *x) {
    const int64_t whole = (s->K + CR_QUANTIZED_UNIT - 1) / CR_QUANTIZED_UNIT * CR_QUANTIZED_UNIT, groups = s->K / s->G;
    memset(to->q, 0, (size_t)whole * sizeof *to->q);
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
        to->scale[g] = size / 32767;
        if (!isfinite(size)) to->scale[g] = NAN;    /* where f32 would give infinities, or NaN */
        if (!(size >= 0x1p-100f && isfinite(size))) continue;        /* so small that products vanish */
        const float inverse = 32767 / size;
        for (int64_t k = 0; k < s->G; k++) {
            const int32_t q = (int32_t)rintf(from[k] * inverse);
            const int64_t at = g * s->G + k;
            to->q[s->eight ? at : place_of(at)] = (int16_t)q;
            sum += q;
        }
        to->offset[g] = s->eight ? 0 : -8 * (float)sum;
    }
}

/* ---- a row of w */

/* t[g] = w's scale times x's; returns the sum of t[g] offset[g]. */
static inline vec row_scales(float *t, const uint16_t *scales, const float *of_x, const float *offset, int64_t n) {
    vec sum = {0};
    for (int64_t g = 0; g < n; g += V) {
        const vec both = scales_at(scales + g, n - g) * LOAD(of_x + g);
        STORE(t + g, both);
        sum += both * LOAD(offset + g);
    }
    return sum;
}

static inline vec add_8(vec sum, const float *t, const uint8_t *codes, const int16_t *q, int64_t groups, int64_t G) {
    for (int64_t g = 0; g < groups; g++) {
        vint a = {0}, b = {0};
        __builtin_prefetch(codes + FAR);
        for (int64_t k = 0; k < G; k += 32) {
            a += pairs(widened(codes + k), q_at(q + k));
            if (S == 32) continue;
            b += pairs(widened(codes + k + S), q_at(q + k + S));
            if (S == 16) continue;
            a += pairs(widened(codes + k + 2 * S), q_at(q + k + 2 * S));
            b += pairs(widened(codes + k + 3 * S), q_at(q + k + 3 * S));
        }
        sum += to_float(a + b) * v_k(t[g]);
        codes += G;
        q += G;
    }
    return sum;
}

static inline vint unit_4(const uint8_t *codes, const int16_t *q) {
    const vushort w = *(const vushort_at *)codes;
    const vint a = pairs((vshort)(w & 15), q_at(q)) + pairs((vshort)(w >> 4 & 15), q_at(q + S));
    const vint b = pairs((vshort)(w >> 8 & 15), q_at(q + 2 * S)) + pairs((vshort)(w >> 12), q_at(q + 3 * S));
    return a + b;
}

/* groups of whole units */
static inline vec add_4(vec sum, const float *t, const uint8_t *codes, const int16_t *q, int64_t groups, int64_t G) {
    for (int64_t g = 0; g < groups; g++) {
        vint a = {0};
        __builtin_prefetch(codes + FAR);
        for (int64_t k = 0; k < G; k += UNIT) a += unit_4(codes + k / 2, q + k);
        sum += to_float(a) * v_k(t[g]);
        codes += G / 2;
        q += G;
    }
    return sum;
}

/* Four equal lanes for each scale: those of the blocks of 32 codes in a unit. */
static inline vec unit_scales(const float *t) {
#if CR_ISA == 4
    return (vec)_mm512_permutexvar_ps(_mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0),
                                      _mm512_castps128_ps512(_mm_loadu_ps(t)));
#elif CR_ISA == 3
    return (vec)_mm256_set_m128(_mm_broadcast_ss(t + 1), _mm_broadcast_ss(t));
#else
    return v_k(t[0]);
#endif
}

/* n blocks of 32, of groups that share units; t: of each block, then zeros up to a unit */
static inline vec add_4_shared(vec sum, const float *t, const uint8_t *codes, const int16_t *q, int64_t n) {
    enum { EACH = UNIT / 32 };
    int64_t b = 0;
    for (; b + EACH <= n; b += EACH) {
        __builtin_prefetch(codes + 16 * b + FAR);
        sum += to_float(unit_4(codes + 16 * b, q + 32 * b)) * unit_scales(t + b);
    }
    if (b < n) {
        uint8_t last[V_BYTES] = {0};                /* the row ends inside of a vector */
        memcpy(last, codes + 16 * b, (size_t)(16 * (n - b)));
        sum += to_float(unit_4(last, q + 32 * b)) * unit_scales(t + b);
    }
    return sum;
}

/* The scales of groups as those of blocks of 32. */
static void spread(float *to, const float *t, int64_t n, int64_t blocks) {
    for (int64_t g = 0; g < n; g++)
        for (int64_t i = 0; i < blocks; i++) *to++ = t[g];
    for (int i = 0; i < 3; i++) *to++ = 0;
}

static float row(const cr_quantized_shape *s, const uint8_t *codes, const uint16_t *scales, const cr_quantized_row *x) {
    const int64_t groups = s->K / s->G, blocks = s->G / 32;
    _Alignas(64) float t[MOST_GROUPS], of_blocks[4 * MOST_GROUPS + 4];
    vec sum = {0};
    for (int64_t g = 0; g < groups; g += MOST_GROUPS) {
        const int64_t n = cr_imin(MOST_GROUPS, groups - g), at = g * s->G;
        sum += row_scales(t, scales + g, x->scale + g, x->offset + g, n);
        if (s->eight) sum = add_8(sum, t, codes + at, x->q + at, n, s->G);
        else if (s->G % UNIT == 0) sum = add_4(sum, t, codes + at / 2, x->q + at, n, s->G);
        else {
            spread(of_blocks, t, n, blocks);
            sum = add_4_shared(sum, of_blocks, codes + at / 2, x->q + at, n * blocks);
        }
    }
    return v_sum_lanes(sum);
}

static void rows(const cr_quantized_shape *s, float *y, const uint8_t *codes, const uint16_t *scales, int64_t n,
                 const cr_quantized_row *x) {
    const int64_t line = s->eight ? s->K : s->K / 2;
    for (int64_t i = 0; i < n; i++) y[i] = row(s, codes + i * line, scales + i * (s->K / s->G), x);
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

const struct cr_quantizeds CR_ISA_NAME(cr_quantizeds) = {prepare, rows, unpack};
