/* matmul.cu - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)] for any strides and
 * dtypes T, summed in A along K in order; c and bias of dtype TO.
 *
 * A block computes 64 x 64 results, a thread 4 x 4 of them in registers.  In each step the block loads
 * its parts of a and b for 16 of K into shared memory: an element read from shared memory serves 4
 * products, an element read from the tensor 64.  ROUND: factors are rounded to bf16. */
/* c (batch, M, N) = [c +] a (batch, M, K) b (batch, K, N) [+ bias (N)] */
enum { MATMUL_EDGE = 64, MATMUL_BATCH_AXES = 6 };           /* a block has EDGE x EDGE results */
typedef struct matmul_arguments {
    POINTER(TO) c;
    POINTER(const T) a, b;
    POINTER(const TO) bias;
    i64 M, N, K, across, tiles;                     /* tiles of a row of tiles, and of a matrix */
    i64 a_m, a_k, b_k, b_n, c_m, bias_n;            /* strides */
    i64 add, a_along_k, b_along_k;                  /* add: to c; along_k: the smaller stride is the one along K */
    i64 axes;                                       /* of the batch */
    struct { i64 size, a, b, c; } batch[MATMUL_BATCH_AXES];         /* size and strides of each axis */
} matmul_arguments;
typedef struct round_arguments {
    POINTER(pack<bf16, 8>) y;                       /* (matrices, columns, packs of 8 elements) */
    POINTER(const float) x;
    i64 packs, rows, columns, stride, batch_stride;
} round_arguments;
typedef struct bias_arguments {
    POINTER(TO) c;                                  /* (matrices, M, N); a thread has V neighbours of a row, 16 bytes */
    POINTER(const TO) bias;                         /* (N), of stride bias_n */
    i64 packs, M, N, c_batch, c_m, bias_n, add;     /* add: c += bias, else c = bias */
} bias_arguments;

#ifdef __cplusplus
D A factor(T x) {
#if ROUND
    return wide(to_bf16(cast<f32>(x)));
#else
    return cast<A>(x);
#endif
}

KERNEL(256, sizeof(A) == 8 ? 2 : 3) matmul(const matmul_arguments p) {
    enum { EDGE = MATMUL_EDGE, DEPTH = 16, TILE = 4 };
    __shared__ A part_a[DEPTH][EDGE + 1], part_b[DEPTH][EDGE + 1];
    const int t = (int)threadIdx.x, row = t / 16, column = t % 16;
    const T *a = p.a, *b = p.b;
    TO *c = p.c;
    i64 rest = (i64)blockIdx.x / p.tiles;
    for (int d = (int)p.axes - 1; d >= 0; d--) {
        const i64 i = rest % p.batch[d].size;
        rest /= p.batch[d].size;
        a += i * p.batch[d].a, b += i * p.batch[d].b, c += i * p.batch[d].c;
    }
    const i64 tile = (i64)blockIdx.x % p.tiles, m0 = tile / p.across * EDGE, n0 = tile % p.across * EDGE;
    A sum[TILE][TILE] = {};
    for (i64 k0 = 0; k0 < p.K; k0 += DEPTH) {
        for (int i = t; i < DEPTH * EDGE; i += 256) {
            const int da = p.a_along_k ? i % DEPTH : i / EDGE, ea = p.a_along_k ? i / DEPTH : i % EDGE;
            const int db = p.b_along_k ? i % DEPTH : i / EDGE, eb = p.b_along_k ? i / DEPTH : i % EDGE;
            part_a[da][ea] = k0 + da < p.K && m0 + ea < p.M ? factor(a[(m0 + ea) * p.a_m + (k0 + da) * p.a_k]) : (A)0;
            part_b[db][eb] = k0 + db < p.K && n0 + eb < p.N ? factor(b[(k0 + db) * p.b_k + (n0 + eb) * p.b_n]) : (A)0;
        }
        __syncthreads();
        for (int d = 0; d < DEPTH; d++) {
            A x[TILE], y[TILE];
            for (int i = 0; i < TILE; i++) x[i] = part_a[d][row + 16 * i], y[i] = part_b[d][column + 16 * i];
            for (int i = 0; i < TILE; i++)
                for (int j = 0; j < TILE; j++) sum[i][j] += x[i] * y[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) {
            const i64 m = m0 + row + 16 * i, n = n0 + column + 16 * j;
            if (m >= p.M || n >= p.N) continue;
            TO *at = c + m * p.c_m + n;
            A v = sum[i][j];
            if (p.bias) v += cast<A>(p.bias[n * p.bias_n]);
            if (p.add) v += cast<A>(*at);
            *at = cast<TO>(v);
        }
}

/* y (matrices, columns, packs of 8) = columns of x in bf16, the last pack padded with 0 */
KERNEL(256) round_to_bf16(const round_arguments p) {
    const i64 across = (p.rows + 7) / 8;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.packs; i += (i64)gridDim.x * 256) {
        const i64 row = i % across * 8, column = i / across;
        const f32 *from = p.x + column / p.columns * p.batch_stride + column % p.columns * p.stride + row;
        pack<f32, 4> v[2] = {};
        if (row + 8 <= p.rows && (u64)from % 16 == 0)
            v[0] = ((const pack<f32, 4> *)from)[0], v[1] = ((const pack<f32, 4> *)from)[1];
        else for (int k = 0; k < 8; k++) v[k / 4].v[k % 4] = row + k < p.rows ? from[k] : 0;
        pack<bf16, 8> rounded;
        for (int k = 0; k < 8; k++) rounded.v[k] = to_bf16(v[k / 4].v[k % 4]);
        p.y[i] = rounded;
    }
}

/* c [+]= bias in each row: 16 bytes at once where the row's packs are aligned.  Limited by bytes: c is
 * written, with `add` read, once. */
KERNEL(256) bias_rows(const bias_arguments p) {
    constexpr int V = 16 / (int)sizeof(TO);
    const i64 across = (p.N + V - 1) / V;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.packs; i += (i64)gridDim.x * 256) {
        const i64 n = i % across * V, row = i / across;
        TO *to = p.c + row / p.M * p.c_batch + row % p.M * p.c_m + n;
        const bool whole = n + V <= p.N && (u64)to % 16 == 0;
        pack<TO, V> v = {};
        if (p.add && whole) v = *(const pack<TO, V> *)to;
        for (int k = 0; k < V; k++) {
            if (n + k >= p.N) break;
            if (p.add && !whole) v.v[k] = to[k];
            const A b = cast<A>(p.bias[(n + k) * p.bias_n]);
            v.v[k] = cast<TO>(p.add ? cast<A>(v.v[k]) + b : b);
            if (!whole) to[k] = v.v[k];
        }
        if (whole) *(pack<TO, V> *)to = v;
    }
}
#endif
