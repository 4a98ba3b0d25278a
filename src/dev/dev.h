/* dev.h - the interface of a device: memory and transfers (here), kernels (kernels.h). */
#ifndef CR_DEV_H
#define CR_DEV_H

#include "../core/interrupt.h"
#include "kernels.h"

struct cr_device {
    const char *name;                               /* "cpu", "ref", "cuda:0" */
    const char *type; int index;                    /* "cuda", 0 */
    const cr_kernels *kernels;
    /* 64-byte aligned, uninitialised; NULL and a message */
    cr_storage *(*allocate)(const cr_device *d, size_t bytes);
    /* host memory that kernels can access; NULL: none */
    cr_storage *(*allocate_host)(const cr_device *d, size_t bytes);
    cr_status (*upload)(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
    cr_status (*download)(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
    cr_status (*synchronize)(const cr_device *d);
    const char *(*info)(const cr_device *d);
    cr_memory (*memory)(const cr_device *d);
    void (*reset_peak)(const cr_device *d);
    void (*empty_cache)(const cr_device *d);
    cr_status (*trace_end)(const cr_device *d);     /* of a GPU that joined a trace (trace.h): adds its spans */
    int row_bytes;                                  /* products are fastest where rows begin at multiples of so many
                                                     * bytes; 0: anywhere */
    bool host;                                      /* storage->data is an address that this process can read */
    bool software;                                  /* a GPU simulated by the processor: "auto" skips it */
};

/* Bytes from the host and to it, as an op asks for them: a recording watches both.  op: for messages. */
static inline cr_status cr_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    const cr_watch *watch = cr_watching();
    return watch ? watch->upload(d, dst, at, src, bytes) : d->upload(d, dst, at, src, bytes);
}
static inline cr_status cr_download(const char *op, const cr_device *d, void *dst, cr_storage *src, size_t at,
                                    size_t bytes) {
    const cr_watch *watch = cr_watching();
    const cr_status status = watch ? watch->download(op, src) : CR_OK;
    return status == CR_OK ? d->download(d, dst, src, at, bytes) : status;
}

/* The walk that copies and casts src to dst (program y = x), with axes merged.  src NULL: fills dst
 * with value, one element of dst's dtype.  (move.c) */
cr_walk cr_walk_of_copy(const cr_array *dst, const cr_array *src, const void *value);

/* The steps of a recurrent layer for sequences first .. end - 1, by these kernels for products, programs and copies.
 * (recurrent.c) */
cr_status cr_recurrent_part(const cr_recurrent_args *args, const cr_kernels *kernels, int64_t first, int64_t end);
cr_status cr_recurrent_bwd_part(const cr_recurrent_bwd_args *args, const cr_kernels *kernels, int64_t first,
                                int64_t end);
/* A program over matrices of one shape: its results, then its inputs. */
cr_status cr_run_matrices(const cr_kernels *kernels, const cr_program *p, const cr_array *x);

/* ---- registry.c.  Functions of devices that a build lacks do not exist in it. */
extern const cr_device cr_device_cpu, cr_device_ref;
/* Bytes that a GPU may reserve: CHAINRULE_GPU_MEMORY, or `otherwise` if that is not set.  0: it is not
 * a number of MiB. */
int64_t cr_gpu_budget(const char *op, int64_t otherwise);
const cr_device *cr_cuda_at(int i);                 /* the i-th NVIDIA GPU, NULL past the end; cuda/gpu.c */
const char      *cr_cuda_problem(void);             /* why there is no GPU */
const cr_device *cr_webgpu_at(int i);               /* the i-th WebGPU adapter, NULL past the end; webgpu/gpu.c */
const char      *cr_webgpu_problem(void);

#endif
