/* record.c - turns one run of an op into a node, and unpacks saved tensors. */
#include "graph.h"
#include "../core/small.h"
#include "../core/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t next_seq = 1;

/* ---- nodes: one allocation holds the node, its edges, its saved tensors and the parameters */
static void save_meta(cr_saved_tensor *k, const cr_tensor *t, int64_t **dims) {
    int64_t *d = *dims;
    *k = (cr_saved_tensor){.dev = t->dev,
                    .dtype = (uint8_t)t->dtype,
                    .ndim = (uint8_t)t->ndim,
                    .flags = (uint8_t)((t == CR_NONE) | (t->flags & CR_FLAG_WEAK) |
                                       (t->contiguous ? CR_SAVED_CONTIGUOUS : 0)),
                    .numel = t->numel,
                    .dims = (uint32_t)((char *)d - (char *)k)};
    for (int i = 0; i < t->ndim; i++) *d++ = t->shape[i];
    for (int i = 0; i < t->ndim; i++) *d++ = t->strides[i];
    *dims = d;
}

/* ---- hooks of saved tensors */
static _Thread_local cr_saved_hooks hooks;

cr_saved_hooks cr_set_saved_hooks(cr_saved_hooks h) {
    const cr_saved_hooks old = hooks;
    hooks = h;
    cr_modes.packing = h.pack != NULL;
    return old;
}

void cr_packed_release(cr_packed *p) {
    if (!p || !cr_unref(&p->refs)) return;
    if (p->hooks.done) p->hooks.done(p->value);
    free(p);
}

cr_packed *cr_saved_packed(cr_saved_tensor *k, bool take) {
    cr_packed *p = k->flags & CR_SAVED_PACKED ? k->packed : NULL;
    if (p && take) k->packed = NULL, k->flags &= (uint8_t)~CR_SAVED_PACKED;
    else if (p) atomic_fetch_add(&p->refs, 1);
    return p;
}

/* Nothing that the hook computes is recorded or packed.  It sees inputs as they are, and another handle of the result:
 * a packed result would keep its own node alive. */
static cr_status save_packed(cr_node *n, cr_saved_tensor *k, const cr_tensor *t) {
    if (cr_watching())
        return cr_fail(CR_RUNTIME, "saved_tensors_hooks", "a recorded step cannot call a hook of saved tensors");
    cr_packed *p = malloc(sizeof *p);
    cr_tensor *apart = p && k == &n->out ? cr_tensor_alias(t, NULL) : NULL;
    if (!p || (k == &n->out && !apart)) {
        free(p);
        return cr_no_memory("saved_tensors_hooks");
    }
    const bool mode = cr_set_grad_enabled(false);
    const cr_saved_hooks now = cr_set_saved_hooks((cr_saved_hooks){0});
    *p = (cr_packed){.hooks = now, .value = now.pack(apart ? apart : t, now.ctx)};
    atomic_init(&p->refs, 1);
    cr_set_saved_hooks(now);
    cr_set_grad_enabled(mode);
    cr_release(apart);
    if (!p->value) { free(p); return cr_fail(CR_RUNTIME, "saved_tensors_hooks", "the hook that packs failed"); }
    k->packed = p;
    k->flags |= CR_SAVED_PACKED;
    n->head.packs = n->head.saved = true;
    return CR_OK;
}

static bool alike(const cr_tensor *a, const cr_tensor *b) {
    return a->dtype == b->dtype && a->dev == b->dev && cr_shape_equal(a->ndim, a->shape, b->ndim, b->shape);
}

cr_tensor *cr_packed_open(cr_packed *p, const cr_tensor *like) {
    static const char op[] = "saved_tensors_hooks";
    cr_tensor *given = p->hooks.unpack(p->value), *y = NULL;
    if (!given || given == CR_NONE) cr_fail(CR_RUNTIME, op, "the hook that unpacks gave no tensor");
    else if (!alike(given, like))
        cr_fail(CR_RUNTIME, op, "the hook that unpacks gave %s %s on %s, and %s %s on %s was packed",
                cr_dtype_name(given->dtype), cr_shape_text(given->ndim, given->shape).s, given->dev->name,
                cr_dtype_name(like->dtype), cr_shape_text(like->ndim, like->shape).s, like->dev->name);
    else y = cr_tensor_alias(given, NULL);
    if (y && like->contiguous) y = cr_contiguous(y);
    if (y) {
        y->flags |= like->flags & (CR_FLAG_WEAK | CR_FLAG_REQUIRES_GRAD);
        y->node = cr_node_retain(like->node);
    }
    cr_drop(given);
    return y;
}

