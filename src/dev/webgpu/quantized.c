/* quantized.c - layers with weights of 4 or 8 bits (quantized.wgsl): few rows of x; parts of w as floats for many.
 * Rows of w are split until all operands fit into windows. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum { FEW_ROWS = 8, LANES = 32 };                  /* rows of x; invocations of a row of w */
typedef struct kernel { int id, linear, eight, bias; cr_dtype dtype; } kernel;

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    cr_wgsl_const(w, "LINEAR", h->linear);
    cr_wgsl_const(w, "EIGHT", h->eight);
    cr_wgsl_const(w, "BIAS", h->bias);
    cr_wgsl_array(w, "y", h->dtype, true);
    if (h->linear) cr_wgsl_words(w, "codes", false, false);
    else cr_wgsl_array(w, "codes", h->eight ? CR_I8 : CR_U8, false);
    cr_wgsl_array(w, "scales", CR_F16, false);
    if (h->linear) cr_wgsl_array(w, "x", h->dtype, false);
    if (h->bias) cr_wgsl_array(w, "bias", h->dtype, false);
    cr_wgsl_file(w, cr_wgsl_quantized);
    cr_wgsl_end(w, GPU_GROUP);
}

/* offset: of the first element of t in its window */
static bool bind_array(const gpu *g, gpu_call *call, const cr_array *t, uint32_t *offset) {
    const gpu_span s = cr_gpu_span_of(t->offset, t->ndim, t->shape, t->strides);
    if (!cr_gpu_bind_window(g, call, gpu_buffer_of(t), s, t->dtype, offset)) return false;
    *offset += (uint32_t)(t->offset - s.first);
    return true;
}

/* Rows [first, first + n) of w: y's rows, or with x its columns. */
static cr_status dispatch_rows(gpu *g, const cr_linear_quantized_args *a, int64_t first, int64_t n) {
    const bool linear = cr_present(&a->x) != NULL;
    const cr_array codes = cr_array_narrowed(&a->codes, 0, first, n),
                   scales = cr_array_narrowed(&a->scales, 0, first, n),
                   y = cr_array_narrowed(&a->y, linear, first, n);
    const int64_t K = linear ? a->x.shape[1] : y.shape[1];
    const kernel h = {'q', linear, cr_quantized_has_8_bits(&codes), cr_present(&a->bias) != NULL, y.dtype};
    quantized_parameters p = {.M = linear ? (uint32_t)y.shape[0] : 0,
                              .N = (uint32_t)n,
                              .K = (uint32_t)K,
                              .G = (uint32_t)(K / scales.shape[1]),
                              .y_row = (uint32_t)y.strides[0],
                              .codes_row = (uint32_t)codes.strides[0],
                              .scales_row = (uint32_t)scales.strides[0]};
    gpu_call call = {.op = linear ? "linear_quantized" : "dequantize",
                     .write = write_kernel,
                     .how = &h,
                     .how_bytes = sizeof h,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = linear ? (uint64_t)gpu_ceil_div(n, GPU_GROUP / LANES) : gpu_groups(y.numel)};
    bool fits = y.numel < INT32_MAX && bind_array(g, &call, &y, &p.y) && bind_array(g, &call, &codes, &p.codes) &&
                bind_array(g, &call, &scales, &p.scales) && (!linear || bind_array(g, &call, &a->x, &p.x));
    if (fits && h.bias) {
        const cr_array bias = cr_array_narrowed(&a->bias, 0, first, n);
        fits = bind_array(g, &call, &bias, &p.bias);
    }
    if (fits) return cr_gpu_run(g, &call);
    if (n == 1) return cr_gpu_fail_window(g, call.op, gpu_buffer_of(&codes)->bytes);
    const cr_status status = dispatch_rows(g, a, first, n / 2);
    return status == CR_OK ? dispatch_rows(g, a, first + n / 2, n - n / 2) : status;
}

cr_status cr_gpu_dequantize(const cr_dequantize_args *args) {
    static const char op[] = "dequantize";
    if (cr_gpu_lacks(op, &args->y)) return cr_error_status();
    gpu *g = cr_gpu_enter(op, args->y.dev);
    const cr_linear_quantized_args a = {.y = args->y, .codes = args->codes, .scales = args->scales};
    return g ? cr_gpu_leave(g, dispatch_rows(g, &a, 0, args->y.shape[0])) : cr_error_status();
}

/* Codes are read by words, from addresses that they divide. */
static bool reads_words(const cr_array *codes) { return codes->offset % 4 == 0 && codes->strides[0] % 4 == 0; }

cr_status cr_gpu_linear_quantized(const cr_linear_quantized_args *args) {
    static const char op[] = "linear_quantized";
    if (cr_gpu_lacks(op, &args->y)) return cr_error_status();
    const bool computes = args->x.shape[0] <= FEW_ROWS && args->x.shape[1] < 65535 * LANES && reads_words(&args->codes);
    if (!cr_note_done(args->done, computes)) return CR_OK;
    gpu *g = cr_gpu_enter(op, args->y.dev);
    return g ? cr_gpu_leave(g, dispatch_rows(g, args, 0, args->codes.shape[0])) : cr_error_status();
}
