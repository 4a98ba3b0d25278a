/* test_webgpu.c - tests of the WebGPU device only: batches and their cost, memory, errors, a lost
 * device. */
#define CR_TEST_GPU
#include "test.h"
#include "folder.h"
#include "gpu_conv.h"
#include "gpu_trace.h"
#include "over_logits.h"
#include "wide.h"
#include "plan_net.h"

#ifdef CR_WEBGPU
#include <sys/wait.h>
#include <unistd.h>
#include "dev/program.h"
#include "dev/webgpu/wgsl.h"
#include "ops/op.h"

static gpu *the_gpu(void) { return (gpu *)(uintptr_t)cr_webgpu(0); }
static const cr_device *dev(void) { return cr_webgpu(0); }

static void same(const cr_tensor *t, const float *want, int n, const char *what) {
    float got[64];
    REQUIRE(t, "%s: %s", what, cr_error());
    OK(cr_read(t, CR_F32, got, sizeof(float) * (size_t)n));
    for (int i = 0; i < n; i++)
        CHECK(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])), "%s: element %d is %g, wanted %g", what, i,
              (double)got[i], (double)want[i]);
    test_ran_on(cr_device_of(t));
}

/* ---- first, while the GPU is not open: an adapter with lower limits than the kernels need, and an
 * adapter that refuses */
static __typeof__(wgpuAdapterGetLimits) *true_limits;
static void (*change_limits)(WGPULimits *limits);
static WGPUStatus changed_limits(WGPUAdapter adapter, WGPULimits *limits) {
    const WGPUStatus status = true_limits(adapter, limits);
    change_limits(limits);
    return status;
}
static void few_invocations(WGPULimits *l) { l->maxComputeInvocationsPerWorkgroup = 128; }
static void few_buffers(WGPULimits *l) { l->maxStorageBuffersPerShaderStage = 4; }
static void too_many(WGPULimits *l) { l->maxComputeWorkgroupSizeX = 1 << 30; }

TEST(aa_limits) {
    static const struct { void (*change)(WGPULimits *); const char *message;
    } cases[] = {
        {few_invocations,
         "[allocate] webgpu:0 cannot be opened: its maxComputeInvocationsPerWorkgroup is 128, 256 are needed"},
        {few_buffers, "[allocate] webgpu:0 cannot be opened: its maxStorageBuffersPerShaderStage is 4, 8 are needed"},
        {too_many, "[allocate] webgpu:0 cannot be opened: "}};
    true_limits = cr_wg.AdapterGetLimits;
    cr_wg.AdapterGetLimits = changed_limits;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !the_gpu()->device; i++) {
        change_limits = cases[i].change;
        FAILS(CR_RUNTIME, cases[i].message, cr_ones(CR_LIST(3), CR_F32, dev()));
        test_ran_on(dev());
    }
    cr_wg.AdapterGetLimits = true_limits;
    cr_scope_begin();
    CHECK(cr_item(cr_sum(cr_ones(CR_LIST(3), CR_F32, dev()), CR_ALL, false)) == 3, "opened by its true limits: %s",
          cr_error());
    cr_scope_end();
}

TEST(names) {
    const cr_device *d = dev();
    printf("  %s: %s\n", cr_device_name(d), cr_device_info(d));
    CHECK(cr_device_find("webgpu") == d && cr_device_find("webgpu:0") == d, "the first GPU has two names");
    gpu *g = the_gpu();
    const bool software = g->dev.software;
    const cr_device *best = cr_cuda_count() ? cr_cuda(0) : NULL;
    cr_error_clear();
    if (!best && software) FAILS(CR_BAD_VALUE, "only a software driver was found: its name is webgpu:0", cr_gpu(0));
    g->dev.software = false;
    CHECK(cr_device_find("gpu") == (best ? best : d) && cr_gpu(0) == (best ? best : d), "gpu is hardware: %s",
          cr_error());
    CHECK(cr_device_find("auto") == (best ? best : d), "a GPU of hardware comes before the cpu: %s",
          cr_device_name(cr_device_find("auto")));
    g->dev.software = true;
    for (int i = 1; !best && cr_webgpu(i); i++)
        best = ((gpu *)(uintptr_t)cr_webgpu(i))->dev.software ? NULL : cr_webgpu(i);
    cr_error_clear();
    CHECK(cr_device_find("auto") == (best ? best : cr_cpu()), "a GPU of software comes after the cpu: %s",
          cr_device_name(cr_device_find("auto")));
    g->dev.software = software;
    FAILS(CR_BAD_VALUE, "no GPU 'webgpu:77' here", cr_webgpu(77));
    FAILS(CR_BAD_VALUE, "no GPU 'gpu:-1' here", cr_gpu(-1));
    FAILS(CR_RUNTIME, "is set too late", cr_switch_set("WGPU", "off"));
}

/* Instructions that only the programs of plans have. */
TEST(rounding) {
    static const float x[] = {0, -0.0f, 1, 1.00390625f, 1.01171875f, 65504, 65519.996f, 65520, 1e-7f, 3e-8f, -2.98e-8f,
                              6e-5f, 1e38f, 3.4e38f, INFINITY, -INFINITY, 0.1f, -1234.567f, 1e-39f, 2049};
    static const cr_instr code[][1] = {{{CR_OP_F16, 0, -1, -1}}, {{CR_OP_BF16, 0, -1, -1}}, {{CR_OP_FMA, 0, 0, 0}}};
    static const cr_dtype dtypes[] = {CR_F16, CR_BF16};
    enum { N = sizeof x / sizeof *x };
    cr_scope_begin();
    cr_tensor *in = cr_from(x, CR_LIST(N), CR_F32, dev());
    REQUIRE(in, "%s", cr_error());
    for (int k = 0; k < 3; k++) {
        const cr_program p = {.name = "rounding", .rule = CR_RULE_FLOAT, .n_in = 1, .n_instr = 1, .n_out = 1,
                              .instr = code[k], .out = {1}, .fused = -1, .refs = -1};
        float got[N], want[N];
        cr_tensor *y = cr_apply_program(&p, (const cr_tensor *const *)&in, NULL);
        REQUIRE(y, "%s", cr_error());
        OK(cr_read(y, CR_F32, got, sizeof got));
        if (k < 2) OK(cr_read(cr_to(in, dtypes[k], dev()), CR_F32, want, sizeof want));
        for (int i = 0; i < N; i++) {
            if (k == 2) want[i] = x[i] * x[i] + x[i];
            /* a GPU may take subnormal numbers for 0 */
            const float bound = fmaxf(2e-7f * fabsf(want[i]), 0x1p-126f);
            const bool alike = !memcmp(&got[i], &want[i], 4) || (k == 2 && fabsf(got[i] - want[i]) <= bound);
            CHECK(alike || (isnan(got[i]) && isnan(want[i])), "instruction %d of %g: %g, not %g", k, (double)x[i],
                  (double)got[i], (double)want[i]);
        }
    }
    cr_scope_end();
    test_ran_on(dev());
}

TEST(round_trip) {
    const cr_device *d = dev();
    const float a[6] = {1, 2, 3, 4, 5, 6}, twice[6] = {2, 4, 6, 8, 10, 12}, turned[6] = {1, 4, 2, 5, 3, 6},
                rows[2] = {6, 15}, product[4] = {14, 32, 32, 77};
    cr_scope_begin();
    cr_tensor *x = cr_from(a, CR_LIST(2, 3), CR_F32, d);
    same(x, a, 6, "upload and download");
    same(cr_mul(x, cr_scalar(2)), twice, 6, "x * 2");
    same(cr_contiguous(cr_transpose(x, 0, 1)), turned, 6, "transposed");
    same(cr_sum(x, CR_LIST(1), false), rows, 2, "sum");
    same(cr_matmul(x, cr_transpose(x, 0, 1)), product, 4, "x x^T");
    cr_scope_end();
}

/* float64 data of the host is cast on the host, because no kernel here computes in float64. */
TEST(host_floats) {
    static const cr_dtype all[] = {CR_F16, CR_BF16, CR_F32, CR_I64, CR_I8, CR_BOOL};
    const double in[6] = {1.5, -2.25, 0, 3, 100, -7.5}, one = 8.5;
    cr_scope_begin();
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        double got[6], wanted[6];
        cr_tensor *here = cr_empty(CR_LIST(2, 3), all[k], cr_cpu()), *there = cr_empty(CR_LIST(2, 3), all[k], dev());
        cr_tensor *turned = cr_transpose(cr_zeros(CR_LIST(3, 2), all[k], dev()), 0, 1);
        OK(cr_write(here, CR_F64, in, sizeof in));
        OK(cr_read(here, CR_F64, wanted, sizeof wanted));
        OK(cr_write(there, CR_F64, in, sizeof in));
        OK(cr_read(there, CR_F64, got, sizeof got));
        CHECK(!memcmp(got, wanted, sizeof got), "%s", cr_dtype_name(all[k]));
        OK(cr_write(turned, CR_F64, in, sizeof in));
        OK(cr_read(turned, CR_F64, got, sizeof got));
        CHECK(!memcmp(got, wanted, sizeof got), "%s, turned", cr_dtype_name(all[k]));
        CHECK(cr_copy_(there, cr_from(&one, CR_ALL, CR_F64, cr_cpu())), "%s: %s", cr_dtype_name(all[k]), cr_error());
        CHECK(cr_item(cr_select(cr_select(there, 0, 1), 0, 2)) == (all[k] == CR_BOOL           ? 1
                                                                   : cr_dtype_is_float(all[k]) ? 8.5
                                                                                               : 8),
              "copy_ from float64, %s", cr_dtype_name(all[k]));
    }
    float gradient[3];
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, dev()), true), *x = cr_mul(w, cr_scalar(2));
    /* into a graph: no gradient flows through the overwritten elements */
    OK(cr_write(cr_narrow(x, 0, 1, 1), CR_F64, &one, sizeof one));
    OK(cr_backward(cr_sum(x, CR_ALL, false), CR_NONE, NULL));
    OK(cr_read(cr_grad(w), CR_F32, gradient, sizeof gradient));
    CHECK(gradient[0] == 2 && gradient[1] == 0 && gradient[2] == 2, "a gradient of %g %g %g", (double)gradient[0],
          (double)gradient[1], (double)gradient[2]);
    cr_scope_end();
    test_ran_on(dev());
}

/* Bytes that begin and end within a word, and the bytes around them. */
TEST(parts_of_words) {
    unsigned char all[23], part[9], want[23];
    cr_scope_begin();
    for (int first = 0; first < 9; first++)
        for (int n = 0; n < 9; n++) {
            for (int i = 0; i < 23; i++) want[i] = all[i] = (unsigned char)(3 * i + first);
            cr_tensor *x = cr_from(all, CR_LIST(23), CR_U8, dev());
            for (int i = 0; i < n; i++) want[first + i] = part[i] = (unsigned char)(200 + i);
            OK(cr_write(cr_slice(x, 0, first, first + n, 1), CR_U8, part, (size_t)n));
            OK(cr_read(x, CR_U8, all, sizeof all));
            CHECK(!memcmp(all, want, sizeof all), "%d bytes written from byte %d on", n, first);
            if (n) OK(cr_read(cr_slice(x, 0, first, first + n, 1), CR_U8, all, (size_t)n));
            CHECK(!memcmp(all, want + (n ? first : 0), (size_t)n), "%d bytes read from byte %d on", n, first);
            test_ran_on(dev());
        }
    cr_scope_end();
}

