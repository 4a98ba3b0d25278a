/* apply.c - runs an op: checks its inputs, infers the result, runs kernel or composite, and lets grad record it. */
#include "op.h"
#include "walk.h"

#include <stdlib.h>
#include <string.h>

/* ---- what belongs to the thread */
static _Thread_local bool grad_disabled, auto_transfer;
static _Atomic(const cr_recorder *) recorder;

bool cr_grad_enabled(void) { return !grad_disabled; }
bool cr_set_grad_enabled(bool on) { bool old = !grad_disabled; grad_disabled = !on; return old; }
bool cr_auto_transfer(bool on) { bool old = auto_transfer; auto_transfer = on; return old; }
void cr_set_recorder(const cr_recorder *r) { recorder = r; }

static _Atomic(cr_locate) place;
static _Atomic(void *) place_ctx;

void cr_set_place(cr_locate fn, void *ctx) {
    place = (cr_locate)0;
    place_ctx = ctx;
    place = fn;
}

const char *cr_place_now(void) {
    cr_locate fn = place;
    const char *text = fn ? fn(place_ctx) : NULL;
    return text ? text : "";
}

const char *cr_call_name(const cr_call *c) {
    return c->op->name_of ? c->op->name_of(c->params) : c->op->name;
}

/* ---- inputs: a small array of borrowed handles, on the stack unless an op takes many */
enum { FEW = 16 };
typedef struct inputs { const cr_tensor *few[FEW], **list; int n; bool scope; } inputs;

static bool inputs_copy(inputs *s, int n, const cr_tensor *const *in, const char *name) {
    s->n = n;
    s->scope = false;
    s->list = n <= FEW ? s->few : malloc(sizeof *s->list * (size_t)n);
    if (!s->list) return cr_fail(CR_NO_MEMORY, name, "out of memory"), false;
    memcpy(s->list, in, sizeof *in * (size_t)n);
    return true;
}

static void inputs_replace(inputs *s, int i, const cr_tensor *t) {        /* t is new: it lives in the scope around this op */
    s->list[i] = t;
}

static void inputs_scope(inputs *s) {
    if (!s->scope) cr_scope_begin();
    s->scope = true;
}

static void inputs_end(inputs *s) {
    if (s->scope) cr_scope_end();
    if (s->list != s->few) free(s->list);
}

static cr_status check_inputs(const cr_call *c) {
    const cr_op *op = c->op;
    const char *name = cr_call_name(c);
    if (op->arity >= 0 ? c->n != op->arity : c->n < 1)
        return cr_fail(CR_BAD_VALUE, name, "takes %d inputs, got %d", op->arity < 0 ? 1 : op->arity, c->n);
    for (int i = 0; i < c->n; i++) {
        char what[24] = "input 0";
        if (i < 10) what[6] = (char)('0' + i);
        if (cr_missing(name, i < 10 ? what : "an input", c->in[i])) return cr_error_status();
        if (c->in[i] == CR_NONE && !(i < 32 && op->optional >> i & 1))
            return cr_fail(CR_BAD_VALUE, name, "input %d is CR_NONE, but it is not optional", i);
    }
    return CR_OK;
}

/* A number beside tensors stays where it is made: elementwise kernels of every device read it from there. */
static bool is_number(const cr_call *c, const cr_tensor *t) {
    return c->op == &cr_op_elementwise && t->flags & CR_FLAG_WEAK && t->dev->host && !cr_in_graph(t);
}

const cr_tensor *cr_beside(const char *op, const cr_tensor *t, const cr_device *dev) {
    if (t->dev == dev) return t;
    if (!(t->flags & CR_FLAG_WEAK) && !auto_transfer)
        return cr_fail(CR_BAD_VALUE, op, "operands on two devices, %s and %s: move one with to(), or switch auto_transfer on", dev->name, t->dev->name), NULL;
    cr_tensor *there = cr_to(t, t->dtype, dev);
    if (there) there->flags |= t->flags & CR_FLAG_WEAK;
    return there;
}

