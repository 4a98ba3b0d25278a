/* quantized.c - layers with weights of 4 or 8 bits, on all threads: rows of w times few rows of x, each code read once
 * from memory (quantized_isa.c); parts of w as floats for the products of many rows. */
#include <string.h>

#include "../../core/pool.h"
#include "blocks.h"
#include "isa.h"
#include "quantized.h"

enum {
    FEW_ROWS = 4,                                   /* of x: more are faster as a product of floats */
    LEAST_CHUNK = 16 << 10, MOST_CHUNK = 64 << 10   /* bytes of codes */
};

typedef struct job {
    const struct cr_quantizeds *kernels;
    cr_quantized_shape shape;
    const cr_array *y, *codes, *scales, *bias;      /* codes, scales: rows may lie apart where they become floats */
    const cr_quantized_row *x;
    int64_t M, N, each;                             /* each: rows of w of a chunk */
    atomic_bool failed;
} job;

static const struct cr_quantizeds *kernels(void) {
#if defined __x86_64__
    if (cr_cpu_bytes()) return &cr_quantizeds_bytes;
#endif
    return cr_cpu_vec()->quantized;
}

static job job_of(const cr_array *codes, const cr_array *scales, int64_t K) {
    const bool eight = cr_quantized_has_8_bits(codes);
    const int64_t N = codes->shape[0], line = eight ? K : K / 2;
    const int64_t chunk = cr_imin(MOST_CHUNK, cr_imax(LEAST_CHUNK, N * line / 4));
    return (job){.kernels = kernels(),
                 .shape = {K, K / scales->shape[1], eight},
                 .codes = codes,
                 .scales = scales,
                 .N = N,
                 .each = cr_imax(16, chunk / line / 4 * 4)};
}

static const uint8_t *codes_at(const job *j, int64_t n) {
    return (const uint8_t *)cr_array_data(j->codes) + n * j->codes->strides[0];
}
static const uint16_t *scales_at(const job *j, int64_t n) {
    return (const uint16_t *)cr_array_data(j->scales) + n * j->scales->strides[0];
}

/* ---- few rows of x */
static void rows_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t end = cr_imin(j->N, (chunk + 1) * j->each);
    const size_t size = cr_dtype_size(j->y->dtype);
    float part[256], bias[256];
    for (int64_t first = chunk * j->each, n; first < end; first += n) {
        n = cr_imin(256, end - first);
        if (j->bias)
            cr_block_load(CR_LANE_F32, bias, j->bias->dtype,
                          (const char *)cr_array_data(j->bias) + (size_t)first * size, 1, n);
        for (int64_t m = 0; m < j->M; m++) {
            j->kernels->rows(&j->shape, part, codes_at(j, first), scales_at(j, first), n, &j->x[m]);
            for (int64_t i = 0; j->bias && i < n; i++) part[i] += bias[i];
            cr_block_store(CR_LANE_F32, part, j->y->dtype,
                           (char *)cr_array_data(j->y) + (size_t)(m * j->N + first) * size, 1, n);
        }
    }
}

cr_status cr_cpu_linear_quantized(const cr_linear_quantized_args *args) {
    const int64_t M = args->x.shape[0], K = args->x.shape[1];
    if (!cr_note_done(args->done, M <= FEW_ROWS && args->x.dtype != CR_F64)) return CR_OK;
    job j = job_of(&args->codes, &args->scales, K);
    j.y = &args->y, j.bias = cr_present(&args->bias), j.M = M;
    const int64_t units = cr_pieces(K, CR_QUANTIZED_UNIT), groups = cr_pieces(K / j.shape.G, 16) * 16;
    const int64_t q = units * CR_QUANTIZED_UNIT * CR_QUANTIZED_X, line = K * (int64_t)sizeof(float),
                  numbers = 2 * groups * (int64_t)sizeof(float);
    const size_t bytes = (size_t)(M * (q + numbers) + line);
    char *scratch = cr_cpu_take(bytes);
    if (!scratch) return CR_NO_MEMORY;
    cr_quantized_row x[FEW_ROWS];
    for (int64_t m = 0; m < M; m++) {
        char *at = scratch + m * (q + numbers);
        x[m] = (cr_quantized_row){at, (float *)(void *)(at + q), (float *)(void *)(at + q) + groups};
        float *row = (float *)(void *)(scratch + M * (q + numbers));
        cr_block_load(CR_LANE_F32, row, args->x.dtype,
                      (const char *)cr_array_data(&args->x) + (size_t)(m * K) * cr_dtype_size(args->x.dtype), 1, K);
        j.kernels->prepare(&j.shape, &x[m], row);
    }
    j.x = x;
    cr_run_chunks(cr_pieces(j.N, j.each), rows_chunk, &j);
    cr_cpu_give(scratch, bytes);
    return CR_OK;
}

/* ---- to floats */
static void unpack_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    const int64_t K = j->shape.K;
    const bool plain = j->y->dtype == CR_F32;
    const size_t size = cr_dtype_size(j->y->dtype), bytes = plain ? 0 : (size_t)K * sizeof(float);
    float *line = plain ? NULL : cr_cpu_try_take(bytes);
    if (!plain && !line) { atomic_store(&j->failed, true); return; }
    for (int64_t n = chunk * j->each; n < cr_imin(j->N, (chunk + 1) * j->each); n++) {
        char *to = (char *)cr_array_data(j->y) + (size_t)(n * K) * size;
        cr_cpu_vec()->quantized->unpack(&j->shape, plain ? (float *)(void *)to : line, codes_at(j, n), scales_at(j, n));
        for (int64_t k = 0; j->y->dtype == CR_F64 && k < K; k++) ((double *)(void *)to)[k] = (double)line[k];
        if (!plain && j->y->dtype != CR_F64) cr_block_store(CR_LANE_F32, line, j->y->dtype, to, 1, K);
    }
    cr_cpu_give(line, bytes);
}

cr_status cr_cpu_dequantize(const cr_dequantize_args *args) {
    job j = job_of(&args->codes, &args->scales, args->y.shape[1]);
    j.y = &args->y;
    cr_run_chunks(cr_pieces(j.N, j.each), unpack_chunk, &j);
    return j.failed ? cr_fail(CR_NO_MEMORY, "dequantize", "no memory for a row of %lld numbers", (long long)j.shape.K)
                    : CR_OK;
}
