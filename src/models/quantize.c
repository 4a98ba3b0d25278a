/* quantize.c - a language model with its matrices quantized: 8 or 4 bits, the head (and the embedding that it is
 * tied to) always 8.  With a text, the rounding of 4 bits is balanced by the inputs that each matrix sees in it. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

enum { MOMENTS_BYTES = 1 << 30 };                   /* of matrices that a text calibrates at once */

typedef struct matrix { cr_affine *p; bool head; const char *name; } matrix;    /* name: with ".weight" */
typedef struct job {
    cr_lm *m;
    int bits;
    matrix *list; int64_t n, room;
    bool failed;                                    /* no memory for the list */
    const uint32_t *tokens; int64_t n_tokens;
    cr_params *into;                                /* the weights of the quantized model */
} job;

static const char *name_of(const cr_params *p, const cr_tensor *t) {
    for (int64_t i = 0; i < cr_params_count(p); i++) if (cr_params_at(p, i) == t) return cr_params_name(p, i);
    return "";
}

/* The first one is the head. */
static cr_status collect_affine(void *ctx, const char *name, cr_affine *p) {
    job *j = ctx;
    (void)name;
    if (!cr_grow(&j->list, j->n + 1, &j->room, sizeof *j->list)) {
        j->failed = true;
        return cr_fail(CR_NO_MEMORY, "lm_quantize", "no memory for a list");
    }
    const bool head = p == cr_transformer_head(j->m->net);
    j->list[j->n++] = (matrix){p, head, name_of(j->m->params, p->weight)};
    return CR_OK;
}

static cr_status check_text(const char *op, const job *j) {
    for (int64_t i = 0; i < j->n_tokens; i++)
        if (j->tokens[i] >= j->m->d.vocabulary)
            return cr_fail(CR_BAD_INDEX, op, "token %lld of the text is %u: the vocabulary has %lld", (long long)i,
                           j->tokens[i], (long long)j->m->d.vocabulary);
    if (j->tokens && j->n_tokens < 1) return cr_fail(CR_BAD_VALUE, op, "the text to calibrate with is empty");
    return CR_OK;
}

static const char *format_of(const job *j, const matrix *x) { return x->head || j->bits == 8 ? "q8_0" : "q4_0"; }

static cr_status check_job(const job *j) {
    static const char op[] = "lm_quantize";
    if (j->bits != 8 && j->bits != 4) return cr_fail(CR_BAD_VALUE, op, "bits must be 8 or 4, not %d", j->bits);
    for (int64_t i = 0; i < j->n; i++)
        if (cr_affine_inputs(j->list[i].p) % 32)
            return cr_fail(CR_BAD_VALUE, op, "blocks of 32 do not divide the %lld inputs of '%s'",
                           (long long)cr_affine_inputs(j->list[i].p), j->list[i].name);
    return check_text(op, j);
}

/* Runs the text through the model, a context at a time: every matrix with moments collects them. */
static cr_status read_text(const job *j) {
    const cr_decoder *d = &j->m->d;
    cr_status status = CR_OK;
    for (int64_t first = 0, n; first < j->n_tokens && status == CR_OK; first += n) {
        n = j->n_tokens - first < d->context ? j->n_tokens - first : d->context;
        status = cr_check_interrupt("lm_quantize");
        cr_scope_begin();
        const cr_tensor *ids = cr_to(cr_from(j->tokens + first, CR_LIST(1, n), CR_U32, d->dev), CR_I64, d->dev);
        if (status == CR_OK && !d->hidden(d->model, ids, NULL)) status = cr_error_status();
        cr_scope_end();
    }
    return status;
}

static cr_status add_quantized(const job *j, const matrix *x, const cr_tensor *moments) {
    const char *format = format_of(j, x);
    char name[256];
    cr_scope_begin();
    const cr_tensor *rows = cr_quantize(x->p->weight, format, x->head ? NULL : moments);
    snprintf(name, sizeof name, "%.*s.%s", (int)(strlen(x->name) - strlen(".weight")), x->name, format);
    const cr_status status = rows ? cr_params_add(j->into, name, (cr_tensor *)(uintptr_t)rows) : cr_error_status();
    cr_scope_end();
    return status;
}

