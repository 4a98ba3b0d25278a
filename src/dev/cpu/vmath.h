/* vmath.h - every floating instruction of elementwise programs on one vector of f32, named v_<opcode>.
 *
 * The error is at most 2 ulp; results follow IEEE 754 for NaN, infinities, signed zeros and denormals
 * (tests/test_vmath.c measures both against double).  The functions that dominate networks (exp, log,
 * tanh, sigmoid, erf, sin, cos, expm1) compute in f32; the others compute in f64, half a vector at a
 * time, and round once.  Coefficients come from tools/fit_vmath.py. */
#ifndef CR_VMATH_H
#define CR_VMATH_H

#include "vec.h"

/* ---- arithmetic, rounding, comparison */
static inline vec v_add(vec a, vec b) { return a + b; }
static inline vec v_sub(vec a, vec b) { return a - b; }
static inline vec v_mul(vec a, vec b) { return a * b; }
static inline vec v_div(vec a, vec b) { return a / b; }
static inline vec v_neg(vec a) { return (vec)((vint)a ^ INT32_MIN); }
static inline vec v_abs(vec a) { return (vec)((vint)a & INT32_MAX); }
static inline vec v_copysign(vec a, vec sign) { return v_or(v_abs(a), v_sign_bit(sign)); }
static inline vec v_max(vec a, vec b) { return v_blend(m_nan(a), a, v_most(a, b)); }
static inline vec v_min(vec a, vec b) { return v_blend(m_nan(a), a, v_least(a, b)); }
static inline vec v_sign(vec a) { return v_from01(m_gt(a, v_k(0))) - v_from01(m_lt(a, v_k(0))); }
static inline vec v_rsqrt(vec a) { return v_k(1) / v_sqrt(a); }
static inline vec v_isnan(vec a) { return v_from01(m_nan(a)); }
static inline vec v_isinf(vec a) { return v_from01(m_eq(v_abs(a), v_k(INFINITY))); }
static inline vec v_eq(vec a, vec b) { return v_from01(m_eq(a, b)); }
static inline vec v_ne(vec a, vec b) { return v_from01(m_ne(a, b)); }
static inline vec v_lt(vec a, vec b) { return v_from01(m_lt(a, b)); }
static inline vec v_le(vec a, vec b) { return v_from01(m_le(a, b)); }
static inline vec v_gt(vec a, vec b) { return v_from01(m_gt(a, b)); }
static inline vec v_ge(vec a, vec b) { return v_from01(m_ge(a, b)); }
static inline vec v_f16(vec a) { return f16_widen(f16_narrow(a)); }
static inline vec v_bf16(vec a) { return bf16_rounded(a); }
static inline vec v_sel(vec c, vec a, vec b) { return v_blend(m_ne(c, v_k(0)), a, b); }

