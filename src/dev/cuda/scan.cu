/* scan.cu - running sums, products, log-sum-exps and extremes of x (M, R, N) along R: T elements, TO
 * results, HOW one of the structs below, EXTREME whether it is one of the last two.
 *
 * A block processes a chunk of one line, or of several neighbouring lines, tile by tile: `width`
 * threads share a line (device.cuh's share), V elements each.  Few lines are cut into chunks: first
 * the sums of the chunks, then their exclusive prefixes, then the results.  Limited by bytes: x is
 * read twice then and y written once. */
#ifdef __cplusplus
/* ---- monoids: the state of an element, the join of two consecutive states, and the identity */
struct float_sum {
    typedef f64 state;
    static D state none() { return -0.0; }
    static D state of(T x, i64) { return (f64)wide(x); }
    static D state join(state a, state b) { return a + b; }
    static D TO result(state s) { return cast<TO>(s); }
};

/* m 2^e with m in [1, 2), or 0, an infinity or NaN: a product overflows only where the result does, not in between. */
struct float_product {
    struct state { f64 m; i64 e; };
    static D state normal(f64 m, i64 e) {
        union { f64 f; u64 u; } v;
        v.f = m;
        const i64 exponent = (i64)(v.u >> 52 & 0x7ff);
        if (exponent == 0 || exponent == 0x7ff) return {m, e};
        v.u = (v.u & 0x800fffffffffffffull) | 0x3ff0000000000000ull;
        return {v.f, e + exponent - 1023};
    }
    static D state none() { return {1, 0}; }
    static D state of(T x, i64) {
        const f64 m = (f64)wide(x);
        /* a denormal is scaled first */
        return fabs(m) < 2.2250738585072014e-308 ? normal(m * 18446744073709551616.0, -64) : normal(m, 0);
    }
    static D state join(state a, state b) { return normal(a.m * b.m, a.e + b.e); }
    static D TO result(state s) {
        return cast<TO>((f64)ldexp(s.m, s.e > 4000 ? 4000 : s.e < -4000 ? -4000 : (int)s.e));
    }
};

struct log_sum {
    typedef f64 state;
    static D state none() { return -infinity<f64>(); }
    static D state of(T x, i64) { return (f64)wide(x); }
    static D state join(state a, state b) {
        if (a != a || b != b) return quiet_nan<f64>();
        const f64 most = a > b ? a : b, other = a > b ? b : a;
        return is_inf(most) ? most : most + log1p(exp(other - most));
    }
    static D TO result(state s) { return cast<TO>(s); }
};

struct integer_sum {                                /* both wrap */
    typedef u64 state;
    static D state none() { return 0; }
    static D state of(T x, i64) { return cast<u64>(x); }
    static D state join(state a, state b) { return a + b; }
    static D TO result(state s) { return cast<TO>((i64)s); }
};
struct integer_product : integer_sum {
    static D state none() { return 1; }
    static D state join(state a, state b) { return a * b; }
};

/* Among equals the last; r < 0: none yet. */
template <bool most> struct extreme {
    struct state { T v; i64 r; };
    static D state none() { return {T(), -1}; }
    static D state of(T x, i64 r) { return {x, r}; }
    static D state join(state a, state b) {
        const auto p = wide(a.v), q = wide(b.v);
        const bool reaches = q != q || (most ? q >= p : q <= p);
        return a.r < 0 || (b.r >= 0 && reaches) ? b : a;
    }
    static D TO result(state s) { return cast<TO>(s.v); }
};
typedef extreme<true> largest;
typedef extreme<false> smallest;

typedef HOW::state state;
#endif

/* x (M, R, N) along R; `width` threads share a line */
typedef struct scan_arguments {
    POINTER(TO) y;
    POINTER(i64) index;                             /* positions of the extremes: optional */
    POINTER(const T) x, a;                          /* a: weights; NULL: 1 */
    POINTER(state) states;                          /* (M, chunks, N), where lines are cut into chunks */
    i64 R, N, lines, chunk, chunks, width, along, reverse;             /* chunk: elements of a chunk */
} scan_arguments;

#ifdef __cplusplus
__shared__ state tile[256 * V], shared[2 * 256];
__shared__ f64 weights[256 * V];

typedef scan_arguments job;

/* The position of element k, in order of the scan, of the line that begins at `start`. */
D i64 offset_of(const job &p, i64 start, i64 k) { return start + (p.reverse ? p.R - 1 - k : k) * p.N; }

/* SUMS: of each chunk.  BEFORE: exclusive prefixes of the states, `chunks` of them a line, in place.
 * RESULTS: y, beginning with the states if lines are cut. */
