/* transform.c - levels of vmap and forward mode, their tensors, and ops over them. */
#include "compose.h"
#include "transform.h"

#include <stdlib.h>
#include <string.h>

/* ---- levels */
typedef struct level { uint64_t id; bool batch; int64_t size; cr_randomness random; } level;

static _Thread_local level levels[CR_MAX_LEVELS];
static _Thread_local int depth;
static _Atomic uint64_t next_level = 1;

static uint64_t begin(level l) {
    static const char op[] = "transform";
    if (depth == CR_MAX_LEVELS) return cr_fail(CR_RUNTIME, op, "more than %d levels", CR_MAX_LEVELS), 0;
    l.id = atomic_fetch_add(&next_level, 1);
    levels[depth++] = l;
    return l.id;
}

uint64_t cr_vmap_begin(int64_t size, cr_randomness random) {
    if (size < 1) return cr_fail(CR_BAD_VALUE, "vmap", "the mapped axis has %lld elements", (long long)size), 0;
    return begin((level){.batch = true, .size = size, .random = random});
}

uint64_t cr_jvp_begin(void) { return begin((level){.batch = false}); }

cr_status cr_transform_end(uint64_t id) {
    if (!depth || levels[depth - 1].id != id)
        return cr_fail(CR_RUNTIME, "transform", "level %llu is not the innermost of this thread",
                       (unsigned long long)id);
    depth--;
    return CR_OK;
}

int cr_transform_depth(void) { return depth; }

static const level *find(uint64_t id) {
    for (int i = 0; i < depth; i++)
        if (levels[i].id == id) return &levels[i];
    return NULL;
}

static uint64_t level_of(const cr_tensor *t) { return cr_wrapped(t) ? t->wrapper->level : 0; }
uint64_t cr_level_of(const cr_tensor *t) { return cr_given("level_of", "the tensor", t) ? level_of(t) : 0; }
static bool is_batch(const cr_tensor *t) { return !t->wrapper->tangent; }

static const level *used_level(const char *op, uint64_t id) {
    const level *l = find(id);
    if (!l)
        cr_fail(CR_RUNTIME, op, "a tensor of a vmap or jvp that has ended, or of another thread's, cannot be used: "
                                "return it from the function");
    return l;
}

bool cr_any_wrapped(int n, const cr_tensor *const *in) {
    for (int i = 0; i < n; i++)
        if (cr_wrapped(in[i])) return true;
    return false;
}

cr_status cr_want_values(const char *op, const cr_tensor *t) {
    while (t && cr_wrapped(t) && !is_batch(t)) t = t->wrapper->value;
    return cr_want_elements(op, t);
}

cr_status cr_want_elements(const char *op, const cr_tensor *t) {
    if (!t || !cr_wrapped(t)) return CR_OK;
    if (is_batch(t))
        return cr_fail(CR_RUNTIME, op, "needs the elements of a tensor inside vmap, %s for each of %lld samples: "
                                       "a function of vmap cannot depend on values (use where)",
                       cr_shape_text(t->ndim, t->shape).s, (long long)t->wrapper->value->shape[0]);
    return cr_fail(CR_RUNTIME, op, "has no rule for forward mode, or a tensor of jvp has no elements of its own");
}

/* ---- into and out of a level */
static cr_tensor *move_axis(const cr_tensor *x, int from, int to) {
    if (!x || from == to) return same(x);
    return cr_movedim(x, 1, (int64_t[]){from}, (int64_t[]){to});
}

static cr_tensor *expanded(const cr_tensor *x, int64_t size) {
    int64_t shape[CR_MAX_DIMS] = {size};
    if (!x) return NULL;
    if (x->ndim == CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "vmap", "%s and the mapped axis: %d axes are the most supported",
                       cr_shape_text(x->ndim, x->shape).s, CR_MAX_DIMS), NULL;
    memcpy(shape + 1, x->shape, sizeof *shape * (size_t)x->ndim);
    return cr_expand(x, x->ndim + 1, shape);
}

