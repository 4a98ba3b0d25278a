/* jinja_filter.c - filters and tests: Jinja's by name.  One that exists there and not here is an error that says so. */
#include "jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const jvalue none = {.kind = J_NONE}, missing = {.kind = J_MISSING};

static jvalue without_case(jinja *j, jvalue v, bool sensitive) {
    return v.kind == J_TEXT && !sensitive ? cr_j_lower(j, v.text) : v;
}

/* ---- JSON, as Python's json.dumps writes it */
typedef struct dump { jout o; const jtext *indent; const jtext *item, *key; bool ascii, sort; } dump;

static void dump_text(jinja *j, dump *d, const jtext *t) {
    cr_j_put(j, &d->o, "\"", 1);
    for (size_t i = 0; i < t->bytes;) {
        uint32_t c;
        const size_t step = cr_j_code(t->s + i, t->bytes - i, &c);
        char escape[16] = "";
        static const char plain[] = "\"\"\\\\\nn\rr\tt\ff\bb";
        const char *k = c < 128 && c ? strchr(plain, (int)c) : NULL;
        if (k) snprintf(escape, sizeof escape, "\\%c", k[(k - plain) % 2 ? 0 : 1]);
        if (k && (k - plain) % 2) escape[0] = 0;
        if (c < 32 && !escape[0]) snprintf(escape, sizeof escape, "\\u%04x", c);
        if (d->ascii && c > 126)
            snprintf(escape, sizeof escape, c > 0xFFFF ? "\\u%04x\\u%04x" : "\\u%04x",
                     c > 0xFFFF ? 0xD7C0 + (c >> 10) : c, 0xDC00 + (c & 0x3FF));
        if (escape[0]) cr_j_put(j, &d->o, escape, strlen(escape));
        else cr_j_put(j, &d->o, t->s + i, step);
        i += step;
    }
    cr_j_put(j, &d->o, "\"", 1);
}

static void dump_line(jinja *j, dump *d, int level) {
    if (!d->indent) return;
    cr_j_put(j, &d->o, "\n", 1);
    for (int i = 0; i < level; i++) cr_j_put(j, &d->o, d->indent->s, d->indent->bytes);
}

static jvalue sort_values(jinja *j, const jlist *l, jvalue (*key)(jinja *j, jvalue v, const jvalue *how),
                          const jvalue *how, bool reverse);

static jvalue first_of_pair(jinja *j, jvalue v, const jvalue *how) {
    (void)j, (void)how;
    return v.list->at[0];
}

static void dump_value(jinja *j, dump *d, jvalue v, int level) {
    if (level > J_DEPTH) cr_j_fail(j, "a value is nested too deeply");
    if (v.kind == J_TEXT) { dump_text(j, d, v.text); return; }
    if (v.kind == J_NONE || v.kind == J_BOOL) {
        const char *name = v.kind == J_NONE ? "null" : v.truth ? "true" : "false";
        cr_j_put(j, &d->o, name, strlen(name));
        return;
    }
    if (v.kind == J_FLOAT && !isfinite(v.d)) {
        const char *name = isnan(v.d) ? "NaN" : v.d < 0 ? "-Infinity" : "Infinity";
        cr_j_put(j, &d->o, name, strlen(name));
        return;
    }
    if (v.kind == J_INT || v.kind == J_FLOAT) { cr_j_put_repr(j, &d->o, v); return; }
    const bool list = v.kind == J_LIST || v.kind == J_TUPLE;
    if (!list && v.kind != J_DICT) cr_j_fail(j, "Object of type %s is not JSON serializable", cr_j_type(v));
    const jlist *items = list ? v.list : cr_j_entries(j, v.dict, J_ITEMS).list;
    if (!list && d->sort) items = sort_values(j, items, first_of_pair, NULL, false).list;
    cr_j_put(j, &d->o, list ? "[" : "{", 1);
    for (int64_t i = 0; i < items->n; i++) {
        if (i) cr_j_put(j, &d->o, d->item->s, d->item->bytes);
        dump_line(j, d, level + 1);
        if (list) { dump_value(j, d, items->at[i], level + 1); continue; }
        const jvalue key = items->at[i].list->at[0];
        if (key.kind == J_TEXT) dump_text(j, d, key.text);
        else if (key.kind >= J_NONE && key.kind <= J_FLOAT) {
            cr_j_put(j, &d->o, "\"", 1);
            dump_value(j, d, key, level + 1);
            cr_j_put(j, &d->o, "\"", 1);
        } else cr_j_fail(j, "keys must be str, int, float, bool or None, not %s", cr_j_type(key));
        cr_j_put(j, &d->o, d->key->s, d->key->bytes);
        dump_value(j, d, items->at[i].list->at[1], level + 1);
    }
    if (items->n) dump_line(j, d, level);
    cr_j_put(j, &d->o, list ? "]" : "}", 1);
}

