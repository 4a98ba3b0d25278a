/* random.c - element i of a Philox stream, by its definition in dev.h: nothing is carried from one element to the next. */
#include <math.h>
#include <string.h>
#include "ref.h"

static uint32_t word32(uint64_t seed, uint64_t counter, int64_t i) {
    uint32_t block[4];
    cr_philox(seed, counter + (uint64_t)i / 4, block);
    return block[i % 4];
}

/* Two words, the first one low. */
static uint64_t word64(uint64_t seed, uint64_t counter, int64_t i) {
    uint32_t block[4];
    cr_philox(seed, counter + (uint64_t)i / 2, block);
    return block[i % 2 * 2] | (uint64_t)block[i % 2 * 2 + 1] << 32;
}

static double uniform(cr_dtype dt, uint64_t seed, uint64_t counter, int64_t i) {
    if (dt == CR_F64) return (double)(word64(seed, counter, i) >> 11) * 0x1p-53;
    return (word32(seed, counter, i) >> 8) * 0x1p-24;
}

static double normal(cr_dtype dt, uint64_t seed, uint64_t counter, int64_t i) {
    double u0 = uniform(dt, seed, counter, i / 2 * 2), u1 = uniform(dt, seed, counter, i / 2 * 2 + 1);
    double r = sqrt(-2 * log(1 - u0)), angle = 2 * 3.14159265358979323846 * u1;
    return i % 2 ? r * sin(angle) : r * cos(angle);
}

/* Rounded towards 0, for v >= 0: a half float never becomes 1.  One step down in the bits is one step down in value. */
static void put_down(cr_tensor *y, int64_t i, double v) {
    put(y, i, v);
    if (get(y, i) <= v) return;
    uint16_t half;
    memcpy(&half, address(y, i), 2);
    half--;
    memcpy(address(y, i), &half, 2);
}

cr_status ref_random(cr_random_kind kind, cr_tensor *y, uint64_t seed, uint64_t counter) {
    cr_dtype dt = (cr_dtype)y->dtype;
    for (int64_t i = 0; i < y->numel; i++) {
        if (kind == CR_RANDOM_UNIFORM) put_down(y, i, uniform(dt, seed, counter, i));
        else if (kind == CR_RANDOM_NORMAL) put(y, i, normal(dt, seed, counter, i));
        else put_int(y, i, cr_dtype_size(dt) == 8 ? (int64_t)word64(seed, counter, i) : (int64_t)word32(seed, counter, i));
    }
    return CR_OK;
}
