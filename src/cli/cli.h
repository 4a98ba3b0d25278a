/* cli.h - shared by the subcommands of the program, which uses the public header chainrule.h. */
#ifndef CLI_H
#define CLI_H

#include <chainrule.h>
#include <stdio.h>

/* exit codes; 130: by Ctrl-C, as in shells */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_STOPPED = 130 };

/* Prints "chainrule: message" to stderr; returns CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_fail_library(void);                         /* with the library's pending message, which is cleared */
const char *cli_program(void);                      /* as it was called: "chainrule", "build/release/chainrule" */
const char *shell_word(const char *text, char out[4200]);  /* for a command to paste: quoted where a shell needs it */

/* ---- options.c: one table per command; it parses, checks and prints the help */
/* in a run's checkpoint; fixed: --resume cannot change it */
typedef enum option_kept { NOT_KEPT, KEPT_FIXED, KEPT } option_kept;
typedef struct file_list { const char **path; int n; int64_t room; } file_list;        /* paths belong to argv */
typedef struct option {
    const char *name;                               /* without the dashes */
    bool *flag;                                     /* one of these five: the variable to set, which has the default */
    int64_t *integer;
    double *real;
    const char **text;
    file_list *files;
    const char *words;                              /* of a text: the accepted words, "chars|bytes"; NULL: any text */
    const char *what, *help;                        /* what: placeholder; NULL: "N", "X", the words, or none for a
                                                     * flag */
    double min, max;                                /* of numbers, inclusive; max 0: no limit */
    bool above;                                     /* a real number must be above min */
    const char *group;                              /* heading in the help; NULL: that of the option before */
    option_kept kept;
    const char *before;                             /* in runs of versions without this option; NULL: there are none */
    bool given;                                     /* set by the parser */
} option;
typedef struct command {
    const char *name, *arguments, *about;           /* "train", "--data FILE... [options]", a sentence or two */
    option *options; int n;
    file_list *files;                               /* for arguments without an option; NULL: not accepted */
    struct cr_json **config;                        /* holds what --config read; NULL: there is no such option */
    const char *examples;                           /* a line each, without the program's name */
} command;

