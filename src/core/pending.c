/* pending.c - see pending.h. */
#include "pending.h"

#include <stdio.h>

#include "os.h"

enum { PENDING = 1, FAILED };

static atomic_int pending, failed;                  /* storages */
static volatile int changes;                        /* a counter that waiting threads sleep on */
static atomic_int_least64_t waited;                 /* nanoseconds */
static char reason[512];                            /* of the first failure, since nothing had failed */

static void change(void) {
    __atomic_fetch_add(&changes, 1, __ATOMIC_SEQ_CST);
    cr_os_wake_all(&changes);
}

void cr_pending_begin(cr_storage *s) {
    atomic_store(&s->pending, PENDING);
    atomic_fetch_add(&pending, 1);
    atomic_fetch_add(&cr_slow_path, 1);
}

void cr_pending_end(cr_storage *s) {
    unsigned char was = PENDING;
    if (!atomic_compare_exchange_strong(&s->pending, &was, 0)) return;
    atomic_fetch_sub(&cr_slow_path, 1);
    atomic_fetch_sub(&pending, 1);
    change();
}

void cr_pending_fail(cr_storage *s, const char *why) {
    if (atomic_load(&s->pending) != PENDING) return;
    if (!atomic_load(&failed)) snprintf(reason, sizeof reason, "%s", why);
    atomic_fetch_add(&failed, 1);
    atomic_store(&s->pending, FAILED);
    atomic_fetch_sub(&pending, 1);
    change();
}

void cr_pending_clear(cr_storage *s) {
    cr_pending_end(s);
    unsigned char was = FAILED;
    if (!atomic_compare_exchange_strong(&s->pending, &was, 0)) return;
    atomic_fetch_sub(&cr_slow_path, 1);
    atomic_fetch_sub(&failed, 1);
}

static cr_status fail(const char *op) { return cr_fail(CR_RUNTIME, op, "the weights did not arrive: %s", reason); }

/* s NULL: for all storages. */
static bool waits(const cr_storage *s) { return s ? atomic_load(&s->pending) == PENDING : atomic_load(&pending) > 0; }

static void wait_for(const cr_storage *s) {
    if (!waits(s)) return;
    const double begun = cr_os_seconds();
    for (;;) {
        const int seen = __atomic_load_n(&changes, __ATOMIC_SEQ_CST);
        if (!waits(s)) break;
        cr_os_sleep_on(&changes, seen, 0);
    }
    atomic_fetch_add(&waited, (int_least64_t)(1e9 * (cr_os_seconds() - begun)));
}

cr_status cr_pending_wait(const char *op, const cr_storage *s) {
    if (!s || !atomic_load(&s->pending)) return CR_OK;
    wait_for(s);
    return atomic_load(&s->pending) == FAILED ? fail(op) : CR_OK;
}

cr_status cr_pending_wait_all(const char *op) {
    wait_for(NULL);
    return atomic_load(&failed) ? fail(op) : CR_OK;
}

double cr_pending_seconds(void) { return 1e-9 * (double)atomic_load(&waited); }

/* A child has no thread that receives: it begins when everything is there. */
static void before_fork(void) { wait_for(NULL); }
__attribute__((constructor)) static void watch_forks(void) { cr_os_before_fork(before_fork); }