/* The first operand that is not a weak scalar says which device; weak scalars follow, others only with auto transfer. */
static cr_status settle_device(cr_call *c, inputs *s) {
    c->dev = NULL;
    for (int i = 0; i < s->n && !c->dev; i++)
        if (s->list[i] != CR_NONE && !(s->list[i]->flags & CR_FLAG_WEAK)) c->dev = s->list[i]->dev;
    for (int i = 0; i < s->n && !c->dev; i++)
        if (s->list[i] != CR_NONE) c->dev = s->list[i]->dev;
    for (int i = 0; i < s->n; i++) {
        const cr_tensor *t = s->list[i];
        if (t == CR_NONE || t->dev == c->dev || is_number(c, t)) continue;
        inputs_scope(s);
        const cr_tensor *moved = cr_beside(cr_call_name(c), t, c->dev);
        if (!moved) return cr_error_status();
        inputs_replace(s, i, moved);
    }
    return CR_OK;
}

static bool records(const cr_call *c) {
    if (grad_disabled || !recorder) return false;
    if (c->op == &cr_op_elementwise && !((const cr_ew_params *)c->params)->program->differentiable) return false;
    for (int i = 0; i < c->n; i++)
        if (cr_in_graph(c->in[i])) return true;
    return false;
}

cr_status cr_catch_up(const cr_tensor *t) {
    const cr_recorder *r = recorder;
    return r ? r->catch_up((cr_tensor *)(uintptr_t)t) : CR_OK;
}

static bool lacks_kernel(const cr_call *c) {
    void (*kernel)(void);
    if (!c->op->needs_kernel) return false;
    memcpy(&kernel, (const char *)c->dev->kernels + c->op->needs_kernel, sizeof kernel);
    return !kernel || (c->op->beyond_kernel && c->op->beyond_kernel(c));
}

static cr_tensor *run_composite(const cr_call *c) {
    cr_scope_begin();
    cr_tensor *out = c->op->composite(c);
    if (out) cr_keep(out);
    cr_scope_end();
    return out;
}

/* The result's place: a view of the first input, or new storage. */
static cr_tensor *make_out(const cr_call *c, const cr_meta *m) {
    if (!c->op->view) return cr_new_like(m, c->dev);
    cr_tensor *out = cr_tensor_alias(c->in[0], m);
    if (out) out->flags |= CR_FLAG_VIEW;
    return out;
}

static cr_status run_kernel(cr_call *c, inputs *seen, cr_tensor *out, cr_tensor *aux[], const cr_meta aux_meta[]) {
    for (int k = 0; k < c->op->n_aux; k++)
        if (!(c->aux[k] = aux[k] = cr_new_like(&aux_meta[k], c->dev))) return cr_error_status();
    for (int i = 0; c->op->contiguous && i < c->n; i++)
        if (seen->list[i] != CR_NONE && !seen->list[i]->contiguous) {
            bool grad = cr_set_grad_enabled(false);
            inputs_scope(seen);
            cr_tensor *dense = cr_contiguous(seen->list[i]);
            cr_set_grad_enabled(grad);
            if (!dense) return cr_error_status();
            inputs_replace(seen, i, dense);
        }
    if (!c->op->forward) return CR_OK;              /* a view is finished once it is placed */
    cr_call dense = *c;
    dense.in = seen->list;
    return c->op->forward(&dense, out, aux);
}

static void start_meta(cr_meta *m) {
    m->dtype = CR_BOOL;
    m->ndim = 0;
    m->offset = 0;
    m->strided = false;
}

