/* indices.c - kernels that may fail because of what tensors hold: an index out of range, an integer divided by zero.
 *
 * Where an index comes from outside the step, a run looks at it before anything else, on devices of the host: it then
 * does nothing, and the step itself raises the error.  Another such kernel stays in the plan even if
 * nothing uses its results. */
#include "plan.h"
#include "../core/out.h"

#include <stdlib.h>

/* An index of a kernel, and the sizes that it points into. */
typedef struct index_of { const char *op; cr_array array; int64_t size; bool wrap, ignores; int64_t ignore; } index_of;

static bool is_index(cr_dtype dt) { return dt == CR_I32 || dt == CR_I64; }

static int one(index_of *to, const char *op, const cr_array *index, int64_t size, bool wrap) {
    *to = (index_of){.op = op, .array = *index, .size = size, .wrap = wrap};
    return 1;
}

static int targets(index_of *to, const cr_array *target, const cr_array *x, int64_t ignore) {
    *to = (index_of){.op = "cross_entropy", .array = *target, .size = x->shape[x->ndim - 1], .ignores = true,
                     .ignore = ignore};
    return 1;
}

static int index_list(const cr_step *s, index_of *list) {
    const void *args = s->args;
    const cr_gather_args *gather = args;
    const cr_scatter_args *scatter = args;
    const cr_scatter_extreme_args *extreme = args;
    const cr_take_rows_args *take = args;
    const cr_put_rows_args *put = args;
    const cr_ravel_args *ravel = args;
    const cr_cross_entropy_args *entropy = args;
    const cr_cross_entropy_bwd_args *back = args;
    switch (s->kernel) {
    case CR_KERNEL_gather: return one(list, "gather", &gather->index, gather->x.shape[1], false);
    case CR_KERNEL_scatter: return one(list, "scatter", &scatter->index, scatter->y.shape[1], false);
    case CR_KERNEL_scatter_extreme: return one(list, "scatter", &extreme->index, extreme->y.shape[1], false);
    case CR_KERNEL_take_rows: return one(list, take->op, &take->index, take->x.shape[1], take->wrap);
    case CR_KERNEL_put_rows: return one(list, put->op, &put->index, put->x.shape[1], put->wrap);
    case CR_KERNEL_ravel:
        for (int i = 0; i < ravel->n; i++) one(&list[i], ravel->op, ravel->index[i], ravel->sizes[i], true);
        return ravel->n;
    case CR_KERNEL_cross_entropy: return targets(list, &entropy->target, &entropy->x, entropy->ignore);
    case CR_KERNEL_cross_entropy_bwd: return targets(list, &back->target, &back->x, back->ignore);
    default: return 0;
    }
}

static bool divides(const cr_step *s) {
    if (s->kernel != CR_KERNEL_elementwise || !cr_step_walks(s)->count) return false;
    const cr_walk *w = cr_step_walks(s)->walks;
    bool any = false;
    for (int k = 0; k < w->program->n_instr; k++) any |= cr_opcode_divides(w->program->instr[k].op);
    return any && !cr_dtype_is_float(w->compute) && w->compute != CR_BOOL;
}

static int number_of(const cr_array *a) { return (int)(intptr_t)a->storage - 1; }

/* The only step before `end` that writes this buffer; -1: none; -2: several. */
static int writer(const cr_plan *p, int buffer, int end) {
    int found = -1;
    for (int i = 0; i < end; i++)
        for (int k = 0; k < p->steps[i].n_operands; k++) {
            const cr_operand *o = &p->steps[i].operands[k];
            if (o->buffer == buffer && o->use & CR_WRITES) found = found == -1 ? i : -2;
        }
    return found;
}

static bool from_outside(const cr_plan *p, int buffer) {
    const cr_buffer *b = &p->buffers[buffer];
    return b->dev->host && (b->kind == CR_BUFFER_INPUT || b->kind == CR_BUFFER_OUTSIDE);
}

