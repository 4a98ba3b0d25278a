/* copy.c - copies: clone, contiguous, cast and transfer (cr_to), and in-place writes (cr_copy_,
 * cr_fill_, cr_write). */
#include "compose.h"
#include "transform.h"
#include "../core/watch.h"

#include <stdlib.h>
#include <string.h>

/* ---- clone: y = x, contiguous in new storage */
static cr_status clone_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    return CR_OK;
}

static cr_status clone_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    return cr_copy_elements(out, c->in[0]);
}

/* y = x:  dx = g */
static void clone_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { (void)c; dx[0] = same(g); }

const cr_op cr_op_clone = {
    .name = "clone", .arity = 1, .infer = clone_infer, .forward = clone_forward, .grad = clone_grad,
    .batch = cr_batch_same, .tangent = cr_tangent_linear,
};

cr_tensor *cr_clone(const cr_tensor *x) { return cr_apply(&cr_op_clone, 1, &x, NULL); }

cr_tensor *cr_contiguous(const cr_tensor *x) {
    if (!cr_given("contiguous", "x", x)) return NULL;
    return x->contiguous ? cr_alias(x) : cr_clone(x);
}

/* ---- cast: y = x in another dtype */
typedef struct cast_params { cr_dtype dtype; } cast_params;

static cr_status cast_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    (void)aux;
    *out = cr_meta_of(c->in[0]);
    out->dtype = ((const cast_params *)c->params)->dtype;
    return CR_OK;
}

/* y = cast(x):  dx = cast(g) */
static void cast_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) { dx[0] = cast_to(g, c->in[0]->dtype); }

const cr_op cr_op_cast = {
    .name = "cast",
    .arity = 1,
    .params_bytes = sizeof(cast_params),
    .infer = cast_infer,
    .forward = clone_forward,
    .grad = cast_grad,
    .batch = cr_batch_same,
    .tangent = cr_tangent_linear,
};

cr_status cr_cast_recorded(const cr_tensor *x, cr_tensor *y) {
    return cr_record(
        &(cr_call){
            .op = &cr_op_cast, .params = &(cast_params){y->dtype}, .n = 1, .in = &x, .dev = x->dev, .out = y},
        y);
}

/* ---- transfer: y = x on another device, through host memory */
typedef struct transfer_params { const cr_device *dev; } transfer_params;

static const cr_device *transfer_device(const void *params) { return ((const transfer_params *)params)->dev; }

cr_status cr_move_bytes(cr_storage *to, size_t to_at, cr_storage *from, size_t at, size_t bytes) {
    const cr_watch *watch = cr_watching();
    if (watch) return watch->transfer(to, to_at, from, at, bytes);        /* which calls this again, unwatched */
    if (from->dev->host) return to->dev->upload(to->dev, to, to_at, (const char *)from->data + at, bytes);
    if (to->dev->host) return from->dev->download(from->dev, (char *)to->data + to_at, from, at, bytes);
    void *staging = malloc(bytes);
    if (!staging) return cr_fail(CR_NO_MEMORY, "transfer", "out of memory: asked for %zu bytes", bytes);
    cr_status status = from->dev->download(from->dev, staging, from, at, bytes);
    if (status == CR_OK) status = to->dev->upload(to->dev, to, to_at, staging, bytes);
    free(staging);
    return status;
}

static cr_status transfer_forward(const cr_call *c, cr_tensor *out, cr_tensor *const aux[]) {
    (void)aux;
    const cr_tensor *x = c->in[0];
    const size_t size = cr_dtype_size(x->dtype), bytes = size * (size_t)x->numel;
    return bytes ? cr_move_bytes(out->storage, 0, x->storage, size * (size_t)x->offset, bytes) : CR_OK;
}

/* y = x on another device:  dx = g on x's */
static void transfer_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    dx[0] = cr_to(g, g->dtype, c->in[0]->dev);
}

const cr_op cr_op_transfer = {
    .name = "transfer",
    .arity = 1,
    .params_bytes = sizeof(transfer_params),
    .result_device = transfer_device,
    .contiguous = true,
    .infer = clone_infer,
    .forward = transfer_forward,
    .grad = transfer_grad,
    .batch = cr_batch_same,
    .tangent = cr_tangent_linear,
};

