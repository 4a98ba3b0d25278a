/* jinja_method.c - attributes, items and methods: Python's by name.  A name that exists there and not here is an error
 * that says so. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

#define OF(kind) (1u << (kind))
enum { TEXTS = OF(J_TEXT), LISTS = OF(J_LIST), TUPLES = OF(J_TUPLE), DICTS = OF(J_DICT), LOOPS = OF(J_LOOP) };
static const jvalue none = {.kind = J_NONE}, missing = {.kind = J_MISSING};

/* ---- methods */
typedef struct jmethod {
    unsigned kinds;
    const char *name;
    jvalue (*run)(jinja *j, jvalue self, const jargs *a);       /* NULL: not supported */
} jmethod;

#define METHOD(name) static jvalue name(jinja *j, jvalue self, const jargs *a)
#define TEXT_METHOD(name, made) METHOD(name) { cr_j_bind(j, &#name[2], a, "", NULL); return made; }
TEXT_METHOD(s_upper, cr_j_with_case(j, self.text, "upper()", false, 'u', ""))
TEXT_METHOD(s_lower, cr_j_lower(j, self.text))
TEXT_METHOD(s_title, cr_j_with_case(j, self.text, "title()", true, 'l', NULL))
TEXT_METHOD(s_capitalize, cr_j_with_case(j, self.text, "capitalize()", true, 'l', ""))
TEXT_METHOD(s_swapcase, cr_j_with_case(j, self.text, "swapcase()", false, 's', ""))
TEXT_METHOD(s_casefold, cr_j_lower(j, cr_j_ascii(j, self.text, "casefold()")))

static jvalue strip_text(jinja *j, jvalue self, const jargs *a, bool left, bool right) {
    jvalue v[1];
    cr_j_bind(j, "strip", a, "chars", v);
    return cr_j_strip(j, self.text, v[0], left, right);
}
METHOD(s_strip) { return strip_text(j, self, a, true, true); }
METHOD(s_lstrip) { return strip_text(j, self, a, true, false); }
METHOD(s_rstrip) { return strip_text(j, self, a, false, true); }

METHOD(s_split) {
    jvalue v[2];
    cr_j_bind(j, "split", a, "sep maxsplit", v);
    return cr_j_split(j, self.text, v[0], cr_j_int_or(j, v[1], -1, "maxsplit"), false);
}

METHOD(s_rsplit) {
    jvalue v[2];
    cr_j_bind(j, "rsplit", a, "sep maxsplit", v);
    return cr_j_split(j, self.text, v[0], cr_j_int_or(j, v[1], -1, "maxsplit"), true);
}

METHOD(s_splitlines) {
    jvalue v[1];
    cr_j_bind(j, "splitlines", a, "keepends", v);
    return cr_j_lines(j, self.text, cr_j_true(v[0]));
}

static jvalue part_text(jinja *j, const jtext *t, const jargs *a, bool last) {
    jvalue v[1], made = cr_j_new_list(j, J_TUPLE, 3);
    cr_j_bind(j, "partition", a, "sep|", v);
    const jtext *s = cr_j_text_of(j, v[0], "a separator");
    if (!s->bytes) cr_j_fail(j, "empty separator");
    const size_t at = cr_j_where(t, 0, t->bytes, s, last);
    const bool found = at != SIZE_MAX;
    cr_j_append_text(j, made.list, t->s, found ? at : last ? 0 : t->bytes);
    cr_j_append_text(j, made.list, s->s, found ? s->bytes : 0);
    if (found) cr_j_append_text(j, made.list, t->s + at + s->bytes, t->bytes - at - s->bytes);
    else cr_j_append_text(j, made.list, t->s, last ? t->bytes : 0);
    return made;
}

METHOD(s_partition) { return part_text(j, self.text, a, false); }
METHOD(s_rpartition) { return part_text(j, self.text, a, true); }

METHOD(s_replace) {
    jvalue v[3];
    cr_j_bind(j, "replace", a, "old new|count", v);
    const jtext *old = cr_j_text_of(j, v[0], "replace() argument 1");
    const jtext *with = cr_j_text_of(j, v[1], "replace() argument 2");
    return cr_j_replace(j, self.text, old, with, cr_j_int_or(j, v[2], -1, "count"));
}

