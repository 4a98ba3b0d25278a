/* product_kernels.h - the products of one element type on one thread.  matmul_isa.c includes it for float and for double, with
 *   REAL, VEC, LOOSE   the element; a vector of LANES; the same without alignment
 *   NAME(x)            x with the type's suffix
 *   part_load, part_store   of the first n lanes (the others read as 0)
 *   interleave_low, interleave_high   lanes a0 b0 a1 b1 ... of the lower and the upper halves
 *
 * The scheme is that of Goto and van de Geijn (ACM TOMS 34, 2008): a tile of c, ROWS x COLUMNS, stays in registers while a column
 * of a and a row of b stream past; b is packed into strips of COLUMNS that stay in L1, a into blocks of panels that stay in L2.
 * Limited by flops: ROWS * VECTORS multiply-adds for ROWS + VECTORS loads. */

enum { NAME(COLUMNS) = VECTORS * LANES };

/* One tile of c.  part: the last vector has only `last` lanes. */
typedef struct NAME(tile) {
    int64_t k;
    const REAL *a; int64_t a_row, a_col;
    const REAL *b; int64_t b_row;
    REAL *c; int64_t c_row;
    const REAL *bias;
    bool accumulate;
    int64_t last;
} NAME(tile);

static inline __attribute__((always_inline)) VEC NAME(load)(const REAL *p, bool part, int64_t last) {
    if (part) return NAME(part_load)(p, last);
    return *(const LOOSE *)p;
}

/* rows, vectors and part are constants at every call: the loops unroll and sum lies in registers. */
static inline __attribute__((always_inline)) void NAME(multiply)(const int rows, const int vectors, const bool part, const NAME(tile) *t) {
    VEC sum[ROWS][VECTORS], row[VECTORS];
    const REAL *a = t->a, *b = t->b;
    const int64_t a_row = t->a_row, a_col = t->a_col, b_row = t->b_row, last = t->last;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) sum[i][j] = (VEC){0};
    for (int64_t p = t->k; p > 0; p--, a += a_col, b += b_row) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) row[j] = NAME(load)(b + j * LANES, part && j == vectors - 1, last);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const VEC x = a[i * a_row] - (VEC){0};
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++) sum[i][j] += x * row[j];
        }
    }
    if (t->bias) {
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) row[j] = NAME(load)(t->bias + j * LANES, part && j == vectors - 1, last);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++) sum[i][j] += row[j];
    }
    REAL *c = t->c;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += t->c_row)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            bool cut = part && j == vectors - 1;
            if (t->accumulate) sum[i][j] += NAME(load)(c + j * LANES, cut, last);
            if (cut) NAME(part_store)(c + j * LANES, sum[i][j], last);
            else *(LOOSE *)(c + j * LANES) = sum[i][j];
        }
}

