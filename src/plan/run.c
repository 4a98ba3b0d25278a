/* run.c - replays a plan.  A run has an instance to itself: a copy of all arguments, with pointers to its own memory.
 * Instances are kept for the next run; runs at the same time, and graphs that still wait for their backward pass,
 * have one each. */
#include "../core/os.h"
#include "../core/rng.h"
#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE_ARENA = 64 << 20 };                    /* bytes */
enum { RUNS = 8 };                                  /* before the system's C compiler is worth its time */

static size_t line(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* ---- where everything is in the pool, computed once */
typedef void (*each_step)(cr_plan *p, const cr_step *s, size_t at, void *ctx);

static size_t visit_steps(cr_plan *p, each_step visit, void *ctx) {
    size_t at = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const cr_step *s = &p->steps[i];
        const cr_group *g = s->group;
        if (p->args_at) p->args_at[i] = at;
        for (int k = 0; k < (g ? g->n : 1); k++) {
            const cr_step *inner = g ? &g->steps[k] : s;
            if (visit) visit(p, inner, at, ctx);
            at += line(inner->bytes);
        }
    }
    return at;
}

static void count_refs(cr_plan *p, const cr_step *s, size_t at, void *ctx) {
    (void)at, (void)ctx;
    for (int i = 0; i < s->n_operands; i++) p->ref_start[s->operands[i].buffer + 1]++;
    p->n_draw_refs += s->draw >= 0;
}

static void fill_refs(cr_plan *p, const cr_step *s, size_t at, void *ctx) {
    int *next = ctx;
    for (int i = 0; i < s->n_operands; i++) {
        const cr_operand *o = &s->operands[i];
        const cr_arg *arg = o->walk ? cr_step_arg(s, o) : NULL;
        const cr_array *array = o->walk ? NULL : cr_step_array(s, o);
        p->refs_of[next[o->buffer]++] =
            (cr_array_ref){.at = at + o->at, .walk = o->walk,
                           .size = (uint8_t)cr_dtype_size(arg ? arg->dtype : array->dtype),
                           .offset = arg ? arg->offset : array->offset};
    }
    if (s->draw >= 0)
        p->draw_refs[p->n_draw_refs++] = (cr_draw_ref){at + (size_t)((char *)cr_step_seed(s) - s->args), s->draw};
}

static cr_status find_devices(cr_plan *p) {
    for (int i = 0; i < p->n_buffers; i++) {
        cr_buffer *b = &p->buffers[i];
        if (b->kind != CR_BUFFER_TEMPORARY || b->first < 0 || !cr_has_arena(b->dev)) continue;
        int d = 0;
        while (d < p->n_devices && p->devices[d].dev != b->dev) d++;
        if (d == CR_PLAN_DEVICES) return cr_fail(CR_RUNTIME, "record_end", "a step on more than %d devices", d);
        if (d == p->n_devices) p->devices[p->n_devices++].dev = b->dev;
        b->device = d;
        if (b->at + line(b->bytes + !b->bytes) > p->devices[d].bytes)
            p->devices[d].bytes = b->at + line(b->bytes + !b->bytes);
    }
    return CR_OK;
}

cr_status cr_plan_index(cr_plan *p) {
    p->args_at = calloc((size_t)p->n_steps + 1, sizeof *p->args_at);
    p->ref_start = calloc((size_t)p->n_buffers + 2, sizeof *p->ref_start);
    int *next = malloc(sizeof *next * (size_t)(p->n_buffers + 2));
    if (!p->args_at || !p->ref_start || !next) { free(next); return cr_no_memory("plan_run"); }
    p->n_draw_refs = 0;
    p->pool = visit_steps(p, count_refs, NULL);
    for (int i = 0; i < p->n_buffers; i++) p->ref_start[i + 1] += p->ref_start[i];
    memcpy(next, p->ref_start, sizeof *next * (size_t)(p->n_buffers + 1));
    p->refs_of = malloc(sizeof *p->refs_of * (size_t)(p->ref_start[p->n_buffers] + 1));
    p->draw_refs = malloc(sizeof *p->draw_refs * (size_t)(p->n_draw_refs + 1));
    if (!p->refs_of || !p->draw_refs) { free(next); return cr_no_memory("plan_run"); }
    p->n_draw_refs = 0;
    visit_steps(p, fill_refs, next);
    free(next);
    return find_devices(p);
}

/* ---- instances */
static void bind_buffer(const cr_plan *p, cr_instance *x, int buffer, cr_storage *s, int64_t moved) {
    for (int i = p->ref_start[buffer]; i < p->ref_start[buffer + 1]; i++) {
        const cr_array_ref *ref = &p->refs_of[i];
        char *at = x->pool + ref->at;
        const int64_t offset = ref->offset + moved / ref->size;
        if (!ref->walk) {
            cr_array *a = (void *)at;
            a->storage = s;
            a->offset = offset;
            continue;
        }
        cr_arg *a = (void *)at;
        a->storage = s;
        a->offset = offset;
        a->data = s->dev->host ? (char *)s->data + offset * ref->size : NULL;
    }
}

