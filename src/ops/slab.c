/* slab.c - how a kernel of reductions sees a tensor: as (M, R, N), R reduced, wherever the elements lie.
 *
 * The axes are taken in the order of memory, so that a transposed tensor needs no copy; reduced axes that are apart are reduced one group
 * after the other, the innermost first; only what cannot be told by three strides is copied.  Not an op: nothing here is recorded. */
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

typedef struct group { bool reduced; int64_t size, stride; } group;      /* axes that lie together */
typedef struct layout {
    int n; group g[CR_MAX_DIMS + 1];                /* from the largest stride to the smallest; without axes of size 1 */
    int kept; int64_t shape[CR_MAX_DIMS], places[CR_MAX_DIMS];     /* the axes that stay, in that order: sizes, and strides in the result */
    bool in_order;                                  /* that is the result's own order */
} layout;

/* Neighbours of one kind that lie together become one group. */
static void merge(layout *l) {
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        group *before = n ? &l->g[n - 1] : NULL, g = l->g[i];
        if (before && before->reduced == g.reduced && before->stride == g.stride * g.size) {
            before->size *= g.size;
            before->stride = g.stride;
        } else {
            l->g[n++] = g;
        }
    }
    l->n = n;
}

static layout layout_of(const cr_tensor *x, uint32_t mask) {
    layout l = {.in_order = true};
    int64_t place[CR_MAX_DIMS], step = 1, last = INT64_MAX;
    int axes[CR_MAX_DIMS], n = 0;
    for (int i = x->ndim - 1; i >= 0; i--) {
        place[i] = step;
        if (!(mask >> i & 1)) step *= x->shape[i];
    }
    for (int i = 0; i < x->ndim; i++) {             /* insertion keeps the order of equal strides */
        if (x->shape[i] == 1) continue;
        int k = n++;
        for (; k > 0 && llabs(x->strides[axes[k - 1]]) < llabs(x->strides[i]); k--) axes[k] = axes[k - 1];
        axes[k] = i;
    }
    for (int k = 0; k < n; k++) {
        int i = axes[k];
        bool reduced = mask >> i & 1;
        l.g[l.n++] = (group){reduced, x->shape[i], x->strides[i]};
        if (reduced) continue;
        if (place[i] > last) l.in_order = false;
        last = place[i];
        l.places[l.kept] = place[i];
        l.shape[l.kept++] = x->shape[i];
    }
    merge(&l);
    return l;
}

static int reduced_groups(const layout *l, int *last) {
    int n = 0;
    for (int i = 0; i < l->n; i++) if (l->g[i].reduced) { n++; *last = i; }
    return n;
}

/* Group k as R, what is outside of it as M, inside as N; false where that takes more strides. */
static bool slab_around(const layout *l, int k, cr_slab *at) {
    *at = (cr_slab){.M = 1, .R = l->g[k].size, .N = 1, .strides = {0, l->g[k].stride, 1}};
    if (l->n - 1 - k > 1) return false;
    if (k + 1 < l->n) { at->N = l->g[k + 1].size; at->strides[2] = l->g[k + 1].stride; }
    for (int i = 0; i < k; i++) {
        if (i && l->g[i - 1].stride != l->g[i].stride * l->g[i].size) return false;
        at->M *= l->g[i].size;
        at->strides[0] = l->g[i].stride;
    }
    return true;
}

/* The layout of a contiguous tensor with these groups. */
static void pack_layout(layout *l) {
    int64_t step = 1;
    for (int i = l->n - 1; i >= 0; i--) {
        l->g[i].stride = step;
        step *= l->g[i].size;
    }
    merge(l);
}

/* x copied so that its groups follow each other; `apart`: those that stay first. */
static cr_tensor *packed(const cr_tensor *x, layout *l, bool apart) {
    layout from = *l;
    cr_meta m = {.dtype = x->dtype, .offset = x->offset, .strided = true};
    l->n = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < from.n; i++) {
            if (apart ? from.g[i].reduced != turn : turn) continue;
            l->g[l->n++] = from.g[i];
            m.shape[m.ndim] = from.g[i].size;
            m.strides[m.ndim++] = from.g[i].stride;
        }
    cr_tensor *order = cr_tensor_alias(x, &m), *y = order ? cr_packed(order) : NULL;
    cr_release(order);
    pack_layout(l);
    return y;
}