/* ---- a step of the host reads all its numbers at once */
static cr_status keep_numbers(cr_plan *p, void *ctx, const double *numbers, double *results) {
    (void)p, (void)results;
    memcpy(ctx, numbers, 3 * sizeof *numbers);
    return CR_OK;
}

TEST(host_numbers) {
    gpu *g = the_gpu();
    double got[3] = {0};
    cr_scope_begin();
    cr_tensor *x = cr_from((float[]){1, 5, -2}, CR_LIST(3), CR_F32, dev());
    const cr_tensor *in[] = {cr_sum(x, CR_ALL, false), cr_max(x, CR_ALL, false), cr_select(x, 0, 2)};
    const gpu_counters before = g->counters;
    OK(cr_record_host(3, in, 0, NULL, keep_numbers, got, NULL));
    CHECK(got[0] == 4 && got[1] == 5 && got[2] == -2, "%g %g %g, wanted 4 5 -2", got[0], got[1], got[2]);
    CHECK(g->counters.readbacks == before.readbacks + 1, "%lld readings",
          (long long)(g->counters.readbacks - before.readbacks));
    cr_scope_end();
    test_ran_on(dev());
}

/* ---- recording, and when a batch is submitted */
TEST(batches) {
    gpu *g = the_gpu();
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(1000), 0.5, CR_F32, dev()), *y = x;
    OK(cr_synchronize(dev()));
    for (int i = 0; i < 2; i++) y = cr_tanh(cr_add(y, x));        /* compiled: x + x, then y + x */
    OK(cr_synchronize(dev()));
    gpu_counters before = g->counters;
    for (int i = 0; i < 50; i++) y = cr_tanh(cr_add(y, x));
    CHECK(g->counters.dispatches == before.dispatches + 100, "100 ops took %lld dispatches",
          (long long)(g->counters.dispatches - before.dispatches));
    CHECK(g->counters.submits == before.submits && g->counters.readbacks == before.readbacks,
          "something was submitted before anybody asked");
    CHECK(g->counters.pipelines == before.pipelines, "%lld kernels were compiled again",
          (long long)(g->counters.pipelines - before.pipelines));
    double want = 0.5;
    for (int i = 0; i < 52; i++) want = tanh(want + 0.5);
    float got[1000];
    OK(cr_read(y, CR_F32, got, sizeof got));
    CHECK(fabs((double)got[999] - want) < 1e-6, "after a chain of 100 ops %.9g, wanted %.9g", (double)got[999], want);
    CHECK(g->counters.submits == before.submits + 1 && g->counters.readbacks == before.readbacks + 1,
          "a read took %lld submits, %lld readings", (long long)(g->counters.submits - before.submits),
          (long long)(g->counters.readbacks - before.readbacks));
    for (int i = 0; i < 3000; i++) y = cr_add(x, x); /* longer than a batch */
    OK(cr_synchronize(dev()));
    CHECK(g->counters.submits <= before.submits + 5, "3000 ops took %lld submits",
          (long long)(g->counters.submits - before.submits - 1));
    cr_scope_end();
    test_ran_on(dev());
}

/* A small write to a tensor that the recorded batch reads goes into the batch, in its order; a large one ends it. */
static void written_in_order(int64_t n, int64_t submits) {
    gpu *g = the_gpu();
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(n), 1, CR_F32, dev()), *new = cr_full(CR_LIST(n), 5, CR_F32, cr_cpu());
    OK(cr_synchronize(dev()));
    cr_tensor *before = cr_add(x, x);
    const int64_t had = g->counters.submits;
    OK(cr_write(x, CR_F32, cr_data(new), sizeof(float) * (size_t)n));
    CHECK(g->counters.submits == had + submits, "%lld numbers took %lld submissions", (long long)n,
          (long long)(g->counters.submits - had));
    cr_tensor *after = cr_add(x, x);
    const double sums[] = {cr_item(cr_mean(before, CR_ALL, false)), cr_item(cr_mean(after, CR_ALL, false))};
    CHECK(sums[0] == 2 && sums[1] == 10, "before and after the write: %g and %g", sums[0], sums[1]);
    cr_scope_end();
    test_ran_on(dev());
}
TEST(writes_in_order) {
    written_in_order(1000, 0);
    written_in_order(100000, 1);
}

/* A program of five instructions is one dispatch, whatever the shape of its class. */
TEST(programs) {
    gpu *g = the_gpu();
    cr_scope_begin();
    cr_program *p = cr_program_new("five", "x y", "", "tanh(exp(x * y + x) - y)");
    REQUIRE(p, "%s", cr_error());
    for (int64_t n = 3; n < 5000; n *= 7) {
        cr_tensor *x = cr_full(CR_LIST(n), 0.25, CR_F32, dev()), *y = cr_full(CR_LIST(n), 0.5, CR_F32, dev());
        gpu_counters before = g->counters;
        cr_tensor *z = cr_program_apply(p, 2, (const cr_tensor *[]){x, y}, NULL);
        CHECK(g->counters.dispatches == before.dispatches + 1, "one program took %lld dispatches",
              (long long)(g->counters.dispatches - before.dispatches));
        CHECK(n == 3 || g->counters.pipelines == before.pipelines, "compiled again for %lld elements", (long long)n);
        CHECK(fabs(cr_item(cr_select(z, 0, n - 1)) - tanh(exp(0.375) - 0.5)) < 1e-6, "the last of %lld elements",
              (long long)n);
        test_ran_on(dev());
    }
    cr_program_free(p);
    cr_scope_end();
}

/* More workgroups than one axis of a dispatch takes, and not a multiple of its rows: the extra ones
 * do nothing. */
TEST(many_workgroups) {
    enum { N = 1001 };
    OK(cr_synchronize(dev()));                      /* opens it */
    const uint32_t most = the_gpu()->limits.maxComputeWorkgroupsPerDimension;
    the_gpu()->limits.maxComputeWorkgroupsPerDimension = 90;       /* of 65535: 12 rows of 84 */
    cr_scope_begin();
    cr_tensor *a = cr_full(CR_LIST(N, 1, 2), 2, CR_F32, dev()), *b = cr_full(CR_LIST(N, 2, 1), 3, CR_F32, dev());
    cr_tensor *c = cr_matmul(a, b);
    CHECK(cr_item(cr_min(c, CR_ALL, false)) == 12 && cr_item(cr_max(c, CR_ALL, false)) == 12, "%d products", N);
    cr_tensor *y = cr_softmax(cr_reshape(a, CR_LIST(N, 2)), -1);
    CHECK(cr_item(cr_min(y, CR_ALL, false)) == 0.5 && cr_item(cr_max(y, CR_ALL, false)) == 0.5, "%d rows", N);
    CHECK(cr_item_int(cr_sum(cr_argmax(cr_reshape(a, CR_LIST(N, 2)), 1, false), CR_ALL, false)) == 0,
          "the first of equals in each row");
    cr_scope_end();
    the_gpu()->limits.maxComputeWorkgroupsPerDimension = most;
    test_ran_on(dev());
}

/* Trees of a workgroup through subgroups and through its memory: the same bits, with NaN, both
 * zeros and overflow. */
static cr_tensor *tree(int k, cr_tensor *x, const cr_tensor *w) {
    switch (k) {
        case 0: return cr_softmax(x, -1);
        case 1: return cr_layer_norm(x, w, w, 1e-5);
        case 2: return cr_sum(x, CR_LIST(1), false);
        case 3: return cr_max(x, CR_LIST(1), false);
        case 4: return cr_min(x, CR_LIST(1), false);
        case 5: return cr_prod(cr_to(cr_clamp(x, -5, 5), CR_I64, cr_device_of(x)), CR_LIST(1), false);
        case 6: return cr_add(cr_argmax(x, 1, false), cr_argmin(x, 1, false));
        default: return cr_var(x, CR_ALL, 1, false);
    }
}

TEST(subgroups) {
    gpu *g = the_gpu();
    OK(cr_synchronize(dev()));                      /* opens it */
    const int size = g->subgroups;
    if (!size) SKIP("this adapter has no subgroups of one size");
    cr_generator *random = cr_generator_new(test_seed());
    for (int64_t N = 67; N < 40000; N *= 5)
        for (int odd = 0; odd < 2; odd++) {
            cr_scope_begin();
            cr_tensor *x = cr_randn(CR_LIST(3, N), CR_F32, dev(), random),
                      *w = cr_randn(CR_LIST(N), CR_F32, dev(), random);
            if (odd) {                              /* only zeros, NaN, infinities */
                cr_fill_(cr_select(x, 0, 0), -0.0);
                cr_fill_(cr_slice(cr_select(x, 0, 0), 0, N / 2, N, 2), 0);
                cr_fill_(cr_slice(cr_select(x, 0, 1), 0, N / 3, N / 3 + 1, 1), (double)NAN);
                cr_fill_(cr_slice(cr_select(x, 0, 2), 0, N / 3, N, 7), (double)INFINITY);
            }
            for (int k = 0; k < 8; k++) {
                cr_tensor *y[2];
                for (int i = 0; i < 2; i++) {
                    g->subgroups = i ? size : 0;
                    REQUIRE(y[i] = cr_to(tree(k, x, w), CR_F32, cr_cpu()), "%s", cr_error());
                }
                CHECK(!memcmp(cr_data(y[0]), cr_data(y[1]), sizeof(float) * (size_t)cr_numel(y[0])),
                      "tree %d of %lld%s: other bits through subgroups", k, (long long)N, odd ? ", odd numbers" : "");
                test_ran_on(dev());
            }
            cr_scope_end();
        }
    cr_generator_free(random);
}

/* The same matrices, transposed in memory. */
static cr_tensor *turned(cr_tensor *x, bool yes) {
    return yes ? cr_transpose(cr_contiguous(cr_transpose(x, -1, -2)), -1, -2) : x;
}

/* Products with workgroup memory and without, whichever this GPU would choose. */
TEST(products) {
    /* M, N, K; the last takes two dispatches */
    static const int64_t shapes[][3] = {{1, 67, 130},  {2, 5, 7},     {3, 64, 16},   {9, 65, 33},
                                        {67, 131, 71}, {2, 3, 16391}, {1, 1, 131075}};
    gpu *g = the_gpu();
    const bool software = g->dev.software;
    cr_generator *random = cr_generator_new(test_seed());
    for (int i = 0; i < 4 * (int)(sizeof shapes / sizeof *shapes); i++) {
        if (!test_sampled(i / 4 + i, 4)) continue;
        const int64_t *s = shapes[i / 4], M = s[0], N = s[1], K = s[2];
        const cr_dtype dt = i % 4 == 3 ? CR_I16 : i % 4 == 2 && K < 1 << 17 ? CR_BF16 : CR_F32;
        cr_scope_begin();
        cr_tensor *a = cr_to(cr_randint(-3, 4, CR_LIST(3, M, K), CR_I64, cr_cpu(), random), dt, cr_cpu());
        cr_tensor *b = cr_to(cr_randint(-3, 4, CR_LIST(K, N), CR_I64, cr_cpu(), random), dt, cr_cpu()),
                  *wanted = cr_matmul(a, b);
        a = turned(cr_to(a, dt, dev()), i % 2), b = turned(cr_to(b, dt, dev()), i % 2);
        for (int k = 0; k < 2; k++) {
            g->dev.software = k;
            cr_tensor *c = cr_matmul(a, b);
            REQUIRE(c, "%s", cr_error());
            const double wrong = cr_item(cr_sum(cr_ne(cr_to(c, dt, cr_cpu()), wanted), CR_ALL, false));
            CHECK(wrong == 0, "%s (3, %lld, %lld) by (%lld, %lld)%s, %s shared memory: %g elements are wrong",
                  cr_dtype_name(dt), (long long)M, (long long)K, (long long)K, (long long)N, i % 2 ? ", turned" : "",
                  k ? "without" : "through", wrong);
            test_ran_on(dev());
        }
        cr_scope_end();
    }
    g->dev.software = software;
    cr_generator_free(random);
}

