/* links.h - how tensors and the recorded graph hold each other: nodes, and families of views. */
#ifndef CR_LINKS_H
#define CR_LINKS_H

#include "os.h"
#include "array.h"

typedef struct cr_node_head {                       /* the first member of a node, grad/graph.h */
    atomic_int refs;
    void (*free)(cr_node *n);
    cr_node *next_dead;
    bool leaf;                                      /* stands for a tensor that was made, not computed */
    cr_spinlock lock;                               /* of handle, and of the node's hooks and what it saved */
    _Atomic(cr_tensor *) handle;                    /* weak: the leaf, or the result that retains its gradient; NULL once it is gone */
} cr_node_head;

/* What a tensor and the views of it share, so that in-place work on one reaches the graph of all (grad/rewrite.c). */
typedef struct cr_family {
    atomic_int refs;
    unsigned rewrites;                              /* in-place writes that the graph recorded */
    cr_node *node;                                  /* owned: how the tensor is computed now; NULL outside any graph */
    cr_meta whole;                                  /* how the tensor itself, no view, lies in the storage */
} cr_family;

#endif
