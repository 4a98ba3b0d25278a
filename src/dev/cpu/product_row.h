/* product_row.h - dot products with contiguous columns of b, for one type of b's elements: SOURCE, of which
 * WHOLE(p) and PART(p, n) give LANES or n numbers as a VEC.  The order of additions does not depend on the type. */

/* `columns` dot products with the same contiguous a; the lanes are still to be summed. */
static ALWAYS_INLINE void SOURCE_NAME(dot_lanes)(const int columns, VEC *out, const REAL *a, const SOURCE *b,
                                                 int64_t b_col, int64_t k) {
    VEC sum[4][2] = {{{0}}};
    int64_t p = 0;
    for (; p + 2 * LANES <= k; p += 2 * LANES) {
        const VEC x = *(const LOOSE *)(a + p), y = *(const LOOSE *)(a + p + LANES);
CR_UNROLL(4)
        for (int j = 0; j < columns; j++) {
            sum[j][0] = NAME(fma)(x, WHOLE(b + j * b_col + p), sum[j][0]);
            sum[j][1] = NAME(fma)(y, WHOLE(b + j * b_col + p + LANES), sum[j][1]);
        }
    }
    if (p + LANES <= k) {
        const VEC x = *(const LOOSE *)(a + p);
CR_UNROLL(4)
        for (int j = 0; j < columns; j++) sum[j][0] = NAME(fma)(x, WHOLE(b + j * b_col + p), sum[j][0]);
        p += LANES;
    }
    if (p < k) {
        const VEC x = NAME(part_load)(a + p, k - p);
CR_UNROLL(4)
        for (int j = 0; j < columns; j++) sum[j][0] = NAME(fma)(x, PART(b + j * b_col + p, k - p), sum[j][0]);
    }
CR_UNROLL(4)
    for (int j = 0; j < columns; j++) out[j] = sum[j][0] + sum[j][1];
}

static ALWAYS_INLINE void SOURCE_NAME(dots)(const int columns, REAL out[4], const REAL *a, const SOURCE *b,
                                            int64_t b_col, int64_t k) {
    VEC sums[4];
    SOURCE_NAME(dot_lanes)(columns, sums, a, b, b_col, k);
CR_UNROLL(4)
    for (int j = 0; j < columns; j++) out[j] = NAME(sum_lanes)(sums[j]);
}

/* One row.  Columns come one after another, in the order of memory: reading four at a time takes almost twice as
 * long. */
static void SOURCE_NAME(row_of_columns)(const cr_product *w) {
    const SOURCE *b = w->b;
    const REAL *bias = w->bias;
    REAL *c = w->c;
    for (int64_t j = 0; j < w->n; j += LANES) {
        const int64_t n = w->n - j < LANES ? w->n - j : LANES;
        VEC v[LANES] = {{0}};
        for (int i = 0; i < n; i++, b += w->b_col) SOURCE_NAME(dot_lanes)(1, v + i, w->a, b, w->b_col, w->k);
        VEC sum = NAME(sums)(v);
        if (bias && w->one_bias) sum += bias[0] - (VEC){0};
        else if (bias) sum += NAME(load)(bias + j, n < LANES, n);
        if (w->accumulate) sum += NAME(load)(c + j, n < LANES, n);
        if (n < LANES) NAME(part_store)(c + j, sum, n);
        else *(LOOSE *)(c + j) = sum;
    }
}

#undef SOURCE_NAME
#undef SOURCE
#undef WHOLE
#undef PART
#undef ONE
