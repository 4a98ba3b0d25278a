/* loop.c - the steps of a run, of chainrule train and finetune: updates, validations, checkpoints, the log. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

/* ---- the objects of a run */

/* Completes the settings: those of a resumed run, the device, derived defaults. */
int run_settle(run *r) {
    settings *s = r->s;
    int code = CLI_FAILED;
    if (s->resume && run_first(r) && cr_os_is_directory(s->resume) && !run_lock(r)) return code;
    if (s->resume && !run_restore_settings(r, &code)) return code;
    if (s->threads && cr_set_num_threads((int)s->threads)) return cli_fail_library();
    r->dev = run_device(r);
    if (!r->dev) return cli_fail_library();
    r->weights.half_dtype = half_dtype_named(s->dtype);
    if (half_dtype_named(s->weights) != CR_F32) {
        if (r->weights.half_dtype == CR_F16)
            return usage_error(r->command, "--dtype f16 cannot be combined with --weights %s", s->weights);
        r->weights.half_dtype = CR_F32;                     /* activations have the dtype of the weights */
    }
    if (isnan(s->min_lr)) s->min_lr = s->lr / 10;
    if ((code = settings_limits(r->command, s)) != CLI_OK) return code;
    if (s->save_every < 0) s->save_every = s->eval_every;
    if (s->fuse_step && (s->clip > 0 || s->accumulate > 1))
        return usage_error(r->command,
                           "--fuse-step keeps no gradients: it needs --clip 0 and --accumulate 1, not %g and %lld",
                           s->clip, (long long)s->accumulate);
    if (s->fuse_step && r->weights.half_dtype == CR_F16)
        return usage_error(r->command, "--fuse-step keeps no gradients: --dtype f16 needs them to scale the loss");
    return CLI_OK;
}

/* The parameters for Muon (matrices inside the blocks), or the others. */
static cr_params *hidden_matrices(const run *r, bool wanted) {
    cr_params *all = r->weights.trained, *some = cr_params_new();
    for (int64_t i = 0; some && i < cr_params_count(all); i++) {
        cr_tensor *t = cr_params_at(all, i);
        const char *name = cr_params_name(all, i);
        const bool inside = !strncmp(name, "h.", 2) || !strncmp(name, "layers.", 7);
        if ((inside && cr_ndim(t) == 2) != wanted) continue;
        if (cr_params_add(some, name, t)) { cr_params_free(some); return NULL; }
    }
    return some;
}

static cr_optim_options optimizer_options(const settings *s, cr_optim_kind kind) {
    cr_optim_options o = cr_optim_defaults(kind);
    o.lr = s->lr;
    o.weight_decay = s->weight_decay;
    o.decay_min_ndim = 2;
    o.master_weights = true;
    if (kind == CR_SGD) o.momentum = s->beta1;
    o.beta1 = s->beta1;
    o.beta2 = s->beta2;
    return o;
}

bool run_optimizer(run *r) {
    const cr_optim_kind kind = optimizer_kind(r->s->optimizer);
    cr_optim_options o = optimizer_options(r->s, kind), adamw = optimizer_options(r->s, CR_ADAMW);
    if (kind != CR_MUON) return (r->update.optim = cr_optim_new(r->weights.trained, &o)) != NULL;
    /* Muon for the matrices inside the blocks, AdamW for the rest */
    r->weights.groups[0] = hidden_matrices(r, true);
    r->weights.groups[1] = hidden_matrices(r, false);
    r->update.optim = r->weights.groups[0] && r->weights.groups[1] ? cr_optim_new(r->weights.groups[0], &o) : NULL;
    return r->update.optim && cr_optim_add(r->update.optim, r->weights.groups[1], &adamw) == CR_OK;
}

