/* packed.c - several samples in one row of a language model without padding: each is a text of its own,
 * whose positions start at 0 and whose tokens see only each other.  All but attention works on rows of
 * tokens, so the samples share every product. */
#include "lm.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

/* ---- segments ---- */
cr_segments *cr_segments_new(int64_t n, const int64_t *length) {
    cr_segments *s = malloc(sizeof *s + (size_t)n * sizeof *s->length);
    if (!s) return cr_fail(CR_NO_MEMORY, "lm_losses", "no memory for %lld samples", (long long)n), NULL;
    atomic_init(&s->refs, 1);
    s->n = n;
    memcpy(s->length, length, (size_t)n * sizeof *length);
    return s;
}

const cr_segments *cr_segments_hold(const cr_segments *s) {
    if (s) atomic_fetch_add(&((cr_segments *)(uintptr_t)s)->refs, 1);
    return s;
}

void cr_segments_drop(const cr_segments *s) {
    if (s && atomic_fetch_sub(&((cr_segments *)(uintptr_t)s)->refs, 1) == 1) free((void *)(uintptr_t)s);
}

cr_tensor *cr_segments_join(const cr_segments *s, int axis, cr_segment_fn fn, const void *ctx) {
    const cr_tensor **part = malloc((size_t)s->n * sizeof *part);
    if (!part) return cr_fail(CR_NO_MEMORY, "lm_losses", "no memory for %lld samples", (long long)s->n), NULL;
    cr_tensor *all = NULL;
    int64_t start = 0, i = 0;
    cr_scope_begin();
    for (; i < s->n; start += s->length[i++]) if (!(part[i] = fn(ctx, start, s->length[i]))) break;
    if (i == s->n) all = cr_keep(i == 1 ? (cr_tensor *)(uintptr_t)part[0] : cr_cat((int)i, part, axis));
    cr_scope_end();
    free(part);
    return all;
}

typedef struct heads { const cr_tensor *q, *k, *v; const cr_attend_options *o; } heads;

static cr_tensor *attend_packed(const void *ctx, int64_t start, int64_t length) {
    const heads *h = ctx;
    const int64_t stop = start + length;
    return cr_attend(cr_slice(h->q, 2, start, stop, 1), cr_slice(h->k, 2, start, stop, 1),
                     cr_slice(h->v, 2, start, stop, 1), h->o);
}

cr_tensor *cr_segments_attention(const cr_segments *s, const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                                 const cr_attend_options *o) {
    if (s->n == 1) return cr_attend(q, k, v, o);
    return q && k && v ? cr_segments_join(s, 2, attend_packed, &(heads){q, k, v, o}) : NULL;
}

/* ---- losses ---- */
static const char op[] = "lm_losses";

/* The number of tokens, and of targets that count; -1: an error. */
static int64_t check_samples(const cr_lm *m, const cr_samples *p, int64_t *counted) {
    int64_t n = 0;
    *counted = 0;
    if (p->n < 1 || p->n > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, op, "needs at least one sample, not %lld", (long long)p->n), -1;
    for (int64_t i = 0; i < p->n; n += p->length[i++])
        if (p->length[i] < 1 || p->length[i] > m->d.context)
            return cr_fail(CR_BAD_VALUE, op, "sample %lld has %lld tokens: the model takes 1 to %lld", (long long)i,
                           (long long)p->length[i], (long long)m->d.context), -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = p->tokens[i], y = p->targets[i];
        if (t < 0 || t >= m->d.vocabulary || y >= m->d.vocabulary)
            return cr_fail(CR_BAD_INDEX, op, "token %lld is %lld: the vocabulary has %lld", (long long)i,
                           (long long)(t < 0 || t >= m->d.vocabulary ? t : y), (long long)m->d.vocabulary), -1;
        *counted += y >= 0;
    }
    if (!*counted) return cr_fail(CR_BAD_VALUE, op, "none of the %lld targets counts", (long long)n), -1;
    return n;
}

/* The rows (K, C) of x (1, N, C) whose targets count. */
static cr_tensor *counted_rows(const cr_tensor *x, const cr_samples *p, int64_t N, int64_t K, int64_t *at,
                               cr_tensor **targets) {
    int64_t *y = at + K, k = 0;
    for (int64_t i = 0; i < N; i++) {
        if (p->targets[i] < 0) continue;
        at[k] = i;
        y[k++] = p->targets[i];
    }
    const cr_device *dev = cr_device_of(x);
    *targets = cr_from(y, CR_LIST(K), CR_I64, dev);
    cr_tensor *rows = cr_reshape(x, CR_LIST(N, cr_size(x, 2)));
    return K == N ? rows : cr_index_select(rows, 0, cr_from(at, CR_LIST(K), CR_I64, dev));
}

cr_tensor *cr_lm_losses(const cr_lm *m, const cr_samples *p, bool train) {
    int64_t K;
    if (cr_lacks(op, "model", m) || cr_lm_check_decoder(op, m)) return NULL;
    if (!p || !p->tokens || !p->targets || !p->length) return cr_fail_null(op, "samples"), NULL;
    const int64_t N = check_samples(m, p, &K);
    if (N < 0) return NULL;
    int64_t *at = malloc((size_t)(2 * K) * sizeof *at);
    if (!at) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld targets", (long long)K), NULL;
    cr_segments *s = cr_segments_new(p->n, p->length);
    cr_tensor *targets = NULL;
    cr_scope_begin();
    const bool before = cr_lora_train(train);
    cr_tensor *x = s ? m->d.packed(m->d.model, cr_from(p->tokens, CR_LIST(1, N), CR_I64, m->d.dev), s) : NULL;
    cr_lora_train(before);
    cr_segments_drop(s);
    cr_tensor *rows = x ? counted_rows(x, p, N, K, at, &targets) : NULL;
    cr_cross_entropy_options each = cr_cross_entropy_defaults();
    each.reduction = CR_EACH;
    cr_tensor *losses = rows ? cr_keep(cr_decoder_loss(&m->d, rows, targets, &each)) : NULL;
    cr_scope_end();
    free(at);
    return losses;
}
