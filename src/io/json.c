/* json.c - the reader: recursive descent over bytes, one arena for the tree. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../core/status.h"
#include "file.h"
#include "json.h"
#include "../core/utf8.h"

/* `room` bytes follow, aligned to 16 */
typedef struct chunk { struct chunk *next; size_t used, room, unused; } chunk;
typedef struct document { cr_json root; chunk *chunks; } document;
typedef struct reader {
    const unsigned char *p, *end;
    document *doc;
    size_t taken, most;                             /* bytes of the arena */
    int64_t longest;                                /* elements of an array */
    const char *wrong;
    int depth;
} reader;

static bool value(reader *r, cr_json *v);
static bool fail(reader *r, const char *wrong) { r->wrong = wrong; return false; }
static const char no_memory[] = "no memory";

enum { LARGE = 1 << 24 };

static void *take_bytes(reader *r, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if ((r->taken += bytes) > r->most) return fail(r, "too many values for so few bytes"), NULL;
    chunk *c = r->doc->chunks;
    if (!c || c->room - c->used < bytes) {
        const size_t twice = !c ? 1024 : c->room < LARGE ? 2 * c->room : LARGE, room = twice > bytes ? twice : bytes;
        if (!(c = malloc(sizeof *c + room))) return fail(r, no_memory), NULL;
        *c = (chunk){.next = r->doc->chunks, .room = room};
        r->doc->chunks = c;
    }
    void *p = (char *)(c + 1) + c->used;
    c->used += bytes;
    return p;
}

static int peek(const reader *r) { return r->p < r->end ? *r->p : -1; }
static int peek_token(reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\n' || *r->p == '\r')) r->p++;
    return peek(r);
}

static bool word(reader *r, const char *text) {
    for (; *text; text++, r->p++) if (peek(r) != *text) return fail(r, "expected a value");
    return true;
}

/* ---- numbers: [-] int [. digits] [e [+-] digits].  The decimal point of strtod depends on the
 * locale, so 12.5e3 is passed as 125e2. */
static size_t digits(reader *r) {
    const unsigned char *from = r->p;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') r->p++;
    return (size_t)(r->p - from);
}

static bool number(reader *r, cr_json *v) {
    const unsigned char *from = r->p;
    /* bytes before the point, digits after it, where the exponent starts */
    size_t whole, after = 0, mark = 0;
    if (*from == '-') r->p++;
    if (peek(r) == '0') r->p++;
    else if (!digits(r)) return fail(r, "expected a value");
    whole = (size_t)(r->p - from);
    if (peek(r) == '.') { r->p++; if (!(after = digits(r))) return fail(r, "expected digits after the point"); }
    if (peek(r) == 'e' || peek(r) == 'E') {
        mark = (size_t)(++r->p - from);
        if (peek(r) == '-' || peek(r) == '+') r->p++;
        if (!digits(r)) return fail(r, "expected digits of an exponent");
    }
    const size_t n = (size_t)(r->p - from);
    char few[96], *text = n + 32 <= sizeof few ? few : take_bytes(r, n + 32);
    if (!text) return false;
    memcpy(text, from, n), text[n] = 0;
    long long e = mark ? strtoll(text + mark, NULL, 10) : 0, most = INT64_C(1) << 60;
    e = (e > most ? most : e < -most ? -most : e) - (long long)after;
    memmove(text + whole, text + whole + !!after, after);
    snprintf(text + whole + after, 32, "e%lld", e);
    errno = 0;
    v->kind = CR_JSON_NUMBER;
    v->integer = strtoll(text, NULL, 10);
    v->integral = n == whole && !errno;
    v->number = strtod(text, NULL);
    return isinf(v->number) ? fail(r, "a number beyond the range of a double") : true;
}

/* ---- strings */
static int hex4(reader *r) {                                /* -1: failed */
    int c = 0;
    for (int i = 0; i < 4; i++, r->p++) {
        int d = peek(r), lower = d | 32;
        if (d >= '0' && d <= '9') c = 16 * c + d - '0';
        else if (lower >= 'a' && lower <= 'f') c = 16 * c + lower - 'a' + 10;
        else return fail(r, "expected four hexadecimal digits"), -1;
    }
    return c;
}

