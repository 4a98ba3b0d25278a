/* matmul_isa.c - products on one thread, for one instruction set: CR_ISA 2, 3, 4 (x86-64-v2, v3, v4) or 0 (whatever the compiler has). */
#if defined(__SANITIZE_ADDRESS__)                   /* checked loads in a hundred unrolled tiles: at -O3 GCC 12 takes minutes, at -O1 seconds */
#pragma GCC optimize("O1")
#endif
#include "../../core/array.h"
#include "product.h"
#include "product_vec.h"

enum { DEPTH_BYTES = (CR_ISA == 4 ? 96 : 16) << 10 };          /* of a strip of b: L1, but AVX-512 gains by fewer passes over c, even from L2 */

#define PER 1
#define MULTIPLY_ADD(s, x, y) ((s) + (x) * (y))

#define NAME(x) x##_f32
#define REAL float
#define VEC vec
#define LOOSE vec_at
#define LANES V
#include "product_tiles.h"
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
#include "product_tiles.h"
#include "product_kernels.h"

/* ---- f16 and bf16 */

static void bf16_rounded(float *dst, const float *src, int64_t n) {
    const uint32_t *s = (const uint32_t *)(const void *)src;
    uint32_t *d = (uint32_t *)(void *)dst;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = s[i], even = u + 0x7fff + (u >> 16 & 1), nan = u | 0x400000;
        d[i] = ((u & 0x7fffffff) > 0x7f800000 ? nan : even) & 0xffff0000;
    }
}

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
    .f32 = {direct_f32, row_f32, outer_f32, few_f32, pack_f32, pack_rows_f32, panels_f32, ROWS, COLUMNS_f32, PANEL_f32, DEPTH_BYTES / (int)sizeof(float) / COLUMNS_f32, 1, sizeof(float)},
    .f64 = {direct_f64, row_f64, outer_f64, few_f64, pack_f64, pack_rows_f64, panels_f64, ROWS, COLUMNS_f64, PANEL_f64, DEPTH_BYTES / (int)sizeof(double) / COLUMNS_f64, 1, sizeof(double)},
    .bf16_rounded = bf16_rounded, .f32_from_half = f32_from_half, .half_from_f32 = half_from_f32
};