/* Results in the order of x's memory into y, which is in the order of its axes. */
static cr_status put_in_order(cr_tensor *y, const cr_tensor *results, const layout *l) {
    cr_meta m = {.dtype = y->dtype, .ndim = l->kept, .offset = y->offset, .strided = true};
    memcpy(m.shape, l->shape, sizeof m.shape);
    memcpy(m.strides, l->places, sizeof m.strides);
    cr_tensor *to = cr_tensor_alias(y, &m), *from = to ? cr_shaped(results, l->kept, l->shape) : NULL;
    cr_status status = from ? cr_copy_elements(to, from) : cr_error_status();
    cr_release(to); cr_release(from);
    return status;
}

/* The usual case: x (M, R, N) in order as it is. */
static bool plain(const cr_tensor *x, uint32_t mask, cr_slab *at) {
    int64_t size[3] = {1, 1, 1};
    int phase = 0;                                  /* 0: before the reduced axes, 1: among them, 2: behind */
    if (!x->contiguous) return false;
    for (int i = 0; i < x->ndim; i++) {
        bool reduced = mask >> i & 1;
        if (x->shape[i] == 1) continue;
        if (reduced && phase == 2) return false;
        if (reduced) phase = 1;
        else if (phase == 1) phase = 2;
        size[phase] *= x->shape[i];
    }
    *at = (cr_slab){size[0], size[1], size[2], {size[1] * size[2], size[2], 1}};
    return true;
}

typedef struct job { const cr_reduce_how *how; bool max; } job;      /* how NULL: an arg-reduction */

static cr_status run(const job *j, cr_tensor *y, const cr_tensor *x, const cr_slab *at) {
    const cr_kernels *k = x->dev->kernels;
    cr_array from = x->array, to = cr_array_as(&y->array, CR_LIST(at->M, at->N));
    from.ndim = 3;
    from.contiguous = false;
    const int64_t shape[] = {at->M, at->R, at->N};
    memcpy(from.shape, shape, sizeof shape);
    memcpy(from.strides, at->strides, sizeof at->strides);
    return j->how ? k->reduce(&(cr_reduce_args){to, from, *j->how}) : k->arg_reduce(&(cr_arg_reduce_args){to, from, j->max});
}

/* Reduces the last reduced group of *x into a new tensor, which becomes *x, or into y. */
static cr_status reduce_group(const job *j, cr_tensor *y, cr_tensor **x, layout *l) {
    int k = 0, groups = reduced_groups(l, &k);
    cr_slab at;
    if (!slab_around(l, k, &at)) {
        cr_tensor *dense = packed(*x, l, false);
        cr_release(*x);
        if (!(*x = dense)) return cr_error_status();
        groups = reduced_groups(l, &k);
        slab_around(l, k, &at);
    }
    bool last = groups == 1, direct = last && l->in_order;
    cr_meta m = {.dtype = last ? y->dtype : wide_dtype(y), .ndim = 1, .shape = {at.M * at.N}};
    cr_tensor *to = direct ? cr_tensor_alias(y, NULL) : cr_new_like(&m, y->dev);
    cr_status status = to ? run(j, to, *x, &at) : cr_error_status();
    if (status == CR_OK && last && !direct) status = put_in_order(y, to, l);
    cr_release(*x);
    *x = to;
    memmove(&l->g[k], &l->g[k + 1], sizeof(group) * (size_t)(l->n - 1 - k));
    l->n--;
    pack_layout(l);
    return status;
}

static cr_status reduce_any(const job *j, cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    cr_slab at;
    int k;
    if (!y->numel) return CR_OK;
    if (plain(x, mask, &at)) return run(j, y, x, &at);
    if (!x->numel) return run(j, y, x, &(cr_slab){y->numel, 0, 1, {0, 0, 0}});
    layout l = layout_of(x, mask);
    if (!reduced_groups(&l, &k)) l.g[l.n++] = (group){true, 1, 1};
    const bool at_once = j->how && j->how->map == CR_MAP_DEVIATION && reduced_groups(&l, &k) > 1;      /* not a sum of sums */
    cr_tensor *from = at_once ? packed(x, &l, true) : cr_tensor_alias(x, NULL);
    if (!from) return cr_error_status();
    cr_status status = CR_OK;
    cr_reduce_how rest = j->how ? *j->how : (cr_reduce_how){0};
    for (job now = *j; status == CR_OK && reduced_groups(&l, &k);) {
        status = reduce_group(&now, y, &from, &l);
        rest.map = CR_MAP_SAME;                     /* what it did to each element is done */
        if (now.how) now.how = &rest;
    }
    cr_release(from);
    return status;
}

cr_status cr_reduce_axes(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    return reduce_any(&(job){.how = how}, y, x, mask);
}

cr_status cr_arg_reduce_axis(bool max, cr_tensor *y, const cr_tensor *x, int axis) {
    return reduce_any(&(job){.max = max}, y, x, x->ndim ? 1u << axis : 0);
}
