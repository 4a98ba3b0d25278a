/* leaf.c - the gradient state of a tensor: requires_grad, grad, data, hooks. */
#include "graph.h"
#include "../core/watch.h"

#include <stdlib.h>
#include <string.h>

static cr_status check_tensor(const char *op, const cr_tensor *t) {
    if (cr_missing(op, "the tensor", t)) return cr_error_status();
    if (t == CR_NONE) return cr_fail(CR_BAD_VALUE, op, "CR_NONE is not a tensor");
    return CR_OK;
}

/* A wrapper has no node: those of its values have. */
static bool has_node(const cr_tensor *t) { return cr_in_graph(t) && t->node; }

/* ---- hooks are stored in the node: the leaf node of a leaf, else the node that made the tensor */
static _Atomic int64_t next_hook = 1, late_hooks;

bool cr_late_hooks(void) { return atomic_load_explicit(&late_hooks, memory_order_relaxed) > 0; }

void cr_hook_release(cr_hook_entry *h) {
    if (!cr_unref(&h->refs)) return;
    late_hooks -= h->late;
    if (h->done) h->done(h->ctx);
    free(h);
}

/* While hooks run, they and other threads may add and remove hooks. */
cr_hook_entry *cr_hook_after(cr_node *n, int64_t id, bool late) {
    if (!atomic_load_explicit(&n->hooks, memory_order_relaxed)) return NULL;
    cr_spin_lock(&n->head.lock);
    cr_hook_entry *h = n->hooks;
    while (h && (h->id <= id || h->late != late)) h = h->next;
    if (h) atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
    cr_spin_unlock(&n->head.lock);
    return h;
}

static cr_hook_entry *unlinked(cr_node *n, int64_t id) {
    cr_spin_lock(&n->head.lock);
    cr_hook_entry *before = NULL, *h = n->hooks;
    for (; h && h->id != id; h = h->next) before = h;
    if (h && before) before->next = h->next;
    else if (h) n->hooks = h->next;
    cr_spin_unlock(&n->head.lock);
    return h;
}

/* ---- leaves */
cr_tensor *cr_requires_grad_(cr_tensor *t, bool on) {
    if (check_tensor("requires_grad", t) != CR_OK) return NULL;
    if (on && !cr_dtype_is_float(t->dtype))
        return cr_fail(CR_BAD_TYPE, "requires_grad", "only floating point tensors can require a gradient: %s",
                       cr_dtype_name(t->dtype)),
               NULL;
    if (cr_wrapped(t)) {
        if (on == cr_in_graph(t)) return t;
        return cr_fail(CR_RUNTIME, "requires_grad", "cannot change inside vmap or jvp: use func.grad"), NULL;
    }
    const bool is_on = cr_in_graph(t);
    if (!on && !cr_is_leaf(t))
        return cr_fail(CR_RUNTIME, "requires_grad",
                       "a result of an op cannot stop requiring a gradient: use cr_detach"),
               NULL;
    if (on == is_on) return t;
    if (on) {
        cr_grad_start();
        if (!cr_leaf_node(t)) return NULL;
        cr_node_point(t->node, t);
        t->flags |= CR_FLAG_REQUIRES_GRAD;
    } else {                                        /* the node is kept with its hooks: t may be switched on again, and
                                                     * another thread may be about to record a use of t */
        cr_node_unpoint(t->node, t);
        t->flags &= (uint16_t)~CR_FLAG_REQUIRES_GRAD;
    }
    if (t->flags & CR_FLAG_VIEW) cr_base_leave(t);        /* it becomes a leaf */
    cr_base *b = atomic_load(&t->base);
    if (b) {                                        /* for the views that exist already */
        cr_node_release(b->node);
        b->node = on ? cr_node_retain(t->node) : NULL;
    }
    return t;
}

bool cr_requires_grad(const cr_tensor *t) { return check_tensor("requires_grad", t) == CR_OK && cr_in_graph(t); }
bool cr_is_leaf(const cr_tensor *t) {
    return check_tensor("is_leaf", t) == CR_OK && (!cr_in_graph(t) || (t->node && t->node->head.leaf));
}

