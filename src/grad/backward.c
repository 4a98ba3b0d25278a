/* backward.c - the walk from results to leaves.  It visits nodes in order of falling sequence
 * number, so every cotangent is complete when its node is visited.  There is no recursion: a chain
 * of ten million nodes needs a heap of one.
 *
 * Several threads may walk graphs that share nodes, so each walk stores what it knows about nodes
 * in its own tables. */
#include "graph.h"
#include "../core/out.h"
#include "../core/table.h"
#include "../core/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What `known` has of a node: */
enum {
    LEADS = 1,                                      /* with captures: the node leads to one of them */
    USE = 2                                         /* if counted: an edge to the node that has not been followed yet */
};

typedef struct capture { cr_node *node; const cr_tensor *tensor; cr_tensor *grad; } capture;

/* Cotangents for the results of a function (function.c). */
typedef struct parts { struct parts *next; const void *function; int n; cr_tensor *of[]; } parts;

typedef struct walk {
    cr_backward_options o;
    int n_ends;                                     /* of the captures: the walk does not go on behind these */
    cr_node **heap; int64_t n, room;                /* a max-heap by seq of the nodes in `waiting`; owns references */
    /* by seq.  waiting: cotangents, owned, accumulated so far; known: every node below the roots, filled with captures
     * or if counted only */
    cr_table waiting, known;
    cr_table_slot few[2][CR_TABLE_FEW];
    capture *captures; int n_captures;              /* the tensors whose gradients are asked for, returned or with
                                                     * o.inputs added; NULL: leaves accumulate */
    bool counted;                                   /* uses are counted: a leaf is visited when its last use has been
                                                     * followed */
    const cr_node *at;                              /* the node whose gradient is being computed */
    parts *parts;
    const cr_scope *scope;                          /* of the visit */
    struct walk *outer;
} walk;

static _Thread_local walk *current;
static _Thread_local int64_t visited;               /* nodes, by the walk that runs or by the last one */

int64_t cr_backward_visited(void) { return visited; }

const cr_node *cr_walk_node(void) { return current ? current->at : NULL; }

/* n's value, 0 where it is new */
static uint64_t *table_add(cr_table *t, const cr_node *n) {
    uint64_t *value = cr_table_add(t, n->seq);
    if (!value) cr_no_memory("backward");
    return value;
}

/* ---- the heap */
static cr_status heap_push(walk *w, cr_node *n) {
    if (w->n == w->room && !cr_grow(&w->heap, w->n + 1, &w->room, sizeof *w->heap))
        return cr_no_memory("backward");
    atomic_fetch_add_explicit(&n->head.refs, 1, memory_order_relaxed);
    int64_t i = w->n++;
    for (; i && w->heap[(i - 1) / 2]->seq < n->seq; i = (i - 1) / 2) w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = n;
    return CR_OK;
}

static cr_node *heap_pop(walk *w) {                 /* the caller owns the reference */
    cr_node *top = w->heap[0], *last = w->heap[--w->n];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < w->n; i = child) {
        if (child + 1 < w->n && w->heap[child + 1]->seq > w->heap[child]->seq) child++;
        if (w->heap[child]->seq <= last->seq) break;
        w->heap[i] = w->heap[child];
    }
    if (w->n) w->heap[i] = last;
    return top;
}

/* ---- cotangents */
static bool exclusive(const cr_tensor *t) {
    return atomic_load(&t->refs) == 1 && atomic_load(&t->storage->refs) == 1 && t->contiguous && !t->node;
}

/* sum := sum + d, in place where sum has no other reference.  Takes the reference to sum; returns
 * an owned tensor. */
static cr_tensor *accumulate(cr_tensor *sum, const cr_tensor *d, bool differentiable) {
    if (!differentiable && exclusive(sum) && sum->dtype == d->dtype) {
        if (cr_add_(sum, d)) return sum;
        cr_drop(sum);
        return NULL;
    }
    cr_tensor *total = cr_unscope(cr_add(sum, d));
    cr_drop(sum);
    return total;
}

/* Do the gradients of a leaf, from before and after cr_with_data, have one shape? */
static cr_status check_moved(const cr_node *leaf, const cr_tensor *sum, const cr_tensor *d) {
    if (leaf->op || !leaf->moves || cr_shape_equal(sum->ndim, sum->shape, d->ndim, d->shape)) return CR_OK;
    return cr_fail(CR_RUNTIME, "backward", "gradients of %s and %s meet", cr_shape_text(sum->ndim, sum->shape).s,
                   cr_shape_text(d->ndim, d->shape).s);
}

/* last: no other input has d, and the scope of the visit may give it up */
static cr_status deliver(walk *w, cr_node *to, const cr_tensor *d, bool last) {
    uint64_t *at = table_add(&w->waiting, to);
    if (!at) return CR_NO_MEMORY;
    if (!*at) {
        cr_tensor *own = last && d->scope == w->scope ? cr_unscope((cr_tensor *)(uintptr_t)d) : cr_retain(d);
        *at = (uintptr_t)own;
        return heap_push(w, to);
    }
    if (check_moved(to, (cr_tensor *)(uintptr_t)*at, d) != CR_OK) return cr_error_status();
    *at = (uintptr_t)accumulate((cr_tensor *)(uintptr_t)*at, d, w->o.create_graph);
    return *at ? CR_OK : cr_error_status();
}

