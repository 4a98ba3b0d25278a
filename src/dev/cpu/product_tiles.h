/* product_tiles.h - the tiles of c that stay in registers, and the product of packed operands.
 * Included once for each element type, with
 *   REAL, VEC, LOOSE   the element of c; a vector of LANES; the same without alignment
 *   NAME(x)            x with the type's suffix
 *   PER                how many of k an element of the packed operands holds: 2 for pairs of bf16, which lie in 32 bits
 *   MULTIPLY_ADD(s, x, y)   s + x y, for pairs the sum of both products
 *   part_load, part_store   of the first n lanes (the others read as 0)
 *
 * The scheme is that of Goto and van de Geijn (ACM TOMS 34, 2008): a tile of c, ROWS x COLUMNS, stays
 * in registers while a column of a and a row of b stream past; b is packed into strips of COLUMNS that
 * stay in L1, a into panels of ROWS that stay in L2. Limited by flops: ROWS * VECTORS multiply-adds
 * for ROWS + VECTORS loads. */

enum {
    NAME(COLUMNS) = VECTORS * LANES,
    /* a packed panel of a is this wide, for whole vectors */
    NAME(PANEL) = (ROWS + LANES - 1) / LANES * LANES
};

/* One tile of c.  part: the last vector has only `last` lanes. */
typedef struct NAME(tile) {
    int64_t k;
    const REAL *a; int64_t a_row, a_col;
    const REAL *b; int64_t b_row;
    REAL *c; int64_t c_row;
    const REAL *bias;
    bool accumulate;
    int64_t last;
    /* lines in pairs, a tile's width apart: c's own, or what next[2] names */
    const char *fetch, *fetch_end; int64_t fetch_step;
    /* bytes: the sources of prefetches, alternating (cr_ahead) */
    const char *ahead[2]; int64_t ahead_step[2];
} NAME(tile);

static ALWAYS_INLINE VEC NAME(load)(const REAL *p, bool part, int64_t last) {
    if (part) return NAME(part_load)(p, last);
    return *(const LOOSE *)p;
}

/* rows, vectors and part are constants at every call of these: the loops unroll and sum lies in registers. */
static ALWAYS_INLINE void NAME(clear)(const int rows, const int vectors, VEC sum[ROWS][MOST_VECTORS]) {
CR_UNROLL(16)
    for (int i = 0; i < rows; i++)
CR_UNROLL(4)
        for (int j = 0; j < vectors; j++) sum[i][j] = (VEC){0};
}

static ALWAYS_INLINE void NAME(step)(const int rows, const int vectors, VEC sum[ROWS][MOST_VECTORS], const REAL *a,
                                     int64_t a_row, const VEC row[MOST_VECTORS]) {
    CR_UNROLL(16)
    for (int i = 0; i < rows; i++) {
        const VEC x = a[i * a_row] - (VEC){0};
CR_UNROLL(4)
        for (int j = 0; j < vectors; j++) sum[i][j] = MULTIPLY_ADD(sum[i][j], x, row[j]);
    }
}

static ALWAYS_INLINE void NAME(finish)(const int rows, const int vectors, const bool part, const NAME(tile) * t,
                                       VEC sum[ROWS][MOST_VECTORS]) {
    const int64_t last = t->last;
    VEC row[MOST_VECTORS];
    if (t->bias) {
CR_UNROLL(4)
        for (int j = 0; j < vectors; j++) row[j] = NAME(load)(t->bias + j * LANES, part && j == vectors - 1, last);
CR_UNROLL(16)
        for (int i = 0; i < rows; i++)
CR_UNROLL(4)
            for (int j = 0; j < vectors; j++) sum[i][j] += row[j];
    }
    REAL *c = t->c;
CR_UNROLL(16)
    for (int i = 0; i < rows; i++, c += t->c_row)
CR_UNROLL(4)
        for (int j = 0; j < vectors; j++) {
            bool cut = part && j == vectors - 1;
            if (t->accumulate) sum[i][j] += NAME(load)(c + j * LANES, cut, last);
            if (cut) NAME(part_store)(c + j * LANES, sum[i][j], last);
            else *(LOOSE *)(c + j * LANES) = sum[i][j];
        }
}

