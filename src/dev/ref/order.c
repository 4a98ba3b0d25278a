/* order.c - sorted rows, single elements of them, places in a sorted row, runs of equal rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ref.h"

/* Does element i of a come before element j of b?  NaN is larger than every number. */
static bool before(const cr_tensor *a, int64_t i, const cr_tensor *b, int64_t j) {
    if (!is_float(a)) return less_int((cr_dtype)a->dtype, get_int(a, i), get_int(b, j));
    double x = get(a, i), y = get(b, j);
    return isnan(y) ? !isnan(x) : x < y;
}

static bool is_nan(const cr_tensor *x, int64_t i) { return is_float(x) && isnan(get(x, i)); }

/* Positions 0 .. R - 1 of row m in order, by merging runs of 1, 2, 4...; the caller frees them. */
static int64_t *order_of(const cr_tensor *x, int64_t m, int64_t R, bool descending) {
    int64_t *from = malloc(sizeof *from * (size_t)R), *to = malloc(sizeof *to * (size_t)R);
    for (int64_t i = 0; from && to && i < R; i++) from[i] = i;
    for (int64_t run = 1; from && to && run < R; run *= 2) {
        for (int64_t start = 0; start < R; start += 2 * run) {
            int64_t middle = start + run < R ? start + run : R, end = middle + run < R ? middle + run : R;
            for (int64_t at = start, a = start, b = middle; at < end; at++) {
                bool later = a == middle;            /* of equal ones the first comes first */
                if (!later && b < end)
                    later = descending ? before(x, m * R + from[a], x, m * R + from[b]) : before(x, m * R + from[b], x, m * R + from[a]);
                to[at] = later ? from[b++] : from[a++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    if (!from || !to) {
        cr_fail(CR_NO_MEMORY, "ref", "out of memory: asked for %zu bytes", sizeof *from * (size_t)R);
        free(from);
        from = NULL;
    }
    free(to);
    return from;
}

static void pick(cr_tensor *y, cr_tensor *index, int64_t at, const cr_tensor *x, int64_t row, int64_t i) {
    memcpy(address(y, at), address(x, row + i), cr_dtype_size((cr_dtype)x->dtype));
    put_int(index, at, i);
}

cr_status ref_sort(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t K, bool descending) {
    for (int64_t m = 0; m < M; m++) {
        int64_t *order = order_of(x, m, R, descending);
        if (!order) return CR_NO_MEMORY;
        for (int64_t k = 0; k < K; k++) pick(y, index, m * K + k, x, m * R, order[k]);
        free(order);
    }
    return CR_OK;
}

cr_status ref_kth(cr_tensor *y, cr_tensor *index, const cr_tensor *x, int64_t M, int64_t R, int64_t k) {
    for (int64_t m = 0; m < M; m++) {
        int64_t *order = order_of(x, m, R, false), numbers = 0, at = k;
        if (!order) return CR_NO_MEMORY;
        for (int64_t i = 0; i < R; i++) numbers += !is_nan(x, m * R + i);
        if (k == CR_KTH_MEDIAN) at = numbers < R ? numbers : (R - 1) / 2;
        if (k == CR_KTH_NANMEDIAN) at = numbers ? (numbers - 1) / 2 : 0;
        pick(y, index, m, x, m * R, order[at]);
        free(order);
    }
    return CR_OK;
}

cr_status ref_search(cr_tensor *y, const cr_tensor *x, const cr_tensor *v, int64_t M, int64_t R, int64_t K, bool shared, bool right) {
    for (int64_t m = 0; m < M; m++)
        for (int64_t k = 0; k < K; k++) {
            int64_t row = shared ? 0 : m * R, at = m * K + k, n = 0;
            while (n < R && (right ? !before(v, at, x, row + n) : before(x, row + n, v, at))) n++;
            put_int(y, at, n);
        }
    return CR_OK;
}

cr_status ref_runs(cr_tensor *run, cr_tensor *starts, cr_tensor *count, const cr_tensor *x, const cr_tensor *order, int64_t R, int64_t C) {
    int64_t n = 0;
    for (int64_t i = 0; i < R; i++) {
        bool fresh = i == 0;
        for (int64_t c = 0; c < C && i; c++) {
            int64_t a = i * C + c, b = a - C;
            fresh |= is_nan(x, a) || before(x, a, x, b) || before(x, b, x, a);
        }
        if (fresh) put_int(starts, n++, i);
        if (run) put_int(run, order ? get_int(order, i) : i, n - 1);
    }
    put_int(count, 0, n);
    return CR_OK;
}
