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
    .elementwise = ref_elementwise, .reduce = ref_reduce, .arg_reduce = ref_arg_reduce, .scan = ref_scan, .matmul = ref_matmul,
    .gather = ref_gather, .scatter = ref_scatter, .take_rows = ref_take_rows, .put_rows = ref_put_rows, .ravel = ref_ravel, .nonzero = ref_nonzero,
    .sort = ref_sort, .kth = ref_kth, .search = ref_search, .runs = ref_runs, .random = ref_random,
    .random_integers = ref_random_integers, .permutation = ref_permutation, .multinomial = ref_multinomial, .triangle = ref_triangle,
    .softmax = ref_softmax, .softmax_bwd = ref_softmax_bwd, .norm = ref_norm, .norm_bwd = ref_norm_bwd,
    .cross_entropy = ref_cross_entropy, .cross_entropy_bwd = ref_cross_entropy_bwd,
    .attention = ref_attention, .attention_bwd = ref_attention_bwd,
};

const cr_device cr_device_ref = {
    .name = "ref", .type = "ref", .kernels = &kernels, .info = info, .memory = memory, .empty_cache = empty_cache, .host = true,
};
