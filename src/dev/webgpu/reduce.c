/* reduce.c - x (M, R, N) -> y (M, N), in one stage or two: where R is long, each of C parts of it is reduced first, (M, R, N) -> (M, C, N).
 *
 * Either a workgroup has one result, its invocations every 256th element and then a tree over them; or, where R is short or the columns
 * lie side by side, an invocation has one.  Cuts and trees depend on the shape alone, so the same numbers are added in the same order. */
#include "wgsl.h"

#include <stdlib.h>
#include <string.h>

enum {
    ALONE = 4096, TOGETHER = 64 * GPU_GROUP,        /* elements that one invocation, and one workgroup, reduces in one stage */
    BUSY = 1 << 14                                  /* invocations that are enough to fill a GPU */
};

typedef struct stage {                              /* of a reduction */
    const char *op;
    cr_reduce_how how;
    cr_dtype from, acc, to;
    cr_slab at;
    int64_t offset, parts;                          /* of x, in elements; of R */
    int64_t length;                                 /* R of the whole reduction */
    gpu_buffer *x, *y, *sums;                       /* sums: of each row, for its mean */
    int64_t y_offset, sums_offset;
    bool alone;                                     /* one invocation a result */
    bool deviation;                                 /* the sums of each row are there */
} stage;

static cr_dtype accumulator(const cr_reduce_how *how, cr_dtype x, cr_dtype y) {
    if (how->map == CR_MAP_NONZERO) return cr_dtype_is_float(y) ? CR_U32 : y;
    if (cr_dtype_is_float(x)) return CR_F32;
    return how->kind >= CR_REDUCE_MAX ? x : cr_dtype_is_float(y) ? CR_F32 : y;
}

/* ---- text */
static const char *identity(const stage *s) {
    const bool is_signed = cr_dtype_kind(s->acc) == CR_KIND_SIGNED, wide = cr_wgsl_wide(s->acc), most = s->how.kind == CR_REDUCE_MIN;
    if (s->how.map == CR_MAP_NONZERO && s->how.kind >= CR_REDUCE_MAX) return wide ? (most ? "vec2<u32>(1u, 0u)" : "vec2<u32>(0u)") : is_signed ? (most ? "1" : "0") : most ? "1u" : "0u";
    if (s->how.kind < CR_REDUCE_MAX) {
        const bool one = s->how.kind == CR_REDUCE_PROD;
        return cr_dtype_is_float(s->acc) ? (one ? "1.0" : "0.0") : wide ? (one ? "vec2<u32>(1u, 0u)" : "vec2<u32>(0u)") : is_signed ? (one ? "1" : "0") : one ? "1u" : "0u";
    }
    if (cr_dtype_is_float(s->acc)) return most ? "inf()" : "-inf()";
    if (wide) return is_signed ? (most ? "vec2<u32>(~0u, 0x7fffffffu)" : "vec2<u32>(0u, 0x80000000u)") : most ? "vec2<u32>(~0u)" : "vec2<u32>(0u)";
    return is_signed ? (most ? "2147483647" : "bitcast<i32>(0x80000000u)") : most ? "0xffffffffu" : "0u";
}

static const char *join(const stage *s) {
    static const char *const plain[] = {"a + b", "a * b", "max(a, b)", "min(a, b)"}, *const floats[] = {"a + b", "a * b", "f_max(a, b)", "f_min(a, b)"};
    static const char *const longs[2][4] = {{"add64(a, b)", "mul64(a, b)", "select(a, b, less_u64(a, b))", "select(a, b, less_u64(b, a))"},
                                            {"add64(a, b)", "mul64(a, b)", "select(a, b, less_i64(a, b))", "select(a, b, less_i64(b, a))"}};
    return (cr_dtype_is_float(s->acc) ? floats : cr_wgsl_wide(s->acc) ? longs[s->acc == CR_I64] : plain)[s->how.kind];
}

