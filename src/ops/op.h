/* op.h - the description of an op, and the functions that run it.  A structured op is one file with
 * one const struct cr_op. */
#ifndef CR_OP_H
#define CR_OP_H

#include "../core/config.h"
#include "../core/interrupt.h"
#include "../core/layout.h"
#include "../core/rng.h"
#include "../core/tensor.h"
#include "../dev/dev.h"
#include "../dev/program.h"

typedef struct cr_op cr_op;

enum { CR_PARAMS_BYTES = 192, CR_MAX_AUX = 2 };
#define CR_SAVE_IN(i) (1u << (i))                   /* inputs 0..15 */
#define CR_SAVE_INS   0xffffu                       /* every input */
#define CR_SAVE_OUT   (1u << 16)
#define CR_SAVE_AUX   (1u << 17)

/* One use of an op.  In gradients in[i] and out have data only if they were saved; otherwise only
 * dtype, shape and device. */
typedef struct cr_batched cr_batched;                /* a call inside vmap (transform.h) */
typedef struct cr_call cr_call;
struct cr_call {
    const cr_op *op;
    const void *params;                             /* the op's own struct of op->params_bytes bytes */
    int n;
    const cr_tensor *const *in;                     /* CR_NONE where absent */
    const cr_device *dev;
    const cr_tensor *out;
    const cr_tensor *aux[CR_MAX_AUX];
    const bool *needs;                              /* gradients: is one for in[i] wanted? */
    cr_tensor *accumulated;                         /* gradients: so far for in[0], or NULL; may be updated in place
                                                     * and returned as dx[0] */
    bool differentiable;                            /* gradients: create_graph, so no fused kernels */
    uint32_t wide;                                  /* gradients: bit i: in[i] is an f32 tensor cast to half precision,
                                                     * and dx[i] may be f32 */
    /* gradients: dx[i] = a b; CR_NONE where on_product took the factors */
    cr_tensor *(*product)(int i, const cr_tensor *a, const cr_tensor *b);
    /* gradients with differentiable, in place of dx: y, computed from in[] once more by other ops, has the
     * cotangent g */
    cr_status (*backward_through)(const cr_tensor *y, const cr_tensor *g);
};

struct cr_op {
    const char *name;
    const char *(*name_of)(const void *params);     /* instead of name, where each use has its own */
    int arity;                                      /* -1: any number >= 1 */
    uint32_t optional;                              /* bit i: in[i] may be CR_NONE */
    size_t params_bytes;
    bool view;                                      /* the result shares in[0]'s storage, placed by infer */
    const cr_device *(*result_device)(const void *params);    /* where the result is made; NULL: where the inputs are */
    bool contiguous;                                /* inputs are made contiguous before forward */
    bool only_saved;                                /* gradients read only what was saved; the rest is CR_NONE */
    bool recompute_forward;                         /* gradients run the forward again: inputs and the result keep
                                                     * their graph */
    bool user_gradient;                             /* gradients run a function of the user */
    size_t needs_kernel;                            /* offsetof(cr_kernels, x): where x is NULL the composite runs;
                                                     * 0: always forward */
    bool (*kernel_supports)(const cr_call *c);      /* does the kernel support this call?  else the composite runs.
                                                     * NULL: it supports every call */
    uint32_t saves;                                 /* CR_SAVE_... */
    uint32_t (*saves_for)(const cr_call *c);        /* instead of saves: what the gradients in c->needs read */
    int n_aux;
    /* shape and dtype rule, all argument checks */
    cr_status (*infer)(const cr_call *c, cr_meta *out, cr_meta aux[]);
    cr_status (*forward)(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]);
    cr_status (*write)(const cr_call *c, cr_tensor *x);      /* the kernel into x, which exists: for cr_apply_ */
    cr_tensor *(*composite)(const cr_call *c);      /* the op over other ops; records itself */
    /* fills dx[i] where needs[i]; entries start as CR_NONE; NULL: failed */
    void (*grad)(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]);
    /* vmap: the result with the batch as axis 0; NULL: the composite, or an error that names the op */
    cr_tensor *(*batch)(const cr_batched *b);
    /* forward mode: the tangent of c->out, where in[] and t[] are the inputs and their tangents, CR_NONE where there is
     * none; it may broadcast to the result.  CR_NONE: zeros.  NULL instead of a function: the composite */
    cr_tensor *(*tangent)(const cr_call *c, const cr_tensor *const *t);
    const char *no_grad;                            /* why there is no gradient, where grad is NULL and forward is
                                                     * not */
    void (*hold)(const void *params, bool hold);    /* for params that own something: a node calls it with true when
                                                     * it copies them and with false when it is freed */
};

