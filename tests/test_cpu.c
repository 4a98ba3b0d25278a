/* test_cpu.c - the cpu device from inside: memory, the elementwise engine over odd strides and
 * lengths, copies, reductions, random numbers, rows, each with every instruction set, and the same
 * bits for any number of threads. */
#include "test.h"

#include "core/rng.h"
#include "core/tensor.h"
#include "core/os.h"
#include "core/pool.h"
#include "use_isa.h"
#include "dev/dev.h"
#include "dev/program.h"

static uint64_t state;
static uint64_t next64(void) { state = state * 6364136223846793005u + 1442695040888963407u; return state >> 16; }
static int64_t below(int64_t n) { return (int64_t)(next64() % (uint64_t)n); }
static double uniform(void) { return (double)(next64() >> 16) * 0x1p-32 * 2 - 1; }

#define EACH_ISA(isa) for (int isa_ = 0, isa; isa_ < 4; isa_++) if (isa = (int[]){0, 2, 3, 4}[isa_], \
    test_use_isa(isa))
static void best_isa(void) { test_use_isa(-1); }

static cr_tensor *make(int64_t n, cr_dtype dt) { return cr_empty(CR_LIST(n), dt, cr_cpu()); }

/* ---- memory */
TEST(memory_is_counted_reused_and_given_back) {
    cr_empty_cache(cr_cpu());
    cr_memory before = cr_memory_stats(cr_cpu());
    static const size_t sizes[] = {0, 1, 63, 64, 65, 1000, 4097, 1 << 18, (1 << 18) + 1, 3 << 20, 40 << 20};
    enum { N = sizeof sizes / sizeof *sizes };
    void *p[N];
    size_t total = 0;
    for (int i = 0; i < N; i++) {
        REQUIRE(p[i] = cr_cpu_take(sizes[i]), "%zu bytes: %s", sizes[i], cr_error());
        CHECK((uintptr_t)p[i] % 64 == 0, "%zu bytes at %p: not 64-byte aligned", sizes[i], p[i]);
        memset(p[i], i + 1, sizes[i]);
        total += sizes[i];
    }
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < sizes[i]; j += 61)
            CHECK(((unsigned char *)p[i])[j] == i + 1, "block of %zu bytes overlaps another", sizes[i]);
    cr_memory now = cr_memory_stats(cr_cpu());
    CHECK((size_t)(now.current - before.current) >= total, "%lld bytes counted of %zu",
          (long long)(now.current - before.current), total);
    CHECK(now.peak >= now.current, "peak %lld, current %lld", (long long)now.peak, (long long)now.current);
    for (int i = 0; i < N; i++) cr_cpu_give(p[i], sizes[i]);
    now = cr_memory_stats(cr_cpu());
    CHECK(now.current == before.current, "%lld bytes still counted", (long long)(now.current - before.current));
#ifndef __SANITIZE_ADDRESS__                        /* under it nothing is kept */
    void *again = cr_cpu_take(sizes[N - 1]);
    CHECK(again == p[N - 1], "a large block was not reused");
    cr_cpu_give(again, sizes[N - 1]);
    size_t room = sizes[N - 1] / 2;
    again = cr_cpu_take_room(&room);
    CHECK(again == p[N - 1] && room >= sizes[N - 1], "a larger free block was not reused for %zu bytes", room);
    cr_cpu_give(again, room);
    CHECK(cr_cpu_take(sizes[N - 1]) == again, "its size is lost");
    cr_cpu_give(again, sizes[N - 1]);
    CHECK(cr_memory_stats(cr_cpu()).cached >= (int64_t)sizes[N - 1], "nothing cached");
#endif
    cr_empty_cache(cr_cpu());
    CHECK(cr_memory_stats(cr_cpu()).cached <= before.cached, "%lld bytes stay cached",
          (long long)cr_memory_stats(cr_cpu()).cached);
    test_ran_on(cr_cpu());
}

TEST(memory_that_is_not_there_is_a_message) {
    FAILS(CR_NO_MEMORY, "out of memory: asked", cr_cpu_take(SIZE_MAX));
    FAILS(CR_NO_MEMORY, "16.0 EiB", cr_cpu_take(SIZE_MAX - 100));
    FAILS(CR_NO_MEMORY, "4.0 EiB", cr_cpu_take((size_t)1 << 62));
    FAILS(CR_NO_MEMORY, "out of memory: asked", cr_empty(CR_LIST((int64_t)1 << 60), CR_U8, cr_cpu()));
    cr_empty_cache(cr_cpu());
    cr_memory m = cr_memory_stats(cr_cpu());
    cr_cpu_limit_memory((size_t)(m.current + m.cached) + (8 << 20));
    void *a = cr_cpu_take(5 << 20);                 /* fits; as free memory it must make way for the next */
    CHECK(a, "within the limit: %s", cr_error());
    FAILS(CR_NO_MEMORY, "asked 6.0 MiB", cr_cpu_take(6 << 20));
    FAILS(CR_NO_MEMORY, "asked 6.0 MiB", cr_zeros(CR_LIST(6 << 18), CR_F32, cr_cpu()));
    cr_cpu_give(a, 5 << 20);
    void *b = cr_cpu_take(6 << 20);
    CHECK(b, "free memory was not given back first: %s", cr_error());
    cr_cpu_give(b, 6 << 20);
    cr_cpu_limit_memory(0);
    CHECK(cr_memory_stats(cr_cpu()).current == m.current, "failures leak");
    test_ran_on(cr_cpu());
}

TEST(memory_stays_bounded_when_sizes_change_all_the_time) {
    cr_empty_cache(cr_cpu());
    cr_memory before = cr_memory_stats(cr_cpu());
    for (int i = 1; i <= 200; i++) {
        size_t bytes = (size_t)i << 19;
        void *p = cr_cpu_take(bytes);
        REQUIRE(p, "%s", cr_error());
        cr_cpu_give(p, bytes);
        cr_memory m = cr_memory_stats(cr_cpu());
        CHECK(m.current + m.cached <= before.current + before.cached + m.peak * 3 / 2 + (2 << 20),
              "after %zu bytes: %lld held, at most %lld ever used", bytes, (long long)(m.current + m.cached),
              (long long)m.peak);
    }
    cr_empty_cache(cr_cpu());
    test_ran_on(cr_cpu());
}

enum { THREADS = 4, SLOTS = 64 };
static struct { cr_spinlock lock; unsigned char *p; size_t bytes; unsigned char mark; } slots[SLOTS];

/* Blocks change hands through the slots, so that one thread gives back what another took. */
static void churn(void *arg) {
    uint64_t random = (uint64_t)(uintptr_t)arg * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t bytes = (size_t)(random >> 33) % (i % 64 ? 3000 : 600000) + 1;
        unsigned char *p = cr_cpu_take(bytes), mark = (unsigned char)(random >> 20);
        if (!p) return;
        p[0] = p[bytes - 1] = p[bytes / 2] = mark;
        int s = (int)(random >> 40) % SLOTS;
        cr_spin_lock(&slots[s].lock);
        unsigned char *q = slots[s].p, old = slots[s].mark;
        size_t n = slots[s].bytes;
        slots[s].p = p, slots[s].bytes = bytes, slots[s].mark = mark;
        cr_spin_unlock(&slots[s].lock);
        if (q && (q[0] != old || q[n - 1] != old || q[n / 2] != old)) test_failures++;
        cr_cpu_give(q, n);
    }
}

TEST(memory_is_shared_by_threads) {
    cr_memory before = cr_memory_stats(cr_cpu());
    cr_thread *t[THREADS];
    for (int i = 0; i < THREADS; i++) t[i] = cr_thread_start(churn, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++) if (t[i]) cr_thread_join(t[i]);
    for (int i = 0; i < SLOTS; i++) { cr_cpu_give(slots[i].p, slots[i].bytes); slots[i].p = NULL; }
    CHECK(cr_memory_stats(cr_cpu()).current == before.current, "%lld bytes lost",
          (long long)(cr_memory_stats(cr_cpu()).current - before.current));
    test_ran_on(cr_cpu());
}

