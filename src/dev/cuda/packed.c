/* packed.c - layers with weights in a packed format (packed.cu): few rows of x; parts of w as floats for many. */
#include "gpu.h"
#include "packed.cu"

#include "../../core/formats.h"

static const cuda_kernel *kernel_of(cuda *g, const char *op, cr_dtype dt, int format) {
    const cr_format_traits *f = &cr_formats[format];
    return cr_cuda_kernel_of(g, op, cr_cuda_source_packed, op,
                             "#define T %s\n#define A %s\n#define FORMAT %s\n#define BLOCK %d\n#define BYTES %d\n",
                             cr_cuda_type(dt), cr_cuda_wide(dt), f->name, f->block, f->bytes);
}

cr_status cr_cuda_unpack(const cr_unpack_args *args) {
    static const char op[] = "unpack";
    const cr_array *y = &args->y, *w = &args->w;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const unpack_arguments q = {.y = cuda_address_of(y), .w = cuda_address_of(w), .numel = y->numel,
                                .K = y->shape[1], .line = w->strides[0]};
    return cr_cuda_leave(g, cr_cuda_launch(g, op, kernel_of(g, op, y->dtype, args->format), &q,
                                           cuda_pieces(y->numel / 8, CUDA_GROUP)));
}

cr_status cr_cuda_linear_packed(const cr_linear_packed_args *args) {
    static const char op[] = "linear_packed";
    enum { WARPS = CUDA_GROUP / 32 };
    const cr_array *y = &args->y, *x = &args->x, *w = &args->w;
    if (!cr_note_done(args->done, x->shape[0] <= PACKED_ROWS)) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const linear_packed_arguments q = {.y = cuda_address_of(y), .x = cuda_address_of(x), .w = cuda_address_of(w),
                                       .bias = cuda_address_of(cr_present(&args->bias)),
                                       .M = x->shape[0], .N = y->shape[1], .K = x->shape[1], .line = w->strides[0]};
    return cr_cuda_leave(g, cr_cuda_launch(g, op, kernel_of(g, op, y->dtype, args->format), &q,
                                           cuda_pieces(q.N, WARPS)));
}
