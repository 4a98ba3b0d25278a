/* linear.h - what models ask of ops beyond the public headers: a layer with GELU behind it, a weight in the dtype of
 * autocast. */
#ifndef CR_LINEAR_H
#define CR_LINEAR_H

#include <chainrule.h>

/* gelu_tanh(x w^T + b), inside the product where the device has that */
cr_tensor *cr_linear_gelu(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b);

/* t in dtype dt: the cast that the ops of a region read, so that the gradients of all its uses meet in it; owned by the
 * scope or by the thread's casts (autocast.c) */
const cr_tensor *cr_autocast_operand(const cr_tensor *t, cr_dtype dt);

#endif
