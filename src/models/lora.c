/* lora.c - low-rank adapters (Hu et al. 2021) of the language models' linear layers, and their files, PEFT's folders
 * and llama.cpp's GGUF: y = base(x) + scale (x A^T) B^T, A (r, C) and B (OC, r).  The weights below stay as they
 * are: gradients flow to A and B only. */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/folder.h"

static const char peft_prefix[] = "base_model.model.", config_name[] = "adapter_config.json",
                  weights_name[] = "adapter_model.safetensors";

cr_lora_options cr_lora_defaults(void) { return (cr_lora_options){.rank = 8, .alpha = 16}; }

/* ---- layers by name ---- */
static cr_status each_affine(cr_lm *m, cr_named_affine fn, void *ctx) {
    return cr_transformer_each(m->net, fn, ctx);
}

/* Is target the end of a name, from a dot on?  As PEFT compares them. */
static bool is_end(const char *name, const char *target, size_t bytes) {
    const size_t n = strlen(name);
    return n >= bytes && !memcmp(name + n - bytes, target, bytes) && (n == bytes || name[n - bytes - 1] == '.');
}

/* The next of the words "a,b"; *bytes 0: it is empty. */
static const char *next_word(const char *words, size_t *bytes) {
    *bytes = strcspn(words, ",");
    return words[*bytes] ? words + *bytes + 1 : NULL;
}

static bool is_wanted(const char *targets, const char *name) {
    size_t n;
    for (const char *w = targets, *next; w; w = next) {
        next = next_word(w, &n);
        if (is_end(name, w, n)) return true;
    }
    return false;
}

typedef struct known { cr_out names; const char *word; size_t bytes; bool found; } known;

/* Lists the last parts of names, each once. */
static cr_status list_layer(void *ctx, const char *name, cr_affine *p) {
    (void)p;
    known *k = ctx;
    const char *last = strrchr(name, '.') + 1;
    k->found |= k->word && is_end(name, k->word, k->bytes);
    cr_out_put(&k->names, "", 0);
    if (k->names.text && is_wanted(k->names.text, last)) return CR_OK;
    cr_out_format(&k->names, "%s%s", k->names.bytes ? "," : "", last);
    return CR_OK;
}

/* "c_attn,c_proj,c_fc": all there are; owned (free). */
static char *all_targets(cr_lm *m) {
    known k = {0};
    (void)each_affine(m, list_layer, &k);
    if (!cr_out_check(&k.names, "lm_lora", "targets")) return k.names.text;
    cr_out_free(&k.names);
    return NULL;
}

static cr_status check_targets(cr_lm *m, const char *op, const char *targets) {
    size_t n;
    cr_status status = CR_OK;
    for (const char *w = targets, *next; w && status == CR_OK; w = next) {
        next = next_word(w, &n);
        known k = {.word = w, .bytes = n};
        (void)each_affine(m, list_layer, &k);
        if (!n || !k.found)
            status = cr_fail(CR_BAD_VALUE, op, "the model has no linear layers named '%.*s': there are %s",
                             n < 60 ? (int)n : 60, w, k.names.text ? k.names.text : "none");
        cr_out_free(&k.names);
    }
    return status;
}

static char *json_of(const char *op, const char *targets) {
    cr_out o = {0};
    size_t n;
    for (const char *w = targets, *next; w; w = next) {
        next = next_word(w, &n);
        cr_out_put(&o, w == targets ? "[" : ", ", w == targets ? 1 : 2);
        cr_out_string(&o, w, n);
    }
    cr_out_put(&o, "]", 2);                         /* and the NUL */
    if (!cr_out_check(&o, op, "the targets")) return o.text;
    cr_out_free(&o);
    return NULL;
}

/* ---- attaching ---- */
static cr_status set_base(cr_lm *m, bool trains) {
    for (int64_t i = 0; i < cr_params_count(m->params); i++) {
        cr_tensor *t = cr_params_at(m->params, i);
        if (!cr_dtype_is_float(cr_dtype_of(t))) continue;          /* packed */
        if (!cr_requires_grad_(t, trains) || (!trains && cr_set_grad(t, CR_NONE))) return cr_error_status();
    }
    return CR_OK;
}

static cr_status take_off(void *ctx, const char *name, cr_affine *p) {
    (void)ctx, (void)name;
    p->lora_a = p->lora_b = NULL;
    return CR_OK;
}

