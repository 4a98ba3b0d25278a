/* reduce.c - reductions of x (M, R, N) over R, and arg-reductions.
 *
 * Rows (N = 1) are cut into pieces of at most 4096 and spans of 65536 elements, columns into blocks of
 * rows; partial results are combined in order as a balanced tree.  All cuts follow from shape and
 * strides, so the bits do not depend on the threads, and the sum of a row does not depend on M.
 * Elements of another dtype, stride or map (|x|...) pass through a block in the L1 cache. */
#include "blocks.h"
#include "isa.h"
#include "../../core/pool.h"

#include <math.h>
#include <string.h>

/* elements; GROUP, ROWS: rows */
enum {
    PIECE = 4096,
    LEAST_PIECE = 1024,
    SPAN = 16 * PIECE,
    WIDTH = 1024,
    GROUP = 32,
    ROWS = 32,
    CHUNK = 1 << 16,
    POWERS = 64
};

typedef union number { float f; double d; int64_t i; } number;

typedef struct reduction {
    const struct cr_reducers *k;
    const struct cr_reducer *op;
    cr_lane lane;
    size_t size;                                    /* bytes of a lane */
    cr_dtype from, to;
    cr_reduce_how how;
    bool straight;                                  /* x consists of contiguous lanes */
    const char *x; char *y;
    int64_t M, R, N, strides[3], step;              /* step: between neighbours of a row, or of columns */
    const char *means;                              /* DEVIATION: the M N means, or near them */
    int per_result;                                 /* lanes of a result: 1; DEVIATION: 2, the sums of d^2 and of d,
                                                     * in columns all of the first before all of the second */
    bool flip;                                      /* u64 MAX, MIN: flips the sign bit, so that i64 order is u64
                                                     * order */
    int64_t rows_per_chunk, spans;                  /* rows: spans of one row */
    int64_t wide, blocks, block_rows, strips;       /* columns: see plan_columns */
    char *partial;
    bool max; int64_t *index;                       /* arg-reductions */
} reduction;

static const char *element(const reduction *r, int64_t at) { return r->x + at * (int64_t)cr_dtype_size(r->from); }

#define TESTED(type) do { const type *s = x; for (int64_t i = 0; i < n; i++) lanes[i] = \
    (type)(s[i * r->step] << shift) != 0; } while (0)
static void load_tested(const reduction *r, int64_t *lanes, const void *x, int64_t n) {
    const int shift = cr_dtype_is_float(r->from);   /* drops the sign of floats */
    switch (cr_dtype_size(r->from)) {
    case 1: TESTED(uint8_t); break;
    case 2: TESTED(uint16_t); break;
    case 4: TESTED(uint32_t); break;
    default: TESTED(uint64_t); break;
    }
}

/* lanes[i] = |lanes[i]|^p, to the end of the last vector */
static void raise_to_power(const reduction *r, void *lanes, int64_t n) {
    const struct cr_blocks *k = cr_cpu_vec()->blocks;
    _Alignas(64) float p32[POWERS];
    _Alignas(64) double p64[POWERS];
    for (int i = 0; i < POWERS; i++) { p32[i] = (float)r->how.p; p64[i] = r->how.p; }
    r->k->map[r->lane](CR_MAP_ABS, lanes, lanes, n);
    for (int64_t i = 0; i < n; i += POWERS) {
        int64_t length = (cr_imin(POWERS, n - i) + k->lanes - 1) / k->lanes * k->lanes;
        float *f = (float *)lanes + i;
        double *d = (double *)lanes + i;
        if (r->lane == CR_LANE_F32) k->f32[CR_OP_POW](f, f, p32, NULL, length);
        else k->f64[CR_OP_POW](d, d, p64, NULL, length);
    }
}

