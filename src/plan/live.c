/* live.c - a step that depends on a number, such as the position of the next token in a text: three recordings, for n,
 * n + 1 and n + 2, become one plan for any number.
 *
 * Between them places and sizes of arrays, and the keys that attention sees, grow by equal steps; all else is the same.
 * Before a run each of these words is set. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct joining {
    cr_plan *p[3];
    int room;
    bool failed;                                    /* out of memory */
} joining;

/* The word `at` bytes into the arguments of all steps has these three values. */
static bool add_word(joining *j, size_t at, const int64_t v[3]) {
    cr_plan *p = j->p[0];
    if (v[0] == v[1] && v[1] == v[2]) return true;
    if (v[1] - v[0] != v[2] - v[1]) return false;
    if (p->n_live == j->room) {
        cr_live_word *more = realloc(p->live, sizeof *more * (size_t)(j->room = 2 * j->room + 32));
        j->failed |= !more;
        if (!more) return false;
        p->live = more;
    }
    p->live[p->n_live++] = (cr_live_word){at, v[1] - v[0]};
    return true;
}

static bool add_words(joining *j, size_t at, const int64_t *a, const int64_t *b, const int64_t *c, int n) {
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = add_word(j, at + (size_t)i * 8, (const int64_t[]){a[i], b[i], c[i]});
    return ok;
}

/* ---- arguments */
static bool same_program(const cr_program *a, const cr_program *b) {
    if (a == b) return true;
    if (!a->chain || !b->chain || a->n_in != b->n_in || a->n_const != b->n_const || a->n_instr != b->n_instr ||
        a->n_out != b->n_out || a->n_param || b->n_param)
        return false;
    return !memcmp(a->consts, b->consts, sizeof *a->consts * (size_t)a->n_const) &&
           !memcmp(a->instr, b->instr, sizeof *a->instr * (size_t)a->n_instr) &&
           !memcmp(a->out, b->out, sizeof *a->out * (size_t)a->n_out);
}

static bool same_walk(const cr_walk *a, const cr_walk *b) {
    const size_t params = sizeof *a->params * (size_t)a->program->n_param;
    return same_program(a->program, b->program) && a->compute == b->compute && a->ndim == b->ndim &&
           a->numel == b->numel && a->n_in == b->n_in && a->n_out == b->n_out &&
           (!params || !memcmp(a->params, b->params, params)) &&
           !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim);
}

/* Operand k of a step is a part of a walk: it may move. */
static bool join_arg(joining *j, cr_step *const s[3], const cr_operand *o, size_t at) {
    const cr_arg *a = cr_step_arg(s[0], o), *b = cr_step_arg(s[1], o), *c = cr_step_arg(s[2], o);
    const int ndim = cr_step_walks(s[0])->walks->ndim;
    const size_t strides = sizeof *a->strides * (size_t)ndim;
    const int64_t size = (int64_t)cr_dtype_size(a->dtype),
                  places[3] = {a->offset * size, b->offset * size, c->offset * size};
    if (a->dtype != b->dtype || memcmp(a->strides, b->strides, strides) || memcmp(b->strides, c->strides, strides))
        return false;
    const bool host = j->p[0]->buffers[o->buffer].dev->host;
    return add_words(j, at + o->at + offsetof(cr_arg, offset), &a->offset, &b->offset, &c->offset, 1) &&
           (!host || add_word(j, at + o->at + offsetof(cr_arg, data), places));
}

/* An array may move and grow. */
static bool join_array(joining *j, cr_step *const s[3], const cr_operand *o, size_t at) {
    const cr_array *a = cr_step_array(s[0], o), *b = cr_step_array(s[1], o), *c = cr_step_array(s[2], o);
    if (a->dtype != b->dtype || a->ndim != b->ndim || a->contiguous != b->contiguous || b->ndim != c->ndim ||
        b->contiguous != c->contiguous)
        return false;
    at += o->at;
    return add_words(j, at + offsetof(cr_array, offset), &a->offset, &b->offset, &c->offset, 1) &&
           add_words(j, at + offsetof(cr_array, numel), &a->numel, &b->numel, &c->numel, 1) &&
           add_words(j, at + offsetof(cr_array, shape), a->shape, b->shape, c->shape, a->ndim) &&
           add_words(j, at + offsetof(cr_array, strides), a->strides, b->strides, c->strides, a->ndim);
}

