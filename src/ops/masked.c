/* masked.c - composites that keep some elements of a tensor: masked_fill, tril, triu. */
#include "compose.h"

cr_tensor *cr_masked_fill(const cr_tensor *x, const cr_tensor *mask, double value) {
    char element[8];
    if (!cr_given("masked_fill", "x", x) || !cr_given("masked_fill", "mask", mask)) return NULL;
    if (mask->dtype != CR_BOOL) return cr_fail(CR_BAD_TYPE, "masked_fill", "the mask must be bool: %s", cr_dtype_name(dtype_of(mask))), NULL;
    if (cr_element("masked_fill", value, dtype_of(x), element) != CR_OK) return NULL;
    cr_scope_begin();
    cr_tensor *fill = cr_full(CR_ALL, value, dtype_of(x), x->dev);
    return cr_leave(cr_where(mask, fill, x));
}

/* x where column - row <= diagonal is `below`, else 0. */
static cr_tensor *triangle(const char *op, const cr_tensor *x, int64_t diagonal, bool below) {
    if (!cr_given(op, "x", x)) return NULL;
    if (x->ndim < 2) return cr_fail(CR_BAD_VALUE, op, "needs a matrix: %s", cr_shape_text(x->ndim, x->shape).s), NULL;
    int64_t M = x->shape[x->ndim - 2], N = x->shape[x->ndim - 1];
    if (diagonal < -M) diagonal = -M;               /* further away there is nothing */
    if (diagonal > N) diagonal = N;
    cr_scope_begin();
    cr_tensor *column = cr_arange(0, (double)N, 1, CR_I64, x->dev), *last = cr_arange((double)diagonal, (double)(diagonal + M), 1, CR_I64, x->dev);
    last = last ? cr_unsqueeze(last, 1) : NULL;     /* (M, 1): the column of the diagonal in each row */
    return cr_leave(cr_masked_fill(x, below ? cr_gt(column, last) : cr_lt(column, last), 0));
}

cr_tensor *cr_tril(const cr_tensor *x, int64_t diagonal) { return triangle("tril", x, diagonal, true); }
cr_tensor *cr_triu(const cr_tensor *x, int64_t diagonal) { return triangle("triu", x, diagonal, false); }
