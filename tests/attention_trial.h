/* attention_trial.h - attention, forward and backward, of one shape and layout against plain loops in
 * double, whatever device ran it. */
#ifndef CR_ATTENTION_TRIAL_H
#define CR_ATTENTION_TRIAL_H

#include "box.h"

#include "core/ints.h"

/* mask 0: none; 1: (B, H, T, S); 2: over T and S; 3: over B and S; 4: over H and T; 5: (B, H, T, S)
 * with T the last in memory. A third of it is -Inf, and all of it where t is 2 modulo 5 (but for 3). */
typedef struct trial {
    cr_dtype dt;
    int64_t B, H, T, S, D;
    bool causal;
    double scale;
    int layout, mask;
    double rough;
    int64_t shared, window, shift;                  /* shared: heads of q for each of k and v, 0: 1; causal: keys that
                                                     * a query sees, 0: all; further than the last key for the last
                                                     * query */
} trial;
enum { Q, K, W, O, G, DQ, DK, DV, LSE, MASK, BOXES };           /* W: the values */
enum { MASKS = 6 };
typedef struct set { box b[BOXES]; } set;

/* layout 0: (B, H, rows, D) contiguous; 1: (B, rows, H, D) in memory; 2: as 1 with gaps, as slices of
 * one projection are */
static box heads(const trial *t, cr_dtype dt, int64_t H, int64_t rows) {
    int64_t pad = t->layout == 2 ? 3 : 0, row = t->layout ? H * t->D + pad : t->D,
            head = t->layout ? t->D : rows * t->D;
    return box_make(dt, 4, (int64_t[]){t->B, H, rows, t->D},
                    (int64_t[]){H * rows * t->D + pad * rows, head, row, 1});
}

static int64_t shared(const trial *t) { return t->shared ? t->shared : 1; }
/* Query i sees the keys i + first .. i + last, as kernels take them. */
static int64_t last(const trial *t) { return t->causal ? cr_iclamp(t->S - t->T + t->shift, -t->T, t->S) : t->S; }
static int64_t first(const trial *t) { return t->window ? cr_imax(-t->T, last(t) + 1 - t->window) : -t->T; }
static int64_t seen(const trial *t, int64_t i) { return cr_iclamp(i + last(t) + 1, 0, t->S); }
static int64_t unseen(const trial *t, int64_t i) { return cr_iclamp(i + first(t), 0, t->S); }


static box mask_box(const trial *t) {
    int64_t B = t->B, H = t->H, T = t->T, S = t->S;
    const int64_t strides[MASKS][4] = {{0},          {H * T * S, T * S, S, 1}, {0, 0, S, 1}, {S, 0, 0, 1},
                                       {0, T, 1, 0}, {H * T * S, T * S, 1, T}};
    box x = box_make(t->dt == CR_F64 ? CR_F64 : CR_F32, 4, (int64_t[]){B, H, T, S}, strides[t->mask]);
    int64_t at[4] = {0};
    if (x.t.numel) do {
        bool hides = box_draw(3) == 0 || (at[2] % 5 == 2 && t->mask != 3);
        if (hides) cr_store_f64(box_at(&x, at), x.t.dtype, -INFINITY);
    } while (box_next(at, 4, x.t.shape));
    memcpy(x.before, x.memory, x.bytes);
    return x;
}

static set make_set(const trial *t) {
    set s;
    for (int i = 0; i < LSE; i++) {
        const bool of_key = i == K || i == W || i == DK || i == DV;
        s.b[i] = heads(t, t->dt, of_key ? t->H / shared(t) : t->H, of_key ? t->S : t->T);
    }
    s.b[LSE] = box_make(t->dt == CR_F64 ? CR_F64 : CR_F32, 3, (int64_t[]){t->B, t->H, t->T},
                        (int64_t[]){t->H * t->T, t->T, 1});
    s.b[MASK] = mask_box(t);
    return s;
}
static void drop_set(set *s) { for (int i = 0; i < BOXES; i++) box_drop(&s->b[i]); }

static double value(const set *s, int which, int64_t b, int64_t h, int64_t row, int64_t d) {
    const box *x = &s->b[which];
    return cr_load_f64(box_at(x, (int64_t[]){b, h, row, d}), x->t.dtype);
}

static double epsilon(cr_dtype dt) { return dt == CR_F64 ? 0x1p-52 : 0x1p-23; }
static double rounding(cr_dtype dt) { return dt == CR_F16 ? 0x1p-11 : dt == CR_BF16 ? 0x1p-8 : 0; }

/* size: the sum of the absolute values of what was added up, of which t->rough says how far each may
 * be off beside f32's error */
