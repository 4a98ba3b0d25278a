/* graph.c - steps of a device that launches many kernels as one (dev.h, cr_graphing): stretches of the plan.
 *
 * The first run of an instance watches each step.  The second divides what can be noted into stretches, and those into
 * parts of three kinds: the same in each run; the same while inputs and results stay where they are; new in each run,
 * because of random numbers, params of an update, or an index that may be out of range.  Parts of the first kind are
 * noted once. */
#include "../dev/trace.h"
#include "plan.h"
#include "../core/out.h"

#include <stdlib.h>

enum { LEAST = 2 };                                 /* steps of a graph */
typedef enum kind { UNSEEN, SAME, MOVABLE, FRESH, APART } kind;

typedef struct part {
    int from, to;
    kind kind;
    int n_movable, *movable;                        /* buffers of inputs and results, and where they were */
    uint64_t *address;
} part;
typedef struct stretch {
    int from, to, n; part *parts;
    bool *again;
    const cr_device *dev;
    cr_graph *graph;                                /* NULL: the device refused it */
} stretch;
struct cr_stretches {
    kind *kinds;                                    /* of each step */
    cr_graph_marks before;
    cr_storage **used;
    bool divided[2];                                /* the forward and the backward pass */
    int n; stretch *of; int64_t room;               /* in order of their steps in each pass */
};

static const cr_device *device_of(const cr_plan *p, const cr_step *s) {
    return s->n_operands ? p->buffers[s->operands[0].buffer].dev : NULL;
}

static bool may_be_noted(const cr_plan *p, const cr_step *s) {
    const cr_device *dev = device_of(p, s);
    return s->kind == CR_STEP_KERNEL && dev && dev->graphing;
}

cr_status cr_stretches_new(const cr_plan *p, struct cr_stretches **out) {
    int n = 0;
    *out = NULL;
    for (int i = 0; i < p->n_steps; i++) n += may_be_noted(p, &p->steps[i]);
    if (n < LEAST || !cr_pass_on("graph")) return CR_OK;
    struct cr_stretches *all = calloc(1, sizeof *all);
    if (!all) return cr_no_memory("plan_run");
    all->kinds = calloc((size_t)p->n_steps, sizeof *all->kinds);
    all->used = malloc(sizeof *all->used * (size_t)(p->n_buffers + p->n_devices));
    if (!all->kinds || !all->used) { cr_stretches_free(all); return cr_no_memory("plan_run"); }
    *out = all;
    return CR_OK;
}

static void stretch_clear(stretch *s) {
    if (s->graph) s->dev->graphing->free(s->graph);
    for (int i = 0; s->parts && i < s->n; i++) { free(s->parts[i].movable); free(s->parts[i].address); }
    free(s->parts);
    free(s->again);
}

void cr_stretches_free(struct cr_stretches *all) {
    if (!all) return;
    for (int i = 0; i < all->n; i++) stretch_clear(&all->of[i]);
    free(all->of), free(all->kinds), free(all->used);
    free(all);
}

/* ---- what kind of step is it? */
static bool new_in_each_run(const cr_plan *p, const cr_step *s) {
    return (s->draw >= 0 && p->draws[s->draw].g) || cr_live_params(p, s);
}

static bool is_movable(const cr_buffer *b) { return b->kind == CR_BUFFER_INPUT || b->kind == CR_BUFFER_OUTPUT; }

static bool has_movable(const cr_plan *p, const cr_step *s) {
    for (int i = 0; i < s->n_operands; i++) if (is_movable(&p->buffers[s->operands[i].buffer])) return true;
    return false;
}

void cr_stretch_watch(const cr_plan *p, struct cr_stretches *all, int step, bool after) {
    const cr_step *s = &p->steps[step];
    if (all->kinds[step] != UNSEEN) return;
    if (!may_be_noted(p, s)) {
        if (after) all->kinds[step] = APART;
        return;
    }
    const cr_device *dev = device_of(p, s);
    const cr_graph_marks now = dev->graphing->marks(dev);
    if (after) {
        const bool fresh = now.fresh != all->before.fresh || new_in_each_run(p, s);
        all->kinds[step] = now.apart != all->before.apart ? APART : fresh ? FRESH : has_movable(p, s) ? MOVABLE : SAME;
    }
    all->before = now;
}

/* ---- division */
static cr_status find_movable(const cr_plan *p, part *a) {
    int n = 0;
    for (int i = a->from; i < a->to; i++) n += p->steps[i].n_operands;
    a->movable = malloc(sizeof *a->movable * (size_t)(n + 1));
    a->address = calloc((size_t)n + 1, sizeof *a->address);
    if (!a->movable || !a->address) return cr_no_memory("plan_run");
    for (int i = a->from; i < a->to && a->kind == MOVABLE; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) {
            const int buffer = p->steps[i].operands[k].buffer;
            if (is_movable(&p->buffers[buffer])) a->movable[a->n_movable++] = buffer;
        }
    return CR_OK;
}

