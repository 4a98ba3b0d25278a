/* test_cuda_cudnn.c - convolutions by cuDNN, a simulated one: the same numbers as by our own kernels, a choice by
 * measurement that is made once, and our own kernels where cuDNN cannot or fails. */
#define CR_TEST_CUDA
#define CR_TEST_CUDNN
#include "test.h"

#ifdef CHAINRULE_CUDASIM
#include "core/tensor.h"
#include "cudasim/control.h"
#include "dev/cuda/gpu.h"
#include "gpu_conv.h"
#include "said_by.h"

static const cr_device *dev(void) { return cr_cuda(0); }
static cuda *gpu(void) { return (cuda *)(uintptr_t)cr_cuda(0); }

static int (*fail_at)(const char *what, int k);
static void (*pace)(double seconds);
static long long (*launches_of)(const char *kernel);
static const double QUICK = -100, SLOW = 100;       /* seconds that a convolution of cuDNN seems to take */

/* Choices of earlier runs are in the cache folder. */
static void forget_kept(const char *name, void *ctx) {
    char path[1200];
    const char *ending = strrchr(name, '.');
    snprintf(path, sizeof path, "%s/%s", (const char *)ctx, name);
    if (ending && !strcmp(ending, ".choice")) cr_os_remove(path);
}

/* The table is empty again; the cache folder stays. */
static void forget_table(void) {
    static struct cuda_convolution *before[100][CUDA_CONVOLUTION_LISTS];       /* for the leak checker */
    static int n;
    REQUIRE(n < 100, "too many tables");
    memcpy(before[n++], gpu()->convolutions, sizeof before[0]);
    memset(gpu()->convolutions, 0, sizeof before[0]);
    gpu()->n_convolutions = 0;
}

/* False: the GPU is a true one. */
static bool start(double seconds) {
    static const char folder[] = CHAINRULE_CUDASIM "/cache";
    if (!test_simulator("cudasim_fail", &fail_at) || !test_simulator("cudasim_launches", &launches_of) ||
        !test_simulator("cudasim_pace", &pace))
        return false;
    OK(cr_switch_set("CACHE", folder));
    cr_os_each_entry(folder, forget_kept, (void *)(uintptr_t)folder);
    forget_table();
    pace(seconds);
    return true;
}
#define START(seconds) do { if (!start(seconds)) SKIP("no simulated GPU"); } while (0)

typedef struct counts { int64_t measured, by_cudnn; } counts;
static counts now(void) { return (counts){gpu()->counters.measured, gpu()->counters.by_cudnn}; }
#define COUNTED(before, m, n, ...)                                                                                  \
    do {                                                                                                            \
        const counts after_ = now();                                                                                \
        CHECK(after_.measured - (before).measured == (m) && after_.by_cudnn - (before).by_cudnn == (n),             \
              "%s: %d shapes measured and %d convolutions by cuDNN, not %d and %d", text_of(__VA_ARGS__),         \
              (int)(after_.measured - (before).measured), (int)(after_.by_cudnn - (before).by_cudnn), (m), (n));    \
    } while (0)
__attribute__((format(printf, 1, 2))) static const char *text_of(const char *format, ...) {
    static char text[200];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return text;
}

/* The largest error, relative to the largest expected number. */
static double off(const cr_tensor *x, const cr_tensor *want) {
    test_ran_on(cr_device_of(x));
    return cr_item(cr_max(cr_abs(cr_sub(x, want)), CR_ALL, false)) / cr_item(cr_max(cr_abs(want), CR_ALL, false));
}

/* ---- values and gradients */
typedef struct factors {
    const char *name;
    cr_dtype dtype;
    cr_precision precision;
    double error;                                   /* relative to the largest element, as in test_cuda_kernels.c */
    bool by_cudnn;
} factors;
static const factors modes[] = {{"f32", CR_F32, CR_HIGHEST, 1e-5, true},
                                {"f64", CR_F64, CR_HIGHEST, 1e-13, true},
                                {"TF32", CR_F32, CR_HIGH, 3e-3, true},
                                {"bf16 factors", CR_F32, CR_MEDIUM, 2e-2, false},
                                {"f16", CR_F16, CR_HIGHEST, 3e-3, true},
                                {"bf16", CR_BF16, CR_HIGHEST, 2e-2, true}};
enum { MODES = sizeof modes / sizeof *modes };
static const char *const parts[] = {"y", "dx", "dw", "db"};