/* n elements from offset `at` on, mapped, as lanes: in place if possible, else in block. */
static const void *lanes_at(const reduction *r, int64_t at, int64_t n, void *block) {
    const void *x = element(r, at);
    if (r->straight && r->how.map == CR_MAP_SAME) return x;
    if (r->how.map == CR_MAP_NONZERO) { load_tested(r, block, x, n); return block; }
    if (!r->straight || r->how.map == CR_MAP_POWER) {
        cr_block_load(r->lane, block, r->from, x, r->step, n);
        x = block;
    }
    int64_t *lanes = block;
    if (r->flip) for (int64_t i = 0; i < n; i++) lanes[i] ^= INT64_MIN;
    if (r->how.map == CR_MAP_POWER) raise_to_power(r, block, n);
    else if (r->how.map != CR_MAP_SAME) r->k->map[r->lane](r->how.map, block, x, n);
    return block;
}

static void store_results(const reduction *r, int64_t at, const void *lanes, int64_t n) {
    char *y = r->y + at * (int64_t)cr_dtype_size(r->to);
    if (!r->flip) { cr_block_store(r->lane, lanes, r->to, y, 1, n); return; }
    for (int64_t i = 0; i < n; i++) {
        int64_t v = ((const int64_t *)lanes)[i] ^ INT64_MIN;
        cr_block_store(r->lane, &v, r->to, y + i * (int64_t)cr_dtype_size(r->to), 1, 1);
    }
}

/* acc[0] = the tree over `parts` results of n lanes each, one after the other in acc. */
static void combine(const reduction *r, char *acc, int64_t parts, int64_t n) {
    size_t bytes = (size_t)n * r->size;
    for (int64_t step = 1; step < parts; step *= 2)
        for (int64_t i = 0; i + step < parts; i += 2 * step)
            r->op->columns(acc + (size_t)i * bytes, acc + (size_t)(i + step) * bytes, 1, 0, n);
}

/* ---- rows */
/* NONZERO of a run: how many (SUM), any (MAX), all (MIN); stops as soon as the answer is known. */
static int64_t count_run(const reduction *r, int64_t at, int64_t n) {
    const bool any = r->how.kind == CR_REDUCE_MAX, all = r->how.kind == CR_REDUCE_MIN;
    int64_t total = 0, seen = 0;
    while (seen < n && !(any && total) && !(all && total < seen)) {
        int64_t length = cr_imin(PIECE, n - seen);
        total += r->k->nonzero(element(r, at + seen), length, cr_dtype_size(r->from), cr_dtype_is_float(r->from));
        seen += length;
    }
    return any ? total > 0 : all ? total == seen : total;
}

/* squares[i] = the sum of squares about the mean, from the sums of d^2 and d about a number near it; these are `step`
 * lanes apart */
#define FINISH(T) do { T *q = squares; const T *s = sums; for (int64_t i = 0; i < n; i++) { \
    const T extra = s[i * step] / (T)r->R * s[i * step]; \
    q[i] = q[i * step] < extra ? 0 : q[i * step] - extra; } } while (0)
static void finish_sums(const reduction *r, void *squares, const void *sums, int64_t step, int64_t n) {
    if (r->per_result == 1) return;
    if (r->lane == CR_LANE_F32) FINISH(float);
    else FINISH(double);
}

static void run_at(const reduction *r, int64_t at, int64_t n, const void *mean, void *result, void *block) {
    const void *x = lanes_at(r, at, n, block);
    if (mean) r->k->deviations[r->lane](result, x, mean, n);
    else r->op->run(result, x, n);
}

/* Reduces n elements of a row from offset `at` on; mean: for DEVIATION. */
static void reduce_span(const reduction *r, int64_t at, int64_t n, const void *mean, void *result) {
    _Alignas(64) char block[PIECE * 8];
    _Alignas(8) char parts[SPAN / LEAST_PIECE * 16];
    const size_t bytes = (size_t)r->per_result * r->size;
    const int64_t piece = r->k->piece, pieces = cr_pieces(n, piece);
    if (r->how.map == CR_MAP_NONZERO && r->step == 1) {
        int64_t counted = count_run(r, at, n);
        memcpy(result, &counted, sizeof counted);
        return;
    }
    if (pieces == 1) { run_at(r, at, n, mean, result, block); return; }
    for (int64_t p = 0; p < pieces; p++) {
        int64_t length = cr_imin(piece, n - p * piece);
        run_at(r, at + p * piece * r->step, length, mean, parts + (size_t)p * bytes, block);
    }
    combine(r, parts, pieces, r->per_result);
    memcpy(result, parts, bytes);
}

