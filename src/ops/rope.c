/* rope.c - rotary position embedding (Su et al., arXiv 2104.09864): pairs of columns of x (..., T, D)
 * turn by the angle position * frequency.  A table row holds the cosines, then the sines, of one
 * position: (..., T, R), R <= D, broadcasts over the axes before T.  Pair i is columns i and i + R / 2,
 * or 2 i and 2 i + 1 where interleaved; the columns from R on pass.  One elementwise program on every
 * device.  The table is made in double on the host. */
#include "compose.h"
#include "programs.h"
#include "transform.h"
#include "walk.h"
#include "../dev/elementary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct rope_params { bool interleaved, back; } rope_params;

static cr_status rope_infer(const cr_call *c, cr_meta *out, cr_meta aux[]) {
    const cr_tensor *x = c->in[0], *table = c->in[1];
    (void)aux;
    cr_status status = cr_want_float("rope", x);
    if (status != CR_OK) return status;
    if (table->dtype != wide_dtype(x))
        return cr_fail(CR_BAD_TYPE, "rope", "the table of %s must be %s: %s", cr_dtype_name(x->dtype),
                       cr_dtype_name(wide_dtype(x)), cr_dtype_name(table->dtype));
    bool ok = x->ndim >= 2 && table->ndim >= 1 && table->ndim <= x->ndim;
    for (int i = 2; ok && i <= table->ndim; i++) {
        const int64_t n = table->shape[table->ndim - i];
        ok = n == 1 || n == x->shape[x->ndim - i];
    }
    const int64_t R = ok ? table->shape[table->ndim - 1] : 0;
    if (!ok || R % 2 || R > x->shape[x->ndim - 1])
        return cr_fail(CR_BAD_VALUE, "rope",
                       "takes x (..., T, D) and a table that broadcasts to (..., T, R), R even and at most D: %s, %s",
                       cr_shape_text(x->ndim, x->shape).s, cr_shape_text(table->ndim, table->shape).s);
    *out = cr_meta_of(x);
    return CR_OK;
}

static int64_t rotated(const cr_call *c) { return c->in[1]->shape[c->in[1]->ndim - 1]; }

/* The first, or the second, of each pair of columns. */
static cr_tensor *part(const cr_call *c, const cr_tensor *x, int which) {
    const int64_t R = rotated(c);
    if (((const rope_params *)c->params)->interleaved) return cr_slice(x, -1, which, R, 2);
    return cr_slice(x, -1, which * (R / 2), (which + 1) * (R / 2), 1);
}
static cr_tensor *half(const cr_tensor *table, int which) {     /* cosines; sines */
    const int64_t R = table->shape[table->ndim - 1];
    return cr_slice(table, -1, which * (R / 2), (which + 1) * (R / 2), 1);
}

static cr_status turn(const cr_call *c, cr_tensor *y) {
    const cr_tensor *x = c->in[0], *table = c->in[1];
    const double side = ((const rope_params *)c->params)->back ? -1 : 1;
    const int64_t R = rotated(c), D = x->shape[x->ndim - 1];
    cr_tensor *out[2] = {part(c, y, 0), part(c, y, 1)};
    const cr_tensor *in[4] = {part(c, x, 0), part(c, x, 1), half(table, 0), half(table, 1)};
    cr_walk walk;
    for (int i = 0; i < 4; i++)
        if (!in[i] || !out[i / 2]) return cr_error_status();
    cr_status status = CR_OK;
    if (out[0]->numel) {
        status = cr_walk_fill(&walk, cr_program_find("rotate"), &side, wide_dtype(x), 2, out, 4, in, "rope");
        if (status == CR_OK) status = c->dev->kernels->elementwise(&(cr_elementwise_args){&walk, 1});
    }
    if (status != CR_OK || R == D || !y->numel) return status;
    cr_tensor *rest = cr_slice(y, -1, R, D, 1), *from = cr_slice(x, -1, R, D, 1);
    return rest && from ? cr_copy_elements(rest, from) : cr_error_status();
}

static cr_status rope_forward(const cr_call *c, cr_tensor *y, cr_tensor *const aux[]) {
    (void)aux;
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    const cr_status status = turn(c, y);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    return status;
}

static cr_tensor *rope(const cr_tensor *x, const cr_tensor *table, bool interleaved, bool back) {
    return cr_apply(&cr_op_rope, 2, (const cr_tensor *const[]){x, table}, &(rope_params){interleaved, back});
}