/* ---- kernels against the cpu: results and gradients, the largest difference relative to the
 * largest element */
static void follows(const cr_tensor *here, const cr_tensor *there, double tolerance, const char *what) {
    REQUIRE(here && there, "%s: %s", what, cr_error());
    cr_tensor *got = cr_to(here, CR_F32, cr_cpu()), *want = cr_to(there, CR_F32, cr_cpu());
    got = cr_where(cr_eq(got, want), cr_zeros_like(got), cr_sub(got, want));       /* infinities */
    const double most = cr_item(cr_max(cr_abs(cr_where(cr_isinf(want), cr_zeros_like(want), want)), CR_ALL, false)),
                 wrong = cr_item(cr_max(cr_abs(got), CR_ALL, false));
    CHECK(wrong <= tolerance * (1 + most), "%s: wrong by %g where elements are up to %g", what, wrong, most);
    test_ran_on(dev());
}

typedef cr_tensor *(*function)(cr_tensor *const x[], const void *how);

/* y = f(x) on both devices, and the gradients of the sum of y times g: x[0 .. n - 1] are leaves,
 * x[n] is g. */
static void both(function f, const void *how, int n, cr_tensor *const x[], cr_dtype dt, double tolerance,
                 const char *what) {
    cr_tensor *y[2], *in[2][8];
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i <= n; i++) in[d][i] = cr_to(x[i], dt, d ? dev() : cr_cpu());
        for (int i = 0; i < n; i++) cr_requires_grad_(in[d][i] = cr_detach(in[d][i]), true);
        REQUIRE(y[d] = f(in[d], how), "%s: %s", what, cr_error());
        OK(cr_backward(y[d], in[d][n], NULL));
    }
    follows(y[1], y[0], tolerance, what);
    for (int i = 0; i < n; i++) follows(cr_grad(in[1][i]), cr_grad(in[0][i]), tolerance, what);
}

/* inside: (B, T, H, D) in memory; mask 1: over keys, 2: over queries, keys and heads; shared: heads of q for each of k
 * and v */
typedef struct heads { int64_t B, H, T, S, D; bool causal, inside; int mask; int64_t shared, window; } heads;
static cr_tensor *attend(cr_tensor *const x[], const void *p) {
    const heads *h = p;
    cr_tensor *q[3];
    for (int i = 0; i < 3; i++) q[i] = h->inside ? cr_transpose(x[i], 1, 2) : x[i];
    cr_tensor *mask = NULL;
    if (h->mask) {                                  /* -Inf, 0.5, 1 ... ; one query sees nothing */
        cr_tensor *n = cr_arange(0, (double)(h->S * (h->mask == 2 ? h->T : 1)), 1, CR_F32, cr_device_of(x[0]));
        mask = cr_mul_scalar(cr_remainder(n, cr_full(CR_LIST(1), 5, CR_F32, cr_device_of(x[0]))), 0.5);
        mask = cr_masked_fill(mask, cr_eq(mask, cr_scalar(0)), (double)-INFINITY);
        if (h->mask == 2)
            cr_fill_(cr_select(mask = cr_reshape(mask, CR_LIST(h->T, h->S)), 0, h->T / 2), (double)-INFINITY);
        mask = cr_to(mask, cr_dtype_of(x[0]), cr_device_of(x[0]));
    }
    return cr_attention(q[0], q[1], q[2],
                        &(cr_attention_options){.causal = h->causal, .mask = mask, .window = h->window});
}

TEST(attention) {
    static const heads all[] = {{1, 2, 5, 7, 3, false, false, 0, 0, 0},
                                {2, 3, 131, 131, 32, true, true, 0, 0, 0},
                                {1, 1, 67, 3, 5, true, false, 0, 0, 0},
                                {1, 2, 3, 67, 64, true, true, 1, 0, 0},
                                {2, 1, 65, 130, 17, false, false, 2, 0, 0},
                                {2, 6, 67, 67, 16, true, true, 2, 3, 20},
                                {1, 4, 70, 35, 20, true, false, 0, 2, 0},
                                {1, 6, 1, 150, 8, true, true, 1, 6, 70},
                                {1, 2, 66, 66, 8, true, true, 2, 0, 0},
                                {1, 1, 1, 9, 130, true, false, 0, 0, 0},
                                {1, 2, 37, 70, 96, true, true, 1, 2, 0},
                                {1, 1, 67, 41, 251, false, false, 2, 0, 0},
                                {1, 1, 5, 6, 261, true, false, 1, 0, 0}};      /* composed */
    for (int i = 0; i < 2 * (int)(sizeof all / sizeof *all); i++) {
        if (!test_sampled(i / 2 + i, 4)) continue;
        const heads *h = &all[i / 2];
        const cr_dtype dt = i % 2 ? CR_BF16 : CR_F32;
        cr_generator *random = cr_generator_new(test_seed());
        char what[120];
        snprintf(what, sizeof what, "attention %s B %d H %d T %d S %d D %d causal %d mask %d shared %d window %d",
                 cr_dtype_name(dt), (int)h->B, (int)h->H, (int)h->T, (int)h->S, (int)h->D, h->causal, h->mask,
                 (int)h->shared, (int)h->window);
        cr_scope_begin();
        cr_tensor *x[4];
        for (int k = 0; k < 4; k++) {
            const int64_t rows = k == 1 || k == 2 ? h->S : h->T;
            const int64_t H = h->shared && (k == 1 || k == 2) ? h->H / h->shared : h->H;
            x[k] = h->inside && k < 3 ? cr_randn(CR_LIST(h->B, rows, H, h->D), CR_F32, cr_cpu(), random)
                                      : cr_randn(CR_LIST(h->B, H, rows, h->D), CR_F32, cr_cpu(), random);
        }
        both(attend, h, 3, x, dt, dt == CR_F32 ? 1e-5 : 0.01, what);
        cr_scope_end();
        cr_generator_free(random);
    }
}

/* The bits of a query do not depend on the other queries of the call, nor on keys that it does not see. */
TEST(attention_of_some_queries) {
    static const int64_t sizes[] = {20, 64, 96, 200};       /* f32, f16, f32, f16 */
    const cr_attention_options causal = {.causal = true};
    for (int i = 0; i < 4; i++) {
        if (!test_sampled(i / 2 + i, 2)) continue;
        const int64_t T = 75, D = sizes[i];
        const cr_dtype dt = i % 2 ? CR_F16 : CR_F32;
        cr_generator *random = cr_generator_new(test_seed());
        cr_scope_begin();
        cr_tensor *x[3];
        for (int k = 0; k < 3; k++) x[k] = cr_to(cr_randn(CR_LIST(1, 2, T, D), CR_F32, cr_cpu(), random), dt, dev());
        cr_tensor *all = cr_attention(x[0], x[1], x[2], &causal),
                  *last = cr_attention(cr_slice(x[0], 2, 41, T, 1), x[1], x[2], &causal);
        const double other = cr_item(cr_sum(cr_ne(cr_slice(all, 2, 41, T, 1), last), CR_ALL, false));
        CHECK(other == 0, "%s D %lld: %g elements of the last queries have other bits", cr_dtype_name(dt),
              (long long)D, other);
        cr_tensor *q = cr_requires_grad_(cr_detach(x[0]), true), *hidden[2], *g[2];
        for (int k = 0; k < 2; k++) {
            OK(cr_backward(cr_attention(q, x[1], x[2], &causal), all, NULL));
            g[k] = cr_slice(cr_contiguous(cr_grad(q)), 2, 0, 50, 1);
            OK(cr_set_grad(q, CR_NONE));
            for (int n = 1; n < 3 && !k; n++)
                cr_fill_(cr_slice(x[n], 2, 50, 51, 1), (double)NAN);
            hidden[k] = cr_slice(k ? cr_attention(x[0], x[1], x[2], &causal) : all, 2, 0, 50, 1);
        }
        CHECK(cr_item(cr_sum(cr_ne(hidden[0], hidden[1]), CR_ALL, false)) == 0, "%s D %lld: a key that is not seen",
              cr_dtype_name(dt), (long long)D);
        CHECK(cr_item(cr_sum(cr_ne(g[0], g[1]), CR_ALL, false)) == 0, "%s D %lld: dq by a key that is not seen",
              cr_dtype_name(dt), (long long)D);
        cr_scope_end();
        cr_generator_free(random);
        test_ran_on(dev());
    }
}

/* The most keys, or queries, that a software GPU takes: lavapipe ends an invocation after 65,535 turns of its loops. */
TEST(attention_of_many_keys) {
    static const int64_t sizes[] = {64, 200};
    gpu *g = the_gpu();
    const bool software = g->dev.software;
    g->dev.software = true;
    cr_generator *random = cr_generator_new(test_seed());
    for (int i = 0; i < 4; i++) {
        if (!test_sampled(i / 2 + i, 2)) continue;
        const int64_t D = sizes[i / 2];
        int64_t n = 1;
        cr_scope_begin();
        for (int64_t step = 1 << 20; step; step /= 2) {
            const cr_array q = {.dev = dev(), .dtype = CR_F32, .ndim = 4, .shape = {1, 1, i % 2 ? n + step : 1, D}},
                           k = {.dev = dev(), .dtype = CR_F32, .ndim = 4, .shape = {1, 1, i % 2 ? 1 : n + step, D}};
            if (cr_gpu_attention_takes(&q, &k)) n += step;
        }
        const heads h = {1, 1, i % 2 ? n : 1, i % 2 ? 1 : n, D, false, false, 0, 0, 0};
        cr_tensor *x[4];
        for (int k = 0; k < 4; k++)
            x[k] = cr_randn(CR_LIST(1, 1, k == 1 || k == 2 ? h.S : h.T, D), CR_F32, cr_cpu(), random);
        char what[60];
        snprintf(what, sizeof what, "attention of %lld queries, %lld keys, D %lld", (long long)h.T, (long long)h.S,
                 (long long)D);
        both(attend, &h, 3, x, CR_F32, 1e-4, what);
        cr_scope_end();
    }
    cr_generator_free(random);
    g->dev.software = software;
}

static cr_tensor *layer_norm(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_layer_norm(x[0], x[1], x[2], 1e-5);
}
static cr_tensor *rms_norm(cr_tensor *const x[], const void *p) { (void)p; return cr_rms_norm(x[0], x[1], 1e-5); }
static cr_tensor *bare_norm(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_layer_norm(x[0], CR_NONE, CR_NONE, 1e-5);
}

TEST(norms) {
    static const int64_t shapes[][2] = {{1, 7}, {67, 13}, {2500, 3}, {5, 771}};
    for (int i = 0; i < 2 * (int)(sizeof shapes / sizeof *shapes); i++) {
        const int64_t M = shapes[i / 2][0], N = shapes[i / 2][1];
        const cr_dtype dt = i % 2 ? CR_F16 : CR_F32;
        const double tolerance = dt == CR_F32 ? 3e-6 : 2e-3;
        cr_generator *random = cr_generator_new(test_seed());
        cr_scope_begin();
        cr_tensor *x = cr_randn(CR_LIST(M, N), CR_F32, cr_cpu(), random),
                  *w = cr_randn(CR_LIST(N), CR_F32, cr_cpu(), random),
                  *b = cr_randn(CR_LIST(N), CR_F32, cr_cpu(), random),
                  *g = cr_randn(CR_LIST(M, N), CR_F32, cr_cpu(), random);
        both(layer_norm, NULL, 3, (cr_tensor *[]){x, w, b, g}, dt, tolerance, "layer_norm");
        both(rms_norm, NULL, 2, (cr_tensor *[]){x, w, g}, dt, tolerance, "rms_norm");
        both(bare_norm, NULL, 1, (cr_tensor *[]){x, g}, dt, tolerance, "layer_norm without weights");
        cr_scope_end();
        cr_generator_free(random);
    }
}

