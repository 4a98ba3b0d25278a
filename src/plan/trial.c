/* trial.c - a replay that is taken back: what it wrote is kept, and compared with what the step itself writes then. */
#include "../core/rng.h"
#include "plan.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a storage, retained, before and after the replay. */
typedef struct kept { cr_storage *s; void *before, *after; } kept;
typedef struct state { cr_generator *g; uint64_t before[2], after[2]; } state;
typedef struct gradient { cr_tensor *leaf, *before, *after; } gradient;          /* owned; after: a copy, or CR_NONE */

struct cr_trial {
    cr_plan *p;
    int n_kept; kept *kept;
    int n_states; state *states;
    int n_gradients; gradient *gradients;
    cr_tensor **outputs;                            /* copies */
};

void cr_trial_free(cr_trial *t) {
    if (!t) return;
    for (int i = 0; i < t->n_kept; i++) {
        cr_storage_release(t->kept[i].s);
        free(t->kept[i].before);
        free(t->kept[i].after);
    }
    for (int i = 0; i < t->n_gradients; i++) {
        cr_drop(t->gradients[i].leaf);
        cr_drop(t->gradients[i].before);
        cr_drop(t->gradients[i].after);
    }
    for (int i = 0; t->outputs && i < t->p->n_outputs; i++) cr_drop(t->outputs[i]);
    for (int i = 0; i < t->n_states; i++) cr_generator_free(t->states[i].g);
    cr_plan_release(t->p);
    free(t->kept), free(t->states), free(t->gradients), free(t->outputs);
    free(t);
}

static cr_status read_bytes(cr_storage *s, void **to) {
    if (!*to && !(*to = malloc(s->bytes + !s->bytes))) return cr_no_memory("plan_trial");
    return s->dev->download(s->dev, *to, s, 0, s->bytes);
}

static cr_status keep_storage(cr_trial *t, cr_storage *s) {
    for (int i = 0; i < t->n_kept; i++)
        if (t->kept[i].s == s) return CR_OK;
    kept *k = &t->kept[t->n_kept++];
    *k = (kept){.s = cr_storage_retain(s)};
    return read_bytes(s, &k->before);
}

/* A copy that shares no memory; CR_NONE stays.  Owned by no scope. */
static cr_tensor *copy_of(const cr_tensor *x) {
    if (x == CR_NONE) return cr_retain(CR_NONE);
    const bool mode = cr_set_grad_enabled(false);
    cr_tensor *y = cr_clone(x);
    cr_set_grad_enabled(mode);
    return cr_unscope(y);
}

static cr_status keep_before(cr_trial *t, const cr_tensor *const *in) {
    const cr_plan *p = t->p;
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_buffers && status == CR_OK; i++)
        if (p->buffers[i].written && p->buffers[i].kind == CR_BUFFER_OUTSIDE)
            status = keep_storage(t, p->buffers[i].storage);
    for (int i = 0; i < p->n_inputs && status == CR_OK; i++)
        if (p->buffers[p->inputs[i].buffer].written) status = keep_storage(t, in[i]->storage);
    for (int i = 0; i < p->n_draws; i++) {
        if (!p->draws[i].g) continue;
        state *s = &t->states[t->n_states++];
        s->g = cr_generator_retain(p->draws[i].g);
        cr_generator_get(s->g, &s->before[0], &s->before[1]);
    }
    for (int i = 0; i < p->n_leaves; i++) {
        cr_tensor *leaf = p->leaves[i].tensor ? p->leaves[i].tensor : (cr_tensor *)(uintptr_t)in[p->leaves[i].input];
        t->gradients[t->n_gradients++] = (gradient){.leaf = cr_retain(leaf), .before = cr_grad_hold(leaf)};
    }
    return status;
}

static cr_status keep_after(cr_trial *t, cr_tensor **out) {
    cr_status status = CR_OK;
    for (int i = 0; i < t->p->n_outputs && status == CR_OK; i++)
        if (!(t->outputs[i] = copy_of(out[i]))) status = cr_error_status();
    for (int i = 0; i < t->n_kept && status == CR_OK; i++) status = read_bytes(t->kept[i].s, &t->kept[i].after);
    for (int i = 0; i < t->n_states; i++) {
        state *s = &t->states[i];
        cr_generator_get(s->g, &s->after[0], &s->after[1]);
    }
    for (int i = 0; i < t->n_gradients && status == CR_OK; i++)
        if (!(t->gradients[i].after = copy_of(cr_grad_now(t->gradients[i].leaf)))) status = cr_error_status();
    return status;
}

