/* random.c - arrays of random numbers, as kernels.def defines each element.  The bits do not depend on
 * the threads; only the last bit of normals depends on the machine. */
#include "blocks.h"
#include "isa.h"
#include "../../core/rng.h"
#include "../../core/pool.h"
#include "../elementary.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512, CHUNK = 16 * BLOCK };           /* elements; whole Philox blocks */

typedef struct job job;
struct job {
    void (*put)(const job *j, char *y, const uint32_t *words, int64_t n);
    int64_t each;                                   /* elements of a Philox block */
    cr_dtype dt;
    char *y;
    int64_t n, low;
    uint64_t span, seed, counter;
    const struct cr_randoms *k;
};


/* f32 to f16 or bf16, rounded towards 0, for v >= 0: the next smaller bits are the next smaller value */
static uint16_t half_down(float v, cr_dtype dt) {
    uint16_t h = dt == CR_F16 ? cr_f32_to_f16(v) : cr_f32_to_bf16(v);
    float back = dt == CR_F16 ? cr_f16_to_f32(h) : cr_bf16_to_f32(h);
    return (uint16_t)(h - (back > v));
}

static void put_uniform(const job *j, char *y, const uint32_t *words, int64_t n) {
    float f[BLOCK];
    double d[BLOCK];
    if (j->dt == CR_F64) {
        for (int64_t i = 0; i < n; i++) d[i] = cr_uniform64(words, i);
        memcpy(y, d, (size_t)n * sizeof *d);
        return;
    }
    j->k->uniforms(f, words, n);
    if (j->dt == CR_F32) memcpy(y, f, (size_t)n * sizeof *f);
    else for (int64_t i = 0; i < n; i++) ((uint16_t *)(void *)y)[i] = half_down(f[i], j->dt);
}

static void put_normal(const job *j, char *y, const uint32_t *words, int64_t n) {
    double d[BLOCK];
    if (j->dt == CR_F64)
        for (int64_t i = 0; i < n; i += 2) {
            double r = sqrt(-2 * cr_f64_log(1 - cr_uniform64(words, i))),
                   angle = 2 * 3.14159265358979323846 * cr_uniform64(words, i + 1);
            d[i] = r * cr_f64_cos(angle);
            d[i + 1] = r * cr_f64_sin(angle);
        }
    else j->k->normals(d, words, n + n % 2);
    cr_block_store(CR_LANE_F64, d, j->dt, y, 1, n);
}

static void put_integers(const job *j, char *y, const uint32_t *words, int64_t n) {
    int64_t v[BLOCK];
    for (int64_t i = 0; i < n; i++) v[i] = (int64_t)((uint64_t)j->low + cr_below(cr_word64(words, i), j->span));
    cr_block_store(CR_LANE_I64, v, j->dt, y, 1, n);
}

static void chunk(void *ctx, int64_t c, int worker) {
    (void)worker;
    const job *j = ctx;
    int64_t each = j->each, end = cr_imin((c + 1) * CHUNK, j->n);
    uint32_t words[BLOCK * 2];
    for (int64_t first = c * CHUNK; first < end; first += BLOCK) {
        int64_t n = cr_imin(end - first, BLOCK);
        char *y = j->y + first * (int64_t)cr_dtype_size(j->dt);
        j->k->philox(j->seed, j->counter + (uint64_t)(first / each), words, (n + each - 1) / each);
        j->put(j, y, words, n);
    }
}

static cr_status draw_numbers(job *j, const cr_array *y) {
    j->k = cr_cpu_vec()->randoms;
    j->dt = y->dtype;
    j->y = cr_array_data(y);
    j->n = y->numel;
    if (j->n) cr_run_chunks(cr_pieces(j->n, CHUNK), chunk, j);
    return CR_OK;
}

cr_status cr_cpu_random(const cr_random_args *args) {
    const cr_dtype dt = args->y.dtype;
    if (!cr_dtype_is_float(dt))
        return cr_fail(CR_BAD_TYPE, "random", "uniform and normal numbers are floats, not %s", cr_dtype_name(dt));
    job j = {.put = args->kind == CR_RANDOM_UNIFORM ? put_uniform : put_normal, .each = dt == CR_F64 ? 2 : 4,
             .seed = args->seed, .counter = args->counter};
    return draw_numbers(&j, &args->y);
}

cr_status cr_cpu_random_integers(const cr_random_integers_args *args) {
    job j = {.put = put_integers,
             .each = 2,
             .low = args->low,
             .span = args->span,
             .seed = args->seed,
             .counter = args->counter};
    return draw_numbers(&j, &args->y);
}
