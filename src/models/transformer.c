/* transformer.c - the decoder of every family: what a block computes is said by the features of family.h.
 *
 * Letters: B batch, T time, C width, V vocabulary, H heads of queries, KV heads of keys and values, D width of
 * a head, N width of the MLP, E experts, L layers. */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/formats.h"
#include "../core/status.h"
#include "../ops/linear.h"

typedef struct block {
    cr_affine p[CR_ROLES];                          /* norms: weight and bias (C); absent: zeros */
    cr_affine (*expert)[3];                         /* (E): gate, up, down; owned */
} block;

struct cr_transformer {
    cr_features f;
    const cr_family *family;
    cr_dtype dtype;
    const cr_device *dev;
    bool recomputes;                                /* gradient checkpointing */
    bool joint;                                     /* all experts of a layer are one tensor */
    double embed_scale;                             /* as the dtype rounds it; 1: none */
    cr_affine p[CR_ROLES];                          /* of no block; tensors are borrowed */
    block h[];                                      /* L of them */
};

/* what a forward pass is told */
typedef struct pass {
    const cr_transformer *m;
    const cr_caches *caches;
    const cr_segments *s;
    cr_lm_train train;                              /* generator NULL: no dropout */
    cr_lm_parts parts;
    cr_tensor *table[2], *scale;                    /* rotations, of layers without and with a window; of queries */
    const cr_tensor *mask, *kinds;                  /* of cr_lm_reading */
    cr_tensor *seen;                                /* mask as a bool (B, 1, 1, T) */
    cr_tensor *relative;                            /* added to scores (1, H, T, T) */
} pass;

/* ---- parts that the caller computes.  A part is a role, or one of these, of a layer, and of an expert */
enum { BLOCK = CR_ROLES, ATTENTION, MLP, KINDS };

/* e: of an expert; -1: of none */
static int64_t number_of(const cr_transformer *m, int64_t l, int64_t e, int kind) {
    return (l * (m->f.experts + 1) + e + 1) * KINDS + kind;
}

static _Thread_local const pass *running;           /* the pass of the innermost call */

static bool has_part(const pass *a, int64_t part) { return a->parts.own && a->parts.own[part]; }

static cr_tensor *call_part(const pass *a, int64_t part, const cr_tensor *x) {
    const pass *outer = running;
    if (!x) return NULL;
    running = a;
    cr_tensor *y = a->parts.call(part, x, a->parts.ctx);
    running = outer;
    cr_tensor *ours = y ? cr_view(y, cr_ndim(y), cr_shape(y)) : NULL;      /* in this scope; y may be any tensor */
    cr_drop(y);
    return ours;
}

/* ---- layers */
static cr_tensor *affine(const pass *a, int64_t l, int64_t e, cr_role r, const cr_affine *p, const cr_tensor *x) {
    const int64_t part = number_of(a->m, l, e, (int)r);
    return has_part(a, part) ? call_part(a, part, x) : cr_affine_apply(p, x);
}

static cr_tensor *linear(const pass *a, int64_t l, cr_role r, const cr_tensor *x) {
    return affine(a, l, -1, r, &a->m->h[l].p[r], x);
}

static cr_tensor *norm_by(const cr_transformer *m, const cr_affine *p, const cr_tensor *x) {
    if (m->f.layer_norm) return cr_layer_norm(x, p->weight, p->bias ? p->bias : CR_NONE, m->f.eps);
    return cr_rms_norm(x, m->f.unit_offset ? cr_add_scalar(p->weight, 1) : p->weight, m->f.eps);
}

/* x, where the model has no such norm */
static cr_tensor *norm(const pass *a, int64_t l, cr_role r, const cr_tensor *x) {
    const cr_affine *p = cr_role_of_block(r) ? &a->m->h[l].p[r] : &a->m->p[r];
    const int64_t part = number_of(a->m, l, -1, (int)r);
    if (!p->weight || !x) return (cr_tensor *)(uintptr_t)x;
    return has_part(a, part) ? call_part(a, part, x) : norm_by(a->m, p, x);
}

static cr_tensor *scaled(cr_tensor *x, double by) { return by != 0 && by != 1 ? cr_mul_scalar(x, by) : x; }

static cr_tensor *activated(cr_activation act, const cr_tensor *x) {
    switch (act) {
    case CR_ACT_SILU: return cr_silu(x);
    case CR_ACT_GELU: return cr_gelu(x);
    case CR_ACT_GELU_TANH: return cr_gelu_tanh(x);
    case CR_ACT_RELU: return cr_relu(x);
    case CR_ACT_RELU2: break;
    }
    cr_tensor *y = cr_relu(x);
    return cr_mul(y, y);
}

static cr_tensor *gated(cr_activation act, const cr_tensor *gate, const cr_tensor *up) {
    return act == CR_ACT_SILU ? cr_swiglu(gate, up) : cr_mul(activated(act, gate), up);
}

static cr_tensor *dropped(const pass *a, cr_tensor *x) {
    const cr_lm_train *t = &a->train;
    return t->generator && t->dropout > 0 ? cr_dropout(x, t->dropout, true, t->generator) : x;
}

/* x + dropout(y): adds a branch to the residual stream. */
static cr_tensor *residual(const pass *a, const cr_tensor *x, cr_tensor *y) {
    return cr_add(x, scaled(dropped(a, y), a->m->f.residual_scale));
}

/* ---- attention */
/* (B, T, n D) -> (B, n, T, D), normalized by role r: all together, or each head; CR_ROLES: not */
static cr_tensor *heads(const pass *a, int64_t l, cr_tensor *x, int64_t n, cr_role r) {
    const cr_features *f = &a->m->f;
    const bool normed = r != CR_ROLES;
    if (!x) return NULL;
    if (normed && f->qk_norm_whole) x = norm(a, l, r, x);
    if (f->qkv_clip > 0) x = cr_clamp(x, -f->qkv_clip, f->qkv_clip);
    cr_tensor *y = x ? cr_reshape(x, CR_LIST(cr_size(x, 0), cr_size(x, 1), n, f->head_dim)) : NULL;
    return cr_transpose(normed && !f->qk_norm_whole ? norm(a, l, r, y) : y, 1, 2);
}

/* q, k, v (B, H | KV, T, D) of one product: one behind the other, or each head's q, k, v in turn */
static void fused(const pass *a, int64_t l, cr_tensor *x, cr_tensor *part[3]) {
    const cr_features *f = &a->m->f;
    const int64_t B = cr_size(x, 0), T = cr_size(x, 1), D = f->head_dim;
    if (f->qkv_by_head || f->heads == f->kv_heads) {
        const int axis = f->qkv_by_head ? 3 : 2;
        cr_tensor *qkv = f->qkv_by_head ? cr_reshape(x, CR_LIST(B, T, f->heads, 3, D))
                                        : cr_view(x, CR_LIST(B, T, 3, f->heads, D));
        for (int i = 0; i < 3; i++) part[i] = cr_transpose(cr_select(qkv, axis, i), 1, 2);
        return;
    }
    const int64_t count[] = {f->heads, f->kv_heads, f->kv_heads};
    for (int64_t i = 0, at = 0; i < 3; at += count[i++] * D)
        part[i] = heads(a, l, cr_slice(x, 2, at, at + count[i] * D, 1), count[i], CR_ROLES);
}

