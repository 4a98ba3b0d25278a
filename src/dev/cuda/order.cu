/* order.cu - rows of x (M, R) in order, positions in a sorted row, runs of equal rows: T elements, POSITION
 * the type of positions, TILE elements of a block.
 *
 * Elements are ordered by unsigned keys, eight bits at a time, the lowest first (radix sort, Knuth
 * 5.2.5), each step stable. The element and its position move together; its key is computed again in
 * each step. */
/* rows of x (M, R) */
typedef struct rank_arguments {
    POINTER(T) y;                                   /* (M, K): optional */
    POINTER(i64) index;
    POINTER(const T) x;
    i64 M, R, K;
    u64 flip;                                       /* all ones: the largest first */
} rank_arguments;
typedef struct sort_arguments {
    POINTER(T) y;
    POINTER(POSITION) positions;                    /* positions for the next kernel, or */
    POINTER(i64) index;                             /* positions as the final result */
    POINTER(const T) x;
    POINTER(const POSITION) from;                   /* positions of the elements of x; NULL: x has its original order */
    POINTER(unsigned) counts;                       /* (M, tiles, 256): how often each digit occurs */
    POINTER(const i64) ends;                        /* running sums of the counts along the tiles */
    i64 R, K, next, tiles, shift;                   /* R, next: elements of a row of x, of y; K: elements wanted of a
                                                     * row, or of each tile of it */
    u64 flip;
} sort_arguments;
typedef struct pick_arguments {
    POINTER(T) y;
    POINTER(i64) index;
    POINTER(const T) sorted;                        /* (M, K) */
    POINTER(const i64) positions;
    i64 M, R, K, k;                                 /* k: -1: the median, or the first NaN; -2: the median of the
                                                     * numbers */
} pick_arguments;
/* the digits found so far; how many elements with these digits precede the wanted one */
typedef struct select_state { u64 key, before; } select_state;
typedef struct select_arguments {
    POINTER(T) y;
    POINTER(i64) index;
    POINTER(const T) x;
    POINTER(u64) counts;                            /* (M, 257): of each digit, and of NaN; later (M, tiles): smaller
                                                     * keys << 32 | equal keys */
    POINTER(select_state) found;                    /* (M) */
    i64 R, tiles, shift, k;                         /* shift: of the digit, the highest digit first; k as in
                                                     * pick_arguments */
    POINTER(POSITION) positions;                    /* y and positions (M, k + 1): the elements up to the wanted one */
    POINTER(const u64) ends;                        /* running sums of counts along the tiles */
    u64 flip;
} select_arguments;
typedef struct search_arguments {
    POINTER(i64) y;                                 /* (M, K) */
    POINTER(const T) x, v;
    i64 results, R, K, step, right;                 /* step: from one row of x to the next; 0: x has one row */
} search_arguments;
typedef struct begins_arguments {
    POINTER(unsigned char) y;
    POINTER(const T) x;                             /* (R, C) */
    i64 R, C, width;                                /* width: threads that share a row */
} begins_arguments;
typedef struct number_arguments {
    POINTER(i64) run, starts, count;                /* run: optional */
    POINTER(const i64) begun, order;                /* begun: how many runs have begun up to each row; order:
                                                     * optional */
    i64 R;
} number_arguments;

#ifdef __cplusplus
enum { ITEMS = TILE / 256 };                        /* of a thread */

template <int bytes> struct unsigned_of { typedef u32 type; };
template <> struct unsigned_of<1> { typedef u8 type; };
template <> struct unsigned_of<2> { typedef u16 type; };
template <> struct unsigned_of<8> { typedef u64 type; };
typedef unsigned_of<sizeof(T)>::type KEY;

