/* rows.c - softmax, normalisation and cross-entropy over rows: x (M, N), every row on its own.  g is the cotangent. */
#include <math.h>
#include "ref.h"

static double row_max(const cr_array *x, int64_t row, int64_t N) {
    double max = -INFINITY;
    EACH(n, N) max = isnan(max) || get(x, row + n) <= max ? max : get(x, row + n);
    return max;
}

/* log(sum(exp(x))) of one row; the largest is taken out first so that nothing overflows. */
static double row_lse(const cr_array *x, int64_t row, int64_t N) {
    double max = row_max(x, row, N), sum = 0;
    if (isinf(max)) return max;
    EACH(n, N) sum += exp(get(x, row + n) - max);
    return max + log(sum);
}

/* y = exp(x - max) / sum(exp(x - max)), or its logarithm */
cr_status cr_ref_softmax(const cr_softmax_args *args) {
    const cr_array *y = &args->y, *x = &args->x;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const bool log_of = args->log;
    EACH(m, M) {
        double max = row_max(x, m * N, N), sum = 0;
        EACH(n, N) sum += exp(get(x, m * N + n) - max);
        EACH(n, N) {
            double shifted = get(x, m * N + n) - max;
            put(y, m * N + n, log_of ? shifted - log(sum) : exp(shifted) / sum);
        }
    }
    return CR_OK;
}

/* y = softmax(x):      dx = y (g - sum(g y))
 * y = log_softmax(x):  dx = g - exp(y) sum(g) */
cr_status cr_ref_softmax_bwd(const cr_softmax_bwd_args *args) {
    const cr_array *dx = &args->dx, *y = &args->y, *g = &args->g;
    const int64_t M = args->y.shape[0], N = args->y.shape[1];
    const bool log_of = args->log;
    EACH(m, M) {
        double sum = 0;
        EACH(n, N) sum += log_of ? get(g, m * N + n) : get(g, m * N + n) * get(y, m * N + n);
        for (int64_t n = m * N; n < (m + 1) * N; n++)
            put(dx, n, log_of ? get(g, n) - exp(get(y, n)) * sum : get(y, n) * (get(g, n) - sum));
    }
    return CR_OK;
}

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); mean 0 for the RMS norm (mean NULL) */
cr_status cr_ref_norm(const cr_norm_args *args) {
    const cr_array *y = &args->y, *mean = cr_present(&args->mean), *rstd = &args->rstd, *x = &args->x,
        *w = cr_present(&args->w), *b = cr_present(&args->b);
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const double eps = args->eps;
    EACH(m, M) {
        double mu = 0, square = 0;
        if (mean) EACH(n, N) mu += get(x, m * N + n) / (double)N;
        EACH(n, N) square += (get(x, m * N + n) - mu) * (get(x, m * N + n) - mu);
        double r = 1 / sqrt(square / (double)N + eps);
        EACH(n, N)
            put(y, m * N + n, (get(x, m * N + n) - mu) * r * (w ? get(w, n) : 1) + (b ? get(b, n) : 0));
        if (mean) put(mean, m, mu);
        put(rstd, m, r);
    }
    return CR_OK;
}

/* The normalised input, (x - mean) rstd. */
static double normed(const cr_array *x, const cr_array *mean, const cr_array *rstd, int64_t m, int64_t n, int64_t N) {
    return (get(x, m * N + n) - (mean ? get(mean, m) : 0)) * get(rstd, m);
}

/* With h = (x - mean) rstd and dh = g w:  dx = rstd (dh - mean(dh) - h mean(dh h)), without mean(dh) for the RMS norm;
 * dw = sum over rows of g h;  db = sum over rows of g. */
cr_status cr_ref_norm_bwd(const cr_norm_bwd_args *args) {
    const cr_array *dx = cr_present(&args->dx), *dw = cr_present(&args->dw), *db = cr_present(&args->db),
        *x = &args->x, *w = cr_present(&args->w), *mean = cr_present(&args->mean), *rstd = &args->rstd,
        *g = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    if (dx) EACH(m, M) {
        double sum = 0, dot = 0;
        EACH(n, N) {
            double dh = get(g, m * N + n) * (w ? get(w, n) : 1);
            sum += dh;
            dot += dh * normed(x, mean, rstd, m, n, N);
        }
        EACH(n, N) {
            double dh = get(g, m * N + n) * (w ? get(w, n) : 1);
            put(dx, m * N + n, get(rstd, m) * (dh - (mean ? sum / (double)N : 0) - normed(x, mean, rstd, m, n, N) * dot / (double)N));
        }
    }
    EACH(n, N) {
        double for_w = 0, for_b = 0;
        EACH(m, M) {
            for_w += get(g, m * N + n) * normed(x, mean, rstd, m, n, N);
            for_b += get(g, m * N + n);
        }
        if (dw) put(dw, n, for_w);
        if (db) put(db, n, for_b);
    }
    return CR_OK;
}

static cr_status check_target(const cr_array *target, int64_t M, int64_t N, int64_t ignore) {
    EACH(m, M) {
        int64_t t = get_int(target, m);
        if (t != ignore && (t < 0 || t >= N))
            return cr_fail(CR_BAD_INDEX, "cross_entropy", "index %lld at position %lld is out of range for size %lld",
                           (long long)t, (long long)m, (long long)N);
    }
    return CR_OK;
}

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s: the cross-entropy with (1 - s) onehot + s / N */
cr_status cr_ref_cross_entropy(const cr_cross_entropy_args *args) {
    const cr_array *loss = &args->loss, *lse = &args->lse, *x = &args->x, *target = &args->target;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    cr_status s = check_target(target, M, N, ignore);
    if (s) return s;
    EACH(m, M) {
        double l = row_lse(x, m * N, N), mean = 0;
        put(lse, m, l);
        if (get_int(target, m) == ignore) { put(loss, m, 0); continue; }
        EACH(n, N) mean += get(x, m * N + n) / (double)N;
        put(loss, m, l - (1 - smoothing) * get(x, m * N + get_int(target, m)) - (smoothing > 0 ? smoothing * mean : 0));
    }
    return CR_OK;
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows */
cr_status cr_ref_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    const cr_array *dx = &args->dx, *x = &args->x, *target = &args->target, *lse = &args->lse, *g = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    cr_status s = check_target(target, M, N, ignore);
    if (s) return s;
    EACH(m, M)
        EACH(n, N) {
            int64_t t = get_int(target, m);
            double wanted = (n == t ? 1 - smoothing : 0) + smoothing / (double)N;
            put(dx, m * N + n, t == ignore ? 0 : get(g, g->numel == 1 ? 0 : m) * (exp(get(x, m * N + n) - get(lse, m)) - wanted));
        }
    return CR_OK;
}
