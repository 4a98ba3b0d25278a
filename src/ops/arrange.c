/* arrange.c - the elements of a tensor in another arrangement, copied: flip, roll, repeat, tile,
 * repeat_interleave, pad. */
#include "compose.h"
#include "transform.h"

#include <stdlib.h>
#include <string.h>

/* ---- flip: a view backwards, copied */
cr_tensor *cr_flip(const cr_tensor *x, int n, const int64_t *axes) {
    uint32_t mask;
    cr_part parts[CR_MAX_DIMS];
    if (!cr_given("flip", "x", x) || cr_axes_mask("flip", n, axes, x->ndim, &mask) != CR_OK) return NULL;
    for (int i = 0; i < x->ndim; i++)
        parts[i] = mask >> i & 1 ? (cr_part){INT64_MAX, INT64_MIN, -1} : (cr_part){0, INT64_MAX, 1};
    cr_scope_begin();
    cr_tensor *view = cr_index(x, x->ndim, parts);
    return cr_leave(view ? cr_clone(view) : NULL);
}

/* ---- roll: y[(i + shift) mod size] = x[i] along each axis */
typedef struct roll_params { int64_t shift[CR_MAX_DIMS]; } roll_params;         /* 0 ... size - 1 */

static cr_status roll_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return CR_OK;
}

/* y = x rolled along the axes from `axis` on: each such axis is cut in two parts that are exchanged. */
static cr_status copy_rolled(cr_array y, cr_array x, const roll_params *p, int axis) {
    while (axis < y.ndim && !p->shift[axis]) axis++;
    if (axis == y.ndim) return cr_copy_array(&y, &x);
    const int64_t shift = p->shift[axis], rest = y.shape[axis] - shift;
    const cr_status status = copy_rolled(cr_array_narrowed(&y, axis, shift, rest), cr_array_narrowed(&x, axis, 0, rest),
                                         p, axis + 1);
    if (status != CR_OK) return status;
    return copy_rolled(cr_array_narrowed(&y, axis, 0, shift), cr_array_narrowed(&x, axis, rest, shift), p, axis + 1);
}

static cr_status roll_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return out->numel ? copy_rolled(out->array, c->in[0]->array, c->params, 0) : CR_OK;
}

/* y = roll(x, shift):  dx = roll(g, -shift) */
static void roll_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    roll_params p = *(const roll_params *)c->params;
    for (int i = 0; i < g->ndim; i++) if (p.shift[i]) p.shift[i] = g->shape[i] - p.shift[i];
    dx[0] = cr_apply(&cr_op_roll, 1, &g, &p);
}

static cr_tensor *roll_batch(const cr_batched *b) {
    roll_params p = {{0}};
    memcpy(p.shift + 1, ((const roll_params *)b->call->params)->shift, sizeof *p.shift * (CR_MAX_DIMS - 1));
    return cr_apply(&cr_op_roll, 1, b->in, &p);
}

const cr_op cr_op_roll = {
    .name = "roll",
    .arity = 1,
    .params_bytes = sizeof(roll_params),
    .infer = roll_infer,
    .forward = roll_forward,
    .grad = roll_grad,
    .batch = roll_batch,
    .tangent = cr_tangent_linear,
};

cr_tensor *cr_roll(const cr_tensor *x, int n, const int64_t *shifts, const int64_t *axes) {
    roll_params p = {{0}};
    if (!cr_given("roll", "x", x)) return NULL;
    if (n < 1) return cr_fail(CR_BAD_VALUE, "roll", "%d shifts: at least one is needed", n), NULL;
    if (!shifts) return cr_fail_null("roll", "shifts"), NULL;
    if (!axes) {
        if (n > 1) return cr_fail(CR_BAD_VALUE, "roll", "%d shifts: only one can be without an axis", n), NULL;
        cr_scope_begin();
        cr_tensor *flat = cr_reshape(x, CR_LIST(-1)), *y = flat ? cr_roll(flat, 1, shifts, (const int64_t[]){0}) : NULL;
        return cr_leave(y ? reshaped_like(y, x) : NULL);
    }
    if (!x->ndim) return cr_fail(CR_BAD_INDEX, "roll", "axis %lld of a 0-d tensor", (long long)axes[0]), NULL;
    for (int i = 0; i < n; i++) {
        int a = cr_axis("roll", axes[i], x->ndim);
        if (a < 0) return NULL;
        /* towards 0: of the sign of the shift */
        const int64_t size = x->shape[a], shift = size ? shifts[i] % size : 0;
        if (size) p.shift[a] = (p.shift[a] + shift + size) % size;
    }
    return cr_apply(&cr_op_roll, 1, &x, &p);
}

