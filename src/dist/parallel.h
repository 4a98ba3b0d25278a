/* parallel.h - what the files of data parallel training share.
 *
 * Flat memory, on the device and in the dtype of the parameters, holds one element for each of theirs, parameters in
 * the order in which their gradients come.  It is cut into buckets, and each bucket into one shard for each rank.  With
 * `shard` the cuts are those of units: blocks of 64 Ki elements of a parameter, counted from its
 * start, or the whole parameter where its update needs all of it (Muon). */
#ifndef CR_PARALLEL_H
#define CR_PARALLEL_H

#include "../optim/optim.h"
#include "../core/tree.h"
#include "world.h"

typedef struct cr_flat_range { int64_t at, n; bool arrived; } cr_flat_range; /* a parameter's, in elements */
typedef struct cr_unit { int64_t param, from, n; int owner; } cr_unit;      /* [from, from + n) of a parameter */
/* Weights that come from another rank: from flat memory into a parameter. */
typedef struct cr_landing {
    cr_unit unit;
    cr_array to, from;                              /* to holds its storage */
    bool last;                                      /* of its storage, in the order of the gathers */
} cr_landing;
typedef struct cr_bucket {
    int64_t at, n, missing;                         /* missing: elements without a gradient yet, in this step */
    bool posted;
    int64_t visited;                                /* nodes of the backward pass before it was posted; -1: behind it */
    cr_exchange e;
    cr_job job;
    /* shard: the gather of new weights */
    cr_job gather;
    cr_array weights;                               /* of all shards, in flat memory */
    cr_landing *landing;
    int64_t landings;
    double seconds;
    atomic_int *under_way;                          /* of the cr_parallel */
} cr_bucket;

struct cr_parallel {
    cr_world *w;
    cr_optim *opt;
    cr_parallel_options o;
    const cr_device *dev;
    cr_dtype dtype;                                 /* of parameters and flat memory: f32 or bf16 */
    int64_t width;                                  /* of an element: bytes */
    cr_flat_range *ranges;                          /* of the optimizer's parameters, in its order */
    int64_t *order;                                 /* the parameters as they lie in flat memory */
    int64_t n_order;                                /* known of it: in the first pass, those that have come */
    bool laid_out;                                  /* the order is final */
    int64_t total;
    cr_bucket *buckets;
    int64_t *cuts;                                  /* of each bucket: size + 1 borders of shards */
    int64_t n_buckets, next_bucket;                 /* next_bucket: the first that was not posted in this step */
    cr_tensor *buffer[CR_TREE_DEPTH];               /* gradient sums of this rank's nodes: (total), as the next held */
    cr_tensor *send, *receive, *arrived;            /* room of the exchanges; arrived: with half */
    bool used[CR_TREE_DEPTH];
    cr_tree tree;                                   /* this rank's microbatches so far; values: numbers of buffers */

    int rank, size;                                 /* of the world that the layout is for */
    bool again;                                     /* the step that failed is done again (elastic.c) */
    int64_t first, last, at, base;                  /* microbatches of this rank: [first, last); base: number in the
                                                     * run of the step's microbatch 0 */
    bool begun, open, over;                         /* a step; a microbatch waits for its backward pass; no more */
    uint64_t seed, counter;                         /* of the caller's generator, between steps */
    cr_generator *g;
    int into, merges;                               /* of the backward pass that runs */
    int64_t merge[CR_TREE_DEPTH];
    cr_program *same;                               /* g -> g: writes products into flat memory */
    double *mine, *all;                             /* base, losses, and which parameters have a gradient */
    cr_parallel_stats stats;

    /* shard.c */
    cr_unit *units;                                 /* in the order of flat memory */
    int64_t n_units;
    cr_optim *pieces;                               /* moments and steps of this rank's pieces; NULL: not made yet */
    cr_unit *piece;                                 /* of each slot of it */
    cr_params *state;                               /* moments that were there before the pieces */
    double *sums, *all_sums;                        /* of blocks: this rank's, all */
    int64_t most_blocks;                            /* of any rank */
    cr_landing *landings;                           /* of all buckets, in the order of flat memory; NULL: none */
    int64_t n_landings;
    bool gathering;                                 /* gathers were posted, and nothing has waited for all of them */
    atomic_int under_way;                           /* gathers that are not over */
    double waited;                                  /* by readers of weights, when the step began */
    /* elastic: moments of this rank's pieces and of its left neighbour's, one after the other: after the last step,
     * and after the step that runs; weights of this rank's pieces before it */
    cr_tensor *own[2], *left[2], *weights;
    int64_t most_packed;                            /* bytes of any rank's moments */
    bool changed;                                   /* the pieces' weights, by a step that not all have finished */
};

/* parallel.c */
void cr_parallel_share(cr_parallel *p);             /* this rank's microbatches */
void cr_parallel_drain(cr_parallel *p);             /* waits for buckets of a step that was left in the middle */

/* norm.c: sums of the squares of blocks of CR_NORM_BLOCK elements, whose order does not depend on ranks or threads */
double    cr_block_sum(const float *g, int64_t n);  /* of one block on the cpu */
static inline int64_t cr_blocks_of(int64_t n) { return (n + CR_NORM_BLOCK - 1) / CR_NORM_BLOCK; }
/* sums: of the blocks of each range of flat memory, one range after the other */
cr_status cr_range_sums(const cr_tensor *flat, const cr_flat_range *range, int64_t count, double *sums);
cr_status cr_parallel_norm(const cr_parallel *p, const cr_tensor *flat, double *norm);     /* of what has arrived */

/* layout.c.  Order, buckets and cuts; false: no memory, or a bucket that is too large, with a message. */
bool cr_layout_make(cr_parallel *p);
cr_tensor *cr_flat_new(const cr_device *dev, cr_dtype dt, int64_t n);      /* for cr_drop; NULL and a message */
void cr_layout_free(cr_parallel *p);
bool cr_layout_whole(const cr_parallel *p, int64_t param);         /* is the parameter one unit? */

/* shard.c: the optimizer's state by rank (ZeRO stage 1: Rajbhandari et al. 2020, arXiv 1910.02054) */
cr_status cr_shard_begin(cr_parallel *p);           /* takes the optimizer's moments, before the layout is final */
cr_status cr_shard_norm(cr_parallel *p, const cr_tensor *flat, double *norm);
/* all: gradients of this rank's pieces; then weights, which arrive in it.  Without elastic they go on to the
 * parameters, whose readers wait for them; else the commit puts them there. */
cr_status cr_shard_update(cr_parallel *p, const cr_tensor *all, double scale);
cr_status cr_shard_settle(cr_parallel *p, const char *name);       /* waits for the gathers of the last update */
cr_status cr_shard_commit(cr_parallel *p, const cr_tensor *all);
cr_status cr_shard_undo(cr_parallel *p);            /* elastic, instead of the commit: the weights before */
/* elastic: all moments, after the last step; from[r]: the rank that has those of rank r of the layout; NULL and a
 * message */
cr_params *cr_shard_collect(cr_parallel *p, const int *from);
void      cr_shard_forget(cr_parallel *p, bool moments);           /* pieces; moments: the optimizer gets others */
void      cr_shard_free(cr_parallel *p);

#endif
