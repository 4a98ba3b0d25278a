/* test_cuda_hopper.c - attention on a GPU of compute capability 9.0, whose instructions only it has: by
 * hopper.cu against plain loops in double, and by which kernels other shapes and other GPUs run.  A
 * simulated GPU needs a second for a block, so shapes are small. */
#include <stdlib.h>

__attribute__((constructor)) static void choose_gpu(void) { setenv("CUDASIM_CC", "90", 0); }

#define CR_TEST_CUDA
#include "cuda_attention.h"
#include "dev/cuda/gpu.h"
#include "dev/cuda/hopper.cu"

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
        {141, 141, 128, true, 2, 0, 0},  {500, 130, 64, true, 1, 0, 0},   {150, 290, 128, true, 1, 70, 0},
        {150, 130, 64, true, 3, 20, 0},  {130, 300, 64, true, 1, 0, -200}, {129, 257, 128, true, 2, 0, 0},
        {150, 60, 64, true, 1, 20, 200}};
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
    try_on((trial){.dt = CR_BF16, .B = 1, .H = 1, .T = 200, .S = 1, .D = 64, .scale = 50}, 1, 1);
    try_on((trial){.dt = CR_BF16, .B = 1, .H = 1, .T = 66, .S = 130, .D = 64, .scale = -5, .causal = true}, 1, 1);
}

