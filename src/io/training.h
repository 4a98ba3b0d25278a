/* training.h - the weights of a checkpoint's folder, for the readers of single files. */
#ifndef CR_TRAINING_H
#define CR_TRAINING_H

#include "file.h"

/* a private, writable mapping; m is unmapped by the caller */
cr_status cr_training_map_weights(const char *op, const char *dir, cr_mapping *m);

#endif