static expr mapped(const stage *s, const char *x) {
    const expr v = cr_wgsl_cast(s->acc, s->from, x);
    switch (s->how.map) {
        case CR_MAP_NONZERO: return cr_wgsl_cast(s->acc, CR_BOOL, cr_wgsl_cast(CR_BOOL, s->from, x).s);
        case CR_MAP_ABS: return cr_expr_of("abs(%s)", v.s);
        case CR_MAP_SQUARE: return cr_expr_of("%s * %s", v.s, v.s);
        case CR_MAP_POWER: return cr_expr_of("f_pow(abs(%s), bitcast<f32>(p[3].y))", v.s);
        case CR_MAP_NUMBER: return cr_expr_of("select(%s, 0.0, is_nan(%s))", v.s, v.s);
        case CR_MAP_DEVIATION: return cr_expr_of("(%s - mean) * (%s - mean)", v.s, v.s);
        default: return v;
    }
}

/* p[0]: 0, M, R, N   p[1]: offset, strides of M, R, N   p[2]: parts, elements of a part, offset of y, results   p[3]: length as f32, power, offset of the sums */
static wgsl text_of(const gpu *g, const stage *s) {
    const char *type = cr_wgsl_type(s->acc);
    wgsl w = wgsl_for(g);
    cr_wgsl_binding(&w, 0, true, cr_wgsl_lanes(s->to) > 1);
    cr_wgsl_binding(&w, 1, false, false);
    if (s->deviation) cr_wgsl_binding(&w, 2, false, false);
    if (s->alone) cr_wgsl_add(&w, "fn join(a: %s, b: %s) -> %s { return %s; }\n", type, type, type, join(s));
    else cr_wgsl_tree(&w, "all_of", type, join(s));
    cr_wgsl_main(&w, GPU_GROUP);
    cr_wgsl_add(&w, "let result = %s;\nlet mine = result < p[2].w;\n", s->alone ? "i" : "group");
    cr_wgsl_add(&w, "let n = result %% p[0].w; let part = (result / p[0].w) %% p[2].x; let m = result / p[0].w / p[2].x;\n"
             "let start = p[1].x + m * p[1].y + n * p[1].w; let first = part * p[2].y; let end = select(0u, min(first + p[2].y, p[0].z), mine);\n");
    if (s->deviation) cr_wgsl_add(&w, "let mean = bitcast<f32>(words2(select(0u, p[3].z + m * p[0].w + n, mine))) / bitcast<f32>(p[3].x);\n");
    cr_wgsl_add(&w, "var a: %s = %s;\n", type, identity(s));
    cr_wgsl_add(&w, "for (var r = first%s; r < end; r += %du) {\nlet at = start + r * p[1].z;\nlet x = %s;\na = %s(a, %s);\n}\n", s->alone ? "" : " + lane",
             s->alone ? 1 : GPU_GROUP, cr_wgsl_load(1, s->from, "at").s, s->alone ? "join" : "all_of_join", mapped(s, "x").s);
    if (!s->alone) cr_wgsl_add(&w, "a = all_of(lane, a);\n");
    cr_wgsl_add(&w, "if mine%s {\nlet y = %s;\nlet o = p[2].z + result;\n", s->alone ? "" : " && lane == 0u", cr_wgsl_cast(s->to, s->acc, "a").s);
    cr_wgsl_store(&w, 0, s->to, "o", "y");
    cr_wgsl_add(&w, "}\n}\n");
    return w;
}

/* ---- one stage */
static gpu_span span_of(const stage *s) { return cr_gpu_span_of(s->offset, 3, (int64_t[]){s->at.M, s->at.R, s->at.N}, s->at.strides); }

/* Do x, y and the sums each fit into a window?  at: of y, x, sums */
static bool fits(const gpu *g, const stage *s, size_t at[3]) {
    const int64_t rows = s->at.M * s->at.N;
    at[2] = 0;
    return cr_gpu_window(g, s->y, (gpu_span){s->y_offset, s->y_offset + rows * s->parts}, s->to, &at[0]) && cr_gpu_window(g, s->x, span_of(s), s->from, &at[1]) &&
           (!s->sums || cr_gpu_window(g, s->sums, (gpu_span){s->sums_offset, s->sums_offset + rows}, CR_F32, &at[2]));
}

