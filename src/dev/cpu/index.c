/* index.c - checks of indices, gather and scatter.
 *
 * All indices are checked before existing data is overwritten.  Elements with the same index are
 * combined in the order of the source: the work is cut by what is written (rows, columns), never by
 * what is read, so no locks are needed and the bits are fixed.  f16 and bf16 accumulate in f32 and are
 * rounded once, after the last addition.  Limited by memory. */
#include <string.h>

#include "../../core/pool.h"
#include "cpu.h"
#include "index.h"
#include "isa.h"

/* ---- indices */

enum { CHECKED = 16384 };                           /* indices that one chunk checks */

static bool any_outside(const check *c, int64_t from, int64_t to) {
    return cr_cpu_vec()->orders->any_outside((const char *)c->x.at + from * (c->x.wide ? 8 : 4), c->x.wide, to - from,
                                             c->low, c->x.size - 1);
}

bool cr_cpu_check(check *c, int64_t from, int64_t to) {
    for (int64_t part; from < to; from = part) {
        part = cr_imin(to, from + 1024);
        if (!any_outside(c, from, part)) continue;
        while (!any_outside(c, from, from + 1)) from++;
        long long first = atomic_load(&c->bad);
        while (from < first && !atomic_compare_exchange_weak(&c->bad, &first, from)) {}
        return false;
    }
    return true;
}

cr_status cr_cpu_start_check(check *c, const char *op, const cr_array *index, int64_t size, bool wrap) {
    const cr_dtype dt = index->dtype;
    if (dt != CR_I32 && dt != CR_I64)
        return cr_fail(CR_BAD_TYPE, op, "index must be int32 or int64, not %s", cr_dtype_name(dt));
    c->x = (indices){cr_array_data(index), size, dt == CR_I64};
    c->n = index->numel;
    c->low = wrap ? -size : 0;
    c->op = op;
    atomic_init(&c->bad, INT64_MAX);
    return CR_OK;
}

cr_status cr_cpu_checked(const check *c) {
    const int64_t bad = atomic_load(&c->bad);
    if (bad == INT64_MAX) return CR_OK;
    return cr_fail(CR_BAD_INDEX, c->op, "index %lld at position %lld is out of range for size %lld",
                   (long long)(c->x.wide ? ((const int64_t *)c->x.at)[bad] : ((const int32_t *)c->x.at)[bad]),
                   (long long)bad, (long long)c->x.size);
}

static void check_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    check *c = ctx;
    cr_cpu_check(c, chunk * CHECKED, cr_imin(c->n, (chunk + 1) * CHECKED));
}

cr_status cr_cpu_open_indices(const char *op, const cr_array *index, int64_t size, bool wrap, indices *out) {
    check c;
    cr_status status = cr_cpu_start_check(&c, op, index, size, wrap);
    if (status != CR_OK) return status;
    cr_run_chunks(cr_pieces(c.n, CHECKED), check_chunk, &c);
    *out = c.x;
    status = cr_finished(op, CR_OK);                /* indices of chunks that were skipped are unchecked: not to be
                                                     * used */
    return status != CR_OK ? status : cr_cpu_checked(&c);
}

typedef struct job {
    char *y;                                        /* written */
    const char *x;                                  /* read */
    indices index;
    check check;                                    /* gather: each chunk checks its own indices */
    cr_dtype dtype;
    size_t size;
    int64_t M, R, N, K;
    int64_t rows, columns, blocks;                  /* of a chunk; column blocks in a row of chunks */
    bool sum, extreme, least;                       /* scatter adds, or keeps the largest, or the smallest */
    atomic_bool failed;
} job;

/* table (M, R, N): what the index addresses. */
static job job_of(const cr_array *y, const cr_array *x, const cr_array *index, const cr_array *table) {
    return (job){.y = cr_array_data(y), .x = cr_array_data(x), .dtype = y->dtype, .size = cr_dtype_size(y->dtype),
                 .M = table->shape[0], .R = table->shape[1], .N = table->shape[2], .K = index->shape[1]};
}

static cr_status run_rows(job *j, const char *op, int64_t chunks, void (*fn)(void *, int64_t, int)) {
    cr_run_chunks(chunks, fn, j);
    return atomic_load(&j->failed) ? cr_fail(CR_NO_MEMORY, op, "no memory for the sums") : CR_OK;
}

/* ---- gather: y[m, k, n] = x[m, index[m, k, n], n], chunks of rows (m, k) */

