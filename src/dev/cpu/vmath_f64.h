/* vmath_f64.h - transcendental instructions on one vector of f64, named vd_<opcode>.  As in vmath.h, the
 * error is at most 2 ulp, and results follow IEEE 754 for NaN, infinities, signed zeros and denormals
 * (tests/test_vmath.c compares with long double). */
#ifndef CR_VMATH_F64_H
#define CR_VMATH_F64_H

#include "vmath.h"

#define LN2_HIGH_F64 0x1.62e42feep-1                /* 31 bits: exact times an integer below 2^11 */
#define LN2_LOW_F64  1.9082149292705877e-10

/* y >= 0 */
static inline vecd vd_with_sign(vecd y, vecd x) { return (vecd)((vlong)y | ((vlong)x & INT64_MIN)); }

/* n is an integer in f64: the low bits of n + D_SHIFT hold it */
static inline vecd vd_round(vecd x) { return (x + D_SHIFT) - D_SHIFT; }
static inline vulong vd_whole(vecd n) { return (vulong)(n + D_SHIFT) - (vulong)d_k(D_SHIFT); }

/* p 2^n for a whole n in [-2044, 2046], rounded once */
static inline vecd vd_scale(vecd p, vecd n) {
#if CR_ISA == 4
    return _mm512_scalef_pd(p, n);
#else
    vecd half = vd_round(n * 0.5);
    return p * (vecd)((vd_whole(half) + 1023) << 52) * (vecd)((vd_whole(n - half) + 1023) << 52);
#endif
}

/* x = n ln 2 + r + rest: exp(x) = 2^n exp(r + rest), and q with exp(r) - 1 = r + r^2 q */
typedef struct vd_power { vecd n, r, rest, q; } vd_power;
static inline vd_power vd_power_of(vecd x) {
    vecd low = d_k(LN2_LOW_F64), n = d_fma(x, d_k(1.4426950408889634), d_k(D_SHIFT)) - D_SHIFT;
    vecd t = d_fnma(n, d_k(LN2_HIGH_F64), x), r = d_fnma(n, low, t), rest = d_fnma(n, low, t - r);
    vecd q = D_POLY(r, 5.00000000000001110e-01, 1.66666666666664576e-01, 4.16666666665282334e-02,
                    8.33333333347308601e-03, 1.38888889439095411e-03, 1.98412695431782226e-04, 2.48014929231025616e-05,
                    2.75575593366722486e-06, 2.76302897011243760e-07, 2.50073776804569910e-08);
    return (vd_power){n, r, rest, q};
}

/* exp(r + rest) = s + lost */
static inline vecd vd_power_sum(vd_power p, vecd *lost) {
    vecd one_r = p.r + 1.0, small = d_fma(p.r * p.r, p.q, p.rest + (p.r - (one_r - 1.0))), s = one_r + small;
    *lost = small - (s - one_r);
    return s;
}

static inline vecd vd_exp(vecd x) {
    x = d_most(d_k(-746), d_least(d_k(710), x));    /* this order keeps NaN; the scaling gives 0 and infinity */
    vd_power p = vd_power_of(x);
    vecd lost;
    return vd_scale(vd_power_sum(p, &lost), p.n);
}

/* half of exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1): 2^1024 would overflow.  lost: its rounding error */
static inline vecd vd_half_expm1(vecd x, vecd *lost) {
    vd_power p = vd_power_of(x);
    vecd half = vd_scale(d_k(0.5), p.n), above = d_fma(p.r * p.r, p.q, p.rest), s = above + p.r;
    *lost = half * (above - (s - p.r));
    return d_fma(half, s, half - 0.5);
}
static inline vecd vd_expm1(vecd x) {
    vecd lost, y = vd_half_expm1(d_most(d_k(-40), d_least(d_k(710), x)), &lost) * 2.0;
    return d_blend(md_lt(d_abs(x), d_k(0x1p-54)), x, y);       /* keeps -0 and denormals */
}

