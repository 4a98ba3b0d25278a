/* test_cuda.c - properties of NVIDIA GPUs, or simulated ones: the launches and waits of a step,
 * memory, the cache of kernels, errors. */
#define CR_TEST_CUDA
#include "test.h"
#include "folder.h"
#include "gpu_trace.h"
#include "said_by.h"
#include "wide.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cudasim/control.h"
#include "core/config.h"
#include "core/tensor.h"
#include "dev/cuda/gpu.h"

static cuda *the_gpu(void) { return (cuda *)(uintptr_t)cr_cuda(0); }
static const cr_device *dev(void) { return cr_cuda(0); }

static void same(const cr_tensor *t, const float *want, int n, const char *what) {
    float got[64];
    REQUIRE(t, "%s: %s", what, cr_error());
    OK(cr_read(t, CR_F32, got, sizeof(float) * (size_t)n));
    for (int i = 0; i < n; i++)
        CHECK(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])), "%s: element %d is %g, wanted %g", what, i,
              (double)got[i], (double)want[i]);
    test_ran_on(cr_device_of(t));
}

TEST(names) {
    char text[80];
    const cr_device *d = dev();
    const int count = cr_cuda_count();
    printf("  %s: %s\n", cr_device_name(d), cr_device_info(d));
    CHECK(cr_device_find("cuda") == d && cr_device_find("cuda:0") == d && cr_device_find("gpu") == d &&
              cr_gpu(0) == d && cr_device_find("auto") == d,
          "the first GPU has several names");
    CHECK(strstr(cr_device_info(d), "compute capability"), "info says what it can");
    snprintf(text, sizeof text, "[cuda] device 99 does not exist: %d device%s found", count, count > 1 ? "s" : "");
    FAILS(CR_BAD_VALUE, text, cr_cuda(99));
    FAILS(CR_BAD_VALUE, "device -1 does not exist", cr_cuda(-1));
    FAILS(CR_BAD_VALUE, "device x does not exist", cr_device_find("cuda:x"));
    FAILS(CR_RUNTIME, "is set too late", cr_switch_set("CUDA", "off"));
}

static int64_t launches(void) { return the_gpu()->counters.launches; }

TEST(trace) {
    check_trace(dev(), launches);
    static traces t;                                /* copies, on their own stream, for tensors of 2 and 3 sections */
    const char *path = folder_path("copies.json");
    const int64_t bytes = 2 * CUDA_SECTION_BYTES + 4;
    OK(cr_profile_begin());
    cr_scope_begin();
    cr_tensor *x = cr_to(cr_zeros(CR_LIST(bytes), CR_U8, cr_cpu()), CR_U8, dev());
    CHECK(cr_to(x, CR_U8, cr_cpu()), "%s", cr_error());
    cr_scope_end();
    OK(cr_profile_end(path));
    trace_read(&t, path, "cuda:0 copies");
    int up = 0, down = 0;
    for (int i = 0; i < t.n; i++) {
        up += !strcmp(t.of[i].name, "copy to the GPU"), down += !strcmp(t.of[i].name, "copy to the host");
        CHECK(!i || t.of[i].start >= t.of[i - 1].end - 1, "copy %d from %.3f us, the one before to %.3f us", i,
              t.of[i].start, t.of[i - 1].end);
    }
    CHECK(up == 3 && down == 3 && t.n == 6, "%d copies to the GPU, %d back, %d spans", up, down, t.n);
}

/* A driver that cannot launch, or is lost, in the middle of a profile: the profile ends, with what was measured. */
TEST(trace_of_failures) {
    int (*fail)(const char *, int);
    void (*mend)(void);
    if (!test_simulator("cudasim_fail", &fail) || !test_simulator("cudasim_mend", &mend)) SKIP("no simulator");
    static traces t;
    const char *path = folder_path("failed.json");
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(5), CR_F32, dev());
    OK(cr_synchronize(dev()));
    OK(cr_profile_begin());
    cr_release(cr_add(x, x));
    fail("launch", 1);
    FAILS(CR_RUNTIME, "a kernel does not start", cr_mul(x, x));
    cr_release(cr_sub(x, x));
    OK(cr_profile_end(path));
    mend();
    trace_read(&t, path, "cuda:0 kernels");
    CHECK(t.n >= 2 && !strcmp(t.of[0].op, "add") && !strcmp(t.of[t.n - 1].op, "sub"), "%d spans, the first of '%s'",
          t.n, t.n ? t.of[0].op : "");
    cr_scope_end();
    test_ran_on(dev());
}

/* A process names what it lacks: in its line about a missing device, or in its first failure. */
TEST(missing_parts) {
#ifdef CHAINRULE_CUDASIM
    static const struct { const char *environment, *message;
    } cases[] = {
        {"CHAINRULE_CUDA=off", "CHAINRULE_CUDA=off"},
        {"CHAINRULE_CUDA=/nowhere/libcuda.so.1", "CHAINRULE_CUDA=/nowhere/libcuda.so.1 cannot be opened"},
        {"CHAINRULE_CUDA=libm.so.6", "the library found has no cuInit"},
        {"CUDASIM_DRIVER=11080", "the NVIDIA driver is too old: it knows CUDA 11.8, 12.0 is needed"},
        {"CUDASIM_DEVICES=0", "the NVIDIA driver sees no device"},
        {"CUDASIM_CC=52", "Simulated GPU has compute capability 5.2, 6.0 is needed"},
        {"CUDASIM_CC=61", "Simulated GPU has compute capability 6.1: it needs the NVRTC of CUDA 12 (pip install "
                          "nvidia-cuda-nvrtc-cu12), this one is of 13.0"},
        {"CUDASIM_CC=61 CUDASIM_NVRTC=12", "1 passed"},
        {"CUDASIM_CC=105", "1 passed"},            /* newer than NVRTC: machine code of 10.3, which later minor
                                                    * versions run */
        {"CUDASIM_CC=130", "1 passed"},            /* PTX */
        {"CUDASIM_CC=115", "1 passed"},            /* PTX, because machine code of 11.0 runs on no other GPU */
        {"CUDASIM_FAIL=device:1", "cuda:0: cannot be opened: CUDA_ERROR_DEVICE_UNAVAILABLE"},
        {"CHAINRULE_NVRTC=off", "Simulated GPU cannot be used: CHAINRULE_NVRTC=off"},
        {"CHAINRULE_NVRTC=/nowhere/libnvrtc.so.13",
         "Simulated GPU cannot be used: CHAINRULE_NVRTC=/nowhere/libnvrtc.so.13 cannot be opened"},
        {"CHAINRULE_CUBLASLT=off", "1 passed"},
        {"CHAINRULE_GPU_MEMORY=1e9", "CHAINRULE_GPU_MEMORY is a whole number of MiB of at least 1, not '1e9'"},
        {"CHAINRULE_CUBLASLT=/nowhere/libcublasLt.so.13", "1 passed"},
        {"CHAINRULE_TEST_CUDA=1", "no NVIDIA driver: libcuda.so.1 not found"},     /* unless a driver is installed */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *said = said_by(cases[i].environment, "round_trip");
        CHECK(strstr(said, cases[i].message) ||
                  (strstr(cases[i].environment, "TEST_CUDA=1") && strstr(said, "1 passed")),
              "%s: said %s", cases[i].environment, said);
        test_ran_on(dev());
    }
#else
    SKIP("no simulator");
#endif
}

/* NVRTC and its builtins in one folder, as pip installs them; a driver of CUDA 12 does not load that of CUDA 13. */
TEST(nvrtc_of_pip) {
#ifdef CHAINRULE_CUDASIM
    char environment[900];
    REQUIRE(cr_os_make_directory(folder_path("lib/python3.11/site-packages/nvidia/cu13/lib")), "%s", cr_os_error());
    REQUIRE(!symlink(CHAINRULE_CUDASIM "/libnvrtc.so.13",
                     folder_path("lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13")),
            "no link");
    for (int driver = 13000; driver >= 12080; driver -= 920) {
        snprintf(environment, sizeof environment,
                 "CHAINRULE_NVRTC= CHAINRULE_CACHE=off VIRTUAL_ENV='%s' CUDASIM_DRIVER=%d", folder_name, driver);
        const char *said = said_by(environment, "round_trip");
        CHECK(!strstr(said, "1 passed") == (driver < 13000), "driver %d: said %s", driver, said);
        test_ran_on(dev());
    }
#else
    SKIP("no simulator");
#endif
}