static void copy_step(cr_plan *p, const cr_step *s, size_t at, void *ctx) {
    cr_instance *x = ctx;
    (void)p;
    memcpy(x->pool + at, s->args, s->bytes);
    for (int i = 0; i < s->n_inside; i++) {
        char **pointer = (char **)(void *)(x->pool + at + s->inside[i]);
        *pointer = x->pool + at + (*pointer - s->args);
    }
}

static void instance_free(const cr_plan *p, cr_instance *x) {
    cr_stretches_free(x->stretches);
    for (int i = 0; x->arenas && i < p->n_devices; i++) cr_storage_release(x->arenas[i]);
    for (int i = 0; x->bound && i < p->n_buffers; i++) cr_storage_release(x->bound[i]);
    cr_os_aligned_free(x->pool);
    free(x->slots), free(x->arenas), free(x->bound), free(x->moved);
    free(x);
}

void cr_instances_free(cr_plan *p) {
    for (cr_instance *x = atomic_load(&p->instances), *next; x; x = next) {
        next = x->next;
        instance_free(p, x);
    }
    atomic_store(&p->instances, NULL);
}

static bool in_arena(const cr_buffer *b) {
    return b->kind == CR_BUFFER_TEMPORARY && b->first >= 0 && cr_has_arena(b->dev);
}

/* What the recorded run left in the cache would lie beside the arena. */
static cr_storage *arena_new(const cr_device *dev, size_t bytes) {
    if (bytes >= LARGE_ARENA) cr_empty_cache(dev);
    return dev->allocate(dev, bytes);
}

static cr_instance *instance_new(cr_plan *p) {
    cr_instance *x = calloc(1, sizeof *x);
    if (!x) return cr_no_memory("plan_run"), NULL;
    const size_t n = (size_t)p->n_buffers + 1;
    x->pool = cr_os_aligned(64, line(p->pool + 1));
    x->slots = calloc(n, sizeof *x->slots);
    x->arenas = calloc((size_t)p->n_devices + 1, sizeof *x->arenas);
    x->bound = calloc(n, sizeof *x->bound);
    x->moved = calloc(n, sizeof *x->moved);
    bool ok = x->pool && x->slots && x->arenas && x->bound && x->moved;
    if (!ok) cr_no_memory("plan_run");
    for (int i = 0; i < p->n_devices && ok; i++)
        ok = (x->arenas[i] = arena_new(p->devices[i].dev, p->devices[i].bytes)) != NULL;
    ok = ok && cr_stretches_new(p, &x->stretches) == CR_OK;
    if (!ok) { instance_free(p, x); return NULL; }
    visit_steps(p, copy_step, x);
    for (int i = 0; i < p->n_buffers; i++) {
        const cr_buffer *b = &p->buffers[i];
        cr_storage *const arena = in_arena(b) ? x->arenas[b->device] : NULL;
        if (arena && !b->dev->host) bind_buffer(p, x, i, arena, (int64_t)b->at);
        else if (arena) {
            x->slots[i] = (cr_storage){.data = (char *)arena->data + b->at, .bytes = b->bytes, .dev = b->dev,
                                        .free = arena->free};
            atomic_init(&x->slots[i].refs, 1);
            bind_buffer(p, x, i, &x->slots[i], 0);
        } else if (b->storage) bind_buffer(p, x, i, b->storage, 0);
    }
    return x;
}

/* Without a lock: a process that forks could leave one behind.  Instances are added only. */
static cr_instance *instance_take(cr_plan *p) {
    for (cr_instance *x = atomic_load_explicit(&p->instances, memory_order_acquire); x; x = x->next) {
        bool free = false;
        if (atomic_compare_exchange_strong_explicit(&x->busy, &free, true, memory_order_acquire, memory_order_relaxed))
            return x;
    }
    cr_instance *x = instance_new(p);
    if (!x) return NULL;
    atomic_init(&x->busy, true);
    x->next = atomic_load_explicit(&p->instances, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&p->instances, &x->next, x, memory_order_release,
                                                  memory_order_relaxed)) {}
    return x;
}

static void unbind(const cr_plan *p, cr_instance *x) {
    for (int i = 0; i < p->n_buffers; i++) {
        cr_storage_release(x->bound[i]);
        x->bound[i] = NULL;
    }
}

static void instance_give(cr_plan *p, cr_instance *x) {
    unbind(p, x);
    atomic_store_explicit(&x->busy, false, memory_order_release);
}

