/* index.c - reading and adding at given positions, and keeping a triangle.  Indices are all checked before anything is written. */
#include <string.h>
#include "ref.h"

cr_status ref_check_index(const char *op, const cr_tensor *index, int64_t bound) {
    for (int64_t i = 0; i < index->numel; i++) {
        int64_t at = get_int(index, i);
        if (at < 0 || at >= bound)
            return cr_fail(CR_BAD_INDEX, op, "index %lld at position %lld is out of range for size %lld",
                           (long long)at, (long long)i, (long long)bound);
    }
    return CR_OK;
}

static void add_to(cr_tensor *y, int64_t at, const cr_tensor *x, int64_t from) {
    if (is_float(y)) put(y, at, get(y, at) + get(x, from));
    else put_int(y, at, add_wrap(get_int(y, at), get_int(x, from)));
}

cr_status ref_gather(cr_tensor *y, const cr_tensor *x, const cr_tensor *index, int64_t M, int64_t R, int64_t N, int64_t K) {
    cr_status s = ref_check_index("gather", index, R);
    if (s) return s;
    for (int64_t m = 0; m < M; m++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = 0; n < N; n++) {
                int64_t at = (m * K + k) * N + n;
                memcpy(address(y, at), address(x, (m * R + get_int(index, at)) * N + n), cr_dtype_size((cr_dtype)y->dtype));
            }
    return CR_OK;
}

cr_status ref_scatter_add(cr_tensor *y, const cr_tensor *index, const cr_tensor *src, int64_t M, int64_t R, int64_t N, int64_t K) {
    cr_status s = ref_check_index("scatter_add", index, R);
    if (s) return s;
    for (int64_t m = 0; m < M; m++)
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = 0; n < N; n++) {
                int64_t at = (m * K + k) * N + n;
                add_to(y, (m * R + get_int(index, at)) * N + n, src, at);
            }
    return CR_OK;
}

cr_status ref_take_rows(cr_tensor *y, const cr_tensor *w, const cr_tensor *index) {
    int64_t V = w->shape[0], C = w->shape[1];
    cr_status s = ref_check_index("embedding", index, V);
    if (s) return s;
    for (int64_t i = 0; i < index->numel; i++)
        for (int64_t c = 0; c < C; c++)
            memcpy(address(y, i * C + c), address(w, get_int(index, i) * C + c), cr_dtype_size((cr_dtype)y->dtype));
    return CR_OK;
}

cr_status ref_add_rows(cr_tensor *w, const cr_tensor *index, const cr_tensor *g) {
    int64_t V = w->shape[0], C = w->shape[1];
    cr_status s = ref_check_index("embedding", index, V);
    if (s) return s;
    for (int64_t i = 0; i < index->numel; i++)
        for (int64_t c = 0; c < C; c++) add_to(w, get_int(index, i) * C + c, g, i * C + c);
    return CR_OK;
}

cr_status ref_triangle(cr_tensor *y, const cr_tensor *x, int64_t M, int64_t N, int64_t diagonal, bool upper) {
    for (int64_t i = 0; i < y->numel; i++) {
        int64_t distance = i % N - i / N % M;
        bool kept = upper ? distance >= diagonal : distance <= diagonal;
        if (kept) memcpy(address(y, i), address(x, i), cr_dtype_size((cr_dtype)y->dtype));
        else memset(address(y, i), 0, cr_dtype_size((cr_dtype)y->dtype));
    }
    return CR_OK;
}
