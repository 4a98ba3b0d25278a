/* custom.c - ops registered by name: a forward and a gradient written with the public functions.
 * Each use is a function (function.c) whose gradient reads the inputs, the result and a copy of the
 * parameters. */
#include "graph.h"
#include "../core/os.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct custom { cr_custom_op op; struct custom *next; } custom;
static custom *registered;                          /* grows only; entries are never changed */
static cr_spinlock lock;

/* Under the lock. */
static custom *find_op(const char *name) {
    custom *c = registered;
    while (c && strcmp(c->op.name, name)) c = c->next;
    return c;
}

cr_status cr_custom_register(const cr_custom_op *op) {
    if (!op || !op->name || !op->forward)
        return cr_fail_null("custom_register", "the op, its name or its forward function");
    if (op->params_bytes > 128)
        return cr_fail(CR_BAD_VALUE, "custom_register", "%s: %zu bytes of parameters, at most 128", op->name,
                       op->params_bytes);
    if (op->arity == 0 || op->arity < -1)
        return cr_fail(CR_BAD_VALUE, "custom_register", "%s: arity %d, it is -1 or at least 1", op->name, op->arity);
    size_t length = strlen(op->name) + 1;
    custom *c = calloc(1, sizeof *c + length);
    if (!c) return cr_no_memory("custom_register");
    char *name = (char *)(c + 1);
    memcpy(name, op->name, length);
    c->op = *op;
    c->op.name = name;
    cr_spin_lock(&lock);
    const custom *same = find_op(name);
    if (!same) {
        c->next = registered;
        registered = c;
    }
    cr_spin_unlock(&lock);
    if (!same) return CR_OK;
    free(c);
    return cr_fail(CR_BAD_VALUE, "custom_register", "there is an op named %s already", op->name);
}

/* ---- one use */
typedef struct use { const cr_custom_op *op; max_align_t params[]; } use;

static use *use_new(const cr_custom_op *op, const void *params) {
    use *u = malloc(sizeof *u + op->params_bytes);
    if (!u) return cr_no_memory(op->name), NULL;
    u->op = op;
    if (op->params_bytes) memcpy(u->params, params, op->params_bytes);
    return u;
}

/* Saved are the inputs, then the result. */
static cr_status use_grad(const cr_function_call *c, cr_tensor **dx) {
    const use *u = c->ctx;
    const cr_custom_call call = {.n = c->n_in, .in = c->saved, .out = c->saved[c->n_in], .params = u->params};
    cr_status status = u->op->backward(&call, c->grads[0], dx);
    for (int i = 0; i < c->n_in && status == CR_OK; i++) {
        const cr_tensor *x = call.in[i], *d = dx[i];
        if (!c->needs[i] || !d || d == CR_NONE || cr_shape_equal(d->ndim, d->shape, x->ndim, x->shape)) continue;
        status = cr_fail(CR_BAD_VALUE, u->op->name, "its gradient of input %d has shape %s, the input %s", i,
                         cr_shape_text(d->ndim, d->shape).s, cr_shape_text(x->ndim, x->shape).s);
    }
    return status;
}

static cr_tensor *record(const cr_custom_op *op, const cr_custom_call *call, const cr_tensor *y) {
    const cr_tensor **saved = malloc(sizeof *saved * ((size_t)call->n + 1));
    if (!saved) return cr_no_memory(op->name), NULL;
    memcpy(saved, call->in, sizeof *saved * (size_t)call->n);
    saved[call->n] = y;
    use *u = use_new(op, call->params);
    cr_tensor *result = NULL;
    const cr_function_use f = {.name = op->name,
                               .n_in = call->n,
                               .in = call->in,
                               .n_out = 1,
                               .out = &y,
                               .n_saved = call->n + 1,
                               .saved = saved,
                               .backward = use_grad,
                               .ctx = u,
                               .done = free};
    if (u && cr_function_record(&f, &result) != CR_OK) free(u);
    free(saved);
    return result;
}

static cr_tensor *run_forward(const cr_custom_op *op, const cr_custom_call *call) {
    const bool mode = cr_set_grad_enabled(false);
    cr_tensor *y = cr_adopt(op->forward(call));
    cr_set_grad_enabled(mode);
    if (!y && !cr_error()) cr_fail(CR_RUNTIME, op->name, "its forward function failed without a message");
    const cr_call c = {.n = call->n, .in = call->in};
    return y && cr_modes.anomaly && cr_check_finite(op->name, "forward", &c, y) != CR_OK ? NULL : y;
}

cr_tensor *cr_custom_apply(const char *name, int n, const cr_tensor *const *in, const void *params) {
    if (!name) return cr_fail_null("custom_apply", "the name"), NULL;
    cr_spin_lock(&lock);
    const custom *found = find_op(name);
    cr_spin_unlock(&lock);
    if (!found) return cr_fail(CR_BAD_VALUE, "custom_apply", "no op named %s is registered", name), NULL;
    const cr_custom_op *op = &found->op;
    if (n < 1 || (op->arity > 0 && n != op->arity) || !in)
        return cr_fail(CR_BAD_VALUE, op->name, "takes %d inputs, got %d", op->arity > 0 ? op->arity : 1, n), NULL;
    if (op->params_bytes && !params) return cr_fail_null(op->name, "params"), NULL;
    for (int i = 0; i < n; i++)
        if (cr_missing(op->name, "an input", in[i])) return NULL;
    const cr_custom_call call = {.n = n, .in = in, .params = params};
    cr_scope_begin();
    cr_tensor *y = run_forward(op, &call), *result = NULL;
    /* y may be an input, or a view of one */
    if (y) result = op->backward ? record(op, &call, y) : cr_tensor_alias(y, NULL);
    if (result) cr_keep(result);
    cr_scope_end();
    return result;
}
