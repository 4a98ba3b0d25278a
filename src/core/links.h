/* links.h - how tensors and the recorded graph hold each other: nodes, and the bases of views. */
#ifndef CR_LINKS_H
#define CR_LINKS_H

#include "os.h"
#include "array.h"

typedef struct cr_node_head {                       /* the first member of a node, grad/graph.h */
    atomic_int refs;
    void (*free)(cr_node *n);
    cr_node *next_dead;
    bool leaf;                                      /* the node of a tensor that no op computed */
    bool saved, freed, packs;                       /* saved: data was saved; freed: a backward pass has released it;
                                                     * packs: a hook has packed some */
    cr_spinlock lock;                               /* protects handle, freed, the node's hooks and its
                                                     * saved tensors */
    _Atomic(cr_tensor *) handle;                    /* weak: the leaf, or the result that retains its gradient; NULL:
                                                     * released */
} cr_node_head;

/* A version counter of its own: that of x.data, and of x after x.data = y.  Views share it. */
typedef struct cr_counter { atomic_int refs; atomic_uint version; } cr_counter;

/* A base: a tensor that is not a view, shared with all views of it.  A recorded in-place write to one
 * of them changes the node of the base, and the others update their nodes (grad/rewrite.c). */
typedef struct cr_base {
    atomic_int refs;
    unsigned graph_version;                         /* counts recorded in-place writes */
    cr_node *node;                                  /* owned: of the base, now; NULL outside any graph */
    cr_meta meta;                                   /* layout of the base in the storage */
} cr_base;

#endif
