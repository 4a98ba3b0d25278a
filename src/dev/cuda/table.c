/* table.c - the kernels of an NVIDIA GPU.  Kernels that are absent (triangles) run as composites. */
#include "gpu.h"

cr_status cr_cuda_synchronize(const cr_device *d) {
    cuda *g = cr_cuda_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cr_cuda_wait(g, "synchronize");
    return cr_cuda_leave(g, status == CR_OK ? cr_cuda_faults_check(g, "synchronize") : status);
}

#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cuda(CR_WATCHED(cr_cuda_, name))
#include "../kernels.def"
const cr_kernels cr_cuda_kernels = {
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cuda(CR_ENTRY(name))
#include "../kernels.def"
    .can_fuse = true,
};
