/* max_pool.c - the largest element of each window of the last axes, and windows of unequal size (adaptive pooling).
 * Fast twin: dev/cpu/max_pool.c. */
#include "transform.h"
#include "windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cr_pool_options cr_pool_defaults(int n, int64_t kernel) {
    cr_pool_options o = {.n = n, .count_pad = true};
    for (int i = 0; i < 3; i++) {
        o.kernel[i] = o.stride[i] = kernel;
        o.dilation[i] = 1;
    }
    return o;
}

cr_status cr_check_spatial(const char *op, const cr_tensor *x, int n) {
    if (n < 1 || n > 3) return cr_fail(CR_BAD_VALUE, op, "%d spatial axes: 1, 2 or 3 are expected", n);
    if (x->ndim < n)
        return cr_fail(CR_BAD_VALUE, op, "%d spatial axes of %s", n, cr_shape_text(x->ndim, x->shape).s);
    for (int i = x->ndim - n; i < x->ndim; i++)
        if (!x->shape[i])
            return cr_fail(CR_BAD_VALUE, op, "a spatial axis is empty: %s", cr_shape_text(x->ndim, x->shape).s);
    return CR_OK;
}

/* The numbers of one axis: kernel, stride and dilation are positive, and pad is at most half of the window. */
static cr_status check_axis(const char *op, const cr_pool_options *o, int i) {
    const int64_t kernel = o->kernel[i], stride = o->stride[i], pad = o->pad[i], dilation = o->dilation[i];
    const int64_t most = INT64_MAX / 4;
    int64_t reach;
    if (kernel < 1) return cr_fail(CR_BAD_VALUE, op, "the kernel size must be 1 or more: %lld", (long long)kernel);
    if (stride < 1) return cr_fail(CR_BAD_VALUE, op, "the stride must be 1 or more: %lld", (long long)stride);
    if (dilation < 1) return cr_fail(CR_BAD_VALUE, op, "the dilation must be 1 or more: %lld", (long long)dilation);
    if (__builtin_mul_overflow(kernel - 1, dilation, &reach) || reach >= most || stride >= most)
        return cr_fail(CR_BAD_VALUE, op, "kernel size %lld, stride %lld and dilation %lld are too large",
                       (long long)kernel, (long long)stride, (long long)dilation);
    if (pad < 0 || pad > (reach + 1) / 2)
        return cr_fail(CR_BAD_VALUE, op,
                       "pad must be 0 to half of the window: pad=%lld, kernel_size=%lld, dilation=%lld", (long long)pad,
                       (long long)kernel, (long long)dilation);
    return CR_OK;
}

/* How many windows there are: (R + 2 pad - reach - 1) / stride + 1; rounded up, a last window that would begin in the
 * padding is left out. */
static int64_t windows(const cr_pool_options *o, int i, int64_t R) {
    const int64_t stride = o->stride[i], free = R + 2 * o->pad[i] - (o->kernel[i] - 1) * o->dilation[i] - 1;
    if (free < 0 && !(o->ceil && free > -stride)) return 0;
    const int64_t count = (free < 0 ? 0 : free / stride + (o->ceil && free % stride)) + 1;
    return count - (o->ceil && (count - 1) * stride >= R + o->pad[i]);
}

/* What the caller knows a pooling over n axes as: "max_pool2d". */
typedef struct pool_text { char s[24]; } pool_text;
static pool_text pool_name(const char *kind, int n) {
    pool_text t;
    snprintf(t.s, sizeof t.s, "%s%dd", kind, n);
    return t;
}

