/* tokenizer.c - text to token numbers and back: bytes, or the code points of one text.  On disk a small JSON object:
 *   {"format": "chainrule-tokenizer", "version": 1, "kind": "bytes"}
 *   {"format": "chainrule-tokenizer", "version": 1, "kind": "chars", "characters": "\n !,.abc"}
 *   token i is the i-th code point */
#include <chainrule.h>

#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/file.h"
#include "../io/json.h"
#include "../io/utf8.h"

struct cr_tokenizer {
    bool chars;
    int64_t size;
    uint32_t *codes;                                /* chars: ascending, size of them */
};

static cr_tokenizer *make(const char *op, bool chars, int64_t size) {
    cr_tokenizer *t = calloc(1, sizeof *t);
    if (t && chars) t->codes = malloc(((size_t)size + 1) * sizeof *t->codes);
    if (!t || (chars && !t->codes)) {
        free(t);
        return cr_fail(CR_NO_MEMORY, op, "no memory for %lld tokens", (long long)size), NULL;
    }
    t->chars = chars;
    t->size = size;
    return t;
}

void cr_tokenizer_free(cr_tokenizer *t) {
    if (!t || cr_stale("tokenizer_free", "the tokenizer", t)) return;
    free(t->codes);
    cr_retire(t);
}

cr_tokenizer *cr_tokenizer_bytes(void) { return make("tokenizer_bytes", false, 256); }

/* ---- chars ---- */
enum { CODES = 0x110000 };

/* Marks the code points of text in a set of CODES bits.  Returns the number of new ones, or -1 and a
 * message with the offset of the first byte that is not UTF-8. */
static int64_t collect(const char *op, const char *text, size_t bytes, unsigned char *set) {
    int64_t n = 0;
    uint32_t c = 0;
    for (size_t at = 0; at < bytes;) {
        const int step = cr_utf8_decode((const unsigned char *)text + at, bytes - at, &c);
        if (!step) return cr_fail(CR_BAD_VALUE, op, "the text is not UTF-8 at byte %zu of %zu", at, bytes), -1;
        const unsigned char bit = (unsigned char)(1u << (c & 7));
        if (!(set[c >> 3] & bit)) { set[c >> 3] |= bit; n++; }
        at += (size_t)step;
    }
    return n;
}

cr_tokenizer *cr_tokenizer_chars(const char *text, size_t bytes) {
    static const char op[] = "tokenizer_chars";
    if (!text) return cr_fail_null(op, "the text"), NULL;
    if (!bytes) return cr_fail(CR_BAD_VALUE, op, "the text is empty: there would be no token"), NULL;
    unsigned char *set = calloc(CODES / 8, 1);
    if (!set) return cr_fail(CR_NO_MEMORY, op, "no memory for the set of characters"), NULL;
    const int64_t n = collect(op, text, bytes, set);
    cr_tokenizer *t = n > 0 ? make(op, true, n) : NULL;
    int64_t used = 0;
    for (uint32_t c = 0; t && used < n; c++) {
        if (!set[c >> 3]) c |= 7;                   /* none of these eight */
        else if (set[c >> 3] >> (c & 7) & 1) t->codes[used++] = c;
    }
    free(set);
    return t;
}

/* ---- text to numbers ---- */
static int64_t token_of(const cr_tokenizer *t, uint32_t code) {        /* -1: no token */
    int64_t low = 0, high = t->size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (t->codes[middle] < code) low = middle + 1;
        else high = middle;
    }
    return low < t->size && t->codes[low] == code ? low : -1;
}

int64_t cr_tokenizer_size(const cr_tokenizer *t) {
    return cr_lacks("tokenizer_size", "the tokenizer", t) ? -1 : t->size;
}

static int64_t encode_chars(const cr_tokenizer *t, const char *text, size_t bytes, uint32_t *ids, int64_t room) {
    static const char op[] = "tokenizer_encode";
    int64_t n = 0, ascii[128];
    uint32_t code = 0;
    for (uint32_t c = 0; c < 128; c++) ascii[c] = token_of(t, c);
    for (size_t at = 0; at < bytes; n++) {
        const int step = cr_utf8_decode((const unsigned char *)text + at, bytes - at, &code);
        if (!step) return cr_fail(CR_BAD_VALUE, op, "the text is not UTF-8 at byte %zu of %zu", at, bytes), -1;
        const int64_t id = code < 128 ? ascii[code] : token_of(t, code);
        if (id < 0)
            return cr_fail(CR_BAD_VALUE, op,
                           "U+%04X '%.*s' at byte %zu is not among the %lld characters of this tokenizer",
                           (unsigned)code, code < 32 ? 0 : step, text + at, at, (long long)t->size),
                   -1;
        if (n < room) ids[n] = (uint32_t)id;
        at += (size_t)step;
    }
    return n;
}