static const char *mean_of(const reduction *r, int64_t i) { return r->means ? r->means + (size_t)i * r->size : NULL; }

static void rows_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t end = cr_imin((chunk + 1) * r->rows_per_chunk, r->M);
    for (int64_t m = chunk * r->rows_per_chunk, n; m < end; m += n) {
        _Alignas(8) char y[ROWS * 16];
        n = cr_imin(ROWS, end - m);
        for (int64_t i = 0; i < n; i++)
            reduce_span(r, (m + i) * r->strides[0], r->R, mean_of(r, m + i), y + (size_t)(i * r->per_result) * r->size);
        finish_sums(r, y, y + r->size, 2, n);
        store_results(r, m, y, n);
    }
}

static void span_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t m = chunk / r->spans, first = chunk % r->spans * SPAN;
    reduce_span(r, m * r->strides[0] + first * r->step, cr_imin(SPAN, r->R - first), mean_of(r, m),
                r->partial + (size_t)(chunk * r->per_result) * r->size);
}

/* Long rows: reduces the spans of all rows into `partial`. */
static cr_status reduce_spans(reduction *r, size_t *bytes) {
    r->spans = cr_pieces(r->R, SPAN);
    *bytes = (size_t)(r->M * r->spans * r->per_result) * r->size;
    if (!(r->partial = cr_cpu_take(*bytes))) return CR_NO_MEMORY;
    cr_pool_run(r->M * r->spans, span_chunk, r);
    return CR_OK;
}

static cr_status reduce_rows(reduction *r) {
    if (r->R <= SPAN) {
        r->rows_per_chunk = r->R ? cr_pieces(cr_chunk(r->M * r->R), r->R) : r->M;
        cr_run_chunks(cr_pieces(r->M, r->rows_per_chunk), rows_chunk, r);
        return CR_OK;
    }
    size_t bytes;
    if (reduce_spans(r, &bytes) != CR_OK) return CR_NO_MEMORY;
    for (int64_t m = 0; m < r->M; m++) {
        char *row = r->partial + (size_t)(m * r->spans * r->per_result) * r->size;
        combine(r, row, r->spans, r->per_result);
        finish_sums(r, row, row + r->size, 2, 1);
        store_results(r, m, row, 1);
    }
    cr_cpu_give(r->partial, bytes);
    return CR_OK;
}

/* ---- columns.  Few columns: g = wide / N rows are one wide row, folded at the end.  Each chunk is
 * (m, block of rows, strip of columns). */
static void plan_columns(reduction *r) {
    bool dense = r->strides[2] == 1 && r->strides[1] == r->N;
    int64_t g = r->N >= 64 || !dense ? 1 : cr_imin(128 / r->N, r->R);
    r->wide = g * r->N;
    r->strips = cr_pieces(r->wide, WIDTH);
    int64_t wide_rows = r->R / g, width = cr_imin(r->wide, WIDTH);
    bool enough = r->M * r->strips >= 16;           /* chunks without cutting rows */
    /* chains of additions have at most GROUP terms */
    r->block_rows = cr_imin(GROUP * GROUP, enough ? INT64_MAX : (CHUNK / width + GROUP - 1) / GROUP * GROUP);
    r->blocks = cr_pieces(wide_rows, r->block_rows);
}

/* acc[i] = the reduction of rows of x, `stride` apart.  Each group has its own sum, so that rounding
 * errors grow only with the number of groups. */
