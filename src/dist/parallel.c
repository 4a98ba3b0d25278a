/* parallel.c - data parallel training whose bits do not depend on the number of ranks.
 *
 * A step is M microbatches.  Microbatch k of the run takes the loader's batch k and draws from a
 * stream of its own, whoever computes it.  Gradients are added over one binary tree of the M
 * microbatches (tree.h).  A rank has a run of microbatches and adds what it can by itself; then each
 * bucket of flat memory is exchanged (exchange.c), in the last backward pass of the rank or after it.
 *
 * In the first step parameters lie in reverse order.  Behind its passes they are laid out in the order in which
 * rank 0's gradients came, so later steps complete the first buckets first.  All ranks send buckets in the order of
 * their numbers.
 *
 * Files: layout.c (flat memory), shard.c (the sharded optimizer), elastic.c (after a loss). */
#include "parallel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../nn/params.h"

enum { MOST_BUCKET = 32 << 20, MOST_MICROBATCHES = 1 << 20 };

/* ---- what must be the same on all ranks */
static uint64_t hashed(uint64_t h, const void *data, size_t n) {    /* FNV-1a */
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t hash_of_model(const cr_optim *opt) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < opt->count; i++) {
        const cr_slot *s = &opt->slots[i];
        h = hashed(h, s->name, strlen(s->name) + 1);
        const cr_dtype dt = cr_dtype_of(s->p);
        h = hashed(h, cr_shape(s->p), (size_t)cr_ndim(s->p) * sizeof(int64_t));
        h = hashed(h, &dt, sizeof dt);
    }
    return h;
}

static uint64_t hash_of_optimizer(const cr_optim *opt) {
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < opt->groups; i++) {
        const cr_optim_options *o = &opt->options[i];
        const double numbers[] = {(double)o->kind, o->lr,           o->beta1,
                                  o->beta2,        o->eps,          o->momentum,
                                  o->weight_decay, (double)o->nesterov, (double)o->decay_min_ndim,
                                  (double)o->master_weights};
        h = hashed(h, numbers, sizeof numbers);
    }
    for (int64_t i = 0; i < opt->count; i++) h = hashed(h, &opt->slots[i].group, sizeof(int));
    return hashed(h, &opt->steps, sizeof opt->steps);
}

/* "rank 2", "ranks 1, 3 and 5 more": those whose entry differs from rank 0's; false: there is none. */
static bool name_ranks(const cr_world *w, const uint64_t *all, size_t stride, char *out, size_t room) {
    int count = 0, shown = 0;
    size_t n = 0;
    for (int r = 1; r < w->size; r++) count += all[(size_t)r * stride] != all[0];
    if (!count) return false;
    n += (size_t)snprintf(out, room, count > 1 ? "ranks" : "rank");
    for (int r = 1; r < w->size && shown < 8; r++)
        if (all[(size_t)r * stride] != all[0])
            n += (size_t)snprintf(out + n, room - n, "%s %d", shown++ ? "," : "", r);
    if (count > shown) snprintf(out + n, room - n, " and %d more", count - shown);
    return true;
}

enum { AGREED = 7 };

static const cr_device *device_of(const cr_optim *opt) {
    return opt->count ? cr_device_of(opt->slots[0].p) : cr_cpu();
}

static cr_dtype dtype_of(const cr_optim *opt) { return opt->count ? cr_dtype_of(opt->slots[0].p) : CR_F32; }

static cr_status agree(cr_world *w, const cr_optim *opt, const cr_parallel_options *o) {
    static const char op[] = "parallel_new";
    const cr_device *dev = device_of(opt);
    static const char *const what[AGREED] = {"version of the library", "number of microbatches", "bucket size",
                                             "options shard, engine, half and elastic", "kind of device",
                                             "model (names, shapes and dtypes of its parameters)",
                                             "optimizer (its options, groups or steps)"};
    const uint64_t mine[AGREED] = {hashed(0, cr_version(), strlen(cr_version())), (uint64_t)o->microbatches,
                                   (uint64_t)o->bucket_bytes,
                                   o->shard + 2u * o->engine + 4u * o->half + 8u * o->elastic,
                                   hashed(0, dev->type, strlen(dev->type)),
                                   hash_of_model(opt), hash_of_optimizer(opt)};
    char ranks[128];
    uint64_t *all = malloc((size_t)w->size * sizeof mine);
    if (!all) return cr_fail(CR_NO_MEMORY, op, "no memory for %d ranks", w->size);
    cr_status status = cr_world_gather(w, op, mine, (int64_t)sizeof mine, all);
    for (int i = 0; i < AGREED && status == CR_OK; i++)
        if (name_ranks(w, all + i, AGREED, ranks, sizeof ranks))
            status = cr_fail(CR_BAD_VALUE, op, "%s and rank 0 differ in the %s", ranks, what[i]);
    free(all);
    return status == CR_OK && w->size > 1 && !dev->host ? cr_link_start(w, op, dev, NULL) : status;
}