/* ---- filters */
#define FILTER(name) static jvalue name(jinja *j, jvalue v, const jargs *a)

FILTER(f_tojson) {
    jvalue s[4];
    cr_j_bind(j, "tojson", a, "ensure_ascii indent separators sort_keys", s);
    dump d = {.ascii = cr_j_true(s[0]), .sort = cr_j_true(s[3])};
    if (s[1].kind == J_TEXT) d.indent = s[1].text;
    else if (s[1].kind != J_MISSING && s[1].kind != J_NONE)
        d.indent = cr_j_pad(j, cr_j_text(j, "", 0), cr_j_index(j, s[1], "indent"), " ", 'l').text;
    d.item = d.indent ? cr_j_text(j, ",", 1) : cr_j_text(j, ", ", 2);
    d.key = cr_j_text(j, ": ", 2);
    if (s[2].kind != J_MISSING && s[2].kind != J_NONE) {
        const jlist *pair = cr_j_items(j, s[2]);
        if (pair->n != 2) cr_j_fail(j, "separators must be two texts");
        d.item = cr_j_text_of(j, pair->at[0], "a separator");
        d.key = cr_j_text_of(j, pair->at[1], "a separator");
    }
    dump_value(j, &d, v, 0);
    return cr_j_out(j, &d.o);
}

