/* test_webgpu_chain.c - chains of elementwise kernels in plans of the first WebGPU device. */
#define CR_TEST_GPU
#include "test.h"

#ifdef CR_WEBGPU
#include "dev/webgpu/wgsl.h"
#include "plan_chain.h"

static gpu *the_gpu(void) { return (gpu *)(uintptr_t)cr_webgpu(0); }
static const cr_device *dev(void) { return cr_webgpu(0); }

/* Elementwise kernels that follow each other are one dispatch, with the bits of one dispatch each: also where the
 * driver's compiler contracts a product and a sum.  Software drivers do not, so this one does, and its result is far
 * off: 3 (a * b) + c. */
static bool operands_of(const char *line, char sign, int *result, char a[40], char b[40]) {
    char found, end;
    return sscanf(line, "let r%d = %39[a-z0-9()] %c %39[a-z0-9()]%c", result, a, &found, b, &end) == 5 &&
           found == sign && end == ';';
}

static __typeof__(wgpuDeviceCreateShaderModule) *true_module;
static WGPUShaderModule contracting_module(WGPUDevice device, const WGPUShaderModuleDescriptor *d) {
    enum { MOST = 256 };
    const WGPUShaderSourceWGSL *source = (const WGPUShaderSourceWGSL *)(const void *)d->nextInChain;
    wgsl w = {0};
    char product[MOST][2][40] = {{""}}, a[40], b[40];
    cr_wgsl_add(&w, "fn contracted(a: f32, b: f32, c: f32) -> f32 { return 3.0 * (a * b) + c; }\n");
    for (const char *at = source->code.data; *at;) {
        const int n = (int)strcspn(at, "\n");
        int result, of = 0;
        const bool sum = operands_of(at, '+', &result, a, b) || operands_of(at, '-', &result, a, b);
        const char *other = b;
        if (sum && (sscanf(a, "v%d", &of) != 1 || !*product[of][0])) other = a, of = 0, sscanf(b, "v%d", &of);
        if (sum && *product[of][0])
            cr_wgsl_add(&w, "let r%d = contracted(%s, %s, %s);\n", result, product[of][0], product[of][1], other);
        else cr_wgsl_add(&w, "%.*s\n", n, at);
        if (operands_of(at, '*', &result, a, b)) strcpy(product[result][0], a), strcpy(product[result][1], b);
        at += n + (at[n] == '\n');
    }
    WGPUShaderSourceWGSL changed = *source;
    changed.code = (WGPUStringView){w.out.text, WGPU_STRLEN};
    WGPUShaderModule module =
        true_module(device, &(WGPUShaderModuleDescriptor){.nextInChain = &changed.chain, .label = d->label});
    cr_wgsl_free(&w);
    return module;
}

static double sum_of(cr_tensor *t) { return cr_item(cr_sum(t, CR_ALL, false)); }

/* Returns the sum of the result's elements. */
static double replay_chained(cr_dtype dt, bool off, int64_t *dispatches) {
    gpu *g = the_gpu();
    cr_generator *generator = cr_generator_new(4);
    cr_scope_begin();
    OK(cr_switch_set("PLAN", off ? "fuse" : NULL));
    const cr_tensor *in[] = {cr_randn(CR_LIST(37, 29), CR_F32, dev(), generator),
                             cr_randn(CR_LIST(29), CR_F32, dev(), generator)},
                    *other[] = {cr_randn(CR_LIST(37, 29), CR_F32, dev(), generator), in[1]};
    OK(cr_record_begin(2, in));
    cr_tensor *y = chained(in, dt), *z = NULL;
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    CHECK(p, "%s", cr_error());
    OK(cr_synchronize(dev()));
    const gpu_counters before = g->counters;
    OK(cr_plan_run(p, other, &z));
    *dispatches = g->counters.dispatches - before.dispatches;
    OK(cr_synchronize(dev()));
    CHECK(g->counters.submits == before.submits + 1, "%lld submissions",
          (long long)(g->counters.submits - before.submits));
    cr_tensor *want = chained(other, dt);
    CHECK(z && same_bits(want, z), "%s, chains %s: the replay differs", cr_dtype_name(dt), off ? "off" : "on");
    const double sum = sum_of(want);
    cr_plan_free(p);
    cr_scope_end();
    cr_generator_free(generator);
    OK(cr_switch_set("PLAN", NULL));
    test_ran_on(dev());
    return sum;
}

