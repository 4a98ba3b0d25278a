/* optim.h - what optim.c and muon.c share. */
#ifndef CR_OPTIM_H
#define CR_OPTIM_H

#include <chainrule.h>

cr_tensor *cr_muon_orthogonal(const cr_tensor *u);  /* cr_newton_schulz with the coefficients of the source that muon.c names */
double     cr_muon_scale(const cr_tensor *p);       /* what lr is multiplied by for a matrix of p's shape */

#endif
