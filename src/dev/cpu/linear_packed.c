/* linear_packed.c - layers with weights in a packed format (core/formats.h), on all threads: each byte of w is read
 * once for up to MOST_ROWS rows of x.  The sum of a row of w and one of x has one order, whatever the threads and the
 * other rows. */
#include <string.h>

#include "../../core/ints.h"
#include "../../core/pool.h"
#include "blocks.h"
#include "isa.h"
#include "linear_packed.h"

enum {
    MOST_ROWS = 256,                                /* of x for which a tile of w is kept, */
    MOST_X = 3 << 20,                               /* and their bytes, which the last cache holds for all of w */
    MOST_STORED = 64,                               /* numbers of y at a time */
    LEAST_CHUNK = 16 << 10, MOST_CHUNK = 64 << 10   /* bytes of w */
};

typedef struct job {
    const struct cr_packeds *kernels;
    int format;
    const cr_array *y, *w, *bias, *from;            /* from: x as it is given */
    cr_packed_x *x;                                 /* (M, units): rows `first` and on */
    int64_t first, M, N, K, units, each;            /* each: rows of w of a chunk */
    atomic_bool failed;
} job;

static job job_of(int format, const cr_array *y, const cr_array *w, int64_t K, const struct cr_packeds *kernels) {
    const int64_t N = w->shape[0], line = w->shape[1], lanes = kernels->lanes;
    const int64_t chunk = cr_imin(MOST_CHUNK, cr_imax(LEAST_CHUNK, N * line / 4));
    return (job){.kernels = kernels, .format = format, .y = y, .w = w, .N = N, .K = K,
                 .units = cr_pieces(K, CR_PACKED_TILE) * (CR_PACKED_TILE / CR_PACKED_UNIT),
                 .each = cr_imax(1, chunk / line / lanes) * lanes};
}

/* The addresses of rows n and on; those behind the last are the last. */
static void put_rows(const job *j, int64_t n, const uint8_t *row[CR_PACKED_LANES]) {
    const uint8_t *first = cr_array_data(j->w);
    const int64_t line = j->w->strides[0], last = j->N - 1;
    for (int r = 0; r < j->kernels->lanes; r++) row[r] = first + cr_imin(n + r, last) * line;
}

static const char *at(const cr_array *a, int64_t i) {
    return (const char *)cr_array_data(a) + i * (int64_t)cr_dtype_size(a->dtype);
}

/* ---- products */
static void prepare_chunk(void *ctx, int64_t m, int worker) {
    (void)worker;
    job *j = ctx;
    const bool plain = j->from->dtype == CR_F32;
    const size_t bytes = plain ? 0 : (size_t)j->K * sizeof(float);
    float *line = plain ? NULL : cr_cpu_try_take(bytes);
    if (!plain && !line) { atomic_store(&j->failed, true); return; }
    const char *from = at(j->from, (j->first + m) * j->K);
    if (!plain) cr_block_load(CR_LANE_F32, line, j->from->dtype, from, 1, j->K);
    j->kernels->prepare(j->format, j->x + m * j->units, plain ? (const float *)(const void *)from : line, j->K);
    cr_cpu_give(line, bytes);
}

/* n numbers of y (M, N) from row m, column `first` on */
static void store(const job *j, const float *sum, int64_t m, int64_t first, int64_t n) {
    float bias[MOST_STORED], y[MOST_STORED];
    if (j->bias) cr_block_load(CR_LANE_F32, bias, j->bias->dtype, at(j->bias, first), 1, n);
    for (int64_t i = 0; i < n; i++) y[i] = j->bias ? sum[i] + bias[i] : sum[i];
    char *to = (char *)(uintptr_t)at(j->y, (j->first + m) * j->N + first);
    if (j->y->dtype == CR_F32) memcpy(to, y, (size_t)n * sizeof *y);
    else cr_block_store(CR_LANE_F32, y, j->y->dtype, to, 1, n);
}

static void row_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const job *j = ctx;
    const uint8_t *w = cr_array_data(j->w);
    const int64_t end = cr_imin(j->N, (chunk + 1) * j->each), line = j->w->strides[0];
    for (int64_t first = chunk * j->each, n; first < end; first += n) {
        float sum[MOST_STORED];
        n = cr_imin(MOST_STORED, end - first);
        j->kernels->row(j->format, sum, w + first * line, line, n, j->K, j->x);
        store(j, sum, 0, first, n);
    }
}

