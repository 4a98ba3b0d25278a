/* settings.c - the options of chainrule train: defaults, tables, and checks that involve several options. */
#include "run.h"

#include <assert.h>
#include <math.h>
#include <string.h>

cr_optim_kind optimizer_kind(const char *name) {
    int kind = 0;
    while (cr_optim_name((cr_optim_kind)kind) && strcmp(cr_optim_name((cr_optim_kind)kind), name) != 0) kind++;
    return (cr_optim_kind)kind;
}

const char *optimizer_words(char out[128]) {
    size_t n = 0;
    const char *name;
    for (int kind = 0; (name = cr_optim_name((cr_optim_kind)kind)); kind++)
        n += (size_t)snprintf(out + n, 128 - n, "%s%s", kind ? "|" : "", name);
    return out;
}

settings settings_default(void) {
    return (settings){
        .tokenizer = "chars",
        .layers = 4,
        .heads = 4,
        .width = 128,
        .context = 64,
        .dtype = "f32",
        .weights = "f32",
        .exchange = "fixed",
        .gradients = "f32",
        .batch = 12,
        .accumulate = 1,
        .steps = 2000,
        .warmup = 100,
        .seed = 1337,
        .optimizer = cr_optim_name(CR_ADAMW),
        .lr = 1e-3,
        .min_lr = NAN,
        .weight_decay = 0.1,
        .beta1 = 0.9,
        .beta2 = 0.99,
        .clip = 1,
        .compile = true,
        .out = "run",
        .eval_every = 250,
        .save_every = -1,
        .keep = 1,
        .sample = 300,
    };
}

/* ---- the options, in the order of --help: a function for each subject */
enum { DATA = 3, MODEL = 7, BATCH = 8, UPDATE = 14, RUN = 14 };
static_assert(DATA + MODEL + BATCH + UPDATE + RUN == SETTINGS_OPTIONS, "run.h says how many there are");

static const double MANY = 0x1p31 - 1;

static void add_group(const char *name, int n, const option *rows, option *out) {
    for (int i = 0; i < n; i++) {
        out[i] = rows[i];
        out[i].group = name;
    }
}

static void data_options(settings *s, option out[DATA]) {
    const option rows[] = {
        {.name = "data", .files = &s->data, .what = "FILE...", .help = "text files to train on, in this order"},
        {.name = "tokens", .text = &s->tokens, .what = "FILE",
         .help = "instead of --data: a token file of chainrule tokenize, or several as a pattern, 'train_*.bin'"},
        {.name = "tokenizer", .text = &s->tokenizer, .what = "chars|bytes|PATH", .kept = KEPT_FIXED,
         .help = "what a token is; PATH: a tokenizer.json, a GGUF file, or a folder with GPT-2's or SentencePiece's "
                 "files"},
    };
    static_assert(sizeof rows / sizeof *rows == DATA, "the number of rows");
    add_group("Text", DATA, rows, out);
}

static void model_options(settings *s, option out[MODEL]) {
    const option rows[] = {
        {.name = "layers", .integer = &s->layers, .min = 1, .max = MANY, .kept = KEPT_FIXED,
         .help = "transformer blocks"},
        {.name = "heads", .integer = &s->heads, .min = 1, .max = MANY, .kept = KEPT_FIXED,
         .help = "attention heads; must divide the width"},
        {.name = "width", .integer = &s->width, .min = 1, .max = MANY, .kept = KEPT_FIXED,
         .help = "channels"},
        {.name = "context", .integer = &s->context, .min = 1, .max = MANY, .kept = KEPT_FIXED,
         .help = "context length, in tokens"},
        {.name = "dtype", .text = &s->dtype, .words = "f32|bf16|f16", .kept = KEPT_FIXED,
         .help = "dtype of products and activations; weights, moments and losses stay f32; f16 scales the loss"},
        {.name = "weights", .text = &s->weights, .words = "f32|bf16", .kept = KEPT_FIXED, .before = "f32",
         .help = "bf16: weights, gradients and activations are bf16, and the optimizer keeps master weights in f32, "
                 "which --shard-optimizer shards"},
        {.name = "dropout", .real = &s->dropout, .what = "P", .max = 0.999, .kept = KEPT_FIXED,
         .help = "dropout probability of activations"},
    };
    static_assert(sizeof rows / sizeof *rows == MODEL, "the number of rows");
    add_group("Model", MODEL, rows, out);
}

