/* unicode.h - normalization forms, lower case and categories, by the tables of unicode.gen.h. */
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

/* General categories, in the order of unicode.gen.h. */
typedef enum cr_category {
    CR_LU, CR_LL, CR_LT, CR_LM, CR_LO, CR_MN, CR_MC, CR_ME, CR_ND, CR_NL, CR_NO, CR_PC, CR_PD, CR_PS, CR_PE, CR_PI,
    CR_PF, CR_PO, CR_SM, CR_SC, CR_SK, CR_SO, CR_ZS, CR_ZL, CR_ZP, CR_CC, CR_CF, CR_CS, CR_CO, CR_CN
} cr_category;
cr_category cr_unicode_category(uint32_t code);     /* CR_CN above U+10FFFF */

#endif
