/* folder.h - folders in Hugging Face's layout, for the readers of single files and of models. */
#ifndef CR_FOLDER_H
#define CR_FOLDER_H

#include <chainrule.h>
#include "file.h"
#include "json.h"

typedef struct cr_path { char s[4096]; } cr_path;
cr_status  cr_join(const char *op, const char *dir, const char *name, cr_path *out);    /* DIR/name */
bool       cr_folder_is(const char *dir);               /* a config.json, a safetensors file named model, or an index */
cr_status  cr_folder_complete(const char *op, const char *dir);        /* an interrupted save; readers do so */
cr_params *cr_folder_load(const char *op, const char *dir, const cr_device *dev);
size_t     cr_bytes_of(const cr_tensor *t);
/* Hugging Face's index: file_of[i] is the number of the file of tensor i, which `name` writes out */
cr_status  cr_index_save(const char *op, const char *path, const cr_params *p, const int64_t *file_of, int64_t count,
                         void (*name)(int64_t i, int64_t count, char out[64]));
cr_json   *cr_json_file(const char *op, const char *path);     /* the whole file as a tree; NULL: an error */
cr_status  cr_json_find(const char *op, const char *path, cr_json **out);      /* *out NULL: there is no such file */
cr_json   *cr_folder_config(const char *op, const char *dir);  /* config.json, an object; owned (cr_json_free) */

#endif