cr_status cr_pooled_shape(const char *kind, const cr_tensor *x, const cr_pool_options *o, cr_meta *out) {
    const int before = x->ndim - o->n;
    cr_status status = cr_check_spatial(kind, x, o->n);
    const pool_text name = pool_name(kind, o->n);
    const char *op = name.s;
    if (status == CR_OK && !cr_is_integer(x)) status = cr_want_float(op, x);
    for (int i = 0; i < o->n && status == CR_OK; i++) status = check_axis(op, o, i);
    if (status != CR_OK) return status;
    *out = cr_meta_of(x);
    for (int i = 0; i < o->n; i++) {
        const int64_t count = out->shape[before + i] = windows(o, i, x->shape[before + i]);
        if (count < 1)
            return cr_fail(CR_BAD_VALUE, op, "the kernel is larger than the padded input %s along axis %d: "
                           "kernel_size=%lld, pad=%lld, dilation=%lld", cr_shape_text(x->ndim, x->shape).s, before + i,
                           (long long)o->kernel[i], (long long)o->pad[i], (long long)o->dilation[i]);
    }
    return cr_shape_check(op, out->ndim, out->shape, CR_I64, NULL);
}

/* ---- max_pool: y[p] = max over t of x[p stride + t dilation - pad] */

/* Is there a window that steps over all R elements of axis i?  Only a dilated one can. */
static bool misses(const cr_pool_options *o, int i, int64_t R, int64_t count) {
    const int64_t dilation = o->dilation[i];
    for (int64_t p = 0; p < count && dilation > 1; p++) {
        const int64_t first = p * o->stride[i] - o->pad[i], skipped = first < 0 ? (dilation - 1 - first) / dilation : 0;
        if (skipped >= o->kernel[i] || first + skipped * dilation >= R) return true;
    }
    return false;
}

static cr_status max_pool_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0];
    const cr_pool_options *o = c->params;
    const cr_status status = cr_pooled_shape("max_pool", x, o, out);
    if (status != CR_OK) return status;
    for (int i = 0; i < o->n; i++)
        if (misses(o, i, x->shape[x->ndim - o->n + i], out->shape[x->ndim - o->n + i]))
            return cr_fail(CR_BAD_VALUE, pool_name("max_pool", o->n).s,
                           "a window holds no element of %s: kernel_size=%lld, pad=%lld, dilation=%lld",
                           cr_shape_text(x->ndim, x->shape).s, (long long)o->kernel[i],
                           (long long)o->pad[i], (long long)o->dilation[i]);
    aux[0] = *out;
    aux[0].dtype = CR_I64;
    return CR_OK;
}

/* Contiguous a as (N, *spatial), of three spatial axes, the first ones of size 1. */
static cr_array with_spatial(const cr_array *a, int n) {
    int64_t shape[4] = {1, 1, 1, 1};
    for (int i = 0; i < a->ndim; i++) shape[i < a->ndim - n ? 0 : i - a->ndim + 4] *= a->shape[i];
    return cr_array_as(a, 4, shape);
}

static cr_status max_pool_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    const cr_pool_options *o = c->params;
    if (!out->numel) return CR_OK;
    cr_max_pool_args args = {.y = with_spatial(&out->array, o->n), .x = with_spatial(&c->in[0]->array, o->n)};
    if (aux) args.index = with_spatial(&aux[0]->array, o->n);
    for (int i = 0; i < 3; i++) {
        const int from = i - 3 + o->n;
        args.kernel[i] = from < 0 ? 1 : o->kernel[from];
        args.stride[i] = from < 0 ? 1 : o->stride[from];
        args.pad[i] = from < 0 ? 0 : o->pad[from];
        args.dilation[i] = from < 0 ? 1 : o->dilation[from];
    }
    return (aux ? c->dev->kernels->max_pool : c->dev->kernels->max_pool_values)(&args);
}

/* y = x[index]:  dx = zeros with g added at index, in the dtype of sums */
static void max_pool_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const cr_tensor *x = c->in[0];
    const int n = ((const cr_pool_options *)c->params)->n;
    const cr_array in = with_spatial(&x->array, n), out = with_spatial(&g->array, n);
    const int64_t rows = in.shape[0], from = rows ? in.numel / rows : 0, to = rows ? out.numel / rows : 0;
    cr_tensor *zeros = cr_zeros(CR_LIST(rows, from), wide_dtype(x), c->dev);
    cr_tensor *sum = cr_scatter_add(zeros, 1, cr_reshape(c->aux[0], CR_LIST(rows, to)),
                                    cr_reshape(cast_to(g, wide_dtype(x)), CR_LIST(rows, to)));
    dx[0] = sum ? cast_to(reshaped_like(sum, x), x->dtype) : NULL;
}

