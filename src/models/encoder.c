/* encoder.c - outputs of encoders, and embeddings of texts by any model: pooled as the files of sentence-transformers
 * beside config.json say. */
#include "lm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../io/folder.h"

/* ---- modules.json: these words in config.json's "sentence_pooling" */
enum { CLS, MAX, MEAN, MEAN_SQRT, WEIGHTED, LAST, POOLINGS,                 /* in the order of their columns */
       DENSE = POOLINGS, DENSE_TANH, NORMALIZE, RULES };
static const char words[] = "cls|max|mean|mean_sqrt|weighted|last|dense|dense_tanh|normalize";
static const char *const rules[RULES] = {"cls",  "max",   "mean",       "mean_sqrt", "weighted",
                                         "last", "dense", "dense_tanh", "normalize"};
static const char *const keys[POOLINGS] = {
    "pooling_mode_cls_token",            "pooling_mode_max_tokens", "pooling_mode_mean_tokens",
    "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"};
static const char pooling_key[] = "sentence_pooling", length_key[] = "sentence_length";

/* A file of JSON in a folder; NULL: there is none, or an error. */
static cr_json *read_file(const char *op, const char *dir, const char *name, cr_path *at) {
    cr_json *root = NULL;
    return cr_join(op, dir, name, at) || cr_json_find(op, at->s, &root) ? NULL : root;
}

static void add_rule(cr_out *o, int rule) { cr_out_format(o, "%s%s", o->bytes ? "|" : "", rules[rule]); }

/* A file in the folder of a module; false: its path is no plain name. */
static bool file_of(const cr_json *module, const char *file, char name[200]) {
    const cr_json *path = cr_json_text(module, "path");
    if (!path || !*path->text || strpbrk(path->text, "/\\:.") || path->bytes > 100) return false;
    snprintf(name, 200, "%s/%s", path->text, file);
    return true;
}

/* The config.json of a module; NULL: an error. */
static cr_json *read_module(const char *op, const char *dir, const cr_json *module, cr_path *at) {
    char name[200];
    if (!file_of(module, "config.json", name)) {
        cr_fail(CR_BAD_VALUE, op, "'%s/modules.json': the path of a module must be a plain name", dir);
        return NULL;
    }
    cr_json *root = read_file(op, dir, name, at);
    if (!root && !cr_error()) cr_fail(CR_IO, op, "'%s' is missing", at->s);
    return root;
}

/* The rules of a pooling's config.json. */
static cr_status read_pooling(const char *op, const char *dir, const cr_json *module, cr_out *o) {
    cr_path at;
    cr_json *root = read_module(op, dir, module, &at);
    if (!root) return cr_error_status();
    cr_entries e = {op, at.s, root, CR_OK};
    const size_t before = o->bytes;
    const cr_json *mode = cr_entry_at(&e, "pooling_mode");
    if (mode) {
        static const char modes[] = "cls|max|mean|mean_sqrt_len_tokens|weightedmean|lasttoken";
        add_rule(o, cr_entry_word(&e, "pooling_mode", modes, -1));
    } else
        for (int i = 0; i < POOLINGS; i++) if (cr_entry_flag(&e, keys[i], false)) add_rule(o, i);
    cr_entry_only(&e, "include_prompt", 1);
    if (e.status == CR_OK && o->bytes == before)
        e.status = cr_fail(CR_BAD_VALUE, op, "'%s': no pooling_mode is true", at.s);
    cr_json_free(root);
    return e.status;
}

static cr_status read_dense(const char *op, const char *dir, const cr_json *module, cr_out *o) {
    static const char key[] = "activation_function", known[] = "Identity|Tanh";
    cr_path at;
    cr_json *root = read_module(op, dir, module, &at);
    if (!root) return cr_error_status();
    const cr_json *said = cr_json_text(root, key);
    const char *dot = said ? strrchr(said->text, '.') : NULL, *name = dot ? dot + 1 : "Tanh";
    const bool tanh = !strcmp(name, "Tanh");
    const cr_status status = tanh || !strcmp(name, "Identity")
                                 ? CR_OK
                                 : cr_fail(CR_BAD_VALUE, op, "'%s': \"%s\" must be one of %s, it is %.60s", at.s, key,
                                           known, name);
    if (status == CR_OK) add_rule(o, tanh ? DENSE_TANH : DENSE);
    cr_json_free(root);
    return status;
}

