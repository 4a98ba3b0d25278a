/* lm.c - pretrained language models: opens a folder of Hugging Face, a GGUF file or a checkpoint, makes
 * the model that its configuration says over its weights, and writes all three. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/formats.h"
#include "../core/os.h"
#include "../core/status.h"
#include "../io/folder.h"
#include "../io/gguf.h"

/* ---- names in Hugging Face's files: a prefix, GPT-2's matrices as (in, out), masks that are no weights ---- */

static cr_tensor *transpose_matrix(cr_tensor *t) { return cr_transpose(t, 0, 1); }

/* Is it a name of a head, which has no prefix in files? */
static bool is_bare(const cr_family *f, const char *name) {
    const char *head = cr_family_name(f, CR_ROLE_HEAD);
    for (const char *w = f->bare; w && *w;) {
        const size_t k = strcspn(w, "|");
        if (!strncmp(name, w, k)) return true;
        w += k + (w[k] == '|');
    }
    return !strncmp(name, head, strlen(head)) && name[strlen(head)] == '.';
}

/* Have the files a prefix?  Those of an encoder only where it has a head. */
static bool has_prefix(const cr_family *f, const cr_params *p) {
    if (!f->bare) return true;
    for (int64_t i = 0; i < cr_params_count(p); i++) if (is_bare(f, cr_params_name(p, i))) return true;
    return false;
}

const char *cr_lm_prefix(const cr_lm *m) { return has_prefix(m->family, m->params) ? m->family->prefix : ""; }

