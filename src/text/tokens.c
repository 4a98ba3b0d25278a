/* tokens.c - long sequences of tokens, in memory or mapped from a file, one, two or four bytes each.
 *
 * The file, all little-endian:  "CRTOKENS", u32 version 1, u32 width (1, 2, 4), u64 vocabulary, u64
 * count, then the tokens. The header is checked against the file's size when it is opened.  Tokens are
 * checked against the vocabulary when they are used (cr_tokens_at, loader, save): opening a file of
 * gigabytes reads one page of it.
 *
 * A sequence of several files has their sequences as parts. */
#include "tokens.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/file.h"

enum { HEADER = 32, VERSION = 1, PIECE = 1 << 12 };        /* PIECE: tokens written at once */
static const char magic[8] = {'C', 'R', 'T', 'O', 'K', 'E', 'N', 'S'};

/* mapping or memory */
typedef struct source { atomic_int refs; cr_mapping mapping; unsigned char *memory; } source;

struct cr_tokens {
    source *from;                                   /* shared with slices */
    const unsigned char *data;                      /* of the first token */
    int width;                                      /* bytes a token */
    int64_t count, vocabulary;
    int parts;                                      /* 0: one piece of memory, else the fields above are not used */
    cr_tokens **part;
    int64_t *first;                                 /* of each part; then count */
};