/* c[0] + c[1] x + ... : Horner; unrolled, n is always a constant */
static ALWAYS_INLINE vec v_poly(vec x, const float *c, int n) {
    vec y = v_k(c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = v_fma(y, x, v_k(c[i]));
    return y;
}
static ALWAYS_INLINE vecd d_poly(vecd x, const double *c, int n) {
    vecd y = d_k(c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = d_fma(y, x, d_k(c[i]));
    return y;
}
#define V_POLY(x, ...) v_poly(x, (const float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))
#define D_POLY(x, ...) d_poly(x, (const double[]){__VA_ARGS__}, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

/* ln 2 in two parts: the first has 16 bits, so that n times it is exact for |n| < 256 */
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW  1.428606820309417e-06f

/* ---- exp.  The functions with most callers are inlined by force: a call for each vector takes 20 % more time. */

/* 1.5 * 2^23: the lowest bits of its sum with a whole number are that number's */
#define WHOLE_BITS 0x1.8p23f

/* p 2^n for a whole n in [-252, 252], rounded once */
static inline vec v_scale(vec p, vec n) {
#if CR_ISA == 4
    return _mm512_scalef_ps(p, n);
#else
    vuint k = (vuint)(n + (WHOLE_BITS + 2 * 127)), half = k >> 1;      /* two exponents, each with its bias of 127 */
    return p * (vec)(half << 23) * (vec)((k - half) << 23);
#endif
}

/* the same for n in [-126, 127] */
static inline vec v_scale_normal(vec p, vec n) {
#if CR_ISA == 4
    return _mm512_scalef_ps(p, n);
#else
    return p * (vec)((vuint)(n + (WHOLE_BITS + 127)) << 23);
#endif
}

/* exp(r) - 1 = r + r^2 (...) for |r| <= ln(2) / 2 */
#define EXP_TERMS 4.999999404e-01f, 1.666652113e-01f, 4.166826233e-02f, 8.368674666e-03f, 1.382105751e-03f
static inline vec v_expm1_core(vec r) {
    vec q = V_POLY(r, EXP_TERMS);
    return v_fma(r * r, q, r);
}

/* x = n ln 2 + r */
static inline vec v_exp_reduce(vec x, vec *n) {
    *n = v_round(x * 1.44269504f);
    return v_fnma(*n, v_k(LN2_LOW), v_fnma(*n, v_k(LN2_HIGH), x));
}

static ALWAYS_INLINE vec v_exp(vec x) {
    x = v_most(v_k(-104), v_least(v_k(89), x));     /* this order keeps NaN; the scaling gives 0 and infinity */
    vec n, r = v_exp_reduce(x, &n);
    return v_scale(v_expm1_core(r) + 1.0f, n);
}

static inline vec v_exp2(vec x) {
    x = v_most(v_k(-151), v_least(v_k(129), x));
    vec n = v_round(x), r = x - n;
    vec q = V_POLY(r, 6.931471825e-01f, 2.402264774e-01f, 5.550359562e-02f, 9.618499316e-03f, 1.339096925e-03f,
                   1.532926399e-04f);
    return v_scale(v_fma(r, q, v_k(1)), n);
}

/* exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), computed as twice half of it: 2^128 would overflow */
static inline vec v_expm1(vec x) {
    vec c = v_most(v_k(-30), v_least(v_k(89), x)), n, r = v_exp_reduce(c, &n);
    vec half = v_scale(v_k(0.5f), n);
    vec y = v_fma(half, v_expm1_core(r), half - 0.5f) * 2.0f;
    return v_blend(m_lt(v_abs(x), v_k(0x1p-25f)), x, y);       /* keeps -0 and denormals */
}

/* z = exp(-|x|) never overflows.  The result is 1 / (1 + z) for x >= 0, else z / (1 + z).  There the
 * error of z (1.01 ulp, which the quotient can double) would exceed 2 ulp.  So 1 + z is kept as s + lost,
 * and the lost part corrects the quotient. */
static ALWAYS_INLINE vec v_sigmoid(vec x) {
    vec c = v_most(v_k(-104), v_neg(v_abs(x))), n = v_round(c * 1.44269504f);
    vec low = v_k(LN2_LOW), t = v_fnma(n, v_k(LN2_HIGH), c), r = v_fnma(n, low, t), rest = v_fnma(n, low, t - r);
    vec q = V_POLY(r, EXP_TERMS), one_r = r + 1.0f, small = v_fma(r * r, q, rest + (r - (one_r - 1.0f)));
    vec s = one_r + small, lost = small - (s - one_r), z = v_scale(s, n);
    vec d = z + 1.0f, y = v_blend(m_lt(x, v_k(0)), z, v_k(1)) / d;
    /* lost / s, with 1 / s about 2 - s */
    return v_blend(m_lt(x, v_k(0)), v_fma(y, lost * (2.0f - s), y), y);
}

/* an odd polynomial up to 0.625, then 1 - 2 / (exp(2|x|) + 1) */
static ALWAYS_INLINE vec v_tanh(vec x) {
    vec a = v_abs(x), z = x * x, n;
    vec p = V_POLY(z, -3.333328068e-01f, 1.333140880e-01f, -5.373695120e-02f, 2.063007094e-02f, -5.694865249e-03f);
    vec small = v_fma(a * z, p, a);
    vec r = v_exp_reduce(v_least(v_k(10), a) * 2.0f, &n);
    vec e = v_scale_normal(v_expm1_core(r) + 1.0f, n);
    return v_or(v_blend(m_lt(a, v_k(0.625f)), small, 1.0f - 2.0f / (e + 1.0f)), v_sign_bit(x));
}

/* ---- log */

/* log(x) = log1p(f) + e ln 2 with 1 + f in [sqrt(1/2), sqrt(2)] */
static ALWAYS_INLINE vec v_log(vec x) {
#if CR_ISA == 4                                     /* getexp and getmant handle denormals, 0 and infinity */
    vec m = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src), e = _mm512_getexp_ps(x);
    vmask big = m_gt(m, v_k(1.41421356f));
    m = _mm512_mask_mul_ps(m, big, m, v_k(0.5f));
    e = _mm512_mask_add_ps(e, big, e, v_k(1));
#else
    vmask tiny = m_lt(x, v_k(0x1p-126f));
    vuint bits = (vuint)v_blend(tiny, x * 0x1p23f, x);
    vint k = (vint)(bits - 0x3f3504f3) >> 23;
    vec m = (vec)(bits - ((vuint)k << 23)), e = __builtin_convertvector(k, vec) - v_blend(tiny, v_k(23), v_k(0));
#endif
    vec f = m - 1.0f, z = f * f;
    vec p = V_POLY(f, 3.333331347e-01f, -2.500000894e-01f, 2.000207156e-01f, -1.666799039e-01f, 1.422036141e-01f,
                   -1.240620315e-01f, 1.188348532e-01f, -1.167025194e-01f, 6.749600172e-02f);
    vec y = v_fnma(z, v_k(0.5f), v_fma(e, v_k(LN2_LOW), f * z * p));
    y = v_fma(e, v_k(LN2_HIGH), f + y);
    y = v_blend(m_lt(x, v_k(INFINITY)), y, x);      /* infinity and NaN are their own logarithms */
    y = v_blend(m_eq(x, v_k(0)), v_k(-INFINITY), y);
    return v_blend(m_lt(x, v_k(0)), v_k(NAN), y);
}

/* ---- functions of vec by f64: V_FROM_D applies a function of vecd to each half */
#define V_FROM_D(name, d) static inline vec name(vec x) { return d_pack(d(d_lo(x)), d(d_hi(x))); }

static const double half_pi = 1.5707963267948966;
#define D_SHIFT 0x1.8p52                            /* adding it rounds to an integer and leaves that in the low bits */

/* exp(x) to 1e-13, |x| <= 700 */
static inline vecd d_exp(vecd x) {
    vecd t = d_fma(x, d_k(1.4426950408889634), d_k(D_SHIFT)), n = t - D_SHIFT;
    vecd r = d_fnma(n, d_k(1.9082149292705877e-10), d_fnma(n, d_k(0x1.62e42feep-1), x));
    vecd q = D_POLY(r, 4.99999999996635913e-01, 1.66666666672664082e-01, 4.16666669627172651e-02,
                    8.33333309471987783e-03, 1.38888110614216755e-03, 1.98415393809672118e-04, 2.48808522598766027e-05,
                    2.74930243217500295e-06);
    return (d_fma(r * r, q, r) + 1.0) * (vecd)(((vulong)t + 1023) << 52);
}

/* log(x) to 1e-13 for finite x that are normal in f64 and positive */
static inline vecd d_log(vecd x) {
    /* exponent + 1023, m >= sqrt(1/2) */
    vulong bits = (vulong)x, biased = (bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd)) >> 52;
    vecd e = (vecd)(biased | 0x4330000000000000) - (0x1p52 + 1023);
    vecd m = (vecd)(bits - (biased << 52) + 0x3ff0000000000000);
    vecd s = (m - 1.0) / (m + 1.0), z = s * s;
    vecd p = D_POLY(z, 6.66666666757722792e-01, 3.99999956314282923e-01, 2.85721081629775608e-01,
                    2.21762293435097485e-01, 1.95835799016710999e-01);
    return d_fma(s, d_k(2), d_fma(e, d_k(0.6931471805599453), s * z * p));
}

