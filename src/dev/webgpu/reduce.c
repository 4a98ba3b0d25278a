/* reduce.c - x (M, R, N) -> y (M, N), in one stage or two: where R is long, each of C parts of it
 * is reduced first, (M, R, N) -> (M, C, N).
 *
 * A workgroup computes a result: each invocation reduces every 256th element, then a tree joins
 * them.  Where R is short or neighbouring columns are adjacent in memory, a single invocation
 * computes a result.  Cuts and trees depend on the shape only, so the order of additions does too. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum {
    /* elements that one invocation, and one workgroup, reduces in one stage */
    SINGLE = 4096, GROUP = 64 * GPU_GROUP,
    BUSY = 1 << 14                                  /* invocations that are enough to fill a GPU */
};

typedef struct kernel {
    int id;
    cr_reduce_kind kind;
    cr_reduce_map map;
    cr_dtype from, acc, to;
    int single;                                     /* one invocation for each result */
} kernel;

typedef struct stage {                              /* of a reduction */
    const char *op;
    kernel how;
    cr_slab at;
    int64_t offset, parts;                          /* of x, in elements; of R */
    int64_t length;                                 /* R of the whole reduction */
    double power;
    /* sums: of each row, for its mean; NULL: map is not CR_MAP_DEVIATION */
    gpu_buffer *x, *y, *sums;
    int64_t y_offset, sums_offset;
} stage;

static cr_dtype accumulator(const cr_reduce_how *how, cr_dtype x, cr_dtype y) {
    if (how->map == CR_MAP_NONZERO) return cr_dtype_is_float(y) ? CR_U32 : y;
    if (cr_dtype_is_float(x)) return CR_F32;
    return how->kind >= CR_REDUCE_MAX ? x : cr_dtype_is_float(y) ? CR_F32 : y;
}

/* ---- text */
static const char *identity(const kernel *s) {
    const bool is_signed = cr_dtype_kind(s->acc) == CR_KIND_SIGNED, wide = cr_wgsl_wide(s->acc),
               most = s->kind == CR_REDUCE_MIN;
    if (s->map == CR_MAP_NONZERO && s->kind >= CR_REDUCE_MAX)
        return wide        ? (most ? "vec2<u32>(1u, 0u)" : "vec2<u32>(0u)")
               : is_signed ? (most ? "1" : "0")
               : most      ? "1u"
                           : "0u";
    if (s->kind < CR_REDUCE_MAX) {
        const bool one = s->kind == CR_REDUCE_PROD;
        return cr_dtype_is_float(s->acc) ? (one ? "1.0" : "0.0")
               : wide                    ? (one ? "vec2<u32>(1u, 0u)" : "vec2<u32>(0u)")
               : is_signed               ? (one ? "1" : "0")
               : one                     ? "1u"
                                         : "0u";
    }
    if (cr_dtype_is_float(s->acc)) return most ? "inf()" : "-inf()";
    if (wide)
        return is_signed ? (most ? "vec2<u32>(~0u, 0x7fffffffu)" : "vec2<u32>(0u, 0x80000000u)")
               : most    ? "vec2<u32>(~0u)"
                         : "vec2<u32>(0u)";
    return is_signed ? (most ? "2147483647" : "bitcast<i32>(0x80000000u)") : most ? "0xffffffffu" : "0u";
}

static const char *joining_line(const kernel *s) {
    static const char *const plain[] = {"a + b", "a * b", "max(a, b)", "min(a, b)"}, *const floats[] = {
                                                                                         "a + b", "a * b",
                                                                                         "f_max(a, b)", "f_min(a, b)"};
    static const char *const longs[2][4] = {
        {"add64(a, b)", "mul64(a, b)", "select(a, b, less_u64(a, b))", "select(a, b, less_u64(b, a))"},
        {"add64(a, b)", "mul64(a, b)", "select(a, b, less_i64(a, b))", "select(a, b, less_i64(b, a))"}};
    return (cr_dtype_is_float(s->acc) ? floats : cr_wgsl_wide(s->acc) ? longs[s->acc == CR_I64] : plain)[s->kind];
}

