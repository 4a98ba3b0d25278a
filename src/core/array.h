/* array.h - storage, and arrays in it: the part of a tensor that kernels receive.  Knows no graph. */
#ifndef CR_ARRAY_H
#define CR_ARRAY_H

#include <stdatomic.h>
#include "dtype.h"
#include "shape.h"

/* Drops one reference; was it the last?  A count of 1 is read only by its owner, which needs no atomic write. */
static inline bool cr_unref(atomic_int *refs) {
    return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
           atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* ---- storage (storage.c): bytes on one device */
typedef struct cr_storage {
    atomic_int refs;
    atomic_uint version;                            /* raised by every in-place write */
    bool inside;                                    /* this struct lies in the memory that `free` returns */
    atomic_uchar pending;                           /* not 0: its bytes are on their way (pending.h) */
    atomic_ushort aside;                            /* raised instead of version by writes through a handle that has a
                                                     * version counter of its own (links.h) */
    unsigned born;                                  /* number of the recording that saw it begin; 0: none was active;
                                                     * from CR_ELSEWHERE on: it began on another thread (watch.h) */
    void *data;                                     /* an address, or what the device uses as one */
    size_t bytes;
    const cr_device *dev;
    void (*free)(struct cr_storage *s);             /* returns data to the device's allocator */
    void (*done)(void *ctx); void *ctx;             /* borrowed memory: called when the storage no longer needs it */
} cr_storage;
/* refs 1; owns data, also on failure */
cr_storage *cr_storage_new(void *data, size_t bytes, const cr_device *dev, void (*free)(cr_storage *));
/* the struct at `memory`, which `free` returns with the data */
cr_storage *cr_storage_place(void *memory, void *data, size_t bytes, const cr_device *dev, void (*free)(cr_storage *));
static inline unsigned cr_storage_writes(const cr_storage *s) {        /* a stamp: differs after any write */
    return atomic_load(&s->version) + ((unsigned)atomic_load(&s->aside) << 16);
}
cr_storage *cr_storage_retain(cr_storage *s);
void        cr_storage_release(cr_storage *s);

/* ---- arrays: where elements lie in a storage.  A tensor contains one and owns its storage; other arrays borrow it. */
#define CR_ARRAY_FIELDS                                                                                              \
    cr_storage *storage;                            /* NULL: absent, or only dtype, shape and device are known */   \
    const cr_device *dev;                                                                                           \
    cr_dtype dtype;                                                                                                 \
    int ndim;                                                                                                       \
    bool contiguous;                                /* elements follow one another in row-major order */            \
    int64_t offset, numel;                          /* in elements */                                               \
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS];          /* strides in elements, of any sign; 0 where broadcast */
typedef struct cr_array { CR_ARRAY_FIELDS } cr_array;

static inline void *cr_array_data(const cr_array *a) {
    return (char *)a->storage->data + a->offset * (int64_t)cr_dtype_size(a->dtype);
}
/* Other axes over the same storage.  Inline, and the axes from n on stay unset: a small op would
 * notice both. */
static inline cr_array cr_array_strided(const cr_array *a, int n, const int64_t *shape, const int64_t *strides,
                                        int64_t offset) {
    cr_array y;
    y.storage = a->storage;
    y.dev = a->dev;
    y.dtype = a->dtype;
    y.ndim = n;
    y.offset = offset;
    y.numel = 1;
    for (int i = 0; i < n; i++) {
        y.numel *= y.shape[i] = shape[i];
        y.strides[i] = strides[i];
    }
    y.contiguous = cr_strides_are_contiguous(n, shape, strides);
    return y;
}

/* A contiguous array in another shape with as many elements. */
static inline cr_array cr_array_as(const cr_array *a, int n, const int64_t *shape) {
    cr_array y;
    y.storage = a->storage;
    y.dev = a->dev;
    y.dtype = a->dtype;
    y.ndim = n;
    y.contiguous = true;
    y.offset = a->offset;
    y.numel = 1;
    uint64_t step = 1;                              /* wraps beside a size of 0, where no stride is used */
    for (int i = n - 1; i >= 0; i--) {
        y.shape[i] = shape[i];
        y.strides[i] = (int64_t)step;
        y.numel *= shape[i];
        step *= shape[i] > 0 ? (uint64_t)shape[i] : 1;
    }
    return y;
}

/* Contiguous, from the beginning of s. */
static inline cr_array cr_array_of(cr_storage *s, const cr_device *dev, cr_dtype dt, int n, const int64_t *shape) {
    return cr_array_as(&(cr_array){.storage = s, .dev = dev, .dtype = dt}, n, shape);
}

/* `size` positions of an axis, from `first` on */
cr_array cr_array_narrowed(const cr_array *a, int axis, int64_t first, int64_t size);
cr_array cr_array_transposed(const cr_array *a);     /* the last two axes exchanged */
/* An optional array of a kernel: NULL if it is absent. */
static inline const cr_array *cr_present(const cr_array *a) { return a->storage ? a : NULL; }

#endif
