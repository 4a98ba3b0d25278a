/* links.h - the links between tensors and the recorded graph: nodes, and what a base shares with its views. */
#ifndef CR_LINKS_H
#define CR_LINKS_H

#include "os.h"
#include "array.h"

typedef struct cr_node_head {                       /* the first member of a node, grad/graph.h */
    atomic_int refs;
    void (*free)(cr_node *n);
    cr_node *next_dead;
    bool leaf;                                      /* the node of a tensor that no op computed */
    cr_spinlock lock;                               /* protects handle, the node's hooks and its saved tensors */
    _Atomic(cr_tensor *) handle;                    /* weak: the leaf, or the result that retains its gradient; NULL: released */
} cr_node_head;

/* Shared by a base tensor and all its views, so that an in-place write to one reaches the graph of all (grad/rewrite.c). */
typedef struct cr_family {
    atomic_int refs;
    unsigned rewrites;                              /* recorded in-place writes, the version of `node` */
    cr_node *node;                                  /* owned: computes the base now; NULL outside any graph */
    cr_meta whole;                                  /* the layout of the base in the storage */
} cr_family;

#endif