/* ---- making */
static cr_status check_options(cr_world *w, const cr_optim *opt, const cr_parallel_options *o) {
    static const char op[] = "parallel_new";
    if (cr_world_lacks(op, w) || cr_lacks(op, "the optimizer", opt)) return cr_error_status();
    if (!o) return cr_fail_null(op, "the options");
    if (o->microbatches < w->size)
        return cr_fail(CR_BAD_VALUE, op, "a step of %lld microbatches cannot feed %d ranks: each needs at least one",
                       (long long)o->microbatches, w->size);
    if (o->microbatches > MOST_MICROBATCHES || o->bucket_bytes < 0 || o->bucket_bytes > MOST_BUCKET)
        return cr_fail(CR_BAD_VALUE, op, "microbatches %lld (at most %d), bucket_bytes %lld (0 to %d)",
                       (long long)o->microbatches, MOST_MICROBATCHES, (long long)o->bucket_bytes, MOST_BUCKET);
    if (o->engine && (o->half || dtype_of(opt) != CR_F32))
        return cr_fail(CR_BAD_VALUE, op, "option engine cannot be combined with option half or bfloat16 parameters");
    if (opt->sharded) return cr_fail(CR_RUNTIME, op, "the optimizer is sharded already, by another cr_parallel");
    for (int64_t i = 0; i < opt->count; i++) {
        const cr_tensor *p = opt->slots[i].p;
        const cr_device *dev = cr_device_of(p), *first = device_of(opt);
        const cr_dtype dt = cr_dtype_of(p);
        if ((dt != CR_F32 && dt != CR_BF16) || !(dev->host || dev->linking) || !cr_is_contiguous(p))
            return cr_fail(CR_BAD_TYPE, op,
                           "'%s' is %s on %s%s: contiguous float32 or bfloat16 on cpu or cuda is supported",
                           opt->slots[i].name, cr_dtype_name(dt), cr_device_name(dev),
                           cr_is_contiguous(p) ? "" : ", not contiguous");
        if (dt != dtype_of(opt))
            return cr_fail(CR_BAD_TYPE, op, "'%s' is %s, but '%s' %s: all parameters must have one dtype",
                           opt->slots[i].name, cr_dtype_name(dt), opt->slots[0].name, cr_dtype_name(dtype_of(opt)));
        if (dev != first)
            return cr_fail(CR_BAD_VALUE, op, "'%s' is on %s, but '%s' on %s: all parameters must be on one device",
                           opt->slots[i].name, cr_device_name(dev), opt->slots[0].name, cr_device_name(first));
    }
    return CR_OK;
}

/* FNV-1a over words of four bytes. */
static cr_status hash_weights(const cr_tensor *t, uint64_t *h) {
    const size_t n = (size_t)cr_numel(t);
    uint32_t *words = malloc(sizeof *words * n + 1);
    if (!words) return cr_fail(CR_NO_MEMORY, "parallel_new", "no memory for %zu weights", n);
    const cr_status status = cr_read(t, CR_F32, words, sizeof *words * n);
    for (size_t i = 0; i < n && status == CR_OK; i++) *h = (*h ^ words[i]) * 0x100000001b3u;
    free(words);
    return status;
}

