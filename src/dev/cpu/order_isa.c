/* order_isa.c - loops over keys and indices that the compiler vectorises: keys, their range, ranking,
 * search, runs, range checks. */
#include "isa.h"
#include "order.h"
#include "vec.h"

#define KEYS(dt) case dt: for (int64_t i = 0; i < n; i++) y[i] = cr_key(dt, x, i) ^ flip; break;
static void keys(uint64_t *restrict y, cr_dtype dt, const void *restrict x, int64_t n, uint64_t flip) {
    switch (dt) {
    KEYS(CR_BOOL)
    KEYS(CR_U8) KEYS(CR_U16) KEYS(CR_U32) KEYS(CR_U64) KEYS(CR_I8) KEYS(CR_I16) KEYS(CR_I32) KEYS(CR_I64) KEYS(CR_F16)
        KEYS(CR_BF16) KEYS(CR_F32) KEYS(CR_F64) case CR_DTYPES:
        break;
    }
}

static void range(uint64_t extremes[2], const uint64_t *k, int64_t n) {
    uint64_t low = extremes[0], high = extremes[1];
    for (int64_t i = 0; i < n; i++) {
        low = k[i] < low ? k[i] : low;
        high = k[i] > high ? k[i] : high;
    }
    extremes[0] = low;
    extremes[1] = high;
}

/* The position of an element is the number of elements before it in order: n^2 comparisons, in whole
 * vectors.  A key and its position usually fit one word, and then no two words are equal. */
static void rank(uint64_t *restrict order, const uint64_t *restrict k, int64_t n) {
    enum { POSITION = 7 };
    _Static_assert(CR_RANKED <= 1 << POSITION, "positions fit");
    uint64_t words[CR_RANKED], extremes[2] = {UINT64_MAX, 0};
    const int64_t whole = (n + VD - 1) & -VD;
    range(extremes, k, n);
    const bool fit = !((extremes[1] - extremes[0]) >> (64 - POSITION));
    for (int64_t i = 0; i < n; i++) words[i] = fit ? (k[i] - extremes[0]) << POSITION | (uint64_t)i : k[i];
    for (int64_t i = n; i < whole; i++) words[i] = UINT64_MAX;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t own = words[i];
        uint64_t at = 0;
        if (fit) for (int64_t j = 0; j < whole; j++) at += words[j] < own;
        else for (int64_t j = 0; j < whole; j++) at += (words[j] < own) | ((words[j] == own) & (j < i));
        order[at] = (uint64_t)i;
    }
}

static bool any_up_to(const uint64_t *k, int64_t n, uint64_t limit) {
    uint64_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= k[i] <= limit;
    return found;
}

/* Binary search without branches, for several numbers in step, so that their reads overlap.  No key is
 * below 0. */
static inline __attribute__((always_inline)) void halve(int64_t *restrict at, const int64_t *restrict start,
                                                        cr_dtype dt, const void *restrict x, int64_t R,
                                                        const uint64_t *restrict k, bool right) {
    uint64_t most[CR_IN_STEP];
    for (int i = 0; i < CR_IN_STEP; i++) {
        most[i] = right || !k[i] ? k[i] : k[i] - 1;
        at[i] = start[i];
    }
    for (int64_t left = R; left; ) {
        const int64_t half = left > 1 ? left / 2 : 1;
        for (int i = 0; i < CR_IN_STEP; i++) at[i] += half & -(int64_t)(cr_key(dt, x, at[i] + half - 1) <= most[i]);
        left -= half;
    }
    for (int i = 0; i < CR_IN_STEP; i++) if (!right && !k[i]) at[i] = start[i];
}

#define HALVE(dt) case dt: halve(at, start, dt, x, R, k, right); break;
static void positions(int64_t *at, const int64_t *start, cr_dtype dt, const void *x, int64_t R, const uint64_t *k,
                      bool right) {
    switch (dt) {
    HALVE(CR_BOOL)
    HALVE(CR_U8) HALVE(CR_U16) HALVE(CR_U32) HALVE(CR_U64) HALVE(CR_I8) HALVE(CR_I16) HALVE(CR_I32) HALVE(CR_I64)
        HALVE(CR_F16) HALVE(CR_BF16) HALVE(CR_F32) HALVE(CR_F64) case CR_DTYPES:
        break;
    }
}

static int64_t changes(uint8_t *restrict at, const uint64_t *restrict k, int64_t n, uint64_t nan) {
    const uint64_t floats = nan != 0;
    uint64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t is = (k[i] != k[i + 1]) | ((k[i + 1] == nan) & floats);
        at[i] = (uint8_t)is;
        count += is;
    }
    return (int64_t)count;
}

/* Below low or above high: tested by the sign of a difference, because not every instruction set compares
 * 64-bit integers. */
#define OUTSIDE(T) for (int64_t i = 0; i < n; i++) {                                    \
        const uint64_t v = (uint64_t)(int64_t)((const T *)at)[i] - (uint64_t)low;       \
        signs |= v | (span - v);                                                        \
    }
static bool any_outside(const void *at, bool wide, int64_t n, int64_t low, int64_t high) {
    const uint64_t span = (uint64_t)high - (uint64_t)low;
    uint64_t signs = 0;
    if (wide) OUTSIDE(int64_t)
    else OUTSIDE(int32_t)
    return signs >> 63;
}

const struct cr_orders CR_ISA_NAME(cr_orders) = {keys, range, rank, any_up_to, positions, changes, any_outside};
