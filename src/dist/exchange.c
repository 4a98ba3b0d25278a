/* exchange.c - one sum over all ranks in the tree's order: every shard's partial sums to the shard's
 * owner (all-to-all), our additions, the result to all (all-gather).  The engine moves bytes, and adds
 * nothing.  It runs on the world's thread. */
#include <string.h>

#include "tree.h"
#include "world.h"

static int64_t shard(const cr_exchange *e, int s) { return e->cut[s + 1] - e->cut[s]; }
static int64_t mine(const cr_world *w, const cr_exchange *e) { return shard(e, w->rank); }

void cr_exchange_even(int64_t n, int size, int64_t *cut) {
    for (int s = 0; s <= size; s++) cut[s] = cr_tree_first(n, s, size);
}

void cr_exchange_room(const cr_world *w, const cr_exchange *e, int64_t *send, int64_t *receive) {
    cr_tree_node nodes[CR_TREE_DEPTH];
    const int64_t width = (int64_t)cr_dtype_size(e->dtype);
    int64_t all = 0;
    for (int s = 0; s < w->size; s++) all += cr_tree_cover(e->leaves, s, w->size, nodes);
    *send = e->nodes > 1 ? e->n * e->nodes * width : 0;
    *receive = mine(w, e) * all * width;
}

static void add(cr_dtype dt, void *restrict to, const void *restrict from, int64_t n) {
    if (dt == CR_F64) {
        double *restrict y = to;
        const double *restrict x = from;
        for (int64_t i = 0; i < n; i++) y[i] += x[i];
    } else {
        float *restrict y = to;
        const float *restrict x = from;
        for (int64_t i = 0; i < n; i++) y[i] += x[i];
    }
}

/* Shard by shard, and in a shard node by node. */
static const char *packed(const cr_world *w, cr_exchange *e, size_t width) {
    if (e->nodes == 1) return e->value[0];
    char *to = e->send;
    for (int s = 0; s < w->size; s++)
        for (int k = 0; k < e->nodes; k++) {
            const size_t from = (size_t)e->cut[s] * width, bytes = (size_t)shard(e, s) * width;
            memcpy(to, e->value[k] + from, bytes);
            to += bytes;
        }
    return e->send;
}

/* All nodes of all ranks, from left to right, into one sum; returns where it lies in e->receive. */
static char *add_up(const cr_world *w, cr_exchange *e, int64_t bytes) {
    cr_tree tree = {.leaves = e->leaves};
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t merges[CR_TREE_DEPTH], at = 0;
    for (int s = 0; s < w->size; s++) {
        const int count = cr_tree_cover(e->leaves, s, w->size, nodes);
        for (int k = 0; k < count; k++, at += bytes) {
            const int found = cr_tree_push(&tree, nodes[k], at, merges);
            for (int i = 0; i < found; i++) add(e->dtype, e->receive + at, e->receive + merges[i], mine(w, e));
        }
    }
    return e->receive + tree.at[0].value;
}

static int all_to_all(cr_world *w, cr_exchange *e, const char *send, int64_t width) {
    int *sc = w->counts, *sd = sc + w->size, *rc = sd + w->size, *rd = rc + w->size;
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t at = 0;
    for (int s = 0; s < w->size; s++) {
        const int64_t theirs = mine(w, e) * cr_tree_cover(e->leaves, s, w->size, nodes);
        sc[s] = (int)(shard(e, s) * e->nodes * width);
        sd[s] = (int)(e->cut[s] * e->nodes * width);
        rc[s] = (int)(theirs * width);
        rd[s] = (int)at;
        at += theirs * width;
        e->sent += s == w->rank ? 0 : sc[s];
        e->received += s == w->rank ? 0 : rc[s];
    }
    const cr_mpi *m = &w->mpi;
    cr_mpi_handle request = 0;
    const int code = m->Ialltoallv(send, sc, sd, m->byte, e->receive, rc, rd, m->byte, w->comm, &request);
    return cr_mpi_wait(m, code, &request);
}

static int gather(cr_world *w, cr_exchange *e, int64_t width) {
    int *counts = w->counts, *at = counts + w->size;
    for (int s = 0; s < w->size; s++) {
        at[s] = (int)(e->cut[s] * width);
        counts[s] = (int)(shard(e, s) * width);
        e->received += s == w->rank ? 0 : counts[s];
    }
    e->sent += (int64_t)counts[w->rank] * (w->size - 1);
    const cr_mpi *m = &w->mpi;
    cr_mpi_handle request = 0;
    const int own = counts[w->rank],
              code = m->Iallgatherv(m->in_place, own, m->byte, e->out, counts, at, m->byte, w->comm, &request);
    return cr_mpi_wait(m, code, &request);
}

/* A failed exchange leaves its code; later ones of the step run all the same, as on the other ranks. */
int cr_exchange_run(cr_world *w, void *exchange) {
    cr_exchange *e = exchange;
    const int64_t width = (int64_t)cr_dtype_size(e->dtype), bytes = mine(w, e) * width;
    const double begun = cr_os_seconds();
    int code = all_to_all(w, e, packed(w, e, (size_t)width), width);
    if (!code) {
        const char *sum = add_up(w, e, bytes);
        memcpy(e->out + (e->apart ? 0 : e->cut[w->rank] * width), sum, (size_t)bytes);
        if (e->gather) code = gather(w, e, width);
    }
    e->seconds += cr_os_seconds() - begun;
    return code;
}

int cr_exchange_gather(cr_world *w, void *exchange) {
    cr_exchange *e = exchange;
    const double begun = cr_os_seconds();
    const int code = gather(w, e, (int64_t)cr_dtype_size(e->dtype));
    e->seconds += cr_os_seconds() - begun;
    return code;
}