/* The weights of a folder by the names of the model. */
static cr_params *plain_names(const cr_params *from, const cr_family *f) {
    cr_params *p = cr_params_new();
    cr_status status = p ? CR_OK : cr_error_status();
    const size_t skip = strlen(f->prefix);
    for (int64_t i = 0; i < cr_params_count(from) && status == CR_OK; i++) {
        const char *full = cr_params_name(from, i), *name = full;
        bool taken = false;
        if (!strncmp(name, f->prefix, skip) && name[skip]) name += skip;
        if (cr_family_masks(f, name)) continue;
        if (f->features.glu_alpha > 0)
            status = cr_mxfp4_take(full, (size_t)(name - full), cr_params_at(from, i), from, p, &taken);
        if (taken || status != CR_OK) continue;
        char plain[256];
        snprintf(plain, sizeof plain, "%s", name);
        for (int k = 0; k < 2 && f->bare; k++) {    /* BERT's first files */
            char *end = strrchr(plain, '.');
            if (end && !strcmp(end, k ? ".beta" : ".gamma")) strcpy(end, k ? ".bias" : ".weight"), name = plain;
        }
        cr_scope_begin();
        cr_tensor *t = cr_params_at(from, i);
        if (cr_family_turns(f, name, t)) t = transpose_matrix(t);
        status = t ? cr_params_add(p, name, t) : cr_error_status();
        cr_scope_end();
    }
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

/* ---- loading ---- */
static bool is_same(const cr_tensor *a, const cr_tensor *b) {
    const size_t bytes = (size_t)cr_ndim(a) * sizeof(int64_t);
    if (cr_ndim(a) != cr_ndim(b) || memcmp(cr_shape(a), cr_shape(b), bytes)) return false;
    cr_scope_begin();
    const bool same = cr_item(cr_all(cr_equal(a, b), CR_ALL, false)) == 1;
    cr_scope_end();
    return same;
}

/* Is every weight used?  A head that is tied to the embedding may come twice. */
static void check_rest(cr_binder *b, const cr_family *f) {
    char table[128], head[128];
    snprintf(table, sizeof table, "%s.weight", cr_family_name(f, CR_ROLE_EMBED));
    snprintf(head, sizeof head, "%s.weight", cr_family_name(f, CR_ROLE_HEAD));
    for (int64_t i = 0; i < cr_params_count(b->from); i++) {
        const char *name = cr_params_name(b->from, i);
        if (cr_params_if(b->into, name)) continue;
        const cr_tensor *embedding = strcmp(name, head) ? NULL : cr_params_if(b->from, table);
        if (!embedding) { cr_binder_problem(b, "'%s' is not wanted", name); continue; }
        if (!is_same(cr_params_at(b->from, i), embedding))
            cr_binder_problem(b, "the configuration ties the head to the embedding, '%s' and '%s' differ", head, table);
    }
}

/* That of the first matrix, or where some are packed, of the first vector. */
static cr_dtype weights_dtype(const cr_params *p) {
    for (int axes = cr_packed_formats(p) ? 1 : 2; axes > 0; axes--)
        for (int64_t i = 0; i < cr_params_count(p); i++) {
            const cr_tensor *t = cr_params_at(p, i);
            if (cr_ndim(t) == axes && cr_dtype_is_float(cr_dtype_of(t))) return cr_dtype_of(t);
        }
    return CR_F32;
}

static cr_status finish_load(const cr_lm *m, const char *op, const char *path, cr_binder *b) {
    cr_status status = m->net ? CR_OK : cr_error_status();
    if (status == CR_OK) check_rest(b, m->family);
    if (status == CR_OK && b->listed && b->unlisted)
        status = cr_fail(CR_BAD_VALUE, op, "the weights do not fit '%s': %s and %lld more", path, b->problems.text,
                         (long long)b->unlisted);
    else if (status == CR_OK && b->listed)
        status = cr_fail(CR_BAD_VALUE, op, "the weights do not fit '%s': %s", path, b->problems.text);
    return status;
}

static cr_lm *lm_over(const char *op, const char *path, char *config, const cr_params *weights, const cr_device *dev,
                      bool shared) {
    cr_lm *m = calloc(1, sizeof *m);
    if (!m) return free(config), cr_fail(CR_NO_MEMORY, op, "no memory for a model"), NULL;
    m->config = config;
    cr_json *root = cr_json_parse(op, path, config, strlen(config));
    cr_binder b = {.from = weights, .into = root ? cr_params_new() : NULL, .dtype = weights_dtype(weights),
                   .shared = shared, .formats = cr_packed_formats(weights)};
    cr_entries e = {op, path, root, b.into ? CR_OK : CR_BAD_VALUE};
    cr_features f;
    m->params = b.into;
    const bool recording = cr_set_grad_enabled(false);
    if (e.status == CR_OK) m->family = cr_family_of(&e);
    if (e.status == CR_OK && !cr_features_read(m->family, &e, cr_family_depth(m->family, weights), &f)) {
        m->net = cr_transformer_over(op, m->family, &f, dev, &b);
        e.status = finish_load(m, op, path, &b);
    }
    cr_set_grad_enabled(recording);
    cr_out_free(&b.problems);
    if (e.status == CR_OK) {
        m->d = cr_transformer_decoder(m->net);
        e.status = cr_pooling_take(m, &e);
    }
    cr_json_free(root);
    if (e.status == CR_OK) return m;
    cr_lm_free(m);
    return NULL;
}

/* The model over weights that have its names; takes config, the text. */
cr_lm *cr_lm_over(const char *op, const char *path, char *config, const cr_params *weights, const cr_device *dev) {
    return lm_over(op, path, config, weights, dev, false);
}

/* dir: NULL, or of the file, whose modules.json is added */
static char *text_of(const char *op, const char *dir, const cr_json *v) {
    cr_out o = {0};
    cr_put_json(&o, v);
    const cr_status status = dir ? cr_pooling_read(op, dir, v, &o) : CR_OK;
    cr_out_put(&o, "", 1);
    if (status == CR_OK && !cr_out_check(&o, op, "config.json")) return o.text;
    cr_out_free(&o);
    return NULL;
}

static cr_lm *load_folder(const char *op, const char *dir, const cr_device *dev) {
    cr_path at;
    cr_json *root = cr_join(op, dir, "config.json", &at) ? NULL : cr_folder_config(op, dir);
    char *config = root ? text_of(op, dir, root) : NULL;
    cr_entries e = {op, at.s, root, CR_OK};
    const cr_family *family = config ? cr_family_of(&e) : NULL;
    cr_params *files = family ? cr_load(dir, dev) : NULL, *weights = files ? plain_names(files, family) : NULL;
    cr_lm *m = NULL;
    if (weights && !cr_pooling_weights(op, dir, root, family, dev, weights))
        m = cr_lm_over(op, at.s, config, weights, dev);
    else free(config);
    cr_params_free(weights);
    cr_params_free(files);
    cr_json_free(root);
    return m;
}

/* A checkpoint says "config", or the numbers of a GPT that was trained here. */
static char *checkpoint_config(const char *op, const char *path) {
    char *config = cr_load_metadata(path, "config");
    if (config || cr_error()) return config;
    static const char *const keys[][2] = {{"vocabulary", "vocab_size"}, {"context", "n_positions"},
                                          {"layers", "n_layer"},        {"heads", "n_head"},
                                          {"width", "n_embd"},          {"dropout", "resid_pdrop"}};
    cr_out o = {0};
    /* without the ids transformers takes those of the first GPT-2 */
    cr_out_format(&o, "{\"model_type\": \"gpt2\", \"bos_token_id\": null, \"eos_token_id\": null, \"attn_pdrop\": 0.0");
    for (int i = 0; i < 6; i++) {
        char *value = cr_load_metadata(path, keys[i][0]);
        if (!value && !cr_error())
            cr_fail(CR_BAD_VALUE, op, "'%s' does not say what model it holds: its metadata lacks \"%s\"", path,
                    keys[i][0]);
        if (!value) { cr_out_free(&o); return NULL; }
        cr_out_format(&o, ", \"%s\": %.30s", keys[i][1], value);
        if (i == 5) cr_out_format(&o, ", \"embd_pdrop\": %.30s", value);
        cr_free(value);
    }
    cr_out_format(&o, "}");
    return o.text;
}

bool cr_file_is_gguf(const char *path) {
    cr_mapping m;
    if (cr_os_is_directory(path) || !cr_os_map(path, &m)) return false;
    const bool is = cr_gguf_is(m.data, m.bytes);
    cr_os_unmap(&m);
    return is;
}

static cr_status check_checkpoint(const char *op, const char *dir) {
    char *weights = cr_training_weights(dir);
    const bool there = weights && cr_os_exists(weights);
    cr_free(weights);
    if (there || cr_error()) return cr_error_status();
    return cr_fail(CR_IO, op, "'%s' holds no model: neither config.json nor the weights of a checkpoint", dir);
}

static cr_lm *load_model(const char *op, const char *path, const cr_device *dev) {
    const bool folder = cr_os_is_directory(path);
    if (folder && cr_folder_is(path)) return load_folder(op, path, dev);
    if (folder && check_checkpoint(op, path)) return NULL;
    char *config = NULL;
    cr_params *weights = NULL;
    if (cr_file_is_gguf(path)) weights = cr_gguf_weights(path, dev, true, &config);
    else if ((config = checkpoint_config(op, path)) != NULL) weights = cr_load(path, dev);
    if (!weights) { free(config); return NULL; }
    cr_lm *m = cr_lm_over(op, path, config, weights, dev);
    cr_params_free(weights);
    return m;
}

cr_lm *cr_lm_load(const char *path, const cr_device *dev) {
    static const char op[] = "lm_load";
    if (!path) return cr_fail_null(op, "the path"), NULL;
    if (!dev) return cr_fail_null(op, "the device"), NULL;
    cr_lm *m = load_model(op, path, dev);
    if (!m || (m->path = malloc(strlen(path) + 1)) != NULL) return m ? strcpy(m->path, path), m : NULL;
    cr_lm_free(m);
    return cr_fail(CR_NO_MEMORY, op, "no memory for a path"), NULL;
}

void cr_lm_free(cr_lm *m) {
    if (!m || cr_stale("lm_free", "model", m)) return;
    cr_transformer_free(m->net);
    cr_params_free(m->params);
    cr_params_free(m->adapter);
    free(m->lora_targets);
    free(m->config);
    free(m->path);
    free(m->pooling);
    cr_retire(m);
}

/* ---- packed weights as floats ---- */
typedef struct unpacking { cr_params *into; cr_dtype dt; } unpacking;

static cr_status add_floats(void *ctx, const char *name, cr_affine *p) {
    const unpacking *u = ctx;
    char full[160];
    if (!p->packed) return CR_OK;
    snprintf(full, sizeof full, "%s.weight", name);
    cr_scope_begin();
    cr_tensor *w = cr_affine_floats(p, u->dt);
    const cr_status status = w ? cr_params_add(u->into, full, cr_requires_grad_(w, true)) : cr_error_status();
    cr_scope_end();
    return status;
}

static cr_status take_floats(void *ctx, const char *name, cr_affine *p) {
    const unpacking *u = ctx;
    char full[160];
    snprintf(full, sizeof full, "%s.weight", name);
    if (p->packed) p->weight = cr_params_if(u->into, full);
    p->packed = NULL;
    return CR_OK;
}

/* config.json no longer says that the weights are quantized. */
static cr_status drop_note(cr_lm *m) {
    char *plain = cr_config_with("lm_unpack", m->config, "quantization_config", NULL);
    if (!plain) return cr_error_status();
    free(m->config);
    m->config = plain;
    return CR_OK;
}

cr_status cr_lm_unpack(cr_lm *m) {
    if (cr_lacks("lm_unpack", "model", m)) return cr_error_status();
    if (!cr_packed_formats(m->params)) return CR_OK;
    unpacking u = {cr_params_new(), m->d.dtype};
    cr_status status = u.into ? CR_OK : cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < cr_params_count(m->params) && status == CR_OK; i++)
        if (cr_packed_format(cr_params_name(m->params, i), NULL) < 0)
            status = cr_params_add(u.into, cr_params_name(m->params, i), cr_params_at(m->params, i));
    if (status == CR_OK) status = cr_transformer_all(m->net, add_floats, &u);
    if (status == CR_OK) status = cr_transformer_all(m->net, take_floats, &u);
    cr_set_grad_enabled(recording);
    cr_params_free(status == CR_OK ? m->params : u.into);
    if (status != CR_OK) return status;
    m->params = u.into;
    m->d = cr_transformer_decoder(m->net);
    return cr_config_quantized(m->config) ? drop_note(m) : CR_OK;
}