/* The batch of a step, and the processes that share it. */
static void batch_options(settings *s, option out[BATCH]) {
    const option rows[] = {
        {.name = "batch", .integer = &s->batch, .min = 1, .max = MANY, .kept = KEPT_FIXED,
         .help = "sequences per step"},
        {.name = "accumulate", .integer = &s->accumulate, .min = 1, .max = MANY, .kept = KEPT_FIXED,
         .help = "batches whose gradients are accumulated for one step"},
        {.name = "microbatches", .integer = &s->microbatches, .max = 1 << 20, .kept = KEPT,
         .help = "batches per step, divided among the processes of mpirun; the number of processes does not change "
                 "the bits"},
        {.name = "exchange", .text = &s->exchange, .words = "fixed|engine", .kept = KEPT,
         .help = "how gradients are summed: fixed, in one order; engine, by MPI or NCCL, where bits depend on the "
                 "number of processes"},
        {.name = "gradients", .text = &s->gradients, .words = "f32|bf16", .kept = KEPT,
         .help = "dtype of gradients between processes; bf16: half the bytes, and bits depend on the number of "
                 "processes"},
        {.name = "gpus", .integer = &s->gpus, .max = 64,
         .help = "train on N GPUs of this machine, one process each; needs --microbatches"},
        {.name = "shard-optimizer", .flag = &s->shard,
         .help = "with --microbatches: each process keeps a part of the optimizer's moments and f32 weights"},
        {.name = "elastic", .flag = &s->elastic,
         .help = "with --microbatches: lost processes do not end the run; needs Open MPI's mpirun --with-ft ulfm; "
                 "with --shard-optimizer each process keeps four more copies of its part of the moments"},
    };
    static_assert(sizeof rows / sizeof *rows == BATCH, "the number of rows");
    add_group("Batch and processes", BATCH, rows, out);
}

static void update_options(settings *s, const char *optimizers, option out[UPDATE]) {
    const option rows[] = {
        {.name = "steps", .integer = &s->steps, .kept = KEPT,
         .help = "optimizer steps; 0: until --minutes ends the run (the default if only --minutes is given)"},
        {.name = "minutes", .real = &s->minutes, .what = "M", .kept = KEPT,
         .help = "stop after the step that reaches this time; the learning rate then follows the clock, so two runs "
                 "differ; 0: no limit"},
        {.name = "optimizer", .text = &s->optimizer, .words = optimizers, .kept = KEPT_FIXED,
         .help = "sgd's momentum is --beta1"},
        {.name = "lr", .real = &s->lr, .above = true, .kept = KEPT_FIXED, .help = "peak learning rate"},
        {.name = "min-lr", .real = &s->min_lr, .kept = KEPT_FIXED,
         .help = "learning rate at the end of the cosine (default a tenth of --lr)"},
        {.name = "warmup", .integer = &s->warmup, .kept = KEPT_FIXED, .help = "steps of linear warm-up"},
        {.name = "weight-decay", .real = &s->weight_decay, .kept = KEPT_FIXED, .help = "weight decay of matrices"},
        {.name = "beta1", .real = &s->beta1, .max = 0.999999, .kept = KEPT_FIXED, .help = "decay of the mean gradient"},
        {.name = "beta2", .real = &s->beta2, .max = 0.999999, .kept = KEPT_FIXED,
         .help = "decay of the mean squared gradient"},
        {.name = "clip", .real = &s->clip, .kept = KEPT_FIXED,
         .help = "clip the global norm of the gradients to X; 0: no clipping"},
        {.name = "fuse-step", .flag = &s->fuse_step, .kept = KEPT,
         .help = "update weights inside the backward pass and keep no gradient: less memory; needs --clip 0"},
        {.name = "gradient-checkpointing", .flag = &s->recompute, .kept = KEPT, .before = "",
         .help = "keep only the inputs of blocks and compute their activations again in the backward pass: less "
                 "memory, slower, the same bits"},
        {.name = "compile", .flag = &s->compile, .kept = KEPT,
         .help = "record the second step and replay it: the same result, faster; --no-compile: run each step op by "
                 "op"},
        {.name = "seed", .integer = &s->seed, .kept = KEPT_FIXED,
         .help = "seeds the weights, the order of the text, dropout and the sample"},
    };
    static_assert(sizeof rows / sizeof *rows == UPDATE, "the number of rows");
    add_group("Updates", UPDATE, rows, out);
}

