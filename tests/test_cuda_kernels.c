/* test_cuda_kernels.c - kernels of NVIDIA GPUs, or simulated ones: the number of launches, precision,
 * critical sizes. */
#define CR_TEST_CUDA
#include "test.h"

#include "cudasim/control.h"
#include "dev/cuda/gpu.h"
#include "folder.h"
#include "gpu_conv.h"
#include "ops/linear.h"
#include "over_logits.h"
#include "wide.h"

static const cr_device *dev(void) { return cr_cuda(0); }
static const cuda *gpu(void) { return (const cuda *)(uintptr_t)cr_cuda(0); }
static int64_t launches(void) { return gpu()->counters.launches; }
static bool is_simulated(void) {                    /* it refuses nothing that some version of cuBLASLt may refuse */
    void (*any)(void);
    return test_simulator("cudasim_count", &any);
}
/* An exact number of launches: on the simulator only.  A true cuBLASLt may refuse an epilogue that the simulated one
 * takes, such as bf16 with K = 7, and a GPU with more multiprocessors may divide work otherwise. */
#define COUNT(x, ...) CHECK(!is_simulated() || (x), __VA_ARGS__)

/* The largest error, relative to the largest expected number. */
static double off(const cr_tensor *x, const cr_tensor *want) {
    test_ran_on(cr_device_of(x));
    return cr_item(cr_max(cr_abs(cr_sub(x, want)), CR_ALL, false)) / cr_item(cr_max(cr_abs(want), CR_ALL, false));
}

/* ---- products: the same numbers as with rounded operands, other numbers than with full ones */

static cr_tensor *of_tf32(const cr_tensor *x) {
    const int64_t n = cr_numel(x);
    uint32_t *bits = malloc(sizeof *bits * (size_t)n);
    if (!bits || cr_read(x, CR_F32, bits, sizeof *bits * (size_t)n)) return free(bits), NULL;
    for (int64_t i = 0; i < n; i++) bits[i] = (bits[i] + 0x1000) & ~(uint32_t)0x1fff;
    cr_tensor *y = cr_from(bits, cr_ndim(x), cr_shape(x), CR_F32, dev());
    free(bits);
    return y;
}
static cr_tensor *of_bf16(const cr_tensor *x) { return cr_to(cr_to(x, CR_BF16, dev()), CR_F32, dev()); }

/* cuBLASLt takes all plain products. */
TEST(plain_products) {
    if (!cr_lt_ready()) SKIP("our own products");
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_F16};
    const int64_t before = gpu()->counters.refused;
    cr_scope_begin();
    for (int t = 0; t < 4; t++)
        for (int turned = 0; turned < 4; turned++) {
            cr_tensor *a = cr_ones(CR_LIST(64, 64), dtypes[t], dev()), *b = cr_ones(CR_LIST(64, 64), dtypes[t], dev());
            cr_tensor *y = cr_matmul(turned & 1 ? cr_transpose(a, 0, 1) : a, turned & 2 ? cr_transpose(b, 0, 1) : b);
            CHECK(y && off(y, cr_full(CR_LIST(64, 64), 64, dtypes[t], dev())) == 0, "%s, %d: %s",
                  cr_dtype_name(dtypes[t]), turned, cr_error() ? cr_error() : "off");
            test_ran_on(dev());
        }
    cr_scope_end();
    CHECK(gpu()->counters.refused == before, "%lld shapes are refused", (long long)(gpu()->counters.refused - before));
}

/* No part of a long sum is lost, whatever library or order adds them. */
TEST(long_sums) {
    static const int64_t lengths[] = {4099, 70001};
    cr_scope_begin();
    for (int i = 0; i < 2; i++)
        for (int p = CR_HIGHEST; p <= CR_MEDIUM; p++) {
            cr_set_f32_products((cr_precision)p);
            cr_tensor *y = cr_matmul(cr_ones(CR_LIST(8, lengths[i]), CR_F32, dev()),
                                     cr_ones(CR_LIST(lengths[i], 8), CR_F32, dev()));
            cr_set_f32_products(CR_HIGHEST);
            const double error = off(y, cr_full(CR_LIST(8, 8), (double)lengths[i], CR_F32, dev()));
            CHECK(error == 0, "precision %d, %lld ones: off by %g", p, (long long)lengths[i], error);
        }
    for (int dt = CR_F16; dt <= CR_BF16; dt++) {    /* 4099, which neither dtype represents, less 4098: partial sums
                                                     * are not rounded */
        const cr_tensor *parts[] = {cr_ones(CR_LIST(8, 4099), (cr_dtype)dt, dev()),
                                    cr_full(CR_LIST(8, 4098), -1, (cr_dtype)dt, dev())};
        cr_tensor *y = cr_matmul(cr_cat(2, parts, 1), cr_ones(CR_LIST(8197, 8), (cr_dtype)dt, dev()));
        CHECK(off(y, cr_ones(CR_LIST(8, 8), (cr_dtype)dt, dev())) == 0, "%s: off by %g", cr_dtype_name((cr_dtype)dt),
              off(y, cr_ones(CR_LIST(8, 8), (cr_dtype)dt, dev())));
    }
    cr_scope_end();
}

TEST(precision_of_products) {
    const char *wish = getenv("CHAINRULE_CUBLASLT");
    if (wish && !strcmp(wish, "off")) SKIP("our own products take all bits");
    static const struct {
        cr_precision is;
        cr_tensor *(*rounded)(const cr_tensor *x);
        int launches;
        double error;
        const char *name;
    } modes[] =
        /* TF32: a GPU may truncate where the simulated one rounds */
        {{CR_HIGH, of_tf32, 1, 1e-3, "TF32"}, {CR_MEDIUM, of_bf16, 3, 1e-6, "bf16"}};
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(3, 17, 44), CR_F32, dev(), r), *w = cr_randn(CR_LIST(32, 44), CR_F32, dev(), r),
              *b = cr_randn(CR_LIST(32), CR_F32, dev(), r);
    cr_tensor *u = cr_randn(CR_LIST(3, 44, 31), CR_F32, dev(), r),
              *column = cr_slice(cr_randn(CR_LIST(44, 5), CR_F32, dev(), r), 1, 2, 3, 1);
    const cr_tensor *of[] = {x, w, u, column, cr_slice(x, 2, 1, 44, 1), cr_slice(w, 1, 1, 44, 1)};
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        const cr_tensor *in[6], *want[6], *got[6], *whole = NULL;
        for (int i = 0; i < 6; i++) in[i] = modes[m].rounded(of[i]);
        for (int mode = 0; mode < 2; mode++) {
            const cr_tensor *const *a = mode ? of : in;
            const cr_tensor **y = mode ? got : want;
            cr_set_f32_products(mode ? modes[m].is : CR_HIGHEST);
            const int64_t before = launches();
            y[0] = cr_linear(a[0], a[1], b);
            COUNT(launches() == before + (mode ? modes[m].launches : 1), "%s: linear took %lld launches", modes[m].name,
                  (long long)(launches() - before));
            y[1] = cr_matmul(a[0], a[2]);
            y[2] = cr_matmul(a[0], a[3]);
            y[3] = cr_linear(a[4], a[5], CR_NONE);         /* does not begin at a multiple of 16 bytes */
            y[4] = cr_matmul(cr_transpose(a[2], 1, 2), cr_transpose(a[0], 1, 2));
            y[5] = cr_addbmm(cr_full(CR_LIST(17, 31), 1, CR_F32, dev()), a[0], a[2], 1, 1);
            cr_set_f32_products(CR_HIGHEST);
        }
        whole = cr_linear(x, w, b);
        for (int i = 0; i < 6; i++)
            CHECK(off(got[i], want[i]) < modes[m].error, "%s: product %d is off by %g", modes[m].name, i,
                  off(got[i], want[i]));
        CHECK(off(got[0], whole) > 1e-5, "%s: nothing was rounded", modes[m].name);
    }
    cr_scope_end();
    cr_generator_free(r);
}

/* ---- layers with GELU and their gradients: in epilogues of cuBLASLt where it takes them, else in
 * separate launches; compared with `ref` in float64 */
enum { LEAVES = 5, RESULTS = 1 + 2 * LEAVES, FROZEN_W1 = 1 << 1, FROZEN_W2 = 1 << 3 };
typedef cr_tensor *layers(const cr_tensor *const in[LEAVES]);
static cr_tensor *one_layer(const cr_tensor *const in[LEAVES]) {
    return cr_linear_gelu(in[0], in[1], in[2]);
}
static cr_tensor *two_layers(const cr_tensor *const in[LEAVES]) {
    return cr_linear(one_layer(in), in[3], in[4]);
}

/* y, its gradients (weighted by 1, 2, 3...), and those of the sum of their squares; how many of each.
 * from: CR_NONE is absent.  Launches: of y, and of all its gradients. */
