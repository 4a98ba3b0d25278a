/* plan_chain.h - a chain of elementwise kernels for plans, and the comparison of results by their bits. */
#ifndef CR_PLAN_CHAIN_H
#define CR_PLAN_CHAIN_H

#include "test.h"

static bool same_bits(const cr_tensor *a, const cr_tensor *b) {
    const size_t bytes = cr_dtype_size(cr_dtype_of(a)) * (size_t)cr_numel(a);
    if (cr_dtype_of(a) != cr_dtype_of(b) || cr_numel(a) != cr_numel(b)) return false;
    void *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    OK(cr_read(a, cr_dtype_of(a), x, bytes));
    OK(cr_read(b, cr_dtype_of(b), y, bytes));
    const bool same = !memcmp(x, y, bytes);
    free(x), free(y);
    return same;
}

/* Elementwise kernels that follow each other, with their gradients: products and sums within a kernel and across two,
 * and values of half precision between them. */
static inline cr_tensor *chained(const cr_tensor *const *in, cr_dtype dt) {
    const cr_device *dev = cr_device_of(in[0]);
    cr_program *minus = cr_program_new("minus", "a b c", "", "a * b - c"),
               *from = cr_program_new("from", "a b c", "", "c - a * b");
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_detach(in[0]), true), *h = cr_to(x, dt, dev), *dx = NULL;
    cr_tensor *y = cr_lerp(cr_gelu(h), cr_to(in[1], dt, dev), cr_square(h));
    cr_tensor *z = cr_where(cr_gt(y, cr_scalar(0.1)), cr_mul_scalar(cr_silu(y), 3), cr_addcmul(h, h, y, 0.7));
    z = cr_program_apply(minus, 3, (const cr_tensor *[]){z, y, h}, NULL);
    z = cr_program_apply(from, 3, (const cr_tensor *[]){y, z, h}, NULL);
    cr_tensor *sum = cr_add(cr_to(z, CR_F32, dev), cr_to(cr_relu(y), CR_F32, dev));
    OK(cr_gradients(1, (const cr_tensor *const *)&sum, in, 1, (const cr_tensor *const *)&x, &dx, NULL));
    cr_tensor *kept = cr_keep(cr_cat(2, (const cr_tensor *[]){cr_detach(sum), dx}, 0));
    cr_program_free(minus), cr_program_free(from);
    cr_scope_end();
    return kept;
}

#endif
