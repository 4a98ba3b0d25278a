/* optim.c - optimizers.  A step runs one elementwise program, an UPDATE row of ops.def, over all
 * parameters at once.  What changes from step to step (learning rate, bias corrections) are the
 * program's params.  Moments are f32 (f64 for f64 parameters); the first step of a parameter makes
 * them.  Optimizers: optimizers.c.  State and loading: state.c. */
#include "optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/out.h"
#include "../core/status.h"
#include "../nn/params.h"

/* ---- options ---- */
static cr_status check_number(const char *op, const char *what, double v, double below) {
    if (v >= 0 && v < below) return CR_OK;
    if (isinf(below)) return cr_fail(CR_BAD_VALUE, op, "%s must be finite and at least 0, not %g", what, v);
    return cr_fail(CR_BAD_VALUE, op, "%s must be in [0, %g), not %g", what, below, v);
}

static cr_status check_options(const char *op, const cr_optim_options *o) {
    if (!o) return cr_fail_null(op, "the options");
    const cr_optimizer *optimizer = cr_optimizer_of(o->kind);
    if (!optimizer) return cr_fail(CR_BAD_VALUE, op, "kind must be one of cr_optim_kind, not %d", (int)o->kind);
    const struct { const char *name; double value, below; } numbers[] = {
        {"lr", o->lr, INFINITY}, {"beta1", o->beta1, 1}, {"beta2", o->beta2, 1}, {"eps", o->eps, INFINITY},
        {"momentum", o->momentum, optimizer->averages ? 1 : INFINITY}, {"weight_decay", o->weight_decay, INFINITY}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        cr_status status = check_number(op, numbers[i].name, numbers[i].value, numbers[i].below);
        if (status != CR_OK) return status;
    }
    if (o->decay_min_ndim < 0)
        return cr_fail(CR_BAD_VALUE, op, "decay_min_ndim must be at least 0, not %d", o->decay_min_ndim);
    if (o->nesterov && !(o->momentum > 0))
        return cr_fail(CR_BAD_VALUE, op, "nesterov needs a momentum above 0, not %g", o->momentum);
    return CR_OK;
}

static const cr_update *update_of(const cr_optim_options *o, int ndim) {
    const cr_optimizer *optimizer = cr_optimizer_of(o->kind);
    return optimizer->choose ? optimizer->choose(o, ndim) : optimizer->update;
}

/* ---- making ---- */
static void slot_close(cr_slot *s) {
    free(s->name);
    cr_unhold(s->p);
    for (int k = 0; k < CR_KEPT; k++) cr_drop(s->kept[k]);
    cr_drop(s->mirror);
}

void cr_optim_free(cr_optim *opt) {
    if (!opt || cr_stale("optim_free", "the optimizer", opt)) return;
    for (int64_t i = 0; i < opt->count; i++) slot_close(&opt->slots[i]);
    free(opt->slots);
    free(opt->options);
    cr_retire(opt);
}

cr_optim *cr_optim_new(const cr_params *p, const cr_optim_options *o) {
    cr_optim *opt = calloc(1, sizeof *opt);
    if (!opt) return cr_fail(CR_NO_MEMORY, "optim_new", "no memory for an optimizer"), NULL;
    opt->scale = 1;
    opt->norm = NAN;
    if (cr_optim_add(opt, p, o) == CR_OK) return opt;
    cr_optim_free(opt);
    return NULL;
}

static cr_status check_member(const cr_optim *opt, const char *name, const cr_tensor *p) {
    if (!cr_dtype_is_float(cr_dtype_of(p)))
        return cr_fail(CR_BAD_TYPE, "optim_add", "'%s' is %s: only float parameters can be trained", name,
                       cr_dtype_name(cr_dtype_of(p)));
    if (!cr_is_leaf(p))
        return cr_fail(CR_BAD_VALUE, "optim_add", "'%s' is computed from other tensors: only leaves can be trained",
                       name);
    for (int64_t i = 0; i < opt->count; i++) {
        if (opt->slots[i].p == p)
            return cr_fail(CR_BAD_VALUE, "optim_add", "'%s' is in another group already, as '%s'", name,
                           opt->slots[i].name);
        if (!strcmp(opt->slots[i].name, name))
            return cr_fail(CR_BAD_VALUE, "optim_add", "another group has a parameter named '%s'", name);
    }
    return CR_OK;
}

