/* gpt.c - GPT-2 (Radford et al. 2019), written with the public interface: training and files.
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
#include "../ops/linear.h"
#include "lm.h"

static const double NORM_EPS = 1e-5;                /* GPT-2's */

/* linear (OC, C), (OC); norm (C), (C) */
typedef struct block { cr_affine ln_1, attn_c_attn, attn_c_proj, ln_2, mlp_c_fc, mlp_c_proj; } block;

struct cr_gpt {
    cr_gpt_config config;
    cr_dtype dtype;
    const cr_device *dev;
    cr_generator *generator;                        /* borrowed; draws the dropout */
    bool recomputes;                                /* cr_gpt_gradient_checkpointing */
    cr_params *params;                              /* owns every tensor below */
    cr_binder *binder;                              /* while it is built over given weights, else NULL */
    cr_affine wte;                                  /* (V, C): the embedding, and the head */
    cr_tensor *wpe;                                 /* (context, C) */
    cr_affine ln_f;
    block h[];                                      /* L of them */
};

/* ---- forward */

static cr_tensor *linear(const cr_tensor *x, const cr_affine *p) { return cr_affine_apply(p, x); }
static cr_tensor *norm(const cr_tensor *x, const cr_affine *p) {
    return cr_layer_norm(x, p->weight, p->bias, NORM_EPS);
}

/* x + dropout(y): adds a branch to the residual stream. */
static cr_tensor *residual(const cr_gpt *m, const cr_tensor *x, const cr_tensor *y, bool train) {
    if (train && m->config.dropout > 0) y = cr_dropout(y, m->config.dropout, true, m->generator);
    return cr_add(x, y);
}

/* Causal self-attention: x (B, T, C) -> (B, T, C).  With caches the T positions follow earlier ones. */
static cr_tensor *attention(const cr_gpt *m, const block *b, const cr_tensor *x, const cr_caches *caches,
                            const cr_segments *s) {
    const int64_t H = m->config.heads, C = m->config.width, B = cr_size(x, 0), T = cr_size(x, 1);
    cr_tensor *qkv = cr_view(linear(x, &b->attn_c_attn), CR_LIST(B, T, 3, H, C / H));
    const cr_attention_options o = {.causal = true};
    cr_tensor *part[3], *y;
    /* (B, H, T, D), strided views */
    for (int i = 0; i < 3 && (s || caches); i++) part[i] = cr_transpose(cr_select(qkv, 2, i), 1, 2);
    if (s) y = cr_segments_attention(s, part[0], part[1], part[2], &o);
    else if (caches) y = cr_cached_attention(caches, b - m->h, part[0], part[1], part[2], &o);
    else y = cr_attention_packed(qkv, &o);
    y = cr_reshape(cr_transpose(y, 1, 2), CR_LIST(B, T, C));        /* concatenates the heads */
    return linear(y, &b->attn_c_proj);
}

static cr_tensor *mlp(const block *b, const cr_tensor *x) {
    return linear(cr_affine_gelu(&b->mlp_c_fc, x), &b->mlp_c_proj);
}

/* One pre-norm block.  Its own scope frees the temporaries when there is no graph. */
static cr_tensor *block_forward(const cr_gpt *m, const block *b, const cr_tensor *x, const cr_caches *caches,
                                const cr_segments *s, bool train) {
    cr_scope_begin();
    x = residual(m, x, attention(m, b, norm(x, &b->ln_1), caches, s), train);
    cr_tensor *y = cr_keep(residual(m, x, mlp(b, norm(x, &b->ln_2)), train));
    cr_scope_end();
    return y;
}

typedef struct pass { const cr_gpt *m; const cr_segments *s; bool train; } pass;

static cr_tensor *block_again(const void *of, int64_t l, const cr_tensor *x) {
    const pass *a = of;
    return block_forward(a->m, &a->m->h[l], x, NULL, a->s, a->train);
}

static cr_tensor *first_positions(const void *wpe, int64_t start, int64_t length) {
    (void)start;
    return cr_slice(wpe, 0, 0, length, 1);
}

/* The rows of wpe at the positions of T tokens. */
static const cr_tensor *positions(const cr_gpt *m, int64_t T, const cr_caches *caches, const cr_segments *s) {
    const cr_tensor *table = cr_linear_weight(m->wpe);
    if (!table) return NULL;
    if (s) return cr_segments_join(s, 0, first_positions, table);
    if (caches && caches->at) return cr_embedding(table, caches->at);
    if (caches && caches->n > 1) return cr_embedding(table, cr_cache_positions(caches, T, m->dev));
    const int64_t past = cr_cache_start(caches);
    return cr_slice(table, 0, past, past + T, 1);
}

