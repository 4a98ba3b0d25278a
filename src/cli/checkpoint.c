/* checkpoint.c - the folder of a run: saves, and what --resume reads.  The checkpoint's metadata has
 * the settings under the names of their options. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../core/status.h"
#include "../core/utf8.h"
#include "../io/json.h"

static bool join_or_fail(const char *dir, const char *name, char out[4096]) {
    return join_path(dir, name, out) || (cli_fail("the path '%.60s...' is too long", dir), false);
}

bool run_path(const run *r, const char *name, char out[4096]) { return join_or_fail(r->s->out, name, out); }

/* ---- the folder */
static bool has_weights(const char *dir) {
    char *path = cr_training_weights(dir);
    const bool there = path && cr_os_exists(path);
    cr_free(path);
    cr_error_clear();                               /* a path that is too long */
    return there;
}

static bool has(const char *dir, const char *name) {
    char path[4096];
    return join_or_fail(dir, name, path) && has_weights(path);
}

bool run_exists(const char *dir) { return has(dir, "checkpoint") || has(dir, "checkpoint-best"); }

bool run_model(const char *dir, char model[4096], char tokenizer[4096]) {
    const bool one = has_weights(dir);
    if (one) return join_or_fail(dir, "../tokenizer.json", tokenizer) && join_or_fail(dir, "", model);
    return join_or_fail(dir, has(dir, "checkpoint-best") ? "checkpoint-best" : "checkpoint", model) &&
           join_or_fail(dir, "tokenizer.json", tokenizer);
}

int64_t run_step(const char *checkpoint) {
    cr_training t = {.step = -1};
    if (cr_training_load(checkpoint, &t)) cr_error_clear();
    return t.step;
}

bool run_lock(const run *r) {
    return cr_os_lock_folder(r->s->out) || (cli_fail("another process trains in '%s'", r->s->out), false);
}

static const char removed[] = ".chainrule-old", weights_alone[] = "checkpoint-weights";

/* Renames the checkpoint first, so no reader sees half of it. */
static cr_status remove_checkpoint(const run *r, const char *name) {
    char from[4096], to[4096];
    if (!run_path(r, name, from) || !run_path(r, removed, to)) return CR_IO;
    cr_status status = cr_training_check(from);
    if (status == CR_OK) status = cr_training_remove(to);             /* of a process that was killed */
    if (status != CR_OK) return status;
    if (!cr_os_rename(from, to))
        return cr_fail(CR_IO, "train", "cannot move '%s' to '%s': %s", from, to, cr_os_error());
    return cr_training_remove(to);
}

/* Completes an interrupted save, or removes its files. */
static cr_status settle_checkpoint(const run *r, const char *name) {
    char dir[4096], new[4096], commit[4096];
    if (!run_path(r, name, dir) || !join_or_fail(dir, ".chainrule-new", new) ||
        !join_or_fail(dir, ".chainrule-commit", commit))
        return CR_IO;
    if ((cr_os_exists(new) || cr_os_exists(commit)) && cr_training_copy(dir, dir)) cr_error_clear();
    return CR_OK;
}

/* The N of checkpoint-N; -1: another name. */
static int64_t step_of(const char *name) {
    char *end = NULL;
    if (strncmp(name, "checkpoint-", 11) || name[11] < '0' || name[11] > '9') return -1;
    const int64_t step = strtoll(name + 11, &end, 10);
    return *end ? -1 : step;
}

typedef struct earlier { const run *r; cr_status (*fn)(const run *r, const char *name); cr_status status; } earlier;

static void of_checkpoint(const char *name, void *ctx) {
    earlier *e = ctx;
    static const char *const names[] = {"checkpoint", "checkpoint-best", weights_alone};
    bool is = step_of(name) >= 0;
    for (int i = 0; i < 3; i++) is = is || !strcmp(name, names[i]);
    if (is && e->status == CR_OK) e->status = e->fn(e->r, name);
}

static cr_status each_checkpoint(const run *r, cr_status (*fn)(const run *r, const char *name)) {
    earlier e = {r, fn, CR_OK};
    cr_os_each_entry(r->s->out, of_checkpoint, &e);
    return e.status;
}

static cr_status check_checkpoint(const run *r, const char *name) {
    char path[4096];
    return run_path(r, name, path) ? cr_training_check(path) : CR_IO;
}

/* Does the file begin as the log of a run? */
static bool is_log(const char *path) {
    static const char first[] = "{\"event\":";
    cr_mapping m;
    if (!cr_os_map(path, &m)) return false;
    const bool is = !m.bytes || (m.bytes >= sizeof first && !memcmp(m.data, first, sizeof first - 1));
    cr_os_unmap(&m);
    return is;
}

