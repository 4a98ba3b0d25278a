/* gpu.h - one GPU behind WebGPU: its memory, its queue, its compiled kernels.  What the files of this folder share.
 *
 * A kernel of dev.h runs so:  g = cr_gpu_enter(...)  (opens the GPU on its first use, takes its lock),  finds or compiles a pipeline,
 * records dispatches,  cr_gpu_leave(g, status).  Nothing is computed before the batch is submitted: when it is full, and when somebody
 * reads.  The queue runs batches and what is in them in order, so a kernel sees what those before it wrote, and memory may be used
 * again as soon as the last kernel that needs it is recorded. */
#ifndef CR_WEBGPU_GPU_H
#define CR_WEBGPU_GPU_H

#include "../dev.h"
#include "../program.h"
#include "../../core/os.h"
#include "api.h"

/* ---- memory (memory.c) */
typedef struct gpu_buffer {                         /* storage->data of a tensor on a GPU */
    WGPUBuffer handle;
    size_t bytes;                                   /* of its size class, a multiple of 4 */
    uint64_t batch;                                 /* the last one that uses it */
    struct gpu_buffer *next;                        /* in the pool */
} gpu_buffer;
enum { GPU_CLASSES = 128 };

/* ---- compiled kernels (pipeline.c) */
typedef struct gpu_pipeline {
    WGPUComputePipeline handle;
    WGPUBindGroupLayout layout;
    int buffers;                                    /* storage bindings 1 .. buffers; binding 0 holds the parameters */
    bool subgroups;                                 /* compiled while its GPU used them */
    struct gpu_pipeline *next;
    size_t key_bytes;
    unsigned char key[];
} gpu_pipeline;
enum { GPU_PIPELINE_LISTS = 256, GPU_KEY_BYTES = 2048 };

/* ---- what kernels find wrong (faults.c): known when somebody reads or synchronises */
enum { GPU_FAULTS = 256, GPU_FAULT_WORDS = 4 };     /* position (all ones: nothing is wrong), value (low, high) */
typedef struct gpu_fault { char op[48]; int64_t bound; } gpu_fault;   /* bound of an index; 0: a division by zero */

typedef struct gpu_key { size_t n; bool full; unsigned char bytes[GPU_KEY_BYTES]; } gpu_key;     /* what tells one kernel from another */

/* ---- a GPU (gpu.c) */
typedef struct gpu_counters { int64_t submits, dispatches, pipelines, uploads, readbacks, bytes, groups; } gpu_counters;       /* bytes: bound by dispatches; groups: of bindings, made */

typedef struct gpu {
    cr_device dev;                                  /* first: a cr_device of this folder is a gpu */
    char name[24], info[256];
    WGPUAdapter adapter;
    WGPUDevice device;                              /* NULL until first use */
    WGPUQueue queue;
    WGPULimits limits;
    bool subgroups;                                 /* used: invocations exchange values without workgroup memory */
    enum { GPU_HALVES_UNKNOWN, GPU_HALVES_OURS, GPU_HALVES_OWN } halves;     /* who converts f16: kernels (wgsl_library.c), or the GPU, known with the first kernel that does */
    size_t window;                                  /* bytes that one binding shows, a multiple of 256 */
    cr_mutex *lock;
    atomic_bool lost;
    bool forked;                                    /* in this process, after it was opened in the parent */
    char why[160], stray[256];                      /* why it was lost; the first error that no scope caught */
    gpu_counters counters;

    WGPUCommandEncoder encoder;                     /* the batch that is recorded; NULL: none */
    WGPUComputePassEncoder pass;                    /* its open pass; NULL: none */
    uint64_t batch;                                 /* its number, from 1 on */
    int recorded;                                   /* dispatches in it */
    WGPUBuffer parameters;                          /* of all its dispatches, one after another */
    unsigned char *parameters_here;                 /* the same on the host until the batch is submitted */
    size_t parameters_used;

    struct gpu_group *groups;                       /* what was bound lately (batch.c); NULL: nothing yet */

    gpu_buffer *pool[GPU_CLASSES];
    int64_t now, peak, cached, budget;              /* bytes */
    WGPUBuffer staging;                             /* for reading back */
    size_t staging_bytes;
    gpu_pipeline *pipelines[GPU_PIPELINE_LISTS];
    gpu_buffer *faults;                             /* GPU_FAULTS of them; NULL until the first kernel that may fail */
    gpu_fault fault[GPU_FAULTS];
    int may_fail;                                   /* kernels that may have failed since faults were looked at */
} gpu;