/* The same bits in every run: several blocks of keys add to dq, in whatever order their threads run. */
TEST(hopper_same_bits) {
    void (*order)(const char *);
    const bool simulated = test_simulator("cudasim_order", &order);
    const unsigned long long seed = test_seed();
    trial t = {.dt = CR_BF16, .B = 1, .H = 2, .T = 70, .S = 300, .D = 128, .scale = 0.1, .shared = 2};
    set s[2];
    for (int i = 0; i < 2; i++) {
        if (simulated) order(i ? "reverse" : "5");
        box_state = seed;
        s[i] = make_set(&t);
        run(&t, &s[i], cr_cuda(0));
    }
    if (simulated) order(getenv("CUDASIM_ORDER"));
    for (int i = 0; i < BOXES; i++)
        CHECK(!memcmp(s[0].b[i].memory, s[1].b[i].memory, s[0].b[i].bytes), "operand %d: other bits", i);
    drop_set(&s[0]), drop_set(&s[1]);
    test_ran_on(cr_cuda(0));
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

/* ---- kernels that use the units of sm_90a wrongly, whose behaviour on a true GPU is undefined.  At M is
 * memory for barriers, at TILE a tile; a barrier of one arrival is at M. */
static const char preamble[] =
    "#define PASS 0\n#define T bf16\n#define A f32\n#define MASKED 0\n#define HEAD 64\n";
static const char common[] =
    "#define M shared_address(memory)\n#define TILE (M + 1024)\n#define ONE if (threadIdx.x) return;\n"
    "#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL\n"
    "D void begin() { if (threadIdx.x == 0) barrier_init(M, 1); __syncthreads(); }\n"
    "D void issue(f32 (&d)[32]) { multiply<T, 0, 0>(d, by_rows(TILE), by_rows(TILE), false); }\n";
static const struct { const char *body, *says; } wrong[] = {
    {"f32 d[32] = {}; issue(d);", "a product without a fence"},
    {"f32 d[32] = {}; begin_products(); issue(d); commit_products(); wait_products<0>(); issue(d);",
     "a product without a fence"},
    {"f32 d[32] = {}; begin_products(); issue(d); commit_products();", "the block ends before something saw a product"},
    {"f32 d[32] = {}; begin_products(); issue(d); wait_products<0>();", "saw a product"},
    {"f32 d[32] = {}; begin_products(); issue(d); commit_products(); d[3] = 1; wait_products<0>();",
     "result 3 of a product was written"},
    {"f32 d[32] = {}; begin_products(); multiply<T, 0, 0>(d, by_rows(TILE + 32 * lane()), by_rows(TILE), false);",
     "the lanes of a warp issue different products"},
    {"f32 d[32] = {}; begin_products(); multiply<T, 0, 0>(d, by_rows(TILE), by_rows(TILE) ^ 1ull << 62, false); "
     "commit_products(); wait_products<0>();",
     "only operands with a swizzle"},
    {"f32 d[32] = {}; begin_products(); multiply<T, 0, 0>(d, by_rows(TILE), by_rows(M + (200 << 10)), false); "
     "commit_products(); wait_products<0>();",
     "is outside of the"},
    {"barrier_wait(M, 0);", "there is no barrier"},
    {"if (threadIdx.x == 0) barrier_init(M, 1); barrier_wait(M, 1);", "there is no barrier"},
    {"begin(); barrier_wait(M, 0);", "waits for barrier 0x400 for ever"},
    {"begin(); ONE barrier_expect(M, 64); barrier_arrive(M); barrier_arrive(M);",
     "more than 1 arrivals"},
    {"begin(); ONE load_box(TILE, x.q, 0, 0, 0, 0, M); barrier_arrive(M); barrier_wait(M, 0);",
     "saw a tensor copy"},
    {"begin(); ONE barrier_expect(M, 8190); load_box(TILE, x.q, 0, 0, 0, 0, M); barrier_arrive(M); "
     "barrier_wait(M, 0);",
     "waits for barrier 0x400 for ever"},
    {"begin(); ONE barrier_expect(M, 8192); load_box(TILE, x.q, 0, 0, 0, 0, M); barrier_arrive(M);",
     "saw a tensor copy"},
    {"begin(); ONE load_box(TILE + 16, x.q, 0, 0, 0, 0, M);", "a copy to 0x810"},
    {"begin(); ONE load_box(TILE, tensor_map{}, 0, 0, 0, 0, M);", "a copy without a tensor map"},
    {"synchronize(1, threadIdx.x < 64 ? 96 : 128);", "threads of barrier 1 expect"},
    {"synchronize(1 + threadIdx.x / 64, 128);", "waits for named barrier"},
    {"arrive(1, 256);", "a named barrier 1 of 256 threads"},
    {"if (threadIdx.x < 32) arrive(1, 128);", "an arrival at a named barrier"},
    {"put(TILE, 1);", "a word that was put"}};
enum { WRONG = sizeof wrong / sizeof *wrong, BYTES = 64 << 10 };

/* Bytes of a compiled text; NULL: not compiled. */
static char *compiled(const char *text, const char *architecture) {
    nvrtc_program p = NULL;
    size_t bytes = 0;
    char *code = NULL;
    const bool made = !cr_nvrtc.CreateProgram(&p, text, "wrong", 0, NULL, NULL) &&
                      !cr_nvrtc.CompileProgram(p, 2, (const char *[]){architecture, "--std=c++17"});
    if (made && !cr_nvrtc.GetCubinSize(p, &bytes) && (code = malloc(bytes)) && cr_nvrtc.GetCubin(p, code))
        free(code), code = NULL;
    cr_nvrtc.DestroyProgram(&p);
    return code;
}

static const uint64_t map_sizes[4] = {64, 100, 3, 2}, map_strides[3] = {128, 12800, 38400};
static const unsigned map_box[4] = {64, 64, 1, 1}, map_steps[4] = {1, 1, 1, 1};
static int encode(tensor_map *m, cuda_address at, const uint64_t *sizes, const uint64_t *strides,
                  const unsigned *sides) {
    return cr_cu.TensorMapEncodeTiled(m, CUDA_MAP_DATA_TYPE_BFLOAT16, 4, (void *)(uintptr_t)at, sizes, strides, sides,
                                      map_steps, 0, CUDA_MAP_SWIZZLE_128B, CUDA_MAP_L2_PROMOTION_L2_128B, 0);
}

TEST(hopper_misuse) {
    const char *(*message)(void);
    void (*mend)(void), (*order)(const char *);
    if (!test_simulator("cudasim_message", &message) || !is_hopper()) SKIP("needs a simulated GPU of 9.0");
    REQUIRE(test_simulator("cudasim_mend", &mend) && test_simulator("cudasim_order", &order), "an old simulator");
    order("forward");
    cuda *g = cr_cuda_enter("test", cr_cuda(0));
    REQUIRE(g, "%s", cr_error());
    cr_out text = {0};
    cr_out_format(&text, "%s%s%s%s%s", cr_cuda_source_device, cr_cuda_source_arguments, preamble, cr_cuda_source_hopper,
                  common);
    for (int i = 0; i < WRONG; i++)
        cr_out_format(&text, "KERNEL(128) wrong_%d(const __grid_constant__ hopper x) { %s }\n", i, wrong[i].body);
    cr_out_format(&text, "#endif\n");
    cuda_module module = NULL;
    char *code = compiled(text.text, "--gpu-architecture=sm_90a"),
         *plain = compiled(text.text, "--gpu-architecture=sm_90"),
         *newer = compiled(text.text, "--gpu-architecture=sm_100a");
    REQUIRE(code && plain && newer, "not compiled");
    CHECK(cr_cu.ModuleLoadData(&module, newer) == 209, "a text for sm_100a is loaded by an sm_90: %s", message());
    cuda_address memory = 0;
    CHECK(!cr_cu.ModuleLoadData(&module, code) && !cr_cu.MemAlloc(&memory, 1 << 20), "%s", message());
    hopper_arguments a = {0};
    CHECK(!encode(&a.q, memory, map_sizes, map_strides, map_box), "%s", message());
    for (int i = 0; i <= WRONG; i++) {
        cuda_function f = NULL;
        char name[20];
        const char *says = i < WRONG ? wrong[i].says : "not compiled for sm_90a";
        if (i == WRONG) CHECK(!cr_cu.ModuleLoadData(&module, plain), "%s", message());
        snprintf(name, sizeof name, "wrong_%d", i % WRONG);
        CHECK(!cr_cu.ModuleGetFunction(&f, module, name) && !cr_cu.FuncSetAttribute(f, CUDA_DYNAMIC_SHARED, BYTES) &&
                  !cr_cu.LaunchKernel(f, 1, 1, 1, 128, 1, 1, BYTES, g->stream, (void *[]){&a}, NULL),
              "%s: %s", name, message());
        const int status = cr_cu.StreamSynchronize(g->stream);
        CHECK(status && strstr(message(), says), "%s: '%s' lacks '%s'", i < WRONG ? wrong[i].body : name, message(),
              says);
        mend();
    }
    static const struct { uint64_t sizes[4], strides[3]; unsigned box[4], off; const char *says; } maps[] = {
        {{64, 100, 3, 2}, {128, 12800, 38400}, {64, 64, 1, 1}, 8, "address is not 16-aligned"},
        {{64, 100, 3, 2}, {136, 12800, 38400}, {64, 64, 1, 1}, 0, "a stride is not a multiple of 16"},
        {{64, 100, 3, 2}, {128, 0, 38400}, {64, 64, 1, 1}, 0, "a stride is not a multiple of 16"},
        {{64, 0, 3, 2}, {128, 12800, 38400}, {64, 64, 1, 1}, 0, "a size is not 1 to 2^32"},
        {{64, 100, 3, 2}, {128, 12800, 38400}, {64, 257, 1, 1}, 0, "is not 1 to 256"},
        {{128, 100, 3, 2}, {256, 12800, 38400}, {128, 64, 1, 1}, 0, "longer than the swizzle"},
        {{64, 100, 3, 2}, {128, 12800, 38400}, {12, 64, 1, 1}, 0, "multiples of 16 bytes"}};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        CHECK(encode(&a.k, memory + maps[i].off, maps[i].sizes, maps[i].strides, maps[i].box) == 1,
              "map %zu is taken", i);
        CHECK(strstr(message(), maps[i].says), "'%s' lacks '%s'", message(), maps[i].says);
    }
    CHECK(!cr_cu.MemFree(memory), "%s", message());
    free(code), free(plain), free(newer);
    cr_out_free(&text);
    cr_cuda_leave(g, CR_OK);
    order(getenv("CUDASIM_ORDER"));
}
