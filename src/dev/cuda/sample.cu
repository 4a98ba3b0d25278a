/* sample.cu - positions drawn by weights w (M, N), T elements, as dev.h says of multinomial. */
D f64 uniform01(u64 seed, u64 counter, i64 i) {
    const block4 b = philox(seed, counter + (u64)i / 2);
    return (f64)((i % 2 ? b.w[2] | (u64)b.w[3] << 32 : b.w[0] | (u64)b.w[1] << 32) >> 11) * 1.1102230246251565e-16;
}

KERNEL(256) words(u64 *y, i64 numel, u64 seed, u64 counter) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const block4 b = philox(seed, counter + (u64)i / 2);
        y[i] = i % 2 ? b.w[2] | (u64)b.w[3] << 32 : b.w[0] | (u64)b.w[1] << 32;
    }
}

/* sums[m, n] = w[m, 0] + ... + w[m, n], in order: a thread has a row */
KERNEL(256) running(f64 *sums, const T *w, i64 M, i64 N) {
    const i64 m = (i64)blockIdx.x * 256 + threadIdx.x;
    if (m >= M) return;
    f64 sum = 0;
    for (i64 n = 0; n < N; n++) sums[m * N + n] = sum += cast<f64>(w[m * N + n]);
}

/* The first position whose running sum is above the share u of the whole. */
KERNEL(256) draw(i64 *y, const f64 *sums, i64 M, i64 N, i64 S, u64 seed, u64 counter) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < M * S; i += step) {
        const f64 *row = sums + i / S * N, wanted = uniform01(seed, counter, i) * row[N - 1];
        i64 low = 0, high = N - 1;
        while (low < high) {
            const i64 middle = (low + high) / 2;
            if (row[middle] > wanted) high = middle;
            else low = middle + 1;
        }
        y[i] = low;
    }
}

/* -log(1 - u) / w, at most the largest number; infinity for a weight of 0 */
KERNEL(256) times(f64 *y, const T *w, i64 numel, u64 seed, u64 counter) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < numel; i += step) {
        const f64 weight = cast<f64>(w[i]), t = -f_log(1 - uniform01(seed, counter, i)) / weight;
        y[i] = weight > 0 ? (t < 1.7976931348623157e308 ? t : 1.7976931348623157e308) : infinity<f64>();
    }
}