/* The order of keys is that of the elements: -0 equals 0, NaN comes after all others. */
D KEY key(T x) {
    constexpr KEY top = (KEY)1 << (8 * sizeof(T) - 1);
    union { T x; KEY u; } v;
    v.x = x;
    if constexpr (same<T, b8>) return wide(x);
    else if constexpr (is_float<T>) {
        const auto f = wide(x);
        return f != f ? (KEY)~(KEY)0 : f == 0 ? top : (KEY)(v.u & top ? ~v.u : v.u | top);
    }
    else return is_signed<T> ? v.u ^ top : v.u;
}

#define EACH(i, n) for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < (n); i += (i64)gridDim.x * 256)

/* ---- short rows: a thread counts the elements before its own */
KERNEL(256) rank(const rank_arguments p) {
    EACH(i, p.M * p.R) {
        const i64 m = i / p.R, r = i % p.R;
        const KEY mine = (KEY)(key(p.x[i]) ^ (KEY)p.flip);
        i64 before = 0;
        for (i64 k = 0; k < p.R; k++) {
            const KEY other = (KEY)(key(p.x[m * p.R + k]) ^ (KEY)p.flip);
            before += other < mine || (other == mine && k < r);
        }
        if (before >= p.K) continue;
        p.index[m * p.K + before] = r;
        if (p.y) p.y[m * p.K + before] = p.x[i];
    }
}

/* ---- a tile by one digit.  A warp has `rounds` x 32 consecutive elements; a thread has every 32nd of them. */
typedef sort_arguments ordering;
struct memory {
    T value[TILE];
    POSITION position[TILE];
    u32 start[256], shared[2 * 256];
    union { u32 count[8][256]; i64 sums[2 * 256]; };                   /* of digits, by warp; sums are used later */
    i64 to[256];
};
__shared__ memory s;
struct add { static D u32 none() { return 0; } static D u32 join(u32 a, u32 b) { return a + b; } };
struct add_long { static D i64 none() { return 0; } static D i64 join(i64 a, i64 b) { return a + b; } };

D int digit(T x, const ordering &p, i64 shift) { return (int)((KEY)(key(x) ^ (KEY)p.flip) >> shift & 255); }

/* element i lies at first + 32 i, n of the tile */
struct items { T v[ITEMS]; POSITION p[ITEMS]; int first, rounds, n; };
D items open_tile(const ordering &p, i64 row, i64 tile) {
    const int t = (int)threadIdx.x;
    const i64 first = tile * TILE, left = p.R - first;
    items e;
    e.n = left < TILE ? (int)left : (int)TILE;
    e.rounds = (e.n + 255) / 256;
    e.first = t / 32 * 32 * e.rounds + t % 32;
    const T *x = p.x + row * p.R + first;
    const POSITION *from = p.from + row * p.R + first;
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int at = e.first + 32 * i;
        const bool there = i < e.rounds && at < e.n;
        e.v[i] = there ? x[at] : T();
        e.p[i] = !there ? 0 : p.from ? from[at] : (POSITION)(first + at);
    }
    return e;
}

/* Writes the elements to s.value and s.position, in order of the digit at `shift`, and the first position
 * of each digit to s.start.  Returns how often the digit equal to this thread's number occurs. */
D u32 split(const items &e, const ordering &p, i64 shift) {
    const int t = (int)threadIdx.x, warp = t / 32, lane = t % 32;
    for (int w = 0; w < 8; w++) s.count[w][t] = 0;
    __syncthreads();
    u32 rank[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (i >= e.rounds) break;
        const bool there = e.first + 32 * i < e.n;
        const int d = digit(e.v[i], p, shift);
        u32 same = __ballot_sync(~0u, there);       /* lanes with the same digit */
        for (int b = 0; b < 8; b++) {
            const u32 vote = __ballot_sync(~0u, d >> b & 1);
            same &= d >> b & 1 ? vote : ~vote;
        }
        const u32 before = s.count[warp][d], lower = (u32)__popc(same & ((1u << lane) - 1));
        __syncwarp();
        if (there && lower == 0) s.count[warp][d] = before + (u32)__popc(same);
        __syncwarp();
        rank[i] = before + lower;
    }
    __syncthreads();
    u32 total = 0, all;
    for (int w = 0; w < 8; w++) {
        const u32 n = s.count[w][t];
        s.count[w][t] = total;
        total += n;
    }
    s.start[t] = prefix<add>(total, s.shared, share{256, t, 0, 1, 1}, all);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (i >= e.rounds || e.first + 32 * i >= e.n) continue;
        const int d = digit(e.v[i], p, shift);
        const u32 to = s.start[d] + s.count[warp][d] + rank[i];
        s.value[to] = e.v[i];
        s.position[to] = e.p[i];
    }
    __syncthreads();
    return total;
}

