/* integers_isa.c - the instructions of elementwise programs over blocks of integers, which wrap in their
 * own type, and of bool, bytes that are 0 or 1. */
#include "isa.h"
#include "isa_name.h"
#include "loops.h"
#ifdef __EMSCRIPTEN__                               /* every byte is downloaded: without vectors */
#undef CR_INDEPENDENT
#define CR_INDEPENDENT
#endif

#include <math.h>

static uint64_t u(int64_t a) { return (uint64_t)a; }

/* The smallest number divided by -1 wraps.  b is not 0. */
static int64_t quotient(int64_t a, int64_t b) { return b == -1 ? (int64_t)(0 - u(a)) : a / b; }
static int64_t remainder_of(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static int64_t floor_remainder(int64_t a, int64_t b) {
    int64_t r = remainder_of(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t floor_quotient(int64_t a, int64_t b) {
    int64_t r = remainder_of(a, b);
    return quotient(a, b) - (r != 0 && (r < 0) != (b < 0));
}

static uint64_t power(uint64_t x, uint64_t n) {
    uint64_t y = 1;
    for (; n; n >>= 1, x *= x) if (n & 1) y *= x;
    return y;
}
/* A negative exponent gives the integer part of the fraction. */
static int64_t signed_power(int64_t a, int64_t b) {
    if (b >= 0) return (int64_t)power(u(a), u(b));
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
}

/* Integers of at most 51 bits to f64 and back: the sum of 1.5 2^52 and n has n in its low bits. */
static const double shift = 0x1.8p52;
static const uint64_t shift_bits = 0x4338000000000000;
static inline double small(int64_t a) {
    const uint64_t bits = u(a) + shift_bits;
    double f;
    memcpy(&f, &bits, sizeof f);
    return f - shift;
}
static inline int64_t whole(double a) {
    const double f = a + shift;
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (int64_t)(bits - shift_bits);
}
static bool are_small(const void *x, int64_t n, bool is_signed) {
    const uint64_t *p = x, below = (uint64_t)is_signed << 50;
    uint64_t beyond = 0;
    for (int64_t i = 0; i < n; i++) beyond |= (p[i] + below) >> 51;
    return !beyond;
}

#define T uint8_t
#define U uint32_t
#define SIGNED 0
#define NAME(x) u8_##x
#include "integers.h"
#define T uint16_t
#define U uint32_t
#define SIGNED 0
#define NAME(x) u16_##x
#include "integers.h"
#define T uint32_t
#define U uint32_t
#define SIGNED 0
#define NAME(x) u32_##x
#include "integers.h"
#define T uint64_t
#define U uint64_t
#define SIGNED 0
#define NAME(x) u64_##x
#include "integers.h"
#define T int8_t
#define U uint32_t
#define SIGNED 1
#define NAME(x) i8_##x
#include "integers.h"
#define T int16_t
#define U uint32_t
#define SIGNED 1
#define NAME(x) i16_##x
#include "integers.h"
#define T int32_t
#define U uint32_t
#define SIGNED 1
#define NAME(x) i32_##x
#include "integers.h"
#define T int64_t
#define U uint64_t
#define SIGNED 1
#define NAME(x) i64_##x
#include "integers.h"

/* Bool: the instructions of integers on operands 0 and 1, with the result != 0.  A bool is one bit wide. */
#define BOOL(name, expression) static void bool_##name(void *to, const void *x, const void *w, const void *z, \
    int64_t n) { \
    uint8_t *y = to; const uint8_t *a = x, *b = w, *c = z;                                         \
    (void)b; (void)c;                                                                               \
    CR_INDEPENDENT                                                                                  \
    for (int64_t i = 0; i < n; i++) y[i] = (uint8_t)(expression); }

BOOL(and, a[i] & b[i])
BOOL(or, a[i] | b[i]) BOOL(xor, a[i] ^ b[i]) BOOL(same, a[i]) BOOL(no, a[i] & 0) BOOL(not, a[i] ^ 1)
    BOOL(eq, a[i] ^ b[i] ^ 1) BOOL(less, (a[i] ^ 1) & b[i]) BOOL(less_equal, (a[i] ^ 1) | b[i])
        BOOL(greater, a[i] & (b[i] ^ 1)) BOOL(greater_equal, a[i] | (b[i] ^ 1)) BOOL(sel, a[i] ? b[i] : c[i])

            static const cr_block_int bool_table[CR_OP_COUNT] = {
                [CR_OP_ADD] = bool_or,
                [CR_OP_SUB] = bool_xor,
                [CR_OP_MUL] = bool_and,
                [CR_OP_DIV] = bool_and,
                [CR_OP_NEG] = bool_same,
                [CR_OP_ABS] = bool_same,
                [CR_OP_SIGN] = bool_same,
                [CR_OP_COPYSIGN] = bool_same,
                [CR_OP_MAX] = bool_or,
                [CR_OP_MIN] = bool_and,
                [CR_OP_POW] = bool_greater_equal,
                [CR_OP_FMOD] = bool_no,
                [CR_OP_REM] = bool_no,
                [CR_OP_FDIV] = bool_and,
                [CR_OP_TDIV] = bool_and,
                [CR_OP_FLOOR] = bool_same,
                [CR_OP_CEIL] = bool_same,
                [CR_OP_ROUND] = bool_same,
                [CR_OP_TRUNC] = bool_same,
                [CR_OP_ISNAN] = bool_no,
                [CR_OP_ISINF] = bool_no,
                [CR_OP_EQ] = bool_eq,
                [CR_OP_NE] = bool_xor,
                [CR_OP_LT] = bool_less,
                [CR_OP_LE] = bool_less_equal,
                [CR_OP_GT] = bool_greater,
                [CR_OP_GE] = bool_greater_equal,
                [CR_OP_SEL] = bool_sel,
                [CR_OP_BAND] = bool_and,
                [CR_OP_BOR] = bool_or,
                [CR_OP_BXOR] = bool_xor,
                [CR_OP_BNOT] = bool_not,
                [CR_OP_SHL] = bool_greater,
                [CR_OP_SHR] = bool_greater,
};

const struct cr_integers CR_ISA_NAME(cr_integers) = {
    .of = {[CR_U8] = u8_table,
           [CR_U16] = u16_table,
           [CR_U32] = u32_table,
           [CR_U64] = u64_table,
           [CR_I8] = i8_table,
           [CR_I16] = i16_table,
           [CR_I32] = i32_table,
           [CR_I64] = i64_table,
           [CR_BOOL] = bool_table},
    .next = {[CR_I8] = i8_next, [CR_I16] = i16_next, [CR_I32] = i32_next, [CR_I64] = i64_next},
};
