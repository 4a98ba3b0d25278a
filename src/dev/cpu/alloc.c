/* alloc.c - memory of the cpu device.  Freed blocks are kept by size and reused, because fresh pages
 * cost more than most kernels.
 *
 * The size of a block follows from the bytes requested, so a block needs no header.  Up to 256 KiB:
 * four sizes per doubling, carved from slabs of one huge page whose first line counts the blocks in
 * use.  Above: separate regions, eight sizes per doubling.  Each thread keeps a few of the smallest
 * blocks without a lock; for other threads these count as in use. Before a new region is mapped, free
 * regions are unmapped, the largest first, as far as all memory would exceed 1.5 times the peak in
 * use: programs with ever-changing sizes stay bounded, steady programs never unmap. */
#include "cpu.h"
#include "../../core/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, PAGE_GROUP = 1 << 16, SMALL = 1 << 18, SLAB = 2 << 20 };       /* bytes */
enum { SMALL_CLASSES = 64, LARGE_CLASSES = 512 };

typedef struct block { struct block *next; const void *user; } block;         /* the first bytes of a free block */
typedef struct slab { struct slab *next; int64_t used; } slab;  /* the first line of a slab, 2 MiB aligned */

static struct {
    cr_spinlock lock;                               /* held for a few instructions, longer only in empty_cache */
    block *small[SMALL_CLASSES], *large[LARGE_CLASSES];
    slab *slabs;
    char *fresh, *fresh_end;                        /* the part of the newest slab that is not carved yet */
    int64_t current, peak, held;                    /* bytes: in use, peak in use, mapped */
    int64_t shown;                                  /* the peak since cr_reset_peak; `peak` limits what is kept */
    size_t limit;                                   /* cr_cpu_limit_memory */
} cache;

/* ---- sizes */

/* Class of n units with 2^log_steps classes to each doubling; *size: units of the class's blocks */
static inline int size_class(size_t n, int log_steps, size_t *size) {
    size_t steps = (size_t)1 << log_steps;
    if (n <= steps) { *size = n ? n : 1; return (int)*size - 1; }
    int e = 63 - __builtin_clzll(n - 1) - log_steps;
    size_t q = (n - 1) >> e;                        /* steps <= q < 2 steps */
    *size = (q + 1) << e;
    return (int)(steps * (size_t)e + q);
}
/* the inverses: of class c */
static size_t large_size(int c) {
    if (c < 8) return (size_t)(c + 1) * PAGE_GROUP;
    return (size_t)(c % 8 + 9) << (c / 8 - 1) << 16;
}
#if !defined(__SANITIZE_ADDRESS__)
static size_t small_size(int c) { return LINE * (c < 4 ? (size_t)(c + 1) : (size_t)(c % 4 + 5) << (c / 4 - 1)); }
#endif

/* ---- regions, from the system or from cr_set_allocator */
static cr_allocator allocator;

cr_status cr_set_allocator(const cr_allocator *a) {
    if (a && (!a->take || !a->give)) return cr_fail(CR_BAD_VALUE, "set_allocator", "take and give are both needed");
    cr_spin_lock(&cache.lock);
    const int64_t held = cache.held;
    if (!held) allocator = a ? *a : (cr_allocator){0};
    cr_spin_unlock(&cache.lock);
    if (held)
        return cr_fail(CR_RUNTIME, "set_allocator", "%lld bytes are held: call it before the first tensor, or behind "
                       "cr_empty_cache", (long long)held);
    return CR_OK;
}

static slab *slab_of(const void *p) { return (slab *)((uintptr_t)p & ~(uintptr_t)(SLAB - 1)); }

static void give_region(void *p, size_t bytes) {
    if (allocator.take) allocator.give(p, bytes, allocator.ctx);
    else cr_os_pages_free(p, bytes);
}

/* ---- unmapping, outside the lock */
/* Removes free regions from the lists, the largest first, until `held` is at most `most`; returns them chained. */
static block *shed_regions(int64_t most, size_t sizes[], int room, int *n) {
    block *chain = NULL;
    *n = 0;
    for (int c = LARGE_CLASSES - 1; c >= 0 && *n < room; c--)
        while (cache.large[c] && cache.held > most && *n < room) {
            block *b = cache.large[c];
            cache.large[c] = b->next;
            b->next = chain;
            chain = b;
            sizes[(*n)++] = large_size(c);
            cache.held -= (int64_t)large_size(c);
        }
    return chain;
}

