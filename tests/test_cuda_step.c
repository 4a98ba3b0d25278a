/* test_cuda_step.c - the launches and bytes of one training step of a GPT, counted by the simulated
 * GPU: exactly what each kernel must read and write by its definition.  A change that makes a step
 * cheaper changes a row here; a change that makes it dearer fails. */
#include <stdlib.h>

#if defined CHAINRULE_CUDASIM && !defined CUDASIM_SANITIZER
/* Before main: kernels are compiled to count, into a separate folder; cuBLASLt computes the products. */
__attribute__((constructor)) static void count_bytes(void) {
    const char *wish = getenv("CHAINRULE_TEST_CUDA");
    if (wish && *wish == '1') return;               /* nothing is counted, and kernels that count are nothing for
                                                     * others */
    setenv("CUDASIM_COUNT", "1", 1);
    unsetenv("CHAINRULE_CUBLASLT");
    setenv("CHAINRULE_CACHE", CHAINRULE_CUDASIM "/cache/counting", 0);
}
#endif

#define CR_TEST_CUDA
#include "test.h"

#if defined CHAINRULE_CUDASIM && !defined CUDASIM_SANITIZER
#include "cudasim/control.h"
#include "wide.h"

static const cudasim_counters *(*count)(void);
static cudasim_bytes (*traffic)(const char *kernel);
static long long (*launches)(const char *kernel);
static const char *(*kernel_name)(int i);

/* ---- one GPT of one layer: B sequences of T tokens, E of them different; width C, heads H,
 * vocabulary V; M rows, P parameters.  Elements have F bytes (f32, bf16), statistics S, tokens I.  LT:
 * 1 in bf16, where GELU is an epilogue of cuBLASLt, 0 where it is a walk. */
enum {
    B = 2,
    T = 5,
    V = 11,
    C = 12,
    H = 2,
    M = B * T,
    E = 8,
    P = V * C + T * C + 12 * C * C + 13 * C + 2 * C,
    S = 4,
    I = 8,
    G = M * 4 * C
};

/* Elements of the products x w^T of K columns into N: all five linear layers, of which the last, the
 * head, has no bias. */
#define LAYERS(f) (f(C, 3 * C) + f(C, C) + f(C, 4 * C) + f(4 * C, C) + f(C, V))
#define FORWARD_READ(K, N) (M * (K) + (N) * (K))
#define FORWARD_WRITTEN(K, N) M * (N)
#define BIASES (3 * C + C + 4 * C + C)
/* dx = g w; dw = g^T x with db, the sums of g on the way */
#define BACKWARD_READ(K, N) (M * (N) + (N) * (K) + M * (N) + M * (K))
#define BACKWARD_WRITTEN(K, N) (M * (K) + (N) * (K))

typedef struct row { const char *kernel; long long launches, read, written; } row;
enum { FORWARD = 7, BACKWARD = 10 };

#define FORWARD_ROWS(F, LT) { \
    {"take", 1, I * M + F * E * C, F * M * C},                      /* embedding: each row that is used once */ \
    /* x + wpe; two residual sums; GELU, in bf16 in a product; and of the mean of the losses, in f32: which targets \
        count (bool), the division */ \
    {"walk", 6 - LT, F * (M * C + T * C) + 2 * 2 * F * M * C + (1 - LT) * F * G + I * M + S + I, F * M * C + \
        2 * F * M * C + (1 - LT) * F * G + M + S}, \
    {"layer_norm", 3, 3 * F * (M * C + 2 * C), 3 * (F * M * C + S * 2 * M)},            /* x, w, b -> y, mean, rstd */ \
    {"cublasLtMatmul", 5, F * LAYERS(FORWARD_READ) + F * BIASES, F * LAYERS(FORWARD_WRITTEN) + LT * F * G}, \
        /* h is kept for GELU's gradient */ \
    {"attention", 1, F * 3 * M * C, F * M * C + S * B * H * T},     /* q, k, v -> o, lse: no T x T matrix */ \
    {"cross_entropy", 1, F * M * V + I * M, S * 2 * M},             /* logits, targets -> losses, lse */ \
    {"reduce", 2, S * M + M, S + I}}                                /* the sum of the losses, the number of targets */
