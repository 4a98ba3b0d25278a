/* llama.c - Llama (Touvron et al. 2023) and its relatives, written with the public interface: Llama 2
 * and 3, SmolLM, Mistral, Qwen 2 and 3.
 *
 * Tensors are named as in Hugging Face's files, without "model.".  Letters: B batch, T time, C width,
 * V vocabulary, H heads of queries, KV heads of keys and values, D width of a head, N width of the
 * MLP, L layers. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

enum { LLAMA, MISTRAL, QWEN2, QWEN3 };
static const char kinds[] = "llama|mistral|qwen2|qwen3", ropes[] = "default|linear|dynamic|llama3|yarn";

typedef struct config {
    int64_t vocabulary, context, layers, heads, width, inner, kv_heads, head_dim;
    int64_t window, window_from;                    /* 0: all keys; the first layer with the window */
    double eps;
    bool tied, qkv_bias, out_bias, mlp_bias, qk_norm;
    cr_rope_options rope;
} config;

typedef struct block {
    cr_affine q, k, v, o, gate, up, down;
    cr_tensor *norm_1, *norm_2, *q_norm, *k_norm;
} block;

struct cr_llama {
    config c;
    cr_dtype dtype;
    const cr_device *dev;
    cr_params *params;                              /* owns every tensor below */
    cr_affine table, head;                          /* (V, C); the same where the head is tied */
    cr_tensor *norm;                                /* (C) */
    bool recomputes;
    block h[];                                      /* L of them */
};

/* ---- forward */
static cr_tensor *linear(const cr_tensor *x, const cr_affine *p) { return cr_affine_apply(p, x); }

/* (B, T, n D) -> (B, n, T, D), each head normalized if norm is there */
static cr_tensor *heads(const cr_llama *m, const cr_tensor *x, int64_t n, const cr_tensor *norm) {
    cr_tensor *y = cr_reshape(x, CR_LIST(cr_size(x, 0), cr_size(x, 1), n, m->c.head_dim));
    return cr_transpose(norm ? cr_rms_norm(y, norm, m->c.eps) : y, 1, 2);
}

/* Causal self-attention: x (B, T, C) -> (B, T, C).  With caches the T positions follow earlier ones. */
static cr_tensor *attention(const cr_llama *m, int64_t l, const cr_tensor *x, const cr_tensor *table,
                            const cr_caches *caches, const cr_segments *s) {
    const config *c = &m->c;
    const block *b = &m->h[l];
    const int64_t window = l >= c->window_from ? c->window : 0;
    const int64_t B = cr_size(x, 0), T = cr_size(x, 1);
    cr_tensor *q = cr_rope(heads(m, linear(x, &b->q), c->heads, b->q_norm), table, false),
              *k = cr_rope(heads(m, linear(x, &b->k), c->kv_heads, b->k_norm), table, false),
              *v = heads(m, linear(x, &b->v), c->kv_heads, NULL);
    const cr_attention_options o = {.causal = true, .window = window};
    cr_tensor *y = s ? cr_segments_attention(s, q, k, v, &o) : cr_cached_attention(caches, l, q, k, v, &o);
    return linear(cr_reshape(cr_transpose(y, 1, 2), CR_LIST(B, T, c->heads * c->head_dim)), &b->o);
}

static cr_tensor *mlp(const block *b, const cr_tensor *x) {
    return linear(cr_swiglu(linear(x, &b->gate), linear(x, &b->up)), &b->down);
}

static cr_tensor *block_forward(const cr_llama *m, int64_t l, const cr_tensor *x, const cr_tensor *table,
                                const cr_caches *caches, const cr_segments *s) {
    const block *b = &m->h[l];
    const double eps = m->c.eps;
    cr_scope_begin();
    x = cr_add(x, attention(m, l, cr_rms_norm(x, b->norm_1, eps), table, caches, s));
    cr_tensor *y = cr_keep(cr_add(x, mlp(b, cr_rms_norm(x, b->norm_2, eps))));
    cr_scope_end();
    return y;
}

typedef struct pass { const cr_llama *m; const cr_tensor *table; const cr_segments *s; } pass;

static cr_tensor *block_again(const void *of, int64_t l, const cr_tensor *x) {
    const pass *a = of;
    return block_forward(a->m, l, x, a->table, NULL, a->s);
}

