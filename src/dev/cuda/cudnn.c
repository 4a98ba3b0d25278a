/* cudnn.c - convolutions by cuDNN, for the shapes for which it is quicker than conv.cu, if CHAINRULE_CUDNN is set.
 *
 * The first time a shape is met, cuDNN's best deterministic algorithm and our own kernel are timed in turn.  The choice
 * is kept for each GPU, and in the cache folder: later processes read it, so they compute the same bits.  While a graph
 * is noted nothing is timed: without a choice our own kernel runs.  Where cuDNN fails, our own kernel runs from then
 * on.  cuDNN expresses neither padding that differs at the two ends nor factors that are rounded to bf16. */
#include "gpu.h"

#include "../../core/cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 5 };                             /* batch, channels, two or three spatial axes */
enum { WORKSPACE = 256 << 20 };                     /* bytes, at most */
enum { MOST_SHAPES = 1024 };                        /* of a GPU; further ones run on our own kernel */
enum { ALIGNMENT = 16 };                            /* of addresses, which cuDNN's descriptors do not state */

/* Everything that a choice depends on; compared as bytes.  The filter is dense, and so is the result. */
typedef struct shape {
    int32_t kind, type, math, biased, groups, axes;
    int32_t x[MOST_AXES], y[MOST_AXES], w[MOST_AXES], x_strides[MOST_AXES], y_strides[MOST_AXES];
    int32_t pad[3], stride[3], dilation[3];
} shape;
/* written to the cache folder */
typedef struct choice { int32_t quicker, algorithm, math, unused; int64_t workspace; } choice;

struct cuda_convolution {
    shape of;
    choice is;
    dnn_handle x, y, w, convolution;                /* NULL where our own kernel runs */
    struct cuda_convolution *next;
};

/* A convolution that cuDNN may compute: operands a, b and result c in cuDNN's order for the kind. */
typedef struct call { const char *op; const cuda_own_conv *own; cuda_address a, b, c; } call;

/* ---- shapes */

/* cuDNN counts elements in int. */
static bool fits(const cr_array *t) {
    int64_t last = 0;
    for (int d = 0; d < t->ndim; d++) {
        if (t->strides[d] < 0) return false;
        last += (t->shape[d] - 1) * t->strides[d];
    }
    return t->numel > 0 && last < INT32_MAX;
}

/* Axes of size 1 get the stride that they have in a dense array, from the innermost axis on; cuDNN recognises layouts
 * by strides.  False: two indices are one element. */
static bool set_strides(int32_t *to, const int32_t *size, const int32_t *stride, int axes) {
    const bool channels_last = size[1] > 1 && stride[1] == 1;
    int64_t least = 1;
    for (int i = axes - 1; i >= 0; i--) {
        const int d = !channels_last ? i : i == axes - 1 ? 1 : i == 0 ? 0 : i + 1;
        to[d] = size[d] == 1 ? (int32_t)cr_imin(least, INT32_MAX) : stride[d];
        if (size[d] == 1) continue;
        if (!stride[d]) return false;
        least = cr_imax(least, (int64_t)stride[d] * size[d]);
    }
    for (int i = 0; i < axes; i++)
        for (int j = 0; j < axes; j++)              /* of two axes the outer one steps over the whole inner one */
            if (i != j && size[i] > 1 && size[j] > 1 && to[i] >= to[j] && to[i] < (int64_t)to[j] * size[j])
                return false;
    return true;
}

/* The extent of y that cuDNN derives: it pads both ends alike. */
static bool is_even(const cr_conv_args *args, int d) {
    const int64_t span = (args->w.shape[2 + d] - 1) * args->dilation[d] + 1;
    const int64_t room = args->x.shape[2 + d] + 2 * args->pad[d] - span;
    return args->pad[d] >= 0 && room >= 0 && args->y.shape[2 + d] == room / args->stride[d] + 1;
}

static bool is_absent(const cr_conv_args *args, int d) {
    return args->x.shape[2 + d] == 1 && args->w.shape[2 + d] == 1 && args->y.shape[2 + d] == 1 && !args->pad[d];
}

static int32_t type_of(cr_dtype dt) {
    return dt == CR_F64   ? DNN_DATA_DOUBLE
           : dt == CR_F32 ? DNN_DATA_FLOAT
           : dt == CR_F16 ? DNN_DATA_HALF
                          : DNN_DATA_BFLOAT16;
}

