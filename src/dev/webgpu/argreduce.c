/* argreduce.c - where the first largest or smallest element of x (M, R, N) lies along R: (M, N) i64.  In stages as in reduce.c, with
 * positions in place of values: a later stage looks at the elements where those before found the best of their part. */
#include "wgsl.h"

enum { PART = 16 * GPU_GROUP };                     /* candidates of one workgroup */

typedef struct kernel { int family; cr_dtype dtype; int max, first, last; } kernel;     /* first: all of R are candidates; last: y takes positions as i64 */

typedef struct stage {
    kernel kernel;
    cr_slab at;
    int64_t offset, candidates, parts;
} stage;

static void add_beats(wgsl *w, cr_dtype dt, bool max) {
    const char *type = wgsl_type(dt), *less = wgsl_wide(dt) ? (dt == CR_I64 ? "less_i64" : "less_u64") : NULL;
    const char *a = max ? "b" : "a", *b = max ? "a" : "b";
    wgsl_add(w, "fn beats(a: %s, b: %s) -> bool { ", type, type);
    if (cr_dtype_is_float(dt)) wgsl_add(w, "if is_nan(a) || is_nan(b) { return !is_nan(b); } ");
    if (less) wgsl_add(w, "return %s(%s, %s); }\n", less, a, b);
    else wgsl_add(w, "return %s < %s; }\n", a, b);
}

/* p[0]: 0, R, N, candidates   p[1]: offset, strides of M, R, N   p[2]: parts, candidates of a part, offset of y, results */
static void write(wgsl *w, const void *how) {
    const kernel *h = how;
    const cr_dtype dt = h->dtype;
    wgsl_binding(w, 0, true, false);
    wgsl_binding(w, 1, false, false);
    if (!h->first) wgsl_binding(w, 2, false, false);
    add_beats(w, dt, h->max);
    wgsl_add(w, "var<workgroup> best: array<%s, %d>;\nvar<workgroup> place: array<u32, %d>;\n", wgsl_type(dt), GPU_GROUP, GPU_GROUP);
    wgsl_add(w, "fn keep(k: u32, v: %s, r: u32) { if r != 0xffffffffu && (place[k] == 0xffffffffu || beats(v, best[k]) || (r < place[k] && !beats(best[k], v))) "
             "{ best[k] = v; place[k] = r; } }\n", wgsl_type(dt));
    wgsl_main(w, GPU_GROUP);
    wgsl_add(w, "let mine = group < p[2].w;\nlet n = group %% p[0].z; let part = (group / p[0].z) %% p[2].x; let m = group / p[0].z / p[2].x;\n"
             "let start = p[1].x + m * p[1].y + n * p[1].w; let end = select(0u, min((part + 1u) * p[2].y, p[0].w), mine);\nplace[lane] = 0xffffffffu;\n"
             "for (var c = part * p[2].y + lane; c < end; c += %du) {\nlet r = %s;\nlet at = start + r * p[1].z;\nkeep(lane, %s, r);\n}\n", GPU_GROUP,
             h->first ? "c" : "words2((m * p[0].w + c) * p[0].z + n)", wgsl_load(1, dt, "at").s);
    for (int half = GPU_GROUP / 2; half; half /= 2)
        wgsl_add(w, "workgroupBarrier();\nif lane < %du { keep(lane, best[lane + %du], place[lane + %du]); }\n", half, half, half);
    wgsl_add(w, "if mine && lane == 0u { let o = p[2].z + group; let r = place[0]; ");
    wgsl_add(w, h->last ? "set0(2u * o, r); set0(2u * o + 1u, 0u); }\n}\n" : "set0(o, r); }\n}\n");
}

static cr_status run(gpu *g, const char *op, const stage *s, gpu_buffer *y, int64_t y_offset, gpu_buffer *x, gpu_buffer *before) {
    const int64_t results = s->at.M * s->parts * s->at.N, part = (s->candidates + s->parts - 1) / s->parts;
    const gpu_call c = {
        .op = op, .write = write, .how = &s->kernel, .how_bytes = sizeof s->kernel, .buffers = before ? 3 : 2, .buffer = {y, x, before}, .written = 1,
        .q = {.n = 12, .words = {
            0, (uint32_t)s->at.R, (uint32_t)s->at.N, (uint32_t)s->candidates, (uint32_t)s->offset, (uint32_t)s->at.strides[0], (uint32_t)s->at.strides[1],
            (uint32_t)s->at.strides[2], (uint32_t)s->parts, (uint32_t)part, (uint32_t)y_offset, (uint32_t)results}},
        .invocations = (uint64_t)results * GPU_GROUP};
    return gpu_run(g, &c);
}

/* before: (M, candidates, N) positions; NULL: every position is a candidate. */
static cr_status run_stages(gpu *g, const char *op, stage *s, cr_tensor *y, gpu_buffer *x, gpu_buffer *before) {
    s->parts = (s->candidates + PART - 1) / PART;
    s->kernel.first = !before;
    s->kernel.last = s->parts == 1;
    if (s->kernel.last) return run(g, op, s, gpu_buffer_of(y), y->offset, x, before);
    gpu_buffer *found = gpu_buffer_take(g, op, 4 * (size_t)(s->at.M * s->parts * s->at.N));
    if (!found) return cr_error_status();
    cr_status status = run(g, op, s, found, 0, x, before);
    s->candidates = s->parts;
    if (status == CR_OK) status = run_stages(g, op, s, y, x, found);
    gpu_buffer_give(g, found);
    return status;
}

cr_status gpu_arg_reduce(bool max, cr_tensor *y, const cr_tensor *x, const cr_slab *at) {
    const char *op = max ? "argmax" : "argmin";
    if (gpu_lacks(op, x)) return cr_error_status();
    if (!at->M || !at->N) return CR_OK;
    gpu *g = gpu_enter(op, y->dev);
    if (!g) return cr_error_status();
    stage s = {.kernel = {'a', (cr_dtype)x->dtype, max, false, false}, .at = *at, .offset = x->offset, .candidates = at->R};
    return gpu_leave(g, run_stages(g, op, &s, y, gpu_buffer_of(x), NULL));
}
