/* conversions_isa.c - elements of any dtype to and from consecutive lanes (blocks.h).  f16 and bf16 pass to f32, and
 * f32 to integers, by vectors (casts_isa.c). */
#include "blocks.h"
#include "isa.h"
#include "isa_name.h"

#include <string.h>

/* ---- floats to integers: towards zero, saturating, NaN is 0 */
#define SATURATE_AS(name, type, float_type, low, high) \
    static inline type name(float_type v) { \
        return v <= (float_type)(low) ? (low) : v >= (float_type)(high) ? (high) : v != v ? 0 : (type)v; \
    }
#define SATURATE(integer, type, low, high) SATURATE_AS(integer##_of, type, double, low, high) \
    SATURATE_AS(integer##_of_f32, type, float, low, high)
SATURATE(u8, uint8_t, 0, UINT8_MAX)
SATURATE(u16, uint16_t, 0, UINT16_MAX)
SATURATE(u32, uint32_t, 0, UINT32_MAX)
SATURATE(u64, uint64_t, 0, UINT64_MAX)
SATURATE(i8, int8_t, INT8_MIN, INT8_MAX)
SATURATE(i16, int16_t, INT16_MIN, INT16_MAX)
SATURATE(i32, int32_t, INT32_MIN, INT32_MAX)
SATURATE(i64, int64_t, INT64_MIN, INT64_MAX)

static uint16_t f16_of(double v) { uint16_t h; cr_store_f64(&h, CR_F16, v); return h; }
static uint16_t bf16_of(double v) { uint16_t h; cr_store_f64(&h, CR_BF16, v); return h; }

/* One loop for each pair.  The unit stride is written out for the compiler to vectorise. */
#define LOAD(lane_type, type, expression) do {                                                      \
        const type *s = src;                                                                        \
        lane_type *d = block;                                                                       \
        if (stride == 1) for (int64_t i = 0; i < n; i++) { const type v = s[i]; d[i] = (lane_type)(expression); } \
        else for (int64_t i = 0; i < n; i++) { const type v = s[i * stride]; d[i] = (lane_type)(expression); } \
    } while (0)
#define STORE(lane_type, type, expression) do {                                                     \
        const lane_type *s = block;                                                                 \
        type *d = dst;                                                                              \
        if (stride == 1) for (int64_t i = 0; i < n; i++) { const lane_type v = s[i]; d[i] = (type)(expression); } \
        else for (int64_t i = 0; i < n; i++) { const lane_type v = s[i]; d[i * stride] = (type)(expression); } \
    } while (0)

static void load_f32(float *block, cr_dtype dt, const void *src, int64_t stride, int64_t n) {
    switch (dt) {
        case CR_BOOL: LOAD(float, uint8_t, v != 0); break;
        case CR_U8:   LOAD(float, uint8_t, v); break;
        case CR_U16:  LOAD(float, uint16_t, v); break;
        case CR_U32:  LOAD(float, uint32_t, v); break;
        case CR_U64:  LOAD(float, uint64_t, (double)v); break;     /* through f64, as cr_convert */
        case CR_I8:   LOAD(float, int8_t, v); break;
        case CR_I16:  LOAD(float, int16_t, v); break;
        case CR_I32:  LOAD(float, int32_t, v); break;
        case CR_I64:  LOAD(float, int64_t, (double)v); break;
        case CR_F16:
            if (stride == 1) cr_cpu_vec()->casts->f16_to_f32(block, src, n);
            else LOAD(float, uint16_t, cr_f16_to_f32(v));
            break;
        case CR_BF16:
            if (stride == 1) cr_cpu_vec()->casts->bf16_to_f32(block, src, n);
            else LOAD(float, uint16_t, cr_bf16_to_f32(v));
            break;
        case CR_F32:
            if (stride == 1) memcpy(block, src, (size_t)n * 4);
            else if (stride == 2)
                for (int64_t i = 0; i < n; i++) block[i] = ((const float *)src)[2 * i];      /* x[::2]: by vectors */
            else LOAD(float, float, v);
            break;
        default:      LOAD(float, double, v); break;
    }
}

