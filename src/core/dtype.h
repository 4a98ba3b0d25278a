/* dtype.h - what each dtype is (one table of traits), and the conversion of single elements. */
#ifndef CR_DTYPE_H
#define CR_DTYPE_H

#include <chainrule.h>

typedef enum cr_kind { CR_KIND_BOOL, CR_KIND_UNSIGNED, CR_KIND_SIGNED, CR_KIND_FLOAT } cr_kind;

typedef struct cr_dtype_traits {
    const char *name;                               /* "float32" */
    cr_kind kind;
    uint8_t size;                                   /* bytes */
    uint8_t digits;                                 /* every integer from 0 to 2^digits - 1 is exact; floats: with
                                                     * the implicit bit */
    cr_dtype wide;                                  /* elementwise programs compute in it, statistics are kept in it */
    cr_dtype sum;                                   /* sums and products over elements accumulate in it */
    cr_dtype bits;                                  /* unsigned integer of the same size, for elements that are only
                                                     * moved */
} cr_dtype_traits;
extern const cr_dtype_traits cr_dtypes[CR_DTYPES];

bool cr_dtype_valid(int dt);
static inline cr_kind  cr_dtype_kind(cr_dtype dt) { return cr_dtypes[dt].kind; }
static inline int      cr_dtype_digits(cr_dtype dt) { return cr_dtypes[dt].digits; }
static inline cr_dtype cr_dtype_wide(cr_dtype dt) { return cr_dtypes[dt].wide; }
static inline cr_dtype cr_dtype_sum(cr_dtype dt) { return cr_dtypes[dt].sum; }
static inline cr_dtype cr_dtype_bits(cr_dtype dt) { return cr_dtypes[dt].bits; }
/* f16 or bf16: floats that compute in f32 */
static inline bool     cr_dtype_is_half(cr_dtype dt) { return cr_dtype_wide(dt) != dt; }

/* ---- one element */
float    cr_f16_to_f32(uint16_t h);
uint16_t cr_f32_to_f16(float f);                    /* to nearest, ties to even; NaN stays NaN */
float    cr_bf16_to_f32(uint16_t h);
uint16_t cr_f32_to_bf16(float f);
/* Stores the element of dtype `from` at `src` as dtype `to` at `dst`, through the widest type of its
 * kind.  Conversions are C's, but float to integer saturates and maps NaN to 0; to bool: != 0. */
void     cr_convert(void *dst, cr_dtype to, const void *src, cr_dtype from);
double   cr_load_f64(const void *src, cr_dtype from);
int64_t  cr_load_i64(const void *src, cr_dtype from);        /* u64 keeps its bits */
void     cr_store_f64(void *dst, cr_dtype to, double v);
void     cr_store_i64(void *dst, cr_dtype to, int64_t v);

#endif
