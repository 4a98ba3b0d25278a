/* driver.c - the simulated libcuda: devices, memory, modules, streams as queues that run when a caller waits for them.
 *
 * Asynchronous operations run as late as they may: when a synchronisation, a query or an event needs
 * them.  So a result that is read without waiting is missing.  A stream may also be eager: it runs
 * each operation at once, with everything that it waits for, so work of other streams that it should
 * have waited for is missing.  Tests run with each stream late and with each stream eager, which
 * reveals every forgotten wait. Every address is checked before use: the memory of a device has its
 * own range, each allocation lies between guard pages, and addresses are not reused while there is
 * room.
 *
 * CUDASIM_DEVICES  how many (1)
 * CUDASIM_ORDER    of threads: forward, reverse or a seed (forward)
 * CUDASIM_MEMORY   MiB of each (1024)
 * CUDASIM_CC       compute capability (80)
 * CUDASIM_DRIVER   the newest CUDA that it supports (13000: 13.0)
 * CUDASIM_NVRTC    the major version of NVRTC (13)
 * CUDASIM_EAGER    a bit for each stream of a device, in order of their creation (0: none; the stream NULL is always
 *                  late)
 * CUDASIM_COUNT    1: bytes that kernels read and write are counted (control.h)
 * CUDASIM_NAMES    a file to which the names of launched kernels are added at the end
 * CUDASIM_FAIL     "alloc:3,launch:2": the k-th such call from now fails once: device (another process has it), alloc,
 *                  host, copy, launch, module, room (memory for code, when a kernel is launched, a module loaded or a
 *                  graph made), graph (that is made executable), product (for which cuBLASLt's heuristic found an
 *                  algorithm), fault (a kernel, while it runs), link (a call of NCCL) or message (of NCCL, while it
 *                  runs); or does nothing: wait (of a stream for an event), join (of the host for an event); or ends
 *                  the process: vanish (in a message of NCCL) */
#define _GNU_SOURCE
#include "control.h"
#include "fibers.h"
#include "nvidia.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined CUDASIM_THREAD || defined CUDASIM_ADDRESS
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

#define API __attribute__((visibility("default")))
#define TRY(call) do { const CUresult status_ = (call); if (status_) return status_; } while (0)

#if defined CUDASIM_ADDRESS
void __asan_poison_memory_region(const volatile void *address, size_t size);
void __asan_unpoison_memory_region(const volatile void *address, size_t size);
#define POISON(address, size) __asan_poison_memory_region((const void *)(uintptr_t)(address), size)
#define UNPOISON(address, size) __asan_unpoison_memory_region((const void *)(uintptr_t)(address), size)
#else
#define POISON(address, size) ((void)0)
#define UNPOISON(address, size) ((void)0)
#endif

enum {
    MAX_DEVICES = 16,
    PAGE = 64 << 10,                                /* bytes, a multiple of every page size */
    MARGIN = 4096, UNTOUCHED = 0xa5                 /* bytes behind an allocation, and what they hold */
};
static const uint64_t RANGE = 1ull << 36;           /* addresses of one device */

typedef struct allocation { uint64_t at, bytes; } allocation;
typedef struct CUctx_st {                           /* a device and its one context */
    int index;
    uint64_t first, next, used;
    allocation *held;                               /* by address */
    int count, room;
    struct CUstream_st *streams, *legacy;           /* legacy: the stream NULL */
    CUresult broken;                                /* sticky: a kernel failed */
} device;

typedef enum kind { COPY, SET, LAUNCH, CALL, MARK, WAIT } kind;
typedef struct operation {
    struct operation *next;
    kind kind;
    uint64_t ticket;
    size_t room;                                    /* bytes of the payload */
    const char *name; cudasim_bytes moved;          /* of work of a library: counted when it is put into a stream */
    union {
        struct { uint64_t to, from, bytes; } copy;
        struct { uint64_t to, count; unsigned value; int width; } set;
        struct { CUfunction function; cudasim_dim blocks, threads; unsigned shared; bool fault; } launch;
        struct { void (*fn)(void *); } call;
        struct { CUstream stream; uint64_t ticket; } wait;
        struct { CUevent event; } mark;
    };
    _Alignas(64) unsigned char payload[];           /* parameters, one after another, each 64-aligned */
} operation;
static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
struct CUstream_st {
    device *on;
    struct CUstream_st *next;
    operation *first, **last;
    uint64_t issued, done;
    bool apart, running;
    int number;
    struct CUgraph_st *capture;                     /* operations go into it */
    bool invalid;                                   /* something that cannot be captured was asked for */
};
struct CUevent_st { CUstream stream; uint64_t ticket; bool asked, timed; double at; /* seconds, when it ran */ };
struct CUfunc_st { CUmodule module; const cudasim_kernel *kernel; unsigned most_dynamic; };
struct CUmod_st {
    device *on;
    CUmodule next;
    char path[300];
    void *library;
    const cudasim_module *text;
    struct CUfunc_st functions[];
};

/* A graph of operations, or of children, one after another. */
struct CUgraph_st {
    operation *first, **last;
    struct CUgraphNode_st *children, **end;
};
struct CUgraphNode_st { struct CUgraphNode_st *next; operation *first; };
struct CUgraphExec_st { device *on; CUgraph of; };

static device devices[MAX_DEVICES];
static CUmodule modules;
static void remove_files(void);
static int device_count = -1;
static uint64_t memory_limit;
static int capability;
static int shared_limit(void) {                     /* bytes that a block may request: CUDA's programming guide,
                                                     * "technical specifications per compute capability" */
    switch (capability) {
    case 70: case 72: return 96 << 10;
    case 75: return 64 << 10;
    case 80: case 87: return 163 << 10;
    case 86: case 88: case 89: case 120: case 121: return 99 << 10;
    default: return capability < 70 ? 48 << 10 : CUDASIM_MAX_SHARED;
    }
}
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local device *current;
static struct { void *at; size_t bytes; } *pinned;
static int pinned_count, pinned_room;
static cudasim_counters counters;
static struct launched { const char *name; long long count; cudasim_bytes traffic; } *by_kernel;
static int kernel_count;
static bool counting;
static int eager;                                   /* CUDASIM_EAGER */
static uint32_t *touched;                           /* of each byte of all devices: the last launch that read it, 16
                                                     * bits, and that wrote it */
