/* argreduce.cu - where the first largest (MAX 1) or smallest of x (M, R, N) lies along R, of the candidates of each part: y (M, parts, N).
 * T elements.  Threads share a result as in reduce.cu. */

D bool beats(T first, T second) {
    const auto a = wide(first), b = wide(second);
    if (a != a || b != b) return b == b;            /* NaN wins */
    return MAX ? a > b : a < b;
}

/* candidates: of each result; before (M, candidates, N): where they lie; NULL: they are all of R */
KERNEL(256) arg_reduce(i64 *y, const T *x, const i64 *before, i64 N, i64 candidates, i64 stride_m, i64 stride_r, i64 stride_n, i64 parts, i64 part_size,
                        i64 results, i64 width, i64 along) {
    __shared__ T best[256];
    __shared__ i64 place[256];                      /* -1: none yet */
    const share s = share_of(width, along);
    const int t = (int)threadIdx.x;
    const i64 result = (i64)blockIdx.x * s.columns + s.column;
    const bool mine = result < results;
    const i64 n = result % N, part = result / N % parts, m = result / N / parts, begin = part * part_size, end = begin + part_size < candidates ? begin + part_size : candidates;
    const T *from = x + m * stride_m + n * stride_n;
    T top = T();
    i64 at = -1;
    for (i64 c = begin + s.lane; mine && c < end; c += s.width) {
        const i64 r = before ? before[(m * candidates + c) * N + n] : c;
        const T v = from[r * stride_r];
        if (at < 0 || beats(v, top)) top = v, at = r;
    }
    best[t] = top, place[t] = at;
    for (int half = s.width / 2; half > 0; half /= 2) {
        __syncthreads();
        const int other = t + half * s.step;
        if (s.lane < half && place[other] >= 0 && (place[t] < 0 || beats(best[other], best[t]) || (place[other] < place[t] && !beats(best[t], best[other]))))
            best[t] = best[other], place[t] = place[other];
    }
    if (mine && s.lane == 0) y[result] = place[t];
}
