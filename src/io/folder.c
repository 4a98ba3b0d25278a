/* folder.c - weights in Hugging Face's layout: DIR/config.json, and DIR/model.safetensors or
 * DIR/model-00001-of-00002.safetensors ... with DIR/model.safetensors.index.json, which says the file
 * of each tensor.
 *
 * Saving is all or nothing (stage.h): the complete set is DIR/.chainrule-ready, which readers complete too.
 * Weights of an earlier save that the new one has not are removed.  Other files in DIR stay untouched. */
#include "folder.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "json.h"
#include "safetensors.h"
#include "stage.h"

static const char shards[] = "shards", single[] = "model.safetensors",
                  index_name[] = "model.safetensors.index.json", config_name[] = "config.json";

cr_status cr_join(const char *op, const char *dir, const char *name, cr_path *out) {
    const int n = snprintf(out->s, sizeof out->s, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof out->s ? CR_OK : cr_fail(CR_IO, op, "the path '%.60s...' is too long", dir);
}

/* ---- loading ---- */
bool cr_folder_is(const char *dir) {
    static const char *const names[] = {index_name, single, config_name};
    cr_path at;
    if (cr_folder_complete("load", dir) != CR_OK) return true;          /* the reader gets the message */
    for (int i = 0; i < 3; i++) if (!cr_join("load", dir, names[i], &at) && cr_os_exists(at.s)) return true;
    return false;
}

static cr_params *load_file(const char *op, const char *path, const cr_device *dev) {
    cr_mapping m;
    return cr_file_map(op, path, true, &m) ? NULL : cr_st_load(op, path, &m, dev);
}

typedef struct part { const char *file; cr_params *tensors; } part;

/* The tensors of a file of the index, loaded once; NULL: it cannot be read. */
static const part *part_of(const char *op, const char *dir, const char *file, part *parts, int64_t *n,
                           const cr_device *dev) {
    cr_path at;
    for (int64_t i = *n - 1; i >= 0; i--) if (!strcmp(parts[i].file, file)) return &parts[i];
    if (cr_join(op, dir, file, &at)) return NULL;
    cr_params *tensors = load_file(op, at.s, dev);
    if (!tensors) return NULL;
    parts[*n] = (part){file, tensors};
    return &parts[(*n)++];
}

static bool plain_name(const cr_json *v) {
    return v->kind == CR_JSON_STRING && v->bytes && strlen(v->text) == v->bytes && !strpbrk(v->text, "/\\") &&
           strcmp(v->text, ".") && strcmp(v->text, "..");
}

static cr_status take_tensor(const char *op, const char *path, const cr_json *v, const part *from, cr_params *into) {
    for (int64_t i = 0, n = cr_params_count(from->tensors); i < n; i++)
        if (!strcmp(cr_params_name(from->tensors, i), v->key))
            return cr_params_add(into, v->key, cr_params_at(from->tensors, i));
    return cr_fail(CR_IO, op, "'%s' names tensors that are not there: '%s' in %s", path, v->key, v->text);
}

static cr_status load_parts(const char *op, const char *dir, const char *path, const cr_json *map,
                            const cr_device *dev, cr_params *into) {
    cr_status status = CR_OK;
    int64_t n = 0;
    part *parts = calloc((size_t)map->count + 1, sizeof *parts);
    if (!parts) return cr_fail(CR_NO_MEMORY, op, "no memory for '%s'", path);
    for (const cr_json *v = map->first; v && status == CR_OK; v = v->next) {
        if (!plain_name(v)) {
            status = cr_fail(CR_IO, op, "'%s': '%s' is in no file of this folder", path, v->key);
            break;
        }
        const part *from = part_of(op, dir, v->text, parts, &n, dev);
        status = from ? take_tensor(op, path, v, from, into) : cr_error_status();
    }
    for (int64_t i = 0; i < n; i++) cr_params_free(parts[i].tensors);
    free(parts);
    return status;
}

cr_json *cr_json_file(const char *op, const char *path) {
    cr_mapping m;
    if (cr_file_map(op, path, false, &m)) return NULL;
    cr_json *root = cr_json_parse(op, path, m.data, m.bytes);
    cr_os_unmap(&m);
    return root;
}

cr_status cr_json_find(const char *op, const char *path, cr_json **out) {
    const bool there = cr_os_exists(path);
    *out = there ? cr_json_file(op, path) : NULL;
    return *out || !there ? CR_OK : cr_error_status();
}

static cr_params *load_index(const char *op, const char *dir, const char *path, const cr_device *dev) {
    cr_json *root = cr_json_file(op, path);
    if (!root) return NULL;
    const cr_json *map = cr_json_get(root, "weight_map");
    cr_params *p = NULL;
    cr_status status = CR_OK;
    if (!map || map->kind != CR_JSON_OBJECT)
        status = cr_fail(CR_IO, op, "'%s' is not an index of safetensors files: it has no \"weight_map\"", path);
    else if (!(p = cr_params_new())) status = cr_error_status();
    if (status == CR_OK) status = load_parts(op, dir, path, map, dev, p);
    cr_json_free(root);
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

cr_params *cr_folder_load(const char *op, const char *dir, const cr_device *dev) {
    cr_path at;
    if (cr_folder_complete(op, dir) || cr_join(op, dir, index_name, &at)) return NULL;
    if (cr_os_exists(at.s)) return load_index(op, dir, at.s, dev);
    if (cr_join(op, dir, single, &at)) return NULL;
    if (!cr_os_exists(at.s))
        return cr_fail(CR_IO, op, "'%s' has no weights: neither %s nor %s", dir, index_name, single), NULL;
    return load_file(op, at.s, dev);
}

cr_json *cr_folder_config(const char *op, const char *dir) {
    cr_path at;
    if (cr_folder_complete(op, dir) || cr_join(op, dir, config_name, &at)) return NULL;
    cr_json *root = cr_json_file(op, at.s);
    if (!root || root->kind == CR_JSON_OBJECT) return root;
    cr_json_free(root);
    return cr_fail(CR_BAD_VALUE, op, "'%s' is not a JSON object", at.s), NULL;
}

/* ---- saving ---- */
size_t cr_bytes_of(const cr_tensor *t) { return (size_t)cr_numel(t) * cr_dtype_size(cr_dtype_of(t)); }

/* The shard of each tensor, in order, so that a shard has at most `most` bytes or one tensor; returns how many. */
static int64_t cut_shards(const cr_params *p, size_t most, int64_t *shard) {
    int64_t count = 1;
    size_t used = 0;
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        const size_t bytes = cr_bytes_of(cr_params_at(p, i));
        if (used && bytes > most - (used < most ? used : most)) {
            count++;
            used = 0;
        }
        used += bytes;
        shard[i] = count - 1;
    }
    return count;
}

static void shard_name(int64_t i, int64_t count, char out[64]) {
    if (count == 1) snprintf(out, 64, "%s", single);
    else snprintf(out, 64, "model-%05lld-of-%05lld.safetensors", (long long)(i + 1), (long long)count);
}

static cr_status save_shard(const char *op, const char *dir, const cr_params *p, const int64_t *shard, int64_t i,
                            int64_t count) {
    char name[64];
    cr_path at;
    shard_name(i, count, name);
    cr_params *of = cr_params_new();
    cr_status status = of ? cr_join(op, dir, name, &at) : cr_error_status();
    for (int64_t k = 0; k < cr_params_count(p); k++)
        if (status == CR_OK && shard[k] == i) status = cr_params_add(of, cr_params_name(p, k), cr_params_at(p, k));
    if (status == CR_OK) status = cr_save(at.s, of, "{\"format\":\"pt\",\"written_by\":\"chainrule\"}");
    cr_params_free(of);
    return status;
}

cr_status cr_index_save(const char *op, const char *path, const cr_params *p, const int64_t *file_of, int64_t count,
                        void (*name)(int64_t i, int64_t count, char out[64])) {
    cr_out o = {0};
    size_t total = 0;
    for (int64_t i = 0; i < cr_params_count(p); i++) total += cr_bytes_of(cr_params_at(p, i));
    cr_out_format(&o, "{\"metadata\": {\"total_size\": %zu}, \"weight_map\": {", total);
    for (int64_t i = 0; i < cr_params_count(p); i++) {
        char file[64];
        name(file_of[i], count, file);
        cr_out_format(&o, "%s\n  ", i ? "," : "");
        cr_out_string(&o, cr_params_name(p, i), strlen(cr_params_name(p, i)));
        cr_out_format(&o, ": \"%s\"", file);
    }
    cr_out_format(&o, "\n}}\n");
    cr_status status = cr_out_check(&o, op, path);
    if (status == CR_OK) status = cr_file_save(op, path, o.text, o.bytes);
    cr_out_free(&o);
    return status;
}

static cr_status save_files(const char *op, const char *dir, const cr_params *p, const char *config,
                            const int64_t *shard, int64_t count) {
    cr_path at;
    cr_status status = CR_OK;
    for (int64_t i = 0; i < count && status == CR_OK; i++) status = save_shard(op, dir, p, shard, i, count);
    if (status == CR_OK && count > 1) status = cr_join(op, dir, index_name, &at);
    if (status == CR_OK && count > 1) status = cr_index_save(op, at.s, p, shard, count, shard_name);
    if (status == CR_OK) status = cr_join(op, dir, config_name, &at);
    if (status == CR_OK) status = cr_file_save(op, at.s, config, strlen(config));
    if (status == CR_OK) status = cr_join(op, dir, shards, &at);
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)count);
    return status != CR_OK ? status : cr_file_save(op, at.s, text, strlen(text));
}

