/* api.h - wgpu-native (webgpu.h and its extensions in wgpu.h), found and opened at run time:
 * cr_wg.CreateInstance is wgpuCreateInstance.
 *
 * wgpu-native ends the process on the submission of an invalid command buffer, work after the
 * device is lost, the release of NULL, an error scope for internal errors, and calls that it does
 * not implement (WaitAny, GetCompilationInfo, asynchronous pipelines).  All other errors come
 * through error scopes.  So this folder creates and records everything within a scope, submits only
 * commands without errors, and keeps flags of its own for lost devices. */
#ifndef CR_WGPU_API_H
#define CR_WGPU_API_H

#include <wgpu.h>
#include "../../core/array.h"

#define WGPU_FUNCTIONS(f) \
    f(CreateInstance) f(InstanceEnumerateAdapters) f(GetVersion)                                \
    f(AdapterGetInfo) f(AdapterGetLimits) f(AdapterHasFeature) f(AdapterRequestDevice) f(AdapterRelease) \
        f(AdapterInfoFreeMembers) \
    f(DeviceGetLimits) f(DeviceGetQueue) f(DeviceDestroy) f(DevicePoll) f(DevicePushErrorScope) f(DevicePopErrorScope) \
    f(DeviceCreateBuffer) f(DeviceCreateShaderModule) f(DeviceCreateBindGroupLayout) f(DeviceCreatePipelineLayout) \
    f(DeviceCreateComputePipeline) f(DeviceCreateBindGroup) f(DeviceCreateCommandEncoder) \
    f(BufferDestroy) f(BufferRelease) f(BufferMapAsync) f(BufferGetConstMappedRange) f(BufferUnmap) \
    f(ShaderModuleRelease) f(BindGroupLayoutRelease) f(PipelineLayoutRelease) f(ComputePipelineRelease) \
        f(BindGroupRelease) \
    f(CommandEncoderBeginComputePass) f(CommandEncoderCopyBufferToBuffer) f(CommandEncoderClearBuffer) \
        f(CommandEncoderFinish) \
    f(CommandEncoderRelease) f(CommandBufferRelease) \
    f(ComputePassEncoderSetPipeline) f(ComputePassEncoderSetBindGroup) f(ComputePassEncoderDispatchWorkgroups) \
    f(ComputePassEncoderEnd) f(ComputePassEncoderRelease) \
    f(QueueWriteBuffer) f(QueueSubmit) f(QueueGetTimestampPeriod) f(QueueRelease) f(DeviceRelease) \
    f(DeviceCreateQuerySet) f(QuerySetRelease) f(CommandEncoderResolveQuerySet)

/* NULL where the library lacks them */
#define WGPU_OPTIONAL_FUNCTIONS(f) f(DeviceCreateShaderModuleTrusted)

typedef struct wgpu_api {
#define WGPU_MEMBER(name) __typeof__(wgpu##name) *name;
    WGPU_FUNCTIONS(WGPU_MEMBER)
    WGPU_OPTIONAL_FUNCTIONS(WGPU_MEMBER)
#undef WGPU_MEMBER
} wgpu_api;
extern wgpu_api cr_wg;                                 /* valid after cr_wgpu_ready() returned true */

/* Opens the library on the first call.  False: not found, of another version or switched off;
 * cr_wgpu_problem() says which. */
bool cr_wgpu_ready(void);
const char *cr_wgpu_problem(void);

#ifdef __EMSCRIPTEN__
int cr_web_subgroups(void);                         /* their size, measured when the package opened the GPU */
#endif

#endif
