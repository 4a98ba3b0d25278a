/* attention_isa.c - softmax(scale q k^T + mask) v and its gradients, a block of queries by a block of
 * keys at a time, in f32.
 *
 * Forward after Milakov and Gimelshein (arXiv 1805.02867) and Dao et al. (FlashAttention, arXiv
 * 2205.14135): the scores of a block are kept transposed, P[key][query], so that the running maximum
 * and sum of each query are lanes of a vector, keys are read in place, and P has the order in which
 * the second product reads it.  Backward keeps P[query][key].  Few queries have functions of their
 * own.  Limited by flops: 4 D per visible pair forward, 10 D backward; causal blocks on
 * the diagonal skip hidden pairs by rows. */
#include "attention.h"

#include "vmath.h"

enum { N = CR_ATTENTION_BLOCK };

static inline int64_t whole(int64_t n) { return (n + V - 1) / V * V; }
static inline float *rows_of(const cr_attention_job *a, cr_heads x, int64_t head, int64_t row) {
    return x.at + head / a->H * x.batch + head % a->H * x.head + row * x.row;
}
/* Keys and values of the head of a query; dk and dv. */
static inline float *keys_of(const cr_attention_job *a, cr_heads x, int64_t head, int64_t row) {
    return x.at + head / a->H * x.batch + head % a->H * a->KV / a->H * x.head + row * x.row;
}

/* The number of keys in [j, j + n) up to the last one that query t sees; before the first one. */
static inline int64_t seen(const cr_attention_job *a, int64_t t, int64_t j, int64_t n) {
    return cr_iclamp(t + a->last + 1 - j, 0, n);
}
static inline int64_t unseen(const cr_attention_job *a, int64_t t, int64_t j, int64_t n) {
    return cr_iclamp(t + a->first - j, 0, n);
}

/* The number of queries in [t, t + n) before the first one that sees key j; up to the last one. */
static inline int64_t first_query(const cr_attention_job *a, int64_t j, int64_t t, int64_t n) {
    return cr_iclamp(j - a->last - t, 0, n);
}
static inline int64_t last_query(const cr_attention_job *a, int64_t j, int64_t t, int64_t n) {
    return cr_iclamp(j - a->first + 1 - t, 0, n);
}

/* Lanes i with i < n. */
static inline vmask first_lanes(int64_t n) {
#if CR_ISA == 4
    return (vmask)((1u << n) - 1);
#else
    vint lane;
    for (int i = 0; i < V; i++) lane[i] = i;
    return lane < (int32_t)n;
#endif
}

static inline vec blend_first(int64_t n, vec a, vec b) { return v_blend(first_lanes(n), a, b); }

static void multiply(const cr_attention_job *a, int64_t m, int64_t n, int64_t k, const float *x, int64_t x_row,
                     int64_t x_col, const float *y, int64_t y_row, float *z, int64_t z_row, bool accumulate) {
    cr_product p = {.m = m,
                    .n = n,
                    .k = k,
                    .a = x,
                    .b = y,
                    .c = z,
                    .a_row = x_row,
                    .a_col = x_col,
                    .b_row = y_row,
                    .b_col = 1,
                    .c_row = z_row,
                    .accumulate = accumulate};
    a->product->direct(&p);
}

/* to (D, N): the transpose of n rows times scale. */
static void transpose(const cr_attention_job *a, float *to, const float *from, int64_t row, int64_t n, float scale) {
    a->product->pack(to, N, n, a->D, from, row, 1);
    if (scale == 1) return;
    for (int64_t i = 0; i < a->D * N; i += V) STORE(to + i, LOAD(to + i) * scale);
}

/* to[i] = x[i] . y[i] for n <= N rows, and 0 up to a whole vector.  Each row gives a vector of partial
 * sums; these are transposed, so that rows become lanes, and added.  scratch: 2 N V. */
