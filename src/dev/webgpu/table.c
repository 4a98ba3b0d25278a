/* table.c - the kernels of a GPU behind WebGPU. */
#include "gpu.h"

cr_status cr_gpu_synchronize(const cr_device *d) {
    gpu *g = cr_gpu_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cr_gpu_wait(g, "synchronize");
    return cr_gpu_leave(g, status == CR_OK ? cr_gpu_faults_check(g, "synchronize") : status);
}

#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##webgpu(CR_WATCHED(cr_gpu_, name))
#include "../kernels.def"
const cr_kernels cr_gpu_kernels = {
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##webgpu(CR_ENTRY(name))
#include "../kernels.def"
    .attention_takes = cr_gpu_attention_takes,
    .can_fuse = true,
    .fuse_behind_barrier = true,
    .chain_buffers = GPU_LEAST_BUFFERS,
    .f32_only = true,
};
