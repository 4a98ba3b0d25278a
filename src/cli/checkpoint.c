/* checkpoint.c - a run's folder: what is written when it stops, and read when it goes on.  The settings travel as the metadata
 * of the checkpoint, under the names of their options. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"

static bool join(const char *dir, const char *name, char out[4096]) {
    const int n = snprintf(out, 4096, "%s/%s", dir, name);
    if (n > 0 && n < 4096) return true;
    return cli_fail("the path '%.60s...' is too long", dir), false;
}

bool run_path(const run *r, const char *name, char out[4096]) { return join(r->s->out, name, out); }
bool run_weights_path(const char *dir, char out[4096]) {
    if (!join(dir, "checkpoint", out)) return false;
    char *path = cr_training_weights(out);
    if (!path) return cli_fail_library(), false;
    snprintf(out, 4096, "%s", path);                /* no path of the library's is longer */
    cr_free(path);
    return true;
}

bool run_exists(const char *dir) {
    char path[4096];
    return run_weights_path(dir, path) && cr_os_exists(path);
}

/* ---- metadata: a JSON object of strings */
typedef struct metadata { char *s; size_t n, room; bool failed; } metadata;

static void put(metadata *m, const char *key, const char *value) {
    const size_t need = m->n + strlen(key) + 6 * strlen(value) + 16;
    if (need > m->room) {
        char *grown = realloc(m->s, 2 * need);
        if (!grown) { m->failed = true; return; }
        m->s = grown;
        m->room = 2 * need;
    }
    m->n += (size_t)snprintf(m->s + m->n, m->room - m->n, "%c\"%s\":\"", m->n ? ',' : '{', key);
    json_escape(value, m->s + m->n, m->room - m->n);
    m->n += strlen(m->s + m->n);
    m->n += (size_t)snprintf(m->s + m->n, m->room - m->n, "\"");
}

static void put_files(metadata *m, const file_list *files) {
    size_t n = 1;
    for (int i = 0; i < files->n; i++) n += strlen(files->path[i]) + 1;
    char *all = malloc(n), *end = all;
    if (!all) { m->failed = true; return; }
    for (int i = 0; i < files->n; i++) end += sprintf(end, "%s%s", i ? "\n" : "", files->path[i]);
    *end = 0;
    put(m, "data", all);
    free(all);
}

static char *describe(const run *r) {
    metadata m = {0};
    char text[4096];
    put(&m, "model", "gpt2");
    for (int i = 0; i < r->command->n; i++) {
        const option *o = &r->command->options[i];
        if (!o->run) continue;
        option_text(o, text, sizeof text);
        put(&m, o->name, text);
    }
    snprintf(text, sizeof text, "%lld", (long long)cr_tokens_vocabulary(r->tokens));
    put(&m, "vocabulary", text);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)tokens_hash(r->tokens));
    put(&m, "hash", text);
    snprintf(text, sizeof text, "%.17g", r->seconds);
    put(&m, "seconds", text);
    put(&m, "tokens", r->s->tokens ? r->s->tokens : "");
    if (r->s->data.n) put_files(&m, &r->s->data);
    if (!m.failed) m.s[m.n] = '}', m.s[m.n + 1] = 0;
    if (!m.failed) return m.s;
    free(m.s);
    cli_fail("no memory for the run's settings");
    return NULL;
}

bool run_save(run *r) {
    char dir[4096];
    char *description = run_path(r, "checkpoint", dir) ? describe(r) : NULL;
    if (!description) return false;
    const cr_training t = {.params = cr_gpt_params(r->model), .optim = r->optim, .generator = r->generator, .loader = r->loader,
                           .step = r->step, .metadata = description};
    const cr_status status = cr_training_save(dir, &t);
    free(description);
    return status == CR_OK || (cli_fail_library(), false);
}

/* A string of the checkpoint's metadata, kept until the run ends; NULL: absent, or an error pending. */
static const char *recall(run *r, const char *path, const char *key) {
    char *s = cr_load_metadata(path, key);
    if (s && r->n_kept < RUN_KEPT) return r->kept[r->n_kept++] = s;
    cr_free(s);
    return NULL;
}

static bool recall_option(run *r, const char *path, option *o, int *code) {
    char now[4096], why[192];
    const char *then = recall(r, path, o->name);
    if (!then) {
        if (cr_error()) *code = cli_fail_library();
        else *code = cli_fail("'%s' is not a run of chainrule train: it does not say --%s", r->s->resume, o->name);
        return false;
    }
    option_text(o, now, sizeof now);
    if (o->given && o->to == &r->s->steps) return true;         /* a run may be made longer or shorter */
    if (o->given && strcmp(now, then) != 0) {
        *code = usage_error(r->command, "--%s cannot change when a run goes on: it was %s, not %s", o->name, then, now);
        return false;
    }
    if (*then && !option_set(o, then, why, sizeof why)) {
        *code = cli_fail("'%s' says --%s %s: it %s", r->s->resume, o->name, then, why);
        return false;
    }
    return true;
}

/* The data files' names, unless new ones are given. */
static bool recall_files(run *r, const char *path) {
    if (r->s->data.n || r->s->tokens) return true;
    const char *tokens = recall(r, path, "tokens");
    if (tokens && *tokens) {
        r->s->tokens = tokens;
        return true;
    }
    char *names = (char *)(uintptr_t)recall(r, path, "data"), why[192];
    option *o = option_find(r->command, "data");
    for (char *name = names; name && *name;) {
        char *end = strchr(name, '\n');
        if (end) *end = 0;
        if (!option_set(o, name, why, sizeof why)) return cli_fail("--data %s", why), false;
        name = end ? end + 1 : NULL;
    }
    return true;
}

bool run_restore_settings(run *r, int *code) {
    char path[4096];
    *code = CLI_FAILED;
    if (!run_weights_path(r->s->resume, path)) return false;
    if (!run_exists(r->s->resume)) return cli_fail("'%s' holds no checkpoint to go on from (no %s)", r->s->resume, path), false;
    for (int i = 0; i < r->command->n; i++)
        if (r->command->options[i].run && !recall_option(r, path, &r->command->options[i], code)) return false;
    const char *seconds = recall(r, path, "seconds");
    r->seconds = seconds ? strtod(seconds, NULL) : 0;
    return recall_files(r, path);
}

bool run_restore(run *r) {
    char dir[4096], path[4096], hash[32];
    if (!run_path(r, "checkpoint", dir) || !run_weights_path(r->s->out, path)) return false;
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tokens_hash(r->tokens));
    const char *then = recall(r, path, "hash");
    if (then && strcmp(then, hash) != 0) return cli_fail("the data differ from what '%s' was trained on: give the same files in the same order", r->s->out), false;
    cr_training t = {.params = cr_gpt_params(r->model), .optim = r->optim, .generator = r->generator, .loader = r->loader};
    if (cr_training_load(dir, &t)) return cli_fail_library(), false;
    r->step = t.step;
    return true;
}