D void put(const ordering &p, i64 to, T v, POSITION position) {
    if (p.y) p.y[to] = v;
    if (p.index) p.index[to] = (i64)position;
    else p.positions[to] = position;
}

/* The first K of each tile of each row, one tile after another.  At least 2 blocks: ptxas would spill
 * for more with f64. */
KERNEL(256, 2) sort_tile(const ordering p) {
    const i64 m = (i64)blockIdx.x / p.tiles, tile = (i64)blockIdx.x % p.tiles;
    items e = open_tile(p, m, tile);
    for (i64 shift = 0; shift < (i64)(8 * sizeof(T)); shift += 8) {
        split(e, p, shift);
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int at = e.first + 32 * i;
            if (i < e.rounds && at < e.n) e.v[i] = s.value[at], e.p[i] = s.position[at];
        }
    }
    for (int i = (int)threadIdx.x; i < e.n && i < p.K; i += 256)
        put(p, m * p.next + tile * p.K + i, s.value[i], s.position[i]);
}

/* ---- rows of many tiles: for each digit count, running sums (scan.cu), scatter */
KERNEL(256) count(const ordering p) {
    __shared__ u32 n[256];
    const int t = (int)threadIdx.x;
    const i64 m = (i64)blockIdx.x / p.tiles, first = (i64)blockIdx.x % p.tiles * TILE, left = p.R - first;
    const T *x = p.x + m * p.R + first;
    n[t] = 0;
    __syncthreads();
    for (int i = t; i < TILE && i < left; i += 256) atomicAdd(&n[digit(x[i], p, p.shift)], 1u);
    __syncthreads();
    p.counts[(i64)blockIdx.x * 256 + t] = n[t];
}

KERNEL(256) scatter(const ordering p) {
    const int t = (int)threadIdx.x;
    const i64 m = (i64)blockIdx.x / p.tiles, tile = (i64)blockIdx.x % p.tiles;
    i64 all;
    const items e = open_tile(p, m, tile);
    const u32 mine = split(e, p, p.shift);
    const i64 so_far = p.ends[(i64)blockIdx.x * 256 + t], in_row = p.ends[((m + 1) * p.tiles - 1) * 256 + t];
    s.to[t] = prefix<add_long>(in_row, s.sums, share{256, t, 0, 1, 1}, all) + so_far - mine - s.start[t];
    __syncthreads();
    for (int i = t; i < e.n; i += 256) {
        const i64 to = s.to[digit(s.value[i], p, p.shift)] + i;
        if (to < p.K) put(p, m * p.next + to, s.value[i], s.position[i]);
    }
}

/* ---- element k of each row of R, of which the first K are sorted */
KERNEL(256) pick(const pick_arguments p) {
    EACH(m, p.M) {
        i64 low = 0, high = p.K, at = p.k;
        while (low < high) {                        /* low: how many elements are not NaN */
            const i64 middle = (low + high) / 2;
            const auto v = wide(p.sorted[m * p.K + middle]);
            if (v != v) high = middle;
            else low = middle + 1;
        }
        if (p.k == -1) at = low < p.R ? low : (p.R - 1) / 2;
        if (p.k == -2) at = low ? (low - 1) / 2 : 0;
        p.y[m] = p.sorted[m * p.K + at];
        p.index[m] = p.positions[m * p.K + at];
    }
}