/* The part of a text that `start` and `end` choose, in bytes. */
static void part_of(jinja *j, const jtext *t, jvalue start, jvalue end, size_t *from, size_t *to) {
    const int64_t n = (int64_t)t->length;
    int64_t bounds[2] = {cr_j_int_or(j, start, 0, "start"), cr_j_int_or(j, end, n, "end")};
    for (int i = 0; i < 2; i++) {
        if (bounds[i] < 0) bounds[i] = bounds[i] + n < 0 ? 0 : bounds[i] + n;
        if (bounds[i] > n && i) bounds[i] = n;
    }
    *to = cr_j_offset(t, bounds[1]);
    *from = bounds[0] > n ? SIZE_MAX : cr_j_offset(t, bounds[0]);
}

static bool has_edge(jinja *j, const jtext *t, const jargs *a, bool last) {
    jvalue v[3];
    size_t from, to;
    cr_j_bind(j, last ? "endswith" : "startswith", a, "prefix|start end", v);
    part_of(j, t, v[1], v[2], &from, &to);
    const jlist one = {.at = v, .n = 1}, *all = v[0].kind == J_TUPLE ? v[0].list : &one;
    for (int64_t i = 0; i < all->n; i++) {
        const jtext *s = cr_j_text_of(j, all->at[i], "a prefix or suffix");
        if (from <= to && to - from >= s->bytes && cr_j_here(t, last ? to - s->bytes : from, s)) return true;
    }
    return false;
}

METHOD(s_startswith) { return cr_j_truth(has_edge(j, self.text, a, false)); }
METHOD(s_endswith) { return cr_j_truth(has_edge(j, self.text, a, true)); }

static jvalue find_text(jinja *j, jvalue self, const jargs *a, bool last, bool must) {
    jvalue v[3];
    size_t from, to;
    cr_j_bind(j, "find", a, "sub|start end", v);
    part_of(j, self.text, v[1], v[2], &from, &to);
    const size_t at = cr_j_where(self.text, from, to, cr_j_text_of(j, v[0], "a text to find"), last);
    if (at == SIZE_MAX && must) cr_j_fail(j, "substring not found");
    return cr_j_number(at == SIZE_MAX ? -1 : (int64_t)cr_j_text(j, self.text->s, at)->length);
}

METHOD(s_find) { return find_text(j, self, a, false, false); }
METHOD(s_rfind) { return find_text(j, self, a, true, false); }
METHOD(s_index) { return find_text(j, self, a, false, true); }
METHOD(s_rindex) { return find_text(j, self, a, true, true); }

METHOD(s_count) {
    jvalue v[3];
    size_t from, to;
    int64_t n = 0;
    cr_j_bind(j, "count", a, "sub|start end", v);
    part_of(j, self.text, v[1], v[2], &from, &to);
    const jtext *s = cr_j_text_of(j, v[0], "a text to count");
    if (!s->bytes)
        return cr_j_number(from > to ? 0 : (int64_t)cr_j_text(j, self.text->s + from, to - from)->length + 1);
    for (size_t at = from; (at = cr_j_where(self.text, at, to, s, false)) != SIZE_MAX; at += s->bytes) n++;
    return cr_j_number(n);
}

METHOD(s_join) {
    jvalue v[1];
    cr_j_bind(j, "join", a, "iterable|", v);
    return cr_j_join(j, self.text, cr_j_items(j, v[0]), false);
}

METHOD(s_format) { return cr_j_format(j, self.text, a); }

METHOD(s_removeprefix) {
    jvalue v[1];
    cr_j_bind(j, "removeprefix", a, "prefix|", v);
    const jtext *t = self.text, *s = cr_j_text_of(j, v[0], "a prefix");
    return cr_j_here(t, 0, s) ? cr_j_of_text(j, t->s + s->bytes, t->bytes - s->bytes) : self;
}

