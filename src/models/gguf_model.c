/* gguf_model.c - models in GGUF files: the names of tensors and the entries that llama.cpp gives to
 * GPT-2, Llama, Qwen 2 and 3, and those of Hugging Face's files.
 *
 * llama.cpp turns neighbouring elements of a head in a "llama", not the pairs (i, i + D / 2): the rows of
 * its query and key weights are in another order. */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/gguf.h"

/* "%": the number of a layer; without .weight or .bias */
static const char *const names[][3] = {
    {"token_embd", "wte", "embed_tokens"},
    {"position_embd", "wpe", NULL},
    {"output_norm", "ln_f", "norm"},
    {"output", "lm_head", "lm_head"},
    {"blk.%.attn_norm", "h.%.ln_1", "layers.%.input_layernorm"},
    {"blk.%.attn_qkv", "h.%.attn.c_attn", NULL},
    {"blk.%.attn_q", NULL, "layers.%.self_attn.q_proj"},
    {"blk.%.attn_k", NULL, "layers.%.self_attn.k_proj"},
    {"blk.%.attn_v", NULL, "layers.%.self_attn.v_proj"},
    {"blk.%.attn_q_norm", NULL, "layers.%.self_attn.q_norm"},
    {"blk.%.attn_k_norm", NULL, "layers.%.self_attn.k_norm"},
    {"blk.%.attn_output", "h.%.attn.c_proj", "layers.%.self_attn.o_proj"},
    {"blk.%.ffn_norm", "h.%.ln_2", "layers.%.post_attention_layernorm"},
    {"blk.%.ffn_gate", NULL, "layers.%.mlp.gate_proj"},
    {"blk.%.ffn_up", "h.%.mlp.c_fc", "layers.%.mlp.up_proj"},
    {"blk.%.ffn_down", "h.%.mlp.c_proj", "layers.%.mlp.down_proj"},
};
enum { NAMES = sizeof names / sizeof *names, GGUF = 0, GPT2 = 1, LLAMA = 2 };
static const char *const kinds[] = {"gpt2", "llama", "mistral", "qwen2", "qwen3"};

/* Does the pattern fit all n bytes of name?  *number: the digits at its "%". */
static bool fits(const char *pattern, const char *name, size_t n, const char **digits, int *count) {
    const char *end = name + n;
    *count = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '%') {
            if (name == end || *name++ != *pattern) return false;
            continue;
        }
        *digits = name;
        while (name < end && *name >= '0' && *name <= '9') name++, ++*count;
        if (!*count || *count > 9) return false;
    }
    return name == end;
}

/* The name in another column of the table, or the same if it is in none. */
static void translate(const char *name, int from, int to, char *out, size_t room) {
    const char *dot = strrchr(name, '.'), *digits = "";
    int count = 0;
    snprintf(out, room, "%s", name);
    for (int i = 0; dot && i < NAMES; i++) {
        if (!names[i][from] || !names[i][to]) continue;
        if (!fits(names[i][from], name, (size_t)(dot - name), &digits, &count)) continue;
        const char *p = names[i][to], *hole = strchr(p, '%');
        if (hole) snprintf(out, room, "%.*s%.*s%s%s", (int)(hole - p), p, count, digits, hole + 1, dot);
        else snprintf(out, room, "%s%s", p, dot);
        return;
    }
}

/* Rows of a head: halves one after the other <-> neighbours; weight (H D, C) or bias (H D). */
static cr_tensor *reorder(cr_tensor *t, int64_t H, bool to_halves) {
    const int64_t rows = cr_size(t, 0), D = H ? rows / H : 0;
    if (!H || rows != H * D || D % 2) return t;     /* of a shape that is refused later */
    const int64_t C = cr_ndim(t) == 2 ? cr_size(t, 1) : 1;
    cr_tensor *y = cr_reshape(t, CR_LIST(H, to_halves ? D / 2 : 2, to_halves ? 2 : D / 2, C));
    y = cr_transpose(y, 1, 2);
    return cr_ndim(t) == 2 ? cr_reshape(y, CR_LIST(rows, C)) : cr_reshape(y, CR_LIST(rows));
}

