/* training.c - a checkpoint: a folder with
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
#include <chainrule.h>

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "file.h"
#include "safetensors.h"
#include "stage.h"
#include "training.h"

/* The files of N ranks by number: the state, the index, N files of weights, N files of moments. */
enum { STATE, INDEX, WEIGHTS, MOST_RANKS = 99999 };
static const char committed[] = ".chainrule-commit";

typedef cr_path path;
typedef struct file_name { char s[64]; } file_name;
/* the files of one save; data NULL: the file is absent */
typedef struct set { int ranks, n; cr_mapping *map; path *at; } set;

static int moments_of(int rank, int ranks) { return WEIGHTS + ranks + rank; }
static int count_of_files(int ranks) { return WEIGHTS + 2 * ranks; }

static file_name name_of(int file, int ranks) {
    file_name x = {"state.json"};
    const bool weights = file < moments_of(0, ranks);
    const char *kind = weights ? "weights" : "optimizer";
    const int rank = file - (weights ? WEIGHTS : moments_of(0, ranks));
    if (file == INDEX) x = (file_name){"weights.safetensors.index.json"};
    else if (file != STATE && ranks == 1) snprintf(x.s, sizeof x.s, "%s.safetensors", kind);
    else if (file != STATE) snprintf(x.s, sizeof x.s, "%s-%05d-of-%05d.safetensors", kind, rank + 1, ranks);
    return x;
}

static cr_status join(const char *op, const char *dir, const char *folder, const char *name, path *out) {
    const int n = snprintf(out->s, sizeof out->s, "%s/%s%s%s", dir, folder, *folder && *name ? "/" : "", name);
    return n > 0 && (size_t)n < sizeof out->s ? CR_OK : cr_fail(CR_IO, op, "the path '%.60s...' is too long", dir);
}

/* ---- saving ---- */
static cr_status check_metadata(const char *op, const char *metadata) {
    if (!metadata) return CR_OK;
    cr_json *root = cr_json_parse(op, "metadata", metadata, strlen(metadata));
    if (!root) return cr_error_status();
    bool fits = root->kind == CR_JSON_OBJECT;
    for (const cr_json *m = fits ? root->first : NULL; m; m = m->next) fits &= m->kind == CR_JSON_STRING;
    cr_json_free(root);
    return fits ? CR_OK : cr_fail(CR_BAD_VALUE, op, "the metadata must be a JSON object of strings");
}

static cr_status save_state(const char *op, const char *to, const cr_training *t, int ranks) {
    cr_out o = {0};
    cr_out_format(&o, "{\"format\": \"chainrule-training\", \"version\": 1,\n \"step\": %lld,\n", (long long)t->step);
    if (ranks > 1) cr_out_format(&o, " \"ranks\": %d,\n", ranks);
    cr_out_format(&o, " \"weights\": %s,\n", t->params ? "true" : "null");
    if (t->optim) cr_out_format(&o, " \"optimizer\": {\"steps\": %lld},\n", (long long)cr_optim_steps(t->optim));
    else cr_out_format(&o, " \"optimizer\": null,\n");
    if (t->generator) {
        uint64_t seed, counter;                     /* as strings, because most readers store JSON's numbers as
                                                     * doubles */
        cr_generator_get(t->generator, &seed, &counter);
        cr_out_format(&o, " \"generator\": {\"seed\": \"%llu\", \"counter\": \"%llu\"},\n", (unsigned long long)seed,
                      (unsigned long long)counter);
    } else cr_out_format(&o, " \"generator\": null,\n");
    if (t->loader)
        cr_out_format(&o, " \"loader\": {\"cursor\": %lld, \"batches\": %lld},\n",
                      (long long)cr_loader_cursor(t->loader), (long long)cr_loader_batches(t->loader));
    else cr_out_format(&o, " \"loader\": null,\n");
    if (t->scaler) {
        const cr_scaler_state c = cr_scaler_get(t->scaler);
        cr_out_format(&o,
                      " \"scaler\": {\"scale\": %.17g, \"growth_factor\": %.17g, \"backoff_factor\": %.17g, "
                      "\"growth_interval\": %lld, \"growth_tracker\": %lld},\n",
                      c.scale, c.growth_factor, c.backoff_factor, (long long)c.growth_interval,
                      (long long)c.growth_tracker);
    }
    cr_out_format(&o, " \"metadata\": %s}\n", t->metadata ? t->metadata : "null");
    cr_status status = cr_out_check(&o, op, to);
    if (status == CR_OK) status = cr_file_save(op, to, o.text, o.bytes);
    cr_out_free(&o);
    return status;
}

