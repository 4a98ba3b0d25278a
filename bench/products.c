/* products.c - GFLOP/s of f32 products and attention at the shapes that matter, with oneDNN and with our own kernels, one thread and
 * all of them; each result is spot-checked against double, and set beside what one register tile reaches from the L1 cache.
 * Weights are cold, as in a training step: each run takes the next of several copies of b.
 * use: products [--quick] [threads ...] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/os.h"
#include "dev/cpu/cpu.h"
#include "dev/cpu/onednn.h"
#include "dev/cpu/product.h"

typedef struct shape { const char *what; int64_t m, n, k; char layout[3]; } shape;      /* layout: N as written, T transposed in memory */
static const shape shapes[] = {
    {"tiny", 4, 4, 4, "NN"}, {"small", 16, 16, 16, "NN"}, {"small", 32, 32, 32, "NN"}, {"small", 64, 64, 64, "NN"}, {"small", 64, 64, 64, "NT"},
    {"square", 128, 128, 128, "NN"}, {"square", 512, 512, 512, "NN"}, {"square", 1024, 1024, 1024, "NN"},
    {"width 128: up", 768, 512, 128, "NT"}, {"width 128: down", 768, 128, 512, "NT"}, {"width 128: dW", 512, 128, 768, "TN"},
    {"GPT-2: qkv", 256, 2304, 768, "NT"}, {"GPT-2: up", 256, 3072, 768, "NT"}, {"GPT-2: down", 256, 768, 3072, "NT"}, {"GPT-2: head", 256, 50257, 768, "NT"},
    {"GPT-2: d up", 256, 768, 3072, "NN"}, {"GPT-2: d down", 256, 3072, 768, "NN"}, {"GPT-2: d head", 256, 768, 50257, "NN"},
    {"GPT-2: dW up", 3072, 768, 256, "TN"}, {"GPT-2: dW down", 768, 3072, 256, "TN"}, {"GPT-2: dW head", 50257, 768, 256, "TN"},
    {"one row", 1, 50257, 768, "NT"}, {"one row", 1, 3072, 768, "NN"},
};
static bool quick;

static cr_tensor *random_matrix(int64_t copies, int64_t rows, int64_t columns) {
    cr_tensor *t = cr_rand(CR_LIST(copies, rows, columns), CR_F32, cr_cpu(), cr_default_generator());
    if (!t) { fprintf(stderr, "products: %s\n", cr_error()); exit(1); }
    return t;
}

/* The i-th matrix of a stack as (rows, columns), whichever way it lies. */
static cr_tensor matrix(const cr_tensor *stack, int64_t i, int64_t rows, int64_t columns, bool transposed) {
    cr_tensor t = *stack;
    t.ndim = 2;
    t.offset += i * rows * columns;
    t.numel = rows * columns;
    t.shape[0] = rows; t.shape[1] = columns;
    t.strides[0] = transposed ? 1 : columns; t.strides[1] = transposed ? rows : 1;
    return t;
}

static void spot_check(const shape *s, cr_tensor *c, const cr_tensor *a, const cr_tensor *b) {
    const float *pa = cr_tensor_data(a), *pb = cr_tensor_data(b), *pc = cr_tensor_data(c);
    for (int64_t i = 0; i < 50; i++) {
        int64_t row = i * 7919 % s->m, column = i * 104729 % s->n;
        double want = 0;
        for (int64_t p = 0; p < s->k; p++) want += (double)pa[row * a->strides[0] + p * a->strides[1]] * (double)pb[p * b->strides[0] + column * b->strides[1]];
        double got = (double)pc[row * s->n + column];
        if (!(fabs(got - want) <= 1e-5 * want)) { fprintf(stderr, "products: %s: %g is wrong, %g\n", s->what, got, want); exit(1); }
    }
}

