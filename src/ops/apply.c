/* apply.c - runs ops.  Every kernel runs in three steps:
 *
 *   prepare   check the inputs, move them to one device, infer the result, allocate it
 *   run       the kernel, timed for the profile; an interruption makes it fail
 *   commit    record a node, count the version of memory written in place, check for NaN in anomaly mode
 *
 * A cr_run is the outcome of the first step, and cr_execute does the other two.  There is one way to
 * prepare for each of: an op with a new result, an op in place, contiguous tensors of one shape (the
 * short path), updates of optimizers (update.c), copies (copy.c). */
#include "compose.h"
#include "transform.h"
#include "walk.h"
#include "../core/pending.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modes of the thread, and the seam to grad */
static _Atomic(const cr_recorder *) recorder;

bool cr_grad_enabled(void) { return !cr_modes.no_grad; }
bool cr_set_grad_enabled(bool on) { bool old = !cr_modes.no_grad; cr_modes.no_grad = !on; return old; }
bool cr_auto_transfer(bool on) { bool old = cr_modes.auto_transfer; cr_modes.auto_transfer = on; return old; }
void cr_set_recorder(const cr_recorder *r) { recorder = r; }

void cr_note(int n, const cr_tensor *const *in) {
    const cr_recorder *r = recorder;
    if (r && cr_modes.noting) r->note(n, in);
}

static _Atomic(cr_source_fn) source;
static _Atomic(void *) source_ctx;

void cr_set_source(cr_source_fn fn, void *ctx) {
    source = (cr_source_fn)0;
    source_ctx = ctx;
    source = fn;
}

const char *cr_source_now(void) {
    cr_source_fn fn = source;
    const char *text = fn ? fn(source_ctx) : NULL;
    return text ? text : "";
}

const char *cr_call_name(const cr_call *c) {
    return c->op->name_of ? c->op->name_of(c->params) : c->op->name;
}

/* ---- the executor, inlined into the paths of small ops: the call and the struct would cost them 5 % */

/* While a thread records, or while bytes are on their way.  The cr_run itself would have to lie in memory. */
static __attribute__((noinline, cold)) cr_status attend(const char *kind, const char *name, bool view, int n_in,
                                                        const cr_tensor *const *in, int n_out, cr_tensor *const *out) {
    const cr_watch *watch = cr_watching();
    cr_status status = CR_OK;
    if (watch) {
        watch->named(kind, name);
        watch->reads(n_in, in);
    }
    if (view) return CR_OK;                         /* it needs no bytes */
    for (int i = 0; i < n_in && status == CR_OK; i++) status = cr_await(name, in[i]->storage);
    for (int i = 0; i < n_out && status == CR_OK; i++) status = cr_await(name, out[i]->storage);
    return status;
}

static inline __attribute__((always_inline)) cr_status execute(const cr_run *p) {
    const cr_recorder *r = recorder;
    const double start = cr_profile_start();
    if (cr_is_unusual()) {
        const bool view = p->call && p->call->op->view;
        const cr_status status = attend(p->kind, p->name, view, p->n_in, p->in, p->n_out, p->out);
        if (status != CR_OK) return status;
    }
    if (cr_modes.noting) cr_note(p->n_in, p->in);
    cr_status status = cr_finished(p->name, p->kernel(p->work));
    const cr_tensor *const *out = (const cr_tensor *const *)p->out;
    if (start > 0) cr_profile_event(start, p->kind, p->name, p->n_in, p->in, p->n_out, out);
    if (status == CR_OK && p->saved) status = r->record(p->call, p->saved, p->out[0], p->in_place);
    if (p->in_place) {                              /* also after a failure: a part may be written */
        const cr_watch *watch = cr_watching();
        if (watch) watch->writes(p->n_out, p->out);
        for (int i = 0; i < p->n_out; i++) cr_count_write(out[i]);
    }
    if (status == CR_OK && p->call && cr_modes.anomaly && r) status = r->check(p->call, p->out[0]);
    return status;
}

cr_status cr_execute(const cr_run *p) { return execute(p); }

/* Is a node wanted for a float result of this call? */
static bool records(const cr_call *c) {
    if (cr_modes.no_grad || !recorder) return false;
    if (c->op == &cr_op_elementwise && !((const cr_ew_params *)c->params)->program->differentiable) return false;
    for (int i = 0; i < c->n; i++)
        if (cr_in_graph(c->in[i]) || cr_node_is_stale(c->in[i])) return true;      /* the latter will fail */
    return false;
}

