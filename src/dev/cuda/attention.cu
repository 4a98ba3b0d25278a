/* attention.cu - o = softmax(scale q k^T + mask) v for every head, q, o (B, H, queries, D), k, v (B,
 * H / shared, keys, D), and its derivatives, without a matrix of all scores: the forward pass computes tiles of
 * scores and an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022); the backward pass
 * computes the scores again from lse.  A block owns some rows of one head (queries for o and dq, keys
 * for dk and dv) and passes over tiles of the other operand in order.  No other block adds to its
 * sums, so there are no atomics and results are reproducible.
 *
 * There are two versions of the kernels.  Plain kernels serve every dtype and head size: T elements, A
 * the type of computation (f32; f64 for f64), R rows of a thread, C column groups of a block.  If NT
 * is defined: kernels for f16 and bf16 with tensor cores (sm_80 and later).  HEAD is the head size, a
 * multiple of 8 from 32 to 128; rows are multiples of 16 bytes; a warp has 16 MT rows, a tile 8 NT
 * columns; weights and their derivatives are rounded to T before they are multiplied.  MASKED: there
 * is a mask.  PASS: the kernel, for o, dq, dk and dv, delta, or o of few queries. */

#include "attention.cuh"

#ifndef NT
/* ---- plain: a block of 16 x 16 threads has tiles of N x N scores, N = 16 R.  Thread (x, y) has those
 * of rows y + 16 i and columns x + 16 j, and of a row of results columns R x + j of each of C groups
 * of N.  Limited by flops: 8 vectors from shared memory for 64 products. */
constexpr int N = 16 * R, CHUNK = 32;               /* columns of D, or rows, in shared memory at once */
D int thread_x() { return (int)threadIdx.x % 16; }
D int thread_y() { return (int)threadIdx.x / 16; }

template <int WIDTH> struct shared_tile {
    alignas(16) A v[N][WIDTH + 4];                  /* padded by 4: 16 threads that read their rows use different
                                                     * banks */
    template <int V> D pack<A, V> at(int row, int column) const { return *(const pack<A, V> *)&v[row][column]; }
};
struct workspace {
    union {
        shared_tile<CHUNK> factors[2];
        alignas(16) A values[CHUNK][N * C];
    };
    shared_tile<N> weights;
};

/* ROWS rows of x from `row` on, WIDTH of their columns from `column` on; 0 outside */
template <int ROWS, int WIDTH, int PITCH>
D void load(A (&to)[ROWS][PITCH], const rows &x, i64 row, i64 column, i64 columns) {
    for (int i = (int)threadIdx.x; i < ROWS * WIDTH; i += 256) {
        const i64 r = row + i / WIDTH, c = column + i % WIDTH;
        to[i / WIDTH][i % WIDTH] = r < x.count && c < columns ? cast<A>(x.at[r * x.stride + c]) : (A)0;
    }
}

/* s = x y^T, of N rows of each */
D void dots(A (&s)[R][R], workspace &w, const rows &x, i64 x_row, const rows &y, i64 y_row, i64 columns) {
    for (int i = 0; i < R; i++) for (int j = 0; j < R; j++) s[i][j] = 0;
    for (i64 c = 0; c < columns; c += CHUNK) {
        __syncthreads();                            /* the last chunk was read */
        load<N, CHUNK>(w.factors[0].v, x, x_row, c, columns);
        load<N, CHUNK>(w.factors[1].v, y, y_row, c, columns);
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < CHUNK; k += 4) {
            pack<A, 4> f[2][R];
#pragma unroll
            for (int i = 0; i < R; i++)
                f[0][i] = w.factors[0].template at<4>(thread_y() + 16 * i, k),
                f[1][i] = w.factors[1].template at<4>(thread_x() + 16 * i, k);
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) s[i][j] += f[0][i].v[e] * f[1][j].v[e];
        }
    }
}

/* acc += weights x, of N rows of x from `row` on, and columns from `column` on */
D void weigh(A (&acc)[C][R][R], workspace &w, const rows &x, i64 row, i64 column, i64 columns) {
    for (int begin = 0; begin < N; begin += CHUNK) {
        __syncthreads();                            /* the last chunk, or the factors, were read; the weights are
                                                     * there */
        load<CHUNK, N * C>(w.values, x, row + begin, column, columns);
        __syncthreads();
#pragma unroll 1
        for (int k = 0; k < CHUNK; k += 4) {
            pack<A, 4> p[R];
#pragma unroll
            for (int i = 0; i < R; i++) p[i] = w.weights.template at<4>(thread_y() + 16 * i, begin + k);
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int c = 0; c < C; c++) {
                    const pack<A, R> v = *(const pack<A, R> *)&w.values[k + e][c * N + thread_x() * R];
#pragma unroll
                    for (int i = 0; i < R; i++)
#pragma unroll
                        for (int j = 0; j < R; j++) acc[c][i][j] += p[i].v[e] * v.v[j];
                }
        }
    }
}

