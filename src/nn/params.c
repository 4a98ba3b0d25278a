/* params.c - named tensors in the order they were added, with a hash table of their names: the
 * parameters of a model, for optimizers and files.  Also operations on all of them: free and clip
 * gradients, copy values by name. */
#include "params.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/out.h"
#include "../core/status.h"
#include "../core/table.h"
#include "../core/utf8.h"

typedef struct entry { char *name; cr_tensor *tensor; bool alias; } entry;

struct cr_params {
    int64_t count, room;
    entry *entries;
    cr_table names, tensors;                        /* numbers of entries; tensors: of their first ones */
};

cr_params *cr_params_new(void) {
    cr_params *p = calloc(1, sizeof *p);
    if (!p) cr_fail(CR_NO_MEMORY, "params_new", "no memory for a parameter set");
    return p;
}

void cr_params_free(cr_params *p) {
    if (!p || cr_stale("params_free", "the parameter set", p)) return;
    for (int64_t i = 0; i < p->count; i++) {
        free(p->entries[i].name);
        cr_unhold(p->entries[i].tensor);
    }
    free(p->entries);
    cr_table_free(&p->names);
    cr_table_free(&p->tensors);
    cr_retire(p);
}

/* ---- names ---- */
/* The key of this name, or the one that it would get. */
static uint64_t key_of(const cr_params *p, const char *name) {
    uint64_t key = cr_hash_bytes(name, strlen(name)) | 1;
    for (const uint64_t *i; (i = cr_table_find(&p->names, key)) && strcmp(p->entries[*i].name, name);) key += 2;
    return key;
}

int64_t cr_params_find(const cr_params *p, const char *name) {
    const uint64_t *i = cr_table_find(&p->names, key_of(p, name));
    return i ? (int64_t)*i : -1;
}

bool cr_params_alias(const cr_params *p, int64_t i) { return p->entries[i].alias; }

cr_status cr_params_add(cr_params *p, const char *name, cr_tensor *t) {
    if (cr_lacks("params_add", "the parameter set", p)) return cr_error_status();
    if (cr_lacks_tensor("params_add", "the tensor", t)) return cr_error_status();
    if (!name) return cr_fail_null("params_add", "the name");
    if (cr_is_none(t)) return cr_fail(CR_BAD_VALUE, "params_add", "'%s' may not be CR_NONE", name);
    const size_t bytes = strlen(name), valid = cr_utf8_valid(name, bytes);
    if (!bytes) return cr_fail(CR_BAD_VALUE, "params_add", "a name may not be empty");
    if (valid != bytes)
        return cr_fail(CR_BAD_VALUE, "params_add", "the name is not UTF-8 at byte %zu of %zu", valid, bytes);
    if (cr_params_find(p, name) >= 0) return cr_fail(CR_BAD_VALUE, "params_add", "the name '%s' is already used", name);
    char *copy = malloc(bytes + 1);
    uint64_t *first = NULL, *number = NULL;
    if (copy && cr_grow(&p->entries, p->count + 1, &p->room, sizeof *p->entries) &&
        (first = cr_table_add(&p->tensors, (uintptr_t)t)))
        number = cr_table_add(&p->names, key_of(p, name));
    if (!number) return free(copy), cr_fail(CR_NO_MEMORY, "params_add", "no memory for the name '%s'", name);
    memcpy(copy, name, bytes + 1);
    const bool alias = *first;
    if (!alias) *first = (uint64_t)p->count + 1;
    *number = (uint64_t)p->count;
    p->entries[p->count++] = (entry){copy, cr_hold(t), alias};
    return CR_OK;
}

/* ---- reading ---- */
int64_t cr_params_count(const cr_params *p) { return cr_lacks("params_count", "the parameter set", p) ? -1 : p->count; }

int64_t cr_params_numel(const cr_params *p) {
    if (cr_lacks("params_numel", "the parameter set", p)) return -1;
    int64_t n = 0;
    for (int64_t i = 0; i < p->count; i++) if (!p->entries[i].alias) n += cr_numel(p->entries[i].tensor);
    return n;
}

