/* index.cu - elements read and written by index: T elements, INDEX i32 or i64.  Sorted indices: A
 * accumulators, KEY the type of destinations.  A bad index is noted as a fault; if there is one,
 * nothing is put. */
typedef struct index_arguments {
    POINTER(T) to;
    POINTER(const T) from;
    POINTER(const INDEX) index;
    POINTER(fault) f;
    i64 M, K, N, bound, wrap, buckets;              /* sizes of the index; wrap: -bound .. -1 count from the end */
    /* strides; index is contiguous, so they give a position */
    i64 index_m, index_k, index_n, to_m, to_k, to_n, from_m, from_k, from_n;
} index_arguments;
typedef struct ravel_arguments {
    POINTER(i64) to;
    POINTER(const INDEX) index;
    POINTER(fault) f;
    i64 numel, bound, first;                        /* first: there is no index before this one */
} ravel_arguments;
#if !defined __cplusplus || defined KEY
typedef struct runs_arguments {
    index_arguments p;                              /* K: of all that is sorted; to_k: from one key to the next */
    POINTER(KEY) keys;
    POINTER(const i64) order;                       /* positions along K, in the order of the keys */
    POINTER(A) parts;                               /* (chunks, M, N) */
    i64 chunk, chunks;
} runs_arguments;
#endif

#ifdef __cplusplus
typedef index_arguments job;

/* The index at a position as a row; -1: out of range. */
D i64 row_of(const job &p, i64 position) {
    const i64 v = (i64)p.index[position], r = p.wrap && v < 0 ? v + p.bound : v;
    if (r >= 0 && r < p.bound) return r;
    note(p.f, position, v);
    return -1;
}

D T *element_of(const job &p, i64 m, i64 row, i64 n) { return p.to + m * p.to_m + row * p.to_k + n * p.to_n; }
D T value_of(const job &p, i64 m, i64 k, i64 n) { return p.from[m * p.from_m + k * p.from_k + n * p.from_n]; }
template <class V> D void add(T *at, V v) {
    if constexpr (is_float<T>) *at = cast<T>(wide(*at) + wide(v));
    else *at = cast<T>(cast<u64>(*at) + cast<u64>(v));
}

#ifndef KEY
/* to[m, k, n] = from[m, index[m, k, n], n] */
KERNEL(256) take(const job p) {
    const i64 numel = p.M * p.K * p.N, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, k = i / p.N % p.K, m = i / p.N / p.K,
                  r = row_of(p, m * p.index_m + k * p.index_k + n * p.index_n);
        if (r >= 0) p.to[m * p.to_m + k * p.to_k + n * p.to_n] = p.from[m * p.from_m + r * p.from_k + n * p.from_n];
    }
}

KERNEL(256) check(const job p) {
    const i64 numel = (p.index_m ? p.M : 1) * p.K * (p.index_n ? p.N : 1), step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) row_of(p, i);
}

/* to[m, index[m, k, n], n] = from[m, k, n], or += it, in order of k.  A thread has one m, one n and
 * the rows that are congruent to its bucket modulo buckets, a power of two: many threads work at once,
 * and each destination belongs to one of them.  Runs after `check`. */
KERNEL(256) put(const job p) {
    if (p.f->w[0] != ~0ull) return;
    const i64 numel = p.M * p.N * p.buckets, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, m = i / p.N % p.M, bucket = i / p.N / p.M;
        for (i64 k = 0; k < p.K; k++) {
            const i64 r = row_of(p, m * p.index_m + k * p.index_k + n * p.index_n);
            if ((r & (p.buckets - 1)) != bucket) continue;
            T *at = element_of(p, m, r, n);
            const T v = value_of(p, m, k, n);
#if ADD
            add(at, v);
#else
            *at = v;
#endif
        }
    }
}

/* to = to bound + index, or index where first; after a bad index, an index that is out of range for every size */
KERNEL(256) ravel(const ravel_arguments a) {
    job p = {};
    p.index = a.index, p.f = a.f, p.bound = a.bound, p.wrap = 1;
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < a.numel; i += step) {
        const i64 r = row_of(p, i), before = a.first ? 0 : a.to[i], bad = 1ll << 62;
        a.to[i] = r < 0 || before == bad ? bad : before * a.bound + r;
    }
}
#else
/* ---- long indices with few columns: sorted by destination; equal destinations form a run.  A thread
 * has a chunk of the keys for one m and n.  The sum of a run in a chunk where the run does not begin
 * is a part; the thread of the first part adds the parts of a run. */
typedef runs_arguments runs;

/* keys of a contiguous index (M, K, N): destinations in (M, bound, N), counted in elements */
KERNEL(256) number(const runs r) {
    const job &p = r.p;
    const i64 numel = p.M * p.K * p.N, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 row = row_of(p, i);
        r.keys[i] = row < 0 ? (KEY)0 : (KEY)((i / p.N / p.K * p.bound + row) * p.N + i % p.N);
    }
}

KERNEL(256) put_runs(const runs r) {
    const job &p = r.p;
    if (p.f->w[0] != ~0ull) return;
    const i64 numel = r.chunks * p.M * p.N, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 n = i % p.N, m = i / p.N % p.M, begin = i / p.N / p.M * r.chunk,
                  end = begin + r.chunk < p.K ? begin + r.chunk : p.K;
        A sum = 0;
        bool is_part = begin > 0 && r.keys[begin - 1] == r.keys[begin];
        for (i64 k = begin; k < end; k++) {
            const KEY key = r.keys[k];
            const T v = value_of(p, m, r.order[k], n);
#if ADD
            sum += cast<A>(v);
            if (k + 1 < end && r.keys[k + 1] == key) continue;
            if (is_part) r.parts[i] = sum;
            else add(element_of(p, m, (i64)key, n), sum);
            sum = 0, is_part = false;
#else
            if (k + 1 == p.K || r.keys[k + 1] != key) *element_of(p, m, (i64)key, n) = v;      /* the last one wins */
#endif
        }
    }
}

#if ADD
KERNEL(256) put_parts(const runs r) {
    const job &p = r.p;
    if (p.f->w[0] != ~0ull) return;
    const i64 columns = p.M * p.N, numel = r.chunks * columns, step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const i64 c = i / columns, begin = c * r.chunk;
        const KEY key = r.keys[begin];
        if (c == 0 || r.keys[begin - 1] != key || (c > 1 && r.keys[begin - r.chunk - 1] == key)) continue;
        A sum = 0;
        for (i64 at = c; at < r.chunks && r.keys[at * r.chunk] == key; at++) sum += r.parts[i + (at - c) * columns];
        add(element_of(p, i / p.N % p.M, (i64)key, i % p.N), sum);
    }
}
#endif
#endif
#endif
