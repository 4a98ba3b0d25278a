/* unicode.c - see unicode.h.  Normalization is that of the Unicode standard, annex 15. */
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

#include "../core/utf8.h"
#include "unicode.gen.h"

enum {
    HANGUL = 0xAC00,
    LEADING = 0x1100,
    VOWEL = 0x1161,
    TRAILING = 0x11A7,
    LEADINGS = 19,
    VOWELS = 21,
    TRAILINGS = 28,
    SYLLABLES = LEADINGS * VOWELS * TRAILINGS
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

bool cr_unicode_young(int i, uint32_t *first, uint32_t *last, const char **category) {
    if (i < 0 || (size_t)i >= COUNT(young)) return false;
    *first = young[i].first;
    *last = young[i].last;
    *category = young[i].category;
    return true;
}

cr_category cr_unicode_category(uint32_t code) {
    return code <= 0x10FFFF ? (cr_category)(categories[pages[code / PAGE]][code % PAGE] - 'a') : CR_CN;
}

static const mapping *find_mapping(const mapping *of, size_t n, uint32_t c) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (of[middle].code < c) low = middle + 1;
        else high = middle;
    }
    return low < n && of[low].code == c ? &of[low] : NULL;
}

static uint8_t class_of(uint32_t c) {
    size_t low = 0, high = COUNT(classes);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (classes[middle].last < c) low = middle + 1;
        else high = middle;
    }
    return low < COUNT(classes) && classes[low].first <= c ? classes[low].ccc : 0;
}

static uint32_t composed_of(uint32_t a, uint32_t b) {  /* 0: these two do not compose */
    if (a - LEADING < LEADINGS && b - VOWEL < VOWELS)
        return HANGUL + ((a - LEADING) * VOWELS + (b - VOWEL)) * TRAILINGS;
    if (a - HANGUL < SYLLABLES && (a - HANGUL) % TRAILINGS == 0 && b - TRAILING - 1 < TRAILINGS - 1)
        return a + (b - TRAILING);
    size_t low = 0, high = COUNT(compositions);
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (compositions[middle].first < a || (compositions[middle].first == a && compositions[middle].second < b))
            low = middle + 1;
        else high = middle;
    }
    return low < COUNT(compositions) && compositions[low].first == a && compositions[low].second == b
               ? compositions[low].result
               : 0;
}

static void put_character(cr_out *out, uint32_t c) {
    char utf8[4];
    cr_out_put(out, utf8, (size_t)cr_utf8_encode(c, utf8));
}

/* ---- a run: a starter with all that follows it up to the next one; composition may reach back to the starter only */
typedef struct character { uint32_t code; uint8_t ccc; } character;
typedef struct run { character *at; int64_t n, room; bool failed; } run;

static void push_character(run *r, uint32_t c) {
    if (cr_grow(&r->at, r->n + 1, &r->room, sizeof *r->at)) r->at[r->n++] = (character){c, class_of(c)};
    else r->failed = true;
}

/* Sorts at[from, to) by class; stable, and linear however long the run is. */
static void sort_by_class(run *r, int64_t from, int64_t to) {
    int64_t start[257] = {0};
    const size_t bytes = (size_t)(to - from) * sizeof *r->at;
    character *sorted = malloc(bytes);
    if (!sorted) { r->failed = true; return; }
    for (int64_t i = from; i < to; i++) start[r->at[i].ccc + 1]++;
    for (int k = 0; k < 256; k++) start[k + 1] += start[k];
    for (int64_t i = from; i < to; i++) sorted[start[r->at[i].ccc]++] = r->at[i];
    memcpy(r->at + from, sorted, bytes);
    free(sorted);
}

/* The canonical order: marks between two starters by their class. */
static void reorder_marks(run *r) {
    for (int64_t from = 0, to; from < r->n; from = to + 1) {
        bool sorted = true;
        for (to = from; to < r->n && r->at[to].ccc; to++)
            sorted &= to == from || r->at[to - 1].ccc <= r->at[to].ccc;
        if (!sorted) sort_by_class(r, from, to);
    }
}

static void decompose_character(run *r, uint32_t c, bool compatible) {
    if (c - HANGUL < SYLLABLES) {
        const uint32_t i = c - HANGUL;
        push_character(r, LEADING + i / (VOWELS * TRAILINGS));
        push_character(r, VOWEL + i % (VOWELS * TRAILINGS) / TRAILINGS);
        if (i % TRAILINGS) push_character(r, TRAILING + i % TRAILINGS);
        return;
    }
    const mapping *m = c < 0xA0 ? NULL : find_mapping(decompositions, COUNT(decompositions), c);
    const int n = !m ? 0 : compatible ? m->n_compatible : m->n;
    for (int i = 0; i < n; i++) push_character(r, mapped[(compatible ? m->at_compatible : m->at) + i]);
    if (!n) push_character(r, c);
}

static void compose_run(run *r) {
    int64_t starter = -1, kept = 0;
    int before = -1;                                /* class of the last character that was kept after the starter */
    for (int64_t i = 0; i < r->n; i++) {
        const character c = r->at[i];
        const uint32_t one = starter >= 0 && (before < 0 || (before < c.ccc && before))
                                 ? composed_of(r->at[starter].code, c.code)
                                 : 0;
        if (one) { r->at[starter].code = one; continue; }
        if (!c.ccc) starter = kept, before = -1;
        else before = c.ccc;
        r->at[kept++] = c;
    }
    r->n = kept;
}

/* Is a break allowed before this character: it neither reorders nor composes with what is before? */
static bool breaks_run(uint32_t c) { return c < 0x300; }

void cr_unicode_normalize(cr_form form, const char *s, size_t n, cr_out *out) {
    const bool compatible = form == CR_NFKC || form == CR_NFKD, composes = form == CR_NFC || form == CR_NFKC;
    run r = {0};
    for (size_t at = 0; at < n && !out->failed && !r.failed;) {
        size_t plain = at;                          /* ASCII before ASCII is as it is */
        while (plain < n && (unsigned char)s[plain] < 0x80) plain++;
        if (plain < n && plain > at) plain--;
        if (plain > at) {
            cr_out_put(out, s + at, plain - at);
            at = plain;
            continue;
        }
        uint32_t c = 0;
        for (r.n = 0; at < n;) {
            const int step = cr_utf8_decode((const unsigned char *)s + at, n - at, &c);
            if (r.n && breaks_run(c)) break;
            decompose_character(&r, c, compatible);
            at += (size_t)step;
        }
        reorder_marks(&r);
        if (composes) compose_run(&r);
        for (int64_t i = 0; i < r.n; i++) put_character(out, r.at[i].code);
    }
    out->failed |= r.failed;
    free(r.at);
}

void cr_unicode_lower(const char *s, size_t n, cr_out *out) {
    uint32_t c = 0;
    for (size_t at = 0; at < n;) {
        at += (size_t)cr_utf8_decode((const unsigned char *)s + at, n - at, &c);
        if (c < 0x80) { put_character(out, c - 'A' < 26 ? c + 32 : c); continue; }
        const mapping *m = find_mapping(lower_case, COUNT(lower_case), c);
        for (int i = 0; m && i < m->n_compatible; i++) put_character(out, mapped[m->at_compatible + i]);
        if (!m) put_character(out, c);
    }
}
