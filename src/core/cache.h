/* cache.h - the cache folder: files of machine code that was compiled at run time.
 *
 * The name of a file is a hash of everything that its contents depend on.  The file ends with that hash and with a hash
 * of the contents; a file whose hashes do not match counts as absent. */
#ifndef CR_CACHE_H
#define CR_CACHE_H

#include <stdbool.h>
#include <stddef.h>

__extension__ typedef unsigned __int128 cr_hash;
extern const cr_hash cr_hash_start;
cr_hash cr_hash_of(cr_hash h, const void *bytes, size_t n);             /* h: of what comes before, or cr_hash_start */

/* The folder exists afterwards.  False: there is none and none can be made, CHAINRULE_CACHE is off, or the path is too
 * long.  ending: ".cubin" */
bool  cr_cache_path(char *path, size_t room, cr_hash key, const char *ending);
char *cr_cache_read(const char *path, cr_hash key, size_t *bytes);      /* free(); NULL: absent or damaged */
/* False: nothing could be written; the next process compiles again. */
bool  cr_cache_keep(const char *path, cr_hash key, const void *data, size_t bytes);

#endif