static void dots(const cr_attention_job *a, float *to, const float *x, int64_t x_row, const float *y, int64_t y_row,
                 int64_t n, float *scratch) {
    float *sums = scratch, *turned = scratch + N * V;           /* (n, V), (V, N) */
    for (int64_t i = 0; i < n; i++, x += x_row, y += y_row) {
        vec sum = v_k(0);
        int64_t d = 0;
        for (; d + V <= a->D; d += V) sum = v_fma(LOAD(x + d), LOAD(y + d), sum);
        STORE(sums + i * V, sum);
        for (; d < a->D; d++) sums[i * V + d % V] = one_fma_f32(x[d], y[d], sums[i * V + d % V]);
    }
    a->product->pack(turned, N, n, V, sums, V, 1);
    for (int64_t i = 0; i < n; i += V) {
        vec sum = v_k(0);
        for (int lane = 0; lane < V; lane++) sum += LOAD(turned + lane * N + i);
        STORE(to + i, sum);
    }
}

/* p += the mask over a block, which is gathered into `to` (N, N) in the order of p: rows, columns
 * long, at these strides. */
static void add_mask(const cr_attention_job *a, float *p, float *to, const float *mask, int64_t rows, int64_t columns,
                     int64_t row, int64_t column) {
    a->product->pack(to, N, columns, rows, mask, column, row);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t x = i * N; x < i * N + columns; x += V) STORE(p + x, LOAD(p + x) + LOAD(to + x));
}

/* ---- forward */

/* q (D, N), p, mask (N, N), the others N */
typedef struct state { float *q, *p, *mask, *max, *sum, *shrink; } state;

/* The number of rows of a product that skip the same hidden columns: 16 where the diagonal crosses a
 * block, else all. */
static int64_t panel_of(const cr_attention_job *a, int64_t rows, int64_t t, int64_t j, int64_t keys) {
    enum { PANEL = 16 };
    return seen(a, t, j, keys) == keys ? rows : PANEL;
}

/* p = k q^T for keys j .. j + keys and queries t .. t + n; where the diagonal crosses, rows of keys
 * skip the queries before them. */
static void scores(const cr_attention_job *a, const state *s, const float *k, int64_t t, int64_t n, int64_t j,
                   int64_t keys) {
    int64_t panel = panel_of(a, keys, t, j, keys);
    for (int64_t i = 0; i < keys; i += panel) {
        int64_t first = first_query(a, j + i, t, n) / V * V;
        multiply(a, cr_iclamp(keys - i, 0, panel), whole(n) - first, a->D, k + i * a->k.row, a->k.row, 1, s->q + first,
                 N, s->p + i * N + first, N, false);
    }
}

/* p = exp(p - max) with the new maxima; V queries from column x on.  Returns with shrink = exp(old max - new max). */
static void softmax_lanes(const cr_attention_job *a, const state *s, int64_t t, int64_t x, int64_t j, int64_t keys) {
    /* every lane sees the keys all .. all_end, at least one lane the keys some .. some_end */
    const int64_t some = unseen(a, t + x, j, keys), some_end = seen(a, t + x + V - 1, j, keys);
    const int64_t all = unseen(a, t + x + V - 1, j, keys), all_end = seen(a, t + x, j, keys);
    /* the first and the last key of the first lane; may lie outside of the block */
    const int64_t first = t + x + a->first - j, last = t + x + a->last - j;
    float *p = s->p + x;
    vec old = LOAD(s->max + x), most = old, sum = v_k(0);
    for (int64_t i = 0; i < some; i++) STORE(p + i * N, v_k(0));
    for (int64_t i = some; i < some_end; i++) {
        if (i == all)                               /* four at a time, because a chain of maxima has latency */
            for (; i + 4 <= all_end; i += 4)
                most = v_most(most, v_most(v_most(LOAD(p + i * N), LOAD(p + (i + 1) * N)),
                                           v_most(LOAD(p + (i + 2) * N), LOAD(p + (i + 3) * N))));
        if (i >= some_end) break;
        vec y = LOAD(p + i * N);
        if (i < all) y = blend_first(cr_iclamp(i - first + 1, 0, V), y, v_k(-INFINITY));
        if (i >= all_end) y = blend_first(cr_iclamp(i - last, 0, V), v_k(-INFINITY), y);
        STORE(p + i * N, y);
        most = v_most(most, y);
    }
    vec base = v_blend(m_eq(most, v_k(-INFINITY)), v_k(0), most);      /* no visible key yet: exp(-inf - 0) = 0 */
    for (int64_t i = some; i < some_end; i++) {
        vec y = v_exp(LOAD(p + i * N) - base);
        STORE(p + i * N, y);
        sum += y;
    }
    for (int64_t i = cr_imax(some, some_end); i < keys; i++) STORE(p + i * N, v_k(0));
    vec shrink = v_exp(old - base);
    STORE(s->shrink + x, shrink);
    STORE(s->sum + x, v_fma(LOAD(s->sum + x), shrink, sum));
    STORE(s->max + x, most);
}

