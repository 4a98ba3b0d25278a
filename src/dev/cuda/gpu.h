/* gpu.h - one NVIDIA GPU: its memory, its stream, its compiled kernels.  What the files of this folder share.
 *
 * A kernel of dev.h runs so:  g = cr_cuda_enter(...)  (opens the GPU on its first use, takes its lock, makes its context current),  finds or
 * compiles a kernel,  asks for addresses,  launches it,  cr_cuda_leave(g, status).  All kernels go into one stream, which runs them in order: so
 * a kernel sees what those before it wrote, and memory may be used again as soon as the last kernel that needs it is launched.  Copies have a
 * stream of their own (stream.c).  Nobody waits but who reads. */
#ifndef CR_CUDA_GPU_H
#define CR_CUDA_GPU_H

#include "../dev.h"
#include "../program.h"
#include "../../core/os.h"
#include "api.h"
#include "arguments.h"

/* ---- memory (memory.c) */
typedef struct cuda_block {                         /* storage->data of a tensor on a GPU: a part of what the driver gave at once */
    cuda_address at;
    size_t bytes;
    bool used, small, host;                         /* small: in the pool of parts of small segments; host: pinned memory, in no pool */
    uint64_t turn[2];                               /* the last in which kernels, and copies, had to do with this memory (stream.c) */
    struct cuda_block *before, *after;              /* its neighbours in the segment; NULL: none */
    struct cuda_block *next, *previous;             /* in the list of free ones of its size, or of used ones */
} cuda_block;
enum { CUDA_CLASSES = 160 };
enum { CUDA_SECTIONS = 4, CUDA_SECTION_BYTES = 4 << 20 };      /* of the pinned memory that bytes pass through */
typedef struct cuda_staging {
    unsigned char *data;                            /* NULL until the first byte passes */
    int section;                                    /* which is being filled */
    size_t filled;
    bool in_flight[CUDA_SECTIONS];                  /* its event was recorded and not waited for */
    cuda_event done[CUDA_SECTIONS];
} cuda_staging;

/* ---- two streams and what orders them (stream.c) */
enum { CUDA_KERNELS, CUDA_COPIES, CUDA_TURNS = 64, CUDA_TURN_LAUNCHES = 16 };      /* turns whose ends are kept; launches of a turn, after which it ends at the latest */
typedef struct cuda_line {
    uint64_t turn, after;                           /* what comes now, 1 and up; the last of the other line that this one waits for */
    int64_t launches;                               /* of the GPU, when the turn began */
    cuda_event end[CUDA_TURNS];                     /* of turn t: [t % CUDA_TURNS] */
} cuda_line;

/* ---- compiled kernels (module.c) */
typedef struct cuda_kernel {
    cuda_function function;
    struct cuda_kernel *next;
    size_t key_bytes;
    unsigned char key[];
} cuda_kernel;
__extension__ typedef struct cuda_loaded { unsigned __int128 hash; cuda_module module; struct cuda_loaded *next; } cuda_loaded;
enum { CUDA_KERNEL_LISTS = 256, CUDA_KEY_BYTES = 2048 };
typedef struct cuda_key { size_t n; bool full; unsigned char bytes[CUDA_KEY_BYTES]; } cuda_key;     /* what tells one kernel from another */

/* ---- what kernels find wrong (faults.c): known when somebody reads or synchronises */
enum { CUDA_FAULTS = 256, CUDA_FAULT_WORDS = 3 };   /* struct fault of device.cuh */
typedef struct cuda_fault { char op[48]; int64_t bound; uint64_t turn; } cuda_fault;     /* bound of an index; 0: a division by zero */

/* ---- a GPU (gpu.c) */
typedef struct cuda_counters { int64_t launches, modules, compiled, uploads, downloads, waits, segments, refused; } cuda_counters;     /* compiled: by NVRTC, not found in the cache; refused: shapes of products, by cuBLASLt */