/* ---- does a plan fit? */
bool cr_same_layout(const cr_array *a, const cr_array *b) {
    if (a->dtype != b->dtype || a->dev != b->dev || a->ndim != b->ndim) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || (a->strides[i] != b->strides[i] && a->shape[i] > 1)) return false;
    return true;
}

bool cr_same_memory(const cr_array *a, const cr_array *b) {
    return a->storage == b->storage && a->offset == b->offset && cr_same_layout(a, b);
}

/* Bytes from where the recorded input began in its storage to where this one does. */
static int64_t shift_of(const cr_result *r, const cr_tensor *t) {
    return (t->offset - r->array.offset) * (int64_t)cr_dtype_size(t->dtype);
}

/* Inputs share memory with each other and with what the step uses outside only where they did in the recording.  Those
 * that share memory lie as far from each other as then. */
static bool same_sharing(const cr_plan *p, const cr_tensor *const *in) {
    for (int i = 0; i < p->n_inputs; i++) {
        const cr_storage *kept = p->inputs[i].array.storage;
        if (kept && (kept != in[i]->storage || shift_of(&p->inputs[i], in[i]))) return false;
        for (int k = 0; k < i; k++) {
            const bool shared = in[i]->storage == in[k]->storage;
            if ((p->inputs[i].buffer == p->inputs[k].buffer) != shared) return false;
            if (shared && shift_of(&p->inputs[i], in[i]) != shift_of(&p->inputs[k], in[k])) return false;
        }
        const bool written = p->buffers[p->inputs[i].buffer].written;
        for (int k = 0; k < p->n_buffers && p->writes_outside | written; k++) {
            const cr_buffer *b = &p->buffers[k];
            if (b->kind == CR_BUFFER_OUTSIDE && b->storage == in[i]->storage && (b->written || written)) return false;
        }
    }
    return true;
}

static cr_tensor *leaf_of(const cr_leaf *leaf, const cr_tensor *const *in) {
    return leaf->tensor ? leaf->tensor : (cr_tensor *)(uintptr_t)in[leaf->input];
}

/* Do tensors from outside require gradients where they did?  Has no leaf to which the step gives a gradient got a hook
 * since? */
static bool leaves_fit(const cr_plan *p, const cr_tensor *const *in) {
    for (int i = 0; i < p->n_reads; i++) {
        const cr_leaf_read *r = &p->reads[i];
        if (r->graded && r->in_graph != cr_in_graph(r->tensor)) return false;
        if (p->no_grad && cr_grad_enabled() && cr_in_graph(r->tensor)) return false;
    }
    for (int i = 0; i < p->n_visited; i++)
        if (atomic_load(&p->visited[i]->hooks)) return false;
    for (int i = 0; i < p->n_inputs; i++) {
        int first = 0;
        if (p->inputs[i].walked && in[i]->node && atomic_load(&in[i]->node->hooks)) return false;
        while (in[first] != in[i]) first++;
        if (p->inputs[i].in_graph && first != p->inputs[i].first) return false;
    }
    for (int i = 0; i < p->n_leaves; i++) {
        const cr_leaf *leaf = &p->leaves[i];
        const cr_tensor *t = leaf_of(leaf, in);
        if (!cr_is_leaf(t)) return false;
        if (!leaf->sets && cr_grad_now(t) != (leaf->slot < 0 ? CR_NONE : in[leaf->slot])) return false;
    }
    return true;
}

static bool fits_inputs(const cr_plan *p, const cr_tensor *const *in) {
    const bool grad = cr_grad_enabled(), graph = p->n_cotangents && (grad || p->no_grad);
    if (p->retired || p->how != cr_product_how()) return false;
    for (int i = 0; i < p->n_inputs; i++) {
        if (!in[i] || in[i] == CR_NONE || cr_released(in[i])) return false;
        if (!cr_same_layout(&p->inputs[i].array, &in[i]->array)) return false;
        if (graph && p->inputs[i].in_graph != cr_in_graph(in[i])) return false;
        if (grad && (p->no_grad || !p->inputs[i].in_graph) && cr_in_graph(in[i])) return false;
    }
    return same_sharing(p, in) && leaves_fit(p, in);
}

bool cr_plan_gather(cr_plan_inputs *g, const cr_plan *p, const cr_tensor *const *given) {
    const int n = p->n_inputs;
    *g = (cr_plan_inputs){.p = p, .in = given};
    if (n == p->n_given) return n == 0 || given;
    if (p->n_given && !given) return false;
    g->all = n > CR_FEW_INPUTS ? malloc(sizeof *g->all * (size_t)n) : g->few;
    if (!(g->in = g->all)) return cr_no_memory("plan_run"), false;
    for (int i = 0; i < n; i++) g->all[i] = i < p->n_given ? given[i] : CR_NONE;
    for (int i = 0; i < p->n_leaves; i++) {
        const cr_leaf *leaf = &p->leaves[i];
        if (leaf->slot < p->n_given || g->all[leaf->slot] != CR_NONE) continue;
        const cr_tensor *t = leaf_of(leaf, g->in);
        if (t && t != CR_NONE && !cr_released(t)) g->all[leaf->slot] = cr_grad_hold(t);
    }
    return true;
}

