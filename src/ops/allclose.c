/* allclose.c - are two tensors the same, or nearly so?  Composites; no gradient. */
#include "compose.h"

#include <string.h>

/* The size of the difference as max - min: integers without a sign do not wrap. */
static cr_tensor *distance(const cr_tensor *a, const cr_tensor *b) { return sub(cr_maximum(a, b), cr_minimum(a, b)); }

static cr_tensor *isclose(const char *op, const cr_tensor *a, const cr_tensor *b, double rtol, double atol,
                          bool equal_nan) {
    if (!cr_given(op, "a", a) || !cr_given(op, "b", b)) return NULL;
    if (!(rtol >= 0 && atol >= 0))
        return cr_fail(CR_BAD_VALUE, op, "rtol %g, atol %g: 0 or more are expected", rtol, atol), NULL;
    const cr_status before = cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *y = cr_eq(a, b);
    if (y && (a->dtype != CR_BOOL || b->dtype != CR_BOOL)) {               /* an infinity is close only to itself */
        const cr_dtype floats = cr_dtype_is_float(b->dtype) ? b->dtype : CR_F32;
        const cr_tensor *gap = distance(a, b), *allowed = cr_add_scalar(cr_abs(mul_k(cast_to(b, floats), rtol)), atol);
        y = cr_logical_or(y, cr_logical_and(cr_isfinite(gap), cr_le(gap, allowed)));
        if (equal_nan) y = cr_logical_or(y, cr_logical_and(cr_isnan(a), cr_isnan(b)));
    }
    y = cr_leave(y);
    cr_set_grad_enabled(recording);
    return cr_named(op, before, y);
}

cr_tensor *cr_isclose(const cr_tensor *a, const cr_tensor *b, double rtol, double atol, bool equal_nan) {
    return isclose("isclose", a, b, rtol, atol, equal_nan);
}

cr_tensor *cr_allclose(const cr_tensor *a, const cr_tensor *b, double rtol, double atol, bool equal_nan) {
    cr_scope_begin();
    return cr_leave(cr_all(isclose("allclose", a, b, rtol, atol, equal_nan), CR_ALL, false));
}

cr_tensor *cr_equal(const cr_tensor *a, const cr_tensor *b) {
    if (!cr_given("equal", "a", a) || !cr_given("equal", "b", b)) return NULL;
    if (!cr_shape_equal(a->ndim, a->shape, b->ndim, b->shape)) return cr_zeros(0, NULL, CR_BOOL, a->dev);
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("equal", before, cr_leave(cr_all(cr_eq(a, b), CR_ALL, false)));
}