/* ---- use ---- */
cr_params *cr_lm_params(const cr_lm *m) { return cr_lacks("lm_params", "model", m) ? NULL : m->params; }
const char *cr_lm_config(const cr_lm *m) { return cr_lacks("lm_config", "model", m) ? NULL : m->config; }
int64_t cr_lm_vocabulary(const cr_lm *m) { return cr_lacks("lm_vocabulary", "model", m) ? -1 : m->d.vocabulary; }
int64_t cr_lm_context(const cr_lm *m) { return cr_lacks("lm_context", "model", m) ? -1 : m->d.context; }

const cr_decoder *cr_lm_decoder(const cr_lm *m) { return &m->d; }

void cr_lm_gradient_checkpointing(cr_lm *m, bool on) {
    if (!cr_lacks("lm_gradient_checkpointing", "the model", m)) cr_transformer_recompute(m->net, on);
}

cr_lm *cr_lm_of(const char *config, const cr_params *weights, const cr_device *dev) {
    static const char op[] = "lm_of";
    if (!config) return cr_fail_null(op, "the configuration"), NULL;
    if (!dev) return cr_fail_null(op, "the device"), NULL;
    if (cr_lacks(op, "the weights", weights)) return NULL;
    char *text = malloc(strlen(config) + 1);
    if (!text) return cr_fail(CR_NO_MEMORY, op, "no memory for a configuration"), NULL;
    return lm_over(op, "config.json", strcpy(text, config), weights, dev, true);
}

