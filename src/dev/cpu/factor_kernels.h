/* factor_kernels.h - factorizations of one matrix and triangular solves, in place and in row-major order; factor.c
 * includes this file once for each element type T.  NAME(f) is f with the type's suffix, EPSILON its machine epsilon.
 *
 * A large matrix is cut into panels of NB columns; products with what lies outside of a panel are those of
 * cr_cpu_matmul.  A matrix of up to NB columns is one panel and needs no product. */

/* ---- rows */

/* sum of x[i] y[i] in double: four partial sums, added in this order */
static double NAME(dot)(const T *x, const T *y, int64_t n) {
    double s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) s[k] += (double)x[i + k] * (double)y[i + k];
    for (; i < n; i++) s[0] += (double)x[i] * (double)y[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

/* y += a x */
static void NAME(add_row)(T *y, T a, const T *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* (x, y) = (c x - s y, s x + c y) */
static void NAME(rotate)(T *x, T *y, T c, T s, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const T u = x[i], v = y[i];
        x[i] = c * u - s * v;
        y[i] = s * u + c * v;
    }
}

static void NAME(swap_rows)(T *x, T *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const T v = x[i];
        x[i] = y[i];
        y[i] = v;
    }
}

/* to (rows, n) = -from, whose rows lie `stride` apart */
static void NAME(negate)(T *to, const T *from, int64_t rows, int64_t n, int64_t stride) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) to[i * n + j] = -from[i * stride + j];
}

/* rows and columns of a matrix at p, which lies in the storage s */
static cr_array NAME(part)(cr_storage *s, const T *p, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    cr_array a = {.storage = s, .dev = s->dev, .dtype = DTYPE, .ndim = 2, .offset = p - (const T *)s->data,
                  .numel = rows * columns, .shape = {rows, columns}, .strides = {row, column}};
    a.contiguous = column == 1 && row == columns;
    return a;
}

/* ---- panels: columns of a matrix, which lie side by side in `panel` (factor_blocks.h) */
typedef struct NAME(work) { cr_storage *room; T *panel, *negated; int64_t row; } NAME(work);

/* Room for a panel of M rows, and for NB * N numbers negated. */
static bool NAME(begin)(NAME(work) *w, cr_storage *home, int64_t M, int64_t N) {
    w->row = (M + 2 * LANES - 1) / LANES * LANES;
    w->room = cr_cpu_allocate(home->dev, (size_t)(NB * (w->row + N)) * sizeof(T));
    if (!w->room) return false;
    w->panel = w->room->data;
    w->negated = w->panel + NB * w->row;
    memset(w->panel, 0, (size_t)(NB * w->row) * sizeof(T));
    return true;
}

/* ---- Cholesky: a = L L^T, left-looking.  A pivot that is not above 0 makes the factor NaN from there on. */
static bool NAME(cholesky)(cr_storage *home, T *a, int64_t N) {
    const struct cr_factors *f = cr_cpu_vec()->factors;
    NAME(work) w;
    if (!NAME(begin)(&w, home, N, N > NB ? N : 0)) return false;
    cr_status status = CR_OK;
    for (int64_t p = 0; p < N && status == CR_OK && !cr_pool_stopped(); p += NB) {
        const int64_t n = cr_imin(NB, N - p);
        T *panel = a + p * N + p;
        if (p) {
            NAME(negate)(w.negated, a + p * N, n, p, N);
            status = cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(home, panel, N - p, n, N, 1),
                                                     .a = NAME(part)(home, a + p * N, N - p, p, N, 1),
                                                     .b = NAME(part)(w.room, w.negated, p, n, 1, p),
                                                     .how = CR_MATMUL_ADD});
        }
        f->NAME(transpose_matrix)(w.panel, w.row, panel, N, N - p, n);
        f->NAME(cholesky_panel)(w.panel, w.row, N - p, n);
        f->NAME(transpose_matrix)(panel, N, w.panel, w.row, n, N - p);
    }
    for (int64_t i = 0; i < N; i++) memset(a + i * N + i + 1, 0, (size_t)(N - i - 1) * sizeof(T));
    cr_storage_release(w.room);
    return status == CR_OK;
}

/* ---- triangular systems: a x = b for a triangular block of n rows, columns [first, end) of x */
typedef struct NAME(system) {
    const T *a; T *x;
    int64_t n, a_row, x_row, columns;
    bool upper, unit;
} NAME(system);

static void NAME(solve_chunk)(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const NAME(system) *s = ctx;
    const int64_t first = chunk * STRIP, n = cr_imin(STRIP, s->columns - first);
    cr_cpu_vec()->factors->NAME(solve_strip)(s->x + first, s->x_row, s->a, s->a_row, s->n, n, s->upper, s->unit);
}

static void NAME(solve_block)(NAME(system) s) {
    if (s.columns) cr_run_chunks(cr_pieces(s.columns, STRIP), NAME(solve_chunk), &s);
}

