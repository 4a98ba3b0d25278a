/* index.c - gather, scatter-add, rows taken and rows added.
 *
 * Every index is checked before anything is written.  Additions to one place happen in the order of the source: the work is cut
 * by what is written (places, columns), never by what is read, so there is nothing to lock and the bits are fixed.  f16 and bf16
 * are added in f32 and rounded once, after the last addition.  All of it is limited by memory. */
#include <string.h>

#include "../../core/pool.h"
#include "cpu.h"
#include "product.h"

enum { GRAIN = 32768 };                             /* elements that one chunk moves or adds, about 10 us */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static bool is_half(cr_dtype dt) { return dt == CR_F16 || dt == CR_BF16; }

/* ---- indices */

typedef struct indices { const void *at; bool wide; } indices;     /* wide: i64, else i32 */

static inline int64_t index_at(indices x, int64_t i) {
    return x.wide ? ((const int64_t *)x.at)[i] : ((const int32_t *)x.at)[i];
}

static bool any_outside(indices x, int64_t from, int64_t to, int64_t size) {
    bool bad = false;
    if (x.wide) for (int64_t i = from; i < to; i++) bad |= (uint64_t)((const int64_t *)x.at)[i] >= (uint64_t)size;
    else for (int64_t i = from; i < to; i++) bad |= (uint64_t)((const int32_t *)x.at)[i] >= (uint64_t)size;
    return bad;
}

/* All of index lies in 0 .. size - 1, or a message says which does not. */
static cr_status open_indices(const char *op, const cr_tensor *index, int64_t size, indices *out) {
    cr_dtype dt = (cr_dtype)index->dtype;
    if (dt != CR_I32 && dt != CR_I64) return cr_fail(CR_BAD_TYPE, op, "index must be int32 or int64, not %s", cr_dtype_name(dt));
    *out = (indices){cr_tensor_data(index), dt == CR_I64};
    for (int64_t from = 0, to; from < index->numel; from = to) {
        to = least(index->numel, from + 4096);
        if (!any_outside(*out, from, to, size)) continue;
        while (!any_outside(*out, from, from + 1, size)) from++;
        return cr_fail(CR_BAD_INDEX, op, "index %lld at position %lld is out of range for size %lld", (long long)index_at(*out, from),
                       (long long)from, (long long)size);
    }
    return CR_OK;
}

typedef struct job {
    char *y;                                        /* written */
    const char *x;                                  /* read */
    indices index;
    cr_dtype dtype;
    size_t size;
    int64_t M, R, N, K;
    int64_t rows, columns, blocks;                  /* of a chunk; column blocks in a row of chunks */
    int32_t *slot; int64_t slots;                   /* add_rows of halves: where the sum of a row is kept */
    const cr_product_isa *isa;
    atomic_bool failed;
} job;

static job job_of(const cr_tensor *y, const cr_tensor *x) {
    return (job){.y = cr_tensor_data(y), .x = cr_tensor_data(x), .dtype = (cr_dtype)y->dtype, .size = cr_dtype_size((cr_dtype)y->dtype)};
}

static cr_status run(job *j, const char *op, int64_t chunks, void (*fn)(void *, int64_t, int)) {
    if (chunks == 1) fn(j, 0, 0);
    else cr_pool_run(chunks, fn, j);
    return atomic_load(&j->failed) ? cr_fail(CR_NO_MEMORY, op, "no memory for the sums") : CR_OK;
}

/* ---- gather: y[m, k, n] = x[m, index[m, k, n], n], chunks of rows (m, k) */

#define GATHER(name, T)                                                                                         \
    static void name(const job *j, int64_t from, int64_t to) {                                                  \
        for (int64_t row = from; row < to; row++) {                                                             \
            const T *x = (const T *)(const void *)j->x + row / j->K * j->R * j->N;                              \
            T *y = (T *)(void *)j->y + row * j->N;                                                              \
            for (int64_t n = 0; n < j->N; n++) y[n] = x[index_at(j->index, row * j->N + n) * j->N + n];         \
        }                                                                                                       \
    }
GATHER(gather_1, uint8_t)
GATHER(gather_2, uint16_t)
GATHER(gather_4, uint32_t)
GATHER(gather_8, uint64_t)
#undef GATHER

static void gather_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    int64_t from = chunk * j->rows, to = least(j->M * j->K, from + j->rows);
    switch (j->size) {
        case 1: gather_1(j, from, to); break;
        case 2: gather_2(j, from, to); break;
        case 4: gather_4(j, from, to); break;
        default: gather_8(j, from, to);
    }
}