static int layers_with_gelu(layers *f, const cr_tensor *const from[LEAVES], const cr_device *d, cr_dtype dt,
                            unsigned frozen, cr_tensor *out[RESULTS], int64_t took[2]) {
    const cr_tensor *in[LEAVES], *wanted[LEAVES];
    cr_tensor *g[LEAVES], *squares = NULL;
    int m = 0;
    for (int i = 0; i < RESULTS; i++) out[i] = NULL;
    for (int i = 0; i < LEAVES; i++) {
        const bool grows = !cr_is_none(from[i]) && !(frozen >> i & 1);
        in[i] = cr_is_none(from[i]) ? CR_NONE : cr_requires_grad_(cr_to(from[i], dt, d), grows);
        if (grows) wanted[m++] = in[i];
    }
    const int64_t before = launches();
    const cr_tensor *y = out[0] = f(in);
    took[0] = launches() - before;
    const cr_tensor *weights = cr_reshape(cr_arange(1, (double)cr_numel(y) + 1, 1, dt, d), cr_ndim(y), cr_shape(y));
    weights = cr_div(weights, cr_scalar((double)cr_numel(y)));
    const int64_t then = launches();
    OK(cr_gradients(1, &y, &weights, m, wanted, out + 1, &(cr_backward_options){.retain_graph = true}));
    took[1] = launches() - then;
    OK(cr_gradients(1, &y, &weights, m, wanted, g, &(cr_backward_options){.create_graph = true}));
    for (int i = 0; i < m; i++) {
        cr_tensor *s = cr_sum(cr_square(cr_to(g[i], dt == CR_F64 ? CR_F64 : CR_F32, d)), CR_ALL, false);
        squares = squares ? cr_add(squares, s) : s;
    }
    OK(cr_gradients(1, (const cr_tensor *const[]){squares}, NULL, m, wanted, out + 1 + m, NULL));
    return m;
}

/* half precision rounds h, dh and every result */
static const struct {
    cr_dtype is;
    double error;
} layer_dtypes[] = {{CR_F32, 1e-5}, {CR_BF16, 4e-2}, {CR_F16, 5e-3}, {CR_F64, 1e-12}};
enum { LAYER_DTYPES = sizeof layer_dtypes / sizeof *layer_dtypes };
static bool takes_sums(cr_dtype dt) { return cr_lt_ready() && dt != CR_F64; }
/* its tanh is too inexact for full f32 */
static bool takes_gelu(cr_dtype dt) { return takes_sums(dt) && dt != CR_F32; }

/* Normal numbers, rounded to the dtype; w (M, K) has its rows' sums of squares near 1. */
static cr_tensor *normal(cr_dtype dt, int n, const int64_t *shape, bool weight, cr_generator *r) {
    cr_tensor *x = cr_randn(n, shape, CR_F32, cr_cpu(), r);
    return cr_to(weight ? cr_div(x, cr_scalar(sqrt((double)shape[1]))) : x, dt, cr_cpu());
}

/* forward, backward: launches; ANY: as many as it takes */
enum { ANY = -1 };
static void check_layers(const char *what, layers *f, const cr_tensor *const from[LEAVES], int t, unsigned frozen,
                         int64_t forward, int64_t backward) {
    cr_tensor *got[RESULTS], *want[RESULTS];
    int64_t took[2], of_ref[2];
    const cr_dtype dt = layer_dtypes[t].is;
    /* biases of f64, whose products have no epilogue */
    const int64_t apart = dt == CR_F64 && cr_lt_ready() ? !cr_is_none(from[2]) + !cr_is_none(from[4]) : 0;
    const int m = layers_with_gelu(f, from, dev(), dt, frozen, got, took);
    layers_with_gelu(f, from, cr_ref(), CR_F64, frozen, want, of_ref);
    for (int i = 0; i < 1 + 2 * m; i++) {
        /* no gradient depends on the last bias */
        if (want[i] && cr_is_none(want[i]) && got[i] && cr_is_none(got[i])) continue;
        const double error = got[i] && want[i] && !cr_is_none(got[i])
                                 ? off(cr_to(got[i], CR_F64, cr_cpu()), cr_to(want[i], CR_F64, cr_cpu()))
                                 : NAN;
        CHECK(error < layer_dtypes[t].error, "%s: result %d is off by %g: %s", what, i, error, cr_error());
    }
    COUNT(forward == ANY || (took[0] == forward + apart && took[1] == backward),
          "%s: %lld and %lld launches, wanted %lld and %lld", what,
          (long long)took[0], (long long)took[1], (long long)(forward + apart), (long long)backward);
    const cr_tensor *plain[LEAVES];
    for (int i = 0; i < LEAVES; i++) plain[i] = cr_is_none(from[i]) ? CR_NONE : cr_to(from[i], dt, dev());
    const int64_t before = launches(), fewest = (f == two_layers) + (takes_gelu(dt) ? 1 : 2) + apart;
    cr_tensor *alone = f(plain);
    COUNT(forward == ANY || launches() - before == fewest, "%s, without gradients: %lld launches", what,
          (long long)(launches() - before));
    const double error = off(cr_to(alone, CR_F64, cr_cpu()), cr_to(want[0], CR_F64, cr_cpu()));
    CHECK(error < layer_dtypes[t].error, "%s, without gradients: off by %g", what, error);
    test_ran_on(dev());
}

TEST(linear_gelu) {
    /* rows, inputs, outputs: 9 is no multiple of 8 */
    static const int64_t shapes[][3] = {{5, 7, 8}, {5, 7, 9}, {1, 16, 24}, {33, 40, 48}};
    cr_generator *r = cr_generator_new(test_seed());
    char what[100];
    for (int t = 0; t < LAYER_DTYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int way = 0; way < 3; way++) {     /* with a bias, without, and with a weight that needs no gradient */
                const int64_t M = shapes[s][0], C = shapes[s][1], N = shapes[s][2];
                const cr_dtype dt = layer_dtypes[t].is;
                if (!test_sampled(t + (int64_t)s + way, 2)) continue;
                cr_scope_begin();
                const cr_tensor *from[LEAVES] = {
                    normal(dt, CR_LIST(M, C), false, r), normal(dt, CR_LIST(N, C), true, r),
                    way == 1 ? CR_NONE : normal(dt, CR_LIST(N), false, r), CR_NONE, CR_NONE};
                snprintf(what, sizeof what, "%s, %lld x %lld x %lld, way %d", cr_dtype_name(dt), (long long)M,
                         (long long)C, (long long)N, way);
                /* dh, dx, dw, db */
                check_layers(what, one_layer, from, t, way == 2 ? FROZEN_W1 : 0,
                             way < 2 && takes_gelu(dt) && N % 8 == 0 ? 1 : 2,
                             way              ? 3
                             : takes_sums(dt) ? 3
                                              : 4);
                cr_scope_end();
            }
    cr_generator_free(r);
}

/* Where cuBLASLt refuses an epilogue, its own product and a pass take its place, never the plain kernel: each epilogue
 * in turn, on sizes that no other test has, since choices are kept; K = 7 in bf16; a bias at an odd offset. */
