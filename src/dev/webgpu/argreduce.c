/* argreduce.c - where the first largest or smallest element of x (M, R, N) lies along R: (M, N) i64.  In stages as in reduce.c, with
 * positions in place of values: a later stage looks at the elements where those before found the best of their part. */
#include "wgsl.h"

enum { PART = 16 * GPU_GROUP };                     /* candidates of one workgroup */

typedef struct kernel { int family; cr_dtype dtype; int max, first, last; } kernel;     /* first: all of R are candidates; last: y takes positions as i64 */

typedef struct stage {
    kernel kernel;
    cr_slab at;
    int64_t offset, candidates, parts;
    gpu_buffer *x, *y;
    int64_t y_offset;
} stage;

/* A candidate is its key, in whose order the best is the largest, and its position; none has the last position there is.
 * p[0]: 0, R, N, candidates   p[1]: offset, strides of M, R, N   p[2]: parts, candidates of a part, offset of y, results */
static void write(wgsl *w, const void *how) {
    const kernel *h = how;
    const cr_dtype dt = h->dtype;
    cr_wgsl_binding(w, 0, true, false);
    cr_wgsl_binding(w, 1, false, false);
    if (!h->first) cr_wgsl_binding(w, 2, false, false);
    cr_wgsl_add(w, "fn key(at: u32) -> vec2<u32> { let x = %s; ", cr_wgsl_load(1, dt, "at").s);
    if (!h->max && cr_dtype_is_float(dt)) cr_wgsl_add(w, "if is_nan(x) { return vec2<u32>(~0u); } ");
    cr_wgsl_add(w, "return %s%s; }\n", h->max ? "" : "~", cr_wgsl_key(dt, "x").s);
    cr_wgsl_tree(w, "best_of", "vec3<u32>", "select(b, a, less_u64(b.xy, a.xy) || (all(a.xy == b.xy) && a.z < b.z))");
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let mine = group < p[2].w;\nlet n = group %% p[0].z; let part = (group / p[0].z) %% p[2].x; let m = group / p[0].z / p[2].x;\n"
             "let start = p[1].x + m * p[1].y + n * p[1].w; let end = select(0u, min((part + 1u) * p[2].y, p[0].w), mine);\nvar best = vec3<u32>(0u, 0u, ~0u);\n"
             "for (var c = part * p[2].y + lane; c < end; c += %du) {\nlet r = %s;\nif r != ~0u { best = best_of_join(best, vec3<u32>(key(start + r * p[1].z), r)); }\n}\n", GPU_GROUP,
             h->first ? "c" : "words2((m * p[0].w + c) * p[0].z + n)");
    cr_wgsl_add(w, "best = best_of(lane, best);\nif mine && lane == 0u { let o = p[2].z + group; ");
    cr_wgsl_add(w, h->last ? "set0(2u * o, best.z); set0(2u * o + 1u, 0u); }\n}\n" : "set0(o, best.z); }\n}\n");
}

/* found: where the stage leaves positions that are not the last; before: (M, candidates, N) of them, NULL: every position is a candidate.  false: x or y is too long */
static bool call_of(const gpu *g, const char *op, const stage *s, gpu_buffer *found, gpu_buffer *before, gpu_call *c) {
    const int64_t results = s->at.M * s->parts * s->at.N, part = (s->candidates + s->parts - 1) / s->parts;
    gpu_span x = cr_gpu_span_of(s->offset, 3, (int64_t[]){s->at.M, s->at.R, s->at.N}, s->at.strides);
    *c = (gpu_call){
        .op = op, .write = write, .how = &s->kernel, .how_bytes = sizeof s->kernel, .written = 1,
        .q = {.n = 12, .words = {
            0, (uint32_t)s->at.R, (uint32_t)s->at.N, (uint32_t)s->candidates, 0, (uint32_t)s->at.strides[0], (uint32_t)s->at.strides[1],
            (uint32_t)s->at.strides[2], (uint32_t)s->parts, (uint32_t)part, 0, (uint32_t)results}},
        .invocations = (uint64_t)results * GPU_GROUP};
    if (!cr_gpu_show(g, c, found ? found : s->y, found ? (gpu_span){0, results} : (gpu_span){s->y_offset, s->y_offset + results}, found ? CR_U32 : CR_I64, &c->q.words[10])) return false;
    if (!cr_gpu_show(g, c, s->x, x, s->kernel.dtype, &c->q.words[4])) return false;
    c->q.words[4] += (uint32_t)(s->offset - x.first);
    if (before) c->buffer[c->buffers++] = before;
    return true;
}

static cr_status run_stages(gpu *g, const char *op, stage *s, gpu_buffer *before) {
    gpu_call c;
    s->parts = (s->candidates + PART - 1) / PART;
    s->kernel.first = !before;
    s->kernel.last = s->parts == 1;
    gpu_buffer *found = s->kernel.last ? NULL : cr_gpu_buffer_take(g, op, 4 * (size_t)(s->at.M * s->parts * s->at.N));
    if (!s->kernel.last && !found) return cr_error_status();
    cr_status status = call_of(g, op, s, found, before, &c) ? cr_gpu_run(g, &c) : cr_gpu_fail_window(g, op, s->x->bytes);
    if (!found) return status;
    s->candidates = s->parts;
    if (status == CR_OK) status = run_stages(g, op, s, found);
    cr_gpu_buffer_give(g, found);
    return status;
}

/* Halves of rows, or of the columns of a single one, until x and y fit into windows. */
static cr_status run_parts(gpu *g, const char *op, stage s) {
    gpu_call unused;
    s.parts = 1;
    const bool rows = s.at.M > 1;
    const int64_t n = rows ? s.at.M : s.at.N, first = n / 2;
    if (n == 1 || call_of(g, op, &s, NULL, NULL, &unused)) return run_stages(g, op, &s, NULL);
    stage half[2] = {s, s};
    for (int i = 0; i < 2; i++) *(rows ? &half[i].at.M : &half[i].at.N) = i ? n - first : first;
    half[1].offset += first * s.at.strides[rows ? 0 : 2];
    half[1].y_offset += rows ? first * s.at.N : first;
    cr_status status = run_parts(g, op, half[0]);
    return status == CR_OK ? run_parts(g, op, half[1]) : status;
}

cr_status cr_gpu_arg_reduce(const cr_arg_reduce_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *at = &args->x;
    const bool max = args->max;
    const char *op = max ? "argmax" : "argmin";
    if (cr_gpu_lacks(op, x)) return cr_error_status();
    if (!at->shape[0] || !at->shape[2]) return CR_OK;
    gpu *g = cr_gpu_enter(op, y->dev);
    if (!g) return cr_error_status();
    return cr_gpu_leave(g, run_parts(g, op, (stage){.kernel = {'a', x->dtype, max, false, false}, .at = cr_slab_of(x), .offset = x->offset, .candidates = at->shape[1],
                                                 .x = gpu_buffer_of(x), .y = gpu_buffer_of(y), .y_offset = y->offset}));
}