/* The angles of n positions that follow `past` earlier ones. */
static cr_tensor *angles(const cr_llama *m, int64_t past, int64_t n) {
    cr_rope_options o = m->c.rope;
    o.start = past;
    return cr_rope_table(n, m->c.head_dim, &o, m->dtype == CR_F64 ? CR_F64 : CR_F32, m->dev);
}

static cr_tensor *first_angles(const void *model, int64_t start, int64_t length) {
    (void)start;
    return angles(model, 0, length);
}

/* The angles of T positions: (T, D), or of several texts (B, 1, T, D). */
static cr_tensor *angles_of(const cr_llama *m, int64_t T, const cr_caches *caches) {
    const int64_t B = caches ? caches->n : 1;
    if (caches && caches->at) return cr_index_select(angles(m, 0, caches->row[0]->room), 0, caches->at);
    if (B == 1) return angles(m, cr_cache_start(caches), T);
    const cr_tensor **rows = malloc((size_t)B * sizeof *rows);
    if (!rows) return cr_fail(CR_NO_MEMORY, "generate", "no memory for %lld rows", (long long)B), NULL;
    for (int64_t i = 0; i < B; i++) rows[i] = angles(m, caches->row[i]->past, T);
    cr_tensor *table = cr_reshape(cr_stack((int)B, rows, 0), CR_LIST(B, 1, T, m->c.head_dim));
    free(rows);
    return table;
}

static cr_tensor *stream(const cr_llama *m, const cr_tensor *tokens, const cr_tensor *table, const cr_caches *caches,
                         const cr_segments *s) {
    if (!table) return NULL;
    cr_tensor *x = cr_affine_rows(&m->table, tokens, m->dtype);
    const pass a = {m, table, s};
    const bool again = m->recomputes && !caches && cr_grad_enabled();
    for (int64_t l = 0; l < m->c.layers && x; l++)
        x = again ? cr_block_recomputed(&(cr_block_run){block_again, &a, sizeof a, l, s, &table, 1}, x)
                  : block_forward(m, l, x, table, caches, s);
    return cr_rms_norm(x, m->norm, m->c.eps);
}

static cr_tensor *hidden(const void *model, const cr_tensor *tokens, const cr_caches *caches) {
    return stream(model, tokens, angles_of(model, cr_size(tokens, 1), caches), caches, NULL);
}

static cr_tensor *packed(const void *model, const cr_tensor *tokens, const cr_segments *s) {
    return stream(model, tokens, cr_segments_join(s, 0, first_angles, model), NULL, s);
}

void cr_llama_recompute(cr_llama *m, bool on) { m->recomputes = on; }

cr_decoder cr_llama_decoder(const cr_llama *m) {
    return (cr_decoder){m, hidden, packed, m->head, m->c.vocabulary, m->c.context, m->c.layers,
                        m->c.kv_heads, m->c.head_dim, m->dtype, m->dev, m->c.rope.scaling != CR_ROPE_DYNAMIC};
}

void cr_llama_matrices(cr_llama *m, cr_on_affine visit, void *ctx) {
    bool on = visit(&m->head, true, ctx);
    for (int64_t l = 0; l < m->c.layers && on; l++) {
        block *b = &m->h[l];
        cr_affine *const all[] = {&b->q, &b->k, &b->v, &b->o, &b->gate, &b->up, &b->down};
        for (int i = 0; i < 7 && on; i++) on = visit(all[i], false, ctx);
    }
}

