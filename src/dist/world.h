/* world.h - the processes of a launcher, and the thread that makes all calls of MPI. */
#ifndef CR_DIST_WORLD_H
#define CR_DIST_WORLD_H

#include "../core/os.h"
#include "mpi.h"

/* One piece of work for the world's thread.  It must stay where it is until it is done. */
typedef struct cr_job {
    int (*run)(cr_world *w, void *ctx);             /* an error code of MPI, 0: none */
    void *ctx;
    int code;
    bool done;
    struct cr_job *next;
} cr_job;

enum { CR_HOST = 256 };
typedef struct cr_beat cr_beat;

struct cr_world {
    int rank, size;
    char host[CR_HOST], engine[256];
    int64_t process;                                /* that opened it: a forked child has no engine */
    cr_mpi mpi;                                     /* size > 1 only, as all below */
    cr_mpi_handle comm;
    int *counts;                                    /* 4 x size, of its thread: counts and positions of an exchange */
    bool ours;                                      /* we have called MPI_Init_thread */
    cr_thread *thread;
    cr_mutex *mutex;                                /* guards the list of jobs */
    cr_cond *changed;
    cr_job *first, **end;
    bool stop;
    cr_beat *beat;                                  /* NULL: none */
    bool alone;                                     /* no beats, because not all can connect */
    atomic_int_least64_t step;                      /* of the training, for messages */
    char loss[512];                                 /* what is said of a rank that is gone; guarded by mutex */
};

bool      cr_world_lacks(const char *op, const cr_world *w);       /* NULL, or of another process: with a message */
void      cr_world_post(cr_world *w, cr_job *job);                 /* the thread runs jobs in their order */
cr_status cr_world_wait(cr_world *w, const char *op, cr_job *job); /* an error of MPI becomes a message */
cr_status cr_world_run(cr_world *w, const char *op, int (*run)(cr_world *w, void *ctx), void *ctx);
/* n bytes of every rank to all: (size, n) */
cr_status cr_world_gather(cr_world *w, const char *op, const void *mine, int64_t n, void *all);

/* Sums n elements over a tree: size(dtype) x n x (nodes of this rank) bytes in, this rank's shard out, then all
 * shards.  exchange.c */
typedef struct cr_exchange {
    cr_dtype dtype;                                 /* f32, f64 */
    int64_t leaves;                                 /* of the tree, at least one for each rank */
    int64_t n;                                      /* elements */
    const int64_t *cut;                             /* size + 1 borders: shard s is [cut[s], cut[s + 1]) */
    int nodes;                                      /* of this rank (cr_tree_cover) */
    const char *value[82];                          /* of each node: n elements */
    char *out;                                      /* n elements; may be value[0] */
    bool gather;                                    /* all shards to all ranks; else only this rank's is written */
    bool apart;                                     /* out has room for this rank's shard only */
    char *send, *receive;                           /* room: cr_exchange_room; send is read when nodes > 1 */
    int64_t sent, received;                         /* bytes, added to */
    double seconds;                                 /* added to */
} cr_exchange;
void cr_exchange_room(const cr_world *w, const cr_exchange *e, int64_t *send, int64_t *receive);   /* bytes */
int  cr_exchange_run(cr_world *w, void *exchange);  /* a job */
int  cr_exchange_gather(cr_world *w, void *exchange);          /* a job: only the last part, all shards of out to all */
void cr_exchange_even(int64_t n, int size, int64_t *cut);      /* shards of one size, but for one element */

#endif
