/* matmul.c - c (..., M, N) = [c +] a (..., M, K) b (..., K, N) [+ bias (N)], one result after another. */
#include "ref.h"

/* Offset of the first element of the i-th matrix of t, among the batches of shape `batch`; axes of size 1 repeat. */
static int64_t matrix(const cr_array *t, int64_t i, int ndim, const int64_t *batch) {
    int64_t strides[CR_MAX_DIMS];
    for (int d = 0; d < ndim; d++) strides[d] = t->shape[d] == 1 ? 0 : t->strides[d];
    return place(i, ndim, batch, strides);
}

static double factor(const cr_array *t, int64_t at, int how) {
    double x = get(t, at);
    return how & CR_MATMUL_BF16 && t->dtype == CR_F32 ? (double)cr_bf16_to_f32(cr_f32_to_bf16((float)x)) : x;
}

cr_status cr_ref_matmul(const cr_matmul_args *args) {
    const cr_array *c = &args->c, *a = &args->a, *b = &args->b, *bias = cr_present(&args->bias);
    const int how = args->how;
    int row = c->ndim - 2, column = c->ndim - 1;
    int64_t M = c->shape[row], N = c->shape[column], K = a->shape[column], matrices = 1;
    for (int d = 0; d < row; d++) matrices *= c->shape[d];
    EACH(i, matrices) {
        int64_t ai = matrix(a, i, row, c->shape), bi = matrix(b, i, row, c->shape), ci = matrix(c, i, row, c->shape);
        EACH(m, M)
            EACH(n, N) {
                int64_t at = ci + m * c->strides[row] + n * c->strides[column], whole = 0;
                double sum = 0;
                EACH(k, K) {
                    int64_t from_a = ai + m * a->strides[row] + k * a->strides[column];
                    int64_t from_b = bi + k * b->strides[row] + n * b->strides[column];
                    if (is_float(c)) sum += factor(a, from_a, how) * factor(b, from_b, how);
                    else whole = add_wrap(whole, mul_wrap(get_int(a, from_a), get_int(b, from_b)));
                }
                if (is_float(c)) put(c, at, sum + (bias ? get(bias, n * bias->strides[0]) : 0) + (how & CR_MATMUL_ADD ? get(c, at) : 0));
                else put_int(c, at, add_wrap(whole, add_wrap(bias ? get_int(bias, n * bias->strides[0]) : 0, how & CR_MATMUL_ADD ? get_int(c, at) : 0)));
            }
    }
    return CR_OK;
}
