/* sample.c - permutations and weighted samples, as dev.h defines them, built from other kernels:
 * random words, running sums, sorted rows. */
#include "order.h"
#include "scan.h"
#include "random.cu"
#include "sample.cu"

typedef struct draw {
    const char *op;
    cr_dtype dtype;
    cuda_address y, w;
    int64_t M, N, S;
    uint64_t seed, counter;
} draw;

/* W(0) .. W(n - 1) of the stream, u64 */
static cr_status words(cuda *g, const draw *d, cuda_address to, int64_t n) {
    const cuda_kernel *k = cr_cuda_kernel_of(g, d->op, cr_cuda_source_random, "integers",
                                             "#define T u64\n#define A f32\n");
    const random_arguments q = {.y = to, .numel = n, .seed = d->seed, .counter = d->counter};
    return cr_cuda_launch(g, d->op, k, &q, cr_cuda_blocks(g, n));
}

static const cuda_kernel *kernel_of(cuda *g, const draw *d, const char *name) {
    return cr_cuda_kernel_of(g, d->op, cr_cuda_source_sample, name, "#define T %s\n", cr_cuda_type(d->dtype));
}

/* ---- permutations: positions in the order of random words */
static cr_status permute(cuda *g, const draw *d, cuda_address at) {
    const cuda_ordering order = {.op = d->op, .dtype = CR_U64, .index = d->y, .x = at, .M = 1, .R = d->N, .K = d->N};
    const cr_status status = words(g, d, at, d->N);
    return status == CR_OK ? cr_cuda_order_rows(g, &order) : status;
}

/* ---- samples by weights */
static cr_status with_replacement(cuda *g, const draw *d, cuda_address at) {
    const cuda_address sums = at, word = at + 8 * (uint64_t)(d->M * d->N);
    const cuda_running sum = {.op = d->op,
                              .kind = CR_SCAN_SUM,
                              .in_order = true,
                              .from = d->dtype,
                              .to = CR_F64,
                              .y = sums,
                              .x = d->w,
                              .M = d->M,
                              .R = d->N,
                              .N = 1};
    const cuda_kernel *k = kernel_of(g, d, "draw");
    const draw_arguments q = {.y = d->y, .sums = sums, .words = word, .draws = d->M * d->S, .N = d->N, .S = d->S};
    cr_status status = k ? words(g, d, word, d->M * d->S) : cr_error_status();
    if (status == CR_OK) status = cr_cuda_run_along(g, &sum);
    return status == CR_OK ? cr_cuda_launch(g, d->op, k, &q, cr_cuda_blocks(g, d->M * d->S)) : status;
}

static cr_status without_replacement(cuda *g, const draw *d, cuda_address at) {
    const int64_t n = d->M * d->N;
    const cuda_address times = at, word = at + 8 * (uint64_t)n;
    const cuda_ordering order = {
        .op = d->op, .dtype = CR_F64, .index = d->y, .x = times, .M = d->M, .R = d->N, .K = d->S};
    const cuda_kernel *k = kernel_of(g, d, "wait");
    const wait_arguments q = {.times = times, .w = d->w, .words = word, .numel = n};
    cr_status status = k ? words(g, d, word, n) : cr_error_status();
    if (status == CR_OK) status = cr_cuda_launch(g, d->op, k, &q, cr_cuda_blocks(g, n));
    return status == CR_OK ? cr_cuda_order_rows(g, &order) : status;
}

/* Into y, of the weights w or NULL, with `room` words of 64 bits as scratch memory. */
static cr_status run_draw(draw d, const cr_array *y, const cr_array *w, int64_t room,
                          cr_status (*fn)(cuda *, const draw *, cuda_address)) {
    if (!y->numel) return CR_OK;
    cuda *g = cr_cuda_enter(d.op, y->dev);
    if (!g) return cr_error_status();
    d.y = cuda_address_of(y), d.w = cuda_address_of(w);
    cuda_block *b = cr_cuda_block_take(g, d.op, 8 * (size_t)room);
    const cr_status status = b ? fn(g, &d, b->at) : cr_error_status();
    if (b) cr_cuda_block_give(g, b);
    return cr_cuda_leave(g, status);
}

cr_status cr_cuda_permutation(const cr_permutation_args *args) {
    const draw d = {.op = "randperm", .M = 1, .N = args->y.numel, .seed = args->seed, .counter = args->counter};
    return run_draw(d, &args->y, NULL, d.N, permute);
}

cr_status cr_cuda_multinomial(const cr_multinomial_args *args) {
    const draw d = {.op = "multinomial",
                    .dtype = args->w.dtype,
                    .M = args->w.shape[0],
                    .N = args->w.shape[1],
                    .S = args->y.shape[1],
                    .seed = args->seed,
                    .counter = args->counter};
    const int64_t room = d.M * (d.N + (args->replacement ? d.S : d.N));
    return run_draw(d, &args->y, &args->w, room, args->replacement ? with_replacement : without_replacement);
}
