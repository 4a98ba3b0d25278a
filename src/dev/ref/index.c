/* index.c - reading and adding at given positions, and keeping a triangle.  Indices are all checked before anything is written. */
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
    const int64_t M = args->x.shape[0], R = args->x.shape[1], N = args->x.shape[2], K = args->index.shape[1];
    cr_status s = cr_ref_check_index("gather", index, R, false);
    if (s) return s;
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
    const cr_array *y = &args->y, *index = &args->index, *src = &args->src;
    const bool sum = args->sum;
    const int64_t M = args->y.shape[0], R = args->y.shape[1], N = args->y.shape[2], K = args->index.shape[1];
    cr_status s = cr_ref_check_index(sum ? "scatter_add" : "scatter", index, R, false);
    if (s) return s;
    EACH(m, M)
        EACH(k, K)
            EACH(n, N) {
                int64_t at = (m * K + k) * N + n;
                meet(sum, y, (m * R + get_int(index, at)) * N + n, src, at);
            }
    return CR_OK;
}

static int64_t wrapped(const cr_array *index, int64_t i, int64_t bound) {
    int64_t at = get_int(index, i);
    return at < 0 ? at + bound : at;
}

/* Where (m, r, n) lies in a tensor of three axes. */
static int64_t at3(const cr_array *t, int64_t m, int64_t r, int64_t n) { return m * t->strides[0] + r * t->strides[1] + n * t->strides[2]; }

cr_status cr_ref_take_rows(const cr_take_rows_args *args) {
    const cr_array *y = &args->y, *x = &args->x, *index = &args->index;
    const char *op = args->op;
    const bool wrap = args->wrap;
    const int64_t R = x->shape[1];
    cr_status s = cr_ref_check_index(op, index, R, wrap);
    if (s) return s;
    EACH(m, y->shape[0])
        EACH(k, y->shape[1])
            EACH(n, y->shape[2]) meet(false, y, at3(y, m, k, n), x, at3(x, m, wrapped(index, k, R), n));
    return CR_OK;
}

cr_status cr_ref_put_rows(const cr_put_rows_args *args) {
    const cr_array *x = &args->x, *index = &args->index, *src = &args->src;
    const char *op = args->op;
    const bool sum = args->sum, wrap = args->wrap;
    const int64_t R = x->shape[1];
    cr_status s = cr_ref_check_index(op, index, R, wrap);
    if (s) return s;
    EACH(m, src->shape[0])
        EACH(k, src->shape[1])
            EACH(n, src->shape[2]) meet(sum, x, at3(x, m, wrapped(index, k, R), n), src, at3(src, m, k, n));
    return CR_OK;
}

cr_status cr_ref_ravel(const cr_ravel_args *args) {
    const cr_array *y = &args->y;
    const char *op = args->op;
    const int n = args->n;
    const cr_array *const *index = args->index;
    const int64_t *sizes = args->sizes;
    for (int k = 0; k < n; k++) {
        cr_status s = cr_ref_check_index(op, index[k], sizes[k], true);
        if (s) return s;
    }
    EACH(i, y->numel) {
        int64_t at = 0;
        for (int k = 0; k < n; k++) at = at * sizes[k] + wrapped(index[k], i, sizes[k]);
        put_int(y, i, at);
    }
    return CR_OK;
}

cr_status cr_ref_nonzero(const cr_nonzero_args *args) {
    const cr_array *y = cr_present(&args->y), *x = &args->x;
    int64_t *count = args->count;
    *count = 0;
    EACH(i, x->numel) {
        if (!get_int(x, i)) continue;
        int64_t rest = i;
        for (int d = x->ndim - 1; y && d >= 0; d--) {
            put_int(y, *count * y->strides[0] + d * y->strides[1], rest % x->shape[d]);
            rest /= x->shape[d];
        }
        ++*count;
    }
    return CR_OK;
}

cr_status cr_ref_triangle(const cr_triangle_args *args) {
    const cr_array *y = &args->y, *x = &args->x;
    const int64_t M = args->x.shape[args->x.ndim - 2], N = args->x.shape[args->x.ndim - 1],
        diagonal = args->diagonal;
    const bool upper = args->upper;
    EACH(i, y->numel) {
        int64_t distance = i % N - i / N % M;
        bool kept = upper ? distance >= diagonal : distance <= diagonal;
        if (kept) memmove(address(y, i), address(x, i), cr_dtype_size(y->dtype));
        else memset(address(y, i), 0, cr_dtype_size(y->dtype));
    }
    return CR_OK;
}
