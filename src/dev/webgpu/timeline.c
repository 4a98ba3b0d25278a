/* timeline.c - the spans of dispatches while a profile is taken (dev/trace.h).  Each dispatch is then a pass of its
 * own, because WebGPU writes timestamps at the beginning and at the end of a pass only. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = GPU_MOST_RECORDED, BYTES = 2 * sizeof(uint64_t) * MOST };        /* dispatches of a batch; their ticks */
struct gpu_timed {                                  /* a batch */
    struct gpu_timed *next;
    WGPUBuffer ticks;                               /* for the host: begin and end of each dispatch; NULL: not yet */
    int n;
    char op[MOST][24];
};

static void drop(struct gpu_timed *b) {
    if (b && b->ticks) cr_wg.BufferRelease(b->ticks);
    free(b);
}

void cr_gpu_timeline_forget(gpu *g) {
    gpu_timeline *t = &g->timeline;
    drop(t->recorded);
    for (struct gpu_timed *b; (b = t->first); drop(b)) t->first = b->next;
    if (t->resolved) cr_wg.BufferRelease(t->resolved);
    if (t->queries) cr_wg.QuerySetRelease(t->queries);
    *t = (gpu_timeline){.able = t->able};
}

static WGPUBuffer buffer_of(const gpu *g, WGPUBufferUsage usage, size_t bytes) {
    return cr_wg.DeviceCreateBuffer(g->device, &(WGPUBufferDescriptor){.usage = usage, .size = bytes});
}

/* Records that the first n dispatches' ticks go to a new buffer that the host can map. */
static void resolve(gpu *g, WGPUCommandEncoder encoder, struct gpu_timed *b) {
    const size_t bytes = 2 * sizeof(uint64_t) * (size_t)b->n;
    b->ticks = buffer_of(g, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, bytes);
    cr_wg.CommandEncoderResolveQuerySet(encoder, g->timeline.queries, 0, 2 * (uint32_t)b->n, g->timeline.resolved, 0);
    cr_wg.CommandEncoderCopyBufferToBuffer(encoder, g->timeline.resolved, 0, b->ticks, 0, bytes);
}

static WGPUPassTimestampWrites writes_of(const gpu *g, int i) {
    return (WGPUPassTimestampWrites){.querySet = g->timeline.queries,
                                     .beginningOfPassWriteIndex = 2 * (uint32_t)i,
                                     .endOfPassWriteIndex = 2 * (uint32_t)i + 1};
}

/* The ticks of a batch, mapped until the caller unmaps b->ticks; NULL: a message. */
static const uint64_t *ticks_of(gpu *g, const char *op, const struct gpu_timed *b) {
    const size_t bytes = 2 * sizeof(uint64_t) * (size_t)b->n;
    if (cr_gpu_map(g, op, b->ticks, bytes) != CR_OK) return NULL;
    const uint64_t *ticks = cr_wg.BufferGetConstMappedRange(b->ticks, 0, bytes);
    if (!ticks) cr_fail(CR_RUNTIME, op, "%s: the times could not be mapped", g->name);
    return ticks;
}

/* An empty pass of its own, whose end the host sees: the base of all times. */
static cr_status find_base(gpu *g, const char *op) {
    struct gpu_timed b = {.n = 1};
    const WGPUPassTimestampWrites times = writes_of(g, 0);
    cr_gpu_scope_begin(g);
    WGPUCommandEncoder encoder = cr_wg.DeviceCreateCommandEncoder(g->device, NULL);
    WGPUComputePassEncoder pass = cr_wg.CommandEncoderBeginComputePass(
        encoder, &(WGPUComputePassDescriptor){.timestampWrites = &times});
    cr_wg.ComputePassEncoderEnd(pass);
    cr_wg.ComputePassEncoderRelease(pass);
    resolve(g, encoder, &b);
    WGPUCommandBuffer commands = cr_wg.CommandEncoderFinish(encoder, NULL);
    cr_status status = cr_gpu_scope_end(g, op, "no times of kernels");
    if (status == CR_OK) cr_wg.QueueSubmit(g->queue, 1, &commands);
    cr_wg.CommandBufferRelease(commands);
    cr_wg.CommandEncoderRelease(encoder);
    const uint64_t *ticks = status == CR_OK ? ticks_of(g, op, &b) : NULL;
    g->timeline.base_at = cr_os_seconds();
    if (ticks) g->timeline.base = ticks[1], cr_wg.BufferUnmap(b.ticks);
    if (b.ticks) cr_wg.BufferRelease(b.ticks);
    return ticks ? CR_OK : cr_error_status();
}

