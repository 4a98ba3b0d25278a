/* safetensors.c - weights on disk (https://github.com/huggingface/safetensors, "Format"):
 *   u64 n, little-endian | n bytes of JSON {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets":
 *   [0, 24]}, ...} | data The reader trusts nothing: it checks lengths, names, dtypes, shapes and
 *   offsets, and the data must fill the file without holes or overlap.  On the cpu tensors are views
 *   of a private mapping: pages are read at first use and copied at the first write. The writer orders
 *   the data by element size, largest first, after a header padded with spaces, so every tensor is
 *   aligned. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "file.h"
#include "folder.h"
#include "gguf.h"
#include "commit.h"

enum { PREFIX = 8, ALIGN = 64, MOST_AXES = 1024 };             /* of a shape that is named in a message */
static const size_t MOST_HEADER = 100000000;        /* as the reference implementation */

static const struct { const char *name; cr_dtype dtype;
} dtypes[] = {{"BOOL", CR_BOOL}, {"U8", CR_U8},   {"U16", CR_U16}, {"U32", CR_U32}, {"U64", CR_U64},
              {"I8", CR_I8},     {"I16", CR_I16}, {"I32", CR_I32}, {"I64", CR_I64}, {"F16", CR_F16},
              {"BF16", CR_BF16}, {"F32", CR_F32}, {"F64", CR_F64}};
enum { KNOWN = sizeof dtypes / sizeof *dtypes };

static bool little_endian(void) { return *(const unsigned char *)&(const uint16_t){1} == 1; }

static cr_status check_machine(const char *op) {
    return little_endian() ? CR_OK
                           : cr_fail(CR_RUNTIME, op, "safetensors files are little-endian, this machine is not");
}

/* ---- reading the header ---- */
static cr_status read_dtype(const char *op, const char *path, const cr_json *v, cr_st_tensor *t) {
    if (!v || v->kind != CR_JSON_STRING) return cr_fail(CR_IO, op, "'%s': '%s' has no \"dtype\"", path, t->name);
    for (int i = 0; i < KNOWN; i++)
        if (strlen(dtypes[i].name) == v->bytes && !strcmp(dtypes[i].name, v->text)) {
            t->dtype = dtypes[i].dtype;
            return CR_OK;
        }
    return cr_fail(CR_IO, op,
                   "'%s': '%s' has dtype \"%.20s\", which is none of BOOL, U8 to U64, I8 to I64, F16, BF16, F32, F64",
                   path, t->name, v->text);
}

/* Reads the shape and computes its bytes. */
static cr_status read_shape(const char *op, const char *path, const cr_json *v, cr_st_tensor *t, size_t *bytes) {
    if (!v || v->kind != CR_JSON_ARRAY) return cr_fail(CR_IO, op, "'%s': '%s' has no \"shape\"", path, t->name);
    if (v->count > CR_MAX_DIMS)
        return cr_fail(CR_IO, op, "'%s': '%s' has %lld axes, the most are %d", path, t->name, (long long)v->count,
                       CR_MAX_DIMS);
    int64_t size = (int64_t)cr_dtype_size(t->dtype);
    bool fits = true, empty = false;
    for (const cr_json *d = v->first; d; d = d->next) {
        if (d->kind != CR_JSON_NUMBER || !d->integral || d->integer < 0)
            return cr_fail(CR_IO, op, "'%s': the shape of '%s' must be integers of at least 0", path, t->name);
        t->shape[t->ndim++] = d->integer;
        empty |= d->integer == 0;
        if (d->integer) fits &= !__builtin_mul_overflow(size, d->integer, &size);
    }
    if (!fits)
        return cr_fail(CR_IO, op, "'%s': the shape of '%s' has more elements than memory can address", path, t->name);
    *bytes = empty ? 0 : (size_t)size;
    return CR_OK;
}

