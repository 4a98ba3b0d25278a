/* rows_f64.c - one row of softmax, norms and cross-entropy in f64, in plain C. */
#include "isa.h"
#include "../../core/pool.h"
#include "../elementary.h"

#include <math.h>

#define EACH(i, n) for (int64_t i = 0; i < (n) && cr_goes_on(i, 1 << 16); i++)

static double row_max(const double *x, int64_t n) {
    double m = -INFINITY;
    EACH(i, n) m = x[i] > m ? x[i] : m;
    return m;
}

static double sum_exp(const double *x, int64_t n, double shift) {
    double s = 0;
    EACH(i, n) s += cr_f64_exp(x[i] - shift);
    return s;
}

static void softmax(void *to, const void *from, int64_t n, bool log_of) {
    double *y = to, m = row_max(from, n), s = sum_exp(from, n, m);
    const double *x = from;
    const double log_s = cr_f64_log(s);
    if (log_of) EACH(i, n) y[i] = x[i] - m - log_s;
    else EACH(i, n) y[i] = cr_f64_exp(x[i] - m) / s;
}

/* dx = y (g - sum(g y)), or for the logarithm dx = g - exp(y) sum(g) */
static void softmax_bwd(void *to, const void *result, const void *cotangent, int64_t n, bool log_of) {
    double *dx = to, s = 0;
    const double *y = result, *g = cotangent;
    EACH(i, n) s += log_of ? g[i] : g[i] * y[i];
    EACH(i, n) dx[i] = log_of ? g[i] - cr_f64_exp(y[i]) * s : y[i] * (g[i] - s);
}

static void norm(void *to, void *mean_to, void *rstd_to, const void *from, const void *weight, const void *bias,
                 int64_t n, double eps) {
    double *y = to, mean = 0, squares = 0;
    const double *x = from, *w = weight, *b = bias;
    if (mean_to) EACH(i, n) mean += x[i];
    mean /= (double)n;
    EACH(i, n) squares += (x[i] - mean) * (x[i] - mean);
    double rstd = 1 / sqrt(squares / (double)n + eps);
    EACH(i, n) y[i] = (x[i] - mean) * rstd * (w ? w[i] : 1) + (b ? b[i] : 0);
    if (mean_to) *(double *)mean_to = mean;
    *(double *)rstd_to = rstd;
}

/* h = (x - mean) rstd, v = g w:  dx [+]= rstd (v - mean(v) - h mean(v h)), without mean(v) for RMS;  dw += g h,
 * db += g */
static void norm_bwd(void *to, void *weight_to, void *bias_to, const void *from, const void *weight,
                     const void *mean_at, const void *rstd_at, const void *cotangent, int64_t n, bool add) {
    double *dx = to, *dw = weight_to, *db = bias_to, mean = mean_at ? *(const double *)mean_at : 0,
           rstd = *(const double *)rstd_at;
    const double *x = from, *w = weight, *g = cotangent;
    double sum_v = 0, sum_vh = 0;
    EACH(i, n) {
        double h = (x[i] - mean) * rstd, v = g[i] * (w ? w[i] : 1);
        if (dw) dw[i] += g[i] * h;
        if (db) db[i] += g[i];
        sum_v += v;
        sum_vh += v * h;
    }
    double a = mean_at ? sum_v / (double)n : 0, c = sum_vh / (double)n;
    if (!dx) return;
    EACH(i, n) {
        const double d = rstd * (g[i] * (w ? w[i] : 1) - a - (x[i] - mean) * rstd * c);
        dx[i] = add ? dx[i] + d : d;
    }
}

static void logits_sums(cr_logits_sums *s, const void *from, int64_t n, bool with_sum) {
    const double *x = from;
    *s = (cr_logits_sums){.max = row_max(x, n)};
    s->sum_exp = sum_exp(x, n, s->max);
    if (with_sum) EACH(i, n) s->sum += x[i];
}

static void logits_bwd(void *to, const void *from, int64_t n, double lse, double g, double c) {
    double *dx = to;
    const double *x = from;
    EACH(i, n) dx[i] = g * cr_f64_exp(x[i] - lse) - c;
}

const struct cr_rows cr_rows_f64 = {softmax, softmax_bwd, norm, norm_bwd, logits_sums, logits_bwd};