cr_tensor *cr_vmap_enter(const cr_tensor *x, int axis, uint64_t id) {
    if (!cr_given("vmap", "x", x)) return NULL;
    const level *l = used_level("vmap", id);
    if (!l) return NULL;
    if (!x->ndim) return cr_fail(CR_BAD_VALUE, "vmap", "a 0-d tensor has no axis to map"), NULL;
    const int a = cr_axis("vmap", axis, x->ndim);
    if (a < 0) return NULL;
    if (x->shape[a] != l->size)
        return cr_fail(CR_BAD_VALUE, "vmap", "axis %d of %s is mapped, and others of size %lld", a,
                       cr_shape_text(x->ndim, x->shape).s, (long long)l->size), NULL;
    cr_scope_begin();
    return cr_leave(cr_wrap(id, move_axis(x, a, 0), NULL));
}

static cr_tensor *batch_at(const cr_tensor *x, uint64_t id, int64_t size);

cr_tensor *cr_vmap_leave(const cr_tensor *y, int axis, uint64_t id) {
    if (!cr_given("vmap", "a result", y)) return NULL;
    const level *l = used_level("vmap", id);
    if (!l) return NULL;
    const int a = cr_axis("vmap", axis, y->ndim + 1);
    if (a < 0) return NULL;
    cr_scope_begin();
    cr_tensor *value = batch_at(y, id, l->size);
    return cr_leave(value ? cr_alias(move_axis(value, 0, a)) : NULL);
}

bool cr_vmap_has(const cr_tensor *y, uint64_t id) {
    for (; y && cr_wrapped(y); y = y->wrapper->value)
        if (y->wrapper->level == id) return true;
    return false;
}

cr_tensor *cr_jvp_enter(const cr_tensor *x, const cr_tensor *t, uint64_t id) {
    static const char op[] = "jvp";
    if (!cr_given(op, "x", x) || !cr_given(op, "the tangent", t) || !used_level(op, id)) return NULL;
    if (!cr_dtype_is_float(x->dtype))
        return cr_fail(CR_BAD_TYPE, op, "only floats have a tangent: %s", cr_dtype_name(x->dtype)), NULL;
    if (!cr_shape_equal(x->ndim, x->shape, t->ndim, t->shape) || x->dtype != t->dtype || x->dev != t->dev)
        return cr_fail(CR_BAD_VALUE, op, "the tangent is %s %s on %s, the input %s %s on %s", cr_dtype_name(t->dtype),
                       cr_shape_text(t->ndim, t->shape).s, t->dev->name, cr_dtype_name(x->dtype),
                       cr_shape_text(x->ndim, x->shape).s, x->dev->name), NULL;
    return cr_wrap(id, x, t);
}

/* Both of a dual tensor exist, or it does not. */
static cr_tensor *dual(uint64_t id, const cr_tensor *x, const cr_tensor *t) {
    return x && t ? cr_wrap(id, x, t) : NULL;
}

/* ---- a level below others
 *
 * Of batch(3, dual(2, p, t)) the primal at 2 is batch(3, p).  Therefore these go through the outer wrappers to their
 * level and put the wrappers back around what they find. */

/* x without level id: its batch is axis 0. */
static cr_tensor *batch_at(const cr_tensor *x, uint64_t id, int64_t size) {
    if (!x) return NULL;
    if (level_of(x) < id) return expanded(x, size);
    const cr_wrapper *w = x->wrapper;
    if (w->level == id) return same(w->value);
    if (w->tangent) return dual(w->level, batch_at(w->value, id, size), batch_at(w->tangent, id, size));
    return cr_wrap(w->level, move_axis(batch_at(w->value, id, size), 1, 0), NULL);
}

/* Undoes it. */
static cr_tensor *batch_again(const cr_tensor *x, uint64_t id) {
    if (!x) return NULL;
    if (level_of(x) < id) return cr_wrap(id, x, NULL);
    const cr_wrapper *w = x->wrapper;
    if (w->tangent) return dual(w->level, batch_again(w->value, id), batch_again(w->tangent, id));
    return cr_wrap(w->level, batch_again(move_axis(w->value, 1, 0), id), NULL);
}

/* The primal, or the tangent, of x at level id; CR_NONE: no tangent. */
static cr_tensor *part_at(const cr_tensor *x, uint64_t id, bool tangent) {
    if (!x) return NULL;
    if (level_of(x) < id) return tangent ? same(CR_NONE) : same(x);
    const cr_wrapper *w = x->wrapper;
    if (w->level == id) return same(tangent ? w->tangent : w->value);
    cr_tensor *value = part_at(w->value, id, tangent);
    if (!value || value == CR_NONE || !w->tangent) return !value || value == CR_NONE ? value
                                                                                  : cr_wrap(w->level, value, NULL);
    cr_tensor *t = part_at(w->tangent, id, tangent);
    return dual(w->level, value, t == CR_NONE ? cr_zeros_like(value) : t);
}

