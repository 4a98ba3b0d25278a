/* generation.c - a text that the library makes with a model that Python runs: capsules of cr_text_stream. */
#include "extension.h"

#include <stdlib.h>

typedef struct called { cr_text_model model; PyObject *run; int64_t each; } called;    /* each: stores of a layer */

typedef struct text {
    cr_text_stream *stream;
    called model[2];                                /* and the draft; run NULL: none */
    PyObject *mask, *kept;
    cr_sampling sampling;
    bool busy, over;
} text;

static const char text_name[] = "chainrule.text";

static void text_free(text *t) {
    cr_text_stream_free(t->stream);
    for (int i = 0; i < 2; i++) Py_XDECREF(t->model[i].run);
    Py_XDECREF(t->mask);
    Py_XDECREF(t->kept);
    PyMem_Free(t);
}

static void free_text(PyObject *capsule) { text_free(PyCapsule_GetPointer(capsule, text_name)); }

/* (B, layers, 2 or 4) stores in the order of cr_lm_reading, as a tuple */
static PyObject *stores_of(const cr_text_model *m, int64_t B, cr_tensor *const *stores, int64_t each) {
    const Py_ssize_t n = (Py_ssize_t)(m->layers * B * each);
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; all && i < n; i++) {
        PyObject *one = wrap_borrowed(stores[i]);
        if (!one || PyTuple_SetItem(all, i, one)) Py_CLEAR(all);
    }
    return all;
}

static cr_tensor *run_model(void *ctx, int64_t B, int64_t T, const uint32_t *ids, int64_t last,
                            cr_tensor *const *stores, const int64_t *past) {
    const called *c = ctx;
    const cr_tensor *tokens = cr_to(cr_from(ids, CR_LIST(B, T), CR_U32, c->model.dev), CR_I64, c->model.dev);
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *given = tokens ? wrap_borrowed(tokens) : NULL, *result = NULL;
    PyObject *all = given ? stores_of(&c->model, B, stores, c->each) : NULL;
    PyObject *pasts = all ? int_tuple((int)B, past) : NULL;
    cr_tensor *y = NULL;
    if (pasts) result = PyObject_CallFunction(c->run, "OOOL", given, all, pasts, (long long)last);
    if (result && is_tensor(result)) y = cr_retain(handle(result));
    else if (result) raise_type(result, "a language model must return a Tensor, not");
    Py_XDECREF(given);
    Py_XDECREF(all);
    Py_XDECREF(pasts);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return y;
}

/* cr_adjust */
static bool apply_mask(const uint32_t *ids, int64_t n, double *logits, int64_t V, void *ctx) {
    const cr_tensor *row = cr_from(logits, CR_LIST(V), CR_F64, cr_cpu());
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *list = PyList_New((Py_ssize_t)n), *given = row && list ? wrap_borrowed(row) : NULL, *result = NULL;
    for (int64_t i = 0; given && i < n; i++)
        if (PyList_SetItem(list, (Py_ssize_t)i, PyLong_FromUnsignedLong(ids[i]))) Py_CLEAR(given);
    if (given) result = PyObject_CallFunctionObjArgs(ctx, list, given, NULL);
    bool ok = result && is_tensor(result);
    if (ok && cr_read(handle(result), CR_F64, logits, (size_t)V * sizeof *logits) != CR_OK) ok = raise_error() != NULL;
    Py_XDECREF(list);
    Py_XDECREF(given);
    Py_XDECREF(result);
    PyGILState_Release(state);
    return ok;
}

/* A model of its tuple. */
static bool read_model(PyObject *o, called *c, bool int8) {
    long long V, context, layers, kv, D, room;
    PyObject *run, *like;
    if (!PyArg_ParseTuple(o, "OLLLLLLO", &run, &V, &context, &layers, &kv, &D, &room, &like)) return false;
    const cr_tensor *t = handle(like);
    c->model = (cr_text_model){.vocabulary = V, .context = context, .layers = layers, .kv_heads = kv, .head_dim = D,
                               .room = room, .dtype = cr_dtype_of(t), .dev = cr_device_of(t), .run = run_model,
                               .ctx = c};
    c->run = Py_NewRef(run);
    c->each = int8 ? 4 : 2;
    return true;
}