/* Unmaps regions until at most `most` bytes are held, or no free region is left. */
static void release_regions(int64_t most) {
    size_t sizes[64];
    for (int n = 64; n == 64; ) {
        cr_spin_lock(&cache.lock);
        block *chain = shed_regions(most, sizes, 64, &n);
        cr_spin_unlock(&cache.lock);
        for (int i = n - 1; i >= 0; i--) {          /* the first of the chain was removed last */
            block *next = chain->next;
            give_region(chain, sizes[i]);
            chain = next;
        }
    }
}

static void release_slabs(void) {
    slab *unused = NULL;
    cr_spin_lock(&cache.lock);
    for (int c = 0; c < SMALL_CLASSES; c++)
        for (block **at = &cache.small[c]; *at; ) {
            if (slab_of(*at)->used) at = &(*at)->next;
            else *at = (*at)->next;
        }
    if (cache.fresh && !slab_of(cache.fresh_end - 1)->used) cache.fresh = cache.fresh_end = NULL;
    for (slab **at = &cache.slabs; *at; ) {
        slab *s = *at;
        if (s->used) { at = &s->next; continue; }
        *at = s->next;
        s->next = unused;
        unused = s;
        cache.held -= SLAB;
    }
    cr_spin_unlock(&cache.lock);
    while (unused) {
        slab *next = unused->next;
        give_region(unused, SLAB);
        unused = next;
    }
}

static void give_magazine(void);

void cr_cpu_empty_cache(const cr_device *d) {
    (void)d;
    give_magazine();
    release_regions(0);
    release_slabs();
}

/* In the child of a fork a thread that no longer exists may hold the lock; the lists that it was
 * changing are abandoned. */
static void after_fork(void) {
    if (!cache.lock.held) return;
    for (int c = 0; c < SMALL_CLASSES; c++) cache.small[c] = NULL;
    for (int c = 0; c < LARGE_CLASSES; c++) cache.large[c] = NULL;
    cache.fresh = cache.fresh_end = NULL;
    cache.lock.held = 0;
}
__attribute__((constructor)) static void watch_forks(void) { cr_os_at_fork_child(after_fork); }

/* ---- allocating and freeing */
static _Thread_local char me;
const void *cr_cpu_thread(void) { return &me; }
void cr_cpu_give(void *p, size_t bytes) { cr_cpu_give_to(&me, p, bytes); }

static void count(int64_t bytes) {
    cache.current += bytes;
    if (cache.current > cache.peak) cache.peak = cache.current;
    if (cache.current > cache.shown) cache.shown = cache.current;
}

#if defined(__SANITIZE_ADDRESS__)
/* Keeps nothing, so that the sanitizer checks the bounds and the lifetime of every block. */
static void give_magazine(void) {}
static int64_t bytes_at_hand(void) { return 0; }
static size_t lines(size_t bytes) { return bytes ? (bytes + LINE - 1) / LINE * LINE : LINE; }

static void *take_block(size_t size) {
    return allocator.take ? allocator.take(size, LINE, allocator.ctx) : cr_os_aligned(LINE, size);
}
static void give_block(void *p, size_t size) {
    if (allocator.take) allocator.give(p, size, allocator.ctx);
    else cr_os_aligned_free(p);
}

static void *take_larger(size_t *bytes) { return (void)bytes, NULL; }
static void *take_memory(size_t bytes) {
    size_t size = lines(bytes);
    /* the sanitizer reports larger requests as errors */
    void *p = (uint64_t)size < (uint64_t)1 << 40 ? take_block(size) : NULL;
    cr_spin_lock(&cache.lock);
    bool fits = p && (!cache.limit || (size_t)cache.held + size <= cache.limit);
    if (fits) {
        cache.held += (int64_t)size;
        count((int64_t)size);
    }
    cr_spin_unlock(&cache.lock);
    if (fits) return p;
    if (p) give_block(p, size);
    return NULL;
}
void cr_cpu_give_to(const void *thread, void *p, size_t bytes) {
    (void)thread;
    int64_t size = (int64_t)lines(bytes);
    if (!p) return;
    give_block(p, (size_t)size);
    cr_spin_lock(&cache.lock);
    cache.held -= size;
    cache.current -= size;
    cr_spin_unlock(&cache.lock);
}
#else

static int small_class(size_t bytes, size_t *size) {
    int c = size_class((bytes + LINE - 1) / LINE, 2, size);
    *size *= LINE;
    return c;
}
static int large_class(size_t bytes, size_t *size) {
    int c = size_class((bytes + PAGE_GROUP - 1) / PAGE_GROUP, 3, size);
    *size *= PAGE_GROUP;
    return c;
}

/* Takes a block from a free list, preferably one of the first few that this thread used last: writing
 * to lines that another core has in its cache costs 25 ns a line. */