/* ---- one element of each long row, without sorting the others.  For each digit, the highest first:
 * select_count counts the next digits of the elements that have the digits found so far, and
 * select_step finds the digit of the wanted element.  Then select_position finds its position, or
 * select_collect the elements up to it.  Limited by bytes: the row is read once for each digit, and
 * once more. */
typedef select_arguments selection;
D u64 key(T x, const selection &p) { return (KEY)(key(x) ^ (KEY)p.flip); }
D bool is_nan(T x) { if constexpr (is_float<T>) return wide(x) != wide(x); else return false; }

/* Row and tile of a block, and the elements of the tile. */
struct part { i64 row, tile; const T *x; int n; };
D part part_of(const selection &p) {
    const i64 row = (i64)blockIdx.x / p.tiles, tile = (i64)blockIdx.x % p.tiles, left = p.R - tile * TILE;
    return part{row, tile, p.x + row * p.R + tile * TILE, left < TILE ? (int)left : (int)TILE};
}

KERNEL(256) select_count(const selection p) {
    __shared__ u32 n[257];
    const part a = part_of(p);
    const u64 key_so_far = p.found[a.row].key;
    const bool first = p.shift == (i64)(8 * sizeof(T)) - 8;
    for (int i = (int)threadIdx.x; i < 257; i += 256) n[i] = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < a.n; i += 256) {
        const u64 k = key(a.x[i], p);
        if (first && is_nan(a.x[i])) atomicAdd(&n[256], 1u);
        if (first || (k ^ key_so_far) >> (p.shift + 8) == 0) atomicAdd(&n[k >> p.shift & 255], 1u);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 257; i += 256) if (n[i]) atomicAdd(&p.counts[a.row * 257 + i], (u64)n[i]);
}

KERNEL(256) select_step(const selection p) {
    const int t = (int)threadIdx.x;
    const i64 m = (i64)blockIdx.x;
    u64 *counts = p.counts + m * 257;
    select_state f = p.found[m];
    const i64 mine = (i64)counts[t], numbers = p.R - (i64)counts[256];
    i64 all;
    if (p.shift == (i64)(8 * sizeof(T)) - 8) {
        const i64 k = p.k == -1   ? (numbers < p.R ? numbers : (p.R - 1) / 2)
                      : p.k == -2 ? (numbers ? (numbers - 1) / 2 : 0)
                                  : p.k;
        f = {0, (u64)k};
    }
    /* its barriers: `found` was read before it changes */
    const i64 before = prefix<add_long>(mine, s.sums, share{256, t, 0, 1, 1}, all);
    if (before <= (i64)f.before && (i64)f.before < before + mine)
        p.found[m] = {f.key | (u64)t << p.shift, f.before - (u64)before};
    counts[t] = 0;
}

KERNEL(256) select_equal(const selection p) {
    __shared__ u64 shared[256];
    const part a = part_of(p);
    const u64 found = p.found[a.row].key;
    u64 n = 0;
    for (int i = (int)threadIdx.x; i < a.n; i += 256) {
        const u64 k = key(a.x[i], p);
        n += k < found ? 1ull << 32 : k == found;
    }
    n = tree<sum_of>(n, shared, share_of(256, 1));
    if (threadIdx.x == 0) p.counts[blockIdx.x] = n;
}

/* Collects the elements up to the wanted one, in order of position, and of its equals as many as are
 * wanted.  Most tiles have none and are not read. */