#define BACKWARD_ROWS(F) { \
    /* seed 1; of the division, for all losses; GELU's; dwpe */ \
    {"walk", 4, I + S + 2 * F * G + F * T * C, 2 * S + F * G + F * T * C}, \
    {"cross_entropy_bwd", 1, F * M * V + I * M + S * M + S, F * M * V}, \
    {"cublasLtMatmul", 10, F * LAYERS(BACKWARD_READ), F * LAYERS(BACKWARD_WRITTEN) + F * BIASES}, \
    {"reduce", 7, F * M * C + 3 * 2 * S * C, F * T * C + 3 * 2 * F * C},                        /* of wpe over B; \
        of the norms' parts, here one each */ \
    {"layer_norm_bwd", 3, 3 * (F * (2 * M * C + C) + S * 2 * M) + 2 * F * M * C, 3 * (F * M * C + S * 2 * C)}, \
        /* x, g, w, mean, rstd -> dx, dw, db; two add to the dx of a residual sum */ \
    {"attention_delta", 1, F * 2 * M * C + S * B * H * T, S * 2 * B * H * T},                   /* o, do, lse -> \
        sum(o do), lse for the next two */ \
    {"attention_dq", 1, F * 4 * M * C + S * 2 * B * H * T, F * M * C},                          /* q, k, v, do, lse, \
        delta -> dq */ \
    {"attention_dkv", 1, F * 4 * M * C + S * 2 * B * H * T, F * 2 * M * C}, \
    {"check", 1, I * M, 0},                                         /* of the tokens, before anything is added */ \
    {"put", 1, I + I * M + F * M * C + F * E * C, F * E * C}}       /* into the head's gradient, which is wte's too */
static const row forward[2][FORWARD] = {FORWARD_ROWS(4, 0), FORWARD_ROWS(2, 1)};
static const row backward[2][BACKWARD] = {BACKWARD_ROWS(4), BACKWARD_ROWS(2)};
/* w, m, v, g -> w, m, v: one launch for all 16 parameters */
static const row update[2] = {{"walk", 1, 4 * S * P, 3 * S * P}, {"walk", 1, (2 + S + S + 2) * P, (2 + S + S) * P}};

/* The launches since the last call are exactly these rows. */
static void same_rows(const char *what, int n, const row *rows) {
    static struct { long long launches; cudasim_bytes bytes; } before[100];
    OK(cr_synchronize(cr_cuda(0)));
    int found = 0;
    for (int i = 0; i < 100 && kernel_name(i); i++) {
        const char *name = kernel_name(i);
        const cudasim_bytes now = traffic(name);
        const row ran = {name, launches(name) - before[i].launches, now.read - before[i].bytes.read,
                         now.written - before[i].bytes.written};
        before[i].launches += ran.launches, before[i].bytes = now;
        if (!n || !ran.launches) continue;
        row wanted = {name, 0, 0, 0};
        for (int k = 0; k < n; k++) if (!strcmp(rows[k].kernel, name)) wanted = rows[k], found++;
        CHECK(ran.launches == wanted.launches && ran.read == wanted.read && ran.written == wanted.written,
              "%s: %s is launched %lld times, reads %lld and writes %lld bytes; by design %lld, %lld and %lld", what,
              name, ran.launches, ran.read, ran.written, wanted.launches, wanted.read, wanted.written);
    }
    CHECK(found == n, "%s: of %d kernels %d ran", what, n, found);
    test_ran_on(cr_cuda(0));
}

