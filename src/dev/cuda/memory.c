/* memory.c - memory of the GPU, a pool within a budget, and copies to and from the host.
 *
 * The driver allocates segments.  Blocks are cut out of them, and free neighbours are merged again.
 * Small blocks (up to 1 MiB) have segments of their own, so that they do not fragment large ones.
 * Freed memory is used again at once: the streams order its old and new users.
 *
 * CHAINRULE_GPU_POOL=off: a block is one allocation of the driver's, of the bytes asked for, and goes
 * back to the driver when it is freed.  A memory checker then sees what a kernel reads or writes beyond
 * a tensor; in a segment the neighbour would hide it.  It is slow: the driver waits for the GPU at each
 * release. */
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    UNIT = 512,                                     /* bytes; every block is a multiple */
    MIB = 1 << 20, SMALL = MIB,                     /* the largest small block */
    SMALL_SEGMENT = 2 * MIB, SEGMENT = 20 * MIB,    /* the least that is asked of the driver */
    TRIES = 16                                      /* blocks tried in the list whose blocks may be too small */
};

/* ---- size classes: four in each doubling */
static int class_of(size_t bytes) {                 /* the class of the largest size that is not above this */
    const size_t units = bytes / UNIT;
    if (units < 4) return (int)units;
    const int shift = 63 - __builtin_clzll((unsigned long long)units);
    return 4 * shift + (int)(units >> (shift - 2) & 3) - 4;
}

/* ---- lists */
static void enter_list(cuda_block **first, cuda_block *b) {
    b->previous = NULL;
    b->next = *first;
    if (b->next) b->next->previous = b;
    *first = b;
}
static void leave_list(cuda_block **first, cuda_block *b) {
    if (b->previous) b->previous->next = b->next;
    else *first = b->next;
    if (b->next) b->next->previous = b->previous;
}
static cuda_block **list_of(cuda *g, const cuda_block *b) {
    return b->used ? &g->used : &g->pool[b->small][class_of(b->bytes)];
}

/* ---- segments */
static void enter_used(cuda *g, cuda_block *b) {
    b->used = true;
    enter_list(&g->used, b);
    g->now += (int64_t)b->bytes;
    if (g->now > g->peak) g->peak = g->now;
}

static bool is_segment(const cuda_block *b) { return !b->before && !b->after; }

/* Frees the segments of which no part is used; the driver waits for work that still uses them. */
static void empty_pool(cuda *g) {
    for (int small = 0; small < 2; small++)
        for (int c = 0; c < CUDA_CLASSES; c++)
            for (cuda_block *b = g->pool[small][c], *next; b; b = next) {
                next = b->next;
                if (!is_segment(b)) continue;
                leave_list(&g->pool[small][c], b);
                cr_cu.MemFree(b->at);
                g->reserved -= (int64_t)b->bytes;
                g->counters.segments--;
                free(b);
            }
}

bool cr_cuda_make_room(cuda *g, int error) {
    const int64_t before = g->reserved;
    if (error == CUDA_OUT_OF_MEMORY) empty_pool(g);
    return g->reserved < before;
}

static cuda_block *new_segment(cuda *g, size_t bytes, bool small, int *error) {
    if ((int64_t)bytes > g->budget - g->reserved) return NULL;
    cuda_block *b = malloc(sizeof *b);
    if (!b) return NULL;
    *b = (cuda_block){.bytes = bytes, .small = small};
    if ((*error = cr_cu.MemAlloc(&b->at, bytes))) return free(b), NULL;
    g->reserved += (int64_t)bytes;
    g->counters.segments++;
    if (!g->unpooled) enter_list(list_of(g, b), b);
    return b;
}

/* ---- blocks */
static cuda_block *find_block(cuda *g, size_t bytes, bool small) {
    const int c = class_of(bytes);
    int tries = 0;
    for (cuda_block *b = g->pool[small][c]; b && tries < TRIES; b = b->next, tries++)
        if (b->bytes >= bytes) return b;
    for (int k = c + 1; k < CUDA_CLASSES; k++)
        if (g->pool[small][k]) return g->pool[small][k];
    return NULL;
}

