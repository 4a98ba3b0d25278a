/* generate.c - text from any decoder: one prompt or several, token by token, with caches of keys and values. */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/out.h"
#include "../core/status.h"

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

/* ---- one token after another */
bool cr_job_stops(const cr_job *j, uint32_t id) {
    for (int64_t i = 0; i < j->o->n_stop; i++) if (j->o->stop[i] == id) return true;
    return false;
}

/* When the context is full, its last context / 2 tokens become the new input and are computed again at
 * their new positions. */
cr_status cr_job_push(cr_job *j, int64_t i, uint32_t id) {
    cr_text *t = &j->text[i];
    const int64_t context = j->d->context;
    if (!cr_grow(&t->ids, t->n + 1, &t->room, sizeof *t->ids))
        return cr_fail(CR_NO_MEMORY, j->op, "no memory for %lld tokens", (long long)t->n + 1);
    t->made++;
    if (!j->on_token(j->first + i, id, j->ctx) || cr_job_stops(j, id) || t->made >= j->o->tokens) t->over = true;
    if (t->n - t->start == context && !t->over) {
        t->start += context - context / 2;
        t->cache->past = 0;
    }
    t->ids[t->n++] = id;
    return CR_OK;
}

static int64_t count_missing(const cr_text *t) { return t->n - t->start - t->cache->past; }

/* The next logits of each text that goes on, (1, 1, V): those that lack one token run together. */
static cr_status next_logits(cr_job *j, cr_tensor **logits, cr_cache **rows, uint32_t *ids) {
    int64_t alive = 0, B = 0;
    for (int64_t i = 0; i < j->texts; i++) alive += !j->text[i].over;
    for (int64_t i = 0; i < j->texts; i++) {
        cr_text *t = &j->text[i];
        if (t->over) continue;
        const int64_t T = count_missing(t);
        if (alive > 1 && T == 1) {
            ids[B] = t->ids[t->n - 1];
            rows[B++] = t->cache;
            continue;
        }
        logits[i] = T == 1 ? cr_forward_token(j->d, t->cache, t->ids[t->n - 1], &t->step)
                           : cr_forward(j->d, 1, &t->cache, t->ids + t->n - T, T, 1);
        if (!logits[i]) return cr_error_status();
    }
    cr_tensor *y = B ? cr_forward(j->d, B, rows, ids, 1, 1) : NULL;
    for (int64_t i = 0, b = 0; i < j->texts && b < B; i++)
        if (!j->text[i].over && !logits[i]) logits[i] = cr_slice(y, 0, b, b + 1, 1), b++;
    return !B || y ? CR_OK : cr_error_status();
}

cr_status cr_job_step(cr_job *j) {
    const size_t n = (size_t)j->texts;
    cr_tensor **logits = calloc(n, sizeof *logits);
    cr_cache **rows = malloc(n * sizeof *rows);
    uint32_t *ids = malloc(n * sizeof *ids), id;
    cr_status status = logits && rows && ids ? cr_check_interrupt(j->op)
                                             : cr_fail(CR_NO_MEMORY, j->op, "no memory for %zu texts", n);
    cr_scope_begin();
    if (status == CR_OK) status = next_logits(j, logits, rows, ids);
    for (int64_t i = 0; i < j->texts && status == CR_OK; i++) {
        cr_text *t = &j->text[i];
        if (t->over) continue;
        status = cr_sampler_read(&j->sampler, logits[i], t->ids, t->n);
        if (status == CR_OK) status = cr_sampler_draw(&j->sampler, t->g, &id);
        if (status == CR_OK) status = cr_job_push(j, i, id);
    }
    cr_scope_end();
    free(logits);
    free(rows);
    free(ids);
    return status;
}

static bool goes_on(const cr_job *j) {
    for (int64_t i = 0; i < j->texts; i++) if (!j->text[i].over) return true;
    return false;
}

