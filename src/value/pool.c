/* pool.c - cells for Values, in pages of 1023.
 *
 * A page whose cells are all free is used from its start again.  Therefore the nodes of a new graph,
 * made in the memory of a freed one, lie in order of creation as in fresh memory.  In the order of a
 * free list, examples/moons_value.py took ten times as long. A page belongs to a thread until the
 * thread ends. */
#include "pool.h"
#include "../core/os.h"

#include <stddef.h>
#include <stdlib.h>

enum { CELL = 64, PAGE = 64 << 10, SLAB = 2 << 20 };           /* bytes */

typedef union cell { union cell *next; char bytes[CELL]; } cell;
typedef struct page {                               /* the page's first cell */
    struct page *next;                              /* in a list of pages with free cells */
    cell *free, *fresh;                             /* free: released cells; fresh: the first cell not used since the
                                                     * page was empty */
    int used;
} page;

/* page: the source of new cells; others: further pages with free cells */
typedef struct page_set { page *page, *others; } page_set;
bool cr_cells_serial;
static _Thread_local page_set own;
static page_set common;                                 /* serial mode: in a library loaded late, reading a thread-
                                                         * local costs as much as the rest of an allocation */
static inline page_set *current(void) { return cr_cells_serial ? &common : &own; }

static struct { cr_spinlock lock; page *pages; char *slab; size_t left; int64_t taken; } depot;

static inline cell *first(page *p) { return (cell *)(void *)p + 1; }
static inline cell *end(page *p) { return (cell *)(void *)p + PAGE / CELL; }
static inline bool has_cells(page *p) { return p->free || p->fresh < end(p); }

static void return_pages(void) {                     /* the thread ends; cells that it did not release stay in use */
    if (own.page && has_cells(own.page)) {
        own.page->next = own.others;
        own.others = own.page;
    }
    cr_spin_lock(&depot.lock);
    for (page *p; (p = own.others); ) {
        own.others = p->next;
        p->next = depot.pages;
        depot.pages = p;
    }
    cr_spin_unlock(&depot.lock);
    own.page = NULL;
}

/* A new page, under the depot's lock. */
static page *cut_page(void) {
    if (!depot.left) {
        depot.slab = cr_os_pages(SLAB, true);
        if (!depot.slab) return NULL;
        depot.left = SLAB;
        depot.taken += SLAB;
    }
    page *p = (page *)(void *)depot.slab;
    *p = (page){.fresh = first(p)};
    depot.slab += PAGE;
    depot.left -= PAGE;
    return p;
}

/* In the child of a fork a thread that no longer exists may hold the lock: what it was changing is given up. */
static void after_fork(void) {
    if (!depot.lock.held) return;
    depot.pages = NULL;
    depot.left = 0;
}
__attribute__((constructor)) static void watch_forks(void) { cr_os_at_fork_child(after_fork); }

static page *next_page(page_set *h) {
    page *p = h->others;
    if (p) { h->others = p->next; return h->page = p; }
    if (h == &own) cr_os_at_thread_exit(return_pages);
    cr_spin_lock(&depot.lock);
    p = depot.pages;
    if (p) depot.pages = p->next;
    else p = cut_page();
    cr_spin_unlock(&depot.lock);
    return h->page = p;
}

#if defined(__SANITIZE_ADDRESS__)                   /* lets the sanitizer see the bounds of every cell */
void *cr_cell_take(void) { (void)next_page; (void)current; return cr_os_aligned(CELL, CELL); }
void cr_cell_give(void *p) { cr_os_aligned_free(p); }
#else
void *cr_cell_take(void) {
    page_set *h = current();
    page *p = h->page;
    if ((!p || !has_cells(p)) && !(p = next_page(h))) return NULL;
    cell *c = p->free;
    if (c) p->free = c->next;
    else c = p->fresh++;
    p->used++;
    return c;
}

void cr_cell_give(void *memory) {
    cell *c = memory;
    page *p = (page *)(void *)((char *)c - (uintptr_t)c % PAGE);
    page_set *h = current();
    const bool was_full = !has_cells(p);
    c->next = p->free;
    p->free = c;
    if (!--p->used) {
        p->free = NULL;
        p->fresh = first(p);
    }
    if (was_full && p != h->page) {
        p->next = h->others;
        h->others = p;
    }
}
#endif

int64_t cr_cell_memory(void) {
    cr_spin_lock(&depot.lock);
    const int64_t taken = depot.taken;
    cr_spin_unlock(&depot.lock);
    return taken;
}