/* log(1 + u), u >= 0: the rounding error of 1 + u matters only below 2^-12, where two terms of the series suffice */
static inline vecd d_log1p(vecd u) {
    return d_blend(md_lt(u, d_k(0x1p-20)), d_fnma(u * u, d_k(0.5), u), d_log(u + 1.0));
}

/* logarithms of f32 through f64; f32 code handles log(0), log(inf) and log(x < 0) */
static inline vec v_log_edges(vec x, vec y) {
    y = v_blend(m_lt(x, v_k(INFINITY)), y, x);
    y = v_blend(m_eq(x, v_k(0)), v_k(-INFINITY), y);
    return v_blend(m_lt(x, v_k(0)), v_k(NAN), y);
}
static inline vecd d_log2_of(vecd x) { return d_log(x) * 1.4426950408889634; }
static inline vecd d_log10_of(vecd x) { return d_log(x) * 0.4342944819032518; }
V_FROM_D(v_log2_inside, d_log2_of)
V_FROM_D(v_log10_inside, d_log10_of)
static inline vec v_log2(vec x) { return v_log_edges(x, v_log2_inside(x)); }
static inline vec v_log10(vec x) { return v_log_edges(x, v_log10_inside(x)); }

static inline vecd d_log1p_of(vecd x) {
    return d_blend(md_lt(d_abs(x), d_k(0x1p-20)), d_fnma(x * x, d_k(0.5), x), d_log(x + 1.0));
}
V_FROM_D(v_log1p_inside, d_log1p_of)
static inline vec v_log1p(vec x) {
    vec y = v_blend(m_lt(x, v_k(INFINITY)), v_log1p_inside(x), x);
    y = v_blend(m_lt(v_abs(x), v_k(0x1p-30f)), x, y);
    y = v_blend(m_eq(x, v_k(-1)), v_k(-INFINITY), y);
    return v_blend(m_lt(x, v_k(-1)), v_k(NAN), y);
}

