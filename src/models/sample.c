/* sample.c - one token from logits: what temperature, top_k, top_p and min_p leave of the distribution,
 * and a draw from it.  In double on the host from one uniform number: equal logits give the same token
 * on every device. */
#include "lm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

static int compare_choices(const void *a, const void *b) {
    const cr_choice *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static cr_status draw_uniform(cr_generator *g, double *u) {
    cr_tensor *t = cr_rand(CR_ALL, CR_F64, cr_cpu(), g ? g : cr_default_generator());
    if (!t) return cr_error_status();
    *u = cr_item(t);
    cr_release(t);
    return CR_OK;
}

static cr_status check_sampling(const char *op, const cr_sampling *s) {
    if (!(s->temperature >= 0 && s->temperature < INFINITY))
        return cr_fail(CR_BAD_VALUE, op, "temperature must be 0 or more, not %g", s->temperature);
    if (!(s->top_p > 0 && s->top_p <= 1)) return cr_fail(CR_BAD_VALUE, op, "top_p must be in (0, 1], not %g", s->top_p);
    if (s->top_k < 0) return cr_fail(CR_BAD_VALUE, op, "top_k must be 0 (all) or more, not %lld", (long long)s->top_k);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return cr_fail(CR_BAD_VALUE, op, "min_p must be between 0 (all) and 1, not %g", s->min_p);
    if (!(s->repetition_penalty >= 0 && s->repetition_penalty < INFINITY))
        return cr_fail(CR_BAD_VALUE, op, "repetition_penalty must be 0 (none) or more, not %g", s->repetition_penalty);
    return CR_OK;
}

cr_status cr_sampler_new(cr_sampler *m, const char *op, const cr_sampling *s, int64_t V) {
    static const cr_sampling plain = {.temperature = 1, .top_p = 1};
    *m = (cr_sampler){.op = op, .s = s ? s : &plain, .V = V};
    cr_status status = check_sampling(op, m->s);
    if (status != CR_OK) return status;
    if (V < 1 || V > UINT32_MAX) return cr_fail(CR_BAD_VALUE, op, "cannot choose among %lld logits", (long long)V);
    m->row = malloc((size_t)V * sizeof *m->row);
    m->choice = malloc((size_t)V * sizeof *m->choice);
    m->seen = calloc((size_t)V, 1);
    if (m->row && m->choice && m->seen) return CR_OK;
    cr_sampler_free(m);
    return cr_fail(CR_NO_MEMORY, op, "no memory for %lld logits", (long long)V);
}

void cr_sampler_free(cr_sampler *m) {
    free(m->row);
    free(m->choice);
    free(m->seen);
    *m = (cr_sampler){0};
}

/* Each token that occurs in ids: its logit is divided by the penalty if it is positive, else multiplied. */
static void penalize_repeats(cr_sampler *m, const uint32_t *ids, int64_t n) {
    const double penalty = m->s->repetition_penalty;
    if (penalty == 0 || penalty == 1) return;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] >= m->V || m->seen[ids[i]]) continue;
        double *logit = &m->row[ids[i]];
        m->seen[ids[i]] = 1;
        *logit = *logit > 0 ? *logit / penalty : *logit * penalty;
    }
    for (int64_t i = 0; i < n; i++) if (ids[i] < m->V) m->seen[ids[i]] = 0;
}

bool cr_penalize(const uint32_t *ids, int64_t n, double *logits, int64_t V, void *ctx) {
    static const char op[] = "penalize";
    const cr_penalties *p = ctx;
    if (!isfinite(p->presence) || !isfinite(p->frequency) || p->prompt < 0)
        return cr_fail(CR_BAD_VALUE, op, "penalties must be finite, not %g and %g", p->presence, p->frequency), false;
    for (int64_t i = 0; i < p->biases; i++) {
        const cr_logit_bias *b = &p->bias[i];
        if (b->id >= V || !isfinite(b->add))
            return cr_fail(CR_BAD_VALUE, op, "the bias of token %u is %g: the vocabulary has %lld", b->id, b->add,
                           (long long)V), false;
        logits[b->id] += b->add;
    }
    if (p->presence == 0 && p->frequency == 0) return true;
    uint8_t *seen = calloc((size_t)V, 1);
    if (!seen) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld tokens", (long long)V), false;
    for (int64_t i = p->prompt; i < n; i++) {
        if (ids[i] >= V) continue;
        logits[ids[i]] -= p->frequency + (seen[ids[i]] ? 0 : p->presence);
        seen[ids[i]] = 1;
    }
    free(seen);
    return true;
}

static cr_status check_row(const cr_sampler *m, const char *why, bool needs_one) {
    bool any = false;
    for (int64_t i = 0; i < m->V; i++) {
        if (!(m->row[i] < INFINITY))
            return cr_fail(CR_BAD_VALUE, m->op, "the logit of token %lld is %g: %s", (long long)i, m->row[i], why);
        any |= m->row[i] > -INFINITY;
    }
    if (any || !needs_one) return CR_OK;
    return cr_fail(CR_BAD_VALUE, m->op, "none of the %lld tokens is allowed", (long long)m->V);
}

