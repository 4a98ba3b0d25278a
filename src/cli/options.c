/* options.c - the table-driven option parser: reads, checks against the table, prints the help from the same table. */
#include "cli.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/out.h"
#include "../io/json.h"

option *option_find(const command *c, const char *name) {
    for (int i = 0; i < c->n; i++) if (!strcmp(c->options[i].name, name)) return &c->options[i];
    return NULL;
}

static bool in_words(const char *words, const char *text) {
    const size_t n = strlen(text);
    for (const char *w = words; n && w; w = strchr(w, '|')) {
        if (*w == '|') w++;
        if (!strncmp(w, text, n) && (w[n] == '|' || !w[n])) return true;
    }
    return false;
}

option option_device(const char **device) {
    return (option){.name = "device", .text = device, .what = "NAME", .kept = KEPT,
                    .help = "auto, cpu, ref, gpu, cuda:0, webgpu:0...; chainrule info lists them (default cpu)"};
}

option option_threads(int64_t *threads) {
    return (option){
        .name = "threads", .integer = threads, .help = "0: all processors of this process", .max = 1024, .kept = KEPT};
}

static const char *placeholder(const option *o) {
    if (o->what) return o->what;
    return o->words ? o->words : o->integer ? "N" : o->real ? "X" : "";
}

static bool set_number(option *o, const char *text, char *why, size_t room) {
    char *end = NULL;
    const long long i = o->integer ? strtoll(text, &end, 10) : 0;
    const double v = o->integer ? (double)i : strtod(text, &end), max = o->max > 0 ? o->max : 0x1p53;
    if (end == text || *end || !isfinite(v)) {
        snprintf(why, room, "needs a %s, not '%.60s'", o->integer ? "whole number" : "number", text);
        return false;
    }
    if (o->above && v <= o->min) {
        snprintf(why, room, "must be above %.10g, not %.60s", o->min, text);
        return false;
    }
    if (!(v >= o->min && v <= max)) {
        if (o->max > 0 || v > max) snprintf(why, room, "must be between %.10g and %.10g, not %.60s", o->min, max, text);
        else snprintf(why, room, "must be at least %.10g, not %.60s", o->min, text);
        return false;
    }
    if (o->integer) *o->integer = i;
    else *o->real = v;
    return true;
}

static bool add_file(file_list *l, const char *path, char *why, size_t room) {
    if (!cr_grow(&l->path, l->n + 1, &l->room, sizeof *l->path)) {
        snprintf(why, room, "has more files than memory");
        return false;
    }
    l->path[l->n++] = path;
    return true;
}

bool option_set(option *o, const char *text, char *why, size_t room) {
    if (o->flag) *o->flag = true;
    if (o->integer || o->real) return set_number(o, text, why, room);
    if (o->files) return add_file(o->files, text, why, room);
    if (o->words && !in_words(o->words, text)) {
        snprintf(why, room, "must be one of %s, not '%.60s'", o->words, text);
        return false;
    }
    if (o->text) *o->text = text;
    return true;
}

/* The fewest digits that read back as the same number. */
static void real_text(double v, char *out, size_t room) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(out, room, "%.*g", digits, v);
        if (strtod(out, NULL) == v) return;
    }
}

void option_text(const option *o, char *out, size_t room) {
    out[0] = 0;
    if (o->integer && (double)*o->integer >= o->min)       /* below the least: not set */
        snprintf(out, room, "%lld", (long long)*o->integer);
    if (o->real && !isnan(*o->real)) real_text(*o->real, out, room);       /* NaN: not set */
    if (o->text && *o->text) snprintf(out, room, "%s", *o->text);
    if (o->flag && *o->flag) snprintf(out, room, "yes");
}

/* ---- the help */
void print_wrapped(FILE *f, const char *text, int at, int indent, int columns) {
    bool first = true;                              /* in its line */
    while (*text) {
        const int length = (int)strcspn(text, " \n");
        const bool fits = first || at + 1 + length <= columns;
        if (!fits) fprintf(f, "\n%*s", at = indent, "");
        else if (!first) at += fprintf(f, " ");
        at += fprintf(f, "%.*s", length, text);
        text += length + (text[length] == ' ');
        first = *text == '\n';
        if (first) fprintf(f, "\n%*s", at = indent, ""), text++;
    }
    fprintf(f, "\n");
}

void print_fact(FILE *f, const char *name, const char *format, ...) {
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    print_wrapped(f, text, fprintf(f, "%-7s ", name), 8, cr_os_is_terminal(f) ? cr_os_terminal_width(f) : INT_MAX);
}