/* ---- configuration */
/* "rope_parameters", or "rope_theta" and "rope_scaling" of older files */
static cr_rope_options read_rope(cr_entries *e, int64_t context) {
    const cr_json *new = cr_json_get(e->json, "rope_parameters"), *old = cr_json_get(e->json, "rope_scaling");
    const cr_json *found = new && new->kind == CR_JSON_OBJECT ? new : old && old->kind == CR_JSON_OBJECT ? old : NULL;
    const cr_json *const both[] = {new, old};
    for (int i = 0; i < 2; i++)
        if (both[i] && both[i]->kind != CR_JSON_NULL && both[i]->kind != CR_JSON_OBJECT && e->status == CR_OK)
            e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"rope_parameters\" must be an object", e->path);
    static const cr_json none = {.kind = CR_JSON_OBJECT};
    cr_entries in = {e->op, e->path, found ? found : &none, e->status};
    cr_entries *has_base = cr_json_get(in.json, "rope_theta") ? &in : e;
    cr_rope_options r = {0};
    const int kind = cr_entry_word(&in, cr_json_get(in.json, "rope_type") ? "rope_type" : "type", ropes, 0);
    r.scaling = (cr_rope_scaling)kind;
    r.base = cr_entry_number(has_base, "rope_theta", 1e4, 1.001, 1e30);
    cr_entry_only(&in, "partial_rotary_factor", 1);
    if (kind != CR_ROPE_PLAIN) r.factor = cr_entry_number(&in, "factor", 0, 1, 1e6);
    r.original = (double)context;
    if (kind == CR_ROPE_YARN || kind == CR_ROPE_LLAMA3)
        r.original = (double)cr_entry_size(&in, "original_max_position_embeddings", context, 1);
    if (kind == CR_ROPE_LLAMA3) {
        r.low = cr_entry_number(&in, "low_freq_factor", 0, 1e-6, 1e30);
        r.high = cr_entry_number(&in, "high_freq_factor", 0, r.low * (1 + 1e-6), 1e30);
    }
    if (kind == CR_ROPE_YARN) {
        r.beta_fast = cr_entry_number(&in, "beta_fast", 0, 0, 1e30);
        r.beta_slow = cr_entry_number(&in, "beta_slow", 0, 0, 1e30);
        r.untruncated = !cr_entry_flag(&in, "truncate", true);
        r.mscale = cr_entry_number(&in, "mscale", 0, 0, 1e30);
        r.mscale_all_dim = cr_entry_number(&in, "mscale_all_dim", 0, 0, 1e30);
        r.attention_factor = cr_entry_number(&in, "attention_factor", 0, 0, 1e30);
    }
    e->status = in.status != CR_OK ? in.status : e->status;
    return r;
}

/* "layer_types": full_attention, then sliding_attention; returns the first that slides. */
static int64_t first_sliding(cr_entries *e, const cr_json *types, int64_t layers) {
    int64_t i = 0, first = layers;
    bool fits = types->kind == CR_JSON_ARRAY && types->count == layers;
    for (const cr_json *t = types->first; t; t = t->next, i++) {
        const bool slides = t->kind == CR_JSON_STRING && !strcmp(t->text, "sliding_attention");
        if (slides && i < first) first = i;
        fits &= slides == (i >= first);
    }
    if (!fits && e->status == CR_OK)
        e->status = cr_fail(CR_BAD_VALUE, e->op,
                            "'%s': \"layer_types\" must be full_attention, then sliding_attention, %lld in all",
                            e->path, (long long)layers);
    return first;
}

static config read_config(cr_entries *e) {
    config c = {0};
    const int kind = cr_entry_word(e, "model_type", kinds, -1);
    cr_entry_word(e, "hidden_act", "silu", 0);
    c.vocabulary = cr_entry_size(e, "vocab_size", -1, 1);
    c.context = cr_entry_size(e, "max_position_embeddings", -1, 1);
    c.layers = cr_entry_size(e, "num_hidden_layers", -1, 1);
    c.heads = cr_entry_size(e, "num_attention_heads", -1, 1);
    c.width = cr_entry_size(e, "hidden_size", -1, 1);
    c.inner = cr_entry_size(e, "intermediate_size", -1, 1);
    c.kv_heads = cr_entry_size(e, "num_key_value_heads", c.heads, 1);
    c.head_dim = cr_entry_size(e, "head_dim", kind == QWEN3 ? 128 : c.width / c.heads, 1);
    c.eps = cr_entry_number(e, "rms_norm_eps", 1e-6, 0, 1);
    c.tied = cr_entry_flag(e, "tie_word_embeddings", false);
    const bool bias = cr_entry_flag(e, "attention_bias", false);
    c.qkv_bias = bias || kind == QWEN2;
    c.out_bias = bias && kind != QWEN2;
    c.mlp_bias = cr_entry_flag(e, "mlp_bias", false) && kind <= MISTRAL;
    c.qk_norm = kind == QWEN3;
    c.rope = read_rope(e, c.context);
    if (c.rope.scaling == CR_ROPE_DYNAMIC) c.context = (int64_t)((double)c.context * c.rope.factor);
    if (kind == MISTRAL || (kind != LLAMA && cr_entry_flag(e, "use_sliding_window", false))) {
        const cr_json *types = cr_json_get(e->json, "layer_types");
        c.window = cr_entry_size(e, "sliding_window", 0, 1);
        c.window_from = kind == MISTRAL ? 0 : cr_entry_size(e, "max_window_layers", 0, 0);
        if (c.window && types && types->kind != CR_JSON_NULL) c.window_from = first_sliding(e, types, c.layers);
    }
    if (e->status == CR_OK && (c.heads % c.kv_heads || c.head_dim % 2 || c.head_dim < 2))
        e->status = cr_fail(CR_BAD_VALUE, e->op,
                            "'%s': num_key_value_heads must divide num_attention_heads and head_dim be even: %lld,"
                            " %lld, %lld", e->path, (long long)c.kv_heads, (long long)c.heads, (long long)c.head_dim);
    return c;
}

