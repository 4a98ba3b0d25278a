/* shard.c - an optimizer whose moments, masters and updates are spread over the ranks: ZeRO's stage 1.
 *
 * A piece is a run of units of one parameter in one shard.  An optimizer of pieces has one slot for
 * each piece of this rank, with the options, the steps and the update of the parameter.  Updates of
 * elements do not depend on where a tensor is cut, so the bits are those of the whole. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../nn/params.h"
#include "parallel.h"

static const char op[] = "parallel_step";

/* ---- making */
static void drop_kept(const cr_parallel *p) {
    for (int64_t i = 0; i < p->opt->count; i++)
        for (int k = 0; k < CR_KEPT; k++) {
            cr_drop(p->opt->slots[i].kept[k]);
            p->opt->slots[i].kept[k] = NULL;
        }
}

cr_status cr_shard_begin(cr_parallel *p) {
    p->state = cr_optim_state(p->opt);              /* holds the moments that a checkpoint has given */
    if (!p->state) return cr_error_status();
    drop_kept(p);
    p->opt->sharded = p;
    return CR_OK;
}

static bool joins(const cr_unit *a, const cr_unit *b, bool same_bucket) {
    return same_bucket && a->param == b->param && a->owner == b->owner && a->from + a->n == b->from;
}

/* A rank's pieces of a group, in the order of flat memory; out NULL: counts. */
static int64_t pieces_of(const cr_parallel *p, int owner, int group, cr_unit *out) {
    int64_t n = 0, bucket = 0, at = 0;
    for (int64_t u = 0; u < p->n_units; at += p->units[u++].n) {
        const cr_unit *x = &p->units[u];
        const bool first = at == p->buckets[bucket].at + p->buckets[bucket].n;
        bucket += first;
        if (x->owner != owner || p->opt->slots[x->param].group != group) continue;
        if (u && joins(x - 1, x, !first)) {
            if (out) out[n - 1].n += x->n;
            continue;
        }
        if (out) out[n] = *x;
        n++;
    }
    return n;
}

/* A rank's pieces, group after group, for free; NULL: no memory. */
static cr_unit *list_of(const cr_parallel *p, int owner, int64_t *count) {
    int64_t n = 0;
    for (int g = 0; g < p->opt->groups; g++) n += pieces_of(p, owner, g, NULL);
    cr_unit *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld pieces", (long long)n), NULL;
    *count = n;
    n = 0;
    for (int g = 0; g < p->opt->groups; g++) n += pieces_of(p, owner, g, list + n);
    return list;
}

/* A piece of a parameter that lies in a flat tensor from element `at` on; the caller's scope has it. */
static cr_tensor *view_of(const cr_parallel *p, const cr_unit *x, const cr_tensor *flat, int64_t at) {
    const cr_tensor *whole = p->opt->slots[x->param].p;
    cr_tensor *part = flat ? cr_slice(flat, 0, at + x->from, at + x->from + x->n, 1) : NULL;
    return part && cr_layout_whole(p, x->param) ? cr_view(part, cr_ndim(whole), cr_shape(whole)) : part;
}

static cr_tensor *weights_of(const cr_parallel *p, const cr_unit *x) {
    const cr_tensor *whole = cr_detach(p->opt->slots[x->param].p);
    return view_of(p, x, whole ? cr_view(whole, 1, (int64_t[]){cr_numel(whole)}) : NULL, 0);
}

static cr_array part_of(const cr_parallel *p, const cr_unit *x) {
    return cr_array_range(&p->opt->slots[x->param].p->array, x->from, x->n);
}

/* A group of the optimizer of pieces. */
static cr_status add_group(cr_parallel *p, int group, const cr_unit *list, int64_t n) {
    cr_params *set = cr_params_new();
    cr_status status = set ? CR_OK : cr_error_status();
    cr_scope_begin();
    for (int64_t i = 0; i < n && status == CR_OK; i++) {
        char name[64];
        snprintf(name, sizeof name, "%lld.%lld", (long long)list[i].param, (long long)list[i].from);
        cr_tensor *t = weights_of(p, &list[i]);
        status = t ? cr_params_add(set, name, t) : cr_error_status();
    }
    const cr_optim_options *o = &p->opt->options[group];
    if (status == CR_OK && p->pieces) status = cr_optim_add(p->pieces, set, o);
    else if (status == CR_OK && !(p->pieces = cr_optim_new(set, o))) status = cr_error_status();
    cr_scope_end();
    cr_params_free(set);
    return status;
}