cr_status cr_cpu_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K) {
    job j = job_of(y, x);
    cr_status s = open_indices("gather", index, R, &j.index);
    if (s || y->numel == 0) return s;
    j.M = M; j.R = R; j.N = N; j.K = K;
    j.rows = most(1, GRAIN / N);
    return run(&j, "gather", cr_pieces(M * K, j.rows), gather_chunk);
}

/* ---- scatter-add: y[m, index[m, k, n], n] += src[m, k, n] in order of k, chunks of `rows` m by `columns` n */

#define SCATTER(name, T, PLUS)                                                                                  \
    static void name(const job *j, int64_t m, int64_t from, int64_t to) {                                       \
        T *y = (T *)(void *)j->y + m * j->R * j->N;                                                             \
        for (int64_t k = 0; k < j->K; k++) {                                                                    \
            int64_t row = (m * j->K + k) * j->N;                                                                \
            const T *x = (const T *)(const void *)j->x + row;                                                   \
            for (int64_t n = from; n < to; n++) {                                                               \
                T *at = y + index_at(j->index, row + n) * j->N + n;                                             \
                *at = (T)(*at PLUS x[n]);                                                                       \
            }                                                                                                   \
        }                                                                                                       \
    }
SCATTER(scatter_u8, uint8_t, +)
SCATTER(scatter_u16, uint16_t, +)
SCATTER(scatter_u32, uint32_t, +)
SCATTER(scatter_u64, uint64_t, +)
SCATTER(scatter_f32, float, +)
SCATTER(scatter_f64, double, +)
SCATTER(scatter_bool, uint8_t, |)
#undef SCATTER

/* sum: (R, to - from) f32 */
static void scatter_half(const job *j, int64_t m, int64_t from, int64_t to, float *sum) {
    bool bf16 = j->dtype == CR_BF16;
    int64_t n = to - from;
    uint16_t *y = (uint16_t *)(void *)j->y + m * j->R * j->N + from;
    for (int64_t r = 0; r < j->R; r++) j->isa->f32_from_half(sum + r * n, y + r * j->N, n, bf16);
    for (int64_t k = 0; k < j->K; k++) {
        int64_t row = (m * j->K + k) * j->N + from;
        const uint16_t *x = (const uint16_t *)(const void *)j->x + row;
        for (int64_t i = 0; i < n; i++) sum[index_at(j->index, row + i) * n + i] += bf16 ? cr_bf16_to_f32(x[i]) : cr_f16_to_f32(x[i]);
    }
    for (int64_t r = 0; r < j->R; r++) j->isa->half_from_f32(y + r * j->N, sum + r * n, n, bf16);
}

static void scatter_one(const job *j, int64_t m, int64_t from, int64_t to, float *sum) {
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
    int64_t m = chunk / j->blocks * j->rows, last = least(j->M, m + j->rows);
    int64_t from = chunk % j->blocks * j->columns, to = least(j->N, from + j->columns);
    size_t bytes = is_half(j->dtype) ? (size_t)(j->R * (to - from)) * sizeof(float) : 0;
    float *sum = bytes ? cr_cpu_take(bytes) : NULL;
    if (bytes && !sum) { atomic_store(&j->failed, true); return; }
    for (; m < last; m++) scatter_one(j, m, from, to, sum);
    cr_cpu_give(sum, bytes);
}

cr_status cr_cpu_scatter_add(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, int64_t M, int64_t R, int64_t N, int64_t K) {
    job j = job_of(y, src);
    cr_status s = open_indices("scatter_add", index, R, &j.index);
    if (s || src->numel == 0) return s;
    j.M = M; j.R = R; j.N = N; j.K = K;
    j.isa = cr_product_best();
    int64_t work = K * N;
    j.rows = most(1, GRAIN / work);
    j.columns = work <= GRAIN ? N : least(N, most(16, GRAIN / K));
    j.blocks = cr_pieces(N, j.columns);
    return run(&j, "scatter_add", cr_pieces(M, j.rows) * j.blocks, scatter_chunk);
}

/* ---- rows: y[i, :] = w[index[i], :], chunks of rows.  Here K rows of N out of R. */

static void take_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    size_t bytes = (size_t)j->N * j->size;
    int64_t from = chunk * j->rows, to = least(j->K, from + j->rows);
    for (int64_t i = from; i < to; i++) memcpy(j->y + (size_t)i * bytes, j->x + (size_t)index_at(j->index, i) * bytes, bytes);
}