/* x (N, K) holds b: block rows in the order of substitution */
static bool NAME(substitute)(cr_storage *home, T *x, const T *a, int64_t N, int64_t K, bool upper, bool unit) {
    const size_t bytes = N > NB ? (size_t)(NB * N) * sizeof(T) : 0;
    cr_storage *room = bytes ? cr_cpu_allocate(home->dev, bytes) : NULL;
    if (bytes && !room) return false;
    cr_status status = CR_OK;
    for (int64_t done = 0; done < N && status == CR_OK && !cr_pool_stopped(); done += NB) {
        const int64_t n = cr_imin(NB, N - done), p = upper ? N - done - n : done, from = upper ? p + n : 0;
        if (done) {
            NAME(negate)(room->data, a + p * N + from, n, done, N);
            status = cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(home, x + p * K, n, K, K, 1),
                                                     .a = NAME(part)(room, room->data, n, done, done, 1),
                                                     .b = NAME(part)(home, x + from * K, done, K, K, 1),
                                                     .how = CR_MATMUL_ADD});
        }
        NAME(solve_block)((NAME(system)){a + p * N + p, x + p * K, n, N, K, K, upper, unit});
    }
    if (room) cr_storage_release(room);
    return status == CR_OK;
}

/* ---- LU with partial pivoting, right-looking.  A column of zeros is left as it is. */
/* The panel of n columns from row and column p on, and its exchanges in the other columns. */
static void NAME(lu_panel)(const NAME(work) *w, T *a, int64_t M, int64_t N, int64_t p, int64_t n, int64_t *order,
                           int32_t *pivots) {
    const struct cr_factors *f = cr_cpu_vec()->factors;
    int32_t best[NB];
    T *panel = a + p * N + p;
    f->NAME(transpose_matrix)(w->panel, w->row, panel, N, M - p, n);
    f->NAME(lu_panel)(w->panel, w->row, M - p, n, best);
    for (int64_t j = 0; j < n; j++) {
        const int64_t to = p + j, from = p + best[j], row = order[to];
        pivots[to] = (int32_t)from + 1;
        if (from == to) continue;
        order[to] = order[from];
        order[from] = row;
        NAME(swap_rows)(a + to * N, a + from * N, p);
        NAME(swap_rows)(a + to * N + p + n, a + from * N + p + n, N - p - n);
    }
    f->NAME(transpose_matrix)(panel, N, w->panel, w->row, n, M - p);
}

static bool NAME(lu)(cr_storage *home, T *a, int64_t M, int64_t N, int64_t *order, int32_t *pivots) {
    const int64_t K = cr_imin(M, N);
    NAME(work) w;
    if (!NAME(begin)(&w, home, M, N > NB ? M : 0)) return false;
    cr_status status = CR_OK;
    for (int64_t i = 0; i < M; i++) order[i] = i;
    for (int64_t p = 0; p < K && status == CR_OK && !cr_pool_stopped(); p += NB) {
        const int64_t n = cr_imin(NB, K - p), right = p + n, columns = N - right, rows = M - right;
        NAME(lu_panel)(&w, a, M, N, p, n, order, pivots);
        NAME(solve_block)((NAME(system)){a + p * N + p, a + p * N + right, n, N, N, columns, false, true});
        if (!columns || !rows) continue;
        NAME(negate)(w.negated, a + right * N + p, rows, n, N);
        status = cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(home, a + right * N + right, rows, columns, N, 1),
                                                 .a = NAME(part)(w.room, w.negated, rows, n, n, 1),
                                                 .b = NAME(part)(home, a + p * N + right, n, columns, N, 1),
                                                 .how = CR_MATMUL_ADD});
    }
    cr_storage_release(w.room);
    return status == CR_OK;
}

/* ---- QR by Householder's reflections I - tau v v^T, v = (1, rest of the column below the diagonal)
 *
 * As LAPACK's: the diagonal of R has the sign opposite to that of the reflected column's first element; a column that
 * is 0 below the diagonal has tau = 0.  A panel's reflections are I - V T V^T (compact WY, Schreiber and Van Loan
 * 1989). */

/* c (rows i >= j, n columns) -= tau v (v^T c); v: column j of a; w: n numbers */
static void NAME(reflect)(T *c, int64_t c_row, const T *a, int64_t a_row, int64_t j, int64_t M, T tau, int64_t n,
                          T *w) {
    if (tau == 0 || !n) return;
    memcpy(w, c + j * c_row, (size_t)n * sizeof(T));
    for (int64_t i = j + 1; i < M; i++) NAME(add_row)(w, a[i * a_row + j], c + i * c_row, n);
    NAME(add_row)(c + j * c_row, -tau, w, n);
    for (int64_t i = j + 1; i < M; i++) NAME(add_row)(c + i * c_row, -tau * a[i * a_row + j], w, n);
}

