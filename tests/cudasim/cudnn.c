/* cudnn.c - the simulated cuDNN 9: convolutions from descriptors, in the order of their stream, by plain loops.
 *
 * Sums are in f32, or f64 for f64.  It refuses what the real library refuses, and an address that is no multiple of 16
 * bytes.  Its heuristics return algorithms that the library must not use, in front of the one that it should: one that
 * is not supported, one that is not deterministic, whose results are wrong, one with a workspace of a TiB, and for f32
 * with FMA math one with TF32, and one that converts to f16.  cudasim_pace (control.h) sets how long a convolution
 * seems to take.  CUDASIM_FAIL: product (the heuristics fail, or a convolution). */
#include "control.h"
#include "numbers.h"
#include <stdbool.h>
#include <stdlib.h>

#define API __attribute__((visibility("default")))
#define TRY(call) do { const cudnnStatus_t status_ = (call); if (status_) return status_; } while (0)

typedef enum cudnnStatus_t {
    CUDNN_STATUS_SUCCESS = 0,
    CUDNN_STATUS_BAD_PARAM = 2000,
    CUDNN_STATUS_NOT_SUPPORTED = 3000,
    CUDNN_STATUS_INTERNAL_ERROR = 4000,
    CUDNN_STATUS_EXECUTION_FAILED = 5000,
} cudnnStatus_t;
typedef enum cudnnDataType_t {
    CUDNN_DATA_FLOAT = 0,
    CUDNN_DATA_DOUBLE = 1,
    CUDNN_DATA_HALF = 2,
    CUDNN_DATA_BFLOAT16 = 9,
} cudnnDataType_t;
typedef enum cudnnTensorFormat_t { CUDNN_TENSOR_NCHW = 0, CUDNN_TENSOR_NHWC = 1 } cudnnTensorFormat_t;
typedef enum cudnnConvolutionMode_t { CUDNN_CONVOLUTION = 0, CUDNN_CROSS_CORRELATION = 1 } cudnnConvolutionMode_t;
typedef enum cudnnMathType_t {
    CUDNN_DEFAULT_MATH = 0,
    CUDNN_TENSOR_OP_MATH = 1,
    CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
    CUDNN_FMA_MATH = 3,
} cudnnMathType_t;
typedef enum cudnnDeterminism_t { CUDNN_NON_DETERMINISTIC = 0, CUDNN_DETERMINISTIC = 1 } cudnnDeterminism_t;
typedef struct cudnnConvolutionPerf_t {             /* one struct for the algorithms of each kind in NVIDIA's header */
    int algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t mathType;
    int reserved[3];
} cudnnConvolutionPerf_t;

enum { AXES = 5, SPATIAL = 3 };
typedef struct tensor { cudnnDataType_t type; int axes, shape[AXES], strides[AXES]; } *cudnnTensorDescriptor_t;
typedef struct tensor *cudnnFilterDescriptor_t;
typedef struct convolution {
    int axes, pad[SPATIAL], stride[SPATIAL], dilation[SPATIAL], groups;
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute;
    cudnnMathType_t math;
} *cudnnConvolutionDescriptor_t;
typedef struct context { void *stream; } *cudnnHandle_t;

/* ---- the context */
API size_t cudnnGetVersion(void) { return 91002; }
API cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
    if (!out) return CUDNN_STATUS_BAD_PARAM;
    return (*out = calloc(1, sizeof **out)) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