/* ---- devices */
TEST(devices_have_names_and_refuse_nonsense) {
    CHECK(cr_device_find("cpu") == cr_cpu() && cr_device_find("ref") == cr_ref(), "devices are not found by name");
    FAILS(CR_BAD_VALUE, "[device_find] no GPU 'gpu'", cr_device_find("gpu"));
    CHECK(cr_device_find("auto") == cr_cpu() && !cr_error(), "without a GPU the best device is the cpu: %s",
          cr_error());
    FAILS(CR_BAD_VALUE, "the name is NULL", cr_device_find(NULL));
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_device_name(NULL));
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_device_info(NULL));
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_synchronize(NULL));
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_memory_stats(NULL));
    FAILS(CR_BAD_VALUE, "the device is NULL", cr_set_default_device(NULL));
    CHECK(cr_device_at(-1) == NULL && cr_device_at(1000) == NULL && !cr_error(), "past the end is no error");
    const cr_device *old = cr_default_device();
    OK(cr_set_default_device(cr_ref()));
    CHECK(cr_default_device() == cr_ref(), "the default device was not set");
    OK(cr_set_default_device(old));
    CHECK(strlen(cr_device_info(cr_cpu())) > 5, "info: '%s'", cr_device_info(cr_cpu()));
    test_ran_on(cr_cpu());
}

/* ---- elementwise.  Programs written by hand, over operands placed at random: any dtype, strides,
 * broadcast axes, in place. */
enum { OPERANDS = 5, GUARD = 37 };
typedef struct operand { cr_arg arg; char *memory; size_t bytes; cr_tensor *owner; } operand;

static const double constants[] = {0.5, 3};
/* values: 0 1 2 inputs, 3 parameter, 4 5 constants, then
 *   6 = in0 + in1 * constant5   7 = max(6, in2)   8 = 7 < param ? in0 : 6   9 = 8 * 4 */
static const cr_instr mixed[] = {{CR_OP_MUL, 1, 5, -1}, {CR_OP_ADD, 0, 6, -1}, {CR_OP_MAX, 7, 2, -1},
                                 {CR_OP_LT, 8, 3, -1},  {CR_OP_SEL, 9, 0, 7},  {CR_OP_SUB, 10, 4, -1}};
static const cr_program mixed_program = {.name = "mixed",
                                         .n_in = 3,
                                         .n_param = 1,
                                         .n_const = 2,
                                         .n_instr = 6,
                                         .n_out = 2,
                                         .consts = constants,
                                         .instr = mixed,
                                         .out = {11, 7},
                                         .fused = -1};

static int64_t wrapped(cr_dtype dt, int64_t v) {
    unsigned char bytes[8];
    cr_store_i64(bytes, dt, v);
    return cr_load_i64(bytes, dt);
}
/* The program above for one element, rounded or wrapped after each step as the compute dtype wants it. */
static void mixed_one(cr_dtype dt, const double *x, double param, double out[2]) {
    if (cr_dtype_is_float(dt)) {
        double a = dt == CR_F32 ? (double)((float)x[1] * 3.0f) : x[1] * 3,
               b = dt == CR_F32 ? (double)((float)x[0] + (float)a) : x[0] + a;
        out[1] = b;
        out[0] = ((b > x[2] ? b : x[2]) < param ? x[0] : b) - 0.5;
        return;
    }
    int64_t in[3], b;
    for (int k = 0; k < 3; k++) in[k] = wrapped(dt, (int64_t)x[k]);
    b = wrapped(dt, in[0] + wrapped(dt, in[1] * 3));
    out[1] = (double)b;
    out[0] = (double)((b > in[2] ? b : in[2]) < (int64_t)param ? in[0] : b);
}

/* Memory around a strided array over shape, filled with numbers from -9 to 9 (unsigned: 0 to 9);
 * strides 0 on random axes for inputs. */
static operand place(cr_dtype dt, int ndim, const int64_t *shape, bool input, int64_t gap) {
    operand o = {.arg = {.dtype = dt}};
    int64_t reach = 1, order[CR_MAX_DIMS];
    for (int d = 0; d < ndim; d++) order[d] = d;
    for (int d = ndim - 1; d > 0 && gap; d--) {
        int64_t k = below(d + 1), t = order[d];
        order[d] = order[k];
        order[k] = t;
    }
    for (int k = ndim - 1; k >= 0; k--) {
        int64_t d = order[k];
        o.arg.strides[d] = reach;
        if (input && gap && below(4) == 0) { o.arg.strides[d] = 0; continue; }
        reach = (reach * shape[d] + (gap ? below(gap) : 0));
    }
    o.bytes = (size_t)(reach + 2 * GUARD) * cr_dtype_size(dt);
    o.owner = make((int64_t)o.bytes, CR_U8);
    o.memory = cr_data(o.owner);
    o.arg.data = o.memory + GUARD * cr_dtype_size(dt);
    o.arg.storage = o.owner->storage;
    bool positive = cr_dtype_kind(dt) == CR_KIND_UNSIGNED || dt == CR_BOOL;
    for (int64_t i = 0; i < reach + 2 * GUARD; i++) {
        double v = input ? (double)(positive ? below(10) : below(19) - 9) : 77;
        cr_store_f64(o.memory + (size_t)i * cr_dtype_size(dt), dt, v);
    }
    return o;
}

static int64_t offset(const cr_arg *a, int ndim, const int64_t *shape, int64_t i) {
    int64_t at = 0;
    for (int d = ndim - 1; d >= 0; d--) { at += i % shape[d] * a->strides[d]; i /= shape[d]; }
    return at;
}
static void *element(const operand *o, int ndim, const int64_t *shape, int64_t i) {
    return (char *)o->arg.data + offset(&o->arg, ndim, shape, i) * (int64_t)cr_dtype_size(o->arg.dtype);
}

/* Everything but the elements of the walk must keep the 77 it was given. */
static void check_untouched(const operand *o, int ndim, const int64_t *shape, int64_t numel, const char *what) {
    size_t size = cr_dtype_size(o->arg.dtype), n = o->bytes / size;
    unsigned char *mine = calloc(n, 1), mark[8];
    cr_store_f64(mark, o->arg.dtype, 77);
    for (int64_t i = 0; i < numel; i++) mine[(size_t)offset(&o->arg, ndim, shape, i) + GUARD] = 1;
    for (size_t i = 0; i < n; i++)
        CHECK(mine[i] || !memcmp(o->memory + i * size, mark, size), "%s: element %lld around the result was written",
              what, (long long)i - GUARD);
    free(mine);
}

static void run_mixed(cr_dtype compute, const cr_dtype dt[5], int ndim, const int64_t *shape, int64_t gap,
                      int in_place) {
    int64_t numel = 1;
    for (int d = 0; d < ndim; d++) numel *= shape[d];
    operand o[OPERANDS];
    for (int k = 0; k < 3; k++) o[k] = place(dt[k], ndim, shape, true, k == in_place ? 0 : gap);
    for (int k = 3; k < 5; k++) o[k] = place(dt[k], ndim, shape, false, gap);
    double *want = malloc(sizeof(double) * 2 * (size_t)(numel + 1)), param = 4;
    for (int64_t i = 0; i < numel; i++) {
        double in[3];
        for (int k = 0; k < 3; k++) in[k] = cr_load_f64(element(&o[k], ndim, shape, i), o[k].arg.dtype);
        mixed_one(compute, in, param, want + 2 * i);
    }
    cr_walk w = {.program = &mixed_program,
                 .params = &param,
                 .compute = compute,
                 .ndim = ndim,
                 .numel = numel,
                 .n_out = 2,
                 .n_in = 3};
    memcpy(w.shape, shape, sizeof(int64_t) * (size_t)ndim);
    for (int k = 0; k < 3; k++) w.in[k] = o[k].arg;
    w.out[0] = in_place >= 0 ? o[in_place].arg : o[3].arg;
    w.out[1] = o[4].arg;
    OK(cr_cpu_elementwise(&(cr_elementwise_args){&w, 1}));
    char what[160];
    snprintf(what, sizeof what, "v%d %s, %d axes, %lld elements, gap %lld, in place %d, seed %llu", cr_cpu_isa(),
             cr_dtype_name(compute), ndim, (long long)numel, (long long)gap, in_place, (unsigned long long)test_seed());
    for (int r = 0; r < 2; r++) {
        const operand *y = r ? &o[4] : in_place >= 0 ? &o[in_place] : &o[3];
        for (int64_t i = 0; i < numel; i++) {
            unsigned char expected[8];
            if (cr_dtype_is_float(compute)) cr_store_f64(expected, y->arg.dtype, want[2 * i + r]);
            else cr_store_i64(expected, y->arg.dtype, (int64_t)want[2 * i + r]);
            void *got = element(y, ndim, shape, i);
            CHECK(!memcmp(got, expected, cr_dtype_size(y->arg.dtype)), "%s: result %d, element %lld: %g, wanted %g",
                  what, r, (long long)i, cr_load_f64(got, y->arg.dtype), cr_load_f64(expected, y->arg.dtype));
        }
        if (in_place < 0 || r) check_untouched(y, ndim, shape, numel, what);
    }
    free(want);
    for (int k = 0; k < OPERANDS; k++) cr_release(o[k].owner);
}

