/* conv_kernels.h - the kernels of conv.h for one element type, as product_tiles.h; MASK: a vector of integers BIT. */
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
        v.at[v.pieces] = row / r->per * r->skip + row % r->per * r->step + column - lane;
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

/* A tile of dw in registers: the elements under each tap are read one by one where they are, and never packed. */
static ALWAYS_INLINE void NAME(weight_tile)(const int taps, REAL *dw, int64_t dw_row, const REAL *g, const REAL *buffer,
                                            const int64_t *offset, const cr_conv_rows *r, int64_t rows) {
    VEC sum[6][VECTORS];
CR_UNROLL(6)
    for (int t = 0; t < taps; t++) sum[t][0] = sum[t][1] = (VEC){0};
    for (int64_t row = 0; row < rows; row++, buffer += r->step) {
        const REAL *at[6];
CR_UNROLL(6)
        for (int t = 0; t < taps; t++) at[t] = buffer + offset[t];
        for (int64_t c = 0; c < r->columns; c++, g += VECTORS * LANES) {
            const VEC g0 = *(const VEC *)g, g1 = *(const VEC *)(g + LANES);
CR_UNROLL(6)
            for (int t = 0; t < taps; t++) {
                const VEC x = at[t][c] - (VEC){0};
                sum[t][0] = NAME(fma)(x, g0, sum[t][0]);
                sum[t][1] = NAME(fma)(x, g1, sum[t][1]);
            }
        }
    }
CR_UNROLL(6)
    for (int t = 0; t < taps; t++) {
        *(VEC *)(dw + t * dw_row) += sum[t][0];
        *(VEC *)(dw + t * dw_row + LANES) += sum[t][1];
    }
}

static void NAME(weights)(void *into, int64_t dw_row, const void *g, const void *buffer, const int64_t *offset,
                          int64_t taps, const cr_conv_rows *r, int64_t rows) {
    REAL *dw = into;
    int64_t t = 0;
    for (; taps - t >= 6 && taps - t != 7 && taps - t != 8; t += 6)
        NAME(weight_tile)(6, dw + t * dw_row, dw_row, g, buffer, offset + t, r, rows);
    for (; taps - t >= 4; t += 4) NAME(weight_tile)(4, dw + t * dw_row, dw_row, g, buffer, offset + t, r, rows);
    for (; t < taps; t++) NAME(weight_tile)(1, dw + t * dw_row, dw_row, g, buffer, offset + t, r, rows);
}

/* Vectors of outputs of one channel; lanes: so many are stored, because the last one of a row may reach beyond it. */
enum { NAME(MOST_SPOTS) = 8, NAME(MOST_ROWS) = CR_ISA == 4 ? 8 : 4 };
typedef struct NAME(spots) {
    const REAL *from[NAME(MOST_SPOTS)];
    int64_t to[NAME(MOST_SPOTS)], lanes[NAME(MOST_SPOTS)];
} NAME(spots);

/* Sums in registers: `rows` channels of `n` spots, so many that additions hide the latency of one. */
static ALWAYS_INLINE void NAME(sum_taps)(const int rows, const int n, REAL *y, int64_t y_row, const NAME(spots) * s,
                                         const int64_t *offset, const REAL *w, int64_t w_row, int64_t taps,
                                         bool bias) {
    VEC sum[NAME(MOST_ROWS)][NAME(MOST_SPOTS)], x[NAME(MOST_SPOTS)];
    const REAL *at[NAME(MOST_SPOTS)], *of_row[NAME(MOST_ROWS)];
CR_UNROLL(8)
    for (int j = 0; j < n; j++) at[j] = s->from[j];
CR_UNROLL(8)
    for (int i = 0; i < rows; i++) {
        of_row[i] = w + i * w_row;
CR_UNROLL(8)
        for (int j = 0; j < n; j++) sum[i][j] = (bias ? of_row[i][taps] : 0) - (VEC){0};
    }
    for (int64_t k = 0; k < taps; k++) {
        const int64_t o = offset[k];
CR_UNROLL(8)
        for (int j = 0; j < n; j++) x[j] = *(const LOOSE *)(at[j] + o);
CR_UNROLL(8)
        for (int i = 0; i < rows; i++) {
            const VEC each = of_row[i][k] - (VEC){0};
CR_UNROLL(8)
            for (int j = 0; j < n; j++) sum[i][j] = NAME(fma)(each, x[j], sum[i][j]);
        }
    }
CR_UNROLL(8)
    for (int i = 0; i < rows; i++, y += y_row)
CR_UNROLL(8)
        for (int j = 0; j < n; j++) {
            if (s->lanes[j] == LANES) *(LOOSE *)(y + s->to[j]) = sum[i][j];
            else NAME(part_store)(y + s->to[j], sum[i][j], s->lanes[j]);
        }
}