/* ---- building */
static cr_tensor *bind(cr_binder *b, int64_t layer, const char *name, int n, const int64_t *shape) {
    char full[96];
    if (layer < 0) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "layers.%lld.%s", (long long)layer, name);
    return cr_bind(b, full, n, shape);
}

static cr_affine bind_linear(cr_binder *b, int64_t layer, const char *name, int64_t OC, int64_t C, bool bias) {
    char full[96];
    snprintf(full, sizeof full, "layers.%lld.%s", (long long)layer, name);
    return cr_bind_affine(b, full, OC, C, bias);
}

cr_llama *cr_llama_over(const char *op, const char *path, const cr_json *json, const cr_device *dev, cr_binder *b) {
    cr_entries e = {op, path, json, CR_OK};
    const config c = read_config(&e);
    if (e.status != CR_OK) return NULL;
    cr_llama *m = calloc(1, sizeof *m + (size_t)c.layers * sizeof *m->h);
    if (!m) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld layers", (long long)c.layers), NULL;
    const int64_t C = c.width, D = c.head_dim, Q = c.heads * D, KV = c.kv_heads * D, N = c.inner;
    m->c = c;
    m->dtype = b->dtype;
    m->dev = dev;
    m->params = b->into;
    m->table = cr_bind_affine(b, "embed_tokens", c.vocabulary, C, false);
    for (int64_t l = 0; l < c.layers; l++) {
        block *h = &m->h[l];
        h->norm_1 = bind(b, l, "input_layernorm.weight", CR_LIST(C));
        h->q = bind_linear(b, l, "self_attn.q_proj", Q, C, c.qkv_bias);
        h->k = bind_linear(b, l, "self_attn.k_proj", KV, C, c.qkv_bias);
        h->v = bind_linear(b, l, "self_attn.v_proj", KV, C, c.qkv_bias);
        h->o = bind_linear(b, l, "self_attn.o_proj", C, Q, c.out_bias);
        if (c.qk_norm) h->q_norm = bind(b, l, "self_attn.q_norm.weight", CR_LIST(D));
        if (c.qk_norm) h->k_norm = bind(b, l, "self_attn.k_norm.weight", CR_LIST(D));
        h->norm_2 = bind(b, l, "post_attention_layernorm.weight", CR_LIST(C));
        h->gate = bind_linear(b, l, "mlp.gate_proj", N, C, c.mlp_bias);
        h->up = bind_linear(b, l, "mlp.up_proj", N, C, c.mlp_bias);
        h->down = bind_linear(b, l, "mlp.down_proj", C, N, c.mlp_bias);
    }
    m->norm = bind(b, -1, "norm.weight", CR_LIST(C));
    m->head = c.tied ? m->table : cr_bind_affine(b, "lm_head", c.vocabulary, C, false);
    return m;
}

void cr_llama_free(cr_llama *m) { free(m); }

cr_status cr_llama_each_affine(cr_llama *m, cr_named_affine fn, void *ctx) {
    cr_status status = CR_OK;
    for (int64_t l = 0; l < m->c.layers; l++) {
        block *h = &m->h[l];
        const struct { const char *name; cr_affine *p;
        } rows[] = {{"self_attn.q_proj", &h->q}, {"self_attn.k_proj", &h->k}, {"self_attn.v_proj", &h->v},
                    {"self_attn.o_proj", &h->o}, {"mlp.gate_proj", &h->gate}, {"mlp.up_proj", &h->up},
                    {"mlp.down_proj", &h->down}};
        for (int i = 0; i < 7 && status == CR_OK; i++) {
            char name[64];
            snprintf(name, sizeof name, "layers.%lld.%s", (long long)l, rows[i].name);
            status = fn(ctx, name, rows[i].p);
        }
    }
    return status;
}
