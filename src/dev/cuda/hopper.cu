/* hopper.cu - attention as in attention.cu for heads of HEAD = 64 and 128, f16 and bf16 (T), without a
 * mask, by the instructions of sm_90a, which no other GPU has (wgmma and the TMA; Shah et al. 2024).
 *
 * A block has three warpgroups.  One thread of the first copies tiles into a ring of slots in shared
 * memory.  The other two multiply: each has 64 rows.  A barrier `full` counts what arrives in a slot,
 * `free` the warps that have read it.  PASS 0: o; the two warpgroups take turns, so one computes
 * weights while the other multiplies.  PASS 2: dq, dk and dv from one computation of the scores.
 * Limited by flops.  Not measured on hardware. */
#include "attention.cuh"

/* the tensors as the TMA reads them, in panels of 64 columns; zeros outside */
typedef struct tensor_map { ALIGNED(64) u64 words[16]; } tensor_map;
typedef struct hopper_arguments {
    tensor_map q, k, v, g;
    attention_arguments of;
    POINTER(A) sums;                                /* of dq: (B, H, tiles of queries, 2 warpgroups, 32, 128 threads) */
    POINTER(unsigned) turns;                        /* the next block; for each part of sums, whose turn it is */
} hopper_arguments;

#ifdef __cplusplus
#include "hopper.cuh"

#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL
constexpr int PANELS = HEAD / 64, SLOTS = 2, THREADS = 3 * 128, CONSUMERS = 256, WARPS = CONSUMERS / 32;
constexpr int KEYS = 128;                           /* of a tile */
constexpr int QUERIES = PASS == 0 ? 128 : 128 / PANELS;                /* of a tile */
constexpr u32 KEY_PANEL = KEYS * LINE, QUERY_PANEL = QUERIES * LINE,   /* bytes of a panel, and of a tile */
              KEY_TILE = PANELS * KEY_PANEL, QUERY_TILE = PANELS * QUERY_PANEL;
extern __shared__ __align__(1024) u8 memory[];

typedef hopper_arguments hopper;
/* A thread of two warpgroups: which of them, the thread in it; the row, of the warpgroup's 64, and the column of
 * element e of the results. */
D int group() { return (int)(threadIdx.x / 128) - 1; }
D int thread() { return (int)(threadIdx.x % 128); }
D int row_of(int e) { return thread() / 32 * 16 + fragment_row(lane(), e); }
D int column_of(int e) { return e / 4 * 8 + fragment_column(lane(), e); }

/* A slot in a ring of slots, and the parity of its barriers. */
struct ring {
    u32 passed = 0;
    D int slot() const { return (int)(passed % SLOTS); }
    D u32 parity() const { return passed / SLOTS % 2; }
    D void advance() { passed++; }
};

/* One thread copies ROWS rows of a head into a tile. */
template <int ROWS> D void load_tile(u32 to, const tensor_map &from, i64 row, const slice &p, u32 barrier) {
    barrier_expect(barrier, PANELS * ROWS * LINE);
#pragma unroll
    for (int i = 0; i < PANELS; i++)
        load_box(to + (u32)(i * ROWS * LINE), from, 64 * i, (int)row, p.h, p.b, barrier);
}

/* s = x y^T: 64 rows of x and 2 N rows of y, over all columns. */
template <int N> D void dots(f32 (&s)[N], u32 x, u32 x_panel, u32 y, u32 y_panel) {
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++)
        multiply<T, 0, 0>(s, by_rows(x + (u32)(k / 4) * x_panel + 32 * (u32)(k % 4)),
                          by_rows(y + (u32)(k / 4) * y_panel + 32 * (u32)(k % 4)), k > 0);
}
/* acc += w y: 16 M rows of y */
template <int M, int N> D void weigh(f32 (&acc)[N], const u32 (&w)[M][4], u32 y, u32 panel) {
#pragma unroll
    for (int k = 0; k < M; k++) multiply<T, 1>(acc, w[k], by_columns(y + 2 * GROUP * (u32)k, panel), true);
}
/* s rounded to T, as rows of a product */
template <int M, int N> D void rounded(u32 (&w)[M][4], const f32 (&s)[N]) {
#pragma unroll
    for (int i = 0; i < N / 2; i++) w[i / 4][i % 4] = pair(s[2 * i], s[2 * i + 1]);
}

