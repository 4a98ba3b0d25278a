/* products.c - GFLOP/s of f32 products and attention at the shapes that matter, with oneDNN and with
 * our own kernels, one thread and all of them; each result is spot-checked against double, and set
 * beside what one register tile reaches from the L1 cache. Weights are cold, as in a training step:
 * each run takes the next of several copies of b. use: products [--quick] [--json] [--only PART]
 * [threads ...] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tensor.h"
#include "core/os.h"
#include "core/pool.h"
#include "dev/cpu/isa.h"
#include "dev/cpu/loops.h"
#include "dev/cpu/onednn.h"
#include "dev/cpu/product.h"

/* layout: N as written, T transposed in memory */
typedef struct shape { const char *what; int64_t m, n, k; char layout[3]; } shape;
static const shape shapes[] = {
    {"small", 64, 64, 64, "NN"},
    {"small", 64, 64, 64, "NT"},
    {"small", 128, 128, 128, "NN"},
    {"few rows", 4, 3072, 768, "NT"},
    {"few rows", 13, 768, 768, "NT"},
    {"square", 256, 256, 256, "NN"},
    {"square", 512, 512, 512, "NN"},
    {"square", 1024, 1024, 1024, "NN"},
    {"square", 2048, 2048, 2048, "NN"},
    {"GPT-2: qkv", 256, 2304, 768, "NT"},
    {"GPT-2: out", 256, 768, 768, "NT"},
    {"GPT-2: up", 256, 3072, 768, "NT"},
    {"GPT-2: down", 256, 768, 3072, "NT"},
    {"GPT-2: head", 256, 50257, 768, "NT"},
    {"GPT-2: dX qkv", 256, 768, 2304, "NN"},
    {"GPT-2: dX out", 256, 768, 768, "NN"},
    {"GPT-2: dX up", 256, 768, 3072, "NN"},
    {"GPT-2: dX down", 256, 3072, 768, "NN"},
    {"GPT-2: dX head", 256, 768, 50257, "NN"},
    {"GPT-2: dW qkv", 2304, 768, 256, "TN"},
    {"GPT-2: dW out", 768, 768, 256, "TN"},
    {"GPT-2: dW up", 3072, 768, 256, "TN"},
    {"GPT-2: dW down", 768, 3072, 256, "TN"},
    {"GPT-2: dW head", 50257, 768, 256, "TN"},
    {"char 128: qkv", 768, 384, 128, "NT"},
    {"char 128: up", 768, 512, 128, "NT"},
    {"char 128: down", 768, 128, 512, "NT"},
    {"char 128: head", 768, 65, 128, "NT"},
    {"char 128: dX up", 768, 128, 512, "NN"},
    {"char 128: dW up", 512, 128, 768, "TN"},
    {"char 128: dW head", 65, 128, 768, "TN"},
    {"char 384: qkv", 2048, 1152, 384, "NT"},
    {"char 384: up", 2048, 1536, 384, "NT"},
    {"char 384: down", 2048, 384, 1536, "NT"},
    {"char 384: head", 2048, 65, 384, "NT"},
    {"char 384: dX up", 2048, 384, 1536, "NN"},
    {"char 384: dX head", 2048, 384, 65, "NN"},
    {"char 384: dW up", 1536, 384, 2048, "TN"},
    {"char 384: dW down", 384, 1536, 2048, "TN"},
    {"char 384: dW out", 384, 384, 2048, "TN"},
    {"one row", 1, 50257, 768, "NT"},
    {"one row", 1, 3072, 768, "NN"},
};
static bool quick, json;
static const char *only;                            /* rows whose name holds this */

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

static void spot_check(const shape *s, int engine, cr_tensor *c, const cr_tensor *a, const cr_tensor *b) {
    const float *pa = cr_tensor_data(a), *pb = cr_tensor_data(b), *pc = cr_tensor_data(c);
    for (int64_t i = 0; i < 50; i++) {
        int64_t row = i * 7919 % s->m, column = i * 104729 % s->n;
        double want = 0;
        for (int64_t p = 0; p < s->k; p++)
            want += (double)pa[row * a->strides[0] + p * a->strides[1]] *
                    (double)pb[p * b->strides[0] + column * b->strides[1]];
        double got = (double)pc[row * s->n + column];
        if (!(fabs(got - want) <= (engine == 2 ? 1e-2 : 1e-5) * want)) {
            fprintf(stderr, "products: %s: %g is wrong, %g\n", s->what, got, want);
            exit(1);
        }
    }
}