gpu      *cr_gpu_enter(const char *op, const cr_device *d);       /* opened, alive and locked; NULL and a message: not */
cr_status cr_gpu_leave(gpu *g, cr_status status);
cr_status cr_gpu_wait(gpu *g, const char *op);                    /* until the queue is empty */
void      cr_gpu_scope_begin(gpu *g);                             /* errors from here ... */
cr_status cr_gpu_scope_end(gpu *g, const char *op, const char *what);     /* ... to here: "what: the message" */
cr_status cr_gpu_fail_lost(const gpu *g, const char *op);
cr_status cr_gpu_cannot(const char *op, const cr_device *d, const char *what);     /* for what this device has no kernel for */
bool      cr_gpu_lacks(const char *op, const cr_tensor *t);       /* a dtype that is only stored: f64; a message */

gpu_buffer *cr_gpu_buffer_take(gpu *g, const char *op, size_t bytes);     /* for a moment within a kernel */
void        cr_gpu_buffer_give(gpu *g, gpu_buffer *b);
cr_storage *cr_gpu_allocate(const cr_device *d, size_t bytes);
cr_status   cr_gpu_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
cr_status   cr_gpu_download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
cr_status   cr_gpu_read(gpu *g, const char *op, void *dst, gpu_buffer *b, size_t bytes);      /* from its beginning, multiples of 4; waits */
void        cr_gpu_empty_cache(const cr_device *d);
cr_tensor  *cr_gpu_tensor(const cr_device *d, cr_dtype dt, int64_t n);     /* (n), uninitialised, for a kernel made of kernels; cr_release gives it back; NULL: a message */
static inline gpu_buffer *gpu_buffer_of(const cr_tensor *t) { return t->storage->data; }

/* ---- the batch (batch.c) */
enum { GPU_PARAMETER_WORDS = 256, GPU_GROUP = 256 };           /* of one dispatch, u32; invocations in a workgroup */
typedef struct gpu_parameters { int n; uint32_t words[GPU_PARAMETER_WORDS]; } gpu_parameters;
static inline void gpu_push(gpu_parameters *p, uint32_t word) { CR_ASSERT(p->n < GPU_PARAMETER_WORDS); p->words[p->n++] = word; }

/* Records groups workgroups of p over its buffers.  A kernel finds its number among them as group (wgsl.h). */
cr_status cr_gpu_dispatch(gpu *g, const char *op, const gpu_pipeline *p, gpu_buffer *const *buffers, const gpu_parameters *parameters, uint64_t groups);
/* The same, where buffer i is bound from at[i] bytes on, which cr_gpu_window gave. */
cr_status cr_gpu_dispatch_at(gpu *g, const char *op, const gpu_pipeline *p, gpu_buffer *const *buffers, const size_t *at, const gpu_parameters *parameters, uint64_t groups);

void      cr_gpu_groups_forget(gpu *g);                           /* before buffers are released */

/* ---- windows: of a buffer that is larger than one binding may be a part is bound.  Who can cuts the work until each part of it fits. */
typedef struct gpu_span { int64_t first, end; } gpu_span;      /* elements of a buffer */
gpu_span  cr_gpu_span_of(int64_t offset, int ndim, const int64_t *shape, const int64_t *strides);
/* Does one binding show the span?  at: where it begins, in bytes; 0 where all of b fits. */
bool      cr_gpu_window(const gpu *g, const gpu_buffer *b, gpu_span s, cr_dtype dt, size_t *at);
cr_status cr_gpu_fail_window(const gpu *g, const char *op, size_t bytes);
cr_status cr_gpu_faults_check(gpu *g, const char *op);            /* reads them, if a kernel may have failed (memory.c) */
cr_status cr_gpu_copy_bytes(gpu *g, const char *op, WGPUBuffer to, size_t to_at, WGPUBuffer from, size_t from_at, size_t bytes);    /* multiples of 4 */
cr_status cr_gpu_submit(gpu *g, const char *op);                  /* what is recorded, if anything */

/* ---- pipelines: key first, source only where the key is new */
void cr_gpu_key_add(gpu_key *k, const void *part, size_t bytes);
static inline void gpu_key_byte(gpu_key *k, int byte) { unsigned char b = (unsigned char)byte; cr_gpu_key_add(k, &b, 1); }
gpu_pipeline *cr_gpu_pipeline_find(const gpu *g, const gpu_key *k);
gpu_pipeline *cr_gpu_pipeline_make(gpu *g, const char *op, const gpu_key *k, int buffers, uint32_t written, const char *text);     /* bit i of written: binding i + 1 */