static void scale_row(float *row, int64_t n, float by) {
    for (int64_t i = 0; i < n; i++) row[i] *= by;
}

/* o += p v */
static void add_values(const cr_attention_job *a, const state *s, float *o, const float *v, int64_t t, int64_t n,
                       int64_t j, int64_t keys, bool accumulate) {
    int64_t panel = panel_of(a, n, t, j, keys);
    for (int64_t i = 0; i < n; i += panel) {
        int64_t rows = cr_iclamp(n - i, 0, panel), k = seen(a, t + i + rows - 1, j, keys);
        if (accumulate) for (int64_t r = i; r < i + rows; r++)
            if (s->shrink[r] != 1) scale_row(o + r * a->o.row, a->D, s->shrink[r]);
        multiply(a, rows, a->D, k, s->p + i, 1, N, v, a->v.row, o + i * a->o.row, a->o.row, accumulate);
    }
}

/* ---- few queries, as in generation: limited by reading k and v once.  The rows of a part are the
 * queries of all heads that share its keys. */

/* n rows of keys or values from row j on as f32: in place, or converted into `to` (N, D). */
static const float *keys_at(const cr_attention_job *a, const cr_heads *x, int64_t group, int64_t j, int64_t n,
                            int64_t *row, float *to) {
    const int64_t at = group / a->KV * x->batch + group % a->KV * x->head + j * x->row;
    *row = x->row;
    if (!a->half) return x->at + at;
    const uint16_t *from = (const uint16_t *)(const void *)x->at + at;
    if (x->row == a->D) a->half(to, from, n * a->D);
    else for (int64_t i = 0; i < n; i++) a->half(to + i * a->D, from + i * x->row, a->D);
    *row = a->D;
    return to;
}

/* p (n) becomes exp(p - its maximum) over the keys [from, to), 0 elsewhere up to a whole vector. */
static void softmax_part(float *p, int64_t from, int64_t to, int64_t n, float *max, float *sum) {
    for (int64_t i = 0; i < from; i++) p[i] = -INFINITY;
    for (int64_t i = to; i < whole(n); i++) p[i] = -INFINITY;
    vec most = v_k(-INFINITY), total = v_k(0);
    for (int64_t i = 0; i < n; i += V) most = v_most(most, LOAD(p + i));
    *max = -INFINITY;
    for (int lane = 0; lane < V; lane++) *max = most[lane] > *max || most[lane] != most[lane] ? most[lane] : *max;
    const float base = *max == -INFINITY ? 0 : *max;            /* no key is visible: exp(-inf - 0) = 0 */
    for (int64_t i = 0; i < n; i += V) {
        vec y = v_exp(LOAD(p + i) - base);
        STORE(p + i, y);
        total += y;
    }
    *sum = v_sum_lanes(total);
}

/* Does no query of the group's heads see key j?  So it is behind a text in a cache that is longer. */
static bool is_masked(const cr_attention_job *a, int64_t head, int64_t rows, int64_t j) {
    for (int64_t r = 0; r < rows; r++)
        if (rows_of(a, a->mask, head + r / a->T, r % a->T)[j * a->mask_key] != -INFINITY) return false;
    return true;
}

