/* channels.cu - batch normalization of x (B, C, S) by channel: y = (x - mean) / sqrt(var + eps) w
 * + b, and its gradient; T elements, A the type of computation.
 *
 * A channel is cut into parts: `rows` of B and `length` elements of S.  For each part, `width`
 * threads compute its sums; they are neighbours along S, or each has a channel of its own where S
 * is short.  Parts are joined in order by the formula of Chan, Golub and LeVeque (1979), so the
 * variance does not suffer from a large mean.  Then every element is computed.  Limited by bytes:
 * x is read twice from memory, and each part once more from the cache. */
/* x (B, C, S); a part has `rows` of B, and of S `length` elements, of one channel */
typedef struct channel_sums_arguments {
    POINTER(A) sums;                                /* (parts, C, 2): the sum and the squares of deviations from the
                                                     * part's mean; or the sums of g and of g h */
    POINTER(const T) x, g;
    POINTER(const A) mean, var;                     /* (C): with g */
    i64 B, C, S, rows, length, across, width;       /* across: parts along S */
    f64 eps;
} channel_sums_arguments;
typedef struct channel_join_arguments {
    POINTER(const A) sums;
    POINTER(A) y0, y1;                              /* (C): mean and variance, or db and dw; optional */
    POINTER(A) all;                                 /* (C, 2): optional */
    i64 B, C, S, rows, length, across, parts;
} channel_join_arguments;
typedef struct channel_norm_arguments {
    POINTER(T) y;                                   /* or dx */
    POINTER(const T) x, g;                          /* g: of dx only */
    POINTER(const A) mean, var, w, b, sums;         /* (C); sums (C, 2): of g and of g h */
    i64 numel, C, S;
    f64 eps, count;                                 /* count: B S */
} channel_norm_arguments;

#ifdef __cplusplus
typedef channel_sums_arguments sums_arguments;

/* A part of a channel, as one thread sees it. */
struct part {
    const share s;
    i64 channel, number, at, count, length, row;    /* at: first element; count: elements, 0: no such channel; row:
                                                     * stride of B */
    template <class F> D void each(F f) const {     /* f(offset) of every width-th element */
        i64 r = s.lane / length, j = s.lane % length;
        const i64 step_r = s.width / length, step_j = s.width % length;
#pragma unroll 4
        for (i64 i = s.lane; i < count; i += s.width) {
            f(at + r * row + j);
            r += step_r, j += step_j;
            if (j >= length) j -= length, r++;
        }
    }
};
D part part_of(const sums_arguments &p) {
    const share s = share_of(p.width, p.width == 256);
    const u32 across = (u32)((p.C + s.columns - 1) / s.columns);
    const i64 channel = (i64)(blockIdx.x % across) * s.columns + s.column, number = blockIdx.x / across,
              row = number / p.across * p.rows, first = number % p.across * p.length,
              rows = row + p.rows < p.B ? p.rows : p.B - row, length = first + p.length < p.S ? p.length : p.S - first;
    return part{s, channel, number, (row * p.C + channel) * p.S + first, channel < p.C ? rows * length : 0, length,
                p.C * p.S};
}

/* sums (parts, C, 2): the sum of x, and of its squared deviations from the mean of the part */
KERNEL(256) channel_moments(const sums_arguments p) {
    __shared__ A shared[256];
    const part x = part_of(p);
    A sum = 0, squares = 0;
    x.each([&](i64 i) { sum += cast<A>(p.x[i]); });
    sum = tree<sum_of>(sum, shared, x.s);
    const A mean = sum / (A)x.count;
    x.each([&](i64 i) {
        const A d = cast<A>(p.x[i]) - mean;
        squares += d * d;
    });
    squares = tree<sum_of>(squares, shared, x.s);
    if (x.s.lane || !x.count) return;
    p.sums[2 * (x.number * p.C + x.channel)] = sum;
    p.sums[2 * (x.number * p.C + x.channel) + 1] = squares;
}

/* sums (parts, C, 2): the sums of g and of g h, h = (x - mean) / sqrt(var + eps) */
KERNEL(256) channel_products(const sums_arguments p) {
    __shared__ A shared[256];
    const part x = part_of(p);
    const A mean = x.count ? p.mean[x.channel] : (A)0,
            scale = x.count ? (A)1 / f_sqrt(p.var[x.channel] + (A)p.eps) : (A)0;
    A sum = 0, product = 0;
    x.each([&](i64 i) {
        const A g = cast<A>(p.g[i]);
        sum += g;
        product += g * ((cast<A>(p.x[i]) - mean) * scale);
    });
    sum = tree<sum_of>(sum, shared, x.s);
    product = tree<sum_of>(product, shared, x.s);
    if (x.s.lane || !x.count) return;
    p.sums[2 * (x.number * p.C + x.channel)] = sum;
    p.sums[2 * (x.number * p.C + x.channel) + 1] = product;
}

