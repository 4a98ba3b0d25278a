/* gpu.c - the table of WebGPU functions in a browser: calls of gpu.js, which holds the objects by number.
 *
 * The package asks for the adapter and the device before C sees them, so a call never waits for those.  The one import
 * that suspends the caller is gpu_wait (DevicePoll): for a map, with the errors of all calls since the wait before, or
 * for an empty queue.  There are no error scopes here: DevicePushErrorScope is NULL (gpu.c). */
#include "../src/dev/webgpu/api.h"

#include <emscripten.h>
#include <stdlib.h>
#include <string.h>

#define ID(handle) ((int)(uintptr_t)(handle))
#define HANDLE(type, id) ((type)(uintptr_t)(id))

wgpu_api cr_wg;

static struct {                                     /* of the device */
    WGPUDeviceLostCallbackInfo lost;
    WGPUBufferMapCallbackInfo map;                  /* the map that nobody has waited for; callback NULL: none */
    void *mapped;                                   /* what C reads of the mapped buffer */
} web;

static WGPUStringView view_of(const char *text) { return (WGPUStringView){text, WGPU_STRLEN}; }

/* ---- the adapter and the device */
enum { LIMITS = 7, WORD_BYTES = 200 };
EM_JS(int, gpu_found, (void), { return Module["gpu"] ? 1 : 0; })
EM_JS(int, gpu_adapter, (char *name, int room), { return Module["gpu"].adapter(name, room); })
EM_JS(void, gpu_limits, (double *out), { HEAPF64.set(Module["gpu"].limits(), out >> 3); })
EM_JS(int, gpu_subgroups, (void), { return Module["gpu"].subgroups; })
EM_JS(int, gpu_alive, (void), { return Module["gpu"].alive ? 1 : 0; })

static WGPUInstance create_instance(const WGPUInstanceDescriptor *d) { return (void)d, HANDLE(WGPUInstance, 1); }

static size_t enumerate(WGPUInstance i, const WGPUInstanceEnumerateAdapterOptions *o, WGPUAdapter *out) {
    (void)i, (void)o;
    if (out) *out = HANDLE(WGPUAdapter, 1);
    return 1;
}

static WGPUStatus get_info(WGPUAdapter a, WGPUAdapterInfo *info) {
    char *name = calloc(1, WORD_BYTES);
    (void)a;
    const bool software = name && gpu_adapter(name, WORD_BYTES);
    info->device = view_of(name);
    info->adapterType = software ? WGPUAdapterType_CPU : WGPUAdapterType_Unknown;
    info->backendType = WGPUBackendType_WebGPU;
    return WGPUStatus_Success;
}

static void free_info(WGPUAdapterInfo info) { free((void *)(uintptr_t)info.device.data); }

static WGPUStatus get_limits(WGPUAdapter a, WGPULimits *l) {
    double v[LIMITS];
    (void)a;
    gpu_limits(v);
    *l = (WGPULimits){.maxComputeInvocationsPerWorkgroup = (uint32_t)v[0],
                      .maxComputeWorkgroupSizeX = (uint32_t)v[1],
                      .maxComputeWorkgroupStorageSize = (uint32_t)v[2],
                      .maxStorageBuffersPerShaderStage = (uint32_t)v[3],
                      .maxComputeWorkgroupsPerDimension = (uint32_t)v[4],
                      .maxStorageBufferBindingSize = (uint64_t)v[5],
                      .maxBufferSize = (uint64_t)v[6]};
    return WGPUStatus_Success;
}

static WGPUBool has_feature(WGPUAdapter a, WGPUFeatureName f) {
    return (void)a, f == (WGPUFeatureName)WGPUNativeFeature_Subgroup && gpu_subgroups();
}
int cr_web_subgroups(void) { return gpu_subgroups(); }

static WGPUFuture request_device(WGPUAdapter a, const WGPUDeviceDescriptor *d, WGPURequestDeviceCallbackInfo then) {
    (void)a;
    web.lost = d->deviceLostCallbackInfo;
    const bool alive = gpu_alive();
    then.callback(alive ? WGPURequestDeviceStatus_Success : WGPURequestDeviceStatus_Error,
                  alive ? HANDLE(WGPUDevice, 1) : NULL, view_of("it was lost; await gpu() asks for it again"),
                  then.userdata1, then.userdata2);
    return (WGPUFuture){0};
}