/* The reflection of column j: v below the diagonal, R's element on it.  Returns tau. */
static T NAME(reflection)(T *a, int64_t stride, int64_t j, int64_t M) {
    double most = 0, sum = 0;
    for (int64_t i = j + 1; i < M; i++) {
        const double size = fabs((double)a[i * stride + j]);
        if (!(size <= most)) most = size;
    }
    if (most == 0) return 0;
    const double first = (double)a[j * stride + j];
    most = fmax(most, fabs(first));
    for (int64_t i = j; i < M; i++) {
        const double x = (double)a[i * stride + j] / most;
        sum += x * x;
    }
    const double length = most * sqrt(sum), beta = first > 0 ? -length : length;
    for (int64_t i = j + 1; i < M; i++) a[i * stride + j] = (T)((double)a[i * stride + j] / (first - beta));
    a[j * stride + j] = (T)beta;
    return (T)((beta - first) / beta);
}

/* V (M - p, n) of the panel at column p, and T (n, n) with H_p ... H_(p + n - 1) = I - V T V^T;
 * gram: n n numbers */
static cr_status NAME(compact)(cr_storage *room, const T *a, int64_t M, int64_t N, int64_t p, int64_t n, const T *tau,
                               T *v, T *t, T *gram) {
    const int64_t rows = M - p;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) v[i * n + j] = i > j ? a[(p + i) * N + p + j] : i == j ? 1 : 0;
    const cr_status status = cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(room, gram, n, n, n, 1),
                                                             .a = NAME(part)(room, v, n, rows, 1, n),
                                                             .b = NAME(part)(room, v, rows, n, n, 1)});
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            T sum = 0;
            for (int64_t k = i; k < j; k++) sum -= t[i * n + k] * gram[k * n + j];
            t[i * n + j] = i < j ? sum * tau[p + j] : i == j ? tau[p + j] : 0;
        }
    return status;
}

/* c (M - p rows from p on, columns) -= V T V^T c, or with T^T */
static cr_status NAME(apply_compact)(cr_storage *home, T *c, int64_t c_row, int64_t columns, cr_storage *room,
                                     const T *v, const T *t, int64_t rows, int64_t n, bool transposed, T *w, T *z) {
    cr_status status = cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(room, w, n, columns, columns, 1),
                                                       .a = NAME(part)(room, v, n, rows, 1, n),
                                                       .b = NAME(part)(home, c, rows, columns, c_row, 1)});
    if (status != CR_OK) return status;
    status = cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(room, z, n, columns, columns, 1),
                                             .a = NAME(part)(room, t, n, n, transposed ? 1 : n, transposed ? n : 1),
                                             .b = NAME(part)(room, w, n, columns, columns, 1)});
    for (int64_t i = 0; i < n * columns; i++) z[i] = -z[i];
    if (status != CR_OK) return status;
    return cr_cpu_matmul(&(cr_matmul_args){.c = NAME(part)(home, c, rows, columns, c_row, 1),
                                           .a = NAME(part)(room, v, rows, n, n, 1),
                                           .b = NAME(part)(room, z, n, columns, columns, 1), .how = CR_MATMUL_ADD});
}

/* y (M + N, N) = Q above R of x (M, N), M >= N */
static bool NAME(qr)(cr_storage *home, T *y, const T *x, int64_t M, int64_t N) {
    const int64_t n_t = N > NB ? NB * NB : 0, wide = N > NB ? NB * N : 0;
    cr_storage *room = cr_cpu_allocate(home->dev, (size_t)(M * N + 2 * N + M * (wide ? NB : 0) + 2 * wide + 2 * n_t)
                                                      * sizeof(T));
    if (!room) return false;
    T *a = room->data, *tau = a + M * N, *row = tau + N, *v = row + N, *w = v + M * (wide ? NB : 0), *z = w + wide,
      *t = z + wide, *gram = t + n_t;
    cr_status status = CR_OK;
    memcpy(a, x, (size_t)(M * N) * sizeof(T));
    for (int64_t p = 0; p < N && status == CR_OK && !cr_pool_stopped(); p += NB) {
        const int64_t n = cr_imin(NB, N - p), right = p + n;
        for (int64_t j = p; j < right; j++) {
            tau[j] = NAME(reflection)(a, N, j, M);
            NAME(reflect)(a + j + 1, N, a, N, j, M, tau[j], right - j - 1, row);
        }
        if (right == N) break;
        status = NAME(compact)(room, a, M, N, p, n, tau, v, t, gram);
        if (status == CR_OK)
            status = NAME(apply_compact)(room, a + p * N + right, N, N - right, room, v, t, M - p, n, true, w, z);
    }
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) y[i * N + j] = i == j;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < N; j++) y[(M + i) * N + j] = j >= i ? a[i * N + j] : 0;
    for (int64_t p = (N - 1) / NB * NB; N && p >= 0 && status == CR_OK && !cr_pool_stopped(); p -= NB) {
        const int64_t n = cr_imin(NB, N - p);
        if (N > NB) {
            status = NAME(compact)(room, a, M, N, p, n, tau, v, t, gram);
            if (status == CR_OK)
                status = NAME(apply_compact)(home, y + p * N + p, N, N - p, room, v, t, M - p, n, false, w, z);
        } else {
            for (int64_t j = n - 1; j >= 0; j--) NAME(reflect)(y + j, N, a, N, j, M, tau[j], N - j, row);
        }
    }
    cr_storage_release(room);
    return status == CR_OK;
}