static cr_tensor *accumulated_for(const walk *w, const cr_node *n) {
    const uint64_t *sum = cr_table_find(&w->waiting, n->seq);
    return sum ? (cr_tensor *)(uintptr_t)*sum : NULL;
}

/* Undoes broadcasting and promotion for every op: sums d to the shape of the input and casts it to
 * its dtype.  wide: f32 is as good, and sums are not rounded. */
static cr_tensor *unbroadcast(cr_tensor *d, const cr_saved_tensor *in, bool wide) {
    const int64_t *shape = cr_saved_shape(in);
    const int extra = d->ndim - in->ndim;
    uint32_t axes = 0;
    for (int i = 0; i < d->ndim; i++)
        if (i < extra || (shape[i - extra] == 1 && d->shape[i] != 1)) axes |= 1u << i;
    if (axes) {
        d = cr_sum_mask(d, axes, true, wide);
        if (d && extra) d = cr_reshape(d, in->ndim, shape);
    }
    if (d && d->dtype != in->dtype && !(wide && d->dtype == CR_F32)) d = cr_to(d, in->dtype, d->dev);
    return d;
}

/* ---- one node */
static cr_status visit(walk *w, cr_node *n, cr_tensor *cotangent);
static bool leads_on(const walk *w, const cr_node *n);
static cr_status finish_leaves(walk *w, const cr_node *n);

/* Takes the cotangent that waits at n, if any, and visits n with it. */
static cr_status visit_waiting(walk *w, cr_node *n) {
    cr_tensor *g = (cr_tensor *)(uintptr_t)cr_table_take(&w->waiting, n->seq);
    if (!g) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    w->scope = &own;
    cr_status status = visit(w, n, g);
    cr_scope_leave(&own);
    cr_drop(g);
    /* behind the scope: a leaf keeps a gradient that nothing else holds */
    return status == CR_OK && w->counted && leads_on(w, n) ? finish_leaves(w, n) : status;
}

static cr_tensor *run_hooks(cr_node *n, cr_tensor *g) {
    int64_t id = 0;
    for (cr_hook_entry *h; g && (h = cr_hook_after(n, id, false)); ) {
        id = h->id;
        const cr_watch *watch = cr_watching();
        if (watch && watch->calls_back("a hook of a gradient") != CR_OK) { cr_hook_release(h); return NULL; }
        cr_tensor *changed = cr_adopt(h->hook(g, h->ctx));
        cr_hook_release(h);
        if (changed == CR_NONE) continue;
        if (!changed) {
            if (!cr_error()) cr_fail(CR_RUNTIME, "hook", "a gradient hook failed without a message");
            g = NULL;
        } else if (!cr_shape_equal(changed->ndim, changed->shape, g->ndim, g->shape) || changed->dtype != g->dtype) {
            cr_fail(CR_BAD_VALUE, "hook", "a gradient hook returned %s %s for a gradient of %s %s",
                    cr_dtype_name(changed->dtype), cr_shape_text(changed->ndim, changed->shape).s,
                    cr_dtype_name(g->dtype), cr_shape_text(g->ndim, g->shape).s);
            g = NULL;
        } else {
            g = changed;
        }
    }
    return g;
}

/* The gradient of an earlier use of a leaf that was given other memory since (cr_with_data). */
static cr_tensor *fitted(const cr_tensor *t, cr_tensor *g) {
    if (!cr_shape_equal(t->ndim, t->shape, g->ndim, g->shape))
        return cr_fail(CR_RUNTIME, "backward", "a leaf was used with shape %s and has shape %s now",
                       cr_shape_text(g->ndim, g->shape).s, cr_shape_text(t->ndim, t->shape).s), NULL;
    return g->dtype == t->dtype && g->dev == t->dev ? g : cr_to(g, t->dtype, t->dev);
}

/* t->grad += g, one thread at a time.  The first gradient is stored without a copy where nothing
 * else references it. */
static cr_status collect_leaf(const walk *w, cr_tensor *t, cr_tensor *given, bool only_ours) {
    cr_tensor *g = fitted(t, given);
    if (!g) return cr_error_status();
    const bool graph = w->o.create_graph,
               keep = graph || (only_ours && atomic_load(&g->storage->refs) == 1 && g->contiguous);
    cr_word_lock(&t->adding);
    const cr_watch *watch = cr_watching();
    cr_status status = watch ? watch->collects(t) : CR_OK;
    cr_tensor *before = cr_grad_hold(t), *sum;
    if (status == CR_OK && before != CR_NONE && !cr_shape_equal(before->ndim, before->shape, g->ndim, g->shape))
        status = cr_fail(CR_RUNTIME, "backward",
                         "a gradient of %s cannot be added to one of %s: the leaf had another shape",
                         cr_shape_text(g->ndim, g->shape).s, cr_shape_text(before->ndim, before->shape).s);
    if (status != CR_OK) sum = NULL;
    else if (before == CR_NONE) sum = keep ? cr_retain(g) : cr_unscope(cr_clone(g));
    else sum = graph ? cr_unscope(cr_add(before, g)) : cr_add_(before, g);
    /* NULL after a failure: no half of a sum stays */
    if (sum != before && status == CR_OK) cr_grad_put(t, sum);
    cr_word_unlock(&t->adding);
    cr_drop(before);
    return sum ? CR_OK : cr_error_status();
}