/* ---- hyperbolic functions */

/* up to 1: five terms of the series (error 2e-10), because exp(x) - exp(-x) cancels there */
static inline vecd d_sinh(vecd x) {
    vecd c = d_most(d_k(-100), d_least(d_k(100), x)), z = c * c, e = d_exp(c);
    vecd small = d_fma(c * z, D_POLY(z, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800), c);
    return d_blend(md_lt(d_abs(c), d_k(1)), small, (e - 1.0 / e) * 0.5);
}
static inline vecd d_cosh(vecd x) {
    vecd e = d_exp(d_least(d_k(100), d_abs(x)));
    return (e + 1.0 / e) * 0.5;
}
/* a >= 0 */
static inline vecd d_asinh_of(vecd a) { return d_log1p(a + a * a / (d_sqrt(d_fma(a, a, d_k(1))) + 1.0)); }
static inline vecd d_acosh_of(vecd x) { vecd t = x - 1.0; return d_log1p(t + d_sqrt(t * (x + 1.0))); }
/* 0 <= a < 1 */
static inline vecd d_atanh_of(vecd a) { return d_log1p(2.0 * a / (1.0 - a)) * 0.5; }
V_FROM_D(v_sinh_inside, d_sinh)
V_FROM_D(v_cosh, d_cosh)
V_FROM_D(v_asinh_inside, d_asinh_of)
V_FROM_D(v_acosh_inside, d_acosh_of)
V_FROM_D(v_atanh_inside, d_atanh_of)

/* f(x) = x for tiny x: keeps denormals and the sign of 0 */
static inline vec v_odd(vec x, vec y_of_abs) {
    return v_blend(m_lt(v_abs(x), v_k(0x1p-13f)), x, v_copysign(y_of_abs, x));
}