/* ---- large matrices by LAPACK.  False: it failed, and the methods below do it. */
static bool NAME(is_finite)(const T *x, int64_t n) {
    double sum = 0;                                 /* of zeros, or NaN */
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * 0;
    return sum == 0;
}

static bool NAME(large_eigh)(T *y, const T *x, int64_t N, bool vectors) {
    const size_t bytes = (size_t)(N * N) * sizeof(T);
    T *a = cr_cpu_try_take(bytes);
    for (int64_t i = 0; a && i < N; i++)
        for (int64_t j = 0; j <= i; j++) a[i * N + j] = a[j * N + i] = x[i * N + j];
    const bool done = a && NAME(is_finite)(a, N * N) && cr_lapack_eigh(DTYPE, N, a, vectors ? y + N * N : y, vectors);
    for (int64_t i = 0; done && vectors && i < N; i++)
        for (int64_t k = 0; k < N; k++) y[i * N + k] = a[k * N + i];
    if (a) cr_cpu_give(a, bytes);
    return done;
}

static bool NAME(large_svd)(T *y, const T *x, int64_t M, int64_t N, bool vectors) {
    const size_t bytes = (size_t)(M * N + N * N) * sizeof(T);
    T *a = NAME(is_finite)(x, M * N) ? cr_cpu_try_take(bytes) : NULL;
    if (!a) return false;
    memcpy(a, x, (size_t)(M * N) * sizeof(T));
    T *vt = a + M * N, *v = y + (M + 1) * N;
    const bool done = vectors ? cr_lapack_svd(DTYPE, M, N, a, y, y + M * N, vt)
                              : cr_lapack_svd(DTYPE, M, N, a, NULL, y, NULL);
    for (int64_t i = 0; done && vectors && i < N; i++)
        for (int64_t j = 0; j < N; j++) v[i * N + j] = vt[j * N + i];
    cr_cpu_give(a, bytes);
    return done;
}

static bool NAME(by_lapack)(int64_t M, int64_t N) { return N > OWN && M <= CR_LAPACK_MOST && cr_lapack_ready(); }

/* ---- symmetric eigenvalues by Jacobi's rotations, row by row: y (N + 1, N), the vectors as columns above the
 * ascending values; all NaN where an element is not finite.  Only the lower triangle of x is read. */
static void NAME(sort_eigh)(T *y, T *diagonal, const T *v, int64_t N, bool finite) {
    for (int64_t k = 0; k < N; k++) {
        int64_t best = -1;                          /* the k-th smallest of the diagonal; those taken are NaN */
        for (int64_t i = 0; i < N; i++)
            if (!isnan(diagonal[i]) && (best < 0 || diagonal[i] < diagonal[best])) best = i;
        y[N * N + k] = finite ? diagonal[best] : (T)NAN;
        for (int64_t i = 0; i < N; i++) y[i * N + k] = finite ? v[best * N + i] : (T)NAN;
        if (best >= 0) diagonal[best] = (T)NAN;
    }
}

static bool NAME(eigh)(T *y, const T *x, int64_t N) {
    const size_t bytes = (size_t)(2 * N * N + 1) * sizeof(T);
    T *a = cr_cpu_try_take(bytes);
    if (!a) return false;
    T *v = a + N * N;
    double sum = 0;
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j <= i; j++) {
            a[i * N + j] = a[j * N + i] = x[i * N + j];
            v[i * N + j] = v[j * N + i] = i == j;
            sum += fabs((double)x[i * N + j]);
        }
    const double least = 0.1 * EPSILON * sum / (double)(N * N);
    bool turned = isfinite(sum);
    for (int sweep = 0; turned && sweep < CR_FACTOR_SWEEPS && !cr_pool_stopped(); sweep++) {
        turned = false;
        for (int64_t p = 0; p < N; p++)
            for (int64_t q = p + 1; q < N; q++) {
                const double off = (double)a[p * N + q], app = (double)a[p * N + p], aqq = (double)a[q * N + q];
                if (!(fabs(off) > least)) continue;
                const double theta = (aqq - app) / (2 * off),
                             t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1)),
                             c = 1 / sqrt(t * t + 1);
                turned = true;
                NAME(rotate)(a + p * N, a + q * N, (T)c, (T)(t * c), N);
                NAME(rotate)(v + p * N, v + q * N, (T)c, (T)(t * c), N);
                for (int64_t k = 0; k < N; k++) a[k * N + p] = a[p * N + k], a[k * N + q] = a[q * N + k];
                a[p * N + p] = (T)(app - t * off);
                a[q * N + q] = (T)(aqq + t * off);
                a[p * N + q] = a[q * N + p] = 0;
            }
    }
    for (int64_t i = 0; i < N; i++) a[i] = a[i * N + i];
    NAME(sort_eigh)(y, a, v, N, isfinite(sum));
    cr_cpu_give(a, bytes);
    return true;
}