/* y[row ..] = acc factor, from column on */
template <int N>
D void store(const rows &y, i64 row, int column, const f32 (&acc)[N], const f32 (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const i64 r = row + row_of(2 * i);
        if (r >= y.count) continue;
#pragma unroll
        for (int e = 2 * i; e < N; e += 4)
            *(u32 *)(y.at + r * y.stride + column + column_of(e)) = pair(acc[e] * factor[i], acc[e + 1] * factor[i]);
    }
}

/* The scores of an edge tile: -Inf where a query does not attend to a key.  Rows are keys in PASS 2. */
template <int N>
D void edge(f32 (&s)[N], const arguments &a, int row, int column, const scaling &scale) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int y = row + opaque(row_of(2 * i)), x = column + column_of(0);
        int low = PASS == 2 ? first_query(a, y) : unseen(a, y), high = PASS == 2 ? end_of_queries(a, y) : visible(a, y);
        if (PASS == 2 && y >= (int)a.keys) high = 0;
        low -= x, high -= x;
#pragma unroll
        for (int e = 2 * i; e < N; e += 4)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const int c = e / 4 * 8 + j;
                s[e + j] = c >= low && c < high ? s[e + j] * scale.inner : -infinity<f32>();
            }
    }
}

#if PASS == 0
/* Shared memory: q, the slots of k, those of v, barriers. */
struct parts {
    u32 at;
    D u32 q() const { return at; }
    D u32 keys(int v, int slot) const { return at + QUERY_TILE + (u32)(v * SLOTS + slot) * KEY_TILE; }
    D u32 arrived() const { return at + QUERY_TILE + 2 * SLOTS * KEY_TILE; }           /* of q */
    D u32 full(int v, int slot) const { return arrived() + 8 * (u32)(1 + v * SLOTS + slot); }
    D u32 free(int v, int slot) const { return full(v, slot) + 8 * 2 * SLOTS; }
};

/* One thread copies q, then k and v tile by tile. */
D void produce(const hopper &x, const parts &m, const slice &p, int begin, int end) {
    if (begin >= end) return;
    const slice shared = keys_of(x.of, p);
    load_tile<QUERIES>(m.q(), x.q, p.first, p, m.arrived());
    barrier_arrive(m.arrived());
    ring r;
    for (int key = begin; key < end; key += KEYS, r.advance())
        for (int v = 0; v < 2; v++) {
            barrier_wait(m.free(v, r.slot()), r.parity() ^ 1);         /* in the first round all slots are free */
            load_tile<KEYS>(m.keys(v, r.slot()), v ? x.v : x.k, key, shared, m.full(v, r.slot()));
            barrier_arrive(m.full(v, r.slot()));
        }
}

/* The weights of scores s, the largest score and the sum of the weights so far for both rows of this
 * thread; factor: for what was summed with the largest score of before. */
D void weights_of(f32 (&s)[KEYS / 2], f32 (&top)[2], f32 (&sum)[2], f32 (&factor)[2], f32 outer) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        f32 most = top[i];
#pragma unroll
        for (int e = 2 * i; e < KEYS / 2; e += 4) most = fmaxf(most, fmaxf(s[e], s[e + 1]));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 1));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 2));
        /* all weights are 0 while every key is masked */
        const f32 base = most == -infinity<f32>() ? 0.0f : most * outer;
        factor[i] = power_of_2(top[i] * outer - base);
        top[i] = most;
        sum[i] *= factor[i];
#pragma unroll
        for (int e = 2 * i; e < KEYS / 2; e += 4) {
            sum[i] += s[e] = power_of_2(s[e] * outer - base);
            sum[i] += s[e + 1] = power_of_2(s[e + 1] * outer - base);
        }
    }
}

/* The products q k^T of a tile and weights times v of the tile before it are issued together; then it is
 * the other warpgroup's turn. */