static bool is_turned(const char *name) {           /* a query's or key's weight of a "llama" */
    return strstr(name, "self_attn.q_proj.") || strstr(name, "self_attn.k_proj.");
}

/* ---- reading ---- */
typedef struct source { const char *op, *path, *kind; const cr_json *said; cr_out *o; cr_status status; } source;

static const cr_json *said(const source *s, const char *key) {
    char full[128];
    if (!strncmp(key, "general.", 8)) return cr_json_get(s->said, key);
    snprintf(full, sizeof full, "%s.%s", s->kind, key);
    return cr_json_get(s->said, full);
}

/* One entry of config.json; GGUF keeps f32. */
static void copy_entry(source *s, const char *key, const char *as, bool needed) {
    const cr_json *v = said(s, key);
    if (!v && needed && s->status == CR_OK)
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s' does not say \"%s.%s\"", s->path, s->kind, key);
    if (!v) return;
    cr_out_format(s->o, ", \"%s\": ", as);
    if (v->kind == CR_JSON_NUMBER && !v->integral) cr_out_format(s->o, "%.7g", v->number);
    else cr_put_json(s->o, v);
}

static double number_of(const source *s, const char *key, double absent) {
    const cr_json *v = said(s, key);
    return v && v->kind == CR_JSON_NUMBER ? v->number : absent;
}

static cr_tensor *find(const cr_params *p, const char *name) {
    for (int64_t i = 0; i < cr_params_count(p); i++) if (!strcmp(cr_params_name(p, i), name)) return cr_params_at(p, i);
    return NULL;
}

/* The part of pair i of D / 2 that "llama3" does not stretch: it divides its frequency by
 * 1 / (keep + (1 - keep) / factor). */
static double kept(double base, double low, double high, double trained, int64_t i, int64_t D) {
    const double f = pow(base, -2.0 * (double)i / (double)D);
    return fmin(fmax((trained * f / (2 * acos(-1)) - low) / (high - low), 0), 1);
}

/* Llama 3 stretches slow pairs: the file has the divisors of all; those of Meta's numbers are recognized. */
static void put_llama3(source *s, const cr_tensor *divisors) {
    const int64_t half = cr_numel(divisors), D = 2 * half;
    const double base = number_of(s, "rope.freq_base", 1e4);
    double *d = malloc((size_t)(half + 1) * sizeof *d), factor = 1;
    if (!d || cr_read(divisors, CR_F64, d, (size_t)half * sizeof *d)) {
        s->status = cr_error() ? cr_error_status() : cr_fail(CR_NO_MEMORY, s->op, "no memory for '%s'", s->path);
        free(d);
        return;
    }
    bool same = half > 0;
    const double last = kept(base, 1, 4, 8192, half - 1, D);
    if (same && last < 1) factor = (1 - last) / (1 / d[half - 1] - last);       /* of the slowest pair */
    if (fabs(factor - round(factor)) < 1e-3 * factor) factor = round(factor);   /* the file has f32 */
    for (int64_t i = 0; i < half; i++) {
        const double keep = kept(base, 1, 4, 8192, i, D);
        same &= fabs(d[i] * (keep + (1 - keep) / factor) - 1) < 1e-3;
    }
    free(d);
    if (!same) {
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s': rope_freqs.weight has other divisors than Llama 3", s->path);
        return;
    }
    cr_out_format(s->o, ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": %.7g, \"low_freq_factor\": 1.0,"
                        " \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}", factor);
}

static void put_scaling(source *s) {
    const cr_json *type = said(s, "rope.scaling.type");
    if (!type || type->kind != CR_JSON_STRING || !strcmp(type->text, "none")) return;
    cr_out_format(s->o, ", \"rope_scaling\": {\"rope_type\": ");
    cr_put_json(s->o, type);
    cr_out_format(s->o, ", \"factor\": %.7g", number_of(s, "rope.scaling.factor", 1));
    if (said(s, "rope.scaling.original_context_length"))
        copy_entry(s, "rope.scaling.original_context_length", "original_max_position_embeddings", true);
    cr_out_format(s->o, "}");
}

