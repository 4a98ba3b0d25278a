/* train.c - chainrule train: trains a GPT on text.
 *
 * Training uses nine tenths of the tokens.  The validation loss is over the whole last tenth, every
 * token predicted once, in windows of the context.  --seed determines all random numbers: a stopped
 * and resumed run ends with the same bits. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

/* ---- the objects of a run */

static cr_tokenizer *load_tokenizer(const run *r) {
    char path[4096];
    if (!r->s->resume) return NULL;
    return run_path(r, "tokenizer.json", path) ? cr_tokenizer_load(path) : NULL;
}

/* --tokens FILE of chainrule tokenize, with FILE.tokenizer.json next to it. */
static bool open_token_file(run *r) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s.tokenizer.json", r->s->tokens) >= (int)sizeof path)
        return cli_fail("the path of --tokens is too long"), false;
    r->tokens = cr_tokens_open(r->s->tokens);
    r->tokenizer = r->tokens ? cr_tokenizer_load(path) : NULL;
    if (!r->tokenizer) return cli_fail_library(), false;
    if (cr_tokenizer_size(r->tokenizer) != cr_tokens_vocabulary(r->tokens))
        return cli_fail("'%s' has %lld tokens, but '%s' was made with %lld", path,
                        (long long)cr_tokenizer_size(r->tokenizer), r->s->tokens,
                        (long long)cr_tokens_vocabulary(r->tokens)),
               false;
    return true;
}

static bool open_text(run *r) {
    corpus c;
    if (!corpus_read(&r->s->data, &c)) return false;
    r->tokenizer = r->s->resume ? load_tokenizer(r) : tokenizer_named(r->s->tokenizer, &c);
    r->tokens = r->tokenizer ? corpus_tokens(&c, r->tokenizer) : NULL;
    free(c.bytes);
    return r->tokens || (cli_fail_library(), false);
}

static bool split_tokens(run *r) {
    const int64_t n = cr_tokens_count(r->tokens), n_train = (int64_t)((double)n * 0.9);
    if (n_train < r->s->context + 1 || n - n_train < 2)
        return cli_fail("the text has %lld tokens: a context of %lld needs at least %lld (a tenth is kept for "
                        "validation); give more --data or a smaller --context",
                        (long long)n, (long long)r->s->context, (long long)ceil((double)(r->s->context + 1) / 0.9 + 2)),
               false;
    r->train = cr_tokens_slice(r->tokens, 0, n_train);
    r->val = r->train ? cr_tokens_slice(r->tokens, n_train, n) : NULL;
    return r->val || (cli_fail_library(), false);
}

/* The parameters for Muon (matrices inside the blocks), or the others. */
static cr_params *hidden_matrices(const run *r, bool wanted) {
    cr_params *all = cr_gpt_params(r->model), *some = cr_params_new();
    for (int64_t i = 0; some && i < cr_params_count(all); i++) {
        cr_tensor *t = cr_params_at(all, i);
        const char *name = cr_params_name(all, i);
        if ((!strncmp(name, "h.", 2) && cr_ndim(t) == 2) != wanted) continue;
        if (cr_params_add(some, name, t)) { cr_params_free(some); return NULL; }
    }
    return some;
}

static cr_optim_options optimizer_options(const settings *s, cr_optim_kind kind) {
    cr_optim_options o = cr_optim_defaults(kind);
    o.lr = s->lr;
    o.weight_decay = s->weight_decay;
    o.decay_min_ndim = 2;
    if (kind == CR_SGD) o.momentum = s->beta1;
    o.beta1 = s->beta1;
    o.beta2 = s->beta2;
    return o;
}

