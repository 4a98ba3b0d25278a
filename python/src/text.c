/* text.c - token files and their loader, as capsules, for the Python of chainrule.data. */
#include "extension.h"

static const char tokens_name[] = "chainrule.tokens", loader_name[] = "chainrule.loader";

static void free_tokens(PyObject *capsule) { cr_tokens_free(PyCapsule_GetPointer(capsule, tokens_name)); }
static void free_loader(PyObject *capsule) { cr_loader_free(PyCapsule_GetPointer(capsule, loader_name)); }

static PyObject *tokens_object(cr_tokens *t) {
    PyObject *capsule = t ? PyCapsule_New(t, tokens_name, free_tokens) : raise_error();
    if (!capsule) cr_tokens_free(t);
    return capsule;
}

static cr_tokens *tokens_of(const arg *a) { return PyCapsule_GetPointer(a->o, tokens_name); }    /* NULL with an exception for anything else */
cr_loader *loader_of(const arg *a) { return PyCapsule_GetPointer(a->o, loader_name); }

PyObject *api__tokens_open(const arg *a) {
    cr_tokens *t;
    WITHOUT_GIL(t = cr_tokens_open(a[0].s));
    return tokens_object(t);
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

PyObject *api__loader_place(const arg *a) {
    cr_loader *l = loader_of(&a[0]);
    return l ? int_tuple(2, (int64_t[]){cr_loader_cursor(l), cr_loader_batches(l)}) : NULL;
}

PyObject *api__loader_seek(const arg *a) {
    cr_loader *l = loader_of(&a[0]);
    return l ? done(cr_loader_seek(l, a[1].i)) : NULL;
}