static cr_status read_offsets(const char *op, const char *path, const cr_json *v, cr_st_tensor *t, size_t room,
                              size_t bytes) {
    const cr_json *begin = v && v->kind == CR_JSON_ARRAY && v->count == 2 ? v->first : NULL,
                  *end = begin ? begin->next : NULL;
    if (!begin || !begin->integral || !end->integral || begin->integer < 0 || end->integer < begin->integer)
        return cr_fail(CR_IO, op, "'%s': '%s' needs \"data_offsets\": [begin, end], integers with 0 <= begin <= end",
                       path, t->name);
    t->begin = (size_t)begin->integer;
    t->end = (size_t)end->integer;
    if (t->end > room)
        return cr_fail(CR_IO, op,
                       "'%s': '%s' ends at byte %zu of the data, which is %zu bytes long (is the file cut short?)",
                       path, t->name, t->end, room);
    if (t->end - t->begin == bytes) return CR_OK;
    return cr_fail(CR_IO, op, "'%s': '%s' has %zu bytes of data, its shape and dtype take %zu", path, t->name,
                   t->end - t->begin, bytes);
}

static cr_status read_tensor(const char *op, const char *path, const cr_json *v, size_t room, cr_st_tensor *t) {
    size_t bytes = 0;
    t->name = v->key;
    if (!v->key_bytes || strlen(v->key) != v->key_bytes)
        return cr_fail(CR_IO, op, "'%s': a tensor's name is empty or holds a NUL", path);
    if (v->kind != CR_JSON_OBJECT) return cr_fail(CR_IO, op, "'%s': '%s' is not described by an object", path, t->name);
    cr_status status = read_dtype(op, path, cr_json_get(v, "dtype"), t);
    if (status == CR_OK) status = read_shape(op, path, cr_json_get(v, "shape"), t, &bytes);
    return status != CR_OK ? status : read_offsets(op, path, cr_json_get(v, "data_offsets"), t, room, bytes);
}

static int by_offset(const void *a, const void *b) {
    const cr_st_tensor *x = *(cr_st_tensor *const *)a, *y = *(cr_st_tensor *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static cr_status check_cover(const char *op, const char *path, const cr_st_header *h, size_t room) {
    size_t at = 0;
    cr_st_tensor **sorted = malloc(((size_t)h->count + 1) * sizeof *sorted);
    if (!sorted) return cr_fail(CR_NO_MEMORY, op, "no memory for the header of '%s'", path);
    for (int64_t i = 0; i < h->count; i++) sorted[i] = &h->tensors[i];
    qsort(sorted, (size_t)h->count, sizeof *sorted, by_offset);
    cr_status status = CR_OK;
    for (int64_t i = 0; i < h->count; i++) {
        if (status != CR_OK) break;
        if (sorted[i]->begin != at)
            status = cr_fail(CR_IO, op, "'%s': '%s' starts at byte %zu of the data, the tensor before it ends at %zu",
                             path, sorted[i]->name, sorted[i]->begin, at);
        at = sorted[i]->end;
    }
    if (status == CR_OK && at != room)
        status = cr_fail(CR_IO, op, "'%s': the tensors end at byte %zu of %zu bytes of data", path, at, room);
    free(sorted);
    return status;
}

static cr_status read_tensors(const char *op, const char *path, const cr_json *root, size_t room, cr_st_header *h) {
    h->tensors = calloc((size_t)root->count + 1, sizeof *h->tensors);
    if (!h->tensors) return cr_fail(CR_NO_MEMORY, op, "no memory for the header of '%s'", path);
    for (const cr_json *v = root->first; v; v = v->next) {
        if (v->key_bytes == strlen("__metadata__") && !strcmp(v->key, "__metadata__")) {
            if (v->kind != CR_JSON_OBJECT) return cr_fail(CR_IO, op, "'%s': \"__metadata__\" is not an object", path);
            for (const cr_json *m = v->first; m; m = m->next)
                if (m->kind != CR_JSON_STRING)
                    return cr_fail(CR_IO, op, "'%s': \"__metadata__\" holds '%s', which is not a string", path, m->key);
            h->metadata = v;
            continue;
        }
        cr_status status = read_tensor(op, path, v, room, &h->tensors[h->count]);
        if (status != CR_OK) return status;
        h->count++;
    }
    return check_cover(op, path, h, room);
}

/* Formats that are given by mistake, by their first bytes. */
static const struct { const char *magic; size_t bytes; const char *says;
} others[] = {{"PK\3\4", 4, "a zip, as torch.save writes; chainrule.load in Python reads it"},
              {"\x80\2\x8a\n", 4, "a pickle, as old versions of torch.save wrote; chainrule.load in Python reads it"},
              {"\x93NUMPY", 6, "an array of NumPy"},
              {"\x89HDF\r\n", 6, "HDF5"}};

static const char *other_format(const unsigned char *file) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!memcmp(file, others[i].magic, others[i].bytes)) return others[i].says;
    return NULL;
}

