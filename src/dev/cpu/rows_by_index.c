/* rows_by_index.c - take_rows, put_rows, and ravel, which turns the indices of several axes into one.
 *
 * As in index.c: indices are checked first, the work is cut by what is written, sums of f16 and bf16
 * are rounded once. */
#include <string.h>

#include "../../core/pool.h"
#include "cpu.h"
#include "isa.h"
#include "index.h"

/* x (M, R, N), index (K), y (M, K, N): the rows of x that the index names. */
typedef struct job {
    char *x; int64_t xs[3];                         /* strides in elements */
    char *y; int64_t ys[3];
    indices index;
    check check;                                    /* take: each chunk may check its own indices */
    cr_dtype dtype;
    size_t size;
    int64_t M, R, N, K;
    int64_t rows, columns, positions;               /* of a chunk */
    int64_t blocks, ranges;                         /* blocks of columns, ranges of rows of x, per group of m */
    bool sum;
    int32_t *slot; int64_t slots;                   /* sums of half precision: the f32 accumulator of each row */
    atomic_bool failed;
} job;

static job job_of(const cr_array *x, const cr_array *y) {
    const int64_t *s = x->strides, *t = y->strides;
    return (job){.x = cr_array_data(x),
                 .xs = {s[0], s[1], s[2]},
                 .y = cr_array_data(y),
                 .ys = {t[0], t[1], t[2]},
                 .dtype = x->dtype,
                 .size = cr_dtype_size(x->dtype),
                 .M = x->shape[0],
                 .R = x->shape[1],
                 .N = x->shape[2],
                 .K = y->shape[1]};
}

/* ---- take: y[m, k, n] = x[m, index[k], n], chunks of rows (m, k); y is contiguous */

#define TAKE(name, T)                                                                                           \
    static void name(const job *j, int64_t from, int64_t to) {                                                  \
        const int64_t N = j->N, K = j->K, row = j->xs[1], step = j->xs[2];                                      \
        const indices index = j->index;                                                                         \
        for (int64_t i = from; i < to;) {                                                                       \
            const int64_t m = i / K, first = i - m * K, end = cr_imin(K, first + to - i);                         \
            const T *x = (const T *)(const void *)j->x + m * j->xs[0];                                          \
            T *y = (T *)(void *)j->y + m * K * N;                                                               \
            if (N == 1) for (int64_t k = first; k < end; k++) y[k] = x[index_at(index, k) * row];               \
            else if (step == 1)                                                                                 \
                for (int64_t k = first; k < end; k++) memcpy(y + k * N, x + index_at(index, k) * row, \
                    (size_t)N * sizeof(T)); \
            else for (int64_t k = first; k < end; k++)                                                          \
                for (int64_t n = 0; n < N; n++) y[k * N + n] = x[index_at(index, k) * row + n * step];          \
            i += end - first;                                                                                   \
        }                                                                                                       \
    }
TAKE(take_1, uint8_t)
TAKE(take_2, uint16_t)
TAKE(take_4, uint32_t)
TAKE(take_8, uint64_t)
#undef TAKE

static void take_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    int64_t from = chunk * j->rows, to = cr_imin(j->M * j->K, from + j->rows);
    if (j->M == 1 && !cr_cpu_check(&j->check, from, to)) return;
    switch (j->size) {
        case 1: take_1(j, from, to); break;
        case 2: take_2(j, from, to); break;
        case 4: take_4(j, from, to); break;
        default: take_8(j, from, to);
    }
}

cr_status cr_cpu_take_rows(const cr_take_rows_args *args) {
    const cr_array *y = &args->y, *index = &args->index;
    job j = job_of(&args->x, y);
    const bool first = j.M != 1 || y->numel == 0;   /* all indices are checked first where many rows share them, or
                                                     * none uses them */
    const cr_status status = first ? cr_cpu_open_indices(args->op, index, j.R, args->wrap, &j.index)
                                   : cr_cpu_start_check(&j.check, args->op, index, j.R, args->wrap);
    if (status != CR_OK || y->numel == 0) return status;
    if (!first) j.index = j.check.x;
    j.rows = cr_imax(1, INDEX_GRAIN / j.N);
    cr_run_chunks(cr_pieces(j.M * j.K, j.rows), take_chunk, &j);
    return first ? CR_OK : cr_cpu_checked(&j.check);
}

/* ---- put: x[m, index[k], n] = y[m, k, n] or += in order of k; chunks of `rows` m by blocks of
 * columns or by ranges of positions */

typedef struct block { int64_t from, to, first, last; } block;      /* columns, positions */