TEST(elementwise_over_any_strides_and_lengths) {
    static const int64_t lengths[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 1000, 1023, 1024, 1025, 16383, 16385, 40961};
    static const cr_dtype floats[] = {CR_F32, CR_F16, CR_BF16, CR_F64, CR_I32, CR_U8, CR_I64, CR_BOOL};
    static const cr_dtype integers[] = {CR_I32, CR_I64, CR_I16, CR_U8, CR_I8, CR_U16, CR_U32, CR_BOOL};
    state = test_seed();
    EACH_ISA(isa) {
        for (int n = 0; n < (int)(sizeof lengths / sizeof *lengths); n++)
            for (int c = 0; c < 4; c++) {
                cr_dtype compute = (cr_dtype[]){CR_F32, CR_F64, CR_I32, CR_I64}[c],
                         same[5] = {compute, compute, compute, compute, compute};
                run_mixed(compute, same, 1, &lengths[n], 0, -1);
                run_mixed(compute, same, 1, &lengths[n], 0, 0);
                run_mixed(compute, same, 1, &lengths[n], 3, -1);
            }
        for (int round = 0; round < (test_full() ? 600 : 80); round++) {
            int ndim = 1 + (int)below(4);
            int64_t shape[CR_MAX_DIMS];
            for (int d = 0; d < ndim; d++) shape[d] = 1 + below(d == ndim - 1 && round % 3 == 0 ? 700 : 23);
            cr_dtype compute = (cr_dtype[]){CR_F32, CR_F32, CR_F64, CR_I32, CR_I64, CR_U8}[below(6)], dt[5];
            for (int k = 0; k < 5; k++) dt[k] = cr_dtype_is_float(compute) ? floats[below(8)] : integers[below(8)];
            dt[4] = compute;
            run_mixed(compute, dt, ndim, shape, below(3), round % 5 == 0 && dt[1] != CR_BOOL ? 1 : -1);
        }
        test_ran_on(cr_cpu());
    }
    best_isa();
}

/* Two results that are each other's inputs, in place: x, y = y, x. */
TEST(elementwise_results_that_are_inputs) {
    static const cr_program swap = {.name = "swap", .n_in = 2, .n_out = 2, .out = {1, 0}, .fused = -1};
    enum { N = 1300 };
    float x[N], y[N];
    for (int i = 0; i < N; i++) { x[i] = (float)i; y[i] = (float)-i; }
    cr_walk w = {.program = &swap, .compute = CR_F32, .ndim = 1, .shape = {N}, .numel = N, .n_out = 2, .n_in = 2};
    w.in[0] = w.out[0] = (cr_arg){.data = x, .dtype = CR_F32, .strides = {1}};
    w.in[1] = w.out[1] = (cr_arg){.data = y, .dtype = CR_F32, .strides = {1}};
    OK(cr_cpu_elementwise(&(cr_elementwise_args){&w, 1}));
    for (int i = 0; i < N; i++)
        CHECK(x[i] == (float)-i && y[i] == (float)i, "element %d: %g, %g", i, (double)x[i], (double)y[i]);
    test_ran_on(cr_cpu());
}

/* A chain longer than any array on the stack, and walks of many sizes in one call. */
TEST(elementwise_long_programs_and_many_walks) {
    enum { STEPS = 3000, WALKS = 150 };
    static cr_instr chain[STEPS];
    for (int k = 0; k < STEPS; k++)
        chain[k] = (cr_instr){k % 2 ? CR_OP_SUB : CR_OP_ADD, (int16_t)(k ? 1 + k : 0), 0, -1};
    const cr_program p = {.name = "chain",
                          .n_in = 1,
                          .n_const = 1,
                          .n_instr = STEPS,
                          .n_out = 1,
                          .consts = constants,
                          .instr = chain,
                          .out = {STEPS + 1},
                          .fused = -1};
    static cr_walk w[WALKS];
    cr_tensor *x[WALKS];
    for (int i = 0; i < WALKS; i++) {
        int64_t n = i % 7 == 3 ? 0 : (i * 977) % 20011;
        x[i] = make(n, CR_F64);
        for (int64_t j = 0; j < n; j++) ((double *)cr_data(x[i]))[j] = (double)j;
        w[i] = (cr_walk){.program = &p, .compute = CR_F64, .ndim = 1, .shape = {n}, .numel = n, .n_out = 1, .n_in = 1};
        w[i].in[0] = w[i].out[0] = (cr_arg){.data = cr_data(x[i]), .dtype = CR_F64, .strides = {1}};
    }
    OK(cr_cpu_elementwise(&(cr_elementwise_args){w, WALKS}));
    for (int i = 0; i < WALKS; i++) {
        for (int64_t j = 0; j < w[i].numel; j++)
            CHECK(((double *)cr_data(x[i]))[j] == (double)j, "walk %d, element %lld", i, (long long)j);
        cr_release(x[i]);
    }
    static const cr_instr sine = {CR_OP_SIN, 0, -1, -1};
    const cr_program no = {
        .name = "sine", .n_in = 1, .n_instr = 1, .n_out = 1, .instr = &sine, .out = {1}, .fused = -1};
    int64_t v = 3;
    cr_walk bad = {.program = &no, .compute = CR_I64, .ndim = 1, .shape = {1}, .numel = 1, .n_out = 1, .n_in = 1};
    bad.in[0] = bad.out[0] = (cr_arg){.data = &v, .dtype = CR_I64, .strides = {1}};
    FAILS(CR_BAD_TYPE, "[sine] is not defined for int64", cr_cpu_elementwise(&(cr_elementwise_args){&bad, 1}));
    test_ran_on(cr_cpu());
}

/* ---- copies */
/* ---- division of integers, which goes through f64 where that is exact: numbers of every length, and
 * neighbours of multiples */
__extension__ typedef __int128 whole;

static whole whole_at(const cr_tensor *t, int64_t i) {
    unsigned char v[8];
    const cr_dtype dt = t->dtype;
    cr_convert(v, dt == CR_U64 ? CR_U64 : CR_I64, (const char *)cr_tensor_data(t) + (size_t)i * cr_dtype_size(dt), dt);
    int64_t k;
    memcpy(&k, v, sizeof k);
    return dt == CR_U64 ? (whole)(uint64_t)k : k;
}

static void put_whole(cr_tensor *t, int64_t i, int64_t v) {
    cr_store_i64((char *)cr_tensor_data(t) + (size_t)i * cr_dtype_size(t->dtype), t->dtype, wrapped(t->dtype, v));
}

