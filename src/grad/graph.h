/* graph.h - the recorded graph.  A node is one use of an op; its edges lead to the nodes that made
 * its inputs.
 *
 * A node never owns tensor handles.  It saves the tensors that its gradient reads as storage plus
 * layout, so a graph has no cycles, and dropping a result frees everything that only the result
 * kept alive.  A leaf that requires a gradient has a node without an op.
 *
 * Threads share nodes: the node of a leaf always, others where their graphs meet.  Therefore each
 * walk stores its own data about nodes in its own tables (backward.c).  In the node only the weak
 * handle, the hooks and the saved tensors change, under head.lock. */
#ifndef CR_GRAPH_H
#define CR_GRAPH_H

#include "../ops/op.h"

/* What a hook of saved tensors made of one: cr_saved_hooks. */
typedef struct cr_packed {
    atomic_int refs;
    cr_saved_hooks hooks;
    void *value;
} cr_packed;

/* A saved tensor: always dtype, shape and device; the data too where storage is set, or packed. */
typedef struct cr_saved_tensor {
    const cr_device *dev;
    cr_storage *storage;                            /* owned; NULL: not saved, freed, or packed */
    union {
        cr_counter *counter;                        /* owned, as the handle had it, while storage is set */
        cr_packed *packed;                          /* owned, where CR_SAVED_PACKED */
    };
    int64_t offset, numel;
    unsigned version;                               /* when it was saved */
    unsigned leaf;                                  /* 1 + moves of the leaf that it is, whose memory in backward
                                                     * counts; 0: another tensor */
    uint32_t dims;                                  /* bytes from here to ndim sizes and ndim strides, in the node's
                                                     * own allocation */
    uint8_t dtype, ndim, flags;
} cr_saved_tensor;
/* flags; absent: the input was CR_NONE; weak: a plain number */
enum { CR_SAVED_ABSENT = 1, CR_SAVED_WEAK = CR_FLAG_WEAK, CR_SAVED_CONTIGUOUS = 4, CR_SAVED_PACKED = 8 };
_Static_assert(sizeof(cr_saved_tensor) <= 56, "graphs consist of them");

static inline const int64_t *cr_saved_shape(const cr_saved_tensor *k) { /* the strides follow */
    return (const int64_t *)(const void *)((const char *)k + k->dims);
}

typedef struct cr_hook_entry {                      /* in a list of rising ids */
    int64_t id;
    cr_hook hook;
    bool late;                                      /* called with the leaf, behind the addition to its gradient */
    void *ctx;
    void (*done)(void *ctx);
    atomic_int refs;                                /* one of the list, and one of each walk that runs the hook */
    struct cr_hook_entry *next;
} cr_hook_entry;
void cr_hook_release(cr_hook_entry *h);
/* the first hook of this kind with a larger id: a reference */
cr_hook_entry *cr_hook_after(cr_node *n, int64_t id, bool late);

struct cr_node {
    cr_node_head head;
    uint64_t seq;                                   /* grows with creation: inputs have smaller numbers than their
                                                     * results */
    const cr_op *op;                                /* NULL: a leaf */
    const char *name;                               /* of the call whose result this is, where it is not the op's; or
                                                     * NULL */
    uint32_t bytes;                                 /* of the allocation */
    int n;
    _Atomic(cr_hook_entry *) hooks;
    cr_node **edges;                                /* n entries, owned; NULL: no gradient is wanted there */
    cr_saved_tensor out, *in, *aux;                 /* in: n entries, aux: op->n_aux */
    union {
        void *params;
        unsigned moves;                             /* of a leaf: how often it was given other memory (cr_with_data) */
    };
    char *source;                                   /* the user's line that made it, inside the allocation; NULL
                                                     * outside anomaly mode */
};

const char *cr_node_op(const cr_node *n);           /* its name, or its op's; "": a leaf */
cr_node *cr_leaf_node(cr_tensor *t);                /* the node of a tensor that requires a gradient; made on first
                                                     * use for a leaf */
/* Fails where a saved tensor was freed or written since.  Under head.lock, as is the next
 * function. */
cr_status cr_node_check_saved(const cr_node *n);
/* A handle of a saved tensor, with data where it was saved.  take: ownership moves from the node to
 * the handle.  `as`: the node of the handle under create_graph, else NULL. */