/* ---- a job: the texts of one call */
static cr_status check_prompt(const char *op, const cr_decoder *d, const cr_prompt *p) {
    if (!p->ids) return cr_fail_null(op, "prompt");
    if (p->n < 1)
        return cr_fail(CR_BAD_VALUE, op, "the prompt must hold at least one token, not %lld", (long long)p->n);
    for (int64_t i = 0; i < p->n; i++)
        if (p->ids[i] >= d->vocabulary)
            return cr_fail(CR_BAD_INDEX, op, "prompt token %lld is %u: the vocabulary has %lld", (long long)i,
                           p->ids[i], (long long)d->vocabulary);
    if (p->cache && p->cache->d.model != d->model)
        return cr_fail(CR_BAD_VALUE, op, "the prompt's cache belongs to another model");
    return CR_OK;
}

static cr_status check_options(const char *op, const cr_decoder *d, const cr_decoder *draft,
                               const cr_generate_options *o) {
    if (o->tokens < 0) return cr_fail(CR_BAD_VALUE, op, "cannot make %lld tokens", (long long)o->tokens);
    if (o->n_stop < 0 || (o->n_stop && !o->stop))
        return cr_fail(CR_BAD_VALUE, op, "cannot read %lld stop tokens", (long long)o->n_stop);
    for (int64_t i = 0; i < o->n_stop; i++)
        if (o->stop[i] >= d->vocabulary)
            return cr_fail(CR_BAD_INDEX, op, "stop token %lld is %u: the vocabulary has %lld", (long long)i, o->stop[i],
                           (long long)d->vocabulary);
    if (o->beams < 0 || o->beams > 1024)
        return cr_fail(CR_BAD_VALUE, op, "beams must be between 1 and 1024, not %lld", (long long)o->beams);
    if (!isfinite(o->length_penalty))
        return cr_fail(CR_BAD_VALUE, op, "length_penalty must be finite, not %g", o->length_penalty);
    if (!draft) return CR_OK;
    if (o->beams > 1) return cr_fail(CR_BAD_VALUE, op, "beam search takes no draft model");
    if (o->draft_tokens < 0 || o->draft_tokens > 1024)
        return cr_fail(CR_BAD_VALUE, op, "draft_tokens must be between 1 and 1024, not %lld",
                       (long long)o->draft_tokens);
    if (draft->vocabulary != d->vocabulary)
        return cr_fail(CR_BAD_VALUE, op, "the draft model has a vocabulary of %lld, the model of %lld",
                       (long long)draft->vocabulary, (long long)d->vocabulary);
    return CR_OK;
}

static cr_status text_new(const cr_job *j, const cr_prompt *p, cr_text *t) {
    const int64_t context = j->d->context, n = p->n < context ? p->n : context,
                  more = j->o->tokens < context ? j->o->tokens : context, all = n + more;
    *t = (cr_text){.g = p->generator, .n = p->n, .start = p->n - n, .room = p->n + more + 1, .over = !j->o->tokens};
    t->ids = malloc((size_t)t->room * sizeof *t->ids);
    if (!t->ids) return cr_fail(CR_NO_MEMORY, j->op, "no memory for %lld tokens", (long long)t->room);
    memcpy(t->ids, p->ids, (size_t)p->n * sizeof *t->ids);
    t->owned = !p->cache;
    t->cache = p->cache ? p->cache : cr_cache_for(j->op, j->d, j->o->cache);
    if (!t->cache) return cr_error_status();
    cr_cache *c = t->cache;
    int64_t same = 0;                               /* the last token runs in any case, for its logits */
    while (same < c->past && same < n - 1 && c->ids[same] == t->ids[t->start + same]) same++;
    c->past = same;
    return cr_cache_reserve(c, all < context ? all : context);
}

static cr_status job_run(cr_job *j) {
    const cr_generate_options *o = j->o;
    cr_status status = CR_OK;
    for (int64_t i = 0; i < j->texts && (o->beams > 1 || j->draft) && status == CR_OK; i++) {
        cr_job one = *j;
        one.first = i;
        one.text = &j->text[i];
        one.texts = 1;
        while (status == CR_OK && !one.text->over) status = o->beams > 1 ? cr_beam_search(&one) : cr_speculate(&one);
    }
    while (status == CR_OK && goes_on(j)) status = cr_job_step(j);
    return status;
}

