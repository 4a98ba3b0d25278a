/* interrupt.h - interruption of long calls.  An interrupted thread is cut: it skips work until the running op fails. */
#ifndef CR_INTERRUPT_H
#define CR_INTERRUPT_H

#include <stdatomic.h>
#include "status.h"

extern atomic_int cr_threads_cut;
bool      cr_stop_asked(void);                      /* asks, at most every 20 ms; true while the thread is cut */
bool      cr_me_cut(void);
cr_status cr_take_cut(const char *op);
static inline bool cr_is_cut(void) {
    return atomic_load_explicit(&cr_threads_cut, memory_order_relaxed) && cr_me_cut();
}
/* The status of a kernel; if the thread is cut, a failure instead, which ends the cut. */
static inline cr_status cr_finished(const char *op, cr_status kernel) { return cr_is_cut() ? cr_take_cut(op) : kernel; }

#endif