int64_t cr_tokenizer_encode(const cr_tokenizer *t, const char *text, size_t bytes, uint32_t *ids, int64_t room) {
    static const char op[] = "tokenizer_encode";
    if (cr_lacks(op, "the tokenizer", t)) return -1;
    if (!text && bytes) return cr_fail_null(op, "the text"), -1;
    if (room < 0) return cr_fail(CR_BAD_VALUE, op, "room must be at least 0, not %lld", (long long)room), -1;
    if (!ids && room) return cr_fail_null(op, "ids"), -1;
    if (t->chars) return encode_chars(t, text, bytes, ids, room);
    for (size_t i = 0; i < bytes && (int64_t)i < room; i++) ids[i] = (unsigned char)text[i];
    return (int64_t)bytes;
}

int64_t cr_tokenizer_decode(const cr_tokenizer *t, const uint32_t *ids, int64_t n, char *text, size_t room) {
    static const char op[] = "tokenizer_decode";
    if (cr_lacks(op, "the tokenizer", t)) return -1;
    if (n < 0) return cr_fail(CR_BAD_VALUE, op, "n must be at least 0, not %lld", (long long)n), -1;
    if (!ids && n) return cr_fail_null(op, "ids"), -1;
    if (!text && room) return cr_fail_null(op, "text"), -1;
    size_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        char c[4];
        if (ids[i] >= t->size)
            return cr_fail(CR_BAD_INDEX, op, "token %u at %lld is not below the vocabulary of %lld", ids[i],
                           (long long)i, (long long)t->size),
                   -1;
        const int bytes = t->chars ? cr_utf8_encode(t->codes[ids[i]], c) : (c[0] = (char)ids[i], 1);
        for (int k = 0; k < bytes; k++, at++) if (at < room) text[at] = c[k];
    }
    return (int64_t)at;
}

/* ---- files ---- */
cr_status cr_tokenizer_save(const cr_tokenizer *t, const char *path) {
    static const char op[] = "tokenizer_save";
    if (cr_lacks(op, "the tokenizer", t)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    cr_out o = {0}, characters = {0};
    for (int64_t i = 0; t->chars && i < t->size; i++) {
        char c[4];
        cr_out_put(&characters, c, (size_t)cr_utf8_encode(t->codes[i], c));
    }
    cr_out_format(&o, "{\"format\": \"chainrule-tokenizer\", \"version\": 1, \"kind\": \"%s\"",
                  t->chars ? "chars" : "bytes");
    if (t->chars) cr_out_format(&o, ", \"characters\": ");
    if (t->chars) cr_out_string(&o, characters.text ? characters.text : "", characters.bytes);
    cr_out_format(&o, "}\n");
    cr_status status = cr_out_check(&characters, op, path);
    if (status == CR_OK) status = cr_out_check(&o, op, path);
    if (status == CR_OK) status = cr_file_save(op, path, o.text, o.bytes);
    cr_out_free(&characters);
    cr_out_free(&o);
    return status;
}

static bool is_text(const cr_json *v, const char *text) {
    return v && v->kind == CR_JSON_STRING && v->bytes == strlen(text) && !memcmp(v->text, text, v->bytes);
}

static cr_tokenizer *from_json(const char *op, const char *path, const cr_json *root) {
    const cr_json *version = cr_json_get(root, "version"), *kind = cr_json_get(root, "kind"),
                  *characters = cr_json_get(root, "characters");
    if (!is_text(cr_json_get(root, "format"), "chainrule-tokenizer"))
        return cr_fail(CR_IO, op, "'%s' is not a tokenizer: its \"format\" is not \"chainrule-tokenizer\"", path), NULL;
    if (!version || !version->integral || version->integer != 1)
        return cr_fail(CR_IO, op, "'%s': its \"version\" must be 1", path), NULL;
    if (is_text(kind, "bytes")) return make(op, false, 256);
    if (!is_text(kind, "chars"))
        return cr_fail(CR_IO, op, "'%s': its \"kind\" must be \"bytes\" or \"chars\"", path), NULL;
    if (!characters || characters->kind != CR_JSON_STRING || !characters->bytes)
        return cr_fail(CR_IO, op, "'%s': its \"characters\" must be a string that is not empty", path), NULL;
    cr_tokenizer *t = make(op, true, (int64_t)characters->bytes);       /* at most */
    if (!t) return NULL;
    t->size = 0;
    for (size_t at = 0; at < characters->bytes; t->size++) {
        uint32_t *code = &t->codes[t->size];
        /* valid: the JSON reader has checked it */
        at += (size_t)cr_utf8_decode((const unsigned char *)characters->text + at, characters->bytes - at, code);
        if (t->size && code[-1] >= *code) {
            cr_fail(CR_IO, op, "'%s': its \"characters\" must ascend: U+%04X follows U+%04X", path, (unsigned)*code,
                    (unsigned)code[-1]);
            cr_tokenizer_free(t);
            return NULL;
        }
    }
    return t;
}

cr_tokenizer *cr_tokenizer_load(const char *path) {
    static const char op[] = "tokenizer_load";
    cr_mapping m;
    if (!path) return cr_fail_null(op, "the path"), NULL;
    if (cr_file_map(op, path, false, &m)) return NULL;
    cr_json *root = cr_json_parse(op, path, m.data, m.bytes);
    cr_tokenizer *t = root ? from_json(op, path, root) : NULL;
    cr_json_free(root);
    cr_os_unmap(&m);
    return t;
}
