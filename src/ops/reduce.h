/* reduce.h - shared by the reductions: parameters, shapes of results, and tensors as their kernels see them. */
#ifndef CR_REDUCE_H
#define CR_REDUCE_H

#include "compose.h"

/* mask: axes; wide: a sum of half precision is f32; p: a norm's, or var's correction */
typedef struct cr_reduce_params { uint32_t mask; bool keepdim, wide; double p; } cr_reduce_params;

/* vmap: the axes lie one further; forward mode: each result has elements of its own, so the tangent is the sum of
 * their tangents times the gradient for the cotangent 1 */
cr_tensor *cr_reduce_batch(const cr_batched *b);
cr_tensor *cr_reduce_tangent(const cr_call *c, const cr_tensor *const *t);

static inline uint32_t mask_of(const cr_call *c) { return ((const cr_reduce_params *)c->params)->mask; }

/* ---- reduce.c */
int64_t    cr_reduced_count(const cr_tensor *x, uint32_t mask);               /* elements reduced to each result */
cr_status  cr_reduced_meta(const cr_call *c, cr_meta *out);                   /* x's dtype, the shape that is left */
/* a result with the reduced axes as 1: it broadcasts against x */
cr_tensor *cr_spread(const cr_tensor *y, const cr_tensor *x, uint32_t mask);
cr_status  cr_no_extreme(const cr_call *c);                                   /* refuses to reduce nothing */
/* a float tensor and its axes, or a message */
bool       cr_float_axes(const char *op, const cr_tensor *x, int n, const int64_t *axes, uint32_t *mask);

/* Where a result that is rounded once is formed: y itself, or f32 for half precision; the second
 * rounds it into y.  The caller releases it. */
cr_tensor *cr_sums_for(cr_tensor *y);
cr_status  cr_round_into(cr_tensor *y, const cr_tensor *sums);

/* ---- slab.c */
/* y, contiguous, from x of any strides */
cr_status  cr_reduce_axes(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, uint32_t mask);
cr_status  cr_arg_reduce_axis(bool max, cr_tensor *y, const cr_tensor *x, int axis);

#endif