/* False: *code is the exit code (the help was printed, or a message with the usage line). */
bool options_parse(const command *c, int argc, char **argv, int *code);
/* returns CLI_USAGE */
int  usage_error(const command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool option_set(option *o, const char *text, char *why, size_t room);      /* why: what is wrong with text */
/* the value, in the form that option_set accepts */
void option_text(const option *o, char *out, size_t room);
option *option_find(const command *c, const char *name);
/* How far a word that was typed is from a name; 99: it cannot be meant. */
int  typing_errors(const char *typed, const char *name);
/* Text in lines of so many columns, which begin at `indent`; the first goes on at column `at`. */
void print_wrapped(FILE *f, const char *text, int at, int indent, int columns);
/* A line of what a command begins with: "model   GPT of ..."; wrapped on a terminal. */
void print_fact(FILE *f, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
option option_device(const char **device);          /* --device and --threads, which several commands take */
option option_threads(int64_t *threads);

/* ---- subcommands: argv[0] is the subcommand's name; return the exit code */
int cli_train(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_embed(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_plot(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_checkpoint(int argc, char **argv);
int cli_import(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_finetune(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_quantize(int argc, char **argv);

/* ---- data.c: files to text, text to tokens */
/* bytes: owned (free); odd: what the first bytes are that are not UTF-8, "" when there are none */
typedef struct corpus { char *bytes; size_t n; char odd[512]; } corpus;
/* all of them, one after the other, without byte-order marks; false: message printed */
bool corpus_read(const file_list *files, corpus *c);
bool is_tokenizer(const char *name);                /* "chars", "bytes" or a path that exists */
bool corpus_input(corpus *c);                       /* standard input, to its end */
/* Only the tokenizer of bytes takes what is not UTF-8.  False: message printed */
bool corpus_fits(const corpus *c, const char *tokenizer);
cr_tokenizer *tokenizer_named(const char *name, const corpus *c);
cr_tokens *corpus_tokens(const corpus *c, const cr_tokenizer *tokenizer);
/* owned (cr_free); NULL: library message pending */
uint32_t *encode(const cr_tokenizer *tokenizer, const char *bytes, size_t n, int64_t *count);
const cr_device *device_named(const char *name);    /* NULL or "": the default device */
uint64_t tokens_hash(const cr_tokens *t);           /* of all tokens, to recognize the text; sets an error if one is
                                                     * beyond the vocabulary */

/* ---- convert.c: the files beside a model's weights */
extern const char *const model_files[];                /* in a model's folder; NULL ends them */
/* The tokenizer in a model's folder, in that of a GGUF file, or in the file itself; home: which one. */
cr_tokenizer *tokenizer_near(const char *model, char home[4096]);
/* links or copies the files of a model's tokenizer, in place of older ones, or writes a GGUF file's; false: message
 * printed */
bool copy_companions(const char *model, const char *to);
bool write_template(const cr_chat *c, const char *to);              /* chat_template.jinja; false: message printed */

/* ---- packing.c: samples in rows; tokens, and the targets that count */
uint64_t data_hash(const cr_dataset *d, uint64_t seed);
/* Rows of at most `context` tokens of whole samples, the first n, epoch after epoch, each in another order: a function
 * of the seed and of how many were taken. */
typedef struct packer {
    const cr_dataset *data;
    int64_t n, context; uint64_t seed;
    int64_t *order, epoch, at;
} packer;
typedef struct packing {
    int64_t *token, *target, *length, tokens, samples, token_room, target_room, length_room;
} packing;
bool packer_row(packer *p, packing *out);           /* appends a row; out NULL: skips it; false: message printed */
bool packing_add(packing *out, const cr_dataset *d, int64_t i);     /* appends a sample; false: message printed */
void packing_free(packing *p);
cr_samples packing_of(const packing *p);

/* ---- precision.c: --dtype */
cr_dtype half_dtype_named(const char *name);        /* "f32", "bf16", "f16" */
cr_tensor *half_dtype_loss(const cr_gpt *m, cr_dtype low, const cr_tensor *x, const cr_tensor *y, bool train);
/* Copies of the matrices, which autocast takes and the optimizer keeps (NULL: they are frozen); none for f32.  False:
 * library message pending. */
bool half_dtype_copies(const cr_params *p, cr_optim *opt, cr_dtype low, cr_params **copies);
void low_copies_free(cr_params *copies, const cr_params *p);    /* NULL is allowed */

/* ---- runlog.c: run.jsonl, one JSON object a line */
typedef struct point { int64_t step; double value; } point;
typedef struct series { point *at; int64_t n, room; } series;
bool series_add(series *s, int64_t step, double value);
/* "2.1034 (mean of the last 40 steps)": of the last n, or of all where there are fewer */
const char *series_text(const series *s, int64_t n, char out[64]);
typedef struct runlog { FILE *file; series train, val; bool failed; } runlog;
/* The losses up to a step; null is NaN.  copy: receives these lines, without broken ones.  copy NULL:
 * a broken line is a failure, and the message has its number. */
bool runlog_read(const char *path, int64_t until, FILE *copy, series *train, series *val);
/* keeps the lines up to from_step; 0: starts a new file */
bool runlog_open(runlog *log, const char *path, int64_t from_step);
/* one line, flushed */
void runlog_write(runlog *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void runlog_close(runlog *log);
/* contents of a JSON string, without the quotes */
void json_escape(const char *s, char *out, size_t room);
/* "null" for NaN and infinities, which JSON lacks */
const char *json_number(double v, char out[32]);

/* ---- curve.c: losses over steps as an SVG picture */
enum { MAX_CURVES = 8 };                            /* colours that are distinguishable */
typedef struct losses { const char *name; series train, val; } losses;      /* of one run */
/* unit: of the losses */
typedef struct picture { const char *title, *unit; bool log_x, log_y; int n; losses run[MAX_CURVES]; } picture;
bool curve_write(const char *path, const picture *p);                       /* false: message printed */

/* ---- progress.c */
typedef struct progress {
    int64_t step, total, first;                     /* total 0: only the time ends the run */
    double loss, val, rate, started, shown;         /* rate: tokens a second; val NaN: none yet; times in seconds */
    double limit, spent;                            /* seconds; limit 0: only the steps end it */
    bool terminal; int twentieth;                   /* without a terminal: a line for each of the run */
} progress;
void progress_begin(progress *p, int64_t first, int64_t total, double limit);
void progress_show(progress *p, bool force);        /* redraws the bar at most ten times a second */
void progress_end(progress *p);                     /* moves the cursor to a new line */
void duration_text(double seconds, char out[32]);   /* "1:05:07", "2:31" */
void count_text(double n, char out[32]);            /* "1,234,567" */

#endif
