/* test.h - the harness: TEST(name) { ... } registers a test, CHECK fails it with a message, SKIP says why
 * it could not run.  A program prints one line for each failed or skipped test and ends with the line that
 * tools/run_tests.py adds up:
 *
 *     result: 12 passed, 0 failed, 1 skipped; cpu 1200, ref 300
 *
 * A program runs on the devices that are always there, unless it defines one of these before it includes this file:
 *     CR_TEST_GPU             only on GPUs behind WebGPU, as far as they go
 *     CR_TEST_CUDA            only on a simulated NVIDIA GPU (tests/cudasim), with CHAINRULE_TEST_CUDA=1 on a true one
 *     CR_TEST_EVERY_DEVICE    on all of them
 *
 * Use: program [-v] [part of a test's name ...], or -l for their names.
 *     CHAINRULE_TEST_SEED     repeats a random run
 *     CHAINRULE_TEST_FULL     1: the whole; 2: also what takes a quarter of an hour, every float there is
 *     CHAINRULE_TEST_SHARD    k/n: one part of n of the tests that have many cases
 *     CHAINRULE_TEST_GPU=1    no GPU is a failure */
#ifndef CR_TEST_H
#define CR_TEST_H

#include <chainrule.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test { const char *name; void (*fn)(void); struct test *next; } test;
static test *test_first, **test_end = &test_first;
static int test_failures;                           /* of the test that runs */
static const char *test_skip_reason;
static struct { const char *name; long checks; } test_devices[8];

#define TEST(id)                                                                                   \
    static void test_##id(void);                                                                   \
    __attribute__((constructor)) static void test_add_##id(void) {                                 \
        static test t = {#id, test_##id, NULL};                                                    \
        *test_end = &t; test_end = &t.next;                                                        \
    }                                                                                              \
    static void test_##id(void)

static void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), unused));
static void test_fail(const char *file, int line, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (++test_failures <= 10) { printf("  %s:%d: ", file, line); vprintf(format, args); printf("\n"); }
    va_end(args);
    if (getenv("CHAINRULE_MUTANT")) _Exit(1);       /* tools/mutate.py needs to know no more */
}

/* CHECK(condition, "what and the values: %d", n): goes on after a failure. */
#define CHECK(x, ...) ((x) ? (void)0 : test_fail(__FILE__, __LINE__, __VA_ARGS__))
/* REQUIRE leaves the test. */
#define REQUIRE(x, ...) do { if (!(x)) { test_fail(__FILE__, __LINE__, __VA_ARGS__); return; } } while (0)
/* OK(call): the call must not fail; prints the library's message. */
#define OK(x) CHECK((x) == CR_OK, "%s: %s", #x, cr_error() ? cr_error() : "(no message)")
/* FAILS(kind, "part of the message", call): the call must fail so, and leave the gradient mode alone;
 * clears the error. */
