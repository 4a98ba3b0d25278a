/* channels.c - batch normalization by channel and its gradient (channels.cu): sums of parts of
 * each channel, their join, then every element.  The parts depend on the shape only, so results
 * are reproducible. */
#include "gpu.h"
#include "channels.cu"

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, cr_dtype dt) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_channels, name, "#define T %s\n#define A %s\n", cr_cuda_type(dt),
                             cr_cuda_wide(dt));
}

/* A whole block for a part where its elements lie side by side, else 8 threads, with 32 channels side by side. */
typedef struct division { int64_t width, rows, length, across, parts, blocks; } division;
static division division_of(const cr_array *x) {
    enum { BUSY = 1024, LEAST = 8, SHORT = 32 };    /* blocks that are enough for any GPU; elements of a thread at
                                                     * least; S up to which threads have neighbouring channels */
    const int64_t B = x->shape[0], C = x->shape[1], S = x->shape[2];
    division d = {.width = S < SHORT ? 8 : CUDA_GROUP};
    const int64_t columns = cuda_pieces(C, CUDA_GROUP / d.width),
                  parts = cr_iclamp(BUSY / columns, 1, cr_imax(B * S / (LEAST * d.width), 1));
    d.across = cr_iclamp(cuda_pieces(parts, B), 1, cr_imax(S / SHORT, 1));
    d.length = cuda_pieces(S, d.across);
    d.across = cuda_pieces(S, d.length);
    d.rows = cuda_pieces(B, cr_imin(cuda_pieces(parts, d.across), B));
    d.parts = cuda_pieces(B, d.rows) * d.across;
    d.blocks = d.parts * columns;
    return d;
}

/* A kernel over the parts of x, into a new block (parts, C, 2); NULL: an error. */
static cuda_block *sum_parts(cuda *g, const char *op, const char *name, const division *d, const cr_array *x,
                             const cr_channel_norm_bwd_args *bwd) {
    const cr_dtype acc = x->dtype == CR_F64 ? CR_F64 : CR_F32;
    /* and one more for the sum of all */
    cuda_block *sums = cr_cuda_block_take(g, op, (size_t)(2 * (d->parts + 1) * x->shape[1]) * cr_dtype_size(acc));
    if (!sums) return NULL;
    const channel_sums_arguments q = {.sums = sums->at,
                                      .x = cuda_address_of(x),
                                      .g = bwd ? cuda_address_of(&bwd->g) : 0,
                                      .mean = bwd ? cuda_address_of(&bwd->mean) : 0,
                                      .var = bwd ? cuda_address_of(&bwd->var) : 0,
                                      .B = x->shape[0],
                                      .C = x->shape[1],
                                      .S = x->shape[2],
                                      .rows = d->rows,
                                      .length = d->length,
                                      .across = d->across,
                                      .width = d->width,
                                      .eps = bwd ? bwd->eps : 0};
    if (cr_cuda_launch(g, op, kernel_of(g, op, name, x->dtype), &q, d->blocks) == CR_OK) return sums;
    cr_cuda_block_give(g, sums);
    return NULL;
}

static cr_status join_parts(cuda *g, const char *op, const char *name, const division *d, const cr_array *x,
                      cuda_address sums, const cr_array *y0, const cr_array *y1, cuda_address all) {
    const channel_join_arguments q = {.sums = sums,
                                      .y0 = cuda_address_of(y0),
                                      .y1 = cuda_address_of(y1),
                                      .all = all,
                                      .B = x->shape[0],
                                      .C = x->shape[1],
                                      .S = x->shape[2],
                                      .rows = d->rows,
                                      .length = d->length,
                                      .across = d->across,
                                      .parts = d->parts};
    return cr_cuda_launch(g, op, kernel_of(g, op, name, x->dtype), &q, cuda_pieces(q.C, CUDA_GROUP));
}

static cr_status each_element(cuda *g, const char *op, const cr_array *x, channel_norm_arguments q) {
    const int64_t packs = cuda_pieces(x->numel, 16 / (int64_t)cr_dtype_size(x->dtype));
    q.x = cuda_address_of(x);
    q.numel = x->numel, q.C = x->shape[1], q.S = x->shape[2];
    q.count = (double)(x->shape[0] * x->shape[2]);
    return cr_cuda_launch(g, op, kernel_of(g, op, "channel_norm", x->dtype), &q, cr_cuda_blocks(g, packs));
}

cr_status cr_cuda_channel_norm(const cr_channel_norm_args *args) {
    static const char op[] = "batch_norm";
    const cr_array *x = &args->x;
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const division d = division_of(x);
    cuda_block *sums = sum_parts(g, op, "channel_moments", &d, x, NULL);
    if (!sums) return cr_cuda_leave(g, cr_error_status());
    cr_status status = join_parts(g, op, "channel_statistics", &d, x, sums->at, &args->mean, &args->var, 0);
    if (status == CR_OK)
        status = each_element(g, op, x,
                              (channel_norm_arguments){.y = cuda_address_of(&args->y),
                                                       .mean = cuda_address_of(&args->mean),
                                                       .var = cuda_address_of(&args->var),
                                                       .w = cuda_address_of(cr_present(&args->w)),
                                                       .b = cuda_address_of(cr_present(&args->b)),
                                                       .eps = args->eps});
    cr_cuda_block_give(g, sums);
    return cr_cuda_leave(g, status);
}

cr_status cr_cuda_channel_norm_bwd(const cr_channel_norm_bwd_args *args) {
    static const char op[] = "batch_norm_bwd";
    const cr_array *x = &args->x, *dx = cr_present(&args->dx);
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const division d = division_of(x);
    cuda_block *sums = sum_parts(g, op, "channel_products", &d, x, args);
    if (!sums) return cr_cuda_leave(g, cr_error_status());
    const size_t bytes = (size_t)(2 * d.parts * x->shape[1]) * cr_dtype_size(args->mean.dtype);
    cr_status status = join_parts(g, op, "channel_join", &d, x, sums->at, cr_present(&args->db), cr_present(&args->dw),
                            sums->at + bytes);
    if (status == CR_OK && dx)
        status = each_element(g, op, x,
                              (channel_norm_arguments){.y = cuda_address_of(dx),
                                                       .g = cuda_address_of(&args->g),
                                                       .mean = cuda_address_of(&args->mean),
                                                       .var = cuda_address_of(&args->var),
                                                       .w = cuda_address_of(cr_present(&args->w)),
                                                       .sums = sums->at + bytes,
                                                       .eps = args->eps});
    cr_cuda_block_give(g, sums);
    return cr_cuda_leave(g, status);
}