/* Rank 0's weights for all, who then compare what they have. */
static cr_status share_weights(cr_parallel *p) {
    const bool recording = cr_set_grad_enabled(false);
    uint64_t mine = 0xcbf29ce484222325u, *all = malloc(sizeof *all * (size_t)p->size);
    cr_status status = all ? CR_OK : cr_fail(CR_NO_MEMORY, "parallel_new", "no memory for %d ranks", p->size);
    for (int64_t i = 0; i < p->opt->count && status == CR_OK && p->size > 1; i++) {
        status = cr_broadcast_from(p->w, p->opt->slots[i].p, 0);
        if (status == CR_OK) status = hash_weights(p->opt->slots[i].p, &mine);
    }
    cr_set_grad_enabled(recording);
    if (status == CR_OK) status = cr_world_gather(p->w, "parallel_new", &mine, (int64_t)sizeof mine, all);
    char ranks[128];
    if (status == CR_OK && name_ranks(p->w, all, 1, ranks, sizeof ranks))
        status = cr_fail(CR_RUNTIME, "parallel_new",
                         "%s received other weights than rank 0 sent: the broadcast of %s went wrong", ranks,
                         cr_world_engine(p->w));
    free(all);
    return status;
}

void cr_parallel_share(cr_parallel *p) {
    p->rank = p->w->rank;
    p->size = p->w->size;
    p->first = cr_tree_first(p->o.microbatches, p->rank, p->size);
    p->last = cr_tree_first(p->o.microbatches, p->rank + 1, p->size);
}

cr_parallel *cr_parallel_new(cr_world *w, cr_optim *opt, const cr_parallel_options *o) {
    static const char op[] = "parallel_new";
    if (check_options(w, opt, o) || agree(w, opt, o)) return NULL;
    if (o->elastic && w->size > 1 && cr_elastic_begin(w, op)) return NULL;
    cr_parallel *p = calloc(1, sizeof *p);
    if (!p) return cr_no_memory(op), NULL;
    p->w = w;
    p->opt = opt;
    p->o = *o;
    p->dev = device_of(opt);
    p->dtype = dtype_of(opt);
    p->width = (int64_t)cr_dtype_size(p->dtype);
    p->o.half = o->half && p->dtype == CR_F32;      /* gradients of bf16 parameters travel as they are */
    if (w->size == 1) p->o.shard = false;
    cr_parallel_share(p);
    const size_t n = (size_t)(1 + o->microbatches + opt->count);
    p->ranges = calloc((size_t)opt->count + 1, sizeof *p->ranges);
    p->mine = calloc(n, sizeof *p->mine);
    p->all = calloc(n * (size_t)w->size, sizeof *p->all);
    p->order = calloc((size_t)opt->count + 1, sizeof *p->order);
    for (int64_t i = 0; p->order && i < opt->count; i++) p->order[i] = opt->count - 1 - i;
    p->same = cr_program_new("gradient", "g", "", "g");
    p->laid_out = w->size == 1;                     /* one process has no buckets */
    if (!p->ranges || !p->mine || !p->all || !p->order || !p->same)
        cr_fail(CR_NO_MEMORY, op, "no memory for %lld parameters", (long long)opt->count);
    else if (cr_layout_make(p) && share_weights(p) == CR_OK && (!p->o.shard || cr_shard_begin(p) == CR_OK)) return p;
    cr_parallel_free(p);
    return NULL;
}

void cr_parallel_drain(cr_parallel *p) {
    for (int64_t i = 0; i < p->next_bucket; i++) {
        if (p->buckets[i].posted) (void)cr_world_wait(p->w, "parallel_free", &p->buckets[i].job);
        p->buckets[i].posted = false;
    }
    (void)cr_shard_settle(p, "parallel_free");
}

void cr_parallel_free(cr_parallel *p) {
    if (!p || cr_stale("parallel_free", "the object", p)) return;
    cr_parallel_drain(p);
    for (int i = 0; i < CR_TREE_DEPTH; i++) cr_drop(p->buffer[i]);
    cr_shard_free(p);
    cr_layout_free(p);
    cr_program_free(p->same);
    free(p->ranges);
    free(p->order);
    free(p->mine);
    free(p->all);
    cr_retire(p);
}

/* ---- microbatches */
static uint64_t mix(uint64_t x) {                   /* splitmix64's finaliser (Steele, Lea, Flood 2014) */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t seed_of(const cr_parallel *p, int64_t k) {
    return mix(mix(p->seed + 0x9e3779b97f4a7c15u) + mix(p->counter) + (uint64_t)(k + 1) * 0x9e3779b97f4a7c15u);
}

static void begin_step(cr_parallel *p, const cr_loader *l, cr_generator *g) {
    p->begun = true;
    p->over = p->open = false;
    p->at = p->first;
    if (l && !p->again) p->base = cr_loader_cursor(l);
    p->again = false;
    p->g = g;
    if (g) cr_generator_get(g, &p->seed, &p->counter);
    p->tree = (cr_tree){.leaves = p->o.microbatches};
    memset(p->used, 0, sizeof p->used);
    memset(p->mine, 0, (size_t)(1 + p->o.microbatches + p->opt->count) * sizeof *p->mine);
    p->stats = (cr_parallel_stats){.bad = -1};
    p->waited = cr_pending_seconds();
    p->next_bucket = 0;
    if (!p->laid_out) p->n_order = 0;
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        b->missing = b->n;
        b->posted = false;
        b->visited = -1;
        b->e.sent = b->e.received = 0;
        b->e.seconds = 0;
    }
}

