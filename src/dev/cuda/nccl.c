/* nccl.c - a link between the GPUs of several processes: NCCL, in the stream of messages.
 *
 * Communicators are nonblocking: a call returns before its peers have come, and is asked for its outcome.  So the lock
 * of the GPU is never held while a rank waits for another one, and a rank that is lost ends the wait. */
#include "gpu.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cr_link {
    cuda *g;
    nccl_comm comm;                                 /* NULL: aborted, after a failure */
    int rank, size;
    const atomic_bool *lost;
    double limit;                                   /* seconds for all ranks to open it, and to close it */
    char why[512];                                  /* of its failure: later calls say the same */
};

static const char *name_of(const cr_device *d) {
    static _Thread_local char name[32];
    (void)d;
    if (!cr_nccl_ready()) return cr_fail(CR_RUNTIME, "link", "%s", cr_nccl_problem()), NULL;
    const int v = cr_nccl.version;
    snprintf(name, sizeof name, "NCCL %d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
    return name;
}

static cr_status gpu_of(const cr_device *d, unsigned char id[CR_GPU_ID]) {
    cuda *g = cr_cuda_enter("link", d);
    if (!g) return cr_error_status();
    return cr_cuda_leave(g, cr_cuda_check(g, "link", "has no UUID", cr_cu.DeviceUuid(id, g->device)));
}

/* ---- waiting */

/* Nothing of a link that has failed writes to memory any more. */
static cr_status give_up(cr_link *l) {
    const char *why = cr_error(), *text = why ? strstr(why, "] ") : NULL;
    snprintf(l->why, sizeof l->why, "%s", text ? text + 2 : why ? why : "the link has failed before");
    if (l->comm) (void)cr_nccl.CommAbort(l->comm);
    l->comm = NULL;
    return cr_error_status();
}

static cr_status fail(cr_link *l, const char *op, int error) {
    const char *more = l->comm ? cr_nccl.GetLastError(l->comm) : NULL;
    cr_fail(CR_RUNTIME, op, "%s: NCCL error %d, %s%s%.200s", l->g->name, error, cr_nccl.GetErrorString(error),
            more && *more ? ": " : "", more ? more : "");
    return give_up(l);
}

static cr_status fail_lost(cr_link *l, const char *op) {
    cr_fail(CR_RUNTIME, op, "%s: a rank was lost", l->g->name);
    return give_up(l);
}

static void rest(int turn) {
    if (turn < 200) cr_os_relax();
    else cr_os_sleep(turn < 2000 ? 1e-6 : 5e-5);
}

/* Waits until what was called is in the stream. */
static cr_status settle(cr_link *l, const char *op, int error, double limit) {
    const double begun = cr_os_seconds();
    for (int turn = 0; error == NCCL_IN_PROGRESS; turn++) {
        if (atomic_load(l->lost)) return fail_lost(l, op);
        if (cr_os_seconds() - begun > limit) {
            cr_fail(CR_RUNTIME, op, "%s: NCCL did not connect the ranks within %g s", l->g->name, limit);
            return give_up(l);
        }
        rest(turn);
        const int asked = cr_nccl.CommGetAsyncError(l->comm, &error);
        if (asked) error = asked;
    }
    return error ? fail(l, op, error) : CR_OK;
}

/* Waits for the event that ends this epoch of messages. */
static cr_status finish_call(cr_link *l, const char *op, uint64_t epoch) {
    for (int turn = 0;; turn++) {
        cuda *g = cr_cuda_enter(op, &l->g->dev);
        if (!g) return give_up(l);
        const int state = cr_cu.EventQuery(g->queue[CUDA_MESSAGES].end[epoch % CUDA_EPOCHS]);
        const cr_status status = state == CUDA_NOT_READY ? CR_OK : cr_cuda_check(g, op, "messages failed", state);
        if (cr_cuda_leave(g, status) != CR_OK) return give_up(l);
        int error = 0;
        const int asked = cr_nccl.CommGetAsyncError(l->comm, &error);
        if (asked || (error && error != NCCL_IN_PROGRESS)) return fail(l, op, asked ? asked : error);
        if (state != CUDA_NOT_READY) return CR_OK;
        if (atomic_load(l->lost)) return fail_lost(l, op);
        rest(turn);
    }
}

/* ---- opening */
static cr_status key_of(const cr_device *d, unsigned char key[CR_LINK_KEY]) {
    nccl_id id;
    static_assert(sizeof id == CR_LINK_KEY, "NCCL's identifier is the key");
    cuda *g = cr_cuda_enter("link", d);
    if (!g) return cr_error_status();
    const int error = cr_nccl.GetUniqueId(&id);
    if (!error) memcpy(key, &id, sizeof id);
    return cr_cuda_leave(g, !error ? CR_OK : cr_fail(CR_RUNTIME, "link", "%s: NCCL error %d, %s", g->name, error,
                                                     cr_nccl.GetErrorString(error)));
}

static cr_status connect(cr_link *l, const unsigned char *key) {
    static const char op[] = "link";
    nccl_id id;
    nccl_config config = {.size = sizeof config, .magic = 0xcafebeef, .version = 21400, .blocking = 0};
    memcpy(&id, key, sizeof id);
    cuda *g = cr_cuda_enter(op, &l->g->dev);        /* NCCL takes the GPU whose context is current */
    if (!g) return cr_error_status();
    cuda_queue *q = &g->queue[CUDA_MESSAGES];
    cr_status status = q->stream ? CR_OK : cr_cuda_check(g, op, "no stream",
                                                         cr_cu.StreamCreate(&q->stream, CUDA_STREAM_NON_BLOCKING));
    if (cr_cuda_leave(g, status) != CR_OK) return status;
    return settle(l, op, cr_nccl.CommInitRankConfig(&l->comm, l->size, id, l->rank, &config), l->limit);
}

static void close_link(cr_link *l) {
    if (!l) return;
    cr_saved_error e;
    cr_error_take(&e);
    if (l->comm && atomic_load(l->lost)) (void)give_up(l);
    if (l->comm && settle(l, "link", cr_nccl.CommFinalize(l->comm), l->limit) == CR_OK)
        (void)cr_nccl.CommDestroy(l->comm);
    cr_error_clear();
    cr_error_put(&e);
    free(l);
}

static cr_link *open_link(const cr_device *d, const unsigned char *key, int rank, int size, const atomic_bool *lost,
                          double limit) {
    cr_link *l = calloc(1, sizeof *l);
    if (!l) return cr_fail(CR_NO_MEMORY, "link", "no memory for a link"), NULL;
    *l = (cr_link){.g = (cuda *)(uintptr_t)d, .rank = rank, .size = size, .lost = lost,
                    .limit = limit};
    if (connect(l, key) == CR_OK) return l;
    close_link(l);
    return NULL;
}

/* ---- messages */

/* What a call moves; x: of broadcasts and sums. */
typedef struct work {
    const char *op;
    cr_storage *from, *to;                          /* of one storage: both */
    const cr_range *send, *receive;
    cr_dtype dt;
} work;

static cuda_address at(const cr_storage *s, const cr_range *r) {
    return ((const cuda_block *)s->data)->at + (cuda_address)r->at;
}

static int add_exchange(cr_link *l, const work *w, cuda_stream stream) {
    int error = 0;
    for (int r = 0; r < l->size; r++) {
        const size_t out = (size_t)w->send[r].bytes, in = (size_t)w->receive[r].bytes;
        if (out && !error) error = cr_nccl.Send(at(w->from, &w->send[r]), out, NCCL_BYTE, r, l->comm, stream);
        if (in && !error) error = cr_nccl.Recv(at(w->to, &w->receive[r]), in, NCCL_BYTE, r, l->comm, stream);
    }
    return error;
}

static int add_spread(cr_link *l, const work *w, cuda_stream stream) {
    int error = 0;
    for (int r = 0; r < l->size && !error; r++) {
        const cuda_address x = at(w->to, &w->receive[r]);
        const size_t n = (size_t)w->receive[r].bytes;
        if (n) error = cr_nccl.Broadcast(x, x, n, NCCL_BYTE, r, l->comm, stream);
    }
    return error;
}

static int add_sum(cr_link *l, const work *w, cuda_stream stream) {
    const cuda_address x = at(w->to, w->receive);
    const size_t n = (size_t)w->receive->bytes / cr_dtype_size(w->dt);
    return cr_nccl.AllReduce(x, x, n, w->dt == CR_F64 ? NCCL_F64 : NCCL_F32, NCCL_SUM, l->comm, stream);
}

/* Messages wait for all earlier work on the block. */
static cr_status wait_for(cuda *g, const char *op, const cuda_block *b) {
    cr_status status = CR_OK;
    for (int queue = 0; queue < CUDA_MESSAGES && status == CR_OK; queue++)
        status = cr_cuda_wait_epoch(g, op, CUDA_MESSAGES, queue, b->epoch[queue]);
    return status;
}

/* Sends in a group of NCCL's: calls of all ranks meet, in whatever order each makes them. */
static cr_status send_group(cr_link *l, const work *w, int (*add)(cr_link *l, const work *w, cuda_stream stream)) {
    cuda_block *from = w->from->data, *to = w->to->data;
    if (!l->comm) return cr_fail(CR_RUNTIME, w->op, "%s", l->why);
    cuda *g = cr_cuda_enter(w->op, &l->g->dev);
    if (!g) return cr_error_status();
    const cuda_stream stream = g->queue[CUDA_MESSAGES].stream;
    cr_status status = wait_for(g, w->op, from);
    if (status == CR_OK && to != from) status = wait_for(g, w->op, to);
    if (cr_cuda_leave(g, status) != CR_OK) return status;
    int error = cr_nccl.GroupStart(), ended = 0;
    if (!error) {
        error = add(l, w, stream);
        ended = cr_nccl.GroupEnd();
    }
    status = settle(l, w->op, error && error != NCCL_IN_PROGRESS ? error : ended, INFINITY);
    if (status != CR_OK) return status;
    if (!(g = cr_cuda_enter(w->op, &l->g->dev))) return give_up(l);
    const uint64_t epoch = g->queue[CUDA_MESSAGES].epoch;
    if (cr_cuda_leave(g, cr_cuda_end_epoch(g, w->op, CUDA_MESSAGES)) != CR_OK) return give_up(l);
    return finish_call(l, w->op, epoch);
}

static cr_status exchange(cr_link *l, cr_storage *from, const cr_range *send, cr_storage *to,
                          const cr_range *receive) {
    return send_group(l, &(work){"exchange", from, to, send, receive, CR_U8}, add_exchange);
}

static cr_status spread(cr_link *l, cr_storage *x, const cr_range *of) {
    return send_group(l, &(work){"gather", x, x, of, of, CR_U8}, add_spread);
}

static cr_status sum(cr_link *l, cr_storage *x, cr_range part, cr_dtype dt) {
    return send_group(l, &(work){"sum", x, x, &part, &part, dt}, add_sum);
}

const cr_linking cr_cuda_linking = {.name = name_of, .gpu = gpu_of, .key = key_of, .open = open_link,
                                    .close = close_link, .exchange = exchange, .spread = spread, .sum = sum};