EMSCRIPTEN_KEEPALIVE void web_gpu_lost(const char *message) {
    const WGPUDevice device = HANDLE(WGPUDevice, 1);
    if (web.lost.callback)
        web.lost.callback(&device, WGPUDeviceLostReason_Unknown, view_of(message), web.lost.userdata1,
                          web.lost.userdata2);
}

static WGPUQueue get_queue(WGPUDevice d) { return (void)d, HANDLE(WGPUQueue, 1); }
static uint32_t  version(void) { return 0; }

/* ---- waiting */
EM_JS(int, gpu_may_wait, (void), { return Module["gpu"].mayWait ? 1 : 0; })
EM_JS(int, gpu_wait, (void), { return Module["gpu"].wait(); })
EM_JS(void, gpu_message, (char *out, int room), { Module["gpu"].message(out, room); })
EM_JS(void, gpu_map, (int buffer, double bytes), { Module["gpu"].map(buffer, bytes); })
EM_JS(void, gpu_mapped, (int buffer, char *to, double bytes), { Module["gpu"].mapped(buffer, to, bytes); })
EM_JS(void, gpu_unmap, (int buffer), { Module["gpu"].at[buffer].unmap(); })

static WGPUBool poll(WGPUDevice d, WGPUBool wait, const WGPUSubmissionIndex *i) {
    char message[WORD_BYTES] = "this call cannot wait for the GPU: the tensor is read by `await cpu()`";
    (void)d, (void)wait, (void)i;
    const bool good = gpu_may_wait() && gpu_wait();
    if (!good && gpu_may_wait()) gpu_message(message, sizeof message);
    const WGPUBufferMapCallbackInfo map = web.map;
    web.map.callback = NULL;
    if (map.callback)
        map.callback(good ? WGPUMapAsyncStatus_Success : WGPUMapAsyncStatus_Error, view_of(message), map.userdata1,
                     map.userdata2);
    return 1;
}

static WGPUFuture map_buffer(WGPUBuffer b, WGPUMapMode mode, size_t at, size_t bytes, WGPUBufferMapCallbackInfo then) {
    (void)mode, (void)at;
    web.map = then;
    if (gpu_may_wait()) gpu_map(ID(b), (double)bytes);
    return (WGPUFuture){0};
}

static const void *mapped_range(WGPUBuffer b, size_t at, size_t bytes) {
    (void)at;
    web.mapped = malloc(bytes);
    if (web.mapped) gpu_mapped(ID(b), web.mapped, (double)bytes);
    return web.mapped;
}

static void unmap(WGPUBuffer b) {
    free(web.mapped);
    web.mapped = NULL;
    gpu_unmap(ID(b));
}

