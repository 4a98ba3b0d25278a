/* commit.c - the files of a checkpoint, and how a save replaces them: a folder with
 *   weights.safetensors     the parameters, and the user's metadata
 *   optimizer.safetensors   moments by name
 *   state.json              step, optimizer's steps, generator, loader, scaler; null for absent objects
 *
 * N ranks that share the moments write a part each:
 *   weights-00001-of-0000N.safetensors ..., whole tensors; the metadata is in the first
 *   weights.safetensors.index.json, Hugging Face's index: the file of each tensor
 *   optimizer-00001-of-0000N.safetensors ..., whose entries may be pieces, "NAME@FIRST:ROWSxCOLUMNS"
 *
 * Saving is all or nothing (stage.h): the complete set is DIR/.chainrule-commit.  A reader takes a file from
 * there as long as it is there, and moves nothing.  Other files in DIR stay untouched.
 *
 * A reader maps the files and then checks that each path still names the mapped file.  If so,
 * all belonged to one checkpoint when the last was mapped.  If not, a save happened in between,
 * and the reader starts again. */
#include "commit.h"

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "json.h"
#include "safetensors.h"

static const char committed[] = ".chainrule-commit";

int cr_saved_moments(int rank, int ranks) { return CR_SAVED_WEIGHTS + ranks + rank; }
static int count_of_files(int ranks) { return CR_SAVED_WEIGHTS + 2 * ranks; }

cr_saved_file cr_saved_name(int file, int ranks) {
    cr_saved_file x = {"state.json"};
    const bool weights = file < cr_saved_moments(0, ranks);
    const char *kind = weights ? "weights" : "optimizer";
    const int rank = file - (weights ? CR_SAVED_WEIGHTS : cr_saved_moments(0, ranks));
    if (file == CR_SAVED_INDEX) x = (cr_saved_file){"weights.safetensors.index.json"};
    else if (file != CR_SAVED_STATE && ranks == 1) snprintf(x.s, sizeof x.s, "%s.safetensors", kind);
    else if (file != CR_SAVED_STATE) snprintf(x.s, sizeof x.s, "%s-%05d-of-%05d.safetensors", kind, rank + 1, ranks);
    return x;
}

/* DIR/FOLDER/name */
static cr_status join_path(const char *op, const char *dir, const char *folder, const char *name, cr_path *out) {
    char inside[96];
    snprintf(inside, sizeof inside, "%s/%s", folder, name);
    return cr_join(op, dir, inside, out);
}

cr_status cr_saved_path(const char *op, const char *dir, int file, int ranks, cr_path *out) {
    return join_path(op, dir, cr_stage_new, cr_saved_name(file, ranks).s, out);
}

cr_status cr_saved_put(const char *op, const char *dir, int file, int ranks, const cr_params *p,
                       const char *metadata) {
    cr_path to;
    cr_status status = cr_saved_path(op, dir, file, ranks, &to);
    return status == CR_OK ? cr_save(to.s, p, metadata) : status;
}

