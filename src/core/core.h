/* core.h - the objects that every layer shares: shapes, storage, tensors, generators.  Knows no device and no gradient. */
#ifndef CR_CORE_H
#define CR_CORE_H

#include <limits.h>
#include <stdatomic.h>
#include <chainrule.h>
#include "os.h"
#include "status.h"

/* ---- dtypes (dtype.c) */
typedef enum cr_kind { CR_KIND_BOOL, CR_KIND_UNSIGNED, CR_KIND_SIGNED, CR_KIND_FLOAT } cr_kind;
cr_kind  cr_dtype_kind(cr_dtype dt);
bool     cr_dtype_valid(int dt);
float    cr_f16_to_f32(uint16_t h);
uint16_t cr_f32_to_f16(float f);                    /* to nearest, ties to even; NaN stays NaN */
float    cr_bf16_to_f32(uint16_t h);
uint16_t cr_f32_to_bf16(float f);
/* One element, through the widest type of its kind: the value of `from` at `src` stored as `to` at `dst` (C's conversions;
 * float to integer saturates, NaN becomes 0; to bool: != 0). */
void     cr_convert(void *dst, cr_dtype to, const void *src, cr_dtype from);
double   cr_load_f64(const void *src, cr_dtype from);
int64_t  cr_load_i64(const void *src, cr_dtype from);        /* u64 keeps its bits */
void     cr_store_f64(void *dst, cr_dtype to, double v);
void     cr_store_i64(void *dst, cr_dtype to, int64_t v);

/* ---- shapes (shape.c).  cr_meta: what a result will look like, before it exists */
typedef struct cr_meta {
    cr_dtype dtype;
    int ndim;
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS], offset;   /* strides, offset: only with `strided` */
    bool strided;                                   /* false: contiguous */
} cr_meta;

typedef struct cr_text { char s[200]; } cr_text;    /* short text by value, for messages: cr_shape_text(t->ndim, t->shape).s */
cr_text   cr_shape_text(int ndim, const int64_t *shape);     /* "(2, 3)", "(7,)", "()" */
cr_status cr_shape_check(const char *op, int ndim, const int64_t *shape, cr_dtype dt, int64_t *numel);  /* dims >= 0, no overflow of the byte size */
/* May two positions of this shape lie at one place?  Never false where they do; true for some exotic strides where they do not. */
bool      cr_shape_overlaps(int ndim, const int64_t *shape, const int64_t *strides);
int       cr_axis(const char *op, int64_t axis, int ndim);   /* 0..ndim-1 for axis in [-ndim, ndim), else -1 and a message; ndim 0 counts as 1 */
cr_status cr_axes_mask(const char *op, int n, const int64_t *axes, int ndim, uint32_t *mask);           /* n 0: all; duplicates refused */
cr_status cr_broadcast(const char *op, int na, const int64_t *a, int nb, const int64_t *b, int *n, int64_t *out);  /* out may be a or b */
void      cr_strides_contiguous(int ndim, const int64_t *shape, int64_t *strides);
cr_meta   cr_meta_of(const cr_tensor *t);           /* dtype and shape, contiguous */

