/* rows.cu - softmax, normalisation and cross-entropy over rows, x (M, N): T elements, A the type of
 * computation and of statistics (f32; f64 for f64).  g is the cotangent.
 *
 * `width` threads share a row; sums are trees over them.  A thread has every width-th pack of V
 * elements (16 bytes) and keeps the first KEPT of them in registers.  So rows of up to 4096 elements
 * (2048 of f64) are read once; each kernel says how often it reads longer rows.  Limited by bytes:
 * read once and written once.  A thread has KEPT packs in flight, also in the rest of a long row. */
/* x (M, N); `width` threads share a row */
typedef struct softmax_arguments {
    POINTER(T) y;
    POINTER(const T) x;
    i64 M, N, width, log;                           /* log: the logarithm of softmax */
} softmax_arguments;
typedef struct softmax_bwd_arguments {
    POINTER(T) dx;
    POINTER(const T) y, g;
    i64 M, N, width, log;
} softmax_bwd_arguments;
typedef struct norm_arguments {
    POINTER(T) y;
    POINTER(A) mean, rstd;                          /* (M); mean: NULL for the RMS norm */
    POINTER(const T) x, w, b;                       /* w, b (N): optional */
    i64 M, N, width;
    f64 eps;
} norm_arguments;
typedef struct norm_bwd_arguments {
    POINTER(T) dx;                                  /* optional, and so are dw and db */
    POINTER(A) dw, db;                              /* (parts of the rows, N): sums of each part */
    POINTER(const T) x, w;
    POINTER(const A) mean, rstd;
    POINTER(const T) g;
    i64 M, N, width;
    i64 rows, chunks;                               /* rows of a part; chunks of columns, each with its own block */
    i64 add;                                        /* dx += instead of = */
} norm_bwd_arguments;
typedef struct cross_entropy_arguments {
    POINTER(A) loss, lse;                           /* (M) */
    POINTER(const T) x;
    POINTER(const void) target;                     /* (M): i64 where wide_target, else i32 */
    POINTER(fault) f;
    i64 M, N, pitch, width, wide_target, ignore;    /* pitch: from row to row of x */
    f64 smoothing;
} cross_entropy_arguments;
typedef struct cross_entropy_bwd_arguments {
    POINTER(T) dx;
    POINTER(const T) x;
    POINTER(const void) target;
    POINTER(const A) lse, g;
    i64 M, N, pitch, width, wide_target, ignore, g_step;       /* pitch: of x and dx; g_step: 0 where all rows share
                                                                * one cotangent */
    f64 smoothing;
} cross_entropy_bwd_arguments;

#ifdef __cplusplus
constexpr int V = 16 / (int)sizeof(T), KEPT = V == 8 ? 2 : 4;
typedef pack<T, V> packed;

/* A row as a thread sees it.  Packs are aligned to 16 bytes if x is, so the first and the last may lie
 * partly outside the row. */
struct span {
    share s;
    i64 m, row, N, first, step;                     /* number of the row, its first element, its columns (0: no such
                                                     * row); the column of the first pack, the distance to the next */
    D bool has(i64 n) const { return (u64)n < (u64)N; }
};
D span span_at(const share &s, i64 m, i64 M, i64 N, i64 pitch) {
    return span{s, m, m * pitch, m < M ? N : 0, (i64)s.lane * V - m * pitch % V, (i64)s.width * V};
}
D span span_of(i64 M, i64 N, i64 width, i64 pitch) {
    const share s = share_of(width, 1);
    return span_at(s, (i64)blockIdx.x * s.columns + s.column, M, N, pitch);
}
D span span_of(i64 M, i64 N, i64 width) { return span_of(M, N, width, N); }

/* Pack n of a row that begins at x; `none` outside. */
D packed load(const T *x, i64 n, const span &r, T none = T()) {
    if (r.has(n) && r.has(n + V - 1) && (u64)(x + n) % 16 == 0) return *(const packed *)(x + n);
    packed v;
    for (int k = 0; k < V; k++) v.v[k] = r.has(n + k) ? x[n + k] : none;
    return v;
}
D void store(T *y, i64 n, const span &r, const packed &v) {
    if (r.has(n) && r.has(n + V - 1) && (u64)(y + n) % 16 == 0) *(packed *)(y + n) = v;
    else for (int k = 0; k < V; k++) if (r.has(n + k)) y[n + k] = v.v[k];
}

