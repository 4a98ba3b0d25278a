/* layout.c - where parameters lie in flat memory, its buckets, and the shards of each bucket. */
#include <stdint.h>
#include <stdlib.h>

#include "parallel.h"

enum { BUCKET = 25 << 20 };

static int64_t elements_of_bucket(const cr_parallel *p) {
    const int64_t n = (p->o.bucket_bytes ? p->o.bucket_bytes : BUCKET) / p->width;
    return n < p->w->size ? p->w->size : n;
}

bool cr_layout_whole(const cr_parallel *p, int64_t param) { return p->opt->slots[param].update->step != NULL; }

cr_tensor *cr_flat_new(const cr_device *dev, cr_dtype dt, int64_t n) {
    cr_scope_begin();
    cr_tensor *x = cr_empty(CR_LIST(n), dt, dev), *held = x ? cr_retain(x) : NULL;
    cr_scope_end();
    return held;
}

static void assign_ranges(cr_parallel *p) {
    p->total = 0;
    for (int64_t k = 0; k < p->opt->count; k++) {
        cr_flat_range *x = &p->ranges[p->order[k]];
        x->at = p->total;
        x->n = cr_numel(p->opt->slots[p->order[k]].p);
        p->total += x->n;
    }
}

/* ---- buckets of one size, shards of one size */
static bool even_buckets(cr_parallel *p) {
    const int64_t n = elements_of_bucket(p), size = p->w->size;
    p->n_buckets = (p->total + n - 1) / n;
    p->buckets = calloc((size_t)p->n_buckets + 1, sizeof *p->buckets);
    p->cuts = calloc((size_t)(p->n_buckets * (size + 1)) + 1, sizeof *p->cuts);
    if (!p->buckets || !p->cuts) return false;
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        b->at = i * n;
        b->n = p->total - b->at < n ? p->total - b->at : n;
        cr_exchange_even(b->n, (int)size, p->cuts + i * (size + 1));
    }
    return true;
}

/* ---- buckets and shards of whole units */
static bool make_units(cr_parallel *p) {
    int64_t count = 0;
    for (int64_t i = 0; i < p->opt->count; i++) count += p->ranges[i].n / CR_NORM_BLOCK + 1;
    p->units = calloc((size_t)count + 1, sizeof *p->units);
    if (!p->units) return false;
    p->n_units = 0;
    for (int64_t k = 0; k < p->opt->count; k++) {
        const int64_t i = p->order[k], all = p->ranges[i].n, most = cr_layout_whole(p, i) ? all : CR_NORM_BLOCK;
        for (int64_t from = 0; from < all; from += most)
            p->units[p->n_units++] = (cr_unit){i, from, all - from < most ? all - from : most, 0};
    }
    return true;
}

/* The border of units in [from, n] that is nearest to `wanted`; u: the unit that begins at `at`. */
static int64_t nearest(const cr_parallel *p, int64_t u, int64_t at, int64_t n, int64_t wanted, int64_t from) {
    int64_t best = at;
    for (; at <= n; at += p->units[u++].n) {
        const bool nearer = llabs(at - wanted) < llabs(best - wanted);
        if (best < from || (at >= from && nearer)) best = at;
        if (at >= wanted && at >= from) break;
        if (at == n) break;
    }
    return best;
}

/* Cuts a bucket, so that what each rank has of all buckets so far comes near to its share.  before[s]: elements that
 * ranks below s have of them. */
static void cut_bucket(cr_parallel *p, const cr_bucket *b, int64_t *cuts, int64_t unit, int64_t *before) {
    const int size = p->w->size;
    cuts[0] = 0;
    cuts[size] = b->n;
    for (int s = 1; s < size; s++) {
        const int64_t wanted = cr_tree_first(b->at + b->n, s, size) - before[s];
        cuts[s] = nearest(p, unit, 0, b->n, wanted, cuts[s - 1]);
    }
    for (int s = 1; s <= size; s++) before[s] += cuts[s];
    int64_t at = 0;
    for (int64_t u = unit, owner = 0; at < b->n; at += p->units[u++].n) {
        while (at >= cuts[owner + 1]) owner++;
        p->units[u].owner = (int)owner;
    }
}