/* ---- the engines */

enum { OURS, SGEMM, BF16, ENGINES };

/* oneDNN without this library: eight tiles, each a one-threaded dnnl_sgemm. */
typedef struct sgemm_job { const shape *s; const float *a, *b; float *c; } sgemm_job;
enum { TILES = 8 };

static void sgemm_tile(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const sgemm_job *j = ctx;
    const shape *s = j->s;
    bool ta = s->layout[0] == 'T', tb = s->layout[1] == 'T', wide = s->n >= s->m;
    int64_t all = wide ? s->n : s->m, each = cr_pieces(cr_pieces(all, TILES), 16) * 16, from = chunk * each,
            left = all - from < each ? all - from : each;
    if (all <= 64) { from = 0; left = chunk ? 0 : all; }
    if (left <= 0) return;
    cr_onednn_product p = {.m = wide ? s->m : left,
                           .n = wide ? left : s->n,
                           .k = s->k,
                           .a = j->a,
                           .b = j->b,
                           .c = j->c,
                           .a_stride = ta ? s->m : s->k,
                           .b_stride = tb ? s->k : s->n,
                           .c_stride = s->n,
                           .a_transposed = ta,
                           .b_transposed = tb};
    if (wide) { p.b += tb ? from * s->k : from; p.c += from; }
    else { p.a += ta ? from : from * s->k; p.c += from * s->n; }
    cr_onednn_sgemm(&p);
}

static void multiply(int engine, const shape *s, cr_tensor *c, const cr_tensor *a, const cr_tensor *b) {
    sgemm_job j = {s, cr_tensor_data(a), cr_tensor_data(b), cr_tensor_data(c)};
    if (engine == SGEMM)
        cr_pool_run(2.0 * (double)s->m * (double)s->n * (double)s->k < 2e6 ? 1 : TILES, sgemm_tile, &j);
    else
        cr_cpu_matmul(
            &(cr_matmul_args){.c = c->array, .a = a->array, .b = b->array, .how = engine == BF16 ? CR_MATMUL_BF16 : 0});
}

/* ---- the peak: multiply-adds that read nothing, in GFLOP/s, on every thread at once */

#if defined(__x86_64__)
#include <immintrin.h>
#define FMA_LOOP(name, isa, wide, prefix)                                                                 \
    static __attribute__((target(isa))) float name(int64_t rounds) {                                                \
        wide s[12], x = prefix##_set1_ps(0), y = x;                                                                 \
        for (int i = 0; i < 12; i++) s[i] = prefix##_set1_ps((float)i);         /* alike, \
            the compiler would compute one */ \
        for (int64_t r = 0; r < rounds; r++) {                                                                      \
            CR_UNROLL(12) for (int i = 0; i < 12; i++) s[i] = prefix##_fmadd_ps(x, y, s[i]);                        \
            __asm__ volatile("" : "+v"(x), "+v"(y));                                                                \
        }                                                                                                           \
        for (int i = 1; i < 12; i++) s[0] = prefix##_add_ps(s[0], s[i]);                                            \
        return prefix##_cvtss_f32(s[0]);                                                                            \
    }
FMA_LOOP(fma_v4, "avx512f", __m512, _mm512)
FMA_LOOP(fma_v3, "avx2,fma", __m256, _mm256)
#else
static float fma_v4(int64_t rounds) { float s = 0; for (int64_t r = 0; r < rounds; r++) s += 1; return s; }
static float fma_v3(int64_t rounds) { return fma_v4(rounds); }
#endif

static volatile float sink;
enum { ROUNDS = 20000 };
static void fma_chunk(void *ctx, int64_t chunk, int worker) {
    (void)ctx;
    (void)chunk;
    (void)worker;
    sink = cr_cpu_isa() == 4 ? fma_v4(ROUNDS) : fma_v3(ROUNDS);
}

