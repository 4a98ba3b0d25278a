/* quantize.c - weights w (OC, C) to codes of 8 or 4 bits with a scale for each group (kernels.def has the layout).
 *
 * To nearest, or with the second moments H of the layer's inputs by GPTQ (Frantar et al., arXiv 2210.17323) in the
 * form of LDLQ (Chee et al., arXiv 2307.13304): with H = (I + U) D (I + U)^T, U strictly upper, column k is rounded
 * after the errors e of the columns before it are added, w_k + sum over j < k of e_j U_jk.  On the host. */
#include "compose.h"

#include "../core/ints.h"
#include "../core/pool.h"
#include "../core/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUP = 128, LANES = 16 };              /* LANES: rows of w at a time */

typedef struct job {
    const float *w;                                 /* (N, K) */
    const float *feedback;                          /* (K, K): [k K + j] = U_jk for j < k; NULL: to nearest */
    const float *weight;                            /* (K): the diagonal of H */
    int64_t N, K, G, parts;
    int bits;
    uint8_t *codes;
    uint16_t *scales;
    atomic_llong bad;                               /* a position that is not finite, or whose scale f16 cannot hold;
                                                     * -1: none */
    atomic_bool failed;
} job;

/* ---- one number */
static float unit_of(int bits, float most) { return bits == 8 ? fabsf(most) / 127 : most / -8; }

static int code_of(int bits, float w, float scale) {
    const float least = bits == 8 ? -127 : -8, most = bits == 8 ? 127 : 7;
    if (scale == 0) return 0;
    return (int)fminf(fmaxf(rintf(w / scale), least), most);
}

static void put_code(const job *j, int64_t n, int64_t k, int code) {
    if (j->bits == 8) { j->codes[n * j->K + k] = (uint8_t)(int8_t)code; return; }
    uint8_t *byte = j->codes + n * (j->K / 2) + k / 32 * 16 + k % 16;
    *byte = (uint8_t)(k % 32 < 16 ? (*byte & 0xf0) | (code + 8) : (*byte & 0x0f) | (code + 8) << 4);
}

/* The scale of a group by its largest element; with weights, the best of some smaller ones too. */
static uint16_t scale_of(const job *j, const float *w, int64_t stride, const float *weight) {
    float most = 0;
    for (int64_t k = 0; k < j->G; k++) {
        if (!isfinite(w[k * stride])) return cr_f32_to_f16(INFINITY);
        if (fabsf(w[k * stride]) > fabsf(most)) most = w[k * stride];
    }
    uint16_t best = cr_f32_to_f16(unit_of(j->bits, most));
    double least = INFINITY;
    for (int shrink = 0; weight && shrink < 8; shrink++) {
        const uint16_t half = cr_f32_to_f16(unit_of(j->bits, most) * (1 - 0.05f * (float)shrink));
        const float scale = cr_f16_to_f32(half);
        double error = 0;
        for (int64_t k = 0; k < j->G; k++) {
            const double e = (double)w[k * stride] - (double)scale * code_of(j->bits, w[k * stride], scale);
            error += e * e * (double)weight[k];
        }
        if (error < least) least = error, best = half;
    }
    return best;
}

/* ---- to nearest: rows of w */
static void nearest_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    for (int64_t n = chunk * LANES; n < cr_imin(j->N, (chunk + 1) * LANES); n++)
        for (int64_t g = 0; g < j->K; g += j->G) {
            const float *w = j->w + n * j->K + g;
            const uint16_t half = scale_of(j, w, 1, NULL);
            const float scale = cr_f16_to_f32(half);
            j->scales[n * (j->K / j->G) + g / j->G] = half;
            for (int64_t k = 0; k < j->G; k++) put_code(j, n, g + k, code_of(j->bits, w[k], scale));
            if (!isfinite(scale)) atomic_store(&j->bad, n * j->K + g);
        }
}

/* ---- with feedback: LANES rows side by side, e (K, LANES) */

/* sum[r] += feedback[j] e[j][r] */
static void add_errors(float *sum, const float *feedback, const float *e, int64_t first, int64_t end) {
    float s[LANES];
    memcpy(s, sum, sizeof s);
    for (int64_t j = first; j < end; j++)
        for (int r = 0; r < LANES; r++) s[r] += feedback[j] * e[j * LANES + r];
    memcpy(sum, s, sizeof s);
}