#define TEXT_FILTER(name, made)            \
    FILTER(name) {                         \
        cr_j_bind(j, &#name[2], a, "", NULL); \
        const jtext *t = cr_j_str(j, v);      \
        return made;                       \
    }
TEXT_FILTER(f_upper, cr_j_with_case(j, t, "upper", false, 'u', ""))
TEXT_FILTER(f_lower, cr_j_lower(j, t))
TEXT_FILTER(f_capitalize, cr_j_with_case(j, t, "capitalize", true, 'l', ""))
TEXT_FILTER(f_title, cr_j_with_case(j, t, "title", true, 'l', "- \t\n\r\v\f({[<"))
TEXT_FILTER(f_string, ((jvalue){.kind = J_TEXT, .text = t}))

static jvalue make_markup(jinja *j, const char *s, size_t bytes) {
    jtext *made = cr_j_text(j, s, bytes);
    made->markup = true;
    return (jvalue){.kind = J_TEXT, .text = made};
}

TEXT_FILTER(f_safe, make_markup(j, t->s, t->bytes))

FILTER(f_escape) {
    cr_j_bind(j, "escape", a, "", NULL);
    return cr_j_binary(j, '+', make_markup(j, "", 0), (jvalue){.kind = J_TEXT, .text = cr_j_str(j, v)});
}

FILTER(f_trim) {
    jvalue s[1];
    cr_j_bind(j, "trim", a, "chars", s);
    return cr_j_strip(j, cr_j_str(j, v), s[0], true, true);
}

FILTER(f_center) {
    jvalue s[1];
    cr_j_bind(j, "center", a, "width", s);
    return cr_j_pad(j, cr_j_str(j, v), cr_j_int_or(j, s[0], 80, "width"), " ", 'c');
}

FILTER(f_replace) {
    jvalue s[3];
    cr_j_bind(j, "replace", a, "old new|count", s);
    return cr_j_replace(j, cr_j_str(j, v), cr_j_str(j, s[0]), cr_j_str(j, s[1]), cr_j_int_or(j, s[2], -1, "count"));
}

FILTER(f_format) {
    if (a->n && a->n_named) cr_j_fail(j, "can't handle positional and keyword arguments at the same time");
    jvalue values = a->n_named ? cr_j_new_dict(j, J_DICT) : cr_j_new_list(j, J_TUPLE, a->n);
    for (int i = 0; i < a->n; i++) cr_j_append(j, values.list, a->at[i]);
    for (int i = 0; i < a->n_named; i++)
        cr_j_set(j, values.dict, (jvalue){.kind = J_TEXT, .text = a->named[i].name}, a->named[i].value);
    return cr_j_modulo(j, cr_j_str(j, v), values);
}

FILTER(f_indent) {
    jvalue s[3];
    cr_j_bind(j, "indent", a, "width first blank", s);
    const jtext *with = s[0].kind == J_TEXT ? s[0].text
                      : cr_j_pad(j, cr_j_text(j, "", 0), cr_j_int_or(j, s[0], 4, "width"), " ", 'l').text;
    const jtext *t = cr_j_binary(j, '+', (jvalue){.kind = J_TEXT, .text = cr_j_text_of(j, v, "what indent takes")},
                              cr_j_of_text(j, "\n", 1)).text;
    const jlist *lines = cr_j_lines(j, t, false).list;
    jout o = {0};
    for (int64_t i = 0; i < lines->n; i++) {
        const jtext *line = lines->at[i].text;
        if (i) cr_j_put(j, &o, "\n", 1);
        if (i ? line->bytes || cr_j_true(s[2]) : cr_j_true(s[1])) cr_j_put(j, &o, with->s, with->bytes);
        cr_j_put(j, &o, line->s, line->bytes);
    }
    return cr_j_out(j, &o);
}

FILTER(f_length) {
    cr_j_bind(j, "length", a, "", NULL);
    if (v.kind == J_UNDEFINED) return cr_j_number(0);
    if (v.kind == J_TEXT) return cr_j_number((int64_t)v.text->length);
    if (v.kind == J_DICT) return cr_j_number(v.dict->n);
    if (v.kind == J_LOOP) return cr_j_number(v.loop->items->n);
    if (v.kind < J_LIST || v.kind >= J_ITERATOR) cr_j_fail(j, "object of type '%s' has no len()", cr_j_type(v));
    return cr_j_number(v.list->n);
}

FILTER(f_truncate) {
    jvalue s[4];
    cr_j_bind(j, "truncate", a, "length killwords end leeway", s);
    const jtext *end = s[2].kind == J_MISSING ? cr_j_text(j, "...", 3) : cr_j_text_of(j, s[2], "end");
    const int64_t length = cr_j_int_or(j, s[0], 255, "length"), leeway = cr_j_int_or(j, s[3], 5, "leeway");
    if (length < (int64_t)end->length || leeway < 0)
        cr_j_fail(j, "expected length >= %zu and leeway >= 0", end->length);
    const jargs nothing = {0};
    if (f_length(j, v, &nothing).i <= length + leeway) return v;
    const jtext *t = cr_j_text_of(j, v, "what truncate takes");
    size_t kept = cr_j_offset(t, length - (int64_t)end->length);
    if (!cr_j_true(s[1])) {
        const size_t space = cr_j_where(t, 0, kept, cr_j_text(j, " ", 1), true);
        if (space != SIZE_MAX) kept = space;
    }
    return cr_j_binary(j, '+', cr_j_of_text(j, t->s, kept), (jvalue){.kind = J_TEXT, .text = end});
}

FILTER(f_wordcount) {
    cr_j_bind(j, "wordcount", a, "", NULL);
    const jtext *t = cr_j_ascii(j, cr_j_str(j, v), "wordcount");
    int64_t n = 0;
    for (size_t i = 0; i < t->bytes; i++) {
        const bool word = cr_j_word(t->s[i]) || t->s[i] == '_';
        n += word && (!i || !(cr_j_word(t->s[i - 1]) || t->s[i - 1] == '_'));
    }
    return cr_j_number(n);
}

FILTER(f_urlencode) {
    cr_j_bind(j, "urlencode", a, "", NULL);
    if (v.kind == J_DICT || (v.kind >= J_LIST && v.kind <= J_ITERATOR))
        cr_j_fail(j, "urlencode of a %s is not supported", cr_j_type(v));
    const jtext *t = cr_j_str(j, v);
    jout o = {0};
    for (size_t i = 0; i < t->bytes; i++) {
        char code[8];
        if (cr_j_word(t->s[i]) || (t->s[i] && strchr("_.-~/", t->s[i]))) cr_j_put(j, &o, t->s + i, 1);
        else cr_j_put(j, &o, code, (size_t)snprintf(code, sizeof code, "%%%02X", (unsigned char)t->s[i]));
    }
    return cr_j_out(j, &o);
}

/* Does t hold a number, as Python's int() and float() read it? */
static bool read_float(jinja *j, const jtext *t, double *d) {
    const jtext *s = cr_j_strip(j, t, missing, true, true).text;
    char digits[400];
    size_t n = 0;
    for (size_t i = 0; i < s->bytes; i++) {
        const char c = cr_j_lowered(s->s[i]);
        if (c == '_' && i && i + 1 < s->bytes && cr_j_digit(s->s[i - 1]) && cr_j_digit(s->s[i + 1])) continue;
        if (!(cr_j_digit(c) || strchr("+-.einfaty", c)) || n + 1 == sizeof digits) return false;
        digits[n++] = c;
    }
    digits[n] = 0;
    char *end;
    *d = strtod(digits, &end);
    return n && !*end;
}

FILTER(f_int) {
    jvalue s[2];
    cr_j_bind(j, "int", a, "default base", s);
    if (s[1].kind != J_MISSING && cr_j_int_or(j, s[1], 10, "base") != 10)
        cr_j_fail(j, "int with a base is not supported");
    const jvalue otherwise = s[0].kind == J_MISSING ? cr_j_number(0) : s[0];
    double d;
    if (v.kind == J_INT || v.kind == J_BOOL || v.kind == J_UNDEFINED) return cr_j_number(cr_j_index(j, v, ""));
    if (v.kind == J_FLOAT) d = v.d;
    else if (v.kind != J_TEXT || !read_float(j, v.text, &d)) return otherwise;
    if (!isfinite(d)) {
        if (v.kind == J_TEXT || isnan(d)) return otherwise;
        cr_j_fail(j, "cannot convert float infinity to integer");
    }
    if (fabs(d) >= 9.2e18) cr_j_fail(j, "an integer is too large");
    const jtext *t = v.kind == J_TEXT ? cr_j_strip(j, v.text, missing, true, true).text : NULL;
    if (t && !memchr(t->s, '.', t->bytes) && !memchr(t->s, 'e', t->bytes) && !memchr(t->s, 'E', t->bytes)) {
        int64_t i = 0;                              /* exact, also beyond 2^53 */
        for (size_t k = 0; k < t->bytes; k++) if (cr_j_digit(t->s[k])) i = i * 10 + (t->s[k] - '0');
        return cr_j_number(t->s[0] == '-' ? -i : i);
    }
    return cr_j_number((int64_t)d);
}

FILTER(f_float) {
    jvalue s[1];
    double d = 0;
    cr_j_bind(j, "float", a, "default", s);
    if (v.kind == J_FLOAT) return v;
    if (v.kind == J_INT || v.kind == J_BOOL || v.kind == J_UNDEFINED) d = (double)cr_j_index(j, v, "");
    else if (v.kind != J_TEXT || !read_float(j, v.text, &d))
        return s[0].kind == J_MISSING ? (jvalue){.kind = J_FLOAT} : s[0];
    return (jvalue){.kind = J_FLOAT, .d = d};
}

FILTER(f_abs) {
    cr_j_bind(j, "abs", a, "", NULL);
    if (v.kind == J_FLOAT) return (jvalue){.kind = J_FLOAT, .d = fabs(v.d)};
    const int64_t i = cr_j_index(j, v, "what abs takes");
    return cr_j_number(i < 0 ? -i : i);
}

FILTER(f_round) {
    jvalue s[2];
    cr_j_bind(j, "round", a, "precision method", s);
    const int64_t precision = cr_j_int_or(j, s[0], 0, "precision");
    const jtext *method = s[1].kind == J_MISSING ? cr_j_text(j, "common", 6) : cr_j_text_of(j, s[1], "method");
    if (precision < 0 || precision > 15) cr_j_fail(j, "round to %lld digits is not supported", (long long)precision);
    if (cr_j_is(method, "common")) {
        if (v.kind != J_FLOAT) return cr_j_number(cr_j_index(j, v, "what round takes"));
        char digits[400];
        snprintf(digits, sizeof digits, "%.*f", (int)precision, v.d);
        return (jvalue){.kind = J_FLOAT, .d = isfinite(v.d) ? strtod(digits, NULL) : v.d};
    }
    if (!cr_j_is(method, "ceil") && !cr_j_is(method, "floor")) cr_j_fail(j, "method must be common, ceil or floor");
    const double ten = pow(10, (double)precision),
                 d = v.kind == J_FLOAT ? v.d : (double)cr_j_index(j, v, "what round takes");
    return (jvalue){.kind = J_FLOAT, .d = (cr_j_is(method, "ceil") ? ceil(d * ten) : floor(d * ten)) / ten};
}

FILTER(f_default) {
    jvalue s[2];
    cr_j_bind(j, "default", a, "default_value boolean", s);
    if (v.kind != J_UNDEFINED && (!cr_j_true(s[1]) || cr_j_true(v))) return v;
    return s[0].kind == J_MISSING ? cr_j_of_text(j, "", 0) : s[0];
}

FILTER(f_first) {
    cr_j_bind(j, "first", a, "", NULL);
    const jlist *l = cr_j_items(j, v);
    return l->n ? l->at[0] : cr_j_undefined(j, "No first item, sequence was empty.");
}

FILTER(f_last) {
    cr_j_bind(j, "last", a, "", NULL);
    if (v.kind == J_ITERATOR) cr_j_fail(j, "'generator' object is not reversible");
    if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
    const jlist *l = cr_j_items(j, v);
    return l->n ? l->at[l->n - 1] : cr_j_undefined(j, "No last item, sequence was empty.");
}

FILTER(f_join) {
    jvalue s[2];
    cr_j_bind(j, "join", a, "d attribute", s);
    const jlist *l = cr_j_items(j, v);
    jvalue parts = cr_j_new_list(j, J_LIST, l->n);
    for (int64_t i = 0; i < l->n; i++) cr_j_append(j, parts.list, cr_j_by_path(j, l->at[i], s[1], missing));
    return cr_j_join(j, s[0].kind == J_MISSING ? cr_j_text(j, "", 0) : cr_j_str(j, s[0]), parts.list, true);
}

static jvalue copy_list(jinja *j, const jlist *l, jkind kind, bool reversed) {
    jvalue made = cr_j_new_list(j, kind, l->n);
    for (int64_t i = 0; i < l->n; i++) cr_j_append(j, made.list, l->at[reversed ? l->n - 1 - i : i]);
    return made;
}

FILTER(f_list) { cr_j_bind(j, "list", a, "", NULL); return copy_list(j, cr_j_items(j, v), J_LIST, false); }

FILTER(f_reverse) {
    cr_j_bind(j, "reverse", a, "", NULL);
    if (v.kind == J_TEXT) return cr_j_slice(j, v, missing, missing, cr_j_number(-1));
    if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
    return copy_list(j, cr_j_items(j, v), v.kind == J_ITERATOR ? J_LIST : J_ITERATOR, true);
}

FILTER(f_items) {
    cr_j_bind(j, "items", a, "", NULL);
    if (v.kind == J_UNDEFINED) return cr_j_new_list(j, J_ITERATOR, 0);
    if (v.kind != J_DICT) cr_j_fail(j, "Can only get item pairs from a mapping.");
    return cr_j_entries(j, v.dict, J_ITERATOR);
}

/* Stable; by the keys that `key` makes of each element. */
static jvalue sort_values(jinja *j, const jlist *l, jvalue (*key)(jinja *j, jvalue v, const jvalue *how),
                          const jvalue *how, bool reverse) {
    const int64_t n = l->n;
    jentry *a = cr_j_take(j, (size_t)(n + 1) * sizeof *a), *b = cr_j_take(j, (size_t)(n + 1) * sizeof *b);
    for (int64_t i = 0; i < n; i++) a[i] = (jentry){key(j, l->at[i], how), l->at[i]};
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t x = at, y = at + width < n ? at + width : n, o = at;
            const int64_t x_end = y, y_end = at + 2 * width < n ? at + 2 * width : n;
            while (x < x_end || y < y_end) {
                bool right = x == x_end;
                if (x < x_end && y < y_end) {
                    const jvalue left_key = a[x].key, right_key = a[y].key;
                    right = cr_j_compare(j, "<", reverse ? left_key : right_key, reverse ? right_key : left_key) < 0;
                }
                b[o++] = right ? a[y++] : a[x++];
            }
        }
        jentry *kept = a;
        a = b;
        b = kept;
    }
    jvalue made = cr_j_new_list(j, J_LIST, n);
    for (int64_t i = 0; i < n; i++) cr_j_append(j, made.list, a[i].value);
    return made;
}

