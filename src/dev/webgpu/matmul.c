/* matmul.c - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)].  Sums go along K in order, whatever the shape.
 *
 * On a GPU a workgroup of SIDE x SIDE invocations has a square of EDGE x EDGE results, an invocation TILE x TILE of them in registers.
 * Step by step, DEPTH of K at a time, the workgroup brings its part of a and of b into shared memory: each element read from there once
 * serves TILE products, each read from the tensor EDGE.
 *
 * On a processor that plays a GPU shared memory is slower than its cache, and every barrier a change of threads: there an invocation reads
 * the tensors themselves, for up to ROWS x TILE results.  Neighbours have the same rows, so that an element of a is read once for as many
 * of them as the processor computes at a time (bench/webgpu). */
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    TILE = 4,                                       /* of a vec4 */
    SIDE = 16, EDGE = TILE * SIDE, DEPTH = 16,
    ROWS = 8, UNROLLED = 4,                         /* without shared memory: SIDE invocations of a workgroup have as many rows, and EDGE columns */
    MOST_K = 131072                                 /* of one dispatch: lavapipe ends an invocation after 65535 turns of its loops; longer sums go on in the next (half floats are rounded between, there as where memory is cut) */
};

typedef struct product {
    cr_dtype dtype, acc;
    bool add, bias, bf16;
    bool along_k[2];                                /* a, b: neighbours in memory are neighbours along K */
    int rows;                                       /* of a workgroup, without shared memory; 0: with it */
    int batch;                                      /* axes before the last two */
} product;

/* Parameters: 0, M, N, K, -, tiles in a row, tiles in a matrix, offset of bias, stride of bias, workgroups; then for a, b, c: offset, strides of the two axes;
 * then for each axis of the batch: size, strides of a, b, c. */
enum { OF_A = 12, OF_B = 15, OF_C = 18, OF_BATCH = 21 };

static expr p_at(int i) { return cr_wgsl_parameter(i); }

static void add_batch(wgsl *w, const product *q) {
    static const int of[] = {OF_A, OF_B, OF_C};
    for (int k = 0; k < 3; k++) cr_wgsl_add(w, "var %c0 = %s;\n", "abc"[k], p_at(of[k]).s);
    cr_wgsl_add(w, "var rest = group / %s;\n", p_at(6).s);
    for (int d = q->batch - 1; d >= 0; d--) {
        const int at = OF_BATCH + 4 * d;
        cr_wgsl_add(w, "{ let i = rest %% %s; rest /= %s; ", p_at(at).s, p_at(at).s);
        for (int k = 0; k < 3; k++) cr_wgsl_add(w, "%c0 += i * %s; ", "abc"[k], p_at(at + 1 + k).s);
        cr_wgsl_add(w, "}\n");
    }
}

/* Element of a or b as a term of the sum. */
static expr factor(const product *q, int binding, const char *at) {
    const expr x = cr_wgsl_cast(q->acc, q->dtype, cr_wgsl_load(binding, q->dtype, at).s);
    return q->bf16 ? cr_expr_of("bf16_of(to_bf16(%s), 0u)", x.s) : x;
}

/* Four neighbours along M or N: what one invocation reads from shared memory at once. */
static const char *four(const product *q) { return cr_dtype_is_float(q->acc) ? "vec4<f32>" : cr_wgsl_wide(q->acc) ? "array<vec2<u32>, 4>" : q->acc == CR_I32 ? "vec4<i32>" : "vec4<u32>"; }

/* The result of row m<y>, column n<x> of the invocation. */
static void add_result(wgsl *w, const product *q, int y, int x) {
    const bool wide = cr_wgsl_wide(q->acc);
    cr_wgsl_add(w, "if m%d < p[0].y && n%d < p[0].z {\nlet o = c0 + m%d * %s + n%d * %s;\nvar v = s%d[%d];\n", y, x, y, p_at(OF_C + 1).s, x, p_at(OF_C + 2).s, y, x);
    if (q->bias) {
        cr_wgsl_add(w, "{ let at = %s + n%d * %s; let t = %s; ", p_at(7).s, x, p_at(8).s, cr_wgsl_cast(q->acc, q->dtype, cr_wgsl_load(3, q->dtype, "at").s).s);
        cr_wgsl_add(w, wide ? "v = add64(v, t); }\n" : "v += t; }\n");
    }
    if (q->add) cr_wgsl_add(w, wide ? "v = add64(v, %s);\n" : "v += %s;\n", cr_wgsl_cast(q->acc, q->dtype, cr_wgsl_load(0, q->dtype, "o").s).s);
    cr_wgsl_add(w, "let r = %s;\n", cr_wgsl_cast(q->dtype, q->acc, "v").s);
    cr_wgsl_store(w, 0, q->dtype, "o", "r");
    cr_wgsl_add(w, "}\n");
}