static double peak(void) {
    double t = cr_os_seconds();
    int64_t chunks = 4 * cr_num_threads();
    cr_pool_run(chunks, fma_chunk, NULL);
    return (double)chunks * ROUNDS * 12 * 2 * (cr_cpu_isa() == 4 ? 16 : 8) / (cr_os_seconds() - t) * 1e-9;
}

/* The best of some interleaved runs of every engine and of the peak, in GFLOP/s. */
typedef struct result { double rate[ENGINES], peak; } result;

static result measure(const shape *s) {
    double flops = 2.0 * (double)s->m * (double)s->n * (double)s->k, budget = quick ? 0.1 : 1;
    int64_t copies = (int64_t)fmax(1, fmin(64, 20e6 / (double)(s->n * s->k))), runs = (int64_t)fmax(1, 2e6 / flops);
    cr_tensor *sa = random_matrix(1, s->m, s->k), *sb = random_matrix(copies, s->k, s->n),
              *sc = random_matrix(1, s->m, s->n);
    cr_tensor a = matrix(sa, 0, s->m, s->k, s->layout[0] == 'T'), c = matrix(sc, 0, s->m, s->n, false), b;
    bool engines[ENGINES] = {true, cr_onednn_ready(), true};
    double start = cr_os_seconds();
    result best = {{0}, 0};
    for (int64_t i = 0; i < 4 || cr_os_seconds() - start < budget; i++) {
        best.peak = fmax(best.peak, peak());
        for (int e = 0; e < ENGINES; e++) {         /* each meets a b that the one before it has not just read */
            if (!engines[e]) continue;
            b = matrix(sb, (i * ENGINES + e) % copies, s->k, s->n, s->layout[1] == 'T');
            double t = cr_os_seconds();
            for (int64_t r = 0; r < runs; r++) multiply(e, s, &c, &a, &b);
            best.rate[e] = fmax(best.rate[e], flops * (double)runs / (cr_os_seconds() - t) * 1e-9);
            if (i == 0) spot_check(s, e, &c, &a, &b);
        }
    }
    cr_release(sa); cr_release(sb); cr_release(sc);
    return best;
}

/* Cubes of 4 to 48 on one thread, through the kernel itself: seconds of ours and of dnnl_sgemm. */
static void cube(int64_t n) {
    static _Alignas(64) float a[48 * 48], b[48 * 48], c[48 * 48];
    const cr_product_kernels *kernels = &cr_cpu_vec()->products->f32;
    const cr_product p = {
        .m = n, .n = n, .k = n, .a = a, .b = b, .c = c, .a_row = n, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n};
    double ours = 1e9, theirs = 1e9, runs = 4e5 / (double)(n * n);
    for (int i = 0; i < (quick ? 20 : 100); i++) {
        double t = cr_os_seconds();
        for (double r = 0; r < runs; r++) kernels->direct(&p);
        ours = fmin(ours, (cr_os_seconds() - t) / ceil(runs));
        const cr_onednn_product q = {
            .m = n, .n = n, .k = n, .a = a, .b = b, .c = c, .a_stride = n, .b_stride = n, .c_stride = n};
        t = cr_os_seconds();
        for (double r = 0; r < runs && cr_onednn_ready(); r++) cr_onednn_sgemm(&q);
        theirs = fmin(theirs, (cr_os_seconds() - t) / ceil(runs));
    }
    if (json)
        printf("{\"name\":\"cube\",\"n\":%lld,\"ours_ns\":%.4g,\"sgemm_ns\":%.4g},\n", (long long)n, ours * 1e9,
               cr_onednn_ready() ? theirs * 1e9 : 0);
    else
        printf("  cube of %lld, one thread: %.0f ns, dnnl_sgemm %.0f ns (%.2fx)\n", (long long)n, ours * 1e9,
               theirs * 1e9, ours / theirs);
}

