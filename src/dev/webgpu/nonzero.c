/* nonzero.c - where a bool tensor is true: each invocation counts in its piece, the counts are
 * scanned, and each invocation writes its rows. */
#include "wgsl.gen.h"
#include "wgsl.h"

enum { PIECE = 64 };
typedef struct kernel { int id, count, ndim; } kernel;      /* count: the first of the two kernels */
_Static_assert(sizeof(((nonzero_parameters *)0)->shape) >= sizeof(uint32_t) * CR_MAX_DIMS, "shape of nonzero.wgsl");

static void write_kernel(wgsl *w, const void *how) {
    const kernel *h = how;
    cr_wgsl_const(w, "PIECE", PIECE);
    cr_wgsl_const(w, "COUNT", h->count);
    cr_wgsl_const(w, "NDIM", h->ndim);
    cr_wgsl_array(w, "counts", CR_I64, h->count);
    cr_wgsl_array(w, "x", CR_BOOL, false);
    if (!h->count) cr_wgsl_array(w, "y", CR_I64, true);
    cr_wgsl_file(w, cr_wgsl_nonzero);
    cr_wgsl_end(w, GPU_GROUP);
}

/* y NULL: count */
static cr_status dispatch_pieces(const cr_array *counts, const cr_array *x, const cr_array *y) {
    gpu *g = cr_gpu_enter("nonzero", x->dev);
    const kernel how = {'z', !y, y ? x->ndim : 0};
    nonzero_parameters q = {.count = (uint32_t)x->numel, .x = (uint32_t)x->offset};
    const gpu_call c = {
        .op = "nonzero", .write = write_kernel, .how = &how, .how_bytes = sizeof how,
        .buffers = y ? 3 : 2, .buffer = {gpu_buffer_of(counts), gpu_buffer_of(x), y ? gpu_buffer_of(y) : NULL},
        .parameters = &q, .parameters_bytes = sizeof q, .groups = gpu_groups(counts->numel)};
    if (y) {
        q.rows = (uint32_t)y->shape[0];
        q.y = (uint32_t)y->offset;
        q.y_row = (uint32_t)y->strides[0];
        q.y_column = (uint32_t)y->strides[1];
    }
    for (int d = 0; d < x->ndim; d++) q.shape[d] = (uint32_t)x->shape[d];
    return g ? cr_gpu_leave(g, cr_gpu_run(g, &c)) : cr_error_status();
}

static cr_status find_nonzeros(const cr_array *y, const cr_array *x, int64_t *count, const cr_array *counts,
                      const cr_array *ends) {
    const int64_t last = ends->numel - 1;
    cr_status status = dispatch_pieces(counts, x, NULL);
    if (status == CR_OK) status = cr_gpu_scan(&(cr_scan_args){.y = *ends, .x = *counts, .kind = CR_SCAN_SUM});
    if (status != CR_OK) return status;
    if (!y) return cr_gpu_download(x->dev, count, ends->storage, 8 * (size_t)last, 8);
    *count = y->shape[0];
    return dispatch_pieces(ends, x, y);
}

cr_status cr_gpu_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    int64_t *count = args->count;
    const int64_t pieces = gpu_ceil_div(x->numel, PIECE);
    *count = 0;
    if (!pieces) return CR_OK;
    const cr_array counts = cr_gpu_array(x->dev, CR_I64, CR_LIST(1, pieces, 1)),
                   ends = cr_gpu_array(x->dev, CR_I64, CR_LIST(1, pieces, 1));
    cr_status status = counts.storage && ends.storage ? find_nonzeros(y, x, count, &counts, &ends) : cr_error_status();
    cr_gpu_array_give(&ends);
    cr_gpu_array_give(&counts);
    return status;
}