/* Gives up one reference: was it the last?  Who holds the only one shares it with nobody, so no atomic write is needed. */
static inline bool cr_unref(atomic_int *refs) {
    return atomic_load_explicit(refs, memory_order_acquire) == 1 || atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

/* ---- small objects (small.c) */
void *cr_small_take(size_t bytes);                  /* uninitialised; NULL: none left */
void  cr_small_give(void *p, size_t bytes);         /* the same bytes; by any thread */

/* ---- storage (storage.c): bytes on one device */
typedef struct cr_storage {
    atomic_int refs;
    atomic_uint version;                            /* one more after every in-place write */
    bool inside;                                    /* this struct lies in the memory that free gives back */
    void *data;                                     /* an address, or whatever the device uses as one */
    size_t bytes;
    const cr_device *dev;
    void (*free)(struct cr_storage *s);             /* gives data back; set by whoever made the storage */
    void (*done)(void *ctx); void *ctx;             /* of borrowed memory */
} cr_storage;
cr_storage *cr_storage_new(void *data, size_t bytes, const cr_device *dev, void (*free)(cr_storage *));  /* refs 1; takes data, also on failure */
cr_storage *cr_storage_place(void *memory, void *data, size_t bytes, const cr_device *dev, void (*free)(cr_storage *));   /* the struct at `memory`, which free gives back with the data */
cr_storage *cr_storage_retain(cr_storage *s);
void        cr_storage_release(cr_storage *s);

/* ---- tensors (tensor.c) */
typedef struct cr_node_head {                       /* the first member of a node, grad/graph.h */
    atomic_int refs;
    void (*free)(cr_node *n);
    cr_node *next_dead;
    bool leaf;                                      /* stands for a tensor that was made, not computed */
    cr_spinlock lock;                               /* of handle, and of the node's hooks and what it saved */
    _Atomic(cr_tensor *) handle;                    /* weak: the leaf, or the result that retains its gradient; NULL once it is gone */
} cr_node_head;
typedef struct cr_scope { struct cr_scope *outer; cr_tensor *first; bool fixed; } cr_scope;     /* first: of its handles, in a list; fixed: cr_scope_end is not for it */

enum { CR_FLAG_REQUIRES_GRAD = 1, CR_FLAG_WEAK = 2, CR_FLAG_VIEW = 4, CR_FLAG_CONTIGUOUS = 8,
       CR_FLAG_KNOWN = 16 };                          /* its node points to it: the last reference is given up under the node's lock */

/* What a tensor and the views of it share, so that in-place work on one reaches the graph of all (grad/rewrite.c). */
typedef struct cr_family {
    atomic_int refs;
    unsigned rewrites;                              /* in-place writes that the graph recorded */
    cr_node *node;                                  /* owned: how the tensor is computed now; NULL outside any graph */
    cr_meta whole;                                  /* how the tensor itself, no view, lies in the storage */
} cr_family;

struct cr_tensor {
    atomic_int refs;
    uint8_t dtype, ndim;
    uint16_t flags;
    cr_storage *storage;                            /* NULL: only dtype, shape and device are known ("meta") */
    const cr_device *dev;
    int64_t offset, numel;                          /* in elements */
    int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS];
    cr_node *node;                                  /* how it was computed, or its leaf node; NULL: outside any graph */
    _Atomic(cr_tensor *) grad;                      /* owned; changes under lock */
    _Atomic(cr_family *) family;                    /* of views, and of a tensor from its first view on; NULL: in-place work here concerns no other handle's graph */
    atomic_uint rewrites;                           /* the family's count when this handle's node was right */
    atomic_int held;                                /* of refs: those of objects that lend the tensor (cr_hold) */
    cr_spinlock lock;                               /* of grad, and of node where the handle follows its family */
    volatile int adding;                            /* held by the thread that adds to grad, which may take long */
    cr_scope *scope;                                /* who owns the handle; NULL: a caller */
    cr_tensor *scope_prev, *scope_next;             /* the scope's list */
};
enum { CR_RELEASED = INT_MIN / 2 };                 /* refs of a tensor in quarantine: whatever is added or taken, it stays below 0 */
static inline bool cr_released(const cr_tensor *t) { return atomic_load_explicit(&t->refs, memory_order_relaxed) < 0; }
static inline bool cr_missing(const char *op, const char *what, const cr_tensor *t) { return (!t || cr_released(t)) && cr_lacks_tensor(op, what, t); }
void       cr_quarantine(cr_tensor *t);             /* check.c: in place of giving its memory back */
cr_tensor *cr_claim(cr_tensor *t);                  /* one of the caller's references becomes one that is held; NULL is fine */
cr_tensor *cr_disclaim(cr_tensor *t);               /* and back */
/* All of these put the new handle into the thread's scope. */
cr_tensor *cr_tensor_new(cr_storage *s, const cr_device *dev, const cr_meta *m);   /* takes the caller's reference to s, also on failure; s NULL: meta */
cr_tensor *cr_tensor_like(cr_storage *s, const cr_tensor *t, cr_dtype dt);         /* contiguous, of t's shape; takes s as cr_tensor_new does */
cr_tensor *cr_tensor_placed(cr_storage *s, const cr_device *dev, cr_dtype dt, int ndim, const int64_t *shape, const int64_t *strides,
                            int64_t offset, int64_t numel, bool contiguous);      /* of values that were a tensor's before; takes s */
