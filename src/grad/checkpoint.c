/* checkpoint.c - activation checkpointing.  f(inputs) runs without recording.  The backward pass
 * runs it again, recorded, and the walk continues through the new graph.  Generators give the same
 * random numbers both times (the tape of core/rng.c).
 *
 * The first run notes which tensors of graphs f reads besides its inputs: weights in ctx, mostly.
 * They become inputs of the node that save nothing.  So a walk knows that their gradients are not
 * complete before f has run again. */
#include "checkpoint.h"
#include "graph.h"
#include "../core/out.h"

#include <stdlib.h>
#include <string.h>

/* The tensors of graphs that a first run has read: each node once. */
typedef struct notes { const cr_tensor **in; int n; int64_t room; bool failed; } notes;

static _Thread_local notes *noted;

static bool has_node(int n, const cr_tensor *const *in, const cr_node *node) {
    for (int i = n - 1; i >= 0; i--)
        if (cr_in_graph(in[i]) && in[i]->node == node) return true;
    return false;
}

static void note_one(notes *m, const cr_tensor *t) {
    if (t == CR_NONE || !cr_in_graph(t) || has_node(m->n, m->in, t->node)) return;
    if (!cr_grow(&m->in, m->n + 1, &m->room, sizeof *m->in)) m->failed = true;
    else m->in[m->n++] = cr_retain(t);
}

void cr_checkpoint_note(int n, const cr_tensor *const *in) {
    for (int i = 0; i < n && noted; i++) note_one(noted, in[i]);
}

static void notes_end(notes *m) {
    for (int i = 0; i < m->n; i++) cr_drop(m->in[i]);
    free(m->in);
}

typedef struct again {
    cr_function f;
    void *ctx; void (*done)(void *ctx);             /* done NULL: ctx is the caller's */
    int n;                                          /* inputs of f */
    cr_tape *tape;
    cr_cast_state casts;                            /* autocast at the forward pass */
} again;

static void end_function(const again *q) {
    cr_tape_free(q->tape);
    if (q->done) q->done(q->ctx);
}

static void checkpoint_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const again *q = c->params;
    int wanted = -1;
    for (int i = 0; i < c->n && wanted < 0; i++)
        if (c->needs[i]) wanted = i;
    bool mode = cr_set_grad_enabled(true);
    const cr_cast_state casts = cr_set_casts(q->casts);
    const cr_watch *watch = cr_watching();
    if (watch && watch->recomputes("checkpoint") != CR_OK) { dx[wanted] = NULL; return; }
    const cr_tape_use before = cr_tape_begin(q->tape, true);
    cr_tensor *y = cr_adopt(q->f(q->n, c->in, q->ctx));
    cr_tape_end(before);
    cr_set_casts(casts);
    cr_set_grad_enabled(mode);
    if (y && (!cr_shape_equal(y->ndim, y->shape, g->ndim, g->shape) || y->dtype != g->dtype)) {
        cr_fail(CR_RUNTIME, "checkpoint", "the function gave %s the first time and %s when run again",
                cr_shape_text(g->ndim, g->shape).s, cr_shape_text(y->ndim, y->shape).s);
        y = NULL;
    }
    if (!y || cr_walk_through(y, g) != CR_OK) dx[wanted] = NULL;
}

static void hold_params(const void *params, bool on) {
    if (!on) end_function(params);
}

static const cr_op op_checkpoint = {
    .name = "checkpoint", .arity = -1, .params_bytes = sizeof(again), .saves = CR_SAVE_INS, .recompute_forward = true,
    .user_gradient = true, .grad = checkpoint_grad, .hold = hold_params,
};

/* m: NULL in the first run of an outer checkpoint, which notes for itself. */
static cr_tensor *run_once(const again *q, const cr_tensor *const *in, notes *m) {
    bool mode = cr_set_grad_enabled(false);
    const cr_tape_use before = cr_tape_begin(q->tape, false);
    notes *const outer = noted;
    const bool noting = cr_modes.noting;
    if (m) noted = m, cr_modes.noting = true;
    cr_scope_begin();
    cr_tensor *y = cr_adopt(q->f(q->n, in, q->ctx));
    noted = outer;
    cr_modes.noting = noting;
    if (y) y = cr_tensor_alias(y, NULL);            /* f may have returned one of its inputs */
    if (y) cr_keep(y);
    cr_scope_end();
    cr_tape_end(before);
    cr_set_grad_enabled(mode);
    return y;
}