/* Some matrices from number `first` on; *n: how many. */
static cr_status quantize_some(job *j, int64_t first, int64_t *n) {
    const bool reads = j->tokens && j->bits == 4;
    int64_t bytes = 0, end = first;
    cr_status status = CR_OK;
    cr_scope_begin();
    for (; end < j->n; end++) {
        cr_affine *p = j->list[end].p;
        const int64_t C = cr_affine_inputs(p), more = C * C * (int64_t)sizeof(float);
        if (!reads || j->list[end].head) continue;
        if (bytes && bytes + more > MOMENTS_BYTES) break;
        bytes += more;
        p->moments = cr_zeros(CR_LIST(C, C), CR_F32, j->m->d.dev);
        if (!p->moments) { status = cr_error_status(); break; }
    }
    if (status == CR_OK && bytes) status = read_text(j);
    for (int64_t i = first; i < end; i++) {
        cr_tensor *moments = j->list[i].p->moments;
        j->list[i].p->moments = NULL;
        if (status == CR_OK) status = cr_check_interrupt("lm_quantize");
        if (status == CR_OK) status = add_quantized(j, &j->list[i], moments);
        cr_release(moments);
    }
    cr_scope_end();
    *n = end - first;
    return status;
}

/* What is not quantized. */
static cr_status add_rest(const job *j) {
    cr_status status = CR_OK;
    for (int64_t i = 0; i < cr_params_count(j->m->params) && status == CR_OK; i++) {
        const char *name = cr_params_name(j->m->params, i);
        bool done = false;
        for (int64_t k = 0; k < j->n; k++) done |= !strcmp(j->list[k].name, name);
        if (!done) status = cr_params_add(j->into, name, cr_params_at(j->m->params, i));
    }
    return status;
}

/* config.json with a note, under the name that Hugging Face's programs look for. */
static char *config_for(const job *j) {
    char note[120];
    snprintf(note, sizeof note, "{\"quant_method\": \"chainrule\", \"bits\": %d, \"head_bits\": 8, \"calibrated\": %s}",
             j->bits, j->tokens && j->bits == 4 ? "true" : "false");
    return cr_config_with("lm_quantize", j->m->config, "quantization_config", note);
}

static cr_status quantize_model(job *j) {
    cr_status status = check_job(j);
    for (int64_t first = 0, n; first < j->n && status == CR_OK; first += n) status = quantize_some(j, first, &n);
    if (status == CR_OK) status = add_rest(j);
    char *config = status == CR_OK ? config_for(j) : NULL;
    cr_lm *fresh = config ? cr_lm_over("lm_quantize", "the model", config, j->into, j->m->d.dev) : NULL;
    if (!fresh) return status == CR_OK ? cr_error_status() : status;
    const cr_lm before = *j->m;
    *j->m = *fresh;
    *fresh = before;
    cr_lm_free(fresh);
    return CR_OK;
}

/* ---- importance */
static cr_status add_importance(job *j) {
    cr_status status = check_text("save_gguf", j);
    cr_scope_begin();
    for (int64_t i = 0; i < j->n && status == CR_OK; i++) {
        cr_affine *p = j->list[i].p;
        p->moments = j->list[i].head ? NULL : cr_zeros(CR_LIST(cr_affine_inputs(p)), CR_F32, cr_cpu());
        if (!p->moments && !j->list[i].head) status = cr_error_status();
    }
    if (status == CR_OK) status = read_text(j);
    for (int64_t i = 0; i < j->n; i++) {
        cr_tensor *moments = j->list[i].p->moments;
        j->list[i].p->moments = NULL;
        if (status != CR_OK || !moments) continue;
        moments = cr_mul_scalar(moments, 1.0 / (double)j->n_tokens);
        status = moments ? cr_params_add(j->into, j->list[i].name, moments) : cr_error_status();
    }
    cr_scope_end();
    return status;
}

cr_params *cr_lm_importance(const cr_lm *m, const uint32_t *tokens, int64_t n) {
    job j = {.m = (cr_lm *)(uintptr_t)m, .tokens = tokens, .n_tokens = n};      /* changes are undone */
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = collect_affine(&j, "", cr_transformer_head(m->net));
    if (status == CR_OK) status = cr_transformer_each(m->net, collect_affine, &j);
    j.into = status == CR_OK ? cr_params_new() : NULL;
    status = j.into ? add_importance(&j) : cr_error_status();
    cr_set_grad_enabled(recording);
    free(j.list);
    if (status == CR_OK) return j.into;
    cr_params_free(j.into);
    return NULL;
}

cr_status cr_lm_quantize(cr_lm *m, int bits, const uint32_t *tokens, int64_t n) {
    if (cr_lacks("lm_quantize", "model", m)) return cr_error_status();
    job j = {.m = m, .bits = bits, .tokens = tokens, .n_tokens = tokens ? n : 0};
    if (cr_lm_unpack(m)) return cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    if (collect_affine(&j, "", cr_transformer_head(m->net)) == CR_OK)
        (void)cr_transformer_each(m->net, collect_affine, &j);
    j.into = j.failed ? NULL : cr_params_new();
    const cr_status status = j.into ? quantize_model(&j) : cr_error_status();
    cr_set_grad_enabled(recording);
    cr_params_free(j.into);
    free(j.list);
    return status;
}