/* Best of some runs, in GFLOP/s. */
static double measure(const shape *s) {
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k, best = 0, budget = quick ? 0.05 : 0.5;
    int64_t copies = (int64_t)fmax(1, fmin(8, 64e6 / (double)(s->n * s->k))), runs = (int64_t)fmax(1, 2e6 / flops);
    cr_tensor *sa = random_matrix(1, s->m, s->k), *sb = random_matrix(copies, s->k, s->n), *sc = random_matrix(1, s->m, s->n);
    cr_tensor a = matrix(sa, 0, s->m, s->k, s->layout[0] == 'T'), c = matrix(sc, 0, s->m, s->n, false), b;
    double start = cr_os_seconds();
    for (int64_t i = 0; i < 5 || cr_os_seconds() - start < budget; i++) {
        b = matrix(sb, i % copies, s->k, s->n, s->layout[1] == 'T');
        double t = cr_os_seconds();
        for (int64_t r = 0; r < runs; r++) cr_cpu_matmul(&c, &a, &b, NULL, false);
        best = fmax(best, flops * (double)runs / (cr_os_seconds() - t) * 1e-9);
    }
    spot_check(s, &c, &a, &b);
    cr_release(sa); cr_release(sb); cr_release(sc);
    return best;
}

/* What a register tile reaches when everything lies in the L1 cache: the peak that the others are a share of. */
static double peak(void) {
    const cr_product_kernels *k = &cr_product_best()->f32;
    enum { DEPTH = 128 };
    static _Alignas(64) float a[16 * DEPTH], b[64 * DEPTH], c[16 * 64];
    cr_product p = {.m = k->tile_rows, .n = k->tile_columns, .k = DEPTH, .a = a, .b = b, .c = c, .a_row = DEPTH, .a_col = 1, .b_row = k->tile_columns, .b_col = 1,
                    .c_row = 64};
    double best = 0;
    for (int i = 0; i < 200; i++) {
        double t = cr_os_seconds();
        for (int r = 0; r < 200; r++) k->direct(&p);
        best = fmax(best, 200 * 2.0 * (double)(p.m * p.n * p.k) / (cr_os_seconds() - t) * 1e-9);
    }
    return best;
}

static void attention(int64_t heads, int64_t T, int64_t D) {
    cr_tensor *x[8], *lse = cr_rand(CR_LIST(1, heads, T), CR_F32, cr_cpu(), cr_default_generator());
    for (int i = 0; i < 8; i++) x[i] = cr_rand(CR_LIST(1, heads, T, D), CR_F32, cr_cpu(), cr_default_generator());
    double scale = 1 / sqrt((double)D), forward = 1e9, backward = 1e9, start = cr_os_seconds();
    for (int i = 0; i < 5 || cr_os_seconds() - start < (quick ? 0.05 : 0.5); i++) {
        double t0 = cr_os_seconds();
        cr_cpu_attention(x[3], lse, x[0], x[1], x[2], NULL, scale, true);
        double t1 = cr_os_seconds();
        cr_cpu_attention_bwd(x[5], x[6], x[7], x[0], x[1], x[2], NULL, x[3], lse, x[4], scale, true);
        forward = fmin(forward, t1 - t0); backward = fmin(backward, cr_os_seconds() - t1);
    }
    printf("  attention, %lld heads, T %lld, D %lld, causal: forward %.3f ms, backward %.3f ms\n", (long long)heads, (long long)T, (long long)D, forward * 1e3, backward * 1e3);
    for (int i = 0; i < 8; i++) cr_release(x[i]);
    cr_release(lse);
}

static void run(int threads) {
    if (cr_set_num_threads(threads)) { fprintf(stderr, "products: %s\n", cr_error()); exit(2); }
    double most = peak() * threads;
    bool engine = cr_onednn_ready();
    printf("%s; a tile from L1: %.0f GFLOP/s\n", cr_device_info(cr_cpu()), most);
    printf("  %-16s %22s %16s %16s\n", "", "m x n x k", "own", engine ? "as chosen" : "");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        char size[48];
        snprintf(size, sizeof size, "%lldx%lldx%lld %s", (long long)shapes[i].m, (long long)shapes[i].n, (long long)shapes[i].k, shapes[i].layout);
        cr_onednn_allow(false);
        double own = measure(&shapes[i]);
        cr_onednn_allow(true);
        printf("  %-16s %22s %8.1f (%3.0f %%)", shapes[i].what, size, own, 100 * own / most);
        double both = engine ? measure(&shapes[i]) : 0;
        if (engine) printf(" %8.1f (%3.0f %%)", both, 100 * both / most);
        printf("\n");
        fflush(stdout);
    }
    attention(48, 64, 64);
    attention(48, 64, 32);
    attention(48, 1024, 64);
}

int main(int argc, char **argv) {
    int given = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) quick = true;
        else { run(atoi(argv[i])); given++; }
    }
    if (!given) run(1);
    if (!given && cr_num_threads() != cr_os_cpu_count()) run(cr_os_cpu_count());
    return 0;
}
