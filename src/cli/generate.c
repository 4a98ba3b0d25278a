/* generate.c - chainrule generate: text from a trained model. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../io/json.h"

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

/* ---- the model */
static bool has_file(const char *dir, const char *name) {
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && n < (int)sizeof path && cr_os_exists(path);
}

/* A folder of Hugging Face has config.json; else it is a GGUF file. */
static bool foreign(const char *path) {
    return has_file(path, "config.json") || (!cr_os_is_directory(path) && cr_os_exists(path));
}

bool open_model(const char *dir, const char *device, opened *o) {
    char model[4096];
    const cr_device *dev = device_named(device);
    if (!dev) return cli_fail_library(), false;
    const bool pretrained = foreign(dir);
    if (!pretrained && has_file(dir, "adapter_config.json"))
        return cli_fail("'%s' is an adapter: give the model below it as --model, and --adapter %s", dir, dir), false;
    if (pretrained) snprintf(model, sizeof model, "%s", dir);
    else if (!run_model(dir, model, o->home)) return false;
    if (!pretrained && !cr_os_is_directory(model))
        return cli_fail("'%s' holds no model: neither config.json (Hugging Face) nor a checkpoint (chainrule train)",
                        dir), false;
    o->model = cr_lm_load(model, dev);              /* first: another kind of file is no model */
    if (o->model) o->tokenizer = pretrained ? tokenizer_near(model, o->home) : cr_tokenizer_load(o->home);
    if (!o->tokenizer) return cli_fail_library(), false;
    if (cr_tokenizer_size(o->tokenizer) > cr_lm_vocabulary(o->model))
        return cli_fail("'%s' has %lld tokens, the model %lld: they are not of one run", o->home,
                        (long long)cr_tokenizer_size(o->tokenizer), (long long)cr_lm_vocabulary(o->model)),
               false;
    if (!pretrained) {                              /* tokenizer.json in it */
        char *slash = strrchr(o->home, '/');
        if (slash) *slash = 0;
        else snprintf(o->home, sizeof o->home, ".");
    }
    return true;
}

/* ---- how it is asked */
/* The text of --template: of the file of that name, else the name itself; owned; NULL: message printed. */
static char *form_text(const char *form) {
    cr_mapping m;
    const bool file = cr_os_exists(form);
    if (file && !cr_os_map(form, &m)) return cli_fail("cannot read '%s': %s", form, cr_os_error()), NULL;
    const size_t n = file ? m.bytes : strlen(form);
    char *text = malloc(n + 1);
    if (text && n) memcpy(text, file ? (const char *)m.data : form, n);
    if (text) text[n] = 0;
    else cli_fail("no memory for a template of %zu bytes", n);
    if (file) cr_os_unmap(&m);
    return text;
}

static void add_end(opened *o, int64_t id) {
    for (int64_t i = 0; i < o->ends; i++) if (o->end[i] == id) return;
    if (id >= 0 && id < cr_lm_vocabulary(o->model) && o->ends < MAX_ENDS) o->end[o->ends++] = (uint32_t)id;
}

/* Those of the model's configuration: an imported folder has no config.json. */
static void add_config_ends(opened *o) {
    const char *text = cr_lm_config(o->model);
    cr_json *root = cr_json_parse("data", "config.json", text, strlen(text));
    const cr_json *v = root ? cr_json_get(root, "eos_token_id") : NULL;
    if (v && v->integral) add_end(o, v->integer);
    for (const cr_json *e = v && v->kind == CR_JSON_ARRAY ? v->first : NULL; e; e = e->next)
        if (e->integral) add_end(o, e->integer);
    cr_json_free(root);
}

bool open_chat(opened *o, const char *adapter, const char *form, bool answers) {
    uint32_t end[MAX_ENDS];
    char path[4200];
    if (form && !*form) form = NULL;
    if (!form && adapter && has_file(adapter, "chat_template.jinja")) {
        snprintf(path, sizeof path, "%s/chat_template.jinja", adapter);
        form = path;
    }
    char *text = form ? form_text(form) : NULL;
    if (form && !text) return false;
    o->chat = cr_chat_open(o->home, o->tokenizer, text);
    free(text);
    if (!o->chat) return cli_fail_library(), false;
    const int64_t n = cr_chat_ends(o->chat, answers, end, MAX_ENDS);
    for (int64_t i = 0; i < n && i < MAX_ENDS; i++) add_end(o, end[i]);
    add_config_ends(o);
    return true;
}

/* A token by its name, else its number. */
static void say_token(const opened *o, FILE *out, const char *before, uint32_t id) {
    size_t n = 0;
    const char *name = cr_tokenizer_name(o->tokenizer, id, &n, NULL);
    cr_error_clear();
    if (name) fprintf(out, "%s%.*s", before, (int)n, name);
    else fprintf(out, "%s%u", before, (unsigned)id);
}

void say_chat(const opened *o, FILE *out) {
    const char *source = cr_chat_source(o->chat), *name = cr_chat_name(o->chat);
    if (!source) fprintf(out, "chats   no template\n");
    else fprintf(out, "chats   template %s%s%s\n", name ? name : "of ", name ? ", by " : "", source);
    int64_t n = 0;
    const int64_t at = cr_tokenizer_find(o->tokenizer, "a", 1);
    uint32_t *ids = cr_tokenizer_encode_special(o->tokenizer, "a", 1, &(cr_encoding){.add_special = true}, &n);
    cr_error_clear();                               /* a tokenizer of characters may lack this one */
    fprintf(out, "tokens ");
    bool inside = false;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes;
        bool special = false;
        const bool named = (int64_t)ids[i] != at && cr_tokenizer_name(o->tokenizer, ids[i], &bytes, &special);
        if (!named || !special) inside = true;
        else say_token(o, out, inside ? " after a text " : " before a text ", ids[i]);
    }
    cr_free(ids);
    for (int64_t i = 0; i < o->ends; i++) say_token(o, out, i ? ", " : " end ", o->end[i]);
    fprintf(out, "\n");
}

