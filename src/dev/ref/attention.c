/* attention.c - o = softmax(scale q k^T + mask) v for every head: q, o (B, H, T, D), k, v (B, KV, S,
 * D), mask (B, H, T, S), lse (B, H, T).  Query t sees the keys t + first .. t + last.  A query that
 * sees no key, or whose scores are all -Inf, gives 0 with lse -Inf and no gradient. */
#include <math.h>
#include <stdlib.h>
#include "ref.h"

typedef struct heads {
    const cr_array *q, *k, *v, *mask, *o, *lse, *g;     /* mask may be NULL */
    int64_t b, h, T, S, D;                          /* b, h: the head that is being computed */
    double scale;
    int64_t first, last;
} heads;

/* Keys have fewer heads. */
static int64_t at_head(const cr_array *x, const heads *a) {
    return a->b * x->strides[0] + a->h * x->shape[1] / a->q->shape[1] * x->strides[1];
}
static double at(const cr_array *x, const heads *a, int64_t row, int64_t d) {
    return get(x, at_head(x, a) + row * x->strides[2] + d * x->strides[3]);
}
static void set(const cr_array *x, const heads *a, int64_t row, int64_t d, double value) {
    put(x, at_head(x, a) + row * x->strides[2] + d * x->strides[3], value);
}
static int64_t lse_at(const heads *a, int64_t t) { return (a->b * a->q->shape[1] + a->h) * a->T + t; }

static bool sees(const heads *a, int64_t t, int64_t s) { return s >= t + a->first && s <= t + a->last; }

static double dot(const cr_array *x, int64_t i, const cr_array *y, int64_t j, const heads *a) {
    double sum = 0;
    EACH(d, a->D) sum += at(x, a, i, d) * at(y, a, j, d);
    return sum;
}

/* scale q[t] . k[s] + mask[t, s] */
static double score_of(const heads *a, int64_t t, int64_t s) {
    return a->scale * dot(a->q, t, a->k, s, a) + (a->mask ? at(a->mask, a, t, s) : 0);
}

/* p[t, s] = exp(score - lse[t]) */
static double weight(const heads *a, int64_t t, int64_t s) {
    double lse = get(a->lse, lse_at(a, t));
    return lse == -INFINITY ? 0 : exp(score_of(a, t, s) - lse);
}

/* The gradient of the score:  p (g[t] . v[s] - g[t] . o[t]) */
static double dscore(const heads *a, int64_t t, int64_t s) {
    return weight(a, t, s) * (dot(a->g, t, a->v, s, a) - dot(a->g, t, a->o, t, a));
}

static void forward_head(const heads *a, const cr_array *o, const cr_array *lse, double *score) {
    EACH(t, a->T) {
        double max = -INFINITY, sum = 0;
        EACH(s, a->S) {
            score[s] = sees(a, t, s) ? score_of(a, t, s) : -INFINITY;
            max = isnan(max) || score[s] <= max ? max : score[s];
        }
        const bool blind = max == -INFINITY;        /* every key is hidden */
        EACH(s, a->S) sum += score[s] = blind ? 0 : exp(score[s] - max);
        EACH(d, a->D) {
            double y = 0;
            EACH(s, a->S)
                if (!blind && sees(a, t, s)) y += score[s] / sum * at(a->v, a, s, d);
            set(o, a, t, d, y);
        }
        put(lse, lse_at(a, t), blind ? -INFINITY : max + log(sum));
    }
}

cr_status cr_ref_attention(const cr_attention_args *args) {
    const cr_array *q = &args->q;
    heads a = {.q = q,
               .k = &args->k,
               .v = &args->v,
               .mask = cr_present(&args->mask),
               .T = q->shape[2],
               .S = args->k.shape[2],
               .D = q->shape[3],
               .scale = args->scale,
               .first = args->first,
               .last = args->last};
    double *score = calloc((size_t)a.S + 1, sizeof *score);
    if (!score) return cr_fail(CR_NO_MEMORY, "attention", "out of memory for %lld scores", (long long)a.S);
    for (a.b = 0; a.b < q->shape[0]; a.b++)
        for (a.h = 0; a.h < q->shape[1]; a.h++) forward_head(&a, &args->o, &args->lse, score);
    free(score);
    return CR_OK;
}

/* dq[t] = scale sum_s dscore[t, s] k[s] */
static void backward_queries(const heads *a, const cr_array *dq, double *row) {
    EACH(t, a->T) {
        EACH(d, a->D) row[d] = 0;
        EACH(s, a->S) {
            if (!sees(a, t, s)) continue;
            double ds = dscore(a, t, s);
            EACH(d, a->D) row[d] += ds * at(a->k, a, s, d);
        }
        EACH(d, a->D) set(dq, a, t, d, a->scale * row[d]);
    }
}

/* dk[s] = scale sum_t dscore[t, s] q[t];  dv[s] = sum_t p[t, s] g[t], over the heads that share the key */
static void backward_keys(heads *a, int64_t head, const cr_array *dk, const cr_array *dv, double *for_k,
                          double *for_v) {
    const int64_t shared = a->q->shape[1] / dk->shape[1];
    a->h = head * shared;
    EACH(s, a->S) {
        EACH(d, a->D) for_k[d] = for_v[d] = 0;
        EACH(i, shared * a->T) {
            const int64_t t = i % a->T;
            a->h = head * shared + i / a->T;
            if (!sees(a, t, s)) continue;
            double ds = dscore(a, t, s), p = weight(a, t, s);
            EACH(d, a->D) {
                for_k[d] += ds * at(a->q, a, t, d);
                for_v[d] += p * at(a->g, a, t, d);
            }
        }
        EACH(d, a->D) {
            set(dk, a, s, d, a->scale * for_k[d]);
            set(dv, a, s, d, for_v[d]);
        }
    }
}

cr_status cr_ref_attention_bwd(const cr_attention_bwd_args *args) {
    const cr_array *q = &args->q;
    heads a = {.q = q,
               .k = &args->k,
               .v = &args->v,
               .mask = cr_present(&args->mask),
               .o = &args->o,
               .lse = &args->lse,
               .g = &args->g,
               .T = q->shape[2],
               .S = args->k.shape[2],
               .D = q->shape[3],
               .scale = args->scale,
               .first = args->first,
               .last = args->last};
    double *rows = calloc(2 * (size_t)a.D + 1, sizeof *rows);
    if (!rows) return cr_fail(CR_NO_MEMORY, "attention", "out of memory for rows of %lld", (long long)a.D);
    for (a.b = 0; a.b < q->shape[0]; a.b++)
        for (a.h = 0; a.h < q->shape[1]; a.h++) backward_queries(&a, &args->dq, rows);
    for (a.b = 0; a.b < q->shape[0]; a.b++)
        EACH(h, args->k.shape[1]) backward_keys(&a, h, &args->dk, &args->dv, rows, rows + a.D);
    free(rows);
    return CR_OK;
}
