/* watch.h - the seam to a recording (plan/record.c): what a thread that records a step does below the ops. */
#ifndef CR_WATCH_H
#define CR_WATCH_H

#include "array.h"
#include "status.h"

typedef cr_status (*cr_kernel_run)(const void *args);

/* Filled in when the library loads.  Called on the recording thread only, except for the last three. */
typedef struct cr_watch {
    /* runs the kernel number `id` (CR_KERNEL_... of kernels.h) and notes it */
    cr_status (*kernel)(int id, cr_kernel_run run, const void *args);
    cr_status (*upload)(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
    cr_status (*download)(const char *op, const cr_storage *src);         /* may the host read it? */
    cr_status (*transfer)(cr_storage *to, size_t to_at, cr_storage *from, size_t at, size_t bytes);  /* of devices */
    void (*drew)(cr_generator *g, uint64_t seed, uint64_t counter, uint64_t blocks);
    void (*seeded)(cr_generator *g);                                      /* or its state was set */
    void (*named)(const char *kind, const char *name);                    /* the op whose kernels follow */
    void (*reads)(int n, const cr_tensor *const *in);                     /* its inputs */
    void (*writes)(int n, cr_tensor *const *out);                         /* in place, and counts that */
    cr_status (*visits)(cr_node *n);                                      /* a backward pass: runs its hooks next */
    cr_status (*recomputes)(const char *op);                              /* a part of the step, in a backward pass */
    void (*reads_grad)(cr_tensor *leaf);                                  /* asks for its gradient */
    cr_status (*collects)(cr_tensor *leaf);                               /* is about to add to its gradient */
    cr_status (*sets_grad)(cr_tensor *leaf);
    cr_status (*calls_back)(const char *what);                            /* user code that a replay would leave out */
    void (*ends)(cr_storage *s);                                          /* a storage with `born` */
    unsigned (*elsewhere)(void);                                          /* `born` where this thread does not record */
    void (*touches)(const char *op, const cr_storage *s);                 /* s was born on another thread */
} cr_watch;
extern cr_watch cr_watch_table;

/* Threads that record now, and storages that are pending (pending.h): else a call pays one load for both. */
extern atomic_int cr_slow_path;
static inline bool cr_is_unusual(void) {
    return __builtin_expect(atomic_load_explicit(&cr_slow_path, memory_order_acquire) != 0, 0);
}

/* NULL: this thread records nothing. */
static inline const cr_watch *cr_watching(void) {
    return cr_is_unusual() && cr_modes.recording ? &cr_watch_table : NULL;
}

#endif
