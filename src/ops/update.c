/* update.c - cr_program_update: one program over many sets of tensors, in place, in one kernel call
 * (the step of an optimizer). */
#include "compose.h"
#include "programs.h"
#include "transform.h"
#include "walk.h"

#include <stdlib.h>
#include <string.h>

/* Where a tensor's elements lie: the bytes [low, high) of a storage. */
typedef struct range { const cr_storage *storage; int64_t low, high, item; const cr_tensor *t; } range;

static range range_of(const cr_tensor *t, int64_t item) {
    int64_t low = t->offset, high = t->offset + (t->numel > 0), bytes = (int64_t)cr_dtype_size(t->dtype);
    for (int i = 0; i < t->ndim && t->numel; i++) {
        int64_t reach = (t->shape[i] - 1) * t->strides[i];
        if (reach < 0) low += reach;
        else high += reach;
    }
    return (range){t->storage, low * bytes, high * bytes, item, t};
}

static int by_address(const void *x, const void *y) {
    const range *a = x, *b = y;
    if (a->storage != b->storage) return (uintptr_t)a->storage < (uintptr_t)b->storage ? -1 : 1;
    return (a->low > b->low) - (a->low < b->low);
}

/* The first of the sorted, disjoint written ranges that r touches, or NULL. */
static const range *touched(const range *written, int64_t n, const range *r) {
    int64_t low = 0, high = n;                      /* the first one that ends after r begins */
    while (low < high) {
        int64_t mid = (low + high) / 2;
        const range *w = &written[mid];
        bool before = w->storage != r->storage ? (uintptr_t)w->storage < (uintptr_t)r->storage : w->high <= r->low;
        if (before) low = mid + 1;
        else high = mid;
    }
    const range *w = &written[low];
    return low < n && w->storage == r->storage && w->low < r->high && r->high > r->low ? w : NULL;
}

/* The runs are independent: no run may read or write what another run writes.  An input may be the
 * same elements as a result of its own run. */
static cr_status check_overlap(const cr_program *p, int64_t count, cr_tensor *const *out, const cr_tensor *const *in) {
    int64_t n = 0;
    range *written = malloc(sizeof *written * (size_t)(count * p->n_out));
    if (!written) return cr_no_memory(p->name);
    for (int64_t i = 0; i < count * p->n_out; i++)
        if (out[i]->numel) written[n++] = range_of(out[i], i / p->n_out);
    qsort(written, (size_t)n, sizeof *written, by_address);
    cr_status status = CR_OK;
    for (int64_t i = 1; i < n && status == CR_OK; i++)
        if (written[i].storage == written[i - 1].storage && written[i].low < written[i - 1].high)
            status = cr_fail(CR_BAD_VALUE, p->name, "results of tensors %lld and %lld share memory",
                             (long long)written[i - 1].item, (long long)written[i].item);
    for (int64_t i = 0; i < count * p->n_in && status == CR_OK; i++) {
        range r = range_of(in[i], i / p->n_in);
        const range *w = touched(written, n, &r);
        if (w && (w->item != r.item || !cr_same_elements(w->t, r.t)))
            status = cr_fail(CR_BAD_VALUE, p->name,
                             "input %d of tensor %lld overlaps what is written to tensor %lld: clone it first",
                             (int)(i % p->n_in), (long long)r.item, (long long)w->item);
    }
    free(written);
    return status;
}

static cr_status check_tensor(const cr_program *p, const cr_tensor *t, const char *what, int64_t item,
                              const cr_device *dev) {
    if (cr_missing(p->name, what, t)) return cr_error_status();
    if (t == CR_NONE || !t->storage)
        return cr_fail(CR_BAD_VALUE, p->name, "%s of tensor %lld is CR_NONE", what, (long long)item);
    if (t->dev != dev)
        return cr_fail(CR_BAD_VALUE, p->name, "operands on two devices, %s and %s: move one with cr_to", dev->name,
                       t->dev->name);
    if (cr_want_elements(p->name, t) != CR_OK) return cr_error_status();
    if (!cr_dtype_is_float(t->dtype))
        return cr_fail(CR_BAD_TYPE, p->name, "%s of tensor %lld is %s: updates take floats", what, (long long)item,
                       cr_dtype_name(t->dtype));
    return CR_OK;
}

static cr_status check_item(const cr_program *p, int64_t item, cr_tensor *const *out, const cr_tensor *const *in,
                            const cr_device *dev) {
    for (int r = 0; r < p->n_out; r++) {
        if (check_tensor(p, out[r], "a result", item, dev) != CR_OK) return cr_error_status();
        bool wants = cr_grad_enabled() && cr_in_graph(out[r]);
        if (wants)
            return cr_fail(CR_RUNTIME, p->name,
                           "result %d of tensor %lld requires grad: updates are not recorded, turn the gradient mode "
                           "off around them",
                           r, (long long)item);
        if (cr_check_writable(p->name, out[r], false) != CR_OK) return cr_error_status();
    }
    for (int k = 0; k < p->n_in; k++)
        if (check_tensor(p, in[k], "an input", item, dev) != CR_OK) return cr_error_status();
    return CR_OK;
}

static cr_status check_items(const cr_program *p, int64_t count, cr_tensor *const *out, const cr_tensor *const *in) {
    const cr_device *dev = out[0] ? out[0]->dev : NULL;
    for (int64_t i = 0; i < count; i++)
        if (check_item(p, i, out + i * p->n_out, in + i * p->n_in, dev) != CR_OK) return cr_error_status();
    return check_overlap(p, count, out, in);
}