static double mib(int64_t bytes) { return (double)bytes / MIB; }

/* "; the largest: 3.0 MiB, 2.0 MiB, 1.0 MiB" of the used blocks; returns how many there are. */
static int64_t list_largest(const cuda *g, char *list, size_t room) {
    int64_t largest[3] = {0}, count = 0;
    for (const cuda_block *b = g->used; b; b = b->next, count++) {
        int64_t v = (int64_t)b->bytes;
        for (int i = 0; i < 3; i++)
            if (v > largest[i]) { const int64_t smaller = largest[i]; largest[i] = v; v = smaller; }
    }
    *list = 0;
    for (int i = 0; i < 3; i++) {
        const size_t n = strlen(list);
        if (largest[i]) snprintf(list + n, room - n, "%s%.1f MiB", i ? ", " : "; the largest: ", mib(largest[i]));
    }
    return count;
}

static cr_status no_memory(cuda *g, const char *op, size_t bytes) {
    size_t free_bytes = 0, total = 0;
    char list[80];
    const int64_t count = list_largest(g, list, sizeof list);
    cr_cu.MemGetInfo(&free_bytes, &total);
    return cr_fail(CR_NO_MEMORY, op,
                   "%s is out of memory: asked for %.1f MiB, %.1f MiB free, %.1f MiB cached in pieces, %.1f MiB held "
                   "by %lld blocks%s",
                   g->name, mib((int64_t)bytes), mib(cr_imin(g->budget - g->reserved, (int64_t)free_bytes)),
                   mib(g->reserved - g->now), mib(g->now), (long long)count, list);
}

/* A new segment: large enough for further blocks; else, after cached segments were freed, as small as
 * the block allows. */
static cuda_block *grow(cuda *g, const char *op, size_t bytes, bool small) {
    const size_t fitting = (bytes + SMALL_SEGMENT - 1) / SMALL_SEGMENT * SMALL_SEGMENT,
                 good = !small && fitting < SEGMENT ? SEGMENT : fitting;
    const size_t tries[] = {good, good, fitting, bytes};
    for (int i = 0; i < 4; i++) {
        int error = CUDA_OUT_OF_MEMORY;
        cuda_block *b = new_segment(g, tries[i], small, &error);
        if (b) return b;
        /* may be the fault of an earlier kernel */
        if (error != CUDA_OUT_OF_MEMORY) return cr_cuda_check(g, op, "no memory", error), NULL;
        if (!i) empty_pool(g);
    }
    return no_memory(g, op, bytes), NULL;
}

/* CHAINRULE_GPU_POOL=off: a block that is one allocation. */
static cuda_block *take_unpooled(cuda *g, const char *op, size_t bytes) {
    int error = CUDA_OUT_OF_MEMORY;
    cuda_block *b = new_segment(g, bytes ? bytes : 1, false, &error);
    if (b) return enter_used(g, b), b;
    if (error == CUDA_OUT_OF_MEMORY) return no_memory(g, op, bytes), NULL;
    return cr_cuda_check(g, op, "no memory", error), NULL;
}

static cuda_block *take_block(cuda *g, const char *op, size_t bytes) {
    if (bytes > (size_t)INT64_MAX / 2 || (int64_t)bytes > g->budget - g->now) return no_memory(g, op, bytes), NULL;
    if (g->unpooled) return take_unpooled(g, op, bytes);
    bytes = bytes ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT;
    const bool small = bytes <= SMALL;
    cuda_block *b = find_block(g, bytes, small);
    if (!b && !(b = grow(g, op, bytes, small))) return NULL;
    const size_t rest = b->bytes - bytes;
    cuda_block *tail = rest >= (small ? (size_t)UNIT : (size_t)SMALL) ? malloc(sizeof *tail) : NULL;
    leave_list(list_of(g, b), b);
    if (tail) {
        *tail = (cuda_block){.at = b->at + bytes,
                             .bytes = rest,
                             .small = small,
                             .epoch = {b->epoch[0], b->epoch[1]},
                             .before = b,
                             .after = b->after};
        if (b->after) b->after->before = tail;
        b->after = tail;
        b->bytes = bytes;
        enter_list(list_of(g, tail), tail);
    }
    enter_used(g, b);
    return b;
}

