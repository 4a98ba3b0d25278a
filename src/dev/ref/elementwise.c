/* elementwise.c - runs a program one element and one instruction at a time.  Floats: libm in double,
 * whatever the walk's compute dtype (loads are rounded to it, so that 2^24 + 1 equals 2^24 in a
 * float32 comparison).  Integers: wrapped to it after each step. */
#include <math.h>
#include <stdlib.h>
#include "../scalar.h"
#include "ref.h"

static double float_op(int op, double a, double b, double c) {
    switch (op) {
#define CASE(OP, op, operands, value, cuda, wgsl, by) case CR_OP_##OP: return value;
    CR_FLOAT_OPCODES(CASE)
    default: return NAN;                                              /* bit operations: refused for floats */
    }
}

static int bits_of(cr_dtype dt) { return dt == CR_BOOL ? 1 : 8 * (int)cr_dtype_size(dt); }

static int64_t wrap(cr_dtype dt, int64_t v) {
    switch (dt) {
    case CR_BOOL: return v != 0;
    case CR_U8: return (uint8_t)v;
    case CR_U16: return (uint16_t)v;
    case CR_U32: return (uint32_t)v;
    case CR_I8: return (int8_t)v;
    case CR_I16: return (int16_t)v;
    case CR_I32: return (int32_t)v;
    default: return v;
    }
}

/* Quotient towards zero, b is not 0; the smallest number by -1 wraps. */
static int64_t int_div(cr_dtype dt, int64_t a, int64_t b) {
    if (dt == CR_U64) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? mul_wrap(a, -1) : a / b;
}

static int64_t int_mod(cr_dtype dt, int64_t a, int64_t b) {
    return add_wrap(a, mul_wrap(-1, mul_wrap(int_div(dt, a, b), b)));
}

/* Floor and sign of the divisor, as Python. */
static bool rounds_down(cr_dtype dt, int64_t a, int64_t b) {
    return dt != CR_U64 && int_mod(dt, a, b) != 0 && (a < 0) != (b < 0);
}

