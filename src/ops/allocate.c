/* allocate.c - storage for results, borrowed memory, and the address of a tensor's elements. */
#include "compose.h"
#include "transform.h"

#include <stdint.h>
#include <string.h>

/* Elements that dense or padded strides reach, at least numel. */
static int64_t span(const cr_meta *m, int64_t numel) {
    if (!m->strided || numel == 0) return numel;
    int64_t last = 0;
    for (int i = 0; i < m->ndim; i++) last += (m->shape[i] - 1) * m->strides[i];
    return last + 1;
}

static cr_tensor *new_in(const cr_meta *m, const cr_device *dev, cr_storage *(*allocate)(const cr_device *, size_t)) {
    int64_t numel;
    if (cr_shape_check("empty", m->ndim, m->shape, m->dtype, &numel) != CR_OK) return NULL;
    cr_storage *s = allocate(dev, (size_t)span(m, numel) * cr_dtype_size(m->dtype));
    if (!s) return NULL;
    cr_meta placed = *m;
    placed.offset = 0;
    return cr_tensor_new(s, dev, &placed);
}

cr_tensor *cr_new_like(const cr_meta *m, const cr_device *dev) { return new_in(m, dev, dev->allocate); }

cr_tensor *cr_zeros_offloaded(const cr_tensor *like, cr_dtype dt) {
    static const char op[] = "zeros_offloaded";
    if (!cr_given(op, "the tensor", like)) return NULL;
    const cr_device *dev = like->dev;
    if (dev->host) return cr_zeros(like->ndim, like->shape, dt, dev);
    if (!dev->allocate_host)
        return cr_fail(CR_BAD_VALUE, op, "kernels of %s do not reach the host's memory", dev->name), NULL;
    if (!cr_dtype_valid((int)dt)) return cr_fail(CR_BAD_TYPE, op, "%d is not a dtype", (int)dt), NULL;
    cr_meta m = {.dtype = dt, .ndim = like->ndim};
    memcpy(m.shape, like->shape, sizeof *m.shape * (size_t)m.ndim);
    cr_tensor *t = new_in(&m, dev, dev->allocate_host);
    return t ? cr_fill_(t, 0) : NULL;
}

/* Checks the strides of borrowed memory and stores them in m: not negative, and the last element
 * has an address. */
static cr_status set_strides(cr_meta *m, const int64_t *strides) {
    int64_t last = 1;
    bool overflow = false;
    m->strided = true;
    for (int i = 0; i < m->ndim; i++) {
        int64_t reach;
        m->strides[i] = m->shape[i] > 1 ? strides[i] : 1;
        if (m->strides[i] < 0)
            return cr_fail(CR_BAD_VALUE, "borrow", "negative stride in %s", cr_shape_text(m->ndim, strides).s);
        overflow |= __builtin_mul_overflow(m->shape[i] ? m->shape[i] - 1 : 0, m->strides[i], &reach) ||
                    __builtin_add_overflow(last, reach, &last);
    }
    if (overflow || last > INT64_MAX / 2 / (int64_t)cr_dtype_size(m->dtype))
        return cr_fail(CR_BAD_VALUE, "borrow", "strides %s reach beyond memory", cr_shape_text(m->ndim, strides).s);
    return CR_OK;
}

cr_tensor *cr_borrow(void *data, int n, const int64_t *shape, cr_dtype dt, void (*done)(void *), void *ctx) {
    return cr_borrow_strided(data, n, shape, NULL, dt, done, ctx);
}

cr_tensor *cr_borrow_strided(void *data, int n, const int64_t *shape, const int64_t *strides, cr_dtype dt,
                             void (*done)(void *), void *ctx) {
    cr_meta m = {.dtype = dt, .ndim = n};
    int64_t numel;
    cr_status status = cr_shape_check("borrow", n, shape, dt, &numel);
    if (status == CR_OK && numel && !data) status = cr_fail_null("borrow", "data");
    if (status == CR_OK && (uintptr_t)data % cr_dtype_size(dt))
        status = cr_fail(CR_BAD_VALUE, "borrow", "the address is not aligned to the %zu bytes of %s", cr_dtype_size(dt),
                         cr_dtype_name(dt));
    for (int i = 0; status == CR_OK && i < n; i++) m.shape[i] = shape[i];
    if (status == CR_OK && strides) status = set_strides(&m, strides);
    if (status != CR_OK) return NULL;                  /* the caller keeps the memory: done is not called */
    cr_storage *s = cr_storage_new(data, (size_t)span(&m, numel) * cr_dtype_size(dt), cr_cpu(), NULL);
    if (!s) return NULL;
    cr_tensor *t = cr_tensor_new(s, cr_cpu(), &m);
    if (t) { s->done = done; s->ctx = ctx; }
    return t;
}

/* The offset of the element behind the last one; -1: beyond any memory. */
static int64_t end_of(int n, const int64_t *shape, const int64_t *strides, int64_t offset) {
    int64_t end = offset + 1, reach;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) || __builtin_add_overflow(end, reach, &end))
            return -1;
    return end;
}

