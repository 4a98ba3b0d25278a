/* conv.cu - convolutions as products y (M, N) = a (M, K) b (K, N) for each group, where b is read
 * out of the images as it is needed: no matrix of patches exists.  KIND as in cr_conv_kind; in
 * brackets what the axes count:
 *   0 FORWARD  y [channel, position] = w [channel, tap] x [tap, position]
 *   1 INPUT    x [channel, position] = w [channel, tap] y [tap, position]
 *   2 WEIGHT   w [channel, tap] = y [channel, position] x [position, tap]
 * INPUT divides the positions into phases, the residues of position + pad by the stride.  In a
 * phase the taps that meet an element of y are every `cycle`-th, so no product with an inserted
 * zero is computed.
 *
 * A block has BM x BN results and passes over K, DEPTH at a time: threads read the next elements
 * while they multiply those in shared memory.  Where K is cut into parts, each part has a y of its
 * own, and conv_join adds them in order.  T elements, TO results, A the type of computation, ROUND:
 * factors are rounded to bf16.
 *   F MT      tensor cores (sm_80 and later): F factors (f16, bf16; f32 as TF32), 4 x 2 warps of 16 MT x 32 results.
 *             Limited by the instructions that read b, one element at a time
 *   R         16 x 16 threads of R x 4 results.  Limited by flops
 *   neither   a thread, or for WEIGHT a block, for a result: depthwise convolutions.  Limited by bytes */
/* y (M, N) = a (M, K) b (K, N) for each group.  One of n and k counts positions of a
 * batch of images, the other taps of all channels: element (k, n) of b lies where position and tap
 * meet in an image, 0 outside of it. */
typedef struct conv_walk {                          /* i counts (outer, size[0], size[1], size[2]) in row-major order */
    i64 outer, size[3];
    i64 first[3], step[3];                          /* coordinate in the image: first + step i, of n and k added */
    i64 b_outer, out_outer, out[3];                 /* strides: of b along outer; of a or y */
} conv_walk;
typedef struct conv_arguments {
    POINTER(TO) y;
    POINTER(const T) a, b, bias;                    /* bias (groups M): optional */
    conv_walk n, k;
    i64 M, groups, parts, part;                     /* part: elements of K of a part, each with a y of its own */
    i64 down, tiles, phases;                        /* tiles of a column of tiles, and of a product; of KIND 1 */
    i64 a_m, y_m, a_group, b_group, y_group, y_part;           /* strides */
    i64 b_axis[3], size[3];                         /* of the images: strides and sizes */
    i64 stride[3], cycle[3];                        /* KIND 1: of the convolution; taps that meet the same positions are
                                                     * `cycle` apart */
    i64 width;                                      /* threads that share a row of positions (conv_sums) */
} conv_arguments;
typedef struct conv_join_arguments {
    POINTER(T) y;
    POINTER(const A) x;                             /* (parts, numel) */
    POINTER(const T) bias;
    i64 numel, parts, channels, inner;              /* y (..., channels, inner) */
} conv_join_arguments;

#ifdef __cplusplus
typedef conv_arguments arguments;

D A factor(T x) {
#if ROUND
    return wide(to_bf16(cast<f32>(x)));
#else
    return cast<A>(x);
#endif
}

struct point { i64 b, out; int at[3]; };            /* of one n or k: offsets in b, and in a or y; coordinates */
constexpr int OUTSIDE = -(1 << 30);                 /* the sum with any coordinate is outside of the image */
D point point_of(const conv_walk &w, const arguments &p, i64 i, i64 end) {
    point y = {0, 0, {OUTSIDE, 0, 0}};
    if (i >= end) return y;
    u32 rest = (u32)i;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        const u32 j = rest % (u32)w.size[d];
        rest /= (u32)w.size[d];
        y.at[d] = (int)(w.first[d] + j * w.step[d]);
        y.b += y.at[d] * p.b_axis[d];
        y.out += j * w.out[d];
    }
    y.b += rest * w.b_outer;
    y.out += rest * w.out_outer;
    return y;
}
D bool meet(const point &n, const point &k, const arguments &p) {
    return (u32)(n.at[0] + k.at[0]) < (u32)p.size[0] && (u32)(n.at[1] + k.at[1]) < (u32)p.size[1] &&
           (u32)(n.at[2] + k.at[2]) < (u32)p.size[2];
}
D i64 count_of(const conv_walk &w) { return w.outer * w.size[0] * w.size[1] * w.size[2]; }