static inline vec v_sinh(vec x) { return v_blend(m_lt(v_abs(x), v_k(0x1p-13f)), x, v_sinh_inside(x)); }
static inline vec v_asinh(vec x) {
    vec a = v_abs(x);
    return v_odd(x, v_blend(m_lt(a, v_k(INFINITY)), v_asinh_inside(a), a));
}
static inline vec v_acosh(vec x) {
    vec y = v_blend(m_lt(x, v_k(INFINITY)), v_acosh_inside(x), x);
    return v_blend(m_lt(x, v_k(1)), v_k(NAN), y);
}
static inline vec v_atanh(vec x) {
    vec a = v_abs(x), y = v_blend(m_eq(a, v_k(1)), v_k(INFINITY), v_k(NAN));
    return v_odd(x, v_blend(m_lt(a, v_k(1)), v_atanh_inside(a), y));
}

/* ---- circular functions */

/* x = n pi/2 + r for |x| <= 2^20: three parts of pi/2, the first two of 33 bits, so that n times them is exact */
static inline vecd d_circle_reduce(vecd x, vlong *n) {
    vecd t = d_fma(x, d_k(0.6366197723675814), d_k(D_SHIFT)), k = t - D_SHIFT;
    *n = (vlong)t;
    return d_fnma(k, d_k(2.02226624879595063154e-21), d_fnma(k, d_k(6.07710050630396597660e-11),
                                                             d_fnma(k, d_k(1.57079632673412561417e+00), x)));
}
static inline vecd d_sin_core(vecd r) {
    vecd z = r * r;
    vecd p = D_POLY(z, -1.66666666666303059e-01, 8.33333332506958069e-03, -1.98412637240639322e-04,
                    2.75553386665510116e-06, -2.47603815345931090e-08);
    return d_fma(r * z, p, r);
}
static inline vecd d_cos_core(vecd r) {
    vecd z = r * r;
    vecd p = D_POLY(z, 4.16666666194418639e-02, -1.38888834958545327e-03, 2.47994590484047682e-05,
                    -2.72056632198153485e-07);
    return d_fma(z * z, p, z * -0.5) + 1.0;
}
static inline vecd d_tan(vecd x) {
    vlong n;
    vecd r = d_circle_reduce(x, &n), s = d_sin_core(r), c = d_cos_core(r);
    dmask odd = md_bit0(n);
    return d_blend(odd, -c, s) / d_blend(odd, s, c);
}
V_FROM_D(v_tan_inside, d_tan)
static __attribute__((noinline)) vec v_sin_each(vec x) { return v_each(x, sin); }
static __attribute__((noinline)) vec v_cos_each(vec x) { return v_each(x, cos); }
static __attribute__((noinline)) vec v_tan_each(vec x) { return v_each(x, tan); }

static inline vec v_tan(vec x) {
    const vmask far = m_not(m_lt(v_abs(x), v_k(0x1p20f)));
    const vec y = v_blend(m_lt(v_abs(x), v_k(0x1p-13f)), x, v_tan_inside(x));
    return __builtin_expect(m_any(far), 0) ? v_blend(far, v_tan_each(x), y) : y;
}

/* n = round(x / (pi/2)), r = x - n pi/2.  With fma, x - n P1 is exact; without, f64 does it */
static inline vec v_circle_reduce(vec x, vint *n) {
    vec k = v_round(x * 0.636619772f);
    *n = v_to_int(k);
#if V_FMA
    return v_fnma(k, v_k(-1.71512489e-15f), v_fnma(k, v_k(-4.37113883e-08f), v_fnma(k, v_k(1.57079637f), x)));
#else
    vecd kl = d_lo(k), kh = d_hi(k);
    return d_pack(d_lo(x) - kl * 1.57079632673412561417e+00 - kl * 6.07710050630396597660e-11,
                  d_hi(x) - kh * 1.57079632673412561417e+00 - kh * 6.07710050630396597660e-11);
#endif
}

