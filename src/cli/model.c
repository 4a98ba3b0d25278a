/* model.c - what --model names: a run, a checkpoint in one, a folder of Hugging Face, or a GGUF file. */
#include "run.h"

#include <string.h>

#include "../core/os.h"

static const char kinds[] = "a model is the folder of a run of chainrule, a folder of Hugging Face, or a GGUF file";

static bool join(const char *dir, const char *name, char out[4096]) {
    const int n = snprintf(out, 4096, "%s/%s", dir, name);
    return n > 0 && n < 4096;
}

static bool has_file(const char *dir, const char *name) {
    char path[4096];
    return join(dir, name, path) && cr_os_exists(path);
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
    return cli_fail("'%s' is no model: %s", path, kinds), false;
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
    return join(home, "tokenizer.json", path) ? cr_tokenizer_load(path) : NULL;
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
        return cli_fail("'%s' has %lld tokens, the model %lld: they are not of one run", o->home,
                        (long long)cr_tokenizer_size(o->tokenizer), (long long)cr_lm_vocabulary(o->model)),
               false;
    return true;
}

void close_model(opened *o) {
    cr_lm_free(o->model);
    cr_tokenizer_free(o->tokenizer);
    *o = (opened){0};
}