/* after a backslash; returns the bytes written, 0: failed */
static int escape(reader *r, char *out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(r), high, low = 0;
    const char *simple = c > 0 ? strchr(from, c) : NULL;
    if (simple) { r->p++; *out = to[simple - from]; return 1; }
    if (c != 'u') return fail(r, "unknown escape"), 0;
    if (r->p++, (high = hex4(r)) < 0) return 0;
    if (high < 0xD800 || high > 0xDFFF) return cr_utf8_encode((uint32_t)high, out);
    if (high < 0xDC00 && r->end - r->p >= 2 && r->p[0] == '\\' && r->p[1] == 'u') {
        r->p += 2;
        if ((low = hex4(r)) < 0) return 0;
    }
    if (low < 0xDC00 || low > 0xDFFF) return fail(r, "half of a surrogate pair"), 0;
    return cr_utf8_encode(0x10000 + ((uint32_t)(high - 0xD800) << 10) + (uint32_t)(low - 0xDC00), out);
}

static bool string(reader *r, const char **text, size_t *bytes) {
    if (peek_token(r) != '"') return fail(r, "expected a string");
    const size_t left = (size_t)(r->end - ++r->p);
    size_t raw = 0;
    while (raw < left && r->p[raw] != '"') raw += r->p[raw] == '\\' ? 2 : 1;
    if (raw >= left) return fail(r, "a string without end");
    char *out = take_bytes(r, raw + 1), *t = out;           /* an escape is never shorter than its value */
    if (!out) return false;
    while (*r->p != '"') {
        uint32_t code;
        int n = 0;
        if (*r->p == '\\') { r->p++; n = escape(r, t); }
        else if (*r->p < 0x20) fail(r, "a control character in a string");
        else if (!(n = cr_utf8_decode(r->p, (size_t)(r->end - r->p), &code))) fail(r, "invalid UTF-8");
        else { memcpy(t, r->p, (size_t)n); r->p += n; }
        if (!n) return false;
        t += n;
    }
    *t = 0;
    *text = out; *bytes = (size_t)(t - out); r->p++;
    return true;
}

/* ---- arrays and objects */
static int by_key(const void *a, const void *b) {
    const cr_json *x = *(cr_json *const *)a, *y = *(cr_json *const *)b;
    if (x->key_bytes != y->key_bytes) return x->key_bytes < y->key_bytes ? -1 : 1;
    return memcmp(x->key, y->key, x->key_bytes);
}

static bool keys_differ(reader *r, const cr_json *object) {
    size_t n = 0;
    cr_json **sorted = take_bytes(r, (size_t)object->count * sizeof *sorted);
    if (!sorted) return false;
    for (cr_json *m = object->first; m; m = m->next) sorted[n++] = m;
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 1; i < n; i++)
        if (!by_key(&sorted[i - 1], &sorted[i])) return fail(r, "a key appears twice in the object that ends");
    return true;
}

