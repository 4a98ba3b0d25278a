/* gpt.c - GPT-2 (Radford et al. 2019) for training: initial values and files of the family "gpt2".
 *
 * Tensors are named as in GPT-2's own checkpoints (wte.weight, h.0.attn.c_attn.weight ...).  One
 * difference: our linear weights are (OC, C), as PyTorch's nn.Linear keeps them; GPT-2's files hold
 * them transposed.  The head is tied: logits = x wte^T.  Letters: B batch, T time, C width, V
 * vocabulary, H heads, D = C / H, L layers. The training loop is in cli/train.c. */
#include <chainrule.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "lm.h"

struct cr_gpt {
    cr_gpt_config config;
    cr_dtype dtype;
    const cr_device *dev;
    cr_generator *generator;                        /* borrowed; draws the dropout */
    cr_params *params;                              /* owns every tensor */
    cr_transformer *net;                            /* over them */
    cr_decoder d;
};

/* ---- forward */
static cr_status check_tokens(const char *op, const cr_gpt *m, const cr_tensor *tokens) {
    return cr_lacks(op, "model", m) ? cr_error_status() : cr_check_tokens(op, tokens, m->config.context);
}

void cr_gpt_gradient_checkpointing(cr_gpt *m, bool on) {
    if (!cr_lacks("gpt_gradient_checkpointing", "the model", m)) cr_transformer_recompute(m->net, on);
}

static cr_tensor *hidden_states(const cr_gpt *m, const cr_tensor *tokens, bool train) {
    return cr_transformer_hidden(m->net, tokens, train ? m->generator : NULL);
}

cr_tensor *cr_gpt_logits(const cr_gpt *m, const cr_tensor *tokens, bool train) {
    if (check_tokens("gpt_logits", m, tokens)) return NULL;
    cr_scope_begin();
    cr_tensor *y = cr_keep(cr_decoder_logits(&m->d, hidden_states(m, tokens, train)));
    cr_scope_end();
    return y;
}

cr_tensor *cr_gpt_loss(const cr_gpt *m, const cr_tensor *tokens, const cr_tensor *targets, bool train) {
    if (check_tokens("gpt_loss", m, tokens)) return NULL;
    if (!targets) return cr_fail_null("gpt_loss", "targets"), NULL;
    cr_scope_begin();
    cr_tensor *y = cr_keep(cr_decoder_loss(&m->d, hidden_states(m, tokens, train), targets, NULL));
    cr_scope_end();
    return y;
}

/* ---- building */

static cr_status check_config(const char *op, const cr_gpt_config *c, cr_dtype dt) {
    const int64_t most = INT32_MAX;                 /* of each size, so that products of three fit an int64 */
    const struct { const char *name; int64_t value;
    } sizes[] = {{"vocabulary", c->vocabulary},
                 {"context", c->context},
                 {"layers", c->layers},
                 {"heads", c->heads},
                 {"width", c->width}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > most)
            return cr_fail(CR_BAD_VALUE, op, "%s must be between 1 and %lld, not %lld", sizes[i].name, (long long)most,
                           (long long)sizes[i].value);
    if (c->width % c->heads)
        return cr_fail(CR_BAD_VALUE, op, "width must be a multiple of heads: %lld is not one of %lld",
                       (long long)c->width, (long long)c->heads);
    if (!(c->dropout >= 0 && c->dropout < 1))
        return cr_fail(CR_BAD_VALUE, op, "dropout must be in [0, 1), not %g", c->dropout);
    const double C = (double)c->width;
    if (((double)c->vocabulary + (double)c->context + (double)c->layers * 12 * C) * C > 0x1p58)
        return cr_fail(CR_BAD_VALUE, op,
                       "a model of %lld layers of width %lld has more parameters than memory can address",
                       (long long)c->layers, (long long)c->width);
    if (!cr_dtype_is_float(dt))
        return cr_fail(CR_BAD_TYPE, op, "weights must be of a float dtype, not %s", cr_dtype_name(dt));
    return CR_OK;
}

/* The model with uninitialised weights. */
static cr_gpt *gpt_empty(const cr_gpt_config *c, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    static const char op[] = "gpt_new";
    const cr_family *family = cr_family_named("gpt2");
    cr_features f = family->features;
    f.vocabulary = c->vocabulary, f.context = c->context, f.layers = c->layers;
    f.heads = f.kv_heads = c->heads, f.head_dim = c->width / c->heads;
    f.width = c->width, f.inner = 4 * c->width, f.dropout = c->dropout;
    cr_gpt *m = calloc(1, sizeof *m);
    if (!m) return cr_fail(CR_NO_MEMORY, op, "no memory for a model"), NULL;
    *m = (cr_gpt){.config = *c, .dtype = dt, .dev = dev, .generator = g ? g : cr_default_generator()};
    m->params = cr_params_new();
    cr_binder b = {.into = m->params, .dtype = dt, .dev = dev};
    if (m->params && (f.layer = cr_layers_new(op, &f))) m->net = cr_transformer_over(op, family, &f, dev, &b);
    if (!m->net || b.status != CR_OK) { cr_gpt_free(m); return NULL; }
    m->d = cr_transformer_decoder(m->net);
    return m;
}

cr_gpt *cr_gpt_new(const cr_gpt_config *c, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    if (!c) return cr_fail_null("gpt_new", "config"), NULL;
    if (!dev) return cr_fail_null("gpt_new", "device"), NULL;
    if (check_config("gpt_new", c, dt)) return NULL;
    cr_gpt *m = gpt_empty(c, dt, dev, g);
    if (m && cr_transformer_initialise(m->net, m->params, m->generator)) { cr_gpt_free(m); return NULL; }
    return m;
}

