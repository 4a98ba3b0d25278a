/* webgpu.c - the first WebGPU device: products compared with a textbook kernel, the cost of recording
 * an operation on the host, a chain in one dispatch, attention, sums by row, a training step of a GPT
 * in each dtype. use: webgpu [--quick] [--json] [--only products | host | chain | ops | step | adapter]
 *      webgpu --open ours | driver        milliseconds until a GPU is ready, in a process of its own:
 *      through the library, or by the calls that it makes */
#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef CR_WEBGPU
#include "core/tensor.h"
#include "dev/webgpu/gpu.h"

static bool quick, json;
static const char *only;
static bool wanted(const char *part) { return !only || !strcmp(only, part); }

static void say(const char *name, double value, const char *unit) {
    printf(json ? ",\n{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}" : "  %-44s %10.4g %s\n", name, value, unit);
    fflush(stdout);
}

static int failed(const char *what) { return fprintf(stderr, "webgpu: %s: %s\n", what, cr_error()), 1; }

/* ---- products */

/* An invocation has one result, a workgroup 16 x 16; operands are read in tiles of 16 x 16.  Sizes are
 * multiples of 16. */
static const char textbook[] =
    "@group(0) @binding(0) var<uniform> p: vec4<u32>;\n"
    "@group(0) @binding(1) var<storage, read_write> c: array<f32>;\n@group(0) @binding(2) var<storage, read> a: "
    "array<f32>;\n@group(0) @binding(3) var<storage, read> b: array<f32>;\n"
    "var<workgroup> part_a: array<array<f32, 16>, 16>; var<workgroup> part_b: array<array<f32, 16>, 16>;\n"
    "@compute @workgroup_size(16, 16) fn main(@builtin(local_invocation_id) at: vec3<u32>, @builtin(workgroup_id) w: "
    "vec3<u32>, @builtin(num_workgroups) all: vec3<u32>) {\n"
    "    let n = p.y; let tile = w.y * all.x + w.x; let row = tile / (n / 16u) * 16u + at.y; let column = tile % (n / "
    "16u) * 16u + at.x; var sum = 0.0;\n"
    "    for (var k = 0u; k < n; k += 16u) {\n"
    "        part_a[at.y][at.x] = a[row * n + k + at.x]; part_b[at.y][at.x] = b[(k + at.y) * n + column];\n        "
    "workgroupBarrier();\n"
    "        for (var i = 0u; i < 16u; i++) { sum += part_a[at.y][i] * part_b[i][at.x]; }\n        "
    "workgroupBarrier();\n    }\n"
    "    c[row * n + column] = sum;\n}\n";

static cr_status by_the_book(gpu *g, cr_tensor *c, const cr_tensor *a, const cr_tensor *b, int64_t n) {
    gpu_key k;
    k.n = 0, k.full = false;
    cr_gpu_key_add(&k, "textbook", 8);
    if (!cr_gpu_enter("textbook", &g->dev)) return cr_error_status();
    gpu_pipeline *p = cr_gpu_pipeline_find(g, &k);
    if (!p) p = cr_gpu_pipeline_make(g, "textbook", &k, 3, 1, textbook);
    const size_t at[3] = {0};
    const uint32_t q[4] = {0, (uint32_t)n};
    gpu_buffer *const buffers[] = {gpu_buffer_of(&c->array), gpu_buffer_of(&a->array), gpu_buffer_of(&b->array)};
    const uint64_t groups = (uint64_t)(n / 16 * (n / 16));
    const cr_status status =
        p ? cr_gpu_dispatch(g, "textbook", p, buffers, at, q, sizeof q, groups, 0) : cr_error_status();
    return cr_gpu_leave(g, status);
}