static void fold_rows(const reduction *r, char *acc, int64_t at, int64_t rows, int64_t stride, int64_t n) {
    _Alignas(64) char group[WIDTH * 8], block[WIDTH * 8];
    if (r->how.map == CR_MAP_NONZERO && r->how.kind != CR_REDUCE_SUM && r->step == 1) {
        r->k->test_columns((int64_t *)(void *)acc, element(r, at), rows, stride, n, cr_dtype_size(r->from),
                           cr_dtype_is_float(r->from), r->how.kind == CR_REDUCE_MIN);
        return;
    }
    for (int64_t i = 0; i < rows; i += GROUP) {
        int64_t count = cr_imin(GROUP, rows - i);
        char *to = i ? group : acc;
        const void *x = lanes_at(r, at + i * stride, n, block);
        memcpy(to, x, (size_t)n * r->size);
        if (x != block) r->op->columns(to, (const char *)x + stride * (int64_t)r->size, count - 1, stride, n);
        else
            for (int64_t j = 1; j < count; j++)
                r->op->columns(to, lanes_at(r, at + (i + j) * stride, n, block), 1, 0, n);
        if (i) r->op->columns(acc, group, 1, 0, n);
    }
}

/* The same of deviations: acc gets the sums of d^2, sums those of d. */
static void fold_deviations(const reduction *r, char *acc, char *sums, int64_t at, int64_t rows, int64_t stride,
                            int64_t n, const void *mean) {
    _Alignas(64) char group[2][WIDTH * 8], block[WIDTH * 8];
    const size_t bytes = (size_t)n * r->size;
    memset(acc, 0, bytes);
    memset(sums, 0, bytes);
    for (int64_t i = 0; i < rows; i += GROUP) {
        const int64_t count = cr_imin(GROUP, rows - i), take = r->straight ? count : 1;
        char *squares_to = i ? group[0] : acc, *sums_to = i ? group[1] : sums;
        if (i) { memset(group[0], 0, bytes); memset(group[1], 0, bytes); }
        for (int64_t j = 0; j < count; j += take)
            r->k->deviation_columns[r->lane](squares_to, sums_to, lanes_at(r, at + (i + j) * stride, n, block), mean,
                                             take, stride, n);
        if (!i) continue;
        r->op->columns(acc, group[0], 1, 0, n);
        r->op->columns(sums, group[1], 1, 0, n);
    }
}

static void columns_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t strip = chunk % r->strips, b = chunk / r->strips % r->blocks, m = chunk / r->strips / r->blocks;
    int64_t g = r->wide / r->N, wide_rows = r->R / g, first = b * r->block_rows, column = strip * WIDTH;
    int64_t rows = cr_imin(r->block_rows, wide_rows - first), n = cr_imin(WIDTH, r->wide - column),
            at = m * r->strides[0] + column * r->strides[2];
    _Alignas(64) char acc[WIDTH * 8], sums[WIDTH * 8], block[WIDTH * 8], means[WIDTH * 8];
    const char *mean = mean_of(r, m * r->N + column);
    if (mean && g > 1)
        for (int64_t i = 0; i < n; i += r->N) memcpy(means + (size_t)i * r->size, mean, (size_t)r->N * r->size);
    if (mean)
        fold_deviations(r, acc, sums, at + first * g * r->strides[1], rows, g * r->strides[1], n,
                        g > 1 ? means : mean);
    else fold_rows(r, acc, at + first * g * r->strides[1], rows, g * r->strides[1], n);
    if (g > 1) {
        combine(r, acc, g, r->N);
        if (mean) combine(r, sums, g, r->N);
        n = r->N;
        /* rows that do not fill a wide row */
        if (b == r->blocks - 1) for (int64_t row = wide_rows * g; row < r->R; row++) {
            const void *x = lanes_at(r, at + row * r->strides[1], n, block);
            if (mean) r->k->deviation_columns[r->lane](acc, sums, x, mean, 1, 0, n);
            else r->op->columns(acc, x, 1, 0, n);
        }
    }
    if (r->blocks == 1) {
        finish_sums(r, acc, sums, 1, n);
        store_results(r, m * r->N + column, acc, n);
        return;
    }
    char *to = r->partial + (size_t)((m * r->blocks + b) * r->N + column) * r->size;
    memcpy(to, acc, (size_t)n * r->size);
    if (mean) memcpy(to + (size_t)(r->M * r->blocks * r->N) * r->size, sums, (size_t)n * r->size);
}

