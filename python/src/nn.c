/* nn.c - the fused ops of neural networks and the updates of optimizers, for the Python of
 * chainrule.nn and chainrule.optim. */
#include "extension.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- fused ops */

/* (input, weight, bias) */
cr_tensor *api__linear(const arg *a) { return cr_linear(a[0].t, a[1].t, a[2].t); }
/* (input, format, moments) */
cr_tensor *api__quantize(const arg *a) {
    cr_tensor *rows;
    WITHOUT_GIL(rows = cr_quantize(a[0].t, a[1].s, a[2].t));
    return rows;
}
cr_tensor *api__unpack(const arg *a) { return cr_unpack(a[0].t, a[1].s, a[2].dt); }
/* (input, weight, format, bias) */
cr_tensor *api__linear_packed(const arg *a) { return cr_linear_packed(a[0].t, a[1].t, a[2].s, a[3].t); }
/* (input, eps, weight, bias) */
cr_tensor *api__layer_norm(const arg *a) { return cr_layer_norm(a[0].t, a[2].t, a[3].t, a[1].d); }
cr_tensor *api__rms_norm(const arg *a) { return cr_rms_norm(a[0].t, a[2].t, a[1].d); }
cr_tensor *api__embedding(const arg *a) { return cr_embedding(a[0].t, a[1].t); }
cr_tensor *api__sum_squares(const arg *a) { return cr_sum_squares(a[0].t); }
/* (input, p, generator) */
cr_tensor *api__dropout(const arg *a) { return cr_dropout(a[0].t, a[1].d, true, a[2].g); }

/* ignore_index, label_smoothing, reduction */
static bool loss_options(const arg *a, cr_cross_entropy_options *o) {
    static const char *const names[] = {[CR_MEAN] = "mean", [CR_SUM] = "sum", [CR_EACH] = "none"};
    *o = (cr_cross_entropy_options){.ignore_index = a[0].i, .label_smoothing = a[1].d};
    for (o->reduction = CR_MEAN; o->reduction <= CR_EACH; o->reduction++)
        if (!strcmp(a[2].s, names[o->reduction])) return true;
    set_error(PyExc_ValueError, "%s is not a valid value for reduction", a[2].s);
    return false;
}
/* (input, target, ...) */
cr_tensor *api__cross_entropy(const arg *a) {
    cr_cross_entropy_options o;
    return loss_options(a + 2, &o) ? cr_cross_entropy(a[0].t, a[1].t, &o) : NULL;
}
/* (input, weight, target, ...) */
cr_tensor *api__linear_cross_entropy(const arg *a) {
    cr_cross_entropy_options o;
    return loss_options(a + 3, &o) ? cr_linear_cross_entropy(a[0].t, a[1].t, a[2].t, &o) : NULL;
}

/* (query, key, value, causal, scale, mask) */
cr_tensor *api__attention(const arg *a) {
    return cr_attention(a[0].t, a[1].t, a[2].t,
                        &(cr_attention_options){.causal = a[3].b, .scale = a[4].d, .mask = a[5].t, .window = a[6].i,
                                                .shift = a[7].i});
}

/* (input, causal) */
cr_tensor *api__attention_packed(const arg *a) {
    return cr_attention_packed(a[0].t, &(cr_attention_options){.causal = a[1].b});
}

cr_tensor *api__swiglu(const arg *a) { return cr_swiglu(a[0].t, a[1].t); }
cr_tensor *api__geglu(const arg *a) { return cr_geglu(a[0].t, a[1].t); }
cr_tensor *api__rope(const arg *a) { return cr_rope(a[0].t, a[1].t, a[2].b); }
/* (n, dim, start, length, scaling, numbers, truncate, double) */
cr_tensor *api__rope_table(const arg *a) {
    double n[10];
    if (cr_read(a[5].t, CR_F64, n, sizeof n) != CR_OK) return NULL;
    const cr_rope_options o = {.base = n[0],
                               .scaling = (cr_rope_scaling)a[4].i,
                               .factor = n[1],
                               .original = n[2],
                               .low = n[3],
                               .high = n[4],
                               .beta_fast = n[5],
                               .beta_slow = n[6],
                               .attention_factor = n[7],
                               .mscale = n[8],
                               .mscale_all_dim = n[9],
                               .untruncated = !a[6].b,
                               .start = a[2].i,
                               .length = a[3].i};
    return cr_rope_table(a[0].i, a[1].i, &o, a[7].b ? CR_F64 : CR_F32, cr_cpu());
}

