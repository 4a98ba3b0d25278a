/* dtype.c - the traits of dtypes, promotion, and the conversion of single elements. */
#include "dtype.h"
#include "status.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

const cr_dtype_traits cr_dtypes[CR_DTYPES] = {
    /*            name      kind              size digits  wide     sum      bits */
    [CR_BOOL] = {"bool",     CR_KIND_BOOL,     1,   1,  CR_BOOL, CR_I64, CR_U8},
    [CR_U8]   = {"uint8",    CR_KIND_UNSIGNED, 1,   8,  CR_U8,   CR_I64, CR_U8},
    [CR_U16]  = {"uint16",   CR_KIND_UNSIGNED, 2,  16,  CR_U16,  CR_I64, CR_U16},
    [CR_U32]  = {"uint32",   CR_KIND_UNSIGNED, 4,  32,  CR_U32,  CR_I64, CR_U32},
    [CR_U64]  = {"uint64",   CR_KIND_UNSIGNED, 8,  64,  CR_U64,  CR_I64, CR_U64},
    [CR_I8]   = {"int8",     CR_KIND_SIGNED,   1,   7,  CR_I8,   CR_I64, CR_U8},
    [CR_I16]  = {"int16",    CR_KIND_SIGNED,   2,  15,  CR_I16,  CR_I64, CR_U16},
    [CR_I32]  = {"int32",    CR_KIND_SIGNED,   4,  31,  CR_I32,  CR_I64, CR_U32},
    [CR_I64]  = {"int64",    CR_KIND_SIGNED,   8,  63,  CR_I64,  CR_I64, CR_U64},
    [CR_F16]  = {"float16",  CR_KIND_FLOAT,    2,  11,  CR_F32,  CR_F32, CR_U16},
    [CR_BF16] = {"bfloat16", CR_KIND_FLOAT,    2,   8,  CR_F32,  CR_F32, CR_U16},
    [CR_F32]  = {"float32",  CR_KIND_FLOAT,    4,  24,  CR_F32,  CR_F32, CR_U32},
    [CR_F64]  = {"float64",  CR_KIND_FLOAT,    8,  53,  CR_F64,  CR_F64, CR_U64},
};

bool cr_dtype_valid(int dt) { return dt >= 0 && dt < CR_DTYPES; }
const char *cr_dtype_name(cr_dtype dt) { return cr_dtype_valid((int)dt) ? cr_dtypes[dt].name : "not a dtype"; }
size_t cr_dtype_size(cr_dtype dt) { return cr_dtype_valid((int)dt) ? cr_dtypes[dt].size : 0; }
bool cr_dtype_is_float(cr_dtype dt) { return cr_dtype_valid((int)dt) && cr_dtypes[dt].kind == CR_KIND_FLOAT; }

/* The higher kind wins (float, integer, bool).  Two floats give the wider one, f16 with bf16 gives
 * f32.  A signed and an unsigned integer give the narrowest signed dtype that holds both, at most i64.
 * PyTorch does not define u16, u32 and u64 with other integers: here they follow the rule of u8. */
cr_dtype cr_promote(cr_dtype a, cr_dtype b) {
    if (a == b || !cr_dtype_valid((int)a) || !cr_dtype_valid((int)b)) return a;
    cr_kind ka = cr_dtypes[a].kind, kb = cr_dtypes[b].kind;
    if (ka == CR_KIND_FLOAT || kb == CR_KIND_FLOAT) {
        if (ka != kb) return ka == CR_KIND_FLOAT ? a : b;
        if (cr_dtypes[a].size == cr_dtypes[b].size) return CR_F32;
        return cr_dtypes[a].size > cr_dtypes[b].size ? a : b;
    }
    if (ka == CR_KIND_BOOL) return b;
    if (kb == CR_KIND_BOOL) return a;
    if (ka == kb) return cr_dtypes[a].size > cr_dtypes[b].size ? a : b;
    cr_dtype s = ka == CR_KIND_SIGNED ? a : b, u = ka == CR_KIND_SIGNED ? b : a;
    if (cr_dtypes[s].size > cr_dtypes[u].size) return s;
    return cr_dtypes[u].size == 1 ? CR_I16 : cr_dtypes[u].size == 2 ? CR_I32 : CR_I64;
}

static _Atomic int chosen = CR_F32;                 /* cr_set_default_dtype */

cr_dtype cr_default_dtype(void) { return (cr_dtype)atomic_load_explicit(&chosen, memory_order_relaxed); }

cr_status cr_set_default_dtype(cr_dtype dt) {
    if (!cr_dtype_valid((int)dt) || !cr_dtype_is_float(dt))
        return cr_fail(CR_BAD_TYPE, "set_default_dtype", "only a float dtype can be the default, got %s",
                       cr_dtype_valid((int)dt) ? cr_dtype_name(dt) : "no dtype");
    atomic_store_explicit(&chosen, (int)dt, memory_order_relaxed);
    return CR_OK;
}

bool cr_can_cast(cr_dtype from, cr_dtype to) {
    if (!cr_dtype_valid((int)from) || !cr_dtype_valid((int)to)) return false;
    return cr_dtype_is_float(to) || (!cr_dtype_is_float(from) && (from == CR_BOOL || to != CR_BOOL));
}

/* ---- half precision: bits by hand, the same on every machine */
static float from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static uint32_t to_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

float cr_bf16_to_f32(uint16_t h) { return from_bits((uint32_t)h << 16); }
uint16_t cr_f32_to_bf16(float f) {
    uint32_t u = to_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);       /* NaN: keep it one */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float cr_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, fraction = h & 0x3ffu;
    if (exponent == 31) return from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float f = (float)fraction * 0x1p-24f;           /* a denormal, exactly */
    return sign ? -f : f;
}

