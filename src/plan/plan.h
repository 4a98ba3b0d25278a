/* plan.h - a recorded step: kernels with copies of their arguments, and the buffers that they read and write.
 *
 * record.c notes them, kernels.c knows where the arrays are in the arguments of each kernel, passes change the list,
 * run.c replays it. */
#ifndef CR_PLAN_PLAN_H
#define CR_PLAN_PLAN_H

#include "../core/tensor.h"
#include "../dev/dev.h"
#include "../dev/program.h"
#include "../grad/graph.h"
#include "../ops/op.h"

/* ---- buffers: storages as the step sees them */
typedef enum cr_buffer_kind {
    CR_BUFFER_OUTSIDE,                              /* existed before the step: the plan keeps a reference */
    CR_BUFFER_CONSTANT,                             /* made on the host by the step: kept as it is */
    CR_BUFFER_TEMPORARY,                            /* begins and ends in the step: a slot of the arena */
    CR_BUFFER_INPUT,                                /* given for each run */
    CR_BUFFER_OUTPUT                                /* new in each run: results and gradients of leaves */
} cr_buffer_kind;

typedef struct cr_buffer {
    cr_buffer_kind kind;
    const cr_device *dev;
    size_t bytes;
    cr_storage *storage;                            /* owned where kept; else only while it lives in the recording */
    int first, last;                                /* the first and last step that use it; -1: none */
    bool written, counts;                           /* counts: its version rises, and not only that of some handles */
    size_t at; int device;                          /* temporaries of host devices: their offset in the arena of
                                                     * plan->devices[device] */
} cr_buffer;

/* ---- operands: the arrays in the arguments of a step */
enum { CR_READS = 1, CR_WRITES = 2 };
typedef struct cr_operand {
    int buffer;
    uint8_t use;                                    /* CR_READS, CR_WRITES, or both */
    bool walk;                                      /* a cr_arg of an elementwise program, else a cr_array */
    bool whole;                                     /* an array of which each row of a tile reads all */
    uint32_t at;                                    /* of the array, in bytes from the start of the arguments */
    int64_t low, high;                              /* the bytes of the buffer that it may touch */
} cr_operand;

/* ---- steps */
typedef enum cr_step_kind {
    CR_STEP_KERNEL,
    CR_STEP_UPLOAD,                                 /* bytes of the host into a buffer */
    CR_STEP_TRANSFER,                               /* between devices */
    CR_STEP_HOST,                                   /* a function of the host, on numbers */
    CR_STEP_GROUP                                   /* tile.c: kernels that run tile by tile */
} cr_step_kind;

typedef struct cr_transfer { cr_array to, from; size_t bytes; } cr_transfer;     /* from the offset of each */
/* arrays: of one element, n that are read, then n_out that are written; behind them as many doubles */
typedef struct cr_host_work {
    int n, n_out;
    cr_host_step f; void *ctx; void (*done)(void *ctx);
    cr_array arrays[];
} cr_host_work;
static inline size_t cr_host_bytes(int n, int n_out) {
    return sizeof(cr_host_work) + (sizeof(cr_array) + sizeof(double)) * (size_t)(n + n_out);
}
typedef struct cr_upload_step { cr_array to; size_t bytes; unsigned char data[]; } cr_upload_step;

typedef struct cr_step {
    cr_step_kind kind;
    int kernel;                                     /* CR_KERNEL_...; -1: no kernel */
    cr_kernel_run run;
    char *args;                                     /* own block: the argument struct, then what it points to */
    uint32_t bytes;
    int n_inside; uint32_t *inside;                 /* offsets of pointers into the block itself */
    int n_operands; cr_operand *operands;
    int draw;                                       /* random numbers: which draw of the plan; -1: none */
    int update;                                     /* recorded update whose params the walks read; -1: none */
    char *name;                                     /* of the op: "softmax", "backward of softmax"; NULL: none */
    bool begins;                                    /* a buffer of its own memory begins or ends here */
    bool may_fail;                                  /* because of what tensors hold: it stays, used or not */
    struct cr_group *group;                         /* CR_STEP_GROUP */
} cr_step;

