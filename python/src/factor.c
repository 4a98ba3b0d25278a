/* factor.c - factors of matrices and systems, for chainrule.linalg (linalg.py). */
#include "extension.h"

/* A tuple of n new handles; the failure that left y[0] NULL is raised. */
static PyObject *tuple_of(int n, cr_tensor *const y[]) {
    if (!y[0]) return raise_error();
    PyObject *made = PyTuple_New(n);
    for (int i = 0; made && i < n; i++) {
        PyObject *t = wrap(y[i]);
        if (!t || PyTuple_SetItem(made, i, t) < 0) Py_CLEAR(made);
    }
    return made;
}

cr_tensor *api__cholesky(const arg *a) { return cr_cholesky(a[0].t); }
cr_tensor *api__solve_triangular(const arg *a) { return cr_solve_triangular(a[0].t, a[1].t, a[2].b, a[3].b); }

PyObject *api__lu_factor(const arg *a) {
    cr_tensor *y[3];
    WITHOUT_GIL(y[0] = cr_lu_factor(a[0].t, &y[1], &y[2]));
    return tuple_of(3, y);
}
PyObject *api__solve(const arg *a) {
    cr_tensor *y[2];
    WITHOUT_GIL(y[0] = cr_solve(a[0].t, a[1].t, &y[1]));
    return tuple_of(2, y);
}
PyObject *api__qr(const arg *a) {
    cr_tensor *y[2];
    WITHOUT_GIL(y[0] = cr_qr(a[0].t, &y[1]));
    return tuple_of(2, y);
}
PyObject *api__eigh(const arg *a) {
    cr_tensor *y[2];
    WITHOUT_GIL(y[0] = cr_eigh(a[0].t, &y[1]));
    return tuple_of(2, y);
}
PyObject *api__svd(const arg *a) {
    cr_tensor *y[3];
    WITHOUT_GIL(y[0] = cr_svd(a[0].t, &y[1], &y[2]));
    return tuple_of(3, y);
}
cr_tensor *api__eigvalsh(const arg *a) { return cr_eigvalsh(a[0].t); }
cr_tensor *api__svdvals(const arg *a) { return cr_svdvals(a[0].t); }
