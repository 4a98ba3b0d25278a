/* pool.c - cells for Values.
 *
 * Freed cells are kept in magazines of up to 512, as lists through the cells themselves.  A thread fills and empties one, keeps a
 * second full one so that it does not run to the depot at each turn, and trades whole ones there: a lock for 512 cells (Bonwick
 * and Adams, "Magazines and Vmem", 2001). */
#include "pool.h"
#include "../core/os.h"

#include <stdlib.h>

enum { CELL = 64, MAGAZINE = 512, SLAB = 2 << 20 };            /* bytes, cells, bytes */

typedef struct cell {
    struct cell *next;                              /* in its magazine */
    struct cell *other;                             /* in the first cell of one: the next magazine of the depot */
    int count;                                      /* in the first cell of one: cells in it */
} cell;

typedef struct hand { cell *first, *spare; int count; } hand;            /* count: of the list at first; spare is full, or NULL */
bool cr_cells_serial;
static _Thread_local hand own;
static hand common;                                 /* in a library that was loaded late, reading a thread-local costs as much as all the rest */
static inline hand *at_hand(void) { return cr_cells_serial ? &common : &own; }

static struct { cr_spinlock lock; cell *first; char *slab; size_t left; int64_t taken; } depot;

static void hand_in(cell *magazine, int count) {
    if (!magazine) return;
    magazine->count = count;
    cr_spin_lock(&depot.lock);
    magazine->other = depot.first;
    depot.first = magazine;
    cr_spin_unlock(&depot.lock);
}

static void hand_in_all(void) {                     /* the thread ends */
    hand_in(own.first, own.count);
    hand_in(own.spare, MAGAZINE);
    own = (hand){0};
}

/* A magazine of cells that nobody had before, under the depot's lock; shorter at the end of a slab. */
static cell *cut(void) {
    if (depot.left < CELL) {
        char *slab = cr_os_pages(SLAB, true);
        if (!slab) return NULL;
        depot.slab = slab;
        depot.left = SLAB;
        depot.taken += SLAB;
    }
    const int count = depot.left / CELL < MAGAZINE ? (int)(depot.left / CELL) : MAGAZINE;
    char *at = depot.slab;
    for (int i = 0; i < count; i++, at += CELL) ((cell *)(void *)at)->next = i + 1 < count ? (cell *)(void *)(at + CELL) : NULL;
    cell *magazine = (cell *)(void *)depot.slab;
    magazine->count = count;
    depot.slab = at;
    depot.left -= (size_t)count * CELL;
    return magazine;
}

static void refill(hand *mine) {
    if (mine->spare) {
        mine->first = mine->spare;
        mine->count = MAGAZINE;
        mine->spare = NULL;
        return;
    }
    if (mine == &own) cr_os_at_thread_exit(hand_in_all);
    cr_spin_lock(&depot.lock);
    mine->first = depot.first;
    if (depot.first) depot.first = depot.first->other;
    else mine->first = cut();
    cr_spin_unlock(&depot.lock);
    mine->count = mine->first ? mine->first->count : 0;
}

#if defined(__SANITIZE_ADDRESS__)                   /* the sanitizer is to see every cell's end */
void *cr_cell_take(void) { (void)refill; (void)at_hand; return aligned_alloc(CELL, CELL); }
void cr_cell_give(void *p) { free(p); }
#else
void *cr_cell_take(void) {
    hand *mine = at_hand();
    if (!mine->first) refill(mine);
    cell *c = mine->first;
    if (!c) return NULL;
    mine->first = c->next;
    mine->count--;
    __builtin_prefetch(mine->first, 1);              /* freed long ago, perhaps: the next call will write there */
    return c;
}

void cr_cell_give(void *p) {
    hand *mine = at_hand();
    cell *c = p;
    if (mine->count == MAGAZINE) {
        hand_in(mine->spare, MAGAZINE);
        mine->spare = mine->first;
        mine->first = NULL;
        mine->count = 0;
    }
    if (!mine->first && mine == &own) cr_os_at_thread_exit(hand_in_all);
    c->next = mine->first;
    mine->first = c;
    mine->count++;
}
#endif

int64_t cr_cell_memory(void) {
    cr_spin_lock(&depot.lock);
    const int64_t taken = depot.taken;
    cr_spin_unlock(&depot.lock);
    return taken;
}
