/* glue.c - what the JavaScript package calls beside the functions of chainrule.h: options as plain arguments, text
 * token by token, and the commands train and finetune of the program step by step. */
#include "../src/cli/run.h"

#include <emscripten.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WEB EMSCRIPTEN_KEEPALIVE

/* ---- tensors */
WEB const cr_tensor *web_none(void) { return CR_NONE; }
WEB double           web_memory(void) { return (double)cr_memory_stats(cr_cpu()).current; }

WEB void *web_pages(size_t bytes) {                 /* what mmap gives: munmap frees it */
    void *p = NULL;
    return posix_memalign(&p, 1 << 16, bytes ? bytes : 1) ? NULL : p;
}

WEB cr_status web_backward(const cr_tensor *y, const cr_tensor *gradient, bool retain_graph, bool create_graph) {
    return cr_backward(y, gradient, &(cr_backward_options){.retain_graph = retain_graph, .create_graph = create_graph});
}

WEB cr_tensor *web_in_place(const char *row, cr_tensor *x, int n, const cr_tensor *const *in, const double *params) {
    const cr_program *p = cr_program_find(row);
    return p ? cr_program_apply_(p, x, n, in, params) : NULL;
}

WEB cr_tensor *web_cross_entropy(const cr_tensor *logits, const cr_tensor *target, double ignore_index,
                                 double label_smoothing, int reduction) {
    const cr_cross_entropy_options o = {(int64_t)ignore_index, label_smoothing, (cr_reduction)reduction};
    return cr_cross_entropy(logits, target, &o);
}

WEB cr_tensor *web_attention(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_tensor *mask,
                             bool causal, double scale) {
    return cr_attention(q, k, v, &(cr_attention_options){.causal = causal, .scale = scale, .mask = mask});
}

/* ---- optimizers: numbers that are NaN have their defaults */
WEB cr_optim *web_optim_new(const char *kind, const cr_params *p, const double *number, bool nesterov) {
    int k = 0;
    while (cr_optim_name((cr_optim_kind)k) && strcmp(cr_optim_name((cr_optim_kind)k), kind) != 0) k++;
    cr_optim_options o = cr_optim_defaults((cr_optim_kind)k);
    double *const at[] = {&o.lr, &o.beta1, &o.beta2, &o.eps, &o.momentum, &o.weight_decay};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) if (!isnan(number[i])) *at[i] = number[i];
    o.nesterov = nesterov;
    return cr_optim_new(p, &o);
}

/* ---- language models */
WEB cr_gpt *web_gpt_new(double vocabulary, double context, double layers, double heads, double width, double dropout,
                        const cr_device *dev, cr_generator *g) {
    const cr_gpt_config c = {(int64_t)vocabulary, (int64_t)context, (int64_t)layers, (int64_t)heads, (int64_t)width,
                             dropout};
    return cr_gpt_new(&c, CR_F32, dev, g);
}

WEB double web_gpt_context(const cr_gpt *m) { return (double)cr_gpt_configuration(m).context; }

static cr_sampling sampling_of(const double *s) {
    return (cr_sampling){.temperature = s[0], .top_p = s[1], .top_k = (int64_t)s[2], .min_p = s[3],
                         .repetition_penalty = s[4]};
}

typedef struct taken { uint32_t *ids; int64_t n; } taken;

static bool take_token(uint32_t id, void *ctx) {
    taken *t = ctx;
    t->ids[t->n++] = id;
    return true;
}

/* Writes at most n tokens to out; returns how many, -1: a failure. */
WEB int web_gpt_generate(const cr_gpt *m, const uint32_t *prompt, int n_prompt, int n, const double *sampling,
                         cr_generator *g, uint32_t *out) {
    const cr_sampling s = sampling_of(sampling);
    taken t = {out, 0};
    return cr_gpt_generate(m, prompt, n_prompt, n, &s, g, take_token, &t) == CR_OK ? (int)t.n : -1;
}

#ifndef CR_WEB_SMALL
static bool take_row(int64_t row, uint32_t id, void *ctx) { return (void)row, take_token(id, ctx); }