/* Everything after the inputs are known to be usable.  kept: takes the auxiliary results, where the caller wants them. */
static cr_tensor *run(cr_call *c, cr_tensor *kept[]) {
    cr_meta m, aux_meta[CR_MAX_AUX];                /* infer fills the sizes */
    cr_tensor *aux[CR_MAX_AUX] = {NULL};
    start_meta(&m);
    for (int k = 0; k < c->op->n_aux; k++) start_meta(&aux_meta[k]);
    if (c->op->infer(c, &m, aux_meta) != CR_OK) return NULL;
    if (lacks_kernel(c)) return run_composite(c);
    cr_tensor *out = make_out(c, &m);
    if (!out) return NULL;
    inputs dense;
    if (!inputs_copy(&dense, c->n, c->in, c->op->name)) { cr_release(out); return NULL; }
    const double start = cr_profile_start();
    cr_status bad = cr_finished(cr_call_name(c), run_kernel(c, &dense, out, aux, aux_meta));
    if (start > 0) cr_profile_event(start, "op", cr_call_name(c), c->n, c->in, 1, (const cr_tensor *const *)&out);
    c->out = out;
    const cr_recorder *r = recorder;
    if (bad == CR_OK && cr_anomaly && r) bad = r->check(c, out);
    const bool may_record = r && !grad_disabled && cr_dtype_is_float(out->dtype);
    if (bad == CR_OK && may_record && out->flags & CR_FLAG_VIEW && !cr_family_join(out, c->in[0])) bad = CR_NO_MEMORY;
    if (bad == CR_OK && may_record && c->op->grad && records(c)) bad = r->record(c, dense.list, out);
    for (int k = 0; k < CR_MAX_AUX; k++) {
        if (kept && bad == CR_OK && k < c->op->n_aux) kept[k] = aux[k];
        else cr_release(aux[k]);
    }
    inputs_end(&dense);
    if (bad != CR_OK) { cr_release(out); return NULL; }
    return out;
}

cr_tensor *cr_apply_aux(const cr_op *op, int n, const cr_tensor *const *in, const void *params, cr_tensor *aux[]) {
    cr_call c = {.op = op, .params = params, .n = n, .in = in};
    inputs given;
    cr_tensor *out = NULL;
    for (int k = 0; aux && k < op->n_aux; k++) aux[k] = NULL;
    if (check_inputs(&c) != CR_OK || !inputs_copy(&given, n, in, cr_call_name(&c))) return NULL;
    c.in = given.list;
    if (settle_device(&c, &given) == CR_OK) out = run(&c, aux);
    if (out && given.scope) {
        cr_keep(out);
        for (int k = 0; aux && k < op->n_aux; k++) cr_keep(aux[k]);
    }
    inputs_end(&given);
    return out;
}

cr_tensor *cr_apply(const cr_op *op, int n, const cr_tensor *const *in, const void *params) { return cr_apply_aux(op, n, in, params, NULL); }

static cr_ew_params ew_params(const cr_program *p, const double *params) {
    cr_ew_params q = {.program = p};
    if (p->n_param) memcpy(q.params, params, sizeof(double) * (size_t)p->n_param);
    return q;
}

/* ---- the short way: contiguous tensors of one shape, float dtype and device, and numbers.  Nothing to promote, broadcast or move. */

static bool alike(const cr_tensor *t, const cr_tensor *lead) {
    if (!t->contiguous || t->dtype != lead->dtype || t->ndim != lead->ndim || t->dev != lead->dev) return false;
    for (int d = 0; d < lead->ndim; d++) if (t->shape[d] != lead->shape[d]) return false;
    return true;
}

/* The first operand that is not a number, where all go the short way; else NULL. */
static const cr_tensor *short_way(const cr_program *p, const cr_tensor *const *in) {
    const cr_tensor *lead = NULL;
    if (cr_anomaly || p->rule == CR_RULE_BITS || p->rule == CR_RULE_WHERE) return NULL;
    for (int i = 0; i < p->n_in && !lead; i++) {
        if (!in[i]) return NULL;
        if (!(in[i]->flags & CR_FLAG_WEAK)) lead = in[i];
    }
    if (!lead || cr_dtype_kind(lead->dtype) != CR_KIND_FLOAT) return NULL;
    for (int i = 0; i < p->n_in; i++) {
        const cr_tensor *t = in[i];
        if (t == lead && t->contiguous) continue;
        if (!t || !(t->flags & CR_FLAG_WEAK ? t->dev == lead->dev || (t->dev->host && !cr_in_graph(t)) : alike(t, lead))) return NULL;
    }
    return lead;
}

/* The walk has one axis; further strides are never read. */
static void short_arg(cr_arg *a, const cr_tensor *t) {
    a->data = t->dev->host ? cr_tensor_data(t) : NULL;
    a->storage = t->storage;
    a->offset = t->offset;
    a->dtype = t->dtype;
    a->strides[0] = !(t->flags & CR_FLAG_WEAK);
}

