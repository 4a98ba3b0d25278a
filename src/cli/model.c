/* model.c - what --model names: a run, a checkpoint in one, a Hugging Face folder, or a GGUF file. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../io/json.h"

static const char kinds[] = "a model is a chainrule run, a Hugging Face folder, or a GGUF file";

bool join_path(const char *dir, const char *name, char out[4096]) {
    const int n = snprintf(out, 4096, "%s/%s", dir, name);
    return n > 0 && n < 4096;
}

static bool has_file(const char *dir, const char *name) {
    char path[4096];
    return join_path(dir, name, path) && cr_os_exists(path);
}

void folder_of(const char *path, char out[4096]) {
    snprintf(out, 4096, "%s", path);
    if (cr_os_is_directory(path)) return;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
    else snprintf(out, 4096, ".");
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* A file: GGUF, or weights in one file, as cr_gpt_save writes them. */
static bool find_file(const char *path, char weights[4096], char home[4096]) {
    char folder[4096], magic[4] = "";
    folder_of(path, folder);
    snprintf(weights, 4096, "%s", path);
    snprintf(home, 4096, "%s", path);
    cr_mapping m;
    if (!cr_os_map(path, &m)) return cli_fail("cannot read '%s': %s", path, cr_os_error()), false;
    if (m.bytes >= sizeof magic) memcpy(magic, m.data, sizeof magic);
    cr_os_unmap(&m);
    if (!memcmp(magic, "GGUF", 4) || ends_with(path, ".gguf")) return true;
    if (has_file(folder, "config.json") || run_exists(folder) || run_step(folder) >= 0)
        return cli_fail("'%s' is one file of a model: give its folder, --model %s", path, folder), false;
    if (ends_with(path, ".safetensors")) return true;
    return cli_fail("'%s' is not a model: %s", path, kinds), false;
}

bool model_find(const char *path, char weights[4096], char home[4096], model_kind *kind) {
    char tokenizer[4096];
    *kind = MODEL_FILE;
    if (!cr_os_exists(path)) return cli_fail("there is no '%s': %s", path, kinds), false;
    if (!cr_os_is_directory(path)) return find_file(path, weights, home);
    *kind = MODEL_FOLDER;
    snprintf(weights, 4096, "%s", path);
    snprintf(home, 4096, "%s", path);
    if (has_file(path, "config.json")) return true;
    if (has_file(path, "adapter_config.json"))
        return cli_fail("'%s' is an adapter: give the model below it as --model, and --adapter %s", path, path), false;
    *kind = MODEL_RUN;
    if (!run_model(path, weights, tokenizer)) return false;
    if (!cr_os_is_directory(weights))
        return cli_fail("'%s' holds no model: neither config.json (Hugging Face) nor a checkpoint (chainrule train)",
                        path), false;
    *strrchr(tokenizer, '/') = 0;
    snprintf(home, 4096, "%s", tokenizer);
    return true;
}

static cr_tokenizer *tokenizer_of_run(const char *home) {
    char path[4096];
    return join_path(home, "tokenizer.json", path) ? cr_tokenizer_load(path) : NULL;
}

bool open_model(const char *path, const char *device, opened *o) {
    char weights[4096];
    model_kind kind;
    const cr_device *dev = device_named(device);
    if (!dev) return cli_fail_library(), false;
    if (!model_find(path, weights, o->home, &kind)) return false;
    o->model = cr_lm_load(weights, dev);
    if (o->model) o->tokenizer = kind == MODEL_RUN ? tokenizer_of_run(o->home) : tokenizer_near(weights, o->home);
    if (!o->tokenizer) return cli_fail_library(), false;
    if (cr_tokenizer_size(o->tokenizer) > cr_lm_vocabulary(o->model))
        return cli_fail("'%s' has %lld tokens, the model %lld: they are not from the same run", o->home,
                        (long long)cr_tokenizer_size(o->tokenizer), (long long)cr_lm_vocabulary(o->model)),
               false;
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
    for (const cr_json *e = cr_json_elements(v); e; e = e->next)
        if (e->integral) add_end(o, e->integer);
    cr_json_free(root);
}

bool open_chat(opened *o, const char *adapter, const char *form, bool answers) {
    uint32_t end[MAX_ENDS];
    char path[4200];
    if (cr_lm_is_encoder(o->model))
        return cli_fail("'%s' is an encoder, which predicts no text: chainrule embed takes it", o->home), false;
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
                    .help = "chat template: chatml, llama2, llama3, mistral, or a Jinja file; if absent, the model's"};
}

void close_model(opened *o) {
    cr_chat_free(o->chat);
    cr_lm_free(o->model);
    cr_tokenizer_free(o->tokenizer);
    *o = (opened){0};
}
