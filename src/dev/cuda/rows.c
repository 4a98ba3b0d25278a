/* rows.c - softmax, normalisation and cross-entropy over rows, x (M, N): the longer a row, the more
 * threads share it (rows.cu). */
#include "reduce.h"
#include "rows.cu"

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, const cr_array *x) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_rows, name, "#define T %s\n#define A %s\n", cr_cuda_type(x->dtype),
                             cr_cuda_wide(x->dtype));
}

/* Threads that share a row: the fewest whose registers hold it, 16 elements each (rows.cu); the first
 * and the last pack may lie partly outside. */
static int64_t width_of(int64_t N) {
    int64_t width = 1;
    while (width < CUDA_GROUP && 16 * width < (N % 8 ? N + 7 : N)) width *= 2;
    return width;
}

/* Launches a kernel over the rows of x, and leaves. */
static cr_status launch_rows(cuda *g, const char *op, const char *name, const cr_array *x, const void *argument) {
    const int64_t threads = x->shape[0] * width_of(x->shape[1]);
    return cr_cuda_leave(g,
                         cr_cuda_launch(g, op, kernel_of(g, op, name, x), argument, cuda_pieces(threads, CUDA_GROUP)));
}

cr_status cr_cuda_softmax(const cr_softmax_args *args) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], N = x->shape[1];
    const char *op = args->log ? "log_softmax" : "softmax";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const softmax_arguments q = {.y = cuda_address_of(&args->y), .x = cuda_address_of(x),
                                 .M = M, .N = N, .width = width_of(N), .log = args->log};
    return launch_rows(g, op, "softmax", x, &q);
}

cr_status cr_cuda_softmax_bwd(const cr_softmax_bwd_args *args) {
    const cr_array *y = &args->y;
    const int64_t M = y->shape[0], N = y->shape[1];
    const char *op = args->log ? "log_softmax_bwd" : "softmax_bwd";
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const softmax_bwd_arguments q = {.dx = cuda_address_of(&args->dx),
                                     .y = cuda_address_of(y),
                                     .g = cuda_address_of(&args->g),
                                     .M = M,
                                     .N = N,
                                     .width = width_of(N),
                                     .log = args->log};
    return launch_rows(g, op, "softmax_bwd", y, &q);
}

cr_status cr_cuda_norm(const cr_norm_args *args) {
    const cr_array *x = &args->x, *mean = cr_present(&args->mean);
    const int64_t M = x->shape[0], N = x->shape[1];
    const char *op = mean ? "layer_norm" : "rms_norm";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const norm_arguments q = {
        .y = cuda_address_of(&args->y), .mean = cuda_address_of(mean), .rstd = cuda_address_of(&args->rstd),
        .x = cuda_address_of(x), .w = cuda_address_of(cr_present(&args->w)), .b = cuda_address_of(cr_present(&args->b)),
        .M = M, .N = N, .width = width_of(N), .eps = args->eps};
    return launch_rows(g, op, "layer_norm", x, &q);
}

/* How the rows of a normalisation's gradient are divided: dw and db are summed over parts of the rows
 * first, then over the parts. */
/* chunks of columns; parts, of so many rows each */
typedef struct division { int64_t chunks, parts, rows; } division;
static division division_of(const cr_array *x, int64_t chunk, bool sums) {
    enum { ROUNDS = 4, MOST = 255 };                /* rounds over its rows that a block makes at least; blocks with
                                                     * sums: as many parts are added up in one launch */
    const int64_t M = x->shape[0], N = x->shape[1], rows = CUDA_GROUP / width_of(N), rounds = cuda_pieces(M, rows);
    division d = {1, rounds, 0};
    if (sums) {
        d.chunks = cuda_pieces(N, chunk);
        d.parts = cr_imin(rounds / ROUNDS, MOST / d.chunks);
        if (d.parts < 1) d.parts = 1;
    }
    d.rows = cuda_pieces(rounds, d.parts) * rows;
    return d;
}