#define TILE_OF(r)                                                                                              \
    static void NAME(tile_##r##_1)(const NAME(tile) *t) { NAME(multiply)(r, 1, false, t); }                     \
    static void NAME(tile_##r##_2)(const NAME(tile) *t) { NAME(multiply)(r, 2, false, t); }                     \
    static void NAME(tile_##r##_1_part)(const NAME(tile) *t) { NAME(multiply)(r, 1, true, t); }                 \
    static void NAME(tile_##r##_2_part)(const NAME(tile) *t) { NAME(multiply)(r, 2, true, t); }
#define TILES_OF(r) { NAME(tile_##r##_1), NAME(tile_##r##_2), NAME(tile_##r##_1_part), NAME(tile_##r##_2_part) }
TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6)
#if ROWS > 6
TILE_OF(7) TILE_OF(8) TILE_OF(9) TILE_OF(10) TILE_OF(11) TILE_OF(12) TILE_OF(13) TILE_OF(14)
#endif
typedef void (*NAME(tile_fn))(const NAME(tile) *t);
static const NAME(tile_fn) NAME(tiles)[ROWS][4] = {
    TILES_OF(1), TILES_OF(2), TILES_OF(3), TILES_OF(4), TILES_OF(5), TILES_OF(6),
#if ROWS > 6
    TILES_OF(7), TILES_OF(8), TILES_OF(9), TILES_OF(10), TILES_OF(11), TILES_OF(12), TILES_OF(13), TILES_OF(14),
#endif
};
#undef TILE_OF
#undef TILES_OF

/* Rows of the next panel of `left`: full ones, but the last two share what a full one and a thin one (inefficient) would have. */
static inline int64_t NAME(panel)(int64_t left) { return left >= ROWS + 4 || left == ROWS ? ROWS : left > ROWS ? (left + 1) / 2 : left; }

/* One strip of c, at most COLUMNS wide.  packed: the step between panels of a, 0 when a is not packed. */
static void NAME(strip)(NAME(tile) t, int64_t m, int64_t n, int64_t packed) {
    int64_t vectors = (n + LANES - 1) / LANES;
    bool part = n % LANES != 0;
    t.last = n - (vectors - 1) * LANES;
    for (int64_t i = 0, rows; i < m; i += rows) {
        rows = packed ? (m - i < ROWS ? m - i : ROWS) : NAME(panel)(m - i);
        NAME(tiles)[rows - 1][vectors - 1 + 2 * part](&t);
        t.a += packed ? packed : rows * t.a_row;
        t.c += rows * t.c_row;
    }
}

static void NAME(direct)(const cr_product *p) {
    NAME(tile) t = {.k = p->k, .a = p->a, .a_row = p->a_row, .a_col = p->a_col, .b = p->b, .b_row = p->b_row,
                    .c = p->c, .c_row = p->c_row, .bias = p->bias, .accumulate = p->accumulate};
    for (int64_t j = 0; j < p->n; j += NAME(COLUMNS)) {
        NAME(strip)(t, p->m, p->n - j < NAME(COLUMNS) ? p->n - j : NAME(COLUMNS), 0);
        t.b += NAME(COLUMNS);
        t.c += NAME(COLUMNS);
        if (t.bias) t.bias += NAME(COLUMNS);
    }
}

/* ---- packing ---- */

/* LANES rows of LANES become columns, in log2(LANES) perfect shuffles. */
static inline __attribute__((always_inline)) void NAME(transpose)(VEC v[LANES]) {
    VEC w[LANES];
#pragma GCC unroll 4
    for (int step = 1; step < LANES; step *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            w[2 * i] = NAME(interleave_low)(v[i], v[i + LANES / 2]);
            w[2 * i + 1] = NAME(interleave_high)(v[i], v[i + LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) v[i] = w[i];
    }
}

/* to[p * width + j] = from[j * across + p], LANES x LANES at a time; rows j >= n are zeros. */
static void NAME(pack_transposed)(REAL *to, int64_t width, int64_t n, int64_t k, const REAL *from, int64_t across) {
    for (int64_t j = 0; j < width; j += LANES)
        for (int64_t p = 0; p < k; p += LANES) {
            VEC v[LANES];
            int64_t left = k - p < LANES ? k - p : LANES;
            const REAL *f = from + j * across + p;
            if (left == LANES && n - j >= LANES) {
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) v[i] = *(const LOOSE *)(f + i * across);
            } else for (int i = 0; i < LANES; i++) v[i] = j + i < n ? NAME(part_load)(f + i * across, left) : (VEC){0};
            NAME(transpose)(v);
            REAL *d = to + p * width + j;
            if (left == LANES) {
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) *(VEC *)(d + i * width) = v[i];
            } else for (int i = 0; i < left; i++) *(VEC *)(d + i * width) = v[i];
        }
}

/* to[p * width + j] = from[j * across + p * along] for j < n <= width, p < k; the rest of each row of `to` (a multiple of LANES) is zero. */
static void NAME(pack)(void *into, int64_t width, int64_t n, int64_t k, const void *of, int64_t across, int64_t along) {
    REAL *to = into;
    const REAL *from = of;
    if (along == 1 && across != 1) { NAME(pack_transposed)(to, width, n, k, from, across); return; }
    for (int64_t p = 0; p < k; p++, to += width, from += along) {
        if (across == 1) {
            int64_t j = 0;
            for (; j + LANES <= n; j += LANES) *(VEC *)(to + j) = *(const LOOSE *)(from + j);
            if (j < n) { *(VEC *)(to + j) = NAME(part_load)(from + j, n - j); j += LANES; }
            for (; j < width; j += LANES) *(VEC *)(to + j) = (VEC){0};
        } else {
            for (int64_t j = 0; j < n; j++) to[j] = from[j * across];
            for (int64_t j = n; j < width; j++) to[j] = 0;
        }
    }
}

/* ---- blocked ---- */

enum {
    NAME(PANEL) = (ROWS + LANES - 1) / LANES * LANES,           /* a packed panel of a is this wide, for whole vectors */
    NAME(DEPTH) = DEPTH_BYTES / (int)sizeof(REAL) / NAME(COLUMNS),      /* of a block: a strip of b stays in L1 */
    NAME(HEIGHT) = BLOCK_BYTES / (int)sizeof(REAL) / NAME(DEPTH) / NAME(PANEL) * ROWS,          /* a block of a stays in L2 */
    NAME(WIDTH) = STRIPS * NAME(COLUMNS)
};

/* a is read once for every strip of b: packing it pays from the third on. */
static inline bool NAME(packs_a)(int64_t n) { return n > 2 * NAME(COLUMNS); }

static inline int64_t NAME(depth)(int64_t k) { int64_t blocks = (k + NAME(DEPTH) - 1) / NAME(DEPTH); return (k + blocks - 1) / blocks; }
static inline int64_t NAME(strips)(int64_t n) { return (n + NAME(COLUMNS) - 1) / NAME(COLUMNS); }
static inline int64_t NAME(panels)(int64_t m) { return (m + ROWS - 1) / ROWS; }

static size_t NAME(scratch_bytes)(int64_t m, int64_t n, int64_t k) {
    int64_t depth = NAME(depth)(k), width = n < NAME(WIDTH) ? n : NAME(WIDTH), height = m < NAME(HEIGHT) ? m : NAME(HEIGHT);
    int64_t rows = NAME(strips)(width) * NAME(COLUMNS) + (NAME(packs_a)(n) ? NAME(panels)(height) * NAME(PANEL) : 0);
    return (size_t)(depth * rows) * sizeof(REAL);
}

/* The part of c below one packed block of b: columns j .. j + n, a's columns from p on. */
static void NAME(block)(const cr_product *w, int64_t j, int64_t n, int64_t p, int64_t depth, const REAL *b, REAL *scratch) {
    bool pack_a = NAME(packs_a)(w->n), last = p + depth == w->k;
    int64_t height = pack_a ? NAME(HEIGHT) : w->m;
    for (int64_t i = 0, m; i < w->m; i += m) {
        m = w->m - i < height ? w->m - i : height;
        const REAL *a = (const REAL *)w->a + i * w->a_row + p * w->a_col;
        NAME(tile) t = {.k = depth, .a = a, .a_row = w->a_row, .a_col = w->a_col, .b = b, .b_row = NAME(COLUMNS),
                        .c = (REAL *)w->c + i * w->c_row + j, .c_row = w->c_row,
                        .bias = last && w->bias ? (const REAL *)w->bias + j : NULL, .accumulate = p > 0 || w->accumulate};
        if (pack_a) {
            for (int64_t r = 0; r < m; r += ROWS)
                NAME(pack)(scratch + r / ROWS * NAME(PANEL) * depth, NAME(PANEL), m - r < ROWS ? m - r : ROWS, depth,
                           a + r * w->a_row, w->a_row, w->a_col);
            t.a = scratch;
            t.a_row = 1;
            t.a_col = NAME(PANEL);
        }
        for (int64_t s = 0; s < n; s += NAME(COLUMNS)) {
            NAME(strip)(t, m, n - s < NAME(COLUMNS) ? n - s : NAME(COLUMNS), pack_a ? NAME(PANEL) * depth : 0);
            t.b += NAME(COLUMNS) * depth;
            t.c += NAME(COLUMNS);
            if (t.bias) t.bias += NAME(COLUMNS);
        }
    }
}

static void NAME(blocked)(const cr_product *w, void *scratch) {
    int64_t depth = NAME(depth)(w->k);
    for (int64_t j = 0; j < w->n; j += NAME(WIDTH)) {
        int64_t n = w->n - j < NAME(WIDTH) ? w->n - j : NAME(WIDTH);
        for (int64_t p = 0, k; p < w->k; p += k) {
            k = w->k - p < depth ? w->k - p : depth;
            const REAL *from = (const REAL *)w->b + p * w->b_row + j * w->b_col;
            REAL *b = scratch;
            for (int64_t s = 0; s < n; s += NAME(COLUMNS))
                NAME(pack)(b + s * k, NAME(COLUMNS), n - s < NAME(COLUMNS) ? n - s : NAME(COLUMNS), k, from + s * w->b_col, w->b_col, w->b_row);
            NAME(block)(w, j, n, p, k, b, b + NAME(strips)(n) * NAME(COLUMNS) * k);
        }
    }
}

/* ---- one row: memory-bound, every element of b is used once ---- */

/* c[j] = start[j] + sum of a[p] b[p, j], b's rows contiguous: four of them at a time over a stretch of c that stays in L1. */
static void NAME(row_of_rows)(const cr_product *w) {
    enum { STRETCH = 2048 };
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
                c[i] += (a0 * b[i] + a1 * b[i + step]) + (a2 * b[i + 2 * step] + a3 * b[i + 3 * step]);
        }
        for (; p < w->k; p++, b += step)
            for (int64_t i = 0; i < n; i++) c[i] += a[p * a_col] * b[i];
        if (bias) for (int64_t i = 0; i < n; i++) c[i] += bias[j + i];
    }
}