static void rows_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int lanes = j->kernels->lanes;
    const int64_t end = cr_imin(j->N, (chunk + 1) * j->each), each = CR_PACKED_CHAINS * lanes;
    const size_t bytes = (size_t)(j->M * each) * sizeof(float);
    float *sum = cr_cpu_try_take(bytes);
    if (!sum) { atomic_store(&j->failed, true); return; }
    for (int64_t n = chunk * j->each; n < end; n += lanes) {
        const uint8_t *row[CR_PACKED_LANES];
        put_rows(j, n, row);
        memset(sum, 0, bytes);
        j->kernels->rows(j->format, sum, row, j->K, j->x, j->M);
        for (int64_t m = 0; m < j->M; m++) {
            float *c = sum + m * each;
            for (int r = 0; r < lanes; r++) c[r] = (c[r] + c[2 * lanes + r]) + (c[lanes + r] + c[3 * lanes + r]);
            store(j, c, m, n, cr_imin(lanes, j->N - n));
        }
    }
    cr_cpu_give(sum, bytes);
}

static const struct cr_packeds *kernels(void) {
#if defined __x86_64__
    if (cr_cpu_bytes()) return &cr_packeds_bytes;
#endif
    return cr_cpu_vec()->packed;
}

/* Some rows of x, j->M from `first` on, times all of w. */
static void multiply(job *j) {
    if (j->M == 1) prepare_chunk(j, 0, 0);
    else cr_run_chunks(j->M, prepare_chunk, j);
    const bool one = j->M == 1 && j->kernels->row;
    if (!atomic_load(&j->failed)) cr_run_chunks(cr_pieces(j->N, j->each), one ? row_chunk : rows_chunk, j);
}

cr_status cr_cpu_linear_packed(const cr_linear_packed_args *args) {
    const int64_t M = args->x.shape[0], K = args->x.shape[1];
    if (!cr_note_done(args->done, args->x.dtype != CR_F64)) return CR_OK;
    job j = job_of(args->format, &args->y, &args->w, K, kernels());
    const int64_t line = j.units * (int64_t)sizeof *j.x, most = cr_imin(MOST_ROWS, cr_imax(16, MOST_X / line));
    size_t bytes = (size_t)(cr_imin(M, most) * line);
    j.bias = cr_present(&args->bias), j.from = &args->x;
    j.x = cr_cpu_take_room(&bytes);
    if (!j.x) return CR_NO_MEMORY;
    for (; j.first < M && !atomic_load(&j.failed); j.first += j.M) {
        j.M = cr_imin(most, M - j.first);
        multiply(&j);
    }
    cr_cpu_give(j.x, bytes);
    return j.failed ? cr_fail(CR_NO_MEMORY, "linear_packed", "no memory for rows of %lld numbers", (long long)K)
                    : CR_OK;
}

/* ---- to floats */
static void unpack_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int lanes = j->kernels->lanes;
    const int64_t K = j->K, end = cr_imin(j->N, (chunk + 1) * j->each);
    const size_t bytes = (size_t)(lanes * K) * sizeof(float);
    float *part = cr_cpu_try_take(bytes);
    if (!part) { atomic_store(&j->failed, true); return; }
    for (int64_t n = chunk * j->each; n < end; n += lanes) {
        const uint8_t *row[CR_PACKED_LANES];
        const int64_t N = cr_imin(lanes, end - n), count = N * K;
        char *to = (char *)(uintptr_t)at(j->y, n * K);
        put_rows(j, n, row);
        j->kernels->unpack(j->format, part, row, N, K);
        if (j->y->dtype == CR_F32) memcpy(to, part, (size_t)count * sizeof *part);
        else if (j->y->dtype != CR_F64) cr_block_store(CR_LANE_F32, part, j->y->dtype, to, 1, count);
        for (int64_t i = 0; j->y->dtype == CR_F64 && i < count; i++) ((double *)(void *)to)[i] = (double)part[i];
    }
    cr_cpu_give(part, bytes);
}

cr_status cr_cpu_unpack(const cr_unpack_args *args) {
    job j = job_of(args->format, &args->y, &args->w, args->y.shape[1], cr_cpu_vec()->packed);
    cr_run_chunks(cr_pieces(j.N, j.each), unpack_chunk, &j);
    return j.failed ? cr_fail(CR_NO_MEMORY, "unpack", "no memory for rows of %lld numbers", (long long)j.K) : CR_OK;
}