/* Elements of a part. */
D A count_of(const channel_join_arguments &p, i64 number) {
    const i64 row = number / p.across * p.rows, first = number % p.across * p.length;
    return (A)((row + p.rows < p.B ? p.rows : p.B - row) * (first + p.length < p.S ? p.length : p.S - first));
}

/* y0 = mean, y1 = variance, from the moments of the parts */
KERNEL(256) channel_statistics(const channel_join_arguments p) {
    const i64 c = (i64)blockIdx.x * 256 + threadIdx.x;
    if (c >= p.C) return;
    A count = 0, mean = 0, squares = 0;
    for (i64 i = 0; i < p.parts; i++) {
        const A n = count_of(p, i), d = p.sums[2 * (i * p.C + c)] / n - mean;
        count += n;
        mean += d * (n / count);
        squares += p.sums[2 * (i * p.C + c) + 1] + d * d * (n * ((count - n) / count));
    }
    p.y0[c] = mean;
    p.y1[c] = squares / count;
}

/* y0, y1 and all: the sums over the parts */
KERNEL(256) channel_join(const channel_join_arguments p) {
    const i64 c = (i64)blockIdx.x * 256 + threadIdx.x;
    if (c >= p.C) return;
    A a = 0, b = 0;
    for (i64 i = 0; i < p.parts; i++) a += p.sums[2 * (i * p.C + c)], b += p.sums[2 * (i * p.C + c) + 1];
    if (p.y0) p.y0[c] = a;
    if (p.y1) p.y1[c] = b;
    if (p.all) p.all[2 * c] = a, p.all[2 * c + 1] = b;
}

/* y = (x - mean) scale w + b; with g: dx = w scale (g - (sum(g) + h sum(g h)) / count), h = (x - mean) scale, where
 * scale = 1 / sqrt(var + eps).  A thread has packs of V elements. */
constexpr int V = 16 / (int)sizeof(T);
struct line { A mean, scale, w, shift, slope; };
D line line_of(const channel_norm_arguments &p, i64 c) {
    line l = {p.mean[c], (A)1 / f_sqrt(p.var[c] + (A)p.eps), p.w ? p.w[c] : (A)1, 0, 0};
    if (p.g) l.shift = p.sums[2 * c] / (A)p.count, l.slope = p.sums[2 * c + 1] / (A)p.count;
    else if (p.b) l.shift = p.b[c];
    return l;
}
KERNEL(256) channel_norm(const channel_norm_arguments p) {
    const i64 packs = (p.numel + V - 1) / V;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < packs; i += (i64)gridDim.x * 256) {
        const i64 first = i * V;
        const int n = p.numel - first < V ? (int)(p.numel - first) : V;
        const u64 addresses = (u64)(p.x + first) | (u64)(p.y + first) | (u64)(p.g ? p.g + first : p.g);
        const bool whole = n == V && addresses % 16 == 0;
        pack<T, V> x = {}, g = {};
        if (whole) {
            x = *(const pack<T, V> *)(p.x + first);
            if (p.g) g = *(const pack<T, V> *)(p.g + first);
        } else for (int k = 0; k < n; k++) {
            x.v[k] = p.x[first + k];
            if (p.g) g.v[k] = p.g[first + k];
        }
        i64 c = first / p.S % p.C, left = p.S - first % p.S;           /* left: elements of this channel */
        line l = line_of(p, c);
        for (int k = 0; k < n; k++) {
            if (!left) c = c + 1 < p.C ? c + 1 : 0, left = p.S, l = line_of(p, c);
            left--;
            const A h = (cast<A>(x.v[k]) - l.mean) * l.scale;
            x.v[k] = cast<T>(p.g ? l.w * l.scale * (cast<A>(g.v[k]) - (l.shift + h * l.slope)) : h * l.w + l.shift);
        }
        if (whole) *(pack<T, V> *)(p.y + first) = x;
        else for (int k = 0; k < n; k++) p.y[first + k] = x.v[k];
    }
}
#endif
