/* text.c - tokenizers, token files and their loader, as capsules, for the Python of chainrule.data. */
#include "extension.h"

#include <stdlib.h>

static const char tokenizer_name[] = "chainrule.tokenizer", tokens_name[] = "chainrule.tokens",
                  loader_name[] = "chainrule.loader", decoder_name[] = "chainrule.decoder";

static void free_tokenizer(PyObject *capsule) { cr_tokenizer_free(PyCapsule_GetPointer(capsule, tokenizer_name)); }
static void free_tokens(PyObject *capsule) { cr_tokens_free(PyCapsule_GetPointer(capsule, tokens_name)); }
static void free_loader(PyObject *capsule) { cr_loader_free(PyCapsule_GetPointer(capsule, loader_name)); }

/* ---- tokenizers */
static PyObject *tokenizer_object(cr_tokenizer *t) {
    PyObject *capsule = t ? PyCapsule_New(t, tokenizer_name, free_tokenizer) : raise_error();
    if (!capsule) cr_tokenizer_free(t);
    return capsule;
}

static cr_tokenizer *tokenizer_of(const arg *a) { return PyCapsule_GetPointer(a->o, tokenizer_name); }

/* The UTF-8 of a str, or bytes as they are. */
static const char *text_of(PyObject *o, size_t *bytes) {
    Py_ssize_t n = 0;
    char *text = NULL;
    if (PyBytes_Check(o)) PyBytes_AsStringAndSize(o, &text, &n);
    else if (!PyUnicode_Check(o)) raise_type(o, "a text is str or bytes, not");
    *bytes = (size_t)n;
    if (!PyUnicode_Check(o)) return text;
    const char *utf8 = PyUnicode_AsUTF8AndSize(o, &n);
    *bytes = (size_t)n;
    return utf8;
}

PyObject *api__tokenizer_bytes(const arg *a) { (void)a; return tokenizer_object(cr_tokenizer_bytes()); }

PyObject *api__tokenizer_chars(const arg *a) {
    size_t bytes;
    cr_tokenizer *t;
    const char *text = text_of(a[0].o, &bytes);
    if (!text) return NULL;
    WITHOUT_GIL(t = cr_tokenizer_chars(text, bytes));
    return tokenizer_object(t);
}

PyObject *api__tokenizer_load(const arg *a) {
    cr_tokenizer *t;
    WITHOUT_GIL(t = cr_tokenizer_load(a[0].s));
    return tokenizer_object(t);
}

PyObject *api__tokenizer_save(const arg *a) {
    cr_status status;
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    if (!t) return NULL;
    WITHOUT_GIL(status = cr_tokenizer_save(t, a[1].s));
    return done(status);
}

/* (tokenizer, folder, size) */
PyObject *api__tokenizer_gguf(const arg *a) {
    char *entries;
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    if (!t) return NULL;
    WITHOUT_GIL(entries = cr_tokenizer_gguf(t, *a[1].s ? a[1].s : NULL, a[2].i));
    if (!entries) return raise_error();
    PyObject *bytes = PyBytes_FromString(entries);
    cr_free(entries);
    return bytes;
}

PyObject *api__tokenizer_size(const arg *a) {
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    return t ? PyLong_FromLongLong(cr_tokenizer_size(t)) : NULL;
}

/* None, True, or a tuple of ids, which are copied; false with an exception. */
static bool encoding_of(const arg *special, const arg *add, cr_encoding *o, uint32_t **ids) {
    *ids = NULL;
    *o = (cr_encoding){.all_special = special->o == Py_True, .add_special = add->b};
    if (!PyTuple_Check(special->o)) return true;
    const Py_ssize_t n = PyTuple_Size(special->o);
    *ids = malloc(sizeof **ids * (size_t)(n + 1));
    if (!*ids) return PyErr_NoMemory(), false;
    for (Py_ssize_t i = 0; i < n; i++) (*ids)[i] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(special->o, i));
    o->special = *ids;
    o->n_special = n;
    return !PyErr_Occurred() || (free(*ids), *ids = NULL, false);
}