static bool make_optimizer(run *r) {
    const cr_optim_kind kind = optimizer_kind(r->s->optimizer);
    cr_optim_options o = optimizer_options(r->s, kind), adamw = optimizer_options(r->s, CR_ADAMW);
    if (kind != CR_MUON) return (r->optim = cr_optim_new(cr_gpt_params(r->model), &o)) != NULL;
    r->groups[0] = hidden_matrices(r, true);        /* Muon for the matrices inside the blocks, AdamW for the rest */
    r->groups[1] = hidden_matrices(r, false);
    r->optim = r->groups[0] && r->groups[1] ? cr_optim_new(r->groups[0], &o) : NULL;
    return r->optim && cr_optim_add(r->optim, r->groups[1], &adamw) == CR_OK;
}

static bool make_model(run *r) {
    const settings *s = r->s;
    const cr_gpt_config c = {.vocabulary = cr_tokens_vocabulary(r->tokens),
                             .context = s->context,
                             .layers = s->layers,
                             .heads = s->heads,
                             .width = s->width,
                             .dropout = s->dropout};
    cr_loader_options o = cr_loader_defaults();
    o.batch = s->batch;
    o.context = s->context;
    o.seed = (uint64_t)s->seed;
    o.shuffle = true;
    o.device = r->dev;
    r->generator = cr_generator_new((uint64_t)s->seed);
    r->model = r->generator ? cr_gpt_new(&c, CR_F32, r->dev, r->generator) : NULL;
    r->loader = r->model ? cr_loader_new(r->train, &o) : NULL;
    const bool made = r->loader && make_optimizer(r) && low_copies(r->model, r->optim, r->low, &r->copies);
    if (made && r->low == CR_F16) r->scaler = cr_scaler_new(NULL);
    return (made && (r->low != CR_F16 || r->scaler)) || (cli_fail_library(), false);
}

static bool make_folder(run *r) {
    char path[4096];
    if (!cr_os_make_directory(r->s->out))
        return cli_fail("cannot make the folder '%s': %s", r->s->out, cr_os_error()), false;
    /* a resumed run was locked before its checkpoint was read */
    if (!r->s->resume && !run_lock(r)) return false;
    if (!run_clear(r)) return false;
    if (!run_path(r, "tokenizer.json", path)) return false;
    if (!r->s->resume && cr_tokenizer_save(r->tokenizer, path)) return cli_fail_library(), false;
    return run_path(r, "run.jsonl", path) && runlog_open(&r->log, path, r->step);
}

static void run_close(run *r) {
    runlog_close(&r->log);
    cr_loader_free(r->loader);
    low_copies_free(r->copies, r->model);
    cr_scaler_free(r->scaler);
    cr_optim_free(r->optim);
    cr_params_free(r->groups[0]);
    cr_params_free(r->groups[1]);
    cr_gpt_free(r->model);
    cr_generator_free(r->generator);
    cr_tokens_free(r->train);
    cr_tokens_free(r->val);
    cr_tokens_free(r->tokens);
    cr_tokenizer_free(r->tokenizer);
    for (int i = 0; i < r->n_kept; i++) cr_free(r->kept[i]);
}

/* ---- the loop */

/* Loss and gradients of one batch, weighted by 1 / --accumulate; with --fuse-step also the update. */
static cr_status batch_step(run *r, double *loss) {
    cr_tensor *x = NULL, *y = NULL;
    const double share = 1 / (double)r->s->accumulate;
    cr_scope_begin();
    cr_status status = cr_loader_next(r->loader, &x, &y);
    cr_tensor *l = status != CR_OK ? NULL : low_loss(r->model, r->low, x, y, true);
    if (status == CR_OK && share < 1) l = cr_mul_scalar(l, share);
    cr_tensor *scaled = r->scaler ? cr_scaler_scale(r->scaler, l) : l;
    if (status == CR_OK)
        status = r->s->fuse_step ? cr_optim_backward(r->optim, scaled) : cr_backward(scaled, CR_NONE, NULL);
    if (status == CR_OK) *loss += cr_item(l);
    cr_scope_end();
    return status;
}