/* ---- SVD by one-sided Jacobi rotations of the columns of x (M, N), M >= N (Demmel and Veselic 1992) */

/* Column k of u (N rows of M, the columns of U) becomes a unit vector orthogonal to all rows before it: the coordinate
 * axis that is farthest from their span, orthogonalized twice. */
static void NAME(complete)(T *u, int64_t k, int64_t M) {
    double least = INFINITY;
    int64_t axis = 0;
    for (int64_t i = 0; i < M; i++) {
        double inside = 0;
        for (int64_t r = 0; r < k; r++) inside += (double)u[r * M + i] * (double)u[r * M + i];
        if (inside < least) least = inside, axis = i;
    }
    T *x = u + k * M;
    for (int64_t i = 0; i < M; i++) x[i] = i == axis;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t r = 0; r < k; r++) NAME(add_row)(x, -(T)NAME(dot)(u + r * M, x, M), u + r * M, M);
        const double length = sqrt(NAME(dot)(x, x, M));
        for (int64_t i = 0; i < M; i++) x[i] = (T)((double)x[i] / length);
    }
}

/* The largest |x[i]|, and its exponent: the elements are scaled to at most 1, exactly. */
static double NAME(largest)(const T *x, int64_t n, int *exponent) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double size = fabs((double)x[i]);
        if (!(size <= most)) most = size;
    }
    *exponent = 0;
    if (isfinite(most) && most > 0) frexp(most, exponent);
    return most;
}

/* y from orthogonal a (N, M) and v (N, N), by rows; u (N, M): room */
static void NAME(sort_svd)(T *y, T *a, T *v, T *u, int64_t M, int64_t N, int exponent, bool finite) {
    T *values = y + M * N;
    for (int64_t j = 0; j < N; j++) values[j] = (T)sqrt(NAME(dot)(a + j * M, a + j * M, M));
    for (int64_t k = 0; k < N; k++) {               /* u, v and values in order, by exchanges */
        int64_t best = k;
        for (int64_t j = k + 1; j < N; j++) if (values[j] > values[best]) best = j;
        const T value = values[best];
        values[best] = values[k];
        values[k] = value;
        if (best != k) {
            NAME(swap_rows)(a + k * M, a + best * M, M);
            NAME(swap_rows)(v + k * N, v + best * N, N);
        }
        if (value > FLOOR) for (int64_t i = 0; i < M; i++) u[k * M + i] = a[k * M + i] / value;
        else NAME(complete)(u, k, M);
    }
    for (int64_t k = 0; k < N; k++) {
        values[k] = finite ? (T)ldexp((double)values[k], exponent) : (T)NAN;
        for (int64_t i = 0; i < M; i++) y[i * N + k] = finite ? u[k * M + i] : (T)NAN;
        for (int64_t i = 0; i < N; i++) y[(M + 1 + i) * N + k] = finite ? v[k * N + i] : (T)NAN;
    }
}

/* y (M + 1 + N, N): U, the values from the largest down, V; all NaN where an element is not finite */
static bool NAME(svd)(T *y, const T *x, int64_t M, int64_t N) {
    const size_t bytes = (size_t)(2 * N * M + N * N + 1) * sizeof(T);
    T *a = cr_cpu_try_take(bytes);
    if (!a) return false;
    T *v = a + N * M, *u = v + N * N;
    int exponent;
    const double most = NAME(largest)(x, M * N, &exponent);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) a[j * M + i] = (T)ldexp((double)x[i * N + j], -exponent);
    for (int64_t i = 0; i < N * N; i++) v[i] = i / N == i % N;
    bool turned = isfinite(most) && most > 0;
    for (int sweep = 0; turned && sweep < CR_FACTOR_SWEEPS && !cr_pool_stopped(); sweep++) {
        turned = false;
        for (int64_t p = 0; p < N; p++)
            for (int64_t q = p + 1; q < N; q++) {
                const T *wp = a + p * M, *wq = a + q * M;
                const double pp = NAME(dot)(wp, wp, M), qq = NAME(dot)(wq, wq, M), pq = NAME(dot)(wp, wq, M);
                if (!(fabs(pq) > EPSILON * sqrt(pp) * sqrt(qq)) || fabs(pq) < FLOOR) continue;
                const double zeta = (qq - pp) / (2 * pq),
                             t = (zeta < 0 ? -1 : 1) / (fabs(zeta) + sqrt(zeta * zeta + 1)), c = 1 / sqrt(t * t + 1);
                turned = true;
                NAME(rotate)(a + p * M, a + q * M, (T)c, (T)(t * c), M);
                NAME(rotate)(v + p * N, v + q * N, (T)c, (T)(t * c), N);
            }
    }
    NAME(sort_svd)(y, a, v, u, M, N, exponent, isfinite(most));
    cr_cpu_give(a, bytes);
    return true;
}