#define GATHER(name, T)                                                                                         \
    static void name(const job *j, int64_t from, int64_t to) {                                                  \
        const int64_t N = j->N;                                                                                 \
        const indices index = j->index;                                                                         \
        T *y = (T *)(void *)j->y;                                                                               \
        for (int64_t row = from; row < to;) {                                                                   \
            const int64_t m = row / j->K, end = cr_imin(to, (m + 1) * j->K);                                      \
            const T *x = (const T *)(const void *)j->x + m * j->R * N;                                          \
            if (N == 1 && index.wide) for (const int64_t *at = index.at; row < end; row++) y[row] = x[at[row]]; \
            else if (N == 1) for (; row < end; row++) y[row] = x[index_at(index, row)];                         \
            else for (; row < end; row++)                                                                       \
                for (int64_t n = 0; n < N; n++) y[row * N + n] = x[index_at(index, row * N + n) * N + n];       \
        }                                                                                                       \
    }
GATHER(gather_1, uint8_t)
GATHER(gather_2, uint16_t)
GATHER(gather_4, uint32_t)
GATHER(gather_8, uint64_t)
#undef GATHER

static void gather_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    int64_t from = chunk * j->rows, to = cr_imin(j->M * j->K, from + j->rows);
    if (!cr_cpu_check(&j->check, from * j->N, to * j->N)) return;
    switch (j->size) {
        case 1: gather_1(j, from, to); break;
        case 2: gather_2(j, from, to); break;
        case 4: gather_4(j, from, to); break;
        default: gather_8(j, from, to);
    }
}

cr_status cr_cpu_gather(const cr_gather_args *args) {
    job j = job_of(&args->y, &args->x, &args->index, &args->x);
    const cr_status status = cr_cpu_start_check(&j.check, "gather", &args->index, j.R, false);
    if (status != CR_OK || args->y.numel == 0) return status;
    j.index = j.check.x;
    j.rows = cr_imax(1, INDEX_GRAIN / j.N);
    run_rows(&j, "gather", cr_pieces(j.M * j.K, j.rows), gather_chunk);
    return cr_cpu_checked(&j.check);
}

/* ---- scatter: y[m, index[m, k, n], n] = src[m, k, n] or += in order of k, chunks of `rows` m by `columns` n */

#define SCATTER(name, T, MEET)                                                                                  \
    static void name(const job *j, int64_t m, int64_t from, int64_t to) {                                       \
        const int64_t N = j->N, begin = m * j->K * N, end = begin + j->K * N;                                   \
        T *y = (T *)(void *)j->y + m * j->R * N;                                                                \
        const T *x = (const T *)(const void *)j->x;                                                             \
        const indices index = j->index;                                                                         \
        if (N == 1) for (int64_t i = begin; i < end && cr_goes_on(i - begin, INDEX_GRAIN); i++) {                      \
            T *at = y + index_at(index, i);                                                                     \
            *at = (T)MEET(*at, x[i]);                                                                           \
        } else for (int64_t row = begin; row < end && cr_goes_on(row - begin, INDEX_GRAIN * N); row += N)              \
            for (int64_t n = from; n < to; n++) {                                                               \
                T *at = y + index_at(index, row + n) * N + n;                                                   \
                *at = (T)MEET(*at, x[row + n]);                                                                 \
            }                                                                                                   \
    }
SCATTER(scatter_u8, uint8_t, SUM)
SCATTER(scatter_u16, uint16_t, SUM)
SCATTER(scatter_u32, uint32_t, SUM)
SCATTER(scatter_u64, uint64_t, SUM)
SCATTER(scatter_f32, float, SUM)
SCATTER(scatter_f64, double, SUM)
SCATTER(scatter_bool, uint8_t, EITHER)
SCATTER(scatter_1, uint8_t, LAST)
SCATTER(scatter_2, uint16_t, LAST)
SCATTER(scatter_4, uint32_t, LAST)
SCATTER(scatter_8, uint64_t, LAST)
SCATTER(extreme_u8, uint8_t, EXTREME)
SCATTER(extreme_i8, int8_t, EXTREME)
SCATTER(extreme_u16, uint16_t, EXTREME)
SCATTER(extreme_i16, int16_t, EXTREME)
SCATTER(extreme_u32, uint32_t, EXTREME)
SCATTER(extreme_i32, int32_t, EXTREME)
SCATTER(extreme_u64, uint64_t, EXTREME)
SCATTER(extreme_i64, int64_t, EXTREME)
SCATTER(extreme_f32, float, EXTREME)
SCATTER(extreme_f64, double, EXTREME)
SCATTER(extreme_f16, uint16_t, EXTREME_F16)
SCATTER(extreme_bf16, uint16_t, EXTREME_BF16)
#undef SCATTER

