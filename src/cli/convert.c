/* convert.c - chainrule import and export: a pretrained model in a folder of Hugging Face or a GGUF file
 * to a folder that chainrule uses, and back. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../io/json.h"

/* The files of a model's folder: weights, then what else belongs to it: its tokenizer, and how to generate. */
enum { COMPANIONS = 5 };                            /* the first of these */
const char *const model_files[] = {
    "config.json",             "model.safetensors",  "model.safetensors.index.json",
    "adapter_config.json",     "adapter_model.safetensors",
    "tokenizer.json",          "tokenizer.model",    "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json",       "vocab.json",         "merges.txt",            "encoder.json",
    "vocab.bpe",               "vocab.txt",          "chat_template.jinja",   "generation_config.json",
    NULL,
};

cr_tokenizer *tokenizer_near(const char *model, char home[4096]) {
    snprintf(home, 4096, "%s", model);
    cr_tokenizer *t = cr_tokenizer_load(model);
    if (t || cr_os_is_directory(model)) return t;
    cr_error_clear();                               /* a file without a tokenizer, or with one that is not known here */
    folder_of(model, home);
    return cr_tokenizer_load(home);
}

static bool write_text(const char *to, const char *name, const char *text, size_t bytes) {
    char path[4096], temporary[4096];
    FILE *f = join_path(to, name, path) ? cr_os_create_beside(path, temporary, sizeof temporary) : NULL;
    if (f) (void)fwrite(text, 1, bytes, f);                    /* a failure is found by the commit */
    const bool good = f && cr_os_commit(f, temporary, path);
    if (!good) cli_fail("cannot write '%s/%s': %s", to, name, cr_os_error());
    return good;
}

bool write_template(const cr_chat *c, const char *to) {
    const char *text = cr_chat_template(c);
    return !text || write_text(to, "chat_template.jinja", text, strlen(text));
}

/* {"bos_token": "<s>", ...} for the roles that a model has. */
static bool write_roles(const cr_chat *c, const char *to) {
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    cr_out o = {0};
    for (int i = 0; i < 4; i++) {
        const char *token = cr_chat_token(c, roles[i]);
        if (!token) continue;
        cr_out_format(&o, "%s\"%s\": ", o.bytes ? ", " : "{", roles[i]);
        cr_out_string(&o, token, strlen(token));
    }
    const bool any = o.bytes;
    cr_out_put(&o, "}\n", 2);
    const bool good = o.failed ? cli_fail("no memory") == CLI_OK
                               : !any || write_text(to, "tokenizer_config.json", o.text, o.bytes);
    cr_out_free(&o);
    return good;
}

/* What else a GGUF file says: the template of conversations, the special tokens, and those that end a text. */
static bool write_said(const char *gguf, const cr_tokenizer *t, const char *to) {
    cr_chat *c = cr_chat_open(gguf, t, NULL);
    uint32_t ends[64];
    cr_out o = {0};
    const int64_t n = cr_chat_ends(c, false, ends, 64);
    const char *bos = cr_chat_token(c, "bos_token");
    if (bos) cr_out_format(&o, "\"bos_token_id\": %lld, ", (long long)cr_tokenizer_find(t, bos, strlen(bos)));
    for (int64_t i = 0; i < n && i < 64; i++)
        cr_out_format(&o, "%s%u", i ? ", " : n > 1 ? "\"eos_token_id\": [" : "\"eos_token_id\": ", (unsigned)ends[i]);
    cr_out ids = {0};
    if (n) cr_out_format(&ids, "{%s%s}\n", o.text, n > 1 ? "]" : "");
    bool good = c ? !o.failed && !ids.failed : (cli_fail_library(), false);
    good = good && (cr_chat_name(c) || write_template(c, to)) && write_roles(c, to) &&
           (!n || write_text(to, "generation_config.json", ids.text, ids.bytes));
    cr_out_free(&ids);
    cr_out_free(&o);
    cr_chat_free(c);
    return good;
}

/* The tokenizer of a GGUF file as files in a folder. */
static bool write_tokenizer(const char *gguf, const char *to) {
    char file[4096];
    cr_tokenizer *t = cr_tokenizer_load(gguf);
    const cr_status status = t && join_path(to, "tokenizer.json", file) ? cr_tokenizer_save(t, file) : CR_IO;
    const bool good = status == CR_OK ? write_said(gguf, t, to) : (cli_fail_library(), false);
    cr_tokenizer_free(t);
    return good;
}

