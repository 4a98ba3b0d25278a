/* blocks.h - how elements of any dtype, anywhere in memory, enter and leave the blocks that kernels compute on.  A block holds
 * lanes of one type: f32, f64, or i64 for every integer and bool (u64 keeps its bits); or bytes, 0 or 1, where all is bool.  The
 * values are cr_convert's. */
#ifndef CR_BLOCKS_H
#define CR_BLOCKS_H

#include "cpu.h"

typedef enum cr_lane { CR_LANE_F32, CR_LANE_F64, CR_LANE_I64, CR_LANE_BOOL } cr_lane;

static inline size_t cr_lane_size(cr_lane lane) { return lane == CR_LANE_BOOL ? 1 : lane == CR_LANE_F32 ? 4 : 8; }
static inline cr_lane cr_lane_of(cr_dtype dt) {      /* the lane that holds every value of dt, but f64 for u64 as a float */
    return dt == CR_F64 ? CR_LANE_F64 : dt >= CR_F16 ? CR_LANE_F32 : CR_LANE_I64;
}

/* Elements of a chunk of n in all: a 32nd, for the memory's own prefetchers start anew with each; whole blocks of any kernel. */
static inline int64_t cr_chunk(int64_t n) {
    const int64_t least = 16 << 10, most = 128 << 10, chunk = n / 32 & -least;
    return chunk < least ? least : chunk > most ? most : chunk;
}

/* n elements `stride` elements apart (0: one element, repeated) to consecutive lanes, and back (stride not 0). */
void cr_block_load(cr_lane lane, void *block, cr_dtype dt, const void *src, int64_t stride, int64_t n);
void cr_block_store(cr_lane lane, const void *block, cr_dtype dt, void *dst, int64_t stride, int64_t n);

/* Elements first .. first + n - 1, in row-major order over shape, of a strided array. */
typedef struct cr_place { int ndim; const int64_t *shape, *strides; } cr_place;
void cr_block_gather(cr_lane lane, void *block, cr_dtype dt, const void *base, const cr_place *at, int64_t first, int64_t n);
void cr_block_scatter(cr_lane lane, const void *block, cr_dtype dt, void *base, const cr_place *at, int64_t first, int64_t n);
int64_t cr_place_offset(const cr_place *at, int64_t i);      /* of element i, in elements */

#endif