/* f(i, n) for each pack of a thread: its number i and its first column n. */
template <class F> D void each_pack(const span &r, F f) {
#pragma unroll
    for (int i = 0; i < KEPT; i++) if (r.first + i * r.step < r.N) f(i, r.first + i * r.step);
    for (i64 n = r.first + KEPT * r.step; n < r.N; n += r.step) f((int)KEPT, n);
}

struct line {                                       /* a thread's packs of a row; none: the value outside the row */
    const T *x;
    T none;
    packed kept[KEPT];
    D packed at(int i, i64 n, const span &r) const { return i < KEPT ? kept[i] : load(x, n, r, none); }
};
D line line_of(const T *x, const span &r, T none = T()) {
    line l = {x + r.row, none};
#pragma unroll
    for (int i = 0; i < KEPT; i++) l.kept[i] = load(l.x, r.first + i * r.step, r, none);
    return l;
}
/* f(v, n) for each pack v of a thread, from column n on. */
template <class F> D void each_kept(const line &x, const span &r, F f) {
    packed v[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; i++) v[i] = x.kept[i];
#pragma unroll 1
    for (i64 n = r.first; n < r.N; n += KEPT * r.step) {
        if (n != r.first) {
#pragma unroll
            for (int i = 0; i < KEPT; i++) v[i] = load(x.x, n + i * r.step, r, x.none);
        }
#pragma unroll
        for (int i = 0; i < KEPT; i++) if (n + i * r.step < r.N) f(v[i], n + i * r.step);
    }
}
template <class F> D void each_value(const line &x, const span &r, F f) {
    each_kept(x, r, [&](const packed &v, i64 n) {
        for (int k = 0; k < V; k++) if (r.has(n + k)) f(cast<A>(v.v[k]));
    });
}

/* The sum of exp(x - most), most the largest element, in one pass with a running maximum (Milakov and
 * Gimelshein 2018).  Outside the row: -Inf. */
D line exponents_of(const T *x, const span &r) { return line_of(x, r, cast<T>(-infinity<A>())); }
D A base_of(A top) { return top == -infinity<A>() ? (A)0 : top; }      /* sums are 0 while all elements are -Inf */
D A exponentials(const line &x, const span &r, A *shared, A &most) {
    A top = -infinity<A>(), sum = 0;
    each_kept(x, r, [&](const packed &v, i64) {
        const A before = top;
        for (int k = 0; k < V; k++) top = f_max(top, cast<A>(v.v[k]));
        sum *= weight_of<T>(before - base_of(top));
        for (int k = 0; k < V; k++) sum += weight_of<T>(cast<A>(v.v[k]) - base_of(top));
    });
    most = tree<max_of>(top, shared, r.s);
    return tree<sum_of>(sum * weight_of<T>(top - base_of(most)), shared, r.s);
}

/* y = exp(x - max) / sum(exp(x - max)), or its logarithm; long rows are read twice.  At least 2
 * blocks: ptxas would spill for more. */
KERNEL(256, 2) softmax(const softmax_arguments p) {
    __shared__ A shared[256];
    const span r = span_of(p.M, p.N, p.width);
    T *const y = p.y + r.row;
    const line a = exponents_of(p.x, r);
    A most;
    const A sum = exponentials(a, r, shared, most), log_sum = f_log(sum), factor = (A)1 / sum;
    each_pack(r, [&](int i, i64 n) {
        packed v = a.at(i, n, r);
        for (int k = 0; k < V; k++) {
            const A shifted = cast<A>(v.v[k]) - most;
            v.v[k] = cast<T>(p.log ? shifted - log_sum : weight_of<T>(shifted) * factor);
        }
        store(y, n, r, v);
    });
}

/* y = softmax(x):  dx = y (g - sum(g y));  y = log_softmax(x):  dx = g - exp(y) sum(g); long rows are
 * read twice.  At least 2 blocks: ptxas would spill for more. */
