/* muon.c - the matrix step of Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/): the momentum is replaced by a
 * matrix with the same singular vectors and singular values near 1, found by five steps of a quintic Newton-Schulz iteration. */
#include "optim.h"

#include <math.h>

/* x <- a x + (b A + c A A) x,  A = x x^T.  The coefficients of the source above: the largest slope at 0 for which singular values
 * in (0, 1] end up in about (0.7, 1.2). */
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

/* The products are (m, m) for the smaller side m: a tall matrix is worked on transposed.  f32, and f64 for f64; torch.optim.Muon
 * rounds to bf16 here. */
cr_tensor *cr_muon_orthogonal(const cr_tensor *u) {
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

/* An orthogonal step has a root mean square of sqrt(min / (M N)) = 1 / sqrt(max): times 0.2 sqrt(max) it is as large as AdamW's
 * (Liu et al. 2025, "Muon is scalable for LLM training", https://arxiv.org/abs/2502.16982), so that one lr serves both kinds. */
double cr_muon_scale(const cr_tensor *p) { return 0.2 * sqrt((double)(cr_size(p, 0) > cr_size(p, 1) ? cr_size(p, 0) : cr_size(p, 1))); }