/* Merges b and the block after it; both are free and in no list. */
static void merge(cuda_block *b) {
    cuda_block *second = b->after;
    b->bytes += second->bytes;
    for (int queue = 0; queue < CUDA_MESSAGES; queue++)
        if (second->epoch[queue] > b->epoch[queue]) b->epoch[queue] = second->epoch[queue];
    b->after = second->after;
    if (b->after) b->after->before = b;
    free(second);
}

/* A tensor may be released outside of any call of the GPU, so its context is made current here.  A
 * driver that has lost the GPU has freed its memory. */
static void give_unpooled(cuda *g, cuda_block *b) {
    cuda_context before = NULL;
    cr_cu.CtxGetCurrent(&before);
    if (before != g->context) cr_cu.CtxSetCurrent(g->context);
    cr_cu.MemFree(b->at);
    if (before != g->context) cr_cu.CtxSetCurrent(before);
    g->reserved -= (int64_t)b->bytes;
    g->counters.segments--;
    free(b);
}

static void give(cuda *g, cuda_block *b) {
    g->now -= (int64_t)b->bytes;
    leave_list(&g->used, b);
    if (g->unpooled) {
        give_unpooled(g, b);
        return;
    }
    b->used = false;
    if (b->after && !b->after->used) {
        leave_list(list_of(g, b->after), b->after);
        merge(b);
    }
    if (b->before && !b->before->used) {
        leave_list(list_of(g, b->before), b->before);
        b = b->before;
        merge(b);
    }
    enter_list(list_of(g, b), b);
}

cuda_block *cr_cuda_block_new(cuda *g, const char *op, size_t bytes) { return take_block(g, op, bytes); }

cuda_block *cr_cuda_block_take(cuda *g, const char *op, size_t bytes) {
    if (g->noting) return cr_cuda_graph_take(g->noting, op, bytes);
    cuda_block *b = take_block(g, op, bytes);
    if (b) cuda_use(g, b);
    return b;
}

void cr_cuda_block_give(cuda *g, cuda_block *b) {
    if (g->noting) {
        cr_cuda_graph_give(g->noting, b);
        return;
    }
    cuda_use(g, b);                               /* the epoch may have changed since the block was taken */
    give(g, b);
}

static void give_back(cr_storage *s) {
    cuda *g = (cuda *)(uintptr_t)s->dev;
    const bool held = cr_cuda_held == g;
    if (g->forked) return;
    if (!held) cr_mutex_lock(g->lock);
    give(g, s->data);
    if (!held) cr_mutex_unlock(g->lock);
}

cr_storage *cr_cuda_allocate(const cr_device *d, size_t bytes) {
    cuda *g = cr_cuda_enter("allocate", d);
    if (!g) return NULL;
    g->counters.allocations++;
    cuda_block *b = take_block(g, "allocate", bytes);
    if (cr_cuda_leave(g, b ? CR_OK : CR_NO_MEMORY) != CR_OK) return NULL;
    return cr_storage_new(b, bytes, d, give_back);
}

/* ---- pinned memory of the host, at one address for host and GPU: kernels read and write it over the bus */
static void free_host(cr_storage *s) {
    cuda_block *b = s->data;
    cuda *g = cr_cuda_enter("free", s->dev);
    if (g) {
        cr_cuda_wait(g, "free");
        cr_cu.MemFreeHost((void *)(uintptr_t)b->at);
        cr_cuda_leave(g, CR_OK);
    } else {
        cr_error_clear();                           /* the GPU is lost: the driver has freed it */
    }
    free(b);
}