/* ---- several small matrices side by side (factor_lanes.h): up to CR_FACTOR_LANES from x on */
/* The n elements of each of `count` matrices into lanes, zeros into those that are left; and back. */
static void NAME(spread)(T *a, const T *x, int64_t n, int64_t count) {
    if (count < CR_FACTOR_LANES) memset(a, 0, (size_t)(n * CR_FACTOR_LANES) * sizeof(T));
    cr_cpu_vec()->factors->NAME(transpose_matrix)(a, CR_FACTOR_LANES, x, n, count, n);
}
static void NAME(collect)(T *y, const T *a, int64_t n, int64_t count) {
    cr_cpu_vec()->factors->NAME(transpose_matrix)(y, n, a, CR_FACTOR_LANES, n, count);
}

static void NAME(cholesky_group)(T *a, T *y, const T *x, int64_t N, int64_t count) {
    NAME(spread)(a, x, N * N, count);
    cr_cpu_vec()->factors->NAME(cholesky)(a, N);
    NAME(collect)(y, a, N * N, count);
}

/* order (M) and, unless NULL, pivots (K) from the exchanges of matrix l */
static void NAME(order_of)(int64_t *order, int32_t *pivots, const T *best, int64_t l, int64_t M, int64_t K) {
    for (int64_t i = 0; i < M; i++) order[i] = i;
    for (int64_t j = 0; j < K; j++) {
        const int64_t at = (int64_t)best[j * CR_FACTOR_LANES + l], row = order[j];
        order[j] = order[at];
        order[at] = row;
        if (pivots) pivots[j] = (int32_t)at + 1;
    }
}

static void NAME(lu_group)(const cr_factor_args *args, T *a, T *y, const T *x, int64_t b, int64_t count) {
    const int64_t M = args->x.shape[1], N = args->x.shape[2], K = cr_imin(M, N);
    T best[SMALL * CR_FACTOR_LANES];
    NAME(spread)(a, x, M * N, count);
    cr_cpu_vec()->factors->NAME(lu)(a, a, best, M, N, 0);
    NAME(collect)(y, a, M * N, count);
    for (int64_t l = 0; l < count; l++)
        NAME(order_of)((int64_t *)cr_array_data(&args->order) + (b + l) * M,
                       (int32_t *)cr_array_data(&args->pivots) + (b + l) * K, best, l, M, K);
}

static void NAME(eigh_group)(T *a, T *y, const T *x, int64_t N, int64_t count) {
    T *v = a + N * N * CR_FACTOR_LANES, *d = v + N * N * CR_FACTOR_LANES, *rows = d + N;
    double least[CR_FACTOR_LANES], sum[CR_FACTOR_LANES] = {0};
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j <= i; j++)
            for (int64_t l = 0; l < CR_FACTOR_LANES; l++) {
                const T value = l < count ? x[l * N * N + i * N + j] : 0;
                const int64_t at = (i * N + j) * CR_FACTOR_LANES + l, mirror = (j * N + i) * CR_FACTOR_LANES + l;
                a[at] = a[mirror] = value;
                v[at] = v[mirror] = i == j;
                sum[l] += fabs((double)value);
            }
    for (int64_t l = 0; l < CR_FACTOR_LANES; l++)
        least[l] = isfinite(sum[l]) ? 0.1 * EPSILON * sum[l] / (double)(N * N) : INFINITY;
    cr_cpu_vec()->factors->NAME(eigh)(a, v, least, N);
    for (int64_t l = 0; l < count; l++) {
        for (int64_t i = 0; i < N; i++) d[i] = a[(i * N + i) * CR_FACTOR_LANES + l];
        for (int64_t i = 0; i < N * N; i++) rows[i] = v[i * CR_FACTOR_LANES + l];
        NAME(sort_eigh)(y + l * (N + 1) * N, d, rows, N, isfinite(sum[l]));
    }
}

static void NAME(svd_group)(T *a, T *y, const T *x, int64_t M, int64_t N, int64_t count) {
    T *v = a + N * M * CR_FACTOR_LANES, *alone = v + N * N * CR_FACTOR_LANES, *turn = alone + N * M, *u = turn + N * N;
    double most[CR_FACTOR_LANES] = {0};
    int exponent[CR_FACTOR_LANES] = {0};
    for (int64_t l = 0; l < count; l++) most[l] = NAME(largest)(x + l * M * N, M * N, &exponent[l]);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++)
            for (int64_t l = 0; l < CR_FACTOR_LANES; l++) {
                const bool used = l < count && isfinite(most[l]);
                a[(j * M + i) * CR_FACTOR_LANES + l] =
                    used ? (T)ldexp((double)x[l * M * N + i * N + j], -exponent[l]) : 0;
            }
    for (int64_t i = 0; i < N * N; i++)
        for (int64_t l = 0; l < CR_FACTOR_LANES; l++) v[i * CR_FACTOR_LANES + l] = i / N == i % N;
    cr_cpu_vec()->factors->NAME(svd)(a, v, M, N);
    for (int64_t l = 0; l < count; l++) {
        for (int64_t i = 0; i < N * M; i++) alone[i] = a[i * CR_FACTOR_LANES + l];
        for (int64_t i = 0; i < N * N; i++) turn[i] = v[i * CR_FACTOR_LANES + l];
        NAME(sort_svd)(y + l * (M + 1 + N) * N, alone, turn, u, M, N, exponent[l], isfinite(most[l]));
    }
}