#define TILE(how, r, v, part) static void NAME(how##_##r##_##v##_##part)(const NAME(tile) *t) { NAME(how)(r, v, part, \
    t); }
#define TILES_OF(how, r) TILE(how, r, 1, 0) TILE(how, r, 2, 0) TILE(how, r, 1, 1) TILE(how, r, 2, 1)
#define NAMES_OF(how, r) { NAME(how##_##r##_1_0), NAME(how##_##r##_2_0), NAME(how##_##r##_1_1), NAME(how##_##r##_2_1) }
#if ROWS > 6
#define ALL_TILES(how)                                                                                              \
    TILES_OF(how, 1) TILES_OF(how, 2) TILES_OF(how, 3) TILES_OF(how, 4) TILES_OF(how, 5) TILES_OF(how, 6) \
        TILES_OF(how, 7) TILES_OF(how, 8) \
    TILES_OF(how, 9) TILES_OF(how, 10) TILES_OF(how, 11) TILES_OF(how, 12) TILES_OF(how, 13) TILES_OF(how, 14)      \
    static const NAME(tile_fn) NAME(how##_tiles)[ROWS][4] = {                                                       \
        NAMES_OF(how, 1), NAMES_OF(how, 2), NAMES_OF(how, 3), NAMES_OF(how, 4), NAMES_OF(how, 5), NAMES_OF(how, 6), \
            NAMES_OF(how, 7), NAMES_OF(how, 8), \
        NAMES_OF(how, 9), NAMES_OF(how, 10), NAMES_OF(how, 11), NAMES_OF(how, 12), NAMES_OF(how, 13), NAMES_OF(how, \
            14) \
    };
#else
#define ALL_TILES(how)                                                                                              \
    TILES_OF(how, 1) TILES_OF(how, 2) TILES_OF(how, 3) TILES_OF(how, 4) TILES_OF(how, 5) TILES_OF(how, 6)           \
    static const NAME(tile_fn) NAME(how##_tiles)[ROWS][4] = {                                                       \
        NAMES_OF(how, 1), NAMES_OF(how, 2), NAMES_OF(how, 3), NAMES_OF(how, 4), NAMES_OF(how, 5), NAMES_OF(how, 6)  \
    };
#endif
/* Three vectors of c wide, for what is not a multiple of two: fewer rows fit the registers. */
#define WIDE_OF(how, r) TILE(how, r, 3, 0) TILE(how, r, 3, 1)
#define WIDE_NAMES(how, r) { NAME(how##_##r##_3_0), NAME(how##_##r##_3_1) }
#if WIDE_ROWS > 4
#define WIDE_TILES(how)                                                                                             \
    WIDE_OF(how, 1) WIDE_OF(how, 2) WIDE_OF(how, 3) WIDE_OF(how, 4) WIDE_OF(how, 5) WIDE_OF(how, 6) WIDE_OF(how, 7) \
        WIDE_OF(how, 8) WIDE_OF(how, 9) \
    static const NAME(tile_fn) NAME(how##_wide)[WIDE_ROWS][2] = {                                                   \
        WIDE_NAMES(how, 1), WIDE_NAMES(how, 2), WIDE_NAMES(how, 3), WIDE_NAMES(how, 4), WIDE_NAMES(how, 5), \
            WIDE_NAMES(how, 6), WIDE_NAMES(how, 7), \
        WIDE_NAMES(how, 8), WIDE_NAMES(how, 9)                                                                      \
    };
#else
#define WIDE_TILES(how)                                                                                             \
    WIDE_OF(how, 1) WIDE_OF(how, 2) WIDE_OF(how, 3) WIDE_OF(how, 4)                                                 \
    static const NAME(tile_fn) NAME(how##_wide)[WIDE_ROWS][2] = {                                                   \
        WIDE_NAMES(how, 1), WIDE_NAMES(how, 2), WIDE_NAMES(how, 3), WIDE_NAMES(how, 4)                              \
    };