TEST(chains) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F16, CR_BF16};
    gpu *g = the_gpu();
    double sum[2][3];
    gpu_pipeline *compiled[GPU_PIPELINE_LISTS];
    for (int contracts = 0; contracts < 2; contracts++) {
        __typeof__(wgpuDeviceCreateShaderModuleTrusted) *trusted = cr_wg.DeviceCreateShaderModuleTrusted;
        true_module = cr_wg.DeviceCreateShaderModule;
        if (contracts) {
            memcpy(compiled, g->pipelines, sizeof compiled);
            memset(g->pipelines, 0, sizeof compiled);
            cr_wg.DeviceCreateShaderModule = contracting_module;
            cr_wg.DeviceCreateShaderModuleTrusted = NULL;
        }
        for (int d = 0; d < 3; d++) {
            int64_t dispatches[2];
            for (int off = 0; off < 2; off++) sum[contracts][d] = replay_chained(dtypes[d], off, &dispatches[off]);
            CHECK(3 * dispatches[0] <= dispatches[1], "%s: %lld dispatches, %lld without chains",
                  cr_dtype_name(dtypes[d]), (long long)dispatches[0], (long long)dispatches[1]);
        }
        if (!contracts) continue;
        cr_wg.DeviceCreateShaderModule = true_module;
        cr_wg.DeviceCreateShaderModuleTrusted = trusted;
        cr_gpu_groups_clear(g);
        cr_gpu_pipelines_forget(g);
        memcpy(g->pipelines, compiled, sizeof compiled);
    }
    for (int d = 0; d < 3; d++) CHECK(sum[0][d] != sum[1][d], "nothing was contracted");
}

/* A kernel binds no more buffers than any GPU allows, and a written buffer by one window: here its ends are too far
 * from each other. */
TEST(chains_that_do_not_fit) {
    enum { INPUTS = 11, ROWS = 64, WIDE = 32 };
    gpu *g = the_gpu();
    OK(cr_synchronize(dev()));                      /* it is open */
    const uint32_t most = g->limits.maxStorageBuffersPerShaderStage;
    const size_t window = g->window;
    cr_generator *generator = cr_generator_new(5);
    cr_scope_begin();
    const cr_tensor *in[INPUTS];
    for (int i = 0; i < INPUTS; i++) in[i] = cr_randn(CR_LIST(ROWS / 8, WIDE), CR_F32, dev(), generator);
    in[0] = cr_randn(CR_LIST(ROWS, WIDE), CR_F32, dev(), generator);
    for (int round = 0; round < 2; round++) {
        OK(cr_record_begin(INPUTS, in));
        cr_tensor *y = cr_mul_scalar(in[0], 0.5), *first = cr_narrow(y, 0, 0, ROWS / 8),
                  *last = cr_narrow(y, 0, ROWS - ROWS / 8, ROWS / 8), *sum = cr_exp(in[1]), *z = NULL;
        if (round) cr_mul_(last, cr_exp(first));
        for (int i = 2; !round && i + 1 < INPUTS; i += 2) sum = cr_addcmul(sum, in[i], in[i + 1], 0.5);
        const cr_tensor *result = round ? y : sum;
        cr_plan *p = cr_record_end(1, &result);
        CHECK(p, "%s", cr_error());
        if (round) g->window = ROWS / 2 * WIDE * sizeof(float);
        else g->limits.maxStorageBuffersPerShaderStage = GPU_LEAST_BUFFERS;
        OK(cr_plan_run(p, in, &z));
        g->window = window, g->limits.maxStorageBuffersPerShaderStage = most;
        CHECK(z && same_bits(result, z), "round %d: the replay differs", round);
        cr_plan_free(p);
    }
    cr_scope_end();
    cr_generator_free(generator);
    test_ran_on(dev());
}
#else
TEST(built) { SKIP("this library was built without WebGPU"); }
#endif
