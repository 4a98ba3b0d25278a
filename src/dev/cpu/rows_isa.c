/* rows_isa.c - one row of softmax, layer norm, RMS norm and cross-entropy in f32.  A sum uses four
 * vectors over each piece of 1024 elements; the sums of pieces are added in double.  The last, partial
 * vector is padded on the stack.  rows.c distributes the rows. */
#include "isa.h"
#include "vmath.h"
#include "vmath_f64.h"
#include "../../core/pool.h"

enum { PIECE = 1024, LONG = 1 << 20 };             /* elements of one sum in f32; elements between two checks for
                                                    * an interrupt */

static inline vec load_part(const float *p, int64_t n, float rest) {
    if (n >= V) return LOAD(p);
    vec x = v_k(rest);
    memcpy(&x, p, (size_t)n * sizeof *p);
    return x;
}
static inline void store_part(float *p, vec x, int64_t n) {
    if (n >= V) STORE(p, x);
    else memcpy(p, &x, (size_t)n * sizeof *p);
}

/* The first pass over a row prefetches; at the end of the row it prefetches the next one. */
static inline vec fetch_part(const float *p, int64_t n, float rest) {
    __builtin_prefetch((const char *)p + AHEAD);
    return load_part(p, n, rest);
}

/* Runs body for each vector of a row.  `body` uses i and left, the lanes in use: the constant V except in
 * the last vector. */
#define EACH(n, body) do {                                                                          \
        for (int64_t i = 0; i < (n) && cr_goes_on(i, LONG); ) {                                     \
            const int64_t end_ = cr_imin(i + LONG, (n));                                              \
            for (; i + V <= end_; i += V) { const int64_t left = V; body; }                         \
            if (i < end_) { const int64_t left = end_ - i; body; i = end_; }                        \
        }                                                                                           \
    } while (0)

/* Sums over a row: term is the next sum, of `so_far` and elements i .. i + left. */
#define TERM(s, at, term) do { const int64_t i = (at), left = V; const vec so_far = s; s = (term); } while (0)
#define SUM_PIECES(total, n, term) do {                                                             \
        for (int64_t from_ = 0; from_ < (n) && cr_goes_on(from_, LONG); from_ += PIECE) {           \
            int64_t end_ = cr_imin(from_ + PIECE, (n)), at_ = from_;                                  \
            vec s0_ = {0}, s1_ = {0}, s2_ = {0}, s3_ = {0};                                         \
            for (; at_ + 4 * V <= end_; at_ += 4 * V) {                                             \
                TERM(s0_, at_, term);                                                               \
                TERM(s1_, at_ + V, term);                                                           \
                TERM(s2_, at_ + 2 * V, term);                                                       \
                TERM(s3_, at_ + 3 * V, term);                                                       \
            }                                                                                       \
            for (int64_t i = at_; i < end_; i += V) {                                               \
                const int64_t left = end_ - i;                                                      \
                const vec so_far = s0_;                                                             \
                s0_ = (term);                                                                       \
            }                                                                                       \
            (total) += (double)v_sum_lanes((s0_ + s1_) + (s2_ + s3_));                              \
        }                                                                                           \
    } while (0)

/* ---- softmax */
static float row_max(const float *x, int64_t n) {   /* skips NaN; the sum restores it */
    vec m0 = v_k(-INFINITY), m1 = m0;
    for (int64_t i = 0; i < n && cr_goes_on(i, LONG); ) {
        const int64_t end = cr_imin(i + LONG, n);
        for (; i + 2 * V <= end; i += 2 * V) {
            m0 = v_most(FETCH(x + i), m0);
            m1 = v_most(FETCH(x + i + V), m1);
        }
        for (; i < end; i += V) m0 = v_most(load_part(x + i, end - i, -INFINITY), m0);
    }
    m0 = v_most(m0, m1);
    FOLD_LANES(vec, V, m0, v_most);
    return m0[0];
}

static inline vec exp_to(float *y, vec x, int64_t left) {
    vec e = v_exp(x);
    store_part(y, e, left);
    return e;
}

static double sum_exp(const float *x, int64_t n, float shift) {
    double total = 0;
    SUM_PIECES(total, n, so_far + v_exp(load_part(x + i, left, -INFINITY) - shift));
    return total;
}

static void softmax(void *to, const void *from, int64_t n, bool log_of) {
    float *y = to, m = row_max(from, n);
    const float *x = from;
    double total = 0;
    if (log_of) {
        float shift = (float)vd_log(d_k(sum_exp(x, n, m)))[0];
        EACH(n, store_part(y + i, load_part(x + i, left, 0) - m - shift, left));
        return;
    }
    SUM_PIECES(total, n, so_far + exp_to(y + i, load_part(x + i, left, -INFINITY) - m, left));
    float scale = (float)(1 / total);
    EACH(n, store_part(y + i, load_part(y + i, left, 0) * scale, left));
}

