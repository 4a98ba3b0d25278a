/* oniguruma.c - from the syntax of tokenizer.json (Oniguruma's, as Ruby has it) to PCRE2's.  The classes of characters
 * are those of Unicode 16, whatever version PCRE2 has: they are written out where PCRE2 differs or may be too old.
 *   \s \d \w \h \v \O \b    Oniguruma's meaning            (?m:.)   (?s:.)
 *   [a[b]&&c]               (?:(?=(?:[a]|[b]))[c])         {,3}     {0,3}
 *   [[:alpha:]]             its Unicode property           {1,3}+   not possessive */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "regex.h"
#include "unicode.h"

#define SPACES "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define LATIN_WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"                   /* of \w, but not of [\w] */
enum { DEPTH = 16 };

/* The inside of a class, the categories whose young characters belong to it, and whether it has the unassigned ones. */
typedef struct charset { const char *set, *young[3]; bool unassigned, negated; } charset;
/* what a charset of one property points into */
typedef struct names { char category[3], set[112]; } names;

static const struct { const char *name; charset of; } posix[] = {
    {"alnum", {"\\p{Alphabetic}\\p{Nd}", {"L", "Nd"}, false, false}},
    {"alpha", {"\\p{Alphabetic}", {"L"}, false, false}},
    {"ascii", {"\\x{0}-\\x{7f}", {NULL}, false, false}},
    {"blank", {"\\x{9}\\p{Zs}", {NULL}, false, false}},
    {"cntrl", {"\\p{Cc}", {NULL}, false, false}},
    {"digit", {"\\p{Nd}", {"Nd"}, false, false}},
    {"graph", {SPACES "\\p{Cc}", {NULL}, true, true}},
    {"lower", {"\\p{Lowercase}", {"Ll"}, false, false}},
    {"print", {"\\p{Cc}\\p{Zl}\\p{Zp}", {NULL}, true, true}},
    {"punct", {"\\p{P}\\p{S}", {"P", "S"}, false, false}},
    {"space", {SPACES, {NULL}, false, false}},
    {"upper", {"\\p{Uppercase}", {"Lu"}, false, false}},
    {"word", {WORD, {"L", "M", "Nd"}, false, false}},
    {"xdigit", {"0-9A-Fa-f", {NULL}, false, false}},
};

/* ---- writing ---- */
static void put_text(cr_out *o, const char *s) { cr_out_put(o, s, strlen(s)); }

/* The characters that PCRE2 may be too old to know as members of a category, "L" or "Lu"; "": all. */
static void put_young(cr_out *o, const char *category) {
    uint32_t first, last;
    const char *of;
    for (int i = 0; cr_unicode_young(i, &first, &last, &of); i++)
        if (!strncmp(of, category, strlen(category)))
            cr_out_format(o, "\\x{%x}-\\x{%x}", (unsigned)first, (unsigned)last);
}

/* A class takes about 5 KB, \b four of them: a hostile expression of 64 KB would become 600 MB. */
static void put_inside(cr_out *o, const charset *c) {
    if (o->bytes > CR_REGEX_MOST) o->failed = true;
    if (o->failed) return;
    for (int i = 0; i < 3 && c->young[i]; i++) put_young(o, c->young[i]);
    put_text(o, c->set);
}

/* An expression of one character. */
static void put_one(cr_out *o, const charset *c) {
    if (c->unassigned && c->negated) put_text(o, "(?:(?!");
    put_text(o, c->unassigned ? "(?:[" : c->negated ? "[^" : "[");
    put_inside(o, c);
    put_text(o, "]");
    if (!c->unassigned) return;
    put_text(o, "|(?![");
    put_young(o, "");
    put_text(o, c->negated ? "])\\p{Cn}))(?s:.))" : "])\\p{Cn})");
}

/* ---- escapes ---- */
static bool one_of(char c, const char *set) { return c && strchr(set, c) != NULL; }

/* Other names of the properties, as in [:alpha:] or as categories. */
static const struct { const char *name, *short_name; } aliases[] = {
    {"alphabetic", "alpha"},    {"decimalnumber", "Nd"},   {"letter", "L"},    {"lowercase", "lower"},
    {"lowercaseletter", "Ll"},  {"mark", "M"},             {"number", "N"},    {"other", "C"},
    {"punct", "P"},             {"punctuation", "P"},      {"separator", "Z"}, {"symbol", "S"},
    {"uppercase", "upper"},     {"uppercaseletter", "Lu"}, {"whitespace", "space"},
};