void cr_plan_let_go(cr_plan_inputs *g) {
    for (int i = g->p->n_given; g->all && i < g->p->n_inputs; i++) cr_drop((cr_tensor *)(uintptr_t)g->all[i]);
    if (g->all != g->few) free(g->all);
}

bool cr_plan_fits(const cr_plan *p, const cr_tensor *const *given) {
    cr_plan_inputs g;
    if (!p || !cr_plan_gather(&g, p, given)) return false;
    const bool fit = fits_inputs(p, g.in);
    cr_plan_let_go(&g);
    return fit;
}

/* ---- a run */
static void bind_array(cr_plan *p, cr_instance *x, const cr_result *r, const cr_tensor *t) {
    if (r->absent) return;
    x->moved[r->buffer] = shift_of(r, t);
    cr_storage_release(x->bound[r->buffer]);
    x->bound[r->buffer] = cr_storage_retain(t->storage);
    bind_buffer(p, x, r->buffer, t->storage, x->moved[r->buffer]);
}

static void draw(cr_plan *p, cr_instance *x) {
    for (int i = 0; i < p->n_draws; i++) {
        cr_draw *d = &p->draws[i];
        uint64_t seed = d->seed;
        const uint64_t counter = d->g ? cr_generator_take(d->g, d->blocks, &seed) : d->counter;
        for (int k = 0; k < p->n_draw_refs; k++) {
            const cr_draw_ref *ref = &p->draw_refs[k];
            uint64_t *to = (void *)(x->pool + ref->at);
            if (ref->draw == i) to[0] = seed, to[1] = counter;
        }
    }
}

/* New memory for the results, and for the temporaries of devices that have no arena. */
cr_status cr_begin_buffers(cr_plan *p, cr_instance *x, int step) {
    const cr_step *s = &p->steps[step];
    for (int i = 0; i < s->n_operands; i++) {
        const int k = s->operands[i].buffer;
        cr_buffer *b = &p->buffers[k];
        const bool fresh = b->kind == CR_BUFFER_OUTPUT ||
                           (b->kind == CR_BUFFER_TEMPORARY && !cr_has_arena(b->dev));
        if (!fresh || b->first != step || x->bound[k]) continue;
        if (!(x->bound[k] = b->dev->allocate(b->dev, b->bytes))) return cr_error_status();
        bind_buffer(p, x, k, x->bound[k], 0);
    }
    return CR_OK;
}

static void end_buffers(cr_plan *p, cr_instance *x, int step) {
    const cr_step *s = &p->steps[step];
    for (int i = 0; i < s->n_operands; i++) {
        const int k = s->operands[i].buffer;
        const cr_buffer *b = &p->buffers[k];
        if (b->kind != CR_BUFFER_TEMPORARY || cr_has_arena(b->dev) || b->last != step) continue;
        cr_storage_release(x->bound[k]);
        x->bound[k] = NULL;
    }
}

/* The elements of a GPU that a step of the host reads, side by side: one wait, not one for each. */
static cr_status read_together(const cr_host_work *w, char *elements) {
    const cr_device *dev = w->arrays->dev;
    const size_t bytes = (size_t)w->n * cr_dtype_size(w->arrays->dtype);
    cr_storage *together = dev->allocate(dev, bytes);
    cr_status status = together ? CR_OK : cr_error_status();
    for (int i = 0; i < w->n && status == CR_OK; i++) {
        cr_copy_args args = {.dst = w->arrays[i], .src = w->arrays[i]};
        args.dst.storage = together, args.dst.offset = i;
        status = dev->kernels->raw[CR_KERNEL_copy](&args);
    }
    if (status == CR_OK) status = dev->download(dev, elements, together, 0, bytes);
    cr_storage_release(together);
    return status;
}

static bool lie_alike(const cr_host_work *w) {
    for (int i = 1; i < w->n; i++)
        if (w->arrays[i].dev != w->arrays->dev || w->arrays[i].dtype != w->arrays->dtype) return false;
    return true;
}

/* -> numbers (n) */
static cr_status read_numbers(const cr_host_work *w, double *numbers) {
    const bool together = w->n > 1 && !w->arrays->dev->host && lie_alike(w);
    char *elements = malloc(sizeof *numbers * (size_t)(w->n + 1));
    cr_status status = !elements ? cr_no_memory("record") : together ? read_together(w, elements) : CR_OK;
    for (int i = 0; i < w->n && status == CR_OK; i++) {
        const cr_array *a = &w->arrays[i];
        const size_t size = cr_dtype_size(a->dtype);
        char *at = elements + (size_t)i * size;
        if (!together) status = a->dev->download(a->dev, at, a->storage, (size_t)a->offset * size, size);
        numbers[i] = status == CR_OK ? cr_load_f64(at, a->dtype) : 0;
    }
    free(elements);
    return status;
}

