/* mixed.c - autocast of functions that several ops make up: their inputs are cast as the policy says, and the ops
 * inside run without it.  The library casts the inputs of single ops itself. */
#include "extension.h"

/* May autocast change t? */
static bool eligible(const cr_tensor *t) {
    return t && !cr_is_none(t) && cr_dtype_is_float(cr_dtype_of(t)) && cr_dtype_of(t) != CR_F64;
}

static cr_dtype widest(const entry *e, const arg *a) {
    cr_dtype dt = CR_DTYPES;
    for (int i = 0; i < e->count; i++) {
        if (e->params[i].kind > OPERAND || !a[i].given || !eligible(a[i].t)) continue;
        dt = dt == CR_DTYPES ? cr_dtype_of(a[i].t) : cr_promote(dt, cr_dtype_of(a[i].t));
    }
    return dt;
}

/* The device of the first tensor that autocast may change; NULL: there is none. */
static const cr_device *device_of(const entry *e, const arg *a) {
    for (int i = 0; i < e->count; i++) {
        if (e->params[i].kind <= OPERAND && a[i].given && eligible(a[i].t)) return cr_device_of(a[i].t);
        for (int k = 0; e->params[i].kind == TENSORS && k < a[i].list.n; k++)
            if (eligible(a[i].list.v[k])) return cr_device_of(a[i].list.v[k]);
    }
    return NULL;
}

static bool cast_one(cr_tensor **t, cr_dtype dt, bool owned) {
    if (!eligible(*t) || cr_dtype_of(*t) == dt) return true;
    cr_tensor *y = cr_autocast_cast(*t, dt);
    if (!y) return false;
    if (owned) {
        cr_release(*t);
    } else {
        cr_drop(*t);
        cr_tensor *kept = cr_retain(y);
        cr_release(y);
        y = kept;
    }
    *t = y;
    return true;
}

static bool cast_all(const entry *e, arg *a, cr_dtype dt) {
    bool ok = true;
    for (int i = 0; ok && i < e->count; i++) {
        if (e->params[i].kind <= OPERAND && a[i].given) ok = cast_one(&a[i].t, dt, a[i].owned);
        for (int k = 0; ok && e->params[i].kind == TENSORS && k < a[i].list.n; k++)
            ok = cast_one((cr_tensor **)(uintptr_t)&a[i].list.v[k], dt, false);
    }
    return ok;
}

bool mixed_begin(const entry *e, arg *a, bool *suspended) {
    const cr_device *dev;
    *suspended = false;
    if (!cr_autocasting() || e->inplace || !(dev = device_of(e, a))) return true;
    const cr_dtype low = cr_autocast_dtype(dev);
    const cr_cast_policy policy = cr_autocast_policy(e->name);
    if (low == CR_F32 || policy == CR_CAST_UNLISTED || policy == CR_CAST_FIRST) return true;
    const cr_dtype dt = policy == CR_CAST_LOW   ? low
                        : policy == CR_CAST_F32 ? CR_F32
                        : policy == CR_CAST_WIDEST ? widest(e, a)
                                                   : CR_DTYPES;
    *suspended = cr_set_autocast(false);
    if (dt == CR_DTYPES || cast_all(e, a, dt)) return true;
    cr_set_autocast(true);
    return raise_error();
}

void mixed_end(bool suspended) {
    if (suspended) cr_set_autocast(true);
}