static bool unit_buckets(cr_parallel *p) {
    const int64_t most = elements_of_bucket(p), size = p->w->size;
    if (!make_units(p)) return false;
    int64_t *before = calloc((size_t)size + 1, sizeof *before), n = 0;
    p->buckets = calloc((size_t)p->n_units + 1, sizeof *p->buckets);
    for (int64_t u = 0; u < p->n_units && p->buckets; u++) {
        cr_bucket *b = &p->buckets[n];
        if (b->n && b->n + p->units[u].n > most) {
            b = &p->buckets[++n];
            b->at = b[-1].at + b[-1].n;
        }
        b->n += p->units[u].n;
    }
    p->n_buckets = p->n_units ? n + 1 : 0;
    p->cuts = calloc((size_t)(p->n_buckets * (size + 1)) + 1, sizeof *p->cuts);
    const bool good = before && p->buckets && p->cuts;
    for (int64_t i = 0, u = 0; i < p->n_buckets && good; i++) {
        cut_bucket(p, &p->buckets[i], p->cuts + i * (size + 1), u, before);
        for (int64_t at = 0; at < p->buckets[i].n;) at += p->units[u++].n;
    }
    free(before);
    return good;
}

/* ---- exchanges */
static bool make_exchanges(cr_parallel *p) {
    cr_tree_node nodes[CR_TREE_DEPTH];
    int64_t send = 0, receive = 0;
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        int64_t s, r;
        b->e = (cr_exchange){.dtype = p->dtype, .leaves = p->o.microbatches, .n = b->n, .gather = !p->o.shard,
                             .engine = p->o.engine, .half = p->o.half, .out = {.dev = p->dev}};
        b->e.cut = p->cuts + i * (p->w->size + 1);
        b->e.nodes = cr_tree_cover(p->o.microbatches, p->w->rank, p->w->size, nodes);
        cr_exchange_room(p->w, &b->e, &s, &r);
        if (s > INT32_MAX / p->width || r > INT32_MAX / p->width || b->n > INT32_MAX / p->width) {
            cr_fail(CR_BAD_VALUE, "parallel_new", "a bucket of %lld elements has %lld bytes to exchange: at most %d; a "
                    "parameter of Muon is in one bucket", (long long)b->n, (long long)((s > r ? s : r) * p->width),
                    INT32_MAX);
            return false;
        }
        send = s > send ? s : send;
        receive = r > receive ? r : receive;
    }
    p->send = cr_flat_new(p->dev, p->o.half ? CR_BF16 : p->dtype, send);
    p->receive = p->send ? cr_flat_new(p->dev, p->dtype, receive) : NULL;
    p->arrived = p->receive ? cr_flat_new(p->dev, CR_BF16, p->o.half ? receive : 0) : NULL;
    return p->arrived != NULL;
}

bool cr_layout_make(cr_parallel *p) {
    assign_ranges(p);
    if (p->w->size == 1) return true;
    bool good = p->o.shard ? unit_buckets(p) : even_buckets(p);
    if (good) good = make_exchanges(p);
    if (!good && !cr_error())
        cr_fail(CR_NO_MEMORY, "parallel_new", "no memory for the gradients of %lld parameters", (long long)p->total);
    return good;
}

void cr_layout_free(cr_parallel *p) {
    free(p->buckets);
    free(p->cuts);
    free(p->units);
    cr_drop(p->send);
    cr_drop(p->receive);
    cr_drop(p->arrived);
    p->buckets = NULL;
    p->cuts = NULL;
    p->units = NULL;
    p->send = p->receive = p->arrived = NULL;
    p->n_buckets = p->n_units = 0;
}
