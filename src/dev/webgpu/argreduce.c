/* argreduce.c - where the first largest or smallest element of x (M, R, N) lies along R: (M, N)
 * i64.  In stages as in reduce.c, with positions in place of values: a later stage looks only at
 * the best elements of the parts of the stage before. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum { PART = 16 * GPU_GROUP };                     /* candidates of one workgroup */

/* first: all of R are candidates; last: y takes positions as i64 */
typedef struct kernel { int id; cr_dtype dtype; int max, first, last; } kernel;

typedef struct stage {
    kernel kernel;
    cr_slab at;
    int64_t offset, candidates, parts;
    gpu_buffer *x, *y;
    int64_t y_offset;
} stage;

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    cr_wgsl_const(w, "MIN_OF_FLOATS", !h->max && cr_dtype_is_float(h->dtype));
    cr_wgsl_const(w, "FIRST", h->first);
    cr_wgsl_const(w, "LAST", h->last);
    cr_wgsl_array(w, "y", h->last ? CR_I64 : CR_U32, true);
    cr_wgsl_array(w, "x", h->dtype, false);
    if (!h->first) cr_wgsl_array(w, "before", CR_U32, false);
    cr_wgsl_key_function(w, h->dtype, !h->max);
    cr_wgsl_file(w, cr_wgsl_argreduce);
    cr_wgsl_trees(w, 1);
    cr_wgsl_end(w, GPU_GROUP);
}

/* found: where a stage that is not the last leaves positions; before: (M, candidates, N) of them,
 * NULL: every position is a candidate.  false: x or y is too long */
static bool call_of(const gpu *g, const char *op, const stage *s, gpu_buffer *found, gpu_buffer *before, gpu_call *c,
                    argreduce_parameters *q) {
    const int64_t results = s->at.M * s->parts * s->at.N, part = gpu_ceil_div(s->candidates, s->parts);
    const gpu_span x = cr_gpu_span_of(s->offset, 3, (int64_t[]){s->at.M, s->at.R, s->at.N}, s->at.strides);
    const gpu_span y = found ? (gpu_span){0, results} : (gpu_span){s->y_offset, s->y_offset + results};
    *q = (argreduce_parameters){.R = (uint32_t)s->at.R,
                                .N = (uint32_t)s->at.N,
                                .candidates = (uint32_t)s->candidates,
                                .stride_m = (uint32_t)s->at.strides[0],
                                .stride_r = (uint32_t)s->at.strides[1],
                                .stride_n = (uint32_t)s->at.strides[2],
                                .parts = (uint32_t)s->parts,
                                .part_size = (uint32_t)part,
                                .results = (uint32_t)results};
    *c = (gpu_call){.op = op,
                    .write = write_kernel,
                    .how = &s->kernel,
                    .how_bytes = sizeof s->kernel,
                    .parameters = q,
                    .parameters_bytes = sizeof *q,
                    .groups = (uint64_t)results};
    if (!cr_gpu_bind_window(g, c, found ? found : s->y, y, found ? CR_U32 : CR_I64, &q->y)) return false;
    if (!cr_gpu_bind_window(g, c, s->x, x, s->kernel.dtype, &q->x)) return false;
    q->x += (uint32_t)(s->offset - x.first);
    if (before) c->buffer[c->buffers++] = before;
    return true;
}

static cr_status run_stages(gpu *g, const char *op, stage *s, gpu_buffer *before) {
    gpu_call c;
    argreduce_parameters q;
    s->parts = gpu_ceil_div(s->candidates, PART);
    s->kernel.first = !before;
    s->kernel.last = s->parts == 1;
    gpu_buffer *found = s->kernel.last ? NULL : cr_gpu_buffer_take(g, op, 4 * (size_t)(s->at.M * s->parts * s->at.N));
    if (!s->kernel.last && !found) return cr_error_status();
    cr_status status = call_of(g, op, s, found, before, &c, &q) ? cr_gpu_run(g, &c)
                                                                : cr_gpu_fail_window(g, op, s->x->bytes);
    if (!found) return status;
    s->candidates = s->parts;
    if (status == CR_OK) status = run_stages(g, op, s, found);
    cr_gpu_buffer_give(g, found);
    return status;
}

/* Splits the rows, or the columns of a single row, until x and y fit into windows. */
static cr_status run_parts(gpu *g, const char *op, stage s) {
    gpu_call unused;
    argreduce_parameters unread;
    s.parts = 1;
    const bool rows = s.at.M > 1;
    const int64_t n = rows ? s.at.M : s.at.N, first = n / 2;
    if (n == 1 || call_of(g, op, &s, NULL, NULL, &unused, &unread)) return run_stages(g, op, &s, NULL);
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
    return cr_gpu_leave(g, run_parts(g, op,
                                     (stage){.kernel = {'a', x->dtype, max, false, false},
                                             .at = cr_slab_of(x),
                                             .offset = x->offset,
                                             .candidates = at->shape[1],
                                             .x = gpu_buffer_of(x),
                                             .y = gpu_buffer_of(y),
                                             .y_offset = y->offset}));
}