/* x (B, T, C) -> (B, T, C).  With caches the T positions follow earlier ones. */
static cr_tensor *attend_to(const pass *a, int64_t l, const cr_tensor *x) {
    const cr_transformer *m = a->m;
    const cr_features *f = &m->f;
    const cr_affine *p = m->h[l].p;
    const cr_layer_features *layer = &f->layer[l];
    const int64_t B = cr_size(x, 0), T = cr_size(x, 1);
    const int64_t window = layer->window ? f->window : 0;
    const cr_attend_options o = {{.causal = !f->encoder, .window = f->encoder ? 0 : window,
                                  .scale = f->attention_scale, .mask = a->seen},
                                 f->attention_cap, p[CR_ROLE_SINKS].weight, f->encoder ? window / 2 : 0, a->relative};
    const bool qkv = cr_affine_exists(&p[CR_ROLE_QKV]);
    cr_tensor *part[3], *y;
    if (qkv) {
        cr_tensor *all = linear(a, l, CR_ROLE_QKV, x);
        if (!all) return NULL;
        if (!a->s && !a->caches && !layer->rotates && !f->encoder && f->heads == f->kv_heads && !f->qkv_by_head) {
            y = cr_attention_packed(cr_view(all, CR_LIST(B, T, 3, f->heads, f->head_dim)), &o.plain);
            return linear(a, l, CR_ROLE_O, cr_reshape(cr_transpose(y, 1, 2), CR_LIST(B, T, f->heads * f->head_dim)));
        }
        fused(a, l, all, part);
    } else {
        part[0] = heads(a, l, linear(a, l, CR_ROLE_Q, x), f->heads, CR_ROLE_Q_NORM);
        part[1] = heads(a, l, linear(a, l, CR_ROLE_K, x), f->kv_heads, CR_ROLE_K_NORM);
        part[2] = heads(a, l, linear(a, l, CR_ROLE_V, x), f->kv_heads, CR_ROLES);
    }
    const cr_tensor *table = a->table[f->two_ropes && layer->window];
    for (int i = 0; i < 2 && layer->rotates; i++) part[i] = cr_rope(part[i], table, f->interleaved);
    if (a->scale) part[0] = cr_mul(part[0], a->scale);
    if (a->s && a->caches) y = cr_cached_segments(a->caches, a->s, l, part[0], part[1], part[2], &o);
    else if (a->s) y = cr_segments_attention(a->s, part[0], part[1], part[2], &o);
    else y = cr_cached_attention(a->caches, l, part[0], part[1], part[2], &o);
    return linear(a, l, CR_ROLE_O, cr_reshape(cr_transpose(y, 1, 2), CR_LIST(B, T, f->heads * f->head_dim)));
}

static cr_tensor *attention(const pass *a, int64_t l, const cr_tensor *x) {
    const int64_t part = number_of(a->m, l, -1, ATTENTION);
    return has_part(a, part) ? call_part(a, part, x) : attend_to(a, l, x);
}

/* ---- MLP and experts */
static cr_tensor *mlp(const pass *a, int64_t l, const cr_tensor *x) {
    const cr_affine *p = a->m->h[l].p;
    const cr_activation act = a->m->f.activation;
    const cr_affine *both = &p[CR_ROLE_GATE_UP], *gate = &p[CR_ROLE_GATE], *up = &p[CR_ROLE_UP];
    cr_tensor *y;
    if (cr_affine_exists(both)) {
        cr_tensor *all = linear(a, l, CR_ROLE_GATE_UP, x);
        const int64_t N = a->m->f.inner;
        cr_tensor *first = cr_slice(all, 2, 0, N, 1), *second = cr_slice(all, 2, N, 2 * N, 1);
        y = a->m->f.up_first ? gated(act, second, first) : gated(act, first, second);
    } else if (cr_affine_exists(gate)) {
        cr_tensor *opened = linear(a, l, CR_ROLE_GATE, x);
        y = opened ? gated(act, opened, linear(a, l, CR_ROLE_UP, x)) : NULL;
    } else if (act == CR_ACT_GELU_TANH && !has_part(a, number_of(a->m, l, -1, CR_ROLE_UP))) y = cr_affine_gelu(up, x);
    else y = activated(act, linear(a, l, CR_ROLE_UP, x));
    return linear(a, l, CR_ROLE_DOWN, y);
}

/* (up + 1) gate sigmoid(alpha gate), gate at most, up within +-limit */
static cr_tensor *oss_glu(const cr_features *f, cr_tensor *gate, cr_tensor *up) {
    if (f->glu_limit > 0) {
        gate = cr_clamp(gate, -INFINITY, f->glu_limit);
        up = cr_clamp(up, -f->glu_limit, f->glu_limit);
    }
    return cr_mul(cr_add_scalar(up, 1), cr_mul(gate, cr_sigmoid(cr_mul_scalar(gate, f->glu_alpha))));
}

static cr_tensor *expert(const pass *a, int64_t l, int64_t e, const cr_tensor *x) {
    const cr_transformer *m = a->m;
    const block *b = &m->h[l];
    const cr_affine *in = &b->p[CR_ROLE_EXPERTS_GATE_UP], *out = &b->p[CR_ROLE_EXPERTS_DOWN];
    if (!in->weight) {
        const cr_affine *p = b->expert[e];
        cr_tensor *gate = affine(a, l, e, CR_ROLE_EXPERT_GATE, &p[0], x);
        cr_tensor *up = gate ? affine(a, l, e, CR_ROLE_EXPERT_UP, &p[1], x) : NULL;
        cr_tensor *y = !up ? NULL : m->f.glu_alpha > 0 ? oss_glu(&m->f, gate, up) : gated(m->f.activation, gate, up);
        return affine(a, l, e, CR_ROLE_EXPERT_DOWN, &p[2], y);
    }
    /* columns of gate and up take turns */
    cr_tensor *both = cr_add(cr_matmul(x, cr_select(in->weight, 0, e)), cr_select(in->bias, 0, e));
    const int64_t n = cr_size(both, 1);
    cr_tensor *y = oss_glu(&m->f, cr_slice(both, 1, 0, n, 2), cr_slice(both, 1, 1, n, 2));
    return cr_add(cr_matmul(y, cr_select(out->weight, 0, e)), cr_select(out->bias, 0, e));
}

/* The rows of x that chose expert e, times their shares, added to y; chosen (K, used): the host's copy. */
static cr_tensor *add_expert(const pass *a, int64_t l, int64_t e, const cr_tensor *x, const cr_tensor *share,
                             const int64_t *chosen, int64_t K, int64_t *rows, cr_tensor *y) {
    const cr_transformer *m = a->m;
    const int64_t used = m->f.experts_used;
    int64_t n = 0, *at = rows + K;
    for (int64_t i = 0; i < K * used; i++) {
        if (chosen[i] != e) continue;
        rows[n] = i / used;
        at[n++] = i;
    }
    if (!n) return y;
    const cr_tensor *index = cr_from(rows, CR_LIST(n), CR_I64, m->dev);
    cr_tensor *part = expert(a, l, e, cr_index_select(x, 0, index));
    cr_tensor *weight = cr_index_select(cr_reshape(share, CR_LIST(-1, 1)), 0, cr_from(at, CR_LIST(n), CR_I64, m->dev));
    return cr_index_add(y, 0, index, cr_mul(part, weight));
}