static int32_t math_of(cr_dtype dt, bool tf32) {
    if (cr_dtype_is_half(dt)) return DNN_TENSOR_OP_MATH;
    return dt == CR_F32 && !tf32 ? DNN_FMA_MATH : DNN_DEFAULT_MATH;
}

/* False: cuDNN does not express it. */
static bool shape_of(shape *s, const cr_conv_args *args, bool tf32) {
    const cr_array *x = &args->x, *y = &args->y, *w = &args->w;
    int32_t x_strides[MOST_AXES] = {0}, y_strides[MOST_AXES] = {0};
    if (!fits(x) || !fits(y) || !fits(w)) return false;
    memset(s, 0, sizeof *s);                        /* all bytes are compared */
    s->kind = (int32_t)args->kind;
    s->type = type_of(w->dtype);
    s->math = math_of(w->dtype, tf32);
    s->biased = cr_present(&args->bias) != NULL;
    s->groups = (int32_t)args->groups;
    for (int d = -2, dropped = 0; d < 3; d++) {     /* an axis that the layer lacks is left out, so that two remain */
        const int i = s->axes, from = 2 + d;
        if (d >= 0 && !dropped && is_absent(args, d)) {
            dropped = 1;
            continue;
        }
        if (d >= 0 && !is_even(args, d)) return false;
        s->x[i] = (int32_t)x->shape[from];
        s->y[i] = (int32_t)y->shape[from];
        s->w[i] = (int32_t)w->shape[from];
        x_strides[i] = x->shape[from] > 1 ? (int32_t)x->strides[from] : 0;
        y_strides[i] = y->shape[from] > 1 ? (int32_t)y->strides[from] : 0;
        if (d >= 0) {
            if (args->pad[d] > INT32_MAX / 2 || args->stride[d] > INT32_MAX / 2 || args->dilation[d] > INT32_MAX / 2)
                return false;
            s->pad[i - 2] = (int32_t)args->pad[d];
            s->stride[i - 2] = (int32_t)args->stride[d];
            s->dilation[i - 2] = (int32_t)args->dilation[d];
        }
        s->axes++;
    }
    return set_strides(s->x_strides, s->x, x_strides, s->axes) && set_strides(s->y_strides, s->y, y_strides, s->axes);
}

/* ---- descriptors */

static int describe(struct cuda_convolution *p) {
    const shape *s = &p->of;
    const int32_t compute = s->type == DNN_DATA_DOUBLE ? DNN_DATA_DOUBLE : DNN_DATA_FLOAT;
    int error = cr_cudnn.TensorCreate(&p->x);
    if (!error) error = cr_cudnn.TensorSet(p->x, s->type, s->axes, s->x, s->x_strides);
    if (!error) error = cr_cudnn.TensorCreate(&p->y);
    if (!error) error = cr_cudnn.TensorSet(p->y, s->type, s->axes, s->y, s->y_strides);
    if (!error) error = cr_cudnn.FilterCreate(&p->w);
    if (!error) error = cr_cudnn.FilterSet(p->w, s->type, DNN_TENSOR_NCHW, s->axes, s->w);
    if (!error) error = cr_cudnn.ConvolutionCreate(&p->convolution);
    if (!error)
        error = cr_cudnn.ConvolutionSet(p->convolution, s->axes - 2, s->pad, s->stride, s->dilation,
                                        DNN_CROSS_CORRELATION, compute);
    if (!error) error = cr_cudnn.ConvolutionSetGroups(p->convolution, s->groups);
    return error ? error : cr_cudnn.ConvolutionSetMath(p->convolution, s->math);
}

/* Our own kernel runs from now on. */
static void forget(struct cuda_convolution *p) {
    if (p->x) cr_cudnn.TensorDestroy(p->x);
    if (p->y) cr_cudnn.TensorDestroy(p->y);
    if (p->w) cr_cudnn.FilterDestroy(p->w);
    if (p->convolution) cr_cudnn.ConvolutionDestroy(p->convolution);
    p->x = p->y = p->w = p->convolution = NULL;
    p->is.quicker = false;
}

/* ---- the three kinds: a and b are the operands, c is the result */
static dnn_handle a_of(const struct cuda_convolution *p) { return p->of.kind == CR_CONV_INPUT ? p->w : p->x; }
static dnn_handle b_of(const struct cuda_convolution *p) { return p->of.kind == CR_CONV_FORWARD ? p->w : p->y; }
static dnn_handle c_of(const struct cuda_convolution *p) {
    return p->of.kind == CR_CONV_FORWARD ? p->y : p->of.kind == CR_CONV_INPUT ? p->x : p->w;
}