/* ---- faults */
/* The number of a fault for the next kernels to note: their parameter.  g->faults is their buffer; the first position wins.  -1: a message. */
int       cr_gpu_fault_new(gpu *g, const char *op, int64_t bound);
cr_status cr_gpu_fault_note(gpu *g, const char *op, int fault, const cr_tensor *index);      /* which index it was, where a kernel has noted a position (index.c) */
cr_status cr_gpu_faults_seen(gpu *g, const uint32_t *words);      /* what was read of g->faults: the first fault as an error; all are as new */

/* ---- kernels of dev.h */
cr_status cr_gpu_copy(cr_tensor *dst, const cr_tensor *src);
cr_status cr_gpu_fill(cr_tensor *dst, const void *value);
cr_status cr_gpu_elementwise(const cr_walk *walks, int64_t count);
cr_status cr_gpu_reduce(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
cr_status cr_gpu_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, const cr_slab *at);
cr_status cr_gpu_scan(cr_scan_kind kind, bool reverse, cr_tensor *y, cr_tensor *index, const cr_tensor *x, const cr_tensor *a, int64_t M, int64_t R, int64_t N);
cr_status cr_gpu_matmul(cr_tensor *c, const cr_tensor *a, const cr_tensor *b, const cr_tensor *bias, int how);
cr_status cr_gpu_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_gpu_scatter(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, bool sum, int64_t M, int64_t R, int64_t N, int64_t K);
cr_status cr_gpu_take_rows(const char *op, cr_tensor *y, const cr_tensor *x, const cr_tensor *index, bool wrap);
cr_status cr_gpu_put_rows(const char *op, cr_tensor *x, const cr_tensor *index, const cr_tensor *src, bool sum, bool wrap);
cr_status cr_gpu_ravel(const char *op, cr_tensor *y, int n, const cr_tensor *const *index, const int64_t *sizes);
cr_status cr_gpu_nonzero(cr_tensor *y, const cr_tensor *x, int64_t *count);
cr_status cr_gpu_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending);      /* y may be NULL */
cr_status cr_gpu_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k);
cr_status cr_gpu_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right);
cr_status cr_gpu_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C);
cr_status cr_gpu_random(cr_random_kind kind, cr_tensor *y, uint64_t seed, uint64_t counter);
cr_status cr_gpu_random_integers(cr_tensor *y, int64_t low, uint64_t span, uint64_t seed, uint64_t counter);
cr_status cr_gpu_permutation(cr_tensor *y, uint64_t seed, uint64_t counter);
cr_status cr_gpu_multinomial(cr_tensor *y, const cr_tensor *w, int64_t M, int64_t N, int64_t S, bool replacement, uint64_t seed, uint64_t counter);
cr_status cr_gpu_softmax(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, bool log);
cr_status cr_gpu_softmax_bwd(cr_tensor *dx, const cr_tensor *y, const cr_tensor *g, int64_t M, int64_t N, bool log);
cr_status cr_gpu_norm(cr_tensor *y, cr_tensor *mean, cr_tensor *rstd, const cr_tensor *x, const cr_tensor *w, const cr_tensor *b, int64_t M, int64_t N, double eps);
cr_status cr_gpu_cross_entropy(cr_tensor *loss, cr_tensor *lse, const cr_tensor *x, const cr_tensor *target, int64_t M, int64_t N, int64_t ignore, double smoothing);
cr_status cr_gpu_cross_entropy_bwd(cr_tensor *dx, const cr_tensor *x, const cr_tensor *target, const cr_tensor *lse, const cr_tensor *g, int64_t M, int64_t N, int64_t ignore,
                                double smoothing);
cr_status cr_gpu_norm_bwd(cr_tensor *dx, cr_tensor *dw, cr_tensor *db, const cr_tensor *x, const cr_tensor *w, const cr_tensor *mean, const cr_tensor *rstd, const cr_tensor *g, int64_t M, int64_t N);
bool cr_gpu_attention_takes(const cr_tensor *q, const cr_tensor *k);
cr_status cr_gpu_attention(cr_tensor *o, cr_tensor *lse, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask, double scale, bool causal);
cr_status cr_gpu_attention_bwd(cr_tensor *dq, cr_tensor *dk, cr_tensor *dv, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask, const cr_tensor *o,
                            const cr_tensor *lse, const cr_tensor *cotangent, double scale, bool causal);
extern const cr_kernels cr_gpu_kernels;                           /* table.c */

#endif
