/* cache.c - keys and values of one text: in the model's dtype, another float dtype, or int8 with a scale
 * for each head and position; attention over them; their file. */
#include "lm.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"

/* ---- memory */
cr_cache *cr_cache_for(const char *op, const cr_decoder *d, cr_dtype dt) {
    if (dt == CR_BOOL) dt = d->dtype;
    if (dt >= CR_DTYPES || (dt != CR_I8 && !cr_dtype_is_float(dt)))
        return cr_fail(CR_BAD_TYPE, op, "a cache is of a float type or int8, not %s",
                       dt < CR_DTYPES ? cr_dtype_name(dt) : "of an unknown one"),
               NULL;
    cr_cache *c = calloc(1, sizeof *c + (size_t)d->layers * sizeof *c->layer);
    if (!c) return cr_fail(CR_NO_MEMORY, op, "no memory for a cache of %lld layers", (long long)d->layers), NULL;
    c->d = *d;
    c->dtype = dt;
    return c;
}

void cr_cache_free(cr_cache *c) {
    if (!c || cr_stale("cache_free", "cache", c)) return;
    for (int64_t l = 0; l < c->d.layers; l++) {
        cr_drop(c->layer[l].k);
        cr_drop(c->layer[l].v);
        cr_drop(c->layer[l].k_scale);
        cr_drop(c->layer[l].v_scale);
    }
    free(c->ids);
    cr_retire(c);
}

static cr_tensor *slice_store(cr_tensor *store, int64_t start, int64_t stop) {
    return cr_slice(store, 2, start, stop, 1);
}

/* A larger store (1, KV, room, columns) with the first `past` positions of the old one, and zeros. */
static cr_status grow_store(cr_cache *c, cr_tensor **store, int64_t room, int64_t columns, cr_dtype dt) {
    cr_scope_begin();
    cr_tensor *fresh = cr_zeros(CR_LIST(1, c->d.kv_heads, room, columns), dt, c->d.dev);
    bool ok = fresh != NULL;
    if (ok && c->past) ok = cr_copy_(slice_store(fresh, 0, c->past), slice_store(*store, 0, c->past)) != NULL;
    if (ok) {
        cr_drop(*store);
        *store = cr_retain(fresh);
    }
    cr_scope_end();
    return ok ? CR_OK : cr_error_status();
}

/* Positions of a store for so many. */
static int64_t room_for(const cr_decoder *d, int64_t positions) {
    int64_t room = d->caller ? d->caller->room : 0;
    while (room && room < positions) room *= 2;
    return !room ? positions : room < d->context ? room : d->context;
}

cr_status cr_cache_reserve(cr_cache *c, int64_t positions) {
    if (positions <= c->room) return CR_OK;
    positions = room_for(&c->d, positions);
    uint32_t *ids = realloc(c->ids, (size_t)positions * sizeof *ids);
    if (!ids) return cr_fail(CR_NO_MEMORY, "generate", "no memory for a context of %lld", (long long)positions);
    c->ids = ids;
    const bool recording = cr_set_grad_enabled(false);
    cr_status status = CR_OK;
    for (int64_t l = 0; l < c->d.layers && status == CR_OK; l++) {
        cr_kv *kv = &c->layer[l];
        status = grow_store(c, &kv->k, positions, c->d.head_dim, c->dtype);
        if (status == CR_OK) status = grow_store(c, &kv->v, positions, c->d.head_dim, c->dtype);
        if (status == CR_OK && c->dtype == CR_I8) status = grow_store(c, &kv->k_scale, positions, 1, CR_F32);
        if (status == CR_OK && c->dtype == CR_I8) status = grow_store(c, &kv->v_scale, positions, 1, CR_F32);
    }
    cr_set_grad_enabled(recording);
    if (status == CR_OK) c->room = positions;
    return status;
}

static bool copy_store(cr_tensor *to, cr_tensor *from, int64_t n) {
    return !to || cr_copy_(slice_store(to, 0, n), slice_store(from, 0, n)) != NULL;
}

