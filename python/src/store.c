/* store.c - tensors that outlive the process or are made twice: pickling, copy and deepcopy, safetensors files. */
#include "extension.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pickle and copy */

/* (input, protocol): _rebuild and its arguments, and the attributes that were set.  The elements go as
 * plain bytes: loading runs no code of the file's. */
PyObject *api___reduce_ex__(const arg *a) {
    PyObject *self = a[0].o, *core = PyImport_ImportModule("chainrule._core"),
             *rebuild = core ? PyObject_GetAttrString(core, "_rebuild") : NULL;
    cr_tensor *t = hold(self);
    const Py_ssize_t size = (Py_ssize_t)cr_numel(t) * (Py_ssize_t)cr_dtype_size(cr_dtype_of(t));
    PyObject *bytes = rebuild ? PyBytes_FromStringAndSize(NULL, size) : NULL, *result = NULL;
    cr_status bad = CR_OK;
    char *to = bytes ? PyBytes_AsString(bytes) : NULL;
    if (bytes) WITHOUT_GIL(bad = cr_read(t, cr_dtype_of(t), to, (size_t)size));
    if (bytes && bad) raise_error();
    else if (bytes) {
        PyObject *dict = ((Tensor *)(void *)self)->dict, *state = dict ? dict : Py_None;
        result = Py_BuildValue("O(OONNNNN)O", rebuild, Py_TYPE(self), bytes, size_object(cr_ndim(t), cr_shape(t)),
                               dtype_object(cr_dtype_of(t)), device_object(cr_device_of(t)),
                               PyBool_FromLong(cr_requires_grad(t)),
                               PyBool_FromLong(((Tensor *)(void *)self)->from_data), state);
    }
    cr_drop(t);
    Py_XDECREF(core);
    Py_XDECREF(rebuild);
    Py_XDECREF(bytes);
    return result;
}

PyObject *leaf_as(cr_tensor *t, PyTypeObject *type, bool requires_grad, bool from_data) {
    if (t && requires_grad && !cr_requires_grad_(t, true)) {
        cr_release(t);
        t = NULL;
    }
    PyObject *self = wrap_as(t, type);
    if (self) ((Tensor *)(void *)self)->from_data = from_data;
    return self;
}

/* (type, data, shape, dtype, device, requires_grad, from_data) */
PyObject *api__rebuild(const arg *a) {
    PyTypeObject *type = (PyTypeObject *)(void *)a[0].o;
    char *bytes;
    Py_ssize_t size;
    if (!PyType_Check(a[0].o) || !PyType_IsSubtype(type, tensor_type))
        return raise_type(a[0].o, "_rebuild(): argument 'type' must be Tensor or a subclass, not");
    if (PyBytes_AsStringAndSize(a[1].o, &bytes, &size) < 0) return NULL;
    cr_tensor *t = cr_empty(a[2].size.n, a[2].size.v, a[3].dt, a[4].dev);
    if (!t) return raise_error();
    cr_status bad;
    WITHOUT_GIL(bad = cr_write(t, a[3].dt, bytes, (size_t)size));
    if (!bad) return leaf_as(t, type, a[5].b, a[6].b);
    cr_release(t);
    return raise_error();
}

/* Gives a copy the attributes that were set on the original; deep copies of them where there is a memo. */
static PyObject *with_dict_of(PyObject *self, PyObject *copy, PyObject *memo) {
    PyObject *from = ((Tensor *)(void *)self)->dict;
    if (!copy || !from) return copy;
    PyObject *module = memo ? PyImport_ImportModule("copy") : NULL;
    PyObject *all = !memo    ? PyDict_Copy(from)
                    : module ? PyObject_CallMethod(module, "deepcopy", "OO", from, memo)
                             : NULL;
    if (!all || PyObject_SetAttrString(copy, "__dict__", all) < 0) Py_CLEAR(copy);
    Py_XDECREF(module);
    Py_XDECREF(all);
    return copy;
}

/* (input): another Tensor over the same memory */
PyObject *api___copy__(const arg *a) {
    PyObject *self = a[0].o;
    const cr_tensor *t = handle(self);
    return with_dict_of(
        self, leaf_as(cr_detach(t), Py_TYPE(self), cr_requires_grad(t), ((Tensor *)(void *)self)->from_data), NULL);
}