bool copy_companions(const char *model, const char *to) {
    char from[4096], home[4096];
    cr_tokenizer *t = tokenizer_near(model, home);
    const bool own = t && !cr_os_is_directory(home);        /* that of a GGUF file */
    cr_tokenizer_free(t);
    cr_error_clear();
    if (own) return write_tokenizer(model, to);
    folder_of(model, from);
    for (const char *const *name = model_files + COMPANIONS; *name; name++) {
        char source[4096], copy[4096];
        if (!join_path(from, *name, source) || !join_path(to, *name, copy) || !cr_os_exists(source)) continue;
        if (!cr_os_copy(source, copy))
            return cli_fail("cannot copy '%s' to '%s': %s", source, copy, cr_os_error()), false;
    }
    return true;
}

/* The tokenizer of a folder, or of the GGUF file that the model is from, as entries; NULL: there is none that
 * llama.cpp knows, which stderr says. */
static char *tokenizer_entries(const cr_lm *m, const char *from) {
    char folder[4096];
    folder_of(from, folder);
    cr_tokenizer *t = cr_tokenizer_load(folder);
    char *entries = t ? cr_tokenizer_gguf(t, folder, cr_lm_vocabulary(m)) : NULL;
    const char *why = cr_error();
    cr_tokenizer_free(t);
    if (entries) return entries;
    char said[512];
    snprintf(said, sizeof said, "%s", why ? why : "");
    cr_error_clear();
    if (!cr_os_is_directory(from)) entries = cr_gguf_entries(from, "tokenizer.");
    cr_error_clear();
    if (!entries) fprintf(stderr, "chainrule: the file has no tokenizer: %s\n", said);
    return entries;
}

typedef struct first_weights { char name[64]; } first_weights;

static void find_weights(const char *name, void *ctx) {
    first_weights *w = ctx;
    if (!strcmp(name, "model.safetensors") || !strncmp(name, "model-00001-of-", 15))
        snprintf(w->name, sizeof w->name, "%.63s", name);
}

/* Did the program write the model in this folder? */
static bool is_written(const char *dir) {
    char path[4096];
    first_weights w = {""};
    if (run_exists(dir)) return true;
    cr_os_each_entry(dir, find_weights, &w);
    char *by = *w.name && join_path(dir, w.name, path) ? cr_load_metadata(path, "written_by") : NULL;
    const bool is = by && !strcmp(by, "chainrule");
    cr_free(by);
    cr_error_clear();
    return is;
}

/* Only files that the program wrote are replaced.  False: there is another one, message printed. */
static bool may_write(const char *out, bool checkpoint) {
    char path[4096];
    if (checkpoint && join_path(out, "checkpoint", path) && cr_training_check(path))
        return cli_fail_library(), false;
    if (is_written(out)) return true;
    for (const char *const *name = model_files; *name; name++)
        if (join_path(out, *name, path) && (cr_os_exists(path) || cr_os_is_link(path)))
            return cli_fail("'%s' was not written by chainrule: move it away, or choose another --out", path), false;
    return true;
}

/* Writes the adapter, not the model: a folder of PEFT, or a GGUF file. */
static int convert_adapter(const char *path, const char *adapter, const char *to) {
    char from[4096], home[4096];
    model_kind kind;
    if (!model_find(path, from, home, &kind)) return CLI_FAILED;
    cr_lm *m = cr_lm_load(from, cr_cpu());
    const bool ok = m && !cr_lm_load_adapter(m, adapter, NULL) && !cr_lm_save_adapter(m, to);
    if (ok) fprintf(stderr, "%s: %lld parameters\n", to, (long long)cr_params_numel(cr_lm_adapter(m)));
    cr_lm_free(m);
    return ok ? CLI_OK : cli_fail_library();
}

