/* backward.c - the walk from results to leaves: nodes in order of falling sequence number, so that every cotangent is complete
 * when its node's turn comes.  No recursion: a chain of ten million nodes needs a heap of one. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct capture { cr_node *node; cr_tensor *grad; } capture;

typedef struct walk {
    cr_backward_options o;
    cr_node **heap; int64_t n, room;                /* a max-heap by seq of nodes whose cotangent waits; owns references */
    capture *captures; int n_captures;              /* cr_gradients: where to stop and hand out; NULL: leaves collect */
    uint64_t mark;                                  /* != 0: nodes marked mark | 1 lead to a capture, mark alone do not */
    bool counted;                                   /* leaves' uses are: a leaf is visited when the last of them has been followed */
    const cr_node *at;                              /* whose gradient is being computed */
    struct walk *outer;
} walk;

static _Thread_local walk *current;
static _Atomic uint64_t next_mark = 2;

const cr_node *cr_walk_node(void) { return current ? current->at : NULL; }

/* ---- the heap */
static cr_status heap_push(walk *w, cr_node *n) {
    if (w->n == w->room) {
        int64_t room = w->room ? 2 * w->room : 64;
        cr_node **heap = realloc(w->heap, sizeof *heap * (size_t)room);
        if (!heap) return cr_fail(CR_NO_MEMORY, "backward", "out of memory");
        w->heap = heap;
        w->room = room;
    }
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
    return atomic_load(&t->refs) == 1 && atomic_load(&t->storage->refs) == 1 && (t->flags & CR_FLAG_CONTIGUOUS) && !t->node;
}

/* sum := sum + d, in place where nobody else can see it.  Owns what it returns; takes the reference to sum. */
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

static cr_status deliver(walk *w, cr_node *to, const cr_tensor *d) {
    if (to->cotangent) {
        to->cotangent = accumulate(to->cotangent, d, w->o.create_graph);
        return to->cotangent ? CR_OK : cr_error_status();
    }
    cr_status bad = heap_push(w, to);
    if (bad == CR_OK) to->cotangent = cr_retain(d);
    return bad;
}

/* Broadcasting and promotion are undone here, once for every op: dx summed to the input's shape and cast to its dtype. */
static cr_tensor *fit(cr_tensor *d, const cr_kept *in) {
    int64_t axes[CR_MAX_DIMS], *shape = in->dims;
    int n = 0, extra = d->ndim - in->ndim;
    for (int i = 0; i < d->ndim; i++)
        if (i < extra || (shape[i - extra] == 1 && d->shape[i] != 1)) axes[n++] = i;
    if (n) {
        d = cr_sum(d, n, axes, true);
        if (d && extra) d = cr_reshape(d, in->ndim, shape);
    }
    if (d && d->dtype != in->dtype) d = cr_to(d, (cr_dtype)in->dtype, d->dev);
    return d;
}

/* ---- one node */
static cr_status visit(walk *w, cr_node *n, cr_tensor *cotangent);

/* Takes the cotangent that waits at n, if any, and visits n with it. */
static cr_status take_up(walk *w, cr_node *n) {
    cr_tensor *g = n->cotangent;
    n->cotangent = NULL;
    if (!g) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    cr_status bad = visit(w, n, g);
    cr_scope_leave(&own);
    cr_drop(g);
    return bad;
}

/* The hook that comes after the one numbered id.  Hooks may add and remove hooks, themselves too. */
static cr_hook_entry *hook_after(const cr_node *n, int64_t id) {
    cr_hook_entry *h = n->hooks;
    while (h && h->id <= id) h = h->next;
    return h;
}

static cr_tensor *run_hooks(cr_node *n, cr_tensor *g) {
    int64_t id = 0;
    for (cr_hook_entry *h; g && (h = hook_after(n, id)); ) {
        id = h->id;
        h->refs++;
        cr_tensor *changed = cr_adopt(h->hook(g, h->ctx));
        cr_hook_release(h);
        if (changed == CR_NONE) continue;
        if (!changed) {
            if (!cr_error()) cr_fail(CR_RUNTIME, "hook", "a gradient hook failed without a message");
            g = NULL;
        } else if (changed->ndim != g->ndim || memcmp(changed->shape, g->shape, sizeof(int64_t) * g->ndim) || changed->dtype != g->dtype) {
            cr_fail(CR_BAD_VALUE, "hook", "a gradient hook returned %s %s for a gradient of %s %s", cr_dtype_name((cr_dtype)changed->dtype),
                    cr_shape_text(changed->ndim, changed->shape).s, cr_dtype_name((cr_dtype)g->dtype), cr_shape_text(g->ndim, g->shape).s);
            g = NULL;
        } else {
            g = changed;
        }
    }
    return g;
}

