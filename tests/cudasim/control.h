/* control.h - functions of the simulated libcuda for tests, in addition to NVIDIA's interface; found
 * by dlsym, since the library is opened at run time. */
#ifndef CUDASIM_CONTROL_H
#define CUDASIM_CONTROL_H

#include <stddef.h>

typedef struct cudasim_counters {                   /* since the process began */
    long long launches, copies, sets, synchronisations, allocations, modules;
    long long launches_run, copies_run;             /* those that have run */
    long long graphs, graph_launches, noted;        /* graphs launched; kernels that they launched, among `launches`;
                                                     * kernels noted in a graph */
    long long waits;                                /* of streams for events */
    long long pageable_copies;                      /* copies of pageable host memory, which wait */
    /* of copies; of sets */
    long long bytes_to_device, bytes_to_host, bytes_on_device, bytes_between_devices, bytes_set;
    long long bytes_read, bytes_written;            /* by kernels and products: cudasim_traffic of all */
    long long work, odd_work;                       /* multiply-adds of cuBLASLt; those of half precision with a
                                                     * dense axis or a leading dimension that is no multiple of 16
                                                     * bytes, which the fastest kernels do not take */
    long long uneven;                               /* products of half precision with such a leading dimension */
} cudasim_counters;

/* Device memory read and written by the launches of one kernel.  A byte counts once a launch, as with
 * an unlimited cache.  A sector of 32 bytes counts once for all lanes of a warp, each time they access
 * it: the n-th accesses of the lanes count as one, which is exact where the lanes do not diverge (for
 * the first 512 accesses of a thread).  Needs CUDASIM_COUNT=1 while kernels are compiled and run
 * (bytes of products come from their layouts). */
typedef struct cudasim_bytes { long long read, written, sectors_read, sectors_written; } cudasim_bytes;
cudasim_bytes cudasim_traffic(const char *kernel);

const cudasim_counters *cudasim_count(void);
long long cudasim_launches(const char *kernel);     /* of one kernel, by name; a product is "cublasLtMatmul" */
const char *cudasim_kernel_name(int i);             /* of those launched so far, in order of the first launch; NULL:
                                                     * no more */
int cudasim_fail(const char *what, int k);          /* as CUDASIM_FAIL; k = 0: none fails; returns 0 if the name is
                                                     * unknown */
void cudasim_refuse(int epilogue);                  /* cuBLASLt has no algorithm for it; -1: for all */
void cudasim_order(const char *order);              /* as CUDASIM_ORDER */
void cudasim_eager(int streams);                    /* as CUDASIM_EAGER */
void cudasim_mend(void);                            /* clears all sticky errors and all requested failures */
const char *cudasim_message(void);                  /* the last error */

/* for the simulated libraries: does this call fail; is this epilogue refused; work in a stream's order;
 * is this allocated on the stream's device? */
int cudasim_fails(const char *what);
int cudasim_refuses(int epilogue);
int cudasim_call(void *stream, const char *name, void (*fn)(void *payload), const void *payload, size_t bytes,
                 cudasim_bytes traffic);
int cudasim_allocated(void *stream, const void *at, size_t bytes);
void cudasim_worked(long long work, int odd, int uneven);

#endif