/* The piece's part of what was there before. */
static cr_status take_kept(const cr_parallel *p, cr_slot *s, const cr_unit *x, int k) {
    const int64_t at = cr_params_find(p->state, p->opt->slots[x->param].entry[k]);
    if (at < 0) return CR_OK;
    const cr_tensor *from = cr_params_at(p->state, at);
    s->kept[k] = cr_kept_new(p->pieces, s, k);
    if (!s->kept[k]) return cr_error_status();
    cr_scope_begin();
    const cr_tensor *part = view_of(p, x, cr_view(from, 1, (int64_t[]){cr_numel(from)}), 0);
    const cr_status status = part && cr_copy_(s->kept[k], part) ? CR_OK : cr_error_status();
    cr_scope_end();
    return status;
}

static cr_status make_pieces(cr_parallel *p) {
    int64_t n = 0, count = 0;
    p->piece = list_of(p, p->w->rank, &count);
    if (!p->piece) return cr_error_status();
    cr_status status = CR_OK;
    for (int g = 0; g < p->opt->groups && status == CR_OK; g++) {
        const int64_t found = pieces_of(p, p->w->rank, g, NULL);
        status = add_group(p, g, p->piece + n, found);
        n += found;
    }
    for (int64_t i = 0; i < count && status == CR_OK; i++) {
        cr_slot *s = &p->pieces->slots[i];
        const cr_slot *whole = &p->opt->slots[p->piece[i].param];
        s->update = whole->update;
        s->decays = whole->decays;
        for (int k = 0; k < CR_KEPT && status == CR_OK; k++)
            if (cr_slot_keeps(s, k)) status = take_kept(p, s, &p->piece[i], k);
    }
    if (p->o.elastic) return status;                /* until the first step is over, a loss needs them */
    cr_params_free(p->state);
    p->state = NULL;
    return status;
}

static cr_status make_sums(cr_parallel *p) {
    int64_t *count = calloc((size_t)p->w->size + 1, sizeof *count);
    if (!count) return cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
    p->most_blocks = 1;
    for (int64_t u = 0; u < p->n_units; u++) {
        int64_t *n = &count[p->units[u].owner];
        *n += cr_blocks_of(p->units[u].n);
        if (*n > p->most_blocks) p->most_blocks = *n;
    }
    free(count);
    p->sums = calloc((size_t)p->most_blocks, sizeof *p->sums);
    p->all_sums = calloc((size_t)(p->most_blocks * p->w->size), sizeof *p->all_sums);
    return p->sums && p->all_sums ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
}

void cr_shard_forget(cr_parallel *p, bool moments) {
    cr_tensor **copies[] = {&p->own[0], &p->own[1], &p->left[0], &p->left[1], &p->weights};
    for (int i = 0; i < 5; i++) {
        cr_drop(*copies[i]);
        *copies[i] = NULL;
    }
    cr_optim_free(p->pieces);
    free(p->piece);
    free(p->sums);
    free(p->all_sums);
    p->pieces = NULL;
    p->piece = NULL;
    p->sums = p->all_sums = NULL;
    if (!moments) return;
    cr_params_free(p->state);
    p->state = NULL;
    if (p->opt->sharded == p) p->opt->sharded = NULL;
}

/* ---- the norm: each rank's blocks, added by all in the order of the optimizer's parameters */
static cr_status own_sums(const cr_parallel *p, const cr_tensor *flat) {
    int64_t n = 0, at = 0;
    cr_flat_range *range = calloc((size_t)p->n_units + 1, sizeof *range);
    if (!range) return cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
    for (int64_t u = 0; u < p->n_units; at += p->units[u++].n)
        if (p->units[u].owner == p->w->rank) range[n++] = (cr_flat_range){.at = at, .n = p->units[u].n};
    const cr_status status = cr_range_sums(flat, range, n, p->sums);
    free(range);
    return status;
}

