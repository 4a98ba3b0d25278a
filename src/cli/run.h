/* run.h - one run of train or finetune: its settings, its objects and its folder.
 *   DIR/checkpoint/         weights, optimizer, random numbers, position in the data, step (cr_training_save)
 *   DIR/checkpoint-STEP/    the N - 1 before it (--keep N)
 *   DIR/checkpoint-best/    the weights of the lowest validation loss (--best)
 *   DIR/checkpoint-weights/ the last weights, where the last save failed
 *   DIR/tokenizer.json  DIR/run.jsonl  DIR/curve.svg */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli.h"
#include "../core/out.h"

enum { RUN_KEPT = 64 };

typedef struct settings {
    file_list data, validation;
    struct cr_json *file;                           /* of --config, owned; texts point into it */
    const char *config;
    const char *model, *form, *targets;                    /* finetune: with --lora 0 all weights train */
    int64_t lora;
    double alpha, lora_dropout;
    bool truncate;
    const char *tokens, *tokenizer, *optimizer, *out, *resume, *device, *dtype, *weights, *profile, *exchange;
    const char *gradients;
    int64_t layers, heads, width, context, batch, accumulate, microbatches, steps, warmup, seed, threads, eval_every,
        save_every, stop_at, sample, sample_every, keep, gpus;
    double minutes, lr, min_lr, weight_decay, beta1, beta2, clip, dropout;
    bool overwrite, fuse_step, recompute, compile, best, shard, elastic;
} settings;

typedef struct run run;

/* What the loop asks of train or of finetune; batches add their tokens to at.seen.  NULL: library message pending. */
typedef struct run_task {
    cr_tensor *(*batch)(run *r);                    /* the mean loss of the next batch, recorded */
    cr_status (*validate)(run *r, double *loss);
    /* the next batch and its loss; NULL: a batch is not two tensors */
    cr_status (*fetch)(run *r, cr_tensor **x, cr_tensor **y);
    cr_tensor *(*loss_of)(run *r, const cr_tensor *x, const cr_tensor *y);
    cr_status (*sample)(run *r);                    /* of --sample-every */
    int (*finish)(run *r);                          /* after the last step, on the first process; an exit code */
} run_task;

typedef struct run_data {
    cr_tokenizer *tokenizer;
    cr_tokens *tokens, *train, *val;                /* all; its first 90 %; the rest */
    cr_loader *loader;
    int64_t vocabulary;
    uint64_t hash;                                  /* of all tokens */
} run_data;

typedef struct run_weights {
    cr_gpt *model;                                  /* of train */
    cr_params *trained, *frozen;                    /* borrowed: what the optimizer updates; the rest, or NULL */
    cr_params *groups[2];                           /* parameters of the optimizer's groups, if it has two */
    cr_dtype half_dtype;                            /* --dtype; CR_F32: everything is f32 */
    cr_params *copies, *frozen_copies;              /* of the matrices in it; the optimizer writes the first */
    const char *config;                             /* finetune of all weights: config.json, for the checkpoint */
} run_weights;

/* step.c: an update, its batches, and of the last one the loss and the gradients' norm */
typedef struct run_updates {
    cr_optim *optim;
    cr_scaler *scaler;                              /* f16: of the loss; else NULL */
    cr_tensor **inputs;
    double loss, norm;
    bool stepped;                                   /* in this process */
    cr_plan *plan;                                  /* the recorded step; NULL: none yet */
} run_updates;

/* ranks.c */
typedef struct run_ranks {
    cr_world *world;                                /* NULL: no --microbatches */
    cr_parallel *parallel;
    int output;                                     /* hidden stdout of a process that is not the first */
    bool asked, stop;                               /* the last step has asked all; one was interrupted */
    bool failed_on_all_ranks;                       /* a failure that all ranks see: none has to end the others */
} run_ranks;

/* How far the run is, over all its parts where nothing else is said. */
typedef struct run_position {
    int64_t step, batches;                          /* batches: given */
    double seconds;                                 /* in training steps */
    double elapsed, began;                          /* seconds in the loop; the clock when that was 0 */
    double seen;                                    /* tokens in this process's batches */
    double best;                                    /* the validation loss of checkpoint-best; infinite: none */
    struct { double loss, lr, norm; } last;         /* of the last step */
} run_position;

/* checkpoint.c */
typedef struct run_saves {
    bool unsaved, best_unsaved;                     /* the last save of that kind failed */
    char *kept[RUN_KEPT]; int n_kept;               /* strings of the checkpoint that settings point to */
} run_saves;