static void detach_adapter(cr_lm *m) {
    (void)each_affine(m, take_off, NULL);
    cr_params_free(m->adapter);
    free(m->lora_targets);
    m->adapter = NULL;
    m->lora_targets = NULL;
}

typedef struct attach {
    cr_lm *m;
    const char *op, *targets;
    const cr_params *from;                          /* a file's weights by their names there; NULL: new ones */
    cr_binder problems;
    cr_generator *g;
    double scale;
    int64_t used;
} attach;

static void file_name(const cr_lm *m, const char *name, char out[300]) {
    snprintf(out, 300, "%s%s%s", peft_prefix, cr_lm_prefix(m), name);
}

static const cr_tensor *in_file(const attach *a, const char *name) {
    char full[300];
    file_name(a->m, name, full);
    for (int64_t i = 0; i < cr_params_count(a->from); i++)
        if (!strcmp(cr_params_name(a->from, i), full)) return cr_params_at(a->from, i);
    return NULL;
}

/* A new matrix of the adapter, or the file's; NULL: an error, or a problem that the binder lists. */
static cr_tensor *new_matrix(attach *a, const char *layer, const char *part, int64_t rows, int64_t columns) {
    char name[140];
    snprintf(name, sizeof name, "%s.lora_%s.weight", layer, part);
    const cr_dtype dt = a->m->d.dtype == CR_F64 ? CR_F64 : CR_F32;
    cr_tensor *t = NULL;
    cr_scope_begin();
    if (!a->from) {
        t = cr_zeros(CR_LIST(rows, columns), dt, a->m->d.dev);
        if (t && *part == 'A' && cr_init_kaiming_uniform(t, sqrt(5), a->g)) t = NULL;
    } else {
        const cr_tensor *found = in_file(a, name);
        const bool fits = found && cr_ndim(found) == 2 && cr_size(found, 0) == rows && cr_size(found, 1) == columns;
        a->used += found != NULL;
        if (!found) cr_binder_problem(&a->problems, "'%s' is missing", name);
        else if (!fits && cr_ndim(found) == 2)
            cr_binder_problem(&a->problems, "'%s' is (%lld, %lld), not (%lld, %lld)", name,
                              (long long)cr_size(found, 0), (long long)cr_size(found, 1), (long long)rows,
                              (long long)columns);
        else if (!fits) cr_binder_problem(&a->problems, "'%s' has %d axes, not 2", name, cr_ndim(found));
        if (fits) t = cr_contiguous(cr_to(found, dt, a->m->d.dev));
    }
    if (t && cr_params_add(a->m->adapter, name, cr_requires_grad_(cr_detach(t), true))) t = NULL;
    cr_scope_end();
    return t ? cr_params_at(a->m->adapter, cr_params_count(a->m->adapter) - 1) : NULL;
}

/* Has the file a part of an adapter of this layer? */
static bool has_layer(const attach *a, const char *name) {
    char part[140];
    for (int i = 0; i < 2; i++) {
        snprintf(part, sizeof part, "%s.lora_%c.weight", name, "AB"[i]);
        if (in_file(a, part)) return true;
    }
    return false;
}

static cr_status attach_layer(void *ctx, const char *name, cr_affine *p) {
    attach *a = ctx;
    if (a->from ? !has_layer(a, name) : !is_wanted(a->targets, name)) return CR_OK;
    const int64_t r = a->m->lora.rank;
    p->lora_a = new_matrix(a, name, "A", r, cr_affine_inputs(p));
    p->lora_b = new_matrix(a, name, "B", cr_affine_outputs(p), r);
    p->scale = a->scale;
    p->lora_mode = &a->m->lora_mode;
    return (p->lora_a && p->lora_b) || a->problems.listed ? CR_OK : cr_error_status();
}

static cr_status check_options(const char *op, const cr_lora_options *o) {
    if (o->rank < 1 || o->rank > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, op, "the rank must be at least 1, not %lld", (long long)o->rank);
    if (!(o->alpha > 0 && o->alpha < INFINITY))
        return cr_fail(CR_BAD_VALUE, op, "alpha must be more than 0, not %g", o->alpha);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return cr_fail(CR_BAD_VALUE, op, "dropout must be in [0, 1), not %g", o->dropout);
    return CR_OK;
}