/* Matrices [b, b + count) of a batch. */
static bool NAME(factor_group)(const cr_factor_args *args, int64_t b, int64_t count) {
    const int64_t M = args->x.shape[1], N = args->x.shape[2];
    const size_t bytes = (size_t)((CR_FACTOR_LANES + 2) * (N * M + N * N) + N) * sizeof(T);
    const T *x = (const T *)cr_array_data(&args->x) + b * M * N;
    T *y = (T *)cr_array_data(&args->y) + b * args->y.shape[1] * args->y.shape[2], *a = cr_cpu_try_take(bytes);
    if (!a) return false;
    if (args->kind == CR_FACTOR_CHOLESKY) NAME(cholesky_group)(a, y, x, N, count);
    else if (args->kind == CR_FACTOR_LU) NAME(lu_group)(args, a, y, x, b, count);
    else if (args->kind == CR_FACTOR_EIGH) NAME(eigh_group)(a, y, x, N, count);
    else NAME(svd_group)(a, y, x, M, N, count);
    cr_cpu_give(a, bytes);
    return true;
}

/* ---- values without vectors: y (N) of x (M, N), all NaN where an element is not finite */
static bool NAME(values)(T *y, const T *x, int64_t M, int64_t N, bool symmetric) {
    const struct cr_factors *f = cr_cpu_vec()->factors;
    enum { WIDE = 64 / sizeof(T) };                 /* elements of the widest vectors */
    const int64_t row = (N + WIDE - 1) / WIDE * WIDE, high = (M + WIDE - 1) / WIDE * WIDE;
    const size_t first = 6 * (size_t)N * sizeof(double), bytes = first + (size_t)(M * row + high + row) * sizeof(T);
    double *d = cr_cpu_try_take(bytes), *e = d + N, most = 0;
    if (!d) return false;
    T *a = (T *)(void *)(d + 6 * N), *v = a + M * row;
    memset(a, 0, bytes - first);
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < (symmetric ? i + 1 : N); j++) {
            const double element = fabs((double)x[i * N + j]);
            if (!(element <= most)) most = element;
        }
    int exponent = 0;
    if (isfinite(most) && most > 0) frexp(most, &exponent);
    bool done = isfinite(most);
    for (int64_t i = 0; done && i < M; i++)
        for (int64_t j = 0; j < (symmetric ? i + 1 : N); j++) {
            a[i * row + j] = (T)ldexp((double)x[i * N + j], -exponent);
            if (symmetric) a[j * row + i] = a[i * row + j];
        }
    if (done && symmetric) f->NAME(tridiagonal)(a, row, N, d, e, v, v + high);
    if (done && !symmetric) f->NAME(bidiagonal)(a, row, M, N, d, e, v, v + high);
    for (int64_t i = 0; done && i < N; i++) {
        if (i + 1 < N) e[i] *= e[i];
        if (!symmetric) d[i] *= d[i];
    }
    done = done && (symmetric ? tridiagonal_values(d, e, N) : bidiagonal_values(d, e, N, d + 2 * N));
    if (done) qsort(d, (size_t)N, sizeof *d, descending);
    for (int64_t i = 0; i < N; i++) {
        const double value = symmetric ? d[N - 1 - i] : sqrt(d[i]);
        y[i] = done ? (T)ldexp(value, exponent) : (T)NAN;
    }
    cr_cpu_give(d, bytes);
    return true;
}