/* The token after n, whose first tokens the cache holds; -1: a failure. */
WEB double web_lm_next(const cr_lm *m, const uint32_t *ids, int n, cr_cache *cache, const double *sampling,
                       cr_generator *g) {
    const cr_sampling s = sampling_of(sampling);
    const cr_prompt p = {ids, n, g, cache};
    uint32_t id = 0;
    taken t = {&id, 0};
    return cr_lm_generate_batch(m, 1, &p, &(cr_generate_options){.tokens = 1, .sampling = &s}, take_row, &t) == CR_OK &&
                   t.n ? (double)id : -1;
}

WEB cr_status web_lm_lora(cr_lm *m, int rank, double alpha, double dropout, const char *targets, cr_generator *g) {
    return cr_lm_lora(m, &(cr_lora_options){.rank = rank, .alpha = alpha, .dropout = dropout, .targets = targets}, g);
}

/* Rows of tokens and targets lie one after the other. */
WEB cr_tensor *web_lm_losses(const cr_lm *m, const int64_t *tokens, const int64_t *targets, int n,
                             const int64_t *length, bool train) {
    return cr_lm_losses(m, &(cr_samples){tokens, targets, n, length}, train);
}

/* The samples of a file, as finetune reads it. */
WEB cr_dataset *web_lm_samples(const cr_lm *m, const cr_tokenizer *t, const cr_chat *chat, const char *path) {
    uint32_t end[MAX_ENDS];
    const bool ends = cr_chat_ends(chat, false, end, MAX_ENDS) > 0;
    return cr_dataset_read(&(cr_dataset_options){.tokenizer = t, .chat = chat, .context = cr_lm_context(m),
                                                 .eos = ends ? (int64_t)end[0] : -1, .truncate = true}, 1, &path);
}

/* out: addresses of the ids and of which count, bytes, and how many there are. */
WEB void web_samples_at(const cr_dataset *d, int i, double out[3]) {
    const cr_example s = cr_dataset_at(d, i);
    out[0] = (double)(uintptr_t)s.ids;
    out[1] = (double)(uintptr_t)s.counts;
    out[2] = (double)s.n;
}
#endif

/* ---- runs of the program: messages go to stderr */
static bool is_tuning(const char *command) { return !strcmp(command, "finetune"); }

#ifdef CR_WEB_SMALL
run *finetune_open(int argc, char **argv, int *code) {
    (void)argc, (void)argv;
    *code = CLI_FAILED;
    return cli_fail("finetune needs the whole module: load({ whole: true }), or await whole()"), NULL;
}
void finetune_close(run *r) { (void)r; }
const char *const model_files[] = {NULL};
#endif

static void close_run(run *r, int code) {
    if (is_tuning(r->command->name)) finetune_close(r);
    else train_close(r, code);
}

WEB run *web_run_open(int argc, char **argv) {
    int code = CLI_OK;
    run *r = is_tuning(argv[0]) ? finetune_open(argc, argv, &code) : train_open(argc, argv, &code);
    if (!r || run_begin(r) == CLI_OK) return r;
    close_run(r, CLI_FAILED);
    return NULL;
}

/* One round: 0: it goes on, 1: it has ended and is saved, -1: it failed. */
WEB int web_run_step(run *r) {
    bool ended = false;
    int code = run_round(r, &ended);
    if (code == CLI_OK && ended && r->over) code = r->task->finish(r);
    return code != CLI_OK ? -1 : ended;
}

WEB bool web_run_save(run *r) {
    run_save(r, &r->bar);
    return !r->saved.unsaved;
}

enum { RUN_NUMBERS = 10 };
WEB void web_run_look(const run *r, double out[RUN_NUMBERS]) {
    const series *val = &r->log.val;
    const double now[RUN_NUMBERS] = {
        (double)r->at.step, (double)r->s->steps, r->at.last.loss, r->at.last.lr, r->at.last.norm, r->at.seconds,
        val->n ? (double)val->at[val->n - 1].step : -1, val->n ? val->at[val->n - 1].value : NAN,
        (double)cr_params_numel(r->weights.trained), (double)r->s->seed};
    memcpy(out, now, sizeof now);
}

WEB const cr_gpt       *web_run_model(const run *r) { return r->weights.model; }
WEB const cr_tokenizer *web_run_tokenizer(const run *r) { return r->data.tokenizer; }

WEB void web_run_close(run *r) { close_run(r, CLI_OK); }