static void forward_part(const cr_attention_job *a, int64_t group, int64_t j, int64_t n, float *out, float *scratch) {
    enum { PART = CR_ATTENTION_PART };
    const int64_t shared = a->H / a->KV, rows = shared * a->T, head = group * shared, D = a->D;
    float *p = scratch, *block = p + rows * PART, *q = block + N * D;
    const int64_t step = a->half ? N : PART;        /* keys that are converted at a time */
    /* the keys of the part that a query sees */
    const int64_t from = unseen(a, 0, j, n);
    int64_t to = seen(a, a->T - 1, j, n), row;
    while (a->mask.at && to > from && is_masked(a, head, rows, j + to - 1)) to--;
    for (int64_t r = 0; r < rows; r++) {
        const float *x = rows_of(a, a->q, head + r / a->T, r % a->T);
        for (int64_t d = 0; d < D; d++) q[r * D + d] = x[d] * a->scale;
    }
    for (int64_t i = from; i < to; i += step) {
        const int64_t keys = cr_imin(step, to - i);
        const float *k = keys_at(a, &a->k, group, j + i, keys, &row, block);
        const cr_product product = {.m = rows, .n = keys, .k = D, .a = q, .a_row = D, .a_col = 1,
                                    .b = k, .b_row = 1, .b_col = row, .c = p + i, .c_row = PART};
        (rows == 1 ? a->product->row : a->product->few)(&product);
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t h = head + r / a->T, t = r % a->T;
        float *x = p + r * PART;
        if (a->mask.at) {
            const float *mask = rows_of(a, a->mask, h, t) + j * a->mask_key;
            for (int64_t i = from; i < to; i++) x[i] += mask[i * a->mask_key];
        }
        softmax_part(x, unseen(a, t, j, n), cr_imin(to, seen(a, t, j, n)), n, &out[rows * D + r],
                     &out[rows * (D + 1) + r]);
    }
    for (int64_t i = from; i < to; i += step) {
        const int64_t keys = cr_imin(step, to - i);
        const float *v = keys_at(a, &a->v, group, j + i, keys, &row, block);
        const cr_product product = {.m = rows, .n = D, .k = keys, .a = p + i, .a_row = PART, .a_col = 1, .b = v,
                                    .b_row = row, .b_col = 1, .c = out, .c_row = D, .accumulate = i > from};
        (rows == 1 ? a->product->row : a->product->direct)(&product);
    }
    if (from >= to) memset(out, 0, (size_t)(rows * D) * sizeof *out);
}

/* o and lse of a group of heads from the `parts` results of forward_part */
static void join_parts(const cr_attention_job *a, int64_t group, int64_t parts, const float *from) {
    const int64_t shared = a->H / a->KV, rows = shared * a->T, D = a->D, size = rows * (D + 2);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t head = group * shared + r / a->T, t = r % a->T;
        const float *max = from + rows * D + r, *sum = max + rows;
        float most = -INFINITY, total = 0, *o = rows_of(a, a->o, head, t);
        for (int64_t i = 0; i < parts; i++)
            most = max[i * size] > most || max[i * size] != max[i * size] ? max[i * size] : most;
        memset(o, 0, (size_t)D * sizeof *o);
        for (int64_t i = 0; i < parts; i++) {
            if (max[i * size] == -INFINITY) continue;
            const float w = v_exp(v_k(max[i * size] - most))[0], *x = from + i * size + r * D;
            total = one_fma_f32(w, sum[i * size], total);
            for (int64_t d = 0; d < D; d++) o[d] = one_fma_f32(w, x[d], o[d]);
        }
        if (total != 0) scale_row(o, D, 1 / total);
        a->lse[head * a->T + t] = most + v_log(v_k(total))[0];
    }
}

