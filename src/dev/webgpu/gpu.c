/* gpu.c - the GPUs of this process: found when one is requested, opened when one is used, and
 * errors after one is lost. */
#include "wgsl.h"

#include <stdio.h>
#include <string.h>

enum { MOST_GPUS = 8 };
static WGPUInstance instance;                       /* never released: drivers crash */
static gpu gpus[MOST_GPUS];
static int found;
enum { UNSEARCHED, SEARCHING, SEARCHED };
static atomic_int seen;

static WGPUStringView view_of(const char *s) { return (WGPUStringView){s, WGPU_STRLEN}; }
static int length_of(WGPUStringView v) {
    return !v.data ? 0 : v.length == WGPU_STRLEN ? (int)strlen(v.data) : (int)v.length;
}

/* ---- errors */

/* Copies a message with each run of white space as one space. */
static void copy_message(char *to, size_t room, WGPUStringView message) {
    size_t n = 0;
    for (int i = 0; i < length_of(message) && n + 1 < room; i++) {
        const char c = message.data[i];
        if (c == '\n' || c == '\t' || c == ' ') {
            if (n && to[n - 1] != ' ') to[n++] = ' ';
        } else {
            to[n++] = c;
        }
    }
    to[n] = 0;
}

static void on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason, WGPUStringView message, void *p,
                    void *life) {
    gpu *g = p;
    (void)device; (void)reason;
    if ((uintptr_t)life != (uintptr_t)atomic_load(&g->life)) return;     /* of a device that was given up */
    copy_message(g->reason, sizeof g->reason, message);
    atomic_store(&g->lost, true);
}

static void on_uncaught_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message, void *p,
                              void *unused) {
    gpu *g = p;
    (void)device; (void)type; (void)unused;
    if (!*g->uncaught) copy_message(g->uncaught, sizeof g->uncaught, message);
}

void *cr_gpu_ask(gpu *g) {
    atomic_store(&g->answer.done, false);
    return (void *)++g->answer.request;
}

void cr_gpu_answer(gpu *g, const void *request, int code, WGPUStringView message) {
    gpu_answer *a = &g->answer;
    if ((uintptr_t)request != a->request) return;
    a->code = code;
    copy_message(a->message, sizeof a->message, message);
    atomic_store(&a->done, true);
}

bool cr_gpu_await(gpu *g) {
    while (!atomic_load(&g->answer.done) && !atomic_load(&g->lost)) (void)(cr_wg.DevicePoll(g->device, 1, NULL) & 0xff);
    return atomic_load(&g->answer.done);
}

static void on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void *p,
                     void *request) {
    cr_gpu_answer(p, request, (int)(status == WGPUPopErrorScopeStatus_Success ? type : WGPUErrorType_Unknown), message);
}

cr_status cr_gpu_fail_lost(const gpu *g, const char *op) {
    return cr_fail(CR_RUNTIME, op, "%s is lost: %s", g->name, g->reason);
}

bool cr_gpu_outlived(const gpu *g, const char *op, const gpu_buffer *b) {
    if (b->life == g->life) return false;
    cr_fail(CR_RUNTIME, op, "%s was lost and reopened: tensors from before have no data (%s)", g->name,
            g->last_reason);
    return true;
}

/* In a browser a pop is a round trip, so all calls between two waits are one group there, and the wait reports their
 * errors (web/gpu.c).  An object that an error left invalid does no harm until then. */
static bool scopes_are_deferred(void) { return !cr_wg.DevicePushErrorScope; }

void cr_gpu_scope_begin(gpu *g) {
    if (scopes_are_deferred()) return;
    cr_wg.DevicePushErrorScope(g->device, WGPUErrorFilter_OutOfMemory);
    cr_wg.DevicePushErrorScope(g->device, WGPUErrorFilter_Validation);
}