static void usage_line(const command *c, FILE *f) {
    const int at = fprintf(f, "usage: chainrule %s%s", c->name, *c->arguments ? " " : "");
    print_wrapped(f, c->arguments, at, 8, cr_os_terminal_width(f));
}

int usage_error(const command *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "chainrule: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    usage_line(c, stderr);
    return CLI_USAGE;
}

static void print_option(const option *o, int columns) {
    const int column = columns < 60 ? 8 : 26;
    char text[768], value[4096];
    option_text(o, value, sizeof value);
    int at = printf("  --%s%s%s", o->name, *placeholder(o) ? " " : "", placeholder(o));
    if (at >= column) printf("\n"), at = 0;
    printf("%*s", column - at, "");
    snprintf(text, sizeof text, *value ? "%s (default %.200s)" : "%s", o->help, value);
    print_wrapped(stdout, text, column, column, columns);
}

static void print_help(const command *c) {
    const int columns = cr_os_terminal_width(stdout);
    const char *group = NULL;
    usage_line(c, stdout);
    printf("\n");
    print_wrapped(stdout, c->about, 0, 0, columns);
    for (int i = 0; i < c->n; i++) {
        const option *o = &c->options[i];
        if (!i || (o->group && strcmp(o->group, group))) printf("\n%s:\n", group = o->group ? o->group : "Options");
        print_option(o, columns);
    }
    if (!c->n) printf("\nOptions:\n");
    print_option(&(option){.name = "help", .help = "print this help", .what = ""}, columns);
    printf("\nExamples:\n");
    for (const char *line = c->examples; *line; line += strspn(line, "\n")) {
        const int length = (int)strcspn(line, "\n");
        printf("  chainrule %.*s\n", length, line);
        line += length;
    }
}

/* Levenshtein's distance, of words up to 30 letters. */
static int distance(const char *a, const char *b) {
    int row[32];
    const int n = (int)strlen(b);
    if (n > 30) return 99;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; *a; a++, i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            const int above = row[j], change = corner + (*a != b[j - 1]);
            row[j] = above + 1 < row[j - 1] + 1 ? above + 1 : row[j - 1] + 1;
            if (change < row[j]) row[j] = change;
            corner = above;
        }
    }
    return row[n];
}

int typing_errors(const char *typed, const char *name) {
    const int letters = (int)strlen(typed), d = distance(typed, name);
    if (d < letters && d <= (letters < 5 ? 1 : 2)) return d;
    return letters > 2 && !strncmp(typed, name, (size_t)letters) ? 3 : 99;      /* an abbreviation */
}

/* "; did you mean --steps?", or "". */
static const char *meant_option(const command *c, const char *name, char out[96]) {
    int best = 99;
    *out = 0;
    for (int i = 0; i < c->n; i++) {
        const int errors = typing_errors(name, c->options[i].name);
        if (errors >= best) continue;
        best = errors;
        snprintf(out, 96, "; did you mean --%s?", c->options[i].name);
    }
    return out;
}

static int unknown_option(const command *c, const char *name) {
    char nearest[96];
    if (*meant_option(c, name, nearest)) return usage_error(c, "there is no option --%s%s", name, nearest);
    return usage_error(c, "there is no option --%s (chainrule %s --help lists them)", name, c->name);
}

/* The values of one option from argv[i]; returns the next index, or -1 with *code set. */
static int take_option(const command *c, option *o, const char *attached, int argc, char **argv, int i, int *code) {
    char why[192];
    const char *value = attached;
    if (o->given && !o->files) return *code = usage_error(c, "--%s is given twice", o->name), -1;
    o->given = true;
    if (o->flag) {
        if (attached) return *code = usage_error(c, "--%s takes no value", o->name), -1;
        return option_set(o, "", why, sizeof why) ? i : -1;
    }
    if (!value && i < argc && (strncmp(argv[i], "--", 2) != 0 || (o->text && !o->words))) value = argv[i++];
    if (!value) return *code = usage_error(c, "--%s needs a value: %s", o->name, placeholder(o)), -1;
    if (!option_set(o, value, why, sizeof why)) return *code = usage_error(c, "--%s %s", o->name, why), -1;
    while (o->files && !attached && i < argc && strncmp(argv[i], "--", 2) != 0)
        if (!option_set(o, argv[i++], why, sizeof why)) return *code = usage_error(c, "--%s %s", o->name, why), -1;
    return i;
}

/* ---- --config */
/* The value as an option takes it; NULL: it is none of a kind that it could be. */
static const char *config_text(const option *o, const cr_json *v, char out[40]) {
    if (v->kind == CR_JSON_STRING) return strlen(v->text) == v->bytes ? v->text : NULL;
    if (v->kind == CR_JSON_BOOL && o->flag) return v->truth ? "yes" : "";
    if (v->kind != CR_JSON_NUMBER || !(o->integer || o->real)) return NULL;
    if (v->integral) snprintf(out, 40, "%lld", (long long)v->integer);
    else snprintf(out, 40, "%.17g", v->number);
    return out;
}