cr_lm *cr_lm_of_files(const char *path, const char *config, const cr_params *weights, const cr_device *dev) {
    static const char op[] = "lm_load";
    cr_json *root = cr_json_parse(op, path, config, strlen(config));
    char dir[4096];
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) *slash = 0;
    char *text = root ? text_of(op, slash ? dir : NULL, root) : NULL;
    cr_entries e = {op, path, root, CR_OK};
    const cr_family *family = text ? cr_family_of(&e) : NULL;
    cr_params *plain = family ? plain_names(weights, family) : NULL;
    const bool ok = plain && (!slash || !cr_pooling_weights(op, dir, root, family, dev, plain));
    cr_lm *m = ok ? cr_lm_over(op, path, text, plain, dev) : NULL;
    if (!ok) free(text);
    cr_params_free(plain);
    cr_json_free(root);
    return m;
}

cr_lm *cr_lm_new(const char *config, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    static const char op[] = "lm_new";
    cr_lm *m = calloc(1, sizeof *m);
    if (!m) return cr_fail(CR_NO_MEMORY, op, "no memory for a model"), NULL;
    cr_json *root = cr_json_parse(op, "config.json", config, strlen(config));
    m->config = root ? text_of(op, NULL, root) : NULL;
    m->params = m->config ? cr_params_new() : NULL;
    cr_binder b = {.into = m->params, .dtype = dt, .dev = dev};
    cr_entries e = {op, "config.json", root, m->params ? CR_OK : cr_error_status()};
    cr_features f;
    const bool recording = cr_set_grad_enabled(false);
    if (e.status == CR_OK) m->family = cr_family_of(&e);
    if (e.status == CR_OK && !cr_features_read(m->family, &e, -1, &f)) {
        m->net = cr_transformer_over(op, m->family, &f, dev, &b);
        e.status = m->net ? b.status : cr_error_status();
    }
    if (e.status == CR_OK) m->d = cr_transformer_decoder(m->net), e.status = cr_pooling_take(m, &e);
    if (e.status == CR_OK && g) e.status = cr_transformer_initialise(m->net, m->params, g);
    cr_set_grad_enabled(recording);
    cr_out_free(&b.problems);
    cr_json_free(root);
    if (e.status == CR_OK) return m;
    cr_lm_free(m);
    return NULL;
}