/* y = a c - b s,  z = b c + a s:  the opposite angle for a and b;  dc = gy a + gz b,  ds = gz a - gy b */
static void rope_grad(const cr_call *c, const cr_tensor *g, cr_tensor *dx[]) {
    const rope_params *p = c->params;
    if (c->needs[0]) dx[0] = rope(g, c->in[1], p->interleaved, !p->back);
    if (!c->needs[1]) return;
    cr_tensor *x = widened(c->in[0]), *w = widened(g), *a = part(c, x, 0), *b = part(c, x, 1), *y = part(c, w, 0),
              *z = part(c, w, 1);
    cr_tensor *ds = p->back ? sub(mul(y, b), mul(z, a)) : sub(mul(z, a), mul(y, b));
    dx[1] = cr_cat(2, (const cr_tensor *const[]){add(mul(y, a), mul(z, b)), ds}, -1);
}

/* The columns from R on do not depend on the table. */
static cr_tensor *rope_tangent(const cr_call *c, const cr_tensor *const *t) {
    const rope_params *p = c->params;
    const cr_tensor *x = c->in[0];
    const int64_t R = rotated(c), D = x->shape[x->ndim - 1];
    cr_tensor *sum = t[0] == CR_NONE ? same(CR_NONE) : rope(t[0], c->in[1], p->interleaved, p->back);
    if (t[1] == CR_NONE || !sum) return sum;
    if (R < D) {
        cr_tensor *turned = cr_slice(x, -1, 0, R, 1), *rest = cr_zeros_like(cr_slice(x, -1, R, D, 1));
        x = turned && rest ? cr_cat(2, (const cr_tensor *const[]){turned, rest}, -1) : NULL;
    }
    return x ? cr_tangent_sum(sum, rope(x, t[1], p->interleaved, p->back)) : NULL;
}

static cr_tensor *rope_batch(const cr_batched *b) {
    const int n = b->call->in[0]->ndim;
    const cr_tensor *in[] = {cr_batch_in(b, 0), cr_batch_aligned(b, 1, n)};
    return cr_batch_apply(b, in, b->call->params);
}

extern const cr_op cr_op_rope;
const cr_op cr_op_rope = {
    .name = "rope",
    .arity = 2,
    .params_bytes = sizeof(rope_params),
    .saves = CR_SAVE_IN(0) | CR_SAVE_IN(1),
    .infer = rope_infer,
    .forward = rope_forward,
    .grad = rope_grad,
    .batch = rope_batch,
    .tangent = rope_tangent,
};

cr_tensor *cr_rope(const cr_tensor *x, const cr_tensor *table, bool interleaved) {
    return rope(x, table, interleaved, false);
}

/* ---- the table */

static double or_else(double v, double otherwise) { return v == 0 ? otherwise : v; }

/* 1 in the columns that keep their frequency, 0 in those that are interpolated (YaRN, Peng et al., arXiv
 * 2309.00071, "NTK-by-parts"): by the number of turns within the original context. */
static double kept_share(const cr_rope_options *o, int64_t R, double base, int64_t i) {
    const double turns[2] = {or_else(o->beta_fast, 32), or_else(o->beta_slow, 1)};
    double at[2];
    for (int k = 0; k < 2; k++)
        at[k] = (double)R * cr_f64_log(o->original / (turns[k] * 2 * acos(-1))) / (2 * cr_f64_log(base));
    if (!o->untruncated) at[0] = floor(at[0]), at[1] = ceil(at[1]);
    at[0] = fmax(at[0], 0), at[1] = fmin(at[1], (double)R - 1);
    if (at[0] == at[1]) at[1] += 0.001;
    return 1 - fmin(fmax(((double)i - at[0]) / (at[1] - at[0]), 0), 1);
}

static double frequency(const cr_rope_options *o, int64_t R, double base, int64_t i, bool long_text) {
    const double plain = cr_f64_power(base, -2 * (double)i / (double)R), slow = plain / or_else(o->factor, 1);
    switch (o->scaling) {
        case CR_ROPE_LINEAR: return slow;
        case CR_ROPE_YARN: {
            const double keep = kept_share(o, R, base, i);
            return slow * (1 - keep) + plain * keep;
        }
        case CR_ROPE_LLAMA3: {                      /* by the number of turns within the original context */
            const double turns = o->original * plain / (2 * acos(-1));
            const double low = or_else(o->low, 1), high = or_else(o->high, 4);
            const double keep = fmin(fmax((turns - low) / (high - low), 0), 1);
            return slow * (1 - keep) + plain * keep;
        }
        case CR_ROPE_LONG: return plain / o->divisors[long_text][i];
        default: return plain;
    }
}

