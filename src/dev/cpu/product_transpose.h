/* product_transpose.h - a square of lanes transposed, for packing.  Included once for each element type, with NAME, VEC
 * and LANES as product_tiles.h has them. */

/* LANES rows of LANES become columns, in log2(LANES) perfect shuffles. */
static ALWAYS_INLINE void NAME(transpose)(VEC v[LANES]) {
    VEC w[LANES];
CR_UNROLL(4)
    for (int step = 1; step < LANES; step *= 2) {
CR_UNROLL(16)
        for (int i = 0; i < LANES / 2; i++) {
            w[2 * i] = NAME(interleave_low)(v[i], v[i + LANES / 2]);
            w[2 * i + 1] = NAME(interleave_high)(v[i], v[i + LANES / 2]);
        }
CR_UNROLL(16)
        for (int i = 0; i < LANES; i++) v[i] = w[i];
    }
}