/* The gradient of leaf t is complete and in its place. */
static cr_status run_late_hooks(cr_node *n, cr_tensor *t) {
    cr_status status = CR_OK;
    int64_t id = 0;
    for (cr_hook_entry *h; status == CR_OK && (h = cr_hook_after(n, id, true)); ) {
        id = h->id;
        const cr_watch *watch = cr_watching();
        if (watch && watch->calls_back("a hook of a leaf") != CR_OK) { cr_hook_release(h); return cr_error_status(); }
        const cr_tensor *result = h->hook(t, h->ctx);
        cr_hook_release(h);
        cr_drop(result);
        if (result) continue;
        if (!cr_error()) cr_fail(CR_RUNTIME, "hook", "a hook of a leaf failed without a message");
        status = cr_error_status();
    }
    return status;
}

/* Nodes that are not in `known` were added by a checkpoint: they are wanted. */
static bool wanted(const walk *w, const cr_node *n) {
    const uint64_t *known = n && w->captures ? cr_table_find(&w->known, n->seq) : NULL;
    return n && (!known || *known & LEADS);
}

static bool leads_on(const walk *w, const cr_node *n) {
    for (int i = 0; i < n->n; i++)
        if (wanted(w, n->edges[i])) return true;
    return false;
}

static cr_status check_dx(const cr_call *c, int i, const cr_tensor *d) {
    if (!d)
        return cr_error()
                   ? cr_error_status()
                   : cr_fail(CR_RUNTIME, cr_call_name(c), "the gradient of input %d failed without a message", i);
    if (!cr_modes.anomaly || d == CR_NONE) return CR_OK;
    char where[48];
    snprintf(where, sizeof where, "gradient of input %d", i);
    return cr_check_finite(cr_call_name(c), where, NULL, d);
}

/* The handles of packed tensors become those that their hooks make: p has those of c's in, out and aux. */
__attribute__((noinline)) static bool open_packed(int n, cr_packed **p, cr_call *c, const cr_tensor **in) {
    bool have = true;
    for (int j = 0; j < n + 1 + c->op->n_aux; j++) {
        const cr_tensor **t = j < n ? &in[j] : j == n ? &c->out : &c->aux[j - n - 1];
        if (p[j] && have) have = (*t = cr_packed_open(p[j], *t));
        cr_packed_release(p[j]);
    }
    return have;
}

/* Input i is a leaf that was given other memory since it was saved: a handle over that memory, in place of x.
 * Where the leaf has another shape, dtype or device now, or is freed: x. */
__attribute__((noinline)) static const cr_tensor *moved_leaf(const cr_node *n, int i, const cr_tensor *x) {
    cr_tensor *leaf = cr_node_tensor(n->edges[i]);
    const bool fits = leaf && cr_shape_equal(leaf->ndim, leaf->shape, x->ndim, x->shape) && leaf->dtype == x->dtype &&
                      leaf->dev == x->dev;
    cr_tensor *y = fits ? cr_tensor_alias(leaf, NULL) : NULL;
    cr_drop(leaf);
    if (!fits) return x;
    if (y && x->contiguous) y = cr_contiguous(y);
    if (y && cr_in_graph(x)) {
        y->flags |= CR_FLAG_REQUIRES_GRAD;
        y->node = cr_node_retain(x->node);
    }
    return y;
}

/* Unpacks the saved tensors of n into c's in, out and aux.  Without retain_graph the walk takes
 * them from the node under its lock, so a second walk, in any thread, finds all of them or none. */
static cr_status unpack_saved(const walk *w, cr_node *n, cr_call *c, const cr_tensor **in) {
    const bool graph = w->o.create_graph, take = !graph && !w->o.retain_graph;
    const bool packs = n->head.packs;
    cr_packed **packed = NULL;
    if (packs && !(packed = calloc((size_t)n->n + 1 + CR_MAX_AUX, sizeof *packed)))
        return cr_no_memory("backward");
    if (n->head.saved) cr_spin_lock(&n->head.lock);
    cr_status status = n->head.saved ? cr_node_check_saved(n) : CR_OK;
    bool have = status == CR_OK;
    const bool placed = graph || n->op->recompute_forward;
    for (int i = 0; i < n->n && have; i++) {
        const bool unseen = n->op->only_saved && !cr_saved_has_data(&n->in[i]);
        in[i] = unseen ? CR_NONE : cr_saved_unpack(&n->in[i], take, placed ? n->edges[i] : NULL);
        have = in[i];
    }
    if (have) {
        const bool unseen = n->op->only_saved && !cr_saved_has_data(&n->out);
        c->out = unseen ? CR_NONE : cr_saved_unpack(&n->out, take, placed ? n : NULL);
        have = c->out;
    }
    for (int k = 0; k < n->op->n_aux && have; k++) have = (c->aux[k] = cr_saved_unpack(&n->aux[k], take, NULL));
    for (int j = 0; packs && have && j < n->n + 1 + n->op->n_aux; j++)
        packed[j] = cr_saved_packed(j < n->n ? &n->in[j] : j == n->n ? &n->out : &n->aux[j - n->n - 1], take);
    if (status == CR_OK && n->head.saved && take) n->head.freed = true;
    if (n->head.saved) cr_spin_unlock(&n->head.lock);
    if (have && packs) have = open_packed(n->n, packed, c, in);
    if (packs) free(packed);
    for (int i = 0; i < n->n && have && !packs; i++)
        if (n->in[i].leaf && n->in[i].leaf != 1 + n->edges[i]->moves && in[i]->storage)
            have = (in[i] = moved_leaf(n, i, in[i]));
    return have ? CR_OK : cr_error_status();
}

