/* training.h - the weights of a checkpoint's folder, for the readers of files. */
#ifndef CR_TRAINING_H
#define CR_TRAINING_H

#include "file.h"
#include "folder.h"

cr_params *cr_training_load_weights(const char *op, const char *dir, const cr_device *dev);
/* the safetensors file that has the metadata of the weights, a private mapping that the caller unmaps; path: its
 * name */
cr_status  cr_training_map_metadata(const char *op, const char *dir, cr_mapping *m, cr_path *path);

#endif