#endif
typedef void (*NAME(tile_fn))(const NAME(tile) *t);

/* ---- both operands packed ---- */

enum {
    NAME(SLOT) = 4 / PER,                           /* steps of k from prefetch to prefetch: a burst of them would
                                                     * hold up the loads */
    NAME(SOON) = 64                                 /* steps: so far ahead a is fetched, which comes from L2 or
                                                     * beyond */
};

static ALWAYS_INLINE void NAME(packed_step)(const int rows, const int vectors, VEC sum[ROWS][MOST_VECTORS],
                                            const REAL *a, const REAL *b) {
    VEC row[MOST_VECTORS];
    __builtin_prefetch(a + NAME(PANEL) * NAME(SOON), 0, 3);
CR_UNROLL(4)
    for (int j = 0; j < vectors; j++) row[j] = *(const VEC *)(b + j * LANES);
    NAME(step)(rows, vectors, sum, a, 1, row);
}

static TILE_INLINE void NAME(packed)(const int rows, const int vectors, const bool part, const NAME(tile) *t) {
    VEC sum[ROWS][MOST_VECTORS];
    const REAL *a = t->a, *b = t->b;
    const char *ahead = t->ahead[0], *ahead_too = t->ahead[1], *c = t->fetch, *c_too = c + V_BYTES * VECTORS - 1, *was;
    int64_t step = t->ahead_step[0], step_too = t->ahead_step[1], c_step = t->fetch_step, step_was;
    const char *c_end = t->fetch_end;
    NAME(clear)(rows, vectors, sum);
    for (int64_t slots = t->k / NAME(SLOT); slots > 0; slots--) {
        fetch_to_write(c);
        __builtin_prefetch(ahead, 0, 3);
        was = c; c = c_too; c_too = was < c_end ? was + c_step : was;
        was = ahead; ahead = ahead_too; ahead_too = was + step;
        step_was = step; step = step_too; step_too = step_was;
        for (int i = 0; i < NAME(SLOT); i++, a += NAME(PANEL), b += NAME(COLUMNS))
            NAME(packed_step)(rows, vectors, sum, a, b);
    }
    for (int64_t p = t->k % NAME(SLOT); p > 0; p--, a += NAME(PANEL), b += NAME(COLUMNS))
        NAME(packed_step)(rows, vectors, sum, a, b);
    NAME(finish)(rows, vectors, part, t, sum);
}
ALL_TILES(packed)

/* The panels of a against one strip of b. */
static void NAME(panels)(const cr_product *p, const cr_ahead next[3]) {
    int64_t k = (p->k + PER - 1) / PER, vectors = (p->n + LANES - 1) / LANES;
    bool part = p->n % LANES != 0;
    NAME(tile)
    t = {.k = k,
         .a = p->a,
         .b = p->b,
         .c = p->c,
         .c_row = p->c_row,
         .bias = p->bias,
         .accumulate = p->accumulate,
         .last = p->n - (vectors - 1) * LANES};
    for (int64_t i = 0; i < p->m; i += ROWS) {
        int64_t rows = p->m - i < ROWS ? p->m - i : ROWS;
        for (int s = 0; s < 2; s++) {               /* nothing left: what is in L1 anyway */
            bool some = i / ROWS < next[s].panels;
            t.ahead[s] = some ? next[s].at + i / ROWS * next[s].panel : p->b;
            t.ahead_step[s] = some ? next[s].step : 0;
        }
        bool other = i / ROWS < next[2].panels;
        t.fetch = other ? next[2].at + i / ROWS * next[2].panel : (const char *)t.c;
        t.fetch_step = other ? V_BYTES * VECTORS : p->c_row * (int64_t)sizeof(REAL);
        t.fetch_end = t.fetch + (other ? next[2].step - t.fetch_step : (rows - 1) * t.fetch_step);
        NAME(packed_tiles)[rows - 1][vectors - 1 + 2 * part](&t);
        t.a += NAME(PANEL) * k;
        t.c += rows * t.c_row;
    }
}

#include "product_transpose.h"