/* Large numbers are strings: most readers store JSON's numbers as doubles. */
cr_status cr_saved_write(const char *op, const char *dir, const cr_saved_state *s, const char *metadata, int ranks) {
    cr_path to;
    cr_out o = {0};
    cr_status status = cr_saved_path(op, dir, CR_SAVED_STATE, ranks, &to);
    cr_out_format(&o, "{\"format\": \"chainrule-training\", \"version\": 1,\n \"step\": %lld,\n", (long long)s->step);
    if (ranks > 1) cr_out_format(&o, " \"ranks\": %d,\n", ranks);
    cr_out_format(&o, " \"weights\": %s,\n \"optimizer\": ", s->weights ? "true" : "null");
    if (s->optimizer_steps < 0) cr_out_format(&o, "null,\n");
    else cr_out_format(&o, "{\"steps\": %lld},\n", (long long)s->optimizer_steps);
    if (!s->generator) cr_out_format(&o, " \"generator\": null,\n");
    else
        cr_out_format(&o, " \"generator\": {\"seed\": \"%llu\", \"counter\": \"%llu\"},\n", (unsigned long long)s->seed,
                      (unsigned long long)s->counter);
    if (s->cursor < 0) cr_out_format(&o, " \"loader\": null,\n");
    else
        cr_out_format(&o, " \"loader\": {\"cursor\": %lld, \"batches\": %lld},\n", (long long)s->cursor,
                      (long long)s->batches);
    const cr_scaler_state *c = &s->scaling;
    if (s->scaler)
        cr_out_format(&o,
                      " \"scaler\": {\"scale\": %.17g, \"growth_factor\": %.17g, \"backoff_factor\": %.17g, "
                      "\"growth_interval\": %lld, \"growth_tracker\": %lld},\n",
                      c->scale, c->growth_factor, c->backoff_factor, (long long)c->growth_interval,
                      (long long)c->growth_tracker);
    cr_out_format(&o, " \"metadata\": %s}\n", metadata ? metadata : "null");
    if (status == CR_OK) status = cr_out_check(&o, op, to.s);
    if (status == CR_OK) status = cr_file_save(op, to.s, o.text, o.bytes);
    cr_out_free(&o);
    return status;
}

/* Is it a file of a checkpoint? */
static bool is_ours(const char *file) {
    int end = 0;
    for (int i = CR_SAVED_STATE; i < count_of_files(1); i++)
        if (!strcmp(file, cr_saved_name(i, 1).s)) return true;
    return (sscanf(file, "weights-%*5[0-9]-of-%*5[0-9].safetensors%n", &end) == 0 && end && !file[end]) ||
           (sscanf(file, "optimizer-%*5[0-9]-of-%*5[0-9].safetensors%n", &end) == 0 && end && !file[end]);
}

/* ---- reading ---- */
static cr_status pick_folder(const char *op, const char *dir, cr_saved_file file, cr_path *out) {
    cr_status status = join_path(op, dir, committed, file.s, out);
    return status != CR_OK || cr_os_exists(out->s) ? status : cr_join(op, dir, file.s, out);
}

void cr_saved_close(cr_saved_files *s) {
    for (int i = 0; i < s->n; i++) cr_os_unmap(&s->map[i]);
    free(s->map);
    free(s->at);
    *s = (cr_saved_files){0};
}

/* How many ranks wrote the parts, as the state says; a state that is wrong is reported when it is read. */
static int ranks_of(const cr_mapping *m) {
    cr_saved_error e;
    cr_error_take(&e);
    cr_json *root = m->data ? cr_json_parse("training_load", "", m->data, m->bytes) : NULL;
    const cr_json *v = root ? cr_json_get(root, "ranks") : NULL;
    const bool good = v && v->integral && v->integer >= 1 && v->integer <= CR_SAVED_RANKS;
    const int ranks = good ? (int)v->integer : 1;
    cr_json_free(root);
    cr_error_clear();
    cr_error_put(&e);
    return ranks;
}

static cr_status set_map(const char *op, const char *dir, cr_saved_files *s) {
    cr_path at;
    cr_mapping first = {0};
    *s = (cr_saved_files){0};
    cr_status status = pick_folder(op, dir, cr_saved_name(CR_SAVED_STATE, 1), &at);
    if (status != CR_OK) return status;
    (void)cr_os_map_private(at.s, &first);
    s->ranks = ranks_of(&first);
    s->map = calloc((size_t)count_of_files(s->ranks), sizeof *s->map);
    s->at = calloc((size_t)count_of_files(s->ranks), sizeof *s->at);
    s->n = s->map && s->at ? count_of_files(s->ranks) : 0;
    if (!s->n) {
        cr_os_unmap(&first);
        cr_saved_close(s);
        return cr_fail(CR_NO_MEMORY, op, "no memory for the names of the files in '%s'", dir);
    }
    s->map[CR_SAVED_STATE] = first;
    s->at[CR_SAVED_STATE] = at;
    for (int i = 0; i < s->n && status == CR_OK; i++) {
        if (i == CR_SAVED_STATE || (i == CR_SAVED_INDEX && s->ranks == 1)) continue;
        status = pick_folder(op, dir, cr_saved_name(i, s->ranks), &s->at[i]);
        if (status == CR_OK) (void)cr_os_map_private(s->at[i].s, &s->map[i]);
    }
    return status;
}