/* Room for n more slots and one more group. */
static cr_status reserve(cr_optim *opt, int64_t n) {
    const bool room = cr_grow(&opt->slots, opt->count + n, &opt->slot_room, sizeof *opt->slots) &&
                      cr_grow(&opt->options, opt->groups + 1, &opt->option_room, sizeof *opt->options);
    return room ? CR_OK : cr_no_memory("optim_add");
}

/* The slot's name and the names of its entries, in one block. */
static bool name_slot(cr_slot *s, const char *name) {
    static const char suffix[CR_STATE_ENTRIES] = {'m', 'v', 'w', 't'};
    const size_t n = strlen(name);
    char *at = s->name = malloc((n + 1) + CR_STATE_ENTRIES * (n + 3));
    if (!at) return false;
    at += sprintf(at, "%s", name) + 1;
    for (int k = 0; k < CR_STATE_ENTRIES; k++) {
        s->entry[k] = at;
        at += sprintf(at, "%s.%c", name, suffix[k]) + 1;
    }
    return true;
}

static cr_status add_slot(cr_optim *opt, const char *name, cr_tensor *t, const cr_optim_options *o) {
    cr_slot *s = &opt->slots[opt->count];
    cr_status status = check_member(opt, name, t);
    if (status != CR_OK) return status;
    *s = (cr_slot){.group = opt->groups, .update = update_of(o, cr_ndim(t)), .decays = cr_ndim(t) >= o->decay_min_ndim};
    s->master = o->master_weights && cr_dtype_size(cr_dtype_of(t)) == 2;
    if (!name_slot(s, name)) return cr_fail(CR_NO_MEMORY, "optim_add", "no memory for a name");
    s->p = cr_hold(t);
    opt->count++;
    return CR_OK;
}

static cr_status add_group(cr_optim *opt, const cr_params *p, const cr_optim_options *o) {
    const int64_t n = cr_params_count(p);
    cr_status status = reserve(opt, n);
    for (int64_t i = 0; i < n; i++) {
        if (status != CR_OK) return status;
        if (!cr_params_alias(p, i)) status = add_slot(opt, cr_params_name(p, i), cr_params_at(p, i), o);
    }
    if (status == CR_OK) opt->options[opt->groups++] = *o;
    return status;
}

cr_status cr_optim_add(cr_optim *opt, const cr_params *p, const cr_optim_options *o) {
    if (cr_lacks("optim_add", "the optimizer", opt)) return cr_error_status();
    if (cr_lacks("optim_add", "the parameter set", p)) return cr_error_status();
    cr_status status = check_options("optim_add", o);
    if (status != CR_OK) return status;
    const int64_t before = opt->count;
    status = add_group(opt, p, o);
    /* the whole group or nothing */
    while (status != CR_OK && opt->count > before) slot_close(&opt->slots[--opt->count]);
    return status;
}

/* ---- stepping ---- */
cr_tensor *cr_kept_new(const cr_optim *opt, const cr_slot *s, int k) {
    const cr_tensor *p = s->p;
    const cr_dtype dt = cr_dtype_of(p) == CR_F64 ? CR_F64 : CR_F32;
    cr_scope_begin();                               /* moments outlive the caller's scope */
    cr_tensor *t = opt->options[s->group].offload ? cr_zeros_offloaded(p, dt)
                                                  : cr_zeros(cr_ndim(p), cr_shape(p), dt, cr_device_of(p));
    if (t && k == CR_MASTER) t = cr_copy_(t, p);
    if (t) cr_retain(t);
    cr_scope_end();
    return t;
}

static cr_status make_kept(const cr_optim *opt, cr_slot *s) {
    for (int k = 0; k < CR_KEPT; k++) {
        if (s->kept[k] || !cr_slot_keeps(s, k)) continue;
        if (cr_record_refuse("optim_step", "the first step makes moments, which a replay would make again: run a step "
                                           "before it is recorded") != CR_OK)
            return cr_error_status();
        s->kept[k] = cr_kept_new(opt, s, k);
        if (!s->kept[k]) return cr_error_status();
    }
    return CR_OK;
}

/* Makes everything that needs memory before the first parameter changes. */
static cr_status prepare_step(cr_optim *opt) {
    for (int64_t i = 0; i < opt->count; i++) {
        cr_slot *s = &opt->slots[i];
        const cr_tensor *g = cr_grad(s->p);
        if (!g) return cr_error_status();
        s->stepping = !cr_is_none(g);
        if (s->stepping && make_kept(opt, s) != CR_OK) return cr_error_status();
    }
    return CR_OK;
}