/* how: the attribute, is case looked at */
static jvalue path_key(jinja *j, jvalue v, const jvalue *how) {
    return without_case(j, cr_j_by_path(j, v, how[0], missing), how[1].truth);
}

/* The same of several attributes with commas between them: a list. */
static jvalue sort_key(jinja *j, jvalue v, const jvalue *how) {
    jvalue made = cr_j_new_list(j, J_LIST, 1);
    if (how[0].kind != J_TEXT) {
        cr_j_append(j, made.list, path_key(j, v, how));
        return made;
    }
    const jlist *paths = cr_j_split(j, how[0].text, cr_j_of_text(j, ",", 1), -1, false).list;
    for (int64_t i = 0; i < paths->n; i++)
        cr_j_append(j, made.list, without_case(j, cr_j_by_path(j, v, paths->at[i], missing), how[1].truth));
    return made;
}

FILTER(f_sort) {
    jvalue s[3];
    cr_j_bind(j, "sort", a, "reverse case_sensitive attribute", s);
    const jvalue how[] = {s[2], cr_j_truth(cr_j_true(s[1]))};
    return sort_values(j, cr_j_items(j, v), sort_key, how, cr_j_true(s[0]));
}

static jvalue pair_key(jinja *j, jvalue v, const jvalue *how) {
    return without_case(j, v.list->at[how[0].i], how[1].truth);
}