/* ---- objects */
EM_JS(int, gpu_buffer_new, (double bytes, int usage), { return Module["gpu"].buffer(bytes, usage); })
EM_JS(int, gpu_module, (const char *text), { return Module["gpu"].module(UTF8ToString(text)); })
EM_JS(int, gpu_layout, (int n, const int *types), {
    return Module["gpu"].layout(HEAP32.subarray(types >> 2, (types >> 2) + n));
})
EM_JS(int, gpu_pipeline_layout, (int layout), { return Module["gpu"].pipelineLayout(layout); })
EM_JS(int, gpu_pipeline_new, (int layout, int module), { return Module["gpu"].pipeline(layout, module); })
EM_JS(int, gpu_group, (int layout, int n, const double *entries), {
    return Module["gpu"].group(layout, HEAPF64.subarray(entries >> 3, (entries >> 3) + 3 * n));
})
EM_JS(int, gpu_encoder, (void), { return Module["gpu"].encoder(); })
EM_JS(int, gpu_pass, (int encoder), { return Module["gpu"].pass(encoder); })
EM_JS(int, gpu_finish, (int encoder), { return Module["gpu"].finish(encoder); })
EM_JS(void, gpu_copy, (int encoder, int from, double from_at, int to, double to_at, double bytes), {
    Module["gpu"].at[encoder].copyBufferToBuffer(Module["gpu"].at[from], from_at, Module["gpu"].at[to], to_at, bytes);
})
EM_JS(void, gpu_set_pipeline, (int pass, int pipeline), {
    Module["gpu"].at[pass].setPipeline(Module["gpu"].at[pipeline]);
})
EM_JS(void, gpu_set_group, (int pass, int group, int offset), {
    Module["gpu"].at[pass].setBindGroup(0, Module["gpu"].at[group], [offset >>> 0]);
})
EM_JS(void, gpu_dispatch, (int pass, int x, int y), { Module["gpu"].at[pass].dispatchWorkgroups(x, y); })
EM_JS(void, gpu_end, (int pass), { Module["gpu"].at[pass].end(); })
EM_JS(void, gpu_write, (int buffer, double at, const char *from, double bytes), {
    Module["gpu"].write(buffer, at, from, bytes);
})
EM_JS(void, gpu_submit, (int commands), { Module["gpu"].submit(commands); })
EM_JS(void, gpu_release, (int id), { Module["gpu"].release(id); })

static WGPUBuffer create_buffer(WGPUDevice d, const WGPUBufferDescriptor *o) {
    return (void)d, HANDLE(WGPUBuffer, gpu_buffer_new((double)o->size, (int)o->usage));
}

static WGPUShaderModule create_module(WGPUDevice d, const WGPUShaderModuleDescriptor *o) {
    const WGPUShaderSourceWGSL *source = (const WGPUShaderSourceWGSL *)(const void *)o->nextInChain;
    return (void)d, HANDLE(WGPUShaderModule, gpu_module(source->code.data));
}

static WGPUBindGroupLayout create_layout(WGPUDevice d, const WGPUBindGroupLayoutDescriptor *o) {
    int types[32];
    (void)d;
    for (size_t i = 0; i < o->entryCount; i++) types[i] = (int)o->entries[i].buffer.type;
    return HANDLE(WGPUBindGroupLayout, gpu_layout((int)o->entryCount, types));
}

static WGPUPipelineLayout create_pipeline_layout(WGPUDevice d, const WGPUPipelineLayoutDescriptor *o) {
    return (void)d, HANDLE(WGPUPipelineLayout, gpu_pipeline_layout(ID(o->bindGroupLayouts[0])));
}

static WGPUComputePipeline create_pipeline(WGPUDevice d, const WGPUComputePipelineDescriptor *o) {
    return (void)d, HANDLE(WGPUComputePipeline, gpu_pipeline_new(ID(o->layout), ID(o->compute.module)));
}

static WGPUBindGroup create_group(WGPUDevice d, const WGPUBindGroupDescriptor *o) {
    double entries[3 * 40];
    (void)d;
    for (size_t i = 0; i < o->entryCount; i++) {
        entries[3 * i] = ID(o->entries[i].buffer);
        entries[3 * i + 1] = (double)o->entries[i].offset;
        entries[3 * i + 2] = (double)o->entries[i].size;
    }
    return HANDLE(WGPUBindGroup, gpu_group(ID(o->layout), (int)o->entryCount, entries));
}

static WGPUCommandEncoder create_encoder(WGPUDevice d, const WGPUCommandEncoderDescriptor *o) {
    return (void)d, (void)o, HANDLE(WGPUCommandEncoder, gpu_encoder());
}

static WGPUComputePassEncoder begin_pass(WGPUCommandEncoder e, const WGPUComputePassDescriptor *o) {
    return (void)o, HANDLE(WGPUComputePassEncoder, gpu_pass(ID(e)));
}

static WGPUCommandBuffer finish(WGPUCommandEncoder e, const WGPUCommandBufferDescriptor *o) {
    return (void)o, HANDLE(WGPUCommandBuffer, gpu_finish(ID(e)));
}

