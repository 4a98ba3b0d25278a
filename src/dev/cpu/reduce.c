/* reduce.c - reductions of x (M, R, N) over R, and arg-reductions.
 *
 * Rows (N = 1) are cut into pieces of 4096 and spans of 16 pieces, columns into blocks of rows; what the parts give is combined as
 * a balanced tree in order.  All cuts follow from the shape, so the bits do not depend on the threads, and a row's sum not on M. */
#include "blocks.h"
#include "isa.h"
#include "../../core/pool.h"

#include <string.h>

enum { PIECE = 4096, SPAN = 16 * PIECE, WIDTH = 1024, GROUP = 32, ROWS = 32, CHUNK = 1 << 16 };      /* elements; GROUP, ROWS: rows */

typedef union number { float f; double d; int64_t i; } number;

typedef struct reduction {
    const struct cr_reducers *k;
    const struct cr_reducer *op;
    cr_lane lane;
    size_t size;                                    /* bytes of a lane */
    cr_dtype from, to;
    bool straight;                                  /* x holds lanes already */
    const char *x; char *y;
    int64_t M, R, N;
    bool test;                                      /* ANY, ALL: lanes are 0 or 1 */
    bool flip;                                      /* u64 extremes: the sign bit flipped, so that i64 order is u64 order */
    int64_t rows_per_chunk, spans;                  /* rows: spans of one row */
    int64_t wide, blocks, block_rows, strips;       /* columns: see plan_columns */
    char *partial;
    bool max; int64_t *index;                       /* arg-reductions */
} reduction;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* n numbers of x from element `at` on, as lanes: in place where they are that already, else in block. */
static const void *lanes_at(const reduction *r, int64_t at, int64_t n, void *block) {
    if (r->straight) return r->x + at * (int64_t)r->size;
    const char *x = r->x + at * (int64_t)cr_dtype_size(r->from);
    int64_t *lanes = block;
    double *floats = block;
    bool from_float = r->test && cr_dtype_is_float(r->from);
    cr_block_load(from_float ? CR_LANE_F64 : r->lane, block, r->from, x, 1, n);
    if (from_float) for (int64_t i = 0; i < n; i++) lanes[i] = floats[i] != 0;
    else if (r->test) for (int64_t i = 0; i < n; i++) lanes[i] = lanes[i] != 0;
    if (r->flip) for (int64_t i = 0; i < n; i++) lanes[i] ^= INT64_MIN;
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
static void reduce_span(const reduction *r, int64_t at, int64_t n, void *result) {
    _Alignas(64) char block[PIECE * 8];
    char parts[SPAN / PIECE * 8];
    int64_t pieces = cr_pieces(n, PIECE);
    if (pieces == 1) { r->op->run(result, lanes_at(r, at, n, block), n); return; }
    for (int64_t p = 0; p < pieces; p++) {
        int64_t length = least(PIECE, n - p * PIECE);
        r->op->run(parts + (size_t)p * r->size, lanes_at(r, at + p * PIECE, length, block), length);
    }
    combine(r, parts, pieces, 1);
    memcpy(result, parts, r->size);
}

static void rows_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t end = least((chunk + 1) * r->rows_per_chunk, r->M);
    for (int64_t m = chunk * r->rows_per_chunk, n; m < end; m += n) {
        char y[ROWS * 8];
        n = least(ROWS, end - m);
        for (int64_t i = 0; i < n; i++) reduce_span(r, (m + i) * r->R, r->R, y + (size_t)i * r->size);
        store_results(r, m, y, n);
    }
}

static void span_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t m = chunk / r->spans, first = chunk % r->spans * SPAN;
    reduce_span(r, m * r->R + first, least(SPAN, r->R - first), r->partial + (size_t)chunk * r->size);
}

/* Long rows: the spans of all rows into `partial`, one result to the row then at its first. */
static cr_status reduce_spans(reduction *r, size_t *bytes) {
    r->spans = cr_pieces(r->R, SPAN);
    *bytes = (size_t)(r->M * r->spans) * r->size;
    if (!(r->partial = cr_cpu_take(*bytes))) return CR_NO_MEMORY;
    cr_pool_run(r->M * r->spans, span_chunk, r);
    return CR_OK;
}

