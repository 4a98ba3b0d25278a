/* make.c - tensors made from sizes, data and random numbers. */
#include "extension.h"

#include <math.h>

static cr_tensor *leaf(cr_tensor *t, const arg *requires_grad) {
    if (!t || !requires_grad->b || cr_requires_grad_(t, true)) return t;
    cr_release(t);
    return NULL;
}

/* (size, dtype, device, requires_grad) */
cr_tensor *api_zeros(const arg *a) { return leaf(cr_zeros(a[0].size.n, a[0].size.v, a[1].dt, a[2].dev), &a[3]); }
cr_tensor *api_ones(const arg *a) { return leaf(cr_ones(a[0].size.n, a[0].size.v, a[1].dt, a[2].dev), &a[3]); }
cr_tensor *api_empty(const arg *a) { return leaf(cr_empty(a[0].size.n, a[0].size.v, a[1].dt, a[2].dev), &a[3]); }
/* As cr_full, but a double does not hold every integer. */
static cr_tensor *full(int n, const int64_t *shape, const number *x, cr_dtype dt, const cr_device *dev) {
    if (!x->integral || fabs(x->d) < 0x1p53 || (dt != CR_I64 && dt != CR_U64)) return cr_full(n, shape, x->d, dt, dev);
    if (x->huge && dt == CR_I64) {
        set_error(PyExc_RuntimeError, "[full] an int from 2^63 on fits uint64 only, not int64");
        return NULL;
    }
    cr_scope_begin();
    cr_tensor *y = cr_empty(n, shape, dt, dev), *value = scalar_of(x);
    return leave(y && value ? cr_copy_(y, value) : NULL);
}

/* (size, fill_value, dtype, device, requires_grad) */
cr_tensor *api_full(const arg *a) {
    return leaf(full(a[0].size.n, a[0].size.v, &a[1].x, a[2].given ? a[2].dt : dtype_of(&a[1].x), a[3].dev), &a[4]);
}
/* (start, end, steps, dtype, device, requires_grad) */
cr_tensor *api_linspace(const arg *a) {
    const bool whole = !cr_dtype_is_float(a[3].dt);  /* of integers the ends are integers too */
    return leaf(
        cr_linspace(whole ? trunc(a[0].x.d) : a[0].x.d, whole ? trunc(a[1].x.d) : a[1].x.d, a[2].i, a[3].dt, a[4].dev),
        &a[5]);
}
/* (n, m, dtype, device, requires_grad) */
cr_tensor *api_eye(const arg *a) {
    return leaf(cr_eye(a[0].i, a[1].given ? a[1].i : a[0].i, a[2].dt, a[3].dev), &a[4]);
}
/* (size, generator, dtype, device, requires_grad) */
cr_tensor *api_rand(const arg *a) { return leaf(cr_rand(a[0].size.n, a[0].size.v, a[2].dt, a[3].dev, a[1].g), &a[4]); }
cr_tensor *api_randn(const arg *a) {
    return leaf(cr_randn(a[0].size.n, a[0].size.v, a[2].dt, a[3].dev, a[1].g), &a[4]);
}

/* (input, dtype, device, requires_grad): the input gives dtype and device where the call does not */
static cr_dtype dtype_like(const arg *a, int at) { return a[at].given ? a[at].dt : cr_dtype_of(a[0].t); }
static const cr_device *device_like(const arg *a, int at) { return a[at].given ? a[at].dev : cr_device_of(a[0].t); }
/* y, taken, made like x: inside vmap for each of the samples that x stands for */
static cr_tensor *mapped_as(const cr_tensor *x, cr_tensor *y) {
    if (!y || !cr_level_of(x)) return y;
    cr_tensor *each = cr_wrapped_as(x, y);
    cr_release(y);
    return each;
}
#define OF_ITS_KIND cr_ndim(a[0].t), cr_shape(a[0].t), dtype_like(a, 1), device_like(a, 2)
#define LIKE(f) leaf(mapped_as(a[0].t, f(OF_ITS_KIND)), &a[3])
#define DRAWN(f) leaf(f(OF_ITS_KIND, cr_default_generator()), &a[3])
cr_tensor *api_zeros_like(const arg *a) { return LIKE(cr_zeros); }
cr_tensor *api__zeros_offloaded(const arg *a) { return cr_zeros_offloaded(a[0].t, a[1].dt); }
cr_tensor *api_ones_like(const arg *a) { return LIKE(cr_ones); }
cr_tensor *api_empty_like(const arg *a) { return LIKE(cr_empty); }
cr_tensor *api_rand_like(const arg *a) { return DRAWN(cr_rand); }
cr_tensor *api_randn_like(const arg *a) { return DRAWN(cr_randn); }
cr_tensor *api_full_like(const arg *a) {
    return leaf(mapped_as(a[0].t, full(cr_ndim(a[0].t), cr_shape(a[0].t), &a[1].x, dtype_like(a, 2),
                                       device_like(a, 3))), &a[4]);
}