/* A child process has the driver's handles but not its state, and cannot restart it.  Runs before
 * other tests open the second GPU. */
TEST(fork) {
    const cr_device *unopened = cr_cuda_count() > 1 ? cr_cuda(1) : NULL;
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(3), CR_F32, dev());
    cr_mutex_lock(the_gpu()->lock);                 /* as another thread of the parent may */
    const pid_t child = fork();
    if (child) cr_mutex_unlock(the_gpu()->lock);
    else {
        alarm(60);
        bool right = !cr_add(x, x) && strstr(cr_error(), "cuda:0 is lost: this process was forked");
        cr_error_clear();
        right &= !unopened || (!cr_ones(CR_LIST(3), CR_F32, unopened) &&
                               strstr(cr_error(), "cuda:1 is lost: this process was forked"));
        cr_error_clear();
        cr_release(x);
        cr_empty_cache(dev());
        right &= cr_memory_stats(dev()).current > 0;
        right &= cr_item(cr_sum(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), CR_ALL, false)) == 3;
        _exit(!right);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && !status, "a child of a process with an open GPU");
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 3, "the parent goes on: %s", cr_error());
    cr_scope_end();
    test_ran_on(dev());
}

TEST(round_trip) {
    const cr_device *d = dev();
    const float a[6] = {1, 2, 3, 4, 5, 6}, twice[6] = {2, 4, 6, 8, 10, 12}, turned[6] = {1, 4, 2, 5, 3, 6},
                rows[2] = {6, 15}, product[4] = {14, 32, 32, 77};
    cr_scope_begin();
    cr_tensor *x = cr_from(a, CR_LIST(2, 3), CR_F32, d);
    same(x, a, 6, "upload and download");
    same(cr_mul(x, cr_scalar(2)), twice, 6, "x * 2");
    same(cr_contiguous(cr_transpose(x, 0, 1)), turned, 6, "transposed");
    same(cr_sum(x, CR_LIST(1), false), rows, 2, "sum");
    same(cr_matmul(x, cr_transpose(x, 0, 1)), product, 4, "x x^T");
    cr_scope_end();
}

/* The driver needs memory for code when a kernel is loaded or first launched: cached memory is freed
 * for it; without any, there is an error. */
TEST(room_for_code) {
    int (*fail)(const char *what, int k);
    if (!test_simulator("cudasim_fail", &fail)) SKIP("no simulator");
    const float four[3] = {4, 4, 4};
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(3), 2, CR_F32, dev());
    OK(cr_synchronize(dev()));
    for (int launch = 0; launch < 2; launch++) {    /* a new kernel, then a loaded one */
        cr_release(cr_empty(CR_LIST(64 << 20), CR_U8, dev()));
        const int64_t before = the_gpu()->reserved;
        fail("room", 1);
        same(cr_fmod(cr_mul(x, x), cr_scalar(7)), four, 3, "with what was cached");
        CHECK(the_gpu()->reserved <= before - (64 << 20), "%lld of %lld bytes are kept", (long long)the_gpu()->reserved,
              (long long)before);
        fail("room", 0);
    }
    cr_empty_cache(dev());
    fail("room", 1);
    FAILS(CR_NO_MEMORY, "a kernel does not start: CUDA_ERROR_OUT_OF_MEMORY", cr_mul(x, x));
    fail("room", 0);
    cr_scope_end();
    test_ran_on(dev());
}

/* So does cuBLASLt, at the first product of a shape, when it chooses an algorithm or when it runs: the
 * pool is emptied once. */
TEST(room_for_products) {
    int (*fail)(const char *what, int k);
    if (!test_simulator("cudasim_fail", &fail) || !cr_lt_ready()) SKIP("no simulated cuBLASLt");
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(9, 40), 2, CR_F32, dev());
    REQUIRE(cr_matmul(x, cr_transpose(x, 0, 1)), "%s", cr_error());    /* creates its context */
    for (int k = 1; k <= 2; k++)                    /* choosing an algorithm; running it */
        for (int cached = 1; cached >= 0; cached--) {
            cr_tensor *y = cr_full(CR_LIST(40, 2 * k + cached), 3, CR_F32, dev());
            OK(cr_synchronize(dev()));
            cr_empty_cache(dev());
            if (cached) cr_release(cr_empty(CR_LIST(64 << 20), CR_U8, dev()));
            cr_tensor *z = cr_empty(CR_LIST(9, 2 * k + cached), CR_F32, dev());
            const int64_t before = the_gpu()->reserved, refused = the_gpu()->counters.refused;
            (void)z;
            fail("room", k);
            if (k == 2 && !cached) FAILS(CR_NO_MEMORY, "cuBLASLt fails with error 3", cr_matmul(x, y));
            else
                CHECK(cr_item(cr_sum(cr_matmul(x, y), CR_ALL, false)) == 2 * 3 * 40 * 9 * (2 * k + cached),
                      "%d, %d: %s", k, cached, cr_error());
            fail("room", 0);
            CHECK(!cached || the_gpu()->reserved <= before - (64 << 20), "%d: %lld of %lld bytes are kept", k,
                  (long long)the_gpu()->reserved, (long long)before);
            CHECK(the_gpu()->counters.refused == refused + (k == 1 && !cached), "%d, %d: %lld are refused", k, cached,
                  (long long)(the_gpu()->counters.refused - refused));
        }
    cr_scope_end();
    test_ran_on(dev());
}

/* cuBLASLt may find an algorithm and then refuse the product, as for some large batches: from then on
 * the plain kernel computes it. */
TEST(refused_product) {
    int (*fail)(const char *what, int k);
    if (!test_simulator("cudasim_fail", &fail)) SKIP("no simulator");
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(2, 5, 7), 3, CR_F32, dev()), *y = cr_full(CR_LIST(2, 7, 3), 5, CR_F32, dev());
    fail("product", 1);
    for (int i = 0; i < 2; i++)
        CHECK(cr_item(cr_sum(cr_matmul(x, y), CR_ALL, false)) == 15.0 * 7 * 2 * 5 * 3, "%s", cr_error());
    fail("product", 0);
    cr_scope_end();
    test_ran_on(dev());
}

/* Longer than a section of the pinned memory, and than all of them. */
TEST(long_copies) {
    enum { LONG = CUDA_SECTIONS * CUDA_SECTION_BYTES + 12345 };
    unsigned char *bytes = malloc(LONG), *back = malloc(LONG);
    REQUIRE(bytes && back, "out of memory");
    for (size_t i = 0; i < LONG; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 24);
    for (int64_t n = CUDA_SECTION_BYTES - 1; n <= LONG;
         n += n < CUDA_SECTION_BYTES + 1 ? 1 : LONG - CUDA_SECTION_BYTES - 1) {
        cr_scope_begin();
        cr_tensor *x = cr_from(bytes, CR_LIST(n), CR_U8, dev());
        memset(back, 0, LONG);
        OK(cr_read(x, CR_U8, back, (size_t)n));
        CHECK(!memcmp(bytes, back, (size_t)n), "%lld bytes there and back", (long long)n);
        cr_scope_end();
        test_ran_on(dev());
    }
    free(bytes);
    free(back);
}

/* ---- launches, and waits of the host */
TEST(launches) {
    cuda *g = the_gpu();
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(1000), 0.5, CR_F32, dev()), *y = cr_tanh(cr_add(x, x));
    OK(cr_synchronize(dev()));
    const cuda_counters before = g->counters;
    for (int i = 0; i < 50; i++) y = cr_tanh(cr_add(y, x));
    CHECK(g->counters.launches == before.launches + 100, "100 ops took %lld launches",
          (long long)(g->counters.launches - before.launches));
    CHECK(g->counters.waits == before.waits && g->counters.downloads == before.downloads,
          "something waited before anybody asked");
    CHECK(g->counters.modules == before.modules, "%lld kernels were loaded again",
          (long long)(g->counters.modules - before.modules));
    double want = 0.5;
    for (int i = 0; i < 51; i++) want = tanh(want + 0.5);
    float got[1000];
    OK(cr_read(y, CR_F32, got, sizeof got));
    CHECK(fabs((double)got[999] - want) < 1e-6, "after a chain of 100 ops %.9g, wanted %.9g", (double)got[999], want);
    cr_scope_end();
    test_ran_on(dev());
}