static cr_status save_file(const char *op, const char *dir, file_name name, const cr_params *p, const char *metadata) {
    path to;
    cr_status status = join(op, dir, cr_stage_new, name.s, &to);
    return status == CR_OK ? cr_save(to.s, p, metadata) : status;
}

static cr_status save_state_file(const char *op, const char *dir, const cr_training *t, int ranks) {
    path to;
    cr_status status = join(op, dir, cr_stage_new, name_of(STATE, ranks).s, &to);
    return status == CR_OK ? save_state(op, to.s, t, ranks) : status;
}

static cr_status save_files(const char *op, const char *dir, const cr_training *t) {
    cr_status status = CR_OK;
    if (t->optim) {
        cr_params *moments = cr_optim_state(t->optim);
        status = moments ? save_file(op, dir, name_of(moments_of(0, 1), 1), moments, NULL) : cr_error_status();
        cr_params_free(moments);
    }
    if (status == CR_OK && t->params) status = save_file(op, dir, name_of(WEIGHTS, 1), t->params, t->metadata);
    return status == CR_OK ? save_state_file(op, dir, t, 1) : status;
}

/* Is it a file of a checkpoint? */
static bool is_ours(const char *file) {
    int end = 0;
    for (int i = STATE; i < count_of_files(1); i++)
        if (!strcmp(file, name_of(i, 1).s)) return true;
    return (sscanf(file, "weights-%*5[0-9]-of-%*5[0-9].safetensors%n", &end) == 0 && end && !file[end]) ||
           (sscanf(file, "optimizer-%*5[0-9]-of-%*5[0-9].safetensors%n", &end) == 0 && end && !file[end]);
}

static cr_status finish(const char *op, const char *dir, const char *from);
static const cr_stage_kind saved = {committed, is_ours, finish};

/* ---- many processes: each writes its parts, rank 0 index and state too; rank 0 commits when all are done */
static cr_status agree(const char *op, cr_world *w, cr_status status) {
    const int64_t mine = status;
    int bad = -1;
    cr_saved_error e;
    cr_error_take(&e);
    cr_scope_begin();
    cr_tensor *x = cr_from(&mine, CR_LIST(1), CR_I64, cr_cpu()),
              *all = cr_zeros(CR_LIST(cr_world_size(w)), CR_I64, cr_cpu());
    const cr_status sent = cr_all_gather(w, x, all);
    const int64_t *of = sent == CR_OK ? cr_data(all) : NULL;
    for (int r = cr_world_size(w) - 1; of && r >= 0; r--)
        if (of[r] != CR_OK) bad = r;
    cr_scope_end();
    if (status != CR_OK || sent == CR_OK) cr_error_put(&e);
    if (status != CR_OK || sent != CR_OK) return status != CR_OK ? status : sent;
    return bad < 0 ? CR_OK : cr_fail(CR_IO, op, "rank %d could not write its part, and says why", bad);
}

/* The rank that writes each tensor: ranks have neighbouring tensors, and about the same number of bytes. */
static int64_t *writers_of(const char *op, const cr_params *p, int ranks) {
    const int64_t n = cr_params_count(p);
    int64_t *rank = calloc((size_t)n + 1, sizeof *rank), at = 0, total = 0;
    if (!rank) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld names", (long long)n), NULL;
    for (int64_t i = 0; i < n; i++) total += (int64_t)cr_bytes_of(cr_params_at(p, i));
    for (int64_t i = 0; i < n; i++) {
        while (rank[i] < ranks - 1 && at >= total / ranks * (rank[i] + 1)) rank[i]++;
        rank[i + 1] = rank[i];
        at += (int64_t)cr_bytes_of(cr_params_at(p, i));
    }
    return rank;
}

static void weights_name(int64_t rank, int64_t ranks, char out[64]) {
    snprintf(out, 64, "%s", name_of(WEIGHTS + (int)rank, (int)ranks).s);
}

