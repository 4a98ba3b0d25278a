/* factor.cu - Cholesky and LU factors of matrices of up to FACTOR_SMALL rows and columns, triangular systems of as many
 * rows, and what cuSOLVER's results need before and after.  T: f32 or f64, also the type of computation.
 *
 * A warp has a small matrix in shared memory, a lane one of its rows: limited by the steps, which wait for each other.
 * A thread has a column of a system in registers.  Speed: not measured. */
enum { FACTOR_SMALL = 32, FACTOR_WARPS = 4 };       /* FACTOR_WARPS: of a block */

/* x, y (count, M, N), order (count, M), pivots (count, min(M, N)) */
typedef struct factor_arguments {
    POINTER(T) y;
    POINTER(const T) x;
    POINTER(i64) order;
    POINTER(i32) pivots;
    i64 count, M, N;
} factor_arguments;

/* rows first .. first + n - 1 of x (count, N, K), of the rows `order` of b less `sums` (count, n, K): order and sums
 * may be NULL; a (count, N, N) */
typedef struct substitute_arguments {
    POINTER(T) x;
    POINTER(const T) a, b, sums;
    POINTER(const i64) order;
    i64 count, N, K, first, n, upper, unit;
} substitute_arguments;

/* to[j, i] (turned) or to[i, j] = from[i, j] of count matrices, rows from_row and to_row elements apart.  lower: zeros
 * above the diagonal.  bad (count, 2): cuSOLVER's info, and whether an element that is kept is not finite.  check:
 * writes the latter, and 0 for such an element; else, where bad is not NULL, a matrix with one of them is NaN. */
typedef struct move_arguments {
    POINTER(T) to;
    POINTER(const T) from;
    POINTER(i32) bad;
    i64 count, rows, columns, to_row, to_batch, from_row, from_batch, turned, lower, check;
} move_arguments;

typedef struct exchange_arguments {                 /* from: cuSOLVER's pivots (count, K) */
    POINTER(const i64) from;
    POINTER(i64) order;
    POINTER(i32) pivots;                            /* may be NULL */
    i64 count, M, K;
} exchange_arguments;

#ifdef __cplusplus
enum { ROW = FACTOR_SMALL + 1 };                    /* elements from one row to the next in shared memory: no two begin
                                                     * in one bank */
__shared__ T matrices[FACTOR_WARPS * FACTOR_SMALL * ROW];

D T *fetch(const factor_arguments &p, i64 b) {
    const int lane = (int)threadIdx.x % 32;
    T *a = matrices + (int)threadIdx.x / 32 * FACTOR_SMALL * ROW;
    if (lane < p.N)
        for (int i = 0; i < p.M; i++) a[i * ROW + lane] = p.x[(b * p.M + i) * p.N + lane];
    __syncwarp();
    return a;
}

/* a = L L^T; NaN from the first pivot that is not above 0 */
KERNEL(32 * FACTOR_WARPS) cholesky(const factor_arguments p) {
    const int lane = (int)threadIdx.x % 32, N = (int)p.N;
    const i64 b = (i64)blockIdx.x * FACTOR_WARPS + (i64)threadIdx.x / 32;
    if (b >= p.count) return;
    T *a = fetch(p, b), *own = a + lane * ROW;
    for (int j = 0; j < N; j++) {
        const T pivot = a[j * ROW + j], root = pivot > 0 ? sqrt(pivot) : quiet_nan<T>();
        __syncwarp();
        if (lane < N && lane >= j) own[j] = lane == j ? root : own[j] / root;
        __syncwarp();
        if (lane < N)
            for (int k = j + 1; k <= lane; k++) own[k] -= own[j] * a[k * ROW + j];
        __syncwarp();
    }
    if (lane < N)
        for (int i = 0; i < N; i++) p.y[(b * N + i) * N + lane] = lane <= i ? a[i * ROW + lane] : (T)0;
}

/* a = P L U with partial pivoting: the first of the largest elements.  A column of zeros is left as it is. */
KERNEL(32 * FACTOR_WARPS) lu(const factor_arguments p) {
    __shared__ int orders[FACTOR_WARPS * FACTOR_SMALL];
    const int lane = (int)threadIdx.x % 32, M = (int)p.M, N = (int)p.N, K = M < N ? M : N;
    const i64 b = (i64)blockIdx.x * FACTOR_WARPS + (i64)threadIdx.x / 32;
    if (b >= p.count) return;
    T *a = fetch(p, b), *own = a + lane * ROW;
    int *order = orders + (int)threadIdx.x / 32 * FACTOR_SMALL;
    order[lane] = lane;
    for (int j = 0; j < K; j++) {
        int best = j;
        T most = fabs(a[j * ROW + j]);
        for (int i = j + 1; i < M; i++) {
            const T size = fabs(a[i * ROW + j]);
            if (size > most) most = size, best = i;
        }
        __syncwarp();
        if (best != j && lane < N) {
            const T v = a[j * ROW + lane];
            a[j * ROW + lane] = a[best * ROW + lane];
            a[best * ROW + lane] = v;
        }
        if (lane == 0) {
            const int row = order[j];
            order[j] = order[best];
            order[best] = row;
            if (p.pivots) p.pivots[b * K + j] = best + 1;
        }
        __syncwarp();
        if (lane > j && lane < M) {
            const T pivot = a[j * ROW + j];
            if (pivot != 0) own[j] /= pivot;
            for (int k = j + 1; k < N; k++) own[k] -= own[j] * a[j * ROW + k];
        }
        __syncwarp();
    }
    if (lane < M) p.order[b * M + lane] = order[lane];
    if (lane < N)
        for (int i = 0; i < M; i++) p.y[(b * M + i) * N + lane] = a[i * ROW + lane];
}

