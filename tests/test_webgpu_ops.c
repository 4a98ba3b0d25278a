/* test_webgpu_ops.c - the cases of test_ops.c that the first WebGPU device supports, compared with `ref`. */
#define CR_TEST_GPU
#include "test_ops.c"
