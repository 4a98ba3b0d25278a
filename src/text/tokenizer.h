/* tokenizer.h - how the files of this folder make a tokenizer. */
#ifndef CR_TOKENIZER_H
#define CR_TOKENIZER_H

#include <chainrule.h>

/* A tokenizer over the text of a tokenizer.json, which it takes over, also on failure. */
cr_tokenizer *cr_tokenizer_of(const char *op, const char *path, char *text, size_t bytes, bool sentencepiece);

struct cr_pipeline;
const struct cr_pipeline *cr_tokenizer_pipeline(const cr_tokenizer *t);    /* NULL: bytes or chars */
bool                      cr_tokenizer_is_bytes(const cr_tokenizer *t);

#endif
