/* elementwise_isa.c - the instructions of elementwise programs over blocks: f32 in vectors of our own
 * functions, f64 likewise where vmath_f64.h has one, else in plain C over libm; and the compiled
 * programs of fused.gen.h.  elementwise.c cuts the blocks. */
#include "isa.h"
#include "vmath_f64.h"

#define LANES V
#include "fused.gen.h"

/* ---- f32 */
#define F32_1(op) static void f32_##op(float *y, const float *a, const float *b, const float *c, int64_t n) { \
    (void)b; (void)c; for (int64_t i = 0; i < n; i += V) STORE(y + i, v_##op(FETCH(a + i))); }
#define F32_2(op) static void f32_##op(float *y, const float *a, const float *b, const float *c, int64_t n) { \
    (void)c; for (int64_t i = 0; i < n; i += V) STORE(y + i, v_##op(FETCH(a + i), FETCH(b + i))); }
#define F32_3(op) static void f32_##op(float *y, const float *a, const float *b, const float *c, int64_t n) { \
    for (int64_t i = 0; i < n; i += V) STORE(y + i, v_##op(FETCH(a + i), FETCH(b + i), FETCH(c + i))); }

F32_2(add) F32_2(sub) F32_2(mul) F32_2(div) F32_1(neg) F32_1(abs) F32_1(sign) F32_2(copysign) F32_2(max) F32_2(min)
F32_2(pow) F32_2(fmod) F32_2(rem) F32_2(fdiv) F32_2(tdiv)
F32_1(exp) F32_1(exp2) F32_1(expm1) F32_1(log) F32_1(log2) F32_1(log10) F32_1(log1p) F32_1(sqrt) F32_1(rsqrt)
F32_1(sin) F32_1(cos) F32_1(tan) F32_1(asin) F32_1(acos) F32_1(atan) F32_2(atan2)
F32_1(sinh) F32_1(cosh) F32_1(tanh) F32_1(asinh) F32_1(acosh) F32_1(atanh) F32_1(erf) F32_1(erfc) F32_1(sigmoid)
F32_1(floor) F32_1(ceil) F32_1(round) F32_1(trunc) F32_1(isnan) F32_1(isinf)
F32_2(eq) F32_2(ne) F32_2(lt) F32_2(le) F32_2(gt) F32_2(ge) F32_3(sel)

/* ---- f64 */
static inline double max_f64(double a, double b) { return isnan(a) || a > b ? a : b; }
static inline double min_f64(double a, double b) { return isnan(a) || a < b ? a : b; }
static inline double rem_f64(double a, double b) {
    double r = fmod(a, b);
    return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}
/* The floor of the exact quotient, which floor(a / b) misses where the division rounds up to a whole number. */
static inline double fdiv_f64(double a, double b) {
    if (b == 0) return floor(a / b);
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    return q == 0 ? copysign(0.0, a / b) : round(q);
}

#define F64(op, expression) static void f64_##op(double *y, const double *a, const double *b, const double *c, \
    int64_t n) { \
    (void)b; (void)c; for (int64_t i = 0; i < n; i++) y[i] = expression; }

F64(add, a[i] + b[i])
F64(sub, a[i] - b[i]) F64(mul, a[i] * b[i]) F64(div, a[i] / b[i]) F64(neg, -a[i]) F64(abs, fabs(a[i]))
    F64(sign, (a[i] > 0) - (a[i] < 0)) F64(copysign, copysign(a[i], b[i])) F64(max, max_f64(a[i], b[i]))
        F64(min, min_f64(a[i], b[i])) F64(pow, pow(a[i], b[i])) F64(fmod, fmod(a[i], b[i]))
            F64(rem, rem_f64(a[i], b[i])) F64(fdiv, fdiv_f64(a[i], b[i])) F64(tdiv, trunc(a[i] / b[i]))
                F64(exp2, exp2(a[i])) F64(log2, log2(a[i])) F64(log10, log10(a[i])) F64(sqrt, sqrt(a[i]))
                    F64(rsqrt, 1 / sqrt(a[i])) F64(sin, sin(a[i])) F64(cos, cos(a[i])) F64(tan, tan(a[i]))
                        F64(asin, asin(a[i])) F64(acos, acos(a[i])) F64(atan, atan(a[i])) F64(atan2, atan2(a[i], b[i]))
                            F64(sinh, sinh(a[i])) F64(cosh, cosh(a[i])) F64(asinh, asinh(a[i])) F64(acosh, acosh(a[i]))
                                F64(atanh, atanh(a[i])) F64(erf, erf(a[i])) F64(erfc, erfc(a[i]))
                                    F64(floor, floor(a[i])) F64(ceil, ceil(a[i])) F64(round, rint(a[i]))
                                        F64(trunc, trunc(a[i])) F64(isnan, isnan(a[i]) != 0)
                                            F64(isinf, isinf(a[i]) != 0) F64(eq, a[i] == b[i]) F64(ne, a[i] != b[i])
                                                F64(lt, a[i] < b[i]) F64(le, a[i] <= b[i]) F64(gt, a[i] > b[i])
                                                    F64(ge, a[i] >= b[i]) F64(sel, a[i] != 0 ? b[i] : c[i])

/* By vectors; the last, partial one goes through a whole one on the stack. */
    typedef double vecd_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));
