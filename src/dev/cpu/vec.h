/* vec.h - one vector of f32 lanes on GCC's vector types, for the files that are compiled once per
 * instruction set (*_isa.c): CR_ISA 2, 3, 4 are x86-64-v2, v3, v4 (16, 32, 64 bytes); 0 is any other
 * machine (16 bytes; WebAssembly with SIMD128).  Intrinsics appear only where vector types cannot express an operation.
 * Masks are bits on v4 and all-ones lanes elsewhere: use m_*, v_blend. */
#ifndef CR_VEC_H
#define CR_VEC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "isa_name.h"
#include "loops.h"

#if CR_ISA
#include <immintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#elif defined __aarch64__
#include <arm_neon.h>
#endif

#if CR_ISA == 4
#define V_BYTES 64
#elif CR_ISA == 3
#define V_BYTES 32
#else
#define V_BYTES 16
#endif
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define V_FMA (CR_ISA >= 3)                         /* v_fma and its like round once, elsewhere twice */
enum { V = V_BYTES / 4, VD = V_BYTES / 8 };         /* lanes of f32, of f64 */
enum { AHEAD = 1024 };                              /* prefetch distance in bytes: on long runs 5 % faster than no
                                                     * prefetch; 512 to 2048 measured alike */

typedef float   vec   __attribute__((vector_size(V_BYTES)));
typedef int32_t vint  __attribute__((vector_size(V_BYTES)));
/* integers for arithmetic on bits: unsigned, so that they wrap */
typedef uint32_t vuint __attribute__((vector_size(V_BYTES)));
typedef double  vecd  __attribute__((vector_size(V_BYTES)));
typedef int64_t vlong __attribute__((vector_size(V_BYTES)));
typedef uint64_t vulong __attribute__((vector_size(V_BYTES)));
typedef float   vec_at __attribute__((vector_size(V_BYTES), aligned(4), may_alias));     /* any address */

static inline vec  LOAD(const float *p) { return *(const vec_at *)p; }
/* of a long run */
static inline vec  FETCH(const float *p) { __builtin_prefetch((const char *)p + AHEAD); return LOAD(p); }
static inline void STORE(float *p, vec x) { *(vec_at *)p = x; }
static inline vec  v_k(float k) { return k - (vec){0}; }         /* also of -0 */
static inline vecd d_k(double k) { return k - (vecd){0}; }

/* elements of a and b, both of four words, by their numbers in (a, b) */
#ifdef __clang__
#define V_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define V_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__(a)){__VA_ARGS__})
#endif