static bool may_use(const struct cuda_convolution *p, const dnn_found *f) {
    return !f->status && f->determinism == DNN_DETERMINISTIC && f->workspace <= WORKSPACE &&
           f->math != DNN_TENSOR_OP_MATH_ALLOW_CONVERSION && (p->of.math != DNN_FMA_MATH || f->math == DNN_FMA_MATH);
}

/* The first, by cuDNN's own expectation of its speed.  False: there is none. */
static bool find_algorithm(cuda *g, struct cuda_convolution *p) {
    enum { MOST = 16 };
    int (*const find[]) DNN_HEURISTIC = {cr_cudnn.FindForward, cr_cudnn.FindInput, cr_cudnn.FindWeight};
    dnn_found found[MOST];
    int count = 0;
    if (find[p->of.kind](g->dnn, a_of(p), b_of(p), p->convolution, c_of(p), MOST, &count, found)) return false;
    for (int i = 0; i < count; i++)
        if (may_use(p, &found[i])) {
            p->is.algorithm = found[i].algorithm;
            p->is.math = found[i].math;
            p->is.workspace = (int64_t)found[i].workspace;
            return !cr_cudnn.ConvolutionSetMath(p->convolution, p->is.math);
        }
    return false;
}

/* A number as cuDNN takes it: f64 for convolutions of f64, else f32. */
typedef union number { double f64; float f32; } number;
static number number_of(double v, bool wide) { return wide ? (number){.f64 = v} : (number){.f32 = (float)v}; }

/* False: cuDNN fails, or there is no workspace; no error is left. */
static bool run_cudnn(cuda *g, const struct cuda_convolution *p, const call *c) {
    static const char *const names[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                        "cudnnConvolutionBackwardFilter"};
    int (*const run[]) DNN_CONVOLUTION = {cr_cudnn.Forward, cr_cudnn.Input, cr_cudnn.Weight};
    const bool wide = p->of.type == DNN_DATA_DOUBLE;
    const number one = number_of(1, wide), beta = number_of(p->of.biased, wide);
    const size_t bytes = (size_t)p->is.workspace;
    cuda_block *workspace = NULL;
    if (bytes && !(workspace = cr_cuda_block_take(g, c->op, bytes))) return cr_error_clear(), false;
    /* the bias first: the sum is rounded once */
    bool done = !p->of.biased || c->own->fill_bias(g, c->own->job) == CR_OK;
    if (done) {
        g->counters.launches++;
        cuda_span *span = cr_cuda_span_begin(g, CUDA_KERNELS, c->op, names[p->of.kind]);
        done = !run[p->of.kind](g->dnn, &one, a_of(p), c->a, b_of(p), c->b, p->convolution, p->is.algorithm,
                                workspace ? workspace->at : 0, bytes, &beta, c_of(p), c->c);
        cr_cuda_span_stop(g, span);
    }
    if (workspace) cr_cuda_block_give(g, workspace);
    if (!done) cr_error_clear();
    return done;
}

/* ---- measurement */

/* Milliseconds that the GPU takes; NAN: it fails. */
static float time_of(cuda *g, const struct cuda_convolution *p, const call *c, bool by_cudnn, const cuda_event at[2]) {
    float ms = 0;
    if (cr_cu.EventRecord(at[0], g->stream)) return NAN;
    if (by_cudnn ? !run_cudnn(g, p, c) : c->own->run(g, c->own->job) != CR_OK) return NAN;
    if (cr_cu.EventRecord(at[1], g->stream) || cr_cu.EventSynchronize(at[1])) return NAN;
    return cr_cu.EventElapsedTime(&ms, at[0], at[1]) ? NAN : ms;
}

/* The shortest times of several rounds, in turn, so that both meet the same clock rate.  The first round also loads
 * code.  Near ties go to our own kernel, so that noise changes few choices.  False: one of them fails. */
static bool measure(cuda *g, struct cuda_convolution *p, const call *c) {
    enum { ROUNDS = 4 };
    const float MARGIN = 0.95f;
    cuda_event at[2] = {NULL, NULL};
    float best[2] = {INFINITY, INFINITY};
    g->counters.measured++;
    bool works = !cr_cu.EventCreate(&at[0], 0) && !cr_cu.EventCreate(&at[1], 0);
    for (int i = 0; i < 2 * ROUNDS && works; i++) {
        const float ms = time_of(g, p, c, i % 2, at);
        works = !isnan(ms);
        if (ms < best[i % 2]) best[i % 2] = ms;
    }
    for (int i = 0; i < 2; i++) if (at[i]) cr_cu.EventDestroy(at[i]);
    if (!works) cr_error_clear();
    p->is.quicker = works && best[1] < MARGIN * best[0];
    return works;
}