cr_status cr_sampler_row(cr_sampler *m, const cr_tensor *logits, const uint32_t *ids, int64_t n, bool log_softmax) {
    const cr_sampling *s = m->s;
    cr_status status = cr_read(logits, CR_F64, m->row, (size_t)m->V * sizeof *m->row);
    if (status == CR_OK) status = check_row(m, "the model has diverged", true);
    if (status != CR_OK) return status;
    if (log_softmax) {
        double most = m->row[0], sum = 0;
        for (int64_t i = 1; i < m->V; i++) most = fmax(most, m->row[i]);
        for (int64_t i = 0; i < m->V; i++) sum += exp(m->row[i] - most);
        for (int64_t i = 0; i < m->V; i++) m->row[i] -= most + log(sum);
    }
    if (s->adjust) {
        if (!s->adjust(ids, n, m->row, m->V, s->adjust_ctx))
            return cr_error() ? cr_error_status() : cr_fail(CR_BAD_VALUE, m->op, "adjust failed");
        status = check_row(m, "adjust has made it so", !log_softmax);
    }
    penalize_repeats(m, ids, n);
    return status;
}

/* Moves the m likeliest of n to the front, in order: Hoare's selection (1961), then a sort of these. */
static void sort_top(cr_choice *c, int64_t n, int64_t m) {
    for (int64_t low = 0, high = n - 1; m < n && low < high;) {
        const cr_choice pivot = c[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (compare_choices(&c[i], &pivot) < 0) i++;
            while (compare_choices(&c[j], &pivot) > 0) j--;
            if (i > j) break;
            const cr_choice swap = c[i];
            c[i++] = c[j];
            c[j--] = swap;
        }
        if (m - 1 <= j) high = j;
        else if (m - 1 >= i) low = i;
        else break;
    }
    qsort(c, (size_t)(m < n ? m : n), sizeof *c, compare_choices);
}

/* How many of the likeliest hold top_p of the weight `sum`; they come first. */
static int64_t nucleus_size(cr_choice *c, int64_t n, double top_p, double *sum) {
    int64_t sorted = 0, kept = 0;
    double held = 0;
    while (kept < n && (kept == 0 || held < top_p * *sum)) {
        if (kept == sorted) {
            const int64_t more = sorted ? 8 * sorted : 64;
            sort_top(c + sorted, n - sorted, more);
            sorted = n - sorted < more ? n : sorted + more;
        }
        held += c[kept++].p;
    }
    *sum = held;
    return kept;
}

/* choice[0 .. n): the tokens that may be drawn, with weights whose sum is `sum`. */
static void shorten_choices(cr_sampler *m) {
    const cr_sampling *s = m->s;
    const int64_t V = m->V;
    int64_t best = 0, n = V;
    for (int64_t i = 1; i < V; i++) if (m->row[i] > m->row[best]) best = i;
    m->n = 1;
    m->sum = 1;
    m->choice[0] = (cr_choice){1, (uint32_t)best};
    if (s->temperature == 0) return;
    cr_choice *c = m->choice;
    const double top = m->row[best];
    for (int64_t i = 0; i < V; i++) c[i] = (cr_choice){exp((m->row[i] - top) / s->temperature), (uint32_t)i};
    if (s->top_k > 0 && s->top_k < n) {
        sort_top(c, n, s->top_k);
        n = s->top_k;
    }
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += c[i].p;
    if (s->top_p < 1) n = nucleus_size(c, n, s->top_p, &sum);
    if (s->min_p > 0) {                             /* the likeliest has the weight 1 */
        int64_t kept = 0;
        sum = 0;
        for (int64_t i = 0; i < n; i++) {
            if (c[i].p < s->min_p) continue;
            sum += c[i].p;
            c[kept++] = c[i];
        }
        n = kept;
    }
    m->n = n;
    m->sum = sum;
}

cr_status cr_sampler_read(cr_sampler *m, const cr_tensor *logits, const uint32_t *ids, int64_t n) {
    const cr_status status = cr_sampler_row(m, logits, ids, n, false);
    if (status == CR_OK) shorten_choices(m);
    return status;
}

cr_status cr_sampler_draw(const cr_sampler *m, cr_generator *g, uint32_t *id) {
    double u = 0;
    const cr_status status = m->s->temperature > 0 ? draw_uniform(g, &u) : CR_OK;
    if (status != CR_OK) return status;
    u *= m->sum;
    int64_t i = 0;
    while (i < m->n - 1 && (u -= m->choice[i].p) >= 0) i++;
    *id = m->choice[i].id;
    return CR_OK;
}

/* p (V): what may be drawn, 0 elsewhere. */
static void write_probabilities(const cr_sampler *m, double *p) {
    memset(p, 0, (size_t)m->V * sizeof *p);
    for (int64_t i = 0; i < m->n; i++) p[m->choice[i].id] = m->choice[i].p / m->sum;
}