static uint32_t within(int64_t offset, size_t at, cr_dtype dt) { return (uint32_t)(offset - (int64_t)(at / cr_dtype_size(dt))); }

static cr_status run(gpu *g, const stage *s) {
    const int64_t results = s->at.M * s->parts * s->at.N;
    gpu_key k;
    k.n = 0, k.full = false;
    const unsigned char head[] = {'r', (unsigned char)s->how.kind, (unsigned char)s->how.map, (unsigned char)s->from, (unsigned char)s->acc, (unsigned char)s->to, s->alone};
    cr_gpu_key_add(&k, head, sizeof head);
    gpu_pipeline *p = cr_gpu_pipeline_find(g, &k);
    if (!p) {
        wgsl w = text_of(g, s);
        p = cr_gpu_pipeline_from(g, s->op, &k, s->deviation ? 3 : 2, 1, &w);
        if (!p) return cr_error_status();
    }
    const float length = (float)s->length, power = (float)s->how.p;
    uint32_t length_bits, power_bits;
    memcpy(&length_bits, &length, 4);
    memcpy(&power_bits, &power, 4);
    const uint32_t part = (uint32_t)((s->at.R + s->parts - 1) / s->parts);
    size_t at[3];
    if (!fits(g, s, at)) return cr_gpu_fail_window(g, s->op, s->y->bytes);
    const gpu_parameters q = {.n = 16, .words = {
        0, (uint32_t)s->at.M, (uint32_t)s->at.R, (uint32_t)s->at.N, within(s->offset, at[1], s->from), (uint32_t)s->at.strides[0], (uint32_t)s->at.strides[1],
        (uint32_t)s->at.strides[2], (uint32_t)s->parts, part, within(s->y_offset, at[0], s->to), (uint32_t)results, length_bits, power_bits, within(s->sums_offset, at[2], CR_F32)}};
    gpu_buffer *const buffers[] = {s->y, s->x, s->sums};
    return cr_gpu_dispatch_at(g, s->op, p, buffers, at, &q, (uint64_t)(s->alone ? (results + GPU_GROUP - 1) / GPU_GROUP : results));
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }

/* How many invocations share a result, and parts of R, by the shape alone. */
static void cut(stage *s) {
    const cr_slab *at = &s->at;
    const int64_t results = at->M * at->N;
    s->alone = at->R <= 64 || (at->N >= 32 && distance(at->strides[2]) < distance(at->strides[1]));
    const int64_t least = (at->R + (s->alone ? ALONE : TOGETHER) - 1) / (s->alone ? ALONE : TOGETHER), busy = s->alone ? BUSY / results : 64 / results;
    s->parts = at_most(busy, at->R / (s->alone ? 64 : 4 * GPU_GROUP));
    if (s->parts < least) s->parts = least;
    if (s->parts < 1) s->parts = 1;
}

static cr_status reduce_slab(gpu *g, stage s);

static cr_dtype held_by(const stage *s) {           /* parts in whole words */
    return cr_wgsl_wide(s->acc) || cr_dtype_is_float(s->acc) ? s->acc : cr_dtype_kind(s->acc) == CR_KIND_SIGNED ? CR_I32 : CR_U32;
}

static cr_status reduce_parts(gpu *g, const stage *s, gpu_buffer *parts, int64_t count) {
    stage then = *s;
    then.from = held_by(s);
    then.how.map = s->how.map == CR_MAP_NONZERO && s->how.kind >= CR_REDUCE_MAX ? CR_MAP_NONZERO : CR_MAP_SAME;
    then.deviation = false;
    then.sums = NULL;
    then.x = parts;
    then.offset = 0;
    then.at = (cr_slab){s->at.M, count, s->at.N, {count * s->at.N, s->at.N, 1}};
    return reduce_slab(g, then);
}