/* memory.c: bytes; count: parameters; start: held on meta before the model was made */
typedef struct run_memory { double count, parameters, gradients, moments, activations; int64_t start; } run_memory;

struct run {
    bool dry;                                       /* on the device meta: shapes without values */
    settings *s;
    const command *command;
    const run_task *task;
    const cr_device *dev;
    cr_generator *generator;
    run_data data;
    run_weights weights;
    run_updates update;
    run_ranks ranks;
    run_position at;
    run_saves saved;
    runlog log;
    progress bar;                                   /* bar.first: the step that this process began with */
    cr_schedule schedule;
    bool over;                                      /* the run has ended after its last step */
};

/* loop.c: the objects and the steps of a run */
int  run_settle(run *r);                            /* completes the settings; an exit code, as run_steps */
bool run_optimizer(run *r);                         /* for r->trained; false: library message pending */
bool run_folder(run *r);                            /* locked, with tokenizer and log; false: message printed */
void run_log_step(run *r);                          /* the line of the last step */
bool run_over(const run *r);                        /* are all --steps done, or all --minutes over? */
int  run_begin(run *r);                             /* before the first round; an exit code, as in the next two */
/* what is due between steps (validation, saves, a sample), then a step; *ended: the last save instead, and no more */
int  run_round(run *r, bool *ended);
int  run_to_end(run *r);                            /* all rounds, and what finishes the run */
void run_close(run *r);

/* train.c, finetune.c: a run that is ready for run_begin; NULL: *code is the exit code, message printed */
run *train_open(int argc, char **argv, int *code);
void train_close(run *r, int code);
run *finetune_open(int argc, char **argv, int *code);
void finetune_close(run *r);

/* step.c: one update; a loss that is not finite is no failure, and changes no weight */
cr_status run_update(run *r, double lr, double *loss, double *norm);

bool run_records(const run *r);                     /* is the second step recorded, to be replayed by later ones? */
/* one update of a dry run, without a loss */
cr_status run_dry_step(run *r);

/* memory.c: what the steps of a dry run hold, whose model is made; false: it cannot be known */
bool run_dry_steps(run *dry, run_memory *m);
run_memory run_memory_between(const run_memory *a, const run_memory *b, double t);  /* a + t (b - a) */
bool run_fits(const run *r, const run_memory *m);   /* prints the line `memory`; false: it does not, message printed */

/* ranks.c: the processes of mpirun */
bool run_first(const run *r);                       /* does this process print and write? */
bool run_world(run *r);                             /* opens the world, before anything is written; false: message
                                                     * printed */
const cr_device *run_device(const run *r);          /* --device; of many processes, each has a GPU of its own; NULL:
                                                     * library message pending */
bool run_agreed(run *r);                            /* the same options and text everywhere; false: message printed */
bool run_parallel(run *r);                          /* after the optimizer; false: message printed */
bool run_silent(run *r);                            /* a log that goes nowhere; false: message printed */
int  run_share(run *r);                             /* do the ranks fit --microbatches?  an exit code */
bool run_alone(const run *r);                       /* the only process? */
bool run_barrier(const run *r);                     /* false: message printed */
bool run_takes(const run *r, int64_t i);            /* does this process do part i of a work that all share? */
cr_status run_sums(const run *r, int64_t n, double *each);         /* what each process has of them, to all */
/* at.elapsed by the first process's clock; an error stays pending */
void run_clock(run *r);
bool run_interrupted(run *r);                       /* by Ctrl-C on any rank, the same answer on all; no world:
                                                     * cr_os_interrupted */
cr_status run_microbatches(run *r, double *loss, double *norm);            /* one step */
bool run_share_log(run *r);                         /* all processes learn from rank 0's log whether the step at which a
                                                     * run is resumed was validated; false: message printed */
bool run_recover(run *r);                           /* --elastic: after a failure, the processes that are left go on
                                                     * from r->step; false: they cannot, message printed */
void run_leave(run *r, int code);                   /* closes the world, or ends the others after a failure */

/* gpus.c: starts s->gpus processes, and is true in each of them; false in this one, after all have ended, with the exit
 * code */
bool run_gpus(const command *c, settings *s, int *code);