/* A negative exponent gives the integer part of the power: 1, -1 or 0. */
static int64_t int_pow(cr_dtype dt, int64_t a, int64_t b) {
    if (dt != CR_U64 && b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t y = 1;
    for (uint64_t n = (uint64_t)b; n; n >>= 1, a = mul_wrap(a, a)) if (n & 1) y = mul_wrap(y, a);
    return y;
}

static int64_t int_shift_left(cr_dtype dt, int64_t a, int64_t b) {
    return (uint64_t)b >= (uint64_t)bits_of(dt) ? 0 : (int64_t)((uint64_t)a << b);
}

static int64_t int_shift_right(cr_dtype dt, int64_t a, int64_t b) {
    if ((uint64_t)b >= (uint64_t)bits_of(dt)) return dt != CR_U64 && a < 0 ? -1 : 0;
    return dt == CR_U64 ? (int64_t)((uint64_t)a >> b) : a >> b;
}

static int64_t int_op(cr_dtype dt, int op, int64_t a, int64_t b, int64_t c) {
    switch (op) {
    case CR_OP_ADD: return add_wrap(a, b);
    case CR_OP_SUB: return add_wrap(a, mul_wrap(b, -1));
    case CR_OP_MUL: return mul_wrap(a, b);
    case CR_OP_NEG: return mul_wrap(a, -1);
    case CR_OP_ABS: return less_int(dt, a, 0) ? mul_wrap(a, -1) : a;
    case CR_OP_SIGN: return less_int(dt, a, 0) ? -1 : a != 0;
    case CR_OP_COPYSIGN: return less_int(dt, a, 0) == less_int(dt, b, 0) ? a : mul_wrap(a, -1);
    case CR_OP_MAX: return less_int(dt, a, b) ? b : a;
    case CR_OP_MIN: return less_int(dt, b, a) ? b : a;
    case CR_OP_POW: return int_pow(dt, a, b);
    case CR_OP_FMOD: return int_mod(dt, a, b);
    case CR_OP_REM: return rounds_down(dt, a, b) ? add_wrap(int_mod(dt, a, b), b) : int_mod(dt, a, b);
    case CR_OP_FDIV: return add_wrap(int_div(dt, a, b), rounds_down(dt, a, b) ? -1 : 0);
    case CR_OP_DIV: case CR_OP_TDIV: return int_div(dt, a, b);
    case CR_OP_ISNAN: case CR_OP_ISINF: return 0;
    case CR_OP_EQ: return a == b;
    case CR_OP_NE: return a != b;
    case CR_OP_LT: return less_int(dt, a, b);
    case CR_OP_LE: return !less_int(dt, b, a);
    case CR_OP_GT: return less_int(dt, b, a);
    case CR_OP_GE: return !less_int(dt, a, b);
    case CR_OP_SEL: return a != 0 ? b : c;
    case CR_OP_BAND: return a & b;
    case CR_OP_BOR: return a | b;
    case CR_OP_BXOR: return a ^ b;
    case CR_OP_BNOT: return dt == CR_BOOL ? !a : ~a;
    case CR_OP_SHL: return int_shift_left(dt, a, b);
    case CR_OP_SHR: return int_shift_right(dt, a, b);
    default: return a;                                                /* FLOOR, CEIL, ROUND, TRUNC; the functions of
                                                                       * floats never come here */
    }
}

typedef union value { double f; int64_t i; } value;

static value load(const void *p, cr_dtype from, cr_dtype compute) {
    unsigned char v[8];
    cr_convert(v, compute, p, from);
    return compute == CR_F32 || compute == CR_F64 ? (value){.f = cr_load_f64(v, compute)}
                                                  : (value){.i = cr_load_i64(v, compute)};
}

static value number(double v, cr_dtype compute) {
    unsigned char bytes[8];
    if (cr_dtype_is_float(compute)) return (value){.f = v};
    cr_store_f64(bytes, compute, v);
    return (value){.i = cr_load_i64(bytes, compute)};
}

static void store_int(void *p, cr_dtype to, int64_t v, cr_dtype compute) {
    unsigned char bytes[8];
    cr_store_i64(bytes, compute, v);
    cr_convert(p, to, bytes, compute);
}

/* Element i of the walk; false: an integer would be divided by 0.  v: inputs, params, constants, then
 * one value for each instruction. */
static bool run_element(const cr_walk *w, int64_t i, value *v) {
    const cr_program *p = w->program;
    bool floats = cr_dtype_is_float(w->compute);
    for (int k = 0; k < w->n_in; k++) {
        const cr_arg *a = &w->in[k];
        v[k] = load((char *)a->data + offset_of(i, w->ndim, w->shape, a->strides) * (int64_t)cr_dtype_size(a->dtype),
                    a->dtype, w->compute);
    }
    value *result = v + p->n_in + p->n_param + p->n_const;
    for (int k = 0; k < p->n_instr; k++) {
        const cr_instr *s = &p->instr[k];
        value a = v[s->a], b = s->b < 0 ? a : v[s->b], c = s->c < 0 ? a : v[s->c];
        if (!floats && cr_opcode_divides(s->op) && b.i == 0) return false;
        if (floats) result[k].f = float_op(s->op, a.f, b.f, c.f);
        else result[k].i = wrap(w->compute, int_op(w->compute, s->op, a.i, b.i, c.i));
    }
    for (int k = 0; k < w->n_out; k++) {
        const cr_arg *a = &w->out[k];
        char *at = (char *)a->data + offset_of(i, w->ndim, w->shape, a->strides) * (int64_t)cr_dtype_size(a->dtype);
        if (floats) cr_store_f64(at, a->dtype, v[p->out[k]].f);
        else store_int(at, a->dtype, v[p->out[k]].i, w->compute);
    }
    return true;
}

static cr_status run_walk(const cr_walk *w) {
    const cr_program *p = w->program;
    value *v = malloc(sizeof *v * (size_t)(p->n_in + p->n_param + p->n_const + p->n_instr + 1));
    if (!v) return cr_no_memory(p->name);
    for (int k = 0; k < p->n_param; k++) v[p->n_in + k] = number(w->params[k], w->compute);
    for (int k = 0; k < p->n_const; k++) v[p->n_in + p->n_param + k] = number(p->consts[k], w->compute);
    bool ok = true;
    EACH(i, w->numel) if (!(ok = run_element(w, i, v))) break;
    free(v);
    return ok ? CR_OK : cr_fail(CR_BAD_VALUE, p->name, "an integer divided by zero");
}

cr_status cr_ref_elementwise(const cr_elementwise_args *args) {
    EACH(n, args->count) {
        const cr_status status = run_walk(&args->walks[n]);
        if (status != CR_OK) return status;
    }
    return CR_OK;
}
