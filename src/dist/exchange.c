/* exchange.c - one sum over all ranks in the tree's order: every shard's partial sums to the shard's
 * owner (all-to-all), our additions, the result to all (all-gather).  The engine moves bytes, and adds
 * nothing.  It runs on the world's thread.
 *
 * With `half`, bf16 travels: sums of a rank are rounded when they are sent, and the sum of all once more.
 *
 * On a GPU, copies and additions are kernels, and messages have buffers of their own: the kernels of the backward pass
 * write other parts of the gradients meanwhile, and wait for no message. */
#include <string.h>

#include "../core/tree.h"
#include "world.h"

static int64_t shard(const cr_exchange *e, int s) { return e->cut[s + 1] - e->cut[s]; }
static int64_t mine(const cr_world *w, const cr_exchange *e) { return shard(e, w->rank); }
static int64_t width_of(const cr_array *x) { return (int64_t)cr_dtype_size(x->dtype); }
/* Do messages have a buffer of their own? */
static bool buffered(const cr_exchange *e) { return !e->out.dev->host || e->half; }

void cr_exchange_even(int64_t n, int size, int64_t *cut) {
    for (int s = 0; s <= size; s++) cut[s] = cr_tree_first(n, s, size);
}

/* A rank with one node sends from where it is, unless messages have a buffer of their own: the room for sending, where
 * all shards are in the end. */
void cr_exchange_room(const cr_world *w, const cr_exchange *e, int64_t *send, int64_t *receive) {
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t all = 0;
    for (int s = 0; s < w->size; s++) all += cr_tree_cover(e->leaves, s, w->size, nodes);
    *send = e->nodes > 1 || buffered(e) ? e->n * e->nodes : 0;
    *receive = mine(w, e) * all;
}

/* ---- elements, on the cpu or a GPU */
cr_status cr_exchange_copy(const cr_array *to, const cr_array *from) {
    if (!to->numel) return CR_OK;
    if (to->dev->host && to->dtype == from->dtype) {
        memcpy(cr_array_data(to), cr_array_data(from), (size_t)to->numel * cr_dtype_size(to->dtype));
        return CR_OK;
    }
    return to->dev->kernels->copy(&(cr_copy_args){.dst = *to, .src = *from});
}

/* to = a + b; to may be a or b */
static cr_status add_arrays(const cr_world *w, const cr_array *to, const cr_array *a, const cr_array *b) {
    const int64_t n = to->numel;
    if (!n) return CR_OK;
    if (!to->dev->host || cr_dtype_size(to->dtype) == 2) {
        const cr_array *each[] = {to, a, b};
        cr_array x[3];
        for (int i = 0; i < 3; i++) x[i] = cr_array_as(each[i], 2, (int64_t[]){1, n});
        return cr_run_matrices(to->dev->kernels, w->sum, x);
    }
    if (to->dtype == CR_F64) {
        double *y = cr_array_data(to);
        const double *u = cr_array_data(a), *v = cr_array_data(b);
        for (int64_t i = 0; i < n; i++) y[i] = u[i] + v[i];
    } else {
        float *y = cr_array_data(to);
        const float *u = cr_array_data(a), *v = cr_array_data(b);
        for (int64_t i = 0; i < n; i++) y[i] = u[i] + v[i];
    }
    return CR_OK;
}

/* A rank with one node does not send its own shard to itself. */
static bool keeps_own(const cr_exchange *e) { return e->nodes == 1; }

/* Shard by shard, and in a shard node by node. */
static cr_status pack(const cr_world *w, const cr_exchange *e, cr_array *packed) {
    *packed = e->value[0];
    if (e->nodes == 1 && !buffered(e)) return CR_OK;
    *packed = e->send;
    cr_status status = CR_OK;
    int64_t at = 0;
    for (int s = 0; s < w->size; s++)
        for (int k = 0; k < e->nodes && status == CR_OK; k++) {
            const int64_t n = shard(e, s);
            const cr_array to = cr_array_range(packed, at, n), from = cr_array_range(&e->value[k], e->cut[s], n);
            status = cr_exchange_copy(&to, &from);
            at += n;
        }
    return status;
}

/* Adds all nodes of all ranks, from left to right; the last addition writes to out. */
static cr_status add_up(const cr_world *w, cr_exchange *e, const cr_array *out) {
    enum { OWN = -1 };                              /* name of this rank's node where it is in value[0] */
    const int64_t n = mine(w, e);
    cr_array own = cr_array_range(&e->value[0], e->cut[w->rank], n);
    cr_tree tree = {.leaves = e->leaves};
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t merges[CR_TREE_DEPTH], at = 0;
    cr_status status = CR_OK;
    for (int s = 0; s < w->size; s++) {
        const int count = cr_tree_cover(e->leaves, s, w->size, nodes);
        for (int k = 0; k < count; k++, at += n) {
            const int64_t name = s == w->rank && keeps_own(e) ? OWN : at;
            const int found = cr_tree_push(&tree, nodes[k], name, merges);
            for (int i = 0; i < found && status == CR_OK; i++) {
                const cr_array x = merges[i] == OWN ? own : cr_array_range(&e->receive, merges[i], n),
                               y = name == OWN ? own : cr_array_range(&e->receive, at, n);
                const bool last = s == w->size - 1 && k == count - 1 && i == found - 1;
                const cr_array to = last ? *out : cr_array_range(&e->receive, name == OWN ? merges[i] : at, n);
                status = add_arrays(w, &to, &x, &y);
                if (name == OWN) own = to;
            }
        }
    }
    return status;
}

