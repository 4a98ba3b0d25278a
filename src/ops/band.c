/* band.c - a banded matrix times x along an axis: y[s] = sum over k of weights[s, k] x[start[s] + k].
 * Resampling and average pooling (resample.c) are such products.  Fast twin: dev/cpu/band.c. */
#include "transform.h"
#include "windows.h"

#include <stdlib.h>

/* in: x; start (S) and weights (S, K) of the band; those of its transpose, (R) and (R, K'), for the gradient */
typedef struct band_params { int axis; } band_params;

static cr_status band_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    out->shape[((const band_params *)c->params)->axis] = c->in[1]->numel;
    return cr_shape_check("band", out->ndim, out->shape, out->dtype, NULL);
}

static cr_status band_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const int axis = ((const band_params *)c->params)->axis;
    const cr_tensor *x = c->in[0];
    if (!out->numel) return CR_OK;
    if (!x->numel || !c->in[2]->numel) return cr_fill_elements(out, 0);
    cr_scope own;
    cr_scope_enter(&own);
    cr_band_args args = {.y = cr_around(&out->array, axis, 1), .start = c->in[1]->array, .weights = c->in[2]->array};
    cr_status status = cr_see_as(x, 3, cr_around(&x->array, axis, 1).shape, &args.x);
    if (status == CR_OK) status = c->dev->kernels->band(&args);
    cr_scope_leave(&own);
    return status;
}

/* y = B x:  dx = B^T g */
static void band_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *in[] = {cast_to(g, c->in[0]->dtype), c->in[3], c->in[4], c->in[1], c->in[2]};
    dx[0] = cr_apply(&cr_op_band, 5, in, c->params);
}

/* The band is made of the options of a call: it is the same for all samples, and has no tangent. */
static cr_tensor *band_batch(const cr_batched *b) {
    return cr_apply(&cr_op_band, 5, b->in, &(band_params){((const band_params *)b->call->params)->axis + 1});
}

static cr_tensor *band_tangent(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *in[] = {t[0], c->in[1], c->in[2], c->in[3], c->in[4]};
    return cr_apply(&cr_op_band, 5, in, c->params);
}

const cr_op cr_op_band = {
    .name = "band",
    .arity = 5,
    .params_bytes = sizeof(band_params),
    .saves = CR_SAVE_IN(1) | CR_SAVE_IN(2) | CR_SAVE_IN(3) | CR_SAVE_IN(4),
    .infer = band_infer,
    .forward = band_forward,
    .grad = band_grad,
    .batch = band_batch,
    .tangent = band_tangent,
};

bool cr_band_new(const char *op, int64_t S, int64_t R, int64_t K, cr_band *b) {
    int64_t count;
    *b = (cr_band){S, R, K, NULL, NULL};
    if (__builtin_mul_overflow(S, K, &count) || count > INT64_MAX / 16)
        return cr_fail(CR_BAD_VALUE, op, "%lld windows of %lld elements are too many", (long long)S, (long long)K),
               false;
    b->start = calloc((size_t)S + 1, sizeof *b->start);
    b->weights = calloc((size_t)count + 1, sizeof *b->weights);
    if (b->start && b->weights) return true;
    cr_band_free(b);
    return cr_fail(CR_NO_MEMORY, op, "out of memory for %lld windows of %lld elements", (long long)S, (long long)K),
           false;
}

void cr_band_free(cr_band *b) {
    free(b->start);
    free(b->weights);
    b->start = NULL;
    b->weights = NULL;
}

/* Row r of the transpose: columns first[r] .. end[r] - 1, the rows of b that have a weight at r. */
static void transposed_rows(const cr_band *b, int64_t *first, int64_t *end) {
    for (int64_t s = 0; s < b->S; s++)
        for (int64_t k = 0; k < b->K; k++) {
            const int64_t r = b->start[s] + k;
            if (b->weights[s * b->K + k] == 0) continue;
            if (!end[r]) first[r] = s;
            end[r] = s + 1;
        }
}

static bool transposed_band(const cr_band *b, cr_band *t) {
    int64_t *first = calloc((size_t)b->R * 2, sizeof *first), *end = first + b->R, most = 0, start = 0;
    if (!first) return cr_fail(CR_NO_MEMORY, "band", "out of memory for %lld rows", (long long)b->R), false;
    transposed_rows(b, first, end);
    for (int64_t r = 0; r < b->R; r++) most = cr_imax(most, end[r] - first[r]);
    const bool ok = cr_band_new("band", b->R, b->S, most, t);
    for (int64_t r = 0; ok && r < b->R; r++) {
        if (end[r]) start = first[r];
        t->start[r] = cr_imin(start, b->S - most);
        for (int64_t s = end[r] ? first[r] : 0; s < end[r]; s++) {
            const int64_t k = r - b->start[s];
            if (k >= 0 && k < b->K) t->weights[r * most + s - t->start[r]] = b->weights[s * b->K + k];
        }
    }
    free(first);
    return ok;
}

/* start and weights as tensors on x's device */
static bool band_tensors(const cr_tensor *x, const cr_band *b, const cr_tensor *in[2]) {
    const int64_t count = b->S * b->K;
    float *narrow = NULL;
    const void *weights = b->weights;
    if (wide_dtype(x) == CR_F32) {
        weights = narrow = malloc(sizeof *narrow * (size_t)(count + 1));
        if (!narrow) return cr_fail(CR_NO_MEMORY, "band", "out of memory for %lld weights", (long long)count), false;
        for (int64_t i = 0; i < count; i++) narrow[i] = (float)b->weights[i];
    }
    in[0] = cr_from(b->start, CR_LIST(b->S), CR_I64, x->dev);
    in[1] = cr_from(weights, CR_LIST(b->S, b->K), wide_dtype(x), x->dev);
    free(narrow);
    return in[0] && in[1];
}

cr_tensor *cr_apply_band(const cr_tensor *x, int axis, const cr_band *b) {
    cr_band t = {0};
    const cr_tensor *in[5] = {x};
    cr_tensor *y = NULL;
    if (!x || !transposed_band(b, &t)) return NULL;
    cr_scope_begin();
    if (band_tensors(x, b, in + 1) && band_tensors(x, &t, in + 3))
        y = cr_apply(&cr_op_band, 5, in, &(band_params){axis});
    cr_band_free(&t);
    return cr_leave(y);
}