/* The ids of the file's tokenizer, which config.json has too. */
static void put_special(const source *s) {
    static const char *const roles[] = {"bos_token_id", "eos_token_id"};
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "tokenizer.ggml.%s", roles[i]);
        const cr_json *id = cr_json_get(s->said, key);
        if (id && id->integral) cr_out_format(s->o, ", \"%s\": %lld", roles[i], (long long)id->integer);
    }
}

static void put_config(source *s, const cr_params *p) {
    const cr_tensor *table = find(p, "token_embd.weight"), *divisors = find(p, "rope_freqs.weight");
    const bool gpt = !strcmp(s->kind, "gpt2"), window = said(s, "attention.sliding_window") != NULL;
    cr_out_format(s->o, "{\"model_type\": \"%s\"", !strcmp(s->kind, "llama") && window ? "mistral" : s->kind);
    if (!table || cr_ndim(table) != 2) {
        s->status = cr_fail(CR_BAD_VALUE, s->op, "'%s' has no matrix 'token_embd.weight'", s->path);
        return;
    }
    cr_out_format(s->o, ", \"vocab_size\": %lld, \"tie_word_embeddings\": %s", (long long)cr_size(table, 0),
                  find(p, "output.weight") && !gpt ? "false" : "true");
    put_special(s);
    copy_entry(s, "context_length", gpt ? "n_positions" : "max_position_embeddings", true);
    copy_entry(s, "embedding_length", gpt ? "n_embd" : "hidden_size", true);
    copy_entry(s, "block_count", gpt ? "n_layer" : "num_hidden_layers", true);
    copy_entry(s, "attention.head_count", gpt ? "n_head" : "num_attention_heads", true);
    if (gpt) {
        copy_entry(s, "feed_forward_length", "n_inner", false);
        copy_entry(s, "attention.layer_norm_epsilon", "layer_norm_epsilon", false);
        cr_out_format(s->o, ", \"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}");
        return;
    }
    copy_entry(s, "feed_forward_length", "intermediate_size", true);
    copy_entry(s, "attention.head_count_kv", "num_key_value_heads", false);
    copy_entry(s, "attention.key_length", "head_dim", false);
    copy_entry(s, "attention.layer_norm_rms_epsilon", "rms_norm_eps", true);
    copy_entry(s, "rope.freq_base", "rope_theta", false);
    if (window) copy_entry(s, "attention.sliding_window", "sliding_window", true);
    const bool llama = !strcmp(s->kind, "llama");
    cr_out_format(s->o, ", \"attention_bias\": %s, \"mlp_bias\": %s",
                  llama && find(p, "blk.0.attn_output.bias") ? "true" : "false",
                  find(p, "blk.0.ffn_up.bias") ? "true" : "false");
    if (divisors) put_llama3(s, divisors);
    else put_scaling(s);
    cr_out_format(s->o, "}");
}

/* All tensors by Hugging Face's names, those of queries and keys with halves. */
static cr_status rename_all(source *s, const cr_params *p, cr_params *into) {
    const int to = !strcmp(s->kind, "gpt2") ? GPT2 : LLAMA;
    const int64_t H = (int64_t)number_of(s, "attention.head_count", 0),
                  KV = (int64_t)number_of(s, "attention.head_count_kv", (double)H);
    for (int64_t i = 0; i < cr_params_count(p) && s->status == CR_OK; i++) {
        char name[256];
        if (!strcmp(cr_params_name(p, i), "rope_freqs.weight")) continue;
        translate(cr_params_name(p, i), GGUF, to, name, sizeof name);
        cr_scope_begin();
        cr_tensor *t = cr_params_at(p, i);
        if (!strcmp(s->kind, "llama") && is_turned(name)) t = reorder(t, strstr(name, "q_proj") ? H : KV, true);
        s->status = t ? cr_params_add(into, name, t) : cr_error_status();
        cr_scope_end();
    }
    return s->status;
}

