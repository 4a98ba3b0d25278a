/* generate.c - chainrule generate: text from a trained model. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

bool print_token(uint32_t id, void *decoder) {
    size_t n;
    const char *text = cr_decoder_next(decoder, id, &n);
    if (text) fwrite(text, 1, n, stdout);
    if (cr_os_is_terminal(stdout)) fflush(stdout);
    return text && !ferror(stdout) && !cr_os_interrupted();
}

void print_rest(cr_decoder *decoder) {
    size_t n;
    const char *text = cr_decoder_end(decoder, &n);
    if (text) fwrite(text, 1, n, stdout);
    cr_decoder_free(decoder);
}

/* ---- output that ends before a text */
/* Writes what cannot be the start of the stop text. */
static void show(writer *w, bool end) {
    const size_t stop = w->stop ? strlen(w->stop) : 0;
    size_t until = w->made.bytes;
    for (size_t at = w->shown; at < w->made.bytes && stop && !w->stopped; at++) {
        const size_t left = w->made.bytes - at, n = left < stop ? left : stop;
        if (memcmp(w->made.text + at, w->stop, n) || (n < stop && end)) continue;
        until = at;
        w->stopped = n == stop;
        break;
    }
    if (until > w->shown) fwrite(w->made.text + w->shown, 1, until - w->shown, stdout);
    w->shown = until;
    if (w->stopped) w->made.bytes = until;
    if (cr_os_is_terminal(stdout)) fflush(stdout);
}

bool write_row(int64_t row, uint32_t id, void *ctx) {
    writer *w = ctx;
    size_t n;
    (void)row;
    for (int64_t i = 0; i < w->n_silent; i++) if (w->silent[i] == id) return true;
    const char *text = cr_decoder_next(w->decoder, id, &n);
    if (!text && cr_error_status() == CR_BAD_INDEX) {       /* a row that only pads the model's vocabulary */
        cr_error_clear();
        return !cr_os_interrupted();
    }
    if (!text) return false;
    cr_out_put(&w->made, text, n);
    if (w->made.failed) return false;
    show(w, false);
    return !w->stopped && !ferror(stdout) && !cr_os_interrupted();
}

void write_end(writer *w) {
    size_t n;
    const char *text = w->stopped ? NULL : cr_decoder_end(w->decoder, &n);
    if (text) cr_out_put(&w->made, text, n);
    if (!w->stopped) show(w, true);
}

