/* creation.c - new tensors: constants, ranges, host memory. */
#include "compose.h"
#include "transform.h"
#include "../core/pool.h"
#include "../dev/meta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

cr_status cr_made_meta(const char *op, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_meta *m) {
    cr_status status = cr_shape_check(op, n, shape, dt, NULL);
    if (status != CR_OK) return status;
    if (!dev) return cr_fail_null(op, "the device");
    *m = (cr_meta){.dtype = dt, .ndim = n};
    if (n) memcpy(m->shape, shape, sizeof *shape * (size_t)n);
    return CR_OK;
}

/* ---- constants */
static cr_tensor *full(const char *op, int n, const int64_t *shape, double value, cr_dtype dt, const cr_device *dev) {
    cr_meta m;
    char element[8];
    if (cr_made_meta(op, n, shape, dt, dev, &m) != CR_OK || cr_element(op, value, dt, element) != CR_OK) return NULL;
    return cr_filled(&m, dev, value);
}

static cr_tensor *like(const char *op, const cr_tensor *x, double value) {
    if (!cr_given(op, "x", x)) return NULL;
    if (!cr_wrapped(x)) return full(op, x->ndim, x->shape, value, x->dtype, x->dev);
    cr_scope_begin();
    cr_tensor *one = full(op, x->ndim, x->shape, value, x->dtype, x->dev);
    return cr_leave(one ? cr_wrapped_as(x, one) : NULL);
}

cr_tensor *cr_empty(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev) {
    cr_meta m;
    return cr_made_meta("empty", n, shape, dt, dev, &m) == CR_OK ? cr_new_like(&m, dev) : NULL;
}

cr_tensor *cr_zeros(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev) {
    return full("zeros", n, shape, 0, dt, dev);
}
cr_tensor *cr_ones(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev) {
    return full("ones", n, shape, 1, dt, dev);
}
cr_tensor *cr_full(int n, const int64_t *shape, double value, cr_dtype dt, const cr_device *dev) {
    return full("full", n, shape, value, dt, dev);
}
cr_tensor *cr_empty_like(const cr_tensor *x) {
    if (!cr_given("empty_like", "x", x)) return NULL;
    return cr_wrapped(x) ? like("empty_like", x, 0) : cr_fused(x);
}
cr_tensor *cr_zeros_like(const cr_tensor *x) { return like("zeros_like", x, 0); }
cr_tensor *cr_ones_like(const cr_tensor *x) { return like("ones_like", x, 1); }

cr_tensor *cr_from(const void *data, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev) {
    cr_meta m;
    if (cr_made_meta("from", n, shape, dt, dev, &m) != CR_OK) return NULL;
    cr_tensor *y = cr_new_like(&m, dev);
    cr_status status = CR_OK;
    if (y && y->numel && !data) status = cr_fail_null("from", "data");
    else if (y && y->numel) status = cr_upload(dev, y->storage, 0, data, (size_t)y->numel * cr_dtype_size(dt));
    if (status != CR_OK) { cr_release(y); return NULL; }
    return y;
}

/* A weak scalar has the widest dtype of its kind; the elementwise dtype rules do not let it promote
 * tensors (ops/walk.c). */
static cr_tensor *weak(const void *value, cr_dtype dt) {
    cr_tensor *y = cr_from(value, CR_ALL, dt, cr_cpu());
    if (y) y->flags |= CR_FLAG_WEAK;
    return y;
}

cr_tensor *cr_scalar(double value) { return weak(&value, CR_F64); }
cr_tensor *cr_scalar_int(int64_t value) { return weak(&value, CR_I64); }
cr_tensor *cr_scalar_bool(bool value) { return weak(&value, CR_BOOL); }

cr_tensor *cr_eye(int64_t n, int64_t m, cr_dtype dt, const cr_device *dev) {
    cr_tensor *y = full("eye", CR_LIST(n, m), 0, dt, dev);
    if (!y || !y->numel) return y;
    cr_meta diagonal = {.dtype = dt, .ndim = 1, .shape = {n < m ? n : m}, .strides = {m + 1}, .strided = true};
    cr_tensor *ones = cr_tensor_alias(y, &diagonal);
    cr_status status = ones ? cr_fill_elements(ones, 1) : CR_NO_MEMORY;
    cr_release(ones);
    if (status != CR_OK) { cr_release(y); return NULL; }
    return y;
}

/* ---- ranges: element i is first + i step; with both_ends the second half is counted back from
 * `last`.  All threads of the host fill them. */
typedef struct range { double first, step, last; bool both_ends; int64_t n; cr_dtype dt; void *to; } range;

static double range_at(const range *r, int64_t i) {
    if (r->both_ends && i >= r->n - r->n / 2) return r->last - (double)(r->n - 1 - i) * r->step;
    return r->first + (double)i * r->step;
}