/* Does only the walk see the result of this node? */
static bool hidden(const cr_node *n) {
    return !n->hooks && !atomic_load_explicit(&n->head.handle, memory_order_relaxed);
}

/* Is input i of n a cast from f32 to half precision, or a view of one, that only the walk sees?  Its gradient need not
 * be rounded. */
static inline bool widens(const walk *w, const cr_node *n, int i) {
    const cr_node *cast = n->edges[i];
    if (w->o.create_graph || !cr_dtype_is_half(n->in[i].dtype)) return false;
    while (cast && cast->op && cast->op->view && hidden(cast)) cast = cast->edges[0];
    return cast && cast->op == &cr_op_cast && hidden(cast) && cast->in[0].dtype == CR_F32;
}

/* dx[i] = a b.  Where that is the whole gradient of a leaf and nothing else reads it, on_product
 * may take the two factors instead. */
static cr_tensor *product(int i, const cr_tensor *a, const cr_tensor *b) {
    const walk *w = current;
    const cr_node *leaf = w->at->edges[i];
    if (!a || !b) return NULL;
    const bool only = w->o.on_product && w->counted && !leaf->op && *cr_table_find(&w->known, leaf->seq) / USE == 1 &&
                      !accumulated_for(w, leaf) && !leaf->hooks;
    cr_tensor *x = only && !cr_modes.anomaly ? cr_node_tensor(leaf) : NULL;
    bool taken = false;
    cr_status status = x && cr_grad(x) == CR_NONE ? w->o.on_product(x, a, b, w->o.ctx, &taken) : CR_OK;
    cr_drop(x);
    if (status != CR_OK) return NULL;
    return taken ? (cr_tensor *)(uintptr_t)CR_NONE : widens(w, w->at, i) ? cr_matmul_wide(a, b) : cr_matmul(a, b);
}

static bool is_repeated(const cr_node *n, const cr_call *c, cr_tensor *const *dx, int i) {
    for (int j = 0; j < n->n; j++)
        if (j != i && c->needs[j] && dx[j] == dx[i]) return true;
    return false;
}

/* Sends dx on to the nodes of the inputs, in each input's shape and dtype. */
static cr_status deliver_all(walk *w, cr_node *n, const cr_call *c, cr_tensor *const *dx) {
    for (int i = 0; i < n->n; i++) {
        if (!c->needs[i]) continue;
        cr_status status = check_dx(c, i, dx[i]);
        if (status != CR_OK) return status;
        if (dx[i] == CR_NONE || (i == 0 && dx[i] == c->accumulated)) continue;      /* the latter: the op added to it */
        cr_tensor *d = unbroadcast(dx[i], &n->in[i], i < 32 && c->wide & 1u << i);
        if (!d) return cr_error_status();
        const bool last = d != dx[i] || !is_repeated(n, c, dx, i);
        if ((status = deliver(w, n->edges[i], d, last)) != CR_OK) return status;
    }
    return CR_OK;
}

/* Visits the leaves among n's inputs that no other node of the walk uses: their gradients are
 * complete. */
