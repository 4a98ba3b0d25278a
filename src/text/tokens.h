/* tokens.h - what the loader needs of a token sequence beyond the public functions. */
#ifndef CR_TOKENS_H
#define CR_TOKENS_H

#include <chainrule.h>

/* out[k] = token start + k, for k < n within the sequence.  Returns the position of the first one that is not below the vocabulary
 * (a damaged file), or -1.  No message: a thread of its own may call it. */
int64_t cr_tokens_fetch(const cr_tokens *t, int64_t start, int64_t n, int64_t *out);

#endif
