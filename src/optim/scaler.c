/* scaler.c - loss scaling: gradients of float16 underflow, so the loss is multiplied by a scale and the gradients
 * are divided by it.  A step whose gradients are infinite or NaN is skipped, and the scale falls; after a number of
 * steps without that it grows.  Infinities show in the sum of squares that clipping needs anyway; the inverse of the
 * scale is a factor in the optimizer's own pass. */
#include "optim.h"

#include <math.h>
#include <stdlib.h>

#include "../core/out.h"
#include "../core/status.h"
#include "../nn/params.h"

typedef struct seen { const cr_optim *opt; bool bad, stepped; } seen;       /* unscaled since the last update */

struct cr_scaler {
    cr_scaler_state state;
    bool enabled;
    seen *list;
    int64_t n, room;
};

cr_scaler_options cr_scaler_defaults(void) {
    return (cr_scaler_options){.init_scale = 65536, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2000,
                               .enabled = true};
}

static cr_status check_state(const char *op, const cr_scaler_state *s) {
    if (!(s->scale > 0 && s->scale <= 3.4028234663852886e38))
        return cr_fail(CR_BAD_VALUE, op, "the scale must be above 0 and finite in float32, not %g", s->scale);
    if (!(s->growth_factor > 1 && s->growth_factor < INFINITY))
        return cr_fail(CR_BAD_VALUE, op, "growth_factor must be above 1, not %g", s->growth_factor);
    if (!(s->backoff_factor > 0 && s->backoff_factor < 1))
        return cr_fail(CR_BAD_VALUE, op, "backoff_factor must be in (0, 1), not %g", s->backoff_factor);
    if (s->growth_interval < 1)
        return cr_fail(CR_BAD_VALUE, op, "growth_interval must be at least 1, not %lld",
                       (long long)s->growth_interval);
    if (s->growth_tracker < 0 || s->growth_tracker >= s->growth_interval)
        return cr_fail(CR_BAD_VALUE, op, "growth_tracker must be in [0, %lld), not %lld",
                       (long long)s->growth_interval, (long long)s->growth_tracker);
    return CR_OK;
}

cr_scaler *cr_scaler_new(const cr_scaler_options *o) {
    const cr_scaler_options plain = cr_scaler_defaults();
    if (!o) o = &plain;
    const cr_scaler_state state = {.scale = o->init_scale, .growth_factor = o->growth_factor,
                                   .backoff_factor = o->backoff_factor, .growth_interval = o->growth_interval};
    if (check_state("scaler_new", &state) != CR_OK) return NULL;
    cr_scaler *s = calloc(1, sizeof *s);
    if (!s) return cr_fail(CR_NO_MEMORY, "scaler_new", "no memory for a scaler"), NULL;
    s->state = state;
    s->enabled = o->enabled;
    return s;
}

void cr_scaler_free(cr_scaler *s) {
    if (!s || cr_stale("scaler_free", "the scaler", s)) return;
    free(s->list);
    cr_retire(s);
}

double cr_scaler_scale_of(const cr_scaler *s) {
    return cr_lacks("scaler_scale_of", "the scaler", s) ? NAN : s->enabled ? s->state.scale : 1;
}

cr_tensor *cr_scaler_scale(const cr_scaler *s, const cr_tensor *loss) {
    return cr_lacks("scaler_scale", "the scaler", s) ? NULL : cr_mul_scalar(loss, s->enabled ? s->state.scale : 1);
}

static seen *find_seen(const cr_scaler *s, const cr_optim *opt) {
    for (int64_t i = 0; i < s->n; i++)
        if (s->list[i].opt == opt) return &s->list[i];
    return NULL;
}

static seen *note(cr_scaler *s, const cr_optim *opt, bool bad) {
    if (!cr_grow(&s->list, s->n + 1, &s->room, sizeof *s->list)) return cr_no_memory("scaler"), NULL;
    s->list[s->n] = (seen){opt, bad, false};
    return &s->list[s->n++];
}

/* Is an element infinite or NaN?  Asked where a sum of squares is. */
static cr_status all_finite(int64_t n, cr_tensor *const *grads, bool *finite) {
    cr_status status = CR_OK;
    cr_scope_begin();
    for (int64_t i = 0; i < n && status == CR_OK; i++) {
        uint8_t all = 0;
        const cr_tensor *y = cr_all(cr_isfinite(grads[i]), CR_ALL, false);
        status = y ? cr_read(y, CR_BOOL, &all, 1) : cr_error_status();
        *finite &= all;
    }
    cr_scope_end();
    return status;
}