/* y[first ..] = acc factor, factor of each row */
D void store(const rows &y, const slice &p, i64 columns, const A (&acc)[C][R][R], const A (&factor)[R]) {
    for (int i = 0; i < R; i++) {
        const i64 row = p.first + thread_y() + 16 * i;
        for (int c = 0; c < C; c++)
            for (int j = 0; j < R; j++) {
                const i64 column = p.part * (N * C) + c * N + thread_x() * R + j;
                if (row < y.count && column < columns)
                    y.at[row * y.stride + column] = cast<T>(acc[c][i][j] * factor[i]);
            }
    }
}

/* Joined over the 16 threads of a row of the block, which are half a warp */
template <class How> D A over_row(A v) {
#pragma unroll
    for (int lane = 8; lane; lane /= 2) v = How::join(v, __shfl_xor_sync(0xffffffffu, v, lane));
    return v;
}
struct larger_of { static __device__ A join(A a, A b) { return a > b ? a : b; } };

#if PASS == 0
KERNEL(256) attention(const arguments a) {
    __shared__ workspace w;
    const slice p = slice_of(a, N, true), shared = keys_of(a, p);
    const rows q = p.of(a.q, a.queries), k = shared.of(a.k, a.keys), v = shared.of(a.v, a.keys);
    const i64 begin = unseen(a, p.first), end = visible_to_any(a, p.first, N);
    A o[C][R][R] = {}, s[R][R], top[R], sum[R], factor[R];
    for (int i = 0; i < R; i++) top[i] = -infinity<A>(), sum[i] = 0;
    for (i64 key = begin; key < end; key += N) {
        dots(s, w, q, p.first, k, key, a.head_size);
        const A *const mask = mask_at(a, p, p.first + thread_y(), key + thread_x());
#pragma unroll
        for (int i = 0; i < R; i++) {
            const i64 t = p.first + thread_y() + 16 * i;
            A before = top[i], part = 0;
#pragma unroll
            for (int j = 0; j < R; j++) {
                const i64 c = key + thread_x() + 16 * j;
                s[i][j] = attends(a, t, c)
                              ? score(mask + 16 * (i * a.mask_query + j * a.mask_key), s[i][j], (A)a.scale, 1)
                              : -infinity<A>();
                top[i] = larger_of::join(s[i][j], top[i]);
            }
            top[i] = over_row<larger_of>(top[i]);
            /* all weights are 0 while every key is masked */
            const A base = top[i] == -infinity<A>() ? (A)0 : top[i];
#pragma unroll
            for (int j = 0; j < R; j++) {
                const A weight = f_exp(s[i][j] - base);
                w.weights.v[thread_y() + 16 * i][thread_x() + 16 * j] = weight;
                part += weight;
            }
            factor[i] = f_exp(before - base);
            sum[i] = sum[i] * factor[i] + over_row<sum_of>(part);
#pragma unroll
            for (int c = 0; c < C; c++)
#pragma unroll
                for (int j = 0; j < R; j++) o[c][i][j] *= factor[i];
        }
        weigh(o, w, v, key, p.part * (N * C), a.head_size);
    }
    for (int i = 0; i < R; i++) {
        const i64 t = p.first + thread_y() + 16 * i;
        factor[i] = sum[i] == 0 ? (A)0 : (A)1 / sum[i];
        if (p.part == 0 && thread_x() == 0 && t < a.queries)
            a.lse[(p.b * a.H + p.h) * a.queries + t] = top[i] + f_log(sum[i]);
    }
    store(p.of(a.o, a.queries), p, a.head_size, o, factor);
}
#endif

#if PASS == 1
/* p = exp(scale q k^T + mask - lse),  dp = g v^T,  ds = p (dp - delta):  dq = scale ds k.  At least 1
 * block: ptxas would spill for a second block. */