static cr_tensor *max_pool_tangent(const cr_call *c, const cr_tensor *const *t) {
    const int n = ((const cr_pool_options *)c->params)->n;
    const cr_array in = with_spatial(&c->in[0]->array, n), out = with_spatial(&c->out->array, n);
    const int64_t rows = in.shape[0], from = rows ? in.numel / rows : 0, to = rows ? out.numel / rows : 0;
    cr_tensor *y = cr_gather(cr_reshape(t[0], CR_LIST(rows, from)), 1, cr_reshape(c->aux[0], CR_LIST(rows, to)));
    return y ? reshaped_like(y, c->out) : NULL;
}

const cr_op cr_op_max_pool = {
    .name = "max_pool",
    .arity = 1,
    .params_bytes = sizeof(cr_pool_options),
    .contiguous = true,
    .saves = CR_SAVE_AUX,
    .n_aux = 1,
    .infer = max_pool_infer,
    .forward = max_pool_forward,
    .grad = max_pool_grad,
    .batch = cr_batch_same,
    .tangent = max_pool_tangent,
};

/* The same where nobody asks for the positions, on devices with a kernel of its own for this: it is never recorded. */
static cr_status values_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    cr_meta index;
    (void)aux;
    return max_pool_infer(c, out, &index);
}

static cr_status values_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return max_pool_forward(c, out, NULL);
}

const cr_op cr_op_max_pool_values = {
    .name = "max_pool",
    .arity = 1,
    .params_bytes = sizeof(cr_pool_options),
    .contiguous = true,
    .infer = values_infer,
    .forward = values_forward,
    .batch = cr_batch_same,
    .no_grad = "it runs only where nothing is recorded",
};

static cr_tensor *max_of_integers(const cr_tensor *x, const cr_pool_options *o, cr_tensor **index) {
    cr_meta m, unused[1];
    const cr_call c = {.params = o, .n = 1, .in = &x};
    if (max_pool_infer(&c, &m, unused) != CR_OK) return NULL;
    const cr_windows w = cr_windows_of(o, m.shape + x->ndim - o->n);
    cr_scope_begin();
    cr_tensor *y = cr_integer_max_pool(x, &w, index);
    if (y && index) cr_keep(*index);
    return cr_leave(y);
}

cr_tensor *cr_max_pool(const cr_tensor *x, const cr_pool_options *o, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given("max_pool", "x", x)) return NULL;
    if (cr_is_integer(x)) return max_of_integers(x, o, index);
    const bool plain = !cr_wrapped(x) && !(cr_grad_enabled() && cr_in_graph(x));
    if (!index && plain && x->dev->kernels->max_pool_values)
        return cr_apply(&cr_op_max_pool_values, 1, &x, o);
    return cr_apply_with_index(&cr_op_max_pool, x, o, index);
}

/* ---- adaptive pooling: S windows of an axis of R, which are of unequal size where S does not divide R */
cr_status cr_check_sizes(const char *op, const cr_tensor *x, int n, const int64_t *size) {
    cr_status status = cr_check_spatial(op, x, n);
    for (int i = 0; i < n && status == CR_OK; i++)
        if (size[i] < 0 || size[i] > INT32_MAX || x->shape[x->ndim - n + i] > INT32_MAX)
            status = cr_fail(CR_BAD_VALUE, op, "cannot bring %s to %s", cr_shape_text(x->ndim, x->shape).s,
                             cr_shape_text(n, size).s);
    return status;
}