FILTER(f_dictsort) {
    jvalue s[3];
    cr_j_bind(j, "dictsort", a, "case_sensitive by reverse", s);
    if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
    if (v.kind != J_DICT) cr_j_fail(j, "'%s object' has no attribute 'items'", cr_j_type(v));
    const jtext *by = s[1].kind == J_MISSING ? cr_j_text(j, "key", 3) : cr_j_text_of(j, s[1], "by");
    if (!cr_j_is(by, "key") && !cr_j_is(by, "value")) cr_j_fail(j, "You can only sort by either \"key\" or \"value\"");
    const jvalue how[] = {cr_j_number(cr_j_is(by, "value")), cr_j_truth(cr_j_true(s[0]))};
    return sort_values(j, cr_j_entries(j, v.dict, J_LIST).list, pair_key, how, cr_j_true(s[2]));
}

static jvalue find_extreme(jinja *j, jvalue v, const jargs *a, int sign) {
    jvalue s[2];
    cr_j_bind(j, sign < 0 ? "min" : "max", a, "case_sensitive attribute", s);
    const jlist *l = cr_j_items(j, v);
    const jvalue how[] = {s[1], cr_j_truth(cr_j_true(s[0]))};
    if (!l->n) return cr_j_undefined(j, "No aggregated item, sequence was empty.");
    int64_t best = 0;
    for (int64_t i = 1; i < l->n; i++) {
        const jvalue key = path_key(j, l->at[i], how), kept = path_key(j, l->at[best], how);
        if (cr_j_compare(j, sign < 0 ? "<" : ">", key, kept) * sign > 0) best = i;
    }
    return l->at[best];
}