/* A program of five instructions is one launch, whatever the shape of its class. */
TEST(programs) {
    cuda *g = the_gpu();
    cr_scope_begin();
    cr_program *p = cr_program_new("five", "x y", "", "tanh(exp(x * y + x) - y)");
    REQUIRE(p, "%s", cr_error());
    for (int64_t n = 7; n < 5000; n *= 7) {
        cr_tensor *x = cr_full(CR_LIST(n), 0.25, CR_F32, dev()), *y = cr_full(CR_LIST(n), 0.5, CR_F32, dev());
        const cuda_counters before = g->counters;
        cr_tensor *z = cr_program_apply(p, 2, (const cr_tensor *[]){x, y}, NULL);
        CHECK(g->counters.launches == before.launches + 1, "one program took %lld launches",
              (long long)(g->counters.launches - before.launches));
        CHECK(n == 7 || g->counters.modules == before.modules, "compiled again for %lld elements", (long long)n);
        CHECK(fabs(cr_item(cr_select(z, 0, n - 1)) - tanh(exp(0.375) - 0.5)) < 1e-6, "the last of %lld elements",
              (long long)n);
        test_ran_on(dev());
    }
    cr_program_free(p);
    cr_scope_end();
}

/* Rows that do not begin at a multiple of 16 bytes. */
TEST(unaligned) {
    float a[67], want[64];
    for (int i = 0; i < 67; i++) a[i] = (float)i;
    cr_scope_begin();
    cr_tensor *x = cr_from(a, CR_LIST(67), CR_F32, dev());
    for (int first = 0; first < 4; first++) {
        for (int i = 0; i < 63; i++) want[i] = 3 * a[first + i];
        same(cr_mul(cr_slice(x, 0, first, first + 63, 1), cr_scalar(3)), want, 63, "a line from the middle on");
    }
    cr_scope_end();
}

/* ---- memory */
TEST(pool) {
    cuda *g = the_gpu();
    if (g->unpooled) SKIP("CHAINRULE_GPU_POOL=off");
    cr_empty_cache(dev());
    cr_scope_begin();
    const cr_memory start = cr_memory_stats(dev());
    const int64_t segments = g->counters.segments;
    cr_tensor *t[6];
    for (int i = 0; i < 6; i++) t[i] = cr_empty(CR_LIST(500000), CR_F32, dev());       /* in one segment */
    CHECK(g->counters.segments == segments + 1, "6 blocks of 2 MB took %lld segments",
          (long long)(g->counters.segments - segments));
    CHECK(cr_memory_stats(dev()).current >= start.current + 12000000 &&
              cr_memory_stats(dev()).peak >= cr_memory_stats(dev()).current,
          "what tensors hold is counted");
    for (int i = 1; i < 5; i++) cr_release(t[i]);    /* four neighbours are merged */
    cr_tensor *large = cr_empty(CR_LIST(2000000), CR_F32, dev());
    CHECK(large && g->counters.segments == segments + 1, "a block as large as four that were freed");
    cr_release(large);
    for (int i = 0; i < 6; i += 5) cr_release(t[i]);
    CHECK(cr_memory_stats(dev()).current == start.current, "%lld bytes are still held",
          (long long)(cr_memory_stats(dev()).current - start.current));
    CHECK(cr_memory_stats(dev()).cached >= 12000000, "%lld bytes are cached", (long long)cr_memory_stats(dev()).cached);
    cr_empty_cache(dev());
    CHECK(g->counters.segments == segments, "an emptied cache keeps %lld segments",
          (long long)(g->counters.segments - segments));
    cr_scope_end();
    test_ran_on(dev());
}

/* Runs in a process of its own, by the test below: a kernel that writes 4 bytes beyond a tensor, where the next tensor
 * begins, or the driver's allocation ends. */
TEST(overrun_planted) {
    if (!getenv("TEST_OVERRUN")) SKIP("the test unpooled runs it");
    static const char text[] = "extern \"C\" __global__ void __launch_bounds__(256) beyond(struct fill_of_test q) { "
                               "((f32 *)q.p)[q.n] = 1; }\n";
    char whole[400];
    snprintf(whole, sizeof whole, "struct fill_of_test { u64 p; i64 n; };\n%s", text);
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(128), CR_F32, dev()), *after = cr_ones(CR_LIST(128), CR_F32, dev());
    cuda *g = cr_cuda_enter("test", dev());
    REQUIRE(g && x && after, "%s", cr_error());
    cuda_key k;
    k.n = 0, k.full = false;
    cr_cuda_key_add(&k, "beyond", 6);
    const cuda_kernel *kernel = cr_cuda_kernel_make(g, "test", &k, "beyond", whole, true);
    const struct { uint64_t p; int64_t n; } q = {cuda_address_of(&x->array), 128};
    OK(cr_cuda_leave(g, cr_cuda_launch(g, "test", kernel, &q, 1)));
    OK(cr_synchronize(dev()));
    cr_scope_end();
}

/* A true GPU notices no access within the pages of an allocation: that is for compute-sanitizer. */
TEST(unpooled) {
#ifdef CHAINRULE_CUDASIM
    void (*any)(void);
    if (!test_simulator("cudasim_count", &any)) SKIP("no simulator");
    const char *said = said_by("TEST_OVERRUN=1", "overrun_planted");
    CHECK(strstr(said, "1 passed"), "the pool hides what lies behind a tensor: said %s", said);
    said = said_by("TEST_OVERRUN=1 CHAINRULE_GPU_POOL=off", "overrun_planted");
#ifdef CUDASIM_SANITIZER
    CHECK(strstr(said, "1 failed") || strstr(said, "AddressSanitizer"), "said %s", said);
#else
    CHECK(strstr(said, "cuda:0 is lost: CUDA_ERROR_ILLEGAL_ADDRESS"), "said %s", said);
#endif
    CHECK(strstr(said_by("CHAINRULE_GPU_POOL=off", "allocations"), "1 passed"), "%s",
          said_by("CHAINRULE_GPU_POOL=off", "allocations"));
    said = said_by("CHAINRULE_GPU_POOL=of", "round_trip");
    CHECK(strstr(said, "CHAINRULE_GPU_POOL is on or off, not 'of'"), "said %s", said);
    cr_empty_cache(dev());                          /* opens it */
    FAILS(CR_BAD_VALUE, "CHAINRULE_GPU_POOL is set too late: cuda:0 is in use", cr_switch_set("GPU_POOL", "off"));
    test_ran_on(dev());
#else
    SKIP("no simulator");
#endif
}

/* CHAINRULE_GPU_POOL=off: each tensor is an allocation of its own bytes, and goes back when it is released. */
TEST(allocations) {
    const cudasim_counters *(*count)(void);
    const char *pool = cr_config("GPU_POOL");
    if (!pool || strcmp(pool, "off")) SKIP("the test unpooled runs it");
    if (!test_simulator("cudasim_count", &count)) SKIP("no simulator");
    cr_scope_begin();
    float back[3] = {0}, values[3] = {1, 2, 3};
    cr_release(cr_from(values, CR_LIST(3), CR_F32, dev()));        /* opens the GPU, and stages a copy */
    const long long before = count()->allocations;
    const cr_memory start = cr_memory_stats(dev());
    cr_tensor *x = cr_from(values, CR_LIST(3), CR_F32, dev()), *none = cr_empty(CR_LIST(0), CR_F32, dev()),
              *y = cr_add(x, x);
    const cr_memory held = cr_memory_stats(dev());
    CHECK(count()->allocations - before == 3, "3 tensors are %lld allocations", count()->allocations - before);
    CHECK(held.current - start.current == 12 + 1 + 12 && !held.cached, "%lld bytes are held, %lld cached",
          (long long)(held.current - start.current), (long long)held.cached);
    OK(cr_read(y, CR_F32, back, sizeof back));
    CHECK(back[0] == 2 && back[2] == 6, "x + x is %g, %g", (double)back[0], (double)back[2]);
    cr_release(none);
    cr_release(x);
    cr_release(y);
    CHECK(cr_memory_stats(dev()).current == start.current, "%lld bytes are still held",
          (long long)(cr_memory_stats(dev()).current - start.current));
    const int64_t budget = the_gpu()->budget;
    the_gpu()->budget = the_gpu()->reserved + (1 << 20);
    FAILS(CR_NO_MEMORY, "cuda:0 is out of memory: asked for 1.9 MiB", cr_empty(CR_LIST(500000), CR_F32, dev()));
    the_gpu()->budget = budget;
    CHECK(cr_empty(CR_LIST(500000), CR_F32, dev()), "%s", cr_error());
    cr_scope_end();
    test_ran_on(dev());
}