/* shares (K, used) and *chosen (K, used) of logits (K, E) */
static cr_tensor *route(const cr_features *f, const cr_tensor *logits, cr_dtype dt, cr_tensor **chosen) {
    if (!logits) return NULL;
    const cr_device *dev = cr_device_of(logits);
    cr_tensor *p = cr_to(logits, dt == CR_F64 ? CR_F64 : CR_F32, dev);
    cr_tensor *share = cr_topk(f->softmax_used ? p : cr_softmax(p, 1), f->experts_used, 1, true, chosen);
    if (f->softmax_used) share = cr_softmax(share, 1);
    else if (f->normalize_experts) share = cr_div(share, cr_sum(share, CR_LIST(1), true));
    return cr_to(share, dt, dev);
}

static cr_tensor *shared_expert(const pass *a, int64_t l, const cr_tensor *x) {
    cr_tensor *gate = linear(a, l, CR_ROLE_SHARED_GATE, x), *up = gate ? linear(a, l, CR_ROLE_SHARED_UP, x) : NULL;
    cr_tensor *y = linear(a, l, CR_ROLE_SHARED_DOWN, up ? gated(a->m->f.activation, gate, up) : NULL);
    return y ? cr_mul(y, cr_sigmoid(linear(a, l, CR_ROLE_SHARED_ROUTER, x))) : NULL;
}

/* x (B, T, C) -> (B, T, C): the host sorts the tokens by their experts, which work in order. */
static cr_tensor *mixture(const pass *a, int64_t l, const cr_tensor *x3) {
    const cr_transformer *m = a->m;
    const cr_features *f = &m->f;
    const int64_t C = f->width, K = cr_size(x3, 0) * cr_size(x3, 1), n = K * f->experts_used;
    const cr_tensor *x = cr_reshape(x3, CR_LIST(K, C));
    cr_tensor *chosen = NULL, *share = route(f, linear(a, l, CR_ROLE_ROUTER, x), m->dtype, &chosen);
    int64_t *at = share ? malloc((size_t)(n + K + n) * sizeof *at) : NULL;
    if (!at) return share ? cr_fail(CR_NO_MEMORY, "lm", "no memory for %lld tokens", (long long)K), NULL : NULL;
    cr_tensor *y = cr_read(chosen, CR_I64, at, (size_t)n * sizeof *at) ? NULL
                                                                         : cr_zeros(CR_LIST(K, C), m->dtype, m->dev);
    for (int64_t e = 0; e < f->experts && y; e++) y = add_expert(a, l, e, x, share, at, K, at + n, y);
    free(at);
    if (y && f->shared_inner) y = cr_add(y, shared_expert(a, l, x));
    return y ? cr_reshape(y, CR_LIST(cr_size(x3, 0), cr_size(x3, 1), C)) : NULL;
}

/* ---- blocks */
static cr_tensor *feed_forward(const pass *a, int64_t l, const cr_tensor *x) {
    return a->m->f.layer[l].experts ? mixture(a, l, x) : mlp(a, l, x);
}

static cr_tensor *branch(const pass *a, int64_t l, const cr_tensor *x) {
    const int64_t part = number_of(a->m, l, -1, MLP);
    return !x ? NULL : has_part(a, part) ? call_part(a, part, x) : feed_forward(a, l, x);
}

/* Its own scope frees the temporaries when there is no graph. */
static cr_tensor *block_forward(const pass *a, int64_t l, const cr_tensor *x) {
    const cr_transformer *m = a->m;
    const block *b = &m->h[l];
    cr_scope_begin();
    if (m->f.post_norm) {
        cr_tensor *sum = norm(a, l, CR_ROLE_POST_1, residual(a, x, attention(a, l, x))), *inner = branch(a, l, sum);
        sum = inner ? norm(a, l, CR_ROLE_POST_2, residual(a, sum, inner)) : NULL;
        if (sum) cr_keep(sum);
        cr_scope_end();
        return sum;
    }
    const cr_tensor *first = norm(a, l, CR_ROLE_NORM_1, x);
    cr_tensor *z = norm(a, l, CR_ROLE_POST_1, first ? attention(a, l, first) : NULL), *y = z ? residual(a, x, z) : NULL;
    /* beside attention, on the same stream: by its own norm or by attention's */
    const cr_tensor *own = m->f.parallel ? x : y;
    const bool shares = m->f.parallel && !b->p[CR_ROLE_NORM_2].weight;
    z = !y ? NULL : norm(a, l, CR_ROLE_POST_2, branch(a, l, shares ? first : norm(a, l, CR_ROLE_NORM_2, own)));
    y = z ? cr_keep(residual(a, y, z)) : NULL;
    cr_scope_end();
    return y;
}

static cr_tensor *block_of(const void *pass_, int64_t l, const cr_tensor *x) {
    const pass *a = pass_;
    const int64_t part = number_of(a->m, l, -1, BLOCK);
    if (!has_part(a, part)) return block_forward(a, l, x);
    cr_scope_begin();
    cr_tensor *y = call_part(a, part, x);
    return cr_scope_leave(y);
}

/* The blocks one after the other. */
static cr_tensor *blocks(const pass *a, cr_tensor *x) {
    const cr_transformer *m = a->m;
    const cr_tensor *tables[5];
    cr_block_run run = {block_of, a, sizeof *a, .segments = a->s, .table = tables, .owner = a->parts.ctx,
                        .hold = a->parts.hold};
    for (int i = 0; i < 2; i++) if (a->table[i]) tables[run.tables++] = a->table[i];
    if (a->scale) tables[run.tables++] = a->scale;
    if (a->seen) tables[run.tables++] = a->seen;
    if (a->relative) tables[run.tables++] = a->relative;
    const bool again = m->recomputes && !a->caches && cr_grad_enabled();
    for (run.layer = 0; run.layer < m->f.layers && x; run.layer++)
        x = again ? cr_block_recomputed(&run, x) : block_of(a, run.layer, x);
    return x;
}

/* ---- positions */
/* rows of a table by position: the angles of rotation `which`, the factors of queries, or learned vectors */
typedef struct positions { const cr_transformer *m; int which; } positions;
enum { SCALES = 2, LEARNED = 3 };

/* Those of n positions that follow `past` earlier ones : (n, columns). */
static cr_tensor *rows_at(const positions *p, int64_t past, int64_t n) {
    const cr_transformer *m = p->m;
    const cr_dtype dt = m->dtype == CR_F64 ? CR_F64 : CR_F32;
    if (p->which == LEARNED) {
        const int64_t first = past + (m->f.positions_skip ? m->f.pad + 1 : 0);
        return cr_slice(cr_linear_weight(m->p[CR_ROLE_POSITION].weight), 0, first, first + n, 1);
    }
    if (p->which < SCALES) {
        cr_rope_options o = m->f.rope[p->which];
        o.start = past;
        return cr_rope_table(n, m->f.rotary, &o, dt, m->dev);
    }
    cr_tensor *at = cr_arange((double)past, (double)(past + n), 1, CR_F64, m->dev);
    at = cr_log(cr_add_scalar(cr_floor(cr_mul_scalar(at, 1 / m->f.position_scale_from)), 1));
    return cr_to(cr_reshape(cr_add_scalar(cr_mul_scalar(at, m->f.position_scale), 1), CR_LIST(n, 1)), m->dtype, m->dev);
}

