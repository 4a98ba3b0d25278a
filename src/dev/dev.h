/* dev.h - what a device must do: give and move memory (here), and run kernels (kernels.h). */
#ifndef CR_DEV_H
#define CR_DEV_H

#include "../core/interrupt.h"
#include "kernels.h"

struct cr_device {
    const char *name;                               /* "cpu", "ref", "cuda:0" */
    const char *type; int index;
    const cr_kernels *kernels;
    cr_storage *(*allocate)(const cr_device *d, size_t bytes);      /* 64-byte aligned, uninitialised; NULL and a message */
    cr_storage *(*allocate_host)(const cr_device *d, size_t bytes); /* the same in the host's memory, where kernels of this device reach it, slowly; NULL: they do not */
    cr_status (*upload)(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
    cr_status (*download)(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
    cr_status (*synchronize)(const cr_device *d);
    const char *(*info)(const cr_device *d);
    cr_memory (*memory)(const cr_device *d);
    void (*empty_cache)(const cr_device *d);
    bool host;                                      /* storage->data is an address that this process can read */
    bool software;                                  /* a GPU that the processor plays: "auto" passes it by */
};

/* dst = src as one walk of the program y = x, axes that both step over as over one merged; src NULL: dst = value, one element of dst's dtype (move.c) */
cr_walk cr_walk_of_copy(const cr_array *dst, const cr_array *src, const void *value);
static inline cr_dtype cr_moved_as(cr_dtype dt) { return cr_dtype_bits(dt); }

/* ---- registry.c */
extern const cr_device cr_device_cpu, cr_device_ref;
int64_t cr_gpu_budget(const char *op, int64_t otherwise);      /* bytes that a GPU may reserve: CHAINRULE_GPU_MEMORY's; 0: that is no number of MiB */
const cr_device *cr_cuda_at(int i);                 /* the i-th NVIDIA GPU, NULL past the end (cuda/gpu.c, where that folder is there) */
const char      *cr_cuda_problem(void);             /* why there is none */
const cr_device *cr_webgpu_at(int i);               /* the i-th GPU behind WebGPU, NULL past the end (webgpu/gpu.c, where the library is built with it) */
const char      *cr_webgpu_problem(void);           /* why there is none */

#endif
