/* unicode.c - see unicode.h.  Normalization is that of the Unicode standard, annex 15. */
#include "unicode.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
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

bool cr_unicode_young(int i, uint32_t *first, uint32_t *last, const char **category) {
    if (i < 0 || (size_t)i >= sizeof young / sizeof *young) return false;
    *first = young[i].first;
    *last = young[i].last;
    *category = young[i].category;
    return true;
}

cr_category cr_unicode_category(uint32_t code) {
    return code <= 0x10FFFF ? (cr_category)(categories[pages[code / PAGE]][code % PAGE] - 'a') : CR_CN;
}

/* ---- the tables that are packed */
typedef struct decomposition { uint32_t code; uint16_t at; uint8_t n; bool compatible; } decomposition;
typedef struct composition { uint32_t first, second, result; } composition;
static decomposition decompositions[DECOMPOSED];
static uint32_t      mapped[MAPPED];
static composition   compositions[COMPOSED];
static struct { uint32_t code, lower; } letters[LOWERED];
static struct { uint32_t first, last; uint8_t ccc; } classes[CLASSED];

static uint32_t take_number(const uint8_t **at) {
    uint32_t n = 0;
    for (int shift = 0;; shift += 7) {
        n |= (uint32_t)(**at & 127) << shift;
        if (*(*at)++ < 128) return n;
    }
}

static uint32_t take_step(const uint8_t **at) {     /* to be added, modulo 2^32 */
    const uint32_t n = take_number(at);
    return n & 1 ? ~(n >> 1) : n >> 1;
}

static int by_parts(const void *x, const void *y) {
    const composition *a = x, *b = y;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a->second > b->second) - (a->second < b->second);
}

static void unpack_decompositions(void) {
    const uint8_t *gap = decomposed_gaps, *kind = decomposed_kinds, *part = decomposed_parts;
    uint32_t code = UINT32_MAX, before[32] = {0};
    int at = 0, composed = 0;
    for (int i = 0; i < DECOMPOSED; i++, kind++) {
        const int n = *kind / 4;
        code += take_number(&gap) + 1;
        decompositions[i] = (decomposition){code, (uint16_t)at, (uint8_t)n, *kind & 2};
        for (int k = 0; k < n; k++) mapped[at + k] = before[k] += take_step(&part);
        if (*kind & 1) compositions[composed++] = (composition){mapped[at], mapped[at + 1], code};
        at += n;
    }
    qsort(compositions, COMPOSED, sizeof *compositions, by_parts);
}

static void unpack_letters(void) {
    const uint8_t *gap = lower_gaps, *step = lower_steps;
    uint32_t code = UINT32_MAX;
    for (int i = 0; i < LOWERED; i++) {
        letters[i].code = code += take_number(&gap) + 1;
        letters[i].lower = code + take_step(&step);
    }
}

static void unpack_classes(void) {
    const uint8_t *at = classes_packed;
    uint32_t code = UINT32_MAX;
    for (int i = 0; i < CLASSED; i++) {
        classes[i].first = code += take_number(&at) + 1;
        classes[i].last = code += take_number(&at);
        classes[i].ccc = *at++;
    }
}

static void unpack(void) {
    enum { PACKED, UNPACKING, UNPACKED };
    static atomic_int state;
    int expected = PACKED;
    if (atomic_load_explicit(&state, memory_order_acquire) == UNPACKED) return;
    if (atomic_compare_exchange_strong(&state, &expected, UNPACKING)) {
        unpack_decompositions();
        unpack_letters();
        unpack_classes();
        atomic_store(&state, UNPACKED);
    }
    while (atomic_load(&state) == UNPACKING) cr_os_sleep(1e-4);         /* another thread unpacks */
}

static const decomposition *find_decomposition(uint32_t c) {
    size_t low = 0, high = DECOMPOSED;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (decompositions[middle].code < c) low = middle + 1;
        else high = middle;
    }
    return low < DECOMPOSED && decompositions[low].code == c ? &decompositions[low] : NULL;
}

static uint32_t lower_of(uint32_t c) {
    size_t low = 0, high = LOWERED;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (letters[middle].code < c) low = middle + 1;
        else high = middle;
    }
    return low < LOWERED && letters[low].code == c ? letters[low].lower : c;
}

static uint8_t class_of(uint32_t c) {
    size_t low = 0, high = CLASSED;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (classes[middle].last < c) low = middle + 1;
        else high = middle;
    }
    return low < CLASSED && classes[low].first <= c ? classes[low].ccc : 0;
}

static uint32_t composed_of(uint32_t a, uint32_t b) {  /* 0: these two do not compose */
    if (a - LEADING < LEADINGS && b - VOWEL < VOWELS)
        return HANGUL + ((a - LEADING) * VOWELS + (b - VOWEL)) * TRAILINGS;
    if (a - HANGUL < SYLLABLES && (a - HANGUL) % TRAILINGS == 0 && b - TRAILING - 1 < TRAILINGS - 1)
        return a + (b - TRAILING);
    size_t low = 0, high = COMPOSED;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (compositions[middle].first < a || (compositions[middle].first == a && compositions[middle].second < b))
            low = middle + 1;
        else high = middle;
    }
    return low < COMPOSED && compositions[low].first == a && compositions[low].second == b
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
    const decomposition *d = c < 0xA0 ? NULL : find_decomposition(c);
    if (!d || (d->compatible && !compatible)) push_character(r, c);
    else for (int i = 0; i < d->n; i++) decompose_character(r, mapped[d->at + i], compatible);
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
    unpack();
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
    unpack();
    for (size_t at = 0; at < n;) {
        at += (size_t)cr_utf8_decode((const unsigned char *)s + at, n - at, &c);
        if (c < 0x80) { put_character(out, c - 'A' < 26 ? c + 32 : c); continue; }
        const bool dotted = c == 0x130;             /* a capital I with a dot: the one that becomes two characters */
        put_character(out, dotted ? 'i' : lower_of(c));
        if (dotted) put_character(out, 0x307);
    }
}