bool cr_parallel_next(cr_parallel *p, cr_loader *l, cr_generator *g) {
    static const char op[] = "parallel_next";
    if (cr_lacks(op, "the object", p) || cr_world_lacks(op, p->w)) return false;
    if (p->o.shard && !p->opt->sharded && cr_shard_begin(p)) return false;      /* a checkpoint was loaded */
    if (!p->begun) begin_step(p, l, g);
    if (p->open) return cr_fail(CR_RUNTIME, op, "cr_parallel_backward was not called for the last microbatch"), false;
    const bool more = p->at < p->last;
    const int64_t k = p->base + (more ? p->at : p->o.microbatches);
    if (l && cr_loader_seek(l, k)) return false;
    if (g && more) cr_generator_set(g, seed_of(p, k), 0);
    else if (g) cr_generator_set(g, p->seed, p->counter);
    p->open = more;
    p->over = !more;
    return more;
}

/* ---- the backward pass of a microbatch */
static bool free_buffer(cr_parallel *p, int *found) {
    for (*found = 0; p->used[*found]; ++*found) {}
    if (!p->buffer[*found]) p->buffer[*found] = cr_flat_new(p->dev, p->dtype, p->total);
    p->used[*found] = p->buffer[*found] != NULL;
    return p->used[*found];
}

/* Parameter i's part of a buffer, in its shape; it belongs to the caller's scope. */
static cr_tensor *part_of(const cr_parallel *p, const cr_tensor *buffer, const cr_flat_range *x, int64_t i) {
    const cr_tensor *t = p->opt->slots[i].p, *part = cr_slice(buffer, 0, x->at, x->at + x->n, 1);
    return part ? cr_view(part, cr_ndim(t), cr_shape(t)) : NULL;
}

static void post(cr_parallel *p, cr_bucket *b) {
    b->e.send = p->send->array;
    b->e.receive = p->receive->array;
    b->e.arrived = p->arrived->array;
    for (int k = 0; k < p->tree.n; k++)
        b->e.value[k] = cr_array_range(&p->buffer[p->tree.at[k].value]->array, b->at, b->n);
    b->e.out = b->e.value[0];
    b->job = (cr_job){.run = cr_exchange_run, .ctx = &b->e};
    b->posted = true;
    cr_world_post(p->w, &b->job);
}

/* A range of flat memory holds the sums of this rank: buckets that are complete go out, in their order. */
static void complete(cr_parallel *p, int64_t at, int64_t n) {
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        const int64_t from = at > b->at ? at : b->at, to = at + n < b->at + b->n ? at + n : b->at + b->n;
        if (to > from) b->missing -= to - from;
    }
    while (p->laid_out && !p->o.late && p->next_bucket < p->n_buckets && !p->buckets[p->next_bucket].missing) {
        p->buckets[p->next_bucket].visited = cr_backward_visited();
        post(p, &p->buckets[p->next_bucket++]);
    }
}

/* The gradient of parameter i is in its buffer: adds the siblings' and says that it is there. */
static cr_status add_siblings(cr_parallel *p, int64_t i) {
    cr_flat_range *x = &p->ranges[i];
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    cr_scope_begin();
    for (int k = 0; k < p->merges && status == CR_OK; k++) {
        cr_tensor *y = part_of(p, p->buffer[p->into], x, i), *other = part_of(p, p->buffer[p->merge[k]], x, i);
        status = y && other && cr_add_(y, other) ? CR_OK : cr_error_status();
    }
    cr_scope_end();
    cr_set_grad_enabled(recording);
    if (status != CR_OK) return status;
    x->arrived = true;
    if (p->at == p->last - 1) complete(p, x->at, x->n);
    return CR_OK;
}