cr_status cr_cache_assign(cr_cache *to, const cr_cache *from) {
    to->past = 0;
    cr_status status = cr_cache_reserve(to, from->past);
    if (status != CR_OK || !from->past) return status;
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    bool ok = true;
    for (int64_t l = 0; l < from->d.layers && ok; l++) {
        const cr_kv *a = &to->layer[l], *b = &from->layer[l];
        ok = copy_store(a->k, b->k, from->past) && copy_store(a->v, b->v, from->past) &&
             copy_store(a->k_scale, b->k_scale, from->past) && copy_store(a->v_scale, b->v_scale, from->past);
    }
    cr_scope_end();
    cr_set_grad_enabled(recording);
    if (!ok) return cr_error_status();
    memcpy(to->ids, from->ids, (size_t)from->past * sizeof *to->ids);
    to->past = from->past;
    return CR_OK;
}

/* ---- attention */
int64_t cr_cache_start(const cr_caches *c) { return c && c->n ? c->row[0]->past : 0; }

cr_tensor *cr_cache_positions(const cr_caches *c, int64_t T, const cr_device *dev) {
    int64_t *at = malloc((size_t)(c->n * T) * sizeof *at);
    if (!at) return cr_fail(CR_NO_MEMORY, "generate", "no memory for %lld rows", (long long)c->n), NULL;
    for (int64_t i = 0; i < c->n; i++) for (int64_t t = 0; t < T; t++) at[i * T + t] = c->row[i]->past + t;
    cr_tensor *y = cr_from(at, CR_LIST(c->n, T), CR_I64, dev);
    free(at);
    return y;
}

/* Writes fresh (1, KV, T, D) behind what the store holds -> all of it in the model's dtype. */
static cr_tensor *append_store(const cr_cache *c, cr_tensor *store, cr_tensor *scale, const cr_tensor *fresh) {
    const int64_t past = c->past, end = past + cr_size(fresh, 2);
    const cr_dtype dt = c->d.dtype;
    if (c->dtype == CR_I8) {
        cr_tensor *x = cr_to(fresh, CR_F32, c->d.dev), *largest = cr_max(cr_abs(x), CR_LIST(3), true);
        cr_tensor *step = cr_maximum(cr_mul(largest, cr_scalar(1.0 / 127)), cr_scalar(1e-30));
        if (!cr_copy_(slice_store(scale, past, end), step)) return NULL;
        if (!cr_copy_(slice_store(store, past, end), cr_round(cr_div(x, step)))) return NULL;
        return cr_to(cr_mul(cr_to(slice_store(store, 0, end), CR_F32, c->d.dev), slice_store(scale, 0, end)), dt,
                     c->d.dev);
    }
    if (!cr_copy_(slice_store(store, past, end), fresh)) return NULL;
    return c->dtype == dt ? slice_store(store, 0, end) : cr_to(slice_store(store, 0, end), dt, c->d.dev);
}

static cr_tensor *attend_cached(const cr_cache *c, int64_t layer, const cr_tensor *q, const cr_tensor *k,
                                const cr_tensor *v, const cr_attend_options *o) {
    const cr_kv *kv = &c->layer[layer];
    return cr_attend(q, append_store(c, kv->k, kv->k_scale, k), append_store(c, kv->v, kv->v_scale, v), o);
}

/* The same at the position c->at. */
static cr_tensor *attend_at(const cr_caches *c, int64_t layer, const cr_tensor *q, const cr_tensor *k,
                            const cr_tensor *v, const cr_attend_options *o) {
    const cr_cache *row = c->row[0];
    const cr_kv *kv = &row->layer[layer];
    const cr_tensor *positions = cr_arange(0, (double)row->room, 1, CR_I64, row->d.dev);
    const cr_tensor *seen = cr_le(positions, c->at);
    if (o->plain.window) seen = cr_logical_and(seen, cr_gt(positions, cr_sub(c->at, cr_scalar_int(o->plain.window))));
    if (!cr_index_copy_(kv->k, 2, c->at, k) || !cr_index_copy_(kv->v, 2, c->at, v)) return NULL;
    const cr_attend_options masked = {{.scale = o->plain.scale, .mask = seen}, o->cap, o->sinks, 0, NULL};
    return cr_attend(q, kv->k, kv->v, &masked);
}

