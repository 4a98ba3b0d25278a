/* pool.c - maxima of windows, and products with a banded matrix (pool.wgsl): an invocation for
 * each result, or a workgroup where it has many terms.  The outermost axis is split until all
 * operands fit into windows. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum { WIDE = 4096 };                               /* terms of a result from which on a workgroup shares it */
typedef struct kernel { int id, band; cr_dtype dtype; int wide; } kernel;

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    cr_wgsl_const(w, h->band ? "BAND" : "MAX_POOL", 1);
    if (h->wide) cr_wgsl_const(w, "WIDE", 1);
    cr_wgsl_array(w, "y", h->dtype, true);
    if (!h->band) cr_wgsl_array(w, "index", CR_I64, true);
    cr_wgsl_array(w, "x", h->dtype, false);
    if (h->band) {
        cr_wgsl_array(w, "start", CR_I64, false);
        cr_wgsl_array(w, "weights", CR_F32, false);
    }
    cr_wgsl_file(w, cr_wgsl_pool);
    if (h->wide && h->band) cr_wgsl_trees(w, 1);
    cr_wgsl_end(w, GPU_GROUP);
}

static uint64_t groups_of(const kernel *h, int64_t results) {
    return h->wide ? (uint64_t)results : gpu_groups(results);
}

/* offset: of the first element of t in its window */
static bool bind_array(const gpu *g, gpu_call *call, const cr_array *t, uint32_t *offset) {
    const gpu_span s = cr_gpu_span_of(t->offset, t->ndim, t->shape, t->strides);
    if (!cr_gpu_bind_window(g, call, gpu_buffer_of(t), s, t->dtype, offset)) return false;
    *offset += (uint32_t)(t->offset - s.first);
    return true;
}

static cr_status run_max_pool(gpu *g, const cr_max_pool_args *args) {
    const cr_array *x = &args->x, *y = &args->y;
    const int64_t terms = args->kernel[0] * args->kernel[1] * args->kernel[2];
    const kernel h = {'w', false, x->dtype, terms > WIDE};
    pool_max_parameters p = {.count = (uint32_t)y->numel, .terms = (uint32_t)terms};
    for (int d = 0; d < 3; d++) {
        p.size[d] = (uint32_t)x->shape[1 + d], p.out[d] = (uint32_t)y->shape[1 + d];
        p.window[d] = (uint32_t)args->kernel[d];
        p.stride[d] = y->shape[1 + d] > 1 ? (int32_t)args->stride[d] : 0;
        p.pad[d] = (int32_t)args->pad[d];
        p.dilation[d] = args->kernel[d] > 1 ? (int32_t)args->dilation[d] : 0;
    }
    gpu_call call = {.op = "max_pool",
                     .write = write_kernel,
                     .how = &h,
                     .how_bytes = sizeof h,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = groups_of(&h, y->numel)};
    if (y->numel < INT32_MAX && bind_array(g, &call, y, &p.y) && bind_array(g, &call, &args->index, &p.index) &&
        bind_array(g, &call, x, &p.x))
        return cr_gpu_run(g, &call);
    const int64_t N = x->shape[0], half = N / 2;
    if (!half) return cr_gpu_fail_window(g, call.op, gpu_buffer_of(x)->bytes);
    cr_status status = CR_OK;
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        cr_max_pool_args part = *args;
        const int64_t first = i ? half : 0, count = i ? N - half : half;
        part.y = cr_array_narrowed(y, 0, first, count);
        part.index = cr_array_narrowed(&args->index, 0, first, count);
        part.x = cr_array_narrowed(x, 0, first, count);
        status = run_max_pool(g, &part);
    }
    return status;
}

/* Coordinates are i32; an invocation has at most 65535 terms (lavapipe ends it then). */
static bool fits_limits(const cr_max_pool_args *args) {
    const int64_t most = INT64_C(1) << 29;
    int64_t terms = 1;
    bool fine = true;
    for (int d = 0; d < 3; d++) {
        const int64_t out = args->y.shape[1 + d], taps = args->kernel[d];
        fine = fine && args->x.shape[1 + d] < most && out < most && taps < most && args->pad[d] < most;
        fine = fine && (out == 1 || args->stride[d] <= most / out) && (taps == 1 || args->dilation[d] <= most / taps);
        fine = fine && (terms *= taps) < 65535 * GPU_GROUP;
    }
    return fine;
}

cr_status cr_gpu_max_pool(const cr_max_pool_args *args) {
    static const char op[] = "max_pool";
    if (cr_gpu_lacks(op, &args->x)) return cr_error_status();
    if (!fits_limits(args)) return cr_gpu_cannot(op, args->x.dev, "with windows as large as these");
    gpu *g = cr_gpu_enter(op, args->x.dev);
    return g ? cr_gpu_leave(g, run_max_pool(g, args)) : cr_error_status();
}

static cr_status run_band(gpu *g, const cr_band_args *args) {
    const cr_array *x = &args->x, *y = &args->y;
    const int64_t K = args->weights.shape[1];
    const kernel h = {'w', true, x->dtype, K > WIDE};
    pool_band_parameters p = {.count = (uint32_t)y->numel,
                              .S = (uint32_t)y->shape[1],
                              .N = (uint32_t)y->shape[2],
                              .K = (uint32_t)K,
                              .x_m = (uint32_t)x->strides[0],
                              .x_r = (uint32_t)x->strides[1],
                              .x_n = (uint32_t)x->strides[2]};
    gpu_call call = {.op = "band",
                     .write = write_kernel,
                     .how = &h,
                     .how_bytes = sizeof h,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = groups_of(&h, y->numel)};
    if (y->numel < INT32_MAX && bind_array(g, &call, y, &p.y) && bind_array(g, &call, x, &p.x) &&
        bind_array(g, &call, &args->start, &p.start) && bind_array(g, &call, &args->weights, &p.weights))
        return cr_gpu_run(g, &call);
    const int64_t M = x->shape[0], half = M / 2;
    if (!half) return cr_gpu_fail_window(g, call.op, gpu_buffer_of(x)->bytes);
    cr_status status = CR_OK;
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        cr_band_args part = *args;
        part.y = cr_array_narrowed(y, 0, i ? half : 0, i ? M - half : half);
        part.x = cr_array_narrowed(x, 0, i ? half : 0, i ? M - half : half);
        status = run_band(g, &part);
    }
    return status;
}

cr_status cr_gpu_band(const cr_band_args *args) {
    static const char op[] = "band";
    if (cr_gpu_lacks(op, &args->x)) return cr_error_status();
    if (args->weights.shape[1] >= 65535 * GPU_GROUP)
        return cr_gpu_cannot(op, args->x.dev, "with bands as wide as these");
    gpu *g = cr_gpu_enter(op, args->x.dev);
    return g ? cr_gpu_leave(g, run_band(g, args)) : cr_error_status();
}