/* The run's folder, validations and checkpoints, and where it runs. */
static void run_options(settings *s, option out[RUN]) {
    const option rows[] = {
        {.name = "out", .text = &s->out, .what = "DIR", .help = "folder of the run"},
        {.name = "overwrite", .flag = &s->overwrite, .help = "replace the run in --out: its checkpoints are removed"},
        {.name = "resume", .text = &s->resume, .what = "DIR",
         .help = "resume the run in DIR, bit for bit; options given here override its own (--no-best turns one off)"},
        {.name = "config", .text = &s->config, .what = "FILE",
         .help = "options from a JSON object, or from the folder or the run.jsonl of an earlier run; options given "
                 "here override these"},
        {.name = "stop-at", .integer = &s->stop_at, .help = "save and stop after step N, as Ctrl-C does; 0: off"},
        {.name = "eval-every", .integer = &s->eval_every, .kept = KEPT,
         .help = "steps between validations; 0: only at the end"},
        {.name = "save-every", .integer = &s->save_every, .kept = KEPT,
         .help = "steps between checkpoints; 0: only at the end (default as --eval-every)"},
        {.name = "keep", .integer = &s->keep, .min = 1, .max = 1e6, .kept = KEPT,
         .help = "checkpoints to keep: the newest and the N - 1 saved before it"},
        {.name = "best", .flag = &s->best, .kept = KEPT,
         .help = "also keep the weights of the lowest validation loss; generate uses them"},
        {.name = "sample", .integer = &s->sample, .kept = KEPT, .help = "tokens to generate at the end"},
        {.name = "sample-every", .integer = &s->sample_every, .kept = KEPT,
         .help = "also generate them every N steps; 0: off"},
        {.name = "profile", .text = &s->profile, .what = "FILE",
         .help = "write a profile for Perfetto or chrome://tracing"},
        option_device(&s->device),
        option_threads(&s->threads),
    };
    static_assert(sizeof rows / sizeof *rows == RUN, "the number of rows");
    add_group("Run", RUN, rows, out);
}

int settings_options(settings *s, const char *optimizers, option out[SETTINGS_OPTIONS]) {
    data_options(s, out);
    model_options(s, out += DATA);
    batch_options(s, out += MODEL);
    update_options(s, optimizers, out += BATCH);
    run_options(s, out += UPDATE);
    return SETTINGS_OPTIONS;
}

int settings_check(const command *c, settings *s) {
    if (s->resume) {
        if (s->config) return usage_error(c, "--resume has the settings of its run: --config cannot be given with it");
        if (option_find(c, "out")->given)
            return usage_error(c, "--resume continues in its own folder: --out cannot be given with it");
        s->out = s->resume;
    } else {
        if (!s->data.n && !s->tokens) return usage_error(c, "nothing to train on: give --data FILE... or --resume DIR");
        if (s->tokens && option_find(c, "tokenizer")->given)
            return usage_error(c, "--tokens has its tokenizer beside it: --tokenizer cannot be given with it");
        if (!s->tokens && !is_tokenizer(s->tokenizer))
            return usage_error(c, "--tokenizer is one of chars|bytes or the path of a tokenizer, not '%s'",
                               s->tokenizer);
        if (!s->overwrite && run_exists(s->out))
            return cli_fail(
                "'%s' already holds a run: continue with --resume %s, choose another --out, or give --overwrite",
                s->out, s->out);
    }
    if (s->data.n && s->tokens) return usage_error(c, "--data and --tokens cannot be given together");
    if (s->gpus && s->device && *s->device && strcmp(s->device, "cuda") != 0 && strcmp(s->device, "gpu") != 0)
        return usage_error(c, "--gpus %lld gives each process a GPU of its own: --device cannot be %s",
                           (long long)s->gpus, s->device);
    if (s->gpus && !s->resume && s->microbatches < s->gpus)
        return usage_error(c, "--gpus %lld needs --microbatches of at least %lld: each GPU computes part of a step",
                           (long long)s->gpus, (long long)s->gpus);
    return CLI_OK;
}

int settings_limits(const command *c, settings *s) {
    const bool steps = option_find(c, "steps")->given, minutes = option_find(c, "minutes")->given;
    if (minutes && s->minutes > 0 && !steps) s->steps = 0;
    if (steps && s->steps && !minutes) s->minutes = 0;
    if (!s->steps && !(s->minutes > 0)) return usage_error(c, "--steps must be at least 1, not 0");
    if (!s->steps || s->warmup < s->steps) return CLI_OK;
    if (option_find(c, "warmup")->given || s->resume)
        return usage_error(c, "--warmup must be below --steps: %lld of %lld", (long long)s->warmup,
                           (long long)s->steps);
    s->warmup = s->steps / 10;
    return CLI_OK;
}
