/* dtype.h - dtypes: kinds, and one element converted. */
#ifndef CR_DTYPE_H
#define CR_DTYPE_H

#include <chainrule.h>

typedef enum cr_kind { CR_KIND_BOOL, CR_KIND_UNSIGNED, CR_KIND_SIGNED, CR_KIND_FLOAT } cr_kind;
cr_kind  cr_dtype_kind(cr_dtype dt);
bool     cr_dtype_valid(int dt);
bool     cr_dtype_is_half(cr_dtype dt);              /* f16 or bf16: floats that compute in f32 */
cr_dtype cr_dtype_wide(cr_dtype dt);                 /* what statistics and sums are kept in: f32 for half precision, else dt */
float    cr_f16_to_f32(uint16_t h);
uint16_t cr_f32_to_f16(float f);                    /* to nearest, ties to even; NaN stays NaN */
float    cr_bf16_to_f32(uint16_t h);
uint16_t cr_f32_to_bf16(float f);
/* One element, through the widest type of its kind: the value of `from` at `src` stored as `to` at `dst` (C's conversions;
 * float to integer saturates, NaN becomes 0; to bool: != 0). */
void     cr_convert(void *dst, cr_dtype to, const void *src, cr_dtype from);
double   cr_load_f64(const void *src, cr_dtype from);
int64_t  cr_load_i64(const void *src, cr_dtype from);        /* u64 keeps its bits */
void     cr_store_f64(void *dst, cr_dtype to, double v);
void     cr_store_i64(void *dst, cr_dtype to, int64_t v);

#endif
