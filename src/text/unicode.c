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

static const mapping *find(const mapping *of, size_t n, uint32_t c) {
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

static uint32_t composed(uint32_t a, uint32_t b) {  /* 0: these two do not compose */
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

static void put(cr_out *out, uint32_t c) {
    char utf8[4];
    cr_out_put(out, utf8, (size_t)cr_utf8_encode(c, utf8));
}

/* ---- a run: a starter with all that follows it up to the next one; composition may reach back to the starter only */
typedef struct run { uint32_t *code; uint8_t *ccc; size_t n, room; bool failed; } run;

static void push(run *r, uint32_t c) {
    if (r->n == r->room) {
        const size_t room = 2 * r->room + 32;
        uint32_t *code = realloc(r->code, room * sizeof *code);
        if (code) r->code = code;
        uint8_t *ccc = realloc(r->ccc, room);
        if (ccc) r->ccc = ccc;
        if (!code || !ccc) { r->failed = true; return; }
        r->room = room;
    }
    r->code[r->n] = c;
    r->ccc[r->n++] = class_of(c);
}

/* Sorts code[from, to) by class; stable, and linear however long the run is. */
static void sort_by_class(run *r, size_t from, size_t to) {
    size_t place[257] = {0};
    uint32_t *sorted = malloc((to - from) * sizeof *sorted);
    if (!sorted) { r->failed = true; return; }
    for (size_t i = from; i < to; i++) place[r->ccc[i] + 1]++;
    for (int k = 0; k < 256; k++) place[k + 1] += place[k];
    for (size_t i = from; i < to; i++) sorted[place[r->ccc[i]]++] = r->code[i];
    for (size_t i = from; i < to; i++) r->code[i] = sorted[i - from], r->ccc[i] = class_of(r->code[i]);
    free(sorted);
}

/* The canonical order: marks between two starters by their class. */
static void reorder(run *r) {
    for (size_t from = 0, to; from < r->n; from = to + 1) {
        bool sorted = true;
        for (to = from; to < r->n && r->ccc[to]; to++) sorted &= to == from || r->ccc[to - 1] <= r->ccc[to];
        if (!sorted) sort_by_class(r, from, to);
    }
}

static void decompose(run *r, uint32_t c, bool compatible) {
    if (c - HANGUL < SYLLABLES) {
        const uint32_t i = c - HANGUL;
        push(r, LEADING + i / (VOWELS * TRAILINGS));
        push(r, VOWEL + i % (VOWELS * TRAILINGS) / TRAILINGS);
        if (i % TRAILINGS) push(r, TRAILING + i % TRAILINGS);
        return;
    }
    const mapping *m = c < 0xA0 ? NULL : find(decompositions, COUNT(decompositions), c);
    const int n = !m ? 0 : compatible ? m->n_compatible : m->n;
    for (int i = 0; i < n; i++) push(r, mapped[(compatible ? m->at_compatible : m->at) + i]);
    if (!n) push(r, c);
}

static void compose(run *r) {
    size_t starter = SIZE_MAX, kept = 0;
    int before = -1;                                /* class of the last character that was kept after the starter */
    for (size_t i = 0; i < r->n; i++) {
        const uint32_t c = r->code[i];
        const uint8_t ccc = r->ccc[i];
        const uint32_t one = starter != SIZE_MAX && (before < 0 || (before < ccc && before))
                                 ? composed(r->code[starter], c)
                                 : 0;
        if (one) { r->code[starter] = one; continue; }
        if (!ccc) starter = kept, before = -1;
        else before = ccc;
        r->code[kept] = c;
        r->ccc[kept++] = ccc;
    }
    r->n = kept;
}

/* Is a break allowed before this character: it neither reorders nor composes with what is before? */
static bool breaks(uint32_t c) { return c < 0x300; }

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
            if (r.n && breaks(c)) break;
            decompose(&r, c, compatible);
            at += (size_t)step;
        }
        reorder(&r);
        if (composes) compose(&r);
        for (size_t i = 0; i < r.n; i++) put(out, r.code[i]);
    }
    out->failed |= r.failed;
    free(r.code);
    free(r.ccc);
}

void cr_unicode_lower(const char *s, size_t n, cr_out *out) {
    uint32_t c = 0;
    for (size_t at = 0; at < n;) {
        at += (size_t)cr_utf8_decode((const unsigned char *)s + at, n - at, &c);
        if (c < 0x80) { put(out, c - 'A' < 26 ? c + 32 : c); continue; }
        const mapping *m = find(lower_case, COUNT(lower_case), c);
        for (int i = 0; m && i < m->n_compatible; i++) put(out, mapped[m->at_compatible + i]);
        if (!m) put(out, c);
    }
}