cr_status cr_st_parse(const char *op, const char *path, const unsigned char *file, size_t bytes, cr_st_header *h) {
    *h = (cr_st_header){0};
    uint64_t n = 0;
    if (bytes < PREFIX)
        return cr_fail(CR_IO, op, "'%s' is not a safetensors file: %zu bytes are too few for a header", path, bytes);
    for (int i = 0; i < PREFIX; i++) n |= (uint64_t)file[i] << 8 * i;
    const char *other = n > bytes - PREFIX || n > MOST_HEADER ? other_format(file) : NULL;
    if (other) return cr_fail(CR_IO, op, "'%s' is not a safetensors file: it is %s", path, other);
    if (n > bytes - PREFIX || n > MOST_HEADER)
        return cr_fail(CR_IO, op,
                       "'%s' is not a safetensors file: its header has %llu bytes, and %zu follow", path,
                       (unsigned long long)n, bytes - PREFIX);
    if (!n || file[PREFIX] != '{')
        return cr_fail(CR_IO, op, "'%s' is not a safetensors file: its header does not start with '{'", path);
    h->data = file + PREFIX + n;
    h->json = cr_json_parse_short(op, path, file + PREFIX, (size_t)n, MOST_AXES);
    if (!h->json) return cr_error_status();
    cr_status status = read_tensors(op, path, h->json, bytes - PREFIX - (size_t)n, h);
    if (status != CR_OK) cr_st_free(h);
    return status;
}

void cr_st_free(cr_st_header *h) {
    cr_json_free(h->json);
    free(h->tensors);
    *h = (cr_st_header){0};
}

/* ---- loading ---- */
static cr_status check_bools(const char *op, const char *path, const cr_st_tensor *t, const unsigned char *data) {
    for (size_t i = t->begin; t->dtype == CR_BOOL && i < t->end; i++)
        if (data[i] > 1)
            return cr_fail(CR_IO, op, "'%s': '%s' has the byte %d at %zu: a bool is 0 or 1", path, t->name, data[i],
                           i - t->begin);
    return CR_OK;
}

static cr_status load_tensor(const char *op, const char *path, cr_shared_mapping *s, const cr_st_tensor *t,
                             const unsigned char *data, const cr_device *dev, cr_params *into) {
    cr_status status = check_bools(op, path, t, data);
    if (status != CR_OK) return status;
    cr_scope_begin();
    cr_tensor *here = cr_mapping_tensor(s, data + t->begin, t->ndim, t->shape, t->dtype);
    here = here ? cr_to(here, t->dtype, dev) : NULL;
    status = here ? cr_params_add(into, t->name, here) : cr_error_status();
    cr_scope_end();
    return status;
}