cr_status cr_gpu_scope_end(gpu *g, const char *op, const char *what) {
    cr_status status = CR_OK;
    for (int i = 0; i < 2 && !scopes_are_deferred(); i++) {
        const gpu_answer *r = &g->answer;
        cr_wg.DevicePopErrorScope(g->device, (WGPUPopErrorScopeCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous,
                                                                             .callback = on_scope,
                                                                             .userdata1 = g,
                                                                             .userdata2 = cr_gpu_ask(g)});
        const bool answered = cr_gpu_await(g);
        if (status != CR_OK || (answered && r->code == WGPUErrorType_NoError)) continue;
        status = answered && r->code == WGPUErrorType_OutOfMemory ? CR_NO_MEMORY : CR_RUNTIME;
        if (!answered || strstr(r->message, "device is lost")) {         /* on_lost may not have run yet */
            if (!*g->reason) snprintf(g->reason, sizeof g->reason, "%.*s", (int)sizeof g->reason - 1, r->message);
            atomic_store(&g->lost, true);
            cr_gpu_fail_lost(g, op);
        } else {
            cr_fail(status, op, "%s: %s: %s", g->name, what, r->message);
        }
    }
    return status;
}

cr_status cr_gpu_cannot(const char *op, const cr_device *d, const char *what) {
    return cr_fail(CR_RUNTIME, op, "%s cannot do this yet%s%s: move the tensor to the cpu", d->name, *what ? ", " : "",
                   what);
}

bool cr_gpu_lacks(const char *op, const cr_array *t) {
    if (t->dtype != CR_F64) return false;
    cr_fail(CR_BAD_TYPE, op,
            "%s cannot compute in float64, it only stores it: use float32, or move the tensor to the cpu",
            t->dev->name);
    return true;
}

/* ---- opening */

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void *p,
                      void *unused) {
    gpu *g = p;
    (void)unused;
    if (status == WGPURequestDeviceStatus_Success) g->device = device;
    else copy_message(g->reason, sizeof g->reason, message);
}

/* Limits that the kernels of this folder need: the defaults of WebGPU, but some adapters (of
 * OpenGL) have less. */
static cr_status check_limits(const gpu *g, const char *op) {
    const WGPULimits *l = &g->limits;
    const struct { const char *name; uint32_t has, needed;
    } all[] = {{"maxComputeInvocationsPerWorkgroup", l->maxComputeInvocationsPerWorkgroup, GPU_GROUP},
               {"maxComputeWorkgroupSizeX", l->maxComputeWorkgroupSizeX, GPU_GROUP},
               {"maxComputeWorkgroupStorageSize", l->maxComputeWorkgroupStorageSize, 16384},
               {"maxStorageBuffersPerShaderStage", l->maxStorageBuffersPerShaderStage, GPU_LEAST_BUFFERS}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has < all[i].needed)
            return cr_fail(CR_RUNTIME, op, "%s cannot be opened: its %s is %u, %u are needed", g->name, all[i].name,
                           all[i].has, all[i].needed);
    return CR_OK;
}

static cr_status open_device(gpu *g, const char *op) {
    /* a software GPU shares the memory of the processor */
    g->budget = cr_gpu_budget(op, g->dev.software ? (int64_t)4 << 30 : INT64_MAX);
    cr_wg.AdapterGetLimits(g->adapter, &g->limits);
    g->limits.nextInChain = NULL;
    if (!g->budget || check_limits(g, op) != CR_OK) return cr_error_status();
    g->window = (size_t)(g->limits.maxStorageBufferBindingSize < INT32_MAX ? g->limits.maxStorageBufferBindingSize
                                                                           : INT32_MAX) &
                ~(size_t)255;
    const WGPUFeatureName subgroups = (WGPUFeatureName)WGPUNativeFeature_Subgroup;
    const bool has = cr_wg.AdapterHasFeature(g->adapter, subgroups);
    WGPUFeatureName features[2];
    size_t n = 0;
    if (has) features[n++] = subgroups;
    g->timeline.able = cr_wg.AdapterHasFeature(g->adapter, WGPUFeatureName_TimestampQuery);
    if (g->timeline.able) features[n++] = WGPUFeatureName_TimestampQuery;
    const WGPUDeviceDescriptor wanted = {
        .label = view_of("chainrule"),
        .requiredLimits = &g->limits,
        .requiredFeatures = features,
        .requiredFeatureCount = n,
        .deviceLostCallbackInfo = {.mode = WGPUCallbackMode_AllowSpontaneous,
                                   .callback = on_lost,
                                   .userdata1 = g,
                                   .userdata2 = (void *)(uintptr_t)atomic_load(&g->life)},
        .uncapturedErrorCallbackInfo = {.callback = on_uncaught_error, .userdata1 = g},
    };
    cr_wg.AdapterRequestDevice(g->adapter, &wanted,
                               (WGPURequestDeviceCallbackInfo){
                                   .mode = WGPUCallbackMode_AllowSpontaneous, .callback = on_device, .userdata1 = g});
    if (!g->device) return cr_fail(CR_RUNTIME, op, "%s cannot be opened: %s", g->name, g->reason);
    g->queue = cr_wg.DeviceGetQueue(g->device);
    g->most_work = 0x1p30;                          /* 10 ms of a GPU with 200 GFLOP/s */
    cr_gpu_start_early(g);
    return has ? cr_gpu_measure_subgroups(g, op) : CR_OK;
}