cr_status cr_host_run(cr_plan *p, cr_host_work *w) {
    double *numbers = (double *)(void *)(w->arrays + w->n + w->n_out), *results = numbers + w->n;
    char element[8];
    cr_status status = read_numbers(w, numbers);
    if (status == CR_OK) status = w->f(p, w->ctx, numbers, results);
    for (int i = 0; i < w->n_out && status == CR_OK; i++) {
        const cr_array *a = &w->arrays[w->n + i];
        const size_t size = cr_dtype_size(a->dtype);
        cr_store_f64(element, a->dtype, results[i]);
        status = a->dev->upload(a->dev, a->storage, (size_t)a->offset * size, element, size);
    }
    return status;
}

static cr_status run_step(cr_plan *p, const cr_step *s, char *args) {
    if (s->kind == CR_STEP_HOST) return cr_host_run(p, (void *)args);
    if (s->kind == CR_STEP_KERNEL) return s->run(args);
    if (s->kind == CR_STEP_GROUP) return cr_group_run(s->group, args);
    if (s->kind == CR_STEP_UPLOAD) {
        const cr_upload_step *u = (const void *)args;
        return u->to.dev->upload(u->to.dev, u->to.storage, (size_t)u->to.offset, u->data, u->bytes);
    }
    const cr_transfer *t = (const void *)args;
    return cr_move_bytes(t->to.storage, (size_t)t->to.offset, t->from.storage, (size_t)t->from.offset, t->bytes);
}

/* ---- anomaly mode: each kernel's results are read back */
static cr_status check_array(const char *name, cr_storage *s, cr_dtype dt, int ndim, const int64_t *shape,
                             const int64_t *strides, int64_t offset, int64_t numel) {
    cr_scope_begin();
    cr_storage_retain(s);
    const cr_tensor *t = cr_tensor_placed(s, s->dev, dt, ndim, shape, strides, offset, numel, false);
    const cr_status status = t ? cr_check_finite(name, "a replay", NULL, t) : cr_error_status();
    cr_scope_end();
    return status;
}

static cr_status check_kernel(const cr_step *s, const char *name, const char *args) {
    const cr_elementwise_args *e = (const void *)args;
    cr_status status = CR_OK;
    for (int64_t k = 0; s->kernel == CR_KERNEL_elementwise && k < e->count; k++) {
        const cr_walk *w = &e->walks[k];
        for (int i = 0; i < w->n_out && status == CR_OK; i++)
            status = check_array(name, w->out[i].storage, w->out[i].dtype, w->ndim, w->shape, w->out[i].strides,
                                 w->out[i].offset, w->numel);
    }
    for (int i = 0; s->kernel != CR_KERNEL_elementwise && i < s->n_operands; i++) {
        if (!(s->operands[i].use & CR_WRITES) || s->operands[i].walk) continue;
        const cr_array *y = (const void *)(args + s->operands[i].at);
        return check_array(name, y->storage, y->dtype, y->ndim, y->shape, y->strides, y->offset, y->numel);
    }
    return status;
}

/* A kernel of a group is checked if its results exist as a whole. */
static cr_status check_step(const cr_step *s, const char *name, const char *args) {
    const cr_group *g = s->group;
    if (!g) return s->kind == CR_STEP_KERNEL ? check_kernel(s, name, args) : CR_OK;
    cr_status status = CR_OK;
    for (int k = 0; k < g->n && status == CR_OK; args += line(g->steps[k++].bytes)) {
        const cr_step *one = &g->steps[k];
        bool inner = false;
        for (int i = 0; i < g->n_inner; i++)
            for (int o = 0; o < one->n_operands; o++)
                inner |= one->operands[o].use & CR_WRITES && one->operands[o].buffer == g->inner[i].buffer;
        if (!inner) status = check_kernel(one, one->name ? one->name : name, args);
    }
    return status;
}

static cr_status run_steps(cr_plan *p, cr_instance *x, int from, int to) {
    cr_status status = CR_OK;
    for (int i = from; i < to && status == CR_OK; i++) {
        const int behind = cr_modes.anomaly ? i : cr_stretch_run(p, x, i, to, &status);
        if (behind > i) { i = behind - 1; continue; }
        const cr_step *s = &p->steps[i];
        const char *name = s->name ? s->name : "plan";
        if (status != CR_OK || (s->begins && (status = cr_begin_buffers(p, x, i)) != CR_OK)) break;
        if (x->stretches) cr_stretch_watch(p, x->stretches, i, false);
        const double start = cr_profile_start();
        status = cr_finished(name, run_step(p, s, x->pool + p->args_at[i]));
        if (x->stretches) cr_stretch_watch(p, x->stretches, i, true);
        if (cr_modes.anomaly && status == CR_OK) status = check_step(s, name, x->pool + p->args_at[i]);
        if (start > 0) cr_profile_event(start, "plan", name, 0, NULL, 0, NULL);
        if (s->begins) end_buffers(p, x, i);
    }
    return status;
}

