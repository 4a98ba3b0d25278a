/* table.c - the kernels of an NVIDIA GPU.  Kernels that are absent (triangles) run as composites. */
#include "gpu.h"

cr_status cr_cuda_synchronize(const cr_device *d) {
    cuda *g = cr_cuda_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cr_cuda_wait(g, "synchronize");
    return cr_cuda_leave(g, status == CR_OK ? cr_cuda_faults_check(g, "synchronize") : status);
}

CR_KERNELS(CR_WATCHED_OF_CUDA)
const cr_kernels cr_cuda_kernels = {CR_KERNELS(CR_ENTRY_OF_CUDA).chains = true};