/* The arguments without what was compared already, and without addresses. */
static char *rest_of(const cr_step *s) {
    char *args = malloc(s->bytes + 1);
    if (!args) return NULL;
    memcpy(args, s->args, s->bytes);
    for (int i = 0; i < s->n_inside; i++) {
        char **pointer = (char **)(void *)(args + s->inside[i]);
        *pointer = (char *)(*pointer - s->args);
    }
    for (int i = 0; i < s->n_operands; i++)
        if (!s->operands[i].walk) memset(args + s->operands[i].at, 0, sizeof(cr_array));
    if (s->kernel == CR_KERNEL_elementwise)
        memset((char *)args + ((const char *)cr_step_walks(s)->walks - s->args), 0,
               sizeof(cr_walk) * (size_t)cr_step_walks(s)->count);
    if (s->kernel == CR_KERNEL_attention) {
        cr_attention_args *a = (void *)args;
        a->first = a->last = 0;
    }
    return args;
}

static bool join_rest(joining *j, cr_step *const s[3], size_t at) {
    char *rest[3] = {rest_of(s[0]), rest_of(s[1]), rest_of(s[2])};
    bool ok = rest[0] && rest[1] && rest[2];
    j->failed |= !ok;
    ok = ok && !memcmp(rest[0], rest[1], s[0]->bytes) && !memcmp(rest[1], rest[2], s[0]->bytes);
    for (int i = 0; i < 3; i++) free(rest[i]);
    if (!ok || s[0]->kernel != CR_KERNEL_attention) return ok;
    const cr_attention_args *a[3];
    for (int i = 0; i < 3; i++) a[i] = (const void *)s[i]->args;
    return add_word(j, at + offsetof(cr_attention_args, first),
                    (const int64_t[]){a[0]->first, a[1]->first, a[2]->first}) &&
           add_word(j, at + offsetof(cr_attention_args, last), (const int64_t[]){a[0]->last, a[1]->last, a[2]->last});
}

/* How far the number may grow until the operand would leave its buffer. */
static bool bound(cr_plan *p, const cr_operand *a, const cr_operand *b) {
    const int64_t step = b->high - a->high, bytes = (int64_t)p->buffers[a->buffer].bytes;
    if (step < 0 || b->low < a->low) return false;
    if (step && (bytes - a->high) / step < p->most) p->most = (bytes - a->high) / step;
    return true;
}

/* An array of an input, a result, or a temporary of its own memory is placed in each run. */
static bool stays(const cr_plan *p, int buffer) {
    const cr_buffer *b = &p->buffers[buffer];
    if (b->kind == CR_BUFFER_TEMPORARY) return cr_has_arena(b->dev);
    return b->kind != CR_BUFFER_INPUT && b->kind != CR_BUFFER_OUTPUT;
}

static bool alike(const cr_step *a, const cr_step *b) {
    if (a->kind != CR_STEP_KERNEL || b->kind != a->kind || a->kernel != b->kernel || a->run != b->run ||
        a->bytes != b->bytes || a->n_inside != b->n_inside || a->n_operands != b->n_operands || a->draw >= 0 ||
        b->draw >= 0)
        return false;
    if (a->n_inside && memcmp(a->inside, b->inside, sizeof *a->inside * (size_t)a->n_inside)) return false;
    for (int i = 0; i < a->n_operands; i++) {
        const cr_operand *x = &a->operands[i], *y = &b->operands[i];
        if (x->buffer != y->buffer || x->use != y->use || x->walk != y->walk || x->at != y->at) return false;
    }
    if (a->kernel != CR_KERNEL_elementwise) return a->kernel != CR_KERNEL_update_by_product;
    const cr_elementwise_args *x = cr_step_walks(a), *y = cr_step_walks(b);
    return x->count == 1 && y->count == 1 && same_walk(x->walks, y->walks);
}

static bool join_step(joining *j, int i) {
    cr_plan *p = j->p[0];
    cr_step *const s[3] = {&p->steps[i], &j->p[1]->steps[i], &j->p[2]->steps[i]};
    const size_t at = p->args_at[i];
    const int before = p->n_live;
    if (!alike(s[0], s[1]) || !alike(s[1], s[2]) || cr_live_params(p, s[0])) return false;
    for (int k = 0; k < s[0]->n_operands; k++) {
        const cr_operand *o = &s[0]->operands[k];
        const int words = p->n_live;
        if (!(o->walk ? join_arg(j, s, o, at) : join_array(j, s, o, at))) return false;
        if (p->n_live > words && !stays(p, o->buffer)) return false;
        if (!bound(p, o, &s[1]->operands[k])) return false;
    }
    if (!join_rest(j, s, at)) return false;
    s[0]->live = p->n_live > before;
    return true;
}