#if defined MT && defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
#elif defined MT || defined R
/* ---- tiles */
#ifdef MT
constexpr int EACH = same<F, f32> ? 1 : 2, WORDS = 16, DEPTH = WORDS * EACH, PITCH = WORDS + 4, GROUP = 4 * EACH;
constexpr int NT = 4, BM = 64 * MT, BN = 16 * NT, NA = MT * GROUP, NB = GROUP;
/* 16 words of k for each m or n, padded: the 32 words of a fragment use different banks */
struct tile { alignas(16) u32 a[BM][PITCH], b[BN][PITCH]; };
#else
constexpr int C = 4, DEPTH = 16, BM = 16 * R, BN = 16 * C, NA = R, NB = C;
constexpr int V = R < 4 ? R : 4;                    /* neighbouring rows of a thread, and 4 neighbouring columns */
struct tile { alignas(16) A a[DEPTH][BM + 4], b[DEPTH][BN + 4]; };
#endif

/* Element i of those that this thread copies.  Neighbouring threads copy neighbours along k; in b, neighbouring
 * positions. */
#ifdef MT
D int line_k(int i) { return (int)threadIdx.x % 4 * GROUP + i % GROUP; }
D int line_row(int i) { return (int)threadIdx.x / 4 + 64 * (i / GROUP); }
D int column_k(int i) { return (int)threadIdx.x / BN * NB + i; }
#else
D int line_k(int) { return (int)threadIdx.x % DEPTH; }
D int line_row(int i) { return (int)threadIdx.x / DEPTH + 16 * i; }
D int column_k(int i) { return (int)threadIdx.x / BN + 256 / BN * i; }
#endif
D int b_k(int i) { return KIND == 2 ? line_k(i) : column_k(i); }
D int b_n(int i) { return KIND == 2 ? line_row(i) : (int)threadIdx.x % BN; }

struct work { const T *a, *b; TO *y; i64 m0, n0, end; };               /* of a block; end: of k */
struct stage { T a[NA], b[NB]; };                   /* on their way into shared memory */
D void fetch(stage &s, const arguments &p, const work &w, const point *ns, const point *ks, i64 k0) {
#pragma unroll
    for (int i = 0; i < NA; i++) {
        const i64 m = w.m0 + line_row(i);
        s.a[i] = m < p.M && k0 + line_k(i) < w.end ? w.a[m * p.a_m + ks[line_k(i)].out] : T();
    }
    const point column = ns[b_n(0)];
#pragma unroll
    for (int i = 0; i < NB; i++) {
        const point k = ks[b_k(i)], n = KIND == 2 ? ns[b_n(i)] : column;
        s.b[i] = meet(n, k, p) ? w.b[n.b + k.b] : T();
    }
}

#ifdef MT
template <class H> D u32 halves_of(H low, H high) { return (u32)low.bits | (u32)high.bits << 16; }
D u32 word_of(const T *x) {
    if constexpr (same<F, f32>) return to_tf32(cast<f32>(x[0]));
    else return halves_of(cast<F>(x[0]), cast<F>(x[1]));
}
D void put_words(u32 *to, const T *x) {
    pack<u32, 4> v;
#pragma unroll
    for (int i = 0; i < 4; i++) v.v[i] = word_of(x + EACH * i);
    *(pack<u32, 4> *)to = v;
}
D void put(tile &to, const stage &s) {
#pragma unroll
    for (int i = 0; i < NA; i += GROUP) put_words(&to.a[line_row(i)][line_k(i) / EACH], s.a + i);
#pragma unroll
    for (int i = 0; i < NB; i += GROUP) put_words(&to.b[b_n(i)][b_k(i) / EACH], s.b + i);
}

struct results {                                    /* of a thread: as fragments */
    f32 v[MT][NT][4] = {};
    D static int row_of(int m, int e) {
        return (int)threadIdx.x / 32 % 4 * (16 * MT) + 16 * m + fragment_row(lane(), e);
    }
    D static int column_of(int n, int e) {
        return (int)threadIdx.x / 128 * (8 * NT) + 8 * n + fragment_column(lane(), e);
    }
    D void add(const tile &t) {
        const int row = row_of(0, 0), column = (int)threadIdx.x / 128 * (8 * NT) + lane() / 4, word = lane() % 4;
#pragma unroll
        for (int k = 0; k < WORDS; k += 8) {
            u32 a[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 4; i++) a[m][i] = t.a[row + 16 * m + i % 2 * 8][word + k + i / 2 * 4];
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const u32 *b = &t.b[column + 8 * n][word + k];
#pragma unroll
                for (int m = 0; m < MT; m++) multiply<F>(v[m][n], a[m], b[0], b[4]);
            }
        }
    }
    template <class Store> D void each(Store store) const {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) store(row_of(m, e), column_of(n, e), v[m][n][e]);
    }
};
#else
D void put(tile &to, const stage &s) {
#pragma unroll
    for (int i = 0; i < NA; i++) to.a[line_k(i)][line_row(i)] = factor(s.a[i]);
#pragma unroll
    for (int i = 0; i < NB; i++) to.b[b_k(i)][b_n(i)] = factor(s.b[i]);
}