/* Files that the run will write are there, and no earlier run wrote them: it names the first. */
static bool check_files(const run *r, const char *const *names) {
    char log[4096], path[4096];
    if (run_exists(r->s->out) || !run_path(r, "run.jsonl", log)) return true;
    if (cr_os_is_plain(log) && is_log(log)) return true;
    for (; *names; names++) {
        if (!run_path(r, *names, path)) return false;
        if (cr_os_exists(path) || cr_os_is_link(path))
            return cli_fail("'%s' is not from an earlier run: move it away, or choose another --out", path), false;
    }
    return true;
}

bool run_clear(const run *r) {
    static const char *const of_train[] = {"run.jsonl", "tokenizer.json", "curve.svg", NULL};
    char old[4096];
    cr_status status = run_path(r, removed, old) ? cr_training_remove(old) : CR_IO;
    if (status == CR_OK && r->s->resume) status = each_checkpoint(r, settle_checkpoint);
    if (status == CR_OK && !r->s->resume) {
        if (!check_files(r, of_train) || (r->s->model && !check_files(r, model_files))) return false;
        status = each_checkpoint(r, check_checkpoint);          /* all, before one is removed */
        if (status == CR_OK) status = each_checkpoint(r, remove_checkpoint);
    }
    return status == CR_OK || (cli_fail_library(), false);
}

/* ---- --keep: checkpoint-STEP */
typedef struct numbered { int64_t lowest, count; } numbered;

static void count_numbered(const char *name, void *ctx) {
    numbered *all = ctx;
    const int64_t step = step_of(name);
    if (step < 0) return;
    if (!all->count++ || step < all->lowest) all->lowest = step;
}

/* Keeps the checkpoint that the next save replaces, under its step. */
static cr_status keep_previous(const run *r) {
    char now[4096], name[40], to[4096];
    if (r->s->keep < 2 || !run_path(r, "checkpoint", now)) return CR_OK;
    const int64_t step = run_step(now);
    snprintf(name, sizeof name, "checkpoint-%lld", (long long)step);
    if (step < 0 || step >= r->at.step || !run_path(r, name, to) || has_weights(to)) return CR_OK;
    return cr_training_copy(now, to);
}

static cr_status remove_surplus(const run *r) {
    for (numbered all = {0};; all = (numbered){0}) {
        char name[40];
        cr_os_each_entry(r->s->out, count_numbered, &all);
        snprintf(name, sizeof name, "checkpoint-%lld", (long long)all.lowest);
        if (all.count < r->s->keep) return CR_OK;
        cr_status status = remove_checkpoint(r, name);
        if (status != CR_OK) return status;
    }
}

/* ---- metadata: a JSON object of strings */
static void put_string(cr_out *m, const char *key, const char *value) {
    cr_out_format(m, "%c\"%s\":", m->bytes ? ',' : '{', key);
    cr_out_string(m, value, strlen(value));
}

/* File names, one a line.  %XX stands for a byte that is not UTF-8, a control character or '%'. */
static void put_names(cr_out *m, const char *key, const char *const *name, int count) {
    cr_out all = {0};
    uint32_t code;
    cr_out_put(&all, "", 0);
    for (int i = 0; i < count; i++) {
        const char *p = name[i], *stop = p + strlen(p);
        if (i) cr_out_put(&all, "\n", 1);
        for (int bytes; p < stop; p += bytes ? bytes : 1) {
            bytes = cr_utf8_decode((const unsigned char *)p, (size_t)(stop - p), &code);
            if (!bytes || code < 0x20 || code == '%') cr_out_format(&all, "%%%02X", (unsigned)(unsigned char)*p);
            else cr_out_put(&all, p, (size_t)bytes);
        }
    }
    m->failed |= all.failed;
    if (!all.failed) put_string(m, key, all.text);
    cr_out_free(&all);
}

static void restore_name(char *name) {
    unsigned code;
    for (char *p = name; (p = strchr(p, '%')); p++)
        if (sscanf(p + 1, "%2X", &code) == 1 && p[1] && p[2]) {
            *p = (char)code;
            memmove(p + 1, p + 3, strlen(p + 3) + 1);
        }
}

