/* function.c - a function computed by other means, whose gradient is a closure.
 *
 * A node has one result, a function any number.  Therefore the function is a node whose own result
 * is a token without elements, and each of its results is a further node with the token as its
 * input.  In the walk a result node stores its cotangent with the function and passes on a token.
 * The function is visited after all of its results, and the closure is called once. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct function {
    const char *name;
    cr_function_grad backward;
    void *ctx;
    void (*done)(void *ctx);
    int n_in, n_out;
    int result_of[];                                /* which result saved[j] is, or -1; then the name */
} function;

/* params of the node of the function, and of the node of its k-th result, whose edge keeps f
 * alive */
typedef struct function_params { function *f; int k; } function_params;

static function *function_of(const void *params) { return ((const function_params *)params)->f; }
static const char *name_of(const void *params) { return function_of(params)->name; }

static void hold_params(const void *params, bool on) {
    function *f = function_of(params);
    if (on) return;
    if (f->done) f->done(f->ctx);
    free(f);
}

/* ---- backward */
static void result_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const function_params *r = c->params;
    cr_tensor **parts = cr_walk_cotangents(r->f, r->f->n_out);
    if (!parts) { dx[0] = NULL; return; }
    /* a result with two nodes has one already: see open_saved */
    cr_tensor **part = &parts[r->k], *before = *part;
    *part = before ? cr_unscope(cr_add(before, g)) : cr_retain(g);
    cr_drop(before);
    dx[0] = !*part ? NULL : c->accumulated ? c->accumulated : cr_empty_like(c->in[0]);
}

static const cr_op op_result = {
    .name = "function", .name_of = name_of, .arity = 1, .params_bytes = sizeof(function_params), .user_gradient = true,
    .grad = result_grad,
};

/* y becomes the k-th result of the function; token: the result of the function's node. */
static cr_status attach_result(const function *f, const cr_tensor *token, int k, cr_tensor *y) {
    function_params p = {(function *)(uintptr_t)f, k};
    cr_call c = {.op = &op_result, .params = &p, .n = 1, .in = &token, .dev = y->dev, .out = y};
    cr_node *n = cr_node_new(&c, c.in, y, 0);
    if (!n) return cr_error_status();
    cr_node_attach(n, y);
    return CR_OK;
}

/* A saved result is in the graph.  Its own node may be gone, and the node of the function must not own it, so it gets
 * a new one. */
static cr_status open_saved(const cr_call *c, const function *f) {
    cr_status status = CR_OK;
    for (int i = f->n_in; i < c->n && status == CR_OK; i++)
        if (f->result_of[i - f->n_in] >= 0)
            status = attach_result(f, c->out, f->result_of[i - f->n_in], (cr_tensor *)(uintptr_t)c->in[i]);
    return status;
}

static cr_tensor *check_dx(const cr_call *c, int i, cr_tensor *d) {
    const cr_tensor *x = c->in[i];
    int extra = d->ndim - x->ndim;
    bool fits = extra >= 0 && d->dev == x->dev && cr_dtype_is_float(d->dtype);
    for (int k = 0; fits && k < x->ndim; k++) fits = x->shape[k] == d->shape[k + extra] || x->shape[k] == 1;
    if (fits) return d;
    return cr_fail(CR_BAD_VALUE, cr_call_name(c), "its gradient of input %d is %s %s on %s, the input %s %s on %s", i,
                   cr_dtype_name(d->dtype), cr_shape_text(d->ndim, d->shape).s, d->dev->name, cr_dtype_name(x->dtype),
                   cr_shape_text(x->ndim, x->shape).s, x->dev->name),
           NULL;
}

static void function_grad(const cr_call *c, const cr_tensor *token, cr_tensor *dx[]) {
    function *f = function_of(c->params);
    cr_tensor **parts = cr_walk_cotangents(f, f->n_out);
    (void)token;
    cr_status status = parts ? open_saved(c, f) : CR_NO_MEMORY;
    for (int k = 0; k < f->n_out && parts; k++)
        if (!parts[k]) parts[k] = (cr_tensor *)(uintptr_t)CR_NONE;
    if (status == CR_OK) {
        const cr_function_call call = {.n_out = f->n_out,
                                       .grads = (const cr_tensor *const *)parts,
                                       .n_in = f->n_in,
                                       .needs = c->needs,
                                       .n_saved = c->n - f->n_in,
                                       .saved = c->in + f->n_in,
                                       .frees = cr_walk_frees(),
                                       .ctx = f->ctx};
        status = f->backward(&call, dx);
        if (status != CR_OK) cr_fail(status, f->name, "its gradient failed without a message");
    }
    for (int i = 0; i < f->n_in; i++) {
        dx[i] = cr_adopt(dx[i]);
        if (c->needs[i] && dx[i] && dx[i] != CR_NONE) dx[i] = check_dx(c, i, dx[i]);
        if (c->needs[i] && status != CR_OK) dx[i] = NULL;
    }
    cr_walk_cotangents_free(f);
}

static const cr_op op_function = {
    .name = "function",
    .name_of = name_of,
    .arity = -1,
    .params_bytes = sizeof(function_params),
    .recompute_forward = true,
    .user_gradient = true, .grad = function_grad,
    .hold = hold_params,
};

/* ---- for cr_node_look and cr_node_input: each result has the inputs of the function */
bool cr_is_function(const cr_node *n) { return n->op == &op_result || n->op == &op_function; }

const cr_node *cr_function_behind(const cr_node *n, int *inputs) {
    if (n->op == &op_result) n = n->edges[0];
    *inputs = n->op == &op_function ? function_of(n->params)->n_in : n->n;
    return n;
}

