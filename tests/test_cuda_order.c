/* test_cuda_order.c - gpu_order.h on an NVIDIA GPU, or a simulated one. */
#define CR_TEST_CUDA
#pragma GCC diagnostic ignored "-Wunused-function"  /* of check.h, for other tests */
#include "check.h"
#include "dev/cuda/gpu.h"

static const cr_device *dev(void) { return cr_cuda(0); }
static const cuda_counters *counters(void) { return &((cuda *)(uintptr_t)cr_cuda(0))->counters; }
static int64_t readings(void) { return counters()->downloads; }
static int64_t waits(void) { return counters()->waits; }

static const cr_dtype sorted_dtypes[] = {CR_BOOL, CR_U8,  CR_U16, CR_U32,  CR_U64, CR_I8, CR_I16,
                                         CR_I32,  CR_I64, CR_F16, CR_BF16, CR_F32, CR_F64},
                      float_dtypes[] = {CR_F32, CR_F64};
/* ranked; one tile, full or not; several tiles */
static const int64_t row_sizes[] = {1, 2, 64, 65, 257, 1023, 2048, 2049, 3 * 2048 + 5};
#define LINES_OF_SCANS {{1, 1, 1}, {1, 31, 3}, {3, 33, 1}, {2, 517, 37}, {1, 5003, 1}, {3, 6011, 1}, {1, 6007, 3}, \
    {1, 13001, 1}, {901, 7, 1}, {3, 29, 100}, {1, 901, 40}, {3, 11, 300}}
enum { MANY = 30, LINES_OF_LSE = 32, LONG = 5003, PERMUTED = 5003, CLOSE = 3001 };
#include "gpu_order.h"