#define PUT(name, T, MEET, replaces)                                                                            \
    static void name(const job *j, int64_t m, block b) {                                                        \
        const int64_t N = b.to - b.from, K = j->K, xr = j->xs[1], xn = j->xs[2], yr = j->ys[1], yn = j->ys[2];  \
        const indices index = j->index;                                                                         \
        T *x = (T *)(void *)j->x + m * j->xs[0] + b.from * xn;                                                  \
        const T *y = (const T *)(const void *)j->y + m * j->ys[0] + b.from * yn;                                \
        if (N == 1) for (int64_t k = 0; k < K && cr_goes_on(k, INDEX_GRAIN); k++) {                             \
            T *at = x + index_at(index, k) * xr;                                                                \
            *at = (T)MEET(*at, y[k * yr]);                                                                      \
        } else for (int64_t k = 0; k < K && cr_goes_on(k, INDEX_GRAIN); k++) {                                  \
            const int64_t position = index_at(index, k);                                                        \
            if (position < b.first || position >= b.last) continue;                                             \
            T *restrict at = x + position * xr;                                                                 \
            const T *of = y + k * yr, one = *of;                                                                \
            if (xn == 1 && yn == 1 && replaces) memcpy(at, of, (size_t)N * sizeof(T));                          \
            else if (xn == 1 && yn == 1) for (int64_t n = 0; n < N; n++) at[n] = (T)MEET(at[n], of[n]);         \
            else if (xn == 1 && yn == 0) for (int64_t n = 0; n < N; n++) at[n] = (T)MEET(at[n], one);           \
            else for (int64_t n = 0; n < N; n++) at[n * xn] = (T)MEET(at[n * xn], of[n * yn]);                  \
        }                                                                                                       \
    }
PUT(add_u8, uint8_t, SUM, false)
PUT(add_u16, uint16_t, SUM, false)
PUT(add_u32, uint32_t, SUM, false)
PUT(add_u64, uint64_t, SUM, false)
PUT(add_f32, float, SUM, false)
PUT(add_f64, double, SUM, false)
PUT(add_bool, uint8_t, EITHER, false)
PUT(put_1, uint8_t, LAST, true)
PUT(put_2, uint16_t, LAST, true)
PUT(put_4, uint32_t, LAST, true)
PUT(put_8, uint64_t, LAST, true)
#undef PUT

/* sum: (slots, to - from) f32, then a row of y.  The first use of a row of x loads its old value into its slot. */
static void add_half(const job *j, int64_t m, int64_t from, int64_t to, float *sum) {
    const int64_t n = to - from;
    int64_t seen = 0;
    float *row = sum + j->slots * n;
    uint16_t *x = (uint16_t *)(void *)j->x + m * j->xs[0] + from * j->xs[2];
    const uint16_t *y = (const uint16_t *)(const void *)j->y + m * j->ys[0] + from * j->ys[2];
    for (int64_t k = 0; k < j->K && cr_goes_on(k, INDEX_GRAIN); k++) {
        int64_t position = index_at(j->index, k), slot = j->slot[position];
        float *s = sum + slot * n;
        /* slots are numbered in the order of first use */
        if (slot == seen) { cr_block_load(CR_LANE_F32, s, j->dtype, x + position * j->xs[1], j->xs[2], n); seen++; }
        cr_block_load(CR_LANE_F32, row, j->dtype, y + k * j->ys[1], j->ys[2], n);
        for (int64_t c = 0; c < n; c++) s[c] += row[c];
    }
    seen = 0;
    for (int64_t k = 0; k < j->K; k++) {
        int64_t position = index_at(j->index, k);
        if (j->slot[position] != seen) continue;
        cr_block_store(CR_LANE_F32, sum + seen * n, j->dtype, x + position * j->xs[1], j->xs[2], n);
        seen++;
    }
}

static void put_one(const job *j, int64_t m, block b, float *sum) {
    if (!j->sum) {
        switch (j->size) {
            case 1: put_1(j, m, b); return;
            case 2: put_2(j, m, b); return;
            case 4: put_4(j, m, b); return;
            default: put_8(j, m, b); return;
        }
    }
    switch (j->dtype) {
        case CR_BOOL: add_bool(j, m, b); break;
        case CR_U8: case CR_I8: add_u8(j, m, b); break;
        case CR_U16: case CR_I16: add_u16(j, m, b); break;
        case CR_U32: case CR_I32: add_u32(j, m, b); break;
        case CR_F32: add_f32(j, m, b); break;
        case CR_F64: add_f64(j, m, b); break;
        case CR_F16: case CR_BF16: add_half(j, m, b.from, b.to, sum); break;
        default: add_u64(j, m, b);
    }
}

