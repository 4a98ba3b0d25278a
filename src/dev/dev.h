/* dev.h - the interface of a device: memory and transfers (here), kernels (kernels.def). */
#ifndef CR_DEV_H
#define CR_DEV_H

#include "../core/interrupt.h"
#include "../core/pending.h"
#include "kernels.h"

/* ---- a link: one GPU of each of several processes.  It moves bytes between their memories beside the kernels and
 * copies of the device, after all earlier work on these bytes.  Each call posts its work, lets other threads use the
 * device, and returns when the work is over; a rank that is lost (*lost) ends it.  One thread calls. */
typedef struct cr_link cr_link;
enum { CR_LINK_KEY = 128, CR_GPU_ID = 16 };
typedef struct cr_range { int64_t at, bytes; } cr_range;            /* of a storage */
typedef struct cr_linking {
    /* "NCCL 2.23.4"; NULL and a message: no link can be made */
    const char *(*name)(const cr_device *d);
    cr_status (*gpu)(const cr_device *d, unsigned char id[CR_GPU_ID]);      /* one GPU has one in all processes */
    cr_status (*key)(const cr_device *d, unsigned char key[CR_LINK_KEY]);   /* of a new link; from one rank to all */
    /* limit: seconds for all ranks to come */
    cr_link  *(*open)(const cr_device *d, const unsigned char *key, int rank, int size, const atomic_bool *lost,
                      double limit);
    void      (*close)(cr_link *l);                 /* waits for the others, unless a call has failed or one is lost */
    /* send[r] of `from` to rank r, receive[r] of `to` from rank r */
    cr_status (*exchange)(cr_link *l, cr_storage *from, const cr_range *send, cr_storage *to, const cr_range *receive);
    cr_status (*spread)(cr_link *l, cr_storage *x, const cr_range *of);         /* of[r] of rank r's x to all */
    /* x = the sum over ranks, in the library's order; dt: f32, f64 */
    cr_status (*sum)(cr_link *l, cr_storage *x, cr_range part, cr_dtype dt);
} cr_linking;

/* ---- a graph: the kernels of several calls, in parts that are launched as one.  A part is noted once, and again where
 * the arguments of its kernels have changed. */
typedef struct cr_graph cr_graph;
typedef struct cr_graph_run {
    const bool *again;                              /* of each part: note it anew */
    cr_status (*part)(void *ctx, int part);         /* calls its kernels, which are noted, not done */
    void *ctx;
    int n_used; cr_storage *const *used;            /* what the kernels of all parts read and write */
    bool refused;                                   /* result: the failure is of the graph, not of earlier work */
} cr_graph_run;
/* What calls of a device have done so far.  A call that waits for the device, copies to or from it or allocates
 * (apart) cannot be noted; one whose arguments differ each time (fresh) has to be noted for each launch. */
typedef struct cr_graph_marks { int64_t fresh, apart; } cr_graph_marks;
typedef struct cr_graphing {
    cr_graph_marks (*marks)(const cr_device *d);
    uint64_t  (*address)(const cr_storage *s);
    cr_graph *(*make)(const cr_device *d, int parts);             /* NULL and a message */
    cr_status (*run)(cr_graph *g, cr_graph_run *r);               /* a failure: nothing was launched */
    void      (*free)(cr_graph *g);
} cr_graphing;