static unsigned this_launch;
static cudasim_bytes traffic;                       /* of this launch */
static char message[600];
static bool in_child;                               /* of a process that has called cuInit */
static struct failure {
    const char *what;
    int left;
} failures[] = {{"device", 0}, {"alloc", 0},   {"host", 0},  {"copy", 0}, {"launch", 0}, {"module", 0},
                {"room", 0},   {"product", 0}, {"fault", 0}, {"wait", 0}, {"join", 0},
                {"link", 0},   {"message", 0}, {"vanish", 0}, {"graph", 0},
                {"solver", 0}};
enum {
    FAIL_DEVICE,
    FAIL_ALLOC,
    FAIL_HOST,
    FAIL_COPY,
    FAIL_LAUNCH,
    FAIL_MODULE,
    FAIL_ROOM,
    FAIL_PRODUCT,
    FAIL_FAULT,
    FAIL_WAIT,
    FAIL_JOIN,
    FAIL_LINK,
    FAIL_MESSAGE,
    FAIL_VANISH,
    FAIL_GRAPH,
    FAIL_SOLVER,
    FAILURES
};

/* One call runs at a time. */
static void unlock_at_end(int *held) { (void)held; pthread_mutex_unlock(&lock); }
#define ENTER __attribute__((cleanup(unlock_at_end))) int entered = pthread_mutex_lock(&lock); (void)entered
#define ENTER_CONTEXT                                                                              \
    ENTER;                                                                                         \
    if (in_child) return CUDA_ERROR_NOT_INITIALIZED;                                               \
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;                                               \
    if (current->broken) return current->broken

static CUresult wrong(CUresult status, const char *format, ...) __attribute__((format(printf, 2, 3)));
static CUresult wrong(CUresult status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!getenv("CUDASIM_QUIET")) fprintf(stderr, "cudasim: %s\n", message);
    return status;
}

static bool fails(int what) { return failures[what].left > 0 && --failures[what].left == 0; }

static long long number(const char *name, long long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoll(text) : otherwise;
}

/* ---- for tests (control.h) */
API const char *cudasim_message(void) { return message; }
API const cudasim_counters *cudasim_count(void) { return &counters; }
API long long cudasim_launches(const char *kernel) {
    for (int i = 0; i < kernel_count; i++)
        if (!strcmp(by_kernel[i].name, kernel)) return by_kernel[i].count;
    return 0;
}
API cudasim_bytes cudasim_traffic(const char *kernel) {
    for (int i = 0; i < kernel_count; i++)
        if (!strcmp(by_kernel[i].name, kernel)) return by_kernel[i].traffic;
    return (cudasim_bytes){0};
}
API const char *cudasim_kernel_name(int i) { return i >= 0 && i < kernel_count ? by_kernel[i].name : NULL; }
static int refused = -1;                            /* an epilogue */
API void cudasim_refuse(int epilogue) { refused = epilogue; }
API int cudasim_refuses(int epilogue) { return epilogue == refused; }
API void cudasim_order(const char *text) { fibers_order(text); }
API void cudasim_eager(int streams) { eager = streams; }
API int cudasim_fail(const char *what, int k) {
    for (int i = 0; i < FAILURES; i++)
        if (!strcmp(failures[i].what, what)) return failures[i].left = k, 1;
    return 0;
}
API void cudasim_mend(void) {
    for (int i = 0; i < device_count; i++) devices[i].broken = CUDA_SUCCESS;
    for (int i = 0; i < FAILURES; i++) failures[i].left = 0;
    refused = -1;
    message[0] = 0;
}

/* ---- devices */
static void begin_in_child(void) { in_child = true; }

API CUresult cuInit(unsigned flags) {
    ENTER;
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (in_child) return CUDA_ERROR_NOT_INITIALIZED;
    if (device_count >= 0) return device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    pthread_atfork(NULL, NULL, begin_in_child);
    const long long n = number("CUDASIM_DEVICES", 1);
    device_count = n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : (int)n;
    if (!device_count) return CUDA_ERROR_NO_DEVICE;
    memory_limit = (uint64_t)number("CUDASIM_MEMORY", 1024) << 20;
    capability = (int)number("CUDASIM_CC", 80);
    fibers_order(getenv("CUDASIM_ORDER"));
    eager = (int)number("CUDASIM_EAGER", 0);
    char list[200], *rest = list;
    snprintf(list, sizeof list, "%s", getenv("CUDASIM_FAIL") ? getenv("CUDASIM_FAIL") : "");
    for (char *item; (item = strtok_r(rest, ",", &rest));) {
        char *colon = strchr(item, ':');
        if (colon) *colon = 0;
        if (!colon || !cudasim_fail(item, atoi(colon + 1)))
            wrong(CUDA_SUCCESS,
                  "CUDASIM_FAIL: '%s' is not one of device, alloc, host, copy, launch, module, room, product, fault, "
                  "wait, join, link, message, vanish, graph, solver with :number",
                  item);
    }
    void *all = mmap(NULL, RANGE * (uint64_t)device_count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0);
    if (all == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
#if defined CUDASIM_THREAD || defined CUDASIM_ADDRESS
    __sanitizer_set_death_callback(remove_files);
#endif
    for (int i = 0; i < device_count; i++) {
        devices[i].index = i;
        devices[i].first = devices[i].next = ((uint64_t)(uintptr_t)all + PAGE - 1) / PAGE * PAGE + RANGE * (uint64_t)i;
    }
    counting = number("CUDASIM_COUNT", 0);
    if (counting)
        touched = mmap(NULL, sizeof *touched * RANGE * (uint64_t)device_count, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return touched == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int *version) {
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = (int)number("CUDASIM_DRIVER", 13000);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *count) {
    ENTER;
    if (device_count < 0) return CUDA_ERROR_NOT_INITIALIZED;
    *count = device_count;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *dev, int ordinal) {
    ENTER;
    if (device_count < 0) return CUDA_ERROR_NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= device_count) return CUDA_ERROR_INVALID_DEVICE;
    *dev = ordinal;
    return CUDA_SUCCESS;
}

static device *device_at(CUdevice dev) { return dev >= 0 && dev < device_count ? &devices[dev] : NULL; }

API CUresult cuDeviceGetName(char *name, int room, CUdevice dev) {
    ENTER;
    if (!device_at(dev) || room <= 0) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)room, "Simulated GPU");
    return CUDA_SUCCESS;
}

/* The same in every process: those of one host share its devices. */
API CUresult cuDeviceGetUuid_v2(CUuuid *id, CUdevice dev) {
    ENTER;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "cudasim %d", (unsigned char)dev);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    ENTER;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = memory_limit;
    return CUDA_SUCCESS;
}

