/* trace.h - what GPUs did while a profile is taken: a span of time for each kernel and copy, as the GPU measured it.
 *
 * While cr_tracing is not 0, a GPU notes its work; at its first note in a profile it calls cr_trace_join.
 * cr_trace_end asks each such GPU for its spans (cr_device.trace_end), which come by cr_trace_add. */
#ifndef CR_TRACE_H
#define CR_TRACE_H

#include "../core/array.h"

typedef struct cr_span {
    const cr_device *dev;
    const char *lane;                               /* "kernels", "copies": spans of one lane do not overlap */
    char name[40], op[24];                          /* of the kernel; of the op that needs it */
    double start, end;                              /* cr_os_seconds of the host */
} cr_span;
enum { CR_SPANS = 50000 };                          /* of one GPU; it counts later ones */

extern atomic_int cr_tracing;                       /* the number of the profile that is being taken; 0: none */

void cr_trace_join(const cr_device *d);
void cr_trace_add(const cr_span *s);
void cr_trace_dropped(int64_t spans);               /* so many were not measured, or not kept */
cr_span cr_span_of(const cr_device *d, const char *lane, const char *name, const char *op);     /* without times */

/* ---- for the profiler */
typedef struct cr_spans { cr_span *spans; int64_t n, dropped; } cr_spans;
void      cr_trace_begin(void);
cr_status cr_trace_end(cr_spans *t);                /* also after a failure; the caller frees t->spans */

#endif