/* One run of an update: its program, the tensors of n parameters and the program's params. */
typedef struct call {
    const cr_program *program;
    cr_tensor **out;
    const cr_tensor **in;
    int64_t n, n_out, n_in;
    double params[CR_MAX_STEP_PARAMS];
    cr_status status;                               /* of making the params */
} call;

static call call_of(const cr_optim *opt, const cr_slot *s, cr_tensor **out, const cr_tensor **in) {
    call c = {.program = cr_program_find(cr_slot_copy(s) ? s->update->mirrored : s->update->row), .out = out, .in = in};
    c.status = cr_slot_params(c.program, s, &opt->options[s->group], opt->scale, 1, c.params);
    return c;
}

/* Appends what the update of one parameter reads and writes, in the order of its program. */
static void call_add(call *c, const cr_slot *s, const cr_tensor *g) {
    c->in[c->n_in++] = c->out[c->n_out++] = cr_slot_stepped(s);
    c->in[c->n_in++] = g;
    for (int k = 0; k < s->update->moments; k++) c->in[c->n_in++] = c->out[c->n_out++] = s->kept[k];
    if (cr_slot_copy(s)) c->out[c->n_out++] = cr_slot_copy(s);
    c->n++;
}

static cr_status call_run(const call *c) {
    return c->status == CR_OK ? cr_program_update(c->program, c->n, c->out, c->in, c->params) : c->status;
}

/* Do both take the same program and the same params? */
static bool together(const cr_slot *a, const cr_slot *b) {
    if (a->update != b->update || a->group != b->group || a->decays != b->decays) return false;
    if (!cr_slot_copy(a) != !cr_slot_copy(b) || cr_device_of(a->p) != cr_device_of(b->p)) return false;
    return a->steps == b->steps || !a->update->corrected;
}

/* ---- recorded steps: each replay counts a step, and takes the options as they are then.  A step with clipped
 * gradients does so when the host has found the factor, else before the replay */
typedef struct replay {
    cr_optim *opt;
    int64_t exchanged;                              /* opt's, in the recording */
    int64_t n, n_slots, *slots, *lead;              /* slots that step, and the first one of the update of each slot */
    struct { int64_t slot; const cr_program *row; double ratio; int params; } of[];
                                                    /* of each update: its first slot, and the number of its params */
} replay;
enum { MOST_ROWS = 2 };                             /* that step one parameter */

static void replay_end(void *ctx) {
    free(((replay *)ctx)->slots);
    free(ctx);
}

/* The plan has the tensors of the recording.  Slots of one update have its params, so they must have taken equally many
 * steps. */
static cr_status check_slots(const replay *r) {
    if (r->exchanged != r->opt->exchanged)
        return cr_fail(CR_RUNTIME, "optim_step", "a state was loaded or a mirror changed since the step was recorded: "
                                                 "record the step again");
    for (int64_t i = 0; i < r->n_slots; i++) {
        const cr_slot *s = &r->opt->slots[r->slots[i]], *lead = &r->opt->slots[r->lead[r->slots[i]]];
        if (s->steps != lead->steps && s->update->corrected)
            return cr_fail(CR_RUNTIME, "optim_step", "'%s' and '%s' stepped together in the recording, but have taken "
                           "%lld and %lld steps by now: record the step again", lead->name, s->name,
                           (long long)lead->steps, (long long)s->steps);
    }
    return CR_OK;
}

static cr_status replay_scaled(cr_plan *p, const replay *r, double scale) {
    cr_optim *opt = r->opt;
    if (check_slots(r) != CR_OK) return cr_error_status();
    for (int64_t i = 0; i < r->n; i++) {
        const cr_slot *s = &opt->slots[r->of[i].slot];
        double params[CR_MAX_STEP_PARAMS];
        cr_status status = cr_slot_params(r->of[i].row, s, &opt->options[s->group], scale, r->of[i].ratio, params);
        if (status != CR_OK) return status;
        cr_plan_set_params(p, r->of[i].params, params);
    }
    for (int64_t i = 0; i < r->n_slots; i++) opt->slots[r->slots[i]].steps++;
    opt->steps++;
    return CR_OK;
}

