/* reduce.cu - x (M, R, N) -> y (M, parts, N): T elements, A accumulators, TO results; KIND and MAP as in dev.h.
 *
 * `width` threads share a result: neighbouring threads along R (along), or along N, so that they read
 * neighbouring elements.  Where R is dense, a thread reads V elements at once.  Limited by bytes read. */
/* x (M, R, N) -> y (M, parts, N); `width` threads share a result */
typedef struct reduce_arguments {
    POINTER(TO) y;
    POINTER(const T) x;
    POINTER(const A) sums;                          /* (M, N): for MAP 6 (deviations from the mean) only */
    i64 R, N, stride_m, stride_r, stride_n;
    i64 parts, part_size, results, width, along;    /* results: M parts N; along: the threads are neighbours along R,
                                                     * not along N */
    f64 p;
} reduce_arguments;

#ifdef __cplusplus
/* blocks of a multiprocessor, at least: ptxas would spill for more */
constexpr int V = 16 / (int)sizeof(T), BLOCKS = sizeof(A) == 8 || V == 16 ? 2 : 4;

struct joined {
    static __device__ A join(A a, A b) {
        if constexpr (KIND == 2) return f_max(a, b);
        else if constexpr (KIND == 3) return f_min(a, b);
        else if constexpr (is_float<A>) return KIND ? a * b : a + b;
        else return (A)(KIND ? (u64)a * (u64)b : (u64)a + (u64)b);     /* wraps */
    }
};

template <class I> D I lowest() {
    if constexpr (is_float<I>) return -infinity<I>();
    else return is_signed<I> ? (I)(1ull << (8 * sizeof(I) - 1)) : (I)0;
}
template <class I> D I highest() {
    if constexpr (is_float<I>) return infinity<I>();
    else return is_signed<I> ? (I)((1ull << (8 * sizeof(I) - 1)) - 1) : (I)~0ull;
}
D A identity() {
    if (KIND < 2) return (A)KIND;
    if (MAP == 1) return (A)(KIND - 2);             /* the values are 0 and 1 */
    return KIND == 2 ? lowest<A>() : highest<A>();
}

D A mapped(T from, A mean, A p) {
#if MAP == 1
    return (A)(wide(from) != 0);
#else
    const A x = cast<A>(from);
#if MAP == 2
    return f_abs(x);
#elif MAP == 3
    return x * x;
#elif MAP == 4
    return f_pow(f_abs(x), p);
#elif MAP == 5
    return x != x ? (A)0 : x;
#elif MAP == 6
    return (x - mean) * (x - mean);
#else
    return x;
#endif
#endif
}

KERNEL(256, BLOCKS) reduce(const reduce_arguments p) {
    __shared__ A shared[256];
    const share s = share_of(p.width, p.along);
    const i64 result = (i64)blockIdx.x * s.columns + s.column;
    const bool mine = result < p.results;
    const i64 n = result % p.N, part = result / p.N % p.parts, m = result / p.N / p.parts;
    const i64 begin = part * p.part_size, end = begin + p.part_size < p.R ? begin + p.part_size : p.R;
    const T *from = p.x + m * p.stride_m + n * p.stride_n;
    A mean = 0, a = identity();
    if (MAP == 6 && mine) mean = p.sums[m * p.N + n] / (A)p.R;
    if (mine && p.along && p.stride_r == 1) {
        /* lead: elements before the first one in its pack, where packs begin at multiples of V from x */
        const i64 lead = (m * p.stride_m + n * p.stride_n + begin) & (V - 1), step = s.width * V, last = end - V + 1;
        i64 r = begin - lead + s.lane * V;
        const auto piece = [&] {
            for (int k = 0; k < V; k++)
                if (r + k >= begin && r + k < end) a = joined::join(a, mapped(from[r + k], mean, (A)p.p));
            r += step;
        };
        if (r < begin) piece();
        if ((u64)(from + r) % 16 == 0) {
            pack<T, V> v[4];
            for (; r + 3 * step < last; r += 4 * step) {
#pragma unroll
                for (int i = 0; i < 4; i++) v[i] = *(const pack<T, V> *)(from + r + i * step);
#pragma unroll
                for (int i = 0; i < 4 * V; i++) a = joined::join(a, mapped(v[i / V].v[i % V], mean, (A)p.p));
            }
#pragma unroll 1
            for (; r < last; r += step) {
                v[0] = *(const pack<T, V> *)(from + r);
                for (int k = 0; k < V; k++) a = joined::join(a, mapped(v[0].v[k], mean, (A)p.p));
            }
        }
        while (r < end) piece();
    }
    else if (mine) {
#pragma unroll 8
        for (i64 r = begin + s.lane; r < end; r += s.width)
            a = joined::join(a, mapped(from[r * p.stride_r], mean, (A)p.p));
    }
    a = tree<joined>(a, shared, s);
    if (mine && s.lane == 0) p.y[result] = cast<TO>(a);
}
#endif