typedef struct cuda {
    cr_device dev;                                  /* first: a cr_device of this folder is a cuda */
    char name[24], info[512];
    bool told;                                      /* info is whole */
    int device, major, minor, multiprocessors;
    cr_mutex *lock;
    cuda_context context, before;                   /* NULL until first use; what was current when this was entered */
    cuda_stream stream, copies;                     /* stream: of kernels */
    cuda_line line[2];
    bool entered;
    atomic_bool lost;
    bool forked;                                    /* in this process, after it was opened in the parent */
    char why[160];                                  /* why it was lost */
    cuda_counters counters;

    cuda_block *pool[2][CUDA_CLASSES];              /* free ones: of large segments, of small ones */
    cuda_block *used;
    int64_t now, peak, reserved, budget;            /* bytes; budget: of what is reserved */
    cuda_staging staging;
    cuda_kernel *kernels[CUDA_KERNEL_LISTS];
    cuda_loaded *modules;
    cuda_block *faults;                             /* CUDA_FAULTS of them; NULL until the first kernel that may fail */
    cuda_fault fault[CUDA_FAULTS];                  /* of the n-th kernel that may fail: [n % CUDA_FAULTS] */
    uint64_t noted, heard;                          /* how many have been launched; of how many it is known whether they failed */
    lt_handle lt;                                   /* NULL: not opened, or not there */
    bool lt_failed;                                 /* it is there, but does not start */
    cuda_block *workspace;                          /* of cuBLASLt */
    struct cuda_product *products;                  /* what matmul.c has worked out */
} cuda;

cuda     *cr_cuda_enter(const char *op, const cr_device *d);      /* opened, alive, locked and current; NULL and a message: not */
cr_status cr_cuda_leave(cuda *g, cr_status status);
cr_status cr_cuda_wait(cuda *g, const char *op);                  /* until both streams are empty */
cr_status cr_cuda_check(cuda *g, const char *op, const char *what, int error);     /* "what: the driver's name and text"; remembers a GPU that is lost */

cuda_block *cr_cuda_block_take(cuda *g, const char *op, size_t bytes);    /* 512-byte aligned; for a moment within a kernel */
void        cr_cuda_block_give(cuda *g, cuda_block *b);
bool        cr_cuda_make_room(cuda *g, int error);                /* memory of the driver's own, for code or stacks, was not had, and what was cached is given back: try again */
cr_storage *cr_cuda_allocate(const cr_device *d, size_t bytes);
cr_storage *cr_cuda_allocate_host(const cr_device *d, size_t bytes);
cr_status   cr_cuda_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes);
cr_status   cr_cuda_download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes);
void        cr_cuda_empty_cache(const cr_device *d);
cr_status   cr_cuda_receive(cuda *g, const char *op, void *dst, cuda_address from, size_t bytes);        /* through the stream of copies; the host waits */
cr_status   cr_cuda_read_bytes(cuda *g, const char *op, void *dst, cuda_address from, size_t bytes, uint64_t turn);       /* as kernels left them in this turn; hears of faults up to there */
cr_status   cr_cuda_faults_check(cuda *g, const char *op);        /* hears of all */

/* ---- order (stream.c).  Line: CUDA_KERNELS or CUDA_COPIES. */
cr_status cr_cuda_end_turn(cuda *g, const char *op, int line);
cr_status cr_cuda_wait_turn(cuda *g, const char *op, int line, uint64_t turn);    /* what comes into the line from now on waits for a turn of the other; 0: for none */
/* Kernels are about to have it.  Where the driver cannot even wait, it does not launch either, and that is told. */
static inline void cuda_touch(cuda *g, cuda_block *b) {
    CR_ASSERT(g->entered);                          /* else another thread may end the turn before the launch */
    cr_cuda_wait_turn(g, "wait", CUDA_KERNELS, b->turn[CUDA_COPIES]);
    b->turn[CUDA_KERNELS] = g->line[CUDA_KERNELS].turn;
}
static inline cuda_address cuda_place(const cr_storage *s) {
    cuda_touch((cuda *)(uintptr_t)s->dev, s->data);
    return ((const cuda_block *)s->data)->at;
}
static inline cuda_address cuda_address_of(const cr_array *t) {       /* of its first element, for a kernel that this call launches; NULL: 0 */
    return t ? cuda_place(t->storage) + (cuda_address)t->offset * cr_dtype_size(t->dtype) : 0;
}