/* ---- recording */
static function *function_new(const cr_function_use *u) {
    const size_t saved = sizeof(int) * (size_t)u->n_saved, length = strlen(u->name) + 1;
    function *f = malloc(sizeof *f + saved + length);
    if (!f) return cr_fail(CR_NO_MEMORY, u->name, "out of memory for the graph"), NULL;
    *f = (function){.backward = u->backward, .ctx = u->ctx, .n_in = u->n_in, .n_out = u->n_out};
    f->name = memcpy(f->result_of + u->n_saved, u->name, length);
    for (int j = 0; j < u->n_saved; j++) {
        f->result_of[j] = -1;
        for (int k = 0; k < u->n_out; k++) if (u->saved[j] == u->out[k]) f->result_of[j] = k;
    }
    return f;
}

/* The token: the result of the function's node.  The node does not own ctx yet. */
static cr_tensor *token_new(const cr_function_use *u, function **made) {
    int n = u->n_in + u->n_saved;
    const cr_tensor **all = malloc(sizeof *all * (size_t)n);
    cr_tensor *token = cr_empty(CR_LIST(0), CR_F32, u->out[0]->dev);
    function *f = function_new(u);
    cr_node *node = NULL;
    if (!all) cr_fail(CR_NO_MEMORY, u->name, "out of memory for the graph");
    if (all && token && f) {
        for (int i = 0; i < n; i++) all[i] = i < u->n_in ? u->in[i] : u->saved[i - u->n_in];
        function_params p = {f, 0};
        cr_call c = {.op = &op_function, .params = &p, .n = n, .in = all, .dev = token->dev, .out = token};
        node = cr_node_new(&c, all, token, 0);
        for (int i = u->n_in; i < n && node; i++)
            if (cr_node_save(node, i, all[i]) != CR_OK) {
                cr_node_release(node);
                node = NULL;
            }
        *made = f;
    }
    free(all);
    if (node) {
        cr_node_attach(node, token);
        return token;
    }
    free(f);
    cr_release(token);
    return NULL;
}

/* Is result k an input that the function wrote in place? */
static bool is_written(const cr_function_use *u, int k) { return u->written && u->written[k]; }

static cr_status check_use(const cr_function_use *u, cr_tensor **results) {
    if (!u || !u->name || !u->backward || !u->in || !u->out || !results || (u->n_saved && !u->saved))
        return cr_fail_null("function_record", "the function, its name, its gradient or an array");
    if (u->n_in < 1 || u->n_out < 1 || u->n_saved < 0)
        return cr_fail(CR_BAD_VALUE, u->name, "%d inputs and %d results: at least one of each is needed", u->n_in,
                       u->n_out);
    for (int i = 0; i < u->n_in; i++) if (cr_missing(u->name, "an input", u->in[i])) return cr_error_status();
    for (int j = 0; j < u->n_saved; j++)
        if (cr_missing(u->name, "a saved tensor", u->saved[j])) return cr_error_status();
    cr_status status = CR_OK;
    for (int k = 0; k < u->n_out && status == CR_OK; k++) {
        if (cr_missing(u->name, "a result", u->out[k])) return cr_error_status();
        if (u->out[k] == CR_NONE) return cr_fail(CR_BAD_VALUE, u->name, "result %d is CR_NONE", k);
        if (is_written(u, k)) status = cr_check_writable(u->name, u->out[k], true);
    }
    return status;
}

static bool records(const cr_function_use *u) {
    bool wanted = false, can = false;
    for (int i = 0; i < u->n_in; i++) wanted |= cr_in_graph(u->in[i]);
    for (int k = 0; k < u->n_out; k++) can |= cr_dtype_is_float(u->out[k]->dtype);
    return wanted && can && cr_grad_enabled();
}

static cr_status make_result(const cr_function_use *u, const function *f, const cr_tensor *token, int k,
                             cr_tensor **results) {
    cr_tensor *y = (cr_tensor *)(uintptr_t)u->out[k];
    const bool recorded = token && cr_dtype_is_float(y->dtype), written = is_written(u, k);
    cr_status status = CR_OK;
    if (!written && !(y = results[k] = cr_tensor_alias(y, NULL))) return cr_error_status();
    if (recorded) status = attach_result(f, token, k, y);
    if (!written || status != CR_OK) return status;
    if (recorded) status = cr_base_update(y);
    results[k] = status == CR_OK ? cr_new_handle(y) : NULL;
    return results[k] ? CR_OK : cr_error_status();
}

cr_status cr_function_record(const cr_function_use *u, cr_tensor **results) {
    cr_status status = check_use(u, results);
    if (status != CR_OK) return status;
    if (cr_modes.noting) cr_note(u->n_in, u->in);
    function *f = NULL;
    cr_tensor *token = records(u) ? token_new(u, &f) : NULL;
    if (records(u) && !token) return cr_error_status();
    for (int k = 0; k < u->n_out; k++) results[k] = NULL;
    for (int k = 0; k < u->n_out && status == CR_OK; k++) {
        status = make_result(u, f, token, k, results);
    }
    for (int k = 0; k < u->n_out && status != CR_OK; k++) {
        cr_release(results[k]);
        results[k] = NULL;
    }
    if (status == CR_OK && f) f->done = u->done;       /* from here on the node owns ctx; after a failure the caller
                                                        * does */
    else if (status == CR_OK && u->done) u->done(u->ctx);
    cr_release(token);
    return status;
}