/* ---- buffers */
static bool same_bytes(joining *j, const cr_buffer *a, const cr_buffer *b) {
    char *x = malloc(a->bytes + 1), *y = malloc(a->bytes + 1);
    j->failed |= !x || !y;
    const bool same = x && y && a->dev->download(a->dev, x, a->storage, 0, a->bytes) == CR_OK &&
                      b->dev->download(b->dev, y, b->storage, 0, b->bytes) == CR_OK && !memcmp(x, y, a->bytes);
    free(x), free(y);
    return same;
}

static bool same_buffer(joining *j, const cr_buffer *a, const cr_buffer *b) {
    if (a->kind != b->kind || a->dev != b->dev || a->bytes != b->bytes) return false;
    if (a->kind == CR_BUFFER_OUTSIDE) return a->storage == b->storage;
    return a->kind != CR_BUFFER_CONSTANT || a->storage == b->storage || same_bytes(j, a, b);
}

static bool same_results(int n, const cr_result *a, const cr_result *b) {
    for (int i = 0; i < n; i++) {
        const cr_array *x = &a[i].array, *y = &b[i].array;
        if (a[i].buffer != b[i].buffer || a[i].absent != b[i].absent || a[i].in_graph || b[i].in_graph) return false;
        if (!a[i].absent && (x->dtype != y->dtype || x->offset != y->offset || x->ndim != y->ndim ||
                             memcmp(x->shape, y->shape, sizeof *x->shape * (size_t)x->ndim) ||
                             memcmp(x->strides, y->strides, sizeof *x->strides * (size_t)x->ndim)))
            return false;
    }
    return true;
}

static bool same_plan(joining *j, const cr_plan *a, const cr_plan *b) {
    if (a->n_steps != b->n_steps || a->n_buffers != b->n_buffers || a->n_inputs != b->n_inputs ||
        a->n_outputs != b->n_outputs || a->n_leaves + b->n_leaves + a->n_draws + b->n_draws ||
        a->n_callbacks + b->n_callbacks + a->n_cotangents + b->n_cotangents)
        return false;
    bool ok = same_results(a->n_inputs, a->inputs, b->inputs) && same_results(a->n_outputs, a->outputs, b->outputs);
    for (int i = 0; i < a->n_buffers && ok; i++) ok = same_buffer(j, &a->buffers[i], &b->buffers[i]);
    return ok;
}

cr_status cr_plan_join(cr_plan *p, const cr_plan *second, const cr_plan *third) {
    if (!p || !second || !third) return cr_fail_null("plan_join", "a plan");
    if (p->instances || p->live) return cr_fail(CR_BAD_VALUE, "plan_join", "the plan has run, or is joined already");
    joining j = {.p = {p, (cr_plan *)(uintptr_t)second, (cr_plan *)(uintptr_t)third}};
    p->most = INT64_MAX;
    bool ok = same_plan(&j, p, second) && same_plan(&j, second, third);
    for (int i = 0; i < p->n_steps && ok; i++) ok = join_step(&j, i);
    if (ok) return CR_OK;
    p->n_live = 0, p->most = 0;
    if (j.failed) return cr_fail(CR_NO_MEMORY, "plan_join", "out of memory");
    return cr_fail(CR_BAD_VALUE, "plan_join",
                   "the three recordings differ by more than places and sizes that grow in equal steps");
}

cr_status cr_plan_at(cr_plan *p, int64_t n) {
    if (!p) return cr_fail_null("plan_at", "the plan");
    if (n < 0 || n > p->most)
        return cr_fail(CR_BAD_INDEX, "plan_at", "number %lld is out of range: the plan runs for 0 to %lld",
                       (long long)n, (long long)p->most);
    p->number = n;
    return CR_OK;
}

void cr_live_set(const cr_plan *p, cr_instance *x) {
    const int64_t more = p->number - x->number;
    for (int i = 0; i < p->n_live && more; i++) *(int64_t *)(void *)(x->pool + p->live[i].at) += more * p->live[i].step;
    x->number = p->number;
}