struct results {
    A v[R][C] = {};
    D static int row_of(int i) { return (int)threadIdx.x / 16 * V + i % V + 16 * V * (i / V); }
    D static int column_of(int j) { return (int)threadIdx.x % 16 * 4 + j % 4 + 64 * (j / 4); }
    D void add(const tile &t) {
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            pack<A, V> a[R / V];
            pack<A, 4> b[C / 4];
#pragma unroll
            for (int i = 0; i < R; i += V) a[i / V] = *(const pack<A, V> *)&t.a[k][row_of(i)];
#pragma unroll
            for (int j = 0; j < C; j += 4) b[j / 4] = *(const pack<A, 4> *)&t.b[k][column_of(j)];
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < C; j++) v[i][j] += a[i / V].v[i % V] * b[j / 4].v[j % 4];
        }
    }
    template <class Store> D void each(Store store) const {
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < C; j++) store(row_of(i), column_of(j), v[i][j]);
    }
};
#endif

/* ---- phases of INPUT: the positions r, r + stride ... of each axis, and the taps that meet elements of y there */
struct phase { conv_walk n, k; i64 a, y; };         /* a, y: offsets of the first tap and position */
D void find_phase(phase &f, const arguments &p, u32 number) {
    f.n = p.n, f.k = p.k, f.a = f.y = 0;
    for (int d = 2; d >= 0; d--) {
        const i64 s = p.stride[d], cycle = p.cycle[d], dilation = -p.k.step[d],
                  count = s < p.n.size[d] ? s : p.n.size[d], r = number % count, from = r + p.n.first[d],
                  most = cycle < p.k.size[d] ? cycle : p.k.size[d];
        i64 t = 0;
        number /= (u32)count;
        while (t < most && (from - t * dilation) % s) t++;
        f.n.size[d] = (p.n.size[d] - r + s - 1) / s;
        f.n.first[d] = (from - t * dilation) / s;
        f.n.step[d] = 1, f.n.out[d] = p.n.out[d] * s;
        f.k.size[d] = t < most ? (p.k.size[d] - t + cycle - 1) / cycle : 0;
        f.k.step[d] = -(cycle * dilation / s), f.k.out[d] = p.k.out[d] * cycle;
        f.a += t * p.k.out[d], f.y += r * p.n.out[d];
    }
}