/* tokens (B, T) -> the residual stream after the last norm (B, T, C). */
static cr_tensor *hidden(const cr_gpt *m, const cr_tensor *tokens, const cr_caches *caches, const cr_segments *s,
                         bool train) {
    const cr_tensor *embedded = positions(m, cr_size(tokens, 1), caches, s);
    cr_tensor *x = cr_add(cr_affine_rows(&m->wte, tokens, m->dtype), embedded);
    if (train && m->config.dropout > 0) x = cr_dropout(x, m->config.dropout, true, m->generator);
    const pass a = {m, s, train};
    const bool again = m->recomputes && !caches && cr_grad_enabled();
    for (int64_t l = 0; l < m->config.layers; l++)
        x = again ? cr_block_recomputed(&(cr_block_run){block_again, &a, sizeof a, l, .segments = s}, x)
                  : block_forward(m, &m->h[l], x, caches, s, train);
    return norm(x, &m->ln_f);
}

static cr_status check_tokens(const char *op, const cr_gpt *m, const cr_tensor *tokens) {
    return cr_lacks(op, "model", m) ? cr_error_status() : cr_check_tokens(op, tokens, m->config.context);
}

void cr_gpt_gradient_checkpointing(cr_gpt *m, bool on) {
    if (!cr_lacks("gpt_gradient_checkpointing", "the model", m)) m->recomputes = on;
}

cr_tensor *cr_gpt_logits(const cr_gpt *m, const cr_tensor *tokens, bool train) {
    if (check_tokens("gpt_logits", m, tokens)) return NULL;
    cr_scope_begin();
    cr_tensor *y = cr_keep(linear(hidden(m, tokens, NULL, NULL, train), &m->wte));
    cr_scope_end();
    return y;
}

cr_tensor *cr_gpt_loss(const cr_gpt *m, const cr_tensor *tokens, const cr_tensor *targets, bool train) {
    if (check_tokens("gpt_loss", m, tokens)) return NULL;
    if (!targets) return cr_fail_null("gpt_loss", "targets"), NULL;
    cr_scope_begin();
    cr_tensor *y = cr_keep(cr_affine_loss(&m->wte, hidden(m, tokens, NULL, NULL, train), targets, NULL));
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

/* A new tensor, or the binder's of this name; NULL: an error, or a problem that the binder lists. */
static cr_tensor *parameter(cr_gpt *m, int64_t layer, const char *name, int n, const int64_t *shape) {
    char full[64];
    if (layer < 0) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "h.%lld.%s", (long long)layer, name);
    if (m->binder) return cr_bind(m->binder, full, n, shape);
    cr_scope_begin();                               /* params takes its own reference */
    cr_tensor *t = cr_requires_grad_(cr_empty(n, shape, m->dtype, m->dev), true);
    cr_status status = t ? cr_params_add(m->params, full, t) : CR_NO_MEMORY;
    cr_scope_end();
    return status != CR_OK ? NULL : t;
}

/* Columns C 0: a norm, weight and bias (rows); else a linear layer, weight (rows, C) and bias (rows). */
static bool affine_new(cr_gpt *m, cr_affine *p, int64_t layer, const char *name, int64_t rows, int64_t C) {
    char part[64];
    if (m->binder && C) {
        snprintf(part, sizeof part, "h.%lld.%s", (long long)layer, name);
        *p = cr_bind_affine(m->binder, part, rows, C, true);
        return true;
    }
    snprintf(part, sizeof part, "%s.weight", name);
    p->weight = parameter(m, layer, part, C ? 2 : 1, (int64_t[]){rows, C});
    snprintf(part, sizeof part, "%s.bias", name);
    p->bias = p->weight || m->binder ? parameter(m, layer, part, CR_LIST(rows)) : NULL;
    return p->bias || m->binder;
}

/* The model with uninitialised weights, or those of a binder. */
static cr_gpt *gpt_empty(const cr_gpt_config *c, cr_dtype dt, const cr_device *dev, cr_generator *g,
                         cr_binder *binder) {
    cr_gpt *m = calloc(1, sizeof *m + (size_t)c->layers * sizeof *m->h);
    if (!m) return cr_fail(CR_NO_MEMORY, "gpt_new", "no memory for %lld layers", (long long)c->layers), NULL;
    const int64_t C = c->width;
    *m = (cr_gpt){
        .config = *c, .dtype = dt, .dev = dev, .generator = g ? g : cr_default_generator(), .binder = binder};
    m->params = binder ? binder->into : cr_params_new();
    bool ok = m->params != NULL;
    if (ok && binder) m->wte = cr_bind_affine(binder, "wte", c->vocabulary, C, false);
    else if (ok) m->wte.weight = parameter(m, -1, "wte.weight", CR_LIST(c->vocabulary, C));
    if (ok) m->wpe = parameter(m, -1, "wpe.weight", CR_LIST(c->context, C));
    ok = ok && (binder || (m->wte.weight && m->wpe));
    for (int64_t l = 0; l < c->layers; l++) {
        if (!ok) break;
        block *b = &m->h[l];
        ok = affine_new(m, &b->ln_1, l, "ln_1", C, 0) && affine_new(m, &b->attn_c_attn, l, "attn.c_attn", 3 * C, C) &&
             affine_new(m, &b->attn_c_proj, l, "attn.c_proj", C, C) && affine_new(m, &b->ln_2, l, "ln_2", C, 0) &&
             affine_new(m, &b->mlp_c_fc, l, "mlp.c_fc", 4 * C, C) &&
             affine_new(m, &b->mlp_c_proj, l, "mlp.c_proj", C, 4 * C);
    }
    ok = ok && affine_new(m, &m->ln_f, -1, "ln_f", C, 0);
    m->binder = NULL;
    if (!ok) { cr_gpt_free(m); return NULL; }
    return m;
}

