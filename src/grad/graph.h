/* graph.h - the recorded graph.  A node is one use of an op; its edges lead to the nodes that made its inputs.
 *
 * Nodes never own tensors' handles: what the gradient reads is kept as storage plus layout, so that a graph has no cycles and
 * dropping a result frees everything only it kept alive.  A leaf that requires a gradient has a node of its own, without op.
 *
 * Threads share nodes: a leaf's always, others where their graphs meet.  What a walk knows of a node is therefore the walk's (backward.c);
 * of the node itself only the weak handle, the hooks and what was saved ever change, under head.lock. */
#ifndef CR_GRAPH_H
#define CR_GRAPH_H

#include "../ops/op.h"

/* What a gradient may look at: always dtype, shape and device; the data too where storage is set. */
typedef struct cr_kept {
    const cr_device *dev;
    cr_storage *storage;                            /* owned; NULL: not saved, or freed */
    unsigned version;                               /* of the storage when it was saved */
    cr_dtype dtype; int ndim;
    bool absent, contiguous, weak;                  /* absent: the input was CR_NONE; weak: a number beside tensors */
    int64_t offset, numel, *dims;                          /* ndim sizes, ndim strides; inside the node's own allocation */
} cr_kept;

typedef struct cr_hook_entry {                      /* in a list of rising ids */
    int64_t id;
    cr_hook hook;
    void *ctx;
    void (*done)(void *ctx);
    atomic_int refs;                                /* the list's, and one of each walk that runs it */
    struct cr_hook_entry *next;
} cr_hook_entry;
void cr_hook_release(cr_hook_entry *h);
cr_hook_entry *cr_hook_after(cr_node *n, int64_t id);         /* the hook that comes after the one numbered id: a reference */

struct cr_node {
    cr_node_head head;
    uint64_t seq;                                   /* grows with creation: inputs have smaller numbers than their results */
    const cr_op *op;                                /* NULL: a leaf */
    uint32_t bytes;                                 /* of this memory */
    int n;
    bool saved, freed;                              /* saved: there was something to free */
    _Atomic(cr_hook_entry *) hooks;
    cr_node **edges;                                /* n entries, owned; NULL: no gradient is wanted there */
    cr_kept out, *in, *aux;                         /* in: n entries, aux: op->n_aux */
    void *params;
    char *place;                                    /* where it was made, inside this memory; NULL outside anomaly mode */
};

cr_node *cr_leaf_node(cr_tensor *t);                /* the node of a tensor that requires a gradient; made on first use for a leaf */
/* Is all that n saved still there, and as it was?  Under head.lock, like the next. */
cr_status cr_node_check_saved(const cr_node *n);
/* A handle for what the node kept, with data where it was saved.  take: the node gives it up.  `as`: the node the handle belongs to
 * under create_graph, else NULL. */
cr_tensor *cr_kept_open(cr_kept *k, bool take, cr_node *as);
void       cr_grad_put(cr_tensor *t, cr_tensor *g); /* t->grad = g, which it takes; NULL: none */

/* Records a node for out: params are copied; gradients need inputs in[i] where needs[i]. */
cr_node *cr_node_new(const cr_call *c, const cr_tensor *const *saved, const cr_tensor *out, unsigned out_version_ahead);
void     cr_node_attach(cr_node *n, cr_tensor *out);          /* out now is n's result */
void     cr_node_keep(cr_node *n, int i, const cr_tensor *t);  /* saves the data of input i, which is t, beside what its op saves */
/* What a user's function returned: a handle in a scope stays there, one in no scope was the function's own, given up to us. */
cr_tensor *cr_adopt(cr_tensor *t);
cr_tensor *cr_tensor_again(const cr_tensor *t);     /* another handle, at t's place in the graph */
void     cr_grad_start(void);                       /* fills the seam in ops/apply.c */

/* rewrite.c: x was written in place, recorded: its family's node, and that of a handle which is behind, from it. */
cr_status cr_rewrite(cr_tensor *x);
cr_status cr_follow(cr_tensor *t);

/* Whose inputs are n's, and how many: a function's result has those of the function, without what that saved. */
const cr_node *cr_function_behind(const cr_node *n, int *inputs);
bool cr_is_function(const cr_node *n);

/* Called by the op of activation checkpointing during a walk: y's graph takes over the cotangent. */
cr_status cr_walk_graft(const cr_tensor *y, const cr_tensor *cotangent);

/* The walk's own cotangents of the n results of a function, NULL where none arrived yet, until they are freed. */
cr_tensor **cr_walk_parts(const void *function, int n);       /* NULL: no memory */
void        cr_walk_parts_free(const void *function);

const cr_node *cr_walk_node(void);                  /* whose gradient this thread computes; NULL: no walk */
cr_status cr_check_finite(const char *op, const char *where, const cr_call *c, const cr_tensor *t);      /* anomaly mode */

#endif