cr_status cr_cpu_take_rows(cr_tensor *y, const cr_tensor *w, const cr_tensor *index) {
    job j = job_of(y, w);
    cr_status s = open_indices("embedding", index, w->shape[0], &j.index);
    if (s || y->numel == 0) return s;
    j.N = w->shape[1]; j.K = index->numel;
    j.rows = most(1, GRAIN / j.N);
    return run(&j, "take_rows", cr_pieces(j.K, j.rows), take_chunk);
}

/* ---- w[index[i], :] += g[i, :] in order of i, chunks of columns */

#define ADD(name, T, PLUS)                                                                                      \
    static void name(const job *j, int64_t from, int64_t to) {                                                  \
        for (int64_t i = 0; i < j->K; i++) {                                                                    \
            T *restrict w = (T *)(void *)j->y + index_at(j->index, i) * j->N;                                   \
            const T *g = (const T *)(const void *)j->x + i * j->N;                                              \
            for (int64_t n = from; n < to; n++) w[n] = (T)(w[n] PLUS g[n]);                                     \
        }                                                                                                       \
    }
ADD(add_u8, uint8_t, +)
ADD(add_u16, uint16_t, +)
ADD(add_u32, uint32_t, +)
ADD(add_u64, uint64_t, +)
ADD(add_f32, float, +)
ADD(add_f64, double, +)
ADD(add_bool, uint8_t, |)
#undef ADD

/* sum: (slots, to - from) f32, then a row of g.  The first time a row is met its old value is put into its slot. */
static void add_half(const job *j, int64_t from, int64_t to, float *sum) {
    bool bf16 = j->dtype == CR_BF16;
    int64_t n = to - from, seen = 0;
    float *g = sum + j->slots * n;
    uint16_t *w = (uint16_t *)(void *)j->y + from;
    const uint16_t *x = (const uint16_t *)(const void *)j->x + from;
    for (int64_t i = 0; i < j->K; i++) {
        int64_t row = index_at(j->index, i), slot = j->slot[row];
        float *s = sum + slot * n;
        if (slot == seen) { j->isa->f32_from_half(s, w + row * j->N, n, bf16); seen++; }     /* slots are numbered as they are met */
        j->isa->f32_from_half(g, x + i * j->N, n, bf16);
        for (int64_t c = 0; c < n; c++) s[c] += g[c];
    }
    seen = 0;
    for (int64_t i = 0; i < j->K; i++) {
        int64_t row = index_at(j->index, i);
        if (j->slot[row] != seen) continue;
        j->isa->half_from_f32(w + row * j->N, sum + seen * n, n, bf16);
        seen++;
    }
}

static void add_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    int64_t from = chunk * j->columns, to = least(j->N, from + j->columns);
    switch (j->dtype) {
        case CR_BOOL: add_bool(j, from, to); return;
        case CR_U8: case CR_I8: add_u8(j, from, to); return;
        case CR_U16: case CR_I16: add_u16(j, from, to); return;
        case CR_U32: case CR_I32: add_u32(j, from, to); return;
        case CR_F32: add_f32(j, from, to); return;
        case CR_F64: add_f64(j, from, to); return;
        case CR_F16: case CR_BF16: break;
        default: add_u64(j, from, to); return;
    }
    size_t bytes = (size_t)((j->slots + 1) * (to - from)) * sizeof(float);
    float *sum = cr_cpu_take(bytes);
    if (!sum) { atomic_store(&j->failed, true); return; }
    add_half(j, from, to, sum);
    cr_cpu_give(sum, bytes);
}

cr_status cr_cpu_add_rows(cr_tensor *w, const cr_tensor *index, const cr_tensor *g) {
    job j = job_of(w, g);
    j.R = w->shape[0]; j.N = w->shape[1]; j.K = index->numel;
    cr_status s = open_indices("embedding", index, j.R, &j.index);
    if (s || g->numel == 0) return s;
    size_t map = is_half(j.dtype) ? (size_t)j.R * sizeof *j.slot : 0;
    if (map) {
        j.isa = cr_product_best();
        j.slot = cr_cpu_take(map);
        if (!j.slot) return CR_NO_MEMORY;
        memset(j.slot, -1, map);
        for (int64_t i = 0; i < j.K; i++) {
            int32_t *slot = j.slot + index_at(j.index, i);
            if (*slot < 0) *slot = (int32_t)j.slots++;
        }
    }
    j.columns = least(j.N, most(16, GRAIN / j.K));
    s = run(&j, "add_rows", cr_pieces(j.N, j.columns), add_chunk);
    cr_cpu_give(j.slot, map);
    return s;
}
