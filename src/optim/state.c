/* state.c - the state of an optimizer by name, out and in: "name.m" and "name.v" for the moments that exist, "name.w"
 * for a master, "name.t" for a parameter whose bias corrections count other steps than the optimizer. */
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../nn/params.h"
#include "optim.h"

static const char load[] = "optim_load";

/* Can the state have entry k for s? */
static bool has_entry(const cr_slot *s, int k) {
    return k == CR_STEP_COUNT ? s->update->corrected : cr_slot_keeps(s, k);
}

static cr_status add_state(const cr_optim *opt, const cr_slot *s, cr_params *state) {
    for (int k = 0; k < CR_KEPT; k++) {
        cr_status status = s->kept[k] ? cr_params_add(state, s->entry[k], s->kept[k]) : CR_OK;
        if (status != CR_OK) return status;
    }
    if (!s->kept[0] || !s->update->corrected || s->steps == opt->steps) return CR_OK;
    cr_scope_begin();
    cr_tensor *t = cr_from(&s->steps, CR_LIST(1), CR_I64, cr_cpu());
    cr_status status = t ? cr_params_add(state, s->entry[CR_STEP_COUNT], t) : cr_error_status();
    cr_scope_end();
    return status;
}

cr_params *cr_optim_state(const cr_optim *opt) {
    if (cr_lacks("optim_state", "the optimizer", opt) || cr_optim_sharded("optim_state", opt)) return NULL;
    cr_params *state = cr_params_new();
    if (!state) return NULL;
    for (int64_t i = 0; i < opt->count; i++) {
        if (add_state(opt, &opt->slots[i], state) == CR_OK) continue;
        cr_params_free(state);
        return NULL;
    }
    return state;
}

/* ---- loading ---- */
static cr_status check_entry(const cr_slot *s, int k, const cr_tensor *t) {
    if (k == CR_STEP_COUNT) {
        if (cr_numel(t) == 1 && cr_dtype_of(t) == CR_I64) return CR_OK;
        return cr_fail(CR_BAD_VALUE, load, "'%s' must be one int64", s->entry[k]);
    }
    if (cr_same_shape(t, s->p)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, load,
                   "'%s' has another shape than its parameter: %lld elements in %d axes instead of "
                   "%lld in %d",
                   s->entry[k], (long long)cr_numel(t), cr_ndim(t), (long long)cr_numel(s->p), cr_ndim(s->p));
}

/* Sets from[k] to entry k of s, NULL where it is absent, and checks that the entries fit s. */
static cr_status find_state(const cr_slot *s, const cr_params *state, const cr_tensor *from[CR_STATE_ENTRIES],
                            int64_t *found) {
    int present = -1, absent = -1;                  /* an entry that is there, a moment that is not */
    for (int k = CR_STATE_ENTRIES; k-- > 0;) {
        const int64_t at = has_entry(s, k) ? cr_params_find(state, s->entry[k]) : -1;
        from[k] = at < 0 ? NULL : cr_params_at(state, at);
        if (from[k]) present = k;
        else if (k < s->update->moments) absent = k;
        if (!from[k]) continue;
        ++*found;
        cr_status status = check_entry(s, k, from[k]);
        if (status != CR_OK) return status;
    }
    if (present < 0 || absent < 0) return CR_OK;
    return cr_fail(CR_BAD_VALUE, load, "the state has '%s' without '%s'", s->entry[present], s->entry[absent]);
}

static cr_tensor *load_kept(const cr_optim *opt, const cr_slot *s, int k, const cr_tensor *from) {
    cr_scope_begin();
    const cr_tensor *here = cr_to(from, cr_dtype_of(from), cr_device_of(s->p));
    cr_tensor *kept = cr_kept_new(opt, s, k);
    if (!kept || !cr_copy_(kept, here)) {
        cr_drop(kept);
        kept = NULL;
    }
    cr_scope_end();
    return kept;
}

/* What s will have after a load, in new tensors: a failure leaves the old ones.  A master that is absent is made from
 * the parameter, in the next step. */
static cr_status load_slot(const cr_optim *opt, const cr_slot *s, const cr_params *state, int64_t steps, cr_slot *into,
                           int64_t *found) {
    const cr_tensor *from[CR_STATE_ENTRIES];
    cr_status status = find_state(s, state, from, found);
    if (status != CR_OK) return status;
    for (int k = 0; k < CR_KEPT; k++) {
        if (!from[k]) continue;
        into->kept[k] = load_kept(opt, s, k, from[k]);
        if (!into->kept[k]) return cr_error_status();
    }
    if (from[CR_STEP_COUNT]) into->steps = cr_item_int(from[CR_STEP_COUNT]);
    else if (from[0] || !s->update->moments) into->steps = steps;
    if (into->steps >= 0 && into->steps <= steps) return CR_OK;
    return cr_fail(CR_BAD_VALUE, load, "'%s' counts %lld steps of %lld", s->entry[CR_STEP_COUNT],
                   (long long)into->steps, (long long)steps);
}

static bool knows_entry(const cr_optim *opt, const char *name) {
    for (int64_t i = 0; i < opt->count; i++)
        for (int k = 0; k < CR_STATE_ENTRIES; k++)
            if (has_entry(&opt->slots[i], k) && !strcmp(name, opt->slots[i].entry[k])) return true;
    return false;
}

static cr_status load_slots(const cr_optim *opt, const cr_params *state, int64_t steps, cr_slot *fresh) {
    int64_t found = 0;
    for (int64_t i = 0; i < opt->count; i++) {
        cr_status status = load_slot(opt, &opt->slots[i], state, steps, &fresh[i], &found);
        if (status != CR_OK) return status;
    }
    if (found == cr_params_count(state)) return CR_OK;
    for (int64_t i = 0; i < cr_params_count(state); i++)
        if (!knows_entry(opt, cr_params_name(state, i)))
            return cr_fail(CR_BAD_VALUE, load, "'%s' belongs to no parameter of this optimizer",
                           cr_params_name(state, i));
    return CR_OK;
}

cr_status cr_optim_load(cr_optim *opt, const cr_params *state, int64_t steps) {
    if (cr_lacks(load, "the optimizer", opt) || cr_optim_sharded(load, opt)) return cr_error_status();
    if (!state) return cr_fail_null(load, "the state");
    if (steps < 0) return cr_fail(CR_BAD_VALUE, load, "steps must be at least 0, not %lld", (long long)steps);
    cr_slot *fresh = calloc((size_t)opt->count + 1, sizeof *fresh);
    if (!fresh) return cr_fail(CR_NO_MEMORY, load, "no memory for %lld parameters", (long long)opt->count);
    const bool recording = cr_set_grad_enabled(false);
    const cr_status status = load_slots(opt, state, steps, fresh);
    for (int64_t i = 0; i < opt->count; i++) {
        cr_slot *s = &opt->slots[i];
        for (int k = 0; k < CR_KEPT; k++) {         /* drops the old tensors, or the new ones after a failure */
            cr_drop(status == CR_OK ? s->kept[k] : fresh[i].kept[k]);
            if (status == CR_OK) s->kept[k] = fresh[i].kept[k];
        }
        if (status == CR_OK) s->steps = fresh[i].steps;
    }
    if (status == CR_OK) opt->steps = steps, opt->exchanged++;
    cr_set_grad_enabled(recording);
    free(fresh);
    return status;
}