/* ---- repeat: an axis of size 1 before each axis that repeats, expanded, copied and merged with it */

/* y = x, `times` times along the axis: copies of x one after the other, or (each) copies of every position. */
static cr_tensor *repeat_axis(const cr_tensor *x, int axis, int64_t times, bool each) {
    int64_t before = 1, behind = 1, shape[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        shape[i] = i == axis ? x->shape[i] * times : x->shape[i];
        if (i < axis) before *= x->shape[i];
        if (i > axis) behind *= x->shape[i];
    }
    const int64_t size = x->shape[axis];
    cr_tensor *y = each ? cr_reshape(x, CR_LIST(before, size, 1, behind))
                        : cr_reshape(x, CR_LIST(before, 1, size, behind));
    if (y)
        y = each ? cr_expand(y, CR_LIST(before, size, times, behind))
                 : cr_expand(y, CR_LIST(before, times, size, behind));
    if (y) y = cr_clone(y);
    return y ? cr_view(y, x->ndim, shape) : NULL;
}

/* Axis i times[i] times: in one copy, unless that takes too many axes. */
static cr_tensor *repeat_axes(const cr_tensor *x, const int64_t *times, const int64_t *result) {
    int64_t apart[2 * CR_MAX_DIMS], spread[2 * CR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (times[i] != 1 && x->shape[i] != 1) {
            apart[n] = 1;
            spread[n++] = times[i];
        }
        apart[n] = x->shape[i];
        spread[n++] = x->shape[i] == 1 ? times[i] : x->shape[i];
    }
    cr_tensor *y = same(x);
    for (int i = x->ndim - 1; i >= 0 && y && n > CR_MAX_DIMS; i--)
        if (times[i] != 1) y = repeat_axis(y, i, times[i], false);
    if (n > CR_MAX_DIMS) return y;
    y = cr_reshape(x, n, apart);
    if (y) y = cr_expand(y, n, spread);
    if (y) y = cr_clone(y);
    return y ? cr_view(y, x->ndim, result) : NULL;
}

static cr_tensor *repeat(const char *op, const cr_tensor *x, int n, const int64_t *times) {
    int64_t shape[CR_MAX_DIMS], result[CR_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        shape[i] = i < n - x->ndim ? 1 : x->shape[i - (n - x->ndim)];
        if (times[i] < 0)
            return cr_fail(CR_BAD_VALUE, op, "a negative number of times in %s", cr_shape_text(n, times).s), NULL;
        if (__builtin_mul_overflow(shape[i], times[i], &result[i]))
            return cr_fail(CR_BAD_VALUE, op, "%s, %s times, holds too many elements", cr_shape_text(n, shape).s,
                           cr_shape_text(n, times).s),
                   NULL;
    }
    if (cr_shape_check(op, n, result, x->dtype, NULL) != CR_OK) return NULL;
    cr_scope_begin();
    cr_tensor *y = cr_reshape(x, n, shape);
    return cr_leave(y ? repeat_axes(y, times, result) : NULL);
}

static bool check_times(const char *op, const cr_tensor *x, int n, const int64_t *times) {
    if (!cr_given(op, "x", x)) return false;
    if (n < 0 || n > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, op, "%d axes: 0 to %d are supported", n, CR_MAX_DIMS), false;
    if (n && !times) return cr_fail_null(op, "times"), false;
    return true;
}

cr_tensor *cr_repeat(const cr_tensor *x, int n, const int64_t *times) {
    if (!check_times("repeat", x, n, times)) return NULL;
    if (n < x->ndim)
        return cr_fail(CR_BAD_VALUE, "repeat", "%d numbers for the axes of %s: at least %d are needed", n,
                       cr_shape_text(x->ndim, x->shape).s, x->ndim),
               NULL;
    return repeat("repeat", x, n, times);
}