/* Two halves of rows, of columns of a single row, or of the length of a single row, whose results are then joined. */
static cr_status reduce_halves(gpu *g, const stage *s) {
    const cr_slab *at = &s->at;
    const int axis = at->M > 1 ? 0 : at->N > 1 && distance(at->strides[2]) * at->N >= distance(at->strides[1]) * at->R ? 2 : 1;
    stage half[2] = {*s, *s};
    const int64_t n = axis == 0 ? at->M : axis == 1 ? at->R : at->N, first = n / 2, results = axis == 0 ? first * at->N : first;
    if (n == 1) return cr_gpu_fail_window(g, s->op, s->x->bytes);
    for (int i = 0; i < 2; i++) *(axis == 0 ? &half[i].at.M : axis == 1 ? &half[i].at.R : &half[i].at.N) = i ? n - first : first;
    half[1].offset += first * at->strides[axis];
    gpu_buffer *parts = NULL;
    if (axis == 1) {
        if (!(parts = cr_gpu_buffer_take(g, s->op, 2 * (size_t)at->N * cr_dtype_size(held_by(s))))) return cr_error_status();
        for (int i = 0; i < 2; i++) half[i].y = parts, half[i].y_offset = i * at->N, half[i].to = held_by(s);
    } else {
        half[1].y_offset += results;
        half[1].sums_offset += results;
    }
    cr_status status = reduce_slab(g, half[0]);
    if (status == CR_OK) status = reduce_slab(g, half[1]);
    if (!parts) return status;
    if (status == CR_OK) status = reduce_parts(g, s, parts, 2);
    cr_gpu_buffer_give(g, parts);
    return status;
}

static cr_status reduce_slab(gpu *g, stage s) {
    size_t at[3];
    s.parts = 1;
    if (!fits(g, &s, at)) return reduce_halves(g, &s);
    cut(&s);
    if (s.parts == 1) return run(g, &s);
    stage first = s;
    first.to = held_by(&s);
    first.y_offset = 0;
    if (!(first.y = cr_gpu_buffer_take(g, s.op, (size_t)(s.at.M * s.parts * s.at.N) * cr_dtype_size(first.to)))) return cr_error_status();
    cr_status status = run(g, &first);
    if (status == CR_OK) status = reduce_parts(g, &s, first.y, s.parts);
    cr_gpu_buffer_give(g, first.y);
    return status;
}

/* The sums of each row first, then the squares of what is left without the mean. */
static cr_status reduce_deviations(gpu *g, stage s) {
    stage sum = s;
    sum.how = (cr_reduce_how){.kind = CR_REDUCE_SUM};
    sum.to = CR_F32;
    sum.y_offset = 0;
    if (!(sum.y = s.sums = cr_gpu_buffer_take(g, s.op, (size_t)(s.at.M * s.at.N) * 4))) return cr_error_status();
    cr_status status = reduce_slab(g, sum);
    s.deviation = true;
    if (status == CR_OK) status = reduce_slab(g, s);
    cr_gpu_buffer_give(g, s.sums);
    return status;
}

cr_status cr_gpu_reduce(const cr_reduce_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *at = &args->x;
    const cr_reduce_how *how = &args->how;
    static const char *const names[] = {"sum", "prod", "max", "min"};
    const char *op = names[how->kind];
    if (cr_gpu_lacks(op, x) || cr_gpu_lacks(op, y)) return cr_error_status();
    if (!at->shape[0] || !at->shape[2]) return CR_OK;
    gpu *g = cr_gpu_enter(op, y->dev);
    if (!g) return cr_error_status();
    stage s = {.op = op, .how = *how, .from = x->dtype, .to = y->dtype, .at = cr_slab_of(x), .offset = x->offset, .length = at->shape[1],
               .x = gpu_buffer_of(x), .y = gpu_buffer_of(y), .y_offset = y->offset};
    s.acc = accumulator(how, s.from, s.to);
    return cr_gpu_leave(g, how->map == CR_MAP_DEVIATION ? reduce_deviations(g, s) : reduce_slab(g, s));
}