static cr_status save_data(cr_node *n, cr_saved_tensor *k, const cr_tensor *t, unsigned version_ahead) {
    if (!t->storage) return CR_OK;
    if (cr_modes.packing) return save_packed(n, k, t);
    k->storage = cr_storage_retain(t->storage);
    k->counter = cr_counter_retain(t->counter);
    k->version = cr_version_of(t->storage, t->counter) + version_ahead;
    k->offset = t->offset;
    n->head.saved = true;
    return CR_OK;
}

static void release_saved(cr_saved_tensor *k) {
    if (k->storage) cr_storage_release(k->storage);
    if (k->flags & CR_SAVED_PACKED) cr_packed_release(k->packed);
    else cr_counter_release(k->counter);
    k->storage = NULL;
    k->counter = NULL;
    k->flags &= (uint8_t)~CR_SAVED_PACKED;
}

static void free_saved(cr_node *n) {
    if (!n->head.saved) return;
    for (int i = 0; i < n->n; i++) release_saved(&n->in[i]);
    for (int k = 0; k < n->op->n_aux; k++) release_saved(&n->aux[k]);
    release_saved(&n->out);
}

static void node_free(cr_node *n) {
    free_saved(n);
    for (cr_hook_entry *h = n->hooks, *next; h; h = next) {
        next = h->next;
        cr_hook_release(h);
    }
    for (int i = 0; i < n->n; i++) cr_node_release(n->edges[i]);
    if (n->op && n->op->hold) n->op->hold(n->params, false);
    cr_small_give(n, n->bytes);
}