enum task { SUMS, BEFORE, RESULTS };

template <task what> D void put(const job &p, i64 start, i64 k, state v) {
    const i64 at = offset_of(p, start, k);
    if constexpr (what == BEFORE) p.states[at] = v;
    else {
        p.y[at] = HOW::result(v);
#if EXTREME
        if (p.index) p.index[at] = v.r;
#endif
    }
}

template <task what> D void run(const job &p) {
    const share s = share_of(p.width, p.along);
    const i64 line = (i64)blockIdx.x / p.chunks * s.columns + s.column, c = (i64)blockIdx.x % p.chunks, m = line / p.N,
              n = line % p.N;
    const i64 start = m * p.R * p.N + n, begin = c * p.chunk;
    const i64 end = line >= p.lines ? begin : begin + p.chunk < p.R ? begin + p.chunk : p.R;
    state *staged = tile + s.column * s.width * V, carry = HOW::none(), v[V];
    if (what == RESULTS && p.chunks > 1 && line < p.lines) carry = p.states[(m * p.chunks + c) * p.N + n];
    for (i64 first = begin; first < begin + p.chunk; first += s.width * V) {
        for (int i = 0; i < V; i++) {
            const i64 k = first + (p.along ? i * s.width + s.lane : s.lane * V + i);
            v[i] = k >= end         ? HOW::none()
                   : what == BEFORE ? p.states[offset_of(p, start, k)]
                                    : HOW::of(p.x[offset_of(p, start, k)], k);
        }
        if (p.along) {                              /* neighbouring threads read neighbouring elements; one thread
                                                     * joins neighbouring elements */
            for (int i = 0; i < V; i++) staged[i * s.width + s.lane] = v[i];
            __syncthreads();
            for (int i = 0; i < V; i++) v[i] = staged[s.lane * V + i];
        }
        state own = v[0], all;
        for (int i = 1; i < V; i++) own = HOW::join(own, v[i]);
        state before = HOW::join(carry, prefix<HOW>(own, shared, s, all));
        carry = HOW::join(carry, all);
        if constexpr (what != SUMS) {
            for (int i = 0; i < V; i++) {
                const state next = HOW::join(before, v[i]);
                v[i] = what == BEFORE ? before : next;
                before = next;
            }
            if (p.along) {
                for (int i = 0; i < V; i++) staged[s.lane * V + i] = v[i];
                __syncthreads();
                for (int i = 0; i < V; i++) v[i] = staged[i * s.width + s.lane];
            }
            for (int i = 0; i < V; i++) {
                const i64 k = first + (p.along ? i * s.width + s.lane : s.lane * V + i);
                if (k < end) put<what>(p, start, k, v[i]);
            }
        }
    }
    if (what == SUMS && line < p.lines && s.lane == 0) p.states[(m * p.chunks + c) * p.N + n] = carry;
}

KERNEL(256) sums(const job p) { run<SUMS>(p); }
KERNEL(256) before(const job p) { run<BEFORE>(p); }
KERNEL(256) results(const job p) { run<RESULTS>(p); }

/* y[k] = x[k] + a[k] y[k - 1], step by step: joining parts would lose precision where the recurrence
 * grows.  Reversed, with the weight of the element before it.  All threads of a line fetch a tile, and
 * the first of them computes it.  HOW is float_sum. */
KERNEL(256) in_order(const job p) {
    const share s = share_of(p.width, 1);
    const i64 line = (i64)blockIdx.x * s.columns + s.column, start = line / p.N * p.R * p.N + line % p.N,
              end = line < p.lines ? p.R : 0;
    f64 *v = (f64 *)tile + s.column * s.width * V, *a = weights + s.column * s.width * V, y = 0;
    for (i64 first = 0; first < p.R; first += s.width * V) {
        for (int i = s.lane; i < s.width * V; i += s.width) {
            const i64 k = first + i, at = offset_of(p, start, k);
            if (k < end)
                v[i] = (f64)wide(p.x[at]), a[i] = !p.a || k == 0 ? 1 : (f64)wide(p.a[p.reverse ? at + p.N : at]);
        }
        __syncthreads();
        if (s.lane == 0)
            for (int i = 0; i < s.width * V && first + i < end; i++)
                v[i] = y = first + i ? __dadd_rn(v[i], __dmul_rn(a[i], y)) : v[i];
        __syncthreads();
        for (int i = s.lane; i < s.width * V; i += s.width) {
            const i64 k = first + i;
            if (k < end) p.y[offset_of(p, start, k)] = cast<TO>(v[i]);
        }
    }
}
#endif