/* val: the validation loss of checkpoint-best; NULL: for the other checkpoints. */
static char *describe(const run *r, const double *val) {
    cr_out m = {0};
    char text[4096];
    if (r->weights.config) put_string(&m, "config", r->weights.config);
    else if (!r->weights.frozen) put_string(&m, "model", "gpt2");
    for (int i = 0; i < r->command->n; i++) {
        const option *o = &r->command->options[i];
        if (!o->kept) continue;
        option_text(o, text, sizeof text);
        put_string(&m, o->name, text);
    }
    snprintf(text, sizeof text, "%lld", (long long)r->data.vocabulary);
    put_string(&m, "vocabulary", text);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)r->data.hash);
    put_string(&m, "digest", text);
    snprintf(text, sizeof text, "%.17g", r->at.seconds);
    put_string(&m, "seconds", text);
    snprintf(text, sizeof text, "%.17g", r->at.elapsed);
    put_string(&m, "elapsed", text);
    if (val) {
        snprintf(text, sizeof text, "%.17g", *val);
        put_string(&m, "val_loss", text);
    }
    put_names(&m, "tokens", &r->s->tokens, r->s->tokens ? 1 : 0);
    if (r->s->data.n) put_names(&m, "data", r->s->data.path, r->s->data.n);
    if (r->s->validation.n) put_names(&m, "validation", r->s->validation.path, r->s->validation.n);
    cr_out_put(&m, "}", 1);
    if (!m.failed) return m.text;
    cr_out_free(&m);
    return cr_fail(CR_NO_MEMORY, "train", "no memory for the run's settings"), NULL;
}

static cr_status save(const run *r, const char *name, cr_training t, const double *val) {
    char dir[4096];
    char *description = run_path(r, name, dir) ? describe(r, val) : NULL;
    t.params = r->weights.trained;
    t.step = r->at.step;
    t.metadata = description;
    const cr_status status = description ? cr_training_save(dir, &t) : CR_IO;
    free(description);
    return status;
}

static void say_unsaved(const run *r, progress *bar, const char *what) {
    progress_end(bar);
    if (cr_error()) cli_fail_library();
    cli_fail("%s after step %lld was not saved", what, (long long)r->at.step);
}

void run_save(run *r, progress *bar) {
    const cr_training t = {
        .optim = r->update.optim, .generator = r->generator, .loader = r->data.loader, .scaler = r->update.scaler,
        .parallel = r->ranks.parallel};
    if (run_first(r) && keep_previous(r)) {         /* not fatal: the newest checkpoint matters most */
        progress_end(bar);
        cli_fail_library();
    }
    r->saved.unsaved = save(r, "checkpoint", t, NULL) != CR_OK;
    if (r->saved.unsaved) say_unsaved(r, bar, "the checkpoint");
    else if (run_first(r) && (remove_surplus(r) || (has(r->s->out, weights_alone) &&
                                                    remove_checkpoint(r, weights_alone)))) {    /* not fatal either */
        progress_end(bar);
        cli_fail_library();
    }
}

void run_save_weights(const run *r) {
    char path[4096], program[4200], word[4200];
    if (r->ranks.parallel || !run_path(r, weights_alone, path)) return;
    if (save(r, weights_alone, (cr_training){0}, NULL) != CR_OK) {
        if (cr_error()) cli_fail_library();
        if (cr_training_remove(path)) cr_error_clear();
        return;
    }
    fprintf(stderr, "chainrule: the weights alone are saved; to write with them:\n  %s generate --model %s\n",
            shell_word(cli_program(), program), shell_word(path, word));
}

void run_save_best(run *r, progress *bar, double loss) {
    if (!run_first(r) || !r->s->best || !(loss < r->at.best)) return;
    r->saved.best_unsaved = save(r, "checkpoint-best", (cr_training){0}, &loss) != CR_OK;
    if (r->saved.best_unsaved) say_unsaved(r, bar, "the best model so far");
    else r->at.best = loss;
}

/* A string of the checkpoint's metadata, valid until the run ends; NULL: absent, or an error is pending. */
static char *recall(run *r, const char *path, const char *key) {
    char *s = cr_load_metadata(path, key);
    if (s && r->saved.n_kept < RUN_KEPT) return r->saved.kept[r->saved.n_kept++] = s;
    cr_free(s);
    return NULL;
}

static bool recall_option(run *r, const char *path, option *o, int *code) {
    char now[4096], why[192];
    if (o->given && o->kept == KEPT) return true;
    const char *then = recall(r, path, o->name);
    if (!then && o->kept == KEPT && !cr_error()) return true;   /* of an older version, without this option */
    if (!then && !cr_error()) then = o->before;
    if (!then) {
        if (cr_error()) *code = cli_fail_library();
        else *code = cli_fail("'%s' is not a run of chainrule %s: it does not record --%s", r->s->resume,
                              r->command->name,
                              o->name);
        return false;
    }
    option_text(o, now, sizeof now);
    if (o->given && strcmp(now, then) != 0) {
        *code = usage_error(r->command, "--%s cannot change when a run is resumed: it was %s, not %s", o->name, then,
                            now);
        return false;
    }
    if (*then && !option_set(o, then, why, sizeof why)) {
        *code = cli_fail("'%s' says --%s %s: it %s", r->s->resume, o->name, then, why);
        return false;
    }
    return true;
}

