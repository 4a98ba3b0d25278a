/* linear.h - a linear layer in parts. */
#ifndef CR_LINEAR_H
#define CR_LINEAR_H

#include <chainrule.h>

/* gelu_tanh(x w^T + b), inside the product where the device has that */
cr_tensor *cr_linear_gelu(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b);

/* w as cr_linear reads it: in the dtype of autocast, or itself.  Rows that are looked up in that tensor have the dtype
 * of the residual stream, and a table that is tied to the head has one cast with it. */
const cr_tensor *cr_linear_weight(const cr_tensor *w);

#endif