cr_tensor *cr_to(const cr_tensor *x, cr_dtype dt, const cr_device *dev) {
    if (!cr_given("to", "x", x)) return NULL;
    if (!dev) return cr_fail_null("to", "the device"), NULL;
    if (!cr_dtype_valid((int)dt)) return cr_fail(CR_BAD_TYPE, "to", "%d is not a dtype", (int)dt), NULL;
    if (x->dtype == dt && x->dev == dev) return cr_alias(x);
    if (x->dev == dev) return cr_apply(&cr_op_cast, 1, &x, &(cast_params){dt});
    if (x->dtype == dt) return cr_apply(&cr_op_transfer, 1, &x, &(transfer_params){dev});
    const bool later = dev->host && !x->dev->host;   /* cast on the host: a GPU may not have both dtypes */
    cr_scope_begin();
    cr_tensor *half = later ? cr_to(x, x->dtype, dev) : cr_to(x, dt, x->dev);
    return cr_leave(half ? cr_to(half, dt, dev) : NULL);
}

static cr_tensor *detach(const cr_tensor *x, void *ctx) { (void)ctx; return cr_detach(x); }

cr_tensor *cr_detach(const cr_tensor *x) {
    if (!cr_given("detach", "the tensor", x)) return NULL;
    if (!cr_wrapped(x)) return cr_tensor_alias(x, NULL);
    return x->wrapper->tangent ? cr_detach(x->wrapper->value) : cr_map_wrapped(x, detach, NULL);
}

/* ---- in place */

/* (x, y) -> y.  x is an input, so the graph of its old value ends here, with a gradient of zeros.  Where
 * x is a view its base gets a gradient anyway, from replace_part: there are no zeros to add. */
static const double zero[] = {0};
static cr_program
    zeros = {"copy_bwd", "0", CR_RULE_FLOAT, 1, 0, 1, 0, 1, zero, NULL, {1}, -1, true, NULL, NULL, -1, NULL},
    passes = {"copy_bwd", "g", CR_RULE_FLOAT, 1, 0, 0, 0, 1, NULL, NULL, {0}, -1, true, NULL, NULL, -1, NULL};
static cr_gradient of_whole[] = {{&zeros, 1, {3}}, {&passes, 1, {3}}};
static cr_program
    overwrite_part = {"copy_", "b", CR_RULE_ANY, 2, 0, 0, 0, 1, NULL, NULL, {1}, -1, true, NULL, NULL, -1, NULL},
    overwrite = {"copy_", "b", CR_RULE_ANY, 2, 0, 0, 0, 1, NULL, NULL, {1}, -1, true, of_whole, NULL, -1, NULL};

static bool takes_part(const cr_tensor *x) { return cr_grad_enabled() && cr_in_graph(x); }

typedef struct copy_work { cr_tensor *x; const cr_tensor *y; } copy_work;

static cr_status run_copy(const void *work) {
    const copy_work *w = work;
    return cr_copy_elements(w->x, w->y);
}

/* Writes y's elements into x outside any graph; both on one device, y of x's shape by stride 0
 * where it repeats. */
static cr_status write_elements(cr_tensor *x, const cr_tensor *y) {
    cr_tensor *copy = NULL;                         /* where they share memory and may overlap */
    if (x->storage == y->storage) {
        copy = cr_fused(y);
        if (!copy || cr_copy_elements(copy, y) != CR_OK) return cr_release(copy), cr_error_status();
        y = copy;
    }
    cr_status status = cr_execute(&(cr_run){
        .kind = "op", .name = "copy_", .kernel = run_copy, .work = &(copy_work){x, y}, .in_place = true,
        .n_in = 1, .in = &y, .n_out = 1, .out = &x,
    });
    cr_release(copy);
    return status;
}

/* Are x and y the same elements with the same node?  In Python x[0] += 1 ends with such a copy: x[0]
 * = x[0]. */
static bool is_there(const cr_tensor *x, const cr_tensor *y, bool recorded) {
    const cr_base *base = atomic_load_explicit(&x->base, memory_order_relaxed);
    if (!cr_same_elements(x, y)) return false;
    if (!recorded || x->node == y->node) return true;
    return base == atomic_load_explicit(&y->base, memory_order_relaxed) && x->flags & y->flags & CR_FLAG_VIEW;
}