/* A GPU that gives no times has no lane in the profile, and its work goes on. */
static void start(gpu *g, int profile) {
    static const char op[] = "profile_begin";
    gpu_timeline *t = &g->timeline;
    cr_gpu_timeline_forget(g);
    t->profile = profile;
    t->last = &t->first;
    if (!t->able) return;
    cr_gpu_scope_begin(g);
    t->queries = cr_wg.DeviceCreateQuerySet(
        g->device, &(WGPUQuerySetDescriptor){.type = WGPUQueryType_Timestamp, .count = 2 * MOST});
    t->resolved = buffer_of(g, WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc, BYTES);
    cr_status status = cr_gpu_scope_end(g, op, "no times of kernels");
    if (status == CR_OK) status = find_base(g, op);
    t->seconds = 1e-9 * (double)cr_wg.QueueGetTimestampPeriod(g->queue);
    t->ready = status == CR_OK;
    if (t->ready) cr_trace_join(&g->dev);
    else if (!atomic_load(&g->lost)) cr_error_clear();
}

bool cr_gpu_span_start(gpu *g, const char *op, WGPUPassTimestampWrites *times) {
    gpu_timeline *t = &g->timeline;
    const int profile = atomic_load(&cr_tracing);
    if (t->profile != profile && profile) start(g, profile);
    if (t->profile != profile || !t->ready) return false;
    if (!t->recorded && t->n < CR_SPANS) t->recorded = calloc(1, sizeof *t->recorded);
    struct gpu_timed *b = t->recorded;
    if (!b || t->n == CR_SPANS) return t->dropped++, false;
    *times = writes_of(g, b->n);
    snprintf(b->op[b->n++], sizeof *b->op, "%s", op);
    t->n++;
    return true;
}

void cr_gpu_spans_resolve(gpu *g) {
    if (g->timeline.recorded) resolve(g, g->encoder, g->timeline.recorded);
}

void cr_gpu_spans_submitted(gpu *g, bool submitted) {
    gpu_timeline *t = &g->timeline;
    struct gpu_timed *b = t->recorded;
    t->recorded = NULL;
    if (!b) return;
    if (submitted) *t->last = b, t->last = &b->next;
    else t->dropped += b->n, drop(b);
}

static cr_status add_spans(gpu *g, const char *op, const struct gpu_timed *b) {
    const gpu_timeline *t = &g->timeline;
    const uint64_t *ticks = ticks_of(g, op, b);
    if (!ticks) return cr_error_status();
    for (int i = 0; i < b->n; i++) {
        cr_span s = cr_span_of(&g->dev, "kernels", b->op[i], b->op[i]);
        s.start = t->base_at + t->seconds * (double)(int64_t)(ticks[2 * i] - t->base);
        s.end = t->base_at + t->seconds * (double)(int64_t)(ticks[2 * i + 1] - t->base);
        cr_trace_add(&s);
    }
    cr_wg.BufferUnmap(b->ticks);
    return CR_OK;
}

cr_status cr_gpu_trace_end(const cr_device *d) {
    static const char op[] = "profile_end";
    gpu *g = cr_gpu_enter(op, d);
    if (!g) return cr_error_status();
    cr_status status = cr_gpu_submit(g, op);
    for (const struct gpu_timed *b = g->timeline.first; b && status == CR_OK; b = b->next) status = add_spans(g, op, b);
    cr_trace_dropped(g->timeline.dropped);
    cr_gpu_timeline_forget(g);
    return cr_gpu_leave(g, status);
}