/* The name without what does not count in it: capitals, spaces, '_' and '-'; false: it is too long. */
static bool plain_name(const char *s, size_t n, char out[24]) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (one_of(s[i], "_- ")) continue;
        if (used == 23) return false;
        out[used++] = (char)tolower((unsigned char)s[i]);
    }
    out[used] = 0;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(out, aliases[i].name)) strcpy(out, aliases[i].short_name);
    if (used && used < 3) out[0] = (char)toupper((unsigned char)out[0]);
    return true;
}

static void add_category(const char *name, names *to, charset *c) {
    strcpy(to->category, name);
    *c = (charset){.set = to->set, .young = {to->category}};
    c->unassigned = !strcmp(name, "C") || !strcmp(name, "Cn");
    if (!c->unassigned) snprintf(to->set, sizeof to->set, "\\p{%s}", name);
    else strcpy(to->set, name[1] ? "\\p{Cs}" : "\\p{Cc}\\p{Cf}\\p{Co}");
}

/* \p{L}, \P{Lu}, \p{^Alpha}, \p{Han}: the bytes after the backslash, 0: PCRE2 knows it by that name, or refuses it. */
static size_t add_property(const char *s, size_t n, names *to, charset *c) {
    char name[24];
    const bool turned = n > 2 && s[1] == '{' && s[2] == '^';
    const size_t from = 2 + (size_t)turned;
    const char *end = n > from && s[1] == '{' ? memchr(s + from, '}', n - from) : NULL;
    if (!end || !plain_name(s + from, (size_t)(end - s) - from, name)) return 0;
    *c = (charset){0};
    if (name[0] && strlen(name) < 3 && one_of(name[0], "LMNPSZC") && name[1] != '&') add_category(name, to, c);
    for (size_t i = 0; !c->set && i < sizeof posix / sizeof *posix; i++)
        if (!strcmp(name, posix[i].name)) *c = posix[i].of;
    if (!c->set && cr_regex_is_script(name)) {
        /* PCRE2's \p{Han} has the characters of the script's extensions, too; the ideographs younger than Unicode 14 */
        const char *young = strcmp(name, "han") ? "" : "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
        snprintf(to->set, sizeof to->set, "%s\\p{sc:%s}", young, name);
        *c = (charset){.set = to->set};
    }
    if (!c->set) return 0;
    c->negated ^= turned != (s[0] == 'P');
    return (size_t)(end - s) + 1;
}

/* The class after a backslash; the bytes that it takes, 0: it is no class. */
static size_t class_escape(const char *s, size_t n, bool inside, names *to, charset *c) {
    switch (s[0]) {
    case 's': case 'S': *c = (charset){.set = SPACES}; break;
    case 'd': case 'D': *c = (charset){.set = "\\p{Nd}", .young = {"Nd"}}; break;
    case 'h': case 'H': *c = (charset){.set = "0-9A-Fa-f"}; break;
    case 'w': case 'W':
        *c = (charset){.set = inside ? WORD : LATIN_WORD WORD, .young = {"L", "M", "Nd"}};
        break;
    case 'p': case 'P': return add_property(s, n, to, c);
    default: return 0;
    }
    c->negated = s[0] < 'a';
    return 1;
}

/* Other escapes that PCRE2 spells differently; the bytes that they take, 0: they are as they are. */
static size_t other_escape(cr_out *o, const char *s, size_t n, bool inside) {
    if (s[0] == 'u' && n >= 5) {
        for (int i = 1; i < 5; i++) if (!one_of(s[i], "0123456789abcdefABCDEF")) return 0;
        cr_out_format(o, "\\x{%.4s}", s + 1);
        return 5;
    }
    if (s[0] == 'v') return put_text(o, "\\x{b}"), 1;
    if (s[0] == 'O' && !inside) return put_text(o, "(?s:.)"), 1;
    if ((s[0] != 'b' && s[0] != 'B') || inside) return 0;
    charset word = {.set = LATIN_WORD WORD, .young = {"L", "M", "Nd"}};
    static const char *const parts[2][4] = {{"(?:(?<=", ")(?!", ")|(?<!", ")(?="},
                                            {"(?:(?<=", ")(?=", ")|(?<!", ")(?!"}};
    for (int i = 0; i < 4; i++) {
        put_text(o, parts[s[0] == 'B'][i]);
        put_one(o, &word);
    }
    put_text(o, "))");
    return 1;
}

/* ---- classes ---- */
typedef struct part { cr_out plain, more; } part;  /* [plain]|more */

static void put_class(part *p, const charset *c) {
    if (!c->negated && !c->unassigned) { put_inside(&p->plain, c); return; }
    put_text(&p->more, "|");
    put_one(&p->more, c);
}

