/* eval.c - chainrule eval: the loss, perplexity and bits per byte of a model on text, chats, or prompts and
 * completions, and its answers to questions with choices. */
#include "run.h"

#include <stdlib.h>

#include "../core/os.h"

typedef struct job {
    const char *model, *adapter, *device, *dtype, *form;
    file_list data;
    int64_t context, batch, threads;
    bool truncate, json;
    opened o;
    cr_dataset *samples;
    double *loss;                                   /* of each sample: the sum over its targets */
} job;

/* ---- losses */
/* Of the samples first .. first + n - 1, which are packed. */
static cr_status losses_of(job *j, const packing *batch, int64_t first, cr_dtype low) {
    const cr_samples p = packing_of(batch);
    const cr_device *dev = cr_device_of(cr_params_at(cr_lm_params(j->o.model), 0));
    cr_scope_begin();
    cr_status status = cr_autocast_begin(dev, low, true);
    cr_tensor *each = status == CR_OK ? cr_lm_losses(j->o.model, &p, false) : NULL;
    if (status == CR_OK) status = cr_autocast_end();
    const size_t bytes = each ? (size_t)cr_numel(each) * sizeof(double) : 0;
    double *host = each ? malloc(bytes) : NULL;
    if (!host) status = each ? CR_NO_MEMORY : cr_error_status();
    else status = cr_read(each, CR_F64, host, bytes);
    for (int64_t i = 0, k = 0; i < p.n && status == CR_OK; i++) {
        j->loss[first + i] = 0;
        for (int64_t c = cr_dataset_at(j->samples, first + i).counted; c > 0; c--) j->loss[first + i] += host[k++];
    }
    free(host);
    cr_scope_end();
    return status;
}

static cr_status all_losses(job *j) {
    packing batch = {0};
    cr_status status = CR_OK;
    int64_t first = 0;
    const cr_dtype low = half_dtype_named(j->dtype);
    const int64_t n = cr_dataset_count(j->samples);
    const bool grad = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < n && status == CR_OK; i++) {
        if (!packing_add(&batch, j->samples, i)) status = CR_NO_MEMORY;
        if (status != CR_OK || (i + 1 < n && batch.tokens < j->batch * j->context)) continue;
        status = cr_os_interrupted() ? CR_INTERRUPTED : losses_of(j, &batch, first, low);
        first = i + 1;
        batch.tokens = batch.samples = 0;
    }
    cr_set_grad_enabled(grad);
    packing_free(&batch);
    return status;
}

/* ---- results */
static void print_json(const job *j, const cr_score *r, double seconds) {
    char model[4096], adapter[4096], n[6][32];
    json_escape(j->model, model, sizeof model);
    json_escape(j->adapter ? j->adapter : "", adapter, sizeof adapter);
    printf("{\"model\": \"%s\", \"adapter\": %s%s%s, \"samples\": %lld, \"tokens\": %lld, \"bytes\": %lld, "
           "\"loss\": %s, \"perplexity\": %s, \"bits_per_byte\": %s, \"questions\": %lld, \"accuracy\": %s, "
           "\"accuracy_by_length\": %s, \"seconds\": %s}\n",
           model, j->adapter ? "\"" : "", j->adapter ? adapter : "null", j->adapter ? "\"" : "",
           (long long)r->samples, (long long)r->tokens, (long long)r->bytes, json_number(r->loss, n[0]),
           json_number(r->perplexity, n[1]), json_number(r->bits_per_byte, n[2]), (long long)r->questions,
           json_number(r->accuracy, n[3]), json_number(r->accuracy_by_length, n[4]), json_number(seconds, n[5]));
}