static cr_tensor *first_rows(const void *p, int64_t start, int64_t length) {
    (void)start;
    return rows_at(p, 0, length);
}

static cr_tensor *rows_after(const void *p, int64_t past, int64_t length) { return rows_at(p, past, length); }

/* Those of T tokens : (T, columns), or of several texts (B, 1, T, columns). */
static cr_tensor *rows_of(const pass *a, int which, int64_t T) {
    const positions p = {a->m, which};
    const cr_caches *c = a->caches;
    if (a->s && c) return cr_segments_rows(c, a->s, rows_after, &p);
    if (a->s) return cr_segments_join(a->s, 0, first_rows, &p);
    if (c && c->at) return cr_index_select(rows_at(&p, 0, c->row[0]->room), 0, c->at);
    if (!c || c->n == 1) return rows_at(&p, cr_cache_start(c), T);
    const cr_tensor **rows = malloc((size_t)c->n * sizeof *rows);
    if (!rows) return cr_fail(CR_NO_MEMORY, "generate", "no memory for %lld rows", (long long)c->n), NULL;
    for (int64_t i = 0; i < c->n; i++) rows[i] = rows_at(&p, c->row[i]->past, T);
    cr_tensor *y = cr_stack((int)c->n, rows, 0);
    free(rows);
    return cr_reshape(y, CR_LIST(c->n, 1, T, -1));
}

/* pad + how many tokens are no padding up to each, pad for padding : (B, T) */
static cr_tensor *counted(const pass *a, const cr_tensor *tokens) {
    const int64_t pad = a->m->f.pad;
    const cr_tensor *is = cr_to(cr_ne(tokens, cr_scalar_int(pad)), CR_I64, a->m->dev);
    return cr_add(cr_mul(cr_cumsum(is, 1), is), cr_scalar_int(pad));
}

/* The rows of the learned positions, which broadcast to (B, T, C) */
static cr_tensor *learned(const pass *a, const cr_tensor *tokens) {
    const int64_t T = cr_size(tokens, 1);
    const cr_tensor *table = cr_linear_weight(a->m->p[CR_ROLE_POSITION].weight);
    const cr_caches *c = a->caches;
    if (!table) return NULL;
    if (a->m->f.positions_skip && !a->s) return cr_embedding(table, counted(a, tokens));
    if (c && c->at) return cr_embedding(table, c->at);
    if (c && c->n > 1 && !a->s) return cr_embedding(table, cr_cache_positions(c, T, a->m->dev));
    return rows_of(a, LEARNED, T);
}

/* T5's bucket of a distance: half of them for each direction, of these half for one distance each, the rest in
 * logarithmic steps up to 128.  In float, as PyTorch does. */
static int64_t bucket_of(int64_t distance, int64_t buckets) {
    const int64_t half = buckets / 2, exact = half / 2, n = distance < 0 ? -distance : distance;
    int64_t at = n;
    if (n >= exact) {
        const float steps = logf((float)n / (float)exact) / (float)log(128.0 / (double)exact) * (float)(half - exact);
        at = exact + (int64_t)steps < half - 1 ? exact + (int64_t)steps : half - 1;
    }
    return at + (distance > 0 ? half : 0);
}

/* What the scores of T tokens get by their distances : (1, H, T, T) */
static cr_tensor *relative_scores(const cr_transformer *m, int64_t T) {
    int64_t *at = malloc((size_t)(T * T) * sizeof *at);
    if (!at) return cr_fail(CR_NO_MEMORY, "lm", "no memory for %lld tokens", (long long)T), NULL;
    for (int64_t i = 0; i < T * T; i++) at[i] = bucket_of(i % T - i / T, m->f.buckets);
    const cr_tensor *table = cr_linear_weight(m->p[CR_ROLE_RELATIVE].weight);
    cr_tensor *y = table ? cr_embedding(table, cr_from(at, CR_LIST(T, T), CR_I64, m->dev)) : NULL;
    free(at);
    return cr_unsqueeze(cr_permute(y, CR_LIST(2, 0, 1)), 0);
}

/* ---- the stream */
static cr_tensor *stream(pass *a, const cr_tensor *tokens) {
    const cr_transformer *m = a->m;
    const cr_features *f = &m->f;
    const int64_t T = cr_size(tokens, 1);
    for (int i = 0; i < 1 + f->two_ropes && f->rotary; i++) if (!(a->table[i] = rows_of(a, i, T))) return NULL;
    if (a->mask) a->seen = cr_reshape(cr_ne(a->mask, cr_scalar_int(0)), CR_LIST(cr_size(tokens, 0), 1, 1, T));
    if (a->mask && !a->seen) return NULL;
    if (f->buckets) {
        int64_t longest = a->s ? 0 : T;
        for (int64_t i = 0; a->s && i < a->s->n; i++) longest = longest > a->s->length[i] ? longest : a->s->length[i];
        if (!(a->relative = relative_scores(m, longest))) return NULL;
    }
    if (f->position_scale > 0 && !(a->scale = rows_of(a, SCALES, T))) return NULL;
    const bool called = has_part(a, number_of(m, 0, -1, CR_ROLE_EMBED));
    cr_tensor *x = called ? call_part(a, number_of(m, 0, -1, CR_ROLE_EMBED), tokens)
                          : cr_affine_rows(&m->p[CR_ROLE_EMBED], tokens, m->dtype);
    if (!x) return NULL;
    const cr_tensor *kinds = m->p[CR_ROLE_KINDS].weight ? cr_linear_weight(m->p[CR_ROLE_KINDS].weight) : NULL;
    if (m->p[CR_ROLE_POSITION].weight) x = cr_add(x, learned(a, tokens));
    if (kinds) x = cr_add(x, a->kinds ? cr_embedding(kinds, a->kinds) : cr_slice(kinds, 0, 0, 1, 1));
    x = norm(a, 0, CR_ROLE_EMBED_NORM, scaled(x, m->embed_scale));
    x = norm(a, 0, CR_ROLE_LAST_NORM, blocks(a, dropped(a, x)));
    return x ? scaled(x, f->logit_scale) : NULL;
}

static cr_tensor *hidden(const void *model, const cr_tensor *tokens, const cr_caches *caches) {
    return stream(&(pass){.m = model, .caches = caches}, tokens);
}

static cr_tensor *packed(const void *model, const cr_tensor *tokens, const cr_segments *s) {
    return stream(&(pass){.m = model, .s = s}, tokens);
}

cr_tensor *cr_transformer_hidden(const cr_transformer *m, const cr_tensor *tokens, cr_generator *drop) {
    return stream(&(pass){.m = m, .train = {m->f.dropout, drop}}, tokens);
}

cr_tensor *cr_transformer_pass(const cr_transformer *m, const cr_tensor *tokens, const cr_caches *caches,
                               const cr_segments *s, const cr_lm_reading *p) {
    pass a = {.m = m, .caches = caches, .s = s};
    if (p) a.train = p->train, a.mask = p->mask, a.kinds = p->kinds;
    if (p && p->parts) a.parts = *p->parts;
    return stream(&a, tokens);
}