/* Undoes it: a tensor and its tangent at level id, below the wrappers of both. */
static cr_tensor *dual_again(const cr_tensor *x, const cr_tensor *t, uint64_t id) {
    if (!x || !t) return NULL;
    const uint64_t top = level_of(x) > level_of(t) ? level_of(x) : level_of(t);
    if (top < id) return cr_wrap(id, x, t);
    const cr_tensor *lead = level_of(x) == top ? x : t;
    if (is_batch(lead)) {
        const int64_t size = lead->wrapper->value->shape[0];
        return cr_wrap(top, dual_again(batch_at(x, top, size), batch_at(t, top, size), id), NULL);
    }
    cr_tensor *xt = part_at(x, top, true), *tt = part_at(t, top, true), *xp = part_at(x, top, false),
              *tp = part_at(t, top, false);
    if (xt == CR_NONE) xt = cr_zeros_like(xp);
    if (tt == CR_NONE) tt = cr_zeros_like(tp);
    return dual(top, dual_again(xp, tp, id), dual_again(xt, tt, id));
}

cr_tensor *cr_jvp_leave(const cr_tensor *y, uint64_t id, cr_tensor **tangent) {
    static const char op[] = "jvp";
    if (tangent) *tangent = NULL;
    if (!cr_given(op, "a result", y) || !used_level(op, id)) return NULL;
    cr_scope_begin();
    cr_tensor *value = part_at(y, id, false), *t = part_at(y, id, true);
    if (t == CR_NONE) t = cr_zeros_like(value);
    cr_tensor *kept = value && t ? cr_alias(value) : NULL, *kept_t = kept ? cr_alias(t) : NULL;
    if (kept_t && tangent) *tangent = cr_keep(kept_t);
    return cr_leave(kept_t ? kept : NULL);
}

cr_tensor *cr_batch_at(const cr_tensor *x, uint64_t id) {
    const level *l = used_level("vmap", id);
    return l ? batch_at(x, id, l->size) : NULL;
}
cr_tensor *cr_batch_again(const cr_tensor *x, uint64_t id) { return batch_again(x, id); }
cr_tensor *cr_part_at(const cr_tensor *x, uint64_t id, bool tangent) { return part_at(x, id, tangent); }
cr_tensor *cr_dual_again(const cr_tensor *x, const cr_tensor *t, uint64_t id) { return dual_again(x, t, id); }
bool cr_level_is_batch(uint64_t id) {
    const level *l = find(id);
    return l && l->batch;
}

/* x as a batch of every vmap around, from the outermost on. */
static cr_tensor *batched_below(const cr_tensor *x, int n) {
    for (; n > 0 && !levels[n - 1].batch; n--)
        if (level_of(x) == levels[n - 1].id) {
            const cr_wrapper *w = x->wrapper;
            return dual(w->level, batched_below(w->value, n - 1), batched_below(w->tangent, n - 1));
        }
    if (!n) return same(x);
    const level *l = &levels[n - 1];
    if (level_of(x) == l->id) return cr_wrap(l->id, batched_below(x->wrapper->value, n - 1), NULL);
    return cr_wrap(l->id, expanded(batched_below(x, n - 1), l->size), NULL);
}

cr_tensor *cr_batched_fully(const cr_tensor *x) {
    if (cr_wrapped(x) && !used_level("grad", level_of(x))) return NULL;
    return batched_below(x, depth);
}

/* ---- an op over wrappers */
typedef struct arrays { const cr_tensor *few[2][CR_FEW_INPUTS], **in, **t; bool few_has[CR_FEW_INPUTS], *has; } arrays;

static bool arrays_begin(arrays *a, const cr_call *c) {
    a->in = a->few[0], a->t = a->few[1], a->has = a->few_has;
    if (c->n <= CR_FEW_INPUTS) return true;
    a->in = malloc(sizeof *a->in * 2 * (size_t)c->n);
    a->has = malloc(sizeof *a->has * (size_t)c->n);
    a->t = a->in ? a->in + c->n : NULL;
    if (a->in && a->has) return true;
    free(a->in), free(a->has);
    return cr_no_memory(cr_call_name(c)), false;
}

static void arrays_end(arrays *a) {
    if (a->in == a->few[0]) return;
    free(a->in);
    free(a->has);
}