D void consume(const hopper &x, const parts &m, const slice &p, int begin, int end) {
    const arguments &a = x.of;
    const scaling scale(a);
    const int first = (int)p.first + 64 * group(), some = unseen(a, first + 63), whole = visible(a, first);
    const u32 q = m.q() + 64 * LINE * (u32)group();
    f32 o[HEAD / 2] = {}, s[KEYS / 2], top[2] = {-infinity<f32>(), -infinity<f32>()}, sum[2] = {}, factor[2];
    u32 w[KEYS / 16][4];
    ring of_k, of_v;
    const auto weights = [&](int key) {             /* of the scores s */
        if (scale.always || key < some || key + KEYS > whole) edge(s, a, first, key, scale);
        weights_of(s, top, sum, factor, scale.outer);
    };
    if (begin < end) {
        if (group() == 1) arrive(1, CONSUMERS);     /* the first turn is group 0's */
        barrier_wait(m.arrived(), 0);
        barrier_wait(m.full(0, 0), 0);
        synchronize(1 + group(), CONSUMERS);
        begin_products();
        dots(s, q, QUERY_PANEL, m.keys(0, 0), KEY_PANEL);
        commit_products();
        if (group() == 0 || begin + KEYS < end) arrive(2 - group(), CONSUMERS);
        wait_products<0>();
        finished(s);
        if (lane() == 0) barrier_arrive(m.free(0, 0));
        weights(begin);
        rounded(w, s);
        for (int key = begin + KEYS; key < end; key += KEYS) {
            of_k.advance();
            barrier_wait(m.full(0, of_k.slot()), of_k.parity());
            barrier_wait(m.full(1, of_v.slot()), of_v.parity());
            synchronize(1 + group(), CONSUMERS);
            begin_products();
            dots(s, q, QUERY_PANEL, m.keys(0, of_k.slot()), KEY_PANEL);
            commit_products();
            weigh(o, w, m.keys(1, of_v.slot()), KEY_PANEL);
            commit_products();
            if (group() == 0 || key + KEYS < end) arrive(2 - group(), CONSUMERS);
            wait_products<1>();
            finished(s);
            if (lane() == 0) barrier_arrive(m.free(0, of_k.slot()));
            weights(key);
            wait_products<0>();
            finished(o);
            if (lane() == 0) barrier_arrive(m.free(1, of_v.slot()));
            of_v.advance();
#pragma unroll
            for (int e = 0; e < HEAD / 2; e++) o[e] *= factor[e / 2 % 2];
            rounded(w, s);
        }
        barrier_wait(m.full(1, of_v.slot()), of_v.parity());
        begin_products();
        weigh(o, w, m.keys(1, of_v.slot()), KEY_PANEL);
        commit_products();
        wait_products<0>();
        finished(o);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int t = first + row_of(2 * i);
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 1);
        sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], 2);
        factor[i] = sum[i] == 0 ? 0.0f : 1.0f / sum[i];
        if (lane() % 4 == 0 && t < a.queries)
            a.lse[(p.b * a.H + p.h) * a.queries + t] = top[i] * scale.outer * LN2 + logf(sum[i]);
    }
    store(p.of(a.o, a.queries), first, 0, o, factor);
}

KERNEL(THREADS, 1) attention_hopper(const __grid_constant__ hopper x) {
    const parts m = {shared_address(memory)};
    const slice p = slice_of(x.of, QUERIES, true);
    const int first = (int)p.first, begin = unseen(x.of, first), end = visible_to_any(x.of, first, QUERIES);
    if (threadIdx.x == 0) {
        barrier_init(m.arrived(), 1);
        for (int i = 0; i < 2 * SLOTS; i++)
            barrier_init(m.full(i % 2, i / 2), 1), barrier_init(m.free(i % 2, i / 2), WARPS);
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        give_registers<24>();
        if (threadIdx.x == 0) produce(x, m, p, begin, end);
    } else {
        take_registers<240>();
        consume(x, m, p, begin, end);
    }
}
#endif

#if PASS == 2
/* A block has KEYS keys of one head.  It passes over the tiles of queries that attend to them:  s = k q^T and
 * dp = v g^T, with a row for each key, give p and ds, rounded, in registers, for dv += p g and dk += ds q.
 * A copy of ds in shared memory gives this block's part of dq = ds^T k.  The blocks of a head
 * add their parts of a tile in the order of their keys, so the bits are the same each run: a block
 * waits until the one before it has added its part, and a block that waits began later. */
constexpr int SIDES = QUERIES / 64;                 /* panels of ds */
constexpr u32 DS_TILE = SIDES * KEY_PANEL;

/* Shared memory: k, v, the slots of q, those of g, two tiles of ds (keys, queries), lse and delta of the
 * slots, barriers, the block's number. */
struct parts {
    u32 at;
    D u32 keys(int v) const { return at + (u32)v * KEY_TILE; }
    D u32 queries(int g, int slot) const { return at + 2 * KEY_TILE + (u32)(g * SLOTS + slot) * QUERY_TILE; }
    D u32 ds(int i) const { return at + 2 * KEY_TILE + 2 * SLOTS * QUERY_TILE + (u32)i * DS_TILE; }
    D static f32 *statistics(int delta, int slot) {
        return (f32 *)(memory + 2 * KEY_TILE + 2 * SLOTS * QUERY_TILE + 2 * DS_TILE) + (delta * SLOTS + slot) * QUERIES;
    }
    D u32 arrived() const { return ds(2) + 2 * SLOTS * QUERIES * 4; }                  /* of k and v */
    D u32 full(int slot) const { return arrived() + 8 * (u32)(1 + slot); }
    D u32 free(int slot) const { return full(slot) + 8 * SLOTS; }
    D static u32 *block() { return (u32 *)(statistics(2, 0)) + 2 * (1 + 2 * SLOTS); }
};