static void one_step(cr_dtype dt) {
    const int half = dt == CR_BF16;
    const cr_device *d = cr_cuda(0);
    const int64_t tokens[M] = {0, 1, 4, 9, 5, 3, 3, 5, 10, 6}, next[M] = {1, 4, 9, 5, 3, 3, 5, 10, 6, 0};
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){V, T, 1, H, C, 0}, dt, d, random);
    const cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *optim = m ? cr_optim_new(cr_gpt_params(m), &o) : NULL;
    REQUIRE(optim, "%s", cr_error());
    if (!test_simulator("cudasim_count", &count) || !test_simulator("cudasim_traffic", &traffic) ||
        !test_simulator("cudasim_launches", &launches) || !test_simulator("cudasim_kernel_name", &kernel_name))
        SKIP("no simulator");
    CHECK(cr_params_numel(cr_gpt_params(m)) == P, "%lld parameters", (long long)cr_params_numel(cr_gpt_params(m)));
    for (int k = 0; k < 3; k++) {                   /* the first step creates the moments; the later steps are alike */
        cr_scope_begin();
        cr_params_zero_grad(cr_gpt_params(m));
        same_rows("nothing", 0, NULL);
        const cudasim_counters before = *count();
        cr_tensor *x = cr_from(tokens, CR_LIST(B, T), CR_I64, d), *y = cr_from(next, CR_LIST(B, T), CR_I64, d);
        cr_tensor *loss = cr_gpt_loss(m, x, y, true);
        same_rows(half ? "forward, bf16" : "forward", FORWARD, forward[half]);
        OK(cr_backward(loss, CR_NONE, NULL));
        same_rows(half ? "backward, bf16" : "backward", BACKWARD, backward[half]);
        OK(cr_optim_step(optim));
        if (k) same_rows(half ? "update, bf16" : "update", 1, &update[half]);
        else same_rows("nothing", 0, NULL);
        CHECK(cr_item(loss) > 1, "%s", cr_error());
        const cudasim_counters after = *count();
        CHECK(after.bytes_to_device - before.bytes_to_device == 2 * I * M, "%lld bytes are sent",
              after.bytes_to_device - before.bytes_to_device);
        CHECK(after.pageable_copies == before.pageable_copies, "%lld copies wait, since they are not of pinned memory",
              after.pageable_copies - before.pageable_copies);
        cr_scope_end();
    }
    cr_optim_free(optim);
    cr_gpt_free(m);
    cr_generator_free(random);
}
TEST(one_step) { one_step(CR_F32); }
TEST(one_step_in_bf16) { one_step(CR_BF16); }

/* ---- bytes of a mixed step: autocast, with the copies that the optimizer writes, beside a model all in bf16 */
/* by kernels whose names begin so */
static long long moved(const char *name) {
    long long n = 0;
    OK(cr_synchronize(cr_cuda(0)));
    for (int i = 0; i < 100 && kernel_name(i); i++)
        if (!strncmp(kernel_name(i), name, strlen(name)))
            n += traffic(kernel_name(i)).read + traffic(kernel_name(i)).written;
    return n;
}

typedef struct batch { int sequences, length, width; } batch;

/* Those of all kernels, and those of attention. */
static long long bytes_of_step(cr_dtype dt, batch of, int64_t *params, long long *of_attention) {
    const int64_t shape[] = {of.sequences, of.length};
    const int tokens = of.sequences * of.length, words = 8 * of.width;
    const cr_device *d = cr_cuda(0);
    const bool mixed = dt == CR_F32;
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){words, of.length, 2, 2, of.width, 0}, dt, d, random);
    const cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_params *p = cr_gpt_params(m);
    cr_optim *optim = cr_optim_new(p, &o);
    long long bytes = 0;
    cr_scope_begin();
    if (mixed) wide_copies(p, optim, CR_BF16);
    for (int k = 0; k < 2; k++) {                   /* the first step creates the moments */
        cr_scope_begin();
        static int64_t ids[1024];
        for (int i = 0; i < tokens; i++) ids[i] = (i * 7 + k) % words;
        cr_params_zero_grad(p);
        bytes = moved("");
        *of_attention = moved("attention");
        cr_tensor *x = cr_from(ids, 2, shape, CR_I64, d), *loss;
        if (mixed) OK(cr_autocast_begin(d, CR_BF16, true));
        loss = cr_gpt_loss(m, x, x, true);
        if (mixed) OK(cr_autocast_end());
        OK(cr_backward(loss, CR_NONE, NULL));
        OK(cr_optim_step(optim));
        bytes = moved("") - bytes;
        *of_attention = moved("attention") - *of_attention;
        cr_scope_end();
    }
    if (mixed) wide_copies(p, NULL, CR_BF16);
    cr_scope_end();
    *params = cr_params_numel(p);
    cr_optim_free(optim);
    cr_gpt_free(m);
    cr_generator_free(random);
    return bytes;
}

/* An f32 master is read and written, 4 bytes each, where bf16 has 2 each, and the copy of 2 is written: 6 more.  Its
 * gradient is written and read in f32: 4 more, which are not counted as the masters'.  Tokens for each column of the
 * width: 4 are few, 32 are nearly those of GPT-2 (43: 768 wide, 32 x 1024 tokens). */