cr_tensor *cr_transformer_part(const cr_transformer *m, int64_t part, const cr_tensor *x) {
    const pass *a = running;
    if (!a || a->m != m)
        return cr_fail(CR_RUNTIME, "lm", "a part computes only inside of its model: call the model"), NULL;
    const int64_t E = m->f.experts + 1, l = part / KINDS / E, e = part / KINDS % E - 1;
    const cr_role r = (cr_role)(part % KINDS);
    switch ((int)r) {
    case BLOCK: return block_forward(a, l, x);
    case ATTENTION: return attend_to(a, l, x);
    case MLP: return feed_forward(a, l, x);
    default: break;
    }
    const cr_affine *p = !cr_role_of_block(r) ? &m->p[r] : e < 0 ? &m->h[l].p[r]
                                                                 : &m->h[l].expert[e][r - CR_ROLE_EXPERT_GATE];
    const bool vector = p->weight && cr_ndim(p->weight) == 1;
    return vector ? norm_by(m, p, x) : cr_affine_apply(p, x);
}

cr_tensor *cr_transformer_capped(const cr_transformer *m, cr_tensor *logits) {
    return cr_capped(logits, m->f.logit_cap);
}

/* ---- outputs of encoders */
bool cr_transformer_gives(const cr_transformer *m, cr_lm_output what) {
    const cr_affine *p = m->p;
    if (what == CR_OUTPUT_POOLED) return cr_affine_exists(&p[CR_ROLE_POOLER]);
    return cr_affine_exists(&p[CR_ROLE_CLASS]) || cr_affine_exists(&p[CR_ROLE_TOKEN_CLASS]) ||
           p[CR_ROLE_HEAD_BIAS].weight || cr_affine_exists(&p[CR_ROLE_HEAD]);
}

cr_tensor *cr_mean_seen(const cr_tensor *x, const cr_tensor *mask) {
    if (!mask) return cr_mean(x, CR_LIST(1), false);
    const cr_tensor *share = cr_to(cr_ne(mask, cr_scalar_int(0)), cr_dtype_of(x), cr_device_of(x));
    const cr_tensor *sum = cr_sum(cr_mul(x, cr_unsqueeze(share, 2)), CR_LIST(1), false);
    return cr_div(sum, cr_clamp(cr_sum(share, CR_LIST(1), true), 1e-9, INFINITY));
}

static cr_tensor *top(const pass *a, cr_role r, const cr_tensor *x) {
    return x ? affine(a, 0, -1, r, &a->m->p[r], x) : NULL;
}

/* The layers before a head: dense, activation, norm. */
static cr_tensor *before_head(const pass *a, const cr_tensor *x) {
    const cr_features *f = &a->m->f;
    cr_tensor *y = top(a, CR_ROLE_HEAD_DENSE, x);
    return norm(a, 0, CR_ROLE_HEAD_NORM, y ? activated(f->head_gelu ? CR_ACT_GELU : f->activation, y) : NULL);
}

static cr_tensor *classes(const pass *a, const cr_tensor *x, const cr_tensor *mask) {
    const cr_affine *p = a->m->p;
    const cr_features *f = &a->m->f;
    const bool each = cr_affine_exists(&p[CR_ROLE_TOKEN_CLASS]);
    cr_tensor *y = each ? cr_view(x, 3, cr_shape(x)) : f->class_mean ? cr_mean_seen(x, mask) : cr_select(x, 1, 0);
    if (cr_affine_exists(&p[CR_ROLE_HEAD_DENSE])) y = before_head(a, y);
    if (each) return top(a, CR_ROLE_TOKEN_CLASS, y);
    if (cr_affine_exists(&p[CR_ROLE_POOLER])) y = cr_tanh(top(a, CR_ROLE_POOLER, y));
    if (cr_affine_exists(&p[CR_ROLE_CLASS_DENSE])) {
        y = top(a, CR_ROLE_CLASS_DENSE, y);
        y = f->class_relu ? cr_relu(y) : cr_tanh(y);
    }
    return top(a, CR_ROLE_CLASS, y);
}

cr_tensor *cr_transformer_output(const cr_transformer *m, cr_lm_output what, const cr_tensor *x, const cr_tensor *mask,
                                 const cr_lm_parts *parts) {
    pass a = {.m = m};
    if (parts) a.parts = *parts;
    if (what == CR_OUTPUT_POOLED) return cr_tanh(top(&a, CR_ROLE_POOLER, cr_select(x, 1, 0)));
    const cr_affine *p = m->p, *bias = &p[CR_ROLE_HEAD_BIAS];
    if (cr_affine_exists(&p[CR_ROLE_CLASS]) || cr_affine_exists(&p[CR_ROLE_TOKEN_CLASS])) return classes(&a, x, mask);
    const cr_tensor *y = cr_affine_exists(&p[CR_ROLE_HEAD_DENSE]) ? before_head(&a, x) : x;
    cr_tensor *z = m->f.tied ? cr_affine_apply(&p[CR_ROLE_EMBED], y) : top(&a, CR_ROLE_HEAD, y);
    return bias->weight ? cr_add(z, bias->weight) : z;
}

const cr_affine *cr_transformer_dense_at(const cr_transformer *m, int i) {
    const cr_affine *p = &m->p[CR_ROLE_DENSE_1 + i];
    return cr_affine_exists(p) ? p : NULL;
}

cr_tensor *cr_transformer_dense(const cr_transformer *m, int i, const cr_tensor *x, const cr_lm_parts *parts) {
    pass a = {.m = m};
    if (parts) a.parts = *parts;
    return top(&a, (cr_role)(CR_ROLE_DENSE_1 + i), x);
}

cr_decoder cr_transformer_decoder(const cr_transformer *m) {
    const cr_features *f = &m->f;
    const bool steady = !cr_features_grow(f) && !f->experts && !f->encoder;
    return (cr_decoder){m, hidden, packed, m->p[f->tied ? CR_ROLE_EMBED : CR_ROLE_HEAD], f->vocabulary, f->context,
                        f->layers, f->kv_heads, f->head_dim, m->dtype, m->dev, steady, f->logit_cap, NULL};
}

void cr_transformer_recompute(cr_transformer *m, bool on) { m->recomputes = on; }

const cr_features *cr_transformer_features(const cr_transformer *m) { return &m->f; }

/* ---- building */
/* A matrix (rows, columns), or where columns is 0 a vector. */
typedef struct shape { bool there; int64_t rows, columns; bool bias; } shape;