static expr mapped(const kernel *s, const char *x) {
    const expr v = cr_wgsl_cast(s->acc, s->from, x);
    switch (s->map) {
        case CR_MAP_NONZERO: return cr_wgsl_cast(s->acc, CR_BOOL, cr_wgsl_cast(CR_BOOL, s->from, x).s);
        case CR_MAP_ABS: return cr_expr_of("abs(%s)", v.s);
        case CR_MAP_SQUARE: return cr_expr_of("%s * %s", v.s, v.s);
        case CR_MAP_POWER: return cr_expr_of("f_pow(abs(%s), p.power)", v.s);
        case CR_MAP_NUMBER: return cr_expr_of("select(%s, 0.0, is_nan(%s))", v.s, v.s);
        case CR_MAP_DEVIATION: return cr_expr_of("(%s - mean) * (%s - mean)", v.s, v.s);
        default: return v;
    }
}

static void write_kernel(wgsl *w, const void *how) {
    const kernel *s = how;
    const char *type = cr_wgsl_type(s->acc);
    cr_wgsl_const(w, "SINGLE", s->single);
    cr_wgsl_const(w, "DEVIATION", s->map == CR_MAP_DEVIATION);
    cr_wgsl_array(w, "y", s->to, true);
    cr_wgsl_array(w, "x", s->from, false);
    if (s->map == CR_MAP_DEVIATION) cr_wgsl_array(w, "sums", CR_F32, false);
    cr_wgsl_add(w, "alias V = %s;\nfn identity() -> V { return %s; }\nfn join0(a: V, b: V) -> V { return %s; }\n", type,
                identity(s), joining_line(s));
    cr_wgsl_add(w, "fn mapped(x: %s, mean: f32) -> V { return %s; }\n", cr_wgsl_type(s->from), mapped(s, "x").s);
    cr_wgsl_cast_function(w, "result", s->to, s->acc);
    cr_wgsl_file(w, cr_wgsl_reduce);
    if (!s->single) cr_wgsl_trees(w, 1);
    cr_wgsl_end(w, GPU_GROUP);
}

/* ---- one stage */
static gpu_span span_of(const stage *s) {
    return cr_gpu_span_of(s->offset, 3, (int64_t[]){s->at.M, s->at.R, s->at.N}, s->at.strides);
}

/* The kernel's call.  false: y, x or the sums do not fit into a window */
static bool call_of(const gpu *g, const stage *s, gpu_call *c, reduce_parameters *q) {
    const int64_t rows = s->at.M * s->at.N, results = rows * s->parts, part_size = gpu_ceil_div(s->at.R, s->parts);
    const gpu_span x = span_of(s);
    *q = (reduce_parameters){.R = (uint32_t)s->at.R,
                             .N = (uint32_t)s->at.N,
                             .stride_m = (uint32_t)s->at.strides[0],
                             .stride_r = (uint32_t)s->at.strides[1],
                             .stride_n = (uint32_t)s->at.strides[2],
                             .parts = (uint32_t)s->parts,
                             .part_size = (uint32_t)part_size,
                             .results = (uint32_t)results,
                             .length = (float)s->length,
                             .power = (float)s->power};
    *c = (gpu_call){.op = s->op,
                    .write = write_kernel,
                    .how = &s->how,
                    .how_bytes = sizeof s->how,
                    .parameters = q,
                    .parameters_bytes = sizeof *q,
                    .groups = s->how.single ? gpu_groups(results) : (uint64_t)results};
    if (!cr_gpu_bind_window(g, c, s->y, (gpu_span){s->y_offset, s->y_offset + results}, s->how.to, &q->y)) return false;
    if (!cr_gpu_bind_window(g, c, s->x, x, s->how.from, &q->x)) return false;
    q->x += (uint32_t)(s->offset - x.first);
    return !s->sums ||
           cr_gpu_bind_window(g, c, s->sums, (gpu_span){s->sums_offset, s->sums_offset + rows}, CR_F32, &q->sums);
}

static cr_status dispatch_stage(gpu *g, const stage *s) {
    gpu_call c;
    reduce_parameters q;
    return call_of(g, s, &c, &q) ? cr_gpu_run(g, &c) : cr_gpu_fail_window(g, s->op, s->y->bytes);
}

/* Chooses `single` and the parts of R, from the shape only. */
static void cut_stage(stage *s) {
    const cr_slab *at = &s->at;
    const int64_t results = at->M * at->N;
    s->how.single = at->R <= 64 || (at->N >= 32 && gpu_abs(at->strides[2]) < gpu_abs(at->strides[1]));
    const bool single = s->how.single;
    const int64_t least = gpu_ceil_div(at->R, single ? SINGLE : GROUP), busy = (single ? BUSY : 64) / results;
    s->parts = cr_imax(1, cr_imax(least, cr_imin(busy, at->R / (single ? 64 : 4 * GPU_GROUP))));
}

