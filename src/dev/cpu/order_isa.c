/* order_isa.c - keys of many elements, their extremes, and the order of a few: loops that the compiler turns into vectors. */
#include "isa.h"
#include "order.h"
#include "vec.h"

#define KEYS(dt) case dt: for (int64_t i = 0; i < n; i++) y[i] = cr_key(dt, x, i) ^ flip; break;
static void keys(uint64_t *restrict y, cr_dtype dt, const void *restrict x, int64_t n, uint64_t flip) {
    switch (dt) {
        KEYS(CR_BOOL) KEYS(CR_U8) KEYS(CR_U16) KEYS(CR_U32) KEYS(CR_U64) KEYS(CR_I8) KEYS(CR_I16) KEYS(CR_I32) KEYS(CR_I64)
        KEYS(CR_F16) KEYS(CR_BF16) KEYS(CR_F32) KEYS(CR_F64)
        case CR_DTYPES: break;
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

/* Each one's place is the number of those that come before it. */
static void rank(uint64_t *restrict order, const uint64_t *restrict k, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t own = k[i];
        uint64_t at = 0;
        for (int64_t j = 0; j < i; j++) at += k[j] <= own;
        for (int64_t j = i + 1; j < n; j++) at += k[j] < own;
        order[at] = (uint64_t)i;
    }
}

static bool any_up_to(const uint64_t *k, int64_t n, uint64_t limit) {
    uint64_t found = 0;
    for (int64_t i = 0; i < n; i++) found |= k[i] <= limit;
    return found;
}

const struct cr_orders CR_ISA_NAME(cr_orders) = {keys, range, rank, any_up_to};
