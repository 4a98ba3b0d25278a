/* pool.c - the thread pool.  One job at a time uses the worker threads; other callers meanwhile, and
 * calls from inside a chunk, run their job on their own thread.  It is deliberately not a task
 * scheduler: no queue, no stealing, no priorities.
 *
 * A job is published by raising `epoch` and opening `gate`.  gate counts the threads inside the job.
 * A worker enters only while the OPEN bit is set, in one compare-and-swap: after the caller has
 * cleared the bit and the count is 0, no thread can touch the job, and a worker that the system does
 * not run never delays the caller.
 *
 * Chunks lie in parts, one per thread.  A thread begins with its own part and continues with the rest
 * of the others, so that in consecutive jobs it meets the same part of an array, in its own cache:
 * processors often share no cache. */
#include "pool.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "config.h"
#include "interrupt.h"
#include "os.h"

enum {
    MAX_THREADS = 256,                              /* of one job, the caller included */
    CALLERS = 64,                                   /* threads that may be inside cr_pool_run at once; more have to
                                                     * wait */
    OPEN = 1 << 30,                                 /* bits of gate, above the count */
    CALLER_SLEEPS = 1 << 29
};
static const double spin_seconds = 100e-6;          /* a few futex round trips; the next job of a step, or of a token
                                                     * that Python asks for, comes sooner */

/* Worker numbers: 0 .. CALLERS - 1 belong to calling threads, those above to the pool's own. */
int cr_pool_workers(void) { return CALLERS + MAX_THREADS - 1; }

#define OWN_LINE _Alignas(64)                       /* a cache line of its own: others spin on the neighbours */
static struct pool {
    OWN_LINE atomic_int busy;                       /* held by the thread whose job has the workers */
    OWN_LINE volatile int epoch;                    /* raised for each job; sleeping workers wait on it */
    OWN_LINE volatile int gate;                     /* OPEN | CALLER_SLEEPS | threads inside */
    OWN_LINE atomic_bool cut;                       /* interrupted: no further chunk is claimed */
    OWN_LINE void (*fn)(void *ctx, int64_t chunk, int worker);      /* written only while the gate is shut and empty */
    void *ctx;
    int64_t chunks;
    int parts;
    OWN_LINE volatile int sleepers;
    atomic_int wanted;                              /* cr_num_threads; 0: not asked yet */
    /* used only by the holder of busy: */
    int started_for;                                /* the value of `wanted` that the workers were started for */
    int workers;                                    /* running now: started_for - 1, or fewer where no thread could
                                                     * be made */
    int lost;                                       /* handles of threads that a fork left behind */
    atomic_int limit;                               /* workers with an index from here on end */
    cr_thread *threads[MAX_THREADS];
} pool;

/* the chunks of a part that are not claimed */
static struct { OWN_LINE atomic_llong next; int64_t end; } parts[MAX_THREADS];
static struct { OWN_LINE atomic_int taken; } callers[CALLERS];
static _Thread_local int my_number = -1;            /* worker number of the job this thread is in */
static _Thread_local int my_slot;                   /* where this thread found a free caller's number last */

/* ---- worker numbers of calling threads ---- */

/* Returns a free number.  If there is none the thread waits: chunks never wait for other threads, so
 * one becomes free. */
static int take_number(void) {
    for (int round = 0; ; round++) {
        for (int i = 0; i < CALLERS; i++) {
            int slot = (my_slot + i) % CALLERS;
            if (!atomic_load_explicit(&callers[slot].taken, memory_order_relaxed) &&
                !atomic_exchange(&callers[slot].taken, 1))
                return my_slot = slot;
        }
        if (round < 10) cr_os_relax();
        else cr_os_sleep(50e-6);
    }
}

static void give_number(int slot) { atomic_store_explicit(&callers[slot].taken, 0, memory_order_release); }

/* ---- the workers ---- */

/* Waits until *word != value: spins for a moment, then returns false. */
static bool spin_while(volatile int *word, int value) {
    double end = 0;
    for (int i = 1; __atomic_load_n(word, __ATOMIC_SEQ_CST) == value; i++) {
        cr_os_relax();
        if (i % 32) continue;
        double now = cr_os_seconds();
        if (end == 0) end = now + spin_seconds;
        else if (now > end) return false;
    }
    return true;
}

/* Only the calling thread asks whether to stop: between chunks, inside long ones, and while it waits. */
static bool stops(int worker) { return worker < CALLERS && cr_stop_asked(); }
static void cut_job(void) { atomic_store(&pool.cut, true); }
static bool is_cut(void) { return atomic_load_explicit(&pool.cut, memory_order_relaxed); }
bool cr_pool_stopped(void) { return my_number < CALLERS ? cr_stop_asked() : is_cut(); }

