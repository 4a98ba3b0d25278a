/* test_cuda_step.c - what one training step of a GPT launches and moves, counted by the simulated GPU: exact, and equal to what each kernel has to
 * read and write by its definition.  Whoever makes a step cheaper changes a row here; whoever makes it dearer is told. */
#include <stdlib.h>

#if defined CHAINRULE_CUDASIM && !defined CUDASIM_SANITIZER
/* Before main: kernels are compiled to count, into a folder of their own; products are cuBLASLt's. */
__attribute__((constructor)) static void count_bytes(void) {
    setenv("CUDASIM_COUNT", "1", 1);
    unsetenv("CHAINRULE_CUBLASLT");
    setenv("CHAINRULE_CACHE", CHAINRULE_CUDASIM "/cache/counting", 0);
}
#endif

#define CR_TEST_CUDA
#include "test.h"

#if defined CHAINRULE_CUDASIM && !defined CUDASIM_SANITIZER
#include "cudasim/control.h"

static const cudasim_counters *(*count)(void);
static cudasim_bytes (*traffic)(const char *kernel);
static long long (*launches)(const char *kernel);
static const char *(*kernel_name)(int i);

/* ---- one GPT of one layer: B sequences of T tokens, of which E are different; width C, heads H, vocabulary V; M rows, P parameters.  Elements are f32, tokens i64 */
enum { B = 2, T = 5, V = 11, C = 12, H = 2, M = B * T, E = 8, P = V * C + T * C + 12 * C * C + 13 * C + 2 * C, F = 4, I = 8 };

/* Bytes of the products x w^T of K columns into N: all five linear layers, of which the last, the head, has no bias. */
#define LAYERS(f) (f(C, 3 * C) + f(C, C) + f(C, 4 * C) + f(4 * C, C) + f(C, V))
#define FORWARD_READ(K, N) F * (M * (K) + (N) * (K))
#define FORWARD_WRITTEN(K, N) F * M * (N)
#define BIASES (3 * C + C + 4 * C + C)
#define BACKWARD_READ(K, N) F * (M * (N) + (N) * (K) + M * (N) + M * (K))       /* dx = g w; dw = g^T x with db, the sums of g on the way */
#define BACKWARD_WRITTEN(K, N) F * (M * (K) + (N) * (K))

typedef struct row { const char *kernel; long long launches, read, written; } row;

static const row forward[] = {
    {"take", 1, I * M + F * E * C, F * M * C},                      /* embedding: each row that is used once */
    /* x + wpe; two residual sums; and of the mean of the losses: which targets count (bool), their number as f32, the division */
    {"walk", 6, F * (M * C + T * C) + 2 * 2 * F * M * C + I * M + I + 2 * F, F * M * C + 2 * F * M * C + M + F + F},
    {"layer_norm", 3, 3 * F * (M * C + 2 * C), 3 * F * (M * C + 2 * M)},                        /* x, w, b -> y, mean, rstd */
    {"cublasLtMatmul", 5, LAYERS(FORWARD_READ) + F * BIASES, LAYERS(FORWARD_WRITTEN) + F * M * 4 * C},        /* of the MLP's first GELU(h), and h for its gradient */
    {"attention", 1, F * 3 * M * C, F * (M * C + B * H * T)},       /* q, k, v -> o, lse: no T x T matrix */
    {"cross_entropy", 1, F * M * V + I * M, F * 2 * M},             /* logits, targets -> losses, lse */
    {"reduce", 2, F * M + M, F + I},                                /* the sum of the losses, the number of targets */
};
static const row backward[] = {
    /* seed 1; of the division; spread over M losses; GELU; dx of two residual sums; dq, dk and dv into one tensor: zeros, one copied, two added; dwpe */
    {"walk", 11, I + F + 2 * F * 4 * M * C + 2 * 2 * F * M * C + (1 + 2 + 2) * F * M * C + F * T * C,
     F + F + F * M + F * 4 * M * C + 2 * F * M * C + (3 + 1 + 1 + 1) * F * M * C + F * T * C},
    {"cross_entropy_bwd", 1, F * M * V + I * M + F * 2 * M, F * M * V},
    {"cublasLtMatmul", 10, LAYERS(BACKWARD_READ), LAYERS(BACKWARD_WRITTEN) + F * BIASES},
    {"reduce", 7, F * M * C + 3 * 2 * F * C, F * T * C + 3 * 2 * F * C},                        /* of wpe over B; of the norms' parts, here one each */
    {"layer_norm_bwd", 3, 3 * F * (2 * M * C + C + 2 * M), 3 * F * M * C},                      /* x, g, w, mean, rstd -> dx */
    {"layer_norm_bwd_sums", 3, 3 * F * (2 * M * C + 2 * M), 3 * F * 2 * C},                     /* x, g, mean, rstd -> dw, db */
    {"attention_delta", 1, F * (2 * M * C + B * H * T), F * 2 * B * H * T},         /* o, do, lse -> sum(o do), lse for the next two */
    {"attention_dq", 1, F * (4 * M * C + 2 * B * H * T), F * M * C},                            /* q, k, v, do, lse, delta -> dq */
    {"attention_dkv", 1, F * (4 * M * C + 2 * B * H * T), F * 2 * M * C},
    {"check", 1, I * M, 0},                                         /* of the tokens, before anything is added */
    {"put", 1, I + I * M + F * M * C + F * E * C, F * E * C},       /* into the head's gradient, which is wte's too */
};
static const row update[] = {{"walk", 1, F * 4 * P, F * 3 * P}};    /* w, m, v, g -> w, m, v: one launch for all 16 parameters */

