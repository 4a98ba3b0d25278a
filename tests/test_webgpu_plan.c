/* test_webgpu_plan.c - test_plan_ops.c on the first GPU. */
#define CR_TEST_GPU
#include "test_plan_ops.c"
