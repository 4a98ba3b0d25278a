/* safetensors.h - the checked header of a safetensors file; separate, so that tests can parse bytes in memory. */
#ifndef CR_SAFETENSORS_H
#define CR_SAFETENSORS_H

#include <chainrule.h>
#include "file.h"
#include "json.h"

typedef struct cr_st_tensor {
    const char *name;
    cr_dtype dtype;
    int ndim;
    int64_t shape[CR_MAX_DIMS];
    size_t begin, end;
} cr_st_tensor;
typedef struct cr_st_header {
    cr_json *json;                                  /* owns names and metadata */
    const cr_json *metadata;                        /* an object of strings, or NULL */
    int64_t count;
    cr_st_tensor *tensors;                          /* in the header's order; begin and end count from data */
    const unsigned char *data;                      /* within the file */
} cr_st_header;

cr_status cr_st_parse(const char *op, const char *path, const unsigned char *file, size_t bytes, cr_st_header *h);
void      cr_st_free(cr_st_header *h);
/* takes the mapping, private and writable; path: for messages */
cr_params *cr_st_load(const char *op, const char *path, cr_mapping *m, const cr_device *dev);

#endif