/* bits: the longest number */
static void fill_pairs(cr_tensor *a, cr_tensor *b, int bits) {
    const int width = 8 * (int)cr_dtype_size(a->dtype);
    for (int64_t i = 0; i < a->numel; i++) {
        int64_t x = (int64_t)(next64() << 16 ^ next64()) >> (64 - bits + below(bits)),
                y = (int64_t)(next64() << 16 ^ next64()) >> (64 - bits + below(bits));
        if (i % 3 == 0 && y) x = (int64_t)((uint64_t)(x / y) * (uint64_t)y) + below(3) - 1;
        put_whole(a, i, i % 41 == 40 ? INT64_MIN >> (64 - (bits < width ? bits : width)) : x);
        put_whole(b, i, i % 41 > 38 ? -1 : y);
        if (whole_at(b, i) == 0) put_whole(b, i, 1);
    }
}

static void check_division(int isa, cr_dtype dt, int bits) {
    enum { N = 1500 };
    cr_scope_begin();
    cr_tensor *a = make(N, dt), *b = make(N, dt), *expected = make(1, dt);
    fill_pairs(a, b, bits);
    cr_tensor *y[] = {cr_trunc_divide(a, b), cr_fmod(a, b), cr_floor_divide(a, b), cr_remainder(a, b)};
    for (int64_t i = 0; i < N; i++) {
        const whole p = whole_at(a, i), q = whole_at(b, i), rest = p % q, down = rest && (rest < 0) != (q < 0);
        const whole right[] = {p / q, rest, p / q - down, rest + down * q};
        for (int k = 0; k < 4; k++) {
            put_whole(expected, 0, (int64_t)right[k]);
            CHECK(y[k] && whole_at(y[k], i) == whole_at(expected, 0),
                  "%s of %s %lld and %lld on v%d: %lld, wanted %lld",
                  (const char *const[]){"trunc_divide", "fmod", "floor_divide", "remainder"}[k], cr_dtype_name(dt),
                  (long long)p, (long long)q, isa, y[k] ? (long long)whole_at(y[k], i) : 0,
                  (long long)whole_at(expected, 0));
        }
    }
    cr_scope_end();
}

TEST(integers_divide_exactly) {
    state = test_seed();
    EACH_ISA(isa)
        for (int dt = CR_U8; dt <= CR_I64; dt++)
            for (int k = 0; k < 6; k++) check_division(isa, (cr_dtype)dt, (int[]){8, 31, 49, 51, 54, 64}[k]);
    best_isa();
    test_ran_on(cr_cpu());
}

static cr_tensor *strided(cr_tensor *base, int ndim, const int64_t *shape, const int64_t *strides, int64_t start) {
    cr_meta m = {.dtype = base->dtype, .ndim = ndim, .offset = start, .strided = true};
    memcpy(m.shape, shape, sizeof(int64_t) * (size_t)ndim);
    memcpy(m.strides, strides, sizeof(int64_t) * (size_t)ndim);
    return cr_tensor_alias(base, &m);
}

static void check_copy(cr_dtype to, cr_dtype from, int ndim, const int64_t *shape, int64_t gap) {
    operand d = place(to, ndim, shape, false, gap), s = place(from, ndim, shape, true, gap);
    if (cr_dtype_is_float(from))                    /* also what saturates, and NaN */
        for (size_t i = 0; i < s.bytes / cr_dtype_size(from); i += 3)
            cr_store_f64(
                s.memory + i * cr_dtype_size(from), from,
                (double[]){NAN, 1e30, -1e30, 300.7, -5.5, 1e-8, 70000, INFINITY, 2147483520, -2147483520}[below(10)]);
    cr_meta md = {.dtype = to, .ndim = ndim, .offset = GUARD, .strided = true},
            ms = {.dtype = from, .ndim = ndim, .offset = GUARD, .strided = true};
    int64_t numel = 1;
    for (int i = 0; i < ndim; i++) numel *= md.shape[i] = ms.shape[i] = shape[i];
    memcpy(md.strides, d.arg.strides, sizeof md.strides);
    memcpy(ms.strides, s.arg.strides, sizeof ms.strides);
    cr_tensor *y = cr_tensor_new(cr_storage_retain(d.owner->storage), cr_cpu(), &md),
              *x = cr_tensor_new(cr_storage_retain(s.owner->storage), cr_cpu(), &ms);
    OK(cr_cpu_copy(&(cr_copy_args){y->array, x->array}));
    for (int64_t i = 0; i < numel; i++) {
        unsigned char want[8];
        cr_convert(want, to, element(&s, ndim, shape, i), from);
        CHECK(!memcmp(want, element(&d, ndim, shape, i), cr_dtype_size(to)),
              "v%d copy %s <- %s, %d axes, gap %lld, element %lld of %lld: %g from %g", cr_cpu_isa(), cr_dtype_name(to),
              cr_dtype_name(from), ndim, (long long)gap, (long long)i, (long long)numel,
              cr_load_f64(element(&d, ndim, shape, i), to), cr_load_f64(element(&s, ndim, shape, i), from));
    }
    check_untouched(&d, ndim, shape, numel, "copy");
    unsigned char value[8];
    cr_store_f64(value, to, 5);
    OK(cr_cpu_fill(&(cr_fill_args){y->array, value}));
    for (int64_t i = 0; i < numel; i++)
        CHECK(!memcmp(value, element(&d, ndim, shape, i), cr_dtype_size(to)), "fill %s, element %lld",
              cr_dtype_name(to), (long long)i);
    check_untouched(&d, ndim, shape, numel, "fill");
    cr_release(x); cr_release(y); cr_release(d.owner); cr_release(s.owner);
}

TEST(copies_between_all_dtypes_and_strides) {
    state = test_seed();
    EACH_ISA(isa) {
        for (int to = 0; to < CR_DTYPES; to++)
            for (int from = 0; from < CR_DTYPES; from++) {
                check_copy((cr_dtype)to, (cr_dtype)from, 1, (int64_t[]){1 + below(2000)}, 0);
                for (int round = 0; round < 2; round++) {
                    int ndim = 1 + (int)below(4);
                    int64_t shape[4];
                    for (int d = 0; d < ndim; d++) shape[d] = 1 + below(19);
                    check_copy((cr_dtype)to, (cr_dtype)from, ndim, shape, below(3));
                }
            }
        for (int dt = 0; dt < CR_DTYPES; dt++)
            check_copy((cr_dtype)dt, (cr_dtype)dt, 3, (int64_t[]){3, 67, 131}, 1 + below(2));
        test_ran_on(cr_cpu());
    }
    best_isa();
    /* a large transposition, over several threads */
    cr_tensor *base = make(517 * 389, CR_F32), *y = make(517 * 389, CR_F32);
    for (int64_t i = 0; i < 517 * 389; i++) ((float *)cr_data(base))[i] = (float)i;
    cr_tensor *t = strided(base, 2, (int64_t[]){389, 517}, (int64_t[]){1, 389}, 0),
              *d = strided(y, 2, (int64_t[]){389, 517}, (int64_t[]){517, 1}, 0);
    OK(cr_cpu_copy(&(cr_copy_args){d->array, t->array}));
    for (int64_t i = 0; i < 389; i++)
        for (int64_t j = 0; j < 517; j++)
            CHECK(((float *)cr_data(y))[i * 517 + j] == (float)(j * 389 + i), "transposed element %lld, %lld",
                  (long long)i, (long long)j);
    cr_release(t); cr_release(d); cr_release(base); cr_release(y);
}

