/* matmul.c - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)], one result after another. */
#include "ref.h"

/* Offset of the first element of the i-th matrix of t, among the batches of shape `batch`; axes of size 1 repeat. */
static int64_t matrix(const cr_array *t, int64_t i, int ndim, const int64_t *batch) {
    int64_t strides[CR_MAX_DIMS];
    for (int d = 0; d < ndim; d++) strides[d] = t->shape[d] == 1 ? 0 : t->strides[d];
    return offset_of(i, ndim, batch, strides);
}

static double factor(const cr_array *t, int64_t at, int how) {
    double x = get(t, at);
    return how & CR_MATMUL_BF16 && t->dtype == CR_F32 ? (double)cr_bf16_to_f32(cr_f32_to_bf16((float)x)) : x;
}

/* The element of c at offset `at`, of column n: a row of a from offset from_a, a column of b from from_b. */
static void put_product(const cr_matmul_args *args, int64_t at, int64_t from_a, int64_t from_b, int64_t n) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    const int row = c->ndim - 2, column = c->ndim - 1;
    const bool add = args->how & CR_MATMUL_ADD;
    const int64_t K = a->shape[column], bias_at = bias ? n * bias->strides[0] : 0;
    int64_t whole = 0;
    double sum = 0;
    EACH(k, K) {
        const int64_t i = from_a + k * a->strides[column], j = from_b + k * b->strides[row];
        if (is_float(c)) sum += factor(a, i, args->how) * factor(b, j, args->how);
        else whole = add_wrap(whole, mul_wrap(get_int(a, i), get_int(b, j)));
    }
    if (is_float(c)) put(c, at, sum + (bias ? get(bias, bias_at) : 0) + (add ? get(c, at) : 0));
    else put_int(c, at, add_wrap(whole, add_wrap(bias ? get_int(bias, bias_at) : 0, add ? get_int(c, at) : 0)));
}

cr_status cr_ref_matmul(const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b;
    const int row = c->ndim - 2, column = c->ndim - 1;
    int64_t matrices = 1;
    for (int d = 0; d < row; d++) matrices *= c->shape[d];
    EACH(i, matrices) {
        const int64_t ai = matrix(a, i, row, c->shape), bi = matrix(b, i, row, c->shape),
                      ci = matrix(c, i, row, c->shape);
        EACH(m, c->shape[row])
            EACH(n, c->shape[column])
            put_product(args, ci + m * c->strides[row] + n * c->strides[column], ai + m * a->strides[row],
                        bi + n * b->strides[column], n);
    }
    return CR_OK;
}
