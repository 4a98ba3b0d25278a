/* memory.c - the memory's speed by plain loops on all threads, over f32 arrays as long as those of
 * `chainrule bench --only elementwise` and in the same kind of pages: what an operation that only
 * moved its bytes would reach.  Arrays of 4M partly stay in a last cache of 32 MB. use: memory
 * [threads [bytes]]        prints JSON: GB/s at the median time of reading (x), copying (y = x) and a triad (z
 * = x + 2 y); bytes: of one array, which is only read */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/os.h"
#include "core/pool.h"
#include "dev/cpu/cpu.h"

enum { CHUNK = 128 << 10, RUNS = 40 };              /* elements, a multiple of a vector */
static const int64_t lengths[] = {4096 * 1024, 256 * 50257 / CHUNK * CHUNK};

typedef float vec __attribute__((vector_size(64)));
static vec *x, *y, *z;
static volatile float sink;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define EACH_ISA __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_ISA
#endif
#define LOOP(name, before, body, after)                                                             \
    EACH_ISA static void name(void *ctx, int64_t chunk, int worker) {                               \
        (void)ctx; (void)worker;                                                                    \
        before;                                                                                     \
        for (int64_t i = chunk * (CHUNK / 16); i < (chunk + 1) * (CHUNK / 16); i += 4)              \
            for (int64_t j = i; j < i + 4; j++) body;                                               \
        after;                                                                                      \
    }
LOOP(read_chunk, vec s[4] = {{0}}, s[j - i] += x[j], sink = ((s[0] + s[1]) + (s[2] + s[3]))[0])
LOOP(copy_chunk, , y[j] = x[j], )
LOOP(triad_chunk, , z[j] = x[j] + 2 * y[j], )

static int ascending(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double rate(void (*loop)(void *, int64_t, int), int arrays, int64_t n) {
    double seconds[RUNS];
    for (int i = 0; i < RUNS; i++) {
        const double start = cr_os_seconds();
        cr_pool_run(n / CHUNK, loop, NULL);
        seconds[i] = cr_os_seconds() - start;
    }
    qsort(seconds, RUNS, sizeof *seconds, ascending);
    return 4e-9 * (double)arrays * (double)n / seconds[RUNS / 2];
}

static bool measure(int64_t n, bool writes) {
    const size_t bytes = 4 * (size_t)n;
    x = cr_cpu_take(bytes), y = writes ? cr_cpu_take(bytes) : NULL, z = writes ? cr_cpu_take(bytes) : NULL;
    if (!x || (writes && (!y || !z))) return false;
    memset(x, 0, bytes);
    if (writes) memset(y, 0, bytes), memset(z, 0, bytes);
    printf("\n {\"elements\":%lld,\"read\":%.4g", (long long)n, rate(read_chunk, 1, n));
    if (writes) printf(",\"copy\":%.4g,\"triad\":%.4g", rate(copy_chunk, 2, n), rate(triad_chunk, 3, n));
    printf("}");
    cr_cpu_give(x, bytes), cr_cpu_give(y, bytes), cr_cpu_give(z, bytes);
    return true;
}

int main(int argc, char **argv) {
    if (argc > 1 && cr_set_num_threads(atoi(argv[1])) != CR_OK) return fprintf(stderr, "memory: %s\n", cr_error()), 1;
    const int64_t asked = argc > 2 ? atoll(argv[2]) / 4 / CHUNK * CHUNK : 0;
    if (argc > 2 && asked < CHUNK) return fprintf(stderr, "memory: bytes must be at least %d\n", 4 * CHUNK), 1;
    printf("{\"rows\":[");
    for (int i = asked ? 1 : 0; i < 2; i++) {
        if (!measure(asked ? asked : lengths[i], !asked)) return fprintf(stderr, "memory: %s\n", cr_error()), 1;
        if (!i) printf(",");
    }
    printf("]}\n");
    return 0;
}
