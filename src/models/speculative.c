/* speculative.c - a small model proposes tokens and the large one checks them in one pass, by
 * cr_sample_verify: the distribution of each token is the large model's. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/out.h"
#include "../core/status.h"

typedef struct cr_speculation {
    cr_job *j;
    cr_text *t;
    const cr_decoder *draft;
    cr_cache *cache;                                /* of the draft */
    int64_t start;                                  /* the text's start that the draft's cache is for */
    const cr_tensor **row;                          /* logits of proposals */
} speculation;

/* Writes K proposals behind the text -> the draft's logits (K, V). */
static cr_tensor *propose_tokens(speculation *s, int64_t K) {
    cr_text *t = s->t;
    cr_sampler *m = &s->j->sampler;
    for (int64_t k = 0; k < K; k++) {
        const int64_t at = t->start + s->cache->past, n = t->n + k;
        cr_tensor *y = cr_forward(s->draft, 1, &s->cache, t->ids + at, n - at, 1);
        if (!y || cr_sampler_read(m, y, t->ids, n) || cr_sampler_draw(m, t->g, &t->ids[n])) return NULL;
        s->row[k] = cr_reshape(y, CR_LIST(1, m->V));
    }
    return cr_cat((int)K, s->row, 0);
}

static cr_status round_of(speculation *s, int64_t K) {
    cr_text *t = s->t;
    cr_status status = CR_OK;
    if (!cr_grow(&t->ids, t->n + K + 1, &t->room, sizeof *t->ids))
        status = cr_fail(CR_NO_MEMORY, s->j->op, "no memory for %lld tokens", (long long)(t->n + K + 1));
    if (s->start != t->start) s->cache->past = 0;   /* the window has moved */
    s->start = t->start;
    if (status != CR_OK) return status;
    cr_scope_begin();
    const cr_tensor *draft = propose_tokens(s, K);
    const int64_t at = t->start + t->cache->past;
    int64_t taken = 0;
    uint32_t next = 0;
    const cr_tensor *y = draft ? cr_forward(s->j->d, 1, &t->cache, t->ids + at, t->n + K - at, K + 1) : NULL;
    if (y) y = cr_reshape(y, CR_LIST(K + 1, s->j->sampler.V));
    status = y ? cr_sampler_verify(&s->j->sampler, y, draft, t->ids, t->n, t->g, &taken, &next) : cr_error_status();
    cr_scope_end();
    if (status != CR_OK) return status;
    const int64_t good = t->n + taken - t->start;
    t->cache->past = good;
    if (s->cache->past > good) s->cache->past = good;
    for (int64_t k = 0; k <= taken && !t->over && status == CR_OK; k++)
        status = cr_job_push(s->j, 0, k < taken ? t->ids[t->n] : next);
    return status;
}

void cr_speculation_free(speculation *s) {
    if (!s) return;
    cr_cache_free(s->cache);
    free(s->row);
    free(s);
}

static speculation *speculation_new(const cr_job *j, int64_t most) {
    speculation *s = calloc(1, sizeof *s);
    if (!s) return cr_fail(CR_NO_MEMORY, j->op, "no memory for a draft"), NULL;
    *s = (speculation){.draft = j->draft, .start = j->text->start, .row = malloc((size_t)most * sizeof *s->row),
                       .cache = cr_cache_for(j->op, j->draft, j->o->cache)};
    if (s->cache && !s->row) cr_fail(CR_NO_MEMORY, j->op, "no memory for %lld proposals", (long long)most);
    if (s->cache && s->row) return s;
    cr_speculation_free(s);
    return NULL;
}

cr_status cr_speculate(cr_job *j) {
    cr_text *t = j->text;
    const int64_t most = j->o->draft_tokens ? j->o->draft_tokens : 4, n = t->n - t->start;
    const int64_t left = j->o->tokens - t->made - 1, room = j->d->context - n - 1, draft_room = j->draft->context - n;
    int64_t K = most < left ? most : left;
    if (K > room) K = room;
    if (K > draft_room) K = draft_room;
    if (K <= 0) return cr_job_step(j);
    if (!t->speculation && !(t->speculation = speculation_new(j, most))) return cr_error_status();
    t->speculation->j = j;
    t->speculation->t = t;
    const cr_status status = cr_check_interrupt(j->op);
    return status == CR_OK ? round_of(t->speculation, K) : status;
}