/* t->grad += g; the first one is kept itself where nobody else holds it. */
static cr_status collect(walk *w, cr_tensor *t, cr_tensor *g, bool only_ours) {
    if (t->grad) {
        cr_tensor *before = cr_disclaim(t->grad);
        t->grad = NULL;
        if (!w->o.create_graph && cr_add_(before, g)) t->grad = before;
        else if (!w->o.create_graph) cr_drop(before);
        else t->grad = accumulate(before, g, true);
    } else if (w->o.create_graph || (only_ours && atomic_load(&g->storage->refs) == 1 && (g->flags & CR_FLAG_CONTIGUOUS))) {
        t->grad = cr_retain(g);
    } else {
        t->grad = cr_unscope(cr_clone(g));
    }
    return cr_claim(t->grad) ? CR_OK : cr_error_status();
}

static bool wanted(const walk *w, const cr_node *n) {
    return n && (!w->mark || (n->mark & ~(uint64_t)1) != w->mark || (n->mark & 1));
}

static bool leads_on(const walk *w, const cr_node *n) {
    for (int i = 0; i < n->n; i++)
        if (wanted(w, n->edges[i])) return true;
    return false;
}

static cr_status check_dx(const cr_call *c, int i, const cr_tensor *d) {
    if (!d) return cr_error() ? cr_error_status() : cr_fail(CR_RUNTIME, cr_call_name(c), "the gradient of input %d failed without a message", i);
    char where[48] = "gradient of input 0";
    if (i < 10) where[18] = (char)('0' + i);
    return cr_anomaly && d != CR_NONE ? cr_check_finite(cr_call_name(c), i < 10 ? where : "gradient", NULL, d) : CR_OK;
}

static cr_tensor *open(const cr_node *n, const cr_kept *k, cr_node *as, int input) {
    return n->op->only_saved && !k->storage ? (cr_tensor *)(uintptr_t)CR_NONE : cr_kept_open(n, k, as, input);
}

/* dx[i] = a b, unless that is all of a leaf's gradient, nobody else looks at it, and it is taken as a product. */
static cr_tensor *product(int i, const cr_tensor *a, const cr_tensor *b) {
    const walk *w = current;
    const cr_node *leaf = w->at->edges[i];
    bool alone = w->o.on_product && w->counted && !leaf->op && leaf->uses == 1 && !leaf->cotangent && !leaf->hooks && leaf->head.handle && !leaf->head.handle->grad;
    bool taken = false;
    if (!a || !b) return NULL;
    cr_status bad = alone && !cr_anomaly ? w->o.on_product(leaf->head.handle, a, b, w->o.ctx, &taken) : CR_OK;
    return bad != CR_OK ? NULL : taken ? (cr_tensor *)(uintptr_t)CR_NONE : cr_matmul(a, b);
}

