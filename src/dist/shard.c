/* shard.c - an optimizer whose moments and updates are spread over the ranks: ZeRO's stage 1.
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

double cr_block_sum(const float *g, int64_t n) {
    double lane[8] = {0}, block = 0;
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int i = 0; i < 8; i++) lane[i] += (double)g[k + i] * (double)g[k + i];
    for (; k < n; k++) lane[k % 8] += (double)g[k] * (double)g[k];
    for (int i = 0; i < 8; i++) block += lane[i];
    return block;
}

static int64_t blocks_of(int64_t n) { return (n + CR_NORM_BLOCK - 1) / CR_NORM_BLOCK; }

/* ---- making */
static void drop_moments(const cr_parallel *p) {
    for (int64_t i = 0; i < p->opt->count; i++)
        for (int k = 0; k < 2; k++) {
            cr_drop(p->opt->slots[i].moment[k]);
            p->opt->slots[i].moment[k] = NULL;
        }
}

cr_status cr_shard_begin(cr_parallel *p) {
    p->state = cr_optim_state(p->opt);              /* holds the moments that a checkpoint has given */
    if (!p->state) return cr_error_status();
    drop_moments(p);
    p->opt->sharded = p;
    return CR_OK;
}

static bool joins(const cr_unit *a, const cr_unit *b, bool same_bucket) {
    return same_bucket && a->param == b->param && a->owner == b->owner && a->from + a->n == b->from;
}

/* This rank's pieces of a group, in the order of flat memory; out NULL: counts. */
static int64_t pieces_of(const cr_parallel *p, int group, cr_unit *out) {
    int64_t n = 0, bucket = 0, at = 0;
    for (int64_t u = 0; u < p->n_units; at += p->units[u++].n) {
        const cr_unit *x = &p->units[u];
        const bool first = at == p->buckets[bucket].at + p->buckets[bucket].n;
        bucket += first;
        if (x->owner != p->w->rank || p->opt->slots[x->param].group != group) continue;
        if (u && joins(x - 1, x, !first)) {
            if (out) out[n - 1].n += x->n;
            continue;
        }
        if (out) out[n] = *x;
        n++;
    }
    return n;
}

static cr_tensor *view_of(const cr_parallel *p, const cr_unit *x, float *memory) {
    const cr_tensor *whole = p->opt->slots[x->param].p;
    if (cr_layout_whole(p, x->param)) return cr_borrow(memory, cr_ndim(whole), cr_shape(whole), CR_F32, NULL, NULL);
    return cr_borrow(memory + x->from, 1, &x->n, CR_F32, NULL, NULL);
}

static float *weights_of(const cr_parallel *p, const cr_unit *x) { return cr_data(p->opt->slots[x->param].p); }

/* A group of the optimizer of pieces. */
static cr_status add_group(cr_parallel *p, int group, const cr_unit *list, int64_t n) {
    cr_params *set = cr_params_new();
    cr_status status = set ? CR_OK : cr_error_status();
    cr_scope_begin();
    for (int64_t i = 0; i < n && status == CR_OK; i++) {
        char name[64];
        snprintf(name, sizeof name, "%lld.%lld", (long long)list[i].param, (long long)list[i].from);
        cr_tensor *t = view_of(p, &list[i], weights_of(p, &list[i]));
        status = t ? cr_params_add(set, name, t) : cr_error_status();
    }
    const cr_optim_options *o = &p->opt->options[group];
    if (status == CR_OK && p->pieces) status = cr_optim_add(p->pieces, set, o);
    else if (status == CR_OK && !(p->pieces = cr_optim_new(set, o))) status = cr_error_status();
    cr_scope_end();
    cr_params_free(set);
    return status;
}

/* The piece's part of a moment that was there before. */
static cr_status take_moment(const cr_parallel *p, cr_slot *s, const cr_unit *x, int k) {
    const int64_t at = cr_params_find(p->state, p->opt->slots[x->param].entry[k]);
    if (at < 0) return CR_OK;
    const cr_tensor *from = cr_params_at(p->state, at);
    s->moment[k] = cr_moment_new(p->pieces, s);
    if (!s->moment[k]) return cr_error_status();
    return cr_write(s->moment[k], CR_F32, (const float *)cr_data(from) + x->from, (size_t)x->n * 4);
}