static int all_to_all(cr_world *w, cr_exchange *e, const cr_array *packed) {
    cr_range *send = w->ranges + 2 * w->size, *receive = send + w->size;
    cr_tree_node nodes[CR_TREE_DEPTH];
    const int64_t width = width_of(packed);
    const cr_array *to = e->half ? &e->arrived : &e->receive;
    int64_t at = 0;
    for (int s = 0; s < w->size; s++) {
        const int64_t theirs = mine(w, e) * cr_tree_cover(e->leaves, s, w->size, nodes);
        const bool kept = s == w->rank && keeps_own(e);
        send[s] = (cr_range){e->cut[s] * e->nodes * width, kept ? 0 : shard(e, s) * e->nodes * width};
        receive[s] = (cr_range){at * width, kept ? 0 : theirs * width};
        at += theirs;
        e->sent += s == w->rank ? 0 : send[s].bytes;
        e->received += s == w->rank ? 0 : receive[s].bytes;
    }
    const int code = cr_carry_exchange(w, packed, send, to, receive);
    cr_status status = CR_OK;
    for (int s = 0; s < w->size && e->half && !code && status == CR_OK; s++) {
        const int64_t first = receive[s].at / width, n = receive[s].bytes / width;
        const cr_array wide = cr_array_range(&e->receive, first, n), half = cr_array_range(to, first, n);
        status = cr_exchange_copy(&wide, &half);
    }
    return code ? code : cr_carried(w, status);
}

int64_t cr_exchange_sent(const cr_world *w, const int64_t *cut, int64_t width) {
    return (cut[w->rank + 1] - cut[w->rank]) * width * (w->size - 1);
}

int cr_exchange_gather(cr_world *w, const cr_array *x, const int64_t *cut) {
    cr_range *of = w->ranges + 2 * w->size;
    for (int s = 0; s < w->size; s++) of[s] = (cr_range){cut[s] * width_of(x), (cut[s + 1] - cut[s]) * width_of(x)};
    return cr_carry_spread(w, x, of);
}

/* Messages with a buffer of their own gather in the room for sending, which nothing reads any more. */
static int run_exchange(cr_world *w, cr_exchange *e) {
    cr_array packed;
    cr_status status = pack(w, e, &packed);
    int code = status == CR_OK ? all_to_all(w, e, &packed) : cr_carried(w, status);
    if (code) return code;
    const cr_array all = buffered(e) ? cr_array_range(&e->send, 0, e->n) : e->out,
                   own = cr_array_range(&e->out, e->apart ? 0 : e->cut[w->rank], mine(w, e));
    status = add_up(w, e, &own);
    if (status == CR_OK && e->gather && buffered(e)) {
        const cr_array sent = cr_array_range(&all, e->cut[w->rank], mine(w, e));
        status = cr_exchange_copy(&sent, &own);
    }
    if (status != CR_OK) return cr_carried(w, status);
    if (!e->gather) return 0;
    e->sent += cr_exchange_sent(w, e->cut, width_of(&all));
    e->received += (e->n - mine(w, e)) * width_of(&all);
    if ((code = cr_exchange_gather(w, &all, e->cut))) return code;
    const cr_array out = cr_array_range(&e->out, 0, e->n);
    return buffered(e) ? cr_carried(w, cr_exchange_copy(&out, &all)) : 0;
}

/* This rank's nodes are added first; then the engine adds those of all ranks. */
static int run_engine(cr_world *w, cr_exchange *e) {
    const cr_array out = cr_array_range(&e->out, 0, e->n);
    const cr_array sum = out.dev->host ? out : cr_array_range(&e->send, 0, e->n);
    cr_status status = e->nodes > 1 ? add_arrays(w, &sum, &e->value[0], &e->value[1])
                       : out.dev->host ? CR_OK : cr_exchange_copy(&sum, &e->value[0]);
    for (int k = 2; k < e->nodes && status == CR_OK; k++) status = add_arrays(w, &sum, &sum, &e->value[k]);
    const int code = status == CR_OK ? cr_carry_sum(w, &sum) : cr_carried(w, status);
    return code || out.dev->host ? code : cr_carried(w, cr_exchange_copy(&out, &sum));
}

/* A failed exchange leaves its code; later ones of the step run all the same, as on the other ranks. */
int cr_exchange_run(cr_world *w, void *exchange) {
    cr_exchange *e = exchange;
    const double begun = cr_os_seconds();
    const int code = e->engine ? run_engine(w, e) : run_exchange(w, e);
    e->seconds += cr_os_seconds() - begun;
    return code;
}
