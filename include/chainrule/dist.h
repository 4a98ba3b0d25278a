/* dist.h - training on many processes: a part of chainrule.h. */
#ifndef CHAINRULE_H
#error "include <chainrule.h>, which includes this part"
#endif
#ifndef CHAINRULE_DIST_H
#define CHAINRULE_DIST_H

/* ---- the processes of a launcher (mpirun, srun); the page is docs/scaling.md */
typedef struct cr_world cr_world;
typedef struct cr_world_options {
    const char *library;    /* path of the MPI library; NULL: CHAINRULE_MPI, else the launcher's */
    bool alone;             /* a world of 1, whatever launched the process */
    double patience;        /* seconds: a rank that is silent for longer counts as lost, and calls
                               that wait for it fail; 0: CHAINRULE_PATIENCE, else 8 */
} cr_world_options;
cr_world   *cr_world_open(const cr_world_options *o);
                            /* o NULL: defaults; without a launcher: a world of 1, which needs no
                               MPI; one world of MPI at a time in a process */
void        cr_world_close(cr_world *w);        /* every rank calls it; waits for all */
void        cr_world_abort(cr_world *w, int code);
                            /* after a failure: ends all ranks, this process too; a world of 1:
                               only closes */
int         cr_world_rank(const cr_world *w);   /* -1: failure */
int         cr_world_size(const cr_world *w);
int         cr_world_local(const cr_world *w);  /* rank among the processes of this host */
const char *cr_world_host(const cr_world *w);   /* name of this machine; borrowed */
const char *cr_world_engine(const cr_world *w);
                            /* "MPI 5.0 standard ABI, MPICH 5.0.2"; "none": alone; borrowed */

/* Collectives: every rank calls the same ones in the same order, with the same shapes and dtypes.
 * Tensors are contiguous, on cpu or each rank's GPU; x may be a part of out.  What a call writes is
 * undefined after a failure.  Sums are added over a binary tree of the ranks, in one order for
 * every engine: the same bits on every rank and in every run.  Sums of f16 and bf16 are computed in
 * f32, and each is rounded. */
cr_status   cr_barrier(cr_world *w);
cr_status   cr_broadcast_from(cr_world *w, cr_tensor *x, int root); /* x = x of root */
cr_status   cr_all_reduce(cr_world *w, cr_tensor *x); /* x = sum over ranks; floats */
typedef struct cr_work cr_work;
cr_work    *cr_all_reduce_start(cr_world *w, cr_tensor *x);
                            /* the same, in the background; leave x alone until cr_work_wait */
cr_status   cr_work_wait(cr_work *work); /* frees it, also after a failure; NULL: pending error */
cr_status   cr_all_gather(cr_world *w, const cr_tensor *x, cr_tensor *out);
                            /* out: x of rank 0, 1, ..., one after the other : (...) ->
                               size x numel elements */
cr_status   cr_reduce_scatter(cr_world *w, const cr_tensor *x, cr_tensor *out);
                            /* out: part `rank` of the sum over ranks of x : size x numel(out)
                               elements; floats */

/* ---- data parallel: bits that do not depend on the number of ranks */
typedef struct cr_parallel cr_parallel;
typedef struct cr_parallel_options {
    int64_t microbatches;   /* of a step: M, at least one for each rank */
    int64_t bucket_bytes;   /* gradients are exchanged in pieces of this size; 0: 25 MiB */
    bool    late;           /* exchange after the backward pass, not while it runs */
    bool    engine;         /* sums by MPI's or NCCL's all-reduce, whose bits depend on the number
                               of ranks; its bytes are not counted */
    bool    half;           /* gradients of f32 parameters travel as bf16 and are added in f32: half
                               the bytes; bits depend on the number of ranks; not with engine */
    bool    shard;          /* each rank has a part of the moments and masters, and updates a part
                               of the weights (ZeRO stage 1); the same bits */
    bool    elastic;        /* after a loss the others can go on (cr_parallel_recover): Open MPI 5
                               or later under `mpirun --with-ft ulfm`; with shard a rank keeps four
                               more copies of its part of moments and masters */
} cr_parallel_options;
typedef struct cr_parallel_stats {
    int64_t sent, received; /* bytes of gradients and sharded weights, to and from other ranks,
                               in the last step */
    int64_t early;          /* bytes of gradients given to the engine before 95 % of the nodes
                               of this rank's last backward pass were visited */
    int64_t moments, gradients; /* bytes held: of moments and masters; of gradients, exchange */
    int64_t pending;        /* shard: buckets of new weights still in transit */
    double  busy, exposed;  /* seconds of the exchange, and how many of them anything waited:
                               cr_parallel_step, and since the step's first cr_parallel_next the
                               readers of weights that were still in transit */
    int     bad;            /* first rank whose loss of the last step is not finite; -1: none */
} cr_parallel_stats;
cr_parallel *cr_parallel_new(cr_world *w, cr_optim *opt, const cr_parallel_options *o);
                            /* borrows w and opt; parameters are all f32 or all bf16, on cpu or
                               each rank's GPU, and gradients of microbatches are added in that
                               dtype; all ranks take rank 0's values; an error names the ranks
                               whose model or options differ */
void         cr_parallel_free(cr_parallel *p);
bool         cr_parallel_next(cr_parallel *p, cr_loader *l, cr_generator *g);
                            /* this rank's next microbatch of the step: l delivers its batch, g
                               draws its own numbers; false: the step has no more, and l and g are
                               as after all of it; or a failure (cr_error); l and g may be NULL */
cr_status    cr_parallel_backward(cr_parallel *p, const cr_tensor *loss);
                            /* once after each cr_parallel_next; loss: mean of the microbatch */
cr_status    cr_parallel_step(cr_parallel *p, double max_norm, double *loss, double *norm);
                            /* adds up the gradients of all ranks, clips them to max_norm
                               (INFINITY: no limit), steps; with shard, new weights of other ranks
                               arrive later, and whatever reads or writes them waits for them.
                               *loss: mean over microbatches; *norm: before clipping (either NULL);
                               a loss that is not finite: no step */
cr_status    cr_parallel_meet(cr_parallel *p);
                            /* waits for all ranks; elastic: CR_OK on all that are left or on none,
                               so all agree whether to end or to recover (after a last save) */
cr_status    cr_parallel_recover(cr_parallel *p, bool *reload);
                            /* elastic: every rank that is left calls it after a call of p or of its
                               world has failed.  CR_OK: ranks were lost, the world is smaller, and
                               the step that failed begins again at cr_parallel_next; *reload: the
                               moments of two neighbours are lost, so load a checkpoint first.  Else
                               no rank can go on */
cr_status    cr_block_squares(const cr_tensor *x, double *sums);
                            /* sums[i]: of the squares of x's elements from CR_NORM_BLOCK i on;
                               the joint norm is the root of all tensors' sums, added in order: the
                               same bits where tensors are cut at blocks; x contiguous f32 on cpu */
enum { CR_NORM_BLOCK = 1 << 16 };
cr_world    *cr_parallel_world(const cr_parallel *p); /* borrowed */
cr_params   *cr_parallel_moments(cr_parallel *p);
                            /* shard: this rank's moments and masters, as cr_optim_state names
                               them; "NAME@I" is a piece from element I on; new set of shared
                               tensors */
cr_parallel_stats cr_parallel_look(const cr_parallel *p);

#endif
