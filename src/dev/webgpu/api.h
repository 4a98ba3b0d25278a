/* api.h - wgpu-native (webgpu.h and its extensions in wgpu.h), found and opened at run time: cr_wg.CreateInstance is wgpuCreateInstance.
 *
 * What the library does with misuse decides how the rest of this folder is written.  It ends the process on the submission of an invalid
 * command buffer, on work after the device is lost, on the release of NULL, on an error scope for internal errors and on calls that it does not implement (WaitAny,
 * GetCompilationInfo, pipelines made asynchronously).  All other errors come through error scopes.  So whatever is made or recorded lies in
 * a scope, only what came out of one clean is submitted, and flags of our own say whether a device is alive. */
#ifndef CR_WGPU_API_H
#define CR_WGPU_API_H

#include <wgpu.h>
#include "../../core/array.h"

#define WGPU_FUNCTIONS(f)                                                                                                        \
    f(CreateInstance) f(InstanceEnumerateAdapters) f(GetVersion)                                \
    f(AdapterGetInfo) f(AdapterGetLimits) f(AdapterHasFeature) f(AdapterRequestDevice) f(AdapterRelease) f(AdapterInfoFreeMembers)                    \
    f(DeviceGetLimits) f(DeviceGetQueue) f(DeviceDestroy) f(DevicePoll) f(DevicePushErrorScope) f(DevicePopErrorScope)           \
    f(DeviceCreateBuffer) f(DeviceCreateShaderModule) f(DeviceCreateBindGroupLayout) f(DeviceCreatePipelineLayout)               \
    f(DeviceCreateComputePipeline) f(DeviceCreateBindGroup) f(DeviceCreateCommandEncoder)                                        \
    f(BufferDestroy) f(BufferRelease) f(BufferMapAsync) f(BufferGetConstMappedRange) f(BufferUnmap)                              \
    f(ShaderModuleRelease) f(BindGroupLayoutRelease) f(PipelineLayoutRelease) f(ComputePipelineRelease) f(BindGroupRelease)      \
    f(CommandEncoderBeginComputePass) f(CommandEncoderCopyBufferToBuffer) f(CommandEncoderClearBuffer) f(CommandEncoderFinish)   \
    f(CommandEncoderRelease) f(CommandBufferRelease)                                                                             \
    f(ComputePassEncoderSetPipeline) f(ComputePassEncoderSetBindGroup) f(ComputePassEncoderDispatchWorkgroups)                   \
    f(ComputePassEncoderEnd) f(ComputePassEncoderRelease)                                                                        \
    f(QueueWriteBuffer) f(QueueSubmit)

typedef struct wgpu_api {
#define WGPU_MEMBER(name) __typeof__(wgpu##name) *name;
    WGPU_FUNCTIONS(WGPU_MEMBER)
#undef WGPU_MEMBER
} wgpu_api;
extern wgpu_api cr_wg;                                 /* to be used after cr_wgpu_ready() said yes */

/* Opens the library on the first call.  False: not found, unfit or switched off; cr_wgpu_problem() says which. */
bool cr_wgpu_ready(void);
const char *cr_wgpu_problem(void);

#endif