/* The update of f16; a step whose gradients overflowed is left out, and the next scale is smaller. */
static cr_status scaled_step(run *r, double *norm) {
    double total;
    cr_status status = cr_scaler_step(r->scaler, r->optim, r->s->clip > 0 ? r->s->clip : INFINITY, &total, NULL);
    if (r->s->clip > 0) *norm = total;
    return status == CR_OK ? cr_scaler_update(r->scaler) : status;
}

/* One update.  *loss: the mean over its batches; *norm: of the gradients before clipping (NaN when --clip is 0). */
static cr_status train_step(run *r, double lr, double *loss, double *norm) {
    cr_params *p = cr_gpt_params(r->model);
    cr_status status = cr_optim_set_lr(r->optim, lr);
    *loss = 0;
    *norm = NAN;
    for (int64_t i = 0; i < r->s->accumulate; i++) {
        if (status != CR_OK) break;
        status = batch_step(r, loss);
    }
    if (status == CR_OK && r->scaler) status = scaled_step(r, norm);
    else if (status == CR_OK && r->s->clip > 0) status = cr_optim_step_clipped(r->optim, r->s->clip, norm);
    else if (status == CR_OK && !r->s->fuse_step) status = cr_optim_step(r->optim);
    cr_params_zero_grad(p);
    return status;
}

/* Sum of the losses of `windows` windows of T tokens that start at `start`. */
static cr_status window_loss(const run *r, int64_t start, int64_t windows, int64_t T, int64_t *ids, double *sum) {
    for (int64_t i = 0; i < windows * T; i++) {
        ids[i] = cr_tokens_at(r->val, start + i);
        ids[windows * T + i] = cr_tokens_at(r->val, start + i + 1);
    }
    cr_scope_begin();
    cr_tensor *x = cr_from(ids, CR_LIST(windows, T), CR_I64, r->dev),
              *y = cr_from(ids + windows * T, CR_LIST(windows, T), CR_I64, r->dev);
    cr_tensor *loss = low_loss(r->model, r->low, x, y, false);
    *sum += cr_item(loss) * (double)(windows * T);
    cr_scope_end();
    return loss ? CR_OK : cr_error_status();
}

/* The mean loss over the whole validation split.  Every token except the first is predicted once; the
 * last window may be shorter. CR_INTERRUPTED: stopped by Ctrl-C. */
static cr_status validate(const run *r, double *loss) {
    const int64_t T = r->s->context, targets = cr_tokens_count(r->val) - 1, most = T < 4096 ? 4096 / T : 1;
    int64_t *ids = malloc((size_t)(2 * most * T) * sizeof *ids);
    if (!ids) return cli_fail("no memory for validation"), CR_NO_MEMORY;
    const bool grad = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    double sum = 0;
    for (int64_t at = 0; at < targets;) {
        if (status != CR_OK) break;
        const int64_t left = (targets - at) / T,
                      windows = left > most ? most
                                : left      ? left
                                            : 1,
                      length = left ? T : targets - at;
        status = cr_os_interrupted() ? CR_INTERRUPTED : window_loss(r, at, windows, length, ids, &sum);
        at += windows * length;
    }
    cr_set_grad_enabled(grad);
    free(ids);
    *loss = sum / (double)targets;
    return status;
}

/* Is this step the last one or one of --eval-every, without a validation loss so far? */
static bool validation_due(const run *r) {
    const series *val = &r->log.val;
    if (val->n && val->at[val->n - 1].step == r->step) return false;
    return r->step >= r->s->steps || (r->step && r->s->eval_every && r->step % r->s->eval_every == 0);
}

/* Validates; after Ctrl-C the validation stays due. */
static bool measure(run *r, progress *bar) {
    char number[32];
    double loss;
    cr_status status = validate(r, &loss);
    if (status == CR_INTERRUPTED) return true;
    if (status != CR_OK) return progress_end(bar), cli_fail_library(), false;
    bar->val = loss;
    series_add(&r->log.val, r->step, loss);
    runlog_write(&r->log, "{\"step\":%lld,\"val_loss\":%s}", (long long)r->step, json_number(loss, number));
    progress_show(bar, true);
    run_save_best(r, bar, loss);
    return true;
}