METHOD(s_removesuffix) {
    jvalue v[1];
    cr_j_bind(j, "removesuffix", a, "suffix|", v);
    const jtext *t = self.text, *s = cr_j_text_of(j, v[0], "a suffix");
    const bool ends = t->bytes >= s->bytes && cr_j_here(t, t->bytes - s->bytes, s);
    return ends ? cr_j_of_text(j, t->s, t->bytes - s->bytes) : self;
}

static jvalue pad_text(jinja *j, jvalue self, const jargs *a, char where) {
    jvalue v[2];
    cr_j_bind(j, "a padding method", a, "width|fillchar", v);
    const jtext *fill = v[1].kind == J_MISSING ? NULL : cr_j_text_of(j, v[1], "fillchar");
    if (fill && fill->length != 1) cr_j_fail(j, "The fill character must be exactly one character long");
    return cr_j_pad(j, self.text, cr_j_index(j, v[0], "width"), fill ? fill->s : " ", where);
}

METHOD(s_ljust) { return pad_text(j, self, a, 'l'); }
METHOD(s_rjust) { return pad_text(j, self, a, 'r'); }
METHOD(s_center) { return pad_text(j, self, a, 'c'); }

METHOD(s_zfill) {
    jvalue v[1];
    cr_j_bind(j, "zfill", a, "width|", v);
    const jtext *t = self.text;
    const bool sign = t->bytes && (t->s[0] == '-' || t->s[0] == '+');
    const jtext *rest = cr_j_text(j, t->s + sign, t->bytes - sign);
    jvalue made = cr_j_pad(j, rest, cr_j_index(j, v[0], "width") - sign, "0", 'r');
    return sign ? cr_j_binary(j, '+', cr_j_of_text(j, t->s, 1), made) : made;
}

/* Are all characters of a class, and at least one there? */
static jvalue all_of(jinja *j, jvalue self, const jargs *a, const char *what, bool (*good)(char c)) {
    cr_j_bind(j, what, a, "", NULL);
    const jtext *t = cr_j_ascii(j, self.text, what);
    bool all = t->bytes > 0;
    for (size_t i = 0; i < t->bytes; i++) all &= good(t->s[i]);
    return cr_j_truth(all);
}

static bool is_letter(char c) { return cr_j_upper(c) || cr_j_small(c); }
METHOD(s_isdigit) { return all_of(j, self, a, "isdigit()", cr_j_digit); }
METHOD(s_isalpha) { return all_of(j, self, a, "isalpha()", is_letter); }
METHOD(s_isalnum) { return all_of(j, self, a, "isalnum()", cr_j_word); }
TEXT_METHOD(s_isupper, cr_j_truth(cr_j_has_case(j, self.text, 'u')))
TEXT_METHOD(s_islower, cr_j_truth(cr_j_has_case(j, self.text, 'l')))
TEXT_METHOD(s_isascii, cr_j_truth(self.text->length == self.text->bytes))

METHOD(s_isspace) {
    cr_j_bind(j, "isspace", a, "", NULL);
    return cr_j_truth(self.text->bytes && !cr_j_strip(j, self.text, missing, true, false).text->bytes);
}

METHOD(l_count) {
    jvalue v[1];
    int64_t n = 0;
    cr_j_bind(j, "count", a, "value|", v);
    for (int64_t i = 0; i < self.list->n; i++) n += cr_j_equal(j, self.list->at[i], v[0]);
    return cr_j_number(n);
}

METHOD(l_index) {
    jvalue v[1];
    cr_j_bind(j, "index", a, "value|", v);
    for (int64_t i = 0; i < self.list->n; i++) if (cr_j_equal(j, self.list->at[i], v[0])) return cr_j_number(i);
    cr_j_fail(j, "a value is not in the list");
}

METHOD(l_copy) {
    cr_j_bind(j, "copy", a, "", NULL);
    return cr_j_slice(j, self, missing, missing, missing);
}

METHOD(d_get) {
    jvalue v[2];
    cr_j_bind(j, "get", a, "key|default", v);
    const jvalue *found = cr_j_find(j, self.dict, v[0]);
    return found ? *found : v[1].kind == J_MISSING ? none : v[1];
}

