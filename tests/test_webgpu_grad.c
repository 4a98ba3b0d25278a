/* test_webgpu_grad.c - test_grad.c on the first GPU: every gradient in float32, against `ref`'s. */
#define CR_TEST_GPU
#include "test_grad.c"
