/* trace.c - see trace.h. */
#include "dev.h"
#include "trace.h"
#include "../core/os.h"
#include "../core/out.h"

#include <stdio.h>
#include <stdlib.h>

enum { GPUS = 32 };
atomic_int cr_tracing;
static int profiles;                                /* that were begun; one at a time (ops/profile.c) */
static cr_spinlock lock;                            /* of all below */
static const cr_device *joined[GPUS];
static int n_joined;
static cr_spans trace;
static int64_t room;

void cr_trace_join(const cr_device *d) {
    cr_spin_lock(&lock);
    if (n_joined < GPUS) joined[n_joined++] = d;
    cr_spin_unlock(&lock);
}

void cr_trace_dropped(int64_t spans) {
    cr_spin_lock(&lock);
    trace.dropped += spans;
    cr_spin_unlock(&lock);
}

cr_span cr_span_of(const cr_device *d, const char *lane, const char *name, const char *op) {
    cr_span s = {.dev = d, .lane = lane};
    snprintf(s.name, sizeof s.name, "%s", name);
    snprintf(s.op, sizeof s.op, "%s", op);
    return s;
}

void cr_trace_add(const cr_span *s) {
    cr_spin_lock(&lock);
    if (cr_grow(&trace.spans, trace.n + 1, &room, sizeof *trace.spans)) trace.spans[trace.n++] = *s;
    else trace.dropped++;
    cr_spin_unlock(&lock);
}

void cr_trace_begin(void) {
    trace = (cr_spans){0};
    room = n_joined = 0;
    atomic_store(&cr_tracing, ++profiles);
}

cr_status cr_trace_end(cr_spans *t) {
    cr_status status = CR_OK;
    atomic_store(&cr_tracing, 0);
    for (int i = 0; i < n_joined; i++) {
        const cr_status ended = joined[i]->trace_end(joined[i]);
        if (status == CR_OK) status = ended;
    }
    *t = trace;
    return status;
}
