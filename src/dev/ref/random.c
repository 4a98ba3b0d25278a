/* random.c - random numbers, each element by its definition in kernels.def. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ref.h"
#include "../../core/rng.h"

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
static void put_down(const cr_array *y, int64_t i, double v) {
    put(y, i, v);
    if (get(y, i) <= v) return;
    uint16_t half;
    memcpy(&half, address(y, i), 2);
    half--;
    memcpy(address(y, i), &half, 2);
}

cr_status cr_ref_random(const cr_random_args *args) {
    const cr_array *y = &args->y;
    EACH(i, y->numel) {
        if (args->kind == CR_RANDOM_UNIFORM) put_down(y, i, uniform(y->dtype, args->seed, args->counter, i));
        else put(y, i, normal(y->dtype, args->seed, args->counter, i));
    }
    return CR_OK;
}

cr_status cr_ref_random_integers(const cr_random_integers_args *args) {
    EACH(i, args->y.numel) {
        const uint64_t drawn = cr_below(word64(args->seed, args->counter, i), args->span);
        put_int(&args->y, i, add_wrap(args->low, (int64_t)drawn));
    }
    return CR_OK;
}

/* ---- permutations and samples: positions in the order of what is drawn for each */
static bool word_before(const void *words, int64_t i, int64_t j) {
    return ((const uint64_t *)words)[i] < ((const uint64_t *)words)[j];
}
static bool time_before(const void *times, int64_t i, int64_t j) {
    return ((const double *)times)[i] < ((const double *)times)[j];
}

cr_status cr_ref_permutation(const cr_permutation_args *args) {
    const cr_array *y = &args->y;
    uint64_t *word = malloc(sizeof *word * (size_t)y->numel + 1);
    if (!word) return cr_no_memory("permutation");
    EACH(i, y->numel) word[i] = word64(args->seed, args->counter, i);
    int64_t *order = cr_ref_order(y->numel, word_before, word);
    if (order) EACH(i, y->numel) put_int(y, i, order[i]);
    free(word);
    free(order);
    return order ? CR_OK : CR_NO_MEMORY;
}

/* The first position whose running sum exceeds u times the whole sum. */
static int64_t pick(const cr_array *w, int64_t first, int64_t N, double u) {
    double whole = 0, sum = 0;
    EACH(i, N) whole += get(w, first + i);
    EACH(i, N - 1) if ((sum += get(w, first + i)) > u * whole) return i;
    return N - 1;
}

/* Row m of y: the first S positions in the order of their times. */
static cr_status draw_without(const cr_multinomial_args *args, int64_t m, double *time) {
    const cr_array *w = &args->w;
    const int64_t N = w->shape[1], S = args->y.shape[1];
    EACH(i, N) {
        const double weight = get(w, m * N + i), u = uniform(CR_F64, args->seed, args->counter, m * N + i);
        time[i] = weight > 0 ? fmin(-log(1 - u) / weight, DBL_MAX) : INFINITY;
    }
    int64_t *order = cr_ref_order(N, time_before, time);
    if (!order) return CR_NO_MEMORY;
    EACH(s, S) put_int(&args->y, m * S + s, order[s]);
    free(order);
    return CR_OK;
}

cr_status cr_ref_multinomial(const cr_multinomial_args *args) {
    const int64_t M = args->w.shape[0], N = args->w.shape[1], S = args->y.shape[1];
    if (args->replacement) {
        EACH(i, M * S)
        put_int(&args->y, i, pick(&args->w, i / S * N, N, uniform(CR_F64, args->seed, args->counter, i)));
        return CR_OK;
    }
    double *time = malloc(sizeof *time * (size_t)N);
    if (!time) return cr_no_memory("multinomial");
    cr_status status = CR_OK;
    EACH(m, M) if ((status = draw_without(args, m, time)) != CR_OK) break;
    free(time);
    return status;
}
