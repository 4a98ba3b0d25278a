/* matmul_isa.c - products on one thread, for one instruction set: CR_ISA 2, 3, 4 (x86-64-v2, v3, v4)
 * or 0 (the compiler's default). */
#if defined(__SANITIZE_ADDRESS__)                   /* checked loads in a hundred unrolled tiles: at -O3 GCC 12 takes
                                                     * minutes, at -O1 seconds */
#pragma GCC optimize("O1")
#endif
#include "../../core/array.h"
#include "../../core/dtype.h"
#include "product.h"
#include "product_vec.h"

/* of a strip of b: L1, but AVX-512 gains by fewer passes over c, even from L2 */
enum { DEPTH_BYTES = (CR_ISA == 4 ? 96 : 16) << 10 };

#define PER 1
#define MULTIPLY_ADD(s, x, y) NAME(fma)(x, y, s)

#define NAME(x) x##_f32
#define REAL float
#define VEC vec
#define LOOSE vec_at
#define LANES V
#include "product_tiles.h"
#include "product_kernels.h"

#ifdef __EMSCRIPTEN__                               /* every byte is downloaded: only f32 is for speed */
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif

/* operands of half precision, and f32 rounded to bf16 */
static vhalf part_of_halves(const uint16_t *p, int64_t n) {
    vhalf h = {0};
    memcpy(&h, p, (size_t)n * sizeof *p);
    return h;
}
#define SOURCE_NAME(x) x##_f16
#define SOURCE uint16_t
#define WHOLE(p) f16_widen(*(const vhalf_at *)(p))
#define PART(p, n) f16_widen(part_of_halves(p, n))
#define ONE(p) cr_f16_to_f32(*(p))
#include "product_packing.h"
#include "product_row.h"
#define SOURCE_NAME(x) x##_bf16
#define SOURCE uint16_t
#define WHOLE(p) bf16_widen(*(const vhalf_at *)(p))
#define PART(p, n) bf16_widen(part_of_halves(p, n))
#define ONE(p) cr_bf16_to_f32(*(p))
#include "product_packing.h"
#include "product_row.h"
#define SOURCE_NAME(x) x##_rounded
#define SOURCE float
#define WHOLE(p) bf16_rounded(*(const vec_at *)(p))
#define PART(p, n) bf16_rounded(part_load_f32(p, n))
#define ONE(p) cr_bf16_to_f32(cr_f32_to_bf16(*(p)))
#include "product_packing.h"
#ifdef __EMSCRIPTEN__                               /* one function for all tiles of f64, with loops */
#undef TILE_INLINE
#define TILE_INLINE __attribute__((noinline))
#undef CR_UNROLL
#define CR_UNROLL(n)
#endif
#undef SOURCE_NAME
#undef SOURCE
#undef WHOLE
#undef PART
#undef ONE
#undef NAME
#undef REAL
#undef VEC
#undef LOOSE
#undef LANES

#define NAME(x) x##_f64
#define REAL double
#define VEC vecd
#define LOOSE vecd_at
#define LANES VD
#include "product_tiles.h"
#include "product_kernels.h"

#ifdef __EMSCRIPTEN__
#pragma clang attribute pop
#endif

#define F32(pack, pack_rows) {direct_f32, row_f32, outer_f32, few_f32, pack, pack_rows, panels_f32, ROWS, COLUMNS_f32, \
    PANEL_f32, DEPTH_BYTES / (int)sizeof(float) / COLUMNS_f32, 1, sizeof(float)}
const struct cr_products CR_ISA_NAME(cr_products) = {
    .f32 = F32(pack_f32, pack_rows_f32),
    .f64 = {direct_f64, row_f64, outer_f64, few_f64, pack_f64, pack_rows_f64, panels_f64, ROWS, COLUMNS_f64, PANEL_f64,
            DEPTH_BYTES / (int)sizeof(double) / COLUMNS_f64, 1, sizeof(double)},
    .from_f16 = F32(pack_f16, pack_rows_f16),
    .from_bf16 = F32(pack_bf16, pack_rows_bf16),
    .rounded = F32(pack_rounded, pack_rows_rounded),
    .row_f16 = row_of_columns_f16,
    .row_bf16 = row_of_columns_bf16,
};