/* Shared memory of operand k (0: a, 1: b) becomes its part (DEPTH, EDGE) from row top or column left and k0 on; zeros beyond the edges. */
static void add_part(wgsl *w, const product *q, int k) {
    const char *of = k ? "b" : "a", *first = k ? "left" : "top";
    const int edge_stride = k ? OF_B + 2 : OF_A + 1, k_stride = k ? OF_B + 1 : OF_A + 2;
    for (int i = 0; i < DEPTH * EDGE / (SIDE * SIDE); i++) {
        cr_wgsl_add(w, "{ let t = lane + %du; ", i * SIDE * SIDE);
        cr_wgsl_add(w, q->along_k[k] ? "let d = t %% %du; let e = t / %du; " : "let e = t %% %du; let d = t / %du; ", q->along_k[k] ? DEPTH : EDGE, q->along_k[k] ? DEPTH : EDGE);
        cr_wgsl_add(w, "let inside = k0 + d < p[0].w && %s + e < p[0].%c; let at = select(%s0, %s0 + (%s + e) * %s + (k0 + d) * %s, inside); ", first, k ? 'z' : 'y', of, of, first,
                 p_at(edge_stride).s, p_at(k_stride).s);
        cr_wgsl_add(w, "let x = %s; part_%s[d * %du + e / 4u][e %% 4u] = select(%s(), x, inside); }\n", factor(q, k + 1, "at").s, of, SIDE, cr_wgsl_type(q->acc));
    }
}

static void add_shared(wgsl *w, const product *q) {
    cr_wgsl_add(w, "let row = lane / %du; let column = lane %% %du;\n", SIDE, SIDE);
    for (int i = 0; i < TILE; i++) cr_wgsl_add(w, "let m%d = top + %du * row + %du; let n%d = left + %du * column + %du;\n", i, TILE, i, i, TILE, i);
    cr_wgsl_add(w, "for (var k0 = 0u; k0 < p[0].w; k0 += %du) {\n", DEPTH);
    for (int k = 0; k < 2; k++) add_part(w, q, k);
    cr_wgsl_add(w, "workgroupBarrier();\nfor (var d = 0u; d < %du; d += %du) {\n", DEPTH, UNROLLED);
    for (int d = 0; d < UNROLLED; d++) {
        cr_wgsl_add(w, "{ let x = part_a[(d + %du) * %du + row]; let y = part_b[(d + %du) * %du + column];\n", d, SIDE, d, SIDE);
        for (int y = 0; y < TILE; y++) {
            if (!cr_wgsl_wide(q->acc)) cr_wgsl_add(w, "s%d += x[%d] * y;\n", y, y);
            for (int x = 0; cr_wgsl_wide(q->acc) && x < TILE; x++) cr_wgsl_add(w, "s%d[%d] = add64(s%d[%d], mul64(x[%d], y[%d]));\n", y, x, y, x, y, x);
        }
        cr_wgsl_add(w, "}\n");
    }
    cr_wgsl_add(w, "}\nworkgroupBarrier();\n}\n");
}

/* The sums go on at k, k + 1 ... */
static void add_direct_steps(wgsl *w, const product *q, int steps) {
    for (int d = 0; d < steps; d++) {
        cr_wgsl_add(w, "{ let a_at = (k + %du) * %s; let b_at = (k + %du) * %s;\nlet y = %s(", d, p_at(OF_A + 2).s, d, p_at(OF_B + 1).s, four(q));
        for (int x = 0; x < TILE; x++) cr_wgsl_add(w, "%s%s", factor(q, 2, cr_expr_of("(b_at + b_of%d)", x).s).s, x < TILE - 1 ? ", " : ");\n");
        for (int y = 0; y < q->rows; y++) cr_wgsl_add(w, "s%d += %s * y;\n", y, factor(q, 1, cr_expr_of("(a_at + a_of%d)", y).s).s);
        cr_wgsl_add(w, "}\n");
    }
}