/* The name of a module's class. */
static const char *class_of(const cr_json *module) {
    const cr_json *type = cr_json_text(module, "type");
    const char *dot = type ? strrchr(type->text, '.') : NULL;
    return dot ? dot + 1 : "of an unknown type";
}

static cr_status read_modules(const char *op, const char *dir, const cr_json *root, cr_out *o) {
    cr_status status = CR_OK;
    for (const cr_json *v = root->first; v && status == CR_OK; v = v->next) {
        const char *name = class_of(v);
        if (!strcmp(name, "Pooling")) status = read_pooling(op, dir, v, o);
        else if (!strcmp(name, "Dense")) status = read_dense(op, dir, v, o);
        else if (!strcmp(name, "Normalize")) add_rule(o, NORMALIZE);
        else if (strcmp(name, "Transformer"))
            status = cr_fail(CR_BAD_VALUE, op, "'%s/modules.json': a module %.60s, which is not read", dir, name);
    }
    return status;
}

cr_status cr_pooling_read(const char *op, const char *dir, const cr_json *config, cr_out *text) {
    cr_path at;
    if (cr_json_get(config, pooling_key)) return CR_OK;
    cr_json *modules = read_file(op, dir, "modules.json", &at);
    if (!modules) return cr_error_status();
    cr_out o = {0};
    cr_status status = modules->kind == CR_JSON_ARRAY ? read_modules(op, dir, modules, &o) : CR_OK;
    cr_json_free(modules);
    cr_json *limits = status == CR_OK ? read_file(op, dir, "sentence_bert_config.json", &at) : NULL;
    cr_entries e = {op, at.s, limits, status};
    const int64_t longest = limits ? cr_entry_size(&e, "max_seq_length", 0, 1) : 0;
    if (e.status == CR_OK && o.bytes) {
        text->bytes -= 1;                           /* the brace */
        cr_out_format(text, ", \"%s\": \"%.*s\"", pooling_key, (int)o.bytes, o.text);
        if (longest) cr_out_format(text, ", \"%s\": %lld", length_key, (long long)longest);
        cr_out_put(text, "}", 1);
    }
    cr_json_free(limits);
    cr_out_free(&o);
    return e.status;
}

/* "linear.weight" of a module as the model names it */
static cr_status add_dense(const char *op, const char *dir, const cr_json *module, const char *layer,
                           const cr_device *dev, cr_params *into) {
    char name[200];
    cr_path at;
    if (!file_of(module, "model.safetensors", name) || cr_join(op, dir, name, &at)) return cr_error_status();
    cr_params *p = cr_load(at.s, dev);
    cr_status status = p ? CR_OK : cr_error_status();
    for (int64_t i = 0; i < cr_params_count(p) && status == CR_OK; i++) {
        const char *end = strrchr(cr_params_name(p, i), '.');
        snprintf(name, sizeof name, "%s%s", layer, end ? end : ".");
        status = cr_params_add(into, name, cr_params_at(p, i));
    }
    cr_params_free(p);
    return status;
}

cr_status cr_pooling_weights(const char *op, const char *dir, const cr_json *config, const cr_family *f,
                             const cr_device *dev, cr_params *into) {
    cr_path at;
    if (cr_json_get(config, pooling_key)) return CR_OK;
    cr_json *modules = read_file(op, dir, "modules.json", &at);
    cr_status status = modules || !cr_error() ? CR_OK : cr_error_status();
    cr_role r = CR_ROLE_DENSE_1;
    for (const cr_json *v = cr_json_elements(modules); v && status == CR_OK; v = v->next) {
        if (strcmp(class_of(v), "Dense")) continue;
        if (r > CR_ROLE_DENSE_2) status = cr_fail(CR_BAD_VALUE, op, "'%s': more than two modules Dense", at.s);
        else status = add_dense(op, dir, v, cr_family_name(f, r++), dev, into);
    }
    cr_json_free(modules);
    return status;
}

/* The number of a rule in "mean|normalize"; *at moves behind it. */
static int next_rule(const char **at) {
    const size_t n = strcspn(*at, "|");
    for (int i = 0; i < RULES; i++)
        if (strlen(rules[i]) == n && !memcmp(*at, rules[i], n)) {
            *at += n + ((*at)[n] == '|');
            return i;
        }
    return -1;
}