cr_status cr_shard_norm(cr_parallel *p, const cr_tensor *flat, double *norm) {
    if (!p->sums && make_sums(p) != CR_OK) return cr_error_status();
    if (own_sums(p, flat) != CR_OK) return cr_error_status();
    cr_status status = cr_world_gather(p->w, op, p->sums, p->most_blocks * (int64_t)sizeof *p->sums, p->all_sums);
    if (status != CR_OK) return status;
    int64_t *next = calloc((size_t)p->w->size, sizeof *next), *first = calloc((size_t)p->opt->count + 1, sizeof *first),
            blocks = 0;
    for (int64_t i = 0; first && i < p->opt->count; i++) {
        first[i] = blocks;
        blocks += cr_blocks_of(p->ranges[i].n);
    }
    double *sum = calloc((size_t)blocks + 1, sizeof *sum), total = 0;
    if (next && first && sum) {
        for (int64_t u = 0; u < p->n_units; u++) {
            const cr_unit *x = &p->units[u];
            const double *of = p->all_sums + x->owner * p->most_blocks;
            for (int64_t k = 0; k < cr_blocks_of(x->n); k++)
                sum[first[x->param] + x->from / CR_NORM_BLOCK + k] = of[next[x->owner]++];
        }
        for (int64_t i = 0; i < p->opt->count; i++)
            for (int64_t k = 0; k < cr_blocks_of(p->ranges[i].n) && p->ranges[i].arrived; k++)
                total += sum[first[i] + k];
        *norm = sqrt(total);
    } else status = cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
    free(next);
    free(first);
    free(sum);
    return status;
}

/* ---- elastic: copies for a loss */
static int64_t packed_length(const cr_parallel *p, const cr_unit *list, int64_t count) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; i++) n += list[i].n * cr_slot_tensors(&p->opt->slots[list[i].param]);
    return n;
}

static int64_t length_of(const cr_parallel *p, int owner) {
    int64_t count = 0;
    cr_unit *list = list_of(p, owner, &count);
    const int64_t n = list ? packed_length(p, list, count) : -1;
    free(list);
    return n;
}

static cr_status make_copies(cr_parallel *p) {
    const int64_t own = length_of(p, p->rank), left = length_of(p, (p->rank + p->size - 1) % p->size);
    int64_t weights = 0;
    for (int64_t i = 0; i < p->pieces->count; i++) weights += p->piece[i].n;
    p->most_packed = 0;
    for (int r = 0; r < p->size; r++) {
        const int64_t bytes = length_of(p, r) * 4;
        if (bytes < 0) return cr_error_status();
        if (bytes > p->most_packed) p->most_packed = bytes;
    }
    bool good = (p->weights = cr_flat_new(p->dev, p->dtype, weights)) != NULL;
    for (int i = 0; i < 2 && good; i++)
        good = (p->own[i] = cr_flat_new(p->dev, CR_F32, own)) && (p->left[i] = cr_flat_new(p->dev, CR_F32, left));
    return good ? CR_OK : cr_error_status();
}

/* The weights of this rank's pieces to their copy, or back. */
static cr_status copy_weights(cr_parallel *p, bool back) {
    cr_status status = CR_OK;
    for (int64_t i = 0, at = 0; i < p->pieces->count && status == CR_OK; at += p->piece[i++].n) {
        const cr_array copy = cr_array_range(&p->weights->array, at, p->piece[i].n), here = part_of(p, &p->piece[i]);
        status = cr_exchange_copy(back ? &here : &copy, back ? &copy : &here);
    }
    p->changed = !back;
    return status;
}

cr_status cr_shard_undo(cr_parallel *p) { return p->changed ? copy_weights(p, true) : CR_OK; }

/* This rank's moments and masters, one after the other; moments are 0 where there was no step yet, masters what the
 * next step makes them. */