/* sum: (R, to - from) f32 */
static void scatter_half(const job *j, int64_t m, int64_t from, int64_t to, float *sum) {
    bool bf16 = j->dtype == CR_BF16;
    int64_t n = to - from;
    uint16_t *y = (uint16_t *)(void *)j->y + m * j->R * j->N + from;
    for (int64_t r = 0; r < j->R; r++) cr_block_load(CR_LANE_F32, sum + r * n, j->dtype, y + r * j->N, 1, n);
    for (int64_t k = 0; k < j->K && cr_goes_on(k, INDEX_GRAIN); k++) {
        int64_t row = (m * j->K + k) * j->N + from;
        const uint16_t *x = (const uint16_t *)(const void *)j->x + row;
        for (int64_t i = 0; i < n; i++)
            sum[index_at(j->index, row + i) * n + i] += bf16 ? cr_bf16_to_f32(x[i]) : cr_f16_to_f32(x[i]);
    }
    for (int64_t r = 0; r < j->R; r++) cr_block_store(CR_LANE_F32, sum + r * n, j->dtype, y + r * j->N, 1, n);
}

static void scatter_one(const job *j, int64_t m, int64_t from, int64_t to, float *sum) {
    static void (*const extremes[])(const job *, int64_t, int64_t, int64_t) = {
        [CR_BOOL] = extreme_u8,  [CR_U8] = extreme_u8,   [CR_I8] = extreme_i8,   [CR_U16] = extreme_u16,
        [CR_I16] = extreme_i16,  [CR_U32] = extreme_u32, [CR_I32] = extreme_i32, [CR_U64] = extreme_u64,
        [CR_I64] = extreme_i64,  [CR_F32] = extreme_f32, [CR_F64] = extreme_f64, [CR_F16] = extreme_f16,
        [CR_BF16] = extreme_bf16};
    if (j->extreme) {
        extremes[j->dtype](j, m, from, to);
        return;
    }
    if (!j->sum) {
        switch (j->size) {
            case 1: scatter_1(j, m, from, to); return;
            case 2: scatter_2(j, m, from, to); return;
            case 4: scatter_4(j, m, from, to); return;
            default: scatter_8(j, m, from, to); return;
        }
    }
    switch (j->dtype) {
        case CR_BOOL: scatter_bool(j, m, from, to); break;
        case CR_U8: case CR_I8: scatter_u8(j, m, from, to); break;
        case CR_U16: case CR_I16: scatter_u16(j, m, from, to); break;
        case CR_U32: case CR_I32: scatter_u32(j, m, from, to); break;
        case CR_F32: scatter_f32(j, m, from, to); break;
        case CR_F64: scatter_f64(j, m, from, to); break;
        case CR_F16: case CR_BF16: scatter_half(j, m, from, to, sum); break;
        default: scatter_u64(j, m, from, to);
    }
}

static void scatter_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    int64_t m = chunk / j->blocks * j->rows, last = cr_imin(j->M, m + j->rows);
    int64_t from = chunk % j->blocks * j->columns, to = cr_imin(j->N, from + j->columns);
    size_t bytes = j->sum && cr_dtype_is_half(j->dtype) ? (size_t)(j->R * (to - from)) * sizeof(float) : 0;
    float *sum = bytes ? cr_cpu_try_take(bytes) : NULL;
    if (bytes && !sum) { atomic_store(&j->failed, true); return; }
    for (; m < last; m++) scatter_one(j, m, from, to, sum);
    cr_cpu_give(sum, bytes);
}

static cr_status scatter(const char *op, job *j, const cr_array *index) {
    const cr_status status = cr_cpu_open_indices(op, index, j->R, false, &j->index);
    if (status != CR_OK || index->numel == 0) return status;
    if (j->M == 1 && j->N == 1 && !j->extreme && cr_cpu_suits_buckets(j->dtype, j->sum, j->R, j->K))
        return cr_cpu_put_by_buckets(j->dtype, j->sum, j->y, 1, j->R, j->index, j->x, 1, j->K);
    /* narrower strips would meet a new page with each row */
    const int64_t work = j->K * j->N, narrowest = cr_imax(64, j->N / 16);
    j->rows = cr_imax(1, INDEX_GRAIN / work);
    j->columns = work <= INDEX_GRAIN ? j->N : cr_imin(j->N, cr_imax(narrowest, INDEX_GRAIN / j->K));
    j->blocks = cr_pieces(j->N, j->columns);
    return run_rows(j, op, cr_pieces(j->M, j->rows) * j->blocks, scatter_chunk);
}

cr_status cr_cpu_scatter(const cr_scatter_args *args) {
    job j = job_of(&args->y, &args->src, &args->index, &args->y);
    j.sum = args->sum;
    return scatter(j.sum ? "scatter_add" : "scatter", &j, &args->index);
}

cr_status cr_cpu_scatter_extreme(const cr_scatter_extreme_args *args) {
    job j = job_of(&args->y, &args->src, &args->index, &args->y);
    j.extreme = true;
    j.least = args->least;
    return scatter("scatter_reduce", &j, &args->index);
}
