/* autocast.c - mixed precision: the policy of each op, the regions of a thread, and the casts of weights.
 *
 * cr_apply asks for each structured op, before the shapes are inferred.  A cast is recorded as any
 * cast is, so a gradient comes back in the dtype of its leaf.  An f32 leaf is cast once for all ops
 * until the outermost region ends or the leaf is written.  Where an optimizer keeps a copy of the leaf
 * (cr_optim_mirror), that copy is the cast, and nothing is converted. */
#include "compose.h"
#include "../core/out.h"

#include <stdlib.h>
#include <string.h>

/* ---- the policy: PyTorch's, of its cpu device.  Sorted by name: an op, or a function of Python that other
 * ops make up.  What is not listed runs in the dtypes of its operands. */
static const struct { const char *name; cr_cast_policy policy; } table[] = {
    {"adaptive_avg_pool3d", CR_CAST_F32},
    {"adaptive_max_pool3d", CR_CAST_F32},
    {"addbmm", CR_CAST_LOW},
    {"addmm", CR_CAST_LOW},
    {"addmv", CR_CAST_NONE},
    {"attention", CR_CAST_LOW},
    {"attention_packed", CR_CAST_LOW},
    {"avg_pool3d", CR_CAST_F32},
    {"baddbmm", CR_CAST_LOW},
    {"bilinear", CR_CAST_NONE},
    {"binary_cross_entropy", CR_CAST_F32},
    {"binary_cross_entropy_with_logits", CR_CAST_F32},
    {"cdist", CR_CAST_F32},
    {"conv", CR_CAST_LOW},
    {"cosine_embedding_loss", CR_CAST_F32},
    {"ctc_loss", CR_CAST_F32},
    {"dot", CR_CAST_NONE},
    {"einsum", CR_CAST_LOW},
    {"fractional_max_pool2d", CR_CAST_F32},
    {"fractional_max_pool3d", CR_CAST_F32},
    {"ger", CR_CAST_NONE},
    {"grid_sample", CR_CAST_F32},
    {"group_norm", CR_CAST_FIRST},
    {"hinge_embedding_loss", CR_CAST_F32},
    {"huber_loss", CR_CAST_F32},
    {"index_copy", CR_CAST_WIDEST},
    {"kl_div", CR_CAST_F32},
    {"l1_loss", CR_CAST_F32},
    {"layer_norm", CR_CAST_FIRST},
    {"linear", CR_CAST_LOW},
    {"linear_gelu", CR_CAST_LOW},
    {"linear_packed", CR_CAST_LOW},
    {"margin_ranking_loss", CR_CAST_F32},
    {"matmul", CR_CAST_LOW},
    {"max_pool3d", CR_CAST_F32},
    {"max_unpool2d", CR_CAST_F32},
    {"max_unpool3d", CR_CAST_F32},
    {"mse_loss", CR_CAST_F32},
    {"multi_margin_loss", CR_CAST_F32},
    {"multilabel_margin_loss", CR_CAST_F32},
    {"mv", CR_CAST_NONE},
    {"nanquantile", CR_CAST_F32},
    {"nll_loss", CR_CAST_F32},
    {"outer", CR_CAST_NONE},
    {"poisson_nll_loss", CR_CAST_F32},
    {"prelu", CR_CAST_LOW},
    {"prod", CR_CAST_F32},
    {"quantile", CR_CAST_F32},
    {"recurrent", CR_CAST_LOW},
    {"rms_norm", CR_CAST_FIRST},
    {"smooth_l1_loss", CR_CAST_F32},
    {"soft_margin_loss", CR_CAST_F32},
    {"tensordot", CR_CAST_LOW},
    {"trace", CR_CAST_F32},
    {"triplet_margin_loss", CR_CAST_F32},
    {"vdot", CR_CAST_NONE},
};
enum { ROWS = sizeof table / sizeof *table };