/* Poolings come first; each dense layer takes what is before it. */
static void check_widths(const cr_lm *m, const char *text, cr_entries *e) {
    const int64_t C = cr_transformer_features(m->net)->width;
    int64_t width = 0;
    for (int dense = 0; *text && e->status == CR_OK;) {
        const int rule = next_rule(&text);
        if (rule < POOLINGS && (dense || width == POOLINGS * C))
            cr_entry_refuse(e, pooling_key, "a few poolings, then layers");
        if (rule < POOLINGS) width += C;
        if (rule < DENSE || rule > DENSE_TANH) continue;
        const cr_affine *p = dense < 2 ? cr_transformer_dense_at(m->net, dense) : NULL;
        const int64_t wants = p ? cr_affine_inputs(p) : 0, there = width ? width : C;
        if (wants != there && e->status == CR_OK)
            e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': the dense layer %d behind the pooling takes %lld numbers, "
                                "there are %lld", e->path, dense + 1, (long long)wants, (long long)there);
        width = p ? cr_affine_outputs(p) : 0;
        dense++;
    }
}

cr_status cr_pooling_take(cr_lm *m, cr_entries *e) {
    static const char usual[] = "mean";
    const cr_json *v = cr_entry_at(e, pooling_key);
    const char *text = v && v->kind == CR_JSON_STRING ? v->text : usual;
    if (v && v->kind != CR_JSON_STRING) cr_entry_refuse(e, pooling_key, "text");
    for (const char *at = text; *at && e->status == CR_OK;)
        if (next_rule(&at) < 0)
            cr_entry_refuse(e, pooling_key, words), at = "";
    if (e->status == CR_OK) check_widths(m, text, e);
    const int64_t longest = cr_entry_size(e, length_key, m->d.context, 1);
    m->longest = longest < m->d.context ? longest : m->d.context;
    m->pooling = malloc(strlen(text) + 1);
    if (!m->pooling) return cr_fail(CR_NO_MEMORY, e->op, "no memory for a model");
    strcpy(m->pooling, text);
    return e->status;
}

/* ---- pooling : (B, T, C), (B, T) or NULL -> (B, C) */
static cr_tensor *weigh_tokens(const cr_tensor *x, const cr_tensor *weight) {
    return cr_mul(x, cr_unsqueeze(weight, 2));
}

static cr_tensor *pool_tokens(int rule, const cr_tensor *x, const cr_tensor *mask) {
    const cr_device *dev = cr_device_of(x);
    const cr_dtype dt = cr_dtype_of(x);
    const int64_t T = cr_size(x, 1);
    const cr_tensor *seen = mask ? cr_to(cr_ne(mask, cr_scalar_int(0)), dt, dev)
                                 : cr_ones(CR_LIST(cr_size(x, 0), T), dt, dev);
    const cr_tensor *at = cr_mul(seen, cr_arange(1, (double)T + 1, 1, dt, dev));        /* 1, 2 ... 0 for padding */
    switch (rule) {
    case CLS: return cr_select(x, 1, 0);
    case MAX: {
        const cr_tensor *low = cr_mul_scalar(cr_add_scalar(seen, -1), 1e9);
        return cr_max(cr_add(x, cr_unsqueeze(low, 2)), CR_LIST(1), false);
    }
    case MEAN: return cr_mean_seen(x, mask);
    case MEAN_SQRT:
        return cr_div(cr_sum(weigh_tokens(x, seen), CR_LIST(1), false),
                      cr_sqrt(cr_clamp(cr_sum(seen, CR_LIST(1), true), 1e-9, INFINITY)));
    case WEIGHTED:
        return cr_div(cr_sum(weigh_tokens(x, at), CR_LIST(1), false),
                      cr_clamp(cr_sum(at, CR_LIST(1), true), 1e-9, INFINITY));
    default: break;
    }
    const cr_tensor *last = cr_to(cr_eq(at, cr_max(at, CR_LIST(1), true)), dt, dev);
    return cr_sum(weigh_tokens(x, last), CR_LIST(1), false);
}

static cr_tensor *embed_sentence(const cr_lm *m, const cr_tensor *x, const cr_tensor *mask, const cr_lm_parts *parts) {
    const cr_tensor *part[POOLINGS];
    int n = 0, dense = 0;
    bool normalizes = false, tanh[2];
    for (const char *at = m->pooling; *at;) {
        const int rule = next_rule(&at);
        if (rule == NORMALIZE) normalizes = true;
        else if (rule >= DENSE) tanh[dense++] = rule == DENSE_TANH;
        else if (n < POOLINGS) part[n++] = pool_tokens(rule, x, mask);
    }
    if (!n) part[n++] = cr_mean_seen(x, mask);
    cr_tensor *y = cr_cat(n, part, 1);
    for (int i = 0; i < dense && y; i++) {
        y = cr_transformer_dense(m->net, i, y, parts);
        if (tanh[i] && y) y = cr_tanh(y);
    }
    if (!normalizes) return y;
    return cr_div(y, cr_clamp(cr_sqrt(cr_sum(cr_mul(y, y), CR_LIST(1), true)), 1e-12, INFINITY));
}

