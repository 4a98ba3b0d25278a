/* matmul_bf16.c - products of bf16 on one thread with AVX-512's vdpbf16ps: two products a lane, added
 * in f32, at twice the rate of f32. Beyond x86-64-v4, so compiled on its own; the instruction reads
 * and writes denormals as 0. */
#if defined(__SANITIZE_ADDRESS__)                   /* as in matmul_isa.c */
#pragma GCC optimize("O1")
#endif
#include "product.h"
#include "product_vec.h"

static ALWAYS_INLINE vec multiply_add(vec sum, vec x, vec y) {
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
}

#define PER 2
#define MULTIPLY_ADD(s, x, y) multiply_add(s, x, y)
#define NAME(x) x##_f32
#define REAL float
#define VEC vec
#define LOOSE vec_at
#define LANES V
#include "product_tiles.h"

enum { DEPTH = 512 };                               /* of k: a strip of 32 KiB */

/* ---- packing: 32 bits hold x[p] (low) and x[p + 1] */

typedef __m512i_u pairs_at __attribute__((may_alias));

/* The first n of 32 numbers in a row, 16 pairs. */
static ALWAYS_INLINE vec along_f32(const void *from, int64_t at, int64_t n) {
    const float *f = (const float *)from + at;
    __builtin_prefetch(f + SOON_BYTES / 4);
    __builtin_prefetch(f + SOON_BYTES / 4 + V);
    __m512 low = n >= V ? _mm512_loadu_ps(f) : _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), f);
    __m512 high = n >= 2 * V ? _mm512_loadu_ps(f + V)
                  : n > V    ? _mm512_maskz_loadu_ps((__mmask16)((1u << (n - V)) - 1), f + V)
                             : _mm512_setzero_ps();
    return (vec)_mm512_cvtne2ps_pbh(high, low);
}
static ALWAYS_INLINE vec along_bf16(const void *from, int64_t at, int64_t n) {
    const uint16_t *f = (const uint16_t *)from + at;
    return (vec)(n >= 2 * V ? *(const pairs_at *)(const void *)f
                            : _mm512_maskz_loadu_epi16((__mmask32)((1u << n) - 1), f));
}

/* The first n of 16 numbers of one row (low) and of the next (high; none: 0). */
static ALWAYS_INLINE vec across_f32(const void *from, int64_t at, int64_t next, bool both, int64_t n) {
    const float *f = (const float *)from + at;
    __mmask16 some = (__mmask16)(n >= V ? 0xffff : (1u << n) - 1);
    __m512 low = _mm512_maskz_loadu_ps(some, f),
           high = both ? _mm512_maskz_loadu_ps(some, f + next) : _mm512_setzero_ps();
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (vec)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}
static ALWAYS_INLINE vec across_bf16(const void *from, int64_t at, int64_t next, bool both, int64_t n) {
    const uint16_t *f = (const uint16_t *)from + at;
    __mmask16 some = (__mmask16)(n >= V ? 0xffff : (1u << n) - 1);
    __m256i low = _mm256_maskz_loadu_epi16(some, f),
            high = both ? _mm256_maskz_loadu_epi16(some, f + next) : _mm256_setzero_si256();
    return (vec)_mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

static inline void soon_f32(const void *from, int64_t at, int64_t along, int64_t n) {
    const float *f = (const float *)from + at;
    __builtin_prefetch(f);
    __builtin_prefetch(f + n - 1);
    __builtin_prefetch(f + along);
    __builtin_prefetch(f + along + n - 1);
}
static inline void soon_bf16(const void *from, int64_t at, int64_t along, int64_t n) {
    const uint16_t *f = (const uint16_t *)from + at;
    __builtin_prefetch(f);
    __builtin_prefetch(f + along + n - 1);
}

static inline uint32_t one_f32(const void *from, int64_t at) {
    return (uint16_t)_mm_extract_epi16((__m128i)_mm_cvtneps_pbh(_mm_set_ss(((const float *)from)[at])), 0);
}
static inline uint32_t one_bf16(const void *from, int64_t at) { return ((const uint16_t *)from)[at]; }

/* 16 rows of 32 of k become 16 rows of k's pairs. */
#define PACK(type)                                                                                            \
    static void along_k_##type(vec *to, int64_t width, int64_t n, int64_t k, const void *from, int64_t across) {    \
        for (int64_t j = 0; j < width; j += V)                                                                      \
            for (int64_t p = 0; p < k; p += 2 * V) {                                                                \
                vec v[V];                                                                                           \
                int64_t left = k - p < 2 * V ? k - p : 2 * V;                                                       \
                if (left == 2 * V && n - j >= V) {                                                                  \
                    CR_UNROLL(16) for (int i = 0; i < V; i++) v[i] = along_##type(from, (j + i) * across + p, 2 * V); \
                } else for (int i = 0; i < V; i++) v[i] = j + i < n ? along_##type(from, (j + i) * across + p, left) \
                    : (vec){0}; \
                transpose_f32(v);                                                                                   \
                if (left == 2 * V) {                                                                                \
                    CR_UNROLL(16) for (int i = 0; i < V; i++) to[((p / 2 + i) * width + j) / V] = v[i];             \
                } else for (int i = 0; 2 * i < left; i++) to[((p / 2 + i) * width + j) / V] = v[i];                 \
            }                                                                                                       \
    }                                                                                                               \
    static void across_k_##type(vec *to, int64_t width, int64_t n, int64_t k, const void *from, int64_t along) {    \
        for (int64_t p = 0; p < k; p += 2, to += width / V) {                                                       \
            int64_t at = p * along, j = 0;                                                                          \
            soon_##type(from, at + SOON_ROWS * along, along, n);                                                    \
            if (p + 1 < k) for (; j + V <= n; j += V) to[j / V] = across_##type(from, at + j, along, true, V);      \
            for (; j < width; j += V) to[j / V] = j < n ? across_##type(from, at + j, along, p + 1 < k, n - j) : \
                (vec){0}; \
        }                                                                                                           \
    }                                                                                                               \
    static void pack_##type(void *to, int64_t width, int64_t n, int64_t k, const void *from, int64_t across, \
        int64_t along) { \
        if (across == 1) { across_k_##type(to, width, n, k, from, along); return; }                                 \
        if (along == 1) { along_k_##type(to, width, n, k, from, across); return; }                                  \
        uint32_t *pair = to;                                                                                        \
        for (int64_t p = 0; p < k; p += 2, pair += width)                                                           \
            for (int64_t j = 0; j < width; j++) {                                                                   \
                int64_t at = j * across + p * along;                                                                \
                pair[j] = j < n ? one_##type(from, at) | (p + 1 < k ? one_##type(from, at + along) << 16 : 0) : 0;  \
            }                                                                                                       \
    }
PACK(f32)
PACK(bf16)
#undef PACK

#define KERNELS(pack_it) {.pack = pack_it, .panels = panels_f32, .tile_rows = ROWS, .tile_columns = COLUMNS_f32, \
    .panel_width = PANEL_f32, .depth = DEPTH, .per = 2, .size = 4}
static const cr_product_kernels from_f32 = KERNELS(pack_f32), from_bf16 = KERNELS(pack_bf16);

const cr_product_kernels *cr_product_pairs(bool f32) { return f32 ? &from_f32 : &from_bf16; }
