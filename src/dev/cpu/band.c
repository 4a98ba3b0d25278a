/* band.c - y[m, s, n] = sum over k of weights[s, k] x[m, start[s] + k, n]: threads split the rows (m, s), or m where
 * N = 1.
 *
 * Where N > 1 a row of y is a sum of rows of x.  Where N = 1 the rows of a band often repeat: P rows of weights, each
 * time Q elements further on.  Average pooling has P = 1 and the stride as Q, resampling to twice the size P = 2 and
 * Q = 1.  The repeated part runs by vectors. */
#include "isa.h"
#include "windows.h"
#include "../../core/pool.h"

enum { STRIP = 1024, MOST_PERIOD = 4 };

typedef struct band {
    const cr_band_args *args;
    int64_t M, R, S, N, K, each;                    /* each: rows of a chunk */
    const int64_t *start;
    const char *weights;
    int64_t first, count;                           /* N = 1: rows first .. first + count P - 1 repeat */
    int P, Q;
    cr_lane lane;
    size_t size;                                    /* bytes of a lane */
    atomic_bool failed;
} band;

static const char *element(const cr_array *a, int64_t i) {
    return (const char *)cr_array_data(a) + i * (int64_t)cr_dtype_size(a->dtype);
}

/* ---- N > 1 */
static void mix_strip(const band *b, int64_t m, int64_t s, int64_t n, int64_t width) {
    const cr_array *x = &b->args->x, *y = &b->args->y;
    const struct cr_windows *k = cr_cpu_vec()->windows;
    const bool is_f64 = b->lane == CR_LANE_F64;
    const char *w = b->weights + (size_t)(s * b->K) * b->size;
    const int64_t from = m * x->strides[0] + b->start[s] * x->strides[1] + n * x->strides[2];
    char *to = (char *)(uintptr_t)element(y, (m * b->S + s) * b->N + n);
    double lanes[STRIP], sum[STRIP];
    if (cr_dtype_size(x->dtype) == b->size && x->strides[2] == 1) {
        k->mix[is_f64](to, element(x, from), x->strides[1], w, b->K, width);
        return;
    }
    memset(sum, 0, (size_t)width * b->size);
    for (int64_t i = 0; i < b->K; i++) {            /* two rows: the sum so far, and the next row of x */
        const char *one = w + (size_t)i * b->size;
        if ((is_f64 ? *(const double *)(const void *)one : (double)*(const float *)(const void *)one) == 0) continue;
        cr_block_load(b->lane, lanes, x->dtype, element(x, from + i * x->strides[1]), x->strides[2], width);
        if (is_f64) for (int64_t j = 0; j < width; j++) sum[j] += *(const double *)(const void *)one * lanes[j];
        else for (int64_t j = 0; j < width; j++)
            ((float *)sum)[j] += *(const float *)(const void *)one * ((const float *)lanes)[j];
    }
    cr_block_store(b->lane, sum, y->dtype, to, 1, width);
}

static void mix_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const band *b = ctx;
    const int64_t end = cr_imin((chunk + 1) * b->each, b->M * b->S);
    for (int64_t row = chunk * b->each; row < end; row++)
        for (int64_t n = 0; n < b->N; n += STRIP) mix_strip(b, row / b->S, row % b->S, n, cr_imin(STRIP, b->N - n));
}

/* ---- N = 1 */
#define ROWS(T) \
static void rows_##T(const band *b, T *y, const T *x, int64_t first, int64_t end) { \
    const T *w = (const T *)(const void *)b->weights + first * b->K; \
    for (int64_t s = first; s < end; s++, w += b->K) { \
        const T *from = x + b->start[s]; \
        T sum = 0; \
        for (int64_t k = 0; k < b->K; k++) sum += w[k] != 0 ? w[k] * from[k] : 0; \
        y[s] = sum; \
    } \
}
ROWS(float)
ROWS(double)

static void some_rows(const band *b, void *y, const void *x, int64_t first, int64_t end) {
    if (b->lane == CR_LANE_F64) rows_double(b, y, x, first, end);
    else rows_float(b, y, x, first, end);
}

