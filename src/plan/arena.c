/* arena.c - puts temporaries into one block of memory: where lives overlap, offsets do not.  The largest first. */
#include "plan.h"

#include <stdlib.h>

static size_t rounded(const cr_buffer *b) {
    const size_t unit = b->dev->host ? 64 : 512;
    return (b->bytes + unit - 1 + !b->bytes) / unit * unit;
}

typedef struct by_size { int buffer; size_t bytes; } by_size;

static int larger_first(const void *a, const void *b) {
    const by_size *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

static bool both_live(const cr_buffer *a, const cr_buffer *b) { return a->first <= b->last && b->first <= a->last; }

/* The lowest free offset for b among those placed already, which are in order of their offsets. */
static size_t lowest_offset(const cr_plan *p, const by_size *placed, int n, const cr_buffer *b) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const cr_buffer *o = &p->buffers[placed[i].buffer];
        if (o->dev != b->dev || !both_live(o, b)) continue;
        if (at + rounded(b) <= o->at) break;
        if (o->at + rounded(o) > at) at = o->at + rounded(o);
    }
    return at;
}

cr_status cr_pass_arena(cr_plan *p) {
    const bool share = cr_pass_on("arena");
    const size_t room = sizeof(by_size) * (size_t)(p->n_buffers + 1);
    by_size *list = malloc(room), *placed = malloc(room);
    int n = 0;
    if (!list || !placed) {
        free(list);
        free(placed);
        return cr_no_memory("plan");
    }
    cr_plan_uses(p);
    for (int i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].kind == CR_BUFFER_TEMPORARY && p->buffers[i].first >= 0)
            list[n++] = (by_size){i, p->buffers[i].bytes};
    qsort(list, (size_t)n, sizeof *list, larger_first);
    p->arena = p->temporaries = 0;
    for (int i = 0; i < n; i++) {
        cr_buffer *b = &p->buffers[list[i].buffer];
        b->at = share ? lowest_offset(p, placed, i, b) : p->temporaries;
        p->temporaries += rounded(b);
        if (b->at + rounded(b) > p->arena) p->arena = b->at + rounded(b);
        int k = i;
        for (; k > 0 && p->buffers[placed[k - 1].buffer].at > b->at; k--) placed[k] = placed[k - 1];
        placed[k] = list[i];
    }
    free(list);
    free(placed);
    return CR_OK;
}
