/* quantized.c - layers with weights of 4 or 8 bits (quantized.cu): few rows of x; parts of w as floats for many. */
#include "gpu.h"
#include "quantized.cu"

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype dt, const cr_array *codes) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_quantized, name, "#define T %s\n#define A %s\n#define BITS %d\n",
                             cr_cuda_type(dt), cr_cuda_wide(dt), cr_quantized_has_8_bits(codes) ? 8 : 4);
}

cr_status cr_cuda_dequantize(const cr_dequantize_args *args) {
    static const char op[] = "dequantize";
    const cr_array *y = &args->y, *codes = &args->codes, *scales = &args->scales;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const dequantize_arguments q = {.y = cuda_address_of(y),
                                    .codes = cuda_address_of(codes),
                                    .scales = cuda_address_of(scales),
                                    .numel = y->numel,
                                    .K = y->shape[1],
                                    .G = y->shape[1] / scales->shape[1],
                                    .codes_n = codes->strides[0],
                                    .scales_n = scales->strides[0]};
    return cr_cuda_leave(g, cr_cuda_launch(g, op, kernel_of(g, op, op, y->dtype, codes), &q,
                                           cuda_pieces(y->numel / 8, CUDA_GROUP)));
}

cr_status cr_cuda_linear_quantized(const cr_linear_quantized_args *args) {
    static const char op[] = "linear_quantized";
    enum { WARPS = CUDA_GROUP / 32 };
    const cr_array *y = &args->y, *x = &args->x, *codes = &args->codes, *scales = &args->scales;
    if (!cr_note_done(args->done, x->shape[0] <= QUANTIZED_ROWS)) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const linear_quantized_arguments q = {.y = cuda_address_of(y),
                                          .x = cuda_address_of(x),
                                          .codes = cuda_address_of(codes),
                                          .scales = cuda_address_of(scales),
                                          .bias = cuda_address_of(cr_present(&args->bias)),
                                          .M = x->shape[0],
                                          .N = y->shape[1],
                                          .K = x->shape[1],
                                          .G = x->shape[1] / scales->shape[1],
                                          .codes_n = codes->strides[0],
                                          .scales_n = scales->strides[0]};
    return cr_cuda_leave(g, cr_cuda_launch(g, op, kernel_of(g, op, "linear", y->dtype, codes), &q,
                                           cuda_pieces(q.N, WARPS)));
}
