/* factor_values.h - a matrix becomes tridiagonal or bidiagonal by Householder's reflections (Golub and Van Loan, 8.3.1
 * and 5.4.3), for eigenvalues and singular values without vectors.  factor_isa.c includes this file for each element
 * type T.  Rows lie `row` elements apart, a multiple of LANES; their ends are filled with 0, and so are rooms. */

/* sum of x[i] y[i] for begin <= i < end, whole vectors */
__attribute__((noinline)) static T NAME(dot)(const T *x, const T *y, int64_t begin, int64_t end) {
    VEC sum = (VEC){0};
    T parts[LANES], all = 0;
    for (int64_t c = begin; c < end; c += LANES) sum = FNMA(-NAME(load)(x + c), NAME(load)(y + c), sum);
    NAME(store)(parts, sum);
    for (int i = 0; i < LANES; i++) all += parts[i];
    return all;
}

/* w[c] = factor times the sum over rows [first, last) of v[i] a[i, c], begin <= c < row */
__attribute__((noinline)) static void NAME(combine_rows)(T *w, const T *a, int64_t row, const T *v, int64_t first,
                                                         int64_t last, int64_t begin, T factor) {
    for (int64_t c = begin; c < row; c += 4 * LANES) {
        VEC sum[4] = {{0}};
        const int wide = row - c < 4 * LANES ? (int)((row - c) / LANES) : 4;
        for (int64_t i = first; i < last; i++) {
            const VEC s = (VEC){0} - v[i];
            if (wide == 4) {
                CR_UNROLL(4)
                for (int k = 0; k < 4; k++) sum[k] = FNMA(s, NAME(load)(a + i * row + c + k * LANES), sum[k]);
            } else
                for (int k = 0; k < wide; k++) sum[k] = FNMA(s, NAME(load)(a + i * row + c + k * LANES), sum[k]);
        }
        for (int k = 0; k < wide; k++) NAME(store)(w + c + k * LANES, sum[k] * factor);
    }
}

/* v holds x from element k on, 0 elsewhere up to `end`; it becomes the reflection v, v[k] = 1, with
 * (1 - tau v v^T) x = (beta, 0, ...).  False: x is so already, of the first element beta, but for squares that
 * underflow: elements are at most 1 where a matrix begins. */
__attribute__((noinline)) static bool NAME(reflection)(T *v, int64_t k, int64_t end, T *tau, double *beta) {
    const int64_t begin = k / LANES * LANES;
    const double first = (double)v[k];
    v[k] = 0;
    const double below = (double)NAME(dot)(v, v, begin, end), length = sqrt(first * first + below);
    *beta = first;
    if (!(below > FLOOR / (EPSILON * EPSILON))) return false;
    *beta = first > 0 ? -length : length;
    *tau = (T)((*beta - first) / *beta);
    const VEC scale = (T)(1 / (first - *beta)) - (VEC){0};
    for (int64_t c = begin; c < end; c += LANES) NAME(store)(v + c, NAME(load)(v + c) * scale);
    v[k] = 1;
    return true;
}

/* v = row k of a from element `from` on; 0 in front of it, in its vector */
static void NAME(take_row)(T *v, const T *a, int64_t row, int64_t k, int64_t from) {
    const int64_t begin = from / LANES * LANES;
    memcpy(v + begin, a + k * row + begin, (size_t)(row - begin) * sizeof(T));
    for (int64_t c = begin; c < from; c++) v[c] = 0;
}

/* a (n, n) symmetric: the diagonal d (n), and e (n - 1) beside it.  v, w: row numbers each */
static void NAME(tridiagonal)(T *a, int64_t row, int64_t n, double *d, double *e, T *v, T *w) {
    for (int64_t k = 0; k < n; k++) {
        const int64_t from = k + 1, begin = from / LANES * LANES;
        T tau;
        d[k] = (double)a[k * row + k];
        if (from == n) return;
        NAME(take_row)(v, a, row, k, from);
        if (!NAME(reflection)(v, from, row, &tau, &e[k])) continue;
        NAME(combine_rows)(w, a, row, v, from, n, begin, tau);
        const VEC half = (T)-0.5 * tau * NAME(dot)(w, v, begin, row) - (VEC){0};
        for (int64_t c = begin; c < row; c += LANES)
            NAME(store)(w + c, FNMA(-half, NAME(load)(v + c), NAME(load)(w + c)));
        for (int64_t i = from; i < n; i++) {
            const VEC p = v[i] - (VEC){0}, q = w[i] - (VEC){0};
            T *x = a + i * row;
            for (int64_t c = begin; c < row; c += LANES)
                NAME(store)(x + c, FNMA(q, NAME(load)(v + c), FNMA(p, NAME(load)(w + c), NAME(load)(x + c))));
        }
    }
}

/* a (m, n), m >= n: the diagonal d (n), and e (n - 1) above it.  v: m numbers and a vector, w: row */
static void NAME(bidiagonal)(T *a, int64_t row, int64_t m, int64_t n, double *d, double *e, T *v, T *w) {
    const int64_t end = (m + LANES - 1) / LANES * LANES;
    for (int64_t k = 0; k < n; k++) {
        const int64_t from = k + 1, begin = from / LANES * LANES;
        T tau;
        for (int64_t i = k / LANES * LANES; i < end; i++) v[i] = i >= k && i < m ? a[i * row + k] : 0;
        if (NAME(reflection)(v, k, end, &tau, &d[k]) && from < n) {
            NAME(combine_rows)(w, a, row, v, k, m, begin, tau);
            for (int64_t i = k; i < m; i++) {
                const VEC p = v[i] - (VEC){0};
                for (int64_t c = begin; c < row; c += LANES)
                    NAME(store)(a + i * row + c, FNMA(p, NAME(load)(w + c), NAME(load)(a + i * row + c)));
            }
        }
        if (from == n) return;
        NAME(take_row)(w, a, row, k, from);
        if (!NAME(reflection)(w, from, row, &tau, &e[k])) continue;
        for (int64_t i = from; i < m; i++) {
            T *x = a + i * row;
            const VEC p = tau * NAME(dot)(x, w, begin, row) - (VEC){0};
            for (int64_t c = begin; c < row; c += LANES)
                NAME(store)(x + c, FNMA(p, NAME(load)(w + c), NAME(load)(x + c)));
        }
    }
}
