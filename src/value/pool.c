/* pool.c - cells for Values, in pages of 1023.
 *
 * A page that is wholly free is handed out from its start again.  That is what the pages are for: the nodes of a graph that is made where
 * another one was freed lie in the order in which they were made, as in fresh memory, and not in the order of some free list;
 * where they did not, examples/moons_value.py took ten times as long.  Pages belong to a thread until it ends. */
#include "pool.h"
#include "../core/os.h"

#include <stddef.h>
#include <stdlib.h>

enum { CELL = 64, PAGE = 64 << 10, SLAB = 2 << 20 };           /* bytes */

typedef union cell { union cell *next; char bytes[CELL]; } cell;
typedef struct page {                               /* in the place of the first cell */
    struct page *next;                              /* in a list of pages with free cells */
    cell *free, *fresh;                             /* given back; the first of those never taken since the page was empty */
    int used;
} page;

typedef struct hand { page *page, *others; } hand;  /* the page that is taken from; others with free cells */
bool cr_cells_serial;
static _Thread_local hand own;
static hand common;                                 /* in a library that was loaded late, reading a thread-local costs as much as all the rest */
static inline hand *at_hand(void) { return cr_cells_serial ? &common : &own; }

static struct { cr_spinlock lock; page *pages; char *slab; size_t left; int64_t taken; } depot;

static inline cell *first(page *p) { return (cell *)(void *)p + 1; }
static inline cell *end(page *p) { return (cell *)(void *)p + PAGE / CELL; }
static inline bool has_cells(page *p) { return p->free || p->fresh < end(p); }

static void hand_in_all(void) {                     /* the thread ends; what it did not release stays taken */
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

/* A page that nobody had before, under the depot's lock. */
static page *cut(void) {
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

static page *next_page(hand *h) {
    page *p = h->others;
    if (p) { h->others = p->next; return h->page = p; }
    if (h == &own) cr_os_at_thread_exit(hand_in_all);
    cr_spin_lock(&depot.lock);
    p = depot.pages;
    if (p) depot.pages = p->next;
    else p = cut();
    cr_spin_unlock(&depot.lock);
    return h->page = p;
}

#if defined(__SANITIZE_ADDRESS__)                   /* the sanitizer is to see every cell's end */
void *cr_cell_take(void) { (void)next_page; (void)at_hand; return aligned_alloc(CELL, CELL); }
void cr_cell_give(void *p) { free(p); }
#else
void *cr_cell_take(void) {
    hand *h = at_hand();
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
    hand *h = at_hand();
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
