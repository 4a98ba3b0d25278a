/* small.h - a free list per thread for small objects. */
#ifndef CR_SMALL_H
#define CR_SMALL_H

#include <stddef.h>

void *cr_small_take(size_t bytes);                  /* uninitialised; NULL: out of memory */
void  cr_small_give(void *p, size_t bytes);         /* bytes: as taken; from any thread */

#endif
