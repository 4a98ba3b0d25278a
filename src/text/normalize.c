/* normalize.c - the normalizers of a pipeline, one after the other. */
#include <stdlib.h>
#include <string.h>

#include "../core/utf8.h"
#include "pipeline.h"
#include "unicode.h"

bool cr_is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t cr_space_at(const char *s, size_t n) {
    uint32_t c = 0;
    const int step = cr_utf8_decode((const unsigned char *)s, n, &c);
    return step && cr_is_space(c) ? (size_t)step : 0;
}

size_t cr_space_before(const char *s, size_t n) {
    size_t at = n;
    do
        if (!at--) return 0;
    while (((unsigned char)s[at] & 0xC0) == 0x80);
    return cr_space_at(s + at, n - at) == n - at ? n - at : 0;
}

size_t cr_literal_find(const char *literal, size_t bytes, const char *s, size_t n, size_t from) {
    while (bytes && n - from >= bytes) {
        const char *p = memchr(s + from, literal[0], n - from - bytes + 1);
        if (!p) return n;
        from = (size_t)(p - s);
        if (!memcmp(p, literal, bytes)) return from;
        from++;
    }
    return n;
}

/* ---- one match after the other; an empty one where the last one ended is none ---- */
static size_t next_character(const char *s, size_t n, size_t at) {
    do at++; while (at < n && ((unsigned char)s[at] & 0xC0) == 0x80);
    return at;
}

static bool replace_matches(const cr_normalizer *m, cr_workspace *w, const char *s, size_t n, cr_out *out) {
    size_t kept = 0, start = 0, end = 0;            /* s up to `kept` is in out */
    bool any = false;
    for (size_t from = 0; from <= n;) {
        if (m->regex) {
            const int found = cr_regex_find(m->regex, w->regex, s, n, from, &start, &end);
            if (found < 0) return w->wrong = "a regular expression of a normalizer exceeds PCRE2's limits", false;
            if (!found) break;
        } else {
            start = cr_literal_find(m->literal, m->literal_bytes, s, n, from);
            end = start + m->literal_bytes;
            if (start == n) break;
        }
        if (start == end && any && start == kept) { from = next_character(s, n, from); continue; }
        any = true;
        cr_out_put(out, s + kept, start - kept);
        cr_out_put(out, m->content, m->content_bytes);
        if (m->kind == CR_NORM_AROUND) {
            cr_out_put(out, s + start, end - start);
            cr_out_put(out, m->content, m->content_bytes);
        }
        kept = from = end;
        if (start == end) from = next_character(s, n, from);
    }
    cr_out_put(out, s + kept, n - kept);
    return true;
}

/* ---- SentencePiece's map: a double-array trie of darts-clone, whose values are offsets in a blob of strings ---- */
bool cr_charsmap_read(cr_normalizer *m, const unsigned char *data, size_t bytes) {
    if (bytes < 4) return false;
    const size_t trie = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
    if (trie % 4 || trie < 4 || trie > bytes - 4) return false;
    m->n_units = (uint32_t)(trie / 4);
    m->units = malloc(trie);
    m->blob_bytes = bytes - 4 - trie;
    m->blob = malloc(m->blob_bytes + 1);
    if (!m->units || !m->blob) return false;
    for (size_t i = 0; i < m->n_units; i++) {
        const unsigned char *u = data + 4 + 4 * i;
        m->units[i] = u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    memcpy(m->blob, data + 4 + trie, m->blob_bytes);
    m->blob[m->blob_bytes] = 0;
    return true;
}

static uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

/* The replacement of a prefix of s, the longest or the shortest that has one; NULL: none. */
static const char *mapped_prefix(const cr_normalizer *m, const char *s, size_t n, size_t *used) {
    uint32_t node = offset_of(m->units[0]);
    const char *found = NULL;
    for (size_t i = 0; i < n && s[i]; i++) {
        node ^= (unsigned char)s[i];
        if (node >= m->n_units || (m->units[node] & 0x800000FFu) != (unsigned char)s[i]) break;
        const uint32_t unit = m->units[node];
        node ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        const uint32_t value = node < m->n_units ? m->units[node] & 0x7FFFFFFFu : UINT32_MAX;
        if (value >= m->blob_bytes) break;
        found = m->blob + value;
        *used = i + 1;
        if (!m->longest) break;
    }
    /* a damaged file may point into the middle of a character */
    return found && cr_utf8_valid(found, strlen(found)) == strlen(found) ? found : NULL;
}

static size_t character_bytes(const char *s, size_t n) {
    uint32_t c = 0;
    return (size_t)cr_utf8_decode((const unsigned char *)s, n, &c);
}

static bool map_characters(const cr_normalizer *m, cr_workspace *w, const char *s, size_t n, cr_out *out) {
    size_t used = 0, start = 0, end = 0;
    for (size_t at = 0; at < n;) {
        const char *to = m->longest ? mapped_prefix(m, s + at, n - at, &used) : NULL;
        if (m->longest) {
            const size_t step = to ? used : character_bytes(s + at, n - at);
            if (to) cr_out_put(out, to, strlen(to));
            else cr_out_put(out, s + at, step);
            at += step;
            continue;
        }
        /* tokenizers: a short grapheme (\X) as a whole, else its characters */
        if (cr_regex_find(m->regex, w->regex, s, n, at, &start, &end) != 1 || start != at || end == at)
            return w->wrong = "a grapheme exceeds PCRE2's limits", false;
        to = end - at < 6 ? mapped_prefix(m, s + at, end - at, &used) : NULL;
        if (to) {
            cr_out_put(out, to, strlen(to));
            at = end;
        }
        while (at < end) {
            const size_t step = character_bytes(s + at, end - at);
            to = mapped_prefix(m, s + at, step, &used);
            if (to) cr_out_put(out, to, strlen(to));
            else cr_out_put(out, s + at, step);
            at += step;
        }
    }
    return true;
}

static bool apply_normalizer(const cr_normalizer *m, cr_workspace *w, const char *s, size_t n, cr_out *out) {
    size_t k;
    switch (m->kind) {
    case CR_NORM_REPLACE:
    case CR_NORM_AROUND: return replace_matches(m, w, s, n, out);
    case CR_NORM_PREPEND:
        if (n) cr_out_put(out, m->content, m->content_bytes);
        cr_out_put(out, s, n);
        return true;
    case CR_NORM_LOWER: return cr_unicode_lower(s, n, out), true;
    case CR_NORM_FORM: return cr_unicode_normalize(m->form, s, n, out), true;
    case CR_NORM_STRIP:
        while (m->left && (k = cr_space_at(s, n))) s += k, n -= k;
        while (m->right && (k = cr_space_before(s, n))) n -= k;
        cr_out_put(out, s, n);
        return true;
    case CR_NORM_CHARSMAP: return map_characters(m, w, s, n, out);
    }
    return true;
}

bool cr_normalize(const cr_pipeline *p, cr_workspace *w, const char **s, size_t *n) {
    for (int i = 0; i < p->n_norms; i++) {
        cr_out *out = &w->text[CR_STEPS + i % 2];
        out->bytes = 0;
        if (!apply_normalizer(&p->norm[i], w, *s, *n, out)) return false;
        if (out->failed) return w->wrong = "no memory", false;
        *s = out->text ? out->text : "";
        *n = out->bytes;
    }
    return true;
}
