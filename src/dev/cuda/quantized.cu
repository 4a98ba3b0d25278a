/* quantized.cu - weights of 4 or 8 bits (kernels.def has their layout): T floats, A the type of computation, BITS.
 *
 * dequantize: a thread for 8 neighbouring elements.  linear: a warp for a row of w, which it reads once for up to
 * QUANTIZED_ROWS rows of x, 16 bytes of codes a lane at a time.  Limited by the bytes of the codes. */
/* w (N, K), a scale for each G neighbours of a row */
enum { QUANTIZED_ROWS = 8 };                        /* of x, for which a row of w is read once */
typedef struct dequantize_arguments {
    POINTER(T) y;                                   /* (N, K) */
    POINTER(const u8) codes;
    POINTER(const f16) scales;
    i64 numel, K, G, codes_n, scales_n;             /* _n: from row to row */
} dequantize_arguments;
typedef struct linear_quantized_arguments {
    POINTER(T) y;                                   /* (M, N) */
    POINTER(const T) x;                             /* (M, K) */
    POINTER(const u8) codes;
    POINTER(const f16) scales;
    POINTER(const T) bias;                          /* (N): optional */
    i64 M, N, K, G, codes_n, scales_n;
} linear_quantized_arguments;

#ifdef __cplusplus
/* the code at k of a row of codes */
D int code_at(const u8 *row, i64 k) {
#if BITS == 8
    return (int)(signed char)row[k];
#else
    const int byte = row[k / 32 * 16 + k % 16];
    return (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
#endif
}

KERNEL(256) dequantize(const dequantize_arguments p) {
    const i64 i = ((i64)blockIdx.x * 256 + threadIdx.x) * 8, n = i / p.K, k = i % p.K;
    if (i >= p.numel) return;
    const u8 *row = p.codes + n * p.codes_n;
    const A scale = cast<A>(wide(p.scales[n * p.scales_n + k / p.G]));
    for (int j = 0; j < 8; j++) p.y[i + j] = cast<T>(scale * (A)code_at(row, k + j));
}

/* y (M, N) = x (M, K) w^T [+ bias] for M <= QUANTIZED_ROWS */
KERNEL(256) linear(const linear_quantized_arguments p) {
    enum { CODES = 128 / BITS };                    /* of 16 bytes */
    __shared__ A shared[256];
    const share s = share_of(32, 1);
    const i64 n = (i64)blockIdx.x * s.columns + s.column;
    const bool mine = n < p.N;
    A sum[QUANTIZED_ROWS] = {};
    if (mine) {
        const u8 *row = p.codes + n * p.codes_n;
        const f16 *scales = p.scales + n * p.scales_n;
        for (i64 k = (i64)s.lane * CODES; k < p.K; k += (i64)s.width * CODES) {
            pack<u8, 16> codes;
            const u8 *from = row + k * BITS / 8;
            if ((u64)from % 16 == 0) codes = *(const pack<u8, 16> *)from;
            else for (int j = 0; j < 16; j++) codes.v[j] = from[j];
            const A scale = cast<A>(wide(scales[k / p.G]));
#pragma unroll
            for (int m = 0; m < QUANTIZED_ROWS; m++) {
                if (m >= p.M) break;
                const T *x = p.x + m * p.K + k;
                A part = 0;
                for (int j = 0; j < 16; j++) {
#if BITS == 8
                    part += cast<A>(x[j]) * (A)(int)(signed char)codes.v[j];
#else
                    part += cast<A>(x[j]) * (A)((codes.v[j] & 15) - 8);
                    part += cast<A>(x[j + 16]) * (A)((codes.v[j] >> 4) - 8);
#endif
                }
                sum[m] += scale * part;
            }
        }
    }
#pragma unroll
    for (int m = 0; m < QUANTIZED_ROWS; m++) {
        if (m >= p.M) break;
        const A all = tree<sum_of>(sum[m], shared, s);
        if (mine && s.lane == 0) p.y[m * p.N + n] = cast<T>(all + (p.bias ? cast<A>(p.bias[n]) : (A)0));
    }
}
#endif
