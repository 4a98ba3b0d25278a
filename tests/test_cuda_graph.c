/* test_cuda_graph.c - the kernels of a replay, launched as one: a plan on a simulated NVIDIA GPU has the bits of the
 * step itself, from the run on in which its kernels become a graph. */
#define CR_TEST_CUDA
#include "test.h"

#if defined CHAINRULE_CUDASIM && !defined CUDASIM_SANITIZER
#include "folder.h"
#include "plan_net.h"
#include "core/os.h"
#include "cudasim/control.h"

static const cudasim_counters *(*count)(void);
static int (*fail_at)(const char *what, int k);
static void (*eager)(int streams);

static bool simulated(void) {
    return test_simulator("cudasim_count", &count) && test_simulator("cudasim_fail", &fail_at) &&
           test_simulator("cudasim_eager", &eager);
}

enum { RECORDED = 1, WATCHED, NOTED, STEPS = 7 };   /* steps: eager, recorded, kernels one by one, a graph */

/* before(step): what goes wrong in a step. */
static void trains_alike(cr_optim_kind kind, void (*before)(int step)) {
    const cr_device *dev = dev_now = cr_cuda(0);
    cr_scope_begin();
    net a = net_new(dev, kind), b = net_new(dev, kind);
    cr_plan *plan = NULL;
    for (int step = 0; step < STEPS; step++) {
        cr_scope_begin();
        if (step == 4) OK(cr_optim_set_lr(a.opt, 3e-3));
        if (step == 4) OK(cr_optim_set_lr(b.opt, 3e-3));
        const cr_tensor *in[] = {batch(dev, step), targets(dev, step)};
        cr_tensor *loss = net_step(&a, in[0], in[1]), *other = NULL;
        OK(cr_synchronize(dev));
        const cudasim_counters then = *count();
        if (step == RECORDED) OK(cr_record_begin(2, in));
        if (step <= RECORDED) other = net_step(&b, in[0], in[1]);
        if (step == RECORDED) plan = cr_record_end(1, (const cr_tensor *const *)&other);
        if (before) before(step);
        if (step > RECORDED) OK(cr_plan_run(plan, in, &other));
        const cudasim_counters now = *count();
        const long long one_by_one = now.launches - now.graph_launches - then.launches + then.graph_launches;
        if (!before && step >= NOTED)
            CHECK(now.graphs - then.graphs == 1 && !one_by_one, "step %d: %lld graphs, %lld kernels one by one", step,
                  now.graphs - then.graphs, one_by_one);
        if (!before && step > NOTED)
            CHECK(2 * (now.noted - then.noted) < now.launches - then.launches, "step %d: %lld of %lld kernels are new",
                  step, now.noted - then.noted, now.launches - then.launches);
        CHECK(other && same_bits(loss, other), "the loss of step %d differs", step);
        same_nets(&a, &b, "after a step");
        cr_scope_end();
        test_ran_on(dev);
    }
    cr_plan_free(plan);
    net_free(&a), net_free(&b);
    cr_scope_end();
}

TEST(training) {
    if (!simulated()) SKIP("no simulator");
    for (int streams = 0; streams < 4; streams++) {
        eager(streams);
        trains_alike(CR_ADAMW, NULL);
    }
    eager(0);
    trains_alike(CR_SGD, NULL);
}

/* ---- temporaries of the GPU lie in one arena, views of the host anywhere in their storage: what moves between them */
static cr_tensor *both_sides(const cr_tensor *const *in) {
    const cr_device *dev = cr_device_of(in[0]);
    cr_tensor *first = cr_cumsum(cr_softmax(in[0], 0), 0), *tenth = cr_to(cr_scalar(0.1), CR_F32, cr_cpu());
    cr_tensor *second = cr_mul(cr_to(in[1], CR_F32, dev), cr_to(tenth, CR_F32, dev));
    return cr_sub(first, cr_to(cr_to(cr_exp(second), CR_F32, cr_cpu()), CR_F32, dev));
}

TEST(transfers) {
    const bool counting = simulated();
    const cr_device *dev = cr_cuda(0);
    cr_scope_begin();
    cr_tensor *host = cr_arange(0, 40, 1, CR_F32, cr_cpu()), *x = cr_to(cr_slice(host, 0, 3, 12, 1), CR_F32, dev);
    const cr_tensor *in[] = {x, cr_slice(host, 0, 1, 10, 1)};
    OK(cr_record_begin(2, in));
    cr_tensor *y = both_sides(in);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    REQUIRE(p, "%s", cr_error());
    for (int i = 0; i < 6; i++) {
        const cr_tensor *other[] = {x, cr_slice(host, 0, 1 + 3 * i, 10 + 3 * i, 1)};
        cr_tensor *z = NULL;
        const long long graphs = counting ? count()->graphs : 0;
        OK(cr_plan_run(p, other, &z));
        if (counting && i) CHECK(count()->graphs == graphs + 1, "run %d: %lld graphs", i, count()->graphs - graphs);
        CHECK(z && same_bits(both_sides(other), z), "run %d differs", i);
    }
    cr_plan_free(p);
    cr_scope_end();
}

