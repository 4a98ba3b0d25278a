/* test_cuda_grad.c - test_grad.c on an NVIDIA GPU, or a simulated one: the gradients of every differentiable op.
 * Products run on the kernel of our own, which adds in the order of `ref`: one sum of `linear` is 0 in float16, where the last bit decides
 * whether relu lets a gradient through. */
#define CR_TEST_CUDA
#include "test_grad.c"

__attribute__((constructor)) static void own_products(void) { cr_switch_set("CUBLASLT", "off"); }