static cr_status divide_stretch(const cr_plan *p, const kind *kinds, stretch *s) {
    s->parts = calloc((size_t)(s->to - s->from), sizeof *s->parts);
    s->again = calloc((size_t)(s->to - s->from), sizeof *s->again);
    if (!s->parts || !s->again) return cr_no_memory("plan_run");
    cr_status status = CR_OK;
    for (int i = s->from; i < s->to && status == CR_OK; i++) {
        if (i > s->from && kinds[i] == kinds[i - 1]) { s->parts[s->n - 1].to = i + 1; continue; }
        s->parts[s->n++] = (part){.from = i, .to = i + 1, .kind = kinds[i]};
    }
    for (int i = 0; i < s->n && status == CR_OK; i++) status = find_movable(p, &s->parts[i]);
    if (status == CR_OK && !(s->graph = s->dev->graphing->make(s->dev, s->n))) status = cr_error_status();
    return status;
}

/* The stretches between two steps, all of which were watched. */
static cr_status divide(const cr_plan *p, struct cr_stretches *all, int from, int end) {
    for (int i = from, to; i < end; i = to) {
        const cr_device *dev = device_of(p, &p->steps[i]);
        for (to = i; to < end && all->kinds[to] != APART && device_of(p, &p->steps[to]) == dev;) to++;
        if (to - i < LEAST) { to += to == i; continue; }
        if (!cr_grow(&all->of, all->n + 1, &all->room, sizeof *all->of)) return cr_no_memory("plan_run");
        stretch *s = &all->of[all->n++];
        *s = (stretch){.from = i, .to = to, .dev = dev};
        if (divide_stretch(p, all->kinds, s) != CR_OK) return cr_error_status();
    }
    return CR_OK;
}

static bool was_watched(const struct cr_stretches *all, int from, int end) {
    for (int i = from; i < end; i++) if (all->kinds[i] == UNSEEN) return false;
    return true;
}

/* ---- a run */
typedef struct noting { const cr_plan *p; const cr_instance *x; const stretch *s; } noting;

static cr_status note_part(void *ctx, int i) {
    const noting *n = ctx;
    const part *a = &n->s->parts[i];
    cr_status status = CR_OK;
    for (int k = a->from; k < a->to && status == CR_OK; k++)
        status = n->p->steps[k].run(n->x->pool + n->p->args_at[k]);
    return status;
}

static cr_storage *storage_of(const cr_plan *p, const cr_instance *x, int buffer) {
    return x->bound[buffer] ? x->bound[buffer] : p->buffers[buffer].storage;
}

/* Where the inputs and results of a part are now.  True: elsewhere than when it was noted. */
static bool moved(const cr_plan *p, const cr_instance *x, const stretch *s, part *a) {
    bool changed = false;
    for (int i = 0; i < a->n_movable; i++) {
        const int b = a->movable[i];
        const uint64_t now = s->dev->graphing->address(storage_of(p, x, b)) + (uint64_t)x->moved[b];
        changed |= now != a->address[i];
        a->address[i] = now;
    }
    return changed;
}

/* Everything on the device that the plan reads or writes. */
static int list_used(const cr_plan *p, const cr_instance *x, const cr_device *dev) {
    int n = 0;
    for (int i = 0; i < p->n_buffers; i++) {
        const cr_buffer *b = &p->buffers[i];
        cr_storage *s = b->kind == CR_BUFFER_TEMPORARY || b->dev != dev ? NULL : storage_of(p, x, i);
        if (s) x->stretches->used[n++] = s;
    }
    for (int i = 0; i < p->n_devices; i++)
        if (p->devices[i].dev == dev) x->stretches->used[n++] = x->arenas[i];
    return n;
}

/* After a failure: the graph may still have the addresses of an earlier run. */
static void forget_addresses(stretch *s) {
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->parts[i].n_movable; k++) s->parts[i].address[k] = 0;
}

static cr_status run_stretch(const cr_plan *p, cr_instance *x, stretch *s) {
    noting n = {p, x, s};
    cr_graph_run r = {.again = s->again, .part = note_part, .ctx = &n, .used = x->stretches->used};
    for (int i = 0; i < s->n; i++) s->again[i] = moved(p, x, s, &s->parts[i]) || s->parts[i].kind == FRESH;
    r.n_used = list_used(p, x, s->dev);
    const cr_status status = s->dev->graphing->run(s->graph, &r);
    if (status != CR_OK) forget_addresses(s);
    if (status == CR_OK || !r.refused) return status;
    cr_error_clear();                               /* the steps one by one, from now on */
    s->dev->graphing->free(s->graph);
    s->graph = NULL;
    return CR_OK;
}

int cr_stretch_run(cr_plan *p, cr_instance *x, int at, int end, cr_status *status) {
    struct cr_stretches *all = x->stretches;
    const bool second = at >= p->split;
    if (!all || atomic_load_explicit(&cr_tracing, memory_order_relaxed)) return at;
    if (!all->divided[second]) {
        const int from = second ? p->split : 0, to = second ? p->n_steps : p->split;
        if (at > from || !was_watched(all, from, to)) return at;
        all->divided[second] = true;
        if ((*status = divide(p, all, from, to)) != CR_OK) return at;
    }
    stretch *s = NULL;
    for (int i = 0; i < all->n && !s; i++) if (all->of[i].from == at) s = &all->of[i];
    if (!s || !s->graph || s->to > end) return at;
    for (int i = s->from; i < s->to && *status == CR_OK; i++)
        if (p->steps[i].begins) *status = cr_begin_buffers(p, x, i);
    if (*status == CR_OK) *status = run_stretch(p, x, s);
    return *status != CR_OK || s->graph ? s->to : at;
}
