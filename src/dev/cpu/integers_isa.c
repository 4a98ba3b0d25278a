/* integers_isa.c - the instructions of elementwise programs over blocks of i64, for all integers, and of bytes that are 0 or 1, for
 * bool.  elementwise.c wraps each result of integers to the compute dtype.  u64 has instructions of its own where the sign bit matters. */
#include "isa.h"
#include "isa_name.h"

static uint64_t u(int64_t a) { return (uint64_t)a; }
static int64_t negative(int64_t a) { return (int64_t)(0 - u(a)); }

/* Division by 0, which elementwise.c refuses, gives 0; the smallest number by -1 wraps. */
static int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? negative(a) : a / b; }
static int64_t remainder_of(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static int64_t rem(int64_t a, int64_t b) {
    int64_t r = remainder_of(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t floor_quotient(int64_t a, int64_t b) {
    int64_t r = remainder_of(a, b);
    return quotient(a, b) - (r != 0 && (r < 0) != (b < 0));
}

static int64_t power(int64_t a, uint64_t n) {
    uint64_t y = 1, x = u(a);
    for (; n; n >>= 1, x *= x) if (n & 1) y *= x;
    return (int64_t)y;
}
/* A negative exponent gives the whole part of the fraction. */
static int64_t signed_power(int64_t a, int64_t b) {
    if (b >= 0) return power(a, u(b));
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
}
static int64_t shift_left(int64_t a, int64_t b) { return u(b) >= 64 ? 0 : (int64_t)(u(a) << b); }
static int64_t shift_right(int64_t a, int64_t b) { return a >> (u(b) >= 64 ? 63 : b); }

#define OP(name, expression) static void name(int64_t *y, const int64_t *a, const int64_t *b, const int64_t *c, int64_t n) { \
    (void)b; (void)c;                                                                               \
    _Pragma("GCC ivdep")                            /* y may be an operand, element for element */  \
    for (int64_t i = 0; i < n; i++) y[i] = expression; }

OP(op_add, (int64_t)(u(a[i]) + u(b[i]))) OP(op_sub, (int64_t)(u(a[i]) - u(b[i]))) OP(op_mul, (int64_t)(u(a[i]) * u(b[i])))
OP(op_neg, negative(a[i])) OP(op_abs, a[i] < 0 ? negative(a[i]) : a[i]) OP(op_sign, (a[i] > 0) - (a[i] < 0))
OP(op_copysign, (a[i] < 0) == (b[i] < 0) ? a[i] : negative(a[i]))
OP(op_max, a[i] > b[i] ? a[i] : b[i]) OP(op_min, a[i] < b[i] ? a[i] : b[i]) OP(op_pow, signed_power(a[i], b[i]))
OP(op_fmod, remainder_of(a[i], b[i])) OP(op_rem, rem(a[i], b[i])) OP(op_fdiv, floor_quotient(a[i], b[i])) OP(op_tdiv, quotient(a[i], b[i]))
OP(op_same, a[i]) OP(op_no, 0 * a[i]) OP(op_eq, a[i] == b[i]) OP(op_ne, a[i] != b[i]) OP(op_lt, a[i] < b[i]) OP(op_le, a[i] <= b[i])
OP(op_gt, a[i] > b[i]) OP(op_ge, a[i] >= b[i]) OP(op_sel, a[i] != 0 ? b[i] : c[i]) OP(op_band, a[i] & b[i]) OP(op_bor, a[i] | b[i])
OP(op_bxor, a[i] ^ b[i]) OP(op_bnot, ~a[i]) OP(op_shl, shift_left(a[i], b[i])) OP(op_shr, shift_right(a[i], b[i]))

OP(u64_sign, a[i] != 0) OP(u64_max, u(a[i]) > u(b[i]) ? a[i] : b[i]) OP(u64_min, u(a[i]) < u(b[i]) ? a[i] : b[i]) OP(u64_pow, power(a[i], u(b[i])))
OP(u64_mod, b[i] == 0 ? 0 : (int64_t)(u(a[i]) % u(b[i]))) OP(u64_div, b[i] == 0 ? 0 : (int64_t)(u(a[i]) / u(b[i])))
OP(u64_lt, u(a[i]) < u(b[i])) OP(u64_le, u(a[i]) <= u(b[i])) OP(u64_gt, u(a[i]) > u(b[i])) OP(u64_ge, u(a[i]) >= u(b[i]))
OP(u64_shr, u(b[i]) >= 64 ? 0 : (int64_t)(u(a[i]) >> b[i]))

static const cr_block_i64 any_integer[CR_OP_COUNT] = {
    [CR_OP_ADD] = op_add, [CR_OP_SUB] = op_sub, [CR_OP_MUL] = op_mul, [CR_OP_DIV] = op_tdiv, [CR_OP_NEG] = op_neg, [CR_OP_ABS] = op_abs,
    [CR_OP_SIGN] = op_sign, [CR_OP_COPYSIGN] = op_copysign, [CR_OP_MAX] = op_max, [CR_OP_MIN] = op_min, [CR_OP_POW] = op_pow, [CR_OP_FMOD] = op_fmod, [CR_OP_REM] = op_rem,
    [CR_OP_FDIV] = op_fdiv, [CR_OP_TDIV] = op_tdiv, [CR_OP_FLOOR] = op_same, [CR_OP_CEIL] = op_same, [CR_OP_ROUND] = op_same,
    [CR_OP_TRUNC] = op_same, [CR_OP_ISNAN] = op_no, [CR_OP_ISINF] = op_no, [CR_OP_EQ] = op_eq, [CR_OP_NE] = op_ne, [CR_OP_LT] = op_lt,
    [CR_OP_LE] = op_le, [CR_OP_GT] = op_gt, [CR_OP_GE] = op_ge, [CR_OP_SEL] = op_sel, [CR_OP_BAND] = op_band, [CR_OP_BOR] = op_bor,
    [CR_OP_BXOR] = op_bxor, [CR_OP_BNOT] = op_bnot, [CR_OP_SHL] = op_shl, [CR_OP_SHR] = op_shr,
};
static const cr_block_i64 only_u64[CR_OP_COUNT] = {
    [CR_OP_ABS] = op_same, [CR_OP_SIGN] = u64_sign, [CR_OP_COPYSIGN] = op_same, [CR_OP_MAX] = u64_max, [CR_OP_MIN] = u64_min, [CR_OP_POW] = u64_pow, [CR_OP_FMOD] = u64_mod,
    [CR_OP_REM] = u64_mod, [CR_OP_DIV] = u64_div, [CR_OP_FDIV] = u64_div, [CR_OP_TDIV] = u64_div, [CR_OP_LT] = u64_lt, [CR_OP_LE] = u64_le,
    [CR_OP_GT] = u64_gt, [CR_OP_GE] = u64_ge, [CR_OP_SHR] = u64_shr,
};

/* What the same instructions of i64 give when their operands are 0 or 1 and the result is != 0; a bool is one bit wide. */
#define BOOL(name, expression) static void bool_##name(uint8_t *y, const uint8_t *a, const uint8_t *b, const uint8_t *c, int64_t n) { \
    (void)b; (void)c;                                                                               \
    _Pragma("GCC ivdep")                                                                            \
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(expression); }

BOOL(and, a[i] & b[i]) BOOL(or, a[i] | b[i]) BOOL(xor, a[i] ^ b[i]) BOOL(same, a[i]) BOOL(no, a[i] & 0) BOOL(not, a[i] ^ 1) BOOL(eq, a[i] ^ b[i] ^ 1)
BOOL(less, (a[i] ^ 1) & b[i]) BOOL(less_equal, (a[i] ^ 1) | b[i]) BOOL(greater, a[i] & (b[i] ^ 1)) BOOL(greater_equal, a[i] | (b[i] ^ 1))
BOOL(sel, a[i] ? b[i] : c[i])

static const cr_block_bool bools[CR_OP_COUNT] = {
    [CR_OP_ADD] = bool_or, [CR_OP_SUB] = bool_xor, [CR_OP_MUL] = bool_and, [CR_OP_DIV] = bool_and, [CR_OP_NEG] = bool_same, [CR_OP_ABS] = bool_same,
    [CR_OP_SIGN] = bool_same, [CR_OP_MAX] = bool_or, [CR_OP_MIN] = bool_and, [CR_OP_POW] = bool_greater_equal, [CR_OP_FMOD] = bool_no,
    [CR_OP_REM] = bool_no, [CR_OP_FDIV] = bool_and, [CR_OP_TDIV] = bool_and, [CR_OP_FLOOR] = bool_same, [CR_OP_CEIL] = bool_same,
    [CR_OP_ROUND] = bool_same, [CR_OP_TRUNC] = bool_same, [CR_OP_ISNAN] = bool_no, [CR_OP_ISINF] = bool_no, [CR_OP_EQ] = bool_eq, [CR_OP_NE] = bool_xor,
    [CR_OP_LT] = bool_less, [CR_OP_LE] = bool_less_equal, [CR_OP_GT] = bool_greater, [CR_OP_GE] = bool_greater_equal, [CR_OP_SEL] = bool_sel,
    [CR_OP_BAND] = bool_and, [CR_OP_BOR] = bool_or, [CR_OP_BXOR] = bool_xor, [CR_OP_BNOT] = bool_not, [CR_OP_SHL] = bool_greater, [CR_OP_SHR] = bool_greater,
};

static cr_block_i64 integer_op(cr_dtype dt, int op) { return dt == CR_U64 && only_u64[op] ? only_u64[op] : any_integer[op]; }

static void wrap(cr_dtype dt, int64_t *y, int64_t n) {
    switch (dt) {
        case CR_U8:   for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)y[i]; break;
        case CR_U16:  for (int64_t i = 0; i < n; i++) y[i] = (uint16_t)y[i]; break;
        case CR_U32:  for (int64_t i = 0; i < n; i++) y[i] = (uint32_t)y[i]; break;
        case CR_I8:   for (int64_t i = 0; i < n; i++) y[i] = (int8_t)y[i]; break;
        case CR_I16:  for (int64_t i = 0; i < n; i++) y[i] = (int16_t)y[i]; break;
        case CR_I32:  for (int64_t i = 0; i < n; i++) y[i] = (int32_t)y[i]; break;
        default: break;
    }
}

const struct cr_integers CR_ISA_NAME(cr_integers) = {integer_op, bools, wrap};
