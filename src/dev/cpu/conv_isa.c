/* conv_isa.c - the kernels of convolutions for one instruction set: CR_ISA 2, 3, 4 (x86-64-v2, v3, v4) or 0 (whatever
 * the compiler has). */
#if defined(__SANITIZE_ADDRESS__)
#pragma GCC optimize("O1")
#endif
#include "../../core/array.h"
#include "conv.h"
#include "product_vec.h"

#define NAME(x) x##_f32
#define REAL float
#define VEC vec
#define MASK vint
#define BIT int32_t
#define LOOSE vec_at
#define LANES V
#include "conv_kernels.h"
#undef NAME
#undef REAL
#undef VEC
#undef MASK
#undef BIT
#undef LOOSE
#undef LANES

#define NAME(x) x##_f64
#define REAL double
#define VEC vecd
#define MASK vlong
#define BIT int64_t
#define LOOSE vecd_at
#define LANES VD
#include "conv_kernels.h"

const struct cr_convs CR_ISA_NAME(cr_convs) = {
    .f32 = {pack_f32, weights_f32, rows_f32, row_weights_f32, every_second_f32, into_every_second_f32},
    .f64 = {pack_f64, weights_f64, rows_f64, row_weights_f64, every_second_f64, into_every_second_f64},
};
