/* jinja_value.c - values of templates behave as Python's: text, order, arithmetic, containers. */
#include "jinja.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/utf8.h"

/* ---- the arena */
typedef struct jchunk { struct jchunk *next; size_t used, room; } jchunk;
enum { CHUNK = 1 << 15 };

_Noreturn void cr_j_fail(jinja *j, const char *format, ...) {
    char what[400];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    snprintf(j->message, sizeof j->message, "line %d: %s", j->line, what);
    longjmp(j->failed, 1);
}

void *cr_j_take(jinja *j, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    jchunk *c = j->chunks;
    if (!c || c->room - c->used < bytes) {
        const size_t room = bytes > CHUNK ? bytes : CHUNK;
        if (room > J_MEMORY - j->taken) cr_j_fail(j, "the template needs more than %zu MB", J_MEMORY >> 20);
        c = calloc(1, sizeof *c + 16 + room);
        if (!c) cr_j_fail(j, "out of memory");
        j->taken += room;
        c->room = room;
        c->next = j->chunks;
        j->chunks = c;
    }
    void *at = (void *)((((uintptr_t)(c + 1) + 15) & ~(uintptr_t)15) + c->used);
    c->used += bytes;
    return at;
}

void *cr_j_grow(jinja *j, const void *old, int64_t n, int64_t *room, size_t size) {
    const int64_t wanted = *room ? *room * 2 : 4;
    void *grown = cr_j_take(j, (size_t)wanted * size);
    if (n) memcpy(grown, old, (size_t)n * size);
    *room = wanted;
    return grown;
}

void cr_j_free(jinja *j) {
    for (jchunk *c; (c = j->chunks); free(c)) j->chunks = c->next;
}

/* ---- texts */
jtext *cr_j_text(jinja *j, const char *s, size_t bytes) {
    jtext *t = cr_j_take(j, sizeof *t + bytes + 1);
    t->bytes = bytes;
    for (size_t i = 0; i < bytes; i++) t->length += ((unsigned char)s[i] & 0xC0) != 0x80;
    if (bytes) memcpy(t->s, s, bytes);
    return t;
}

jvalue cr_j_of_text(jinja *j, const char *s, size_t bytes) {
    return (jvalue){.kind = J_TEXT, .text = cr_j_text(j, s, bytes)};
}

jvalue cr_j_undefined(jinja *j, const char *format, ...) {
    char what[300];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    return (jvalue){.kind = J_UNDEFINED, .why = cr_j_text(j, what, strlen(what))->s};
}

void cr_j_put(jinja *j, jout *o, const char *s, size_t bytes) {
    if (o->room - o->bytes < bytes) {
        const size_t room = (o->bytes + bytes) * 2 + 64;
        char *grown = cr_j_take(j, room);
        if (o->bytes) memcpy(grown, o->s, o->bytes);
        o->s = grown;
        o->room = room;
    }
    if (bytes) memcpy(o->s + o->bytes, s, bytes);
    o->bytes += bytes;
}

jvalue cr_j_out(jinja *j, const jout *o) { return cr_j_of_text(j, o->s, o->bytes); }

size_t cr_j_code(const char *s, size_t n, uint32_t *code) {
    *code = 0;
    const int step = cr_utf8_decode((const unsigned char *)s, n, code);
    return step ? (size_t)step : 1;
}

