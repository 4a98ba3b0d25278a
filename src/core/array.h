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
/* contiguous, from the beginning of s */
cr_array cr_array_of(cr_storage *s, const cr_device *dev, cr_dtype dt, int n, const int64_t *shape);
/* a contiguous array in another shape of as many elements */
cr_array cr_array_as(const cr_array *a, int n, const int64_t *shape);
/* other axes over the same storage */
cr_array cr_array_strided(const cr_array *a, int n, const int64_t *shape, const int64_t *strides, int64_t offset);
/* `size` positions of an axis, from `first` on */
cr_array cr_array_narrowed(const cr_array *a, int axis, int64_t first, int64_t size);
cr_array cr_array_transposed(const cr_array *a);     /* the last two axes exchanged */
/* An optional array of a kernel: NULL if it is absent. */
static inline const cr_array *cr_present(const cr_array *a) { return a->storage ? a : NULL; }

#endif
