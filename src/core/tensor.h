/* tensor.h - the tensor handle: an array that owns its storage, its place in the graph, and its scope. */
#ifndef CR_TENSOR_H
#define CR_TENSOR_H

#include <limits.h>
#include "links.h"

/* ---- scopes: handles of a thread that are released together */
typedef struct cr_scope {
    struct cr_scope *outer;
    cr_tensor *first;                               /* the list of its handles */
    bool fixed;                                     /* begun by cr_scope_enter: cr_scope_end refuses it */
} cr_scope;

enum { CR_FLAG_REQUIRES_GRAD = 1, CR_FLAG_WEAK = 2, CR_FLAG_VIEW = 4,
       CR_FLAG_APART = 16,                          /* a view made with the gradient mode off: in no graph */
       CR_FLAG_KNOWN = 8,                           /* its node points to it: the last reference is dropped under the
                                                     * node's lock */
       CR_FLAG_WRAPPED = 32 };                      /* stands for other tensors inside a transform: see cr_wrapper */

/* A handle inside vmap or forward mode stands for other tensors (ops/transform.c).  It has the shape that the function
 * sees and the storage of the value.  Its strides are those of the first sample. */
typedef struct cr_wrapper {
    atomic_int refs;
    uint64_t level;                                 /* of the transform: inner ones have larger numbers */
    cr_tensor *value;                               /* owned.  A batch: its axis 0 counts the samples */
    cr_tensor *tangent;                             /* owned, of the value's shape; NULL: the value is a batch */
} cr_wrapper;

struct cr_tensor {
    /* kernels receive t->array; t->shape is a field of it */
    union { cr_array array; struct { CR_ARRAY_FIELDS }; };
    atomic_int refs;
    uint16_t flags;
    cr_node *node;                                  /* the op that computed it, or its leaf node; NULL: outside any
                                                     * graph */
    _Atomic(cr_tensor *) grad;                      /* owned; changes under lock */
    union {
        cr_counter *counter;                        /* NULL: the version of the storage counts */
        cr_wrapper *wrapper;                        /* where CR_FLAG_WRAPPED */
    };
    _Atomic(cr_base *) base;                        /* shared by a base and its views; NULL: the tensor has no views */
    atomic_uint graph_version;                      /* the graph version of the base for which `node` is current */
    atomic_int held;                                /* references of objects that lend the tensor (cr_hold); part of
                                                     * refs */
    cr_spinlock lock;                               /* protects grad, and node where the tensor has a base */
    volatile int adding;                            /* lock of the thread that adds to grad, for long */
    cr_scope *scope;                                /* owns the handle; NULL: the caller does */
    cr_tensor *scope_prev, *scope_next;             /* links of the scope's list */
};
enum { CR_RELEASED = INT_MIN / 2 };                 /* refs of a tensor in quarantine: stays negative under any use */
static inline bool cr_released(const cr_tensor *t) { return atomic_load_explicit(&t->refs, memory_order_relaxed) < 0; }
static inline bool cr_missing(const char *op, const char *what, const cr_tensor *t) {
    return (!t || cr_released(t)) && cr_lacks_tensor(op, what, t);
}
void       cr_quarantine(cr_tensor *t);             /* check.c: keeps the memory of a released handle for a while */
cr_tensor *cr_claim(cr_tensor *t);                  /* turns one of the caller's references into a held one; NULL is
                                                     * allowed */
cr_tensor *cr_disclaim(cr_tensor *t);               /* and back */
/* New handles; all of them belong to the thread's scope. */
/* takes the caller's reference to s, also on failure; s NULL: meta */
cr_tensor *cr_tensor_new(cr_storage *s, const cr_device *dev, const cr_meta *m);
/* contiguous, of t's shape; takes s */
cr_tensor *cr_tensor_like(cr_storage *s, const cr_tensor *t, cr_dtype dt);
cr_tensor *cr_tensor_placed(cr_storage *s, const cr_device *dev, cr_dtype dt, int ndim, const int64_t *shape,
                            const int64_t *strides, int64_t offset, int64_t numel,
                            bool contiguous); /* any layout, unchecked; takes s */
/* the same storage, outside any graph; m NULL: the same layout */
cr_tensor *cr_tensor_alias(const cr_tensor *t, const cr_meta *m);
static inline cr_meta cr_meta_of(const cr_tensor *t) { /* dtype and shape, contiguous */
    cr_meta m;                                      /* small ops feel each store: what is not read is not cleared */
    m.dtype = t->dtype, m.ndim = t->ndim, m.offset = 0, m.strided = false;
    for (int i = 0; i < t->ndim; i++) m.shape[i] = t->shape[i];
    return m;
}
/* A new version counter for a new handle.  False: out of memory. */
bool       cr_counter_begin(cr_tensor *t, unsigned version);
void       cr_counter_release(cr_counter *c);       /* NULL is allowed */
static inline cr_counter *cr_counter_retain(cr_counter *c) {
    if (c) atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}
static inline bool cr_wrapped(const cr_tensor *t) { return t->flags & CR_FLAG_WRAPPED; }
/* a new handle that stands for value, a batch, or for value and its tangent; NULL is passed on */
cr_tensor *cr_wrap(uint64_t level, const cr_tensor *value, const cr_tensor *tangent);
static inline unsigned cr_version_of(const cr_storage *s, const cr_counter *c) {
    return c ? atomic_load(&c->version) : atomic_load(&s->version);
}
static inline void cr_count_write(const cr_tensor *t) {        /* t was written in place */
    if (t->counter) {
        atomic_fetch_add(&t->counter->version, 1);
        atomic_fetch_add(&t->storage->aside, 1);
    } else {
        atomic_fetch_add(&t->storage->version, 1);
    }
}
/* the same memory in the same order */
bool       cr_same_elements(const cr_tensor *a, const cr_tensor *b);
static inline void *cr_tensor_data(const cr_tensor *t) { return cr_array_data(&t->array); }
static inline cr_node *cr_node_retain(cr_node *n) { /* NULL is allowed */
    if (n) atomic_fetch_add_explicit(&((cr_node_head *)(void *)n)->refs, 1, memory_order_relaxed);
    return n;
}
void       cr_node_point(cr_node *n, cr_tensor *t); /* n is the node of t: sets its weak pointer; t NULL: clears it */
void       cr_node_unpoint(cr_node *n, const cr_tensor *t);    /* clears the pointer if it is t; n may be NULL */
/* Puts a new view of x on the base of x, which is made with the first view; no effect where x can have
 * none.  False: out of memory. */
bool       cr_base_join(cr_tensor *view, const cr_tensor *x);
void       cr_base_leave(cr_tensor *t);

void       cr_scope_enter(cr_scope *s);             /* as cr_scope_begin, in the caller's memory */
void       cr_scope_leave(cr_scope *s);

#endif