/* NULL, without an exception, where there is none yet */
static PyObject *known_copy(PyObject *self, PyObject *memo) {
    PyObject *key = PyLong_FromVoidPtr(self), *known = key ? PyObject_GetItem(memo, key) : NULL;
    Py_XDECREF(key);
    if (!known && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
    return known;
}

static bool remember_copy(PyObject *self, PyObject *copy, PyObject *memo) {
    PyObject *key = PyLong_FromVoidPtr(self);
    const bool ok = key && PyObject_SetItem(memo, key, copy) == 0;
    Py_XDECREF(key);
    return ok;
}

/* The memory of x in one deepcopy: a tensor over a copy of all of it, which is made once, so that what shared memory
 * shares its copy.  NULL with an exception. */
static PyObject *twin_memory(const cr_tensor *x, PyObject *memo) {
    PyObject *key = Py_BuildValue("(sNi)", "storage", PyLong_FromVoidPtr((void *)(uintptr_t)cr_storage_id(x)),
                                  (int)cr_dtype_of(x));
    PyObject *known = key ? PyObject_GetItem(memo, key) : NULL;
    if (key && !known && PyErr_ExceptionMatches(PyExc_KeyError)) {
        PyErr_Clear();
        const int64_t n = cr_storage_bytes(x) / (int64_t)cr_dtype_size(cr_dtype_of(x)), step = 1;
        cr_tensor *whole = cr_storage_view(x, cr_dtype_of(x), 1, &n, &step, 0), *y = NULL;
        if (whole) WITHOUT_GIL(y = cr_clone(whole));
        cr_release(whole);
        known = wrap(y);
        if (known && PyObject_SetItem(memo, key, known) < 0) Py_CLEAR(known);
    }
    Py_XDECREF(key);
    return known;
}

/* Negative strides, which storage_view does not take, come out in order and alone. */
static cr_tensor *twin(const cr_tensor *x, PyObject *memo) {
    const int64_t *strides = cr_strides(x);
    for (int i = 0; i < cr_ndim(x); i++)
        if (strides[i] < 0) return cr_clone(x);
    PyObject *memory = twin_memory(x, memo);
    if (!memory) return NULL;
    cr_tensor *y = cr_storage_view(handle(memory), cr_dtype_of(x), cr_ndim(x), cr_shape(x), strides,
                                   cr_storage_offset(x));
    Py_DECREF(memory);
    return y;
}

/* (input, memo) */
PyObject *api___deepcopy__(const arg *a) {
    PyObject *self = a[0].o, *memo = a[1].o, *known = known_copy(self, memo);
    if (known || PyErr_Occurred()) return known;
    if (!cr_is_leaf(handle(self))) {
        PyErr_SetString(PyExc_RuntimeError, "Only Tensors created explicitly by the user (graph leaves) support the "
                                            "deepcopy protocol at the moment: use detach() or clone()");
        return NULL;
    }
    const bool requires_grad = cr_requires_grad(handle(self));
    cr_tensor *x = cr_detach(handle(self)), *y = twin(x, memo);
    cr_release(x);
    if (!y && PyErr_Occurred()) return NULL;
    PyObject *copy = leaf_as(y, Py_TYPE(self), requires_grad, ((Tensor *)(void *)self)->from_data);
    PyObject *grad = copy ? PyObject_GetAttrString(self, "grad") : NULL;
    if (grad && grad != Py_None) {
        PyObject *other = PyObject_CallMethod(grad, "__deepcopy__", "O", memo);
        if (!other || PyObject_SetAttrString(copy, "grad", other) < 0) Py_CLEAR(copy);
        Py_XDECREF(other);
    }
    /* before its attributes, which may lead back to it */
    if (!grad || (copy && !remember_copy(self, copy, memo))) Py_CLEAR(copy);
    Py_XDECREF(grad);
    return with_dict_of(self, copy, memo);
}

/* ---- files */
static bool add_tensor(cr_params *p, PyObject *name, PyObject *value) {
    Py_ssize_t size;
    if (!PyUnicode_Check(name)) return raise_type(name, "save(): the names of tensors must be str, not");
    if (!is_tensor(value)) return raise_type(value, "save(): the values must be Tensors, not");
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (!text) return false;
    if (strlen(text) != (size_t)size) {
        PyErr_SetString(PyExc_ValueError, "save(): a name with a zero character");
        return false;
    }
    if (cr_params_add(p, text, handle(value)) == CR_OK) return true;
    raise_error();
    return false;
}

/* The tensors of a dict; NULL with an exception. */
static cr_params *params_of(PyObject *dict) {
    if (!PyDict_Check(dict)) return raise_type(dict, "save(): argument 'obj' must be a dict of Tensors, not"), NULL;
    cr_params *p = cr_params_new();
    PyObject *items = p ? PyDict_Items(dict) : raise_error();    /* a copy: nothing that runs meanwhile changes it */
    bool ok = items;
    for (Py_ssize_t i = 0; ok && i < PyList_Size(items); i++) {
        PyObject *item = PyList_GetItem(items, i);
        ok = add_tensor(p, PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1));
    }
    Py_XDECREF(items);
    if (ok) return p;
    cr_params_free(p);
    return NULL;
}

