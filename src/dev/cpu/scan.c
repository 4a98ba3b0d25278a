/* scan.c - running sums, products, log-sum-exps and extremes of x (M, R, N) along R.
 *
 * A unit of work is (m, block of R, strip of N): a row if N is 1, else up to WIDTH columns.  Floats
 * accumulate in double, so that the error does not grow with R, and are rounded once per element.
 * Long sums are cut into blocks of fixed size: first the sum of each block, then the scan of each from
 * the sum of those before it.  Products are not cut: 0 times an overflow in a later block would be
 * NaN. */
#include "blocks.h"
#include "../../core/pool.h"
#include "../elementary.h"

#include <math.h>

enum {
    WIDTH = 512,                                    /* lanes of a strip */
    PIECE = 1024,                                   /* lanes of a piece of a row */
    BLOCK = 1 << 16                                 /* elements of a block; steps between two checks for interruption */
};

typedef union lane { double d; int64_t i; } lane;

typedef struct scan {
    cr_scan_kind kind;
    bool reverse, floats;                           /* floats: lanes are double, else i64 */
    cr_dtype from, to;
    const char *x, *a; char *y;                     /* a NULL: no weights */
    int64_t *index;                                 /* MAX, MIN: positions */
    int64_t M, R, N, strips, blocks, rows;          /* rows: of a block */
    int64_t each;                                   /* units of a chunk */
    lane *carry;                                    /* if blocks > 1: (M, blocks, N), the sum of each block, then of
                                                     * those before it */
} scan;

static double log_add(double a, double b) {
    double most = a > b || a != a ? a : b, other = a > b || a != a ? b : a;
    return most != most || other != other ? NAN : isinf(most) ? most : most + cr_f64_log1p(cr_f64_exp(other - most));
}

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))

/* Rows of lanes or f32: four elements at a time, so that the dependency chain through `carry` has one
 * operation for four. */
#define BY_FOUR(name, T, A, OP)                                                                     \
static A name(T *y, const T *x, int64_t step, int64_t n, A carry) {                                 \
    for (; n >= 4; n -= 4, x += 4 * step, y += 4 * step) {                                          \
        const A a = (A)x[0], ab = OP(a, (A)x[step]), c = (A)x[2 * step], cd = OP(c, (A)x[3 * step]), abc = OP(ab, c);  \
        y[0] = (T)OP(carry, a);                                                                     \
        y[step] = (T)OP(carry, ab);                                                                 \
        y[2 * step] = (T)OP(carry, abc);                                                            \
        carry = OP(carry, OP(ab, cd));                                                              \
        y[3 * step] = (T)carry;                                                                     \
    }                                                                                               \
    for (; n > 0; n--, x += step, y += step) y[0] = (T)(carry = OP(carry, (A)x[0]));                \
    return carry;                                                                                   \
}
BY_FOUR(sum_f32, float, double, ADD)
BY_FOUR(prod_f32, float, double, MULTIPLY)          /* a product of four fits a double */
BY_FOUR(sum_u64, uint64_t, uint64_t, ADD)           /* integers wrap, so unsigned */
BY_FOUR(prod_u64, uint64_t, uint64_t, MULTIPLY)

/* One step of all lanes: v becomes the result.  before: the results of the previous element; a: weights. */
static void step_lanes(const scan *s, lane *before, lane *v, const lane *a, int64_t n, bool first) {
    if (!s->floats) {
        const bool sums = s->kind == CR_SCAN_SUM;
        for (int64_t i = 0; i < n; i++) {
            uint64_t b = (uint64_t)before[i].i, u = (uint64_t)v[i].i;
            before[i].i = v[i].i = (int64_t)(sums ? b + u : b * u);
        }
    } else if (a) {                                 /* reverse: `before` is weighted already */
        for (int64_t i = 0; i < n; i++) {
            if (s->reverse) { v[i].d += before[i].d; before[i].d = a[i].d * v[i].d; }
            else before[i].d = v[i].d = first ? v[i].d : v[i].d + a[i].d * before[i].d;
        }
    } else if (s->kind == CR_SCAN_SUM) {
        for (int64_t i = 0; i < n; i++) before[i].d = v[i].d = before[i].d + v[i].d;
    } else if (s->kind == CR_SCAN_PROD) {
        for (int64_t i = 0; i < n; i++) before[i].d = v[i].d = before[i].d * v[i].d;
    } else {
        for (int64_t i = 0; i < n; i++) before[i].d = v[i].d = log_add(before[i].d, v[i].d);
    }
}

