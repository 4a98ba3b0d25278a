/* quantized.c - weights of 4 or 8 bits, one after another (kernels.def has their layout). */
#include "ref.h"

static double weight(const cr_array *codes, const cr_array *scales, int64_t n, int64_t k, int64_t K) {
    const int64_t row = n * codes->strides[0];
    const double scale = get(scales, n * scales->strides[0] + k / (K / scales->shape[1]));
    if (cr_quantized_has_8_bits(codes)) return scale * (double)get_int(codes, row + k);
    const int64_t byte = get_int(codes, row + k / 32 * 16 + k % 16);
    return scale * (double)((k % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

cr_status cr_ref_dequantize(const cr_dequantize_args *args) {
    const int64_t N = args->y.shape[0], K = args->y.shape[1];
    EACH(n, N)
        EACH(k, K) put(&args->y, n * K + k, weight(&args->codes, &args->scales, n, k, K));
    return CR_OK;
}

cr_status cr_ref_linear_quantized(const cr_linear_quantized_args *args) {
    const cr_array *x = &args->x, *bias = cr_present(&args->bias);
    const int64_t M = x->shape[0], K = x->shape[1], N = args->y.shape[1];
    EACH(m, M)
        EACH(n, N) {
            double sum = 0;
            EACH(k, K) sum += get(x, m * K + k) * weight(&args->codes, &args->scales, n, k, K);
            put(&args->y, m * N + n, sum + (bias ? get(bias, n) : 0));
        }
    cr_note_done(args->done, true);
    return CR_OK;
}