/* Kernels that run on tiles of their common rows, one after the other, while a tile is in the cache. */
enum { CR_GROUP_MOST = 16 };
typedef struct cr_group {
    int n; cr_step *steps;
    const cr_device *dev;
    int64_t numel, tile;                            /* elements of the common space, and of a tile */
    int64_t units[CR_GROUP_MOST];                   /* elements of a row of each kernel */
    int n_inner; struct cr_inner { int buffer; int64_t bytes; } *inner;    /* buffers that exist only as tiles */
    int n_refs; struct cr_tile_ref *refs;
    uint32_t args;                                  /* bytes of the arguments of all kernels */
} cr_group;

/* ---- what is not a kernel */
typedef struct cr_draw {                            /* g: owned; NULL: the same numbers in each run */
    cr_generator *g; uint64_t seed, counter, blocks; bool used, sets;       /* sets: no draw, the step set g's state */
} cr_draw;
typedef struct cr_update_params {
    int n; double *of;
    bool live;                                      /* cr_plan_set_params may change them */
} cr_update_params;
typedef struct cr_leaf {                            /* a leaf whose gradient the step reads or changes */
    cr_tensor *tensor;                              /* retained; NULL: an input */
    int input;                                      /* which; -1: from outside */
    bool sets;                                      /* its gradient is set before it is read or added to */
    bool keeps;                                     /* the gradient after the step is the one before it, perhaps written
                                                     * in place */
    int slot;                                       /* without `sets`: the input that is the gradient before the step;
                                                     * -1: it must have none */
    int buffer;                                     /* of the gradient at the end; -1: none */
    cr_array grad;                                  /* its layout */
} cr_leaf;
typedef struct cr_callback { cr_replay before; void *ctx; void (*done)(void *ctx); } cr_callback;
typedef struct cr_result {                          /* an input, an output, or a gradient of a differentiable plan */
    bool walked;                                    /* inputs: a backward pass inside the step reaches it */
    int buffer;                                     /* -1: absent */
    cr_array array;                                 /* its layout in the buffer; storage NULL, but in inputs: kept where
                                                     * the step uses other bytes of it too, and a run must give it the
                                                     * same memory */
    bool in_graph, absent;
    bool counts;                                    /* inputs: the step writes by this handle */
    int first;                                      /* inputs: the first one that is the same tensor */
} cr_result;
/* A tensor from outside that an op of the step read: does it require a gradient?  Its memory never changes. */
typedef struct cr_leaf_read {
    cr_tensor *tensor;
    bool graded, in_graph, by_op;                   /* graded: read for a graph; by_op: not only by a name */
} cr_leaf_read;
/* An index from outside, as a kernel of the step reads it: low .. size - 1, or `ignore`. */
typedef struct cr_index_check {
    const char *op;
    cr_array index;                                 /* storage: the buffer's number + 1 */
    int64_t low, size, ignore; bool ignores;
} cr_index_check;

typedef struct cr_loop_job cr_loop_job;             /* jit.c */
/* Arguments and memory of one run at a time. */
typedef struct cr_instance {
    struct cr_instance *next;
    atomic_bool busy;
    char *pool;                                     /* the arguments of every step */
    cr_storage *slots;                              /* one for each temporary of a host device, in the arena */
    cr_storage **arenas;                            /* one for each device */
    cr_storage **bound;                             /* of each buffer, for this run; owned */
    int64_t *moved;                                 /* inputs: bytes from the recorded offset to the given one */
    struct cr_stretches *stretches;                 /* graph.c; NULL: no device of the plan has graphs */
} cr_instance;
/* Where an array of a buffer is in the arguments of all steps, and its recorded offset. */
typedef struct cr_array_ref { size_t at; bool walk; uint8_t size; int64_t offset; } cr_array_ref;
typedef struct cr_draw_ref { size_t at; int draw; } cr_draw_ref;
enum { CR_PLAN_DEVICES = 8 };

