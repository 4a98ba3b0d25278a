/* factor_isa.c - factors of small matrices, side by side in vectors. */
#include "isa.h"

#include <float.h>
#include <math.h>

#define T float
#define NAME(name) name##_f32
#define EPSILON ((double)FLT_EPSILON)
#define FLOOR ((double)FLT_MIN)
#include "factor_lanes.h"
#undef T
#undef NAME
#undef EPSILON
#undef FLOOR
#undef FOR_LANES
#define T double
#define NAME(name) name##_f64
#define EPSILON DBL_EPSILON
#define FLOOR DBL_MIN
#include "factor_lanes.h"

const struct cr_factors CR_ISA_NAME(cr_factors) = {
    .eigh_f32 = eigh_f32, .svd_f32 = svd_f32, .cholesky_f32 = cholesky_f32, .lu_f32 = lu_f32,
    .eigh_f64 = eigh_f64, .svd_f64 = svd_f64, .cholesky_f64 = cholesky_f64, .lu_f64 = lu_f64,
    .substitute_f32 = substitute_f32, .substitute_f64 = substitute_f64,
};
