/* order.h - keys: unsigned integers that compare as the elements do. */
#ifndef CR_ORDER_H
#define CR_ORDER_H

#include "cpu.h"

/* The key of a float from its bits: s is the sign bit, infinity the bits of infinity.  -0 equals 0;
 * NaN is all ones, the largest. */
static inline uint64_t cr_float_key(uint64_t bits, uint64_t s, uint64_t infinity) {
    uint64_t size = bits & (s - 1), key = bits & s ? s - size : s + size;
    return size > infinity ? 2 * s - 1 : key;
}

/* The key of element i of x. */
static inline uint64_t cr_key(cr_dtype dt, const void *x, int64_t i) {
    switch (dt) {
        case CR_BOOL: return ((const uint8_t *)x)[i] != 0;
        case CR_U8:   return ((const uint8_t *)x)[i];
        case CR_U16:  return ((const uint16_t *)x)[i];
        case CR_U32:  return ((const uint32_t *)x)[i];
        case CR_U64:  return ((const uint64_t *)x)[i];
        case CR_I8:   return (uint64_t)(((const int8_t *)x)[i] + INT64_C(0x80));
        case CR_I16:  return (uint64_t)(((const int16_t *)x)[i] + INT64_C(0x8000));
        case CR_I32:  return (uint64_t)(((const int32_t *)x)[i] + INT64_C(0x80000000));
        case CR_I64:  return ((const uint64_t *)x)[i] ^ UINT64_C(1) << 63;
        case CR_F16:  return cr_float_key(((const uint16_t *)x)[i], 0x8000, 0x7c00);
        case CR_BF16: return cr_float_key(((const uint16_t *)x)[i], 0x8000, 0x7f80);
        case CR_F32:  return cr_float_key(((const uint32_t *)x)[i], 0x80000000, 0x7f800000);
        case CR_F64:  return cr_float_key(((const uint64_t *)x)[i], UINT64_C(1) << 63, UINT64_C(0x7ff) << 52);
        case CR_DTYPES: break;
    }
    return 0;
}

/* The key of NaN, all ones; 0 for dtypes without NaN. */
static inline uint64_t cr_nan_key(cr_dtype dt) {
    return cr_dtype_kind(dt) == CR_KIND_FLOAT ? UINT64_MAX >> (64 - 8 * cr_dtypes[dt].size) : 0;
}

#endif