KERNEL(256, 1) attention_dq(const arguments a) {
    __shared__ workspace w;
    const slice p = slice_of(a, N, true), shared = keys_of(a, p);
    const rows q = p.of(a.q, a.queries), k = shared.of(a.k, a.keys), v = shared.of(a.v, a.keys),
               g = p.of(a.g, a.queries);
    const i64 begin = unseen(a, p.first), end = visible_to_any(a, p.first, N);
    A dq[C][R][R] = {}, s[R][R], dp[R][R], lse[R], delta[R], scale[R];
    for (int i = 0; i < R; i++) {
        const i64 t = p.first + thread_y() + 16 * i;
        lse[i] = lse_of(a, p, t), delta[i] = delta_of(a, p, t), scale[i] = (A)a.scale;
    }
    for (i64 key = begin; key < end; key += N) {
        dots(s, w, q, p.first, k, key, a.head_size);
        dots(dp, w, g, p.first, v, key, a.head_size);
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < R; j++) {
                const i64 t = p.first + thread_y() + 16 * i, c = key + thread_x() + 16 * j;
                const A weight = attends(a, t, c) ? f_exp(score(mask_at(a, p, t, c), s[i][j], (A)a.scale, 1) - lse[i])
                                                  : (A)0;
                w.weights.v[thread_y() + 16 * i][thread_x() + 16 * j] = weight * (dp[i][j] - delta[i]);
            }
        weigh(dq, w, k, key, p.part * (N * C), a.head_size);
    }
    store(p.of(a.dq, a.queries), p, a.head_size, dq, scale);
}
#endif

#if PASS == 2
/* With the same p and ds, a row for each key:  dv = p^T g,  dk = scale ds^T q */
KERNEL(256) attention_dkv(const arguments a) {
    __shared__ workspace w;
    const slice p = slice_of(a, N, false);
    const rows k = p.of(a.k, a.keys), v = p.of(a.v, a.keys);
    const i64 begin = first_query(a, p.first), end = end_of_queries(a, p.first + N - 1);
    A dk[C][R][R] = {}, dv[C][R][R] = {}, s[R][R], dp[R][R], scale[R], one[R];
    for (int i = 0; i < R; i++) scale[i] = (A)a.scale, one[i] = 1;
    for (int head = 0; head < a.shared; head++) {
        const slice h = sharer(a, p, head);
        const rows q = h.of(a.q, a.queries), g = h.of(a.g, a.queries);
        for (i64 query = begin; query < end; query += N) {
            dots(s, w, k, p.first, q, query, a.head_size);
            dots(dp, w, v, p.first, g, query, a.head_size);
#pragma unroll
            for (int j = 0; j < R; j++) {
                const i64 t = query + thread_x() + 16 * j;
                const A lse = lse_of(a, h, t), delta = delta_of(a, h, t);
#pragma unroll
                for (int i = 0; i < R; i++) {
                    const i64 c = p.first + thread_y() + 16 * i;
                    const A weight = attends(a, t, c) ? f_exp(score(mask_at(a, h, t, c), s[i][j], (A)a.scale, 1) - lse)
                                                      : (A)0;
                    w.weights.v[thread_y() + 16 * i][thread_x() + 16 * j] = weight;
                    dp[i][j] = weight * (dp[i][j] - delta);
                }
            }
            weigh(dv, w, g, query, p.part * (N * C), a.head_size);
            __syncthreads();                        /* the weights were read */
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++) w.weights.v[thread_y() + 16 * i][thread_x() + 16 * j] = dp[i][j];
            weigh(dk, w, q, query, p.part * (N * C), a.head_size);
        }
    }
    store(p.of(a.dk, a.keys), p, a.head_size, dk, scale);
    store(p.of(a.dv, a.keys), p, a.head_size, dv, one);
}
#endif

#if PASS == 3
/* delta = sum of g o over D, followed by the lse for the other two kernels: times scale, +Inf where a
 * query attends to no key.  A warp for each query.  Limited by bytes read. */