static cr_status save_weights(const char *op, const char *dir, const cr_training *t, int rank, int ranks) {
    path to;
    int64_t *of = writers_of(op, t->params, ranks);
    cr_params *mine = of ? cr_params_new() : NULL;
    cr_status status = mine ? CR_OK : cr_error_status();
    for (int64_t i = 0; i < cr_params_count(t->params) && status == CR_OK; i++)
        if (of[i] == rank) status = cr_params_add(mine, cr_params_name(t->params, i), cr_params_at(t->params, i));
    if (status == CR_OK) status = save_file(op, dir, name_of(WEIGHTS + rank, ranks), mine, rank ? NULL : t->metadata);
    if (status == CR_OK && !rank) status = join(op, dir, cr_stage_new, name_of(INDEX, ranks).s, &to);
    if (status == CR_OK && !rank) status = cr_index_save(op, to.s, t->params, of, ranks, weights_name);
    cr_params_free(mine);
    free(of);
    return status;
}

static cr_status save_together(const char *op, const char *dir, const cr_training *t, const cr_params *moments) {
    cr_world *w = cr_parallel_world(t->parallel);
    const int rank = cr_world_rank(w), ranks = cr_world_size(w);
    if (ranks > MOST_RANKS) return cr_fail(CR_BAD_VALUE, op, "%d ranks: at most %d", ranks, MOST_RANKS);
    int lock = -1;
    cr_status status = agree(op, w, rank ? CR_OK : cr_stage_begin(op, dir, &saved, &lock));
    if (status != CR_OK) return rank ? status : cr_stage_end(op, dir, &saved, lock, status);
    status = save_file(op, dir, name_of(moments_of(rank, ranks), ranks), moments, NULL);
    if (status == CR_OK && t->params) status = save_weights(op, dir, t, rank, ranks);
    if (status == CR_OK && !rank) status = save_state_file(op, dir, t, ranks);
    status = agree(op, w, status);
    return agree(op, w, rank ? CR_OK : cr_stage_end(op, dir, &saved, lock, status)) ? cr_error_status() : status;
}

cr_status cr_training_save(const char *dir, const cr_training *t) {
    static const char op[] = "training_save";
    if (!dir) return cr_fail_null(op, "the folder");
    if (!t) return cr_fail_null(op, "the training");
    if (t->step < 0) return cr_fail(CR_BAD_VALUE, op, "step must be at least 0, not %lld", (long long)t->step);
    cr_status status = check_metadata(op, t->metadata);
    if (status != CR_OK) return status;
    cr_saved_error earlier;
    cr_error_take(&earlier);                        /* a message of an earlier call says nothing of this one */
    cr_params *moments = t->parallel && t->optim ? cr_parallel_moments(t->parallel) : NULL;
    const bool failed = !moments && cr_error();
    if (!failed) cr_error_put(&earlier);
    if (moments) status = save_together(op, dir, t, moments);
    else if (failed) status = cr_error_status();
    else if (t->parallel && cr_world_rank(cr_parallel_world(t->parallel))) return CR_OK;
    else {
        int lock;
        status = cr_stage_begin(op, dir, &saved, &lock);
        if (status == CR_OK) status = save_files(op, dir, t);
        status = cr_stage_end(op, dir, &saved, lock, status);
    }
    cr_params_free(moments);
    return status;
}

/* ---- loading ---- */
typedef struct state {                              /* contents of a checkpoint, checked before anything changes */
    int64_t step, optimizer_steps, cursor, batches; /* -1: no optimizer, no loader */
    bool weights, generator, scaler;
    uint64_t seed, counter;
    cr_scaler_state scaling;
} state;

static cr_status pick(const char *op, const char *dir, file_name file, path *out) {
    cr_status status = join(op, dir, committed, file.s, out);
    return status != CR_OK || cr_os_exists(out->s) ? status : join(op, dir, "", file.s, out);
}

static void set_close(set *s) {
    for (int i = 0; i < s->n; i++) cr_os_unmap(&s->map[i]);
    free(s->map);
    free(s->at);
    *s = (set){0};
}

