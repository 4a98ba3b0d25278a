/* random.c - element i of a Philox stream, by its definition in dev.h: nothing is carried from one element to the next. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
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
        else put(y, i, normal(dt, seed, counter, i));
    }
    return CR_OK;
}

cr_status ref_random_integers(cr_tensor *y, int64_t low, uint64_t span, uint64_t seed, uint64_t counter) {
    for (int64_t i = 0; i < y->numel; i++) put_int(y, i, add_wrap(low, (int64_t)cr_below(word64(seed, counter, i), span)));
    return CR_OK;
}

/* ---- permutations and samples: what is drawn for each position, and positions in the order of that */
typedef struct drawn { uint64_t word; double time; int64_t i; } drawn;

static int by_word(const void *x, const void *y) {
    const drawn *a = x, *b = y;
    return a->word != b->word ? (a->word > b->word ? 1 : -1) : (a->i > b->i) - (a->i < b->i);
}

static int by_time(const void *x, const void *y) {
    const drawn *a = x, *b = y;
    return a->time != b->time ? (a->time > b->time ? 1 : -1) : (a->i > b->i) - (a->i < b->i);
}

cr_status ref_permutation(cr_tensor *y, uint64_t seed, uint64_t counter) {
    drawn *d = malloc(sizeof *d * (size_t)y->numel + 1);
    if (!d) return cr_fail(CR_NO_MEMORY, "permutation", "out of memory");
    for (int64_t i = 0; i < y->numel; i++) d[i] = (drawn){.word = word64(seed, counter, i), .i = i};
    qsort(d, (size_t)y->numel, sizeof *d, by_word);
    for (int64_t i = 0; i < y->numel; i++) put_int(y, i, d[i].i);
    free(d);
    return CR_OK;
}

/* The first position whose running sum is above the share u of the whole. */
static int64_t pick(const cr_tensor *w, int64_t first, int64_t N, double u) {
    double whole = 0, sum = 0;
    int64_t i = 0;
    for (; i < N; i++) whole += get(w, first + i);
    for (i = 0; i < N - 1; i++) if ((sum += get(w, first + i)) > u * whole) break;
    return i;
}

cr_status ref_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter) {
    for (int64_t i = 0; replacement && i < M * S; i++) put_int(y, i, pick(w, i / S * N, N, uniform(CR_F64, seed, counter, i)));
    if (replacement) return CR_OK;
    drawn *d = malloc(sizeof *d * (size_t)N);
    if (!d) return cr_fail(CR_NO_MEMORY, "multinomial", "out of memory");
    for (int64_t m = 0; m < M; m++) {
        for (int64_t i = 0; i < N; i++) {
            const double weight = get(w, m * N + i), time = -log(1 - uniform(CR_F64, seed, counter, m * N + i)) / weight;
            d[i] = (drawn){.time = weight > 0 ? fmin(time, DBL_MAX) : INFINITY, .i = i};
        }
        qsort(d, (size_t)N, sizeof *d, by_time);
        for (int64_t s = 0; s < S; s++) put_int(y, m * S + s, d[s].i);
    }
    free(d);
    return CR_OK;
}