TEST(refused_epilogues) {
    static const int epilogues[] = {LT_EPILOGUE_BIAS, LT_EPILOGUE_GELU, LT_EPILOGUE_GELU | LT_EPILOGUE_BIAS,
                                    LT_EPILOGUE_GELU_AUX, LT_EPILOGUE_GELU_AUX | LT_EPILOGUE_BIAS,
                                    LT_EPILOGUE_BGRADB, ANY};
    enum { EPILOGUES = sizeof epilogues / sizeof *epilogues };
    void (*refuse)(int epilogue) = NULL;
    long long (*launched)(const char *kernel) = NULL;
    const bool simulated = test_simulator("cudasim_refuse", &refuse) && test_simulator("cudasim_launches", &launched);
    if (!cr_lt_ready()) SKIP("no cuBLASLt");
    cr_generator *r = cr_generator_new(test_seed());
    char what[100];
    const long long before = simulated ? launched("matmul") : 0;
    const int64_t refused = gpu()->counters.refused;
    for (int k = 0; k < EPILOGUES; k++)
        for (int t = 0; t < LAYER_DTYPES; t++)
            for (int way = 0; way < 3; way++) {     /* with biases; without; with biases at an odd offset */
                const int64_t M = 10 + k, C = 7, N = 24, K = 16;
                const cr_dtype dt = layer_dtypes[t].is;
                cr_scope_begin();
                const cr_tensor *b1 = normal(dt, CR_LIST(N + 1), false, r), *b2 = normal(dt, CR_LIST(K + 1), false, r);
                const cr_tensor *from[LEAVES] = {
                    normal(dt, CR_LIST(M, C), false, r), normal(dt, CR_LIST(N, C), true, r), cr_slice(b1, 0, 0, N, 1),
                    normal(dt, CR_LIST(K, N), true, r), cr_slice(b2, 0, 0, K, 1)};
                if (way == 1) from[2] = from[4] = CR_NONE;
                if (simulated) refuse(epilogues[k]);
                snprintf(what, sizeof what, "epilogue %d refused, %s, way %d", epilogues[k], cr_dtype_name(dt), way);
                if (way < 2) {
                    check_layers(what, two_layers, from, t, 0, ANY, ANY);
                    from[3] = from[4] = CR_NONE;
                    check_layers(what, one_layer, from, t, 0, ANY, ANY);
                } else {
                    const cr_tensor *odd = cr_slice(cr_to(b1, dt, dev()), 0, 1, N + 1, 1),
                                    *x = cr_to(from[0], dt, dev()), *w = cr_to(from[1], dt, dev());
                    const cr_tensor *want = cr_add(cr_matmul(cr_to(x, CR_F64, cr_cpu()),
                                                             cr_transpose(cr_to(w, CR_F64, cr_cpu()), 0, 1)),
                                                   cr_to(odd, CR_F64, cr_cpu()));
                    const double error = off(cr_to(cr_linear(x, w, odd), CR_F64, cr_cpu()), want);
                    CHECK(error < layer_dtypes[t].error / 4, "%s: off by %g", what, error);
                }
                if (simulated) refuse(ANY);
                cr_scope_end();
            }
    if (simulated) {
        CHECK(launched("matmul") == before, "the plain kernel is launched %lld times", launched("matmul") - before);
        CHECK(gpu()->counters.refused - refused >= EPILOGUES - 1, "only %lld shapes were refused",
              (long long)(gpu()->counters.refused - refused));
    }
    cr_generator_free(r);
}

TEST(two_layers) {
    /* rows, inputs, between, outputs */
    static const int64_t shapes[][4] = {{5, 7, 8, 3}, {5, 7, 9, 4}, {1, 16, 24, 16}, {33, 40, 48, 17}};
    static const unsigned frozen[] = {0, 0, FROZEN_W1, FROZEN_W2, 1 << 0, 1 << 2};
    cr_generator *r = cr_generator_new(test_seed());
    char what[100];
    for (int t = 0; t < LAYER_DTYPES; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int way = 0; way < 6; way++) {     /* with biases, without, and with one input that needs no
                                                     * gradient */
                const int64_t M = shapes[s][0], C = shapes[s][1], N = shapes[s][2], K = shapes[s][3];
                const cr_dtype dt = layer_dtypes[t].is;
                const bool sums = takes_sums(dt), gelu = takes_gelu(dt) && N % 8 == 0, bare = way == 1, dx = way != 4;
                cr_scope_begin();
                const cr_tensor *from[LEAVES] = {
                    normal(dt, CR_LIST(M, C), false, r), normal(dt, CR_LIST(N, C), true, r),
                    bare ? CR_NONE : normal(dt, CR_LIST(N), false, r), normal(dt, CR_LIST(K, N), true, r),
                    bare ? CR_NONE : normal(dt, CR_LIST(K), false, r)};
                snprintf(what, sizeof what, "%s, %lld x %lld x %lld x %lld, way %d", cr_dtype_name(dt), (long long)M,
                         (long long)C, (long long)N, (long long)K, way);
                /* each with its bias; one of the two only */
                const int64_t dw2 = bare || way == 3 ? 1
                                    : sums           ? 1
                                                     : 2,
                              dw1 = way == 1 || way == 2 || way == 5 ? 1
                                    : sums                           ? 1
                                                                     : 2;
                check_layers(what, two_layers, from, t, frozen[way], 1 + (way != 2 && gelu ? 1 : 2),
                             dw2 + 2 + dw1 + dx);   /* 2: of dh */
                cr_scope_end();
            }
    cr_generator_free(r);
}

static cr_tensor *recomputed(int n, const cr_tensor *const *in, void *ctx) {
    (void)n; (void)ctx;
    return two_layers(in);
}

/* The same bits if the backward pass runs the forward again; without a graph nothing is saved. */
TEST(two_layers_recomputed) {
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    const cr_tensor *in[LEAVES], *y[2], *g = cr_randn(CR_LIST(5, 3), CR_F32, dev(), r);
    const int64_t shapes[LEAVES][2] = {{5, 7}, {8, 7}, {8, 0}, {3, 8}, {3, 0}};
    for (int i = 0; i < LEAVES; i++)
        in[i] = cr_requires_grad_(cr_randn(shapes[i][1] ? 2 : 1, shapes[i], CR_F32, dev(), r), true);
    cr_tensor *d[2][LEAVES];
    y[0] = two_layers(in);
    y[1] = cr_checkpoint(recomputed, NULL, LEAVES, in);
    for (int k = 0; k < 2; k++) OK(cr_gradients(1, &y[k], &g, LEAVES, in, d[k], NULL));
    for (int i = 0; i < LEAVES; i++)
        CHECK(off(d[1][i], d[0][i]) == 0, "gradient %d is off by %g", i, off(d[1][i], d[0][i]));
    const cr_tensor *a = one_layer(in);
    cr_set_grad_enabled(false);
    const int64_t before = cr_memory_stats(dev()).current;
    const cr_tensor *z = one_layer(in);
    cr_set_grad_enabled(true);
    const int64_t held = cr_memory_stats(dev()).current - before;
    CHECK(off(z, a) == 0 && held <= 512, "%lld bytes are held, off by %g", (long long)held, off(z, a));
    cr_scope_end();
    cr_generator_free(r);
}

/* The algorithm for a bias aligned to 256 bytes is not used for other alignments. */
TEST(bias_at_16_bytes) {
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(5, 16), CR_F32, dev(), r), *w = cr_randn(CR_LIST(8, 16), CR_F32, dev(), r),
              *b = cr_randn(CR_LIST(20), CR_F32, dev(), r);
    for (int at = 0; at <= 4; at += 4) {
        const cr_tensor *bias = cr_slice(b, 0, at, at + 8, 1), *y = cr_linear(x, w, bias);
        REQUIRE(y, "a bias %d bytes on: %s", 4 * at, cr_error());
        const double error = off(y, cr_add(cr_linear(x, w, CR_NONE), bias));
        CHECK(error < 1e-6, "a bias %d bytes on: off by %g", 4 * at, error);
    }
    cr_scope_end();
    cr_generator_free(r);
}

/* Operands and bias that begin at any multiple of their dtype's size: the numbers of those that begin at 0. */
TEST(products_at_any_offset) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_F16};
    enum { M = 24, N = 32, K = 40, OFFSETS = 9 };
    cr_generator *r = cr_generator_new(test_seed());
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < OFFSETS; i++) {
            const cr_dtype dt = dtypes[t];
            cr_scope_begin();
            const cr_tensor *flat[3], *want = NULL, *got = NULL;
            for (int k = 0; k < 3; k++)
                flat[k] = cr_to(cr_randint(-3, 4, CR_LIST(N * K), CR_I64, cr_cpu(), r), dt, cr_cpu());
            for (int side = 0; side < 2; side++) {
                const cr_tensor *part[3];
                const int64_t sizes[3] = {M * K, N * K, N},
                              first[3] = {i, (i * 5 + 1) % OFFSETS, (i * 7 + 2) % OFFSETS};
                for (int k = 0; k < 3; k++) {       /* the last N * K - size elements are not read */
                    const int64_t at = side ? first[k] : 0, n = sizes[k];
                    const cr_tensor *parts[] = {cr_zeros(CR_LIST(at), dt, cr_cpu()), flat[k]};
                    const cr_tensor *whole = cr_to(cr_cat(2, parts, 0), dt, side ? dev() : cr_cpu());
                    part[k] = cr_slice(whole, 0, at, at + n, 1);
                }
                const cr_tensor *x = cr_reshape(part[0], CR_LIST(M, K)), *w = cr_reshape(part[1], CR_LIST(N, K));
                *(side ? &got : &want) = cr_add(cr_linear(x, w, part[2]), cr_matmul(x, cr_transpose(w, 0, 1)));
            }
            CHECK(got && want && cr_item(cr_all(cr_eq(cr_to(got, dt, cr_cpu()), want), CR_ALL, false)) == 1,
                  "%s, from element %d on: %s", cr_dtype_name(dt), i, cr_error() ? cr_error() : "other numbers");
            test_ran_on(dev());
            cr_scope_end();
        }
    cr_generator_free(r);
}

TEST(wide_products) {
    const int64_t before = gpu()->counters.refused;
    check_wide_products(dev());
    COUNT(gpu()->counters.refused == before, "cuBLASLt refuses %lld shapes",
          (long long)(gpu()->counters.refused - before));
}
TEST(wide_gradients) { check_wide_gradients(dev()); }