cr_tensor *cr_tile(const cr_tensor *x, int n, const int64_t *times) {
    int64_t all[CR_MAX_DIMS];
    if (!check_times("tile", x, n, times)) return NULL;
    const int ndim = n > x->ndim ? n : x->ndim;
    for (int i = 0; i < ndim; i++) all[i] = i < ndim - n ? 1 : times[i - (ndim - n)];
    return repeat("tile", x, ndim, all);
}

cr_tensor *cr_repeat_interleave(const cr_tensor *x, int64_t times, int axis) {
    int64_t total;
    if (!cr_given("repeat_interleave", "x", x)) return NULL;
    int a = cr_axis("repeat_interleave", axis, x->ndim);
    if (a < 0) return NULL;
    if (times < 0)
        return cr_fail(CR_BAD_VALUE, "repeat_interleave", "a negative number of times: %lld", (long long)times), NULL;
    cr_meta m = cr_meta_of(x);
    if (!m.ndim) m.shape[m.ndim++] = 1;
    if (__builtin_mul_overflow(m.shape[a], times, &total)) total = INT64_MAX;
    m.shape[a] = total;
    if (cr_shape_check("repeat_interleave", m.ndim, m.shape, m.dtype, NULL) != CR_OK) return NULL;
    cr_scope_begin();
    const cr_tensor *line = x->ndim ? x : cr_unsqueeze(x, 0);
    return cr_leave(line ? repeat_axis(line, a, times, true) : NULL);
}

/* The position of the axis that each of the result's is a copy of; *total: how many. */
static int64_t *positions(const int64_t *counts, int64_t n, int64_t size, int64_t *total) {
    *total = 0;
    for (int64_t i = 0; i < size; i++) {
        int64_t count = counts[n == 1 ? 0 : i];
        if (count < 0)
            return cr_fail(CR_BAD_VALUE, "repeat_interleave", "a negative number of times, %lld at position %lld",
                           (long long)count, (long long)i),
                   NULL;
        if (__builtin_add_overflow(*total, count, total))
            return cr_fail(CR_BAD_VALUE, "repeat_interleave", "the result holds too many elements"), NULL;
    }
    if (cr_shape_check("repeat_interleave", 1, total, CR_I64, NULL) != CR_OK) return NULL;
    int64_t *at = malloc(sizeof *at * (size_t)(*total + 1));
    if (!at) return cr_no_memory("repeat_interleave"), NULL;
    for (int64_t i = 0, k = 0; i < size; i++)
        for (int64_t count = counts[n == 1 ? 0 : i]; count > 0; count--) at[k++] = i;
    return at;
}

static cr_tensor *positions_of(const cr_tensor *counts, int64_t size, const cr_device *dev) {
    int64_t total, *each = malloc(sizeof *each * (size_t)(counts->numel + 1));
    if (!each) return cr_no_memory("repeat_interleave"), NULL;
    cr_status status = cr_read(counts, CR_I64, each, sizeof *each * (size_t)counts->numel);
    int64_t *at = status == CR_OK ? positions(each, counts->numel, size, &total) : NULL;
    cr_tensor *index = at ? cr_from(at, CR_LIST(total), CR_I64, dev) : NULL;
    free(each);
    free(at);
    return index;
}

