/* matmul_names.c - products of two tensors under their own names, and sums with them: composites of
 * matmul.  einsum.c has those over named axes. */
#include "compose.h"

#include <math.h>

static bool has_axes(const char *op, const cr_tensor *a, int na, const cr_tensor *b, int nb) {
    if (!cr_given(op, "the first operand", a) || !cr_given(op, "the second operand", b)) return false;
    if (a->ndim == na && b->ndim == nb) return true;
    return cr_fail(CR_BAD_VALUE, op, "needs tensors of %d and %d axes: %s, %s", na, nb,
                   cr_shape_text(a->ndim, a->shape).s, cr_shape_text(b->ndim, b->shape).s),
           false;
}

static cr_tensor *product(const char *op, const cr_tensor *a, const cr_tensor *b) {
    const cr_status before = cr_error_status();
    return cr_named(op, before, cr_matmul(a, b));
}

cr_tensor *cr_mm(const cr_tensor *a, const cr_tensor *b) {
    return has_axes("mm", a, 2, b, 2) ? product("mm", a, b) : NULL;
}
cr_tensor *cr_mv(const cr_tensor *a, const cr_tensor *v) {
    return has_axes("mv", a, 2, v, 1) ? product("mv", a, v) : NULL;
}
cr_tensor *cr_dot(const cr_tensor *a, const cr_tensor *b) {
    return has_axes("dot", a, 1, b, 1) ? product("dot", a, b) : NULL;
}

static bool batches_match(const char *op, const cr_tensor *a, const cr_tensor *b) {
    if (!has_axes(op, a, 3, b, 3)) return false;
    if (a->shape[0] == b->shape[0]) return true;
    return cr_fail(CR_BAD_VALUE, op, "batches differ: %s, %s", cr_shape_text(3, a->shape).s,
                   cr_shape_text(3, b->shape).s),
           false;
}

cr_tensor *cr_bmm(const cr_tensor *a, const cr_tensor *b) {
    return batches_match("bmm", a, b) ? product("bmm", a, b) : NULL;
}

cr_tensor *cr_outer(const cr_tensor *a, const cr_tensor *b) {
    if (!has_axes("outer", a, 1, b, 1)) return NULL;
    /* else dtypes promote */
    const bool kernel = a->dtype == b->dtype && (a->dtype == CR_F32 || a->dtype == CR_F64);
    const cr_status before = cr_error_status();
    cr_scope_begin();
    cr_tensor *column = cr_unsqueeze(a, 1);
    return cr_named("outer", before, cr_leave(kernel ? cr_matmul(column, cr_unsqueeze(b, 0)) : cr_mul(column, b)));
}

cr_tensor *cr_inner(const cr_tensor *a, const cr_tensor *b) {
    if (!cr_given("inner", "a", a) || !cr_given("inner", "b", b)) return NULL;
    if (!a->ndim || !b->ndim) return cr_mul(a, b);
    if (a->shape[a->ndim - 1] != b->shape[b->ndim - 1])
        return cr_fail(CR_BAD_VALUE, "inner", "the last axes differ: %s, %s", cr_shape_text(a->ndim, a->shape).s,
                       cr_shape_text(b->ndim, b->shape).s),
               NULL;
    return cr_tensordot(a, b, 1, (const int64_t[]){-1}, (const int64_t[]){-1});
}

/* Every axis of the result is an axis of a and, inside it, one of b: axes 2 i and 2 i + 1 of their product. */
cr_tensor *cr_kron(const cr_tensor *a, const cr_tensor *b) {
    if (!cr_given("kron", "a", a) || !cr_given("kron", "b", b)) return NULL;
    const int n = a->ndim > b->ndim ? a->ndim : b->ndim;
    int64_t sa[CR_MAX_DIMS], sb[CR_MAX_DIMS], shape[CR_MAX_DIMS];
    if (2 * n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "kron", "takes at most %d axes: %s, %s", CR_MAX_DIMS / 2,
                       cr_shape_text(a->ndim, a->shape).s, cr_shape_text(b->ndim, b->shape).s),
               NULL;
    for (int i = 0; i < n; i++) {
        sa[2 * i] = i < n - a->ndim ? 1 : a->shape[i - (n - a->ndim)];
        sb[2 * i + 1] = i < n - b->ndim ? 1 : b->shape[i - (n - b->ndim)];
        sa[2 * i + 1] = sb[2 * i] = 1;
        if (__builtin_mul_overflow(sa[2 * i], sb[2 * i + 1], &shape[i]))
            return cr_fail(CR_BAD_VALUE, "kron", "the result is too large: %s, %s", cr_shape_text(a->ndim, a->shape).s,
                           cr_shape_text(b->ndim, b->shape).s),
                   NULL;
    }
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("kron", before,
                    cr_leave(cr_reshape(cr_mul(cr_reshape(a, 2 * n, sa), cr_reshape(b, 2 * n, sb)), n, shape)));
}