KERNEL(256) select_collect(const selection p) {
    const part a = part_of(p);
    const select_state f = p.found[a.row];
    const u64 here = p.counts[blockIdx.x], before = p.ends[blockIdx.x] - here;
    const u32 wanted = (u32)f.before + 1;
    u32 smaller = (u32)(before >> 32), equal = (u32)before, mine = 0, all;
    if (!(here >> 32) && (!here || equal >= wanted)) return;
    const int first = (int)threadIdx.x * ITEMS, end = first + ITEMS < a.n ? first + ITEMS : a.n;
    for (int i = first; i < end; i++) {
        const u64 k = key(a.x[i], p);
        mine += k < f.key ? 1u << 16 : k == f.key;
    }
    mine = prefix<add>(mine, s.shared, share{256, (int)threadIdx.x, 0, 1, 1}, all);
    smaller += mine >> 16, equal += mine & 0xffff;
    for (int i = first; i < end; i++) {
        const u64 k = key(a.x[i], p);
        if (k < f.key || (k == f.key && equal < wanted)) {
            const i64 to = a.row * (p.k + 1) + smaller + (equal < wanted ? equal : wanted);
            p.y[to] = a.x[i];
            p.positions[to] = (POSITION)(a.tile * TILE + i);
        }
        smaller += k < f.key, equal += k == f.key;
    }
}

/* The position of the wanted one among its equals: its tile, then its position in the tile. */
KERNEL(256) select_position(const selection p) {
    __shared__ i64 tile, rank;
    const int t = (int)threadIdx.x;
    const i64 m = (i64)blockIdx.x;
    const select_state f = p.found[m];
    i64 all, so_far = 0;
    for (i64 first = 0; first < p.tiles; first += 256) {
        const i64 i = first + t, mine = i < p.tiles ? (i64)(u32)p.counts[m * p.tiles + i] : 0,
                  before = so_far + prefix<add_long>(mine, s.sums, share{256, t, 0, 1, 1}, all);
        if (before <= (i64)f.before && (i64)f.before < before + mine) tile = i, rank = (i64)f.before - before;
        so_far += all;
    }
    __syncthreads();
    const i64 begin = tile * TILE, wanted = rank, end = begin + TILE < p.R ? begin + TILE : p.R;
    so_far = 0;
    for (i64 first = begin; first < end; first += 256) {
        const i64 i = first + t;
        const bool mine = i < end && (u64)key(p.x[m * p.R + i]) == f.key;
        const i64 before = so_far + prefix<add_long>((i64)mine, s.sums, share{256, t, 0, 1, 1}, all);
        if (mine && before == wanted) p.y[m] = p.x[m * p.R + i], p.index[m] = i;
        so_far += all;
    }
}

/* ---- y[m, k] = how many elements of row m of x (M, R) are less than v[m, k], or equal where right */
KERNEL(256) search(const search_arguments p) {
    EACH(i, p.results) {
        const T *row = p.x + i / p.K * p.step;
        const KEY wanted = key(p.v[i]);
        i64 low = 0, high = p.R;
        while (low < high) {
            const i64 middle = (low + high) / 2;
            const KEY k = key(row[middle]);
            if (k < wanted || (p.right && k == wanted)) low = middle + 1;
            else high = middle;
        }
        p.y[i] = low;
    }
}

/* ---- runs of equal rows of x (R, C): `begins` writes 1 where a run begins; `number` uses the running sums of these */
KERNEL(256) begins(const begins_arguments p) {
    __shared__ int shared[256];
    const share s = share_of(p.width, 1);
    const i64 r = (i64)blockIdx.x * s.columns + s.column;
    int fresh = r == 0;
    if (r && r < p.R)
        for (i64 c = s.lane; c < p.C; c += s.width) {
            const T v = p.x[r * p.C + c];
            fresh |= key(v) != key(p.x[(r - 1) * p.C + c]) || wide(v) != wide(v);
        }
    fresh = tree<max_of>(fresh, shared, s);
    if (r < p.R && s.lane == 0) p.y[r] = (u8)fresh;
}

KERNEL(256) number(const number_arguments p) {
    EACH(i, p.R) {
        const i64 n = p.begun[i];
        if (i == 0 || p.begun[i - 1] != n) p.starts[n - 1] = i;
        if (i == p.R - 1) *p.count = n;
        if (p.run) p.run[p.order ? p.order[i] : i] = n - 1;
    }
}
#endif
