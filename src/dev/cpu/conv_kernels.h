/* conv_kernels.h - the kernels of conv.h for one element type, as product_tiles.h; MASK: a vector of integers BIT. */
#include "product_transpose.h"

/* A vector of neighbouring positions: they continue in the next row of outputs, which lies elsewhere. */
typedef struct NAME(run) {
    int pieces;
    int64_t at[LANES];                              /* of lane 0 of each piece */
    MASK lanes[LANES];                              /* of each piece; no piece has the lanes behind the last position */
} NAME(run);

static NAME(run) NAME(run_at)(const cr_conv_rows *r, int64_t first, int64_t n) {
    NAME(run) v = {.pieces = 0};
    int64_t row = first / r->columns, column = first - row * r->columns;
    for (int64_t lane = 0; lane < LANES && lane < n; v.pieces++) {
        const int64_t end = cr_imin(cr_imin(LANES, n), lane + r->columns - column);
        v.at[v.pieces] = row * r->step + column - lane;
        for (int i = 0; i < LANES; i++) v.lanes[v.pieces][i] = i >= lane && i < end ? -1 : 0;
        lane = end;
        row++;
        column = 0;
    }
    return v;
}

static ALWAYS_INLINE VEC NAME(masked)(const REAL *p, MASK m) { return (VEC)((MASK)*(const LOOSE *)p & m); }

static ALWAYS_INLINE VEC NAME(gathered)(const REAL *from, const NAME(run) * v) {
    VEC x = (VEC){0};
    for (int i = 0; i < v->pieces; i++) x = (VEC)((MASK)x | (MASK)NAME(masked)(from + v->at[i], v->lanes[i]));
    return x;
}

static void NAME(pack)(void *into, const void *buffer, const int64_t *offset, int64_t taps, const cr_conv_rows *r,
                       int64_t first, int64_t n, bool ones) {
    REAL *to = into;
    NAME(run) run[VECTORS];
    int most = 0;
    for (int j = 0; j < VECTORS; j++) {
        run[j] = NAME(run_at)(r, first + j * LANES, n - j * LANES);
        most = run[j].pieces > most ? run[j].pieces : most;
    }
    const REAL *const b = buffer;
    const int64_t a0 = run[0].at[0], a1 = run[1].at[0];
    if (n == VECTORS * LANES && run[0].pieces == 1 && run[1].pieces == 1) {
        for (int64_t k = 0; k < taps; k++, to += VECTORS * LANES) {
            *(VEC *)to = *(const LOOSE *)(b + offset[k] + a0);
            *(VEC *)(to + LANES) = *(const LOOSE *)(b + offset[k] + a1);
        }
    } else if (most <= 2 && n > LANES) {
        const int last0 = run[0].pieces - 1, last1 = run[1].pieces - 1;
        const int64_t b0 = run[0].at[last0], b1 = run[1].at[last1];
        const MASK m0 = run[0].lanes[0], m1 = run[1].lanes[0], l0 = run[0].lanes[last0], l1 = run[1].lanes[last1];
        for (int64_t k = 0; k < taps; k++, to += VECTORS * LANES) {
            const REAL *from = b + offset[k];
            *(VEC *)to = (VEC)((MASK)NAME(masked)(from + a0, m0) | (MASK)NAME(masked)(from + b0, l0));
            *(VEC *)(to + LANES) = (VEC)((MASK)NAME(masked)(from + a1, m1) | (MASK)NAME(masked)(from + b1, l1));
        }
    } else {
        for (int64_t k = 0; k < taps; k++, to += VECTORS * LANES)
            for (int j = 0; j < VECTORS; j++) *(VEC *)(to + j * LANES) = NAME(gathered)(b + offset[k], &run[j]);
    }
    if (ones) for (int j = 0; j < VECTORS * LANES; j++) to[j] = 1;
}

static void NAME(pack_across)(void *into, const void *buffer, const int64_t *offset, int64_t taps,
                              const cr_conv_rows *r, int64_t first, int64_t n) {
    enum { WIDTH = VECTORS * LANES };
    REAL *to = into;
    for (int64_t p = 0; p < n; p += LANES, to += WIDTH * LANES) {
        const NAME(run) run = NAME(run_at)(r, first + p, n - p);
        const int64_t left = cr_imin(LANES, n - p);
        for (int64_t j = 0; j < WIDTH; j += LANES) {
            VEC v[LANES];
            if (run.pieces == 1 && left == LANES && taps - j >= LANES) {
                const REAL *from = (const REAL *)buffer + run.at[0];
CR_UNROLL(16)
                for (int i = 0; i < LANES; i++) v[i] = *(const LOOSE *)(from + offset[j + i]);
            } else {
                for (int i = 0; i < LANES; i++)
                    v[i] = j + i < taps ? NAME(gathered)((const REAL *)buffer + offset[j + i], &run) : (VEC){0};
            }
            NAME(transpose)(v);
CR_UNROLL(16)
            for (int i = 0; i < LANES; i++)
                if (i < left) *(VEC *)(to + i * WIDTH + j) = v[i];
        }
    }
}

