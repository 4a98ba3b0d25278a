/* elementwise_isa.c - the instructions of elementwise programs over blocks: f32 in vectors of our own
 * functions, f64 likewise where vmath_f64.h has one, else in plain C over libm; and the compiled
 * programs of fused.gen.h.  elementwise.c cuts the blocks. */
#include "../scalar.h"
#include "isa.h"
#include "vmath_f64.h"

#define LANES V
#include "fused.gen.h"

#define ARGUMENTS(T) T *y, const T *a, const T *b, const T *c, int64_t n

/* ---- f32: v_name of vmath.h */
#define CALL_1(op, i) v_##op(FETCH(a + i))
#define CALL_2(op, i) v_##op(FETCH(a + i), FETCH(b + i))
#define CALL_3(op, i) v_##op(FETCH(a + i), FETCH(b + i), FETCH(c + i))
#define F32(OP, op, operands, value, cuda, wgsl, by)                                                       \
    static void f32_##op(ARGUMENTS(float)) {                                                                \
        (void)b; (void)c;                                                                                   \
        for (int64_t i = 0; i < n; i += V) STORE(y + i, CALL_##operands(op, i));                            \
    }
CR_FLOAT_OPCODES(F32)

#ifdef __EMSCRIPTEN__                               /* every byte is downloaded: only f32 is for speed */
#pragma clang attribute push(__attribute__((minsize)), apply_to = function)
#endif

/* ---- f64: the expression of ops.def, or vd_name of vmath_f64.h.  There the last, partial vector goes through a
 * whole one on the stack. */
typedef double vecd_at __attribute__((vector_size(V_BYTES), aligned(8), may_alias));
#define VALUES_1 a[i], 0, 0
#define VALUES_2 a[i], b[i], 0
#define VALUES_3 a[i], b[i], c[i]
#define SCALAR(op, operands, value)                                                                         \
    static inline double f64_of_##op(double a, double b, double c) {                                        \
        (void)b; (void)c;                                                                                   \
        return value;                                                                                       \
    }                                                                                                       \
    static void f64_##op(ARGUMENTS(double)) {                                                               \
        (void)b; (void)c;                                                                                   \
        for (int64_t i = 0; i < n; i++) y[i] = f64_of_##op(VALUES_##operands);                              \
    }
#define VECTOR(op, operands, value)                                                                                 \
    static void f64_##op(ARGUMENTS(double)) {                                                               \
        (void)b; (void)c;                                                                                   \
        for (; n >= VD; n -= VD, a += VD, y += VD) *(vecd_at *)y = vd_##op(*(const vecd_at *)a);            \
        vecd rest = {0};                                                                                    \
        memcpy(&rest, a, (size_t)n * sizeof *a);                                                            \
        rest = vd_##op(rest);                                                                               \
        memcpy(y, &rest, (size_t)n * sizeof *y);                                                            \
    }
#define F64(OP, op, operands, value, cuda, wgsl, by) by(op, operands, value)
CR_FLOAT_OPCODES(F64)

#ifdef __EMSCRIPTEN__
#pragma clang attribute pop
#endif

#define ENTRIES(OP, op, operands, value, cuda, wgsl, by) .f32[CR_OP_##OP] = f32_##op, .f64[CR_OP_##OP] = f64_##op,
const struct cr_blocks CR_ISA_NAME(cr_blocks) = {
    .lanes = V,
    CR_FLOAT_OPCODES(ENTRIES)
    .fused = fused_table,
    .n_fused = sizeof fused_table / sizeof *fused_table,
};
