/* tensor.c - tensor handles: creation, scopes, and the release of whole graphs without recursion. */
#include "layout.h"
#include "small.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

const cr_tensor cr_none_tensor = {.refs = 1};

/* ---- scopes: a stack per thread, each a doubly linked list through its handles */
static _Thread_local cr_scope *scope;
static _Thread_local int64_t scopes_missing;        /* scopes begun without memory: their handles go to the outer
                                                     * scope */

void cr_scope_enter(cr_scope *s) {
    *s = (cr_scope){.outer = scope, .fixed = true};
    scope = s;
}

void cr_scope_begin(void) {
    cr_scope *s = scopes_missing ? NULL : cr_small_take(sizeof *s);
    if (!s) { scopes_missing++; return; }
    cr_scope_enter(s);
    s->fixed = false;
}

static void scope_put(cr_scope *s, cr_tensor *t) {
    t->scope = s;
    t->scope_prev = t->scope_next = NULL;
    if (!s) return;
    t->scope_next = s->first;
    if (s->first) s->first->scope_prev = t;
    s->first = t;
}

cr_tensor *cr_unscope(cr_tensor *t) {
    if (!t || t == CR_NONE || !t->scope) return t;
    if (t->scope_prev) t->scope_prev->scope_next = t->scope_next;
    else t->scope->first = t->scope_next;
    if (t->scope_next) t->scope_next->scope_prev = t->scope_prev;
    t->scope = NULL;
    return t;
}

void cr_scope_leave(cr_scope *s) {
    scope = s->outer;
    while (s->first) {
        cr_tensor *t = s->first;
        cr_unscope(t);
        cr_drop(t);
    }
}

void cr_scope_end(void) {
    if (scopes_missing) { scopes_missing--; return; }
    cr_scope *s = scope;
    if (!s || s->fixed) { cr_fail(CR_RUNTIME, "scope_end", "no scope is open in this thread"); return; }
    cr_scope_leave(s);
    cr_small_give(s, sizeof *s);
}

cr_tensor *cr_keep(cr_tensor *t) {
    if (cr_missing("keep", "the tensor", t)) return NULL;
    if (!t->scope) return t;
    cr_scope *outer = t->scope->outer;
    cr_unscope(t);
    scope_put(outer, t);
    return t;
}

/* ---- references.  Objects whose count reaches zero wait in a list of the thread.  Only the outermost
 * call destroys them, so that a chain of ten million tensors and nodes needs no stack. */
typedef struct graveyard { cr_tensor *tensors; cr_node *nodes; bool busy; } graveyard;
static _Thread_local graveyard dead;

static cr_node_head *head(const cr_node *n) { return (cr_node_head *)(uintptr_t)n; }

void cr_node_point(cr_node *n, cr_tensor *t) {
    if (t) t->flags |= CR_FLAG_KNOWN;
    cr_spin_lock(&head(n)->lock);
    atomic_store_explicit(&head(n)->handle, t, memory_order_relaxed);
    cr_spin_unlock(&head(n)->lock);
}

void cr_node_unpoint(cr_node *n, const cr_tensor *t) {
    if (n && atomic_load_explicit(&head(n)->handle, memory_order_relaxed) == t) cr_node_point(n, NULL);
}

cr_tensor *cr_node_tensor(const cr_node *n) {
    if (!n) return cr_fail_null("node_tensor", "the node"), NULL;
    if (!atomic_load_explicit(&head(n)->handle, memory_order_relaxed)) return NULL;
    cr_spin_lock(&head(n)->lock);
    cr_tensor *t = cr_retain(atomic_load_explicit(&head(n)->handle, memory_order_relaxed));
    cr_spin_unlock(&head(n)->lock);
    return t;
}

/* Drops a reference to a tensor that its node points to, the last one under the node's lock: until it is gone, a
 * walk in another thread may add one. */
static bool unref_known(cr_tensor *t) {
    cr_node_head *h = head(t->node);
    for (int refs = atomic_load_explicit(&t->refs, memory_order_relaxed); refs > 1;)
        if (atomic_compare_exchange_weak_explicit(&t->refs, &refs, refs - 1, memory_order_release,
                                                  memory_order_relaxed))
            return false;
    cr_spin_lock(&h->lock);
    const bool last = cr_unref(&t->refs);
    if (last && atomic_load_explicit(&h->handle, memory_order_relaxed) == t)
        atomic_store_explicit(&h->handle, NULL, memory_order_relaxed);
    cr_spin_unlock(&h->lock);
    return last;
}