/* Many small products at once, each of n x n matrices; b as it is multiplied (N) or transposed (T). */
static void batch(int64_t count, int64_t n, char layout) {
    cr_tensor *a = random_matrix(count, n, n), *b = random_matrix(count, n, n), *c = random_matrix(count, n, n);
    if (layout == 'T') { b->strides[1] = 1; b->strides[2] = n; }
    double flops = 2.0 * (double)(count * n * n * n), best = 1e9, most = 0, start = cr_os_seconds();
    for (int i = 0; i < 5 || cr_os_seconds() - start < (quick ? 0.05 : 0.5); i++) {
        most = fmax(most, peak());
        double t = cr_os_seconds();
        cr_cpu_matmul(&(cr_matmul_args){.c = c->array, .a = a->array, .b = b->array});
        best = fmin(best, cr_os_seconds() - t);
    }
    const double rate = flops / best * 1e-9;
    if (json)
        printf("{\"name\":\"batch\",\"count\":%lld,\"n\":%lld,\"layout\":\"N%c\",\"peak\":%.4g,\"ours\":%.4g},\n",
               (long long)count, (long long)n, layout, most, rate);
    else
        printf("  %lld products of %lldx%lldx%lld N%c: %.3f ms, %.1f of %.0f (%.0f %%)\n", (long long)count,
               (long long)n, (long long)n, (long long)n, layout, best * 1e3, rate, most, 100 * rate / most);
    cr_release(a); cr_release(b); cr_release(c);
}

static void attention(int64_t heads, int64_t T, int64_t D) {
    cr_tensor *x[8], *lse = cr_rand(CR_LIST(1, heads, T), CR_F32, cr_cpu(), cr_default_generator());
    for (int i = 0; i < 8; i++) x[i] = cr_rand(CR_LIST(1, heads, T, D), CR_F32, cr_cpu(), cr_default_generator());
    double scale = 1 / sqrt((double)D), forward = 1e9, backward = 1e9, start = cr_os_seconds();
    for (int i = 0; i < 5 || cr_os_seconds() - start < (quick ? 0.05 : 0.5); i++) {
        double t0 = cr_os_seconds();
        cr_cpu_attention(&(cr_attention_args){.o = x[3]->array,
                                              .lse = lse->array,
                                              .q = x[0]->array,
                                              .k = x[1]->array,
                                              .v = x[2]->array,
                                              .scale = scale,
                                              .first = -T});
        double t1 = cr_os_seconds();
        cr_cpu_attention_bwd(&(cr_attention_bwd_args){.dq = x[5]->array,
                                                      .dk = x[6]->array,
                                                      .dv = x[7]->array,
                                                      .q = x[0]->array,
                                                      .k = x[1]->array,
                                                      .v = x[2]->array,
                                                      .o = x[3]->array,
                                                      .lse = lse->array,
                                                      .g = x[4]->array,
                                                      .scale = scale,
                                                      .first = -T});
        forward = fmin(forward, t1 - t0); backward = fmin(backward, cr_os_seconds() - t1);
    }
    printf("  attention, %lld heads, T %lld, D %lld, causal: forward %.3f ms, backward %.3f ms\n", (long long)heads,
           (long long)T, (long long)D, forward * 1e3, backward * 1e3);
    for (int i = 0; i < 8; i++) cr_release(x[i]);
    cr_release(lse);
}

/* One query over a cache of S keys, as in generation: limited by reading the keys and values. */
static void decode(int64_t heads, int64_t shared, int64_t S, int64_t D, cr_dtype dt) {
    cr_scope_begin();
    const int64_t rows[] = {heads, heads / shared, heads / shared, heads};
    cr_tensor *x[4], *lse = cr_zeros(CR_LIST(1, heads, 1), CR_F32, cr_cpu());
    for (int i = 0; i < 4; i++)
        x[i] = cr_to(cr_rand(CR_LIST(1, rows[i], i == 1 || i == 2 ? S : 1, D), CR_F32, cr_cpu(),
                             cr_default_generator()),
                     dt, cr_cpu());
    double best = 1e9, start = cr_os_seconds();
    for (int i = 0; i < 5 || cr_os_seconds() - start < (quick ? 0.05 : 0.5); i++) {
        const double t0 = cr_os_seconds();
        cr_cpu_attention(&(cr_attention_args){.o = x[3]->array,
                                              .lse = lse->array,
                                              .q = x[0]->array,
                                              .k = x[1]->array,
                                              .v = x[2]->array,
                                              .scale = 1 / sqrt((double)D),
                                              .first = -1,
                                              .last = S});
        best = fmin(best, cr_os_seconds() - t0);
    }
    printf("  attention of one query, %lld heads, %lld share keys, S %lld, D %lld, %s: %.3f ms, %.1f GB/s\n",
           (long long)heads, (long long)shared, (long long)S, (long long)D, cr_dtype_name(dt), best * 1e3,
           2e-9 * (double)(rows[1] * S * D) * (double)cr_dtype_size(dt) / best);
    cr_scope_end();
}