/* *norm: of opt's gradients; *bad: is one infinite or NaN?  They are multiplied by `by`. */
static cr_status measure(const char *op, const cr_optim *opt, double by, double *norm, bool *bad) {
    int64_t n;
    bool finite = true;
    cr_tensor **grads = cr_optim_grads(op, opt, &n);
    if (!grads) return cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = cr_total_norm(n, (const cr_tensor *const *)grads, norm);
    if (status == CR_OK && !isfinite(*norm)) status = all_finite(n, grads, &finite);
    if (status == CR_OK && by != 1) status = cr_scale_grads(n, grads, by);
    cr_set_grad_enabled(recording);
    free(grads);
    *bad = !finite;
    return status;
}

cr_status cr_scaler_unscale(cr_scaler *s, cr_optim *opt) {
    static const char op[] = "scaler_unscale";
    double norm;
    bool bad;
    if (cr_lacks(op, "the scaler", s) || cr_lacks(op, "the optimizer", opt)) return cr_error_status();
    if (!s->enabled) return CR_OK;
    const seen *before = find_seen(s, opt);
    if (before)
        return cr_fail(CR_RUNTIME, op, "%s since the last update",
                       before->stepped ? "the optimizer has stepped" : "the gradients were divided");
    const cr_status status = measure(op, opt, 1 / s->state.scale, &norm, &bad);
    return status == CR_OK && !note(s, opt, bad) ? cr_error_status() : status;
}

/* A step whose gradients are still to be multiplied by `by`. */
static cr_status step_by(cr_optim *opt, double by, double max_norm, double norm) {
    const double clip = max_norm / (norm + 1e-6);
    opt->scale = by * (clip < 1 ? clip : 1);
    const cr_status status = cr_optim_step(opt);
    opt->scale = 1;
    return status;
}

cr_status cr_scaler_step(cr_scaler *s, cr_optim *opt, double max_norm, double *norm, bool *stepped) {
    static const char op[] = "scaler_step";
    double total;
    bool bad;
    if (cr_lacks(op, "the scaler", s) || cr_lacks(op, "the optimizer", opt)) return cr_error_status();
    if (!(max_norm >= 0)) return cr_fail(CR_BAD_VALUE, op, "max_norm must be at least 0, not %g", max_norm);
    seen *state = s->enabled ? find_seen(s, opt) : NULL;
    if (state && state->stepped) return cr_fail(CR_RUNTIME, op, "the optimizer has stepped since the last update");
    const double by = s->enabled && !state ? 1 / s->state.scale : 1;
    cr_status status = measure(op, opt, 1, &total, &bad);
    if (status != CR_OK) return status;
    total *= by;
    if (s->enabled && !state && !(state = note(s, opt, bad))) return cr_error_status();
    const bool skip = state && state->bad;
    if (!skip) status = step_by(opt, by, max_norm, total);
    if (status != CR_OK) return status;
    if (state) state->stepped = true;
    if (norm) *norm = total;
    if (stepped) *stepped = !skip;
    return CR_OK;
}

cr_status cr_scaler_update(cr_scaler *s) {
    static const char op[] = "scaler_update";
    if (cr_lacks(op, "the scaler", s)) return cr_error_status();
    if (!s->enabled) return CR_OK;
    if (!s->n) return cr_fail(CR_RUNTIME, op, "no optimizer has stepped since the last update");
    bool bad = false;
    for (int64_t i = 0; i < s->n; i++) bad |= s->list[i].bad;
    s->n = 0;
    cr_scaler_state *t = &s->state;
    if (bad) {
        t->scale = (double)(float)(t->scale * t->backoff_factor);
        t->growth_tracker = 0;
    } else if (++t->growth_tracker == t->growth_interval) {
        const float grown = (float)(t->scale * t->growth_factor);
        if (isfinite(grown)) t->scale = (double)grown;
        t->growth_tracker = 0;
    }
    return CR_OK;
}

cr_scaler_state cr_scaler_get(const cr_scaler *s) {
    return cr_lacks("scaler_get", "the scaler", s) ? (cr_scaler_state){0} : s->state;
}

cr_status cr_scaler_set(cr_scaler *s, const cr_scaler_state *state) {
    static const char op[] = "scaler_set";
    if (cr_lacks(op, "the scaler", s)) return cr_error_status();
    if (!state) return cr_fail_null(op, "the state");
    const cr_status status = check_state(op, state);
    if (status == CR_OK) s->state = *state;
    return status;
}
