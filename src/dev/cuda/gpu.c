/* gpu.c - the NVIDIA GPUs of this process: found at the first request, opened at the first use, and
 * their state after a loss. */
#include "gpu.h"
#include "../../core/config.h"

#include <stdio.h>
#include <string.h>

/* the oldest compute capabilities of NVRTC 12 and of NVRTC 13 */
enum { MOST_GPUS = 16, OLDEST = 60, OLDEST_OF_13 = 75 };
static cuda gpus[MOST_GPUS];
static int found;
enum { UNSEARCHED, SEARCHING, SEARCHED };
static atomic_int state;
static char problem[400];                           /* why there is no GPU; written before state is SEARCHED */

/* ---- errors */

/* Errors that a context repeats at every later call: a fault of a kernel, of memory or of a link, or
 * the loss of the context or its server. */
static bool is_fatal(int error) {
    static const int fatal[] = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) if (error == fatal[i]) return true;
    return false;
}

static cr_status fail_lost(const cuda *g, const char *op) {
    return cr_fail(CR_RUNTIME, op, "%s is lost: %s", g->name, g->why);
}

cr_status cr_cuda_check(cuda *g, const char *op, const char *what, int error) {
    if (!error) return CR_OK;
    const char *name = NULL, *text = NULL;
    char reason[120];
    if (cr_cu.GetErrorName(error, &name) || !name) name = "unknown error";
    if (cr_cu.GetErrorString(error, &text) || !text) text = "";
    snprintf(reason, sizeof reason, "%s%s%.80s", name, *text ? ", " : "", text);
    if (is_fatal(error) && !atomic_load(&g->lost)) {
        snprintf(g->why, sizeof g->why, "%s", reason);
        atomic_store(&g->lost, true);
        return fail_lost(g, op);
    }
    return cr_fail(error == CUDA_OUT_OF_MEMORY ? CR_NO_MEMORY : CR_RUNTIME, op, "%s: %s: %s", g->name, what, reason);
}

/* ---- opening */

static cr_status open_device(cuda *g, const char *op) {
    if (!(g->budget = cr_gpu_budget(op, INT64_MAX))) return cr_error_status();
    if (cr_cuda_pool_switch(cr_config("GPU_POOL"), &g->unpooled) != CR_OK) return cr_error_status();
    cuda_context context = NULL;
    cr_status status = cr_cuda_check(g, op, "cannot be opened", cr_cu.DevicePrimaryCtxRetain(&context, g->device));
    if (status == CR_OK) status = cr_cuda_check(g, op, "cannot be opened", cr_cu.CtxSetCurrent(context));
    if (status == CR_OK)
        status = cr_cuda_check(g, op, "no stream", cr_cu.StreamCreate(&g->stream, CUDA_STREAM_NON_BLOCKING));
    if (status == CR_OK)
        status = cr_cuda_check(g, op, "no stream", cr_cu.StreamCreate(&g->copies, CUDA_STREAM_NON_BLOCKING));
    for (int i = 0; i < CUDA_QUEUES; i++) g->queue[i].epoch = 1;
    g->queue[CUDA_KERNELS].stream = g->stream;
    g->queue[CUDA_COPIES].stream = g->copies;
    if (status == CR_OK) g->context = context;
    return status;
}

/* The embedding program may use contexts of its own: cr_cuda_leave restores the context that was current. */
static cr_status make_current(cuda *g, const char *op) {
    g->before = NULL;
    cr_status status = cr_cuda_check(g, op, "no context", cr_cu.CtxGetCurrent(&g->before));
    if (status != CR_OK || (g->context && g->before == g->context)) return status;
    status = g->context ? cr_cuda_check(g, op, "no context", cr_cu.CtxSetCurrent(g->context)) : open_device(g, op);
    if (status != CR_OK) cr_cu.CtxSetCurrent(g->before);
    return status;
}

_Thread_local const cuda *cr_cuda_held;

