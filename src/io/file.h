/* file.h - shared by readers and writers of files: read and write whole files, build JSON text.
 * Messages name the path and the reason.  A new file is written under a temporary name and renamed, so
 * a reader sees the old file or the new one. */
#ifndef CR_FILE_H
#define CR_FILE_H

#include <chainrule.h>
#include "../core/os.h"

/* ---- text that grows.  After a failure (no memory) it stays empty; cr_out_check reports it. */
typedef struct cr_out { char *text; size_t bytes, room; bool failed; } cr_out;
void      cr_out_put(cr_out *o, const char *text, size_t bytes);
void      cr_out_format(cr_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* as a JSON string, quoted and escaped; text is UTF-8 */
void      cr_out_string(cr_out *o, const char *text, size_t bytes);
cr_status cr_out_check(const cr_out *o, const char *op, const char *path);
void      cr_out_free(cr_out *o);

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

#endif
