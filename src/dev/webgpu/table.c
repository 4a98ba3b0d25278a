/* table.c - the kernels of a GPU behind WebGPU. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    gpu *g = cr_gpu_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cr_gpu_wait(g, "synchronize");
    return cr_gpu_leave(g, status == CR_OK ? cr_gpu_faults_check(g, "synchronize") : status);
}

const cr_kernels cr_gpu_kernels = {
    .allocate = cr_gpu_allocate, .upload = cr_gpu_upload, .download = cr_gpu_download, .synchronize = synchronize, .copy = cr_gpu_copy, .fill = cr_gpu_fill,
    .elementwise = cr_gpu_elementwise, .reduce = cr_gpu_reduce, .arg_reduce = cr_gpu_arg_reduce, .matmul = cr_gpu_matmul,
    .scan = cr_gpu_scan, .gather = cr_gpu_gather, .scatter = cr_gpu_scatter, .take_rows = cr_gpu_take_rows, .put_rows = cr_gpu_put_rows, .ravel = cr_gpu_ravel,
    .nonzero = cr_gpu_nonzero, .sort = cr_gpu_sort, .kth = cr_gpu_kth, .search = cr_gpu_search, .runs = cr_gpu_runs, .random = cr_gpu_random,
    .random_integers = cr_gpu_random_integers, .permutation = cr_gpu_permutation, .multinomial = cr_gpu_multinomial,
    .softmax = cr_gpu_softmax, .softmax_bwd = cr_gpu_softmax_bwd, .norm = cr_gpu_norm, .norm_bwd = cr_gpu_norm_bwd, .cross_entropy = cr_gpu_cross_entropy, .cross_entropy_bwd = cr_gpu_cross_entropy_bwd,
    .attention = cr_gpu_attention, .attention_bwd = cr_gpu_attention_bwd, .attention_takes = cr_gpu_attention_takes, .f32_only = true,
};