/* Runs an op: checks, infers, runs, records.  params may be NULL when params_bytes is 0.  Returns a
 * new handle, or NULL. */
cr_tensor *cr_apply(const cr_op *op, int n, const cr_tensor *const *in, const void *params);
/* The same with the auxiliary results: aux[k], op->n_aux of them, are new handles outside any
 * graph; NULL after a failure.  Only for ops whose kernel every device has: a composite makes
 * none. */
cr_tensor *cr_apply_aux(const cr_op *op, int n, const cr_tensor *const *in, const void *params, cr_tensor *aux[]);
/* In place: x, which is in[0], becomes the op's result.  A recorded result is computed in new
 * memory and copied.  Returns x (borrowed), or NULL. */
cr_tensor *cr_apply_(const cr_op *op, cr_tensor *x, int n, const cr_tensor *const *in, const void *params);

/* Runs an elementwise program (recorded as one node).  in: p->n_in tensors that broadcast. */
cr_tensor *cr_apply_program(const cr_program *p, const cr_tensor *const *in, const double *params);
/* In place: writes the program's only result into x (= in[0] in most uses); the shape of x must be
 * the broadcast shape. */
cr_tensor *cr_apply_program_(const cr_program *p, cr_tensor *x, const cr_tensor *const *in, const double *params);

/* ---- mixed precision (autocast.c): the thread's setting */
enum { CR_CAST_DEVICES = 8 };                       /* types of devices */
typedef struct cr_cast_state {
    const cr_kernels *kernels[CR_CAST_DEVICES];     /* of each type, in the order of their first region */
    cr_dtype dtype[CR_CAST_DEVICES];                /* bf16, f16; f32: none */
    bool on, cache;
} cr_cast_state;
cr_cast_state  cr_set_casts(cr_cast_state c);                 /* returns the old setting, as cr_casts_off */
cr_cast_state  cr_casts_off(void);
/* inputs in the dtype that op's policy says: casts, which the scope or the thread's cache owns */
cr_status cr_autocast_inputs(const char *op, const cr_device *dev, int n, const cr_tensor **in);
const char *cr_autocast_listed(int i);              /* i-th name of the policy, sorted; NULL past the end; for tests */

/* a b, of two axes each, of half precision: in f32, in no graph (matmul.c) */
cr_tensor *cr_matmul_wide(const cr_tensor *a, const cr_tensor *b);
/* the sum over the axes of mask; wide: half precision gives f32 (reduce.c) */
cr_tensor *cr_sum_mask(const cr_tensor *x, uint32_t mask, bool keepdim, bool wide);

/* Records out, a new handle with its elements, as the result of c. */
cr_status cr_record(const cr_call *c, cr_tensor *out);

/* operand t on dev: t itself, or a copy if it is a weak scalar or auto transfer is on; NULL: a message */
const cr_tensor *cr_operand_on(const char *op, const cr_tensor *t, const cr_device *dev);
const char *cr_call_name(const cr_call *c);         /* the op's or the program's name, for messages */
/* May x be written in place here and now?  recorded: the write will be part of the graph. */
cr_status cr_check_writable(const char *op, const cr_tensor *x, bool recorded);

/* Does t require a gradient?  All code asks through cr_in_graph: it first updates the node of a
 * handle whose memory was written, in a graph, through another handle. */
cr_status cr_sync_node(const cr_tensor *t);          /* after a failure t's node is out of date */
static inline bool cr_node_is_stale(const cr_tensor *t) {
    const cr_base *b = atomic_load_explicit(&t->base, memory_order_acquire);
    return b && b->graph_version != atomic_load_explicit(&t->graph_version, memory_order_acquire);
}
static inline bool cr_in_graph(const cr_tensor *t) {
    if (cr_node_is_stale(t)) cr_sync_node(t);
    return t->flags & CR_FLAG_REQUIRES_GRAD;
}

extern const cr_op cr_op_elementwise;               /* the op of every program node; params: cr_ew_params */
typedef struct cr_ew_params { const cr_program *program; double params[8]; } cr_ew_params;