/* Every half float, and in f32 the points between and beside them, where rounding decides. */
TEST(half_floats_round_as_the_scalar_code) {
    enum { HALVES = 65536, AROUND = 5 };
    cr_tensor *f = make(HALVES * AROUND, CR_F32), *h = make(HALVES * AROUND, CR_F16), *all = make(HALVES, CR_F16),
              *wide = make(HALVES, CR_F32);
    for (int b = 0; b < 2; b++) {
        cr_dtype dt = b ? CR_BF16 : CR_F16;
        float *x = cr_data(f), *w = cr_data(wide);
        uint16_t *y = cr_data(h), *a = cr_data(all);
        h->dtype = all->dtype = (uint8_t)dt;
        for (int i = 0; i < HALVES; i++) {
            a[i] = (uint16_t)i;
            float low = b ? cr_bf16_to_f32((uint16_t)i) : cr_f16_to_f32((uint16_t)i),
                  high = b ? cr_bf16_to_f32((uint16_t)(i + 1)) : cr_f16_to_f32((uint16_t)(i + 1));
            float middle = low + (high - low) / 2;
            float around[AROUND] = {low, middle, nextafterf(middle, INFINITY), nextafterf(middle, -INFINITY),
                                    nextafterf(low, INFINITY)};
            memcpy(x + i * AROUND, around, sizeof around);
        }
        EACH_ISA(isa) {
            OK(cr_cpu_copy(&(cr_copy_args){h->array, f->array}));
            OK(cr_cpu_copy(&(cr_copy_args){wide->array, all->array}));
            for (int i = 0; i < HALVES * AROUND; i++) {
                uint16_t want = b ? cr_f32_to_bf16(x[i]) : cr_f32_to_f16(x[i]);
                CHECK(y[i] == want, "v%d %s of %.9g: %04x, wanted %04x", isa, cr_dtype_name(dt), (double)x[i], y[i],
                      want);
            }
            for (int i = 0; i < HALVES; i++) {
                float want = b ? cr_bf16_to_f32((uint16_t)i) : cr_f16_to_f32((uint16_t)i);
                CHECK(!memcmp(&w[i], &want, 4) || (isnan(want) && isnan(w[i])), "v%d %s %04x: %.9g, wanted %.9g", isa,
                      cr_dtype_name(dt), (unsigned)i, (double)w[i], (double)want);
            }
        }
    }
    best_isa();
    cr_release(f); cr_release(h); cr_release(all); cr_release(wide);
    test_ran_on(cr_cpu());
}

/* ---- reductions */
static const struct { const char *name; cr_reduce_how how;
} reductions[] = {{"sum", {.kind = CR_REDUCE_SUM}},
                  {"prod", {.kind = CR_REDUCE_PROD}},
                  {"max", {.kind = CR_REDUCE_MAX}},
                  {"min", {.kind = CR_REDUCE_MIN}},
                  {"any", {CR_REDUCE_MAX, CR_MAP_NONZERO, 0}},
                  {"all", {CR_REDUCE_MIN, CR_MAP_NONZERO, 0}},
                  {"count", {CR_REDUCE_SUM, CR_MAP_NONZERO, 0}},
                  {"sum |x|", {CR_REDUCE_SUM, CR_MAP_ABS, 0}},
                  {"max |x|", {CR_REDUCE_MAX, CR_MAP_ABS, 0}},
                  {"sum x^2", {CR_REDUCE_SUM, CR_MAP_SQUARE, 0}},
                  {"sum |x|^1.5", {CR_REDUCE_SUM, CR_MAP_POWER, 1.5}},
                  {"nansum", {CR_REDUCE_SUM, CR_MAP_NUMBER, 0}},
                  {"deviations", {CR_REDUCE_SUM, CR_MAP_DEVIATION, 0}}};
enum { REDUCTIONS = sizeof reductions / sizeof *reductions };

static cr_status reduce_dense(cr_reduce_kind kind, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    return cr_cpu_reduce(&(cr_reduce_args){
        cr_array_as(&y->array, CR_LIST(M, N)), cr_array_as(&x->array, CR_LIST(M, R, N)), {.kind = kind}});
}
static cr_status arg_reduce_dense(bool max, cr_tensor *y, const cr_tensor *x, int64_t M, int64_t R, int64_t N) {
    return cr_cpu_arg_reduce(
        &(cr_arg_reduce_args){cr_array_as(&y->array, CR_LIST(M, N)), cr_array_as(&x->array, CR_LIST(M, R, N)), max});
}

/* (M, R, N) dense, every other element, or with R backwards */
typedef struct seen { cr_tensor *base, *x; cr_slab at; } seen;
static seen seen_as(cr_dtype dt, int64_t M, int64_t R, int64_t N, int how) {
    int64_t step = how == 1 ? 2 : 1;
    seen s = {.base = make(M * R * N * step, dt), .at = {M, R, N, {R * N * step, N * step, step}}};
    cr_meta m = {.dtype = dt, .ndim = 1, .shape = {M * R * N}, .strides = {1}, .strided = true};
    if (how == 2) { m.offset = (R - 1) * N; s.at.strides[1] = -N; }
    s.x = cr_tensor_alias(s.base, &m);
    return s;
}
static cr_array array_in(const seen *s) {
    cr_array a = cr_array_as(&s->x->array, CR_LIST(s->at.M, s->at.R, s->at.N));
    memcpy(a.strides, s->at.strides, sizeof s->at.strides);
    a.contiguous = false;
    return a;
}
static double seen_at(const seen *s, int64_t m, int64_t r, int64_t n) {
    cr_dtype dt = s->x->dtype;
    int64_t at = m * s->at.strides[0] + r * s->at.strides[1] + n * s->at.strides[2];
    return cr_load_f64((const char *)cr_tensor_data(s->x) + at * (int64_t)cr_dtype_size(dt), dt);
}

static void fill_for(const cr_reduce_how *how, cr_tensor *x) {
    for (int64_t i = 0; i < x->numel; i++) {
        cr_dtype dt = x->dtype;
        double v = how->kind == CR_REDUCE_PROD                  ? (below(400) ? 1 : 2)
                   : how->map == CR_MAP_NONZERO                 ? (below(997) == 0) == (how->kind == CR_REDUCE_MAX)
                   : how->map == CR_MAP_NUMBER && below(5) == 0 ? NAN
                   : cr_dtype_is_float(dt)                      ? uniform()
                                                                : (double)below(100);
        cr_store_f64((char *)cr_data(x) + (size_t)i * cr_dtype_size(dt), dt, v);
    }
}

/* y in long double, or exactly for integers */
static double plain_reduce(const cr_reduce_how *how, const seen *s, int64_t m, int64_t n, double *sizes) {
    long double acc = how->kind == CR_REDUCE_PROD, mean = 0;
    *sizes = 0;
    for (int64_t r = 0; r < s->at.R; r++) mean += (long double)seen_at(s, m, r, n) / (long double)s->at.R;
    for (int64_t r = 0; r < s->at.R; r++) {
        double v = seen_at(s, m, r, n);
        switch (how->map) {
        case CR_MAP_NONZERO: v = v != 0; break;
        case CR_MAP_ABS: v = fabs(v); break;
        case CR_MAP_SQUARE: v = v * v; break;
        case CR_MAP_POWER: v = pow(fabs(v), how->p); break;
        case CR_MAP_NUMBER: v = isnan(v) ? 0 : v; break;
        case CR_MAP_DEVIATION: v = (double)((v - mean) * (v - mean)); break;
        default: break;
        }
        *sizes += fabs(v);
        if (how->kind == CR_REDUCE_SUM) acc += v;
        else if (how->kind == CR_REDUCE_PROD) acc *= v;
        else if (how->kind == CR_REDUCE_MAX) acc = r == 0 || v > (double)acc ? v : acc;
        else acc = r == 0 || v < (double)acc ? v : acc;
    }
    return (double)acc;
}