/* Beyond the edges the last row and the last column are read again: their sums are not kept. */
static void add_direct(wgsl *w, const product *q) {
    for (int y = 0; y < q->rows; y++) cr_wgsl_add(w, "let m%d = top + %du; let a_of%d = a0 + min(m%d, p[0].y - 1u) * %s;\n", y, y, y, y, p_at(OF_A + 1).s);
    for (int x = 0; x < TILE; x++) cr_wgsl_add(w, "let n%d = left + lane + %du; let b_of%d = b0 + min(n%d, p[0].z - 1u) * %s;\n", x, x * SIDE, x, x, p_at(OF_B + 2).s);
    cr_wgsl_add(w, "var k = 0u;\nfor (; k + %du <= p[0].w; k += %du) {\n", UNROLLED, UNROLLED);
    add_direct_steps(w, q, UNROLLED);
    cr_wgsl_add(w, "}\nfor (; k < p[0].w; k++) {\n");
    add_direct_steps(w, q, 1);
    cr_wgsl_add(w, "}\n");
}

static wgsl text_of(const gpu *g, const product *q) {
    const char *type = four(q);
    const int rows = q->rows ? q->rows : EDGE;
    wgsl w = wgsl_for(g);
    cr_wgsl_binding(&w, 0, true, cr_wgsl_lanes(q->dtype) > 1);
    for (int b = 1; b < (q->bias ? 4 : 3); b++) cr_wgsl_binding(&w, b, false, false);
    if (!q->rows) cr_wgsl_add(&w, "var<workgroup> part_a: array<%s, %d>;\nvar<workgroup> part_b: array<%s, %d>;\n", type, DEPTH * SIDE, type, DEPTH * SIDE);
    cr_wgsl_main(&w, q->rows ? SIDE : SIDE * SIDE);
    cr_wgsl_add(&w, "if group >= %s { return; }\n", p_at(9).s);
    add_batch(&w, q);
    cr_wgsl_add(&w, "let tile = group %% %s;\nlet top = tile / %s * %du; let left = tile %% %s * %du;\n", p_at(6).s, p_at(5).s, rows, p_at(5).s, EDGE);
    for (int y = 0; y < (q->rows ? q->rows : TILE); y++) cr_wgsl_add(&w, "var s%d = %s();\n", y, type);
    if (q->rows) add_direct(&w, q);
    else add_shared(&w, q);
    for (int y = 0; y < (q->rows ? q->rows : TILE); y++)
        for (int x = 0; x < TILE; x++) add_result(&w, q, y, x);
    cr_wgsl_add(&w, "}\n");
    return w;
}

static const gpu_pipeline *pipeline_of(gpu *g, const product *q) {
    gpu_key k;
    k.n = 0, k.full = false;
    const unsigned char head[] = {'m', (unsigned char)q->dtype, q->add, q->bias, q->bf16, q->along_k[0], q->along_k[1], (unsigned char)q->rows, (unsigned char)q->batch};
    cr_gpu_key_add(&k, head, sizeof head);
    const gpu_pipeline *p = cr_gpu_pipeline_find(g, &k);
    if (p) return p;
    wgsl w = text_of(g, q);
    p = cr_gpu_pipeline_from(g, "matmul", &k, q->bias ? 4 : 3, 1, &w);
    return p;
}

static int64_t batch_stride(const cr_array *t, int d) { return t->shape[d] == 1 ? 0 : t->strides[d]; }

/* t: c, a, b, and the bias where there is one; at: where their windows begin */
static cr_status run(gpu *g, const product *q, const cr_array t[], const size_t at[]) {
    const int64_t M = t->shape[q->batch], N = t->shape[q->batch + 1], rows = q->rows ? q->rows : EDGE, across = (N + EDGE - 1) / EDGE, tiles = across * ((M + rows - 1) / rows);
    const int64_t size = (int64_t)cr_dtype_size(q->dtype);
    static const int places[] = {OF_C, OF_A, OF_B};
    gpu_parameters r = {.n = OF_BATCH, .words = {0, (uint32_t)M, (uint32_t)N, (uint32_t)t[1].shape[q->batch + 1], 0, (uint32_t)across, (uint32_t)tiles}};
    if (q->bias) r.words[7] = (uint32_t)(t[3].offset - (int64_t)at[3] / size), r.words[8] = (uint32_t)t[3].strides[0];
    int64_t matrices = 1;
    gpu_buffer *buffers[4];
    for (int k = 0; k < (q->bias ? 4 : 3); k++) buffers[k] = gpu_buffer_of(&t[k]);
    for (int k = 0; k < 3; k++) {
        r.words[places[k]] = (uint32_t)(t[k].offset - (int64_t)at[k] / size);
        for (int d = 0; d < 2; d++) r.words[places[k] + 1 + d] = (uint32_t)t[k].strides[q->batch + d];
    }
    for (int d = 0; d < q->batch; d++) {
        matrices *= t->shape[d];
        gpu_push(&r, (uint32_t)t->shape[d]);
        for (int k = 0; k < 3; k++) gpu_push(&r, (uint32_t)batch_stride(&t[(k + 1) % 3], d));
    }
    r.words[9] = (uint32_t)(matrices * tiles);
    const gpu_pipeline *p = pipeline_of(g, q);
    return p ? cr_gpu_dispatch_at(g, "matmul", p, buffers, at, &r, (uint64_t)(matrices * tiles)) : cr_error_status();
}