static void run(int threads) {
    if (cr_set_num_threads(threads)) { fprintf(stderr, "products: %s\n", cr_error()); exit(2); }
    if (json) printf("{\"info\":\"%s\",\"threads\":%d,\"rows\":[\n", cr_device_info(cr_cpu()), threads);
    else
        printf("%s; GFLOP/s and the share of the peak (a loop of multiply-adds in the same run; bf16: of twice that)\n",
               cr_device_info(cr_cpu()));
    if (!json) printf("  %-18s %18s %5s %14s %14s %14s\n", "", "m x n x k", "peak", "ours", "dnnl_sgemm", "bf16");
    for (int64_t n = 4; n <= 48 && !only; n += 4) cube(n);
    static const int64_t batches[][2] = {{4096, 4}, {1024, 16}, {48, 64}, {96, 128}};
    for (size_t i = 0; i < sizeof batches / sizeof *batches && (!only || strstr("batch", only)); i++)
        for (int t = 0; t < 2; t++) batch(batches[i][0], batches[i][1], t ? 'T' : 'N');
    double sum[2] = {0}, least[2] = {9, 9};
    int count = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        if (only && !strstr(s->what, only)) continue;
        char size[48];
        snprintf(size, sizeof size, "%lldx%lldx%lld %s", (long long)s->m, (long long)s->n, (long long)s->k, s->layout);
        result r = measure(s);
        double f32 = r.rate[OURS] / r.peak, bf16 = r.rate[BF16] / r.peak / 2;
        if (json)
            printf("{\"name\":\"%s\",\"size\":\"%s\",\"peak\":%.4g,\"ours\":%.4g,\"sgemm\":%.4g,\"bf16\":%.4g},\n",
                   s->what, size, r.peak, r.rate[OURS], r.rate[SGEMM], r.rate[BF16]);
        else
            printf("  %-18s %18s %5.0f %6.1f (%3.0f %%) %6.1f (%3.0f %%) %6.1f (%3.0f %%)\n", s->what, size, r.peak,
                   r.rate[OURS], 100 * f32, r.rate[SGEMM], 100 * r.rate[SGEMM] / r.peak, r.rate[BF16], 100 * bf16);
        fflush(stdout);
        if (strncmp(s->what, "square", 6) && strncmp(s->what, "GPT-2", 5)) continue;
        sum[0] += log(f32); sum[1] += log(bf16);
        least[0] = fmin(least[0], f32); least[1] = fmin(least[1], bf16);
        count++;
    }
    if (json)
        printf("{\"name\":\"mean\",\"f32\":%.4g,\"bf16\":%.4g,\"least_f32\":%.4g,\"least_bf16\":%.4g}]}\n",
               exp(sum[0] / count), exp(sum[1] / count), least[0], least[1]);
    else if (count)
        printf("  squares and GPT-2, geometric mean (least): f32 %.1f %% (%.1f %%), bf16 %.1f %% (%.1f %%)\n",
               100 * exp(sum[0] / count), 100 * least[0], 100 * exp(sum[1] / count), 100 * least[1]);
    if (only || json) return;
    attention(48, 64, 64);
    attention(48, 64, 32);
    attention(48, 1024, 64);
    decode(9, 3, 1000, 64, CR_F32);
    decode(32, 4, 16384, 128, CR_F32);
    decode(32, 4, 16384, 128, CR_BF16);
}

int main(int argc, char **argv) {
    int given = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) quick = true;
        else if (!strcmp(argv[i], "--json")) json = true;
        else if (!strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
        else { run(atoi(argv[i])); given++; }
    }
    if (!given) run(1);
    if (!given && cr_num_threads() != cr_os_cpu_count()) run(cr_os_cpu_count());
    return 0;
}