option option_template(const char **form) {
    return (option){.name = "template", .text = form, .what = "NAME|FILE",
                    .help = "of conversations: chatml, llama2, llama3, mistral, or a file in Jinja; the model's when "
                            "absent"};
}

void close_model(opened *o) {
    cr_chat_free(o->chat);
    cr_lm_free(o->model);
    cr_tokenizer_free(o->tokenizer);
    *o = (opened){0};
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
         .help = "the folder of a run of chainrule train (its best, if it has one) or of a checkpoint in it, a"
                 " folder of Hugging Face, or a GGUF file"},
        {.name = "adapter", .text = &g->adapter, .what = "DIR", .help = "an adapter of finetune --lora, or of PEFT"},
        {.name = "tokens", .integer = &g->o.tokens, .help = "how many to write"},
        {.name = "temperature", .real = &g->s.temperature, .help = "0: always the likeliest token", .max = 1e6},
        {.name = "top-k", .integer = &g->s.top_k, .help = "only the N likeliest tokens; 0: all", .max = 0x1p31},
        {.name = "top-p", .real = &g->s.top_p, .what = "P",
         .help = "only the likeliest tokens that hold P of the probability", .min = 1e-12, .max = 1},
        {.name = "min-p", .real = &g->s.min_p, .what = "P",
         .help = "only tokens at least P times as likely as the likeliest; 0: all", .max = 1},
        {.name = "repeat-penalty", .real = &g->s.repetition_penalty,
         .help = "divides the positive logits of tokens that occurred, multiplies the negative; 1: none",
         .min = 1e-3, .max = 1e3},
        {.name = "seed", .integer = &g->seed, .help = "the same seed gives the same text"},
        {.name = "draft", .text = &g->draft, .what = "DIR",
         .help = "a smaller model of the same vocabulary, whose proposals the model checks: faster, and with"
                 " --temperature 0 the same text"},
        {.name = "cache-dtype", .text = &g->cache, .words = "f32|f16|bf16|int8",
         .help = "of the cache of keys and values; the weights' when absent"},
        option_device(&g->device),
        option_threads(&g->threads),
    };
    memcpy(out, all, sizeof all);
    return (int)(sizeof all / sizeof *all);
}

/* CR_BOOL: the weights' */
static cr_dtype cache_named(const char *name) {
    return !name ? CR_BOOL : !strcmp(name, "int8") ? CR_I8 : low_named(name);
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
static cr_status generate(generation *g, const char *prompt, const char *stop, cr_cache *cache) {
    int64_t n;
    const cr_encoding how = {.all_special = true, .add_special = true};
    uint32_t *ids = cr_tokenizer_encode_special(g->main.tokenizer, prompt, strlen(prompt), &how, &n);
    writer w = {.decoder = ids ? cr_decoder_new(g->main.tokenizer) : NULL, .stop = stop, .silent = g->main.end,
                .n_silent = g->main.ends};
    cr_status status = w.decoder ? CR_OK : cr_error_status();
    if (w.decoder) {
        size_t bytes;
        fputs(prompt, stdout);
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

/* With a file: the cache in it is used, and holds the text afterwards. */
static int generate_with(generation *g, const char *prompt, const char *stop, const char *file) {
    if (!generation_open(g) || !open_chat(&g->main, NULL, NULL, false)) return CLI_FAILED;
    g->o.stop = g->main.end;
    g->o.n_stop = g->main.ends;
    cr_cache *cache = NULL;
    if (file) {
        cache = cr_os_exists(file) ? cr_cache_load(g->main.model, file, g->o.cache)
                                   : cr_cache_new(g->main.model, g->o.cache);
        if (!cache) return cli_fail_library();
    }
    cr_status status = generate(g, prompt, stop, cache);
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
    const char *prompt = NULL, *stop = NULL, *file = NULL;
    option options[GENERATION_OPTIONS + 4];
    int n = generation_options(&g, options);
    options[n++] = (option){.name = "prompt", .text = &prompt, .what = "TEXT",
                            .help = "what to go on from (default a newline)"};
    options[n++] = (option){.name = "stop", .text = &stop, .what = "TEXT", .help = "ends before this text"};
    options[n++] = (option){.name = "beams", .integer = &g.o.beams, .min = 1, .max = 1024,
                            .help = "more than 1: the likeliest text that a beam search finds"};
    options[n++] = (option){.name = "prompt-cache", .text = &file, .what = "FILE",
                            .help = "keys and values of the text: the part that the prompt begins with is not computed"
                                    " again, and the file is written"};
    const command c = {"generate", "--model DIR [--prompt TEXT] [options]", "Writes text with a trained model.",
                       options,    n,                                       NULL};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!g.model) return usage_error(&c, "--model is needed: the folder of a run");
    if (g.draft && g.o.beams > 1) return usage_error(&c, "--beams takes no --draft");
    cr_os_catch_interrupt();
    code = generate_with(&g, prompt ? prompt : "\n", stop, file);
    generation_close(&g);
    return code;
}