static void balanced_group(job *j, int64_t n, int rows, int64_t g, float *e, float *w) {
    float scale[LANES];
    for (int64_t k = 0; k < j->G; k++) {
        for (int r = 0; r < LANES; r++) w[k * LANES + r] = r < rows ? j->w[(n + r) * j->K + g + k] : 0;
        add_errors(w + k * LANES, j->feedback + (g + k) * j->K, e, 0, g);
    }
    for (int r = 0; r < rows; r++) {
        const uint16_t half = scale_of(j, w + r, LANES, j->weight + g);
        scale[r] = cr_f16_to_f32(half);
        j->scales[(n + r) * (j->K / j->G) + g / j->G] = half;
        if (!isfinite(scale[r])) atomic_store(&j->bad, (n + r) * j->K + g);
    }
    for (int64_t k = 0; k < j->G; k++) {
        float *wanted = w + k * LANES, *error = e + (g + k) * LANES;
        add_errors(wanted, j->feedback + (g + k) * j->K, e, g, g + k);
        for (int r = 0; r < rows; r++) {
            const int code = code_of(j->bits, wanted[r], scale[r]);
            put_code(j, n + r, g + k, code);
            error[r] = j->w[(n + r) * j->K + g + k] - scale[r] * (float)code;
        }
    }
}

static void balanced_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    float *e = calloc((size_t)(j->K * LANES), sizeof *e), w[MOST_GROUP * LANES];
    if (!e) { atomic_store(&j->failed, true); return; }
    const int64_t n = chunk * LANES;
    for (int64_t g = 0; g < j->K && !cr_pool_stopped(); g += j->G)
        balanced_group(j, n, (int)cr_imin(LANES, j->N - n), g, e, w);
    free(e);
}

/* ---- H = R R^T, R upper: the Cholesky factor of H with rows and columns in the opposite order */

/* Second moments, damped by a hundredth of their mean: columns without input keep a finite factor. */
static cr_status put_feedback(const cr_tensor *moments, int64_t K, float *feedback, float *weight) {
    const double *given;
    cr_tensor *m = cr_to(cr_detach(moments), CR_F64, cr_cpu()), *h = cr_empty(CR_LIST(K, K), CR_F64, cr_cpu());
    if (!(m = cr_contiguous(m)) || !h) return cr_error_status();
    if (!(given = cr_data(m))) return cr_error_status();
    double *a = cr_array_data(&h->array), mean = 0;
    for (int64_t k = 0; k < K; k++) mean += given[k * K + k] / (double)K;
    if (!(mean >= 0 && mean < INFINITY))
        return cr_fail(CR_BAD_VALUE, "quantize", "the mean of the moments' diagonal is %g", mean);
    const double damp = mean > 0 ? 0.01 * mean : 1;
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < K; j++)
            a[(K - 1 - i) * K + K - 1 - j] = (given[i * K + j] + given[j * K + i]) / 2 + (i == j ? damp : 0);
    if (!(h = cr_cholesky(h))) return cr_error_status();
    a = cr_array_data(&h->array);
    for (int64_t k = 0; k < K; k++) {
        const double pivot = a[(K - 1 - k) * K + K - 1 - k];
        if (!(pivot > 0 && pivot < INFINITY))
            return cr_fail(CR_BAD_VALUE, "quantize", "the moments are not sums of x^T x: pivot %lld is %g",
                           (long long)k,
                           pivot);
        weight[k] = (float)(given[k * K + k] + damp);
        for (int64_t j = 0; j < K; j++)
            feedback[k * K + j] = j < k ? (float)(a[(K - 1 - j) * K + K - 1 - k] / pivot) : 0;
    }
    return CR_OK;
}