/* y and the gradients of x, the weight and the bias. */
static void convolved(cr_tensor *(*fn)(cr_tensor *const x[], const void *how), const void *how, cr_tensor *const x[4],
                      const cr_device *d, cr_dtype dt, cr_tensor *out[4]) {
    cr_tensor *in[4];
    for (int i = 0; i < 4; i++) in[i] = cr_to(x[i], dt, d);
    for (int i = 0; i < 3; i++) cr_requires_grad_(in[i] = cr_detach(in[i]), true);
    REQUIRE(out[0] = fn(in, how), "%s", cr_error());
    OK(cr_backward(out[0], in[3], NULL));
    for (int i = 0; i < 3; i++) out[i + 1] = cr_grad(in[i]);
}

static void halve(cr_tensor *x[4], const factors *f) {
    if (!cr_dtype_is_half(f->dtype)) return;
    for (int k = 0; k < 4; k++) x[k] = cr_to(cr_to(x[k], f->dtype, cr_cpu()), CR_F32, cr_cpu());
}

/* by_cudnn: convolutions of the three that cuDNN computes. */
static void compare(const char *what, cr_tensor *(*fn)(cr_tensor *const x[], const void *how), const void *how,
                    cr_tensor *x[4], const factors *f, int by_cudnn) {
    const cr_dtype wide = f->dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_tensor *got[4], *want[4];
    convolved(fn, how, x, cr_cpu(), wide, want);
    const counts before = now();
    cr_set_f32_products(f->precision);
    convolved(fn, how, x, dev(), f->dtype, got);
    cr_set_f32_products(CR_HIGHEST);
    const bool seen = f->precision == CR_HIGH && gpu()->major < 8;             /* without TF32 it is f32 */
    COUNTED(before, seen ? 0 : by_cudnn, by_cudnn, "%s, %s", what, f->name);
    for (int k = 0; k < 4; k++) {
        const double error = off(cr_to(got[k], wide, dev()), cr_to(want[k], wide, dev()));
        CHECK(error < f->error, "%s, %s: %s is off by %g", what, f->name, parts[k], error);
    }
}

TEST(same_numbers) {
    cr_generator *random = cr_generator_new(test_seed());
    START(QUICK);
    for (int i = 0; i < CONVOLUTIONS; i++)
        for (int m = 0; m < MODES; m++) {
            const convolution *c = &convolutions[i];
            cr_tensor *x[4];
            if (!test_full() && m > 0 && (i + m) % 3) continue;
            cr_scope_begin();
            convolution_inputs(c, random, x);
            halve(x, &modes[m]);
            compare(c->what, convolve, c, x, &modes[m], modes[m].by_cudnn ? 3 : 0);
            cr_scope_end();
        }
    cr_generator_free(random);
}

/* ---- layouts: how an input reaches the convolution */
typedef struct layout {
    const char *what;
    int axes, stride[3], dilation[3], pad[3][2];
    int64_t in[3], kernel[3];
    enum { DENSE, CHANNELS_LAST, EVERY_SECOND, REPEATED, WINDOWS, ODD_ADDRESS } view;
    int by_cudnn;                                   /* of y, dx and dw */
} layout;
static const layout layouts[] = {
    {"1d", 1, {1}, {2}, {{2, 2}}, {19}, {3}, DENSE, 3},
    {"1d, one position", 1, {1}, {1}, {{0, 0}}, {1}, {1}, DENSE, 3},
    {"2d, one column", 2, {2, 1}, {1, 1}, {{1, 1}, {0, 0}}, {9, 1}, {3, 1}, DENSE, 3},
    {"3d", 3, {1, 2, 1}, {1, 1, 2}, {{1, 1}, {0, 0}, {2, 2}}, {4, 5, 7}, {2, 3, 3}, DENSE, 3},
    {"3d, channels last", 3, {1, 1, 1}, {1, 1, 1}, {{0, 0}, {1, 1}, {1, 1}}, {3, 4, 5}, {2, 2, 2}, CHANNELS_LAST, 3},
    {"channels last", 2, {1, 2}, {1, 1}, {{1, 1}, {1, 1}}, {7, 8}, {3, 3}, CHANNELS_LAST, 3},
    {"every second column", 2, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}, {5, 6}, {3, 2}, EVERY_SECOND, 3},
    {"the same image repeated", 2, {1, 1}, {1, 1}, {{0, 0}, {0, 0}}, {5, 6}, {3, 2}, REPEATED, 1},     /* dx */
    {"overlapping rows", 2, {1, 1}, {1, 1}, {{0, 0}, {0, 0}}, {5, 7}, {3, 2}, WINDOWS, 1},             /* dx */
    {"an odd address", 2, {1, 1}, {1, 1}, {{0, 0}, {0, 0}}, {4, 6}, {3, 2}, ODD_ADDRESS, 1},           /* dx */
    {"uneven padding", 2, {1, 1}, {1, 1}, {{0, 1}, {2, 0}}, {6, 5}, {3, 3}, DENSE, 0},
    /* y has as many rows as with one zero at each end */
    {"uneven padding, hidden by a stride", 2, {2, 1}, {1, 1}, {{1, 2}, {0, 0}}, {7, 5}, {3, 3}, DENSE, 3},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, BATCH = 2, C = 6, OC = 4 };