/* [:alpha:] at s; the bytes that it takes, 0: it is none. */
static size_t put_posix(part *p, const char *s, size_t n) {
    const bool turned = n > 2 && s[2] == '^';
    const size_t at = 2 + (size_t)turned;
    if (n < 2 || s[1] != ':') return 0;
    for (size_t i = 0; i < sizeof posix / sizeof *posix; i++) {
        const size_t bytes = strlen(posix[i].name);
        if (n < at + bytes + 2 || memcmp(s + at, posix[i].name, bytes) || memcmp(s + at + bytes, ":]", 2)) continue;
        charset c = posix[i].of;
        c.negated = c.negated != turned;
        put_class(p, &c);
        return at + bytes + 2;
    }
    return 0;
}

/* One alternative of `plain` and `more`; the part is empty then. */
static void put_part(cr_out *o, part *p, bool negated) {
    const bool plain = p->plain.bytes > 0, more = p->more.bytes > 0;
    if (more) put_text(o, "(?:");
    if (plain) {
        put_text(o, negated ? "[^" : "[");
        cr_out_put(o, p->plain.text, p->plain.bytes);
        put_text(o, "]");
    }
    if (more) {
        cr_out_put(o, p->more.text + !plain, p->more.bytes - !plain);
        put_text(o, ")");
    }
    if (!plain && !more) put_text(o, "(?!)");
    o->failed |= p->plain.failed | p->more.failed;
    p->plain.bytes = p->more.bytes = 0;
}

static size_t put_brackets(cr_out *o, const char *s, size_t n, int depth);

/* An item of a class at s; the bytes that it takes. */
static size_t put_item(part *p, const char *s, size_t n, int depth) {
    names to;
    charset c;
    size_t used = 0;
    if (*s == '[') {
        if ((used = put_posix(p, s, n))) return used;
        put_text(&p->more, "|");
        return put_brackets(&p->more, s, n, depth + 1);
    }
    if (*s != '\\' || n < 2) return cr_out_put(&p->plain, s, 1), 1;
    if ((used = class_escape(s + 1, n - 1, true, &to, &c))) put_class(p, &c);
    else if (!(used = other_escape(&p->plain, s + 1, n - 1, true))) cr_out_put(&p->plain, s, 2), used = 1;
    return 1 + used;
}

/* A class from its bracket on; the bytes that it takes, 0: it has no end. */
static size_t put_brackets(cr_out *o, const char *s, size_t n, int depth) {
    const bool negated = n > 1 && s[1] == '^';
    part p = {0};
    cr_out all = {0};
    size_t at = 1 + (size_t)negated, first = at;
    bool ended = false, several = false;
    while (depth < DEPTH && at < n && !(ended = s[at] == ']' && at > first)) {
        if (n - at > 1 && s[at] == '&' && s[at + 1] == '&') {
            put_text(&all, "(?=");
            put_part(&all, &p, false);
            put_text(&all, ")");
            several = true;
            at += 2;
            continue;
        }
        size_t used = 1;
        if (at == first && s[at] == ']') put_text(&p.plain, "\\]");
        else used = put_item(&p, s + at, n - at, depth);
        if (!used) break;
        at += used;
    }
    if (!several && !p.more.bytes) {
        put_part(o, &p, negated);
    } else {
        put_part(&all, &p, false);
        put_text(o, negated ? "(?:(?!" : "(?:");
        cr_out_put(o, all.text, all.bytes);
        put_text(o, negated ? ")(?s:.))" : ")");
    }
    o->failed |= all.failed;
    cr_out_free(&all);
    cr_out_free(&p.plain);
    cr_out_free(&p.more);
    return ended ? at + 1 : 0;
}

/* ---- ASCII ---- */

/* PCRE2 looks for a character in a class with properties item by item, and the classes above have a hundred.  So the
 * ASCII members stand in front of a long one: (?:[A-Za-z]|(?![\0-\x7f])X).  found: those of the last X. */
enum { LONG_ONE = 200, MOST_FOUND = 64 };           /* bytes of X; classes that are looked at in an expression */
typedef struct ascii { char *of; size_t bytes; bool has[128]; int found; } ascii;

static bool find_ascii(ascii *a, const char *x, size_t n) {
    if (a->bytes == n && !memcmp(a->of, x, n)) return true;
    if (a->found++ == MOST_FOUND) return false;
    char *of = realloc(a->of, n);
    if (of) a->of = memcpy(of, x, n);
    a->bytes = of ? n : 0;
    return cr_regex_ascii(x, n, a->has);
}