/* A node for y, whose inputs are f's and those that were noted. */
static cr_status record(const again *q, const cr_tensor *const *in, const notes *m, cr_tensor *y) {
    const size_t room = (size_t)(q->n + m->n);
    const cr_tensor **all = malloc(sizeof *all * room), **saved = malloc(sizeof *saved * room);
    cr_node *node = NULL;
    int n = q->n;
    if (all && saved) {
        for (int i = 0; i < n; i++) all[i] = saved[i] = in[i];
        for (int i = 0; i < m->n; i++) {
            if (has_node(q->n, in, m->in[i]->node)) continue;
            all[n] = m->in[i];
            saved[n++] = CR_NONE;
        }
        cr_call c = {.op = &op_checkpoint, .params = q, .n = n, .in = all, .dev = y->dev, .out = y};
        node = cr_node_new(&c, saved, y, 0);
        if (node) cr_node_attach(node, y);
    } else cr_fail(CR_NO_MEMORY, "checkpoint", "out of memory for the graph");
    free(all);
    free(saved);
    return node ? CR_OK : cr_error_status();
}

static bool check_inputs(int n, const cr_tensor *const *in, bool *in_graph) {
    if (n < 1 || !in) return cr_fail(CR_BAD_VALUE, "checkpoint", "%d inputs: at least one is needed", n), false;
    for (int i = 0; i < n; i++) {
        if (cr_missing("checkpoint", "an input", in[i])) return false;
        *in_graph |= cr_in_graph(in[i]);
    }
    return true;
}

cr_tensor *cr_checkpoint_owned(cr_function f, void *ctx, void (*done)(void *ctx), int n, const cr_tensor *const *in) {
    const bool enabled = cr_grad_enabled();
    bool in_graph = false;
    again q = {.f = f, .ctx = ctx, .done = done, .n = n};
    notes m = {0};
    if (!check_inputs(n, in, &in_graph) || !(q.tape = cr_tape_new())) return end_function(&q), NULL;
    q.casts = cr_casts_off();
    cr_set_casts(q.casts);
    cr_tensor *y = run_once(&q, in, enabled ? &m : NULL);
    if (m.failed && y) {
        cr_fail(CR_NO_MEMORY, "checkpoint", "out of memory for the graph");
        cr_release(y);
        y = NULL;
    }
    const bool records = y && ((enabled && in_graph) || m.n) && cr_dtype_is_float(y->dtype);
    const bool recorded = records && record(&q, in, &m, y) == CR_OK;
    if (!recorded) end_function(&q);
    if (records && !recorded) cr_release(y);
    notes_end(&m);
    return records && !recorded ? NULL : y;
}

cr_tensor *cr_checkpoint(cr_function f, void *ctx, int n, const cr_tensor *const *in) {
    return f ? cr_checkpoint_owned(f, ctx, NULL, n, in) : (cr_fail_null("checkpoint", "the function"), NULL);
}

/* ---- checkpoints whose first run is recorded, so that hooks and modes are those of the second */
static cr_status record_older(const cr_function_use *u, int n, cr_node *const *older, cr_tensor **results) {
    const cr_tensor **in = malloc(sizeof *in * ((size_t)n + 1));
    cr_status status = in ? CR_OK : cr_fail(CR_NO_MEMORY, u->name, "out of memory for the graph");
    for (int i = 0; i < n && status == CR_OK; i++)
        if (!(in[i] = cr_node_handle(older[i]))) status = cr_error_status();
    cr_function_use use = *u;
    use.n_in = n;
    use.in = in;
    if (status == CR_OK) status = cr_function_record(&use, results);
    for (int k = 0; k < u->n_out && status == CR_OK; k++) cr_keep(results[k]);
    free(in);
    return status;
}

cr_status cr_recompute_record(const cr_function_use *u, uint64_t mark, cr_tensor **results) {
    if (!u || !u->name || !u->out || !results)
        return cr_fail_null("recompute_record", "the function, its name or an array");
    cr_node **roots = malloc(sizeof *roots * ((size_t)u->n_out + 1)), **older = NULL;
    if (!roots) return cr_fail(CR_NO_MEMORY, u->name, "out of memory for the graph");
    int n = 0;
    for (int k = 0; k < u->n_out; k++)
        if (u->out[k] && u->out[k] != CR_NONE && cr_in_graph(u->out[k])) roots[n++] = u->out[k]->node;
    cr_status status = cr_graph_older(n, roots, mark, &n, &older);
    if (status == CR_OK && !n) status = cr_fail(CR_RUNTIME, u->name, "no result depends on a node of before the mark");
    cr_scope_begin();
    if (status == CR_OK) status = record_older(u, n, older, results);
    cr_scope_end();
    free(older);
    free(roots);
    return status;
}