/* (input, size, dtype, device, requires_grad) */
#define NEW(f) leaf(mapped_as(a[0].t, f(a[1].size.n, a[1].size.v, dtype_like(a, 2), device_like(a, 3))), &a[4])
cr_tensor *api_new_zeros(const arg *a) { return NEW(cr_zeros); }
cr_tensor *api_new_ones(const arg *a) { return NEW(cr_ones); }
cr_tensor *api_new_empty(const arg *a) { return NEW(cr_empty); }
cr_tensor *api_new_full(const arg *a) {
    return leaf(mapped_as(a[0].t, full(a[1].size.n, a[1].size.v, &a[2].x, dtype_like(a, 3), device_like(a, 4))), &a[5]);
}
/* (input, data, dtype, device, requires_grad) */
PyObject *api_new_tensor(const arg *a) {
    cr_dtype dt = dtype_like(a, 2);
    cr_tensor *t = tensor_from(a[1].o, &dt, device_like(a, 3));
    return t ? wrap(leaf(t, &a[4])) : NULL;
}

/* (input, low, high, dtype, device, requires_grad) */
cr_tensor *api_randint_like(const arg *a) {
    int64_t low = a[2].given ? a[1].i : 0, high = a[2].given ? a[2].i : a[1].i;
    return leaf(cr_randint(low, high, cr_ndim(a[0].t), cr_shape(a[0].t), dtype_like(a, 3), device_like(a, 4),
                           cr_default_generator()),
                &a[5]);
}

PyObject *api_arange(const arg *a) {
    number zero = {.integral = true}, start = a[0].given && a[1].given ? a[0].x : zero,
           end = a[1].given ? a[1].x : a[0].x;
    if (!a[0].given && !a[1].given) return PyErr_Format(PyExc_TypeError, "arange() missing required argument 'end'");
    const bool whole = start.integral && end.integral && a[2].x.integral;
    cr_dtype dt = a[3].given ? a[3].dt : whole ? CR_I64 : cr_default_dtype();
    cr_tensor *t;
    WITHOUT_GIL(t = leaf(cr_arange(start.d, end.d, a[2].x.d, dt, a[4].dev), &a[5]));
    return wrap(t);
}

PyObject *api_randint(const arg *a) {
    int64_t low = a[0].i, high = low, shape[CR_MAX_DIMS];
    int n;
    PyObject *size = a[2].o;
    /* randint(high, size) */
    if (a[2].o == Py_None && a[1].o != Py_None && !PyIndex_Check(a[1].o)) size = a[1].o, low = 0;
    else if (a[1].o == Py_None) low = 0; /* randint(high, size=...) */
    else if (!to_int64(a[1].o, &high)) return NULL;
    if (!a[0].given && a[1].o == Py_None)
        return PyErr_Format(PyExc_TypeError, "randint() missing required argument 'high'");
    if (!to_size(size, &n, shape))
        return PyErr_Occurred() ? NULL : raise_type(size, "randint(): argument 'size' must be ints, not");
    cr_tensor *t;
    WITHOUT_GIL(t = leaf(cr_randint(low, high, n, shape, a[4].given ? a[4].dt : CR_I64, a[5].dev, a[3].g), &a[6]));
    return wrap(t);
}

/* (n, generator, dtype, device, requires_grad) */
cr_tensor *api_randperm(const arg *a) {
    return leaf(cr_randperm(a[0].i, a[2].given ? a[2].dt : CR_I64, a[3].dev, a[1].g), &a[4]);
}