/* Sums are those of the factor itself, not of the rounded factor. */
TEST(sums_are_not_rounded) {
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    cr_tensor *x = cr_randn(CR_LIST(33, 16), CR_F32, dev(), r),
              *w = cr_requires_grad_(cr_randn(CR_LIST(8, 16), CR_F32, dev(), r), true);
    cr_tensor *b = cr_requires_grad_(cr_zeros(CR_LIST(8), CR_F32, dev()), true),
              *g = cr_randn(CR_LIST(33, 8), CR_F32, dev(), r), *want = cr_sum(g, CR_LIST(0), false);
    for (int p = CR_HIGHEST; p <= CR_MEDIUM; p++) {
        cr_set_f32_products((cr_precision)p);
        cr_tensor *y = cr_linear(x, w, b), *d[2];
        OK(cr_gradients(1, (const cr_tensor *const[]){y}, (const cr_tensor *const[]){g}, 2,
                        (const cr_tensor *const[]){w, b}, d, NULL));
        cr_set_f32_products(CR_HIGHEST);
        CHECK(off(d[1], want) < 1e-6, "precision %d: the bias's gradient is off by %g", p, off(d[1], want));
    }
    cr_scope_end();
    cr_generator_free(r);
}

/* ---- an update of many tensors: a launch for as many tensors as an argument holds */

enum { TENSORS = 97 };
typedef struct set { cr_tensor *out[3 * TENSORS]; const cr_tensor *in[4 * TENSORS]; } set;

/* Sizes from `least` on, the same on both devices; moments are not 0. */
static void make_set(set *s, const cr_device *d, int64_t least, cr_dtype odd) {
    cr_generator *r = cr_generator_new(test_seed());
    for (int i = 0; i < TENSORS; i++) {
        const int64_t n = least + i * 37 % 1009;
        for (int k = 0; k < 4; k++) {
            cr_tensor *t = cr_to(cr_rand(CR_LIST(n), CR_F32, cr_cpu(), r), i == 50 ? odd : CR_F32, d);
            s->in[4 * i + k] = t;
            if (k != 1) s->out[3 * i + (k ? k - 1 : 0)] = t;
        }
    }
    cr_generator_free(r);
}

static void update(int64_t least, cr_dtype odd, int64_t most) {
    static const double numbers[] = {0.01, 1e-8, 0.99, 0.9, 0.1, 0.95, 0.05};
    const cr_program *p = cr_program_find("adamw");
    set mine, theirs;
    cr_scope_begin();
    make_set(&mine, dev(), least, odd);
    make_set(&theirs, cr_cpu(), least, odd);
    const int64_t before = launches();
    OK(cr_program_update(p, TENSORS, mine.out, mine.in, numbers));
    const int64_t took = launches() - before;
    test_ran_on(dev());
    CHECK(took <= most, "%d tensors of %lld elements and more took %lld launches", TENSORS, (long long)least,
          (long long)took);
    OK(cr_program_update(p, TENSORS, theirs.out, theirs.in, numbers));
    for (int i = 0; i < 3 * TENSORS; i++) {
        if (!cr_numel(theirs.out[i])) continue;
        const double error = off(cr_to(mine.out[i], CR_F32, cr_cpu()), cr_to(theirs.out[i], CR_F32, cr_cpu()));
        CHECK(error < (i / 3 == 50 && odd != CR_F32 ? 5e-3 : 1e-6), "tensor %d, result %d: off by %g", i / 3, i % 3,
              error);
    }
    cr_scope_end();
}

TEST(many_tensors) {
    update(4, CR_F32, 3);                           /* 97 of 9 words each, 43 in a launch */
    update(4, CR_BF16, 5);                          /* one in the middle has another dtype: 43, 7, 1, 43, 3 */
    update(0, CR_F32, 3);                           /* tensors of up to 3 elements have the same class, the empty one
                                                     * has none */
}

/* ---- the joint norm of many tensors */

enum { SUMMED = 251 };
TEST(total_norm) {
    static const cr_dtype dtypes[] = {CR_F32, CR_BF16, CR_F64, CR_F16};
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    const cr_tensor *mine[SUMMED], *theirs[SUMMED];
    for (int mixed = 0; mixed < 2; mixed++) {
        for (int i = 0; i < SUMMED; i++) {
            const int64_t n = i == 7 ? 2 * 16384 + 1 : i == 8 ? -1 : i == 9 ? 16384 : 1 + i * 37 % 1009;
            theirs[i] = cr_to(cr_randn(CR_LIST(n + 1), CR_F32, cr_cpu(), r), mixed ? dtypes[i / 70] : CR_F32, cr_cpu());
            mine[i] = cr_to(theirs[i], (cr_dtype)cr_dtype_of(theirs[i]), dev());
            /* not aligned to 16 bytes */
            if (i % 5 == 1)
                mine[i] = cr_slice(mine[i], 0, 1, n + 1, 1), theirs[i] = cr_slice(theirs[i], 0, 1, n + 1, 1);
            /* strided: a separate launch */
            if (mixed && i == 20) mine[i] = cr_slice(mine[i], 0, 0, n, 3), theirs[i] = cr_slice(theirs[i], 0, 0, n, 3);
        }
        double norm = -1, want = 0;
        const cuda_counters before = gpu()->counters;
        OK(cr_total_norm(SUMMED, mine, &norm));
        const cuda_counters *after = &gpu()->counters;
        if (!mixed)
            CHECK(after->launches == before.launches + 3 && after->downloads == before.downloads + 1,
                  "%d tensors took %lld launches, %lld readings", SUMMED,
                  (long long)(after->launches - before.launches), (long long)(after->downloads - before.downloads));
        for (int i = 0; i < SUMMED; i++)
            if (cr_numel(theirs[i])) want += cr_item(cr_sum_squares(cr_to(theirs[i], CR_F64, cr_cpu())));
        CHECK(fabs(norm - sqrt(want)) < 1e-6 * norm, "the norm is %.9g, wanted %.9g", norm, sqrt(want));
        test_ran_on(dev());
    }
    double norm = -1;
    OK(cr_total_norm(0, NULL, &norm));
    CHECK(norm == 0, "the norm of nothing is %g", norm);
    OK(cr_total_norm(2, (const cr_tensor *[]){mine[8], mine[8]}, &norm));
    CHECK(norm == 0, "the norm of no elements is %g", norm);
    FAILS(CR_BAD_TYPE, "total_norm",
          cr_total_norm(1, (const cr_tensor *[]){cr_zeros(CR_LIST(3), CR_I32, dev())}, &norm));
    FAILS(CR_BAD_VALUE, "-1 tensors", cr_total_norm(-1, mine, &norm));
    cr_scope_end();
    cr_generator_free(r);
}

/* ---- walks of all layouts: the bits of the cpu.  Numbers are small integers, exact in every dtype */

typedef struct view { const char *what; int ndim; int64_t shape[5]; const cr_tensor *(*of)(const cr_tensor *x); } view;
static const cr_tensor *as_it_is(const cr_tensor *x) { return x; }
static const cr_tensor *turned(const cr_tensor *x) { return cr_transpose(x, -1, -2); }
static const cr_tensor *permuted(const cr_tensor *x) { return cr_permute(x, 5, (int64_t[]){3, 0, 4, 2, 1}); }
static const cr_tensor *from_the_second(const cr_tensor *x) { return cr_slice(x, -1, 1, INT64_MAX, 1); }
static const cr_tensor *but_the_last(const cr_tensor *x) { return cr_slice(x, -1, 0, -3, 1); }
static const cr_tensor *every_third(const cr_tensor *x) { return cr_slice(x, -1, 0, INT64_MAX, 3); }
static const cr_tensor *backwards(const cr_tensor *x) {
    return cr_slice(cr_slice(x, -1, -1, INT64_MIN, -1), 0, -1, INT64_MIN, -1);
}
static const cr_tensor *turned_and_cut(const cr_tensor *x) {
    return cr_transpose(cr_slice(cr_slice(x, 1, 2, INT64_MAX, 1), 0, 1, INT64_MAX, 2), 0, 1);
}
static const cr_tensor *turned_backwards(const cr_tensor *x) { return cr_transpose(backwards(x), 0, 1); }
static const cr_tensor *channels_first(const cr_tensor *x) { return cr_permute(x, 3, (int64_t[]){2, 0, 1}); }
static const view views[] = {
    /* tiles have 32 x 32 elements, or 64 x 32 and 64 x 64 small ones */
    {"rows", 2, {7, 48}, as_it_is},
    {"odd rows", 2, {37, 29}, as_it_is},
    {"cut rows", 2, {5, 49}, from_the_second},
    {"even cut", 2, {5, 17}, from_the_second},
    {"cut at the end", 2, {5, 48}, but_the_last},
    {"thirds", 2, {11, 64}, every_third},
    {"backwards", 2, {13, 40}, backwards},
    {"turned", 2, {67, 131}, turned},
    {"whole tiles", 2, {64, 128}, turned},
    {"three columns", 2, {3, 701}, turned},
    {"three rows", 2, {701, 3}, turned},
    {"one column", 2, {1, 701}, turned},
    {"small matrices", 3, {41, 5, 7}, turned},
    {"matrices", 3, {3, 33, 65}, turned},
    {"turned and cut", 2, {71, 69}, turned_and_cut},
    {"turned backwards", 2, {41, 37}, turned_backwards},
    {"permuted", 5, {2, 11, 3, 5, 13}, permuted},
    {"channels first", 3, {17, 19, 3}, channels_first},
};