/* path: a model; adapter: merged into its weights, or NULL. */
static int convert(const char *path, const char *adapter, const char *to, const char *format, const char *type) {
    char from[4096], model[4096];
    model_kind kind;
    if (!model_find(path, from, model, &kind)) return CLI_FAILED;
    if (strcmp(format, "gguf") && !may_write(to, !strcmp(format, "checkpoint"))) return CLI_FAILED;
    cr_lm *m = cr_lm_load(from, cr_cpu());
    if (!m || (adapter && (cr_lm_load_adapter(m, adapter, NULL) || cr_lm_merge(m))))
        return cr_lm_free(m), cli_fail_library();
    const bool checkpoint = !strcmp(format, "checkpoint"), gguf = !strcmp(format, "gguf");
    char weights[4096];
    cr_status status = CR_OK;
    char *entries = gguf ? tokenizer_entries(m, model) : NULL;
    if (checkpoint && !join_path(to, "checkpoint", weights)) status = CR_IO;
    else if (gguf) status = cr_lm_save_gguf(m, to, type, entries, NULL, 0);
    else status = cr_lm_save(m, checkpoint ? weights : to, format, type);
    if (status == CR_OK)
        fprintf(stderr, "%s: %lld tokens, context %lld, %lld parameters\n", to, (long long)cr_lm_vocabulary(m),
                (long long)cr_lm_context(m), (long long)cr_params_numel(cr_lm_params(m)));
    cr_lm_free(m);
    cr_free(entries);
    if (status != CR_OK) return cr_error() ? cli_fail_library() : cli_fail("the path '%.60s...' is too long", to);
    if (gguf) return CLI_OK;                        /* one file */
    return copy_companions(model, to) ? CLI_OK : CLI_FAILED;
}

/* Text for calibration: at most so many tokens are read. */
enum { CALIBRATION_TOKENS = 16384 };

static uint32_t *calibration(const char *model, const file_list *files, int64_t *n) {
    char home[4096];
    corpus text = {0};
    cr_tokenizer *t = tokenizer_near(model, home);
    if (!t) return cli_fail_library(), NULL;
    uint32_t *ids = corpus_read(files, &text) ? encode(t, text.bytes, text.n, n) : NULL;
    if (!ids && cr_error()) cli_fail_library();
    if (ids && *n > CALIBRATION_TOKENS) *n = CALIBRATION_TOKENS;
    free(text.bytes);
    cr_tokenizer_free(t);
    return ids;
}

int cli_quantize(int argc, char **argv) {
    const char *from = NULL, *out = NULL, *text = NULL, *type = NULL;
    int64_t bits = 0, threads = 0, n = 0;
    option options[] = {
        {.name = "model", .text = &from, .what = "PATH",
         .help = "a chainrule run, a Hugging Face folder, or a GGUF file"},
        {.name = "out", .text = &out, .what = "PATH",
         .help = "the folder to write, in Hugging Face's layout, or with --type the file"},
        {.name = "bits", .integer = &bits, .min = 4, .max = 8,
         .help = "bits per weight, 8 or 4 (default 4); the head has 8"},
        {.name = "calibrate", .text = &text, .what = "FILE",
         .help = "text typical of the model's use: its first 16,384 tokens guide the rounding"},
        {.name = "type", .text = &type, .words = "q4_k_m|q5_k_m|q6_k|q8_0|q4_0",
         .help = "write a GGUF file of this type, which llama.cpp reads, to --out"},
        option_threads(&threads),
    };
    const command c = {"quantize", "--model PATH --out PATH [options]", "Writes a model with weights of 8 to 4 bits.",
                       options,    sizeof options / sizeof *options,   NULL, NULL,
                       "quantize --model gpt2 --out gpt2-4bit\n"
                       "quantize --model run --bits 8 --out run-8bit\n"
                       "quantize --model run --type q4_k_m --calibrate text --out m.gguf\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!from || !out) return usage_error(&c, "--model and --out are needed");
    if (type && bits) return usage_error(&c, "--type %s excludes --bits", type);
    bits = bits ? bits : 4;
    if (bits != 4 && bits != 8) return usage_error(&c, "--bits must be 8 or 4, not %lld", (long long)bits);
    if (threads && cr_set_num_threads((int)threads)) return cli_fail_library();
    char weights[4096], home[4096];
    model_kind kind;
    if (!model_find(from, weights, home, &kind) || (!type && !may_write(out, false))) return CLI_FAILED;
    const file_list files = {.path = &text, .n = 1};
    uint32_t *ids = text ? calibration(home, &files, &n) : NULL;
    cr_lm *m = text && !ids ? NULL : cr_lm_load(weights, cr_cpu());
    if (!m) return cr_free(ids), cr_error() ? cli_fail_library() : CLI_FAILED;
    char *entries = type ? tokenizer_entries(m, home) : NULL;
    cr_status status = type ? cr_lm_unpack(m) : cr_lm_quantize(m, (int)bits, ids, n);
    if (status == CR_OK && type) status = cr_lm_save_gguf(m, out, type, entries, ids, n);
    else if (status == CR_OK) status = cr_lm_save(m, out, "safetensors", NULL);
    if (status == CR_OK && type) fprintf(stderr, "%s: %s\n", out, type);
    else if (status == CR_OK) fprintf(stderr, "%s: %lld bits\n", out, (long long)bits);
    cr_lm_free(m);
    cr_free(ids);
    cr_free(entries);
    if (status != CR_OK) return cli_fail_library();
    return type || copy_companions(home, out) ? CLI_OK : CLI_FAILED;
}

int cli_import(int argc, char **argv) {
    const char *from = NULL, *out = NULL, *type = NULL;
    option options[] = {
        {.name = "model", .text = &from, .what = "PATH",
         .help = "a chainrule run, a Hugging Face folder, or a GGUF file"},
        {.name = "out", .text = &out, .what = "DIR", .help = "the folder to write, for generate"},
        {.name = "dtype", .text = &type, .words = "f32|f16|bf16", .help = "of the weights; as they are when absent"},
    };
    const command c = {"import", "--model PATH --out DIR [options]", "Turns a pretrained model into a checkpoint.",
                       options,  sizeof options / sizeof *options,   NULL, NULL,
                       "import --model gpt2 --out imported\n"
                       "import --model model.gguf --dtype bf16 --out imported\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!from || !out) return usage_error(&c, "--model and --out are needed");
    return convert(from, NULL, out, "checkpoint", type);
}

static bool is_gguf_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot, ".gguf");
}