/* The step's own writes count as in the step itself: x.data has another counter than x.  Also after a failure. */
static void count_writes(const cr_plan *p, const cr_instance *x, const cr_tensor *const *in) {
    for (int i = 0; i < p->n_buffers; i++) {
        const cr_buffer *b = &p->buffers[i];
        cr_storage *s = b->kind == CR_BUFFER_OUTSIDE ? b->storage : b->kind == CR_BUFFER_INPUT ? x->bound[i] : NULL;
        if (!b->written || !s) continue;
        if (b->counts) atomic_fetch_add(&s->version, 1);
        else atomic_fetch_add(&s->aside, 1);
    }
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].counts) cr_count_write(in[i]);
    for (int i = 0; i < p->n_counters; i++) atomic_fetch_add(&p->counters[i]->version, 1);
}

/* A new handle for what a run left in a buffer. */
static cr_tensor *result_of(const cr_plan *p, const cr_instance *x, const cr_result *r) {
    if (r->absent) return (cr_tensor *)(uintptr_t)CR_NONE;
    const cr_buffer *b = &p->buffers[r->buffer];
    cr_storage *s = x->bound[r->buffer] ? x->bound[r->buffer] : b->storage;
    if (!s) return cr_fail(CR_RUNTIME, "plan_run", "a result has no memory"), NULL;
    const cr_array *a = &r->array;
    const int64_t moved = x->moved[r->buffer] / (int64_t)cr_dtype_size(a->dtype);
    cr_tensor *t = cr_tensor_placed(cr_storage_retain(s), a->dev, a->dtype, a->ndim, a->shape, a->strides,
                                    a->offset + (b->kind == CR_BUFFER_INPUT ? moved : 0), a->numel, a->contiguous);
    if (!t || b->kind != CR_BUFFER_CONSTANT) return t;
    cr_tensor *own = cr_clone(t);                   /* a constant is the plan's */
    cr_release(t);
    return own;
}

/* Gradients that the step replaces end first: the new ones may take their memory. */
static cr_status drop_gradients(const cr_plan *p, const cr_tensor *const *in) {
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_leaves && status == CR_OK; i++)
        if (p->leaves[i].sets) status = cr_set_grad(leaf_of(&p->leaves[i], in), CR_NONE);
    return status;
}

static cr_status give_gradients(cr_plan *p, const cr_instance *x, const cr_tensor *const *in) {
    cr_status status = CR_OK;
    for (int i = 0; i < p->n_leaves && status == CR_OK; i++) {
        const cr_leaf *leaf = &p->leaves[i];
        cr_tensor *t = leaf_of(leaf, in);
        if (leaf->keeps) continue;
        if (leaf->buffer < 0) { status = cr_set_grad(t, CR_NONE); continue; }
        cr_tensor *g = cr_unscope(result_of(p, x, &(cr_result){.buffer = leaf->buffer, .array = leaf->grad}));
        status = g ? cr_set_grad(t, g) : cr_error_status();
        cr_drop(g);
    }
    return status;
}

/* ---- the backward pass of a run */
typedef struct saved {
    cr_storage *s;
    cr_counter *c; unsigned version;                /* owned; NULL: the storage counts */
    cr_node *leaf; unsigned moves;                  /* retained; NULL: no leaf */
} saved;
typedef struct pending { cr_plan *p; cr_instance *x; int n; saved *saved; bool done; } pending;

static void pending_end(void *ctx) {
    pending *b = ctx;
    for (int i = 0; i < b->n; i++) {
        cr_counter_release(b->saved[i].c);
        cr_node_release(b->saved[i].leaf);
    }
    instance_give(b->p, b->x);
    cr_plan_release(b->p);
    free(b->saved);
    free(b);
}

static bool crosses(const cr_plan *p, const cr_buffer *b) { return b->first < p->split && b->last >= p->split; }

/* t: the tensor that has the storage; NULL: it has no name */
static void add_saved(pending *b, cr_storage *s, const cr_tensor *t) {
    cr_node *leaf = t && t->node && t->node->head.leaf ? cr_node_retain(t->node) : NULL;
    cr_counter *c = t ? t->counter : NULL;
    b->saved[b->n++] = (saved){s, cr_counter_retain(c), cr_version_of(s, c), leaf, leaf ? leaf->moves : 0};
}

