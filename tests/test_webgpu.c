/* test_webgpu.c - what is particular to GPUs behind WebGPU: batches, memory, what they say that they cannot do. */
#define CR_TEST_GPU
#include "test.h"

#ifdef CR_WEBGPU
#include "dev/webgpu/gpu.h"

static gpu *the_gpu(void) { return (gpu *)(uintptr_t)cr_webgpu_at(0); }
#define GPU(g) gpu *g = the_gpu(); if (!g) SKIP(cr_webgpu_problem())

static void same(const cr_tensor *t, const float *want, int n, const char *what) {
    float got[64];
    REQUIRE(t, "%s: %s", what, cr_error());
    OK(cr_read(t, CR_F32, got, sizeof(float) * (size_t)n));
    for (int i = 0; i < n; i++) CHECK(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])), "%s: element %d is %g, wanted %g", what, i, (double)got[i], (double)want[i]);
    test_ran_on(cr_device_of(t));
}

TEST(round_trip) {
    GPU(g);
    cr_scope_begin();
    const cr_device *d = &g->dev;
    printf("  %s: %s\n", cr_device_name(d), cr_device_info(d));
    const float a[6] = {1, 2, 3, 4, 5, 6}, sum[6] = {2, 4, 6, 8, 10, 12}, turned[6] = {1, 4, 2, 5, 3, 6}, rows[2] = {6, 15}, product[4] = {14, 32, 32, 77};
    cr_tensor *x = cr_from(a, CR_LIST(2, 3), CR_F32, d);
    same(x, a, 6, "upload and download");
    same(cr_add(x, x), sum, 6, "x + x");
    same(cr_mul(x, cr_scalar(2)), sum, 6, "x * 2");
    same(cr_contiguous(cr_transpose(x, 0, 1)), turned, 6, "transposed");
    same(cr_sum(x, CR_LIST(1), false), rows, 2, "sum");
    same(cr_matmul(x, cr_transpose(x, 0, 1)), product, 4, "x x^T");
    cr_scope_end();
}
#else
TEST(built) { SKIP("built without wgpu.h (pip install wgpu)"); }
#endif
