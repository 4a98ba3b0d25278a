/* cublaslt.c - the simulated cuBLASLt: D = epilogue(alpha op(A) op(B) + beta C + bias), in the order
 * of its stream, by three loops.
 *
 * Sums are in the requested type (f32, f64; TF32: f32 of operands with 10 bits of the fraction), in
 * order along K.  It refuses what the real library refuses, and reports what the real library does not
 * check (unallocated memory, an address less aligned than the heuristic assumed). */
#include "control.h"
#include "numbers.h"
#include "nvidia.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define TRY(call) do { const cublasStatus_t status_ = (call); if (status_) return status_; } while (0)

struct cublasLtContext { int nothing; };
struct cublasLtProduct {
    int32_t compute, scale, pointer_mode, turn_a, turn_b, aux_type, bias_type;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t bias_stride, aux_ld, aux_stride;        /* elements; strides are of a batch */
};
struct cublasLtLayout { uint64_t rows, columns; int64_t ld, stride; int32_t type, order, count; };
/* alignments of A, B, C, D; bytes */
struct cublasLtPreference { uint64_t workspace; uint32_t reductions, alignments[4]; };

/* ---- descriptions: an attribute is a member and its size */
typedef struct attribute { int id; size_t offset, size; } attribute;
#define MEMBER(id, type, name) {id, offsetof(type, name), sizeof((type *)0)->name}

static cublasStatus_t assign(void *to, const attribute *table, size_t count, int id, const void *from, size_t size) {
    if (!to || !from) return CUBLAS_STATUS_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (table[i].id == id) {
            if (table[i].size != size) return CUBLAS_STATUS_INVALID_VALUE;
            memcpy((char *)to + table[i].offset, from, size);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}
#define ASSIGN(table) assign(to, table, sizeof table / sizeof *table, (int)id, from, size)

static bool known_type(int type) {
    return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

API cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
    if (!out) return CUBLAS_STATUS_INVALID_VALUE;
    return (*out = calloc(1, sizeof **out)) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
API cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { free(handle); return CUBLAS_STATUS_SUCCESS; }
API size_t cublasLtGetVersion(void) { return 130000; }

API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                            cudaDataType scale) {
    if (!out || !(*out = calloc(1, sizeof **out))) return CUBLAS_STATUS_ALLOC_FAILED;
    (*out)->compute = (int32_t)compute;
    (*out)->scale = (int32_t)scale;
    (*out)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    (*out)->aux_type = (*out)->bias_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t p) { free(p); return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t id,
                                                  const void *from, size_t size) {
    typedef struct cublasLtProduct T;
    static const attribute table[] = {
        MEMBER(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, T, compute),
        MEMBER(CUBLASLT_MATMUL_DESC_SCALE_TYPE, T, scale),
        MEMBER(CUBLASLT_MATMUL_DESC_POINTER_MODE, T, pointer_mode),
        MEMBER(CUBLASLT_MATMUL_DESC_TRANSA, T, turn_a),
        MEMBER(CUBLASLT_MATMUL_DESC_TRANSB, T, turn_b),
        MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE, T, epilogue),
        MEMBER(CUBLASLT_MATMUL_DESC_BIAS_POINTER, T, bias),
        MEMBER(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, T, bias_stride),
        MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, T, aux),
        MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, T, aux_ld),
        MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, T, aux_stride),
        MEMBER(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, T, aux_type),
        MEMBER(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, T, bias_type),
    };
    return ASSIGN(table);
}

API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                              uint64_t columns, int64_t ld) {
    if (!out || !known_type((int)type)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!(*out = calloc(1, sizeof **out))) return CUBLAS_STATUS_ALLOC_FAILED;
    **out = (struct cublasLtLayout){.rows = rows, .columns = columns, .ld = ld, .type = (int32_t)type, .count = 1};
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t p) { free(p); return CUBLAS_STATUS_SUCCESS; }
API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t id,
                                                    const void *from, size_t size) {
    typedef struct cublasLtLayout T;
    static const attribute table[] = {
        MEMBER(CUBLASLT_MATRIX_LAYOUT_TYPE, T, type),
        MEMBER(CUBLASLT_MATRIX_LAYOUT_ORDER, T, order),
        MEMBER(CUBLASLT_MATRIX_LAYOUT_ROWS, T, rows),
        MEMBER(CUBLASLT_MATRIX_LAYOUT_COLS, T, columns),
        MEMBER(CUBLASLT_MATRIX_LAYOUT_LD, T, ld),
        MEMBER(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, T, count),
        MEMBER(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, T, stride),
    };
    return ASSIGN(table);
}

