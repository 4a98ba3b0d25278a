/* halves.h - vectors of f16 and bf16 to f32 and back, with the bits of cr_convert. */
#ifndef CR_HALVES_H
#define CR_HALVES_H

#include "vec.h"

typedef uint16_t vhalf __attribute__((vector_size(V_BYTES / 2)));
typedef uint16_t vhalf_at __attribute__((vector_size(V_BYTES / 2), aligned(2), may_alias));

static inline vec bf16_widen(vhalf h) { return (vec)(__builtin_convertvector(h, vuint) << 16); }

static inline vhalf bf16_narrow(vec x) {
    vuint u = (vuint)x, nan = (vuint)((u & 0x7fffffffu) > 0x7f800000u);
    vuint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return __builtin_convertvector((nan & ((u >> 16) | 0x40u)) | (~nan & rounded), vhalf);
}

#if CR_ISA == 4
static inline vec f16_widen(vhalf h) { return _mm512_cvtph_ps((__m256i)h); }
static inline vhalf f16_narrow(vec x) {
    return (vhalf)_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#elif CR_ISA == 3
static inline vec f16_widen(vhalf h) { return _mm256_cvtph_ps((__m128i)h); }
static inline vhalf f16_narrow(vec x) {
    return (vhalf)_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
static inline vec f16_widen(vhalf h) {
    vuint w = __builtin_convertvector(h, vuint), sign = (w & 0x8000u) << 16, a = w & 0x7fffu;
    vuint top = (vuint)(a >= 0x7c00u), denormal = (vuint)(a < 0x0400u);
    vuint normal = (a << 13) + (112u << 23) + (top & (112u << 23));
    vuint small = (vuint)(__builtin_convertvector((vint)a, vec) * 0x1p-24f);
    return (vec)(sign | (denormal & small) | (~denormal & normal));
}
static inline vhalf f16_narrow(vec x) {
    vuint u = (vuint)x, sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    vuint nan = (vuint)(a > 0x7f800000u), infinite = (vuint)(a >= 0x477ff000u), normal = (vuint)(a >= 0x38800000u);
    vuint large = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    vuint small = (vuint)((vec)a + 0.5f) - 0x3f000000u;        /* units of 2^-24 in the low bits */
    vuint y = (normal & large) | (~normal & small);
    y = (infinite & 0x7c00u) | (~infinite & y);
    y = (nan & (0x7e00u | ((a >> 13) & 0x3ffu))) | (~nan & y);
    return __builtin_convertvector(sign | y, vhalf);
}
#endif

#endif
