/* test_webgpu_packed.c - test_packed.c's checks of a device on the first WebGPU device. */
#define CR_TEST_GPU
#include "test_packed.c"