jvalue cr_j_entries(jinja *j, const jdict *d, jkind kind) {
    jvalue made = cr_j_new_list(j, kind, d->n);
    for (int64_t i = 0; i < d->n; i++) {
        if (kind == J_KEYS || kind == J_VALUES) {
            cr_j_append(j, made.list, kind == J_KEYS ? d->at[i].key : d->at[i].value);
            continue;
        }
        jvalue pair = cr_j_new_list(j, J_TUPLE, 2);
        cr_j_append(j, pair.list, d->at[i].key);
        cr_j_append(j, pair.list, d->at[i].value);
        cr_j_append(j, made.list, pair);
    }
    return made;
}

METHOD(d_items) { cr_j_bind(j, "items", a, "", NULL); return cr_j_entries(j, self.dict, J_ITEMS); }
METHOD(d_keys) { cr_j_bind(j, "keys", a, "", NULL); return cr_j_entries(j, self.dict, J_KEYS); }
METHOD(d_values) { cr_j_bind(j, "values", a, "", NULL); return cr_j_entries(j, self.dict, J_VALUES); }

METHOD(d_copy) {
    cr_j_bind(j, "copy", a, "", NULL);
    jvalue made = cr_j_new_dict(j, J_DICT);
    for (int64_t i = 0; i < self.dict->n; i++) cr_j_set(j, made.dict, self.dict->at[i].key, self.dict->at[i].value);
    return made;
}

METHOD(o_cycle) {
    if (!a->n || a->n_named) cr_j_fail(j, "no items for cycling given");
    return a->at[self.loop->index % a->n];
}

METHOD(o_changed) {
    jvalue now = cr_j_new_list(j, J_TUPLE, 0);
    for (int i = 0; i < a->n; i++) cr_j_append(j, now.list, a->at[i]);
    const bool same = self.loop->changed.kind == J_TUPLE && cr_j_equal(j, self.loop->changed, now);
    self.loop->changed = now;
    return cr_j_truth(!same);
}

/* What changes its object, which the sandbox does not allow. */
METHOD(changes) { (void)self, (void)a; cr_j_fail(j, "a template may not change its values"); }