static PyObject *dict_of(const cr_params *p) {
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; dict && i < cr_params_count(p); i++) {
        PyObject *x = wrap_borrowed(cr_params_at(p, i));
        if (!x || PyDict_SetItemString(dict, cr_params_name(p, i), x) < 0) Py_CLEAR(dict);
        Py_XDECREF(x);
    }
    return dict;
}

/* (obj, f, pickle_module, pickle_protocol, _use_new_zipfile_serialization) */
PyObject *api_save(const arg *a) {
    PyObject *f = python_function("serialization", "save");
    return f ? PyObject_CallFunctionObjArgs(f, a[0].o, a[1].o, a[2].o, a[3].o, a[4].o, NULL) : NULL;
}

/* (f, map_location, pickle_module, weights_only, mmap) */
PyObject *api_load(const arg *a) {
    PyObject *f = python_function("serialization", "load");
    return f ? PyObject_CallFunctionObjArgs(f, a[0].o, a[1].o, a[2].o, a[3].o, a[4].o, NULL) : NULL;
}

/* (obj, f) */
PyObject *api__save_safetensors(const arg *a) {
    PyObject *path = NULL;
    cr_params *p = params_of(a[0].o);
    cr_status bad = CR_OK;
    const bool ok = p && PyUnicode_FSConverter(a[1].o, &path);
    if (ok) {
        const char *to = PyBytes_AsString(path);
        WITHOUT_GIL(bad = cr_save(to, p, NULL));
    }
    cr_params_free(p);
    Py_XDECREF(path);
    return ok ? done(bad) : NULL;
}

/* (obj, folder, config, shard_bytes) */
PyObject *api__save_folder(const arg *a) {
    cr_params *p = params_of(a[0].o);
    if (!p) return NULL;
    cr_status bad;
    WITHOUT_GIL(bad = cr_save_folder(a[1].s, p, a[2].s, a[3].i));
    cr_params_free(p);
    return done(bad);
}

/* (folder) */
PyObject *api__complete_folder(const arg *a) {
    cr_status bad;
    WITHOUT_GIL(bad = cr_complete_folder(a[0].s));
    return done(bad);
}

/* (obj, f, config, tokenizer, type) */
PyObject *api__save_gguf(const arg *a) {
    cr_params *p = params_of(a[0].o);
    if (!p) return NULL;
    cr_status bad;
    WITHOUT_GIL(bad = cr_save_gguf(a[1].s, p, a[2].s, a[3].s, a[4].s));
    cr_params_free(p);
    return done(bad);
}

/* For the kinds of OSError: FileNotFoundError, PermissionError...  Does not wait for the writer of a pipe. */
static bool can_open(PyObject *path) {
    PyObject *os = PyImport_ImportModule("os"), *mode = os ? PyObject_GetAttrString(os, "O_NONBLOCK") : NULL;
    PyObject *fd = mode ? PyObject_CallMethod(os, "open", "OO", path, mode) : NULL,
             *closed = fd ? PyObject_CallMethod(os, "close", "O", fd) : NULL;
    Py_XDECREF(closed);
    Py_XDECREF(fd);
    Py_XDECREF(mode);
    Py_XDECREF(os);
    return closed;
}