TEST(over_logits) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F16, CR_BF16};
    for (int i = 0; i < 3; i++) check_over_logits(dev(), dtypes[i], true);
}

TEST(wide_products) {                               /* with workgroup memory and without */
    gpu *g = the_gpu();
    const bool software = g->dev.software;
    for (int k = 0; k < 2; k++) {
        g->dev.software = k;
        check_wide_products(dev());
    }
    g->dev.software = software;
}
TEST(wide_gradients) { check_wide_gradients(dev()); }

/* A batch ends by its estimated work, and what one dispatch cannot do in time is split. */
TEST(work) {
    gpu *g = the_gpu();
    const double most = g->most_work;
    cr_scope_begin();
    cr_tensor *a = cr_full(CR_LIST(1024, 64), 0.5, CR_F32, dev()), *b = cr_full(CR_LIST(64, 1024), 2, CR_F32, dev());
    OK(cr_synchronize(dev()));
    gpu_counters before = g->counters;
    for (int i = 0; i < 24; i++) {
        cr_scope_begin();
        CHECK(cr_matmul(a, b), "%s", cr_error());
        cr_scope_end();
        CHECK(i || g->counters.submits == before.submits + 1, "the first product waits for more");
    }
    /* a product: 2^26 multiply-adds, and 4.5 MiB read and written */
    const int64_t submits = g->counters.submits - before.submits;
    CHECK(submits >= 2 && submits <= 6, "24 products of 2^26 multiply-adds took %lld submissions", (long long)submits);
    cr_generator *random = cr_generator_new(test_seed());
    cr_tensor *q = cr_randn(CR_LIST(2, 3, 40, 8), CR_F32, cr_cpu(), random), *x = cr_to(q, CR_F32, dev()),
              *wide = cr_reshape(x, CR_LIST(6, 320)), *first = cr_attention(x, x, x, NULL),
              *product = cr_matmul(cr_transpose(wide, 0, 1), wide);
    OK(cr_synchronize(dev()));
    g->most_work = 1000;
    before = g->counters;
    cr_tensor *again = cr_attention(x, x, x, NULL);
    const int64_t parts = g->counters.dispatches - before.dispatches;
    cr_tensor *cut = cr_matmul(cr_transpose(wide, 0, 1), wide);
    const int64_t cuts = g->counters.dispatches - before.dispatches - parts;
    g->most_work = most;
    CHECK(parts >= 6 && cuts >= 320 * 320 * 6 / 16000, "attention took %lld dispatches, a product %lld: %s",
          (long long)parts, (long long)cuts, cr_error());
    CHECK(cr_item(cr_sum(cr_ne(first, again), CR_ALL, false)) == 0, "attention in parts: other bits");
    CHECK(cr_item(cr_sum(cr_ne(product, cut), CR_ALL, false)) == 0, "a product in parts: other bits");
    cr_generator_free(random);
    cr_scope_end();
    test_ran_on(dev());
}

/* ---- a driver that ends the loops of an invocation after `most_turns` turns in all: kernels are compiled with a
 * counter in each loop */
static __typeof__(wgpuDeviceCreateShaderModule) *true_module;
static int most_turns;
static WGPUShaderModule counting_module(WGPUDevice device, const WGPUShaderModuleDescriptor *d) {
    const WGPUShaderSourceWGSL *source = (const WGPUShaderSourceWGSL *)(const void *)d->nextInChain;
    wgsl w = {0};
    cr_wgsl_add(&w, "var<private> turns: u32;\n");
    for (const char *at = source->code.data; *at;) {
        const int n = (int)strcspn(at, "\n"), blank = (int)strspn(at, " ");
        const bool opens = n && at[n - 1] == '{', loops = !strncmp(at + blank, "for (", 5) ||
                                                         !strncmp(at + blank, "while ", 6) ||
                                                         !strncmp(at + blank, "loop {", 6);
        cr_wgsl_add(&w, "%.*s\n", n, at);
        if (opens && loops) cr_wgsl_add(&w, "turns++; if turns > %du { break; }\n", most_turns);
        at += n + (at[n] == '\n');
    }
    WGPUShaderSourceWGSL counted = *source;
    counted.code = (WGPUStringView){w.out.text, WGPU_STRLEN};
    WGPUShaderModule module =
        true_module(device, &(WGPUShaderModuleDescriptor){.nextInChain = &counted.chain, .label = d->label});
    cr_wgsl_free(&w);
    return module;
}

/* The largest difference from the cpu of to += src by row, through kernels that count their turns. */
static double sum_by_row(const cr_tensor *src, const cr_tensor *index, int64_t rows, int turns, int64_t *dispatches) {
    gpu *g = the_gpu();
    gpu_pipeline *compiled[GPU_PIPELINE_LISTS];
    memcpy(compiled, g->pipelines, sizeof compiled);
    memset(g->pipelines, 0, sizeof compiled);
    true_module = cr_wg.DeviceCreateShaderModule;
    __typeof__(wgpuDeviceCreateShaderModuleTrusted) *trusted = cr_wg.DeviceCreateShaderModuleTrusted;
    cr_wg.DeviceCreateShaderModule = counting_module;
    cr_wg.DeviceCreateShaderModuleTrusted = NULL;
    most_turns = turns;
    const cr_dtype dt = cr_dtype_of(src);
    cr_tensor *to = cr_ones(CR_LIST(rows, cr_size(src, 1)), dt, cr_cpu()), *there = cr_to(src, dt, dev()),
              *at = cr_to(index, CR_I64, dev()), *far = cr_to(to, dt, dev());
    OK(cr_synchronize(dev()));
    const int64_t before = g->counters.dispatches;
    cr_tensor *got = cr_index_add(far, 0, at, there);
    *dispatches = g->counters.dispatches - before;
    cr_tensor *want = cr_index_add(to, 0, index, src);
    const double off =
        got ? cr_item(cr_max(cr_abs(cr_to(cr_sub(cr_to(got, dt, cr_cpu()), want), CR_F32, cr_cpu())), CR_ALL, false))
            : -1;
    cr_wg.DeviceCreateShaderModule = true_module;
    cr_wg.DeviceCreateShaderModuleTrusted = trusted;
    cr_gpu_groups_clear(g);
    cr_gpu_pipelines_forget(g);
    memcpy(g->pipelines, compiled, sizeof compiled);
    test_ran_on(dev());
    return off;
}

TEST(sums_by_row) {
    enum { K = 8192, N = 128, ROWS = 1000 };
    static const cr_dtype all[] = {CR_F32, CR_I64, CR_U8};
    cr_generator *random = cr_generator_new(test_seed());
    int64_t dispatches;
    for (int i = 0; i < 9; i++) {                   /* many rows, one row, rows in order */
        const cr_dtype dt = all[i / 3];
        cr_scope_begin();
        const cr_tensor *src = cr_to(cr_randint(-3, 4, CR_LIST(K, i ? 3 : N), CR_I64, cr_cpu(), random), dt, cr_cpu()),
                        *index = i % 3 == 0   ? cr_randint(0, ROWS, CR_LIST(K), CR_I64, cr_cpu(), random)
                                 : i % 3 == 1 ? cr_full(CR_LIST(K), 7, CR_I64, cr_cpu())
                                              : cr_floor_divide(cr_arange(0, K, 1, CR_I64, cr_cpu()),
                                                                cr_scalar_int(67));
        const double off = sum_by_row(src, index, ROWS, 1024, &dispatches);
        CHECK(off == 0, "case %d, %s: off by %g: %s", i, cr_dtype_name(dt), off, cr_error());
        CHECK(dispatches <= 12, "case %d took %lld dispatches", i, (long long)dispatches);
        if (!i) printf("  %d rows of %d into %d: %lld dispatches\n", K, N, ROWS, (long long)dispatches);
        if (!i) CHECK(sum_by_row(src, index, ROWS, 16, &dispatches) != 0, "no loop was counted");
        cr_scope_end();
    }
    /* a line for each m, n; more than one level; an index out of range changes nothing */
    for (int i = 0; i < 2; i++) {
        const int64_t shape[] = {2, i % 2 ? 131 : 5000, 3};
        cr_scope_begin();
        cr_tensor *src = cr_randint(-3, 4, 3, shape, CR_I64, cr_cpu(), random),
                  *index = cr_randint(0, 9, 3, shape, CR_I64, cr_cpu(), random),
                  *to = cr_zeros(CR_LIST(2, 9, 3), CR_F32, cr_cpu()), *far = cr_to(to, CR_F32, dev());
        src = cr_to(src, CR_F32, cr_cpu());
        follows(cr_scatter_add(far, 1, cr_to(index, CR_I64, dev()), cr_to(src, CR_F32, dev())),
                cr_scatter_add(to, 1, index, src), 0, "scatter_add by lines");
        cr_tensor *bad = cr_to(index, CR_I64, dev());
        cr_fill_(cr_select(cr_select(cr_select(bad, 0, 1), 0, 130), 0, 2), 9);
        FAILS(CR_BAD_INDEX, "[scatter_add] index 9 at position", cr_item(cr_sum(
            cr_scatter_add_(far, 1, bad, cr_to(src, CR_F32, dev())), CR_ALL, false)));
        CHECK(cr_item(cr_sum(cr_abs(far), CR_ALL, false)) == 0, "something was added");
        cr_scope_end();
    }
    cr_generator_free(random);
}

/* A driver that refuses `refusals` requests. */
static int refusals;
static __typeof__(wgpuDevicePopErrorScope) *true_pop;
static void ignore(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void *a, void *b) {
    (void)status; (void)type; (void)message; (void)a; (void)b;
}
static WGPUFuture refusing_pop(WGPUDevice device, WGPUPopErrorScopeCallbackInfo info) {
    static int scope;
    scope = !scope;
    if (!scope || !refusals) return true_pop(device, info);       /* two scopes each time */
    refusals--;
    info.callback(WGPUPopErrorScopeStatus_Success, WGPUErrorType_OutOfMemory, (WGPUStringView){"no memory", 9},
                  info.userdata1, info.userdata2);
    return true_pop(device, (WGPUPopErrorScopeCallbackInfo){.mode = info.mode, .callback = ignore});
}

TEST(refused_memory) {
    gpu *g = the_gpu();
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(5000), CR_F32, dev());
    cr_scope_begin();
    (void)cr_add(x, x);
    cr_scope_end();
    OK(cr_synchronize(dev()));
    CHECK(g->cached > 0, "nothing to empty");
    true_pop = cr_wg.DevicePopErrorScope;
    cr_wg.DevicePopErrorScope = refusing_pop;
    refusals = 1;
    cr_tensor *y = cr_empty(CR_LIST(777777), CR_F32, dev());
    CHECK(y && !refusals && !g->cached, "refused once: %s, %lld bytes in the pool", cr_error(), (long long)g->cached);
    refusals = 2;
    FAILS(CR_NO_MEMORY, "[allocate] webgpu:0: no buffer: no memory", cr_empty(CR_LIST(1777777), CR_F32, dev()));
    cr_wg.DevicePopErrorScope = true_pop;
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 5000, "afterwards: %s", cr_error());
    cr_scope_end();
    test_ran_on(dev());
}