/* Makes the job of n prompts; j has op, d, draft, o and on_token.  job_end frees it, after a failure too. */
static cr_status job_new(cr_job *j, int64_t n, const cr_prompt *p) {
    const char *op = j->op;
    cr_status status = check_options(op, j->d, j->draft, j->o);
    for (int64_t i = 0; i < n && status == CR_OK; i++) {
        status = check_prompt(op, j->d, &p[i]);
        for (int64_t k = 0; k < i && status == CR_OK; k++)
            if (p[i].cache && p[i].cache == p[k].cache)
                status = cr_fail(CR_BAD_VALUE, op, "prompts %lld and %lld have the same cache", (long long)k,
                                 (long long)i);
    }
    if (status == CR_OK) status = cr_sampler_new(&j->sampler, op, j->o->sampling, j->d->vocabulary);
    j->text = status == CR_OK ? calloc((size_t)n + 1, sizeof *j->text) : NULL;
    if (status == CR_OK && !j->text) status = cr_fail(CR_NO_MEMORY, op, "no memory for %lld texts", (long long)n);
    if (status == CR_OK) j->texts = n;
    for (int64_t i = 0; i < n && status == CR_OK; i++) status = text_new(j, &p[i], &j->text[i]);
    return status;
}

static void job_end(cr_job *j) {
    for (int64_t i = 0; i < j->texts; i++) {
        cr_plan_free(j->text[i].step.plan);
        if (j->text[i].owned) cr_cache_free(j->text[i].cache);
        cr_speculation_free(j->text[i].speculation);
        free(j->text[i].ids);
    }
    free(j->text);
    cr_sampler_free(&j->sampler);
}

static cr_status run_job(const char *op, const cr_decoder *d, int64_t n, const cr_prompt *p,
                         const cr_generate_options *o, cr_on_row on_token, void *ctx) {
    cr_job j = {.op = op, .d = d, .draft = o->draft ? cr_lm_decoder(o->draft) : NULL, .o = o, .on_token = on_token,
                .ctx = ctx};
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_status status = job_new(&j, n, p);
    if (status == CR_OK) status = job_run(&j);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    job_end(&j);
    return status;
}

cr_status cr_lm_generate_batch(const cr_lm *m, int64_t n, const cr_prompt *prompts, const cr_generate_options *o,
                               cr_on_row on_token, void *ctx) {
    static const char op[] = "lm_generate_batch";
    if (cr_lacks(op, "model", m) || cr_lm_check_decoder(op, m)) return cr_error_status();
    if (!prompts) return cr_fail_null(op, "prompts");
    if (!o) return cr_fail_null(op, "options");
    if (!on_token) return cr_fail_null(op, "on_token");
    if (n < 1 || n > 65536) return cr_fail(CR_BAD_VALUE, op, "takes 1 to 65536 prompts, not %lld", (long long)n);
    if (o->draft && cr_lacks(op, "draft", o->draft)) return cr_error_status();
    return run_job(op, cr_lm_decoder(m), n, prompts, o, on_token, ctx);
}

typedef struct single { cr_on_token on_token; void *ctx; } single;

static bool on_row(int64_t row, uint32_t id, void *ctx) {
    const single *s = ctx;
    (void)row;
    return s->on_token(id, s->ctx);
}

cr_status cr_decode(const char *op, const cr_decoder *d, const uint32_t *prompt, int64_t n_prompt, int64_t n_new,
                    const cr_sampling *s, cr_generator *g, cr_on_token on_token, void *ctx) {
    if (!on_token) return cr_fail_null(op, "on_token");
    single one = {on_token, ctx};
    return run_job(op, d, 1, &(cr_prompt){.ids = prompt, .n = n_prompt, .generator = g},
                   &(cr_generate_options){.tokens = n_new, .sampling = s}, on_row, &one);
}