/* (f, device): mapped into memory, so that a page is read when it is first touched; writes stay in memory. */
PyObject *api__load_safetensors(const arg *a) {
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(a[0].o, &path)) return NULL;
    if (!can_open(a[0].o)) {
        Py_DECREF(path);
        return NULL;
    }
    const char *from = PyBytes_AsString(path);
    cr_params *p;
    WITHOUT_GIL(p = cr_load(from, a[1].dev));
    Py_DECREF(path);
    if (!p) return raise_error();
    PyObject *dict = dict_of(p);
    cr_params_free(p);
    return dict;
}

PyObject *api__load_adapter(const arg *a) {
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(a[0].o, &path)) return NULL;
    const cr_adapter_base base = {a[1].s, a[2].i};
    cr_lora_options o;
    char *targets;
    cr_params *p;
    WITHOUT_GIL(p = cr_load_adapter(PyBytes_AsString(path), &base, cr_cpu(), &o, &targets));
    Py_DECREF(path);
    if (!p) return raise_error();
    PyObject *dict = dict_of(p);
    cr_params_free(p);
    PyObject *result = dict ? Py_BuildValue("NLddNs", dict, (long long)o.rank, o.alpha, o.dropout,
                                            PyBool_FromLong(o.rank_stabilized), targets) : NULL;
    cr_free(targets);
    return result;
}

/* (path, weights, rank, alpha, dropout, rank_stabilized, targets, base, turned, causal) */
PyObject *api__save_adapter(const arg *a) {
    PyObject *path = NULL;
    cr_params *p = PyUnicode_FSConverter(a[0].o, &path) ? params_of(a[1].o) : NULL;
    const cr_lora_options o = {.rank = a[2].i, .alpha = a[3].d, .dropout = a[4].d, .rank_stabilized = a[5].b};
    const cr_adapter_notes n = {a[6].s, a[7].s, a[8].b, a[9].b};
    cr_status bad = CR_OK;
    if (p) WITHOUT_GIL(bad = cr_save_adapter(PyBytes_AsString(path), p, &o, &n));
    Py_XDECREF(path);
    cr_params_free(p);
    return p ? done(bad) : NULL;
}

PyObject *api__storage(const arg *a) {
    return Py_BuildValue("NL", PyLong_FromVoidPtr((void *)(uintptr_t)cr_storage_id(a[0].t)),
                         (long long)cr_storage_bytes(a[0].t));
}

/* (input, dtype, size, stride, storage_offset) */
cr_tensor *api__storage_view(const arg *a) {
    if (a[2].size.n != a[3].size.n)
        return PyErr_Format(PyExc_ValueError, "_storage_view(): %d sizes and %d strides", a[2].size.n, a[3].size.n),
               NULL;
    return cr_storage_view(a[0].t, a[1].dt, a[2].size.n, a[2].size.v, a[3].size.v, a[4].i);
}

/* (f) */
PyObject *api__load_metadata(const arg *a) {
    char *text = cr_load_metadata(a[0].s, NULL);
    PyObject *json = text ? PyUnicode_FromString(text) : raise_error();
    cr_free(text);
    return json;
}

/* ---- checkpoints: the optimizer of Python, as the C library would have it */

/* One more group of an optimizer, (moments of a parameter, {name: parameter}, masters?): their rules are known by how
 * many moments they keep. */
static bool add_group(cr_optim **opt, PyObject *group) {
    static const cr_optim_kind kinds[] = {CR_SGD, CR_LION, CR_ADAMW};
    PyObject *dict;
    int moments, masters;
    if (!PyArg_ParseTuple(group, "iOp", &moments, &dict, &masters)) return false;
    if (moments < 0 || moments > 2)
        return PyErr_Format(PyExc_ValueError, "a parameter has 0 to 2 moments, not %d", moments), false;
    cr_params *p = params_of(dict);
    if (!p) return false;
    cr_optim_options o = cr_optim_defaults(kinds[moments]);
    o.master_weights = masters;
    const bool ok = *opt ? cr_optim_add(*opt, p, &o) == CR_OK : (*opt = cr_optim_new(p, &o)) != NULL;
    cr_params_free(p);
    return ok || raise_error();
}