static cr_tensor *check_rule(const cr_batched *b, cr_tensor *y, const cr_meta *m) {
    if (!y) return NULL;
    if (y->ndim == m->ndim + 1 && y->shape[0] == b->size && y->dtype == m->dtype &&
        cr_shape_equal(y->ndim - 1, y->shape + 1, m->ndim, m->shape))
        return y;
    return cr_fail(CR_RUNTIME, cr_call_name(b->call), "its rule for vmap gave %s %s, and not %s %s for each of %lld",
                   cr_dtype_name(y->dtype), cr_shape_text(y->ndim, y->shape).s, cr_dtype_name(m->dtype),
                   cr_shape_text(m->ndim, m->shape).s, (long long)b->size), NULL;
}

static cr_tensor *run_batched(cr_call *c, const level *l, arrays *a, cr_tensor *kept[]) {
    cr_meta m = {0}, aux_meta[CR_MAX_AUX] = {{0}};
    cr_tensor *aux[CR_MAX_AUX] = {NULL};
    cr_batched b = {.call = c, .in = a->in, .has = a->has, .size = l->size, .level = l->id, .out = &m,
                    .aux_meta = aux_meta, .aux = c->op->n_aux ? aux : NULL};
    cr_tensor *(*rule)(const cr_batched *) = c->op->batch      ? c->op->batch
                                             : c->op->composite ? cr_batch_composite
                                                                : NULL;
    if (!rule || (kept && !c->op->batch))
        return cr_fail(CR_RUNTIME, cr_call_name(c), "cannot run inside vmap: %s",
                       c->op->no_grad ? "its result depends on values" : "it has no batching rule"), NULL;
    if (c->op->infer(c, &m, aux_meta) != CR_OK) return NULL;
    for (int i = 0; i < c->n; i++) {
        a->has[i] = level_of(c->in[i]) == l->id;
        a->in[i] = a->has[i] ? c->in[i]->wrapper->value : c->in[i];
    }
    cr_tensor *y = check_rule(&b, rule(&b), &m);
    for (int k = 0; kept && y && k < c->op->n_aux; k++)
        if (!(kept[k] = cr_wrap(l->id, check_rule(&b, aux[k], &aux_meta[k]), NULL))) y = NULL;
    return cr_wrap(l->id, y, NULL);
}

static cr_tensor *spread(cr_tensor *t, const cr_tensor *y) {
    if (!t || t == CR_NONE) return t;
    if (t->dtype != y->dtype) t = cr_to(t, y->dtype, y->dev);
    return t && !cr_shape_equal(t->ndim, t->shape, y->ndim, y->shape) ? cr_expand(t, y->ndim, y->shape) : t;
}

/* The op over the primals, and its tangent; where it has only a composite, that has both. */
static cr_tensor *run_dual(cr_call *c, const level *l, arrays *a, cr_tensor *kept[]) {
    cr_tensor *aux[CR_MAX_AUX] = {NULL};
    if (!c->op->tangent && c->op->composite && c->op->grad && !kept) return c->op->composite(c);
    for (int i = 0; i < c->n; i++) {
        const bool has = level_of(c->in[i]) == l->id;
        a->in[i] = has ? c->in[i]->wrapper->value : c->in[i];
        a->t[i] = has ? c->in[i]->wrapper->tangent : CR_NONE;
    }
    const bool linear = c->op->n_aux == 0;
    cr_tensor *y = linear ? cr_apply(c->op, c->n, a->in, c->params)
                          : cr_apply_aux(c->op, c->n, a->in, c->params, aux);
    if (!y) return NULL;
    for (int k = 0; kept && k < c->op->n_aux; k++) kept[k] = aux[k];
    const bool smooth = c->op != &cr_op_elementwise || ((const cr_ew_params *)c->params)->program->differentiable;
    if (!cr_dtype_is_float(y->dtype) || !smooth || c->op->no_grad) return y;
    if (!c->op->tangent)
        return cr_fail(CR_RUNTIME, cr_call_name(c), "has no rule for forward mode"), NULL;
    cr_call of_primals = *c;
    of_primals.in = a->in;
    of_primals.out = y;
    for (int k = 0; k < c->op->n_aux; k++) of_primals.aux[k] = aux[k];
    cr_tensor *t = spread(c->op->tangent(&of_primals, a->t), y);
    return !t || t == CR_NONE ? t ? y : NULL : cr_wrap(l->id, y, t);
}