static cr_tensor *convolve_layout(cr_tensor *const x[], const void *how) {
    const layout *l = how;
    cr_conv_options o = cr_conv_defaults();
    for (int i = 0; i < l->axes; i++) {
        o.stride[i] = l->stride[i];
        o.dilation[i] = l->dilation[i];
        for (int end = 0; end < 2; end++) o.padding[i][end] = l->pad[i][end];
    }
    o.groups = 2;
    cr_tensor *in = x[0];
    int64_t axes[5] = {0, l->axes + 1}, shape[5];
    for (int i = 0; i < l->axes; i++) axes[2 + i] = 1 + i;
    if (l->view == CHANNELS_LAST) in = cr_permute(in, l->axes + 2, axes);
    if (l->view == EVERY_SECOND) in = cr_slice(in, l->axes + 1, 0, cr_shape(in)[l->axes + 1], 2);
    if (l->view == ODD_ADDRESS) in = cr_slice(in, 3, 1, cr_shape(in)[3], 1);
    if (l->view == WINDOWS) in = cr_unfold(in, 2, l->in[1], 1);
    for (int i = 0; i < l->axes + 2; i++) shape[i] = i ? cr_shape(in)[i] : BATCH;
    if (l->view == REPEATED) in = cr_expand(in, l->axes + 2, shape);
    return cr_conv(in, x[1], x[2], &o);
}

/* The tensor whose view the convolution reads, its weight, the bias, a cotangent. */
static void layout_inputs(const layout *l, cr_generator *random, cr_tensor *x[4]) {
    int64_t shape[5] = {l->view == REPEATED ? 1 : BATCH, C}, w[5] = {OC, C / 2};
    for (int i = 0; i < l->axes; i++) shape[2 + i] = l->in[i], w[2 + i] = l->kernel[i];
    if (l->view == EVERY_SECOND) shape[1 + l->axes] *= 2;
    if (l->view == ODD_ADDRESS) shape[3] += 1;
    if (l->view == WINDOWS) shape[2] += l->in[1] - 1;
    if (l->view == CHANNELS_LAST) {
        for (int i = 0; i < l->axes; i++) shape[1 + i] = l->in[i];
        shape[1 + l->axes] = C;
    }
    x[0] = cr_randn(l->axes + 2 - (l->view == WINDOWS), shape, CR_F32, cr_cpu(), random);
    x[1] = cr_randn(l->axes + 2, w, CR_F32, cr_cpu(), random);
    x[2] = cr_randn(CR_LIST(OC), CR_F32, cr_cpu(), random);
    const cr_tensor *y = convolve_layout(x, l);
    REQUIRE(y, "%s: %s", l->what, cr_error());
    x[3] = cr_randn(cr_ndim(y), cr_shape(y), CR_F32, cr_cpu(), random);
}

TEST(layouts) {
    cr_generator *random = cr_generator_new(test_seed());
    START(QUICK);
    for (int i = 0; i < LAYOUTS; i++)
        for (int m = 0; m < MODES; m += test_full() || m == 3 ? 1 : 4) {
            const layout *l = &layouts[i];
            cr_tensor *x[4];
            cr_scope_begin();
            layout_inputs(l, random, x);
            halve(x, &modes[m]);
            compare(l->what, convolve_layout, l, x, &modes[m], modes[m].by_cudnn ? l->by_cudnn : 0);
            cr_scope_end();
        }
    cr_generator_free(random);
}