static inline REAL NAME(sum_lanes)(VEC v) {
    REAL s[LANES];
    memcpy(s, &v, sizeof s);
    for (int step = LANES / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) s[i] += s[i + step];
    return s[0];
}

/* `columns` dot products with the same contiguous a, b's columns contiguous. */
static inline __attribute__((always_inline)) void NAME(dots)(const int columns, REAL out[4], const REAL *a, const REAL *b, int64_t b_col, int64_t k) {
    VEC sum[4][2] = {{{0}}};
    int64_t p = 0;
    for (; p + 2 * LANES <= k; p += 2 * LANES) {
        const VEC x = *(const LOOSE *)(a + p), y = *(const LOOSE *)(a + p + LANES);
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++) {
            sum[j][0] += x * *(const LOOSE *)(b + j * b_col + p);
            sum[j][1] += y * *(const LOOSE *)(b + j * b_col + p + LANES);
        }
    }
    for (; p < k; p += LANES) {
        int64_t n = k - p < LANES ? k - p : LANES;
        const VEC x = NAME(part_load)(a + p, n);
#pragma GCC unroll 4
        for (int j = 0; j < columns; j++) sum[j][0] += x * NAME(part_load)(b + j * b_col + p, n);
    }
#pragma GCC unroll 4
    for (int j = 0; j < columns; j++) out[j] = NAME(sum_lanes)(sum[j][0] + sum[j][1]);
}

