/* stream.c - the order of kernels, of copies, and of messages to other processes, which have a stream each.
 *
 * The work in a stream is divided into epochs; an event marks the end of each.  A block remembers the
 * last epoch in which kernels used it, and the last in which copies did.  A later user in another
 * stream waits for that epoch only.  So a loss is read while the rest of its step still runs, and the
 * tokens of the next step arrive meanwhile.  The host waits for copies, and for the messages of a call
 * before it returns (nccl.c): nobody else has to. */
#include "gpu.h"

cr_status cr_cuda_end_epoch(cuda *g, const char *op, int queue) {
    cuda_queue *q = &g->queue[queue];
    cuda_event *end = &q->end[q->epoch % CUDA_EPOCHS];
    if (g->noting) return cr_fail(CR_RUNTIME, op, "a graph of %s cannot wait", g->name);
    cr_status status = *end ? CR_OK
                            : cr_cuda_check(g, op, "no event", cr_cu.EventCreate(end, CUDA_EVENT_DISABLE_TIMING));
    if (status == CR_OK) status = cr_cuda_check(g, op, "no event", cr_cu.EventRecord(*end, q->stream));
    if (status == CR_OK) q->epoch++, q->launches = g->counters.launches;
    return status;
}

cr_status cr_cuda_wait_epoch(cuda *g, const char *op, int queue, int other, uint64_t epoch) {
    cuda_queue *q = &g->queue[queue];
    const uint64_t *now = &g->queue[other].epoch;
    if (epoch <= q->waited[other]) return CR_OK;
    if (epoch == *now && cr_cuda_end_epoch(g, op, other) != CR_OK) return cr_error_status();
    if (*now - epoch > CUDA_EPOCHS) epoch = *now - CUDA_EPOCHS;        /* the oldest epoch whose event was not reused */
    const cuda_event end = g->queue[other].end[epoch % CUDA_EPOCHS];
    const cr_status status = cr_cuda_check(g, op, "cannot wait", cr_cu.StreamWaitEvent(q->stream, end, 0));
    if (status == CR_OK) q->waited[other] = epoch;
    return status;
}
