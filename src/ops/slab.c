/* slab.c - a tensor as the reduction kernels see it: (M, R, N), R reduced, at any three strides.
 *
 * Axes are taken in the order of memory, so a transposed tensor needs no copy.  Reduced axes that are
 * apart are reduced one group after the other, the innermost first.  Only a layout that three strides
 * cannot describe is copied.  Not an op: nothing here is recorded. */
#include "reduce.h"

#include <string.h>

typedef struct group { bool reduced; int64_t size, stride; } group;      /* axes that lie together */
typedef struct layout {
    int n; group g[CR_MAX_DIMS + 1];                /* from the largest stride to the smallest; without axes of size
                                                     * 1 */
    /* the axes that stay, in that order: sizes, and strides in the result */
    int kept; int64_t shape[CR_MAX_DIMS], strides_to[CR_MAX_DIMS];
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
    int64_t step_of[CR_MAX_DIMS], step = 1, last = INT64_MAX;
    int axes[CR_MAX_DIMS];
    for (int i = x->ndim - 1; i >= 0; i--) {
        step_of[i] = step;
        if (!(mask >> i & 1)) step *= x->shape[i];
    }
    const int n = cr_axes_by_step(x->ndim, x->shape, x->strides, axes);
    for (int k = 0; k < n; k++) {
        int i = axes[k];
        bool reduced = mask >> i & 1;
        l.g[l.n++] = (group){reduced, x->shape[i], x->strides[i]};
        if (reduced) continue;
        if (step_of[i] > last) l.in_order = false;
        last = step_of[i];
        l.strides_to[l.kept] = step_of[i];
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

/* Group k as R, the groups before it as M, those after it as N; false where that takes more strides. */
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

/* x copied so that its groups follow each other; `apart`: the groups that stay first. */
static cr_tensor *packed(const cr_array *x, layout *l, bool apart) {
    const layout from = *l;
    cr_meta m = {.dtype = x->dtype};
    int64_t strides[CR_MAX_DIMS];
    l->n = 0;
    for (int pass = 0; pass <= apart; pass++)
        for (int i = 0; i < from.n; i++) {
            if (apart && from.g[i].reduced != pass) continue;
            l->g[l->n++] = from.g[i];
            strides[m.ndim] = from.g[i].stride;
            m.shape[m.ndim++] = from.g[i].size;
        }
    pack_layout(l);
    const cr_array groups = cr_array_strided(x, m.ndim, m.shape, strides, x->offset);
    cr_tensor *y = cr_new_like(&m, x->dev);
    if (!y || cr_copy_array(&y->array, &groups) == CR_OK) return y;
    cr_release(y);
    return NULL;
}

/* Results in the order of x's memory into y, which is in the order of its axes. */
static cr_status put_in_order(cr_tensor *y, const cr_tensor *results, const layout *l) {
    const cr_array to = cr_array_strided(&y->array, l->kept, l->shape, l->strides_to, y->offset);
    const cr_array from = cr_array_as(&results->array, l->kept, l->shape);
    return cr_copy_array(&to, &from);
}

/* The usual case: x (M, R, N) in order as it is. */
static bool plain(const cr_tensor *x, uint32_t mask, cr_slab *at) {
    int64_t size[3] = {1, 1, 1};
    int phase = 0;                                  /* 0: before the reduced axes, 1: among them, 2: after them */
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

/* at: contiguous where strides is NULL. */
static cr_status reduce_slab(const job *j, cr_tensor *y, const cr_array *x, const cr_slab *at, const int64_t *strides) {
    const cr_kernels *k = x->dev->kernels;
    const int64_t shape[] = {at->M, at->R, at->N};
    cr_reduce_args args;
    args.y = cr_array_as(&y->array, CR_LIST(at->M, at->N));
    args.x = strides ? cr_array_strided(x, 3, shape, strides, x->offset) : cr_array_as(x, 3, shape);
    if (!j->how) return k->arg_reduce(&(cr_arg_reduce_args){args.y, args.x, j->max});
    args.how = *j->how;
    return k->reduce(&args);
}

/* The elements that are left to reduce.  copy: owns x's storage, where x is not the caller's. */
typedef struct source { cr_array x; cr_tensor *copy; } source;

static void replace(source *from, cr_tensor *copy) {
    cr_release(from->copy);
    from->copy = copy;
    if (copy) from->x = copy->array;
}

/* Reduces the last reduced group into y, or into a new tensor, which becomes the source. */
static cr_status reduce_group(const job *j, cr_tensor *y, source *from, layout *l) {
    int k = 0, groups = reduced_groups(l, &k);
    cr_slab at;
    if (!slab_around(l, k, &at)) {
        replace(from, packed(&from->x, l, false));
        if (!from->copy) return cr_error_status();
        groups = reduced_groups(l, &k);
        slab_around(l, k, &at);
    }
    const bool last = groups == 1, direct = last && l->in_order;
    const cr_meta m = {.dtype = last ? y->dtype : wide_dtype(y), .ndim = 1, .shape = {at.M * at.N}};
    cr_tensor *to = direct ? y : cr_new_like(&m, y->dev);
    cr_status status = to ? reduce_slab(j, to, &from->x, &at, at.strides) : cr_error_status();
    if (status == CR_OK && last && !direct) status = put_in_order(y, to, l);
    replace(from, direct ? NULL : to);
    memmove(&l->g[k], &l->g[k + 1], sizeof(group) * (size_t)(l->n - 1 - k));
    l->n--;
    pack_layout(l);
    return status;
}

static cr_status reduce_any(const job *j, cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    cr_slab at;
    int k;
    if (!y->numel) return CR_OK;
    if (plain(x, mask, &at)) return reduce_slab(j, y, &x->array, &at, NULL);
    if (!x->numel) return reduce_slab(j, y, &x->array, &(cr_slab){y->numel, 0, 1, {0, 0, 0}}, NULL);
    layout l = layout_of(x, mask);
    if (!reduced_groups(&l, &k)) l.g[l.n++] = (group){true, 1, 1};
    source from = {.x = x->array};
    /* not a sum of sums: one group */
    if (j->how && j->how->map == CR_MAP_DEVIATION && reduced_groups(&l, &k) > 1) {
        replace(&from, packed(&x->array, &l, true));
        if (!from.copy) return cr_error_status();
    }
    cr_status status = CR_OK;
    cr_reduce_how rest = j->how ? *j->how : (cr_reduce_how){0};
    rest.map = CR_MAP_SAME;                         /* the first reduction maps the elements */
    for (job now = *j; status == CR_OK && reduced_groups(&l, &k);) {
        status = reduce_group(&now, y, &from, &l);
        if (now.how) now.how = &rest;
    }
    cr_release(from.copy);
    return status;
}

cr_status cr_reduce_axes(const cr_reduce_how *how, cr_tensor *y, const cr_tensor *x, uint32_t mask) {
    return reduce_any(&(job){.how = how}, y, x, mask);
}

cr_status cr_arg_reduce_axis(bool max, cr_tensor *y, const cr_tensor *x, int axis) {
    return reduce_any(&(job){.max = max}, y, x, x->ndim ? 1u << axis : 0);
}