static void NAME(row_of_columns)(const cr_product *w) {
    const REAL *b = w->b, *bias = w->bias;
    REAL *c = w->c, dot[4];
    for (int64_t j = 0, n; j < w->n; j += n, b += n * w->b_col) {
        n = w->n - j < 4 ? 1 : 4;
        if (n == 4) NAME(dots)(4, dot, w->a, b, w->b_col, w->k);
        else NAME(dots)(1, dot, w->a, b, w->b_col, w->k);
        for (int64_t i = 0; i < n; i++) c[j + i] = (w->accumulate ? c[j + i] : 0) + (dot[i] + (bias ? bias[j + i] : 0));
    }
}

static void NAME(row)(const cr_product *w) {
    if (w->b_col == 1 && !(w->b_row == 1 && w->a_col == 1)) { NAME(row_of_rows)(w); return; }
    if (w->b_row == 1 && w->a_col == 1) { NAME(row_of_columns)(w); return; }
    const REAL *a = w->a, *b = w->b, *bias = w->bias;
    REAL *c = w->c;
    for (int64_t j = 0; j < w->n; j++) {
        REAL s = 0;
        for (int64_t p = 0; p < w->k; p++) s += a[p * w->a_col] * b[p * w->b_row + j * w->b_col];
        c[j] = (w->accumulate ? c[j] : 0) + (s + (bias ? bias[j] : 0));
    }
}