TEST(out_of_memory) {
    cuda *g = the_gpu();
    cr_empty_cache(dev());                          /* opens it */
    const int64_t before = g->budget;
    cr_scope_begin();
    g->budget = g->reserved + (24 << 20);
    cr_release(cr_empty(CR_LIST(5000000), CR_F32, dev()));
    cr_tensor *x = cr_empty(CR_LIST(1000), CR_I32, dev()), *y = cr_empty(CR_LIST(5500000), CR_F32, dev());
    CHECK(x && y, "what is cached makes way: %s", cr_error());
    FAILS(CR_NO_MEMORY, "cuda:0 is out of memory: asked for 7.6 MiB", cr_empty(CR_LIST(2000000), CR_F32, dev()));
    FAILS(CR_NO_MEMORY, "21.0 MiB", cr_empty(CR_LIST(2000000), CR_F32, dev()));
    FAILS(CR_NO_MEMORY, "out of memory", cr_empty(CR_LIST(1LL << 40), CR_F32, dev()));
    g->budget = before;
    CHECK(cr_empty(CR_LIST(2000000), CR_F32, dev()) != NULL, "%s", cr_error());
    cr_scope_end();
    test_ran_on(dev());
}

/* ---- the cache of compiled kernels */
static cr_status compile_test(const char *name, const char *text) {
    cuda_key k;
    k.n = 0, k.full = false;
    cr_cuda_key_add(&k, name, strlen(name));
    cuda *g = cr_cuda_enter("test", dev());
    return g ? cr_cuda_leave(g, cr_cuda_kernel_make(g, "test", &k, name, text, true) ? CR_OK : cr_error_status())
             : cr_error_status();
}

/* As in a new process: no module is known. */
static void forget_modules(cuda *g) {
    for (cuda_loaded *m; (m = g->modules); free(m)) g->modules = m->next;
}

/* Changes one byte of the only file in the folder. */
static bool damage(const char *folder, long at) {
    char path[1200] = "";
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)); )
        if (strstr(e->d_name, ".cubin")) snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (d) closedir(d);
    FILE *f = *path ? fopen(path, "r+b") : NULL;
    if (!f) return false;
    const bool read = !fseek(f, at, SEEK_SET);
    const int byte = fgetc(f);
    return read && !fseek(f, at, SEEK_SET) && fputc(byte ^ 1, f) >= 0 && !fclose(f);
}

TEST(cache_of_kernels) {
    static const char text[] = "extern \"C\" __global__ void __launch_bounds__(256) nothing(i64 *p) { *p = 1; }\n";
    const char *before = cr_config("CACHE");
    char kept[600];
    const char *folder = folder_path("kernels");
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    cuda *g = the_gpu();
    OK(cr_switch_set("CACHE", folder));
    const int64_t compiled = g->counters.compiled;
    OK(compile_test("nothing", text));
    CHECK(g->counters.compiled == compiled + 1, "compiled %lld times", (long long)(g->counters.compiled - compiled));
    OK(compile_test("nothing", text));
    forget_modules(g);
    OK(compile_test("nothing", text));
    CHECK(g->counters.compiled == compiled + 1, "compiled again");
    CHECK(damage(folder, 200), "no file to damage");
    forget_modules(g);
    OK(compile_test("nothing", text));
    CHECK(g->counters.compiled == compiled + 2, "a corrupt file was not compiled again");
    forget_modules(g);
    OK(compile_test("nothing", text));
    CHECK(g->counters.compiled == compiled + 2, "the file was not mended");
    OK(cr_switch_set("CACHE", "off"));
    forget_modules(g);
    OK(compile_test("nothing", text));
    CHECK(g->counters.compiled == compiled + 3, "a cache that is off");
    OK(cr_switch_set("CACHE", *kept ? kept : NULL));
    cr_os_remove_folder(folder);
    test_ran_on(dev());
}

TEST(a_kernel_that_does_not_compile) {
    FAILS(CR_RUNTIME, "[test] cuda:0: a kernel does not compile",
          compile_test("broken", "extern \"C\" __global__ void broken(i64 *p) { *p = ; }\n"));
    FAILS(CR_RUNTIME, "absent", compile_test("absent", "extern \"C\" __global__ void present(i64 *p) { *p = 1; }\n"));
    test_ran_on(dev());
}

/* ---- errors */

/* ---- operands on two devices: an error that names both, or, with auto transfer, work on the first operand's device */
typedef cr_tensor *(*of_two)(const cr_tensor *x, const cr_tensor *y);
static cr_tensor *add(const cr_tensor *x, const cr_tensor *y) { return cr_add(x, y); }
static cr_tensor *add_here(const cr_tensor *x, const cr_tensor *y) { return cr_add_(cr_clone(x), y); }
static cr_tensor *product(const cr_tensor *x, const cr_tensor *y) { return cr_matmul(x, y); }
static cr_tensor *linear(const cr_tensor *x, const cr_tensor *y) {
    return cr_linear(x, x, cr_select(y, 0, 0));
}
static cr_tensor *joined(const cr_tensor *x, const cr_tensor *y) { return cr_cat(2, (const cr_tensor *[]){x, y}, 0); }
static cr_tensor *chosen(const cr_tensor *x, const cr_tensor *y) { return cr_where(cr_gt(x, cr_scalar(2)), x, y); }
static cr_tensor *masked(const cr_tensor *x, const cr_tensor *y) {
    return cr_masked_fill(x, cr_gt(y, cr_scalar(2)), 7);
}
static cr_tensor *normed(const cr_tensor *x, const cr_tensor *y) {
    return cr_layer_norm(x, cr_select(y, 0, 1), CR_NONE, 1e-5);
}
static cr_tensor *index_of(const cr_tensor *y) { return cr_to(cr_remainder(y, cr_scalar(3)), CR_I64, cr_device_of(y)); }
static cr_tensor *gathered(const cr_tensor *x, const cr_tensor *y) { return cr_gather(x, 0, index_of(y)); }
static cr_tensor *embedded(const cr_tensor *x, const cr_tensor *y) { return cr_embedding(x, index_of(y)); }
static cr_tensor *put(const cr_tensor *x, const cr_tensor *y) {
    return cr_index_put(x, 1, (const cr_tensor *[]){cr_select(index_of(x), 0, 0)}, y, true);
}
static cr_tensor *added_rows(const cr_tensor *x, const cr_tensor *y) {
    return cr_index_add(x, 0, cr_select(index_of(y), 0, 0), x);
}
static cr_tensor *classes(const cr_tensor *x, const cr_tensor *y) {
    return cr_cross_entropy(x, cr_select(index_of(y), 0, 2), NULL);
}
static cr_tensor *contracted(const cr_tensor *x, const cr_tensor *y) {
    return cr_einsum("ij,kj->ik", 2, (const cr_tensor *[]){x, y});
}
static cr_tensor *attended(const cr_tensor *x, const cr_tensor *y) {
    const cr_tensor *q = cr_reshape(x, CR_LIST(1, 1, 3, 3)), *k = cr_reshape(y, CR_LIST(1, 1, 3, 3));
    return cr_attention(q, q, k, NULL);
}