API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
    if (!out || !(*out = calloc(1, sizeof **out))) return CUBLAS_STATUS_ALLOC_FAILED;
    for (int i = 0; i < 4; i++) (*out)->alignments[i] = 256;
    (*out)->reductions = 7;                         /* all */
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}
API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t to,
                                                        cublasLtMatmulPreferenceAttributes_t id, const void *from,
                                                        size_t size) {
    typedef struct cublasLtPreference T;
    static const attribute table[] = {
        MEMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, T, workspace),
        MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, T, alignments[0]),
        MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, T, alignments[1]),
        MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, T, alignments[2]),
        MEMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, T, alignments[3]),
        MEMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, T, reductions),
    };
    return ASSIGN(table);
}

/* ---- supported products */
static size_t size_of(int type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }
static uint64_t rows_of(const struct cublasLtLayout *l, int turned) { return turned ? l->columns : l->rows; }
static uint64_t columns_of(const struct cublasLtLayout *l, int turned) { return turned ? l->rows : l->columns; }

static bool sound(const struct cublasLtLayout *l) {
    const uint64_t least = l->order == CUBLASLT_ORDER_ROW ? l->columns : l->rows;
    return known_type(l->type) && (l->order == CUBLASLT_ORDER_COL || l->order == CUBLASLT_ORDER_ROW) && l->rows &&
           l->columns && l->ld > 0 && (uint64_t)l->ld >= least && l->count > 0;
}

static bool has(uint32_t epilogue, uint32_t part) { return (epilogue & part) == part && epilogue < 256; }
enum { GELU = 32, AUX = 128, DGELU = 64 | 128, BIAS = 4, BGRAD = 16 };