/* ---- choices: convolutions of (2, C, 9, 9) by 3 x 3 */
static cr_tensor *ones_of(int64_t channels) {
    const cr_tensor *x = cr_ones(CR_LIST(2, channels, 9, 9), CR_F32, dev());
    const cr_tensor *b = cr_full(CR_LIST(5), 0.5, CR_F32, dev());
    return cr_conv(x, cr_ones(CR_LIST(5, channels, 3, 3), CR_F32, dev()), b, NULL);
}
static void check_ones(const char *what, int64_t channels) {
    cr_scope_begin();
    cr_tensor *y = ones_of(channels);
    REQUIRE(y, "%s: %s", what, cr_error());
    CHECK(!cr_error(), "%s: left %s", what, cr_error());
    const double error = off(y, cr_full(4, cr_shape(y), 9.0 * (double)channels + 0.5, CR_F32, dev()));
    CHECK(error == 0, "%s: off by %g", what, error);
    cr_scope_end();
}

TEST(choice_is_made_once) {
    START(QUICK);
    for (int i = 0; i < 3; i++) {
        const counts before = now();
        check_ones("quick", 7);
        COUNTED(before, i == 0, 1, "call %d of a shape", i);
    }
    pace(SLOW);                                     /* too late */
    counts before = now();
    check_ones("quick at first", 7);
    COUNTED(before, 0, 1, "after the choice");
    for (int i = 0; i < 3; i++) {
        before = now();
        check_ones("slow", 8);
        COUNTED(before, i == 0, 0, "slow: call %d of a shape", i);
    }
    cr_set_f32_products(CR_HIGH);
    before = now();
    check_ones("TF32", 7);
    COUNTED(before, gpu()->major >= 8, gpu()->major < 8, "the same shape with TF32");
    cr_set_f32_products(CR_HIGHEST);
}

/* TF32 has the exponents of f32: no algorithm that converts to f16 is used. */
TEST(range_of_tf32) {
    START(QUICK);
    cr_scope_begin();
    cr_set_f32_products(CR_HIGH);
    const counts before = now();
    const cr_tensor *x = cr_full(CR_LIST(1, 6, 5, 5), 1 << 20, CR_F32, dev());
    cr_tensor *y = cr_conv(x, cr_ones(CR_LIST(4, 6, 2, 2), CR_F32, dev()), CR_NONE, NULL);
    cr_set_f32_products(CR_HIGHEST);
    REQUIRE(y, "%s", cr_error());
    COUNTED(before, 1, 1, "large factors");
    const double error = off(y, cr_full(4, cr_shape(y), 24 << 20, CR_F32, dev()));
    CHECK(error == 0, "off by %g", error);
    cr_scope_end();
}

/* Workspaces return to the pool. */
TEST(memory) {
    START(QUICK);
    for (int i = 0; i < 2; i++) {
        const int64_t held = gpu()->now;
        check_ones("memory", 13);
        CHECK(gpu()->now == held, "call %d keeps %lld bytes", i, (long long)(gpu()->now - held));
    }
}

/* A later process finds the choice in the cache folder; a damaged file counts as absent. */
TEST(choice_is_kept) {
    START(QUICK);
    check_ones("first", 9);
    pace(SLOW);
    for (int damaged = 0; damaged < 2; damaged++) {
        forget_table();
        if (damaged) START(SLOW);
        const counts before = now();
        check_ones("again", 9);
        COUNTED(before, damaged, !damaged, "%s", damaged ? "without the file" : "with the file");
    }
}

TEST(choices_are_bounded) {
    START(QUICK);
    gpu()->n_convolutions = 1023;                   /* one less than cudnn.c keeps */
    for (int i = 0; i < 2; i++) {
        const counts before = now();
        check_ones("bounded", 3 + i);
        COUNTED(before, !i, !i, "shape %d", i);
    }
}

/* ---- failures: our own kernel computes this shape from then on, without an error */
TEST(fallback) {
    static const struct { const char *what; int k, measured; } cases[] = {
        {"product", 1, 0},                          /* the heuristics */
        {"product", 2, 1},                          /* while it is measured, in four rounds */
        {"product", 5, 1},
        {"product", 6, 1},                          /* the result itself */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        START(QUICK);
        fail_at(cases[i].what, cases[i].k);
        counts before = now();
        check_ones(cases[i].what, 11);
        COUNTED(before, cases[i].measured, 0, "%s, call %d fails", cases[i].what, cases[i].k);
        fail_at(cases[i].what, 0);
        before = now();
        check_ones(cases[i].what, 11);
        COUNTED(before, 0, 0, "%s: after the failure", cases[i].what);
    }
    /* a failure is not kept for later processes */
    START(QUICK);
    fail_at("product", 2);
    check_ones("fails", 11);
    fail_at("product", 0);
    forget_table();
    const counts before = now();
    check_ones("in a later process", 11);
    COUNTED(before, 1, 1, "in a later process");
}