/* Opens what the node kept, runs the op's gradient, sends the results on.  Inside a scope of its own. */
static cr_status run_gradient(walk *w, cr_node *n, const cr_tensor *g, const cr_tensor **in, cr_tensor **dx, cr_tensor **arrived, bool *needs) {
    bool graph = w->o.create_graph;
    cr_call c = {.op = n->op, .params = n->params, .n = n->n, .in = in, .dev = g->dev, .needs = needs, .arrived = arrived, .differentiable = graph, .product = product};
    for (int i = 0; i < n->n; i++) {
        dx[i] = (cr_tensor *)(uintptr_t)CR_NONE;
        needs[i] = wanted(w, n->edges[i]);
        cr_tensor *sum = needs[i] && !graph ? n->edges[i]->cotangent : NULL;
        arrived[i] = sum && exclusive(sum) ? sum : NULL;
        if (!(in[i] = open(n, &n->in[i], graph || n->op->grafts ? n->edges[i] : NULL, i))) return cr_error_status();
    }
    if (!(c.out = open(n, &n->out, graph ? n : NULL, -1))) return cr_error_status();
    for (int k = 0; k < n->op->n_aux; k++)
        if (!(c.aux[k] = cr_kept_open(n, &n->aux[k], NULL, -1))) return cr_error_status();
    w->at = n;
    const double start = cr_profile_start();
    n->op->grad(&c, g, dx);
    if (start > 0) cr_profile_event(start, "backward", cr_call_name(&c), 1, &g, 0, NULL);
    cr_status cut = cr_finished(cr_call_name(&c), CR_OK);
    if (cut != CR_OK) return cut;
    for (int i = 0; i < n->n; i++) {
        if (!needs[i]) continue;
        cr_status bad = check_dx(&c, i, dx[i]);
        if (bad != CR_OK) return bad;
        if (dx[i] == CR_NONE || dx[i] == arrived[i]) continue;           /* the latter: added to by the op itself */
        cr_tensor *d = fit(dx[i], &n->in[i]);
        if (!d) return cr_error_status();
        if ((bad = deliver(w, n->edges[i], d)) != CR_OK) return bad;
    }
    for (int i = 0; i < n->n && w->counted; i++) {
        cr_node *leaf = n->edges[i];
        if (!leaf || leaf->op || --leaf->uses) continue;
        cr_status bad = take_up(w, leaf);
        if (bad != CR_OK) return bad;
    }
    return CR_OK;
}

static cr_status differentiate(walk *w, cr_node *n, const cr_tensor *g) {
    enum { FEW = 8 };
    const cr_tensor *few_in[FEW];
    cr_tensor *few_dx[FEW], *few_arrived[FEW];
    bool few_needs[FEW];
    size_t count = (size_t)n->n;
    void *memory = count > FEW ? malloc(count * (3 * sizeof(cr_tensor *) + sizeof(bool))) : NULL;
    if (count > FEW && !memory) return cr_fail(CR_NO_MEMORY, n->op->name, "out of memory");
    const cr_tensor **in = memory ? memory : few_in;
    cr_tensor **dx = memory ? (cr_tensor **)memory + count : few_dx;
    cr_tensor **arrived = memory ? (cr_tensor **)memory + 2 * count : few_arrived;
    bool *needs = memory ? (bool *)((cr_tensor **)memory + 3 * count) : few_needs;
    cr_status status = run_gradient(w, n, g, in, dx, arrived, needs);
    free(memory);
    return status;
}

static capture *capture_of(walk *w, const cr_node *n) {
    for (int i = 0; i < w->n_captures; i++)
        if (w->captures[i].node == n) return &w->captures[i];
    return NULL;
}

/* The cotangent is complete: hooks, then whoever asked for it, then on to the inputs. */
static cr_status visit(walk *w, cr_node *n, cr_tensor *cotangent) {
    cr_tensor *g = run_hooks(n, cotangent);
    cr_status bad = g ? CR_OK : cr_error_status();
    capture *asked = capture_of(w, n);
    if (bad == CR_OK && asked)
        for (int i = 0; i < w->n_captures; i++)     /* the same tensor may be asked for twice */
            if (w->captures[i].node == n) w->captures[i].grad = cr_retain(g);
    bool collects = n->head.handle && (n->op ? n->retains_grad : !w->captures);
    if (bad == CR_OK && collects && !n->op && w->o.on_grad) {
        if (n->head.handle->grad) return cr_fail(CR_RUNTIME, "backward", "a leaf has a gradient already: with on_grad nothing accumulates, cr_set_grad(leaf, CR_NONE)");
        bad = w->o.on_grad(n->head.handle, g, w->o.ctx);
        if (bad != CR_OK && !cr_error()) cr_fail(bad, "backward", "on_grad failed without a message");
    } else if (bad == CR_OK && collects) {
        bad = collect(w, n->head.handle, g, g != cotangent || atomic_load(&g->refs) == 1);
    }
    if (bad != CR_OK || !leads_on(w, n)) return bad;
    if (n->freed) {
        cr_call c = {.op = n->op, .params = n->params};
        return cr_fail(CR_RUNTIME, "backward", "what %s saved was freed by an earlier backward pass: pass retain_graph to the first one", cr_call_name(&c));
    }
    bad = differentiate(w, n, g);
    if (bad == CR_OK && !w->o.retain_graph && !w->o.create_graph) cr_node_free_saved(n);
    return bad;
}