cr_params *cr_st_load(const char *op, const char *path, cr_mapping *m, const cr_device *dev) {
    cr_st_header h = {0};
    cr_params *p = NULL;
    cr_shared_mapping *s = cr_mapping_share(op, path, m);
    if (!s) return NULL;
    cr_status status = check_machine(op);
    if (status == CR_OK) status = cr_st_parse(op, path, s->m.data, s->m.bytes, &h);
    if (status == CR_OK && !(p = cr_params_new())) status = cr_error_status();
    const bool recording = cr_set_grad_enabled(false);
    for (int64_t i = 0; i < h.count; i++) {
        if (status != CR_OK) break;
        status = load_tensor(op, path, s, &h.tensors[i], h.data, dev, p);
    }
    cr_set_grad_enabled(recording);
    cr_st_free(&h);
    cr_mapping_release(s);
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

cr_params *cr_load(const char *path, const cr_device *dev) {
    static const char op[] = "load";
    cr_mapping m;
    if (!path) return cr_fail_null(op, "the path"), NULL;
    if (!dev) return cr_fail_null(op, "the device"), NULL;
    if (cr_os_is_directory(path))
        return cr_folder_is(path) ? cr_folder_load(op, path, dev) : cr_saved_load_weights(op, path, dev);
    if (cr_file_map(op, path, true, &m)) return NULL;
    return cr_gguf_is(m.data, m.bytes) ? cr_gguf_load(op, path, &m, dev, false, NULL) : cr_st_load(op, path, &m, dev);
}

/* An object of strings; NULL: {}. */
static void put_strings(cr_out *o, const cr_json *object) {
    cr_out_put(o, "{", 1);
    for (const cr_json *m = object ? object->first : NULL; m; m = m->next) {
        cr_out_string(o, m->key, m->key_bytes);
        cr_out_put(o, ":", 1);
        cr_out_string(o, m->text, m->bytes);
        if (m->next) cr_out_put(o, ",", 1);
    }
    cr_out_put(o, "}", 1);
}

char *cr_load_metadata(const char *path, const char *key) {
    static const char op[] = "load_metadata";
    cr_mapping m;
    cr_st_header h;
    char *text = NULL;
    if (!path) return cr_fail_null(op, "the path"), NULL;
    cr_path inside;
    const bool folder = cr_os_is_directory(path);
    if (folder ? cr_saved_map_metadata(op, path, &m, &inside) : cr_file_map(op, path, true, &m)) return NULL;
    if (folder) path = inside.s;
    if (cr_gguf_is(m.data, m.bytes)) {
        text = cr_gguf_metadata(op, path, &m, key);
        cr_os_unmap(&m);
        return text;
    }
    if (!cr_st_parse(op, path, m.data, m.bytes, &h)) {
        const cr_json *v = key ? cr_json_get(h.metadata, key) : NULL;
        cr_out o = {0};
        if (v) cr_out_put(&o, v->text, v->bytes);
        else if (!key) put_strings(&o, h.metadata);
        if (v || !key) cr_out_put(&o, "", 1);       /* the terminator */
        if (!cr_out_check(&o, op, path)) text = o.text;
        cr_st_free(&h);
    }
    cr_os_unmap(&m);
    return text;
}

void cr_free(void *memory) { free(memory); }

/* ---- saving ---- */
typedef struct extent { size_t begin, bytes; } extent;

/* Computes each tensor's offset: by element size, largest first; equal sizes in the set's order. */
static cr_status lay_out(const char *op, const char *path, const cr_params *p, extent *extents) {
    const int64_t n = cr_params_count(p);
    size_t at = 0;
    for (size_t size = 8; size; size /= 2)
        for (int64_t i = 0; i < n; i++) {
            const cr_tensor *t = cr_params_at(p, i);
            if (cr_dtype_size(cr_dtype_of(t)) != size) continue;
            extents[i] = (extent){at, (size_t)cr_numel(t) * size};
            if (__builtin_add_overflow(at, extents[i].bytes, &at))
                return cr_fail(CR_BAD_VALUE, op, "'%s' would be longer than a file can be", path);
        }
    return CR_OK;
}

static void put_tensor(cr_out *o, const char *name, const cr_tensor *t, const extent *where) {
    int k = 0;
    while (k < KNOWN - 1 && dtypes[k].dtype != cr_dtype_of(t)) k++;
    cr_out_string(o, name, strlen(name));
    cr_out_format(o, ":{\"dtype\":\"%s\",\"shape\":[", dtypes[k].name);
    for (int d = 0; d < cr_ndim(t); d++) cr_out_format(o, "%s%lld", d ? "," : "", (long long)cr_shape(t)[d]);
    cr_out_format(o, "],\"data_offsets\":[%zu,%zu]}", where->begin, where->begin + where->bytes);
}

static cr_status check_strings(const char *op, const char *path, const cr_json *root) {
    if (root->kind != CR_JSON_OBJECT)
        return cr_fail(CR_BAD_VALUE, op, "the metadata of '%s' is not a JSON object", path);
    for (const cr_json *m = root->first; m; m = m->next)
        if (m->kind != CR_JSON_STRING)
            return cr_fail(CR_BAD_VALUE, op, "the metadata of '%s' has '%s', which is not a string", path, m->key);
    return CR_OK;
}

static cr_status put_metadata(const char *op, const char *path, cr_out *o, const char *metadata) {
    cr_json *root = cr_json_parse(op, "metadata", metadata, strlen(metadata));
    cr_status status = root ? check_strings(op, path, root) : CR_BAD_VALUE;
    if (status == CR_OK) {
        cr_out_format(o, "\"__metadata__\":");
        put_strings(o, root);
    }
    cr_json_free(root);
    return status;
}

/* The length and the JSON, padded so that the data starts at a multiple of ALIGN. */
static cr_status put_header(const char *op, const char *path, const cr_params *p, const char *metadata,
                            const extent *extents, cr_out *o) {
    const int64_t n = cr_params_count(p);
    cr_out_put(o, (const char[PREFIX]){0}, PREFIX);
    cr_out_put(o, "{", 1);
    if (metadata && put_metadata(op, path, o, metadata)) return cr_error_status();
    for (int64_t i = 0; i < n; i++) {
        if (!strcmp(cr_params_name(p, i), "__metadata__"))
            return cr_fail(CR_BAD_VALUE, op, "a tensor of a safetensors file cannot be named '__metadata__'");
        if (i || metadata) cr_out_put(o, ",", 1);
        put_tensor(o, cr_params_name(p, i), cr_params_at(p, i), &extents[i]);
    }
    cr_out_put(o, "}", 1);
    while (o->bytes % ALIGN && !o->failed) cr_out_put(o, " ", 1);
    if (cr_out_check(o, op, path)) return CR_NO_MEMORY;
    if (o->bytes - PREFIX > MOST_HEADER)
        return cr_fail(CR_BAD_VALUE, op, "the header of '%s' takes %zu bytes, at most %zu are supported", path,
                       o->bytes - PREFIX, MOST_HEADER);
    for (int i = 0; i < PREFIX; i++) o->text[i] = (char)(((uint64_t)o->bytes - PREFIX) >> 8 * i);
    return CR_OK;
}

static cr_status write_data(cr_file *f, const cr_tensor *t, size_t bytes) {
    const bool direct = cr_is_contiguous(t) && (cr_device_of(t) == cr_cpu() || cr_device_of(t) == cr_ref());
    if (!bytes || direct) return bytes ? cr_file_write(f, cr_data(t), bytes) : CR_OK;
    void *copy = malloc(bytes);
    if (!copy) return cr_fail(CR_NO_MEMORY, f->op, "no memory for %zu bytes on their way to '%s'", bytes, f->path);
    cr_status status = cr_read(t, cr_dtype_of(t), copy, bytes);
    if (status == CR_OK) status = cr_file_write(f, copy, bytes);
    free(copy);
    return status;
}

static cr_status write_all(const char *op, const char *path, const cr_params *p, const cr_out *header) {
    cr_file f;
    cr_status status = cr_file_create(&f, op, path);
    if (status == CR_OK) status = cr_file_write(&f, header->text, header->bytes);
    for (size_t size = 8; size; size /= 2)       /* the order of lay_out */
        for (int64_t i = 0; i < cr_params_count(p); i++) {
            if (status != CR_OK) break;
            const cr_tensor *t = cr_params_at(p, i);
            if (cr_dtype_size(cr_dtype_of(t)) == size) status = write_data(&f, t, (size_t)cr_numel(t) * size);
        }
    if (status == CR_OK) return cr_file_commit(&f);
    cr_file_abandon(&f);
    return status;
}

cr_status cr_save(const char *path, const cr_params *tensors, const char *metadata) {
    static const char op[] = "save";
    if (!path) return cr_fail_null(op, "the path");
    if (!tensors) return cr_fail_null(op, "the tensors");
    cr_status status = check_machine(op);
    if (status != CR_OK) return status;
    extent *extents = calloc((size_t)cr_params_count(tensors) + 1, sizeof *extents);
    if (!extents) return cr_fail(CR_NO_MEMORY, op, "no memory for the header of '%s'", path);
    cr_out header = {0};
    status = lay_out(op, path, tensors, extents);
    if (status == CR_OK) status = put_header(op, path, tensors, metadata, extents, &header);
    if (status == CR_OK) status = write_all(op, path, tensors, &header);
    cr_out_free(&header);
    free(extents);
    return status;
}