/* The adapter over the model; json: lora_targets, taken. */
static cr_status put_on(attach *a, const cr_lora_options *o, char *json) {
    cr_lm *m = a->m;
    m->lora = *o;
    m->lora.targets = NULL;
    m->lora_targets = json;
    m->lora_mode = (cr_lora_mode){.dropout = o->dropout, .generator = a->g};
    m->adapter = cr_params_new();
    a->scale = o->rank_stabilized ? o->alpha / sqrt((double)o->rank) : o->alpha / (double)o->rank;
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = m->adapter ? each_affine(m, attach_layer, a) : cr_error_status();
    cr_set_grad_enabled(recording);
    if (status == CR_OK) status = set_base(m, false);
    return status;
}

cr_status cr_lm_lora(cr_lm *m, const cr_lora_options *o, cr_generator *g) {
    static const char op[] = "lm_lora";
    const cr_lora_options defaults = cr_lora_defaults();
    if (cr_lacks(op, "model", m)) return cr_error_status();
    if (!o) o = &defaults;
    if (m->adapter) return cr_fail(CR_BAD_VALUE, op, "the model has an adapter: cr_lm_merge puts it into the weights");
    cr_status status = check_options(op, o);
    if (status != CR_OK) return status;
    char *every = o->targets && !strcmp(o->targets, "all-linear") ? all_targets(m) : NULL;
    const char *targets = every ? every : o->targets ? o->targets : m->family->lora;
    char *json = check_targets(m, op, targets) ? NULL : json_of(op, targets);
    attach a = {.m = m, .op = op, .targets = targets, .g = g ? g : cr_default_generator()};
    status = json ? put_on(&a, o, json) : cr_error_status();
    free(every);
    if (status != CR_OK && json) { detach_adapter(m); (void)set_base(m, true); }
    return status;
}

cr_params *cr_lm_adapter(const cr_lm *m) { return cr_lacks("lm_adapter", "model", m) ? NULL : m->adapter; }

/* ---- merging ---- */
static cr_status check_floats(void *ctx, const char *name, cr_affine *p) {
    if (!p->lora_a || p->weight) return CR_OK;
    return cr_fail(CR_BAD_VALUE, ctx, "'%s' is quantized: merge into the float model", name);
}

static cr_status merge_layer(void *ctx, const char *name, cr_affine *p) {
    (void)ctx, (void)name;
    if (!p->lora_a) return CR_OK;
    cr_scope_begin();
    cr_tensor *w = p->weight, *delta = cr_mul_scalar(cr_matmul(p->lora_b, p->lora_a), p->scale);
    cr_tensor *sum = delta ? cr_add(cr_to(w, cr_dtype_of(delta), cr_device_of(w)), delta) : NULL;
    const cr_status status = sum && cr_copy_(w, sum) ? CR_OK : cr_error_status();
    cr_scope_end();
    return status;
}

cr_status cr_lm_merge(cr_lm *m) {
    static const char op[] = "lm_merge";
    if (cr_lacks(op, "model", m)) return cr_error_status();
    if (!m->adapter) return cr_fail(CR_BAD_VALUE, op, "the model has no adapter");
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = cr_lm_unpack(m);
    if (status == CR_OK) status = each_affine(m, check_floats, (void *)(uintptr_t)op);
    if (status == CR_OK) status = each_affine(m, merge_layer, NULL);
    cr_set_grad_enabled(recording);
    if (status != CR_OK) return status;
    detach_adapter(m);
    return set_base(m, true);
}

/* ---- files ---- */
static cr_status read_options(cr_entries *e, cr_lora_options *o, char **targets) {
    static const char *const off[] = {"use_dora", "lora_bias", "use_qalora", "use_bdlora"};
    cr_entry_word(e, "peft_type", "LORA", -1);
    cr_entry_word(e, "bias", "none", 0);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) cr_entry_only(e, off[i], 0);
    static const char *const empty[] = {"rank_pattern", "alpha_pattern", "modules_to_save", "trainable_token_indices",
                                        "target_parameters", "alora_invocation_tokens", "layer_replication",
                                        "arrow_config"};
    const cr_json *init = cr_json_get(e->json, "init_lora_weights");       /* others take a part of the base away */
    if (init && init->kind != CR_JSON_BOOL)
        cr_entry_word(e, "init_lora_weights", "gaussian|eva|orthogonal", 0);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        const cr_json *v = cr_json_get(e->json, empty[i]);
        if (v && v->kind != CR_JSON_NULL && v->count && e->status == CR_OK)
            e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"%s\" must be empty", e->path, empty[i]);
    }
    *o = (cr_lora_options){.rank = cr_entry_size(e, "r", -1, 1),
                           .alpha = cr_entry_number(e, "lora_alpha", 8, 1e-9, 1e9),
                           .dropout = cr_entry_number(e, "lora_dropout", 0, 0, 0.999999),
                           .rank_stabilized = cr_entry_flag(e, "use_rslora", false)};
    const cr_json *v = cr_json_get(e->json, "target_modules");
    cr_out out = {0};
    if (v) cr_put_json(&out, v);
    else cr_out_format(&out, "null");
    cr_out_put(&out, "", 1);
    if (e->status == CR_OK) e->status = cr_out_check(&out, e->op, e->path);
    *targets = out.text;
    return e->status;
}

