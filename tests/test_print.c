/* test_print.c - tensors as text.  tests/python/test_print.py compares many more with PyTorch. */
#include "test.h"

static void check_text(const cr_tensor *t, const cr_format_options *o, const char *wanted) {
    char *text = cr_format(t, o);
    CHECK(text && !strcmp(text, wanted), "%s, wanted %s", text ? text : cr_error(), wanted);
    cr_error_clear();
    free(text);
}

TEST(as_pytorch) {
    cr_scope_begin();
    const cr_device *cpu = cr_cpu();
    cr_tensor *w = cr_requires_grad_(cr_ones(CR_LIST(2), CR_F32, cpu), true);
    check_text(cr_from((float[]){1, 2, 3, 4}, CR_LIST(2, 2), CR_F32, cpu), NULL,
               "tensor([[1., 2.],\n        [3., 4.]])");
    check_text(cr_from((double[]){0.5, -12.25, NAN, INFINITY}, CR_LIST(4), CR_F64, cpu), NULL,
               "tensor([  0.5000, -12.2500,      nan,      inf], dtype=float64)");
    check_text(cr_from((float[]){1e-5f, -NAN}, CR_LIST(2), CR_F32, cpu), NULL, "tensor([1.0000e-05,        nan])");
    check_text(cr_full(CR_LIST(1), -7, CR_I8, cpu), NULL, "tensor([-7], dtype=int8)");
    check_text(cr_full(0, NULL, 1, CR_BOOL, cpu), NULL, "tensor(True)");
    check_text(cr_zeros(CR_LIST(2, 0), CR_F32, cpu), NULL, "tensor([], size=(2, 0))");
    check_text(cr_arange(0, 1001, 1, CR_I64, cpu), NULL, "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    check_text(w, NULL, "tensor([1., 1.], requires_grad=True)");
    check_text(cr_exp(w), NULL, "tensor([2.7183, 2.7183], grad_fn=<exp>)");
    check_text(cr_zeros(CR_LIST(3), CR_F32, cr_device_find("meta")), NULL, "tensor(..., device='meta', size=(3,))");
    cr_scope_end();
}

TEST(options) {
    cr_scope_begin();
    cr_format_options o = cr_format_defaults();
    cr_tensor *x = cr_from((float[]){1.5f, 2.25f, 3.125f, 4, 5}, CR_LIST(5), CR_F32, cr_cpu());
    o.precision = 1, o.sci_mode = 1, o.linewidth = 30;
    check_text(x, &o, "tensor([1.5e+00, 2.2e+00,\n        3.1e+00, 4.0e+00,\n        5.0e+00])");
    o = cr_format_defaults();
    o.threshold = 4, o.edgeitems = 0;
    check_text(x, &o, "tensor([ ...])");
    o = cr_format_defaults();
    o.dtypes = "torch.", o.grad_fn = "ExpBackward0";
    check_text(cr_full(CR_LIST(1), 1, CR_F64, cr_cpu()), &o,
               "tensor([1.], dtype=torch.float64, grad_fn=<ExpBackward0>)");
    o.precision = -1;
    CHECK(!cr_format(x, &o) && cr_error_status() == CR_BAD_VALUE, "a negative precision is refused");
    cr_error_clear();
    CHECK(!cr_format(NULL, NULL) && cr_error(), "NULL is refused");
    cr_error_clear();
    CHECK(!cr_format(CR_NONE, NULL) && cr_error(), "an absent tensor is refused");
    cr_error_clear();
    CHECK(cr_print(x) == CR_OK, "%s", cr_error());
    cr_scope_end();
}