static cr_status copy_into(cr_tensor *x, const cr_tensor *y) {
    bool recorded = cr_dtype_is_float(x->dtype) && (takes_part(x) || takes_part(y));
    cr_status status = cr_check_writable("copy_", x, recorded);
    if (status != CR_OK || is_there(x, y, recorded)) return status;
    const cr_tensor *source = y;
    if (source->dev != x->dev || (recorded && source->dtype != x->dtype)) source = cr_to(source, x->dtype, x->dev);
    if (source && !cr_shape_equal(source->ndim, source->shape, x->ndim, x->shape))
        source = cr_expand(source, x->ndim, x->shape);
    if (!source) return cr_error_status();
    if (!recorded) return write_elements(x, source);
    const cr_program *p = x->flags & CR_FLAG_VIEW ? &overwrite_part : &overwrite;
    return cr_apply_program_(p, x, (const cr_tensor *const[]){x, source}, NULL) ? CR_OK : cr_error_status();
}

cr_tensor *cr_copy_(cr_tensor *x, const cr_tensor *y) {
    int n;
    int64_t shape[CR_MAX_DIMS];
    if (!cr_given("copy_", "x", x) || !cr_given("copy_", "y", y)) return NULL;
    if (cr_broadcast("copy_", x->ndim, x->shape, y->ndim, y->shape, &n, shape) != CR_OK) return NULL;
    if (!cr_shape_equal(n, shape, x->ndim, x->shape))
        return cr_fail(CR_BAD_VALUE, "copy_", "%s does not broadcast into %s", cr_shape_text(y->ndim, y->shape).s,
                       cr_shape_text(x->ndim, x->shape).s),
               NULL;
    cr_scope_begin();
    cr_status status = cr_wrapped(x) || cr_wrapped(y) ? cr_write_wrapped(x, y) : copy_into(x, y);
    cr_scope_end();
    return status == CR_OK ? x : NULL;
}

static cr_status run_fill(const void *work) {
    const cr_fill_args *a = work;
    return a->dst.numel ? a->dst.dev->kernels->fill(a) : CR_OK;
}

cr_tensor *cr_fill_(cr_tensor *x, double value) {
    char element[8];
    if (!cr_given("fill_", "x", x) || cr_element("fill_", value, x->dtype, element) != CR_OK) return NULL;
    if (cr_wrapped(x)) {
        const cr_wrapper *w = x->wrapper;
        return cr_fill_(w->value, value) && (!w->tangent || cr_fill_(w->tangent, 0)) ? x : NULL;
    }
    const bool recorded = takes_part(x);
    if (cr_check_writable("fill_", x, recorded) != CR_OK) return NULL;
    if (recorded) {
        cr_tensor *v = cr_full(CR_ALL, value, x->dtype, x->dev), *done = v ? cr_copy_(x, v) : NULL;
        cr_release(v);
        return done;
    }
    const cr_run r = {
        .kind = "op", .name = "fill_", .kernel = run_fill, .work = &(cr_fill_args){x->array, element},
        .in_place = true, .n_out = 1, .out = &x,
    };
    return cr_execute(&r) == CR_OK ? x : NULL;
}

typedef struct upload_work { cr_tensor *t; const void *src; } upload_work;

static cr_status run_upload(const void *work) {
    const upload_work *w = work;
    cr_tensor *t = w->t;
    const size_t size = cr_dtype_size(t->dtype);
    return cr_upload(t->dev, t->storage, (size_t)t->offset * size, w->src, size * (size_t)t->numel);
}

cr_status cr_write(cr_tensor *t, cr_dtype dt, const void *src, size_t bytes) {
    if (!cr_given("write", "the tensor", t)) return cr_error_status();
    if (!cr_dtype_valid((int)dt)) return cr_fail(CR_BAD_TYPE, "write", "%d is not a dtype", (int)dt);
    if (bytes != cr_dtype_size(dt) * (size_t)t->numel)
        return cr_fail(CR_BAD_VALUE, "write", "%s of %s takes %zu bytes, not %zu", cr_shape_text(t->ndim, t->shape).s,
                       cr_dtype_name(dt), cr_dtype_size(dt) * (size_t)t->numel, bytes);
    if (bytes && !src) return cr_fail_null("write", "src");
    cr_status status = cr_check_writable("write", t, takes_part(t));
    if (status != CR_OK || !bytes) return status;
    if (t->dtype == dt && t->contiguous && !takes_part(t))
        return cr_execute(&(cr_run){
            .kind = "op", .name = "write", .kernel = run_upload, .work = &(upload_work){t, src},
            .in_place = true, .n_out = 1, .out = &t,
        });
    /* cast on the host: a GPU may not have both dtypes */
    const cr_device *where = t->dev->host ? t->dev : cr_cpu();
    cr_tensor *values = cr_from(src, t->ndim, t->shape, dt, where);
    status = values && cr_copy_(t, values) ? CR_OK : cr_error_status();
    cr_release(values);
    return status;
}
