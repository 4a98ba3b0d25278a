/* params.h - what optimizers need of a parameter set beyond the public functions. */
#ifndef CR_PARAMS_H
#define CR_PARAMS_H

#include <chainrule.h>

int64_t cr_params_find(const cr_params *p, const char *name);      /* index, or -1 without a message */
bool    cr_params_alias(const cr_params *p, int64_t i);            /* the tensor is there under an earlier name too (tied weights) */

#endif
