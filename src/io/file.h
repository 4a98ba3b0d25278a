/* file.h - shared by readers and writers of files: read and write whole files, build JSON text.
 * Messages name the path and the reason.  A new file is written under a temporary name and renamed, so
 * a reader sees the old file or the new one, and a link is replaced, not followed. */
#ifndef CR_FILE_H
#define CR_FILE_H

#include <chainrule.h>
#include <stdatomic.h>
#include "../core/os.h"
#include "../core/out.h"

/* ---- texts */
cr_status cr_out_check(const cr_out *o, const char *op, const char *path);

/* ---- files */
typedef struct cr_file { FILE *f; const char *op, *path; char temporary[4096]; } cr_file;
cr_status cr_file_create(cr_file *f, const char *op, const char *path);
/* after a failure the temporary file is removed */
cr_status cr_file_write(cr_file *f, const void *data, size_t bytes);
cr_status cr_file_commit(cr_file *f);
void      cr_file_abandon(cr_file *f);                                     /* also allowed after a failure */
cr_status cr_file_save(const char *op, const char *path, const void *data, size_t bytes);
/* writable: a private copy, page by page */
cr_status cr_file_map(const char *op, const char *path, bool writable, cr_mapping *m);

/* ---- a private, writable mapping that tensors keep alive */
typedef struct cr_shared_mapping { atomic_int refs; cr_mapping m; } cr_shared_mapping;
/* takes m, also after a failure (no memory) */
cr_shared_mapping *cr_mapping_share(const char *op, const char *path, cr_mapping *m);
void       cr_mapping_release(void *shared);
/* over the mapping; a copy if the address is not aligned for the dtype */
cr_tensor *cr_mapping_tensor(cr_shared_mapping *s, const void *at, int ndim, const int64_t *shape, cr_dtype dt);

#endif