cr_status cr_record(const cr_call *c, cr_tensor *out) {
    const cr_recorder *r = recorder;
    return records(c) ? r->record(c, c->in, out, false) : CR_OK;
}

cr_status cr_sync_node(const cr_tensor *t) {
    const cr_recorder *r = recorder;
    return r ? r->sync_node((cr_tensor *)(uintptr_t)t) : CR_OK;
}

/* ---- prepare: the inputs in an array of borrowed handles that may be replaced, on the stack if few */
enum { FEW = 16 };
typedef struct inputs { const cr_tensor *few[FEW], **list; bool scope; } inputs;

/* c->in becomes s->list. */
static bool inputs_copy(inputs *s, cr_call *c) {
    s->scope = false;
    s->list = c->n <= FEW ? s->few : malloc(sizeof *s->list * (size_t)c->n);
    if (!s->list) return cr_no_memory(cr_call_name(c)), false;
    memcpy(s->list, c->in, sizeof *c->in * (size_t)c->n);
    c->in = s->list;
    return true;
}

/* The scope that owns the handles which replace inputs, until inputs_end. */
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

/* A plain number is not moved: elementwise kernels of every device read it on the host. */
static bool is_number(const cr_call *c, const cr_tensor *t) {
    return c->op == &cr_op_elementwise && t->flags & CR_FLAG_WEAK && t->dev->host && !cr_in_graph(t);
}

const cr_tensor *cr_operand_on(const char *op, const cr_tensor *t, const cr_device *dev) {
    if (t->dev == dev) return t;
    if (!(t->flags & CR_FLAG_WEAK) && !cr_modes.auto_transfer)
        return cr_fail(CR_BAD_VALUE, op,
                       "operands on two devices, %s and %s: move one with to(), or switch auto_transfer on",
                       dev->name, t->dev->name), NULL;
    cr_tensor *moved = cr_to(t, t->dtype, dev);
    if (moved) moved->flags |= t->flags & CR_FLAG_WEAK;
    return moved;
}

/* The device of the first operand that is not a weak scalar, else of the first operand. */
static const cr_device *device_of(const cr_call *c) {
    const cr_device *dev = NULL;
    for (int i = 0; i < c->n; i++) {
        const cr_tensor *t = c->in[i];
        if (t == CR_NONE) continue;
        if (!(t->flags & CR_FLAG_WEAK)) return t->dev;
        if (!dev) dev = t->dev;
    }
    return dev;
}

/* Weak scalars move to the device of the call, other operands only with auto transfer. */
static cr_status choose_device(cr_call *c, inputs *s) {
    c->dev = device_of(c);
    for (int i = 0; i < c->n; i++) {
        const cr_tensor *t = c->in[i];
        if (t == CR_NONE || t->dev == c->dev || is_number(c, t)) continue;
        inputs_scope(s);
        s->list[i] = cr_operand_on(cr_call_name(c), t, c->dev);
        if (!s->list[i]) return cr_error_status();
    }
    return CR_OK;
}

/* ---- an op with a new result */
static void start_meta(cr_meta *m) {                /* infer fills the sizes */
    m->dtype = CR_BOOL;
    m->ndim = 0;
    m->offset = 0;
    m->strided = false;
}

static bool lacks_kernel(const cr_call *c) {
    void (*kernel)(void);
    if (!c->op->needs_kernel) return false;
    memcpy(&kernel, (const char *)c->dev->kernels + c->op->needs_kernel, sizeof kernel);
    return !kernel || (c->op->kernel_supports && !c->op->kernel_supports(c));
}

static cr_tensor *run_composite(const cr_call *c) {
    cr_scope_begin();
    return cr_leave(c->op->composite(c));
}

static bool may_record(const cr_tensor *out) { return recorder && !cr_modes.no_grad && cr_dtype_is_float(out->dtype); }

/* The result: a view of the first input, or new storage. */
static cr_tensor *make_out(const cr_call *c, const cr_meta *m) {
    if (!c->op->view) return cr_new_like(m, c->op->result_device ? c->op->result_device(c->params) : c->dev);
    cr_tensor *out = cr_tensor_alias(c->in[0], m);
    if (!out) return NULL;
    out->flags |= (uint16_t)(CR_FLAG_VIEW | (cr_modes.no_grad || c->in[0]->flags & CR_FLAG_APART ? CR_FLAG_APART : 0));
    if (!recorder || cr_modes.no_bases || !cr_dtype_is_float(out->dtype) || cr_base_join(out, c->in[0])) return out;
    cr_release(out);
    return NULL;
}