static size_t rounded(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

/* A node with its arrays, which the caller fills.  dims: where the sizes and strides go. */
static cr_node *node_allocate(const cr_op *op, int n, int n_dims, int64_t **dims) {
    size_t n_aux = op ? (size_t)op->n_aux : 0, params = op ? op->params_bytes : 0;
    size_t at_edges = rounded(sizeof(cr_node)), at_in = at_edges + rounded(sizeof(cr_node *) * (size_t)n);
    size_t at_params = at_in + rounded(sizeof(cr_saved_tensor) * ((size_t)n + n_aux));
    const char *source = op && cr_modes.anomaly ? cr_source_now() : "";
    size_t at_dims = at_params + rounded(params), at_source = at_dims + sizeof(int64_t) * (size_t)n_dims,
           length = strlen(source);
    size_t total = at_source + (length ? length + 1 : 0);
    char *memory = total <= UINT32_MAX ? cr_small_take(total) : NULL;
    if (!memory) return cr_fail(CR_NO_MEMORY, op ? op->name : "requires_grad", "out of memory for the graph"), NULL;
    cr_node *node = (cr_node *)(void *)memory;
    *node = (cr_node){.head.free = node_free, .bytes = (uint32_t)total, .op = op, .n = n};
    atomic_init(&node->head.refs, 1);
    node->seq = atomic_fetch_add_explicit(&next_seq, 1, memory_order_relaxed);
    node->edges = (cr_node **)(void *)(memory + at_edges);
    node->in = (cr_saved_tensor *)(void *)(memory + at_in);
    node->aux = node->in + n;
    if (op) node->params = memory + at_params;
    *dims = (int64_t *)(void *)(memory + at_dims);
    if (length) node->source = memcpy(memory + at_source, source, length + 1);
    return node;
}

/* With room for the sizes that cr_with_data may give it. */
cr_node *cr_leaf_node(cr_tensor *t) {
    int64_t *dims;
    if (!t->node && (t->node = node_allocate(NULL, 0, 2 * CR_MAX_DIMS, &dims))) {
        save_meta(&t->node->out, t, &dims);
        t->node->head.leaf = true;
    }
    return t->node;
}

void cr_node_move(const cr_tensor *from, cr_tensor *to) {
    cr_node *n = from->node;
    const bool pointed = cr_node_points_to(n, from);
    cr_node_attach(cr_node_retain(n), to);
    if (n->head.leaf) {                             /* cr_node_look shows what the leaf is now */
        int64_t *dims = (int64_t *)(uintptr_t)cr_saved_shape(&n->out);
        cr_spin_lock(&n->head.lock);
        save_meta(&n->out, to, &dims);
        n->moves++;
        cr_spin_unlock(&n->head.lock);
    }
    if (pointed) cr_node_point(n, to);
}

/* Input i has no current node: a message, where cr_sync_node left none. */
static void stale(const cr_call *c, int i) {
    if (c->in[i]->flags & CR_FLAG_APART)
        cr_fail(CR_RUNTIME, cr_call_name(c), "input %d is a view that was made while the gradient mode was off, of a "
                "tensor that was written in place since while it was on: take it again", i);
}

static uint32_t saves(const cr_call *c) { return c->op->saves_for ? c->op->saves_for(c) : c->op->saves; }

cr_node *cr_node_new(const cr_call *c, const cr_tensor *const *saved, const cr_tensor *out,
                     unsigned out_version_ahead) {
    bool few[16], *needs = c->n <= 16 ? few : malloc((size_t)c->n * sizeof *needs);
    if (!needs) return cr_fail(CR_NO_MEMORY, c->op->name, "out of memory for the graph"), NULL;
    int n_dims = 2 * out->ndim;
    cr_node *node = NULL;
    for (int i = 0; i < c->n; i++) {
        needs[i] = cr_in_graph(c->in[i]);
        n_dims += 2 * saved[i]->ndim;
        if (cr_node_is_stale(c->in[i])) { stale(c, i); goto done; }
    }
    for (int k = 0; k < c->op->n_aux; k++) n_dims += 2 * c->aux[k]->ndim;

    int64_t *dims;
    if (!(node = node_allocate(c->op, c->n, n_dims, &dims))) goto done;
    memcpy(node->params, c->params ? c->params : "", c->op->params_bytes);
    if (c->op->hold) c->op->hold(node->params, true);
    cr_call wanted = *c;
    wanted.needs = needs;
    uint32_t mask = saves(&wanted);
    for (int i = 0; i < c->n; i++) {
        save_meta(&node->in[i], saved[i], &dims);
        node->edges[i] = needs[i] ? cr_node_retain(c->in[i]->node) : NULL;
        if (needs[i] && saved[i] == c->in[i] && node->edges[i]->head.leaf)
            node->in[i].leaf = 1 + node->edges[i]->moves;
    }
    save_meta(&node->out, out, &dims);
    for (int k = 0; k < c->op->n_aux; k++) save_meta(&node->aux[k], c->aux[k], &dims);
    cr_status status = CR_OK;
    for (int i = 0; i < c->n && status == CR_OK; i++)
        if (mask >> (i < 15 ? i : 15) & 1) status = save_data(node, &node->in[i], saved[i], 0);
    if (mask & CR_SAVE_OUT && status == CR_OK) status = save_data(node, &node->out, out, out_version_ahead);
    for (int k = 0; k < c->op->n_aux && status == CR_OK; k++)
        if (mask & CR_SAVE_AUX) status = save_data(node, &node->aux[k], c->aux[k], 0);
    if (status != CR_OK) {
        cr_node_release(node);
        node = NULL;
    }
done:
    if (needs != few) free(needs);
    return node;
}

bool cr_node_points_to(const cr_node *n, const cr_tensor *t) {
    return n && atomic_load_explicit(&n->head.handle, memory_order_relaxed) == t;
}

/* A result that retains its gradient does so with its next node too: behind an in-place op. */
void cr_node_attach(cr_node *n, cr_tensor *out) {
    cr_node *before = out->node;
    out->node = n;
    out->flags |= CR_FLAG_REQUIRES_GRAD;
    if (!before) return;
    const bool retains = cr_node_points_to(before, out);
    cr_node_unpoint(before, out);
    cr_node_release(before);
    if (retains) cr_node_point(n, out);
}

cr_status cr_node_save(cr_node *n, int i, const cr_tensor *t) { return save_data(n, &n->in[i], t, 0); }

cr_tensor *cr_new_handle(const cr_tensor *t) {
    const bool recorded = cr_in_graph(t);
    cr_tensor *same = cr_tensor_alias(t, NULL);
    if (!same || cr_wrapped(t)) return same;
    same->flags |= t->flags & CR_FLAG_VIEW;
    if (!cr_base_join(same, t)) { cr_release(same); return NULL; }
    if (recorded) cr_node_attach(cr_node_retain(t->node), same);
    return same;
}

cr_tensor *cr_adopt(cr_tensor *t) {
    if (!t || t == CR_NONE || t->scope) return t;
    cr_tensor *ours = cr_new_handle(t);
    cr_drop(t);
    return ours;
}

/* input: k's number, -1 for a result */
static cr_status check_saved(const cr_node *n, const cr_saved_tensor *k, int input) {
    if (!k->storage || cr_version_of(k->storage, k->counter) == k->version) return CR_OK;
    cr_call c = {.op = n->op, .params = n->params};
    char what[32] = "its result";
    if (input >= 0) snprintf(what, sizeof what, "input %d", input);
    return cr_fail(
        CR_RUNTIME, cr_call_name(&c),
        "%s, %s %s, is needed by the backward pass but was modified in place since (version %u, saved at %u)", what,
        cr_dtype_name(k->dtype), cr_shape_text(k->ndim, cr_saved_shape(k)).s, cr_version_of(k->storage, k->counter),
        k->version);
}

cr_status cr_node_check_saved(const cr_node *n) {
    cr_status status = CR_OK;
    if (n->head.freed) {
        cr_call c = {.op = n->op, .params = n->params};
        return cr_fail(CR_RUNTIME, "backward",
                       "what %s saved was freed by an earlier backward pass: pass retain_graph to the first one",
                       cr_call_name(&c));
    }
    for (int i = 0; i < n->n && status == CR_OK; i++) status = check_saved(n, &n->in[i], i);
    for (int k = 0; k < n->op->n_aux && status == CR_OK; k++) status = check_saved(n, &n->aux[k], -1);
    return status == CR_OK ? check_saved(n, &n->out, -1) : status;
}

/* s, c: owned */
static cr_tensor *handle_of(const cr_saved_tensor *k, cr_storage *s, cr_counter *c, cr_node *as) {
    const int64_t *shape = cr_saved_shape(k), *strides = shape + k->ndim;
    cr_tensor *t = cr_tensor_placed(s, k->dev, k->dtype, k->ndim, shape, strides, k->offset, k->numel,
                                    k->flags & CR_SAVED_CONTIGUOUS);
    if (!t) return cr_counter_release(c), NULL;
    t->counter = c;
    t->flags |= k->flags & CR_FLAG_WEAK;
    if (as) {
        t->node = cr_node_retain(as);
        t->flags |= CR_FLAG_REQUIRES_GRAD;
    }
    return t;
}

cr_tensor *cr_saved_unpack(cr_saved_tensor *k, bool take, cr_node *as) {
    if (k->flags & CR_SAVED_ABSENT) return (cr_tensor *)(uintptr_t)CR_NONE;
    cr_storage *s = k->storage;
    cr_counter *c = s ? k->counter : NULL;
    if (s && take) {
        k->storage = NULL;
        k->counter = NULL;
    } else if (s) {
        cr_storage_retain(s);
        cr_counter_retain(c);
    }
    return handle_of(k, s, c, as);
}

cr_tensor *cr_node_handle(cr_node *n) { return handle_of(&n->out, NULL, NULL, n); }

uint64_t cr_graph_mark(void) { return atomic_load(&next_seq); }

/* ---- the seam to ops/apply.c */
/* In place the node is made before the version counts the write: saved inputs that were overwritten
 * are then found modified, the saved result is not. */
static cr_status record(const cr_call *c, const cr_tensor *const *saved, cr_tensor *out, bool in_place) {
    cr_node *n = cr_node_new(c, saved, out, in_place);
    if (!n) return cr_error_status();
    cr_node_attach(n, out);
    return in_place ? cr_base_update(out) : CR_OK;
}

static cr_status check_output(const cr_call *c, const cr_tensor *out) {
    return cr_check_finite(cr_call_name(c), "forward", c, out);
}

void cr_grad_start(void) {
    static const cr_recorder r = {record, cr_sync_from_base, check_output, cr_checkpoint_note};
    cr_set_recorder(&r);
}
