/* batch.c - records dispatches and submits them.  One pass stays open over all kernels of a batch;
 * it ends for copies between buffers. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* A batch is submitted when it is this long, or when its estimated work reaches a limit: an operating
 * system resets a GPU that is busy for seconds.  After a wait the limit is small, so that the GPU
 * starts while the host records; each submission raises it, up to most_work. */
enum { FIRST_WORK = 1 << 24, RAISE = 4, BYTE_WORK = 8,          /* BYTE_WORK: multiply-adds in the time of a byte */
       PARAMETER_BYTES = 4 * GPU_PARAMETER_WORDS, RING_BYTES = 1 << 20 };

static cr_status make_parameters(gpu *g, const char *op) {
    if (g->parameters) return CR_OK;
    cr_gpu_scope_begin(g);
    g->parameters = cr_wg.DeviceCreateBuffer(
        g->device,
        &(WGPUBufferDescriptor){.usage = WGPUBufferUsage_Uniform | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                                .size = RING_BYTES});
    cr_status status = cr_gpu_scope_end(g, op, "no buffer for parameters");
    g->parameters_host = calloc(1, RING_BYTES);
    if (status == CR_OK && g->parameters && g->parameters_host) return CR_OK;
    if (g->parameters) cr_wg.BufferRelease(g->parameters);
    free(g->parameters_host);
    g->parameters = NULL;
    return status != CR_OK ? status : cr_no_memory(op);
}

static cr_status begin(gpu *g, const char *op) {
    cr_status status = make_parameters(g, op);
    if (status != CR_OK || g->encoder) return status;
    cr_gpu_scope_begin(g);
    g->encoder = cr_wg.DeviceCreateCommandEncoder(g->device, NULL);
    status = cr_gpu_scope_end(g, op, "no command encoder");
    if (status == CR_OK) return CR_OK;
    cr_wg.CommandEncoderRelease(g->encoder);
    g->encoder = NULL;
    return status;
}

static void end_pass(gpu *g) {
    if (!g->pass) return;
    cr_wg.ComputePassEncoderEnd(g->pass);
    cr_wg.ComputePassEncoderRelease(g->pass);
    g->pass = NULL;
}

static void drop_encoder(gpu *g) {
    cr_wg.CommandEncoderRelease(g->encoder);
    g->encoder = NULL;
    g->parameters_used = 0;
    g->recorded = 0;
    g->work = 0;
}

void cr_gpu_batch_forget(gpu *g) {
    end_pass(g);
    if (g->encoder) drop_encoder(g);
    if (g->parameters) cr_wg.BufferRelease(g->parameters);
    free(g->parameters_host);
    g->parameters = NULL;
    g->parameters_host = NULL;
    g->batch++;
}

#ifdef __EMSCRIPTEN__                               /* a submission of a browser goes to another process */
void cr_gpu_start_early(gpu *g) { g->work_limit = g->most_work; }
#else
void cr_gpu_start_early(gpu *g) { g->work_limit = g->most_work < FIRST_WORK ? g->most_work : FIRST_WORK; }
#endif

cr_status cr_gpu_submit(gpu *g, const char *op) {
    if (!g->encoder) return CR_OK;
    cr_gpu_scope_begin(g);
    end_pass(g);
    cr_gpu_spans_resolve(g);
    WGPUCommandBuffer commands = cr_wg.CommandEncoderFinish(g->encoder, NULL);
    if (g->parameters_used) cr_wg.QueueWriteBuffer(g->queue, g->parameters, 0, g->parameters_host, g->parameters_used);
    cr_status status = cr_gpu_scope_end(g, op, "the recorded commands are not valid");
    if (atomic_load(&g->lost)) status = cr_gpu_fail_lost(g, op);
    if (status == CR_OK) {
        /* the queue keeps the order: it writes the parameters of the next batch after this batch */
        cr_wg.QueueSubmit(g->queue, 1, &commands);
        g->counters.submits++;
    }
    cr_gpu_spans_submitted(g, status == CR_OK);
    if (commands) cr_wg.CommandBufferRelease(commands);
    drop_encoder(g);
    g->work_limit = g->work_limit * RAISE < g->most_work ? g->work_limit * RAISE : g->most_work;
    g->batch++;
    return status;
}

