/* test_cuda_ops.c - test_ops.c on an NVIDIA GPU, or a simulated one, as far as that goes: the same cases, with `ref` as the truth. */
#define CR_TEST_CUDA
#include "test_ops.c"
