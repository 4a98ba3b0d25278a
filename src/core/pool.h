/* pool.h - the thread pool: a job is cut into chunks by its shape alone, threads claim chunks, each of its own part first, the caller works too. */
#ifndef CR_POOL_H
#define CR_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "ints.h"

/* Runs fn(ctx, 0) ... fn(ctx, chunks - 1), each once, in any order, on any of the threads; returns when all are done.
 * Called from inside a chunk, or while another thread uses the pool, it runs on the calling thread alone: never a deadlock.
 * Chunks must not depend on the thread count: cut by shape.  worker: 0 .. cr_pool_workers() - 1, unique among those running. */
void cr_pool_run(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx);
void cr_pool_run_in_order(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx);         /* begun in order, for chunks that get shorter, or share what lies in a cache */
/* As cr_pool_run, but a single chunk is a plain call: for kernels whose work is often small. */
static inline void cr_run_chunks(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx) {
    if (chunks == 1) fn(ctx, 0, 0);
    else cr_pool_run(chunks, fn, ctx);
}
bool cr_pool_stopped(void);                         /* was this job told to stop?  Then chunks end early: the op will fail */
int  cr_pool_workers(void);                         /* how many worker numbers can occur at most (>= threads) */

/* For the loops of a chunk that may take more than a few milliseconds: do they go on with round i?  Asks each time that so many rounds are over. */
static inline bool cr_goes_on(int64_t i, int64_t every) { return i % every || !i || !cr_pool_stopped(); }

#endif