/* How many ranks wrote the parts, as the state says; a state that is wrong is reported when it is read. */
static int ranks_of(const cr_mapping *m) {
    cr_saved_error e;
    cr_error_take(&e);
    cr_json *root = m->data ? cr_json_parse("training_load", "", m->data, m->bytes) : NULL;
    const cr_json *v = root ? cr_json_get(root, "ranks") : NULL;
    const bool good = v && v->integral && v->integer >= 1 && v->integer <= MOST_RANKS;
    const int ranks = good ? (int)v->integer : 1;
    cr_json_free(root);
    cr_error_clear();
    cr_error_put(&e);
    return ranks;
}

static cr_status set_map(const char *op, const char *dir, set *s) {
    path at;
    cr_mapping first = {0};
    *s = (set){0};
    cr_status status = pick(op, dir, name_of(STATE, 1), &at);
    if (status != CR_OK) return status;
    (void)cr_os_map_private(at.s, &first);
    s->ranks = ranks_of(&first);
    s->map = calloc((size_t)count_of_files(s->ranks), sizeof *s->map);
    s->at = calloc((size_t)count_of_files(s->ranks), sizeof *s->at);
    s->n = s->map && s->at ? count_of_files(s->ranks) : 0;
    if (!s->n) {
        cr_os_unmap(&first);
        set_close(s);
        return cr_fail(CR_NO_MEMORY, op, "no memory for the names of the files in '%s'", dir);
    }
    s->map[STATE] = first;
    s->at[STATE] = at;
    for (int i = 0; i < s->n && status == CR_OK; i++) {
        if (i == STATE || (i == INDEX && s->ranks == 1)) continue;
        status = pick(op, dir, name_of(i, s->ranks), &s->at[i]);
        if (status == CR_OK) (void)cr_os_map_private(s->at[i].s, &s->map[i]);
    }
    return status;
}

/* The first file that was replaced, or that exists and cannot be mapped; s->n: none. */
static int set_changed(const char *op, const char *dir, const set *s) {
    path now;
    for (int i = 0; i < s->n; i++) {
        if (i == INDEX && s->ranks == 1) continue;
        const cr_file_id id = pick(op, dir, name_of(i, s->ranks), &now) ? (cr_file_id){0} : cr_os_file_id(now.s);
        if (id.device != s->map[i].id.device || id.inode != s->map[i].id.inode) return i;
    }
    return s->n;
}

static cr_status set_open(const char *op, const char *dir, set *s) {
    path at = {""};
    if (!cr_os_is_directory(dir)) return cr_fail(CR_IO, op, "'%s' is not a folder", dir);
    for (int tries = 0; tries < 1000; tries++) {    /* a second try is rare; the bound is for a file without read
                                                     * permission */
        cr_status status = set_map(op, dir, s);
        const int changed = status == CR_OK ? set_changed(op, dir, s) : 0;
        if (status == CR_OK && changed == s->n) return CR_OK;
        if (status == CR_OK) at = s->at[changed];
        set_close(s);
        if (status != CR_OK) return status;
    }
    cr_mapping m = {0};
    if (cr_os_map(at.s, &m)) cr_os_unmap(&m);
    return cr_fail(CR_IO, op, "cannot read '%s': %s", at.s, cr_os_error());
}

static cr_status no_file(const char *op, const set *s, int file) {
    return cr_fail(CR_IO, op, "cannot read '%s': No such file or directory", s->at[file].s);
}

/* The tensors take the mapping from the set. */
static cr_status load_tensors(const char *op, set *s, int file, const cr_device *dev, cr_params **out) {
    if (!s->map[file].data) return no_file(op, s, file);
    *out = cr_st_load(op, s->at[file].s, &s->map[file], dev);
    return *out ? CR_OK : cr_error_status();
}

static cr_status load_weights(const char *op, set *s, const cr_device *dev, cr_params **out) {
    if (s->ranks == 1) return load_tensors(op, s, WEIGHTS, dev, out);
    *out = cr_params_new();
    cr_status status = *out ? CR_OK : cr_error_status();
    for (int r = 0; r < s->ranks && status == CR_OK; r++) {
        cr_params *part = NULL;
        status = load_tensors(op, s, WEIGHTS + r, dev, &part);
        for (int64_t i = 0; status == CR_OK && i < cr_params_count(part); i++)
            status = cr_params_add(*out, cr_params_name(part, i), cr_params_at(part, i));
        cr_params_free(part);
    }
    return status;
}

