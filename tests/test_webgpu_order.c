/* test_webgpu_order.c - gpu_order.h on the first WebGPU device; also limits of workgroups and division
 * of 64-bit integers. */
#define CR_TEST_GPU
#pragma GCC diagnostic ignored "-Wunused-function"  /* of check.h, for other tests */
#include "check.h"

#ifdef CR_WEBGPU
#include "dev/webgpu/gpu.h"

static const cr_device *dev(void) { return cr_webgpu(0); }
static gpu *the_gpu(void) { return (gpu *)(uintptr_t)cr_webgpu(0); }
static int64_t readings(void) { return the_gpu()->counters.readbacks; }
static int64_t waits(void) { return the_gpu()->counters.submits; }

static const cr_dtype sorted_dtypes[] = {CR_BOOL, CR_U8,  CR_I16, CR_I32,  CR_U32,
                                         CR_I64,  CR_U64, CR_F16, CR_BF16, CR_F32},
                      float_dtypes[] = {CR_F32};
/* ranked, one tile, a pair of runs, many with a short last one */
static const int64_t row_sizes[] = {1, 2, 63, 64, 65, 1023, 1024, 1025, 2049, 5 * 1024 + 3, 70001};
#define LINES_OF_SCANS {{1, 1, 1}, {1, 31, 3}, {3, 33, 1}, {2, 517, 37}, {1, 5003, 1}, {3, 20011, 1}, {1, 40009, 3}, \
    {1, 300007, 1}, {9001, 7, 1}}
enum { MANY = 9000, LINES_OF_LSE = 8192, LONG = 70001, PERMUTED = 300007, CLOSE = 400009 };
#include "gpu_order.h"

/* More workgroups than one axis of a dispatch takes, and not a multiple of its rows: the extra ones do nothing. */
TEST(many_workgroups) {
    const uint32_t most = the_gpu()->limits.maxComputeWorkgroupsPerDimension;
    cr_scope_begin();
    cr_tensor *x = mixed(CR_F32, 16 * 1024), *rows = cr_reshape(cr_slice(x, 0, 0, 4000, 1), CR_LIST(400, 10)),
              *far = there(x), *y[4];
    the_gpu()->limits.maxComputeWorkgroupsPerDimension = 11;
    y[0] = cr_sort(far, 0, false, NULL);            /* takes of 64: 6 rows of 11 */
    y[1] = cr_sort(cr_reshape(cr_slice(far, 0, 0, 4000, 1), CR_LIST(400, 10)), 1, false, NULL);
    y[2] = cr_cummax(cr_reshape(far, CR_LIST(8192, 2)), 1, NULL);
    y[3] = cr_searchsorted(y[0], cr_slice(far, 0, 0, 4000, 1), false, CR_NONE);
    the_gpu()->limits.maxComputeWorkgroupsPerDimension = most;
    same_bytes("sort", y[0], cr_sort(x, 0, false, NULL));
    same_bytes("sort rows", y[1], cr_sort(rows, 1, false, NULL));
    same_bytes("cummax", y[2], cr_cummax(cr_reshape(x, CR_LIST(8192, 2)), 1, NULL));
    same_bytes("searchsorted", y[3],
               cr_searchsorted(cr_sort(x, 0, false, NULL), cr_slice(x, 0, 0, 4000, 1), false, CR_NONE));
    cr_scope_end();
}

/* ---- integers of 64 bits near their ends, every pair of them */
TEST(divisions_of_64_bits) {
    static const char *const names[] = {"trunc_divide", "floor_divide", "fmod", "remainder", "pow"};
    static const int64_t values[] = {INT64_MIN,
                                     INT64_MIN + 1,
                                     -4294967297,
                                     -4294967296,
                                     -65537,
                                     -7,
                                     -2,
                                     -1,
                                     1,
                                     2,
                                     3,
                                     10,
                                     63,
                                     65535,
                                     4294967295,
                                     4294967296,
                                     4294967297,
                                     1000000007,
                                     999999999999,
                                     INT64_MAX / 3,
                                     INT64_MAX - 1,
                                     INT64_MAX};
    enum { N = sizeof values / sizeof *values };
    for (int dt = 0; dt < 2; dt++)
        for (int k = 0; k < 5; k++) {
            cr_scope_begin();
            cr_tensor *a = cr_from(values, CR_LIST(N, 1), dt ? CR_U64 : CR_I64, cr_cpu()),
                      *b = cr_reshape(a, CR_LIST(1, N));
            const cr_program *p = cr_program_find(names[k]);
            same_bytes(names[k], cr_program_apply(p, 2, (const cr_tensor *[]){there(a), there(b)}, NULL),
                       cr_program_apply(p, 2, (const cr_tensor *[]){a, b}, NULL));
            cr_scope_end();
        }
}
#else
TEST(built) { SKIP("this library was built without WebGPU"); }
#endif
