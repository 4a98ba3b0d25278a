/* rows_isa.c - one row of softmax, layer norm, RMS norm and cross-entropy in f32.  Sums run in two vectors over pieces of 1024 and
 * go on in double from piece to piece; a last, partial vector is padded on the stack.  rows.c hands out the rows. */
#include "isa.h"
#include "vmath.h"

enum { PIECE = 1024 };

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
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Sums term(i, lanes) over a row: lanes is V but for the last vector.  `term` uses i and left. */
#define SUM_PIECES(total, n, term) do {                                                             \
        for (int64_t at_ = 0; at_ < (n); at_ += PIECE) {                                            \
            int64_t end_ = least(at_ + PIECE, (n)), i = at_;                                        \
            vec s0_ = {0}, s1_ = {0};                                                               \
            for (; i + 2 * V <= end_; i += 2 * V) {                                                 \
                { const int64_t left = V; s0_ += (term); }                                          \
                i += V;                                                                             \
                { const int64_t left = V; s1_ += (term); }                                          \
                i -= V;                                                                             \
            }                                                                                       \
            for (; i < end_; i += V) { const int64_t left = end_ - i; s0_ += (term); }              \
            (total) += (double)v_sum_lanes(s0_ + s1_);                                              \
        }                                                                                           \
    } while (0)

/* ---- softmax */
static float row_max(const float *x, int64_t n) {   /* NaN is passed over here: the sum brings it back */
    vec m0 = v_k(-INFINITY), m1 = m0;
    int64_t i = 0;
    for (; i + 2 * V <= n; i += 2 * V) {
        m0 = v_most(LOAD(x + i), m0);
        m1 = v_most(LOAD(x + i + V), m1);
    }
    for (; i < n; i += V) m0 = v_most(load_part(x + i, n - i, -INFINITY), m0);
    m0 = v_most(m0, m1);
    float m = m0[0];
    for (int j = 1; j < V; j++) m = m0[j] > m ? m0[j] : m;
    return m;
}

static inline vec exp_to(float *y, vec x, int64_t left) {
    vec e = v_exp(x);
    store_part(y, e, left);
    return e;
}

static double sum_exp(const float *x, int64_t n, float shift) {
    double total = 0;
    SUM_PIECES(total, n, v_exp(load_part(x + i, left, -INFINITY) - shift));
    return total;
}

static void softmax(void *to, const void *from, int64_t n, bool log_of) {
    float *y = to, m = row_max(from, n);
    const float *x = from;
    double total = 0;
    if (log_of) {
        float shift = (float)log(sum_exp(x, n, m));
        for (int64_t i = 0; i < n; i += V) store_part(y + i, load_part(x + i, n - i, 0) - m - shift, n - i);
        return;
    }
    SUM_PIECES(total, n, exp_to(y + i, load_part(x + i, left, -INFINITY) - m, left));
    float scale = (float)(1 / total);
    for (int64_t i = 0; i < n; i += V) store_part(y + i, load_part(y + i, n - i, 0) * scale, n - i);
}

/* dx = y (g - sum(g y)), or for the logarithm dx = g - exp(y) sum(g) */
static void softmax_bwd(void *to, const void *result, const void *cotangent, int64_t n, bool log_of) {
    float *dx = to;
    const float *y = result, *g = cotangent;
    double total = 0;
    if (log_of) SUM_PIECES(total, n, load_part(g + i, left, 0));
    else SUM_PIECES(total, n, load_part(g + i, left, 0) * load_part(y + i, left, 0));
    float s = (float)total;
    for (int64_t i = 0; i < n; i += V) {
        vec yi = load_part(y + i, n - i, 0), gi = load_part(g + i, n - i, 0);
        store_part(dx + i, log_of ? gi - v_exp(yi) * s : yi * (gi - s), n - i);
    }
}

/* ---- norms.  mean NULL: RMS norm */
static inline vec squared(vec x) { return x * x; }

static void norm(void *to, void *mean_to, void *rstd_to, const void *from, const void *weight, const void *bias, int64_t n, double eps) {
    float *y = to;
    const float *x = from, *w = weight, *b = bias;
    double sum = 0, squares = 0;
    if (mean_to) SUM_PIECES(sum, n, load_part(x + i, left, 0));
    float mean = (float)(sum / (double)n);
    SUM_PIECES(squares, n, squared(load_part(x + i, left, mean) - mean));
    float rstd = (float)(1 / sqrt(squares / (double)n + eps));
    if (mean_to) *(float *)mean_to = mean;
    *(float *)rstd_to = rstd;
    for (int64_t i = 0; i < n; i += V) {
        vec v = (load_part(x + i, n - i, 0) - mean) * rstd;
        if (w) v = v * load_part(w + i, n - i, 0);
        if (b) v = v + load_part(b + i, n - i, 0);
        store_part(y + i, v, n - i);
    }
}

/* h = (x - mean) rstd, v = g w:  dx = rstd (v - mean(v) - h mean(v h)), without mean(v) for RMS;  dw += g h, db += g */
static void norm_bwd(void *to, void *weight_to, void *bias_to, const void *from, const void *weight, const void *mean_at, const void *rstd_at,
                     const void *cotangent, int64_t n) {
    float *dx = to, *dw = weight_to, *db = bias_to, mean = mean_at ? *(const float *)mean_at : 0, rstd = *(const float *)rstd_at;
    const float *x = from, *w = weight, *g = cotangent;
    double sum_v = 0, sum_vh = 0;
    if (dw || db)
        for (int64_t i = 0; i < n; i += V) {
            vec gi = load_part(g + i, n - i, 0);
            if (dw) store_part(dw + i, load_part(dw + i, n - i, 0) + gi * ((load_part(x + i, n - i, 0) - mean) * rstd), n - i);
            if (db) store_part(db + i, load_part(db + i, n - i, 0) + gi, n - i);
        }
    if (!dx) return;
#define V_AT (w ? load_part(g + i, left, 0) * load_part(w + i, left, 0) : load_part(g + i, left, 0))
#define H_AT ((load_part(x + i, left, mean) - mean) * rstd)
    if (mean_at) SUM_PIECES(sum_v, n, V_AT);
    SUM_PIECES(sum_vh, n, V_AT * H_AT);
    float a = (float)(sum_v / (double)n), c = (float)(sum_vh / (double)n);
    for (int64_t i = 0; i < n; i += V) {
        int64_t left = n - i;
        store_part(dx + i, (V_AT - a - H_AT * c) * rstd, left);
    }
}

/* ---- cross-entropy: what a row's loss is made of, and its gradient but for the target's own term */
static void logits_sums(cr_logits_sums *s, const void *from, int64_t n, bool with_sum) {
    const float *x = from;
    float m = row_max(x, n);
    s->max = (double)m;
    s->sum_exp = sum_exp(x, n, m);
    s->sum = 0;
    if (with_sum) SUM_PIECES(s->sum, n, load_part(x + i, left, 0));
}

/* dx = g exp(x - lse) - c */
static void logits_bwd(void *to, const void *from, int64_t n, double lse, double g, double c) {
    float *dx = to, shift = (float)lse, scale = (float)g, less = (float)c;
    const float *x = from;
    for (int64_t i = 0; i < n; i += V) store_part(dx + i, v_exp(load_part(x + i, n - i, 0) - shift) * scale - less, n - i);
}

const struct cr_rows CR_ISA_NAME(cr_rows) = {softmax, softmax_bwd, norm, norm_bwd, logits_sums, logits_bwd};
