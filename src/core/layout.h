/* layout.h - the axes of arrays in the order of memory, and neighbouring axes merged. */
#ifndef CR_LAYOUT_H
#define CR_LAYOUT_H

#include "shape.h"

/* Fills axes from the largest step through memory to the smallest, a step being |stride|; equal steps keep their order.
 * Leaves out axes of size 1, unless shape is NULL.  Returns how many axes there are. */
int       cr_axes_by_step(int ndim, const int64_t *shape, const int64_t *strides, int *axes);
/* Merges neighbouring axes that each of n operands steps over as over one axis, and drops axes of size
 * 1.  strides[k]: of operand k. Returns the number of axes left. */
int       cr_merge_axes(int ndim, int64_t *shape, int n, int64_t *const *strides);
/* May two positions of this shape have one offset?  Never false where they do; true for some exotic
 * strides where they do not. */
bool      cr_shape_overlaps(int ndim, const int64_t *shape, const int64_t *strides);
/* m with its axes by step, all of them forwards.  Axis i of the result is axis axes[i] of m; bit i of
 * *reversed: it went backwards. */
cr_meta   cr_in_memory_order(const cr_meta *m, int64_t *axes, uint32_t *reversed);

#endif