static void check_reduce(int k, cr_dtype from, cr_dtype to, const int64_t shape[3], int layout) {
    const int64_t M = shape[0], R = shape[1], N = shape[2];
    const cr_reduce_how *how = &reductions[k].how;
    seen s = seen_as(from, M, R, N, layout);
    cr_tensor *y = make(M * N, to);
    fill_for(how, s.base);
    OK(cr_cpu_reduce(&(cr_reduce_args){y->array, array_in(&s), *how}));
    double round = to == CR_F64 ? 1e-15 : to == CR_F32 ? 6e-8 : to == CR_F16 ? 5e-4 : to == CR_BF16 ? 4e-3 : 0;
    for (int64_t i = 0; i < M * N; i++) {
        double sizes, want = plain_reduce(how, &s, i / N, i % N, &sizes);
        double got = cr_load_f64((char *)cr_data(y) + (size_t)i * cr_dtype_size(to), to);
        /* the error of a tree of depth 32 + log2, not of a chain of R additions; powers are within 2
         * ulp, 4 with their argument's */
        double steps = how->map == CR_MAP_POWER ? 70 : 60;
        double tolerance = how->kind == CR_REDUCE_SUM
                               ? (to == CR_F64 ? 1e-16 : 6e-8) * steps * sizes / 2 + round * fabs(want)
                           : how->kind == CR_REDUCE_PROD ? round * fabs(want) * 4
                                                         : 0;
        if (to == CR_F16) tolerance += 3e-8;        /* denormals are 6e-8 apart */
        if (to == CR_F16 && want > 65504) continue;
        CHECK(fabs(got - want) <= tolerance,
              "v%d %s %s -> %s (%lld, %lld, %lld) layout %d, element %lld: %.9g, wanted %.9g, tolerance %g",
              cr_cpu_isa(), reductions[k].name, cr_dtype_name(from), cr_dtype_name(to), (long long)M, (long long)R,
              (long long)N, layout, (long long)i, got, want, tolerance);
    }
    cr_release(s.x); cr_release(s.base); cr_release(y);
}

static const int64_t reduce_shapes[][3] = {
    {1, 1, 1},   {1, 7, 1},    {3, 33, 1},  {5, 1031, 1},  {2, 5003, 1},  {1, 70001, 1}, {2, 131075, 1}, {1, 5, 2},
    {3, 101, 3}, {1, 4099, 7}, {2, 37, 64}, {1, 333, 129}, {1, 97, 1031}, {20, 9, 65},   {1, 3, 4099},   {1, 20011, 5}};

TEST(reductions_of_all_dtypes) {
    state = test_seed();
    EACH_ISA(isa) {
        for (int s = 0; s < (int)(sizeof reduce_shapes / sizeof *reduce_shapes); s++)
            for (int dt = 0; dt < CR_DTYPES; dt++)
                for (int k = 0; k < REDUCTIONS; k++) {
                    const int64_t *d = reduce_shapes[s];
                    const cr_reduce_how *how = &reductions[k].how;
                    const bool real = cr_dtype_is_float((cr_dtype)dt), counts = how->map == CR_MAP_NONZERO,
                               extreme = how->kind >= CR_REDUCE_MAX;
                    const cr_dtype sums = how->kind == CR_REDUCE_PROD && real ? CR_F64
                                          : real && !counts                   ? (cr_dtype)dt
                                                                              : CR_I64;
                    if ((how->map > CR_MAP_NONZERO && !real) || (how->kind == CR_REDUCE_PROD && d[1] >= 6000)) continue;
                    for (int layout = 0; layout < (d[1] < 6000 ? 3 : 1); layout++)
                        check_reduce(k, (cr_dtype)dt, !extreme ? sums : counts ? CR_BOOL : (cr_dtype)dt, d, layout);
                }
        test_ran_on(cr_cpu());
    }
    best_isa();
    for (int k = 0; k < REDUCTIONS; k++)
        for (int n = 1; n < 4 && (reductions[k].how.kind < CR_REDUCE_MAX || reductions[k].how.map == CR_MAP_NONZERO);
             n += 2) {
            const cr_reduce_how *how = &reductions[k].how;
            cr_tensor *x = make(0, CR_F32), *y = make(2 * n, how->map == CR_MAP_NONZERO ? CR_BOOL : CR_F32);
            OK(cr_cpu_reduce(&(cr_reduce_args){y->array, cr_array_as(&x->array, CR_LIST(2, 0, n)), *how}));
            for (int i = 0; i < 2 * n; i++)
                CHECK(cr_load_f64((char *)cr_data(y) + (size_t)i * cr_dtype_size(y->dtype), y->dtype) ==
                          (how->kind == CR_REDUCE_PROD || how->kind == CR_REDUCE_MIN),
                      "empty %s of %d columns", reductions[k].name, n);
            cr_release(x); cr_release(y);
        }
}

TEST(unsigned_64_bit_extremes) {
    static const uint64_t v[] = {3, UINT64_MAX - 1, 0, (uint64_t)1 << 63, UINT64_MAX, 7, UINT64_MAX};
    for (int64_t n = 1; n <= 7; n += 6) {           /* one row of 7, and 7 columns of 1 */
        cr_tensor *x = cr_from(v, CR_LIST(7), CR_U64, cr_cpu()), *y = make(n, CR_U64), *at = make(n, CR_I64);
        OK(reduce_dense(CR_REDUCE_MAX, y, x, 1, 7 / n, n));
        CHECK(*(uint64_t *)cr_data(y) == (n == 1 ? UINT64_MAX : 3), "max: %llu",
              (unsigned long long)*(uint64_t *)cr_data(y));
        OK(reduce_dense(CR_REDUCE_MIN, y, x, 1, 7 / n, n));
        CHECK(*(uint64_t *)cr_data(y) == (n == 1 ? 0 : 3), "min: %llu", (unsigned long long)*(uint64_t *)cr_data(y));
        OK(arg_reduce_dense(true, at, x, 1, 7 / n, n));
        CHECK(*(int64_t *)cr_data(at) == (n == 1 ? 4 : 0), "argmax: %lld", (long long)*(int64_t *)cr_data(at));
        cr_release(x); cr_release(y); cr_release(at);
    }
    test_ran_on(cr_cpu());
}

TEST(positions_of_extremes) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_BF16, CR_I32, CR_U8, CR_I64};
    state = test_seed();
    EACH_ISA(isa) {
        for (int s = 0; s < (int)(sizeof reduce_shapes / sizeof *reduce_shapes); s++)
            for (int k = 0; k < 12; k++) {
                cr_dtype dt = dtypes[k / 2];
                bool max = k % 2, nan = cr_dtype_is_float(dt) && below(3) == 0;
                int64_t M = reduce_shapes[s][0], R = reduce_shapes[s][1], N = reduce_shapes[s][2];
                cr_tensor *x = make(M * R * N, dt), *y = make(M * N, CR_I64);
                for (int64_t i = 0; i < x->numel; i++)     /* few values: many ties */
                    cr_store_f64((char *)cr_data(x) + (size_t)i * cr_dtype_size(dt), dt,
                                 nan && below(R + 5) == 0 ? NAN : (double)below(R < 50 ? 5 : 200));
                OK(arg_reduce_dense(max, y, x, M, R, N));
                for (int64_t i = 0; i < M * N; i++) {
                    int64_t best = 0;
                    double top = 0;
                    for (int64_t r = 0; r < R; r++) {
                        double v = cr_load_f64(
                            (char *)cr_data(x) + (size_t)(i / N * R * N + i % N + r * N) * cr_dtype_size(dt), dt);
                        if (r == 0 || (!isnan(top) && (isnan(v) || (max ? v > top : v < top)))) { best = r; top = v; }
                    }
                    CHECK(((int64_t *)cr_data(y))[i] == best,
                          "v%d arg%s %s (%lld, %lld, %lld), element %lld: %lld, wanted %lld", isa, max ? "max" : "min",
                          cr_dtype_name(dt), (long long)M, (long long)R, (long long)N, (long long)i,
                          (long long)((int64_t *)cr_data(y))[i], (long long)best);
                }
                cr_release(x); cr_release(y);
            }
        test_ran_on(cr_cpu());
    }
    best_isa();
}