KERNEL(256) attention_delta(const arguments a) {
    const i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32, head = row / a.queries;
    const slice p = {(int)(head / a.H), (int)(head % a.H), 0, 0};
    /* parts: here the number of all rows */
    const i64 t = row % a.queries, columns = row < a.parts ? a.head_size : 0;
    const rows g = p.of(a.g, a.queries), o = p.of(a.o, a.queries);
    A sum = 0;
    for (i64 c = threadIdx.x % 32; c < columns; c += 32)
        sum += cast<A>(g.at[t * g.stride + c]) * cast<A>(o.at[t * o.stride + c]);
#pragma unroll
    for (int lane = 16; lane; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
    if (!columns || threadIdx.x % 32) return;
    a.delta[row] = sum;
    a.delta[a.parts + row] = a.lse[row] == -infinity<A>() ? infinity<A>() : a.lse[row] * (A)a.scale;
}
#endif

#if PASS == 4
/* Few queries, as in generation: a block for each query and KEYS of its keys writes to delta, (B, H,
 * queries, tiles, D + 2), the weighted sum of v, the largest score and the sum of the weights; a block
 * for each query joins these.  Limited by bytes: k and v are read once for each query. */
struct query { slice p; i64 t; };
D query query_of(const arguments &a, i64 row) {
    const i64 head = row / a.queries;
    return query{slice{(int)(head / a.H), (int)(head % a.H), 0, 0}, row % a.queries};
}
/* Threads that share a column of D, a power of two. */
D share share_of_columns(const arguments &a) {
    int width = 256;
    while (width > 1 && 256 / width < a.head_size) width /= 2;
    return share_of(width, 0);
}
D A base_of(A top) { return top == -infinity<A>() ? (A)0 : top; }      /* all weights are 0 while every key is masked */

KERNEL(256) attention_part(const arguments a) {
    __shared__ A weights[KEYS], shared[256];
    const share all = share_of(256, 1), s = share_of_columns(a);
    const query q = query_of(a, (i64)blockIdx.x / a.tiles);
    const slice shared_keys = keys_of(a, q.p);
    const i64 first = (i64)blockIdx.x % a.tiles * KEYS, left = visible(a, q.t) - first, hidden = unseen(a, q.t) - first;
    const rows k = shared_keys.of(a.k, a.keys), v = shared_keys.of(a.v, a.keys);
    const T *mine = q.p.of(a.q, a.queries).at + q.t * a.q.row;
    const int t = (int)threadIdx.x, n = left < 0 ? 0 : left < KEYS ? (int)left : (int)KEYS,
              from = hidden < 0 ? 0 : hidden < n ? (int)hidden : n;
    A *to = a.delta + (i64)blockIdx.x * (a.head_size + 2);
    for (int c = from + t / 32; c < n; c += 8) {    /* a warp for each key */
        A dot = 0;
        for (i64 d = t % 32; d < a.head_size; d += 32)
            dot += cast<A>(mine[d]) * cast<A>(k.at[(first + c) * k.stride + d]);
#pragma unroll
        for (int lane = 16; lane; lane /= 2) dot += __shfl_xor_sync(0xffffffffu, dot, lane);
        if (t % 32 == 0) weights[c] = score(mask_at(a, q.p, q.t, first + c), dot, (A)a.scale, 1);
    }
    __syncthreads();
    const bool has_key = t >= from && t < n;
    const A x = has_key ? weights[t] : -infinity<A>(), top = tree<larger_of>(x, shared, all),
            weight = has_key ? f_exp(x - base_of(top)) : (A)0, sum = tree<sum_of>(weight, shared, all);
    if (has_key) weights[t] = weight;
    if (t == 0) to[a.head_size] = top, to[a.head_size + 1] = sum;
    __syncthreads();
    for (i64 begin = 0; begin < a.head_size; begin += s.columns) {
        const i64 column = begin + s.column;
        A o = 0;
        for (int c = from + s.lane; c < n && column < a.head_size; c += s.width)
            o += weights[c] * cast<A>(v.at[(first + c) * v.stride + column]);
        o = tree<sum_of>(o, shared, s);
        if (s.lane == 0 && column < a.head_size) to[column] = o;
    }
}

KERNEL(256) attention_join(const arguments a) {
    __shared__ A shared[256];
    const share all = share_of(256, 1), s = share_of_columns(a);
    const query q = query_of(a, (i64)blockIdx.x);
    const i64 pitch = a.head_size + 2;
    const A *from = a.delta + (i64)blockIdx.x * a.tiles * pitch, *tops = from + a.head_size;
    A top = -infinity<A>(), sum = 0;
    for (i64 c = threadIdx.x; c < a.tiles; c += 256) top = larger_of::join(tops[c * pitch], top);
    top = tree<larger_of>(top, shared, all);
    for (i64 c = threadIdx.x; c < a.tiles; c += 256) sum += tops[c * pitch + 1] * f_exp(tops[c * pitch] - base_of(top));
    sum = tree<sum_of>(sum, shared, all);
    if (threadIdx.x == 0) a.lse[blockIdx.x] = top + f_log(sum);
    T *to = q.p.of(a.o, a.queries).at + q.t * a.o.row;
    for (i64 begin = 0; begin < a.head_size; begin += s.columns) {
        const i64 column = begin + s.column;
        A o = 0;
        for (i64 c = s.lane; c < a.tiles && column < a.head_size; c += s.width)
            o += from[c * pitch + column] * f_exp(tops[c * pitch] - base_of(top));
        o = tree<sum_of>(o, shared, s);
        if (s.lane == 0 && column < a.head_size) to[column] = cast<T>(sum == 0 ? (A)0 : o / sum);
    }
}
#endif
#elif !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
/* ---- with tensor cores: 4 warps, each of which has 16 MT rows of a block's, pass over tiles of 8 NT
 * columns. */
/* dk and dv: two warps have the same rows */
constexpr int WARPS = 4, THREADS = 32 * WARPS, ROWS = 16 * MT * WARPS / (PASS == 2 ? 2 : 1), COLUMNS = 8 * NT;
constexpr int DT = (HEAD + 15) / 16 * 2;            /* tiles of 8 columns of D; columns beyond HEAD are 0 */
constexpr int PITCH = HEAD <= 64 ? 64 : 128;        /* elements of a row in shared memory */
D int warp_row() { return (int)threadIdx.x / 32 * (16 * MT) % ROWS; }
/* of element e of the m-th fragment of results */
D int row_of(int m, int e) { return warp_row() + 16 * m + fragment_row(lane(), e); }
D int column_of(int n, int e) { return 8 * n + fragment_column(lane(), e); }

/* Dynamic shared memory: tiles of ROWS rows, then tiles of COLUMNS (attention.c computes its size). */
extern __shared__ __align__(128) u16 memory[];
D int tile_at(int of_rows, int of_columns) { return 2 * (of_rows * ROWS + of_columns * COLUMNS) * PITCH; }

/* The offset in a tile of 8 elements, in bytes: swizzled within 64 columns, so that 8 rows use
 * different banks.  advanced: 16 k columns further. */
D int offset(int row, int column) { return 2 * PITCH * row + (column / 8 ^ row % 8) * 16; }
D int advanced(int at, int k) { return (at ^ 32 * (k % 4)) + 128 * (k / 4); }
/* The offset of this lane's part of 16 x 16 for load_matrices, whose results follow each other by rows
 * of 8, or by columns of 8. */
D int lane_offset(bool by_rows) {
    return by_rows ? offset(lane() / 16 * 8 + lane() % 8, lane() / 8 % 2 * 8) : offset(lane() % 16, lane() / 16 * 8);
}

D f32 half_of(u64 bits, int i) { return wide(T{(u16)(bits >> 16 * i)}); }

/* -- instructions, each with a plain version for the simulator */
#ifdef __CUDA_ARCH__
typedef u32 address;                                /* of shared memory */
D address address_of(int at) { return (u32)__cvta_generic_to_shared(memory) + (u32)at; }
struct copies {                                     /* asynchronous copies into shared memory */
    template <int BYTES> D void add(address to, const void *from, bool inside) {
        if (BYTES == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0)
                         : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4 : 0)
                         : "memory");
    }
    D void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }
};
/* four matrices of 8 x 8: lane l has the address of row l % 8 of matrix l / 8 */
template <bool transposed> D void load_matrices(u32 (&r)[4], address row) {
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(row)
                     : "memory");
}
#else
typedef u64 address;
D address address_of(int at) { return (address)memory + (address)at; }
struct copies {                                     /* copied at the wait */
    struct { u32 *to; const u32 *from; bool inside; int words; } made[(ROWS + COLUMNS) * PITCH / 8 / THREADS * 2 + 1];
    int n = 0;
    template <int BYTES> D void add(address to, const void *from, bool inside) {
        made[n].to = (u32 *)to, made[n].from = (const u32 *)from, made[n].inside = inside, made[n++].words = BYTES / 4;
    }
    D void wait() {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < made[i].words; j++) made[i].to[j] = made[i].inside ? made[i].from[j] : 0;
        n = 0;
    }
};
template <bool transposed> D void load_matrices(u32 (&r)[4], address row) {
    const u64 mine[1] = {row};
    u64 (*const lanes)[1] = exchange(mine);
    for (int i = 0; i < 4; i++) {
        const int x = lane() / 4, y = lane() % 4 * 2;
        const u16 *const first = (const u16 *)lanes[8 * i + (transposed ? y : x)][0],
                         *const second = (const u16 *)lanes[8 * i + (transposed ? y + 1 : x)][0];
        r[i] = first[transposed ? x : y] | (u32)second[transposed ? x : y + 1] << 16;
    }
    __syncwarp();
}
#endif

