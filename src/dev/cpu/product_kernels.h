/* product_kernels.h - more kernels for float and double: operands in place, packing, one row. */

static TILE_INLINE void NAME(in_place)(const int rows, const int vectors, const bool part, const NAME(tile) *t) {
    VEC sum[ROWS][MOST_VECTORS], row[MOST_VECTORS];
    const REAL *a = t->a, *b = t->b;
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row, last = t->last;
    NAME(clear)(rows, vectors, sum);
    for (int64_t p = t->k; p > 0; p--, a += a_col, b += b_row) {
CR_UNROLL(4)
        for (int j = 0; j < vectors; j++) row[j] = NAME(load)(b + j * LANES, part && j == vectors - 1, last);
        NAME(step)(rows, vectors, sum, a, a_row, row);
    }
    NAME(finish)(rows, vectors, part, t, sum);
}
ALL_TILES(in_place)
WIDE_TILES(in_place)

/* Rows of the next tile of `left`: as many as fit, but the last two share what a full one and a thin
 * one (inefficient) would have. */
static inline int64_t NAME(height)(int64_t left, int64_t most) {
    return left >= most + 4 || left == most ? most : left > most ? (left + 1) / 2 : left;
}

/* One strip of c, at most MOST_VECTORS wide. */
static void NAME(strip)(NAME(tile) t, int64_t m, int64_t n) {
    const int64_t vectors = (n + LANES - 1) / LANES;
    const bool wide = vectors > VECTORS, part = n % LANES != 0;
    t.last = n - (vectors - 1) * LANES;
    for (int64_t i = 0, rows; i < m; i += rows) {
        rows = NAME(height)(m - i, wide ? WIDE_ROWS : ROWS);
        (wide ? NAME(in_place_wide)[rows - 1][part] : NAME(in_place_tiles)[rows - 1][vectors - 1 + 2 * part])(&t);
        t.a += rows * t.a_row;
        t.c += rows * t.c_row;
    }
}

static void NAME(by_rows)(const cr_product *p) {
    NAME(tile) t = {.k = p->k, .a = p->a, .a_row = p->a_row, .a_col = p->a_col, .b = p->b, .b_row = p->b_row,
                    .c = p->c, .c_row = p->c_row, .bias = p->bias, .accumulate = p->accumulate};
    for (int64_t j = 0, n; j < p->n; j += n) {
        int64_t left = p->n - j;
        n = left <= MOST_VECTORS * LANES ? left : NAME(COLUMNS);
        NAME(strip)(t, p->m, n);
        t.b += n;
        t.c += n;
        if (t.bias) t.bias += n;
    }
}

enum { NAME(NARROW) = LANES / 2 - 1, NAME(HIGH) = 16 * LANES };

/* A narrow c whose a has contiguous columns: the columns of c fill the lanes.  The sums are the same. */
static void NAME(by_columns)(const cr_product *p) {
    REAL column[NAME(NARROW) * NAME(HIGH) + 1];
    const REAL *a = p->a, *bias = p->bias;
    for (int64_t i = 0; i < p->m; i += NAME(HIGH)) {
        const int64_t m = p->m - i < NAME(HIGH) ? p->m - i : NAME(HIGH);
        NAME(by_rows)(&(cr_product){.m = p->n, .n = m, .k = p->k, .a = p->b, .a_row = 1, .a_col = p->b_row,
                                    .b = a + i, .b_row = p->a_col, .b_col = 1, .c = column, .c_row = m});
        for (int64_t r = 0; r < m; r++) {
            REAL *c = (REAL *)p->c + (i + r) * p->c_row;
            for (int64_t j = 0; j < p->n; j++) {
                const REAL sum = bias ? column[j * m + r] + bias[j] : column[j * m + r];
                c[j] = p->accumulate ? c[j] + sum : sum;
            }
        }
    }
}

static void NAME(direct)(const cr_product *p) {
    if (p->n <= NAME(NARROW) && p->a_row == 1 && p->m >= LANES / 2 && p->k) NAME(by_columns)(p);
    else NAME(by_rows)(p);
}

#define SOURCE_NAME NAME
#define SOURCE REAL
#define WHOLE(p) ((VEC)*(const LOOSE *)(p))
#define PART NAME(part_load)
#define ONE(p) (*(p))
#include "product_packing.h"

/* ---- one row: memory-bound, every element of b is used once.  The processor itself fetches ahead of
 * such streams; asked to, it is a quarter slower ---- */

/* c[j] = start[j] + sum of a[p] b[p, j], b's rows contiguous: four of them at a time over a stretch of
 * c that stays in L1. */
static void NAME(row_of_rows)(const cr_product *w) {
    enum { STRETCH = 4096 };
    const REAL *a = w->a, *bias = w->bias;
    const int64_t step = w->b_row, a_col = w->a_col;
    for (int64_t j = 0; j < w->n; j += STRETCH) {
        int64_t n = w->n - j < STRETCH ? w->n - j : STRETCH, p = 0;
        REAL *restrict c = (REAL *)w->c + j;
        const REAL *b = (const REAL *)w->b + j;
        if (!w->accumulate) for (int64_t i = 0; i < n; i++) c[i] = 0;
        for (; p + 4 <= w->k; p += 4, b += 4 * step) {
            const REAL a0 = a[p * a_col], a1 = a[(p + 1) * a_col], a2 = a[(p + 2) * a_col], a3 = a[(p + 3) * a_col];
            for (int64_t i = 0; i < n; i++)
                c[i] += NAME(one_fma)(a0, b[i], a1 * b[i + step])
                        + NAME(one_fma)(a2, b[i + 2 * step], a3 * b[i + 3 * step]);
        }
        for (; p < w->k; p++, b += step)
            for (int64_t i = 0; i < n; i++) c[i] = NAME(one_fma)(a[p * a_col], b[i], c[i]);
        if (bias) for (int64_t i = 0; i < n; i++) c[i] += bias[w->one_bias ? 0 : j + i];
    }
}