cuda *cr_cuda_enter(const char *op, const cr_device *d) {
    cuda *g = (cuda *)(uintptr_t)d;                 /* callers see a const device; its state changes */
    if (g->forked) return fail_lost(g, op), NULL;   /* the lock may be held by a thread of the parent process */
    if (cr_cuda_held == g) return g;
    cr_mutex_lock(g->lock);
    cr_status status = atomic_load(&g->lost) ? fail_lost(g, op) : make_current(g, op);
    if (status == CR_OK) return g->entered = true, g;
    cr_mutex_unlock(g->lock);
    return NULL;
}

cr_status cr_cuda_leave(cuda *g, cr_status status) {
    if (cr_cuda_held == g) return status;
    if (g->counters.launches - g->queue[CUDA_KERNELS].launches >= CUDA_EPOCH_LAUNCHES && status == CR_OK)
        status = cr_cuda_end_epoch(g, "launch", CUDA_KERNELS);
    if (g->before && g->before != g->context) cr_cu.CtxSetCurrent(g->before);
    g->entered = false;
    cr_mutex_unlock(g->lock);
    return status;
}

cr_status cr_cuda_wait(cuda *g, const char *op) {
    g->counters.waits++;
    const cr_status status = cr_cuda_check(g, op, "cannot wait", cr_cu.StreamSynchronize(g->copies));
    return status == CR_OK ? cr_cuda_check(g, op, "cannot wait", cr_cu.StreamSynchronize(g->stream)) : status;
}

/* ---- CHAINRULE_GPU_POOL */

cr_status cr_cuda_pool_switch(const char *text, bool *off) {
    *off = text && !strcmp(text, "off");
    return !text || *off || !strcmp(text, "on")
               ? CR_OK
               : cr_fail(CR_BAD_VALUE, "switch_set", "CHAINRULE_GPU_POOL is on or off, not '%.40s'", text);
}

static cr_status check_pool(const char *text) {
    bool off;
    for (int i = 0; i < found; i++)
        if (gpus[i].context)
            return cr_fail(CR_BAD_VALUE, "switch_set", "CHAINRULE_GPU_POOL is set too late: %s is in use",
                           gpus[i].name);
    return cr_cuda_pool_switch(text, &off);
}

__attribute__((constructor)) static void own_switches(void) { cr_switch_owner("GPU_POOL", check_pool, NULL); }

/* ---- search */

/* cuBLASLt and cuSOLVER are large libraries: info looks for them at the first call, not the search for GPUs. */
static const char *info_of(const cr_device *d) {
    cuda *g = (cuda *)(uintptr_t)d;
    if (g->forked) return g->info;
    const bool products = cr_lt_ready(), factors = cr_solver_ready();
    cr_mutex_lock(g->lock);
    const size_t n = strlen(g->info);
    char of_products[300], of_factors[300];
    snprintf(of_products, sizeof of_products, products ? "cuBLASLt" : "products of its own (%s)", cr_lt_problem());
    snprintf(of_factors, sizeof of_factors, factors ? "cuSOLVER" : "large factors on the host (%s)",
             cr_solver_problem());
    if (!g->info_complete) snprintf(g->info + n, sizeof g->info - n, ", %s, %s", of_products, of_factors);
    g->info_complete = true;
    cr_mutex_unlock(g->lock);
    return g->info;
}
static cr_memory memory_of(const cr_device *d) {
    const cuda *g = (const cuda *)(const void *)d;
    if (!g->forked) cr_mutex_lock(g->lock);
    cr_memory m = {.current = g->now, .peak = g->peak, .cached = g->reserved - g->now};
    if (!g->forked) cr_mutex_unlock(g->lock);
    return m;
}

static void reset_peak(const cr_device *d) {
    cuda *g = (cuda *)(uintptr_t)d;
    if (g->forked) return;
    cr_mutex_lock(g->lock);
    g->peak = g->now;
    cr_mutex_unlock(g->lock);
}