static cr_status reduce_slab(gpu *g, stage s);

static cr_dtype partial_dtype(const stage *s) {           /* the dtype of partial results, of whole words */
    return cr_wgsl_wide(s->how.acc) || cr_dtype_is_float(s->how.acc) ? s->how.acc
           : cr_dtype_kind(s->how.acc) == CR_KIND_SIGNED             ? CR_I32
                                                                     : CR_U32;
}

static cr_status reduce_parts(gpu *g, const stage *s, gpu_buffer *parts, int64_t count) {
    stage then = *s;
    then.how.from = partial_dtype(s);
    then.how.map = s->how.map == CR_MAP_NONZERO && s->how.kind >= CR_REDUCE_MAX ? CR_MAP_NONZERO : CR_MAP_SAME;
    then.sums = NULL;
    then.x = parts;
    then.offset = 0;
    then.at = (cr_slab){s->at.M, count, s->at.N, {count * s->at.N, s->at.N, 1}};
    return reduce_slab(g, then);
}

/* Splits the rows, the columns of a single row, or the length of a single row, whose two results
 * are then reduced. */
static cr_status reduce_halves(gpu *g, const stage *s) {
    const cr_slab *at = &s->at;
    const int axis = at->M > 1                                                                         ? 0
                     : at->N > 1 && gpu_abs(at->strides[2]) * at->N >= gpu_abs(at->strides[1]) * at->R ? 2
                                                                                                       : 1;
    stage half[2] = {*s, *s};
    const int64_t n = axis == 0   ? at->M
                      : axis == 1 ? at->R
                                  : at->N,
                  first = n / 2, results = axis == 0 ? first * at->N : first;
    if (n == 1) return cr_gpu_fail_window(g, s->op, s->x->bytes);
    for (int i = 0; i < 2; i++)
        *(axis == 0 ? &half[i].at.M : axis == 1 ? &half[i].at.R : &half[i].at.N) = i ? n - first : first;
    half[1].offset += first * at->strides[axis];
    gpu_buffer *parts = NULL;
    if (axis == 1) {
        if (!(parts = cr_gpu_buffer_take(g, s->op, 2 * (size_t)at->N * cr_dtype_size(partial_dtype(s)))))
            return cr_error_status();
        for (int i = 0; i < 2; i++) half[i].y = parts, half[i].y_offset = i * at->N, half[i].how.to = partial_dtype(s);
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
    gpu_call unused;
    reduce_parameters unread;
    s.parts = 1;
    if (!call_of(g, &s, &unused, &unread)) return reduce_halves(g, &s);
    cut_stage(&s);
    if (s.parts == 1) return dispatch_stage(g, &s);
    stage first = s;
    first.how.to = partial_dtype(&s);
    first.y_offset = 0;
    if (!(first.y = cr_gpu_buffer_take(g, s.op, (size_t)(s.at.M * s.parts * s.at.N) * cr_dtype_size(first.how.to))))
        return cr_error_status();
    cr_status status = dispatch_stage(g, &first);
    if (status == CR_OK) status = reduce_parts(g, &s, first.y, s.parts);
    cr_gpu_buffer_give(g, first.y);
    return status;
}

/* The sums of each row first, then the squared deviations from the mean. */
static cr_status reduce_deviations(gpu *g, stage s) {
    stage sum = s;
    sum.how.kind = CR_REDUCE_SUM;
    sum.how.map = CR_MAP_SAME;
    sum.how.to = CR_F32;
    sum.y_offset = 0;
    if (!(sum.y = s.sums = cr_gpu_buffer_take(g, s.op, (size_t)(s.at.M * s.at.N) * 4))) return cr_error_status();
    cr_status status = reduce_slab(g, sum);
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
    const kernel k = {'r', how->kind, how->map, x->dtype, accumulator(how, x->dtype, y->dtype), y->dtype, false};
    const stage s = {.op = op,
                     .how = k,
                     .at = cr_slab_of(x),
                     .offset = x->offset,
                     .length = at->shape[1],
                     .power = how->p,
                     .x = gpu_buffer_of(x),
                     .y = gpu_buffer_of(y),
                     .y_offset = y->offset};
    return cr_gpu_leave(g, how->map == CR_MAP_DEVIATION ? reduce_deviations(g, s) : reduce_slab(g, s));
}
