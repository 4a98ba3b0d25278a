/* pairs.h - sums of two products of 16-bit integers, on vectors (vec.h). */
#ifndef CR_PAIRS_H
#define CR_PAIRS_H

#include "vec.h"

typedef int16_t vshort __attribute__((vector_size(V_BYTES)));
typedef uint16_t vushort __attribute__((vector_size(V_BYTES)));

/* lane i = a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1] */
#if CR_ISA == 4
static inline vint pairs(vshort a, vshort b) { return (vint)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
#elif CR_ISA == 3
static inline vint pairs(vshort a, vshort b) { return (vint)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
#elif CR_ISA == 2
static inline vint pairs(vshort a, vshort b) { return (vint)_mm_madd_epi16((__m128i)a, (__m128i)b); }
#elif defined __wasm_simd128__
static inline vint pairs(vshort a, vshort b) { return (vint)wasm_i32x4_dot_i16x8((v128_t)a, (v128_t)b); }
#elif defined __aarch64__
static inline vint pairs(vshort a, vshort b) {
    const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (vint)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
#else
static inline vint pairs(vshort a, vshort b) {
    vint y;
    for (int i = 0; i < V; i++) y[i] = (int32_t)a[2 * i] * b[2 * i] + (int32_t)a[2 * i + 1] * b[2 * i + 1];
    return y;
}
#endif

static inline vec to_float(vint x) { return __builtin_convertvector(x, vec); }

#endif