#define EACH_ROW \
    _Pragma("unroll") for (int m = 0; m < MT; m++) _Pragma("unroll") for (int i = 0; i < 2; i++)
#define EACH_SCORE \
    _Pragma("unroll") for (int m = 0; m < MT; m++) _Pragma("unroll") for (int n = 0; n < NT; n++) \
        _Pragma("unroll") for (int e = 0; e < 4; e++)
#define EACH_WEIGHT \
    _Pragma("unroll") for (int k = 0; k < NT / 2; k++) _Pragma("unroll") for (int m = 0; m < MT; m++)

/* Rows that are copied into shared memory tile by tile: the part of this thread. */
struct stream {
    /* CHUNKS of 16 bytes in a row; STEP rows that all threads copy at once */
    static constexpr int CHUNKS = PITCH / 8, STEP = THREADS / CHUNKS;
    const T *from;
    int row, stride, rows, to;                      /* rows: 0 for columns beyond HEAD */
    D stream(const ::rows &x, int first) {
        const int r = (int)threadIdx.x / CHUNKS, column = (int)threadIdx.x % CHUNKS * 8;
        row = first, stride = (int)x.stride, rows = column < HEAD ? (int)x.count : 0, to = offset(r, column),
        from = x.at + (first + r) * x.stride + column;
    }
    /* Starts to copy the next COUNT rows; 0 after the last row, and beyond HEAD. */
    template <int COUNT> D void fetch(copies &c, int tile) {
        const int left = rows - row - to / (2 * PITCH);
#pragma unroll
        for (int i = 0; i < COUNT; i += STEP)
            c.template add<16>(address_of(tile + to) + offset(i, 0), from + (i64)stride * i, i < left);
        from += (i64)stride * COUNT, row += COUNT;
    }
};

