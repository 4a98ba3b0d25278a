/* finetune.c - chainrule finetune: trains a pretrained model on text, chats, or prompts and completions;
 * all of its weights, or an adapter (--lora).
 *
 * A step takes --batch rows of whole samples, which see only themselves.  The validation loss is over the
 * samples of --validation, or over the last tenth.  --seed determines all random numbers: a stopped and
 * resumed run ends with the same bits. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../io/json.h"

enum { OWN = 10, TUNE_OPTIONS = OWN + SETTINGS_OPTIONS };
typedef struct tune {
    run r;                                          /* first: the loop's functions get its address */
    settings s;
    char optimizers[128];
    option options[TUNE_OPTIONS];
    command c;
    opened o;
    cr_dataset *train, *val;                        /* val: of --validation; none: those of train from rows.n on */
    packer rows;
    packing batch;
} tune;

/* ---- options */
static settings tune_default(void) {
    settings s = settings_default();
    s.lora = 0;
    s.alpha = 16;
    s.context = 0;
    s.batch = 4;
    s.steps = 300;
    s.lr = NAN;
    s.warmup = 20;
    s.weight_decay = 0;
    s.beta2 = 0.999;
    s.eval_every = 50;
    s.out = "tuned";
    return s;
}

static int tune_options(settings *s, const char *optimizers, option out[TUNE_OPTIONS]) {
    option form = option_template(&s->form);
    form.kept = KEPT_FIXED;
    form.before = "";
    const option own[OWN] = {
        {.name = "model", .text = &s->model, .what = "DIR", .group = "Model and data", .kept = KEPT_FIXED,
         .help = "model to start from: a Hugging Face folder, a GGUF file, or a chainrule run"},
        {.name = "data", .files = &s->data, .what = "FILE...",
         .help = "*.jsonl: a line is {\"messages\"}, {\"prompt\", \"completion\"} or {\"text\"}; others: text"},
        {.name = "validation", .files = &s->validation, .what = "FILE...",
         .help = "validation data in the same formats; if absent, the last tenth of --data"},
        {.name = "lora", .integer = &s->lora, .group = "Adapter", .kept = KEPT_FIXED, .max = 65536,
         .help = "train a LoRA adapter of rank N and freeze the weights; 0: train all weights"},
        {.name = "alpha", .real = &s->alpha, .above = true, .kept = KEPT_FIXED,
         .help = "the adapter's scale is alpha / rank"},
        {.name = "targets", .text = &s->targets, .what = "NAMES", .kept = KEPT_FIXED,
         .help = "layers with an adapter, such as c_attn,c_fc or all-linear (default c_attn of GPT-2, else "
                 "q_proj,v_proj)"},
        {.name = "dropout", .real = &s->lora_dropout, .what = "P", .kept = KEPT_FIXED, .max = 0.999,
         .help = "dropout probability of the adapter's inputs"},
        {.name = "context", .integer = &s->context, .group = "Batch", .kept = KEPT_FIXED, .max = 0x1p31 - 1,
         .help = "tokens per row, and the most of a sample; 0: the model's context, at most 1024"},
        form,
        {.name = "truncate", .flag = &s->truncate, .kept = KEPT_FIXED,
         .help = "truncate longer samples instead of refusing them"},
    };
    static const char *const shared[] = {
        "dtype", "batch", "accumulate", "steps", "minutes", "optimizer", "lr", "min-lr", "warmup", "weight-decay",
        "beta1", "beta2", "clip", "fuse-step", "gradient-checkpointing", "seed", "out", "overwrite", "resume",
        "config", "stop-at", "eval-every", "save-every", "keep", "best", "profile", "device", "threads"};
    option all[SETTINGS_OPTIONS];
    int n = OWN;
    settings_options(s, optimizers, all);
    memcpy(out, own, sizeof own);
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        for (int k = 0; k < SETTINGS_OPTIONS; k++)
            if (!strcmp(all[k].name, shared[i])) out[n++] = all[k];
    for (int i = OWN; i < n; i++) {
        if (!strncmp(out[i].group, "Batch", 5) || !strcmp(out[i].name, "dtype")) out[i].group = "Batch";
        if (!strcmp(out[i].name, "batch")) out[i].help = "rows per step; a row holds whole samples";
        if (!strcmp(out[i].name, "dtype")) out[i].help = "dtype of products and activations; f16 scales the loss";
        if (!strcmp(out[i].name, "lr")) out[i].help = "peak learning rate (default 2e-4 with --lora, else 2e-5)";
    }
    return n;
}

