/* pool.c - maxima of windows, and products with a banded matrix (pool.cu). */
#include "gpu.h"
#include "pool.cu"

#include <string.h>

static const cuda_kernel *kernel_of(cuda *g, const char *name, cr_dtype dt) {
    return cr_cuda_kernel_of(g, name, cr_cuda_source_pool, name, "#define T %s\n#define A %s\n", cr_cuda_type(dt),
                             cr_cuda_wide(dt));
}

cr_status cr_cuda_max_pool(const cr_max_pool_args *args) {
    static const char op[] = "max_pool";
    const cr_array *x = &args->x, *y = &args->y;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    max_pool_arguments q = {
        .y = cuda_address_of(y), .index = cuda_address_of(&args->index), .x = cuda_address_of(x), .numel = y->numel};
    memcpy(q.in, x->shape + 1, sizeof q.in);
    memcpy(q.out, y->shape + 1, sizeof q.out);
    memcpy(q.kernel, args->kernel, sizeof q.kernel);
    memcpy(q.stride, args->stride, sizeof q.stride);
    memcpy(q.pad, args->pad, sizeof q.pad);
    memcpy(q.dilation, args->dilation, sizeof q.dilation);
    return cr_cuda_leave(g,
                         cr_cuda_launch(g, op, kernel_of(g, op, y->dtype), &q, cuda_pieces(y->numel, CUDA_GROUP)));
}

/* Neighbouring threads read neighbouring columns where there are enough; else some share the terms of a result. */
static int64_t width_of(int64_t K, int64_t N) {
    enum { WARP = 32, COLUMNS = 8, TERMS = 4 };     /* TERMS: of a thread, before more threads share a result */
    int64_t width = 1;
    while (N < COLUMNS && width < WARP && 2 * width * TERMS <= K) width *= 2;
    return width;
}

cr_status cr_cuda_band(const cr_band_args *args) {
    static const char op[] = "band";
    const cr_array *x = &args->x, *y = &args->y;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const int64_t K = args->weights.shape[1], N = y->shape[2];
    const band_arguments q = {.y = cuda_address_of(y),
                              .x = cuda_address_of(x),
                              .start = cuda_address_of(&args->start),
                              .weights = cuda_address_of(&args->weights),
                              .numel = y->numel,
                              .S = y->shape[1],
                              .N = N,
                              .K = K,
                              .x_m = x->strides[0],
                              .x_r = x->strides[1],
                              .x_n = x->strides[2],
                              .width = width_of(K, N)};
    return cr_cuda_leave(g, cr_cuda_launch(g, op, kernel_of(g, op, y->dtype), &q,
                                           cuda_pieces(y->numel * q.width, CUDA_GROUP)));
}