void cr_gpu_revive(const cr_device *d) {
    gpu *g = (gpu *)(uintptr_t)d;
    if (!atomic_load(&g->lost)) return;
    cr_mutex_lock(g->lock);
    if (g->device && !g->forked) {
        cr_gpu_timeline_forget(g);
        cr_gpu_batch_forget(g);
        cr_gpu_memory_forget(g);
        cr_gpu_pipelines_forget(g);
        cr_wg.QueueRelease(g->queue);
        cr_wg.DeviceRelease(g->device);
        g->device = NULL;
        g->queue = NULL;
        atomic_fetch_add(&g->life, 1);
        g->subgroups = 0;
        g->halves = GPU_HALVES_UNKNOWN;
        memcpy(g->last_reason, g->reason, sizeof g->reason);
        *g->reason = *g->uncaught = 0;
        atomic_store(&g->lost, false);
    }
    cr_mutex_unlock(g->lock);
}

gpu *cr_gpu_enter(const char *op, const cr_device *d) {
    gpu *g = (gpu *)(uintptr_t)d;                   /* devices are const in other layers; their state is not */
    cr_mutex_lock(g->lock);
    cr_status status = atomic_load(&g->lost) ? cr_gpu_fail_lost(g, op) : g->device ? CR_OK : open_device(g, op);
    if (status == CR_OK) return g;
    cr_mutex_unlock(g->lock);
    return NULL;
}

cr_status cr_gpu_leave(gpu *g, cr_status status) {
    if (status == CR_OK && *g->uncaught) status = cr_fail(CR_RUNTIME, g->name, "%s", g->uncaught);
    *g->uncaught = 0;
    cr_mutex_unlock(g->lock);
    return status;
}

cr_status cr_gpu_wait(gpu *g, const char *op) {
    cr_status status = cr_gpu_submit(g, op);
    cr_gpu_start_early(g);
    /* the other bytes of the result are undefined */
    if (status == CR_OK) (void)(cr_wg.DevicePoll(g->device, 1, NULL) & 0xff);
    return atomic_load(&g->lost) ? cr_gpu_fail_lost(g, op) : status;
}

/* ---- finding GPUs */

static const char *kind_of(WGPUAdapterType t) {
    return t == WGPUAdapterType_DiscreteGPU     ? "discrete"
           : t == WGPUAdapterType_IntegratedGPU ? "integrated"
           : t == WGPUAdapterType_CPU           ? "software"
           : t == WGPUAdapterType_Unknown       ? "hardware"
                                                : "virtual";
}
static const char *api_of(WGPUBackendType t) {
    return t == WGPUBackendType_Vulkan   ? "Vulkan"
           : t == WGPUBackendType_Metal  ? "Metal"
           : t == WGPUBackendType_WebGPU ? "the browser's WebGPU"
                                         : "Direct3D 12";
}

/* The order of GPUs: fast ones first. */
static int rank_of(WGPUAdapterType t) {
    return t == WGPUAdapterType_DiscreteGPU     ? 0
           : t == WGPUAdapterType_IntegratedGPU ? 1
           : t == WGPUAdapterType_CPU           ? 3
                                                : 2;
}

