/* params.h - functions of parameter sets that only optimizers need. */
#ifndef CR_PARAMS_H
#define CR_PARAMS_H

#include <chainrule.h>

int64_t cr_params_find(const cr_params *p, const char *name);      /* index, or -1 without a message */
/* does an earlier name have the same tensor (tied weights)? */
bool    cr_params_alias(const cr_params *p, int64_t i);
bool    cr_same_shape(const cr_tensor *a, const cr_tensor *b);
/* norm: the joint 2-norm of n gradients.  scale: the factor that clips it to max_norm, as
 * torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.  A norm that is not finite
 * gives a factor that is not finite. */
cr_status cr_clip_scale(const char *op, int64_t n, cr_tensor *const *grads, double max_norm, double *norm,
                        double *scale);
/* grads[i] *= by, outside any graph; their order changes where they are on several devices */
cr_status cr_scale_grads(int64_t n, cr_tensor **grads, double by);

#endif