/* ---- one definition for each instruction set */
#if CR_ISA == 4
typedef __mmask16 vmask;
typedef __mmask8 dmask;
static inline vmask m_lt(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vmask m_le(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vmask m_eq(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vmask m_ne(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
static inline vmask m_bit(vint x, int bit) { return _mm512_test_epi32_mask((__m512i)x, _mm512_set1_epi32(1 << bit)); }
static inline vmask m_not(vmask m) { return (vmask)~m; }
static inline bool  m_any(vmask m) { return m != 0; }
static inline vec   v_blend(vmask m, vec a, vec b) { return _mm512_mask_blend_ps(m, b, a); }
static inline dmask md_lt(vecd a, vecd b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
static inline dmask md_eq(vecd a, vecd b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
static inline dmask md_nan(vecd x) { return _mm512_cmp_pd_mask(x, x, _CMP_UNORD_Q); }
static inline dmask md_bit0(vlong x) { return _mm512_test_epi64_mask((__m512i)x, _mm512_set1_epi64(1)); }
static inline vecd  d_blend(dmask m, vecd a, vecd b) { return _mm512_mask_blend_pd(m, b, a); }
static inline vec   v_least(vec a, vec b) { return _mm512_min_ps(a, b); }          /* b where either is NaN */
static inline vec   v_most(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec   v_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }          /* a b + c */
static inline vec   v_fnma(vec a, vec b, vec c) { return _mm512_fnmadd_ps(a, b, c); }        /* c - a b */
static inline vecd  d_fma(vecd a, vecd b, vecd c) { return _mm512_fmadd_pd(a, b, c); }
static inline vecd  d_fnma(vecd a, vecd b, vecd c) { return _mm512_fnmadd_pd(a, b, c); }
/* low halves of the lanes, 32 x 32 -> 64 bits */
static inline vulong d_mul32(vulong a, vulong b) { return (vulong)_mm512_mul_epu32((__m512i)a, (__m512i)b); }
static inline vec   v_sqrt(vec x) { return _mm512_sqrt_ps(x); }
static inline vec   v_floor(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vec   v_ceil(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vec   v_trunc(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vec   v_round(vec x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vecd  d_sqrt(vecd x) { return _mm512_sqrt_pd(x); }
static inline vecd  d_floor(vecd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vecd  d_trunc(vecd x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vecd  d_lo(vec x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
static inline vecd  d_hi(vec x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
static inline vec d_pack(vecd lo, vecd hi) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(lo)), _mm512_cvtpd_ps(hi), 1);
}
#else
typedef vint vmask;
typedef vlong dmask;
static inline vmask m_lt(vec a, vec b) { return a < b; }
static inline vmask m_le(vec a, vec b) { return a <= b; }
static inline vmask m_eq(vec a, vec b) { return a == b; }
static inline vmask m_ne(vec a, vec b) { return a != b; }
static inline vmask m_bit(vint x, int bit) { return (x & (int32_t)(1u << bit)) != 0; }
static inline vmask m_not(vmask m) { return ~m; }
static inline dmask md_lt(vecd a, vecd b) { return a < b; }
static inline dmask md_eq(vecd a, vecd b) { return a == b; }
static inline dmask md_nan(vecd x) { return x != x; }
static inline dmask md_bit0(vlong x) { return (x & 1) != 0; }
#if CR_ISA == 3
static inline bool  m_any(vmask m) { return _mm256_movemask_ps((__m256)m) != 0; }
static inline vec   v_blend(vmask m, vec a, vec b) { return _mm256_blendv_ps(b, a, (__m256)m); }
static inline vecd  d_blend(dmask m, vecd a, vecd b) { return _mm256_blendv_pd(b, a, (__m256d)m); }
static inline vec   v_least(vec a, vec b) { return _mm256_min_ps(a, b); }          /* b where either is NaN */
static inline vec   v_most(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec   v_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec   v_fnma(vec a, vec b, vec c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vecd  d_fma(vecd a, vecd b, vecd c) { return _mm256_fmadd_pd(a, b, c); }
static inline vecd  d_fnma(vecd a, vecd b, vecd c) { return _mm256_fnmadd_pd(a, b, c); }
static inline vulong d_mul32(vulong a, vulong b) { return (vulong)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
static inline vec   v_sqrt(vec x) { return _mm256_sqrt_ps(x); }
static inline vec   v_floor(vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vec   v_ceil(vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vec   v_trunc(vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vec   v_round(vec x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vecd  d_sqrt(vecd x) { return _mm256_sqrt_pd(x); }
static inline vecd  d_floor(vecd x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vecd  d_trunc(vecd x) { return _mm256_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vecd  d_lo(vec x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
static inline vecd  d_hi(vec x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
static inline vec   d_pack(vecd lo, vecd hi) { return _mm256_set_m128(_mm256_cvtpd_ps(hi), _mm256_cvtpd_ps(lo)); }
#elif CR_ISA == 2
static inline bool  m_any(vmask m) { return _mm_movemask_ps((__m128)m) != 0; }
static inline vec   v_blend(vmask m, vec a, vec b) { return _mm_blendv_ps(b, a, (__m128)m); }
static inline vecd  d_blend(dmask m, vecd a, vecd b) { return _mm_blendv_pd(b, a, (__m128d)m); }
static inline vec   v_least(vec a, vec b) { return _mm_min_ps(a, b); }          /* b where either is NaN */
static inline vec   v_most(vec a, vec b) { return _mm_max_ps(a, b); }
static inline vulong d_mul32(vulong a, vulong b) { return (vulong)_mm_mul_epu32((__m128i)a, (__m128i)b); }
static inline vec   v_sqrt(vec x) { return _mm_sqrt_ps(x); }
static inline vec   v_floor(vec x) { return _mm_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vec   v_ceil(vec x) { return _mm_round_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
static inline vec   v_trunc(vec x) { return _mm_round_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vec   v_round(vec x) { return _mm_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline vecd  d_sqrt(vecd x) { return _mm_sqrt_pd(x); }
static inline vecd  d_floor(vecd x) { return _mm_round_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
static inline vecd  d_trunc(vecd x) { return _mm_round_pd(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
static inline vecd  d_lo(vec x) { return _mm_cvtps_pd(x); }
static inline vecd  d_hi(vec x) { return _mm_cvtps_pd(_mm_movehl_ps(x, x)); }
static inline vec   d_pack(vecd lo, vecd hi) { return _mm_movelh_ps(_mm_cvtpd_ps(lo), _mm_cvtpd_ps(hi)); }
#elif defined(__wasm_simd128__)
static inline bool  m_any(vmask m) { return wasm_v128_any_true((v128_t)m); }
static inline v128_t select_bits(v128_t m, v128_t a, v128_t b) { return wasm_v128_bitselect(a, b, m); }
static inline vec   v_blend(vmask m, vec a, vec b) { return (vec)select_bits((v128_t)m, (v128_t)a, (v128_t)b); }
static inline vecd  d_blend(dmask m, vecd a, vecd b) { return (vecd)select_bits((v128_t)m, (v128_t)a, (v128_t)b); }
/* b where either is NaN */
static inline vec   v_least(vec a, vec b) { return (vec)wasm_f32x4_pmin((v128_t)b, (v128_t)a); }
static inline vec   v_most(vec a, vec b) { return (vec)wasm_f32x4_pmax((v128_t)b, (v128_t)a); }
static inline vulong d_mul32(vulong a, vulong b) { return (a & 0xffffffff) * (b & 0xffffffff); }
static inline vec   v_sqrt(vec x) { return (vec)wasm_f32x4_sqrt((v128_t)x); }
static inline vec   v_floor(vec x) { return (vec)wasm_f32x4_floor((v128_t)x); }
static inline vec   v_ceil(vec x) { return (vec)wasm_f32x4_ceil((v128_t)x); }
static inline vec   v_trunc(vec x) { return (vec)wasm_f32x4_trunc((v128_t)x); }
static inline vec   v_round(vec x) { return (vec)wasm_f32x4_nearest((v128_t)x); }
static inline vecd  d_sqrt(vecd x) { return (vecd)wasm_f64x2_sqrt((v128_t)x); }
static inline vecd  d_floor(vecd x) { return (vecd)wasm_f64x2_floor((v128_t)x); }
static inline vecd  d_trunc(vecd x) { return (vecd)wasm_f64x2_trunc((v128_t)x); }
static inline vecd  d_lo(vec x) { return (vecd)wasm_f64x2_promote_low_f32x4((v128_t)x); }
static inline vecd  d_hi(vec x) { return d_lo((vec)wasm_i64x2_shuffle((v128_t)x, (v128_t)x, 1, 1)); }
static inline vec   d_pack(vecd lo, vecd hi) {
    const v128_t a = wasm_f32x4_demote_f64x2_zero((v128_t)lo), b = wasm_f32x4_demote_f64x2_zero((v128_t)hi);
    return (vec)wasm_i64x2_shuffle(a, b, 0, 2);
}
#else
static inline bool  m_any(vmask m) { vlong w = (vlong)m; return (w[0] | w[1]) != 0; }
static inline vec   v_blend(vmask m, vec a, vec b) { return (vec)((m & (vint)a) | (~m & (vint)b)); }
static inline vecd  d_blend(dmask m, vecd a, vecd b) { return (vecd)((m & (vlong)a) | (~m & (vlong)b)); }
static inline vec   v_least(vec a, vec b) { return v_blend(m_lt(a, b), a, b); }          /* b where either is NaN */
static inline vec   v_most(vec a, vec b) { return v_blend(m_lt(b, a), a, b); }
static inline vulong d_mul32(vulong a, vulong b) { return (a & 0xffffffff) * (b & 0xffffffff); }
static inline vec   v_sqrt(vec x) { for (int i = 0; i < V; i++) x[i] = sqrtf(x[i]); return x; }
static inline vec   v_floor(vec x) { for (int i = 0; i < V; i++) x[i] = floorf(x[i]); return x; }
static inline vec   v_ceil(vec x) { for (int i = 0; i < V; i++) x[i] = ceilf(x[i]); return x; }
static inline vec   v_trunc(vec x) { for (int i = 0; i < V; i++) x[i] = truncf(x[i]); return x; }
static inline vec   v_round(vec x) { for (int i = 0; i < V; i++) x[i] = rintf(x[i]); return x; }
static inline vecd  d_sqrt(vecd x) { for (int i = 0; i < VD; i++) x[i] = sqrt(x[i]); return x; }
static inline vecd  d_floor(vecd x) { for (int i = 0; i < VD; i++) x[i] = floor(x[i]); return x; }
static inline vecd  d_trunc(vecd x) { for (int i = 0; i < VD; i++) x[i] = trunc(x[i]); return x; }
static inline vecd  d_lo(vec x) { return (vecd){(double)x[0], (double)x[1]}; }
static inline vecd  d_hi(vec x) { return (vecd){(double)x[2], (double)x[3]}; }
static inline vec   d_pack(vecd lo, vecd hi) { return (vec){(float)lo[0], (float)lo[1], (float)hi[0], (float)hi[1]}; }
#endif
#endif

/* ---- the same text for all instruction sets */
#if !V_FMA
static inline vec   v_fma(vec a, vec b, vec c) { return a * b + c; }
static inline vec   v_fnma(vec a, vec b, vec c) { return c - a * b; }
static inline vecd  d_fma(vecd a, vecd b, vecd c) { return a * b + c; }
static inline vecd  d_fnma(vecd a, vecd b, vecd c) { return c - a * b; }
#endif
/* by type, for templates: vectors, and single numbers, which round as the lanes do */
static ALWAYS_INLINE vec  fma_f32(vec a, vec b, vec c) { return v_fma(a, b, c); }
static ALWAYS_INLINE vecd fma_f64(vecd a, vecd b, vecd c) { return d_fma(a, b, c); }
#if V_FMA
static ALWAYS_INLINE float  one_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static ALWAYS_INLINE double one_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
static ALWAYS_INLINE float  one_fma_f32(float a, float b, float c) { return a * b + c; }
static ALWAYS_INLINE double one_fma_f64(double a, double b, double c) { return a * b + c; }
#endif
static inline vmask m_gt(vec a, vec b) { return m_lt(b, a); }
static inline vmask m_ge(vec a, vec b) { return m_le(b, a); }
static inline vmask m_and(vmask a, vmask b) { return (vmask)(a & b); }
static inline vmask m_or(vmask a, vmask b) { return (vmask)(a | b); }
static inline vmask m_xor(vmask a, vmask b) { return (vmask)(a ^ b); }
static inline vmask m_nan(vec x) { return m_ne(x, x); }
static inline vec   v_from01(vmask m) { return v_blend(m, v_k(1), v_k(0)); }
static inline vec   v_sign_bit(vec x) { return (vec)((vint)x & INT32_MIN); }
static inline vec   v_xor(vec a, vec b) { return (vec)((vint)a ^ (vint)b); }
static inline vec   v_or(vec a, vec b) { return (vec)((vint)a | (vint)b); }
/* rounds towards zero; out of range the result is unspecified */
static inline vint  v_to_int(vec x) { return __builtin_convertvector(x, vint); }
static inline vecd  d_least(vecd a, vecd b) { return d_blend(md_lt(a, b), a, b); }
static inline vecd  d_most(vecd a, vecd b) { return d_blend(md_lt(b, a), a, b); }
static inline vecd  d_abs(vecd x) { return (vecd)((vlong)x & INT64_MAX); }

/* ---- half floats: to nearest even; NaN keeps the part of its payload that fits */
typedef uint16_t vhalf __attribute__((vector_size(V_BYTES / 2)));
typedef uint16_t vhalf_at __attribute__((vector_size(V_BYTES / 2), aligned(2), may_alias));

#if CR_ISA == 4                                     /* GCC 12's __builtin_convertvector takes twice the instructions */
static inline vuint u_of_halves(vhalf h) { return (vuint)_mm512_cvtepu16_epi32((__m256i)h); }
static inline vhalf u_to_halves(vuint u) { return (vhalf)_mm512_cvtepi32_epi16((__m512i)u); }
#elif CR_ISA == 3
static inline vuint u_of_halves(vhalf h) { return (vuint)_mm256_cvtepu16_epi32((__m128i)h); }
static inline vhalf u_to_halves(vuint u) {
    const __m256i pairs = _mm256_packus_epi32((__m256i)u, (__m256i)u);
    return (vhalf)_mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08));
}
#else
static inline vuint u_of_halves(vhalf h) { return __builtin_convertvector(h, vuint); }
static inline vhalf u_to_halves(vuint u) { return __builtin_convertvector(u, vhalf); }
#endif
static inline vec   bf16_widen(vhalf h) { return (vec)(u_of_halves(h) << 16); }
static inline vuint bf16_bits(vec x) {              /* in the upper half; the lower one is anything */
    const vuint u = (vuint)x;
    return (vuint)v_blend(m_nan(x), (vec)(u | 0x400000u), (vec)(u + 0x7fffu + ((u >> 16) & 1u)));
}
static inline vec   bf16_rounded(vec x) { return (vec)(bf16_bits(x) & 0xffff0000u); }
static inline vhalf bf16_narrow(vec x) { return u_to_halves(bf16_bits(x) >> 16); }

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

/* Lanes one by one, for rare cases. */
static inline vec v_each(vec x, double (*f)(double)) {
    for (int i = 0; i < V; i++) x[i] = (float)f((double)x[i]);
    return x;
}

/* r[i] = lane index(i) of a and b one after the other; the index folds to constants. */
#ifdef __clang__                                    /* no __builtin_shuffle; it compiles the loop to a shuffle */
#define SHUFFLE(r, LANES_OF, a, b, index) \
    CR_UNROLL(16) \
    for (int l_ = 0; l_ < LANES_OF; l_++) r[l_] = index[l_] < LANES_OF ? a[index[l_]] : b[index[l_] - LANES_OF]
#else
#define SHUFFLE(r, LANES_OF, a, b, index) r = __builtin_shuffle(a, b, index)
#endif

/* x[0] = a fixed tree over the lanes, halves first: the same bits every time.  The loops fold to shuffles. */
#define FOLD_LANES(VECTOR, LANES_OF, x, op) do {                                                    \
        CR_UNROLL(4) for (int half_ = LANES_OF / 2; half_; half_ /= 2) {                            \
            VECTOR upper_ = x;                                                                      \
            CR_UNROLL(16) for (int j_ = 0; j_ < LANES_OF; j_++) upper_[j_] = x[(j_ + half_) % LANES_OF]; \
            x = op(x, upper_);                                                                      \
        }                                                                                           \
    } while (0)
static inline vec v_plus(vec a, vec b) { return a + b; }
static inline float v_sum_lanes(vec x) {
    FOLD_LANES(vec, V, x, v_plus);
    return x[0];
}

#endif
