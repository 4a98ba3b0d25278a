/* unicode.h - normalization forms and lower case, by the tables of unicode.gen.h. */
#ifndef CR_UNICODE_H
#define CR_UNICODE_H

#include "../io/file.h"

typedef enum cr_form { CR_NFC, CR_NFD, CR_NFKC, CR_NFKD } cr_form;

/* Appends s, valid UTF-8, in this form. */
void cr_unicode_normalize(cr_form form, const char *s, size_t n, cr_out *out);
/* Appends the lower case of each character, without rules of context. */
void cr_unicode_lower(const char *s, size_t n, cr_out *out);
/* Range number i of characters that are younger than Unicode 14, with their category ("Lu"); false behind the last. */
bool cr_unicode_young(int i, uint32_t *first, uint32_t *last, const char **category);

#endif