static cr_tensor *counted(const view *v, cr_dtype dt, const cr_device *d, int shift) {
    int64_t n = 1;
    for (int i = 0; i < v->ndim; i++) n *= v->shape[i];
    uint8_t *bytes = malloc((size_t)n);
    if (!bytes) return NULL;
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)((i + shift) * 7 % 53);
    cr_tensor *x = cr_to(cr_from(bytes, v->ndim, v->shape, CR_U8, d), dt, d);
    free(bytes);
    return x;
}

enum { WAYS = 9 };
static const cr_tensor *walked(const view *v, int way, cr_dtype dt, const cr_device *d) {
    const cr_tensor *x = v->of(counted(v, dt, d, 0)), *dense = cr_contiguous(v->of(counted(v, dt, d, 5))), *y;
    if (!x || !dense) return NULL;
    const int last = cr_ndim(x) - 1;
    switch (way) {
        case 0: return cr_contiguous(cr_add(cr_add(x, dense), cr_add(x, cr_scalar(3))));
        case 1: return cr_to(x, dt == CR_F32 ? CR_BF16 : CR_F32, d);
        case 2: return cr_add(x, cr_select(cr_reshape(dense, 2, (int64_t[]){-1, cr_shape(x)[last]}), 0, 0)); /* a row */
        case 3: return cr_add(dense, cr_slice(x, last, 0, 1, 1)); /* a column */
        case 4: return cr_add(x, v->of(counted(v, dt, d, 9)));      /* two of the same layout */
        case 5: return cr_copy_((cr_tensor *)(uintptr_t)x, dense);  /* into it */
        case 6: return cr_add_((cr_tensor *)(uintptr_t)x, dense);
        case 7:
            return cr_add_((cr_tensor *)(uintptr_t)x,
                           cr_select(cr_reshape(dense, 2, (int64_t[]){-1, cr_shape(x)[last]}), 0, 0));
        default: return y = cr_where(cr_gt(x, cr_scalar(20)), dense, x), cr_add(cr_transpose(y, 0, last), cr_scalar(1));
    }
}

TEST(walks) {
    static const cr_dtype dtypes[] = {CR_F32, CR_BF16, CR_U8, CR_I64, CR_F16, CR_F64};
    const bool full = getenv("CHAINRULE_TEST_FULL");
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        for (int t = 0; t < (full ? 6 : 4); t++)
            for (int way = 0; way < WAYS; way++) {
                const view *v = &views[i];
                if (!test_sampled((int64_t)i + way, 2) || (!full && t && way % 4 != t)) continue;
                cr_scope_begin();
                const cr_tensor *mine = walked(v, way, dtypes[t], dev()), *theirs = walked(v, way, dtypes[t], cr_cpu());
                CHECK(mine && theirs &&
                          cr_item(cr_equal(cr_to(mine, (cr_dtype)cr_dtype_of(mine), cr_cpu()), theirs)) == 1,
                      "%s, %s, way %d: %s", v->what, cr_dtype_name(dtypes[t]), way,
                      cr_error() ? cr_error() : "differs");
                test_ran_on(dev());
                cr_scope_end();
            }
}

/* Several results and more transposed inputs than shared memory takes; under the thread sanitizer this
 * test finds a missing barrier. */
TEST(tiles) {
    cr_program *p = cr_program_new("many_turned", "a b c d e f", "", "s = a + b * c; t = d - e; s, t * f, s + t");
    REQUIRE(p, "%s", cr_error());
    static const int64_t shape[] = {35, 70};
    cr_tensor *out[2][3];
    cr_scope_begin();
    for (int k = 0; k < 2; k++) {
        const cr_device *d = k ? cr_cpu() : dev();
        const cr_tensor *in[6];
        for (int i = 0; i < 6; i++) {
            const view v = {.ndim = 2, .shape = {70, 35}};
            in[i] = cr_transpose(counted(&v, CR_F32, d, i), 0, 1);
            if (i == 3) in[i] = cr_contiguous(in[i]);
        }
        for (int i = 0; i < 3; i++) out[k][i] = cr_zeros(2, shape, CR_F32, d);
        out[k][1] = cr_to(out[k][1], CR_F64, d);
        OK(cr_program_update(p, 1, out[k], in, NULL));
    }
    for (int i = 0; i < 3; i++)
        CHECK(cr_item(cr_equal(cr_to(out[0][i], (cr_dtype)cr_dtype_of(out[0][i]), cr_cpu()), out[1][i])) == 1,
              "result %d: %s", i, cr_error() ? cr_error() : "differs");
    test_ran_on(dev());
    cr_scope_end();
    cr_program_free(p);
}

/* ---- rows of all lengths: shorter than a pack of 16 bytes, beginning within a pack, as long as
 * registers hold, and longer; -Inf before numbers */

static cr_tensor *loss_of_rows(const cr_device *d, cr_dtype dt, int64_t M, int64_t N, cr_tensor *leaf[3],
                               cr_generator *r) {
    const bool hidden = N > 8;
    cr_tensor *x = cr_randn(CR_LIST(M, N), CR_F32, cr_cpu(), r), *target = cr_arange(0, (double)M, 1, CR_I64, cr_cpu());
    /* all packs of some threads, the first packs of others */
    if (hidden) cr_fill_(cr_slice(x, 1, 0, N / 2, 1), -INFINITY);
    leaf[0] = cr_requires_grad_(cr_to(cr_randn(CR_LIST(M, N), CR_F32, cr_cpu(), r), dt, d), true);
    leaf[1] = cr_requires_grad_(cr_to(cr_randn(CR_LIST(N), CR_F32, cr_cpu(), r), dt, d), true);
    leaf[2] = cr_requires_grad_(cr_to(x, dt, d), true);
    const cr_tensor *parts[] = {cr_softmax(leaf[2], 1), cr_softmax(leaf[0], 1), cr_log_softmax(leaf[0], 1),
                                cr_layer_norm(leaf[0], leaf[1], CR_NONE, 1e-5), cr_rms_norm(leaf[0], CR_NONE, 1e-5)};
    cr_tensor *y = cr_mean(cr_mul(parts[0], leaf[0]), CR_ALL, false);
    for (int i = 1; i < 5; i++) y = cr_add(y, cr_mean(cr_mul(cr_mul(parts[i], parts[i]), leaf[0]), CR_ALL, false));
    target = cr_to(N < M ? cr_zeros_like(target) : cr_sub(cr_scalar((double)N - 1), target), CR_I64, d);
    for (int smooth = 0; smooth < 2; smooth++)
        y = cr_add(y, cr_cross_entropy(leaf[smooth ? 0 : 2], target,
                                       &(cr_cross_entropy_options){.reduction = CR_MEAN,
                                                                   .ignore_index = -100,
                                                                   .label_smoothing = smooth ? 0.1 : 0}));
    return y;
}

TEST(rows) {
    static const int64_t sizes[] = {1, 3, 5, 37, 130, 515, 1023, 1032, 4099, 8205};
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_F16, CR_BF16};
    for (int t = 0; t < 4; t++) {
        const double most = cr_dtype_size(dtypes[t]) == 2 ? 3e-2 : dtypes[t] == CR_F64 ? 1e-11 : 2e-5;
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            const int64_t M = 3, N = sizes[i];
            cr_scope_begin();
            cr_tensor *mine[3], *theirs[3], *y[2];
            for (int k = 0; k < 2; k++) {
                cr_generator *r = cr_generator_new(test_seed());
                y[k] = loss_of_rows(k ? cr_ref() : dev(), dtypes[t], M, N, k ? theirs : mine, r);
                OK(cr_backward(y[k], CR_NONE, NULL));
                REQUIRE(!cr_error(), "%s, %lld columns", cr_dtype_name(dtypes[t]), (long long)N);
                cr_generator_free(r);
            }
            CHECK(fabs(cr_item(y[0]) - cr_item(y[1])) <= most * (1 + fabs(cr_item(y[1]))),
                  "%s, %lld columns: %g, wanted %g", cr_dtype_name(dtypes[t]), (long long)N, cr_item(y[0]),
                  cr_item(y[1]));
            for (int k = 0; k < 3; k++) {              /* of one column some are 0 */
                const double error = off(cr_to(cr_grad(mine[k]), CR_F64, cr_cpu()),
                                         cr_to(cr_grad(theirs[k]), CR_F64, cr_cpu()));
                CHECK(error < most || N == 1, "%s, %lld columns, gradient %d: off by %g", cr_dtype_name(dtypes[t]),
                      (long long)N, k, error);
            }
            test_ran_on(dev());
            cr_scope_end();
        }
    }
}