static void copy(WGPUCommandEncoder e, WGPUBuffer from, uint64_t from_at, WGPUBuffer to, uint64_t to_at,
                 uint64_t bytes) {
    gpu_copy(ID(e), ID(from), (double)from_at, ID(to), (double)to_at, (double)bytes);
}

static void set_pipeline(WGPUComputePassEncoder p, WGPUComputePipeline l) { gpu_set_pipeline(ID(p), ID(l)); }
static void set_group(WGPUComputePassEncoder p, uint32_t i, WGPUBindGroup g, size_t n, const uint32_t *offset) {
    (void)i, (void)n;
    gpu_set_group(ID(p), ID(g), (int)*offset);
}
static void dispatch(WGPUComputePassEncoder p, uint32_t x, uint32_t y, uint32_t z) {
    (void)z;
    gpu_dispatch(ID(p), (int)x, (int)y);
}
static void end_pass(WGPUComputePassEncoder p) { gpu_end(ID(p)); }

static void write_buffer(WGPUQueue q, WGPUBuffer b, uint64_t at, const void *from, size_t bytes) {
    (void)q;
    gpu_write(ID(b), (double)at, from, (double)bytes);
}
static void submit(WGPUQueue q, size_t n, const WGPUCommandBuffer *c) {
    (void)q, (void)n;
    gpu_submit(ID(*c));
}

/* ---- releases: the collector of JavaScript frees what nothing refers to */
#define RELEASE(type) static void release_##type(WGPU##type x) { gpu_release(ID(x)); }
RELEASE(Buffer) RELEASE(ShaderModule) RELEASE(BindGroupLayout) RELEASE(PipelineLayout) RELEASE(ComputePipeline)
RELEASE(BindGroup) RELEASE(CommandEncoder) RELEASE(CommandBuffer) RELEASE(ComputePassEncoder)
static void release_queue(WGPUQueue q) { (void)q; }
static void release_device(WGPUDevice d) { (void)d; }

bool cr_wgpu_ready(void) {
    cr_wg = (wgpu_api){
        .CreateInstance = create_instance, .InstanceEnumerateAdapters = enumerate, .GetVersion = version,
        .AdapterGetInfo = get_info, .AdapterInfoFreeMembers = free_info, .AdapterGetLimits = get_limits,
        .AdapterHasFeature = has_feature, .AdapterRequestDevice = request_device,
        .DeviceGetQueue = get_queue, .DevicePoll = poll, .DeviceCreateBuffer = create_buffer,
        .DeviceCreateShaderModule = create_module, .DeviceCreateBindGroupLayout = create_layout,
        .DeviceCreatePipelineLayout = create_pipeline_layout, .DeviceCreateComputePipeline = create_pipeline,
        .DeviceCreateBindGroup = create_group, .DeviceCreateCommandEncoder = create_encoder,
        .BufferMapAsync = map_buffer, .BufferGetConstMappedRange = mapped_range, .BufferUnmap = unmap,
        .CommandEncoderBeginComputePass = begin_pass, .CommandEncoderCopyBufferToBuffer = copy,
        .CommandEncoderFinish = finish, .ComputePassEncoderSetPipeline = set_pipeline,
        .ComputePassEncoderSetBindGroup = set_group, .ComputePassEncoderDispatchWorkgroups = dispatch,
        .ComputePassEncoderEnd = end_pass, .QueueWriteBuffer = write_buffer, .QueueSubmit = submit,
        .BufferRelease = release_Buffer, .ShaderModuleRelease = release_ShaderModule,
        .BindGroupLayoutRelease = release_BindGroupLayout, .PipelineLayoutRelease = release_PipelineLayout,
        .ComputePipelineRelease = release_ComputePipeline, .BindGroupRelease = release_BindGroup,
        .CommandEncoderRelease = release_CommandEncoder, .CommandBufferRelease = release_CommandBuffer,
        .ComputePassEncoderRelease = release_ComputePassEncoder, .QueueRelease = release_queue,
        .DeviceRelease = release_device,
    };
    return gpu_found();
}

const char *cr_wgpu_problem(void) { return "await gpu() asks the browser for one"; }