static cr_status fill_walks(cr_walk *walks, const cr_program *p, int64_t count, cr_tensor *const *out,
                            const cr_tensor *const *in, const double *params) {
    for (int64_t i = 0; i < count; i++) {
        const cr_tensor *const *item = in + i * p->n_in;
        cr_dtype compute, result;
        if (cr_rule_dtypes(p, item, &compute, &result) != CR_OK ||
            cr_walk_fill(&walks[i], p, params, compute, p->n_out, out + i * p->n_out, p->n_in, item, p->name) != CR_OK)
            return cr_error_status();
    }
    return CR_OK;
}

static cr_status execute(const cr_program *p, int64_t count, cr_tensor *const *out, const cr_tensor *const *in,
                         cr_status (*kernel)(const void *), const void *work) {
    return cr_execute(&(cr_run){
        .kind = "update", .name = p->name, .kernel = kernel, .work = work, .in_place = true,
        .n_in = (int)count * p->n_in, .in = in, .n_out = (int)count * p->n_out, .out = out,
    });
}

static cr_status check_call(const cr_program *p, cr_tensor *const *out, const cr_tensor *const *in,
                            const double *params) {
    if (!out || !in) return cr_fail_null(p->name, !out ? "out" : "in");
    return p->n_param && !params ? cr_fail(CR_BAD_VALUE, p->name, "takes %d params, got NULL", p->n_param) : CR_OK;
}

cr_status cr_program_update(const cr_program *p, int64_t count, cr_tensor *const *out, const cr_tensor *const *in,
                            const double *params) {
    if (!p) return cr_fail_null("program", "the program");
    if (count < 0 || count > INT32_MAX)
        return cr_fail(CR_BAD_VALUE, p->name, "%lld tensors: 0 to %d", (long long)count, INT32_MAX);
    if (count == 0) return CR_OK;
    cr_status status = check_call(p, out, in, params);
    if (status != CR_OK) return status;
    cr_walk *walks = malloc(sizeof *walks * (size_t)count);
    if (!walks) return cr_no_memory(p->name);
    status = check_items(p, count, out, in);
    if (status == CR_OK) status = fill_walks(walks, p, count, out, in, params);
    if (status == CR_OK) status = execute(p, count, out, in, cr_run_walks, &(cr_elementwise_args){walks, count});
    free(walks);
    return status;
}

static cr_status run_by_product(const void *work) {
    const cr_update_by_product_args *a = work;
    return a->update->out[0].storage->dev->kernels->update_by_product(a);
}

static bool dense(const cr_tensor *t) { return t && t != CR_NONE && t->contiguous; }

static cr_status check_product(const cr_program *p, const cr_tensor *like, const cr_tensor *a, const cr_tensor *b) {
    const bool matrices = a->ndim == 2 && b->ndim == 2 && like->ndim == 2 && a->shape[1] == b->shape[0];
    if (matrices && a->shape[0] == like->shape[0] && b->shape[1] == like->shape[1]) return CR_OK;
    return cr_fail(CR_BAD_VALUE, p->name, "the product %s x %s is not an input of shape %s",
                   cr_shape_text(a->ndim, a->shape).s, cr_shape_text(b->ndim, b->shape).s,
                   cr_shape_text(like->ndim, like->shape).s);
}

/* Can the kernel compute the input `like` as a b while it updates? */
static bool takes_product(const cr_program *p, cr_tensor *const *out, const cr_tensor *const *in, const cr_tensor *like,
                          const cr_tensor *a, const cr_tensor *b) {
    if (!out[0]->dev->kernels->update_by_product || !out[0]->numel) return false;
    if (a->dtype != like->dtype || b->dtype != like->dtype || a->dev != like->dev || b->dev != like->dev) return false;
    for (int i = 0; i < p->n_out; i++)
        if (!dense(out[i])) return false;
    for (int i = 0; i < p->n_in; i++)
        if (!dense(in[i])) return false;
    return true;
}

cr_status cr_program_update_product(const cr_program *p, cr_tensor *const *out, const cr_tensor *const *in,
                                    const double *params, int input, const cr_tensor *a, const cr_tensor *b,
                                    bool *taken) {
    if (!p) return cr_fail_null("program", "the program");
    if (!taken) return cr_fail_null(p->name, "taken");
    *taken = false;
    cr_status status = check_call(p, out, in, params);
    if (status != CR_OK) return status;
    if (input < 0 || input >= p->n_in) return cr_fail(CR_BAD_VALUE, p->name, "input %d of %d", input, p->n_in);
    if (!cr_given(p->name, "a", a) || !cr_given(p->name, "b", b) || !cr_given(p->name, "a result", out[0]) ||
        !cr_given(p->name, "an input", in[input]) || check_product(p, in[input], a, b) != CR_OK)
        return cr_error_status();
    if (!takes_product(p, out, in, in[input], a, b)) return CR_OK;
    cr_walk walk;
    *taken = true;
    status = check_items(p, 1, out, in);
    if (status == CR_OK) status = fill_walks(&walk, p, 1, out, in, params);
    if (status != CR_OK) return status;
    const cr_update_by_product_args work = {&walk, input, a->array, b->array, cr_product_how()};
    return execute(p, 1, out, in, run_by_product, &work);
}
