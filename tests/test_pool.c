/* test_pool.c - the thread pool: every chunk once, whoever calls, from wherever, with any number of threads. */
#include "test.h"
#include "posix.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/interrupt.h"
#include "core/os.h"
#include "core/pool.h"

enum { MANY = 10007 };                              /* chunks; prime */

typedef struct job {
    atomic_int times[MANY], inside[512];            /* how often each chunk ran; who has each worker number now */
    atomic_int clashes, out_of_range, distinct;
    atomic_int used[512];
} job;

static void count(void *ctx, int64_t chunk, int worker) {
    job *j = ctx;
    if (worker < 0 || worker >= cr_pool_workers()) { j->out_of_range++; return; }
    if (j->inside[worker]++) j->clashes++;
    if (!j->used[worker]++) j->distinct++;
    j->times[chunk]++;
    j->inside[worker]--;
}

static void check_once(const job *j, int chunks, int times, const char *what) {
    for (int i = 0; i < MANY; i++)
        if (j->times[i] != (i < chunks ? times : 0)) {
            CHECK(0, "%s: chunk %d of %d ran %d times", what, i, chunks, j->times[i]);
            return;
        }
    CHECK(!j->clashes && !j->out_of_range, "%s: %d clashes, %d worker numbers out of range", what, j->clashes,
          j->out_of_range);
}

static job shared_job;
static job *fresh_job(void) { memset(&shared_job, 0, sizeof shared_job); return &shared_job; }

TEST(every_chunk_once) {
    static const int threads[] = {1, 2, 3, 5, 13, 2, 1}, chunks[] = {0, 1, 2, 3, 7, 64, 1009, MANY};
    int before = cr_num_threads();
    for (int t = 0; t < 7; t++) {
        OK(cr_set_num_threads(threads[t]));
        CHECK(cr_num_threads() == threads[t], "asked for %d threads, have %d", threads[t], cr_num_threads());
        for (int c = 0; c < 8; c++)
            for (int round = 0; round < 20; round++) {
                job *j = fresh_job();
                cr_pool_run(chunks[c], count, j);
                check_once(j, chunks[c], 1, "one caller");
                CHECK(j->distinct <= threads[t], "%d threads of %d took part", j->distinct, threads[t]);
            }
    }
    OK(cr_set_num_threads(before));
}

/* All threads must be there at once for this to end: the pool is more than one thread. */
typedef struct meeting { atomic_int met; int wanted; } meeting;
static void meet(void *ctx, int64_t chunk, int worker) {
    meeting *m = ctx;
    (void)chunk; (void)worker;
    atomic_fetch_add(&m->met, 1);
    for (double end = cr_os_seconds() + 20; atomic_load(&m->met) < m->wanted && cr_os_seconds() < end; ) cr_os_relax();
}

static bool all_meet(int threads) {
    meeting m = {.wanted = threads};
    const double start = cr_os_seconds();
    cr_pool_run(threads, meet, &m);
    return cr_os_seconds() - start < 20;
}

TEST(chunks_run_at_the_same_time) {
    int before = cr_num_threads();
    OK(cr_set_num_threads(3));
    for (int round = 0; round < 5; round++) {
        CHECK(all_meet(3), "three chunks on three threads did not meet");
        cr_os_sleep(round * 1e-3);                  /* from spinning workers, and from sleeping ones */
    }
    OK(cr_set_num_threads(before));
}

/* The first chunks of two threads, each of which stays in its own until the other has one. */
typedef struct firsts { atomic_int begun; int64_t chunk[2]; } firsts;
static void wait_for_two(void *ctx, int64_t chunk, int worker) {
    firsts *f = ctx;
    (void)worker;
    const int k = atomic_fetch_add(&f->begun, 1);
    if (k < 2) f->chunk[k] = chunk;
    for (double end = cr_os_seconds() + 20; atomic_load(&f->begun) < 2 && cr_os_seconds() < end; ) cr_os_relax();
}