/* A driver whose answers come later: an error scope's at the next poll but one, an old one's too. */
static WGPUPopErrorScopeCallbackInfo late_answer, stray_answer;
static int polls;
static __typeof__(wgpuDevicePoll) *true_poll;
static WGPUFuture late_pop(WGPUDevice device, WGPUPopErrorScopeCallbackInfo info) {
    late_answer = info;
    polls = 0;
    return true_pop(device, (WGPUPopErrorScopeCallbackInfo){.mode = info.mode, .callback = ignore});
}
static WGPUBool late_poll(WGPUDevice device, WGPUBool wait, const WGPUSubmissionIndex *index) {
    if (late_answer.callback && ++polls == 2) {
        const WGPUStringView none = {"", 0}, old = {"an old answer", 13};
        if (stray_answer.callback)
            stray_answer.callback(WGPUPopErrorScopeStatus_Success, WGPUErrorType_Validation, old,
                                  stray_answer.userdata1, stray_answer.userdata2);
        late_answer.callback(WGPUPopErrorScopeStatus_Success, WGPUErrorType_NoError, none, late_answer.userdata1,
                             late_answer.userdata2);
        stray_answer = late_answer;
        late_answer.callback = NULL;
    }
    return true_poll(device, wait, index);
}

TEST(late_answers) {
    cr_scope_begin();
    OK(cr_synchronize(dev()));
    true_pop = cr_wg.DevicePopErrorScope, true_poll = cr_wg.DevicePoll;
    cr_wg.DevicePopErrorScope = late_pop, cr_wg.DevicePoll = late_poll;
    cr_tensor *x = cr_ones(CR_LIST(123457), CR_F32, dev());
    const double sum = x ? cr_item(cr_sum(x, CR_ALL, false)) : 0;
    cr_wg.DevicePopErrorScope = true_pop, cr_wg.DevicePoll = true_poll;
    CHECK(sum == 123457, "%g: %s", sum, cr_error());
    CHECK(stray_answer.callback && polls >= 2, "no answer was late");
    cr_scope_end();
    test_ran_on(dev());
}

/* Convolutions through workgroup memory and without, whichever this GPU would choose. */
TEST(convolutions) {
    gpu *g = the_gpu();
    const bool software = g->dev.software;
    cr_generator *random = cr_generator_new(test_seed());
    for (int i = 0; i < 3 * CONVOLUTIONS; i++) {
        if (!test_sampled(i / 3 + i, 2)) continue;
        const convolution *c = &convolutions[i / 3];
        const cr_dtype dt = i % 3 == 2 ? CR_BF16 : CR_F32;
        char what[120];
        cr_tensor *x[4];
        cr_scope_begin();
        convolution_inputs(c, random, x);
        snprintf(what, sizeof what, "conv, %s, %s, %s workgroup memory", c->what, cr_dtype_name(dt),
                 i % 3 == 1 ? "without" : "through");
        g->dev.software = i % 3 == 1;
        both(convolve, c, 3, x, dt, dt == CR_F32 ? 1e-5 : 0.02, what);
        g->dev.software = software;
        cr_scope_end();
    }
    cr_generator_free(random);
}

/* Results with more terms than an invocation has: a workgroup shares them. */
static cr_tensor *wide_max(cr_tensor *const x[], const void *p) {
    (void)p;
    cr_pool_options o = cr_pool_defaults(2, 67);
    return cr_max_pool(x[0], &o, NULL);
}
static cr_tensor *wide_mean(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_adaptive_avg_pool(x[0], 1, (int64_t[]){1});
}
static cr_tensor *batch_norm(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_batch_norm(x[0], x[1], x[2], 1e-5, NULL, NULL);
}

static cr_tensor *small_max(cr_tensor *const x[], const void *p) {
    (void)p;
    cr_pool_options o = cr_pool_defaults(2, 3);
    for (int i = 0; i < 2; i++) o.stride[i] = o.pad[i] = 1;
    return cr_max_pool(x[0], &o, NULL);
}
static cr_tensor *doubled(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_interpolate(x[0], 1, (int64_t[]){20}, NULL);
}

TEST(wide_windows) {
    cr_generator *random = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(3, 70, 140), CR_F32, cr_cpu(), random),
              *line = cr_randn(CR_LIST(2, 5003), CR_F32, cr_cpu(), random),
              *g = cr_randn(CR_LIST(3, 1, 2), CR_F32, cr_cpu(), random),
              *of_line = cr_randn(CR_LIST(2, 1), CR_F32, cr_cpu(), random);
    for (int i = 0; i < 2; i++) {
        const cr_dtype dt = i ? CR_F16 : CR_F32;
        both(wide_max, NULL, 1, (cr_tensor *[]){x, g}, dt, 0, "max_pool of 67 x 67");
        both(wide_mean, NULL, 1, (cr_tensor *[]){line, of_line}, dt, i ? 1e-3 : 1e-6, "mean of 5003");
    }
    const double least = (double)-INFINITY, not_a_number = (double)NAN;
    for (int i = 0; i < 3; i++) {                   /* equal ones, -Inf everywhere, two NaN */
        cr_tensor *t = cr_full(CR_LIST(70, 70), i == 1 ? least : 2, CR_F32, cr_cpu()), *index[2], *y[2];
        if (i == 2) cr_fill_(cr_select(cr_select(t, 0, 7), 0, 3), not_a_number);
        if (i == 2) cr_fill_(cr_select(cr_select(t, 0, 30), 0, 11), not_a_number);
        cr_pool_options o = cr_pool_defaults(2, 67);
        for (int d = 0; d < 2; d++) y[d] = cr_max_pool(cr_to(t, CR_F32, d ? dev() : cr_cpu()), &o, &index[d]);
        REQUIRE(y[0] && y[1], "%s", cr_error());
        CHECK(cr_item(index[0]) == cr_item(index[1]), "case %d: position %g, wanted %g", i, cr_item(index[1]),
              cr_item(index[0]));
        test_ran_on(dev());
    }
    cr_scope_end();
    cr_generator_free(random);
}

/* The mean of numbers near 30 may be off by one unit of their last place, 2e-6, and the weight's gradient by that
 * times the sum of g, about 100. */
TEST(batch_norms) {
    static const int64_t shapes[][3] = {{1, 1, 7}, {67, 13, 1}, {300, 3, 11}, {2, 5, 1771}, {1, 2, 9001}, {1031, 2, 3}};
    for (int i = 0; i < 2 * (int)(sizeof shapes / sizeof *shapes); i++) {
        const int64_t *s = shapes[i / 2];
        const cr_dtype dt = i % 2 ? CR_F16 : CR_F32;
        char what[80];
        cr_generator *random = cr_generator_new(test_seed());
        cr_scope_begin();
        cr_tensor *x = cr_add_scalar(cr_randn(CR_LIST(s[0], s[1], s[2]), CR_F32, cr_cpu(), random), 30),
                  *w = cr_randn(CR_LIST(s[1]), CR_F32, cr_cpu(), random),
                  *b = cr_randn(CR_LIST(s[1]), CR_F32, cr_cpu(), random),
                  *g = cr_randn(CR_LIST(s[0], s[1], s[2]), CR_F32, cr_cpu(), random);
        snprintf(what, sizeof what, "batch_norm (%lld, %lld, %lld), %s", (long long)s[0], (long long)s[1],
                 (long long)s[2], cr_dtype_name(dt));
        both(batch_norm, NULL, 3, (cr_tensor *[]){x, w, b, g}, dt, dt == CR_F32 ? 4e-5 : 3e-3, what);
        cr_scope_end();
        cr_generator_free(random);
    }
}

/* ---- tensors larger than one binding: here 4 KiB, so that a thousand elements are too many */
static cr_tensor *five(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_tanh(cr_sub(cr_mul(x[0], x[1]), x[0]));
}
static cr_tensor *turned_sum(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_add(cr_transpose(x[0], 0, 1), cr_contiguous(cr_transpose(x[1], 0, 1)));
}
static cr_tensor *sums(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_add(cr_add(cr_sum(x[0], CR_LIST(0), false), cr_sum(x[0], CR_ALL, false)),
                  cr_add(cr_var(x[0], CR_LIST(0), 1, false), cr_max(x[0], CR_LIST(0), false)));
}
static cr_tensor *sums_of_rows(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_add(cr_sum(x[0], CR_LIST(1), false), cr_var(x[0], CR_LIST(1), 1, false));
}
static cr_tensor *softmaxes(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_add(cr_softmax(x[0], -1), cr_log_softmax(x[0], -1));
}
static cr_tensor *multiplied(cr_tensor *const x[], const void *p) {
    (void)p;
    return cr_linear(x[0], x[1], x[2]);
}
static cr_tensor *looked_up(cr_tensor *const x[], const void *p) {
    return cr_embedding(x[0], cr_from(p, CR_LIST(5), CR_I64, cr_device_of(x[0])));
}
static cr_tensor *entropy(cr_tensor *const x[], const void *p) {
    return cr_cross_entropy(x[0], cr_from(p, CR_LIST(67), CR_I64, cr_device_of(x[0])), NULL);
}

