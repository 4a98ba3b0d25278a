/* factor_isa.c - factors of matrices in vectors: panels of large ones, and small ones side by side. */
#include "isa.h"
#include "product_vec.h"

#include <float.h>
#include <math.h>

#define T float
#define NAME(name) name##_f32
#define EPSILON ((double)FLT_EPSILON)
#define FLOOR ((double)FLT_MIN)
#define VEC vec
#define VEC_AT vec_at
#define MASK vmask
#define LANES V
#define FNMA v_fnma
#define MOST v_most
#define ABS(x) ((vec)((vint)(x) & INT32_MAX))
#define SQRT v_sqrt
#define GREATER m_gt
#define EQUAL m_eq
#define BLEND v_blend
#include "product_transpose.h"
#include "factor_blocks.h"
#include "factor_lanes.h"
#include "factor_values.h"
#undef T
#undef NAME
#undef EPSILON
#undef FLOOR
#undef FOR_LANES
#undef VEC
#undef VEC_AT
#undef MASK
#undef LANES
#undef FNMA
#undef MOST
#undef ABS
#undef SQRT
#undef GREATER
#undef EQUAL
#undef BLEND
#define T double
#define NAME(name) name##_f64
#define EPSILON DBL_EPSILON
#define FLOOR DBL_MIN
#define VEC vecd
#define VEC_AT vecd_at
#define MASK dmask
#define LANES VD
#define FNMA d_fnma
#define MOST d_most
#define ABS d_abs
#define SQRT d_sqrt
#define GREATER(a, b) md_lt(b, a)
#define EQUAL md_eq
#define BLEND d_blend
#include "product_transpose.h"
#include "factor_blocks.h"
#include "factor_lanes.h"
#include "factor_values.h"

const struct cr_factors CR_ISA_NAME(cr_factors) = {
    .eigh_f32 = eigh_f32, .svd_f32 = svd_f32, .cholesky_f32 = cholesky_f32, .lu_f32 = lu_f32,
    .eigh_f64 = eigh_f64, .svd_f64 = svd_f64, .cholesky_f64 = cholesky_f64, .lu_f64 = lu_f64,
    .substitute_f32 = substitute_f32, .cholesky_panel_f32 = cholesky_panel_f32, .lu_panel_f32 = lu_panel_f32,
    .substitute_f64 = substitute_f64, .cholesky_panel_f64 = cholesky_panel_f64, .lu_panel_f64 = lu_panel_f64,
    .solve_strip_f32 = solve_strip_f32, .transpose_matrix_f32 = transpose_matrix_f32,
    .solve_strip_f64 = solve_strip_f64, .transpose_matrix_f64 = transpose_matrix_f64,
    .tridiagonal_f32 = tridiagonal_f32, .bidiagonal_f32 = bidiagonal_f32,
    .tridiagonal_f64 = tridiagonal_f64, .bidiagonal_f64 = bidiagonal_f64,
};