/* Those of an A100, except for few multiprocessors, which keep grids small. */
API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice dev) {
    ENTER;
    if (!device_at(dev)) return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = MAX_THREADS; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 0x7fffffff; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = CUDASIM_STATIC_SHARED; break;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: *value = 64 << 10; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = WARP; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1410000; break;                       /* kHz */
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 4; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1215000; break;                /* kHz */
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; break;             /* bits */
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 40 << 20; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 3; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *value = shared_limit() + (capability > 75 ? 1 << 10 : 0);
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = shared_limit(); break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *value = 1024; break;
    default: return wrong(CUDA_ERROR_INVALID_VALUE, "cuDeviceGetAttribute: %d is not simulated", (int)attribute);
    }
    return CUDA_SUCCESS;
}

/* ---- contexts */
static device *device_of(CUcontext context) { return context; }

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice dev) {
    ENTER;
    device *d = device_at(dev);
    if (!d) return CUDA_ERROR_INVALID_DEVICE;
    if (in_child) return CUDA_ERROR_NOT_INITIALIZED;
    if (fails(FAIL_DEVICE)) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (!d->legacy) {
        d->legacy = calloc(1, sizeof *d->legacy);
        d->legacy->on = d;
        d->legacy->number = -1;
        d->legacy->last = &d->legacy->first;
    }
    *context = d;
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext context) {
    current = device_of(context);
    return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = current;
    return CUDA_SUCCESS;
}

/* ---- memory */
static device *owner(uint64_t at) {
    for (int i = 0; i < device_count; i++)
        if (at >= devices[i].first && at - devices[i].first < RANGE) return &devices[i];
    return NULL;
}