static int check_settings(const command *c, settings *s) {
    if (s->resume) {
        if (s->config) return usage_error(c, "--resume has the settings of its run: --config cannot be given with it");
        if (option_find(c, "out")->given)
            return usage_error(c, "--resume continues in its own folder: --out cannot be given with it");
        s->out = s->resume;
        return CLI_OK;
    }
    if (!s->model) return usage_error(c, "nothing to start from: give --model DIR or --resume DIR");
    if (!s->data.n) return usage_error(c, "nothing to train on: give --data FILE... or --resume DIR");
    if (option_find(c, "lora")->given && s->lora < 1)
        return usage_error(c, "--lora must be a rank of at least 1, not 0");
    static const char *const needs[] = {"alpha", "targets", "dropout"};
    for (int i = 0; i < 3; i++)
        if (!s->lora && option_find(c, needs[i])->given) return usage_error(c, "--%s needs --lora", needs[i]);
    if (!s->overwrite && run_exists(s->out))
        return cli_fail("'%s' already holds a run: continue with --resume %s, choose another --out, or give "
                        "--overwrite", s->out, s->out);
    return CLI_OK;
}

/* ---- the objects of a run */
static bool open_samples(tune *t) {
    settings *s = t->r.s;
    const int64_t most = cr_lm_context(t->o.model);
    if (s->context > most)
        return cli_fail("--context is %lld, the model takes at most %lld", (long long)s->context, (long long)most),
               false;
    if (!s->context) s->context = most < 1024 ? most : 1024;
    if (!(t->train = read_data(&t->o, &s->data, s->context, s->truncate, false)) ||
        !(t->val = read_data(&t->o, &s->validation, s->context, s->truncate, false)))
        return false;
    t->r.data.hash = data_hash(t->val, data_hash(t->train, 0));
    int64_t n = cr_dataset_count(t->train);
    if (!s->validation.n) {                         /* the last tenth */
        if (n < 2)
            return cli_fail("the data have only one sample: give more, or --validation FILE"), false;
        n -= n < 10 ? 1 : n / 10;
    }
    t->rows = (packer){.data = t->train, .n = n, .context = s->context, .seed = (uint64_t)s->seed};
    return true;
}

/* The samples to validate: n from `first` on. */
static const cr_dataset *validated(const tune *t, int64_t *first, int64_t *n) {
    const int64_t own = cr_dataset_count(t->val);
    *first = own ? 0 : t->rows.n;
    *n = own ? own : cr_dataset_count(t->train) - t->rows.n;
    return own ? t->val : t->train;
}

/* The model, with floats for packed weights if all are to train. */
static bool open_weights(tune *t, const char *device) {
    if (!open_model(t->r.s->model, device, &t->o)) return false;
    return t->r.s->lora || !cr_lm_unpack(t->o.model) || (cli_fail_library(), false);
}

static bool open_all(tune *t) {
    run *r = &t->r;
    const settings *s = r->s;
    if (!open_weights(t, s->device) || !open_chat(&t->o, NULL, s->form, false)) return false;
    r->data.tokenizer = t->o.tokenizer;
    r->data.vocabulary = cr_lm_vocabulary(t->o.model);
    return open_samples(t);
}

/* The adapter and the optimizer. */
static bool make_objects(tune *t) {
    run *r = &t->r;
    const settings *s = r->s;
    r->generator = cr_generator_new((uint64_t)s->seed);
    bool made = r->generator != NULL;
    if (made && s->lora) {
        const cr_lora_options o = {
            .rank = s->lora, .alpha = s->alpha, .dropout = s->lora_dropout,
            .targets = s->targets && *s->targets ? s->targets : NULL};
        made = cr_lm_lora(t->o.model, &o, r->generator) == CR_OK;
        r->weights.frozen = cr_lm_params(t->o.model);
    }
    cr_lm_gradient_checkpointing(t->o.model, s->recompute);
    r->weights.trained = s->lora ? cr_lm_adapter(t->o.model) : cr_lm_params(t->o.model);
    if (!s->lora) r->weights.config = cr_lm_config(t->o.model);
    run_weights *w = &r->weights;
    made = made && run_optimizer(r) && half_dtype_copies(w->trained, r->update.optim, w->half_dtype, &w->copies);
    if (made && w->frozen) made = half_dtype_copies(w->frozen, NULL, w->half_dtype, &w->frozen_copies);
    if (made && r->weights.half_dtype == CR_F16) made = (r->update.scaler = cr_scaler_new(NULL)) != NULL;
    return made || (cli_fail_library(), false);
}

