/* table.c - the kernels of a GPU behind WebGPU. */
#include "gpu.h"

cr_status cr_gpu_synchronize(const cr_device *d) {
    gpu *g = cr_gpu_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cr_gpu_wait(g, "synchronize");
    return cr_gpu_leave(g, status == CR_OK ? cr_gpu_faults_check(g, "synchronize") : status);
}

CR_KERNELS(CR_WATCHED_OF_WEBGPU)
const cr_kernels cr_gpu_kernels = {CR_KERNELS(CR_ENTRY_OF_WEBGPU).attention_takes = cr_gpu_attention_takes,
                                   .chains = true,
                                   .links_apart = true,
                                   .chain_buffers = GPU_LEAST_BUFFERS,
                                   .f32_only = true};
