/* test_cuda_packed.c - test_packed.c's checks of a device on an NVIDIA GPU, or a simulated one. */
#define CR_TEST_CUDA
#include "test_packed.c"