static ALWAYS_INLINE void NAME(few_rows)(const int rows, const int n, REAL *y, int64_t y_row, const REAL *buffer,
                                         const int64_t *offset, const REAL *w, int64_t w_row, int64_t taps,
                                         const cr_conv_rows *r, int64_t lines, bool bias) {
    const int64_t all = lines * ((r->columns + LANES - 1) / LANES);
    int64_t line = 0, column = 0;
    for (int64_t i = 0; i < all; i += n) {
        NAME(spots) s = {0};
        for (int j = 0; j < n; j++) {
            if (i + j >= all) { s.from[j] = s.from[0]; continue; }
            s.from[j] = buffer + line * r->step + column;
            s.to[j] = line * r->columns + column;
            s.lanes[j] = cr_imin(LANES, r->columns - column);
            column += LANES;
            if (column >= r->columns) column = 0, line++;
        }
        NAME(sum_taps)(rows, n, y, y_row, &s, offset, w, w_row, taps, bias);
    }
}

static void NAME(rows)(void *out, int64_t y_row, int64_t channels, const void *buffer, const int64_t *offset,
                       const void *weights, int64_t w_row, int64_t taps, const cr_conv_rows *r, int64_t lines,
                       bool bias) {
    enum { WIDE = CR_ISA == 4 };                    /* registers: 32, or 16 */
    REAL *y = out;
    const REAL *w = weights;
#define FEW(rows, n)                                                                                             \
    for (; channels >= (rows); channels -= (rows), y += (rows) * y_row, w += (rows) * w_row)                     \
        NAME(few_rows)(rows, n, y, y_row, buffer, offset, w, w_row, taps, r, lines, bias)
#if CR_ISA == 4
    FEW(8, 2);
#endif
    FEW(4, WIDE ? 4 : 2);
    FEW(3, WIDE ? 4 : 3);
    FEW(2, 4);
    FEW(1, 8);
#undef FEW
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
            for (int t = 0; t < taps; t++) sum[t] = NAME(fma)(x, *(const LOOSE *)(from + offset[t] + p), sum[t]);
        }
        if (p < r->columns) {
            const VEC x = NAME(part_load)(g + p, r->columns - p);
CR_UNROLL(8)
            for (int t = 0; t < taps; t++)
                sum[t] = NAME(fma)(x, NAME(part_load)(from + offset[t] + p, r->columns - p), sum[t]);
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

static void NAME(every_second)(void *into, const void *source, int64_t n) {
    REAL *to = into;
    const REAL *from = source;
    MASK even;
    for (int i = 0; i < LANES; i++) even[i] = 2 * i;
    int64_t i = 0;
    for (; i + LANES < n; i += LANES) {
        const VEC a = *(const LOOSE *)(from + 2 * i), b = *(const LOOSE *)(from + 2 * i + LANES);
        VEC r;
        SHUFFLE(r, LANES, a, b, even);
        *(LOOSE *)(to + i) = r;
    }
    for (; i < n; i++) to[i] = from[2 * i];
}

static void NAME(into_every_second)(void *into, const void *source, int64_t n) {
    REAL *to = into;
    const REAL *from = source;
    MASK low, high;                                 /* lanes of `from`, then the odd ones of `to` */
    for (int i = 0; i < LANES; i++) {
        low[i] = i % 2 ? LANES + i : i / 2;
        high[i] = i % 2 ? LANES + i : (LANES + i) / 2;
    }
    int64_t i = 0;
    for (; i + LANES < n; i += LANES) {
        const VEC x = *(const LOOSE *)(from + i), a = *(const LOOSE *)(to + 2 * i),
                  b = *(const LOOSE *)(to + 2 * i + LANES);
        VEC r, s;
        SHUFFLE(r, LANES, x, a, low);
        SHUFFLE(s, LANES, x, b, high);
        *(LOOSE *)(to + 2 * i) = r;
        *(LOOSE *)(to + 2 * i + LANES) = s;
    }
    for (; i < n; i++) to[2 * i] = from[i];
}