TEST(nan_wins_in_extremes) {
    EACH_ISA(isa)
        for (int64_t at = 0; at < 139; at++)
            for (int64_t n = 1; n <= 139; n += 138)
                for (int d = 0; d < 2; d++) {
                    cr_dtype dt = d ? CR_F64 : CR_F32;
                    int64_t R = n == 1 ? 139 : 3;
                    cr_tensor *x = make(R * n, dt), *y = make(n, dt);
                    for (int64_t i = 0; i < R * n; i++)
                        cr_store_f64((char *)cr_data(x) + (size_t)i * cr_dtype_size(dt), dt,
                                     i == at ? NAN : (double)(i % 11));
                    for (int max = 0; max < 2; max++) {
                        OK(reduce_dense(max ? CR_REDUCE_MAX : CR_REDUCE_MIN, y, x, 1, R, n));
                        double got = cr_load_f64((char *)cr_data(y) + (size_t)(n == 1 ? 0 : at) * cr_dtype_size(dt),
                                                 dt);
                        CHECK(isnan(got), "v%d %s of %s with NaN at %lld: %g", isa, max ? "max" : "min",
                              cr_dtype_name(dt), (long long)at, got);
                    }
                    cr_release(x); cr_release(y);
                }
    best_isa();
    test_ran_on(cr_cpu());
}

/* ---- random numbers: against the definition, word by word */
TEST(random_numbers_are_those_of_the_definition) {
    static const int64_t lengths[] = {1, 2, 3, 5, 511, 512, 513, 8191, 20001};
    EACH_ISA(isa)
        for (int l = 0; l < 9; l++) {
            int64_t n = lengths[l];
            /* also across the counter's end */
            uint64_t seed = 0x123456789abcdefu + (uint64_t)l, counter = l % 2 ? 5 : UINT64_MAX - 3;
            cr_tensor *f = make(n, CR_F32), *d = make(n, CR_F64), *u = make(n, CR_I32), *w = make(n, CR_U64),
                      *h = make(n, CR_BF16), *z = make(n, CR_F32), *zd = make(n, CR_F64);
            OK(cr_cpu_random(&(cr_random_args){f->array, CR_RANDOM_UNIFORM, seed, counter}));
            OK(cr_cpu_random(&(cr_random_args){d->array, CR_RANDOM_UNIFORM, seed, counter}));
            OK(cr_cpu_random(&(cr_random_args){h->array, CR_RANDOM_UNIFORM, seed, counter}));
            OK(cr_cpu_random_integers(&(cr_random_integers_args){w->array, 0, 0, seed, counter}));
            OK(cr_cpu_random_integers(&(cr_random_integers_args){u->array, -5, 1000003, seed, counter}));
            OK(cr_cpu_random(&(cr_random_args){z->array, CR_RANDOM_NORMAL, seed, counter}));
            OK(cr_cpu_random(&(cr_random_args){zd->array, CR_RANDOM_NORMAL, seed, counter}));
            for (int64_t i = 0; i < n; i++) {
                uint32_t a[4], b[4];
                cr_philox(seed, counter + (uint64_t)i / 4, a);
                cr_philox(seed, counter + (uint64_t)i / 2, b);
                uint64_t wide = b[i % 2 * 2] | (uint64_t)b[i % 2 * 2 + 1] << 32;
                double u0 = (double)(a[i % 4 / 2 * 2] >> 8) * 0x1p-24,
                       u1 = (double)(a[i % 4 / 2 * 2 + 1] >> 8) * 0x1p-24, r = sqrt(-2 * log(1 - u0));
                double normal = i % 2 ? r * sin(2 * 3.14159265358979323846 * u1)
                                      : r * cos(2 * 3.14159265358979323846 * u1);
                double d0 = (double)((b[0] | (uint64_t)b[1] << 32) >> 11) * 0x1p-53,
                       d1 = (double)((b[2] | (uint64_t)b[3] << 32) >> 11) * 0x1p-53;
                double wide_normal = sqrt(-2 * log(1 - d0)) * (i % 2 ? sin(2 * 3.14159265358979323846 * d1)
                                                                     : cos(2 * 3.14159265358979323846 * d1));
                int32_t integer = ((int32_t *)cr_data(u))[i];
                float uniform32 = (float)(a[i % 4] >> 8) * 0x1p-24f, half = cr_bf16_to_f32(((uint16_t *)cr_data(h))[i]);
                CHECK(integer == (int32_t)(((wide >> 32) * 1000003 + ((wide & 0xffffffff) * 1000003 >> 32)) >> 32) - 5,
                      "v%d integer %lld of %lld", isa, (long long)i, (long long)n);
                CHECK(((uint64_t *)cr_data(w))[i] == wide, "v%d word %lld of %lld", isa, (long long)i, (long long)n);
                CHECK(((float *)cr_data(f))[i] == uniform32, "v%d uniform %lld of %lld", isa, (long long)i,
                      (long long)n);
                CHECK(((double *)cr_data(d))[i] == (double)(wide >> 11) * 0x1p-53, "v%d f64 uniform %lld of %lld", isa,
                      (long long)i, (long long)n);
                CHECK(half <= uniform32 && uniform32 - half < 0x1p-8f, "v%d bf16 uniform %lld: %g from %g", isa,
                      (long long)i, (double)half, (double)uniform32);
                double got = (double)((float *)cr_data(z))[i], step = ldexp(1, ilogb(normal == 0 ? 1 : normal) - 23);
                CHECK(fabs(got - normal) <= 0.51 * step, "v%d normal %lld of %lld: %.9g, wanted %.17g", isa,
                      (long long)i, (long long)n, got, normal);
                CHECK(fabs(((double *)cr_data(zd))[i] - wide_normal) <= 1e-15 * (1 + fabs(wide_normal)),
                      "v%d f64 normal %lld", isa, (long long)i);
            }
            cr_release(f); cr_release(d); cr_release(u); cr_release(w); cr_release(h); cr_release(z); cr_release(zd);
        }
    best_isa();
    cr_tensor *t = make(3, CR_I32);
    FAILS(CR_BAD_TYPE, "[random] uniform and normal numbers are floats, not int32",
          cr_cpu_random(&(cr_random_args){t->array, CR_RANDOM_UNIFORM, 1, 1}));
    cr_release(t);
    test_ran_on(cr_cpu());
}

/* ---- rows: odd lengths against double, each dtype */
typedef struct row_check { int64_t M, N; cr_dtype dt; } row_check;

static double at(const cr_tensor *t, int64_t i) {
    return cr_load_f64((const char *)cr_tensor_data(t) + (size_t)i * cr_dtype_size(t->dtype), t->dtype);
}
static cr_tensor *numbers(int64_t n, cr_dtype dt, double scale) {
    cr_tensor *t = make(n, dt);
    for (int64_t i = 0; i < n; i++)
        cr_store_f64((char *)cr_data(t) + (size_t)i * cr_dtype_size(dt), dt, uniform() * scale);
    return t;
}