cr_tensor *cr_tensor_alias(const cr_tensor *t, const cr_meta *m);                  /* same storage; no graph; m NULL: same shape */
bool       cr_same_elements(const cr_tensor *a, const cr_tensor *b);                /* the very same, in the same order */
static inline void *cr_tensor_data(const cr_tensor *t) { return (char *)t->storage->data + t->offset * (int64_t)cr_dtype_size((cr_dtype)t->dtype); }
static inline cr_node *cr_node_retain(cr_node *n) {  /* NULL is fine */
    if (n) atomic_fetch_add_explicit(&((cr_node_head *)(void *)n)->refs, 1, memory_order_relaxed);
    return n;
}
void       cr_node_point(cr_node *n, cr_tensor *t);  /* n points to t, whose node it is; t NULL: to nothing */
void       cr_node_unpoint(cr_node *n, const cr_tensor *t);    /* no longer to t, if it does; n may be NULL */
/* Views found their family, unless it could never be written to as a part of a graph; view: just made from x.  False: no memory. */
bool       cr_family_join(cr_tensor *view, const cr_tensor *x);
void       cr_family_leave(cr_tensor *t);

void       cr_scope_enter(cr_scope *s);             /* cr_scope_begin and cr_scope_end, in memory of the caller's */
void       cr_scope_leave(cr_scope *s);
cr_tensor *cr_unscope(cr_tensor *t);                /* takes a handle out of every scope: the caller owns it; NULL is fine */

/* ---- random numbers (rng.c) */
void     cr_philox(uint64_t seed, uint64_t counter, uint32_t out[4]);              /* Philox 4x32-10: key = seed, counter = (counter, 0) */
/* floor(word span / 2^64), span 0: 2^64: uniform in [0, span) but for 2^-64 span, of a random word */
static inline uint64_t cr_below(uint64_t word, uint64_t span) {
    __extension__ typedef unsigned __int128 wide;
    return span ? (uint64_t)((wide)word * span >> 64) : word;
}
uint64_t cr_generator_take(cr_generator *g, uint64_t blocks, uint64_t *seed);      /* takes `blocks` counter values, returns the first; thread-safe */
/* What cr_generator_take gave this thread, for code that must run again with the same numbers (activation checkpointing).
 * Between begin and end every take is noted on the tape (replay false) or answered from it (replay true). */
typedef struct cr_tape cr_tape;
cr_tape *cr_tape_new(void);
void     cr_tape_free(cr_tape *t);
typedef struct cr_tape_use { cr_tape *tape; bool replay; size_t next; } cr_tape_use;      /* several threads may replay one tape at a time */
cr_tape_use cr_tape_begin(cr_tape *t, bool replay); /* returns the thread's use of a tape until now, for end */
void     cr_tape_end(cr_tape_use before);

/* ---- interrupts (interrupt.c): a thread that was told to stop is cut short: it skips work until the op at work fails */
extern atomic_int cr_threads_cut;
bool      cr_stop_asked(void);                      /* asks, at most every 20 ms; true while the thread is cut short */
bool      cr_me_cut(void);
cr_status cr_take_cut(const char *op);
static inline bool cr_is_cut(void) { return atomic_load_explicit(&cr_threads_cut, memory_order_relaxed) && cr_me_cut(); }
/* What a kernel returned, or a failure if it was cut short, which then is over. */
static inline cr_status cr_finished(const char *op, cr_status kernel) { return cr_is_cut() ? cr_take_cut(op) : kernel; }

/* ---- run-time switches (config.c): the one table of CHAINRULE_* environment variables.  Whoever obeys one says so before main: check
 * refuses what it cannot read (NULL: not set in the process) or what comes too late; changed, which may be NULL, is called after a change. */
typedef cr_status (*cr_switch_check)(const char *value);
void        cr_switch_owner(const char *name, cr_switch_check check, void (*changed)(void));
const char *cr_config(const char *name);            /* value of CHAINRULE_<name>, or NULL; name must be in the table */

#endif