bool run_folder(run *r) {
    char path[4096];
    if (!run_first(r)) return run_silent(r);
    if (!cr_os_make_directory(r->s->out))
        return cli_fail("cannot make the folder '%s': %s", r->s->out, cr_os_error()), false;
    /* a resumed run was locked before its checkpoint was read */
    if (!r->s->resume && !run_lock(r)) return false;
    if (!run_clear(r)) return false;
    /* first the log, by which a folder is known as that of a run */
    if (!run_path(r, "run.jsonl", path) || !runlog_open(&r->log, path, r->at.step)) return false;
    if (!run_path(r, "tokenizer.json", path)) return false;
    return r->s->resume || !cr_tokenizer_save(r->data.tokenizer, path) || (cli_fail_library(), false);
}

void run_close(run *r) {
    cr_plan_free(r->update.plan);
    cr_parallel_free(r->ranks.parallel);
    runlog_close(&r->log);
    cr_loader_free(r->data.loader);
    low_copies_free(r->weights.copies, r->weights.trained);
    low_copies_free(r->weights.frozen_copies, r->weights.frozen);
    cr_scaler_free(r->update.scaler);
    cr_optim_free(r->update.optim);
    cr_params_free(r->weights.groups[0]);
    cr_params_free(r->weights.groups[1]);
    cr_generator_free(r->generator);
    cr_tokens_free(r->data.train);
    cr_tokens_free(r->data.val);
    cr_tokens_free(r->data.tokens);
    cr_tokenizer_free(r->data.tokenizer);
    for (int i = 0; i < r->saved.n_kept; i++) cr_free(r->saved.kept[i]);
}

/* ---- the loop */

bool run_over(const run *r) {
    const settings *s = r->s;
    return (s->steps && r->at.step >= s->steps) || (s->minutes > 0 && r->at.elapsed >= 60 * s->minutes);
}

/* By steps the schedule's rate.  By time the cosine goes over the minutes, behind a warm-up of --warmup steps or a
 * tenth of the time; where both end the run, the lower rate. */
static double learning_rate(const run *r) {
    const settings *s = r->s;
    const double steps = s->steps ? cr_schedule_lr(&r->schedule, r->at.step) : INFINITY;
    if (!(s->minutes > 0)) return steps;
    enum { PARTS = 1 << 30 };
    const cr_schedule by_time = {.kind = CR_COSINE, .lr = s->lr, .min_lr = s->min_lr, .total = PARTS};
    const double share = fmin(r->at.elapsed / (60 * s->minutes), 1),
                 warm = fmax((double)(r->at.step + 1) / (double)(s->warmup + 1), 10 * share);
    return fmin(steps, fmin(warm, 1) * cr_schedule_lr(&by_time, (int64_t)(share * PARTS)));
}

/* Is this step the last one or one of --eval-every, without a validation loss so far? */
static bool validation_due(const run *r) {
    const series *val = &r->log.val;
    if (val->n && val->at[val->n - 1].step == r->at.step) return false;
    return run_over(r) || (r->at.step && r->s->eval_every && r->at.step % r->s->eval_every == 0);
}

/* Validates; after Ctrl-C the validation stays due.  False: library message pending. */
static bool measure(run *r, progress *bar) {
    char number[32];
    double loss;
    cr_status status = r->task->validate(r, &loss);
    if (status == CR_INTERRUPTED) return true;
    if (status != CR_OK) return progress_end(bar), false;
    bar->val = loss;
    series_add(&r->log.val, r->at.step, loss);
    runlog_write(&r->log, "{\"step\":%lld,\"val_loss\":%s}", (long long)r->at.step, json_number(loss, number));
    progress_show(bar, true);
    run_save_best(r, bar, loss);
    return true;
}

void run_log_step(run *r) {
    char a[32], b[32], c[32], exchange[96] = "";
    series_add(&r->log.train, r->at.step, r->at.last.loss);
    if (!run_alone(r)) {
        const cr_parallel_stats s = cr_parallel_look(r->ranks.parallel);
        snprintf(exchange, sizeof exchange, ",\"sent_bytes\":%lld,\"exposed_seconds\":%.6f", (long long)s.sent,
                 s.exposed);
    }
    runlog_write(&r->log, "{\"step\":%lld,\"loss\":%s,\"lr\":%s,\"norm\":%s,\"seconds\":%.3f%s}", (long long)r->at.step,
                 json_number(r->at.last.loss, a), json_number(r->at.last.lr, b), json_number(r->at.last.norm, c),
                  r->at.seconds,
                 exchange);
}