static cr_status replay_step(cr_plan *p, void *ctx) {
    const replay *r = ctx;
    if (p) return replay_scaled(p, r, 1);
    for (int64_t i = 0; i < r->n_slots; i++) r->opt->slots[r->slots[i]].steps--;        /* the run failed */
    r->opt->steps--;
    return CR_OK;
}

static cr_status replay_clipped(cr_plan *p, const cr_clip *c) {
    const replay *r = c->ctx;
    r->opt->norm = c->norm;
    return replay_scaled(p, r, c->factor);
}

static cr_status begin_replay(cr_optim *opt) {
    if (!cr_recording()) return CR_OK;
    replay *r = calloc(1, sizeof *r + sizeof r->of[0] * (size_t)opt->count * MOST_ROWS);
    if (r) r->slots = malloc(sizeof *r->slots * (size_t)(2 * opt->count + 1));
    if (!r || !r->slots) { free(r); return cr_fail(CR_NO_MEMORY, "optim_step", "no memory for a recorded step"); }
    r->opt = opt;
    r->exchanged = opt->exchanged;
    r->lead = r->slots + opt->count;
    for (int64_t i = 0; i < opt->count; i++) r->lead[i] = i;
    for (int64_t i = 0; i < opt->count; i++)
        if (opt->slots[i].stepping) r->slots[r->n_slots++] = i;
    opt->replay = r;
    return CR_OK;
}

static cr_status end_replay(cr_optim *opt, cr_status status) {
    replay *r = opt->replay;
    opt->replay = NULL;
    if (!r) return status;
    if (status == CR_OK && !opt->clip) return cr_record_replay(replay_step, r, replay_end);
    if (status == CR_OK) {
        opt->clip->ctx = r;
        opt->clip->end = replay_end;
        return CR_OK;
    }
    replay_end(r);
    return status;
}

static void note_update(cr_optim *opt, const cr_slot *s, const cr_program *row, double ratio) {
    replay *r = opt->replay;
    if (!r) return;
    r->of[r->n].slot = s - opt->slots;
    r->of[r->n].row = row;
    r->of[r->n].ratio = ratio;
    r->of[r->n++].params = cr_record_params();
}

cr_status cr_slot_run(cr_optim *opt, const cr_slot *s, const cr_program *row, double ratio, cr_tensor *const *out,
                      const cr_tensor *const *in) {
    double params[CR_MAX_STEP_PARAMS];
    cr_status status = cr_slot_params(row, s, &opt->options[s->group], opt->scale, ratio, params);
    if (status == CR_OK) status = cr_program_update(row, 1, out, in, params);
    if (status == CR_OK) note_update(opt, s, row, ratio);
    return status;
}

/* Steps the slot `first` and all later ones that go together with it. */
static cr_status step_together(cr_optim *opt, int64_t first, cr_tensor **out, const cr_tensor **in) {
    const cr_slot *lead = &opt->slots[first];
    call c = call_of(opt, lead, out, in);
    for (int64_t i = first; i < opt->count; i++) {
        cr_slot *s = &opt->slots[i];
        if (!s->stepping || !together(lead, s)) continue;
        call_add(&c, s, cr_grad(s->p));
        if (opt->replay) opt->replay->lead[i] = first;
        s->stepping = false;
    }
    const cr_status status = call_run(&c);
    if (status == CR_OK) note_update(opt, lead, c.program, 1);
    return status;
}

static cr_status step_all(cr_optim *opt, cr_tensor **out, const cr_tensor **in) {
    cr_status status = prepare_step(opt);
    if (status == CR_OK) status = begin_replay(opt);
    for (int64_t i = 0; i < opt->count && status == CR_OK; i++) {
        const cr_slot *s = &opt->slots[i];
        if (!s->stepping) continue;
        status = s->update->step ? s->update->step(opt, s, cr_grad(s->p)) : step_together(opt, i, out, in);
    }
    if ((status = end_replay(opt, status)) != CR_OK) return status;
    for (int64_t i = 0; i < opt->count; i++) opt->slots[i].steps += !cr_is_none(cr_grad(opt->slots[i].p));
    opt->steps++;
    return CR_OK;
}

enum { MOST_TENSORS = 2 + 2 };                      /* of one parameter in a call: p, its copy or g, two moments */