/* The number of d's allocations that begin at or before it. */
static int before(const device *d, uint64_t at) {
    int low = 0, high = d->count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (d->held[middle].at <= at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static bool holds(const device *d, uint64_t at, uint64_t bytes) {
    const int i = before(d, at) - 1;
    return i >= 0 && at - d->held[i].at <= d->held[i].bytes && bytes <= d->held[i].bytes - (at - d->held[i].at);
}

/* The error of accessing these bytes in an operation on d; NULL: none. */
static const char *flaw(const device *d, uint64_t at, uint64_t bytes) {
    static char text[200];
    const device *whose = owner(at);
    if (whose == d && holds(d, at, bytes)) return NULL;
    if (!whose) snprintf(text, sizeof text, "%#llx is no device memory", (unsigned long long)at);
    else if (whose != d)
        snprintf(text, sizeof text, "%#llx lies on device %d, the work on device %d", (unsigned long long)at,
                 whose->index, d->index);
    else
        snprintf(text, sizeof text, "%llu bytes from %#llx on are not all allocated on device %d",
                 (unsigned long long)bytes, (unsigned long long)at, d->index);
    return text;
}

static uint64_t padded(uint64_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* A free range, beyond the last one handed out while there is room. */
static uint64_t place(device *d, uint64_t bytes) {
    for (int round = 0; round < 2; round++) {
        uint64_t at = round ? d->first + PAGE : d->next + PAGE;
        for (int i = before(d, at - PAGE) - 1; i < d->count; i++) {
            if (i < 0) continue;
            const uint64_t end = d->held[i].at + padded(d->held[i].bytes) + PAGE;
            if (d->held[i].at >= at + bytes + PAGE) break;
            if (end > at) at = end;
        }
        if (at + bytes + PAGE <= d->first + RANGE) return at;
    }
    return 0;
}

/* The bytes between the end of an allocation and its guard page.  No access to them faults, so they
 * hold a mark, which is checked after each kernel that has the allocation's address, and when it is
 * freed.  Under the address sanitizer they are poisoned, which also reveals reads. */
#if defined CUDASIM_ADDRESS
static void mark_margin(const allocation *a) { POISON(a->at + a->bytes, padded(a->bytes) - a->bytes); }
static const char *margin_flaw(const allocation *a) { return (void)a, NULL; }
#else
static uint64_t margin_of(const allocation *a) {
    const uint64_t all = padded(a->bytes) - a->bytes;
    return all < MARGIN ? all : MARGIN;
}
static void mark_margin(const allocation *a) {
    memset((void *)(uintptr_t)(a->at + a->bytes), UNTOUCHED, margin_of(a));
}
static const char *margin_flaw(const allocation *a) {
    static char text[120];
    const unsigned char *behind = (const unsigned char *)(uintptr_t)(a->at + a->bytes);
    for (uint64_t i = 0; i < margin_of(a); i++)
        if (behind[i] != UNTOUCHED)
            return snprintf(text, sizeof text, "byte %llu behind an allocation of %llu bytes was overwritten",
                            (unsigned long long)i, (unsigned long long)a->bytes),
                   text;
    return NULL;
}
#endif

static CUresult drain(device *d);

API CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    ENTER_CONTEXT;
    device *d = current;
    if (!bytes || !out) return CUDA_ERROR_INVALID_VALUE;
    if (fails(FAIL_ALLOC) || bytes > memory_limit - d->used) return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t at = place(d, padded(bytes));
    if (!at || mprotect((void *)(uintptr_t)at, padded(bytes), PROT_READ | PROT_WRITE)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (d->count == d->room) d->held = realloc(d->held, sizeof *d->held * (size_t)(d->room = 2 * d->room + 64));
    const int i = before(d, at);
    memmove(&d->held[i + 1], &d->held[i], sizeof *d->held * (size_t)(d->count++ - i));
    d->held[i].at = at;
    d->held[i].bytes = bytes;
    d->next = at + padded(bytes);
    d->used += bytes;
    memset((void *)(uintptr_t)at, 0xff, bytes);     /* unwritten memory is NaN */
    mark_margin(&d->held[i]);
    counters.allocations++;
    *out = at;
    return CUDA_SUCCESS;
}

API CUresult cuMemFree_v2(CUdeviceptr at) {
    ENTER_CONTEXT;
    if (!at) return CUDA_SUCCESS;
    device *d = owner(at);
    const int i = d ? before(d, at) - 1 : -1;
    if (i < 0 || d->held[i].at != at)
        return wrong(CUDA_ERROR_INVALID_VALUE, "cuMemFree: %#llx was not allocated, or was freed", at);
    TRY(drain(d));                                  /* it waits for the device */
    const uint64_t bytes = d->held[i].bytes;
    const char *bad = margin_flaw(&d->held[i]);
    if (bad) d->broken = wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "cuMemFree: %s", bad);
    UNPOISON(at, padded(bytes));
    madvise((void *)(uintptr_t)at, padded(bytes), MADV_DONTNEED);
    mprotect((void *)(uintptr_t)at, padded(bytes), PROT_NONE);
    memmove(&d->held[i], &d->held[i + 1], sizeof *d->held * (size_t)(--d->count - i));
    d->used -= bytes;
    return d->broken;
}

API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total) {
    ENTER_CONTEXT;
    *unused = memory_limit - current->used;
    *total = memory_limit;
    return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    ENTER_CONTEXT;
    (void)flags;
    if (!bytes || !out) return CUDA_ERROR_INVALID_VALUE;
    if (fails(FAIL_HOST) || !(*out = malloc(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(*out, 0xff, bytes);
    if (pinned_count == pinned_room)
        pinned = realloc(pinned, sizeof *pinned * (size_t)(pinned_room = 2 * pinned_room + 16));
    pinned[pinned_count].at = *out;
    pinned[pinned_count++].bytes = bytes;
    return CUDA_SUCCESS;
}

API CUresult cuMemFreeHost(void *at) {
    ENTER_CONTEXT;
    for (int i = 0; i < pinned_count; i++)
        if (pinned[i].at == at) {
            for (int j = 0; j < device_count; j++) TRY(drain(&devices[j]));
            pinned[i] = pinned[--pinned_count];
            free(at);
            return CUDA_SUCCESS;
        }
    return wrong(CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost: %p was not allocated, or was freed", at);
}

static bool is_pinned(const void *at, size_t bytes) {
    for (int i = 0; i < pinned_count; i++) {
        const uintptr_t offset = (uintptr_t)at - (uintptr_t)pinned[i].at;
        if (offset <= pinned[i].bytes && bytes <= pinned[i].bytes - offset) return true;
    }
    return false;
}

/* ---- queues */
static CUresult run_until(CUstream s, uint64_t ticket);

static void fill(uint64_t to, uint64_t count, unsigned value, int width) {
    if (width == 1) memset((void *)(uintptr_t)to, (int)value, count);
    else for (uint64_t i = 0; i < count; i++) memcpy((void *)(uintptr_t)(to + 4 * i), &value, 4);
}

/* Every word of the parameters that is an address on a device must be one of this device's allocations. */
static const char *parameter_flaw(const device *d, const cudasim_kernel *k, void *const *params) {
    for (int i = 0; i < k->count; i++)
        for (unsigned at = 0; at + 8 <= k->sizes[i]; at += 8) {
            uint64_t word;
            memcpy(&word, (const char *)params[i] + at, sizeof word);
            if (owner(word) && flaw(d, word, 0)) return flaw(d, word, 0);
        }
    return NULL;
}

/* After a kernel: what it wrote behind the allocations that it was given. */
static const char *overrun_of(const device *d, const cudasim_kernel *k, void *const *params) {
    for (int i = 0; i < k->count; i++)
        for (unsigned at = 0; at + 8 <= k->sizes[i]; at += 8) {
            uint64_t word;
            memcpy(&word, (const char *)params[i] + at, sizeof word);
            const char *bad = owner(word) == d ? margin_flaw(&d->held[before(d, word) - 1]) : NULL;
            if (bad) return bad;
        }
    return NULL;
}

/* Is this the first access of the warp to the sector among its lanes' n-th accesses? */
static bool new_sector(uint64_t sector, int write, unsigned block, unsigned warp, unsigned nth) {
    enum { PLACES = 1 << 21, MOST = 512 };          /* at most half of the places are taken in a block */
    static struct { uint64_t is; unsigned block; } seen[PLACES];
    const uint64_t is = (sector * MOST + nth) * 2 * (MAX_THREADS / WARP) + warp * 2 + (unsigned)write;
    if (nth >= MOST) return false;
    for (uint64_t i = is * 0x9e3779b97f4a7c15u >> 43;; i = (i + 1) % PLACES) {
        if (seen[i].block == block && seen[i].is == is) return false;
        if (seen[i].block == block) continue;
        seen[i].is = is, seen[i].block = block;
        return true;
    }
}

void fibers_access(const void *at, unsigned long bytes, int write, unsigned block, unsigned warp, unsigned nth) {
    const uint64_t first = (uintptr_t)at - devices[0].first;
    if (first >= RANGE * (uint64_t)device_count) return;       /* shared memory, a stack */
    for (uint64_t sector = first / 32; sector <= (first + bytes - 1) / 32; sector++)
        *(write ? &traffic.sectors_written : &traffic.sectors_read) += new_sector(sector, write, block, warp, nth);
    for (uint64_t i = first; i < first + bytes; i++) {
        uint16_t *last = (uint16_t *)&touched[i] + write;
        if (*last == this_launch) continue;
        *last = (uint16_t)this_launch;
        ++*(write ? &traffic.written : &traffic.read);
    }
}

static void begin_counting(void) {
    traffic = (cudasim_bytes){0};
    if (++this_launch >> 16) {
        this_launch = 1;
        madvise(touched, sizeof *touched * RANGE * (uint64_t)device_count, MADV_DONTNEED);
    }
}

static void end_counting(const char *name, cudasim_bytes more) {
    counters.bytes_read += more.read;
    counters.bytes_written += more.written;
    for (int i = 0; i < kernel_count; i++)
        if (!strcmp(by_kernel[i].name, name)) {
            cudasim_bytes *t = &by_kernel[i].traffic;
            t->read += more.read, t->written += more.written;
            t->sectors_read += more.sectors_read, t->sectors_written += more.sectors_written;
        }
}

static CUresult run_kernel(device *d, operation *o) {
    const struct CUfunc_st *f = o->launch.function;
    const cudasim_module *m = f->module->text;
    const cudasim_kernel *k = f->kernel;
    void *params[256];
    unsigned char *next = o->payload;
    for (int i = 0; i < k->count; i++) {
        params[i] = next;
        next += aligned(k->sizes[i]);
    }
    if (o->launch.fault) return wrong(CUDA_ERROR_LAUNCH_FAILED, "kernel '%s' fails, as asked for", k->name);
    const char *bad = parameter_flaw(d, k, params);
    if (bad) return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel '%s': %s", k->name, bad);
    POISON(m->dynamic + (o->launch.shared + 7) / 8 * 8, CUDASIM_MAX_SHARED - (o->launch.shared + 7) / 8 * 8);
    if (counting) begin_counting();
    bad = fibers_run(m, k, params, o->launch.blocks, o->launch.threads, o->launch.shared);
    UNPOISON(m->dynamic, CUDASIM_MAX_SHARED);
    if (counting) end_counting(k->name, traffic);
    const char *overrun = bad ? NULL : overrun_of(d, k, params);
    if (overrun) return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "kernel '%s': %s", k->name, overrun);
    return !bad ? CUDA_SUCCESS
                : wrong(strstr(bad, "touches address") ? CUDA_ERROR_ILLEGAL_ADDRESS
                        : strstr(bad, "not aligned")   ? CUDA_ERROR_MISALIGNED_ADDRESS
                                                       : CUDA_ERROR_LAUNCH_FAILED,
                        "%s", bad);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static CUresult run(device *d, operation *o) {
    counters.copies_run += o->kind == COPY;
    counters.launches_run += o->kind == LAUNCH || o->kind == CALL;
    switch (o->kind) {
    case COPY: memmove((void *)(uintptr_t)o->copy.to, (const void *)(uintptr_t)o->copy.from, o->copy.bytes); break;
    case SET: fill(o->set.to, o->set.count, o->set.value, o->set.width); break;
    case LAUNCH: return run_kernel(d, o);
    case CALL: o->call.fn(o->payload); break;
    case WAIT: return run_until(o->wait.stream, o->wait.ticket);
    case MARK: o->mark.event->at = seconds(); break;
    }
    return CUDA_SUCCESS;
}

static CUresult run_until(CUstream s, uint64_t ticket) {
    if (s->done >= ticket) return s->on->broken;    /* also for a running stream that waits for the calling one */
    if (s->running) return wrong(CUDA_ERROR_UNKNOWN, "streams wait for each other");
    s->running = true;
    while (s->first && s->first->ticket <= ticket) {
        operation *o = s->first;
        s->first = o->next;
        if (!s->first) s->last = &s->first;
        const CUresult status = s->on->broken ? s->on->broken : run(s->on, o);
        if (status) s->on->broken = status;
        s->done = o->ticket;
        free(o);
    }
    s->running = false;
    return s->on->broken;
}

static CUresult drain(device *d) {
    if (d->legacy) run_until(d->legacy, UINT64_MAX);
    for (CUstream s = d->streams; s; s = s->next) run_until(s, UINT64_MAX);
    return d->broken;
}

static void count_launch(const char *name) {
    counters.launches++;
    int i = 0;
    while (i < kernel_count && strcmp(by_kernel[i].name, name)) i++;
    if (i == kernel_count) {
        by_kernel = realloc(by_kernel, sizeof *by_kernel * (size_t)++kernel_count);
        by_kernel[i] = (struct launched){.name = strdup(name)};
    }
    by_kernel[i].count++;
}

static void count_kernel(const operation *o) {
    if (o->kind != LAUNCH && o->kind != CALL) return;
    count_launch(o->name);
    if (o->kind == CALL) end_counting(o->name, o->moved);
}

/* The stream NULL and the blocking streams wait for each other. */
static CUresult add(CUstream s, operation *o) {
    device *d = s->on;
    o->next = NULL;
    if (s->capture) {
        *s->capture->last = o;
        s->capture->last = &o->next;
        return CUDA_SUCCESS;
    }
    count_kernel(o);
    if (s == d->legacy) {
        for (CUstream other = d->streams; other; other = other->next)
            if (!other->apart) run_until(other, UINT64_MAX);
    } else if (!s->apart) run_until(d->legacy, UINT64_MAX);
    o->ticket = ++s->issued;
    *s->last = o;
    s->last = &o->next;
    return s->number >= 0 && eager >> s->number & 1 ? run_until(s, UINT64_MAX) : d->broken;
}

static operation *operation_new(kind what, size_t payload) {
    const size_t bytes = aligned(sizeof(operation) + payload);
    operation *o = aligned_alloc(64, bytes);
    memset(o, 0, bytes);
    o->kind = what;
    o->room = payload;
    return o;
}

/* What a stream that is captured cannot do: it ends the capture. */
static CUresult uncaptured(CUstream s, const char *what) {
    if (!s->capture) return CUDA_SUCCESS;
    s->invalid = true;
    return wrong(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "%s: the stream is captured", what);
}

/* The stream of a call: NULL is that of the current context. */
static CUstream stream_of(CUstream s) { return s ? s : current->legacy; }
#define ON_STREAM(s)                                                                               \
    ENTER_CONTEXT;                                                                                 \
    s = stream_of(s);                                                                              \
    if (s->on->broken) return s->on->broken

API CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    ENTER_CONTEXT;
    CUstream s = calloc(1, sizeof *s);
    s->on = current;
    s->last = &s->first;
    s->apart = flags & CU_STREAM_NON_BLOCKING;
    s->next = current->streams;
    s->number = s->next ? s->next->number + 1 : 0;
    current->streams = s;
    *out = s;
    return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream s) {
    ON_STREAM(s);
    TRY(uncaptured(s, "cuStreamSynchronize"));
    counters.synchronisations++;
    return run_until(s, UINT64_MAX);
}

/* Events of a destroyed stream are complete. */
API CUresult cuStreamDestroy_v2(CUstream s) {
    ENTER;
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    run_until(s, UINT64_MAX);
    return CUDA_SUCCESS;                            /* the struct stays: events name it */
}

API CUresult cuEventCreate(CUevent *out, unsigned flags) {
    ENTER_CONTEXT;
    *out = calloc(1, sizeof **out);
    (*out)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    return CUDA_SUCCESS;
}

API CUresult cuEventDestroy_v2(CUevent e) {
    ENTER;
    if (e->stream) run_until(e->stream, e->ticket);            /* its mark is in the queue until then */
    free(e);
    return CUDA_SUCCESS;
}

API CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
    ENTER_CONTEXT;
    if (!a->stream || !b->stream || !a->timed || !b->timed) return CUDA_ERROR_INVALID_HANDLE;
    if (a->stream->done < a->ticket || b->stream->done < b->ticket) return CUDA_ERROR_NOT_READY;
    *ms = (float)(1e3 * (b->at - a->at));
    return CUDA_SUCCESS;
}

API CUresult cuEventRecord(CUevent e, CUstream s) {
    ON_STREAM(s);
    TRY(uncaptured(s, "cuEventRecord"));            /* CUDA can, this library does not */
    operation *o = operation_new(MARK, 0);
    o->mark.event = e;
    TRY(add(s, o));
    e->stream = s;
    e->ticket = s->issued;
    e->asked = false;
    return CUDA_SUCCESS;
}

/* The first query finds the work incomplete, and completes it. */
API CUresult cuEventQuery(CUevent e) {
    ENTER_CONTEXT;
    if (!e->stream || e->stream->done >= e->ticket) return e->stream ? e->stream->on->broken : CUDA_SUCCESS;
    if (!e->asked) {
        e->asked = true;
        return CUDA_ERROR_NOT_READY;
    }
    return run_until(e->stream, e->ticket);
}

API CUresult cuEventSynchronize(CUevent e) {
    ENTER_CONTEXT;
    counters.synchronisations++;
    return e->stream && !fails(FAIL_JOIN) ? run_until(e->stream, e->ticket) : CUDA_SUCCESS;
}

API CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
    ON_STREAM(s);
    (void)flags;
    TRY(uncaptured(s, "cuStreamWaitEvent"));
    counters.waits++;
    if (fails(FAIL_WAIT) || !e->stream) return CUDA_SUCCESS;
    operation *o = operation_new(WAIT, 0);
    o->wait.stream = e->stream;
    o->wait.ticket = e->ticket;
    return add(s, o);
}

/* ---- copies: between pinned memory and a device as late as other operations; of pageable memory,
 * before the call returns */
static CUresult copy(CUstream s, uint64_t to, uint64_t from, size_t bytes, const char *bad, long long *bytes_moved,
                     bool at_once) {
    if (bad) return wrong(CUDA_ERROR_INVALID_VALUE, "copy of %zu bytes: %s", bytes, bad);
    if (!bytes) return CUDA_SUCCESS;
    TRY(uncaptured(s, "a copy"));
    if (fails(FAIL_COPY)) return CUDA_ERROR_UNKNOWN;
    operation *o = operation_new(COPY, 0);
    o->copy.to = to;
    o->copy.from = from;
    o->copy.bytes = bytes;
    counters.copies++;
    *bytes_moved += (long long)bytes;
    TRY(add(s, o));
    if (!at_once) return CUDA_SUCCESS;
    counters.pageable_copies++;
    return run_until(s, UINT64_MAX);
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream s) {
    ON_STREAM(s);
    return copy(s, to, (uintptr_t)from, bytes, flaw(s->on, to, bytes), &counters.bytes_to_device,
                !is_pinned(from, bytes));
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream s) {
    ON_STREAM(s);
    return copy(s, (uintptr_t)to, from, bytes, flaw(s->on, from, bytes), &counters.bytes_to_host,
                !is_pinned(to, bytes));
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s) {
    ON_STREAM(s);
    const char *bad = flaw(s->on, to, bytes);
    return copy(s, to, from, bytes, bad ? bad : flaw(s->on, from, bytes), &counters.bytes_on_device, false);
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                               size_t bytes, CUstream s) {
    ON_STREAM(s);
    const char *bad = flaw(device_of(to_context), to, bytes);
    return copy(s, to, from, bytes, bad ? bad : flaw(device_of(from_context), from, bytes),
                &counters.bytes_between_devices, false);
}

static CUresult set(CUstream s, uint64_t to, unsigned value, size_t count, int width) {
    const char *bad = to % (unsigned)width ? "not aligned" : flaw(s->on, to, count * (unsigned)width);
    if (bad) return wrong(CUDA_ERROR_INVALID_VALUE, "setting %zu elements of %d bytes: %s", count, width, bad);
    operation *o = operation_new(SET, 0);
    o->set.to = to;
    o->set.count = count;
    o->set.value = value;
    o->set.width = width;
    counters.sets++;
    counters.bytes_set += (long long)count * width;
    return add(s, o);
}

API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream s) {
    ON_STREAM(s);
    return set(s, to, value, count, 1);
}

API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream s) {
    ON_STREAM(s);
    return set(s, to, value, count, 4);
}