#define F64_V(op) static void f64_##op(double *y, const double *a, const double *b, const double *c, int64_t n) { \
    (void)b; (void)c;                                                                               \
    for (; n >= VD; n -= VD, a += VD, y += VD) *(vecd_at *)y = vd_##op(*(const vecd_at *)a);        \
    vecd rest = {0};                                                                                \
    memcpy(&rest, a, (size_t)n * sizeof *a);                                                        \
    rest = vd_##op(rest);                                                                           \
    memcpy(y, &rest, (size_t)n * sizeof *y); }
F64_V(exp)
F64_V(expm1) F64_V(log) F64_V(log1p) F64_V(tanh) F64_V(sigmoid)

#define BOTH(OP, op) .f32[CR_OP_##OP] = f32_##op, .f64[CR_OP_##OP] = f64_##op

    const struct cr_blocks CR_ISA_NAME(cr_blocks) = {
        .lanes = V,
        BOTH(ADD, add),
        BOTH(SUB, sub),
        BOTH(MUL, mul),
        BOTH(DIV, div),
        BOTH(NEG, neg),
        BOTH(ABS, abs),
        BOTH(SIGN, sign),
        BOTH(COPYSIGN, copysign),
        BOTH(MAX, max),
        BOTH(MIN, min),
        BOTH(POW, pow),
        BOTH(FMOD, fmod),
        BOTH(REM, rem),
        BOTH(FDIV, fdiv),
        BOTH(TDIV, tdiv),
        BOTH(EXP, exp),
        BOTH(EXP2, exp2),
        BOTH(EXPM1, expm1),
        BOTH(LOG, log),
        BOTH(LOG2, log2),
        BOTH(LOG10, log10),
        BOTH(LOG1P, log1p),
        BOTH(SQRT, sqrt),
        BOTH(RSQRT, rsqrt),
        BOTH(SIN, sin),
        BOTH(COS, cos),
        BOTH(TAN, tan),
        BOTH(ASIN, asin),
        BOTH(ACOS, acos),
        BOTH(ATAN, atan),
        BOTH(ATAN2, atan2),
        BOTH(SINH, sinh),
        BOTH(COSH, cosh),
        BOTH(TANH, tanh),
        BOTH(ASINH, asinh),
        BOTH(ACOSH, acosh),
        BOTH(ATANH, atanh),
        BOTH(ERF, erf),
        BOTH(ERFC, erfc),
        BOTH(SIGMOID, sigmoid),
        BOTH(FLOOR, floor),
        BOTH(CEIL, ceil),
        BOTH(ROUND, round),
        BOTH(TRUNC, trunc),
        BOTH(ISNAN, isnan),
        BOTH(ISINF, isinf),
        BOTH(EQ, eq),
        BOTH(NE, ne),
        BOTH(LT, lt),
        BOTH(LE, le),
        BOTH(GT, gt),
        BOTH(GE, ge),
        BOTH(SEL, sel),
        .fused = fused_table,
        .n_fused = sizeof fused_table / sizeof *fused_table,
};
