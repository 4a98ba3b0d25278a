/* order.cu - sorted rows of x (M, R), single elements of them, places in them, runs of equal rows: T elements, U their keys, DESCENDING.
 *
 * Keys are unsigned numbers in the elements' order: NaN is the largest, -0 is 0.  Tiles of 512 are sorted in shared memory (bitonic, by key and
 * place, so that equal ones keep their order), then pairs of runs become one: each element finds its rank in the other run. */
template <class W> D U key_of(W x) {
    if constexpr (same<W, f32>) {
        const u32 u = bits_of(x);
        return x != x ? ~0u : x == 0 ? 0x80000000u : u & 0x80000000u ? ~u : u | 0x80000000u;
    } else if constexpr (same<W, f64>) {
        union { f64 x; u64 u; } v;
        v.x = x;
        return x != x ? ~0ull : x == 0 ? 1ull << 63 : v.u >> 63 ? ~v.u : v.u | 1ull << 63;
    } else {
        return (U)x ^ (is_signed<W> ? (U)1 << (8 * sizeof(U) - 1) : (U)0);
    }
}
D U key(T x) { return DESCENDING ? ~key_of(wide(x)) : key_of(wide(x)); }

KERNEL(256) sort_tiles(U *keys, i64 *order, const T *x, i64 R, i64 tiles) {
    enum { TILE = 512 };
    __shared__ U k[TILE];
    __shared__ i32 from[TILE];
    const int t = (int)threadIdx.x;
    const i64 row = (i64)blockIdx.x / tiles * R, start = (i64)blockIdx.x % tiles * TILE;
    for (int i = t; i < TILE; i += 256) {
        k[i] = start + i < R ? key(x[row + start + i]) : ~(U)0;
        from[i] = i;                                /* what is beyond the row lies behind its equals */
    }
    for (int size = 2; size <= TILE; size *= 2)
        for (int half = size / 2; half > 0; half /= 2) {
            __syncthreads();
            const int a = 2 * t - (t & (half - 1)), b = a + half;
            const bool up = !(a & size), more = k[a] > k[b] || (k[a] == k[b] && from[a] > from[b]);
            if (more == up) {
                const U swap = k[a];
                const i32 swap_from = from[a];
                k[a] = k[b], from[a] = from[b];
                k[b] = swap, from[b] = swap_from;
            }
        }
    __syncthreads();
    for (int i = t; i < TILE && start + i < R; i += 256) {
        keys[row + start + i] = k[i];
        order[row + start + i] = start + from[i];
    }
}

/* How many of n keys in order are less than k; equal: or equal to it. */
D i64 rank(const U *keys, i64 n, U k, bool equal) {
    i64 low = 0, high = n;
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (keys[middle] < k || (equal && keys[middle] == k)) low = middle + 1;
        else high = middle;
    }
    return low;
}

KERNEL(256) merge(U *keys, i64 *order, const U *keys_in, const i64 *order_in, i64 M, i64 R, i64 length) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < M * R; i += step) {
        const i64 row = i / R * R, r = i - row, run = r / length, second = run & 1, other = (run ^ 1) * length < R ? (run ^ 1) * length : R;
        const i64 n = other + length < R ? length : R - other, pair = (run - second) * length;
        const i64 to = row + pair + (r - run * length) + rank(keys_in + row + other, n, keys_in[i], second);
        keys[to] = keys_in[i];
        order[to] = order_in[i];
    }
}

KERNEL(256) pick(T *y, i64 *index, const T *x, const i64 *order, i64 M, i64 R, i64 K) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < M * K; i += step) {
        const i64 m = i / K, from = order[m * R + i % K];
        if (y) y[i] = x[m * R + from];
        index[i] = from;
    }
}

/* k: dev.h's cr_kth */
KERNEL(256) kth(T *y, i64 *index, const T *x, const U *keys, const i64 *order, i64 M, i64 R, i64 k) {
    const i64 m = (i64)blockIdx.x * 256 + threadIdx.x;
    if (m >= M) return;
    const i64 numbers = is_float<T> ? rank(keys + m * R, R, ~(U)0, false) : R;
    const i64 at = k == -1 ? (numbers < R ? numbers : (R - 1) / 2) : k == -2 ? (numbers ? (numbers - 1) / 2 : 0) : k, from = order[m * R + at];
    y[m] = x[m * R + from];
    index[m] = from;
}

/* y[m, k]: how many of row m of x, which is in order, are less than v[m, k]; right: or equal */
KERNEL(256) search(i64 *y, const T *x, const T *v, i64 M, i64 R, i64 K, i64 shared, i64 right) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < M * K; i += step) {
        const T *row = x + (shared ? 0 : i / K * R);
        const U k = key(v[i]);
        i64 low = 0, high = R;
        while (low < high) {
            const i64 middle = (low + high) / 2;
            const U there = key(row[middle]);
            if (there < k || (right && there == k)) low = middle + 1;
            else high = middle;
        }
        y[i] = low;
    }
}

/* fresh[i]: row i of x (R, C) is not equal to the one before it */
KERNEL(256) fresh_rows(b8 *fresh, const T *x, i64 R, i64 C) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= R) return;
    bool different = i == 0;
    for (i64 c = 0; c < C && !different; c++) different = !(wide(x[i * C + c]) == wide(x[(i - 1) * C + c]));
    fresh[i] = b8{different};
}