/* ---- modules: shared objects from the simulated NVRTC */
static size_t image_size(const unsigned char *image) {
    uint64_t sections;                              /* where the table of sections begins; it is the last thing in
                                                     * the file */
    uint16_t size, count;
    if (memcmp(image, "\177ELF", 4)) return 0;
    memcpy(&sections, image + 40, sizeof sections);
    memcpy(&size, image + 58, sizeof size);
    memcpy(&count, image + 60, sizeof count);
    return sections + (size_t)size * count;
}

/* CUDASIM_NAMES=file: at the end the names of the kernels that were launched are added to it. */
__attribute__((destructor)) static void write_names(void) {
    const char *path = getenv("CUDASIM_NAMES");
    FILE *f = path && !in_child ? fopen(path, "a") : NULL;
    for (int i = 0; f && i < kernel_count; i++) fprintf(f, "%s\n", by_kernel[i].name);
    if (f) fclose(f);
}

/* At the end of the process, also after a sanitizer's report. */
__attribute__((destructor)) static void remove_files(void) {
    for (CUmodule m = modules; m; m = m->next) unlink(m->path);
}

API CUresult cuModuleLoadData(CUmodule *out, const void *image) {
    ENTER_CONTEXT;
    if (fails(FAIL_MODULE)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (fails(FAIL_ROOM)) return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t bytes = image_size(image);
    if (!bytes) return wrong(CUDA_ERROR_INVALID_IMAGE, "cuModuleLoadData: this is not what the simulated NVRTC makes");
    char path[300];                                 /* a unique name: dlopen identifies libraries by name */
    snprintf(path, sizeof path, "%.250s/cudasim-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    const int file = mkstemp(path);
    if (file < 0) return wrong(CUDA_ERROR_OPERATING_SYSTEM, "cuModuleLoadData: %s cannot be written", path);
    const bool written = write(file, image, bytes) == (ssize_t)bytes;
    close(file);
    void *library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *why = library ? NULL : dlerror();
#if !defined CUDASIM_THREAD && !defined CUDASIM_ADDRESS     /* their reports read names and lines from it */
    unlink(path);
#endif
    const cudasim_module *text = library ? dlsym(library, "cudasim_module") : NULL;
    if (!text) return wrong(CUDA_ERROR_INVALID_IMAGE, "cuModuleLoadData: %s", why ? why : "no kernels in it");
    const int architecture = abs(text->architecture);
    const bool machine = text->architecture > 0;
    const bool of_tegra = architecture == 62 || architecture == 72 || architecture == 87 || architecture == 110;
    if (architecture > capability ||
        (machine && (architecture / 10 != capability / 10 ||
                     ((of_tegra || text->specific) && architecture != capability)))) {
        wrong(CUDA_ERROR_NO_BINARY_FOR_GPU, "cuModuleLoadData: compiled for %s_%d%s, the device is an sm_%d",
              machine ? "sm" : "compute", architecture, text->specific ? "a" : "", capability);
        dlclose(library);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    CUmodule m = calloc(1, sizeof *m + sizeof m->functions[0] * (size_t)(text->end - text->kernels));
    m->on = current;
    m->next = modules;
    modules = m;
    snprintf(m->path, sizeof m->path, "%s", path);
    m->library = library;
    m->text = text;
    for (int i = 0; i < text->end - text->kernels; i++) {
        m->functions[i].module = m;
        m->functions[i].kernel = &text->kernels[i];
        m->functions[i].most_dynamic = CUDASIM_STATIC_SHARED;
    }
    counters.modules++;
    *out = m;
    return CUDA_SUCCESS;
}

API CUresult cuModuleUnload(CUmodule m) {
    ENTER_CONTEXT;
    TRY(drain(m->on));
    CUmodule *link = &modules;
    while (*link && *link != m) link = &(*link)->next;
    if (!*link) return CUDA_ERROR_INVALID_HANDLE;
    *link = m->next;
    unlink(m->path);
    dlclose(m->library);
    free(m);
    return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    ENTER_CONTEXT;
    for (int i = 0; i < m->text->end - m->text->kernels; i++)
        if (!strcmp(m->text->kernels[i].name, name)) return *out = &m->functions[i], CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}

/* If several kernels share a text, the share of each is unknown; the true compilers refuse too much.  Between the
 * variables and dynamic memory, which is aligned to 128 bytes, lie up to 127 bytes, and before them a few of
 * the host's compiler: a kernel without variables has none, wherever the linker puts them. */
static int static_shared(CUfunction f) {
    enum { NOT_SHARED = 2 * 128 };
    const cudasim_module *m = f->module->text;
    const int bytes = (int)(m->dynamic - m->shared);
    return m->end - m->kernels == 1 && bytes >= NOT_SHARED ? bytes / 128 * 128 - 128 : 0;
}

API CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f) {
    ENTER_CONTEXT;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = MAX_THREADS; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_shared(f); break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = 32; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = capability; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = (int)f->most_dynamic; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

API CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value) {
    ENTER_CONTEXT;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value + static_shared(f) > shared_limit())
        return CUDA_ERROR_INVALID_VALUE;
    f->most_dynamic = (unsigned)value;
    return CUDA_SUCCESS;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, CUfunction f, int threads, size_t dynamic) {
    ENTER_CONTEXT;
    if (threads < 1) return CUDA_ERROR_INVALID_VALUE;
    const int bytes = static_shared(f) + (int)dynamic + 1024, by_memory = (shared_limit() + 1024) / bytes,
              by_threads = 2048 / ((threads + WARP - 1) / WARP * WARP);
    const int least = by_memory < by_threads ? by_memory : by_threads;
    *count = threads > MAX_THREADS ? 0 : least < 32 ? least : 32;
    return CUDA_SUCCESS;
}

/* ---- tensors as the TMA reads them (hopper.c reads the fields) */
API CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *at,
                                    const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                                    const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                    CUtensorMapFloatOOBfill fill) {
    (void)promotion;
    const char *flaw = hopper_map_encode(out, (int)type, rank, at, sizes, strides, box, steps, (int)interleave,
                                         (int)swizzle, (int)fill);
    return flaw ? wrong(CUDA_ERROR_INVALID_VALUE, "cuTensorMapEncodeTiled: %s", flaw) : CUDA_SUCCESS;
}