/* sin(r + quarter pi/2): quarters 1 and 3 are cosines, 2 and 3 negative */
static inline vec v_circle(vec r, vint quarter) {
    vec z = r * r;
    vec s = v_fma(r * z, V_POLY(z, -1.666665524e-01f, 8.332189173e-03f, -1.951828453e-04f), r);
    vec c = v_fma(z * z, V_POLY(z, 4.166664556e-02f, -1.388731063e-03f, 2.443256381e-05f), z * -0.5f) + 1.0f;
    return v_xor(v_blend(m_bit(quarter, 0), c, s), v_sign_bit((vec)((vuint)quarter << 30)));
}

/* A lane's result depends on that lane only: numbers that lie next to it may be anything. */
static inline vec v_sin(vec x) {
    const vmask far = m_not(m_lt(v_abs(x), v_k(100000)));
    vint n;
    vec r = v_circle_reduce(x, &n);
    const vec y = v_blend(m_lt(v_abs(x), v_k(0x1p-13f)), x, v_circle(r, n));
    return __builtin_expect(m_any(far), 0) ? v_blend(far, v_sin_each(x), y) : y;
}

static inline vec v_cos(vec x) {
    const vmask far = m_not(m_lt(v_abs(x), v_k(100000)));
    vint n;
    vec r = v_circle_reduce(x, &n);
    const vec y = v_circle(r, n + 1);
    return __builtin_expect(m_any(far), 0) ? v_blend(far, v_cos_each(x), y) : y;
}

/* atan(y / x) in [0, pi/2] for y, x >= 0, not both 0 or infinite: computed from the smaller over the
 * larger; a quotient above 0.4142 is reduced by pi/4 */
static inline vecd d_atan_ratio(vecd y, vecd x) {
    vecd low = d_least(x, y), high = d_most(x, y);
    dmask wide = md_lt(high * 0.4142135623730950, low);
    vecd t = d_blend(wide, low - high, low) / d_blend(wide, low + high, high), z = t * t;
    vecd p = D_POLY(z, -3.33333332957335582e-01, 1.99999943269687980e-01, -1.42854236414262648e-01,
                    1.11040041660440791e-01, -8.99684246134451193e-02, 6.99122666453279029e-02,
                    -3.79244592575584474e-02);
    vecd a = d_fma(t * z, p, t) + d_blend(wide, d_k(half_pi / 2), d_k(0));
    return d_blend(md_lt(x, y), half_pi - a, a);
}
static inline vecd d_atan_of(vecd a) { return d_atan_ratio(a, d_k(1)); }                                   /* a >= 0 */
/* 0 <= a <= 1 */
static inline vecd d_asin_of(vecd a) { return d_atan_ratio(a, d_sqrt((1.0 - a) * (1.0 + a))); }
static inline vecd d_acos_of(vecd x) {
    vecd a = d_abs(x), angle = d_atan_ratio(d_sqrt((1.0 - a) * (1.0 + a)), a);
    return d_blend(md_lt(x, d_k(0)), 2 * half_pi - angle, angle);
}
V_FROM_D(v_atan_inside, d_atan_of)
V_FROM_D(v_asin_inside, d_asin_of)
V_FROM_D(v_acos_inside, d_acos_of)

static inline vec v_atan(vec x) {
    vec a = v_abs(x), y = v_atan_inside(v_least(v_k(0x1p40f), a));      /* from 2^40 on: pi/2 */
    return v_odd(x, y);
}
static inline vec v_asin(vec x) {
    vec a = v_abs(x);
    return v_odd(x, v_blend(m_le(a, v_k(1)), v_asin_inside(a), v_k(NAN)));
}
static inline vec v_acos(vec x) { return v_blend(m_le(v_abs(x), v_k(1)), v_acos_inside(x), v_k(NAN)); }