/* Any of dx, dw and db may be NULL. */
static cr_status norm_bwd(cuda *g, const char *op, const cr_norm_bwd_args *args, int64_t chunk, const cr_array *dx,
                          const cr_array *dw, const cr_array *db) {
    const cr_array *x = &args->x, *const grads[2] = {dw, db};
    const int64_t N = x->shape[1];
    const cr_dtype acc = args->rstd.dtype;
    const division d = division_of(x, chunk, dw || db);
    const size_t bytes = (size_t)(d.parts * N) * cr_dtype_size(acc);
    cuda_block *sums = dw || db ? cr_cuda_block_take(g, op, 2 * bytes) : NULL;
    if ((dw || db) && !sums) return cr_error_status();
    const cuda_address at[2] = {dw ? sums->at : 0, db ? sums->at + bytes : 0};
    const norm_bwd_arguments q = {.dx = cuda_address_of(dx),
                                  .dw = at[0],
                                  .db = at[1],
                                  .x = cuda_address_of(x),
                                  .w = cuda_address_of(cr_present(&args->w)),
                                  .mean = cuda_address_of(cr_present(&args->mean)),
                                  .rstd = cuda_address_of(&args->rstd),
                                  .g = cuda_address_of(&args->g),
                                  .M = x->shape[0],
                                  .N = N,
                                  .width = width_of(N),
                                  .rows = d.rows,
                                  .chunks = d.chunks,
                                  .add = args->add};
    cr_status status = cr_cuda_launch(g, op, kernel_of(g, op, "layer_norm_bwd", x), &q, d.parts * d.chunks);
    for (int i = 0; i < 2; i++) {
        if (status != CR_OK || !grads[i]) continue;
        const cuda_reduction r = {.op = op,
                                  .how = {.kind = CR_REDUCE_SUM},
                                  .from = acc,
                                  .acc = acc,
                                  .to = grads[i]->dtype,
                                  .at = {1, d.parts, N, {0, N, 1}},
                                  .x = at[i]};
        status = cr_cuda_reduce_slab(g, &r, cuda_address_of(grads[i]));
    }
    if (sums) cr_cuda_block_give(g, sums);
    return status;
}

cr_status cr_cuda_norm_bwd(const cr_norm_bwd_args *args) {
    const cr_array *x = &args->x, *dx = cr_present(&args->dx), *dw = cr_present(&args->dw), *db = cr_present(&args->db);
    const char *op = cr_present(&args->mean) ? "layer_norm_bwd" : "rms_norm_bwd";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    /* columns that a block's registers hold */
    const int64_t N = x->shape[1], chunk = width_of(N) * (x->dtype == CR_F64 ? 8 : 16);
    if (N <= chunk || !dx || !(dw || db)) return cr_cuda_leave(g, norm_bwd(g, op, args, chunk, dx, dw, db));
    const cr_status status = norm_bwd(g, op, args, chunk, NULL, dw, db);
    return cr_cuda_leave(g, status == CR_OK ? norm_bwd(g, op, args, chunk, dx, NULL, NULL) : status);
}

cr_status cr_cuda_cross_entropy(const cr_cross_entropy_args *args) {
    static const char op[] = "cross_entropy";
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], N = x->shape[1];
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const cuda_address fault = cr_cuda_fault_new(g, op, N);
    if (!fault) return cr_cuda_leave(g, cr_error_status());
    const cross_entropy_arguments q = {
        .loss = cuda_address_of(&args->loss), .lse = cuda_address_of(&args->lse), .x = cuda_address_of(x),
        .target = cuda_address_of(&args->target), .f = fault, .M = M, .N = N, .pitch = x->strides[0],
        .width = width_of(N), .wide_target = args->target.dtype == CR_I64, .ignore = args->ignore,
        .smoothing = args->smoothing};
    return launch_rows(g, op, op, x, &q);
}

cr_status cr_cuda_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    static const char op[] = "cross_entropy_bwd";
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], N = x->shape[1];
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const cross_entropy_bwd_arguments q = {.dx = cuda_address_of(&args->dx),
                                           .x = cuda_address_of(x),
                                           .target = cuda_address_of(&args->target),
                                           .lse = cuda_address_of(&args->lse),
                                           .g = cuda_address_of(&args->g),
                                           .M = M,
                                           .N = N,
                                           .pitch = x->strides[0],
                                           .width = width_of(N),
                                           .wide_target = args->target.dtype == CR_I64,
                                           .ignore = args->ignore,
                                           .g_step = args->g.numel != 1,
                                           .smoothing = args->smoothing};
    return launch_rows(g, op, op, x, &q);
}
