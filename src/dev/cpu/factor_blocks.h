/* factor_blocks.h - Cholesky and LU factors and triangular solves in vectors, of a panel of one matrix, or of
 * CR_FACTOR_LANES small matrices side by side as factor_lanes.h has them.  factor_isa.c includes this file for each
 * element type T, with vectors VEC of LANES numbers.
 *
 * An element is a - l0 u0 - l1 u1 - ..., in this order, by v_fnma everywhere: a matrix has the same bits alone and in a
 * batch, in panels and in whole. */
#define AT(i, j, columns) (((i) * (columns) + (j)) * CR_FACTOR_LANES)

static ALWAYS_INLINE VEC NAME(load)(const T *p) { return *(const VEC_AT *)p; }
static ALWAYS_INLINE void NAME(store)(T *p, VEC v) { *(VEC_AT *)p = v; }

/* to[c to_row + r] = from[r from_row + c], in squares of vectors */
static void NAME(transpose_matrix)(T *restrict to, int64_t to_row, const T *restrict from, int64_t from_row,
                                   int64_t rows, int64_t columns) {
    const int64_t high = rows / LANES * LANES, wide = columns / LANES * LANES;
    for (int64_t r = 0; r < high; r += LANES)
        for (int64_t c = 0; c < wide; c += LANES) {
            VEC v[LANES];
            CR_UNROLL(16)
            for (int i = 0; i < LANES; i++) v[i] = NAME(load)(from + (r + i) * from_row + c);
            NAME(transpose)(v);
            CR_UNROLL(16)
            for (int i = 0; i < LANES; i++) NAME(store)(to + (c + i) * to_row + r, v[i]);
        }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < high ? wide : 0; c < columns; c++) to[c * to_row + r] = from[r * from_row + c];
}

/* ---- panels: column j of rows at a + j row; at least a vector of room follows each column */

/* y[i] -= sum over k < n of a[k row + i] u[k step], i < rows and the rest of the last vector */
static void NAME(subtract)(T *y, const T *a, int64_t row, const T *u, int64_t step, int64_t n, int64_t rows) {
    enum { MANY = 8 };
    int64_t i = 0;
    for (; n && i + (MANY - 1) * LANES < rows; i += MANY * LANES) {
        VEC sum[MANY];
        CR_UNROLL(8)
        for (int v = 0; v < MANY; v++) sum[v] = NAME(load)(y + i + v * LANES);
        for (int64_t k = 0; k < n; k++) {
            const VEC factor = u[k * step] - (VEC){0};
            CR_UNROLL(8)
            for (int v = 0; v < MANY; v++) sum[v] = FNMA(NAME(load)(a + k * row + i + v * LANES), factor, sum[v]);
        }
        CR_UNROLL(8)
        for (int v = 0; v < MANY; v++) NAME(store)(y + i + v * LANES, sum[v]);
    }
    for (; n && i < rows; i += LANES) {
        VEC sum = NAME(load)(y + i);
        for (int64_t k = 0; k < n; k++)
            sum = FNMA(NAME(load)(a + k * row + i), u[k * step] - (VEC){0}, sum);
        NAME(store)(y + i, sum);
    }
}

static ALWAYS_INLINE void NAME(divide)(T *y, T by, int64_t rows) {
    for (int64_t i = 0; i < rows; i += LANES) NAME(store)(y + i, NAME(load)(y + i) / (by - (VEC){0}));
}

/* L below, and on, the diagonal */
static void NAME(cholesky_panel)(T *a, int64_t row, int64_t rows, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        T *y = a + j * row + j;
        NAME(subtract)(y, a + j, row, a + j, row, j, rows - j);
        *y = *y > 0 ? (T)sqrt((double)*y) : (T)NAN;
        NAME(divide)(y + 1, *y, rows - j - 1);
    }
}

/* The first of the largest |y[i]|, i >= 0; a NaN counts only as y[0]. */
static int64_t NAME(largest_of)(const T *y, int64_t n) {
    VEC most = {0};
    int64_t i = 0;
    T value = 0;
    for (; i + LANES <= n; i += LANES) most = MOST(ABS(NAME(load)(y + i)), most);
    for (int l = 0; l < LANES; l++) value = most[l] > value ? most[l] : value;
    for (; i < n; i++) value = y[i] > value ? y[i] : -y[i] > value ? -y[i] : value;
    if (!(value > 0) || isnan(y[0])) return 0;
    for (i = 0; y[i] != value && y[i] != -value;) i++;
    return i;
}