/* the angle stays f64 until it is subtracted from pi */
static inline vecd d_atan2_of(vecd y, vecd x, vecd side) {
    vecd angle = d_atan_ratio(y, x);
    return d_blend(md_lt(side, d_k(0)), 2 * half_pi - angle, angle);
}
static inline vec v_atan2(vec y, vec x) {
    vec ay = v_abs(y), ax = v_abs(x), side = v_copysign(v_k(1), x);
    vmask corners = m_and(m_eq(ay, v_k(INFINITY)), m_eq(ax, v_k(INFINITY)));
    ay = v_blend(corners, v_k(1), ay);
    ax = v_blend(m_or(corners, m_and(m_eq(ay, v_k(0)), m_eq(ax, v_k(0)))), v_k(1), ax);      /* 0 / 0: as 0 / 1 */
    vec angle = d_pack(d_atan2_of(d_lo(ay), d_lo(ax), d_lo(side)), d_atan2_of(d_hi(ay), d_hi(ax), d_hi(side)));
    return v_copysign(v_blend(m_or(m_nan(y), m_nan(x)), v_k(NAN), angle), y);
}

/* ---- error function */

/* an odd polynomial up to 1, then 1 - 2^log2(erfc(a)) with log2(erfc(a)) = a times a polynomial; 1 from
 * 3.93 on.  The power is at most 0.16 of the result, so a shorter polynomial than v_exp2's suffices. */
static inline vec v_erf(vec x) {
    vec a = v_abs(x), z = x * x;
    vec p = V_POLY(z, 1.283791661e-01f, -3.761262596e-01f, 1.128357872e-01f, -2.685334720e-02f, 5.187162198e-03f,
                   -7.997853099e-04f, 7.806903159e-05f), small = v_fma(a, p, a);
    vec c = v_least(v_k(3.93f), a);
    vec t = c * V_POLY(c, -1.628052592e+00f, -9.173107743e-01f, -1.516507566e-01f, 3.289139643e-02f,
                           -4.597853404e-03f, 3.039026924e-04f);
    vec n = v_round(t), r = t - n;
    vec q = V_POLY(r, 6.931470037e-01f, 2.402224690e-01f, 5.550710857e-02f, 9.671292268e-03f, 1.326953759e-03f);
    vec large = 1.0f - v_scale_normal(v_fma(r, q, v_k(1)), n);
    return v_or(v_blend(m_lt(a, v_k(1)), small, large), v_sign_bit(x));
}

/* erfc(a) = exp(-a^2) g(a) / (1 + 2a) with g a polynomial in (a - 3) / (a + 3); erfc(-a) = 2 - erfc(a) */
static inline vecd d_erfc(vecd x) {
    vecd a = d_least(d_k(10.2), d_abs(x)), u = (a - 3.0) / (a + 3.0);
    vecd g = D_POLY(u, 1.25300805827794948e+00, -1.35621106408688269e-01, -4.75622958635498680e-02,
                    1.29645175148434294e-01, -1.19273611183705497e-01, 6.83077726198335622e-02,
                    -2.37712437033521032e-02, 2.53085399923877507e-03, 1.89349438699606010e-03,
                    -7.82203697978000462e-04, -1.19922894361991172e-04, 1.19770255302583450e-04,
                    2.17514038160713499e-05, -4.03150595865380364e-06);
    vecd y = d_exp(-a * a) * g / d_fma(a, d_k(2), d_k(1));
    return d_blend(md_lt(x, d_k(0)), 2.0 - y, y);
}
V_FROM_D(v_erfc, d_erfc)

/* ---- two operands */

