/* tokens.h - a function of token sequences that only the loader needs. */
#ifndef CR_TOKENS_H
#define CR_TOKENS_H

#include <chainrule.h>

/* out[k] = token start + k, for k < n within the sequence.  Returns the position of the first one that
 * is not below the vocabulary (a damaged file), or -1.  Sets no message, so the loader's thread may
 * call it. */
int64_t cr_tokens_fetch(const cr_tokens *t, int64_t start, int64_t n, int64_t *out);

#endif
