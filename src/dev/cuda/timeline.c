/* timeline.c - the spans of kernels and copies while a profile is taken (dev/trace.h): an event of the driver before
 * each and one behind it.  A span begins when the GPU reaches it in its stream, so where the host is late, the
 * time of the launch is in it. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* Times of events are milliseconds in f32 from another event: exact to 0.1 us up to a second. */
static const float FAR = 1000;

static void forget(cuda *g) {
    cuda_timeline *t = &g->timeline;
    if (t->base) cr_cu.EventDestroy(t->base);
    for (int i = 0; i < t->n; i++) {
        cr_cu.EventDestroy(t->spans[i].begin);
        cr_cu.EventDestroy(t->spans[i].end);
    }
    free(t->spans);
    memset(t, 0, sizeof *t);
}

/* The base: an event whose time the host knows. */
static bool start(cuda *g, int profile) {
    cuda_timeline *t = &g->timeline;
    forget(g);
    t->profile = profile;
    t->spans = malloc(sizeof *t->spans * CR_SPANS);
    cr_trace_join(&g->dev);
    if (!t->spans || cr_cu.EventCreate(&t->base, 0) || cr_cu.EventRecord(t->base, g->stream) ||
        cr_cu.EventSynchronize(t->base))
        return false;
    t->base_at = cr_os_seconds();
    return t->ready = true;
}

cuda_span *cr_cuda_span_start(cuda *g, int queue, const char *op, const char *name) {
    cuda_timeline *t = &g->timeline;
    const int profile = atomic_load(&cr_tracing);
    if (t->profile != profile && profile && !start(g, profile)) return NULL;
    if (t->profile != profile || !t->ready) return NULL;
    if (t->n == CR_SPANS) return t->dropped++, NULL;
    cuda_span *s = &t->spans[t->n];
    *s = (cuda_span){.of = cr_span_of(&g->dev, queue == CUDA_COPIES ? "copies" : "kernels", name, op), .queue = queue};
    if (!cr_cu.EventCreate(&s->begin, 0) && !cr_cu.EventCreate(&s->end, 0) &&
        !cr_cu.EventRecord(s->begin, g->queue[queue].stream))
        return s;
    if (s->begin) cr_cu.EventDestroy(s->begin);
    if (s->end) cr_cu.EventDestroy(s->end);
    return t->dropped++, NULL;
}

void cr_cuda_span_stop(cuda *g, cuda_span *s) {
    if (!s) return;
    g->timeline.n++;
    s->lost = cr_cu.EventRecord(s->end, g->queue[s->queue].stream) != 0;
}

cr_status cr_cuda_trace_end(const cr_device *d) {
    static const char op[] = "profile_end";
    cuda *g = cr_cuda_enter(op, d);
    if (!g) return cr_error_status();
    cuda_timeline *t = &g->timeline;
    cr_status status = cr_cuda_wait(g, op);
    struct { cuda_event event; double at; } from[2] = {{t->base, t->base_at}, {t->base, t->base_at}};    /* queues */
    for (int i = 0; i < t->n && status == CR_OK; i++) {
        cuda_span *s = &t->spans[i];
        float before = 0, long_ = 0;
        if (s->lost || cr_cu.EventElapsedTime(&before, from[s->queue].event, s->begin) ||
            cr_cu.EventElapsedTime(&long_, s->begin, s->end)) {
            t->dropped++;
            continue;
        }
        s->of.start = from[s->queue].at + 1e-3 * (double)before;
        s->of.end = s->of.start + 1e-3 * (double)long_;
        if (before > FAR) from[s->queue].event = s->begin, from[s->queue].at = s->of.start;
        cr_trace_add(&s->of);
    }
    cr_trace_dropped(t->dropped);
    forget(g);
    return cr_cuda_leave(g, status);
}
