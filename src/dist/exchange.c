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

/* to = a + b; to may be a or b */
static void add(cr_dtype dt, void *to, const void *a, const void *b, int64_t n) {
    if (dt == CR_F64) {
        double *y = to;
        const double *u = a, *v = b;
        for (int64_t i = 0; i < n; i++) y[i] = u[i] + v[i];
    } else {
        float *y = to;
        const float *u = a, *v = b;
        for (int64_t i = 0; i < n; i++) y[i] = u[i] + v[i];
    }
}

/* A rank with one node does not send its own shard to itself. */
static bool keeps_own(const cr_exchange *e) { return e->nodes == 1; }

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

/* Adds all nodes of all ranks, from left to right; the last addition writes to out. */
static void add_up(const cr_world *w, cr_exchange *e, char *out, int64_t width) {
    enum { OWN = -1 };                              /* name of this rank's node where it is in value[0] */
    const int64_t n = mine(w, e), bytes = n * width;
    const char *own = e->value[0] + e->cut[w->rank] * width;
    cr_tree tree = {.leaves = e->leaves};
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t merges[CR_TREE_DEPTH], at = 0;
    for (int s = 0; s < w->size; s++) {
        const int count = cr_tree_cover(e->leaves, s, w->size, nodes);
        for (int k = 0; k < count; k++, at += bytes) {
            const int64_t name = s == w->rank && keeps_own(e) ? OWN : at;
            const int found = cr_tree_push(&tree, nodes[k], name, merges);
            for (int i = 0; i < found; i++) {
                const char *x = merges[i] == OWN ? own : e->receive + merges[i];
                const char *y = name == OWN ? own : e->receive + at;
                const bool last = s == w->size - 1 && k == count - 1 && i == found - 1;
                char *to = last ? out : e->receive + (name == OWN ? merges[i] : at);
                add(e->dtype, to, x, y, n);
                if (name == OWN) own = to;
            }
        }
    }
}

static int all_to_all(cr_world *w, cr_exchange *e, const char *send, int64_t width) {
    int *sc = w->counts, *sd = sc + w->size, *rc = sd + w->size, *rd = rc + w->size;
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t at = 0;
    for (int s = 0; s < w->size; s++) {
        const int64_t theirs = mine(w, e) * cr_tree_cover(e->leaves, s, w->size, nodes);
        const bool kept = s == w->rank && keeps_own(e);
        sc[s] = kept ? 0 : (int)(shard(e, s) * e->nodes * width);
        sd[s] = (int)(e->cut[s] * e->nodes * width);
        rc[s] = kept ? 0 : (int)(theirs * width);
        rd[s] = (int)at;
        at += theirs * width;
        e->sent += s == w->rank ? 0 : sc[s];
        e->received += s == w->rank ? 0 : rc[s];
    }
    const cr_mpi *m = &w->mpi;
    cr_mpi_handle request = 0;
    const int code = m->Ialltoallv(send, sc, sd, m->byte, e->receive, rc, rd, m->byte, w->comm, &request);
    return cr_mpi_wait(m, code, &request, e->n * e->nodes * width);
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
    return cr_mpi_wait(m, code, &request, own);
}

/* A failed exchange leaves its code; later ones of the step run all the same, as on the other ranks. */
int cr_exchange_run(cr_world *w, void *exchange) {
    cr_exchange *e = exchange;
    const int64_t width = (int64_t)cr_dtype_size(e->dtype);
    const double begun = cr_os_seconds();
    int code = all_to_all(w, e, packed(w, e, (size_t)width), width);
    if (!code) {
        add_up(w, e, e->out + (e->apart ? 0 : e->cut[w->rank] * width), width);
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