static cr_status make_pieces(cr_parallel *p) {
    int64_t n = 0, count = 0;
    for (int g = 0; g < p->opt->groups; g++) count += pieces_of(p, g, NULL);
    p->piece = calloc((size_t)count + 1, sizeof *p->piece);
    if (!p->piece) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld pieces", (long long)count);
    cr_status status = CR_OK;
    for (int g = 0; g < p->opt->groups && status == CR_OK; g++) {
        const int64_t found = pieces_of(p, g, p->piece + n);
        status = add_group(p, g, p->piece + n, found);
        n += found;
    }
    for (int64_t i = 0; i < count && status == CR_OK; i++) {
        cr_slot *s = &p->pieces->slots[i];
        const cr_slot *whole = &p->opt->slots[p->piece[i].param];
        s->update = whole->update;
        s->decays = whole->decays;
        for (int k = 0; k < s->update->moments && status == CR_OK; k++) status = take_moment(p, s, &p->piece[i], k);
    }
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
        *n += blocks_of(p->units[u].n);
        if (*n > p->most_blocks) p->most_blocks = *n;
    }
    free(count);
    p->sums = calloc((size_t)p->most_blocks, sizeof *p->sums);
    p->all_sums = calloc((size_t)(p->most_blocks * p->w->size), sizeof *p->all_sums);
    return p->sums && p->all_sums ? CR_OK : cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
}

void cr_shard_free(cr_parallel *p) {
    if (p->opt && p->opt->sharded == p) p->opt->sharded = NULL;
    cr_optim_free(p->pieces);
    cr_params_free(p->state);
    free(p->piece);
    free(p->sums);
    free(p->all_sums);
}

/* ---- the norm: each rank's blocks, added by all in the order of the optimizer's parameters */
static void own_sums(const cr_parallel *p, const float *flat) {
    int64_t n = 0, at = 0;
    for (int64_t u = 0; u < p->n_units; at += p->units[u++].n) {
        const cr_unit *x = &p->units[u];
        if (x->owner != p->w->rank) continue;
        for (int64_t from = 0; from < x->n; from += CR_NORM_BLOCK)
            p->sums[n++] = cr_block_sum(flat + at + from, x->n - from < CR_NORM_BLOCK ? x->n - from : CR_NORM_BLOCK);
    }
}

cr_status cr_shard_norm(cr_parallel *p, const float *flat, double *norm) {
    if (!p->sums && make_sums(p) != CR_OK) return cr_error_status();
    own_sums(p, flat);
    cr_status status = cr_world_gather(p->w, op, p->sums, p->most_blocks * (int64_t)sizeof *p->sums, p->all_sums);
    if (status != CR_OK) return status;
    int64_t *next = calloc((size_t)p->w->size, sizeof *next), *first = calloc((size_t)p->opt->count + 1, sizeof *first),
            blocks = 0;
    for (int64_t i = 0; first && i < p->opt->count; i++) {
        first[i] = blocks;
        blocks += blocks_of(p->places[i].n);
    }
    double *sum = calloc((size_t)blocks + 1, sizeof *sum), total = 0;
    if (next && first && sum) {
        for (int64_t u = 0; u < p->n_units; u++) {
            const cr_unit *x = &p->units[u];
            const double *of = p->all_sums + x->owner * p->most_blocks;
            for (int64_t k = 0; k < blocks_of(x->n); k++)
                sum[first[x->param] + x->from / CR_NORM_BLOCK + k] = of[next[x->owner]++];
        }
        for (int64_t i = 0; i < p->opt->count; i++)
            for (int64_t k = 0; k < blocks_of(p->places[i].n) && p->places[i].arrived; k++) total += sum[first[i] + k];
        *norm = sqrt(total);
    } else status = cr_fail(CR_NO_MEMORY, op, "no memory for the norm");
    free(next);
    free(first);
    free(sum);
    return status;
}

