/* matmul.c - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)].  Sums go along K in
 * order, whatever the shape.
 *
 * On a GPU a workgroup of SIDE x SIDE invocations has a square of EDGE x EDGE results, an
 * invocation TILE x TILE of them in registers. DEPTH of K at a time, the workgroup copies its part
 * of a and of b into workgroup memory: an element read from there serves TILE products, an element
 * read from the tensor EDGE.
 *
 * On a software GPU workgroup memory is slower than the cache of the processor, and every barrier
 * is a change of threads: there an invocation reads the tensors directly, for up to ROWS x TILE
 * results.  Neighbours have the same rows, so an element of a is read once for as many of them as
 * the processor computes at a time (bench/webgpu). */
#include "wgsl.gen.h"
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    TILE = 4,                                       /* of a vec4 */
    SIDE = 16, EDGE = TILE * SIDE, DEPTH = 16, DEPTH_WIDE = 8, BLOCKS = 2,
    PITCH = EDGE + 2,                               /* of a row in workgroup memory: see matmul.wgsl */
    ROWS = 8, UNROLLED = 4,                         /* ROWS: of a workgroup without workgroup memory */
    /* of one dispatch: lavapipe ends an invocation after 65535 iterations of a loop.  Longer sums
     * go on in the next dispatch (half floats are rounded between, as where memory is split) */
    MOST_K = 131072
};

typedef struct product {
    int id;
    cr_dtype dtype, of_c, acc;                      /* of the operands; of c and bias; of sums */
    int add, bias, bf16;
    int along_k[2];                                 /* a, b: neighbours in memory are neighbours along K */
    int rows;                                       /* of a workgroup, without workgroup memory; 0: with it */
    /* 16-bit elements whose pairs along an axis are words: of a along K, M, of b along K, N; c: along N */
    int a_pairs_k, a_pairs_m, b_pairs_k, b_pairs_n, in_pairs;
    int batch;                                      /* axes before the last two */
} product;