/* The handles of the objects of a call: (folder, weights, groups, loader, ...); NULL where they are None. */
typedef struct training { cr_training t; cr_params *moments; bool ok; } training;

static training training_of(const arg *a, const arg *generator) {
    training r = {.ok = true};
    if (a[1].o != Py_None) r.ok = (r.t.params = params_of(a[1].o));
    PyObject *groups = r.ok && a[2].o != Py_None ? PySequence_Tuple(a[2].o) : NULL;
    if (r.ok && a[2].o != Py_None) r.ok = groups;
    for (Py_ssize_t i = 0; r.ok && groups && i < PyTuple_Size(groups); i++)
        r.ok = add_group(&r.t.optim, PyTuple_GetItem(groups, i));
    Py_XDECREF(groups);
    if (r.ok && a[3].o != Py_None) r.ok = (r.t.loader = loader_of(&a[3]));
    if (generator->given) r.t.generator = generator->g;
    return r;
}

static void training_free(training *r) {
    cr_params_free(r->t.params);
    cr_params_free(r->moments);
    cr_optim_free(r->t.optim);
}

/* (folder, weights, groups, loader, moments, steps, step, metadata, generator) */
PyObject *api__training_save(const arg *a) {
    training r = training_of(a, &a[8]);
    const char *dir = a[0].s;
    cr_status bad = CR_OK;
    if (r.ok && r.t.optim) r.ok = (r.moments = params_of(a[4].o));
    if (r.ok) {
        r.t.step = a[6].i;
        r.t.metadata = a[7].s;
        Py_BEGIN_ALLOW_THREADS
        if (r.t.optim) bad = cr_optim_load(r.t.optim, r.moments, a[5].i);
        if (!bad) bad = cr_training_save(dir, &r.t);
        Py_END_ALLOW_THREADS
    }
    PyObject *result = r.ok ? done(bad) : NULL;
    training_free(&r);
    return result;
}

/* (folder, weights, groups, loader, generator) -> (step, steps of the optimizer, its moments) */
PyObject *api__training_load(const arg *a) {
    training r = training_of(a, &a[4]);
    const char *dir = a[0].s;
    cr_status bad = CR_OK;
    if (r.ok) WITHOUT_GIL(bad = cr_training_load(dir, &r.t));
    PyObject *result = NULL;
    if (r.ok && bad) raise_error();
    else if (r.ok && (r.moments = r.t.optim ? cr_optim_state(r.t.optim) : cr_params_new()))
        result = Py_BuildValue("LLN", (long long)r.t.step, (long long)(r.t.optim ? cr_optim_steps(r.t.optim) : 0),
                               dict_of(r.moments));
    else if (r.ok) raise_error();
    training_free(&r);
    return result;
}

PyObject *api__training_weights(const arg *a) {
    char *path = cr_training_weights(a[0].s);
    PyObject *text = path ? PyUnicode_DecodeFSDefault(path) : raise_error();
    cr_free(path);
    return text;
}

/* ---- text */

/* (input, format_spec) */
PyObject *api___format__(const arg *a) {
    PyObject *x = cr_ndim(handle(a[0].o)) ? NULL : PyObject_CallMethod(a[0].o, "item", NULL);
    PyObject *text = x ? PyObject_Format(x, a[1].o) : NULL;
    Py_XDECREF(x);
    if (x || PyErr_Occurred()) return text;
    if (PyObject_Size(a[1].o) == 0) return PyObject_Str(a[0].o);
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "unsupported format string passed to Tensor.__format__");
    return NULL;
}

PyObject *api__node(const arg *a) { return node_object(cr_node_of(a[0].t)); }