static block *take_near(block **list) {
    block **at = list;
    for (int i = 0; i < 8 && *at && (*at)->user != &me; i++) at = &(*at)->next;
    if (!*at || (*at)->user != &me) at = list;
    block *b = *at;
    if (b) *at = b->next;
    return b;
}

static void put_near(block **list, block *b, const void *thread) {
    *b = (block){*list, thread};
    *list = b;
}

static void *take_region(size_t bytes) {
    if (allocator.take) return allocator.take(bytes, bytes >= SLAB ? SLAB : LINE, allocator.ctx);
    return cr_os_pages(bytes, bytes >= SLAB);
}

/* Maps new pages. */
static void *map(size_t bytes) {
    cr_spin_lock(&cache.lock);
    bool fits = !cache.limit || (bytes <= cache.limit && (size_t)cache.held <= cache.limit - bytes);
    if (fits) cache.held += (int64_t)bytes;
    cr_spin_unlock(&cache.lock);
    void *p = fits ? take_region(bytes) : NULL;
    if (fits && !p) {
        cr_spin_lock(&cache.lock);
        cache.held -= (int64_t)bytes;
        cr_spin_unlock(&cache.lock);
    }
    return p;
}

/* Turns the rest of the newest slab into free blocks, the largest first. */
static void carve_rest(void) {
    size_t size = SMALL, exact;
    while (cache.fresh_end - cache.fresh >= LINE) {
        while (size > (size_t)(cache.fresh_end - cache.fresh)) size = size > 4 * LINE ? size / 2 : size - LINE;
        int c = small_class(size, &exact);
        block *b = (block *)(void *)cache.fresh;
        cache.fresh += exact;
        put_near(&cache.small[c], b, NULL);
    }
}

/* ---- free lists of the smallest blocks, per thread */
enum { AT_HAND_CLASSES = 12, AT_HAND = 32 };        /* up to 1 KiB; blocks of a class */
static _Thread_local struct {
    block *first[AT_HAND_CLASSES];
    uint8_t n[AT_HAND_CLASSES];
    int64_t bytes;
    bool watched;
} magazine;

static void give_small(block *b, int c, size_t size, const void *thread) {
    cr_spin_lock(&cache.lock);
    slab_of(b)->used--;
    put_near(&cache.small[c], b, thread);
    cache.current -= (int64_t)size;
    cr_spin_unlock(&cache.lock);
}

static void give_magazine(void) {
    for (int c = 0; c < AT_HAND_CLASSES; c++)
        for (block *b; (b = magazine.first[c]); ) {
            magazine.first[c] = b->next;
            give_small(b, c, small_size(c), &me);
        }
    memset(&magazine, 0, sizeof magazine);
}

static bool keep_at_hand(block *b, int c, size_t size) {
    if (c >= AT_HAND_CLASSES || magazine.n[c] == AT_HAND) return false;
    if (!magazine.watched) cr_os_at_thread_exit(give_magazine);
    magazine.watched = true;
    magazine.n[c]++;
    magazine.bytes += (int64_t)size;
    b->next = magazine.first[c];
    magazine.first[c] = b;
    return true;
}

static block *take_at_hand(int c, size_t size) {
    block *b = c < AT_HAND_CLASSES ? magazine.first[c] : NULL;
    if (!b) return NULL;
    magazine.n[c]--;
    magazine.bytes -= (int64_t)size;
    magazine.first[c] = b->next;
    return b;
}
static int64_t bytes_at_hand(void) { return magazine.bytes; }

static void *take_small(size_t bytes) {
    size_t size;
    int c = small_class(bytes, &size);
    block *near = take_at_hand(c, size);
    if (near) return near;
    for (;;) {
        cr_spin_lock(&cache.lock);
        block *b = take_near(&cache.small[c]);
        if (!b && (size_t)(cache.fresh_end - cache.fresh) >= size) {
            b = (block *)(void *)cache.fresh;
            cache.fresh += size;
        }
        if (b) {
            slab_of(b)->used++;
            count((int64_t)size);
        }
        cr_spin_unlock(&cache.lock);
        if (b) return b;
        slab *s = map(SLAB);
        if (!s) return NULL;
        cr_spin_lock(&cache.lock);
        carve_rest();
        *s = (slab){.next = cache.slabs};
        cache.slabs = s;
        cache.fresh = (char *)s + LINE;
        cache.fresh_end = (char *)s + SLAB;
        cr_spin_unlock(&cache.lock);
    }
}

