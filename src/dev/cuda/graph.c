/* graph.c - CUDA graphs: the work of several calls, noted from the stream of kernels in parts, launched as one.
 *
 * Each part is a child of the whole graph.  Where a part is noted anew, the executable takes the new child in place of
 * the old one.  The thread that notes keeps the GPU until the launch: nothing else enters the stream, and no epoch
 * ends.  Scratch memory of the calls stays the graph's, since each launch uses it again. */
#include "gpu.h"

#include <stdlib.h>

#include "../../core/out.h"

static const char op[] = "graph";
typedef struct part { cuda_graph noted; cuda_node node; bool known; } part;   /* noted: until the whole has it */
typedef struct scratch { cuda_block *block; bool busy; } scratch;

struct cr_graph {
    cuda *g;
    cuda_graph whole;
    cuda_executable executable;                     /* NULL: to be made */
    const cuda_block *workspace;                    /* of cuBLASLt, when the parts were noted */
    int n_scratch; scratch *scratch; int64_t room;
    int n; part parts[];
};

/* ---- scratch memory */
cuda_block *cr_cuda_graph_take(cr_graph *x, const char *user, size_t bytes) {
    for (int i = 0; i < x->n_scratch; i++) {
        scratch *s = &x->scratch[i];
        if (s->busy || s->block->bytes < bytes || s->block->bytes / 2 > bytes) continue;
        s->busy = true;
        return s->block;
    }
    if (!cr_grow(&x->scratch, x->n_scratch + 1, &x->room, sizeof *x->scratch)) return cr_no_memory(user), NULL;
    cuda_block *b = cr_cuda_block_new(x->g, user, bytes);
    if (b) x->scratch[x->n_scratch++] = (scratch){b, true};
    return b;
}

void cr_cuda_graph_give(cr_graph *x, const cuda_block *b) {
    for (int i = 0; i < x->n_scratch; i++) if (x->scratch[i].block == b) x->scratch[i].busy = false;
}

/* ---- notes */
static cr_status note(cr_graph *x, int i, const cr_graph_run *r) {
    cuda *g = x->g;
    cr_status status = cr_cuda_check(g, op, "cannot be noted",
                                     cr_cu.StreamBeginCapture(g->stream, CUDA_CAPTURE_RELAXED));
    if (status != CR_OK) return status;
    cuda_graph noted = NULL;
    g->noting = x;
    status = r->part(r->ctx, i);
    g->noting = NULL;
    const int error = cr_cu.StreamEndCapture(g->stream, &noted);           /* also after a failure */
    if (status == CR_OK) status = cr_cuda_check(g, op, "was not noted", error);
    if (status == CR_OK) {
        x->parts[i].noted = noted;
        x->parts[i].known = true;
    } else if (noted) cr_cu.GraphDestroy(noted);
    return status;
}

static void forget_whole(cr_graph *x) {
    if (x->executable) cr_cu.GraphExecDestroy(x->executable);
    if (x->whole) cr_cu.GraphDestroy(x->whole);
    x->executable = NULL;
    x->whole = NULL;
    for (int i = 0; i < x->n; i++) x->parts[i].known = false;
}

static void forget_notes(cr_graph *x) {
    for (int i = 0; i < x->n; i++) {
        if (x->parts[i].noted) cr_cu.GraphDestroy(x->parts[i].noted);
        x->parts[i].noted = NULL;
    }
}

/* All parts in a row, of which the notes are complete. */
static cr_status assemble(cr_graph *x) {
    cr_status status = cr_cuda_check(x->g, op, "cannot be made", cr_cu.GraphCreate(&x->whole, 0));
    for (int i = 0; i < x->n && status == CR_OK; i++)
        status = cr_cuda_check(x->g, op, "cannot be made",
                               cr_cu.GraphAddChild(&x->parts[i].node, x->whole, i ? &x->parts[i - 1].node : NULL,
                                                   i > 0, x->parts[i].noted));
    if (status != CR_OK) return status;
    int error;
    do error = cr_cu.GraphInstantiate(&x->executable, x->whole, 0);
    while (error && cr_cuda_make_room(x->g, error));
    return cr_cuda_check(x->g, op, "cannot be made", error);
}