static cr_status make_aux(cr_call *c, const cr_meta *meta, cr_tensor *aux[]) {
    for (int k = 0; k < c->op->n_aux; k++) {
        c->aux[k] = aux[k] = cr_new_like(&meta[k], c->dev);
        if (!aux[k]) return cr_error_status();
    }
    return CR_OK;
}

typedef struct op_work { const cr_call *call; cr_tensor *out, *const *aux; } op_work;

static cr_status run_forward(const void *work) {
    const op_work *w = work;
    const cr_op *op = w->call->op;
    return op->forward ? op->forward(w->call, w->out, w->aux) : CR_OK;         /* a view needs no kernel */
}

/* seen: the call with the inputs as the kernel reads them. */
static cr_status execute_op(const cr_call *c, const cr_call *seen, cr_tensor *out, cr_tensor *const aux[]) {
    const bool recorded = c->op->grad && may_record(out) && records(c);
    return execute(&(cr_run){
        .kind = "op", .name = cr_call_name(c), .kernel = run_forward, .work = &(op_work){seen, out, aux},
        .n_in = c->n, .in = c->in, .n_out = 1, .out = &out, .call = c, .saved = recorded ? seen->in : NULL,
    });
}

static bool needs_copies(const cr_call *c) {
    if (!c->op->contiguous) return false;
    for (int i = 0; i < c->n; i++)
        if (c->in[i] != CR_NONE && !c->in[i]->contiguous) return true;
    return false;
}

static cr_status execute_contiguous(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    cr_call dense = *c;
    inputs s;
    if (!inputs_copy(&s, &dense)) return cr_error_status();
    inputs_scope(&s);
    const bool mode = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    for (int i = 0; i < c->n && status == CR_OK; i++) {
        if (c->in[i] == CR_NONE || c->in[i]->contiguous) continue;
        s.list[i] = cr_contiguous(c->in[i]);
        if (!s.list[i]) status = cr_error_status();
    }
    cr_set_grad_enabled(mode);
    if (status == CR_OK) status = execute_op(c, &dense, out, aux);
    inputs_end(&s);
    return status;
}

/* The call once its inputs are checked and on one device.  kept: for the auxiliary results, or NULL. */
static cr_tensor *run_call(cr_call *c, cr_tensor *kept[]) {
    cr_meta m, aux_meta[CR_MAX_AUX];
    cr_tensor *aux[CR_MAX_AUX] = {NULL};
    if (cr_any_wrapped(c->n, c->in)) return cr_run_wrapped(c, kept);
    start_meta(&m);
    for (int k = 0; k < c->op->n_aux; k++) start_meta(&aux_meta[k]);
    if (c->op->infer(c, &m, aux_meta) != CR_OK) return NULL;
    if (lacks_kernel(c)) return run_composite(c);
    cr_tensor *out = make_out(c, &m);
    if (!out) return NULL;
    c->out = out;
    cr_status status = make_aux(c, aux_meta, aux);
    if (status == CR_OK) status = needs_copies(c) ? execute_contiguous(c, out, aux) : execute_op(c, c, out, aux);
    for (int k = 0; k < CR_MAX_AUX; k++) {
        if (kept && status == CR_OK && k < c->op->n_aux) kept[k] = aux[k];
        else cr_release(aux[k]);
    }
    if (status == CR_OK) return out;
    cr_release(out);
    return NULL;
}

/* The same under autocast: inputs in the dtypes of the policy; what the op computes with others is not cast again. */
static cr_tensor *run_autocast(cr_call *c, inputs *s, cr_tensor *kept[]) {
    inputs_scope(s);
    const cr_cast_state casts = cr_casts_off();
    cr_status status = cr_autocast_inputs(c->op->name, c->dev, c->n, s->list);
    cr_tensor *out = status == CR_OK ? run_call(c, kept) : NULL;
    cr_set_casts(casts);
    return out;
}

cr_tensor *cr_apply_aux(const cr_op *op, int n, const cr_tensor *const *in, const void *params, cr_tensor *aux[]) {
    cr_call c = {.op = op, .params = params, .n = n, .in = in};
    inputs given;
    cr_tensor *out = NULL;
    for (int k = 0; aux && k < op->n_aux; k++) aux[k] = NULL;
    if (check_inputs(&c) != CR_OK || !inputs_copy(&given, &c)) return NULL;
    if (choose_device(&c, &given) == CR_OK) out = cr_modes.casting ? run_autocast(&c, &given, aux) : run_call(&c, aux);
    if (out && given.scope) {
        cr_keep(out);
        for (int k = 0; aux && k < op->n_aux; k++) cr_keep(aux[k]);
    }
    inputs_end(&given);
    return out;
}