/* Is it the name of a shard?  *of: how many there are. */
static bool shard_of(const char *name, long long *of) {
    int end = 0;
    return sscanf(name, "model-%*5[0-9]-of-%5lld.safetensors%n", of, &end) == 1 && end && !name[end];
}

static bool ours(const char *name) {
    static const char *const names[] = {single, index_name, config_name, shards};
    long long of;
    for (int i = 0; i < 4; i++) if (!strcmp(name, names[i])) return true;
    return shard_of(name, &of);
}

typedef struct sweep { const char *op, *dir; int64_t count; } sweep;

/* Removes weights that the new set of `count` shards has not. */
static void remove_stale(const char *name, void *ctx) {
    const sweep *s = ctx;
    long long of;
    cr_path at;
    const bool stale = (shard_of(name, &of) && (s->count == 1 || of != s->count)) ||
                       (!strcmp(name, single) && s->count > 1) || (!strcmp(name, index_name) && s->count == 1);
    if (stale && !cr_join(s->op, s->dir, name, &at)) (void)cr_os_remove(at.s);
}

/* fn for each file of a set of `count` shards. */
static cr_status each_of(const char *op, const char *dir, const char *stage, int64_t count,
                         cr_status (*fn)(const char *op, const char *dir, const char *stage, const char *name)) {
    cr_status status = CR_OK;
    for (int64_t i = 0; i < count && status == CR_OK; i++) {
        char name[64];
        shard_name(i, count, name);
        status = fn(op, dir, stage, name);
    }
    if (status == CR_OK && count > 1) status = fn(op, dir, stage, index_name);
    return status == CR_OK ? fn(op, dir, stage, config_name) : status;
}