static void base_release(cr_base *b) {
    if (!b || !cr_unref(&b->refs)) return;
    cr_node_release(b->node);
    cr_small_give(b, sizeof *b);
}

void cr_counter_release(cr_counter *c) {
    if (c && cr_unref(&c->refs)) cr_small_give(c, sizeof *c);
}

bool cr_counter_begin(cr_tensor *t, unsigned version) {
    cr_counter *c = cr_small_take(sizeof *c);
    if (!c) return cr_no_memory("tensor"), false;
    atomic_init(&c->refs, 1);
    atomic_init(&c->version, version);
    cr_counter_release(t->counter);
    t->counter = c;
    return true;
}

static void wrapper_release(cr_wrapper *w) {
    if (!cr_unref(&w->refs)) return;
    cr_drop(w->value);
    cr_drop(w->tangent);
    cr_small_give(w, sizeof *w);
}

static void tensor_destroy(cr_tensor *t) {
    cr_storage_release(t->storage);
    if (cr_wrapped(t)) wrapper_release(t->wrapper);
    else cr_counter_release(t->counter);
    cr_node_release(t->node);
    cr_unhold(atomic_load_explicit(&t->grad, memory_order_relaxed));
    base_release(atomic_load_explicit(&t->base, memory_order_relaxed));
    if (cr_checking) cr_quarantine(t);
    else cr_small_give(t, sizeof *t);
}

static void bury(graveyard *d) {
    if (d->busy) return;
    d->busy = true;
    while (d->tensors || d->nodes) {
        cr_tensor *t = d->tensors;
        if (t) {
            d->tensors = t->scope_next;
            tensor_destroy(t);
        } else {
            cr_node *n = d->nodes;
            d->nodes = head(n)->next_dead;
            head(n)->free(n);
        }
    }
    d->busy = false;
}

void cr_node_release(cr_node *n) {
    if (!n || !cr_unref(&head(n)->refs)) return;
    graveyard *d = &dead;
    head(n)->next_dead = d->nodes;
    d->nodes = n;
    bury(d);
}

cr_tensor *cr_retain(const cr_tensor *t) {
    cr_tensor *m = (cr_tensor *)(uintptr_t)t;       /* const does not protect the count */
    if (!m || m == CR_NONE) return m;
    if (atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed) < 0)
        return cr_lacks_tensor("retain", "the tensor", m), NULL;
    return m;
}

static void refuse_drop(const cr_tensor *t, const char *op) {
    if (!cr_lacks_tensor(op, "the tensor", t))
        cr_fail(
            CR_RUNTIME, op,
            "the tensor is borrowed: it belongs to a parameter set, an optimizer, or the tensor whose gradient it is");
}

/* Refuses a handle that was released before, and references that objects hold. */
static inline __attribute__((always_inline)) void drop(const cr_tensor *given, const char *op, bool owned) {
    cr_tensor *t = (cr_tensor *)(uintptr_t)given;
    if (!t || t == CR_NONE) return;
    const int refs = atomic_load_explicit(&t->refs, memory_order_acquire);
    if (refs <= atomic_load_explicit(&t->held, memory_order_relaxed)) { refuse_drop(t, op); return; }
    if (owned) cr_unscope(t);
    if (!(t->flags & CR_FLAG_KNOWN ? unref_known(t)
                                   : refs == 1 || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1))
        return;
    if (!owned) cr_unscope(t);
    graveyard *d = &dead;
    t->scope_next = d->tensors;
    d->tensors = t;
    bury(d);
}

void cr_drop(const cr_tensor *t) { drop(t, "drop", false); }
void cr_release(const cr_tensor *t) { drop(t, "release", true); }

cr_tensor *cr_claim(cr_tensor *t) {
    if (t) atomic_fetch_add_explicit(&t->held, 1, memory_order_relaxed);
    return t;
}

cr_tensor *cr_disclaim(cr_tensor *t) {
    if (t) atomic_fetch_sub_explicit(&t->held, 1, memory_order_relaxed);
    return t;
}

cr_tensor *cr_hold(const cr_tensor *t) { return cr_claim(cr_retain(t)); }
void cr_unhold(const cr_tensor *t) { cr_drop(cr_disclaim((cr_tensor *)(uintptr_t)t)); }

/* ---- making handles */
/* A handle in the thread's scope, without shape and strides.  Sets single fields, because clearing the
 * whole struct costs more. */