/* L below the diagonal, U; row j was exchanged with best[j] */
static void NAME(lu_panel)(T *a, int64_t row, int64_t rows, int64_t n, int32_t *best) {
    T top[CR_FACTOR_PANEL + LANES];
    for (int64_t j = 0; j < n; j++) {
        T *y = a + j * row;
        memcpy(top, y, (size_t)j * sizeof(T));
        for (int64_t k = 0; k + 1 < j; k++)
            NAME(subtract)(top + k + 1, a + k * row + k + 1, row, top + k, 1, 1, j - k - 1);
        memcpy(y, top, (size_t)j * sizeof(T));
        NAME(subtract)(y + j, a + j, row, y, 1, j, rows - j);
        const int64_t at = j + NAME(largest_of)(y + j, rows - j);
        best[j] = (int32_t)at;
        for (int64_t k = 0; at != j && k < n; k++) {
            const T v = a[k * row + j];
            a[k * row + j] = a[k * row + at];
            a[k * row + at] = v;
        }
        if (y[j] != 0) NAME(divide)(y + j + 1, y[j], rows - j - 1);
    }
}

/* ---- triangular systems: x (n, columns) holds b and becomes a^-1 b */

static ALWAYS_INLINE VEC NAME(coefficient)(const T *p, int64_t step) {
    return step > 1 ? NAME(load)(p) : *p - (VEC){0};
}

/* `wide` columns, `beside` numbers apart; a_step: from one element of a to the next, vectors unless it is 1 */
static ALWAYS_INLINE void NAME(solve_wide)(T *x, int64_t x_row, int64_t beside, const T *a, int64_t a_row,
                                           int64_t a_step, int64_t n, bool upper, bool unit, const int wide) {
    for (int64_t step = 0; step < n; step++) {
        const int64_t i = upper ? n - 1 - step : step;
        VEC sum[8];
        CR_UNROLL(8)
        for (int c = 0; c < wide; c++) sum[c] = NAME(load)(x + i * x_row + c * beside);
        for (int64_t before = 0; before < step; before++) {
            const int64_t k = upper ? n - 1 - before : before;
            const VEC factor = NAME(coefficient)(a + i * a_row + k * a_step, a_step);
            CR_UNROLL(8)
            for (int c = 0; c < wide; c++) sum[c] = FNMA(factor, NAME(load)(x + k * x_row + c * beside), sum[c]);
        }
        const VEC pivot = NAME(coefficient)(a + i * a_row + i * a_step, a_step);
        CR_UNROLL(8)
        for (int c = 0; c < wide && !unit; c++) sum[c] /= pivot;
        CR_UNROLL(8)
        for (int c = 0; c < wide; c++) NAME(store)(x + i * x_row + c * beside, sum[c]);
    }
}

/* one matrix of n <= CR_FACTOR_PANEL rows */
static void NAME(solve_strip)(T *x, int64_t x_row, const T *a, int64_t a_row, int64_t n, int64_t columns, bool upper,
                              bool unit) {
    int64_t c = 0;
    for (; c + 8 * LANES <= columns; c += 8 * LANES)
        NAME(solve_wide)(x + c, x_row, LANES, a, a_row, 1, n, upper, unit, 8);
    for (; c < columns; c += LANES) {
        const int64_t some = columns - c < LANES ? columns - c : LANES;
        T room[CR_FACTOR_PANEL * LANES] = {0};
        for (int64_t i = 0; i < n; i++) memcpy(room + i * LANES, x + i * x_row + c, (size_t)some * sizeof(T));
        NAME(solve_wide)(room, LANES, LANES, a, a_row, 1, n, upper, unit, 1);
        for (int64_t i = 0; i < n; i++) memcpy(x + i * x_row + c, room + i * LANES, (size_t)some * sizeof(T));
    }
}