TEST(windows) {
    static const int64_t places[67] = {66, 3, 41, 3, 0}, wrong[67] = {[66] = 131};
    OK(cr_synchronize(dev()));                      /* opens it */
    gpu *g = the_gpu();
    const size_t window = g->window;
    cr_generator *random = cr_generator_new(test_seed());
    cr_scope_begin();
    g->window = 4096;
    cr_tensor *x = cr_randn(CR_LIST(67, 131), CR_F32, cr_cpu(), random),
              *y = cr_randn(CR_LIST(67, 131), CR_F32, cr_cpu(), random),
              *w = cr_randn(CR_LIST(71, 131), CR_F32, cr_cpu(), random);
    cr_tensor *turned_y = cr_contiguous(cr_transpose(y, 0, 1)), *row = cr_randn(CR_LIST(131), CR_F32, cr_cpu(), random),
              *column = cr_randn(CR_LIST(67), CR_F32, cr_cpu(), random),
              *wide = cr_randn(CR_LIST(67, 71), CR_F32, cr_cpu(), random),
              *bias = cr_randn(CR_LIST(71), CR_F32, cr_cpu(), random),
              *few = cr_randn(CR_LIST(5, 131), CR_F32, cr_cpu(), random);
    both(five, NULL, 2, (cr_tensor *[]){x, y, y}, CR_F32, 1e-6, "five ops");
    both(five, NULL, 2, (cr_tensor *[]){x, y, y}, CR_BF16, 1e-2, "five ops, bf16");
    both(turned_sum, NULL, 2, (cr_tensor *[]){x, y, turned_y}, CR_F32, 1e-6, "transposes");
    both(sums, NULL, 1, (cr_tensor *[]){x, row}, CR_F32, 1e-5, "reductions to a row");
    both(sums_of_rows, NULL, 1, (cr_tensor *[]){x, column}, CR_F32, 1e-5, "reductions to a column");
    both(softmaxes, NULL, 1, (cr_tensor *[]){x, y}, CR_F32, 1e-5, "softmax");
    g->window = 20480;                              /* of 35108; the sums of weights take 32 rows at once */
    both(layer_norm, NULL, 3, (cr_tensor *[]){x, row, row, y}, CR_F32, 1e-5, "layer_norm");
    g->window = 10240;
    both(rms_norm, NULL, 2, (cr_tensor *[]){x, row, y}, CR_F16, 5e-3, "rms_norm, f16");
    g->window = 4096;
    both(multiplied, NULL, 3, (cr_tensor *[]){x, w, bias, wide}, CR_F32, 1e-5, "linear");
    both(looked_up, places, 1, (cr_tensor *[]){x, few}, CR_F32, 1e-6, "embedding");
    both(entropy, places, 1, (cr_tensor *[]){x, cr_ones(0, NULL, CR_F32, cr_cpu())}, CR_F32, 1e-5, "cross_entropy");
    convolution small = {"windows", 7, 3, 2, 1, {11, 13}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, false};
    cr_tensor *of_conv[4];
    convolution_inputs(&small, random, of_conv);
    both(convolve, &small, 3, of_conv, CR_F32, 1e-5, "conv");
    both(convolve, &small, 3, of_conv, CR_F16, 1e-2, "conv, f16");
    cr_tensor *images = cr_randn(CR_LIST(5, 15, 10), CR_F32, cr_cpu(), random);
    both(small_max, NULL, 1, (cr_tensor *[]){images, cr_slice(images, 0, 0, 5, 1)}, CR_F32, 0, "max_pool");
    cr_tensor *twice = cr_randn(CR_LIST(5, 15, 20), CR_F32, cr_cpu(), random);
    both(doubled, NULL, 1, (cr_tensor *[]){images, twice}, CR_F32, 1e-6, "interpolate");
    g->window = 32768;
    both(batch_norm, NULL, 3, (cr_tensor *[]){x, row, row, y}, CR_F32, 1e-5, "batch_norm");
    g->window = 4096;
    both(batch_norm, NULL, 3, (cr_tensor *[]){cr_reshape(cr_slice(x, 0, 0, 33, 1), CR_LIST(1, 3, 1441)),
                                              cr_slice(row, 0, 0, 3, 1), cr_slice(row, 0, 3, 6, 1),
                                              cr_reshape(cr_slice(y, 0, 0, 33, 1), CR_LIST(1, 3, 1441))},
         CR_BF16, 3e-2, "batch_norm of few channels");
    cr_tensor *here = cr_to(x, CR_F32, dev()), *flags = cr_gt(here, cr_scalar(0));
    follows(cr_to(cr_sum(flags, CR_ALL, false), CR_F32, dev()),
            cr_to(cr_sum(cr_gt(x, cr_scalar(0)), CR_ALL, false), CR_F32, cr_cpu()), 0, "how many are above 0");
    follows(cr_fill_(cr_slice(here, 1, 1, 130, 3), 7), cr_fill_(cr_slice(cr_clone(x), 1, 1, 130, 3), 7), 0,
            "every third column filled");
    FAILS(CR_BAD_INDEX, "[cross_entropy] index 131 at position 66 is out of range for size 131",
          cr_item(entropy((cr_tensor *[]){here}, wrong)));
    FAILS(CR_NO_MEMORY, "[argmax] webgpu:0 binds at most 0.003906 MiB at once, and this kernel wants a tensor of",
          cr_argmax(cr_reshape(here, CR_LIST(67 * 131)), 0, false));
    x = cr_clone(x), here = cr_to(x, CR_F32, dev());
    follows(cr_add_(cr_slice(here, 0, 0, 1, 1), cr_slice(here, 0, 66, 67, 1)),
            cr_add_(cr_slice(x, 0, 0, 1, 1), cr_slice(x, 0, 66, 67, 1)), 0, "the last row added to the first");
    g->window = window;
    cr_scope_end();
    cr_generator_free(random);
    test_ran_on(dev());
}

/* The same for operations without sums: results are equal to the bit. */
static cr_tensor *windowed(int k, cr_tensor *x, cr_tensor *index) {
    cr_tensor *at = NULL;
    switch (k) {
        case 0: return cr_argmax(x, 1, false);
        case 1: return cr_argmin(x, 1, true);
        case 2: return cr_argmax(cr_transpose(x, 0, 1), 0, false);
        case 3: return cr_cummax(x, 1, &at);
        case 4: return cr_cummin(x, 1, &at), at;
        case 5: return cr_cumsum(cr_gt(x, cr_scalar(0)), 1);
        case 6: return cr_sort(x, 1, true, &at), at;
        case 7: return cr_sort(cr_contiguous(cr_slice(x, 1, 0, 31, 1)), 1, false, NULL);
        case 8: return cr_topk(x, 5, 1, true, &at);
        case 9: return cr_median(x, CR_LIST(1), false, NULL);
        case 10: return cr_searchsorted(cr_sort(x, 1, false, NULL), x, false, CR_NONE);
        case 11: return cr_searchsorted(cr_select(cr_sort(x, 1, false, NULL), 0, 3), x, true, CR_NONE);
        case 12: return cr_gather(x, 1, index);
        case 13: return cr_gather(x, 0, cr_remainder(index, cr_scalar_int(67)));
        case 14: return cr_scatter(x, 1, index, cr_cumsum(cr_ones_like(x), 1));
        case 15: return cr_scatter_add(cr_ones_like(x), 0, cr_remainder(index, cr_scalar_int(67)), cr_ones_like(x));
        case 16: return cr_index_select(x, 0, cr_remainder(cr_reshape(index, CR_LIST(67 * 131)), cr_scalar_int(67)));
        case 17:
            return cr_index_add(x, 0, cr_remainder(cr_reshape(index, CR_LIST(67 * 131)), cr_scalar_int(67)),
                                cr_ones(CR_LIST(67 * 131, 131), CR_F32, cr_device_of(x)));
        case 18: return cr_index_get(x, 2, (const cr_tensor *[]){cr_remainder(index, cr_scalar_int(67)), index});
        default: return cr_flip(cr_cumprod(cr_to(cr_clamp(x, -3, 3), CR_I64, cr_device_of(x)), 1), CR_LIST(0));
    }
}

TEST(windows_of_exact_results) {
    OK(cr_synchronize(dev()));                      /* opens it */
    gpu *g = the_gpu();
    const size_t window = g->window;
    cr_generator *random = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(67, 131), CR_F32, cr_cpu(), random),
              *index = cr_randint(0, 131, CR_LIST(67, 131), CR_I64, cr_cpu(), random), *wrong;
    for (int k = 0; k < 20; k++) {
        cr_tensor *want = windowed(k, x, index), *far[2] = {cr_to(x, CR_F32, dev()), cr_to(index, CR_I64, dev())};
        g->window = k == 17 ? 65536 : 4096;         /* 17: of 4.6 MB */
        cr_tensor *got = windowed(k, far[0], far[1]);
        g->window = window;
        REQUIRE(want && got && (got = cr_to(got, cr_dtype_of(want), cr_cpu())), "%d: %s", k, cr_error());
        CHECK(cr_item(cr_sum(cr_ne(got, want), CR_ALL, false)) == 0, "%d: %g elements are wrong", k,
              cr_item(cr_sum(cr_ne(got, want), CR_ALL, false)));
        test_ran_on(dev());
    }
    for (int dt = 0; dt < 2; dt++) {                /* the same random numbers, split or not */
        cr_generator *a[2] = {cr_generator_new(3), cr_generator_new(3)};
        for (int k = 0; k < 3; k++) {
            cr_tensor *y[2];
            for (int i = 0; i < 2; i++) {
                g->window = i ? 4096 : window;
                y[i] = k == 0   ? cr_rand(CR_LIST(5003), dt ? CR_F16 : CR_F32, dev(), a[i])
                       : k == 1 ? cr_randn(CR_LIST(5003), dt ? CR_BF16 : CR_F32, dev(), a[i])
                                : cr_randint(-9, 1000, CR_LIST(5003), dt ? CR_I16 : CR_I64, dev(), a[i]);
                g->window = window;
                REQUIRE(y[i] = cr_to(y[i], cr_dtype_of(y[i]), cr_cpu()), "%s", cr_error());
            }
            CHECK(cr_item(cr_sum(cr_ne(y[0], y[1]), CR_ALL, false)) == 0, "random numbers %d", k);
            test_ran_on(dev());
        }
        for (int i = 0; i < 2; i++) cr_generator_free(a[i]);
    }
    REQUIRE(cr_fill_(cr_select(cr_select(wrong = cr_to(index, CR_I64, dev()), 0, 41), 0, 5), 131), "%s", cr_error());
    x = cr_to(x, CR_F32, dev());
    g->window = 4096;
    FAILS(CR_BAD_INDEX, "[gather] index 131 at position 5376 is out of range for size 131",
          cr_item(cr_sum(cr_gather(x, 1, wrong), CR_ALL, false)));
    FAILS(CR_NO_MEMORY, "[sort] webgpu:0 binds at most 0.003906 MiB at once",
          cr_sort(cr_reshape(x, CR_LIST(67 * 131)), 0, false, NULL));
    FAILS(CR_NO_MEMORY, "[cumsum] webgpu:0 binds at most 0.003906 MiB at once",
          cr_cumsum(cr_reshape(x, CR_LIST(67 * 131)), 0));
    heads h = {2, 6, 9, 19, 16, true, false, 2, 2, 11};
    cr_tensor *in[4];
    for (int k = 0; k < 4; k++)
        in[k] = cr_randn(CR_LIST(2, k == 1 || k == 2 ? 3 : 6, k == 1 || k == 2 ? 19 : 9, 16), CR_F32, cr_cpu(), random);
    both(attend, &h, 3, in, CR_F32, 1e-5, "attention by heads");
    g->window = 8192;
    h.inside = true;
    for (int k = 0; k < 3; k++) in[k] = cr_contiguous(cr_transpose(in[k], 1, 2));
    both(attend, &h, 3, in, CR_F32, 1e-5, "attention by batches");
    g->window = window;
    cr_scope_end();
    cr_generator_free(random);
}

/* ---- memory */
TEST(pool) {
    cr_scope_begin();
    cr_release(cr_empty(CR_LIST(100000), CR_F32, dev()));
    cr_memory before = cr_memory_stats(dev());
    CHECK(before.cached >= 400000, "%lld bytes are cached", (long long)before.cached);
    cr_tensor *x = cr_empty(CR_LIST(99000), CR_F32, dev());
    cr_memory now_ = cr_memory_stats(dev());
    CHECK(now_.cached < before.cached && now_.current >= before.current + 396000, "a block of that size was at hand");
    cr_release(x);
    cr_empty_cache(dev());
    CHECK(cr_memory_stats(dev()).cached == 0, "an emptied cache");
    cr_scope_end();
    test_ran_on(dev());
}

TEST(out_of_memory) {
    gpu *g = the_gpu();
    const int64_t before = g->budget;
    cr_scope_begin();
    OK(cr_synchronize(dev()));
    g->budget = g->now + (1 << 20);
    cr_release(cr_empty(CR_LIST(200000), CR_F32, dev()));
    cr_tensor *x = cr_empty(CR_LIST(250), CR_I32, dev());
    CHECK(x != NULL, "what is cached makes way: %s", cr_error());
    FAILS(CR_NO_MEMORY, "out of memory: asked for 3.8 MiB", cr_empty(CR_LIST(1000000), CR_F32, dev()));
    FAILS(CR_NO_MEMORY, "has no buffers beyond", cr_empty(CR_LIST(1LL << 40), CR_F32, dev()));
    g->budget = before;
    CHECK(cr_empty(CR_LIST(1000000), CR_F32, dev()) != NULL, "%s", cr_error());
    cr_scope_end();
    test_ran_on(dev());
}

