/* memory.c - buffers of the GPU, pooled by size class within a budget, and copies to and from the
 * host. */
#include "gpu.h"

#include <stdlib.h>
#include <string.h>

/* ---- size classes: four in each doubling, from 256 bytes on */
static int class_of(size_t bytes, size_t *rounded) {
    if (bytes <= 256) return *rounded = 256, 0;
    int shift = 63 - __builtin_clzll((unsigned long long)(bytes - 1));       /* 2^shift <= bytes - 1 */
    /* 5 to 8 quarters of 2^shift */
    const size_t quarter = (size_t)1 << (shift - 2), steps = (bytes - 1) / quarter + 1;
    *rounded = steps * quarter;
    return (shift - 8) * 4 + (int)steps - 4;
}

static size_t most_bytes(const gpu *g) { return (size_t)g->limits.maxBufferSize & ~(size_t)3; }

static void release_buffer(gpu_buffer *b) {
    cr_wg.BufferRelease(b->handle);
    free(b);
}

static void empty_pool(gpu *g) {
    if (g->forked) return;
    cr_gpu_groups_clear(g);
    for (int c = 0; c < GPU_CLASSES; c++)
        for (gpu_buffer *b; (b = g->pool[c]); ) {
            g->pool[c] = b->next;
            g->cached -= (int64_t)b->bytes;
            release_buffer(b);
        }
}

static gpu_buffer *new_buffer(gpu *g, const char *op, size_t bytes) {
    gpu_buffer *b = malloc(sizeof *b);
    if (!b) return cr_no_memory(op), NULL;
    cr_gpu_scope_begin(g);
    *b = (gpu_buffer){.bytes = bytes, .life = g->life};
    b->handle = cr_wg.DeviceCreateBuffer(g->device, &(WGPUBufferDescriptor){
        .usage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, .size = bytes});
    if (cr_gpu_scope_end(g, op, "no buffer") == CR_OK && b->handle) return b;
    if (b->handle) cr_wg.BufferRelease(b->handle);
    free(b);
    return NULL;
}

static double mib(int64_t bytes) { return (double)bytes / (1 << 20); }

static cr_status no_memory(const gpu *g, const char *op, size_t bytes) {
    return cr_fail(CR_NO_MEMORY, op, "%s is out of memory: asked for %.1f MiB, tensors hold %.1f MiB of %.1f MiB",
                   g->name, mib((int64_t)bytes), mib(g->now), mib(g->budget));
}

gpu_buffer *cr_gpu_buffer_take(gpu *g, const char *op, size_t bytes) {
    size_t rounded;
    if (bytes > most_bytes(g))
        return cr_fail(CR_NO_MEMORY, op, "%s has no buffers beyond %.1f MiB: asked for %.1f MiB", g->name,
                       mib((int64_t)most_bytes(g)), mib((int64_t)bytes)),
               NULL;
    const int c = class_of(bytes, &rounded);
    if (rounded > most_bytes(g)) rounded = (bytes + 3) & ~(size_t)3;
    gpu_buffer *b = g->pool[c];
    if (b && b->bytes >= bytes) {
        g->pool[c] = b->next;
        g->cached -= (int64_t)b->bytes;
    } else {
        /* release cached buffers; the driver frees them when the queue is empty */
        if (g->now + g->cached + (int64_t)rounded > g->budget) {
            empty_pool(g);
            if (cr_gpu_wait(g, op) != CR_OK) return NULL;
        }
        if (g->now + (int64_t)rounded > g->budget) return no_memory(g, op, bytes), NULL;
        b = new_buffer(g, op, rounded);
        if (!b && cr_error_status() == CR_NO_MEMORY) {          /* of the driver: once more without the pool */
            cr_error_clear();
            empty_pool(g);
            if (cr_gpu_wait(g, op) != CR_OK) return NULL;
            b = new_buffer(g, op, rounded);
        }
        if (!b) return NULL;
    }
    g->now += (int64_t)b->bytes;
    if (g->now > g->peak) g->peak = g->now;
    return b;
}

void cr_gpu_buffer_give(gpu *g, gpu_buffer *b) {
    size_t rounded;
    if (b->life != g->life) {                       /* of a device that was lost: nothing counts it */
        release_buffer(b);
        return;
    }
    g->now -= (int64_t)b->bytes;
    if (g->forked) return;
    if (atomic_load(&g->lost)) {
        cr_gpu_groups_clear(g);
        release_buffer(b);
        return;
    }
    gpu_buffer **at = &g->pool[class_of(b->bytes, &rounded)];
    /* sorted, so that each step of a loop takes, and binds, the same buffers as the step before */
    while (*at && *at < b) at = &(*at)->next;
    b->next = *at;
    *at = b;
    g->cached += (int64_t)b->bytes;
}

