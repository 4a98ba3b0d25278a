/* matmul_isa.c - products on one thread, for one instruction set: CR_ISA 2, 3, 4 (x86-64-v2, v3, v4) or 0 (whatever the compiler has). */
#if defined(__SANITIZE_ADDRESS__)                   /* checked loads in a hundred unrolled tiles: at -O3 GCC 12 takes minutes, at -O1 seconds */
#pragma GCC optimize("O1")
#endif
#include "../../core/core.h"
#include "product.h"
#include "vec.h"

/* Registers for a tile of c beside the rows of b and one element of a: 14 x 2 of 32 (AVX-512), 6 x 2 of 16. */
#if CR_ISA == 4
enum { VECTORS = 2, DEPTH_BYTES = 32 << 10, BLOCK_BYTES = 288 << 10, STRIPS = 32 };
#define ROWS 14
#elif CR_ISA == 3
enum { VECTORS = 2, DEPTH_BYTES = 16 << 10, BLOCK_BYTES = 128 << 10, STRIPS = 64 };
#define ROWS 6
#else
enum { VECTORS = 2, DEPTH_BYTES = 16 << 10, BLOCK_BYTES = 128 << 10, STRIPS = 128 };
#define ROWS 6
#endif

typedef double vecd_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));     /* anywhere in memory */

/* ---- the first n lanes of a vector, 1 <= n <= lanes */
#if CR_ISA == 4
static inline vec part_load_f32(const float *p, int64_t n) { return (vec)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
static inline vecd part_load_f64(const double *p, int64_t n) { return (vecd)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p); }
static inline void part_store_f32(float *p, vec v, int64_t n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v); }
static inline void part_store_f64(double *p, vecd v, int64_t n) { _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v); }
#elif CR_ISA == 3
static const int32_t ones_f32[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static const int64_t ones_f64[8] = {-1, -1, -1, -1};
static inline __m256i mask_f32(int64_t n) { return _mm256_loadu_si256((const __m256i_u *)(const void *)(ones_f32 + 8 - n)); }
static inline __m256i mask_f64(int64_t n) { return _mm256_loadu_si256((const __m256i_u *)(const void *)(ones_f64 + 4 - n)); }
static inline vec part_load_f32(const float *p, int64_t n) { return (vec)_mm256_maskload_ps(p, mask_f32(n)); }
static inline vecd part_load_f64(const double *p, int64_t n) { return (vecd)_mm256_maskload_pd(p, mask_f64(n)); }
static inline void part_store_f32(float *p, vec v, int64_t n) { _mm256_maskstore_ps(p, mask_f32(n), (__m256)v); }
static inline void part_store_f64(double *p, vecd v, int64_t n) { _mm256_maskstore_pd(p, mask_f64(n), (__m256d)v); }
#else
static inline vec part_load_f32(const float *p, int64_t n) { vec v = {0}; memcpy(&v, p, (size_t)n * sizeof *p); return v; }
static inline vecd part_load_f64(const double *p, int64_t n) { vecd v = {0}; memcpy(&v, p, (size_t)n * sizeof *p); return v; }
static inline void part_store_f32(float *p, vec v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof *p); }
static inline void part_store_f64(double *p, vecd v, int64_t n) { memcpy(p, &v, (size_t)n * sizeof *p); }
#endif

/* ---- lanes a0 b0 a1 b1 ... of the lower (from 0) or the upper halves (from half).  The index vectors fold to constants. */
#if defined(__clang__)                              /* has no __builtin_shuffle, and makes a shuffle of the loop */
#define INTERLEAVE(VECTOR, INDEX, LANES_OF, a, b, from)                                                         \
    VECTOR r = a;                                                                                               \
    for (int i = 0; i < LANES_OF; i++) r[i] = i % 2 ? b[from + i / 2] : a[from + i / 2];                        \
    return r
#else
#define INTERLEAVE(VECTOR, INDEX, LANES_OF, a, b, from)                                                         \
    INDEX index;                                                                                                \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES_OF; i++) index[i] = from + i / 2 + i % 2 * LANES_OF;     \
    return __builtin_shuffle(a, b, index)
#endif
static inline __attribute__((always_inline)) vec interleave_f32(vec a, vec b, int from) { INTERLEAVE(vec, vint, V, a, b, from); }
static inline __attribute__((always_inline)) vecd interleave_f64(vecd a, vecd b, int from) { INTERLEAVE(vecd, vlong, VD, a, b, from); }
#undef INTERLEAVE

#define NAME(x) x##_f32
#define REAL float
#define VEC vec
#define LOOSE vec_at
#define LANES V
#define interleave_low_f32(a, b) interleave_f32(a, b, 0)
#define interleave_high_f32(a, b) interleave_f32(a, b, LANES / 2)
#include "product_kernels.h"
#undef NAME
#undef REAL
#undef VEC
#undef LOOSE
#undef LANES

#define NAME(x) x##_f64
#define REAL double
#define VEC vecd
#define LOOSE vecd_at
#define LANES VD
#define interleave_low_f64(a, b) interleave_f64(a, b, 0)
#define interleave_high_f64(a, b) interleave_f64(a, b, LANES / 2)
#include "product_kernels.h"

/* ---- f16 and bf16 */

static void f32_from_half(float *dst, const uint16_t *src, int64_t n, bool bf16) {
    int64_t i = 0;
    if (bf16) {
        uint32_t *d = (uint32_t *)(void *)dst;
        for (; i < n; i++) d[i] = (uint32_t)src[i] << 16;
        return;
    }
#if CR_ISA >= 3
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)(src + i))));
#endif
    for (; i < n; i++) dst[i] = cr_f16_to_f32(src[i]);
}

static void half_from_f32(uint16_t *dst, const float *src, int64_t n, bool bf16) {
    int64_t i = 0;
    if (bf16) {
        for (; i < n; i++) dst[i] = cr_f32_to_bf16(src[i]);
        return;
    }
#if CR_ISA >= 3
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i_u *)(void *)(dst + i), h);
    }
#endif
    for (; i < n; i++) dst[i] = cr_f32_to_f16(src[i]);
}

extern const cr_product_isa CR_ISA_NAME(cr_product);
const cr_product_isa CR_ISA_NAME(cr_product) = {
    .isa = CR_ISA,
    .f32 = {direct_f32, blocked_f32, scratch_bytes_f32, row_f32, pack_f32, ROWS, COLUMNS_f32},
    .f64 = {direct_f64, blocked_f64, scratch_bytes_f64, row_f64, pack_f64, ROWS, COLUMNS_f64},
    .f32_from_half = f32_from_half, .half_from_f32 = half_from_f32
};