TEST(mixed_devices) {
    static const struct { const char *name; of_two f;
    } ops[] = {{"add", add},
               {"add_", add_here},
               {"matmul", product},
               {"linear", linear},
               {"cat", joined},
               {"where", chosen},
               {"masked_fill", masked},
               {"layer_norm", normed},
               {"gather", gathered},
               {"embedding", embedded},
               {"index_put", put},
               {"index_add", added_rows},
               {"cross_entropy", classes},
               {"einsum", contracted},
               {"attention", attended}};
    const float numbers[9] = {3, 1, 4, 1, 5, 9, 2, 6, 5};
    const cr_device *devices[3] = {cr_cpu(), dev(), cr_cuda_count() > 1 ? cr_cuda(1) : NULL};
    for (int pair = 0; pair < 9; pair++) {
        const cr_device *one = devices[pair / 3], *two = devices[pair % 3];
        char both[100];
        if (one == two || !one || !two) continue;
        snprintf(both, sizeof both, "operands on two devices, %s and %s: ", cr_device_name(one), cr_device_name(two));
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
            cr_scope_begin();
            cr_tensor *x = cr_from(numbers, CR_LIST(3, 3), CR_F32, one),
                      *y = cr_from(numbers, CR_LIST(3, 3), CR_F32, two);
            FAILS(CR_BAD_VALUE, both, ops[i].f(x, y));
            cr_auto_transfer(true);
            cr_tensor *moved = ops[i].f(x, y), *right = ops[i].f(x, x);
            cr_auto_transfer(false);
            CHECK(moved && right && cr_device_of(moved) == one && cr_device_of(y) == two &&
                      cr_item(cr_all(cr_eq(moved, right), CR_ALL, false)) == 1,
                  "%s of %s and %s: %s", ops[i].name, cr_device_name(one), cr_device_name(two),
                  cr_error() ? cr_error() : "wrong");
            cr_error_clear();
            cr_scope_end();
            test_ran_on(two);
        }
    }
    cr_scope_begin();
    cr_tensor *leaf = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, dev()), true),
              *seed = cr_ones(CR_LIST(3), CR_F32, cr_cpu());
    FAILS(CR_BAD_VALUE, "[backward] `gradient` is float32 (3,) on cpu, the result float32 (3,) on cuda:0",
          cr_backward(cr_square(leaf), seed, NULL));
    FAILS(CR_BAD_VALUE, "on cpu", cr_set_grad(leaf, seed));
    CHECK(cr_item(cr_sum(cr_copy_(cr_detach(leaf), cr_add(seed, seed)), CR_ALL, false)) == 6,
          "copy_ moves by its name: %s", cr_error());
    cr_scope_end();
}

/* The next read reports the fault of a kernel, once: the first position and the value there. */
TEST(late_errors) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(5, 3), CR_F32, dev()),
              *bad = cr_from((int64_t[]){1, -(1LL << 61), 7}, CR_LIST(3), CR_I64, dev());
    cr_tensor *y = cr_embedding(x, bad);
    CHECK(y && !cr_error(), "found at once");
    FAILS(CR_BAD_INDEX, "[embedding] index -2305843009213693952 at position 1 is out of range for size 5",
          cr_item(cr_sum(x, CR_ALL, false)));
    CHECK(cr_item(cr_sum(x, CR_ALL, false)) == 15, "said twice: %s", cr_error());
    /* more than the ring of faults holds */
    for (int i = 0; i < 2 * CUDA_FAULTS; i++) cr_release(cr_embedding(x, cr_zeros(CR_LIST(2), CR_I64, dev())));
    OK(cr_synchronize(dev()));
    cr_scope_end();
    test_ran_on(dev());
}

/* A kernel fails, and the next call of the driver allocates memory: the error is not "out of memory". */
TEST(lost_while_growing) {
    int (*fail)(const char *what, int k);
    if (!test_simulator("cudasim_fail", &fail)) SKIP("no simulator");
    if (getenv("LOST_WHILE_GROWING")) {             /* in a separate process, which loses its GPU */
        cr_tensor *x = cr_ones(CR_LIST(3), CR_F32, dev());
        fail("fault", 1);
        cr_release(cr_add(x, x));
        cr_cu.StreamSynchronize(the_gpu()->stream);
        CHECK(!cr_empty(CR_LIST(64 << 20), CR_U8, dev()), "memory of a GPU that is lost");
        printf("  said %s\n", cr_error());
        cr_release(x);
        return;
    }
    const char *said = said_by("LOST_WHILE_GROWING=1", "lost_while_growing");
    CHECK(strstr(said, "said [allocate] cuda:0 is lost: CUDA_ERROR_LAUNCH_FAILED"), "%s", said);
    test_ran_on(dev());
}

static void close_staging(cuda *g) {
    cr_synchronize(dev());
    cr_cu.MemFreeHost(g->staging.data);
    g->staging.data = NULL;
    g->staging.filled = 0;
    memset(g->staging.in_flight, 0, sizeof g->staging.in_flight);
}

/* ---- kernels and copies in two streams: in order, whichever stream is late; each of the waits is necessary */
static const cudasim_counters *(*count)(void);
static int (*fail_at)(const char *what, int k);
static void (*eager)(int streams);
static bool find_simulator(void) {
    return test_simulator("cudasim_count", &count) && test_simulator("cudasim_fail", &fail_at) &&
           test_simulator("cudasim_eager", &eager);
}

enum { LINE = 1000 };
static cr_tensor *line_of(float v) {
    float numbers[LINE];
    for (int i = 0; i < LINE; i++) numbers[i] = v + (float)i;
    return cr_from(numbers, CR_LIST(LINE), CR_F32, dev());
}
static bool is_line(const cr_tensor *t, float first, float step) {
    float got[LINE] = {0};
    if (!t || cr_read(t, CR_F32, got, sizeof got) != CR_OK) return false;
    for (int i = 0; i < LINE; i++) if (got[i] != first + step * (float)i) return false;
    return true;
}

/* Copies write memory that kernels still use, and kernels write memory that copies may still use. */
static bool pass_by(float v) {
    cr_scope_begin();
    cr_tensor *x = line_of(v), *y = cr_mul(x, cr_scalar(2));
    const void *place = x->storage->data;
    cr_release(x);
    cr_tensor *z = line_of(v + 1), *w = cr_add(z, cr_scalar(1));            /* in the memory of x, which `mul` reads */
    bool right = z->storage->data == place && is_line(w, v + 2, 1) && is_line(y, 2 * v, 2);
    cr_release(w);
    cr_release(line_of(v + 3));                                             /* in the memory of w; no kernel reads it */
    cr_tensor *u = cr_add(y, cr_scalar(1));
    right &= is_line(u, 2 * v + 1, 2) && is_line(z, v + 1, 1);
    cr_scope_end();
    return right;
}

TEST(order_of_streams) {
    if (!find_simulator()) SKIP("no simulator");
    static const char *const names[] = {"both are late", "kernels run at once", "copies run at once"};
    float v = 1;
    CHECK(pass_by(v), "%s", cr_error());            /* compiles */
    const long long before = count()->waits;
    for (int streams = 0; streams < 3; streams++) {
        eager(streams);
        CHECK(pass_by(v += 10), "%s: wrong numbers: %s", names[streams], cr_error() ? cr_error() : "");
    }
    const int waits = (int)(count()->waits - before) / 3;
    CHECK(waits >= 4, "%d waits", waits);
    for (int k = 1; k <= waits; k++) {
        int wrong = 0;
        for (int streams = 0; streams < 3; streams++) {
            eager(streams);
            fail_at("wait", k);
            wrong += !pass_by(v += 10);
            fail_at("wait", 0);
            cr_error_clear();
        }
        CHECK(wrong, "without wait %d of %d all is right: it is not needed, or not tested", k, waits);
        test_ran_on(dev());
    }
    eager(0);
    printf("  %d waits, each of which is needed\n", waits);
}

/* The pinned sections: none is filled again, or emptied, before its copy has ended. */
TEST(order_of_sections) {
    if (!find_simulator()) SKIP("no simulator");
    const size_t n = (CUDA_SECTIONS + 1) * (size_t)CUDA_SECTION_BYTES;
    unsigned char *bytes = malloc(n), *back = malloc(n);
    REQUIRE(bytes && back, "out of memory");
    for (int forgotten = 0; forgotten < 3; forgotten++) {           /* nothing; while sending; while reading */
        for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)((i + (size_t)forgotten) * 2654435761u >> 24);
        close_staging(the_gpu());                   /* none is in flight */
        cr_scope_begin();
        if (forgotten == 1) fail_at("join", 1);
        cr_tensor *x = cr_from(bytes, CR_LIST((int64_t)n), CR_U8, dev());
        close_staging(the_gpu());
        if (forgotten == 2) fail_at("join", 1);
        OK(cr_read(x, CR_U8, back, n));
        fail_at("join", 0);
        CHECK(!memcmp(bytes, back, n) == !forgotten, "%s",
              forgotten ? "a wait of the host is forgotten, and nothing is wrong" : "wrong bytes");
        cr_scope_end();
        test_ran_on(dev());
    }
    free(bytes);
    free(back);
}