/* a + b; lost: its rounding error (Dekker 1971) */
static inline vecd vd_sum(vecd a, vecd b, vecd *lost) {
    vecd s = a + b;
    *lost = d_least(a, b) - (s - d_most(a, b));
    return s;
}

/* y = e / (e + 1) with e = expm1(2a) / 2; 1 from 20 on.  Without the rounding errors of e and of the sum
 * the result would be 2.3 ulp off.  They correct it: 1 - y is 1 / (e + 1). */
static inline vecd vd_tanh(vecd x) {
    vecd lost, lost_above, e = vd_half_expm1(d_least(d_k(20), d_abs(x)) * 2.0, &lost),
                           d = vd_sum(e, d_k(1), &lost_above), y = e / d;
    return d_blend(md_nan(x), x, vd_with_sign(d_fma(1.0 - y, d_fnma(y, lost_above, lost), y), x));
}

/* As v_sigmoid: the rounding errors of z = exp(-|x|) and 1 + z correct the quotient. */
static inline vecd vd_sigmoid(vecd x) {
    vd_power p = vd_power_of(d_most(d_k(-746), -d_abs(x)));
    vecd lost, lost_below, s = vd_power_sum(p, &lost), z = vd_scale(s, p.n), d = vd_sum(z, d_k(1), &lost_below);
    vecd y = d_blend(md_lt(x, d_k(0)), z, d_k(1)) / d;
    return d_blend(md_lt(x, d_k(0)), d_fma(y, d_fnma(lost_below, 1.0 - y, lost * (2.0 - s)), y), y);
}

/* log(1 + f) = f - (h - s (h + z p)) with h = f^2 / 2, s = f / (2 + f), z = s^2 (Tang 1990); 1 + f in
 * [sqrt(1/2), sqrt(2)] */
static inline vecd vd_log_inside(vecd x) {
    dmask tiny = md_lt(x, d_k(0x1p-1022));
    vulong bits = (vulong)d_blend(tiny, x * 0x1p54, x),
           biased = (bits + (0x3ff0000000000000 - 0x3fe6a09e667f3bcd)) >> 52;
    vecd e = (vecd)(biased | 0x4330000000000000) - (0x1p52 + 1023) - d_blend(tiny, d_k(54), d_k(0));
    vecd f = (vecd)(bits - (biased << 52) + 0x3ff0000000000000) - 1.0, s = f / (f + 2.0), z = s * s, h = f * f * 0.5;
    vecd p = D_POLY(z, 6.66666666666673402e-01, 3.99999999994170075e-01, 2.85714287419104540e-01,
                    2.22221986189006154e-01, 1.81835620904854833e-01, 1.53141046474760484e-01, 1.47954359712906380e-01);
    return d_fma(e, d_k(LN2_HIGH_F64), f - (h - d_fma(s, d_fma(z, p, h), e * LN2_LOW_F64)));
}

/* A logarithm of u at 0, below 0, at infinity and NaN, which are those of x. */
static inline vecd vd_log_edges(vecd u, vecd x, vecd y) {
    y = d_blend(md_lt(u, d_k(INFINITY)), y, x);
    y = d_blend(md_lt(d_abs(u), d_k(0x1p-1074)), d_k(-INFINITY), y);
    return d_blend(md_lt(u, d_k(0)), d_k(NAN), y);
}
static inline vecd vd_log(vecd x) { return vd_log_edges(x, x, vd_log_inside(x)); }

/* log(u) for u = 1 + x, corrected by the rounding error of u */
static inline vecd vd_log1p(vecd x) {
    vecd lost, u = vd_sum(x, d_k(1), &lost);
    vecd y = vd_log_edges(u, x, vd_log_inside(u) + d_blend(md_lt(d_abs(u), d_k(0x1p-1074)), d_k(0), lost / u));
    return d_blend(md_lt(d_abs(x), d_k(0x1p-54)), x, y);
}

#endif