cr_tensor *cr_apply(const cr_op *op, int n, const cr_tensor *const *in, const void *params) {
    return cr_apply_aux(op, n, in, params, NULL);
}

static cr_ew_params ew_params(const cr_program *p, const double *params) {
    cr_ew_params q = {.program = p};
    if (p->n_param) memcpy(q.params, params, sizeof(double) * (size_t)p->n_param);
    return q;
}

/* ---- the short path: contiguous tensors of one shape, float dtype and device, and plain numbers:
 * no promotion, no broadcasting, no transfer */

static bool alike(const cr_tensor *t, const cr_tensor *lead) {
    if (!t->contiguous || t->dtype != lead->dtype || t->ndim != lead->ndim || t->dev != lead->dev) return false;
    for (int d = 0; d < lead->ndim; d++)
        if (t->shape[d] != lead->shape[d]) return false;
    return true;
}

/* The first operand that is not a number, where the short path can be taken; else NULL. */
static const cr_tensor *short_lead(const cr_program *p, const cr_tensor *const *in) {
    const cr_tensor *lead = NULL;
    if (cr_modes.anomaly || p->rule == CR_RULE_BITS || p->rule == CR_RULE_WHERE) return NULL;
    for (int i = 0; i < p->n_in && !lead; i++) {
        if (!in[i]) return NULL;
        if (!(in[i]->flags & CR_FLAG_WEAK)) lead = in[i];
    }
    if (!lead || cr_dtype_kind(lead->dtype) != CR_KIND_FLOAT) return NULL;
    for (int i = 0; i < p->n_in; i++) {
        const cr_tensor *t = in[i];
        if (t == lead && t->contiguous) continue;
        if (!t) return NULL;
        const bool number = t->flags & CR_FLAG_WEAK;
        if (number ? t->dev != lead->dev && (!t->dev->host || cr_in_graph(t)) : !alike(t, lead)) return NULL;
    }
    return lead;
}

/* The walk has one axis; further strides are never read. */
static inline void short_arg(cr_arg *a, const cr_tensor *t) {
    a->data = t->dev->host ? cr_tensor_data(t) : NULL;
    a->storage = t->storage;
    a->offset = t->offset;
    a->dtype = t->dtype;
    a->strides[0] = !(t->flags & CR_FLAG_WEAK);
}

cr_status cr_run_walks(const void *work) {
    const cr_elementwise_args *a = work;
    return a->walks[0].out[0].storage->dev->kernels->elementwise(a);
}

/* Fills c and q, which it uses.  Is the call to be recorded? */
static bool short_records(cr_call *c, cr_ew_params *q, const cr_program *p, const cr_tensor *const *in,
                          const double *params, const cr_tensor *out) {
    if (!recorder || !p->differentiable || out->dtype == CR_BOOL) return false;
    *q = ew_params(p, params);
    *c = (cr_call){.op = &cr_op_elementwise, .params = q, .n = p->n_in, .in = in, .dev = out->dev, .out = out};
    return records(c);
}

static cr_status execute_short(const cr_program *p, const cr_tensor *lead, const cr_tensor *const *in,
                               const double *params, cr_tensor *out, bool in_place) {
    cr_walk w;
    w.program = p, w.params = params, w.compute = lead->dtype == CR_F64 ? CR_F64 : CR_F32;
    w.ndim = 1, w.shape[0] = w.numel = out->numel;
    w.n_out = 1, w.n_in = p->n_in;
    short_arg(&w.out[0], out);
    for (int i = 0; i < p->n_in; i++) short_arg(&w.in[i], in[i]);
    const cr_elementwise_args work = {&w, 1};
    cr_ew_params q;
    cr_call c;
    const bool recorded = !in_place && short_records(&c, &q, p, in, params, out);
    return execute(&(cr_run){
        .kind = "op", .name = p->name, .kernel = cr_run_walks, .work = &work, .n_in = p->n_in, .in = in, .n_out = 1,
        .out = &out, .in_place = in_place, .call = recorded ? &c : NULL, .saved = recorded ? in : NULL,
    });
}

