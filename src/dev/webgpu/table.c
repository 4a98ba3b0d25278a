/* table.c - the kernels of a GPU behind WebGPU, and one answer for those that it has not yet. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    gpu *g = gpu_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = gpu_wait(g, "synchronize");
    return gpu_leave(g, status == CR_OK ? gpu_faults_check(g, "synchronize") : status);
}

/* ---- not yet */
static cr_status no_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N) {
    (void)kind; (void)reverse; (void)y; (void)index; (void)a; (void)M; (void)R; (void)N;
    return gpu_cannot("scan", x->dev, "");
}
static cr_status no_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending) {
    (void)index; (void)x; (void)M; (void)R; (void)K; (void)descending;
    return gpu_cannot("sort", y->dev, "");
}
static cr_status no_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k) {
    (void)index; (void)x; (void)M; (void)R; (void)k;
    return gpu_cannot("kth", y->dev, "");
}
static cr_status no_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right) {
    (void)x; (void)v; (void)M; (void)R; (void)K; (void)shared; (void)right;
    return gpu_cannot("search", y->dev, "");
}
static cr_status no_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C) {
    (void)run; (void)starts; (void)count; (void)order; (void)R; (void)C;
    return gpu_cannot("runs", x->dev, "");
}
static cr_status no_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count) {
    (void)y; (void)count;
    return gpu_cannot("nonzero", x->dev, "");
}
static cr_status no_permutation(cr_tensor *y, uint64_t seed, uint64_t counter) {
    (void)seed; (void)counter;
    return gpu_cannot("permutation", y->dev, "");
}
static cr_status no_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter) {
    (void)w; (void)M; (void)N; (void)S; (void)replacement; (void)seed; (void)counter;
    return gpu_cannot("multinomial", y->dev, "");
}

const cr_kernels gpu_kernels = {
    .allocate = gpu_allocate, .upload = gpu_upload, .download = gpu_download, .synchronize = synchronize, .copy = gpu_copy, .fill = gpu_fill,
    .elementwise = gpu_elementwise, .reduce = gpu_reduce, .arg_reduce = gpu_arg_reduce, .matmul = gpu_matmul,
    .scan = no_scan, .gather = gpu_gather, .scatter = gpu_scatter, .take_rows = gpu_take_rows, .put_rows = gpu_put_rows, .ravel = gpu_ravel,
    .nonzero = no_nonzero, .sort = no_sort, .kth = no_kth, .search = no_search, .runs = no_runs, .random = gpu_random,
    .random_integers = gpu_random_integers, .permutation = no_permutation, .multinomial = no_multinomial,
    .softmax = gpu_softmax, .softmax_bwd = gpu_softmax_bwd, .norm = gpu_norm, .norm_bwd = gpu_norm_bwd, .cross_entropy = gpu_cross_entropy, .cross_entropy_bwd = gpu_cross_entropy_bwd,
    .attention = gpu_attention, .attention_bwd = gpu_attention_bwd, .attention_takes = gpu_attention_takes,
};
