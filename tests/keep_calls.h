/* keep_calls.h - CHAINRULE_TEST_CALLS=file: what the WebGPU device does is kept there, for a browser to repeat
 * (check_browser.py): buffers, data written, kernels, dispatches, copies, and what the host read.
 *
 * A record: its kind, the count of its numbers, the bytes of its data, 0, 32 bits each; the numbers, 64 bits each;
 * the data, padded to 8 bytes.  Objects are named by their handles. */
#ifndef CR_TEST_KEEP_CALLS_H
#define CR_TEST_KEEP_CALLS_H
#ifdef CR_WEBGPU
#include "dev/webgpu/gpu.h"

enum { CALL_TEST, CALL_BUFFER, CALL_WRITE, CALL_PIPELINE, CALL_GROUP, CALL_USE, CALL_BIND, CALL_DISPATCH, CALL_COPY,
       CALL_SUBMIT, CALL_READ };
static FILE *calls;
static wgpu_api calls_true;                         /* the library's functions */
static char *calls_text;                            /* of the last module */
static uint64_t calls_layout[3];                    /* the last layout: handle, storage bindings, written ones */

#define CALL_NUMBERS(...) (const uint64_t[]){__VA_ARGS__}, (int)(sizeof(uint64_t[]){__VA_ARGS__} / sizeof(uint64_t))
static void keep_call(uint32_t kind, const uint64_t *numbers, int n, const void *data, size_t bytes) {
    static const char zeros[8];
    const uint32_t head[4] = {kind, (uint32_t)n, (uint32_t)bytes, 0};
    const bool done = fwrite(head, sizeof head, 1, calls) == 1 &&
                      (!n || fwrite(numbers, sizeof *numbers, (size_t)n, calls) == (size_t)n) &&
                      (!bytes || fwrite(data, 1, bytes, calls) == bytes) &&
                      fwrite(zeros, 1, -bytes % 8, calls) == -bytes % 8;
    if (done) return;
    printf("FAILED %s cannot be written\n", getenv("CHAINRULE_TEST_CALLS"));
    exit(1);
}

static WGPUBuffer keep_buffer(WGPUDevice device, const WGPUBufferDescriptor *d) {
    WGPUBuffer b = calls_true.DeviceCreateBuffer(device, d);
    keep_call(CALL_BUFFER, CALL_NUMBERS((uintptr_t)b, d->usage, d->size), NULL, 0);
    return b;
}

static void keep_write(WGPUQueue queue, WGPUBuffer b, uint64_t at, const void *data, size_t bytes) {
    calls_true.QueueWriteBuffer(queue, b, at, data, bytes);
    keep_call(CALL_WRITE, CALL_NUMBERS((uintptr_t)b, at), data, bytes);
}

static WGPUShaderModule keep_module_text(WGPUDevice device, const WGPUShaderModuleDescriptor *d) {
    const WGPUStringView text = ((const WGPUShaderSourceWGSL *)(const void *)d->nextInChain)->code;
    const size_t n = text.length == WGPU_STRLEN ? strlen(text.data) : text.length;
    free(calls_text);
    calls_text = calloc(1, n + 1);
    if (calls_text) memcpy(calls_text, text.data, n);
    return calls_true.DeviceCreateShaderModule(device, d);
}

static WGPUBindGroupLayout keep_layout(WGPUDevice device, const WGPUBindGroupLayoutDescriptor *d) {
    WGPUBindGroupLayout layout = calls_true.DeviceCreateBindGroupLayout(device, d);
    calls_layout[0] = (uintptr_t)layout;
    calls_layout[1] = d->entryCount - 1;
    calls_layout[2] = 0;
    for (size_t i = 1; i < d->entryCount; i++)
        calls_layout[2] |= (uint64_t)(d->entries[i].buffer.type == WGPUBufferBindingType_Storage) << (i - 1);
    return layout;
}

static WGPUComputePipeline keep_pipeline(WGPUDevice device, const WGPUComputePipelineDescriptor *d) {
    WGPUComputePipeline p = calls_true.DeviceCreateComputePipeline(device, d);
    keep_call(CALL_PIPELINE, CALL_NUMBERS((uintptr_t)p, calls_layout[0], calls_layout[1], calls_layout[2]), calls_text,
              strlen(calls_text));
    return p;
}

