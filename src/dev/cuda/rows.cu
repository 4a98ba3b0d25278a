/* rows.cu - softmax, normalisation and cross-entropy over rows, x (M, N): T elements, A what is computed in and what statistics are (f32;
 * f64 for f64).  g is the cotangent.  `width` threads share a row; sums are trees over them.  Limited by bytes read. */

#define ROW                                                                                                                     \
    __shared__ A shared[256];                                                                                                   \
    const share s = share_of(width, 1);                                                                                         \
    const i64 m = (i64)blockIdx.x * s.columns + s.column, row = m * N;                                                          \
    const i64 mine = m < M ? N : 0 /* columns of this thread's row */
#define EACH(n) for (i64 n = s.lane; n < mine; n += s.width)
#define SUM(v) tree<sum_of>((A)(v), shared, s)

D A of(const T *x, i64 i) { return cast<A>(x[i]); }

D A largest(const T *x, i64 row, i64 mine, A *shared, const share &s) {
    A most = -infinity<A>();
    EACH(n) most = f_max(most, of(x, row + n));
    return tree<max_of>(most, shared, s);
}

/* y = exp(x - max) / sum(exp(x - max)), or its logarithm */
KERNEL(256) softmax(T *y, const T *x, i64 M, i64 N, i64 width, i64 log) {
    ROW;
    const A most = largest(x, row, mine, shared, s);
    A a = 0;
    EACH(n) a += f_exp(of(x, row + n) - most);
    const A sum = SUM(a), log_sum = f_log(sum);
    EACH(n) {
        const A shifted = of(x, row + n) - most;
        y[row + n] = cast<T>(log ? shifted - log_sum : f_exp(shifted) / sum);
    }
}

/* y = softmax(x):  dx = y (g - sum(g y));  y = log_softmax(x):  dx = g - exp(y) sum(g) */
KERNEL(256) softmax_bwd(T *dx, const T *y, const T *g, i64 M, i64 N, i64 width, i64 log) {
    ROW;
    A a = 0;
    EACH(n) a += log ? of(g, row + n) : of(g, row + n) * of(y, row + n);
    const A sum = SUM(a);
    EACH(n) dx[row + n] = cast<T>(log ? of(g, row + n) - f_exp(of(y, row + n)) * sum : of(y, row + n) * (of(g, row + n) - sum));
}

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); without mean: RMS norm */
KERNEL(256) layer_norm(T *y, A *mean, A *rstd, const T *x, const T *w, const T *b, i64 M, i64 N, i64 width, f64 eps) {
    ROW;
    A a = 0, mu = 0;
    if (mean) {
        EACH(n) a += of(x, row + n);
        mu = SUM(a) / (A)N;
    }
    a = 0;
    EACH(n) a += (of(x, row + n) - mu) * (of(x, row + n) - mu);
    const A r = (A)1 / f_sqrt(SUM(a) / (A)N + (A)eps);
    EACH(n) y[row + n] = cast<T>((of(x, row + n) - mu) * r * (w ? of(w, n) : (A)1) + (b ? of(b, n) : (A)0));
    if (mine && s.lane == 0) {
        if (mean) mean[m] = mu;
        rstd[m] = r;
    }
}

/* y = h w + b, h = (x - mean) rstd, dh = g w:  dx = rstd (dh - mean(dh) - h mean(dh h)), without mean(dh) for the RMS norm */
KERNEL(256) layer_norm_bwd(T *dx, const T *x, const T *w, const A *mean, const A *rstd, const T *g, i64 M, i64 N, i64 width) {
    ROW;
    const A mu = mine && mean ? mean[m] : (A)0, r = mine ? rstd[m] : (A)0;
    A a = 0, b = 0;
    EACH(n) {
        const A dh = of(g, row + n) * (w ? of(w, n) : (A)1);
        a += dh;
        b += dh * ((of(x, row + n) - mu) * r);
    }
    a = mean ? SUM(a) / (A)N : (A)0;
    b = SUM(b) / (A)N;
    EACH(n) {
        const A dh = of(g, row + n) * (w ? of(w, n) : (A)1), h = (of(x, row + n) - mu) * r;
        dx[row + n] = cast<T>(r * (dh - a - h * b));
    }
}

/* Of parts of the rows, (parts, N):  dw = sum of g h,  db = sum of g; either may be NULL. */
KERNEL(256) layer_norm_bwd_sums(A *dw, A *db, const T *x, const A *mean, const A *rstd, const T *g, i64 M, i64 N, i64 parts, i64 part_size, i64 width, i64 along) {
    __shared__ A shared[256];
    const share s = share_of(width, along);
    const i64 result = (i64)blockIdx.x * s.columns + s.column, n = result % N, part = result / N, begin = part * part_size;
    const i64 end = result >= parts * N ? begin : begin + part_size < M ? begin + part_size : M;
    A a = 0, b = 0;
    for (i64 m = begin + s.lane; m < end; m += s.width) {
        const A y = of(g, m * N + n);
        a += y * ((of(x, m * N + n) - (mean ? mean[m] : (A)0)) * rstd[m]);
        b += y;
    }
    a = SUM(a);
    b = SUM(b);
    if (result < parts * N && s.lane == 0) {
        if (dw) dw[result] = a;
        if (db) db[result] = b;
    }
}

D i64 label_of(const void *target, i64 wide_target, i64 m) { return wide_target ? ((const i64 *)target)[m] : (i64)((const i32 *)target)[m]; }

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s; 0 in ignored rows */
KERNEL(256) cross_entropy(A *loss, A *lse, const T *x, const void *target, fault *f, i64 M, i64 N, i64 width, i64 wide_target, i64 ignore, f64 smoothing) {
    ROW;
    const A most = largest(x, row, mine, shared, s);
    A a = 0, b = 0;
    EACH(n) {
        a += f_exp(of(x, row + n) - most);
        if (smoothing > 0) b += of(x, row + n);
    }
    const A sum = SUM(a), mean = smoothing > 0 ? SUM(b) / (A)N : (A)0;
    if (!mine || s.lane) return;
    const i64 label = label_of(target, wide_target, m);
    const A l = is_inf(most) ? most : most + f_log(sum);
    const bool inside = label >= 0 && label < N;
    lse[m] = l;
    if (label != ignore && !inside) note(f, m, label);
    loss[m] = label != ignore && inside ? l - ((A)1 - (A)smoothing) * of(x, row + label) - (A)smoothing * mean : (A)0;
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows */
KERNEL(256) cross_entropy_bwd(T *dx, const T *x, const void *target, const A *lse, const A *g, i64 M, i64 N, i64 wide_target, i64 ignore, f64 smoothing) {
    const i64 step = (i64)gridDim.x * 256;
    for (i64 i = (i64)blockIdx.x * 256 + threadIdx.x; i < M * N; i += step) {
        const i64 m = i / N, n = i - m * N, label = label_of(target, wide_target, m);
        const A wanted = (n == label ? (A)1 - (A)smoothing : (A)0) + (A)smoothing / (A)N;
        dx[i] = cast<T>(label == ignore ? (A)0 : g[m] * (f_exp(of(x, i) - lse[m]) - wanted));
    }
}