/* The expression of one character from `from` on in o. */
static void put_ascii_first(cr_out *o, size_t from, ascii *a) {
    const size_t n = o->bytes - from;
    cr_out x = {0};
    if (o->failed || n < LONG_ONE || !find_ascii(a, o->text + from, n)) return;
    cr_out_put(&x, o->text + from, n);
    o->bytes = from;
    put_text(o, "(?:");
    bool any = false;
    for (int c = 0, end; c < 128; c = end) {
        for (end = c + 1; end < 128 && a->has[end] == a->has[c];) end++;
        if (a->has[c]) cr_out_format(o, "%s\\x{%x}-\\x{%x}", any ? "" : "[", (unsigned)c, (unsigned)end - 1);
        any |= a->has[c];
    }
    put_text(o, any ? "]|(?![\\x{0}-\\x{7f}])" : "(?![\\x{0}-\\x{7f}])");
    cr_out_put(o, x.text, x.bytes);
    put_text(o, ")");
    o->failed |= x.failed;
    cr_out_free(&x);
}

/* ---- the whole ---- */

/* "(?im-x:" with s in place of m; caseless: as i says.  The bytes, 0: another kind of group. */
static size_t put_options(cr_out *o, const char *s, size_t n, bool *caseless) {
    size_t end = 2;
    if (n < 4 || s[1] != '?') return 0;
    while (end < n && one_of(s[end], "imx-")) end++;
    if (end == n || !one_of(s[end], ":)") || end == 2) return 0;
    for (size_t i = 0, off = 0; i <= end; i++) {
        cr_out_put(o, s[i] == 'm' ? "s" : s + i, 1);
        off |= s[i] == '-';
        if (s[i] == 'i') *caseless = !off;
    }
    return end + 1;
}

/* "{,3}" as "{0,3}"; X{1,3}+ as (?:X{1,3})+, since it is possessive in PCRE2.  atom: where X begins in o.  The bytes,
 * 0: no interval. */
static size_t put_interval(cr_out *o, const char *s, size_t n, size_t atom) {
    size_t end = 1;
    while (end < n && one_of(s[end], "0123456789,")) end++;
    if (end == n || s[end] != '}' || end < 2) return 0;
    const bool again = end + 1 < n && s[end + 1] == '+';
    if (again) put_text(o, "(?:");
    if (again && !o->failed) {
        memmove(o->text + atom + 3, o->text + atom, o->bytes - 3 - atom);
        memcpy(o->text + atom, "(?:", 3);
    }
    put_text(o, s[1] == ',' ? "{0" : "{");
    cr_out_put(o, s + 1, end);
    if (again) put_text(o, ")");
    return end + 1;
}

static size_t put_backslash(cr_out *o, const char *s, size_t n, bool *one) {
    names to;
    charset c;
    size_t used = class_escape(s + 1, n - 1, false, &to, &c);
    *one = used > 0;
    if (used) put_one(o, &c);
    else used = other_escape(o, s + 1, n - 1, false);
    if (used) return 1 + used;
    return cr_out_put(o, s, 2), 2;
}

void cr_regex_translate(cr_out *o, const char *s, size_t n) {
    size_t atom = 0, depth = 0, open[64];           /* where the last atom and the groups around it begin in o */
    bool caseless[64] = {false}, now_caseless = false;          /* of the groups outside, of this one */
    ascii known = {0};
    for (size_t at = 0, used; at < n; at += used) {
        const size_t left = n - at, now = o->bytes;
        const bool group = s[at] == '(', repeats = one_of(s[at], "{?*+");
        bool one = false;                           /* a class, so one character */
        used = 0;
        if (group && depth < 64) open[depth] = now, caseless[depth] = now_caseless;
        if (s[at] == '\\' && left > 1) {
            used = put_backslash(o, s + at, left, &one);
        } else if (s[at] == '[') {
            if (!(used = put_brackets(o, s + at, left, 0))) { put_text(o, "["); break; }    /* no end: PCRE2 says so */
            one = true;
        } else if (group) {
            used = put_options(o, s + at, left, &now_caseless);
        } else if (s[at] == '{') {
            used = put_interval(o, s + at, left, atom);
        }
        if (one && !now_caseless && depth < 64) put_ascii_first(o, now, &known);
        if (!used) cr_out_put(o, s + at, used = 1);
        while (at + used < n && ((unsigned char)s[at + used] & 0xC0) == 0x80) cr_out_put(o, s + at + used++, 1);
        if (!repeats) atom = now;
        if (group && !(used > 1 && s[at + used - 1] == ')')) depth++;       /* (?i) is no group */
        if (s[at] == ')' && depth && --depth < 64) atom = open[depth], now_caseless = caseless[depth];
    }
    free(known.of);
}