bool cr_lm_is_of(const cr_lm *m, int64_t n, const cr_tensor *const *weights) {
    if (cr_lacks("lm_is_of", "model", m) || cr_params_count(m->params) != n) return false;
    for (int64_t i = 0; i < n; i++) if (cr_params_at(m->params, i) != weights[i]) return false;
    return true;
}

bool cr_lm_steady(const cr_lm *m) { return !cr_lacks("lm_steady", "model", m) && m->d.steady; }

void cr_lm_cache_shape(const cr_lm *m, int64_t shape[3]) {
    shape[0] = m->d.layers;
    shape[1] = m->d.kv_heads;
    shape[2] = m->d.head_dim;
}

const char *cr_lm_family(const cr_lm *m, const char **class, const char **turned_ends, const char **lora) {
    *class = m->family->class;
    *turned_ends = m->family->turned ? m->family->turned : "";
    *lora = m->family->lora;
    return cr_lm_prefix(m);
}

double cr_lm_numbers(const cr_lm *m, double *dropout, bool *length_dependent) {
    const cr_features *f = cr_transformer_features(m->net);
    *length_dependent = cr_features_grow(f);
    *dropout = f->dropout;
    return f->eps;
}

static void end_caches(cr_cache **row, int64_t n) {
    for (int64_t i = 0; row && i < n && row[i]; i++) {
        memset(row[i]->layer, 0, (size_t)row[i]->d.layers * sizeof *row[i]->layer);        /* borrowed */
        cr_cache_free(row[i]);
    }
    free(row);
}

/* A cache for each text over the stores, NULL: an error. */
static cr_cache **borrowed_caches(const cr_lm *m, const cr_lm_reading *p, int64_t n, int64_t T) {
    static const char op[] = "lm_hidden";
    const cr_dtype dt = cr_dtype_of(p->stores[0]);
    const int64_t each = dt == CR_I8 ? 4 : 2;
    cr_cache **row = calloc((size_t)n + 1, sizeof *row);
    if (!row) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld texts", (long long)n), NULL;
    for (int64_t i = 0; i < n; i++) {
        if (!(row[i] = cr_cache_for(op, &m->d, dt))) return end_caches(row, n), NULL;
        const int64_t length = p->n ? p->length[i] : T, past = p->past ? p->past[i] : 0;
        for (int64_t l = 0; l < m->d.layers; l++) {
            cr_tensor *const *t = &p->stores[(l * n + i) * each];
            row[i]->layer[l] = (cr_kv){t[0], t[1], each > 2 ? t[2] : NULL, each > 2 ? t[3] : NULL};
        }
        row[i]->room = cr_size(row[i]->layer[0].k, 2);
        row[i]->past = past;
        if (p->at || past + length <= row[i]->room) continue;
        cr_fail(CR_BAD_VALUE, op, "%lld positions do not fit the %lld of the stores", (long long)(past + length),
                (long long)row[i]->room);
        return end_caches(row, n), NULL;
    }
    return row;
}