static void forward(const cr_attention_job *a, int64_t head, int64_t t, int64_t n, float *scratch) {
    state s = {
        .q = scratch, .p = scratch + a->D * N, .mask = scratch + (a->D + N) * N, .max = scratch + (a->D + 2 * N) * N};
    s.sum = s.max + N;
    s.shrink = s.sum + N;
    for (int i = 0; i < N; i++) { s.max[i] = -INFINITY; s.sum[i] = 0; }
    transpose(a, s.q, rows_of(a, a->q, head, t), a->q.row, n, a->scale);
    float *o = rows_of(a, a->o, head, t), *lse = a->lse + head * a->T + t;
    const int64_t begin = unseen(a, t, 0, a->S), end = seen(a, t + n - 1, 0, a->S);
    for (int64_t j = begin; j < end; j += N) {
        int64_t keys = cr_iclamp(end - j, 0, N);
        scores(a, &s, keys_of(a, a->k, head, j), t, n, j, keys);
        if (a->mask.at)
            add_mask(a, s.p, s.mask, rows_of(a, a->mask, head, t) + j * a->mask_key, keys, n, a->mask_key, a->mask.row);
        for (int64_t x = 0; x < n; x += V) softmax_lanes(a, &s, t, x, j, keys);
        add_values(a, &s, o, keys_of(a, a->v, head, j), t, n, j, keys, j > begin);
    }
    for (int64_t i = 0; i < n; i++) {
        if (begin >= end) memset(o + i * a->o.row, 0, (size_t)a->D * sizeof *o);
        else if (s.sum[i] > 0 || s.sum[i] != s.sum[i]) scale_row(o + i * a->o.row, a->D, 1 / s.sum[i]);
    }
    for (int x = 0; x < N; x += V) STORE(s.sum + x, v_log(LOAD(s.sum + x)) + LOAD(s.max + x));
    for (int64_t i = 0; i < n; i++) lse[i] = s.max[i] == -INFINITY ? -INFINITY : s.sum[i];
}

/* ---- backward: p = exp(scale q k^T + mask - lse), dp = g v^T, ds = scale p (dp - delta), delta[t] = o[t] . g[t];
 * dv = p^T g, dk = ds^T q, dq = ds k */

/* k, v (D, N) transposed, p, ds, mask (N, N), delta (T) */
typedef struct block { float *k, *v, *p, *ds, *mask, *delta; } block;


/* One row of p and ds: the columns [from, keys) are visible; the others, up to n, become 0. */
static void softmax_row_bwd(float *p, float *ds, int64_t from, int64_t keys, int64_t n, float lse, float delta,
                            float scale) {
    int64_t i = 0;
    if (lse == -INFINITY) lse = 0;                  /* the mask hides every key: exp(-inf - 0) = 0 */
    for (; i < whole(keys); i += V) {
        vec y = v_exp(LOAD(p + i) - lse), d = (LOAD(ds + i) - delta) * y * scale;
        if (i + V > keys) {
            y = blend_first(keys - i, y, v_k(0));
            d = blend_first(keys - i, d, v_k(0));
        }
        STORE(p + i, y);
        STORE(ds + i, d);
    }
    for (; i < whole(n); i += V) { STORE(p + i, v_k(0)); STORE(ds + i, v_k(0)); }
    for (i = 0; i < from; i++) p[i] = ds[i] = 0;
}

/* p and ds of queries t .. t + n and keys j .. j + keys. */
static void probabilities(const cr_attention_job *a, const block *b, int64_t head, int64_t t, int64_t n, int64_t j,
                          int64_t keys) {
    const float *q = rows_of(a, a->q, head, t), *g = rows_of(a, a->g, head, t), *lse = a->lse + head * a->T + t;
    int64_t panel = panel_of(a, n, t, j, keys);
    for (int64_t i = 0; i < n; i += panel) {
        int64_t rows = cr_iclamp(n - i, 0, panel), columns = whole(seen(a, t + i + rows - 1, j, keys));
        multiply(a, rows, columns, a->D, q + i * a->q.row, a->q.row, 1, b->k, N, b->p + i * N, N, false);
        multiply(a, rows, columns, a->D, g + i * a->g.row, a->g.row, 1, b->v, N, b->ds + i * N, N, false);
        if (a->mask.at) {
            const float *mask = rows_of(a, a->mask, head, t + i) + j * a->mask_key;
            add_mask(a, b->p + i * N, b->mask, mask, rows, cr_iclamp(columns, 0, keys), a->mask.row, a->mask_key);
        }
        for (int64_t r = i; r < i + rows; r++)
            softmax_row_bwd(b->p + r * N, b->ds + r * N, unseen(a, t + r, j, keys), seen(a, t + r, j, keys), keys,
                            lse[r], b->delta[t + r], a->scale);
    }
}