static void check_rows(row_check c) {
    double tolerance = c.dt == CR_F64 ? 1e-13 : c.dt == CR_F32 ? 2e-6 : c.dt == CR_F16 ? 2e-3 : 1.6e-2;
    cr_dtype wide = c.dt == CR_F64 ? CR_F64 : CR_F32;
    cr_tensor *x = numbers(c.M * c.N, c.dt, 5), *w = numbers(c.N, c.dt, 1), *b = numbers(c.N, c.dt, 1),
              *y = make(c.M * c.N, c.dt), *l = make(c.M * c.N, c.dt);
    cr_tensor *n = make(c.M * c.N, c.dt), *mean = make(c.M, wide), *rstd = make(c.M, wide), *loss = make(c.M, wide),
              *lse = make(c.M, wide), *target = make(c.M, CR_I32);
    for (int64_t m = 0; m < c.M; m++) ((int32_t *)cr_data(target))[m] = m == 1 ? -100 : (int32_t)below(c.N);
    OK(cr_cpu_softmax(&(cr_softmax_args){y->array, cr_array_as(&x->array, CR_LIST(c.M, c.N)), false}));
    OK(cr_cpu_softmax(&(cr_softmax_args){l->array, cr_array_as(&x->array, CR_LIST(c.M, c.N)), true}));
    OK(cr_cpu_norm(&(cr_norm_args){n->array, mean->array, rstd->array, cr_array_as(&x->array, CR_LIST(c.M, c.N)),
                                   w->array, b->array, 1e-5}));
    OK(cr_cpu_cross_entropy(&(cr_cross_entropy_args){loss->array, lse->array, cr_array_as(&x->array, CR_LIST(c.M, c.N)),
                                                     target->array, -100, 0.1}));
    for (int64_t m = 0; m < c.M; m++) {
        double largest = -INFINITY, sum = 0, mu = 0, squares = 0;
        for (int64_t i = 0; i < c.N; i++) {
            largest = fmax(largest, at(x, m * c.N + i));
            mu += at(x, m * c.N + i) / (double)c.N;
        }
        for (int64_t i = 0; i < c.N; i++) {
            double v = at(x, m * c.N + i);
            sum += exp(v - largest);
            squares += (v - mu) * (v - mu) / (double)c.N;
        }
        double log_sum = log(sum) + largest, r = 1 / sqrt(squares + 1e-5);
        for (int64_t i = 0; i < c.N; i++) {
            int64_t k = m * c.N + i;
            double p = exp(at(x, k) - log_sum), h = (at(x, k) - mu) * r * at(w, i) + at(b, i);
            CHECK(fabs(at(y, k) - p) <= tolerance * p + (c.dt == CR_F16 ? 3e-8 : 1e-12),
                  "v%d softmax %s (%lld, %lld) at %lld: %g, wanted %g", cr_cpu_isa(), cr_dtype_name(c.dt),
                  (long long)c.M, (long long)c.N, (long long)k, at(y, k), p);
            CHECK(fabs(at(l, k) - log(p)) <= tolerance * 16, "v%d log softmax %s at %lld: %g, wanted %g", cr_cpu_isa(),
                  cr_dtype_name(c.dt), (long long)k, at(l, k), log(p));
            CHECK(fabs(at(n, k) - h) <= tolerance * 8, "v%d norm %s (%lld, %lld) at %lld: %g, wanted %g", cr_cpu_isa(),
                  cr_dtype_name(c.dt), (long long)c.M, (long long)c.N, (long long)k, at(n, k), h);
        }
        int32_t t = ((int32_t *)cr_data(target))[m];
        double e = t < 0 ? 0 : 0.9 * (log_sum - at(x, m * c.N + t)) + 0.1 * (log_sum - mu);
        CHECK(fabs(at(loss, m) - e) <= 1e-5, "v%d cross-entropy %s row %lld: %g, wanted %g", cr_cpu_isa(),
              cr_dtype_name(c.dt), (long long)m, at(loss, m), e);
    }
    ((int32_t *)cr_data(target))[c.M - 1] = (int32_t)c.N;
    FAILS(CR_BAD_INDEX, "is out of range for size",
          cr_cpu_cross_entropy(&(cr_cross_entropy_args){
              loss->array, lse->array, cr_array_as(&x->array, CR_LIST(c.M, c.N)), target->array, -100, 0}));
    cr_tensor *all[] = {x, w, b, y, l, n, mean, rstd, loss, lse, target};
    for (int i = 0; i < 11; i++) cr_release(all[i]);
}

TEST(rows_of_any_length_and_dtype) {
    static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 100, 767, 1023, 1025, 2049, 5003};
    state = test_seed();
    EACH_ISA(isa) {
        for (int i = 0; i < 13; i++)
            for (int dt = CR_F16; dt <= CR_F64; dt++) check_rows((row_check){3, lengths[i], (cr_dtype)dt});
        check_rows((row_check){1, 50257, CR_F32});
        test_ran_on(cr_cpu());
    }
    best_isa();
}

TEST(kernels_without_working_memory_fail_and_leak_nothing) {
    enum { M = 4096, N = 2048, V = 50257 };
    cr_tensor *x = numbers((int64_t)M * N, CR_F32, 1), *y = make(N, CR_F32), *rstd = numbers(M, CR_F32, 1),
              *dw = make(N, CR_F32), *db = make(N, CR_F32);
    cr_tensor *h = make(3 * V, CR_BF16), *p = make(3 * V, CR_BF16);
    OK(cr_cpu_fill(&(cr_fill_args){h->array, (uint16_t[]){0}}));
    cr_empty_cache(cr_cpu());
    cr_memory before = cr_memory_stats(cr_cpu());
    cr_cpu_limit_memory((size_t)(before.current + before.cached));
    FAILS(CR_NO_MEMORY, "out of memory", reduce_dense(CR_REDUCE_SUM, y, x, 1, M, N));
    FAILS(CR_NO_MEMORY, "out of memory",
          cr_cpu_norm_bwd(&(cr_norm_bwd_args){.dw = dw->array,
                                              .db = db->array,
                                              .x = cr_array_as(&x->array, CR_LIST(M, N)),
                                              .mean = rstd->array,
                                              .rstd = rstd->array,
                                              .g = x->array}));
    FAILS(CR_NO_MEMORY, "[softmax] out of memory for rows of 50257 numbers",
          cr_cpu_softmax(&(cr_softmax_args){p->array, cr_array_as(&h->array, CR_LIST(3, V)), false}));
    cr_cpu_limit_memory(0);
    CHECK(cr_memory_stats(cr_cpu()).current == before.current, "%lld bytes leaked",
          (long long)(cr_memory_stats(cr_cpu()).current - before.current));
    OK(reduce_dense(CR_REDUCE_SUM, y, x, 1, M, N));
    cr_tensor *all[] = {x, y, rstd, dw, db, h, p};
    for (int i = 0; i < 7; i++) cr_release(all[i]);
    test_ran_on(cr_cpu());
}

/* ---- the same bits for any number of threads */
static void everything(cr_tensor *result[8]) {
    state = 77;
    int64_t M = 301, N = 1031;
    cr_tensor *x = numbers(M * N, CR_F32, 3), *g = numbers(M * N, CR_F32, 1), *w = numbers(N, CR_F32, 1),
              *mean = make(M, CR_F32), *rstd = make(M, CR_F32), *y = make(M * N, CR_F32);
    for (int i = 0; i < 8; i++) result[i] = make(i < 3 ? 1 : i < 5 ? N : M * N, CR_F32);
    OK(reduce_dense(CR_REDUCE_SUM, result[0], x, 1, M * N, 1));
    OK(reduce_dense(CR_REDUCE_PROD, result[1], x, 1, 1000, 1));
    OK(reduce_dense(CR_REDUCE_MAX, result[2], x, 1, M * N, 1));
    OK(cr_cpu_norm(&(cr_norm_args){y->array, mean->array, rstd->array, cr_array_as(&x->array, CR_LIST(M, N)), w->array,
                                   w->array, 1e-5}));
    OK(cr_cpu_norm_bwd(&(cr_norm_bwd_args){result[5]->array, result[3]->array, result[4]->array,
                                           cr_array_as(&x->array, CR_LIST(M, N)), w->array, mean->array, rstd->array,
                                           g->array, false}));
    OK(reduce_dense(CR_REDUCE_SUM, result[4], y, 1, M, N));
    OK(cr_cpu_softmax(&(cr_softmax_args){result[6]->array, cr_array_as(&x->array, CR_LIST(M, N)), false}));
    OK(cr_cpu_random(&(cr_random_args){result[7]->array, CR_RANDOM_NORMAL, 3, 4}));
    cr_tensor *all[] = {x, g, w, mean, rstd, y};
    for (int i = 0; i < 6; i++) cr_release(all[i]);
}

TEST(bits_do_not_depend_on_the_threads) {
    int threads = cr_num_threads();
    EACH_ISA(isa) {
        cr_tensor *one[8], *many[8];
        OK(cr_set_num_threads(1));
        everything(one);
        for (int n = 2; n < 6; n++) {
            OK(cr_set_num_threads(n));
            everything(many);
            for (int i = 0; i < 8; i++) {
                CHECK(!memcmp(cr_data(one[i]), cr_data(many[i]), (size_t)one[i]->numel * 4),
                      "v%d result %d differs with %d threads", isa, i, n);
                cr_release(many[i]);
            }
        }
        for (int i = 0; i < 8; i++) cr_release(one[i]);
    }
    OK(cr_set_num_threads(threads));
    best_isa();
    test_ran_on(cr_cpu());
}
