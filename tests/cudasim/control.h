/* control.h - what a test asks of the simulated libcuda beyond NVIDIA's interface; all by dlsym, since it is opened at run time. */
#ifndef CUDASIM_CONTROL_H
#define CUDASIM_CONTROL_H

#include <stddef.h>

typedef struct cudasim_counters {                   /* since the process began */
    long long launches, copies, sets, synchronisations, allocations, modules;
    long long launches_run, copies_run;             /* of those, what a stream has come to */
    long long waits;                                /* of streams for events */
    long long pageable_copies;                      /* those that had to wait, since their host memory was not pinned */
    long long bytes_to_device, bytes_to_host, bytes_on_device, bytes_between_devices, bytes_set;       /* of copies; of sets */
    long long bytes_read, bytes_written;            /* by kernels and products: cudasim_traffic of all */
} cudasim_counters;

/* What launches of one kernel have read and written of device memory: a byte counts once a launch, however often it is touched, as if no
 * cache were too small.  A sector, of 32 bytes, counts once for all lanes of a warp, but each time they come to it: the n-th accesses of its lanes are one, which is so
 * where they go the same way (of a thread's first 512).  Needs CUDASIM_COUNT=1 while kernels are compiled and run (bytes of products come from their layouts). */
typedef struct cudasim_bytes { long long read, written, sectors_read, sectors_written; } cudasim_bytes;
cudasim_bytes cudasim_traffic(const char *kernel);

const cudasim_counters *cudasim_count(void);
long long cudasim_launches(const char *kernel);     /* of one kernel, by name; a product is "cublasLtMatmul" */
const char *cudasim_kernel_name(int i);             /* of those launched so far, in order of the first launch; NULL: no more */
int cudasim_fail(const char *what, int k);          /* as CUDASIM_FAIL; k = 0: none fails; returns 0 for an unknown name */
void cudasim_order(const char *order);              /* as CUDASIM_ORDER */
void cudasim_eager(int streams);                    /* as CUDASIM_EAGER */
void cudasim_mend(void);                            /* takes back all errors that stick, and all failures to come */
const char *cudasim_message(void);                  /* what went wrong last */

/* for the simulated libraries: is what fails due; work in a stream's turn; is this allocated on the stream's device? */
int cudasim_fails(const char *what);
int cudasim_call(void *stream, const char *name, void (*fn)(void *payload), const void *payload, size_t bytes, cudasim_bytes traffic);
int cudasim_allocated(void *stream, const void *at, size_t bytes);

#endif
