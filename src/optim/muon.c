/* muon.c - the matrix step of Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/).
 * A matrix with the same singular vectors and with singular values near 1 replaces the momentum: five
 * steps of a quintic Newton-Schulz iteration. */
#include "optim.h"

#include <math.h>

#include "../core/status.h"

static cr_tensor *combine(const cr_tensor *x, double a, const cr_tensor *y, double b) {
    return cr_add(cr_mul_scalar(x, a), cr_mul_scalar(y, b));
}

/* x <- a x + (b A + c A A) x,  A = x x^T */
static cr_tensor *iterate(const cr_tensor *x, const double abc[3]) {
    cr_scope_begin();
    cr_tensor *gram = cr_matmul(x, cr_transpose(x, 0, 1));
    cr_tensor *polynomial = combine(gram, abc[1], cr_matmul(gram, gram), abc[2]);
    cr_tensor *y = combine(x, abc[0], cr_matmul(polynomial, x), 1);
    if (y) cr_keep(y);
    cr_scope_end();
    return y;
}

/* The products are (m, m) for the smaller side m: a tall matrix is transposed first.  Computed in f32 (f64 for f64);
 * torch.optim.Muon rounds to bf16 here. */
cr_tensor *cr_newton_schulz(const cr_tensor *u, const double abc[3], double eps, int steps) {
    static const char op[] = "newton_schulz";
    if (!u || !abc) return cr_fail_null(op, !u ? "x" : "the coefficients"), NULL;
    if (cr_ndim(u) != 2) return cr_fail(CR_BAD_VALUE, op, "needs a matrix, got %d axes", cr_ndim(u)), NULL;
    const bool tall = cr_size(u, 0) > cr_size(u, 1);
    cr_scope_begin();
    const cr_tensor *norm = cr_sqrt(cr_sum(cr_square(u), CR_ALL, false));
    cr_tensor *x = cr_div(u, cr_maximum(norm, cr_scalar(eps)));                         /* singular values at most 1 */
    if (tall) x = cr_transpose(x, 0, 1);
    for (int i = 0; i < steps; i++) x = iterate(x, abc);
    if (tall) x = cr_transpose(x, 0, 1);
    if (x) cr_keep(x);
    cr_scope_end();
    return x;
}

/* The coefficients of the source above: the largest slope at 0 that brings singular values in (0, 1]
 * to about (0.7, 1.2). */
static cr_tensor *orthogonal(const cr_tensor *u) {
    return cr_newton_schulz(u, (const double[]){3.4445, -4.7750, 2.0315}, 1e-7, 5);
}

/* The factor of lr.  The root mean square of an orthogonal step is sqrt(min / (M N)) = 1 / sqrt(max).
 * Times 0.2 sqrt(max) it equals that of AdamW's steps (Liu et al. 2025, "Muon is scalable for LLM
 * training", https://arxiv.org/abs/2502.16982), so that one lr serves both. */
static double scale_of(const cr_tensor *p) {
    const int64_t rows = cr_size(p, 0), columns = cr_size(p, 1);
    return 0.2 * sqrt((double)(rows > columns ? rows : columns));
}

/* p <- keep p - lr r orthogonal(u), where the row of ops.def makes u from momentum and gradient. */
static cr_status step(cr_optim *opt, const cr_slot *s, const cr_tensor *g) {
    const cr_program *average = cr_program_find(s->update->row),
                     *apply = cr_program_find(cr_slot_copy(s) ? "muon_apply_copy" : "muon_apply");
    cr_tensor *m = s->kept[0], *p = cr_slot_stepped(s), *u = cr_empty_like(m);
    if (!u) return cr_error_status();
    const cr_status status = cr_slot_run(opt, s, average, 1, (cr_tensor *[]){m, u}, (const cr_tensor *[]){m, g});
    const cr_tensor *direction = status == CR_OK ? orthogonal(u) : NULL;
    if (!direction) return cr_error_status();
    return cr_slot_run(opt, s, apply, scale_of(p), (cr_tensor *[]){p, cr_slot_copy(s)},
                       (const cr_tensor *[]){p, direction});
}

cr_status cr_muon_step(cr_optim *opt, const cr_slot *s, const cr_tensor *g) {
    cr_scope_begin();
    cr_status status = step(opt, s, g);
    cr_scope_end();
    return status;
}
