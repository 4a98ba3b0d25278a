/* test_cuda_ops.c - test_ops.c on an NVIDIA GPU, or a simulated one, for the dtypes that it has: the
 * same cases, compared with `ref`. */
#define CR_TEST_CUDA
#include "test_ops.c"