/* The shape of a role's weight in layer l. */
static shape shape_of(const cr_features *f, cr_role r, int64_t l) {
    const int64_t C = f->width, Q = f->heads * f->head_dim, KV = f->kv_heads * f->head_dim, N = f->inner;
    const int64_t M = f->expert_inner, S = f->shared_inner;
    const bool experts = cr_role_of_block(r) && f->layer[l].experts, shared = experts && S, whole = f->qk_norm_whole;
    switch (r) {
    case CR_ROLE_EMBED: return (shape){true, f->vocabulary, C, false};
    case CR_ROLE_POSITION: return (shape){true, f->context + (f->positions_skip ? f->pad + 1 : 0), C, false};
    case CR_ROLE_KINDS: return (shape){f->kinds > 0, f->kinds, C, false};
    case CR_ROLE_RELATIVE: return (shape){true, f->buckets, f->heads, false};
    case CR_ROLE_DENSE_1:
    case CR_ROLE_DENSE_2: return (shape){true, 1, 1, false};        /* by the weights */
    case CR_ROLE_EMBED_NORM:
    case CR_ROLE_HEAD_NORM: return (shape){true, C, 0, f->norm_bias};
    case CR_ROLE_HEAD_DENSE: return (shape){true, C, C, f->head_dense_bias};
    case CR_ROLE_POOLER:
    case CR_ROLE_CLASS_DENSE: return (shape){true, C, C, true};
    case CR_ROLE_CLASS: return (shape){!f->class_each, f->labels, C, true};
    case CR_ROLE_TOKEN_CLASS: return (shape){f->class_each, f->labels, C, true};
    case CR_ROLE_HEAD: return (shape){!f->tied, f->vocabulary, C, f->head_bias};
    case CR_ROLE_NORM_1: return (shape){l || !f->first_unnormed, C, 0, f->norm_bias};
    case CR_ROLE_POST_1:
    case CR_ROLE_POST_2:
    case CR_ROLE_LAST_NORM: return (shape){true, C, 0, f->norm_bias};
    case CR_ROLE_NORM_2: return (shape){!f->parallel || !f->one_norm, C, 0, f->norm_bias};
    case CR_ROLE_Q_NORM: return (shape){f->qk_norm, whole ? Q : f->head_dim, 0, f->norm_bias};
    case CR_ROLE_K_NORM: return (shape){f->qk_norm, whole ? KV : f->head_dim, 0, f->norm_bias};
    case CR_ROLE_QKV: return (shape){true, Q + 2 * KV, C, f->qkv_bias};
    case CR_ROLE_Q: return (shape){true, Q, C, f->qkv_bias};
    case CR_ROLE_K:
    case CR_ROLE_V: return (shape){true, KV, C, f->qkv_bias};
    case CR_ROLE_O: return (shape){true, C, Q, f->out_bias};
    case CR_ROLE_GATE_UP: return (shape){!experts, 2 * N, C, f->mlp_bias};
    case CR_ROLE_GATE:
    case CR_ROLE_UP: return (shape){!experts, N, C, f->mlp_bias};
    case CR_ROLE_DOWN: return (shape){!experts, C, N, f->mlp_bias || f->down_bias};
    case CR_ROLE_ROUTER: return (shape){experts, f->experts, C, f->router_bias};
    case CR_ROLE_EXPERT_GATE:
    case CR_ROLE_EXPERT_UP: return (shape){experts, M, C, f->glu_alpha > 0};
    case CR_ROLE_EXPERT_DOWN: return (shape){experts, C, M, f->glu_alpha > 0};
    case CR_ROLE_SHARED_GATE:
    case CR_ROLE_SHARED_UP: return (shape){shared, S, C, false};
    case CR_ROLE_SHARED_DOWN: return (shape){shared, C, S, false};
    case CR_ROLE_SHARED_ROUTER: return (shape){shared, 1, C, false};
    case CR_ROLE_HEAD_BIAS:
    case CR_ROLE_SINKS:
    case CR_ROLE_EXPERTS_GATE_UP:
    case CR_ROLE_EXPERTS_DOWN:
    case CR_ROLES: break;
    }
    return (shape){0};
}

/* "layers.%.x.#.y" with numbers */
static const char *name_of(const char *pattern, int64_t layer, int64_t number, char *out, size_t room) {
    size_t at = 0;
    for (const char *p = pattern; *p && at + 24 < room; p++) {
        if (*p == '%' || *p == '#')
            at += (size_t)snprintf(out + at, room - at, "%lld", (long long)(*p == '%' ? layer : number));
        else out[at++] = *p;
    }
    out[at] = 0;
    return out;
}

/* Tensors that are no layer's: the sinks, and all experts in one. */
static void bind_raw(cr_transformer *m, cr_binder *b, cr_role r, int64_t l, const char *name, cr_affine *p) {
    const cr_features *f = &m->f;
    const int64_t C = f->width, N = f->expert_inner, E = f->experts;
    char bias[140];
    snprintf(bias, sizeof bias, "%s_bias", name);
    if (r == CR_ROLE_SINKS) p->weight = cr_bind(b, name, CR_LIST(f->heads));
    if (r == CR_ROLE_SINKS || !f->layer[l].experts) return;
    const bool in = r == CR_ROLE_EXPERTS_GATE_UP;
    p->weight = cr_bind(b, name, CR_LIST(E, in ? C : N, in ? 2 * N : C));
    p->bias = cr_bind(b, bias, CR_LIST(E, in ? 2 * N : C));
}

static void bind_vector(cr_binder *b, const char *name, int64_t rows, bool bias, cr_affine *p) {
    char full[140];
    snprintf(full, sizeof full, "%s.weight", name);
    p->weight = cr_bind(b, full, CR_LIST(rows));
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) p->bias = cr_bind(b, full, CR_LIST(rows));
}

/* All experts in one tensor?  Some files have them one by one. */
static bool is_joint(const cr_transformer *m, const cr_binder *b) {
    const char *pattern = cr_family_name(m->family, CR_ROLE_EXPERTS_GATE_UP);
    char name[128];
    for (int64_t l = 0; pattern && !b->dev && l < m->f.layers; l++)
        if (m->f.layer[l].experts) return cr_params_if(b->from, name_of(pattern, l, 0, name, sizeof name)) != NULL;
    return pattern != NULL;
}

/* Is it of those that only some models of a family have? */
static bool is_table(cr_role r) { return r == CR_ROLE_POSITION || r == CR_ROLE_KINDS || r == CR_ROLE_RELATIVE; }
static bool is_dense(cr_role r) { return r == CR_ROLE_DENSE_1 || r == CR_ROLE_DENSE_2; }
static bool is_optional(const cr_features *f, cr_role r) {
    return (f->encoder && r >= CR_ROLE_POOLER) || is_dense(r);
}

/* The shape of the weight of a layer, as floats or packed; false: there is none. */
static bool weight_shape(const cr_binder *b, const char *layer, int64_t *rows, int64_t *columns) {
    const size_t n = strlen(layer);
    for (int64_t i = 0; b->from && i < cr_params_count(b->from); i++) {
        const char *name = cr_params_name(b->from, i);
        const cr_tensor *t = cr_params_at(b->from, i);
        const int format = strncmp(name, layer, n) || name[n] != '.' ? -1 : cr_packed_format(name, NULL);
        const bool floats = !strncmp(name, layer, n) && !strcmp(name + n, ".weight");
        if ((!floats && format < 0) || cr_ndim(t) < 1 || cr_ndim(t) > 2) continue;
        *rows = cr_size(t, 0);
        *columns = cr_size(t, -1);
        if (!floats) *columns = *columns / cr_formats[format].bytes * cr_formats[format].block;
        return true;
    }
    return false;
}

