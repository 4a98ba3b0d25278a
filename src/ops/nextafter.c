/* nextafter.c - the next number of a float dtype towards another one, for every dtype on its bits:
 * read as integers, with negative numbers mirrored, neighbours differ by 1.  A program that every
 * device runs; the cpu has a loop of its own for contiguous operands (dev/cpu/integers.h).  No
 * gradient: PyTorch has none, and it is a step of rounding. */
#include "compose.h"
#include "walk.h"

#include <math.h>
#include <string.h>

/* The bits of a and b, values 0 and 1, of 2 the least integer, 3 zero, 4 infinity, 5 NaN.  mirror(i) =
 * i < 0 ? least - i : i */
static const cr_instr code[] = {
    /* 8: mirror(a) */
    {CR_OP_LT, 0, 3, -1},
    {CR_OP_SUB, 2, 0, -1},
    {CR_OP_SEL, 6, 7, 0},
    /* 11: mirror(b) */
    {CR_OP_LT, 1, 3, -1},
    {CR_OP_SUB, 2, 1, -1},
    {CR_OP_SEL, 9, 10, 1},
    /* 15: a step nearer */
    {CR_OP_GT, 11, 8, -1},
    {CR_OP_LT, 11, 8, -1},
    {CR_OP_ADD, 8, 12, -1},
    {CR_OP_SUB, 14, 13, -1},
    /* 18: mirrored back, to -0 from below */
    {CR_OP_LT, 15, 6, -1},
    {CR_OP_SUB, 2, 15, -1},
    {CR_OP_SEL, 16, 17, 15},
    {CR_OP_ABS, 8, -1, -1},
    {CR_OP_ABS, 11, -1, -1},
    {CR_OP_MAX, 19, 20, -1},
    {CR_OP_GT, 21, 4, -1},
    {CR_OP_SEL, 22, 5, 18},
    /* 25: b where they are equal */
    {CR_OP_EQ, 8, 11, -1},
    {CR_OP_SEL, 24, 1, 23},
};

/* x's elements, in dtype dt, as integers of the same size. */
static cr_tensor *bits_of(const cr_tensor *x, cr_dtype dt, const cr_device *dev, cr_dtype whole) {
    const cr_tensor *t = cr_to(x, dt, dev);
    if (!t) return NULL;
    return cr_view_dtype(t, whole);
}

/* By the device's own loop; CR_NONE: it has none for these. */
static const cr_tensor *by_kernel(const cr_tensor *a, const cr_tensor *b, int64_t infinity) {
    if (!a->dev->kernels->nextafter || !cr_shape_equal(a->ndim, a->shape, b->ndim, b->shape)) return CR_NONE;
    if (!a->contiguous || !b->contiguous) return CR_NONE;
    if (cr_await("nextafter", a->storage) != CR_OK || cr_await("nextafter", b->storage) != CR_OK) return NULL;
    cr_tensor *y = cr_fused(a);
    return y && cr_finished("nextafter", a->dev->kernels->nextafter(
                                             &(cr_nextafter_args){y->array, a->array, b->array, infinity})) == CR_OK
               ? y
               : NULL;
}

cr_tensor *cr_nextafter(const cr_tensor *a, const cr_tensor *b) {
    static const char op[] = "nextafter";
    cr_dtype compute, dt;
    if (!cr_given(op, "a", a) || !cr_given(op, "b", b)) return NULL;
    if (cr_rule_dtypes(cr_program_find("atan2"), (const cr_tensor *const[]){a, b}, &compute, &dt) != CR_OK) return NULL;
    if (a->dev != b->dev && !((a->flags | b->flags) & CR_FLAG_WEAK))
        return cr_fail(CR_BAD_VALUE, op, "operands on two devices, %s and %s", a->dev->name, b->dev->name), NULL;
    const cr_device *dev = (a->flags & CR_FLAG_WEAK ? b : a)->dev;
    const int width = 8 * (int)cr_dtype_size(dt), mantissa = cr_dtype_digits(dt) - 1;
    const cr_dtype whole = width == 64 ? CR_I64 : width == 32 ? CR_I32 : CR_I16;
    const double infinity = ldexp(1, width - 1) - ldexp(1, mantissa),
                 consts[] = {-ldexp(1, width - 1), 0, infinity, infinity + ldexp(1, mantissa - 1)};
    const cr_program next = {
        .name = op,
        .doc = "the neighbour of a float, on its bits",
        .rule = CR_RULE_ANY,
        .n_in = 2,
        .n_const = 4,
        .n_instr = sizeof code / sizeof *code,
        .n_out = 1,
        .consts = consts,
        .instr = code,
        .out = {25},
        .fused = -1,
        .refs = -1,
    };
    cr_scope_begin();
    const bool recording = cr_set_grad_enabled(false);
    const cr_tensor *in[] = {bits_of(a, dt, dev, whole), bits_of(b, dt, dev, whole)};
    const cr_tensor *bits = in[0] && in[1] ? by_kernel(in[0], in[1], (int64_t)infinity) : NULL;
    if (bits == CR_NONE) bits = cr_apply_program(&next, in, NULL);
    cr_tensor *y = bits ? bits_of(bits, whole, dev, dt) : NULL;
    cr_set_grad_enabled(recording);
    return cr_leave(y);
}