/* exp(b log|a|): the logarithm is good to 1e-13 and the exponent at most 104, so the product is good to 1e-11 */
static inline vecd d_pow_of(vecd a, vecd b) {
    return d_exp(d_most(d_k(-200), d_least(d_k(200), b * d_log(a))));
}
static inline vec v_pow(vec a, vec b) {
    vec size = v_abs(a), zero = v_k(0), inf = v_k(INFINITY), ab = v_abs(b);
    vec y = d_pack(d_pow_of(d_lo(size), d_lo(b)), d_pow_of(d_hi(size), d_hi(b)));
    /* 0 or infinity, by the signs of log and b */
    vmask ends = m_or(m_eq(size, zero), m_eq(size, inf));
    y = v_blend(ends, v_blend(m_xor(m_eq(size, zero), m_lt(b, zero)), zero, inf), y);
    vmask far = m_and(m_eq(ab, inf), m_ne(size, v_k(1)));
    y = v_blend(far, v_blend(m_xor(m_lt(size, v_k(1)), m_lt(b, zero)), zero, inf), y);
    vmask whole = m_eq(v_trunc(b), b), odd = m_and(whole, m_ne(v_trunc(b * 0.5f), b * 0.5f));
    y = v_blend(m_and(m_lt(a, zero), m_not(m_or(whole, m_eq(size, inf)))), v_k(NAN), y);
    y = v_blend(odd, v_xor(y, v_sign_bit(a)), y);
    y = v_blend(m_and(m_eq(size, v_k(1)), m_eq(ab, inf)), v_k(1), y);
    y = v_blend(m_or(m_nan(a), m_nan(b)), v_k(NAN), y);
    return v_blend(m_or(m_eq(a, v_k(1)), m_eq(b, zero)), v_k(1), y);
}

/* The quotient of two f32 equals an integer n < 2^28 or differs from it by at least 2^-24, so f64 rounds
 * it to the right side. */
static inline vecd d_fdiv_of(vecd a, vecd b) { return d_floor(a / b); }
static inline vecd d_tdiv_of(vecd a, vecd b) { return d_trunc(a / b); }
/* As in Python: a finite number over an infinity of the other sign is -1; infinity over a finite number
 * is NaN */
static inline vec v_fdiv(vec a, vec b) {
    vec y = d_pack(d_fdiv_of(d_lo(a), d_lo(b)), d_fdiv_of(d_hi(a), d_hi(b))), inf = v_k(INFINITY), zero = v_k(0);
    vmask below = m_or(m_and(m_lt(a, zero), m_eq(b, inf)), m_and(m_lt(zero, a), m_eq(b, -inf)));
    y = v_blend(below, v_k(-1), y);
    return v_blend(m_and(m_eq(v_abs(a), inf), m_ne(b, zero)), v_k(NAN), y);
}
static inline vec v_tdiv(vec a, vec b) { return d_pack(d_tdiv_of(d_lo(a), d_lo(b)), d_tdiv_of(d_hi(a), d_hi(b))); }

static __attribute__((noinline)) vec v_fmod_each(vec a, vec b) {
    for (int i = 0; i < V; i++) a[i] = fmodf(a[i], b[i]);
    return a;
}
/* a - trunc(a / b) b is exact in f64 while the quotient has at most 29 bits; a, b >= 0 */
static inline vecd d_fmod_of(vecd a, vecd b) { return d_fnma(d_trunc(a / b), b, a); }
static inline vec v_fmod(vec a, vec b) {
    vec ax = v_abs(a), bx = v_abs(b);
    const vmask far = m_not(m_lt(ax, bx * 0x1p28f));        /* also NaN, infinities and b = 0 */
    vec r = d_pack(d_fmod_of(d_lo(ax), d_lo(bx)), d_fmod_of(d_hi(ax), d_hi(bx)));
    const vec y = v_copysign(v_blend(m_eq(bx, v_k(INFINITY)), ax, r), a);
    return __builtin_expect(m_any(far), 0) ? v_blend(far, v_fmod_each(a, b), y) : y;
}
/* the sign of b as in Python's %, also for a zero result */
static inline vec v_rem(vec a, vec b) {
    vec r = v_fmod(a, b);
    vmask other = m_xor(m_lt(r, v_k(0)), m_lt(b, v_k(0)));
    return v_blend(m_eq(r, v_k(0)), v_sign_bit(b), v_blend(other, r + b, r));
}

#endif