static const jmethod methods[] = {
    {TEXTS, "capitalize", s_capitalize}, {TEXTS, "casefold", s_casefold}, {TEXTS, "center", s_center},
    {TEXTS, "count", s_count}, {TEXTS, "encode", NULL}, {TEXTS, "endswith", s_endswith}, {TEXTS, "expandtabs", NULL},
    {TEXTS, "find", s_find}, {TEXTS, "format", s_format}, {TEXTS, "format_map", NULL}, {TEXTS, "index", s_index},
    {TEXTS, "isalnum", s_isalnum}, {TEXTS, "isalpha", s_isalpha}, {TEXTS, "isascii", s_isascii},
    {TEXTS, "isdecimal", s_isdigit}, {TEXTS, "isdigit", s_isdigit}, {TEXTS, "isidentifier", NULL},
    {TEXTS, "islower", s_islower}, {TEXTS, "isnumeric", s_isdigit}, {TEXTS, "isprintable", NULL},
    {TEXTS, "isspace", s_isspace}, {TEXTS, "istitle", NULL}, {TEXTS, "isupper", s_isupper}, {TEXTS, "join", s_join},
    {TEXTS, "ljust", s_ljust}, {TEXTS, "lower", s_lower}, {TEXTS, "lstrip", s_lstrip}, {TEXTS, "maketrans", NULL},
    {TEXTS, "partition", s_partition}, {TEXTS, "removeprefix", s_removeprefix},
    {TEXTS, "removesuffix", s_removesuffix}, {TEXTS, "replace", s_replace}, {TEXTS, "rfind", s_rfind},
    {TEXTS, "rindex", s_rindex}, {TEXTS, "rjust", s_rjust}, {TEXTS, "rpartition", s_rpartition},
    {TEXTS, "rsplit", s_rsplit}, {TEXTS, "rstrip", s_rstrip}, {TEXTS, "split", s_split},
    {TEXTS, "splitlines", s_splitlines}, {TEXTS, "startswith", s_startswith}, {TEXTS, "strip", s_strip},
    {TEXTS, "swapcase", s_swapcase}, {TEXTS, "title", s_title}, {TEXTS, "translate", NULL}, {TEXTS, "upper", s_upper},
    {TEXTS, "zfill", s_zfill},
    {LISTS | TUPLES, "count", l_count}, {LISTS | TUPLES, "index", l_index}, {LISTS, "copy", l_copy},
    {LISTS, "append", changes}, {LISTS, "clear", changes}, {LISTS, "extend", changes}, {LISTS, "insert", changes},
    {LISTS, "pop", changes}, {LISTS, "remove", changes}, {LISTS, "reverse", changes}, {LISTS, "sort", changes},
    {DICTS, "get", d_get}, {DICTS, "items", d_items}, {DICTS, "keys", d_keys}, {DICTS, "values", d_values},
    {DICTS, "copy", d_copy}, {DICTS, "fromkeys", NULL}, {DICTS, "clear", changes}, {DICTS, "pop", changes},
    {DICTS, "popitem", changes}, {DICTS, "setdefault", changes}, {DICTS, "update", changes},
    {LOOPS, "cycle", o_cycle}, {LOOPS, "changed", o_changed},
    {OF(J_INT) | OF(J_BOOL) | OF(J_FLOAT), "as_integer_ratio", NULL}, {OF(J_INT) | OF(J_BOOL), "bit_length", NULL},
    {OF(J_INT) | OF(J_BOOL), "bit_count", NULL}, {OF(J_INT) | OF(J_BOOL), "to_bytes", NULL},
    {OF(J_INT) | OF(J_BOOL) | OF(J_FLOAT), "conjugate", NULL}, {OF(J_INT) | OF(J_BOOL) | OF(J_FLOAT), "real", NULL},
    {OF(J_INT) | OF(J_BOOL) | OF(J_FLOAT), "imag", NULL}, {OF(J_INT) | OF(J_BOOL), "numerator", NULL},
    {OF(J_INT) | OF(J_BOOL), "denominator", NULL}, {OF(J_FLOAT), "is_integer", NULL}, {OF(J_FLOAT), "hex", NULL},
    {OF(J_RANGE), "start", NULL}, {OF(J_RANGE), "stop", NULL}, {OF(J_RANGE), "step", NULL},
    {OF(J_RANGE), "count", l_count}, {OF(J_RANGE), "index", l_index}, {OF(J_MACRO), "name", NULL},
    {OF(J_MACRO), "arguments", NULL}, {OF(J_MACRO), "caller", NULL}};

jvalue cr_j_method(jinja *j, const jbound *b, const jargs *a) {
    if (b->self.kind == J_TEXT && b->self.text->markup) cr_j_fail(j, "methods of safe text are not supported");
    return b->method->run(j, b->self, a);
}

/* ---- attributes and items */
static bool loop_attribute(jinja *j, const jloop *l, const jtext *name, jvalue *v) {
    const int64_t n = l->items->n, i = l->index;
    const struct { const char *name; int64_t value; } numbers[] = {
        {"index", i + 1}, {"index0", i}, {"revindex", n - i}, {"revindex0", n - i - 1}, {"length", n},
        {"depth", l->depth + 1}, {"depth0", l->depth}};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (cr_j_is(name, numbers[k].name)) return *v = cr_j_number(numbers[k].value), true;
    if (cr_j_is(name, "first")) return *v = cr_j_truth(!i), true;
    if (cr_j_is(name, "last")) return *v = cr_j_truth(i == n - 1), true;
    if (cr_j_is(name, "previtem"))
        return *v = i ? l->items->at[i - 1] : cr_j_undefined(j, "there is no previous item"), true;
    if (cr_j_is(name, "nextitem"))
        return *v = i + 1 < n ? l->items->at[i + 1] : cr_j_undefined(j, "there is no next item"), true;
    return false;
}

