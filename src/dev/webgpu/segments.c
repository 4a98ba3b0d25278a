/* segments.c - sums by row where an index is sorted: dst[m, row, n] += the sum of src[m, k, n] over
 * the k of a row, in the order of k.
 *
 * An invocation sums CHUNK entries; what crosses the ends of a chunk is summed again as two entries
 * for each chunk, until one chunk holds all.  So no invocation loops further, however often a row
 * occurs, and the order of additions depends on the index only. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum { CHUNK = 64 };

typedef struct kernel { int id; cr_dtype element, acc; int shared, later, leaves; } kernel;

static cr_dtype acc_of(cr_dtype dt) {
    if (cr_dtype_is_float(dt)) return CR_F32;
    return cr_wgsl_wide(dt) ? dt : cr_dtype_kind(dt) == CR_KIND_SIGNED ? CR_I32 : CR_U32;
}

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    const char *plus = cr_wgsl_wide(h->acc) ? "add64(a, b)" : h->element == CR_BOOL ? "a | b" : "a + b";
    cr_wgsl_const(w, "CHUNK", CHUNK);
    cr_wgsl_const(w, "SHARED", h->shared);
    cr_wgsl_const(w, "LATER", h->later);
    cr_wgsl_const(w, "LEAVES", h->leaves);
    cr_wgsl_add(w, "alias S = %s;\n", cr_wgsl_type(h->acc));
    cr_wgsl_add(w, "fn plus(a: S, b: S) -> S { return %s; }\n", plus);
    cr_wgsl_array(w, "dst", h->element, true);
    cr_wgsl_array(w, "rows", CR_U32, false);
    if (h->later) {
        cr_wgsl_array(w, "partial", h->acc, false);
    } else {
        cr_wgsl_array(w, "order", CR_I64, false);
        cr_wgsl_array(w, "src", h->element, false);
    }
    if (h->leaves) {
        cr_wgsl_array(w, "left", h->acc, true);
        cr_wgsl_array(w, "left_rows", CR_U32, true);
    }
    cr_wgsl_cast_function(w, "widened", h->acc, h->element);
    cr_wgsl_cast_function(w, "result", h->element, h->acc);
    cr_wgsl_file(w, cr_wgsl_segments);
    cr_wgsl_end(w, GPU_GROUP);
}

/* The layout of an operand (M, rows or K, N), in elements of its buffer. */
static gpu_span span_of(const gpu_segments *s, const cr_array *t, int64_t rows, const int64_t *strides) {
    return cr_gpu_span_of(t->offset, 3, (const int64_t[]){s->M, rows, s->N}, strides);
}

static bool bind_array(const gpu *g, gpu_call *c, const gpu_segments *s, const cr_array *t, int64_t rows,
                 const int64_t *strides, uint32_t *offset) {
    const gpu_span span = span_of(s, t, rows, strides);
    if (!cr_gpu_bind_window(g, c, gpu_buffer_of(t), span, t->dtype, offset)) return false;
    *offset += (uint32_t)(t->offset - span.first);
    return true;
}

bool cr_gpu_segments_fit(const gpu *g, const gpu_segments *s) {
    gpu_call unused = {0};
    uint32_t offset;
    const int64_t lines = s->shared ? 1 : s->M * s->N;
    return bind_array(g, &unused, s, s->to, s->bound, s->to_strides, &offset) &&
           bind_array(g, &unused, s, s->from, s->K, s->from_strides, &offset) &&
           (uint64_t)(lines * s->K) * sizeof(int64_t) <= g->window;
}

/* One level: `entries` of a line, whose rows and, after the first level, partial sums are given. */
static cr_status run_level(const gpu_segments *s, int64_t entries, const cr_array *rows, const cr_array *partial,
                           const cr_array left[2]) {
    const int64_t chunks = gpu_ceil_div(entries, CHUNK), count = s->M * chunks * s->N;
    const kernel how = {'s', s->to->dtype, acc_of(s->to->dtype), s->shared, partial != NULL, chunks > 1};
    segments_parameters q = {.count = (uint32_t)count,
                             .bound = (uint32_t)s->bound,
                             .entries = (uint32_t)entries,
                             .chunks = (uint32_t)chunks,
                             .N = (uint32_t)s->N};
    for (int d = 0; d < 3; d++) {
        q.dst_strides[d] = (uint32_t)s->to_strides[d];
        q.src_strides[d] = (uint32_t)s->from_strides[d];
    }
    gpu_call c = {.op = s->op,
                  .write = write_kernel,
                  .how = &how,
                  .how_bytes = sizeof how,
                  .parameters = &q,
                  .parameters_bytes = sizeof q,
                  .groups = gpu_groups(count)};
    gpu *g = cr_gpu_enter(s->op, s->to->dev);
    if (!g) return cr_error_status();
    bool fits = bind_array(g, &c, s, s->to, s->bound, s->to_strides, &q.dst);
    c.buffer[c.buffers++] = gpu_buffer_of(rows);
    c.buffer[c.buffers++] = gpu_buffer_of(partial ? partial : s->order);
    fits = fits && (partial || bind_array(g, &c, s, s->from, s->K, s->from_strides, &q.src));
    for (int i = 0; i < 2 && how.leaves; i++) c.buffer[c.buffers++] = gpu_buffer_of(&left[i]);
    return cr_gpu_leave(g, fits ? cr_gpu_run(g, &c) : cr_gpu_fail_window(g, s->op, gpu_buffer_of(s->to)->bytes));
}

cr_status cr_gpu_sum_segments(const gpu_segments *s) {
    const int64_t lines = s->shared ? 1 : s->M * s->N;
    cr_array now[2] = {0}, left[2] = {0};           /* partial sums, rows */
    cr_status status = CR_OK;
    for (int64_t entries = s->K, later = 0; status == CR_OK; later = 1) {
        const int64_t two = 2 * gpu_ceil_div(entries, CHUNK);
        const bool last = two == 2;
        if (!last) {
            left[0] = cr_gpu_array(s->to->dev, acc_of(s->to->dtype), 3, (const int64_t[]){s->M, two, s->N});
            left[1] = cr_gpu_array(s->to->dev, CR_U32, 2, (const int64_t[]){lines, two});
            if (!left[0].storage || !left[1].storage) status = cr_error_status();
        }
        if (status == CR_OK) status = run_level(s, entries, later ? &now[1] : s->rows, later ? &now[0] : NULL, left);
        for (int i = 0; i < 2; i++) {
            cr_gpu_array_give(&now[i]);
            now[i] = left[i];
            left[i].storage = NULL;
        }
        if (last) break;
        entries = two;
    }
    for (int i = 0; i < 2; i++) cr_gpu_array_give(&now[i]);
    return status;
}
