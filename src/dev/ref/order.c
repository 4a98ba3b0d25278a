/* order.c - sort, one element of an order, search in sorted rows, runs of equal rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ref.h"

/* Does element i of a come before element j of b?  NaN is larger than every number. */
static bool before(const cr_array *a, int64_t i, const cr_array *b, int64_t j) {
    if (!is_float(a)) return less_int(a->dtype, get_int(a, i), get_int(b, j));
    double x = get(a, i), y = get(b, j);
    return isnan(y) ? !isnan(x) : x < y;
}

static bool is_nan(const cr_array *x, int64_t i) { return is_float(x) && isnan(get(x, i)); }

/* 0 .. n - 1 in order, by a stable merge sort.  The caller frees them. */
int64_t *cr_ref_order(int64_t n, bool (*less)(const void *ctx, int64_t i, int64_t j), const void *ctx) {
    int64_t *from = calloc((size_t)n + 1, sizeof *from), *to = calloc((size_t)n + 1, sizeof *to);
    if (from && to) EACH(i, n) from[i] = i;
    for (int64_t run = 1; from && to && run < n; run *= 2) {
        EACH(pair, (n - 1) / (2 * run) + 1) {
            const int64_t start = pair * 2 * run, middle = cr_imin(start + run, n), end = cr_imin(middle + run, n);
            int64_t a = start, b = middle;
            EACH(at, end - start)
            to[start + at] = b == end || (a < middle && !less(ctx, from[b], from[a])) ? from[a++] : from[b++];
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (!from || !to) {
        cr_fail(CR_NO_MEMORY, "ref", "out of memory: asked for %zu bytes", sizeof *from * (size_t)n);
        free(from);
        from = NULL;
    }
    free(to);
    return from;
}

typedef struct rank { const cr_array *x; int64_t first; bool descending; } rank;
static bool before_in_row(const void *ctx, int64_t i, int64_t j) {
    const rank *r = ctx;
    return r->descending ? before(r->x, r->first + j, r->x, r->first + i)
                         : before(r->x, r->first + i, r->x, r->first + j);
}
static int64_t *order_of(const cr_array *x, int64_t m, int64_t R, bool descending) {
    return cr_ref_order(R, before_in_row, &(rank){x, m * R, descending});
}

static void pick(const cr_array *y, const cr_array *index, int64_t at, const cr_array *x, int64_t row, int64_t i) {
    memcpy(address(y, at), address(x, row + i), cr_dtype_size(x->dtype));
    put_int(index, at, i);
}

cr_status cr_ref_sort(const cr_sort_args *args) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], R = x->shape[1], K = args->index.shape[1];
    EACH(m, M) {
        int64_t *order = order_of(x, m, R, args->descending);
        if (!order) return CR_NO_MEMORY;
        EACH(k, K) pick(&args->y, &args->index, m * K + k, x, m * R, order[k]);
        free(order);
    }
    return CR_OK;
}

cr_status cr_ref_kth(const cr_kth_args *args) {
    const cr_array *x = &args->x;
    const int64_t M = x->shape[0], R = x->shape[1];
    EACH(m, M) {
        int64_t *order = order_of(x, m, R, false), numbers = 0, at = args->k;
        if (!order) return CR_NO_MEMORY;
        EACH(i, R) numbers += !is_nan(x, m * R + i);
        if (args->k == CR_KTH_MEDIAN) at = numbers < R ? numbers : (R - 1) / 2;
        if (args->k == CR_KTH_NANMEDIAN) at = numbers ? (numbers - 1) / 2 : 0;
        pick(&args->y, &args->index, m, x, m * R, order[at]);
        free(order);
    }
    return CR_OK;
}

cr_status cr_ref_search(const cr_search_args *args) {
    const cr_array *x = &args->x, *v = &args->v;
    const int64_t M = v->shape[0], K = v->shape[1], R = x->shape[x->ndim - 1];
    EACH(m, M)
        EACH(k, K) {
            int64_t row = x->ndim == 1 ? 0 : m * R, at = m * K + k, n = 0;
            EACH(r, R) {
                if (args->right ? before(v, at, x, row + r) : !before(x, row + r, v, at)) break;
                n = r + 1;
            }
            put_int(&args->y, at, n);
        }
    return CR_OK;
}

cr_status cr_ref_runs(const cr_runs_args *args) {
    const cr_array *x = &args->x, *run = cr_present(&args->run), *order = cr_present(&args->order);
    const int64_t R = x->shape[0], C = x->shape[1];
    int64_t n = 0;
    EACH(i, R) {
        bool fresh = i == 0;
        if (i) EACH(c, C) {
            int64_t a = i * C + c, b = a - C;
            fresh |= is_nan(x, a) || before(x, a, x, b) || before(x, b, x, a);
        }
        if (fresh) put_int(&args->starts, n++, i);
        if (run) put_int(run, order ? get_int(order, i) : i, n - 1);
    }
    put_int(&args->count, 0, n);
    return CR_OK;
}