cr_status cr_sample_next(const cr_tensor *logits, const cr_sampling *s, const uint32_t *ids, int64_t n,
                         cr_generator *g, uint32_t *id) {
    static const char op[] = "sample";
    if (!logits) return cr_fail_null(op, "logits");
    if (!id) return cr_fail_null(op, "id");
    if (n < 0 || (n && !ids)) return cr_fail(CR_BAD_VALUE, op, "cannot read %lld tokens before it", (long long)n);
    cr_sampler m;
    cr_status status = cr_sampler_new(&m, op, s, cr_numel(logits));
    if (status == CR_OK) status = cr_sampler_read(&m, logits, ids, n);
    if (status == CR_OK) status = cr_sampler_draw(&m, g, id);
    cr_sampler_free(&m);
    return status;
}

cr_status cr_sample(const cr_tensor *logits, const cr_sampling *s, cr_generator *g, uint32_t *id) {
    return cr_sample_next(logits, s, NULL, 0, g, id);
}

/* ---- speculation (Leviathan et al., arXiv 2211.17192): with p of the model and q of the draft, a proposal x is taken
 * with the probability min(1, p(x) / q(x)); after a refusal the token is drawn from max(p - q, 0) */

/* The index where the sum of max(p - q, 0) passes a uniform part of its whole. */
static cr_status draw_rest(const double *p, const double *q, int64_t V, cr_generator *g, uint32_t *id) {
    double sum = 0, u;
    const cr_status status = draw_uniform(g, &u);
    int64_t last = 0;
    for (int64_t v = 0; v < V; v++) if (p[v] > q[v]) sum += p[v] - q[v];
    u *= sum;
    for (int64_t v = 0; v < V; v++) {
        if (!(p[v] > q[v])) continue;
        last = v;
        if ((u -= p[v] - q[v]) < 0) break;
    }
    *id = (uint32_t)last;
    return status;
}

static cr_tensor *row_of(const cr_tensor *x, int64_t i) { return cr_slice(x, 0, i, i + 1, 1); }

cr_status cr_sampler_verify(cr_sampler *m, const cr_tensor *logits, const cr_tensor *draft, const uint32_t *ids,
                            int64_t n, cr_generator *g, int64_t *taken, uint32_t *id) {
    const int64_t V = m->V, K = cr_size(draft, 0);
    double *p = malloc((size_t)V * sizeof *p), *q = malloc((size_t)V * sizeof *q);
    cr_status status = p && q ? CR_OK : cr_fail(CR_NO_MEMORY, m->op, "no memory for %lld probabilities", (long long)V);
    bool refused = false;
    *taken = 0;
    while (status == CR_OK && *taken < K && !refused) {
        const int64_t k = *taken;
        status = cr_sampler_read(m, row_of(draft, k), ids, n + k);
        if (status == CR_OK) write_probabilities(m, q);
        if (status == CR_OK) status = cr_sampler_read(m, row_of(logits, k), ids, n + k);
        if (status != CR_OK) break;
        write_probabilities(m, p);
        const double wanted = p[ids[n + k]], had = q[ids[n + k]];
        double u = 0;
        if (wanted > 0 && wanted < had) status = draw_uniform(g, &u);
        refused = wanted <= 0 || u * had >= wanted;
        if (!refused) ++*taken;
    }
    if (status == CR_OK && refused) status = draw_rest(p, q, V, g, id);
    else if (status == CR_OK) {
        status = cr_sampler_read(m, row_of(logits, K), ids, n + K);
        if (status == CR_OK) status = cr_sampler_draw(m, g, id);
    }
    free(p);
    free(q);
    return status;
}

cr_status cr_sample_verify(const cr_tensor *logits, const cr_tensor *draft, const cr_sampling *s, const uint32_t *ids,
                           int64_t n, cr_generator *g, int64_t *taken, uint32_t *id) {
    static const char op[] = "sample_verify";
    if (!logits || !draft) return cr_fail_null(op, "logits");
    if (!ids || !taken || !id) return cr_fail_null(op, "the tokens or a result");
    const int64_t K = cr_ndim(draft) == 2 ? cr_size(draft, 0) : -1;
    if (K < 0 || n < 0 || cr_ndim(logits) != 2 || cr_size(logits, 0) != K + 1 ||
        cr_size(logits, 1) != cr_size(draft, 1))
        return cr_fail(CR_BAD_VALUE, op, "takes logits (K + 1, V) and those of the draft (K, V)");
    for (int64_t i = 0; i < n + K; i++)
        if (ids[i] >= cr_size(draft, 1))
            return cr_fail(CR_BAD_INDEX, op, "token %lld is %u: the vocabulary has %lld", (long long)i, ids[i],
                           (long long)cr_size(draft, 1));
    cr_sampler m;
    cr_scope_begin();
    cr_status status = cr_sampler_new(&m, op, s, cr_size(draft, 1));
    if (status == CR_OK) status = cr_sampler_verify(&m, logits, draft, ids, n, g, taken, id);
    cr_sampler_free(&m);
    cr_scope_end();
    return status;
}