static cr_status run(walk *w) {
    cr_status bad = CR_OK;
    w->outer = current;
    current = w;
    for (unsigned visited = 1; w->n && bad == CR_OK; visited++) {
        cr_node *n = heap_pop(w);
        bad = take_up(w, n);
        cr_node_release(n);
        if (bad == CR_OK && visited % 64 == 0) bad = cr_check_interrupt("backward");    /* 64 of the smallest: 20 us */
    }
    current = w->outer;
    return bad;
}

cr_status cr_walk_graft(const cr_tensor *y, const cr_tensor *cotangent) {
    if (!cr_in_graph(y)) return CR_OK;
    return deliver(current, y->node, cotangent);
}

/* ---- roots */
static cr_status push_root(walk *w, const char *op, const cr_tensor *y, const cr_tensor *cotangent) {
    if (cr_missing(op, "the result", y) || cr_lacks_tensor(op, "a cotangent", cotangent)) return cr_error_status();
    if (!cr_in_graph(y))
        return cr_fail(CR_RUNTIME, op, "the result does not depend on any tensor that requires a gradient");
    if (cotangent == CR_NONE) {
        if (y->numel != 1)
            return cr_fail(CR_RUNTIME, op, "a result of shape %s needs a cotangent: only one element has a default", cr_shape_text(y->ndim, y->shape).s);
        cotangent = cr_ones_like(y);
        if (!cotangent) return cr_error_status();
    } else if (cotangent->ndim != y->ndim || memcmp(cotangent->shape, y->shape, sizeof(int64_t) * y->ndim) || cotangent->dtype != y->dtype || cotangent->dev != y->dev) {
        return cr_fail(CR_BAD_VALUE, op, "the cotangent is %s %s on %s, the result %s %s on %s", cr_dtype_name((cr_dtype)cotangent->dtype),
                       cr_shape_text(cotangent->ndim, cotangent->shape).s, cotangent->dev ? cotangent->dev->name : "no device",
                       cr_dtype_name((cr_dtype)y->dtype), cr_shape_text(y->ndim, y->shape).s, y->dev->name);
    }
    return deliver(w, y->node, cotangent);
}

/* Walks if all is well so far; after a failure nothing may stay behind in the nodes. */
static cr_status finish(walk *w, cr_status bad) {
    if (bad == CR_OK) bad = run(w);
    while (w->n) {
        cr_node *n = heap_pop(w);
        cr_drop(n->cotangent);
        n->cotangent = NULL;
        cr_function_forget(n);
        cr_node_release(n);
    }
    free(w->heap);
    return bad;
}

/* ---- every node below the roots */
typedef struct list { cr_node **items; size_t n, room; } list;
static cr_status list_add(list *l, cr_node *n, uint64_t mark) {
    if (n->mark == mark) return CR_OK;
    n->mark = mark;
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 256;
        cr_node **items = realloc(l->items, room * sizeof *items);
        if (!items) return cr_fail(CR_NO_MEMORY, "backward", "out of memory");
        l->items = items;
        l->room = room;
    }
    l->items[l->n++] = n;
    return CR_OK;
}

static cr_status reachable(const walk *w, uint64_t mark, list *l) {
    cr_status bad = CR_OK;
    for (int64_t i = 0; i < w->n && bad == CR_OK; i++) bad = list_add(l, w->heap[i], mark);
    for (size_t i = 0; i < l->n && bad == CR_OK; i++)
        for (int k = 0; k < l->items[i]->n && bad == CR_OK; k++)
            if (l->items[i]->edges[k]) bad = list_add(l, l->items[i]->edges[k], mark);
    return bad;
}

/* With checkpoints nothing is counted: what they recompute has more edges to the leaves, and reads them. */
static cr_status count_uses(walk *w) {
    list seen = {0};
    cr_status bad = reachable(w, atomic_fetch_add(&next_mark, 2), &seen);
    w->counted = true;
    for (size_t i = 0; i < seen.n; i++) seen.items[i]->uses = 0;
    for (size_t i = 0; i < seen.n; i++) {
        const cr_node *n = seen.items[i];
        if (n->op && n->op->grafts) w->counted = false;
        for (int k = 0; k < n->n; k++) if (n->edges[k]) n->edges[k]->uses++;
    }
    free(seen.items);
    return bad;
}

