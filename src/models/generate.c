/* generate.c - text from a language model: one token drawn from logits, and decoding with a cache of
 * keys and values for any model that is a cr_decoder. */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

/* ---- sampling */

typedef struct choice { double p; uint32_t id; } choice;

static int likelier(const void *a, const void *b) {
    const choice *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static cr_status uniform(cr_generator *g, double *u) {
    cr_tensor *t = cr_rand(CR_ALL, CR_F64, cr_cpu(), g);
    if (!t) return cr_error_status();
    *u = cr_item(t);
    cr_release(t);
    return CR_OK;
}

/* Draws from softmax(logits / temperature) over the top_k likeliest tokens, reduced to the fewest that
 * have top_p of the mass. In double on the host from one uniform u: equal logits give the same token
 * on every device. */
static uint32_t draw(const double *logits, choice *c, int64_t V, const cr_sampling *s, double u) {
    int64_t best = 0, n = V;
    for (int64_t i = 1; i < V; i++) if (logits[i] > logits[best]) best = i;
    if (s->temperature == 0) return (uint32_t)best;
    for (int64_t i = 0; i < V; i++) c[i] = (choice){exp((logits[i] - logits[best]) / s->temperature), (uint32_t)i};
    if ((s->top_k > 0 && s->top_k < V) || s->top_p < 1) qsort(c, (size_t)V, sizeof *c, likelier);
    if (s->top_k > 0 && s->top_k < n) n = s->top_k;
    double sum = 0, nucleus = 0;
    for (int64_t i = 0; i < n; i++) sum += c[i].p;
    if (s->top_p < 1) {
        int64_t kept = 0;
        while (kept < n && (kept == 0 || nucleus < s->top_p * sum)) nucleus += c[kept++].p;
        n = kept;
        sum = nucleus;
    }
    u *= sum;
    int64_t i = 0;
    while (i < n - 1 && (u -= c[i].p) >= 0) i++;
    return c[i].id;
}

static cr_status check_sampling(const char *op, const cr_sampling *s) {
    if (!(s->temperature >= 0 && s->temperature < INFINITY))
        return cr_fail(CR_BAD_VALUE, op, "temperature must be 0 or more, not %g", s->temperature);
    if (!(s->top_p > 0 && s->top_p <= 1)) return cr_fail(CR_BAD_VALUE, op, "top_p must be in (0, 1], not %g", s->top_p);
    if (s->top_k < 0) return cr_fail(CR_BAD_VALUE, op, "top_k must be 0 (all) or more, not %lld", (long long)s->top_k);
    return CR_OK;
}

static const cr_sampling plain = {.temperature = 1, .top_p = 1};

cr_status cr_sample(const cr_tensor *logits, const cr_sampling *s, cr_generator *g, uint32_t *id) {
    static const char op[] = "sample";
    if (!logits) return cr_fail_null(op, "logits");
    if (!id) return cr_fail_null(op, "id");
    if (!s) s = &plain;
    cr_status status = check_sampling(op, s);
    const int64_t V = cr_numel(logits);
    if (status != CR_OK) return status;
    if (V < 1 || V > UINT32_MAX) return cr_fail(CR_BAD_VALUE, op, "cannot choose among %lld logits", (long long)V);
    double *row = malloc((size_t)V * sizeof *row), u = 0;
    choice *choices = malloc((size_t)V * sizeof *choices);
    status = row && choices ? cr_read(logits, CR_F64, row, (size_t)V * sizeof *row)
                            : cr_fail(CR_NO_MEMORY, op, "no memory for %lld logits", (long long)V);
    for (int64_t i = 0; i < V; i++) {
        if (status != CR_OK) break;
        if (!(row[i] < INFINITY))
            status = cr_fail(CR_BAD_VALUE, op, "the logit of token %lld is %g: the model has diverged", (long long)i,
                             row[i]);
    }
    if (status == CR_OK && s->temperature > 0) status = uniform(g ? g : cr_default_generator(), &u);
    if (status == CR_OK) *id = draw(row, choices, V, s, u);
    free(row);
    free(choices);
    return status;
}

/* ---- decoding */

cr_tensor *cr_kv_append(cr_tensor *store, const cr_tensor *fresh, int64_t past) {
    const int64_t T = cr_size(fresh, 2);
    if (!cr_copy_(cr_slice(store, 2, past, past + T, 1), fresh)) return NULL;
    return cr_slice(store, 2, 0, past + T, 1);
}

cr_status cr_check_tokens(const char *op, const cr_tensor *tokens, int64_t context) {
    if (!tokens) return cr_fail_null(op, "tokens");
    if (cr_is_none(tokens)) return cr_fail(CR_BAD_VALUE, op, "tokens may not be CR_NONE");
    if (cr_ndim(tokens) != 2)
        return cr_fail(CR_BAD_VALUE, op, "tokens must be (batch, time), not of %d axes", cr_ndim(tokens));
    const int64_t T = cr_size(tokens, 1);
    if (T < 1 || T > context)
        return cr_fail(CR_BAD_VALUE, op, "tokens hold %lld steps of time: the model takes 1 to %lld", (long long)T,
                       (long long)context);
    return CR_OK;
}

/* Runs n tokens after `past` cached ones and draws the next token. */
static cr_status next_token(const cr_decoder *d, cr_kv *kv, int64_t past, const uint32_t *ids, int64_t n,
                            const cr_sampling *s, cr_generator *g, uint32_t *id) {
    cr_scope_begin();
    cr_tensor *x = d->hidden(
        d->model, cr_reshape(cr_to(cr_from(ids, CR_LIST(n), CR_U32, d->dev), CR_I64, d->dev), CR_LIST(1, n)), kv, past);
    cr_status status = cr_sample(cr_affine_apply(&d->head, cr_slice(x, 1, n - 1, n, 1), CR_ACT_NONE), s, g, id);
    cr_scope_end();
    return status;
}

static cr_status check_generate(const char *op, const cr_decoder *d, const uint32_t *prompt, int64_t n_prompt,
                                int64_t n_new, const cr_sampling *s, cr_on_token on_token) {
    if (!prompt) return cr_fail_null(op, "prompt");
    if (!on_token) return cr_fail_null(op, "on_token");
    if (n_prompt < 1)
        return cr_fail(CR_BAD_VALUE, op, "the prompt must hold at least one token, not %lld", (long long)n_prompt);
    if (n_new < 0) return cr_fail(CR_BAD_VALUE, op, "cannot make %lld tokens", (long long)n_new);
    for (int64_t i = 0; i < n_prompt; i++)
        if (prompt[i] >= d->vocabulary)
            return cr_fail(CR_BAD_INDEX, op, "prompt token %lld is %u: the vocabulary has %lld", (long long)i,
                           prompt[i], (long long)d->vocabulary);
    return check_sampling(op, s);
}

static bool cache_new(const cr_decoder *d, int64_t room, cr_kv *kv) {
    for (int64_t l = 0; l < d->layers; l++) {
        kv[l].k = cr_empty(CR_LIST(1, d->kv_heads, room, d->head_dim), d->dtype, d->dev);
        kv[l].v = cr_empty_like(kv[l].k);
        if (!kv[l].v) return false;
    }
    return true;
}

/* window[0..n) is the model's input; kv has the keys and values of its first `past` tokens.  When the
 * context is full, the last context / 2 tokens become the new window and are computed again at their
 * new positions. */
cr_status cr_decode(const char *op, const cr_decoder *d, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                    const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx) {
    if (!s) s = &plain;
    cr_status status = check_generate(op, d, prompt, n_prompt, n_new, s, on_token);
    if (status != CR_OK) return status;
    const int64_t context = d->context, all = n_new < context ? n_prompt + n_new : context,
                  room = all < context ? all : context;
    uint32_t *window = malloc((size_t)(room + 1) * sizeof *window), id;
    cr_kv *kv = calloc((size_t)d->layers, sizeof *kv);
    const bool grad = cr_set_grad_enabled(false);
    cr_scope_begin();
    if (!window || !kv)
        status = cr_fail(CR_NO_MEMORY, op, "no memory for a context of %lld", (long long)room);
    else if (!cache_new(d, room, kv)) status = cr_error_status();

    int64_t n = n_prompt < context ? n_prompt : context, past = 0;
    if (status == CR_OK) memcpy(window, prompt + (n_prompt - n), (size_t)n * sizeof *window);
    for (int64_t i = 0; i < n_new; i++) {
        if (status != CR_OK) break;
        status = cr_check_interrupt(op);
        if (status == CR_OK) status = next_token(d, kv, past, window + past, n - past, s, g, &id);
        if (status != CR_OK || !on_token(id, ctx)) break;
        past = n;
        if (n == context) {
            n = context / 2;
            past = 0;
            memmove(window, window + (context - n), (size_t)n * sizeof *window);
        }
        window[n++] = id;
    }
    cr_scope_end();
    cr_set_grad_enabled(grad);
    free(window); free(kv);
    return status;
}