/* Copies parameters into the ring and gives their offset, a multiple of 256: the largest alignment
 * that adapters require. */
static uint32_t put_parameters(gpu *g, const void *parameters, size_t bytes) {
    const size_t at = g->parameters_used;
    memcpy(g->parameters_host + at, parameters, bytes);
    g->parameters_used = at + (bytes + 255) / 256 * 256;
    return (uint32_t)at;
}

bool cr_gpu_write_later(gpu *g, gpu_buffer *b, size_t at, const void *src, size_t bytes) {
    enum { MOST = 1 << 16 };
    if (!g->encoder || !bytes || (at | bytes) % 4 || bytes > MOST) return false;
    if (g->parameters_used + MOST > RING_BYTES) return false;
    const uint32_t from = put_parameters(g, src, bytes);
    end_pass(g);
    cr_wg.CommandEncoderCopyBufferToBuffer(g->encoder, g->parameters, from, b->handle, at, bytes);
    return true;
}

gpu_span cr_gpu_span_of(int64_t offset, int ndim, const int64_t *shape, const int64_t *strides) {
    gpu_span s = {offset, offset + 1};
    for (int d = 0; d < ndim; d++) *(strides[d] < 0 ? &s.first : &s.end) += (shape[d] - 1) * strides[d];
    return s;
}

bool cr_gpu_window(const gpu *g, const gpu_buffer *b, gpu_span s, cr_dtype dt, size_t *at) {
    const size_t size = cr_dtype_size(dt);
    *at = b->bytes > g->window ? (size_t)s.first * size & ~(size_t)255 : 0;
    return (size_t)s.end * size - *at <= g->window;
}

cr_status cr_gpu_fail_window(const gpu *g, const char *op, size_t bytes) {
    return cr_fail(CR_NO_MEMORY, op,
                   "%s binds at most %.4g MiB at once, and this kernel wants a tensor of %.4g MiB whole: cut it, or "
                   "move it to the cpu",
                   g->name, (double)g->window / (1 << 20), (double)bytes / (1 << 20));
}

static size_t shown(const gpu *g, const gpu_buffer *b, size_t at) {
    return b->bytes - at < g->window ? b->bytes - at : g->window;
}

/* ---- a cache of bind groups: creating one costs more than the rest of recording, and a training
 * step binds the same buffers as the step before */
enum { GROUPS = 1024, MOST_BUFFERS = CR_MAX_INPUTS + CR_MAX_OUTPUTS + 2 };
typedef struct gpu_group {
    WGPUBindGroup handle;                           /* NULL: none */
    struct bound {
        const gpu_pipeline *p;
        size_t window;
        const gpu_buffer *buffers[MOST_BUFFERS];
        size_t at[MOST_BUFFERS];
    } of;
} gpu_group;

void cr_gpu_groups_clear(gpu *g) {
    if (!g->groups) return;
    for (int i = 0; i < GROUPS; i++) {
        if (g->groups[i].handle) cr_wg.BindGroupRelease(g->groups[i].handle);
        g->groups[i].handle = NULL;
    }
}

/* The cache entry with these buffers, or the one to replace: one of eight. */
static gpu_group *group_for(gpu *g, const struct bound *of, int n) {
    uint64_t h = (uintptr_t)of->p;
    for (int i = 0; i < n; i++) h = (h ^ (uintptr_t)of->buffers[i] ^ of->at[i]) * 0x9e3779b97f4a7c15u;
    if (!g->groups) g->groups = calloc(GROUPS, sizeof *g->groups);
    if (!g->groups) return NULL;
    gpu_group *eight = &g->groups[(h >> 32) % GROUPS & ~7u], *free = &eight[h >> 61];
    for (int i = 0; i < 8; i++) {
        if (!eight[i].handle) free = &eight[i];
        else if (!memcmp(&eight[i].of, of, sizeof *of)) return &eight[i];
    }
    return free;
}

