/* index.cu - elements read and written by index: T elements, INDEX i32 or i64.  A bad index is noted; where there is one nothing is put. */
struct job {
    T *to;
    const T *from;
    const INDEX *index;
    fault *f;
    i64 M, K, N, bound, wrap, buckets;              /* of the index; wrap: -bound .. -1 mean bound more */
    i64 index_m, index_k, index_n, to_m, to_k, to_n, from_m, from_k, from_n;       /* strides; index: contiguous, so what they lead to is a position */
};

/* The index at a position as a row; -1 where it is bad. */
D i64 row_of(const job &p, i64 position) {
    const i64 v = (i64)p.index[position], r = p.wrap && v < 0 ? v + p.bound : v;
    if (r >= 0 && r < p.bound) return r;
    note(p.f, position, v);
    return -1;
}

/* to[m, k, n] = from[m, index[m, k, n], n] */
KERNEL(256) take(const job p) {
    const i64 numel = p.M * p.K * p.N, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, k = i / p.N % p.K, m = i / p.N / p.K, r = row_of(p, m * p.index_m + k * p.index_k + n * p.index_n);
        if (r >= 0) p.to[m * p.to_m + k * p.to_k + n * p.to_n] = p.from[m * p.from_m + r * p.from_k + n * p.from_n];
    }
}

KERNEL(256) check(const job p) {
    const i64 numel = (p.index_m ? p.M : 1) * p.K * (p.index_n ? p.N : 1), step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) row_of(p, i);
}

/* to[m, index[m, k, n], n] = from[m, k, n], or += it, in order of k.  A thread has m, n and those rows that are its bucket modulo buckets: so
 * many work at once and yet each place is written by one alone.  After `check`. */
KERNEL(256) put(const job p) {
    if (p.f->w[0] != ~0ull) return;
    const i64 numel = p.M * p.N * p.buckets, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, m = i / p.N % p.M, bucket = i / p.N / p.M;
        for (i64 k = 0; k < p.K; k++) {
            const i64 r = row_of(p, m * p.index_m + k * p.index_k + n * p.index_n);
            if ((u64)r % (u64)p.buckets != (u64)bucket) continue;
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

/* to = to bound + index, or index where first; a bad index makes it one that is bad wherever it is used */
KERNEL(256) ravel(i64 *to, const INDEX *index, fault *f, i64 numel, i64 bound, i64 first) {
    job p = {};
    p.index = index, p.f = f, p.bound = bound, p.wrap = 1;
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 r = row_of(p, i), before = first ? 0 : to[i], bad = 1ll << 62;
        to[i] = r < 0 || before == bad ? bad : before * bound + r;
    }
}