/* GFLOP/s of 0: the textbook kernel, 1: chainrule with workgroup memory, 2: without; -1: failed */
static double product(gpu *g, int which, int64_t n, int runs) {
    const bool software = g->dev.software;
    double least = 1e9;
    cr_scope_begin();
    cr_tensor *a = cr_full(CR_LIST(n, n), 0.5, CR_F32, &g->dev), *b = cr_full(CR_LIST(n, n), 0.25, CR_F32, &g->dev),
              *c = NULL;
    for (int i = 0; i < runs + 1; i++) {            /* the first compiles */
        if (c) cr_release(c);
        cr_synchronize(&g->dev);
        const double start = cr_os_seconds();
        g->dev.software = which == 2;
        c = which ? cr_matmul(a, b) : cr_empty(CR_LIST(n, n), CR_F32, &g->dev);
        g->dev.software = software;
        if (!c || (!which && by_the_book(g, c, a, b, n) != CR_OK) || cr_synchronize(&g->dev) != CR_OK) return -1;
        if (i) least = fmin(least, cr_os_seconds() - start);
    }
    const double x = cr_item(cr_min(c, CR_ALL, false)), y = cr_item(cr_max(c, CR_ALL, false));
    cr_scope_end();
    return x == y && x == (double)n / 8 ? 2e-9 * (double)(n * n * n) / least : -1;
}

static int products(gpu *g) {
    static const char *const names[] = {"textbook, 16 x 16 tiles", "ours, workgroup memory",
                                        "ours, no workgroup memory"};
    for (int64_t n = 512; n <= (quick ? 512 : g->dev.software ? 1024 : 2048); n *= 2)
        for (int which = 0; which < 3; which++) {
            char name[64];
            const double rate = product(g, which, n, quick ? 2 : 4);
            if (rate < 0) return failed(names[which]);
            snprintf(name, sizeof name, "matmul %lld, %s", (long long)n, names[which]);
            say(name, rate, "GFLOP/s");
        }
    return 0;
}

/* ---- the host */

/* Microseconds to record an operation, and with its part of the submission, where wgpu-native
 * validates the commands. */
static void recorded(gpu *g, const char *name, bool product) {
    enum { OPS = 900 };                             /* less than a batch: nothing is submitted meanwhile */
    double least[2] = {1e9, 1e9};
    char text[64];
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(8, 8), 0.5, CR_F32, &g->dev);
    for (int round = 0; round < 12; round++) {
        cr_synchronize(&g->dev);
        const double start = cr_os_seconds();
        for (int i = 0; i < OPS; i++) cr_release(product ? cr_matmul(x, x) : cr_add(x, x));
        const double done = cr_os_seconds();
        if (cr_gpu_enter("bench", &g->dev)) cr_gpu_leave(g, cr_gpu_submit(g, "bench"));
        if (round) least[0] = fmin(least[0], done - start), least[1] = fmin(least[1], cr_os_seconds() - start);
    }
    cr_synchronize(&g->dev);
    cr_scope_end();
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s, recorded%s", name, i ? " and submitted" : "");
        say(text, least[i] / OPS * 1e6, "us");
    }
}

/* tanh(exp(x y + x) - y): five instructions on two inputs of 4M */
static int chain(gpu *g) {
    enum { N = 1 << 22 };
    double least = 1e9;
    cr_scope_begin();
    cr_program *p = cr_program_new("five", "x y", "", "tanh(exp(x * y + x) - y)");
    cr_tensor *x = cr_full(CR_LIST(N), 0.25, CR_F32, &g->dev), *y = cr_full(CR_LIST(N), 0.5, CR_F32, &g->dev),
              *z = NULL;
    gpu_counters before = {0};
    for (int i = 0; i < 5; i++) {
        if (z) cr_release(z);
        cr_synchronize(&g->dev);
        before = g->counters;
        const double start = cr_os_seconds();
        if (!(z = cr_program_apply(p, 2, (const cr_tensor *[]){x, y}, NULL)) || cr_synchronize(&g->dev) != CR_OK)
            return failed("chain");
        if (i) least = fmin(least, cr_os_seconds() - start);
    }
    say("chain of five on 4M, dispatches", (double)(g->counters.dispatches - before.dispatches), "");
    say("chain of five on 4M, bytes bound", (double)(g->counters.bytes - before.bytes), "B");
    say("chain of five on 4M, bytes of inputs and output", 3.0 * N * sizeof(float), "B");
    say("chain of five on 4M", 3e-9 * N * sizeof(float) / least, "GB/s");
    cr_program_free(p);
    cr_scope_end();
    return 0;
}

