/* device.c - the device `ref`: plain memory, copies and fills, and the table of its kernels. */
#include <stdlib.h>
#include <string.h>
#include "ref.h"

static atomic_llong bytes_now, bytes_peak;

static void count(int64_t change) {
    long long now = atomic_fetch_add(&bytes_now, change) + change, peak = atomic_load(&bytes_peak);
    while (now > peak && !atomic_compare_exchange_weak(&bytes_peak, &peak, now)) { }
}

static void give_back(cr_storage *s) { free(s->data); count(-(int64_t)s->bytes); }

static cr_status no_memory(size_t bytes) { return cr_fail(CR_NO_MEMORY, "ref", "out of memory: asked for %zu bytes", bytes); }

static cr_storage *allocate(const cr_device *d, size_t bytes) {
    if (bytes > (size_t)INT64_MAX - 64) return no_memory(bytes), NULL;
    void *data = aligned_alloc(64, bytes / 64 * 64 + 64);              /* at least one byte: an empty tensor has an address too */
    if (!data) return no_memory(bytes), NULL;
    count((int64_t)bytes);
    return cr_storage_new(data, bytes, d, give_back);
}

static cr_status upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    (void)d;
    if (bytes) memcpy((char *)dst->data + at, src, bytes);
    return CR_OK;
}

static cr_status download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes) {
    (void)d;
    if (bytes) memcpy(dst, (const char *)src->data + at, bytes);
    return CR_OK;
}

static cr_status synchronize(const cr_device *d) { (void)d; return CR_OK; }

static cr_status copy(cr_tensor *dst, const cr_tensor *src) {
    EACH(i, dst->numel)
        cr_convert(address(dst, place(i, dst->ndim, dst->shape, dst->strides)), (cr_dtype)dst->dtype,
                   address(src, place(i, src->ndim, src->shape, src->strides)), (cr_dtype)src->dtype);
    return CR_OK;
}

static cr_status fill(cr_tensor *dst, const void *value) {
    EACH(i, dst->numel)
        memcpy(address(dst, place(i, dst->ndim, dst->shape, dst->strides)), value, cr_dtype_size((cr_dtype)dst->dtype));
    return CR_OK;
}

static const char *info(const cr_device *d) { (void)d; return "plain loops in double, one thread"; }

static cr_memory memory(const cr_device *d) {
    (void)d;
    return (cr_memory){.current = atomic_load(&bytes_now), .peak = atomic_load(&bytes_peak)};
}

static void empty_cache(const cr_device *d) { (void)d; }

static const cr_kernels kernels = {
    .allocate = allocate, .upload = upload, .download = download, .synchronize = synchronize, .copy = copy, .fill = fill,
    .elementwise = cr_ref_elementwise, .reduce = cr_ref_reduce, .arg_reduce = cr_ref_arg_reduce, .scan = cr_ref_scan, .matmul = cr_ref_matmul,
    .gather = cr_ref_gather, .scatter = cr_ref_scatter, .take_rows = cr_ref_take_rows, .put_rows = cr_ref_put_rows, .ravel = cr_ref_ravel, .nonzero = cr_ref_nonzero,
    .sort = cr_ref_sort, .kth = cr_ref_kth, .search = cr_ref_search, .runs = cr_ref_runs, .random = cr_ref_random,
    .random_integers = cr_ref_random_integers, .permutation = cr_ref_permutation, .multinomial = cr_ref_multinomial, .triangle = cr_ref_triangle,
    .softmax = cr_ref_softmax, .softmax_bwd = cr_ref_softmax_bwd, .norm = cr_ref_norm, .norm_bwd = cr_ref_norm_bwd,
    .cross_entropy = cr_ref_cross_entropy, .cross_entropy_bwd = cr_ref_cross_entropy_bwd,
    .attention = cr_ref_attention, .attention_bwd = cr_ref_attention_bwd,
};

const cr_device cr_device_ref = {
    .name = "ref", .type = "ref", .kernels = &kernels, .info = info, .memory = memory, .empty_cache = empty_cache, .host = true,
};
