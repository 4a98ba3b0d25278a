/* small.h - small objects: memory that is given back as fast as it is taken. */
#ifndef CR_SMALL_H
#define CR_SMALL_H

#include <stddef.h>

void *cr_small_take(size_t bytes);                  /* uninitialised; NULL: none left */
void  cr_small_give(void *p, size_t bytes);         /* the same bytes; by any thread */

#endif
