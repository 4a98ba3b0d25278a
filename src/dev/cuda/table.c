/* table.c - the kernels of an NVIDIA GPU.  Those that are not here (triangles) run as their composites. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    cuda *g = cr_cuda_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cr_cuda_wait(g, "synchronize");
    return cr_cuda_leave(g, status == CR_OK ? cr_cuda_faults_check(g, "synchronize") : status);
}

const cr_kernels cr_cuda_kernels = {
    .allocate = cr_cuda_allocate, .allocate_host = cr_cuda_allocate_host, .upload = cr_cuda_upload, .download = cr_cuda_download, .synchronize = synchronize, .copy = cr_cuda_copy, .fill = cr_cuda_fill,
    .elementwise = cr_cuda_elementwise, .reduce = cr_cuda_reduce, .arg_reduce = cr_cuda_arg_reduce, .matmul = cr_cuda_matmul, .matmul_beside = cr_cuda_matmul_beside,
    .scan = cr_cuda_scan, .gather = cr_cuda_gather, .scatter = cr_cuda_scatter, .take_rows = cr_cuda_take_rows, .put_rows = cr_cuda_put_rows, .ravel = cr_cuda_ravel,
    .nonzero = cr_cuda_nonzero, .sort = cr_cuda_sort, .kth = cr_cuda_kth, .search = cr_cuda_search, .runs = cr_cuda_runs, .random = cr_cuda_random,
    .random_integers = cr_cuda_random_integers, .permutation = cr_cuda_permutation, .multinomial = cr_cuda_multinomial,
    .softmax = cr_cuda_softmax, .softmax_bwd = cr_cuda_softmax_bwd, .norm = cr_cuda_norm, .norm_bwd = cr_cuda_norm_bwd,
    .cross_entropy = cr_cuda_cross_entropy, .cross_entropy_bwd = cr_cuda_cross_entropy_bwd, .sum_squares = cr_cuda_sum_squares, .attention = cr_cuda_attention, .attention_bwd = cr_cuda_attention_bwd,
};