cr_status cr_lm_generate(const cr_lm *m, const uint32_t *prompt, int64_t n_prompt, int64_t n_new, const cr_sampling *s,
                         cr_generator *g, cr_on_token on_token, void *ctx) {
    static const char op[] = "lm_generate";
    if (cr_lacks(op, "model", m) || cr_lm_check_decoder(op, m)) return cr_error_status();
    return cr_decode(op, cr_lm_decoder(m), prompt, n_prompt, n_new, s, g, on_token, ctx);
}

/* ---- a model that the caller runs, token by token */
struct cr_text_stream {
    cr_text_model model[2];                         /* the model and the draft */
    cr_decoder d[2];
    cr_generate_options o;
    uint32_t *stop;
    cr_job job;
    uint32_t *ready; int64_t n, at, room;           /* tokens that are made, and how many were taken */
    bool failed;                                    /* no memory for them */
};

static bool keep_token(int64_t row, uint32_t id, void *ctx) {
    cr_text_stream *s = ctx;
    (void)row;
    if (cr_grow(&s->ready, s->n + 1, &s->room, sizeof *s->ready)) return s->ready[s->n++] = id, true;
    s->failed = true;
    return false;
}

static cr_decoder decoder_of(const cr_text_model *m) {
    return (cr_decoder){.model = m->ctx, .vocabulary = m->vocabulary, .context = m->context, .layers = m->layers,
                        .kv_heads = m->kv_heads, .head_dim = m->head_dim, .dtype = m->dtype, .dev = m->dev,
                        .caller = m};
}

cr_text_stream *cr_text_stream_new(const cr_text_model *m, const cr_text_model *draft, const cr_prompt *p,
                                   const cr_generate_options *o) {
    static const char op[] = "generate";
    if (!m || !m->run || !m->dev || !p || !o) return cr_fail_null(op, "the model, the prompt or the options"), NULL;
    cr_text_stream *s = calloc(1, sizeof *s);
    const size_t stops = o->n_stop > 0 ? (size_t)o->n_stop * sizeof *s->stop : 0;
    if (s) s->stop = malloc(stops + 1);
    if (!s || !s->stop) return free(s), cr_fail(CR_NO_MEMORY, op, "no memory for a text"), NULL;
    if (stops) memcpy(s->stop, o->stop, stops);
    s->o = *o;
    s->o.stop = s->stop;
    s->model[0] = *m;
    s->model[1] = draft ? *draft : *m;
    for (int i = 0; i < 2; i++) s->d[i] = decoder_of(&s->model[i]);
    s->job = (cr_job){.op = op, .d = &s->d[0], .draft = draft ? &s->d[1] : NULL, .o = &s->o, .on_token = keep_token,
                      .ctx = s};
    cr_scope_begin();
    const cr_status status = job_new(&s->job, 1, p);
    cr_scope_end();
    if (status == CR_OK) return s;
    cr_text_stream_free(s);
    return NULL;
}

cr_status cr_text_stream_next(cr_text_stream *s, uint32_t *id, bool *over) {
    if (!s || !id || !over) return cr_fail_null("generate", "the text, the id or over");
    cr_job *j = &s->job;
    cr_status status = CR_OK;
    const bool recording = cr_set_grad_enabled(false);
    while (s->at == s->n && !j->text->over && status == CR_OK)
        status = s->o.beams > 1 ? cr_beam_search(j) : j->draft ? cr_speculate(j) : cr_job_step(j);
    cr_set_grad_enabled(recording);
    if (status == CR_OK && s->failed)
        status = cr_fail(CR_NO_MEMORY, j->op, "no memory for %lld tokens", (long long)s->n + 1);
    *over = s->at == s->n;
    if (!*over) *id = s->ready[s->at++];
    return status;
}

void cr_text_stream_free(cr_text_stream *s) {
    if (!s) return;
    job_end(&s->job);
    free(s->stop);
    free(s->ready);
    free(s);
}
