/* world.h - the processes of a launcher, and the thread that makes all calls of MPI and of a link of GPUs. */
#ifndef CR_DIST_WORLD_H
#define CR_DIST_WORLD_H

#include "../core/os.h"
#include "../core/tensor.h"
#include "../dev/dev.h"
#include "mpi.h"

/* One piece of work for the world's thread.  It must stay where it is until it is done. */
typedef struct cr_job {
    int (*run)(cr_world *w, void *ctx);             /* an error code of MPI or of transport.c, 0: none */
    void *ctx;
    int code;
    cr_saved_error error;                           /* of CR_CARRY_FAILED */
    void (*ended)(cr_world *w, struct cr_job *job); /* called by the thread, also where a loss kept it from running */
    bool done, after_loss;                          /* after_loss: it runs after a loss too */
    struct cr_job *next;
} cr_job;

enum { CR_HOST = 256 };
typedef struct cr_beat cr_beat;

struct cr_world {
    int rank, size, local;                          /* local: rank among the processes of this host */
    char host[CR_HOST], engine[256];
    int64_t process;                                /* that opened it: a forked child has no engine */
    cr_mpi mpi;                                     /* size > 1 only, as all below */
    cr_mpi_handle comm;                             /* 0: there is no MPI, only the link */
    const cr_device *gpu;                           /* of this rank, NULL: there is no link */
    cr_link *link;
    cr_program *sum;                                /* a b -> a + b, on the GPU */
    int *counts;                                    /* 4 x size, of its thread: counts and positions of an exchange */
    cr_range *ranges;                               /* 4 x size, of its thread: the first half of transport.c */
    bool ours;                                      /* we have called MPI_Init_thread */
    cr_thread *thread;
    cr_mutex *mutex;                                /* guards the list of jobs */
    cr_cond *changed;
    cr_job *first, **end;
    bool stop;
    cr_beat *beat;                                  /* NULL: none */
    bool alone;                                     /* no beats, because not all can connect */
    double patience;                                /* as cr_world_options */
    atomic_bool silent;                             /* the rank that was lost may be alive: no survivor goes on */
    bool shrunk;                                    /* ranks were lost, and the others went on */
    bool stuck;                                     /* the thread is in a call that does not end */
    atomic_int_least64_t step;                      /* of the training, for messages */
    char loss[512];                                 /* what is said of a rank that is gone; guarded by mutex */
};

/* n elements from the `first` one on, as an array of one axis */
static inline cr_array cr_array_range(const cr_array *x, int64_t first, int64_t n) {
    cr_array y = cr_array_as(x, 1, &n);
    y.offset += first;
    return y;
}

double    cr_world_limit(void);                     /* seconds in which all ranks have to come */
bool      cr_world_lacks(const char *op, const cr_world *w);       /* NULL, or of another process: with a message */
void      cr_world_post(cr_world *w, cr_job *job);                 /* the thread runs jobs in their order */
cr_status cr_world_wait(cr_world *w, const char *op, cr_job *job); /* an error of MPI becomes a message */
cr_status cr_world_why(cr_world *w, const cr_job *job, char *text, size_t room);    /* its code as a message */
cr_status cr_world_run(cr_world *w, const char *op, int (*run)(cr_world *w, void *ctx), void *ctx);
/* n bytes of every rank to all: (size, n); mine may lie in its place of `all`, and nowhere else in it */
cr_status cr_world_gather(cr_world *w, const char *op, const void *mine, int64_t n, void *all);

/* ---- link.c: the link of the world's GPUs */
/* What torchrun, or `chainrule train --gpus`, says in RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. */
typedef struct cr_torchrun { int rank, size, local, port; const char *address; } cr_torchrun;
bool      cr_torchrun_is(cr_torchrun *t);           /* were all of them given? */
/* Every rank calls it, with its GPU; NULL: it has none, and a message says why.  Without MPI, t says where the ranks
 * meet; else NULL. */
cr_status cr_link_start(cr_world *w, const char *op, const cr_device *d, const cr_torchrun *t);

/* ---- elastic.c: after a loss (mpi.elastic) */
cr_status cr_elastic_begin(cr_world *w, const char *op);           /* an engine that cannot: a message */
int       cr_elastic_lose(cr_world *w, int code);                  /* of MPI, in a job; CR_MPI_LOST */
/* CR_OK where every rank says so, the same answer on all; else status, or a message.  A world of 1: status. */
cr_status cr_elastic_agree(cr_world *w, const char *op, cr_status status);

/* ---- transport.c: bytes between ranks, in a job.  MPI carries memory of the cpu, the link that of GPUs; without MPI,
 * memory of the cpu passes through the GPU.  Each returns an error code. */
enum { CR_CARRY_FAILED = -26 };                     /* the message of this thread says why */
int cr_carry_meet(cr_world *w);
int cr_carry_broadcast(cr_world *w, void *x, int64_t n, int root);          /* memory of the cpu, as the next */
int cr_carry_gather(cr_world *w, const void *mine, int64_t n, void *all);
/* send[r] of `from` to rank r, receive[r] of `to` from rank r; bytes from the beginning of the array */
int cr_carry_exchange(cr_world *w, const cr_array *from, const cr_range *send, const cr_array *to,
                      const cr_range *receive);
int cr_carry_spread(cr_world *w, const cr_array *x, const cr_range *of);    /* of[r] of rank r's x to all */
int cr_carry_sum(cr_world *w, const cr_array *x);   /* over ranks, in the engine's order; f32, f64 */
int cr_carried(cr_world *w, cr_status status);      /* the code of a call that leaves a message */

/* ---- exchange.c: sums n elements over a tree: n x (nodes of this rank) elements in, this rank's shard out, then all
 * shards.  All arrays are contiguous, of one dtype, on one device. */
typedef struct cr_exchange {
    cr_dtype dtype;                                 /* f32, f64 */
    int64_t leaves;                                 /* of the tree, at least one for each rank */
    int64_t n;                                      /* elements */
    const int64_t *cut;                             /* size + 1 borders: shard s is [cut[s], cut[s + 1]) */
    int nodes;                                      /* of this rank (cr_tree_cover) */
    cr_array value[82];                             /* of each node: n elements */
    cr_array out;                                   /* n elements; may be value[0] */
    bool gather;                                    /* all shards to all ranks; else only this rank's is written */
    bool engine;                                    /* the engine adds, in its own order */
    bool half;                                      /* send is bf16, and elements arrive in `arrived` */
    bool apart;                                     /* out has room for this rank's shard only */
    cr_array send, receive;                         /* room: cr_exchange_room; send is read when nodes > 1 */
    cr_array arrived;                               /* bf16, as many as receive */
    int64_t sent, received;                         /* bytes, added to */
    double seconds;                                 /* added to */
} cr_exchange;
void cr_exchange_room(const cr_world *w, const cr_exchange *e, int64_t *send, int64_t *receive);   /* elements */
int  cr_exchange_run(cr_world *w, void *exchange);  /* a job */
/* Only the last part, in a job: each rank's shard of x to all; code.  A rank sends so many bytes. */
int     cr_exchange_gather(cr_world *w, const cr_array *x, const int64_t *cut);
int64_t cr_exchange_sent(const cr_world *w, const int64_t *cut, int64_t width);
cr_status cr_exchange_copy(const cr_array *to, const cr_array *from);       /* to another dtype: rounded to nearest */
void cr_exchange_even(int64_t n, int size, int64_t *cut);      /* shards of one size, but for one element */

#endif