TEST(over_logits) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_F16, CR_BF16};
    for (int i = 0; i < 4; i++) check_over_logits(dev(), dtypes[i], false);
}

/* The products of a head with an odd number of classes: all but a few are of multiples of 16 bytes, and there is no
 * other way to them than linear_cross_entropy. */
TEST(odd_vocabulary) {
    enum { M = 48, C = 64, V = 1031 };
    const cudasim_counters *(*count)(void);
    if (!test_simulator("cudasim_count", &count)) SKIP("no simulator");
    if (!cr_lt_ready()) SKIP("products of its own");
    cr_generator *random = cr_generator_new(test_seed());
    for (int head = 0; head < 2; head++) {
        cr_scope_begin();
        cr_tensor *x = cr_to(cr_randn(CR_LIST(M, C), CR_F32, cr_cpu(), random), CR_BF16, dev()),
                  *w = cr_to(cr_randn(CR_LIST(V, C), CR_F32, cr_cpu(), random), CR_BF16, dev()),
                  *target = cr_to(cr_arange(0, M, 1, CR_I64, cr_cpu()), CR_I64, dev());
        cr_requires_grad_(x, true), cr_requires_grad_(w, true);
        const cudasim_counters before = *count();
        OK(cr_backward(head ? cr_linear_cross_entropy(x, w, target, NULL)
                            : cr_cross_entropy(cr_linear(x, w, CR_NONE), target, NULL),
                       CR_NONE, NULL));
        const long long work = count()->work - before.work, odd = count()->odd_work - before.odd_work;
        CHECK(work == 3LL * M * C * V, "%lld multiply-adds, wanted %lld", work, 3LL * M * C * V);
        CHECK(head ? 100 * odd <= work : odd == work, "%s: %lld of %lld multiply-adds are beside 16 bytes",
              head ? "linear_cross_entropy" : "cross_entropy of linear", odd, work);
        cr_scope_end();
    }
    cr_generator_free(random);
    test_ran_on(dev());
}

/* A whole step of a model with an odd vocabulary: every matrix begins its rows at multiples of 16 bytes.  The padding
 * is nobody's: the parameters keep their shapes, in files too, there and back. */
TEST(odd_vocabulary_step) {
    enum { V = 1031, C = 64, T = 24 };
    const cudasim_counters *(*count)(void) = NULL;
    const char *path = folder_path("odd.safetensors"), *back = folder_path("back.safetensors");
    const bool simulated = cr_lt_ready() && test_simulator("cudasim_count", &count);
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *here = cr_gpt_new(&(cr_gpt_config){V, T, 1, 2, C, 0}, CR_BF16, cr_cpu(), random);
    OK(cr_gpt_save(here, path));
    cr_gpt *m = cr_gpt_load(path, dev());
    REQUIRE(m, "%s", cr_error());
    cr_scope_begin();
    cr_tensor *x = cr_to(cr_randint(0, V, CR_LIST(2, T), CR_I64, cr_cpu(), random), CR_I64, dev());
    const long long before = simulated ? count()->uneven : 0;
    OK(cr_backward(cr_gpt_loss(m, x, x, true), CR_NONE, NULL));
    CHECK(!simulated || count()->uneven == before, "%lld products have rows beside 16 bytes", count()->uneven - before);
    OK(cr_gpt_save(m, back));
    cr_params *one = cr_load(path, cr_cpu()), *two = cr_load(back, cr_cpu());
    REQUIRE(one && two && cr_params_count(one) == cr_params_count(two), "%s", cr_error());
    for (int64_t i = 0; i < cr_params_count(one); i++) {
        const cr_tensor *a = cr_params_at(one, i), *b = cr_params_get(two, cr_params_name(one, i));
        CHECK(b && cr_item(cr_all(cr_eq(a, b), CR_ALL, false)) == 1, "%s is another", cr_params_name(one, i));
        CHECK(cr_numel(a) < V * C || (cr_numel(a) == V * C && cr_shape(a)[0] == V), "%s has %lld elements",
              cr_params_name(one, i), (long long)cr_numel(a));
    }
    cr_scope_end();
    cr_params_free(one);
    cr_params_free(two);
    cr_gpt_free(m);
    cr_gpt_free(here);
    cr_generator_free(random);
    test_ran_on(dev());
}

/* ---- any of the gradients of norms: with fewer rows than a block processes at once, several rounds
 * and parts, the most parts; columns that begin within a pack; rows that registers hold, and longer
 * ones */
TEST(norm_gradients) {
    static const struct {
        int64_t M, N;
        int wanted;
    } cases[] = {{3, 37, 7},   {2300, 3, 7},  {270001, 1, 7}, {301, 40, 1}, {301, 40, 2}, {67, 515, 4},
                 {67, 520, 6}, {67, 1032, 7}, {41, 2051, 7},  {7, 4099, 7}, {9, 8208, 6}};
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16};
#ifdef CUDASIM_SANITIZER
    enum { MOST = 100, DTYPES = 1 };                /* other dtypes share the code */
#else
    enum { MOST = 1 << 20, DTYPES = 3 };
#endif
    cr_generator *r = cr_generator_new(test_seed());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; cases[i].M <= MOST && t < (cases[i].M > 10000 ? 1 : DTYPES); t++) {
            const bool rms = (i + (size_t)t) % 2;
            const int64_t M = cases[i].M, N = cases[i].N;
            const int inputs = rms ? 2 : 3, wanted = rms && cases[i].wanted == 4 ? 2 : cases[i].wanted;
            const double most = dtypes[t] == CR_BF16 ? 1e-2 : dtypes[t] == CR_F64 ? 1e-12 : 2e-5;
            cr_scope_begin();
            cr_tensor *in[3], *g = cr_randn(CR_LIST(M, N), dtypes[t], cr_cpu(), r), *d[2][3];
            for (int k = 0; k < 3; k++)
                in[k] = k ? cr_randn(CR_LIST(N), dtypes[t], cr_cpu(), r)
                          : cr_randn(CR_LIST(M, N), dtypes[t], cr_cpu(), r);
            for (int side = 0; side < 2; side++) {
                const cr_tensor *leaf[3], *from[3];
                int n = 0;
                for (int k = 0; k < inputs; k++) {
                    leaf[k] = cr_requires_grad_(cr_to(in[k], dtypes[t], side ? cr_ref() : dev()), wanted >> k & 1);
                    if (wanted >> k & 1) from[n++] = leaf[k];
                }
                const cr_tensor *y = rms ? cr_rms_norm(leaf[0], leaf[1], 1e-5)
                                         : cr_layer_norm(leaf[0], leaf[1], leaf[2], 1e-5),
                                *dy = cr_to(g, dtypes[t], side ? cr_ref() : dev());
                const int64_t before = launches();
                OK(cr_gradients(1, &y, &dy, n, from, d[side], NULL));
                if (!side)
                    CHECK(launches() - before <= 3 + (N > 2048 || dtypes[t] == CR_F64),
                          "(%lld, %lld), %s: %lld launches", (long long)M, (long long)N, cr_dtype_name(dtypes[t]),
                          (long long)(launches() - before));
                if (!side) continue;
                for (int k = 0; k < n; k++) {
                    const double error = off(cr_to(d[0][k], CR_F64, cr_cpu()), cr_to(d[1][k], CR_F64, cr_cpu()));
                    CHECK(error < most || (N == 1 && from[k] != leaf[2]),
                          "(%lld, %lld), %s, %s, wanted %d: gradient %d is off by %g", (long long)M, (long long)N,
                          cr_dtype_name(dtypes[t]), rms ? "rms" : "layer", wanted, k, error);
                }
            }
            test_ran_on(dev());
            cr_scope_end();
        }
    cr_generator_free(r);
}

