/* custom.c - ops registered from outside: a forward and a gradient written with the public functions. */
#include "graph.h"
#include "../core/os.h"

#include <stdlib.h>
#include <string.h>

typedef struct custom { cr_op op; cr_custom_op given; struct custom *next; } custom;
static custom *registered;                          /* grows only; entries are never changed */
static cr_spinlock lock;

static custom *find(const char *name) {
    cr_spin_lock(&lock);
    custom *c = registered;
    while (c && strcmp(c->given.name, name)) c = c->next;
    cr_spin_unlock(&lock);
    return c;
}

static const custom *custom_of(const cr_op *op) { return (const custom *)(const void *)op; }    /* op is its first member */

static void custom_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    cr_custom_call call = {.n = c->n, .in = c->in, .out = c->out, .params = c->params};
    cr_status bad = custom_of(c->op)->given.backward(&call, g, dx);
    for (int i = 0; i < c->n; i++) {
        dx[i] = cr_adopt(dx[i]);
        if (!c->needs[i]) continue;
        if (bad != CR_OK) {
            cr_fail(bad, c->op->name, "its gradient failed");
            dx[i] = NULL;
        } else if (dx[i] && dx[i] != CR_NONE && (!cr_shape_equal(dx[i]->ndim, dx[i]->shape, c->in[i]->ndim, c->in[i]->shape))) {
            cr_fail(CR_BAD_VALUE, c->op->name, "its gradient of input %d has shape %s, the input %s", i,
                    cr_shape_text(dx[i]->ndim, dx[i]->shape).s, cr_shape_text(c->in[i]->ndim, c->in[i]->shape).s);
            dx[i] = NULL;
        }
    }
}

cr_status cr_custom_register(const cr_custom_op *op) {
    if (!op || !op->name || !op->forward) return cr_fail_null("custom_register", "the op, its name or its forward function");
    if (op->params_bytes > 128) return cr_fail(CR_BAD_VALUE, "custom_register", "%s: %zu bytes of parameters, at most 128", op->name, op->params_bytes);
    if (op->arity == 0 || op->arity < -1) return cr_fail(CR_BAD_VALUE, "custom_register", "%s: arity %d, it is -1 or at least 1", op->name, op->arity);
    size_t length = strlen(op->name) + 1;
    custom *c = calloc(1, sizeof *c + length);
    if (!c) return cr_fail(CR_NO_MEMORY, "custom_register", "out of memory");
    char *name = (char *)(c + 1);
    memcpy(name, op->name, length);
    c->given = *op;
    c->given.name = name;
    c->op = (cr_op){.name = name, .arity = op->arity, .params_bytes = op->params_bytes, .saves = CR_SAVE_INS | CR_SAVE_OUT,
                    .grad = op->backward ? custom_grad : NULL};
    cr_spin_lock(&lock);
    custom *same = registered;
    while (same && strcmp(same->given.name, name)) same = same->next;
    if (!same) {
        c->next = registered;
        registered = c;
    }
    cr_spin_unlock(&lock);
    if (!same) return CR_OK;
    free(c);
    return cr_fail(CR_BAD_VALUE, "custom_register", "there is an op named %s already", op->name);
}

/* Forward without recording; what it returns may be an input or a view of one, so the result is a handle of its own. */
static cr_tensor *run(const custom *op, const cr_custom_call *call) {
    bool mode = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *y = cr_adopt(op->given.forward(call));
    if (!y && !cr_error()) cr_fail(CR_RUNTIME, op->op.name, "its forward function failed without a message");
    if (y) y = cr_tensor_alias(y, NULL);
    if (y) cr_keep(y);
    cr_scope_end();
    cr_set_grad_enabled(mode);
    return y;
}

cr_tensor *cr_custom_apply(const char *name, int n, const cr_tensor *const *in, const void *params) {
    if (!name) return cr_fail_null("custom_apply", "the name"), NULL;
    custom *op = find(name);
    if (!op) return cr_fail(CR_BAD_VALUE, "custom_apply", "no op named %s is registered", name), NULL;
    if (n < 1 || (op->given.arity > 0 && n != op->given.arity) || !in)
        return cr_fail(CR_BAD_VALUE, op->op.name, "takes %d inputs, got %d", op->given.arity > 0 ? op->given.arity : 1, n), NULL;
    if (op->given.params_bytes && !params) return cr_fail_null(op->op.name, "params"), NULL;
    bool records = false;
    for (int i = 0; i < n; i++) {
        if (cr_missing(op->op.name, "an input", in[i])) return NULL;
        records |= cr_grad_enabled() && cr_in_graph(in[i]);
    }
    cr_custom_call call = {.n = n, .in = in, .params = params};
    cr_tensor *y = run(op, &call);
    cr_call c = {.op = &op->op, .params = params, .n = n, .in = in, .out = y};
    if (y && cr_anomaly && cr_check_finite(name, "forward", &c, y) != CR_OK) { cr_release(y); return NULL; }
    if (!y || !records || !op->op.grad || !cr_dtype_is_float(y->dtype)) return y;
    c.dev = y->dev;
    cr_node *node = cr_node_new(&c, in, y, 0);
    if (!node) { cr_release(y); return NULL; }
    cr_node_attach(node, y);
    return y;
}
