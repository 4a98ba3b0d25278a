/* beam.c - beam search: the W best beginnings go on together.  Ends with a stop token are set aside; the
 * best sum of log-probabilities / length^penalty wins.  Ranks, ends and the early end are those of
 * transformers' generate(num_beams=W). */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

typedef struct beam { uint32_t *ids; int64_t n; double score; } beam;      /* ids: the prompt, then n made tokens */
typedef struct next { int64_t from; uint32_t id; double score; } next;
typedef struct search {
    cr_job *j;
    cr_text *t;
    int64_t W, keep, room, alive, complete;         /* keep: continuations ranked in a step */
    beam *now, *then, *done;                        /* (W) each; done: best first, score by length */
    cr_cache **cache, **spare;                      /* (W) each */
    next *rank;                                     /* (keep), best first */
    int64_t ranked;
} search;

static bool beams_new(search *s, beam **b) {
    *b = calloc((size_t)s->W, sizeof **b);
    for (int64_t i = 0; i < s->W && *b; i++)
        if (!((*b)[i].ids = malloc((size_t)s->room * sizeof(uint32_t)))) return false;
    return *b != NULL;
}

static void beams_free(search *s, beam *b) {
    for (int64_t i = 0; i < s->W && b; i++) free(b[i].ids);
    free(b);
}

static void beam_copy(const search *s, beam *to, const beam *from, double score) {
    memcpy(to->ids, from->ids, (size_t)(s->t->n + from->n) * sizeof *to->ids);
    to->n = from->n;
    to->score = score;
}

/* All continuations of beam i, into the ranks. */
static cr_status rank_beam(search *s, int64_t i, const cr_tensor *logits) {
    const beam *b = &s->now[i];
    cr_sampler *m = &s->j->sampler;
    const cr_status status = cr_sampler_row(m, logits, b->ids, s->t->n + b->n, true);
    for (int64_t v = 0; v < m->V && status == CR_OK; v++) {
        const double score = b->score + m->row[v];
        if (score == -INFINITY || (s->ranked == s->keep && score <= s->rank[s->keep - 1].score)) continue;
        int64_t at = s->ranked < s->keep ? s->ranked++ : s->keep - 1;
        for (; at > 0 && s->rank[at - 1].score < score; at--) s->rank[at] = s->rank[at - 1];
        s->rank[at] = (next){i, (uint32_t)v, score};
    }
    return status;
}

/* Beam b with one more token is complete. */
static void complete_beam(search *s, const beam *b, uint32_t id, double sum) {
    const double score = sum / pow((double)(b->n + 1), s->j->o->length_penalty);
    if (s->complete == s->W && score <= s->done[s->W - 1].score) return;
    int64_t at = s->complete < s->W ? s->complete++ : s->W - 1;
    const beam swapped = s->done[at];
    for (; at > 0 && s->done[at - 1].score < score; at--) s->done[at] = s->done[at - 1];
    s->done[at] = swapped;
    beam_copy(s, &s->done[at], b, score);
    s->done[at].ids[s->t->n + s->done[at].n++] = id;
}

/* The caches of the beams that go on: the first child of a beam takes its cache, the others copy it. */
static cr_status move_caches(search *s, const int64_t *from, int64_t n) {
    cr_cache **fresh = s->spare, **old = s->cache;
    cr_status status = CR_OK;
    for (int64_t i = 0; i < s->W; i++) fresh[i] = NULL;
    for (int64_t i = 0; i < n; i++) {
        bool first = true;
        for (int64_t k = 0; k < i; k++) first &= from[k] != from[i];
        if (!first) continue;
        fresh[i] = old[from[i]];
        old[from[i]] = NULL;
    }
    for (int64_t i = 0, free_ = 0; i < s->W; i++) {
        if (fresh[i]) continue;
        while (free_ < s->W && !old[free_]) free_++;
        fresh[i] = old[free_];
        old[free_] = NULL;
        for (int64_t k = 0; k < n && i < n && status == CR_OK; k++)
            if (from[k] == from[i] && k != i) {     /* the first is the parent's own */
                status = cr_cache_assign(fresh[i], fresh[k]);
                break;
            }
    }
    s->cache = fresh;
    s->spare = old;
    return status;
}

/* The ranks become ends and the beams of the next step. */
static cr_status choose_beams(search *s, bool last) {
    int64_t from[1024], n = 0;
    for (int64_t r = 0; r < s->ranked; r++) {
        const next *x = &s->rank[r];
        const beam *b = &s->now[x->from];
        if (last || cr_job_stops(s->j, x->id)) {
            if (r < s->W) complete_beam(s, b, x->id, x->score);
        } else if (n < s->W) {
            beam_copy(s, &s->then[n], b, x->score);
            s->then[n].ids[s->t->n + s->then[n].n++] = x->id;
            from[n++] = x->from;
        }
    }
    beam *swap = s->now;
    s->now = s->then;
    s->then = swap;
    s->alive = n;
    return n ? move_caches(s, from, n) : CR_OK;
}

