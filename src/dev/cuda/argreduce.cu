/* argreduce.cu - the position along R of the first largest (MAX 1) or smallest of the candidates in
 * each part of x (M, R, N): y (M, parts, N). T elements.  Threads share a result as in reduce.cu. */
typedef struct arg_reduce_arguments {
    POINTER(i64) y;
    POINTER(const T) x;
    POINTER(const i64) before;                      /* (M, candidates, N): positions of the candidates along R; NULL:
                                                     * all of R */
    i64 N, candidates, stride_m, stride_r, stride_n;
    i64 parts, part_size, results, width, along;
} arg_reduce_arguments;

#ifdef __cplusplus
D bool beats(T first, T second) {
    const auto a = wide(first), b = wide(second);
    if (a != a || b != b) return b == b;            /* NaN wins */
    return MAX ? a > b : a < b;
}

KERNEL(256) arg_reduce(const arg_reduce_arguments p) {
    __shared__ T best[256];
    __shared__ i64 position[256];                   /* -1: none yet */
    const share s = share_of(p.width, p.along);
    const int t = (int)threadIdx.x;
    const i64 result = (i64)blockIdx.x * s.columns + s.column;
    const bool mine = result < p.results;
    const i64 n = result % p.N, part = result / p.N % p.parts, m = result / p.N / p.parts;
    const i64 begin = part * p.part_size, end = begin + p.part_size < p.candidates ? begin + p.part_size : p.candidates;
    const T *from = p.x + m * p.stride_m + n * p.stride_n;
    T top = T();
    i64 at = -1;
    for (i64 c = begin + s.lane; mine && c < end; c += s.width) {
        const i64 r = p.before ? p.before[(m * p.candidates + c) * p.N + n] : c;
        const T v = from[r * p.stride_r];
        if (at < 0 || beats(v, top)) top = v, at = r;
    }
    best[t] = top, position[t] = at;
    for (int half = s.width / 2; half > 0; half /= 2) {
        __syncthreads();
        const int other = t + half * s.step;
        if (s.lane < half && position[other] >= 0 &&
            (position[t] < 0 || beats(best[other], best[t])
             || (position[other] < position[t] && !beats(best[t], best[other]))))
            best[t] = best[other], position[t] = position[other];
    }
    if (mine && s.lane == 0) p.y[result] = position[t];
}
#endif
