/* product_packing.h - packing of operands for one type of their elements: SOURCE, of which WHOLE(p), PART(p, n) and
 * ONE(p) give LANES, n or one number as VEC or REAL. */

/* to[p * width + i] = from[i * across + p], a block of LANES x LANES or, not whole, of n x k; rows i >= n are zeros. */
static ALWAYS_INLINE void SOURCE_NAME(pack_block)(const bool whole, REAL *to, int64_t width, int64_t n, int64_t k,
                                                  const SOURCE *from, int64_t across) {
    VEC v[LANES];
CR_UNROLL(16)
    for (int i = 0; i < LANES; i++) {
        v[i] = whole || i < n ? whole || k >= LANES ? WHOLE(from + i * across) : PART(from + i * across, k) : (VEC){0};
        __builtin_prefetch(from + i * across + SOON_BYTES / sizeof(SOURCE));
    }
    NAME(transpose)(v);
CR_UNROLL(16)
    for (int i = 0; i < LANES; i++)
        if (whole || i < k) *(VEC *)(to + i * width) = v[i];
}

/* Not inlined, because it would take registers from the loop over whole blocks (4 %). */
static __attribute__((noinline)) void SOURCE_NAME(pack_part)(REAL *to, int64_t width, int64_t n, int64_t k,
                                                             const SOURCE *from, int64_t across) {
    SOURCE_NAME(pack_block)(false, to, width, n, k, from, across);
}

/* to[p * width + j] = from[j * across + p], LANES x LANES at a time; rows j >= n are zeros. */
static void SOURCE_NAME(pack_transposed)(REAL *to, int64_t width, int64_t n, int64_t k, const SOURCE *from,
                                         int64_t across) {
    for (int64_t j = 0; j < width; j += LANES)
        for (int64_t p = 0; p < k; p += LANES) {
            REAL *d = to + p * width + j;
            const SOURCE *f = from + j * across + p;
            if (n - j >= LANES && k - p >= LANES) SOURCE_NAME(pack_block)(true, d, width, LANES, LANES, f, across);
            else SOURCE_NAME(pack_part)(d, width, n - j, k - p < LANES ? k - p : LANES, f, across);
        }
}

/* to[0 .. width) = from[0 .. n), then zeros; width is a multiple of LANES. */
static ALWAYS_INLINE void SOURCE_NAME(pack_row)(REAL *to, const int64_t width, const int64_t n, const SOURCE *from) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) *(VEC *)(to + j) = WHOLE(from + j);
    if (j < n) { *(VEC *)(to + j) = PART(from + j, n - j); j += LANES; }
    for (; j < width; j += LANES) *(VEC *)(to + j) = (VEC){0};
}

/* Many lines at once, row by row of k, as they lie in memory: to[j / height * line + p * width + j %
 * height] = from[j + p * along], j < n, p < k. */
static ALWAYS_INLINE void SOURCE_NAME(pack_lines)(const int64_t width, const int64_t height, REAL *to, int64_t line,
                                                  int64_t n, int64_t k, const SOURCE *from, int64_t along) {
    const int64_t soon = (SOON_NUMBERS / n + 1) * along;
    for (int64_t p = 0; p < k; p++, to += width, from += along) {
        REAL *at = to;
        int64_t j = 0;
        for (; j + height <= n; j += height, at += line) {
            __builtin_prefetch(from + soon + j);
            if (height > LANES) __builtin_prefetch(from + soon + j + height - 1);
            SOURCE_NAME(pack_row)(at, width, height, from + j);
        }
        if (j < n) SOURCE_NAME(pack_row)(at, width, n - j, from + j);
    }
}

static void SOURCE_NAME(pack_rows)(void *to, bool of_a, int64_t line, int64_t n, int64_t k, const void *from,
                                   int64_t along) {
    if (of_a) SOURCE_NAME(pack_lines)(NAME(PANEL), ROWS, to, line, n, k, from, along);
    else SOURCE_NAME(pack_lines)(NAME(COLUMNS), NAME(COLUMNS), to, line, n, k, from, along);
}

/* to[p * width + j] = from[j * across + p * along] for j < n <= width, p < k; the rest of each row of
 * `to` (a multiple of LANES) is zero. */
static void SOURCE_NAME(pack)(void *into, int64_t width, int64_t n, int64_t k, const void *of, int64_t across,
                              int64_t along) {
    REAL *to = into;
    const SOURCE *from = of;
    if (along == 1 && across != 1) { SOURCE_NAME(pack_transposed)(to, width, n, k, from, across); return; }
    for (int64_t p = 0; p < k; p++, to += width, from += along) {
        if (across == 1) { SOURCE_NAME(pack_row)(to, width, n, from); continue; }
        for (int64_t j = 0; j < n; j++) to[j] = ONE(from + j * across);
        for (int64_t j = n; j < width; j++) to[j] = 0;
    }
}
