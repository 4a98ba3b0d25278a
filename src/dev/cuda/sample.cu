/* sample.cu - samples by weights, as dev.h defines them: T weights.  The words of a stream are those of random.cu. */
typedef struct draw_arguments {
    POINTER(i64) y;                                 /* (M, S) */
    POINTER(const f64) sums;                        /* (M, N): running sums of the weights */
    POINTER(const u64) words;                       /* (M, S): random */
    i64 draws, N, S;
} draw_arguments;
typedef struct wait_arguments {
    POINTER(f64) times;
    POINTER(const T) w;
    POINTER(const u64) words;
    i64 numel;
} wait_arguments;

#ifdef __cplusplus
#define EACH(i, n) for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < (n); i += (i64)gridDim.x * 256)

D f64 uniform(u64 word) { return (f64)(word >> 11) * 1.1102230246251565e-16; }

/* y[m, s] = the first position whose running sum (M, N) is above the row's total times the uniform of
 * its word (M, S) */
KERNEL(256) draw(const draw_arguments p) {
    EACH(i, p.draws) {
        const f64 *row = p.sums + i / p.S * p.N, wanted = uniform(p.words[i]) * row[p.N - 1];
        i64 low = 0, high = p.N - 1;
        while (low < high) {
            const i64 middle = (low + high) / 2;
            if (row[middle] > wanted) high = middle;
            else low = middle + 1;
        }
        p.y[i] = low;
    }
}

/* the time at which each position is drawn: infinity where its weight is 0 */
KERNEL(256) wait(const wait_arguments p) {
    EACH(i, p.numel) {
        const f64 weight = (f64)wide(p.w[i]);
        p.times[i] = weight > 0 ? fmin(-log(1 - uniform(p.words[i])) / weight, 1.7976931348623157e308)
                                : infinity<f64>();
    }
}
#endif