const char *cr_op_name(const cr_tensor *t) {
    if (check_tensor("op_name", t) != CR_OK) return NULL;
    return has_node(t) ? cr_node_op(t->node) : "";
}

/* A recorded step reads the gradient that is there when it runs. */
static void reads(const cr_tensor *t) {
    const cr_watch *watch = cr_watching();
    if (watch) watch->reads_grad((cr_tensor *)(uintptr_t)t);
}

cr_tensor *cr_grad(const cr_tensor *t) {
    if (check_tensor("grad", t) != CR_OK) return NULL;
    reads(t);
    return cr_grad_now(t);
}

cr_tensor *cr_grad_retain(const cr_tensor *t) {
    if (check_tensor("grad", t) != CR_OK) return NULL;
    reads(t);
    return cr_grad_hold(t);
}

cr_tensor *cr_grad_hold(const cr_tensor *t) {
    cr_tensor *m = (cr_tensor *)(uintptr_t)t;       /* const does not cover the lock */
    cr_spin_lock(&m->lock);
    cr_tensor *g = cr_retain(cr_grad_now(m));
    cr_spin_unlock(&m->lock);
    return g;
}

void cr_grad_put(cr_tensor *t, cr_tensor *g) {
    cr_spin_lock(&t->lock);
    cr_tensor *before = atomic_load_explicit(&t->grad, memory_order_relaxed);
    atomic_store_explicit(&t->grad, cr_claim(g), memory_order_release);
    cr_spin_unlock(&t->lock);
    cr_unhold(before);
}

cr_status cr_set_grad(cr_tensor *t, const cr_tensor *g) {
    cr_status status = check_tensor("set_grad", t);
    if (status != CR_OK) return status;
    if (cr_missing("set_grad", "the gradient", g)) return cr_error_status();
    if (g != CR_NONE &&
        (!cr_shape_equal(g->ndim, g->shape, t->ndim, t->shape) || g->dtype != t->dtype || g->dev != t->dev))
        return cr_fail(CR_BAD_VALUE, "set_grad", "the gradient is %s %s on %s, the tensor %s %s on %s",
                       cr_dtype_name(g->dtype), cr_shape_text(g->ndim, g->shape).s, g->dev->name,
                       cr_dtype_name(t->dtype), cr_shape_text(t->ndim, t->shape).s, t->dev->name);
    const cr_watch *watch = cr_watching();
    if (watch && (status = watch->sets_grad(t)) != CR_OK) return status;
    cr_grad_put(t, g == CR_NONE ? NULL : cr_retain(g));
    return CR_OK;
}

cr_status cr_retain_grad(cr_tensor *t) {
    cr_status status = check_tensor("retain_grad", t);
    if (status != CR_OK) return status;
    if (!has_node(t)) return cr_fail(CR_RUNTIME, "retain_grad", "the tensor does not require a gradient");
    if (!t->node->op) return CR_OK;
    cr_node_point(t->node, t);
    return CR_OK;
}

bool cr_retains_grad(const cr_tensor *t) {
    return check_tensor("retains_grad", t) == CR_OK && has_node(t) && t->node->op && cr_node_points_to(t->node, t);
}

cr_tensor *cr_variable_data(const cr_tensor *t) {
    cr_tensor *y = cr_detach(t);
    if (!y || cr_counter_begin(y, 0)) return y;
    cr_release(y);
    return NULL;
}

unsigned cr_tensor_version(const cr_tensor *t) {
    if (check_tensor("tensor_version", t) != CR_OK) return 0;
    while (cr_wrapped(t)) t = t->wrapper->value;
    return t->storage ? cr_version_of(t->storage, t->counter) : 0;
}

