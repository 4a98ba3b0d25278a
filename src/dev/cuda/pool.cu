/* pool.cu - maxima of windows, and products with a banded matrix: T elements, A the type of
 * computation.  A thread has a result; for band, `width` neighbouring threads where a result has
 * many terms and there are few columns.  Limited by bytes: windows that overlap are read from the
 * caches. */
typedef struct max_pool_arguments {
    POINTER(T) y;
    POINTER(i64) index;
    POINTER(const T) x;
    i64 numel, in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
} max_pool_arguments;
typedef struct band_arguments {       /* y (M, S, N) */
    POINTER(T) y;
    POINTER(const T) x;
    POINTER(const i64) start;
    POINTER(const A) weights;                       /* (S, K) */
    i64 numel, S, N, K, x_m, x_r, x_n, width;       /* strides of x; width: threads that share a result */
} band_arguments;

#ifdef __cplusplus
/* y[n, p] = max over t of x[n, p stride + t dilation - pad] and its position: the first of equals, but the last NaN */
KERNEL(256) max_pool(const max_pool_arguments p) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;
    if (i >= p.numel) return;
    i64 first[3], rest = i, best = -1;
    for (int d = 2; d >= 0; d--) first[d] = rest % p.out[d] * p.stride[d] - p.pad[d], rest /= p.out[d];
    const T *x = p.x + rest * p.in[0] * p.in[1] * p.in[2];
    A most = 0;
    for (i64 t0 = 0, a = first[0]; t0 < p.kernel[0]; t0++, a += p.dilation[0]) {
        if ((u64)a >= (u64)p.in[0]) continue;
        for (i64 t1 = 0, b = first[1]; t1 < p.kernel[1]; t1++, b += p.dilation[1]) {
            if ((u64)b >= (u64)p.in[1]) continue;
            const i64 row = (a * p.in[1] + b) * p.in[2];
            for (i64 t2 = 0, c = first[2]; t2 < p.kernel[2]; t2++, c += p.dilation[2]) {
                if ((u64)c >= (u64)p.in[2]) continue;
                const A v = cast<A>(x[row + c]);
                if (best < 0 || v > most || v != v) best = row + c, most = v;
            }
        }
    }
    p.y[i] = best < 0 ? cast<T>(-infinity<A>()) : x[best];
    p.index[i] = best;
}

/* y[m, s, n] = sum over k of weights[s, k] x[m, start[s] + k, n]; a weight of 0 adds nothing */
KERNEL(256) band(const band_arguments p) {
    __shared__ A shared[256];
    const share s = share_of(p.width, 1);
    const i64 i = (i64)blockIdx.x * s.columns + s.column, row = i / p.N % p.S;
    const bool mine = i < p.numel;
    A sum = 0;
    if (mine) {
        const T *x = p.x + i / p.N / p.S * p.x_m + p.start[row] * p.x_r + i % p.N * p.x_n;
        const A *weights = p.weights + row * p.K;
#pragma unroll 4
        for (i64 k = s.lane; k < p.K; k += s.width) {
            const A w = weights[k];
            if (w != 0) sum += w * cast<A>(x[k * p.x_r]);
        }
    }
    sum = tree<sum_of>(sum, shared, s);
    if (mine && s.lane == 0) p.y[i] = cast<T>(sum);
}
#endif
