/* splits.h - the expressions that known tokenizers divide a text by, matched without PCRE2, and their names. */
#ifndef CR_SPLITS_H
#define CR_SPLITS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cr_splitter cr_splitter;

extern const char cr_splitter_gpt2[];                  /* GPT-2's expression */
/* NULL: an alternative of the expression is not known here (or no memory): PCRE2 runs it.  Freed by free(). */
cr_splitter *cr_splitter_new(const char *pattern, size_t bytes);
/* The first match that starts at `from` or later, as cr_regex_find.  s: UTF-8. */
bool cr_splitter_find(const cr_splitter *split, const char *s, size_t n, size_t from, size_t *start, size_t *end);

/* A byte-level BPE's splits, one after the other, by the names that llama.cpp gives to them. */
enum { CR_SPLITS = 6 };
typedef struct cr_named_splits {
    const char *names;                              /* divided by spaces; the first is the one to write */
    bool whole;                                     /* a piece that is a token is not merged */
    const char *pattern[CR_SPLITS];                 /* NULL behind the last */
} cr_named_splits;
/* NULL: none */
const cr_named_splits *cr_named_splits_find(const char *name);
const cr_named_splits *cr_named_splits_of(const char *const pattern[CR_SPLITS], bool whole);

bool cr_is_among(const char *names, const char *name, size_t bytes);         /* names: divided by spaces */

#endif
