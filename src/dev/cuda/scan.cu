/* scan.cu - running sums (KIND 0), products, log-sum-exps, largest, smallest (4) of x (M, R, N) along R: T elements, TO results; LINEAR:
 * y[r] = x[r] + a[r] y[r - 1].  Floats in f64.
 *
 * R is cut into parts: what each comes to, what comes before each, then each from there.  A thread has one part of one line. */

D i64 place(i64 k, i64 R, i64 reverse) { return reverse ? R - 1 - k : k; }
D f64 log_add(f64 a, f64 b) {
    const f64 most = f_max(a, b), least = f_min(a, b);
    return is_inf(most) || most != most ? most : most + log1p(exp(least - most));
}

#if LINEAR
struct state { f64 a, b; };                         /* y = a y_before + b */
D state nothing() { return {1, 0}; }
D state join(state l, state r) { return {l.a * r.a, l.b * r.a + r.b}; }
#elif KIND >= 3
struct state { T v; i64 place; };                   /* -1: none yet */
D state nothing() { return {T(), -1}; }
D state join(state l, state r) {                    /* the later of equals, and a NaN */
    if (l.place < 0 || r.place < 0) return l.place < 0 ? r : l;
    const auto a = wide(r.v), b = wide(l.v);
    return a != a || (KIND == 3 ? a >= b : a <= b) ? r : l;
}
#else
template <bool floats> struct value_of { typedef u64 type; };
template <> struct value_of<true> { typedef f64 type; };
struct state { value_of<is_float<T>>::type v; };
D state nothing() {
    if constexpr (KIND == 2) return {-infinity<f64>()};
    else return {KIND};
}
D state join(state l, state r) {
    if constexpr (KIND == 2) return {log_add(l.v, r.v)};
    else return {KIND ? l.v * r.v : l.v + r.v};
}
#endif

D state element(const T *x, const T *a, i64 line, i64 k, i64 R, i64 N, i64 reverse) {
    const T *at = x + line + place(k, R, reverse) * N;
#if LINEAR
    return {k ? cast<f64>(a[line + place(reverse ? k - 1 : k, R, reverse) * N]) : 0.0, cast<f64>(*at)};
#elif KIND >= 3
    return {*at, place(k, R, reverse)};
#else
    return {cast<decltype(state::v)>(*at)};
#endif
}

D i64 line_of(i64 m, i64 n, i64 R, i64 N) { return m * R * N + n; }

KERNEL(256) totals(state *total, const T *x, const T *a, i64 M, i64 R, i64 N, i64 parts, i64 part_size, i64 reverse) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x, n = i % N, part = i / N % parts, m = i / N / parts, end = (part + 1) * part_size < R ? (part + 1) * part_size : R;
    if (m >= M) return;
    state s = nothing();
    for (i64 k = part * part_size; k < end; k++) s = join(s, element(x, a, line_of(m, n, R, N), k, R, N, reverse));
    total[i] = s;
}

/* total: of all parts before each */
KERNEL(256) before(state *total, i64 M, i64 N, i64 parts) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x, n = i % N, m = i / N;
    if (m >= M) return;
    state s = nothing();
    for (i64 part = 0; part < parts; part++) {
        state *at = total + (m * parts + part) * N + n;
        const state own = *at;
        *at = s;
        s = join(s, own);
    }
}

KERNEL(256) scan(TO *y, i64 *index, const T *x, const T *a, const state *total, i64 M, i64 R, i64 N, i64 parts, i64 part_size, i64 reverse) {
    const i64 i = (i64)blockIdx.x * 256 + threadIdx.x, n = i % N, part = i / N % parts, m = i / N / parts, end = (part + 1) * part_size < R ? (part + 1) * part_size : R;
    if (m >= M) return;
    state s = total ? total[i] : nothing();
    for (i64 k = part * part_size; k < end; k++) {
        s = join(s, element(x, a, line_of(m, n, R, N), k, R, N, reverse));
        const i64 at = line_of(m, n, R, N) + place(k, R, reverse) * N;
#if LINEAR
        y[at] = cast<TO>(s.b);
#else
        y[at] = cast<TO>(s.v);
#endif
#if KIND >= 3
        if (index) index[at] = s.place;
#endif
    }
}