/* All problems in one message. */
static cr_status attach_listed(attach *a, const char *path) {
    for (int64_t i = 0; i < cr_params_count(a->from) && a->used < cr_params_count(a->from); i++) {
        const char *name = cr_params_name(a->from, i);
        char full[300];
        bool known_name = false;
        for (int64_t k = 0; k < cr_params_count(a->m->adapter) && !known_name; k++) {
            file_name(a->m, cr_params_name(a->m->adapter, k), full);
            known_name = !strcmp(full, name);
        }
        if (!known_name && !a->problems.listed) cr_binder_problem(&a->problems, "'%s' is not wanted", name);
    }
    if (!a->problems.listed) return CR_OK;
    return cr_fail(CR_BAD_VALUE, a->op, "the adapter in '%s' does not fit the model: %s%s", path,
                   a->problems.problems.text, a->problems.unlisted ? " and more" : "");
}

static cr_params *load_file(const char *op, const char *path, const cr_adapter_base *base, const cr_device *dev,
                            cr_lora_options *o, char **targets) {
    double alpha;
    cr_params *p = cr_gguf_adapter(op, path, base, dev, &alpha);
    int64_t rank = 0;
    for (int64_t i = 0; i < cr_params_count(p) && !rank; i++)
        if (strstr(cr_params_name(p, i), ".lora_A.") && cr_ndim(cr_params_at(p, i)) == 2)
            rank = cr_size(cr_params_at(p, i), 0);
    *o = (cr_lora_options){.rank = rank, .alpha = alpha > 0 ? alpha : (double)rank};
    *targets = p ? malloc(sizeof "null") : NULL;
    if (*targets) strcpy(*targets, "null");
    if (*targets && !check_options(op, o)) return p;
    if (p && !*targets) cr_fail(CR_NO_MEMORY, op, "no memory for '%s'", path);
    cr_params_free(p);
    return NULL;
}

static cr_params *load_folder(const char *op, const char *dir, const cr_device *dev, cr_lora_options *o,
                              char **targets) {
    cr_path config, weights;
    if (cr_join(op, dir, config_name, &config) || cr_join(op, dir, weights_name, &weights)) return NULL;
    cr_json *root = cr_json_file(op, config.s);
    cr_entries e = {op, config.s, root, root ? CR_OK : cr_error_status()};
    if (root) (void)read_options(&e, o, targets);
    cr_json_free(root);
    return e.status == CR_OK ? cr_load(weights.s, dev) : NULL;
}

cr_params *cr_load_adapter(const char *path, const cr_adapter_base *base, const cr_device *dev, cr_lora_options *o,
                           char **targets) {
    static const char op[] = "load_adapter";
    if (!path || !base || !dev || !o || !targets) return cr_fail_null(op, "an argument"), NULL;
    if (base->head_dim < 1)
        return cr_fail(CR_BAD_VALUE, op, "head_dim must be at least 1, not %lld", (long long)base->head_dim), NULL;
    *targets = NULL;
    cr_params *p = cr_file_is_gguf(path) ? load_file(op, path, base, dev, o, targets)
                                         : load_folder(op, path, dev, o, targets);
    if (p) return p;
    free(*targets);
    *targets = NULL;
    return NULL;
}

static cr_adapter_base base_of(const cr_lm *m) {
    const cr_features *f = cr_transformer_features(m->net);
    return (cr_adapter_base){cr_lm_prefix(m), f->head_dim};
}

