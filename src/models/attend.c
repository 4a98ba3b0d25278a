/* attend.c - attention with what cr_attention lacks: a cap of the scores, a sink of each head, keys on both sides
 * within a distance, scores by distance. */
#include "lm.h"

#include <math.h>

static cr_tensor *seen_mask(const cr_attention_options *o, int64_t T, int64_t S, const cr_device *dev) {
    cr_tensor *query = cr_reshape(cr_arange((double)(S - T), (double)S, 1, CR_I64, dev), CR_LIST(T, 1));
    const cr_tensor *key = cr_arange(0, (double)S, 1, CR_I64, dev);
    cr_tensor *seen = cr_le(key, query);
    if (!o->window) return seen;
    return cr_logical_and(seen, cr_gt(key, cr_sub(query, cr_scalar_int(o->window))));
}

/* The same with keys around each query only. */
static cr_tensor *attend_around(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                                const cr_attend_options *o) {
    const cr_device *dev = cr_device_of(q);
    const cr_tensor *key = cr_arange(0, (double)cr_size(k, 2), 1, CR_I64, dev);
    const cr_tensor *far = cr_abs(cr_sub(key, cr_reshape(key, CR_LIST(-1, 1))));
    cr_attend_options near = *o;
    near.around = 0;
    near.plain.mask = cr_le(far, cr_scalar_int(o->around));
    if (o->plain.mask) near.plain.mask = cr_logical_and(near.plain.mask, o->plain.mask);
    return cr_attend(q, k, v, &near);
}

/* The same with scores added: those of as many tokens as there are. */
static cr_tensor *attend_relative(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v,
                                  const cr_attend_options *o) {
    const int64_t T = cr_size(q, 2);
    cr_attend_options added = *o;
    const cr_tensor *scores = cr_slice(cr_slice(o->relative, 2, 0, T, 1), 3, 0, T, 1);
    added.relative = NULL;
    added.plain.mask = o->plain.mask ? cr_where(o->plain.mask, scores, cr_scalar(-INFINITY)) : scores;
    return cr_attend(q, k, v, &added);
}

cr_tensor *cr_attend(const cr_tensor *q, const cr_tensor *k, const cr_tensor *v, const cr_attend_options *o) {
    if (o->relative && q) return attend_relative(q, k, v, o);
    if (o->around && q && k && cr_size(q, 2) > o->around + 1) return attend_around(q, k, v, o);
    if ((o->cap <= 0 && !o->sinks) || !q || !k || !v) return cr_attention(q, k, v, &o->plain);
    const int64_t B = cr_size(q, 0), H = cr_size(q, 1), T = cr_size(q, 2), D = cr_size(q, 3), KV = cr_size(k, 1),
                  S = cr_size(k, 2), G = H / KV;
    const cr_device *dev = cr_device_of(q);
    const cr_dtype dt = cr_dtype_of(q), wide = dt == CR_F64 ? CR_F64 : CR_F32;
    cr_tensor *grouped = cr_reshape(q, CR_LIST(B, KV, G, T, D)), *keys = cr_reshape(k, CR_LIST(B, KV, 1, S, D));
    cr_tensor *scores = cr_matmul(grouped, cr_transpose(keys, 3, 4));
    scores = cr_mul_scalar(scores, o->plain.scale > 0 ? o->plain.scale : 1 / sqrt((double)D));
    scores = cr_to(cr_capped(scores, o->cap), wide, dev);
    const cr_tensor *seen = o->plain.mask ? o->plain.mask : o->plain.causal ? seen_mask(&o->plain, T, S, dev) : NULL;
    if (seen) scores = cr_where(seen, scores, cr_scalar(-INFINITY));
    if (o->sinks) {
        const cr_tensor *sink = cr_reshape(cr_to(o->sinks, wide, dev), CR_LIST(1, KV, G, 1, 1));
        const cr_tensor *both[] = {scores, cr_expand(sink, CR_LIST(B, KV, G, T, 1))};
        scores = cr_cat(2, both, 4);
    }
    cr_tensor *share = cr_to(cr_softmax(scores, 4), dt, dev);
    if (o->sinks) share = cr_slice(share, 4, 0, S, 1);
    return cr_reshape(cr_matmul(share, cr_reshape(v, CR_LIST(B, KV, 1, S, D))), CR_LIST(B, H, T, D));
}