static bool add_gpu(int i) {
    cuda *g = &gpus[found];
    char model[128] = "";
    size_t bytes = 0;
    int version = 0, major = 0, minor = 0;
    if (cr_cu.DeviceGet(&g->device, i) || cr_cu.DeviceGetName(model, sizeof model, g->device) ||
        cr_cu.DeviceTotalMem(&bytes, g->device) || cr_cu.DriverGetVersion(&version) ||
        cr_cu.DeviceGetAttribute(&major, CUDA_ATTRIBUTE_MAJOR, g->device) ||
        cr_cu.DeviceGetAttribute(&minor, CUDA_ATTRIBUTE_MINOR, g->device) ||
        cr_cu.DeviceGetAttribute(&g->multiprocessors, CUDA_ATTRIBUTE_MULTIPROCESSORS, g->device))
        return snprintf(problem, sizeof problem, "device %d does not answer", i), false;
    if (10 * major + minor < OLDEST)
        return snprintf(problem, sizeof problem, "%.80s has compute capability %d.%d, %d.%d is needed", model, major,
                        minor, OLDEST / 10, OLDEST % 10),
               false;
    if (!cr_nvrtc_ready())
        return snprintf(problem, sizeof problem, "%.80s cannot be used: %s", model, cr_nvrtc_problem()), false;
    if (10 * major + minor < OLDEST_OF_13 && cr_nvrtc.major > 12)
        return snprintf(problem, sizeof problem,
                        "%.80s has compute capability %d.%d: it needs the NVRTC of CUDA 12 (pip install "
                        "nvidia-cuda-nvrtc-cu12), this one is of %d.%d",
                        model, major, minor, cr_nvrtc.major, cr_nvrtc.minor),
               false;
    if (!(g->lock = cr_mutex_new())) return snprintf(problem, sizeof problem, "out of memory"), false;
    g->major = major, g->minor = minor;
    snprintf(g->name, sizeof g->name, "cuda:%d", found);
    snprintf(g->info, sizeof g->info, "%s, compute capability %d.%d, %.1f GiB, driver for CUDA %d.%d, NVRTC %d.%d",
             model, major, minor, (double)bytes / (1 << 30), version / 1000, version % 1000 / 10, cr_nvrtc.major,
             cr_nvrtc.minor);
    g->dev = (cr_device){.name = g->name,
                         .type = "cuda",
                         .index = found,
                         .kernels = &cr_cuda_kernels,
                         .allocate = cr_cuda_allocate,
                         .allocate_host = cr_cuda_allocate_host,
                         .upload = cr_cuda_upload,
                         .download = cr_cuda_download,
                         .synchronize = cr_cuda_synchronize,
                         .info = info_of,
                         .memory = memory_of,
                         .reset_peak = reset_peak,
                         .empty_cache = cr_cuda_empty_cache,
                         .trace_end = cr_cuda_trace_end,
                         .linking = &cr_cuda_linking,
                         .graphing = &cr_cuda_graphing,
                         .factors = cr_cuda_factors,
                         .row_bytes = 16};
    found++;
    return true;
}

/* A child process has the handles but not the driver's state, and cannot restart the driver: all GPUs
 * are lost in it. */
static void forget_in_child(void) {
    for (int i = 0; i < found; i++) {
        snprintf(gpus[i].why, sizeof gpus[i].why, "this process was forked after the NVIDIA driver was started");
        gpus[i].forked = true;
        atomic_store(&gpus[i].lost, true);
    }
}

static void search(void) {
    int n = 0;
    if (cr_cu.DeviceGetCount(&n) || !n) snprintf(problem, sizeof problem, "the NVIDIA driver sees no device");
    for (int i = 0; i < n && found < MOST_GPUS; i++) add_gpu(i);
    cr_os_at_fork_child(forget_in_child);
}

const cr_device *cr_cuda_at(int i) {
    int expected = UNSEARCHED;
    if (i < 0 || !cr_cuda_ready()) return NULL;
    if (atomic_compare_exchange_strong(&state, &expected, SEARCHING)) {
        search();
        atomic_store(&state, SEARCHED);
    }
    while (atomic_load(&state) == SEARCHING) cr_os_sleep(1e-4);           /* another thread searches */
    return i < found ? &gpus[i].dev : NULL;
}

const char *cr_cuda_problem(void) { return cr_cuda_ready() ? problem : cr_cuda_api_problem(); }