/* The same along one row: each lane continues the one before it, the first continues carry. */
static void run_lanes(const scan *s, lane *carry, lane *v, const lane *a, int64_t n, bool first) {
    double acc = carry->d;
    if (!s->floats) {
        uint64_t *u = (uint64_t *)(void *)v;
        carry->i = (int64_t)(s->kind == CR_SCAN_SUM ? sum_u64 : prod_u64)(u, u, 1, n, (uint64_t)carry->i);
        return;
    }
    if (a && s->reverse) for (int64_t i = 0; i < n; i++) { v[i].d += acc; acc = a[i].d * v[i].d; }
    else if (a) for (int64_t i = 0; i < n; i++) v[i].d = acc = first && !i ? v[i].d : v[i].d + a[i].d * acc;
    else if (s->kind == CR_SCAN_SUM) for (int64_t i = 0; i < n; i++) v[i].d = acc += v[i].d;
    else if (s->kind == CR_SCAN_PROD) for (int64_t i = 0; i < n; i++) v[i].d = acc *= v[i].d;
    else for (int64_t i = 0; i < n; i++) v[i].d = acc = log_add(acc, v[i].d);
    carry->d = acc;
}

static const char *element(const char *base, cr_dtype dt, int64_t at) { return base + at * (int64_t)cr_dtype_size(dt); }
static cr_lane lane_of(const scan *s) { return s->floats ? CR_LANE_F64 : CR_LANE_I64; }

/* One row of n elements, `step` apart from position `at` on. */
static void scan_row(const scan *s, int64_t at, int64_t step, int64_t n, lane *carry) {
    const char *x = element(s->x, s->from, at);
    char *y = (char *)(uintptr_t)element(s->y, s->to, at);
    lane v[PIECE], a[PIECE];
    const bool sum = s->kind == CR_SCAN_SUM, direct = !s->a && (sum || s->kind == CR_SCAN_PROD);
    for (int64_t k = 0; k < n && direct && s->from == CR_F32 && cr_goes_on(k, BLOCK); k += BLOCK)
        carry->d = (sum ? sum_f32 : prod_f32)((float *)(void *)y + k * step, (const float *)(const void *)x + k * step,
                                              step, cr_imin(BLOCK, n - k), carry->d);
    for (int64_t k = 0; k < n && direct && s->from == CR_I64 && cr_goes_on(k, BLOCK); k += BLOCK)
        carry->i = (int64_t)(sum ? sum_u64 : prod_u64)((uint64_t *)(void *)y + k * step,
                                                       (const uint64_t *)(const void *)x + k * step, step,
                                                       cr_imin(BLOCK, n - k), (uint64_t)carry->i);
    if (direct && (s->from == CR_F32 || s->from == CR_I64)) return;
    for (int64_t k = 0; k < n && cr_goes_on(k, BLOCK); k += PIECE) {
        int64_t length = cr_imin(PIECE, n - k);
        cr_block_load(lane_of(s), v, s->from, element(x, s->from, k * step), step, length);
        if (s->a) cr_block_load(lane_of(s), a, s->from, element(s->a, s->from, at + k * step), step, length);
        run_lanes(s, carry, v, s->a ? a : NULL, length, k == 0);
        cr_block_store(lane_of(s), v, s->to, y + k * step * (int64_t)cr_dtype_size(s->to), step, length);
    }
}

/* `rows` rows of n columns, `step` elements apart. */
static void scan_columns(const scan *s, int64_t at, int64_t step, int64_t rows, int64_t n, lane *carry) {
    lane v[WIDTH], a[WIDTH];
    for (int64_t k = 0; k < rows && cr_goes_on(k, BLOCK); k++, at += step) {
        cr_block_load(lane_of(s), v, s->from, element(s->x, s->from, at), 1, n);
        if (s->a) cr_block_load(lane_of(s), a, s->from, element(s->a, s->from, at), 1, n);
        step_lanes(s, carry, v, s->a ? a : NULL, n, k == 0);
        cr_block_store(lane_of(s), v, s->to, (char *)(uintptr_t)element(s->y, s->to, at), 1, n);
    }
}

/* The identity. */
static void start(const scan *s, lane *carry, int64_t n) {
    const double none = s->kind == CR_SCAN_LOGSUMEXP ? -INFINITY : s->kind == CR_SCAN_PROD;
    for (int64_t i = 0; i < n; i++) {
        if (s->floats) carry[i].d = none;
        else carry[i].i = s->kind == CR_SCAN_PROD;
    }
}