static void print_text(const job *j, const cr_score *r, double seconds) {
    if (r->samples)
        printf("loss        %.4f nats a token, over %lld tokens of %lld samples\nperplexity  %.4g\n"
               "bits/byte   %.4f, over %lld bytes\n", r->loss, (long long)r->tokens, (long long)r->samples,
               r->perplexity, r->bits_per_byte, (long long)r->bytes);
    if (r->questions)
        printf("accuracy    %.4f of %lld questions; %.4f by the mean of a byte\n", r->accuracy,
               (long long)r->questions, r->accuracy_by_length);
    printf("            in %.2f s\n", seconds);
    (void)j;
}

static int evaluate(job *j) {
    if (!open_model(j->model, j->device, &j->o)) return CLI_FAILED;
    if (j->adapter && cr_lm_load_adapter(j->o.model, j->adapter, NULL)) return cli_fail_library();
    if (!open_chat(&j->o, j->adapter, j->form, false)) return CLI_FAILED;
    say_chat(&j->o, j->json ? stderr : stdout);
    const int64_t most = cr_lm_context(j->o.model);
    if (j->context > most)
        return cli_fail("--context is %lld, the model takes at most %lld", (long long)j->context, (long long)most);
    if (!j->context) j->context = most < 1024 ? most : 1024;
    if (!(j->samples = read_data(&j->o, &j->data, j->context, j->truncate, true))) return CLI_FAILED;
    const int64_t n = cr_dataset_count(j->samples);
    if (!(j->loss = malloc((size_t)n * sizeof *j->loss))) return cli_fail("no memory for %lld samples", (long long)n);
    const double start = cr_os_seconds();
    const cr_status status = all_losses(j);
    if (status == CR_INTERRUPTED || cr_os_interrupted()) return CLI_STOPPED;
    if (status != CR_OK) return cli_fail_library();
    const cr_score r = cr_dataset_score(j->samples, j->loss);
    (j->json ? print_json : print_text)(j, &r, cr_os_seconds() - start);
    return CLI_OK;
}

int cli_eval(int argc, char **argv) {
    job j = {.dtype = "f32", .batch = 4};
    option options[] = {
        {.name = "model", .text = &j.model, .what = "DIR",
         .help = "a Hugging Face folder, a GGUF file, or a chainrule run"},
        {.name = "adapter", .text = &j.adapter, .what = "PATH",
         .help = "an adapter of finetune --lora, of PEFT or of llama.cpp"},
        {.name = "data", .files = &j.data, .what = "FILE...",
         .help = "*.jsonl: a line is {\"messages\"}, {\"prompt\", \"completion\"}, {\"text\"} or {\"question\", "
                 "\"choices\", \"answer\"}; others: text"},
        {.name = "context", .integer = &j.context, .help = "tokens per window; 0: the model's context, at most 1024",
         .max = 0x1p31 - 1},
        {.name = "batch", .integer = &j.batch, .help = "windows per batch", .min = 1, .max = 0x1p20},
        {.name = "truncate", .flag = &j.truncate, .help = "truncate longer samples instead of refusing them"},
        option_template(&j.form),
        {.name = "dtype", .text = &j.dtype, .words = "f32|bf16|f16", .help = "of products and activations"},
        {.name = "json", .flag = &j.json, .help = "print one JSON object"},
        option_device(&j.device),
        option_threads(&j.threads),
    };
    const command c = {"eval",  "--model DIR --data FILE... [--adapter DIR] [options]",
                       "Measures a model: loss, perplexity, bits per byte, multiple choice.",
                       options, sizeof options / sizeof *options, NULL, NULL,
                       "eval --model run --data book.txt\n"
                       "eval --model gpt2 --data questions.jsonl --json\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!j.model || !j.data.n) code = usage_error(&c, "--model and --data are needed");
    else if (j.threads && cr_set_num_threads((int)j.threads)) code = cli_fail_library();
    else {
        cr_os_catch_interrupt();
        code = evaluate(&j);
    }
    close_model(&j.o);
    cr_dataset_free(j.samples);
    free(j.loss);
    free(j.data.path);
    return code;
}
