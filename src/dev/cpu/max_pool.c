/* max_pool.c - the largest element of each window, and its position where it is wanted: threads split the rows of all
 * planes.
 *
 * A row of windows takes the largest element of each column first, over the rows of x that its windows hold, then the
 * largest column of each window, one tap at a time over all windows. Both are kept with their positions (32 bits) in
 * the first-level cache. Windows that lie one behind the other in one row of x are one row of windows. */
#include "isa.h"
#include "windows.h"
#include "../../core/pool.h"

#include <math.h>

enum { STRIP = 512, SPAN = 2048 };                  /* windows of a row at a time; columns of x that they hold */

typedef struct pooling {
    const cr_max_pool_args *args;
    int64_t rows, each;                             /* rows of y in a plane: its first two axes; rows of a chunk */
    cr_lane lane;
    bool wanted, tall, pairs;                       /* the positions; columns first; windows of two columns side by
                                                     * side, each a call of one kernel */
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

/* A strip of a row of windows: windows column .. column + width - 1, which hold columns from .. from + span - 1 of
 * x. */
typedef struct strip {
    int64_t column, width, from, span;
    double best[STRIP], top[SPAN];                  /* lanes: of windows, of columns */
    int32_t at[STRIP], top_at[SPAN];                /* and their positions */
} strip;

static void clear(const pooling *p, void *lanes, int32_t *at, int64_t n) {
    if (p->wanted) {
        memset(lanes, 0, (size_t)n * cr_lane_size(p->lane));
        memset(at, -1, (size_t)n * sizeof *at);
    } else if (p->lane == CR_LANE_F64) {
        for (int64_t i = 0; i < n; i++) ((double *)lanes)[i] = -(double)INFINITY;
    } else {
        for (int64_t i = 0; i < n; i++) ((float *)lanes)[i] = -INFINITY;
    }
}

/* n elements of x, at `position` of the plane and `stride` apart, against the best ones so far. */
static void against(const pooling *p, void *best, int32_t *at, const void *x, int64_t stride, int64_t position,
                    int64_t n) {
    const struct cr_windows *k = cr_cpu_vec()->windows;
    const bool is_f64 = p->lane == CR_LANE_F64;
    if (p->wanted) k->most[is_f64](best, at, x, stride, (int32_t)position, n);
    else k->peak[is_f64](best, x, stride, n);
}

/* The windows of a strip over the lanes of its columns.  position: of column 0 of x, where the lanes are a row of it;
 * -1: they are s->top. */
static void over_columns(const pooling *p, strip *s, const char *lanes, int64_t position) {
    const cr_max_pool_args *args = p->args;
    const int64_t W = args->x.shape[3], stride = args->stride[2], size = (int64_t)cr_lane_size(p->lane);
    for (int64_t t = 0; t < args->kernel[2]; t++) {
        const int64_t offset = t * args->dilation[2] - args->pad[2];
        const int64_t first = cr_imax(s->column, ceil_div(-offset, stride));
        const int64_t end = cr_imin(s->column + s->width, floor_div(W - 1 - offset, stride) + 1);
        const int64_t from = first * stride + offset, skipped = first - s->column, top = from - s->from;
        if (first >= end) continue;
        void *best = (char *)s->best + skipped * size;
        if (position >= 0 || !p->wanted)
            against(p, best, s->at + skipped, lanes + top * size, stride, position + from, end - first);
        else
            cr_cpu_vec()->windows->merge[p->lane == CR_LANE_F64](best, s->at + skipped, lanes + top * size,
                                                                 s->top_at + top, stride, end - first);
    }
}

/* Windows in reach of column: at most STRIP, and no more than SPAN columns hold. */
static strip *place_strip(const pooling *p, strip *s, int64_t column) {
    const cr_max_pool_args *args = p->args;
    const int64_t stride = args->stride[2], reach = (args->kernel[2] - 1) * args->dilation[2] + 1;
    s->column = column;
    s->width = cr_imin(STRIP, args->y.shape[3] - column);
    if (p->tall) s->width = cr_imin(s->width, (SPAN - reach) / stride + 1);
    s->from = cr_imax(0, column * stride - args->pad[2]);
    const int64_t end = (column + s->width - 1) * stride - args->pad[2] + reach;
    s->span = cr_imin(end, args->x.shape[3]) - s->from;
    return s;
}

/* Row r of the plane n of y.  lanes: of a row of x that must be converted; NULL: it need not. */
static void pool_row(const pooling *p, int64_t n, int64_t r, float *lanes) {
    const cr_max_pool_args *args = p->args;
    const int64_t *in = args->x.shape, W = args->y.shape[3], size = (int64_t)cr_dtype_size(args->x.dtype);
    const char *x = (const char *)cr_array_data(&args->x) + n * in[1] * in[2] * in[3] * size;
    char *y = (char *)cr_array_data(&args->y) + (n * p->rows + r) * W * size;
    int64_t *index = p->wanted ? (int64_t *)cr_array_data(&args->index) + (n * p->rows + r) * W : NULL;
    int64_t i0, i1, j0, j1;
    const int64_t depth = taps(args, 0, r / args->y.shape[2], &i0, &i1);
    const int64_t height = taps(args, 1, r % args->y.shape[2], &j0, &j1);
    strip memory, *s;
    for (int64_t column = 0; column < W; column += s->width) {
        s = place_strip(p, &memory, column);
        void *best = p->pairs && !lanes ? (void *)(y + column * size) : s->best;
        if (!p->pairs) clear(p, s->best, s->at, s->width);
        if (p->tall) clear(p, s->top, s->top_at, s->span);
        for (int64_t i = i0; i < i1; i++)
            for (int64_t j = j0; j < j1; j++) {
                const int64_t d = depth + i * args->dilation[0], h = height + j * args->dilation[1];
                const int64_t position = (d * in[2] + h) * in[3] + s->from;
                const void *row = lanes ? (const void *)lanes : x + position * size;
                if (lanes) cr_block_load(CR_LANE_F32, lanes, args->x.dtype, x + position * size, 1, s->span);
                if (p->tall) against(p, s->top, s->top_at, row, 1, position, s->span);
                else if (p->pairs) cr_cpu_vec()->windows->pairs[p->lane == CR_LANE_F64](best, row, s->width);
                else over_columns(p, s, row, position - s->from);
            }
        if (p->tall && p->pairs) cr_cpu_vec()->windows->pairs[p->lane == CR_LANE_F64](best, s->top, s->width);
        else if (p->tall) over_columns(p, s, (const char *)s->top, -1);
        if (best == s->best) cr_block_store(p->lane, s->best, args->y.dtype, y + column * size, 1, s->width);
        if (index) cr_cpu_vec()->windows->widen(index + column, s->at, s->width);
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

static cr_status pool_windows(const cr_max_pool_args *args, bool wanted) {
    const int64_t plane = args->x.numel / args->x.shape[0], W = args->y.shape[3];
    const int64_t rows = args->kernel[0] * args->kernel[1], window = rows * args->kernel[2];
    pooling p = {.args = args, .rows = args->y.shape[1] * args->y.shape[2], .lane = cr_lane_of(args->x.dtype),
                 .wanted = wanted,
                 .tall = rows > 1 && (args->kernel[2] - 1) * args->dilation[2] + args->stride[2] <= SPAN / 2};
    if (plane > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, "max_pool", "planes of %lld elements: at most %d are supported", (long long)plane,
                       INT32_MAX);
    p.pairs = !wanted && (p.tall || rows == 1) && args->kernel[2] == 2 && args->stride[2] == 2 &&
              args->dilation[2] == 1 && args->pad[2] == 0 && 2 * W <= args->x.shape[3];
    p.each = cr_pieces(cr_chunk(args->y.numel * window), W * window);
    cr_run_chunks(cr_pieces(args->y.shape[0] * p.rows, p.each), pool_chunk, &p);
    return p.failed ? cr_fail(CR_NO_MEMORY, "max_pool", "out of memory for rows of %lld numbers",
                              (long long)args->x.shape[3]) : CR_OK;
}

cr_status cr_cpu_max_pool(const cr_max_pool_args *args) { return pool_windows(args, true); }

/* Rows of windows that lie one behind the other, and end with the row of x, go on in the next row. */
cr_status cr_cpu_max_pool_values(const cr_max_pool_args *args) {
    const int64_t in = args->x.shape[3], out = args->y.shape[3], rows = args->y.numel / out;
    const bool side_by_side = args->kernel[0] * args->kernel[1] == 1 && args->x.numel == rows * in &&
                              args->pad[2] == 0 && out * args->stride[2] == in &&
                              (args->kernel[2] - 1) * args->dilation[2] < args->stride[2];
    if (!side_by_side) return pool_windows(args, false);
    int64_t joined = 1;                             /* rows in one; the threads share what is left */
    while (rows % (2 * joined) == 0 && joined * out < 2048) joined *= 2;
    cr_max_pool_args all = *args;
    all.x = cr_array_as(&args->x, CR_LIST(rows / joined, 1, 1, joined * in));
    all.y = cr_array_as(&args->y, CR_LIST(rows / joined, 1, 1, joined * out));
    return pool_windows(&all, false);
}