static cr_status pack(const cr_parallel *p, cr_tensor *into) {
    cr_status status = CR_OK;
    int64_t at = 0;
    for (int64_t i = 0; i < p->pieces->count; i++) {
        const cr_slot *s = &p->pieces->slots[i];
        const int64_t n = p->piece[i].n;
        for (int k = 0; k < CR_KEPT && status == CR_OK; k++) {
            if (!cr_slot_keeps(s, k)) continue;
            const cr_array to = cr_array_range(&into->array, at, n);
            const cr_array from = s->kept[k] ? cr_array_range(&s->kept[k]->array, 0, n) : part_of(p, &p->piece[i]);
            if (s->kept[k] || k == CR_MASTER) status = cr_exchange_copy(&to, &from);
            else status = cr_fill_(cr_slice(into, 0, at, at + n, 1), 0) ? CR_OK : cr_error_status();
            at += n;
        }
    }
    return status;
}

/* This rank's moments to its right neighbour, piece by piece, because MPI counts in ints. */
static int send_right(cr_world *w, void *ctx) {
    enum { PIECE = 1 << 24 };                       /* bytes */
    cr_parallel *p = ctx;
    cr_range *send = w->ranges + 2 * w->size, *receive = send + w->size;
    const int right = (w->rank + 1) % w->size, left = (w->rank + w->size - 1) % w->size;
    const int64_t out = cr_numel(p->own[1]) * 4, in = cr_numel(p->left[1]) * 4;
    int code = 0;
    for (int64_t at = 0; at < p->most_packed && !code; at += PIECE) {
        const int64_t n = out - at < PIECE ? out - at : PIECE, m = in - at < PIECE ? in - at : PIECE;
        memset(send, 0, 2 * (size_t)w->size * sizeof *send);
        if (n > 0) send[right].bytes = n;
        if (m > 0) receive[left].bytes = m;
        const cr_array from = cr_array_range(&p->own[1]->array, at / 4 < out / 4 ? at / 4 : 0, n > 0 ? n / 4 : 0),
                       to = cr_array_range(&p->left[1]->array, at / 4 < in / 4 ? at / 4 : 0, m > 0 ? m / 4 : 0);
        code = cr_carry_exchange(w, &from, send, &to, receive);
        p->stats.sent += send[right].bytes;
        p->stats.received += receive[left].bytes;
    }
    return code;
}

/* ---- the update */

/* Slots of pieces read the parameter where it lies now, and its gradient in flat memory. */
static cr_status point(cr_parallel *p, int64_t i, const cr_tensor *flat) {
    const cr_unit *x = &p->piece[i];
    cr_slot *s = &p->pieces->slots[i];
    const cr_flat_range *range = &p->ranges[x->param];
    cr_tensor *t = weights_of(p, x);
    if (!t) return cr_error_status();
    if (t->array.storage != s->p->array.storage || t->array.offset != s->p->array.offset) {
        cr_unhold(s->p);
        s->p = cr_hold(t);
    }
    s->steps = p->opt->slots[x->param].steps;
    if (!range->arrived) return cr_set_grad(s->p, CR_NONE);
    const cr_tensor *g = view_of(p, x, flat, range->at);
    return g ? cr_set_grad(s->p, g) : cr_error_status();
}

static cr_status step_pieces(cr_parallel *p, const cr_tensor *flat, double scale) {
    cr_status status = p->pieces ? CR_OK : make_pieces(p);
    if (status == CR_OK && p->o.elastic && !p->weights) status = make_copies(p);
    if (status == CR_OK && p->o.elastic) status = copy_weights(p, false);
    const int64_t n = status == CR_OK ? p->pieces->count : 0;
    for (int64_t i = 0; i < n && status == CR_OK; i++) status = point(p, i, flat);
    if (status != CR_OK) return status;
    memcpy(p->pieces->options, p->opt->options, (size_t)p->opt->groups * sizeof *p->opt->options);
    p->pieces->steps = p->opt->steps;
    p->pieces->scale = scale;
    status = cr_optim_step(p->pieces);
    p->pieces->scale = 1;
    for (int64_t i = 0; i < n; i++) {               /* the gradients are done with: new weights take their place */
        const cr_tensor *weights = p->pieces->slots[i].p;
        (void)cr_set_grad(p->pieces->slots[i].p, CR_NONE);
        cr_tensor *to = view_of(p, &p->piece[i], flat, p->ranges[p->piece[i].param].at);
        if (status == CR_OK && !(to && cr_copy_(to, weights))) status = cr_error_status();
    }
    return status;
}

