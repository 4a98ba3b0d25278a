/* packed.c - layers with weights in a packed format (packed.wgsl): few rows of x; parts of w as floats for many.
 * Rows of w are split until all operands fit into windows. */
#include "wgsl.gen.h"
#include "wgsl.h"

#include "../../core/formats.h"

enum { FEW_ROWS = 8, LANES = 32 };                  /* rows of x; invocations of a row of w */
typedef struct kernel { int id, linear, format, bias; cr_dtype dtype; } kernel;

/* as formats.h names them; PLAIN: with a scale in front and no offset */
static const char *const names[CR_FORMATS] = {
    [CR_FORMAT_Q8_0] = "Q8_0", [CR_FORMAT_Q4_0] = "Q4_0", [CR_FORMAT_Q4_1] = "Q4_1", [CR_FORMAT_Q5_0] = "Q5_0",
    [CR_FORMAT_Q5_1] = "Q5_1", [CR_FORMAT_IQ4_NL] = "IQ4_NL", [CR_FORMAT_MXFP4] = "MXFP4", [CR_FORMAT_Q2_K] = "Q2_K",
    [CR_FORMAT_Q3_K] = "Q3_K", [CR_FORMAT_Q4_K] = "Q4_K", [CR_FORMAT_Q5_K] = "Q5_K", [CR_FORMAT_Q6_K] = "Q6_K",
    [CR_FORMAT_IQ4_XS] = "IQ4_XS"};

static bool is_plain(int f) {
    return f == CR_FORMAT_Q8_0 || f == CR_FORMAT_Q4_0 || f == CR_FORMAT_Q5_0 || f == CR_FORMAT_IQ4_NL;
}

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    cr_wgsl_const(w, "LINEAR", h->linear);
    cr_wgsl_const(w, names[h->format], 1);
    cr_wgsl_const(w, "PLAIN", is_plain(h->format));
    cr_wgsl_const(w, "BLOCK", cr_formats[h->format].block);
    cr_wgsl_const(w, "BYTES", cr_formats[h->format].bytes);
    cr_wgsl_const(w, "BIAS", h->bias);
    cr_wgsl_array(w, "y", h->dtype, true);
    cr_wgsl_array(w, "w", CR_U8, false);
    if (h->linear) cr_wgsl_array(w, "x", h->dtype, false);
    if (h->bias) cr_wgsl_array(w, "bias", h->dtype, false);
    cr_wgsl_file(w, cr_wgsl_packed);
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
static cr_status dispatch_rows(gpu *g, const cr_linear_packed_args *a, int64_t first, int64_t n) {
    const bool linear = cr_present(&a->x) != NULL;
    const cr_array w = cr_array_narrowed(&a->w, 0, first, n), y = cr_array_narrowed(&a->y, linear, first, n);
    const kernel h = {'q', linear, a->format, cr_present(&a->bias) != NULL, y.dtype};
    packed_parameters p = {.M = linear ? (uint32_t)y.shape[0] : 0,
                           .N = (uint32_t)n,
                           .K = (uint32_t)(linear ? a->x.shape[1] : y.shape[1]),
                           .y_row = (uint32_t)y.strides[0],
                           .w_row = (uint32_t)w.strides[0]};
    gpu_call call = {.op = linear ? "linear_packed" : "unpack",
                     .write = write_kernel,
                     .how = &h,
                     .how_bytes = sizeof h,
                     .parameters = &p,
                     .parameters_bytes = sizeof p,
                     .groups = linear ? (uint64_t)gpu_ceil_div(n, GPU_GROUP / LANES) : gpu_groups(y.numel)};
    bool fits = y.numel < INT32_MAX && bind_array(g, &call, &y, &p.y) && bind_array(g, &call, &w, &p.w) &&
                (!linear || bind_array(g, &call, &a->x, &p.x));
    if (fits && h.bias) {
        const cr_array bias = cr_array_narrowed(&a->bias, 0, first, n);
        fits = bind_array(g, &call, &bias, &p.bias);
    }
    if (fits) return cr_gpu_run(g, &call);
    if (n == 1) return cr_gpu_fail_window(g, call.op, gpu_buffer_of(&w)->bytes);
    const cr_status status = dispatch_rows(g, a, first, n / 2);
    return status == CR_OK ? dispatch_rows(g, a, first + n / 2, n - n / 2) : status;
}

cr_status cr_gpu_unpack(const cr_unpack_args *args) {
    static const char op[] = "unpack";
    if (cr_gpu_lacks(op, &args->y)) return cr_error_status();
    gpu *g = cr_gpu_enter(op, args->y.dev);
    const cr_linear_packed_args a = {.y = args->y, .w = args->w, .format = args->format};
    return g ? cr_gpu_leave(g, dispatch_rows(g, &a, 0, args->y.shape[0])) : cr_error_status();
}

cr_status cr_gpu_linear_packed(const cr_linear_packed_args *args) {
    static const char op[] = "linear_packed";
    if (cr_gpu_lacks(op, &args->y)) return cr_error_status();
    const bool computes = args->x.shape[0] <= FEW_ROWS && args->x.shape[1] < 65535 * LANES;
    if (!cr_note_done(args->done, computes)) return CR_OK;
    gpu *g = cr_gpu_enter(op, args->y.dev);
    return g ? cr_gpu_leave(g, dispatch_rows(g, args, 0, args->w.shape[0])) : cr_error_status();
}
