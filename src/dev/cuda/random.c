/* random.c - numbers of a Philox stream (random.cu). */
#include "gpu.h"
#include "random.cu"

static cr_status launch_stream(const char *op, const char *name, const cr_array *y, random_arguments q) {
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    q.y = cuda_address_of(y), q.numel = y->numel;
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_random, name, "#define T %s\n#define A %s\n",
                                             cr_cuda_type(y->dtype), y->dtype == CR_F64 ? "f64" : "f32");
    return cr_cuda_leave(g, cr_cuda_launch(g, op, k, &q, cr_cuda_blocks(g, y->numel)));
}

cr_status cr_cuda_random(const cr_random_args *args) {
    const random_arguments q = {.seed = args->seed, .counter = args->counter};
    return args->kind == CR_RANDOM_NORMAL ? launch_stream("randn", "normal", &args->y, q)
        : launch_stream("rand", "uniform", &args->y, q);
}

cr_status cr_cuda_random_integers(const cr_random_integers_args *args) {
    const random_arguments q = {.seed = args->seed, .counter = args->counter, .low = args->low, .span = args->span};
    return launch_stream("randint", "integers", &args->y, q);
}