/* The blocks first_of .. last_of add to a tile of dq: those whose keys a query attends to, or one. */
D int first_of(const arguments &a, int tile) {
    const int block = unseen(a, tile * QUERIES) / KEYS, blocks = (int)a.tiles;
    return block < blocks ? block : blocks - 1;
}
D int last_of(const arguments &a, int tile) {
    const int first = first_of(a, tile), last = (visible_to_any(a, tile * QUERIES, QUERIES) - 1) / KEYS;
    return last > first ? last : first;
}
D int tiles_of(const arguments &a) { return ((int)a.queries + QUERIES - 1) / QUERIES; }
/* The first tile whose first (or last) block is not before `block`: both grow with the tile. */
template <int (*BLOCK)(const arguments &, int)> D int tile_from(const arguments &a, int block) {
    int low = 0, high = tiles_of(a);
    while (low < high) {
        const int middle = (low + high) / 2;
        if (BLOCK(a, middle) < block) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* One warp copies: one thread k and v, then q and g of each tile, all of its threads lse and delta. */
D void produce(const hopper &x, const parts &m, const slice &p, int begin, int end) {
    const arguments &a = x.of;
    if (threadIdx.x == 0) {
        for (int v = 0; v < 2; v++) load_tile<KEYS>(m.keys(v), v ? x.v : x.k, p.first, p, m.arrived());
        barrier_arrive(m.arrived());
    }
    ring r;
    for (int head = 0; head < (int)a.shared; head++) {
        const slice h = sharer(a, p, head);
        for (int tile = begin; tile < end; tile++, r.advance()) {
            const int query = tile * QUERIES;
            barrier_wait(m.free(r.slot()), r.parity() ^ 1);            /* in the first round all slots are free */
            if (threadIdx.x == 0)
                for (int g = 0; g < 2; g++)
                    load_tile<QUERIES>(m.queries(g, r.slot()), g ? x.g : x.q, query, h, m.full(r.slot()));
            for (int i = (int)threadIdx.x; i < QUERIES; i += 32) {
                parts::statistics(0, r.slot())[i] = lse_of(a, h, query + i);
                parts::statistics(1, r.slot())[i] = delta_of(a, h, query + i);
            }
            barrier_arrive(m.full(r.slot()));
        }
    }
}

/* dq += ds^T k, in turn; a warpgroup has 64 queries and 64 columns of D. */
D void add(const hopper &x, const slice &h, int block, int tile, f32 (&dq)[32]) {
    const arguments &a = x.of;
    const int first = first_of(a, tile), last = last_of(a, tile);
    const i64 part = (((i64)h.b * a.H + h.h) * tiles_of(a) + tile) * 2 + group();
    pack<f32, 4> *const sums = (pack<f32, 4> *)x.sums + part * 8 * 128 + thread();
    u32 *const turn = x.turns + 1 + part;
    if (block > first) {
        wait_turn(turn, (u32)(block - first), 2 + group());
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const pack<f32, 4> before = sums[128 * i];
#pragma unroll
            for (int e = 0; e < 4; e++) dq[4 * i + e] += before.v[e];
        }
    }
    if (block < last) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            sums[128 * i] = pack<f32, 4>{{dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]}};
        set_turn(turn, (u32)(block - first + 1), 2 + group());
    } else {
        const f32 factor[2] = {(f32)a.scale, (f32)a.scale};
        const int side = SIDES == 2 ? group() : 0, column = SIDES == 2 ? 0 : 64 * group();
        store(h.of(a.dq, a.queries), tile * QUERIES + 64 * side, column, dq, factor);
    }
}

