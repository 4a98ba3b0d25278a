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
    const int64_t M = x->shape[0], N = x->shape[1];
    EACH(m, M) {
        double max = row_max(x, m * N, N), sum = 0;
        EACH(n, N) sum += exp(get(x, m * N + n) - max);
        EACH(n, N) {
            double shifted = get(x, m * N + n) - max;
            put(y, m * N + n, args->log ? shifted - log(sum) : exp(shifted) / sum);
        }
    }
    return CR_OK;
}

/* y = softmax(x):      dx = y (g - sum(g y))
 * y = log_softmax(x):  dx = g - exp(y) sum(g) */
cr_status cr_ref_softmax_bwd(const cr_softmax_bwd_args *args) {
    const cr_array *dx = &args->dx, *y = &args->y, *g = &args->g;
    const int64_t M = y->shape[0], N = y->shape[1];
    EACH(m, M) {
        double sum = 0;
        EACH(n, N) sum += args->log ? get(g, m * N + n) : get(g, m * N + n) * get(y, m * N + n);
        for (int64_t n = m * N; n < (m + 1) * N; n++)
            put(dx, n, args->log ? get(g, n) - exp(get(y, n)) * sum : get(y, n) * (get(g, n) - sum));
    }
    return CR_OK;
}

/* y = (x - mean) rstd w + b, rstd = 1 / sqrt(mean((x - mean)^2) + eps); mean 0 for the RMS norm (mean absent) */
cr_status cr_ref_norm(const cr_norm_args *args) {
    const cr_array *x = &args->x, *w = cr_present(&args->w), *b = cr_present(&args->b), *mean = cr_present(&args->mean);
    const int64_t M = x->shape[0], N = x->shape[1];
    EACH(m, M) {
        double mu = 0, square = 0;
        if (mean) EACH(n, N) mu += get(x, m * N + n) / (double)N;
        EACH(n, N) square += (get(x, m * N + n) - mu) * (get(x, m * N + n) - mu);
        double r = 1 / sqrt(square / (double)N + args->eps);
        EACH(n, N)
            put(&args->y, m * N + n, (get(x, m * N + n) - mu) * r * (w ? get(w, n) : 1) + (b ? get(b, n) : 0));
        if (mean) put(mean, m, mu);
        put(&args->rstd, m, r);
    }
    return CR_OK;
}

/* The normalised input, h = (x - mean) rstd. */
static double normed(const cr_norm_bwd_args *args, int64_t m, int64_t n) {
    const cr_array *x = &args->x, *mean = cr_present(&args->mean);
    return (get(x, m * x->shape[1] + n) - (mean ? get(mean, m) : 0)) * get(&args->rstd, m);
}

/* The cotangent of h, dh = g w. */
static double dnormed(const cr_norm_bwd_args *args, int64_t m, int64_t n) {
    const cr_array *w = cr_present(&args->w);
    return get(&args->g, m * args->g.shape[1] + n) * (w ? get(w, n) : 1);
}

/* dx [+]= rstd (dh - mean(dh) - h mean(dh h)), without mean(dh) for the RMS norm */
static void norm_dx(const cr_norm_bwd_args *args, int64_t m) {
    const int64_t N = args->x.shape[1];
    double sum = 0, dot = 0;
    EACH(n, N) {
        sum += dnormed(args, m, n);
        dot += dnormed(args, m, n) * normed(args, m, n);
    }
    if (!cr_present(&args->mean)) sum = 0;
    EACH(n, N) {
        const double d = get(&args->rstd, m) *
                         (dnormed(args, m, n) - sum / (double)N - normed(args, m, n) * dot / (double)N);
        put(&args->dx, m * N + n, args->add ? get(&args->dx, m * N + n) + d : d);
    }
}

/* dw = sum over rows of g h;  db = sum over rows of g. */
cr_status cr_ref_norm_bwd(const cr_norm_bwd_args *args) {
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    if (cr_present(&args->dx)) EACH(m, M) norm_dx(args, m);
    EACH(n, N) {
        double for_w = 0, for_b = 0;
        EACH(m, M) {
            for_w += get(&args->g, m * N + n) * normed(args, m, n);
            for_b += get(&args->g, m * N + n);
        }
        if (cr_present(&args->dw)) put(&args->dw, n, for_w);
        if (cr_present(&args->db)) put(&args->db, n, for_b);
    }
    return CR_OK;
}

static cr_status check_target(const cr_array *target, int64_t N, int64_t ignore) {
    EACH(m, target->numel) {
        int64_t t = get_int(target, m);
        if (t != ignore && (t < 0 || t >= N))
            return cr_fail(CR_BAD_INDEX, "cross_entropy", "index %lld at position %lld is out of range for size %lld",
                           (long long)t, (long long)m, (long long)N);
    }
    return CR_OK;
}

/* loss = lse - (1 - s) x[target] - s mean(x), for smoothing s: the cross-entropy with (1 - s) onehot + s / N */
cr_status cr_ref_cross_entropy(const cr_cross_entropy_args *args) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], N = x->shape[1];
    const double smoothing = args->smoothing;
    const cr_status status = check_target(&args->target, N, args->ignore);
    if (status != CR_OK) return status;
    EACH(m, M) {
        const int64_t t = get_int(&args->target, m);
        double lse = row_lse(x, m * N, N), mean = 0;
        put(&args->lse, m, lse);
        put(&args->loss, m, 0);
        if (t == args->ignore) continue;
        EACH(n, N) mean += get(x, m * N + n) / (double)N;
        put(&args->loss, m, lse - (1 - smoothing) * get(x, m * N + t) - (smoothing > 0 ? smoothing * mean : 0));
    }
    return CR_OK;
}

/* dx = g (softmax(x) - (1 - s) onehot(target) - s / N); 0 in ignored rows */
cr_status cr_ref_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], N = x->shape[1];
    const cr_status status = check_target(&args->target, N, args->ignore);
    if (status != CR_OK) return status;
    EACH(m, M) {
        const int64_t t = get_int(&args->target, m);
        const double g = get(&args->g, args->g.numel == 1 ? 0 : m), lse = get(&args->lse, m);
        EACH(n, N) {
            double wanted = (n == t ? 1 - args->smoothing : 0) + args->smoothing / (double)N;
            put(&args->dx, m * N + n, t == args->ignore ? 0 : g * (exp(get(x, m * N + n) - lse) - wanted));
        }
    }
    return CR_OK;
}