bool cr_optim_sharded(const char *op, const cr_optim *opt) {
    if (!opt->sharded) return false;
    cr_fail(CR_RUNTIME, op, "the optimizer is sharded over ranks: cr_parallel_step steps it, "
                            "cr_parallel_moments gives this rank's moments");
    return true;
}

cr_status cr_optim_step(cr_optim *opt) {
    if (cr_lacks("optim_step", "the optimizer", opt)) return cr_error_status();
    if (cr_optim_sharded("optim_step", opt)) return cr_error_status();
    cr_tensor **out = malloc((size_t)(MOST_TENSORS * opt->count + 1) * sizeof *out);
    const cr_tensor **in = malloc((size_t)(MOST_TENSORS * opt->count + 1) * sizeof *in);
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = out && in ? step_all(opt, out, in)
                                 : cr_fail(CR_NO_MEMORY, "optim_step", "no memory for %lld parameters",
                                           (long long)opt->count);
    cr_set_grad_enabled(recording);
    free(out);
    free(in);
    return status;
}

cr_tensor **cr_optim_grads(const char *op, const cr_optim *opt, int64_t *n) {
    cr_tensor **grads = malloc((size_t)(opt->count + 1) * sizeof *grads);
    if (!grads) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld gradients", (long long)opt->count), NULL;
    *n = 0;
    for (int64_t i = 0; i < opt->count; i++) {
        cr_tensor *g = cr_grad(opt->slots[i].p);
        if (g && !cr_is_none(g)) grads[(*n)++] = g;
    }
    return grads;
}

static cr_status step_scaled(cr_optim *opt, cr_clip *c) {
    opt->norm = c->norm;
    opt->scale = c->factor;
    opt->clip = c;
    const cr_status status = cr_optim_step(opt);
    opt->clip = NULL;
    opt->scale = 1;
    return status;
}

cr_status cr_optim_step_clipped(cr_optim *opt, double max_norm, double *norm) {
    static const char op[] = "optim_step_clipped";
    int64_t n = 0;
    if (cr_lacks(op, "the optimizer", opt)) return cr_error_status();
    if (norm && cr_record_refuse(op, "a recorded step has no number for the norm: give NULL, and ask cr_optim_norm "
                                     "after the run") != CR_OK)
        return cr_error_status();
    cr_tensor **grads = cr_optim_grads(op, opt, &n);
    cr_clip *c = grads ? cr_clip_new(op, max_norm) : NULL;
    if (!c) { free(grads); return cr_error_status(); }
    const bool recording = cr_set_grad_enabled(false);
    c->replay = replay_clipped;
    cr_status status = cr_clip_measure(c, n, grads, NULL);
    if (status == CR_OK) status = step_scaled(opt, c);
    cr_clip_done(c);
    cr_set_grad_enabled(recording);
    free(grads);
    if (norm && status == CR_OK) *norm = opt->norm;
    return status;
}

double cr_optim_norm(const cr_optim *opt) { return cr_lacks("optim_norm", "the optimizer", opt) ? NAN : opt->norm; }

/* ---- stepping inside the backward pass: a gradient is used while it is still in the cache, and is not kept ---- */
static cr_slot *slot_of(cr_optim *opt, const cr_tensor *p) {
    for (int64_t i = 0; i < opt->count; i++)
        if (opt->slots[i].p == p) return &opt->slots[i];
    return NULL;
}

/* The gradient is the product a b: the update computes it piece by piece. */
static cr_status step_by_product(cr_tensor *p, const cr_tensor *a, const cr_tensor *b, void *ctx, bool *taken) {
    cr_optim *opt = ctx;
    cr_slot *s = slot_of(opt, p);
    if (!s || s->update->step) return CR_OK;
    cr_tensor *out[MOST_TENSORS];
    const cr_tensor *in[MOST_TENSORS];
    cr_status status = make_kept(opt, s);
    if (status != CR_OK) return status;
    call c = call_of(opt, s, out, in);
    call_add(&c, s, p);                             /* p stands for the gradient, which has its shape */
    if (c.status != CR_OK) return c.status;
    status = cr_program_update_product(c.program, out, in, c.params, 1, a, b, taken);
    s->steps += *taken && status == CR_OK;
    return status;
}