struct cr_plan {
    atomic_int refs;                                /* one of the caller, and one of each graph that needs the plan */
    int n_steps, split; cr_step *steps; int64_t step_room;      /* steps from `split` on are the backward pass */
    int n_buffers; cr_buffer *buffers; int64_t buffer_room;
    int n_inputs; cr_result *inputs;                /* those that a run is given, then the gradients of leaves' slots */
    int n_given;
    int n_outputs; cr_result *outputs;
    int n_leaves; cr_leaf *leaves;
    int n_reads; cr_leaf_read *reads;
    int n_checks; cr_index_check *checks; int64_t check_room;
    int n_counters; cr_counter **counters;          /* of handles from outside by which the step writes; owned */
    int n_visited; cr_node **visited;               /* nodes from outside whose hooks a run would leave out; retained */
    int n_draws; cr_draw *draws;
    int n_callbacks; cr_callback *callbacks;
    int n_updates; cr_update_params *updates;       /* in the order in which they were recorded */
    /* differentiable plans: cotangents in, gradients of inputs and captured leaves out */
    int n_cotangents; cr_result *cotangents;        /* one for each output */
    int n_captured; cr_tensor **captured;           /* leaves from outside; retained */
    int n_gradients; cr_result *gradients;          /* of the inputs, then of the captured leaves */
    int recorded, escaped;                          /* kernels before the passes; temporaries that outlived the
                                                     * recording */
    size_t arena, temporaries;                      /* bytes: of the arenas, and of all temporaries */
    /* what replays need (run.c) */
    size_t pool, *args_at;                          /* bytes of all arguments, and where those of each step begin */
    int *ref_start; cr_array_ref *refs_of;          /* of buffer b: refs_of[ref_start[b] ... ref_start[b + 1]] */
    int n_draw_refs; cr_draw_ref *draw_refs;
    int n_devices; struct { const cr_device *dev; size_t bytes; } devices[CR_PLAN_DEVICES];
    int *grad_outputs;                              /* the outputs in a graph */
    bool writes_outside;
    bool retired;                                   /* fits nothing any more */
    bool no_grad;                                   /* recorded with the gradient mode off */
    int how;                                        /* of f32 products, in the recording (cr_product_how) */
    _Atomic(cr_instance *) instances;
    atomic_int runs; _Atomic(cr_loop_job *) loops;  /* NULL: not begun */
};

/* Is there a gradient for this input?  A tensor that was given twice has one. */
static inline bool cr_takes_gradient(const cr_plan *p, int input) {
    return p->inputs[input].in_graph && p->inputs[input].first == input;
}

bool      cr_same_layout(const cr_array *a, const cr_array *b);
bool      cr_same_memory(const cr_array *a, const cr_array *b);        /* and the same memory */
void      cr_step_free(cr_step *s);
char     *cr_joined(const char *a, const char *b);  /* one text; free(); NULL: out of memory, without a message */
cr_status cr_plan_prepare(cr_plan *p);              /* plan.c: the passes, and what replays need */
cr_status cr_plan_finish(cr_plan *p);               /* what replays need, after the last pass */
void      cr_plan_release(cr_plan *p);              /* drops a reference */

/* ---- kernels.c: a step from the arguments of a kernel */
/* number_of(ctx, array's storage, use, bytes touched) gives the buffer, or -1: out of memory */
typedef int (*cr_number_buffer)(void *ctx, cr_storage *s, int use);
int cr_same_number(void *ctx, cr_storage *s, int use);        /* of arrays that hold the number already */
cr_status cr_step_fill(cr_step *s, int kernel, const void *args, cr_number_buffer number, void *ctx);
cr_status cr_step_relist(cr_step *s);               /* after a pass changed walks: the operands again */
/* o's low and high, of an array */
void cr_reach(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, cr_dtype dt, cr_operand *o);
const char *cr_kernel_name(int kernel);
double cr_step_flops(const cr_step *s);             /* of products, convolutions and attention; 0: another kernel */
static inline cr_array *cr_step_array(const cr_step *s, const cr_operand *o) { return (void *)(s->args + o->at); }
static inline cr_arg *cr_step_arg(const cr_step *s, const cr_operand *o) { return (void *)(s->args + o->at); }
static inline cr_elementwise_args *cr_step_walks(const cr_step *s) { return (void *)s->args; }
/* (seed, counter) of a kernel that draws; NULL: it draws nothing */
uint64_t *cr_step_seed(const cr_step *s);
const cr_walk *cr_step_all_walks(const cr_step *s, int64_t *n);       /* of any kernel; NULL: it has none */
/* An array whose rows may be computed apart (together: 0), or so many of its elements; NULL: none. */
const cr_array *cr_step_tiles(const cr_step *s, int64_t *together);
bool    **cr_kernel_done(int kernel, const void *args);       /* NULL: it runs always */
bool      cr_kernel_counts(int kernel, const void *args);     /* the host reads one of its results */