TEST(each_thread_begins_with_its_part) {
    const int before = cr_num_threads();
    OK(cr_set_num_threads(2));
    for (int round = 0; round < 5; round++) {
        firsts parts = {.begun = 0}, order = {.begun = 0};
        cr_pool_run(7, wait_for_two, &parts);
        cr_pool_run_in_order(7, wait_for_two, &order);
        CHECK(parts.chunk[0] + parts.chunk[1] == 3, "began with %lld and %lld of 7, not 0 and 3",
              (long long)parts.chunk[0], (long long)parts.chunk[1]);
        CHECK(order.chunk[0] + order.chunk[1] == 1, "in order: began with %lld and %lld of 7, not 0 and 1",
              (long long)order.chunk[0], (long long)order.chunk[1]);
    }
    OK(cr_set_num_threads(before));
}

static void nested(void *ctx, int64_t chunk, int worker) {
    job *j = ctx;
    (void)chunk; (void)worker;
    cr_pool_run(101, count, j);
}

TEST(nested_runs_on_the_caller) {
    int before = cr_num_threads();
    OK(cr_set_num_threads(4));
    job *j = fresh_job();
    cr_pool_run(53, nested, j);
    check_once(j, 101, 53, "nested");
    OK(cr_set_num_threads(before));
}

/* ---- many callers ---- */
typedef struct caller { job *j; int rounds; } caller;

static void call_often(void *arg) {
    const caller *c = arg;
    for (int i = 0; i < c->rounds; i++) cr_pool_run(1 + i % 17, count, c->j);
}

static void many_callers(int callers, int rounds) {
    cr_thread *threads[200];
    job *j = fresh_job();
    caller c = {j, rounds};
    for (int i = 0; i < callers; i++) threads[i] = cr_thread_start(call_often, &c);
    for (int i = 0; i < 10 * callers; i++) {        /* and the number of threads changes all the while */
        OK(cr_set_num_threads(1 + i % 6));
        cr_pool_run(1 + i % 17, count, j);
    }
    int started = 0;
    for (int i = 0; i < callers; i++) {
        started += threads[i] != NULL;
        cr_thread_join(threads[i]);
    }
    for (int chunk = 0; chunk < 17; chunk++) {
        int want = 0;
        for (int i = 0; i < rounds; i++) want += started * (chunk <= i % 17);
        for (int i = 0; i < 10 * callers; i++) want += chunk <= i % 17;
        CHECK(j->times[chunk] == want, "%d callers: chunk %d ran %d times, wanted %d", callers, chunk, j->times[chunk],
              want);
    }
    CHECK(!j->clashes && !j->out_of_range, "%d callers: %d clashes of worker numbers, %d out of range", callers,
          j->clashes, j->out_of_range);
}

TEST(many_callers) {
    int before = cr_num_threads();
    many_callers(2, 3000);
    many_callers(9, 1000);
    many_callers(150, 100);                         /* more than there are worker numbers for callers */
    OK(cr_set_num_threads(before));
}

/* ---- fork ---- */
#ifdef __SANITIZE_THREAD__                          /* it stops children that start threads, unless told not to */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "die_after_fork=0"; }
#endif

static int child_result(pid_t child) {
    int status = -1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static int in_the_child(void) {
    job *j = fresh_job();
    if (!all_meet(cr_num_threads())) return 5;      /* the parent's workers are gone: there must be new ones */
    cr_pool_run(MANY, count, j);
    for (int i = 0; i < MANY; i++) if (j->times[i] != 1) return 1;
    if (cr_set_num_threads(5) != CR_OK) return 2;
    cr_pool_run(MANY, count, j);
    for (int i = 0; i < MANY; i++) if (j->times[i] != 2) return 3;
    return j->clashes || j->out_of_range ? 4 : 0;
}

TEST(fork_leaves_a_working_pool) {
    POSIX_ONLY("no fork");
    int before = cr_num_threads();
    static const int threads[] = {1, 2, 4};
    for (int t = 0; t < 3; t++) {
        OK(cr_set_num_threads(threads[t]));
        cr_pool_run(101, count, fresh_job());
        if (t == 2) cr_os_sleep(2e-3);              /* once with sleeping workers */
        fflush(stdout);
        pid_t child = fork();
        REQUIRE(child >= 0, "no process could be made");
        if (!child) {
            alarm(60);
            _exit(in_the_child());
        }
        int result = child_result(child);
        CHECK(result == 0, "%d threads: the child ended with %d", threads[t], result);
        job *j = fresh_job();
        cr_pool_run(1009, count, j);
        check_once(j, 1009, 1, "the parent after fork");
    }
    OK(cr_set_num_threads(before));
}

static void call_until(void *arg) {
    atomic_int *stop = arg;
    static job j;
    while (!atomic_load(stop)) cr_pool_run(31, count, &j);
}

TEST(fork_while_others_compute) {
    POSIX_ONLY("no fork");
    int before = cr_num_threads();
    OK(cr_set_num_threads(3));
    atomic_int stop = 0;
    cr_thread *other = cr_thread_start(call_until, &stop);
    for (int round = 0; round < 10; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            alarm(60);
            _exit(in_the_child());
        }
        int result = child_result(child);
        CHECK(result == 0, "round %d: the child ended with %d", round, result);
    }
    atomic_store(&stop, 1);
    cr_thread_join(other);
    OK(cr_set_num_threads(before));
}

