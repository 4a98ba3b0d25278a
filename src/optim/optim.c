/* optim.c - optimizers.  Each update is one elementwise program over a parameter, its gradient and its moments (an UPDATE of ops.def),
 * run over all parameters at once; what changes from step to step (learning rate, bias corrections) are the program's params.  Moments are f32
 * (f64 for f64 parameters) and made when a parameter first has a gradient.  Muon's matrices: muon.c. */
#include "optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../nn/params.h"

/* ---- the rules: updates of ops.def, each with a twin that also writes a mirror ---- */
typedef enum rule { SGD, MOMENTUM, NESTEROV, ADAM, ADAMW, LION, MUON, MUON_NESTEROV, MUON_APPLY, RULES } rule;
enum { MAX_NUMBERS = 8 };

static const struct { const char *name, *mirrored; int moments; bool corrected; } rules[RULES] = {
    [SGD]      = {"sgd", "sgd_copy", 0, false},
    [MOMENTUM] = {"sgd_momentum", "sgd_momentum_copy", 1, false},
    [NESTEROV] = {"sgd_nesterov", "sgd_nesterov_copy", 1, false},
    [ADAM]     = {"adam", "adam_copy", 2, true},
    [ADAMW]    = {"adamw", "adamw_copy", 2, true},
    [LION]     = {"lion", "lion_copy", 1, false},
    [MUON]     = {"muon", NULL, 1, false},
    [MUON_NESTEROV] = {"muon_nesterov", NULL, 1, false},
    [MUON_APPLY] = {"muon_apply", "muon_apply_copy", 0, false},
};
static const char *const suffix[3] = {".m", ".v", ".t"};   /* names in the state: moments, and the step count of a parameter that has missed some */

typedef struct slot {                               /* one parameter */
    char *name;
    cr_tensor *p, *moment[2], *mirror;              /* moments NULL: no step yet; mirror NULL: none */
    int64_t steps;                                  /* that this parameter took */
    int group;
    rule rule;
    bool decays, stepping;                          /* has weight decay; waits in the step that runs */
} slot;

struct cr_optim {
    int64_t count, room, steps;
    slot *slots;
    int groups;
    cr_optim_options *options;                      /* of each group */
    double scale;                                   /* of the gradients in the step that runs: 1 but while clipping */
};