/* (input, num_samples, replacement, generator) */
cr_tensor *api_multinomial(const arg *a) { return cr_multinomial(a[0].t, a[1].i, a[2].b, a[3].g); }

/* (input, p, generator) */
cr_tensor *api_bernoulli(const arg *a) {
    const cr_tensor *x = a[0].t;
    return a[1].given ? cr_bernoulli(a[1].d, cr_ndim(x), cr_shape(x), cr_dtype_of(x), cr_device_of(x), a[2].g)
                      : cr_bernoulli_of(x, a[2].g);
}
cr_tensor *api_bernoulli_(const arg *a) {
    cr_scope_begin();
    cr_tensor *x = cr_bernoulli_(a[0].t, a[1].given ? a[1].t : cr_scalar(0.5), a[2].g);
    cr_scope_end();
    return x;
}

/* (mean, std, size, generator, dtype, device, requires_grad); mean and std as numbers: size says the
 * shape, else they do */
cr_tensor *api_normal(const arg *a) {
    const bool numbers = a[0].owned && (a[1].owned || !a[1].given);
    if (numbers != a[2].given || (!numbers && (a[4].given || a[5].given || a[6].b))) {
        set_error(PyExc_TypeError,
                  numbers ? "normal() of two numbers needs a size"
                          : "normal() of tensors takes no size, dtype, device or requires_grad: the tensors say them");
        return NULL;
    }
    cr_scope_begin();
    const cr_tensor *mean = a[0].owned ? cr_scalar(cr_item(a[0].t)) : a[0].t, *std = !a[1].given ? cr_scalar(1)
                                                                                     : a[1].owned
                                                                                         ? cr_scalar(cr_item(a[1].t))
                                                                                         : a[1].t;
    if (!numbers) return leave(cr_normal(mean, std, a[3].g));
    cr_tensor *y = cr_empty(a[2].size.n, a[2].size.v, a[4].dt, a[5].dev);
    return leave(y ? leaf(cr_normal_(y, cr_item(mean), cr_item(std), a[3].g), &a[6]) : NULL);
}

/* (input, two numbers, generator) */
cr_tensor *api_uniform_(const arg *a) { return cr_uniform_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_normal_(const arg *a) { return cr_normal_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_log_normal_(const arg *a) { return cr_log_normal_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_cauchy_(const arg *a) { return cr_cauchy_(a[0].t, a[1].d, a[2].d, a[3].g); }
cr_tensor *api_exponential_(const arg *a) { return cr_exponential_(a[0].t, a[1].d, a[2].g); }
cr_tensor *api_geometric_(const arg *a) { return cr_geometric_(a[0].t, a[1].d, a[2].g); }
/* (input, from_, to, generator): random_(), random_(to), random_(from_, to) */
cr_tensor *api_random_(const arg *a) {
    if (!a[1].given && !a[2].given) return cr_random_all_(a[0].t, a[3].g);
    return cr_random_(a[0].t, a[1].given && a[2].given ? a[1].i : 0, a[2].given ? a[2].i : a[1].i, a[3].g);
}

PyObject *api_tensor(const arg *a) {
    cr_tensor *t = tensor_from(a[0].o, a[1].given ? &a[1].dt : NULL, a[2].dev);
    return t ? wrap(leaf(t, &a[3])) : NULL;
}

/* Any int of 64 bits, signed or not. */
bool to_seed(PyObject *o, uint64_t *seed) {
    PyObject *index = PyNumber_Index(o);
    if (!index) return false;
    *seed = (uint64_t)PyLong_AsLongLong(index);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        *seed = PyLong_AsUnsignedLongLong(index);
    }
    Py_DECREF(index);
    return !PyErr_Occurred();
}

PyObject *api_manual_seed(const arg *a) {
    uint64_t seed;
    PyObject *whole = PyNumber_Long(a[0].o);         /* as PyTorch: manual_seed(time.time()) */
    const bool ok = whole && to_seed(whole, &seed);
    Py_XDECREF(whole);
    if (!ok) return NULL;
    cr_manual_seed(seed);
    PyObject *module = PyImport_ImportModule("chainrule._core"),
             *g = module ? PyObject_GetAttrString(module, "default_generator") : NULL;
    Py_XDECREF(module);
    return g;
}