/* ---- choices: in the table of the GPU, and in the cache folder */

static cr_hash key_of(const cuda *g, const shape *s) {
    static const char what[] = "convolution 1";     /* the number: of this file's way to choose */
    const int32_t on[] = {g->major,           g->minor,       g->multiprocessors, cr_cu.version,
                          cr_cudnn.version,   cr_nvrtc.major, cr_nvrtc.minor};
    cr_hash h = cr_hash_of(cr_hash_start, what, sizeof what);
    h = cr_hash_of(h, on, sizeof on);
    h = cr_hash_of(h, cr_cuda_source_conv, strlen(cr_cuda_source_conv));
    return cr_hash_of(h, s, sizeof *s);
}

static bool read_choice(const char *path, cr_hash key, choice *to) {
    size_t bytes = 0;
    char *text = cr_cache_read(path, key, &bytes);
    const bool whole = text && bytes == sizeof *to;
    if (whole) memcpy(to, text, sizeof *to);
    free(text);
    return whole;
}

static void choose(cuda *g, struct cuda_convolution *p, const call *c) {
    char path[1100];
    const cr_hash key = key_of(g, &p->of);
    const bool kept = cr_cache_path(path, sizeof path, key, ".choice");
    if (describe(p)) {
        forget(p);
        return;
    }
    const bool known = kept && read_choice(path, key, &p->is);
    if (!known && find_algorithm(g, p) && measure(g, p, c) && kept) {
        choice first;                               /* of another process that measured meanwhile */
        if (read_choice(path, key, &first)) p->is = first;
        else cr_cache_keep(path, key, &p->is, sizeof p->is);
    }
    if (!p->is.quicker || cr_cudnn.ConvolutionSetMath(p->convolution, p->is.math)) forget(p);
}

/* NULL: there is no choice yet, and none can be made now. */
static struct cuda_convolution *convolution_of(cuda *g, const shape *s, const call *c) {
    struct cuda_convolution **list =
        &g->convolutions[(size_t)(cr_hash_of(cr_hash_start, s, sizeof *s) % CUDA_CONVOLUTION_LISTS)];
    struct cuda_convolution *p = *list;
    while (p && memcmp(&p->of, s, sizeof *s)) p = p->next;
    if (p || g->noting || g->n_convolutions == MOST_SHAPES || !(p = calloc(1, sizeof *p))) return p;
    p->of = *s;
    choose(g, p, c);
    p->next = *list;
    g->n_convolutions++;
    return *list = p;
}

static bool has_cudnn(cuda *g) {
    if (!cr_dnn_ready()) return false;
    if (g->dnn || g->dnn_failed || g->noting) return g->dnn;
    int error = cr_cudnn.Create(&g->dnn);
    if (error && cr_cuda_make_room(g, CUDA_OUT_OF_MEMORY)) error = cr_cudnn.Create(&g->dnn);
    if (!error) error = cr_cudnn.SetStream(g->dnn, g->stream);
    if (error) g->dnn = NULL, g->dnn_failed = true;
    return g->dnn;
}

static bool is_aligned(const call *c) { return !((c->a | c->b | c->c) % ALIGNMENT); }

bool cr_cuda_conv_by_cudnn(cuda *g, const char *op, const cr_conv_args *args, const cuda_own_conv *own) {
    const cr_array *x = &args->x, *y = &args->y, *w = &args->w;
    const bool f32 = w->dtype == CR_F32;
    shape s;
    if (f32 && args->how & CR_MATMUL_BF16) return false;
    if (!has_cudnn(g) || !shape_of(&s, args, args->how & CR_MATMUL_TF32 && g->major >= 8)) return false;
    const call c = {.op = op,
                    .own = own,
                    .a = cuda_address_of(args->kind == CR_CONV_INPUT ? w : x),
                    .b = cuda_address_of(args->kind == CR_CONV_FORWARD ? w : y),
                    .c = cuda_address_of(args->kind == CR_CONV_FORWARD ? y : args->kind == CR_CONV_INPUT ? x : w)};
    struct cuda_convolution *p = is_aligned(&c) ? convolution_of(g, &s, &c) : NULL;
    if (!p || !p->is.quicker) return false;
    const bool done = run_cudnn(g, p, &c);
    if (done) g->counters.by_cudnn++;
    else forget(p);
    return done;
}
