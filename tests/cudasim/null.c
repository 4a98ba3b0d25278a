/* null.c - a libcuda that launches nothing: modules of any kind are taken, kernels and products are
 * counted and never run.  With the true NVRTC the library then compiles every kernel that a program asks
 * for, for any architecture and without a GPU, into CHAINRULE_CACHE; and a training step costs what
 * it costs the host.
 *
 * Memory has addresses and no contents, but for copies and fills of up to 64 KiB: tokens, and the words in
 * which kernels note faults.  The rest reads as 0.
 *
 * CUDASIM_CC   compute capability (80)          CUDASIM_MEMORY   MiB (81920: 80 GiB) */
#define _GNU_SOURCE
#include "control.h"
#include "nvidia.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define API __attribute__((visibility("default")))
enum { MOST = 4096, KEPT = 64 << 10 };              /* names of kernels; bytes of a copy that is made */

struct CUctx_st { int index; };
struct CUstream_st { int number; };
struct CUevent_st { int number; };
struct CUfunc_st { int name; };
struct CUmod_st { int number; };

static struct CUctx_st context;
static _Thread_local CUcontext current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { CUdeviceptr at; size_t bytes; } *held;
static int held_count, held_room;
static size_t used;
static cudasim_counters counters;
static struct CUfunc_st functions[MOST];
static struct { char name[64]; long long launches; } kernels[MOST];
static int kernel_count;

static long long number(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoll(text) : otherwise;
}
static size_t memory(void) { return (size_t)number("CUDASIM_MEMORY", 81920) << 20; }

static void unlock_at_end(int *locked) { (void)locked; pthread_mutex_unlock(&lock); }
#define ENTER __attribute__((cleanup(unlock_at_end))) int entered = pthread_mutex_lock(&lock); (void)entered

/* ---- for tests (control.h) */
API const cudasim_counters *cudasim_count(void) { return &counters; }
API const char *cudasim_kernel_name(int i) { return i >= 0 && i < kernel_count ? kernels[i].name : NULL; }
API long long cudasim_launches(const char *kernel) {
    for (int i = 0; i < kernel_count; i++) if (!strcmp(kernels[i].name, kernel)) return kernels[i].launches;
    return 0;
}

/* The number of a name; -1: there are too many. */
static int find(const char *name) {
    for (int i = 0; i < kernel_count; i++) if (!strncmp(kernels[i].name, name, sizeof kernels[i].name - 1)) return i;
    if (kernel_count == MOST) return -1;
    snprintf(kernels[kernel_count].name, sizeof kernels[kernel_count].name, "%s", name);
    functions[kernel_count].name = kernel_count;
    return kernel_count++;
}

/* ---- for the simulated cuBLASLt: a product is counted */
API int cudasim_call(void *stream, const char *name, void (*fn)(void *payload), const void *payload, size_t bytes,
                     cudasim_bytes traffic) {
    (void)stream, (void)fn, (void)payload, (void)bytes;
    ENTER;
    const int i = find(name);
    counters.launches++;
    counters.bytes_read += traffic.read, counters.bytes_written += traffic.written;
    if (i >= 0) kernels[i].launches++;
    return CUDA_SUCCESS;
}
API int cudasim_fails(const char *what) { return (void)what, 0; }
API int cudasim_refuses(int epilogue) { return (void)epilogue, 0; }
API int cudasim_allocated(void *stream, const void *at, size_t bytes) { return (void)stream, (void)at, (void)bytes, 1; }

/* ---- the device */
API CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
/* NVRTC asks a driver that is loaded for it, and crashes where there is no such function. */
API CUresult cuGetExportTable(const void **table, const void *id) {
    return (void)id, *table = NULL, CUDA_ERROR_NOT_FOUND;
}
API CUresult cuDriverGetVersion(int *version) { return *version = 13000, CUDA_SUCCESS; }
API CUresult cuDeviceGetCount(int *count) { return *count = 1, CUDA_SUCCESS; }
API CUresult cuDeviceGet(CUdevice *dev, int ordinal) {
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : (*dev = 0, CUDA_SUCCESS);
}
API CUresult cuDeviceGetName(char *name, int room, CUdevice dev) {
    (void)dev;
    snprintf(name, (size_t)room, "No GPU (a driver that launches nothing)");
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice dev) {
    return (void)dev, memset(id, 0, sizeof *id), CUDA_SUCCESS;
}
API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) { return (void)dev, *bytes = memory(), CUDA_SUCCESS; }

API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev) {
    const int capability = (int)number("CUDASIM_CC", 80);
    (void)dev;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;             /* an H100's */
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}
API CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice dev) { return (void)dev, *out = &context, CUDA_SUCCESS; }
API CUresult cuCtxSetCurrent(CUcontext c) { return current = c, CUDA_SUCCESS; }
API CUresult cuCtxGetCurrent(CUcontext *c) { return *c = current, CUDA_SUCCESS; }