TEST(thread_count_is_checked) {
    int before = cr_num_threads();
    FAILS(CR_BAD_VALUE, "[set_num_threads] need 1 to", cr_set_num_threads(0));
    FAILS(CR_BAD_VALUE, "got -3", cr_set_num_threads(-3));
    FAILS(CR_BAD_VALUE, "got 100000", cr_set_num_threads(100000));
    CHECK(cr_num_threads() == before, "a refused number changed it to %d", cr_num_threads());
    CHECK(before >= 1, "%d threads", before);
}

/* CHAINRULE_NUM_THREADS is read once, so each value needs a process of its own. */
TEST(thread_count_from_the_environment) {
    static const struct {
        const char *text;
        int want;
    } cases[] = {{"3", 3}, {"1", 1}, {"99999", 256}, {"0", 0}, {"-2", 0}, {"two", 0}, {"2x", 0}, {"", 0}};
    if (getenv("TEST_POOL_CHILD")) {
        int want = atoi(getenv("TEST_POOL_CHILD"));
        CHECK(cr_num_threads() == (want ? want : cr_os_cpu_count()), "%s gives %d threads",
              getenv("CHAINRULE_NUM_THREADS"), cr_num_threads());
        return;
    }
    NEEDS_ITSELF();
    for (int i = 0; i < 8; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            char want[16];
            snprintf(want, sizeof want, "%d", cases[i].want);
            setenv("TEST_POOL_CHILD", want, 1);
            setenv("CHAINRULE_NUM_THREADS", cases[i].text, 1);
            if (!freopen("/dev/null", "w", stdout)) _exit(99);
            execl("/proc/self/exe", "test_pool", "thread_count_from_the_environment", (char *)NULL);
            _exit(98);
        }
        int result = child_result(child);
        CHECK(result == 0, "CHAINRULE_NUM_THREADS='%s': wanted %d (0: the processors)", cases[i].text, cases[i].want);
    }
}

/* ---- interrupts */
/* yes from the after-th question on */
typedef struct stop { atomic_int asked; int after; atomic_int elsewhere; pthread_t thread; } stop;

static bool says_stop(void *ctx) {
    stop *s = ctx;
    if (!pthread_equal(pthread_self(), s->thread)) atomic_fetch_add(&s->elsewhere, 1);
    return atomic_fetch_add(&s->asked, 1) + 1 >= s->after;
}

