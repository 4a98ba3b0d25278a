/* band.c - y[m, s, n] = sum over k of weights[s, k] x[m, start[s] + k, n]: threads split the rows (m, s). */
#include "blocks.h"
#include "../../core/pool.h"

enum { WIDTH = 512 };                               /* lanes of a strip of n */

typedef struct band {
    const cr_band_args *args;
    int64_t S, N, K, each;                          /* each: rows of a chunk */
    cr_lane lane;
    size_t size;
} band;

#define ROW(T)                                                                                      \
static void add_##T(T *y, const T *x, const T *w, int64_t n) {                                      \
    for (int64_t i = 0; i < n; i++) y[i] += *w * x[i];                                              \
}
ROW(float)
ROW(double)

static void band_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const band *b = ctx;
    const cr_band_args *args = b->args;
    const cr_array *x = &args->x, *y = &args->y;
    const int64_t *start = cr_array_data(&args->start), dt = (int64_t)cr_dtype_size(x->dtype);
    const char *weights = cr_array_data(&args->weights);
    const int64_t end = cr_imin((chunk + 1) * b->each, x->shape[0] * b->S);
    double sum[WIDTH], lane[WIDTH];
    for (int64_t row = chunk * b->each; row < end; row++)
        for (int64_t n = 0, width; n < b->N; n += width) {
            const int64_t m = row / b->S, s = row % b->S;
            width = cr_imin(WIDTH, b->N - n);
            memset(sum, 0, sizeof sum);
            for (int64_t k = 0; k < b->K; k++) {
                const char *w = weights + (size_t)(s * b->K + k) * b->size;
                const double weight = cr_load_f64(w, args->weights.dtype);
                if (weight == 0) continue;
                cr_block_load(b->lane, lane, x->dtype,
                              (const char *)cr_array_data(x) +
                                  (m * x->strides[0] + (start[s] + k) * x->strides[1] + n * x->strides[2]) * dt,
                              x->strides[2], width);
                if (b->lane == CR_LANE_F64) add_double(sum, lane, (const double *)(const void *)w, width);
                else add_float((float *)(void *)sum, (const float *)(const void *)lane, (const float *)(const void *)w,
                               width);
            }
            cr_block_store(b->lane, sum, y->dtype, (char *)cr_array_data(y) + (row * b->N + n) * dt, 1, width);
        }
}

cr_status cr_cpu_band(const cr_band_args *args) {
    band b = {.args = args, .S = args->y.shape[1], .N = args->y.shape[2], .K = args->weights.shape[1],
              .lane = cr_lane_of(args->x.dtype)};
    b.size = cr_lane_size(b.lane);
    b.each = cr_pieces(cr_chunk(args->y.numel * b.K), b.N * b.K);
    cr_run_chunks(cr_pieces(args->x.shape[0] * b.S, b.each), band_chunk, &b);
    return CR_OK;
}
