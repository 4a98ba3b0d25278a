/* cuda_demo.c - NVIDIA GPUs: which there are, two small results, the memory that tensors hold, a
 * product beside the cpu's and a plain loop's, and errors that come back as messages. use: cuda_demo
 * [N]        the product is (N, N) by (N, N), f32; default 1024 */
#include <chainrule.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int failed(const char *what) { return fprintf(stderr, "%s: %s\n", what, cr_error()), 1; }

static double seconds(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void devices(void) {
    const int count = cr_cuda_count();
    printf("%d GPU%s\n", count, count == 1 ? "" : "s");
    for (int i = 0; i < count; i++) printf("  %s: %s\n", cr_device_name(cr_cuda(i)), cr_device_info(cr_cuda(i)));
}

/* Small enough to check by hand. */
static int small(const cr_device *gpu) {
    float c[4] = {0};
    cr_scope_begin();
    const cr_tensor *a = cr_from((float[]){1, 2, 3, 4}, CR_LIST(2, 2), CR_F32, gpu),
                    *b = cr_from((float[]){5, 6, 7, 8}, CR_LIST(2, 2), CR_F32, gpu);
    cr_read(cr_matmul(a, b), CR_F32, c, sizeof c);
    const double sum = cr_item(cr_sum(cr_zeros(CR_LIST(1000), CR_F32, gpu), CR_ALL, false));
    cr_scope_end();
    if (cr_error()) return failed("small results");
    printf("small results\n  [[1, 2], [3, 4]] by [[5, 6], [7, 8]] = [[%g, %g], [%g, %g]]\n  sum of 1000 zeros = %g\n",
           (double)c[0], (double)c[1], (double)c[2], (double)c[3], sum);
    return c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50 && sum == 0
               ? 0
               : (fprintf(stderr, "small results: wrong\n"), 1);
}

/* Freed blocks are kept for the next tensor, until they are given back. */
static void memory(const cr_device *gpu, const char *when) {
    const cr_memory m = cr_memory_stats(gpu);
    printf("  %-28s %8.2f MiB in use, %8.2f at most, %8.2f kept\n", when, (double)m.current / 1048576,
           (double)m.peak / 1048576, (double)m.cached / 1048576);
}

static int pool(const cr_device *gpu) {
    printf("memory\n");
    memory(gpu, "before");
    cr_tensor *x = cr_zeros(CR_LIST(4, 1024, 1024), CR_F32, gpu);
    if (!x) return failed("16 MiB");
    memory(gpu, "with a tensor of 16 MiB");
    cr_release(x);
    memory(gpu, "without it");
    cr_empty_cache(gpu);
    memory(gpu, "after cr_empty_cache");
    return 0;
}

/* The same random numbers on both, since the generator is the same on every device. */
static cr_tensor *numbers(int64_t n, uint64_t seed, const cr_device *dev) {
    cr_generator *g = cr_generator_new(seed);
    cr_tensor *x = cr_randn(CR_LIST(n, n), CR_F32, dev, g);
    cr_generator_free(g);
    return x;
}

/* c = a b by three loops on one thread of the processor; seconds. */
static double plain_loop(const float *a, const float *b, float *c, int64_t n) {
    const double start = seconds();
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    return seconds() - start;
}

static int product(const cr_device *gpu, int64_t n) {
    enum { TIMES = 10 };
    cr_scope_begin();
    const cr_tensor *a = numbers(n, 1, gpu), *b = numbers(n, 2, gpu), *a_here = numbers(n, 1, cr_cpu()),
                    *b_here = numbers(n, 2, cr_cpu());
    /* the first finds cuBLASLt's algorithm */
    const cr_tensor *c = cr_matmul(a, b), *here = cr_empty(CR_LIST(n, n), CR_F32, cr_cpu());
    if (!c || !here) return failed("product");
    const double loop = plain_loop(cr_data(a_here), cr_data(b_here), cr_data(here), n);
    const double error = cr_item(cr_max(cr_abs(cr_sub(cr_to(c, CR_F32, cr_cpu()), here)), CR_ALL, false)) /
                         cr_item(cr_max(cr_abs(here), CR_ALL, false));
    cr_synchronize(gpu);
    const double start = seconds();
    for (int i = 0; i < TIMES; i++) cr_release(cr_matmul(a, b));
    /* launches come back at once: wait before the clock is read */
    const bool fine = cr_synchronize(gpu) == CR_OK;
    const double each = (seconds() - start) / TIMES, size = (double)n;
    cr_scope_end();
    if (!fine || cr_error()) return failed("product");
    printf(
        "product\n  (%lld, %lld) by (%lld, %lld): %.3f ms, %.1f GFLOP/s, off by %.1g of the largest from the cpu's\n",
        (long long)n, (long long)n, (long long)n, (long long)n, each * 1e3, 2e-9 * size * size * size / each, error);
    printf("  a plain loop on the cpu: %.3f ms; speed-up %.1f\n", loop * 1e3, loop / each);
    return error < 1e-4 ? 0 : (fprintf(stderr, "product: wrong\n"), 1);
}

/* The message, and what came of it; 1: there should have been an error. */
static int refused(const char *what, bool is) {
    printf("  %s: %s\n", what, is && cr_error() ? cr_error() : "WAS NOT REFUSED");
    cr_error_clear();
    return !is;
}

static int errors(const cr_device *gpu) {
    printf("errors\n");
    cr_scope_begin();
    const cr_tensor *x = cr_ones(CR_LIST(3), CR_F32, gpu), *y = cr_ones(CR_LIST(3), CR_F32, cr_cpu());
    int wrong = refused("no such device", !cr_cuda(99));
    wrong += refused("two devices", !cr_add(x, y));
    wrong += refused("out of memory", !cr_empty(CR_LIST(INT64_C(1) << 40), CR_F32, gpu));
    /* A kernel finds it, so it is known when somebody reads or waits. */
    const cr_tensor *row = cr_index_select(x, 0, cr_full(CR_LIST(1), 7, CR_I64, gpu));
    wrong += refused("an index out of range", !row || cr_synchronize(gpu) != CR_OK);
    wrong += cr_item(cr_sum(x, CR_ALL, false)) != 3;                        /* none of them did any harm */
    cr_scope_end();
    return wrong;
}

int main(int argc, char **argv) {
    const int64_t n = argc > 1 ? atoll(argv[1]) : 1024;
    if (n < 1) return fprintf(stderr, "use: cuda_demo [N]\n"), 2;
    if (!getenv("CHAINRULE_GPU_MEMORY")) cr_switch_set("GPU_MEMORY", "2048");      /* MiB; before the GPU is used */
    const cr_device *gpu = cr_cuda(0);
    if (!gpu) return printf("went without a GPU: %s\n", cr_error()), 0;
    devices();
    return small(gpu) || pool(gpu) || product(gpu, n) || errors(gpu) ? 1 : 0;
}