static void band_line(const band *b, void *y, const void *x) {
    const int64_t behind = b->first + b->count * b->P;
    some_rows(b, y, x, 0, b->first);
    if (b->count) {
        int64_t offset[MOST_PERIOD];
        for (int p = 0; p < b->P; p++) offset[p] = b->start[b->first + p];
        cr_cpu_vec()->windows->slide[b->lane == CR_LANE_F64](
            (char *)y + (size_t)b->first * b->size, x, b->weights + (size_t)(b->first * b->K) * b->size, offset, b->K,
            b->P, b->Q, b->count);
    }
    some_rows(b, y, x, behind, b->S);
}

static void line_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    band *b = ctx;
    const cr_array *x = &b->args->x, *y = &b->args->y;
    const bool converts = cr_dtype_size(x->dtype) != b->size, copies = converts || x->strides[1] != 1;
    const size_t bytes = copies ? (size_t)(b->R + b->S) * b->size : 0;
    char *scratch = bytes ? cr_cpu_try_take(bytes) : NULL;
    if (bytes && !scratch) { atomic_store(&b->failed, true); return; }
    char *result = bytes ? scratch + (size_t)b->R * b->size : NULL;
    const int64_t end = cr_imin((chunk + 1) * b->each, b->M);
    for (int64_t m = chunk * b->each; m < end; m++) {
        const char *from = element(x, m * x->strides[0]);
        char *to = (char *)(uintptr_t)element(y, m * b->S);
        if (copies) cr_block_load(b->lane, scratch, x->dtype, from, x->strides[1], b->R);
        band_line(b, converts ? result : to, copies ? scratch : from);
        if (converts) cr_block_store(b->lane, result, y->dtype, to, 1, b->S);
    }
    cr_cpu_give(scratch, bytes);
}

/* Rows that repeat with period P from `first` on: how many periods follow one another. */
static int64_t periods(const band *b, int64_t first, int P, int *Q) {
    const size_t row = (size_t)b->K * b->size;
    int64_t s = first + P;
    if (s >= b->S) return 0;
    const int64_t step = b->start[s] - b->start[first];
    if (step < 1 || step > MOST_PERIOD || (P > 1 && step > 1)) return 0;
    while (s < b->S && b->start[s] == b->start[s - P] + step &&
           !memcmp(b->weights + (size_t)s * row, b->weights + (size_t)(s - P) * row, row))
        s++;
    *Q = (int)step;
    return (s - first) / P;
}

/* The longest repeated part that begins at one of the first rows: those before it touch the edge. */
static void find_periods(band *b) {
    for (int64_t first = 0; first < cr_imin(2 * MOST_PERIOD, b->S); first++)
        for (int P = 1; P <= MOST_PERIOD; P++) {
            int Q;
            const int64_t count = periods(b, first, P, &Q);
            if (count < 4 || count * P <= b->count * b->P) continue;
            b->first = first;
            b->count = count;
            b->P = P;
            b->Q = Q;
        }
}

cr_status cr_cpu_band(const cr_band_args *args) {
    const int64_t *in = args->x.shape, *out = args->y.shape;
    band b = {.args = args, .M = in[0], .R = in[1], .S = out[1], .N = out[2], .K = args->weights.shape[1],
              .start = cr_array_data(&args->start), .weights = cr_array_data(&args->weights),
              .lane = cr_lane_of(args->x.dtype)};
    const int64_t work = cr_chunk(args->y.numel * b.K);
    b.size = cr_lane_size(b.lane);
    if (b.N > 1) {
        b.each = cr_pieces(work, b.N * b.K);
        cr_run_chunks(cr_pieces(b.M * b.S, b.each), mix_chunk, &b);
        return CR_OK;
    }
    find_periods(&b);
    b.each = cr_pieces(work, b.S * b.K);
    cr_run_chunks(cr_pieces(b.M, b.each), line_chunk, &b);
    return b.failed ? cr_fail(CR_NO_MEMORY, "band", "out of memory for rows of %lld numbers", (long long)(b.R + b.S))
                    : CR_OK;
}
