/* params.h - functions of parameter sets that only optimizers need. */
#ifndef CR_PARAMS_H
#define CR_PARAMS_H

#include <chainrule.h>

int64_t cr_params_find(const cr_params *p, const char *name);      /* index, or -1 without a message */
/* does an earlier name have the same tensor (tied weights)? */
bool    cr_params_alias(const cr_params *p, int64_t i);
bool    cr_same_shape(const cr_tensor *a, const cr_tensor *b);
/* Gradients scaled by min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does.  A norm that is not
 * finite gives a factor that is not finite. */
typedef struct cr_clip {
    double max_norm, norm, factor;                  /* norm, factor: of the run */
    int64_t sums;                                   /* whose total is the norm's square */
    bool wanted;                                    /* the norm is a result of the host's step */
    cr_status (*replay)(cr_plan *p, const struct cr_clip *c);      /* sets the factor where a plan reads it */
    void *ctx; void (*end)(void *ctx);              /* of replay; end NULL: nothing to free */
} cr_clip;
cr_clip  *cr_clip_new(const char *op, double max_norm);
/* Measures n gradients, now and in each run of a plan.  norm: NULL, or a tensor of one element to write it to.  A
 * recording takes c over, also after a failure. */
cr_status cr_clip_measure(cr_clip *c, int64_t n, cr_tensor *const *grads, cr_tensor *norm);
void      cr_clip_done(cr_clip *c);                 /* frees c, unless a recording has it */
/* cr_scale_grads, which changes the order of grads.  each (or NULL): called after each of the runs that this takes */
cr_status cr_scale_in_runs(int64_t n, cr_tensor **grads, double by, void (*each)(void *ctx), void *ctx);

#endif
