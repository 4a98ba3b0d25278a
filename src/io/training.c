/* training.c - a checkpoint: a folder with
 *   weights.safetensors     the parameters, and the user's metadata
 *   optimizer.safetensors   moments by name
 *   state.json              step, optimizer's steps, generator, loader, scaler; null for absent objects
 *
 * Saving is all or nothing.  The files are written into DIR/.chainrule-new, which is then renamed to
 * .chainrule-commit.  The rename commits the new checkpoint.  Its files are then moved into DIR one by
 * one; a reader takes a file from .chainrule-commit as long as it is there.  Other files in DIR stay
 * untouched.
 *
 * A reader maps the three files and then checks that each path still names the mapped file.  If so,
 * all three belonged to one checkpoint when the last was mapped.  If not, a save happened in between,
 * and the reader starts again. */
#include <chainrule.h>

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "file.h"
#include "safetensors.h"
#include "training.h"

enum { WEIGHTS, OPTIMIZER, STATE, FILES };
static const char *const files[FILES] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
static const char fresh[] = ".chainrule-new", committed[] = ".chainrule-commit";

typedef struct path { char s[4096]; } path;
/* the files of one save; data NULL: the file is absent */
typedef struct set { cr_mapping map[FILES]; path at[FILES]; } set;

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

static cr_status save_state(const char *op, const char *to, const cr_training *t) {
    cr_out o = {0};
    cr_out_format(&o, "{\"format\": \"chainrule-training\", \"version\": 1,\n \"step\": %lld,\n", (long long)t->step);
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

static cr_status save_files(const char *op, const char *dir, const cr_training *t) {
    path to;
    cr_status status = CR_OK;
    if (t->params) {
        status = join(op, dir, fresh, files[WEIGHTS], &to);
        if (status == CR_OK) status = cr_save(to.s, t->params, t->metadata);
    }
    if (status == CR_OK && t->optim) {
        cr_params *moments = cr_optim_state(t->optim);
        status = moments ? join(op, dir, fresh, files[OPTIMIZER], &to) : cr_error_status();
        if (status == CR_OK) status = cr_save(to.s, moments, NULL);
        cr_params_free(moments);
    }
    if (status == CR_OK) status = join(op, dir, fresh, files[STATE], &to);
    return status != CR_OK ? status : save_state(op, to.s, t);
}

/* Moves the files of a committed save from .chainrule-commit into DIR; does nothing if there are none. */
static cr_status finish(const char *op, const char *dir) {
    path from, to;
    cr_status status = join(op, dir, committed, "", &from);
    if (status != CR_OK || !cr_os_exists(from.s)) return status;
    for (int i = 0; i < FILES; i++) {
        if (status != CR_OK) break;
        if ((status = join(op, dir, committed, files[i], &from)) || (status = join(op, dir, "", files[i], &to))) break;
        if (cr_os_exists(from.s) && !cr_os_rename(from.s, to.s))
            status = cr_fail(CR_IO, op, "cannot move '%s' to '%s': %s", from.s, to.s, cr_os_error());
    }
    if (status == CR_OK) status = join(op, dir, committed, "", &from);
    if (status == CR_OK && !cr_os_remove_folder(from.s))
        status = cr_fail(CR_IO, op, "cannot remove '%s': %s", from.s, cr_os_error());
    return status;
}

/* Prepares DIR: completes or removes interrupted saves and creates an empty .chainrule-new. */
static cr_status begin(const char *op, const char *dir) {
    path new, commit;
    cr_status status = join(op, dir, fresh, "", &new);
    if (status == CR_OK) status = join(op, dir, committed, "", &commit);        /* checks the length of that path too */
    if (status == CR_OK && !cr_os_make_directory(dir))
        status = cr_fail(CR_IO, op, "cannot create '%s': %s", dir, cr_os_error());
    if (status == CR_OK) status = finish(op, dir);
    if (status == CR_OK && cr_os_exists(new.s)) (void)cr_os_remove_folder(new.s);
    if (status == CR_OK && !cr_os_make_directory(new.s))
        status = cr_fail(CR_IO, op, "cannot create '%s': %s", new.s, cr_os_error());
    return status;
}

/* Commits the files in .chainrule-new if status is CR_OK; else removes them. */
static cr_status end(const char *op, const char *dir, cr_status status) {
    path new, commit, old;
    bool has[FILES];
    if (join(op, dir, fresh, "", &new) || join(op, dir, committed, "", &commit)) return cr_error_status();
    for (int i = 0; i < FILES; i++) has[i] = !join(op, dir, fresh, files[i], &old) && cr_os_exists(old.s);
    if (status == CR_OK && !cr_os_rename(new.s, commit.s))
        status = cr_fail(CR_IO, op, "cannot rename '%s' to '%s': %s", new.s, commit.s, cr_os_error());
    if (status != CR_OK) {
        (void)cr_os_remove_folder(new.s);
        return status;
    }
    status = finish(op, dir);
    if (status != CR_OK) return status;
    for (int i = 0; i < FILES; i++)                 /* removes files that the new state does not have */
        if (!has[i] && !join(op, dir, "", files[i], &old) && cr_os_exists(old.s)) (void)cr_os_remove(old.s);
    return status;
}

cr_status cr_training_save(const char *dir, const cr_training *t) {
    static const char op[] = "training_save";
    if (!dir) return cr_fail_null(op, "the folder");
    if (!t) return cr_fail_null(op, "the training");
    if (t->step < 0) return cr_fail(CR_BAD_VALUE, op, "step must be at least 0, not %lld", (long long)t->step);
    cr_status status = check_metadata(op, t->metadata);
    if (status == CR_OK) status = begin(op, dir);
    return status != CR_OK ? status : end(op, dir, save_files(op, dir, t));
}

/* ---- loading ---- */
typedef struct state {                              /* contents of a checkpoint, checked before anything changes */
    int64_t step, optimizer_steps, cursor, batches; /* -1: no optimizer, no loader */
    bool weights, generator, scaler;
    uint64_t seed, counter;
    cr_scaler_state scaling;
} state;

static cr_status pick(const char *op, const char *dir, int file, path *out) {
    cr_status status = join(op, dir, committed, files[file], out);
    return status != CR_OK || cr_os_exists(out->s) ? status : join(op, dir, "", files[file], out);
}

static void set_close(set *s) {
    for (int i = 0; i < FILES; i++) cr_os_unmap(&s->map[i]);
}

static cr_status set_map(const char *op, const char *dir, set *s) {
    *s = (set){0};
    for (int i = 0; i < FILES; i++) {
        cr_status status = pick(op, dir, i, &s->at[i]);
        if (status != CR_OK) return status;
        (void)cr_os_map_private(s->at[i].s, &s->map[i]);
    }
    return CR_OK;
}

/* The first file that was replaced, or that exists and cannot be mapped; FILES: none. */
static int set_changed(const char *op, const char *dir, const set *s) {
    path now;
    for (int i = 0; i < FILES; i++) {
        const cr_file_id id = pick(op, dir, i, &now) ? (cr_file_id){0} : cr_os_file_id(now.s);
        if (id.device != s->map[i].id.device || id.inode != s->map[i].id.inode) return i;
    }
    return FILES;
}

static cr_status set_open(const char *op, const char *dir, set *s) {
    if (!cr_os_is_directory(dir)) return cr_fail(CR_IO, op, "'%s' is not a folder", dir);
    int changed = FILES;
    for (int tries = 0; tries < 1000; tries++) {    /* a second try is rare; the bound is for a file without read
                                                     * permission */
        cr_status status = set_map(op, dir, s);
        if (status != CR_OK || (changed = set_changed(op, dir, s)) == FILES) return status;
        set_close(s);
    }
    (void)cr_os_map(s->at[changed].s, &s->map[changed]);
    set_close(s);
    return cr_fail(CR_IO, op, "cannot read '%s': %s", s->at[changed].s, cr_os_error());
}

static cr_status no_file(const char *op, const set *s, int file) {
    return cr_fail(CR_IO, op, "cannot read '%s': No such file or directory", s->at[file].s);
}

cr_status cr_training_map_weights(const char *op, const char *dir, cr_mapping *m) {
    set s;
    cr_status status = set_open(op, dir, &s);
    if (status == CR_OK && !s.map[WEIGHTS].data) status = no_file(op, &s, WEIGHTS);
    if (status != CR_OK) return status;
    *m = s.map[WEIGHTS];
    s.map[WEIGHTS] = (cr_mapping){0};
    set_close(&s);
    return CR_OK;
}

char *cr_training_weights(const char *dir) {
    static const char op[] = "training_weights";
    path at;
    if (!dir) return cr_fail_null(op, "the folder"), NULL;
    if (pick(op, dir, WEIGHTS, &at)) return NULL;
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

cr_status cr_training_copy(const char *from, const char *to) {
    static const char op[] = "training_copy";
    if (!from || !to) return cr_fail_null(op, "a folder");
    set s;
    path copy;
    if (!cr_os_is_directory(from)) return cr_fail(CR_IO, op, "'%s' is not a folder", from);
    cr_status status = begin(op, to);               /* first, because it moves files if both are one folder */
    if (status != CR_OK) return status;
    status = set_open(op, from, &s);
    if (status != CR_OK) return end(op, to, status);
    if (!s.map[STATE].data) status = no_file(op, &s, STATE);
    for (int i = 0; i < FILES; i++) {
        if (status != CR_OK) break;
        if (!s.map[i].data || (status = join(op, to, fresh, files[i], &copy))) continue;
        if (!cr_os_copy(s.at[i].s, copy.s))
            status = cr_fail(CR_IO, op, "cannot copy '%s' to '%s': %s", s.at[i].s, copy.s, cr_os_error());
    }
    if (status == CR_OK && set_changed(op, from, &s) < FILES)
        status = cr_fail(CR_IO, op, "'%s' was saved into meanwhile", from);
    set_close(&s);
    return end(op, to, status);
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

/* The tensors take the mapping from the set. */
static cr_status load_tensors(const char *op, set *s, int file, cr_params **out) {
    if (!s->map[file].data) return no_file(op, s, file);
    *out = cr_st_load(op, s->at[file].s, &s->map[file], cr_cpu());
    return *out ? CR_OK : cr_error_status();
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
    if (status == CR_OK && t->params) status = load_tensors(op, &from, WEIGHTS, &weights);
    if (status == CR_OK && t->optim) status = load_tensors(op, &from, OPTIMIZER, &moments);
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
