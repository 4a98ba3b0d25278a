/* pool.h - the thread pool.  A job is cut into chunks, by its shape only; the caller and the workers claim chunks. */
#ifndef CR_POOL_H
#define CR_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "ints.h"

/* Runs fn(ctx, 0) ... fn(ctx, chunks - 1), each once, in any order, on any thread; returns when all are done.
 * Called from inside a chunk, or while another thread uses the pool, it runs all chunks on the calling thread.
 * The cut must not depend on the number of threads.  worker: 0 .. cr_pool_workers() - 1, unique
 * among running chunks. */
void cr_pool_run(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx);
/* Starts the chunks in order: for chunks that get shorter, or whose neighbours share data in a cache. */
void cr_pool_run_in_order(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx);
/* As cr_pool_run, but a single chunk is a plain call: for kernels whose work is often small. */
static inline void cr_run_chunks(int64_t chunks, void (*fn)(void *ctx, int64_t chunk, int worker), void *ctx) {
    if (chunks == 1) fn(ctx, 0, 0);
    else cr_pool_run(chunks, fn, ctx);
}
bool cr_pool_stopped(void);                         /* was this job interrupted?  Then chunks end early, and the op
                                                     * fails */
int  cr_pool_workers(void);                         /* upper bound of worker numbers (>= threads) */

/* Condition of loops that may run for milliseconds: false once the job is interrupted, which is
 * checked every `every` rounds. */
static inline bool cr_goes_on(int64_t i, int64_t every) { return i % every || !i || !cr_pool_stopped(); }

#endif