static double yarn_scale(double factor, double weight) {
    return factor <= 1 ? 1 : 0.1 * weight * cr_f64_log(factor) + 1;
}

/* Factor of all cosines and sines. */
static double amplitude(const cr_rope_options *o) {
    if (o->scaling != CR_ROPE_YARN && o->scaling != CR_ROPE_LONG) return 1;
    if (o->attention_factor != 0) return o->attention_factor;
    if (o->scaling == CR_ROPE_LONG)
        return o->factor <= 1 ? 1 : sqrt(1 + cr_f64_log(o->factor) / cr_f64_log(o->original));
    if (o->mscale != 0 && o->mscale_all_dim != 0)
        return yarn_scale(o->factor, o->mscale) / yarn_scale(o->factor, o->mscale_all_dim);
    return yarn_scale(o->factor, 1);
}

static cr_status check_options(const cr_rope_options *o, int64_t n, int64_t R, double base) {
    if (n < 0 || R < 0 || R % 2)
        return cr_fail(CR_BAD_VALUE, "rope_table", "needs a number of rows and an even number of columns: %lld, %lld",
                       (long long)n, (long long)R);
    if (!(base > 1) || !isfinite(base))
        return cr_fail(CR_BAD_VALUE, "rope_table", "the base must be above 1: %g", base);
    if (o->scaling < CR_ROPE_PLAIN || o->scaling > CR_ROPE_LONG)
        return cr_fail(CR_BAD_VALUE, "rope_table", "unknown scaling %d", (int)o->scaling);
    if (o->scaling == CR_ROPE_PLAIN) return CR_OK;
    if (o->scaling == CR_ROPE_LONG && (!o->divisors[0] || !o->divisors[1]))
        return cr_fail_null("rope_table", "the divisors");
    if (!(o->factor >= 1 || (o->scaling == CR_ROPE_LONG && o->factor > 0)) || !isfinite(o->factor))
        return cr_fail(CR_BAD_VALUE, "rope_table", "the factor of the scaling must be at least 1: %g", o->factor);
    if (o->scaling != CR_ROPE_LINEAR && !(o->original >= 1 && isfinite(o->original)))
        return cr_fail(CR_BAD_VALUE, "rope_table", "this scaling needs the original number of positions: %g",
                       o->original);
    if (o->scaling == CR_ROPE_LLAMA3 && !(or_else(o->high, 4) > or_else(o->low, 1)))
        return cr_fail(CR_BAD_VALUE, "rope_table", "the high factor must be above the low one: %g, %g", o->high,
                       o->low);
    return CR_OK;
}

cr_tensor *cr_rope_table(int64_t n, int64_t R, const cr_rope_options *options, cr_dtype dt, const cr_device *dev) {
    const cr_rope_options o = options ? *options : (cr_rope_options){0};
    double base = or_else(o.base, 10000);
    if (check_options(&o, n, R, base) != CR_OK) return NULL;
    if (dt != CR_F32 && dt != CR_F64)
        return cr_fail(CR_BAD_TYPE, "rope_table", "the dtype must be float32 or float64: %s", cr_dtype_name(dt)), NULL;
    const double length = o.length ? (double)o.length : (double)(o.start + n);
    if (o.scaling == CR_ROPE_DYNAMIC && length > o.original && R > 2)
        base *= cr_f64_power(o.factor * length / o.original - (o.factor - 1), (double)R / (double)(R - 2));
    cr_scope_begin();
    cr_tensor *table = cr_empty(CR_LIST(n, R), CR_F64, cr_cpu());
    if (!table) return cr_leave(NULL);
    double *to = cr_data(table);
    const double size = amplitude(&o);
    for (int64_t i = 0; i < R / 2; i++) {
        const double f = frequency(&o, R, base, i, length > o.original);
        for (int64_t p = 0; p < n; p++) {
            const double angle = (double)(o.start + p) * f;
            to[p * R + i] = size * cr_f64_cos(angle);
            to[p * R + R / 2 + i] = size * cr_f64_sin(angle);
        }
    }
    return cr_leave(cr_to(table, dt, dev));
}
