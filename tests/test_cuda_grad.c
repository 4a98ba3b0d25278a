/* test_cuda_grad.c - test_grad.c on an NVIDIA GPU, or a simulated one: the gradients of every differentiable op. */
#define CR_TEST_CUDA
#include "test_grad.c"