cr_tensor *cr_run_wrapped(cr_call *c, cr_tensor *kept[]) {
    uint64_t top = 0;
    arrays a;
    for (int i = 0; i < c->n; i++)
        if (level_of(c->in[i]) > top) top = level_of(c->in[i]);
    const level *l = used_level(cr_call_name(c), top);
    if (!l || !arrays_begin(&a, c)) return NULL;
    cr_scope_begin();
    cr_tensor *y = l->batch ? run_batched(c, l, &a, kept) : run_dual(c, l, &a, kept);
    arrays_end(&a);
    for (int k = 0; y && kept && k < c->op->n_aux; k++) cr_keep(kept[k]);
    return cr_leave(y);
}

/* ---- in place */
static cr_status write_value(cr_tensor *x, const cr_tensor *y) {
    return y && cr_copy_(x, y) ? CR_OK : cr_error_status();
}

static cr_status write_part(cr_tensor *x, const cr_tensor *y, const level *l) {
    const cr_wrapper *w = x->wrapper;
    if (l->batch) {
        cr_batched b = {.in = (const cr_tensor *[]){level_of(y) == l->id ? y->wrapper->value : y},
                        .has = &(bool){level_of(y) == l->id}, .size = l->size};
        cr_call c = {.n = 1, .in = &y};
        b.call = &c;
        return write_value(w->value, cr_batch_aligned(&b, 0, x->ndim));
    }
    cr_status status = write_value(w->value, part_at(y, l->id, false));
    const cr_tensor *t = status == CR_OK ? part_at(y, l->id, true) : NULL;
    if (t == CR_NONE) return cr_fill_(w->tangent, 0) ? CR_OK : cr_error_status();
    return status == CR_OK ? write_value(w->tangent, t) : status;
}

cr_status cr_write_wrapped(cr_tensor *x, const cr_tensor *y) {
    static const char op[] = "copy_";
    const uint64_t top = level_of(x) > level_of(y) ? level_of(x) : level_of(y);
    const level *l = used_level(op, top);
    if (!l) return cr_error_status();
    if (level_of(x) != top)
        return cr_fail(CR_RUNTIME, op, l->batch ? "a tensor %s that is not mapped cannot be written in place with a "
                                                  "batch of %s: make it from one that is mapped (zeros_like)"
                                                : "a tensor %s without a tangent cannot be written in place with one "
                                                  "of %s that has one: make it from that one (zeros_like)",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(y->ndim, y->shape).s);
    cr_scope_begin();
    const cr_status status = write_part(x, y, l);
    cr_scope_end();
    const cr_wrapper *w = x->wrapper;
    if ((w->value->flags | (w->tangent ? w->tangent->flags : 0)) & CR_FLAG_REQUIRES_GRAD)
        x->flags |= CR_FLAG_REQUIRES_GRAD;
    return status;
}

/* ---- tensors like others */
cr_tensor *cr_wrapped_as(const cr_tensor *x, const cr_tensor *y) {
    if (!cr_given("like", "x", x) || !cr_given("like", "y", y)) return NULL;
    if (!cr_wrapped(x)) return cr_clone(y);
    const cr_wrapper *w = x->wrapper;
    if (cr_vmap_has(y, w->level)) return cr_wrapped_as(w->value, y);
    cr_scope_begin();
    cr_tensor *value = cr_wrapped_as(w->value, y);
    if (w->tangent && value && !cr_dtype_is_float(y->dtype)) return cr_leave(value);
    if (w->tangent) return cr_leave(dual(w->level, value, value ? cr_zeros_like(value) : NULL));
    cr_tensor *each = value ? expanded(value, w->value->shape[0]) : NULL;
    return cr_leave(each ? cr_wrap(w->level, cr_clone(each), NULL) : NULL);
}

cr_tensor *cr_map_wrapped(const cr_tensor *t, cr_tensor *(*f)(const cr_tensor *value, void *ctx), void *ctx) {
    const cr_wrapper *w = t->wrapper;
    cr_scope_begin();
    cr_tensor *value = f(w->value, ctx), *tangent = w->tangent ? f(w->tangent, ctx) : NULL;
    return cr_leave(w->tangent ? dual(w->level, value, tangent) : cr_wrap(w->level, value, NULL));
}