/* Only the sum of a block, of one column or of n. */
static void sum_block(const scan *s, int64_t at, int64_t rows, int64_t n, lane *sum) {
    lane v[PIECE], part[WIDTH];
    if (s->N > 1) {
        for (int64_t k = 0; k < rows; k++, at += s->N) {
            cr_block_load(lane_of(s), v, s->from, element(s->x, s->from, at), 1, n);
            step_lanes(s, sum, v, NULL, n, false);
        }
        return;
    }
    start(s, part, WIDTH);
    for (int64_t k = 0; k < rows; k += PIECE) {
        int64_t length = cr_imin(PIECE, rows - k);
        cr_block_load(lane_of(s), v, s->from, element(s->x, s->from, at + k), 1, length);
        for (int64_t i = 0; i < length; i += WIDTH) step_lanes(s, part, v + i, NULL, cr_imin(WIDTH, length - i), false);
    }
    for (int i = 0; i < WIDTH; i++) step_lanes(s, sum, part + i, NULL, 1, false);
}

/* ---- MAX, MIN, and the position of the last best element.  MIN is the MAX of -v, or of ~v for integers. */
/* makes i64 order u64 order */
static int64_t integer_flip(const scan *s) {
    return (s->from == CR_U64 ? INT64_MIN : 0) ^ (s->kind == CR_SCAN_MIN ? -1 : 0);
}
static bool flips(const scan *s) { return s->kind == CR_SCAN_MIN || s->from == CR_U64; }

#define REACHES(v, best) (((v) >= (best)) | ((v) != (v)))      /* true for equal elements and for NaN */
#define NEGATED(v) (-(v))
#define FLIPPED(v) ((v) ^ flip)

/* A row in pieces, or rows of n columns; count: an integer as wide as T.  In random numbers a new
 * extreme is rare, so most groups of a row need one comparison. */
enum { GROUP = 16 };
#define EXTREMES(name, lane, T, count, LOWEST, REVERSED)                                            \
static void reverse_##name(const scan *s, T *v, int64_t n) {                                        \
    const int64_t flip = integer_flip(s);                                                           \
    (void)flip;                                                                                     \
    if (flips(s)) for (int64_t i = 0; i < n; i++) v[i] = REVERSED(v[i]);                            \
}                                                                                                   \
static void row_##name(T *v, int64_t *index, int64_t k, int64_t n, T *best, int64_t *where) {       \
    for (int64_t end; n > 0; n -= end, v += end, index += end, k += end) {                          \
        count hits = 0;                                                                             \
        end = cr_imin(GROUP, n);                                                                      \
        for (int64_t i = 0; i < end; i++) hits += REACHES(v[i], *best);                             \
        for (int64_t i = 0; i < end; i++) {                                                         \
            if (hits && REACHES(v[i], *best)) { *best = v[i]; *where = k + i; }                     \
            v[i] = *best;                                                                           \
            index[i] = *where;                                                                      \
        }                                                                                           \
    }                                                                                               \
}                                                                                                   \
static void column_##name(T *v, int64_t *index, int64_t k, int64_t n, T *best, int64_t *where) {    \
    for (int64_t i = 0; i < n; i++) {                                                               \
        const bool better = REACHES(v[i], best[i]);                                                 \
        v[i] = best[i] = better ? v[i] : best[i];                                                   \
        index[i] = where[i] = better ? k : where[i];                                                \
    }                                                                                               \
}                                                                                                   \
static void extremes_##name(const scan *s, int64_t at, int64_t rows, int64_t n) {                   \
    T v[PIECE], best[WIDTH];                                                                        \
    int64_t where[WIDTH];                                                                           \
    const bool columns = s->N > 1;                                                                  \
    const int64_t piece = columns ? 1 : PIECE;                                                      \
    for (int64_t i = 0; i < n; i++) { best[i] = LOWEST; where[i] = 0; }                             \
    for (int64_t k = 0; k < rows && cr_goes_on(k, BLOCK); k += piece) {                             \
        const int64_t length = columns ? n : cr_imin(PIECE, rows - k), position = at + k * s->N;      \
        cr_block_load(lane, v, s->from, element(s->x, s->from, position), 1, length);               \
        reverse_##name(s, v, length);                                                               \
        (columns ? column_##name : row_##name)(v, s->index + position, k, length, best, where);     \
        reverse_##name(s, v, length);                                                               \
        cr_block_store(lane, v, s->to, (char *)(uintptr_t)element(s->y, s->to, position), 1, length); \
    }                                                                                               \
}
EXTREMES(f32, CR_LANE_F32, float, int32_t, -INFINITY, NEGATED)
EXTREMES(f64, CR_LANE_F64, double, int64_t, -INFINITY, NEGATED)
EXTREMES(i64, CR_LANE_I64, int64_t, int64_t, INT64_MIN, FLIPPED)