/* ---- the gather of new weights, under the next forward pass */

static void drop_landings(cr_parallel *p) {
    for (int64_t i = 0; i < p->n_landings; i++) {
        cr_pending_clear(p->landings[i].to.storage);
        cr_storage_release(p->landings[i].to.storage);
    }
    free(p->landings);
    p->landings = NULL;
    p->n_landings = 0;
}

void cr_shard_free(cr_parallel *p) {
    drop_landings(p);
    cr_shard_forget(p, true);
}

/* What the gathers bring of other ranks' shards, bucket by bucket.  own: this rank; -1: also its own weights. */
static cr_status find_landings(cr_parallel *p, const cr_tensor *all, int own) {
    p->landings = calloc((size_t)p->n_units + 1, sizeof *p->landings);
    if (!p->landings) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld pieces", (long long)p->n_units);
    cr_bucket *b = p->buckets;
    int64_t at = 0;
    b->landing = p->landings;
    for (int64_t u = 0; u < p->n_units; at += p->units[u++].n) {
        const cr_unit *x = &p->units[u];
        if (at == b->at + b->n) (++b)->landing = p->landings + p->n_landings;
        if (x->owner == own || !p->ranges[x->param].arrived) continue;
        cr_landing *l = b->landings ? &b->landing[b->landings - 1] : NULL;
        if (l && l->unit.param == x->param && l->unit.from + l->unit.n == x->from) l->unit.n += x->n;
        else {
            l = &b->landing[b->landings++];
            l->unit = *x;
            cr_storage_retain(p->opt->slots[x->param].p->storage);
            p->n_landings++;
        }
        l->to = part_of(p, &l->unit);
        l->from = cr_array_range(&all->array, p->ranges[x->param].at + l->unit.from, l->unit.n);
    }
    return CR_OK;
}

/* From here on readers of these parameters wait.  Gathers run from the last bucket to the first. */
static void expect_landings(cr_parallel *p) {
    for (int64_t i = 0; i < p->n_landings; i++) {
        cr_storage *s = p->landings[i].to.storage;
        p->landings[i].last = !atomic_load(&s->pending);
        if (!p->landings[i].last) continue;
        atomic_fetch_add(&s->version, 1);
        cr_pending_begin(s);
    }
}

static int receive(cr_world *w, void *ctx) {
    cr_bucket *b = ctx;
    const double begun = cr_os_seconds();
    int code = cr_exchange_gather(w, &b->weights, b->e.cut);
    for (int64_t i = 0; i < b->landings && !code; i++)
        code = cr_carried(w, cr_exchange_copy(&b->landing[i].to, &b->landing[i].from));
    b->seconds = cr_os_seconds() - begun;
    return code;
}

static void received(cr_world *w, cr_job *job) {
    const cr_bucket *b = job->ctx;
    char why[1024];
    if (job->code) (void)cr_world_why(w, job, why, sizeof why);
    atomic_fetch_sub(b->under_way, 1);              /* first: a reader that has waited may ask for it */
    for (int64_t i = 0; i < b->landings; i++) {
        cr_storage *s = b->landing[i].to.storage;
        if (job->code) cr_pending_fail(s, why);
        else if (b->landing[i].last) cr_pending_end(s);
    }
}

/* The forward pass reads parameters in about the reverse order of their gradients, so the last bucket goes first. */
static void post_gathers(cr_parallel *p, const cr_tensor *all) {
    for (int64_t i = p->n_buckets - 1; i >= 0; i--) {
        cr_bucket *b = &p->buckets[i];
        b->weights = cr_array_range(&all->array, b->at, b->n);
        b->seconds = 0;
        b->under_way = &p->under_way;
        b->gather = (cr_job){.run = receive, .ctx = b, .ended = received};
        p->stats.sent += cr_exchange_sent(p->w, b->e.cut, p->width);
        p->stats.received += (b->n - b->e.cut[p->rank + 1] + b->e.cut[p->rank]) * p->width;
        atomic_fetch_add(&p->under_way, 1);
        cr_world_post(p->w, &b->gather);
    }
    p->gathering = true;
}