cr_tensor *cr_cached_attention(const cr_caches *c, int64_t layer, const cr_tensor *q, const cr_tensor *k,
                               const cr_tensor *v, const cr_attend_options *o) {
    if (!c || !q || !k || !v) return cr_attend(q, k, v, o);
    if (c->at) return attend_at(c, layer, q, k, v, o);
    if (c->n == 1) return attend_cached(c->row[0], layer, q, k, v, o);
    const cr_tensor **rows = malloc((size_t)c->n * sizeof *rows);
    if (!rows) return cr_fail(CR_NO_MEMORY, "generate", "no memory for %lld rows", (long long)c->n), NULL;
    for (int64_t i = 0; i < c->n; i++)
        rows[i] = attend_cached(c->row[i], layer, cr_slice(q, 0, i, i + 1, 1), cr_slice(k, 0, i, i + 1, 1),
                                cr_slice(v, 0, i, i + 1, 1), o);
    cr_tensor *y = cr_cat((int)c->n, rows, 0);
    free(rows);
    return y;
}

cr_tensor *cr_cached_segments(const cr_caches *c, const cr_segments *s, int64_t layer, const cr_tensor *q,
                              const cr_tensor *k, const cr_tensor *v, const cr_attend_options *o) {
    if (!q || !k || !v) return NULL;
    const cr_tensor **part = malloc((size_t)s->n * sizeof *part);
    if (!part) return cr_fail(CR_NO_MEMORY, "lm", "no memory for %lld texts", (long long)s->n), NULL;
    for (int64_t i = 0, at = 0; i < s->n; at += s->length[i++]) {
        const int64_t end = at + s->length[i];
        part[i] = attend_cached(c->row[i], layer, cr_slice(q, 2, at, end, 1), cr_slice(k, 2, at, end, 1),
                                cr_slice(v, 2, at, end, 1), o);
    }
    cr_tensor *y = s->n == 1 ? (cr_tensor *)(uintptr_t)part[0] : cr_cat((int)s->n, part, 2);
    free(part);
    return y;
}

cr_tensor *cr_segments_rows(const cr_caches *c, const cr_segments *s, cr_segment_fn fn, const void *ctx) {
    const cr_tensor **part = malloc((size_t)s->n * sizeof *part);
    if (!part) return cr_fail(CR_NO_MEMORY, "lm", "no memory for %lld texts", (long long)s->n), NULL;
    for (int64_t i = 0; i < s->n; i++) part[i] = fn(ctx, c->row[i]->past, s->length[i]);
    cr_tensor *y = cr_cat((int)s->n, part, 0);
    free(part);
    return y;
}

/* The same, where the caller runs the model. */
static cr_tensor *run_by_caller(const cr_decoder *d, int64_t B, cr_cache *const *row, const uint32_t *ids, int64_t T,
                                int64_t last) {
    const cr_text_model *m = d->caller;
    const int64_t each = row[0]->dtype == CR_I8 ? 4 : 2;
    cr_tensor **stores = malloc((size_t)(B * d->layers * each) * sizeof *stores), **at = stores;
    int64_t *past = malloc((size_t)B * sizeof *past);
    cr_tensor *y = NULL, *ours = NULL;
    for (int64_t l = 0; stores && l < d->layers; l++)
        for (int64_t i = 0; i < B; i++) {
            const cr_kv *kv = &row[i]->layer[l];
            cr_tensor *const all[] = {kv->k, kv->v, kv->k_scale, kv->v_scale};
            for (int64_t k = 0; k < each; k++) *at++ = all[k];
        }
    for (int64_t i = 0; past && i < B; i++) past[i] = row[i]->past;
    if (stores && past) y = m->run(m->ctx, B, T, ids, last, stores, past);
    else cr_fail(CR_NO_MEMORY, "generate", "no memory for %lld texts", (long long)B);
    if (y) ours = cr_view(y, CR_LIST(B, last, d->vocabulary));
    else if (!cr_error()) cr_fail(CR_RUNTIME, "generate", "the model gave no logits");
    cr_drop(y);
    free(stores);
    free(past);
    return ours;
}

