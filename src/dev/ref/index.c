/* index.c - gather, scatter, rows, coordinates and triangles.  All indices are checked before anything is written. */
#include <string.h>
#include "ref.h"

cr_status cr_ref_check_index(const char *op, const cr_array *index, int64_t bound, bool wrap) {
    EACH(i, index->numel) {
        int64_t at = get_int(index, i);
        if (at < (wrap ? -bound : 0) || at >= bound)
            return cr_fail(CR_BAD_INDEX, op, "index %lld at position %lld is out of range for size %lld",
                           (long long)at, (long long)i, (long long)bound);
    }
    return CR_OK;
}

static void add_to(const cr_array *y, int64_t at, const cr_array *x, int64_t from) {
    if (is_float(y)) put(y, at, get(y, at) + get(x, from));
    else put_int(y, at, add_wrap(get_int(y, at), get_int(x, from)));
}

cr_status cr_ref_gather(const cr_gather_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const int64_t M = x->shape[0], R = x->shape[1], N = x->shape[2], K = index->shape[1];
    const cr_status status = cr_ref_check_index("gather", index, R, false);
    if (status != CR_OK) return status;
    EACH(m, M)
        EACH(k, K)
            EACH(n, N) {
                int64_t at = (m * K + k) * N + n;
                memcpy(address(y, at), address(x, (m * R + get_int(index, at)) * N + n), cr_dtype_size(y->dtype));
            }
    return CR_OK;
}

/* y[at] = x[from], or += it */
static void meet(bool sum, const cr_array *y, int64_t at, const cr_array *x, int64_t from) {
    if (sum) add_to(y, at, x, from);
    else memcpy(address(y, at), address(x, from), cr_dtype_size(y->dtype));
}

cr_status cr_ref_scatter(const cr_scatter_args *args) {
    const cr_array *y = &args->y, *index = &args->index;
    const int64_t M = y->shape[0], R = y->shape[1], N = y->shape[2], K = index->shape[1];
    const cr_status status = cr_ref_check_index(args->sum ? "scatter_add" : "scatter", index, R, false);
    if (status != CR_OK) return status;
    EACH(m, M)
        EACH(k, K)
            EACH(n, N) {
                int64_t at = (m * K + k) * N + n;
                meet(args->sum, y, (m * R + get_int(index, at)) * N + n, &args->src, at);
            }
    return CR_OK;
}

static int64_t wrapped(const cr_array *index, int64_t i, int64_t bound) {
    int64_t at = get_int(index, i);
    return at < 0 ? at + bound : at;
}

/* The offset of (m, r, n) in an array of three axes. */
static int64_t at3(const cr_array *t, int64_t m, int64_t r, int64_t n) {
    return m * t->strides[0] + r * t->strides[1] + n * t->strides[2];
}

cr_status cr_ref_take_rows(const cr_take_rows_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const int64_t R = x->shape[1];
    const cr_status status = cr_ref_check_index(args->op, index, R, args->wrap);
    if (status != CR_OK) return status;
    EACH(m, y->shape[0])
        EACH(k, y->shape[1])
            EACH(n, y->shape[2]) meet(false, y, at3(y, m, k, n), x, at3(x, m, wrapped(index, k, R), n));
    return CR_OK;
}

cr_status cr_ref_put_rows(const cr_put_rows_args *args) {
    const cr_array *x = &args->x, *index = &args->index, *src = &args->src;
    const int64_t R = x->shape[1];
    const cr_status status = cr_ref_check_index(args->op, index, R, args->wrap);
    if (status != CR_OK) return status;
    EACH(m, src->shape[0])
        EACH(k, src->shape[1])
            EACH(n, src->shape[2]) meet(args->sum, x, at3(x, m, wrapped(index, k, R), n), src, at3(src, m, k, n));
    return CR_OK;
}

cr_status cr_ref_ravel(const cr_ravel_args *args) {
    for (int k = 0; k < args->n; k++) {
        const cr_status status = cr_ref_check_index(args->op, args->index[k], args->sizes[k], true);
        if (status != CR_OK) return status;
    }
    EACH(i, args->y.numel) {
        int64_t at = 0;
        for (int k = 0; k < args->n; k++) at = at * args->sizes[k] + wrapped(args->index[k], i, args->sizes[k]);
        put_int(&args->y, i, at);
    }
    return CR_OK;
}

/* Row `row` of y: the coordinates of element i. */
static void put_position(const cr_array *y, int64_t row, int64_t i, const cr_array *x) {
    for (int d = x->ndim - 1; d >= 0; d--) {
        put_int(y, row * y->strides[0] + d * y->strides[1], i % x->shape[d]);
        i /= x->shape[d];
    }
}

cr_status cr_ref_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    int64_t count = 0;
    EACH(i, x->numel) {
        if (!get_int(x, i)) continue;
        if (y) put_position(y, count, i, x);
        count++;
    }
    *args->count = count;
    return CR_OK;
}

cr_status cr_ref_triangle(const cr_triangle_args *args) {
    const cr_array *y = &args->y;
    const int64_t M = y->shape[y->ndim - 2], N = y->shape[y->ndim - 1];
    EACH(i, y->numel) {
        int64_t distance = i % N - i / N % M;
        bool kept = args->upper ? distance >= args->diagonal : distance <= args->diagonal;
        if (kept) memmove(address(y, i), address(&args->x, i), cr_dtype_size(y->dtype));
        else memset(address(y, i), 0, cr_dtype_size(y->dtype));
    }
    return CR_OK;
}
