/* options.c - the table-driven option parser: reads, checks against the table, prints the help from the same table. */
#include "cli.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../core/out.h"

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
        .name = "threads", .integer = threads, .help = "0: as many as the machine offers", .max = 1024, .kept = KEPT};
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
    if (o->integer) snprintf(out, room, "%lld", (long long)*o->integer);
    if (o->real && !isnan(*o->real)) real_text(*o->real, out, room);       /* NaN: not set */
    if (o->text && *o->text) snprintf(out, room, "%s", *o->text);
    if (o->flag && *o->flag) snprintf(out, room, "yes");
}

static void usage_line(const command *c, FILE *f) { fprintf(f, "usage: chainrule %s %s\n", c->name, c->arguments); }

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

static void print_help(const command *c) {
    usage_line(c, stdout);
    printf("\n%s\n\n", c->about);
    for (int i = 0; i < c->n; i++) {
        const option *o = &c->options[i];
        char left[64], value[64];
        snprintf(left, sizeof left, "--%s%s%s", o->name, *placeholder(o) ? " " : "", placeholder(o));
        option_text(o, value, sizeof value);
        printf("  %-28s ", left);
        if (strlen(left) > 28) printf("\n  %-28s ", "");
        printf("%s%s%s%s\n", o->help, *value ? " (default " : "", value, *value ? ")" : "");
    }
    printf("  %-28s %s\n", "--help", "this text");
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

static int unknown_option(const command *c, const char *name) {
    const char *nearest = NULL;
    int best = 3;
    for (int i = 0; i < c->n; i++) {
        const int d = distance(name, c->options[i].name);
        if (d < best) { best = d; nearest = c->options[i].name; }
    }
    if (nearest) return usage_error(c, "there is no option --%s; did you mean --%s?", name, nearest);
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

bool options_parse(const command *c, int argc, char **argv, int *code) {
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