static void log_step(run *r, double loss, double lr, double norm) {
    char a[32], b[32], c[32];
    series_add(&r->log.train, r->step, loss);
    runlog_write(&r->log, "{\"step\":%lld,\"loss\":%s,\"lr\":%s,\"norm\":%s,\"seconds\":%.3f}", (long long)r->step,
                 json_number(loss, a), json_number(lr, b), json_number(norm, c), r->seconds);
}

/* Stops before the last step, by Ctrl-C or --stop-at. */
static int stop_early(run *r, progress *bar) {
    progress_end(bar);
    run_save(r, bar);
    if (r->unsaved) return CLI_FAILED;
    runlog_write(&r->log, "{\"event\":\"stop\",\"step\":%lld}", (long long)r->step);
    printf("stopped after step %lld of %lld; go on with:\n  chainrule train --resume %s\n", (long long)r->step,
           (long long)r->s->steps, r->s->out);
    return cr_os_interrupted() ? CLI_STOPPED : CLI_OK;
}

/* One step, with its log line and progress. */
static int one_step(run *r, const cr_schedule *schedule, progress *bar) {
    const settings *s = r->s;
    const double lr = cr_schedule_lr(schedule, r->step), begun = cr_os_seconds();
    double loss, norm;
    if (train_step(r, lr, &loss, &norm)) return progress_end(bar), cli_fail_library();
    const double took = cr_os_seconds() - begun, rate = (double)(s->batch * s->accumulate * s->context) / took;
    r->step++;
    r->seconds += took;
    log_step(r, loss, lr, norm);
    if (!isfinite(loss)) {
        progress_end(bar);
        return cli_fail(
            "the loss became %g at step %lld: try a lower --lr or a stronger --clip (no checkpoint was written)", loss,
            (long long)r->step);
    }
    bar->step = r->step;
    bar->loss = isnan(bar->loss) ? loss : 0.95 * bar->loss + 0.05 * loss;
    bar->rate = bar->rate > 0 ? 0.95 * bar->rate + 0.05 * rate : rate;
    if (!validation_due(r)) progress_show(bar, r->step == bar->first + 1);
    return CLI_OK;
}

/* Runs the steps.  *over: false after an early stop. */
static int train_steps(run *r, progress *bar, bool *over) {
    const settings *s = r->s;
    const cr_schedule schedule = {
        .kind = CR_COSINE, .lr = s->lr, .min_lr = s->min_lr, .warmup = s->warmup, .total = s->steps};
    *over = false;
    for (;;) {                                      /* starts with the checks between steps, where a resumed run may
                                                     * have stopped */
        if (validation_due(r) && !measure(r, bar)) return CLI_FAILED;
        const bool moved = r->step > bar->first, last = r->step >= s->steps;
        if (last && !validation_due(r)) break;
        if (cr_os_interrupted() || (moved && r->step == s->stop_at)) return stop_early(r, bar);
        if (moved && s->save_every && r->step % s->save_every == 0) run_save(r, bar);
        const int code = one_step(r, &schedule, bar);
        if (code != CLI_OK) return code;
    }
    progress_end(bar);
    *over = true;
    return CLI_OK;
}

/* ---- start and finish */

static void say_what(const run *r) {
    const cr_gpt_config c = cr_gpt_configuration(r->model);
    char train[32], val[32], size[32];
    count_text((double)cr_tokens_count(r->train), train);
    count_text((double)cr_tokens_count(r->val), val);
    count_text((double)cr_params_numel(cr_gpt_params(r->model)), size);
    printf("text    %s tokens to train on, %s to validate, vocabulary %lld\n", train, val, (long long)c.vocabulary);
    printf("model   GPT of %s parameters: layers %lld, heads %lld, width %lld, context %lld\n", size,
           (long long)c.layers, (long long)c.heads, (long long)c.width, (long long)c.context);
    printf("device  %s (%s)\n", cr_device_name(r->dev), cr_device_info(r->dev));
    if (r->s->resume) printf("resume  %s after step %lld\n", r->s->resume, (long long)r->step);
    printf("\n");
    fflush(stdout);
}