/* The last save.  False: a process was lost before all had written, so with --elastic the others write again. */
static bool save_at_end(run *r, progress *bar) {
    progress_end(bar);
    run_save(r, bar);
    if (r->saved.unsaved) run_save_weights(r);
    return !r->s->elastic || cr_parallel_meet(r->ranks.parallel) == CR_OK;
}

/* Stops before the last step, by Ctrl-C or --stop-at. */
static int stop_early(run *r) {
    if (r->saved.unsaved) return CLI_FAILED;
    runlog_write(&r->log, "{\"event\":\"stop\",\"step\":%lld}", (long long)r->at.step);
    char limit[64], program[4200], folder[4200];
    if (r->s->steps) snprintf(limit, sizeof limit, " of %lld", (long long)r->s->steps);
    else snprintf(limit, sizeof limit, " and %.3g of %.4g minutes", r->at.elapsed / 60, r->s->minutes);
    printf("stopped after step %lld%s; resume with:\n  %s %s --resume %s\n", (long long)r->at.step, limit,
           shell_word(cli_program(), program), r->command->name, shell_word(r->s->out, folder));
    return cr_os_interrupted() ? CLI_STOPPED : CLI_OK;
}

/* The tensor with the largest magnitude, a NaN first; NULL: there is none. */
static const char *largest(const cr_params *p, double *value) {
    const char *name = NULL;
    const bool recording = cr_set_grad_enabled(false);
    *value = -1;
    for (int64_t i = 0; i < cr_params_count(p) && !isnan(*value); i++) {
        cr_scope_begin();
        const double most = cr_item(cr_max(cr_abs(cr_params_at(p, i)), CR_ALL, false));
        cr_scope_end();
        if (most <= *value) continue;
        *value = isnan(most) ? NAN : most;
        name = cr_params_name(p, i);
    }
    cr_set_grad_enabled(recording);
    return name;
}

/* Says where a loss that is not finite may come from.  The weights are those before the step. */
static int diverged(run *r, double loss) {
    char where[4096], kept[4400], on[32] = "";
    double value, frozen;
    const char *name = largest(r->weights.trained, &value);
    const char *other = r->weights.frozen ? largest(r->weights.frozen, &frozen) : NULL;
    if (other && isfinite(value) && !isfinite(frozen)) { name = other; value = frozen; }
    r->ranks.failed_on_all_ranks = r->ranks.parallel != NULL;
    if (!run_first(r)) return CLI_FAILED;
    const int64_t step = run_path(r, "checkpoint", where) ? run_step(where) : -1;
    if (step < 0) snprintf(kept, sizeof kept, "there is none yet");
    else snprintf(kept, sizeof kept, "%s, after step %lld", where, (long long)step);
    if (!run_alone(r)) snprintf(on, sizeof on, " on rank %d", cr_parallel_look(r->ranks.parallel).bad);
    return cli_fail("the loss became %g%s at step %lld; the largest weight is %g, in '%s': try a lower --lr or a "
                    "stronger --clip; the last good checkpoint: %s",
                    isnan(loss) ? NAN : loss, on, (long long)r->at.step, value, name ? name : "", kept);
}

/* One step, with its log line and progress. */
static int one_step(run *r) {
    progress *bar = &r->bar;
    const double lr = learning_rate(r), begun = cr_os_seconds(), before = r->at.seen;
    double loss, norm;
    if (run_update(r, lr, &loss, &norm)) return progress_end(bar), run_recover(r) ? CLI_OK : CLI_FAILED;
    const double took = cr_os_seconds() - begun, rate = (r->at.seen - before) / took;
    r->at.step++;
    r->at.seconds += took;
    r->at.last.loss = loss;
    r->at.last.lr = lr;
    r->at.last.norm = norm;
    run_log_step(r);
    if (!isfinite(loss)) {
        progress_end(bar);
        return diverged(r, loss);
    }
    bar->step = r->at.step;
    bar->spent = r->at.elapsed;
    bar->loss = isnan(bar->loss) ? loss : 0.95 * bar->loss + 0.05 * loss;
    bar->rate = bar->rate > 0 ? 0.95 * bar->rate + 0.05 * rate : rate;
    if (!validation_due(r)) progress_show(bar, r->at.step == bar->first + 1);
    return CLI_OK;
}