static const entry *at(const char *op, const cr_params *p, int64_t i) {
    if (cr_lacks(op, "the parameter set", p)) return NULL;
    if (i >= 0 && i < p->count) return &p->entries[i];
    return cr_fail(CR_BAD_INDEX, op, "index %lld is not in [0, %lld)", (long long)i, (long long)p->count), NULL;
}

const char *cr_params_name(const cr_params *p, int64_t i) {
    const entry *e = at("params_name", p, i);
    return e ? e->name : NULL;
}

cr_tensor *cr_params_at(const cr_params *p, int64_t i) {
    const entry *e = at("params_at", p, i);
    return e ? e->tensor : NULL;
}

cr_tensor *cr_params_get(const cr_params *p, const char *name) {
    if (cr_lacks("params_get", "the parameter set", p)) return NULL;
    if (!name) return cr_fail_null("params_get", "the name"), NULL;
    const int64_t i = cr_params_find(p, name);
    if (i >= 0) return p->entries[i].tensor;
    return cr_fail(CR_BAD_VALUE, "params_get", "no tensor is named '%s' among %lld", name, (long long)p->count), NULL;
}

/* ---- gradients ---- */
void cr_params_zero_grad(cr_params *p) {
    if (cr_lacks("params_zero_grad", "the parameter set", p)) return;
    for (int64_t i = 0; i < p->count; i++) (void)cr_set_grad(p->entries[i].tensor, CR_NONE);
}

/* Every gradient once, in order; borrowed. */
static int64_t gradients(const cr_params *p, cr_tensor **out) {
    int64_t n = 0;
    for (int64_t i = 0; i < p->count; i++) {
        cr_tensor *g = p->entries[i].alias ? NULL : cr_grad(p->entries[i].tensor);
        if (g && !cr_is_none(g)) out[n++] = g;
    }
    return n;
}

cr_clip *cr_clip_new(const char *op, double max_norm) {
    if (!(max_norm >= 0)) return cr_fail(CR_BAD_VALUE, op, "max_norm must be at least 0, not %g", max_norm), NULL;
    cr_clip *c = calloc(1, sizeof *c);
    if (!c) return cr_no_memory(op), NULL;
    c->max_norm = max_norm;
    return c;
}

static cr_status find_factor(cr_plan *p, void *ctx, const double *sums, double *results) {
    cr_clip *c = ctx;
    double total = 0;
    for (int64_t i = 0; i < c->sums; i++) total += sums[i];
    c->norm = sqrt(total);
    const double by = c->max_norm / (c->norm + 1e-6);
    c->factor = by >= 1 ? 1 : by;
    if (c->wanted) results[0] = c->norm;
    return p ? c->replay(p, c) : CR_OK;
}

static void clip_free(void *ctx) {
    cr_clip *c = ctx;
    if (c->end) c->end(c->ctx);
    free(c);
}

void cr_clip_done(cr_clip *c) { if (c && !cr_recording()) clip_free(c); }

cr_status cr_clip_measure(cr_clip *c, int64_t n, cr_tensor *const *grads, cr_tensor *norm) {
    void (*done)(void *ctx) = cr_recording() ? clip_free : NULL;
    cr_tensor **sums = malloc((size_t)(n + 1) * sizeof *sums);
    cr_scope_begin();
    c->sums = sums ? cr_sums_of_squares(n, (const cr_tensor *const *)grads, sums) : -1;
    c->wanted = norm != NULL;
    if (!sums) cr_fail(CR_NO_MEMORY, "clip_grad_norm", "no memory for %lld sums", (long long)n);
    cr_status status = c->sums >= 0 ? cr_record_host((int)c->sums, (const cr_tensor *const *)sums, c->wanted, &norm,
                                                     find_factor, c, done)
                                    : cr_error_status();
    if (c->sums < 0 && done) done(c);
    cr_scope_end();
    free(sums);
    return status;
}

