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
#include "../core/status.h"
#include "../io/json.h"

/* ---- the objects of a run */

static cr_tokenizer *load_tokenizer(const run *r) {
    char path[4096];
    if (!r->s->resume) return NULL;
    return run_path(r, "tokenizer.json", path) ? cr_tokenizer_load(path) : NULL;
}

/* ---- --tokens 'DIR/train_*.bin': one sequence, file after file in the order of their names */
enum { MOST_SHARDS = 1 << 14 };
typedef struct shards { const char *before, *after; char **name; int n; } shards;

static void add_shard(const char *name, void *ctx) {
    shards *s = ctx;
    const size_t n = strlen(name), before = strlen(s->before), after = strlen(s->after);
    if (n < before + after || strncmp(name, s->before, before) || strcmp(name + n - after, s->after)) return;
    char *copy = s->n < MOST_SHARDS ? malloc(n + 1) : NULL;
    if (!copy) { cr_fail(CR_NO_MEMORY, "train", "more than %d files of tokens, or no memory", MOST_SHARDS); return; }
    s->name[s->n++] = strcpy(copy, name);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static cr_tokens *join_shards(const char *dir, const shards *s, char first[4096]) {
    cr_tokens **part = calloc((size_t)s->n + 1, sizeof *part), *all = NULL;
    char path[4096];
    bool good = part != NULL;
    for (int i = 0; i < s->n && good; i++) {
        snprintf(path, sizeof path, "%s%s", dir, s->name[i]);
        if (!i) snprintf(first, 4096, "%s", path);
        good = (part[i] = cr_tokens_open(path)) != NULL;
    }
    if (good) all = cr_tokens_join(s->n, (const cr_tokens *const *)part);
    for (int i = 0; i < s->n && part; i++) cr_tokens_free(part[i]);
    free(part);
    return all;
}

/* The files of a pattern, whose name has one '*'; first: the path of the first. */
static cr_tokens *open_shards(const char *pattern, char first[4096]) {
    char dir[4096], name[4096];
    const char *slash = strrchr(pattern, '/');
    const size_t n = slash ? (size_t)(slash + 1 - pattern) : 0;
    if (strlen(pattern) > 4000) return cli_fail("the path of --tokens is too long"), NULL;
    snprintf(dir, sizeof dir, "%.*s", (int)n, pattern);
    snprintf(name, sizeof name, "%s", pattern + n);
    char *star = strchr(name, '*');
    *star = 0;
    shards s = {name, star + 1, calloc(MOST_SHARDS, sizeof *s.name), 0};
    if (s.name) cr_os_each_entry(n ? dir : ".", add_shard, &s);
    if (s.n) qsort(s.name, (size_t)s.n, sizeof *s.name, by_name);
    if (!s.n && !cr_error()) cr_fail(CR_IO, "train", "no file of tokens is named '%s'", pattern);
    cr_tokens *all = s.n && !cr_error() ? join_shards(dir, &s, first) : NULL;
    for (int i = 0; i < s.n; i++) free(s.name[i]);
    free(s.name);
    return all;
}

/* --tokens FILE of chainrule tokenize, with FILE.tokenizer.json next to it. */
static bool open_token_file(run *r) {
    char path[4096], first[4096];
    const char *name = strrchr(r->s->tokens, '/');
    const bool pattern = strchr(name ? name : r->s->tokens, '*') && !cr_os_exists(r->s->tokens);
    snprintf(first, sizeof first, "%s", r->s->tokens);
    r->data.tokens = pattern ? open_shards(r->s->tokens, first) : cr_tokens_open(r->s->tokens);
    if (!r->data.tokens) return cli_fail_library(), false;
    if (snprintf(path, sizeof path, "%s.tokenizer.json", first) >= (int)sizeof path)
        return cli_fail("the path of --tokens is too long"), false;
    r->data.tokenizer = r->data.tokens ? cr_tokenizer_load(path) : NULL;
    if (!r->data.tokenizer) return cli_fail_library(), false;
    if (cr_tokenizer_size(r->data.tokenizer) != cr_tokens_vocabulary(r->data.tokens))
        return cli_fail("'%s' has %lld tokens, but '%s' was made with %lld", path,
                        (long long)cr_tokenizer_size(r->data.tokenizer), r->s->tokens,
                        (long long)cr_tokens_vocabulary(r->data.tokens)),
               false;
    return true;
}

static bool open_text(run *r) {
    corpus c;
    if (!corpus_read(&r->s->data, &c)) return false;
    if (!corpus_fits(&c, r->s->tokenizer)) return free(c.bytes), false;
    r->data.tokenizer = r->s->resume ? load_tokenizer(r) : tokenizer_named(r->s->tokenizer, &c);
    r->data.tokens = r->data.tokenizer ? corpus_tokens(&c, r->data.tokenizer) : NULL;
    free(c.bytes);
    return r->data.tokens || (cli_fail_library(), false);
}

static bool split_tokens(run *r) {
    const int64_t n = cr_tokens_count(r->data.tokens), n_train = (int64_t)((double)n * 0.9);
    if (n_train < r->s->context + 1 || n - n_train < 2)
        return cli_fail("the text has %lld tokens: a context of %lld needs at least %lld (a tenth is kept for "
                        "validation); give more --data or a smaller --context",
                        (long long)n, (long long)r->s->context, (long long)ceil((double)(r->s->context + 1) / 0.9 + 2)),
               false;
    r->data.train = cr_tokens_slice(r->data.tokens, 0, n_train);
    r->data.val = r->data.train ? cr_tokens_slice(r->data.tokens, n_train, n) : NULL;
    return r->data.val || (cli_fail_library(), false);
}

static bool make_model(run *r) {
    const settings *s = r->s;
    const cr_gpt_config c = {.vocabulary = cr_tokens_vocabulary(r->data.tokens),
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
    r->weights.model = r->generator ? cr_gpt_new(&c, half_dtype_named(s->weights), r->dev, r->generator) : NULL;
    r->weights.trained = r->weights.model ? cr_gpt_params(r->weights.model) : NULL;
    if (r->weights.model) cr_gpt_gradient_checkpointing(r->weights.model, s->recompute);
    r->data.vocabulary = c.vocabulary;
    r->data.loader = r->weights.model ? cr_loader_new(r->data.train, &o) : NULL;
    run_weights *w = &r->weights;
    const bool made = r->data.loader && run_optimizer(r) && half_dtype_copies(w->trained, r->update.optim,
                                                                              w->half_dtype, &w->copies);
    if (made && r->weights.half_dtype == CR_F16) r->update.scaler = cr_scaler_new(NULL);
    return (made && (r->weights.half_dtype != CR_F16 || r->update.scaler)) || (cli_fail_library(), false);
}

/* ---- batches */

static cr_status fetch(run *r, cr_tensor **x, cr_tensor **y) {
    r->at.seen += (double)(r->s->batch * r->s->context);
    return cr_loader_next(r->data.loader, x, y);
}

static cr_tensor *loss_of(run *r, const cr_tensor *x, const cr_tensor *y) {
    return cr_gpt_loss(r->weights.model, x, y, true);
}

static cr_tensor *next_batch(run *r) {
    cr_tensor *x = NULL, *y = NULL;
    return fetch(r, &x, &y) == CR_OK ? loss_of(r, x, y) : NULL;
}

/* Sum of the losses of `windows` windows of T tokens that start at `start`. */
static cr_status window_loss(const run *r, int64_t start, int64_t windows, int64_t T, int64_t *ids, double *sum) {
    for (int64_t i = 0; i < windows * T; i++) {
        ids[i] = cr_tokens_at(r->data.val, start + i);
        ids[windows * T + i] = cr_tokens_at(r->data.val, start + i + 1);
    }
    cr_scope_begin();
    cr_tensor *x = cr_from(ids, CR_LIST(windows, T), CR_I64, r->dev),
              *y = cr_from(ids + windows * T, CR_LIST(windows, T), CR_I64, r->dev);
    cr_tensor *loss = half_dtype_loss(r->weights.model, r->weights.half_dtype, x, y, false);
    *sum += cr_item(loss) * (double)(windows * T);
    cr_scope_end();
    return loss ? CR_OK : cr_error_status();
}

/* Windows in a batch of the validation: some 4096 tokens. */
static int64_t most_windows(int64_t T) { return T < 4096 ? 4096 / T : 1; }

/* The mean loss over the whole validation split.  Every token except the first is predicted once; the
 * last window may be shorter.  Processes share out the batches of windows, whose sums are added in one order.
 * CR_INTERRUPTED: stopped by Ctrl-C. */
static cr_status validate(run *r, double *loss) {
    const int64_t T = r->s->context, targets = cr_tokens_count(r->data.val) - 1, most = most_windows(T);
    int64_t *ids = malloc((size_t)(2 * most * T) * sizeof *ids), n = 0;
    double *each = calloc((size_t)(targets / (most * T) + 2), sizeof *each), sum = 0;
    const bool grad = cr_set_grad_enabled(false);
    cr_status status = ids && each ? CR_OK : cr_fail(CR_NO_MEMORY, "train", "no memory for validation");
    for (int64_t at = 0; at < targets && status == CR_OK; n++) {
        const int64_t left = (targets - at) / T,
                      windows = left > most ? most
                                : left      ? left
                                            : 1,
                      length = left ? T : targets - at;
        if (run_alone(r) && cr_os_interrupted()) status = CR_INTERRUPTED;
        else if (run_takes(r, n)) status = window_loss(r, at, windows, length, ids, &each[n]);
        at += windows * length;
    }
    if (status == CR_OK) status = run_sums(r, n, each);
    for (int64_t i = 0; i < n && status == CR_OK; i++) sum += each[i];
    cr_set_grad_enabled(grad);
    free(ids);
    free(each);
    *loss = sum / (double)targets;
    return status;
}

/* ---- what the run needs */

/* The bytes of a validation's batch beside the model, which may be more than a step's. */
static double validation_bytes(const run *dry) {
    const int64_t T = dry->s->context, left = (cr_tokens_count(dry->data.val) - 1) / T, most = most_windows(T),
                  windows = left < 1 ? 1 : left < most ? left : most, length = left ? T : 1;
    int64_t *ids = malloc((size_t)(2 * windows * length) * sizeof *ids);
    const bool grad = cr_set_grad_enabled(false);
    double sum = 0;
    cr_reset_peak(dry->dev);
    const cr_memory before = cr_memory_stats(dry->dev);
    if (ids) (void)window_loss(dry, 0, windows, length, ids, &sum);
    cr_error_clear();                               /* the loss has no value on meta */
    cr_set_grad_enabled(grad);
    free(ids);
    return (double)(cr_memory_stats(dry->dev).peak - before.current);
}

/* A run of so many layers on the device meta.  False: it cannot be made, message printed. */
static bool dry_run(const run *r, int64_t layers, run_memory *m, bool *known) {
    settings s = *r->s;
    run dry = {.dry = true, .s = &s, .command = r->command, .task = r->task, .dev = cr_device_find("meta"),
               .data = r->data, .weights.half_dtype = r->weights.half_dtype};
    s.layers = layers;
    if (s.accumulate > 64) s.accumulate = 64;       /* more of them hold hardly more */
    *m = (run_memory){.start = cr_memory_stats(dry.dev).current};
    const bool made = make_model(&dry);
    if (made) {
        *known = run_dry_steps(&dry, m);
        const double validation = validation_bytes(&dry);
        /* a recorded step keeps its memory meanwhile */
        if (run_records(&dry)) m->activations += validation;
        else m->activations = fmax(m->activations, validation - m->gradients);
        if (s.shard) m->moments /= cr_world_size(r->ranks.world);
    }
    dry.data = (run_data){.loader = dry.data.loader};       /* the rest is r's */
    run_close(&dry);
    cr_gpt_free(dry.weights.model);
    return made;
}

/* What a run of many layers needs follows from runs of fewer: each layer needs the same. */
static bool estimate(const run *r, run_memory *m, bool *known) {
    enum { FEW = 24, MORE = 48 };
    const int64_t layers = r->s->layers;
    run_memory few, more;
    if (layers <= MORE) return dry_run(r, layers, m, known);
    if (!dry_run(r, FEW, &few, known) || !dry_run(r, MORE, &more, known)) return false;
    *m = run_memory_between(&few, &more, (double)(layers - FEW) / (MORE - FEW));
    return true;
}

/* ---- start and finish */

/* The first lines, before the model is made.  False: it does not fit, or cannot be, message printed. */
static bool say_what(const run *r) {
    const settings *s = r->s;
    run_memory need;
    bool known = false;
    char train[32], val[32], size[32];
    if (!estimate(r, &need, &known)) return false;
    count_text((double)cr_tokens_count(r->data.train), train);
    count_text((double)cr_tokens_count(r->data.val), val);
    count_text(need.count, size);
    print_fact(stdout, "text", "%s tokens to train on, %s to validate, vocabulary %lld", train, val,
               (long long)cr_tokens_vocabulary(r->data.tokens));
    print_fact(stdout, "tokens",
               "of text only: names of special tokens are text, nothing stands around it; no template");
    print_fact(stdout, "model", "GPT of %s parameters: layers %lld, heads %lld, width %lld, context %lld", size,
               (long long)s->layers, (long long)s->heads, (long long)s->width, (long long)s->context);
    print_fact(stdout, "device", "%s (%s)", cr_device_name(r->dev), cr_device_info(r->dev));
    return !known || run_fits(r, &need);
}

/* Prints a sample that starts from a line break, or from the text's first token if there is no such token. */
static cr_status print_sample(run *r) {
    char when[48] = "";
    if (!run_over(r)) snprintf(when, sizeof when, " after step %lld", (long long)r->at.step);
    uint32_t first = cr_tokens_at(r->data.train, 0);
    if (cr_tokenizer_encode(r->data.tokenizer, "\n", 1, &first, 1) < 0) cr_error_clear();
    const cr_sampling sampling = {.temperature = 0.8, .top_p = 0.95};
    cr_generator *g = cr_generator_new((uint64_t)r->s->seed);
    cr_decoder *decoder = g ? cr_decoder_new(r->data.tokenizer) : NULL;
    if (!decoder) { cr_generator_free(g); return cr_error_status(); }
    printf("\n--- a sample%s ---\n", when);
    cr_status status = cr_gpt_generate(r->weights.model, &first, 1, r->s->sample, &sampling, g, print_token, decoder);
    print_rest(decoder);
    printf("\n----------------\n");
    cr_generator_free(g);
    return status;
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
    if (best && isfinite(r->at.best)) printf("the best, of validation loss %.4f, ", r->at.best);
    else printf("%s, ", best ? "the best" : "the newest");
    char program[4200], folder[4200];
    printf("after step %lld)\nwrite more  %s generate --model %s --prompt \"...\"\n", (long long)run_step(model),
           shell_word(cli_program(), program), shell_word(s->out, folder));
    cr_free(weights);
    return true;
}

static int finish_run(run *r) {
    char time[32], tokens[32], rate[32];
    const int64_t batches = r->ranks.parallel ? r->s->microbatches : r->s->accumulate;
    const double n = (double)(r->s->batch * batches * r->s->context), done = (double)r->at.step * n;
    const double val = r->log.val.n ? r->log.val.at[r->log.val.n - 1].value : NAN;
    const int64_t peak = cr_memory_stats(r->dev).peak;
    runlog_write(&r->log, "{\"event\":\"finish\",\"step\":%lld,\"seconds\":%.3f,\"peak_bytes\":%lld}",
                 (long long)r->at.step, r->at.seconds, (long long)peak);
    duration_text(r->at.seconds, time);
    count_text(done, tokens);
    count_text(r->at.seconds > 0 ? done / r->at.seconds : 0, rate);
    if (r->at.step == r->bar.first) printf("all %lld steps were done already\n", (long long)r->at.step);
    char mean[64];
    printf("validation loss %.4f over %lld tokens; training loss %s\n", val,
           (long long)cr_tokens_count(r->data.val) - 1, series_text(&r->log.train, 100, mean));
    printf("%lld step%s, %s tokens in %s of training: %s tokens/s, %.2f ms a step\n",
           (long long)r->at.step, r->at.step == 1 ? "" : "s", tokens, time,
           rate, 1e3 * r->at.seconds / (double)(r->at.step ? r->at.step : 1));
    printf("at most %.1f MB held by tensors\n", (double)peak / 1e6);
    if (r->s->sample > 0 && print_sample(r)) return cli_fail_library();
    if (r->saved.unsaved) return CLI_FAILED;
    return say_where(r) && !r->saved.best_unsaved ? CLI_OK : CLI_FAILED;
}

static bool prepare_run(run *r) {
    if (!(r->s->tokens ? open_token_file(r) : open_text(r)) || !split_tokens(r) || !say_what(r) || !make_model(r))
        return false;
    r->data.hash = tokens_hash(r->data.tokens);
    if (cr_error()) return cli_fail_library(), false;
    return run_agreed(r) && (!r->s->resume || run_restore(r)) && run_parallel(r) && run_barrier(r) && run_folder(r);
}

static int prepare(run *r) {
    if (!run_world(r)) return CLI_FAILED;
    int code = run_settle(r);
    if (code == CLI_OK) code = run_share(r);
    return code != CLI_OK || prepare_run(r) ? code : CLI_FAILED;
}

typedef struct training {
    run r;                                          /* first: train_close gets its address */
    settings s;
    char optimizers[128];
    option options[SETTINGS_OPTIONS];
    command c;
} training;

run *train_open(int argc, char **argv, int *code) {
    static const run_task task = {next_batch, validate, fetch, loss_of, print_sample, finish_run};
    training *t = calloc(1, sizeof *t);
    if (!t) return *code = cli_fail("no memory for the settings"), NULL;
    t->s = settings_default();
    t->c = (command){
        "train", "--data FILE... [options]  or  --resume DIR [options]",
        "Trains a GPT on text.  Ctrl-C, SIGTERM and SIGHUP save a checkpoint; the program says how to resume.",
        t->options, settings_options(&t->s, optimizer_words(t->optimizers), t->options), NULL, &t->s.file,
        "train --data book.txt --minutes 5 --out run\n"
        "train --data book.txt --layers 6 --width 256 --steps 5000\n"
        "train --resume run --steps 8000\n"};
    t->r = (run){.s = &t->s, .command = &t->c, .task = &task, .at.best = INFINITY};
    bool ready = options_parse(&t->c, argc, argv, code);
    if (ready) {
        *code = settings_check(&t->c, &t->s);
        ready = *code == CLI_OK && (!t->s.gpus || run_gpus(&t->c, &t->s, code));
        if (ready) ready = (*code = prepare(&t->r)) == CLI_OK;
    }
    if (!ready) train_close(&t->r, *code);
    return ready ? &t->r : NULL;
}

void train_close(run *r, int code) {
    training *t = (training *)r;
    run_leave(r, code);
    run_close(r);
    cr_gpt_free(r->weights.model);
    free(t->s.data.path);
    cr_json_free(t->s.file);
    free(t);
}

int cli_train(int argc, char **argv) {
    int code;
    run *r = train_open(argc, argv, &code);
    if (!r) return code;
    code = run_to_end(r);
    train_close(r, code);
    return code;
}