/* The first file that was replaced, or that exists and cannot be mapped; s->n: none. */
static int set_changed(const char *op, const char *dir, const cr_saved_files *s) {
    cr_path now;
    for (int i = 0; i < s->n; i++) {
        if (i == CR_SAVED_INDEX && s->ranks == 1) continue;
        const cr_file_id id = pick_folder(op, dir, cr_saved_name(i, s->ranks), &now) ? (cr_file_id){0}
                                                                                     : cr_os_file_id(now.s);
        if (id.device != s->map[i].id.device || id.inode != s->map[i].id.inode) return i;
    }
    return s->n;
}

cr_status cr_saved_open(const char *op, const char *dir, cr_saved_files *s) {
    cr_path at = {""};
    if (!cr_os_is_directory(dir)) return cr_fail(CR_IO, op, "'%s' is not a folder", dir);
    for (int tries = 0; tries < 1000; tries++) {    /* a second try is rare; the bound is for a file without read
                                                     * permission */
        cr_status status = set_map(op, dir, s);
        const int changed = status == CR_OK ? set_changed(op, dir, s) : 0;
        if (status == CR_OK && changed == s->n) return CR_OK;
        if (status == CR_OK) at = s->at[changed];
        cr_saved_close(s);
        if (status != CR_OK) return status;
    }
    cr_mapping m = {0};
    if (cr_os_map(at.s, &m)) cr_os_unmap(&m);
    return cr_fail(CR_IO, op, "cannot read '%s': %s", at.s, cr_os_error());
}

cr_status cr_saved_missing(const char *op, const cr_saved_files *s, int file) {
    return cr_fail(CR_IO, op, "cannot read '%s': No such file or directory", s->at[file].s);
}

/* The tensors take the mapping from the set. */
cr_status cr_saved_tensors(const char *op, cr_saved_files *s, int file, const cr_device *dev, cr_params **out) {
    if (!s->map[file].data) return cr_saved_missing(op, s, file);
    *out = cr_st_load(op, s->at[file].s, &s->map[file], dev);
    return *out ? CR_OK : cr_error_status();
}

cr_status cr_saved_weights(const char *op, cr_saved_files *s, const cr_device *dev, cr_params **out) {
    if (s->ranks == 1) return cr_saved_tensors(op, s, CR_SAVED_WEIGHTS, dev, out);
    *out = cr_params_new();
    cr_status status = *out ? CR_OK : cr_error_status();
    for (int r = 0; r < s->ranks && status == CR_OK; r++) {
        cr_params *part = NULL;
        status = cr_saved_tensors(op, s, CR_SAVED_WEIGHTS + r, dev, &part);
        for (int64_t i = 0; status == CR_OK && i < cr_params_count(part); i++)
            status = cr_params_add(*out, cr_params_name(part, i), cr_params_at(part, i));
        cr_params_free(part);
    }
    return status;
}