static const char *info_of(const cr_device *d) { return ((const gpu *)(const void *)d)->info; }
static cr_memory memory_of(const cr_device *d) {
    const gpu *g = (const gpu *)(const void *)d;
    cr_mutex_lock(g->lock);
    cr_memory m = {.current = g->now, .peak = g->peak, .cached = g->cached};
    cr_mutex_unlock(g->lock);
    return m;
}

static void reset_peak(const cr_device *d) {
    gpu *g = (gpu *)(uintptr_t)d;
    cr_mutex_lock(g->lock);
    g->peak = g->now;
    cr_mutex_unlock(g->lock);
}

static void add_gpu(WGPUAdapter adapter, const WGPUAdapterInfo *info) {
    gpu *g = &gpus[found];
    const unsigned v = cr_wg.GetVersion();          /* 0: in a browser */
    char engine[40] = "";
    if (!(g->lock = cr_mutex_new())) return;
    g->adapter = adapter;
    g->batch = 1;
    snprintf(g->name, sizeof g->name, "webgpu:%d", found);
    if (v) snprintf(engine, sizeof engine, ", wgpu-native %u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255);
    snprintf(g->info, sizeof g->info, "%.*s (%s), %s%s", length_of(info->device),
             info->device.data ? info->device.data : "", kind_of(info->adapterType), api_of(info->backendType), engine);
    g->dev = (cr_device){.name = g->name,
                         .type = "webgpu",
                         .index = found,
                         .kernels = &cr_gpu_kernels,
                         .allocate = cr_gpu_allocate,
                         .upload = cr_gpu_upload,
                         .download = cr_gpu_download,
                         .synchronize = cr_gpu_synchronize,
                         .info = info_of,
                         .memory = memory_of,
                         .reset_peak = reset_peak,
                         .empty_cache = cr_gpu_empty_cache,
                         .trace_end = cr_gpu_trace_end,
                         .software = info->adapterType == WGPUAdapterType_CPU};
    found++;
}

/* A forked child has the handles but not the threads of the driver, so it must not use them. */
static void abandon_in_child(void) {
    for (int i = 0; i < found; i++) {
        if (!gpus[i].device) continue;
        snprintf(gpus[i].reason, sizeof gpus[i].reason, "this process was forked after the GPU was opened");
        gpus[i].forked = true;
        atomic_store(&gpus[i].lost, true);
    }
}

static void find_gpus(void) {
    enum { ROOM = 32 };
    WGPUAdapter adapters[ROOM];
    WGPUInstanceExtras extras = {.chain = {.sType = (WGPUSType)WGPUSType_InstanceExtras},
                                 .backends = WGPUInstanceBackend_Primary};
    WGPUInstanceEnumerateAdapterOptions all = {.backends = WGPUInstanceBackend_Primary};
    instance = cr_wg.CreateInstance(&(WGPUInstanceDescriptor){.nextInChain = &extras.chain});
    const size_t n = instance ? cr_wg.InstanceEnumerateAdapters(instance, &all, NULL) : 0;
    if (!n || n > ROOM) return;
    cr_wg.InstanceEnumerateAdapters(instance, &all, adapters);
    for (int rank = 0; rank < 4; rank++)
        for (size_t i = 0; i < n; i++) {
            WGPUAdapterInfo info = {0};
            cr_wg.AdapterGetInfo(adapters[i], &info);
            if (rank_of(info.adapterType) == rank && found < MOST_GPUS) add_gpu(adapters[i], &info);
            cr_wg.AdapterInfoFreeMembers(info);
        }
    cr_os_at_fork_child(abandon_in_child);
}

const cr_device *cr_webgpu_at(int i) {
    int expected = UNSEARCHED;
    if (i < 0 || !cr_wgpu_ready()) return NULL;
    if (atomic_compare_exchange_strong(&seen, &expected, SEARCHING)) {
        find_gpus();
        atomic_store(&seen, SEARCHED);
    }
    while (atomic_load(&seen) == SEARCHING) cr_os_sleep(1e-4);           /* another thread searches */
    return i < found ? &gpus[i].dev : NULL;
}

const char *cr_webgpu_problem(void) {
    return cr_wgpu_ready() ? "no adapter: is there a Vulkan driver?" : cr_wgpu_problem();
}
