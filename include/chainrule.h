/* chainrule.h - tensors, automatic differentiation and neural networks in C17: a reference card.
 *
 * Parts       This file is the core.  In chainrule/: ops.h (functions of tensors), nn.h (layers,
 *             losses, optimizers, text, data, checkpoints, GPT-2), func.h (vmap, forward mode),
 *             plan.h (recorded steps), dist.h (many processes), value.h (numbers with gradients).
 * Ownership   A function that returns a tensor returns a new reference that the caller owns.
 *             Release it with cr_release, or work inside a scope: it owns every new handle of its
 *             thread.  Arguments are borrowed.  "borrowed" in a comment: do not release; valid as
 *             long as its lender keeps it (a gradient: until another is set), or after cr_retain.
 * Errors      A failed call returns NULL (or a status other than CR_OK) and sets cr_error().  A
 *             NULL argument gives a NULL result and keeps the first message until
 *             cr_error_clear(), so a chain of calls needs one check at its end.  An absent optional
 *             tensor is CR_NONE, not NULL.  The library never prints, exits or aborts.
 * Lists       Parameters (int n, const int64_t *list) take CR_LIST(2, 3, 4).  CR_ALL means every
 *             axis.  A negative axis counts from the end.
 * Threads     Threads may share tensors, and graphs with retain_graph; gradients add up.  The
 *             caller orders writes.  Errors, scopes and the gradient mode belong to one thread.
 *             The rules are in docs/howto/threads.md.
 * Letters     B batch, T time, C channels (OC: output channels), V vocabulary, H heads, D head
 *             size; M, N, K: the sizes of a product (M, K) x (K, N).
 */
#ifndef CHAINRULE_H
#define CHAINRULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define CR_VERSION "0.1.0"
#define CR_MAX_DIMS 8