/* The files of an option of these. */
static bool recall_list(run *r, const char *path, const char *key) {
    char *names = recall(r, path, key), why[192];
    option *o = option_find(r->command, key);
    for (char *name = names; name && *name;) {
        char *end = strchr(name, '\n');
        if (end) *end = 0;
        restore_name(name);
        if (!option_set(o, name, why, sizeof why)) return cli_fail("--%s %s", key, why), false;
        name = end ? end + 1 : NULL;
    }
    return true;
}

/* The data files' names, unless new ones are given. */
static bool recall_files(run *r, const char *path) {
    if (r->s->data.n || r->s->tokens) return true;
    char *tokens = recall(r, path, "tokens");
    if (!tokens || !*tokens)
        return recall_list(r, path, "data") &&
               (!option_find(r->command, "validation") || recall_list(r, path, "validation"));
    restore_name(tokens);
    r->s->tokens = tokens;
    return true;
}

/* The loss of checkpoint-best, which a better one replaces. */
static double recall_best(const run *r) {
    char best[4096];
    if (!run_path(r, "checkpoint-best", best) || !has_weights(best)) return INFINITY;
    char *loss = cr_load_metadata(best, "val_loss");
    const double v = loss ? strtod(loss, NULL) : INFINITY;
    cr_free(loss);
    cr_error_clear();                               /* an unreadable checkpoint-best is replaced by the next one */
    return v;
}

bool run_restore_settings(run *r, int *code) {
    char path[4096];
    *code = CLI_FAILED;
    if (!run_path(r, "checkpoint", path)) return false;
    if (!has_weights(path))
        return cli_fail("'%s' holds no checkpoint to resume (no %s)", r->s->resume, path), false;
    for (int i = 0; i < r->command->n; i++)
        if (r->command->options[i].kept && !recall_option(r, path, &r->command->options[i], code)) return false;
    const char *seconds = recall(r, path, "seconds");
    r->at.seconds = seconds ? strtod(seconds, NULL) : 0;
    const char *elapsed = recall(r, path, "elapsed");
    r->at.elapsed = elapsed ? strtod(elapsed, NULL) : r->at.seconds;
    r->at.best = recall_best(r);
    return recall_files(r, path);
}

bool run_restore(run *r) {
    char dir[4096], hash[32];
    if (!run_path(r, "checkpoint", dir)) return false;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->data.hash);
    const char *then = recall(r, dir, "digest");
    if (then && strcmp(then, hash) != 0)
        return cli_fail("the data differ from what '%s' was trained on: give the same files in the same order",
                        r->s->out),
               false;
    cr_training t = {.params = r->weights.trained,
                     .optim = r->update.optim,
                     .generator = r->generator,
                     .loader = r->data.loader,
                     .scaler = r->update.scaler};
    if (cr_training_load(dir, &t)) return cli_fail_library(), false;
    r->at.step = t.step;
    r->at.batches = t.step * r->s->accumulate;
    return true;
}

bool run_take_over(run *r, bool new) {
    char path[4096];
    if (new) {
        for (int i = 0; i < 50 && !cr_os_lock_folder(r->s->out); i++) cr_os_sleep(0.1);     /* the first one ends */
        cr_os_show_output(r->ranks.output);
        r->at.best = recall_best(r);
    }
    runlog_close(&r->log);
    if (!run_path(r, "run.jsonl", path) || !runlog_open(&r->log, path, r->at.step)) return false;
    const series *train = &r->log.train;
    const bool missing = train->n ? train->at[train->n - 1].step < r->at.step : r->at.step > 0;
    if (new && missing) run_log_step(r);            /* the first process ended before it wrote that line */
    return true;
}

/* ---- chainrule checkpoint merge */
int cli_checkpoint(int argc, char **argv) {
    char path[4096];
    file_list words = {0};
    const command c = {"checkpoint", "merge DIR",
                       "Joins the parts that processes with --shard-optimizer wrote: one weights.safetensors and one\n"
                       "optimizer.safetensors.\n"
                       "DIR: of a run, or of a checkpoint.", NULL, 0, &words, NULL,
                       "checkpoint merge run\ncheckpoint merge run/checkpoint-1000\n"};
    int code;
    if (options_parse(&c, argc, argv, &code)) {
        const bool good = words.n == 2 && !strcmp(words.path[0], "merge");
        if (!good) code = usage_error(&c, "expected: merge DIR");
        else if (!join_or_fail(words.path[1], has_weights(words.path[1]) ? "" : "checkpoint", path)) code = CLI_FAILED;
        else code = cr_training_merge(path) ? cli_fail_library() : CLI_OK;
    }
    free(words.path);
    return code;
}