/* ---- passes */
/* does the order of the two matter?  A step of the host may set the params of an update */
bool cr_conflicts(const cr_step *a, const cr_step *b);
enum { CR_AHEAD = 48 };                             /* steps that a kernel may be moved across */
/* a temporary of so many bytes that nothing reads for so many steps is cheaper computed again than kept */
enum { CR_LARGE_VALUE = 1 << 16, CR_FAR = 24 };
static inline bool cr_step_uses(const cr_step *s, int buffer) {
    for (int i = 0; i < s->n_operands; i++)
        if (s->operands[i].buffer == buffer) return true;
    return false;
}
/* may s run before these steps? */
bool cr_may_pass(const cr_plan *p, const cr_step *s, const int *skipped, int n);
static inline bool cr_live_params(const cr_plan *p, const cr_step *s) {
    return s->update >= 0 && p->updates[s->update].live;
}
void cr_plan_uses(cr_plan *p);                      /* first and last of each buffer */
void cr_plan_remove(cr_plan *p, int i);             /* step i */
cr_status cr_plan_insert(cr_plan *p, int i, const cr_step *s);         /* before step i; takes s where it succeeds */
void cr_operand_redirect(cr_step *s, cr_operand *o, int buffer);       /* to another buffer */
void cr_plan_redirect(cr_plan *p, int from, int old, int new);         /* steps from `from` on, buffer old to new */
cr_status cr_pass_dce(cr_plan *p);                  /* steps whose results nothing reads */
cr_status cr_pass_cse(cr_plan *p);                  /* kernels that compute again what another has */
cr_status cr_pass_fold(cr_plan *p);                 /* steps that give the same in each run: run once, here */
cr_status cr_pass_fuse_update(cr_plan *p);          /* updates inside or right behind what makes the gradient */
cr_status cr_pass_remat(cr_plan *p);                /* cheap values anew instead of kept for long */
cr_status cr_pass_fuse(cr_plan *p);                 /* elementwise kernels as one program */
cr_status cr_pass_tile(cr_plan *p);                 /* groups that run tile by tile */
cr_status cr_pass_arena(cr_plan *p);                /* an offset for each temporary */
bool      cr_pass_on(const char *name);             /* CHAINRULE_PLAN: "tile,fuse_update" leaves out two, "none" all */

/* ---- run.c
 * All inputs of a run: the n_given, then what is in the slots now.  Slots are retained: another thread may set a
 * gradient meanwhile. */
enum { CR_FEW_INPUTS = 32 };
typedef struct cr_plan_inputs {
    const cr_plan *p;
    const cr_tensor *few[CR_FEW_INPUTS], **all;
    const cr_tensor *const *in;
} cr_plan_inputs;
bool      cr_plan_gather(cr_plan_inputs *g, const cr_plan *p, const cr_tensor *const *given);
void      cr_plan_let_go(cr_plan_inputs *g);

/* ---- indices.c */
cr_status cr_plan_find_indices(cr_plan *p);
cr_status cr_indices_hold(const cr_plan *p, const cr_tensor *const *in);       /* all inputs, which fit */

/* ---- jit.c */
void      cr_plan_start_loops(cr_plan *p);          /* in the background; the second call does nothing */
void      cr_loop_job_release(cr_loop_job *j);
bool      cr_runs_as_loop(const cr_step *s);        /* of the system's C compiler */

/* ---- tile.c */
cr_status cr_group_run(const cr_group *g, char *args);        /* args: of its steps, one after the other */
void      cr_group_free(cr_group *g);

/* ---- graph.c: steps of a device that are launched as one */
cr_status cr_stretches_new(const cr_plan *p, struct cr_stretches **out);     /* *out NULL: there are none */
void      cr_stretches_free(struct cr_stretches *all);
/* Before and after a step that ran by itself. */
void      cr_stretch_watch(const cr_plan *p, struct cr_stretches *all, int step, bool after);
/* Runs the steps from `at` on that a graph holds.  Returns the step behind them; `at`: there is no such graph. */
int       cr_stretch_run(cr_plan *p, cr_instance *x, int at, int end, cr_status *status);
static inline bool cr_has_arena(const cr_device *d) { return d->host || d->graphing; }

/* ---- run.c */
cr_status cr_begin_buffers(cr_plan *p, cr_instance *x, int step);
cr_status cr_plan_index(cr_plan *p);                /* after the passes */
cr_status cr_host_run(cr_plan *p, cr_host_work *w);  /* p NULL: not in a plan's run */
void      cr_instances_free(cr_plan *p);

#endif