/* memory: lead's shape and dtype, used by nothing else, for the result; NULL: new. */
static cr_tensor *run_short(const cr_program *p, const cr_tensor *lead, const cr_tensor *const *in,
                            const double *params, const cr_tensor *memory) {
    const cr_device *dev = lead->dev;
    const cr_dtype dt = p->rule == CR_RULE_TEST ? CR_BOOL : lead->dtype;
    const size_t bytes = (size_t)lead->numel * cr_dtype_size(dt);
    cr_storage *s = memory ? cr_storage_retain(memory->storage) : dev->allocate(dev, bytes);
    cr_tensor *out = s ? cr_tensor_like(s, lead, dt) : NULL;
    if (!out || execute_short(p, lead, in, params, out, false) == CR_OK) return out;
    cr_release(out);
    return NULL;
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
        if (cr_broadcast(p->name, out->ndim, out->shape, c->in[i]->ndim, c->in[i]->shape, &out->ndim, out->shape) !=
            CR_OK)
            return cr_error_status();
    return CR_OK;
}

/* The program into y, which is new or, in place, one of the inputs. */
static cr_status ew_write(const cr_call *c, cr_tensor *y) {
    const cr_ew_params *q = ew(c);
    cr_dtype compute, result;
    cr_walk w;
    if (cr_rule_dtypes(q->program, c->in, &compute, &result) != CR_OK ||
        cr_walk_fill(&w, q->program, q->params, compute, 1, &y, c->n, c->in, q->program->name) != CR_OK)
        return cr_error_status();
    return c->dev->kernels->elementwise(&(cr_elementwise_args){&w, 1});
}

static cr_status ew_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return ew_write(c, out);
}

/* The inputs and the result that the wanted gradients read, from the table of each gradient
 * program. */
static inline uint32_t reads(const cr_call *c, const cr_gradient *g) {
    const cr_program *p = ew(c)->program;
    uint32_t saves = 0;
    for (int i = 0; g && i < c->n; i++)
        for (int j = 0; c->needs[i] && g[i].program && j < g[i].n; j++)
            if (g[i].from[j] <= p->n_in) saves |= g[i].from[j] < p->n_in ? CR_SAVE_IN(g[i].from[j]) : CR_SAVE_OUT;
    return saves;
}

static uint32_t ew_saves(const cr_call *c) {
    const cr_program *p = ew(c)->program;
    const cr_gradient *g = p->fast;
    for (int i = 0; g && i < c->n; i++)
        if (c->in[i]->dtype == CR_F64) g = NULL;
    return reads(c, g ? g : cr_program_gradient(p));
}

/* The gradients for the cotangent g: read no more than was saved. */
static const cr_gradient *rules(const cr_call *c, const cr_tensor *g) {
    const cr_program *p = ew(c)->program;
    const cr_gradient *exact = cr_program_gradient(p);
    if (!p->fast || g->dtype == CR_F64) return exact;
    return c->differentiable && !(reads(c, exact) & ~reads(c, p->fast)) ? exact : p->fast;
}

/* Can the gradient of input i be written over g?  Nothing but the walk references g, and no other
 * gradient of this op reads it. */
static bool reusable(const cr_call *c, const cr_tensor *g, int i) {
    for (int k = 0; k < c->n; k++) if (k != i && c->needs[k]) return false;
    return !c->differentiable && atomic_load(&g->refs) == 1 && atomic_load(&g->storage->refs) == 1 && !g->offset &&
           g->contiguous;
}

static void ew_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_ew_params *q = ew(c);
    const cr_program *p = q->program;
    const cr_gradient *gradients = rules(c, g);
    for (int i = 0; i < c->n; i++) {
        if (!c->needs[i]) continue;
        if (!gradients) { dx[i] = NULL; continue; }
        const cr_gradient *d = &gradients[i];
        const cr_tensor *in[CR_MAX_INPUTS + 2];
        if (!d->program) continue;
        /* dx = g, as for a sum */
        if (d->n == 1 && !d->program->n_instr && d->program->out[0] == 0 && d->from[0] == p->n_in + 1) {
            dx[i] = (cr_tensor *)(uintptr_t)g;
            continue;
        }
        for (int j = 0; j < d->n; j++)
            in[j] = d->from[j] < p->n_in ? c->in[d->from[j]] : d->from[j] == p->n_in ? c->out : g;
        const cr_tensor *lead = short_lead(d->program, in);
        const bool over = lead && lead->dtype == g->dtype && lead->numel == g->numel && reusable(c, g, i);
        dx[i] = over ? run_short(d->program, lead, in, q->params, g) : cr_apply_program(d->program, in, q->params);
    }
}

/* vmap: axes of one sample lie behind each other from the right.  A sample without axes is a number among tensors for
 * the rules of dtypes, and its batch is not. */
