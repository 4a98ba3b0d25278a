/* stage.h - several files that replace those of a folder together, all or none.  A save writes them into
 * DIR/.chainrule-new, which it then renames to DIR/.chainrule-NAME: the new set is complete.  Its files are
 * moved into DIR one by one.  A process that ends before the rename leaves the old set, one that ends after
 * it the new one, which the next writer of DIR moves.  Both folders are locked while somebody works in
 * them, so saves into one DIR follow each other.  Only files with names that are `ours` are moved or removed. */
#ifndef CR_STAGE_H
#define CR_STAGE_H

#include <chainrule.h>
#include "folder.h"

typedef struct cr_stage_kind {
    const char *ready;                              /* the name of the complete set */
    bool (*ours)(const char *name);                 /* of the files in it */
    /* moves all files of `from` into dir; may be called again after it was interrupted */
    cr_status (*finish)(const char *op, const char *dir, const char *from);
} cr_stage_kind;
extern const char cr_stage_new[];                   /* ".chainrule-new" */

/* makes DIR and an empty DIR/.chainrule-new; *lock: for the end */
cr_status cr_stage_begin(const char *op, const char *dir, const cr_stage_kind *k, int *lock);
/* commits the files if status is CR_OK, else removes them; returns status, or the failure */
cr_status cr_stage_end(const char *op, const char *dir, const cr_stage_kind *k, int lock, cr_status status);
/* moves the files of a save that was interrupted; nothing happens if there are none.  reader: what no save made is
 * ignored, not an error */
cr_status cr_stage_complete(const char *op, const char *dir, const cr_stage_kind *k, bool reader);
/* renames a file of the set `from` into DIR; it may be there already */
cr_status cr_stage_move(const char *op, const char *dir, const char *from, const char *name);
/* removes a folder with files of this kind; an error names what else is in it, and then nothing is removed */
cr_status cr_stage_remove(const char *op, const char *path, const cr_stage_kind *k);

#endif
