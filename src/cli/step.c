/* step.c - one update of a run: the losses of its batches, their gradients, the optimizer.
 *
 * Gradients of the batches of --accumulate are added over a binary tree, as those of --microbatches are: siblings
 * first, level by level (core/tree.h).
 *
 * The first step of a process runs as it is, because it makes the optimizer's moments.  The second is recorded, and
 * later ones replay it, with the same bits. */
#include "run.h"

#include <math.h>
#include <stdlib.h>

#include "../core/status.h"
#include "../core/tree.h"

/* Reads the losses; one that is not finite ends the step before a weight changes. */
static cr_status note_losses(cr_plan *p, void *ctx, const double *each, double *results) {
    run *r = ctx;
    (void)p, (void)results;
    r->update.loss = 0;
    for (int64_t i = 0; i < r->s->accumulate; i++) r->update.loss += each[i];
    return isfinite(r->update.loss) ? CR_OK : cr_fail(CR_RUNTIME, r->command->name, "the loss is not finite");
}

/* The loss of batch i, weighted by 1 / --accumulate. */
static cr_tensor *loss_of(run *r, int64_t i) {
    const double share = 1 / (double)r->s->accumulate;
    if (cr_autocast_begin(r->dev, r->weights.half_dtype, true)) return NULL;
    cr_tensor **in = r->update.inputs, *l = in ? r->task->loss_of(r, in[2 * i], in[2 * i + 1]) : r->task->batch(r);
    if (cr_autocast_end()) return NULL;
    return l && share < 1 ? cr_mul_scalar(l, share) : l;
}

/* Adds the gradients of batch i; with --fuse-step also the update.  each[i] is kept. */
static cr_status add_gradients(run *r, int64_t i, cr_tensor **each) {
    cr_scope_begin();
    cr_tensor *l = loss_of(r, i), *scaled = l && r->update.scaler ? cr_scaler_scale(r->update.scaler, l) : l;
    cr_status status = scaled && (each[i] = cr_detach(l)) ? CR_OK : cr_error_status();
    if (each[i]) cr_keep(each[i]);
    if (status == CR_OK && i == r->s->accumulate - 1 && !r->dry)
        status = cr_record_host((int)r->s->accumulate, (const cr_tensor *const *)each, 0, NULL, note_losses, r, NULL);
    if (status == CR_OK)
        status = r->s->fuse_step ? cr_optim_backward(r->update.optim, scaled) : cr_backward(scaled, CR_NONE, NULL);
    cr_scope_end();
    return status;
}

/* ---- partial sums that wait for a sibling */
enum { DEPTH = 64 };
typedef struct partial { const cr_tensor **grad; } partial;        /* of each parameter, retained; NULL: none */
typedef struct partials { partial at[DEPTH]; int n; } partials;

static void drop_last(const run *r, partials *p) {
    const partial *last = &p->at[--p->n];
    for (int64_t k = 0; k < cr_params_count(r->weights.trained); k++) cr_drop(last->grad[k]);
    free(last->grad);
}

/* Parameters give their gradients away: the next batch begins a partial sum of its own. */
static cr_status set_aside(run *r, partials *p) {
    const int64_t n = cr_params_count(r->weights.trained);
    partial *next = &p->at[p->n];
    *next = (partial){calloc((size_t)n + 1, sizeof *next->grad)};
    if (!next->grad) return cr_no_memory(r->command->name);
    p->n++;
    cr_status status = CR_OK;
    for (int64_t k = 0; k < n && status == CR_OK; k++) {
        cr_tensor *t = cr_params_at(r->weights.trained, k), *grad = cr_grad(t);
        if (cr_is_none(grad)) continue;
        next->grad[k] = cr_retain(grad);
        status = cr_set_grad(t, CR_NONE);
    }
    return status;
}

/* Adds the last partial sum to the gradients, in place. */
static cr_status add_last(run *r, partials *p) {
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    for (int64_t k = 0; k < cr_params_count(r->weights.trained) && status == CR_OK; k++) {
        const cr_tensor *before = p->at[p->n - 1].grad[k];
        cr_tensor *t = cr_params_at(r->weights.trained, k), *grad = cr_grad(t);
        if (!before) continue;
        if (cr_is_none(grad)) status = cr_set_grad(t, before);
        else if (!cr_add_(grad, before)) status = cr_error_status();
    }
    cr_set_grad_enabled(recording);
    drop_last(r, p);
    return status;
}

/* Behind batch i, which the backward pass has added to its sibling if i is odd: joins sums of one level. */
static cr_status join_partials(run *r, partials *p, cr_tree *t, int64_t i) {
    int64_t merges[CR_TREE_DEPTH];
    const int count = cr_tree_push(t, (cr_tree_node){0, i}, i, merges);
    cr_status status = CR_OK;
    for (int k = (int)(i & 1); k < count && status == CR_OK; k++) status = add_last(r, p);
    return i == t->leaves - 1 || !(i & 1) || status != CR_OK ? status : set_aside(r, p);
}