D void consume(const hopper &x, const parts &m, const slice &p, int begin, int end) {
    const arguments &a = x.of;
    const scaling scale(a);
    /* the queries whole .. some attend to each of this warpgroup's keys */
    const int first = (int)p.first + 64 * group(), whole = first_query(a, first + 63),
              some = first + 64 > (int)a.keys ? 0 : end_of_queries(a, first);
    const u32 rows = 64 * LINE * (u32)group();
    f32 dk[HEAD / 2] = {}, dv[HEAD / 2] = {}, s[32], dp[32], dq[32];
    ring r;
    barrier_wait(m.arrived(), 0);
    for (int head = 0; head < (int)a.shared; head++) {
        const slice h = sharer(a, p, head);
        for (int tile = begin; tile < end; tile++, r.advance()) {
            const u32 ds = m.ds(r.slot());
            barrier_wait(m.full(r.slot()), r.parity());
#pragma unroll
            for (int side = 0; side < SIDES; side++) {             /* 64 queries */
                const int query = opaque(tile * QUERIES) + 64 * side;    /* or both sides would be mixed: registers */
                const u32 q = m.queries(0, r.slot()) + 64 * LINE * (u32)side,
                          g = m.queries(1, r.slot()) + 64 * LINE * (u32)side;
                const f32 *const lse = parts::statistics(0, r.slot()) + 64 * side,
                          *const delta = parts::statistics(1, r.slot()) + 64 * side;
                u32 w[4][4], dw[4][4];
                begin_products();
                dots(s, m.keys(0) + rows, KEY_PANEL, q, QUERY_PANEL);
                commit_products();
                dots(dp, m.keys(1) + rows, KEY_PANEL, g, QUERY_PANEL);
                commit_products();
                wait_products<1>();
                finished(s);
                if (scale.always || query < whole || query + 64 > some) edge(s, a, first, query, scale);
#pragma unroll
                for (int e = 0; e < 32; e++) s[e] = power_of_2(s[e] * scale.outer - lse[column_of(e)]);
                rounded(w, s);
                wait_products<0>();
                finished(dp);
#pragma unroll
                for (int e = 0; e < 32; e++) dp[e] = s[e] * (dp[e] - delta[column_of(e)]);
                rounded(dw, dp);
                begin_products();
                weigh(dv, w, g, QUERY_PANEL);
                weigh(dk, dw, q, QUERY_PANEL);
                commit_products();
                const u32 row = (u32)opaque(row_of(0));
#pragma unroll
                for (int e = 0; e < 32; e += 2)
                    put(ds + (u32)side * KEY_PANEL + rows + swizzled(row + (u32)(e / 2 % 2 * 8), (u32)column_of(e)),
                        dw[e / 8][e / 2 % 4]);
            }
            publish();
            synchronize(1, CONSUMERS);              /* ds is there; the tile before it, of the other slot, was read */
            const u32 side = ds + (SIDES == 2 ? KEY_PANEL * (u32)group() : 0),
                      columns = m.keys(0) + (SIDES == 2 ? 0 : KEY_PANEL * (u32)group());
#pragma unroll
            for (int k = 0; k < KEYS / 16; k++)
                multiply<T, 1, 1>(dq, by_columns(side + 2 * GROUP * (u32)k, KEY_PANEL),
                                  by_columns(columns + 2 * GROUP * (u32)k, KEY_PANEL), k > 0);
            commit_products();
            wait_products<1>();
            if (lane() == 0) barrier_arrive(m.free(r.slot()));
            wait_products<0>();
            finished(dq);
            add(x, h, (int)p.first / KEYS, tile, dq);
        }
    }
    finished(dk), finished(dv);
    const f32 one[2] = {1, 1}, factor[2] = {(f32)a.scale, (f32)a.scale};
    store(p.of(a.dv, a.keys), first, 0, dv, one);
    store(p.of(a.dk, a.keys), first, 0, dk, factor);
}

KERNEL(THREADS, 1) attention_hopper_bwd(const __grid_constant__ hopper x) {
    const parts m = {shared_address(memory)};
    if (threadIdx.x == 0) {
        *parts::block() = atomicAdd(x.turns, 1u);   /* in the order in which blocks begin */
        barrier_init(m.arrived(), 1);
        for (int i = 0; i < SLOTS; i++) barrier_init(m.full(i), 32), barrier_init(m.free(i), WARPS);
        barriers_ready();
    }
    __syncthreads();
    const slice p = slice_of(x.of, KEYS, false, *parts::block());
    const int block = (int)p.first / KEYS, begin = tile_from<last_of>(x.of, block),
              end = tile_from<first_of>(x.of, block + 1);
    if (threadIdx.x < 128) {
        give_registers<24>();
        if (threadIdx.x < 32) produce(x, m, p, begin, end);
    } else {
        take_registers<240>();
        consume(x, m, p, begin, end);
    }
}
#endif
#endif
#endif