cr_status cr_backward(const cr_tensor *y, const cr_tensor *cotangent, const cr_backward_options *o) {
    walk w = {.o = o ? *o : (cr_backward_options){0}};
    if (w.o.on_grad && (w.o.retain_graph || w.o.create_graph))
        return cr_fail(CR_BAD_VALUE, "backward", "on_grad may write to leaves: it excludes retain_graph and create_graph");
    bool mode = cr_set_grad_enabled(w.o.create_graph);
    cr_scope_begin();
    cr_status bad = push_root(&w, "backward", y, cotangent);
    if (bad == CR_OK && w.o.on_grad) bad = count_uses(&w);
    bad = finish(&w, bad);
    cr_scope_end();
    cr_set_grad_enabled(mode);
    return bad;
}

/* ---- cr_gradients: only nodes on the way to an input are visited */
static int by_seq(const void *a, const void *b) {
    uint64_t x = (*(cr_node *const *)a)->seq, y = (*(cr_node *const *)b)->seq;
    return (x > y) - (x < y);
}

/* Marks every node reachable from the roots; in order of rising seq a node leads on if it is asked for or one of its inputs does. */
static cr_status mark_paths(walk *w) {
    list seen = {0};
    w->mark = atomic_fetch_add(&next_mark, 2);
    cr_status bad = reachable(w, w->mark, &seen);
    if (bad == CR_OK) qsort(seen.items, seen.n, sizeof *seen.items, by_seq);
    for (size_t i = 0; i < seen.n && bad == CR_OK; i++) {
        cr_node *n = seen.items[i];
        bool leads = capture_of(w, n) != NULL;
        for (int k = 0; k < n->n && !leads; k++) leads = n->edges[k] && n->edges[k]->mark == (w->mark | 1);
        if (leads) n->mark |= 1;
    }
    free(seen.items);
    return bad;
}

static cr_status set_captures(walk *w, int n, const cr_tensor *const *in) {
    if (n < 1) return cr_fail(CR_BAD_VALUE, "gradients", "%d inputs: at least one is needed", n);
    w->captures = calloc((size_t)n, sizeof *w->captures);
    if (!w->captures) return cr_fail(CR_NO_MEMORY, "gradients", "out of memory");
    w->n_captures = n;
    for (int i = 0; i < n; i++) {
        if (cr_missing("gradients", "an input", in[i])) return cr_error_status();
        if (!cr_in_graph(in[i])) return cr_fail(CR_RUNTIME, "gradients", "input %d does not require a gradient", i);
        w->captures[i].node = in[i]->node;
    }
    return CR_OK;
}

cr_status cr_gradients(int n_out, const cr_tensor *const *out, const cr_tensor *const *cotangents, int n_in,
                       const cr_tensor *const *in, cr_tensor **grads, const cr_backward_options *o) {
    walk w = {.o = o ? *o : (cr_backward_options){0}};
    if (!out || !in || !grads) return cr_fail_null("gradients", "an array");
    for (int i = 0; i < n_in; i++) grads[i] = NULL;
    bool mode = cr_set_grad_enabled(w.o.create_graph);
    cr_scope_begin();
    cr_status bad = n_out < 1 ? cr_fail(CR_BAD_VALUE, "gradients", "%d results: at least one is needed", n_out) : set_captures(&w, n_in, in);
    for (int i = 0; i < n_out && bad == CR_OK; i++) bad = push_root(&w, "gradients", out[i], cotangents ? cotangents[i] : CR_NONE);
    if (bad == CR_OK) bad = mark_paths(&w);
    bad = finish(&w, bad);
    cr_scope_end();
    cr_set_grad_enabled(mode);
    for (int i = 0; i < w.n_captures; i++) {
        cr_tensor *g = w.captures[i].grad;
        if (bad != CR_OK) cr_drop(g);
        else if (!g) grads[i] = (cr_tensor *)(uintptr_t)CR_NONE;
        else {                                      /* a handle of its own, owned like every new one */
            grads[i] = cr_tensor_again(g);
            cr_drop(g);
            if (!grads[i]) bad = cr_error_status();
        }
    }
    if (bad != CR_OK)
        for (int i = 0; i < n_in; i++) { if (grads[i]) cr_release(grads[i]); grads[i] = NULL; }
    free(w.captures);
    return bad;
}