/* ---- options that generate and chat share */
int generation_options(generation *g, option out[GENERATION_OPTIONS]) {
    const option all[] = {
        {.name = "model", .text = &g->model, .what = "DIR",
         .help = "a chainrule run (its best weights, if kept) or a checkpoint in it, a Hugging Face folder, or a "
                 "GGUF file"},
        {.name = "adapter", .text = &g->adapter, .what = "PATH",
         .help = "an adapter of finetune --lora, of PEFT or of llama.cpp"},
        {.name = "tokens", .integer = &g->o.tokens, .help = "tokens to generate"},
        {.name = "temperature", .real = &g->s.temperature, .help = "0: always the likeliest token", .max = 1e6},
        {.name = "top-k", .integer = &g->s.top_k, .help = "only the N likeliest tokens; 0: all", .max = 0x1p31},
        {.name = "top-p", .real = &g->s.top_p, .what = "P",
         .help = "only the likeliest tokens, until their probabilities add up to P", .min = 1e-12, .max = 1},
        {.name = "min-p", .real = &g->s.min_p, .what = "P",
         .help = "only tokens at least P times as likely as the likeliest; 0: all", .max = 1},
        {.name = "repeat-penalty", .real = &g->s.repetition_penalty,
         .help = "divides positive logits of tokens that occurred by X, multiplies negative ones; 1: off",
         .min = 1e-3, .max = 1e3},
        {.name = "seed", .integer = &g->seed, .help = "the same seed gives the same text"},
        {.name = "draft", .text = &g->draft, .what = "DIR",
         .help = "a smaller model with the same vocabulary for speculative decoding: faster, and with --temperature "
                 "0 the same text"},
        {.name = "cache-dtype", .text = &g->cache, .words = "f32|f16|bf16|int8",
         .help = "dtype of the key-value cache; if absent, the weights' dtype"},
        option_device(&g->device),
        option_threads(&g->threads),
    };
    memcpy(out, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

/* CR_BOOL: the weights' */
static cr_dtype cache_named(const char *name) {
    return !name ? CR_BOOL : !strcmp(name, "int8") ? CR_I8 : half_dtype_named(name);
}

bool generation_open(generation *g) {
    if (g->threads && cr_set_num_threads((int)g->threads)) return cli_fail_library(), false;
    if (!open_model(g->model, g->device, &g->main)) return false;
    if (g->adapter && cr_lm_load_adapter(g->main.model, g->adapter, NULL)) return cli_fail_library(), false;
    if (g->draft && !open_model(g->draft, g->device, &g->small)) return false;
    g->o.sampling = &g->s;
    g->o.cache = cache_named(g->cache);
    g->o.draft = g->small.model;
    g->generator = cr_generator_new((uint64_t)g->seed);
    return g->generator || (cli_fail_library(), false);
}

void generation_close(generation *g) {
    close_model(&g->main);
    close_model(&g->small);
    cr_generator_free(g->generator);
}

/* ---- the command */
static cr_status generate(generation *g, const corpus *prompt, const char *stop, cr_cache *cache) {
    int64_t n;
    const cr_encoding how = {.all_special = true, .add_special = true};
    uint32_t *ids = cr_tokenizer_encode_special(g->main.tokenizer, prompt->bytes, prompt->n, &how, &n);
    writer w = {.decoder = ids ? cr_decoder_new(g->main.tokenizer) : NULL, .stop = stop, .silent = g->main.end,
                .n_silent = g->main.ends};
    cr_status status = w.decoder ? CR_OK : cr_error_status();
    if (w.decoder) {
        size_t bytes;
        fwrite(prompt->bytes, 1, prompt->n, stdout);
        /* the prompt is written already */
        for (int64_t i = 0; i < n; i++) cr_decoder_next(w.decoder, ids[i], &bytes);
        const cr_prompt p = {.ids = ids, .n = n, .generator = g->generator, .cache = cache};
        status = cr_lm_generate_batch(g->main.model, 1, &p, &g->o, write_row, &w);
        write_end(&w);
        printf("\n");
    }
    cr_decoder_free(w.decoder);
    cr_out_free(&w.made);
    cr_free(ids);
    return status;
}

typedef struct wanted {
    const char *text, *prompt_file, *stop, *cache_file;
    int64_t samples;
} wanted;

/* The text of --prompt, of standard input or of a file, which ends without its last line break. */
static bool read_prompt(const wanted *w, corpus *prompt) {
    const bool input = !w->prompt_file && w->text && !strcmp(w->text, "-");
    *prompt = (corpus){0};
    if (input && !corpus_input(prompt)) return false;
    const char *name = w->prompt_file;
    if (name && !corpus_read(&(file_list){.path = &name, .n = 1}, prompt)) return false;
    if ((input || w->prompt_file) && prompt->n && prompt->bytes[prompt->n - 1] == '\n') prompt->n--;
    if (input || w->prompt_file) return true;
    const char *text = w->text ? w->text : "\n";
    prompt->bytes = malloc(strlen(text) + 1);
    if (!prompt->bytes) return cli_fail("no memory for the prompt"), false;
    prompt->n = strlen(strcpy(prompt->bytes, text));
    return true;
}

/* With a cache file: the cache in it is used, and holds the text afterwards. */
static int generate_all(generation *g, const wanted *w, const corpus *prompt) {
    if (!generation_open(g) || !open_chat(&g->main, NULL, NULL, false)) return CLI_FAILED;
    g->o.stop = g->main.end;
    g->o.n_stop = g->main.ends;
    cr_cache *cache = NULL;
    const char *file = w->cache_file;
    if (file) {
        cache = cr_os_exists(file) ? cr_cache_load(g->main.model, file, g->o.cache)
                                   : cr_cache_new(g->main.model, g->o.cache);
        if (!cache) return cli_fail_library();
    }
    cr_status status = CR_OK;
    for (int64_t i = 0; i < w->samples && status == CR_OK && !cr_os_interrupted(); i++) {
        if (w->samples > 1)
            printf("%s--- sample %lld of %lld ---\n", i ? "\n" : "", (long long)i + 1, (long long)w->samples);
        status = generate(g, prompt, w->stop, cache);
    }
    int64_t held = 0;
    if (cache && status == CR_OK) cr_cache_tokens(cache, &held);
    if (held) status = cr_cache_save(cache, g->main.model, file);
    cr_cache_free(cache);
    if (cr_os_interrupted()) return CLI_STOPPED;
    return status != CR_OK ? cli_fail_library() : CLI_OK;
}

int cli_generate(int argc, char **argv) {
    generation g = {.s = {.temperature = 0.8, .top_p = 1, .repetition_penalty = 1},
                    .o = {.tokens = 300, .beams = 1, .length_penalty = 1}, .seed = 1337};
    wanted w = {.samples = 1};
    option options[GENERATION_OPTIONS + 6];
    int n = generation_options(&g, options);
    options[n++] = (option){.name = "prompt", .text = &w.text, .what = "TEXT",
                            .help = "text to continue (default a newline); -: from standard input"};
    options[n++] = (option){.name = "prompt-file", .text = &w.prompt_file, .what = "FILE",
                            .help = "file with the text to continue; its last line break is dropped"};
    options[n++] = (option){.name = "samples", .integer = &w.samples, .min = 1, .max = 1e6,
                            .help = "texts to generate, one after the other"};
    options[n++] = (option){.name = "stop", .text = &w.stop, .what = "TEXT", .help = "stop before this text"};
    options[n++] = (option){.name = "beams", .integer = &g.o.beams, .min = 1, .max = 1024,
                            .help = "beams of a beam search; 1: sampling"};
    options[n++] = (option){.name = "prompt-cache", .text = &w.cache_file, .what = "FILE",
                            .help = "file of cached keys and values: what it shares with the start of the prompt is "
                                    "not computed again; updated at the end"};
    const command c = {"generate", "--model DIR [--prompt TEXT] [options]", "Writes text with a trained model.",
                       options,    n,                                       NULL, NULL,
                       "generate --model run --prompt \"Once upon a time\" --tokens 500\n"
                       "generate --model gpt2 --prompt \"The sea\" --temperature 0\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!g.model) return usage_error(&c, "--model is needed: the folder of a run");
    if (g.draft && g.o.beams > 1) return usage_error(&c, "--beams takes no --draft");
    if (w.text && w.prompt_file) return usage_error(&c, "--prompt and --prompt-file cannot be given together");
    if (w.samples > 1 && g.o.beams > 1) return usage_error(&c, "--beams finds one text: it takes no --samples");
    corpus prompt;
    if (!read_prompt(&w, &prompt)) return CLI_FAILED;
    cr_os_catch_interrupt();
    code = generate_all(&g, &w, &prompt);
    generation_close(&g);
    free(prompt.bytes);
    return code;
}