static void slow_chunk(void *ctx, int64_t chunk, int worker) {
    (void)chunk; (void)worker;
    cr_os_sleep(1e-3);
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void slow_job(void *ctx) {
    cr_pool_run(100, slow_chunk, ctx);
    if (cr_is_cut()) atomic_store((atomic_int *)ctx, -1);
}

TEST(interrupted_jobs) {
    static const int threads[] = {1, 2, 5};
    const int before = cr_num_threads();
    for (int t = 0; t < 3; t++) {
        OK(cr_set_num_threads(threads[t]));
        stop s = {.after = 3, .thread = pthread_self()};
        atomic_int ran = 0, later = 0, other = 0;
        cr_set_interrupt(says_stop, &s);
        cr_pool_run(100000, slow_chunk, &ran);      /* 20 to 100 s */
        CHECK(ran > 0 && ran < 10000, "%d threads: %d chunks ran", threads[t], ran);
        cr_pool_run(10, slow_chunk, &later);
        CHECK(later == 0, "%d threads: a later job of the same op ran", threads[t]);
        CHECK(cr_is_cut() && s.asked >= 3 && s.elsewhere == 0, "%d threads: asked %d times, %d of them elsewhere",
              threads[t], s.asked, s.elsewhere);
        /* of another caller: asks for itself, and is not cut short */
        cr_thread *neighbour = cr_thread_start(slow_job, &other);
        cr_set_interrupt(NULL, NULL);
        cr_thread_join(neighbour);
        CHECK(other != 0, "%d threads: another caller's job did nothing", threads[t]);
        FAILS(CR_INTERRUPTED, "[job] interrupted", cr_finished("job", CR_OK));
        OK(cr_finished("job", CR_OK));
        cr_pool_run(10, slow_chunk, &later);
        CHECK(later == 10, "%d threads: after an interrupt %d of 10 chunks ran", threads[t], later);
    }
    OK(cr_set_num_threads(before));
}

/* Every kind of long call fails so, and the library works on. */
static bool at_once(void *ctx) { (void)ctx; return true; }
static cr_tensor *cube(int n, const cr_tensor *const *in, void *ctx) {
    (void)n;
    (void)ctx;
    return cr_mul(cr_mul(in[0], in[0]), in[0]);
}

static cr_tensor *big, *zeros;                      /* matrices: f32, i64 */
static void call_add(void) { cr_release(cr_add(big, big)); }
static void call_add_in_place(void) { cr_add_(big, big); }
static void call_matmul(void) { cr_release(cr_matmul(big, big)); }
static void call_softmax(void) { cr_release(cr_softmax(big, 1)); }
static void call_layer_norm(void) { cr_release(cr_layer_norm(big, CR_NONE, CR_NONE, 1e-5)); }
static void call_cross_entropy(void) { cr_release(cr_cross_entropy(big, cr_select(zeros, 1, 0), NULL)); }
static void call_sort(void) { cr_release(cr_sort(big, 1, false, NULL)); }
static void call_sum(void) { cr_release(cr_sum(big, CR_LIST(0), false)); }
static void call_clone(void) { cr_release(cr_clone(cr_transpose(big, 0, 1))); }
static void call_fill(void) { cr_fill_(big, 1); }
static void call_cast(void) { cr_release(cr_to(big, CR_F64, cr_device_of(big))); }
static void call_randn(void) {
    cr_release(cr_randn(CR_LIST(2048, 2048), CR_F32, cr_device_of(big), cr_default_generator()));
}
static void call_arange(void) { cr_release(cr_arange(0, 4e6, 1, CR_F32, cr_cpu())); }
static void call_gather(void) { cr_release(cr_gather(big, 0, zeros)); }
static void call_from(void) {
    enum { BYTES = 100 << 20 };
    void *memory = calloc(BYTES, 1);
    cr_release(cr_from(memory, CR_LIST(BYTES), CR_U8, cr_cpu()));
    free(memory);
}
static void call_gradcheck(void) {
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(100), CR_F64, cr_cpu()), true);
    cr_gradcheck(cube, NULL, 1, (const cr_tensor *[]){x}, NULL);
}
static void call_backward(void) {                   /* a chain of small ops: built without a question, walked with
                                                     * one */
    cr_tensor *x = cr_requires_grad_(cr_ones(CR_LIST(3), CR_F32, cr_cpu()), true), *y = x;
    for (int i = 0; i < 1000; i++) y = cr_mul_scalar(y, 1);
    if (!cr_error()) cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL);
    CHECK(cr_is_none(cr_grad(x)), "an interrupted walk reached the leaf");
}
static void call_backward_of_one(void) {
    cr_tensor *x = cr_requires_grad_(cr_detach(big), true), *y = NULL;
    cr_set_interrupt(NULL, NULL);
    y = cr_sum(cr_softmax(x, 1), CR_ALL, false);
    cr_set_interrupt(at_once, NULL);
    cr_backward(y, CR_NONE, NULL);
}

