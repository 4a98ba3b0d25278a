/* rows.c - softmax, normalisation and cross-entropy over rows, x (M, N): as many threads share a row as it is long (rows.cu). */
#include "reduce.h"

static const cuda_kernel *kernel_of(cuda *g, const char *op, const char *name, const cr_array *x) {
    return cr_cuda_kernel_of(g, op, cr_cuda_source_rows, name, "#define T %s\n#define A %s\n", cr_cuda_type(x->dtype), cr_cuda_wide(x->dtype));
}

/* Threads that share a row: as few as keep it, 16 elements each (rows.cu), of which the first and the last reading may lie partly outside. */
static int64_t width_of(int64_t N) {
    int64_t width = 1;
    while (width < CUDA_GROUP && 16 * width < (N % 8 ? N + 7 : N)) width *= 2;
    return width;
}

/* M rows of N, of which `width` threads share one; q: its parameters.  Leaves. */
static cr_status run(cuda *g, const char *op, const char *name, const cr_array *x, cuda_words *q, int64_t M, int64_t width) {
    const cuda_kernel *k = kernel_of(g, op, name, x);
    return cr_cuda_leave(g, k ? cr_cuda_launch(g, op, k, q, (M * width + CUDA_GROUP - 1) / CUDA_GROUP) : cr_error_status());
}

cr_status cr_cuda_softmax(const cr_softmax_args *args) {
    const cr_array *y = &args->y, *x = &args->x;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const bool log = args->log;
    const char *op = log ? "log_softmax" : "softmax";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const int64_t width = width_of(N);
    cuda_words q = {.n = 6, .w = {cuda_address_of(y), cuda_address_of(x), (uint64_t)M, (uint64_t)N, (uint64_t)width, log}};
    return run(g, op, "softmax", x, &q, M, width);
}

cr_status cr_cuda_softmax_bwd(const cr_softmax_bwd_args *args) {
    const cr_array *dx = &args->dx, *y = &args->y, *g_ = &args->g;
    const int64_t M = args->y.shape[0], N = args->y.shape[1];
    const bool log = args->log;
    const char *op = log ? "log_softmax_bwd" : "softmax_bwd";
    cuda *g = cr_cuda_enter(op, y->dev);
    if (!g) return cr_error_status();
    const int64_t width = width_of(N);
    cuda_words q = {.n = 7, .w = {cuda_address_of(dx), cuda_address_of(y), cuda_address_of(g_), (uint64_t)M, (uint64_t)N, (uint64_t)width, log}};
    return run(g, op, "softmax_bwd", y, &q, M, width);
}

cr_status cr_cuda_norm(const cr_norm_args *args) {
    const cr_array *y = &args->y, *mean = cr_present(&args->mean), *rstd = &args->rstd, *x = &args->x,
        *w = cr_present(&args->w), *b = cr_present(&args->b);
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const double eps = args->eps;
    const char *op = mean ? "layer_norm" : "rms_norm";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const int64_t width = width_of(N);
    cuda_words q = {.n = 9, .w = {cuda_address_of(y), cuda_address_of(mean), cuda_address_of(rstd), cuda_address_of(x), cuda_address_of(w), cuda_address_of(b), (uint64_t)M, (uint64_t)N,
                                  (uint64_t)width}};
    cuda_push_f64(&q, eps);
    return run(g, op, "layer_norm", x, &q, M, width);
}