/* ---- launches */
API CUresult cuLaunchKernel(CUfunction f, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                            unsigned threads_y, unsigned threads_z, unsigned shared, CUstream s, void **params,
                            void **extra) {
    ON_STREAM(s);
    if (!f || f->module->on != s->on)
        return wrong(CUDA_ERROR_INVALID_HANDLE, "cuLaunchKernel: a function of device %d on device %d",
                     f ? f->module->on->index : -1, s->on->index);
    const cudasim_kernel *k = f->kernel;
    if (extra || (k->count && !params) || k->count > 256)
        return wrong(CUDA_ERROR_INVALID_VALUE, "cuLaunchKernel: kernel '%s' needs %d parameters", k->name, k->count);
    if (!blocks_x || !blocks_y || !blocks_z || blocks_x > 0x7fffffff || blocks_y > 65535 || blocks_z > 65535)
        return wrong(CUDA_ERROR_INVALID_VALUE, "kernel '%s' launched as (%u, %u, %u) blocks", k->name, blocks_x,
                     blocks_y, blocks_z);
    if (!threads_x || !threads_y || !threads_z || threads_z > 64 ||
        (uint64_t)threads_x * threads_y * threads_z > MAX_THREADS)
        return wrong(CUDA_ERROR_INVALID_VALUE, "kernel '%s' launched with blocks of (%u, %u, %u) threads", k->name,
                     threads_x, threads_y, threads_z);
    if (shared + (unsigned)static_shared(f) > (f->most_dynamic > CUDASIM_STATIC_SHARED
                                                   ? f->most_dynamic + (unsigned)static_shared(f)
                                                   : CUDASIM_STATIC_SHARED))
        return wrong(CUDA_ERROR_INVALID_VALUE, "kernel '%s' launched with %u bytes of dynamic shared memory beside %d",
                     k->name, shared, static_shared(f));
    if (fails(FAIL_LAUNCH)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (fails(FAIL_ROOM)) return CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = 0, taken = 0;
    for (int i = 0; i < k->count; i++) bytes += aligned(k->sizes[i]), taken += k->sizes[i];
    if (taken > 4096)
        return wrong(CUDA_ERROR_INVALID_VALUE,
                     "kernel '%s' has %zu bytes of parameters; before CUDA 12.1 and sm_70 there are 4096", k->name,
                     taken);
    operation *o = operation_new(LAUNCH, bytes);
    unsigned char *next = o->payload;
    for (int i = 0; i < k->count; i++) {
        memcpy(next, params[i], k->sizes[i]);
        next += aligned(k->sizes[i]);
    }
    o->launch.function = f;
    o->launch.blocks = (cudasim_dim){blocks_x, blocks_y, blocks_z};
    o->launch.threads = (cudasim_dim){threads_x, threads_y, threads_z};
    o->launch.shared = shared;
    o->launch.fault = fails(FAIL_FAULT);
    o->name = k->name;
    counters.noted += s->capture != NULL;
    return add(s, o);
}

/* ---- graphs: a stream's operations, kept instead of run */
static void free_operations(operation *o) {
    for (operation *next; o; o = next) {
        next = o->next;
        free(o);
    }
}

static operation *copy_operations(const operation *o) {
    operation *first = NULL, **last = &first;
    for (; o; o = o->next) {
        operation *copy = operation_new(o->kind, o->room);
        memcpy(copy, o, sizeof *o + o->room);
        copy->next = NULL;
        *last = copy;
        last = &copy->next;
    }
    return first;
}

static CUgraph graph_new(void) {
    CUgraph g = calloc(1, sizeof *g);
    g->last = &g->first;
    g->end = &g->children;
    return g;
}

API CUresult cuStreamBeginCapture_v2(CUstream s, CUstreamCaptureMode mode) {
    ON_STREAM(s);
    if (s->capture || s == s->on->legacy || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    s->invalid = false;
    s->capture = graph_new();
    return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
    ON_STREAM(s);
    CUgraph g = s->capture;
    *out = NULL;
    if (!g) return CUDA_ERROR_INVALID_VALUE;
    s->capture = NULL;
    if (!s->invalid) return *out = g, CUDA_SUCCESS;
    free_operations(g->first);
    free(g);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

API CUresult cuGraphCreate(CUgraph *out, unsigned flags) {
    ENTER_CONTEXT;
    return flags ? CUDA_ERROR_INVALID_VALUE : (*out = graph_new(), CUDA_SUCCESS);
}

API CUresult cuGraphDestroy(CUgraph g) {
    ENTER_CONTEXT;
    if (!g) return CUDA_ERROR_INVALID_VALUE;
    free_operations(g->first);
    for (CUgraphNode n = g->children, next; n; n = next) {
        next = n->next;
        free_operations(n->first);
        free(n);
    }
    free(g);
    return CUDA_SUCCESS;
}

static CUgraphNode last_node(CUgraph g) {
    CUgraphNode last = g->children;
    while (last && last->next) last = last->next;
    return last;
}

/* Children in a row, which is all that the library makes. */
API CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, CUgraph child) {
    ENTER_CONTEXT;
    if (!g || !child || child->children || n > 1 || last_node(g) != (n ? *after : NULL))
        return wrong(CUDA_ERROR_INVALID_VALUE, "cuGraphAddChildGraphNode: not in a row");
    CUgraphNode node = calloc(1, sizeof *node);
    node->first = copy_operations(child->first);
    *g->end = node;
    g->end = &node->next;
    *out = node;
    return CUDA_SUCCESS;
}

/* An executable has the operations of its graph, which has to live as long: stricter than CUDA. */
API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
    ENTER_CONTEXT;
    if (fails(FAIL_GRAPH)) return CUDA_ERROR_UNKNOWN;
    if (fails(FAIL_ROOM)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!g || flags) return CUDA_ERROR_INVALID_VALUE;
    *out = calloc(1, sizeof **out);
    (*out)->on = current;
    (*out)->of = g;
    return CUDA_SUCCESS;
}

API CUresult cuGraphExecDestroy(CUgraphExec x) {
    ENTER_CONTEXT;
    free(x);
    return CUDA_SUCCESS;
}

/* The child may have other arguments, not another order of kernels, copies and fills. */
API CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec x, CUgraphNode node, CUgraph child) {
    ENTER_CONTEXT;
    if (!x || !node || !child) return CUDA_ERROR_INVALID_VALUE;
    const operation *a = node->first, *b = child->first;
    while (a && b && a->kind == b->kind) a = a->next, b = b->next;
    if (a || b) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    free_operations(node->first);
    node->first = copy_operations(child->first);
    return CUDA_SUCCESS;
}