/* s += x y^T, of this warp's rows of x and all COLUMNS of y */
D void dots(f32 (&s)[MT][NT][4], int x, int y) {
    const int x_at = opaque(lane_offset(false) + offset(warp_row(), 0)), y_at = opaque(lane_offset(true));
#pragma unroll 4                                    /* not fully for D of 128: registers would not hold what is read
                                                     * ahead */
    for (int k = 0; k < DT / 2; k++) {
        u32 f[MT][4], b[4];
#pragma unroll
        for (int m = 0; m < MT; m++) load_matrices<false>(f[m], address_of(x + advanced(x_at, k)) + offset(16 * m, 0));
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
            load_matrices<false>(b, address_of(y + advanced(y_at, k)) + offset(8 * n, 0));
#pragma unroll
            for (int m = 0; m < MT; m++)
                multiply<T>(s[m][n], f[m], b[0], b[1]), multiply<T>(s[m][n + 1], f[m], b[2], b[3]);
        }
    }
}

/* s rounded to T, as rows of the next product */
struct weights {
    pack<u32, 4> v[NT / 2][MT];
    D void round(const f32 (&s)[MT][NT][4]) {
        EACH_WEIGHT
#pragma unroll
        for (int e = 0; e < 4; e++)
            v[k][m].v[e] = pair(s[m][2 * k + e / 2][e % 2 * 2], s[m][2 * k + e / 2][e % 2 * 2 + 1]);
    }
};

/* acc += w y, y COLUMNS rows */
D void weigh(f32 (&acc)[MT][DT][4], const weights &w, int y) {
    const int y_at = opaque(lane_offset(false));
#pragma unroll
    for (int k = 0; k < NT / 2; k++) {
        u32 b[4];
#pragma unroll
        for (int n = 0; n < DT; n += 2) {
            load_matrices<true>(b, address_of(y + advanced(y_at, n / 2)) + offset(16 * k, 0));
#pragma unroll
            for (int m = 0; m < MT; m++)
                multiply<T>(acc[m][n], w.v[k][m].v, b[0], b[1]), multiply<T>(acc[m][n + 1], w.v[k][m].v, b[2], b[3]);
        }
    }
}

/* y[first ..] = acc factor, factor of each row: pairs of columns */
D void store(const rows &y, const slice &p, const f32 (&acc)[MT][DT][4], const f32 (&factor)[MT][2]) {
    EACH_ROW {
        const i64 row = p.first + row_of(m, 2 * i);
        if (row >= y.count) continue;
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            *(u32 *)(y.at + row * y.stride + column_of(n, 0)) = pair(acc[m][n][2 * i] * factor[m][i],
                                                                     acc[m][n][2 * i + 1] * factor[m][i]);
    }
}

/* The scores of an edge tile from row and column on: -Inf where a query does not attend to a key. */
D void edge(f32 (&s)[MT][NT][4], const arguments &a, const slice &p, int row, int column, const scaling &scale) {
    row = opaque(row), column = opaque(column);
    EACH_SCORE {
        const int y = row + row_of(m, e), x = column + column_of(n, e), t = PASS == 2 ? x : y, key = PASS == 2 ? y : x;
        s[m][n][e] = attends(a, t, key) ? score(mask_at(a, p, t, key), s[m][n][e], scale.inner, LOG2E)
                                        : -infinity<f32>();
    }
}