static cr_tensor *encoded(const cr_tokenizer *t, const char *text, size_t bytes, const cr_encoding *o) {
    int64_t n;
    uint32_t *ids = cr_tokenizer_encode_special(t, text, bytes, o, &n);
    cr_tensor *y = ids ? cr_empty(CR_LIST(n), CR_I64, cr_cpu()) : NULL;
    if (y && n && cr_write(y, CR_U32, ids, sizeof *ids * (size_t)n)) { cr_release(y); y = NULL; }
    cr_free(ids);
    return y;
}

PyObject *api__tokenizer_encode(const arg *a) {
    size_t bytes;
    cr_tensor *y;
    cr_encoding o;
    uint32_t *special;
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    const char *text = t ? text_of(a[1].o, &bytes) : NULL;
    if (!text || !encoding_of(&a[2], &a[3], &o, &special)) return NULL;
    o.max_length = a[4].i;
    WITHOUT_GIL(y = encoded(t, text, bytes, &o));
    free(special);
    return wrap(y);
}

static PyObject *list_of(const uint32_t *ids, int64_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *id = PyLong_FromUnsignedLong(ids[i]);
        if (!id || PyList_SetItem(list, (Py_ssize_t)i, id)) Py_CLEAR(list);
    }
    return list;
}

/* Takes the ids of all texts. */
static PyObject *lists_of(Py_ssize_t n, uint32_t **ids, const int64_t *count) {
    PyObject *all = PyList_New(n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *list = all ? list_of(ids[i], count[i]) : NULL;
        if (all && list) PyList_SetItem(all, i, list);
        else Py_CLEAR(all);
        cr_free(ids[i]);
    }
    return all;
}

PyObject *api__tokenizer_encode_batch(const arg *a) {
    cr_encoding o;
    uint32_t *special = NULL;
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    const Py_ssize_t n = t ? PyTuple_Size(a[1].o) : -1;
    if (n < 0 || !encoding_of(&a[2], &a[3], &o, &special)) return NULL;
    const char **text = malloc(sizeof *text * (size_t)(n + 1));
    size_t *bytes = malloc(sizeof *bytes * (size_t)(n + 1));
    uint32_t **ids = malloc(sizeof *ids * (size_t)(n + 1));
    int64_t *count = malloc(sizeof *count * (size_t)(n + 1));
    PyObject *result = NULL;
    cr_status status = CR_OK;
    bool ok = text && bytes && ids && count;
    if (!ok) PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = (text[i] = text_of(PyTuple_GetItem(a[1].o, i), &bytes[i])) != NULL;
    if (ok) WITHOUT_GIL(status = cr_tokenizer_encode_batch(t, n, text, bytes, &o, ids, count));
    if (ok) result = status ? raise_error() : lists_of(n, ids, count);
    free(special);
    free(text);
    free(bytes);
    free(ids);
    free(count);
    return result;
}

PyObject *api__tokenizer_find(const arg *a) {
    size_t bytes;
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    const char *text = t ? text_of(a[1].o, &bytes) : NULL;
    return text ? PyLong_FromLongLong(cr_tokenizer_find(t, text, bytes)) : NULL;
}

PyObject *api__tokenizer_name(const arg *a) {
    size_t bytes;
    bool special;
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    const char *name = t ? cr_tokenizer_name(t, a[1].i, &bytes, &special) : NULL;
    if (!t) return NULL;
    if (!name) return cr_error() ? raise_error() : Py_NewRef(Py_None);
    return Py_BuildValue("y#O", name, (Py_ssize_t)bytes, special ? Py_True : Py_False);
}