static bool container(reader *r, cr_json *v, int close) {
    cr_json **link = &v->first;
    v->kind = close == '}' ? CR_JSON_OBJECT : CR_JSON_ARRAY;
    if (r->p++, ++r->depth > CR_JSON_DEPTH) return fail(r, "nested too deeply");
    if (peek_token(r) != close) for (;;) {
        cr_json *m = take_bytes(r, sizeof *m);
        if (!m) return false;
        *m = (cr_json){0};
        if (close == '}') {
            if (!string(r, &m->key, &m->key_bytes)) return false;
            if (peek_token(r) != ':') return fail(r, "expected ':'");
            r->p++;
        }
        if (!value(r, m)) return false;
        *link = m, link = &m->next;
        if (++v->count > r->longest && close == ']') return fail(r, "an array is too long");
        if (peek_token(r) != ',') break;
        r->p++;
    }
    if (peek_token(r) != close) return fail(r, close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
    r->p++, r->depth--;
    return close != '}' || keys_differ(r, v);
}

static bool value(reader *r, cr_json *v) {
    int c = peek_token(r);
    if (c == '{' || c == '[') return container(r, v, c == '{' ? '}' : ']');
    if (c == '"') { v->kind = CR_JSON_STRING; return string(r, &v->text, &v->bytes); }
    if (c == 't' || c == 'f') {
        v->kind = CR_JSON_BOOL;
        v->truth = c == 't';
        return word(r, v->truth ? "true" : "false");
    }
    if (c == 'n') return word(r, "null");
    if (c == '-' || (c >= '0' && c <= '9')) return number(r, v);
    return fail(r, "expected a value");
}

cr_json *cr_json_parse(const char *op, const char *path, const void *text, size_t bytes) {
    return cr_json_parse_short(op, path, text, bytes, INT64_MAX);
}

cr_json *cr_json_parse_short(const char *op, const char *path, const void *text, size_t bytes, int64_t most) {
    reader r = {.p = text, .end = (const unsigned char *)text + bytes, .doc = calloc(1, sizeof(document)),
                .most = most < INT64_MAX || bytes > SIZE_MAX / 16 ? SIZE_MAX : ((size_t)256 << 20) + 8 * bytes,
                .longest = most};
    if (!r.doc) fail(&r, no_memory);
    else if (value(&r, &r.doc->root) && peek_token(&r) >= 0) fail(&r, "something follows the value");
    if (!r.wrong) return &r.doc->root;
    if (r.wrong == no_memory) cr_fail(CR_NO_MEMORY, op, "no memory for '%s' of %zu bytes", path, bytes);
    else
        cr_fail(CR_IO, op, "'%s' is not valid JSON at byte %zu: %s", path, (size_t)(r.p - (const unsigned char *)text),
                r.wrong);
    cr_json_free((cr_json *)r.doc);
    return NULL;
}

void cr_json_free(cr_json *root) {
    document *d = (document *)(void *)root;
    for (chunk *c = d ? d->chunks : NULL, *next; c; c = next) { next = c->next; free(c); }
    free(d);
}

const cr_json *cr_json_get(const cr_json *object, const char *key) {
    if (!object || object->kind != CR_JSON_OBJECT) return NULL;
    for (const cr_json *m = object->first; m; m = m->next)
        if (m->key_bytes == strlen(key) && !memcmp(m->key, key, m->key_bytes)) return m;
    return NULL;
}

const cr_json *cr_json_as(const cr_json *v, cr_json_kind kind) { return v && v->kind == kind ? v : NULL; }

const cr_json *cr_json_text(const cr_json *object, const char *key) {
    return cr_json_as(cr_json_get(object, key), CR_JSON_STRING);
}

const cr_json *cr_json_elements(const cr_json *v) { return v && v->kind == CR_JSON_ARRAY ? v->first : NULL; }

bool cr_json_is(const cr_json *v, const char *text) {
    return v && v->kind == CR_JSON_STRING && v->bytes == strlen(text) && !memcmp(v->text, text, v->bytes);
}

bool cr_json_flag(const cr_json *object, const char *key, bool otherwise) {
    const cr_json *v = cr_json_as(cr_json_get(object, key), CR_JSON_BOOL);
    return v ? v->truth : otherwise;
}

/* ---- writing ---- */
void cr_out_string(cr_out *o, const char *text, size_t bytes) {
    cr_out_put(o, "\"", 1);
    for (size_t i = 0, from = 0; i <= bytes; i++) {
        const unsigned char c = i < bytes ? (unsigned char)text[i] : 0;
        if (i < bytes && c >= 0x20 && c != '"' && c != '\\') continue;
        if (i > from) cr_out_put(o, text + from, i - from);
        from = i + 1;
        if (i == bytes) break;
        if (c < 0x20) cr_out_format(o, "\\u%04x", c);
        else cr_out_format(o, "\\%c", c);
    }
    cr_out_put(o, "\"", 1);
}

void cr_put_json(cr_out *o, const cr_json *v) {
    const bool object = v->kind == CR_JSON_OBJECT;
    switch (v->kind) {
    case CR_JSON_NULL: cr_out_format(o, "null"); return;
    case CR_JSON_BOOL: cr_out_format(o, v->truth ? "true" : "false"); return;
    case CR_JSON_STRING: cr_out_string(o, v->text, v->bytes); return;
    case CR_JSON_NUMBER:
        if (v->integral) cr_out_format(o, "%lld", (long long)v->integer);
        else cr_out_format(o, v->number == floor(v->number) && fabs(v->number) < 1e15 ? "%.1f" : "%.17g", v->number);
        return;
    default: break;
    }
    cr_out_put(o, object ? "{" : "[", 1);
    for (const cr_json *m = v->first; m; m = m->next) {
        if (object) {
            cr_out_string(o, m->key, m->key_bytes);
            cr_out_put(o, ": ", 2);
        }
        cr_put_json(o, m);
        if (m->next) cr_out_put(o, ", ", 2);
    }
    cr_out_put(o, object ? "}" : "]", 1);
}