uint16_t cr_f32_to_f16(float f) {
    uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);                        /* 65520 and up round to infinity */
    if (a >= 0x38800000u) return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
    float scaled = from_bits(a) + 0.5f;             /* adding 1/2 leaves units of 2^-24 in the low bits, rounded to
                                                     * even */
    return (uint16_t)(sign | (to_bits(scaled) - to_bits(0.5f)));
}

/* ---- single elements */
double cr_load_f64(const void *p, cr_dtype dt) {
    switch (dt) {
        case CR_F16:  { uint16_t h; memcpy(&h, p, 2); return (double)cr_f16_to_f32(h); }
        case CR_BF16: { uint16_t h; memcpy(&h, p, 2); return (double)cr_bf16_to_f32(h); }
        case CR_F32:  { float f; memcpy(&f, p, 4); return (double)f; }
        case CR_F64:  { double d; memcpy(&d, p, 8); return d; }
        case CR_U64:  { uint64_t u; memcpy(&u, p, 8); return (double)u; }
        default: return (double)cr_load_i64(p, dt);
    }
}

/* Rounds towards zero and saturates at the bounds; NaN is 0. */
static int64_t to_integer(double v, double low, double high, int64_t lowest, int64_t highest) {
    if (isnan(v)) return 0;
    return v <= low ? lowest : v >= high ? highest : (int64_t)v;
}
static uint64_t to_u64(double v) {
    if (isnan(v) || v <= 0) return 0;
    return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

int64_t cr_load_i64(const void *p, cr_dtype dt) {
    switch (dt) {
        case CR_BOOL: { uint8_t v; memcpy(&v, p, 1); return v != 0; }
        case CR_U8:   { uint8_t v; memcpy(&v, p, 1); return v; }
        case CR_U16:  { uint16_t v; memcpy(&v, p, 2); return v; }
        case CR_U32:  { uint32_t v; memcpy(&v, p, 4); return v; }
        case CR_I8:   { int8_t v; memcpy(&v, p, 1); return v; }
        case CR_I16:  { int16_t v; memcpy(&v, p, 2); return v; }
        case CR_I32:  { int32_t v; memcpy(&v, p, 4); return v; }
        case CR_I64:  case CR_U64: { int64_t v; memcpy(&v, p, 8); return v; }
        default: return to_integer(cr_load_f64(p, dt), -0x1p63, 0x1p63, INT64_MIN, INT64_MAX);
    }
}

void cr_store_i64(void *p, cr_dtype dt, int64_t v) {
    switch (dt) {
        case CR_BOOL: { uint8_t x = v != 0; memcpy(p, &x, 1); break; }
        case CR_U8:   case CR_I8:  { uint8_t x = (uint8_t)v; memcpy(p, &x, 1); break; }
        case CR_U16:  case CR_I16: { uint16_t x = (uint16_t)v; memcpy(p, &x, 2); break; }
        case CR_U32:  case CR_I32: { uint32_t x = (uint32_t)v; memcpy(p, &x, 4); break; }
        case CR_U64:  case CR_I64: memcpy(p, &v, 8); break;
        case CR_F16: case CR_BF16: case CR_F32: case CR_F64: cr_store_f64(p, dt, (double)v); break;
        case CR_DTYPES: break;
    }
}

/* f64 -> f16 and bf16 through f32 would round twice.  Rounding to odd first keeps the sticky bit for
 * the one rounding to nearest even. */
static float round_to_odd(double v) {
    float f = (float)v;
    if (isnan(v) || (double)f == v || isinf(f)) return f;
    uint32_t u = to_bits(f);
    if (fabs((double)f) > fabs(v)) u--;             /* towards zero */
    return from_bits(u | 1u);
}

void cr_store_f64(void *p, cr_dtype dt, double v) {
    switch (dt) {
        case CR_BOOL: { uint8_t x = v != 0; memcpy(p, &x, 1); break; }
        case CR_F16:  { uint16_t h = cr_f32_to_f16(round_to_odd(v)); memcpy(p, &h, 2); break; }
        case CR_BF16: { uint16_t h = cr_f32_to_bf16(round_to_odd(v)); memcpy(p, &h, 2); break; }
        case CR_F32:  { float f = (float)v; memcpy(p, &f, 4); break; }
        case CR_F64:  memcpy(p, &v, 8); break;
        case CR_U64:  { uint64_t u = to_u64(v); memcpy(p, &u, 8); break; }
        case CR_I64:  cr_store_i64(p, dt, to_integer(v, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)); break;
        case CR_DTYPES: break;
        case CR_U8: case CR_U16: case CR_U32: case CR_I8: case CR_I16: case CR_I32: {
            const double high = ldexp(1, cr_dtypes[dt].digits) - 1,
                         low = cr_dtypes[dt].kind == CR_KIND_SIGNED ? -high - 1 : 0;
            cr_store_i64(p, dt, to_integer(v, low, high, (int64_t)low, (int64_t)high));
        }
    }
}

void cr_convert(void *dst, cr_dtype to, const void *src, cr_dtype from) {
    if (from == to) memcpy(dst, src, cr_dtypes[to].size);
    else if (cr_dtypes[from].kind == CR_KIND_FLOAT || (cr_dtypes[to].kind == CR_KIND_FLOAT && from == CR_U64))
        cr_store_f64(dst, to, cr_load_f64(src, from));
    else cr_store_i64(dst, to, cr_load_i64(src, from));
}