/* ---- what goes wrong: the driver makes no graph, or has no room for it; a profile begins in between */
static void no_graph(int step) { if (step == NOTED) fail_at("graph", 1); }
static void no_room(int step) { if (step == NOTED) fail_at("room", 1); }
static void traced(int step) {
    if (step == NOTED + 1) OK(cr_profile_begin());
    if (step == NOTED + 2) OK(cr_profile_end(folder_path("trace.json")));
}
TEST(refused) {
    if (!simulated()) SKIP("no simulator");
    trains_alike(CR_ADAMW, no_graph);
    trains_alike(CR_ADAMW, no_room);
    trains_alike(CR_ADAMW, traced);
}

/* ---- a bad index is reported as ever, by each run that has one */
TEST(faults) {
    if (!simulated()) SKIP("no simulator");
    const cr_device *dev = cr_cuda(0);
    cr_scope_begin();
    cr_tensor *table = cr_ones(CR_LIST(5, 3), CR_F32, dev);
    const int64_t good[] = {1, 4}, bad[] = {1, 5};
    cr_tensor *const index = cr_from(good, CR_LIST(2), CR_I64, dev);
    const cr_tensor *in = index, *right = cr_from(good, CR_LIST(2), CR_I64, dev),
                    *wrong = cr_from(bad, CR_LIST(2), CR_I64, dev);
    cr_tensor *y = NULL;
    OK(cr_record_begin(1, &in));
    y = cr_mul_scalar(cr_exp(cr_embedding(table, in)), 2);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    REQUIRE(p, "%s", cr_error());
    for (int i = 0; i < 8; i++) {
        cr_copy_(index, i % 2 ? wrong : right);
        OK(cr_plan_run(p, &in, &y));
        const cr_status status = cr_synchronize(dev);
        CHECK((status == CR_BAD_INDEX) == (i % 2 == 1), "run %d: %s", i, cr_error() ? cr_error() : "no error");
        if (status != CR_OK) CHECK(strstr(cr_error(), "index 5 at position 1"), "%s", cr_error());
        cr_error_clear();
        cr_drop(y);
    }
    cr_plan_free(p);
    cr_scope_end();
}

/* ---- scratch memory and temporaries of a graph are its own: what is allocated between runs stays as it is */
TEST(memory_between_runs) {
    if (!simulated()) SKIP("no simulator");
    const cr_device *dev = cr_cuda(0);
    enum { N = 3000, MOST = 16 };
    cr_scope_begin();
    cr_generator *g = cr_generator_new(3);
    const int64_t before = cr_memory_stats(dev).current;
    const cr_tensor *x = cr_randn(CR_LIST(N), CR_F32, dev, g);
    OK(cr_record_begin(1, &x));
    cr_tensor *y = cr_sum(cr_cumsum(cr_sort(x, 0, false, NULL), 0), CR_ALL, false);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    REQUIRE(p, "%s", cr_error());
    int64_t held = 0;
    static float numbers[MOST][4 * N];
    for (int k = 0; k < MOST; k++)
        for (int i = 0; i < 4 * N; i++) numbers[k][i] = (float)k;
    for (int i = 0; i < 40; i++) {
        cr_scope_begin();
        cr_tensor *between[MOST], *z = NULL;
        for (int k = 0; k < MOST; k++)
            between[k] = k > i ? NULL : cr_from(numbers[k], CR_LIST(N * (k % 4 + 1)), CR_F32, dev);
        OK(cr_plan_run(p, &x, &z));
        CHECK(same_bits(y, z), "run %d differs", i);
        for (int k = 0; k < MOST && between[k]; k++)
            CHECK(cr_item(cr_sum(cr_ne(between[k], cr_scalar(k)), CR_ALL, false)) == 0, "run %d wrote into tensor %d",
                  i, k);
        cr_drop(z);
        cr_scope_end();
        if (i == MOST) held = cr_memory_stats(dev).current;
        if (i > MOST) CHECK(cr_memory_stats(dev).current == held, "run %d: %lld bytes, not %lld", i,
                         (long long)cr_memory_stats(dev).current, (long long)held);
    }
    cr_plan_free(p);
    cr_generator_free(g);
    cr_scope_end();
    CHECK(cr_memory_stats(dev).current == before, "a plan that is freed keeps its memory");
}