/* (text, vocabulary, min_frequency, split, special) */
PyObject *api__tokenizer_train_bpe(const arg *a) {
    size_t bytes;
    cr_tokenizer *t = NULL;
    const char *text = text_of(a[0].o, &bytes);
    const Py_ssize_t n = text ? PyTuple_Size(a[4].o) : -1;
    if (n < 0) return NULL;
    const char **special = malloc(sizeof *special * (size_t)(n + 1));
    bool ok = special || PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = (special[i] = PyBytes_AsString(PyTuple_GetItem(a[4].o, i))) != NULL;
    const char *split = ok && a[3].o != Py_None ? PyBytes_AsString(a[3].o) : NULL;
    ok = ok && !PyErr_Occurred();
    const cr_bpe_training o = {a[1].i, a[2].i, split, special, n};
    if (ok) WITHOUT_GIL(t = cr_tokenizer_train_bpe(text, bytes, &o));
    free(special);
    return ok ? tokenizer_object(t) : NULL;
}

/* ---- conversations */
static const char chat_name[] = "chainrule.chat";

static void free_chat(PyObject *capsule) { cr_chat_free(PyCapsule_GetPointer(capsule, chat_name)); }

PyObject *api__chat_open(const arg *a) {
    const cr_tokenizer *t = a[1].o == Py_None ? NULL : tokenizer_of(&a[1]);
    const char *folder = a[0].o == Py_None ? NULL : PyBytes_AsString(a[0].o),
               *form = a[2].o == Py_None ? NULL : PyBytes_AsString(a[2].o);
    if (PyErr_Occurred()) return NULL;
    cr_chat *c;
    WITHOUT_GIL(c = cr_chat_open(folder, t, form));
    PyObject *capsule = c ? PyCapsule_New(c, chat_name, free_chat) : raise_error();
    if (!capsule) cr_chat_free(c);
    return capsule;
}

static PyObject *ends_of(const cr_chat *c, bool answer) {
    uint32_t ends[64];
    const int64_t found = cr_chat_ends(c, answer, ends, 64);
    const Py_ssize_t n = found < 64 ? (Py_ssize_t)found : 64;
    PyObject *ids = PyTuple_New(n);
    for (Py_ssize_t i = 0; ids && i < n; i++) {
        PyObject *one = PyLong_FromUnsignedLong(ends[i]);
        if (!one || PyTuple_SetItem(ids, i, one)) Py_CLEAR(ids);
    }
    return ids;
}

PyObject *api__chat_said(const arg *a) {
    const cr_chat *c = PyCapsule_GetPointer(a[0].o, chat_name);
    PyObject *text = c ? ends_of(c, false) : NULL, *answer = text ? ends_of(c, true) : NULL;
    if (!answer) return Py_XDECREF(text), NULL;
    const char *template = cr_chat_template(c);
    return template ? Py_BuildValue("(yzzNN)", template, cr_chat_name(c), cr_chat_source(c), text, answer)
                    : Py_BuildValue("(OOONN)", Py_None, Py_None, Py_None, text, answer);
}

static PyObject *numbers(const int64_t *at, Py_ssize_t n) {
    PyObject *all = PyTuple_New(n);
    for (Py_ssize_t i = 0; all && i < n; i++) {
        PyObject *one = PyLong_FromLongLong(at[i]);
        if (!one || PyTuple_SetItem(all, i, one)) Py_CLEAR(all);
    }
    return all;
}

/* A text of the library's, which is freed, and where its marks are. */
static PyObject *marked_text(char *text, const cr_marks *marks) {
    if (!text) return raise_error();
    PyObject *at = numbers(marks->at, (Py_ssize_t)marks->n * 2);
    PyObject *result = at ? Py_BuildValue("(y#N)", text, (Py_ssize_t)marks->bytes, at) : NULL;
    cr_free(text);
    return result;
}

PyObject *api__chat_text(const arg *a) {
    const cr_chat *c = PyCapsule_GetPointer(a[0].o, chat_name);
    char *variables, *text;
    Py_ssize_t n;
    size_t bytes;
    if (!c || PyBytes_AsStringAndSize(a[1].o, &variables, &n)) return NULL;
    WITHOUT_GIL(text = cr_chat_text(c, variables, (size_t)n, &bytes));
    PyObject *result = text ? PyBytes_FromStringAndSize(text, (Py_ssize_t)bytes) : raise_error();
    cr_free(text);
    return result;
}