static bool find_attribute(jinja *j, jvalue of, const jtext *name, jvalue *v) {
    if (of.kind == J_LOOP && loop_attribute(j, of.loop, name, v)) return true;
    if (of.kind == J_NAMESPACE) {
        const jvalue *found = cr_j_find(j, of.dict, (jvalue){.kind = J_TEXT, .text = name});
        if (found) *v = *found;
        return found != NULL;
    }
    if (name->bytes > 1 && name->s[0] == '_' && name->s[1] == '_' && of.kind != J_DICT)
        cr_j_fail(j, "access to attribute '%.40s' of '%s' object is unsafe", name->s, cr_j_type(of));
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (!(methods[i].kinds & OF(of.kind)) || !cr_j_is(name, methods[i].name)) continue;
        if (!methods[i].run) cr_j_fail(j, "'%s' of '%s' objects is not supported", name->s, cr_j_type(of));
        jbound *b = cr_j_take(j, sizeof *b);
        *b = (jbound){of, &methods[i]};
        *v = (jvalue){.kind = J_METHOD, .bound = b};
        return true;
    }
    return false;
}

static bool find_item(jinja *j, jvalue of, jvalue key, jvalue *v) {
    const bool number = key.kind == J_INT || key.kind == J_BOOL;
    if (of.kind == J_DICT) {
        if (key.kind >= J_LIST && key.kind != J_TUPLE) return false;
        const jvalue *found = cr_j_find(j, of.dict, key);
        if (found) *v = *found;
        return found != NULL;
    }
    if (!number || (of.kind != J_TEXT && of.kind != J_LIST && of.kind != J_TUPLE && of.kind != J_RANGE)) return false;
    const int64_t n = of.kind == J_TEXT ? (int64_t)of.text->length : of.list->n;
    int64_t i = cr_j_index(j, key, "an index");
    if (i < 0) i += n;
    if (i < 0 || i >= n) return false;
    if (of.kind != J_TEXT) { *v = of.list->at[i]; return true; }
    const size_t at = cr_j_offset(of.text, i);
    *v = cr_j_of_text(j, of.text->s + at, cr_j_offset(cr_j_text(j, of.text->s + at, of.text->bytes - at), 1));
    return true;
}

static jvalue name_absent(jinja *j, jvalue of, jvalue key) {
    if (key.kind != J_TEXT) return cr_j_undefined(j, "%s object has no element %s", cr_j_type(of), cr_j_str(j, key)->s);
    return cr_j_undefined(j, "'%s object' has no attribute '%.100s'", cr_j_type(of), key.text->s);
}

jvalue cr_j_get_item(jinja *j, jvalue of, jvalue key) {
    jvalue v;
    if (of.kind == J_UNDEFINED) cr_j_fail(j, "%s", of.why);
    if (find_item(j, of, key, &v) || (key.kind == J_TEXT && find_attribute(j, of, key.text, &v))) return v;
    return name_absent(j, of, key);
}

jvalue cr_j_get_attribute(jinja *j, jvalue of, const jtext *name) {
    jvalue v;
    const jvalue key = {.kind = J_TEXT, .text = name};
    if (of.kind == J_UNDEFINED) cr_j_fail(j, "%s", of.why);
    if (find_attribute(j, of, name, &v) || find_item(j, of, key, &v)) return v;
    return name_absent(j, of, key);
}

/* An item by a path of names and indices ("a.b.0"), as filters take it. */
jvalue cr_j_by_path(jinja *j, jvalue of, jvalue path, jvalue otherwise) {
    if (path.kind == J_MISSING || path.kind == J_NONE) return of;
    const jtext *t = path.kind == J_TEXT ? path.text : NULL;
    for (size_t at = 0, end; t ? at <= t->bytes : at == 0; at = end + 1) {
        end = at;
        bool number = true;
        for (; t && end < t->bytes && t->s[end] != '.'; end++) number &= cr_j_digit(t->s[end]);
        jvalue key = path;
        if (t && number && end > at) key = cr_j_number(strtoll(t->s + at, NULL, 10));
        else if (t) key = cr_j_of_text(j, t->s + at, end - at);
        of = cr_j_get_item(j, of, key);
        if (of.kind == J_UNDEFINED && otherwise.kind > J_NONE) of = otherwise;
    }
    return of;
}
