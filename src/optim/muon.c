/* muon.c - the matrix step of Muon (Jordan et al. 2024,
 * https://kellerjordan.github.io/posts/muon/).  A matrix with the same singular vectors and with
 * singular values near 1 replaces the momentum: five steps of a quintic Newton-Schulz iteration. */
#include "optim.h"

#include <math.h>

/* x <- a x + (b A + c A A) x,  A = x x^T.  The coefficients are those of the source above: the
 * largest slope at 0 that brings singular values in (0, 1] to about (0.7, 1.2). */
static const double A = 3.4445, B = -4.7750, C = 2.0315;
enum { STEPS = 5 };

static cr_tensor *combine(const cr_tensor *x, double a, const cr_tensor *y, double b) {
    return cr_add(cr_mul_scalar(x, a), cr_mul_scalar(y, b));
}

static cr_tensor *iterate(const cr_tensor *x) {
    cr_scope_begin();
    cr_tensor *gram = cr_matmul(x, cr_transpose(x, 0, 1));
    cr_tensor *polynomial = combine(gram, B, cr_matmul(gram, gram), C);
    cr_tensor *y = combine(x, A, cr_matmul(polynomial, x), 1);
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

/* The nearest orthogonal matrix to u (M, N), roughly; a new tensor.  The products are (m, m) for
 * the smaller side m: a tall matrix is transposed first.  Computed in f32 (f64 for f64);
 * torch.optim.Muon rounds to bf16 here. */
static cr_tensor *orthogonal(const cr_tensor *u) {
    const bool tall = cr_size(u, 0) > cr_size(u, 1);
    cr_scope_begin();
    const cr_tensor *norm = cr_sqrt(cr_sum(cr_square(u), CR_ALL, false));
    cr_tensor *x = cr_div(u, cr_maximum(norm, cr_scalar(1e-7)));                        /* singular values at most 1 */
    if (tall) x = cr_transpose(x, 0, 1);
    for (int i = 0; i < STEPS; i++) x = iterate(x);
    if (tall) x = cr_transpose(x, 0, 1);
    if (x) cr_keep(x);
    cr_scope_end();
    return x;
}

/* The factor of lr.  The root mean square of an orthogonal step is sqrt(min / (M N)) = 1 /
 * sqrt(max).  Times 0.2 sqrt(max) it equals that of AdamW's steps (Liu et al. 2025, "Muon is
 * scalable for LLM training", https://arxiv.org/abs/2502.16982), so that one lr serves both. */
static double scale_of(const cr_tensor *p) {
    const int64_t rows = cr_size(p, 0), columns = cr_size(p, 1);
    return 0.2 * sqrt((double)(rows > columns ? rows : columns));
}

/* p <- keep p - lr r orthogonal(u), where the row of ops.def makes u from momentum and gradient. */
static cr_status step(const cr_slot *s, const cr_optim_options *o, const cr_tensor *g, double scale) {
    const cr_program *apply = cr_program_find(s->mirror ? "muon_apply_copy" : "muon_apply");
    double numbers[CR_MAX_NUMBERS];
    cr_tensor *m = s->moment[0], *u = cr_empty_like(m);
    if (!u) return cr_error_status();
    s->update->numbers(o, 0, scale, 0, numbers);
    cr_status status = cr_program_update(cr_program_find(s->update->row), 1, (cr_tensor *[]){m, u},
                                         (const cr_tensor *[]){m, g}, numbers);
    if (status != CR_OK) return status;
    const cr_tensor *direction = orthogonal(u);
    if (!direction) return cr_error_status();
    return cr_program_update(apply, 1, (cr_tensor *[]){s->p, s->mirror}, (const cr_tensor *[]){s->p, direction},
                             (double[]){o->lr * scale_of(s->p), 1 - o->lr * cr_slot_decay(s, o)});
}

cr_status cr_muon_step(const cr_slot *s, const cr_optim_options *o, const cr_tensor *g, double scale) {
    cr_scope_begin();
    cr_status status = step(s, o, g, scale);
    cr_scope_end();
    return status;
}
