/* table.c - the kernels of a GPU behind WebGPU. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    gpu *g = gpu_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = gpu_wait(g, "synchronize");
    return gpu_leave(g, status == CR_OK ? gpu_faults_check(g, "synchronize") : status);
}

const cr_kernels gpu_kernels = {
    .allocate = gpu_allocate, .upload = gpu_upload, .download = gpu_download, .synchronize = synchronize, .copy = gpu_copy, .fill = gpu_fill,
    .elementwise = gpu_elementwise, .reduce = gpu_reduce, .arg_reduce = gpu_arg_reduce, .matmul = gpu_matmul,
    .scan = gpu_scan, .gather = gpu_gather, .scatter = gpu_scatter, .take_rows = gpu_take_rows, .put_rows = gpu_put_rows, .ravel = gpu_ravel,
    .nonzero = gpu_nonzero, .sort = gpu_sort, .kth = gpu_kth, .search = gpu_search, .runs = gpu_runs, .random = gpu_random,
    .random_integers = gpu_random_integers, .permutation = gpu_permutation, .multinomial = gpu_multinomial,
    .softmax = gpu_softmax, .softmax_bwd = gpu_softmax_bwd, .norm = gpu_norm, .norm_bwd = gpu_norm_bwd, .cross_entropy = gpu_cross_entropy, .cross_entropy_bwd = gpu_cross_entropy_bwd,
    .attention = gpu_attention, .attention_bwd = gpu_attention_bwd, .attention_takes = gpu_attention_takes, .f32_only = true,
};