/* What the backward pass needs, by the handles that the step read it by. */
static bool save_versions(pending *b, const cr_tensor *const *in) {
    const cr_plan *p = b->p;
    b->saved = malloc(sizeof *b->saved * (size_t)(p->n_buffers + p->n_reads + p->n_inputs + 1));
    if (!b->saved) return cr_no_memory("plan_run"), false;
    for (int i = 0; i < p->n_buffers; i++) {
        const cr_buffer *o = &p->buffers[i];
        const int before = b->n;
        if (!crosses(p, o)) continue;
        if (o->kind == CR_BUFFER_OUTPUT) add_saved(b, b->x->bound[i], NULL);
        for (int k = 0; o->kind == CR_BUFFER_INPUT && k < p->n_inputs; k++)
            if (p->inputs[k].buffer == i) add_saved(b, in[k]->storage, in[k]);
        if (o->kind != CR_BUFFER_OUTSIDE) continue;
        for (int k = 0; k < p->n_reads; k++)
            if (p->reads[k].by_op && p->reads[k].tensor->storage == o->storage)
                add_saved(b, o->storage, p->reads[k].tensor);
        if (b->n == before) add_saved(b, o->storage, NULL);
    }
    return true;
}

static cr_status versions_hold(const pending *b) {
    for (int i = 0; i < b->n; i++) {
        const saved *s = &b->saved[i];
        if (cr_version_of(s->s, s->c) != s->version)
            return cr_fail(CR_RUNTIME, "plan",
                           "a tensor that the backward pass needs was modified in place since the plan ran");
        if (s->leaf && s->leaf->moves != s->moves)
            return cr_fail(CR_RUNTIME, "plan",
                           "a tensor that the backward pass needs was given other data since the plan ran");
    }
    return CR_OK;
}

static cr_status bind_cotangent(cr_plan *p, cr_instance *x, int k, const cr_tensor *given) {
    const cr_result *r = &p->cotangents[k];
    if (r->absent) return CR_OK;
    const cr_array *a = &r->array;
    cr_tensor *g = given == CR_NONE ? cr_zeros(a->ndim, a->shape, a->dtype, a->dev) : cr_contiguous(given);
    if (!g) return cr_error_status();
    bind_array(p, x, r, g);
    return CR_OK;
}

static cr_status backward(const cr_function_call *c, cr_tensor **dx) {
    pending *b = c->ctx;
    cr_plan *p = b->p;
    if (cr_grad_enabled())
        return cr_fail(CR_RUNTIME, "plan", "a compiled function has no second derivatives: call the function itself");
    if (b->done)
        return cr_fail(CR_RUNTIME, "plan",
                       "the backward pass of a compiled function runs once: run the function again");
    if (p->how != cr_product_how())
        return cr_fail(CR_RUNTIME, "plan", "the precision of f32 products is another one than in the forward pass");
    cr_status status = versions_hold(b);
    cr_scope_begin();
    for (int k = 0; k < c->n_out && status == CR_OK; k++)
        status = bind_cotangent(p, b->x, p->grad_outputs[k], c->grads[k]);
    if (status == CR_OK) {
        b->done = true;
        status = run_steps(p, b->x, p->split, p->n_steps);
    }
    for (int i = 0, n = 0; i < p->n_gradients && status == CR_OK; i++) {
        if (i < p->n_inputs && !cr_takes_gradient(p, i)) continue;
        cr_tensor *d = result_of(p, b->x, &p->gradients[i]);
        if (!d) status = cr_error_status();
        else dx[n++] = cr_unscope(d);
    }
    if (b->done) unbind(p, b->x);                   /* a leaf takes a gradient that nothing else holds without a copy */
    cr_scope_end();
    return status;
}

/* The results in a graph become those of one function of the inputs and the captured leaves. */
static cr_status record_function(cr_plan *p, cr_instance *x, const cr_tensor *const *in, cr_tensor **out) {
    const size_t n_in = (size_t)(p->n_inputs + p->n_captured) + 1, n_out = (size_t)p->n_outputs + 1;
    const cr_tensor **from = malloc(sizeof *from * n_in), **of = malloc(sizeof *of * n_out);
    cr_tensor **made = calloc(n_out, sizeof *made);
    pending *b = calloc(1, sizeof *b);
    cr_status status = CR_NO_MEMORY;
    int n = 0, m = 0;
    if (b) *b = (pending){.p = p, .x = x};
    if (!from || !of || !made || !b || !save_versions(b, in)) {
        cr_no_memory("plan_run");
        free(b);
        instance_give(p, x);
    } else {
        for (int i = 0; i < p->n_inputs; i++) if (cr_takes_gradient(p, i)) from[n++] = in[i];
        for (int i = 0; i < p->n_captured; i++) from[n++] = p->captured[i];
        for (int i = 0; i < p->n_outputs; i++) if (p->outputs[i].in_graph) of[m++] = out[i];
        atomic_fetch_add(&p->refs, 1);
        const bool mode = cr_set_grad_enabled(true);
        status = cr_function_record(&(cr_function_use){.name = "plan", .n_in = n, .in = from, .n_out = m, .out = of,
                                                       .backward = backward, .ctx = b, .done = pending_end}, made);
        cr_set_grad_enabled(mode);
        if (status != CR_OK) pending_end(b);
    }
    for (int i = 0, k = 0; i < p->n_outputs && status == CR_OK; i++) {
        if (!p->outputs[i].in_graph) continue;
        cr_release(out[i]);
        out[i] = made[k++];
    }
    free(from), free(of), free(made);
    return status;
}