struct cr_device {
    const char *name;                               /* "cpu", "ref", "cuda:0" */
    const char *type; int index;                    /* "cuda", 0 */
    const cr_kernels *kernels;
    /* 64-byte aligned, uninitialised; NULL and a message */
    cr_storage *(*allocate)(const cr_device *d, size_t bytes);
    /* host memory that kernels can access; NULL: none */
    cr_storage *(*allocate_host)(const cr_device *d, size_t bytes);
    cr_status (*upload)(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
    cr_status (*download)(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
    cr_status (*synchronize)(const cr_device *d);
    const char *(*info)(const cr_device *d);
    cr_memory (*memory)(const cr_device *d);
    void (*reset_peak)(const cr_device *d);
    void (*empty_cache)(const cr_device *d);
    const cr_linking *linking;                      /* NULL: devices of this kind are not linked */
    const cr_graphing *graphing;                    /* NULL: kernels are launched one by one */
    cr_status (*trace_end)(const cr_device *d);     /* of a GPU that joined a trace (trace.h): adds its spans */
    /* Are factors of B matrices (M, N) computed here, not by the cpu?  LU: solve too.  NULL: all that have kernels */
    bool (*factors)(const cr_device *d, cr_factor_kind kind, int64_t B, int64_t M, int64_t N);
    int row_bytes;                                  /* products are fastest where rows begin at multiples of so many
                                                     * bytes; 0: anywhere */
    bool host;                                      /* storage->data is an address that this process can read */
    bool software;                                  /* a GPU simulated by the processor: "auto" skips it */
};

/* Bytes from the host and to it, as an op asks for them: a recording watches both.  op: for messages. */
static inline cr_status cr_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    const cr_watch *watch = cr_watching();
    return watch ? watch->upload(d, dst, at, src, bytes) : d->upload(d, dst, at, src, bytes);
}
static inline cr_status cr_download(const char *op, const cr_device *d, void *dst, cr_storage *src, size_t at,
                                    size_t bytes) {
    const cr_watch *watch = cr_watching();
    if (cr_await(op, src) != CR_OK) return cr_error_status();
    const cr_status status = watch ? watch->download(op, src) : CR_OK;
    return status == CR_OK ? d->download(d, dst, src, at, bytes) : status;
}

/* The walk that copies and casts src to dst (program y = x), with axes merged.  src NULL: fills dst
 * with value, one element of dst's dtype.  (move.c) */
cr_walk cr_walk_of_copy(const cr_array *dst, const cr_array *src, const void *value);

/* The steps of a recurrent layer for sequences first .. end - 1, by these kernels for products, programs and copies.
 * (recurrent.c) */
cr_status cr_recurrent_part(const cr_recurrent_args *args, const cr_kernels *kernels, int64_t first, int64_t end);
cr_status cr_recurrent_bwd_part(const cr_recurrent_bwd_args *args, const cr_kernels *kernels, int64_t first,
                                int64_t end);
/* A program over matrices of one shape: its results, then its inputs. */
cr_status cr_run_matrices(const cr_kernels *kernels, const cr_program *p, const cr_array *x);

/* ---- the cpu's loops of programs that plan/fuse.c made, by the system's C compiler (cpu/compile.c) */
uint32_t cr_cpu_held(const cr_walk *w);             /* bit k: a loop may read one value of input k for a whole row */
/* loop.held of each is set; for the instruction set in use.  free(); NULL: out of memory */
char *cr_cpu_loops_text(int n, cr_program *const *programs);
/* Sets their loops; may take a second.  False: no compiler, no cache folder, or a failure. */
bool  cr_cpu_loops_make(const char *text, int n, cr_program *const *programs);

/* ---- registry.c.  Functions of devices that a build lacks do not exist in it. */
extern const cr_device cr_device_cpu, cr_device_ref;
/* Bytes that a GPU may reserve: CHAINRULE_GPU_MEMORY, or `otherwise` if that is not set.  0: it is not
 * a number of MiB. */
int64_t cr_gpu_budget(const char *op, int64_t otherwise);
const cr_device *cr_cuda_at(int i);                 /* the i-th NVIDIA GPU, NULL past the end; cuda/gpu.c */
const char      *cr_cuda_problem(void);             /* why there is no GPU */
const cr_device *cr_webgpu_at(int i);               /* the i-th WebGPU adapter, NULL past the end; webgpu/gpu.c */
const char      *cr_webgpu_problem(void);

#endif
