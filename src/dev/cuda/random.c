/* random.c - numbers of a Philox stream (random.cu). */
#include "gpu.h"

/* q: its parameters, but for the first, where y is. */
static cr_status run(const char *op, const char *name, const cr_array *y, cuda_words *q) {
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    q->w[0] = cuda_address_of(y);
    const cuda_kernel *k = cr_cuda_kernel_of(g, op, cr_cuda_source_random, name, "#define T %s\n#define A %s\n", cr_cuda_type(y->dtype), y->dtype == CR_F64 ? "f64" : "f32");
    return cr_cuda_leave(g, k ? cr_cuda_launch(g, op, k, q, cr_cuda_blocks(g, y->numel)) : cr_error_status());
}

cr_status cr_cuda_random(const cr_random_args *args) {
    const cr_array *y = &args->y;
    const cr_random_kind kind = args->kind;
    const uint64_t seed = args->seed, counter = args->counter;
    cuda_words q = {.n = 4, .w = {0, (uint64_t)y->numel, seed, counter}};
    return kind == CR_RANDOM_NORMAL ? run("randn", "normal", y, &q) : run("rand", "uniform", y, &q);
}

cr_status cr_cuda_random_integers(const cr_random_integers_args *args) {
    const cr_array *y = &args->y;
    const int64_t low = args->low;
    const uint64_t span = args->span, seed = args->seed, counter = args->counter;
    cuda_words q = {.n = 6, .w = {0, (uint64_t)y->numel, seed, counter, (uint64_t)low, span}};
    return run("randint", "integers", y, &q);
}