/* AT_ONCE vectors of outputs, from different places: so many additions hide the latency of one. */
enum { NAME(AT_ONCE) = 8 };
static void NAME(sum_taps)(VEC y[NAME(AT_ONCE)], const REAL *const from[NAME(AT_ONCE)], const int64_t *offset,
                           const REAL *w, int64_t taps, REAL bias) {
    VEC sum[NAME(AT_ONCE)];
    const REAL *at[NAME(AT_ONCE)];
CR_UNROLL(8)
    for (int j = 0; j < NAME(AT_ONCE); j++) sum[j] = bias - (VEC){0}, at[j] = from[j];
    for (int64_t k = 0; k < taps; k++) {
        const VEC x = w[k] - (VEC){0};
        const int64_t o = offset[k];
CR_UNROLL(8)
        for (int j = 0; j < NAME(AT_ONCE); j++) sum[j] += x * *(const LOOSE *)(at[j] + o);
    }
CR_UNROLL(8)
    for (int j = 0; j < NAME(AT_ONCE); j++) y[j] = sum[j];
}

/* The last vector of a row may reach beyond it: those lanes are not stored. */
static void NAME(rows)(void *out, const void *buffer, const int64_t *offset, const void *w, int64_t taps,
                       const cr_conv_rows *r, int64_t rows, double bias) {
    const int64_t vectors = (r->columns + LANES - 1) / LANES, all = rows * vectors;
    int64_t row = 0, column = 0;
    for (int64_t i = 0; i < all; i += NAME(AT_ONCE)) {
        const int n = (int)cr_imin(NAME(AT_ONCE), all - i);
        const REAL *from[NAME(AT_ONCE)];
        REAL *to[NAME(AT_ONCE)];
        int64_t lanes[NAME(AT_ONCE)];
        VEC y[NAME(AT_ONCE)];
        for (int j = 0; j < NAME(AT_ONCE); j++) {
            if (j >= n) { from[j] = from[0]; continue; }
            from[j] = (const REAL *)buffer + row * r->step + column;
            to[j] = (REAL *)out + row * r->columns + column;
            lanes[j] = cr_imin(LANES, r->columns - column);
            column += LANES;
            if (column >= r->columns) column = 0, row++;
        }
        NAME(sum_taps)(y, from, offset, w, taps, (REAL)bias);
        for (int j = 0; j < n; j++) {
            if (lanes[j] == LANES) *(LOOSE *)to[j] = y[j];
            else NAME(part_store)(to[j], y[j], lanes[j]);
        }
    }
}

/* `taps` sums, in lanes. */
static ALWAYS_INLINE void NAME(row_sums)(const int taps, REAL *dw, const REAL *g, const REAL *buffer,
                                         const int64_t *offset, const cr_conv_rows *r, int64_t rows) {
    VEC sum[8];
CR_UNROLL(8)
    for (int t = 0; t < taps; t++) sum[t] = (VEC){0};
    for (int64_t row = 0; row < rows; row++, g += r->columns) {
        const REAL *from = buffer + row * r->step;
        int64_t p = 0;
        for (; p + LANES <= r->columns; p += LANES) {
            const VEC x = *(const LOOSE *)(g + p);
CR_UNROLL(8)
            for (int t = 0; t < taps; t++) sum[t] += x * *(const LOOSE *)(from + offset[t] + p);
        }
        if (p < r->columns) {
            const VEC x = NAME(part_load)(g + p, r->columns - p);
CR_UNROLL(8)
            for (int t = 0; t < taps; t++) sum[t] += x * NAME(part_load)(from + offset[t] + p, r->columns - p);
        }
    }
    for (int t = 0; t < taps; t++) {
        REAL s = 0;
        for (int i = 0; i < LANES; i++) s += sum[t][i];
        dw[t] += s;
    }
}

static void NAME(row_weights)(void *dw, const void *g, const void *buffer, const int64_t *offset, int64_t taps,
                              const cr_conv_rows *r, int64_t rows) {
    REAL *d = dw;
    int64_t t = 0;
    for (; taps - t >= 8; t += 8) NAME(row_sums)(8, d + t, g, buffer, offset + t, r, rows);
    for (; taps - t >= 3; t += 3) NAME(row_sums)(3, d + t, g, buffer, offset + t, r, rows);
    for (; t < taps; t++) NAME(row_sums)(1, d + t, g, buffer, offset + t, r, rows);
}
