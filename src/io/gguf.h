/* gguf.h - the checked header of a GGUF file; separate, so that tests can parse bytes in memory. */
#ifndef CR_GGUF_H
#define CR_GGUF_H

#include <chainrule.h>
#include "file.h"

typedef struct cr_gguf_tensor {
    char *name;
    uint32_t type;                                  /* of ggml; a known one */
    int ndim;
    int64_t shape[4];                               /* the last axis is contiguous, as everywhere here */
    const unsigned char *data;                      /* within the file */
    size_t bytes;
} cr_gguf_tensor;
typedef struct cr_gguf {
    int64_t count;
    cr_gguf_tensor *tensors;
    cr_out metadata;                                /* a JSON object: key -> string, number, bool or an array of them */
} cr_gguf;

bool      cr_gguf_is(const unsigned char *file, size_t bytes);             /* by its first bytes */
cr_status cr_gguf_parse(const char *op, const char *path, const unsigned char *file, size_t bytes, cr_gguf *g);
void      cr_gguf_free(cr_gguf *g);
/* takes the mapping, private and writable; path: for messages, and to find the other files of a split model.  packed:
 * "x.weight" in blocks becomes "x.FORMAT", the bytes of its rows, u8; else f32.  metadata: NULL, or the JSON object
 * without long arrays, owned */
cr_params *cr_gguf_load(const char *op, const char *path, cr_mapping *m, const cr_device *dev, bool packed,
                        char **metadata);
/* an entry: the text of a string, else JSON; key NULL: all, a JSON object; owned; NULL without an error: no such key */
char     *cr_gguf_metadata(const char *op, const char *path, const cr_mapping *m, const char *key);
/* the entries whose keys begin so, a JSON object without arrays of millions; owned */
char     *cr_gguf_section(const char *op, const char *path, const cr_mapping *m, const char *prefix);
/* metadata: JSON object.  type, of matrices: "f32", "f16", "bf16", "q8_0", "q4_0" (the token table and the head are
 * q8_0), "q4_k_m", "q5_k_m", "q6_k"; other tensors, and those named position_embd, are f32.  importance: NULL, or by
 * the name of a matrix how much each column counts, f32 */
cr_status cr_gguf_save(const char *op, const char *path, const cr_params *tensors, const char *metadata,
                       const char *type, const cr_params *importance);

#endif