cr_cast_policy cr_autocast_policy(const char *op) {
    int low = 0, high = ROWS;
    if (!op) return cr_fail_null("autocast_policy", "the op"), CR_CAST_UNLISTED;
    while (low < high) {
        const int middle = (low + high) / 2, order = strcmp(op, table[middle].name);
        if (!order) return table[middle].policy;
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return CR_CAST_UNLISTED;
}

const char *cr_autocast_listed(int i) { return i < 0 || i >= ROWS ? NULL : table[i].name; }

/* ---- the regions of a thread */
typedef struct region { struct region *outer; cr_cast_state before; } region;

static _Thread_local cr_cast_state now;
static _Thread_local region *innermost;

static void turn(bool on) { now.on = cr_modes.casting = on; }

cr_cast_state cr_set_casts(cr_cast_state c) {
    const cr_cast_state old = now;
    now = c;
    turn(c.on);
    return old;
}

cr_cast_state cr_casts_off(void) { const cr_cast_state old = now; turn(false); return old; }
bool cr_autocasting(void) { return now.on; }

/* The devices of a type share their kernels. */
static cr_dtype low_dtype(const cr_device *dev) {
    for (int i = 0; i < CR_CAST_DEVICES; i++)
        if (now.kernels[i] == dev->kernels) return now.dtype[i];
    return CR_F32;
}

cr_dtype cr_autocast_dtype(const cr_device *dev) {
    if (!dev) return cr_fail_null("autocast_dtype", "the device"), CR_F32;
    return now.on ? low_dtype(dev) : CR_F32;
}

bool cr_set_autocast(bool on) { const bool old = now.on; turn(on && innermost); return old; }

cr_status cr_autocast_begin(const cr_device *dev, cr_dtype dt, bool cache) {
    if (!dev) return cr_fail_null("autocast_begin", "the device");
    if (dt != CR_BF16 && dt != CR_F16 && dt != CR_F32)
        return cr_fail(CR_BAD_TYPE, "autocast_begin", "the dtype must be bfloat16, float16, or float32 for none: %s",
                       cr_dtype_valid((int)dt) ? cr_dtype_name(dt) : "no dtype");
    int i = 0;
    while (i < CR_CAST_DEVICES && now.kernels[i] && now.kernels[i] != dev->kernels) i++;
    if (i == CR_CAST_DEVICES)
        return cr_fail(CR_RUNTIME, "autocast_begin", "more than %d types of devices", CR_CAST_DEVICES);
    region *r = malloc(sizeof *r);
    if (!r) return cr_no_memory("autocast_begin");
    *r = (region){innermost, now};
    innermost = r;
    now.kernels[i] = dev->kernels;
    now.dtype[i] = dt;
    now.cache = cache;
    turn(true);
    return CR_OK;
}

cr_status cr_autocast_end(void) {
    region *r = innermost;
    if (!r) return cr_fail(CR_RUNTIME, "autocast_end", "no region has begun");
    cr_set_casts(r->before);
    innermost = r->outer;
    free(r);
    if (!innermost) cr_autocast_clear();
    return CR_OK;
}

/* ---- the casts of leaves, of this thread */
typedef struct entry {
    const cr_tensor *leaf;                          /* held */
    cr_tensor *cast;                                /* held; NULL: none now */
    unsigned version;                               /* of the leaf's storage when it was cast */
    bool recorded;
    cr_tensor *copy;                                /* held: kept by an optimizer; NULL: none */
    unsigned lag;                                   /* while the copy is current: writes to the leaf less writes to
                                                     * the copy */
} entry;
static _Thread_local struct { entry *at; int n, next; int64_t room; } casts;

/* The ops of a step ask in the same order each time, so the search begins behind the last one found. */
static entry *find_cast(const cr_tensor *leaf) {
    for (int k = 0; k < casts.n; k++) {
        const int i = casts.next + k < casts.n ? casts.next + k : casts.next + k - casts.n;
        if (casts.at[i].leaf != leaf) continue;
        casts.next = i + 1;
        return &casts.at[i];
    }
    return NULL;
}

static entry *entry_of(const cr_tensor *leaf) {
    entry *e = find_cast(leaf);
    if (e) return e;
    if (!cr_grow(&casts.at, casts.n + 1, &casts.room, sizeof *casts.at))
        return cr_no_memory("autocast"), NULL;
    casts.next = casts.n + 1;
    e = &casts.at[casts.n++];
    *e = (entry){.leaf = cr_retain(leaf)};
    return e;
}

static void drop_cast(entry *e) {
    cr_drop(e->cast);
    e->cast = NULL;
}

static void drop_entry(entry *e) {
    drop_cast(e);
    cr_drop(e->copy);
    cr_drop(e->leaf);
    *e = casts.at[--casts.n];
    if (casts.next > casts.n) casts.next = 0;       /* the search begins within the table */
}

void cr_autocast_clear(void) {
    for (int i = casts.n - 1; i >= 0; i--) {
        drop_cast(&casts.at[i]);
        if (!casts.at[i].copy) drop_entry(&casts.at[i]);
    }
    casts.next = 0;
    if (casts.n) return;
    free(casts.at);
    casts.at = NULL;
    casts.room = 0;
}

static unsigned writes(const cr_tensor *t) { return cr_storage_writes(t->storage); }

cr_status cr_autocast_copy(const cr_tensor *leaf, cr_tensor *copy) {
    static const char op[] = "autocast_copy";
    if (!cr_given(op, "the parameter", leaf) || cr_missing(op, "the copy", copy)) return cr_error_status();
    entry *e = find_cast(leaf);
    if (copy == CR_NONE) {
        if (e) drop_entry(e);
        return CR_OK;
    }
    if (!cr_dtype_is_half(copy->dtype) || leaf->dtype != CR_F32)
        return cr_fail(CR_BAD_TYPE, op, "a copy of a float32 parameter in half precision: %s, %s",
                       cr_dtype_name(leaf->dtype), cr_dtype_name(copy->dtype));
    if (!cr_shape_equal(leaf->ndim, leaf->shape, copy->ndim, copy->shape) || leaf->dev != copy->dev)
        return cr_fail(CR_BAD_VALUE, op, "the copy must have the shape %s and the device %s: %s, %s",
                       cr_shape_text(leaf->ndim, leaf->shape).s, leaf->dev->name,
                       cr_shape_text(copy->ndim, copy->shape).s, copy->dev->name);
    if (!(e = entry_of(leaf))) return cr_error_status();
    drop_cast(e);
    cr_drop(e->copy);
    e->copy = cr_retain(copy);
    e->lag = writes(leaf) - writes(copy);
    return CR_OK;
}

/* leaf as its copy, which is written first where the leaf was written by others than its optimizer */
static cr_tensor *from_copy(const cr_tensor *leaf, entry *e) {
    if (writes(leaf) - writes(e->copy) != e->lag) {
        const bool recording = cr_set_grad_enabled(false);
        const bool written = cr_copy_(e->copy, leaf);
        cr_set_grad_enabled(recording);
        if (!written) return NULL;
        e->lag = writes(leaf) - writes(e->copy);
    }
    cr_tensor *y = cr_tensor_alias(e->copy, NULL);
    if (!y || cr_cast_recorded(leaf, y) == CR_OK) return y;
    cr_release(y);
    return NULL;
}

static const cr_tensor *cast_of_leaf(const cr_tensor *leaf, cr_dtype dt) {
    entry *e = entry_of(leaf);
    const bool recorded = cr_grad_enabled() && cr_in_graph(leaf);
    if (!e) return NULL;
    if (e->cast && e->cast->dtype == dt && e->version == writes(leaf) && e->recorded == recorded) return e->cast;
    drop_cast(e);
    cr_tensor *y = e->copy && e->copy->dtype == dt ? from_copy(leaf, e) : cr_to(leaf, dt, leaf->dev);
    if (!y) return NULL;
    e->cast = cr_retain(y);
    e->version = writes(leaf);
    e->recorded = recorded;
    return y;
}

static bool is_leaf(const cr_tensor *t) {
    return t->flags & CR_FLAG_REQUIRES_GRAD && ((const cr_node_head *)(const void *)t->node)->leaf;
}

/* owned by the scope, or by the thread's casts */
static const cr_tensor *cast_operand(const cr_tensor *t, cr_dtype dt) {
    if (cr_modes.noting) cr_note(1, &t);            /* the op will read a cast that is in no graph */
    return now.cache && innermost && t->dtype == CR_F32 && is_leaf(t) ? cast_of_leaf(t, dt) : cr_to(t, dt, t->dev);
}

cr_tensor *cr_autocast_cast(const cr_tensor *x, cr_dtype dt) {
    if (!cr_given("autocast_cast", "x", x)) return NULL;
    cr_scope_begin();
    const cr_tensor *y = cast_operand(x, dt);
    return cr_leave(y && y != x ? cr_alias(y) : same(y));
}

/* ---- the casts of a call */

/* Is t a tensor of floats that autocast may change?  As in PyTorch, float64 stays. */
static bool eligible(const cr_tensor *t) {
    return t && t != CR_NONE && cr_dtype_is_float(t->dtype) && t->dtype != CR_F64;
}

static cr_dtype widest(int n, const cr_tensor *const *in) {
    cr_dtype dt = CR_DTYPES;
    for (int i = 0; i < n; i++)
        if (eligible(in[i])) dt = dt == CR_DTYPES ? in[i]->dtype : cr_promote(dt, in[i]->dtype);
    return dt;
}

static cr_dtype wanted(const char *op, const cr_device *dev, int n, const cr_tensor *const *in) {
    const cr_dtype low = low_dtype(dev);
    if (low == CR_F32) return CR_DTYPES;
    switch (cr_autocast_policy(op)) {
        case CR_CAST_LOW: return low;
        case CR_CAST_F32: return CR_F32;
        case CR_CAST_FIRST: return eligible(in[0]) ? in[0]->dtype : CR_DTYPES;
        case CR_CAST_WIDEST: return widest(n, in);
        case CR_CAST_NONE: case CR_CAST_UNLISTED: break;
    }
    return CR_DTYPES;
}

cr_status cr_autocast_inputs(const char *op, const cr_device *dev, int n, const cr_tensor **in) {
    const cr_dtype dt = wanted(op, dev, n, in);
    for (int i = 0; dt != CR_DTYPES && i < n; i++) {
        if (!eligible(in[i]) || in[i]->dtype == dt || in[i]->dev != dev) continue;
        if (!(in[i] = cast_operand(in[i], dt))) return cr_error_status();
    }
    return CR_OK;
}
