/* reduce.c - x (M, R, N) -> y (M, N), in one stage or two: a long R is cut into parts, which are
 * reduced first, (M, R, N) -> (M, parts, N).  Cuts and trees depend on the shape only, so results are
 * reproducible. */
#include "reduce.h"
#include "reduce.cu"

#include <stdlib.h>

static int64_t power_of_two(int64_t most) {         /* the largest that is at most `most`, at least 1 */
    int64_t p = 1;
    while (2 * p <= most) p *= 2;
    return p;
}

cuda_cut cr_cuda_cut_of(int64_t results, int64_t R, int64_t N, int64_t stride_r, int64_t stride_n) {
    enum { BUSY = 1024,                             /* blocks that are enough for any GPU */
           ALONG = 4, ACROSS = 8, LEAST = 16 };     /* elements of a thread: before more threads share a result;
                                                     * before R is cut */
    cuda_cut c = {.along = !(N >= 32 && llabs(stride_n) < llabs(stride_r))};
    c.width = c.along ? power_of_two(cr_imin(R / ALONG, CUDA_GROUP)) : power_of_two(cr_imin(R / ACROSS, 8));
    const int64_t blocks = cuda_pieces(results * c.width, CUDA_GROUP);
    c.parts = cr_imin(BUSY / blocks, R / (c.width * LEAST));
    if (c.parts < 1) c.parts = 1;
    c.part_size = cuda_pieces(R, c.parts);
    if (R) c.parts = cuda_pieces(R, c.part_size);          /* no part is empty */
    c.blocks = cuda_pieces(results * c.parts * c.width, CUDA_GROUP);
    return c;
}

static cr_dtype accumulator(const cr_reduce_how *how, cr_dtype x, cr_dtype y) {
    if (how->map == CR_MAP_NONZERO) return CR_I64;
    if (cr_dtype_is_float(x)) return x == CR_F64 ? CR_F64 : CR_F32;
    if (how->kind >= CR_REDUCE_MAX) return x;
    return !cr_dtype_is_float(y) ? CR_I64 : y == CR_F64 ? CR_F64 : CR_F32;
}

static cr_status launch_reduction(cuda *g, const cuda_reduction *s, cuda_address y, const cuda_cut *c) {
    static const char definitions[] = "#define T %s\n#define A %s\n#define TO %s\n#define KIND %d\n#define MAP %d\n";
    const cuda_kernel *k = cr_cuda_kernel_of(g, s->op, cr_cuda_source_reduce, "reduce", definitions,
                                             cr_cuda_type(s->from), cr_cuda_wide(s->acc), cr_cuda_type(s->to),
                                             (int)s->how.kind, (int)s->how.map);
    const reduce_arguments q = {.y = y,
                                .x = s->x,
                                .sums = s->sums,
                                .R = s->at.R,
                                .N = s->at.N,
                                .stride_m = s->at.strides[0],
                                .stride_r = s->at.strides[1],
                                .stride_n = s->at.strides[2],
                                .parts = c->parts,
                                .part_size = c->part_size,
                                .results = s->at.M * c->parts * s->at.N,
                                .width = c->width,
                                .along = c->along,
                                .p = s->how.p};
    return cr_cuda_launch(g, s->op, k, &q, c->blocks);
}

cr_status cr_cuda_reduce_slab(cuda *g, const cuda_reduction *s, cuda_address y) {
    const cuda_cut c = cr_cuda_cut_of(s->at.M * s->at.N, s->at.R, s->at.N, s->at.strides[1], s->at.strides[2]);
    if (c.parts == 1) return launch_reduction(g, s, y, &c);
    cuda_block *parts = cr_cuda_block_take(g, s->op, (size_t)(s->at.M * c.parts * s->at.N) * cr_dtype_size(s->acc));
    if (!parts) return cr_error_status();
    cuda_reduction first = *s, then = *s;
    first.to = then.from = s->acc;
    then.how.map = CR_MAP_SAME;
    then.x = parts->at;
    then.at = (cr_slab){s->at.M, c.parts, s->at.N, {c.parts * s->at.N, s->at.N, 1}};
    cr_status status = launch_reduction(g, &first, parts->at, &c);
    if (status == CR_OK) status = cr_cuda_reduce_slab(g, &then, y);
    cr_cuda_block_give(g, parts);
    return status;
}

/* The sums of each row first, then the squares of the deviations from the mean. */
static cr_status reduce_deviations(cuda *g, cuda_reduction *s, cuda_address y) {
    cuda_block *sums = cr_cuda_block_take(g, s->op, (size_t)(s->at.M * s->at.N) * cr_dtype_size(s->acc));
    if (!sums) return cr_error_status();
    cuda_reduction sum = *s;
    sum.how = (cr_reduce_how){.kind = CR_REDUCE_SUM};
    sum.to = s->acc;
    s->sums = sums->at;
    cr_status status = cr_cuda_reduce_slab(g, &sum, sums->at);
    if (status == CR_OK) status = cr_cuda_reduce_slab(g, s, y);
    cr_cuda_block_give(g, sums);
    return status;
}

cr_status cr_cuda_reduce(const cr_reduce_args *args) {
    static const char *const names[] = {"sum", "prod", "max", "min"};
    const cr_array *x = &args->x, *y = &args->y;
    const cr_reduce_how *how = &args->how;
    const char *op = names[how->kind];
    if (!x->shape[0] || !x->shape[2]) return CR_OK;
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    cuda_reduction s = {
        .op = op, .how = *how, .from = x->dtype, .to = y->dtype, .at = cr_slab_of(x), .x = cuda_address_of(x)};
    s.acc = accumulator(how, s.from, s.to);
    const cuda_address to = cuda_address_of(y);
    return cr_cuda_leave(g,
                         how->map == CR_MAP_DEVIATION ? reduce_deviations(g, &s, to) : cr_cuda_reduce_slab(g, &s, to));
}
