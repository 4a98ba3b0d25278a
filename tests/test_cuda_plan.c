/* test_cuda_plan.c - test_plan_ops.c on an NVIDIA GPU, or a simulated one. */
#define CR_TEST_CUDA
#include "test_plan_ops.c"