/* After a failure readers of what did not arrive fail until cr_shard_free. */
cr_status cr_shard_settle(cr_parallel *p, const char *name) {
    cr_status status = CR_OK;
    const double begun = cr_os_seconds();
    if (!p->gathering) return CR_OK;
    p->gathering = false;
    for (int64_t i = p->n_buckets - 1; i >= 0; i--) {
        const cr_status one = cr_world_wait(p->w, name, &p->buckets[i].gather);
        if (status == CR_OK) status = one;
        p->stats.busy += p->buckets[i].seconds;
    }
    p->stats.exposed += cr_os_seconds() - begun;
    if (status == CR_OK) drop_landings(p);
    return status;
}

cr_status cr_shard_update(cr_parallel *p, const cr_tensor *all, double scale) {
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    for (int64_t i = 0; i < p->n_buckets; i++) p->buckets[i].landings = 0;
    cr_status status = step_pieces(p, all, scale);
    if (status == CR_OK && !p->o.elastic) status = find_landings(p, all, p->rank);
    if (status == CR_OK) expect_landings(p);
    post_gathers(p, all);                           /* also after a failure: the other ranks wait for it */
    const cr_status sent = status != CR_OK || p->o.elastic ? cr_shard_settle(p, op) : CR_OK;
    if (status == CR_OK) status = sent;
    if (p->o.elastic && p->left[1]) {               /* also after a failure */
        if (status == CR_OK) status = pack(p, p->own[1]);
        const cr_status copied = cr_world_run(p->w, op, send_right, p);
        if (status == CR_OK) status = copied;
    }
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

static void swap(cr_tensor *pair[2]) {
    cr_tensor *first = pair[0];
    pair[0] = pair[1];
    pair[1] = first;
}

/* elastic: all that the gathers brought, to the parameters; this rank has worked on a copy. */
static cr_status take_weights(cr_parallel *p, const cr_tensor *all) {
    cr_status status = find_landings(p, all, -1);
    for (int64_t i = 0; i < p->n_landings && status == CR_OK; i++) {
        status = cr_exchange_copy(&p->landings[i].to, &p->landings[i].from);
        atomic_fetch_add(&p->landings[i].to.storage->version, 1);
    }
    drop_landings(p);
    return status;
}

cr_status cr_shard_commit(cr_parallel *p, const cr_tensor *all) {
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    const cr_status status = p->o.elastic ? take_weights(p, all) : CR_OK;
    for (int64_t i = 0; i < p->opt->count; i++) p->opt->slots[i].steps += p->ranges[i].arrived;
    p->opt->steps += status == CR_OK;
    cr_scope_end();
    cr_set_grad_enabled(recording);
    swap(p->own);
    swap(p->left);
    p->changed = false;
    cr_params_free(p->state);
    p->state = NULL;
    return status;
}

/* ---- this rank's moments and masters, for a checkpoint */
static cr_status add_piece(const cr_parallel *p, cr_params *out, int64_t i) {
    const cr_unit *x = &p->piece[i];
    const cr_slot *piece = &p->pieces->slots[i], *whole = &p->opt->slots[x->param];
    const bool all = x->n == p->ranges[x->param].n;
    cr_status status = CR_OK;
    for (int k = 0; k < CR_KEPT && status == CR_OK; k++) {
        cr_tensor *m = piece->kept[k];
        if (!m) continue;
        size_t room = strlen(whole->entry[k]) + 32 + 24 * CR_MAX_DIMS, n;
        char *name = malloc(room);
        if (!name) return cr_fail(CR_NO_MEMORY, "parallel_moments", "no memory for a name");
        n = (size_t)snprintf(name, room, all ? "%s" : "%s@%lld", whole->entry[k], (long long)x->from);
        for (int d = 0; d < cr_ndim(whole->p) && !all; d++)
            n += (size_t)snprintf(name + n, room - n, "%c%lld", d ? 'x' : ':', (long long)cr_shape(whole->p)[d]);
        cr_scope_begin();
        cr_tensor *t = all ? cr_view(m, cr_ndim(whole->p), cr_shape(whole->p)) : m;
        status = t ? cr_params_add(out, name, t) : cr_error_status();
        cr_scope_end();
        free(name);
    }
    return status;
}

/* "NAME.t" where a parameter counts other steps than the optimizer; by rank 0. */
static cr_status add_counts(const cr_parallel *p, cr_params *out) {
    cr_status status = CR_OK;
    for (int64_t i = 0; i < p->opt->count && status == CR_OK; i++) {
        const cr_slot *s = &p->opt->slots[i];
        if (!s->update->corrected || !s->steps || s->steps == p->opt->steps) continue;
        cr_scope_begin();
        cr_tensor *t = cr_from(&s->steps, CR_LIST(1), CR_I64, cr_cpu());
        status = t ? cr_params_add(out, s->entry[CR_STEP_COUNT], t) : cr_error_status();
        cr_scope_end();
    }
    return status;
}

/* Rank `owner` of the layout's moments, after the last step, from rank `from` into the set. */
static cr_status collect_shards(cr_parallel *p, int owner, int from, cr_params *into) {
    int64_t count = 0;
    cr_unit *list = list_of(p, owner, &count);
    if (!list) return cr_error_status();
    cr_scope_begin();
    cr_tensor *all = cr_empty(CR_LIST(packed_length(p, list, count)), CR_F32, p->dev);
    cr_status status = all ? CR_OK : cr_error_status();
    if (status == CR_OK && from == p->w->rank)
        status = cr_exchange_copy(&all->array, &(owner == p->rank ? p->own[0] : p->left[0])->array);
    if (status == CR_OK) status = cr_broadcast_from(p->w, all, from);
    int64_t at = 0;
    for (int64_t i = 0; i < count && status == CR_OK; i++) {
        const cr_slot *s = &p->opt->slots[list[i].param];
        for (int k = 0; k < CR_KEPT && status == CR_OK; k++) {
            if (!cr_slot_keeps(s, k)) continue;
            const int64_t from_here = at;
            at += list[i].n;
            if (!s->steps) continue;                /* it has none yet */
            if (cr_params_find(into, s->entry[k]) < 0) {
                cr_tensor *whole = cr_zeros(cr_ndim(s->p), cr_shape(s->p), CR_F32, p->dev);
                status = whole ? cr_params_add(into, s->entry[k], whole) : cr_error_status();
            }
            if (status != CR_OK) break;
            cr_tensor *whole = cr_params_at(into, cr_params_find(into, s->entry[k]));
            const cr_array to = cr_array_range(&whole->array, list[i].from, list[i].n),
                           part = cr_array_range(&all->array, from_here, list[i].n);
            status = cr_exchange_copy(&to, &part);
        }
    }
    cr_scope_end();
    free(list);
    return status;
}

cr_params *cr_shard_collect(cr_parallel *p, const int *from) {
    cr_params *all = cr_params_new();
    cr_status status = all ? CR_OK : cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    for (int r = 0; r < p->size && status == CR_OK; r++) status = collect_shards(p, r, from[r], all);
    if (status == CR_OK) status = add_counts(p, all);
    cr_set_grad_enabled(recording);
    if (status == CR_OK) return all;
    cr_params_free(all);
    return NULL;
}

cr_params *cr_parallel_moments(cr_parallel *p) {
    if (cr_lacks("parallel_moments", "the object", p) || !p->o.shard) return NULL;
    if (!p->opt->sharded && cr_shard_begin(p)) return NULL;     /* a checkpoint was loaded */
    cr_params *out = cr_params_new();
    cr_status status = out ? CR_OK : cr_error_status();
    /* before the first step every rank has what was loaded */
    for (int64_t i = 0; !p->pieces && !p->w->rank && i < cr_params_count(p->state) && status == CR_OK; i++)
        status = cr_params_add(out, cr_params_name(p->state, i), cr_params_at(p->state, i));
    for (int64_t i = 0; p->pieces && i < p->pieces->count && status == CR_OK; i++) status = add_piece(p, out, i);
    if (status == CR_OK && p->pieces && !p->w->rank) status = add_counts(p, out);
    if (status == CR_OK) return out;
    cr_params_free(out);
    return NULL;
}