/* A plan that was recorded with the gradient mode off has results in a graph where the step turned it on. */
static bool wants_graph(const cr_plan *p, const cr_tensor *const *in) {
    if (!p->n_cotangents || (!cr_grad_enabled() && !p->no_grad)) return false;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].in_graph && cr_in_graph(in[i])) return true;
    for (int i = 0; i < p->n_captured; i++)
        if (cr_in_graph(p->captured[i])) return true;
    return false;
}

static cr_status make_results(cr_plan *p, const cr_instance *x, cr_tensor **out) {
    for (int i = 0; i < p->n_outputs; i++)
        if (!(out[i] = result_of(p, x, &p->outputs[i]))) {
            for (int k = 0; k < i; k++) { cr_release(out[k]); out[k] = NULL; }
            return cr_error_status();
        }
    return CR_OK;
}

static cr_status run_instance(cr_plan *p, cr_instance *x, const cr_tensor *const *in, cr_tensor **out) {
    for (int i = 0; i < p->n_inputs; i++) bind_array(p, x, &p->inputs[i], in[i]);
    draw(p, x);
    cr_status status = drop_gradients(p, in);
    if (status == CR_OK) {
        status = run_steps(p, x, 0, p->split);
        if (p->writes_outside) count_writes(p, x, in);
    }
    if (status == CR_OK) status = make_results(p, x, out);
    if (status == CR_OK) status = give_gradients(p, x, in);
    if (atomic_fetch_add_explicit(&p->runs, 1, memory_order_relaxed) == RUNS) cr_plan_start_loops(p);
    if (status == CR_OK && wants_graph(p, in)) return record_function(p, x, in, out);
    instance_give(p, x);
    return status;
}

static cr_status run_plan(cr_plan *p, const cr_tensor *const *in, cr_tensor **out) {
    const cr_callback *c = p->callbacks;
    cr_status status = CR_OK;
    int n = 0;
    for (; n < p->n_callbacks && status == CR_OK; n += status == CR_OK) status = c[n].before(p, c[n].ctx);
    if (status != CR_OK && !cr_error()) status = cr_fail(status, "plan_run", "a callback failed without a message");
    cr_instance *x = status == CR_OK ? instance_take(p) : NULL;
    if (x) status = run_instance(p, x, in, out);
    else if (status == CR_OK) status = cr_error_status();
    for (int i = 0; i < n && status != CR_OK; i++) (void)c[i].before(NULL, c[i].ctx);
    return status;
}

cr_status cr_plan_try(cr_plan *p, const cr_tensor *const *given, cr_tensor **out, bool *fit) {
    cr_plan_inputs g;
    *fit = true;
    if (!p) return cr_fail_null("plan_run", "the plan");
    if (p->n_outputs && !out) return cr_fail_null("plan_run", "outputs");
    for (int i = 0; i < p->n_outputs; i++) out[i] = NULL;
    if (cr_recording())
        return cr_fail(CR_RUNTIME, "plan_run", "a plan runs while a step is recorded: call the step itself");
    if (!cr_plan_gather(&g, p, given)) return cr_error() ? cr_error_status() : cr_fail_null("plan_run", "inputs");
    cr_status status = CR_OK;
    if (!(*fit = fits_inputs(p, g.in))) status = CR_OK;
    else if (p->n_checks && (status = cr_indices_hold(p, g.in)) != CR_OK) *fit = false;
    else if (cr_is_unusual()) status = cr_pending_wait_all("plan_run");
    if (status == CR_OK && *fit) status = run_plan(p, g.in, out);
    cr_plan_let_go(&g);
    return status;
}

cr_status cr_plan_run(cr_plan *p, const cr_tensor *const *in, cr_tensor **out) {
    bool fit;
    const cr_status status = cr_plan_try(p, in, out, &fit);
    return fit || status != CR_OK ? status
               : cr_fail(CR_BAD_VALUE, "plan_run",
                         "the inputs or gradients differ from the recording: record the step again");
}