static cr_status compute_short(const cr_program *p, const cr_tensor *lead, const cr_tensor *const *in, const double *params, const cr_tensor *out) {
    cr_walk w;
    w.program = p; w.params = params; w.compute = cr_dtype_wide(lead->dtype);
    w.ndim = 1; w.shape[0] = w.numel = out->numel;
    w.n_out = 1; w.n_in = p->n_in;
    short_arg(&w.out[0], out);
    for (int i = 0; i < p->n_in; i++) short_arg(&w.in[i], in[i]);
    const double start = cr_profile_start();
    const cr_status bad = cr_finished(p->name, out->dev->kernels->elementwise(&(cr_elementwise_args){&w, 1}));
    if (start > 0) cr_profile_event(start, "op", p->name, p->n_in, in, 1, &out);
    return bad;
}

/* over: of lead's shape and dtype, nobody else's, and to be written over; NULL: the result is new. */
static cr_tensor *run_short(const cr_program *p, const cr_tensor *lead, const cr_tensor *const *in, const double *params, const cr_tensor *over) {
    const cr_device *dev = lead->dev;
    const cr_dtype dt = lead->dtype, result = p->rule == CR_RULE_TEST ? CR_BOOL : dt;
    cr_storage *s = over ? cr_storage_retain(over->storage) : dev->allocate(dev, (size_t)lead->numel * cr_dtype_size(result));
    cr_tensor *out = s ? cr_tensor_like(s, lead, result) : NULL;
    if (!out) return NULL;
    cr_status bad = compute_short(p, lead, in, params, out);
    if (bad == CR_OK && p->differentiable && !grad_disabled && recorder && result != CR_BOOL) {
        cr_ew_params q = ew_params(p, params);
        cr_call c = {.op = &cr_op_elementwise, .params = &q, .n = p->n_in, .in = in, .dev = dev, .out = out};
        if (records(&c)) bad = recorder->record(&c, in, out);
    }
    if (bad != CR_OK) { cr_release(out); return NULL; }
    return out;
}

/* ---- elementwise programs as an op */
static const cr_ew_params *ew(const cr_call *c) { return c->params; }

static cr_status ew_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const cr_program *p = ew(c)->program;
    cr_dtype compute;
    if (cr_rule_dtypes(p, c->in, &compute, &out->dtype) != CR_OK) return cr_error_status();
    out->ndim = 0;
    for (int i = 0; i < c->n; i++)
        if (cr_broadcast(p->name, out->ndim, out->shape, c->in[i]->ndim, c->in[i]->shape, &out->ndim, out->shape) != CR_OK)
            return cr_error_status();
    return CR_OK;
}

static cr_status ew_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_ew_params *q = ew(c);
    cr_dtype compute, result;
    cr_walk w;
    if (cr_rule_dtypes(q->program, c->in, &compute, &result) != CR_OK) return cr_error_status();
    cr_status bad = cr_walk_fill(&w, q->program, q->params, compute, 1, &out, c->n, c->in, q->program->name);
    return bad != CR_OK ? bad : c->dev->kernels->elementwise(&(cr_elementwise_args){&w, 1});
}

/* What the wanted gradients read: the table of each gradient program says so. */
static uint32_t ew_saves(const cr_call *c) {
    const cr_program *p = ew(c)->program;
    const cr_gradient *g = cr_program_gradient(p);
    uint32_t saves = 0;
    for (int i = 0; g && i < c->n; i++)
        for (int j = 0; c->needs[i] && g[i].program && j < g[i].n; j++)
            if (g[i].from[j] <= p->n_in) saves |= g[i].from[j] < p->n_in ? CR_SAVE_IN(g[i].from[j]) : CR_SAVE_OUT;
    return saves;
}

/* May g's memory take input i's gradient?  It is the walk's alone, and no other gradient of this op reads it. */
static bool spent(const cr_call *c, const cr_tensor *g, int i) {
    for (int k = 0; k < c->n; k++) if (k != i && c->needs[k]) return false;
    return !c->differentiable && atomic_load(&g->refs) == 1 && atomic_load(&g->storage->refs) == 1 && !g->offset && g->contiguous;
}