static void log_start(run *r) {
    char now[32], text[4096], escaped[4096];
    cr_os_timestamp(now);
    fprintf(r->log.file,
            "{\"event\":\"%s\",\"step\":%lld,\"time\":\"%s\",\"version\":\"%s\",\"device\":\"%s\",\"threads\":%d,"
            "\"parameters\":%lld",
            r->s->resume ? "resume" : "start", (long long)r->step, now, cr_version(), cr_device_name(r->dev),
            cr_num_threads(), (long long)cr_params_numel(cr_gpt_params(r->model)));
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

/* Prints a sample that starts from a line break, or from the text's first token if there is no such token. */
static cr_status print_sample(run *r) {
    uint32_t first = cr_tokens_at(r->train, 0);
    if (cr_tokenizer_encode(r->tokenizer, "\n", 1, &first, 1) < 0) cr_error_clear();
    const cr_sampling sampling = {.temperature = 0.8, .top_p = 0.95};
    cr_generator *g = cr_generator_new((uint64_t)r->s->seed);
    cr_decoder *decoder = g ? cr_decoder_new(r->tokenizer) : NULL;
    if (!decoder) { cr_generator_free(g); return cr_error_status(); }
    printf("\n--- a sample ---\n");
    cr_status status = cr_gpt_generate(r->model, &first, 1, r->s->sample, &sampling, g, print_token, decoder);
    print_rest(decoder);
    printf("\n----------------\n");
    cr_generator_free(g);
    return status;
}

static double recent_mean(const series *s, int64_t n) {
    double sum = 0;
    if (n > s->n) n = s->n;
    for (int64_t i = s->n - n; i < s->n; i++) sum += s->at[i].value;
    return n ? sum / (double)n : NAN;
}

/* Prints the paths, and the checkpoint that generate uses. */
static bool say_where(const run *r) {
    char curve[4096], model[4096], tokenizer[4096], title[160];
    const settings *s = r->s;
    snprintf(title, sizeof title, "GPT: layers %lld, heads %lld, width %lld, context %lld", (long long)s->layers,
             (long long)s->heads, (long long)s->width, (long long)s->context);
    if (!run_path(r, "curve.svg", curve) || !run_model(s->out, model, tokenizer)) return false;
    if (!curve_write(curve, &(picture){.title = title,
                                       .unit = "loss, nats a token",
                                       .n = 1,
                                       .run[0] = {NULL, r->log.train, r->log.val}}))
        return false;
    const bool best = strstr(model, "/checkpoint-best") != NULL;
    char *weights = cr_training_weights(model);
    printf("\nloss curve  %s\nweights     %s\n            (", curve, weights ? weights : model);
    if (best && isfinite(r->best)) printf("the best, of validation loss %.4f, ", r->best);
    else printf("%s, ", best ? "the best" : "the newest");
    printf("after step %lld)\nwrite more  chainrule generate --model %s --prompt \"...\"\n", (long long)run_step(model),
           s->out);
    cr_free(weights);
    return true;
}

static int finish(run *r, int64_t first, progress *bar) {
    char time[32], tokens[32], rate[32];
    const double n = (double)(r->s->batch * r->s->accumulate * r->s->context), done = (double)r->step * n;
    const double val = r->log.val.n ? r->log.val.at[r->log.val.n - 1].value : NAN;
    const int64_t peak = cr_memory_stats(r->dev).peak;
    run_save(r, bar);
    runlog_write(&r->log, "{\"event\":\"finish\",\"step\":%lld,\"seconds\":%.3f,\"peak_bytes\":%lld}",
                 (long long)r->step, r->seconds, (long long)peak);
    duration_text(r->seconds, time);
    count_text(done, tokens);
    count_text(r->seconds > 0 ? done / r->seconds : 0, rate);
    if (r->step == first) printf("all %lld steps were done already\n", (long long)first);
    printf("validation loss %.4f over %lld tokens; training loss %.4f (mean of the last 100 steps)\n", val,
           (long long)cr_tokens_count(r->val) - 1, recent_mean(&r->log.train, 100));
    printf("%lld steps, %s tokens in %s of training: %s tokens/s, %.2f ms a step\n", (long long)r->step, tokens, time,
           rate, 1e3 * r->seconds / (double)(r->step ? r->step : 1));
    printf("at most %.1f MB held by tensors\n", (double)peak / 1e6);
    if (r->s->sample > 0 && print_sample(r)) return cli_fail_library();
    if (r->unsaved) return CLI_FAILED;
    return say_where(r) && !r->best_unsaved ? CLI_OK : CLI_FAILED;
}

/* Completes the settings: those of a resumed run, the device, derived defaults. */
static int settle(run *r) {
    settings *s = r->s;
    int code = CLI_FAILED;
    if (s->resume && cr_os_is_directory(s->resume) && !run_lock(r)) return code;
    if (s->resume && !run_restore_settings(r, &code)) return code;
    if (s->threads && cr_set_num_threads((int)s->threads)) return cli_fail_library();
    r->dev = device_named(s->device);
    if (!r->dev) return cli_fail_library();
    r->low = low_named(s->dtype);
    if (isnan(s->min_lr)) s->min_lr = s->lr / 10;
    if ((code = settings_fit_warmup(r->command, s)) != CLI_OK) return code;
    if (s->fuse_step && (s->clip > 0 || s->accumulate > 1))
        return usage_error(r->command,
                           "--fuse-step keeps no gradients: it needs --clip 0 and --accumulate 1, not %g and %lld",
                           s->clip, (long long)s->accumulate);
    if (s->fuse_step && r->low == CR_F16)
        return usage_error(r->command, "--fuse-step keeps no gradients: --dtype f16 needs them to scale the loss");
    return CLI_OK;
}

static bool prepare(run *r) {
    if (!(r->s->tokens ? open_token_file(r) : open_text(r)) || !split_tokens(r) || !make_model(r)) return false;
    r->hash = tokens_hash(r->tokens);
    if (cr_error()) return cli_fail_library(), false;
    return (!r->s->resume || run_restore(r)) && make_folder(r);
}

static int train(run *r) {
    bool over;
    progress bar;
    int code = settle(r);
    if (code != CLI_OK) return code;
    if (!prepare(r)) return CLI_FAILED;
    say_what(r);
    cr_os_catch_interrupt();
    log_start(r);
    const int64_t first = r->step;
    if (r->s->profile && cr_profile_begin()) return cli_fail_library();
    progress_begin(&bar, first, r->s->steps);
    code = train_steps(r, &bar, &over);
    if (r->s->profile && cr_profile_end(r->s->profile)) return cli_fail_library();
    return code == CLI_OK && over ? finish(r, first, &bar) : code;
}

int cli_train(int argc, char **argv) {
    char optimizers[128];
    settings s = settings_default();
    option options[SETTINGS_OPTIONS];
    const command c = {
        "train", "--data FILE... [options]  or  --resume DIR [options]",
        "Trains a GPT on text.  Ctrl-C, SIGTERM and SIGHUP save a checkpoint; the program says how to go on.",
        options, settings_options(&s, optimizer_words(optimizers), options), NULL};
    run r = {.s = &s, .command = &c, .best = INFINITY};
    int code;
    if (options_parse(&c, argc, argv, &code)) {
        code = settings_check(&c, &s);
        if (code == CLI_OK) code = train(&r);
    }
    run_close(&r);
    free(s.data.path);
    return code;
}