KERNEL(256, 2) softmax_bwd(const softmax_bwd_arguments p) {
    __shared__ A shared[256];
    const span r = span_of(p.M, p.N, p.width);
    const line a = line_of(p.y, r), b = line_of(p.g, r);
    A sum = 0;
    each_pack(r, [&](int i, i64 n) {
        const packed v = a.at(i, n, r), d = b.at(i, n, r);
        for (int k = 0; k < V; k++)
            if (r.has(n + k)) sum += p.log ? cast<A>(d.v[k]) : cast<A>(d.v[k]) * cast<A>(v.v[k]);
    });
    sum = tree<sum_of>(sum, shared, r.s);
    each_pack(r, [&](int i, i64 n) {
        const packed v = a.at(i, n, r);
        packed d = b.at(i, n, r);
        for (int k = 0; k < V; k++) {
            const A y = cast<A>(v.v[k]), dy = cast<A>(d.v[k]);
            d.v[k] = cast<T>(p.log ? dy - weight_of<T>(y) * sum : y * (dy - sum));
        }
        store(p.dx + r.row, n, r, d);
    });
}

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); without mean: RMS norm; long
 * rows are read three times, or twice */
KERNEL(256) layer_norm(const norm_arguments p) {
    __shared__ A shared[256];
    const span r = span_of(p.M, p.N, p.width);
    const line a = line_of(p.x, r);
    A sum = 0, mu = 0;
    if (p.mean) {
        each_value(a, r, [&](A v) { sum += v; });
        mu = tree<sum_of>(sum, shared, r.s) / (A)p.N;
    }
    sum = 0;
    each_value(a, r, [&](A v) { sum += (v - mu) * (v - mu); });
    const A scale = (A)1 / f_sqrt(tree<sum_of>(sum, shared, r.s) / (A)p.N + (A)p.eps);
    each_pack(r, [&](int i, i64 n) {
        packed v = a.at(i, n, r);
        const packed factor = p.w ? load(p.w, n, r) : v, shift = p.b ? load(p.b, n, r) : v;
        for (int k = 0; k < V; k++)
            v.v[k] = cast<T>((cast<A>(v.v[k]) - mu) * scale * (p.w ? cast<A>(factor.v[k]) : (A)1) +
                             (p.b ? cast<A>(shift.v[k]) : (A)0));
        store(p.y + r.row, n, r, v);
    });
    if (r.N && r.s.lane == 0) {
        if (p.mean) p.mean[r.m] = mu;
        p.rstd[r.m] = scale;
    }
}

template <class U, int n> D pack<U, n> operator+(const pack<U, n> &a, const pack<U, n> &b) {
    pack<U, n> y;
    for (int k = 0; k < n; k++) y.v[k] = a.v[k] + b.v[k];
    return y;
}

/* y = h w + b, h = (x - mean) rstd, dh = g w:  dx [+]= rstd (dh - mean(dh) - h mean(dh h)), without
 * mean(dh) for the RMS norm, and of parts of the rows, (parts, N), dw = sum of g h,  db = sum of g;
 * each may be NULL.  A block processes `rows` rows, 256 / width at once, and keeps the sums of a chunk
 * of columns, as many as its registers hold: 1 chunk with dx.  x and g are read once, long rows twice
 * for dx.  At least 2 blocks: ptxas would spill for a third block, on sm_120 for a second one; there
 * one block keeps 32 KiB in flight, enough for a multiprocessor's share of the bandwidth. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 1200
constexpr int BLOCKS = 1;
#else
constexpr int BLOCKS = 2;
#endif
KERNEL(256, BLOCKS) layer_norm_bwd(const norm_bwd_arguments p) {
    __shared__ pack<A, 2> shared[256];
    __shared__ pack<A, V> shared_sums[256];
    const share s = share_of(p.width, 1);
    const u32 part = blockIdx.x / (u32)p.chunks;      /* 32 bits: a division of 64 bits is a call */
    const i64 before = (i64)(blockIdx.x - part * (u32)p.chunks) * KEPT * s.width * V, first = before + s.lane * V;
    const i64 after = before + KEPT * s.width * V, limit = p.N < after ? p.N : after;
    const i64 end = (part + 1) * p.rows < p.M ? (part + 1) * p.rows : p.M;
    const bool sums = p.dw || p.db;
    const A each = (A)1 / (A)p.N;
    pack<A, V> gh[KEPT] = {}, gs[KEPT] = {};