static void ew_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_ew_params *q = ew(c);
    const cr_program *p = q->program;
    const cr_gradient *gradients = cr_program_gradient(p);
    for (int i = 0; i < c->n; i++) {
        if (!c->needs[i]) continue;
        if (!gradients) { dx[i] = NULL; continue; }
        const cr_gradient *d = &gradients[i];
        const cr_tensor *in[CR_MAX_INPUTS + 2];
        if (!d->program) continue;
        if (d->n == 1 && !d->program->n_instr && d->program->out[0] == 0 && d->from[0] == p->n_in + 1) {       /* dx = g, as for a sum */
            dx[i] = (cr_tensor *)(uintptr_t)g;
            continue;
        }
        for (int j = 0; j < d->n; j++)
            in[j] = d->from[j] < p->n_in ? c->in[d->from[j]] : d->from[j] == p->n_in ? c->out : g;
        const cr_tensor *lead = short_way(d->program, in);
        const bool over = lead && lead->dtype == g->dtype && lead->numel == g->numel && spent(c, g, i);
        dx[i] = over ? run_short(d->program, lead, in, q->params, g) : cr_apply_program(d->program, in, q->params);
    }
}

static const char *ew_name(const void *params) { return ((const cr_ew_params *)params)->program->name; }

static void ew_hold(const void *params, bool hold) {
    cr_program *p = (cr_program *)(uintptr_t)((const cr_ew_params *)params)->program;
    if (hold) cr_program_retain(p);
    else cr_program_free(p);
}

const cr_op cr_op_elementwise = {
    .name = "elementwise", .name_of = ew_name, .arity = -1, .params_bytes = sizeof(cr_ew_params), .only_saved = true,
    .saves_for = ew_saves, .infer = ew_infer, .forward = ew_forward, .grad = ew_grad, .hold = ew_hold,
};

cr_tensor *cr_apply_program(const cr_program *p, const cr_tensor *const *in, const double *params) {
    const cr_tensor *lead = short_way(p, in);
    if (lead) return run_short(p, lead, in, params, NULL);
    cr_ew_params q = ew_params(p, params);
    return cr_apply(&cr_op_elementwise, p->n_in, in, &q);
}

/* ---- in place */
static bool is_leaf(const cr_tensor *x) {
    return x->flags & CR_FLAG_REQUIRES_GRAD && ((const cr_node_head *)(const void *)x->node)->leaf;
}

/* Can a write to the view x become part of the graph? */
static cr_status check_view(const char *op, const cr_tensor *x) {
    const cr_family *f = atomic_load_explicit(&x->family, memory_order_relaxed);
    if (f ? f->node && ((const cr_node_head *)(const void *)f->node)->leaf : x->flags & CR_FLAG_REQUIRES_GRAD)
        return cr_fail(CR_RUNTIME, op, "a view of a leaf that requires grad cannot be written in place: turn the gradient mode off around it");
    if (!f)
        return cr_fail(CR_RUNTIME, op, "a view that was made while the gradient mode was off, or of elements that share memory, cannot become part of a graph: take it again");
    int64_t axes[CR_MAX_DIMS];
    uint32_t turned;
    cr_part_params part;
    cr_meta whole = cr_in_memory_order(&f->whole, axes, &turned);
    if (cr_part_of(&whole, x, &part)) return CR_OK;
    return cr_fail(CR_RUNTIME, op, "no gradient can be given for a write to a view with strides %s of a tensor with strides %s: clone that first",
                   cr_shape_text(x->ndim, x->strides).s, cr_shape_text(f->whole.ndim, f->whole.strides).s);
}

