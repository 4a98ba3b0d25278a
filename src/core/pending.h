/* pending.h - storages whose bytes are still on their way from other processes (dist/shard.c).  Whatever reads or
 * writes elements waits until they have arrived. */
#ifndef CR_PENDING_H
#define CR_PENDING_H

#include "watch.h"

void      cr_pending_begin(cr_storage *s);          /* by the thread that reads and writes s so far; not twice */
void      cr_pending_end(cr_storage *s);            /* the bytes are there; no effect after cr_pending_fail */
void      cr_pending_fail(cr_storage *s, const char *why);         /* uses fail, and say why, until... */
void      cr_pending_clear(cr_storage *s);          /* ...this: uses go on, with the bytes as they are */
cr_status cr_pending_wait(const char *op, const cr_storage *s);    /* NULL is allowed */
cr_status cr_pending_wait_all(const char *op);
double    cr_pending_seconds(void);                 /* that all threads of this process have waited so far */

/* Before elements are read or written outside the executor (ops/apply.c), which asks for what its ops use. */
static inline cr_status cr_await(const char *op, const cr_storage *s) {
    if (!cr_is_unusual()) return CR_OK;
    if (s && s->born && s->born != cr_modes.recording) cr_watch_table.touches(op, s);
    return cr_pending_wait(op, s);
}

#endif