/* ---- samples of files */
static const char dataset_name[] = "chainrule.dataset";

static void free_dataset(PyObject *capsule) { cr_dataset_free(PyCapsule_GetPointer(capsule, dataset_name)); }

/* (tokenizer, chat, paths, context, eos, truncate) */
PyObject *api__dataset_read(const arg *a) {
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    const cr_chat *c = t ? PyCapsule_GetPointer(a[1].o, chat_name) : NULL;
    const Py_ssize_t n = c ? PyTuple_Size(a[2].o) : -1;
    char **path = n < 0 ? NULL : malloc(sizeof *path * (size_t)(n + 1));
    if (!path) return n < 0 ? NULL : PyErr_NoMemory();
    bool ok = true;
    for (Py_ssize_t i = 0; ok && i < n; i++) ok = !PyBytes_AsStringAndSize(PyTuple_GetItem(a[2].o, i), &path[i], NULL);
    const cr_dataset_options o = {t, c, a[3].i, a[4].i, a[5].b, .questions = true};
    cr_dataset *d = NULL;
    if (ok) WITHOUT_GIL(d = cr_dataset_read(&o, (int)n, (const char *const *)path));
    free(path);
    PyObject *capsule = d ? PyCapsule_New(d, dataset_name, free_dataset) : ok ? raise_error() : NULL;
    if (!capsule) cr_dataset_free(d);
    return capsule;
}

static PyObject *sample_object(const cr_example *s) {
    PyObject *counts = PyList_New((Py_ssize_t)s->n), *ids = counts ? list_of(s->ids, s->n) : NULL;
    for (Py_ssize_t i = 0; ids && i < (Py_ssize_t)s->n; i++)
        if (PyList_SetItem(counts, i, PyBool_FromLong(s->counts[i]))) Py_CLEAR(ids);
    if (!ids) return Py_XDECREF(counts), NULL;
    return Py_BuildValue("(NNL)", ids, counts, (long long)s->bytes);
}

PyObject *api__dataset_samples(const arg *a) {
    const cr_dataset *d = PyCapsule_GetPointer(a[0].o, dataset_name);
    if (!d) return NULL;
    const Py_ssize_t n = (Py_ssize_t)cr_dataset_count(d), questions = (Py_ssize_t)cr_dataset_questions(d);
    PyObject *all = PyList_New(n), *asked = PyList_New(questions);
    bool ok = all && asked;
    for (Py_ssize_t i = 0; ok && i < n; i++) {
        const cr_example s = cr_dataset_at(d, i);
        PyObject *one = sample_object(&s);
        ok = one && !PyList_SetItem(all, i, one);
    }
    for (Py_ssize_t i = 0; ok && i < questions; i++) {
        const cr_question q = cr_dataset_question(d, i);
        PyObject *one = Py_BuildValue("(LLL)", (long long)q.first, (long long)q.choices, (long long)q.answer);
        ok = one && !PyList_SetItem(asked, i, one);
    }
    if (ok) return Py_BuildValue("(NN)", all, asked);
    Py_XDECREF(all);
    Py_XDECREF(asked);
    return NULL;
}

PyObject *api__dataset_score(const arg *a) {
    const cr_dataset *d = PyCapsule_GetPointer(a[0].o, dataset_name);
    if (!d) return NULL;
    const Py_ssize_t n = (Py_ssize_t)cr_dataset_count(d);
    double *loss = malloc(sizeof *loss * (size_t)(n + 1));
    if (!loss) return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) loss[i] = PyFloat_AsDouble(PyList_GetItem(a[1].o, i));
    const cr_score r = PyErr_Occurred() ? (cr_score){0} : cr_dataset_score(d, loss);
    free(loss);
    if (PyErr_Occurred()) return NULL;
    return Py_BuildValue("(LLLdddLdd)", (long long)r.samples, (long long)r.tokens, (long long)r.bytes, r.loss,
                         r.perplexity, r.bits_per_byte, (long long)r.questions, r.accuracy, r.accuracy_by_length);
}