static cr_status reduce_rows(reduction *r) {
    if (r->R <= SPAN) {
        r->rows_per_chunk = r->R ? cr_pieces(cr_chunk(r->M * r->R), r->R) : r->M;
        int64_t chunks = cr_pieces(r->M, r->rows_per_chunk);
        if (chunks == 1) rows_chunk(r, 0, 0);
        else cr_pool_run(chunks, rows_chunk, r);
        return CR_OK;
    }
    size_t bytes;
    if (reduce_spans(r, &bytes) != CR_OK) return CR_NO_MEMORY;
    for (int64_t m = 0; m < r->M; m++) {
        char *row = r->partial + (size_t)(m * r->spans) * r->size;
        combine(r, row, r->spans, 1);
        store_results(r, m, row, 1);
    }
    cr_cpu_give(r->partial, bytes);
    return CR_OK;
}

/* ---- columns.  Few columns: g = wide / N rows are one wide row, folded at the end.  Each chunk is (m, block of rows, strip of columns). */
static void plan_columns(reduction *r) {
    int64_t g = r->N >= 64 ? 1 : least(128 / r->N, r->R > 0 ? r->R : 1);
    r->wide = g * r->N;
    r->strips = cr_pieces(r->wide, WIDTH);
    int64_t wide_rows = r->R / g, width = least(r->wide, WIDTH);
    bool enough = r->M * r->strips >= 16;           /* chunks without cutting rows */
    r->block_rows = enough ? wide_rows : (CHUNK / width + GROUP - 1) / GROUP * GROUP;
    r->blocks = r->block_rows > 0 ? cr_pieces(wide_rows, r->block_rows) : 1;
}

/* acc[i] = rows of x, `wide` apart, reduced.  Groups start afresh, so that rounding errors grow with the number of groups only. */
static void fold_rows(const reduction *r, char *acc, int64_t at, int64_t rows, int64_t n) {
    _Alignas(64) char group[WIDTH * 8], block[WIDTH * 8];
    for (int64_t i = 0; i < rows; i += GROUP) {
        int64_t count = least(GROUP, rows - i);
        char *to = i ? group : acc;
        const void *x = lanes_at(r, at + i * r->wide, n, block);
        memcpy(to, x, (size_t)n * r->size);
        if (x != block) r->op->columns(to, (const char *)x + (size_t)r->wide * r->size, count - 1, r->wide, n);
        else for (int64_t j = 1; j < count; j++) r->op->columns(to, lanes_at(r, at + (i + j) * r->wide, n, block), 1, 0, n);
        if (i) r->op->columns(acc, group, 1, 0, n);
    }
}

static void columns_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t strip = chunk % r->strips, b = chunk / r->strips % r->blocks, m = chunk / r->strips / r->blocks;
    int64_t g = r->wide / r->N, wide_rows = r->R / g, first = b * r->block_rows, column = strip * WIDTH;
    int64_t rows = least(r->block_rows, wide_rows - first), n = least(WIDTH, r->wide - column), at = m * r->R * r->N;
    _Alignas(64) char acc[WIDTH * 8], block[WIDTH * 8];
    fold_rows(r, acc, at + first * r->wide + column, rows, n);
    if (g > 1) {
        combine(r, acc, g, r->N);
        n = r->N;
        for (int64_t row = wide_rows * g; row < r->R && b == r->blocks - 1; row++)     /* what does not fill a wide row */
            r->op->columns(acc, lanes_at(r, at + row * r->N, n, block), 1, 0, n);
    }
    if (r->blocks == 1) store_results(r, m * r->N + column, acc, n);
    else memcpy(r->partial + (size_t)((m * r->blocks + b) * r->N + column) * r->size, acc, (size_t)n * r->size);
}

static cr_status reduce_columns(reduction *r) {
    plan_columns(r);
    size_t bytes = r->blocks > 1 ? (size_t)(r->M * r->blocks * r->N) * r->size : 0;
    if (bytes && !(r->partial = cr_cpu_take(bytes))) return CR_NO_MEMORY;
    int64_t chunks = r->M * r->blocks * r->strips;
    if (r->M * r->R * r->N <= PIECE) for (int64_t i = 0; i < chunks; i++) columns_chunk(r, i, 0);
    else cr_pool_run(chunks, columns_chunk, r);
    for (int64_t m = 0; bytes && m < r->M; m++) {
        char *acc = r->partial + (size_t)(m * r->blocks * r->N) * r->size;
        combine(r, acc, r->blocks, r->N);
        store_results(r, m * r->N, acc, r->N);
    }
    cr_cpu_give(r->partial, bytes);
    return CR_OK;
}