#pragma unroll 1
    for (i64 m = part * p.rows; m < end; m += s.columns) {
        span r = span_at(s, m + s.column, end, p.N, p.N);
        if (sums) r.first = first, r.N = r.N ? limit : 0;              /* the same columns of each row */
        const line xl = line_of(p.x, r), gl = line_of(p.g, r);
        const A mu = r.N && p.mean ? p.mean[r.m] : (A)0, scale = r.N ? p.rstd[r.m] : (A)0;
        pack<A, 2> means = {};
        if (p.dx) {
            each_pack(r, [&](int i, i64 n) {
                const packed v = xl.at(i, n, r), d = gl.at(i, n, r), factor = p.w ? load(p.w, n, r) : v;
                for (int k = 0; k < V; k++) {
                    /* 0 outside the row */
                    const A dh = cast<A>(d.v[k]) * (p.w ? cast<A>(factor.v[k]) : (A)1);
                    means.v[0] += dh;
                    means.v[1] += dh * ((cast<A>(v.v[k]) - mu) * scale);
                }
            });
            means = tree<sum_of>(means, shared, s);
        }
        const A a = p.mean ? means.v[0] * each : (A)0, b = means.v[1] * each;
        each_pack(r, [&](int i, i64 n) {
            packed v = xl.at(i, n, r);
            const packed d = gl.at(i, n, r), factor = p.w ? load(p.w, n, r) : v;
            const packed before = p.dx && p.add ? load(p.dx + r.row, n, r) : v;
            for (int k = 0; k < V; k++) {
                const A dy = cast<A>(d.v[k]), h = (cast<A>(v.v[k]) - mu) * scale;
                if (i < KEPT) gh[i].v[k] += dy * h, gs[i].v[k] += dy;
                const A dx = scale * (dy * (p.w ? cast<A>(factor.v[k]) : (A)1) - a - h * b);
                v.v[k] = cast<T>(p.add ? cast<A>(before.v[k]) + dx : dx);
            }
            if (p.dx) store(p.dx + r.row, n, r, v);
        });
    }
    const share others{s.columns, s.column, s.lane, s.width, s.width};          /* threads with the same columns */
#pragma unroll
    for (int i = 0; i < 2 * KEPT; i++) {
        A *to = i < KEPT ? p.dw : p.db;
        if (!to) continue;
        const pack<A, V> v = halves<sum_of>(i < KEPT ? gh[i] : gs[i - KEPT], shared_sums, others);
        const i64 n = first + i % KEPT * s.width * V;
        for (int k = 0; k < V; k++) if (s.column == 0 && n + k < p.N) to[part * p.N + n + k] = v.v[k];
    }
}

D A of(const T *x, i64 i) { return cast<A>(x[i]); }

D i64 label_of(const void *target, i64 wide_target, i64 m) {
    return wide_target ? ((const i64 *)target)[m] : (i64)((const i32 *)target)[m];
}

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s; 0 in ignored rows; long rows are read
 * once, with smoothing twice.  At least 2 blocks: ptxas would spill for more. */
KERNEL(256, 2) cross_entropy(const cross_entropy_arguments p) {
    __shared__ A shared[256];
    const span r = span_of(p.M, p.N, p.width, p.pitch);
    const line a = exponents_of(p.x, r);
    const A smoothing = (A)p.smoothing;
    A most, mean = 0;
    const A sum = exponentials(a, r, shared, most);
    if (smoothing > 0) {
        each_value(a, r, [&](A v) { mean += v; });
        mean = tree<sum_of>(mean, shared, r.s) / (A)p.N;
    }
    if (!r.N || r.s.lane) return;
    const i64 label = label_of(p.target, p.wide_target, r.m);
    const A l = is_inf(most) ? most : most + f_log(sum);
    const bool inside = r.has(label);
    p.lse[r.m] = l;
    if (label != p.ignore && !inside) note(p.f, r.m, label);
    p.loss[r.m] = label != p.ignore && inside ? l - ((A)1 - smoothing) * of(p.x, r.row + label) - smoothing * mean
                                              : (A)0;
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows; dx may be x */
KERNEL(256) cross_entropy_bwd(const cross_entropy_bwd_arguments p) {
    const span r = span_of(p.M, p.N, p.width, p.pitch);
    if (!r.N) return;
    const i64 label = label_of(p.target, p.wide_target, r.m);
    const A l = p.lse[r.m], d = p.g[r.m * p.g_step];
    each_kept(line_of(p.x, r), r, [&](packed v, i64 n) {
        for (int k = 0; k < V; k++) {
            const A wanted = (n + k == label ? (A)1 - (A)p.smoothing : (A)0) + (A)p.smoothing / (A)p.N;
            v.v[k] = cast<T>(label == p.ignore ? (A)0 : d * (weight_of<T>(cast<A>(v.v[k]) - l) - wanted));
        }
        store(p.dx + r.row, n, r, v);
    });
}
#endif
