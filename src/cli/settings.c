/* settings.c - the options of chainrule train: defaults, table, and checks that involve several options. */
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
        .save_every = 1000,
        .keep = 1,
        .sample = 300,
    };
}

int settings_options(settings *s, const char *optimizers, option out[SETTINGS_OPTIONS]) {
    const double many = 0x1p31 - 1;
    const option rows[] = {
        {.name = "data", .files = &s->data, .what = "FILE...", .help = "text to learn, one file after the other"},
        {.name = "tokens",
         .text = &s->tokens,
         .what = "FILE",
         .help = "instead of --data: a token file of chainrule tokenize, or 'train_*.bin': all these as one"},
        {.name = "tokenizer",
         .text = &s->tokenizer,
         .what = "chars|bytes|PATH",
         .help = "what a token is; PATH: of a tokenizer.json, or a folder with GPT-2's or SentencePiece's files",
         .kept = KEPT_FIXED},
        {.name = "layers",
         .integer = &s->layers,
         .help = "transformer blocks",
         .min = 1,
         .max = many,
         .kept = KEPT_FIXED},
        {.name = "heads",
         .integer = &s->heads,
         .help = "attention heads; they divide the width",
         .min = 1,
         .max = many,
         .kept = KEPT_FIXED},
        {.name = "width", .integer = &s->width, .help = "channels", .min = 1, .max = many, .kept = KEPT_FIXED},
        {.name = "context",
         .integer = &s->context,
         .help = "tokens the model sees",
         .min = 1,
         .max = many,
         .kept = KEPT_FIXED},
        {.name = "dtype",
         .text = &s->dtype,
         .words = "f32|bf16|f16",
         .help = "of products and activations; weights, moments and losses stay f32; f16 scales the loss",
         .kept = KEPT_FIXED},
        {.name = "dropout",
         .real = &s->dropout,
         .what = "P",
         .help = "share of activations dropped while training",
         .max = 0.999,
         .kept = KEPT_FIXED},
        {.name = "batch",
         .integer = &s->batch,
         .help = "windows of the context in a step",
         .min = 1,
         .max = many,
         .kept = KEPT_FIXED},
        {.name = "accumulate",
         .integer = &s->accumulate,
         .help = "batches whose gradients add up to one step",
         .min = 1,
         .max = many,
         .kept = KEPT_FIXED},
        {.name = "microbatches",
         .integer = &s->microbatches,
         .help = "batches of a step, shared out to the processes of mpirun; any number of them gives the same bits",
         .max = 1 << 20,
         .kept = KEPT},
        {.name = "exchange",
         .text = &s->exchange,
         .words = "fixed|engine",
         .help = "who adds the gradients: we, in one order; or MPI or NCCL, whose bits depend on how many processes "
                 "there are",
         .kept = KEPT},
        {.name = "gradients",
         .text = &s->gradients,
         .words = "f32|bf16",
         .help = "what travels between processes; bf16: half the bytes, and bits that depend on how many there are",
         .kept = KEPT},
        {.name = "gpus",
         .integer = &s->gpus,
         .help = "train on N GPUs of this machine, a process each; needs --microbatches",
         .max = 64},
        {.name = "shard-optimizer",
         .flag = &s->shard,
         .help = "with --microbatches: each process keeps a part of the optimizer's moments"},
        {.name = "elastic",
         .flag = &s->elastic,
         .help = "with --microbatches: processes that are lost do not end the run; needs Open MPI's mpirun --with-ft "
                 "ulfm; with --shard-optimizer each process keeps four more copies of its part of the moments"},
        {.name = "steps", .integer = &s->steps, .help = "updates", .min = 1, .kept = KEPT},
        {.name = "optimizer",
         .text = &s->optimizer,
         .words = optimizers,
         .help = "sgd's momentum is --beta1",
         .kept = KEPT_FIXED},
        {.name = "lr", .real = &s->lr, .help = "highest learning rate", .kept = KEPT_FIXED},
        {.name = "min-lr",
         .real = &s->min_lr,
         .help = "learning rate at the end of the cosine (default a tenth of --lr)",
         .kept = KEPT_FIXED},
        {.name = "warmup", .integer = &s->warmup, .help = "steps of linear warm-up", .kept = KEPT_FIXED},
        {.name = "weight-decay", .real = &s->weight_decay, .help = "weight decay of matrices", .kept = KEPT_FIXED},
        {.name = "beta1", .real = &s->beta1, .help = "decay of the mean gradient", .max = 0.999999, .kept = KEPT_FIXED},
        {.name = "beta2",
         .real = &s->beta2,
         .help = "decay of the mean squared gradient",
         .max = 0.999999,
         .kept = KEPT_FIXED},
        {.name = "clip",
         .real = &s->clip,
         .help = "largest joint norm of the gradients; 0: no limit",
         .kept = KEPT_FIXED},
        {.name = "fuse-step",
         .flag = &s->fuse_step,
         .help = "update weights inside the backward pass and keep no gradient: less memory; needs --clip 0",
         .kept = KEPT},
        {.name = "compile",
         .flag = &s->compile,
         .help = "record the second step and replay it: the same result, faster; --no-compile: run each step anew",
         .kept = KEPT},
        {.name = "seed",
         .integer = &s->seed,
         .help = "seeds the weights, the order of the text, dropout and the sample",
         .kept = KEPT_FIXED},
        {.name = "out", .text = &s->out, .what = "DIR", .help = "folder of the run"},
        {.name = "overwrite", .flag = &s->overwrite, .help = "replace the run in --out: its checkpoints are removed"},
        {.name = "resume",
         .text = &s->resume,
         .what = "DIR",
         .help =
             "go on with the run in DIR, bit for bit; options given here replace its own (--no-best turns one off)"},
        {.name = "stop-at", .integer = &s->stop_at, .help = "save and stop after step N, as Ctrl-C does; 0: do not"},
        {.name = "eval-every",
         .integer = &s->eval_every,
         .help = "steps between validations; 0: only at the end",
         .kept = KEPT},
        {.name = "save-every",
         .integer = &s->save_every,
         .help = "steps between checkpoints; 0: only at the end",
         .kept = KEPT},
        {.name = "keep",
         .integer = &s->keep,
         .help = "checkpoints to keep: the newest and the N - 1 saved before it",
         .min = 1,
         .max = 1e6,
         .kept = KEPT},
        {.name = "best",
         .flag = &s->best,
         .help = "also keep the weights of the lowest validation loss; generate uses them",
         .kept = KEPT},
        {.name = "sample", .integer = &s->sample, .help = "tokens to write at the end", .kept = KEPT},
        {.name = "profile",
         .text = &s->profile,
         .what = "FILE",
         .help = "write a profile for Perfetto or chrome://tracing"},
        option_device(&s->device),
        option_threads(&s->threads),
    };
    static_assert(sizeof rows / sizeof *rows == SETTINGS_OPTIONS, "run.h says how many there are");
    memcpy(out, rows, sizeof rows);
    return SETTINGS_OPTIONS;
}