/* What was launched since the last call is these rows and nothing else. */
static void same_rows(const char *what, int n, const row *rows) {
    static struct { long long launches; cudasim_bytes bytes; } before[100];
    OK(cr_synchronize(cr_cuda(0)));
    int found = 0;
    for (int i = 0; i < 100 && kernel_name(i); i++) {
        const char *name = kernel_name(i);
        const cudasim_bytes now = traffic(name);
        const row ran = {name, launches(name) - before[i].launches, now.read - before[i].bytes.read, now.written - before[i].bytes.written};
        before[i].launches += ran.launches, before[i].bytes = now;
        if (!n || !ran.launches) continue;
        row wanted = {name, 0, 0, 0};
        for (int k = 0; k < n; k++) if (!strcmp(rows[k].kernel, name)) wanted = rows[k], found++;
        CHECK(ran.launches == wanted.launches && ran.read == wanted.read && ran.written == wanted.written,
              "%s: %s is launched %lld times, reads %lld and writes %lld bytes; by design %lld, %lld and %lld", what, name, ran.launches, ran.read, ran.written, wanted.launches, wanted.read,
              wanted.written);
    }
    CHECK(found == n, "%s: of %d kernels %d ran", what, n, found);
    test_ran_on(cr_cuda(0));
}
#define SAME_ROWS(rows) same_rows(#rows, sizeof rows / sizeof *rows, rows)

TEST(one_step) {
    const cr_device *d = cr_cuda(0);
    const int64_t tokens[M] = {0, 1, 4, 9, 5, 3, 3, 5, 10, 6}, next[M] = {1, 4, 9, 5, 3, 3, 5, 10, 6, 0};
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){V, T, 1, H, C, 0}, CR_F32, d, random);
    const cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *optim = m ? cr_optim_new(cr_gpt_params(m), &o) : NULL;
    REQUIRE(optim, "%s", cr_error());
    if (!test_simulator("cudasim_count", &count) || !test_simulator("cudasim_traffic", &traffic) || !test_simulator("cudasim_launches", &launches)
        || !test_simulator("cudasim_kernel_name", &kernel_name)) SKIP("no simulator");
    CHECK(cr_params_numel(cr_gpt_params(m)) == P, "%lld parameters", (long long)cr_params_numel(cr_gpt_params(m)));
    for (int k = 0; k < 3; k++) {                   /* the first makes the moments; those after it are all alike */
        cr_scope_begin();
        cr_params_zero_grad(cr_gpt_params(m));
        same_rows("nothing", 0, NULL);
        const cudasim_counters before = *count();
        cr_tensor *x = cr_from(tokens, CR_LIST(B, T), CR_I64, d), *y = cr_from(next, CR_LIST(B, T), CR_I64, d);
        cr_tensor *loss = cr_gpt_loss(m, x, y, true);
        SAME_ROWS(forward);
        OK(cr_backward(loss, CR_NONE, NULL));
        SAME_ROWS(backward);
        OK(cr_optim_step(optim));
        if (k) SAME_ROWS(update);
        else same_rows("nothing", 0, NULL);
        CHECK(cr_item(loss) > 1, "%s", cr_error());
        const cudasim_counters after = *count();
        CHECK(after.bytes_to_device - before.bytes_to_device == 2 * I * M, "%lld bytes are sent", after.bytes_to_device - before.bytes_to_device);
        CHECK(after.pageable_copies == before.pageable_copies, "%lld copies wait, since they are not of pinned memory", after.pageable_copies - before.pageable_copies);
        cr_scope_end();
    }
    cr_optim_free(optim);
    cr_gpt_free(m);
    cr_generator_free(random);
}
#else
TEST(one_step) { SKIP("kernels are counted by the simulator without sanitizers"); }
#endif
