/* interrupt.c - interruption of long calls: computing code asks now and then, on the calling thread, whether to stop.
 *
 * If the answer is yes the thread is cut: the pool skips the rest of its chunks and its later jobs,
 * until the running op takes the mark and fails. */
#include "interrupt.h"
#include "os.h"

static const double between_seconds = 0.02;         /* short enough for a person at a keyboard; each question may
                                                     * cost a lock */

static _Atomic(cr_interrupt_fn) asked;
static _Atomic(void *) asked_ctx;
atomic_int cr_threads_cut;
static _Thread_local struct { double next; bool cut, asking; } me;

void cr_set_interrupt(cr_interrupt_fn fn, void *ctx) {
    atomic_store(&asked, NULL);
    atomic_store(&asked_ctx, ctx);
    atomic_store(&asked, fn);
}

bool cr_stop_asked(void) {
    cr_interrupt_fn fn = atomic_load_explicit(&asked, memory_order_relaxed);
    if (!fn) return false;
    if (me.cut || me.asking) return me.cut;
    if (cr_os_seconds() < me.next) return false;
    me.asking = true;                               /* the callback may itself call the library */
    const bool stop = fn(atomic_load(&asked_ctx));
    me.asking = false;
    me.next = cr_os_seconds() + between_seconds;
    if (stop) {
        me.cut = true;
        atomic_fetch_add(&cr_threads_cut, 1);
    }
    return stop;
}

bool cr_me_cut(void) { return me.cut; }

cr_status cr_take_cut(const char *op) {
    me.cut = false;
    atomic_fetch_sub(&cr_threads_cut, 1);
    return cr_fail(CR_INTERRUPTED, op, "interrupted");
}

cr_status cr_check_interrupt(const char *op) { return cr_stop_asked() ? cr_take_cut(op) : CR_OK; }