cr_status cr_check_writable(const char *op, const cr_tensor *x, bool recorded) {
    if (cr_missing(op, "the tensor to write", x)) return cr_error_status();
    if (x == CR_NONE) return cr_fail(CR_BAD_VALUE, op, "CR_NONE cannot be written");
    for (int i = 0; i < x->ndim; i++)
        if (x->strides[i] == 0 && x->shape[i] > 1 && x->numel)
            return cr_fail(CR_BAD_VALUE, op, "cannot write in place: axis %d of %s is expanded, several elements share memory",
                           i, cr_shape_text(x->ndim, x->shape).s);
    if (!x->contiguous && cr_shape_overlaps(x->ndim, x->shape, x->strides))
        return cr_fail(CR_BAD_VALUE, op, "cannot write in place: elements of %s with strides %s share memory", cr_shape_text(x->ndim, x->shape).s,
                       cr_shape_text(x->ndim, x->strides).s);
    if (grad_disabled) return CR_OK;
    recorded |= cr_in_graph(x);
    if (is_leaf(x)) return cr_fail(CR_RUNTIME, op, "a leaf that requires grad cannot be written in place: turn the gradient mode off around it");
    return recorded && x->flags & CR_FLAG_VIEW ? check_view(op, x) : CR_OK;
}

/* An input that shares storage with x but not element for element would be read after it was overwritten. */
static bool shifted_overlap(const cr_tensor *x, const cr_tensor *t) {
    return t->storage == x->storage && t != x && !cr_same_elements(t, x);
}

/* Which inputs a recorded gradient will read. */
static uint32_t read_later(const cr_call *c) {
    if (!records(c)) return 0;
    bool needs[CR_MAX_INPUTS];
    cr_call asked = *c;
    for (int i = 0; i < c->n; i++) needs[i] = cr_in_graph(c->in[i]);
    asked.needs = needs;
    return ew_saves(&asked);
}

static cr_status write_program(cr_call *c, inputs *given, cr_tensor *x) {
    const char *name = cr_call_name(c);
    cr_meta m;
    cr_dtype compute, result;
    const cr_ew_params *q = ew(c);
    if (ew_infer(c, &m, NULL) != CR_OK || cr_rule_dtypes(q->program, c->in, &compute, &result) != CR_OK) return cr_error_status();
    if (c->dev != x->dev) return cr_fail(CR_BAD_VALUE, name, "operands on two devices, %s and %s", x->dev->name, c->dev->name);
    if (!cr_shape_equal(m.ndim, m.shape, x->ndim, x->shape))
        return cr_fail(CR_BAD_VALUE, name, "a result of shape %s cannot be written into %s", cr_shape_text(m.ndim, m.shape).s,
                       cr_shape_text(x->ndim, x->shape).s);
    if (!cr_can_cast(result, x->dtype))
        return cr_fail(CR_BAD_TYPE, name, "a result of dtype %s cannot be written into %s", cr_dtype_name(result), cr_dtype_name(x->dtype));
    uint32_t later = read_later(c);
    for (int i = 0; i < c->n; i++)
        if (shifted_overlap(x, c->in[i]) || (later & CR_SAVE_IN(i) && c->in[i]->storage == x->storage)) {
            inputs_scope(given);
            cr_tensor *copy = cr_clone(c->in[i]);
            if (!copy) return cr_error_status();
            inputs_replace(given, i, copy);
        }
    cr_walk w;
    cr_status bad = cr_walk_fill(&w, q->program, q->params, compute, 1, &x, c->n, c->in, name);
    if (bad != CR_OK) return bad;
    const double start = cr_profile_start();
    bad = cr_finished(name, c->dev->kernels->elementwise(&(cr_elementwise_args){&w, 1}));
    if (start > 0) cr_profile_event(start, "op", name, c->n, c->in, 1, (const cr_tensor *const *)&x);
    if (bad != CR_OK) {
        atomic_fetch_add(&x->storage->version, 1);  /* a part may be written */
        return bad;
    }
    const cr_recorder *r = recorder;
    c->out = x;
    if (records(c)) bad = r->record_in_place(c, c->in, x);
    atomic_fetch_add(&x->storage->version, 1);
    if (bad == CR_OK && cr_anomaly && r) bad = r->check(c, x);
    return bad;
}

/* Can x be written the short way?  What shares its memory must lie on it element for element. */
static bool short_way_into(const cr_call *c, const cr_tensor *x, const cr_tensor *lead) {
    if (!lead || ew(c)->program->rule == CR_RULE_TEST || !alike(x, lead) || records(c)) return false;
    for (int i = 0; i < c->n; i++) if (shifted_overlap(x, c->in[i])) return false;
    return true;
}

