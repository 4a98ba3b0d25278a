/* attention.c - o = softmax(scale q k^T + mask) v for every head: q, o (B, H, T, D), k, v (B, H, S,
 * D), mask (B, H, T, S), lse (B, H, T). Causal: query t sees the keys up to t + S - T.  A query that
 * sees no key, or whose scores are all -Inf, gives 0 with lse -Inf and no gradient. */
#include <math.h>
#include <stdlib.h>
#include "ref.h"

typedef struct heads {
    const cr_array *q, *k, *v, *mask, *o, *lse, *g;     /* mask may be NULL */
    int64_t b, h, T, S, D;                          /* b, h: the head that is being computed */
    double scale;
    bool causal;
} heads;

static double at(const cr_array *x, const heads *a, int64_t row, int64_t d) {
    return get(x, a->b * x->strides[0] + a->h * x->strides[1] + row * x->strides[2] + d * x->strides[3]);
}
static void set(const cr_array *x, const heads *a, int64_t row, int64_t d, double value) {
    put(x, a->b * x->strides[0] + a->h * x->strides[1] + row * x->strides[2] + d * x->strides[3], value);
}
static int64_t lse_at(const heads *a, int64_t t) { return (a->b * a->q->shape[1] + a->h) * a->T + t; }

/* How many keys query t sees. */
static int64_t seen(const heads *a, int64_t t) {
    return a->causal ? cr_iclamp(t + 1 + a->S - a->T, 0, a->S) : a->S;
}

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
        int64_t n = seen(a, t);
        double max = -INFINITY, sum = 0;
        EACH(s, n) {
            score[s] = score_of(a, t, s);
            max = isnan(max) || score[s] <= max ? max : score[s];
        }
        if (max == -INFINITY) n = 0;                /* every key is hidden */
        EACH(s, n) sum += score[s] = exp(score[s] - max);
        EACH(d, a->D) {
            double y = 0;
            EACH(s, n) y += score[s] / sum * at(a->v, a, s, d);
            set(o, a, t, d, y);
        }
        put(lse, lse_at(a, t), n ? max + log(sum) : -INFINITY);
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
               .causal = args->causal};
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
        EACH(s, seen(a, t)) {
            double ds = dscore(a, t, s);
            EACH(d, a->D) row[d] += ds * at(a->k, a, s, d);
        }
        EACH(d, a->D) set(dq, a, t, d, a->scale * row[d]);
    }
}

/* dk[s] = scale sum_t dscore[t, s] q[t];  dv[s] = sum_t p[t, s] g[t] */
static void backward_keys(const heads *a, const cr_array *dk, const cr_array *dv, double *for_k, double *for_v) {
    EACH(s, a->S) {
        EACH(d, a->D) for_k[d] = for_v[d] = 0;
        EACH(t, a->T) {
            if (s >= seen(a, t)) continue;
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
               .causal = args->causal};
    double *rows = calloc(2 * (size_t)a.D + 1, sizeof *rows);
    if (!rows) return cr_fail(CR_NO_MEMORY, "attention", "out of memory for rows of %lld", (long long)a.D);
    for (a.b = 0; a.b < q->shape[0]; a.b++)
        for (a.h = 0; a.h < q->shape[1]; a.h++) {
            backward_queries(&a, &args->dq, rows);
            backward_keys(&a, &args->dk, &args->dv, rows, rows + a.D);
        }
    free(rows);
    return CR_OK;
}