KERNEL(256, sizeof(A) == 8 || KIND == 2 ? 1 : 2) conv(const arguments p) {
    __shared__ tile tiles[2];
    __shared__ point ns[BN], ks[2][DEPTH];
    u32 rest = blockIdx.x / (u32)p.tiles;
    const u32 number = blockIdx.x % (u32)p.tiles, down = (u32)p.down;
#if KIND == 1
    __shared__ phase f;
    if (threadIdx.x == 0) find_phase(f, p, rest % (u32)p.phases);
    rest /= (u32)p.phases;
    __syncthreads();
    const conv_walk &walk_n = f.n, &walk_k = f.k;
    const i64 first_a = f.a, first_y = f.y;
#else
    const conv_walk &walk_n = p.n, &walk_k = p.k;
    const i64 first_a = 0, first_y = 0;
#endif
    const i64 group = rest % (u32)p.groups, part = rest / (u32)p.groups, N = count_of(walk_n), K = count_of(walk_k),
              begin = part * p.part, last = begin + p.part;
    const work w = {p.a + group * p.a_group + first_a, p.b + group * p.b_group,
                    p.y + part * p.y_part + group * p.y_group + first_y, (i64)(number % down) * BM,
                    (i64)(number / down) * BN, last < K ? last : K};
    if (w.n0 >= N) return;                          /* other phases have more positions */
    const int t = (int)threadIdx.x;
    for (int i = t; i < BN; i += 256) ns[i] = point_of(walk_n, p, w.n0 + i, N);
    if (t < DEPTH) ks[0][t] = point_of(walk_k, p, begin + t, w.end);
    __syncthreads();
    stage s;
    results sums;
    fetch(s, p, w, ns, ks[0], begin);
    int now = 0;
#pragma unroll 1
    for (i64 k = begin; k < w.end; k += DEPTH, now = !now) {
        put(tiles[now], s);
        if (t < DEPTH) ks[!now][t] = point_of(walk_k, p, k + DEPTH + t, w.end);
        __syncthreads();                            /* the tile before this one was read by all */
        fetch(s, p, w, ns, ks[!now], k + DEPTH);
        sums.add(tiles[now]);
    }
    sums.each([&](int row, int column, A v) {
        const i64 m = w.m0 + row;
        if (m >= p.M || w.n0 + column >= N) return;
        if (p.bias) v += cast<A>(p.bias[group * p.M + m]);
        w.y[m * p.y_m + ns[column].out] = cast<TO>(v);
    });
}
#else
/* ---- without tiles */
#if KIND == 2
/* A block for a result and a part of the rows of positions: `width` threads share a row. */
KERNEL(256) conv_sums(const arguments p) {
    __shared__ A shared[256];
    const i64 N = count_of(p.n), result = blockIdx.x % (u32)(p.groups * p.M * N),
              part = blockIdx.x / (u32)(p.groups * p.M * N), group = result / N / p.M, m = result / N % p.M;
    const point tap = point_of(p.n, p, result % N, N);
    const T *a = p.a + group * p.a_group + m * p.a_m, *b = p.b + group * p.b_group + tap.b;
    const i64 count = count_of(p.k), columns = p.k.size[2], rows = count / columns, begin = part * p.part,
              end = begin + p.part < rows ? begin + p.part : rows, step = p.k.step[2];
    const share s = share_of(p.width, 1);
    A sum = 0;
    for (i64 row = begin + s.column; row < end; row += s.columns) {
        const point first = point_of(p.k, p, row * columns, count);
        if ((u32)(first.at[0] + tap.at[0]) >= (u32)p.size[0]) continue;
        if ((u32)(first.at[1] + tap.at[1]) >= (u32)p.size[1]) continue;
        for (int j = s.lane; j < columns; j += s.width)
            if ((u32)(first.at[2] + j * step + tap.at[2]) < (u32)p.size[2])
                sum += factor(a[first.out + j * p.k.out[2]]) * factor(b[first.b + j * step * p.b_axis[2]]);
    }
    sum = tree<sum_of>(sum, shared, share_of(256, 1));
    if (threadIdx.x == 0) p.y[part * p.y_part + group * p.y_group + m * p.y_m + tap.out] = cast<TO>(sum);
}
#else
/* The element of an axis of the image at coordinate x; false: there is none. */
D bool element(const arguments &p, int d, int x, i64 &at) {
    if (KIND == 1 && (x < 0 || x % (int)p.stride[d])) return false;
    if (KIND == 1) x /= (int)p.stride[d];
    at = x * p.b_axis[d];
    return (u32)x < (u32)p.size[d];
}

KERNEL(256) conv_direct(const arguments p) {
    const i64 N = count_of(p.n), i = (i64)blockIdx.x * 256 + threadIdx.x, each = N / p.n.outer;
    if (i >= p.groups * p.M * N) return;
    const i64 n = i % N, m = i / N % p.M, group = i / N / p.M;
    const point to = point_of(p.n, p, n, N);
    const T *a = p.a + group * p.a_group + m * p.a_m, *b = p.b + group * p.b_group + n / each * p.n.b_outer;
    A sum = 0;
    for (int c = 0; c < p.k.outer; c++, a += p.k.out_outer, b += p.k.b_outer)
        for (int t0 = 0; t0 < p.k.size[0]; t0++) {
            i64 at0, at1, at2;
            if (!element(p, 0, to.at[0] + t0 * (int)p.k.step[0], at0)) continue;
            for (int t1 = 0; t1 < p.k.size[1]; t1++) {
                if (!element(p, 1, to.at[1] + t1 * (int)p.k.step[1], at1)) continue;
                const T *taps = a + t0 * p.k.out[0] + t1 * p.k.out[1];
                for (int t2 = 0; t2 < p.k.size[2]; t2++)
                    if (element(p, 2, to.at[2] + t2 * (int)p.k.step[2], at2))
                        sum += factor(taps[t2 * p.k.out[2]]) * factor(b[at0 + at1 + at2]);
            }
        }
    if (p.bias) sum += cast<A>(p.bias[group * p.M + m]);
    p.y[group * p.y_group + m * p.y_m + to.out] = cast<TO>(sum);
}
#endif

/* y = [bias +] the sum of x over its parts */
KERNEL(256) conv_join(const conv_join_arguments p) {
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < p.numel; i += (i64)gridDim.x * 256) {
        A sum = p.bias ? cast<A>(p.bias[i / p.inner % p.channels]) : (A)0;
        for (i64 part = 0; part < p.parts; part++) sum += p.x[part * p.numel + i];
        p.y[i] = cast<T>(sum);
    }
}
#endif
#endif