cr_gpt *cr_gpt_over(const cr_gpt_config *c, const cr_device *dev, cr_binder *b) {
    return check_config("lm_load", c, b->dtype) ? NULL : gpt_empty(c, b->dtype, dev, NULL, b);
}

/* GPT-2's initial values: norms 1 and 0, biases 0, weights N(0, 0.02), projections into the residual stream
 * N(0, 0.02 / sqrt(2 L)), because 2 L of them are added up. */
static cr_status initialise(cr_gpt *m, cr_generator *g) {
    const double std = 0.02, residual_std = std / sqrt(2.0 * (double)m->config.layers);
    const bool grad = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    for (int64_t i = 0; i < cr_params_count(m->params); i++) {
        if (status != CR_OK) break;
        const char *name = cr_params_name(m->params, i);
        cr_tensor *t = cr_params_at(m->params, i);
        if (cr_ndim(t) == 2) status = cr_init_normal(t, 0, strstr(name, "c_proj") ? residual_std : std, g);
        else status = cr_fill_(t, strstr(name, ".bias") ? 0 : 1) ? CR_OK : cr_error_status();
    }
    cr_set_grad_enabled(grad);
    return status;
}

cr_gpt *cr_gpt_new(const cr_gpt_config *c, cr_dtype dt, const cr_device *dev, cr_generator *g) {
    if (!c) return cr_fail_null("gpt_new", "config"), NULL;
    if (!dev) return cr_fail_null("gpt_new", "device"), NULL;
    if (check_config("gpt_new", c, dt)) return NULL;
    cr_gpt *m = gpt_empty(c, dt, dev, g, NULL);
    if (m && initialise(m, m->generator)) { cr_gpt_free(m); return NULL; }
    return m;
}

void cr_gpt_free(cr_gpt *m) {
    if (!m || cr_stale("gpt_free", "model", m)) return;
    cr_params_free(m->params);
    cr_retire(m);
}

cr_status cr_gpt_each_affine(cr_gpt *m, cr_named_affine fn, void *ctx) {
    cr_status status = CR_OK;
    for (int64_t l = 0; l < m->config.layers; l++) {
        block *b = &m->h[l];
        const struct { const char *name; cr_affine *p;
        } rows[] = {{"attn.c_attn", &b->attn_c_attn},
                    {"attn.c_proj", &b->attn_c_proj},
                    {"mlp.c_fc", &b->mlp_c_fc},
                    {"mlp.c_proj", &b->mlp_c_proj}};
        for (int i = 0; i < 4 && status == CR_OK; i++) {
            char name[64];
            snprintf(name, sizeof name, "h.%lld.%s", (long long)l, rows[i].name);
            status = fn(ctx, name, rows[i].p);
        }
    }
    return status;
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
    if (!check_config("gpt_load", &c, dt) && !check_weights(path, &c, weights)) m = gpt_empty(&c, dt, dev, NULL, NULL);
    if (m && cr_params_copy(m->params, weights)) { cr_gpt_free(m); m = NULL; }
    cr_params_free(weights);
    return m;
}

/* ---- generation */
static cr_tensor *hidden_of(const void *model, const cr_tensor *tokens, const cr_caches *caches) {
    return hidden(model, tokens, caches, NULL, false);
}

static cr_tensor *packed_of(const void *model, const cr_tensor *tokens, const cr_segments *s) {
    return hidden(model, tokens, NULL, s, false);
}

cr_decoder cr_gpt_decoder(const cr_gpt *m) {
    const cr_gpt_config *c = &m->config;
    return (cr_decoder){m, hidden_of, packed_of, m->wte, c->vocabulary, c->context, c->layers, c->heads,
                        c->width / c->heads, m->dtype, m->dev, true};
}

void cr_gpt_matrices(cr_gpt *m, cr_on_affine visit, void *ctx) {
    bool on = visit(&m->wte, true, ctx);
    for (int64_t l = 0; l < m->config.layers && on; l++) {
        block *b = &m->h[l];
        cr_affine *const all[] = {&b->attn_c_attn, &b->attn_c_proj, &b->mlp_c_fc, &b->mlp_c_proj};
        for (int i = 0; i < 4 && on; i++) on = visit(all[i], false, ctx);
    }
}

cr_status cr_gpt_generate(const cr_gpt *m, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                          const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx) {
    static const char op[] = "gpt_generate";
    if (cr_lacks(op, "model", m)) return cr_error_status();
    const cr_decoder d = cr_gpt_decoder(m);
    return cr_decode(op, &d, prompt, n_prompt, n_new, s, g, on_token, ctx);
}