/* settings.c: the options of chainrule train */
enum { SETTINGS_OPTIONS = 46 };
settings settings_default(void);
/* how many; optimizers: the words of --optimizer */
int  settings_options(settings *s, const char *optimizers, option out[SETTINGS_OPTIONS]);
int  settings_check(const command *c, settings *s);                        /* an exit code, as settings_limits */
/* Of --steps and --minutes, the one that was given holds.  A default warm-up that is longer than the run becomes a
 * tenth of it. */
int  settings_limits(const command *c, settings *s);
const char   *optimizer_words(char out[128]);                              /* "sgd|adam|..." */
cr_optim_kind optimizer_kind(const char *name);                            /* one of these words */

/* checkpoint.c: the run's folder */
/* DIR/name; false: too long, message printed */
bool run_path(const run *r, const char *name, char out[4096]);
bool run_exists(const char *dir);                                          /* does it hold a checkpoint of any kind? */
/* false: another process trains in it, message printed */
bool run_lock(const run *r);
/* removes checkpoints of an earlier run; false: there is something that no run wrote, message printed */
bool run_clear(const run *r);
/* sets options that were not given from the run in s->resume */
bool run_restore_settings(run *r, int *code);
/* weights, optimizer, position; after make_model */
bool run_restore(run *r);
/* The first process goes on from r->step, where its log ends.  new: it was not the first before, and gets the folder
 * and stdout.  False: message printed. */
bool run_take_over(run *r, bool new);
/* a failure is printed, and sets r->unsaved */
void run_save(run *r, progress *bar);
void run_save_weights(const run *r);                /* checkpoint-weights: when the disk had no room for the rest */
void run_save_best(run *r, progress *bar, double loss);                    /* if it is the best so far */
/* the paths for generate; dir: of a run, or of a checkpoint */
bool run_model(const char *dir, char model[4096], char tokenizer[4096]);
/* the step of a checkpoint; -1: there is none */
int64_t run_step(const char *checkpoint);

/* a cr_on_token: writes the text that the token completes to stdout */
bool print_token(uint32_t id, void *decoder);
void print_rest(cr_decoder *decoder);               /* writes what is left of the text, and frees the decoder */

/* ---- model.c: what --model names */
typedef enum model_kind { MODEL_RUN, MODEL_FOLDER, MODEL_FILE } model_kind;
/* weights: for cr_lm_load; home: where its tokenizer is.  False: it is none, message printed */
bool model_find(const char *path, char weights[4096], char home[4096], model_kind *kind);
bool join_path(const char *dir, const char *name, char out[4096]);      /* false: too long */
void folder_of(const char *path, char out[4096]);   /* the folder that holds a file, or the folder itself */

/* ---- generate.c, chat.c: text from a model */
enum { MAX_ENDS = 64 };
typedef struct opened {
    cr_lm *model; cr_tokenizer *tokenizer;
    char home[4096];                                /* the tokenizer's folder, or the GGUF file that it is in */
    cr_chat *chat;                                  /* of open_chat */
    uint32_t end[MAX_ENDS]; int64_t ends;                 /* tokens that end a text, within the model's vocabulary */
} opened;
bool open_model(const char *path, const char *device, opened *o);           /* false: message printed */
/* How the model is asked.  form: --template, a name or a file, or NULL; adapter: a folder whose template comes before
 * the model's, or NULL; answers: o->end has what ends an answer too.  False: message printed. */
bool open_chat(opened *o, const char *adapter, const char *form, bool answers);
void say_chat(const opened *o, FILE *out);          /* two lines: the template, the special tokens */
option option_template(const char **form);
void close_model(opened *o);
/* packing.c: the samples of files; NULL: message printed */
cr_dataset *read_data(const opened *o, const file_list *files, int64_t context, bool truncate, bool questions);

typedef struct generation {
    const char *model, *adapter, *draft, *device, *cache;   /* options */
    int64_t seed, threads;
    cr_sampling s;
    cr_generate_options o;
    opened main, small;
    cr_generator *generator;
} generation;
enum { GENERATION_OPTIONS = 13 };
int  generation_options(generation *g, option out[GENERATION_OPTIONS]);    /* how many */
bool generation_open(generation *g);                /* false: message printed */
void generation_close(generation *g);

typedef struct writer {
    cr_decoder *decoder;
    const char *stop;                               /* ends before this text; NULL: none */
    const uint32_t *silent; int64_t n_silent;       /* tokens that are not written */
    cr_out made; size_t shown;                      /* all text so far, owned; how much of it is written */
    bool stopped;
} writer;
bool write_row(int64_t row, uint32_t id, void *writer);    /* a cr_on_row */
void write_end(writer *w);

#endif