/* ---- convolutions */

/* One int for all axes, or one for each; false: an exception is set. */
static bool for_axes(const char *op, const char *what, const arg *sizes, int64_t axes, int64_t to[3]) {
    if (sizes->size.n != 1 && sizes->size.n != axes)
        return set_error(PyExc_RuntimeError, "[%s] %s must be an int or %lld ints: %d ints", op, what, (long long)axes,
                         sizes->size.n),
               false;
    for (int i = 0; i < axes; i++) to[i] = sizes->size.v[sizes->size.n == 1 ? 0 : i];
    return true;
}

static bool has_axes(const char *op, const cr_tensor *w, int64_t axes) {
    if (cr_ndim(w) == axes + 2) return true;
    return set_error(PyExc_RuntimeError, "[%s] the weight must have %lld axes: %d", op, (long long)axes + 2,
                     cr_ndim(w)),
           false;
}

/* As many zeros as keep the size, with stride 1; an odd one behind. */
static bool pad_same(const cr_tensor *w, int64_t axes, cr_conv_options *o) {
    for (int i = 0; i < axes; i++) {
        const int64_t zeros = o->dilation[i] * (cr_shape(w)[2 + i] - 1);
        if (o->stride[i] != 1)
            return set_error(PyExc_RuntimeError, "[conv] padding='same' needs stride 1: %lld", (long long)o->stride[i]),
                   false;
        o->padding[i][0] = zeros / 2;
        o->padding[i][1] = zeros - zeros / 2;
    }
    return true;
}

/* (input, weight, stride, padding, dilation, groups, same, bias, axes) */
cr_tensor *api__conv(const arg *a) {
    cr_conv_options o = {.groups = a[5].i};
    const int64_t axes = a[8].i;
    int64_t pad[3];
    if (!has_axes("conv", a[1].t, axes) || !for_axes("conv", "stride", &a[2], axes, o.stride) ||
        !for_axes("conv", "padding", &a[3], axes, pad) || !for_axes("conv", "dilation", &a[4], axes, o.dilation))
        return NULL;
    for (int i = 0; i < axes; i++) o.padding[i][0] = o.padding[i][1] = pad[i];
    if (a[6].b && !pad_same(a[1].t, axes, &o)) return NULL;
    return cr_conv(a[0].t, a[1].t, a[7].t, &o);
}

/* (input, weight, stride, padding, output_padding, groups, dilation, bias, axes) */
cr_tensor *api__conv_transpose(const arg *a) {
    static const char op[] = "conv_transpose";
    cr_conv_options o = {.groups = a[5].i};
    const int64_t axes = a[8].i;
    int64_t pad[3];
    if (!has_axes(op, a[1].t, axes) || !for_axes(op, "stride", &a[2], axes, o.stride) ||
        !for_axes(op, "padding", &a[3], axes, pad) ||
        !for_axes(op, "output_padding", &a[4], axes, o.output_padding) ||
        !for_axes(op, "dilation", &a[6], axes, o.dilation))
        return NULL;
    for (int i = 0; i < axes; i++) o.padding[i][0] = o.padding[i][1] = pad[i];
    return cr_conv_transpose(a[0].t, a[1].t, a[7].t, &o);
}