FILTER(f_min) { return find_extreme(j, v, a, -1); }
FILTER(f_max) { return find_extreme(j, v, a, 1); }

FILTER(f_sum) {
    jvalue s[2];
    cr_j_bind(j, "sum", a, "attribute start", s);
    const jlist *l = cr_j_items(j, v);
    jvalue total = s[1].kind == J_MISSING ? cr_j_number(0) : s[1];
    if (total.kind == J_TEXT) cr_j_fail(j, "sum() can't sum strings");
    for (int64_t i = 0; i < l->n; i++) total = cr_j_binary(j, '+', total, cr_j_by_path(j, l->at[i], s[0], missing));
    return total;
}

FILTER(f_unique) {
    jvalue s[2];
    cr_j_bind(j, "unique", a, "case_sensitive attribute", s);
    const jvalue how[] = {s[1], cr_j_truth(cr_j_true(s[0]))};
    const jlist *l = cr_j_items(j, v);
    jvalue made = cr_j_new_list(j, J_ITERATOR, 0), seen = cr_j_new_dict(j, J_DICT);
    for (int64_t i = 0; i < l->n; i++) {
        const jvalue key = path_key(j, l->at[i], how);
        if (cr_j_find(j, seen.dict, key)) continue;
        cr_j_set(j, seen.dict, key, none);
        cr_j_append(j, made.list, l->at[i]);
    }
    return made;
}

static jvalue fill_slice(jinja *j, const jlist *l, int64_t from, int64_t to, int64_t more, jvalue with) {
    jvalue part = cr_j_new_list(j, J_LIST, 0);
    for (int64_t i = from; i < to; i++) cr_j_append(j, part.list, l->at[i]);
    for (int64_t i = 0; i < more && with.kind > J_NONE; i++) cr_j_append(j, part.list, with);
    return part;
}

FILTER(f_batch) {
    jvalue s[2];
    cr_j_bind(j, "batch", a, "linecount|fill_with", s);
    const jlist *l = cr_j_items(j, v);
    const int64_t n = cr_j_index(j, s[0], "linecount");
    if (n < 1) cr_j_fail(j, "linecount must be positive");
    jvalue made = cr_j_new_list(j, J_ITERATOR, 0);
    for (int64_t i = 0; i < l->n; i += n)
        cr_j_append(j, made.list, fill_slice(j, l, i, i + n < l->n ? i + n : l->n, i + n - l->n, s[1]));
    return made;
}

FILTER(f_slice) {
    jvalue s[2];
    cr_j_bind(j, "slice", a, "slices|fill_with", s);
    const jlist *l = cr_j_items(j, v);
    const int64_t n = cr_j_index(j, s[0], "slices");
    if (n < 1) cr_j_fail(j, "slices must be positive");
    jvalue made = cr_j_new_list(j, J_ITERATOR, 0);
    for (int64_t i = 0, from = 0; i < n; i++) {
        const bool extra = i < l->n % n;
        const int64_t to = from + l->n / n + extra;
        cr_j_append(j, made.list, fill_slice(j, l, from, to, !extra, s[1]));
        from = to;
    }
    return made;
}

/* The rest of the arguments behind the first n. */
static jargs skip_arguments(const jargs *a, int n) { return (jargs){a->n - n, a->n_named, a->at + n, a->named}; }

/* What map and select go through: nothing where the value is false. */
static const jlist *elements_of(jinja *j, jvalue v) {
    return cr_j_items(j, cr_j_true(v) ? v : (jvalue){.kind = J_UNDEFINED});
}

FILTER(f_map) {
    const jlist *l = elements_of(j, v);
    jvalue made = cr_j_new_list(j, J_ITERATOR, l->n), s[2];
    if (!a->n) {
        cr_j_bind(j, "map", a, "attribute default", s);
        if (s[0].kind == J_MISSING) cr_j_fail(j, "map requires a filter argument");
        for (int64_t i = 0; i < l->n; i++) cr_j_append(j, made.list, cr_j_by_path(j, l->at[i], s[0], s[1]));
        return made;
    }
    const jargs more = skip_arguments(a, 1);
    for (int64_t i = 0; i < l->n; i++)
        cr_j_append(j, made.list, cr_j_filter(j, cr_j_text_of(j, a->at[0], "the name of a filter"), l->at[i], &more));
    return made;
}