static cr_tensor *handle_new(cr_storage *s, const cr_device *dev, cr_dtype dt, int ndim, int64_t numel) {
    cr_tensor *t = cr_small_take(sizeof *t);
    if (!t) {
        cr_storage_release(s);
        return cr_no_memory("tensor"), NULL;
    }
    atomic_init(&t->refs, 1);
    t->dtype = dt;
    t->ndim = ndim;
    t->contiguous = true;
    t->flags = 0;
    t->storage = s;
    t->dev = dev;
    t->offset = 0;
    t->numel = numel;
    t->node = NULL;
    t->counter = NULL;
    atomic_init(&t->grad, NULL);
    atomic_init(&t->base, NULL);
    atomic_init(&t->graph_version, 0);
    atomic_init(&t->held, 0);
    t->lock = (cr_spinlock){0};
    t->adding = 0;
    scope_put(scope, t);
    return t;
}

cr_tensor *cr_tensor_new(cr_storage *s, const cr_device *dev, const cr_meta *m) {
    int64_t numel;
    if (cr_shape_check("tensor", m->ndim, m->shape, m->dtype, &numel) != CR_OK) { cr_storage_release(s); return NULL; }
    cr_tensor *t = handle_new(s, dev, m->dtype, m->ndim, numel);
    if (!t) return NULL;
    memcpy(t->shape, m->shape, sizeof(int64_t) * (size_t)m->ndim);
    if (m->strided) {
        memcpy(t->strides, m->strides, sizeof(int64_t) * (size_t)m->ndim);
        t->offset = m->offset;
    } else {
        cr_strides_contiguous(m->ndim, m->shape, t->strides);
    }
    t->contiguous = !m->strided || cr_strides_are_contiguous(m->ndim, m->shape, m->strides);
    return t;
}

cr_tensor *cr_tensor_like(cr_storage *s, const cr_tensor *t, cr_dtype dt) {
    cr_tensor *y = handle_new(s, t->dev, dt, t->ndim, t->numel);
    if (!y) return NULL;
    for (int i = 0; i < t->ndim; i++) y->shape[i] = t->shape[i];
    cr_strides_contiguous(t->ndim, t->shape, y->strides);
    return y;
}

cr_tensor *cr_tensor_placed(cr_storage *s, const cr_device *dev, cr_dtype dt, int ndim, const int64_t *shape,
                            const int64_t *strides, int64_t offset, int64_t numel, bool contiguous) {
    cr_tensor *t = handle_new(s, dev, dt, ndim, numel);
    if (!t) return NULL;
    t->contiguous = contiguous;
    t->offset = offset;
    for (int i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->strides[i] = strides[i];
    }
    return t;
}

cr_tensor *cr_tensor_alias(const cr_tensor *t, const cr_meta *m) {
    cr_storage *s = t->storage ? cr_storage_retain(t->storage) : NULL;
    cr_tensor *y = m ? cr_tensor_new(s, t->dev, m)
                     : cr_tensor_placed(s, t->dev, t->dtype, t->ndim, t->shape, t->strides, t->offset, t->numel,
                                        t->contiguous);
    if (y && cr_wrapped(t)) {
        y->flags |= t->flags & (CR_FLAG_WRAPPED | CR_FLAG_REQUIRES_GRAD);
        y->wrapper = t->wrapper;
        atomic_fetch_add_explicit(&y->wrapper->refs, 1, memory_order_relaxed);
    } else if (y) {
        y->counter = cr_counter_retain(t->counter);
    }
    return y;
}

cr_tensor *cr_wrap(uint64_t level, const cr_tensor *value, const cr_tensor *tangent) {
    if (!value) return NULL;
    const int hidden = tangent ? 0 : 1;             /* axes */
    int64_t numel = 1;
    for (int i = hidden; i < value->ndim; i++) numel *= value->shape[i];
    cr_wrapper *w = cr_small_take(sizeof *w);
    cr_storage *s = value->storage ? cr_storage_retain(value->storage) : NULL;
    if (!w) {
        cr_storage_release(s);
        return cr_no_memory("tensor"), NULL;
    }
    cr_tensor *t = cr_tensor_placed(s, value->dev, value->dtype, value->ndim - hidden, value->shape + hidden,
                                    value->strides + hidden, value->offset, numel, false);
    if (!t) return cr_small_give(w, sizeof *w), NULL;
    atomic_init(&w->refs, 1);
    w->level = level;
    w->value = cr_retain(value);
    w->tangent = cr_retain(tangent);
    t->flags |= CR_FLAG_WRAPPED | ((value->flags | (tangent ? tangent->flags : 0)) & CR_FLAG_REQUIRES_GRAD);
    t->wrapper = w;
    return t;
}

