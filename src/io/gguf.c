/* gguf.c - weights as llama.cpp keeps them (github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3:
 *   "GGUF" | u32 version | u64 tensors | u64 entries | entries: key, u32 type, value | tensors: name,
 *   u32 axes, u64 sizes (the contiguous one first), u32 type, u64 offset | padding | data
 * Strings are u64 bytes and the bytes.  The reader trusts nothing: every length is checked against
 * the bytes that are left before anything is allocated for it, and tensors together have at most the
 * bytes of the data.  Tensors lie over the mapping; packed blocks stay as they are, or become f32. */
#include "gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/formats.h"
#include "../core/pack.h"
#include "../core/status.h"
#include "json.h"
#include "../core/utf8.h"

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, KINDS };
static const size_t kind_size[KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
enum { ALIGN = 32, HEADER = 24 };

static const cr_format_traits *type_of(uint32_t id) {
    for (int i = 0; i < CR_FORMATS; i++) if (cr_formats[i].ggml == id) return &cr_formats[i];
    return NULL;
}

static bool is_packed(const cr_format_traits *type) { return type->block > 1; }

/* of numbers in memory */
static cr_dtype dtype_of(const cr_format_traits *type) {
    return type == &cr_formats[CR_FORMAT_F16] ? CR_F16 : type == &cr_formats[CR_FORMAT_BF16] ? CR_BF16 : CR_F32;
}

/* ---- reading bytes ---- */
typedef struct reader { const unsigned char *p, *end; const char *op, *path; bool failed; } reader;
typedef struct text { const char *s; size_t n; } text;

static size_t left(const reader *r) { return (size_t)(r->end - r->p); }

static bool fail(reader *r, const char *what) {
    if (!r->failed) cr_fail(CR_IO, r->op, "'%s' is damaged: %s at its end or before", r->path, what);
    r->failed = true;
    return false;
}

/* n bytes as a little-endian number; 0 after a failure */
static uint64_t number(reader *r, size_t n) {
    uint64_t v = 0;
    if (r->failed || left(r) < n) return fail(r, "a number is cut short"), 0;
    for (size_t i = 0; i < n; i++) v |= (uint64_t)r->p[i] << 8 * i;
    r->p += n;
    return v;
}

static text string(reader *r) {
    const uint64_t n = number(r, 8);
    if (r->failed || n > left(r)) return fail(r, "a string is longer than the file"), (text){0};
    const text t = {(const char *)r->p, (size_t)n};
    r->p += n;
    return t;
}

/* ---- entries, as JSON ---- */
/* Which entries become text: with this key, or whose keys begin so; NULL: all.  Arrays of more elements are left out:
 * whoever builds a tree of them needs many times the bytes of the file. */
typedef struct wish { const char *key; bool exact, entries_only; uint64_t most; } wish;
enum { MOST_FOR_MODELS = 4096, MOST_TOKENS = 1 << 22 };

static bool is_wanted(const wish *w, text key) {
    const size_t n = w->key ? strlen(w->key) : 0;
    return n <= key.n && (!w->exact || n == key.n) && !memcmp(key.s, w->key ? w->key : "", n);
}

static void put_text(cr_out *o, text t) {           /* what is not UTF-8 becomes U+FFFD */
    if (cr_utf8_valid(t.s, t.n) == t.n) { cr_out_string(o, t.s, t.n); return; }
    cr_out clean = {0};
    for (size_t at = 0; at < t.n;) {
        const size_t good = cr_utf8_valid(t.s + at, t.n - at);
        cr_out_put(&clean, t.s + at, good);
        at += good;
        if (at < t.n) cr_out_put(&clean, "\xef\xbf\xbd", 3), at++;
    }
    cr_out_string(o, clean.text ? clean.text : "", clean.bytes);
    if (clean.failed) o->failed = true;
    cr_out_free(&clean);
}

static void put_float(cr_out *o, double v) {
    if (!isfinite(v)) cr_out_format(o, "null");
    else if (v == floor(v) && fabs(v) < 1e15) cr_out_format(o, "%.1f", v);
    else cr_out_format(o, "%.17g", v);
}

static void put_scalar(reader *r, cr_out *o, uint32_t kind) {
    if (kind == STRING) { put_text(o, string(r)); return; }
    const uint64_t v = number(r, kind_size[kind]);
    float f;
    double d;
    switch (kind) {
    case I8: cr_out_format(o, "%d", (int8_t)v); break;
    case I16: cr_out_format(o, "%d", (int16_t)v); break;
    case I32: cr_out_format(o, "%d", (int32_t)v); break;
    case I64: cr_out_format(o, "%lld", (long long)v); break;
    case F32: memcpy(&f, &(uint32_t){(uint32_t)v}, sizeof f); put_float(o, (double)f); break;
    case F64: memcpy(&d, &v, sizeof d); put_float(o, d); break;
    case BOOL: cr_out_format(o, v ? "true" : "false"); break;
    default: cr_out_format(o, "%llu", (unsigned long long)v);
    }
}

static void skip(reader *r, uint32_t kind, uint64_t n) {
    if (kind != STRING) r->p += n * kind_size[kind];
    for (uint64_t i = 0; kind == STRING && i < n && !r->failed; i++) (void)string(r);
}

static void put_array(reader *r, cr_out *o, uint64_t most) {
    const uint64_t kind = number(r, 4), n = number(r, 8);
    if (r->failed) return;
    if (kind >= KINDS || kind == ARRAY) { fail(r, "an array of an unknown kind"); return; }
    const size_t least = kind == STRING ? 8 : kind_size[kind];
    if (n > left(r) / least) { fail(r, "an array is longer than the file"); return; }
    if (n > most) {
        skip(r, (uint32_t)kind, n);
        cr_out_put(o, "null", 4);
        return;
    }
    cr_out_put(o, "[", 1);
    for (uint64_t i = 0; i < n && !r->failed; i++) {
        if (i) cr_out_put(o, ", ", 2);
        put_scalar(r, o, (uint32_t)kind);
    }
    cr_out_put(o, "]", 1);
}

static cr_status read_entries(reader *r, uint64_t n, const wish *w, cr_out *o, uint64_t *align) {
    cr_out ignored = {0};
    cr_out_put(o, "{", 1);
    for (uint64_t i = 0; i < n && !r->failed; i++) {
        const text key = string(r);
        const uint64_t kind = number(r, 4);
        if (r->failed) break;
        if (kind >= KINDS) { fail(r, "an entry of an unknown kind"); break; }
        const bool take = is_wanted(w, key);
        if (take && o->bytes > 1) cr_out_put(o, ",\n", 2);
        if (take) put_text(o, key);
        if (take) cr_out_put(o, ": ", 2);
        if (key.n == 17 && !memcmp(key.s, "general.alignment", 17) && kind == U32) {
            const reader here = *r;
            *align = number(r, 4);
            *r = here;
        }
        ignored.bytes = 0;
        if (kind == ARRAY) put_array(r, take ? o : &ignored, take ? w->most : 0);
        else put_scalar(r, take ? o : &ignored, (uint32_t)kind);
    }
    cr_out_free(&ignored);
    cr_out_put(o, "}", 1);
    if (r->failed) return cr_error_status();
    if (!*align || *align & (*align - 1) || *align > 1u << 20)
        return cr_fail(CR_IO, r->op, "'%s': general.alignment must be a power of two, not %llu", r->path,
                       (unsigned long long)*align);
    return cr_out_check(o, r->op, r->path);
}

/* ---- tensors ---- */
static cr_status read_shape(reader *r, cr_gguf_tensor *t) {
    const uint64_t n = number(r, 4);
    if (!r->failed && n > 4) fail(r, "a tensor has more than 4 axes");
    if (r->failed) return cr_error_status();
    t->ndim = (int)n;
    for (int i = t->ndim - 1; i >= 0; i--) {
        const uint64_t size = number(r, 8);
        if (!r->failed && size > INT64_MAX) fail(r, "a tensor is larger than memory can address");
        t->shape[i] = (int64_t)size;
    }
    return r->failed ? cr_error_status() : CR_OK;
}

static cr_status read_tensor(reader *r, cr_gguf_tensor *t, uint64_t *offset) {
    const text name = string(r);
    if (r->failed) return cr_error_status();
    if (!name.n || memchr(name.s, 0, name.n) || cr_utf8_valid(name.s, name.n) != name.n)
        return cr_fail(CR_IO, r->op, "'%s': a tensor's name is empty, holds a NUL or is not UTF-8", r->path);
    t->name = malloc(name.n + 1);
    if (!t->name) return cr_fail(CR_NO_MEMORY, r->op, "no memory for the header of '%s'", r->path);
    memcpy(t->name, name.s, name.n);
    t->name[name.n] = 0;
    if (read_shape(r, t)) return cr_error_status();
    t->type = (uint32_t)number(r, 4);
    *offset = number(r, 8);
    if (r->failed) return cr_error_status();
    const cr_format_traits *type = type_of(t->type);
    if (!type) {
        char known[160];
        size_t n = 0;
        for (int i = 0; i < CR_FORMATS; i++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", cr_formats[i].name);
        return cr_fail(CR_IO, r->op, "'%s': '%s' is of ggml's type %u: known are %s", r->path, t->name, t->type, known);
    }
    const int64_t row = t->ndim ? t->shape[t->ndim - 1] : 1;
    if (row % type->block)
        return cr_fail(CR_IO, r->op, "'%s': the rows of '%s' have %lld elements, not a multiple of the block size %d",
                       r->path, t->name, (long long)row, type->block);
    int64_t blocks = 1;
    bool fits = true, empty = false;
    for (int i = 0; i < t->ndim; i++) {
        empty |= t->shape[i] == 0;
        if (t->shape[i]) fits &= !__builtin_mul_overflow(blocks, t->shape[i], &blocks);
    }
    if (!fits || blocks > INT64_MAX / 256)
        return cr_fail(CR_IO, r->op, "'%s': '%s' has more elements than memory can address", r->path, t->name);
    t->bytes = empty ? 0 : (size_t)(blocks / type->block) * (size_t)type->bytes;
    return CR_OK;
}

static cr_status read_tensors(reader *r, cr_gguf *g, const unsigned char *file, uint64_t n, uint64_t align) {
    cr_status status = CR_OK;
    uint64_t *offset = NULL;
    if (n > left(r) / HEADER) return fail(r, "it claims more tensors than it has bytes for"), cr_error_status();
    g->tensors = calloc((size_t)n + 1, sizeof *g->tensors);
    offset = calloc((size_t)n + 1, sizeof *offset);
    if (!g->tensors || !offset) status = cr_fail(CR_NO_MEMORY, r->op, "no memory for the header of '%s'", r->path);
    for (uint64_t i = 0; i < n && status == CR_OK; i++) {
        g->count++;
        status = read_tensor(r, &g->tensors[i], &offset[i]);
    }
    const size_t all = (size_t)(r->end - file), aligned = ((size_t)(r->p - file) + align - 1) & ~(size_t)(align - 1),
                 start = aligned < all ? aligned : all, room = all - start;
    size_t total = 0;
    for (int64_t i = 0; i < g->count && status == CR_OK; i++) {
        cr_gguf_tensor *t = &g->tensors[i];
        const bool inside = offset[i] <= room && t->bytes <= room - offset[i];
        total = inside && t->bytes <= room - total ? total + t->bytes : room + 1;
        if (offset[i] % align)
            status = cr_fail(CR_IO, r->op, "'%s': '%s' is at %llu, not a multiple of %llu", r->path, t->name,
                             (unsigned long long)offset[i], (unsigned long long)align);
        else if (total > room)
            status = cr_fail(CR_IO, r->op, "'%s': '%s' has %zu bytes at %llu, %s (is the file cut short?)", r->path,
                             t->name, t->bytes, (unsigned long long)offset[i],
                             inside ? "and the tensors together more than the data" : "behind its end");
        else t->data = file + start + offset[i];
    }
    free(offset);
    return status;
}

bool cr_gguf_is(const unsigned char *file, size_t bytes) { return bytes >= 4 && !memcmp(file, "GGUF", 4); }

static cr_status parse(const char *op, const char *path, const unsigned char *file, size_t bytes, const wish *w,
                       cr_gguf *g) {
    *g = (cr_gguf){0};
    reader r = {file, file + bytes, op, path, false};
    if (!cr_gguf_is(file, bytes) || bytes < HEADER)
        return cr_fail(CR_IO, op, "'%s' is not a GGUF file: its %zu bytes do not begin with a header", path, bytes);
    r.p += 4;
    const uint64_t version = number(&r, 4), tensors = number(&r, 8), entries = number(&r, 8);
    uint64_t align = ALIGN;
    if (version != 2 && version != 3)
        return cr_fail(CR_IO, op, "'%s' is GGUF of version %llu: 2 and 3 are supported", path,
                       (unsigned long long)version);
    cr_status status = read_entries(&r, entries, w, &g->metadata, &align);
    if (status == CR_OK && !w->entries_only) status = read_tensors(&r, g, file, tensors, align);
    if (status != CR_OK) cr_gguf_free(g);
    return status;
}

cr_status cr_gguf_parse(const char *op, const char *path, const unsigned char *file, size_t bytes, cr_gguf *g) {
    return parse(op, path, file, bytes, &(wish){.most = UINT64_MAX}, g);
}

void cr_gguf_free(cr_gguf *g) {
    for (int64_t i = 0; i < g->count; i++) free(g->tensors[i].name);
    free(g->tensors);
    cr_out_free(&g->metadata);
    *g = (cr_gguf){0};
}

/* The wanted entries as a JSON object. */
static char *entries_of(const char *op, const char *path, const cr_mapping *m, const wish *w) {
    cr_gguf g;
    if (parse(op, path, m->data, m->bytes, w, &g)) return NULL;
    char *all = g.metadata.text;
    g.metadata = (cr_out){0};
    cr_gguf_free(&g);
    return all;
}

char *cr_gguf_section(const char *op, const char *path, const cr_mapping *m, const char *prefix) {
    return entries_of(op, path, m, &(wish){.key = prefix, .most = MOST_TOKENS, .entries_only = true});
}

char *cr_gguf_metadata(const char *op, const char *path, const cr_mapping *m, const char *key) {
    char *all = entries_of(op, path, m, &(wish){.key = key, .exact = key, .most = UINT64_MAX});
    if (!all || !key) return all;
    cr_out o = {0};
    const char *value = strstr(all, "\": ");         /* {"KEY": VALUE}, where KEY may hold no quote */
    const size_t n = value ? strlen(value += 3) - 1 : 0;
    if (value && *value != '"') {
        cr_out_put(&o, value, n);
    } else if (value) {
        cr_json *root = cr_json_parse(op, path, all, strlen(all));
        if (root) cr_out_put(&o, root->first->text, root->first->bytes + 1);
        cr_json_free(root);
    }
    free(all);
    if (!cr_out_check(&o, op, path)) return o.text;
    cr_out_free(&o);
    return NULL;
}

/* ---- loading ---- */
/* Over the mapping: numbers, or with `packed` the bytes of blocks; else blocks become f32. */
static cr_tensor *tensor_of(cr_shared_mapping *s, const cr_gguf_tensor *t, bool packed) {
    const cr_format_traits *type = type_of(t->type);
    if (!is_packed(type) || !t->bytes) return cr_mapping_tensor(s, t->data, t->ndim, t->shape, dtype_of(type));
    int64_t shape[4];
    memcpy(shape, t->shape, sizeof shape);
    int64_t *line = &shape[t->ndim - 1];
    *line = *line / type->block * type->bytes;
    cr_tensor *bytes = cr_mapping_tensor(s, t->data, t->ndim, shape, CR_U8);
    if (packed) return bytes;
    return cr_reshape(cr_unpack(cr_reshape(bytes, CR_LIST(-1, *line)), type->name, CR_F32), t->ndim, t->shape);
}

/* "x.weight" in blocks is "x.q4_0": bytes do not say their format. */
static bool packed_name(const cr_gguf_tensor *t, char *out, size_t room) {
    const size_t n = strlen(t->name), end = strlen(".weight");
    if (!is_packed(type_of(t->type)) || n < end || n + 8 > room || strcmp(t->name + n - end, ".weight")) return false;
    snprintf(out, room, "%.*s.%s", (int)(n - end), t->name, type_of(t->type)->name);
    return true;
}

static cr_status add_tensor(cr_shared_mapping *s, const cr_gguf_tensor *t, const cr_device *dev, bool packed,
                            cr_params *into) {
    char name[300];
    cr_scope_begin();
    packed = packed && t->bytes && packed_name(t, name, sizeof name);
    cr_tensor *here = tensor_of(s, t, packed);
    here = here ? cr_to(here, cr_dtype_of(here), dev) : NULL;
    const cr_status status = here ? cr_params_add(into, packed ? name : t->name, here) : cr_error_status();
    cr_scope_end();
    return status;
}

/* Takes the mapping; its tensors go into p.  *metadata: as of cr_gguf_load; *parts: of how many files it is the
 * first. */
static cr_status load_one(const char *op, const char *path, cr_mapping *m, const cr_device *dev, bool packed,
                          cr_params *p, char **metadata, int64_t *parts) {
    cr_gguf g = {0};
    cr_shared_mapping *s = cr_mapping_share(op, path, m);
    if (!s) return CR_NO_MEMORY;
    cr_status status = *(const unsigned char *)&(const uint16_t){1} == 1
                           ? parse(op, path, s->m.data, s->m.bytes, &(wish){.most = MOST_FOR_MODELS}, &g)
                           : cr_fail(CR_RUNTIME, op, "GGUF files are little-endian, this machine is not");
    for (int64_t i = 0; i < g.count && status == CR_OK; i++) status = add_tensor(s, &g.tensors[i], dev, packed, p);
    cr_json *root = status == CR_OK && parts ? cr_json_parse(op, path, g.metadata.text, g.metadata.bytes) : NULL;
    const cr_json *count = root ? cr_json_get(root, "split.count") : NULL;
    const cr_json *no = root ? cr_json_get(root, "split.no") : NULL;
    if (count && count->integral && count->integer > 1) *parts = count->integer;
    if (count && no && no->integral && no->integer)
        status = cr_fail(CR_IO, op, "'%s' is part %lld of %lld: give the first", path, (long long)no->integer + 1,
                         (long long)count->integer);
    cr_json_free(root);
    if (status == CR_OK && metadata) {
        *metadata = g.metadata.text;
        g.metadata = (cr_out){0};
    }
    cr_gguf_free(&g);
    cr_mapping_release(s);
    return status;
}

/* The other parts of a model whose first file ends with "-00001-of-0000N.gguf". */
static cr_status load_others(const char *op, const char *path, int64_t parts, const cr_device *dev, bool packed,
                             cr_params *p) {
    char end[40], name[4096];
    const int n = snprintf(end, sizeof end, "-00001-of-%05lld.gguf", (long long)parts);
    const size_t length = strlen(path), stem = length - (size_t)n;
    if (length < (size_t)n || length >= sizeof name || strcmp(path + stem, end))
        return cr_fail(CR_IO, op, "'%s' is the first of %lld parts: its name must end with %s", path, (long long)parts,
                       end);
    cr_status status = CR_OK;
    for (int64_t i = 2; i <= parts && status == CR_OK; i++) {
        cr_mapping m;
        snprintf(name, sizeof name, "%.*s-%05lld-of-%05lld.gguf", (int)stem, path, (long long)i, (long long)parts);
        status = cr_file_map(op, name, true, &m);
        if (status == CR_OK) status = load_one(op, name, &m, dev, packed, p, NULL, NULL);
    }
    return status;
}

cr_params *cr_gguf_load(const char *op, const char *path, cr_mapping *m, const cr_device *dev, bool packed,
                        char **metadata) {
    cr_params *p = cr_params_new();
    if (!p) return cr_os_unmap(m), NULL;
    int64_t parts = 1;
    const bool recording = cr_set_grad_enabled(false);
    char *all = NULL;
    cr_status status = load_one(op, path, m, dev, packed, p, &all, &parts);
    if (status == CR_OK && parts > 1) status = load_others(op, path, parts, dev, packed, p);
    cr_set_grad_enabled(recording);
    if (status == CR_OK && metadata) *metadata = all;
    else free(all);
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

/* ---- saving ---- */
static void put_number(cr_out *o, uint64_t v, size_t n) {
    unsigned char b[8];
    for (size_t i = 0; i < n; i++) b[i] = (unsigned char)(v >> 8 * i);
    cr_out_put(o, (const char *)b, n);
}

static void put_string(cr_out *o, const char *s, size_t n) {
    put_number(o, n, 8);
    cr_out_put(o, s, n);
}

/* The kind of a JSON value: whole numbers are u32, i32 in arrays, or as wide as they need. */
static uint32_t kind_of(const cr_json *v, bool in_array) {
    if (v->kind == CR_JSON_STRING) return STRING;
    if (v->kind == CR_JSON_BOOL) return BOOL;
    if (v->kind != CR_JSON_NUMBER) return KINDS;
    if (!v->integral) return F32;
    if (v->integer >= 0 && v->integer <= UINT32_MAX && !(in_array && v->integer <= INT32_MAX)) return U32;
    return v->integer >= INT32_MIN && v->integer <= INT32_MAX ? I32 : I64;
}

static void put_json(cr_out *o, const cr_json *v, uint32_t kind) {
    uint64_t bits = (uint64_t)v->integer;
    if (kind == STRING) { put_string(o, v->text, v->bytes); return; }
    if (kind == BOOL) bits = v->truth;
    if (kind == F32) {
        uint32_t word;
        const float f = (float)v->number;
        memcpy(&word, &f, sizeof word);
        bits = word;
    }
    put_number(o, bits, kind_size[kind]);
}

static cr_status put_entry(const char *op, const char *path, cr_out *o, const cr_json *v) {
    put_string(o, v->key, v->key_bytes);
    uint32_t kind = v->kind == CR_JSON_ARRAY ? ARRAY : kind_of(v, false);
    if (kind == ARRAY) {
        uint32_t each = v->first ? kind_of(v->first, true) : STRING;
        for (const cr_json *e = v->first; e; e = e->next) {
            const uint32_t k = kind_of(e, true);
            if (k == F32 && each == I32) each = F32;
            if (k != each && !(k == I32 && each == F32)) each = KINDS;
        }
        if (each == KINDS) return cr_fail(CR_BAD_VALUE, op, "'%s': '%s' must be an array of one kind", path, v->key);
        put_number(o, ARRAY, 4);
        put_number(o, each, 4);
        put_number(o, (uint64_t)v->count, 8);
        for (const cr_json *e = v->first; e; e = e->next) put_json(o, e, each);
        return CR_OK;
    }
    if (kind == KINDS) return cr_fail(CR_BAD_VALUE, op, "'%s': '%s' is not a string, number, bool or array", path,
                                      v->key);
    put_number(o, kind, 4);
    put_json(o, v, kind);
    return CR_OK;
}

/* ---- types of tensors: the mixes of llama.cpp (github.com/ggml-org/llama.cpp, llama-quant.cpp) ---- */
typedef struct mix {
    const char *name;
    cr_block_format rest, table, head, more;        /* of matrices; the token table; the head, or a tied table; values
                                                     * and down projections of some layers */
} mix;
static const mix mixes[] = {
    {"f32", CR_FORMAT_F32, CR_FORMAT_F32, CR_FORMAT_F32, CR_FORMAT_F32},
    {"f16", CR_FORMAT_F16, CR_FORMAT_F16, CR_FORMAT_F16, CR_FORMAT_F16},
    {"bf16", CR_FORMAT_BF16, CR_FORMAT_BF16, CR_FORMAT_BF16, CR_FORMAT_BF16},
    {"q8_0", CR_FORMAT_Q8_0, CR_FORMAT_Q8_0, CR_FORMAT_Q8_0, CR_FORMAT_Q8_0},
    {"q4_0", CR_FORMAT_Q4_0, CR_FORMAT_Q8_0, CR_FORMAT_Q8_0, CR_FORMAT_Q4_0},
    {"q4_k_m", CR_FORMAT_Q4_K, CR_FORMAT_Q4_K, CR_FORMAT_Q6_K, CR_FORMAT_Q6_K},
    {"q5_k_m", CR_FORMAT_Q5_K, CR_FORMAT_Q5_K, CR_FORMAT_Q6_K, CR_FORMAT_Q6_K},
    {"q6_k", CR_FORMAT_Q6_K, CR_FORMAT_Q6_K, CR_FORMAT_Q6_K, CR_FORMAT_Q6_K},
};
enum { MIXES = sizeof mixes / sizeof *mixes };

typedef struct wanted {
    const mix *mix;
    int64_t layers;
    bool tied;                                      /* no head of its own */
    const cr_params *importance;                    /* of columns, by the name of their tensor; or NULL */
} wanted;

/* The first and the last eighth of the layers, and every third between them. */
static bool needs_more(int64_t layer, int64_t layers) {
    const int64_t eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

/* Where K does not fill blocks of 256. */
static cr_block_format smaller(cr_block_format format) {
    return format == CR_FORMAT_Q4_K ? CR_FORMAT_Q5_0 : format == CR_FORMAT_Q5_K ? CR_FORMAT_Q5_1 : CR_FORMAT_Q8_0;
}

static const cr_format_traits *type_for(const char *name, const cr_tensor *t, const wanted *w) {
    if (cr_ndim(t) != 2 || !strncmp(name, "position_embd", 13)) return &cr_formats[CR_FORMAT_F32];
    const mix *m = w->mix;
    const bool table = !strncmp(name, "token_embd", 10), head = !strcmp(name, "output.weight");
    const char *part = !strncmp(name, "blk.", 4) ? strchr(name + 4, '.') : NULL;        /* "blk.N.part.weight" */
    const bool more = part && (!strcmp(part, ".attn_v.weight") || !strcmp(part, ".ffn_down.weight"));
    cr_block_format format = head || (table && w->tied) ? m->head : table ? m->table : m->rest;
    if (more && needs_more(atoll(name + 4), w->layers)) format = m->more;
    if (part && !strcmp(part, ".attn_qkv.weight") && m->rest != m->more)      /* one step above the rest */
        format = m->rest == CR_FORMAT_Q4_K ? CR_FORMAT_Q5_K : m->more;
    if (cr_shape(t)[1] % cr_formats[format].block && cr_formats[format].block == 256) format = smaller(format);
    return &cr_formats[cr_shape(t)[1] % cr_formats[format].block ? CR_FORMAT_F16 : format];
}

static size_t padded(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }
static size_t bytes_as(const cr_tensor *t, const cr_format_traits *type) {
    return (size_t)(cr_numel(t) / type->block) * (size_t)type->bytes;
}

static const float *importance_of(const char *name, const cr_tensor *t, const cr_params *importance) {
    for (int64_t i = 0; importance && i < cr_params_count(importance); i++) {
        const cr_tensor *found = cr_params_at(importance, i);
        if (!strcmp(cr_params_name(importance, i), name) && cr_numel(found) == cr_shape(t)[1]) return cr_data(found);
    }
    return NULL;
}

static cr_status write_tensor(cr_file *f, const char *name, const cr_tensor *t, const wanted *w) {
    static const unsigned char zeros[ALIGN];
    const cr_format_traits *type = type_for(name, t, w);
    const size_t bytes = bytes_as(t, type), plain = (size_t)cr_numel(t) * cr_dtype_size(dtype_of(type));
    void *whole = malloc(plain ? plain : 1);
    unsigned char *packed = is_packed(type) ? malloc(bytes ? bytes : 1) : whole;
    cr_status status = whole && packed ? CR_OK : cr_fail(CR_NO_MEMORY, f->op, "no memory for %zu bytes", plain);
    if (status == CR_OK && bytes) status = cr_read(t, dtype_of(type), whole, plain);
    if (status == CR_OK && bytes && is_packed(type) &&
        !cr_format_pack((cr_block_format)(type - cr_formats), whole, cr_shape(t)[0], cr_shape(t)[1], 
                 importance_of(name, t, w->importance), packed))
        status = cr_fail(CR_BAD_VALUE, f->op, "'%s' has numbers that are not finite or too large for %s", name,
                         type->name);
    if (status == CR_OK && bytes) status = cr_file_write(f, packed, bytes);
    if (status == CR_OK && padded(bytes) > bytes) status = cr_file_write(f, zeros, padded(bytes) - bytes);
    if (packed != whole) free(packed);
    free(whole);
    return status;
}

static cr_status put_header(const char *op, const char *path, const cr_params *p, const cr_json *entries,
                            const wanted *w, cr_out *o) {
    size_t at = 0;
    cr_out_put(o, "GGUF", 4);
    put_number(o, 3, 4);
    put_number(o, (uint64_t)cr_params_count(p), 8);
    put_number(o, (uint64_t)entries->count, 8);
    for (const cr_json *v = entries->first; v; v = v->next)
        if (put_entry(op, path, o, v)) return cr_error_status();
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const cr_tensor *t = cr_params_at(p, i);
        const char *name = cr_params_name(p, i);
        const cr_format_traits *as = type_for(name, t, w);
        if (cr_ndim(t) > 4)
            return cr_fail(CR_BAD_VALUE, op, "'%s' has %d axes, the most of GGUF are 4", name, cr_ndim(t));
        put_string(o, name, strlen(name));
        put_number(o, (uint64_t)cr_ndim(t), 4);
        for (int d = cr_ndim(t) - 1; d >= 0; d--) put_number(o, (uint64_t)cr_shape(t)[d], 8);
        put_number(o, as->ggml, 4);
        put_number(o, at, 8);
        at += padded(bytes_as(t, as));
    }
    while (o->bytes % ALIGN && !o->failed) cr_out_put(o, "", 1);
    return cr_out_check(o, op, path);
}

static const mix *mix_named(const char *op, const char *name) {
    char known[80] = "";
    for (int i = 0; i < MIXES; i++) {
        if (!strcmp(mixes[i].name, name)) return &mixes[i];
        const size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", !i ? "" : i + 1 < MIXES ? ", " : " or ", mixes[i].name);
    }
    cr_fail(CR_BAD_VALUE, op, "type must be %s, not '%.20s'", known, name);
    return NULL;
}

/* Layers and whether there is a head, by the names of tensors. */
static wanted wanted_of(const mix *m, const cr_params *p, const cr_params *importance) {
    wanted w = {.mix = m, .tied = true, .importance = importance};
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const char *name = cr_params_name(p, i);
        if (!strcmp(name, "output.weight")) w.tied = false;
        if (!strncmp(name, "blk.", 4) && atoll(name + 4) >= w.layers) w.layers = atoll(name + 4) + 1;
    }
    return w;
}

cr_status cr_gguf_save(const char *op, const char *path, const cr_params *p, const char *metadata, const char *type,
                       const cr_params *importance) {
    const mix *m = mix_named(op, type);
    if (!m) return cr_error_status();
    const wanted w = wanted_of(m, p, importance);
    cr_json *entries = cr_json_parse(op, "metadata", metadata, strlen(metadata));
    if (!entries) return cr_error_status();
    cr_out header = {0};
    cr_file f = {0};
    cr_status status = CR_OK;
    if (entries->kind == CR_JSON_OBJECT) status = put_header(op, path, p, entries, &w, &header);
    else status = cr_fail(CR_BAD_VALUE, op, "the metadata must be a JSON object");
    cr_json_free(entries);
    if (status == CR_OK) status = cr_file_create(&f, op, path);
    const bool created = status == CR_OK;
    if (status == CR_OK) status = cr_file_write(&f, header.text, header.bytes);
    for (int64_t i = 0; i < cr_params_count(p) && status == CR_OK; i++)
        status = write_tensor(&f, cr_params_name(p, i), cr_params_at(p, i), &w);
    if (status == CR_OK) status = cr_file_commit(&f);
    else if (created) cr_file_abandon(&f);
    cr_out_free(&header);
    return status;
}