cr_tensor *cr_forward(const cr_decoder *d, int64_t B, cr_cache *const *row, const uint32_t *ids, int64_t T,
                      int64_t last) {
    for (int64_t i = 0; i < B; i++) {
        if (cr_cache_reserve(row[i], row[i]->past + T) != CR_OK) return NULL;
        memcpy(row[i]->ids + row[i]->past, ids + i * T, (size_t)T * sizeof *ids);
    }
    cr_tensor *y;
    if (d->caller) y = run_by_caller(d, B, row, ids, T, last);
    else {
        const cr_caches caches = {.n = B, .row = row};
        const cr_tensor *tokens = cr_to(cr_from(ids, CR_LIST(B, T), CR_U32, d->dev), CR_I64, d->dev);
        y = cr_decoder_logits(d, cr_slice(d->hidden(d->model, tokens, &caches), 1, T - last, T, 1));
    }
    for (int64_t i = 0; i < B && y; i++) row[i]->past += T;
    return y;
}

static cr_tensor *step_at(const cr_decoder *d, cr_cache *row, const cr_tensor *token, const cr_tensor *at) {
    const cr_caches caches = {.n = 1, .row = &row, .at = at};
    return cr_decoder_logits(d, d->hidden(d->model, token, &caches));
}

/* Also where there is no plan: what cannot be replayed has run. */
static cr_tensor *recorded(const cr_decoder *d, cr_cache *row, const cr_tensor *const in[2], cr_token_step *step) {
    if (cr_record_begin(2, in) != CR_OK) return NULL;
    cr_record_lenient();
    cr_tensor *y = step_at(d, row, in[0], in[1]);
    if (!y) { cr_record_cancel(); return NULL; }
    if (!(step->plan = cr_record_end(1, (const cr_tensor *const *)&y))) cr_error_clear();
    return y;
}

cr_tensor *cr_forward_token(const cr_decoder *d, cr_cache *row, uint32_t id, cr_token_step *step) {
    if (!d->steady || row->dtype != d->dtype || cr_recording()) return cr_forward(d, 1, &row, &id, 1, 1);
    const int64_t room = row->room;
    if (cr_cache_reserve(row, row->past + 1) != CR_OK) return NULL;
    if (room != row->room) { cr_plan_free(step->plan); *step = (cr_token_step){0}; }
    row->ids[row->past] = id;
    const cr_tensor *in[] = {cr_from(&(int64_t){id}, CR_LIST(1, 1), CR_I64, d->dev),
                             cr_from(&row->past, CR_LIST(1), CR_I64, d->dev)};
    cr_tensor *y = NULL;
    if (!in[0] || !in[1]) return NULL;
    step->made++;
    if (step->plan) y = cr_plan_run(step->plan, in, &y) == CR_OK ? y : NULL;
    else y = step->made == 2 ? recorded(d, row, in, step) : step_at(d, row, in[0], in[1]);
    if (y) row->past++;
    return y;
}

/* ---- the public object and its file: safetensors, "tokens" (past), "0.k" (1, KV, past, D) ... */
cr_cache *cr_cache_new(const cr_lm *m, cr_dtype dt) {
    return cr_lacks("cache_new", "model", m) ? NULL : cr_cache_for("cache_new", cr_lm_decoder(m), dt);
}

const uint32_t *cr_cache_tokens(const cr_cache *c, int64_t *n) {
    if (cr_lacks("cache_tokens", "cache", c)) return NULL;
    if (!n) return cr_fail_null("cache_tokens", "n"), NULL;
    *n = c->past;
    return c->ids;
}

