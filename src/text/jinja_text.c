/* jinja_text.c - what methods and filters of texts share, and their arguments. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

#include "unicode.h"

static const jvalue missing = {.kind = J_MISSING};

/* ---- arguments */
void cr_j_bind(jinja *j, const char *what, const jargs *a, const char *names, jvalue *slots) {
    int n = 0, required = -1;
    for (const char *s = names; *s; n++) {
        const size_t length = strcspn(s, " |");
        slots[n] = n < a->n ? a->at[n] : missing;
        for (int i = 0; i < a->n_named; i++) {
            if (a->named[i].name->bytes != length || memcmp(a->named[i].name->s, s, length)) continue;
            if (n < a->n) cr_j_fail(j, "%s() got multiple values for argument '%s'", what, a->named[i].name->s);
            slots[n] = a->named[i].value;
        }
        s += length;
        if (*s == '|') required = n + 1;
        s += *s == ' ' || *s == '|';
    }
    if (a->n > n) cr_j_fail(j, "%s() takes at most %d arguments, not %d", what, n, a->n);
    int named = 0;
    for (int i = 0; i < n; i++) named += slots[i].kind != J_MISSING;
    if (named != a->n + a->n_named) cr_j_fail(j, "%s() does not take an argument of this name", what);
    for (int i = 0; i < (required < 0 ? 0 : required); i++)
        if (slots[i].kind == J_MISSING) cr_j_fail(j, "%s() misses an argument", what);
}

int64_t cr_j_int_or(jinja *j, jvalue v, int64_t missing_value, const char *what) {
    return v.kind == J_MISSING || v.kind == J_NONE ? missing_value : cr_j_index(j, v, what);
}

const jtext *cr_j_text_of(jinja *j, jvalue v, const char *what) {
    if (v.kind == J_UNDEFINED) cr_j_fail(j, "%s", v.why);
    if (v.kind != J_TEXT) cr_j_fail(j, "%s must be str, not %s", what, cr_j_type(v));
    return v.text;
}

bool cr_j_is(const jtext *t, const char *s) { return t->bytes == strlen(s) && !memcmp(t->s, s, t->bytes); }

/* ---- texts.  Case and classes of characters are those of ASCII, but for cr_j_lower(). */
const jtext *cr_j_ascii(jinja *j, const jtext *t, const char *what) {
    if (t->length != t->bytes) cr_j_fail(j, "%s of text beyond ASCII is not supported", what);
    return t;
}

bool cr_j_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool cr_j_small(char c) { return c >= 'a' && c <= 'z'; }
bool cr_j_digit(char c) { return c >= '0' && c <= '9'; }
bool cr_j_word(char c) { return cr_j_upper(c) || cr_j_small(c) || cr_j_digit(c); }
static char to_upper(char c) { return cr_j_small(c) ? (char)(c - 32) : c; }
char cr_j_lowered(char c) { return cr_j_upper(c) ? (char)(c + 32) : c; }

jvalue cr_j_lower(jinja *j, const jtext *t) {
    if (t->length != t->bytes) {
        cr_out o = {0};
        cr_unicode_lower(t->s, t->bytes, &o);
        if (o.failed) cr_j_fail(j, "out of memory");
        jvalue made = cr_j_of_text(j, o.text, o.bytes);
        cr_out_free(&o);
        return made;
    }
    jtext *made = cr_j_text(j, t->s, t->bytes);
    for (size_t i = 0; i < t->bytes; i++) made->s[i] = cr_j_lowered(t->s[i]);
    return (jvalue){.kind = J_TEXT, .text = made};
}

/* first: the case of a word's first letter is raised; others: 'u' raised, 'l' lowered, 's' swapped.  starts: which
 * characters begin a word behind them; NULL: any that is not a letter; "": the text only. */
jvalue cr_j_with_case(jinja *j, const jtext *t, const char *what, bool first, char others, const char *starts) {
    jtext *made = cr_j_text(j, cr_j_ascii(j, t, what)->s, t->bytes);
    bool begins = true;
    for (size_t i = 0; i < t->bytes; i++) {
        const char c = t->s[i];
        made->s[i] = (first && begins) || others == 'u' ? to_upper(c)
                   : others == 'l' ? cr_j_lowered(c) : cr_j_upper(c) ? cr_j_lowered(c) : to_upper(c);
        begins = starts ? *starts && strchr(starts, c) : !cr_j_upper(c) && !cr_j_small(c);
    }
    return (jvalue){.kind = J_TEXT, .text = made};
}