static inline REAL NAME(sum_lanes)(VEC v) {
    REAL s[LANES];
    memcpy(s, &v, sizeof s);
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) s[i] += s[i + step];
    return s[0];
}

/* Lane i of the result is the sum of the lanes of v[i], in the order of sum_lanes: each step adds the halves of two
 * vectors and interleaves the sums. */
static ALWAYS_INLINE VEC NAME(sums)(VEC v[LANES]) {
#pragma GCC unroll 4
    for (int n = LANES / 2; n > 0; n /= 2)
#pragma GCC unroll 16
        for (int i = 0; i < n; i++)
            v[i] = NAME(interleave_low)(v[i], v[i + n]) + NAME(interleave_high)(v[i], v[i + n]);
    return v[0];
}

#include "product_row.h"

/* 4 x 4 dot products of contiguous rows of a and columns of b: where a has few rows, b is read once
 * and never packed. */
static void NAME(few_dots)(REAL out[4][4], const REAL *a, int64_t a_row, const REAL *b, int64_t b_col, int64_t k) {
    VEC sum[4][4] = {{{0}}};
    for (int64_t p = 0; p < k; p += LANES) {
        const int64_t n = k - p < LANES ? k - p : LANES;
        VEC x[4];
CR_UNROLL(4)
        for (int i = 0; i < 4; i++) x[i] = NAME(load)(a + i * a_row + p, n < LANES, n);
CR_UNROLL(4)
        for (int j = 0; j < 4; j++) {
            const VEC y = NAME(load)(b + j * b_col + p, n < LANES, n);
            __builtin_prefetch(b + (j + 4) * b_col + p);        /* the next columns: memory is what this waits for */
CR_UNROLL(4)
            for (int i = 0; i < 4; i++) sum[i][j] = NAME(fma)(x[i], y, sum[i][j]);
        }
    }
    for (int g = 0; g < 16; g += LANES) {           /* LANES sums at a time: their lanes become lines */
        VEC v[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) v[i] = sum[(g + i) / 4][(g + i) % 4];
        *(LOOSE *)(&out[0][0] + g) = NAME(sums)(v);
    }
}

static void NAME(few)(const cr_product *w) {
    const REAL *bias = w->bias;
    for (int64_t j = 0; j < w->n; j += 4)
        for (int64_t i = 0; i < w->m; i += 4) {
            int64_t rows = w->m - i < 4 ? w->m - i : 4, columns = w->n - j < 4 ? w->n - j : 4;
            REAL dot[4][4], *c = (REAL *)w->c + i * w->c_row + j;
            const REAL *a = (const REAL *)w->a + i * w->a_row, *b = (const REAL *)w->b + j * w->b_col;
            if (rows == 4 && columns == 4) NAME(few_dots)(dot, a, w->a_row, b, w->b_col, w->k);
            else if (columns == 4)
                for (int64_t r = 0; r < rows; r++) NAME(dots)(4, dot[r], a + r * w->a_row, b, w->b_col, w->k);
            else for (int64_t r = 0; r < rows; r++)
                    for (int64_t s = 0; s < columns; s++)
                        NAME(dots)(1, &dot[r][s], a + r * w->a_row, b + s * w->b_col, w->b_col, w->k);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t s = 0; s < columns; s++)
                    c[r * w->c_row + s] = (w->accumulate ? c[r * w->c_row + s] : 0) +
                                          (dot[r][s] + (bias ? bias[j + s] : 0));
        }
}

/* ---- k is 1: memory-bound, c is written once, row by row ---- */
static void NAME(outer)(const cr_product *w) {
    const REAL *a = w->a, *restrict b = w->b, *bias = w->bias;
    for (int64_t i = 0; i < w->m; i++) {
        REAL *restrict c = (REAL *)w->c + i * w->c_row;
        const REAL x = a[i * w->a_row];
        if (w->accumulate) for (int64_t j = 0; j < w->n; j++) c[j] = NAME(one_fma)(x, b[j], c[j]);
        else for (int64_t j = 0; j < w->n; j++) c[j] = x * b[j];
        if (bias) for (int64_t j = 0; j < w->n; j++) c[j] += bias[j];
    }
}

static void NAME(row)(const cr_product *w) {
    if (w->b_col == 1 && !(w->b_row == 1 && w->a_col == 1)) { NAME(row_of_rows)(w); return; }
    if (w->b_row == 1 && w->a_col == 1) { NAME(row_of_columns)(w); return; }
    const REAL *a = w->a, *b = w->b, *bias = w->bias;
    REAL *c = w->c;
    for (int64_t j = 0; j < w->n; j++) {
        REAL s = 0;
        for (int64_t p = 0; p < w->k; p++) s = NAME(one_fma)(a[p * w->a_col], b[p * w->b_row + j * w->b_col], s);
        c[j] = (w->accumulate ? c[j] : 0) + (s + (bias ? bias[w->one_bias ? 0 : j] : 0));
    }
}
