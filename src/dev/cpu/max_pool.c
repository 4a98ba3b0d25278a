/* max_pool.c - the largest element of each window, and its position: threads split the rows of all planes.
 *
 * A row of results takes one element of the kernel at a time, over all windows that hold it; the best so far and its
 * position (32 bits) stay in the first-level cache. */
#include "isa.h"
#include "windows.h"
#include "../../core/pool.h"

enum { STRIP = 512 };                               /* windows of a row at a time */

typedef struct pooling {
    const cr_max_pool_args *args;
    int64_t rows, each;                             /* rows of y in a plane: its first two axes; rows of a chunk */
    cr_lane lane;
    atomic_bool failed;
} pooling;

/* The part of the kernel that lies inside of an axis of R: its taps *t .. *end - 1, tap t at first + t dilation. */
static int64_t taps(const cr_max_pool_args *args, int axis, int64_t p, int64_t *t, int64_t *end) {
    const int64_t dilation = args->dilation[axis], R = args->x.shape[1 + axis];
    const int64_t first = p * args->stride[axis] - args->pad[axis];
    *t = first < 0 ? (dilation - 1 - first) / dilation : 0;
    *end = cr_imin(args->kernel[axis], (R - 1 - first) / dilation + 1);
    return first;
}

static int64_t ceil_div(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
static int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -ceil_div(-a, b); }

/* The windows [column, column + n) of a row, over the lanes of one row of x, which begins at `place` of its plane. */
static void over_row(const pooling *p, void *best, int32_t *at, const void *x, int64_t place, int64_t column,
                     int64_t n) {
    const cr_max_pool_args *args = p->args;
    const int64_t W = args->x.shape[3], stride = args->stride[2], size = (int64_t)cr_lane_size(p->lane);
    for (int64_t t = 0; t < args->kernel[2]; t++) {
        const int64_t offset = t * args->dilation[2] - args->pad[2];
        const int64_t first = cr_imax(column, ceil_div(-offset, stride));
        const int64_t end = cr_imin(column + n, floor_div(W - 1 - offset, stride) + 1);
        const int64_t from = first * stride + offset, skipped = first - column;
        if (first < end)
            cr_cpu_vec()->windows->most[p->lane == CR_LANE_F64]((char *)best + skipped * size, at + skipped,
                                                                (const char *)x + from * size, stride,
                                                                (int32_t)(place + from), end - first);
    }
}

/* Row r of the plane n of y.  lanes: of a row of x that must be converted; NULL: it need not. */
static void pool_row(const pooling *p, int64_t n, int64_t r, float *lanes) {
    const cr_max_pool_args *args = p->args;
    const int64_t *in = args->x.shape, W = args->y.shape[3], size = (int64_t)cr_dtype_size(args->x.dtype);
    const char *x = (const char *)cr_array_data(&args->x) + n * in[1] * in[2] * in[3] * size;
    char *y = (char *)cr_array_data(&args->y) + (n * p->rows + r) * W * size;
    int64_t *index = (int64_t *)cr_array_data(&args->index) + (n * p->rows + r) * W;
    int64_t i0, i1, j0, j1;
    const int64_t depth = taps(args, 0, r / args->y.shape[2], &i0, &i1);
    const int64_t height = taps(args, 1, r % args->y.shape[2], &j0, &j1);
    double best[STRIP];
    int32_t at[STRIP];
    for (int64_t column = 0, width; column < W; column += width) {
        width = cr_imin(STRIP, W - column);
        memset(best, 0, (size_t)width * cr_lane_size(p->lane));
        memset(at, -1, (size_t)width * sizeof *at);
        for (int64_t i = i0; i < i1; i++)
            for (int64_t j = j0; j < j1; j++) {
                const int64_t d = depth + i * args->dilation[0], h = height + j * args->dilation[1];
                const int64_t place = (d * in[2] + h) * in[3];
                if (lanes) cr_block_load(CR_LANE_F32, lanes, args->x.dtype, x + place * size, 1, in[3]);
                over_row(p, best, at, lanes ? (const void *)lanes : x + place * size, place, column, width);
            }
        cr_block_store(p->lane, best, args->y.dtype, y + column * size, 1, width);
        cr_cpu_vec()->windows->widen(index + column, at, width);
    }
}

static void pool_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    pooling *p = ctx;
    const cr_dtype dt = p->args->x.dtype;
    const size_t bytes = cr_lane_size(p->lane) == cr_dtype_size(dt) ? 0 : (size_t)p->args->x.shape[3] * sizeof(float);
    float *lanes = bytes ? cr_cpu_try_take(bytes) : NULL;
    if (bytes && !lanes) { atomic_store(&p->failed, true); return; }
    const int64_t end = cr_imin((chunk + 1) * p->each, p->args->y.shape[0] * p->rows);
    for (int64_t row = chunk * p->each; row < end; row++) pool_row(p, row / p->rows, row % p->rows, lanes);
    cr_cpu_give(lanes, bytes);
}

cr_status cr_cpu_max_pool(const cr_max_pool_args *args) {
    const int64_t plane = args->x.numel / args->x.shape[0], W = args->y.shape[3];
    const int64_t window = args->kernel[0] * args->kernel[1] * args->kernel[2];
    pooling p = {.args = args, .rows = args->y.shape[1] * args->y.shape[2], .lane = cr_lane_of(args->x.dtype)};
    if (plane > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, "max_pool", "planes of %lld elements: %d are the most", (long long)plane,
                       INT32_MAX);
    p.each = cr_pieces(cr_chunk(args->y.numel * window), W * window);
    cr_run_chunks(cr_pieces(args->y.shape[0] * p.rows, p.each), pool_chunk, &p);
    return p.failed ? cr_fail(CR_NO_MEMORY, "max_pool", "out of memory for rows of %lld numbers",
                              (long long)args->x.shape[3]) : CR_OK;
}