cr_storage *cr_cuda_allocate_host(const cr_device *d, size_t bytes) {
    static const char op[] = "allocate";
    cuda *g = cr_cuda_enter(op, d);
    if (!g) return NULL;
    void *data = NULL;
    cuda_block *b = calloc(1, sizeof *b);
    cr_status status = b ? cr_cuda_check(g, op, "no pinned memory", cr_cu.MemHostAlloc(&data, bytes ? bytes : 1, 0))
                         : cr_no_memory(op);
    if (status == CR_OK) *b = (cuda_block){.at = (cuda_address)(uintptr_t)data, .bytes = bytes, .host = true};
    else free(b), b = NULL;
    cr_cuda_leave(g, status);
    return b ? cr_storage_new(b, bytes, d, free_host) : NULL;
}

/* Its bytes, after the kernels that used it have ended. */
static unsigned char *host_bytes(cuda *g, const char *op, const cuda_block *b) {
    cr_status status = cr_cuda_wait_epoch(g, op, CUDA_COPIES, CUDA_KERNELS, b->epoch[CUDA_KERNELS]);
    if (status == CR_OK) status = cr_cuda_check(g, op, "cannot wait", cr_cu.StreamSynchronize(g->copies));
    return status == CR_OK ? (unsigned char *)(uintptr_t)b->at : NULL;
}

void cr_cuda_empty_cache(const cr_device *d) {
    cuda *g = cr_cuda_enter("empty_cache", d);
    if (g) {
        empty_pool(g);
        cr_cuda_leave(g, CR_OK);
    } else {
        cr_error_clear();                           /* the GPU is lost: nothing can be freed */
    }
}

/* ---- copies pass through pinned memory in sections: one is filled, or emptied, while others are in flight */

static cr_status open_staging(cuda *g, const char *op) {
    cuda_staging *s = &g->staging;
    if (s->data) return CR_OK;
    void *data = NULL;
    cr_status status = CR_OK;
    for (int i = 0; i < CUDA_SECTIONS && status == CR_OK; i++)
        if (!s->done[i])
            status = cr_cuda_check(g, op, "no event", cr_cu.EventCreate(&s->done[i], CUDA_EVENT_DISABLE_TIMING));
    if (status == CR_OK)
        status = cr_cuda_check(g, op, "no pinned memory",
                               cr_cu.MemHostAlloc(&data, (size_t)CUDA_SECTIONS * CUDA_SECTION_BYTES, 0));
    if (status == CR_OK) s->data = data;
    return status;
}

static unsigned char *section_at(cuda *g, int i) { return g->staging.data + (size_t)i * CUDA_SECTION_BYTES; }

static cr_status section_free(cuda *g, const char *op, int i) {
    cuda_staging *s = &g->staging;
    if (!s->in_flight[i]) return CR_OK;
    s->in_flight[i] = false;
    return cr_cuda_check(g, op, "cannot wait", cr_cu.EventSynchronize(s->done[i]));
}

static cr_status section_sent(cuda *g, const char *op, int i) {
    g->staging.in_flight[i] = true;
    return cr_cuda_check(g, op, "no event", cr_cu.EventRecord(g->staging.done[i], g->copies));
}

/* Sends the section that was filled, and starts the next. */
static cr_status next_section(cuda *g, const char *op) {
    cuda_staging *s = &g->staging;
    cr_status status = s->filled ? section_sent(g, op, s->section) : CR_OK;
    s->section = (s->section + 1) % CUDA_SECTIONS;
    s->filled = 0;
    return status == CR_OK ? section_free(g, op, s->section) : status;
}

