/* module.h - the interface of a compiled text (sim.h) and the simulated driver.  C and C++; no header
 * of any library. */
#ifndef CUDASIM_MODULE_H
#define CUDASIM_MODULE_H

typedef struct cudasim_dim { unsigned x, y, z; } cudasim_dim;

/* bytes for a block: the limit of sm_90, and the limit without a request */
enum { CUDASIM_MAX_SHARED = 227 * 1024, CUDASIM_STATIC_SHARED = 48 * 1024 };

/* Operations of the lanes of a warp. */
enum { CUDASIM_SYNCWARP, CUDASIM_SHUFFLE, CUDASIM_BALLOT };
/* The reductions of the threads' predicates at a barrier of a block. */
enum { CUDASIM_BARRIER, CUDASIM_COUNT, CUDASIM_AND, CUDASIM_OR };

/* wgmma.m64nNk16 as one thread issues it: d += a b, of the warpgroup.  d and words are the thread's. */
typedef struct cudasim_product {
    float *d;                                       /* n / 2 of them */
    const unsigned *words;                          /* a's 4 registers; NULL: a is in shared memory */
    unsigned long long a, b;                        /* descriptors */
    int n, half, add;                               /* half: f16, not bf16; add: 0: d = a b */
    int a_along_i, b_along_i;                       /* of the flags that transpose */
} cudasim_product;

/* Hopper's asynchronous units (hopper.c).  Addresses are of shared memory. */
typedef struct cudasim_hopper {
    unsigned (*address)(const void *at);
    void (*barrier_init)(unsigned at, unsigned count);
    void (*barrier_expect)(unsigned at, unsigned bytes);
    void (*barrier_arrive)(unsigned at);
    void (*barrier_wait)(unsigned at, unsigned parity);
    void (*load)(unsigned to, const void *map, const int *position, unsigned barrier);
    void (*fence)(void);
    void (*product)(const cudasim_product *p);
    void (*commit)(void);
    void (*wait)(int pending);
    void (*named)(int id, int threads, int waits);
    void (*put)(unsigned at, unsigned word);
    void (*publish)(void);
} cudasim_hopper;

/* Functions of the driver that kernels call; line: of the call in the text. */
typedef struct cudasim_runtime {
    int (*barrier)(int kind, int predicate, int line);
    /* lane: whose value a shuffle takes */
    unsigned long long (*warp)(int kind, unsigned mask, unsigned long long value, int lane, int line);
    int (*lane)(void);                              /* of the thread that runs */
    void (*trap)(int line);                         /* does not return; nor does the next one */
    void (*misaligned)(const void *at);
    int (*print)(const char *format, ...);
    void (*access)(const void *at, unsigned long bytes, int write);        /* of a text that was compiled to count */
    const cudasim_hopper *hopper;
} cudasim_runtime;

typedef struct cudasim_kernel {
    const char *name;
    void (*call)(void *const *params);              /* one thread */
    int count;                                      /* of parameters */
    const unsigned *sizes;                          /* of each, in bytes */
} cudasim_kernel;

typedef struct cudasim_module {                     /* the variable cudasim_module of a compiled text */
    const cudasim_kernel *kernels, *end;
    int architecture;                               /* it was compiled for: 80; -80: as PTX */
    int specific;                                   /* for it only: sm_90a */
    cudasim_dim *thread, *block, *threads, *blocks; /* threadIdx, blockIdx, blockDim, gridDim */
    const cudasim_runtime **runtime;
    char *shared, *dynamic;                         /* static __shared__ variables from shared up to dynamic, where
                                                     * the dynamic ones begin */
} cudasim_module;

#endif