/* ---- inputs that arrive from the host before each run, and views of one tensor */
TEST(inputs) {
    if (!simulated()) SKIP("no simulator");
    const cr_device *dev = cr_cuda(0);
    enum { N = 64 };
    for (int streams = 0; streams < 4; streams++) {
        eager(streams);
        cr_scope_begin();
        const float numbers[2 * N] = {1};
        const cr_tensor *in = cr_from(numbers, CR_LIST(N), CR_F32, dev);
        OK(cr_record_begin(1, &in));
        cr_tensor *y = cr_sum(cr_exp(cr_mul(in, in)), CR_ALL, false);
        cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
        REQUIRE(p, "%s", cr_error());
        cr_tensor *both = cr_zeros(CR_LIST(2 * N), CR_F32, dev);
        for (int i = 0; i < 12; i++) {
            cr_scope_begin();
            float own[N];
            for (int k = 0; k < N; k++) own[k] = (float)(i + k % 3) / 16;
            const int64_t at = i % 2 * N;
            cr_tensor *x = cr_from(own, CR_LIST(N), CR_F32, dev), *view = cr_slice(both, 0, at, at + N, 1);
            if (i >= 6) cr_copy_(view, x);
            const cr_tensor *given = i < 6 ? x : view;
            const long long graphs = count()->graphs;
            OK(cr_plan_run(p, &given, &y));
            CHECK(count()->graphs == graphs + (i > 0), "run %d with streams %d is no graph", i, streams);
            cr_tensor *want = cr_sum(cr_exp(cr_mul(given, given)), CR_ALL, false);
            CHECK(same_bits(y, want), "run %d with streams %d differs", i, streams);
            cr_drop(y);
            cr_scope_end();
        }
        cr_plan_free(p);
        cr_scope_end();
    }
    eager(0);
}

/* An error of earlier work ends a run before its graph is noted: the next run has its own inputs all the same. */
TEST(inputs_after_a_failure) {
    if (!simulated()) SKIP("no simulator");
    const cr_device *dev = cr_cuda(0);
    enum { N = 64, MANY = 200 };                    /* more kernels that may fail than a graph wants to have pending */
    cr_scope_begin();
    cr_tensor *x[2] = {cr_ones(CR_LIST(N), CR_F32, dev), cr_full(CR_LIST(N), 2, CR_F32, dev)};
    const cr_tensor *in = x[0];
    OK(cr_record_begin(1, &in));
    cr_tensor *y = cr_sum(cr_exp(cr_mul(in, in)), CR_ALL, false);
    cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
    REQUIRE(p, "%s", cr_error());
    for (int i = 0; i < 3; i++) OK(cr_plan_run(p, &in, &y));
    const int64_t bad = 9;
    cr_tensor *index = cr_from(&bad, CR_LIST(1), CR_I64, dev), *table = cr_ones(CR_LIST(5, 3), CR_F32, dev);
    for (int i = 0; i < MANY; i++) (void)cr_embedding(table, index);
    in = x[1];
    CHECK(cr_plan_run(p, &in, &y) == CR_BAD_INDEX, "the earlier fault: %s", cr_error() ? cr_error() : "no error");
    cr_error_clear();
    while (cr_synchronize(dev) != CR_OK) cr_error_clear();
    OK(cr_plan_run(p, &in, &y));
    CHECK(same_bits(y, cr_sum(cr_exp(cr_mul(in, in)), CR_ALL, false)), "the graph has the input of an earlier run");
    cr_plan_free(p);
    cr_scope_end();
}

/* ---- elementwise kernels that follow each other are one launch */
TEST(chains) {
    if (!simulated()) SKIP("no simulator");
    static const cr_dtype dtypes[] = {CR_F32, CR_F16, CR_BF16};
    const cr_device *dev = cr_cuda(0);
    for (int d = 0; d < 3; d++) {
        long long launches[2];
        for (int off = 0; off < 2; off++) {
            cr_scope_begin();
            cr_generator *g = cr_generator_new(4);
            OK(cr_switch_set("PLAN", off ? "fuse,graph" : "graph"));
            const cr_tensor *in[] = {cr_randn(CR_LIST(37, 29), CR_F32, dev, g), cr_randn(CR_LIST(29), CR_F32, dev, g)},
                            *other[] = {cr_randn(CR_LIST(37, 29), CR_F32, dev, g), in[1]};
            OK(cr_record_begin(2, in));
            cr_tensor *y = chained(in, dtypes[d]), *z = NULL;
            cr_plan *p = cr_record_end(1, (const cr_tensor *const *)&y);
            REQUIRE(p, "%s", cr_error());
            launches[off] = count()->launches;
            OK(cr_plan_run(p, other, &z));
            launches[off] = count()->launches - launches[off];
            CHECK(z && same_bits(chained(other, dtypes[d]), z), "%s, chains %s", cr_dtype_name(dtypes[d]),
                  off ? "off" : "on");
            cr_plan_free(p);
            cr_generator_free(g);
            cr_scope_end();
            test_ran_on(dev);
        }
        CHECK(3 * launches[0] <= launches[1], "%s: %lld launches, %lld without chains", cr_dtype_name(dtypes[d]),
              launches[0], launches[1]);
    }
    OK(cr_switch_set("PLAN", NULL));
}