static cr_status send(cuda *g, cuda_block *b, size_t at, const unsigned char *from, size_t bytes) {
    cuda_staging *s = &g->staging;
    cuda_address to = b->at + at;
    cr_status status = open_staging(g, "write");
    if (status == CR_OK)
        status = cr_cuda_wait_epoch(g, "write", CUDA_COPIES, CUDA_KERNELS, b->epoch[CUDA_KERNELS]);
    b->epoch[CUDA_COPIES] = g->queue[CUDA_COPIES].epoch;
    while (bytes && status == CR_OK) {
        if (s->filled == CUDA_SECTION_BYTES && (status = next_section(g, "write")) != CR_OK) return status;
        const size_t room = CUDA_SECTION_BYTES - s->filled, n = bytes < room ? bytes : room;
        unsigned char *part = section_at(g, s->section) + s->filled;
        memcpy(part, from, n);
        cuda_span *span = cr_cuda_span_begin(g, CUDA_COPIES, "write", "copy to the GPU");
        status = cr_cuda_check(g, "write", "cannot write", cr_cu.MemcpyHtoDAsync(to, part, n, g->copies));
        cr_cuda_span_stop(g, span);
        s->filled += n;
        to += n, from += n, bytes -= n;
    }
    return status == CR_OK ? cr_cuda_end_epoch(g, "write", CUDA_COPIES) : status;
}

cr_status cr_cuda_upload(const cr_device *d, cr_storage *dst, size_t at, const void *src, size_t bytes) {
    cuda *g = cr_cuda_enter("write", d);
    if (!g) return cr_error_status();
    g->counters.uploads++;
    cuda_block *b = dst->data;
    if (!b->host) return cr_cuda_leave(g, send(g, b, at, src, bytes));
    unsigned char *to = host_bytes(g, "write", b);
    if (to) memcpy(to + at, src, bytes);
    return cr_cuda_leave(g, to ? CR_OK : cr_error_status());
}

/* One part is copied out of its section while the next is in flight into another section. */
cr_status cr_cuda_receive(cuda *g, const char *op, void *dst, cuda_address from, size_t bytes) {
    unsigned char *to = dst, *waiting = NULL;
    size_t waiting_bytes = 0;
    int section = 0;
    cr_status status = open_staging(g, op);
    while (status == CR_OK && (bytes || waiting)) {
        const size_t n = bytes < CUDA_SECTION_BYTES ? bytes : CUDA_SECTION_BYTES;
        if (n) {
            if ((status = next_section(g, op)) != CR_OK) return status;
            cuda_span *span = cr_cuda_span_begin(g, CUDA_COPIES, op, "copy to the host");
            status = cr_cuda_check(g, op, "cannot read",
                                   cr_cu.MemcpyDtoHAsync(section_at(g, g->staging.section), from, n, g->copies));
            cr_cuda_span_stop(g, span);
            g->staging.filled = CUDA_SECTION_BYTES;
            if (status == CR_OK) status = section_sent(g, op, g->staging.section);
        }
        if (status == CR_OK && waiting) {
            status = section_free(g, op, section);
            if (status == CR_OK) memcpy(waiting, section_at(g, section), waiting_bytes);
        }
        waiting = n ? to : NULL;
        waiting_bytes = n;
        section = g->staging.section;
        to += n, from += n, bytes -= n;
    }
    return status;
}

cr_status cr_cuda_read_bytes(cuda *g, const char *op, void *dst, cuda_address from, size_t bytes, uint64_t epoch) {
    cr_status status = cr_cuda_wait_epoch(g, op, CUDA_COPIES, CUDA_KERNELS, epoch);
    if (status == CR_OK) status = cr_cuda_receive(g, op, dst, from, bytes);
    return status == CR_OK ? cr_cuda_faults_poll(g, op) : status;
}

cr_status cr_cuda_download(const cr_device *d, void *dst, cr_storage *src, size_t at, size_t bytes) {
    cuda *g = cr_cuda_enter("read", d);
    if (!g) return cr_error_status();
    g->counters.downloads++;
    const cuda_block *b = src->data;
    if (b->host) {
        const unsigned char *from = host_bytes(g, "read", b);
        if (from) memcpy(dst, from + at, bytes);
        return cr_cuda_leave(g, from ? cr_cuda_faults_poll(g, "read") : cr_error_status());
    }
    return cr_cuda_leave(g, cr_cuda_read_bytes(g, "read", dst, b->at + at, bytes, b->epoch[CUDA_KERNELS]));
}