/* ---- text (text.c): of kernels that are written at run time, and what is defined before the others */
typedef struct cuda_text { char *s; size_t n, room; bool failed; } cuda_text;
void        cr_cuda_add(cuda_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void        cr_cuda_free_text(cuda_text *t);
const char *cr_cuda_type(cr_dtype dt);                            /* its name in device.cuh: "f32", "bf16", "b8"... */
const char *cr_cuda_wide(cr_dtype dt);                            /* what floats are computed in: "f32" or "f64"; the type itself for others, bool: "bool" */

/* ---- kernels (module.c): key first, text only where the key is new */
void cr_cuda_key_add(cuda_key *k, const void *part, size_t bytes);
static inline void cuda_key_byte(cuda_key *k, int byte) { unsigned char b = (unsigned char)byte; cr_cuda_key_add(k, &b, 1); }
const cuda_kernel *cr_cuda_kernel_find(const cuda *g, const cuda_key *k);
const cuda_kernel *cr_cuda_kernel_make(cuda *g, const char *op, const cuda_key *k, const char *name, const char *text);       /* name: in the text, which comes after device.cuh */
/* A kernel of one of the files *.cu, after these definitions: "#define T f32\n...". */
const cuda_kernel *cr_cuda_kernel_of(cuda *g, const char *op, const char *file, const char *name, const char *format, ...) __attribute__((format(printf, 5, 6)));
extern const char cr_cuda_source_device[], cr_cuda_source_arguments[], cr_cuda_source_reduce[], cr_cuda_source_argreduce[], cr_cuda_source_rows[], cr_cuda_source_matmul[], cr_cuda_source_index[], cr_cuda_source_random[],
                  cr_cuda_source_scan[], cr_cuda_source_order[], cr_cuda_source_nonzero[], cr_cuda_source_sample[], cr_cuda_source_squares[], cr_cuda_source_attention[];     /* embedded (cmake/embed.cmake) */

/* The kernels compiled when the library was built (cmake/fatbin.cmake): code for every architecture.  The last row has no code. */
typedef struct cuda_precompiled { const char *definitions, *file; const void *code; } cuda_precompiled;
extern const cuda_precompiled cr_cuda_precompiled[];

/* ---- launches (launch.c) */
enum { CUDA_GROUP = 256 };                                        /* threads of a block, unless a kernel has another number */
/* argument: the kernel's struct of arguments.h.  k NULL: the error of making the kernel is returned. */
cr_status cr_cuda_launch(cuda *g, const char *op, const cuda_kernel *k, const void *argument, int64_t blocks);
/* With another number of threads in a block, and bytes of dynamic shared memory. */
cr_status cr_cuda_launch_shared(cuda *g, const char *op, const cuda_kernel *k, const void *argument, int64_t blocks, int threads, int shared);
int64_t   cr_cuda_blocks(const cuda *g, int64_t threads);         /* for a loop over so many, of as many threads as keep the GPU busy */

/* ---- faults (faults.c) */
/* The address that the next kernel notes a fault at: its parameter, asked for before the tensors' addresses, since it may end the turn.  The first
 * position wins.  0: a message. */
cuda_address cr_cuda_fault_new(cuda *g, const char *op, int64_t bound);
cr_status    cr_cuda_faults_hear(cuda *g, const char *op);        /* of the kernels that copies wait for already: the first fault as an error; all are as new */

/* ---- kernels (kernels.h) */
CR_KERNELS(CR_KERNEL_OF_CUDA)
extern const cr_kernels cr_cuda_kernels;                          /* table.c */
cr_status cr_cuda_synchronize(const cr_device *d);

#endif