/* The executable takes the parts that were noted.  False: it cannot, since they have other kernels than before. */
static bool exchange_parts(const cr_graph *x) {
    for (int i = 0; i < x->n; i++)
        if (x->parts[i].noted && cr_cu.GraphExecSetChild(x->executable, x->parts[i].node, x->parts[i].noted))
            return false;
    return true;
}

static cr_status note_parts(cr_graph *x, const cr_graph_run *r) {
    if (x->workspace != x->g->workspace) forget_whole(x);
    x->workspace = x->g->workspace;
    cr_status status = CR_OK;
    for (int i = 0; i < x->n && status == CR_OK; i++)
        if (r->again[i] || !x->parts[i].known) status = note(x, i, r);
    if (status != CR_OK) return status;
    if (x->executable && exchange_parts(x)) return CR_OK;
    if (!x->executable) return assemble(x);
    forget_whole(x);
    for (int i = 0; i < x->n && status == CR_OK; i++) if (!x->parts[i].noted) status = note(x, i, r);
    for (int i = 0; i < x->n; i++) x->parts[i].known = true;
    return status == CR_OK ? assemble(x) : status;
}

/* ---- launches */
static cr_status launch(cr_graph *x, const cr_graph_run *r) {
    cuda *g = x->g;
    for (int i = 0; i < r->n_used; i++) cuda_use(g, r->used[i]->data);
    for (int i = 0; i < x->n_scratch; i++) cuda_use(g, x->scratch[i].block);
    g->counters.launches++;
    int error;
    do error = cr_cu.GraphLaunch(x->executable, g->stream);
    while (error && cr_cuda_make_room(g, error));
    return cr_cuda_check(g, op, "does not start", error);
}

static cr_status run_graph(cr_graph *x, cr_graph_run *r) {
    cuda *g = cr_cuda_enter(op, &x->g->dev);
    if (!g) return cr_error_status();
    cr_status status = cr_cuda_faults_room(g, op);
    if (status != CR_OK) return cr_cuda_leave(g, status);
    cr_cuda_held = g;
    status = note_parts(x, r);
    cr_cuda_held = NULL;
    forget_notes(x);
    r->refused = status != CR_OK;
    if (r->refused) forget_whole(x);
    return cr_cuda_leave(g, status == CR_OK ? launch(x, r) : status);
}

static cr_graph *make_graph(const cr_device *d, int parts) {
    cr_graph *x = calloc(1, sizeof *x + sizeof *x->parts * (size_t)parts);
    if (!x) return cr_no_memory(op), NULL;
    x->g = (cuda *)(uintptr_t)d;
    x->n = parts;
    return x;
}

/* Its scratch memory may be used again at once: the stream orders the launches. */
static void graph_free(cr_graph *x) {
    if (!x) return;
    cuda *g = cr_cuda_enter(op, &x->g->dev);
    if (g) {
        forget_whole(x);
        for (int i = 0; i < x->n_scratch; i++) cr_cuda_block_give(g, x->scratch[i].block);
        cr_cuda_leave(g, CR_OK);
    } else {
        cr_error_clear();                           /* the GPU is lost, and with it the graph */
    }
    free(x->scratch);
    free(x);
}

static cr_graph_marks marks(const cr_device *d) {
    cuda *g = cr_cuda_enter(op, d);
    if (!g) return cr_error_clear(), (cr_graph_marks){0, 0};
    const cuda_counters *c = &g->counters;
    const cr_graph_marks m = {(int64_t)g->issued, c->uploads + c->downloads + c->waits + c->allocations + c->factored};
    cr_cuda_leave(g, CR_OK);
    return m;
}

static uint64_t address(const cr_storage *s) { return ((const cuda_block *)s->data)->at; }

const cr_graphing cr_cuda_graphing = {
    .marks = marks, .address = address, .make = make_graph, .run = run_graph, .free = graph_free,
};
