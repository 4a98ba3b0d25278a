/* hello.c - gradients of the expression that opens micrograd's README.
 * build: cc hello.c $(pkg-config --cflags --libs chainrule) -o hello */
#include <chainrule.h>
#include <stdio.h>

static cr_tensor *leaf(double value) { return cr_requires_grad_(cr_full(CR_ALL, value, CR_F64, cr_cpu()), true); }

int main(void) {
    cr_scope_begin();                               /* owns every tensor made below */
    cr_tensor *a = leaf(-4), *b = leaf(2);
    cr_tensor *c = cr_add(a, b);
    cr_tensor *d = cr_add(cr_mul(a, b), cr_pow_scalar(b, 3));
    c = cr_add(c, cr_add_scalar(c, 1));                                         /* c += c + 1 */
    c = cr_add(c, cr_sub(cr_add_scalar(c, 1), a));                              /* c += 1 + c - a */
    d = cr_add(d, cr_add(cr_mul_scalar(d, 2), cr_relu(cr_add(b, a))));          /* d += d * 2 + relu(b + a) */
    d = cr_add(d, cr_add(cr_mul_scalar(d, 3), cr_relu(cr_sub(b, a))));          /* d += 3 * d + relu(b - a) */
    cr_tensor *e = cr_sub(c, d), *f = cr_mul(e, e);
    cr_tensor *g = cr_add(cr_div_scalar(f, 2), cr_div(cr_scalar(10), f));       /* g = f / 2 + 10 / f */

    /* A failure anywhere above would have come down to here as NULL: one check for all. */
    if (cr_backward(g, CR_NONE, NULL) != CR_OK) return fprintf(stderr, "%s\n", cr_error()), 1;
    printf("g     = %.4f\n", cr_item(g));
    printf("dg/da = %.4f\n", cr_item(cr_grad(a)));
    printf("dg/db = %.4f\n", cr_item(cr_grad(b)));
    cr_scope_end();
    return 0;
}
