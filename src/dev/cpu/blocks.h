/* blocks.h - loading elements of any dtype and layout into the blocks that kernels compute on, and storing them back.
 *
 * A block holds lanes of one type: f32; f64; i64 for integers and bool (u64 keeps its bits); narrow
 * integers, which wrap; or bytes of bool, 0 or 1.  Conversions give the values of cr_convert. */
#ifndef CR_BLOCKS_H
#define CR_BLOCKS_H

#include "cpu.h"

typedef enum cr_lane {
    CR_LANE_F32,
    CR_LANE_F64,
    CR_LANE_I64,
    CR_LANE_BOOL,
    CR_LANE_U8,
    CR_LANE_U16,
    CR_LANE_U32,
    CR_LANE_I8,
    CR_LANE_I16,
    CR_LANE_I32
} cr_lane;

static inline cr_dtype cr_lane_dtype(cr_lane lane) {
    static const cr_dtype dtypes[] = {CR_F32, CR_F64, CR_I64, CR_BOOL, CR_U8, CR_U16, CR_U32, CR_I8, CR_I16, CR_I32};
    return dtypes[lane];
}
static inline size_t cr_lane_size(cr_lane lane) { return cr_dtype_size(cr_lane_dtype(lane)); }
static inline cr_lane cr_lane_of(cr_dtype dt) {      /* a lane that holds every value of dt */
    return dt == CR_F64 ? CR_LANE_F64 : cr_dtype_kind(dt) == CR_KIND_FLOAT ? CR_LANE_F32 : CR_LANE_I64;
}

static inline cr_lane cr_own_lane(cr_dtype dt) {     /* the lane as wide as dt; f32 for f16 and bf16 */
    static const cr_lane lanes[CR_DTYPES] = {
        [CR_BOOL] = CR_LANE_BOOL, [CR_U8] = CR_LANE_U8,   [CR_U16] = CR_LANE_U16,  [CR_U32] = CR_LANE_U32,
        [CR_U64] = CR_LANE_I64,   [CR_I8] = CR_LANE_I8,   [CR_I16] = CR_LANE_I16,  [CR_I32] = CR_LANE_I32,
        [CR_I64] = CR_LANE_I64,   [CR_F16] = CR_LANE_F32, [CR_BF16] = CR_LANE_F32, [CR_F32] = CR_LANE_F32,
        [CR_F64] = CR_LANE_F64,
    };
    return lanes[dt];
}

/* Elements of one chunk if there are n in all: n / 32 within bounds, because hardware prefetchers
 * restart with each chunk. */
static inline int64_t cr_chunk(int64_t n) {
    const int64_t least = 16 << 10, most = 128 << 10;
    return cr_iclamp(n / 32 & -least, least, most);
}

/* Loads n elements, `stride` elements apart (0: one element, repeated), into consecutive lanes; stores
 * them (stride not 0). */
void cr_block_load(cr_lane lane, void *block, cr_dtype dt, const void *src, int64_t stride, int64_t n);
void cr_block_store(cr_lane lane, const void *block, cr_dtype dt, void *dst, int64_t stride, int64_t n);

/* Elements first .. first + n - 1 of a strided array, in row-major order. */
typedef struct cr_block_layout { int ndim; const int64_t *shape, *strides; } cr_block_layout;
void cr_block_gather(cr_lane lane, void *block, cr_dtype dt, const void *base, const cr_block_layout *at, int64_t first,
                     int64_t n);
void cr_block_scatter(cr_lane lane, const void *block, cr_dtype dt, void *base, const cr_block_layout *at,
                      int64_t first, int64_t n);
int64_t cr_block_offset(const cr_block_layout *at, int64_t i); /* of element i, in elements */

#endif