#if PASS == 0
/* A tile of k is copied while the tile of v before it is used, and a tile of v while its k is used. */
KERNEL(THREADS, 2) attention(const arguments a) {
    const int qs = tile_at(0, 0), ks = tile_at(1, 0), vs = tile_at(1, 1);
    const slice p = slice_of(a, ROWS, true), shared = keys_of(a, p);
    /* every row attends to the keys some .. whole */
    const int first = (int)p.first, begin = unseen(a, first), end = visible_to_any(a, first, ROWS),
              some = unseen(a, first + ROWS - 1), whole = visible(a, first);
    const scaling scale(a);
    f32 o[MT][DT][4] = {}, s[MT][NT][4], top[MT][2], sum[MT][2], factor[MT][2];
    EACH_ROW top[m][i] = -infinity<f32>(), sum[m][i] = 0;
    stream q(p.of(a.q, a.queries), first), k(shared.of(a.k, a.keys), begin), v(shared.of(a.v, a.keys), begin);
    copies c;
    q.fetch<ROWS>(c, qs);
    k.fetch<COLUMNS>(c, ks);
    for (int key = begin; key < end; key += COLUMNS) {
        c.wait();
        __syncthreads();                            /* k is there, v was read */
        v.fetch<COLUMNS>(c, vs);
        EACH_SCORE s[m][n][e] = 0;
        dots(s, qs, ks);
        c.wait();
        __syncthreads();                            /* v is there, k was read */
        if (key + COLUMNS < end) k.fetch<COLUMNS>(c, ks);
        if (scale.always || key < some || key + COLUMNS > whole) edge(s, a, p, first, key, scale);
        bool moved = false;
        EACH_ROW {
            f32 most = top[m][i];
#pragma unroll
            for (int n = 0; n < NT; n++) most = fmaxf(most, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
            most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
            /* all weights are 0 while every key is masked */
            const f32 base = most == -infinity<f32>() ? 0.0f : most * scale.outer;
            moved |= most != top[m][i];
            factor[m][i] = power_of_2(top[m][i] * scale.outer - base);
            top[m][i] = most;
            sum[m][i] *= factor[m][i];
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 2 * i; e < 2 * i + 2; e++)
                    sum[m][i] += s[m][n][e] = power_of_2(s[m][n][e] * scale.outer - base);
        }
        if (__any_sync(0xffffffffu, moved)) {
            EACH_ROW
#pragma unroll
            for (int n = 0; n < DT; n++) o[m][n][2 * i] *= factor[m][i], o[m][n][2 * i + 1] *= factor[m][i];
        }
        weights w;
        w.round(s);
        weigh(o, w, vs);
    }
    EACH_ROW {
        const int t = first + row_of(m, 2 * i);
        sum[m][i] += __shfl_xor_sync(0xffffffffu, sum[m][i], 1);
        sum[m][i] += __shfl_xor_sync(0xffffffffu, sum[m][i], 2);
        factor[m][i] = sum[m][i] == 0 ? 0.0f : 1.0f / sum[m][i];
        if (lane() % 4 == 0 && t < a.queries)
            a.lse[(p.b * a.H + p.h) * a.queries + t] = top[m][i] * scale.outer * LN2 + logf(sum[m][i]);
    }
    store(p.of(a.o, a.queries), p, o, factor);
}
#endif

#if PASS == 1
/* p = exp(scale q k^T + mask - lse),  dp = g v^T,  ds = p (dp - delta):  dq = scale ds k.  Tiles of k
 * and v are copied alternately, as for o. */
KERNEL(THREADS, 2) attention_dq(const arguments a) {
    const int qs = tile_at(0, 0), gs = tile_at(1, 0), ks = tile_at(2, 0), vs = tile_at(2, 1);
    const slice p = slice_of(a, ROWS, true), shared = keys_of(a, p);
    const int first = (int)p.first, begin = unseen(a, first), end = visible_to_any(a, first, ROWS),
              some = unseen(a, first + ROWS - 1), whole = visible(a, first);
    const scaling scale(a);
    f32 dq[MT][DT][4] = {}, s[MT][NT][4], dp[MT][NT][4], lse[MT][2], delta[MT][2], factor[MT][2];
    EACH_ROW {
        const int t = first + row_of(m, 2 * i);
        lse[m][i] = lse_of(a, p, t), delta[m][i] = -delta_of(a, p, t), factor[m][i] = (f32)a.scale;
    }
    stream q(p.of(a.q, a.queries), first), g(p.of(a.g, a.queries), first), k(shared.of(a.k, a.keys), begin),
        v(shared.of(a.v, a.keys), begin);
    copies c;
    q.fetch<ROWS>(c, qs);
    g.fetch<ROWS>(c, gs);
    v.fetch<COLUMNS>(c, vs);
    for (int key = begin; key < end; key += COLUMNS) {
        c.wait();
        __syncthreads();                            /* v is there, k was read */
        k.fetch<COLUMNS>(c, ks);
        EACH_SCORE dp[m][n][e] = delta[m][e / 2];
        dots(dp, gs, vs);
        c.wait();
        __syncthreads();                            /* k is there, v was read */
        if (key + COLUMNS < end) v.fetch<COLUMNS>(c, vs);
        EACH_SCORE s[m][n][e] = 0;
        dots(s, qs, ks);
        if (scale.always || key < some || key + COLUMNS > whole) edge(s, a, p, first, key, scale);
        EACH_SCORE s[m][n][e] = power_of_2(s[m][n][e] * scale.outer - lse[m][e / 2]) * dp[m][n][e];
        weights w;
        w.round(s);
        weigh(dq, w, ks);
    }
    store(p.of(a.dq, a.queries), p, dq, factor);
}
#endif