/* ---- text: the position is an input of the plan, and the step of a token is one graph, from the fifth token on */
enum { TOKENS = 12, VOCABULARY = 11 };
typedef struct rows { int n; double row[TOKENS][VOCABULARY]; long long graphs; } rows;

static bool keep_row(const uint32_t *ids, int64_t n, double *row, int64_t columns, void *ctx) {
    rows *r = ctx;
    (void)ids, (void)n;
    memcpy(r->row[r->n++], row, sizeof *row * (size_t)columns);
    return true;
}

static bool go_on(uint32_t id, void *ctx) { (void)id, (void)ctx; return true; }

TEST(generation) {
    if (!simulated()) SKIP("no simulator");
    const cr_device *dev = cr_cuda(0);
    static rows found[2];
    const uint32_t prompt[] = {3, 1, 4};
    cr_generator *g = cr_generator_new(5);
    const cr_gpt_config c = {.vocabulary = VOCABULARY, .context = 32, .layers = 2, .heads = 2, .width = 16};
    cr_gpt *m = cr_gpt_new(&c, CR_F32, dev, g);
    REQUIRE(m, "%s", cr_error());
    for (int plan = 0; plan < 2; plan++) {
        const long long graphs = count()->graphs;
        const cr_sampling s = {.top_p = 1, .adjust = keep_row, .adjust_ctx = &found[plan]};
        if (!plan) OK(cr_record_begin(0, NULL));    /* no plan runs inside a recording */
        if (!plan) cr_record_lenient();
        OK(cr_gpt_generate(m, prompt, 3, TOKENS, &s, g, go_on, NULL));
        if (!plan) cr_record_cancel();
        found[plan].graphs = count()->graphs - graphs;
    }
    CHECK(!found[0].graphs && found[1].graphs == TOKENS - 4, "%lld and %lld graphs", found[0].graphs, found[1].graphs);
    for (int i = 0; i < TOKENS; i++)
        CHECK(!memcmp(found[0].row[i], found[1].row[i], sizeof found[0].row[i]), "the logits of token %d differ", i);
    cr_gpt_free(m);
    cr_generator_free(g);
    test_ran_on(dev);
}

/* ---- two threads, a plan each, and a third that works without one */
typedef struct job { int seed; bool plain; } job;
static void work(void *ctx) {
    const job *j = ctx;
    const cr_device *dev = cr_cuda(0);
    cr_scope_begin();
    const cr_tensor *in = batch(dev, j->seed);
    cr_tensor *want = cr_sum(cr_gelu(cr_mul(in, in)), CR_LIST(1), false), *y = NULL;
    cr_plan *p = NULL;
    if (!j->plain) {
        OK(cr_record_begin(1, &in));
        y = cr_sum(cr_gelu(cr_mul(in, in)), CR_LIST(1), false);
        p = cr_record_end(1, (const cr_tensor *const *)&y);
    }
    for (int i = 0; i < 30; i++) {
        cr_scope_begin();
        if (p) OK(cr_plan_run(p, &in, &y));
        else y = cr_sum(cr_gelu(cr_mul(in, in)), CR_LIST(1), false);
        CHECK(same_bits(y, want), "thread %d, run %d", j->seed, i);
        if (p) cr_drop(y);
        cr_scope_end();
    }
    cr_plan_free(p);
    cr_scope_end();
}
TEST(threads) {
    if (!simulated()) SKIP("no simulator");
    job jobs[] = {{1, false}, {2, false}, {3, true}};
    cr_thread *threads[3];
    for (int i = 0; i < 3; i++) threads[i] = cr_thread_start(work, &jobs[i]);
    for (int i = 0; i < 3; i++) cr_thread_join(threads[i]);
}
#else
TEST(training) { SKIP("kernels are counted by the simulator without sanitizers"); }
#endif