TEST(mixed_step) {
    static const struct { batch of; double most; } rows[] = {{{4, 64, 64}, 1.06}, {{4, 256, 32}, 1.03}};
    int64_t params;
    long long attention[2];
    if (!test_simulator("cudasim_traffic", &traffic) || !test_simulator("cudasim_kernel_name", &kernel_name))
        SKIP("no simulator");
    for (int i = 0; i < (test_full() ? 2 : 1); i++) {
        const batch of = rows[i].of;
        const long long half = bytes_of_step(CR_BF16, of, &params, &attention[0]),
                        mixed = bytes_of_step(CR_F32, of, &params, &attention[1]);
        const double ratio = (double)mixed / (double)(half + 6 * params);
        printf("report %d wide, %d x %d tokens: a mixed step moves %.3f of the bytes of one in bf16 with masters\n",
               of.width, of.sequences, of.length, ratio);
        CHECK(ratio < rows[i].most, "%d x %d tokens: a mixed step moves %lld bytes, one in bf16 %lld", of.sequences,
              of.length, mixed, half);
        CHECK(attention[0] > 0 && attention[1] == attention[0] && moved("round") == 0,
              "attention moves %lld bytes, in bf16 %lld; passes that round %lld", attention[1], attention[0],
              moved("round"));
    }
    test_ran_on(cr_cuda(0));
}

/* ---- elementwise walks: the sectors that each warp accesses, with all its lanes */
typedef struct sectors {
    const char *what;
    cr_dtype is;
    cr_tensor *(*make)(const cr_tensor *x, const cr_tensor *y);
    long long read, written;
} sectors;
enum { ROWS = 64, COLUMNS = 128, N = ROWS * COLUMNS, SECTOR = 32 };

static cr_tensor *add_row(const cr_tensor *x, const cr_tensor *y) { return cr_add(x, cr_select(y, 0, 0)); }
static cr_tensor *add_column(const cr_tensor *x, const cr_tensor *y) { return cr_add(x, cr_slice(y, 1, 0, 1, 1)); }
static cr_tensor *turned(const cr_tensor *x, const cr_tensor *y) {
    return (void)y, cr_contiguous(cr_transpose(x, 0, 1));
}
static cr_tensor *turned_to_f32(const cr_tensor *x, const cr_tensor *y) {
    return (void)y, cr_to(cr_transpose(x, 0, 1), CR_F32, cr_cuda(0));
}
static cr_tensor *add_turned(const cr_tensor *x, const cr_tensor *y) {
    return cr_add(x, cr_transpose(cr_reshape(y, 2, (int64_t[]){COLUMNS, ROWS}), 0, 1));
}
static cr_tensor *heads(const cr_tensor *x, const cr_tensor *y) {
    return (void)y, cr_contiguous(cr_permute(cr_reshape(x, 3, (int64_t[]){4, 16, COLUMNS}), 3, (int64_t[]){1, 0, 2}));
}
static cr_tensor *pixels(const cr_tensor *x, const cr_tensor *y) {
    return (void)y, cr_contiguous(cr_transpose(cr_reshape(x, 2, (int64_t[]){N / 4, 4}), 0, 1));
}
static cr_tensor *into_turned(const cr_tensor *x, const cr_tensor *y) {
    return cr_add_(cr_transpose(x, 0, 1), cr_reshape(y, 2, (int64_t[]){COLUMNS, ROWS}));
}
static cr_tensor *turned_edge(const cr_tensor *x, const cr_tensor *y) {
    return (void)y,
           cr_contiguous(cr_transpose(cr_slice(cr_reshape(x, 2, (int64_t[]){2 * ROWS, ROWS}), 0, 0, 33, 1), 0, 1));
}
static cr_tensor *off_by_one(const cr_tensor *x, const cr_tensor *y) {
    return cr_add(cr_slice(x, 1, 1, 97, 1), cr_slice(cr_select(y, 0, 0), 0, 0, 96, 1));
}
static cr_tensor *rows_of_126(const cr_tensor *x, const cr_tensor *y) {
    const cr_tensor *z = cr_reshape(cr_slice(cr_reshape(x, 1, (int64_t[]){N}), 0, 0, 126 * ROWS, 1), 2,
                                    (int64_t[]){ROWS, 126});
    return cr_add(cr_slice(z, 1, 0, 64, 1), cr_slice(cr_select(y, 0, 0), 0, 0, 64, 1));
}

