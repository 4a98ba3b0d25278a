/* nonzero.c - where a bool tensor is true: an invocation counts in its piece, the counts are scanned, and each writes from where those before it end. */
#include "wgsl.h"

enum { PIECE = 64 };
typedef struct kernel { int family, places, ndim; } kernel;      /* places: the second kernel */

/* p[0]: 0, elements, offset of x, rows of y   p[1]: offset, strides of y   p[2], p[3]: shape of x.  Binding 0: the counts, or with those before them how many there are. */
static void write(wgsl *w, const void *how) {
    const kernel *h = how;
    cr_wgsl_binding(w, 0, !h->places, false);
    cr_wgsl_binding(w, 1, false, false);
    if (h->places) cr_wgsl_binding(w, 2, true, false);
    cr_wgsl_main(w, GPU_GROUP);
    cr_wgsl_add(w, "let first = i * %du; if first >= p[0].y { return; }\nvar n = 0u;\n", PIECE);
    if (h->places) cr_wgsl_add(w, "if i > 0u { n = words0(2u * i - 2u); }\n");
    cr_wgsl_add(w, "for (var e = first; e < min(first + %du, p[0].y); e++) {\nlet at = p[0].z + e;\nif %s == 0u { continue; }\n", PIECE, cr_wgsl_load(1, CR_BOOL, "at").s);
    if (h->places) {                                /* no more than y has room for: x may have been written to meanwhile */
        cr_wgsl_add(w, "if n >= p[0].w { return; }\nvar rest = e;\n");
        for (int d = h->ndim - 1; d >= 0; d--)
            cr_wgsl_add(w, "{ let to = 2u * (p[1].x + n * p[1].y + %du * p[1].z); set2(to, rest %% %s); set2(to + 1u, 0u); rest /= %s; }\n", d, cr_wgsl_parameter(8 + d).s, cr_wgsl_parameter(8 + d).s);
    }
    cr_wgsl_add(w, h->places ? "n++;\n}\n}\n" : "n++;\n}\nset0(2u * i, n); set0(2u * i + 1u, 0u);\n}\n");
}

static cr_status run(const kernel *how, const cr_array *counts, const cr_array *x, const cr_array *y) {
    gpu *g = cr_gpu_enter("nonzero", x->dev);
    gpu_call c = {.op = "nonzero", .write = write, .how = how, .how_bytes = sizeof *how, .buffers = y ? 3 : 2, .buffer = {gpu_buffer_of(counts), gpu_buffer_of(x), y ? gpu_buffer_of(y) : NULL},
                  .written = y ? 4 : 1, .q = {.n = 16, .words = {0, (uint32_t)x->numel, (uint32_t)x->offset}}, .invocations = (uint64_t)counts->numel};
    if (y) {
        c.q.words[3] = (uint32_t)y->shape[0];
        c.q.words[4] = (uint32_t)y->offset;
        for (int k = 0; k < 2; k++) c.q.words[5 + k] = (uint32_t)y->strides[k];
    }
    for (int d = 0; d < x->ndim; d++) c.q.words[8 + d] = (uint32_t)x->shape[d];
    return g ? cr_gpu_leave(g, cr_gpu_run(g, &c)) : cr_error_status();
}

static cr_status find(const cr_array *y, const cr_array *x, int64_t *count, const cr_array *counts, const cr_array *ends) {
    const int64_t last = ends->numel - 1;
    cr_status status = run(&(kernel){'z', false, 0}, counts, x, NULL);
    if (status == CR_OK) status = cr_gpu_scan(&(cr_scan_args){.y = *ends, .x = *counts, .kind = CR_SCAN_SUM});
    if (status != CR_OK) return status;
    if (!y) return cr_gpu_download(x->dev, count, ends->storage, 8 * (size_t)last, 8);
    *count = y->shape[0];
    return run(&(kernel){'z', true, x->ndim}, ends, x, y);
}

cr_status cr_gpu_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    int64_t *count = args->count;
    const int64_t pieces = (x->numel + PIECE - 1) / PIECE;
    *count = 0;
    if (!pieces) return CR_OK;
    const cr_array counts = cr_gpu_array(x->dev, CR_I64, CR_LIST(1, pieces, 1)), ends = cr_gpu_array(x->dev, CR_I64, CR_LIST(1, pieces, 1));
    cr_status status = counts.storage && ends.storage ? find(y, x, count, &counts, &ends) : cr_error_status();
    cr_gpu_array_give(&ends);
    cr_gpu_array_give(&counts);
    return status;
}
