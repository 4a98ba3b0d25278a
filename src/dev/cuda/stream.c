/* stream.c - what orders kernels and copies, which have a stream each.
 *
 * What is put into a stream comes in turns; the end of each is an event.  A block remembers the last turn in which kernels had it, and the last
 * in which copies did: whoever comes next from the other stream waits for that turn, and for nothing later.  So a loss is read while the rest
 * of its step still runs, and the tokens of the next step arrive meanwhile.  The host waits for copies alone. */
#include "gpu.h"

static cuda_stream stream_of(const cuda *g, int line) { return line == CUDA_COPIES ? g->copies : g->stream; }

cr_status cr_cuda_end_turn(cuda *g, const char *op, int line) {
    cuda_line *l = &g->line[line];
    cuda_event *end = &l->end[l->turn % CUDA_TURNS];
    cr_status status = *end ? CR_OK : cr_cuda_check(g, op, "no event", cr_cu.EventCreate(end, CUDA_EVENT_DISABLE_TIMING));
    if (status == CR_OK) status = cr_cuda_check(g, op, "no event", cr_cu.EventRecord(*end, stream_of(g, line)));
    if (status == CR_OK) l->turn++, l->launches = g->counters.launches;
    return status;
}

cr_status cr_cuda_wait_turn(cuda *g, const char *op, int line, uint64_t turn) {
    cuda_line *l = &g->line[line];
    const int other = line == CUDA_COPIES ? CUDA_KERNELS : CUDA_COPIES;
    const uint64_t *now = &g->line[other].turn;
    if (turn <= l->after) return CR_OK;
    if (turn == *now && cr_cuda_end_turn(g, op, other) != CR_OK) return cr_error_status();
    if (*now - turn > CUDA_TURNS) turn = *now - CUDA_TURNS;            /* the oldest whose event is not used again */
    const cr_status status = cr_cuda_check(g, op, "cannot wait", cr_cu.StreamWaitEvent(stream_of(g, line), g->line[other].end[turn % CUDA_TURNS], 0));
    if (status == CR_OK) l->after = turn;
    return status;
}
