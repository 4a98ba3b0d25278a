/* quantize.c - the rows of a weight w (OC, C) in a packed format (core/formats.h).
 *
 * To nearest (core/pack.h), or, q4_0 with the second moments H of the layer's inputs, by GPTQ (Frantar et al., arXiv
 * 2210.17323) in the form of LDLQ (Chee et al., arXiv 2307.13304): with H = (I + U) D (I + U)^T, U strictly upper,
 * column k is rounded after the errors e of the columns before it are added, w_k + sum over j < k of e_j U_jk.  On the
 * host. */
#include "compose.h"

#include "../core/ints.h"
#include "../core/pack.h"
#include "../core/pool.h"
#include "../core/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { G = 32, LANES = 16 };                        /* columns of a block; rows of w at a time */

typedef struct job {
    const float *w;                                 /* (N, K) */
    const float *feedback;                          /* (K, K): [k K + j] = U_jk for j < k */
    const float *weight;                            /* (K): the diagonal of H */
    int64_t N, K;
    uint8_t *out;                                   /* rows of q4_0 */
    atomic_bool beyond, failed;                     /* beyond: a scale that f16 cannot hold */
} job;

/* ---- q4_0 with feedback: w = scale code, -8 <= code <= 7 */
static int code_of(float w, float scale) { return scale == 0 ? 0 : (int)fminf(fmaxf(rintf(w / scale), -8), 7); }

static uint8_t *block_at(const job *j, int64_t n, int64_t k) { return j->out + (n * (j->K / G) + k / G) * 18; }

/* The best of the scale by which the largest element has the code -8, and of some smaller ones. */
static uint16_t scale_of(const float *w, const float *weight) {
    float most = 0;
    for (int k = 0; k < G; k++) {
        if (!isfinite(w[k * LANES])) return cr_f32_to_f16(INFINITY);
        if (fabsf(w[k * LANES]) > fabsf(most)) most = w[k * LANES];
    }
    uint16_t best = cr_f32_to_f16(most / -8);
    double least = INFINITY;
    for (int shrink = 0; shrink < 8; shrink++) {
        const uint16_t half = cr_f32_to_f16(most / -8 * (1 - 0.05f * (float)shrink));
        const float scale = cr_f16_to_f32(half);
        double error = 0;
        for (int k = 0; k < G; k++) {
            const double e = (double)w[k * LANES] - (double)scale * code_of(w[k * LANES], scale);
            error += e * e * (double)weight[k];
        }
        if (error < least) least = error, best = half;
    }
    return best;
}

/* LANES rows side by side, e (K, LANES):  sum[r] += feedback[j] e[j][r] */
static void add_errors(float *sum, const float *feedback, const float *e, int64_t first, int64_t end) {
    float s[LANES];
    memcpy(s, sum, sizeof s);
    for (int64_t j = first; j < end; j++)
        for (int r = 0; r < LANES; r++) s[r] += feedback[j] * e[j * LANES + r];
    memcpy(sum, s, sizeof s);
}

static void balanced_block(job *j, int64_t n, int rows, int64_t g, float *e, float *w) {
    float scale[LANES];
    for (int64_t k = 0; k < G; k++) {
        for (int r = 0; r < LANES; r++) w[k * LANES + r] = r < rows ? j->w[(n + r) * j->K + g + k] : 0;
        add_errors(w + k * LANES, j->feedback + (g + k) * j->K, e, 0, g);
    }
    for (int r = 0; r < rows; r++) {
        const uint16_t half = scale_of(w + r, j->weight + g);
        uint8_t *b = block_at(j, n + r, g);
        b[0] = (uint8_t)half;
        b[1] = (uint8_t)(half >> 8);
        scale[r] = cr_f16_to_f32(half);
        if (!isfinite(scale[r])) atomic_store(&j->beyond, true);
    }
    for (int k = 0; k < G; k++) {
        float *wanted = w + k * LANES, *error = e + (g + k) * LANES;
        add_errors(wanted, j->feedback + (g + k) * j->K, e, g, g + k);
        for (int r = 0; r < rows; r++) {
            const int code = code_of(wanted[r], scale[r]);
            uint8_t *at = block_at(j, n + r, g) + 2 + k % 16;
            *at = (uint8_t)(k < 16 ? code + 8 : *at | (code + 8) << 4);
            error[r] = j->w[(n + r) * j->K + g + k] - scale[r] * (float)code;
        }
    }
}

