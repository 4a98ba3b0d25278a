/* reduce.c - x (M, R, N) -> y (M, N), in one stage or two: where R is long, each of C parts of it is reduced first, (M, R, N) -> (M, C, N).
 *
 * Either a workgroup has one result, its invocations every 256th element and then a tree over them; or, where R is short or the columns
 * lie side by side, an invocation has one.  Cuts and trees depend on the shape alone, so the same numbers are added in the same order. */
#include "wgsl.h"

#include <string.h>

enum {
    ALONE = 4096, TOGETHER = 64 * GPU_GROUP,        /* elements that one invocation, and one workgroup, reduces in one stage */
    BUSY = 1 << 14                                  /* invocations that are enough to fill a GPU */
};

typedef struct kernel {
    int family;
    cr_reduce_kind kind; cr_reduce_map map;
    cr_dtype from, acc, to;
    int alone, deviation;                           /* one invocation a result; the sums of each row are there */
} kernel;

typedef struct stage {                              /* of a reduction */
    const char *op;
    kernel how;
    double power;
    cr_slab at;
    int64_t offset, parts;                          /* of x, in elements; of R */
} stage;

static cr_dtype accumulator(const cr_reduce_how *how, cr_dtype x, cr_dtype y) {
    if (how->map == CR_MAP_NONZERO) return cr_dtype_is_float(y) ? CR_U32 : y;
    if (cr_dtype_is_float(x)) return CR_F32;
    return how->kind >= CR_REDUCE_MAX ? x : cr_dtype_is_float(y) ? CR_F32 : y;
}

/* ---- text */
static const char *identity(const kernel *h) {
    const bool is_signed = cr_dtype_kind(h->acc) == CR_KIND_SIGNED, wide = wgsl_wide(h->acc), most = h->kind == CR_REDUCE_MIN;
    if (h->map == CR_MAP_NONZERO && h->kind >= CR_REDUCE_MAX) return wide ? (most ? "vec2<u32>(1u, 0u)" : "vec2<u32>(0u)") : is_signed ? (most ? "1" : "0") : most ? "1u" : "0u";
    if (h->kind < CR_REDUCE_MAX) {
        const bool one = h->kind == CR_REDUCE_PROD;
        return cr_dtype_is_float(h->acc) ? (one ? "1.0" : "0.0") : wide ? (one ? "vec2<u32>(1u, 0u)" : "vec2<u32>(0u)") : is_signed ? (one ? "1" : "0") : one ? "1u" : "0u";
    }
    if (cr_dtype_is_float(h->acc)) return most ? "inf()" : "-inf()";
    if (wide) return is_signed ? (most ? "vec2<u32>(~0u, 0x7fffffffu)" : "vec2<u32>(0u, 0x80000000u)") : most ? "vec2<u32>(~0u)" : "vec2<u32>(0u)";
    return is_signed ? (most ? "2147483647" : "bitcast<i32>(0x80000000u)") : most ? "0xffffffffu" : "0u";
}

static void add_join(wgsl *w, const kernel *h) {
    static const char *const plain[] = {"a + b", "a * b", "max(a, b)", "min(a, b)"}, *const floats[] = {"a + b", "a * b", "f_max(a, b)", "f_min(a, b)"};
    static const char *const longs[2][4] = {{"add64(a, b)", "mul64(a, b)", "select(a, b, less_u64(a, b))", "select(a, b, less_u64(b, a))"},
                                            {"add64(a, b)", "mul64(a, b)", "select(a, b, less_i64(a, b))", "select(a, b, less_i64(b, a))"}};
    const char *const *text = cr_dtype_is_float(h->acc) ? floats : wgsl_wide(h->acc) ? longs[h->acc == CR_I64] : plain;
    wgsl_add(w, "fn join(a: %s, b: %s) -> %s { return %s; }\n", wgsl_type(h->acc), wgsl_type(h->acc), wgsl_type(h->acc), text[h->kind]);
}

