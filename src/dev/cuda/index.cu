/* index.cu - elements read and written by index: T elements, INDEX i32 or i64.  Nothing is read or written by a bad index, which is noted. */
struct job {
    T *to;
    const T *from;
    const INDEX *index;
    fault *f;
    i64 M, K, N, bound, wrap, buckets;              /* of the index; wrap: -bound .. -1 mean bound more */
    i64 index_m, index_k, index_n, to_m, to_k, to_n, from_m, from_k, from_n;       /* strides; index: contiguous, so what they lead to is a position */
};

/* The index at a position as a row; -1 where it is bad. */
D i64 row_of(const job &p, i64 position, bool noted) {
    const i64 v = (i64)p.index[position], r = p.wrap && v < 0 ? v + p.bound : v;
    if (r >= 0 && r < p.bound) return r;
    if (noted) note(p.f, position, v);
    return -1;
}

/* to[m, k, n] = from[m, index[m, k, n], n] */
extern "C" __global__ void __launch_bounds__(256) take(const job p) {
    const i64 numel = p.M * p.K * p.N, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, k = i / p.N % p.K, m = i / p.N / p.K, r = row_of(p, m * p.index_m + k * p.index_k + n * p.index_n, true);
        if (r >= 0) p.to[m * p.to_m + k * p.to_k + n * p.to_n] = p.from[m * p.from_m + r * p.from_k + n * p.from_n];
    }
}

/* to[m, index[m, k, n], n] = from[m, k, n], or += it, in order of k.  A thread has m, n and those rows that are its bucket modulo buckets: so
 * many work at once and yet each place is written by one alone. */
extern "C" __global__ void __launch_bounds__(256) put(const job p) {
    const i64 numel = p.M * p.N * p.buckets, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, m = i / p.N % p.M, bucket = i / p.N / p.M;
        for (i64 k = 0; k < p.K; k++) {
            const i64 r = row_of(p, m * p.index_m + k * p.index_k + n * p.index_n, bucket == 0);
            if (r < 0 || (u64)r % (u64)p.buckets != (u64)bucket) continue;
            T *at = p.to + m * p.to_m + r * p.to_k + n * p.to_n;
            const T v = p.from[m * p.from_m + k * p.from_k + n * p.from_n];
#if ADD
            if constexpr (is_float<T>) *at = cast<T>(wide(*at) + wide(v));
            else *at = cast<T>(cast<u64>(*at) + cast<u64>(v));
#else
            *at = v;
#endif
        }
    }
}

/* to = to bound + index, or index where first */
extern "C" __global__ void __launch_bounds__(256) ravel(i64 *to, const INDEX *index, fault *f, i64 numel, i64 bound, i64 first) {
    job p = {};
    p.index = index, p.f = f, p.bound = bound, p.wrap = 1;
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 r = row_of(p, i, true);
        to[i] = (first ? 0 : to[i] * bound) + (r < 0 ? 0 : r);
    }
}