/* FNV-1a of the configuration, and of each weight's name and first row. */
static cr_status fingerprint_of(const cr_lm *m, char out[20]) {
    uint64_t h = 0xcbf29ce484222325u;
    const char *config = cr_lm_config(m);
    for (size_t i = 0; config[i]; i++) h = (h ^ (uint8_t)config[i]) * 0x100000001b3u;
    const cr_params *p = cr_lm_params(m);
    cr_status status = CR_OK;
    for (int64_t i = 0; i < cr_params_count(p) && status == CR_OK; i++) {
        cr_scope_begin();
        const cr_tensor *t = cr_params_at(p, i), *row = cr_ndim(t) > 1 ? cr_select(t, 0, 0) : cr_detach(t);
        const int64_t n = row ? cr_numel(row) : 0;
        double *v = malloc((size_t)(n + 1) * sizeof *v);
        status = row && v ? cr_read(row, CR_F64, v, (size_t)n * sizeof *v)
                          : cr_fail(CR_NO_MEMORY, "cache", "no memory for %lld numbers", (long long)n);
        const uint8_t *bytes = (const uint8_t *)v;
        for (const char *s = cr_params_name(p, i); *s && status == CR_OK; s++) h = (h ^ (uint8_t)*s) * 0x100000001b3u;
        for (size_t b = 0; status == CR_OK && b < (size_t)n * sizeof *v; b++) h = (h ^ bytes[b]) * 0x100000001b3u;
        free(v);
        cr_scope_end();
    }
    snprintf(out, 20, "%016llx", (unsigned long long)h);
    return status;
}

static const struct { const char *name; size_t at;
} stores[] = {{"k", offsetof(cr_kv, k)}, {"v", offsetof(cr_kv, v)}, {"k_scale", offsetof(cr_kv, k_scale)},
              {"v_scale", offsetof(cr_kv, v_scale)}};

static cr_tensor *store_at(const cr_kv *kv, int i) {
    return *(cr_tensor *const *)(const void *)((const char *)kv + stores[i].at);
}

static int stores_of(cr_dtype dt) { return dt == CR_I8 ? 4 : 2; }

static cr_status add_stores(const cr_cache *c, cr_params *p) {
    cr_status status = cr_params_add(p, "tokens", cr_from(c->ids, CR_LIST(c->past), CR_U32, cr_cpu()));
    for (int64_t l = 0; l < c->d.layers; l++)
        for (int i = 0; i < stores_of(c->dtype) && status == CR_OK; i++) {
            char name[40];
            snprintf(name, sizeof name, "%lld.%s", (long long)l, stores[i].name);
            status = cr_params_add(p, name, cr_contiguous(slice_store(store_at(&c->layer[l], i), 0, c->past)));
        }
    return status;
}