static cr_status finish_leaves(walk *w, const cr_node *n) {
    for (int i = 0; i < n->n; i++) {
        cr_node *leaf = n->edges[i];
        if (!leaf || leaf->op || (*cr_table_find(&w->known, leaf->seq) -= USE) >= USE) continue;
        cr_status status = visit_waiting(w, leaf);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}

/* Runs the gradient of n's op in a scope of its own; in, dx and needs have an entry for each
 * input. */
static cr_status run_gradient(walk *w, cr_node *n, const cr_tensor *g, const cr_tensor **in, cr_tensor **dx,
                              bool *needs) {
    const bool graph = w->o.create_graph;
    cr_call c = {.op = n->op,
                 .params = n->params,
                 .n = n->n,
                 .in = in,
                 .dev = g->dev,
                 .needs = needs,
                 .differentiable = graph,
                 .product = product,
                 .backward_through = cr_walk_through};
    cr_status status = unpack_saved(w, n, &c, in);
    if (status != CR_OK) return status;
    for (int i = 0; i < n->n; i++) {
        dx[i] = (cr_tensor *)(uintptr_t)CR_NONE;
        needs[i] = wanted(w, n->edges[i]);
        if (i < 32 && needs[i] && widens(w, n, i)) c.wide |= 1u << i;
    }
    cr_tensor *sum = needs[0] && !graph ? accumulated_for(w, n->edges[0]) : NULL;
    if (sum && exclusive(sum)) c.accumulated = sum;
    w->at = n;
    const double start = cr_profile_start();
    const cr_watch *watch = cr_watching();
    if (watch) watch->named("backward", cr_call_name(&c));
    const bool outer = cr_modes.no_bases;
    cr_modes.no_bases = !graph && !n->op->user_gradient;
    n->op->grad(&c, g, dx);
    cr_modes.no_bases = outer;
    if (start > 0) cr_profile_event(start, "backward", cr_call_name(&c), 1, &g, 0, NULL);
    status = cr_finished(cr_call_name(&c), CR_OK);
    return status == CR_OK ? deliver_all(w, n, &c, dx) : status;
}

static cr_status differentiate(walk *w, cr_node *n, const cr_tensor *g) {
    enum { SOME = 8 };
    struct { const cr_tensor *in[SOME]; cr_tensor *dx[SOME]; bool needs[SOME]; } few;
    if (n->n <= SOME) return run_gradient(w, n, g, few.in, few.dx, few.needs);
    const size_t count = (size_t)n->n;
    const cr_tensor **in = malloc(count * sizeof *in);
    cr_tensor **dx = malloc(count * sizeof *dx);
    bool *needs = malloc(count * sizeof *needs);
    cr_status status = in && dx && needs ? run_gradient(w, n, g, in, dx, needs)
                                         : cr_no_memory(n->op->name);
    free(in), free(dx), free(needs);
    return status;
}

static capture *capture_of(walk *w, const cr_node *n) {
    for (int i = 0; i < w->n_captures; i++)
        if (w->captures[i].node == n) return &w->captures[i];
    return NULL;
}

/* Gives gradient g to a leaf, or to a result that retains its gradient. */
static cr_status to_tensor(walk *w, cr_node *n, cr_tensor *g, bool only_ours) {
    cr_tensor *t = cr_node_tensor(n);
    if (!t) return CR_OK;
    cr_status status;
    if (n->op || !w->o.on_grad) {
        status = collect_leaf(w, t, g, only_ours);
        if (status == CR_OK && !n->op) status = run_late_hooks(n, t);
    } else if (cr_grad(t) != CR_NONE)
        status = cr_fail(CR_RUNTIME, "backward",
                         "a leaf has a gradient already: with on_grad nothing accumulates, cr_set_grad(leaf, CR_NONE)");
    else if ((status = w->o.on_grad(t, g, w->o.ctx)) != CR_OK && !cr_error())
        cr_fail(status, "backward", "on_grad failed without a message");
    cr_drop(t);
    return status;
}

/* The cotangent of n is complete: runs the hooks, stores the gradient where it is asked for,
 * continues with the inputs. */
static cr_status visit(walk *w, cr_node *n, cr_tensor *cotangent) {
    visited++;
    const cr_watch *watch = cr_watching();
    cr_status status = watch ? watch->visits(n) : CR_OK;
    cr_tensor *g = status == CR_OK ? run_hooks(n, cotangent) : NULL;
    if (!g) status = cr_error_status();
    /* Other walks add in place to the gradient of a leaf, so a gradient that this walk reads later
     * is copied. */
    const bool only_ours = status == CR_OK && !n->op && (g != cotangent || atomic_load(&g->refs) == 1);
    const capture *asked = capture_of(w, n);
    const bool adds = asked && w->o.n_inputs;
    /* the same tensor may be asked for twice */
    for (int i = 0; i < w->n_captures && status == CR_OK && !adds; i++)
        if (w->captures[i].node == n) w->captures[i].grad = cr_retain(g);
    cr_tensor *to = adds ? (cr_tensor *)(uintptr_t)asked->tensor : NULL;
    if (status == CR_OK && to) status = collect_leaf(w, to, g, only_ours);
    if (status == CR_OK && to && !n->op) status = run_late_hooks(n, to);
    if (status == CR_OK && (n->op || !w->captures) && !adds) status = to_tensor(w, n, g, only_ours);
    const bool ends = asked && asked - w->captures < w->n_ends;
    return status != CR_OK || ends || !leads_on(w, n) ? status : differentiate(w, n, g);
}

static cr_status run_walk(walk *w) {
    cr_status status = CR_OK;
    w->outer = current;
    current = w;
    const int64_t before = visited;
    visited = 0;
    for (unsigned turn = 1; w->n && status == CR_OK; turn++) {
        cr_node *n = heap_pop(w);
        status = visit_waiting(w, n);
        cr_node_release(n);
        /* 64 of the smallest: 20 us */
        if (status == CR_OK && turn % 64 == 0) status = cr_check_interrupt("backward");
    }
    current = w->outer;
    if (current) visited = before;
    return status;
}

/* ---- calls behind a pass */
typedef struct behind { cr_status (*call)(void *ctx); void *ctx; void (*done)(void *ctx); struct behind *next; } behind;
static _Thread_local behind *first_behind;

cr_status cr_after_backward(cr_status (*call)(void *ctx), void *ctx, void (*done)(void *ctx)) {
    static const char op[] = "after_backward";
    if (!call) return cr_fail_null(op, "the function");
    if (!current) return cr_fail(CR_RUNTIME, op, "no backward pass runs on this thread: call it in a hook");
    behind **end = &first_behind, *b = malloc(sizeof *b);
    if (!b) return cr_no_memory(op);
    while (*end) end = &(*end)->next;
    *b = (behind){call, ctx, done, NULL};
    *end = b;
    return CR_OK;
}

/* The outermost pass of this thread is over: calls its functions in order, or after a failure only drops them. */
static cr_status call_behind(cr_status status) {
    while (!current && first_behind) {
        behind *b = first_behind;
        first_behind = b->next;
        if (status == CR_OK && b->call(b->ctx) != CR_OK) {
            if (!cr_error()) cr_fail(CR_RUNTIME, "after_backward", "a function behind a pass failed without a message");
            status = cr_error_status();
        }
        if (b->done) b->done(b->ctx);
        free(b);
    }
    return status;
}

static cr_status survey(walk *w, cr_node *const *roots, int64_t n);

cr_status cr_walk_through(const cr_tensor *y, const cr_tensor *cotangent) {
    if (!cr_in_graph(y)) return CR_OK;
    cr_status status = current->counted ? survey(current, &y->node, 1) : CR_OK;
    return status == CR_OK ? deliver(current, y->node, cotangent, false) : status;
}

bool cr_walk_frees(void) { return !current->o.create_graph && !current->o.retain_graph; }

cr_status cr_backward_through(const cr_tensor *y, const cr_tensor *g) {
    static const char op[] = "backward_through";
    if (cr_missing(op, "the result", y) || cr_missing(op, "the cotangent", g)) return cr_error_status();
    if (!current) return cr_fail(CR_RUNTIME, op, "no backward pass runs on this thread");
    if (cr_shape_equal(y->ndim, y->shape, g->ndim, g->shape) && y->dtype == g->dtype) return cr_walk_through(y, g);
    return cr_fail(CR_RUNTIME, op, "the result is %s %s, the cotangent %s %s: was it %s the first time?",
                   cr_dtype_name(y->dtype), cr_shape_text(y->ndim, y->shape).s, cr_dtype_name(g->dtype),
                   cr_shape_text(g->ndim, g->shape).s, cr_shape_text(g->ndim, g->shape).s);
}

cr_tensor **cr_walk_cotangents(const void *function, int n) {
    for (parts *p = current->parts; p; p = p->next)
        if (p->function == function) return p->of;
    parts *p = calloc(1, sizeof *p + sizeof *p->of * (size_t)n);
    if (!p) return cr_no_memory("backward"), NULL;
    p->next = current->parts;
    p->function = function;
    p->n = n;
    current->parts = p;
    return p->of;
}

static void free_first_parts(parts **at) {
    parts *p = *at;
    *at = p->next;
    for (int k = 0; k < p->n; k++) cr_drop(p->of[k]);
    free(p);
}

void cr_walk_cotangents_free(const void *function) {
    for (parts **at = &current->parts; *at; at = &(*at)->next)
        if ((*at)->function == function) {
            free_first_parts(at);
            return;
        }
}

/* ---- roots */
/* argument: the name of the cotangent in the call */
static cr_status push_root(walk *w, const char *op, const char *argument, const cr_tensor *y,
                           const cr_tensor *cotangent) {
    if (cr_missing(op, "the result", y) || cr_lacks_tensor(op, argument, cotangent)) return cr_error_status();
    if (cr_wrapped(y))
        return cr_fail(CR_RUNTIME, op, "cannot run inside vmap or jvp: use func.grad");
    if (!cr_in_graph(y))
        return cr_fail(CR_RUNTIME, op, "the result does not depend on any tensor that requires a gradient");
    if (cotangent == CR_NONE) {
        if (y->numel != 1)
            return cr_fail(CR_RUNTIME, op, "a result of shape %s needs `%s`: only one element has a default",
                           cr_shape_text(y->ndim, y->shape).s, argument);
        cotangent = cr_ones_like(y);
        if (!cotangent) return cr_error_status();
    } else if (!cr_shape_equal(cotangent->ndim, cotangent->shape, y->ndim, y->shape) || cotangent->dev != y->dev) {
        return cr_fail(CR_BAD_VALUE, op, "`%s` is %s %s on %s, the result %s %s on %s", argument,
                       cr_dtype_name(cotangent->dtype), cr_shape_text(cotangent->ndim, cotangent->shape).s,
                       cotangent->dev ? cotangent->dev->name : "no device", cr_dtype_name(y->dtype),
                       cr_shape_text(y->ndim, y->shape).s, y->dev->name);
    } else if (cotangent->dtype != y->dtype && !(cotangent = cr_to(cotangent, y->dtype, y->dev))) {
        return cr_error_status();
    }
    return deliver(w, y->node, cotangent, false);
}

/* Runs the walk if status is CR_OK, and frees it. */
static cr_status finish_walk(walk *w, cr_status status) {
    if (status == CR_OK) status = run_walk(w);
    for (size_t i = 0; w->waiting.n && i <= w->waiting.mask; i++)      /* after a failure */
        if (w->waiting.at[i].key) cr_drop((cr_tensor *)(uintptr_t)w->waiting.at[i].value);
    while (w->n) cr_node_release(w->heap[--w->n]);
    while (w->parts) free_first_parts(&w->parts);
    free(w->heap);
    cr_table_free(&w->waiting);
    cr_table_free(&w->known);
    return status;
}

/* ---- every node below the roots */
typedef struct list { cr_node **items; size_t n; int64_t room; } list;
static cr_status list_add(list *l, cr_node *n, cr_table *known) {
    const size_t before = known->n;
    if (!table_add(known, n)) return CR_NO_MEMORY;
    if (known->n == before) return CR_OK;
    if (!cr_grow(&l->items, (int64_t)l->n + 1, &l->room, sizeof *l->items))
        return cr_no_memory("backward");
    l->items[l->n++] = n;
    return CR_OK;
}

static cr_status reachable(walk *w, cr_node *const *roots, int64_t n, list *l) {
    cr_status status = CR_OK;
    for (int64_t i = 0; i < n && status == CR_OK; i++) status = list_add(l, roots[i], &w->known);
    for (size_t i = 0; i < l->n && status == CR_OK; i++)
        for (int k = 0; k < l->items[i]->n && status == CR_OK; k++)
            if (l->items[i]->edges[k]) status = list_add(l, l->items[i]->edges[k], &w->known);
    return status;
}

static bool is_one_of(const cr_node *n, int count, cr_node *const *nodes) {
    for (int i = 0; i < count; i++)
        if (nodes[i] == n) return true;
    return false;
}

cr_status cr_graph_leaves(int n, cr_node *const *roots, int n_stops, cr_node *const *stops, int *n_leaves,
                          cr_tensor ***leaves, bool *whole) {
    walk w = {0};
    list seen = {0};
    cr_status status = CR_OK;
    *n_leaves = 0;
    *leaves = NULL;
    for (int i = 0; i < n && status == CR_OK; i++) status = list_add(&seen, roots[i], &w.known);
    bool freed = false, found = false;
    for (size_t i = 0; i < seen.n && status == CR_OK; i++) {
        const cr_node *at = seen.items[i];
        const bool stop = is_one_of(at, n_stops, stops);
        freed |= at->head.freed && !stop;
        found |= stop || !at->op;
        for (int k = 0; k < at->n && status == CR_OK && !stop; k++)
            if (at->edges[k]) status = list_add(&seen, at->edges[k], &w.known);
    }
    if (status == CR_OK && !(*leaves = malloc(sizeof **leaves * (seen.n + 1))))
        status = cr_fail(CR_NO_MEMORY, "record_end", "out of memory for the graph of the step");
    for (size_t i = 0; i < seen.n && status == CR_OK; i++) {
        cr_tensor *t = seen.items[i]->op || is_one_of(seen.items[i], n_stops, stops) ? NULL
                                                                                     : cr_node_tensor(seen.items[i]);
        if (t) (*leaves)[(*n_leaves)++] = t;
    }
    *whole = found && !freed;
    free(seen.items);
    cr_table_free(&w.known);
    return status;
}

cr_status cr_graph_older(int n, cr_node *const *roots, uint64_t since, int *n_found, cr_node ***found) {
    cr_table known = {0};
    list seen = {0};
    cr_status status = CR_OK;
    for (int i = 0; i < n && status == CR_OK; i++) status = list_add(&seen, roots[i], &known);
    for (size_t i = 0; i < seen.n && status == CR_OK; i++) {
        const cr_node *at = seen.items[i];
        for (int k = 0; k < at->n && status == CR_OK && at->seq >= since; k++)
            if (at->edges[k]) status = list_add(&seen, at->edges[k], &known);
    }
    *n_found = 0;
    *found = seen.items;
    for (size_t i = 0; i < seen.n; i++)
        if (seen.items[i]->seq < since) seen.items[(*n_found)++] = seen.items[i];
    cr_table_free(&known);
    return status;
}

static int by_seq(const void *a, const void *b) {
    uint64_t x = (*(cr_node *const *)a)->seq, y = (*(cr_node *const *)b)->seq;
    return (x > y) - (x < y);
}

/* With inputs only nodes on the way to one of them are visited.  In order of rising seq a node leads on if it is asked
 * for or one of its inputs does. */
static void mark_paths(walk *w, list *l) {
    qsort(l->items, l->n, sizeof *l->items, by_seq);
    for (size_t i = 0; i < l->n; i++) {
        cr_node *n = l->items[i];
        bool leads = capture_of(w, n) != NULL;
        for (int k = 0; k < n->n && !leads; k++)
            leads = n->edges[k] && *cr_table_find(&w->known, n->edges[k]->seq) & LEADS;
        if (leads) *cr_table_find(&w->known, n->seq) |= LEADS;
    }
}

/* Learns about all nodes below the roots that were not known yet: which lead on, and how often each is used.  The
 * roots are those of the walk, or what a checkpoint has recomputed. */
static cr_status survey(walk *w, cr_node *const *roots, int64_t n) {
    list new = {0};
    cr_status status = reachable(w, roots, n, &new);
    if (status == CR_OK && w->captures && new.n) mark_paths(w, &new);
    for (size_t i = 0; i < new.n && status == CR_OK && w->counted; i++) {
        const cr_node *from = new.items[i];
        if (!wanted(w, from)) continue;
        for (int k = 0; k < from->n; k++)
            if (from->edges[k]) *cr_table_find(&w->known, from->edges[k]->seq) += USE;
    }
    free(new.items);
    return status;
}

static cr_status set_captures(walk *w, const char *op, int n, const cr_tensor *const *in) {
    if (n < 1) return cr_fail(CR_BAD_VALUE, op, "%d inputs: at least one is needed", n);
    w->captures = calloc((size_t)n, sizeof *w->captures);
    if (!w->captures) return cr_no_memory(op);
    w->n_captures = n;
    for (int i = 0; i < n; i++) {
        if (cr_missing(op, "an input", in[i])) return cr_error_status();
        if (!cr_in_graph(in[i]) || cr_wrapped(in[i]))
            return cr_fail(CR_RUNTIME, op, "input %d does not require a gradient", i);
        w->captures[i] = (capture){.node = in[i]->node, .tensor = in[i]};
    }
    return CR_OK;
}

/* ---- cr_backward and cr_gradients */
static cr_status check_options(const cr_backward_options *o) {
    if (o->on_grad && (o->retain_graph || o->create_graph || o->n_inputs))
        return cr_fail(CR_BAD_VALUE, "backward",
                       "on_grad may write to leaves: it excludes retain_graph, create_graph and inputs");
    return o->n_inputs && !o->inputs ? cr_fail_null("backward", "the inputs") : CR_OK;
}

cr_status cr_backward(const cr_tensor *y, const cr_tensor *gradient, const cr_backward_options *o) {
    walk w = {.o = o ? *o : (cr_backward_options){0}, .waiting.few = w.few[0], .known.few = w.few[1]};
    cr_status status = check_options(&w.o);
    if (status != CR_OK) return status;
    bool mode = cr_set_grad_enabled(w.o.create_graph);
    const cr_cast_state casts = cr_casts_off();          /* gradients have the dtypes of the forward pass */
    cr_scope_begin();
    status = push_root(&w, "backward", "gradient", y, gradient);
    if (status == CR_OK && w.o.n_inputs) status = set_captures(&w, "backward", w.o.n_inputs, w.o.inputs);
    w.counted = w.o.on_grad || cr_late_hooks();     /* else a leaf waits for the end of the walk */
    if (status == CR_OK && (w.counted || w.captures)) status = survey(&w, w.heap, w.n);
    status = finish_walk(&w, status);
    cr_scope_end();
    cr_set_casts(casts);
    cr_set_grad_enabled(mode);
    free(w.captures);
    return call_behind(status);
}

cr_status cr_gradients_between(int n_out, const cr_tensor *const *out, const cr_tensor *const *grad_outputs, int n_in,
                               const cr_tensor *const *in, int n_ends, cr_tensor **grads,
                               const cr_backward_options *o) {
    walk w = {.o = o ? *o : (cr_backward_options){0}, .n_ends = n_ends, .waiting.few = w.few[0],
              .known.few = w.few[1]};
    w.o.n_inputs = 0;
    if (!out || !in || !grads) return cr_fail_null("gradients", "an array");
    for (int i = 0; i < n_in; i++) grads[i] = NULL;
    bool mode = cr_set_grad_enabled(w.o.create_graph);
    const cr_cast_state casts = cr_casts_off();
    cr_scope_begin();
    cr_status status = n_out < 1 ? cr_fail(CR_BAD_VALUE, "gradients", "%d results: at least one is needed", n_out)
                                 : set_captures(&w, "gradients", n_in, in);
    for (int i = 0; i < n_out && status == CR_OK; i++)
        status = push_root(&w, "gradients", "grad_outputs", out[i], grad_outputs ? grad_outputs[i] : CR_NONE);
    if (status == CR_OK) status = survey(&w, w.heap, w.n);
    status = finish_walk(&w, status);
    cr_scope_end();
    cr_set_casts(casts);
    cr_set_grad_enabled(mode);
    status = call_behind(status);
    for (int i = 0; i < w.n_captures; i++) {
        cr_tensor *g = w.captures[i].grad;
        if (status != CR_OK) cr_drop(g);
        else if (!g) grads[i] = (cr_tensor *)(uintptr_t)CR_NONE;
        else {                                      /* a new handle */
            grads[i] = cr_new_handle(g);
            cr_drop(g);
            if (!grads[i]) status = cr_error_status();
        }
    }
    if (status != CR_OK)
        for (int i = 0; i < n_in; i++) { if (grads[i]) cr_release(grads[i]); grads[i] = NULL; }
    free(w.captures);
    return status;
}