cr_tensor *cr_lm_hidden(const cr_lm *m, const cr_tensor *tokens, const cr_lm_reading *p) {
    static const char op[] = "lm_hidden";
    static const cr_lm_reading plain = {0};
    if (cr_lacks(op, "model", m)) return NULL;
    if (!p) p = &plain;
    if (!p->n && cr_check_tokens(op, tokens, m->d.context)) return NULL;
    const int64_t n = p->n ? p->n : 1;                 /* rows of equal length share their stores */
    cr_segments *s = p->n ? cr_segments_new(n, p->length) : NULL;
    cr_cache **row = p->stores ? borrowed_caches(m, p, n, cr_size(tokens, 1)) : NULL;
    cr_tensor *y = NULL;
    if ((!p->n || s) && (!p->stores || row)) {
        const cr_caches caches = {.n = n, .row = row, .at = p->at};
        cr_scope_begin();
        y = cr_transformer_pass(m->net, tokens, row ? &caches : NULL, s, p);
        if (y) cr_keep(y);
        cr_scope_end();
    }
    end_caches(row, n);
    cr_segments_drop(s);
    return y;
}

int64_t cr_lm_parts_count(const cr_lm *m) { return cr_transformer_parts(m->net); }

cr_status cr_lm_parts_visit(const cr_lm *m, cr_lm_visit fn, void *ctx) { return cr_transformer_visit(m->net, fn, ctx); }

cr_tensor *cr_lm_part_run(const cr_lm *m, int64_t part, const cr_tensor *x) {
    if (cr_lacks("lm_part", "model", m)) return NULL;
    cr_scope_begin();
    return cr_scope_leave(cr_transformer_part(m->net, part, x));
}

cr_tensor *cr_lm_capped(const cr_lm *m, const cr_tensor *logits) {
    cr_scope_begin();
    return cr_scope_leave(cr_transformer_capped(m->net, cr_view(logits, cr_ndim(logits), cr_shape(logits))));
}

cr_tensor *cr_lm_head(const cr_lm *m, const cr_tensor *x) {
    if (cr_lacks("lm_head", "model", m)) return NULL;
    cr_scope_begin();
    return cr_scope_leave(cr_decoder_logits(&m->d, x));
}

cr_tensor *cr_lm_head_loss(const cr_lm *m, const cr_tensor *x, const cr_tensor *targets, cr_reduction reduction) {
    if (cr_lacks("lm_head_loss", "model", m)) return NULL;
    cr_cross_entropy_options o = cr_cross_entropy_defaults();
    o.reduction = reduction;
    cr_scope_begin();
    return cr_scope_leave(cr_decoder_loss(&m->d, x, targets, &o));
}

cr_tensor *cr_lm_logits(const cr_lm *m, const cr_tensor *tokens) {
    if (cr_lacks("lm_logits", "model", m) || cr_lm_check_decoder("lm_logits", m)) return NULL;
    if (cr_check_tokens("lm_logits", tokens, m->d.context)) return NULL;
    cr_scope_begin();
    return cr_scope_leave(cr_decoder_logits(&m->d, m->d.hidden(m->d.model, tokens, NULL)));
}

cr_tensor *cr_lm_loss(const cr_lm *m, const cr_tensor *tokens, const cr_tensor *targets) {
    if (cr_lacks("lm_loss", "model", m) || cr_lm_check_decoder("lm_loss", m)) return NULL;
    if (cr_check_tokens("lm_loss", tokens, m->d.context)) return NULL;
    if (!targets) return cr_fail_null("lm_loss", "targets"), NULL;
    cr_scope_begin();
    return cr_scope_leave(cr_decoder_loss(&m->d, m->d.hidden(m->d.model, tokens, NULL), targets, NULL));
}