static void load_f64(double *block, cr_dtype dt, const void *src, int64_t stride, int64_t n) {
    switch (dt) {
        case CR_BOOL: LOAD(double, uint8_t, v != 0); break;
        case CR_U8:   LOAD(double, uint8_t, v); break;
        case CR_U16:  LOAD(double, uint16_t, v); break;
        case CR_U32:  LOAD(double, uint32_t, v); break;
        case CR_U64:  LOAD(double, uint64_t, v); break;
        case CR_I8:   LOAD(double, int8_t, v); break;
        case CR_I16:  LOAD(double, int16_t, v); break;
        case CR_I32:  LOAD(double, int32_t, v); break;
        case CR_I64:  LOAD(double, int64_t, v); break;
        case CR_F16:  LOAD(double, uint16_t, cr_f16_to_f32(v)); break;
        case CR_BF16: LOAD(double, uint16_t, cr_bf16_to_f32(v)); break;
        case CR_F32:  LOAD(double, float, v); break;
        default:      if (stride == 1) memcpy(block, src, (size_t)n * 8); else LOAD(double, double, v); break;
    }
}

/* The bytes of a foreign bool may have any value: they become 0 or 1. */
static void load_bool(uint8_t *block, const void *src, int64_t stride, int64_t n) { LOAD(uint8_t, uint8_t, v != 0); }

static void load_i64(int64_t *block, cr_dtype dt, const void *src, int64_t stride, int64_t n) {
    switch (dt) {
        case CR_BOOL: LOAD(int64_t, uint8_t, v != 0); break;
        case CR_U8:   LOAD(int64_t, uint8_t, v); break;
        case CR_U16:  LOAD(int64_t, uint16_t, v); break;
        case CR_U32:  LOAD(int64_t, uint32_t, v); break;
        case CR_I8:   LOAD(int64_t, int8_t, v); break;
        case CR_I16:  LOAD(int64_t, int16_t, v); break;
        case CR_I32:  LOAD(int64_t, int32_t, v); break;
        case CR_U64:
        case CR_I64:
            if (stride == 1) memcpy(block, src, (size_t)n * 8);
            else LOAD(int64_t, int64_t, v);
            break;
        case CR_F16:  LOAD(int64_t, uint16_t, i64_of_f32(cr_f16_to_f32(v))); break;
        case CR_BF16: LOAD(int64_t, uint16_t, i64_of_f32(cr_bf16_to_f32(v))); break;
        case CR_F32:  LOAD(int64_t, float, i64_of_f32(v)); break;
        default:      LOAD(int64_t, double, i64_of(v)); break;
    }
}

static void store_i64(const int64_t *block, cr_dtype dt, void *dst, int64_t stride, int64_t n);

/* Conversions between integers of different widths go through i64 and wrap.  Those of one width, and
 * conversions to bool, are direct. */
enum { PIECE = 512 };
static void load_narrow(cr_dtype own, void *block, cr_dtype dt, const void *src, int64_t stride, int64_t n) {
    const int64_t size = (int64_t)cr_dtype_size(own), step = stride * (int64_t)cr_dtype_size(dt);
    if (dt == own && stride == 1) { memcpy(block, src, (size_t)(n * size)); return; }
    int64_t wide[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t length = n - i < PIECE ? n - i : PIECE;
        load_i64(wide, dt, (const char *)src + i * step, stride, length);
        store_i64(wide, own, (char *)block + i * size, 1, length);
    }
}

static void store_narrow(cr_dtype own, const void *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    const int64_t size = (int64_t)cr_dtype_size(own), step = stride * (int64_t)cr_dtype_size(dt);
    if (dt == own && stride == 1) { memcpy(dst, block, (size_t)(n * size)); return; }
    if (dt == CR_BOOL && size == 1) { STORE(uint8_t, uint8_t, v != 0); return; }
    if (dt == CR_BOOL && size == 2) { STORE(uint16_t, uint8_t, v != 0); return; }
    if (dt == CR_BOOL && size == 4) { STORE(uint32_t, uint8_t, v != 0); return; }
    int64_t wide[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t length = n - i < PIECE ? n - i : PIECE;
        load_i64(wide, own, (const char *)block + i * size, 1, length);
        store_i64(wide, dt, (char *)dst + i * step, stride, length);
    }
}

static void load_block(cr_lane lane, void *block, cr_dtype dt, const void *src, int64_t stride, int64_t n) {
    int64_t wanted = n;
    if (stride == 0) n = n > 0;
    if (lane == CR_LANE_F32) load_f32(block, dt, src, stride, n);
    else if (lane == CR_LANE_F64) load_f64(block, dt, src, stride, n);
    else if (lane == CR_LANE_I64) load_i64(block, dt, src, stride, n);
    else if (lane == CR_LANE_BOOL) load_bool(block, src, stride, n);
    else load_narrow(cr_lane_dtype(lane), block, dt, src, stride, n);
    const size_t size = cr_lane_size(lane);
    if (n < wanted) cr_cpu_vec()->casts->repeat(block, cr_pattern(block, size), wanted * (int64_t)size);
}