cr_params *cr_load_gguf(const char *path, const cr_device *dev, char **config) {
    static const char op[] = "load_gguf";
    if (!path) return cr_fail_null(op, "the path"), NULL;
    if (!dev) return cr_fail_null(op, "the device"), NULL;
    cr_mapping m;
    char *metadata = NULL;
    if (cr_file_map(op, path, true, &m)) return NULL;
    cr_params *p = cr_gguf_load(op, path, &m, dev, &metadata), *into = p ? cr_params_new() : NULL;
    cr_json *root = into ? cr_json_parse(op, path, metadata, strlen(metadata)) : NULL;
    cr_out o = {0};
    source s = {op, path, "", root, &o, root ? CR_OK : CR_IO};
    const cr_json *kind = root ? cr_json_get(root, "general.architecture") : NULL;
    for (size_t i = 0; kind && kind->kind == CR_JSON_STRING && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i], kind->text)) s.kind = kinds[i];
    if (s.status == CR_OK && !*s.kind)
        s.status = cr_fail(CR_BAD_VALUE, op,
                           "'%s' is of the architecture %.40s: gpt2, llama, qwen2 and qwen3 are known", path,
                           kind && kind->kind == CR_JSON_STRING ? kind->text : "that it does not say");
    const bool recording = cr_set_grad_enabled(false);
    if (s.status == CR_OK) put_config(&s, p);
    if (s.status == CR_OK) s.status = rename_all(&s, p, into);
    cr_set_grad_enabled(recording);
    if (s.status == CR_OK) s.status = cr_out_check(&o, op, path);
    cr_json_free(root);
    free(metadata);
    cr_params_free(p);
    if (s.status == CR_OK && config) *config = o.text;
    else cr_out_free(&o);
    if (s.status == CR_OK) return into;
    cr_params_free(into);
    return NULL;
}

char *cr_gguf_entries(const char *path, const char *prefix) {
    static const char op[] = "gguf_entries";
    if (!path || !prefix) return cr_fail_null(op, path ? "the prefix" : "the path"), NULL;
    cr_mapping m;
    if (cr_file_map(op, path, false, &m)) return NULL;
    char *found = cr_gguf_section(op, path, &m, prefix);
    cr_os_unmap(&m);
    if (!found || strcmp(found, "{}")) return found;
    free(found);
    return NULL;
}

/* ---- writing ---- */
static void put_real(cr_out *o, const char *kind, const char *key, double v) {
    char text[40];
    snprintf(text, sizeof text, "%.9g", v);
    cr_out_format(o, ", \"%s.%s\": %s%s", kind, key, text, strpbrk(text, ".e") ? "" : ".0");
}

static void put_whole(cr_out *o, const char *kind, const char *key, int64_t v) {
    cr_out_format(o, ", \"%s.%s\": %lld", kind, key, (long long)v);
}

/* A file of this format says the factor and the length of YaRN: the rest has to be what these imply. */
static void check_yarn(cr_entries *in, double factor) {
    cr_entry_only(in, "beta_fast", 32);
    cr_entry_only(in, "beta_slow", 1);
    cr_entry_only(in, "truncate", 1);
    cr_entry_only(in, "mscale_all_dim", 0);
    const double implied = 0.1 * log(factor) + 1, said = cr_entry_number(in, "attention_factor", implied, 0, 1e6);
    if (in->status == CR_OK && fabs(said - implied) > 1e-6)
        in->status = cr_fail(CR_BAD_VALUE, in->op, "'%s': a GGUF file has no \"attention_factor\" of YaRN: it is "
                             "%g, not the %g that \"factor\" implies", in->path, said, implied);
}

/* It has the divisors of the pairs, by which readers know Llama 3's numbers only. */
static void check_llama3(cr_entries *in, double low, double high, int64_t trained) {
    if (in->status != CR_OK || (low == 1 && high == 4 && trained == 8192)) return;
    in->status = cr_fail(CR_BAD_VALUE, in->op, "'%s': a GGUF file's divisors are those of Llama 3, with "
                         "low_freq_factor 1, high_freq_factor 4 and original_max_position_embeddings 8192, "
                         "not %g, %g and %lld", in->path, low, high, (long long)trained);
}

