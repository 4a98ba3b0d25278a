/* fibers.h - one block of a kernel: its threads as fibers of the calling thread, switched at barriers and shuffles. */
#ifndef CUDASIM_FIBERS_H
#define CUDASIM_FIBERS_H

#include <stddef.h>
#include <stdint.h>
#include "module.h"

enum { MAX_THREADS = 1024, WARP = 32 };

extern const cudasim_runtime fibers_runtime;

/* Which of the threads that may run runs first: forward, reverse, or by chance from a seed. */
void fibers_order(const char *text);                /* "forward", "reverse" or a number; NULL: forward */

/* Writes junk, NaN, over shared memory. */
void fibers_forget(char *from, const char *to);

/* Runs all threads of one block.  NULL, or what went wrong with them. */
const char *fibers_run(const cudasim_module *m, const cudasim_kernel *k, void *const *params, cudasim_dim block, cudasim_dim threads, cudasim_dim blocks);

#endif