int cli_export(int argc, char **argv) {
    const char *from = NULL, *adapter = NULL, *out = NULL, *format = NULL, *type = NULL;
    bool unmerged = false;
    option options[] = {
        {.name = "model", .text = &from, .what = "PATH",
         .help = "a chainrule run, a Hugging Face folder, or a GGUF file"},
        {.name = "adapter", .text = &adapter, .what = "PATH",
         .help = "an adapter of finetune --lora, of PEFT or of llama.cpp: merged into the weights"},
        {.name = "unmerged", .flag = &unmerged,
         .help = "write the adapter only: a folder of PEFT, or llama.cpp's file where --out ends in .gguf"},
        {.name = "out", .text = &out, .what = "PATH", .help = "the folder, or the GGUF file, to write"},
        {.name = "format", .text = &format, .words = "safetensors|gguf",
         .help = "a Hugging Face folder, or one file; if absent, gguf where --out ends in .gguf"},
        {.name = "dtype", .text = &type, .words = "f32|f16|bf16|q8_0|q4_0|q4_k_m|q5_k_m|q6_k",
         .help = "dtype of the weights; if absent, unchanged, but f16 in a GGUF file, which can also hold the "
                 "types with q"},
    };
    const command c = {"export", "--model PATH --out PATH [options]", "Writes a model for other programs.",
                       options,  sizeof options / sizeof *options,    NULL, NULL,
                       "export --model run --out for-transformers\n"
                       "export --model tuned --out tuned.gguf --dtype q8_0\n"
                       "export --model llama --adapter tuned --unmerged --out adapter.gguf\n"};
    int code;
    if (!options_parse(&c, argc, argv, &code)) return code;
    if (!from || !out) return usage_error(&c, "--model and --out are needed");
    if (unmerged && (!adapter || format || type))
        return usage_error(&c, "--unmerged needs --adapter, and excludes --format and --dtype");
    if (unmerged) return convert_adapter(from, adapter, out);
    if (!format) format = is_gguf_name(out) ? "gguf" : "safetensors";
    if (type && *type == 'q' && strcmp(format, "gguf")) return usage_error(&c, "--dtype %s needs --format gguf", type);
    return convert(from, adapter, out, format, type);
}