/* ---- the public functions */
bool cr_lm_is_encoder(const cr_lm *m) {
    return !cr_lacks("lm_is_encoder", "model", m) && cr_transformer_features(m->net)->encoder;
}

cr_status cr_lm_check_decoder(const char *op, const cr_lm *m) {
    if (!cr_transformer_features(m->net)->encoder) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "the model is an encoder, %s: it predicts no next token", m->family->kind);
}

const char *cr_lm_pooling(const cr_lm *m, int64_t *length) {
    if (cr_lacks("lm_pooling", "model", m)) return NULL;
    if (!length) return cr_fail_null("lm_pooling", "length"), NULL;
    *length = m->longest;
    return m->pooling;
}

bool cr_lm_gives(const cr_lm *m, cr_lm_output what) {
    if (cr_lacks("lm_gives", "model", m)) return false;
    return what == CR_OUTPUT_SENTENCE || (cr_lm_is_encoder(m) && cr_transformer_gives(m->net, what));
}

cr_tensor *cr_lm_output_of(const cr_lm *m, cr_lm_output what, const cr_tensor *x, const cr_tensor *mask,
                           const cr_lm_parts *parts) {
    static const char op[] = "lm_output_of";
    if (cr_lacks(op, "model", m)) return NULL;
    if (!x) return cr_fail_null(op, "x"), NULL;
    if (!cr_lm_gives(m, what)) {
        cr_fail(CR_BAD_VALUE, op, "the weights of the model have no %s",
                what == CR_OUTPUT_POOLED ? "pooler" : "head for logits");
        return NULL;
    }
    cr_scope_begin();
    cr_tensor *y = what == CR_OUTPUT_SENTENCE ? embed_sentence(m, x, mask, parts)
                                              : cr_transformer_output(m->net, what, x, mask, parts);
    return cr_scope_leave(y);
}

static cr_status check_texts(const cr_lm *m, int64_t n, const int64_t *length, const uint32_t *ids, int64_t *total) {
    static const char op[] = "lm_embed";
    if (n < 1) return cr_fail(CR_BAD_VALUE, op, "takes at least one text, not %lld", (long long)n);
    *total = 0;
    for (int64_t i = 0; i < n; *total += length[i++])
        if (length[i] < 1 || length[i] > m->d.context)
            return cr_fail(CR_BAD_VALUE, op, "text %lld has %lld tokens: the model takes 1 to %lld", (long long)i,
                           (long long)length[i], (long long)m->d.context);
    for (int64_t i = 0; i < *total; i++)
        if (ids[i] >= m->d.vocabulary)
            return cr_fail(CR_BAD_INDEX, op, "token %lld is %u: the vocabulary has %lld", (long long)i, ids[i],
                           (long long)m->d.vocabulary);
    return CR_OK;
}

cr_tensor *cr_lm_embed(const cr_lm *m, int64_t n, const int64_t *length, const uint32_t *ids) {
    int64_t total = 0;
    if (cr_lacks("lm_embed", "model", m)) return NULL;
    if (!length || !ids) return cr_fail_null("lm_embed", "the tokens"), NULL;
    if (check_texts(m, n, length, ids, &total)) return NULL;
    cr_segments *s = cr_segments_new(n, length);
    const cr_tensor **row = malloc((size_t)n * sizeof *row);
    if (!s || !row) cr_fail(CR_NO_MEMORY, "lm_embed", "no memory for %lld texts", (long long)n);
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    const cr_tensor *tokens = cr_to(cr_from(ids, CR_LIST(1, total), CR_U32, m->d.dev), CR_I64, m->d.dev);
    cr_tensor *x = s && row ? m->d.packed(m->d.model, tokens, s) : NULL, *y = NULL;
    for (int64_t i = 0, at = 0; x && i < n; at += length[i++])
        row[i] = embed_sentence(m, cr_slice(x, 1, at, at + length[i], 1), NULL, NULL);
    if (x) y = cr_cat((int)n, row, 0);
    if (y) cr_keep(y);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    free(row);
    cr_segments_drop(s);
    return y;
}
