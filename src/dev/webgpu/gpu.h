/* gpu.h - one GPU behind WebGPU: its memory, its queue, its compiled kernels; shared by the files
 * of this folder.
 *
 * A kernel of dev.h calls g = cr_gpu_enter(...), which opens the GPU on its first use and takes its
 * lock, finds or compiles a pipeline, records dispatches, and calls cr_gpu_leave(g, status).
 * Nothing is computed before the batch is submitted: when it is full, and before the host reads.
 * The queue runs batches and their dispatches in order, so a kernel sees the results of earlier
 * kernels, and memory may be reused as soon as the last kernel that needs it is recorded. */
#ifndef CR_WEBGPU_GPU_H
#define CR_WEBGPU_GPU_H

#include "../dev.h"
#include "../program.h"
#include "../trace.h"
#include "../../core/ints.h"
#include "../../core/os.h"
#include "api.h"

/* ---- memory (memory.c) */
typedef struct gpu_buffer {                         /* storage->data of a tensor on a GPU */
    WGPUBuffer handle;
    size_t bytes;                                   /* of its size class, a multiple of 4 */
    uint64_t batch;                                 /* the last batch that uses it */
    int life;                                       /* of the GPU when it was made (gpu.c) */
    struct gpu_buffer *next;                        /* in the pool */
} gpu_buffer;
enum { GPU_CLASSES = 128 };

/* ---- compiled kernels (pipeline.c) */
typedef struct gpu_pipeline {
    WGPUComputePipeline handle;
    WGPUBindGroupLayout layout;
    int buffers;                                    /* storage bindings 1 .. buffers; binding 0 holds the parameters */
    int subgroups;                                  /* the size that it is compiled for; 0: without */
    struct gpu_pipeline *next;
    size_t key_bytes;
    unsigned char key[];
} gpu_pipeline;
enum { GPU_PIPELINE_LISTS = 256, GPU_KEY_BYTES = 4096 };

/* ---- errors that kernels detect (faults.c): reported when the host reads or synchronizes */
enum { GPU_FAULTS = 256, GPU_FAULT_WORDS = 4 };     /* position (all ones: no fault), value (low, high) */
typedef struct gpu_fault { char op[48]; int64_t bound; } gpu_fault;   /* bound of an index; 0: a division by zero */

/* identifies a kernel */
typedef struct gpu_key { size_t n; bool full; unsigned char bytes[GPU_KEY_BYTES]; } gpu_key;

/* ---- the profiler (timeline.c) */
typedef struct gpu_timeline {
    int profile;                                    /* the number of the profile; 0: none yet */
    bool able, ready;                               /* the adapter gives times; the query set is there */
    int n, dropped;                                 /* spans */
    WGPUQuerySet queries;                           /* two for each dispatch of a batch */
    WGPUBuffer resolved;
    struct gpu_timed *recorded, *first, **last;     /* the batch that is recorded, or NULL; submitted ones */
    uint64_t base;                                  /* ticks, at base_at on the host's clock */
    double base_at, seconds;                        /* seconds: of a tick */
} gpu_timeline;

/* ---- a GPU (gpu.c) */
enum { GPU_LEAST_BUFFERS = 8 };                     /* that a kernel can bind, on any GPU */

/* bytes: bound by dispatches; groups: bind groups created */
typedef struct gpu_counters { int64_t submits, dispatches, pipelines, uploads, readbacks, bytes, groups; } gpu_counters;

/* The answer to an asynchronous call.  It lies in the gpu, which is never freed: a callback may come after the
 * caller has given up.  An answer to an earlier request is ignored. */
typedef struct gpu_answer { uintptr_t request; atomic_bool done; int code; char message[400]; } gpu_answer;

