/* masked.c - composites that keep some elements of a tensor: masked_fill. */
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