/* Can none of the beams that go on become better than those that are complete? */
static bool is_settled(const search *s) {
    if (!s->alive) return true;
    if (s->complete < s->W) return false;
    const double best = s->now[0].score / pow((double)s->now[0].n, s->j->o->length_penalty);
    return s->j->o->early_stopping || best <= s->done[s->W - 1].score;
}

static cr_status step_beams(search *s, bool last) {
    uint32_t ids[1024];
    cr_scope_begin();
    const bool first = !s->now[0].n;
    cr_text *t = s->t;
    cr_tensor *y = NULL;
    cr_status status = cr_check_interrupt(s->j->op);
    if (status == CR_OK && first) {
        const int64_t past = t->cache->past;
        y = cr_forward(s->j->d, 1, &t->cache, t->ids + past, t->n - past, 1);
    } else if (status == CR_OK) {
        for (int64_t i = 0; i < s->alive; i++) ids[i] = s->now[i].ids[t->n + s->now[i].n - 1];
        y = cr_forward(s->j->d, s->alive, s->cache, ids, 1, 1);
    }
    if (status == CR_OK && !y) status = cr_error_status();
    s->ranked = 0;
    for (int64_t i = 0; i < s->alive && status == CR_OK; i++) status = rank_beam(s, i, cr_slice(y, 0, i, i + 1, 1));
    for (int64_t i = 0; i < s->W && first && !last && status == CR_OK; i++)
        status = cr_cache_assign(s->cache[i], t->cache);
    cr_scope_end();
    return status == CR_OK ? choose_beams(s, last) : status;
}

static cr_status search_new(search *s) {
    cr_job *j = s->j;
    const int64_t W = s->W;
    s->rank = malloc((size_t)s->keep * sizeof *s->rank);
    s->cache = calloc((size_t)W, sizeof *s->cache);
    s->spare = calloc((size_t)W, sizeof *s->spare);
    if (!s->rank || !s->cache || !s->spare || !beams_new(s, &s->now) || !beams_new(s, &s->then) ||
        !beams_new(s, &s->done))
        return cr_fail(CR_NO_MEMORY, j->op, "no memory for %lld beams", (long long)W);
    memcpy(s->now[0].ids, s->t->ids, (size_t)s->t->n * sizeof(uint32_t));
    for (int64_t i = 0; i < W; i++) {
        s->cache[i] = cr_cache_for(j->op, j->d, s->t->cache->dtype);
        if (!s->cache[i] || cr_cache_reserve(s->cache[i], s->room)) return cr_error_status();
    }
    return CR_OK;
}

static void search_free(search *s) {
    for (int64_t i = 0; i < s->W && s->cache; i++) cr_cache_free(s->cache[i]);
    for (int64_t i = 0; i < s->W && s->spare; i++) cr_cache_free(s->spare[i]);
    beams_free(s, s->now);
    beams_free(s, s->then);
    beams_free(s, s->done);
    free(s->rank);
    free(s->cache);
    free(s->spare);
}

cr_status cr_beam_search(cr_job *j) {
    cr_text *t = j->text;
    const int64_t W = j->o->beams, n = t->n, tokens = j->o->tokens;
    if (!tokens) return CR_OK;
    if (tokens > j->d->context - n)
        return cr_fail(CR_BAD_VALUE, j->op,
                       "beam search takes a prompt and its tokens within the context of %lld, not %lld + %lld",
                       (long long)j->d->context, (long long)n, (long long)tokens);
    const int64_t stops = j->o->n_stop + 1;
    search s = {.j = j, .t = t, .W = W, .keep = W * (stops > 2 ? stops : 2), .room = n + tokens, .alive = 1};
    cr_status status = search_new(&s);
    for (int64_t made = 1; made <= tokens && status == CR_OK; made++) {
        status = step_beams(&s, made == tokens);
        if (status == CR_OK && is_settled(&s)) break;
    }
    if (status == CR_OK && !s.complete)
        status = cr_fail(CR_BAD_VALUE, j->op, "beam search has found no text: every token is forbidden");
    for (int64_t k = 0; status == CR_OK && k < s.done[0].n && !t->over; k++)
        status = cr_job_push(j, 0, s.done[0].ids[n + k]);
    t->over = true;
    search_free(&s);
    return status;
}
