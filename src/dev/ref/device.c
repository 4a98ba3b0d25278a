/* device.c - the device `ref`: plain memory, copies and fills, and the table of its kernels. */
#include <stdlib.h>
#include <string.h>
#include "ref.h"
#include "../../core/os.h"

static atomic_llong bytes_now, bytes_peak;

static void count(int64_t change) {
    long long now = atomic_fetch_add(&bytes_now, change) + change, peak = atomic_load(&bytes_peak);
    while (now > peak && !atomic_compare_exchange_weak(&bytes_peak, &peak, now)) { }
}

static void give_back(cr_storage *s) { cr_os_aligned_free(s->data); count(-(int64_t)s->bytes); }

static cr_status no_memory(size_t bytes) {
    return cr_fail(CR_NO_MEMORY, "ref", "out of memory: asked for %zu bytes", bytes);
}

static cr_storage *allocate(const cr_device *d, size_t bytes) {
    if (bytes > (size_t)INT64_MAX - 64) return no_memory(bytes), NULL;
    /* at least one byte: an empty tensor has an address too */
    void *data = cr_os_aligned(64, bytes + 1);
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

cr_status cr_ref_copy(const cr_copy_args *args) {
    const cr_array *dst = &args->dst, *src = &args->src;
    EACH(i, dst->numel)
        cr_convert(address(dst, offset_of(i, dst->ndim, dst->shape, dst->strides)), dst->dtype,
                   address(src, offset_of(i, src->ndim, src->shape, src->strides)), src->dtype);
    return CR_OK;
}

cr_status cr_ref_fill(const cr_fill_args *args) {
    const cr_array *dst = &args->dst;
    EACH(i, dst->numel)
        memcpy(address(dst, offset_of(i, dst->ndim, dst->shape, dst->strides)), args->value, cr_dtype_size(dst->dtype));
    return CR_OK;
}

static const char *info(const cr_device *d) { (void)d; return "plain loops in double, one thread"; }

static cr_memory memory(const cr_device *d) {
    (void)d;
    return (cr_memory){.current = atomic_load(&bytes_now), .peak = atomic_load(&bytes_peak)};
}

static void reset_peak(const cr_device *d) { (void)d; atomic_store(&bytes_peak, atomic_load(&bytes_now)); }
static void empty_cache(const cr_device *d) { (void)d; }

#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##ref(CR_WATCHED(cr_ref_, name))
#include "../kernels.def"
static const cr_kernels kernels = {
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##ref(CR_ENTRY(name))
#include "../kernels.def"
};

const cr_device cr_device_ref = {
    .name = "ref",
    .type = "ref",
    .kernels = &kernels,
    .allocate = allocate,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .info = info,
    .memory = memory,
    .reset_peak = reset_peak,
    .empty_cache = empty_cache,
    .host = true,
};