#if PASS == 2
/* With the same p and ds, a row for each key:  dv = p^T g,  dk = scale ds^T q.  Two warps have the
 * same keys: one computes p and dv, the other reads p and computes dk.  So each accumulates 16 MT
 * rows, not half as many, and reads shared memory half as often for a product. */
KERNEL(THREADS, 2) attention_dkv(const arguments a) {
    const bool is_dk = (int)threadIdx.x >= THREADS / 2;
    const slice p = slice_of(a, ROWS, false);
    /* the queries whole .. some attend to every row */
    const int first = (int)p.first, begin = first_query(a, first), end = end_of_queries(a, first + ROWS - 1),
              whole = first_query(a, first + ROWS - 1), some = end_of_queries(a, first);
    const scaling scale(a);
    f32 acc[MT][DT][4] = {}, s[MT][NT][4], factor[MT][2];
    EACH_ROW factor[m][i] = is_dk ? (f32)a.scale : 1;
    stream k(p.of(a.k, a.keys), first), v(p.of(a.v, a.keys), first);
    /* lse, then delta, of the columns of two tiles */
    f32 *const statistics = (f32 *)((char *)memory + tile_at(2, 4));
    pack<u32, 4> *const shared_weights = (pack<u32, 4> *)(statistics + 4 * COLUMNS) + threadIdx.x % (THREADS / 2);
    const int column = (int)threadIdx.x % COLUMNS;
    copies c;
    k.fetch<ROWS>(c, tile_at(0, 0));
    v.fetch<ROWS>(c, tile_at(1, 0));
    int now = 1;
    for (int head = 0; head < (int)a.shared; head++) {
        const slice h = sharer(a, p, head);
        stream q(h.of(a.q, a.queries), begin), g(h.of(a.g, a.queries), begin);
        const f32 *source = ((int)threadIdx.x < COLUMNS ? a.lse : a.delta) + (h.b * a.H + h.h) * a.queries + column;
        for (int query = begin - COLUMNS; query < end; query += COLUMNS) {
            c.wait();
            __syncthreads();                        /* this tile has arrived; the tile before it was read */
            now = !now;
            if (query + COLUMNS < end) {
                q.fetch<COLUMNS>(c, tile_at(2, 2 * now));
                g.fetch<COLUMNS>(c, tile_at(2, 2 * now + 1));
                if ((int)threadIdx.x < 2 * COLUMNS)
                    c.add<4>(address_of(tile_at(2, 4)) + (now * 2 * COLUMNS + (int)threadIdx.x) * 4,
                             source + query + COLUMNS, query + COLUMNS + column < a.queries);
            }
            if (query < begin) continue;
            const int x = tile_at(2, 2 * !now + is_dk), y = tile_at(2, 2 * !now + !is_dk);
            const f32 *const of_column = statistics + (2 * !now + is_dk) * COLUMNS;
            weights w;
            EACH_SCORE s[m][n][e] = 0;
            dots(s, is_dk ? tile_at(1, 0) : 0, x);
            if (!is_dk) {
                if (scale.always || query < whole || query + COLUMNS > some) edge(s, a, h, first, query, scale);
                EACH_SCORE s[m][n][e] = power_of_2(s[m][n][e] * scale.outer - of_column[column_of(n, e)]);
                w.round(s);
                EACH_WEIGHT shared_weights[(k * MT + m) * (THREADS / 2)] = w.v[k][m];
            }
            __syncthreads();                        /* p is there */
            if (is_dk) {
                EACH_WEIGHT w.v[k][m] = shared_weights[(k * MT + m) * (THREADS / 2)];
                EACH_SCORE s[m][n][e] = half_of(w.v[n / 2][m].v[n % 2 * 2 + e / 2], e % 2) *
                                        (s[m][n][e] - of_column[column_of(n, e)]);
                w.round(s);
            }
            weigh(acc, w, y);
        }
    }
    store(p.of(is_dk ? a.dk : a.dv, a.keys), p, acc, factor);
}
#endif
#endif