/* The first lines, before the adapter, moments and activations are made.  False: they do not fit, message printed. */
static bool say_what(const tune *t, const run_memory *need, bool known) {
    const run *r = &t->r;
    char all[32], trained[32], tokens[32];
    int64_t first, n, counted = 0, length = 0;
    (void)validated(t, &first, &n);
    for (int64_t i = 0; i < t->rows.n; i++) {
        const cr_example it = cr_dataset_at(t->train, i);
        counted += it.counted;
        length += it.n - 1;
    }
    count_text((double)counted, tokens);
    print_fact(stdout, "data", "%lld samples to train on, %lld to validate; %s of %lld tokens count",
               (long long)t->rows.n, (long long)n, tokens, (long long)length);
    say_chat(&t->o, stdout);
    count_text((double)cr_params_numel(cr_lm_params(t->o.model)), all);
    count_text(need->count, trained);
    print_fact(stdout, "model", "%s: %s of %s parameters train, context %lld", r->s->model, trained,
               r->s->lora ? all : trained, (long long)r->s->context);
    print_fact(stdout, "device", "%s (%s)", cr_device_name(r->dev), cr_device_info(r->dev));
    return !known || run_fits(r, need);
}

/* A dry run, with what this one has opened.  False: it cannot be made, message printed. */
static bool estimate(const tune *t, run_memory *m, bool *known) {
    const run *r = &t->r;
    settings s = *r->s;
    tune dry = {.r = {.dry = true, .s = &s, .command = r->command, .task = r->task, .dev = cr_device_find("meta"),
                      .weights.half_dtype = r->weights.half_dtype},
                .train = t->train, .val = t->val, .rows = t->rows};
    *m = (run_memory){.start = cr_memory_stats(dry.r.dev).current};
    if (s.accumulate > 64) s.accumulate = 64;
    const bool made = open_weights(&dry, "meta") && make_objects(&dry);
    if (made) *known = run_dry_steps(&dry.r, m);
    run_close(&dry.r);
    close_model(&dry.o);
    packing_free(&dry.batch);
    free(dry.rows.order);
    return made;
}

static bool prepare_tuning(tune *t) {
    run *r = &t->r;
    run_memory need;
    bool known = false;
    if (!open_all(t) || !estimate(t, &need, &known) || !say_what(t, &need, known)) return false;
    if (!make_objects(t) || (r->s->resume && !run_restore(r))) return false;
    for (int64_t i = 0; i < r->at.batches * r->s->batch; i++) if (!packer_row(&t->rows, NULL)) return false;
    if (!run_folder(r)) return false;
    if (r->s->resume) return true;
    const bool own = cr_chat_name(t->o.chat) || r->s->form;      /* a template that the folder has not */
    return copy_companions(r->s->model, r->s->out) && (!own || write_template(t->o.chat, r->s->out));
}

/* ---- batches */
static void start_over(packing *p) { p->tokens = p->samples = 0; }

static cr_tensor *next_batch(run *r) {
    tune *t = (tune *)r;
    start_over(&t->batch);
    for (int64_t i = 0; i < r->s->batch; i++)
        if (!packer_row(&t->rows, &t->batch)) return NULL;
    const cr_samples p = packing_of(&t->batch);
    r->at.seen += (double)t->batch.tokens;
    return cr_mean(cr_lm_losses(t->o.model, &p, true), CR_ALL, false);
}

/* The sum of the losses of what is packed. */
static cr_status packed_loss(const run *r, cr_lm *m, const packing *batch, double *sum, int64_t *counted) {
    const cr_samples p = packing_of(batch);
    cr_scope_begin();
    cr_status status = cr_autocast_begin(r->dev, r->weights.half_dtype, true);
    cr_tensor *each = status == CR_OK ? cr_lm_losses(m, &p, false) : NULL, *total = cr_sum(each, CR_ALL, false);
    if (status == CR_OK) status = cr_autocast_end();
    if (!total) status = cr_error_status();
    else {
        *sum += cr_item(total);
        *counted += cr_numel(each);
    }
    cr_scope_end();
    return status;
}

static cr_status validate(run *r, double *loss) {
    tune *t = (tune *)r;
    int64_t first, n, counted = 0;
    const cr_dataset *d = validated(t, &first, &n);
    const bool grad = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    double sum = 0;
    start_over(&t->batch);
    for (int64_t i = first; i < first + n && status == CR_OK; i++) {
        if (!packing_add(&t->batch, d, i)) status = CR_NO_MEMORY;
        if (status != CR_OK || (i + 1 < first + n && t->batch.tokens < r->s->batch * r->s->context)) continue;
        status = cr_os_interrupted() ? CR_INTERRUPTED : packed_loss(r, t->o.model, &t->batch, &sum, &counted);
        start_over(&t->batch);
    }
    cr_set_grad_enabled(grad);
    *loss = sum / (double)counted;
    return status;
}

