/* read.c - copies elements to the caller: cr_read, cr_item. */
#include "compose.h"
#include "transform.h"

#include <math.h>
#include <stdlib.h>

/* From a device with memory of its own: downloaded in its dtype and cast on the host, because the
 * device may not have dt. */
static cr_status read_cast(const cr_tensor *t, cr_dtype dt, void *dst) {
    const size_t size = cr_dtype_size(t->dtype), step = cr_dtype_size(dt);
    char *staging = malloc(size * (size_t)t->numel);
    if (!staging) return cr_no_memory("read");
    cr_status status = cr_read(t, t->dtype, staging, size * (size_t)t->numel);
    for (int64_t i = 0; status == CR_OK && i < t->numel; i++)
        cr_convert((char *)dst + (size_t)i * step, dt, staging + (size_t)i * size, t->dtype);
    free(staging);
    return status;
}

cr_status cr_read(const cr_tensor *t, cr_dtype dt, void *dst, size_t bytes) {
    if (!cr_given("read", "the tensor", t)) return cr_error_status();
    if (!cr_dtype_valid((int)dt)) return cr_fail(CR_BAD_TYPE, "read", "%d is not a dtype", (int)dt);
    size_t size = cr_dtype_size(dt), needed = size * (size_t)t->numel;
    if (bytes != needed)
        return cr_fail(CR_BAD_VALUE, "read", "%s as %s takes %zu bytes, not %zu", cr_shape_text(t->ndim, t->shape).s,
                       cr_dtype_name(dt), needed, bytes);
    if (cr_want_values("read", t) != CR_OK) return cr_error_status();
    if (!bytes) return CR_OK;
    if (!dst) return cr_fail_null("read", "dst");
    if (t->dtype != dt && !t->dev->host) return read_cast(t, dt, dst);
    cr_tensor *x = cr_packed_as(t, dt);
    if (!x) return cr_error_status();
    cr_status status = cr_download("read", x->dev, dst, x->storage, (size_t)x->offset * size, bytes);
    cr_release(x);
    return status;
}

/* The bytes of the only element. */
static cr_status only_element(const char *op, const cr_tensor *t, void *element) {
    if (!cr_given(op, "the tensor", t)) return cr_error_status();
    if (t->numel != 1)
        return cr_fail(CR_BAD_VALUE, op, "needs a tensor of one element: %s", cr_shape_text(t->ndim, t->shape).s);
    if (cr_want_values(op, t) != CR_OK) return cr_error_status();
    size_t size = cr_dtype_size(t->dtype);
    return cr_download(op, t->dev, element, t->storage, (size_t)t->offset * size, size);
}

double cr_item(const cr_tensor *t) {
    char element[8];
    return only_element("item", t, element) == CR_OK ? cr_load_f64(element, t->dtype) : NAN;
}

int64_t cr_item_int(const cr_tensor *t) {
    char element[8];
    if (only_element("item_int", t, element) != CR_OK) return 0;
    if (cr_dtype_is_float(t->dtype))
        return cr_fail(CR_BAD_TYPE, "item_int", "needs an integer tensor: %s", cr_dtype_name(t->dtype)), 0;
    return cr_load_i64(element, t->dtype);
}