#define INTEGERS(lane, of) \
        case CR_U8:   STORE(lane, uint8_t, u8_##of(v)); break;           \
        case CR_U16:  STORE(lane, uint16_t, u16_##of(v)); break;         \
        case CR_U32:  STORE(lane, uint32_t, u32_##of(v)); break;         \
        case CR_U64:  STORE(lane, uint64_t, u64_##of(v)); break;         \
        case CR_I8:   STORE(lane, int8_t, i8_##of(v)); break;            \
        case CR_I16:  STORE(lane, int16_t, i16_##of(v)); break;          \
        case CR_I32:  STORE(lane, int32_t, i32_##of(v)); break;          \
        case CR_I64:  STORE(lane, int64_t, i64_##of(v)); break

static void store_f32(const float *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    if (stride == 1 && cr_cpu_vec()->casts->f32_to[dt]) { cr_cpu_vec()->casts->f32_to[dt](dst, block, n); return; }
    switch (dt) {
        case CR_BOOL: STORE(float, uint8_t, v != 0); break;
        INTEGERS(float, of_f32);
        case CR_F16:
            if (stride == 1) cr_cpu_vec()->casts->f32_to_f16(dst, block, n);
            else STORE(float, uint16_t, cr_f32_to_f16(v));
            break;
        case CR_BF16:
            if (stride == 1) cr_cpu_vec()->casts->f32_to_bf16(dst, block, n);
            else STORE(float, uint16_t, cr_f32_to_bf16(v));
            break;
        case CR_F32:  if (stride == 1) memcpy(dst, block, (size_t)n * 4); else STORE(float, float, v); break;
        default:      STORE(float, double, v); break;
    }
}

static void store_f64(const double *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    switch (dt) {
        case CR_BOOL: STORE(double, uint8_t, v != 0); break;
        INTEGERS(double, of);
        case CR_F16:  STORE(double, uint16_t, f16_of(v)); break;
        case CR_BF16: STORE(double, uint16_t, bf16_of(v)); break;
        case CR_F32:  STORE(double, float, v); break;
        default:      if (stride == 1) memcpy(dst, block, (size_t)n * 8); else STORE(double, double, v); break;
    }
}

static void store_i64(const int64_t *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    switch (dt) {
        case CR_BOOL: STORE(int64_t, uint8_t, v != 0); break;
        case CR_U8:   case CR_I8:  STORE(int64_t, uint8_t, v); break;
        case CR_U16:  case CR_I16: STORE(int64_t, uint16_t, v); break;
        case CR_U32:  case CR_I32: STORE(int64_t, uint32_t, v); break;
        case CR_U64:
        case CR_I64:
            if (stride == 1) memcpy(dst, block, (size_t)n * 8);
            else STORE(int64_t, int64_t, v);
            break;
        case CR_F16:  STORE(int64_t, uint16_t, f16_of((double)v)); break;
        case CR_BF16: STORE(int64_t, uint16_t, bf16_of((double)v)); break;
        case CR_F32:  STORE(int64_t, float, (double)v); break;
        default:      STORE(int64_t, double, v); break;
    }
}

static void store_bool(const uint8_t *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    enum { F16_ONE = 0x3c00, BF16_ONE = 0x3f80 };
    switch (dt) {
        case CR_BOOL: case CR_U8: case CR_I8: STORE(uint8_t, uint8_t, v); break;
        case CR_U16:  case CR_I16: STORE(uint8_t, uint16_t, v); break;
        case CR_U32:  case CR_I32: STORE(uint8_t, uint32_t, v); break;
        case CR_U64:  case CR_I64: STORE(uint8_t, uint64_t, v); break;
        case CR_F16:  STORE(uint8_t, uint16_t, v * F16_ONE); break;
        case CR_BF16: STORE(uint8_t, uint16_t, v * BF16_ONE); break;
        case CR_F32:  STORE(uint8_t, float, v); break;
        default:      STORE(uint8_t, double, v); break;
    }
}

static void store(cr_lane lane, const void *block, cr_dtype dt, void *dst, int64_t stride, int64_t n) {
    if (lane == CR_LANE_F32) store_f32(block, dt, dst, stride, n);
    else if (lane == CR_LANE_F64) store_f64(block, dt, dst, stride, n);
    else if (lane == CR_LANE_I64) store_i64(block, dt, dst, stride, n);
    else if (lane == CR_LANE_BOOL) store_bool(block, dt, dst, stride, n);
    else store_narrow(cr_lane_dtype(lane), block, dt, dst, stride, n);
}

const struct cr_conversions CR_ISA_NAME(cr_conversions) = {load_block, store};