static void put_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t range = chunk % j->ranges, column = chunk / j->ranges % j->blocks;
    int64_t m = chunk / j->ranges / j->blocks * j->rows, last = cr_imin(j->M, m + j->rows);
    const block b = {column * j->columns, cr_imin(j->N, (column + 1) * j->columns), range * j->positions,
                     cr_imin(j->R, (range + 1) * j->positions)};
    size_t bytes = j->slot ? (size_t)((j->slots + 1) * (b.to - b.from)) * sizeof(float) : 0;
    float *sum = bytes ? cr_cpu_try_take(bytes) : NULL;
    if (bytes && !sum) { atomic_store(&j->failed, true); return; }
    for (; m < last; m++) put_one(j, m, b, sum);
    cr_cpu_give(sum, bytes);
}

/* Long rows are cut into a few ranges of rows of x, because every range reads all indices; others, and
 * sums of half precision, by columns. */
static void cut_rows(job *j) {
    enum { LONG = 64, RANGES = 16 };
    const int64_t pieces = cr_pieces(j->K * j->N, INDEX_GRAIN);
    j->columns = j->N;
    j->ranges = 1;
    if (j->N >= LONG && !j->slot) j->ranges = cr_imin(cr_imin(pieces, RANGES), j->R);
    else j->columns = cr_imin(j->N, cr_imax(16, INDEX_GRAIN / j->K));
    j->positions = (j->R + j->ranges - 1) / j->ranges;
    j->rows = cr_imax(1, INDEX_GRAIN / (j->K * j->columns));
    j->blocks = cr_pieces(j->N, j->columns);
}

/* Gives each position that the index names a slot, in the order of its first use.  False: no memory. */
static bool number_slots(job *j, size_t bytes) {
    if (!(j->slot = cr_cpu_take(bytes))) return false;
    memset(j->slot, -1, bytes);
    for (int64_t k = 0; k < j->K; k++) {
        int32_t *slot = j->slot + index_at(j->index, k);
        if (*slot < 0) *slot = (int32_t)j->slots++;
    }
    return true;
}

cr_status cr_cpu_put_rows(const cr_put_rows_args *args) {
    job j = job_of(&args->x, &args->src);
    const cr_status status = cr_cpu_open_indices(args->op, &args->index, j.R, args->wrap, &j.index);
    if (status != CR_OK || args->src.numel == 0) return status;
    j.sum = args->sum;
    if (j.M == 1 && j.N == 1 && cr_cpu_suits_buckets(j.dtype, j.sum, j.R, j.K))
        return cr_cpu_put_by_buckets(j.dtype, j.sum, j.x, j.xs[1], j.R, j.index, j.y, j.ys[1], j.K);
    const size_t bytes = j.sum && cr_dtype_is_half(j.dtype) ? (size_t)j.R * sizeof *j.slot : 0;
    if (bytes && !number_slots(&j, bytes)) return CR_NO_MEMORY;
    cut_rows(&j);
    cr_run_chunks(cr_pieces(j.M, j.rows) * j.blocks * j.ranges, put_chunk, &j);
    cr_cpu_give(j.slot, bytes);
    return atomic_load(&j.failed) ? cr_fail(CR_NO_MEMORY, args->op, "no memory for the sums") : CR_OK;
}

/* ---- ravel: y = ((i0 sizes[1]) + i1) sizes[2] + i2 ...; chunks of elements */

typedef struct ravel { int64_t *y; int n; const indices *index; int64_t numel; } ravel;

static void ravel_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const ravel *r = ctx;
    const int64_t from = chunk * INDEX_GRAIN, to = cr_imin(r->numel, from + INDEX_GRAIN);
    for (int k = 0; k < r->n; k++) {
        const indices index = r->index[k];
        if (k == 0) for (int64_t i = from; i < to; i++) r->y[i] = index_at(index, i);
        else for (int64_t i = from; i < to; i++) r->y[i] = r->y[i] * index.size + index_at(index, i);
    }
}

cr_status cr_cpu_ravel(const cr_ravel_args *args) {
    indices opened[CR_MAX_DIMS];
    for (int k = 0; k < args->n; k++) {
        const cr_status status = cr_cpu_open_indices(args->op, args->index[k], args->sizes[k], true, &opened[k]);
        if (status != CR_OK) return status;
    }
    ravel r = {cr_array_data(&args->y), args->n, opened, args->y.numel};
    cr_run_chunks(cr_pieces(r.numel, INDEX_GRAIN), ravel_chunk, &r);
    return CR_OK;
}
