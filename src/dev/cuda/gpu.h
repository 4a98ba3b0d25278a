/* gpu.h - one NVIDIA GPU: its memory, its streams, its compiled kernels.  Shared by the files of this folder.
 *
 * A kernel of kernels.def runs as follows: g = cr_cuda_enter(...) opens the GPU on its first use, takes
 * its lock and makes its context current; then the function finds or compiles a kernel, asks for
 * addresses, fills the kernel's argument (its struct in the *.cu), launches it, and calls cr_cuda_leave(g,
 * status).  All kernels go into one stream, which runs them in order.  So a kernel sees what earlier
 * kernels wrote, and memory may be used again as soon as the last kernel that needs it is launched.
 * Copies, and messages to other processes, have streams of their own (stream.c).  Only a reader waits. */
#ifndef CR_CUDA_GPU_H
#define CR_CUDA_GPU_H

#include "../../core/out.h"
#include "../dev.h"
#include "../program.h"
#include "../trace.h"
#include "../../core/ints.h"
#include "../../core/os.h"
#include "api.h"
#include "arguments.h"

/* messages: to and from the GPUs of other processes (nccl.c) */
enum { CUDA_KERNELS, CUDA_COPIES, CUDA_MESSAGES, CUDA_QUEUES };

/* ---- memory (memory.c) */
typedef struct cuda_block {                         /* storage->data of a tensor on a GPU: a part of a segment of the
                                                     * driver's */
    cuda_address at;
    size_t bytes;
    bool used, small, host;                         /* small: in the pool of small segments; host: pinned memory, in
                                                     * no pool */
    uint64_t epoch[CUDA_MESSAGES];                  /* the last in which kernels, and copies, used this memory
                                                     * (stream.c) */
    struct cuda_block *before, *after;              /* its neighbours in the segment; NULL: none */
    struct cuda_block *next, *previous;             /* in the list of free blocks of its size, or of used blocks */
} cuda_block;
enum { CUDA_CLASSES = 160 };
enum { CUDA_SECTIONS = 4, CUDA_SECTION_BYTES = 4 << 20 };      /* of the pinned staging memory for copies */
typedef struct cuda_staging {
    unsigned char *data;                            /* NULL until the first copy */
    int section;                                    /* the section that is being filled */
    size_t filled;
    bool in_flight[CUDA_SECTIONS];                  /* its event was recorded and not waited for */
    cuda_event done[CUDA_SECTIONS];
} cuda_staging;

/* ---- three streams and their order (stream.c) */
enum {
    CUDA_EPOCHS = 64,                               /* epochs whose events are kept */
    CUDA_EPOCH_LAUNCHES = 16                        /* launches after which an epoch ends at the latest */
};
typedef struct cuda_queue {
    cuda_stream stream;                             /* NULL: not made yet, which only messages may be */
    uint64_t epoch;                                 /* the current one, from 1 on */
    uint64_t waited[CUDA_QUEUES];                   /* the last epoch of each other stream that this one waits for */
    int64_t launches;                               /* of the GPU, when the epoch began */
    cuda_event end[CUDA_EPOCHS];                    /* of epoch e: [e % CUDA_EPOCHS] */
} cuda_queue;

/* ---- compiled kernels (module.c) */
typedef struct cuda_kernel {
    cuda_function function;
    const char *name;                               /* static */
    struct cuda_kernel *next;
    size_t key_bytes;
    unsigned char key[];
} cuda_kernel;
__extension__ typedef struct cuda_loaded {
    unsigned __int128 hash;
    cuda_module module;
    struct cuda_loaded *next;
} cuda_loaded;
enum { CUDA_KERNEL_LISTS = 256, CUDA_KEY_BYTES = 4096 };
/* identifies a kernel */
typedef struct cuda_key { size_t n; bool full; unsigned char bytes[CUDA_KEY_BYTES]; } cuda_key;