int settings_check(const command *c, settings *s) {
    if (s->resume) {
        if (option_find(c, "out")->given)
            return usage_error(c, "--resume goes on in its own folder: --out cannot be given with it");
        s->out = s->resume;
    } else {
        if (!s->data.n && !s->tokens) return usage_error(c, "nothing to train on: give --data FILE... or --resume DIR");
        if (!s->tokens && !is_tokenizer(s->tokenizer))
            return usage_error(c, "--tokenizer is one of chars|bytes or the path of a tokenizer, not '%s'",
                               s->tokenizer);
        if (!s->overwrite && run_exists(s->out))
            return cli_fail(
                "'%s' already holds a run: go on with --resume %s, choose another --out, or give --overwrite", s->out,
                s->out);
    }
    if (s->data.n && s->tokens) return usage_error(c, "--data and --tokens cannot be given together");
    if (s->gpus && s->device && *s->device && strcmp(s->device, "cuda") != 0 && strcmp(s->device, "gpu") != 0)
        return usage_error(c, "--gpus %lld gives each process a GPU of its own: --device cannot be %s",
                           (long long)s->gpus, s->device);
    if (s->gpus && !s->resume && s->microbatches < s->gpus)
        return usage_error(c, "--gpus %lld needs --microbatches of at least %lld: each GPU computes some of a step",
                           (long long)s->gpus, (long long)s->gpus);
    return CLI_OK;
}

int settings_fit_warmup(const command *c, settings *s) {
    if (s->warmup < s->steps) return CLI_OK;
    if (option_find(c, "warmup")->given || s->resume)
        return usage_error(c, "--warmup must be below --steps: %lld of %lld", (long long)s->warmup,
                           (long long)s->steps);
    s->warmup = s->steps / 10;
    return CLI_OK;
}