KERNEL(256) substitute(const substitute_arguments p) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x, matrix = at / p.K, column = at % p.K;
    if (matrix >= p.count) return;
    const T *a = p.a + matrix * p.N * p.N;
    const int n = (int)p.n;
    T v[FACTOR_SMALL];
#pragma unroll
    for (int step = 0; step < FACTOR_SMALL; step++) {
        if (step < n) {
            const i64 i = p.first + (p.upper ? n - 1 - step : step), from = p.order ? p.order[matrix * p.N + i] : i;
            const T *row = a + i * p.N + (p.upper ? i : p.first);
            T sum = p.b[(matrix * p.N + from) * p.K + column];
            if (p.sums) sum -= p.sums[(matrix * n + i - p.first) * p.K + column];
#pragma unroll
            for (int k = 0; k < FACTOR_SMALL; k++)
                if (k < step) sum -= row[p.upper ? step - k : k] * v[k];
            v[step] = p.unit ? sum : sum / a[i * p.N + i];
            p.x[(matrix * p.N + i) * p.K + column] = v[step];
        }
    }
}

/* A block moves a tile, rows of it to rows or to columns. */
KERNEL(256) move(const move_arguments p) {
    __shared__ T tile[32 * 33];
    const int x = (int)threadIdx.x % 32, y = (int)threadIdx.x / 32;
    const i64 across = (p.columns + 31) / 32, tiles = across * ((p.rows + 31) / 32);
    const i64 matrix = (i64)blockIdx.x / tiles, at = (i64)blockIdx.x % tiles;
    const i64 top = at / across * 32, left = at % across * 32;
    const bool spoiled = p.bad && !p.check && (p.bad[2 * matrix] | p.bad[2 * matrix + 1]);
    for (int r = y; r < 32; r += 8) {
        const i64 i = top + r, j = left + x;
        if (i >= p.rows || j >= p.columns) continue;
        T v = !p.lower || j <= i ? p.from[matrix * p.from_batch + i * p.from_row + j] : (T)0;
        if (p.check && v - v != 0) {
            v = 0;
            atomicAdd(&p.bad[2 * matrix + 1], 1);
        }
        tile[r * 33 + x] = spoiled ? quiet_nan<T>() : v;
    }
    __syncthreads();
    for (int r = y; r < 32; r += 8) {
        const i64 i = top + (p.turned ? x : r), j = left + (p.turned ? r : x);
        if (i >= p.rows || j >= p.columns) continue;
        const i64 to = p.turned ? j * p.to_row + i : i * p.to_row + j;
        p.to[matrix * p.to_batch + to] = tile[(p.turned ? x : r) * 33 + (p.turned ? r : x)];
    }
}

/* cuSOLVER's Cholesky factors y (count, N, N), in place: zeros above the diagonal, NaN from the first bad pivot on */
KERNEL(256) lower(const move_arguments p) {
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x, N = p.rows, matrix = at / (N * N), i = at / N % N, j = at % N;
    if (matrix >= p.count) return;
    const int info = p.bad[2 * matrix];
    if (j > i) p.to[at] = 0;
    else if (info > 0 && j >= info - 1) p.to[at] = quiet_nan<T>();
}

/* A thread has a matrix: each exchange needs the one before. */
KERNEL(256) exchanges(const exchange_arguments p) {
    const i64 matrix = (i64)blockIdx.x * 256 + threadIdx.x;
    if (matrix >= p.count) return;
    i64 *order = p.order + matrix * p.M;
    for (i64 i = 0; i < p.M; i++) order[i] = i;
    for (i64 i = 0; i < p.K; i++) {
        const i64 given = p.from[matrix * p.K + i], other = given >= 1 && given <= p.M ? given - 1 : i;
        const i64 row = order[i];
        order[i] = order[other];
        order[other] = row;
        if (p.pivots) p.pivots[matrix * p.K + i] = (i32)(other + 1);
    }
}
#endif