/* ---- faults of kernels (faults.c): reported at the next read or synchronisation */
enum { CUDA_FAULTS = 256, CUDA_FAULT_WORDS = 3 };   /* struct fault of device.cuh */
/* bound of an index; 0: a division by zero */
typedef struct cuda_fault { char op[48]; int64_t bound; uint64_t epoch; } cuda_fault;

/* ---- the profiler (timeline.c) */
typedef struct cuda_span { cr_span of; int queue; bool lost; cuda_event begin, end; } cuda_span;
typedef struct cuda_timeline {
    int profile;                                    /* the number of the profile; 0: none yet */
    bool ready;
    int n, dropped;
    cuda_span *spans;
    cuda_event base;
    double base_at;                                 /* its time on the host's clock */
} cuda_timeline;

/* ---- a GPU (gpu.c) */
typedef struct cuda_counters {
    int64_t launches, modules;
    int64_t compiled;                               /* texts compiled by NVRTC, not found in the cache */
    int64_t uploads, downloads, waits, segments;
    int64_t refused;                                /* shapes of products that cuBLASLt refused */
    int64_t allocations;
    int64_t factored;                               /* calls of cuSOLVER */
} cuda_counters;

typedef struct cuda {
    cr_device dev;                                  /* first: a cr_device of this folder is a cuda */
    char name[24], info[512];
    bool info_complete;
    int device, major, minor, multiprocessors;
    cr_mutex *lock;
    cuda_context context, before;                   /* NULL until first use; the context that was current at
                                                     * cr_cuda_enter */
    cuda_stream stream, copies;                     /* stream: of kernels; both also in queue */
    cuda_queue queue[CUDA_QUEUES];
    bool entered;
    atomic_bool lost;
    bool forked;                                    /* this process was forked after the parent opened the GPU */
    char why[160];                                  /* why it was lost */
    cuda_counters counters;

    cuda_block *pool[2][CUDA_CLASSES];              /* free blocks: of large segments, of small ones */
    cuda_block *used;
    bool unpooled;                                  /* CHAINRULE_GPU_POOL=off */
    int64_t now, peak, reserved, budget;            /* bytes; budget: the limit of reserved */
    cuda_staging staging;
    cuda_kernel *kernels[CUDA_KERNEL_LISTS];
    cuda_loaded *modules;
    cuda_block *faults;                             /* CUDA_FAULTS of them; NULL until the first kernel that may fail */
    cuda_fault fault[CUDA_FAULTS];                  /* of the n-th kernel that may fail: [n % CUDA_FAULTS] */
    uint64_t issued, polled;                        /* faults given to kernels; faults whose outcome is known */
    lt_handle lt;                                   /* NULL: not opened, or not found */
    bool lt_failed;                                 /* found, but it does not start */
    solver_handle solver; solver_params solver_params;             /* of cuSOLVER, as lt */
    bool solver_failed;
    cuda_block *workspace;                          /* of cuBLASLt */
    struct cuda_product *products;                  /* cached choices of matmul.c */
    cuda_timeline timeline;
    struct cr_graph *noting;                        /* what calls do goes into it; NULL: into the stream (graph.c) */
} cuda;

/* opened, alive, locked and current; NULL: an error */
cuda     *cr_cuda_enter(const char *op, const cr_device *d);
extern _Thread_local const cuda *cr_cuda_held;                    /* this thread keeps it between calls (graph.c) */
cr_status cr_cuda_leave(cuda *g, cr_status status);
cr_status cr_cuda_wait(cuda *g, const char *op);                  /* until both streams are empty */
/* text: the value of CHAINRULE_GPU_POOL, or NULL */
cr_status cr_cuda_pool_switch(const char *text, bool *off);
/* "what: the driver's name and text"; remembers a lost GPU */
cr_status cr_cuda_check(cuda *g, const char *op, const char *what, int error);