/* Moves tensors on the device of the first, each once, to the front; their number, or -1: out of memory. */
static int64_t gather_run(int64_t n, cr_tensor **grads) {
    cr_table_slot few[CR_TABLE_FEW] = {0};
    cr_table seen = {.few = few};
    const cr_device *dev = cr_device_of(grads[0]);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        cr_tensor *g = grads[i];
        if (cr_device_of(g) != dev) continue;
        uint64_t *before = cr_table_add(&seen, (uintptr_t)g);
        if (!before) {
            count = -1;
            break;
        }
        if (*before) continue;
        *before = 1;
        grads[i] = grads[count];
        grads[count++] = g;
    }
    cr_table_free(&seen);
    return count;
}

cr_status cr_scale_in_runs(int64_t n, cr_tensor **grads, double by, void (*each)(void *ctx), void *ctx) {
    const cr_program *scale = cr_program_find("scale");
    cr_status status = CR_OK;
    for (int64_t from = 0, count; from < n && status == CR_OK; from += count) {
        count = gather_run(n - from, grads + from);
        if (count < 0) return cr_no_memory("scale_grads");
        status = cr_program_update(scale, count, grads + from, (const cr_tensor *const *)grads + from, &by);
        if (status == CR_OK && each) each(ctx);
    }
    return status;
}

cr_status cr_scale_grads(int64_t n, cr_tensor *const *grads, double by) {
    static const char op[] = "scale_grads";
    if (n < 0 || (n && !grads)) return cr_fail_null(op, "the gradients");
    for (int64_t i = 0; i < n; i++)
        if (!grads[i]) return cr_fail_null(op, "a gradient");
    cr_tensor **list = malloc((size_t)(n + 1) * sizeof *list);
    if (!list) return cr_no_memory(op);
    if (n) memcpy(list, grads, (size_t)n * sizeof *list);
    const bool mode = cr_set_grad_enabled(false);
    const cr_status status = cr_scale_in_runs(n, list, by, NULL, NULL);
    cr_set_grad_enabled(mode);
    free(list);
    return status;
}

/* ---- clipping in a recorded step: the runs that scale gradients, one for each device */
typedef struct scaled { int n, runs[]; } scaled;

static void note_run(void *ctx) {
    scaled *s = ctx;
    s->runs[s->n++] = cr_record_params();
}

static cr_status replay_scale(cr_plan *p, const cr_clip *c) {
    const scaled *s = c->ctx;
    for (int i = 0; i < s->n; i++) cr_plan_set_params(p, s->runs[i], &c->factor);
    return CR_OK;
}

static cr_status clip(cr_clip *c, int64_t n, cr_tensor **grads, cr_tensor *norm) {
    scaled *s = cr_recording() ? calloc(1, sizeof *s + sizeof s->runs[0] * (size_t)n) : NULL;
    if (cr_recording() && !s) {
        free(c);
        return cr_no_memory("clip_grad_norm");
    }
    c->replay = replay_scale;
    c->ctx = s;
    c->end = free;
    cr_status status = cr_clip_measure(c, n, grads, norm);
    if (status != CR_OK || (c->factor == 1 && !s)) return status;
    return cr_scale_in_runs(n, grads, c->factor, s ? note_run : NULL, s);
}

cr_tensor *cr_clip_grad_norm(int64_t n, cr_tensor *const *grads, double max_norm) {
    static const char op[] = "clip_grad_norm";
    if (n < 0 || (n && !grads)) return cr_fail_null(op, "the gradients"), NULL;
    const bool mode = cr_set_grad_enabled(false);
    cr_tensor **list = malloc((size_t)(n + 1) * sizeof *list), *norm = cr_zeros(0, NULL, CR_F64, cr_cpu());
    if (!list) cr_fail(CR_NO_MEMORY, op, "no memory for %lld gradients", (long long)n);
    cr_clip *c = list && norm ? cr_clip_new(op, max_norm) : NULL;
    if (n && c) memcpy(list, grads, (size_t)n * sizeof *list);
    const cr_status status = c ? clip(c, n, list, norm) : cr_error_status();
    cr_clip_done(c);
    cr_set_grad_enabled(mode);
    free(list);
    if (status == CR_OK) return norm;
    if (norm) cr_release(norm);
    return NULL;
}

