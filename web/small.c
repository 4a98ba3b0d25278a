/* small.c - what the small module has not, in the place of the files that it is linked without: tokenizers with learned
 * vocabularies, GGUF, pretrained models. */
#include "../src/core/status.h"
#include "../src/io/gguf.h"
#include "../src/text/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cr_status refuse(const char *op) {
    return cr_fail(CR_RUNTIME, op,
                   "learned vocabularies need the whole module: load({ whole: true }), or await whole()");
}

cr_pipeline *cr_pipeline_new(const char *op, const char *path, char *text, size_t bytes, bool sentencepiece) {
    (void)path, (void)bytes, (void)sentencepiece;
    free(text);
    return refuse(op), NULL;
}

cr_pipeline *cr_pipeline_of_pieces(const char *op, const char *path, char *text, size_t bytes, size_t head,
                                   const cr_pieces *pieces) {
    (void)head, (void)pieces;
    return cr_pipeline_new(op, path, text, bytes, true);
}

cr_status cr_format_bpe(const char *op, const char *path, const char *vocab, size_t bytes, const cr_json *root,
                        const char *merges, cr_out *out) {
    (void)path, (void)vocab, (void)bytes, (void)root, (void)merges, (void)out;
    return refuse(op);
}

cr_status cr_format_sentencepiece(const char *op, const char *path, const unsigned char *data, size_t bytes,
                                  cr_out *out, size_t *head, cr_pieces *pieces) {
    (void)path, (void)data, (void)bytes, (void)out, (void)head, (void)pieces;
    return refuse(op);
}

cr_status cr_format_vocab_txt(const char *op, const char *path, const char *text, size_t bytes, cr_out *out) {
    (void)path, (void)text, (void)bytes, (void)out;
    return refuse(op);
}

bool cr_path_beside(const char *path, const char *name, char out[4096]) {
    const char *slash = strrchr(path, '/');
    return snprintf(out, 4096, "%.*s%s", (int)(slash ? slash + 1 - path : 0), path, name) < 4096;
}

/* Not reached: there is no pipeline, and no file is a GGUF. */
void      cr_pipeline_free(cr_pipeline *p) { (void)p; }
cr_status cr_pipeline_text(const char *op, const cr_pipeline *p, cr_out *out) { return (void)p, (void)out, refuse(op); }
bool      cr_pipeline_encode(cr_pipeline *p, const char *op, const char *text, size_t bytes, const cr_encoding *o,
                             int threads, cr_ids *out) {
    return (void)p, (void)text, (void)bytes, (void)o, (void)threads, (void)out, refuse(op), false;
}
bool      cr_pipeline_decode(const cr_pipeline *p, cr_decode_state *state, uint32_t id, cr_out *out) {
    return (void)p, (void)state, (void)id, (void)out, false;
}
int64_t   cr_pipeline_behind(const cr_pipeline *p) { return (void)p, 0; }
bool      cr_gguf_is(const unsigned char *file, size_t bytes) { return (void)file, (void)bytes, false; }
char     *cr_gguf_metadata(const char *op, const char *path, const cr_mapping *m, const char *key) {
    return (void)path, (void)m, (void)key, refuse(op), NULL;
}
cr_status cr_format_gguf(const char *path, const cr_mapping *m, cr_out *out, bool *sentencepiece) {
    return (void)path, (void)m, (void)out, (void)sentencepiece, refuse("tokenizer_load");
}
