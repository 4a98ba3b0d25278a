/* pool.h - memory of Values: cells of 64 bytes, a cache line each.  Each thread has freed ones at
 * hand, so that a cell costs a few instructions. */
#ifndef CR_POOL_OF_VALUES_H
#define CR_POOL_OF_VALUES_H

#include <stdbool.h>
#include <stdint.h>

extern bool cr_cells_serial;                        /* set before the first cell is taken: one thread at a time is
                                                     * here, so all share what is at hand */
void   *cr_cell_take(void);                         /* 64 bytes, aligned so; NULL: no memory left */
void    cr_cell_give(void *cell);                   /* by the thread that took it */
int64_t cr_cell_memory(void);                       /* bytes ever taken from the system: freed cells are used again,
                                                     * not given back */

#endif
