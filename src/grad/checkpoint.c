/* checkpoint.c - activation checkpointing.  f(inputs) runs without recording.  The backward pass
 * runs it again, recorded, and the walk continues through the new graph.  Generators give the same
 * random numbers both times (the tape of core/rng.c). */
#include "graph.h"

#include <string.h>

typedef struct again {
    cr_function f;
    void *ctx;
    cr_tape *tape;
    cr_cast_state casts;                                 /* autocast at the forward pass */
} again;

static void checkpoint_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const again *q = c->params;
    int wanted = -1;
    for (int i = 0; i < c->n && wanted < 0; i++)
        if (c->needs[i]) wanted = i;
    bool mode = cr_set_grad_enabled(true);
    const cr_cast_state casts = cr_set_casts(q->casts);
    const cr_tape_use before = cr_tape_begin(q->tape, true);
    cr_tensor *y = cr_adopt(q->f(c->n, c->in, q->ctx));
    cr_tape_end(before);
    cr_set_casts(casts);
    cr_set_grad_enabled(mode);
    if (y && (!cr_shape_equal(y->ndim, y->shape, g->ndim, g->shape) || y->dtype != g->dtype)) {
        cr_fail(CR_RUNTIME, "checkpoint", "the function gave %s the first time and %s when run again",
                cr_shape_text(g->ndim, g->shape).s, cr_shape_text(y->ndim, y->shape).s);
        y = NULL;
    }
    if (!y || cr_walk_graft(y, g) != CR_OK) dx[wanted] = NULL;
}

static void hold(const void *params, bool on) {
    if (!on) cr_tape_free(((const again *)params)->tape);
}

static const cr_op op_checkpoint = {
    .name = "checkpoint", .arity = -1, .params_bytes = sizeof(again), .saves = CR_SAVE_INS, .grafts = true,
    .grad = checkpoint_grad, .hold = hold,
};

static cr_tensor *run_once(const again *q, int n, const cr_tensor *const *in) {
    bool mode = cr_set_grad_enabled(false);
    const cr_tape_use before = cr_tape_begin(q->tape, false);
    cr_scope_begin();
    cr_tensor *y = cr_adopt(q->f(n, in, q->ctx));
    if (y) y = cr_tensor_alias(y, NULL);            /* f may have returned one of its inputs */
    if (y) cr_keep(y);
    cr_scope_end();
    cr_tape_end(before);
    cr_set_grad_enabled(mode);
    return y;
}

cr_tensor *cr_checkpoint(cr_function f, void *ctx, int n, const cr_tensor *const *in) {
    if (!f) return cr_fail_null("checkpoint", "the function"), NULL;
    if (n < 1 || !in) return cr_fail(CR_BAD_VALUE, "checkpoint", "%d inputs: at least one is needed", n), NULL;
    bool records = false;
    for (int i = 0; i < n; i++) {
        if (cr_missing("checkpoint", "an input", in[i])) return NULL;
        records |= cr_grad_enabled() && cr_in_graph(in[i]);
    }
    again q = {.f = f, .ctx = ctx, .tape = cr_tape_new(), .casts = cr_casts_off()};
    cr_set_casts(q.casts);
    if (!q.tape) return NULL;
    cr_tensor *y = run_once(&q, n, in);
    if (!y || !records || !cr_dtype_is_float(y->dtype)) {
        cr_tape_free(q.tape);
        return y;
    }
    cr_call c = {.op = &op_checkpoint, .params = &q, .n = n, .in = in, .dev = y->dev, .out = y};
    cr_node *node = cr_node_new(&c, in, y, 0);
    if (!node) {
        cr_tape_free(q.tape);
        cr_release(y);
        return NULL;
    }
    cr_node_attach(node, y);
    return y;
}