cr_tensor *cr_saved_unpack(cr_saved_tensor *k, bool take, cr_node *as);
/* Its packed form, NULL where it has none: a reference.  Under head.lock. */
cr_packed *cr_saved_packed(cr_saved_tensor *k, bool take);
void       cr_packed_release(cr_packed *p);         /* NULL is allowed */
/* The handle that the hook makes of it, instead of `like`, which has no data.  NULL: failed. */
cr_tensor *cr_packed_open(cr_packed *p, const cr_tensor *like);
static inline bool cr_saved_has_data(const cr_saved_tensor *k) { return k->storage || k->flags & CR_SAVED_PACKED; }
void       cr_grad_put(cr_tensor *t, cr_tensor *g); /* t->grad = g, and takes the reference; NULL: none */
/* cr_grad and cr_grad_retain where a recording need not know of it */
cr_tensor *cr_grad_hold(const cr_tensor *t);
static inline cr_tensor *cr_grad_now(const cr_tensor *t) {
    cr_tensor *g = atomic_load_explicit(&t->grad, memory_order_acquire);
    return g ? g : (cr_tensor *)(uintptr_t)CR_NONE;
}

/* Records a node for out: params are copied; gradients need inputs in[i] where needs[i]. */
cr_node *cr_node_new(const cr_call *c, const cr_tensor *const *saved, const cr_tensor *out, unsigned out_version_ahead);
bool     cr_node_points_to(const cr_node *n, const cr_tensor *t);      /* the leaf, or a result that retains */
void     cr_node_attach(cr_node *n, cr_tensor *out);          /* n becomes the node of out */
void     cr_node_move(const cr_tensor *from, cr_tensor *to);  /* to takes the place of from in the graph */
/* saves the data of input i, which is t, in addition to what the op saves */
cr_status cr_node_save(cr_node *n, int i, const cr_tensor *t);
/* For a handle that a user's function returned.  A handle in a scope stays there; a handle in no
 * scope is owned by the caller, so it is moved into the scope of the thread. */
cr_tensor *cr_adopt(cr_tensor *t);
cr_tensor *cr_new_handle(const cr_tensor *t);     /* a new handle with the node of t */
void     cr_grad_start(void);                       /* fills the seam in ops/apply.c */

/* rewrite.c.  cr_base_update: x was written in place and has a new node: updates the node of its base.
 * cr_sync_from_base: updates the node of a stale handle from the base. */
cr_status cr_base_update(cr_tensor *x);
cr_status cr_sync_from_base(cr_tensor *t);

/* The node that holds n's inputs, and their number.  For a result of a function that is the
 * function, without its saved tensors. */
const cr_node *cr_function_behind(const cr_node *n, int *inputs);
bool cr_is_function(const cr_node *n);

/* The leaves below n nodes, in a search that stops at `stops`: retained tensors, owned list.  whole: no node has been
 * freed by a backward pass, and some leaf or stop was found (backward.c). */
cr_status cr_graph_leaves(int n, cr_node *const *roots, int n_stops, cr_node *const *stops, int *n_leaves,
                          cr_tensor ***leaves, bool *whole);

/* Called by the op of activation checkpointing during a walk: the walk continues with the cotangent
 * in y's graph. */
cr_status cr_walk_through(const cr_tensor *y, const cr_tensor *cotangent);
bool      cr_walk_frees(void);                      /* does the walk free what nodes saved? */

/* The nodes with seq < since that n roots depend on, and that younger ones lead to: borrowed, in an owned list. */
cr_status cr_graph_older(int n, cr_node *const *roots, uint64_t since, int *n_found, cr_node ***found);
/* A handle without data on the result of n. */
cr_tensor *cr_node_handle(cr_node *n);

/* checkpoint.c: remembers which tensors of graphs the first run of a checkpoint's function reads. */
void cr_checkpoint_note(int n, const cr_tensor *const *in);

/* cr_gradients, where the first n_ends of `in` count as leaves: what they were made of is not looked at. */
cr_status cr_gradients_between(int n_out, const cr_tensor *const *out, const cr_tensor *const *grad_outputs, int n_in,
                               const cr_tensor *const *in, int n_ends, cr_tensor **grads,
                               const cr_backward_options *o);

bool cr_late_hooks(void);                           /* does any leaf of the process have a late hook? */

/* The cotangents that the walk has accumulated for the n results of a function, NULL where there is
 * none yet. */
cr_tensor **cr_walk_cotangents(const void *function, int n);       /* NULL: no memory */
void        cr_walk_cotangents_free(const void *function);

const cr_node *cr_walk_node(void);                  /* the node whose gradient this thread computes; NULL: no walk */
/* anomaly mode */
cr_status cr_check_finite(const char *op, const char *where, const cr_call *c, const cr_tensor *t);

#endif