cr_params *cr_saved_load_weights(const char *op, const char *dir, const cr_device *dev) {
    cr_saved_files s;
    cr_params *p = NULL;
    if (cr_saved_open(op, dir, &s) != CR_OK) return NULL;
    const cr_status status = cr_saved_weights(op, &s, dev, &p);
    cr_saved_close(&s);
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

cr_status cr_saved_map_metadata(const char *op, const char *dir, cr_mapping *m, cr_path *where) {
    cr_saved_files s;
    cr_status status = cr_saved_open(op, dir, &s);
    if (status != CR_OK) return status;
    if (!s.map[CR_SAVED_WEIGHTS].data) status = cr_saved_missing(op, &s, CR_SAVED_WEIGHTS);
    else *m = s.map[CR_SAVED_WEIGHTS], *where = s.at[CR_SAVED_WEIGHTS], s.map[CR_SAVED_WEIGHTS] = (cr_mapping){0};
    cr_saved_close(&s);
    return status;
}

char *cr_training_weights(const char *dir) {
    static const char op[] = "training_weights";
    cr_path at;
    cr_mapping m = {0};
    if (!dir) return cr_fail_null(op, "the folder"), NULL;
    if (pick_folder(op, dir, cr_saved_name(CR_SAVED_STATE, 1), &at)) return NULL;
    (void)cr_os_map(at.s, &m);
    const int ranks = ranks_of(&m);
    cr_os_unmap(&m);
    if (pick_folder(op, dir, cr_saved_name(ranks > 1 ? CR_SAVED_INDEX : CR_SAVED_WEIGHTS, ranks), &at)) return NULL;
    char *owned = malloc(strlen(at.s) + 1);
    if (!owned) return cr_fail(CR_NO_MEMORY, op, "no memory for a path"), NULL;
    return strcpy(owned, at.s);
}

static bool count_of(const cr_json *v, int64_t *out) {
    if (!v || v->kind != CR_JSON_NUMBER || !v->integral || v->integer < 0) return false;
    *out = v->integer;
    return true;
}

static bool u64_of(const cr_json *v, uint64_t *out) {
    if (!v || v->kind != CR_JSON_STRING || !v->bytes) return false;
    *out = 0;
    for (size_t i = 0; i < v->bytes; i++) {
        if (v->text[i] < '0' || v->text[i] > '9') return false;
        if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, (uint64_t)(v->text[i] - '0'), out))
            return false;
    }
    return true;
}

/* False: the member is absent or of another kind.  *out is NULL if it is null. */
static bool section(const cr_json *root, const char *name, cr_json_kind kind, const cr_json **out) {
    const cr_json *v = cr_json_get(root, name);
    *out = v && v->kind == kind ? v : NULL;
    return v && (*out || v->kind == CR_JSON_NULL);
}

static bool real_of(const cr_json *v, double *out) {
    if (!v || v->kind != CR_JSON_NUMBER) return false;
    *out = v->number;
    return true;
}

static bool read_scaler(const cr_json *v, cr_scaler_state *c) {
    return real_of(cr_json_get(v, "scale"), &c->scale) && real_of(cr_json_get(v, "growth_factor"), &c->growth_factor) &&
           real_of(cr_json_get(v, "backoff_factor"), &c->backoff_factor) &&
           count_of(cr_json_get(v, "growth_interval"), &c->growth_interval) &&
           count_of(cr_json_get(v, "growth_tracker"), &c->growth_tracker);
}

/* Fills s; returns a description of the first missing or wrong entry, or NULL. */
static const char *read_state(const cr_json *root, cr_saved_state *s) {
    const cr_json *format = cr_json_get(root, "format"), *version = cr_json_get(root, "version"), *weights, *optimizer,
                  *generator, *loader, *scaler = cr_json_get(root, "scaler");
    *s = (cr_saved_state){.optimizer_steps = -1, .cursor = -1, .batches = -1};
    if (!format || format->kind != CR_JSON_STRING || strcmp(format->text, "chainrule-training"))
        return "\"format\": \"chainrule-training\"";
    if (!version || !version->integral || version->integer != 1) return "\"version\": 1";
    if (!count_of(cr_json_get(root, "step"), &s->step)) return "\"step\", a number of at least 0";
    if (!section(root, "weights", CR_JSON_BOOL, &weights)) return "\"weights\", true or null";
    if (!section(root, "optimizer", CR_JSON_OBJECT, &optimizer)) return "\"optimizer\", an object or null";
    if (!section(root, "generator", CR_JSON_OBJECT, &generator)) return "\"generator\", an object or null";
    if (!section(root, "loader", CR_JSON_OBJECT, &loader)) return "\"loader\", an object or null";
    s->weights = weights && weights->truth;
    if (optimizer && !count_of(cr_json_get(optimizer, "steps"), &s->optimizer_steps))
        return "the optimizer's \"steps\", a number of at least 0";
    s->generator = generator != NULL;
    if (generator &&
        !(u64_of(cr_json_get(generator, "seed"), &s->seed) && u64_of(cr_json_get(generator, "counter"), &s->counter)))
        return "the generator's \"seed\" and \"counter\", decimal numbers in strings";
    if (loader &&
        !(count_of(cr_json_get(loader, "cursor"), &s->cursor) && count_of(cr_json_get(loader, "batches"), &s->batches)))
        return "the loader's \"cursor\" and \"batches\", numbers of at least 0";
    s->scaler = scaler && scaler->kind == CR_JSON_OBJECT;
    if (s->scaler && !read_scaler(scaler, &s->scaling))
        return "the scaler's \"scale\", \"growth_factor\", \"backoff_factor\", \"growth_interval\" and "
               "\"growth_tracker\", numbers";
    return NULL;
}