/* Axes of a product: its batch, M, N, K.  Which one it is of c, a, b, bias (0 to 3); -1: none */
static int axis_of(const product *q, int operand, int axis) {
    const int m = q->batch, n = m + 1, k = m + 2;
    if (operand == 3) return axis == n ? 0 : -1;
    if (axis < m) return axis;
    if (operand == 0) return axis == k ? -1 : axis;
    return operand == 1 ? (axis == m ? m : axis == k ? n : -1) : axis == k ? m : axis == n ? n : -1;
}

/* Cut where an operand that does not fit into a window reaches furthest, and where K is too long for a dispatch. */
static cr_status multiply(gpu *g, const product *q, const cr_array t[]) {
    const int operands = q->bias ? 4 : 3, K = q->batch + 2;
    int axis = t[1].shape[q->batch + 1] > MOST_K ? K : -1;
    int64_t reach = -1, n = t[1].shape[q->batch + 1];
    size_t at[4];
    for (int k = 0; k < operands; k++) {
        if (cr_gpu_window(g, gpu_buffer_of(&t[k]), cr_gpu_span_of(t[k].offset, t[k].ndim, t[k].shape, t[k].strides), q->dtype, &at[k]) || axis == K) continue;
        for (int i = 0; i <= K; i++) {
            const int d = axis_of(q, k, i);
            const int64_t far = d < 0 ? -1 : (t[k].shape[d] - 1) * (t[k].strides[d] < 0 ? -t[k].strides[d] : t[k].strides[d]);
            if (far > reach) reach = far, axis = i, n = t[k].shape[d];
        }
    }
    if (axis < 0) return run(g, q, t, at);
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

static bool nearer(int64_t stride, int64_t other) { return (stride < 0 ? -stride : stride) < (other < 0 ? -other : other); }

/* Operands of one buffer with the result cannot be bound beside it: read and written at once. */
static bool apart(const cr_array *c, const cr_array *t) { return !t || t->storage != c->storage; }

cr_status cr_gpu_matmul(const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    const int how = args->how;
    const cr_dtype dt = c->dtype;
    if (cr_gpu_lacks("matmul", c)) return cr_error_status();
    if (!c->numel) return CR_OK;
    if (!apart(c, a) || !apart(c, b) || !apart(c, bias)) return cr_gpu_cannot("matmul", c->dev, "into the memory of an operand");
    gpu *g = cr_gpu_enter("matmul", c->dev);
    if (!g) return cr_error_status();
    product q = {.dtype = dt, .acc = cr_dtype_is_float(dt) ? CR_F32 : dt == CR_U64 || dt == CR_I64 ? dt : cr_dtype_kind(dt) == CR_KIND_SIGNED ? CR_I32 : CR_U32,
                 .add = how & CR_MATMUL_ADD, .bias = bias, .bf16 = how & CR_MATMUL_BF16 && dt == CR_F32, .batch = c->ndim - 2};
    q.along_k[0] = nearer(a->strides[q.batch + 1], a->strides[q.batch]);
    q.along_k[1] = nearer(b->strides[q.batch], b->strides[q.batch + 1]);
    if (g->dev.software && !cr_wgsl_wide(q.acc)) {
        for (q.rows = ROWS; q.rows / 2 >= c->shape[q.batch]; q.rows /= 2) {}
        q.along_k[0] = q.along_k[1] = false;        /* they are not asked for: one kernel serves all */
    }
    return cr_gpu_leave(g, multiply(g, &q, (const cr_array[]){*c, *a, *b, bias ? *bias : *c}));
}