static void bind_role(cr_transformer *m, cr_binder *b, cr_role r, int64_t l) {
    const char *pattern = cr_family_name(m->family, r);
    const shape is = pattern ? shape_of(&m->f, r, l) : (shape){0};
    char name[128], full[140];
    int64_t rows = 1, columns = 1;
    if (!pattern) return;
    if (is_optional(&m->f, r) &&
        (b->dev || !(r == CR_ROLE_HEAD_BIAS ? cr_params_if(b->from, pattern) != NULL
                                            : weight_shape(b, pattern, &rows, &columns)))) return;
    cr_affine *p = cr_role_of_block(r) ? &m->h[l].p[r] : &m->p[r];
    name_of(pattern, l, 0, name, sizeof name);
    snprintf(full, sizeof full, "%s.weight", name);
    const bool joint = r == CR_ROLE_EXPERTS_GATE_UP || r == CR_ROLE_EXPERTS_DOWN;
    if (r == CR_ROLE_HEAD_BIAS) p->weight = cr_bind(b, name, CR_LIST(m->f.vocabulary));
    else if (r == CR_ROLE_SINKS || (joint && m->joint)) bind_raw(m, b, r, l, name, p);
    else if (!is.there || (cr_role_of_expert(r) && m->joint)) return;
    else if (cr_role_of_expert(r))
        for (int64_t e = 0; e < m->f.experts; e++)
            m->h[l].expert[e][r - CR_ROLE_EXPERT_GATE] =
                cr_bind_affine(b, name_of(pattern, l, e, name, sizeof name), is.rows, is.columns, is.bias);
    else if (is_dense(r)) {                         /* of any shape */
        snprintf(full, sizeof full, "%s.bias", name);
        *p = cr_bind_affine(b, name, rows, columns, cr_params_if(b->from, full) != NULL);
    } else if (is_table(r)) p->weight = cr_bind(b, full, CR_LIST(is.rows, is.columns));
    else if (is.columns) *p = cr_bind_affine(b, name, is.rows, is.columns, is.bias);
    else bind_vector(b, name, is.rows, is.bias, p);
}

/* The classes that the weights are of. */
static int64_t labels_of(const cr_transformer *m, const cr_binder *b) {
    const char *name = cr_family_name(m->family, m->f.class_each ? CR_ROLE_TOKEN_CLASS : CR_ROLE_CLASS);
    int64_t rows = 1, columns;
    if (name) (void)weight_shape(b, name, &rows, &columns);
    return rows;
}

/* sqrt(C) as the dtype has it */
static double embed_scale(const cr_features *f, cr_dtype dt) {
    if (!f->embed_root) return f->embed_scale != 0 ? f->embed_scale : 1;
    cr_scope_begin();
    const double rounded = cr_item(cr_full(0, NULL, sqrt((double)f->width), dt, cr_cpu()));
    cr_scope_end();
    return rounded;
}

cr_transformer *cr_transformer_over(const char *op, const cr_family *family, cr_features *f, const cr_device *dev,
                                    cr_binder *b) {
    cr_transformer *m = calloc(1, sizeof *m + (size_t)f->layers * sizeof *m->h);
    if (!m) {
        cr_features_end(f);
        return cr_fail(CR_NO_MEMORY, op, "no memory for %lld layers", (long long)f->layers), NULL;
    }
    m->f = *f;
    m->family = family;
    m->dtype = b->dtype;
    m->dev = dev;
    m->embed_scale = embed_scale(f, b->dtype);
    b->head_dim = f->head_dim;
    m->joint = f->experts && is_joint(m, b);
    m->f.labels = f->encoder ? labels_of(m, b) : 0;
    bool ok = !b->from || m->joint || f->experts <= cr_params_count(b->from);
    for (cr_role r = CR_ROLE_EMBED; !cr_role_of_block(r); r++) bind_role(m, b, r, 0);
    for (int64_t l = 0; l < f->layers && ok; l++) {
        const bool each = f->layer[l].experts && !m->joint;
        if (each) ok = (m->h[l].expert = calloc((size_t)f->experts, sizeof *m->h->expert)) != NULL;
        for (cr_role r = CR_ROLE_NORM_1; cr_role_of_block(r) && ok; r++) bind_role(m, b, r, l);
    }
    for (cr_role r = CR_ROLE_LAST_NORM; r < CR_ROLES; r++) bind_role(m, b, r, 0);
    if (ok) return m;
    const int64_t experts = f->experts;
    cr_transformer_free(m);
    return cr_fail(CR_BAD_VALUE, op, "%lld experts are more than the weights have, or than memory", (long long)experts),
           NULL;
}

void cr_transformer_free(cr_transformer *m) {
    for (int64_t l = 0; m && l < m->f.layers; l++) free(m->h[l].expert);
    if (m) cr_features_end(&m->f);
    free(m);
}

/* ---- visits */
static bool is_router(cr_role r) { return r == CR_ROLE_ROUTER || r == CR_ROLE_SHARED_ROUTER; }

static cr_status visit_affine(cr_transformer *m, int64_t l, cr_role r, int64_t e, cr_affine *p, cr_named_affine fn,
                              void *ctx) {
    char name[128];
    if (!cr_affine_exists(p) || (p->weight && cr_ndim(p->weight) != 2)) return CR_OK;
    return fn(ctx, name_of(cr_family_name(m->family, r), l, e, name, sizeof name), p);
}

static cr_status visit_blocks(cr_transformer *m, bool routers, cr_named_affine fn, void *ctx) {
    cr_status status = CR_OK;
    for (int64_t l = 0; l < m->f.layers; l++)
        for (cr_role r = CR_ROLE_QKV; cr_role_of_block(r) && status == CR_OK; r++) {
            const bool each = cr_role_of_expert(r);
            if (is_router(r) && !routers) continue;
            if (!each) status = visit_affine(m, l, r, 0, &m->h[l].p[r], fn, ctx);
            for (int64_t e = 0; each && m->h[l].expert && e < m->f.experts && status == CR_OK; e++)
                status = visit_affine(m, l, r, e, &m->h[l].expert[e][r - CR_ROLE_EXPERT_GATE], fn, ctx);
        }
    return status;
}

cr_status cr_transformer_each(cr_transformer *m, cr_named_affine fn, void *ctx) {
    return visit_blocks(m, false, fn, ctx);
}

cr_status cr_transformer_all(cr_transformer *m, cr_named_affine fn, void *ctx) {
    cr_status status = visit_affine(m, 0, CR_ROLE_EMBED, 0, &m->p[CR_ROLE_EMBED], fn, ctx);
    if (status == CR_OK) status = visit_blocks(m, true, fn, ctx);
    for (cr_role r = CR_ROLE_LAST_NORM; r < CR_ROLES && status == CR_OK; r++)
        status = visit_affine(m, 0, r, 0, &m->p[r], fn, ctx);
    return status;
}

/* ---- experts in one tensor, as the files of a family have them that were read from others */
bool cr_transformer_joins(const cr_transformer *m) {
    if (m->joint || !m->f.experts || !cr_family_name(m->family, CR_ROLE_EXPERTS_GATE_UP)) return false;
    for (int64_t l = 0; l < m->f.layers; l++) if (m->h[l].expert) return true;
    return false;
}