static int64_t index_of(const cr_parallel *p, const cr_tensor *leaf) {
    for (int64_t i = 0; i < p->opt->count; i++)
        if (p->opt->slots[i].p == leaf) return i;
    return -1;
}

/* The gradient of parameter i was written into its range. */
static cr_status received(cr_parallel *p, int64_t i) {
    p->mine[1 + p->o.microbatches + i] = 1;
    if (!p->laid_out && p->at == p->first) p->order[p->n_order++] = i;
    return add_siblings(p, i);
}

/* Parameter i's range of the buffer of this pass = g, or 0 where g is NULL. */
static cr_status store(const cr_parallel *p, int64_t i, const cr_tensor *g) {
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *to = part_of(p, p->buffer[p->into], &p->ranges[i], i);
    const cr_status status = to && (g ? cr_copy_(to, g) : cr_fill_(to, 0)) ? CR_OK : cr_error_status();
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

static cr_status on_grad(cr_tensor *leaf, const cr_tensor *g, void *ctx) {
    static const char op[] = "parallel_backward";
    cr_parallel *p = ctx;
    const int64_t i = index_of(p, leaf);
    if (i < 0)
        return cr_fail(CR_BAD_VALUE, op,
                       "a tensor of %lld elements collects a gradient, but the optimizer does not have it",
                       (long long)cr_numel(leaf));
    if (p->ranges[i].arrived)
        return cr_fail(CR_RUNTIME, op, "'%s' got a second gradient in one pass: a checkpoint's function reads other "
                       "tensors when it runs again", p->opt->slots[i].name);
    const cr_status status = store(p, i, g);
    return status == CR_OK ? received(p, i) : status;
}

/* A gradient that is the product a b: written into its range piece by piece, never as a tensor of its own. */
static cr_status on_product(cr_tensor *leaf, const cr_tensor *a, const cr_tensor *b, void *ctx, bool *taken) {
    cr_parallel *p = ctx;
    const int64_t i = index_of(p, leaf);
    if (i < 0 || p->ranges[i].arrived) return CR_OK;            /* on_grad says it */
    cr_scope_begin();
    cr_tensor *to = part_of(p, p->buffer[p->into], &p->ranges[i], i);
    cr_status status = to ? cr_program_update_product(p->same, &to, (const cr_tensor *[]){leaf}, NULL, 0, a, b, taken)
                          : cr_error_status();
    cr_scope_end();
    return status == CR_OK && *taken ? received(p, i) : status;
}

/* Bytes that were given to the engine before 95 % of the pass, by its nodes. */
static void count_early(cr_parallel *p) {
    const double limit = 0.95 * (double)cr_backward_visited();
    for (int64_t i = 0; i < p->n_buckets; i++) {
        const cr_bucket *b = &p->buckets[i];
        if (b->visited >= 0 && (double)b->visited < limit) p->stats.early += b->n * p->width;
    }
}

cr_status cr_parallel_backward(cr_parallel *p, const cr_tensor *loss) {
    static const char op[] = "parallel_backward";
    if (cr_lacks(op, "the object", p) || cr_world_lacks(op, p->w)) return cr_error_status();
    if (cr_lacks_tensor(op, "the loss", loss)) return cr_error_status();
    if (!p->open) return cr_fail(CR_RUNTIME, op, "no microbatch is open: cr_parallel_next comes first");
    const int64_t leaf = p->at;
    p->mine[1 + leaf] = cr_item(loss);
    if (cr_error() || cr_shard_settle(p, op)) return cr_error_status();       /* gradients go where the weights are */
    if (!free_buffer(p, &p->into))
        return cr_fail(CR_NO_MEMORY, op, "no memory for the gradients of %lld parameters", (long long)p->total);
    p->merges = cr_tree_push(&p->tree, (cr_tree_node){0, leaf}, p->into, p->merge);
    for (int64_t i = 0; i < p->opt->count; i++) p->ranges[i].arrived = false;
    cr_scope_begin();
    const cr_tensor *share = p->o.microbatches > 1 ? cr_mul_scalar(loss, 1 / (double)p->o.microbatches) : loss;
    const cr_backward_options options = {.on_grad = on_grad, .on_product = on_product, .ctx = p};
    cr_status status = share ? cr_backward(share, CR_NONE, &options) : cr_error_status();
    cr_scope_end();
    if (status != CR_OK) return status;
    if (p->at == p->last - 1) count_early(p);
    for (int64_t i = 0; i < p->opt->count && status == CR_OK; i++) {
        if (p->ranges[i].arrived) continue;         /* else without a gradient in this microbatch */
        status = store(p, i, NULL);
        if (status == CR_OK) status = add_siblings(p, i);
    }
    if (status != CR_OK) return status;
    for (int k = 0; k < p->merges; k++) p->used[p->merge[k]] = false;
    p->at++;
    p->open = false;
    return CR_OK;
}

/* ---- the step */
/* Sums in the old order become sums in the new one. */
static cr_status move_sums(cr_parallel *p, const cr_flat_range *from) {
    cr_status status = CR_OK;
    for (int k = 0; k < p->tree.n && status == CR_OK; k++) {
        cr_tensor **at = &p->buffer[p->tree.at[k].value], *new = cr_flat_new(p->dev, p->dtype, p->total);
        if (!new) return cr_error_status();
        cr_scope_begin();
        for (int64_t i = 0; i < p->opt->count && status == CR_OK; i++) {
            cr_tensor *to = part_of(p, new, &p->ranges[i], i), *old = part_of(p, *at, &from[i], i);
            status = to && old && cr_copy_(to, old) ? CR_OK : cr_error_status();
        }
        cr_scope_end();
        cr_drop(*at);
        *at = new;
    }
    return status;
}

/* The first step ends: flat memory gets the order in which rank 0's gradients came; those that did not come last. */
static cr_status lay_out_again(cr_parallel *p) {
    const int64_t n = p->opt->count;
    cr_flat_range *from = malloc((size_t)(n + 1) * sizeof *from);
    int64_t *all = malloc((size_t)((n + 1) * p->w->size + 1) * sizeof *all);
    cr_status status = from && all ? CR_OK : cr_fail(CR_NO_MEMORY, "parallel_step", "no memory for the order");
    if (status == CR_OK) {
        for (int64_t i = n - 1; i >= 0; i--) {
            bool there = false;
            for (int64_t k = 0; k < p->n_order && !there; k++) there = p->order[k] == i;
            if (!there) p->order[p->n_order++] = i;
        }
        memcpy(from, p->ranges, (size_t)n * sizeof *from);
        status = cr_world_gather(p->w, "parallel_step", p->order, n * (int64_t)sizeof *all, all);
    }
    if (status == CR_OK) {
        memcpy(p->order, all, (size_t)n * sizeof *all);
        cr_layout_free(p);
        status = cr_layout_make(p) ? move_sums(p, from) : cr_error_status();
        p->laid_out = status == CR_OK;
    }
    free(from);
    free(all);
    return status;
}

static cr_status finish_exchange(cr_parallel *p) {
    static const char op[] = "parallel_step";
    const double begun = cr_os_seconds();
    cr_status status = p->laid_out ? CR_OK : lay_out_again(p);
    if (status != CR_OK) return status;
    while (p->next_bucket < p->n_buckets) post(p, &p->buckets[p->next_bucket++]);
    for (int64_t i = 0; i < p->n_buckets; i++) {
        cr_bucket *b = &p->buckets[i];
        const cr_status one = cr_world_wait(p->w, op, &b->job);
        b->posted = false;
        if (status == CR_OK) status = one;
        p->stats.sent += b->e.sent;
        p->stats.received += b->e.received;
        p->stats.busy += b->e.seconds;
    }
    if (p->n_buckets) p->stats.exposed += cr_os_seconds() - begun;
    return status;
}

/* Losses, and which parameters have a gradient anywhere. */
static cr_status share_losses(cr_parallel *p, double *loss) {
    static const char op[] = "parallel_step";
    const int64_t M = p->o.microbatches, n = 1 + M + p->opt->count;
    p->mine[0] = (double)p->base;
    cr_status status = cr_world_gather(p->w, op, p->mine, n * (int64_t)sizeof *p->mine, p->all);
    if (status != CR_OK) return status;
    for (int r = 1; r < p->w->size; r++)
        if (p->all[r * n] != p->all[0])
            return cr_fail(CR_BAD_VALUE, op, "rank %d is at microbatch %.0f of the run, but rank 0 at %.0f", r,
                           p->all[r * n], p->all[0]);
    *loss = 0;
    for (int64_t j = 0, r = 0; j < M; j++) {
        while (j >= cr_tree_first(M, (int)r + 1, p->w->size)) r++;
        const double one = p->all[r * n + 1 + j];
        if (!isfinite(one) && p->stats.bad < 0) p->stats.bad = (int)r;
        *loss += one / (double)M;
    }
    for (int64_t i = 0; i < p->opt->count; i++) {
        p->ranges[i].arrived = false;
        for (int r = 0; r < p->w->size; r++) p->ranges[i].arrived |= p->all[r * n + 1 + M + i] > 0;
    }
    return CR_OK;
}

static cr_status update(cr_parallel *p, const cr_tensor *flat, double scale) {
    cr_status status = CR_OK;
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    for (int64_t i = 0; i < p->opt->count && status == CR_OK; i++) {
        if (!p->ranges[i].arrived) continue;
        const cr_tensor *g = part_of(p, flat, &p->ranges[i], i);
        status = g ? cr_set_grad(p->opt->slots[i].p, g) : cr_error_status();
    }
    p->opt->scale = scale;
    if (status == CR_OK) status = cr_optim_step(p->opt);
    p->opt->scale = 1;
    for (int64_t i = 0; i < p->opt->count; i++) (void)cr_set_grad(p->opt->slots[i].p, CR_NONE);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

cr_status cr_parallel_step(cr_parallel *p, double max_norm, double *loss, double *norm) {
    static const char op[] = "parallel_step";
    double mean = NAN, total = NAN;
    if (cr_lacks(op, "the object", p) || cr_world_lacks(op, p->w)) return cr_error_status();
    if (!p->over)
        return cr_fail(CR_RUNTIME, op, "the step has microbatches left: cr_parallel_next must return false first");
    if (!(max_norm >= 0)) return cr_fail(CR_BAD_VALUE, op, "max_norm must be at least 0, not %g", max_norm);
    cr_status status = finish_exchange(p);
    if (status == CR_OK) status = share_losses(p, &mean);
    const cr_tensor *flat = p->buffer[p->tree.at[0].value];
    if (status == CR_OK) status = p->o.shard ? cr_shard_norm(p, flat, &total) : cr_parallel_norm(p, flat, &total);
    const double by = max_norm / (total + 1e-6), scale = by >= 1 ? 1 : by;
    const bool steps = isfinite(mean);
    if (status == CR_OK && p->o.shard && steps) status = cr_shard_update(p, flat, scale);
    if (p->o.elastic) status = cr_elastic_agree(p->w, op, status);
    p->begun = p->over = false;
    if (status != CR_OK) {
        if (p->o.shard && p->o.elastic) (void)cr_shard_undo(p);
        p->again = true;
        return status;
    }
    if (steps) status = p->o.shard ? cr_shard_commit(p, flat) : update(p, flat, scale);
    p->base += p->o.microbatches;
    atomic_store(&p->w->step, p->opt->steps);
    if (loss) *loss = mean;
    if (norm) *norm = total;
    return status;
}

cr_world *cr_parallel_world(const cr_parallel *p) {
    return cr_lacks("parallel_world", "the object", p) ? NULL : p->w;
}

cr_parallel_stats cr_parallel_look(const cr_parallel *p) {
    if (cr_lacks("parallel_look", "the object", p)) return (cr_parallel_stats){0};
    cr_parallel_stats s = p->stats;
    s.exposed += cr_pending_seconds() - p->waited;
    s.pending = atomic_load(&p->under_way);
    const cr_optim *holds = p->pieces ? p->pieces : p->opt;
    for (int64_t i = 0; i < holds->count; i++)
        for (int k = 0; k < CR_KEPT; k++)
            if (holds->slots[i].kept[k]) s.moments += cr_numel(holds->slots[i].kept[k]) * 4;
    for (int i = 0; i < 2; i++) {
        const cr_tensor *const copies[] = {p->own[i], p->left[i]};
        for (int k = 0; k < 2; k++) s.moments += copies[k] ? cr_numel(copies[k]) * 4 : 0;
    }
    for (int i = 0; i < CR_TREE_DEPTH; i++) s.gradients += p->buffer[i] ? p->total * p->width : 0;
    const cr_tensor *const rooms[] = {p->send, p->receive, p->arrived};
    for (int i = 0; i < 3; i++)
        s.gradients += rooms[i] ? cr_numel(rooms[i]) * (int64_t)cr_dtype_size(cr_dtype_of(rooms[i])) : 0;
    return s;
}
