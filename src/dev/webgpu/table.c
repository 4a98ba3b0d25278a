/* table.c - the kernels of a GPU behind WebGPU, and one answer for those that it has not yet. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    gpu *g = gpu_enter("synchronize", d);
    return g ? gpu_leave(g, gpu_wait(g, "synchronize")) : cr_error_status();
}

/* ---- not yet */
static cr_status no_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N) {
    (void)kind; (void)reverse; (void)x; (void)a; (void)M; (void)R; (void)N;
    return gpu_cannot("scan", y->dev, "");
}
static cr_status no_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K) {
    (void)x; (void)index; (void)M; (void)R; (void)N; (void)K;
    return gpu_cannot("gather", y->dev, "");
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
    (void)starts; (void)count; (void)x; (void)order; (void)R; (void)C;
    return gpu_cannot("runs", run->dev, "");
}
static cr_status no_scatter(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool sum, int64_t M, int64_t R, int64_t N, int64_t K) {
    (void)index; (void)src; (void)sum; (void)M; (void)R; (void)N; (void)K;
    return gpu_cannot("scatter", y->dev, "");
}
static cr_status no_take_rows(const char *op, cr_tensor *y, const cr_tensor *x, const cr_tensor *index, bool wrap) {
    (void)x; (void)index; (void)wrap;
    return gpu_cannot(op, y->dev, "");
}
static cr_status no_put_rows(const char *op, cr_tensor *x, const cr_tensor *index, const cr_tensor *src, bool sum, bool wrap) {
    (void)index; (void)src; (void)sum; (void)wrap;
    return gpu_cannot(op, x->dev, "");
}
static cr_status no_ravel(const char *op, cr_tensor *y, int n, const cr_tensor *const *index, const int64_t *sizes) {
    (void)n; (void)index; (void)sizes;
    return gpu_cannot(op, y->dev, "");
}
static cr_status no_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count) {
    (void)y; (void)count;
    return gpu_cannot("nonzero", x->dev, "");
}
static cr_status no_random_integers(cr_tensor *y, int64_t low, uint64_t span, uint64_t seed, uint64_t counter) {
    (void)low; (void)span; (void)seed; (void)counter;
    return gpu_cannot("random_integers", y->dev, "");
}
static cr_status no_permutation(cr_tensor *y, uint64_t seed, uint64_t counter) {
    (void)seed; (void)counter;
    return gpu_cannot("permutation", y->dev, "");
}
static cr_status no_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter) {
    (void)w; (void)M; (void)N; (void)S; (void)replacement; (void)seed; (void)counter;
    return gpu_cannot("multinomial", y->dev, "");
}
static cr_status no_random(cr_random_kind kind, cr_tensor *y, uint64_t seed, uint64_t counter) {
    (void)kind; (void)seed; (void)counter;
    return gpu_cannot("random", y->dev, "");
}
static cr_status no_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, const cr_slab *at) {
    (void)x; (void)at;
    return gpu_cannot(max ? "argmax" : "argmin", y->dev, "");
}

const cr_kernels gpu_kernels = {
    .allocate = gpu_allocate, .upload = gpu_upload, .download = gpu_download, .synchronize = synchronize, .copy = gpu_copy, .fill = gpu_fill,
    .elementwise = gpu_elementwise, .reduce = gpu_reduce, .arg_reduce = no_arg_reduce, .matmul = gpu_matmul,
    .scan = no_scan, .gather = no_gather, .scatter = no_scatter, .take_rows = no_take_rows, .put_rows = no_put_rows, .ravel = no_ravel,
    .nonzero = no_nonzero, .sort = no_sort, .kth = no_kth, .search = no_search, .runs = no_runs, .random = no_random,
    .random_integers = no_random_integers, .permutation = no_permutation, .multinomial = no_multinomial,
};
