/* meta.h - the device `meta`: tensors with a dtype and a shape, and no elements. */
#ifndef CR_META_DEVICE_H
#define CR_META_DEVICE_H

#include "dev.h"

extern const cr_device cr_device_meta;

#endif