static bool in_set(const jtext *set, uint32_t c) {
    if (!set) return cr_j_space(c);
    for (size_t i = 0; i < set->bytes;) {
        uint32_t one;
        i += cr_j_code(set->s + i, set->bytes - i, &one);
        if (one == c) return true;
    }
    return false;
}

/* set NULL: white space */
jvalue cr_j_strip(jinja *j, const jtext *t, jvalue chars, bool left, bool right) {
    const jtext *set = chars.kind == J_MISSING || chars.kind == J_NONE ? NULL : cr_j_text_of(j, chars, "strip arg");
    size_t from = 0, to = t->bytes;
    uint32_t c;
    for (size_t step; left && from < to; from += step) {
        step = cr_j_code(t->s + from, to - from, &c);
        if (!in_set(set, c)) break;
    }
    while (right && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)t->s[at] & 0xC0) == 0x80) at--;
        cr_j_code(t->s + at, to - at, &c);
        if (!in_set(set, c)) break;
        to = at;
    }
    return cr_j_of_text(j, t->s + from, to - from);
}

bool cr_j_here(const jtext *t, size_t at, const jtext *s) {
    return at + s->bytes <= t->bytes && !memcmp(t->s + at, s->s, s->bytes);
}

/* Where s is in bytes [from, to) of t; SIZE_MAX: it is not. */
size_t cr_j_where(const jtext *t, size_t from, size_t to, const jtext *s, bool last) {
    if (from > to || to - from < s->bytes) return SIZE_MAX;
    const size_t n = to - s->bytes - from;
    for (size_t i = 0; i <= n; i++) {
        const size_t at = last ? from + n - i : from + i;
        if (cr_j_here(t, at, s)) return at;
    }
    return SIZE_MAX;
}

void cr_j_append_text(jinja *j, jlist *l, const char *s, size_t bytes) { cr_j_append(j, l, cr_j_of_text(j, s, bytes)); }

jvalue cr_j_split(jinja *j, const jtext *t, jvalue separator, int64_t most, bool last) {
    jvalue made = cr_j_new_list(j, J_LIST, 0);
    jlist *l = made.list;
    if (most < 0) most = INT64_MAX;
    if (separator.kind == J_MISSING || separator.kind == J_NONE) {
        if (last && most != INT64_MAX) cr_j_fail(j, "rsplit() by white space with a limit is not supported");
        size_t at = 0, step;
        uint32_t c;
        for (;;) {
            for (; at < t->bytes; at += step) {
                step = cr_j_code(t->s + at, t->bytes - at, &c);
                if (!cr_j_space(c)) break;
            }
            if (at >= t->bytes) return made;
            if (l->n == most) {
                cr_j_append_text(j, l, t->s + at, t->bytes - at);
                return made;
            }
            const size_t from = at;
            for (; at < t->bytes; at += step) {
                step = cr_j_code(t->s + at, t->bytes - at, &c);
                if (cr_j_space(c)) break;
            }
            cr_j_append_text(j, l, t->s + from, at - from);
        }
    }
    const jtext *s = cr_j_text_of(j, separator, "a separator");
    if (!s->bytes) cr_j_fail(j, "empty separator");
    size_t from = 0, to = t->bytes;
    for (size_t at; l->n < most && (at = cr_j_where(t, from, to, s, last)) != SIZE_MAX;) {
        if (last) cr_j_append_text(j, l, t->s + at + s->bytes, to - at - s->bytes), to = at;
        else cr_j_append_text(j, l, t->s + from, at - from), from = at + s->bytes;
    }
    cr_j_append_text(j, l, t->s + from, to - from);
    for (int64_t i = 0; last && i < l->n / 2; i++) {
        const jvalue kept = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = kept;
    }
    return made;
}

jvalue cr_j_replace(jinja *j, const jtext *t, const jtext *old, const jtext *with, int64_t most) {
    jout o = {0};
    if (most < 0) most = INT64_MAX;
    for (size_t i = 0; i <= t->bytes;) {
        if (most > 0 && cr_j_here(t, i, old)) {
            cr_j_put(j, &o, with->s, with->bytes);
            most--;
            i += old->bytes;
            if (old->bytes) continue;
        }
        if (i == t->bytes) break;
        const size_t from = i;
        do i++;
        while (i < t->bytes && ((unsigned char)t->s[i] & 0xC0) == 0x80);
        cr_j_put(j, &o, t->s + from, i - from);
    }
    return cr_j_out(j, &o);
}