static cublasStatus_t check(const struct cublasLtProduct *p, const struct cublasLtLayout *a,
                            const struct cublasLtLayout *b, const struct cublasLtLayout *c,
                            const struct cublasLtLayout *d) {
    static const uint32_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
                                         CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
                                         CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                         CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD,
                                         CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB};
    if (!p || !a || !b || !c || !d || !sound(a) || !sound(b) || !sound(c) || !sound(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((p->turn_a | p->turn_b) & ~1) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (columns_of(a, p->turn_a) != rows_of(b, p->turn_b) || rows_of(a, p->turn_a) != d->rows ||
        columns_of(b, p->turn_b) != d->columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (c->rows != d->rows || c->columns != d->columns || c->order != d->order) return CUBLAS_STATUS_INVALID_VALUE;
    if (a->count != d->count || b->count != d->count || c->count != d->count) return CUBLAS_STATUS_INVALID_VALUE;
    const bool f64 = d->type == CUDA_R_64F, f32 = a->type == CUDA_R_32F;
    if (a->type != b->type || c->type != d->type ||
        (a->type != d->type && (f64 || d->type != CUDA_R_32F || a->type == CUDA_R_64F)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (f64 ? p->compute != CUBLAS_COMPUTE_64F || p->scale != CUDA_R_64F
            : p->scale != CUDA_R_32F ||
                  (p->compute != CUBLAS_COMPUTE_32F && p->compute != CUBLAS_COMPUTE_32F_PEDANTIC &&
                   (p->compute != CUBLAS_COMPUTE_32F_FAST_TF32 || !f32)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p->pointer_mode) return CUBLAS_STATUS_NOT_SUPPORTED;
    bool known = false;
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++) known |= p->epilogue == epilogues[i];
    if (!known || (f64 && p->epilogue != CUBLASLT_EPILOGUE_DEFAULT)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (has(p->epilogue, AUX) &&
        (p->aux_ld % 8 || (uint64_t)p->aux_ld < d->rows || (p->aux_type >= 0 && p->aux_type != d->type)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((p->epilogue == CUBLASLT_EPILOGUE_BGRADA && p->turn_a) ||
        (p->epilogue == CUBLASLT_EPILOGUE_BGRADB && !p->turn_b))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p->bias_type >= 0 && p->bias_type != d->type && p->bias_type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

static const uint64_t magic = 0x636c7564617369;     /* in data[0] of an algorithm; data[1]: alignments; data[2]:
                                                     * workspace; data[3]: alignments that it saw of the vector and
                                                     * of aux; data[4]: partial sums are rounded */
static uint64_t alignment_of(const void *at) {      /* at most 256; NULL: 1, no constraint */
    const uintptr_t low = (uintptr_t)at & (~(uintptr_t)at + 1);
    return !at ? 1 : low < 256 ? low : 256;
}

API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t p,
                                                  cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                  cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                  cublasLtMatmulPreference_t preference, int wanted,
                                                  cublasLtMatmulHeuristicResult_t *out, int *count) {
    if (!handle || !preference || !out || !count || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    TRY(check(p, a, b, c, d));
    if (cudasim_fails("room")) return CUBLAS_STATUS_ALLOC_FAILED;
    if (cudasim_refuses((int)p->epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->algo.data[0] = magic;
    for (int i = 0; i < 4; i++) {
        const uint32_t n = preference->alignments[i];
        if (!n || n & (n - 1)) return CUBLAS_STATUS_INVALID_VALUE;
        out->algo.data[1] |= (uint64_t)(n > 256 ? 256 : n) << 16 * i;
    }
    /* more for long sums */
    out->algo.data[2] = out->workspaceSize = preference->workspace < 4096 || d->columns == 1
                                                 ? 0
                                                 : 4096 * (1 + columns_of(a, p->turn_a) / 4096 % 16);
    /* as NVIDIA's header specifies for both */
    out->algo.data[3] = alignment_of(p->bias) | alignment_of(p->aux) << 16;
    out->algo.data[4] = (preference->reductions & 5) != 0;         /* in place, or in the type of the result */
    out->wavesCount = 1;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- GELU: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as in cuBLASLt, and its derivative; its tanh is
 * approximate for f32 too */
static double short_tanh(double x) { return rounded(CUDA_R_16F, tanh(x)); }
static double gelu(double x) { return 0.5 * x * (1 + short_tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))); }
static double gelu_slope(double x) {
    const double t = short_tanh(0.79788456080286536 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286536 * (1 + 3 * 0.044715 * x * x);
}

/* ---- a product */
typedef struct work {
    struct cublasLtProduct p;
    struct cublasLtLayout a, b, c, d;
    const void *A, *B, *C;
    void *D, *workspace;
    size_t workspace_bytes;
    double alpha, beta;
    bool coarse;                                    /* partial sums are rounded to the type of D: here once */
} work;

static uint64_t place(const struct cublasLtLayout *l, int batch, uint64_t row, uint64_t column) {
    const uint64_t ld = (uint64_t)l->ld;
    return (uint64_t)(l->stride * batch) + (l->order == CUBLASLT_ORDER_ROW ? row * ld + column : column * ld + row);
}

static double factor(const work *w, const void *from, int type, uint64_t i) {
    const double v = load(from, type, i);
    return w->p.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? tf32(v) : v;
}

/* One row of sums, each in its own order along K: f32 (or f64) additions of products in that type. */
#define SUMS(T)                                                                                    \
    do {                                                                                           \
        T *sums = calloc(N, sizeof *sums), *factors = malloc(sizeof *factors * K * N);             \
        for (uint64_t k = 0; k < K; k++)                                                           \
            for (uint64_t j = 0; j < N; j++) factors[k * N + j] = (T)factor(w, w->B, w->b.type, w->p.turn_b ? \
                place(&w->b, batch, j, k) : place(&w->b, batch, k, j)); \
        for (uint64_t i = 0; i < M; i++) {                                                         \
            for (uint64_t j = 0; j < N; j++) sums[j] = 0;                                          \
            for (uint64_t k = 0; k < K; k++) {                                                     \
                const T x = (T)factor(w, w->A, w->a.type, w->p.turn_a ? place(&w->a, batch, k, i) : place(&w->a, \
                    batch, i, k)); \
                for (uint64_t j = 0; j < N; j++) sums[j] += x * factors[k * N + j];                \
                for (uint64_t j = 0; w->coarse && k == K / 2 && j < N; j++) sums[j] = (T)rounded(w->d.type, \
                    (double)sums[j]); \
            }                                                                                      \
            for (uint64_t j = 0; j < N; j++) finish(w, batch, i, j, (double)sums[j], gradient);    \
        }                                                                                          \
        free(sums);                                                                                \
        free(factors);                                                                             \
    } while (0)

static int bias_type(const work *w) { return w->p.bias_type >= 0 ? w->p.bias_type : w->d.type; }

static void finish(const work *w, int batch, uint64_t i, uint64_t j, double sum, double *gradient) {
    const struct cublasLtProduct *p = &w->p;
    double v = w->alpha * sum;
    if (w->beta != 0) v += w->beta * load(w->C, w->c.type, place(&w->c, batch, i, j));
    if (has(p->epilogue, BIAS)) v += load(p->bias, bias_type(w), (uint64_t)(p->bias_stride * batch) + i);
    const uint64_t aux = (uint64_t)(p->aux_stride * batch) + j * (uint64_t)p->aux_ld + i;
    if (has(p->epilogue, DGELU)) v *= gelu_slope(load(p->aux, w->d.type, aux));
    else {
        if (has(p->epilogue, AUX)) store(p->aux, w->d.type, aux, v);
        if (has(p->epilogue, GELU)) v = gelu(v);
    }
    if (gradient) gradient[i] += v;
    store(w->D, w->d.type, place(&w->d, batch, i, j), v);
}

static void multiply(void *payload) {
    const work *w = payload;
    const struct cublasLtProduct *p = &w->p;
    const uint64_t M = w->d.rows, N = w->d.columns, K = columns_of(&w->a, p->turn_a);
    if (w->workspace_bytes) memset(w->workspace, 0xff, w->workspace_bytes);
    for (int batch = 0; batch < w->d.count; batch++) {
        double *gradient = has(p->epilogue, BGRAD) ? calloc(M, sizeof *gradient) : NULL;
        const uint64_t first = (uint64_t)(p->bias_stride * batch);
        if (p->epilogue == CUBLASLT_EPILOGUE_BGRADA)
            for (uint64_t i = 0; i < M; i++) {
                double sum = 0;
                for (uint64_t k = 0; k < K; k++)
                    sum += load(w->A, w->a.type, p->turn_a ? place(&w->a, batch, k, i) : place(&w->a, batch, i, k));
                store(p->bias, bias_type(w), first + i, sum);
            }
        if (p->epilogue == CUBLASLT_EPILOGUE_BGRADB)
            for (uint64_t j = 0; j < N; j++) {
                double sum = 0;
                for (uint64_t k = 0; k < K; k++)
                    sum += load(w->B, w->b.type, p->turn_b ? place(&w->b, batch, j, k) : place(&w->b, batch, k, j));
                store(p->bias, bias_type(w), first + j, sum);
            }
        if (w->d.type == CUDA_R_64F) SUMS(double);
        else SUMS(float);
        for (uint64_t i = 0; gradient && i < M; i++) store(p->bias, bias_type(w), first + i, gradient[i]);
        free(gradient);
    }
}

/* Bytes of a matrix, or of all in a batch. */
static long long elements(const struct cublasLtLayout *l) {
    return (long long)(l->rows * l->columns * size_of(l->type)) * (l->stride ? l->count : 1);
}

/* All elements that a layout reaches lie in memory of the stream's device. */
static bool there(void *stream, const void *at, const struct cublasLtLayout *l) {
    const uint64_t last = place(l, l->stride < 0 ? 0 : l->count - 1, l->rows - 1, l->columns - 1);
    return at && cudasim_allocated(stream, at, (last + 1) * size_of(l->type));
}

/* cuBLAS's documentation, "Tensor Core Usage": every dense axis and leading dimension is a multiple of 16 bytes. */
static bool is_half(const struct cublasLtLayout *l) { return l->type == CUDA_R_16F || l->type == CUDA_R_16BF; }
static bool is_uneven(const struct cublasLtLayout *l) { return is_half(l) && l->columns > 1 && l->ld % 8; }
static bool is_odd(const struct cublasLtLayout *l) { return is_uneven(l) || (is_half(l) && l->rows % 8); }

API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t p, const void *alpha, const void *A,
                                  cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                                  const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                                  const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                  void *stream) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
    TRY(check(p, a, b, c, d));
    const bool wide = p->scale == CUDA_R_64F,
               biased = has(p->epilogue, BIAS) || has(p->epilogue, BGRAD) || p->epilogue >= 256;
    work w = {*p,
              *a,
              *b,
              *c,
              *d,
              A,
              B,
              C,
              D,
              workspace,
              algo ? (size_t)algo->data[2] : 0,
              wide ? *(const double *)alpha : (double)*(const float *)alpha,
              wide ? *(const double *)beta : (double)*(const float *)beta,
              algo && algo->data[4]};
    if ((biased && !p->bias) || (has(p->epilogue, AUX) && !p->aux)) return CUBLAS_STATUS_INVALID_VALUE;
    if (algo && (algo->data[0] != magic || workspace_bytes < w.workspace_bytes || (uintptr_t)workspace % 16))
        return CUBLAS_STATUS_INVALID_VALUE;
    const void *const addresses[] = {A, B, w.beta != 0 ? C : NULL, D};
    for (int i = 0; i < 4; i++)
        if (algo && (uintptr_t)addresses[i] & ((algo->data[1] >> 16 * i & 0xffff) - 1))
            return CUBLAS_STATUS_INVALID_VALUE;
    if (algo && (alignment_of(p->bias) < (algo->data[3] & 0xffff) || alignment_of(p->aux) < algo->data[3] >> 16))
        return CUBLAS_STATUS_INVALID_VALUE;
    const struct cublasLtLayout vector = {(uint64_t)(p->epilogue == CUBLASLT_EPILOGUE_BGRADB ? d->columns : d->rows),
                                          1,
                                          INT32_MAX,
                                          p->bias_stride,
                                          bias_type(&w),
                                          0,
                                          d->count};
    const struct cublasLtLayout aux = {d->rows, d->columns, p->aux_ld, p->aux_stride, d->type, 0, d->count};
    if (!there(stream, A, a) || !there(stream, B, b) || !there(stream, D, d) || (w.beta != 0 && !there(stream, C, c)) ||
        (biased && !there(stream, p->bias, &vector)) || (has(p->epilogue, AUX) && !there(stream, p->aux, &aux)) ||
        (w.workspace_bytes && !cudasim_allocated(stream, workspace, w.workspace_bytes)))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    const bool of_gradient = has(p->epilogue, BGRAD) || p->epilogue >= 256;         /* the vector is its result */
    cudasim_bytes traffic = {.read = elements(a) + elements(b) + (w.beta != 0 ? elements(c) : 0),
                             .written = elements(d)};
    if (biased) *(of_gradient ? &traffic.written : &traffic.read) += elements(&vector);
    if (has(p->epilogue, AUX)) *(has(p->epilogue, DGELU) ? &traffic.read : &traffic.written) += elements(&aux);
    if (cudasim_fails("room")) return CUBLAS_STATUS_ALLOC_FAILED;
    const uint64_t depth = p->turn_a ? a->rows : a->columns;
    cudasim_worked((long long)(d->rows * d->columns * depth * (uint64_t)d->count), is_odd(a) || is_odd(b) || is_odd(d),
                   is_uneven(a) || is_uneven(b) || is_uneven(d));
    const int error = cudasim_call(stream, "cublasLtMatmul", multiply, &w, sizeof w, traffic);
    return error == CUDA_ERROR_NOT_SUPPORTED ? CUBLAS_STATUS_NOT_SUPPORTED
           : error                           ? CUBLAS_STATUS_EXECUTION_FAILED
                                             : CUBLAS_STATUS_SUCCESS;
}