static cr_status check_view(const cr_tensor *t, cr_dtype dt, int n, const int64_t *shape, const int64_t *strides,
                            int64_t offset, int64_t numel) {
    static const char op[] = "storage_view";
    const int64_t room = (int64_t)(t->storage->bytes / cr_dtype_size(dt));
    for (int i = 0; i < n; i++)
        if (strides[i] < 0)
            return cr_fail(CR_BAD_VALUE, op, "negative stride in %s", cr_shape_text(n, strides).s);
    const int64_t end = offset < 0 || offset == INT64_MAX ? -1 : numel ? end_of(n, shape, strides, offset) : offset;
    if (end < 0 || end > room)
        return cr_fail(CR_BAD_VALUE, op, "shape %s with strides %s from element %lld on exceeds a storage of %lld",
                       cr_shape_text(n, shape).s, cr_shape_text(n, strides).s, (long long)offset, (long long)room);
    if (!t->dev->host && dt != t->dtype)
        return cr_fail(CR_BAD_TYPE, op, "memory of %s keeps its dtype: %s cannot be %s", t->dev->name,
                       cr_dtype_name(t->dtype), cr_dtype_name(dt));
    if (numel && (uintptr_t)t->storage->data % cr_dtype_size(dt) && t->dev->host)
        return cr_fail(CR_BAD_VALUE, op, "the storage is not aligned to the %zu bytes of %s", cr_dtype_size(dt),
                       cr_dtype_name(dt));
    return CR_OK;
}

cr_tensor *cr_storage_view(const cr_tensor *t, cr_dtype dt, int n, const int64_t *shape, const int64_t *strides,
                           int64_t offset) {
    static const char op[] = "storage_view";
    int64_t numel;
    if (cr_missing(op, "the tensor", t) || cr_want_elements(op, t) != CR_OK) return NULL;
    if (!t->storage) return cr_fail(CR_BAD_VALUE, op, "CR_NONE has no storage"), NULL;
    if (cr_shape_check(op, n, shape, dt, &numel)) return NULL;
    if (n && !strides) return cr_fail_null(op, "the strides"), NULL;
    if (check_view(t, dt, n, shape, strides, offset, numel)) return NULL;
    cr_tensor *y = cr_tensor_placed(cr_storage_retain(t->storage), t->dev, dt, n, shape, strides, offset, numel,
                                    cr_strides_are_contiguous(n, shape, strides));
    if (y) y->counter = cr_counter_retain(t->counter);
    return y;
}

/* The elements of x have k = from / to times as many of dt, or 1 / k: other sizes and strides count them. */
static cr_status in_units(const cr_tensor *x, cr_dtype dt, cr_meta *m) {
    static const char op[] = "view";
    const int64_t from = (int64_t)cr_dtype_size(x->dtype), to = (int64_t)cr_dtype_size(dt);
    const int last = x->ndim - 1;
    if (from == to) return CR_OK;
    const int64_t k = from > to ? from / to : to / from;
    const char *old = cr_dtype_name(x->dtype), *new = cr_dtype_name(dt);
    if (!x->ndim)
        return cr_fail(CR_BAD_VALUE, op, "a %s without axes cannot be viewed as %s of another size", old, new);
    if (x->shape[last] != 1 && x->strides[last] != 1)
        return cr_fail(CR_BAD_VALUE, op, "the stride of the last axis must be 1 to view %s as %s: %lld", old, new,
                       (long long)x->strides[last]);
    for (int i = 0; i < last; i++) {
        if (from < to && x->shape[i] != 1 && x->strides[i] % k)
            return cr_fail(CR_BAD_VALUE, op, "the stride of axis %d must be a multiple of %lld to view %s as %s: %lld",
                           i, (long long)k, old, new, (long long)x->strides[i]);
        m->strides[i] = from > to ? x->strides[i] * k : x->strides[i] / k;
    }
    if (from < to && (x->shape[last] % k || x->offset % k))
        return cr_fail(CR_BAD_VALUE, op, "the last axis and the offset must be multiples of %lld to view %s as %s: "
                       "%lld, %lld", (long long)k, old, new, (long long)x->shape[last], (long long)x->offset);
    m->strides[last] = 1;
    m->shape[last] = from > to ? x->shape[last] * k : x->shape[last] / k;
    m->offset = from > to ? x->offset * k : x->offset / k;
    return CR_OK;
}

static cr_tensor *view_dtype(const cr_tensor *x, void *dt) { return cr_view_dtype(x, *(cr_dtype *)dt); }

cr_tensor *cr_view_dtype(const cr_tensor *x, cr_dtype dt) {
    if (!cr_given("view", "x", x)) return NULL;
    if ((unsigned)dt >= CR_DTYPES) return cr_fail(CR_BAD_TYPE, "view", "there is no dtype %d", (int)dt), NULL;
    cr_meta m = cr_meta_of(x);
    m.dtype = dt;
    m.strided = true;
    m.offset = x->offset;
    memcpy(m.strides, x->strides, sizeof m.strides);
    if (in_units(x, dt, &m) != CR_OK) return NULL;
    if (cr_wrapped(x))
        return x->wrapper->tangent ? cr_view_dtype(x->wrapper->value, dt) : cr_map_wrapped(x, view_dtype, &dt);
    if (x->storage && x->dev->host && (uintptr_t)x->storage->data % cr_dtype_size(dt))
        return cr_fail(CR_BAD_VALUE, "view", "the memory is not aligned to the %zu bytes of %s", cr_dtype_size(dt),
                       cr_dtype_name(dt)),
               NULL;
    return cr_tensor_alias(x, &m);
}

void *cr_data(const cr_tensor *t) {
    if (cr_missing("data", "the tensor", t)) return NULL;
    if (!t->storage) return cr_fail(CR_BAD_VALUE, "data", "CR_NONE has no data"), NULL;
    if (cr_want_elements("data", t) != CR_OK) return NULL;
    if (!t->dev->host)
        return cr_fail(CR_BAD_VALUE, "data", "memory of %s has no address here: cr_read copies it", t->dev->name), NULL;
    const cr_watch *w = cr_watching();
    if (w && w->download("data", t->storage) != CR_OK) return NULL;
    return cr_await("data", t->storage) == CR_OK ? cr_tensor_data(t) : NULL;
}