typedef struct gpu {
    cr_device dev;                                  /* first: a cr_device of this folder is a gpu */
    char name[24], info[256];
    WGPUAdapter adapter;
    WGPUDevice device;                              /* NULL until first use */
    WGPUQueue queue;
    WGPULimits limits;
    /* the size of all subgroups, as measured when the GPU is opened; 0: of several sizes, or too small
     * to be faster.  Trees use them: invocations exchange values without workgroup memory.  The size is
     * a constant of the kernels, because compilers of browsers reject a barrier behind control flow
     * that depends on a value of the GPU. */
    int subgroups;
    /* f16 is converted by library.wgsl, or by native instructions; decided before the first kernel
     * that converts */
    enum { GPU_HALVES_UNKNOWN, GPU_HALVES_LIBRARY, GPU_HALVES_NATIVE } halves;
    size_t window;                                  /* the largest binding in bytes, a multiple of 256 */
    cr_mutex *lock;
    atomic_bool lost;
    bool forked;                                    /* the parent process opened it, so this process must not use it */
    char reason[160], uncaught[256];                /* why it was lost; the first error outside of scopes */
    atomic_int life;                                /* how often it was given up after a loss */
    char last_reason[160];                          /* of the loss before this life */
    gpu_answer answer;
    gpu_counters counters;

    WGPUCommandEncoder encoder;                     /* the batch that is recorded; NULL: none */
    WGPUComputePassEncoder pass;                    /* its open pass; NULL: none */
    uint64_t batch;                                 /* its number, from 1 on */
    int recorded;                                   /* dispatches in it */
    double work, work_limit;                        /* estimated multiply-adds in it; how many submit it */
    double most_work;                               /* of a batch, and of one dispatch that can be split */
    WGPUBuffer parameters;                          /* of all its dispatches, one after another */
    unsigned char *parameters_host;                 /* their copy on the host until the batch is submitted */
    size_t parameters_used;

    struct gpu_group *groups;                       /* a cache of bind groups (batch.c); NULL: empty */

    gpu_buffer *pool[GPU_CLASSES];
    int64_t now, peak, cached, budget;              /* bytes */
    WGPUBuffer staging;                             /* for reading back */
    size_t staging_bytes;
    gpu_pipeline *pipelines[GPU_PIPELINE_LISTS];
    gpu_buffer *faults;                             /* GPU_FAULTS of them; NULL until the first kernel that may fail */
    gpu_fault fault[GPU_FAULTS];
    int may_fail;                                   /* kernels that may have failed since the faults were read */
    gpu_timeline timeline;
} gpu;

/* after a loss: forgets the device, so that the next entry opens a new one */
void      cr_gpu_revive(const cr_device *d);
gpu      *cr_gpu_enter(const char *op, const cr_device *d);       /* opens and locks the GPU; NULL: a message */
cr_status cr_gpu_leave(gpu *g, cr_status status);
cr_status cr_gpu_wait(gpu *g, const char *op);                    /* waits until the queue is empty */
void     *cr_gpu_ask(gpu *g);                                     /* a new request: the callback's userdata2 */
void      cr_gpu_answer(gpu *g, const void *request, int code, WGPUStringView message);       /* by the callback */
bool      cr_gpu_await(gpu *g);                                   /* false: the GPU was lost before the answer */
void      cr_gpu_scope_begin(gpu *g);                             /* collects errors from here ... */
/* ... to here, and reports the first as "what: the message" */
cr_status cr_gpu_scope_end(gpu *g, const char *op, const char *what);
cr_status cr_gpu_fail_lost(const gpu *g, const char *op);
/* Is the buffer of a life before this one?  A message. */
bool      cr_gpu_outlived(const gpu *g, const char *op, const gpu_buffer *b);
/* the error of a case without a kernel */
cr_status cr_gpu_cannot(const char *op, const cr_device *d, const char *what);
bool      cr_gpu_lacks(const char *op, const cr_array *t);       /* f64, which is only stored: a message */

/* from the pool, for temporaries of a kernel */
gpu_buffer *cr_gpu_buffer_take(gpu *g, const char *op, size_t bytes);
void        cr_gpu_buffer_give(gpu *g, gpu_buffer *b);
cr_storage *cr_gpu_allocate(const cr_device *d, size_t bytes);
cr_status   cr_gpu_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
cr_status   cr_gpu_download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
/* maps `bytes` bytes for reading; waits */
cr_status   cr_gpu_map(gpu *g, const char *op, WGPUBuffer b, size_t bytes);
/* from its start, a multiple of 4; waits */
cr_status   cr_gpu_read(gpu *g, const char *op, void *dst, gpu_buffer *b, size_t bytes);
void        cr_gpu_empty_cache(const cr_device *d);
void        cr_gpu_memory_forget(gpu *g);           /* the GPU is lost: releases the pool; tensors keep their buffers */
/* an uninitialised temporary; storage NULL: a message */
cr_array    cr_gpu_array(const cr_device *d, cr_dtype dt, int n, const int64_t *shape);
void        cr_gpu_array_give(const cr_array *a);
static inline gpu_buffer *gpu_buffer_of(const cr_array *t) { return t->storage->data; }

static inline int64_t gpu_abs(int64_t a) { return a < 0 ? -a : a; }
static inline int64_t gpu_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- the batch (batch.c) */
enum { GPU_SPLIT = 16, GPU_MOST_RECORDED = 1024 };  /* a dispatch has at most so many times the work of a batch;
                                                     * dispatches of a batch */
enum { GPU_PARAMETER_WORDS = 256, GPU_GROUP = 256 };           /* u32 of one dispatch; invocations in a workgroup */

/* Records `groups` workgroups of p with these parameters, and with buffer i bound from at[i] bytes
 * on (cr_gpu_window).  work: multiply-adds, where the bytes of the buffers do not tell. */
