/* hold.h - how an object keeps a tensor: cr_retain takes a reference that no scope owns, cr_drop gives it back.
 * (cr_release would also take the handle out of the user's scope.) */
#ifndef CR_HOLD_H
#define CR_HOLD_H

#include <chainrule.h>

void cr_drop(const cr_tensor *t);                   /* one reference less; NULL and CR_NONE are fine */

#endif