static void *take_large(size_t bytes) {
    size_t size;
    int c = large_class(bytes, &size);
    cr_spin_lock(&cache.lock);
    block *b = take_near(&cache.large[c]);
    if (b) count((int64_t)size);
    int64_t need = cache.current + (int64_t)size,
            most = (need > cache.peak ? need : cache.peak) / 2 * 3 - (int64_t)size;
    bool shed = !b && cache.held > most;
    cr_spin_unlock(&cache.lock);
    if (b) return b;
    if (shed) release_regions(most);
    if (!(b = map(size))) return NULL;
    cr_spin_lock(&cache.lock);
    count((int64_t)size);
    cr_spin_unlock(&cache.lock);
    return b;
}

static void *take_memory(size_t bytes) { return bytes <= SMALL ? take_small(bytes) : take_large(bytes); }

static void *take_larger(size_t *bytes) {
    size_t size;
    int c = large_class(*bytes, &size);
    cr_spin_lock(&cache.lock);
    while (c < LARGE_CLASSES && !cache.large[c]) c++;
    block *b = c < LARGE_CLASSES ? take_near(&cache.large[c]) : NULL;
    if (b) count((int64_t)(*bytes = large_size(c)));
    cr_spin_unlock(&cache.lock);
    return b;
}

void cr_cpu_give_to(const void *thread, void *p, size_t bytes) {
    if (!p) return;
    size_t size;
    block *b = p;
    int c = bytes <= SMALL ? small_class(bytes, &size) : large_class(bytes, &size);
    if (bytes <= SMALL) {
        if (!keep_at_hand(b, c, size)) give_small(b, c, size, thread);
        return;
    }
    cr_spin_lock(&cache.lock);
    put_near(&cache.large[c], b, thread);
    cache.current -= (int64_t)size;
    cr_spin_unlock(&cache.lock);
}
#endif

void *cr_cpu_try_take(size_t bytes) {
    if (bytes > SIZE_MAX >> 2) return NULL;         /* beyond any address space; rounding up would overflow */
    void *p = take_memory(bytes);
    if (p) return p;
    cr_cpu_empty_cache(NULL);
    return take_memory(bytes);
}

static cr_text size_text(double bytes) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    cr_text t;
    int i = 0;
    for (; bytes >= 1024 && i < 6; i++) bytes /= 1024;
    snprintf(t.s, sizeof t.s, i ? "%.1f %s" : "%.0f %s", bytes, unit[i]);
    return t;
}

void *cr_cpu_take(size_t bytes) {
    void *p = cr_cpu_try_take(bytes);
    if (p) return p;
    cr_memory m = cr_cpu_memory(NULL);
    cr_fail(CR_NO_MEMORY, "cpu", "out of memory: asked %s, %s in use, at most %s so far", size_text((double)bytes).s,
            size_text((double)m.current).s, size_text((double)m.peak).s);
    return NULL;
}

void *cr_cpu_take_room(size_t *bytes) {
    void *p = *bytes > SMALL ? take_larger(bytes) : NULL;
    return p ? p : cr_cpu_take(*bytes);
}

static void give_back(cr_storage *s) { cr_cpu_give(s->data, s->bytes); }
static void give_both(cr_storage *s) { cr_cpu_give(s, LINE + s->bytes); }

/* A small storage: the struct is the first line of its block. */
cr_storage *cr_cpu_allocate(const cr_device *d, size_t bytes) {
    _Static_assert(sizeof(cr_storage) <= LINE, "a storage fits a line");
    if (!cr_cpu_vec()) return cr_fail(CR_RUNTIME, "cpu", "this processor lacks x86-64-v2 (SSE4.2)"), NULL;
    const bool few = bytes <= 16 * LINE;
    char *p = cr_cpu_take(few ? LINE + bytes : bytes);
    if (!p) return NULL;
    return few ? cr_storage_place(p, p + LINE, bytes, d, give_both) : cr_storage_new(p, bytes, d, give_back);
}

bool cr_cpu_owns(const cr_storage *s) { return s->free == give_back || s->free == give_both; }

cr_memory cr_cpu_memory(const cr_device *d) {
    (void)d;
    cr_spin_lock(&cache.lock);
    cr_memory m = {.current = cache.current - bytes_at_hand(), .peak = cache.shown};
    m.cached = cache.held - m.current;
    cr_spin_unlock(&cache.lock);
    return m;
}

void cr_cpu_reset_peak(const cr_device *d) {
    (void)d;
    cr_spin_lock(&cache.lock);
    cache.shown = cache.current;
    cr_spin_unlock(&cache.lock);
}

void cr_cpu_limit_memory(size_t bytes) {
    cr_spin_lock(&cache.lock);
    cache.limit = bytes;
    cr_spin_unlock(&cache.lock);
}