/* Tokens as the library takes them; what is no u32 becomes one that no vocabulary has.  NULL with an exception. */
static uint32_t *ids_of(const cr_tensor *t) {
    const int64_t n = cr_numel(t);
    int64_t *wide = malloc(((size_t)n + 1) * sizeof *wide);
    uint32_t *ids = malloc(((size_t)n + 1) * sizeof *ids);
    if (!wide || !ids) PyErr_NoMemory();
    else if (n && cr_read(t, CR_I64, wide, (size_t)n * sizeof *wide) != CR_OK) raise_error();
    for (int64_t i = 0; !PyErr_Occurred() && i < n; i++)
        ids[i] = wide[i] < 0 || wide[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)wide[i];
    free(wide);
    if (!PyErr_Occurred()) return ids;
    free(ids);
    return NULL;
}

static cr_text_stream *open_stream(text *t, const arg *a) {
    cr_sampling *s = &t->sampling;
    cr_generate_options o = {.sampling = s, .cache = a[4].dt};
    long long n, top_k, beams, draft_tokens;
    int early;
    if (!PyArg_ParseTuple(a[5].o, "LddLddLdpL", &n, &s->temperature, &s->top_p, &top_k, &s->min_p,
                          &s->repetition_penalty, &beams, &o.length_penalty, &early, &draft_tokens)) return NULL;
    s->top_k = top_k;
    o.tokens = n;
    o.beams = beams;
    o.early_stopping = early;
    o.draft_tokens = draft_tokens;
    uint32_t *ids = ids_of(a[2].t), *stop = ids ? ids_of(a[3].t) : NULL;
    const cr_prompt prompt = {.ids = ids, .n = cr_numel(a[2].t), .generator = a[8].g};
    cr_text_stream *stream = NULL;
    o.stop = stop;
    o.n_stop = cr_numel(a[3].t);
    if (stop) stream = cr_text_stream_new(&t->model[0].model, t->model[1].run ? &t->model[1].model : NULL, &prompt, &o);
    free(ids);
    free(stop);
    if (!stream && !PyErr_Occurred()) raise_error();
    return stream;
}

/* (model, draft, tokens, stop, cache, options, mask, kept, generator) */
PyObject *api__text_new(const arg *a) {
    text *t = PyMem_Calloc(1, sizeof *t);
    if (!t) return PyErr_NoMemory();
    const bool int8 = a[4].dt == CR_I8, masks = a[6].o != Py_None;
    t->sampling = (cr_sampling){.adjust = masks ? apply_mask : NULL, .adjust_ctx = a[6].o};
    t->mask = masks ? Py_NewRef(a[6].o) : NULL;
    t->kept = Py_NewRef(a[7].o);
    bool ok = read_model(a[0].o, &t->model[0], int8);
    if (ok && a[1].o != Py_None) ok = read_model(a[1].o, &t->model[1], int8);
    if (ok) t->stream = open_stream(t, a);
    PyObject *capsule = t->stream ? PyCapsule_New(t, text_name, free_text) : NULL;
    if (!capsule) text_free(t);
    return capsule;
}

/* (text) */
PyObject *api__text_next(const arg *a) {
    text *t = PyCapsule_GetPointer(a[0].o, text_name);
    uint32_t id = 0;
    bool over;
    cr_status status;
    if (!t) return NULL;
    if (t->over) Py_RETURN_NONE;
    if (t->busy) return PyErr_SetString(PyExc_ValueError, "[generate] the text is being made already"), NULL;
    t->busy = true;
    WITHOUT_GIL(status = cr_text_stream_next(t->stream, &id, &over));
    t->busy = false;
    t->over = over || status != CR_OK;
    if (status != CR_OK) return raise_error();
    return over ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(id);
}