static cr_tensor *ew_batch(const cr_batched *b) {
    const cr_call *c = b->call;
    const int condition = ew(c)->program->rule == CR_RULE_WHERE;
    const cr_dtype dt = cr_result_type(c->n - condition, c->in + condition);
    cr_dtype compute[2], result;
    if (cr_rule_dtypes(ew(c)->program, c->in, &compute[0], &result) != CR_OK ||
        cr_rule_dtypes(ew(c)->program, b->in, &compute[1], &result) != CR_OK)
        return NULL;
    const bool same_type = compute[0] == compute[1];
    for (int i = 0; i < c->n; i++) {
        b->in[i] = cr_batch_aligned(b, i, b->out->ndim);
        if (b->has[i] && !same_type && i >= condition) b->in[i] = cast_to(b->in[i], dt);
    }
    return cast_to(cr_batch_same(b), b->out->dtype);
}

/* No further derivative of x can be asked for. */
static bool is_last(const cr_tensor *x) {
    if (x == CR_NONE) return true;
    for (; cr_wrapped(x); x = x->wrapper->value)
        if (x->wrapper->tangent) return false;
    return x->dtype != CR_F64 && !(cr_grad_enabled() && cr_in_graph(x));
}

static const cr_gradient *tangent_rules(const cr_call *c, const cr_tensor *const *t) {
    const cr_program *p = ew(c)->program;
    const cr_gradient *found = p->fast;
    for (int i = 0; i < c->n && found; i++)
        if (!is_last(c->in[i]) || !is_last(t[i])) found = NULL;
    return found ? found : cr_program_gradient(p);
}

/* forward mode: the gradient of input i, whose cotangent is its tangent */
static cr_tensor *ew_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_ew_params *q = ew(c);
    const cr_program *p = q->program;
    const cr_gradient *gradients = tangent_rules(c, t);
    cr_tensor *sum = same(CR_NONE);
    if (!gradients) return NULL;
    for (int i = 0; i < c->n && sum; i++) {
        const cr_gradient *d = &gradients[i];
        const cr_tensor *in[CR_MAX_INPUTS + 2];
        if (t[i] == CR_NONE || !d->program) continue;
        for (int j = 0; j < d->n; j++)
            in[j] = d->from[j] < p->n_in ? c->in[d->from[j]] : d->from[j] == p->n_in ? c->out : t[i];
        const bool passes = d->n == 1 && !d->program->n_instr && d->program->out[0] == 0 && d->from[0] == p->n_in + 1;
        sum = cr_tangent_sum(sum, passes ? t[i] : cr_apply_program(d->program, in, q->params));
    }
    return sum;
}

static const char *ew_name(const void *params) { return ((const cr_ew_params *)params)->program->name; }

static void ew_hold(const void *params, bool hold) {
    cr_program *p = (cr_program *)(uintptr_t)((const cr_ew_params *)params)->program;
    if (hold) cr_program_retain(p);
    else cr_program_free(p);
}

const cr_op cr_op_elementwise = {
    .name = "elementwise",
    .name_of = ew_name,
    .arity = -1,
    .params_bytes = sizeof(cr_ew_params),
    .only_saved = true,
    .saves_for = ew_saves,
    .infer = ew_infer,
    .forward = ew_forward,
    .write = ew_write,
    .grad = ew_grad,
    .batch = ew_batch,
    .tangent = ew_tangent,
    .hold = ew_hold,
};

cr_tensor *cr_apply_program(const cr_program *p, const cr_tensor *const *in, const double *params) {
    const cr_tensor *lead = short_lead(p, in);
    if (lead) return run_short(p, lead, in, params, NULL);
    cr_ew_params q = ew_params(p, params);
    return cr_apply(&cr_op_elementwise, p->n_in, in, &q);
}

/* ---- in place: may x be written? */
static bool is_leaf(const cr_tensor *x) {
    return x->flags & CR_FLAG_REQUIRES_GRAD && ((const cr_node_head *)(const void *)x->node)->leaf;
}

/* Can a write to the view x become part of the graph? */
static cr_status check_view(const char *op, const cr_tensor *x) {
    const cr_base *b = atomic_load_explicit(&x->base, memory_order_relaxed);
    if (b ? b->node && ((const cr_node_head *)(const void *)b->node)->leaf : x->flags & CR_FLAG_REQUIRES_GRAD)
        return cr_fail(
            CR_RUNTIME, op,
            "a view of a leaf that requires grad cannot be written in place: turn the gradient mode off around it");
    if (!b)
        return cr_fail(CR_RUNTIME, op,
                       "a view that was made while the gradient mode was off, or of elements that share memory, cannot "
                       "become part of a graph: take it again");
    int64_t axes[CR_MAX_DIMS];
    uint32_t reversed;
    cr_part_params part;
    cr_meta whole = cr_in_memory_order(&b->meta, axes, &reversed);
    if (cr_part_of(&whole, x, &part)) return CR_OK;
    return cr_fail(
        CR_RUNTIME, op,
        "no gradient can be given for a write to a view with strides %s of a tensor with strides %s: clone that first",
        cr_shape_text(x->ndim, x->strides).s, cr_shape_text(b->meta.ndim, b->meta.strides).s);
}