/* Are all elements integers that a double represents exactly? */
static bool is_whole(const range *r) {
    const double last = r->first + (double)r->n * r->step;
    return !r->both_ends && r->first == trunc(r->first) && r->step == trunc(r->step) && fabs(r->first) < 0x1p53 &&
           fabs(r->step) < 0x1p53 && fabs(last) < 0x1p53;
}

enum { RANGE_CHUNK = 16 << 10 };
#define WHOLE_RANGE(T) for (int64_t i = first, a = (int64_t)r->first, b = (int64_t)r->step; i < end; i++) \
    ((T *)r->to)[i] = (T)(a + i * b)
#define RANGE(T) do {                               \
        T *y = r->to;                               \
        int64_t i = first;                          \
        for (; i < middle; i++) y[i] = (T)(r->first + (double)i * r->step);    \
        for (; i < end; i++) y[i] = (T)range_at(r, i); \
    } while (0)

static void range_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    const range *r = ctx;
    const int64_t first = chunk * RANGE_CHUNK, end = first + RANGE_CHUNK < r->n ? first + RANGE_CHUNK : r->n;
    const int64_t middle = r->both_ends ? cr_imin(end, r->n - r->n / 2) : end;
    const size_t size = cr_dtype_size(r->dt);
    switch (r->dt) {                                /* both ends fit the dtype, so all elements do */
        case CR_F32: RANGE(float); break;
        case CR_F64: RANGE(double); break;
        case CR_I32: if (is_whole(r)) WHOLE_RANGE(int32_t); else RANGE(int32_t); break;
        case CR_I64: if (is_whole(r)) WHOLE_RANGE(int64_t); else RANGE(int64_t); break;
        default:
            for (int64_t i = first; i < end; i++) cr_store_f64((char *)r->to + (size_t)i * size, r->dt, range_at(r, i));
    }
}

static cr_tensor *from_range(const char *op, range *r, const cr_device *dev) {
    cr_meta m;
    char element[8];
    if (cr_made_meta(op, CR_LIST(r->n), r->dt, dev, &m) != CR_OK) return NULL;
    if (r->n && (cr_element(op, range_at(r, 0), r->dt, element) != CR_OK ||
                 cr_element(op, range_at(r, r->n - 1), r->dt, element) != CR_OK))
        return NULL;
    size_t size = cr_dtype_size(r->dt);
    cr_tensor *y = cr_new_like(&m, dev);
    if (dev == &cr_device_meta) return y;
    void *staging = y && !dev->host ? malloc((size_t)r->n * size + 1) : NULL;
    r->to = y && dev->host ? cr_tensor_data(y) : staging;
    cr_status status = y && !r->to ? cr_no_memory(op) : CR_OK;
    if (r->to && r->n <= RANGE_CHUNK) range_chunk(r, 0, 0);
    else if (r->to) cr_pool_run(cr_pieces(r->n, RANGE_CHUNK), range_chunk, r);
    if (r->to) status = cr_finished(op, status);
    if (staging && r->n && status == CR_OK) status = cr_upload(dev, y->storage, 0, staging, (size_t)r->n * size);
    free(staging);
    if (status != CR_OK) { cr_release(y); return NULL; }
    return y;
}

cr_tensor *cr_arange(double start, double stop, double step, cr_dtype dt, const cr_device *dev) {
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step))
        return cr_fail(CR_BAD_VALUE, "arange", "the range must be finite: from %g to %g in steps of %g", start, stop,
                       step),
               NULL;
    if (step == 0) return cr_fail(CR_BAD_VALUE, "arange", "the step must not be 0"), NULL;
    double n = ceil((stop - start) / step);
    if (n < 0) return cr_fail(CR_BAD_VALUE, "arange", "steps of %g do not lead from %g to %g", step, start, stop), NULL;
    if (!(n < 0x1p62))
        return cr_fail(CR_BAD_VALUE, "arange", "too many elements from %g to %g in steps of %g", start, stop, step),
               NULL;
    /* integers step by integers, as in PyTorch */
    bool whole = cr_dtype_valid((int)dt) && !cr_dtype_is_float(dt);
    return from_range(
        "arange",
        &(range){.first = whole ? trunc(start) : start, .step = whole ? trunc(step) : step, .n = (int64_t)n, .dt = dt},
        dev);
}

cr_tensor *cr_linspace(double start, double stop, int64_t n, cr_dtype dt, const cr_device *dev) {
    if (!isfinite(start) || !isfinite(stop))
        return cr_fail(CR_BAD_VALUE, "linspace", "both ends must be finite: %g, %g", start, stop), NULL;
    if (n < 0) return cr_fail(CR_BAD_VALUE, "linspace", "negative number of elements: %lld", (long long)n), NULL;
    range r = {.first = start, .last = stop, .n = n, .both_ends = true, .dt = dt};
    if (n > 1) r.step = stop / (double)(n - 1) - start / (double)(n - 1);
    return from_range("linspace", &r, dev);
}
