/* test_cuda_hopper.c - attention on a GPU of compute capability 9.0, whose instructions only it has: by
 * hopper.cu against plain loops in double, and by which kernels other shapes and other GPUs run.  A
 * simulated GPU needs a second for a block, so shapes are small. */
#include <stdlib.h>

__attribute__((constructor)) static void choose_gpu(void) { setenv("CUDASIM_CC", "90", 0); }

#define CR_TEST_CUDA
#include "cuda_attention.h"

/* The launches of a kernel so far; on a true GPU not known: 0. */
static long long launches(const char *kernel) {
    static long long (*count)(const char *);
    return count || test_simulator("cudasim_launches", &count) ? count(kernel) : 0;
}
static bool is_hopper(void) { return strstr(cr_cuda(0)->info(cr_cuda(0)), "compute capability 9.0,") != NULL; }

/* Runs a trial, and checks that each of hopper.cu's kernels ran as often as expected. */
static void try_on(trial t, int forward, int backward) {
    long long (*count)(const char *);
    const long long o = launches("attention_hopper"), d = launches("attention_hopper_bwd");
    try_attention(t);
    if (!test_simulator("cudasim_launches", &count)) return;
    if (!is_hopper()) forward = backward = 0;
    CHECK(launches("attention_hopper") - o == forward && launches("attention_hopper_bwd") - d == backward,
          "T %lld S %lld D %lld mask %d: %lld and %lld launches of hopper.cu, wanted %d and %d", (long long)t.T,
          (long long)t.S, (long long)t.D, t.mask, launches("attention_hopper") - o,
          launches("attention_hopper_bwd") - d, forward, backward);
}

/* One block, several; parts of tiles; more tiles than slots; windows; queries that attend to no key; heads
 * that share keys. */
TEST(hopper_attention) {
    static const struct { int64_t T, S, D; bool causal; int64_t shared, window, shift; } trials[] = {
        {128, 128, 64, false, 1, 0, 0},  {128, 128, 128, false, 1, 0, 0}, {5, 1, 64, false, 1, 0, 0},
        {70, 700, 64, false, 1, 0, 0},   {65, 401, 128, false, 1, 0, 0},  {200, 200, 64, true, 1, 0, 0},
        {141, 141, 128, true, 2, 0, 0},  {300, 130, 64, true, 1, 0, 0},   {150, 290, 128, true, 1, 70, 0},
        {150, 130, 64, true, 3, 20, 0},  {130, 300, 64, true, 1, 0, -200}, {129, 257, 128, true, 2, 0, 0}};
    box_state = test_seed();
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            if (test_full() || (i + (size_t)bf16) % 2)
                try_on((trial){.dt = bf16 ? CR_BF16 : CR_F16,
                               .B = 1 + (i == 0),
                               .H = trials[i].shared * (1 + (i == 0)),
                               .T = trials[i].T,
                               .S = trials[i].S,
                               .D = trials[i].D,
                               .causal = trials[i].causal,
                               .layout = (int)box_draw(2),
                               .shared = trials[i].shared,
                               .window = trials[i].window,
                               .shift = trials[i].shift},
                       1, 1);
}

TEST(hopper_large_scores) {
    box_state = test_seed();
    try_on((trial){.dt = CR_BF16, .B = 1, .H = 1, .T = 66, .S = 130, .D = 64, .scale = 5}, 1, 1);
    try_on((trial){.dt = CR_BF16, .B = 1, .H = 1, .T = 66, .S = 130, .D = 64, .scale = -5, .causal = true}, 1, 1);
}

/* What hopper.cu does not serve: masks, other heads, rows that begin between multiples of 16 bytes, other
 * dtypes, few queries, and no strides. */
TEST(hopper_elsewhere) {
    box_state = test_seed();
    const trial plain = {.dt = CR_BF16, .B = 1, .H = 1, .T = 20, .S = 40, .D = 64};
    trial t = plain;
    try_on((t = plain, t.mask = 2, t), 0, 0);
    try_on((t = plain, t.D = 72, t), 0, 0);
    try_on((t = plain, t.layout = 2, t), 0, 0);
    try_on((t = plain, t.dt = CR_F32, t), 0, 0);
    try_on((t = plain, t.T = 2, t.S = 70, t), 0, 1);
    cr_switch_set("CUDA_HOPPER", "off");
    try_on(plain, 0, 0);
    cr_switch_set("CUDA_HOPPER", NULL);
    try_on(plain, 1, 1);
    t = plain, t.H = 2, t.scale = 0.2, t.rough = rounding(t.dt);
    set s = make_set(&t);
    for (int i = K; i <= W; i++) s.b[i].t.strides[1] = 0;
    const long long before = launches("attention_hopper");
    run(&t, &s, cr_cuda(0));
    check_all(&t, &s);
    CHECK(launches("attention_hopper") == before, "a stride of 0 has a tensor map");
    drop_set(&s);
    test_ran_on(cr_cuda(0));
}