/* log: the first line of a run.jsonl, which has every setting and more.  False: why says what is wrong. */
static bool config_set(option *o, const cr_json *v, bool log, char *why, size_t room) {
    char number[40];
    if (o->files && v->kind == CR_JSON_ARRAY) {
        for (const cr_json *one = v->first; one; one = one->next)
            if (!config_set(o, one, log, why, room)) return false;
        return true;
    }
    const char *text = config_text(o, v, number);
    if (!text || (o->flag && *text && strcmp(text, "yes") != 0)) {
        snprintf(why, room, "needs %s", o->flag ? "true or false" : o->integer || o->real ? "a number" : "a text");
        return false;
    }
    if (o->flag) *o->flag = *text;
    else if (*text && !option_set(o, text, why, room)) return false;
    if (!log) o->given = true;
    return true;
}

/* The file of --config, a folder's run.jsonl, or its first line: an object, kept in *c->config. */
static bool config_read(const command *c, const char *name) {
    char path[4096];
    cr_mapping m;
    snprintf(path, sizeof path, "%s%s", name, cr_os_is_directory(name) ? "/run.jsonl" : "");
    if (!cr_os_map(path, &m)) return cli_fail("cannot read '%s': %s", path, cr_os_error()), false;
    const char *text = (const char *)m.data, *end = m.bytes ? memchr(text, '\n', m.bytes) : NULL;
    static const char event[] = "{\"event\":";
    const bool log = m.bytes > sizeof event && !memcmp(text, event, sizeof event - 1);
    *c->config = cr_json_parse(c->name, path, text, log && end ? (size_t)(end - text) : m.bytes);
    cr_os_unmap(&m);
    if (!*c->config) return cli_fail_library(), false;
    return (*c->config)->kind == CR_JSON_OBJECT || (cli_fail("'%s' is not a JSON object", path), false);
}

/* What the command line does not say, from the file. */
static bool config_apply(const command *c, const char *name) {
    char why[192], nearest[96];
    if (!config_read(c, name)) return false;
    const bool log = cr_json_get(*c->config, "event");
    for (const cr_json *v = (*c->config)->first; v; v = v->next) {
        option *o = option_find(c, v->key);
        const bool wanted = o && strcmp(v->key, "config") && strcmp(v->key, "resume");
        const bool local = log && (!strcmp(v->key, "device") || !strcmp(v->key, "threads"));  /* of that machine */
        if (!wanted && !log)
            return cli_fail("'%s': there is no option \"%.60s\"%s", name, v->key, meant_option(c, v->key, nearest)),
                   false;
        if (wanted && !local && !o->given && !config_set(o, v, log, why, sizeof why))
            return cli_fail("'%s': \"%s\" %s", name, v->key, why), false;
    }
    return true;
}

static bool parse(const command *c, int argc, char **argv, int *code) {
    for (int i = 1; i < argc;) {
        const char *a = argv[i++];
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            print_help(c);
            *code = CLI_OK;
            return false;
        }
        if (!strcmp(a, "-o")) a = "--out";          /* as compilers have it */
        const bool is_option = !strncmp(a, "--", 2) && a[2];
        if (!is_option && c->files && *a != '-') {
            char why[64];
            if (option_set(&(option){.files = c->files}, a, why, sizeof why)) continue;
        }
        if (!is_option) {
            *code = usage_error(c, "unexpected argument '%s'", a);
            return false;
        }
        const char *equals = strchr(a, '=');
        char name[64];
        snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - a - 2 < 60 ? equals - a - 2 : 60) : 60, a + 2);
        option *o = option_find(c, name), *negated = strncmp(name, "no-", 3) ? NULL : option_find(c, name + 3);
        if (negated && negated->flag && !negated->given && !equals) {
            negated->given = true;
            *negated->flag = false;
            continue;
        }
        if (!o) {
            *code = unknown_option(c, name);
            return false;
        }
        i = take_option(c, o, equals ? equals + 1 : NULL, argc, argv, i, code);
        if (i < 0) return false;
    }
    return true;
}

bool options_parse(const command *c, int argc, char **argv, int *code) {
    if (!parse(c, argc, argv, code)) return false;
    const option *config = c->config ? option_find(c, "config") : NULL;
    if (!config || !*config->text || config_apply(c, *config->text)) return true;
    *code = CLI_FAILED;
    return false;
}