/* ---- saving ---- */
/* config.json, with the dtype of the weights and the class of transformers */
static char *config_for(const cr_lm *m, cr_dtype dt) {
    cr_json *root = cr_json_parse("lm_save", "config.json", m->config, strlen(m->config));
    if (!root) return NULL;
    const char *name = dt == CR_F16 ? "float16" : dt == CR_BF16 ? "bfloat16" : dt == CR_F64 ? "float64" : "float32";
    const cr_json *said = m->family->bare ? cr_json_get(root, "architectures") : NULL;     /* they tell the heads */
    const char *class = m->family->class;
    if (said && said->kind == CR_JSON_ARRAY && said->first && said->first->kind == CR_JSON_STRING)
        class = said->first->text;
    cr_out o = {0};
    cr_out_format(&o, "{\n  \"architectures\": [\"%.80s\"],\n  \"dtype\": \"%s\",\n  \"torch_dtype\": \"%s\"",
                  class, name, name);
    for (const cr_json *v = root->first; v; v = v->next) {
        if (!strcmp(v->key, "architectures") || !strcmp(v->key, "dtype") || !strcmp(v->key, "torch_dtype")) continue;
        if (cr_json_is(cr_json_get(v, "quant_method"), "mxfp4")) continue;      /* saved as floats */
        cr_out_format(&o, ",\n  ");
        cr_out_string(&o, v->key, v->key_bytes);
        cr_out_format(&o, ": ");
        cr_put_json(&o, v);
    }
    cr_out_format(&o, "\n}\n");
    cr_json_free(root);
    if (!cr_out_check(&o, "lm_save", "config.json")) return o.text;
    cr_out_free(&o);
    return NULL;
}

/* What the tensor number i is saved as, and its name: packed weights as floats, unless the model is to keep them. */
static cr_tensor *tensor_to_save(const cr_lm *m, int64_t i, cr_dtype dt, bool keeps, char *name, size_t room) {
    cr_tensor *t = cr_detach(cr_params_at(m->params, i));
    snprintf(name, room, "%s", cr_params_name(m->params, i));
    char *end = strrchr(name, '.');
    bool paired = false;
    const int format = cr_packed_format(name, &paired);
    if (t && format >= 0 && keeps) return t;
    if (t && format >= 0) {
        snprintf(end, room - (size_t)(end - name), ".weight");
        const cr_affine p = {.packed = t, .format = cr_formats[format].name, .paired = paired ? m->d.head_dim : 0};
        return cr_affine_floats(&p, dt);
    }
    return cr_to(t, dt, m->d.dev);
}