static void write_kernel(wgsl *w, const void *how) {
    const product *q = how;
    const int depth = cr_wgsl_wide(q->acc) ? DEPTH_WIDE : DEPTH;
    const wgsl_constant constants[] = {{"TILE", TILE},
                                       {"SIDE", SIDE},
                                       {"EDGE", EDGE},
                                       {"DEPTH", depth},
                                       {"PITCH", PITCH},
                                       {"UNROLLED", UNROLLED},
                                       {"BLOCKS", BLOCKS},
                                       {"TWO", 2},
                                       {"COPIES", depth * EDGE / (SIDE * SIDE)},
                                       {"ROWS", q->rows},
                                       {"HEIGHT", q->rows ? q->rows : EDGE},
                                       {"ROW_PAIRS", (q->rows ? q->rows : TILE) / 2},
                                       {"A_PAIRS_K", q->a_pairs_k},
                                       {"A_PAIRS_M", q->a_pairs_m},
                                       {"B_PAIRS_K", q->b_pairs_k},
                                       {"B_PAIRS_N", q->b_pairs_n},
                                       {"IN_PAIRS", q->in_pairs},
                                       {"BATCH", q->batch},
                                       {"ADD", q->add},
                                       {"BIAS", q->bias},
                                       {"BF16", q->bf16},
                                       {"WIDE", cr_wgsl_wide(q->acc)},
                                       {"ALONG_K_A", q->along_k[0]},
                                       {"ALONG_K_B", q->along_k[1]}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        cr_wgsl_const(w, constants[i].name, constants[i].value);
    if (q->in_pairs) cr_wgsl_pairs(w, "c", q->of_c);
    else cr_wgsl_array(w, "c", q->of_c, true);
    cr_wgsl_array(w, "a", q->dtype, false);
    cr_wgsl_array(w, "b", q->dtype, false);
    if (q->a_pairs_k || q->a_pairs_m) cr_wgsl_load2(w, "a", q->dtype);
    if (q->b_pairs_k || q->b_pairs_n) cr_wgsl_load2(w, "b", q->dtype);
    if (q->bias) cr_wgsl_array(w, "bias", q->of_c, false);
    cr_wgsl_add(w, "alias T = %s;\n", cr_wgsl_type(q->acc));
    cr_wgsl_cast_function(w, "widened", q->acc, q->dtype);
    cr_wgsl_cast_function(w, "widened_c", q->acc, q->of_c);
    cr_wgsl_cast_function(w, "result", q->of_c, q->acc);
    cr_wgsl_file(w, cr_wgsl_matmul);
    cr_wgsl_end(w, q->rows ? SIDE : SIDE * SIDE);
}

static int64_t batch_stride(const cr_array *t, int d) { return t->shape[d] == 1 ? 0 : t->strides[d]; }

static uint32_t offset_in(const cr_array *t, size_t window) {
    return (uint32_t)(t->offset - (int64_t)(window / cr_dtype_size(t->dtype)));
}

/* Multiply-adds. */
static double work_of(const product *q, const cr_array t[]) {
    double n = (double)t[1].shape[q->batch + 1];
    for (int d = 0; d < q->batch + 2; d++) n *= (double)t->shape[d];
    return n;
}

/* Are pairs of elements along `axis` words? */
static bool in_pairs(const cr_array *t, int axis) {
    bool yes = cr_wgsl_lanes(t->dtype) == 2 && t->strides[axis] == 1 && t->offset % 2 == 0;
    for (int d = 0; d < t->ndim; d++) yes &= d == axis || t->shape[d] == 1 || t->strides[d] % 2 == 0;
    return yes;
}

/* t: c, a, b, and the bias where there is one; at: where their windows begin */
static cr_status dispatch_product(gpu *g, const product *how, const cr_array t[], const size_t at[]) {
    product those = *how, *const q = &those;
    q->in_pairs = in_pairs(&t[0], q->batch + 1) && t[0].shape[q->batch + 1] % 2 == 0;
    if (q->rows) {
        q->a_pairs_k = in_pairs(&t[1], q->batch + 1);
        q->a_pairs_m = !q->a_pairs_k && in_pairs(&t[1], q->batch);
        q->b_pairs_n = in_pairs(&t[2], q->batch + 1);
        q->b_pairs_k = !q->b_pairs_n && in_pairs(&t[2], q->batch);
    }
    const int64_t M = t->shape[q->batch], N = t->shape[q->batch + 1], rows = q->rows ? q->rows : EDGE,
                  across = gpu_ceil_div(N, EDGE), tiles = across * gpu_ceil_div(M, rows);
    matmul_parameters r = {.M = (uint32_t)M,
                           .N = (uint32_t)N,
                           .K = (uint32_t)t[1].shape[q->batch + 1],
                           .across = (uint32_t)across,
                           .tiles = (uint32_t)tiles,
                           .c = offset_in(&t[0], at[0]),
                           .c_row = (uint32_t)t[0].strides[q->batch],
                           .c_column = (uint32_t)t[0].strides[q->batch + 1],
                           .a = offset_in(&t[1], at[1]),
                           .a_row = (uint32_t)t[1].strides[q->batch],
                           .a_column = (uint32_t)t[1].strides[q->batch + 1],
                           .b = offset_in(&t[2], at[2]),
                           .b_row = (uint32_t)t[2].strides[q->batch],
                           .b_column = (uint32_t)t[2].strides[q->batch + 1]};
    if (q->bias)
        r.bias = offset_in(&t[3], at[3]),
        r.bias_stride = (uint32_t)t[3].strides[0];
    int64_t groups = tiles;
    for (int d = 0; d < q->batch; d++) {
        groups *= t->shape[d];
        r.batch[4 * d] = (uint32_t)t->shape[d];
        for (int k = 0; k < 3; k++) r.batch[4 * d + 1 + k] = (uint32_t)batch_stride(&t[(k + 1) % 3], d);
    }
    r.groups = (uint32_t)groups;
    gpu_call c = {.op = "matmul",
                  .write = write_kernel,
                  .how = q,
                  .how_bytes = sizeof *q,
                  .buffers = q->bias ? 4 : 3,
                  .windows = 15,
                  .parameters = &r,
                  .parameters_bytes = sizeof r,
                  .groups = (uint64_t)groups,
                  .work = work_of(q, t)};
    for (int k = 0; k < c.buffers; k++) {
        c.buffer[k] = gpu_buffer_of(&t[k]);
        c.at[k] = at[k];
    }
    return cr_gpu_run(g, &c);
}

/* Axes of a product: its batch, M, N, K.  The axis of c, a, b or bias (0 to 3) that it is; -1: none */
static int axis_of(const product *q, int operand, int axis) {
    const int m = q->batch, n = m + 1, k = m + 2;
    if (operand == 3) return axis == n ? 0 : -1;
    if (axis < m) return axis;
    if (operand == 0) return axis == k ? -1 : axis;
    return operand == 1 ? (axis == m ? m : axis == k ? n : -1) : axis == k ? m : axis == n ? n : -1;
}

/* Splits the axis along which an operand that does not fit into a window extends furthest, K where it
 * is too long for a dispatch, or the longest axis of c where a dispatch would run too long. */
static cr_status multiply(gpu *g, const product *q, const cr_array t[]) {
    const int operands = q->bias ? 4 : 3, K = q->batch + 2;
    int axis = t[1].shape[q->batch + 1] > MOST_K ? K : -1;
    int64_t reach = -1, n = t[1].shape[q->batch + 1];
    size_t at[4];
    for (int k = 0; k < operands; k++) {
        if (cr_gpu_window(g, gpu_buffer_of(&t[k]), cr_gpu_span_of(t[k].offset, t[k].ndim, t[k].shape, t[k].strides),
                          t[k].dtype, &at[k]) ||
            axis == K)
            continue;
        for (int i = 0; i <= K; i++) {
            const int d = axis_of(q, k, i);
            const int64_t far = d < 0 ? -1 : (t[k].shape[d] - 1) * gpu_abs(t[k].strides[d]);
            if (far > reach) reach = far, axis = i, n = t[k].shape[d];
        }
    }
    if (axis < 0 && work_of(q, t) > GPU_SPLIT * g->most_work) {
        axis = 0;
        for (int i = 1; i < q->batch + 2; i++) if (t->shape[i] > t->shape[axis]) axis = i;
        n = t->shape[axis];
    }
    if (axis < 0) return dispatch_product(g, q, t, at);
    if (n == 1) return cr_gpu_fail_window(g, "matmul", gpu_buffer_of(t)->bytes);
    cr_array half[2][4];
    product then = *q;
    const int64_t first = n > MOST_K && axis == K ? MOST_K : n / 2;
    for (int k = 0; k < operands; k++) {
        const int d = axis_of(q, k, axis);
        half[0][k] = half[1][k] = t[k];
        if (d < 0 || t[k].shape[d] == 1) continue;
        half[0][k].shape[d] = first;
        half[1][k].shape[d] = n - first;
        half[1][k].offset += first * t[k].strides[d];
    }
    cr_status status = multiply(g, q, half[0]);
    if (axis == K) then.add = true, then.bias = false;
    return status == CR_OK ? multiply(g, &then, half[1]) : status;
}

static bool nearer(int64_t stride, int64_t other) { return gpu_abs(stride) < gpu_abs(other); }

/* An operand in the buffer of the result cannot be bound together with it: WebGPU forbids reading
 * and writing a buffer in one dispatch. */
static bool apart(const cr_array *c, const cr_array *t) { return !t || t->storage != c->storage; }

cr_status cr_gpu_matmul(const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    const int how = args->how;
    const cr_dtype dt = a->dtype;
    if (cr_gpu_lacks("matmul", c)) return cr_error_status();
    if (!c->numel) return CR_OK;
    if (!apart(c, a) || !apart(c, b) || !apart(c, bias))
        return cr_gpu_cannot("matmul", c->dev, "into the memory of an operand");
    gpu *g = cr_gpu_enter("matmul", c->dev);
    if (!g) return cr_error_status();
    product q = {.id = 'm',
                 .dtype = dt,
                 .of_c = c->dtype,
                 .acc = cr_dtype_is_float(dt)                 ? CR_F32
                        : dt == CR_U64 || dt == CR_I64        ? dt
                        : cr_dtype_kind(dt) == CR_KIND_SIGNED ? CR_I32
                                                              : CR_U32,
                 .add = (how & CR_MATMUL_ADD) != 0,
                 .bias = bias != NULL,
                 .bf16 = how & CR_MATMUL_BF16 && dt == CR_F32,
                 .batch = c->ndim - 2};
    q.along_k[0] = nearer(a->strides[q.batch + 1], a->strides[q.batch]);
    q.along_k[1] = nearer(b->strides[q.batch], b->strides[q.batch + 1]);
    if (g->dev.software && !cr_wgsl_wide(q.acc)) {
        for (q.rows = ROWS; q.rows > 2 && q.rows / 2 >= c->shape[q.batch]; q.rows /= 2) {}
        q.along_k[0] = q.along_k[1] = false;        /* not used: one kernel serves all */
    }
    return cr_gpu_leave(g, multiply(g, &q, (const cr_array[]){*c, *a, *b, bias ? *bias : *c}));
}
