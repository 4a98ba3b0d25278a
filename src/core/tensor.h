/* tensor.h - the handle: a view that owns its storage, its place in the graph, its owner. */
#ifndef CR_TENSOR_H
#define CR_TENSOR_H

#include <limits.h>
#include "links.h"

/* ---- scopes: handles of a thread that are released together */
typedef struct cr_scope { struct cr_scope *outer; cr_tensor *first; bool fixed; } cr_scope;     /* first: of its handles, in a list; fixed: cr_scope_end is not for it */

enum { CR_FLAG_REQUIRES_GRAD = 1, CR_FLAG_WEAK = 2, CR_FLAG_VIEW = 4,
       CR_FLAG_KNOWN = 8 };                           /* its node points to it: the last reference is given up under the node's lock */

struct cr_tensor {
    union { cr_array array; struct { CR_ARRAY_FIELDS }; };        /* t->array is what kernels see; t->shape and the like are its fields */
    atomic_int refs;
    uint16_t flags;
    cr_node *node;                                  /* how it was computed, or its leaf node; NULL: outside any graph */
    _Atomic(cr_tensor *) grad;                      /* owned; changes under lock */
    _Atomic(cr_base *) base;                        /* set in views, and in a tensor once it has a view; NULL: in-place writes concern no other handle */
    atomic_uint graph_version;                      /* of the base when this handle's node was updated */
    atomic_int held;                                /* of refs: those of objects that lend the tensor (cr_hold) */
    cr_spinlock lock;                               /* of grad, and of node where the handle takes it from its base */
    volatile int adding;                            /* held by the thread that adds to grad, which may take long */
    cr_scope *scope;                                /* who owns the handle; NULL: a caller */
    cr_tensor *scope_prev, *scope_next;             /* the scope's list */
};
enum { CR_RELEASED = INT_MIN / 2 };                 /* refs of a tensor in quarantine: whatever is added or taken, it stays below 0 */
static inline bool cr_released(const cr_tensor *t) { return atomic_load_explicit(&t->refs, memory_order_relaxed) < 0; }
static inline bool cr_missing(const char *op, const char *what, const cr_tensor *t) { return (!t || cr_released(t)) && cr_lacks_tensor(op, what, t); }
void       cr_quarantine(cr_tensor *t);             /* check.c: in place of giving its memory back */
cr_tensor *cr_claim(cr_tensor *t);                  /* one of the caller's references becomes one that is held; NULL is fine */
cr_tensor *cr_disclaim(cr_tensor *t);               /* and back */
/* All of these put the new handle into the thread's scope. */
cr_tensor *cr_tensor_new(cr_storage *s, const cr_device *dev, const cr_meta *m);   /* takes the caller's reference to s, also on failure; s NULL: meta */
cr_tensor *cr_tensor_like(cr_storage *s, const cr_tensor *t, cr_dtype dt);         /* contiguous, of t's shape; takes s as cr_tensor_new does */
cr_tensor *cr_tensor_placed(cr_storage *s, const cr_device *dev, cr_dtype dt, int ndim, const int64_t *shape, const int64_t *strides,
                            int64_t offset, int64_t numel, bool contiguous);      /* of values that were a tensor's before; takes s */
cr_tensor *cr_tensor_alias(const cr_tensor *t, const cr_meta *m);                  /* same storage; no graph; m NULL: same shape */
cr_meta    cr_meta_of(const cr_tensor *t);           /* dtype and shape, contiguous */
bool       cr_same_elements(const cr_tensor *a, const cr_tensor *b);                /* the very same, in the same order */
static inline void *cr_tensor_data(const cr_tensor *t) { return cr_array_data(&t->array); }
static inline cr_node *cr_node_retain(cr_node *n) {  /* NULL is fine */
    if (n) atomic_fetch_add_explicit(&((cr_node_head *)(void *)n)->refs, 1, memory_order_relaxed);
    return n;
}
void       cr_node_point(cr_node *n, cr_tensor *t);  /* n points to t, whose node it is; t NULL: to nothing */
void       cr_node_unpoint(cr_node *n, const cr_tensor *t);    /* no longer to t, if it does; n may be NULL */
/* Puts a new view of x on the base of x, which is made with the first view; no effect where x can have none.
 * False: out of memory. */
bool       cr_base_join(cr_tensor *view, const cr_tensor *x);
void       cr_base_leave(cr_tensor *t);

void       cr_scope_enter(cr_scope *s);             /* cr_scope_begin and cr_scope_end, in memory of the caller's */
void       cr_scope_leave(cr_scope *s);
cr_tensor *cr_unscope(cr_tensor *t);                /* takes a handle out of every scope: the caller owns it; NULL is fine */

#endif