void cr_gpu_memory_forget(gpu *g) {
    empty_pool(g);
    if (g->staging) cr_wg.BufferRelease(g->staging);
    if (g->faults) release_buffer(g->faults);
    g->staging = NULL;
    g->faults = NULL;
    g->may_fail = 0;
    g->now = 0;
}

static void give_back(cr_storage *s) {
    gpu *g = (gpu *)(uintptr_t)s->dev;
    cr_mutex_lock(g->lock);
    cr_gpu_buffer_give(g, s->data);
    cr_mutex_unlock(g->lock);
}

/* New memory on a device that was lost opens the GPU again: what was in its memory is gone. */
cr_storage *cr_gpu_allocate(const cr_device *d, size_t bytes) {
    cr_gpu_revive(d);
    gpu *g = cr_gpu_enter("allocate", d);
    if (!g) return NULL;
    gpu_buffer *b = cr_gpu_buffer_take(g, "allocate", bytes);
    if (cr_gpu_leave(g, b ? CR_OK : CR_NO_MEMORY) != CR_OK) return NULL;
    return cr_storage_new(b, bytes, d, give_back);
}

cr_array cr_gpu_array(const cr_device *d, cr_dtype dt, int n, const int64_t *shape) {
    cr_array a = cr_array_of(NULL, d, dt, n, shape);
    a.storage = cr_gpu_allocate(d, (size_t)a.numel * cr_dtype_size(dt));
    return a;
}

void cr_gpu_array_give(const cr_array *a) { if (a->storage) cr_storage_release(a->storage); }

void cr_gpu_empty_cache(const cr_device *d) {
    gpu *g = (gpu *)(uintptr_t)d;
    cr_mutex_lock(g->lock);
    empty_pool(g);
    cr_mutex_unlock(g->lock);
}

/* ---- reading: a copy into a buffer that the host can map, at the end of the batch */

static cr_status grow_staging(gpu *g, const char *op, size_t bytes) {
    if (g->staging && g->staging_bytes >= bytes) return CR_OK;
    if (g->staging) cr_wg.BufferRelease(g->staging);
    size_t rounded;
    class_of(bytes, &rounded);
    cr_gpu_scope_begin(g);
    g->staging_bytes = rounded;
    g->staging = cr_wg.DeviceCreateBuffer(
        g->device,
        &(WGPUBufferDescriptor){.usage = WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, .size = rounded});
    cr_status status = cr_gpu_scope_end(g, op, "no buffer to read through");
    if (status == CR_OK && g->staging) return CR_OK;
    if (g->staging) cr_wg.BufferRelease(g->staging);
    g->staging = NULL;
    return status != CR_OK ? status
                           : cr_fail(CR_NO_MEMORY, op, "%s has no buffer of %zu bytes to read through", g->name, bytes);
}

static void on_mapped(WGPUMapAsyncStatus status, WGPUStringView message, void *p, void *request) {
    cr_gpu_answer(p, request, (int)status, message);
}

cr_status cr_gpu_map(gpu *g, const char *op, WGPUBuffer b, size_t bytes) {
    /* an invalid request is an uncaptured error, and the callback says so */
    cr_wg.BufferMapAsync(b, WGPUMapMode_Read, 0, bytes,
                         (WGPUBufferMapCallbackInfo){.mode = WGPUCallbackMode_AllowSpontaneous,
                                                     .callback = on_mapped,
                                                     .userdata1 = g,
                                                     .userdata2 = cr_gpu_ask(g)});
    const bool answered = cr_gpu_await(g);
    if (atomic_load(&g->lost)) return cr_gpu_fail_lost(g, op);
    if (answered && g->answer.code == WGPUMapAsyncStatus_Success) return CR_OK;
    return cr_fail(CR_RUNTIME, op, "%s: cannot read: %s", g->name, g->answer.message);
}

/* Reads `bytes` bytes that begin `skip` bytes into the words from `at` on, and in the same copy the
 * faults, if a kernel may have failed. */