bool cr_j_space(uint32_t c) {
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t cr_j_offset(const jtext *t, int64_t i) {
    if (t->length == t->bytes) return (size_t)i;
    size_t at = 0;
    for (; i > 0 && at < t->bytes; i--)
        do at++;
        while (at < t->bytes && ((unsigned char)t->s[at] & 0xC0) == 0x80);
    return at;
}

/* Does repr() write this character as an escape?  Controls, formats, separators and private use. */
static bool is_escaped(uint32_t c) {
    static const uint32_t formats[][2] = {{0, 0x1F}, {0x7F, 0xA0}, {0xAD, 0xAD}, {0x600, 0x605}, {0x61C, 0x61C},
        {0x6DD, 0x6DD}, {0x70F, 0x70F}, {0x180E, 0x180E}, {0x1680, 0x1680}, {0x2000, 0x200F}, {0x2028, 0x202F},
        {0x205F, 0x206F}, {0x3000, 0x3000}, {0xE000, 0xF8FF}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0x10FFFF}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (c >= formats[i][0] && c <= formats[i][1]) return c < 0xE0100 || c > 0xE01EF;
    return false;
}

static void put_text_repr(jinja *j, jout *o, const jtext *t) {
    if (t->markup) cr_j_put(j, o, "Markup(", 7);
    const char quote = memchr(t->s, '\'', t->bytes) && !memchr(t->s, '"', t->bytes) ? '"' : '\'';
    cr_j_put(j, o, &quote, 1);
    for (size_t i = 0; i < t->bytes;) {
        uint32_t c;
        const size_t step = cr_j_code(t->s + i, t->bytes - i, &c);
        char escape[16];
        if (c == (unsigned char)quote || c == '\\') snprintf(escape, sizeof escape, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (!is_escaped(c)) escape[0] = 0;
        else if (c < 0x100) snprintf(escape, sizeof escape, "\\x%02x", c);
        else snprintf(escape, sizeof escape, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (escape[0]) cr_j_put(j, o, escape, strlen(escape));
        else cr_j_put(j, o, t->s + i, step);
        i += step;
    }
    cr_j_put(j, o, &quote, 1);
    if (t->markup) cr_j_put(j, o, ")", 1);
}

/* The shortest digits that read back as d, as Python writes them. */
static void put_float(jinja *j, jout *o, double d) {
    char s[40], digits[24];
    if (!isfinite(d)) {
        const char *name = isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
        cr_j_put(j, o, name, strlen(name));
        return;
    }
    for (int n = 0; n < 17; n++) {
        snprintf(s, sizeof s, "%.*e", n, d);
        if (strtod(s, NULL) == d) break;
    }
    int n = 0;
    const char *e = strchr(s, 'e');
    for (const char *at = s; at < e; at++) if (*at >= '0' && *at <= '9') digits[n++] = *at;
    const int point = (int)strtol(e + 1, NULL, 10) + 1;         /* digits in front of the decimal point */
    char text[64];
    int k = 0;
    if (signbit(d)) text[k++] = '-';
    if (point > 16 || point < -3) {
        text[k++] = digits[0];
        if (n > 1) text[k++] = '.';
        for (int i = 1; i < n; i++) text[k++] = digits[i];
        k += snprintf(text + k, sizeof text - (size_t)k, "e%c%02d", point < 1 ? '-' : '+', abs(point - 1));
    } else {
        if (point <= 0) text[k++] = '0';
        for (int i = 0; i < point; i++) text[k++] = i < n ? digits[i] : '0';
        text[k++] = '.';
        for (int i = point; i < 0; i++) text[k++] = '0';
        for (int i = point > 0 ? point : 0; i < n; i++) text[k++] = digits[i];
        if (point >= n) text[k++] = '0';
    }
    cr_j_put(j, o, text, (size_t)k);
}

const char *cr_j_type(jvalue v) {
    static const char *const names[] = {
        [J_MISSING] = "missing", [J_UNDEFINED] = "Undefined", [J_NONE] = "NoneType", [J_BOOL] = "bool", [J_INT] = "int",
        [J_FLOAT] = "float", [J_TEXT] = "str", [J_LIST] = "list", [J_TUPLE] = "tuple", [J_RANGE] = "range",
        [J_KEYS] = "dict_keys", [J_VALUES] = "dict_values", [J_ITEMS] = "dict_items", [J_ITERATOR] = "generator",
        [J_DICT] = "dict", [J_NAMESPACE] = "Namespace", [J_LOOP] = "LoopContext", [J_MACRO] = "Macro",
        [J_METHOD] = "method", [J_FUNCTION] = "function"};
    return names[v.kind];
}

static void put_items(jinja *j, jout *o, const jlist *l, const char *open, const char *close) {
    cr_j_put(j, o, open, strlen(open));
    for (int64_t i = 0; i < l->n; i++) {
        if (i) cr_j_put(j, o, ", ", 2);
        cr_j_put_repr(j, o, l->at[i]);
    }
    cr_j_put(j, o, close, strlen(close));
}

static void put_dict(jinja *j, jout *o, const jdict *d) {
    cr_j_put(j, o, "{", 1);
    for (int64_t i = 0; i < d->n; i++) {
        if (i) cr_j_put(j, o, ", ", 2);
        cr_j_put_repr(j, o, d->at[i].key);
        cr_j_put(j, o, ": ", 2);
        cr_j_put_repr(j, o, d->at[i].value);
    }
    cr_j_put(j, o, "}", 1);
}

void cr_j_put_repr(jinja *j, jout *o, jvalue v) {
    if (++j->depth > J_DEPTH) cr_j_fail(j, "a value is nested too deeply");
    char number[32];
    switch (v.kind) {
        case J_UNDEFINED: cr_j_put(j, o, "Undefined", 9); break;
        case J_NONE: cr_j_put(j, o, "None", 4); break;
        case J_BOOL: cr_j_put(j, o, v.truth ? "True" : "False", v.truth ? 4 : 5); break;
        case J_INT:
            snprintf(number, sizeof number, "%lld", (long long)v.i);
            cr_j_put(j, o, number, strlen(number));
            break;
        case J_FLOAT: put_float(j, o, v.d); break;
        case J_TEXT: put_text_repr(j, o, v.text); break;
        case J_LIST: put_items(j, o, v.list, "[", "]"); break;
        case J_TUPLE: put_items(j, o, v.list, "(", v.list->n == 1 ? ",)" : ")"); break;
        case J_KEYS: put_items(j, o, v.list, "dict_keys([", "])"); break;
        case J_VALUES: put_items(j, o, v.list, "dict_values([", "])"); break;
        case J_ITEMS: put_items(j, o, v.list, "dict_items([", "])"); break;
        case J_DICT: put_dict(j, o, v.dict); break;
        case J_NAMESPACE:
            cr_j_put(j, o, "<Namespace ", 11);
            put_dict(j, o, v.dict);
            cr_j_put(j, o, ">", 1);
            break;
        default: cr_j_fail(j, "a %s has no text", cr_j_type(v));
    }
    j->depth--;
}

void cr_j_put_value(jinja *j, jout *o, jvalue v) {
    if (v.kind == J_TEXT) cr_j_put(j, o, v.text->s, v.text->bytes);
    else if (v.kind != J_UNDEFINED) cr_j_put_repr(j, o, v);
}

const jtext *cr_j_str(jinja *j, jvalue v) {
    if (v.kind == J_TEXT) return v.text;
    jout o = {0};
    cr_j_put_value(j, &o, v);
    return cr_j_out(j, &o).text;
}

/* ---- small values */
jvalue cr_j_number(int64_t i) { return (jvalue){.kind = J_INT, .i = i}; }
jvalue cr_j_truth(bool b) { return (jvalue){.kind = J_BOOL, .truth = b}; }
static jvalue make_float(double d) { return (jvalue){.kind = J_FLOAT, .d = d}; }
static bool is_whole(jvalue v) { return v.kind == J_INT || v.kind == J_BOOL; }
static bool is_number(jvalue v) { return is_whole(v) || v.kind == J_FLOAT; }
static int64_t integer_of(jvalue v) { return v.kind == J_BOOL ? v.truth : v.i; }
static double as_real(jvalue v) { return v.kind == J_FLOAT ? v.d : (double)integer_of(v); }
static bool is_list(jvalue v) { return v.kind >= J_LIST && v.kind <= J_ITERATOR; }

bool cr_j_true(jvalue v) {
    switch (v.kind) {
        case J_MISSING: case J_UNDEFINED: case J_NONE: return false;
        case J_BOOL: return v.truth;
        case J_INT: return v.i != 0;
        case J_FLOAT: return v.d != 0;
        case J_TEXT: return v.text->bytes > 0;
        case J_DICT: return v.dict->n > 0;
        default: return !is_list(v) || v.kind == J_ITERATOR || v.list->n > 0;
    }
}

int64_t cr_j_index(jinja *j, jvalue v, const char *what) {
    if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
    if (!is_whole(v)) cr_j_fail(j, "%s must be an integer, not %s", what, cr_j_type(v));
    return integer_of(v);
}

/* ---- order */
bool cr_j_equal(jinja *j, jvalue a, jvalue b) {
    if (is_number(a) && is_number(b)) {
        if (is_whole(a) && is_whole(b)) return integer_of(a) == integer_of(b);
        return as_real(a) == as_real(b);
    }
    if (a.kind != b.kind) return false;
    if (a.kind == J_TEXT) return a.text->bytes == b.text->bytes && !memcmp(a.text->s, b.text->s, a.text->bytes);
    if (a.kind == J_UNDEFINED || a.kind == J_NONE) return true;
    if (++j->depth > J_DEPTH) cr_j_fail(j, "a value is nested too deeply");
    bool same = true;
    if (a.kind == J_DICT) {
        same = a.dict->n == b.dict->n;
        for (int64_t i = 0; i < a.dict->n && same; i++) {
            const jvalue *other = cr_j_find(j, b.dict, a.dict->at[i].key);
            same = other && cr_j_equal(j, a.dict->at[i].value, *other);
        }
    } else if (is_list(a) && a.kind != J_ITERATOR) {
        same = a.list->n == b.list->n;
        for (int64_t i = 0; i < a.list->n && same; i++) same = cr_j_equal(j, a.list->at[i], b.list->at[i]);
    } else same = a.list == b.list;
    j->depth--;
    return same;
}

int cr_j_compare(jinja *j, const char *sign, jvalue a, jvalue b) {
    if (a.kind == J_UNDEFINED || b.kind == J_UNDEFINED) cr_j_fail(j, "%s", a.kind == J_UNDEFINED ? a.why : b.why);
    if (is_number(a) && is_number(b)) {
        if (is_whole(a) && is_whole(b)) return (integer_of(a) > integer_of(b)) - (integer_of(a) < integer_of(b));
        return (as_real(a) > as_real(b)) - (as_real(a) < as_real(b));
    }
    if (a.kind == J_TEXT && b.kind == J_TEXT) { /* the order of UTF-8's bytes is that of code points */
        const size_t n = a.text->bytes < b.text->bytes ? a.text->bytes : b.text->bytes;
        const int order = memcmp(a.text->s, b.text->s, n);
        return order ? order : (a.text->bytes > b.text->bytes) - (a.text->bytes < b.text->bytes);
    }
    if (a.kind != b.kind || (a.kind != J_LIST && a.kind != J_TUPLE))
        cr_j_fail(j, "'%s' not supported between instances of '%s' and '%s'", sign, cr_j_type(a), cr_j_type(b));
    for (int64_t i = 0; i < a.list->n && i < b.list->n; i++)
        if (!cr_j_equal(j, a.list->at[i], b.list->at[i])) return cr_j_compare(j, sign, a.list->at[i], b.list->at[i]);
    return (a.list->n > b.list->n) - (a.list->n < b.list->n);
}

static const char *find_bytes(const char *in, size_t n, const char *s, size_t bytes) {
    for (size_t i = 0; i + bytes <= n; i++) if (!memcmp(in + i, s, bytes)) return in + i;
    return NULL;
}

bool cr_j_contains(jinja *j, jvalue in, jvalue v) {
    if (in.kind == J_TEXT) {
        if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
        if (v.kind != J_TEXT) cr_j_fail(j, "'in <string>' requires string as left operand, not %s", cr_j_type(v));
        return find_bytes(in.text->s, in.text->bytes, v.text->s, v.text->bytes) != NULL;
    }
    if (in.kind == J_DICT) return cr_j_find(j, in.dict, v) != NULL;
    if (in.kind == J_UNDEFINED) return false;
    if (!is_list(in)) cr_j_fail(j, "argument of type '%s' is not iterable", cr_j_type(in));
    const jlist *l = cr_j_items(j, in);
    for (int64_t i = 0; i < l->n; i++) if (cr_j_equal(j, l->at[i], v)) return true;
    return false;
}

/* ---- containers */
jvalue cr_j_new_list(jinja *j, jkind kind, int64_t room) {
    jlist *l = cr_j_take(j, sizeof *l);
    l->room = room;
    if (room) l->at = cr_j_take(j, (size_t)room * sizeof *l->at);
    return (jvalue){.kind = kind, .list = l};
}

void cr_j_append(jinja *j, jlist *l, jvalue v) {
    if (l->n == l->room) l->at = cr_j_grow(j, l->at, l->n, &l->room, sizeof *l->at);
    l->at[l->n++] = v;
}

const jlist *cr_j_items(jinja *j, jvalue v) {
    static const jlist none;
    if (v.kind == J_UNDEFINED) return &none;
    if (v.kind == J_ITERATOR) {
        if (v.list->why) cr_j_fail(j, "%s", v.list->why);
        if (v.list->used_up) return &none;
        v.list->used_up = true;
    }
    if (is_list(v)) return v.list;
    if (v.kind == J_DICT) {
        jlist *keys = cr_j_new_list(j, J_LIST, v.dict->n).list;
        for (int64_t i = 0; i < v.dict->n; i++) cr_j_append(j, keys, v.dict->at[i].key);
        return keys;
    }
    if (v.kind != J_TEXT) cr_j_fail(j, "'%s' object is not iterable", cr_j_type(v));
    jlist *all = cr_j_new_list(j, J_LIST, (int64_t)v.text->length).list;
    for (size_t i = 0; i < v.text->bytes;) {
        uint32_t c;
        const size_t step = cr_j_code(v.text->s + i, v.text->bytes - i, &c);
        cr_j_append(j, all, cr_j_of_text(j, v.text->s + i, step));
        i += step;
    }
    return all;
}

jvalue cr_j_new_dict(jinja *j, jkind kind) { return (jvalue){.kind = kind, .dict = cr_j_take(j, sizeof(jdict))}; }

/* FNV-1a; equal numbers have equal hashes, whatever their kind. */
static uint32_t hash_key(jinja *j, jvalue key) {
    const void *bytes;
    size_t n;
    double d = 0;
    if (key.kind == J_TEXT) bytes = key.text->s, n = key.text->bytes;
    else if (is_number(key)) {
        d = as_real(key) + 0.0;
        bytes = &d, n = sizeof d;
    } else if (key.kind == J_NONE || key.kind == J_UNDEFINED) return 7;
    else if (key.kind == J_TUPLE) {
        uint32_t h = 1;
        for (int64_t i = 0; i < key.list->n; i++) h = h * 31 + hash_key(j, key.list->at[i]);
        return h;
    } else if (key.kind >= J_LOOP) return 11;
    else cr_j_fail(j, "unhashable type: '%s'", cr_j_type(key));
    uint32_t h = 0x811C9DC5u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 0x01000193u;
    return h;
}

/* Where the key is in the table, or the empty slot where it belongs. */
static int64_t slot_of(jinja *j, const jdict *d, jvalue key) {
    int64_t i = hash_key(j, key) & (d->n_slots - 1);
    while (d->slots[i] && !cr_j_equal(j, d->at[d->slots[i] - 1].key, key)) i = (i + 1) & (d->n_slots - 1);
    return i;
}

jvalue *cr_j_find(jinja *j, const jdict *d, jvalue key) {
    if (d->n_slots) {
        const uint32_t at = d->slots[slot_of(j, d, key)];
        return at ? &d->at[at - 1].value : NULL;
    }
    hash_key(j, key);
    for (int64_t i = 0; i < d->n; i++) if (cr_j_equal(j, d->at[i].key, key)) return &d->at[i].value;
    return NULL;
}

void cr_j_set(jinja *j, jdict *d, jvalue key, jvalue value) {
    jvalue *old = cr_j_find(j, d, key);
    if (old) { *old = value; return; }
    if (d->n == d->room) d->at = cr_j_grow(j, d->at, d->n, &d->room, sizeof *d->at);
    d->at[d->n++] = (jentry){key, value};
    if (d->n <= J_HASHED) return;
    if (d->n * 2 > d->n_slots) {
        d->n_slots = d->n_slots ? d->n_slots * 2 : J_HASHED * 4;
        d->slots = cr_j_take(j, (size_t)d->n_slots * sizeof *d->slots);
        for (int64_t i = 0; i < d->n; i++) d->slots[slot_of(j, d, d->at[i].key)] = (uint32_t)i + 1;
    } else d->slots[slot_of(j, d, key)] = (uint32_t)d->n;
}

jvalue cr_j_of_json(jinja *j, const cr_json *v) {
    jvalue made = {.kind = J_NONE};
    switch (v->kind) {
        case CR_JSON_NULL: break;
        case CR_JSON_BOOL: return cr_j_truth(v->truth);
        case CR_JSON_NUMBER: return v->integral ? cr_j_number(v->integer) : make_float(v->number);
        case CR_JSON_STRING: return cr_j_of_text(j, v->text, v->bytes);
        case CR_JSON_ARRAY:
            made = cr_j_new_list(j, J_LIST, v->count);
            for (const cr_json *e = v->first; e; e = e->next) cr_j_append(j, made.list, cr_j_of_json(j, e));
            break;
        case CR_JSON_OBJECT:
            made = cr_j_new_dict(j, J_DICT);
            for (const cr_json *e = v->first; e; e = e->next)
                cr_j_set(j, made.dict, cr_j_of_text(j, e->key, e->key_bytes), cr_j_of_json(j, e));
    }
    return made;
}

/* ---- slices: Python's rules */
static int64_t slice_bound(jinja *j, jvalue v, int64_t missing, int64_t n, int64_t step) {
    if (v.kind == J_MISSING || v.kind == J_NONE) return missing;
    int64_t i = cr_j_index(j, v, "a slice's bound");
    if (i < 0) i += n;
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    return i < least ? least : i > most ? most : i;
}

jvalue cr_j_slice(jinja *j, jvalue v, jvalue from, jvalue to, jvalue step) {
    if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
    const bool text = v.kind == J_TEXT;
    if (text && v.text->markup) cr_j_fail(j, "parts of safe text are not supported");
    if (!text && v.kind != J_LIST && v.kind != J_TUPLE && v.kind != J_RANGE)
        cr_j_fail(j, "'%s' object is not subscriptable by a slice", cr_j_type(v));
    const int64_t n = text ? (int64_t)v.text->length : v.list->n;
    const int64_t by = step.kind == J_MISSING || step.kind == J_NONE ? 1 : cr_j_index(j, step, "a slice's step");
    if (!by) cr_j_fail(j, "slice step cannot be zero");
    const int64_t first = slice_bound(j, from, by < 0 ? n - 1 : 0, n, by),
                  end = slice_bound(j, to, by < 0 ? -1 : n, n, by);
    if (text && by == 1) {
        if (end <= first) return cr_j_of_text(j, "", 0);
        const size_t at = cr_j_offset(v.text, first);
        return cr_j_of_text(j, v.text->s + at, cr_j_offset(v.text, end) - at);
    }
    const jlist *items = text ? cr_j_items(j, v) : v.list;
    jvalue made = cr_j_new_list(j, text ? J_LIST : v.kind, 0);
    jout o = {0};
    for (int64_t i = first; by > 0 ? i < end : i > end; i += by) {
        if (text) cr_j_put(j, &o, items->at[i].text->s, items->at[i].text->bytes);
        else cr_j_append(j, made.list, items->at[i]);
        if (by > n || by < -n) break;
    }
    return text ? cr_j_out(j, &o) : made;
}

/* ---- arithmetic */
static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b && (a < 0) != (b < 0)); }

static jvalue raise_power(jinja *j, jvalue a, jvalue b) {
    if (!is_whole(a) || !is_whole(b) || integer_of(b) < 0) {
        if (as_real(a) == 0 && as_real(b) < 0) cr_j_fail(j, "0.0 cannot be raised to a negative power");
        if (as_real(a) < 0 && as_real(b) != floor(as_real(b))) cr_j_fail(j, "complex numbers are not supported");
        return make_float(pow(as_real(a), as_real(b)));
    }
    int64_t y = 1;
    bool over = false;
    for (int64_t i = 0; i < integer_of(b) && !over && i < 64; i++) over = __builtin_mul_overflow(y, integer_of(a), &y);
    if (integer_of(b) > 64 && (integer_of(a) > 1 || integer_of(a) < -1)) over = true;
    if (over) cr_j_fail(j, "an integer is too large");
    if (integer_of(b) > 64 && integer_of(a) == -1 && integer_of(b) % 2) y = -1;
    return cr_j_number(y);
}

static jvalue eval_arithmetic(jinja *j, int op, jvalue a, jvalue b) {
    const bool integers = is_whole(a) && is_whole(b), divides = op == '/' || op == '%' || op == ('/' << 8 | '/');
    if (op == ('*' << 8 | '*')) return raise_power(j, a, b);
    if (divides && as_real(b) == 0) cr_j_fail(j, "division by zero");
    if (op == '/') return make_float(as_real(a) / as_real(b));
    if (!integers) {
        const double x = as_real(a), y = as_real(b);
        if (op == '+') return make_float(x + y);
        if (op == '-') return make_float(x - y);
        if (op == '*') return make_float(x * y);
        if (op == '%') {
            const double r = fmod(x, y);
            return make_float(r != 0 && (r < 0) != (y < 0) ? r + y : r != 0 ? r : copysign(0, y));
        }
        return make_float(floor(x / y));
    }
    const int64_t x = integer_of(a), y = integer_of(b);
    int64_t z = 0;
    bool over = false;
    if (op == '+') over = __builtin_add_overflow(x, y, &z);
    else if (op == '-') over = __builtin_sub_overflow(x, y, &z);
    else if (op == '*') over = __builtin_mul_overflow(x, y, &z);
    else if (y == -1) over = op != '%' && __builtin_sub_overflow(0, x, &z);
    else z = op == '%' ? x - floor_divide(x, y) * y : floor_divide(x, y);
    if (over) cr_j_fail(j, "an integer is too large");
    return cr_j_number(z);
}

static jvalue repeat_value(jinja *j, jvalue v, int64_t n) {
    if (v.kind == J_TEXT) {
        jout o = {0};
        for (int64_t i = 0; i < n && v.text->bytes; i++) cr_j_put(j, &o, v.text->s, v.text->bytes);
        return cr_j_out(j, &o);
    }
    jvalue made = cr_j_new_list(j, v.kind, 0);
    for (int64_t i = 0; i < n && v.list->n; i++)
        for (int64_t k = 0; k < v.list->n; k++) cr_j_append(j, made.list, v.list->at[k]);
    return made;
}

static void put_escaped(jinja *j, jout *o, const jtext *t) {
    for (size_t i = 0; i < t->bytes; i++) {
        const char c = t->s[i];
        const char *with = t->markup ? NULL : c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;"
                         : c == '\'' ? "&#39;" : c == '"' ? "&#34;" : NULL;
        if (with) cr_j_put(j, o, with, strlen(with));
        else cr_j_put(j, o, &c, 1);
    }
}

jvalue cr_j_binary(jinja *j, int op, jvalue a, jvalue b) {
    if (op == '%' && a.kind == J_TEXT) return cr_j_modulo(j, a.text, b);
    if (a.kind == J_UNDEFINED || b.kind == J_UNDEFINED) cr_j_fail(j, "%s", a.kind == J_UNDEFINED ? a.why : b.why);
    if (is_number(a) && is_number(b)) return eval_arithmetic(j, op, a, b);
    if (op == '+' && a.kind == J_TEXT && b.kind == J_TEXT) {
        jout o = {0};
        const bool markup = a.text->markup || b.text->markup;
        for (int i = 0; i < 2; i++) {
            const jtext *t = (i ? b : a).text;
            if (markup) put_escaped(j, &o, t);
            else cr_j_put(j, &o, t->s, t->bytes);
        }
        jtext *made = cr_j_text(j, o.s, o.bytes);
        made->markup = markup;
        return (jvalue){.kind = J_TEXT, .text = made};
    }
    if (op == '+' && a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE)) {
        jvalue made = cr_j_new_list(j, a.kind, a.list->n + b.list->n);
        for (int64_t i = 0; i < a.list->n; i++) cr_j_append(j, made.list, a.list->at[i]);
        for (int64_t i = 0; i < b.list->n; i++) cr_j_append(j, made.list, b.list->at[i]);
        return made;
    }
    const bool left = a.kind == J_TEXT || a.kind == J_LIST || a.kind == J_TUPLE;
    const bool right = b.kind == J_TEXT || b.kind == J_LIST || b.kind == J_TUPLE;
    if (op == '*' && left && is_whole(b)) return repeat_value(j, a, integer_of(b));
    if (op == '*' && right && is_whole(a)) return repeat_value(j, b, integer_of(a));
    const char sign[3] = {(char)(op > 255 ? op >> 8 : op), (char)(op > 255 ? op & 255 : 0), 0};
    cr_j_fail(j, "unsupported operand type(s) for %s: '%s' and '%s'", sign, cr_j_type(a), cr_j_type(b));
}