/* The steps of a packed batch, in the memory of `sizes`, which the caller releases; NULL: an exception. */
static const int64_t *steps_of(const cr_tensor *sizes, int64_t *n) {
    if (cr_dtype_of(sizes) == CR_I64 && cr_ndim(sizes) == 1 && cr_is_contiguous(sizes) &&
        cr_device_of(sizes) == cr_cpu()) {
        *n = cr_numel(sizes);
        return cr_data(sizes);
    }
    PyErr_SetString(PyExc_RuntimeError, "batch_sizes must be a 1-D int64 tensor on the cpu");
    return NULL;
}

/* (mode, input, weights, hx, cx, batch_sizes, reverse) */
PyObject *api__recurrent(const arg *a) {
    static const char *const modes[] = {
        [CR_RNN_TANH] = "RNN_TANH", [CR_RNN_RELU] = "RNN_RELU", [CR_GRU] = "GRU", [CR_LSTM] = "LSTM"};
    int cell = 0;
    while (cell <= CR_LSTM && strcmp(a[0].s, modes[cell])) cell++;
    if (cell > CR_LSTM) return PyErr_Format(PyExc_ValueError, "Unrecognized RNN mode: %s", a[0].s);
    const int n = a[2].list.n;
    const cr_tensor *const *w = a[2].list.v;
    if (n < 2 || n > 5) return PyErr_Format(PyExc_ValueError, "_recurrent(): %d weights", n);
    cr_recurrent_options o = {.x = a[1].t, .h0 = a[3].t, .c0 = a[4].t, .w_ih = w[0], .w_hh = w[1], .reverse = a[6].b};
    if (n > 3) o.b_ih = w[2], o.b_hh = w[3];
    if (n % 2) o.w_hr = w[n - 1];
    if (a[5].given && !(o.batch_sizes = steps_of(a[5].t, &o.steps))) return NULL;
    cr_tensor *y, *h, *c = NULL;
    WITHOUT_GIL(y = cr_recurrent((cr_cell)cell, &o, &h, cell == CR_LSTM ? &c : NULL));
    if (!y) return raise_error();
    PyObject *first = wrap(y), *second = wrap(h), *third = c ? wrap(c) : NULL;
    PyObject *all = first && second ? c ? third ? PyTuple_Pack(3, first, second, third) : NULL
                                        : PyTuple_Pack(2, first, second)
                                    : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(third);
    return all;
}

static bool is_there(const arg *a) { return a->given && a->t && a->t != CR_NONE; }

/* The tokens of a tensor, to be freed; no tensor: none.  NULL with an exception. */
static uint32_t *tokens_of(const arg *a, int64_t *n) {
    *n = is_there(a) ? cr_numel(a->t) : 0;
    uint32_t *ids = malloc(sizeof *ids * (size_t)(*n + 1));
    if (!ids) return PyErr_NoMemory(), NULL;
    if (!*n || cr_read(a->t, CR_U32, ids, sizeof *ids * (size_t)*n) == CR_OK) return ids;
    free(ids);
    return raise_error(), NULL;
}

/* Pairs of an id and a number, to be freed.  NULL with an exception. */
static cr_logit_bias *biases_of(const arg *a, int64_t *n) {
    *n = is_there(a) ? cr_numel(a->t) / 2 : 0;
    const size_t bytes = sizeof(double[2]) * (size_t)*n;
    double(*pair)[2] = malloc(bytes + 1);
    cr_logit_bias *all = malloc(sizeof *all * ((size_t)*n + 1));
    if (!pair || !all) PyErr_NoMemory();
    else if (*n && cr_read(a->t, CR_F64, pair, bytes)) raise_error();
    for (int64_t i = 0; !PyErr_Occurred() && i < *n; i++)
        all[i] = (cr_logit_bias){pair[i][0] >= 0 && pair[i][0] < UINT32_MAX ? (uint32_t)pair[i][0] : UINT32_MAX,
                                 pair[i][1]};
    free(pair);
    if (!PyErr_Occurred()) return all;
    free(all);
    return NULL;
}