/* ---- the end */
/* The result beside the checkpoints: an adapter in PEFT's format, or a Hugging Face folder. */
static bool write_result(tune *t) {
    run *r = &t->r;
    char best[4096];
    cr_training weights = {.params = r->weights.trained};
    if (!run_path(r, "checkpoint-best", best)) return false;
    cr_status status = r->s->best && isfinite(r->at.best) ? cr_training_load(best, &weights) : CR_OK;
    if (status == CR_OK)
        status = r->s->lora ? cr_lm_save_adapter(t->o.model, r->s->out)
                            : cr_lm_save(t->o.model, r->s->out, "safetensors", NULL);
    if (status != CR_OK) return cli_fail_library(), false;
    char program[4200], base[4200], out[4200];
    const char *called = shell_word(cli_program(), program), *made = shell_word(r->s->out, out);
    if (r->s->lora) printf("adapter     %s\nwrite text  %s generate --model %s --adapter %s --prompt \"...\"\n",
                           r->s->out, called, shell_word(r->s->model, base), made);
    else printf("model       %s\nwrite text  %s generate --model %s --prompt \"...\"\n", r->s->out, called, made);
    return true;
}

static int finish_tuning(run *r) {
    tune *t = (tune *)r;
    char time[32], curve[4096];
    const double val = r->log.val.n ? r->log.val.at[r->log.val.n - 1].value : NAN;
    const int64_t peak = cr_memory_stats(r->dev).peak;
    runlog_write(&r->log, "{\"event\":\"finish\",\"step\":%lld,\"seconds\":%.3f,\"peak_bytes\":%lld}",
                 (long long)r->at.step, r->at.seconds, (long long)peak);
    duration_text(r->at.seconds, time);
    if (r->at.step == r->bar.first) printf("all %lld steps were done already\n", (long long)r->at.step);
    char mean[64];
    printf("validation loss %.4f; training loss %s\n", val, series_text(&r->log.train, 20, mean));
    printf("%lld step%s in %s of training, %.2f ms a step; at most %.1f MB held by tensors\n",
           (long long)r->at.step, r->at.step == 1 ? "" : "s", time,
           1e3 * r->at.seconds / (double)(r->at.step ? r->at.step : 1), (double)peak / 1e6);
    if (r->saved.unsaved || !run_path(r, "curve.svg", curve)) return CLI_FAILED;
    const picture p = {.title = "fine-tuning", .unit = "loss, nats a token", .n = 1,
                       .run[0] = {NULL, r->log.train, r->log.val}};
    return curve_write(curve, &p) && write_result(t) && !r->saved.best_unsaved ? CLI_OK : CLI_FAILED;
}

static int prepare(tune *t) {
    run *r = &t->r;
    if (isnan(r->s->lr) && !r->s->resume) r->s->lr = r->s->lora ? 2e-4 : 2e-5;
    const int code = run_settle(r);
    return code != CLI_OK || prepare_tuning(t) ? code : CLI_FAILED;
}

run *finetune_open(int argc, char **argv, int *code) {
    static const run_task task = {.batch = next_batch, .validate = validate, .finish = finish_tuning};
    tune *t = calloc(1, sizeof *t);
    if (!t) return *code = cli_fail("no memory for the settings"), NULL;
    t->s = tune_default();
    t->c = (command){
        "finetune", "--model DIR --data FILE... [--lora RANK] [options]  or  --resume DIR [options]",
        "Trains a pretrained model.  Ctrl-C, SIGTERM and SIGHUP save a checkpoint; the program says how to resume.",
        t->options, tune_options(&t->s, optimizer_words(t->optimizers), t->options), NULL, &t->s.file,
        "finetune --model gpt2 --data chats.jsonl --lora 8 --out tuned\n"
        "finetune --model run --data book.txt --minutes 10\n"};
    t->r = (run){.s = &t->s, .command = &t->c, .task = &task, .at.best = INFINITY};
    bool ready = options_parse(&t->c, argc, argv, code);
    if (ready) ready = (*code = check_settings(&t->c, &t->s)) == CLI_OK && (*code = prepare(t)) == CLI_OK;
    if (!ready) finetune_close(&t->r);
    return ready ? &t->r : NULL;
}

void finetune_close(run *r) {
    tune *t = (tune *)r;
    run_close(r);
    cr_chat_free(t->o.chat);
    cr_lm_free(t->o.model);                         /* its tokenizer is the run's */
    cr_dataset_free(t->train);
    cr_dataset_free(t->val);
    packing_free(&t->batch);
    free(t->rows.order);
    free(t->s.data.path);
    cr_json_free(t->s.file);
    free(t->s.validation.path);
    free(t);
}

int cli_finetune(int argc, char **argv) {
    int code;
    run *r = finetune_open(argc, argv, &code);
    if (!r) return code;
    code = run_to_end(r);
    finetune_close(r);
    return code;
}