static void scan_extremes(const scan *s, int64_t at, int64_t rows, int64_t n) {
    const cr_lane own = cr_lane_of(s->from);
    (own == CR_LANE_F32 ? extremes_f32 : own == CR_LANE_F64 ? extremes_f64 : extremes_i64)(s, at, rows, n);
}

/* ---- the plan */
typedef struct unit { int64_t m, block, column, n, first, rows; } unit;
static unit unit_at(const scan *s, int64_t i) {
    unit u = {.m = i / s->strips / s->blocks, .block = i / s->strips % s->blocks, .column = i % s->strips * WIDTH};
    u.n = cr_imin(WIDTH, s->N - u.column);
    u.first = u.block * s->rows;
    u.rows = cr_imin(s->rows, s->R - u.first);
    return u;
}

static lane *carry_of(const scan *s, int64_t m, int64_t block, int64_t column) {
    return s->carry + (m * s->blocks + block) * s->N + column;
}

static void run_unit(const scan *s, int64_t i) {
    const unit u = unit_at(s, i);
    const int64_t at = (u.m * s->R + u.first + (s->reverse ? u.rows - 1 : 0)) * s->N + u.column,
                  step = s->reverse ? -s->N : s->N;
    lane own[WIDTH], *carry = own;
    if (s->index) { scan_extremes(s, at, u.rows, u.n); return; }
    if (s->carry) carry = carry_of(s, u.m, u.block, u.column);
    else start(s, carry, u.n);
    if (s->N == 1) scan_row(s, at, step, u.rows, carry);
    else scan_columns(s, at, step, u.rows, u.n, carry);
}

static void run_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const scan *s = ctx;
    int64_t end = cr_imin((chunk + 1) * s->each, s->M * s->blocks * s->strips);
    for (int64_t i = chunk * s->each; i < end; i++) run_unit(s, i);
}

static void sum_chunk(void *ctx, int64_t i, int worker) {
    (void)worker;
    const scan *s = ctx;
    const unit u = unit_at(s, i);
    lane *sum = carry_of(s, u.m, u.block, u.column);
    start(s, sum, u.n);
    sum_block(s, (u.m * s->R + u.first) * s->N + u.column, u.rows, u.n, sum);
}

/* Replaces the sum of each block by the sum of all blocks before it. */
static void carry_on(const scan *s) {
    for (int64_t m = 0; m < s->M; m++)
        for (int64_t column = 0; column < s->N; column++) {
            lane before;
            start(s, &before, 1);
            for (int64_t b = 0; b < s->blocks; b++) {
                lane *sum = carry_of(s, m, s->reverse ? s->blocks - 1 - b : b, column), own = *sum;
                *sum = before;
                step_lanes(s, &before, &own, NULL, 1, false);
            }
        }
}

static scan scan_of(const cr_scan_args *args) {
    const cr_array *x = &args->x;
    scan s = {.kind = args->kind,
              .reverse = args->reverse,
              .floats = cr_dtype_is_float(x->dtype),
              .from = x->dtype,
              .to = args->y.dtype,
              .x = cr_array_data(x),
              .y = cr_array_data(&args->y),
              .M = x->shape[0],
              .R = x->shape[1],
              .N = x->shape[2],
              .blocks = 1,
              .rows = x->shape[1]};
    if (cr_present(&args->a)) s.a = cr_array_data(&args->a);
    if (cr_present(&args->index)) s.index = cr_array_data(&args->index);
    s.strips = cr_pieces(s.N, WIDTH);
    const bool cuts = !s.a && (s.kind == CR_SCAN_SUM || s.kind == CR_SCAN_LOGSUMEXP);
    if (cuts && s.M * s.strips < 16) {              /* too few chunks without cutting R */
        s.rows = cr_pieces(BLOCK, cr_imin(s.N, WIDTH));
        s.blocks = cr_pieces(s.R, s.rows);
    }
    s.each = cr_pieces(cr_chunk(s.M * s.R * s.N), cr_imin(s.rows, s.R) * cr_imin(s.N, WIDTH));
    return s;
}

cr_status cr_cpu_scan(const cr_scan_args *args) {
    scan s = scan_of(args);
    const int64_t units = s.M * s.blocks * s.strips;
    const size_t bytes = s.blocks > 1 ? (size_t)(s.M * s.blocks * s.N) * sizeof(lane) : 0;
    if (bytes) {
        if (!(s.carry = cr_cpu_take(bytes))) return CR_NO_MEMORY;
        cr_pool_run(units, sum_chunk, &s);
        carry_on(&s);
    }
    cr_run_chunks(cr_pieces(units, s.each), run_chunk, &s);
    cr_cpu_give(s.carry, bytes);
    return CR_OK;
}