static jvalue choose_elements(jinja *j, jvalue v, const jargs *a, bool by_attribute, bool wanted) {
    const jlist *l = elements_of(j, v);
    jvalue made = cr_j_new_list(j, J_ITERATOR, 0);
    if (by_attribute && !a->n) cr_j_fail(j, "Missing parameter for attribute name");
    const jtext *name = a->n > by_attribute ? cr_j_text_of(j, a->at[by_attribute], "the name of a test") : NULL;
    const jargs more = name ? skip_arguments(a, by_attribute + 1) : (jargs){0};
    for (int64_t i = 0; i < l->n; i++) {
        const jvalue of = by_attribute ? cr_j_by_path(j, l->at[i], a->at[0], missing) : l->at[i];
        if ((name ? cr_j_test(j, name, of, &more) : cr_j_true(of)) == wanted) cr_j_append(j, made.list, l->at[i]);
    }
    return made;
}

FILTER(f_select) { return choose_elements(j, v, a, false, true); }
FILTER(f_reject) { return choose_elements(j, v, a, false, false); }
FILTER(f_selectattr) { return choose_elements(j, v, a, true, true); }
FILTER(f_rejectattr) { return choose_elements(j, v, a, true, false); }

enum { LAZY = 1, SAFE = 2 };                        /* gives a generator; takes safe text */
static const struct filter {
    const char *name;
    jvalue (*run)(jinja *j, jvalue v, const jargs *a);          /* NULL: not supported */
    int how;
} filters[] = {
    {"abs", f_abs, 0}, {"attr", NULL, 0}, {"batch", f_batch, LAZY}, {"capitalize", f_capitalize, 0},
    {"center", f_center, 0}, {"count", f_length, SAFE}, {"d", f_default, SAFE}, {"default", f_default, SAFE},
    {"dictsort", f_dictsort, 0}, {"e", f_escape, SAFE}, {"escape", f_escape, SAFE}, {"filesizeformat", NULL, 0},
    {"first", f_first, 0}, {"float", f_float, SAFE}, {"forceescape", NULL, 0}, {"format", f_format, 0},
    {"groupby", NULL, 0}, {"indent", f_indent, 0}, {"int", f_int, SAFE}, {"items", f_items, LAZY}, {"join", f_join, 0},
    {"last", f_last, 0}, {"length", f_length, SAFE}, {"list", f_list, 0}, {"lower", f_lower, 0}, {"map", f_map, LAZY},
    {"max", f_max, 0}, {"min", f_min, 0}, {"pprint", NULL, 0}, {"random", NULL, 0}, {"reject", f_reject, LAZY},
    {"rejectattr", f_rejectattr, LAZY}, {"replace", f_replace, 0}, {"reverse", f_reverse, 0}, {"round", f_round, 0},
    {"safe", f_safe, SAFE}, {"select", f_select, LAZY}, {"selectattr", f_selectattr, LAZY}, {"slice", f_slice, LAZY},
    {"sort", f_sort, 0}, {"string", f_string, SAFE}, {"striptags", NULL, 0}, {"sum", f_sum, 0}, {"title", f_title, 0},
    {"tojson", f_tojson, SAFE}, {"trim", f_trim, 0}, {"truncate", f_truncate, 0}, {"unique", f_unique, LAZY},
    {"upper", f_upper, 0}, {"urlencode", f_urlencode, SAFE}, {"urlize", NULL, 0}, {"wordcount", f_wordcount, SAFE},
    {"wordwrap", NULL, 0}, {"xmlattr", NULL, 0}};

/* An error of a generator is that of whoever goes through it. */
static jvalue begin_generator(jinja *j, const struct filter *f, jvalue v, const jargs *a) {
    jmp_buf outer;
    const int depth = j->depth;
    memcpy(&outer, &j->failed, sizeof outer);
    if (!setjmp(j->failed)) {
        const jvalue made = f->run(j, v, a);
        memcpy(&j->failed, &outer, sizeof outer);
        return made;
    }
    memcpy(&j->failed, &outer, sizeof outer);
    j->depth = depth;
    jvalue made = cr_j_new_list(j, J_ITERATOR, 0);
    const char *why = strchr(j->message, ':') + 2;
    made.list->why = cr_j_text(j, why, strlen(why))->s;
    return made;
}

jvalue cr_j_filter(jinja *j, const jtext *name, jvalue v, const jargs *a) {
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        const struct filter *f = &filters[i];
        if (!cr_j_is(name, f->name)) continue;
        if (!f->run) break;
        if (v.kind == J_TEXT && v.text->markup && f->how != SAFE)
            cr_j_fail(j, "the filter '%s' of safe text is not supported", name->s);
        return f->how == LAZY ? begin_generator(j, f, v, a) : f->run(j, v, a);
    }
    cr_j_fail(j, "the filter '%.40s' is not supported", name->s);
}

/* ---- tests */
static jvalue only_argument(jinja *j, const jtext *name, const jargs *a) {
    if (a->n != 1 || a->n_named) cr_j_fail(j, "the test '%s' takes one argument", name->s);
    return a->at[0];
}