/* ---- memory: pages that nothing touches cost nothing */
API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    ENTER;
    if (bytes > memory() - used) return CUDA_ERROR_OUT_OF_MEMORY;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    if (held_count == held_room) held = realloc(held, sizeof *held * (size_t)(held_room = 2 * held_room + 64));
    held[held_count].at = *out = (CUdeviceptr)(uintptr_t)at;
    held[held_count++].bytes = bytes;
    used += bytes;
    counters.allocations++;
    return CUDA_SUCCESS;
}
API CUresult cuMemFree_v2(CUdeviceptr at) {
    ENTER;
    for (int i = held_count - 1; i >= 0; i--)
        if (held[i].at == at) {
            munmap((void *)(uintptr_t)at, held[i].bytes);
            used -= held[i].bytes;
            held[i] = held[--held_count];
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    *total = memory();
    return *unused = *total - used, CUDA_SUCCESS;
}
API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    return (void)flags, (*out = malloc(bytes)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuMemFreeHost(void *at) { return free(at), CUDA_SUCCESS; }

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
    ENTER;
    (void)s;
    if (bytes <= KEPT) memcpy((void *)(uintptr_t)to, from, bytes);
    counters.copies++, counters.bytes_to_device += (long long)bytes;
    return CUDA_SUCCESS;
}
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
    ENTER;
    (void)s;
    if (bytes <= KEPT) memcpy(to, (const void *)(uintptr_t)from, bytes);
    else memset(to, 0, bytes);
    counters.copies++, counters.bytes_to_host += (long long)bytes;
    return CUDA_SUCCESS;
}
API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
    ENTER;
    (void)s;
    if (count <= KEPT) memset((void *)(uintptr_t)to, value, count);
    counters.sets++, counters.bytes_set += (long long)count;
    return CUDA_SUCCESS;
}

/* ---- streams and events: nothing is ever in flight */
API CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    return (void)flags, (*out = calloc(1, sizeof **out)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuStreamSynchronize(CUstream s) { return (void)s, CUDA_SUCCESS; }
API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    return (void)s, (void)e, (void)flags, CUDA_SUCCESS;
}
API CUresult cuEventCreate(CUevent *out, unsigned flags) {
    return (void)flags, (*out = calloc(1, sizeof **out)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuEventDestroy_v2(CUevent e) { return free(e), CUDA_SUCCESS; }
API CUresult cuEventRecord(CUevent e, CUstream s) { return (void)e, (void)s, CUDA_SUCCESS; }
API CUresult cuEventQuery(CUevent e) { return (void)e, CUDA_SUCCESS; }
API CUresult cuEventSynchronize(CUevent e) { return (void)e, CUDA_SUCCESS; }
API CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { return (void)a, (void)b, *ms = 0, CUDA_SUCCESS; }

/* ---- modules: of the true NVRTC, for any architecture */
API CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    ENTER;
    if (!image || !(*out = calloc(1, sizeof **out))) return CUDA_ERROR_INVALID_IMAGE;
    counters.modules++;
    return CUDA_SUCCESS;
}
API CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    ENTER;
    const int i = m ? find(name) : -1;
    return i < 0 ? CUDA_ERROR_NOT_FOUND : (*out = &functions[i], CUDA_SUCCESS);
}
API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
    return (void)f, (void)attribute, (void)value, CUDA_SUCCESS;
}
API CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *at,
                                    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                    const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                    CUtensorMapFloatOOBfill fill) {
    (void)type, (void)rank, (void)at, (void)sizes, (void)strides, (void)box, (void)steps;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    return memset(out, 0, sizeof *out), CUDA_SUCCESS;
}
API CUresult cuLaunchKernel(CUfunction f, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                            unsigned threads_y, unsigned threads_z, unsigned shared, CUstream s, void **params,
                            void **extra) {
    ENTER;
    (void)shared, (void)s, (void)params, (void)extra;
    if (!blocks_x || !blocks_y || !blocks_z || !threads_x || !threads_y || !threads_z) return CUDA_ERROR_INVALID_VALUE;
    counters.launches++;
    kernels[f->name].launches++;
    return CUDA_SUCCESS;
}

/* ---- graphs: of nothing */
struct CUgraph_st { int number; };
struct CUgraphNode_st { int number; };
struct CUgraphExec_st { int number; };
API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
    return (void)s, (void)mode, CUDA_SUCCESS;
}
API CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
    return (void)flags, (*out = calloc(1, sizeof **out)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuStreamEndCapture(CUstream s, CUgraph *out) { return (void)s, cuGraphCreate(out, 0); }
API CUresult cuGraphDestroy(CUgraph g) { return free(g), CUDA_SUCCESS; }
API CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUgraph child) {
    static struct CUgraphNode_st node;
    return (void)g, (void)after, (void)n, (void)child, *out = &node, CUDA_SUCCESS;
}
API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
    return (void)g, (void)flags, (*out = calloc(1, sizeof **out)) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API CUresult cuGraphExecDestroy(CUgraphExec x) { return free(x), CUDA_SUCCESS; }
API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraph child) {
    return (void)x, (void)node, (void)child, CUDA_SUCCESS;
}
API CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
    ENTER;
    (void)x, (void)s;
    counters.graphs++;
    return CUDA_SUCCESS;
}

/* ---- errors */
API CUresult cuGetErrorName(CUresult status, const char **name) {
    return *name = status ? "CUDA_ERROR" : "CUDA_SUCCESS", CUDA_SUCCESS;
}
API CUresult cuGetErrorString(CUresult status, const char **text) {
    return *text = status == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "refused by the driver that launches nothing",
           CUDA_SUCCESS;
}