/* The weights in a dtype; for a folder by the names and in the layout of Hugging Face. */
static cr_params *weights_for(const cr_lm *m, cr_dtype dt, bool folder, bool gguf) {
    cr_params *p = cr_params_new();
    cr_status status = p ? CR_OK : cr_error_status();
    const bool keeps = !gguf && cr_config_quantized(m->config);
    const bool joins = folder && !keeps && cr_transformer_joins(m->net);
    for (int64_t i = 0; i < cr_params_count(m->params) && status == CR_OK; i++) {
        char name[300], plain[256];
        if (joins && strstr(cr_params_name(m->params, i), ".experts.")) continue;
        cr_scope_begin();
        cr_tensor *t = tensor_to_save(m, i, dt, keeps, plain, sizeof plain);
        snprintf(name, sizeof name, "%s%s", folder && !is_bare(m->family, plain) ? cr_lm_prefix(m) : "", plain);
        if (t && folder && cr_family_turns(m->family, plain, t)) t = transpose_matrix(t);
        status = t ? cr_params_add(p, name, t) : cr_error_status();
        cr_scope_end();
    }
    if (joins && status == CR_OK) status = cr_transformer_join(m->net, dt, cr_lm_prefix(m), p);
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

/* The metadata of a checkpoint: the numbers that cr_gpt_load reads too, or "config". */
static cr_status save_checkpoint(const cr_lm *m, const char *path, const char *config, cr_params *weights) {
    cr_out o = {0};
    if (m->family->gpt_keys) {
        const cr_features *c = cr_transformer_features(m->net);
        cr_out_format(&o, "{\"model\":\"gpt2\",\"vocabulary\":\"%lld\",\"context\":\"%lld\",\"layers\":\"%lld\","
                          "\"heads\":\"%lld\",\"width\":\"%lld\",\"dropout\":\"%.17g\",\"config\":",
                      (long long)c->vocabulary, (long long)c->context, (long long)c->layers, (long long)c->heads,
                      (long long)c->width, c->dropout);
    } else cr_out_format(&o, "{\"model\":\"%s\",\"config\":", m->family->kind);
    cr_out_string(&o, config, strlen(config));
    cr_out_put(&o, "}", 1);
    cr_status status = cr_out_check(&o, "lm_save", path);
    if (status == CR_OK) status = cr_training_save(path, &(cr_training){.params = weights, .metadata = o.text});
    cr_out_free(&o);
    return status;
}

typedef struct text { const uint32_t *tokens; int64_t n; } text;
static cr_status save_gguf(const cr_lm *m, const char *path, const cr_params *p, const char *config, const char *type,
                           const char *tokenizer, text calibration) {
    cr_params *importance = calibration.tokens ? cr_lm_importance(m, calibration.tokens, calibration.n) : NULL;
    const cr_status status = calibration.tokens && !importance
                                 ? cr_error_status()
                                 : cr_gguf_write(path, p, config, tokenizer, type, importance);
    cr_params_free(importance);
    return status;
}

static cr_status save_model(const cr_lm *m, const char *path, const char *format, const char *type,
                            const char *tokenizer, text calibration, int64_t shard_bytes) {
    static const char op[] = "lm_save";
    if (cr_lacks(op, "model", m)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    if (!format) return cr_fail_null(op, "the format");
    if (m->adapter)
        return cr_fail(CR_BAD_VALUE, op, "the model has an adapter: cr_lm_save_adapter writes it, and after "
                       "cr_lm_merge it is in the weights");
    const bool folder = !strcmp(format, "safetensors"), gguf = !strcmp(format, "gguf");
    if (!folder && !gguf && strcmp(format, "checkpoint"))
        return cr_fail(CR_BAD_VALUE, op, "format must be safetensors, gguf or checkpoint, not '%.20s'", format);
    const char *t = type ? type : gguf ? "f16" : "";
    const cr_dtype dt = gguf || !*t         ? m->d.dtype
                        : !strcmp(t, "f32")  ? CR_F32
                        : !strcmp(t, "f16")  ? CR_F16
                        : !strcmp(t, "bf16") ? CR_BF16
                                             : CR_BOOL;
    if (dt == CR_BOOL) return cr_fail(CR_BAD_VALUE, op, "type must be f32, f16 or bf16 in %s, not '%.20s'", format, t);
    const bool recording = cr_set_grad_enabled(false);
    char *config = config_for(m, dt);
    cr_params *p = config ? weights_for(m, dt, folder, gguf) : NULL;
    cr_status status = p ? CR_OK : cr_error_status();
    if (status == CR_OK && folder) status = cr_save_folder(path, p, config, shard_bytes);
    else if (status == CR_OK && gguf) status = save_gguf(m, path, p, config, t, tokenizer, calibration);
    else if (status == CR_OK) status = save_checkpoint(m, path, config, p);
    cr_set_grad_enabled(recording);
    cr_params_free(p);
    free(config);
    return status;
}

cr_status cr_lm_save(const cr_lm *m, const char *path, const char *format, const char *type) {
    return save_model(m, path, format, type, NULL, (text){0}, 0);
}

cr_status cr_lm_save_gguf(const cr_lm *m, const char *path, const char *type, const char *tokenizer,
                          const uint32_t *tokens, int64_t n) {
    return save_model(m, path, "gguf", type, tokenizer, (text){tokens, n}, 0);
}

cr_status cr_lm_save_folder(const cr_lm *m, const char *path, int64_t shard_bytes) {
    return save_model(m, path, "safetensors", NULL, NULL, (text){0}, shard_bytes);
}