static cr_status step_one(cr_tensor *p, const cr_tensor *g, void *ctx) {
    cr_optim *opt = ctx;
    cr_slot *s = slot_of(opt, p);
    if (!s) return cr_set_grad(p, g);               /* a leaf of another optimizer keeps its gradient */
    cr_tensor *out[MOST_TENSORS];
    const cr_tensor *in[MOST_TENSORS];
    cr_status status = make_kept(opt, s);
    if (status != CR_OK) return status;
    if (s->update->step) {
        status = s->update->step(opt, s, g);
    } else {
        call c = call_of(opt, s, out, in);
        call_add(&c, s, g);
        status = call_run(&c);
    }
    s->steps += status == CR_OK;
    return status;
}

cr_status cr_optim_backward(cr_optim *opt, const cr_tensor *loss) {
    if (cr_lacks("optim_backward", "the optimizer", opt)) return cr_error_status();
    if (cr_record_refuse("optim_backward", "a recorded step takes cr_backward and cr_optim_step: its plan updates "
                                           "inside the products") != CR_OK)
        return cr_error_status();
    if (cr_optim_sharded("optim_backward", opt)) return cr_error_status();
    const cr_backward_options options = {.on_grad = step_one, .on_product = step_by_product, .ctx = opt};
    cr_status status = cr_backward(loss, CR_NONE, &options);
    opt->steps += status == CR_OK;
    return status;
}

/* ---- settings ---- */
static cr_status check_mirror(const cr_slot *s, const cr_tensor *p, const cr_tensor *mirror) {
    static const char op[] = "optim_mirror";
    if (!s) return cr_fail(CR_BAD_VALUE, op, "the optimizer has no such parameter");
    if (cr_is_none(mirror)) return CR_OK;
    if (s->master) return cr_fail(CR_BAD_VALUE, op, "'%s' is itself the copy of a master (master_weights)", s->name);
    if (!cr_dtype_is_float(cr_dtype_of(mirror)))
        return cr_fail(CR_BAD_TYPE, op, "'%s' cannot be mirrored in %s: a float dtype", s->name,
                       cr_dtype_name(cr_dtype_of(mirror)));
    if (cr_same_shape(mirror, p)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op,
                   "the mirror of '%s' has another shape: %lld elements in %d axes instead of %lld in %d", s->name,
                   (long long)cr_numel(mirror), cr_ndim(mirror), (long long)cr_numel(p), cr_ndim(p));
}

cr_status cr_optim_mirror(cr_optim *opt, const cr_tensor *p, cr_tensor *mirror) {
    if (!opt || !p || !mirror) return cr_fail_null("optim_mirror", !opt ? "the optimizer" : !p ? "p" : "mirror");
    cr_slot *s = slot_of(opt, p);
    cr_status status = check_mirror(s, p, mirror);
    if (status == CR_OK && !cr_is_none(mirror)) {
        const bool recording = cr_set_grad_enabled(false);
        if (!cr_copy_(mirror, p)) status = cr_error_status();
        cr_set_grad_enabled(recording);
    }
    if (status != CR_OK) return status;
    cr_drop(s->mirror);
    s->mirror = cr_is_none(mirror) ? NULL : cr_retain(mirror);
    opt->exchanged++;
    return CR_OK;
}

cr_status cr_optim_set_lr(cr_optim *opt, double lr) {
    if (cr_lacks("optim_set_lr", "the optimizer", opt)) return cr_error_status();
    cr_status status = check_number("optim_set_lr", "lr", lr, INFINITY);
    if (status != CR_OK) return status;
    for (int g = 0; g < opt->groups; g++) opt->options[g].lr = lr;
    return CR_OK;
}

cr_status cr_optim_set_group_lr(cr_optim *opt, int64_t group, double lr) {
    static const char op[] = "optim_set_group_lr";
    if (cr_lacks(op, "the optimizer", opt)) return cr_error_status();
    if (group < 0 || group >= opt->groups)
        return cr_fail(CR_BAD_INDEX, op, "group %lld is not in [0, %d)", (long long)group, (int)opt->groups);
    const cr_status status = check_number(op, "lr", lr, INFINITY);
    if (status == CR_OK) opt->options[group].lr = lr;
    return status;
}

double cr_optim_lr(const cr_optim *opt) {
    return cr_lacks("optim_lr", "the optimizer", opt) ? NAN : opt->options[0].lr;
}
int64_t cr_optim_steps(const cr_optim *opt) { return cr_lacks("optim_steps", "the optimizer", opt) ? -1 : opt->steps; }