/* ---- attention of T = 1024 with its gradient, and 8192 rows of 128 added into 1000: least times */
static double time_of(gpu *g, cr_tensor *(*run)(cr_tensor *const x[]), cr_tensor *const x[]) {
    double least = 1e9;
    for (int k = 0; k < (quick ? 2 : 4); k++) {     /* the first compiles */
        cr_synchronize(&g->dev);
        const double start = cr_os_seconds();
        cr_scope_begin();
        const bool done = run(x) && cr_synchronize(&g->dev) == CR_OK;
        cr_scope_end();
        if (!done) return -1;
        if (k) least = fmin(least, cr_os_seconds() - start);
    }
    return least;
}

static cr_tensor *attend(cr_tensor *const x[]) {
    cr_tensor *y = cr_sum(cr_attention_packed(x[0], &(cr_attention_options){.causal = true}), CR_ALL, false);
    return cr_backward(y, CR_NONE, NULL) == CR_OK && cr_set_grad(x[0], CR_NONE) == CR_OK ? y : NULL;
}
static cr_tensor *add_rows(cr_tensor *const x[]) { return cr_index_add(x[0], 0, x[1], x[2]); }

static int ops(gpu *g) {
    enum { K = 8192, N = 128, ROWS = 1000 };
    const cr_device *d = &g->dev;
    cr_generator *random = cr_generator_new(1);
    cr_scope_begin();
    cr_tensor *qkv = cr_randn(CR_LIST(1, quick ? 256 : 1024, 3, 2, 64), CR_F32, d, random);
    cr_tensor *const q[] = {cr_requires_grad_(qkv, true)};
    cr_tensor *const rows[] = {cr_zeros(CR_LIST(ROWS, N), CR_F32, d),
                               cr_randint(0, ROWS, CR_LIST(K), CR_I64, d, random),
                               cr_randn(CR_LIST(K, N), CR_F32, d, random)};
    const double attention = time_of(g, attend, q), sums = time_of(g, add_rows, rows);
    cr_scope_end();
    cr_generator_free(random);
    if (attention < 0 || sums < 0) return failed("ops");
    say(quick ? "attention and its gradient, T = 256" : "attention and its gradient, T = 1024", attention * 1e3, "ms");
    say("index_add of 8192 rows of 128 into 1000", sums * 1e3, "ms");
    return 0;
}

