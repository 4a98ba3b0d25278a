/* table.c - the kernels of an NVIDIA GPU, and one answer for those that it has not yet. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    cuda *g = cuda_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cuda_wait(g, "synchronize");
    return cuda_leave(g, status == CR_OK ? cuda_faults_check(g, "synchronize") : status);
}

/* ---- not yet */
static cr_status no_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N) {
    (void)kind; (void)reverse; (void)y; (void)index; (void)a; (void)M; (void)R; (void)N;
    return cuda_cannot("scan", x->dev, "");
}
static cr_status no_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending) {
    (void)index; (void)x; (void)M; (void)R; (void)K; (void)descending;
    return cuda_cannot("sort", y->dev, "");
}
static cr_status no_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k) {
    (void)index; (void)x; (void)M; (void)R; (void)k;
    return cuda_cannot("kth", y->dev, "");
}
static cr_status no_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right) {
    (void)x; (void)v; (void)M; (void)R; (void)K; (void)shared; (void)right;
    return cuda_cannot("search", y->dev, "");
}
static cr_status no_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C) {
    (void)run; (void)starts; (void)count; (void)order; (void)R; (void)C;
    return cuda_cannot("runs", x->dev, "");
}
static cr_status no_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count) {
    (void)y; (void)count;
    return cuda_cannot("nonzero", x->dev, "");
}
static cr_status no_permutation(cr_tensor *y, uint64_t seed, uint64_t counter) {
    (void)seed; (void)counter;
    return cuda_cannot("permutation", y->dev, "");
}
static cr_status no_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter) {
    (void)w; (void)M; (void)N; (void)S; (void)replacement; (void)seed; (void)counter;
    return cuda_cannot("multinomial", y->dev, "");
}

const cr_kernels cuda_kernels = {
    .allocate = cuda_allocate, .upload = cuda_upload, .download = cuda_download, .synchronize = synchronize, .copy = cuda_copy, .fill = cuda_fill,
    .elementwise = cuda_elementwise, .reduce = cuda_reduce, .arg_reduce = cuda_arg_reduce, .matmul = cuda_matmul,
    .scan = no_scan, .gather = cuda_gather, .scatter = cuda_scatter, .take_rows = cuda_take_rows, .put_rows = cuda_put_rows, .ravel = cuda_ravel,
    .nonzero = no_nonzero, .sort = no_sort, .kth = no_kth, .search = no_search, .runs = no_runs, .random = cuda_random,
    .random_integers = cuda_random_integers, .permutation = no_permutation, .multinomial = no_multinomial,
    .softmax = cuda_softmax, .softmax_bwd = cuda_softmax_bwd, .norm = cuda_norm, .norm_bwd = cuda_norm_bwd,
    .cross_entropy = cuda_cross_entropy, .cross_entropy_bwd = cuda_cross_entropy_bwd, .attention = cuda_attention, .attention_bwd = cuda_attention_bwd,
};
