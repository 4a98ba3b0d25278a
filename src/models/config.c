/* config.c - config.json, read strictly, and weights found by name: a message names the file, the
 * entry and its value, or all tensors that do not fit. */
#include "lm.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "../core/formats.h"
#include "../core/out.h"
#include "../core/status.h"

/* ---- entries ---- */
const cr_json *cr_entry_at(const cr_entries *e, const char *key) {
    const cr_json *v = cr_json_get(e->json, key);
    return v && v->kind != CR_JSON_NULL ? v : NULL;
}

static void refuse_entry(cr_entries *e, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void refuse_entry(cr_entries *e, const char *key, const char *format, ...) {
    char wanted[480];
    if (e->status != CR_OK) return;
    va_list args;
    va_start(args, format);
    vsnprintf(wanted, sizeof wanted, format, args);
    va_end(args);
    cr_out is = {0};
    const cr_json *v = cr_entry_at(e, key);
    if (v) cr_put_json(&is, v);
    e->status = cr_fail(CR_BAD_VALUE, e->op, "'%s': \"%s\" must be %s, it is %.60s", e->path, key, wanted,
                        is.text ? is.text : "absent");
    cr_out_free(&is);
}

int64_t cr_entry_size(cr_entries *e, const char *key, int64_t absent, int64_t least) {
    const cr_json *v = cr_entry_at(e, key);
    if (!v && absent >= 0) return absent;
    if (v && v->kind == CR_JSON_NUMBER && v->integral && v->integer >= least && v->integer <= INT32_MAX)
        return v->integer;
    refuse_entry(e, key, "a whole number from %lld to %d", (long long)least, INT32_MAX);
    return least;
}

double cr_entry_number(cr_entries *e, const char *key, double absent, double least, double most) {
    const cr_json *v = cr_entry_at(e, key);
    const double x = v ? v->number : absent;
    if ((!v || v->kind == CR_JSON_NUMBER) && x >= least && x <= most) return x;
    refuse_entry(e, key, "a number from %g to %g", least, most);
    return least;
}

bool cr_entry_flag(cr_entries *e, const char *key, bool absent) {
    const cr_json *v = cr_entry_at(e, key);
    if (v && v->kind != CR_JSON_BOOL) refuse_entry(e, key, "true or false");
    return v ? v->truth : absent;
}

int cr_entry_word(cr_entries *e, const char *key, const char *words, int absent) {
    const cr_json *v = cr_entry_at(e, key);
    if (!v && absent >= 0) return absent;
    int i = 0;
    for (const char *w = words; v && v->kind == CR_JSON_STRING; i++) {
        const size_t n = strcspn(w, "|");
        if (v->bytes == n && !memcmp(v->text, w, n)) return i;
        if (!w[n]) break;
        w += n + 1;
    }
    refuse_entry(e, key, "one of %s", words);
    return 0;
}

void cr_entry_only(cr_entries *e, const char *key, double value) {
    const cr_json *v = cr_entry_at(e, key);
    const double is = v && v->kind == CR_JSON_BOOL ? v->truth : v && v->kind == CR_JSON_NUMBER ? v->number : NAN;
    if (!v || is == value) return;
    if (v->kind == CR_JSON_BOOL) refuse_entry(e, key, value != 0 ? "true" : "false");
    else refuse_entry(e, key, "%g", value);
}

void cr_entry_refuse(cr_entries *e, const char *key, const char *wanted) { refuse_entry(e, key, "%s", wanted); }

/* ---- weights ---- */
void cr_binder_problem(cr_binder *b, const char *format, ...) {
    char one[200];
    va_list args;
    va_start(args, format);
    vsnprintf(one, sizeof one, format, args);
    va_end(args);
    if (b->problems.bytes > 300) { b->unlisted++; return; }
    cr_out_format(&b->problems, "%s%s", b->listed++ ? ", " : "", one);
}

static const char *shape_text(int n, const int64_t *shape, char *out, size_t room) {
    size_t at = (size_t)snprintf(out, room, "(");
    for (int i = 0; i < n && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (at < room) snprintf(out + at, room - at, n == 1 ? ",)" : ")");
    return out;
}

cr_tensor *cr_params_if(const cr_params *p, const char *name) {
    cr_tensor *t = cr_params_get(p, name);
    if (!t) cr_error_clear();
    return t;
}

static cr_tensor *add_tensor(cr_binder *b, const char *name, cr_tensor *t) {
    return t && !cr_params_add(b->into, name, t) ? cr_params_at(b->into, cr_params_count(b->into) - 1) : NULL;
}

cr_tensor *cr_bind(cr_binder *b, const char *name, int n, const int64_t *shape) {
    char want[80], have[80];
    if (b->dev) {                                   /* a new model */
        cr_scope_begin();
        cr_tensor *fresh = b->status != CR_OK ? NULL : cr_empty(n, shape, b->dtype, b->dev);
        fresh = add_tensor(b, name, fresh ? cr_requires_grad_(fresh, true) : NULL);
        if (!fresh && b->status == CR_OK) b->status = cr_error_status();
        cr_scope_end();
        return fresh;
    }
    cr_tensor *found = cr_params_if(b->from, name);
    if (!found) { cr_binder_problem(b, "'%s' is missing", name); return NULL; }
    if (cr_ndim(found) != n || memcmp(cr_shape(found), shape, (size_t)n * sizeof *shape)) {
        cr_binder_problem(b, "'%s' is %s, not %s as the configuration says", name,
                          shape_text(cr_ndim(found), cr_shape(found), have, sizeof have),
                          shape_text(n, shape, want, sizeof want));
        return NULL;
    }
    if (!cr_dtype_is_float(cr_dtype_of(found))) { cr_binder_problem(b, "'%s' is not of floats", name); return NULL; }
    if (b->shared) return add_tensor(b, name, found);
    cr_scope_begin();
    cr_tensor *t = cr_to(found, b->dtype, cr_device_of(found));
    t = add_tensor(b, name, t ? cr_requires_grad_(cr_detach(t), true) : NULL);
    cr_scope_end();
    return t;
}

/* ---- packed weights: "x.q4_0" ---- */
static const char paired_end[] = "_paired";

int cr_packed_format(const char *name, bool *paired) {
    const char *end = strrchr(name, '.');
    char format[16];
    if (!end) return -1;
    const size_t n = strlen(end + 1), k = strlen(paired_end);
    const bool is_paired = n > k && !strcmp(end + 1 + n - k, paired_end);
    const int length = (int)(is_paired ? n - k : n);
    if (length >= (int)sizeof format) return -1;
    snprintf(format, sizeof format, "%.*s", length, end + 1);
    if (paired) *paired = is_paired;
    return cr_format_named(format);
}

uint32_t cr_packed_formats(const cr_params *p) {
    uint32_t all = 0;
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const int format = cr_packed_format(cr_params_name(p, i), NULL);
        if (format >= 0) all |= 1u << format;
    }
    return all;
}

/* The weight (OC, C) in one of the formats that there are; false: there is none, or a problem is noted. */
static bool bind_packed(cr_binder *b, const char *name, int64_t OC, int64_t C, cr_affine *p) {
    char full[160], have[80];
    for (int i = 0; i < 2 * CR_FORMATS; i++) {
        const cr_format_traits *f = &cr_formats[i / 2];
        if (!(b->formats >> (i / 2) & 1)) continue;
        snprintf(full, sizeof full, "%s.%s%s", name, f->name, i % 2 ? paired_end : "");
        cr_tensor *t = cr_params_if(b->from, full);
        if (!t) continue;
        if (cr_dtype_of(t) != CR_U8 || cr_ndim(t) != 2 || cr_size(t, 0) != OC || C % f->block ||
            cr_size(t, 1) != C / f->block * f->bytes || (i % 2 && (b->head_dim % 2 || OC % b->head_dim))) {
            cr_binder_problem(b, "'%s', %s, is no weight (%lld, %lld) as the configuration says", full,
                              shape_text(cr_ndim(t), cr_shape(t), have, sizeof have), (long long)OC, (long long)C);
            return false;
        }
        p->packed = add_tensor(b, full, t);
        p->format = f->name;
        p->paired = i % 2 ? b->head_dim : 0;
        return true;
    }
    return false;
}

cr_affine cr_bind_affine(cr_binder *b, const char *name, int64_t OC, int64_t C, bool bias) {
    char weight[128], last[128];
    cr_affine p = {0};
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(last, sizeof last, "%s.bias", name);
    if (!b->formats || !bind_packed(b, name, OC, C, &p)) p.weight = cr_bind(b, weight, CR_LIST(OC, C));
    if (bias) p.bias = cr_bind(b, last, CR_LIST(OC));
    return p;
}

/* ---- config.json that says more, or less */
char *cr_config_with(const char *op, const char *config, const char *key, const char *value) {
    cr_json *root = cr_json_parse(op, "config.json", config, strlen(config));
    cr_out o = {0};
    if (!root) return NULL;
    const char *between = "{";
    for (const cr_json *v = root->first; v; v = v->next) {
        if (!strcmp(v->key, key)) continue;
        cr_out_format(&o, "%s", between);
        cr_out_string(&o, v->key, v->key_bytes);
        cr_out_format(&o, ": ");
        cr_put_json(&o, v);
        between = ", ";
    }
    if (value) cr_out_format(&o, "%s\"%s\": %s", between, key, value);
    cr_out_format(&o, "%s}", o.bytes ? "" : "{");
    cr_out_put(&o, "", 1);
    cr_json_free(root);
    if (!cr_out_check(&o, op, "config.json")) return o.text;
    cr_out_free(&o);
    return NULL;
}

bool cr_config_quantized(const char *config) {
    cr_json *root = cr_json_parse("lm", "config.json", config, strlen(config));
    const cr_json *q = root ? cr_json_get(root, "quantization_config") : NULL;
    const bool own = q && cr_json_is(cr_json_get(q, "quant_method"), "chainrule");
    cr_json_free(root);
    return own;
}