/* ---- a training step: submits except for the read of the loss, kernels compiled after the second step */
static int step(gpu *g, cr_dtype dt) {
    enum { B = 4, T = 64, V = 65 };
    int64_t tokens[B * T];
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){V, T, 4, 4, 128, 0.0}, dt, &g->dev, cr_default_generator());
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *optim = m ? cr_optim_new(cr_gpt_params(m), &o) : NULL;
    if (!optim) return failed("GPT");
    double least = 1e9;
    gpu_counters second = {0}, before = {0};
    const int steps = quick ? 5 : 15;
    for (int i = 0; i < B * T; i++) tokens[i] = (i * i + i / 7) % V;
    for (int k = 0; k < steps; k++) {
        before = g->counters;
        const double start = cr_os_seconds();
        cr_scope_begin();
        cr_tensor *x = cr_from(tokens, CR_LIST(B, T), CR_I64, &g->dev), *loss = cr_gpt_loss(m, x, x, true);
        if (cr_backward(loss, CR_NONE, NULL) != CR_OK || cr_optim_step(optim) != CR_OK || !isfinite(cr_item(loss)))
            return failed("step");
        cr_scope_end();
        least = fmin(least, cr_os_seconds() - start);
        if (k == 1) second = g->counters;
    }
    cr_optim_free(optim);
    cr_gpt_free(m);
    if (dt != CR_F32) {
        char name[40];
        snprintf(name, sizeof name, "GPT step, %s", cr_dtype_name(dt));
        return say(name, least * 1e3, "ms"), 0;
    }
    say("GPT step, dispatches", (double)(g->counters.dispatches - before.dispatches), "");
    say("GPT step, groups of bindings made", (double)(g->counters.groups - before.groups), "");
    say("GPT step, submits", (double)(g->counters.submits - before.submits), "");
    say("GPT step, read-backs", (double)(g->counters.readbacks - before.readbacks), "");
    say("GPT, kernels compiled in the first two steps", (double)second.pipelines, "");
    say("GPT, kernels compiled in the steps after these", (double)(g->counters.pipelines - second.pipelines), "");
    say("GPT step", least * 1e3, "ms");
    return 0;
}

/* ---- opening */

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *p,
                      void *unused) {
    (void)status; (void)message; (void)unused;
    *(WGPUDevice *)p = device;
}

static int open_by_hand(void) {
    WGPUInstanceExtras extras = {.chain = {.sType = (WGPUSType)WGPUSType_InstanceExtras},
                                 .backends = WGPUInstanceBackend_Primary};
    WGPUInstanceEnumerateAdapterOptions all = {.backends = WGPUInstanceBackend_Primary};
    WGPUAdapter adapters[32];
    WGPUDevice device = NULL;
    const double start = cr_os_seconds();
    if (!cr_wgpu_ready()) return fprintf(stderr, "webgpu: %s\n", cr_wgpu_problem()), 1;
    WGPUInstance instance = cr_wg.CreateInstance(&(WGPUInstanceDescriptor){.nextInChain = &extras.chain});
    const size_t n = cr_wg.InstanceEnumerateAdapters(instance, &all, NULL);
    if (!n || n > 32) return 1;
    cr_wg.InstanceEnumerateAdapters(instance, &all, adapters);
    cr_wg.AdapterRequestDevice(adapters[0], NULL,
                               (WGPURequestDeviceCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous,
                                                               .callback = on_device,
                                                               .userdata1 = &device});
    printf("%.3f\n", (cr_os_seconds() - start) * 1e3);
    return !device;
}

static int open_ours(void) {
    const double start = cr_os_seconds();
    const cr_device *d = cr_webgpu(0);
    gpu *g = d ? cr_gpu_enter("open", d) : NULL;
    if (!g) return failed("open");
    printf("%.3f\n", (cr_os_seconds() - start) * 1e3);
    return cr_gpu_leave(g, CR_OK) != CR_OK;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) quick = true;
        else if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else if (!strcmp(argv[i], "--open") && i + 1 < argc)
            return !strcmp(argv[i + 1], "ours") ? open_ours() : open_by_hand();
    }
    gpu *g = (gpu *)(uintptr_t)cr_webgpu(0);
    if (!g) return failed("no GPU");
    printf(json ? "{\"info\":\"%s\",\"rows\":[{}" : "%s\n", cr_device_info(&g->dev));
    if (wanted("products") && products(g)) return 1;
    if (wanted("host")) {
        recorded(g, "add", false);
        recorded(g, "matmul", true);
    }
    if ((wanted("chain") && chain(g)) || (wanted("ops") && ops(g))) return 1;
    if (wanted("step") && (step(g, CR_F32) || step(g, CR_BF16) || step(g, CR_F16))) return 1;
    if (json) printf("]}\n");
    return 0;
}
#else
int main(void) { return fprintf(stderr, "webgpu: this library was built without WebGPU\n"), 1; }
#endif