static int at_most_int(int64_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* (input, precision, threshold, edgeitems, linewidth, sci_mode, grad_fn) */
PyObject *api__format(const arg *a) {
    char dtypes[32];
    snprintf(dtypes, sizeof dtypes, "%s.", namespace);
    const cr_format_options o = {.precision = at_most_int(a[1].i), .threshold = a[2].d,
                                 .edgeitems = at_most_int(a[3].i), .linewidth = at_most_int(a[4].i),
                                 .sci_mode = (int)a[5].i, .dtypes = dtypes, .grad_fn = a[6].s};
    char *text;
    WITHOUT_GIL(text = cr_format(a[0].t, &o));
    PyObject *found = text ? PyUnicode_FromString(text) : raise_error();
    free(text);
    return found;
}

/* (precision, threshold, edgeitems, linewidth, profile, sci_mode) */
PyObject *api_set_printoptions(const arg *a) {
    PyObject *f = python_function("_print", "set_printoptions");
    return f ? PyObject_CallFunctionObjArgs(f, a[0].o, a[1].o, a[2].o, a[3].o, a[4].o, a[5].o, NULL) : NULL;
}

/* ---- language models: capsules of the C engine, over tensors of Python */
static const char lm_name[] = "chainrule.lm";

static void free_lm(PyObject *capsule) { cr_lm_free(PyCapsule_GetPointer(capsule, lm_name)); }
static cr_lm *lm_of(const arg *a) { return PyCapsule_GetPointer(a->o, lm_name); }

static PyObject *capsule_of(cr_lm *m) {
    PyObject *capsule = m ? PyCapsule_New(m, lm_name, free_lm) : raise_error();
    if (!capsule) cr_lm_free(m);
    return capsule;
}

/* The text of config.json, and a dict; frees the model. */
static PyObject *weights_of(cr_lm *m) {
    if (!m) return raise_error();
    PyObject *result = Py_BuildValue("sN", cr_lm_config(m), dict_of(cr_lm_params(m)));
    cr_lm_free(m);
    return result;
}

/* (path, floats, device) */
PyObject *api__lm_load(const arg *a) {
    cr_lm *m;
    cr_status status = CR_OK;
    WITHOUT_GIL(m = cr_lm_load(a[0].s, a[2].dev); if (m && a[1].b) status = cr_lm_unpack(m));
    if (status != CR_OK) {
        cr_lm_free(m);
        return raise_error();
    }
    return weights_of(m);
}

/* (path, config, weights, device) */
PyObject *api__lm_of_files(const arg *a) {
    cr_params *p = params_of(a[2].o);
    cr_lm *m;
    if (!p) return NULL;
    WITHOUT_GIL(m = cr_lm_of_files(a[0].s, a[1].s, p, a[3].dev));
    cr_params_free(p);
    return weights_of(m);
}

/* (config, dtype, device, generator) */
PyObject *api__lm_new(const arg *a) {
    cr_lm *m;
    WITHOUT_GIL(m = cr_lm_new(a[0].s, a[1].dt, a[2].dev, a[3].g));
    return weights_of(m);
}

static cr_lm *lm_over(const arg *config, const arg *weights, const arg *device) {
    cr_params *p = params_of(weights->o);
    cr_lm *m;
    if (!p) return NULL;
    WITHOUT_GIL(m = cr_lm_of(config->s, p, device->dev));
    cr_params_free(p);
    if (!m) raise_error();
    return m;
}

/* (config, weights, device) */
PyObject *api__lm_of(const arg *a) {
    cr_lm *m = lm_over(&a[0], &a[1], &a[2]);
    return m ? capsule_of(m) : NULL;
}

/* The tokens of a text; NULL: none is given. */
static cr_status tokens_of(const arg *a, uint32_t **ids) {
    const int64_t n = a->given ? cr_numel(a->t) : 0;
    if (!a->given) return CR_OK;
    *ids = PyMem_Malloc((size_t)(n + 1) * sizeof **ids);
    return *ids ? cr_read(a->t, CR_U32, *ids, (size_t)n * sizeof **ids) : CR_NO_MEMORY;
}

/* (config, weights, device, bits, tokens): tokens uint32 on the host, or None */
PyObject *api__lm_quantize(const arg *a) {
    cr_lm *m = lm_over(&a[0], &a[1], &a[2]);
    uint32_t *ids = NULL;
    if (!m) return NULL;
    cr_status status = tokens_of(&a[4], &ids);
    if (status == CR_OK) WITHOUT_GIL(status = cr_lm_quantize(m, (int)a[3].i, ids, ids ? cr_numel(a[4].t) : 0));
    PyMem_Free(ids);
    if (status == CR_OK) return weights_of(m);
    cr_lm_free(m);
    return raise_error();
}

/* (lm, weights) */
PyObject *api__lm_is_of(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    return m ? PyBool_FromLong(cr_lm_is_of(m, a[1].list.n, a[1].list.v)) : NULL;
}

static cr_status add_part(void *list, const char *name, int64_t part, cr_lm_part what) {
    PyObject *row = Py_BuildValue("sLi", name, (long long)part, (int)what);
    const bool ok = row && PyList_Append(list, row) == 0;
    Py_XDECREF(row);
    return ok ? CR_OK : CR_RUNTIME;
}

static PyObject *names_of(const cr_params *p) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < cr_params_count(p); i++) {
        PyObject *name = PyUnicode_FromString(cr_params_name(p, i));
        if (!name || PyList_Append(list, name)) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* (lm) */
PyObject *api__lm_describe(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    int64_t shape[3];
    const char *class, *turned, *lora;
    if (!m) return NULL;
    cr_lm_cache_shape(m, shape);
    const char *prefix = cr_lm_family(m, &class, &turned, &lora);
    PyObject *parts = PyList_New(0), *names = parts ? names_of(cr_lm_params(m)) : NULL;
    if (!names || cr_lm_parts_visit(m, add_part, parts) != CR_OK) {
        Py_XDECREF(parts);
        Py_XDECREF(names);
        return raise_error();
    }
    bool grows;
    double dropout, eps = cr_lm_numbers(m, &dropout, &grows);
    return Py_BuildValue("LLLLLddOOssssNNL", (long long)cr_lm_vocabulary(m), (long long)cr_lm_context(m),
                         (long long)shape[0], (long long)shape[1], (long long)shape[2], dropout, eps,
                         cr_lm_steady(m) ? Py_True : Py_False, grows ? Py_True : Py_False, prefix, class, turned, lora,
                         names, parts, (long long)cr_lm_parts_count(m));
}

/* (lm, folder, shard_bytes) */
PyObject *api__lm_save(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    cr_status status;
    if (!m) return NULL;
    WITHOUT_GIL(status = cr_lm_save_folder(m, a[1].s, a[2].i));
    return done(status);
}

/* (lm, path, type, entries, tokens) */
PyObject *api__lm_save_gguf(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    uint32_t *ids = NULL;
    if (!m) return NULL;
    cr_status status = tokens_of(&a[4], &ids);
    const int64_t n = ids ? cr_numel(a[4].t) : 0;
    if (status == CR_OK) WITHOUT_GIL(status = cr_lm_save_gguf(m, a[1].s, a[2].s, a[3].s, ids, n));
    PyMem_Free(ids);
    return done(status);
}

/* (lm, on) */
PyObject *api__lm_recompute(const arg *a) {
    cr_lm *m = lm_of(&a[0]);
    if (!m) return NULL;
    cr_lm_gradient_checkpointing(m, a[1].b);
    Py_RETURN_NONE;
}

/* ctx: (the function, the bytes of cr_lm_parts.own, the capsule of the model) */
static cr_tensor *call_part(int64_t part, const cr_tensor *x, void *ctx) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *given = wrap_borrowed(x), *result = NULL;
    cr_tensor *y = NULL;
    if (given) result = PyObject_CallFunction(PyTuple_GetItem(ctx, 0), "LO", (long long)part, given);
    if (result && is_tensor(result)) y = cr_retain(handle(result));
    else if (result) raise_type(result, "a part of a language model must return a Tensor, not");
    Py_XDECREF(given);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return y;
}

