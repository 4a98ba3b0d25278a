/* config.h - run-time switches: the one table of CHAINRULE_* environment variables. */
#ifndef CR_CONFIG_H
#define CR_CONFIG_H

#include "status.h"

#define CR_PLAN_PASSES "dce,cse,fold,fuse_update,remat,fuse,jit,tile,arena,graph"       /* plan/: of CHAINRULE_PLAN */

/* Each switch registers its callbacks when the library loads.  check refuses a value that is malformed
 * or comes too late (NULL: the switch was unset); changed, which may be NULL, is called after a
 * change. */
typedef cr_status (*cr_switch_check)(const char *value);
void        cr_switch_owner(const char *name, cr_switch_check check, void (*changed)(void));
const char *cr_config(const char *name);            /* value of CHAINRULE_<name>, or NULL; name must be in the table */

#endif