static cr_status need(const char *op, const char *dir, const char *stage, const char *name) {
    cr_path from, to;
    if (cr_join(op, stage, name, &from) || cr_join(op, dir, name, &to)) return cr_error_status();
    if (cr_os_exists(from.s) || cr_os_exists(to.s)) return CR_OK;
    return cr_fail(CR_IO, op, "'%s' of an interrupted save lacks %s: remove it", stage, name);
}

/* The file named shards, moved last by being removed, says that files may be missing in DIR. */
static cr_status finish_folder(const char *op, const char *dir, const char *stage) {
    cr_path at;
    cr_mapping m;
    if (cr_join(op, stage, shards, &at)) return cr_error_status();
    if (!cr_os_exists(at.s)) return CR_OK;
    if (cr_file_map(op, at.s, false, &m)) return cr_error_status();
    char text[32] = "";
    memcpy(text, m.data, m.bytes < sizeof text ? m.bytes : sizeof text - 1);
    cr_os_unmap(&m);
    const long long count = strtoll(text, NULL, 10);
    if (count < 1 || count > 99999)
        return cr_fail(CR_IO, op, "'%s' of an interrupted save is damaged: remove '%s'", at.s, stage);
    cr_status status = each_of(op, dir, stage, count, need);
    if (status == CR_OK) status = each_of(op, dir, stage, count, cr_stage_move);
    if (status == CR_OK) cr_os_each_entry(dir, remove_stale, &(sweep){op, dir, count});
    return status;
}

static const cr_stage_kind saved = {".chainrule-ready", ours, finish_folder};

cr_status cr_folder_complete(const char *op, const char *dir) { return cr_stage_complete(op, dir, &saved, true); }

cr_status cr_complete_folder(const char *dir) {
    static const char op[] = "complete_folder";
    return dir ? cr_folder_complete(op, dir) : cr_fail_null(op, "the folder");
}

static cr_status check_config(const char *op, const char *config) {
    cr_json *root = cr_json_parse(op, config_name, config, strlen(config));
    if (!root) return cr_error_status();
    const bool object = root->kind == CR_JSON_OBJECT;
    cr_json_free(root);
    return object ? CR_OK : cr_fail(CR_BAD_VALUE, op, "the configuration must be a JSON object");
}

cr_status cr_save_folder(const char *dir, const cr_params *tensors, const char *config, int64_t shard_bytes) {
    static const char op[] = "save_folder";
    if (!dir) return cr_fail_null(op, "the folder");
    if (!tensors) return cr_fail_null(op, "the tensors");
    if (!config) return cr_fail_null(op, "the configuration");
    if (shard_bytes < 0)
        return cr_fail(CR_BAD_VALUE, op, "shard_bytes must be at least 0, not %lld", (long long)shard_bytes);
    cr_status status = check_config(op, config);
    cr_path stage;
    int lock = -1;
    if (status == CR_OK) status = cr_join(op, dir, cr_stage_new, &stage);
    if (status != CR_OK) return status;
    int64_t *shard = calloc((size_t)cr_params_count(tensors) + 1, sizeof *shard);
    if (!shard) return cr_fail(CR_NO_MEMORY, op, "no memory for the names of '%s'", dir);
    const int64_t count = cut_shards(tensors, shard_bytes ? (size_t)shard_bytes : (size_t)5000000000, shard);
    status = cr_stage_begin(op, dir, &saved, &lock);
    if (status == CR_OK) status = save_files(op, stage.s, tensors, config, shard, count);
    free(shard);
    return cr_stage_end(op, dir, &saved, lock, status);
}