/* dv += p^T g, dk += ds^T q; rows of keys skip the queries that do not see them. */
static void add_to_keys(const cr_attention_job *a, const block *b, int64_t head, int64_t t, int64_t n, int64_t j,
                        int64_t keys, bool accumulate) {
    const float *q = rows_of(a, a->q, head, t), *g = rows_of(a, a->g, head, t);
    float *dk = keys_of(a, a->dk, head, j), *dv = keys_of(a, a->dv, head, j);
    int64_t panel = panel_of(a, keys, t, j, keys);
    for (int64_t i = 0; i < keys; i += panel) {
        int64_t rows = cr_iclamp(keys - i, 0, panel), first = first_query(a, j + i, t, n);
        multiply(a, rows, a->D, n - first, b->p + first * N + i, 1, N, g + first * a->g.row, a->g.row,
                 dv + i * a->dv.row, a->dv.row, accumulate);
        multiply(a, rows, a->D, n - first, b->ds + first * N + i, 1, N, q + first * a->q.row, a->q.row,
                 dk + i * a->dk.row, a->dk.row, accumulate);
    }
}

/* dq += ds k */
static void add_to_queries(const cr_attention_job *a, const block *b, int64_t head, int64_t t, int64_t n, int64_t j,
                           int64_t keys, bool accumulate) {
    const float *k = keys_of(a, a->k, head, j);
    float *dq = rows_of(a, a->dq, head, t);
    int64_t panel = panel_of(a, n, t, j, keys);
    for (int64_t i = 0; i < n; i += panel) {
        int64_t rows = cr_iclamp(n - i, 0, panel), visible = seen(a, t + i + rows - 1, j, keys);
        multiply(a, rows, a->D, visible, b->ds + i * N, N, 1, k, a->k.row, dq + i * a->dq.row, a->dq.row, accumulate);
    }
}

static void clear(const cr_attention_job *a, float *x, int64_t row, int64_t n) {
    for (int64_t i = 0; i < n; i++) memset(x + i * row, 0, (size_t)a->D * sizeof *x);
}

/* The first product for a row writes it, later ones add; rows that no pair reaches are cleared. */
static void backward(const cr_attention_job *a, int64_t head, int64_t j, int64_t j_end, int64_t t, int64_t t_end,
                     bool want_q, bool want_kv, float *scratch) {
    block b = {.k = scratch, .v = scratch + a->D * N, .p = scratch + 2 * a->D * N};
    b.ds = b.p + N * N;
    b.mask = b.ds + N * N;
    b.delta = b.mask + N * N;
    for (int64_t x = t; x < t_end; x += N)
        dots(a, b.delta + x, rows_of(a, a->o, head, x), a->o.row, rows_of(a, a->g, head, x), a->g.row,
             cr_iclamp(t_end - x, 0, N), b.p);
    const bool first_head = head % (a->H / a->KV) == 0;         /* of those that share these keys */
    int64_t written = t;                            /* dq of the queries before this one is */
    for (; j < j_end; j += N) {
        int64_t keys = cr_iclamp(j_end - j, 0, N);
        transpose(a, b.k, keys_of(a, a->k, head, j), a->k.row, keys, a->scale);
        transpose(a, b.v, keys_of(a, a->v, head, j), a->v.row, keys, 1);
        /* only the blocks of queries that see a key of this block */
        const int64_t start = t + first_query(a, j, t, t_end - t) / N * N;
        const int64_t end = t + last_query(a, j + keys - 1, t, t_end - t);
        if (want_q) clear(a, rows_of(a, a->dq, head, written), a->dq.row, cr_imin(start, t_end) - written);
        written = cr_imax(written, start);
        for (int64_t x = start; x < end; x += N) {
            int64_t n = cr_iclamp(t_end - x, 0, N);
            probabilities(a, &b, head, x, n, j, keys);
            if (want_kv) add_to_keys(a, &b, head, x, n, j, keys, !first_head || x > start);
            if (want_q) add_to_queries(a, &b, head, x, n, j, keys, x < written);
            written = cr_imax(written, x + n);
        }
        if (start < end || !want_kv || !first_head) continue;
        clear(a, keys_of(a, a->dk, head, j), a->dk.row, keys);
        clear(a, keys_of(a, a->dv, head, j), a->dv.row, keys);
    }
    if (want_q) clear(a, rows_of(a, a->dq, head, written), a->dq.row, t_end - written);
}

const struct cr_attentions CR_ISA_NAME(cr_attentions) = {
    .forward = forward, .part = forward_part, .join = join_parts, .backward = backward};
