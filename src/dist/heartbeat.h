/* heartbeat.h - notices ranks that died, stopped or vanished. */
#ifndef CR_HEARTBEAT_H
#define CR_HEARTBEAT_H

#include "world.h"

/* Every rank calls it.  patience: as cr_world_options; negative: no beats. */
cr_status cr_beat_start(cr_world *w, double patience);
void      cr_beat_stop(cr_world *w);                /* says farewell */

#endif