cr_status cr_check_writable(const char *op, const cr_tensor *x, bool recorded) {
    if (cr_missing(op, "the tensor to write", x)) return cr_error_status();
    if (x == CR_NONE) return cr_fail(CR_BAD_VALUE, op, "CR_NONE cannot be written");
    if (cr_wrapped(x)) return cr_want_elements(op, x);
    for (int i = 0; i < x->ndim; i++)
        if (x->strides[i] == 0 && x->shape[i] > 1 && x->numel)
            return cr_fail(CR_BAD_VALUE, op,
                           "cannot write in place: axis %d of %s is expanded, several elements share memory", i,
                           cr_shape_text(x->ndim, x->shape).s);
    if (!x->contiguous && cr_shape_overlaps(x->ndim, x->shape, x->strides))
        return cr_fail(CR_BAD_VALUE, op, "cannot write in place: elements of %s with strides %s share memory",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(x->ndim, x->strides).s);
    if (cr_modes.no_grad) return CR_OK;
    recorded |= cr_in_graph(x);
    const cr_base *base = x->flags & CR_FLAG_APART ? atomic_load_explicit(&x->base, memory_order_relaxed) : NULL;
    if (base && (base->node || recorded))
        return cr_fail(CR_RUNTIME, op, "a view that was made while the gradient mode was off cannot be written in "
                       "place while it is on: take it again");
    if (is_leaf(x))
        return cr_fail(CR_RUNTIME, op,
                       "a leaf that requires grad cannot be written in place: turn the gradient mode off around it");
    return recorded && x->flags & CR_FLAG_VIEW ? check_view(op, x) : CR_OK;
}

/* ---- in place: the plan */

/* An input that shares storage with x but not element for element would be read after it was
 * overwritten. */
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

/* Inputs in x's memory that will be read after they are overwritten become copies. */
static cr_status copy_overlapping(cr_call *c, inputs *given, const cr_tensor *x) {
    const bool elementwise = c->op == &cr_op_elementwise;
    const uint32_t later = elementwise ? read_later(c) : 0;
    for (int i = 0; i < c->n; i++) {
        if (c->in[i]->storage != x->storage) continue;
        const bool needed = elementwise ? later & CR_SAVE_IN(i) || shifted_overlap(x, c->in[i]) : i > 0;
        if (!needed) continue;
        inputs_scope(given);
        given->list[i] = cr_clone(c->in[i]);
        if (!given->list[i]) return cr_error_status();
    }
    return CR_OK;
}

static cr_status check_dtype_into(const char *name, cr_dtype result, const cr_tensor *x) {
    if (cr_can_cast(result, x->dtype)) return CR_OK;
    return cr_fail(CR_BAD_TYPE, name, "a result of dtype %s cannot be written into %s", cr_dtype_name(result),
                   cr_dtype_name(x->dtype));
}

/* Does the result fit into x? */
static cr_status check_target(const cr_call *c, const cr_meta *result, const cr_tensor *x) {
    const char *name = cr_call_name(c);
    if (c->dev != x->dev)
        return cr_fail(CR_BAD_VALUE, name, "operands on two devices, %s and %s", x->dev->name, c->dev->name);
    if (!cr_shape_equal(result->ndim, result->shape, x->ndim, x->shape))
        return cr_fail(CR_BAD_VALUE, name, "a result of shape %s cannot be written into %s",
                       cr_shape_text(result->ndim, result->shape).s, cr_shape_text(x->ndim, x->shape).s);
    return check_dtype_into(name, result->dtype, x);
}

static cr_status run_write(const void *work) {
    const op_work *w = work;
    return w->call->op->write(w->call, w->out);
}