/* ---- bytes ---- */
static uint64_t load_token(const unsigned char *p, int width) {
    uint64_t v = 0;
    for (int i = 0; i < width; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void store_token(unsigned char *p, int width, uint64_t v) {
    for (int i = 0; i < width; i++) p[i] = (unsigned char)(v >> 8 * i);
}

static int width_for(int64_t vocabulary) { return vocabulary <= 256 ? 1 : vocabulary <= 65536 ? 2 : 4; }

/* ---- making ---- */
static void source_release(source *s) {
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    cr_os_unmap(&s->mapping);
    free(s->memory);
    free(s);
}

static cr_tokens *make_tokens(const char *op, source *from, const unsigned char *data, int width, int64_t count,
                       int64_t vocabulary) {
    cr_tokens *t = malloc(sizeof *t);
    if (!t) return cr_fail(CR_NO_MEMORY, op, "no memory for a sequence"), NULL;
    atomic_fetch_add(&from->refs, 1);
    *t = (cr_tokens){.from = from, .data = data, .width = width, .count = count, .vocabulary = vocabulary};
    return t;
}

void cr_tokens_free(cr_tokens *t) {
    if (!t || cr_stale("tokens_free", "the tokens", t)) return;
    for (int i = 0; i < t->parts; i++) cr_tokens_free(t->part[i]);
    free(t->part);
    free(t->first);
    source_release(t->from);
    cr_retire(t);
}

/* ---- parts */
/* Takes the parts, also after a failure. */
static cr_tokens *make_joined(const char *op, int n, cr_tokens **part, int64_t vocabulary) {
    cr_tokens *t = calloc(1, sizeof *t);
    int64_t *first = calloc((size_t)n + 1, sizeof *first);
    bool good = t && first;
    for (int i = 0; i < n; i++) {
        good &= part[i] != NULL;
        if (good) first[i + 1] = first[i] + part[i]->count;
    }
    if (good) {
        *t = (cr_tokens){.count = first[n], .vocabulary = vocabulary, .parts = n, .part = part, .first = first};
        return t;
    }
    if (!cr_error()) cr_fail(CR_NO_MEMORY, op, "no memory for %d parts", n);
    for (int i = 0; i < n; i++) cr_tokens_free(part[i]);
    free(part);
    free(first);
    free(t);
    return NULL;
}

/* The part of token i, below count. */
static int part_of(const cr_tokens *t, int64_t i) {
    int low = 0, high = t->parts;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (t->first[middle] <= i) low = middle;
        else high = middle;
    }
    return low;
}

static uint64_t token_at(const cr_tokens *t, int64_t i) {
    if (!t->parts) return load_token(t->data + i * t->width, t->width);
    const int k = part_of(t, i);
    return token_at(t->part[k], i - t->first[k]);
}

/* The tokens [start, stop) of the parts, which begin at first[i]. */
static cr_tokens *join_tokens(const char *op, int n, cr_tokens *const *parts, const int64_t *first, int64_t start,
                              int64_t stop) {
    cr_tokens **part = calloc((size_t)n + 1, sizeof *part);
    if (!part) return cr_fail(CR_NO_MEMORY, op, "no memory for %d parts", n), NULL;
    for (int i = 0; i < n; i++) {
        const int64_t all = parts[i]->count, from = start - first[i], to = stop - first[i];
        const int64_t low = from < 0 ? 0 : from < all ? from : all, high = to < 0 ? 0 : to < all ? to : all;
        part[i] = cr_tokens_slice(parts[i], low, high);
    }
    return make_joined(op, n, part, parts[0]->vocabulary);
}

cr_tokens *cr_tokens_join(int n, const cr_tokens *const *parts) {
    static const char op[] = "tokens_join";
    if (n < 1 || !parts) return cr_fail(CR_BAD_VALUE, op, "%d sequences: at least one is needed", n), NULL;
    for (int i = 0; i < n; i++) {
        if (cr_lacks(op, "a sequence", parts[i])) return NULL;
        if (parts[i]->vocabulary == parts[0]->vocabulary) continue;
        cr_fail(CR_BAD_VALUE, op, "sequence %d has a vocabulary of %lld, the first one of %lld", i,
                (long long)parts[i]->vocabulary, (long long)parts[0]->vocabulary);
        return NULL;
    }
    cr_tokens **part = calloc((size_t)n, sizeof *part);
    if (!part) return cr_fail(CR_NO_MEMORY, op, "no memory for %d parts", n), NULL;
    for (int i = 0; i < n; i++) part[i] = cr_tokens_slice(parts[i], 0, parts[i]->count);
    return make_joined(op, n, part, parts[0]->vocabulary);
}

static cr_status check_vocabulary(const char *op, int64_t vocabulary) {
    if (vocabulary >= 1 && vocabulary <= (INT64_C(1) << 32)) return CR_OK;
    return cr_fail(CR_BAD_VALUE, op, "the vocabulary must be between 1 and 2^32, not %lld", (long long)vocabulary);
}

cr_tokens *cr_tokens_new(const uint32_t *ids, int64_t n, int64_t vocabulary) {
    static const char op[] = "tokens_new";
    if (n < 0) return cr_fail(CR_BAD_VALUE, op, "n must be at least 0, not %lld", (long long)n), NULL;
    if (!ids && n) return cr_fail_null(op, "ids"), NULL;
    if (check_vocabulary(op, vocabulary)) return NULL;
    const int width = width_for(vocabulary);
    source *s = n <= INT64_MAX / 8 ? calloc(1, sizeof *s) : NULL;
    if (s) s->memory = malloc((size_t)n * (size_t)width + 1);
    if (!s || !s->memory) {
        free(s);
        return cr_fail(CR_NO_MEMORY, op, "no memory for %lld tokens", (long long)n), NULL;
    }
    atomic_init(&s->refs, 1);
    int64_t bad = -1;
    for (int64_t i = 0; i < n && bad < 0; i++) {
        store_token(s->memory + i * width, width, ids[i]);
        if (ids[i] >= vocabulary) bad = i;
    }
    if (bad >= 0)
        cr_fail(CR_BAD_VALUE, op, "token %u at %lld is not below the vocabulary of %lld", ids[bad], (long long)bad,
                (long long)vocabulary);
    cr_tokens *t = bad < 0 ? make_tokens(op, s, s->memory, width, n, vocabulary) : NULL;
    source_release(s);
    return t;
}

/* ---- files ---- */
static cr_tokens *open_mapping(const char *op, const char *path, source *s) {
    const cr_mapping *m = &s->mapping;
    if (m->bytes < HEADER || memcmp(m->data, magic, sizeof magic))
        return cr_fail(CR_IO, op,
                       "'%s' is not a token file: it does not start with \"CRTOKENS\" and a header of %d bytes", path,
                       HEADER),
               NULL;
    const uint64_t version = load_token(m->data + 8, 4), width = load_token(m->data + 12, 4),
                   vocabulary = load_token(m->data + 16, 8), count = load_token(m->data + 24, 8);
    if (version != VERSION)
        return cr_fail(CR_IO, op, "'%s' has version %llu, this library reads %d", path, (unsigned long long)version,
                       VERSION),
               NULL;
    if (width != 1 && width != 2 && width != 4)
        return cr_fail(CR_IO, op, "'%s' says %llu bytes a token: 1, 2 or 4", path, (unsigned long long)width), NULL;
    if (vocabulary < 1 || vocabulary > UINT64_C(1) << 8 * width)
        return cr_fail(CR_IO, op, "'%s' says a vocabulary of %llu, with %llu bytes a token", path,
                       (unsigned long long)vocabulary, (unsigned long long)width),
               NULL;
    const size_t bytes = m->bytes - HEADER;
    if (bytes % width || count != bytes / width)
        return cr_fail(CR_IO, op, "'%s' says %llu tokens of %llu bytes, it holds %zu bytes of them", path,
                       (unsigned long long)count, (unsigned long long)width, bytes),
               NULL;
    return make_tokens(op, s, m->data + HEADER, (int)width, (int64_t)count, (int64_t)vocabulary);
}

cr_tokens *cr_tokens_open(const char *path) {
    static const char op[] = "tokens_open";
    if (!path) return cr_fail_null(op, "the path"), NULL;
    source *s = calloc(1, sizeof *s);
    if (!s) return cr_fail(CR_NO_MEMORY, op, "no memory for '%s'", path), NULL;
    atomic_init(&s->refs, 1);
    cr_tokens *t = cr_file_map(op, path, false, &s->mapping) ? NULL : open_mapping(op, path, s);
    source_release(s);
    return t;
}

static cr_status write_tokens(cr_file *f, const cr_tokens *t, int width) {
    unsigned char piece[4 * PIECE];
    cr_status status = CR_OK;
    for (int64_t from = 0; from < t->count; from += PIECE) {
        if (status != CR_OK) break;
        const int64_t n = t->count - from < PIECE ? t->count - from : PIECE;
        for (int64_t i = 0; i < n; i++) {
            if (status != CR_OK) break;
            const uint64_t id = token_at(t, from + i);
            if ((int64_t)id >= t->vocabulary)
                status = cr_fail(CR_BAD_VALUE, f->op, "token %llu at %lld is not below the vocabulary of %lld",
                                 (unsigned long long)id, (long long)(from + i), (long long)t->vocabulary);
            store_token(piece + i * width, width, id);
        }
        if (status == CR_OK) status = cr_file_write(f, piece, (size_t)n * (size_t)width);
    }
    return status;
}

cr_status cr_tokens_save(const cr_tokens *t, const char *path) {
    static const char op[] = "tokens_save";
    if (cr_lacks(op, "the tokens", t)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    const int width = width_for(t->vocabulary);
    unsigned char header[HEADER];
    memcpy(header, magic, sizeof magic);
    store_token(header + 8, 4, VERSION);
    store_token(header + 12, 4, (uint64_t)width);
    store_token(header + 16, 8, (uint64_t)t->vocabulary);
    store_token(header + 24, 8, (uint64_t)t->count);
    cr_file f;
    cr_status status = cr_file_create(&f, op, path);
    if (status == CR_OK) status = cr_file_write(&f, header, HEADER);
    if (status == CR_OK) status = write_tokens(&f, t, width);
    if (status == CR_OK) return cr_file_commit(&f);
    cr_file_abandon(&f);
    return status;
}

/* ---- reading ---- */
cr_tokens *cr_tokens_slice(const cr_tokens *t, int64_t start, int64_t stop) {
    static const char op[] = "tokens_slice";
    if (cr_lacks(op, "the tokens", t)) return NULL;
    if (start < 0 || start > stop || stop > t->count)
        return cr_fail(CR_BAD_INDEX, op, "[%lld, %lld) does not lie in [0, %lld)", (long long)start, (long long)stop,
                       (long long)t->count),
               NULL;
    if (t->parts)
        return join_tokens(op, t->parts, t->part, t->first, start, stop);
    return make_tokens(op, t->from, t->data + start * t->width, t->width, stop - start, t->vocabulary);
}

int64_t cr_tokens_count(const cr_tokens *t) { return cr_lacks("tokens_count", "the tokens", t) ? -1 : t->count; }
int64_t cr_tokens_vocabulary(const cr_tokens *t) {
    return cr_lacks("tokens_vocabulary", "the tokens", t) ? -1 : t->vocabulary;
}

uint32_t cr_tokens_at(const cr_tokens *t, int64_t i) {
    static const char op[] = "tokens_at";
    if (cr_lacks(op, "the tokens", t)) return UINT32_MAX;
    if (i < 0 || i >= t->count)
        return cr_fail(CR_BAD_INDEX, op, "index %lld is not in [0, %lld)", (long long)i, (long long)t->count),
               UINT32_MAX;
    const uint64_t id = token_at(t, i);
    if ((int64_t)id < t->vocabulary) return (uint32_t)id;
    return cr_fail(CR_BAD_VALUE, op, "token %llu at %lld is not below the vocabulary of %lld", (unsigned long long)id,
                   (long long)i, (long long)t->vocabulary),
           UINT32_MAX;
}

int64_t cr_tokens_fetch(const cr_tokens *t, int64_t start, int64_t n, int64_t *out) {
    for (int64_t k = 0; t->parts && k < n;) {       /* from part to part */
        const int i = part_of(t, start + k);
        const int64_t left = t->first[i + 1] - (start + k), some = n - k < left ? n - k : left;
        const int64_t bad = cr_tokens_fetch(t->part[i], start + k - t->first[i], some, out + k);
        if (bad >= 0) return bad + t->first[i];
        k += some;
    }
    for (int64_t k = 0; !t->parts && k < n; k++) {
        out[k] = (int64_t)load_token(t->data + (start + k) * t->width, t->width);
        if (out[k] >= t->vocabulary) return start + k;
    }
    return -1;
}