/* The update of f16; a step whose gradients overflowed is left out, and the next scale is smaller. */
static cr_status update_scaled(run *r) {
    run_updates *u = &r->update;
    const double clip = r->s->clip > 0 ? r->s->clip : INFINITY;
    cr_status status = cr_scaler_step(u->scaler, u->optim, clip, &u->norm, NULL);
    return status == CR_OK ? cr_scaler_update(u->scaler) : status;
}

static cr_status update(run *r) {
    if (r->dry) return r->s->fuse_step ? CR_OK : cr_optim_step(r->update.optim);
    if (r->update.scaler) return update_scaled(r);
    if (r->s->clip > 0) return cr_optim_step_clipped(r->update.optim, r->s->clip, NULL);
    return r->s->fuse_step ? CR_OK : cr_optim_step(r->update.optim);
}

/* The step as it is, or as a recording sees it. */
static cr_status run_step_now(run *r) {
    cr_tensor **each = calloc((size_t)r->s->accumulate, sizeof *each);
    cr_status status = each ? CR_OK : cr_no_memory(r->command->name);
    partials waiting = {.n = 0};
    cr_tree order = {.leaves = r->s->accumulate};
    cr_scope_begin();
    for (int64_t i = 0; i < r->s->accumulate && status == CR_OK; i++) {
        status = add_gradients(r, i, each);
        if (status == CR_OK && r->s->accumulate > 2) status = join_partials(r, &waiting, &order, i);
    }
    while (waiting.n) drop_last(r, &waiting);
    if (status == CR_OK) status = update(r);
    cr_params_zero_grad(r->weights.trained);
    cr_scope_end();
    free(each);
    return status;
}

/* ---- the recorded step */
bool run_records(const run *r) {
    return r->s->compile && r->task->loss_of && !r->update.scaler && !r->s->fuse_step && !r->s->microbatches;
}

static cr_status record(run *r) {
    cr_status status = cr_record_begin(2 * (int)r->s->accumulate, (const cr_tensor *const *)r->update.inputs);
    if (status != CR_OK) return status;
    cr_record_lenient();
    status = run_step_now(r);
    if (status != CR_OK) {
        cr_record_cancel();
        return status;
    }
    if ((r->update.plan = cr_record_end(0, NULL))) return CR_OK;
    runlog_write(&r->log, "{\"event\":\"no plan\",\"step\":%lld}", (long long)r->at.step);
    r->s->compile = false;
    cr_error_clear();
    return CR_OK;
}

static cr_status replay_or_run(run *r) {
    if (!run_records(r) || !r->update.stepped) return run_step_now(r);
    if (!r->update.plan) return record(r);
    return cr_plan_run(r->update.plan, (const cr_tensor *const *)r->update.inputs, NULL);
}

/* The batches of the step, where a loss is a function of two tensors. */
static cr_status fetch(run *r) {
    if (!r->task->loss_of) return CR_OK;
    r->update.inputs = calloc(2 * (size_t)r->s->accumulate, sizeof *r->update.inputs);
    if (!r->update.inputs) return cr_no_memory(r->command->name);
    cr_status status = CR_OK;
    for (int64_t i = 0; i < r->s->accumulate && status == CR_OK; i++)
        status = r->task->fetch(r, &r->update.inputs[2 * i], &r->update.inputs[2 * i + 1]);
    return status;
}

cr_status run_dry_step(run *r) {
    cr_scope_begin();
    cr_status status = fetch(r);
    if (status == CR_OK) status = run_step_now(r);
    cr_scope_end();
    free(r->update.inputs);
    r->update.inputs = NULL;
    return status;
}

/* One update, which a loss that is not finite prevents.  *loss: the mean over its batches; *norm: of the gradients
 * before clipping (NaN when --clip is 0). */
cr_status run_update(run *r, double lr, double *loss, double *norm) {
    cr_status status = cr_optim_set_lr(r->update.optim, lr);
    *loss = *norm = NAN;
    if (status != CR_OK || r->ranks.parallel) return status == CR_OK ? run_microbatches(r, loss, norm) : status;
    r->update.loss = 0;
    cr_scope_begin();
    status = fetch(r);
    if (status == CR_OK) status = replay_or_run(r);
    cr_scope_end();
    free(r->update.inputs);
    r->update.inputs = NULL;
    r->at.batches += r->s->accumulate;
    r->update.stepped = true;
    *loss = r->update.loss;
    const run_updates *u = &r->update;
    if (isfinite(*loss)) *norm = !(r->s->clip > 0) ? NAN : u->scaler ? u->norm : cr_optim_norm(u->optim);
    else if (status != CR_OK) cr_error_clear(), status = CR_OK;          /* the caller says it */
    return status;
}