/* A read waits for the kernel that wrote, and for the kernels of its epoch, but not for later kernels;
 * kernels that use numbers copied meanwhile wait for these. */
TEST(waits_end_early) {
    if (!find_simulator()) SKIP("no simulator");
    cr_scope_begin();
    cr_tensor *y = cr_add(line_of(1), cr_scalar(1)), *z = cr_mul(y, cr_scalar(3));
    OK(cr_synchronize(dev()));
    const cudasim_counters before = *count();
    cr_tensor *loss = cr_add(y, cr_scalar(4));
    for (int i = 0; i < 100; i++) z = cr_add(z, y);
    CHECK(is_line(loss, 6, 1), "%s", cr_error());
    const long long run = count()->launches_run - before.launches_run;
    CHECK(run > 0 && run <= CUDA_EPOCH_LAUNCHES, "a reading of the first of 101 results waits for %lld kernels", run);
    OK(cr_synchronize(dev()));
    CHECK(count()->launches_run - before.launches_run == 101, "%lld kernels have run",
          count()->launches_run - before.launches_run);

    eager(1 << CUDA_KERNELS);
    cr_tensor *next = line_of(7);
    const long long copies = count()->copies_run;
    z = cr_add(z, y);
    CHECK(count()->copies_run == copies, "a kernel waits for numbers that are not its own");
    y = cr_add(next, y);
    CHECK(count()->copies_run > copies, "a kernel does not wait for its numbers");
    eager(0);
    cr_scope_end();
    test_ran_on(dev());
}

/* ---- several at once */
TEST(two_devices) {
    const cr_device *other = cr_cuda_count() > 1 ? cr_cuda(1) : NULL;
    if (!other) SKIP("one device");
    const float six[3] = {6, 6, 6};
    cr_scope_begin();
    cr_tensor *x = cr_full(CR_LIST(3), 2, CR_F32, dev()), *y = cr_full(CR_LIST(3), 3, CR_F32, other);
    same(cr_mul(cr_to(x, CR_F32, other), y), six, 3, "from the first to the second");
    same(cr_mul(x, cr_to(y, CR_F32, dev())), six, 3, "and back");
    CHECK(cr_device_at(2) == dev() && cr_device_at(3) == other && cr_gpu(1) == other, "their places among all devices");
    cr_scope_end();
}

static void work_alone(void *result) {
    cr_scope_begin();
    cr_tensor *x = cr_ones(CR_LIST(100), CR_F32, dev());
    for (int i = 0; i < 200; i++) x = cr_add(x, cr_ones(CR_LIST(100), CR_F32, dev()));
    *(double *)result = cr_item(cr_sum(x, CR_ALL, false));
    cr_scope_end();
}

TEST(threads) {
    double sums[4] = {0};
    cr_thread *t[4];
    for (int i = 0; i < 4; i++) t[i] = cr_thread_start(work_alone, &sums[i]);
    for (int i = 0; i < 4; i++) {
        cr_thread_join(t[i]);
        CHECK(sums[i] == 20100, "thread %d has %g", i, sums[i]);
        test_ran_on(dev());
    }
}

/* ---- every request of a training step fails once: it returns an error, leaks nothing, and a smaller step works */
/* Memory of a tensor is refused as a full GPU refuses it: there is no more, and the cache has none. */
static int allocations_left;
static cr_storage *allocate_or_fail(const cr_device *d, size_t bytes) {
    cuda *g = the_gpu();
    const int64_t before = g->budget;
    if (--allocations_left == 0) g->budget = g->now;
    cr_storage *s = cr_cuda_allocate(d, bytes);
    g->budget = before;
    return s;
}

/* One step of a new GPT on `batch` rows of tokens; with fail, the k-th request of this kind fails. */
static double train_step(int64_t batch, int (*fail)(const char *what, int k), const char *kind, int k) {
    enum { T = 3, V = 7 };
    const int64_t tokens[] = {1, 6, 0, 3, 3, 5}, next[] = {6, 0, 2, 3, 5, 4};
    cuda *g = the_gpu();
    double loss_and_norm = NAN, norm = 0;
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){V, T, 1, 2, 4, 0.1}, CR_F32, dev(), random);
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    cr_optim *optim = m ? cr_optim_new(cr_gpt_params(m), &o) : NULL;
    if (!optim) return NAN;
    if (fail) {
        cr_empty_cache(dev());
        if (!strcmp(kind, "tensor")) allocations_left = k, g->dev.allocate = allocate_or_fail;
        else if (!strcmp(kind, "memory")) g->budget = g->now + 512 * (k - 1);  /* bytes: the least that a block takes */
        else fail(kind, k);
        if (!strcmp(kind, "host")) close_staging(g);
    }
    cr_scope_begin();
    cr_tensor *loss = cr_gpt_loss(m, cr_from(tokens, CR_LIST(batch, T), CR_I64, dev()),
                                  cr_from(next, CR_LIST(batch, T), CR_I64, dev()), true);
    if (loss && cr_backward(loss, CR_NONE, NULL) == CR_OK && cr_optim_step_clipped(optim, 1, &norm) == CR_OK)
        loss_and_norm = cr_item(loss) + norm;
    cr_scope_end();
    if (fail) {
        g->dev.allocate = cr_cuda_allocate;
        g->budget = INT64_MAX;
        for (int i = 0; i < 4; i++) fail(((const char *[]){"alloc", "host", "copy", "launch"})[i], 0);
    }
    cr_optim_free(optim);
    cr_gpt_free(m);
    cr_generator_free(random);
    return loss_and_norm;
}

TEST(each_failure) {
    int (*fail)(const char *what, int k);
    if (!test_simulator("cudasim_fail", &fail)) SKIP("no simulator");
    const double right = train_step(2, NULL, NULL, 0), smaller = train_step(1, NULL, NULL, 0);
    CHECK(right > 0 && smaller > 0 && right != smaller, "losses and norms of the gradients are %g and %g", right,
          smaller);
    OK(cr_synchronize(dev()));
    cr_empty_cache(dev());
    const int64_t held = cr_memory_stats(dev()).current, cached = cr_memory_stats(dev()).cached;
    static const struct { const char *kind, *cause, *of_product; } kinds[] = {
        {"tensor", "cuda:0 is out of memory: asked for ", NULL},
        {"memory", "cuda:0 is out of memory: asked for ", NULL},
        {"host", "cuda:0: no pinned memory: CUDA_ERROR_OUT_OF_MEMORY", NULL},
        {"copy", "CUDA_ERROR_UNKNOWN", NULL},
        {"launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "cuBLASLt fails"},
        {"alloc", NULL, NULL}};                     /* cached memory is freed, and the step succeeds */
    const int each = test_full() ? 1 : 3;           /* minutes with all of them */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int failures = 0;
        bool failed = true;
        for (int k = 1; failed && k < 500; k += each) {
            const double y = train_step(2, fail, kinds[i].kind, k);
            failed = kinds[i].cause ? cr_error() != NULL : k < 4;
            if (kinds[i].cause && failed)
                CHECK(strstr(cr_error(), kinds[i].cause) ||
                          (kinds[i].of_product && strstr(cr_error(), kinds[i].of_product)),
                      "%s %d: said %s", kinds[i].kind, k, cr_error());
            else
                CHECK(y == right, "%s %d: %s, loss and norm %g, wanted %g", kinds[i].kind, k,
                      cr_error() ? cr_error() : "no error", y, right);
            failures += failed;
            cr_error_clear();
            cr_empty_cache(dev());
            const cr_memory left = cr_memory_stats(dev());
            CHECK(left.current == held && left.cached == cached,
                  "after %s %d %lld bytes are left behind, %lld in pieces", kinds[i].kind, k,
                  (long long)(left.current - held), (long long)(left.cached - cached));
            const double again = train_step(1, NULL, NULL, 0);
            CHECK(again == smaller, "the step after %s %d: %s, loss and norm %g, wanted %g", kinds[i].kind, k,
                  cr_error() ? cr_error() : "no error", again, smaller);
            cr_error_clear();
            test_ran_on(dev());
        }
        CHECK(failures, "%s: nothing failed", kinds[i].kind);
        printf("  %s: %d\n", kinds[i].kind, failures);
    }
}