/* The index, or what it is a copy of, as it was before the step; false: the step computes it. */
static bool before_step(const cr_plan *p, cr_array *index, int end) {
    const int at = writer(p, number_of(index), end);
    if (at == -1) return from_outside(p, number_of(index));
    const cr_step *s = at >= 0 ? &p->steps[at] : NULL;
    if (!s || s->kind != CR_STEP_KERNEL || s->kernel != CR_KERNEL_copy) return false;
    const cr_copy_args *copy = (const void *)s->args;
    if (copy->dst.numel != index->numel || copy->dst.offset != index->offset) return false;
    if (!is_index(copy->src.dtype)) return false;
    if (writer(p, number_of(&copy->src), at) != -1 || !from_outside(p, number_of(&copy->src))) return false;
    *index = copy->src;
    return true;
}

static bool is_constant(const cr_plan *p, const cr_array *index, int end) {
    return p->buffers[number_of(index)].kind == CR_BUFFER_CONSTANT && writer(p, number_of(index), end) == -1;
}

static bool add_check(cr_plan *p, const index_of *x) {
    for (int i = 0; i < p->n_checks; i++) {
        const cr_index_check *c = &p->checks[i];
        if (cr_same_memory(&c->index, &x->array) && c->size == x->size && c->low == (x->wrap ? -x->size : 0) &&
            c->ignores == x->ignores && c->ignore == x->ignore)
            return true;
    }
    if (!cr_grow(&p->checks, p->n_checks + 1, &p->check_room, sizeof *p->checks)) return false;
    p->checks[p->n_checks++] =
        (cr_index_check){.op = x->op, .index = x->array, .size = x->size, .low = x->wrap ? -x->size : 0,
                         .ignores = x->ignores, .ignore = x->ignore};
    return true;
}

cr_status cr_plan_find_indices(cr_plan *p) {
    index_of list[CR_MAX_DIMS];
    for (int i = 0; i < p->n_steps; i++) {
        cr_step *s = &p->steps[i];
        if (s->kind != CR_STEP_KERNEL) continue;
        s->may_fail = divides(s);
        const int n = index_list(s, list);
        for (int k = 0; k < n; k++) {
            if (is_constant(p, &list[k].array, i)) continue;
            if (!before_step(p, &list[k].array, i)) s->may_fail = true;
            else if (!add_check(p, &list[k])) return cr_no_memory("plan");
        }
    }
    return CR_OK;
}

/* ---- before a run */
static const char *bytes_of(const cr_plan *p, const cr_index_check *c, const cr_tensor *const *in) {
    const int buffer = number_of(&c->index);
    const cr_buffer *b = &p->buffers[buffer];
    const int64_t size = (int64_t)cr_dtype_size(c->index.dtype);
    if (b->kind != CR_BUFFER_INPUT) return (const char *)b->storage->data + c->index.offset * size;
    int i = 0;
    while (p->inputs[i].buffer != buffer) i++;
    const int64_t moved = (in[i]->offset - p->inputs[i].array.offset) * (int64_t)cr_dtype_size(in[i]->dtype);
    return (const char *)in[i]->storage->data + c->index.offset * size + moved;
}

static cr_status check_one(const cr_index_check *c, const char *at) {
    const cr_array *a = &c->index;
    int64_t coord[CR_MAX_DIMS] = {0}, offset = 0;
    for (int64_t n = 0; n < a->numel; n++) {
        const int64_t i = a->dtype == CR_I64 ? ((const int64_t *)(const void *)at)[offset]
                                             : ((const int32_t *)(const void *)at)[offset];
        if ((i < c->low || i >= c->size) && !(c->ignores && i == c->ignore))
            return cr_fail(CR_BAD_INDEX, c->op, "index %lld at position %lld is out of range for size %lld",
                           (long long)i, (long long)n, (long long)c->size);
        for (int k = a->ndim - 1; k >= 0; k--) {
            offset += a->strides[k];
            if (++coord[k] < a->shape[k]) break;
            offset -= a->strides[k] * a->shape[k];
            coord[k] = 0;
        }
    }
    return CR_OK;
}

cr_status cr_indices_hold(const cr_plan *p, const cr_tensor *const *in) {
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_checks && status == CR_OK; i++)
        status = check_one(&p->checks[i], bytes_of(p, &p->checks[i], in));
    return status;
}