/* 512-byte aligned; scratch memory of one call */
cuda_block *cr_cuda_block_take(cuda *g, const char *op, size_t bytes);
/* the caller calls cuda_use before a launch */
cuda_block *cr_cuda_block_new(cuda *g, const char *op, size_t bytes);
void        cr_cuda_block_give(cuda *g, cuda_block *b);
/* the driver had no memory for code or stacks: frees what is cached; true: try again */
bool        cr_cuda_make_room(cuda *g, int error);
cr_storage *cr_cuda_allocate(const cr_device *d, size_t bytes);
cr_storage *cr_cuda_allocate_host(const cr_device *d, size_t bytes);
cr_status   cr_cuda_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
cr_status   cr_cuda_download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
void        cr_cuda_empty_cache(const cr_device *d);
/* in the stream of copies; the host waits */
cr_status   cr_cuda_receive(cuda *g, const char *op, void *dst, cuda_address from, size_t bytes);
/* as kernels of this epoch left them; polls faults */
cr_status   cr_cuda_read_bytes(cuda *g, const char *op, void *dst, cuda_address from, size_t bytes, uint64_t epoch);

/* ---- order (stream.c).  queue, other: CUDA_KERNELS, CUDA_COPIES or CUDA_MESSAGES. */
cr_status cr_cuda_end_epoch(cuda *g, const char *op, int queue);
/* later work in the queue waits for an epoch of another one; 0: none */
cr_status cr_cuda_wait_epoch(cuda *g, const char *op, int queue, int other, uint64_t epoch);
/* Kernels are about to use the block.  Where the driver cannot wait, it cannot launch either, and the
 * launch returns the error. */
static inline void cuda_use(cuda *g, cuda_block *b) {
    CR_ASSERT(g->entered);                          /* otherwise another thread may end the epoch before the launch */
    if (!g->noting) cr_cuda_wait_epoch(g, "wait", CUDA_KERNELS, CUDA_COPIES, b->epoch[CUDA_COPIES]);
    b->epoch[CUDA_KERNELS] = g->queue[CUDA_KERNELS].epoch;
}
static inline cuda_address cuda_base(const cr_storage *s) {
    cuda_use((cuda *)(uintptr_t)s->dev, s->data);
    return ((const cuda_block *)s->data)->at;
}
/* The address of the first element, for a kernel that this call launches; NULL: 0. */
static inline cuda_address cuda_address_of(const cr_array *t) {
    return t ? cuda_base(t->storage) + (cuda_address)t->offset * cr_dtype_size(t->dtype) : 0;
}

/* ---- the profiler (timeline.c): what the host puts into the queue between them is a span.  NULL: nothing is noted. */
cuda_span *cr_cuda_span_start(cuda *g, int queue, const char *op, const char *name);
void       cr_cuda_span_stop(cuda *g, cuda_span *s);
static inline cuda_span *cr_cuda_span_begin(cuda *g, int queue, const char *op, const char *name) {
    const bool wanted = atomic_load_explicit(&cr_tracing, memory_order_relaxed) && !g->noting;
    return wanted ? cr_cuda_span_start(g, queue, op, name) : NULL;
}
cr_status  cr_cuda_trace_end(const cr_device *d);

/* ---- types (types.c) */
const char *cr_cuda_type(cr_dtype dt);                            /* its name in device.cuh: "f32", "bf16", "b8"... */
/* the type of computation: "f32" or "f64" for floats; bool: "bool"; otherwise the type itself */
const char *cr_cuda_wide(cr_dtype dt);

/* ---- kernels (module.c): the key first, the text only where the key is new */
void cr_cuda_key_add(cuda_key *k, const void *part, size_t bytes);
static inline void cuda_key_byte(cuda_key *k, int byte) {
    unsigned char b = (unsigned char)byte;
    cr_cuda_key_add(k, &b, 1);
}
const cuda_kernel *cr_cuda_kernel_find(const cuda *g, const cuda_key *k);
/* name: in the text, which follows device.cuh and arguments.h.  fuses: the compiler may make one operation of any
 * product and sum. */
const cuda_kernel *cr_cuda_kernel_make(cuda *g, const char *op, const cuda_key *k, const char *name, const char *text,
                                       bool fuses);