/* ---- the call */
static cr_status check_weights(const cr_tensor *w, int bits, int64_t group, const cr_tensor *moments) {
    static const char op[] = "quantize";
    if (!cr_given(op, "w", w)) return cr_error_status();
    const cr_status status = cr_want_float(op, w);
    if (status != CR_OK) return status;
    if (w->ndim != 2)
        return cr_fail(CR_BAD_VALUE, op, "the weight must be (outputs, inputs): %s",
                       cr_shape_text(w->ndim, w->shape).s);
    if (bits != 8 && bits != 4) return cr_fail(CR_BAD_VALUE, op, "bits must be 8 or 4, not %d", bits);
    if (group < CR_QUANTIZED_BLOCK || group > MOST_GROUP || group % CR_QUANTIZED_BLOCK)
        return cr_fail(CR_BAD_VALUE, op, "the group must be 32, 64, 96 or 128, not %lld", (long long)group);
    if (!w->shape[1] || w->shape[1] % group)
        return cr_fail(CR_BAD_VALUE, op, "groups of %lld do not divide the %lld inputs of %s", (long long)group,
                       (long long)w->shape[1], cr_shape_text(2, w->shape).s);
    if (moments && moments != CR_NONE &&
        (moments->ndim != 2 || moments->shape[0] != w->shape[1] || moments->shape[1] != w->shape[1]))
        return cr_fail(CR_BAD_VALUE, op, "the moments must be (%lld, %lld): %s", (long long)w->shape[1],
                       (long long)w->shape[1], cr_shape_text(moments->ndim, moments->shape).s);
    return CR_OK;
}

static cr_status quantize_rows(job *j) {
    atomic_init(&j->bad, -1);
    const int64_t chunks = cr_pieces(j->N, LANES);
    if (chunks) cr_run_chunks(chunks, j->feedback ? balanced_chunk : nearest_chunk, j);
    const int64_t bad = atomic_load(&j->bad);
    if (atomic_load(&j->failed))
        return cr_fail(CR_NO_MEMORY, "quantize", "no memory for %lld columns", (long long)j->K);
    if (bad >= 0)
        return cr_fail(CR_BAD_VALUE, "quantize",
                       "weights %lld to %lld of row %lld are not finite, or too large for float16",
                       (long long)(bad % j->K), (long long)(bad % j->K + j->G - 1), (long long)(bad / j->K));
    return CR_OK;
}

static cr_status quantize(const cr_tensor *w, int bits, int64_t group, const cr_tensor *moments, cr_tensor **codes,
                          cr_tensor **scales) {
    const int64_t N = w->shape[0], K = w->shape[1];
    cr_tensor *from = cr_contiguous(cr_to(cr_detach(w), CR_F32, cr_cpu()));
    cr_tensor *c = cr_zeros(CR_LIST(N, bits == 8 ? K : K / 2), bits == 8 ? CR_I8 : CR_U8, cr_cpu()),
              *s = cr_empty(CR_LIST(N, K / group), CR_F16, cr_cpu());
    if (!from || !c || !s || !cr_data(from)) return cr_error_status();
    job j = {.w = cr_data(from), .N = N, .K = K, .G = group, .bits = bits,
             .codes = cr_array_data(&c->array), .scales = cr_array_data(&s->array)};
    float *feedback = NULL, *weight = NULL;
    cr_status status = CR_OK;
    if (bits == 4 && moments && moments != CR_NONE) {
        feedback = malloc((size_t)(K * K) * sizeof *feedback);
        weight = malloc((size_t)K * sizeof *weight);
        j.feedback = feedback, j.weight = weight;
        status = feedback && weight ? put_feedback(moments, K, feedback, weight)
                                    : cr_fail(CR_NO_MEMORY, "quantize", "no memory for moments of %lld", (long long)K);
    }
    if (status == CR_OK) status = quantize_rows(&j);
    free(feedback);
    free(weight);
    if (status != CR_OK) return status;
    *codes = cr_to(c, c->dtype, w->dev);
    *scales = cr_to(s, s->dtype, w->dev);
    if (!*codes || !*scales) return cr_error_status();
    cr_keep(*codes);
    cr_keep(*scales);
    return CR_OK;
}

cr_status cr_quantize(const cr_tensor *w, int bits, int64_t group, const cr_tensor *moments, cr_tensor **codes,
                      cr_tensor **scales) {
    if (!codes || !scales) return cr_fail_null("quantize", codes ? "scales" : "codes");
    *codes = *scales = NULL;
    cr_status status = check_weights(w, bits, group, moments);
    const cr_watch *watch = cr_watching();
    if (status == CR_OK && watch) status = watch->download("quantize", w->storage);     /* the host reads the weights */
    if (status != CR_OK) return status;
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    status = quantize(w, bits, group, moments, codes, scales);
    if (status != CR_OK) *codes = *scales = NULL;
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}