static cr_status read_words(gpu *g, const char *op, void *dst, size_t skip, size_t bytes, gpu_buffer *b, size_t at,
                            size_t word_bytes) {
    const size_t fault_bytes = g->may_fail ? sizeof(uint32_t) * GPU_FAULT_WORDS * (size_t)g->may_fail : 0,
                 all = word_bytes + fault_bytes;
    if (b && cr_gpu_outlived(g, op, b)) return cr_error_status();
    cr_status status = grow_staging(g, op, all);
    if (status == CR_OK && word_bytes) status = cr_gpu_copy_bytes(g, op, g->staging, 0, b->handle, at, word_bytes);
    if (status == CR_OK && fault_bytes)
        status = cr_gpu_copy_bytes(g, op, g->staging, word_bytes, g->faults->handle, 0, fault_bytes);
    if (status == CR_OK) status = cr_gpu_submit(g, op);
    if (status == CR_OK) status = cr_gpu_map(g, op, g->staging, all);
    if (status != CR_OK) return status;
    g->counters.readbacks++;
    const unsigned char *from = cr_wg.BufferGetConstMappedRange(g->staging, 0, all);
    if (!from) status = cr_fail(CR_RUNTIME, op, "%s: the result could not be mapped", g->name);
    if (from && bytes) memcpy(dst, from + skip, bytes);
    if (from && fault_bytes) status = cr_gpu_faults_report(g, (const uint32_t *)(const void *)(from + word_bytes));
    cr_wg.BufferUnmap(g->staging);
    return status;
}

cr_status cr_gpu_read(gpu *g, const char *op, void *dst, gpu_buffer *b, size_t bytes) {
    return read_words(g, op, dst, 0, bytes, b, 0, bytes);
}

cr_status cr_gpu_faults_check(gpu *g, const char *op) {
    return g->may_fail ? read_words(g, op, NULL, 0, 0, NULL, 0, 0) : CR_OK;
}

static size_t word_end(size_t at) { return (at + 3) & ~(size_t)3; }

cr_status cr_gpu_download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes) {
    gpu *g = cr_gpu_enter("read", d);
    if (!g) return cr_error_status();
    const size_t first = at & ~(size_t)3;
    return cr_gpu_leave(
        g,
        bytes ? read_words(g, "read", dst, at - first, bytes, src->data, first, word_end(at + bytes) - first) : CR_OK);
}

/* ---- writing: through the queue at once; if the recorded batch uses the buffer, it makes a small write in its order,
 * and is submitted before a large one */

static void write_words(gpu *g, gpu_buffer *b, size_t at, const void *src, size_t bytes) {
    if (bytes) cr_wg.QueueWriteBuffer(g->queue, b->handle, at, src, bytes);
}

/* Writes a part of a word.  The other bytes stay, unless they lie beyond the end of the storage. */
static cr_status write_part(gpu *g, const cr_storage *dst, size_t at, const void *src, size_t bytes) {
    const size_t first = at & ~(size_t)3;
    unsigned char word[4] = {0};
    cr_status status = CR_OK;
    if (at != first || at + bytes < dst->bytes) status = read_words(g, "write", word, 0, 4, dst->data, first, 4);
    if (status != CR_OK) return status;
    memcpy(word + (at - first), src, bytes);
    write_words(g, dst->data, first, word, 4);
    return CR_OK;
}

cr_status cr_gpu_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    gpu *g = cr_gpu_enter("write", d);
    if (!g) return cr_error_status();
    gpu_buffer *b = dst->data;
    if (cr_gpu_outlived(g, "write", b)) return cr_gpu_leave(g, cr_error_status());
    const bool used = b->batch == g->batch;
    g->counters.uploads++;
    if (used && cr_gpu_write_later(g, b, at, src, bytes)) return cr_gpu_leave(g, CR_OK);
    cr_status status = used ? cr_gpu_submit(g, "write") : CR_OK;
    const char *from = src;
    size_t head = word_end(at) - at, n = bytes;
    if (head > n) head = n;
    cr_gpu_scope_begin(g);
    if (status == CR_OK && head) status = write_part(g, dst, at, from, head);
    at += head, from += head, n -= head;
    const size_t tail = n % 4;
    if (status == CR_OK) write_words(g, b, at, from, n - tail);
    if (status == CR_OK && tail) status = write_part(g, dst, at + n - tail, from + n - tail, tail);
    cr_status failed = cr_gpu_scope_end(g, "write", "cannot write");
    return cr_gpu_leave(g, status == CR_OK ? failed : status);
}