cr_status cr_gpu_dispatch(gpu *g, const char *op, const gpu_pipeline *p, gpu_buffer *const *buffers, const size_t *at,
                          const void *parameters, size_t parameters_bytes, uint64_t groups, double work);

void      cr_gpu_groups_clear(gpu *g);                           /* before buffers are released */
void      cr_gpu_batch_forget(gpu *g);                           /* the GPU is lost: drops the batch */
void      cr_gpu_pipelines_forget(gpu *g);                       /* the GPU is lost: releases all (pipeline.c) */

/* ---- the profiler (timeline.c): is the next dispatch timed, in a pass with these writes?  All that follows is for
 * batch.c and gpu.c. */
bool cr_gpu_span_start(gpu *g, const char *op, WGPUPassTimestampWrites *times);
static inline bool cr_gpu_span_begin(gpu *g, const char *op, WGPUPassTimestampWrites *times) {
    return atomic_load_explicit(&cr_tracing, memory_order_relaxed) && cr_gpu_span_start(g, op, times);
}
void      cr_gpu_spans_resolve(gpu *g);                          /* at the end of a batch */
void      cr_gpu_spans_submitted(gpu *g, bool submitted);
void      cr_gpu_timeline_forget(gpu *g);
cr_status cr_gpu_trace_end(const cr_device *d);

/* ---- windows: a buffer may be larger than a binding can be, so a part of it is bound.  Kernels
 * split their work until each part fits. */
typedef struct gpu_span { int64_t first, end; } gpu_span;      /* elements of a buffer */
gpu_span  cr_gpu_span_of(int64_t offset, int ndim, const int64_t *shape, const int64_t *strides);
/* Does one binding hold the span?  at: offset of the binding in bytes; 0 if all of b fits. */
bool      cr_gpu_window(const gpu *g, const gpu_buffer *b, gpu_span s, cr_dtype dt, size_t *at);
cr_status cr_gpu_fail_window(const gpu *g, const char *op, size_t bytes);
/* reads and reports them, if a kernel may have failed (memory.c) */
cr_status cr_gpu_faults_check(gpu *g, const char *op);
/* multiples of 4 */
cr_status cr_gpu_copy_bytes(gpu *g, const char *op, WGPUBuffer to, size_t to_at, WGPUBuffer from, size_t from_at,
                            size_t bytes);
/* The recorded batch writes b in its order; false: the batch has no room for this, and must be submitted first. */
bool      cr_gpu_write_later(gpu *g, gpu_buffer *b, size_t at, const void *src, size_t bytes);
void      cr_gpu_start_early(gpu *g);                             /* the queue is empty: submit the next batch early */
cr_status cr_gpu_submit(gpu *g, const char *op);                  /* submits the recorded commands, if any */

/* ---- pipelines: found by key; the source is generated only for a new key */
void cr_gpu_key_add(gpu_key *k, const void *part, size_t bytes);
static inline void gpu_key_byte(gpu_key *k, int byte) {
    unsigned char b = (unsigned char)byte;
    cr_gpu_key_add(k, &b, 1);
}
gpu_pipeline *cr_gpu_pipeline_find(const gpu *g, const gpu_key *k);
/* bit i of written: binding i + 1 */
gpu_pipeline *cr_gpu_pipeline_make(gpu *g, const char *op, const gpu_key *k, int buffers, uint32_t written,
                                   const char *text);

/* ---- faults */
/* The number of a new fault, a parameter of the kernels that may note it in g->faults; the first
 * position wins.  -1: a message. */
int       cr_gpu_fault_new(gpu *g, const char *op, int64_t bound);
/* adds the index to a fault with a position (index.c) */
cr_status cr_gpu_fault_note(gpu *g, const char *op, int fault, const cr_array *index);
/* the contents of g->faults: gives the first fault as an error, and clears all */
cr_status cr_gpu_faults_report(gpu *g, const uint32_t *words);

/* ---- sums by row (segments.c): to (M, bound, N) += the sums of from (M, K, N) over equal rows */
typedef struct gpu_segments {
    const char *op;
    const cr_array *to, *from, *rows, *order;       /* rows, order: of each line of K, sorted by row */
    bool shared;                                    /* one line for every m, n; otherwise line m N + n */
    int64_t M, K, N, bound;
    const int64_t *to_strides, *from_strides;       /* three each */
} gpu_segments;
bool      cr_gpu_segments_fit(const gpu *g, const gpu_segments *s);         /* without rows and order: in windows? */
cr_status cr_gpu_sum_segments(const gpu_segments *s);

/* ---- kernels (kernels.def) */
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##webgpu(cr_##name##_kernel cr_gpu_##name;)
#include "../kernels.def"
bool cr_gpu_attention_takes(const cr_array *q, const cr_array *k);
extern const cr_kernels cr_gpu_kernels;                           /* table.c */
cr_status cr_gpu_synchronize(const cr_device *d);

#endif
