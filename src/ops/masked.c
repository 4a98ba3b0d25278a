/* masked.c - composites over a bool mask: masked_fill, masked_select, masked_scatter. */
#include "compose.h"

static bool is_mask(const char *op, const cr_tensor *mask) {
    if (!cr_given(op, "mask", mask)) return false;
    if (mask->dtype == CR_BOOL) return true;
    return cr_fail(CR_BAD_TYPE, op, "the mask must be bool: %s", cr_dtype_name(mask->dtype)), false;
}

cr_tensor *cr_masked_where(cr_tensor *to, const cr_tensor *x, const cr_tensor *mask, const cr_tensor *value) {
    const cr_tensor *in[] = {cr_operand_on("where", mask, x->dev), value ? cr_to(value, x->dtype, x->dev) : NULL, x};
    const cr_program *where = cr_program_find("where");
    return to ? cr_apply_program_(where, to, in, NULL) : cr_apply_program(where, in, NULL);
}

static cr_tensor *masked_fill(const char *op, cr_tensor *to, const cr_tensor *x, const cr_tensor *mask, double value) {
    char element[8];
    if (!cr_given(op, "x", x) || !is_mask(op, mask) || cr_element(op, value, x->dtype, element) != CR_OK) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named(op, before,
                    cr_leave_with(to, cr_masked_where(to, x, mask, cr_full(CR_ALL, value, x->dtype, x->dev))));
}

cr_tensor *cr_masked_fill(const cr_tensor *x, const cr_tensor *mask, double value) {
    return masked_fill("masked_fill", NULL, x, mask, value);
}
cr_tensor *cr_masked_fill_(cr_tensor *x, const cr_tensor *mask, double value) {
    return masked_fill("masked_fill_", x, x, mask, value);
}

cr_tensor *cr_masked_select(const cr_tensor *x, const cr_tensor *mask) {
    int n;
    int64_t shape[CR_MAX_DIMS];
    if (!cr_given("masked_select", "x", x) || !is_mask("masked_select", mask)) return NULL;
    if (cr_broadcast("masked_select", x->ndim, x->shape, mask->ndim, mask->shape, &n, shape) != CR_OK) return NULL;
    cr_scope_begin();
    const cr_tensor *in[] = {cr_expand(x, n, shape), cr_mask_positions(cr_expand(mask, n, shape))};
    return cr_leave(cr_apply(&cr_op_take, 2, in, &(cr_take_params){.name = "masked_select", .count = n}));
}

static cr_tensor *masked_scatter(const char *op, cr_tensor *to, const cr_tensor *x, const cr_tensor *mask,
                                 const cr_tensor *src) {
    if (!cr_given(op, "x", x) || !is_mask(op, mask) || !cr_given(op, "the source", src)) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    cr_tensor *at = cr_mask_positions(cr_expand(mask, x->ndim, x->shape)), *y = NULL;
    if (at && src->numel < at->numel)
        cr_fail(CR_BAD_VALUE, op, "%lld elements for a mask that is true in %lld positions", (long long)src->numel,
                (long long)at->numel);
    else if (at)
        y = cr_put(&(cr_take_params){.name = op, .count = x->ndim}, to, x, at,
                   cr_slice(cr_reshape(src, 1, &src->numel), 0, 0, at->numel, 1));
    return cr_named(op, before, cr_leave_with(to, y));
}

cr_tensor *cr_masked_scatter(const cr_tensor *x, const cr_tensor *mask, const cr_tensor *src) {
    return masked_scatter("masked_scatter", NULL, x, mask, src);
}
cr_tensor *cr_masked_scatter_(cr_tensor *x, const cr_tensor *mask, const cr_tensor *src) {
    return masked_scatter("masked_scatter_", x, x, mask, src);
}
