/* windows.c - maxima of windows, products with banded matrices, and normalization by channel. */
#include <math.h>
#include "ref.h"

/* Position p of an output axis and t of the kernel as a position of x; false: outside of x. */
static bool inside(const cr_max_pool_args *args, int axis, int64_t p, int64_t t, int64_t *at) {
    *at = p * args->stride[axis] + t * args->dilation[axis] - args->pad[axis];
    return *at >= 0 && *at < args->x.shape[1 + axis];
}

/* y[n, p] = max over t of x[n, p stride + t dilation - pad] */
cr_status cr_ref_max_pool(const cr_max_pool_args *args) {
    const cr_array *x = &args->x;
    const int64_t *in = x->shape, *out = args->y.shape, *kernel = args->kernel;
    EACH(i, args->y.numel) {
        const int64_t p[3] = {i / out[3] / out[2] % out[1], i / out[3] % out[2], i % out[3]};
        const int64_t first = i / (out[1] * out[2] * out[3]) * in[1] * in[2] * in[3];
        int64_t at[3], best = -1;
        for (int64_t t = 0; t < kernel[0] * kernel[1] * kernel[2]; t++) {
            if (!inside(args, 0, p[0], t / kernel[2] / kernel[1], &at[0])) continue;
            if (!inside(args, 1, p[1], t / kernel[2] % kernel[1], &at[1])) continue;
            if (!inside(args, 2, p[2], t % kernel[2], &at[2])) continue;
            const int64_t position = (at[0] * in[2] + at[1]) * in[3] + at[2];
            const double v = get(x, first + position);
            if (best < 0 || v > get(x, first + best) || isnan(v)) best = position;
        }
        put(&args->y, i, get(x, first + best));
        put_int(&args->index, i, best);
    }
    return CR_OK;
}

/* y[m, s, n] = sum over k of weights[s, k] x[m, start[s] + k, n] */
cr_status cr_ref_band(const cr_band_args *args) {
    const cr_array *x = &args->x, *y = &args->y;
    const int64_t S = y->shape[1], N = y->shape[2], K = args->weights.shape[1];
    EACH(i, y->numel) {
        const int64_t m = i / N / S, s = i / N % S, n = i % N, first = get_int(&args->start, s);
        double sum = 0;
        for (int64_t k = 0; k < K; k++) {
            const double w = get(&args->weights, s * K + k);
            if (w != 0) sum += w * get(x, m * x->strides[0] + (first + k) * x->strides[1] + n * x->strides[2]);
        }
        put(y, i, sum);
    }
    return CR_OK;
}

/* y = (x - mean) / sqrt(var + eps) w + b, the statistics of each channel c of x (B, C, S) */
cr_status cr_ref_channel_norm(const cr_channel_norm_args *args) {
    const cr_array *x = &args->x, *w = cr_present(&args->w), *b = cr_present(&args->b);
    const int64_t C = x->shape[1], S = x->shape[2], count = x->shape[0] * S;
    EACH(c, C) {
        double mean = 0, square = 0;
        EACH(i, count) mean += get(x, (i / S * C + c) * S + i % S) / (double)count;
        EACH(i, count) {
            const double d = get(x, (i / S * C + c) * S + i % S) - mean;
            square += d * d;
        }
        const double var = square / (double)count, r = 1 / sqrt(var + args->eps);
        EACH(i, count) {
            const int64_t at = (i / S * C + c) * S + i % S;
            put(&args->y, at, (get(x, at) - mean) * r * (w ? get(w, c) : 1) + (b ? get(b, c) : 0));
        }
        put(&args->mean, c, mean);
        put(&args->var, c, var);
    }
    return CR_OK;
}

/* with h = (x - mean) / sqrt(var + eps):
 *   dx = w / sqrt(var + eps) (g - mean(g) - h mean(g h)),  dw = sum(g h),  db = sum(g) */
cr_status cr_ref_channel_norm_bwd(const cr_channel_norm_bwd_args *args) {
    const cr_array *x = &args->x, *g = &args->g, *w = cr_present(&args->w);
    const int64_t C = x->shape[1], S = x->shape[2], count = x->shape[0] * S;
    EACH(c, C) {
        const double mean = get(&args->mean, c), r = 1 / sqrt(get(&args->var, c) + args->eps);
        double sum = 0, dot = 0;
        EACH(i, count) {
            const int64_t at = (i / S * C + c) * S + i % S;
            sum += get(g, at);
            dot += get(g, at) * (get(x, at) - mean) * r;
        }
        if (cr_present(&args->dx)) EACH(i, count) {
            const int64_t at = (i / S * C + c) * S + i % S;
            const double h = (get(x, at) - mean) * r;
            put(&args->dx, at, (w ? get(w, c) : 1) * r * (get(g, at) - (sum + h * dot) / (double)count));
        }
        if (cr_present(&args->dw)) put(&args->dw, c, dot);
        if (cr_present(&args->db)) put(&args->db, c, sum);
    }
    return CR_OK;
}