static bool has_remainder(jinja *j, jvalue v, int64_t by, int64_t rest) {
    return cr_j_equal(j, cr_j_binary(j, '%', v, cr_j_number(by)), cr_j_number(rest));
}

static bool has_name(const char *name, bool filter) {
    static const char *const tests[] = {"boolean", "callable", "defined", "divisibleby", "eq", "equalto", "escaped",
        "even", "false", "filter", "float", "ge", "greaterthan", "gt", "in", "integer", "iterable", "le", "lessthan",
        "lower", "lt", "mapping", "ne", "none", "number", "odd", "sameas", "sequence", "string", "test", "true",
        "undefined", "upper", "==", "!=", "<", "<=", ">", ">="};
    for (size_t i = 0; !filter && i < sizeof tests / sizeof *tests; i++) if (!strcmp(tests[i], name)) return true;
    for (size_t i = 0; filter && i < sizeof filters / sizeof *filters; i++)
        if (!strcmp(filters[i].name, name)) return true;
    return false;
}

/* Tests of the value by itself; -1: there is none of this name. */
static int plain_test(jinja *j, const char *name, jvalue v) {
    const bool list = v.kind >= J_LIST && v.kind < J_ITERATOR;
    const struct { const char *name; bool good; } all[] = {
        {"defined", v.kind != J_UNDEFINED}, {"undefined", v.kind == J_UNDEFINED}, {"none", v.kind == J_NONE},
        {"string", v.kind == J_TEXT}, {"mapping", v.kind == J_DICT}, {"boolean", v.kind == J_BOOL},
        {"integer", v.kind == J_INT}, {"float", v.kind == J_FLOAT},
        {"number", v.kind == J_INT || v.kind == J_FLOAT || v.kind == J_BOOL},
        {"true", v.kind == J_BOOL && v.truth}, {"false", v.kind == J_BOOL && !v.truth},
        {"sequence", v.kind == J_UNDEFINED || v.kind == J_TEXT || v.kind == J_DICT || v.kind == J_LIST ||
                     v.kind == J_TUPLE || v.kind == J_RANGE},
        {"iterable", v.kind == J_UNDEFINED || v.kind == J_TEXT || v.kind == J_DICT || list || v.kind == J_ITERATOR ||
                     v.kind == J_LOOP},
        {"callable", v.kind >= J_LOOP || v.kind == J_UNDEFINED}, {"escaped", v.kind == J_TEXT && v.text->markup}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) if (!strcmp(name, all[i].name)) return all[i].good;
    if (!strcmp(name, "upper")) return cr_j_has_case(j, cr_j_str(j, v), 'u');
    if (!strcmp(name, "lower")) return cr_j_has_case(j, cr_j_str(j, v), 'l');
    if (!strcmp(name, "odd")) return has_remainder(j, v, 2, 1);
    if (!strcmp(name, "even")) return has_remainder(j, v, 2, 0);
    return -1;
}

bool cr_j_test(jinja *j, const jtext *name, jvalue v, const jargs *a) {
    static const struct { const char *names[4]; char kind; } orders[] = {
        {{"eq", "equalto", "=="}, '='}, {{"ne", "!="}, '!'}, {{"lt", "lessthan", "<"}, '<'}, {{"le", "<="}, 'l'},
        {{"gt", "greaterthan", ">"}, '>'}, {{"ge", ">="}, 'g'}};
    const char *s = name->s;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        for (int k = 0; k < 4 && orders[i].names[k]; k++) {
            if (strcmp(s, orders[i].names[k])) continue;
            const char kind = orders[i].kind;
            const jvalue other = only_argument(j, name, a);
            if (kind == '=' || kind == '!') return cr_j_equal(j, v, other) == (kind == '=');
            const int order = cr_j_compare(j, orders[i].names[0], v, other);
            return kind == '<' ? order < 0 : kind == 'l' ? order <= 0 : kind == '>' ? order > 0 : order >= 0;
        }
    }
    if (!strcmp(s, "in")) return cr_j_contains(j, only_argument(j, name, a), v);
    if (!strcmp(s, "divisibleby")) return has_remainder(j, v, cr_j_index(j, only_argument(j, name, a), "a divisor"), 0);
    if (!strcmp(s, "sameas")) {
        const jvalue other = only_argument(j, name, a);
        return v.kind == other.kind && (v.kind <= J_TEXT ? cr_j_equal(j, v, other) : v.list == other.list);
    }
    if (!strcmp(s, "filter") || !strcmp(s, "test")) {
        cr_j_find(j, cr_j_new_dict(j, J_DICT).dict, v);   /* what has no hash is an error */
        return v.kind == J_TEXT && has_name(v.text->s, *s == 'f');
    }
    if (a->n || a->n_named) cr_j_fail(j, "the test '%.40s' is not supported with arguments", s);
    const int good = plain_test(j, s, v);
    if (good < 0) cr_j_fail(j, "the test '%.40s' is not supported", s);
    return good;
}