/* The elements of the S windows of an axis, each filled up to the longest with its last element: (S, *length). */
static cr_tensor *window_positions(const cr_tensor *x, int64_t S, int64_t R, int64_t *length) {
    *length = 1;
    for (int64_t s = 0; s < S; s++) *length = cr_imax(*length, cr_adaptive_end(s, S, R) - cr_adaptive_first(s, S, R));
    int64_t *at = malloc(sizeof *at * (size_t)(S * *length + 1));
    if (!at) return cr_fail(CR_NO_MEMORY, "adaptive_max_pool", "out of memory for %lld windows", (long long)S), NULL;
    for (int64_t i = 0; i < S * *length; i++) {
        const int64_t s = i / *length;
        at[i] = cr_imin(cr_adaptive_first(s, S, R) + i % *length, cr_adaptive_end(s, S, R) - 1);
    }
    cr_tensor *t = cr_from(at, CR_LIST(S * *length), CR_I64, x->dev);
    free(at);
    return t;
}

/* Positions in the gathered windows, flattened, as positions in the spatial axes of x. */
static cr_tensor *positions_in_x(const cr_tensor *x, int n, const cr_tensor *inner, cr_tensor *const *positions) {
    cr_tensor *flat = NULL;
    int64_t below = 1;
    for (int i = 0; i < n; i++) below *= positions[i]->numel;
    for (int i = 0; i < n; i++) {
        const int64_t size = positions[i]->numel;
        below /= size;
        cr_tensor *p = cr_floor_divide(inner, cr_scalar_int(below));
        cr_tensor *at = cr_take(positions[i], cr_remainder(p, cr_scalar_int(size)));
        flat = i ? add(cr_mul(flat, cr_scalar_int(x->shape[x->ndim - n + i])), at) : at;
    }
    return flat;
}

static cr_tensor *max_of_windows(const cr_tensor *x, int n, const int64_t *size, cr_tensor **index) {
    cr_pool_options o = cr_pool_defaults(n, 1);
    cr_tensor *positions[3];
    const cr_tensor *gathered = x;
    for (int i = 0; i < n && gathered; i++) {
        const int axis = x->ndim - n + i;
        positions[i] = window_positions(x, size[i], x->shape[axis], &o.kernel[i]);
        o.stride[i] = o.kernel[i];
        gathered = cr_index_select(gathered, axis, positions[i]);
    }
    cr_tensor *y = cr_max_pool(gathered, &o, index);
    if (index && y && y->numel) *index = positions_in_x(x, n, *index, positions);
    return y;
}

cr_tensor *cr_adaptive_max_pool(const cr_tensor *x, int n, const int64_t *size, cr_tensor **index) {
    if (index) *index = NULL;
    if (!cr_given("adaptive_max_pool", "x", x)) return NULL;
    if (cr_check_sizes("adaptive_max_pool", x, n, size) != CR_OK) return NULL;
    if (cr_want_float("adaptive_max_pool", x) != CR_OK) return NULL;
    cr_pool_options o = cr_pool_defaults(n, 1);
    bool equal = true, empty = false;
    for (int i = 0; i < n; i++) {
        const int64_t R = x->shape[x->ndim - n + i];
        empty = empty || !size[i];
        equal = equal && size[i] && R % size[i] == 0;
        if (equal) o.kernel[i] = o.stride[i] = R / size[i];
    }
    if (equal) return cr_max_pool(x, &o, index);
    cr_scope_begin();
    cr_tensor *y = NULL;
    if (empty) {
        int64_t shape[CR_MAX_DIMS];
        for (int i = 0; i < x->ndim; i++) shape[i] = i < x->ndim - n ? x->shape[i] : size[i - x->ndim + n];
        y = cr_zeros(x->ndim, shape, x->dtype, x->dev);
        if (index) *index = cr_zeros(x->ndim, shape, CR_I64, x->dev);
    } else y = max_of_windows(x, n, size, index);
    if (index && *index) cr_keep(*index);
    return cr_leave(y);
}
