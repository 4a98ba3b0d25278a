/* own_op.c - two ways to add an operation from outside the library: a fused expression, and an op with
 * a gradient of its own. */
#include <chainrule.h>
#include <stdio.h>

/* y = x^3 and its gradient dx = 3 x^2 g, both written with the library's functions: so the gradient
 * has a gradient too. */
static cr_tensor *cube(const cr_custom_call *c) { return cr_mul(cr_mul(c->in[0], c->in[0]), c->in[0]); }

static cr_status cube_backward(const cr_custom_call *c, const cr_tensor *g, cr_tensor **dx) {
    dx[0] = cr_mul(g, cr_mul_scalar(cr_mul(c->in[0], c->in[0]), 3));
    return dx[0] ? CR_OK : cr_error_status();
}

/* The op as a function of its inputs, for the gradient check. */
static cr_tensor *cube_of(int n, const cr_tensor *const *in, void *ctx) {
    (void)ctx;
    return cr_custom_apply("cube", n, in, NULL);
}

static int check(cr_status status, const char *what) {
    if (status == CR_OK) printf("%s: ok\n", what);
    else fprintf(stderr, "%s: %s\n", what, cr_error());
    return status != CR_OK;
}

int main(void) {
    const double data[] = {-1.5, 0.25, 2};
    const cr_custom_op op = {.name = "cube", .arity = 1, .forward = cube, .backward = cube_backward};
    cr_scope_begin();
    cr_tensor *x = cr_requires_grad_(cr_from(data, CR_LIST(3), CR_F64, cr_cpu()), true);
    const cr_tensor *in[] = {x, x};
    int failed = check(cr_custom_register(&op), "register");
    failed += check(cr_gradcheck(cube_of, NULL, 1, in, NULL), "gradient of cube");
    failed += check(cr_gradgradcheck(cube_of, NULL, 1, in, NULL), "its second derivative");

    /* One pass over memory, differentiable to any order: y = scale * a * tanh(b). */
    cr_program *gate = cr_program_new("gate", "a b", "scale", "scale * a * tanh(b)");
    const double scale = 0.5;
    cr_tensor *y = cr_program_apply(gate, 2, in, &scale);
    failed += check(cr_backward(cr_sum(y, CR_ALL, false), CR_NONE, NULL), "gate");
    double dx[3] = {0};
    failed += check(cr_read(cr_grad(x), CR_F64, dx, sizeof dx), "its gradient");
    printf("d gate(x, x) / dx = %.6f %.6f %.6f\n", dx[0], dx[1], dx[2]);
    cr_program_free(gate);
    cr_scope_end();
    return failed;
}