/* dx = y (g - sum(g y)), or for the logarithm dx = g - exp(y) sum(g) */
static void softmax_bwd(void *to, const void *result, const void *cotangent, int64_t n, bool log_of) {
    float *dx = to;
    const float *y = result, *g = cotangent;
    double total = 0;
    if (log_of) SUM_PIECES(total, n, so_far + fetch_part(g + i, left, 0));
    else SUM_PIECES(total, n, v_fma(fetch_part(g + i, left, 0), fetch_part(y + i, left, 0), so_far));
    float s = (float)total;
    const vec all = v_k(s);
    if (log_of)
        EACH(n, store_part(dx + i, v_fnma(v_exp(load_part(y + i, left, 0)), all, load_part(g + i, left, 0)), left));
    else EACH(n, store_part(dx + i, load_part(y + i, left, 0) * (load_part(g + i, left, 0) - s), left));
}

/* ---- norms.  mean NULL: RMS norm */
static inline vec add_square(vec sum, vec x) { return v_fma(x, x, sum); }

static void norm(void *to, void *mean_to, void *rstd_to, const void *from, const void *weight, const void *bias,
                 int64_t n, double eps) {
    float *y = to;
    const float *x = from, *w = weight, *b = bias;
    double sum = 0, squares = 0;
    if (mean_to) SUM_PIECES(sum, n, so_far + fetch_part(x + i, left, 0));
    float mean = (float)(sum / (double)n);
    /* prefetches the next row while memory is idle */
    SUM_PIECES(squares, n, (__builtin_prefetch(x + n + i), add_square(so_far, load_part(x + i, left, mean) - mean)));
    float rstd = (float)(1 / sqrt(squares / (double)n + eps));
    if (mean_to) *(float *)mean_to = mean;
    *(float *)rstd_to = rstd;
#define H_AT ((load_part(x + i, left, mean) - mean) * rstd)
    if (w && b) EACH(n, store_part(y + i, v_fma(H_AT, load_part(w + i, left, 0), load_part(b + i, left, 0)), left));
    else if (w) EACH(n, store_part(y + i, H_AT * load_part(w + i, left, 0), left));
    else if (b) EACH(n, store_part(y + i, H_AT + load_part(b + i, left, 0), left));
    else EACH(n, store_part(y + i, H_AT, left));
}

/* h = (x - mean) rstd, v = g w:  dx [+]= rstd (v - mean(v) - h mean(v h)), without mean(v) for RMS;  dw += g h,
 * db += g */
static void norm_bwd(void *to, void *weight_to, void *bias_to, const void *from, const void *weight,
                     const void *mean_at, const void *rstd_at, const void *cotangent, int64_t n, bool add) {
    float *dx = to, *dw = weight_to, *db = bias_to, mean = mean_at ? *(const float *)mean_at : 0,
          rstd = *(const float *)rstd_at;
    const float *x = from, *w = weight, *g = cotangent;
    double sum_v = 0, sum_vh = 0;
#define G_AT fetch_part(g + i, left, 0)
#define V_AT (w ? load_part(g + i, left, 0) * load_part(w + i, left, 0) : load_part(g + i, left, 0))
    if (dw) EACH(n, store_part(dw + i, v_fma(G_AT, H_AT, load_part(dw + i, left, 0)), left));
    if (db) EACH(n, store_part(db + i, load_part(db + i, left, 0) + G_AT, left));
    if (!dx) return;
    if (mean_at) SUM_PIECES(sum_v, n, so_far + V_AT);
    SUM_PIECES(sum_vh, n, v_fma(V_AT, H_AT, so_far));
    const vec a = v_k((float)(sum_v / (double)n)), c = v_k((float)(sum_vh / (double)n)), by = v_k(rstd);
    if (add) EACH(n, store_part(dx + i, v_fma(v_fnma(H_AT, c, V_AT - a), by, load_part(dx + i, left, 0)), left));
    else EACH(n, store_part(dx + i, v_fnma(H_AT, c, V_AT - a) * by, left));
}

/* ---- cross-entropy: the terms of a row's loss, and its gradient without the target's term */
static void logits_sums(cr_logits_sums *s, const void *from, int64_t n, bool with_sum) {
    const float *x = from;
    float m = row_max(x, n);
    s->max = (double)m;
    s->sum_exp = sum_exp(x, n, m);
    s->sum = 0;
    if (with_sum) SUM_PIECES(s->sum, n, so_far + load_part(x + i, left, 0));
}

/* dx = g exp(x - lse) - c */
static void logits_bwd(void *to, const void *from, int64_t n, double lse, double g, double c) {
    float *dx = to, shift = (float)lse;
    const vec scale = v_k((float)g), less = v_k((float)-c);
    const float *x = from;
    EACH(n, store_part(dx + i, v_fma(v_exp(fetch_part(x + i, left, 0) - shift), scale, less), left));
}

const struct cr_rows CR_ISA_NAME(cr_rows) = {softmax, softmax_bwd, norm, norm_bwd, logits_sums, logits_bwd};