cr_status cr_lm_load_adapter(cr_lm *m, const char *path, cr_generator *g) {
    static const char op[] = "lm_load_adapter";
    if (cr_lacks(op, "model", m)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    if (m->adapter) return cr_fail(CR_BAD_VALUE, op, "the model has an adapter: cr_lm_merge puts it into the weights");
    const cr_adapter_base base = base_of(m);
    cr_lora_options o;
    char *targets;
    cr_params *from = cr_load_adapter(path, &base, m->d.dev, &o, &targets);
    if (!from) return cr_error_status();
    attach a = {.m = m, .op = op, .from = from, .g = g ? g : cr_default_generator()};
    cr_status status = put_on(&a, &o, targets);
    if (status == CR_OK) status = attach_listed(&a, path);
    if (status == CR_OK && !a.used)
        status = cr_fail(CR_BAD_VALUE, op, "'%s' holds no adapter of this model's layers", path);
    if (status != CR_OK) { detach_adapter(m); (void)set_base(m, true); }
    cr_out_free(&a.problems.problems);
    cr_params_free(from);
    return status;
}

/* ---- writing ---- */
static char *config_text(const cr_lora_options *o, const cr_adapter_notes *n) {
    static const char *const truth[] = {"false", "true"};
    cr_out t = {0};
    cr_out_format(&t, "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n  \"base_model_name_or_path\": ");
    if (n->base && *n->base) cr_out_string(&t, n->base, strlen(n->base));
    else cr_out_put(&t, "null", 4);
    cr_out_format(&t, ",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": %s,\n  \"inference_mode\": true,\n"
                      "  \"init_lora_weights\": true,\n  \"lora_alpha\": %.17g,\n  \"lora_dropout\": %.17g,\n"
                      "  \"modules_to_save\": null,\n  \"peft_type\": \"LORA\",\n  \"r\": %lld,\n"
                      "  \"rank_pattern\": {},\n  \"target_modules\": %s,\n  \"task_type\": %s,\n"
                      "  \"use_dora\": false,\n  \"use_rslora\": %s\n}\n",
                  truth[n->turned], o->alpha, o->dropout, (long long)o->rank, n->targets,
                  n->causal ? "\"CAUSAL_LM\"" : "null", truth[o->rank_stabilized]);
    cr_out_put(&t, "", 1);
    if (!cr_out_check(&t, "save_adapter", config_name)) return t.text;
    cr_out_free(&t);
    return NULL;
}

cr_status cr_save_adapter(const char *dir, const cr_params *weights, const cr_lora_options *o,
                          const cr_adapter_notes *n) {
    static const char op[] = "save_adapter";
    cr_path config, file;
    if (!dir || !weights || !o || !n || !n->targets) return cr_fail_null(op, "an argument");
    if (!cr_os_make_directory(dir)) return cr_fail(CR_IO, op, "cannot create '%s': %s", dir, cr_os_error());
    if (cr_join(op, dir, config_name, &config) || cr_join(op, dir, weights_name, &file)) return cr_error_status();
    char *text = config_text(o, n);
    cr_status status = text ? cr_save(file.s, weights, "{\"format\":\"pt\"}") : cr_error_status();
    if (status == CR_OK) status = cr_file_save(op, config.s, text, strlen(text));
    free(text);
    return status;
}

/* The adapter by PEFT's names. */
static cr_status save_folder(const cr_lm *m, const char *dir) {
    cr_params *p = cr_params_new();
    cr_status status = p ? CR_OK : cr_error_status();
    for (int64_t i = 0; i < cr_params_count(m->adapter) && status == CR_OK; i++) {
        char full[300];
        file_name(m, cr_params_name(m->adapter, i), full);
        status = cr_params_add(p, full, cr_params_at(m->adapter, i));
    }
    const bool encoder = cr_transformer_features(m->net)->encoder;
    const cr_adapter_notes n = {m->lora_targets, m->path, m->family->turned != NULL, !encoder};
    if (status == CR_OK) status = cr_save_adapter(dir, p, &m->lora, &n);
    cr_params_free(p);
    return status;
}

cr_status cr_lm_save_adapter(const cr_lm *m, const char *path) {
    static const char op[] = "lm_save_adapter";
    if (cr_lacks(op, "model", m)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    if (!m->adapter) return cr_fail(CR_BAD_VALUE, op, "the model has no adapter");
    const char *dot = strrchr(path, '.');
    if (!dot || strcmp(dot, ".gguf")) return save_folder(m, path);
    const cr_adapter_base base = base_of(m);
    const double r = (double)m->lora.rank;          /* readers divide by it */
    return cr_gguf_save_adapter(op, path, m->family, &base, m->adapter,
                                m->lora.rank_stabilized ? m->lora.alpha * sqrt(r) : m->lora.alpha);
}