/* ---- the end of a save */
typedef struct moving { const char *op, *dir, *from; const cr_saved_state *s; int ranks; cr_status status; } moving;

static void move_file(moving *m, int file, int ranks) {
    if (m->status == CR_OK) m->status = cr_stage_move(m->op, m->dir, m->from, cr_saved_name(file, ranks).s);
}

/* Removes a file of an earlier save that the state does not have. */
static void remove_old(const char *file, void *ctx) {
    const moving *m = ctx;
    cr_path at;
    if (!is_ours(file) || cr_join(m->op, m->dir, file, &at)) return;
    for (int i = 0; i < count_of_files(m->ranks); i++) {
        const bool there = i == CR_SAVED_STATE || (i == CR_SAVED_INDEX && m->ranks > 1 && m->s->weights) ||
                           (i >= CR_SAVED_WEIGHTS && (i < cr_saved_moments(0, m->ranks) ? m->s->weights
                                                                                         : m->s->optimizer_steps >= 0));
        if (there && !strcmp(file, cr_saved_name(i, m->ranks).s)) return;
    }
    (void)cr_os_remove(at.s);
}

/* The state is moved last: it says which files are old. */
static cr_status finish_commit(const char *op, const char *dir, const char *from) {
    cr_path at;
    cr_mapping map;
    cr_saved_state s;
    moving m = {op, dir, from, &s, 1, cr_join(op, from, cr_saved_name(CR_SAVED_STATE, 1).s, &at)};
    if (m.status != CR_OK || !cr_os_exists(at.s)) return m.status;
    if (cr_file_map(op, at.s, false, &map)) return cr_error_status();
    m.ranks = ranks_of(&map);
    cr_json *root = cr_json_parse(op, at.s, map.data, map.bytes);
    const char *wrong = root ? read_state(root, &s) : "JSON";
    cr_json_free(root);
    cr_os_unmap(&map);
    if (wrong) return cr_fail(CR_IO, op, "'%s' of an interrupted save is damaged: remove '%s'", at.s, from);
    for (int i = CR_SAVED_INDEX; i < count_of_files(m.ranks); i++) move_file(&m, i, m.ranks);
    if (m.status == CR_OK) cr_os_each_entry(dir, remove_old, &m);
    move_file(&m, CR_SAVED_STATE, 1);
    return m.status;
}

const cr_stage_kind cr_saved_kind = {committed, is_ours, finish_commit};

cr_status cr_saved_read(const char *op, const cr_saved_files *files_of, cr_saved_state *s) {
    const char *at = files_of->at[CR_SAVED_STATE].s;
    const cr_mapping *m = &files_of->map[CR_SAVED_STATE];
    if (!m->data) return cr_saved_missing(op, files_of, CR_SAVED_STATE);
    cr_json *root = cr_json_parse(op, at, m->data, m->bytes);
    if (!root) return cr_error_status();
    const char *wrong = read_state(root, s);
    cr_json_free(root);
    return wrong ? cr_fail(CR_IO, op, "'%s' lacks %s", at, wrong) : CR_OK;
}

