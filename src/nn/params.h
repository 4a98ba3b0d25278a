/* params.h - what optimizers need of a parameter set beyond the public functions. */
#ifndef CR_PARAMS_H
#define CR_PARAMS_H

#include <chainrule.h>

int64_t cr_params_find(const cr_params *p, const char *name);      /* index, or -1 without a message */
bool    cr_params_alias(const cr_params *p, int64_t i);            /* the tensor is there under an earlier name too (tied weights) */
bool    cr_same_shape(const cr_tensor *a, const cr_tensor *b);
/* norm: the joint 2-norm of n gradients; scale: what clipping it to max_norm multiplies them by, 1 where it is no larger.  As torch.nn.utils.clip_grad_norm_:
 * max_norm / (norm + 1e-6); a norm that is not finite makes the gradients so too. */
cr_status cr_clip_scale(const char *op, int64_t n, cr_tensor *const *grads, double max_norm, double *norm, double *scale);

#endif