/* ---- one matrix of a batch */
static bool NAME(factor_one)(const cr_factor_args *args, int64_t b) {
    const int64_t M = args->x.shape[1], N = args->x.shape[2];
    const T *x = (const T *)cr_array_data(&args->x) + b * M * N;
    T *y = (T *)cr_array_data(&args->y) + b * args->y.shape[1] * args->y.shape[2];
    if (args->kind == CR_FACTOR_QR) return NAME(qr)(args->y.storage, y, x, M, N);
    if (args->kind == CR_FACTOR_EIGH)
        return (NAME(by_lapack)(N, N) && NAME(large_eigh)(y, x, N, true)) || NAME(eigh)(y, x, N);
    if (args->kind == CR_FACTOR_SVD)
        return (NAME(by_lapack)(M, N) && NAME(large_svd)(y, x, M, N, true)) || NAME(svd)(y, x, M, N);
    if (args->kind == CR_FACTOR_EIGVALSH)
        return (NAME(by_lapack)(N, N) && NAME(large_eigh)(y, x, N, false)) || NAME(values)(y, x, N, N, true);
    if (args->kind == CR_FACTOR_SVDVALS)
        return (NAME(by_lapack)(M, N) && NAME(large_svd)(y, x, M, N, false)) || NAME(values)(y, x, M, N, false);
    memcpy(y, x, (size_t)(M * N) * sizeof(T));
    if (args->kind == CR_FACTOR_CHOLESKY) return NAME(cholesky)(args->y.storage, y, N);
    return NAME(lu)(args->y.storage, y, M, N, (int64_t *)cr_array_data(&args->order) + b * M,
                    (int32_t *)cr_array_data(&args->pivots) + b * cr_imin(M, N));
}

static bool NAME(substitute_one)(const cr_substitute_args *args, int64_t b) {
    const int64_t N = args->x.shape[1], K = args->x.shape[2];
    T *x = (T *)cr_array_data(&args->x) + b * N * K;
    memcpy(x, (const T *)cr_array_data(&args->b) + b * N * K, (size_t)(N * K) * sizeof(T));
    return NAME(substitute)(args->x.storage, x, (const T *)cr_array_data(&args->a) + b * N * N, N, K, args->upper,
                            args->unit);
}

/* Systems [b, b + count) of a batch side by side. */
static bool NAME(substitute_group)(const cr_substitute_args *args, int64_t b, int64_t count) {
    const int64_t N = args->x.shape[1], K = args->x.shape[2];
    const size_t bytes = (size_t)(N * (N + K) * CR_FACTOR_LANES) * sizeof(T);
    T *a = cr_cpu_try_take(bytes), *x = a + N * N * CR_FACTOR_LANES;
    if (!a) return false;
    NAME(spread)(a, (const T *)cr_array_data(&args->a) + b * N * N, N * N, count);
    NAME(spread)(x, (const T *)cr_array_data(&args->b) + b * N * K, N * K, count);
    cr_cpu_vec()->factors->NAME(substitute)(x, a, N, K, args->upper, args->unit);
    NAME(collect)((T *)cr_array_data(&args->x) + b * N * K, x, N * K, count);
    cr_cpu_give(a, bytes);
    return true;
}

/* ---- solve: x = U^-1 L^-1 P b */
static bool NAME(solve_one)(const cr_solve_args *args, int64_t b) {
    const int64_t N = args->x.shape[1], K = args->x.shape[2];
    T *x = (T *)cr_array_data(&args->x) + b * N * K, *lu = (T *)cr_array_data(&args->lu) + b * N * N;
    const T *right = (const T *)cr_array_data(&args->b) + b * N * K;
    int64_t *order = (int64_t *)cr_array_data(&args->order) + b * N;
    int32_t *pivots = cr_cpu_try_take((size_t)N * sizeof *pivots);
    memcpy(lu, (const T *)cr_array_data(&args->a) + b * N * N, (size_t)(N * N) * sizeof(T));
    const bool done = pivots && NAME(lu)(args->lu.storage, lu, N, N, order, pivots);
    if (pivots) cr_cpu_give(pivots, (size_t)N * sizeof *pivots);
    for (int64_t i = 0; done && i < N; i++) memcpy(x + i * K, right + order[i] * K, (size_t)K * sizeof(T));
    return done && NAME(substitute)(args->x.storage, x, lu, N, K, false, true)
                && NAME(substitute)(args->x.storage, x, lu, N, K, true, false);
}

static bool NAME(solve_group)(const cr_solve_args *args, int64_t b, int64_t count) {
    const int64_t N = args->x.shape[1], K = args->x.shape[2];
    const size_t bytes = (size_t)(N * (N + K) * CR_FACTOR_LANES) * sizeof(T);
    const struct cr_factors *f = cr_cpu_vec()->factors;
    T best[SMALL * CR_FACTOR_LANES], *a = cr_cpu_try_take(bytes), *x = a + N * N * CR_FACTOR_LANES;
    if (!a) return false;
    NAME(spread)(a, (const T *)cr_array_data(&args->a) + b * N * N, N * N, count);
    NAME(spread)(x, (const T *)cr_array_data(&args->b) + b * N * K, N * K, count);
    f->NAME(lu)(a, x, best, N, N, K);
    f->NAME(substitute)(x, a, N, K, true, false);
    NAME(collect)((T *)cr_array_data(&args->lu) + b * N * N, a, N * N, count);
    NAME(collect)((T *)cr_array_data(&args->x) + b * N * K, x, N * K, count);
    for (int64_t l = 0; l < count; l++)
        NAME(order_of)((int64_t *)cr_array_data(&args->order) + (b + l) * N, NULL, best, l, N, N);
    cr_cpu_give(a, bytes);
    return true;
}
