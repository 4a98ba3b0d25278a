/* table.c - the kernels of an NVIDIA GPU.  Those that are not here (triangles) run as their composites. */
#include "gpu.h"

static cr_status synchronize(const cr_device *d) {
    cuda *g = cuda_enter("synchronize", d);
    if (!g) return cr_error_status();
    cr_status status = cuda_wait(g, "synchronize");
    return cuda_leave(g, status == CR_OK ? cuda_faults_check(g, "synchronize") : status);
}

const cr_kernels cuda_kernels = {
    .allocate = cuda_allocate, .allocate_host = cuda_allocate_host, .upload = cuda_upload, .download = cuda_download, .synchronize = synchronize, .copy = cuda_copy, .fill = cuda_fill,
    .elementwise = cuda_elementwise, .reduce = cuda_reduce, .arg_reduce = cuda_arg_reduce, .matmul = cuda_matmul, .matmul_beside = cuda_matmul_beside,
    .scan = cuda_scan, .gather = cuda_gather, .scatter = cuda_scatter, .take_rows = cuda_take_rows, .put_rows = cuda_put_rows, .ravel = cuda_ravel,
    .nonzero = cuda_nonzero, .sort = cuda_sort, .kth = cuda_kth, .search = cuda_search, .runs = cuda_runs, .random = cuda_random,
    .random_integers = cuda_random_integers, .permutation = cuda_permutation, .multinomial = cuda_multinomial,
    .softmax = cuda_softmax, .softmax_bwd = cuda_softmax_bwd, .norm = cuda_norm, .norm_bwd = cuda_norm_bwd,
    .cross_entropy = cuda_cross_entropy, .cross_entropy_bwd = cuda_cross_entropy_bwd, .sum_squares = cuda_sum_squares, .attention = cuda_attention, .attention_bwd = cuda_attention_bwd,
};