/* ---- moments in the host's memory: the same bits, less of the GPU's memory, and a step waits for nothing */
typedef struct offloaded {
    double loss[5];
    float weights[40 * 7], moments[40 * 7];
    int64_t device_bytes, waits;
} offloaded;
static void train_offloaded(const cr_device *d, bool offload, offloaded *r) {
    cr_generator *random = cr_generator_new(test_seed());
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.offload = offload;
    cr_params *p = cr_params_new();
    cr_scope_begin();
    cr_tensor *w = cr_requires_grad_(cr_to(cr_randn(CR_LIST(40, 7), CR_F32, cr_cpu(), random), CR_F32, d), true);
    cr_tensor *x = cr_to(cr_randn(CR_LIST(9, 7), CR_F32, cr_cpu(), random), CR_F32, d),
              *target = cr_to(cr_arange(0, 9, 1, CR_I64, cr_cpu()), CR_I64, d);
    OK(cr_params_add(p, "w", w));
    cr_optim *optim = cr_optim_new(p, &o);
    for (int k = 0; k < 5; k++) {
        const int64_t bytes = cr_memory_stats(d).current;
        cr_scope_begin();
        cr_params_zero_grad(p);
        cr_tensor *loss = cr_cross_entropy(cr_matmul(x, cr_transpose(w, 0, 1)), target, NULL);
        OK(cr_backward(loss, CR_NONE, NULL));
        r->loss[k] = cr_item(loss);                 /* before the update, which has not run when the moments are read */
        const int64_t waits = the_gpu()->counters.waits + the_gpu()->counters.downloads;
        OK(cr_optim_step(optim));
        r->waits += the_gpu()->counters.waits + the_gpu()->counters.downloads - waits;
        cr_scope_end();
        cr_params_zero_grad(p);
        /* the memory that the first step keeps: moments */
        if (!k) r->device_bytes = cr_memory_stats(d).current - bytes;
    }
    cr_params *state = cr_optim_state(optim);
    OK(cr_read(cr_params_get(state, "w.v"), CR_F32, r->moments, sizeof r->moments));       /* first: it must wait */
    OK(cr_read(w, CR_F32, r->weights, sizeof r->weights));
    OK(cr_optim_load(optim, state, 5));
    cr_tensor *line = cr_from(r->weights, CR_LIST(40, 7), CR_F32, d), *v = cr_zeros_offloaded(w, CR_F32);
    cr_params *again = cr_optim_state(optim);
    CHECK(cr_item(cr_all(cr_eq(cr_params_get(again, "w.v"), cr_params_get(state, "w.v")), CR_ALL, false)) == 1 &&
              cr_item(cr_all(cr_eq(cr_copy_(v, line), w), CR_ALL, false)) == 1,
          "%s", cr_error());
    cr_scope_end();
    cr_params_free(again);
    cr_params_free(state);
    cr_optim_free(optim);
    cr_params_free(p);
    cr_generator_free(random);
}

TEST(offload) {
    offloaded here = {0}, there = {0}, cpu = {0}, cpu_with = {0};
    train_offloaded(dev(), false, &here);           /* allocates the workspace of cuBLASLt */
    const int64_t before = cr_memory_stats(dev()).current;
    train_offloaded(dev(), true, &there);
    CHECK(!memcmp(here.loss, there.loss, sizeof here.loss) &&
              !memcmp(here.weights, there.weights, sizeof here.weights) &&
              !memcmp(here.moments, there.moments, sizeof here.moments),
          "other bits: loss %.9g and %.9g", here.loss[4], there.loss[4]);
    CHECK(here.loss[4] < here.loss[0] && here.moments[3] > 0, "nothing is learnt");
    CHECK(here.device_bytes - there.device_bytes >= 2 * 4 * 40 * 7,
          "the moments take %lld bytes of the GPU, offloaded %lld", (long long)here.device_bytes,
          (long long)there.device_bytes);
    CHECK(!there.waits, "steps wait %lld times", (long long)there.waits);
    CHECK(cr_memory_stats(dev()).current == before, "%lld bytes are left behind",
          (long long)(cr_memory_stats(dev()).current - before));
    int (*fail)(const char *what, int k);
    cr_scope_begin();
    cr_tensor *w = cr_ones(CR_LIST(3), CR_F32, dev());
    the_gpu()->dev.allocate_host = NULL;
    FAILS(CR_BAD_VALUE, "[zeros_offloaded] kernels of cuda:0 do not reach the host's memory",
          cr_zeros_offloaded(w, CR_F32));
    the_gpu()->dev.allocate_host = cr_cuda_allocate_host;
    if (test_simulator("cudasim_fail", &fail)) {
        fail("host", 1);
        FAILS(CR_NO_MEMORY, "cuda:0: no pinned memory: CUDA_ERROR_OUT_OF_MEMORY", cr_zeros_offloaded(w, CR_F32));
        fail("host", 0);
    }
    FAILS(CR_BAD_VALUE, "[zeros_offloaded]", cr_zeros_offloaded(NULL, CR_F32));
    cr_scope_end();
    train_offloaded(cr_cpu(), false, &cpu);
    train_offloaded(cr_cpu(), true, &cpu_with);
    CHECK(!memcmp(cpu.weights, cpu_with.weights, sizeof cpu.weights) &&
              !memcmp(cpu.loss, cpu_with.loss, sizeof cpu.loss),
          "it has an effect on the cpu");
    test_ran_on(dev());
}

/* ---- the whole is a training step: the model learns the same on the cpu.  Only the read of the loss
 * waits; after the second step nothing is compiled and the driver allocates no memory. */
typedef struct run { double loss[50], norm; int64_t most_waits, loaded, segments; } run;

static void learn(const cr_device *d, int steps, run *r) {
    enum { B = 2, T = 16, V = 41 };
    int64_t tokens[B * T], next[B * T];
    cuda *g = the_gpu();
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){V, T, 2, 2, 32, 0.1}, CR_F32, d, random);
    REQUIRE(m, "%s", cr_error());
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 3e-3;
    cr_optim *optim = cr_optim_new(cr_gpt_params(m), &o);
    for (int i = 0; i < B * T; i++) tokens[i] = (i * i + i / 7) % V, next[i] = ((i + 1) * (i + 1) + (i + 1) / 7) % V;
    for (int k = 0; k < steps; k++) {
        cr_scope_begin();
        cr_tensor *x = cr_from(tokens, CR_LIST(B, T), CR_I64, d), *y = cr_from(next, CR_LIST(B, T), CR_I64, d);
        const cuda_counters before = g->counters;
        cr_tensor *loss = cr_gpt_loss(m, x, y, true);
        OK(cr_backward(loss, CR_NONE, NULL));
        if (!k) OK(cr_params_clip_grad_norm(cr_gpt_params(m), 1e9, &r->norm));
        OK(cr_optim_step(optim));
        const int64_t waits = g->counters.waits - before.waits + g->counters.downloads - before.downloads;
        if (k && waits > r->most_waits) r->most_waits = waits;
        if (k > 1)
            r->loaded += g->counters.modules - before.modules, r->segments += g->counters.segments - before.segments;
        r->loss[k] = cr_item(loss);
        cr_scope_end();
    }
    cr_optim_free(optim);
    cr_gpt_free(m);
    cr_generator_free(random);
}

