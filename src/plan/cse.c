/* cse.c - the pass that drops a kernel which computes again what an earlier one has computed. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 256 };                              /* steps before a kernel that are compared */

/* Is buffer b temporary, and written once?  Then it holds what that step wrote. */
static bool written_once(const cr_plan *p, int b, const int *writers) {
    return p->buffers[b].kind == CR_BUFFER_TEMPORARY && writers[b] == 1;
}

static bool qualifies(const cr_plan *p, const cr_step *s, const int *writers) {
    if (s->kind != CR_STEP_KERNEL || s->kernel == CR_KERNEL_update_by_product) return false;
    if (cr_live_params(p, s)) return false;
    for (int i = 0; i < s->n_operands; i++)
        if (s->operands[i].use & CR_WRITES &&
            (s->operands[i].use & CR_READS || !written_once(p, s->operands[i].buffer, writers)))
            return false;
    return s->n_operands > 0;
}

/* The axes that an array does not have, and the gaps in it, are not set. */
static void clean(cr_array *a) {
    cr_array of;
    memset(&of, 0, sizeof of);
    of.storage = a->storage, of.dev = a->dev, of.dtype = a->dtype, of.ndim = a->ndim, of.contiguous = a->contiguous;
    of.offset = a->offset, of.numel = a->numel;
    memcpy(of.shape, a->shape, sizeof *a->shape * (size_t)a->ndim);
    memcpy(of.strides, a->strides, sizeof *a->strides * (size_t)a->ndim);
    memcpy(a, &of, sizeof of);
}

/* A copy of the arguments without what differs between equal calls: addresses, and the buffers written. */
static char *picture(const cr_step *s) {
    char *args = malloc(s->bytes + 1);
    if (!args) return NULL;
    memcpy(args, s->args, s->bytes);
    for (int i = 0; i < s->n_inside; i++) {
        char **pointer = (char **)(void *)(args + s->inside[i]);
        *pointer = (char *)(*pointer - s->args);
    }
    for (int i = 0; i < s->n_operands; i++) {
        cr_array *a = (void *)(args + s->operands[i].at);
        if (s->operands[i].use & CR_WRITES) a->storage = NULL;
        clean(a);
    }
    return args;
}

static bool same_args(const cr_step *a, const cr_step *b, bool *failed) {
    char *x = picture(a), *y = picture(b);
    *failed |= !x || !y;
    const bool same = x && y && !memcmp(x, y, a->bytes);
    free(x), free(y);
    return same;
}

static bool same_operand(const cr_walk *w, const cr_arg *a, const cr_arg *b) {
    return a->dtype == b->dtype && a->offset == b->offset &&
           !memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)w->ndim);
}

/* What a walk does not use is not set. */
static bool same_walk(const cr_walk *a, const cr_walk *b) {
    if (a->program != b->program || a->compute != b->compute || a->ndim != b->ndim) return false;
    if (memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->ndim)) return false;
    for (int i = 0; i < a->n_in; i++) if (!same_operand(a, &a->in[i], &b->in[i])) return false;
    for (int i = 0; i < a->n_out; i++) if (!same_operand(a, &a->out[i], &b->out[i])) return false;
    return true;
}

static bool same_walks(const cr_step *a, const cr_step *b) {
    const cr_elementwise_args *x = cr_step_walks(a), *y = cr_step_walks(b);
    for (int64_t i = 0; i < x->count && i < y->count; i++) if (!same_walk(&x->walks[i], &y->walks[i])) return false;
    return x->count == y->count;
}

static bool same_params(const cr_plan *p, const cr_step *a, const cr_step *b) {
    if (a->update < 0 || b->update < 0) return a->update < 0 && b->update < 0;
    const cr_update_params *x = &p->updates[a->update], *y = &p->updates[b->update];
    return x->n == y->n && !memcmp(x->of, y->of, sizeof *x->of * (size_t)x->n);
}

static bool same_call(const cr_plan *p, const cr_step *a, const cr_step *b, bool *failed) {
    if (a->kernel != b->kernel || a->run != b->run || a->bytes != b->bytes || a->n_operands != b->n_operands ||
        a->n_inside != b->n_inside || !same_params(p, a, b))
        return false;
    for (int i = 0; i < a->n_operands; i++) {
        const cr_operand *x = &a->operands[i], *y = &b->operands[i];
        if (x->use != y->use || x->at != y->at || (x->use == CR_READS && x->buffer != y->buffer)) return false;
        if (x->use == CR_WRITES && p->buffers[x->buffer].dev != p->buffers[y->buffer].dev) return false;
    }
    return a->kernel == CR_KERNEL_elementwise ? same_walks(a, b) : same_args(a, b, failed);
}

static bool writes_into(const cr_step *writer, const cr_step *s) {
    for (int i = 0; i < writer->n_operands; i++)
        for (int k = 0; k < s->n_operands; k++) {
            const cr_operand *x = &writer->operands[i], *y = &s->operands[k];
            if (x->use & CR_WRITES && x->buffer == y->buffer && x->low < y->high && y->low < x->high) return true;
        }
    return false;
}

/* Does a step between them write what both read?  What the first one wrote may be read there. */
static bool changed_between(const cr_plan *p, int from, int to) {
    for (int k = from + 1; k < to; k++)
        if (writes_into(&p->steps[k], &p->steps[from])) return true;
    return false;
}

/* Would what step j wrote have to wait long for step i?  So it is with activations that a checkpoint computes again. */
static bool kept_long(const cr_plan *p, int j, int i) {
    const cr_step *s = &p->steps[j];
    for (int k = 0; k < s->n_operands; k++) {
        const int buffer = s->operands[k].buffer;
        int last = i - 1;
        if (!(s->operands[k].use & CR_WRITES) || p->buffers[buffer].bytes < CR_LARGE_VALUE) continue;
        while (last > j && !cr_step_uses(&p->steps[last], buffer)) last--;
        if (i - last > CR_FAR) return true;
    }
    return false;
}

static void count_writers(const cr_plan *p, int *writers) {
    for (int i = 0; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++)
            writers[p->steps[i].operands[k].buffer] += (p->steps[i].operands[k].use & CR_WRITES) != 0;
}

/* The step before i that computes the same; -1: none. */
static int earlier(const cr_plan *p, int i, const int *writers, bool *failed) {
    const int first = i >= p->split && p->n_cotangents ? p->split : 0;         /* a backward pass may run much later */
    for (int j = i - 1; j >= first && j >= i - WINDOW; j--)
        if (p->steps[j].kernel == p->steps[i].kernel && qualifies(p, &p->steps[j], writers) &&
            same_call(p, &p->steps[j], &p->steps[i], failed))
            return changed_between(p, j, i) || kept_long(p, j, i) ? -1 : j;
    return -1;
}

cr_status cr_pass_cse(cr_plan *p) {
    int *writers = calloc((size_t)p->n_buffers + 1, sizeof *writers);
    bool failed = !writers;
    if (writers) count_writers(p, writers);
    for (int i = 1; i < p->n_steps && !failed; i++) {
        const cr_step *s = &p->steps[i];
        const int j = qualifies(p, s, writers) ? earlier(p, i, writers, &failed) : -1;
        if (j < 0) continue;
        for (int k = 0; k < s->n_operands; k++)
            if (s->operands[k].use == CR_WRITES)
                cr_plan_redirect(p, i + 1, s->operands[k].buffer, p->steps[j].operands[k].buffer);
        cr_plan_remove(p, i--);
    }
    free(writers);
    return failed ? cr_no_memory("plan") : CR_OK;
}