/* ---- errors */
TEST(refusals) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(3), CR_F64, dev()), *y = cr_ones(CR_LIST(3), CR_F32, dev());
    FAILS(CR_BAD_TYPE,
          "[exp] webgpu:0 cannot compute in float64, it only stores it: use float32, or move the tensor to the cpu",
          cr_exp(x));
    FAILS(CR_BAD_TYPE, "[sum] webgpu:0 cannot compute in float64", cr_sum(x, CR_ALL, false));
    FAILS(CR_BAD_TYPE, "[sort] webgpu:0 cannot compute in float64", cr_sort(x, 0, false, NULL));
    FAILS(CR_BAD_TYPE, "[cumsum] webgpu:0 cannot compute in float64", cr_cumsum(x, 0));
    FAILS(CR_BAD_VALUE, "two devices", cr_add(y, cr_ones(CR_LIST(3), CR_F32, cr_cpu())));
    CHECK(cr_item(cr_sum(cr_to(x, CR_F64, cr_cpu()), CR_ALL, false)) == 3, "float64 is stored");
    cr_generator *random = cr_generator_new(test_seed());          /* f32 replaces it here */
    const double trials = cr_item(
        cr_mean(cr_geometric_(cr_empty(CR_LIST(40000), CR_F32, dev()), 0.25, random), CR_ALL, false));
    CHECK(fabs(trials - 4) < 6 * sqrt(12.0 / 40000),
          "the mean of 40000 numbers of trials, wanted 4 with a standard deviation of sqrt(12) each: %g", trials);
    cr_tensor *counts = cr_bincount(cr_from((int64_t[]){3, 1, 3}, CR_LIST(3), CR_I64, dev()),
                                    cr_from((float[]){0.5f, 2, 4}, CR_LIST(3), CR_F32, dev()), 0);
    for (int dt = CR_F16; dt <= CR_BF16; dt++) {
        cr_tensor *half = cr_bincount(
            cr_from((int64_t[]){3, 1, 3}, CR_LIST(3), CR_I64, dev()),
            cr_to(cr_from((float[]){0.5f, 2, 4}, CR_LIST(3), CR_F32, dev()), (cr_dtype)dt, dev()), 0);
        REQUIRE(half && counts, "%s", cr_error());
        CHECK(cr_dtype_of(half) == CR_F32 && cr_item(cr_sum(cr_ne(half, counts), CR_ALL, false)) == 0 &&
                  cr_item(cr_select(half, 0, 3)) == 4.5,
              "counts by weights of %s", cr_dtype_name((cr_dtype)dt));
    }
    cr_generator_free(random);
    cr_scope_end();
    test_ran_on(dev());
}

TEST(a_kernel_that_does_not_compile) {
    gpu_key k;
    k.n = 0, k.full = false;
    cr_gpu_key_add(&k, "broken", 6);
    gpu *g = cr_gpu_enter("broken", dev());
    REQUIRE(g, "%s", cr_error());
    const char *path = folder_path("broken.log");
    OK(cr_switch_set("LOG", path));
    /* the line */
    FAILS(CR_RUNTIME, "wgsl:2:10", cr_gpu_pipeline_make(g, "broken", &k, 0, 0, "// one\nfn main( {"));
    OK(cr_switch_set("LOG", NULL));
    FAILS(CR_RUNTIME, "does not compile", cr_gpu_pipeline_make(g, "broken", &k, 0, 0, "fn main( {"));
    FAILS(CR_RUNTIME, "no pipeline", cr_gpu_pipeline_make(g, "broken", &k, 0, 0, "fn other() {}"));
    CHECK(!cr_gpu_pipeline_find(g, &k), "nothing is kept of it");
    OK(cr_gpu_leave(g, CR_OK));
    char *text = file_get(path, NULL);
    CHECK(strstr(text, "[broken] webgpu:0: a kernel does not compile") &&
              strstr(text, "   1  // one\n   2  fn main( {\n"),
          "the log holds: %s", text);
    free(text);
    test_ran_on(dev());
}

/* Kernels are compiled without run-time checks, or with them by a library that cannot do without. */
static __typeof__(wgpuDeviceCreateShaderModuleTrusted) *true_trusted;
static int trusted_modules;
static WGPUShaderModule trusted_module(WGPUDevice device, const WGPUShaderModuleDescriptor *d,
                                       WGPUShaderRuntimeChecks checks) {
    CHECK(checks == WGPUShaderRuntimeChecks_None, "checks %llu", (unsigned long long)checks);
    trusted_modules++;
    return true_trusted(device, d, checks);
}

TEST(run_time_checks) {
    static const char text[] = "@group(0) @binding(0) var<uniform> p: vec4<u32>;\n"
                               "@compute @workgroup_size(1) fn main() {}";
    if (getenv("CHAINRULE_TEST_WGSL")) SKIP("texts are kept on their way through the checked call");
    gpu *g = cr_gpu_enter("checks", dev());
    REQUIRE(g, "%s", cr_error());
    true_trusted = cr_wg.DeviceCreateShaderModuleTrusted;
    CHECK(true_trusted, "wgpu-native 29 can do without run-time checks");
    for (int i = 0; i < 2; i++) {
        gpu_key k;
        k.n = 0, k.full = false;
        cr_gpu_key_add(&k, i ? "checked" : "trusted", 7);
        cr_wg.DeviceCreateShaderModuleTrusted = i || !true_trusted ? NULL : trusted_module;
        CHECK(cr_gpu_pipeline_make(g, "checks", &k, 0, 0, text), "%s", cr_error());
    }
    cr_wg.DeviceCreateShaderModuleTrusted = true_trusted;
    CHECK(trusted_modules == 1, "%d modules without checks", trusted_modules);
    OK(cr_gpu_leave(g, CR_OK));
    test_ran_on(dev());
}

/* A driver without subgroups whose native f16 is not used: the same results.  That a device opens without
 * subgroups is in check_wgsl.py. */
TEST(few_features) {
    gpu *g = the_gpu();
    cr_scope_begin();
    cr_generator *random = cr_generator_new(test_seed());
    cr_tensor *x = cr_randn(CR_LIST(7, 1031), CR_F32, cr_cpu(), random), *half = cr_to(x, CR_F16, cr_cpu());
    cr_tensor *here = cr_to(cr_softmax(cr_to(half, CR_F16, dev()), -1), CR_F32, cr_cpu());
    const int size = g->subgroups;
    const __typeof__(g->halves) halves = g->halves;
    gpu_pipeline *compiled[GPU_PIPELINE_LISTS];
    memcpy(compiled, g->pipelines, sizeof compiled);
    memset(g->pipelines, 0, sizeof compiled);
    g->subgroups = 0, g->halves = GPU_HALVES_LIBRARY;
    cr_tensor *there = cr_to(cr_softmax(cr_to(half, CR_F16, dev()), -1), CR_F32, cr_cpu());
    g->subgroups = size, g->halves = halves;
    cr_gpu_groups_clear(g);
    cr_gpu_pipelines_forget(g);
    memcpy(g->pipelines, compiled, sizeof compiled);
    REQUIRE(here && there, "%s", cr_error());
    CHECK(!memcmp(cr_data(here), cr_data(there), sizeof(float) * (size_t)cr_numel(here)), "other bits without them");
    cr_generator_free(random);
    cr_scope_end();
    test_ran_on(dev());
}

/* 64 small buffers fill the budget to the last byte; one more does not fit, and one that is released makes room. */
TEST(small_buffers_at_the_limit) {
    enum { SMALL = 64, BYTES = 256 };
    gpu *g = the_gpu();
    cr_tensor *all[SMALL];
    cr_scope_begin();
    OK(cr_synchronize(dev()));
    cr_empty_cache(dev());
    const int64_t before = g->budget;
    g->budget = g->now + SMALL * BYTES;
    for (int i = 0; i < SMALL; i++) CHECK(all[i] = cr_empty(CR_LIST(3), CR_F32, dev()), "%d: %s", i, cr_error());
    FAILS(CR_NO_MEMORY, "webgpu:0 is out of memory: asked for 0.0 MiB", cr_empty(CR_LIST(3), CR_F32, dev()));
    cr_release(all[5]);
    CHECK(cr_empty(CR_LIST(64), CR_F32, dev()), "one was released: %s", cr_error());
    FAILS(CR_NO_MEMORY, "webgpu:0 is out of memory", cr_empty(CR_LIST(1), CR_F32, dev()));
    g->budget = before;
    cr_scope_end();
    test_ran_on(dev());
}

/* The # lines of a .wgsl file (wgsl.h). */
TEST(lines_of_files) {
    wgsl w = {0};
    cr_wgsl_const(&w, "TWO", 2);
    cr_wgsl_const(&w, "NONE", 0);
    const size_t begin = w.out.bytes;
    cr_wgsl_file(&w, "a\n#for i TWO\n#for j TWO\n#if TWO\nb$iu$j\n#else\nc\n#end\n#end\n#end\n#if NONE\n#if "
                     "TWO\nd\n#end\n#for i TWO\ne\n#end\n#else\nf\n#end\n"
                     "#for i NONE\ng\n#end\n#if UNDEFINED\nh\n#end\ni");
    CHECK(!strcmp(w.out.text + begin, "a\nb0u0\nb0u1\nb1u0\nb1u1\nf\ni\n"), "the lines are: %s", w.out.text + begin);
    cr_wgsl_free(&w);
    test_ran_on(dev());
}

/* The next read reports an error of a kernel, once; a bad index writes nothing. */
TEST(late_errors) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(5, 3), CR_F32, dev()), *bad = cr_from((int64_t[]){1, 7}, CR_LIST(2), CR_I64, dev());
    cr_tensor *y = cr_embedding(x, bad);
    CHECK(y && !cr_error(), "found at once");
    FAILS(CR_BAD_INDEX, "[embedding] index 7 at position 1 is out of range for size 5",
          cr_item(cr_sum(x, CR_ALL, false)));
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 15, "said twice: %s", cr_error());
    /* more than GPU_FAULTS */
    for (int i = 0; i < 2 * GPU_FAULTS; i++) cr_release(cr_embedding(x, cr_zeros(CR_LIST(2), CR_I64, dev())));
    OK(cr_synchronize(dev()));
    cr_scope_end();
    test_ran_on(dev());
}

/* ---- a training step reads only the loss */
TEST(a_step) {
    gpu *g = the_gpu();
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(8, 5), 0.1, CR_F32, dev()),
              *w = cr_requires_grad_(cr_full(CR_LIST(5, 3), 0.2, CR_F32, dev()), true);
    gpu_counters before = {0};
    for (int i = 0; i < 4; i++) {
        if (i) before = g->counters;
        cr_tensor *loss = cr_mean(cr_square(cr_tanh(cr_matmul(x, w))), CR_ALL, false);
        OK(cr_backward(loss, CR_NONE, NULL));
        CHECK(i < 2 || (g->counters.submits == before.submits && g->counters.pipelines == before.pipelines),
              "a step waits or compiles");
        CHECK(isfinite(cr_item(loss)), "the loss");
    }
    /* four steps' gradients add up */
    const double y = tanh(0.1), want = 4 * (2 * y * (1 - y * y) / 24 * 8 * 0.1);
    CHECK(fabs(cr_item(cr_select(cr_select(cr_grad(w), 0, 0), 0, 0)) - want) < 1e-6, "the gradient: wanted %g", want);
    cr_scope_end();
    test_ran_on(dev());
}

/* A GPT learns the same as on the cpu: the first gradients, the weights after some steps of AdamW,
 * the losses.  The loss is read once a step, nothing else waits, and nothing is compiled after the
 * second step. */
enum { FEW = 4, MANY = 50 };
typedef struct run {
    double loss[MANY], norm;
    int64_t most_submits, compiled, updates, parameters;
    int steps;
    /* of all parameters, one after another: of the first step; after FEW steps */
    float *gradient, *weight;
} run;

