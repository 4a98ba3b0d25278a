/* walk.h - from tensors to what a device's elementwise kernel takes: dtypes by PyTorch's promotion,
 * broadcasting as strides. */
#ifndef CR_WALK_H
#define CR_WALK_H

#include "../dev/dev.h"
#include "../dev/program.h"

/* The dtype in which p computes, and that of its result, for these n_in inputs (none NULL or
 * CR_NONE).  Tensors with axes decide. 0-d tensors, and after them weak scalars (CR_FLAG_WEAK),
 * only raise the result to a higher kind: bool < integer < float. */
cr_status cr_rule_dtypes(const cr_program *p, const cr_tensor *const *in, cr_dtype *compute, cr_dtype *result);

/* Fills w for one run: every out has the walk's shape (dense or strided, no axis expanded), every
 * in broadcasts to it.  Afterwards ndim >= 1; an empty walk has shape (0), a single element (1).
 * params are borrowed. */
cr_status cr_walk_fill(cr_walk *w, const cr_program *p, const double *params, cr_dtype compute, int n_out,
                       cr_tensor *const *out, int n_in, const cr_tensor *const *in, const char *op);

#endif
