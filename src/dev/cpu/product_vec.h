/* product_vec.h - additions to vec.h for products: parts of vectors, interleaved lanes. */
#ifndef CR_PRODUCT_VEC_H
#define CR_PRODUCT_VEC_H

#include "vec.h"

typedef double vecd_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));     /* anywhere in memory */

/* Registers for a tile of c, besides rows of b and one element of a: 14 x 2 or 9 x 3 of 32 (AVX-512),
 * 6 x 2 or 4 x 3 of 16. */
#if CR_ISA == 4
#define ROWS 14
#define WIDE_ROWS 9
#else
#define ROWS 6
#define WIDE_ROWS 4
#endif
enum { VECTORS = 2, MOST_VECTORS = 3 };
#define TILE_INLINE ALWAYS_INLINE                   /* a tile is compiled for each of its sizes */
/* packing fetches so far ahead in a row; so many rows, or as many as hold so many numbers */
enum { SOON_BYTES = 256, SOON_ROWS = 16, SOON_NUMBERS = 1024 };

/* Fetches a line that another core may have written.  GCC has the instruction for processors newer
 * than those of the instruction sets here, but all of x86-64 take it, as no operation at least; any
 * other prefetch would have to ask for the line again when it is written. */
static ALWAYS_INLINE void fetch_to_write(const char *p) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*p));
#else
    __builtin_prefetch(p, 1, 3);
#endif
}

/* ---- the first n lanes of a vector, 1 <= n <= lanes */
#if CR_ISA == 4
static inline vec part_load_f32(const float *p, int64_t n) {
    return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline vecd part_load_f64(const double *p, int64_t n) {
    return (vecd)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p);
}
static inline void part_store_f32(float *p, vec v, int64_t n) {
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}
static inline void part_store_f64(double *p, vecd v, int64_t n) {
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v);
}
#elif CR_ISA == 3
static const int32_t ones_f32[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static const int64_t ones_f64[8] = {-1, -1, -1, -1};
static inline __m256i mask_f32(int64_t n) {
    return _mm256_loadu_si256((const __m256i_u *)(const void *)(ones_f32 + 8 - n));
}
static inline __m256i mask_f64(int64_t n) {
    return _mm256_loadu_si256((const __m256i_u *)(const void *)(ones_f64 + 4 - n));
}
static inline vec part_load_f32(const float *p, int64_t n) { return (vec)_mm256_maskload_ps(p, mask_f32(n)); }
static inline vecd part_load_f64(const double *p, int64_t n) { return (vecd)_mm256_maskload_pd(p, mask_f64(n)); }
static inline void part_store_f32(float *p, vec v, int64_t n) { _mm256_maskstore_ps(p, mask_f32(n), (__m256)v); }
static inline void part_store_f64(double *p, vecd v, int64_t n) { _mm256_maskstore_pd(p, mask_f64(n), (__m256d)v); }
#else
static inline vec part_load_f32(const float *p, int64_t n) {
    vec v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
static inline vecd part_load_f64(const double *p, int64_t n) {
    vecd v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}
static inline void part_store_f32(float *p, vec v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof *p); }
static inline void part_store_f64(double *p, vecd v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof *p); }
#endif

/* ---- lanes a0 b0 a1 b1 ... of the lower (from 0) or the upper halves (from half).  The index vectors
 * fold to constants. */
#define INTERLEAVE(VECTOR, INDEX, LANES_OF, a, b, from)                                                         \
    INDEX index;                                                                                                \
    CR_UNROLL(16) for (int i = 0; i < LANES_OF; i++) index[i] = from + i / 2 + i % 2 * LANES_OF;                \
    VECTOR r;                                                                                                   \
    SHUFFLE(r, LANES_OF, a, b, index);                                                                          \
    return r
static ALWAYS_INLINE vec interleave_f32(vec a, vec b, int from) {
    INTERLEAVE(vec, vint, V, a, b, from);
}
static ALWAYS_INLINE vecd interleave_f64(vecd a, vecd b, int from) {
    INTERLEAVE(vecd, vlong, VD, a, b, from);
}
#undef INTERLEAVE

#define interleave_low_f32(a, b) interleave_f32(a, b, 0)
#define interleave_high_f32(a, b) interleave_f32(a, b, V / 2)
#define interleave_low_f64(a, b) interleave_f64(a, b, 0)
#define interleave_high_f64(a, b) interleave_f64(a, b, VD / 2)

#endif