/* ---- random numbers */
bool cr_random_begin(const char *op, int *n, const int64_t **shape, int64_t room[]) {
    int more = 0;
    for (int i = 0; i < depth; i++) {
        if (!levels[i].batch || levels[i].random == CR_RANDOM_SAME) continue;
        if (levels[i].random == CR_RANDOM_ERROR)
            return cr_fail(CR_RUNTIME, op, "random numbers inside vmap: say whether all samples draw the same or "
                                           "different ones (randomness=)"), false;
        room[more++] = levels[i].size;
    }
    if (!more) return true;
    if (*n < 0 || *n + more > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, op, "%d axes and %d of vmap: %d are the most supported", *n, more,
                       CR_MAX_DIMS), false;
    if (*n) memcpy(room + more, *shape, sizeof *room * (size_t)*n);
    *shape = room;
    *n += more;
    return true;
}

bool cr_random_same(const char *op) {
    int n = 0;
    const int64_t *shape = NULL;
    int64_t room[CR_MAX_LEVELS];
    if (!cr_random_begin(op, &n, &shape, room)) return false;
    if (!n) return true;
    return cr_fail(CR_RUNTIME, op, "cannot draw different numbers for each sample of vmap"), false;
}

static cr_tensor *wrap_drawn(cr_tensor *y, int n, int from) {
    while (from < depth && !(levels[from].batch && levels[from].random == CR_RANDOM_DIFFERENT)) from++;
    if (from == depth || !y || y->ndim == n) return y;
    /* The axes are those of the levels from the outermost on; an inner wrapper is around an outer one. */
    cr_tensor *wrapped = y;
    for (int i = from; i < depth && wrapped; i++)
        if (levels[i].batch && levels[i].random == CR_RANDOM_DIFFERENT) wrapped = cr_wrap(levels[i].id, wrapped, NULL);
    return wrapped;
}

cr_tensor *cr_random_end(int n, cr_tensor *y) {
    if (!y || y->ndim == n) return y;
    cr_scope_begin();
    cr_tensor *wrapped = wrap_drawn(y, n, 0);
    wrapped = cr_leave(wrapped);
    cr_release(y);
    return wrapped;
}

/* ---- for rules of vmap */
const cr_tensor *cr_batch_in(const cr_batched *b, int i) {
    return b->has[i] || b->in[i] == CR_NONE ? b->in[i] : expanded(b->in[i], b->size);
}

const cr_tensor *cr_batch_aligned(const cr_batched *b, int i, int n) {
    const cr_tensor *x = b->in[i];
    int64_t shape[CR_MAX_DIMS];
    if (!b->has[i] || x->ndim >= n + 1) return x;
    if (n + 1 > CR_MAX_DIMS)
        return cr_fail(CR_BAD_VALUE, "vmap", "%d axes: %d are the most supported", n + 1, CR_MAX_DIMS), NULL;
    const int more = n + 1 - x->ndim;
    for (int k = 0; k <= n; k++) shape[k] = !k ? x->shape[0] : k <= more ? 1 : x->shape[k - more];
    return cr_reshape(x, n + 1, shape);
}

cr_tensor *cr_batch_shaped(const cr_batched *b, cr_tensor *y, const cr_meta *m) {
    int64_t shape[CR_MAX_DIMS] = {b->size};
    if (!y) return NULL;
    memcpy(shape + 1, m->shape, sizeof *shape * (size_t)m->ndim);
    return cr_reshape(y, m->ndim + 1, shape);
}

cr_tensor *cr_batch_apply(const cr_batched *b, const cr_tensor *const *in, const void *params) {
    const cr_call *c = b->call;
    for (int i = 0; i < c->n; i++)
        if (!in[i]) return NULL;
    return b->aux ? cr_apply_aux(c->op, c->n, in, params, b->aux) : cr_apply(c->op, c->n, in, params);
}

/* ---- rules of vmap */
cr_tensor *cr_batch_same(const cr_batched *b) { return cr_batch_apply(b, b->in, b->call->params); }

cr_tensor *cr_batch_all(const cr_batched *b) {
    for (int i = 0; i < b->call->n; i++) b->in[i] = cr_batch_in(b, i);
    return cr_batch_same(b);
}