static reduction reduction_of(cr_reduce_kind kind, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    reduction r = {.k = cr_cpu_vec()->reduce, .from = (cr_dtype)x->dtype, .to = (cr_dtype)y->dtype, .x = cr_tensor_data(x), .y = cr_tensor_data(y), .M = M, .R = R, .N = N};
    bool sums = kind == CR_REDUCE_SUM || kind == CR_REDUCE_PROD || kind == CR_REDUCE_SQUARES;
    r.test = kind == CR_REDUCE_ANY || kind == CR_REDUCE_ALL;
    r.lane = r.test ? CR_LANE_I64 : cr_lane_of(sums ? r.to : r.from);
    r.flip = r.from == CR_U64 && (kind == CR_REDUCE_MAX || kind == CR_REDUCE_MIN);
    r.size = cr_lane_size(r.lane);
    bool same = r.from == CR_F32 ? r.lane == CR_LANE_F32 : r.from == CR_F64 ? r.lane == CR_LANE_F64
              : (r.from == CR_I64 || r.from == CR_U64) && r.lane == CR_LANE_I64;
    r.straight = same && !r.test && !r.flip;
    static const int op[] = {[CR_REDUCE_SUM] = 0, [CR_REDUCE_PROD] = 1, [CR_REDUCE_MAX] = 2, [CR_REDUCE_MIN] = 3, [CR_REDUCE_ANY] = 2, [CR_REDUCE_ALL] = 3, [CR_REDUCE_SQUARES] = 4};
    r.op = &r.k->of[r.lane][op[kind]];
    return r;
}

/* The value of an empty reduction; the lanes' own identity would be the smallest i64 for ANY. */
static cr_status reduce_nothing(cr_reduce_kind kind, cr_tensor *y) {
    unsigned char one[8];
    cr_store_i64(one, (cr_dtype)y->dtype, kind == CR_REDUCE_PROD || kind == CR_REDUCE_ALL);
    return cr_cpu_fill(y, one);
}

cr_status cr_cpu_reduce(cr_reduce_kind kind, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    if (!y->numel) return CR_OK;
    if (!R) return reduce_nothing(kind, y);
    reduction r = reduction_of(kind, y, x, M, R, N);
    return N == 1 ? reduce_rows(&r) : reduce_columns(&r);
}

/* ---- positions: of a row, the extreme first, then where it is; of columns, the best so far beside its row */
static int64_t find_in_row(const reduction *r, int64_t at, int64_t n, const number *v) {
    _Alignas(64) char block[PIECE * 8];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t length = least(PIECE, n - i), found = r->k->find[r->lane](lanes_at(r, at + i, length, block), length, v);
        if (found < length) return i + found;
    }
    return 0;
}

static void arg_rows_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t end = least((chunk + 1) * r->rows_per_chunk, r->M);
    for (int64_t m = chunk * r->rows_per_chunk; m < end; m++) {
        number v;
        reduce_span(r, m * r->R, r->R, &v);
        r->index[m] = find_in_row(r, m * r->R, r->R, &v);
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
        r->index[m] = span * SPAN + find_in_row(r, m * r->R + span * SPAN, least(SPAN, r->R - span * SPAN), &v);
    }
    cr_cpu_give(r->partial, bytes);
    return CR_OK;
}

static void arg_columns_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const reduction *r = ctx;
    int64_t m = chunk / r->strips, column = chunk % r->strips * WIDTH, n = least(WIDTH, r->N - column), at = m * r->R * r->N + column;
    _Alignas(64) char best[WIDTH * 8], block[WIDTH * 8];
    int64_t *index = r->index + m * r->N + column;
    memset(index, 0, (size_t)n * sizeof *index);
    memcpy(best, lanes_at(r, at, n, block), (size_t)n * r->size);
    for (int64_t i = 1; i < r->R; i++) r->k->arg_columns[r->lane](r->max, best, index, lanes_at(r, at + i * r->N, n, block), i, 1, 0, n);
}

cr_status cr_cpu_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    if (!y->numel || !R) return CR_OK;
    reduction r = reduction_of(max ? CR_REDUCE_MAX : CR_REDUCE_MIN, y, x, M, R, N);
    r.max = max;
    r.index = cr_tensor_data(y);
    if (N == 1) return arg_rows(&r);
    r.strips = cr_pieces(N, WIDTH);
    cr_pool_run(M * r.strips, arg_columns_chunk, &r);
    return CR_OK;
}