/* ---- small matrices side by side */
static void NAME(substitute)(T *x, const T *a, int64_t n, int64_t columns, bool upper, bool unit) {
    enum { STEP = CR_FACTOR_LANES };
    for (int64_t l = 0; l < STEP; l += LANES) {
        int64_t c = 0;
        for (; c + 8 <= columns; c += 8)
            NAME(solve_wide)(x + c * STEP + l, columns * STEP, STEP, a + l, n * STEP, STEP, n, upper, unit, 8);
        for (; c < columns; c++)
            NAME(solve_wide)(x + c * STEP + l, columns * STEP, STEP, a + l, n * STEP, STEP, n, upper, unit, 1);
    }
}

/* a (n, n) = L L^T: the lower triangle becomes L, the other one 0 */
static void NAME(cholesky)(T *a, int64_t n) {
    for (int64_t l = 0; l < CR_FACTOR_LANES; l += LANES, a += LANES)
        for (int64_t j = 0; j < n; j++) {
            VEC pivot = {0};
            for (int64_t i = j; i < n; i++) {
                VEC sum = NAME(load)(a + AT(i, j, n));
                for (int64_t k = 0; k < j; k++)
                    sum = FNMA(NAME(load)(a + AT(i, k, n)), NAME(load)(a + AT(j, k, n)), sum);
                if (i > j) sum /= pivot;
                else pivot = sum = BLEND(GREATER(sum, (VEC){0}), SQRT(sum), (T)NAN - (VEC){0});
                NAME(store)(a + AT(i, j, n), sum);
            }
            for (int64_t k = j + 1; k < n; k++) NAME(store)(a + AT(j, k, n), (VEC){0});
        }
}

/* Where on is set: rows x and y of n elements change places. */
static ALWAYS_INLINE void NAME(swap_rows)(T *x, T *y, MASK on, int64_t n) {
    for (int64_t k = 0; k < AT(0, n, 0); k += CR_FACTOR_LANES) {
        const VEC u = NAME(load)(x + k), v = NAME(load)(y + k);
        NAME(store)(x + k, BLEND(on, v, u));
        NAME(store)(y + k, BLEND(on, u, v));
    }
}

/* y -= factor x, rows of n elements */
static ALWAYS_INLINE void NAME(subtract_row)(T *y, VEC factor, const T *x, int64_t n) {
    for (int64_t k = 0; k < AT(0, n, 0); k += CR_FACTOR_LANES)
        NAME(store)(y + k, FNMA(factor, NAME(load)(x + k), NAME(load)(y + k)));
}

/* a (m, n) becomes its LU factors, b (m, columns) L^-1 P b; best (min(m, n)): the row that was exchanged with each */
static void NAME(lu)(T *a, T *b, T *best, int64_t m, int64_t n, int64_t columns) {
    for (int64_t l = 0; l < CR_FACTOR_LANES; l += LANES, a += LANES, b += LANES, best += LANES)
        for (int64_t j = 0; j < m && j < n; j++) {
            VEC most = ABS(NAME(load)(a + AT(j, j, n))), at = (T)j - (VEC){0};
            for (int64_t i = j + 1; i < m; i++) {
                const VEC size = ABS(NAME(load)(a + AT(i, j, n)));
                const MASK larger = GREATER(size, most);
                most = BLEND(larger, size, most);
                at = BLEND(larger, (T)i - (VEC){0}, at);
            }
            NAME(store)(best + AT(0, j, 0), at);
            for (int64_t i = j + 1; i < m; i++) {
                const MASK on = EQUAL(at, (T)i - (VEC){0});
                NAME(swap_rows)(a + AT(j, 0, n), a + AT(i, 0, n), on, n);
                NAME(swap_rows)(b + AT(j, 0, columns), b + AT(i, 0, columns), on, columns);
            }
            const VEC pivot = NAME(load)(a + AT(j, j, n));
            const MASK zero = EQUAL(pivot, (VEC){0});
            for (int64_t i = j + 1; i < m; i++) {
                VEC factor = NAME(load)(a + AT(i, j, n));
                factor = BLEND(zero, factor, factor / pivot);
                NAME(store)(a + AT(i, j, n), factor);
                NAME(subtract_row)(a + AT(i, j + 1, n), factor, a + AT(j, j + 1, n), n - j - 1);
                NAME(subtract_row)(b + AT(i, 0, columns), factor, b + AT(j, 0, columns), columns);
            }
        }
}
#undef AT
