/* fibers.h - a launch: the threads of each block as fibers of the calling thread, switched at barriers and shuffles. */
#ifndef CUDASIM_FIBERS_H
#define CUDASIM_FIBERS_H

#include <stddef.h>
#include <stdint.h>
#include "module.h"

enum { MAX_THREADS = 1024, WARP = 32 };

/* Counts what a kernel reads and writes (driver.c): block: of those that ran so far; nth: of this thread's accesses. */
void fibers_access(const void *at, unsigned long bytes, int write, unsigned block, unsigned warp, unsigned nth);

/* The order of the threads that may run: forward, reverse, or random from a seed. */
void fibers_order(const char *text);                /* "forward", "reverse" or a number; NULL: forward */

/* Runs all blocks of a launch, one after another; shared: bytes of dynamic shared memory.  NULL, or what went wrong. */
const char *fibers_run(const cudasim_module *m, const cudasim_kernel *k, void *const *params, cudasim_dim blocks,
                       cudasim_dim threads, unsigned shared);

#endif