/* --sample-every: the first process writes, and the others wait in the next step.  False: message printed. */
static bool sample_now(run *r, progress *bar) {
    if (!run_first(r) || !r->s->sample) return true;
    progress_end(bar);
    return r->task->sample(r) == CR_OK || (cli_fail_library(), false);
}

/* It begins with the checks, because a resumed run may have stopped before them. */
int run_round(run *r, bool *ended) {
    const settings *s = r->s;
    progress *bar = &r->bar;
    run_clock(r);
    if (!cr_error() && validation_due(r) && !measure(r, bar)) return run_recover(r) ? CLI_OK : CLI_FAILED;
    if (!cr_error()) run_clock(r);                  /* a validation may have taken the rest of the time */
    const bool moved = r->at.step > bar->first, last = run_over(r) && !validation_due(r);
    const bool stop = !last && (run_interrupted(r) || (s->stop_at && r->at.step >= s->stop_at));
    if (!cr_error() && (last || stop) && save_at_end(r, bar)) {
        *ended = true;
        r->over = last;
        return last ? CLI_OK : stop_early(r);
    }
    if (cr_error()) return run_recover(r) ? CLI_OK : CLI_FAILED;
    if (moved && s->save_every && r->at.step % s->save_every == 0) run_save(r, bar);
    if (moved && s->sample_every && r->at.step % s->sample_every == 0 && !sample_now(r, bar)) return CLI_FAILED;
    return one_step(r);
}

/* ---- the log */

static void log_start(run *r) {
    char now[32], text[4096], escaped[4096];
    cr_os_timestamp(now);
    fprintf(r->log.file,
            "{\"event\":\"%s\",\"step\":%lld,\"time\":\"%s\",\"version\":\"%s\",\"device\":\"%s\",\"threads\":%d,"
            "\"parameters\":%lld",
            r->s->resume ? "resume" : "start", (long long)r->at.step, now, cr_version(), cr_device_name(r->dev),
            cr_num_threads(), (long long)cr_params_numel(r->weights.trained));
    for (int i = 0; i < r->command->n; i++) {
        const option *o = &r->command->options[i];
        if (!o->kept || o->text == &r->s->device || o->integer == &r->s->threads) continue;     /* written above */
        option_text(o, text, sizeof text);
        json_escape(text, escaped, sizeof escaped);
        if (o->integer || o->real) fprintf(r->log.file, ",\"%s\":%s", o->name, text);
        else fprintf(r->log.file, ",\"%s\":\"%s\"", o->name, escaped);
    }
    runlog_write(&r->log, "}");
}

/* ---- the whole run */
int run_begin(run *r) {
    const settings *s = r->s;
    if (s->resume) print_fact(stdout, "resume", "%s after step %lld", s->resume, (long long)r->at.step);
    printf("\n");
    fflush(stdout);
    cr_os_catch_interrupt();
    log_start(r);
    if (s->profile && cr_profile_begin()) return cli_fail_library();
    progress_begin(&r->bar, r->at.step, s->steps, 60 * s->minutes);
    r->at.began = cr_os_seconds() - r->at.elapsed;
    r->schedule = (cr_schedule){
        .kind = CR_COSINE, .lr = s->lr, .min_lr = s->min_lr, .warmup = s->warmup, .total = s->steps};
    return s->resume && !run_share_log(r) ? CLI_FAILED : CLI_OK;
}

int run_to_end(run *r) {
    bool ended = false;
    int code = run_begin(r);
    while (code == CLI_OK && !ended) code = run_round(r, &ended);
    if (r->s->profile && cr_profile_end(r->s->profile)) code = cli_fail_library();
    return code == CLI_OK && r->over && run_first(r) ? r->task->finish(r) : code;
}