/* Each warp reads rows and columns again; with packs of 16 bytes a warp has 512 bytes. */
static const sectors walks[] = {
    {"bf16: x + row", CR_BF16, add_row, 2 * N / SECTOR + 2 * N / 512 * 2 * COLUMNS / SECTOR, 2 * N / SECTOR},
    {"f32: x + row", CR_F32, add_row, 2 * 4 * N / SECTOR, 4 * N / SECTOR},
    {"f32: x + column", CR_F32, add_column, 4 * N / SECTOR + 4 * N / 512, 4 * N / SECTOR},
    {"u8: turned", CR_U8, turned, N / SECTOR, N / SECTOR},
    {"bf16: turned", CR_BF16, turned, 2 * N / SECTOR, 2 * N / SECTOR},
    {"f32: turned", CR_F32, turned, 4 * N / SECTOR, 4 * N / SECTOR},
    {"f64: turned", CR_F64, turned, 8 * N / SECTOR, 8 * N / SECTOR},
    {"u8: turned to f32", CR_U8, turned_to_f32, N / SECTOR, 4 * N / SECTOR},
    {"bf16: x + turned", CR_BF16, add_turned, 2 * 2 * N / SECTOR, 2 * N / SECTOR},
    {"f32: x + turned", CR_F32, add_turned, 2 * 4 * N / SECTOR, 4 * N / SECTOR},
    {"f32: heads", CR_F32, heads, 4 * N / SECTOR, 4 * N / SECTOR},
    {"f32: pixels", CR_F32, pixels, 4 * N / SECTOR, 4 * N / SECTOR},
    {"u8: pixels", CR_U8, pixels, N / SECTOR, N / SECTOR},
    {"f32: x.T += y", CR_F32, into_turned, 2 * 4 * N / SECTOR, 4 * N / SECTOR},
    /* rows of 33 begin in a sector where 8 divides their number; the last elements go alone */
    {"f32: turned, 33 rows", CR_F32, turned_edge, 4 * 33 * ROWS / SECTOR, 8 * 4 + 56 * 5 + ROWS},
    /* one element each: warps of 64 bytes */
    {"bf16: x[:, 1:97] + row", CR_BF16, off_by_one, ROWS * 3 * (3 + 2), ROWS * 3 * 2},
    /* two elements each: warps of 128 bytes */
    {"bf16: 64 of 126 columns + row", CR_BF16, rows_of_126, 8 * 4 + 56 * 5 + ROWS * 4, ROWS * 4},
};

TEST(sectors_of_walks) {
    if (!test_simulator("cudasim_traffic", &traffic)) SKIP("no simulator");
    for (size_t i = 0; i < sizeof walks / sizeof *walks; i++) {
        const sectors *w = &walks[i];
        cr_scope_begin();
        const int64_t shape[] = {ROWS, COLUMNS};
        cr_tensor *x = cr_to(cr_zeros(2, shape, CR_U8, cr_cuda(0)), w->is, cr_cuda(0)),
                  *y = cr_contiguous(cr_add(x, x));
        OK(cr_synchronize(cr_cuda(0)));
        const cudasim_bytes before = traffic("walk");
        REQUIRE(w->make(x, y), "%s", cr_error());
        OK(cr_synchronize(cr_cuda(0)));
        const cudasim_bytes after = traffic("walk");
        CHECK(after.sectors_read - before.sectors_read == w->read &&
                  after.sectors_written - before.sectors_written == w->written,
              "%s: reads %lld and writes %lld sectors, wanted %lld and %lld", w->what,
              after.sectors_read - before.sectors_read, after.sectors_written - before.sectors_written, w->read,
              w->written);
        test_ran_on(cr_cuda(0));
        cr_scope_end();
    }
}
#else
TEST(one_step) { SKIP("kernels are counted by the simulator without sanitizers"); }
TEST(one_step_in_bf16) { SKIP("kernels are counted by the simulator without sanitizers"); }
TEST(sectors_of_walks) { SKIP("kernels are counted by the simulator without sanitizers"); }
#endif