#ifdef __cplusplus
}                       /* C++ has no compound literals; the list lives until the statement ends */
#include <initializer_list>
template <class... T> char (&cr_list_count(const T &...))[sizeof...(T)];  /* used only in sizeof */
inline const int64_t *cr_list_data(std::initializer_list<int64_t> list) { return list.begin(); }
extern "C" {
#define CR_LIST(...) \
    static_cast<int>(sizeof(cr_list_count(__VA_ARGS__))), cr_list_data({__VA_ARGS__})
#else
#define CR_LIST(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}
#endif
#define CR_ALL 0, (const int64_t *)0    /* every axis; as a shape: no axes, a scalar */

typedef struct cr_tensor cr_tensor;
typedef struct cr_device cr_device;
typedef struct cr_generator cr_generator;
typedef struct cr_node cr_node;

extern const cr_tensor cr_none_tensor;
#define CR_NONE (&cr_none_tensor)       /* an optional tensor that is absent */

/* ---- errors */
typedef enum cr_status {
    CR_OK, CR_BAD_VALUE, CR_BAD_TYPE, CR_BAD_INDEX, CR_RUNTIME, CR_NO_MEMORY, CR_IO, CR_INTERRUPTED
} cr_status;

const char *cr_version(void);       /* "0.1.0": version of the loaded library */
const char *cr_error(void);         /* this thread's first message since the last clear */
cr_status   cr_error_status(void);  /* status of that message; CR_OK: no error */
void        cr_error_clear(void);

/* ---- dtypes */
typedef enum cr_dtype {
    CR_BOOL, CR_U8, CR_U16, CR_U32, CR_U64, CR_I8, CR_I16, CR_I32, CR_I64,
    CR_F16, CR_BF16, CR_F32, CR_F64, CR_DTYPES
} cr_dtype;

const char *cr_dtype_name(cr_dtype dt);         /* "float32", "bool"...: PyTorch's names */
size_t      cr_dtype_size(cr_dtype dt);         /* bytes of an element */
bool        cr_dtype_is_float(cr_dtype dt);
cr_dtype    cr_promote(cr_dtype a, cr_dtype b); /* PyTorch's promotion: docs/dtypes.md */
cr_dtype    cr_default_dtype(void);         /* of plain numbers that are floats: f32 */
cr_status   cr_set_default_dtype(cr_dtype dt);      /* a float dtype, for the whole process */
bool        cr_can_cast(cr_dtype from, cr_dtype to);
                            /* false for float to integer and number to bool */

/* ---- devices and threads */
const cr_device *cr_cpu(void);
const cr_device *cr_ref(void);              /* plain loops in double: they define every op */
const cr_device *cr_gpu(int i);             /* i-th hardware GPU, fastest first; none: an error */
const cr_device *cr_cuda(int i);            /* i-th NVIDIA GPU */
int              cr_cuda_count(void);       /* if 0, cr_cuda(0) reports why */
const cr_device *cr_webgpu(int i);          /* i-th GPU through WebGPU, of any vendor */
const cr_device *cr_device_find(const char *name);
                            /* "cpu", "ref", "gpu", "cuda:0", "webgpu:0"; "auto": CUDA, else another
                               hardware GPU, else cpu; "meta": shapes and dtypes without elements */
const cr_device *cr_device_at(int i);       /* i-th device; NULL past the end, no error */
const cr_device *cr_default_device(void);   /* cpu, or CHAINRULE_DEVICE */
cr_status        cr_set_default_device(const cr_device *dev);
const char      *cr_device_name(const cr_device *dev);
const char      *cr_device_info(const cr_device *dev); /* instruction set, engine and its version */
cr_status        cr_synchronize(const cr_device *dev);
                            /* wait; returns an error that a kernel found */
typedef struct cr_memory { int64_t current, peak, cached; } cr_memory;
                            /* bytes: in use, maximum, kept for reuse */
cr_memory        cr_memory_stats(const cr_device *dev);
void             cr_reset_peak(const cr_device *dev);  /* the maximum counts from now on */
void             cr_empty_cache(const cr_device *dev); /* return cached blocks to the system */
bool             cr_auto_transfer(bool on);
                            /* this thread: copy operands to the first operand's device; returns
                               the old setting */
bool             cr_switch_at(int i, const char **name, const char **doc, const char **value);
                            /* i-th run-time switch (CHAINRULE_...); false past the end; value
                               NULL: not set */
cr_status        cr_switch_set(const char *name, const char *value);
                            /* "CHAINRULE_ISA" or "ISA"; overrides the environment; NULL: use the
                               environment again; an error after the library has used the switch */
int              cr_num_threads(void);
cr_status        cr_set_num_threads(int n); /* >= 1; the bits of a result do not depend on n */
typedef bool (*cr_interrupt_fn)(void *ctx); /* true: interrupt the call */
void             cr_set_interrupt(cr_interrupt_fn fn, void *ctx);
                            /* process-wide; NULL: off; every long call polls it on its own
                               thread; an interrupted call fails with CR_INTERRUPTED and leaves
                               an in-place result half written; set it while no thread works */

/* Profiler: a trace of every op of every thread for Perfetto or chrome://tracing, with time,
 * shapes, dtypes, bytes, device and source line.  It keeps 100000 events and counts the rest. */
cr_status        cr_profile_begin(void);
cr_status        cr_profile_end(const char *path);  /* write the trace (JSON) */

/* ---- scopes and references: all but keep accept NULL and CR_NONE ----------------------------- */
void       cr_scope_begin(void);        /* the scope owns this thread's new handles */
void       cr_scope_end(void);          /* release every handle the innermost scope still owns */
cr_tensor *cr_keep(cr_tensor *t);       /* move t to the enclosing scope or the caller; returns t */
void       cr_release(const cr_tensor *t); /* release an owned handle; inside its scope: early */
cr_tensor *cr_unscope(cr_tensor *t);    /* move t out of every scope, to the caller; returns t */
cr_tensor *cr_retain(const cr_tensor *t); /* new reference for an object that stores t */
void       cr_drop(const cr_tensor *t); /* release a reference from cr_retain */

/* ---- random numbers: Philox 4x32-10, the same bits on every device --------------------------- */
cr_generator *cr_generator_new(uint64_t seed);
void          cr_generator_free(cr_generator *g);
cr_generator *cr_default_generator(void);           /* borrowed; shared by the process */
void          cr_manual_seed(uint64_t seed);        /* seed the default generator */
uint64_t      cr_generator_seed(cr_generator *g);   /* seed from system entropy; returns the seed */
void          cr_generator_get(const cr_generator *g, uint64_t *seed, uint64_t *counter);
void          cr_generator_set(cr_generator *g, uint64_t seed, uint64_t counter);

/* ---- make tensors */
cr_tensor *cr_empty(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_zeros(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_ones(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_full(int n, const int64_t *shape, double value, cr_dtype dt, const cr_device *dev);
cr_tensor *cr_empty_like(const cr_tensor *x);
cr_tensor *cr_zeros_like(const cr_tensor *x);
cr_tensor *cr_ones_like(const cr_tensor *x);
cr_tensor *cr_scalar(double value); /* (), any device; does not promote: x * 2.0 has x's dtype */
cr_tensor *cr_scalar_int(int64_t value); /* the same, an integer */
cr_tensor *cr_scalar_bool(bool value); /* the same, a bool */
cr_tensor *cr_arange(double start, double stop, double step, cr_dtype dt, const cr_device *dev);
                            /* [start, stop) */
cr_tensor *cr_linspace(double start, double stop, int64_t n, cr_dtype dt, const cr_device *dev);
                            /* [start, stop], n numbers */
cr_tensor *cr_eye(int64_t n, int64_t m, cr_dtype dt, const cr_device *dev); /* identity (n, m) */
cr_tensor *cr_from(const void *data, int n, const int64_t *shape, cr_dtype dt,
                   const cr_device *dev); /* copy of host memory */
cr_tensor *cr_borrow(void *data, int n, const int64_t *shape, cr_dtype dt, void (*done)(void *ctx),
                     void *ctx);
                            /* cpu tensor over the caller's memory; done(ctx) (or NULL) is called
                               after the last use, on any thread */
cr_tensor *cr_borrow_strided(void *data, int n, const int64_t *shape, const int64_t *strides,
                             cr_dtype dt, void (*done)(void *ctx), void *ctx);
                            /* strides in elements, >= 0; NULL: contiguous */
cr_tensor *cr_storage_view(const cr_tensor *t, cr_dtype dt, int n, const int64_t *shape,
                           const int64_t *strides, int64_t offset);
                            /* the storage of t as another tensor outside any graph; strides >= 0
                               and offset count elements of dt; on GPUs dt is t's dtype */

/* ---- random tensors: no gradients; g is never NULL */
cr_tensor *cr_rand(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev, cr_generator *g);
                            /* uniform in [0, 1) */
cr_tensor *cr_randn(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev,
                    cr_generator *g);       /* standard normal */
cr_tensor *cr_randint(int64_t low, int64_t high, int n, const int64_t *shape, cr_dtype dt,
                      const cr_device *dev, cr_generator *g); /* integers in [low, high) */
cr_tensor *cr_gumbel(int n, const int64_t *shape, cr_dtype dt, const cr_device *dev,
                     cr_generator *g);      /* -log(-log(u)): argmax(log(p) + gumbel) samples p */
cr_tensor *cr_bernoulli(double p, int n, const int64_t *shape, cr_dtype dt, const cr_device *dev,
                        cr_generator *g);   /* 1 with probability p, else 0 */
cr_tensor *cr_bernoulli_of(const cr_tensor *p, cr_generator *g);
                            /* 1 with probability p[i], else 0; p's shape and dtype */
cr_tensor *cr_normal(const cr_tensor *mean, const cr_tensor *std, cr_generator *g);
                            /* mean + std randn, broadcast; std >= 0 */
cr_tensor *cr_randperm(int64_t n, cr_dtype dt, const cr_device *dev, cr_generator *g);
                            /* 0 ... n - 1 in random order */
cr_tensor *cr_multinomial(const cr_tensor *w, int64_t n, bool replacement, cr_generator *g);
                            /* n indices with probability proportional to w : (N) or (M, N) ->
                               (n) or (M, n), i64; without replacement: in the order drawn */

/* in place: fill x with random numbers; returns x (borrowed) or NULL */
cr_tensor *cr_uniform_(cr_tensor *x, double low, double high, cr_generator *g); /* in [low, high) */
cr_tensor *cr_normal_(cr_tensor *x, double mean, double std, cr_generator *g);
cr_tensor *cr_log_normal_(cr_tensor *x, double mean, double std, cr_generator *g);
                            /* exp of a normal */
cr_tensor *cr_exponential_(cr_tensor *x, double rate, cr_generator *g);
                            /* density rate e^(-rate y), y > 0 */
cr_tensor *cr_cauchy_(cr_tensor *x, double median, double sigma, cr_generator *g);
                            /* density sigma / (pi ((y - median)^2 + sigma^2)) */
cr_tensor *cr_geometric_(cr_tensor *x, double p, cr_generator *g);
                            /* trials up to the first success of probability p: 1, 2...; any
                               dtype, as in the three below */
cr_tensor *cr_bernoulli_(cr_tensor *x, const cr_tensor *p, cr_generator *g);
                            /* 1 with probability p, else 0; p broadcasts; cr_scalar(p): one for
                               all */
cr_tensor *cr_random_(cr_tensor *x, int64_t low, int64_t high, cr_generator *g);
                            /* integers in [low, high) */
cr_tensor *cr_random_all_(cr_tensor *x, cr_generator *g);
                            /* integers from 0 to the dtype's maximum; floats: to the largest
                               number below which every integer is exact */

/* ---- inspect tensors */
int              cr_ndim(const cr_tensor *t);
const int64_t   *cr_shape(const cr_tensor *t);      /* cr_ndim sizes; borrowed */
const int64_t   *cr_strides(const cr_tensor *t);    /* in elements; borrowed */
int64_t          cr_storage_offset(const cr_tensor *t); /* in elements */
const void      *cr_storage_id(const cr_tensor *t); /* equal for tensors that share memory */
int64_t          cr_storage_bytes(const cr_tensor *t); /* of that memory */
int64_t          cr_size(const cr_tensor *t, int axis);
int64_t          cr_numel(const cr_tensor *t);
cr_dtype         cr_dtype_of(const cr_tensor *t);
const cr_device *cr_device_of(const cr_tensor *t);
cr_dtype         cr_result_type(int n, const cr_tensor *const *in);
                            /* dtype of their sum; CR_DTYPES on failure */
bool             cr_is_contiguous(const cr_tensor *t);
bool             cr_is_none(const cr_tensor *t);
double           cr_item(const cr_tensor *t);       /* the only element; more: NaN and an error */
int64_t          cr_item_int(const cr_tensor *t);   /* the same for integer dtypes, exact */
void            *cr_data(const cr_tensor *t);       /* first element on cpu and ref, else NULL */
cr_status        cr_read(const cr_tensor *t, cr_dtype dt, void *dst, size_t bytes);
                            /* elements in order, cast to dt */
cr_status        cr_write(cr_tensor *t, cr_dtype dt, const void *src, size_t bytes);
                            /* in place; raises the version */

/* ---- autograd */
cr_tensor  *cr_requires_grad_(cr_tensor *t, bool on);
                            /* make t a leaf that collects a gradient; returns t (borrowed) */
bool        cr_requires_grad(const cr_tensor *t);
bool        cr_is_leaf(const cr_tensor *t);
const char *cr_op_name(const cr_tensor *t); /* op that made t; "": a leaf or no graph; borrowed */
cr_tensor  *cr_grad(const cr_tensor *t);    /* CR_NONE before the first backward; borrowed */
cr_tensor  *cr_grad_retain(const cr_tensor *t); /* the same, retained atomically for cr_drop */
cr_status   cr_set_grad(cr_tensor *t, const cr_tensor *g); /* CR_NONE frees the gradient */
cr_status   cr_retain_grad(cr_tensor *t);   /* a non-leaf keeps its gradient too */
bool        cr_retains_grad(const cr_tensor *t); /* false for a leaf */
cr_tensor  *cr_detach(const cr_tensor *t);  /* same storage, outside the graph */
cr_tensor  *cr_variable_data(const cr_tensor *t); /* the same, with a version counter of its own */
cr_tensor  *cr_with_data(cr_tensor *t, const cr_tensor *data);
                            /* a new handle of t over other memory; it takes over t's node, hooks,
                               earlier uses and gradient; drop t afterwards */
unsigned    cr_tensor_version(const cr_tensor *t); /* counts in-place writes */
bool        cr_grad_enabled(void);
bool        cr_set_grad_enabled(bool on);   /* this thread; returns the old setting */

typedef cr_status (*cr_on_grad)(cr_tensor *leaf, const cr_tensor *grad, void *ctx);
                            /* receives a leaf's complete gradient (borrowed) once no op needs
                               the leaf; may write to the leaf */
typedef cr_status (*cr_on_product)(cr_tensor *leaf, const cr_tensor *a, const cr_tensor *b,
                                   void *ctx, bool *taken);
                            /* may take a leaf's gradient as the operands of the product a b */
typedef struct cr_backward_options {
    bool retain_graph, create_graph;
    cr_on_grad on_grad; void *ctx;  /* replaces adding to leaves; excludes the flags above */
    cr_on_product on_product;
                            /* optional, with on_grad: called first for a weight whose only
                               gradient is one product; *taken false: on_grad follows */
    int n_inputs; const cr_tensor *const *inputs;
                            /* cr_backward adds only to these, leaves or not; 0: to all leaves */
} cr_backward_options;
cr_status   cr_backward(const cr_tensor *y, const cr_tensor *gradient,
                        const cr_backward_options *o);
                            /* add to the gradients of leaves; gradient CR_NONE: 1, y scalar; o
                               NULL: all off */
int64_t     cr_backward_visited(void);  /* nodes visited by this thread's running or last pass */
cr_status   cr_gradients(int n_out, const cr_tensor *const *out,
                         const cr_tensor *const *grad_outputs, int n_in, const cr_tensor *const *in,
                         cr_tensor **grads, const cr_backward_options *o);
                            /* as torch.autograd.grad; grad_outputs NULL: all CR_NONE; grads[i]
                               CR_NONE: out does not depend on in[i] */

typedef cr_tensor *(*cr_hook)(const cr_tensor *grad, void *ctx);
                            /* returns a new gradient (owned), CR_NONE (unchanged) or NULL
                               (failure) */
int64_t     cr_add_hook(cr_tensor *t, cr_hook hook, void *ctx, void (*done)(void *ctx));
                            /* id >= 1, 0 on failure; done (or NULL) is called once, when the
                               hook is removed or freed */
int64_t     cr_add_late_hook(cr_tensor *leaf, cr_hook hook, void *ctx, void (*done)(void *ctx));
                            /* hook(leaf) as soon as a pass has added its complete gradient, where
                               cr_backward has no on_grad; returns CR_NONE, or NULL (failure) */
cr_status   cr_after_backward(cr_status (*call)(void *ctx), void *ctx, void (*done)(void *ctx));
                            /* in a hook: calls once when this thread's outermost cr_backward is
                               complete; after a failure only done (or NULL) is called */
cr_status   cr_remove_hook(cr_tensor *t, int64_t id);   /* also from inside a hook */

typedef struct cr_saved_hooks {     /* what the graph saves for backward, kept in another form */
    void      *(*pack)(const cr_tensor *t, void *ctx);  /* when it is saved; NULL: a failure */
    cr_tensor *(*unpack)(void *packed); /* in backward; owned, of t's dtype, shape and device */
    void       (*done)(void *packed);   /* when the graph needs it no more */
    void        *ctx;
} cr_saved_hooks;
cr_saved_hooks cr_set_saved_hooks(cr_saved_hooks h); /* this thread; {0}: none; returns the old */
bool        cr_set_anomaly(bool on);    /* this thread: NaN or Inf is an error; returns the old */
typedef const char *(*cr_source_fn)(void *ctx);
                            /* the caller's position, "train.py:12"; NULL or "": unknown; the
                               library copies it */
void        cr_set_source(cr_source_fn fn, void *ctx);
                            /* process-wide; NULL: off; in anomaly mode, messages about gradients
                               then name the line that called the op */

typedef cr_tensor *(*cr_function)(int n, const cr_tensor *const *in, void *ctx);    /* owned */
cr_tensor  *cr_checkpoint(cr_function f, void *ctx, int n, const cr_tensor *const *in);
                            /* f(in), recomputed in the backward pass instead of saved; ctx must
                               live until then */
typedef struct cr_gradcheck_options { double eps, atol, rtol; uint64_t seed; } cr_gradcheck_options;
cr_gradcheck_options cr_gradcheck_defaults(void);   /* eps 1e-6, atol 1e-5, rtol 1e-3 */
cr_status   cr_gradcheck(cr_function f, void *ctx, int n, const cr_tensor *const *in,
                         const cr_gradcheck_options *o);
                            /* f64 inputs that require grad; compares with central differences;
                               the message gives input, position and both values */
cr_status   cr_gradgradcheck(cr_function f, void *ctx, int n, const cr_tensor *const *in,
                             const cr_gradcheck_options *o);
                            /* the same for gradients of gradients (create_graph); run
                               cr_gradcheck too: the first gradients are not compared with f */

/* ---- the recorded graph: a node is a result of an op, or a leaf; it keeps its inputs alive --- */
typedef struct cr_node_info {                   /* all borrowed from the node */
    const char *op;                             /* as cr_op_name */
    bool function;                              /* recorded by cr_function_record */
    int inputs;
    cr_dtype dtype; int ndim; const int64_t *shape; /* of the result */
} cr_node_info;
cr_node     *cr_node_of(const cr_tensor *t);    /* owned; NULL without an error: t is in no graph */
cr_node_info cr_node_look(const cr_node *n);
void         cr_node_rename(const cr_tensor *t, const char *op);
                            /* shows op (not copied) as the name of the op that made t; no effect
                               if t is in no graph or shares its node */
cr_tensor   *cr_node_tensor(const cr_node *n);
                            /* the leaf, or the result if it retains its gradient: owned
                               (cr_drop); NULL without an error: already freed */
cr_node     *cr_node_input(const cr_node *n, int i);
                            /* owned; NULL without an error: no gradient flows there */
void         cr_node_release(cr_node *n);       /* NULL is accepted */

/* ---- functions with a gradient of your own: as torch.autograd.Function ----------------------- */
typedef struct cr_function_call {   /* all borrowed */
    int n_out; const cr_tensor *const *grads; /* cotangent of each result; CR_NONE: none arrived */
    int n_in;  const bool *needs;   /* does in[i] need a gradient? */
    int n_saved; const cr_tensor *const *saved; /* a saved tensor overwritten since is an error */
    bool frees;                     /* the pass frees what was saved: no retain_graph */
    void *ctx;
} cr_function_call;
typedef cr_status (*cr_function_grad)(const cr_function_call *c, cr_tensor **dx);
                            /* sets dx[i] (owned; initially CR_NONE: no gradient); called once
                               per backward pass; recorded under create_graph */
typedef struct cr_function_use {
    const char *name;               /* copied, for messages */
    int n_in;    const cr_tensor *const *in; /* CR_NONE is accepted */
    int n_out;   const cr_tensor *const *out;
    int n_saved; const cr_tensor *const *saved;
                            /* any tensors the gradient reads; freed after use unless
                               retain_graph */
    cr_function_grad backward;
    void *ctx; void (*done)(void *ctx);
                            /* done (or NULL) is called once, when the graph needs ctx no more;
                               after a failure the caller keeps ctx */
    const bool *written;            /* out[k] is an input, written in place; NULL: none */
} cr_function_use;
cr_status   cr_function_record(const cr_function_use *u, cr_tensor **results);
                            /* compute `out` with recording off, then record it; results[k]: new
                               handle of out[k], in the graph if float and an input requires grad */
uint64_t    cr_graph_mark(void);    /* nodes made from now on are younger than the mark */
cr_status   cr_recompute_record(const cr_function_use *u, uint64_t mark, cr_tensor **results);
                            /* the same for `out` computed with recording on; backward recomputes
                               it; inputs: every node older than the mark that `out` depends on */
cr_status   cr_backward_through(const cr_tensor *y, const cr_tensor *g);
                            /* inside a function's gradient: continues the backward pass through
                               the graph of y with cotangent g */

#include "chainrule/ops.h"
#include "chainrule/nn.h"
#include "chainrule/func.h"
#include "chainrule/plan.h"
#include "chainrule/dist.h"
#include "chainrule/value.h"

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