/* (logits, temperature, top_p, top_k, generator, min_p, tokens, presence_penalty, frequency_penalty, bias) */
PyObject *api__sample(const arg *a) {
    cr_penalties p = {.presence = a[7].d, .frequency = a[8].d};
    const cr_sampling s = {.temperature = a[1].d, .top_p = a[2].d, .top_k = a[3].i, .min_p = a[5].d,
                           .adjust = cr_penalize, .adjust_ctx = &p};
    uint32_t id;
    int64_t n;
    cr_status bad;
    cr_logit_bias *bias = biases_of(&a[9], &p.biases);
    uint32_t *ids = bias ? tokens_of(&a[6], &n) : NULL;
    if (!ids) return free(bias), NULL;
    p.bias = bias;
    WITHOUT_GIL(bad = cr_sample_next(a[0].t, &s, ids, n, a[4].g, &id));
    free(ids);
    free(bias);
    return bad ? raise_error() : PyLong_FromUnsignedLong(id);
}

/* ---- initialisers */
#define FILL(call) cr_status status; WITHOUT_GIL(status = call); return done(status)
PyObject *api__init_uniform(const arg *a) { FILL(cr_init_uniform(a[0].t, a[1].d, a[2].d, a[3].g)); }
PyObject *api__init_normal(const arg *a) { FILL(cr_init_normal(a[0].t, a[1].d, a[2].d, a[3].g)); }
PyObject *api__init_trunc_normal(const arg *a) {
    FILL(cr_init_trunc_normal(a[0].t, a[1].d, a[2].d, a[3].d, a[4].d, a[5].g));
}
PyObject *api__init_orthogonal(const arg *a) { FILL(cr_init_orthogonal(a[0].t, a[1].d, a[2].g)); }

/* ---- updates */

/* The sets of one device at a time. */
static cr_status update(const cr_program *p, int64_t count, int n_out, int n_in, const arg *out, const arg *in,
                        const double *numbers) {
    cr_status bad = CR_OK;
    bool recording = cr_set_grad_enabled(false);
    for (int64_t from = 0, to; from < count && bad == CR_OK; from = to) {
        const cr_device *dev = cr_device_of(out->list.v[from * n_out]);
        for (to = from + 1; to < count && cr_device_of(out->list.v[to * n_out]) == dev;) to++;
        bad = cr_program_update(p, to - from, (cr_tensor *const *)(uintptr_t)(out->list.v + from * n_out),
                                in->list.v + from * n_in, numbers);
    }
    cr_set_grad_enabled(recording);
    return bad;
}

typedef struct options { int n; const char *names[32]; double values[32]; } options;

static bool add_option(options *to, const char *name, PyObject *value) {
    if (!name) return false;
    if (to->n == sizeof to->names / sizeof *to->names)
        return PyErr_SetString(PyExc_ValueError, "_update(): too many options"), false;
    to->names[to->n] = name;
    to->values[to->n] = PyFloat_AsDouble(value);
    return to->values[to->n++] != -1 || !PyErr_Occurred();
}

static bool is_option(PyObject *value) {             /* a number; NumPy's too */
    if (PyFloat_Check(value) || PyLong_Check(value)) return true;
    return value != Py_None && !PyList_Check(value) && !is_tensor(value) && PyObject_HasAttrString(value, "__float__");
}

/* The numbers of a group of parameters; its pair betas is beta1 and beta2.  The names belong to the dict. */
static bool add_options(options *to, PyObject *group) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(group, &at, &key, &value);) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (name && !strcmp(name, "betas") && PyTuple_Check(value) && PyTuple_Size(value) == 2) {
            if (!add_option(to, "beta1", PyTuple_GetItem(value, 0)) ||
                !add_option(to, "beta2", PyTuple_GetItem(value, 1)))
                return false;
        } else if (!name || is_option(value)) {
            if (!add_option(to, name, value)) return false;
        }
    }
    return true;
}