bool cr_same_elements(const cr_tensor *a, const cr_tensor *b) {
    const size_t n = sizeof(int64_t) * (size_t)a->ndim;
    return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype && a->ndim == b->ndim &&
           !memcmp(a->shape, b->shape, n) && !memcmp(a->strides, b->strides, n);
}

/* ---- bases and views */

/* Made with the first view.  There is none for a leaf that requires a gradient: its views are never
 * written inside a graph, and threads share it.  There is none for a tensor whose elements overlap,
 * nor for a view without one, whose base is unknown. */
static cr_base *base_of(cr_tensor *t, bool *failed) {
    cr_base *b = atomic_load_explicit(&t->base, memory_order_acquire), *none = NULL;
    bool leaf = t->flags & CR_FLAG_REQUIRES_GRAD && head(t->node)->leaf;
    if (b || leaf || t->flags & CR_FLAG_VIEW || cr_shape_overlaps(t->ndim, t->shape, t->strides)) return b;
    b = cr_small_take(sizeof *b);
    if (!b) return *failed = true, NULL;
    atomic_init(&b->refs, 1);
    b->graph_version = 0;
    b->node = t->flags & CR_FLAG_REQUIRES_GRAD ? cr_node_retain(t->node) : NULL;
    b->meta = cr_meta_of(t);
    b->meta.strided = true;
    b->meta.offset = t->offset;
    memcpy(b->meta.strides, t->strides, sizeof t->strides);
    if (atomic_compare_exchange_strong(&t->base, &none, b)) return b;
    base_release(b);                                /* another thread was first */
    return none;
}

void cr_base_leave(cr_tensor *t) { base_release(atomic_exchange(&t->base, NULL)); }

bool cr_base_join(cr_tensor *view, const cr_tensor *x) {
    bool failed = false;
    cr_base *b = base_of((cr_tensor *)(uintptr_t)x, &failed);       /* const does not cover the base */
    if (failed) return cr_no_memory("tensor"), false;
    if (!b) return true;
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    atomic_store_explicit(&view->base, b, memory_order_relaxed);
    atomic_store_explicit(&view->graph_version, b->graph_version, memory_order_relaxed);
    return true;
}

/* ---- looking */
static bool real(const cr_tensor *t, const char *op) {
    if (cr_missing(op, "the tensor", t)) return false;
    if (t == CR_NONE) return cr_fail(CR_BAD_VALUE, op, "CR_NONE is not a tensor"), false;
    return true;
}

int cr_ndim(const cr_tensor *t) { return real(t, "ndim") ? t->ndim : -1; }
const int64_t *cr_shape(const cr_tensor *t) { return real(t, "shape") ? t->shape : NULL; }
const int64_t *cr_strides(const cr_tensor *t) { return real(t, "strides") ? t->strides : NULL; }
int64_t cr_storage_offset(const cr_tensor *t) { return real(t, "storage_offset") ? t->offset : -1; }
const void *cr_storage_id(const cr_tensor *t) { return real(t, "storage_id") ? t->storage : NULL; }
int64_t cr_storage_bytes(const cr_tensor *t) {
    return real(t, "storage_bytes") && t->storage ? (int64_t)t->storage->bytes : -1;
}
int64_t cr_numel(const cr_tensor *t) { return real(t, "numel") ? t->numel : -1; }
cr_dtype cr_dtype_of(const cr_tensor *t) { return real(t, "dtype_of") ? t->dtype : CR_DTYPES; }
const cr_device *cr_device_of(const cr_tensor *t) { return real(t, "device_of") ? t->dev : NULL; }
bool cr_is_contiguous(const cr_tensor *t) { return real(t, "is_contiguous") && t->contiguous; }
bool cr_is_none(const cr_tensor *t) { return t == CR_NONE; }

int64_t cr_size(const cr_tensor *t, int axis) {
    if (!real(t, "size")) return -1;
    if (!t->ndim) return cr_fail(CR_BAD_INDEX, "size", "axis %d of a 0-d tensor", axis), -1;
    int a = cr_axis("size", axis, t->ndim);
    return a < 0 ? -1 : t->shape[a];
}