static void claim_chunks(int worker) {
    const int own = worker < CALLERS ? 0 : worker - CALLERS + 1;
    for (int k = 0; k < pool.parts; k++) {
        const int part = (own + k) % pool.parts;
        for (int64_t i; !is_cut() && (i = atomic_fetch_add(&parts[part].next, 1)) < parts[part].end; ) {
            pool.fn(pool.ctx, i, worker);
            if (i + 1 < pool.chunks && stops(worker)) cut_job();
        }
    }
}

static bool enter_gate(void) {
    int g = __atomic_load_n(&pool.gate, __ATOMIC_SEQ_CST);
    while (g & OPEN)
        if (__atomic_compare_exchange_n(&pool.gate, &g, g + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return true;
    return false;
}

static void leave_gate(void) {
    int before = __atomic_fetch_sub(&pool.gate, 1, __ATOMIC_SEQ_CST);
    if (before == (CALLER_SLEEPS | 1)) cr_os_wake_all(&pool.gate);
}

/* Sleepers are counted before the epoch is looked at again, and the publisher raises the epoch before
 * it looks at the count: one of the two sees the other. */
static void wait_for_job(int seen) {
    if (spin_while(&pool.epoch, seen)) return;
    __atomic_fetch_add(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&pool.epoch, __ATOMIC_SEQ_CST) == seen) cr_os_sleep_on(&pool.epoch, seen, 0);
    __atomic_fetch_sub(&pool.sleepers, 1, __ATOMIC_SEQ_CST);
}

static void worker_main(void *arg) {
    int index = (int)(intptr_t)arg;
    my_number = CALLERS + index;
    for (;;) {
        int seen = __atomic_load_n(&pool.epoch, __ATOMIC_SEQ_CST);
        if (index >= atomic_load(&pool.limit)) return;
        if (enter_gate()) {
            claim_chunks(my_number);
            leave_gate();
        }
        wait_for_job(seen);
    }
}

static void raise_epoch(void) { __atomic_fetch_add(&pool.epoch, 1, __ATOMIC_SEQ_CST); }

/* In the child of a fork only the forking thread is left.  (A fork never happens inside a chunk: no
 * user's code runs there.) */
static void after_fork(void) {
    atomic_store(&pool.busy, 0);
    __atomic_store_n(&pool.gate, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&pool.sleepers, 0, __ATOMIC_SEQ_CST);
    if (pool.workers > pool.lost) pool.lost = pool.workers;
    pool.workers = pool.started_for = 0;
    for (int i = 0; i < CALLERS; i++) atomic_store(&callers[i].taken, 0);
}

__attribute__((constructor)) static void watch_forks(void) { cr_os_at_fork_child(after_fork); }

static void join_from(int from, int to) {
    for (int i = from; i < to; i++) {
        cr_thread *t = pool.threads[i];
        /* first: a fork in between may leak it, not free it twice */
        pool.threads[i] = NULL;
        cr_thread_join(t);
    }
}

/* Leaves `keep` workers at most.  The caller holds busy. */
static void stop_workers(int keep) {
    /* only frees the handles: the threads stayed in the parent */
    join_from(0, pool.lost);
    pool.lost = 0;
    atomic_store(&pool.limit, keep);
    if (pool.workers <= keep) return;
    raise_epoch();
    cr_os_wake_all(&pool.epoch);
    join_from(keep, pool.workers);
    pool.workers = keep;
}

/* Starts or ends workers until there are threads - 1.  The caller holds busy. */
static void resize(int threads) {
    stop_workers(threads - 1);
    while (pool.workers < threads - 1) {
        cr_thread *t = cr_thread_start(worker_main, (void *)(intptr_t)pool.workers);
        /* the system gives no more: fewer threads do the same work */
        if (!t) break;
        pool.threads[pool.workers++] = t;
    }
    pool.started_for = threads;
}

/* When the library is unloaded its code must not be running.  A thread that still works in the pool at
 * exit keeps it. */
__attribute__((destructor)) static void end_pool(void) {
    int idle = 0;
    if (!atomic_compare_exchange_strong(&pool.busy, &idle, 1)) return;
    /* busy stays held: whatever runs later runs on its own thread */
    stop_workers(0);
}

/* ---- how many threads ---- */
static int threads_in(const char *text) {                     /* 0: not a number of threads */
    char *end;
    const long n = strtol(text, &end, 10);
    return end == text || *end || n < 1 ? 0 : n < MAX_THREADS ? (int)n : MAX_THREADS;
}

static int threads_at_start(void) {
    const char *text = cr_config("NUM_THREADS");
    int n = text ? threads_in(text) : 0;
    if (!n) n = cr_os_cpu_count();
    return n < MAX_THREADS ? n : MAX_THREADS;
}

static cr_status check_threads(const char *text) {
    if (!text || threads_in(text)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, "switch_set", "CHAINRULE_NUM_THREADS is a whole number of at least 1, not '%.60s'",
                   text);
}
static void forget_threads(void) { atomic_store(&pool.wanted, 0); }            /* asked for again */
__attribute__((constructor)) static void own_switch(void) {
    cr_switch_owner("NUM_THREADS", check_threads, forget_threads);
}

int cr_num_threads(void) {
    int n = atomic_load_explicit(&pool.wanted, memory_order_relaxed);
    if (n) return n;
    int chosen = threads_at_start();
    return atomic_compare_exchange_strong(&pool.wanted, &n, chosen) ? chosen : n;
}

cr_status cr_set_num_threads(int n) {
    if (n < 1 || n > MAX_THREADS)
        return cr_fail(CR_BAD_VALUE, "set_num_threads", "need 1 to %d threads, got %d", MAX_THREADS, n);
    atomic_store(&pool.wanted, n);                             /* the next job starts or ends threads */
    return CR_OK;
}

/* ---- jobs ---- */
static void run_alone(int64_t chunks, void (*fn)(void *, int64_t, int), void *ctx, int worker) {
    for (int64_t i = 0; i < chunks; i++) {
        fn(ctx, i, worker);
        if (i + 1 < chunks && stops(worker)) return;
    }
}

static void publish(int64_t chunks, int n_parts, void (*fn)(void *, int64_t, int), void *ctx) {
    pool.fn = fn; pool.ctx = ctx; pool.chunks = chunks; pool.parts = n_parts;
    atomic_store(&pool.cut, false);
    for (int p = 0; p < n_parts; p++) {
        atomic_store_explicit(&parts[p].next, chunks / n_parts * p + chunks % n_parts * p / n_parts,
                              memory_order_relaxed);
        parts[p].end = chunks / n_parts * (p + 1) + chunks % n_parts * (p + 1) / n_parts;
    }
    __atomic_store_n(&pool.gate, OPEN, __ATOMIC_SEQ_CST);
    raise_epoch();
    int asleep = __atomic_load_n(&pool.sleepers, __ATOMIC_SEQ_CST);
    if (!asleep) return;
    int64_t helpers = chunks - 1 < pool.workers ? chunks - 1 : pool.workers, awake = pool.workers - asleep;
    if (helpers > awake) cr_os_wake(&pool.epoch, (int)(helpers - awake));
}

/* Shuts the gate and waits until all threads have left. */
static void finish_task(void) {
    int g = __atomic_and_fetch(&pool.gate, ~OPEN, __ATOMIC_SEQ_CST);
    while (g) {
        if (spin_while(&pool.gate, g)) { g = __atomic_load_n(&pool.gate, __ATOMIC_SEQ_CST); continue; }
        if (stops(my_number)) cut_job();
        if (__atomic_compare_exchange_n(&pool.gate, &g, g | CALLER_SLEEPS, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            g |= CALLER_SLEEPS;
            cr_os_sleep_on(&pool.gate, g, 0.02);       /* then to ask again */
            g = __atomic_load_n(&pool.gate, __ATOMIC_SEQ_CST);
        }
        /* the last one is out and has called wake, or is about to */
        if (g == CALLER_SLEEPS) {
            __atomic_store_n(&pool.gate, 0, __ATOMIC_SEQ_CST);
            g = 0;
        }
    }
}

static void run_job(int64_t chunks, bool in_order, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx) {
    if (chunks <= 0 || cr_is_cut()) return;
    /* nested: the number of the chunk around */
    if (my_number >= 0) { run_alone(chunks, fn, ctx, my_number); return; }
    my_number = take_number();
    int threads = chunks == 1 ? 1 : cr_num_threads(), idle = 0;
    if (threads == 1 || !atomic_compare_exchange_strong(&pool.busy, &idle, 1)) {
        run_alone(chunks, fn, ctx, my_number);
    } else {
        if (threads != pool.started_for) resize(threads);
        if (pool.workers) {
            publish(chunks, in_order ? 1 : pool.workers + 1, fn, ctx);
            claim_chunks(my_number);
            finish_task();
        } else {
            run_alone(chunks, fn, ctx, my_number);
        }
        atomic_store(&pool.busy, 0);
    }
    give_number(my_number);
    my_number = -1;
}

void cr_pool_run(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx) {
    run_job(chunks, false, fn, ctx);
}
void cr_pool_run_in_order(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx) {
    run_job(chunks, true, fn, ctx);
}