/* ---- chat templates */
static const char template_name[] = "chainrule.template";

static void free_template(PyObject *capsule) { cr_template_free(PyCapsule_GetPointer(capsule, template_name)); }

PyObject *api__template(const arg *a) {
    char *text;
    Py_ssize_t bytes;
    if (PyBytes_AsStringAndSize(a[0].o, &text, &bytes)) return NULL;
    cr_template *t = cr_template_new(text, (size_t)bytes);
    PyObject *capsule = t ? PyCapsule_New(t, template_name, free_template) : raise_error();
    if (!capsule) cr_template_free(t);
    return capsule;
}

PyObject *api__template_render(const arg *a) {
    const cr_template *t = PyCapsule_GetPointer(a[0].o, template_name);
    char *variables, *text;
    Py_ssize_t bytes;
    cr_marks marks;
    if (!t || PyBytes_AsStringAndSize(a[1].o, &variables, &bytes)) return NULL;
    WITHOUT_GIL(text = cr_template_render(t, variables, (size_t)bytes, &marks));
    PyObject *result = marked_text(text, &marks);
    cr_free(marks.at);
    return result;
}

/* ---- decoders of one text */
static void free_decoder(PyObject *capsule) { cr_decoder_free(PyCapsule_GetPointer(capsule, decoder_name)); }

PyObject *api__decoder_new(const arg *a) {
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    cr_decoder *d = t ? cr_decoder_new(t) : NULL;
    PyObject *capsule = !t ? NULL : d ? PyCapsule_New(d, decoder_name, free_decoder) : raise_error();
    if (!capsule) cr_decoder_free(d);
    return capsule;
}

PyObject *api__decoder_next(const arg *a) {
    size_t bytes;
    cr_decoder *d = PyCapsule_GetPointer(a[0].o, decoder_name);
    if (!d) return NULL;
    if (a[1].i < 0 || a[1].i > UINT32_MAX)
        return PyErr_Format(PyExc_IndexError, "[decoder_next] token %lld is not in the vocabulary", (long long)a[1].i);
    const char *text = cr_decoder_next(d, (uint32_t)a[1].i, &bytes);
    return text ? PyBytes_FromStringAndSize(text, (Py_ssize_t)bytes) : raise_error();
}

PyObject *api__decoder_end(const arg *a) {
    size_t bytes;
    cr_decoder *d = PyCapsule_GetPointer(a[0].o, decoder_name);
    const char *text = d ? cr_decoder_end(d, &bytes) : NULL;
    return !d ? NULL : text ? PyBytes_FromStringAndSize(text, (Py_ssize_t)bytes) : raise_error();
}

/* Integer tokens as C has them, to be freed; NULL with an exception. */
static uint32_t *ids_of(const char *op, const cr_tensor *tokens, int64_t vocabulary) {
    const int64_t n = cr_numel(tokens);
    const size_t bytes = sizeof(int64_t) * (size_t)n;
    if (cr_ndim(tokens) != 1 || cr_dtype_is_float(cr_dtype_of(tokens))) {
        PyErr_Format(PyExc_TypeError, "[%s] tokens are integers in one axis, not %s in %d", op,
                     cr_dtype_name(cr_dtype_of(tokens)), cr_ndim(tokens));
        return NULL;
    }
    int64_t *wide = malloc(bytes ? bytes : 1);
    if (!wide) return PyErr_NoMemory(), NULL;
    cr_status status;
    WITHOUT_GIL(status = cr_read(tokens, CR_I64, wide, bytes));
    uint32_t *ids = (uint32_t *)wide;                /* the same memory, from its start on */
    for (int64_t i = 0; !status && i < n; i++) {
        const int64_t id = wide[i];
        if (id >= 0 && id < vocabulary) {
            ids[i] = (uint32_t)id;
            continue;
        }
        PyErr_Format(PyExc_IndexError, "[%s] token %lld at %lld is not below the vocabulary of %lld", op, (long long)id,
                     (long long)i, (long long)vocabulary);
        free(wide);
        return NULL;
    }
    if (!status) return ids;
    free(wide);
    raise_error();
    return NULL;
}