static cr_tensor *expert_floats(const cr_transformer *m, const cr_affine *p, bool bias, cr_dtype dt) {
    if (bias) return cr_to(p->bias, dt, m->dev);
    return p->packed ? cr_affine_floats(p, dt) : cr_to(p->weight, dt, m->dev);
}

/* (E, C, 2 N), columns of gate and up in turns, or (E, N, C); biases (E, 2 N) or (E, C) */
static cr_tensor *joined(const cr_transformer *m, int64_t l, bool down, bool bias, cr_dtype dt) {
    const int64_t E = m->f.experts;
    const cr_tensor **each = malloc((size_t)E * sizeof *each);
    if (!each) return cr_fail(CR_NO_MEMORY, "lm_save", "no memory for %lld experts", (long long)E), NULL;
    for (int64_t e = 0; e < E; e++) {
        const cr_affine *p = m->h[l].expert[e];
        cr_tensor *y = expert_floats(m, &p[down ? 2 : 0], bias, dt);
        if (!down) {
            const cr_tensor *turns[] = {y, expert_floats(m, &p[1], bias, dt)};
            y = cr_stack(2, turns, 1);
            y = bias ? cr_reshape(y, CR_LIST(-1)) : cr_reshape(y, CR_LIST(2 * m->f.expert_inner, -1));
        }
        each[e] = bias ? y : cr_transpose(y, 0, 1);
    }
    cr_tensor *y = cr_stack((int)E, each, 0);
    free(each);
    return y;
}

cr_status cr_transformer_join(const cr_transformer *m, cr_dtype dt, const char *prefix, cr_params *into) {
    static const cr_role roles[] = {CR_ROLE_EXPERTS_GATE_UP, CR_ROLE_EXPERTS_DOWN};
    cr_status status = CR_OK;
    for (int64_t i = 0; i < 4 * m->f.layers && status == CR_OK; i++) {
        char name[128], full[300];
        const bool down = i & 1, bias = i & 2;
        if (!m->h[i / 4].expert) continue;
        name_of(cr_family_name(m->family, roles[down]), i / 4, 0, name, sizeof name);
        snprintf(full, sizeof full, "%s%s%s", prefix, name, bias ? "_bias" : "");
        cr_scope_begin();
        cr_tensor *t = joined(m, i / 4, down, bias, dt);
        status = t ? cr_params_add(into, full, t) : cr_error_status();
        cr_scope_end();
    }
    return status;
}

int64_t cr_transformer_parts(const cr_transformer *m) { return number_of(m, m->f.layers, -1, 0); }

/* The name without its last word, or with `number` up to its number. */
static void cut_words(char *name, bool number) {
    char *dot = strrchr(name, '.');
    if (dot) *dot = 0;
    for (; number && (dot = strrchr(name, '.')) && !(dot[1] >= '0' && dot[1] <= '9');) *dot = 0;
}

static cr_status visit_block(const cr_transformer *m, int64_t l, cr_lm_visit fn, void *ctx) {
    const cr_family *f = m->family;
    const bool mixes = m->f.layer[l].experts;
    const struct { int kind; cr_role of; } groups[] = {
        {BLOCK, CR_ROLE_O}, {ATTENTION, CR_ROLE_O}, {MLP, mixes ? CR_ROLE_ROUTER : CR_ROLE_DOWN}};
    char name[128];
    cr_status status = CR_OK;
    for (int i = 0; i < (m->f.post_norm ? 1 : 3) && status == CR_OK; i++) {     /* their attention has the sum, too */
        name_of(cr_family_name(f, groups[i].of), l, 0, name, sizeof name);
        cut_words(name, groups[i].kind == BLOCK);
        status = fn(ctx, name, number_of(m, l, -1, groups[i].kind), CR_PART_GROUP);
    }
    return status;
}

static cr_lm_part kind_of(const cr_transformer *m, cr_role r, shape is) {
    if (r == CR_ROLE_EMBED) return CR_PART_ROWS;
    if (is_table(r)) return CR_PART_TABLE;
    if (is.columns) return CR_PART_LINEAR;
    return m->f.layer_norm ? CR_PART_LAYER_NORM : m->f.unit_offset ? CR_PART_NORM : CR_PART_RMS_NORM;
}

static cr_status visit_role(const cr_transformer *m, cr_role r, int64_t l, cr_lm_visit fn, void *ctx) {
    const char *pattern = cr_family_name(m->family, r);
    const shape is = pattern ? shape_of(&m->f, r, l) : (shape){0};
    char name[128];
    cr_status status = CR_OK;
    if (!is.there || (cr_role_of_expert(r) && m->joint)) return CR_OK;
    if (is_optional(&m->f, r) && !cr_affine_exists(&m->p[r])) return CR_OK;
    for (int64_t e = 0; e < (cr_role_of_expert(r) ? m->f.experts : 1) && status == CR_OK; e++)
        status = fn(ctx, name_of(pattern, l, e, name, sizeof name),
                    number_of(m, l, cr_role_of_expert(r) ? e : -1, (int)r), kind_of(m, r, is));
    return status;
}

cr_status cr_transformer_visit(const cr_transformer *m, cr_lm_visit fn, void *ctx) {
    cr_status status = CR_OK;
    for (cr_role r = CR_ROLE_EMBED; r < CR_ROLES && status == CR_OK; r++)
        if (!cr_role_of_block(r)) status = visit_role(m, r, 0, fn, ctx);
    for (int64_t l = 0; l < m->f.layers && status == CR_OK; l++) {
        status = visit_block(m, l, fn, ctx);
        for (cr_role r = CR_ROLE_NORM_1; cr_role_of_block(r) && status == CR_OK; r++)
            status = visit_role(m, r, l, fn, ctx);
    }
    return status;
}

/* Does it add to the residual stream? */
static bool is_output(const cr_transformer *m, const cr_tensor *weight) {
    for (int64_t l = 0; l < m->f.layers; l++) {
        const block *b = &m->h[l];
        bool is = b->p[CR_ROLE_O].weight == weight || b->p[CR_ROLE_DOWN].weight == weight ||
                  b->p[CR_ROLE_EXPERTS_DOWN].weight == weight || b->p[CR_ROLE_SHARED_DOWN].weight == weight;
        for (int64_t e = 0; b->expert && e < m->f.experts; e++) is |= b->expert[e][2].weight == weight;
        if (is) return true;
    }
    return false;
}

cr_status cr_transformer_initialise(const cr_transformer *m, const cr_params *p, cr_generator *g) {
    const double std = 0.02, residual_std = std / sqrt(2.0 * (double)m->f.layers);
    const bool grad = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    for (int64_t i = 0; i < cr_params_count(p) && status == CR_OK; i++) {
        cr_tensor *t = cr_params_at(p, i);
        const double fill = strstr(cr_params_name(p, i), "bias") || m->f.unit_offset ? 0 : 1;
        if (cr_ndim(t) > 1) status = cr_init_normal(t, 0, is_output(m, t) ? residual_std : std, g);
        else status = cr_fill_(t, fill) ? CR_OK : cr_error_status();
    }
    cr_set_grad_enabled(grad);
    return status;
}

cr_affine *cr_transformer_head(cr_transformer *m) { return &m->p[m->f.tied ? CR_ROLE_EMBED : CR_ROLE_HEAD]; }