/* It has a window of all layers, of mistral; returns that, 0: none. */
static int64_t window_of(cr_entries *e) {
    const bool mistral = !cr_entry_word(e, "model_type", "mistral|llama|qwen2|qwen3", -1);
    const int64_t window = mistral ? cr_entry_size(e, "sliding_window", cr_json_get(e->json, "sliding_window") ? 0 : 4096, 1) : 0;
    const cr_json *types = cr_json_get(e->json, "layer_types");
    if (!mistral) cr_entry_only(e, "use_sliding_window", 0);
    for (const cr_json *v = types && types->kind == CR_JSON_ARRAY ? types->first : NULL; v; v = v->next) {
        const bool slides = v->kind == CR_JSON_STRING && !strcmp(v->text, "sliding_attention");
        if (e->status == CR_OK && slides != (window > 0))
            e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': a GGUF file has the window of all layers of mistral, "
                                "not of some layers: \"layer_types\" must be %s", e->path,
                                window ? "sliding_attention" : "full_attention");
    }
    return window;
}

/* The rotation; the divisors of Llama 3 become a tensor. */
static cr_status put_rope(cr_entries *e, cr_out *o, const char *kind, int64_t D, int64_t context, cr_params *into) {
    const cr_json *new = cr_json_get(e->json, "rope_parameters"), *old = cr_json_get(e->json, "rope_scaling");
    const cr_json *found = e->json;
    if (old && old->kind == CR_JSON_OBJECT) found = old;
    if (new && new->kind == CR_JSON_OBJECT) found = new;
    cr_entries in = {e->op, e->path, found, CR_OK};
    const double base = cr_json_get(found, "rope_theta") ? cr_entry_number(&in, "rope_theta", 1e4, 1.001, 1e30)
                                                         : cr_entry_number(e, "rope_theta", 1e4, 1.001, 1e30);
    const char *words = "default|linear|yarn|llama3";
    const int type = cr_entry_word(&in, cr_json_get(found, "type") ? "type" : "rope_type", words, 0);
    put_real(o, kind, "rope.freq_base", base);
    put_whole(o, kind, "rope.dimension_count", D);
    const double factor = type ? cr_entry_number(&in, "factor", 0, 1, 1e6) : 1;
    const int64_t trained = cr_entry_size(&in, "original_max_position_embeddings", context, 1);
    if (type == 1 || type == 2) {
        cr_out_format(o, ", \"%s.rope.scaling.type\": \"%s\"", kind, type == 1 ? "linear" : "yarn");
        put_real(o, kind, "rope.scaling.factor", factor);
        if (type == 2) put_whole(o, kind, "rope.scaling.original_context_length", trained);
        if (type == 2) check_yarn(&in, factor);
    }
    const double low = type == 3 ? cr_entry_number(&in, "low_freq_factor", 0, 1e-6, 1e30) : 1,
                 high = type == 3 ? cr_entry_number(&in, "high_freq_factor", 0, low * (1 + 1e-6), 1e30) : 4;
    if (type == 3) check_llama3(&in, low, high, trained);
    if (e->status != CR_OK || in.status != CR_OK) return cr_error_status();
    if (type != 3) return CR_OK;
    double *d = malloc((size_t)(D / 2 + 1) * sizeof *d);
    if (!d) return cr_fail(CR_NO_MEMORY, e->op, "no memory for %lld divisors", (long long)D);
    for (int64_t i = 0; i < D / 2; i++) {
        const double keep = kept(base, low, high, (double)trained, i, D);
        d[i] = 1 / (keep + (1 - keep) / factor);
    }
    cr_scope_begin();
    cr_tensor *t = cr_to(cr_from(d, CR_LIST(D / 2), CR_F64, cr_cpu()), CR_F32, cr_cpu());
    cr_status status = t ? cr_params_add(into, "rope_freqs.weight", t) : cr_error_status();
    cr_scope_end();
    free(d);
    return status;
}