static float *flat(const cr_params *p, bool gradients) {
    const int64_t n = cr_params_numel(p);
    float *all = malloc(sizeof *all * (size_t)n), *at = all;
    for (int64_t i = 0; all && i < cr_params_count(p); i++) {
        const cr_tensor *t = cr_params_at(p, i);
        OK(cr_read(gradients ? cr_grad(t) : t, CR_F32, at, sizeof *at * (size_t)cr_numel(t)));
        at += cr_numel(t);
    }
    return all;
}

static void learn(cr_gpt *m, const cr_device *d, run *r) {
    enum { B = 2, T = 16, V = 41 };
    int64_t tokens[B * T], next[B * T];
    gpu *g = the_gpu();
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 3e-3;
    cr_optim *optim = cr_optim_new(cr_gpt_params(m), &o);
    for (int i = 0; i < B * T; i++) tokens[i] = (i * i + i / 7) % V, next[i] = ((i + 1) * (i + 1) + (i + 1) / 7) % V;
    for (int k = 0; k < r->steps; k++) {
        const gpu_counters before = g->counters;
        cr_scope_begin();
        cr_tensor *x = cr_from(tokens, CR_LIST(B, T), CR_I64, d), *y = cr_from(next, CR_LIST(B, T), CR_I64, d);
        cr_tensor *loss = cr_gpt_loss(m, x, y, true);
        OK(cr_backward(loss, CR_NONE, NULL));
        if (!k)
            OK(cr_params_clip_grad_norm(cr_gpt_params(m), 1e9, &r->norm)), r->gradient = flat(cr_gpt_params(m), true);
        const int64_t dispatches = g->counters.dispatches;
        OK(cr_optim_step(optim));
        r->updates = g->counters.dispatches - dispatches;
        r->loss[k] = cr_item(loss);
        cr_scope_end();
        if (k && g->counters.submits - before.submits > r->most_submits)
            r->most_submits = g->counters.submits - before.submits;
        if (k > 1) r->compiled += g->counters.pipelines - before.pipelines;
        if (k == FEW - 1) r->weight = flat(cr_gpt_params(m), false);
    }
    r->parameters = cr_params_count(cr_gpt_params(m));
    cr_optim_free(optim);
}

/* Parameter by parameter, relative to the largest number in it, or to `step`, which one step moves
 * a weight by at most.  The keys' bias has a gradient of 0 but for rounding, and what AdamW makes
 * of that (lr g / eps) is far from exact. */
static void compare_flat(const cr_params *p, const float *here, const float *there, double tolerance, double step,
                         const char *what) {
    double worst = 0;
    for (int64_t i = 0; here && there && i < cr_params_count(p); i++) {
        const int64_t n = cr_numel(cr_params_at(p, i));
        double most = step, off = 0;
        for (int64_t j = 0; j < n; j++) {
            /* NaN too */
            if (!(fabs((double)here[j] - (double)there[j]) <= off)) off = fabs((double)here[j] - (double)there[j]);
            if (step == 0) most = fmax(most, fabs((double)here[j]));
        }
        const bool keys = step > 0 && strstr(cr_params_name(p, i), "c_attn.bias");
        CHECK(off <= tolerance * most * (keys ? 100 : 1), "%s of %s: off by %g of %g", what, cr_params_name(p, i), off,
              most);
        if (!keys) worst = fmax(worst, off / most);
        here += n, there += n;
        test_ran_on(dev());
    }
    CHECK(here && there, "out of memory");
    printf("  %s: off by %.2g at most\n", what, worst);
}

TEST(gpt) {
    run here = {.steps = test_full() ? MANY : 10}, there = {.steps = here.steps};
    const cr_gpt_config config = {41, 16, 2, 2, 32, 0.1};
    /* the same weights and dropout */
    cr_generator *a = cr_generator_new(test_seed()), *b = cr_generator_new(test_seed());
    cr_gpt *cpu = cr_gpt_new(&config, CR_F32, cr_cpu(), a), *m = cr_gpt_new(&config, CR_F32, dev(), b);
    REQUIRE(cpu && m, "%s", cr_error());
    learn(cpu, cr_cpu(), &here);
    learn(m, dev(), &there);
    /* Sums of up to 32 x 128 terms in another order: some ten times what was seen on lavapipe and on
     * SwiftShader (6e-7, 1e-3, 3e-7).  AdamW divides a gradient by its own size, so what is off in a
     * small one shows whole. */
    compare_flat(cr_gpt_params(m), here.gradient, there.gradient, 5e-6, 0, "gradient, of the largest");
    compare_flat(cr_gpt_params(m), here.weight, there.weight, 1e-2, 3e-3, "weight after a few steps, of one step");
    for (int k = 0; k < here.steps; k++)
        CHECK(fabs(there.loss[k] - here.loss[k]) <= 3e-6 * here.loss[k], "step %d: loss %.8g, on the cpu %.8g", k,
              there.loss[k], here.loss[k]);
    CHECK(fabs(there.norm - here.norm) < 5e-6 * here.norm, "norm of the gradients %.7g, on the cpu %.7g", there.norm,
          here.norm);
    CHECK(there.loss[here.steps - 1] < there.loss[0], "it does not learn");
    CHECK(there.most_submits <= 4, "a step takes %lld submits", (long long)there.most_submits);
    CHECK(there.updates <= there.parameters, "AdamW takes %lld dispatches for %lld parameters",
          (long long)there.updates, (long long)there.parameters);
    CHECK(!there.compiled, "%lld kernels were compiled after the second step", (long long)there.compiled);
    free(here.gradient), free(here.weight), free(there.gradient), free(there.weight);
    cr_gpt_free(cpu), cr_gpt_free(m);
    cr_generator_free(a), cr_generator_free(b);
    test_ran_on(dev());
}

/* A replay of a training step is one list of commands: one submission, when somebody reads its result. */
TEST(replay) {
    gpu *g = the_gpu();
    dev_now = dev();
    cr_scope_begin();
    net a = net_new(dev(), CR_ADAMW), b = net_new(dev(), CR_ADAMW);
    cr_plan *plan = NULL;
    for (int step = 0; step < 6; step++) {
        cr_scope_begin();
        const cr_tensor *in[] = {batch(dev(), step), targets(dev(), step)};
        cr_tensor *loss = net_step(&a, in[0], in[1]), *other = NULL;
        OK(cr_synchronize(dev()));
        const gpu_counters before = g->counters;
        if (step == 1) OK(cr_record_begin(2, in));
        if (step <= 1) other = net_step(&b, in[0], in[1]);
        if (step == 1) plan = cr_record_end(1, (const cr_tensor *const *)&other);
        if (step > 1) OK(cr_plan_run(plan, in, &other));
        const double value = cr_item(other);
        CHECK(value > 0, "%s", cr_error());
        if (step > 2)
            CHECK(g->counters.submits == before.submits + 1 && g->counters.pipelines == before.pipelines,
                  "step %d: %lld submissions", step, (long long)(g->counters.submits - before.submits));
        CHECK(other && same_bits(loss, other), "the loss of step %d differs", step);
        same_nets(&a, &b, "after a step");
        cr_scope_end();
    }
    cr_plan_free(plan);
    net_free(&a), net_free(&b);
    cr_scope_end();
    test_ran_on(dev());
}

/* A forked child has the handles of the GPU, but not the threads of its driver. */
TEST(forked) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(3), CR_F32, dev());
    OK(cr_synchronize(dev()));
    fflush(stdout);
    const pid_t child = fork();
    REQUIRE(child >= 0, "no process could be made");
    if (!child) {
        alarm(60);
        const bool refused = !cr_add(x, x) &&
                             strstr(cr_error(), "webgpu:0 is lost: this process was forked after the GPU was opened");
        cr_error_clear();
        _exit(refused && cr_item(cr_sum(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), CR_ALL, false)) == 3 ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status), "the child ended with %d",
          status);
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 3, "the parent goes on: %s", cr_error());
    cr_scope_end();
    test_ran_on(dev());
}

static int64_t dispatches(void) { return the_gpu()->counters.dispatches; }

TEST(trace) {
    check_trace(dev(), dispatches);
    the_gpu()->timeline.able = false;               /* an adapter without timestamps: no lane, and the work goes on */
    static traces t;
    const char *path = folder_path("untimed.json");
    OK(cr_profile_begin());
    cr_scope_begin();
    CHECK(cr_item(cr_sum(cr_ones(CR_LIST(3), CR_F32, dev()), CR_ALL, false)) == 3, "%s", cr_error());
    cr_scope_end();
    OK(cr_profile_end(path));
    trace_read(&t, path, "webgpu:0 kernels");
    CHECK(t.lane < 0 && !t.n && t.host, "%d spans of a GPU without timestamps, %d events", t.n, t.host);
    the_gpu()->timeline.able = cr_wg.AdapterHasFeature(the_gpu()->adapter, WGPUFeatureName_TimestampQuery);
}

/* ---- last: the device is lost, and opened again by the first new tensor */
static void lose(void) {
    cr_wg.DeviceDestroy(the_gpu()->device);
    (void)(cr_wg.DevicePoll(the_gpu()->device, 1, NULL) & 0xff);
}

TEST(zz_lost) {
    static const float zeros[300 * 300];
    static const char gone[] = "webgpu:0 was lost and reopened: tensors from before have no data (";
    for (int round = 0; round < 3; round++) {
        cr_scope_begin();
        cr_tensor *x = cr_ones(CR_LIST(300, 300), CR_F32, dev()), *y = cr_add(x, x);
        if (round == 1) OK(cr_synchronize(dev()));  /* else y is recorded only */
        if (round == 2) OK(cr_profile_begin()), cr_release(cr_add(x, x));
        lose();
        FAILS(CR_RUNTIME, "webgpu:0 is lost: ", cr_write(x, CR_F32, zeros, sizeof zeros));
        FAILS(CR_RUNTIME, "webgpu:0 is lost: ", cr_synchronize(dev()));
        if (round == 2) FAILS(CR_RUNTIME, "[profile_end] webgpu:0 is lost: ", cr_profile_end(folder_path("lost.json")));
        FAILS(CR_RUNTIME, gone, cr_add(x, x));
        FAILS(CR_RUNTIME, gone, cr_item(cr_sum(y, CR_ALL, false)));
        FAILS(CR_RUNTIME, gone, cr_to(x, CR_F32, cr_cpu()));
        FAILS(CR_RUNTIME, gone, cr_write(x, CR_F32, zeros, sizeof zeros));
        OK(cr_synchronize(dev()));
        cr_release(y);
        CHECK(cr_memory_stats(dev()).current == 0, "%lld bytes in use by what was lost",
              (long long)cr_memory_stats(dev()).current);
        cr_tensor *z = cr_ones(CR_LIST(300, 300), CR_F32, dev());
        CHECK(cr_item(cr_max(cr_matmul(z, z), CR_ALL, false)) == 300, "a product after the loss: %s", cr_error());
        const int64_t place = 7;
        FAILS(CR_BAD_INDEX, "index 7 at position 0", cr_item(cr_sum(
            cr_index_select(cr_ones(CR_LIST(5), CR_F32, dev()), 0, cr_to(cr_from(&place, CR_LIST(1), CR_I64, cr_cpu()),
                                                                       CR_I64, dev())), CR_ALL, false)));
        cr_release(x);
        CHECK(cr_item(cr_max(cr_softmax(z, 1), CR_ALL, false)) > 0, "%s", cr_error());
        cr_scope_end();
    }
    cr_empty_cache(dev());
    test_ran_on(dev());
}
#else
TEST(built) { SKIP("this library was built without WebGPU"); }
#endif