API cudnnStatus_t cudnnSetStream(cudnnHandle_t context, void *stream) {
    if (!context) return CUDNN_STATUS_BAD_PARAM;
    context->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors */
static bool is_known(cudnnDataType_t type) {
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF ||
           type == CUDNN_DATA_BFLOAT16;
}

API cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out) {
    if (!out) return CUDNN_STATUS_BAD_PARAM;
    return (*out = calloc(1, sizeof **out)) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR;
}
API cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { free(t); return CUDNN_STATUS_SUCCESS; }
API cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int axes,
                                             const int *shape, const int *strides) {
    if (!t || !shape || !strides || !is_known(type) || axes < 4 || axes > AXES) return CUDNN_STATUS_BAD_PARAM;
    t->type = type;
    t->axes = axes;
    for (int d = 0; d < axes; d++) {
        if (shape[d] < 1 || strides[d] < 0) return CUDNN_STATUS_BAD_PARAM;
        t->shape[d] = shape[d];
        t->strides[d] = strides[d];
    }
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out) { return cudnnCreateTensorDescriptor(out); }
API cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t t) { return cudnnDestroyTensorDescriptor(t); }
API cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t t, cudnnDataType_t type,
                                             cudnnTensorFormat_t format, int axes, const int *shape) {
    int strides[AXES];
    if (!shape || axes < 4 || axes > AXES) return CUDNN_STATUS_BAD_PARAM;
    if (format != CUDNN_TENSOR_NCHW) return CUDNN_STATUS_NOT_SUPPORTED;
    for (int d = axes - 1, n = 1; d >= 0; n *= shape[d], d--) strides[d] = n;
    return cudnnSetTensorNdDescriptor(t, type, axes, shape, strides);
}

API cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out) {
    if (!out) return CUDNN_STATUS_BAD_PARAM;
    if (!(*out = calloc(1, sizeof **out))) return CUDNN_STATUS_INTERNAL_ERROR;
    (*out)->groups = 1;
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
    free(c);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int axes, const int *pad,
                                                  const int *stride, const int *dilation, cudnnConvolutionMode_t mode,
                                                  cudnnDataType_t compute) {
    if (!c || !pad || !stride || !dilation || axes < 2 || axes > SPATIAL) return CUDNN_STATUS_BAD_PARAM;
    for (int d = 0; d < axes; d++) {
        if (pad[d] < 0 || stride[d] < 1 || dilation[d] < 1) return CUDNN_STATUS_BAD_PARAM;
        c->pad[d] = pad[d];
        c->stride[d] = stride[d];
        c->dilation[d] = dilation[d];
    }
    c->axes = axes;
    c->mode = mode;
    c->compute = compute;
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
    if (!c || groups < 1) return CUDNN_STATUS_BAD_PARAM;
    c->groups = groups;
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
    if (!c || math > CUDNN_FMA_MATH) return CUDNN_STATUS_BAD_PARAM;
    c->math = math;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- supported convolutions: y = conv(x, w), whichever of them is computed */
static cudnnStatus_t check(cudnnHandle_t context, const struct tensor *x, const struct tensor *w,
                           const struct convolution *c, const struct tensor *y) {
    if (!context || !x || !w || !c || !y || !x->axes || !w->axes || !y->axes || !c->axes)
        return CUDNN_STATUS_BAD_PARAM;
    if (x->axes != c->axes + 2 || w->axes != x->axes || y->axes != x->axes) return CUDNN_STATUS_BAD_PARAM;
    if (x->type != w->type || x->type != y->type) return CUDNN_STATUS_NOT_SUPPORTED;
    if (c->compute != (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (c->mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;      /* here: nothing needs it */
    if (x->shape[0] != y->shape[0] || x->shape[1] != w->shape[1] * c->groups || y->shape[1] != w->shape[0] ||
        w->shape[0] % c->groups)
        return CUDNN_STATUS_BAD_PARAM;
    for (int d = 0; d < c->axes; d++) {
        const int room = x->shape[2 + d] + 2 * c->pad[d] - ((w->shape[2 + d] - 1) * c->dilation[d] + 1);
        if (room < 0 || y->shape[2 + d] != room / c->stride[d] + 1) return CUDNN_STATUS_BAD_PARAM;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- heuristics */
enum { GOOD = 1, UNSUPPORTED, RANDOM, HUGE_ };      /* algorithms */

/* None, little or, for 13 channels, much. */
static size_t workspace_of(const struct tensor *x) {
    return x->shape[1] == 13 ? (size_t)64 << 20 : x->shape[1] > 4 ? 4096 : 0;
}

static cudnnStatus_t find(cudnnHandle_t context, const struct tensor *x, const struct tensor *w,
                          const struct convolution *c, const struct tensor *y, int wanted, int *count,
                          cudnnConvolutionPerf_t *out) {
    TRY(check(context, x, w, c, y));
    if (!count || !out || wanted < 1) return CUDNN_STATUS_BAD_PARAM;
    if (cudasim_fails("product")) return CUDNN_STATUS_INTERNAL_ERROR;
    const size_t bytes = workspace_of(x);
    const bool full = x->type == CUDNN_DATA_FLOAT && c->math == CUDNN_FMA_MATH;
    const cudnnConvolutionPerf_t all[] = {
        {UNSUPPORTED, CUDNN_STATUS_NOT_SUPPORTED, -1, 0, CUDNN_DETERMINISTIC, c->math, {0}},
        {RANDOM, CUDNN_STATUS_SUCCESS, -1, 0, CUDNN_NON_DETERMINISTIC, c->math, {0}},
        {HUGE_, CUDNN_STATUS_SUCCESS, -1, (size_t)1 << 40, CUDNN_DETERMINISTIC, c->math, {0}},
        {GOOD, CUDNN_STATUS_SUCCESS, -1, bytes, CUDNN_DETERMINISTIC, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, {0}},
        {GOOD, CUDNN_STATUS_SUCCESS, -1, bytes, CUDNN_DETERMINISTIC, full ? CUDNN_DEFAULT_MATH : c->math, {0}},
        {GOOD, CUDNN_STATUS_SUCCESS, -1, bytes, CUDNN_DETERMINISTIC, c->math, {0}},
    };
    const int known = (int)(sizeof all / sizeof *all);
    *count = wanted < known ? wanted : known;
    memcpy(out, all, sizeof *out * (size_t)*count);
    return CUDNN_STATUS_SUCCESS;
}
API cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t context, cudnnTensorDescriptor_t x,
                                                         cudnnFilterDescriptor_t w, cudnnConvolutionDescriptor_t c,
                                                         cudnnTensorDescriptor_t y, int wanted, int *count,
                                                         cudnnConvolutionPerf_t *out) {
    return find(context, x, w, c, y, wanted, count, out);
}
API cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t context, cudnnFilterDescriptor_t w,
                                                              cudnnTensorDescriptor_t dy,
                                                              cudnnConvolutionDescriptor_t c,
                                                              cudnnTensorDescriptor_t dx, int wanted, int *count,
                                                              cudnnConvolutionPerf_t *out) {
    return find(context, dx, w, c, dy, wanted, count, out);
}
API cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t context, cudnnTensorDescriptor_t x,
                                                                cudnnTensorDescriptor_t dy,
                                                                cudnnConvolutionDescriptor_t c,
                                                                cudnnFilterDescriptor_t dw, int wanted, int *count,
                                                                cudnnConvolutionPerf_t *out) {
    return find(context, x, dw, c, dy, wanted, count, out);
}

/* ---- convolutions */
typedef enum kind { FORWARD, DATA, FILTER } kind;
typedef struct work {
    kind kind;
    struct tensor x, w, y;
    struct convolution c;
    void *at[3], *workspace;                        /* x, w, y */
    size_t bytes;
    double alpha, beta;
    bool wrong;
} work;

static int element_type(cudnnDataType_t type) {
    return type == CUDNN_DATA_DOUBLE  ? CUDA_R_64F
           : type == CUDNN_DATA_FLOAT ? CUDA_R_32F
           : type == CUDNN_DATA_HALF  ? CUDA_R_16F
                                      : CUDA_R_16BF;
}

static uint64_t count_of(const struct tensor *t) {
    uint64_t n = 1;
    for (int d = 0; d < t->axes; d++) n *= (uint64_t)t->shape[d];
    return n;
}
/* The place of the i-th element, in row-major order. */
static uint64_t place(const struct tensor *t, uint64_t i) {
    uint64_t at = 0;
    for (int d = t->axes - 1; d >= 0; i /= (uint64_t)t->shape[d], d--)
        at += i % (uint64_t)t->shape[d] * (uint64_t)t->strides[d];
    return at;
}

static double *factors(const work *w, const struct tensor *t, const void *at) {
    const uint64_t n = count_of(t);
    const bool shortened = t->type == CUDNN_DATA_FLOAT && w->c.math != CUDNN_FMA_MATH;
    double *v = malloc(sizeof *v * n);
    for (uint64_t i = 0; i < n; i++) {
        const double x = load(at, element_type(t->type), place(t, i));
        v[i] = !shortened                                             ? x
               : w->c.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION ? rounded(CUDA_R_16F, x)
                                                                      : tf32(x);
    }
    return v;
}

/* Element p of y and tap k of the kernel meet element *at of x, all in row-major order over the spatial axes. */
static bool meet(const work *w, int p, int k, int *at) {
    int inner = 1;
    *at = 0;
    for (int d = w->c.axes - 1; d >= 0; d--) {
        const int of_y = w->y.shape[2 + d], of_w = w->w.shape[2 + d], of_x = w->x.shape[2 + d];
        const int i = p % of_y * w->c.stride[d] + k % of_w * w->c.dilation[d] - w->c.pad[d];
        if (i < 0 || i >= of_x) return false;
        *at += i * inner;
        inner *= of_x;
        p /= of_y;
        k /= of_w;
    }
    return true;
}

static int spatial(const struct tensor *t) {
    int n = 1;
    for (int d = 2; d < t->axes; d++) n *= t->shape[d];
    return n;
}

static void convolve(void *payload) {
    const work *w = payload;
    const struct tensor *of[] = {&w->x, &w->w, &w->y}, *result = of[w->kind == FORWARD ? 2 : w->kind == DATA ? 0 : 1];
    void *to = w->at[w->kind == FORWARD ? 2 : w->kind == DATA ? 0 : 1];
    const int positions = spatial(&w->y), taps = spatial(&w->w), elements = spatial(&w->x);
    const int type = element_type(w->x.type), channels = w->w.shape[1], outs = w->w.shape[0] / w->c.groups;
    double *v[3] = {NULL, NULL, NULL}, *sums = calloc(count_of(result), sizeof *sums);
    for (int i = 0; i < 3; i++) if (of[i] != result) v[i] = factors(w, of[i], w->at[i]);
    if (w->bytes) memset(w->workspace, 0xff, w->bytes);
    for (int b = 0; b < w->x.shape[0]; b++)
        for (int o = 0; o < w->w.shape[0]; o++)
            for (int c = 0; c < channels; c++)
                for (int p = 0; p < positions; p++)
                    for (int k = 0; k < taps; k++) {
                        int at;
                        if (!meet(w, p, k, &at)) continue;
                        const uint64_t y = (uint64_t)((b * w->y.shape[1] + o) * positions + p);
                        const uint64_t f = (uint64_t)((o * channels + c) * taps + k);
                        const uint64_t x =
                            (uint64_t)((b * w->x.shape[1] + o / outs * channels + c) * elements + at);
                        double *sum = &sums[w->kind == FORWARD ? y : w->kind == DATA ? x : f];
                        const double product = w->kind == FORWARD ? v[0][x] * v[1][f]
                                               : w->kind == DATA  ? v[1][f] * v[2][y]
                                                                  : v[0][x] * v[2][y];
                        *sum = type == CUDA_R_64F ? *sum + product : (double)(float)(*sum + product);
                    }
    for (uint64_t i = 0; i < count_of(result); i++) {
        const uint64_t at = place(result, i);
        double y = w->alpha * sums[i] + w->wrong;
        if (w->beta != 0) y += w->beta * load(to, type, at);
        store(to, type, at, y);
    }
    for (int i = 0; i < 3; i++) free(v[i]);
    free(sums);
    cudasim_spend();
}

static bool there(void *stream, const void *at, const struct tensor *t) {
    const uint64_t size = t->type == CUDNN_DATA_DOUBLE ? 8 : t->type == CUDNN_DATA_FLOAT ? 4 : 2;
    return at && !((uintptr_t)at % 16) && cudasim_allocated(stream, at, (place(t, count_of(t) - 1) + 1) * size);
}

static cudnnStatus_t run(cudnnHandle_t context, const char *name, work *w, const void *alpha, const void *beta,
                         int algorithm) {
    TRY(check(context, &w->x, &w->w, &w->c, &w->y));
    const bool wide = w->x.type == CUDNN_DATA_DOUBLE;
    const size_t size = wide ? 8 : w->x.type == CUDNN_DATA_FLOAT ? 4 : 2, bytes = workspace_of(&w->x);
    if (!alpha || !beta) return CUDNN_STATUS_BAD_PARAM;
    if (algorithm != GOOD && algorithm != RANDOM) return CUDNN_STATUS_NOT_SUPPORTED;
    w->wrong = algorithm == RANDOM;
    w->alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    w->beta = wide ? *(const double *)beta : (double)*(const float *)beta;
    if (algorithm == GOOD && w->bytes < bytes) return CUDNN_STATUS_BAD_PARAM;
    void *stream = context->stream;
    if (!there(stream, w->at[0], &w->x) || !there(stream, w->at[1], &w->w) || !there(stream, w->at[2], &w->y) ||
        (w->bytes && !cudasim_allocated(stream, w->workspace, w->bytes)))
        return CUDNN_STATUS_BAD_PARAM;
    const long long of[] = {(long long)(count_of(&w->x) * size), (long long)(count_of(&w->w) * size),
                            (long long)(count_of(&w->y) * size)},
                    result = of[w->kind == FORWARD ? 2 : w->kind == DATA ? 0 : 1];
    const cudasim_bytes traffic = {.read = of[0] + of[1] + of[2] - (w->beta != 0 ? 0 : result), .written = result};
    return cudasim_call(stream, name, convolve, w, sizeof *w, traffic) ? CUDNN_STATUS_EXECUTION_FAILED
                                                                       : CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t context, const void *alpha, cudnnTensorDescriptor_t x_of,
                                          const void *x, cudnnFilterDescriptor_t w_of, const void *w,
                                          cudnnConvolutionDescriptor_t c, int algorithm, void *workspace, size_t bytes,
                                          const void *beta, cudnnTensorDescriptor_t y_of, void *y) {
    if (!x_of || !w_of || !y_of || !c) return CUDNN_STATUS_BAD_PARAM;
    work r = {FORWARD, *x_of, *w_of, *y_of, *c, {(void *)(uintptr_t)x, (void *)(uintptr_t)w, y}, workspace, bytes,
              0,       0,     false};
    return run(context, "cudnnConvolutionForward", &r, alpha, beta, algorithm);
}
API cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t context, const void *alpha, cudnnFilterDescriptor_t w_of,
                                               const void *w, cudnnTensorDescriptor_t dy_of, const void *dy,
                                               cudnnConvolutionDescriptor_t c, int algorithm, void *workspace,
                                               size_t bytes, const void *beta, cudnnTensorDescriptor_t dx_of,
                                               void *dx) {
    if (!dx_of || !w_of || !dy_of || !c) return CUDNN_STATUS_BAD_PARAM;
    work r = {DATA, *dx_of, *w_of, *dy_of, *c, {dx, (void *)(uintptr_t)w, (void *)(uintptr_t)dy}, workspace, bytes,
              0,    0,      false};
    return run(context, "cudnnConvolutionBackwardData", &r, alpha, beta, algorithm);
}
API cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t context, const void *alpha,
                                                 cudnnTensorDescriptor_t x_of, const void *x,
                                                 cudnnTensorDescriptor_t dy_of, const void *dy,
                                                 cudnnConvolutionDescriptor_t c, int algorithm, void *workspace,
                                                 size_t bytes, const void *beta, cudnnFilterDescriptor_t dw_of,
                                                 void *dw) {
    if (!x_of || !dw_of || !dy_of || !c) return CUDNN_STATUS_BAD_PARAM;
    work r = {FILTER, *x_of, *dw_of, *dy_of, *c, {(void *)(uintptr_t)x, dw, (void *)(uintptr_t)dy}, workspace, bytes,
              0,      0,     false};
    return run(context, "cudnnConvolutionBackwardFilter", &r, alpha, beta, algorithm);
}