/* 13 channels: the simulated cuDNN wants a workspace of 64 MiB. */
TEST(no_memory_for_workspace) {
    START(QUICK);
    check_ones("with memory", 13);
    OK(cr_synchronize(dev()));
    cr_empty_cache(dev());
    const int64_t budget = gpu()->budget;
    for (int first = 0; first < 2; first++) {       /* when it runs; when it is measured */
        if (first) START(QUICK);
        gpu()->budget = gpu()->reserved + (8 << 20);
        counts before = now();
        check_ones("without memory", 13);
        COUNTED(before, first, 0, "without memory");
        gpu()->budget = budget;
        before = now();
        check_ones("again", 13);
        COUNTED(before, 0, 0, "after there was no memory");
    }
}

/* ---- a graph that is noted: nothing is timed */
static cr_status note_conv(void *ctx, int part) { return (void)part, dev()->kernels->conv(ctx); }

TEST(graphs) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(2, 6, 1, 9, 9), CR_F32, dev()), *w = cr_ones(CR_LIST(4, 6, 1, 3, 3), CR_F32, dev()),
              *b = cr_ones(CR_LIST(4), CR_F32, dev()), *y = cr_zeros(CR_LIST(2, 4, 1, 7, 7), CR_F32, dev());
    cr_conv_args args = {.y = y->array, .x = x->array, .w = w->array, .bias = b->array, .kind = CR_CONV_FORWARD,
                         .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
    cr_storage *used[] = {x->storage, w->storage, b->storage, y->storage};
    const bool again = false;
    START(QUICK);
    for (int chosen = 0; chosen < 2; chosen++) {
        if (chosen) OK(dev()->kernels->conv(&args));
        REQUIRE(cr_fill_(y, 0), "%s", cr_error());
        OK(cr_synchronize(dev()));
        cr_graph *graph = dev()->graphing->make(dev(), 1);
        REQUIRE(graph, "%s", cr_error());
        cr_graph_run r = {.again = &again, .part = note_conv, .ctx = &args, .n_used = 4, .used = used};
        const counts before = now();
        const long long calls = launches_of("cudnnConvolutionForward");
        OK(dev()->graphing->run(graph, &r));
        OK(dev()->graphing->run(graph, &r));
        OK(cr_synchronize(dev()));
        COUNTED(before, 0, chosen, "noted, %s choice", chosen ? "with a" : "no");
        CHECK(launches_of("cudnnConvolutionForward") - calls == 2 * chosen, "%d launches by cuDNN",
              (int)(launches_of("cudnnConvolutionForward") - calls));
        const double error = off(y, cr_full(5, cr_shape(y), 55, CR_F32, dev()));
        CHECK(error == 0, "%s choice: off by %g", chosen ? "with a" : "no", error);
        dev()->graphing->free(graph);
    }
    cr_scope_end();
}

/* ---- processes with a switch */

/* Runs in another process: no cuDNN, the same numbers. */
TEST(without) {
    const char *wish = getenv("CHAINRULE_CUDNN");
    if (!wish) SKIP("runs in other processes");
    START(QUICK);
    const counts before = now();
    check_ones("without cuDNN", 7);
    COUNTED(before, 0, 0, "without cuDNN");
    printf("%s\n", cr_device_info(dev()));
}

TEST(switches) {
    START(QUICK);
    static const struct { const char *environment, *message; } cases[] = {
        {"CHAINRULE_CUDNN=off", "convolutions of its own (CHAINRULE_CUDNN=off)"},
        {"CHAINRULE_CUDNN=/nowhere/libcudnn.so.9", "CHAINRULE_CUDNN=/nowhere/libcudnn.so.9 cannot be opened"},
        {"CHAINRULE_CUDNN=libm.so.6", "the library found has no cudnnCreate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *said = said_by(cases[i].environment, "without");
        CHECK(strstr(said, cases[i].message) && strstr(said, "1 passed"), "%s: said %s", cases[i].environment, said);
        test_ran_on(dev());
    }
    CHECK(strstr(cr_device_info(dev()), ", cuDNN 9.10"), "%s", cr_device_info(dev()));
    FAILS(CR_RUNTIME, "comes too late", cr_switch_set("CUDNN", "off"));
}
#else
TEST(nothing) { SKIP("no simulator"); }
#endif