void cr_gpt_free(cr_gpt *m) {
    if (!m || cr_stale("gpt_free", "model", m)) return;
    cr_transformer_free(m->net);
    cr_params_free(m->params);
    cr_retire(m);
}

cr_gpt_config cr_gpt_configuration(const cr_gpt *m) {
    return cr_lacks("gpt_configuration", "model", m) ? (cr_gpt_config){0} : m->config;
}

cr_params *cr_gpt_params(const cr_gpt *m) { return cr_lacks("gpt_params", "model", m) ? NULL : m->params; }

/* ---- files */

cr_status cr_gpt_save(const cr_gpt *m, const char *path) {
    if (cr_lacks("gpt_save", "model", m)) return cr_error_status();
    if (!path) return cr_fail_null("gpt_save", "path");
    const cr_gpt_config *c = &m->config;
    char metadata[320];
    snprintf(metadata, sizeof metadata,
             "{\"model\":\"gpt2\",\"vocabulary\":\"%lld\",\"context\":\"%lld\",\"layers\":\"%lld\",\"heads\":\"%lld\","
             "\"width\":\"%lld\",\"dropout\":\"%.17g\"}",
             (long long)c->vocabulary, (long long)c->context, (long long)c->layers, (long long)c->heads,
             (long long)c->width, c->dropout);
    return cr_save(path, m->params, metadata);
}

/* One number of the file's metadata. */
static cr_status metadata_number(const char *path, const char *key, double *out) {
    char *text = cr_load_metadata(path, key), *end = NULL;
    if (!text)
        return cr_error() ? cr_error_status()
                          : cr_fail(CR_BAD_VALUE, "gpt_load",
                                    "'%s' does not say what model it holds: its metadata lacks \"%s\"", path, key);
    *out = strtod(text, &end);
    cr_status status = CR_OK;
    if (end == text || *end || !(fabs(*out) <= 0x1p53))
        status = cr_fail(CR_BAD_VALUE, "gpt_load", "'%s': \"%s\" must be a number, not \"%.40s\"", path, key, text);
    cr_free(text);
    return status;
}

static cr_status read_config(const char *path, cr_gpt_config *c) {
    const struct {
        const char *key;
        int64_t *to;
    } sizes[] = {{"vocabulary", &c->vocabulary},
                 {"context", &c->context},
                 {"layers", &c->layers},
                 {"heads", &c->heads},
                 {"width", &c->width}};
    double v;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cr_status status = metadata_number(path, sizes[i].key, &v);
        if (status != CR_OK) return status;
        if (v != floor(v))
            return cr_fail(CR_BAD_VALUE, "gpt_load", "'%s': \"%s\" must be a whole number, not %g", path, sizes[i].key,
                           v);
        *sizes[i].to = (int64_t)v;
    }
    return metadata_number(path, "dropout", &c->dropout);
}

/* Does the file have as many tensors as the configuration needs?  Checked before anything is allocated. */
static cr_status check_weights(const char *path, const cr_gpt_config *c, const cr_params *p) {
    const int64_t C = c->width, count = 4 + 12 * c->layers,
                  numel = (c->vocabulary + c->context + 2 + c->layers * (12 * C + 13)) * C;
    if (cr_params_count(p) != count || cr_params_numel(p) != numel)
        return cr_fail(CR_BAD_VALUE, "gpt_load",
                       "'%s': its configuration needs %lld tensors with %lld elements in all, it holds %lld with %lld",
                       path, (long long)count, (long long)numel, (long long)cr_params_count(p),
                       (long long)cr_params_numel(p));
    return CR_OK;
}

/* The weights with their configuration, which is read before and after: a difference means a save in between. */
static cr_params *load_weights(const char *path, const cr_device *dev, cr_gpt_config *c) {
    cr_gpt_config before;
    cr_params *weights = NULL;
    cr_status status = read_config(path, c);
    if (status != CR_OK) return NULL;
    do {
        before = *c;
        cr_params_free(weights);
        weights = cr_load(path, dev);
        status = weights ? read_config(path, c) : cr_error_status();
    } while (status == CR_OK && memcmp(&before, c, sizeof before) != 0);
    if (status == CR_OK) return weights;
    cr_params_free(weights);
    return NULL;
}

cr_gpt *cr_gpt_load(const char *path, const cr_device *dev) {
    if (!path) return cr_fail_null("gpt_load", "path"), NULL;
    if (!dev) return cr_fail_null("gpt_load", "device"), NULL;
    cr_gpt_config c = {0};
    cr_gpt *m = NULL;
    cr_params *weights = load_weights(path, dev, &c);
    if (!weights) return NULL;
    const cr_dtype dt = cr_params_count(weights) ? cr_dtype_of(cr_params_at(weights, 0)) : CR_F32;
    if (!check_config("gpt_load", &c, dt) && !check_weights(path, &c, weights)) m = gpt_empty(&c, dt, dev, NULL);
    if (m && cr_params_copy(m->params, weights)) { cr_gpt_free(m); m = NULL; }
    cr_params_free(weights);
    return m;
}

/* ---- generation */
cr_status cr_gpt_generate(const cr_gpt *m, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                          const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx) {
    static const char op[] = "gpt_generate";
    if (cr_lacks(op, "model", m)) return cr_error_status();
    return cr_decode(op, &m->d, prompt, n_prompt, n_new, s, g, on_token, ctx);
}
