/* test_webgpu_ops.c - test_ops.c on the first GPU, as far as that goes: the same cases, with `ref` as the truth. */
#define CR_TEST_GPU
#include "test_ops.c"