/* ---- options ---- */
cr_optim_options cr_optim_defaults(cr_optim_kind kind) {
    cr_optim_options o = {.kind = kind, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    if (kind == CR_ADAMW) o.weight_decay = 1e-2;
    if (kind == CR_LION) { o.lr = 1e-4; o.beta2 = 0.99; }
    if (kind == CR_MUON) { o.momentum = 0.95; o.nesterov = true; o.weight_decay = 0.1; }
    return o;
}

static cr_status check_number(const char *op, const char *what, double v, double below) {
    if (v >= 0 && v < below) return CR_OK;
    if (isinf(below)) return cr_fail(CR_BAD_VALUE, op, "%s must be finite and at least 0, not %g", what, v);
    return cr_fail(CR_BAD_VALUE, op, "%s must be in [0, %g), not %g", what, below, v);
}

static cr_status check_options(const char *op, const cr_optim_options *o) {
    if (!o) return cr_fail_null(op, "the options");
    if ((int)o->kind < CR_SGD || o->kind > CR_MUON) return cr_fail(CR_BAD_VALUE, op, "kind must be one of cr_optim_kind, not %d", (int)o->kind);
    const struct { const char *name; double value, below; } numbers[] = {
        {"lr", o->lr, INFINITY}, {"beta1", o->beta1, 1}, {"beta2", o->beta2, 1}, {"eps", o->eps, INFINITY},
        {"momentum", o->momentum, o->kind == CR_MUON ? 1 : INFINITY}, {"weight_decay", o->weight_decay, INFINITY}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        cr_status status = check_number(op, numbers[i].name, numbers[i].value, numbers[i].below);
        if (status) return status;
    }
    if (o->decay_min_ndim < 0) return cr_fail(CR_BAD_VALUE, op, "decay_min_ndim must be at least 0, not %d", o->decay_min_ndim);
    if (o->nesterov && !(o->momentum > 0)) return cr_fail(CR_BAD_VALUE, op, "nesterov needs a momentum above 0, not %g", o->momentum);
    return CR_OK;
}

static rule rule_of(const cr_optim_options *o, int ndim) {
    switch (o->kind) {
    case CR_SGD:  return o->momentum > 0 ? (o->nesterov ? NESTEROV : MOMENTUM) : SGD;
    case CR_ADAM: return ADAM;
    case CR_LION: return LION;
    case CR_MUON: return ndim != 2 ? ADAMW : o->nesterov ? MUON_NESTEROV : MUON;       /* what is no matrix has no singular vectors */
    default:      return ADAMW;
    }
}

/* ---- making ---- */
void cr_optim_free(cr_optim *opt) {
    if (!opt || cr_stale("optim_free", "the optimizer", opt)) return;
    for (int64_t i = 0; i < opt->count; i++) {
        slot *s = &opt->slots[i];
        free(s->name);
        cr_unhold(s->p);
        for (int k = 0; k < 2; k++) cr_drop(s->moment[k]);
        cr_drop(s->mirror);
    }
    free(opt->slots);
    free(opt->options);
    cr_retire(opt);
}

cr_optim *cr_optim_new(const cr_params *p, const cr_optim_options *o) {
    cr_optim *opt = calloc(1, sizeof *opt);
    if (!opt) return cr_fail(CR_NO_MEMORY, "optim_new", "no memory for an optimizer"), NULL;
    opt->scale = 1;
    if (cr_optim_add(opt, p, o)) { cr_optim_free(opt); return NULL; }
    return opt;
}

static cr_status check_member(const cr_optim *opt, const char *name, const cr_tensor *p) {
    if (!cr_dtype_is_float(cr_dtype_of(p)))
        return cr_fail(CR_BAD_TYPE, "optim_add", "'%s' is %s: only float parameters can be trained", name, cr_dtype_name(cr_dtype_of(p)));
    if (!cr_is_leaf(p)) return cr_fail(CR_BAD_VALUE, "optim_add", "'%s' is computed from other tensors: only leaves can be trained", name);
    for (int64_t i = 0; i < opt->count; i++) {
        if (opt->slots[i].p == p) return cr_fail(CR_BAD_VALUE, "optim_add", "'%s' is in another group already, as '%s'", name, opt->slots[i].name);
        if (!strcmp(opt->slots[i].name, name)) return cr_fail(CR_BAD_VALUE, "optim_add", "another group has a parameter named '%s'", name);
    }
    return CR_OK;
}

/* Room for n more slots and one more group. */
static cr_status reserve(cr_optim *opt, int64_t n) {
    slot *slots = realloc(opt->slots, (size_t)(opt->count + n + 1) * sizeof *slots);
    if (slots) opt->slots = slots;
    cr_optim_options *options = realloc(opt->options, (size_t)(opt->groups + 1) * sizeof *options);
    if (options) opt->options = options;
    return slots && options ? CR_OK : cr_fail(CR_NO_MEMORY, "optim_add", "no memory for %lld parameters", (long long)n);
}

cr_status cr_optim_add(cr_optim *opt, const cr_params *p, const cr_optim_options *o) {
    if (cr_lacks("optim_add", "the optimizer", opt)) return cr_error_status();
    if (cr_lacks("optim_add", "the parameter set", p)) return cr_error_status();
    cr_status status = check_options("optim_add", o);
    const int64_t n = cr_params_count(p), before = opt->count;
    for (int64_t i = 0; i < n && !status; i++) if (!cr_params_alias(p, i)) status = check_member(opt, cr_params_name(p, i), cr_params_at(p, i));
    if (!status) status = reserve(opt, n);
    for (int64_t i = 0; i < n && !status; i++) {
        if (cr_params_alias(p, i)) continue;
        cr_tensor *t = cr_params_at(p, i);
        const size_t bytes = strlen(cr_params_name(p, i)) + 1;
        char *name = malloc(bytes);
        if (!name) { status = cr_fail(CR_NO_MEMORY, "optim_add", "no memory for a name"); break; }
        memcpy(name, cr_params_name(p, i), bytes);
        opt->slots[opt->count++] = (slot){.name = name, .p = cr_hold(t), .group = opt->groups, .rule = rule_of(o, cr_ndim(t)),
                                          .decays = cr_ndim(t) >= o->decay_min_ndim};
    }
    if (!status) opt->options[opt->groups++] = *o;
    while (status && opt->count > before) {         /* all of the group or nothing */
        slot *s = &opt->slots[--opt->count];
        free(s->name);
        cr_unhold(s->p);
    }
    return status;
}

/* ---- stepping ---- */
static cr_tensor *moment_new(const cr_optim *opt, const slot *s) {
    const cr_tensor *p = s->p;
    const cr_dtype dt = cr_dtype_of(p) == CR_F64 ? CR_F64 : CR_F32;
    cr_scope_begin();                               /* whatever scope the caller has: moments outlive it */
    cr_tensor *t = opt->options[s->group].offload ? cr_zeros_offloaded(p, dt) : cr_zeros(cr_ndim(p), cr_shape(p), dt, cr_device_of(p));
    if (t) cr_retain(t);
    cr_scope_end();
    return t;
}

static cr_status make_moments(const cr_optim *opt, slot *s) {
    for (int k = 0; k < rules[s->rule].moments; k++)
        if (!s->moment[k] && !(s->moment[k] = moment_new(opt, s))) return cr_error_status();
    return CR_OK;
}

/* Everything that may fail for lack of memory, before the first parameter moves. */
static cr_status prepare(cr_optim *opt) {
    for (int64_t i = 0; i < opt->count; i++) {
        slot *s = &opt->slots[i];
        const cr_tensor *g = cr_grad(s->p);
        if (!g) return cr_error_status();
        s->stepping = !cr_is_none(g);
        if (s->stepping && make_moments(opt, s)) return cr_error_status();
    }
    return CR_OK;
}

/* The params of update r at the next step of s: ops.def has the formulas (OPTIONS). */
static cr_status params_for(const cr_optim *opt, const slot *s, rule r, double params[MAX_NUMBERS]) {
    const cr_optim_options *o = &opt->options[s->group];
    const struct { const char *name; double value; } options[] = {
        {"lr", o->lr}, {"weight_decay", s->decays ? o->weight_decay : 0}, {"beta1", o->beta1}, {"beta2", o->beta2}, {"eps", o->eps},
        {"momentum", o->momentum}, {"dampening", 0}, {"scale", opt->scale}, {"t", (double)(s->steps + 1)},
        {"ratio", r == MUON_APPLY ? cr_muon_scale(s->p) : 1}};
    enum { COUNT = sizeof options / sizeof *options };
    const char *names[COUNT];
    double values[COUNT];
    for (int i = 0; i < COUNT; i++) { names[i] = options[i].name; values[i] = options[i].value; }
    return cr_program_params(cr_program_find(rules[r].name), COUNT, names, values, params);
}

static const cr_program *program_of(rule r, const slot *s) { return cr_program_find(s->mirror ? rules[r].mirrored : rules[r].name); }

static bool together(const slot *a, const slot *b) {       /* do both run with the same program and numbers? */
    return a->rule == b->rule && a->group == b->group && a->decays == b->decays && !a->mirror == !b->mirror && (a->steps == b->steps || !rules[a->rule].corrected)
        && cr_device_of(a->p) == cr_device_of(b->p);
}

/* What one parameter's update reads and writes, in the order of its program. */
typedef struct operands { cr_tensor **out; const cr_tensor **in; } operands;
static void add_operands(operands *o, const slot *s, const cr_tensor *g) {
    *o->in++ = *o->out++ = s->p;
    *o->in++ = g;
    for (int k = 0; k < rules[s->rule].moments; k++) *o->in++ = *o->out++ = s->moment[k];
    if (s->mirror) *o->out++ = s->mirror;
}

/* The slots that go with the first one still waiting, from `first` on, in one run over all of them. */
static cr_status step_together(cr_optim *opt, int64_t first, cr_tensor **out, const cr_tensor **in) {
    const slot *lead = &opt->slots[first];
    double numbers[MAX_NUMBERS];
    operands all = {out, in};
    int64_t n = 0;
    const cr_status status = params_for(opt, lead, lead->rule, numbers);
    if (status != CR_OK) return status;
    for (int64_t i = first; i < opt->count; i++) {
        slot *s = &opt->slots[i];
        if (!s->stepping || !together(lead, s)) continue;
        add_operands(&all, s, cr_grad(s->p));
        s->stepping = false;
        n++;
    }
    return cr_program_update(program_of(lead->rule, lead), n, out, in, numbers);
}

static bool is_muon(const slot *s) { return s->rule == MUON || s->rule == MUON_NESTEROV; }

static cr_status step_muon(cr_optim *opt, slot *s, const cr_tensor *g) {
    double momentum[MAX_NUMBERS], apply[MAX_NUMBERS];
    cr_status status = params_for(opt, s, s->rule, momentum);
    if (status == CR_OK) status = params_for(opt, s, MUON_APPLY, apply);
    cr_scope_begin();
    cr_tensor *u = cr_empty_like(s->moment[0]);
    if (!u) status = cr_error_status();
    if (status == CR_OK)
        status = cr_program_update(cr_program_find(rules[s->rule].name), 1, (cr_tensor *[]){s->moment[0], u},
                                   (const cr_tensor *[]){s->moment[0], g}, momentum);
    const cr_tensor *direction = status == CR_OK ? cr_muon_orthogonal(u) : NULL;
    if (status == CR_OK && !direction) status = cr_error_status();
    if (status == CR_OK)
        status = cr_program_update(program_of(MUON_APPLY, s), 1, (cr_tensor *[]){s->p, s->mirror}, (const cr_tensor *[]){s->p, direction}, apply);
    cr_scope_end();
    s->stepping = false;
    return status;
}

cr_status cr_optim_step(cr_optim *opt) {
    if (cr_lacks("optim_step", "the optimizer", opt)) return cr_error_status();
    cr_tensor **out = malloc((size_t)(4 * opt->count + 1) * sizeof *out);
    const cr_tensor **in = malloc((size_t)(4 * opt->count + 1) * sizeof *in);
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = out && in ? prepare(opt) : cr_fail(CR_NO_MEMORY, "optim_step", "no memory for %lld parameters", (long long)opt->count);
    for (int64_t i = 0; i < opt->count && !status; i++) {
        slot *s = &opt->slots[i];
        if (s->stepping) status = is_muon(s) ? step_muon(opt, s, cr_grad(s->p)) : step_together(opt, i, out, in);
    }
    for (int64_t i = 0; i < opt->count && !status; i++) opt->slots[i].steps += !cr_is_none(cr_grad(opt->slots[i].p));
    if (!status) opt->steps++;
    cr_set_grad_enabled(recording);
    free(out);
    free(in);
    return status;
}

cr_status cr_optim_step_clipped(cr_optim *opt, double max_norm, double *norm) {
    static const char op[] = "optim_step_clipped";
    if (cr_lacks(op, "the optimizer", opt)) return cr_error_status();
    cr_tensor **grads = malloc((size_t)(opt->count + 1) * sizeof *grads);
    if (!grads) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld gradients", (long long)opt->count);
    const bool recording = cr_set_grad_enabled(false);
    int64_t n = 0;
    double total = 0;
    for (int64_t i = 0; i < opt->count; i++) {
        cr_tensor *g = cr_grad(opt->slots[i].p);
        if (g && !cr_is_none(g)) grads[n++] = g;
    }
    cr_status status = cr_clip_scale(op, n, grads, max_norm, &total, &opt->scale);
    if (!status) status = cr_optim_step(opt);
    opt->scale = 1;
    cr_set_grad_enabled(recording);
    free(grads);
    if (norm && !status) *norm = total;
    return status;
}

/* ---- stepping inside the backward pass: a gradient lives from its product to its update, still in the cache ---- */
static slot *slot_of(cr_optim *opt, const cr_tensor *p) {
    for (int64_t i = 0; i < opt->count; i++) if (opt->slots[i].p == p) return &opt->slots[i];
    return NULL;
}

/* The same with the gradient as the product a b, which goes into the update piece by piece. */
static cr_status step_by_product(cr_tensor *p, const cr_tensor *a, const cr_tensor *b, void *ctx, bool *taken) {
    cr_optim *opt = ctx;
    slot *s = slot_of(opt, p);
    if (!s || is_muon(s)) return CR_OK;
    cr_tensor *out[4];
    const cr_tensor *in[4];
    double numbers[MAX_NUMBERS];
    cr_status status = make_moments(opt, s);
    if (status) return status;
    add_operands(&(operands){out, in}, s, p);       /* in the gradient's place p, which is like it */
    status = params_for(opt, s, s->rule, numbers);
    if (status == CR_OK) status = cr_program_update_product(program_of(s->rule, s), out, in, numbers, 1, a, b, taken);
    s->steps += *taken && !status;
    return status;
}

static cr_status step_one(cr_tensor *p, const cr_tensor *g, void *ctx) {
    cr_optim *opt = ctx;
    slot *s = slot_of(opt, p);
    if (!s) return cr_set_grad(p, g);               /* not ours: it keeps its gradient, as ever */
    cr_tensor *out[4];
    const cr_tensor *in[4];
    double numbers[MAX_NUMBERS];
    cr_status status = make_moments(opt, s);
    if (!status && is_muon(s)) status = step_muon(opt, s, g);
    else if (!status) {
        add_operands(&(operands){out, in}, s, g);
        status = params_for(opt, s, s->rule, numbers);
        if (status == CR_OK) status = cr_program_update(program_of(s->rule, s), 1, out, in, numbers);
    }
    s->steps += !status;
    return status;
}

cr_status cr_optim_backward(cr_optim *opt, const cr_tensor *loss) {
    if (cr_lacks("optim_backward", "the optimizer", opt)) return cr_error_status();
    cr_status status = cr_backward(loss, CR_NONE, &(cr_backward_options){.on_grad = step_one, .on_product = step_by_product, .ctx = opt});
    opt->steps += !status;
    return status;
}

/* ---- settings ---- */
cr_status cr_optim_mirror(cr_optim *opt, const cr_tensor *p, cr_tensor *mirror) {
    static const char op[] = "optim_mirror";
    if (!opt || !p || !mirror) return cr_fail_null(op, !opt ? "the optimizer" : !p ? "p" : "mirror");
    slot *s = slot_of(opt, p);
    if (!s) return cr_fail(CR_BAD_VALUE, op, "the optimizer has no such parameter");
    cr_status status = CR_OK;
    if (!cr_is_none(mirror)) {
        if (!cr_dtype_is_float(cr_dtype_of(mirror))) return cr_fail(CR_BAD_TYPE, op, "'%s' cannot be mirrored in %s: a float dtype", s->name, cr_dtype_name(cr_dtype_of(mirror)));
        if (cr_ndim(mirror) != cr_ndim(p) || memcmp(cr_shape(mirror), cr_shape(p), (size_t)cr_ndim(p) * sizeof(int64_t)))
            return cr_fail(CR_BAD_VALUE, op, "the mirror of '%s' has another shape: %lld elements in %d axes instead of %lld in %d", s->name,
                           (long long)cr_numel(mirror), cr_ndim(mirror), (long long)cr_numel(p), cr_ndim(p));
        const bool recording = cr_set_grad_enabled(false);
        if (!cr_copy_(mirror, p)) status = cr_error_status();
        cr_set_grad_enabled(recording);
    }
    if (status) return status;
    cr_drop(s->mirror);
    s->mirror = cr_is_none(mirror) ? NULL : cr_retain(mirror);
    return CR_OK;
}

cr_status cr_optim_set_lr(cr_optim *opt, double lr) {
    if (cr_lacks("optim_set_lr", "the optimizer", opt)) return cr_error_status();
    cr_status status = check_number("optim_set_lr", "lr", lr, INFINITY);
    for (int g = 0; g < opt->groups && !status; g++) opt->options[g].lr = lr;
    return status;
}

double cr_optim_lr(const cr_optim *opt) { return cr_lacks("optim_lr", "the optimizer", opt) ? NAN : opt->options[0].lr; }
int64_t cr_optim_steps(const cr_optim *opt) { return cr_lacks("optim_steps", "the optimizer", opt) ? -1 : opt->steps; }

/* ---- state: "name.m", "name.v" for the moments that exist, "name.t" where bias corrections count other steps than the optimizer ---- */
static char *state_name(const slot *s, int k, char **buffer) {
    char *name = realloc(*buffer, strlen(s->name) + 3);
    if (!name) return cr_fail(CR_NO_MEMORY, "optim_state", "no memory for a name"), NULL;
    *buffer = name;
    sprintf(name, "%s%s", s->name, suffix[k]);
    return name;
}

static cr_status add_state(const cr_optim *opt, const slot *s, cr_params *state, char **buffer) {
    cr_status status = CR_OK;
    for (int k = 0; k < rules[s->rule].moments && s->moment[k] && !status; k++) {
        const char *name = state_name(s, k, buffer);
        status = name ? cr_params_add(state, name, s->moment[k]) : CR_NO_MEMORY;
    }
    if (status || !s->moment[0] || !rules[s->rule].corrected || s->steps == opt->steps) return status;
    const char *name = state_name(s, 2, buffer);
    cr_scope_begin();
    cr_tensor *t = name ? cr_from(&s->steps, CR_LIST(1), CR_I64, cr_cpu()) : NULL;
    status = t ? cr_params_add(state, name, t) : cr_error_status();
    cr_scope_end();
    return status;
}

cr_params *cr_optim_state(const cr_optim *opt) {
    if (cr_lacks("optim_state", "the optimizer", opt)) return NULL;
    cr_params *state = cr_params_new();
    char *buffer = NULL;
    cr_status status = state ? CR_OK : cr_error_status();
    for (int64_t i = 0; i < opt->count && !status; i++) status = add_state(opt, &opt->slots[i], state, &buffer);
    free(buffer);
    if (!status) return state;
    cr_params_free(state);
    return NULL;
}

/* s's entries of a state: from[0], from[1] its moments, from[2] its own step count; left NULL where absent.  Checks that they fit. */
static cr_status find_state(const slot *s, const cr_params *state, const cr_tensor *from[3], int64_t *found, char **buffer) {
    static const char op[] = "optim_load";
    const int moments = rules[s->rule].moments;
    int have = 0;
    for (int k = 0; k < 3; k++) {
        if (k < 2 ? k >= moments : !rules[s->rule].corrected) continue;
        const char *name = state_name(s, k, buffer);
        if (!name) return CR_NO_MEMORY;
        const int64_t at = cr_params_find(state, name);
        if (at < 0) continue;
        from[k] = cr_params_at(state, at);
        ++*found;
        if (k == 2) {
            if (cr_numel(from[k]) != 1 || cr_dtype_of(from[k]) != CR_I64) return cr_fail(CR_BAD_VALUE, op, "'%s' must be one int64", name);
            continue;
        }
        have++;
        if (cr_ndim(from[k]) != cr_ndim(s->p) || memcmp(cr_shape(from[k]), cr_shape(s->p), (size_t)cr_ndim(s->p) * sizeof(int64_t)))
            return cr_fail(CR_BAD_VALUE, op, "'%s' has another shape than its parameter: %lld elements in %d axes instead of %lld in %d", name,
                           (long long)cr_numel(from[k]), cr_ndim(from[k]), (long long)cr_numel(s->p), cr_ndim(s->p));
    }
    if (have == (have || from[2] ? moments : 0)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "of '%s' there is '%s' without '%s'", s->name, from[0] ? ".m" : from[1] ? ".v" : ".t", from[0] ? ".v" : ".m");
}

/* What s will be after a load, in new tensors, so that a failure leaves the old ones. */
static cr_status load_slot(const cr_optim *opt, const slot *s, const cr_params *state, int64_t steps, slot *into, int64_t *found, char **buffer) {
    const cr_tensor *from[3] = {NULL};
    cr_status status = find_state(s, state, from, found, buffer);
    for (int k = 0; k < 2 && !status; k++) {
        if (!from[k]) continue;
        cr_scope_begin();
        const cr_tensor *here = cr_to(from[k], cr_dtype_of(from[k]), cr_device_of(s->p));
        if (!(into->moment[k] = moment_new(opt, s)) || !cr_copy_(into->moment[k], here)) status = cr_error_status();
        cr_scope_end();
    }
    into->steps = from[2] ? cr_item_int(from[2]) : from[0] || !rules[s->rule].moments ? steps : 0;
    if (!status && (into->steps < 0 || into->steps > steps))
        status = cr_fail(CR_BAD_VALUE, "optim_load", "'%s.t' counts %lld steps of %lld", s->name, (long long)into->steps, (long long)steps);
    return status;
}

/* Names the first entry of the state that belongs to no parameter. */
static cr_status unknown_entry(const cr_optim *opt, const cr_params *state) {
    for (int64_t i = 0; i < cr_params_count(state); i++) {
        const char *name = cr_params_name(state, i);
        bool known = false;
        for (int64_t j = 0; j < opt->count && !known; j++) {
            const slot *s = &opt->slots[j];
            const size_t n = strlen(s->name);
            for (int k = 0; k < 3 && !strncmp(name, s->name, n); k++)
                known |= !strcmp(name + n, suffix[k]) && (k < 2 ? k < rules[s->rule].moments : rules[s->rule].corrected);
        }
        if (!known) return cr_fail(CR_BAD_VALUE, "optim_load", "'%s' belongs to no parameter of this optimizer", name);
    }
    return CR_OK;
}

cr_status cr_optim_load(cr_optim *opt, const cr_params *state, int64_t steps) {
    if (cr_lacks("optim_load", "the optimizer", opt)) return cr_error_status();
    if (!state) return cr_fail_null("optim_load", "the state");
    if (steps < 0) return cr_fail(CR_BAD_VALUE, "optim_load", "steps must be at least 0, not %lld", (long long)steps);
    slot *fresh = calloc((size_t)opt->count + 1, sizeof *fresh);
    if (!fresh) return cr_fail(CR_NO_MEMORY, "optim_load", "no memory for %lld parameters", (long long)opt->count);
    const bool recording = cr_set_grad_enabled(false);
    char *buffer = NULL;
    int64_t found = 0;
    cr_status status = CR_OK;
    for (int64_t i = 0; i < opt->count && !status; i++) status = load_slot(opt, &opt->slots[i], state, steps, &fresh[i], &found, &buffer);
    if (!status && found < cr_params_count(state)) status = unknown_entry(opt, state);
    for (int64_t i = 0; i < opt->count; i++) {
        slot *s = &opt->slots[i];
        for (int k = 0; k < 2; k++) {               /* the new ones in, or away again */
            cr_drop(status ? fresh[i].moment[k] : s->moment[k]);
            if (!status) s->moment[k] = fresh[i].moment[k];
        }
        if (!status) s->steps = fresh[i].steps;
    }
    if (!status) opt->steps = steps;
    cr_set_grad_enabled(recording);
    free(buffer);
    free(fresh);
    return status;
}