static void balanced_chunk(void *ctx, int64_t chunk, int worker) {
    (void)worker;
    job *j = ctx;
    float *e = calloc((size_t)(j->K * LANES), sizeof *e), w[G * LANES];
    if (!e) { atomic_store(&j->failed, true); return; }
    const int64_t n = chunk * LANES;
    for (int64_t g = 0; g < j->K && !cr_pool_stopped(); g += G)
        balanced_block(j, n, (int)cr_imin(LANES, j->N - n), g, e, w);
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

/* out = the rows of w; moments: (K, K), of which put_feedback makes the feedback */
static cr_status balance(job *j, const cr_tensor *moments) {
    float *feedback = malloc((size_t)(j->K * j->K) * sizeof *feedback), *weight = malloc((size_t)j->K * sizeof *weight);
    j->feedback = feedback, j->weight = weight;
    cr_status status = feedback && weight ? put_feedback(moments, j->K, feedback, weight)
                                          : cr_fail(CR_NO_MEMORY, "quantize", "no memory for moments of %lld",
                                                    (long long)j->K);
    if (status == CR_OK) cr_run_chunks(cr_pieces(j->N, LANES), balanced_chunk, j);
    free(feedback);
    free(weight);
    if (status == CR_OK && atomic_load(&j->failed))
        status = cr_fail(CR_NO_MEMORY, "quantize", "no memory for %lld columns", (long long)j->K);
    return status;
}

/* ---- the call */
static bool is_written(int format) {
    return format == CR_FORMAT_Q8_0 || format == CR_FORMAT_Q4_0 || format == CR_FORMAT_Q5_0 ||
           format == CR_FORMAT_Q5_1 || format == CR_FORMAT_Q4_K || format == CR_FORMAT_Q5_K || format == CR_FORMAT_Q6_K;
}

static cr_status check_weights(const cr_tensor *w, const char *format, const cr_tensor *moments) {
    static const char op[] = "quantize";
    const int f = format ? cr_format_named(format) : -1;
    if (!cr_given(op, "w", w)) return cr_error_status();
    const cr_status status = cr_want_float(op, w);
    if (status != CR_OK) return status;
    if (w->ndim != 2)
        return cr_fail(CR_BAD_VALUE, op, "the weight must be (outputs, inputs): %s",
                       cr_shape_text(w->ndim, w->shape).s);
    if (f < 0 || !is_written(f))
        return cr_fail(CR_BAD_VALUE, op, "the format must be q8_0, q4_0, q5_0, q5_1, q4_k, q5_k or q6_k, not '%.20s'",
                       format ? format : "NULL");
    const int64_t K = w->shape[1];
    if (!K || K % cr_formats[f].block)
        return cr_fail(CR_BAD_VALUE, op, "blocks of %d do not divide the %lld inputs of %s", cr_formats[f].block,
                       (long long)K, cr_shape_text(2, w->shape).s);
    if (!moments || moments == CR_NONE || (moments->ndim == 1 && moments->shape[0] == K)) return CR_OK;
    if (moments->ndim != 2 || moments->shape[0] != K || moments->shape[1] != K)
        return cr_fail(CR_BAD_VALUE, op, "the moments must be (%lld, %lld), or their diagonal: %s", (long long)K,
                       (long long)K, cr_shape_text(moments->ndim, moments->shape).s);
    return CR_OK;
}

static cr_tensor *diagonal(const cr_tensor *moments) {
    const cr_tensor *m = moments->ndim == 2 ? cr_diagonal(moments, 0, 0, 1) : moments;
    return cr_contiguous(cr_to(cr_detach(m), CR_F32, cr_cpu()));
}

static cr_tensor *quantize(const cr_tensor *w, cr_block_format format, const cr_tensor *moments) {
    const int64_t N = w->shape[0], K = w->shape[1];
    const bool given = moments && moments != CR_NONE;
    const bool balances = given && moments->ndim == 2 && format == CR_FORMAT_Q4_0;
    cr_tensor *from = cr_contiguous(cr_to(cr_detach(w), CR_F32, cr_cpu()));
    cr_tensor *out = cr_empty(CR_LIST(N, K / cr_formats[format].block * cr_formats[format].bytes), CR_U8, cr_cpu());
    cr_tensor *columns = given && !balances ? diagonal(moments) : NULL;
    if (!from || !out || !cr_data(from) || (given && !balances && !(columns && cr_data(columns)))) return NULL;
    job j = {.w = cr_data(from), .N = N, .K = K, .out = cr_array_data(&out->array)};
    if (N && balances && balance(&j, moments) != CR_OK) return NULL;
    if (N && !balances && !cr_format_pack(format, j.w, N, K, columns ? cr_data(columns) : NULL, j.out))
        atomic_store(&j.beyond, true);
    if (atomic_load(&j.beyond))
        return cr_fail(CR_BAD_VALUE, "quantize", "weights of %s are not finite, or too large for float16",
                       cr_shape_text(2, w->shape).s), NULL;
    return cr_to(out, CR_U8, w->dev);
}

cr_tensor *cr_quantize(const cr_tensor *w, const char *format, const cr_tensor *moments) {
    const cr_watch *watch = cr_watching();
    if (check_weights(w, format, moments) != CR_OK) return NULL;
    if (watch && watch->download("quantize", w->storage) != CR_OK) return NULL;    /* the host reads the weights */
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    cr_tensor *y = quantize(w, (cr_block_format)cr_format_named(format), moments);
    if (y) cr_keep(y);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return y;
}
