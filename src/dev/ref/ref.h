/* ref.h - shared by the kernels of `ref`: the offset of one element, and access to it as a double or as an integer.
 *
 * `ref` defines the meaning of every op; tests compare the other devices with it.  Each kernel is the
 * plainest loop over the definition: floats in double, rounded once on store, integers wrapped in
 * their own dtype.  No threads, no vectors, and no kernel calls another. */
#ifndef CR_REF_H
#define CR_REF_H

#include "../dev.h"
#include "../program.h"

/* A loop that ends early when the call is interrupted, checked every 1024 rounds; the op then fails. */
#define EACH(i, n) for (int64_t i = 0; i < (n) && (i % 1024 || !cr_stop_asked()); i++)

/* Offset of the i-th element (in row-major order) of a strided shape. */
static inline int64_t offset_of(int64_t i, int ndim, const int64_t *shape, const int64_t *strides) {
    int64_t offset = 0;
    for (int d = ndim - 1; d >= 0; d--) { offset += i % shape[d] * strides[d]; i /= shape[d]; }
    return offset;
}

static inline char *address(const cr_array *t, int64_t i) {
    return (char *)t->storage->data + (t->offset + i) * (int64_t)cr_dtype_size(t->dtype);
}
static inline double get(const cr_array *t, int64_t i) { return cr_load_f64(address(t, i), t->dtype); }
static inline void put(const cr_array *t, int64_t i, double v) { cr_store_f64(address(t, i), t->dtype, v); }
static inline int64_t get_int(const cr_array *t, int64_t i) { return cr_load_i64(address(t, i), t->dtype); }
static inline void put_int(const cr_array *t, int64_t i, int64_t v) { cr_store_i64(address(t, i), t->dtype, v); }
static inline bool is_float(const cr_array *t) { return cr_dtype_is_float(t->dtype); }

/* Sums and products that wrap: C defines overflow of unsigned integers only. */
static inline int64_t add_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t mul_wrap(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
/* a < b for two integers of dtype dt, as cr_load_i64 gives them (u64 keeps its bits). */
static inline bool less_int(cr_dtype dt, int64_t a, int64_t b) {
    return dt == CR_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

/* every element in [0, bound), or with wrap in [-bound, bound) */
cr_status cr_ref_check_index(const char *op, const cr_array *index, int64_t bound, bool wrap);

/* NULL: no memory, a failure is recorded */
int64_t *cr_ref_order(int64_t n, bool (*less)(const void *ctx, int64_t i, int64_t j), const void *ctx);

#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##ref(cr_##name##_kernel cr_ref_##name;)
#include "../kernels.def"

#endif