static void hold_parts(void *ctx, bool on) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    if (on) Py_INCREF((PyObject *)ctx);
    else Py_DECREF((PyObject *)ctx);
    PyGILState_Release(state);
}

/* (lm, tokens, stores, past, at, spans, dropout, generator, own, call): spans: int64 (2, n) on the host, lengths and
 * pasts */
PyObject *api__lm_hidden(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    if (!m) return NULL;
    cr_tensor *y = NULL;
    const int64_t n = a[5].given ? cr_size(a[5].t, 1) : 0, past = a[3].i;
    int64_t *span = PyMem_Malloc((size_t)(2 * n + 1) * sizeof *span);
    PyObject *ctx = span ? PyTuple_Pack(3, a[9].o, a[8].o, a[0].o) : PyErr_NoMemory();
    if (ctx && (!n || cr_read(a[5].t, CR_I64, span, (size_t)(2 * n) * sizeof *span) == CR_OK)) {
        const char *own = a[8].o == Py_None ? NULL : PyBytes_AsString(a[8].o);
        const cr_lm_parts parts = {(const uint8_t *)(const void *)own, call_part, ctx, hold_parts};
        const cr_lm_reading reading = {.n = n, .length = span, .past = n ? span + n : &past,
                                       .stores = a[2].list.n ? (cr_tensor *const *)(uintptr_t)a[2].list.v : NULL,
                                       .at = a[4].given ? a[4].t : NULL,
                                       .train = {a[6].d, a[6].d > 0 ? a[7].g : NULL}, .parts = &parts};
        WITHOUT_GIL(y = cr_lm_hidden(m, a[1].t, &reading));
    }
    PyMem_Free(span);
    Py_XDECREF(ctx);
    return wrap(y);
}