cr_status cr_params_clip_grad_norm(cr_params *p, double max_norm, double *norm) {
    static const char op[] = "params_clip_grad_norm";
    if (cr_lacks(op, "the parameter set", p)) return cr_error_status();
    cr_tensor **grads = malloc((size_t)(p->count + 1) * sizeof *grads);
    if (!grads) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld gradients", (long long)p->count);
    cr_tensor *total = cr_clip_grad_norm(gradients(p, grads), grads, max_norm);
    cr_status status = total ? CR_OK : cr_error_status();
    if (total && norm) status = cr_read(total, CR_F64, norm, sizeof *norm);
    if (total) cr_release(total);
    free(grads);
    return status;
}

/* ---- copying by name ---- */
typedef struct complaint { char text[360]; size_t used; int64_t left_out; } complaint;

static void complain(complaint *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void complain(complaint *c, const char *format, ...) {
    char one[160];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(one, sizeof one, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof one || c->used + (size_t)n + 3 > sizeof c->text || c->left_out) {
        c->left_out++;
        return;
    }
    c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%s%s", c->used ? ", " : "", one);
}

bool cr_same_shape(const cr_tensor *a, const cr_tensor *b) {
    return cr_ndim(a) == cr_ndim(b) && !memcmp(cr_shape(a), cr_shape(b), (size_t)cr_ndim(a) * sizeof(int64_t));
}

static const char *shape_text(const cr_tensor *t, char *out, size_t room) {
    size_t n = (size_t)snprintf(out, room, "(");
    for (int i = 0; i < cr_ndim(t) && n < room; i++)
        n += (size_t)snprintf(out + n, room - n, "%s%lld", i ? ", " : "", (long long)cr_shape(t)[i]);
    if (n < room) snprintf(out + n, room - n, cr_ndim(t) == 1 ? ",)" : ")");
    return out;
}

static cr_status compare(const cr_params *dst, const cr_params *src) {
    complaint c = {0};
    for (int64_t i = 0; i < dst->count; i++) {
        char want[80], have[80];
        const entry *e = &dst->entries[i];
        const int64_t j = cr_params_find(src, e->name);
        if (j < 0) { complain(&c, "'%s' is missing", e->name); continue; }
        const cr_tensor *from = src->entries[j].tensor;
        if (!cr_same_shape(e->tensor, from))
            complain(&c, "'%s' is %s instead of %s", e->name, shape_text(from, have, sizeof have),
                     shape_text(e->tensor, want, sizeof want));
    }
    for (int64_t j = 0; j < src->count; j++)
        if (cr_params_find(dst, src->entries[j].name) < 0) complain(&c, "'%s' is not wanted", src->entries[j].name);
    if (!c.used && !c.left_out) return CR_OK;
    if (!c.left_out) return cr_fail(CR_BAD_VALUE, "params_copy", "%s", c.text);
    return cr_fail(CR_BAD_VALUE, "params_copy", "%s and %lld more", c.text, (long long)c.left_out);
}

cr_status cr_params_copy(cr_params *dst, const cr_params *src) {
    if (!dst) return cr_fail_null("params_copy", "dst");
    if (!src) return cr_fail_null("params_copy", "src");
    cr_status status = compare(dst, src);
    if (status != CR_OK) return status;
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < dst->count; i++) {
        if (status != CR_OK) break;
        cr_tensor *to = dst->entries[i].tensor;
        const cr_tensor *from = src->entries[cr_params_find(src, dst->entries[i].name)].tensor;
        cr_scope_begin();
        if (!cr_copy_(to, cr_to(from, cr_dtype_of(from), cr_device_of(to)))) status = cr_error_status();
        cr_scope_end();
    }
    cr_set_grad_enabled(recording);
    return status;
}