static cr_status execute_write(cr_call *c, inputs *given, cr_tensor *x) {
    cr_meta m;
    start_meta(&m);
    if (c->op->infer(c, &m, NULL) != CR_OK || check_target(c, &m, x) != CR_OK || copy_overlapping(c, given, x) != CR_OK)
        return cr_error_status();
    const bool recorded = c->op == &cr_op_elementwise && records(c);
    c->out = x;
    return execute(&(cr_run){
        .kind = "op", .name = cr_call_name(c), .kernel = run_write, .work = &(op_work){c, x, NULL}, .n_in = c->n,
        .in = c->in, .n_out = 1, .out = &x, .in_place = true, .call = c, .saved = recorded ? c->in : NULL,
    });
}

/* The op's kernel writes x. */
static cr_tensor *write_directly(cr_call *c, cr_tensor *x) {
    inputs given;
    if (!inputs_copy(&given, c)) return NULL;
    cr_status status = choose_device(c, &given);
    if (status == CR_OK) status = execute_write(c, &given, x);
    inputs_end(&given);
    return status == CR_OK ? x : NULL;
}

/* The result is computed in new memory and copied into x, which ends the history of x as any copy_
 * does. */
static cr_tensor *write_by_copy(const cr_call *c, cr_tensor *x) {
    cr_tensor *y = cr_apply(c->op, c->n, c->in, c->params), *done = NULL;
    if (y && check_dtype_into(cr_call_name(c), y->dtype, x) == CR_OK) done = cr_copy_(x, y);
    cr_release(y);
    return done;
}

/* Can x be written on the short path?  Inputs in its memory must be the same elements. */
static bool short_into(const cr_call *c, const cr_tensor *x, const cr_tensor *lead) {
    if (!lead || ew(c)->program->rule == CR_RULE_TEST || !alike(x, lead)) return false;
    for (int i = 0; i < c->n; i++)
        if (shifted_overlap(x, c->in[i])) return false;
    return true;
}

/* The same inside vmap and forward mode.  The gradient may read what x was before. */
static cr_tensor *write_wrapped(const cr_call *c, cr_tensor *x) {
    cr_call apart = *c;
    inputs given;
    if (!inputs_copy(&given, &apart)) return NULL;
    bool there = true;
    for (int i = 0; i < c->n && there; i++) {
        if (cr_modes.no_grad || c->in[i] == CR_NONE || c->in[i]->storage != x->storage) continue;
        inputs_scope(&given);
        there = (given.list[i] = cr_clone(c->in[i]));
    }
    cr_tensor *done = there ? write_by_copy(&apart, x) : NULL;
    inputs_end(&given);
    return done;
}

static cr_tensor *apply_program_into(const cr_program *p, cr_tensor *x, const cr_tensor *const *in,
                                     const double *params) {
    cr_ew_params q = ew_params(p, params);
    cr_call c = {.op = &cr_op_elementwise, .params = &q, .n = p->n_in, .in = in};
    if (check_inputs(&c) != CR_OK) return NULL;
    if (cr_wrapped(x) || cr_any_wrapped(c.n, in)) return write_wrapped(&c, x);
    const bool recorded = records(&c);
    if (cr_check_writable(p->name, x, recorded) != CR_OK) return NULL;
    if (!recorded && !cr_modes.no_grad && cr_in_graph(x)) return write_by_copy(&c, x);
    const cr_tensor *lead = recorded ? NULL : short_lead(p, in);
    if (!short_into(&c, x, lead)) return write_directly(&c, x);
    return execute_short(p, lead, in, params, x, true) == CR_OK ? x : NULL;
}

/* A failure is reported under the name of the function that the user called, which ends in _. */
static cr_tensor *named_in_place(const char *name, cr_status before, cr_tensor *x) {
    char call[80];
    if (x) return x;
    const size_t length = strlen(name);
    snprintf(call, sizeof call, "%s%s", name, length && name[length - 1] == '_' ? "" : "_");
    return cr_named(call, before, NULL);
}

cr_tensor *cr_apply_program_(const cr_program *p, cr_tensor *x, const cr_tensor *const *in, const double *params) {
    const cr_status before = cr_error_status();
    return named_in_place(p->name, before, apply_program_into(p, x, in, params));
}

cr_tensor *cr_apply_(const cr_op *op, cr_tensor *x, int n, const cr_tensor *const *in, const void *params) {
    cr_call c = {.op = op, .params = params, .n = n, .in = in};
    if (check_inputs(&c) != CR_OK) return NULL;
    if (cr_wrapped(x) || cr_any_wrapped(n, in)) return write_wrapped(&c, x);
    const bool recorded = cr_dtype_is_float(x->dtype) && records(&c);
    if (cr_check_writable(cr_call_name(&c), x, recorded) != CR_OK) return NULL;
    return recorded ? write_by_copy(&c, x) : write_directly(&c, x);
}