cr_params *cr_training_load_weights(const char *op, const char *dir, const cr_device *dev) {
    set s;
    cr_params *p = NULL;
    if (set_open(op, dir, &s) != CR_OK) return NULL;
    const cr_status status = load_weights(op, &s, dev, &p);
    set_close(&s);
    if (status == CR_OK) return p;
    cr_params_free(p);
    return NULL;
}

cr_status cr_training_map_metadata(const char *op, const char *dir, cr_mapping *m, cr_path *where) {
    set s;
    cr_status status = set_open(op, dir, &s);
    if (status != CR_OK) return status;
    if (!s.map[WEIGHTS].data) status = no_file(op, &s, WEIGHTS);
    else *m = s.map[WEIGHTS], *where = s.at[WEIGHTS], s.map[WEIGHTS] = (cr_mapping){0};
    set_close(&s);
    return status;
}

char *cr_training_weights(const char *dir) {
    static const char op[] = "training_weights";
    path at;
    cr_mapping m = {0};
    if (!dir) return cr_fail_null(op, "the folder"), NULL;
    if (pick(op, dir, name_of(STATE, 1), &at)) return NULL;
    (void)cr_os_map(at.s, &m);
    const int ranks = ranks_of(&m);
    cr_os_unmap(&m);
    if (pick(op, dir, name_of(ranks > 1 ? INDEX : WEIGHTS, ranks), &at)) return NULL;
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
static const char *read_state(const cr_json *root, state *s) {
    const cr_json *format = cr_json_get(root, "format"), *version = cr_json_get(root, "version"), *weights, *optimizer,
                  *generator, *loader, *scaler = cr_json_get(root, "scaler");
    *s = (state){.optimizer_steps = -1, .cursor = -1, .batches = -1};
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
typedef struct moving { const char *op, *dir, *from; const state *s; int ranks; cr_status status; } moving;

static void move_file(const char *file, void *ctx) {
    moving *m = ctx;
    path from, to;
    if (m->status != CR_OK) return;
    if ((m->status = join(m->op, m->from, "", file, &from)) || (m->status = join(m->op, m->dir, "", file, &to)))
        return;
    if (cr_os_exists(from.s) && !cr_os_rename(from.s, to.s) && cr_os_exists(from.s))
        m->status = cr_fail(CR_IO, m->op, "cannot move '%s' to '%s': %s", from.s, to.s, cr_os_error());
}

/* Removes a file of an earlier save that the state does not have. */
static void remove_old(const char *file, void *ctx) {
    const moving *m = ctx;
    path at;
    if (!is_ours(file) || join(m->op, m->dir, "", file, &at)) return;
    for (int i = 0; i < count_of_files(m->ranks); i++) {
        const bool there = i == STATE || (i == INDEX && m->ranks > 1 && m->s->weights) ||
                           (i >= WEIGHTS && (i < moments_of(0, m->ranks) ? m->s->weights : m->s->optimizer_steps >= 0));
        if (there && !strcmp(file, name_of(i, m->ranks).s)) return;
    }
    (void)cr_os_remove(at.s);
}

/* The state is moved last: it says which files are old. */
static cr_status finish(const char *op, const char *dir, const char *from) {
    path at;
    cr_mapping map;
    state s;
    moving m = {op, dir, from, &s, 1, join(op, from, "", name_of(STATE, 1).s, &at)};
    if (m.status != CR_OK || !cr_os_exists(at.s)) return m.status;
    if (cr_file_map(op, at.s, false, &map)) return cr_error_status();
    m.ranks = ranks_of(&map);
    cr_json *root = cr_json_parse(op, at.s, map.data, map.bytes);
    const char *wrong = root ? read_state(root, &s) : "JSON";
    cr_json_free(root);
    cr_os_unmap(&map);
    if (wrong) return cr_fail(CR_IO, op, "'%s' of an interrupted save is damaged: remove '%s'", at.s, from);
    for (int i = INDEX; i < count_of_files(m.ranks); i++) move_file(name_of(i, m.ranks).s, &m);
    if (m.status == CR_OK) cr_os_each_entry(dir, remove_old, &m);
    move_file(name_of(STATE, 1).s, &m);
    return m.status;
}

static cr_status load_state(const char *op, const set *files_of, state *s) {
    const char *at = files_of->at[STATE].s;
    const cr_mapping *m = &files_of->map[STATE];
    if (!m->data) return no_file(op, files_of, STATE);
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
    path at;
    if (f->status != CR_OK || (f->status = join(f->op, f->dir, "", name, &at))) return;
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
    state s;
    set files;
    if (!cr_os_exists(dir) && !cr_os_is_link(dir)) return CR_OK;
    if (cr_os_is_link(dir) || !cr_os_is_directory(dir))
        return cr_fail(CR_IO, op, "'%s' is no folder of a checkpoint: move it away, or choose another folder", dir);
    cr_os_each_entry(dir, check_entry, &f);
    if (f.status != CR_OK || !f.files) return f.status;
    f.status = set_open(op, dir, &files);
    if (f.status == CR_OK) f.status = load_state(op, &files, &s);
    set_close(&files);
    return f.status;
}

cr_status cr_training_remove(const char *dir) {
    static const char op[] = "training_remove";
    if (!dir) return cr_fail_null(op, "the folder");
    path at;
    const char *const inside[] = {cr_stage_new, committed};
    cr_status status = CR_OK;
    for (int i = 0; i < 2 && status == CR_OK; i++) {
        status = join(op, dir, "", inside[i], &at);
        if (status == CR_OK) status = cr_stage_remove(op, at.s, &saved);
    }
    return status == CR_OK ? cr_stage_remove(op, dir, &saved) : status;
}

cr_status cr_training_copy(const char *from, const char *to) {
    static const char op[] = "training_copy";
    if (!from || !to) return cr_fail_null(op, "a folder");
    set s;
    path copy;
    if (!cr_os_is_directory(from)) return cr_fail(CR_IO, op, "'%s' is not a folder", from);
    int lock;
    cr_status status = cr_stage_begin(op, to, &saved, &lock);       /* first: it moves files if both are one folder */
    if (status == CR_OK) status = set_open(op, from, &s);
    if (status != CR_OK) return cr_stage_end(op, to, &saved, lock, status);
    if (!s.map[STATE].data) status = no_file(op, &s, STATE);
    for (int i = 0; i < s.n; i++) {
        if (status != CR_OK) break;
        if (!s.map[i].data || (status = join(op, to, cr_stage_new, name_of(i, s.ranks).s, &copy))) continue;
        if (!cr_os_share(s.at[i].s, copy.s))
            status = cr_fail(CR_IO, op, "cannot copy '%s' to '%s': %s", s.at[i].s, copy.s, cr_os_error());
    }
    if (status == CR_OK && set_changed(op, from, &s) < s.n)
        status = cr_fail(CR_IO, op, "'%s' was saved into meanwhile", from);
    set_close(&s);
    return cr_stage_end(op, to, &saved, lock, status);
}

/* Does the checkpoint have every requested object, and does the loader fit? */
static cr_status check_asked(const char *op, const char *dir, const cr_training *t, const state *s) {
    const char *missing = t->params && !s->weights             ? "weights"
                          : t->optim && s->optimizer_steps < 0 ? "an optimizer"
                          : t->generator && !s->generator      ? "a generator"
                          : t->loader && s->cursor < 0         ? "a loader"
                          : t->scaler && !s->scaler            ? "a scaler"
                                                               : NULL;
    if (missing) return cr_fail(CR_BAD_VALUE, op, "'%s' was saved without %s", dir, missing);
    if (t->loader && s->batches != cr_loader_batches(t->loader))
        return cr_fail(
            CR_BAD_VALUE, op,
            "'%s' was saved with %lld batches an epoch, this loader has %lld: another text, batch or context", dir,
            (long long)s->batches, (long long)cr_loader_batches(t->loader));
    return CR_OK;
}

/* ---- pieces */
typedef struct piece { char *name; int64_t from, n, shape[CR_MAX_DIMS]; int ndim; } piece;

/* "NAME@FIRST:ROWSxCOLUMNS"; false: a whole tensor.  text: cut behind NAME. */
static bool read_piece(char *text, int64_t n, piece *x) {
    char *at = strrchr(text, '@'), *end = NULL;
    if (!at || at[1] < '0' || at[1] > '9') return false;
    *x = (piece){.name = text, .n = n, .from = strtoll(at + 1, &end, 10)};
    int64_t all = 1;
    for (char mark = ':'; *end == mark && x->ndim < CR_MAX_DIMS; mark = 'x') {
        const int64_t size = x->shape[x->ndim++] = strtoll(end + 1, &end, 10);
        if (size < 1 || __builtin_mul_overflow(all, size, &all)) return false;
    }
    *at = 0;
    return x->ndim && !*end && x->from <= all - n;
}

static cr_status put_piece(const char *op, cr_params *out, const cr_tensor *from, const piece *x) {
    cr_status status = CR_OK;
    cr_tensor *whole = cr_params_get(out, x->name);
    if (!whole) {
        cr_error_clear();
        cr_tensor *made = cr_zeros(x->ndim, x->shape, CR_F32, cr_cpu());
        status = made ? cr_params_add(out, x->name, made) : cr_error_status();
        if (made) cr_release(made);
        if (status == CR_OK) whole = cr_params_at(out, cr_params_count(out) - 1);
    }
    if (status != CR_OK) return status;
    if (cr_dtype_of(from) != CR_F32 || x->from + x->n > cr_numel(whole))
        return cr_fail(CR_IO, op, "the pieces of '%s' do not fit each other", x->name);
    memcpy((float *)cr_data(whole) + x->from, cr_data(from), (size_t)x->n * 4);
    return CR_OK;
}

/* Adds the tensors and pieces of one rank; *sum: elements so far. */
static cr_status join_part(const char *op, cr_params *out, const cr_params *part, int64_t *sum) {
    cr_status status = CR_OK;
    for (int64_t i = 0; i < cr_params_count(part) && status == CR_OK; i++) {
        piece x;
        cr_tensor *t = cr_params_at(part, i);
        char *text = malloc(strlen(cr_params_name(part, i)) + 1);
        if (!text) return cr_fail(CR_NO_MEMORY, op, "no memory for a name");
        strcpy(text, cr_params_name(part, i));
        *sum += cr_numel(t);
        status = read_piece(text, cr_numel(t), &x) ? put_piece(op, out, t, &x)
                                                   : cr_params_add(out, cr_params_name(part, i), t);
        free(text);
    }
    return status;
}

/* The moments that ranks have written. */
static cr_status load_moments(const char *op, set *s, cr_params **out) {
    if (s->ranks == 1) return load_tensors(op, s, moments_of(0, 1), cr_cpu(), out);
    int64_t sum = 0;
    *out = cr_params_new();
    cr_status status = *out ? CR_OK : cr_error_status();
    for (int r = 0; r < s->ranks && status == CR_OK; r++) {
        cr_params *part = NULL;
        status = load_tensors(op, s, moments_of(r, s->ranks), cr_cpu(), &part);
        if (status == CR_OK) status = join_part(op, *out, part, &sum);
        cr_params_free(part);
    }
    if (status == CR_OK && sum != cr_params_numel(*out))
        status = cr_fail(CR_IO, op, "the files of %d ranks hold %lld elements of moments in place of %lld: '%s' ...",
                         s->ranks, (long long)sum, (long long)cr_params_numel(*out), s->at[moments_of(0, s->ranks)].s);
    return status;
}

/* Loads optimizer and parameters, both or neither: each of the two functions is all or nothing. */
static cr_status put_tensors(cr_training *t, const cr_params *weights, const cr_params *moments, int64_t steps) {
    cr_params *before = t->optim ? cr_optim_state(t->optim) : NULL;
    const int64_t steps_before = t->optim ? cr_optim_steps(t->optim) : 0;
    cr_status status = t->optim ? (before ? cr_optim_load(t->optim, moments, steps) : cr_error_status()) : CR_OK;
    if (status == CR_OK && t->params && (status = cr_params_copy(t->params, weights)) && t->optim) {
        cr_saved_error e;
        cr_error_take(&e);
        (void)cr_optim_load(t->optim, before, steps_before);
        cr_error_put(&e);
    }
    cr_params_free(before);
    return status;
}

cr_status cr_training_load(const char *dir, cr_training *t) {
    static const char op[] = "training_load";
    if (!dir) return cr_fail_null(op, "the folder");
    if (!t) return cr_fail_null(op, "the training");
    state s;
    set from;
    cr_params *weights = NULL, *moments = NULL;
    cr_status status = set_open(op, dir, &from);
    if (status != CR_OK) return status;
    status = load_state(op, &from, &s);
    if (status == CR_OK) status = check_asked(op, dir, t, &s);
    const cr_scaler_state scaling = t->scaler ? cr_scaler_get(t->scaler) : s.scaling;
    if (status == CR_OK && t->scaler) status = cr_scaler_set(t->scaler, &s.scaling);        /* checks it too */
    if (status == CR_OK && t->params) status = load_weights(op, &from, cr_cpu(), &weights);
    if (status == CR_OK && t->optim) status = load_moments(op, &from, &moments);
    set_close(&from);
    if (status == CR_OK) status = put_tensors(t, weights, moments, s.optimizer_steps);
    cr_params_free(weights);
    cr_params_free(moments);
    if (status != CR_OK && t->scaler) (void)cr_scaler_set(t->scaler, &scaling);
    if (status != CR_OK) return status;
    if (t->generator) cr_generator_set(t->generator, s.seed, s.counter);
    if (t->loader) status = cr_loader_seek(t->loader, s.cursor);
    t->step = s.step;
    return status;
}

/* ---- single files in place of parts */
/* The state without its line about ranks. */
static cr_status merged_state(const char *op, const char *dir, const set *s) {
    path to;
    const char *text = (const char *)s->map[STATE].data, *stop = text + s->map[STATE].bytes, *line = text;
    cr_out o = {0};
    cr_status status = join(op, dir, cr_stage_new, name_of(STATE, 1).s, &to);
    while (line < stop) {
        const char *next = memchr(line, '\n', (size_t)(stop - line));
        next = next ? next + 1 : stop;
        if (strncmp(line, " \"ranks\": ", 10) != 0) cr_out_put(&o, line, (size_t)(next - line));
        line = next;
    }
    if (status == CR_OK) status = cr_out_check(&o, op, to.s);
    if (status == CR_OK) status = cr_file_save(op, to.s, o.text, o.bytes);
    cr_out_free(&o);
    return status;
}

/* The weights in one file, with their metadata. */
static cr_status merge_weights(const char *op, const char *dir, set *s) {
    cr_params *p = NULL;
    if (!s->map[WEIGHTS].data) return CR_OK;        /* saved without them */
    char *metadata = cr_load_metadata(s->at[WEIGHTS].s, NULL);
    cr_status status = metadata ? load_weights(op, s, cr_cpu(), &p) : cr_error_status();
    if (status == CR_OK) status = save_file(op, dir, name_of(WEIGHTS, 1), p, metadata);
    cr_params_free(p);
    cr_free(metadata);
    return status;
}

static cr_status merge_moments(const char *op, const char *dir, set *s) {
    cr_params *p = NULL;
    cr_status status = load_moments(op, s, &p);
    if (status == CR_OK) status = save_file(op, dir, name_of(moments_of(0, 1), 1), p, NULL);
    cr_params_free(p);
    return status;
}

cr_status cr_training_merge(const char *dir) {
    static const char op[] = "training_merge";
    if (!dir) return cr_fail_null(op, "the folder");
    set s;
    int lock = -1;
    cr_status status = cr_stage_complete(op, dir, &saved, false);
    if (status == CR_OK) status = set_open(op, dir, &s);
    if (status != CR_OK) return status;
    const bool parts = s.ranks > 1;
    if (!s.map[STATE].data) status = no_file(op, &s, STATE);
    if (parts && status == CR_OK) status = cr_stage_begin(op, dir, &saved, &lock);
    if (parts && status == CR_OK) status = merge_weights(op, dir, &s);
    if (parts && status == CR_OK) status = merge_moments(op, dir, &s);
    if (parts && status == CR_OK) status = merged_state(op, dir, &s);
    set_close(&s);
    return cr_stage_end(op, dir, &saved, lock, status);
}
