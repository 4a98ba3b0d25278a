/* channel_norm.c - batch normalization: threads split the channels. */
#include "blocks.h"
#include "../../core/pool.h"

#include <math.h>

static double element(const cr_array *t, int64_t i) {
    return cr_load_f64((char *)cr_array_data(t) + i * (int64_t)cr_dtype_size(t->dtype), t->dtype);
}
static void set_element(const cr_array *t, int64_t i, double v) {
    cr_store_f64((char *)cr_array_data(t) + i * (int64_t)cr_dtype_size(t->dtype), t->dtype, v);
}
static double channel_value(const cr_array *t, int64_t c, double absent) {
    return cr_present(t) ? element(t, c) : absent;
}

static void norm_channel(void *ctx, int64_t c, int worker) {
    (void)worker;
    const cr_channel_norm_args *args = ctx;
    const cr_array *x = &args->x;
    const int64_t C = x->shape[1], S = x->shape[2], count = x->shape[0] * S;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < count; i++) mean += element(x, (i / S * C + c) * S + i % S) / (double)count;
    for (int64_t i = 0; i < count; i++) {
        const double d = element(x, (i / S * C + c) * S + i % S) - mean;
        square += d * d / (double)count;
    }
    const double scale = channel_value(&args->w, c, 1) / sqrt(square + args->eps), b = channel_value(&args->b, c, 0);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (i / S * C + c) * S + i % S;
        set_element(&args->y, at, (element(x, at) - mean) * scale + b);
    }
    set_element(&args->mean, c, mean);
    set_element(&args->var, c, square);
}

cr_status cr_cpu_channel_norm(const cr_channel_norm_args *args) {
    cr_run_chunks(args->x.shape[1], norm_channel, (void *)(uintptr_t)args);
    return CR_OK;
}

static void norm_bwd_channel(void *ctx, int64_t c, int worker) {
    (void)worker;
    const cr_channel_norm_bwd_args *args = ctx;
    const cr_array *x = &args->x, *g = &args->g;
    const int64_t C = x->shape[1], S = x->shape[2], count = x->shape[0] * S;
    const double mean = element(&args->mean, c), r = 1 / sqrt(element(&args->var, c) + args->eps);
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (i / S * C + c) * S + i % S;
        sum += element(g, at);
        dot += element(g, at) * (element(x, at) - mean) * r;
    }
    for (int64_t i = 0; i < count && cr_present(&args->dx); i++) {
        const int64_t at = (i / S * C + c) * S + i % S;
        const double h = (element(x, at) - mean) * r;
        set_element(&args->dx, at,
                    channel_value(&args->w, c, 1) * r * (element(g, at) - (sum + h * dot) / (double)count));
    }
    if (cr_present(&args->dw)) set_element(&args->dw, c, dot);
    if (cr_present(&args->db)) set_element(&args->db, c, sum);
}

cr_status cr_cpu_channel_norm_bwd(const cr_channel_norm_bwd_args *args) {
    cr_run_chunks(args->x.shape[1], norm_bwd_channel, (void *)(uintptr_t)args);
    return CR_OK;
}