/* A sample without axes counts as a vector of one. */
static cr_tensor *as_vectors(const cr_batched *b, const void *params) {
    const bool scalar = !b->call->in[0]->ndim;
    for (int i = 0; i < b->call->n; i++) {
        b->in[i] = cr_batch_in(b, i);
        if (scalar && b->in[i] && b->in[i] != CR_NONE && b->in[i]->ndim == 1) b->in[i] = cr_unsqueeze(b->in[i], 1);
    }
    cr_tensor *y = cr_batch_apply(b, b->in, params);
    for (int k = 0; scalar && y && b->aux && k < b->call->op->n_aux; k++)
        b->aux[k] = cr_batch_shaped(b, b->aux[k], &b->aux_meta[k]);
    return scalar ? cr_batch_shaped(b, y, b->out) : y;
}

cr_tensor *cr_batch_last(const cr_batched *b) { return as_vectors(b, b->call->params); }

cr_tensor *cr_batch_axis(const cr_batched *b) {
    union { int axis; double align; char bytes[CR_PARAMS_BYTES]; } params;
    memcpy(params.bytes, b->call->params, b->call->op->params_bytes);
    params.axis++;
    return as_vectors(b, &params);
}

cr_tensor *cr_batch_composite(const cr_batched *b) {
    cr_tensor *y = b->call->op->composite(b->call);
    return y ? batch_at(y, b->level, b->size) : NULL;
}

static cr_tensor *without_bias(const cr_call *c, const cr_tensor *x, const cr_tensor *const *in) {
    const cr_tensor *few[CR_FEW_INPUTS];
    memcpy(few, in, sizeof *few * (size_t)c->n);
    few[0] = x;
    few[c->n - 1] = CR_NONE;
    return cr_apply(c->op, c->n, few, c->params);
}

cr_tensor *cr_batch_frozen(const cr_batched *b) {
    const int last = b->call->n - 1;
    for (int i = 1; i < last; i++)
        if (b->has[i])
            return cr_fail(CR_RUNTIME, b->call->op->name, "inside vmap all samples share the weight"), NULL;
    if (!b->has[last]) return cr_batch_same(b);
    cr_tensor *y = without_bias(b->call, b->in[0], b->in);
    const cr_tensor *bias = cr_batch_aligned(b, last, b->out->ndim);
    return y && bias ? add(y, bias) : NULL;
}

/* ---- rules of forward mode */
cr_tensor *cr_tangent_frozen(const cr_call *c, const cr_tensor *const *t) {
    const cr_tensor *bias = t[c->n - 1];
    return t[0] == CR_NONE ? same(bias) : cr_tangent_sum(without_bias(c, t[0], c->in), bias);
}

const cr_tensor *cr_tangent_or_zeros(const cr_tensor *t, const cr_tensor *x) {
    return t != CR_NONE ? t : cr_zeros_like(x);
}

cr_tensor *cr_tangent_sum(const cr_tensor *a, const cr_tensor *b) {
    if (!a || !b) return NULL;
    return a == CR_NONE ? same(b) : b == CR_NONE ? same(a) : add(a, b);
}

static cr_tensor *apply_to(const cr_call *c, const cr_tensor **in) {
    for (int i = 0; i < c->n; i++)
        if (!in[i]) return NULL;
    if (!c->op->n_aux) return cr_apply(c->op, c->n, in, c->params);
    cr_tensor *aux[CR_MAX_AUX];
    return cr_apply_aux(c->op, c->n, in, c->params, aux);
}

static cr_tensor *with_inputs(const cr_call *c, const cr_tensor *const *t, int only) {
    const cr_tensor *few[CR_FEW_INPUTS], **in = c->n <= CR_FEW_INPUTS ? few : malloc(sizeof *in * (size_t)c->n);
    if (!in) return cr_no_memory(cr_call_name(c)), NULL;
    for (int i = 0; i < c->n; i++) {
        const bool linear = only < 0 && c->in[i] != CR_NONE && cr_dtype_is_float(c->in[i]->dtype);
        in[i] = linear ? cr_tangent_or_zeros(t[i], c->in[i]) : i == only ? t[i] : c->in[i];
    }
    cr_tensor *y = apply_to(c, in);
    if (in != few) free(in);
    return y;
}

cr_tensor *cr_tangent_linear(const cr_call *c, const cr_tensor *const *t) { return with_inputs(c, t, -1); }

cr_tensor *cr_tangent_products(const cr_call *c, const cr_tensor *const *t) {
    cr_tensor *sum = same(CR_NONE);
    for (int i = 0; i < c->n && sum; i++)
        if (t[i] != CR_NONE) sum = cr_tangent_sum(sum, with_inputs(c, t, i));
    return sum;
}