#define FAILS(kind, text, x)                                                                       \
    do {                                                                                           \
        const bool mode_ = cr_grad_enabled();                                                      \
        cr_error_clear();                                                                          \
        (void)(x);                                                                                 \
        CHECK(cr_grad_enabled() == mode_, "%s: it left the gradient mode changed", #x);            \
        cr_set_grad_enabled(mode_);                                                                \
        CHECK(cr_error_status() == (kind), "%s: status %d, wanted %d", #x, (int)cr_error_status(), (int)(kind)); \
        CHECK(cr_error() && strstr(cr_error(), text), "%s: message '%s' lacks '%s'", #x, cr_error() ? cr_error() : \
            "", text); \
        cr_error_clear();                                                                          \
    } while (0)
/* Can this program open a library that the system's compiler made?  Not a static one, or one in an emulator. */
__attribute__((unused)) static bool test_opens_libraries(void) {
#if defined(__GLIBC__) || !defined(__linux__)
    return !getenv("CHAINRULE_TEST_EMULATED");
#else
    return false;
#endif
}

#define SKIP(reason) do { test_skip_reason = (reason); return; } while (0)

/* Counts one check that truly ran on a device. */
__attribute__((unused)) static void test_ran_on(const cr_device *dev) {
    const char *name = cr_device_name(dev);
    for (int i = 0; i < 8; i++) {
        if (!test_devices[i].name) test_devices[i].name = name;
        if (!strcmp(test_devices[i].name, name)) { test_devices[i].checks++; return; }
    }
}

__attribute__((unused)) static uint64_t test_seed(void) {
    const char *s = getenv("CHAINRULE_TEST_SEED");
    return s ? strtoull(s, NULL, 0) : 20240607;
}
__attribute__((unused)) static bool test_full(void) {
    const char *s = getenv("CHAINRULE_TEST_FULL");
    return s && (*s == '1' || *s == '2');
}
/* Software compiles a GPU's kernel in 60 ms, and most combinations need one of their own: without
 * CHAINRULE_TEST_FULL one in `every` runs there.  CHAINRULE_TEST_SHARE says which, so that runs with other
 * shares test what this one leaves out. */
__attribute__((unused)) static bool test_sampled(int64_t number, int every) {
    const char *share = getenv("CHAINRULE_TEST_SHARE");
    return test_full() || (number + (share ? atoi(share) : 0)) % every == 0;
}
/* CHAINRULE_TEST_SHARD=k/n: of the cases that a long test numbers, only those that are k modulo n, so that n processes
 * share the test (tools/gpu_shards.sh). */
__attribute__((unused)) static bool test_sharded(void) { return getenv("CHAINRULE_TEST_SHARD") != NULL; }
__attribute__((unused)) static bool test_of_shard(int64_t number) {
    const char *shard = getenv("CHAINRULE_TEST_SHARD");
    int k = 0, n = 1;
    if (shard && (sscanf(shard, "%d/%d", &k, &n) != 2 || n < 1 || k < 0 || k >= n)) {
        printf("CHAINRULE_TEST_SHARD is k/n with 0 <= k < n, not '%s'\n", shard);
        exit(1);
    }
    return number % n == k;
}
__attribute__((unused)) static bool test_exhaustive(void) {
    const char *s = getenv("CHAINRULE_TEST_FULL");
    return s && *s == '2';
}

#ifdef CR_TEST_GPU
#include "keep_wgsl.h"
#include "keep_calls.h"
#endif

#if defined CR_TEST_CUDA || defined CR_TEST_EVERY_DEVICE
#include "core/os.h"

/* The simulator's libraries, by path, whatever of NVIDIA's is on the machine, unless the environment
 * says otherwise; kernels are compiled once for each build. */
static void test_use_simulator(void) {
#ifdef CHAINRULE_CUDASIM
    const char *wish = getenv("CHAINRULE_TEST_CUDA");
    if (wish && *wish == '1') return;
    setenv("CUDASIM_DEVICES", "2", 0);
    setenv("CUDASIM_QUIET", "1", 0);
    static const char *const switches[][2] = {{"CHAINRULE_CUDA", CHAINRULE_CUDASIM "/libcuda.so.1"},
                                              {"CHAINRULE_NVRTC", CHAINRULE_CUDASIM "/libnvrtc.so.13"},
                                              {"CHAINRULE_CUBLASLT", CHAINRULE_CUDASIM "/libcublasLt.so.13"},
                                              {"CHAINRULE_CUSOLVER", CHAINRULE_CUDASIM "/libcusolver.so.12"},
                                              {"CHAINRULE_NCCL", CHAINRULE_CUDASIM "/libnccl.so.2"},
                                              {"CHAINRULE_CACHE", CHAINRULE_CUDASIM "/cache"}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (!getenv(switches[i][0])) cr_switch_set(switches[i][0], switches[i][1]);
#endif
}

/* A function of cudasim/control.h, into the pointer to it; false, and NULL: the GPU is no simulated one. */
__attribute__((unused)) static bool test_simulator(const char *name, void *function) {
    void *f = NULL;
#ifdef CHAINRULE_CUDASIM
    const char *wish = getenv("CHAINRULE_TEST_CUDA");
    void *driver = wish && *wish == '1' ? NULL : cr_os_open_library(CHAINRULE_CUDASIM "/libcuda.so.1");
    if (driver) f = cr_os_symbol(driver, name);
#endif
    memcpy(function, &f, sizeof f);
    return f != NULL;
}
#endif

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "-l")) {
        for (const test *t = test_first; t; t = t->next) printf("%s\n", t->name);
        return 0;
    }
#ifdef CR_TEST_CUDA
    test_use_simulator();
    cr_switch_set("WGPU", "off");
    if (!cr_cuda(0)) return printf("skipped %s: %s\nresult: 0 passed, 0 failed, 1 skipped\n", argv[0], cr_error()), 0;
#elif defined CR_TEST_GPU
    cr_switch_set("CUDA", "off");
    /* the same line from every program: run_tests.py shows it once */
    if (!cr_device_find("webgpu")) {
        const bool wanted = getenv("CHAINRULE_TEST_GPU") != NULL;
        printf("%s tests on GPUs: %s\nresult: 0 passed, %d failed, %d skipped\n", wanted ? "FAILED" : "skipped",
               cr_error(), wanted, !wanted);
        return wanted;
    }
    keep_wgsl();
    keep_calls();
#elif defined CR_TEST_EVERY_DEVICE
    test_use_simulator();
#else
    cr_switch_set("WGPU", "off");
    cr_switch_set("CUDA", "off");
#endif
    int passed = 0, failed = 0, skipped = 0, verbose = argc > 1 && !strcmp(argv[1], "-v"), first = 1 + verbose;
    for (test *t = test_first; t; t = t->next) {
        int wanted = first >= argc;
        for (int i = first; i < argc; i++) wanted |= strstr(t->name, argv[i]) != NULL;
        if (!wanted) continue;
        test_failures = 0; test_skip_reason = NULL;
        if (verbose) { printf("%s\n", t->name); fflush(stdout); }
        cr_error_clear();
#ifdef CR_TEST_GPU
        keep_calls_of(t->name);
#endif
        t->fn();
        if (!test_failures && cr_error()) test_fail(t->name, 0, "left an error behind: %s", cr_error());
        if (test_failures) { failed++; printf("FAILED %s: %d checks\n", t->name, test_failures); }
        else if (test_skip_reason) { skipped++; printf("skipped %s: %s\n", t->name, test_skip_reason); }
        else passed++;
        fflush(stdout);
    }
    printf("result: %d passed, %d failed, %d skipped", passed, failed, skipped);
    for (int i = 0; i < 8 && test_devices[i].name; i++)
        printf("%s %s %ld", i ? "," : ";", test_devices[i].name, test_devices[i].checks);
    printf("\n");
    return failed || (!passed && !skipped);
}

#endif