/* A part of a tensor (strided_view.c): its elements lie `strides` apart, from `offset` on, among the tensor's
 * elements in row-major order. */
typedef struct cr_part_params { int ndim; int64_t shape[CR_MAX_DIMS], strides[CR_MAX_DIMS], offset; } cr_part_params;
/* ndim, shape: of the result */
typedef struct cr_embed_params { cr_part_params part; int ndim; int64_t shape[CR_MAX_DIMS]; } cr_embed_params;
/* Where t lies among the elements of whole, whose axes are in the order of memory; false: at no strides over them. */
bool cr_part_of(const cr_meta *whole, const cr_tensor *t, cr_part_params *p);

extern const cr_op cr_op_cast, cr_op_part, cr_op_embed_part, cr_op_replace_part;
/* Positions that one index names (take.c): the axes [axis, axis + count) of x, seen as one. */
typedef struct cr_take_params {
    const char *name;                               /* of this use; a static string */
    int axis, count;
    bool wrap, sum;                                 /* wrap: negative indices count from the end; sum: put adds */
    int ndim; int64_t shape[CR_MAX_DIMS];           /* put into zeros: theirs */
} cr_take_params;

/* Programs (ops/program.c, ops/derive.c). */
/* n_in entries, derived on first use; NULL: out of memory, or several results */
const cr_gradient *cr_program_gradient(const cr_program *p);
cr_program        *cr_program_retain(const cr_program *p);
int                cr_program_count(void);                                /* rows of ops.def */
const cr_program  *cr_program_at(int i);

/* Every structured op, for tests (ops/all.c). */
extern const cr_op *const cr_ops_all[];             /* NULL at the end */

/* The seam to grad: NULL until the first leaf requires a gradient.  record attaches a node to out,
 * which in place existed before; c->in are the inputs as given (before they were made contiguous),
 * saved the ones forward saw. */
typedef struct cr_recorder {
    cr_status (*record)(const cr_call *c, const cr_tensor *const *saved, cr_tensor *out, bool in_place);
    cr_status (*sync_node)(cr_tensor *t);                                 /* updates t's node from its base */
    cr_status (*check)(const cr_call *c, const cr_tensor *out);           /* anomaly mode */
    void (*note)(int n, const cr_tensor *const *in);                      /* while cr_modes.noting */
} cr_recorder;
void cr_set_recorder(const cr_recorder *r);
void cr_note(int n, const cr_tensor *const *in);    /* an op reads these, or tensors made from them */
const char *cr_source_now(void);                    /* never NULL */

/* ---- the profiler (profile.c): start = cr_profile_start(), the work, if (start > 0)
 * cr_profile_event(start, ...) */
extern atomic_bool cr_profiling;
static inline double cr_profile_start(void) {
    return atomic_load_explicit(&cr_profiling, memory_order_relaxed) ? cr_os_seconds() : 0;
}
void cr_profile_event(double start, const char *kind, const char *name, int n, const cr_tensor *const *in, int n_out,
                      const cr_tensor *const *out);

/* ---- the executor (apply.c) */

/* One run of a kernel, and how its results are committed. */
typedef struct cr_run {
    const char *kind, *name;                        /* of the profile's event; name also begins messages */
    cr_status (*kernel)(const void *work);
    const void *work;
    int n_in, n_out;
    const cr_tensor *const *in;
    cr_tensor *const *out;
    bool in_place;                                  /* the results existed before: the versions of their storages
                                                     * count the write */
    const cr_call *call;                            /* whose result out[0] is, for recording and anomaly mode; NULL:
                                                     * neither */
    const cr_tensor *const *saved;                  /* the inputs as the kernel saw them; NULL: not recorded */
} cr_run;
cr_status cr_execute(const cr_run *p);
int       cr_product_how(void);                     /* cr_matmul_how of this thread's products (matmul.c) */
cr_status cr_run_walks(const void *work);           /* a kernel: elementwise programs; work: cr_elementwise_args */

/* bytes [at, at + bytes) of `from` to `to_at` of `to`, on another device; memory that this process can read needs no
 * staging (copy.c) */
cr_status cr_move_bytes(cr_storage *to, size_t to_at, cr_storage *from, size_t at, size_t bytes);

/* uninitialised storage of m's size; honours dense strides */
cr_tensor *cr_new_like(const cr_meta *m, const cr_device *dev);

#endif