/* (lm, tokens, mask, kinds, dropout, generator, own, call) */
PyObject *api__lm_encode(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    PyObject *ctx = m ? PyTuple_Pack(3, a[7].o, a[6].o, a[0].o) : NULL;
    cr_tensor *y;
    if (!ctx) return NULL;
    const char *own = a[6].o == Py_None ? NULL : PyBytes_AsString(a[6].o);
    const cr_lm_parts parts = {(const uint8_t *)(const void *)own, call_part, ctx, hold_parts};
    const cr_lm_reading reading = {.mask = a[2].given ? a[2].t : NULL, .kinds = a[3].given ? a[3].t : NULL,
                                   .train = {a[4].d, a[4].d > 0 ? a[5].g : NULL}, .parts = &parts};
    WITHOUT_GIL(y = cr_lm_hidden(m, a[1].t, &reading));
    Py_DECREF(ctx);
    return wrap(y);
}

/* (lm, what, x, mask, own, call) */
PyObject *api__lm_output(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    const cr_lm_output what = (cr_lm_output)a[1].i;
    if (!m) return NULL;
    if (!cr_lm_gives(m, what)) Py_RETURN_NONE;
    PyObject *ctx = PyTuple_Pack(3, a[5].o, a[4].o, a[0].o);
    cr_tensor *y;
    if (!ctx) return NULL;
    const char *own = a[4].o == Py_None ? NULL : PyBytes_AsString(a[4].o);
    const cr_lm_parts parts = {(const uint8_t *)(const void *)own, call_part, ctx, hold_parts};
    WITHOUT_GIL(y = cr_lm_output_of(m, what, a[2].t, a[3].given ? a[3].t : NULL, &parts));
    Py_DECREF(ctx);
    return wrap(y);
}

/* (lm) */
PyObject *api__lm_pooling(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    int64_t length = 0;
    const char *rules = m ? cr_lm_pooling(m, &length) : NULL;
    if (!rules) return NULL;
    return Py_BuildValue("OsL", cr_lm_is_encoder(m) ? Py_True : Py_False, rules, (long long)length);
}

/* (lm, part, x) */
PyObject *api__lm_part(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    cr_tensor *y;
    if (!m) return NULL;
    WITHOUT_GIL(y = cr_lm_part_run(m, a[1].i, a[2].t));
    return wrap(y);
}

/* (lm, x) */
PyObject *api__lm_head(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    cr_tensor *y;
    if (!m) return NULL;
    WITHOUT_GIL(y = cr_lm_head(m, a[1].t));
    return wrap(y);
}

/* (lm, logits) */
PyObject *api__lm_capped(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    cr_tensor *y;
    if (!m) return NULL;
    WITHOUT_GIL(y = cr_lm_capped(m, a[1].t));
    return wrap(y);
}

/* (lm, x, targets, each) */
PyObject *api__lm_loss(const arg *a) {
    const cr_lm *m = lm_of(&a[0]);
    cr_tensor *y;
    if (!m) return NULL;
    WITHOUT_GIL(y = cr_lm_head_loss(m, a[1].t, a[2].t, a[3].b ? CR_EACH : CR_MEAN));
    return wrap(y);
}