static WGPUBindGroup keep_group(WGPUDevice device, const WGPUBindGroupDescriptor *d) {
    WGPUBindGroup group = calls_true.DeviceCreateBindGroup(device, d);
    uint64_t numbers[2 + 3 * 32] = {(uintptr_t)group, (uintptr_t)d->layout};
    int n = 2;
    for (size_t i = 0; i < d->entryCount && n + 3 <= (int)(sizeof numbers / sizeof *numbers); i++) {
        numbers[n++] = (uintptr_t)d->entries[i].buffer;
        numbers[n++] = d->entries[i].offset;
        numbers[n++] = d->entries[i].size;
    }
    keep_call(CALL_GROUP, numbers, n, NULL, 0);
    return group;
}

static void keep_use(WGPUComputePassEncoder pass, WGPUComputePipeline p) {
    calls_true.ComputePassEncoderSetPipeline(pass, p);
    keep_call(CALL_USE, CALL_NUMBERS((uintptr_t)p), NULL, 0);
}

static void keep_bind(WGPUComputePassEncoder pass, uint32_t i, WGPUBindGroup group, size_t n, const uint32_t *offsets) {
    calls_true.ComputePassEncoderSetBindGroup(pass, i, group, n, offsets);
    keep_call(CALL_BIND, CALL_NUMBERS((uintptr_t)group, *offsets), NULL, 0);
}

static void keep_dispatch(WGPUComputePassEncoder pass, uint32_t x, uint32_t y, uint32_t z) {
    calls_true.ComputePassEncoderDispatchWorkgroups(pass, x, y, z);
    keep_call(CALL_DISPATCH, CALL_NUMBERS(x, y), NULL, 0);
}

static void keep_copy(WGPUCommandEncoder e, WGPUBuffer from, uint64_t from_at, WGPUBuffer to, uint64_t to_at,
                      uint64_t bytes) {
    calls_true.CommandEncoderCopyBufferToBuffer(e, from, from_at, to, to_at, bytes);
    keep_call(CALL_COPY, CALL_NUMBERS((uintptr_t)from, from_at, (uintptr_t)to, to_at, bytes), NULL, 0);
}

static void keep_submit(WGPUQueue queue, size_t n, const WGPUCommandBuffer *commands) {
    calls_true.QueueSubmit(queue, n, commands);
    keep_call(CALL_SUBMIT, NULL, 0, NULL, 0);
}

static const void *keep_read(WGPUBuffer b, size_t at, size_t bytes) {
    const void *data = calls_true.BufferGetConstMappedRange(b, at, bytes);
    keep_call(CALL_READ, CALL_NUMBERS((uintptr_t)b), data, bytes);
    return data;
}

static void keep_calls_of(const char *name) { if (calls) keep_call(CALL_TEST, NULL, 0, name, strlen(name)); }

/* Once the library is there, before a GPU is opened. */
static void keep_calls(void) {
    const char *path = getenv("CHAINRULE_TEST_CALLS");
    if (!path) return;
    if (!(calls = fopen(path, "wb"))) {
        printf("FAILED %s cannot be opened\n", path);
        exit(1);
    }
    calls_true = cr_wg;
    cr_wg.DeviceCreateBuffer = keep_buffer;
    cr_wg.QueueWriteBuffer = keep_write;
    cr_wg.DeviceCreateShaderModule = keep_module_text;
    cr_wg.DeviceCreateShaderModuleTrusted = NULL;
    cr_wg.DeviceCreateBindGroupLayout = keep_layout;
    cr_wg.DeviceCreateComputePipeline = keep_pipeline;
    cr_wg.DeviceCreateBindGroup = keep_group;
    cr_wg.ComputePassEncoderSetPipeline = keep_use;
    cr_wg.ComputePassEncoderSetBindGroup = keep_bind;
    cr_wg.ComputePassEncoderDispatchWorkgroups = keep_dispatch;
    cr_wg.CommandEncoderCopyBufferToBuffer = keep_copy;
    cr_wg.QueueSubmit = keep_submit;
    cr_wg.BufferGetConstMappedRange = keep_read;
}
#else
static void keep_calls(void) {}
static void keep_calls_of(const char *name) { (void)name; }
#endif
#endif