static expr mapped(const kernel *h, const char *x) {
    const expr v = wgsl_cast(h->acc, h->from, x);
    switch (h->map) {
        case CR_MAP_NONZERO: return wgsl_cast(h->acc, CR_BOOL, wgsl_cast(CR_BOOL, h->from, x).s);
        case CR_MAP_ABS: return expr_of("abs(%s)", v.s);
        case CR_MAP_SQUARE: return expr_of("%s * %s", v.s, v.s);
        case CR_MAP_POWER: return expr_of("f_pow(abs(%s), bitcast<f32>(p[3].y))", v.s);
        case CR_MAP_NUMBER: return expr_of("select(%s, 0.0, is_nan(%s))", v.s, v.s);
        case CR_MAP_DEVIATION: return expr_of("(%s - mean) * (%s - mean)", v.s, v.s);
        default: return v;
    }
}

/* p[0]: 0, M, R, N   p[1]: offset, strides of M, R, N   p[2]: parts, elements of a part, offset of y, results   p[3]: R as f32, power */
static void write(wgsl *w, const void *how) {
    const kernel *h = how;
    const char *type = wgsl_type(h->acc);
    wgsl_binding(w, 0, true, wgsl_lanes(h->to) > 1);
    wgsl_binding(w, 1, false, false);
    if (h->deviation) wgsl_binding(w, 2, false, false);
    add_join(w, h);
    if (!h->alone) wgsl_add(w, "var<workgroup> tree: array<%s, %d>;\n", type, GPU_GROUP);
    wgsl_main(w, GPU_GROUP);
    wgsl_add(w, "let result = %s;\nlet mine = result < p[2].w;\n", h->alone ? "i" : "group");
    wgsl_add(w, "let n = result %% p[0].w; let part = (result / p[0].w) %% p[2].x; let m = result / p[0].w / p[2].x;\n"
             "let start = p[1].x + m * p[1].y + n * p[1].w; let first = part * p[2].y; let end = select(0u, min(first + p[2].y, p[0].z), mine);\n");
    if (h->deviation) wgsl_add(w, "let mean = bitcast<f32>(words2(select(0u, m * p[0].w + n, mine))) / bitcast<f32>(p[3].x);\n");
    wgsl_add(w, "var a: %s = %s;\n", type, identity(h));
    wgsl_add(w, "for (var r = first%s; r < end; r += %du) {\nlet at = start + r * p[1].z;\nlet x = %s;\na = join(a, %s);\n}\n", h->alone ? "" : " + lane",
             h->alone ? 1 : GPU_GROUP, wgsl_load(1, h->from, "at").s, mapped(h, "x").s);
    if (!h->alone) {
        wgsl_add(w, "tree[lane] = a;\n");
        for (int half = GPU_GROUP / 2; half; half /= 2) wgsl_add(w, "workgroupBarrier();\nif lane < %du { tree[lane] = join(tree[lane], tree[lane + %du]); }\n", half, half);
        wgsl_add(w, "a = tree[0];\n");
    }
    wgsl_add(w, "if mine%s {\nlet y = %s;\nlet o = p[2].z + result;\n", h->alone ? "" : " && lane == 0u", wgsl_cast(h->to, h->acc, "a").s);
    wgsl_store(w, 0, h->to, "o", "y");
    wgsl_add(w, "}\n}\n");
}

/* ---- one stage */
static cr_status run(gpu *g, const stage *s, gpu_buffer *y, int64_t y_offset, gpu_buffer *x, gpu_buffer *sums) {
    const int64_t results = s->at.M * s->parts * s->at.N;
    const float length = (float)s->at.R, power = (float)s->power;
    uint32_t length_bits, power_bits;
    memcpy(&length_bits, &length, 4);
    memcpy(&power_bits, &power, 4);
    const uint32_t part = (uint32_t)((s->at.R + s->parts - 1) / s->parts);
    const gpu_call c = {
        .op = s->op, .write = write, .how = &s->how, .how_bytes = sizeof s->how, .buffers = s->how.deviation ? 3 : 2, .buffer = {y, x, sums}, .written = 1,
        .q = {.n = 16, .words = {
            0, (uint32_t)s->at.M, (uint32_t)s->at.R, (uint32_t)s->at.N, (uint32_t)s->offset, (uint32_t)s->at.strides[0], (uint32_t)s->at.strides[1],
            (uint32_t)s->at.strides[2], (uint32_t)s->parts, part, (uint32_t)y_offset, (uint32_t)results, length_bits, power_bits}},
        .invocations = (uint64_t)results * (s->how.alone ? 1 : GPU_GROUP)};
    return gpu_run(g, &c);
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }

/* How many invocations share a result, and parts of R, by the shape alone. */
static void cut(stage *s) {
    const cr_slab *at = &s->at;
    const int64_t results = at->M * at->N;
    s->how.alone = at->R <= 64 || (at->N >= 32 && distance(at->strides[2]) < distance(at->strides[1]));
    const int64_t least = (at->R + (s->how.alone ? ALONE : TOGETHER) - 1) / (s->how.alone ? ALONE : TOGETHER), busy = s->how.alone ? BUSY / results : 64 / results;
    s->parts = at_most(busy, at->R / (s->how.alone ? 64 : 4 * GPU_GROUP));
    if (s->parts < least) s->parts = least;
    if (s->parts < 1) s->parts = 1;
}

static cr_status reduce_slab(gpu *g, stage *s, gpu_buffer *y, int64_t y_offset, gpu_buffer *x, gpu_buffer *sums) {
    cut(s);
    if (s->parts == 1) return run(g, s, y, y_offset, x, sums);
    stage first = *s, then = *s;
    const cr_dtype held = wgsl_wide(s->how.acc) || cr_dtype_is_float(s->how.acc) ? s->how.acc : cr_dtype_kind(s->how.acc) == CR_KIND_SIGNED ? CR_I32 : CR_U32;      /* parts in whole words */
    first.how.to = held;
    then.how.from = held;
    then.how.map = s->how.map == CR_MAP_NONZERO && s->how.kind >= CR_REDUCE_MAX ? CR_MAP_NONZERO : CR_MAP_SAME;
    then.how.deviation = false;
    then.offset = 0;
    then.at = (cr_slab){s->at.M, s->parts, s->at.N, {s->parts * s->at.N, s->at.N, 1}};
    gpu_buffer *parts = gpu_buffer_take(g, s->op, (size_t)(s->at.M * s->parts * s->at.N) * cr_dtype_size(held));
    if (!parts) return cr_error_status();
    cr_status status = run(g, &first, parts, 0, x, sums);
    if (status == CR_OK) status = reduce_slab(g, &then, y, y_offset, parts, NULL);
    gpu_buffer_give(g, parts);
    return status;
}

/* The sums of each row first, then the squares of what is left without the mean. */
static cr_status reduce_deviations(gpu *g, stage *s, cr_tensor *y, const cr_tensor *x) {
    stage sum = *s;
    sum.how.map = CR_MAP_SAME;
    sum.how.kind = CR_REDUCE_SUM;
    sum.how.to = CR_F32;
    gpu_buffer *sums = gpu_buffer_take(g, s->op, (size_t)(s->at.M * s->at.N) * 4);
    if (!sums) return cr_error_status();
    cr_status status = reduce_slab(g, &sum, sums, 0, gpu_buffer_of(x), NULL);
    s->how.deviation = true;
    if (status == CR_OK) status = reduce_slab(g, s, gpu_buffer_of(y), y->offset, gpu_buffer_of(x), sums);
    gpu_buffer_give(g, sums);
    return status;
}

cr_status gpu_reduce(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, const cr_slab *at) {
    static const char *const names[] = {"sum", "prod", "max", "min"};
    const char *op = names[how->kind];
    if (gpu_lacks(op, x) || gpu_lacks(op, y)) return cr_error_status();
    if (!at->M || !at->N) return CR_OK;
    gpu *g = gpu_enter(op, y->dev);
    if (!g) return cr_error_status();
    const cr_dtype acc = accumulator(how, (cr_dtype)x->dtype, (cr_dtype)y->dtype);
    stage s = {.op = op, .how = {'r', how->kind, how->map, (cr_dtype)x->dtype, acc, (cr_dtype)y->dtype, false, false}, .power = how->p, .at = *at, .offset = x->offset};
    return gpu_leave(g, how->map == CR_MAP_DEVIATION ? reduce_deviations(g, &s, y, x) : reduce_slab(g, &s, gpu_buffer_of(y), y->offset, gpu_buffer_of(x), NULL));
}