/* ---- "%s: %d" % values */
static jvalue next_value(jinja *j, jvalue values, int64_t *used) {
    if (values.kind != J_TUPLE) {
        if ((*used)++) cr_j_fail(j, "not enough arguments for format string");
        return values;
    }
    if (*used >= values.list->n) cr_j_fail(j, "not enough arguments for format string");
    return values.list->at[(*used)++];
}

jvalue cr_j_modulo(jinja *j, const jtext *format, jvalue values) {
    jout o = {0};
    int64_t used = 0;
    for (size_t i = 0; i < format->bytes; i++) {
        if (format->s[i] != '%') { cr_j_put(j, &o, format->s + i, 1); continue; }
        char spec[32] = "%", made[400];
        size_t n = 1;
        jvalue v = {.kind = J_MISSING};
        const char *s = format->s, *close = s[i + 1] == '(' ? memchr(s + i, ')', format->bytes - i) : NULL;
        if (close) {
            if (values.kind != J_DICT) cr_j_fail(j, "format requires a mapping");
            const jvalue *found = cr_j_find(j, values.dict, cr_j_of_text(j, s + i + 2, (size_t)(close - s) - i - 2));
            if (!found) cr_j_fail(j, "a format names a key that is not there");
            v = *found;
            i = (size_t)(close - s);
        }
        while (++i < format->bytes && s[i] && strchr("-+ #0123456789.", s[i])) {
            if (n > 12) cr_j_fail(j, "a format is too long");
            spec[n++] = s[i];
        }
        const char kind = i < format->bytes ? s[i] : 0;
        if (kind == '%') { cr_j_put(j, &o, "%", 1); continue; }
        if (!kind || !strchr("sdiurfFeEgGxXoc", kind)) cr_j_fail(j, "unsupported format character in '%.60s'", s);
        if (v.kind == J_MISSING) v = next_value(j, values, &used);
        if (kind == 's' || kind == 'r') {
            jout text = {0};
            if (kind == 'r') cr_j_put_repr(j, &text, v);
            else cr_j_put_value(j, &text, v);
            const jtext *t = cr_j_out(j, &text).text;
            if (n > 1) cr_j_fail(j, "widths of %%s are not supported");
            cr_j_put(j, &o, t->s, t->bytes);
            continue;
        }
        if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
        if (!is_number(v)) cr_j_fail(j, "%%%c format: a real number is required, not %s", kind, cr_j_type(v));
        if (strchr("diuxXoc", kind)) {
            if (kind == 'c' || (v.kind == J_FLOAT && !strchr("diu", kind)))
                cr_j_fail(j, "%%%c of this is not supported", kind);
            memcpy(spec + n, "ll", 2);
            spec[n + 2] = kind == 'u' ? 'd' : kind;
            snprintf(made, sizeof made, spec, (long long)(v.kind == J_FLOAT ? (int64_t)v.d : integer_of(v)));
        } else {
            spec[n] = kind;
            snprintf(made, sizeof made, spec, as_real(v));
        }
        cr_j_put(j, &o, made, strlen(made));
    }
    if (values.kind == J_TUPLE ? used < values.list->n : !used && values.kind != J_DICT && values.kind != J_LIST)
        cr_j_fail(j, "not all arguments converted during string formatting");
    return cr_j_out(j, &o);
}