/* The bind group of p with buffers from at on; NULL: a message */
static gpu_group *bind(gpu *g, const char *op, const gpu_pipeline *p, gpu_buffer *const *buffers, const size_t *at) {
    WGPUBindGroupEntry e[1 + MOST_BUFFERS] = {{.binding = 0, .buffer = g->parameters, .size = PARAMETER_BYTES}};
    struct bound of;
    memset(&of, 0, sizeof of);
    of.p = p;
    of.window = g->window;
    for (int i = 0; i < p->buffers; i++) {
        if (cr_gpu_outlived(g, op, buffers[i])) return NULL;
        of.buffers[i] = buffers[i];
        of.at[i] = at[i];
        e[i + 1] = (WGPUBindGroupEntry){.binding = (uint32_t)i + 1,
                                        .buffer = buffers[i]->handle,
                                        .offset = of.at[i],
                                        .size = shown(g, buffers[i], of.at[i])};
        buffers[i]->batch = g->batch;
        g->counters.bytes += (int64_t)e[i + 1].size;
    }
    gpu_group *group = group_for(g, &of, p->buffers);
    if (!group) return cr_no_memory(op), NULL;
    if (group->handle && !memcmp(&group->of, &of, sizeof of)) return group;
    if (group->handle) cr_wg.BindGroupRelease(group->handle);
    cr_gpu_scope_begin(g);
    group->handle = cr_wg.DeviceCreateBindGroup(
        g->device, &(WGPUBindGroupDescriptor){.layout = p->layout, .entryCount = (size_t)p->buffers + 1, .entries = e});
    group->of = of;
    g->counters.groups++;
    /* an invalid group would invalidate the whole batch */
    if (cr_gpu_scope_end(g, op, "cannot bind") == CR_OK) return group;
    if (group->handle) cr_wg.BindGroupRelease(group->handle);
    group->handle = NULL;
    return NULL;
}

cr_status cr_gpu_dispatch(gpu *g, const char *op, const gpu_pipeline *p, gpu_buffer *const *buffers, const size_t *at,
                          const void *parameters, size_t parameters_bytes, uint64_t groups, double work) {
    if (!groups) return CR_OK;
    cr_status status = CR_OK;
    if (g->recorded >= GPU_MOST_RECORDED || g->parameters_used + PARAMETER_BYTES > RING_BYTES)
        status = cr_gpu_submit(g, op);
    if (status == CR_OK) status = begin(g, op);
    if (status != CR_OK) return status;
    const uint64_t most = g->limits.maxComputeWorkgroupsPerDimension, rows = (groups + most - 1) / most,
                   columns = (groups + rows - 1) / rows;
    if (rows > most)
        return cr_fail(CR_BAD_VALUE, op, "%s runs at most %llu workgroups: this takes %llu", g->name,
                       (unsigned long long)(most * most), (unsigned long long)groups);
    const uint32_t offset = put_parameters(g, parameters, parameters_bytes);
    const int64_t bound = g->counters.bytes;
    const gpu_group *group = bind(g, op, p, buffers, at);
    if (!group) return cr_error_status();
    WGPUPassTimestampWrites times;
    const bool timed = cr_gpu_span_begin(g, op, &times);
    if (timed) end_pass(g);
    if (!g->pass)
        g->pass = cr_wg.CommandEncoderBeginComputePass(
            g->encoder, timed ? &(WGPUComputePassDescriptor){.timestampWrites = &times} : NULL);
    cr_wg.ComputePassEncoderSetPipeline(g->pass, p->handle);
    cr_wg.ComputePassEncoderSetBindGroup(g->pass, 0, group->handle, 1, &offset);
    cr_wg.ComputePassEncoderDispatchWorkgroups(g->pass, (uint32_t)columns, (uint32_t)rows, 1);
    if (timed) end_pass(g);
    g->recorded++;
    g->counters.dispatches++;
    g->work += work + BYTE_WORK * (double)(g->counters.bytes - bound);
    return g->work < g->work_limit ? CR_OK : cr_gpu_submit(g, op);
}

cr_status cr_gpu_copy_bytes(gpu *g, const char *op, WGPUBuffer to, size_t to_at, WGPUBuffer from, size_t from_at,
                            size_t bytes) {
    cr_status status = begin(g, op);
    if (status != CR_OK) return status;
    end_pass(g);
    cr_wg.CommandEncoderCopyBufferToBuffer(g->encoder, from, from_at, to, to_at, bytes);
    return CR_OK;
}