static cr_status reduce_columns(reduction *r) {
    plan_columns(r);
    const size_t part = (size_t)(r->M * r->blocks * r->N) * r->size;
    const size_t bytes = r->blocks > 1 ? part * (size_t)r->per_result : 0;
    if (bytes && !(r->partial = cr_cpu_take(bytes))) return CR_NO_MEMORY;
    int64_t chunks = r->M * r->blocks * r->strips;
    if (r->M * r->R * r->N <= PIECE) for (int64_t i = 0; i < chunks; i++) columns_chunk(r, i, 0);
    else cr_pool_run(chunks, columns_chunk, r);
    if (bytes) for (int64_t m = 0; m < r->M; m++) {
        char *acc = r->partial + (size_t)(m * r->blocks * r->N) * r->size;
        combine(r, acc, r->blocks, r->N);
        if (r->means) combine(r, acc + part, r->blocks, r->N);
        finish_sums(r, acc, acc + part, 1, r->N);
        store_results(r, m * r->N, acc, r->N);
    }
    cr_cpu_give(r->partial, bytes);
    return CR_OK;
}

/* Fills r.  Returned by value it would be copied: 20 ns of a small sum. */
static void set_reduction(reduction *r, const cr_reduce_how *how, const cr_array *y, const cr_array *x) {
    *r = (reduction){.k = cr_cpu_vec()->reduce,
                     .how = *how,
                     .from = x->dtype,
                     .to = y->dtype,
                     .x = cr_array_data(x),
                     .y = cr_array_data(y),
                     .M = x->shape[0],
                     .R = x->shape[1],
                     .N = x->shape[2],
                     .strides = {x->strides[0], x->strides[1], x->strides[2]},
                     .step = x->strides[x->shape[2] == 1 ? 1 : 2],
                     .per_result = 1};
    const bool extreme = how->kind >= CR_REDUCE_MAX, squares = how->map == CR_MAP_SQUARE && r->N == 1;
    r->lane = how->map == CR_MAP_NONZERO ? CR_LANE_I64 : cr_lane_of(extreme ? r->from : r->to);
    r->flip = r->from == CR_U64 && extreme && how->map == CR_MAP_SAME;
    r->size = cr_lane_size(r->lane);
    const bool lanes = r->from == cr_lane_dtype(r->lane) || (r->from == CR_U64 && r->lane == CR_LANE_I64);
    r->straight = lanes && r->step == 1 && !r->flip;
    r->op = &r->k->of[r->lane][squares ? CR_RUN_SQUARES : (int)how->kind];
    /* CR_RUN_SQUARES squares by itself, the kernels of deviations subtract by themselves */
    if (squares || how->map == CR_MAP_DEVIATION) r->how.map = CR_MAP_SAME;
}

static cr_status reduce_array(reduction *r) { return r->N == 1 ? reduce_rows(r) : reduce_columns(r); }

/* First the means, then the deviations from them, as lanes: finish corrects for what a mean is off. */
static cr_status reduce_deviations(reduction *r) {
    reduction sums = *r;
    const int64_t n = r->M * r->N;
    const size_t bytes = (size_t)n * r->size;
    char *means = cr_cpu_take(bytes);
    if (!means) return CR_NO_MEMORY;
    sums.y = means;
    sums.to = cr_lane_dtype(r->lane);
    cr_status status = reduce_array(&sums);
    for (int64_t i = 0; i < n && status == CR_OK; i++) {
        void *v = means + (size_t)i * r->size;
        const int64_t first = i / r->N * r->strides[0] + i % r->N * r->strides[2];
        double mean;
        if (r->lane == CR_LANE_F32) mean = *(float *)v /= (float)r->R;
        else mean = *(double *)v /= (double)r->R;
        /* the sum was too large: any number near the others will do */
        if (!isfinite(mean)) cr_block_load(r->lane, v, r->from, element(r, first), 1, 1);
    }
    r->means = means;
    r->per_result = 2;
    if (status == CR_OK) status = reduce_array(r);
    cr_cpu_give(means, bytes);
    return status;
}