/* dx, and dw and db: sums over parts of the rows, then over the parts. */
typedef struct norm_grads { const char *op; const cr_array *dx, *dw, *db; const cr_array *x, *w, *mean, *rstd, *g; int64_t M, N, width, chunk; } norm_grads;
static cr_status norm_bwd(cuda *g, const norm_grads *s) {
    enum { EACH = 4, MOST = 255 };                  /* turns of a block, at least; blocks with sums: so many parts are added up in one launch */
    const int64_t rows = CUDA_GROUP / s->width, turns = (s->M + rows - 1) / rows;
    int64_t chunks = 1, parts = turns;
    cuda_address at[2] = {0, 0};
    cuda_block *sums = NULL;
    const cr_dtype acc = s->rstd->dtype;
    if (s->dw || s->db) {
        chunks = (s->N + s->chunk - 1) / s->chunk;
        parts = turns / EACH < MOST / chunks ? turns / EACH : MOST / chunks;
        if (parts < 1) parts = 1;
        const size_t bytes = (size_t)(parts * s->N) * cr_dtype_size(acc);
        if (!(sums = cr_cuda_block_take(g, s->op, 2 * bytes))) return cr_error_status();
        if (s->dw) at[0] = sums->at;
        if (s->db) at[1] = sums->at + bytes;
    }
    const cuda_kernel *k = kernel_of(g, s->op, "layer_norm_bwd", s->x);
    cuda_words q = {.n = 13, .w = {cuda_address_of(s->dx), at[0], at[1], cuda_address_of(s->x), cuda_address_of(s->w), cuda_address_of(s->mean), cuda_address_of(s->rstd), cuda_address_of(s->g),
                                   (uint64_t)s->M, (uint64_t)s->N, (uint64_t)s->width, (uint64_t)((turns + parts - 1) / parts * rows), (uint64_t)chunks}};
    cr_status status = k ? cr_cuda_launch(g, s->op, k, &q, parts * chunks) : cr_error_status();
    const cr_array *const of[2] = {s->dw, s->db};
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        if (!of[i]) continue;
        const cuda_reduction r = {.op = s->op, .how = {.kind = CR_REDUCE_SUM}, .from = acc, .acc = acc, .to = of[i]->dtype, .at = {1, parts, s->N, {0, s->N, 1}}, .x = at[i]};
        status = cr_cuda_reduce_slab(g, &r, cuda_address_of(of[i]));
    }
    if (sums) cr_cuda_block_give(g, sums);
    return status;
}

cr_status cr_cuda_norm_bwd(const cr_norm_bwd_args *args) {
    const cr_array *dx = cr_present(&args->dx), *dw = cr_present(&args->dw), *db = cr_present(&args->db),
        *x = &args->x, *w = cr_present(&args->w), *mean = cr_present(&args->mean), *rstd = &args->rstd,
        *g_ = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1];
    const char *op = mean ? "layer_norm_bwd" : "rms_norm_bwd";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const int64_t width = width_of(N), chunk = width * (x->dtype == CR_F64 ? 8 : 16);      /* columns that a block has in registers */
    norm_grads s = {op, dx, dw, db, x, w, mean, rstd, g_, M, N, width, chunk};
    if (N <= chunk || !dx || !(dw || db)) return cr_cuda_leave(g, norm_bwd(g, &s));
    s.dx = NULL;
    cr_status status = norm_bwd(g, &s);
    s.dx = dx, s.dw = s.db = NULL;
    return cr_cuda_leave(g, status == CR_OK ? norm_bwd(g, &s) : status);
}

cr_status cr_cuda_cross_entropy(const cr_cross_entropy_args *args) {
    const cr_array *loss = &args->loss, *lse = &args->lse, *x = &args->x, *target = &args->target;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    static const char op[] = "cross_entropy";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const int64_t width = width_of(N);
    const cuda_address fault = cr_cuda_fault_new(g, op, N);
    if (!fault) return cr_cuda_leave(g, cr_error_status());
    cuda_words q = {.n = 10, .w = {cuda_address_of(loss), cuda_address_of(lse), cuda_address_of(x), cuda_address_of(target), fault, (uint64_t)M, (uint64_t)N, (uint64_t)width,
                                   target->dtype == CR_I64, (uint64_t)ignore}};
    cuda_push_f64(&q, smoothing);
    return run(g, op, "cross_entropy", x, &q, M, width);
}

cr_status cr_cuda_cross_entropy_bwd(const cr_cross_entropy_bwd_args *args) {
    const cr_array *dx = &args->dx, *x = &args->x, *target = &args->target, *lse = &args->lse, *g_ = &args->g;
    const int64_t M = args->x.shape[0], N = args->x.shape[1], ignore = args->ignore;
    const double smoothing = args->smoothing;
    static const char op[] = "cross_entropy_bwd";
    cuda *g = cr_cuda_enter(op, x->dev);
    if (!g) return cr_error_status();
    const int64_t width = width_of(N);
    cuda_words q = {.n = 11, .w = {cuda_address_of(dx), cuda_address_of(x), cuda_address_of(target), cuda_address_of(lse), cuda_address_of(g_), (uint64_t)M, (uint64_t)N, (uint64_t)width,
                                   target->dtype == CR_I64, (uint64_t)ignore, g_->numel != 1}};
    cuda_push_f64(&q, smoothing);
    return run(g, op, op, x, &q, M, width);
}
