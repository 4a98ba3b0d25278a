/* test_pool.c - the thread pool: every chunk once, whoever calls, from wherever, with any number of threads. */
#include "test.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

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
    CHECK(!j->clashes && !j->out_of_range, "%s: %d clashes, %d worker numbers out of range", what, j->clashes, j->out_of_range);
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

/* Both threads must be there at once for this to end: the pool is more than one thread. */
static void meet(void *ctx, int64_t chunk, int worker) {
    atomic_int *met = ctx;
    (void)chunk; (void)worker;
    atomic_fetch_add(met, 1);
    for (double end = cr_os_seconds() + 20; atomic_load(met) < 3 && cr_os_seconds() < end; ) cr_os_relax();
}

TEST(chunks_run_at_the_same_time) {
    int before = cr_num_threads();
    OK(cr_set_num_threads(3));
    for (int round = 0; round < 5; round++) {
        atomic_int met = 0;
        double start = cr_os_seconds();
        cr_pool_run(3, meet, &met);
        CHECK(cr_os_seconds() - start < 20, "three chunks on three threads did not meet");
        cr_os_sleep(round * 1e-3);                  /* from spinning workers, and from sleeping ones */
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
        CHECK(j->times[chunk] == want, "%d callers: chunk %d ran %d times, wanted %d", callers, chunk, j->times[chunk], want);
    }
    CHECK(!j->clashes && !j->out_of_range, "%d callers: %d clashes of worker numbers, %d out of range", callers, j->clashes, j->out_of_range);
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
    cr_pool_run(MANY, count, j);
    for (int i = 0; i < MANY; i++) if (j->times[i] != 1) return 1;
    if (cr_set_num_threads(5) != CR_OK) return 2;
    cr_pool_run(MANY, count, j);
    for (int i = 0; i < MANY; i++) if (j->times[i] != 2) return 3;
    return j->clashes || j->out_of_range ? 4 : 0;
}

TEST(fork_leaves_a_working_pool) {
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
    static const struct { const char *text; int want; } cases[] = {{"3", 3}, {"1", 1}, {"99999", 256}, {"0", 0}, {"-2", 0}, {"two", 0}, {"2x", 0}, {"", 0}};
    if (getenv("TEST_POOL_CHILD")) {
        int want = atoi(getenv("TEST_POOL_CHILD"));
        CHECK(cr_num_threads() == (want ? want : cr_os_cpu_count()), "%s gives %d threads", getenv("CHAINRULE_NUM_THREADS"), cr_num_threads());
        return;
    }
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

TEST(pieces) {
    CHECK(cr_pieces(0, 5) == 1 && cr_pieces(5, 5) == 1 && cr_pieces(6, 5) == 2 && cr_pieces(1000, 7) == 143, "cr_pieces");
}