/* ---- sums over dense lines from any element on: within a pack, over several packs, over several blocks */
TEST(lines) {
    static const int64_t sizes[] = {1, 3, 4, 7, 64, 1031, 70001};
    static const cr_dtype dtypes[] = {CR_F32, CR_BF16, CR_F64, CR_I8, CR_I64};
    int8_t *v = malloc(2 * 70008);
    REQUIRE(v, "no memory");
    for (int i = 0; i < 2 * 70008; i++) v[i] = (int8_t)(i * 7 % 5 - 2);
    for (int t = 0; t < 5; t++)
        for (int i = 0; i < 7; i++)
            for (int64_t first = 0; first < 5; first++) {
                const int64_t n = sizes[i], row = sizes[i] + 6;
                cr_scope_begin();
                cr_tensor *x = cr_slice(cr_to(cr_from(v, CR_LIST(2, row), CR_I8, dev()), dtypes[t], dev()), 1, first,
                                        first + n, 1),
                          *sums = cr_sum(x, CR_LIST(1), false), *least = cr_min(x, CR_LIST(1), false);
                for (int m = 0; m < 2; m++) {
                    double sum = 0, low = 2;
                    for (int64_t k = 0; k < n; k++)
                        sum += v[m * row + first + k], low = fmin(low, v[m * row + first + k]);
                    CHECK(cr_item(cr_select(sums, 0, m)) == sum && cr_item(cr_select(least, 0, m)) == low,
                          "%s, %lld elements from %lld on: %g, %g, wanted %g, %g", cr_dtype_name(dtypes[t]),
                          (long long)n, (long long)first, cr_item(cr_select(sums, 0, m)),
                          cr_item(cr_select(least, 0, m)), sum, low);
                }
                test_ran_on(dev());
                cr_scope_end();
            }
    free(v);
}

/* ---- one element of a long row, found by its digits: many equal elements, NaN; the positions are those of the cpu */
TEST(selection) {
    static const cr_dtype dtypes[] = {CR_F32, CR_I16, CR_U8};
    enum { M = 2, R = 5405 };                      /* three tiles */
    cr_generator *r = cr_generator_new(test_seed());
    cr_scope_begin();
    for (int t = 0; t < 3; t++)
        for (int nan = 0; nan < (t ? 1 : 3); nan++) {
            /* each value 27 times */
            cr_tensor *x = cr_to(cr_mul(cr_rand(CR_LIST(M, R), CR_F32, cr_cpu(), r), cr_scalar(200)), CR_U8, cr_cpu());
            x = cr_to(x, dtypes[t], cr_cpu());
            /* some elements, or all */
            if (nan) cr_fill_(cr_slice(x, 1, nan == 1 ? R - 1000 : 0, R, nan == 1 ? 100 : 1), NAN);
            const int64_t before = launches();
            for (int how = 0; how < 3; how++) {
                cr_tensor *at[2], *y[2];
                for (int d = 0; d < 2; d++) {
                    cr_tensor *v = d ? x : cr_to(x, dtypes[t], dev());
                    y[d] = how == 0   ? cr_median(v, CR_LIST(1), false, &at[d])
                           : how == 1 ? cr_nanmedian(v, CR_LIST(1), false, &at[d])
                                      : cr_kthvalue(v, R - 30, 1, false, &at[d]);
                    REQUIRE(y[d] && at[d], "%s", cr_error());
                }
                float mine[M], theirs[M];
                int64_t place[2][M];
                OK(cr_read(y[0], CR_F32, mine, sizeof mine));
                OK(cr_read(y[1], CR_F32, theirs, sizeof theirs));
                for (int d = 0; d < 2; d++) OK(cr_read(at[d], CR_I64, place[d], sizeof place[d]));
                for (int m = 0; m < M; m++)
                    CHECK((mine[m] == theirs[m] || (isnan(mine[m]) && isnan(theirs[m]))) && place[0][m] == place[1][m],
                          "%s, NaN %d, way %d, row %d: %g at %lld, wanted %g at %lld", cr_dtype_name(dtypes[t]), nan,
                          how, m, (double)mine[m], (long long)place[0][m], (double)theirs[m], (long long)place[1][m]);
            }
            CHECK(launches() - before <= 3 * (2 * (int64_t)cr_dtype_size(dtypes[t]) + 2 + 4),
                  "%s: three took %lld launches", cr_dtype_name(dtypes[t]), (long long)(launches() - before));
            test_ran_on(dev());
        }
    cr_scope_end();
    cr_generator_free(r);
}

/* ---- the first few of many, found by their digits: ties in order of position, NaN, one tile and
 * several tiles, up to the limit, and one more */
TEST(first_of_many) {
    static const struct {
        cr_dtype dtype;
        int64_t K;
        int different;
        bool nan, largest;
    } cases[] = {{CR_F32, 70, 1 << 23, true, true},  {CR_F32, 3001, 200, true, false},
                 {CR_F32, 1, 20000, false, true},    {CR_I16, 2048, 2, false, true},
                 {CR_I16, 2049, 1, false, false},    {CR_I16, 87384, 5000, false, true},
                 {CR_I16, 87385, 5000, false, false}};
    enum { M = 3, R = 349537 };                     /* M R is above 2^20, R / 4 87384 */
#ifdef CUDASIM_SANITIZER
    const size_t n = 1;                             /* other dtypes share the code */
#else
    const size_t n = sizeof cases / sizeof *cases;
#endif
    cr_generator *r = cr_generator_new(test_seed());
    for (size_t i = 0; i < n; i++) {
        if (!test_sampled((int64_t)i, 3)) continue;
        const int64_t K = cases[i].K, digits = (int64_t)cr_dtype_size(cases[i].dtype);
        cr_scope_begin();
        cr_tensor *x = cr_to(
                      cr_floor(cr_mul(cr_rand(CR_LIST(M, R), CR_F32, cr_cpu(), r), cr_scalar(cases[i].different))),
                      cases[i].dtype, cr_cpu()),
                  *y[2], *at[2];
        if (cases[i].nan) cr_fill_(cr_slice(x, 1, 5, R, 9973), NAN);
        for (int d = 0; d < 2; d++) {
            const cr_tensor *v = d ? x : cr_to(x, cases[i].dtype, dev());
            const int64_t before = launches();
            REQUIRE((y[d] = cr_topk(v, K, 1, cases[i].largest, &at[d])), "%s", cr_error());
            const int64_t took = launches() - before;
            if (!d && K <= 2048)
                COUNT(took == 2 * digits + 4, "%s, %lld: %lld launches", cr_dtype_name(cases[i].dtype), (long long)K,
                      (long long)took);
            test_ran_on(cr_device_of(v));
        }
        y[0] = cr_to(y[0], CR_F64, cr_cpu()), y[1] = cr_to(y[1], CR_F64, cr_cpu());
        CHECK(cr_item(cr_sum(cr_ne(cr_to(at[0], CR_I64, cr_cpu()), at[1]), CR_ALL, false)) == 0,
              "%s, %lld: other places", cr_dtype_name(cases[i].dtype), (long long)K);
        CHECK(cr_item(cr_sum(cr_logical_and(cr_ne(y[0], y[1]), cr_eq(y[1], y[1])), CR_ALL, false)) == 0,
              "%s, %lld: other values", cr_dtype_name(cases[i].dtype), (long long)K);
        cr_scope_end();
    }
    cr_generator_free(r);
}

/* ---- long indices with few columns, which are sorted: one index for all rows and columns, or an
 * index for each element; sums of small numbers, which are exact, and copies, where the last one wins */
TEST(many_indices) {
    /* x (M, R, N), src (M, K, N).  Launches: to number them, to sort, to put, and of sums to put parts */
    static const struct { int64_t M, K, N, R; bool own; int64_t launches; } cases[] = {
        {3, 3001, 5, 997, false, 1 + 6 + 1},        /* two digits */
        {1, 1500, 7, 1, false, 1 + 1 + 1},          /* one run; one tile */
        {2, 1025, 40, 300, false, 1 + 1 + 1},
        {1, 140001, 1, 70001, false, 1 + 20 + 1},   /* chunks of 256, four digits, whose counts are summed in three */
        {1, 131073, 1, 3, false, 1 + 10 + 1},
        {2, 1200, 3, 100, true, 1 + 6 + 1},
        {1, 2500, 2, 41, true, 1 + 6 + 1},
    };
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_I32, CR_U8};
#ifdef CUDASIM_SANITIZER
    enum { DTYPES = 1 };
#else
    enum { DTYPES = sizeof dtypes / sizeof *dtypes };