/* The rows of x, its positions along the axis, picked by an embedding. */
cr_tensor *cr_repeat_interleave_by(const cr_tensor *x, const cr_tensor *counts, int axis) {
    if (!cr_given("repeat_interleave", "x", x) || !cr_given("repeat_interleave", "the numbers", counts)) return NULL;
    if (cr_want_index("repeat_interleave", counts) != CR_OK) return NULL;
    int a = cr_axis("repeat_interleave", axis, x->ndim);
    if (a < 0) return NULL;
    const int64_t size = x->ndim ? x->shape[a] : 1;
    if (counts->ndim > 1 || (counts->numel != 1 && counts->numel != size))
        return cr_fail(CR_BAD_VALUE, "repeat_interleave",
                       "%s numbers for an axis of size %lld: one, or one for each position, is needed",
                       cr_shape_text(counts->ndim, counts->shape).s, (long long)size),
               NULL;
    cr_scope_begin();
    cr_tensor *index = positions_of(counts, size, x->dev),
              *front = index ? cr_transpose(x->ndim ? x : cr_unsqueeze(x, 0), 0, a) : NULL;
    if (!front) return cr_leave(NULL);
    int64_t shape[CR_MAX_DIMS], rest = 1;
    for (int i = 0; i < front->ndim; i++) {
        shape[i] = i ? front->shape[i] : index->numel;
        if (i) rest *= shape[i];
    }
    cr_tensor *rows = cr_embedding(cr_reshape(front, CR_LIST(size, rest)), index);
    return cr_leave(rows ? cr_contiguous(cr_transpose(cr_reshape(rows, front->ndim, shape), 0, a)) : NULL);
}

/* ---- pad with a number: y = value around x */
typedef struct pad_params { int64_t before[CR_MAX_DIMS], after[CR_MAX_DIMS]; double value; } pad_params;

static cr_status pad_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    const pad_params *p = c->params;
    *out = cr_meta_of(c->in[0]);
    for (int i = 0; i < out->ndim; i++)
        if (__builtin_add_overflow(out->shape[i], p->before[i], &out->shape[i]) ||
            __builtin_add_overflow(out->shape[i], p->after[i], &out->shape[i]))
            return cr_fail(CR_BAD_VALUE, "pad", "the result holds too many elements");
    return cr_shape_check("pad", out->ndim, out->shape, out->dtype, NULL);
}

/* Each element is written once: along each axis its margins, across the part that the axes before it leave. */
static cr_status pad_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const pad_params *p = c->params;
    cr_array inside = out->array;
    if (!out->numel) return CR_OK;
    for (int i = 0; i < out->ndim; i++) {
        const int64_t before = p->before[i], end = before + x->shape[i];
        const cr_array front = cr_array_narrowed(&inside, i, 0, before),
                       back = cr_array_narrowed(&inside, i, end, p->after[i]);
        cr_status status = cr_fill_array(&front, p->value);
        if (status == CR_OK) status = cr_fill_array(&back, p->value);
        if (status != CR_OK) return status;
        inside = cr_array_narrowed(&inside, i, before, x->shape[i]);
    }
    return cr_copy_array(&inside, &x->array);
}

/* y = pad(x):  dx = the middle of g */
static void pad_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const pad_params *p = c->params;
    const cr_tensor *x = c->in[0];
    cr_part parts[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) parts[i] = (cr_part){p->before[i], p->before[i] + x->shape[i], 1};
    dx[0] = cr_index(g, x->ndim, parts);
}

static cr_tensor *pad_batch(const cr_batched *b) {
    const pad_params *p = b->call->params;
    pad_params q = {.value = p->value};
    memcpy(q.before + 1, p->before, sizeof *q.before * (CR_MAX_DIMS - 1));
    memcpy(q.after + 1, p->after, sizeof *q.after * (CR_MAX_DIMS - 1));
    return cr_apply(&cr_op_pad, 1, b->in, &q);
}

static cr_tensor *pad_tangent(const cr_call *c, const cr_tensor *const *t) {
    pad_params p = *(const pad_params *)c->params;
    p.value = 0;
    return cr_apply(&cr_op_pad, 1, t, &p);
}

const cr_op cr_op_pad = {
    .name = "pad",
    .arity = 1,
    .params_bytes = sizeof(pad_params),
    .infer = pad_infer,
    .forward = pad_forward,
    .grad = pad_grad,
    .batch = pad_batch,
    .tangent = pad_tangent,
};