/* Entries by config.json; into: for tensors that they need. */
static cr_status put_entries(cr_entries *e, const char *kind, bool gpt, cr_out *o, cr_params *into, int64_t *H,
                             int64_t *KV) {
    const int64_t C = cr_entry_size(e, gpt ? "n_embd" : "hidden_size", -1, 1),
                  context = cr_entry_size(e, gpt ? "n_positions" : "max_position_embeddings", -1, 1);
    *H = cr_entry_size(e, gpt ? "n_head" : "num_attention_heads", -1, 1);
    *KV = gpt ? *H : cr_entry_size(e, "num_key_value_heads", *H, 1);
    put_whole(o, kind, "context_length", context);
    put_whole(o, kind, "embedding_length", C);
    put_whole(o, kind, "block_count", cr_entry_size(e, gpt ? "n_layer" : "num_hidden_layers", -1, 1));
    put_whole(o, kind, "feed_forward_length",
              gpt ? cr_entry_size(e, "n_inner", 4 * C, 1) : cr_entry_size(e, "intermediate_size", -1, 1));
    put_whole(o, kind, "attention.head_count", *H);
    if (gpt) put_real(o, kind, "attention.layer_norm_epsilon", cr_entry_number(e, "layer_norm_epsilon", 1e-5, 0, 1));
    if (gpt || e->status != CR_OK) return e->status;
    const int64_t D = cr_entry_size(e, "head_dim", !strcmp(kind, "qwen3") ? 128 : C / *H, 1);
    put_whole(o, kind, "attention.head_count_kv", *KV);
    put_whole(o, kind, "attention.key_length", D);
    put_whole(o, kind, "attention.value_length", D);
    put_whole(o, kind, "vocab_size", cr_entry_size(e, "vocab_size", -1, 1));
    put_real(o, kind, "attention.layer_norm_rms_epsilon", cr_entry_number(e, "rms_norm_eps", 1e-6, 0, 1));
    const int64_t window = window_of(e);
    if (window) put_whole(o, kind, "attention.sliding_window", window);
    return put_rope(e, o, kind, D, context, into);
}

cr_status cr_save_gguf(const char *path, const cr_params *tensors, const char *config, const char *tokenizer,
                       const char *type) {
    static const char op[] = "save_gguf";
    if (!path) return cr_fail_null(op, "the path");
    if (!tensors) return cr_fail_null(op, "the tensors");
    if (!config) return cr_fail_null(op, "the configuration");
    cr_json *root = cr_json_parse(op, "config.json", config, strlen(config)), *more = NULL;
    cr_params *into = root ? cr_params_new() : NULL;
    if (into && tokenizer && !(more = cr_json_parse(op, "tokenizer", tokenizer, strlen(tokenizer)))) {
        cr_params_free(into);
        into = NULL;
    }
    cr_entries e = {op, "config.json", root, into ? CR_OK : CR_BAD_VALUE};
    cr_out o = {0};
    int64_t H = 0, KV = 0;
    const int which = e.status == CR_OK ? cr_entry_word(&e, "model_type", "gpt2|llama|mistral|qwen2|qwen3", -1) : 0;
    const char *kind = kinds[which == 2 ? 1 : which];
    cr_out_format(&o, "{\"general.architecture\": \"%s\", \"general.quantization_version\": 2", kind);
    if (e.status == CR_OK) e.status = put_entries(&e, kind, which == 0, &o, into, &H, &KV);
    for (const cr_json *v = more ? more->first : NULL; v; v = v->next) {
        cr_out_put(&o, ", ", 2);
        cr_out_string(&o, v->key, v->key_bytes);
        cr_out_put(&o, ": ", 2);
        cr_put_json(&o, v);
    }
    cr_out_put(&o, "}", 1);
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(tensors) && e.status == CR_OK; i++) {
        char name[256];
        translate(cr_params_name(tensors, i), which == 0 ? GPT2 : LLAMA, GGUF, name, sizeof name);
        cr_scope_begin();
        cr_tensor *t = cr_params_at(tensors, i);
        if (!strcmp(kind, "llama") && is_turned(cr_params_name(tensors, i)))
            t = reorder(t, strstr(name, "attn_q") ? H : KV, false);
        e.status = t ? cr_params_add(into, name, t) : cr_error_status();
        cr_scope_end();
    }
    cr_set_grad_enabled(recording);
    if (e.status == CR_OK) e.status = cr_out_check(&o, op, path);
    if (e.status == CR_OK) e.status = cr_gguf_save(op, path, into, o.text, type ? type : "f16");
    cr_out_free(&o);
    cr_json_free(more);
    cr_json_free(root);
    cr_params_free(into);
    return e.status;
}