cr_status cr_cache_save(const cr_cache *c, const cr_lm *m, const char *path) {
    static const char op[] = "cache_save";
    if (cr_lacks(op, "cache", c) || cr_lacks(op, "model", m)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    if (c->d.model != cr_lm_decoder(m)->model) return cr_fail(CR_BAD_VALUE, op, "the cache belongs to another model");
    if (!c->past) return cr_fail(CR_BAD_VALUE, op, "the cache is empty");
    char print[20], metadata[160];
    cr_status status = fingerprint_of(m, print);
    const bool recording = cr_set_grad_enabled(false);
    cr_params *p = status == CR_OK ? cr_params_new() : NULL;
    cr_scope_begin();
    if (p) status = add_stores(c, p);
    snprintf(metadata, sizeof metadata, "{\"cache\":\"1\",\"model\":\"%s\",\"dtype\":\"%s\"}", print,
             cr_dtype_name(c->dtype));
    if (p && status == CR_OK) status = cr_save(path, p, metadata);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    cr_params_free(p);
    return p ? status : cr_error_status();
}

static cr_status check_header(const char *op, const cr_lm *m, const char *path, cr_dtype dt) {
    char *cache = cr_load_metadata(path, "cache"), *model = cr_load_metadata(path, "model"),
         *dtype = cr_load_metadata(path, "dtype"), print[20];
    cr_status status = cr_error_status();
    if (status == CR_OK && (!cache || strcmp(cache, "1") || !model || !dtype))
        status = cr_fail(CR_BAD_VALUE, op, "'%s' is not a cache of a text", path);
    if (status == CR_OK) status = fingerprint_of(m, print);
    if (status == CR_OK && strcmp(print, model))
        status = cr_fail(CR_BAD_VALUE, op, "'%s' belongs to another model: its fingerprint is %.16s, this model's %s",
                         path,
                         model, print);
    if (status == CR_OK && strcmp(dtype, cr_dtype_name(dt)))
        status = cr_fail(CR_BAD_VALUE, op, "'%s' is a cache of %.20s, not %s", path, dtype, cr_dtype_name(dt));
    cr_free(cache);
    cr_free(model);
    cr_free(dtype);
    return status;
}

static cr_status take_tokens(const char *op, const char *path, const cr_params *p, cr_cache *c) {
    const cr_tensor *tokens = cr_params_get(p, "tokens");
    if (!tokens) return cr_error_status();
    const int64_t n = cr_numel(tokens);
    if (cr_ndim(tokens) != 1 || cr_dtype_of(tokens) != CR_U32 || n < 1 || n > c->d.context)
        return cr_fail(CR_BAD_VALUE, op, "'%s': its tokens must be uint32 (1 to %lld), not %s (%lld)", path,
                       (long long)c->d.context, cr_dtype_name(cr_dtype_of(tokens)), (long long)n);
    cr_status status = cr_cache_reserve(c, n);
    if (status == CR_OK) status = cr_read(tokens, CR_U32, c->ids, (size_t)n * sizeof *c->ids);
    for (int64_t i = 0; i < n && status == CR_OK; i++)
        if (c->ids[i] >= c->d.vocabulary)
            status = cr_fail(CR_BAD_INDEX, op, "'%s': token %lld is %u: the vocabulary has %lld", path, (long long)i,
                             c->ids[i], (long long)c->d.vocabulary);
    if (status == CR_OK) c->past = n;
    return status;
}

static cr_status take_store(const char *op, const char *path, const cr_params *p, cr_cache *c, int64_t l, int i) {
    char name[40];
    snprintf(name, sizeof name, "%lld.%s", (long long)l, stores[i].name);
    const cr_tensor *from = cr_params_get(p, name);
    if (!from) return cr_error_status();
    cr_tensor *to = slice_store(store_at(&c->layer[l], i), 0, c->past);
    if (!to) return cr_error_status();
    if (cr_ndim(from) != 4 || memcmp(cr_shape(from), cr_shape(to), 4 * sizeof(int64_t)) ||
        cr_dtype_of(from) != cr_dtype_of(to))
        return cr_fail(CR_BAD_VALUE, op, "'%s': '%s' must be %s (1, %lld, %lld, %lld)", path, name,
                       cr_dtype_name(cr_dtype_of(to)), (long long)cr_size(to, 1), (long long)cr_size(to, 2),
                       (long long)cr_size(to, 3));
    return cr_copy_(to, from) ? CR_OK : cr_error_status();
}

cr_cache *cr_cache_load(const cr_lm *m, const char *path, cr_dtype dt) {
    static const char op[] = "cache_load";
    if (cr_lacks(op, "model", m)) return NULL;
    if (!path) return cr_fail_null(op, "the path"), NULL;
    cr_error_clear();
    cr_cache *c = cr_cache_for(op, cr_lm_decoder(m), dt);
    if (!c) return NULL;
    cr_status status = check_header(op, m, path, c->dtype);
    cr_params *p = status == CR_OK ? cr_load(path, c->d.dev) : NULL;
    if (!p) status = cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    cr_scope_begin();
    if (status == CR_OK) status = take_tokens(op, path, p, c);
    for (int64_t l = 0; status == CR_OK && l < c->d.layers; l++)
        for (int i = 0; i < stores_of(c->dtype) && status == CR_OK; i++) status = take_store(op, path, p, c, l, i);
    cr_scope_end();
    cr_set_grad_enabled(recording);
    cr_params_free(p);
    if (status == CR_OK) return c;
    cr_cache_free(c);
    return NULL;
}