/* The value of an empty reduction. */
static cr_status reduce_nothing(cr_reduce_kind kind, const cr_array *y) {
    unsigned char one[8];
    cr_store_i64(one, y->dtype, kind == CR_REDUCE_PROD || kind == CR_REDUCE_MIN);
    return cr_cpu_fill(&(cr_fill_args){*y, one});
}

cr_status cr_cpu_reduce(const cr_reduce_args *args) {
    if (!args->y.numel) return CR_OK;
    if (!args->x.shape[1]) return reduce_nothing(args->how.kind, &args->y);
    reduction r;
    set_reduction(&r, &args->how, &args->y, &args->x);
    return args->how.map == CR_MAP_DEVIATION ? reduce_deviations(&r) : reduce_array(&r);
}

/* ---- positions.  Row: first the extreme, then its position.  Columns: the best so far and its position together. */
static int64_t find_in_row(const reduction *r, int64_t at, int64_t n, const number *v) {
    _Alignas(64) char block[PIECE * 8];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t length = cr_imin(PIECE, n - i),
                found = r->k->find[r->lane](lanes_at(r, at + i * r->step, length, block), length, v);
        if (found < length) return i + found;
    }
    return 0;
}

static void arg_rows_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t end = cr_imin((chunk + 1) * r->rows_per_chunk, r->M);
    for (int64_t m = chunk * r->rows_per_chunk; m < end; m++) {
        number v;
        reduce_span(r, m * r->strides[0], r->R, NULL, &v);
        r->index[m] = find_in_row(r, m * r->strides[0], r->R, &v);
    }
}

static cr_status arg_rows(reduction *r) {
    if (r->R <= SPAN) {
        r->rows_per_chunk = cr_pieces(cr_chunk(r->M * r->R), r->R);
        cr_pool_run(cr_pieces(r->M, r->rows_per_chunk), arg_rows_chunk, r);
        return CR_OK;
    }
    size_t bytes;
    if (reduce_spans(r, &bytes) != CR_OK) return CR_NO_MEMORY;
    for (int64_t m = 0; m < r->M; m++) {            /* the extreme of all spans, then the first span that has it */
        char *row = r->partial + (size_t)(m * r->spans) * r->size;
        number v = {.i = 0};
        r->op->run(&v, row, r->spans);
        int64_t span = r->k->find[r->lane](row, r->spans, &v);
        r->index[m] = span * SPAN +
                      find_in_row(r, m * r->strides[0] + span * SPAN * r->step, cr_imin(SPAN, r->R - span * SPAN), &v);
    }
    cr_cpu_give(r->partial, bytes);
    return CR_OK;
}

static void arg_columns_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t m = chunk / r->strips, column = chunk % r->strips * WIDTH, n = cr_imin(WIDTH, r->N - column),
            at = m * r->strides[0] + column * r->strides[2];
    _Alignas(64) char best[WIDTH * 8], block[WIDTH * 8];
    int64_t *index = r->index + m * r->N + column;
    memset(index, 0, (size_t)n * sizeof *index);
    memcpy(best, lanes_at(r, at, n, block), (size_t)n * r->size);
    for (int64_t i = 1; i < r->R; i++)
        r->k->arg_columns[r->lane](r->max, best, index, lanes_at(r, at + i * r->strides[1], n, block), i, 1, 0,
                                   n);
}

cr_status cr_cpu_arg_reduce(const cr_arg_reduce_args *args) {
    if (!args->y.numel || !args->x.shape[1]) return CR_OK;
    reduction r;
    set_reduction(&r, &(cr_reduce_how){.kind = args->max ? CR_REDUCE_MAX : CR_REDUCE_MIN}, &args->y, &args->x);
    r.max = args->max;
    r.index = cr_array_data(&args->y);
    if (r.N == 1) return arg_rows(&r);
    r.strips = cr_pieces(r.N, WIDTH);
    cr_pool_run(r.M * r.strips, arg_columns_chunk, &r);
    return CR_OK;
}