#endif
    cr_generator *r = cr_generator_new(test_seed());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int t = 0; t < DTYPES; t++)
            for (int sum = 0; sum < 2; sum++) {
                const int64_t M = cases[i].M, K = cases[i].K, N = cases[i].N, R = cases[i].R;
                const cr_dtype dt = dtypes[t];
                if (dt == CR_BF16 && sum && R < 500) continue;         /* it represents no odd number above 256 */
                if (!test_sampled((int64_t)i + t + sum, 3)) continue;
                cr_scope_begin();
                const int64_t each[] = {M, K, N};
                cr_tensor *index = cr_randint(0, R, cases[i].own ? 3 : 1, cases[i].own ? each : &K,
                                              t % 2 ? CR_I32 : CR_I64, cr_cpu(), r);
                cr_tensor *x = cr_to(cr_randint(0, 8, CR_LIST(M, R, N), CR_I32, cr_cpu(), r), dt, cr_cpu()),
                          *src = cr_to(cr_randint(0, 8, CR_LIST(M, K, N), CR_I32, cr_cpu(), r), dt, cr_cpu());
                cr_tensor *y[2];
                for (int d = 0; d < 2; d++) {
                    const cr_device *on = d ? cr_cpu() : dev();
                    cr_tensor *to = cr_copy_(cr_empty(CR_LIST(M, R, N), dt, on), x),
                              *at = cr_to(index, (cr_dtype)cr_dtype_of(index), on), *from = cr_to(src, dt, on);
                    const int64_t before = launches();
                    y[d] = cases[i].own ? (sum ? cr_scatter_add_ : cr_scatter_)(to, 1, at, from)
                                        : (sum ? cr_index_add_ : cr_index_copy_)(to, 1, at, from);
                    REQUIRE(y[d], "%s", cr_error());
                    if (!d)
                        COUNT(launches() - before == cases[i].launches + sum, "case %d, sum %d: %lld launches", (int)i,
                              sum, (long long)(launches() - before));
                    test_ran_on(on);
                }
                const double error = off(cr_to(y[0], CR_F64, cr_cpu()), cr_to(y[1], CR_F64, cr_cpu()));
                CHECK(error == 0, "case %d, %s, sum %d: off by %g: %s", (int)i, cr_dtype_name(dt), sum, error,
                      cr_error() ? cr_error() : "");
                cr_scope_end();
            }
    cr_scope_begin();
    cr_tensor *x = cr_zeros(CR_LIST(100, 3), CR_F32, dev()), *at = cr_zeros(CR_LIST(2000), CR_I64, cr_cpu());
    cr_fill_(cr_slice(at, 0, 1234, 1235, 1), 100);
    CHECK(cr_index_add_(x, 0, cr_to(at, CR_I64, dev()), cr_ones(CR_LIST(2000, 3), CR_F32, dev())) &&
              cr_synchronize(dev()) != CR_OK && strstr(cr_error(), "1234"),
          "%s", cr_error());
    cr_error_clear();
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 0, "something was put: %s", cr_error());
    cr_scope_end();
    cr_generator_free(r);
}

/* ---- convolutions: values and gradients on tensor cores and without, against the cpu with the same rounded factors */

typedef struct factors {
    const char *name;
    cr_dtype dtype;
    cr_precision precision;
    double error;                                   /* relative to the largest element */
} factors;

/* y and the gradients of x, the weight and the bias. */
static void convolved(const convolution *c, cr_tensor *const x[4], const cr_device *d, cr_dtype dt, cr_tensor *out[4]) {
    cr_tensor *in[4];
    for (int i = 0; i < 4; i++) in[i] = cr_to(x[i], dt, d);
    for (int i = 0; i < 3; i++) cr_requires_grad_(in[i] = cr_detach(in[i]), true);
    REQUIRE(out[0] = convolve(in, c), "%s: %s", c->what, cr_error());
    OK(cr_backward(out[0], in[3], NULL));
    for (int i = 0; i < 3; i++) out[i + 1] = cr_grad(in[i]);
}

TEST(convolutions) {
    static const factors modes[] = {{"f32", CR_F32, CR_HIGHEST, 1e-5}, {"f64", CR_F64, CR_HIGHEST, 1e-13},
                                    {"TF32", CR_F32, CR_HIGH, 3e-3},   {"bf16 factors", CR_F32, CR_MEDIUM, 2e-2},
                                    {"f16", CR_F16, CR_HIGHEST, 3e-3}, {"bf16", CR_BF16, CR_HIGHEST, 2e-2}};
    static const char *const parts[] = {"y", "dx", "dw", "db"};
    cr_generator *random = cr_generator_new(test_seed());
    for (int i = 0; i < CONVOLUTIONS; i++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            const convolution *c = &convolutions[i];
            const factors *f = &modes[m];
            const cr_dtype wide = f->dtype == CR_F64 ? CR_F64 : CR_F32;
            cr_tensor *x[4], *got[4], *want[4];
            if (!test_sampled(i + (int64_t)m, m ? 5 : 2)) continue;
            cr_scope_begin();
            convolution_inputs(c, random, x);
            if (cr_dtype_is_half(f->dtype))
                for (int k = 0; k < 4; k++) x[k] = cr_to(cr_to(x[k], f->dtype, cr_cpu()), wide, cr_cpu());
            convolved(c, x, cr_cpu(), wide, want);
            cr_set_f32_products(f->precision);
            convolved(c, x, dev(), f->dtype, got);
            cr_set_f32_products(CR_HIGHEST);
            for (int k = 0; k < 4; k++) {
                const double error = off(cr_to(got[k], wide, dev()), cr_to(want[k], wide, dev()));
                CHECK(error < f->error, "%s, %s: %s is off by %g", c->what, f->name, parts[k], error);
            }
            cr_scope_end();
        }
    cr_generator_free(random);
}

/* Launches of a convolution: one, and one more where parts of the sums are added. */
TEST(launches_of_convolutions) {
    static const struct { int64_t x[4], w[4], stride; int y, dx, dw; } shapes[] = {
        {{2, 16, 8, 8}, {16, 16, 3, 3}, 1, 1, 1, 1},
        {{1, 64, 14, 14}, {32, 64, 3, 3}, 2, 2, 1, 1},             /* y: K = 576, two parts */
        {{4, 3, 32, 32}, {8, 3, 3, 3}, 1, 1, 1, 2}};               /* dw: K = 3600 */
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        cr_scope_begin();
        cr_conv_options o = cr_conv_defaults();
        o.stride[0] = o.stride[1] = shapes[i].stride;
        cr_tensor *x = cr_requires_grad_(cr_ones(4, shapes[i].x, CR_F32, dev()), true),
                  *w = cr_requires_grad_(cr_ones(4, shapes[i].w, CR_F32, dev()), true);
        int64_t before = launches();
        cr_tensor *y = cr_conv(x, w, CR_NONE, &o);
        REQUIRE(y, "%s", cr_error());
        COUNT(launches() - before == shapes[i].y, "shape %d: y took %lld launches", (int)i,
              (long long)(launches() - before));
        cr_tensor *g = cr_ones(cr_ndim(y), cr_shape(y), CR_F32, dev());
        before = launches();
        OK(cr_backward(y, g, NULL));
        COUNT(launches() - before == shapes[i].dx + shapes[i].dw, "shape %d: the gradients took %lld launches", (int)i,
              (long long)(launches() - before));
        test_ran_on(dev());
        cr_scope_end();
    }
}

/* ---- batch normalization: parts of channels, a large mean */
TEST(batch_norms) {
    static const int64_t shapes[][3] = {{1, 1, 7}, {67, 13, 1}, {300, 3, 11}, {2, 5, 1771}, {1, 2, 9001}, {1031, 2, 3}};
    cr_generator *random = cr_generator_new(test_seed());
    for (int i = 0; i < 2 * (int)(sizeof shapes / sizeof *shapes); i++) {
        const int64_t *s = shapes[i / 2];
        const cr_dtype dt = i % 2 ? CR_F64 : CR_F32;
        const double tolerance = i % 2 ? 1e-12 : 2e-5;
        cr_tensor *out[2][4];
        cr_scope_begin();
        cr_tensor *x = cr_add_scalar(cr_randn(CR_LIST(s[0], s[1], s[2]), CR_F32, cr_cpu(), random), 30),
                  *w = cr_randn(CR_LIST(s[1]), CR_F32, cr_cpu(), random),
                  *b = cr_randn(CR_LIST(s[1]), CR_F32, cr_cpu(), random),
                  *g = cr_randn(CR_LIST(s[0], s[1], s[2]), CR_F32, cr_cpu(), random);
        for (int d = 0; d < 2; d++) {
            cr_tensor *in[] = {x, w, b};
            for (int k = 0; k < 3; k++)
                cr_requires_grad_(in[k] = cr_detach(cr_to(in[k], dt, d ? dev() : cr_cpu())), true);
            REQUIRE(out[d][3] = cr_batch_norm(in[0], in[1], in[2], 1e-5, NULL, NULL), "%s", cr_error());
            OK(cr_backward(out[d][3], cr_to(g, dt, d ? dev() : cr_cpu()), NULL));
            for (int k = 0; k < 3; k++) out[d][k] = cr_grad(in[k]);
        }
        for (int k = 0; k < 4; k++) {
            const double error = off(out[1][k], cr_to(out[0][k], dt, dev()));
            CHECK(error < tolerance, "(%lld, %lld, %lld), %s: result %d is off by %g", (long long)s[0], (long long)s[1],
                  (long long)s[2], cr_dtype_name(dt), k, error);
        }
        cr_scope_end();
    }
    cr_generator_free(random);
}
