/* integers.h - the instructions over blocks of one integer type, and their table.  integers_isa.c
 * includes it once for each type.  It defines T, the type; U, the unsigned type in which T wraps (at least
 * 32 bits, because narrower types become int); SIGNED; NAME(x), the name of x for this type. */

#define OP(name, expression) static void NAME(name)(void *to, const void *x, const void *w, const void *z, int64_t n) \
    { \
    T *y = to; const T *a = x, *b = w, *c = z;                                                      \
    (void)b; (void)c;                                                                               \
    CR_INDEPENDENT                                  /* y may be an operand, element for element */  \
    for (int64_t i = 0; i < n; i++) y[i] = (T)(expression); }

OP(add, (U)a[i] + (U)b[i])
OP(sub, (U)a[i] - (U)b[i]) OP(mul, (U)a[i] * (U)b[i]) OP(neg, 0 - (U)a[i]) OP(same, a[i]) OP(no, 0 * a[i])
    OP(max, a[i] > b[i] ? a[i] : b[i]) OP(min, a[i] < b[i] ? a[i] : b[i]) OP(eq, a[i] == b[i]) OP(ne, a[i] != b[i])
        OP(lt, a[i] < b[i]) OP(le, a[i] <= b[i]) OP(gt, a[i] > b[i]) OP(ge, a[i] >= b[i])
            OP(sel, a[i] != 0 ? b[i] : c[i]) OP(band, a[i] & b[i]) OP(bor, a[i] | b[i]) OP(bxor, a[i] ^ b[i])
                OP(bnot, ~a[i])
#define BITS (U)(8 * sizeof(T))
                    OP(shl, (U)b[i] >= BITS ? 0 : (U)a[i] << (U)b[i])
#if SIGNED
                        OP(abs, a[i] < 0 ? 0 - (U)a[i] : (U)a[i]) OP(sign, (a[i] > 0) - (a[i] < 0))
                            OP(copysign, (a[i] < 0) == (b[i] < 0) ? (U)a[i] : 0 - (U)a[i])
                                OP(pow, signed_power(a[i], b[i]))
                                    OP(shr, a[i] >> ((U)b[i] >= BITS ? BITS - 1 : (U)b[i]))

    /* As in ops/nextafter.c: with negative floats in reverse order, neighbours differ by 1; from below, 0 is -0. */
    static inline T NAME(turned)(T i, bool negative) {
    return negative ? (T)(((U)1 << (BITS - 1)) - (U)i) : i;
}
static void NAME(next)(void *to, const void *x, const void *w, int64_t infinity, int64_t n) {
    T *restrict y = to; const T *restrict a = x, *restrict b = w;
    const T last = (T)infinity;
    for (int64_t i = 0; i < n; i++) {
        const T p = NAME(turned)(a[i], a[i] < 0), q = NAME(turned)(b[i], b[i] < 0),
                near = (T)((U)p + (q > p) - (q < p));
        const bool nan = p > last || p < -last || q > last || q < -last;
        y[i] = p == q ? b[i] : nan ? -1 : NAME(turned)(near, near < (a[i] < 0));
    }
}
#else
OP(sign, a[i] != 0) OP(pow, power(a[i], b[i])) OP(shr, (U)b[i] >= BITS ? 0 : a[i] >> (U)b[i])
#endif

/* elementwise.c refuses division by 0; here its result is unspecified.  The f64 quotient of two integers
 * below 2^50 rounds to the right side of every integer, and f64 has vectors; larger integers go one by
 * one. */
#define DIVIDE(name, of_f64, of_large) static void NAME(name)(void *to, const void *x, const void *w, const void *z, \
    int64_t n) { \
    T *y = to; const T *p = x, *q = w;                                                              \
    (void)z;                                                                                        \
    if (sizeof(T) < 8 || (are_small(x, n, SIGNED) && are_small(w, n, SIGNED))) {                                    \
        CR_INDEPENDENT                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                           \
            const double a = F64(p[i]), b = q[i] == 0 ? 1 : F64(q[i]);                              \
            y[i] = (T)whole(of_f64);                                                                \
        }                                                                                           \
    } else for (int64_t i = 0; i < n; i++) {                                                        \
        const T a = p[i], b = q[i] == 0 ? 1 : q[i];                                                 \
        y[i] = (T)(of_large);                                                                       \
    } }
#define F64(v) (sizeof(T) < 8 ? (double)(v) : small((int64_t)(v)))
#if SIGNED
DIVIDE(tdiv, trunc(a / b), quotient(a, b))
DIVIDE(fmod, a - trunc(a / b) * b, remainder_of(a, b)) DIVIDE(fdiv, floor(a / b), floor_quotient(a, b))
    DIVIDE(rem, a - floor(a / b) * b, floor_remainder(a, b))
#else
DIVIDE(tdiv, trunc(a / b), a / b) DIVIDE(fmod, a - trunc(a / b) * b, a % b)
#endif

        static const cr_block_int NAME(table)[CR_OP_COUNT] = {
            [CR_OP_ADD] = NAME(add),    [CR_OP_SUB] = NAME(sub),
            [CR_OP_MUL] = NAME(mul),    [CR_OP_DIV] = NAME(tdiv),
            [CR_OP_NEG] = NAME(neg),    [CR_OP_SIGN] = NAME(sign),
            [CR_OP_MAX] = NAME(max),    [CR_OP_MIN] = NAME(min),
            [CR_OP_POW] = NAME(pow),    [CR_OP_FMOD] = NAME(fmod),
            [CR_OP_TDIV] = NAME(tdiv),  [CR_OP_FLOOR] = NAME(same),
            [CR_OP_CEIL] = NAME(same),  [CR_OP_ROUND] = NAME(same),
            [CR_OP_TRUNC] = NAME(same), [CR_OP_ISNAN] = NAME(no),
            [CR_OP_ISINF] = NAME(no),   [CR_OP_EQ] = NAME(eq),
            [CR_OP_NE] = NAME(ne),      [CR_OP_LT] = NAME(lt),
            [CR_OP_LE] = NAME(le),      [CR_OP_GT] = NAME(gt),
            [CR_OP_GE] = NAME(ge),      [CR_OP_SEL] = NAME(sel),
            [CR_OP_BAND] = NAME(band),  [CR_OP_BOR] = NAME(bor),
            [CR_OP_BXOR] = NAME(bxor),  [CR_OP_BNOT] = NAME(bnot),
            [CR_OP_SHL] = NAME(shl),    [CR_OP_SHR] = NAME(shr),
#if SIGNED
            [CR_OP_ABS] = NAME(abs),    [CR_OP_COPYSIGN] = NAME(copysign),
            [CR_OP_REM] = NAME(rem),    [CR_OP_FDIV] = NAME(fdiv),
#else
    [CR_OP_ABS] = NAME(same), [CR_OP_COPYSIGN] = NAME(same), [CR_OP_REM] = NAME(fmod), [CR_OP_FDIV] = NAME(tdiv),
#endif
};

#undef T
#undef U
#undef SIGNED
#undef NAME
#undef BITS
#undef OP
#undef DIVIDE
#undef F64