API CUresult cuGraphLaunch(CUgraphExec x, CUstream s) {
    ON_STREAM(s);
    TRY(uncaptured(s, "cuGraphLaunch"));
    if (x->on != s->on) return wrong(CUDA_ERROR_INVALID_HANDLE, "cuGraphLaunch: a graph of another device");
    if (fails(FAIL_LAUNCH)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    counters.graphs++;
    CUresult status = CUDA_SUCCESS;
    for (CUgraphNode n = x->of->children; n; n = n->next)
        for (operation *o = copy_operations(n->first), *next; o; o = next) {
            next = o->next;
            counters.graph_launches += o->kind == LAUNCH || o->kind == CALL;
            status = add(s, o);
        }
    return status;
}

/* Work of a library (cublaslt.c): fn(payload), in order of the stream. */
API int cudasim_fails(const char *what) {
    for (int i = 0; i < FAILURES; i++) if (!strcmp(failures[i].what, what)) return fails(i);
    return 0;
}

static CUresult call(CUstream s, const char *name, void (*fn)(void *), const void *payload, size_t bytes,
                     cudasim_bytes moved) {
    ON_STREAM(s);
    if (fails(FAIL_LAUNCH)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (fails(FAIL_PRODUCT)) return CUDA_ERROR_NOT_SUPPORTED;
    operation *o = operation_new(CALL, bytes);
    o->call.fn = fn;
    memcpy(o->payload, payload, bytes);
    o->name = name;
    o->moved = moved;
    counters.noted += s->capture != NULL;
    return add(s, o);
}

API int cudasim_call(void *stream, const char *name, void (*fn)(void *), const void *payload, size_t bytes,
                     cudasim_bytes moved) {
    return (int)call(stream, name, fn, payload, bytes, moved);
}

API void cudasim_worked(long long work, int odd, int uneven) {
    ENTER;
    counters.work += work;
    counters.odd_work += odd ? work : 0;
    counters.uneven += uneven;
}

API int cudasim_allocated(void *stream, const void *at, size_t bytes) {
    ENTER;
    CUstream s = stream_of(stream);
    const char *bad = flaw(s->on, (uintptr_t)at, bytes);
    if (bad) wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "%s", bad);
    return !bad;
}

/* ---- errors */
static const struct { CUresult status; const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM",
     "OS call failed or operation not supported on this OS"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints specific to "
     "instantiated graph update"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

API CUresult cuGetErrorName(CUresult status, const char **name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].status == status) return *name = errors[i].name, CUDA_SUCCESS;
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorString(CUresult status, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].status == status) return *text = errors[i].text, CUDA_SUCCESS;
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
