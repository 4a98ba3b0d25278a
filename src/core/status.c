/* status.c - the thread's pending failure, and what it counts as one. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local cr_saved_error pending;        /* status CR_OK: none */
_Thread_local cr_thread_modes cr_modes;

const char *cr_version(void) { return CR_VERSION; }
const char *cr_error(void) { return pending.status == CR_OK ? NULL : pending.message; }
cr_status cr_error_status(void) { return pending.status; }
void cr_error_clear(void) { pending.status = CR_OK; }
bool cr_set_anomaly(bool on) { bool old = cr_modes.anomaly; cr_modes.anomaly = on; return old; }

void cr_error_take(cr_saved_error *e) { *e = pending; pending.status = CR_OK; }
void cr_error_put(const cr_saved_error *e) { pending = *e; }

cr_status cr_fail(cr_status kind, const char *op, const char *format, ...) {
    if (pending.status != CR_OK) return kind;       /* the first message stays: later ones are its consequences */
    pending.status = kind;
    int n = snprintf(pending.message, sizeof pending.message, "[%s] ", op);
    va_list args;
    va_start(args, format);
    vsnprintf(pending.message + n, sizeof pending.message - (size_t)n, format, args);
    va_end(args);
    return kind;
}

cr_status cr_no_memory(const char *op) { return cr_fail(CR_NO_MEMORY, op, "out of memory"); }

cr_status cr_fail_null(const char *op, const char *what) {
    if (pending.status != CR_OK) return pending.status;
    return cr_fail(CR_BAD_VALUE, op, "%s is NULL; an absent optional tensor is CR_NONE", what);
}

#ifdef CR_DEBUG
void cr_assert_failed(const char *what, const char *file, int line) {
    fprintf(stderr, "chainrule: internal invariant broken: %s (%s:%d)\n", what, file, line);
    abort();
}
#endif