cr_tensor *cr_trace(const cr_tensor *x) {
    if (!cr_given("trace", "x", x)) return NULL;
    if (x->ndim != 2)
        return cr_fail(CR_BAD_VALUE, "trace", "needs a matrix: %s", cr_shape_text(x->ndim, x->shape).s), NULL;
    cr_scope_begin();
    return cr_leave(cr_sum(cr_diagonal(x, 0, 0, 1), CR_ALL, false));
}

/* ---- sums with products */
static bool factors_fit(const char *op, const cr_tensor *x, double beta, double alpha) {
    if (!cr_given(op, "x", x)) return false;
    if (cr_dtype_is_float(x->dtype)) return true;
    const double limit = 0x1p63, bad = beta != trunc(beta) || fabs(beta) >= limit ? beta : alpha;
    if (bad == trunc(bad) && fabs(bad) < limit) return true;
    return cr_fail(CR_BAD_TYPE, op, "a factor of %s must be an integer of 64 bits: %g", cr_dtype_name(x->dtype), bad),
           false;
}

static const cr_tensor *times(const cr_tensor *x, double k) {
    if (k == 1 || !x) return x;
    return cr_mul(x, cr_dtype_is_float(x->dtype) ? cr_scalar(k) : cr_scalar_int((int64_t)k));
}

/* beta x + alpha a b.  With beta 0 only the shape of x counts, so that a NaN in x does not matter. */
static cr_tensor *added(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha) {
    if (!a || !b) return NULL;
    if (a->numel <= b->numel) a = times(a, alpha);
    else b = times(b, alpha);
    if (beta != 0) return cr_apply(&cr_op_addmm, 3, (const cr_tensor *const[]){times(x, beta), a, b}, NULL);
    cr_tensor *y = cr_matmul(a, b);
    return y && cr_expand(x, y->ndim, y->shape) ? y : NULL;
}

cr_tensor *cr_addmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha) {
    if (!factors_fit("addmm", x, beta, alpha) || !has_axes("addmm", a, 2, b, 2)) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("addmm", before, cr_leave(added(x, a, b, beta, alpha)));
}

cr_tensor *cr_addmv(const cr_tensor *x, const cr_tensor *a, const cr_tensor *v, double beta, double alpha) {
    if (!factors_fit("addmv", x, beta, alpha) || !has_axes("addmv", a, 2, v, 1)) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("addmv", before, cr_leave(added(x, a, v, beta, alpha)));
}

cr_tensor *cr_addr(const cr_tensor *x, const cr_tensor *u, const cr_tensor *v, double beta, double alpha) {
    if (!factors_fit("addr", x, beta, alpha) || !has_axes("addr", u, 1, v, 1)) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("addr", before, cr_leave(added(x, cr_unsqueeze(u, 1), cr_unsqueeze(v, 0), beta, alpha)));
}

cr_tensor *cr_baddbmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha) {
    if (!factors_fit("baddbmm", x, beta, alpha) || !batches_match("baddbmm", a, b)) return NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("baddbmm", before, cr_leave(added(x, a, b, beta, alpha)));
}

/* The sum over the batch is one product: its inner axis is the batch and K together. */
cr_tensor *cr_addbmm(const cr_tensor *x, const cr_tensor *a, const cr_tensor *b, double beta, double alpha) {
    if (!factors_fit("addbmm", x, beta, alpha) || !batches_match("addbmm", a, b)) return NULL;
    const int64_t B = a->shape[0], M = a->shape[1], K = a->shape[2], N = b->shape[2];
    if (K != b->shape[1])
        return cr_fail(CR_BAD_VALUE, "addbmm", "inner dimensions differ: %s x %s", cr_shape_text(3, a->shape).s,
                       cr_shape_text(3, b->shape).s),
               NULL;
    const cr_status before = cr_error_status();
    cr_scope_begin();
    return cr_named("addbmm", before,
                    cr_leave(added(x, cr_reshape(cr_permute(a, CR_LIST(1, 0, 2)), CR_LIST(M, B * K)),
                                   cr_reshape(b, CR_LIST(B * K, N)), beta, alpha)));
}