cr_tensor *api__clip_grad_norm(const arg *a) {
    return cr_clip_grad_norm(a[0].list.n, (cr_tensor *const *)(uintptr_t)a[0].list.v, a[1].d);
}

PyObject *api__scale_grads(const arg *a) {
    cr_status status;
    WITHOUT_GIL(status = cr_scale_grads(a[0].list.n, (cr_tensor *const *)(uintptr_t)a[0].list.v, a[1].d));
    return done(status);
}

PyObject *api__total_norm(const arg *a) {
    double norm = 0;
    cr_status bad;
    WITHOUT_GIL(bad = cr_total_norm(a[0].list.n, a[0].list.v, &norm));
    return bad == CR_OK ? PyFloat_FromDouble(norm) : raise_error();
}

enum { MOST_PARAMS = 8 };                            /* of an update */

/* The params of an update from two dicts: an option goes before one of the group with its name. */
static bool params_of(const cr_program *p, const char *name, const arg dicts[2], double *params) {
    options given = {0};
    int n_out = 0, n_params = 0;
    cr_program_inputs(p, &n_out, &n_params);
    for (int i = 0; i < 2; i++) {
        if (!dicts[i].given) continue;
        if (!PyDict_Check(dicts[i].o)) return raise_type(dicts[i].o, "_update(): options must be a dict, not");
        if (!add_options(&given, dicts[i].o)) return false;
    }
    if (n_params > MOST_PARAMS)
        return PyErr_Format(PyExc_ValueError, "_update(): '%s' has %d params", name, n_params), false;
    return cr_program_params(p, given.n, given.names, given.values, params) == CR_OK || raise_error();
}

/* (name, outputs, inputs, options, group) */
PyObject *api__update(const arg *a) {
    double params[MOST_PARAMS];
    int n_out = 0, n_params = 0;
    const cr_program *p = cr_program_find(a[0].s);
    const int n_in = p ? cr_program_inputs(p, &n_out, &n_params) : 0;
    if (!p) return raise_error();
    const int64_t count = a[1].list.n / n_out;
    if (count * n_out != a[1].list.n || count * n_in != a[2].list.n)
        return PyErr_Format(PyExc_ValueError,
                            "_update(): '%s' has %d results and %d inputs: %d and %d tensors are no whole sets", a[0].s,
                            n_out, n_in, a[1].list.n, a[2].list.n);
    if (!params_of(p, a[0].s, &a[3], params)) return NULL;
    cr_status status;
    WITHOUT_GIL(status = update(p, count, n_out, n_in, &a[1], &a[2], params));
    return done(status);
}

/* (plan, number, name, options, group): the params of a recorded update for the run that begins */
PyObject *api__plan_set_params(const arg *a) {
    double params[MOST_PARAMS];
    cr_plan *plan = plan_of(a[0].o);
    const cr_program *p = plan ? cr_program_find(a[2].s) : NULL;
    if (!p) return plan ? raise_error() : NULL;
    if (!params_of(p, a[2].s, &a[3], params)) return NULL;
    cr_plan_set_params(plan, axis(a[1].i), params);
    Py_RETURN_NONE;
}

/* (input, coefficients, eps, steps) */
cr_tensor *api__newton_schulz(const arg *a) {
    return cr_newton_schulz(a[0].t, (double[]){a[1].d, a[2].d, a[3].d}, a[4].d, axis(a[5].i));
}

/* (input, type, requires_grad) */
PyObject *api__alias(const arg *a) {
    PyTypeObject *type = (PyTypeObject *)(void *)a[1].o;
    if (!PyType_Check(a[1].o) || !PyType_IsSubtype(type, tensor_type))
        return raise_type(a[1].o, "_alias(): argument 'type' must be Tensor or a subclass, not");
    return leaf_as(cr_detach(a[0].t), type, a[2].b, false);
}