TEST(gpt) {
    const int steps = test_full() ? 50 : 10;
    run here = {0}, there = {0};
    learn(cr_cpu(), steps, &here);
    learn(dev(), steps, &there);
    for (int k = 0; k < steps; k++)
        CHECK(fabs(there.loss[k] - here.loss[k]) < 1e-4 * here.loss[k] * (1 + k), "step %d: loss %.7g, on the cpu %.7g",
              k, there.loss[k], here.loss[k]);
    CHECK(fabs(there.norm - here.norm) < 1e-4 * here.norm, "norm of the gradients %.7g, on the cpu %.7g", there.norm,
          here.norm);
    CHECK(there.loss[steps - 1] < there.loss[0], "it does not learn");
    CHECK(!there.most_waits, "a step waits %lld times", (long long)there.most_waits);
    CHECK(!there.loaded && !there.segments, "after the second step %lld kernels were loaded, %lld segments taken",
          (long long)there.loaded, (long long)there.segments);
    test_ran_on(dev());
}

/* Mixed precision, with the copies that the optimizer writes, follows f32 over 200 steps of changing data. */
static void learn_mixed(bool mixed, int steps, double *loss) {
    enum { B = 4, T = 16, V = 64 };
    const cr_device *d = dev();
    cr_generator *random = cr_generator_new(test_seed());
    cr_gpt *m = cr_gpt_new(&(cr_gpt_config){V, T, 1, 2, 32, 0}, CR_F32, d, random);
    REQUIRE(m, "%s", cr_error());
    cr_optim_options o = cr_optim_defaults(CR_ADAMW);
    o.lr = 3e-3;
    cr_optim *optim = cr_optim_new(cr_gpt_params(m), &o);
    cr_scope_begin();
    if (mixed) wide_copies(cr_gpt_params(m), optim, CR_BF16);
    for (int k = 0; k < steps; k++) {
        int64_t tokens[B * (T + 1)];
        for (int i = 0; i < B * (T + 1); i++) tokens[i] = ((i + 11 * k) * (i + 11 * k) / 3 + i / 7) % V;
        cr_scope_begin();
        cr_tensor *all = cr_from(tokens, CR_LIST(B, T + 1), CR_I64, d), *x = cr_contiguous(cr_slice(all, 1, 0, T, 1)),
                  *y = cr_contiguous(cr_slice(all, 1, 1, T + 1, 1));
        cr_params_zero_grad(cr_gpt_params(m));
        if (mixed) OK(cr_autocast_begin(d, CR_BF16, true));
        cr_tensor *found = cr_gpt_loss(m, x, y, true);
        if (mixed) OK(cr_autocast_end());
        OK(cr_backward(found, CR_NONE, NULL));
        OK(cr_optim_step(optim));
        loss[k] = cr_item(found);
        cr_scope_end();
    }
    if (mixed) wide_copies(cr_gpt_params(m), NULL, CR_BF16);
    cr_scope_end();
    cr_optim_free(optim);
    cr_gpt_free(m);
    cr_generator_free(random);
}

TEST(mixed_follows_f32) {
    static double f32[200], mixed[200];
    const int steps = test_full() ? 200 : 40;
    double most = 0;
    learn_mixed(false, steps, f32);
    learn_mixed(true, steps, mixed);
    for (int k = 0; k < steps; k++) most = fmax(most, fabs(mixed[k] - f32[k]) / f32[k]);
    CHECK(most < 0.01 && f32[steps - 1] < 0.95 * f32[0], "losses %g to %g, mixed off by %.2g %%", f32[0],
          f32[steps - 1], 100 * most);
    printf("report %d mixed steps: losses %.3f to %.3f, off by %.2g %% of f32's at most\n", steps, f32[0],
           f32[steps - 1], 100 * most);
    test_ran_on(dev());
}

/* ---- shapes that are cut into parts, tiles and buckets: as on the cpu */
static cr_tensor *there_and_here(cr_tensor *(*f)(cr_tensor *x), const cr_tensor *x, cr_tensor **here) {
    *here = f(cr_to(x, cr_dtype_of(x), cr_cpu()));
    return cr_to(f(cr_to(x, cr_dtype_of(x), dev())), cr_dtype_of(*here), cr_cpu());
}

static cr_tensor *sum_all(cr_tensor *x) { return cr_sum(x, CR_ALL, false); }
static cr_tensor *sum_down(cr_tensor *x) { return cr_sum(x, CR_LIST(0), false); }
static cr_tensor *largest_down(cr_tensor *x) { return cr_max(x, CR_LIST(0), false); }
static cr_tensor *place_of_largest(cr_tensor *x) { return cr_argmax(cr_reshape(x, CR_LIST(-1)), 0, false); }
static cr_tensor *places_down(cr_tensor *x) { return cr_argmin(x, 0, false); }
static cr_tensor *spread(cr_tensor *x) { return cr_var(x, CR_LIST(0), 0, false); }
static cr_tensor *running(cr_tensor *x) { return cr_cumsum(cr_reshape(x, CR_LIST(-1)), 0); }
static cr_tensor *in_order(cr_tensor *x) { return cr_sort(cr_reshape(x, CR_LIST(-1)), 0, true, NULL); }
static cr_tensor *of_rows(cr_tensor *x) { return cr_softmax(x, -1); }
static cr_tensor *turned(cr_tensor *x) { return cr_contiguous(cr_transpose(x, 0, 1)); }
static cr_tensor *places_in(const cr_tensor *x, int64_t n) {         /* n numbers below 100, from the elements of x */
    return cr_to(
        cr_remainder(cr_mul(cr_slice(cr_reshape(x, CR_LIST(-1)), 0, 0, n, 1), cr_scalar(1000)), cr_scalar(100)), CR_I64,
        cr_device_of(x));
}
static cr_tensor *added_by_index(cr_tensor *x) {
    return cr_index_add(cr_zeros(CR_LIST(100, cr_shape(x)[1]), CR_F32, cr_device_of(x)), 0,
                        places_in(x, cr_shape(x)[0]), x);
}
static cr_tensor *norm_gradients(cr_tensor *x) {
    const int64_t n = cr_shape(x)[1];
    cr_tensor *w = cr_requires_grad_(cr_full(CR_LIST(n), 1.5, CR_F32, cr_device_of(x)), true),
              *b = cr_requires_grad_(cr_zeros(CR_LIST(n), CR_F32, cr_device_of(x)), true);
    cr_tensor *y = cr_layer_norm(x, w, b, 1e-5);
    OK(cr_backward(cr_sum(cr_square(y), CR_ALL, false), CR_NONE, NULL));
    return cr_add(cr_grad(w), cr_grad(b));
}

TEST(large) {
    static const struct { const char *name; cr_tensor *(*f)(cr_tensor *x); double relative;
    } cases[] = {{"sum of all", sum_all, 1e-5},
                 {"sums of columns", sum_down, 1e-5},
                 {"largest of columns", largest_down, 0},
                 {"place of the largest", place_of_largest, 0},
                 {"places in columns", places_down, 0},
                 {"variance of columns", spread, 1e-5},
                 {"running sum", running, 1e-6},
                 {"sorted", in_order, 0},
                 {"softmax", of_rows, 1e-5},
                 {"transposed", turned, 0},
                 {"added by index", added_by_index, 1e-5},
                 {"gradients of a norm", norm_gradients, 1e-4}};
    static const int64_t shapes[][2] = {{1, 70001}, {70001, 1}, {5003, 37}, {16641, 32}, {37, 5003}, {263, 257}};
    cr_generator *random = cr_generator_new(test_seed());
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            if (!test_sampled((int64_t)(s + k), 3)) continue;
            cr_scope_begin();
            cr_tensor *here,
                *there = there_and_here(cases[k].f,
                                        cr_rand(CR_LIST(shapes[s][0], shapes[s][1]), CR_F32, cr_cpu(), random), &here);
            cr_tensor *size = cr_max(cr_abs(here), CR_ALL, false),
                      *error = there ? cr_max(cr_abs(cr_sub(cr_to(there, CR_F64, cr_cpu()),
                                                            cr_to(here, CR_F64, cr_cpu()))),
                                              CR_ALL, false)
                                     : NULL;
            CHECK(error && cr_item(error) <= cases[k].relative * cr_item(size), "%s of %lld x %lld is off by %g: %s",
                  cases[k].name, (long long)shapes[s][0], (long long)shapes[s][1], error ? cr_item(error) : NAN,
                  cr_error() ? cr_error() : "");
            cr_error_clear();
            cr_scope_end();
            test_ran_on(dev());
        }
    cr_generator_free(random);
}