static void check(const trial *t, const set *s, int which, int64_t b, int64_t h, int64_t row, int64_t d, double want,
                  double size) {
    static const char *const names[] = {"q", "k", "v", "o", "g", "dq", "dk", "dv", "lse"};
    double got = value(s, which, b, h, row, which == LSE ? 0 : d),
           limit = epsilon(t->dt) * 32 * size + (which == LSE ? 0 : rounding(t->dt) * fabs(want) + t->rough * size) +
                   1e-300;
    /* denormals lose digits */
    limit += t->dt == CR_F16 && which != LSE ? 0x1p-24 : t->dt == CR_F64 ? 0 : 0x1p-120;
    CHECK(got == want || fabs(got - want) <= limit,
          "%s %s B %lld H %lld (%lld share) T %lld S %lld D %lld causal %d window %lld shift %lld layout %d mask %d: "
          "at (%lld, %lld, %lld, %lld) %.9g, wanted %.9g +- %.2g",
          names[which], cr_dtype_name(t->dt), (long long)t->B, (long long)t->H, (long long)shared(t), (long long)t->T,
          (long long)t->S, (long long)t->D, t->causal, (long long)t->window, (long long)t->shift, t->layout,
          t->mask, (long long)b, (long long)h, (long long)row, (long long)d, got, want, limit);
}

/* The heads that share the keys of one: out of softmax(scale q k^T) v and its derivatives as they are
 * written in a textbook. */
static void check_group(const trial *t, const set *s, int64_t b, int64_t group) {
    size_t wide = (size_t)(t->S * t->D + 1);
    double *p = malloc((size_t)(t->S + 1) * sizeof *p), *dk = calloc(4 * wide, sizeof *dk), *dv = dk + wide,
           *dk_size = dv + wide, *dv_size = dk_size + wide;
    double *k = malloc(2 * wide * sizeof *k), *v = k + wide, *row = malloc((size_t)(4 * t->D + 1) * sizeof *row);
    for (int64_t j = 0; j < t->S; j++)
        for (int64_t d = 0; d < t->D; d++) {
            k[j * t->D + d] = value(s, K, b, group, j, d);
            v[j * t->D + d] = value(s, W, b, group, j, d);
        }
    for (int64_t n = 0; n < shared(t) * t->T; n++) {
        const int64_t h = group * shared(t) + n / t->T, i = n % t->T, begin = unseen(t, i);
        int64_t keys = seen(t, i);
        double most = -INFINITY, sum = 0, delta = 0, delta_size = 0, score_size = 1, *q = row, *g = q + t->D,
               *dq = g + t->D, *dq_size = dq + t->D;
        for (int64_t d = 0; d < t->D; d++) {
            q[d] = value(s, Q, b, h, i, d); g[d] = value(s, G, b, h, i, d);
            dq[d] = dq_size[d] = 0;
            double x = value(s, O, b, h, i, d) * g[d];
            delta += x; delta_size += fabs(x);
        }
        for (int64_t j = begin; j < keys; j++) {
            double dot = 0, size = 0;
            for (int64_t d = 0; d < t->D; d++) { double x = q[d] * k[j * t->D + d]; dot += x; size += fabs(x); }
            p[j] = t->scale * dot + (t->mask ? value(s, MASK, b, h, i, j) : 0);
            most = fmax(most, p[j]);
            score_size = fmax(score_size, fabs(t->scale) * size);
        }
        if (most == -INFINITY) keys = 0;
        for (int64_t j = begin; j < keys; j++) sum += p[j] = exp(p[j] - most);
        check(t, s, LSE, b, h, i, 0, keys ? most + log(sum) : -INFINITY, score_size + 1);
        for (int64_t d = 0; d < t->D; d++) {
            double o = 0, size = 0;
            for (int64_t j = begin; j < keys; j++) {
                double x = p[j] / sum * v[j * t->D + d];
                o += x; size += fabs(x);
            }
            check(t, s, O, b, h, i, d, o, size * score_size);
        }
        for (int64_t j = begin; j < keys; j++) {
            double w = p[j] / sum, dp = 0, size = 0;
            for (int64_t d = 0; d < t->D; d++) { double x = g[d] * v[j * t->D + d]; dp += x; size += fabs(x); }
            double ds = t->scale * w * (dp - delta), ds_size = fabs(t->scale) * w * (size + delta_size) * score_size;
            for (int64_t d = 0; d < t->D; d++) {
                dq[d] += ds * k[j * t->D + d]; dq_size[d] += ds_size * fabs(k[j * t->D + d]);
                dk[j * t->D + d] += ds * q[d]; dk_size[j * t->D + d] += ds_size * fabs(q[d]);
                dv[j * t->D + d] += w * g[d]; dv_size[j * t->D + d] += w * fabs(g[d]) * score_size;
            }
        }
        for (int64_t d = 0; d < t->D; d++) check(t, s, DQ, b, h, i, d, dq[d], dq_size[d]);
    }
    for (int64_t j = 0; j < t->S; j++)
        for (int64_t d = 0; d < t->D; d++) {
            check(t, s, DK, b, group, j, d, dk[j * t->D + d], dk_size[j * t->D + d]);
            check(t, s, DV, b, group, j, d, dv[j * t->D + d], dv_size[j * t->D + d]);
        }
    free(p); free(dk); free(k); free(row);
}

static void check_all(const trial *t, const set *s) {
    for (int64_t b = 0; b < t->B; b++)
        for (int64_t group = 0; group < t->H / shared(t); group++) check_group(t, s, b, group);
}

#endif