/* ---- the update */

/* Slots of pieces read the parameter where it lies now, and its gradient in flat memory. */
static cr_status point(cr_parallel *p, int64_t i, float *flat) {
    const cr_unit *x = &p->piece[i];
    cr_slot *s = &p->pieces->slots[i];
    const cr_place *place = &p->places[x->param];
    float *weights = weights_of(p, x);
    if (cr_data(s->p) != weights + x->from) {
        cr_tensor *t = view_of(p, x, weights);
        if (!t) return cr_error_status();
        cr_unhold(s->p);
        s->p = cr_hold(t);
    }
    s->steps = p->opt->slots[x->param].steps;
    if (!place->arrived) return cr_set_grad(s->p, CR_NONE);
    const cr_tensor *g = view_of(p, x, flat + place->at);
    return g ? cr_set_grad(s->p, g) : cr_error_status();
}

static cr_status step_pieces(cr_parallel *p, float *flat, double scale) {
    cr_status status = p->pieces ? CR_OK : make_pieces(p);
    const int64_t n = status == CR_OK ? p->pieces->count : 0;
    for (int64_t i = 0; i < n && status == CR_OK; i++) status = point(p, i, flat);
    if (status != CR_OK) return status;
    memcpy(p->pieces->options, p->opt->options, (size_t)p->opt->groups * sizeof *p->opt->options);
    p->pieces->steps = p->opt->steps;
    p->pieces->scale = scale;
    status = cr_optim_step(p->pieces);
    p->pieces->scale = 1;
    for (int64_t i = 0; i < n; i++) {               /* the gradients are done with: new weights take their place */
        const cr_unit *x = &p->piece[i];
        (void)cr_set_grad(p->pieces->slots[i].p, CR_NONE);
        memcpy(flat + p->places[x->param].at + x->from, weights_of(p, x) + x->from, (size_t)x->n * 4);
    }
    return status;
}

/* The weights of all shards to all, in flat memory. */
static cr_status gather(cr_parallel *p, const cr_tensor *all) {
    cr_status status = CR_OK;
    const double begun = cr_os_seconds();
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        b->e.out = cr_part_of(&all->array, b->at, b->n);
        b->e.sent = b->e.received = 0;
        b->e.seconds = 0;
        b->job = (cr_job){.run = cr_exchange_gather, .ctx = &b->e};
        cr_world_post(p->w, &b->job);
    }
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        const cr_status one = cr_world_wait(p->w, op, &b->job);
        if (status == CR_OK) status = one;
        p->stats.sent += b->e.sent;
        p->stats.received += b->e.received;
        p->stats.busy += b->e.seconds;
    }
    p->stats.exposed += cr_os_seconds() - begun;
    return status;
}

cr_status cr_shard_update(cr_parallel *p, const cr_tensor *all, double scale) {
    float *flat = cr_data(all);
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_status status = step_pieces(p, flat, scale);
    const cr_status sent = gather(p, all);          /* also after a failure: the other ranks wait for it */
    if (status == CR_OK) status = sent;
    for (int64_t i = 0; i < p->opt->count && status == CR_OK; i++) {
        cr_slot *s = &p->opt->slots[i];
        if (!p->places[i].arrived) continue;
        status = cr_write(s->p, CR_F32, flat + p->places[i].at, (size_t)p->places[i].n * 4);
        s->steps++;
    }
    p->opt->steps += status == CR_OK;
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

/* ---- this rank's moments, for a checkpoint */
static cr_status add_piece(const cr_parallel *p, cr_params *out, int64_t i) {
    const cr_unit *x = &p->piece[i];
    const cr_slot *piece = &p->pieces->slots[i], *whole = &p->opt->slots[x->param];
    const bool all = x->n == p->places[x->param].n;
    cr_status status = CR_OK;
    for (int k = 0; k < whole->update->moments && status == CR_OK; k++) {
        cr_tensor *m = piece->moment[k];
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

cr_params *cr_parallel_moments(const cr_parallel *p) {
    if (cr_lacks("parallel_moments", "the object", p) || !p->o.shard) return NULL;
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
