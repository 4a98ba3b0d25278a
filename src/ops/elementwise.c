/* elementwise.c - variants of the generated functions: with a number as the second operand, and in
 * place. */
#include "programs.h"

/* ---- x with a number: the number follows x's dtype, as in PyTorch */
static cr_tensor *with_number(cr_row row, const cr_tensor *x, double s) {
    if (cr_missing(cr_rows[row].name, "x", x)) return NULL;
    cr_tensor *number = cr_scalar(s);
    cr_tensor *y = number ? cr_apply_program(&cr_rows[row], (const cr_tensor *const[]){x, number}, NULL) : NULL;
    cr_release(number);
    return y;
}

cr_tensor *cr_add_scalar(const cr_tensor *x, double s) { return with_number(CR_ROW_ADD, x, s); }
cr_tensor *cr_sub_scalar(const cr_tensor *x, double s) { return with_number(CR_ROW_SUB, x, s); }
cr_tensor *cr_mul_scalar(const cr_tensor *x, double s) { return with_number(CR_ROW_MUL, x, s); }
cr_tensor *cr_div_scalar(const cr_tensor *x, double s) { return with_number(CR_ROW_DIV, x, s); }

/* Exponents with a function of their own use it, as in PyTorch: one multiplication is exact where
 * pow is not.  An integer to a float exponent is a float, so integers use pow. */
cr_tensor *cr_pow_scalar(const cr_tensor *x, double s) {
    if (cr_missing("pow", "x", x)) return NULL;
    bool is_float = x != CR_NONE && cr_dtype_is_float(x->dtype);
    if (is_float && s == 2) return cr_square(x);
    if (is_float && s == 0.5) return cr_sqrt(x);
    if (is_float && s == -1) return cr_reciprocal(x);
    if (is_float && s == -0.5) return cr_rsqrt(x);
    return with_number(CR_ROW_POW, x, s);
}

/* ---- in place */
static cr_tensor *in_place(cr_row row, cr_tensor *x, const cr_tensor *y) {
    return cr_apply_program_(&cr_rows[row], x, (const cr_tensor *const[]){x, y}, NULL);
}

cr_tensor *cr_add_(cr_tensor *x, const cr_tensor *y) { return in_place(CR_ROW_ADD, x, y); }
cr_tensor *cr_sub_(cr_tensor *x, const cr_tensor *y) { return in_place(CR_ROW_SUB, x, y); }
cr_tensor *cr_mul_(cr_tensor *x, const cr_tensor *y) { return in_place(CR_ROW_MUL, x, y); }
cr_tensor *cr_div_(cr_tensor *x, const cr_tensor *y) { return in_place(CR_ROW_DIV, x, y); }