TEST(interrupted_ops) {
    enum { HOST = 1, ROW = 2 };                     /* only on the cpu; also in one long row, which is one chunk */
    static const struct { const char *name; void (*call)(void); int where;
    } calls[] = {
        {"add", call_add, 0},
        {"add_", call_add_in_place, 0},
        {"matmul", call_matmul, 0},
        {"softmax", call_softmax, ROW},
        {"layer_norm", call_layer_norm, ROW},
        {"cross_entropy", call_cross_entropy, ROW},
        {"sort", call_sort, ROW},
        {"sum", call_sum, 0},
        {"clone", call_clone, 0},
        {"fill_", call_fill, 0},
        {"cast", call_cast, 0},
        {"randn", call_randn, 0},
        {"arange", call_arange, HOST},
        {"gather", call_gather, 0},
        {"from", call_from, HOST},
        {"gradcheck", call_gradcheck, HOST},
        {"backward of a chain", call_backward, HOST},
        {"backward of softmax", call_backward_of_one, ROW},
    };
    static const struct { int threads; int64_t rows, columns; bool ref; } settings[] = {
        {1, 2048, 2048, false}, {2, 2048, 2048, false}, {2, 1, 1 << 22, false}, {1, 256, 256, true},
    };
    const int before = cr_num_threads();
    for (int t = 0; t < 4; t++) {
        const cr_device *dev = settings[t].ref ? cr_ref() : cr_cpu();
        const int64_t rows = settings[t].rows, columns = settings[t].columns;
        OK(cr_set_num_threads(settings[t].threads));
        cr_scope_begin();
        big = cr_ones(CR_LIST(rows, columns), CR_F32, dev);
        zeros = cr_zeros(CR_LIST(rows, columns), CR_I64, dev);
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            if ((rows == 1 && !(calls[i].where & ROW)) || (settings[t].ref && calls[i].where & HOST)) continue;
            /* a short one may be over before this thread asks */
            for (int attempt = 0; attempt < 20 && !cr_error(); attempt++) {
                cr_os_sleep(0.021);                 /* the next question may be asked */
                cr_set_interrupt(at_once, NULL);
                calls[i].call();
                cr_set_interrupt(NULL, NULL);
            }
            CHECK(cr_error_status() == CR_INTERRUPTED && strstr(cr_error(), "interrupted"),
                  "%s of %lld rows on %s, %d threads: %s", calls[i].name, (long long)rows, cr_device_name(dev),
                  settings[t].threads, cr_error() ? cr_error() : "went on");
            CHECK(!cr_is_cut(), "%s leaves the thread cut short", calls[i].name);
            cr_error_clear();
            cr_fill_(big, 2);
            CHECK(cr_item(cr_mean(big, CR_ALL, false)) == 2, "after %s: %s", calls[i].name, cr_error());
        }
        cr_scope_end();
    }
    OK(cr_set_num_threads(before));
}

/* One that is never told to stop is not changed, nor is one whose answer takes work of the library's own. */
static bool works_meanwhile(void *ctx) {
    cr_tensor *y = cr_add(big, big);
    *(double *)ctx += cr_item(cr_mean(y, CR_ALL, false));
    cr_release(y);
    return false;
}

TEST(asked_in_vain) {
    cr_scope_begin();
    big = cr_ones(CR_LIST(512, 512), CR_F32, cr_cpu());
    double sum = 0;
    cr_set_interrupt(works_meanwhile, &sum);
    for (int i = 0; i < 200; i++) {
        cr_tensor *y = cr_matmul(big, big);
        CHECK(cr_item(cr_mean(y, CR_ALL, false)) == 512, "a product that was asked about: %g",
              cr_item(cr_mean(y, CR_ALL, false)));
        cr_release(y);
    }
    cr_set_interrupt(NULL, NULL);
    CHECK(sum >= 2 && fmod(sum, 2) == 0, "the answers' own work: %g", sum);
    cr_scope_end();
    test_ran_on(cr_cpu());
}

TEST(pieces) {
    CHECK(cr_pieces(0, 5) == 1 && cr_pieces(5, 5) == 1 && cr_pieces(6, 5) == 2 && cr_pieces(1000, 7) == 143,
          "cr_pieces");
}