/* The end of a line that begins at `at`, and in *next where the one behind it begins. */
static size_t line_end(const jtext *t, size_t at, size_t *next) {
    uint32_t c;
    for (size_t step; at < t->bytes; at += step) {
        step = cr_j_code(t->s + at, t->bytes - at, &c);
        if ((c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029) {
            *next = at + step + (c == '\r' && at + 1 < t->bytes && t->s[at + 1] == '\n');
            return at;
        }
    }
    *next = at;
    return at;
}

jvalue cr_j_lines(jinja *j, const jtext *t, bool keep) {
    jvalue made = cr_j_new_list(j, J_LIST, 0);
    for (size_t at = 0, next; at < t->bytes; at = next) {
        const size_t end = line_end(t, at, &next);
        cr_j_append_text(j, made.list, t->s + at, (keep ? next : end) - at);
    }
    return made;
}

jvalue cr_j_pad(jinja *j, const jtext *t, int64_t width, const char *fill, char where) {
    const int64_t more = width > (int64_t)t->length ? width - (int64_t)t->length : 0;
    if ((uint64_t)more > J_MEMORY) cr_j_fail(j, "a width of %lld", (long long)width);
    const int64_t left = where == 'r' ? more : where == 'l' ? 0 : more / 2 + (more & width & 1);
    jout o = {0};
    for (int64_t i = 0; i < left; i++) cr_j_put(j, &o, fill, strlen(fill));
    cr_j_put(j, &o, t->s, t->bytes);
    for (int64_t i = left; i < more; i++) cr_j_put(j, &o, fill, strlen(fill));
    return cr_j_out(j, &o);
}

jvalue cr_j_join(jinja *j, const jtext *with, const jlist *l, bool any) {
    jout o = {0};
    for (int64_t i = 0; i < l->n; i++) {
        if (i) cr_j_put(j, &o, with->s, with->bytes);
        if (any) cr_j_put_value(j, &o, l->at[i]);
        else if (l->at[i].kind == J_TEXT) cr_j_put(j, &o, l->at[i].text->s, l->at[i].text->bytes);
        else cr_j_fail(j, "sequence item %lld: expected str instance, %s found", (long long)i, cr_j_type(l->at[i]));
    }
    return cr_j_out(j, &o);
}

/* "{} {0} {name}"; conversions and formats of fields are not supported */
jvalue cr_j_format(jinja *j, const jtext *t, const jargs *a) {
    jout o = {0};
    int next = 0;
    for (size_t i = 0; i < t->bytes; i++) {
        const char c = t->s[i];
        if (c != '{' && c != '}') { cr_j_put(j, &o, &c, 1); continue; }
        if (i + 1 < t->bytes && t->s[i + 1] == c) { cr_j_put(j, &o, &c, 1), i++; continue; }
        const char *close = c == '{' ? memchr(t->s + i, '}', t->bytes - i) : NULL;
        if (!close) cr_j_fail(j, "a single '%c' in a format", c);
        const jtext *field = cr_j_text(j, t->s + i + 1, (size_t)(close - t->s) - i - 1);
        i = (size_t)(close - t->s);
        const jvalue *v = NULL;
        char *end;
        const long k = field->bytes ? strtol(field->s, &end, 10) : next++;
        if (!field->bytes || (cr_j_digit(field->s[0]) && !*end)) v = k < a->n ? &a->at[k] : NULL;
        else for (int n = 0; n < a->n_named; n++) if (cr_j_is(a->named[n].name, field->s)) v = &a->named[n].value;
        if (!v) cr_j_fail(j, "the field '{%.40s}' is not given, or of a kind that is not supported", field->s);
        cr_j_put_value(j, &o, *v);
    }
    return cr_j_out(j, &o);
}

bool cr_j_has_case(jinja *j, const jtext *t, char which) {
    bool some = false;
    cr_j_ascii(j, t, "the case");
    for (size_t i = 0; i < t->bytes; i++) {
        if (which == 'u' ? cr_j_small(t->s[i]) : cr_j_upper(t->s[i])) return false;
        some |= cr_j_upper(t->s[i]) || cr_j_small(t->s[i]);
    }
    return some;
}