static cr_status take_back(cr_trial *t) {
    cr_status status = CR_OK;
    for (int i = 0; i < t->n_kept; i++) {
        const kept *k = &t->kept[i];
        const cr_status put = k->before ? k->s->dev->upload(k->s->dev, k->s, 0, k->before, k->s->bytes) : CR_OK;
        if (status == CR_OK) status = put;
    }
    for (int i = 0; i < t->n_states; i++) {
        const state *s = &t->states[i];
        cr_generator_set(s->g, s->before[0], s->before[1]);
    }
    for (int i = 0; i < t->n_gradients; i++) {
        const gradient *g = &t->gradients[i];
        cr_grad_put(g->leaf, g->before == CR_NONE ? NULL : cr_retain(g->before));
    }
    for (int i = 0; i < t->p->n_callbacks; i++) (void)t->p->callbacks[i].before(NULL, t->p->callbacks[i].ctx);
    return status;
}

cr_trial *cr_plan_trial(cr_plan *p, const cr_tensor *const *inputs, bool *fit) {
    cr_plan_inputs all;
    cr_trial *t = NULL;
    *fit = true;
    if (!p) return cr_fail_null("plan_trial", "the plan"), NULL;
    cr_tensor **out = calloc((size_t)p->n_outputs + 1, sizeof *out);
    if (!out || !(t = calloc(1, sizeof *t))) { free(out); return cr_no_memory("plan_trial"), NULL; }
    t->p = p;
    atomic_fetch_add(&p->refs, 1);
    t->kept = calloc((size_t)(p->n_buffers + p->n_inputs) + 1, sizeof *t->kept);
    t->states = calloc((size_t)p->n_draws + 1, sizeof *t->states);
    t->gradients = calloc((size_t)p->n_leaves + 1, sizeof *t->gradients);
    t->outputs = calloc((size_t)p->n_outputs + 1, sizeof *t->outputs);
    cr_status status = t->kept && t->states && t->gradients && t->outputs ? CR_OK : cr_no_memory("plan_trial");
    if (status == CR_OK && !cr_plan_gather(&all, p, inputs)) status = cr_error_status();
    else if (status == CR_OK) {
        if ((*fit = cr_plan_fits(p, inputs))) status = keep_before(t, all.in);
        if (*fit && status == CR_OK && (status = cr_plan_try(p, inputs, out, fit)) == CR_OK && *fit) {
            status = keep_after(t, out);
            const cr_status back = take_back(t);
            if (status == CR_OK) status = back;
        }
        cr_plan_let_go(&all);
    }
    for (int i = 0; i < p->n_outputs; i++)
        if (out[i]) cr_release(out[i]);
    free(out);
    if (status == CR_OK && *fit) return t;
    cr_trial_free(t);
    return NULL;
}

static bool same_bits(const cr_tensor *a, const cr_tensor *b) {
    if (a == CR_NONE || b == CR_NONE) return a == b;
    if (a->dtype != b->dtype || !cr_shape_equal(a->ndim, a->shape, b->ndim, b->shape)) return false;
    const size_t bytes = (size_t)a->numel * cr_dtype_size(a->dtype);
    char *x = malloc(2 * bytes + 1);
    const bool same = x && cr_read(a, a->dtype, x, bytes) == CR_OK && cr_read(b, b->dtype, x + bytes, bytes) == CR_OK &&
                      !memcmp(x, x + bytes, bytes);
    free(x);
    return same;
}

static cr_status differs(const char *what, int i) {
    return cr_fail(CR_RUNTIME, "compile", "a replay differs from the step itself: %s %d", what, i);
}

cr_status cr_trial_compare(const cr_trial *t, int n, const cr_tensor *const *outputs) {
    if (!t) return cr_fail_null("trial_compare", "the trial");
    if (n != t->p->n_outputs)
        return cr_fail(CR_RUNTIME, "compile", "a replay has %d results, the step itself %d", t->p->n_outputs, n);
    cr_status status = CR_OK;
    for (int i = 0; i < n; i++)
        if (!same_bits(t->outputs[i], outputs[i])) return differs("result", i);
    for (int i = 0; i < t->n_gradients; i++)
        if (!same_bits(t->gradients[i].after, cr_grad_now(t->gradients[i].leaf))) return differs("gradient", i);
    for (int i = 0; i < t->n_kept && status == CR_OK; i++) {
        const kept *k = &t->kept[i];
        void *now = NULL;
        status = read_bytes(k->s, &now);
        if (status == CR_OK && memcmp(now, k->after, k->s->bytes)) status = differs("written tensor", i);
        free(now);
    }
    for (int i = 0; i < t->n_states && status == CR_OK; i++) {
        uint64_t now[2];
        cr_generator_get(t->states[i].g, &now[0], &now[1]);
        if (memcmp(now, t->states[i].after, sizeof now)) status = differs("generator", i);
    }
    return status;
}