/* ---- pad with x's own elements: the margins of an axis are views of it */
static cr_tensor *margin(const cr_tensor *x, cr_pad_mode mode, int axis, int64_t size, bool after) {
    const int64_t last = x->shape[axis] - 1;
    if (mode == CR_PAD_CIRCULAR)
        return after ? cr_slice(x, axis, 0, size, 1) : cr_slice(x, axis, last + 1 - size, last + 1, 1);
    if (mode == CR_PAD_REFLECT)
        return after ? cr_slice(x, axis, last - 1, last - 1 - size >= 0 ? last - 1 - size : INT64_MIN, -1)
                     : cr_slice(x, axis, size, 0, -1);
    int64_t shape[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) shape[i] = i == axis ? size : x->shape[i];
    cr_tensor *edge = cr_slice(x, axis, after ? last : 0, after ? last + 1 : 1, 1);
    return edge ? cr_expand(edge, x->ndim, shape) : NULL;
}

static cr_tensor *pad_axis(const cr_tensor *x, cr_pad_mode mode, int axis, int64_t before, int64_t after) {
    const int64_t size = x->shape[axis], most = before > after ? before : after;
    const cr_tensor *in[3];
    int n = 0;
    if (mode == CR_PAD_REFLECT ? most >= size : mode == CR_PAD_CIRCULAR ? most > size : most && !size)
        return cr_fail(CR_BAD_VALUE, "pad", "%lld elements cannot be taken from axis %d of %s%s", (long long)most, axis,
                       cr_shape_text(x->ndim, x->shape).s,
                       mode == CR_PAD_REFLECT ? ": the edge itself is not repeated" : ""),
               NULL;
    if (before && !(in[n++] = margin(x, mode, axis, before, false))) return NULL;
    in[n++] = x;
    if (after && !(in[n++] = margin(x, mode, axis, after, true))) return NULL;
    return cr_cat(n, in, axis);
}

/* The part of x that negative sizes leave; those sizes become 0. */
static cr_tensor *cropped(const cr_tensor *x, pad_params *p) {
    cr_part parts[CR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        const int64_t first = p->before[i] < 0 ? p->before[i] : 0, last = p->after[i] < 0 ? p->after[i] : 0;
        if (first < -x->shape[i] || last < -x->shape[i] - first)
            return cr_fail(CR_BAD_VALUE, "pad", "%lld and %lld take more than there is from axis %d of %s",
                           (long long)first, (long long)last, i, cr_shape_text(x->ndim, x->shape).s),
                   NULL;
        parts[i] = (cr_part){-first, x->shape[i] + last, 1};
        p->before[i] -= first;
        p->after[i] -= last;
    }
    return cr_index(x, x->ndim, parts);
}

cr_tensor *cr_pad(const cr_tensor *x, int n, const int64_t *sizes, cr_pad_mode mode, double value) {
    pad_params p = {.value = value};
    char element[8];
    bool crops = false;
    if (!cr_given("pad", "x", x)) return NULL;
    if (n < 0 || n % 2 || n > 2 * x->ndim)
        return cr_fail(CR_BAD_VALUE, "pad", "%d sizes for %s: two for each axis, from the last one on, are expected", n,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    if (n && !sizes) return cr_fail_null("pad", "sizes"), NULL;
    if ((unsigned)mode > CR_PAD_CIRCULAR) return cr_fail(CR_BAD_VALUE, "pad", "%d is not a mode", (int)mode), NULL;
    if (mode == CR_PAD_CONSTANT && cr_element("pad", value, x->dtype, element) != CR_OK) return NULL;
    for (int i = 0; i < n; i++) {
        (i % 2 ? p.after : p.before)[x->ndim - 1 - i / 2] = sizes[i];
        crops |= sizes[i] < 0;
    }
    const bool last = mode == CR_PAD_REFLECT || mode == CR_PAD_REPLICATE;     /* a margin may show what is cropped */
    cr_scope_begin();
    const cr_tensor *y = crops && !last ? cropped(x, &p) : x;
    if (mode == CR_PAD_CONSTANT) return cr_leave(y ? cr_apply(&cr_op_pad, 1, &y, &p) : NULL);
    for (int i = x->ndim - 1; i >= 0 && y; i--)
        if (p.before[i] > 0 || p.after[i] > 0)
            y = pad_axis(y, mode, i, cr_imax(p.before[i], 0), cr_imax(p.after[i], 0));
    if (crops && last && y) y = cropped(y, &p);
    return cr_leave(y == x ? cr_clone(x) : (cr_tensor *)(uintptr_t)y);
}