static cr_status check_data(const cr_tensor *t, const cr_tensor *data) {
    static const char op[] = "with_data";
    if (check_tensor(op, t) != CR_OK || check_tensor(op, data) != CR_OK) return cr_error_status();
    if (cr_wrapped(t) || cr_wrapped(data))
        return cr_fail(CR_RUNTIME, op, "the data of a tensor cannot change inside vmap or jvp");
    if (!cr_in_graph(t)) return CR_OK;
    if (!cr_dtype_is_float(data->dtype))
        return cr_fail(CR_RUNTIME, op, "data of a tensor that requires a gradient must be floating point: %s",
                       cr_dtype_name(data->dtype));
    if (t->node->head.leaf || (cr_shape_equal(t->ndim, t->shape, data->ndim, data->shape) && t->dtype == data->dtype &&
                               t->dev == data->dev))
        return CR_OK;
    return cr_fail(CR_RUNTIME, op, "data of a result of %s must be as that, %s %s on %s: %s %s on %s",
                   cr_node_op(t->node), cr_dtype_name(t->dtype), cr_shape_text(t->ndim, t->shape).s, t->dev->name,
                   cr_dtype_name(data->dtype), cr_shape_text(data->ndim, data->shape).s, data->dev->name);
}

/* y is over the memory of t: their versions are one, and views of t are views of y's base. */
static bool same_memory(cr_tensor *y, const cr_tensor *t) {
    cr_counter_release(y->counter);
    y->counter = cr_counter_retain(t->counter);
    if (!atomic_load(&t->base)) return true;
    y->flags |= CR_FLAG_VIEW;
    return cr_base_join(y, t);
}

cr_tensor *cr_with_data(cr_tensor *t, const cr_tensor *data) {
    if (check_data(t, data) != CR_OK) return NULL;
    cr_tensor *y = cr_tensor_alias(data, NULL);
    if (!y) return NULL;
    if (t->storage != data->storage ? !cr_counter_begin(y, cr_tensor_version(t)) : !same_memory(y, t)) {
        cr_release(y);
        return NULL;
    }
    cr_tensor *g = cr_grad_retain(t);
    if (g != CR_NONE) cr_grad_put(y, g);
    if (cr_in_graph(t)) cr_node_move(t, y);
    return y;
}

/* ---- hooks of a tensor */
static int64_t add_entry(const char *op, cr_tensor *t, cr_hook_entry wanted) {
    if (check_tensor(op, t) != CR_OK) return 0;
    if (!wanted.hook) return cr_fail_null(op, "the hook"), 0;
    if (!has_node(t)) return cr_fail(CR_RUNTIME, op, "the tensor does not require a gradient"), 0;
    if (wanted.late && !t->node->head.leaf)
        return cr_fail(CR_RUNTIME, op, "the tensor is not a leaf: it accumulates no gradient"), 0;
    cr_hook_entry *h = malloc(sizeof *h);
    if (!h) return cr_no_memory(op), 0;
    *h = wanted;
    late_hooks += h->late;
    cr_node *n = t->node;
    cr_spin_lock(&n->head.lock);
    const int64_t id = h->id = atomic_fetch_add(&next_hook, 1);
    cr_hook_entry *last = n->hooks;
    while (last && last->next) last = last->next;   /* in the order they were added */
    if (last) last->next = h;
    else n->hooks = h;
    cr_spin_unlock(&n->head.lock);
    return id;
}

int64_t cr_add_hook(cr_tensor *t, cr_hook hook, void *ctx, void (*done)(void *)) {
    return add_entry("add_hook", t, (cr_hook_entry){.hook = hook, .ctx = ctx, .done = done, .refs = 1});
}

int64_t cr_add_late_hook(cr_tensor *t, cr_hook hook, void *ctx, void (*done)(void *)) {
    return add_entry("add_late_hook", t,
                     (cr_hook_entry){.hook = hook, .late = true, .ctx = ctx, .done = done, .refs = 1});
}

cr_status cr_remove_hook(cr_tensor *t, int64_t id) {
    cr_status status = check_tensor("remove_hook", t);
    if (status != CR_OK) return status;
    cr_hook_entry *gone = t->node ? unlinked(t->node, id) : NULL;
    if (gone) return cr_hook_release(gone), CR_OK;
    return cr_fail(CR_BAD_VALUE, "remove_hook", "no hook %lld on this tensor", (long long)id);
}
