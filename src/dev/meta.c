/* meta.c - the device `meta`: tensors with a dtype and a shape, and no elements.  A storage has a size and no memory,
 * the kernels do nothing, and whatever asks for a value fails.  Its memory is what tensors would hold on a device with
 * elements: a step on meta tells what one needs. */
#include "meta.h"

#include <stdatomic.h>

/* An address for storages, with the alignment of any dtype.  Nothing reads or writes there. */
static _Alignas(64) char nowhere[64];

static cr_status no_data(void) {
    return cr_fail(CR_RUNTIME, "meta", "no data: the tensor has a shape and no elements (Module.to_empty and "
                   "load_state_dict(assign=True) give a module its own)");
}

static _Atomic int64_t current, peak;               /* bytes */

static void give_back(cr_storage *s) { atomic_fetch_sub(&current, (int64_t)s->bytes); }

static cr_storage *allocate(const cr_device *d, size_t bytes) {
    const int64_t now = atomic_fetch_add(&current, (int64_t)bytes) + (int64_t)bytes;
    int64_t most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) { }
    return cr_storage_new(nowhere, bytes, d, give_back);
}

static cr_status upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    (void)d; (void)dst; (void)at; (void)src; (void)bytes;
    return CR_OK;
}

static cr_status download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes) {
    (void)d; (void)dst; (void)src; (void)at; (void)bytes;
    return no_data();
}

static cr_status synchronize(const cr_device *d) { (void)d; return CR_OK; }
static const char *info(const cr_device *d) { (void)d; return "shapes and dtypes, no elements"; }
static cr_memory memory(const cr_device *d) {
    (void)d;
    return (cr_memory){.current = atomic_load(&current), .peak = atomic_load(&peak)};
}
static void reset_peak(const cr_device *d) { (void)d; atomic_store(&peak, atomic_load(&current)); }
static void nothing(const cr_device *d) { (void)d; }

/* Every kernel: nothing, but for what two of them tell the host. */
static cr_status skip_kernel(int kernel, const void *args) {
    if (kernel == CR_KERNEL_nonzero) return no_data();
    if (kernel == CR_KERNEL_linear_packed) cr_note_done(((const cr_linear_packed_args *)args)->done, true);
    return CR_OK;
}

/* meta has the kernels that the cpu has. */
#define KERNEL(name, cpu, ref, cuda, webgpu, ...)                                                                    \
    CR_IF_##cpu(static cr_status meta_##name(const cr_##name##_args *args) {                                         \
                    return skip_kernel(CR_KERNEL_##name, args);                                                      \
                }                                                                                                    \
                CR_WATCHED(meta_, name))
#include "kernels.def"

static const cr_kernels kernels = {
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cpu(CR_ENTRY(name))
#include "kernels.def"
};

const cr_device cr_device_meta = {
    .name = "meta",
    .type = "meta",
    .kernels = &kernels,
    .allocate = allocate,
    .upload = upload,
    .download = download,
    .synchronize = synchronize,
    .info = info,
    .memory = memory,
    .reset_peak = reset_peak,
    .empty_cache = nothing,
};