/* What has no gradient, written over an x that has one: x's history ends there, as in a copy. */
static cr_tensor *overwrite(const cr_program *p, cr_tensor *x, const cr_tensor *const *in, const double *params) {
    cr_tensor *y = cr_apply_program(p, in, params), *done = NULL;
    if (y && !cr_can_cast(y->dtype, x->dtype))
        cr_fail(CR_BAD_TYPE, p->name, "a result of dtype %s cannot be written into %s", cr_dtype_name(y->dtype), cr_dtype_name(x->dtype));
    else if (y) done = cr_copy_(x, y);
    cr_release(y);
    return done;
}

cr_tensor *cr_apply_program_(const cr_program *p, cr_tensor *x, const cr_tensor *const *in, const double *params) {
    cr_ew_params q = ew_params(p, params);
    cr_call c = {.op = &cr_op_elementwise, .params = &q, .n = p->n_in, .in = in};
    inputs given;
    if (check_inputs(&c) != CR_OK || cr_check_writable(p->name, x, records(&c)) != CR_OK) return NULL;
    if (!grad_disabled && cr_in_graph(x) && !records(&c)) return overwrite(p, x, in, params);
    const cr_tensor *lead = short_way(p, in);
    if (short_way_into(&c, x, lead)) {
        cr_status failed = compute_short(p, lead, in, params, x);
        atomic_fetch_add(&x->storage->version, 1);
        return failed == CR_OK ? x : NULL;
    }
    if (!inputs_copy(&given, c.n, in, p->name)) return NULL;
    c.in = given.list;
    cr_status bad = settle_device(&c, &given);
    if (bad == CR_OK) bad = write_program(&c, &given, x);
    inputs_end(&given);
    return bad == CR_OK ? x : NULL;
}

/* ---- a structured op in place */
static cr_status write_op(cr_call *c, inputs *given, cr_tensor *x) {
    const char *name = cr_call_name(c);
    cr_meta m;
    start_meta(&m);
    if (c->op->infer(c, &m, NULL) != CR_OK) return cr_error_status();
    if (c->dev != x->dev) return cr_fail(CR_BAD_VALUE, name, "operands on two devices, %s and %s", x->dev->name, c->dev->name);
    for (int i = 1; i < c->n; i++)
        if (c->in[i] != CR_NONE && c->in[i]->storage == x->storage) {          /* it would be read after it was overwritten */
            inputs_scope(given);
            cr_tensor *copy = cr_clone(c->in[i]);
            if (!copy) return cr_error_status();
            inputs_replace(given, i, copy);
        }
    const double start = cr_profile_start();
    cr_status bad = cr_finished(name, c->op->write(c, x));
    if (start > 0) cr_profile_event(start, "op", name, c->n, c->in, 1, (const cr_tensor *const *)&x);
    atomic_fetch_add(&x->storage->version, 1);      /* also where it failed: a part may be written */
    const cr_recorder *r = recorder;
    c->out = x;
    return bad == CR_OK && cr_anomaly && r ? r->check(c, x) : bad;
}

static cr_tensor *write_recorded(const cr_op *op, cr_tensor *x, int n, const cr_tensor *const *in, const void *params) {
    cr_tensor *y = cr_apply(op, n, in, params), *done = y ? cr_copy_(x, y) : NULL;
    cr_release(y);
    return done;
}

cr_tensor *cr_apply_(const cr_op *op, cr_tensor *x, int n, const cr_tensor *const *in, const void *params) {
    cr_call c = {.op = op, .params = params, .n = n, .in = in};
    inputs given;
    if (check_inputs(&c) != CR_OK) return NULL;
    const bool recorded = cr_dtype_is_float(x->dtype) && records(&c);
    if (cr_check_writable(cr_call_name(&c), x, recorded) != CR_OK) return NULL;
    if (recorded) return write_recorded(op, x, n, in, params);
    if (!inputs_copy(&given, n, in, cr_call_name(&c))) return NULL;
    c.in = given.list;
    cr_status bad = settle_device(&c, &given);
    if (bad == CR_OK) bad = write_op(&c, &given, x);
    inputs_end(&given);
    return bad == CR_OK ? x : NULL;
}