/* A kernel of one of the *.cu files, after these definitions: "#define T f32\n...". */
const cuda_kernel *cr_cuda_kernel_of(cuda *g, const char *op, const char *file, const char *name, const char *format,
                                     ...) __attribute__((format(printf, 5, 6)));

/* Embedded texts (cmake/embed.cmake). */
extern const char cr_cuda_source_device[], cr_cuda_source_arguments[];
extern const char cr_cuda_source_argreduce[], cr_cuda_source_attention[], cr_cuda_source_channels[],
    cr_cuda_source_conv[], cr_cuda_source_factor[], cr_cuda_source_hopper[], cr_cuda_source_index[],
    cr_cuda_source_matmul[],
    cr_cuda_source_nonzero[], cr_cuda_source_order[], cr_cuda_source_pool[], cr_cuda_source_packed[],
    cr_cuda_source_random[], cr_cuda_source_reduce[], cr_cuda_source_rows[], cr_cuda_source_sample[],
    cr_cuda_source_scan[], cr_cuda_source_squares[];

/* The kernels compiled when the library was built (cmake/fatbin.cmake): code for every architecture.
 * The last row has no code. */
typedef struct cuda_precompiled { const char *definitions, *file; const void *code; } cuda_precompiled;
extern const cuda_precompiled cr_cuda_precompiled[];

static inline int64_t cuda_pieces(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* ---- launches (launch.c) */
/* threads of a block, unless a kernel has another number */
enum { CUDA_GROUP = 256 };
/* argument: the kernel's struct.  k NULL: returns the error of making the kernel. */
cr_status cr_cuda_launch(cuda *g, const char *op, const cuda_kernel *k, const void *argument, int64_t blocks);
/* With another number of threads in a block, and bytes of dynamic shared memory. */
cr_status cr_cuda_launch_shared(cuda *g, const char *op, const cuda_kernel *k, const void *argument, int64_t blocks,
                                int threads, int shared);
/* blocks of a grid-stride loop over so many threads: at most as many as keep the GPU busy */
int64_t   cr_cuda_blocks(const cuda *g, int64_t threads);

/* c = a b, of a caller that entered the GPU (matmul.c) */
cr_status cr_cuda_multiply(cuda *g, const cr_array *c, const cr_array *a, const cr_array *b);
/* Are factors of B matrices (M, N) computed here?  (factor.c) */
bool cr_cuda_factors(const cr_device *d, cr_factor_kind kind, int64_t B, int64_t M, int64_t N);

/* ---- graphs (graph.c) */
extern const cr_graphing cr_cuda_graphing;
/* scratch memory of a call that is noted stays the graph's */
cuda_block *cr_cuda_graph_take(struct cr_graph *x, const char *op, size_t bytes);
void        cr_cuda_graph_give(struct cr_graph *x, const cuda_block *b);

/* ---- faults (faults.c) */
/* The address where the next kernel notes a fault; the first position wins.  To be called before the
 * addresses of tensors are asked for, since it may end the epoch.  0: an error. */
cuda_address cr_cuda_fault_new(cuda *g, const char *op, int64_t bound);
/* half of them are free: a graph, while it is noted, cannot wait */
cr_status    cr_cuda_faults_room(cuda *g, const char *op);
/* of the kernels that copies already wait for: the first fault as an error; clears all */
cr_status    cr_cuda_faults_poll(cuda *g, const char *op);
cr_status    cr_cuda_faults_check(cuda *g, const char *op);       /* waits for all kernels that may fail, then polls */

/* ---- kernels (kernels.def) */
#define KERNEL(name, cpu, ref, cuda, webgpu, ...) CR_IF_##cuda(cr_##name##_kernel cr_cuda_##name;)
#include "../kernels.def"
extern const cr_kernels cr_cuda_kernels;                          /* table.c */
cr_status cr_cuda_synchronize(const cr_device *d);
extern const cr_linking cr_cuda_linking;                          /* nccl.c */

#endif