PyObject *api__tokenizer_decode(const arg *a) {
    const cr_tokenizer *t = tokenizer_of(&a[0]);
    uint32_t *ids = t ? ids_of("tokenizer_decode", a[1].t, cr_tokenizer_size(t)) : NULL;
    if (!ids) return NULL;
    const int64_t n = cr_numel(a[1].t), bytes = cr_tokenizer_decode(t, ids, n, NULL, 0);
    /* filled below, before other code sees it */
    PyObject *text = bytes < 0 ? raise_error() : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (text) cr_tokenizer_decode(t, ids, n, PyBytes_AsString(text), (size_t)bytes);
    free(ids);
    return text;
}

/* ---- token files */
static PyObject *tokens_object(cr_tokens *t) {
    PyObject *capsule = t ? PyCapsule_New(t, tokens_name, free_tokens) : raise_error();
    if (!capsule) cr_tokens_free(t);
    return capsule;
}

/* NULL with an exception for anything else */
static cr_tokens *tokens_of(const arg *a) { return PyCapsule_GetPointer(a->o, tokens_name); }
cr_loader *loader_of(const arg *a) { return PyCapsule_GetPointer(a->o, loader_name); }

PyObject *api__tokens_open(const arg *a) {
    cr_tokens *t;
    WITHOUT_GIL(t = cr_tokens_open(a[0].s));
    return tokens_object(t);
}

/* (path, tokens, vocabulary) */
PyObject *api__tokens_save(const arg *a) {
    uint32_t *ids = ids_of("tokens_save", a[1].t, a[2].i);
    if (!ids) return NULL;
    cr_status status;
    cr_tokens *t = cr_tokens_new(ids, cr_numel(a[1].t), a[2].i);
    free(ids);
    if (!t) return raise_error();
    WITHOUT_GIL(status = cr_tokens_save(t, a[0].s));
    cr_tokens_free(t);
    return done(status);
}

PyObject *api__tokens_slice(const arg *a) {
    cr_tokens *t = tokens_of(&a[0]);
    return t ? tokens_object(cr_tokens_slice(t, a[1].i, a[2].i)) : NULL;
}

PyObject *api__tokens_info(const arg *a) {
    cr_tokens *t = tokens_of(&a[0]);
    return t ? int_tuple(2, (int64_t[]){cr_tokens_count(t), cr_tokens_vocabulary(t)}) : NULL;
}

/* (tokens, batch, context, seed, shuffle, device) */
PyObject *api__loader_new(const arg *a) {
    cr_loader_options o = {.batch = a[1].i, .context = a[2].i, .shuffle = a[4].b, .device = a[5].dev};
    cr_tokens *t = tokens_of(&a[0]);
    if (!t || !to_seed(a[3].o, &o.seed)) return NULL;
    cr_loader *l = cr_loader_new(t, &o);
    PyObject *capsule = l ? PyCapsule_New(l, loader_name, free_loader) : raise_error();
    if (!capsule) cr_loader_free(l);
    return capsule;
}

PyObject *api__loader_next(const arg *a) {
    cr_tensor *x = NULL, *y = NULL;
    cr_status bad;
    cr_loader *l = loader_of(&a[0]);
    if (!l) return NULL;
    WITHOUT_GIL(bad = cr_loader_next(l, &x, &y));
    return bad ? raise_error() : Py_BuildValue("NN", wrap(x), wrap(y));
}

PyObject *api__loader_position(const arg *a) {
    cr_loader *l = loader_of(&a[0]);
    return l ? int_tuple(2, (int64_t[]){cr_loader_cursor(l), cr_loader_batches(l)}) : NULL;
}

PyObject *api__loader_seek(const arg *a) {
    cr_loader *l = loader_of(&a[0]);
    return l ? done(cr_loader_seek(l, a[1].i)) : NULL;
}
