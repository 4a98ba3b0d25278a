/* linear.h - a layer with GELU behind it. */
#ifndef CR_LINEAR_H
#define CR_LINEAR_H

#include <chainrule.h>

/* gelu_tanh(x w^T + b), inside the product where the device has that */
cr_tensor *cr_linear_gelu(const cr_tensor *x, const cr_tensor *w, const cr_tensor *b);

#endif
