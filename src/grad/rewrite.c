/* rewrite.c - recorded in-place writes to tensors that have views, as in PyTorch.  A write to a
 * view gives its base a new node; every other handle on this memory updates its node when it is
 * next used.
 *
 *     y = f(x); v = y[0]; w = y[1]; v.mul_(2)       v = mul(v before, 2); y = replace_part(f(x), v):
 *     the cotangent of y goes to v inside the
 *                                                   part and to f outside it
 *     w.sum(), y.sum()                              w and y are stale: y takes the node of the base, w becomes part(y)
 *
 * The strides of a view over the memory of its base say where the view lies, whatever ops made it.
 * The base is first put into the order of its memory (core/layout.c), which changes exotic layouts
 * only.  Nothing here computes: the values have been written. */
#include "graph.h"

/* A new handle on the base, in no alias set. */
static cr_tensor *base_handle(const cr_base *b, const cr_tensor *view) {
    cr_tensor *t = cr_tensor_alias(view, &b->meta);
    if (!t) return NULL;
    t->flags |= CR_FLAG_VIEW;
    if (b->node) cr_node_attach(cr_node_retain(b->node), t);
    return t;
}

static cr_tensor *reversed(const cr_tensor *x, uint32_t mask) {
    cr_part parts[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        parts[i] = mask >> i & 1 ? (cr_part){INT64_MAX, INT64_MIN, -1} : (cr_part){0, INT64_MAX, 1};
    return mask ? cr_index(x, x->ndim, parts) : (cr_tensor *)(uintptr_t)x;
}

/* The base in the order of memory, and back. */
typedef struct order {
    cr_meta meta;
    int64_t axes[CR_MAX_DIMS], back[CR_MAX_DIMS];
    uint32_t reversed;
    bool as_is;
} order;

static order order_of(const cr_meta *meta) {
    order o = {.as_is = true};
    o.meta = cr_in_memory_order(meta, o.axes, &o.reversed);
    for (int i = 0; i < meta->ndim; i++) {
        o.back[o.axes[i]] = i;
        o.as_is &= o.axes[i] == i && !o.reversed;
    }
    return o;
}

static cr_tensor *into_order(const order *o, cr_tensor *x) {
    if (o->as_is || !x) return x;
    cr_tensor *y = cr_permute(x, x->ndim, o->axes);
    return y ? reversed(y, o->reversed) : NULL;
}

static cr_tensor *out_of_order(const order *o, cr_tensor *x) {
    if (o->as_is || !x) return x;
    cr_tensor *y = reversed(x, o->reversed);
    return y ? cr_permute(y, y->ndim, o->back) : NULL;
}

/* A handle on the base whose node is replace_part(base before, x). */
static cr_tensor *with_part_replaced(const cr_base *b, const cr_tensor *x) {
    const order o = order_of(&b->meta);
    cr_part_params part;
    cr_tensor *before = into_order(&o, base_handle(b, x));
    if (!before || !cr_part_of(&o.meta, x, &part)) return NULL;
    cr_tensor *after = cr_tensor_alias(before, &o.meta);
    if (!after) return NULL;
    const cr_tensor *in[] = {before, x};
    cr_call c = {.op = &cr_op_replace_part, .params = &part, .n = 2, .in = in, .dev = x->dev, .out = after};
    cr_node *n = cr_node_new(&c, in, after, 0);
    if (!n) return NULL;
    after->flags |= CR_FLAG_VIEW;
    cr_node_attach(n, after);
    return out_of_order(&o, after);
}

cr_status cr_base_update(cr_tensor *x) {
    cr_base *b = atomic_load_explicit(&x->base, memory_order_relaxed);
    if (!b) return CR_OK;
    cr_scope own;
    cr_scope_enter(&own);
    const cr_tensor *whole = x->flags & CR_FLAG_VIEW ? with_part_replaced(b, x) : x;
    if (whole) {
        cr_node *before = b->node;
        b->node = cr_node_retain(whole->node);
        atomic_store_explicit(&x->graph_version, ++b->graph_version, memory_order_relaxed);
        cr_node_release(before);
    }
    cr_scope_leave(&own);
    return whole ? CR_OK : cr_error_status();
}

/* The node of the view, taken from the base as it is now. */
static cr_node *view_node(const cr_base *b, const cr_tensor *view) {
    const order o = order_of(&b->meta);
    cr_part_params part;
    if (!cr_part_of(&o.meta, view, &part)) {
        cr_fail(
            CR_RUNTIME, "view",
            "a view with strides %s of a tensor with strides %s cannot be updated after a write to it: take it again",
            cr_shape_text(view->ndim, view->strides).s, cr_shape_text(b->meta.ndim, b->meta.strides).s);
        return NULL;
    }
    const bool mode = cr_set_grad_enabled(true);
    cr_scope own;
    cr_scope_enter(&own);
    const cr_tensor *whole = into_order(&o, base_handle(b, view)),
                    *again = whole ? cr_apply(&cr_op_part, 1, &whole, &part) : NULL;
    cr_node *n = again ? cr_node_retain(again->node) : NULL;
    cr_scope_leave(&own);
    cr_set_grad_enabled(mode);
    return n;
}

cr_status cr_sync_from_base(cr_tensor *t) {
    const cr_base *b = atomic_load_explicit(&t->base, memory_order_relaxed);
    if (t->flags & CR_FLAG_APART) return CR_RUNTIME;      /* cr_node_new says why, where it matters */
    cr_node *n = t->flags & CR_FLAG_VIEW ? view_node(b, t) : cr_node_retain(b->node);
    if (!n) return cr_error_status();
    cr_spin_lock(&t->lock);                         /* several threads that read t may arrive here: the first one
                                                     * updates it */
    cr_node *other = n;
    if (cr_node_is_stale(t)) {
        other = t->node;
        t->node = n;
        /* other threads read the flags: no write without need */
        if (!(t->flags & CR_FLAG_REQUIRES_GRAD)) t->flags |= CR_FLAG_REQUIRES_GRAD;
        atomic_store_explicit(&t->graph_version, b->graph_version, memory_order_release);
    }
    cr_spin_unlock(&t->lock);
    if (other != n && cr_node_points_to(other, t)) cr_node_point(n, t);
    cr_node_unpoint(other, t);
    cr_node_release(other);
    return CR_OK;
}
