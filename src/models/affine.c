/* affine.c - the linear layers of the language models. */
#include "lm.h"

cr_tensor *cr_affine_apply(const cr_affine *p, const cr_tensor *x, cr_act act) {
    return cr_linear(x, p->weight, p->bias ? p->bias : CR_NONE, act);
}