/* ---- what is in a folder */
typedef struct found { const char *op, *dir; bool inside, files; cr_status status; } found;

static void check_entry(const char *name, void *ctx) {
    found *f = ctx;
    cr_path at;
    if (f->status != CR_OK || (f->status = cr_join(f->op, f->dir, name, &at))) return;
    const bool stage = !f->inside && (!strcmp(name, cr_stage_new) || !strcmp(name, committed));
    if (stage && cr_os_is_directory(at.s)) {
        found in = {f->op, at.s, true, false, CR_OK};
        cr_os_each_entry(at.s, check_entry, &in);
        f->status = in.status;
        return;
    }
    if (!stage && (is_ours(name) || cr_os_is_temporary(name)) && cr_os_is_plain(at.s)) {
        f->files = true;
        return;
    }
    f->status = cr_fail(CR_IO, f->op, "'%s' was not written by a save: move it away, or choose another folder", at.s);
}

cr_status cr_training_check(const char *dir) {
    static const char op[] = "training_check";
    if (!dir) return cr_fail_null(op, "the folder");
    found f = {op, dir, false, false, CR_OK};
    cr_saved_state s;
    cr_saved_files files;
    if (!cr_os_exists(dir) && !cr_os_is_link(dir)) return CR_OK;
    if (cr_os_is_link(dir) || !cr_os_is_directory(dir))
        return cr_fail(CR_IO, op, "'%s' is not the folder of a checkpoint: move it away, or choose another folder",
                       dir);
    cr_os_each_entry(dir, check_entry, &f);
    if (f.status != CR_OK || !f.files) return f.status;
    f.status = cr_saved_open(op, dir, &files);
    if (f.status == CR_OK) f.status = cr_saved_read(op, &files, &s);
    cr_saved_close(&files);
    return f.status;
}

cr_status cr_training_remove(const char *dir) {
    static const char op[] = "training_remove";
    if (!dir) return cr_fail_null(op, "the folder");
    cr_path at;
    const char *const inside[] = {cr_stage_new, committed};
    cr_status status = CR_OK;
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        status = cr_join(op, dir, inside[i], &at);
        if (status == CR_OK) status = cr_stage_remove(op, at.s, &cr_saved_kind);
    }
    return status == CR_OK ? cr_stage_remove(op, dir, &cr_saved_kind) : status;
}

cr_status cr_training_copy(const char *from, const char *to) {
    static const char op[] = "training_copy";
    if (!from || !to) return cr_fail_null(op, "a folder");
    cr_saved_files s;
    cr_path copy;
    if (!cr_os_is_directory(from)) return cr_fail(CR_IO, op, "'%s' is not a folder", from);
    int lock;
    /* first: it moves files if both are one folder */
    cr_status status = cr_stage_begin(op, to, &cr_saved_kind, &lock);
    if (status == CR_OK) status = cr_saved_open(op, from, &s);
    if (status != CR_OK) return cr_stage_end(op, to, &cr_saved_kind, lock, status);
    if (!s.map[CR_SAVED_STATE].data) status = cr_saved_missing(op, &s, CR_SAVED_STATE);
    for (int i = 0; i < s.n; i++) {
        if (status != CR_OK) break;
        if (!s.map[i].data || (status = cr_saved_path(op, to, i, s.ranks, &copy))) continue;
        if (!cr_os_share(s.at[i].s, copy.s))
            status = cr_fail(CR_IO, op, "cannot copy '%s' to '%s': %s", s.at[i].s, copy.s, cr_os_error());
    }
    if (status == CR_OK && set_changed(op, from, &s) < s.n)
        status = cr_fail(CR_IO, op, "'%s' was saved into meanwhile", from);
    cr_saved_close(&s);
    return cr_stage_end(op, to, &cr_saved_kind, lock, status);
}

