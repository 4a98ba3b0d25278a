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

/* ---- for hopper.c */
typedef struct fibers_block { const char *shared; unsigned bytes; int threads, exact, barriers; } fibers_block;
/* The block that runs: its dynamic shared memory; exact: compiled for sm_90a; barriers that all threads have passed. */
fibers_block fibers_here(void);
int  fibers_current(void);                          /* the thread that runs */
_Noreturn void fibers_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The thread waits, until fibers_wake; passed: the clock that it acquires then, or NULL. */
void fibers_park(const char *what, unsigned at, char *passed);
void fibers_wake(const int *who, int n);
void fibers_release(char *clock);
void fibers_acquire(char *clock);
void fibers_meet(void);                             /* the lanes of a warp that have not ended; orders no memory */
int  fibers_chance(int *eager);                     /* 1: the order is random, and *eager was drawn */
int  fibers_reversed(void);

/* ---- hopper.c */
extern const cudasim_hopper hopper_units;
void hopper_begin(void);                            /* a block begins */
int  hopper_progress(void);                         /* no thread can run: a copy arrives; 0: none is under way */
const char *hopper_flaw(void);                      /* at the end of a block: what was left undone, or NULL */
const char *hopper_map_encode(void *map, int type, unsigned rank, const void *at, const uint64_t *sizes,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                              int swizzle, int fill);

#endif
