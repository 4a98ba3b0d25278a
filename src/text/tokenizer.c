/* tokenizer.c - text to token numbers and back: bytes, the code points of one text, or a learned vocabulary
 * (pipeline.h). A learned one is a tokenizer.json on disk, the other two a small JSON object:
 *   {"format": "chainrule-tokenizer", "version": 1, "kind": "bytes"}
 *   {"format": "chainrule-tokenizer", "version": 1, "kind": "chars", "characters": "\n !,.abc"}
 *   token i is the i-th code point */
#include <chainrule.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../core/status.h"
#include "../io/file.h"
#include "../io/gguf.h"
#include "../io/json.h"
#include "../core/utf8.h"
#include "pipeline.h"
#include "tokenizer.h"

struct cr_tokenizer {
    bool chars;
    int64_t size;
    uint32_t *codes;                                /* chars: ascending, size of them */
    cr_pipeline *pipeline;                          /* NULL: bytes or chars */
};

static cr_tokenizer *make_tokenizer(const char *op, bool chars, int64_t size) {
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
    cr_pipeline_free(t->pipeline);
    cr_retire(t);
}

static cr_tokenizer *tokenizer_over(const char *op, cr_pipeline *p) {
    cr_tokenizer *t = p ? make_tokenizer(op, false, p->size) : NULL;
    if (t) t->pipeline = p;
    else cr_pipeline_free(p);
    return t;
}

cr_tokenizer *cr_tokenizer_of(const char *op, const char *path, char *text, size_t bytes, bool sentencepiece) {
    return tokenizer_over(op, cr_pipeline_new(op, path, text, bytes, sentencepiece));
}

const cr_pipeline *cr_tokenizer_pipeline(const cr_tokenizer *t) { return t->pipeline; }
bool cr_tokenizer_is_bytes(const cr_tokenizer *t) { return !t->pipeline && !t->chars; }

cr_tokenizer *cr_tokenizer_bytes(void) { return make_tokenizer("tokenizer_bytes", false, 256); }

/* ---- chars ---- */
enum { CODES = 0x110000 };

/* Marks the code points of text in a set of CODES bits.  Returns the number of new ones, or -1 and a
 * message with the offset of the first byte that is not UTF-8. */
static int64_t collect_characters(const char *op, const char *text, size_t bytes, unsigned char *set) {
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
    const int64_t n = collect_characters(op, text, bytes, set);
    cr_tokenizer *t = n > 0 ? make_tokenizer(op, true, n) : NULL;
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

static int64_t encode_chars(const char *op, const cr_tokenizer *t, const char *text, size_t bytes, uint32_t *ids,
                            int64_t room) {
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

static cr_status check_encode(const char *op, const cr_tokenizer *t, const void *text, size_t bytes,
                              const cr_encoding *o) {
    if (cr_lacks(op, "the tokenizer", t)) return cr_error_status();
    if (!text && bytes) return cr_fail_null(op, "the text");
    if (!o) return cr_fail_null(op, "the options");
    if (!o->special && o->n_special) return cr_fail_null(op, "the special tokens");
    const int64_t behind = o->add_special && t->pipeline ? cr_pipeline_behind(t->pipeline) : 0;
    if (o->max_length < 0 || (o->max_length && o->max_length <= behind))
        return cr_fail(CR_BAD_VALUE, op, "max_length must be above %lld, the tokens behind a text, not %lld",
                       (long long)behind, (long long)o->max_length);
    return CR_OK;
}

/* Cuts a text to max_length ids, as sentence-transformers does. */
static void truncate_ids(const cr_tokenizer *t, const cr_encoding *o, cr_ids *ids) {
    if (!o->max_length || ids->n <= o->max_length) return;
    const int64_t behind = o->add_special && t->pipeline ? cr_pipeline_behind(t->pipeline) : 0;
    memmove(ids->at + o->max_length - behind, ids->at + ids->n - behind, (size_t)behind * sizeof *ids->at);
    ids->n = o->max_length;
}

/* All ids, whatever the kind.  threads 0: on another thread than the caller's. */
static bool encode_whole(const char *op, const cr_tokenizer *t, const char *text, size_t bytes, const cr_encoding *o,
                         int threads, cr_ids *out) {
    if (t->pipeline) return cr_pipeline_encode(t->pipeline, op, text, bytes, o, threads, out);
    if (!cr_ids_reserve(out, (int64_t)bytes))
        return cr_fail(CR_NO_MEMORY, op, "no memory for the tokens of %zu bytes", bytes), false;
    if (t->chars) return (out->n = encode_chars(op, t, text, bytes, out->at, out->room)) >= 0;
    for (size_t i = 0; i < bytes; i++) out->at[i] = (unsigned char)text[i];
    out->n = (int64_t)bytes;
    return true;
}

static bool encode_text(const char *op, const cr_tokenizer *t, const char *text, size_t bytes, const cr_encoding *o,
                        int threads, cr_ids *out) {
    if (!encode_whole(op, t, text, bytes, o, threads, out)) return false;
    truncate_ids(t, o, out);
    return true;
}

int64_t cr_tokenizer_encode(const cr_tokenizer *t, const char *text, size_t bytes, uint32_t *ids, int64_t room) {
    static const char op[] = "tokenizer_encode";
    static const cr_encoding plain;
    if (check_encode(op, t, text, bytes, &plain)) return -1;
    if (room < 0) return cr_fail(CR_BAD_VALUE, op, "room must be at least 0, not %lld", (long long)room), -1;
    if (!ids && room) return cr_fail_null(op, "ids"), -1;
    if (t->pipeline) {
        cr_ids all = {0};
        const bool ok = encode_text(op, t, text, bytes, &plain, cr_num_threads(), &all);
        const int64_t n = all.n < room ? all.n : room;
        if (ok && n) memcpy(ids, all.at, (size_t)n * sizeof *ids);
        free(all.at);
        return ok ? all.n : -1;
    }
    if (t->chars) return encode_chars(op, t, text, bytes, ids, room);
    for (size_t i = 0; i < bytes && (int64_t)i < room; i++) ids[i] = (unsigned char)text[i];
    return (int64_t)bytes;
}

uint32_t *cr_tokenizer_encode_special(const cr_tokenizer *t, const char *text, size_t bytes, const cr_encoding *o,
                                      int64_t *n) {
    static const char op[] = "tokenizer_encode_special";
    cr_ids all = {0};
    if (!n) return cr_fail_null(op, "n"), NULL;
    *n = 0;
    if (check_encode(op, t, text, bytes, o)) return NULL;
    if (encode_text(op, t, text, bytes, o, cr_num_threads(), &all) && cr_ids_reserve(&all, 1)) {
        *n = all.n;
        return all.at;
    }
    if (all.failed) cr_fail(CR_NO_MEMORY, op, "no memory for the tokens of %zu bytes", bytes);
    free(all.at);
    return NULL;
}

uint32_t *cr_tokenizer_encode_parts(const cr_tokenizer *t, const char *text, size_t bytes, const cr_encoding *o,
                                    int64_t parts, const int64_t *end, int64_t *at, int64_t *n) {
    static const char op[] = "tokenizer_encode_parts";
    if (parts < 0 || (parts && (!end || !at)))
        return cr_fail(CR_BAD_VALUE, op, "cannot read %lld parts", (long long)parts), NULL;
    for (int64_t i = 0; i < parts; i++)
        if (end[i] < (i ? end[i - 1] : 0) || end[i] > (int64_t)bytes)
            return cr_fail(CR_BAD_VALUE, op, "part %lld ends at byte %lld of %zu, the one before at %lld", (long long)i,
                           (long long)end[i], bytes, (long long)(i ? end[i - 1] : 0)), NULL;
    uint32_t *ids = cr_tokenizer_encode_special(t, text, bytes, o, n);
    for (int64_t i = 0, k = 0; i < parts && ids; i++) {
        int64_t some, same = 0;
        uint32_t *part = cr_tokenizer_encode_special(t, text, (size_t)end[i], o, &some);
        while (part && same < some && same < *n && part[same] == ids[same]) same++;
        if (same > k) k = same;
        at[i] = k;
        if (!part) {
            free(ids);
            ids = NULL;
        }
        free(part);
    }
    return ids;
}

/* ---- many texts ---- */
typedef struct batch {
    const cr_tokenizer *t;
    const char *const *text; const size_t *bytes;
    const cr_encoding *o;
    cr_ids *ids;
    int64_t n;
    atomic_llong next, failed;                      /* failed: the first text that a thread could not encode; n: none */
} batch;

static void encode_some(batch *b, int threads) {
    static const char op[] = "tokenizer_encode_batch";
    for (int64_t i; (i = atomic_fetch_add(&b->next, 1)) < b->n && atomic_load(&b->failed) == b->n;)
        if (!encode_text(op, b->t, b->text[i], b->bytes[i], b->o, threads, &b->ids[i]) ||
            !cr_ids_reserve(&b->ids[i], 1)) {
            long long none = b->n;
            atomic_compare_exchange_strong(&b->failed, &none, i);
        }
}

/* Its message is lost with the thread, so the caller's encodes the failed text again. */
static void run_batch(void *arg) {
    encode_some(arg, 0);
    cr_error_clear();
}

cr_status cr_tokenizer_encode_batch(const cr_tokenizer *t, int64_t texts, const char *const *text, const size_t *bytes,
                                    const cr_encoding *o, uint32_t **ids, int64_t *n) {
    static const char op[] = "tokenizer_encode_batch";
    enum { MOST = 64 };
    if (texts < 0) return cr_fail(CR_BAD_VALUE, op, "texts must be at least 0, not %lld", (long long)texts);
    if (texts && (!text || !bytes || !ids || !n)) return cr_fail_null(op, !text ? "text" : !bytes ? "bytes"
                                                                      : "ids or n");
    for (int64_t i = 0; i < texts; i++) {
        cr_status status = check_encode(op, t, text[i], bytes[i], o);
        if (status != CR_OK) return status;
    }
    cr_thread *thread[MOST] = {NULL};
    batch b = {.t = t, .text = text, .bytes = bytes, .o = o, .n = texts, .next = 0, .failed = texts};
    size_t all = 0;
    for (int64_t i = 0; i < texts; i++) all += bytes[i];
    const int most = cr_num_threads() < MOST ? cr_num_threads() : MOST,
              threads = all >> 14 < (size_t)most ? (int)(all >> 14) : most;        /* 16 KB pay for a thread */
    b.ids = calloc((size_t)texts + 1, sizeof *b.ids);
    if (!b.ids) return cr_fail(CR_NO_MEMORY, op, "no memory for %lld texts", (long long)texts);
    for (int i = 1; i < threads; i++) thread[i] = cr_thread_start(run_batch, &b);
    encode_some(&b, texts < most ? most : 1);
    for (int i = 1; i < threads; i++) if (thread[i]) cr_thread_join(thread[i]);
    const int64_t failed = atomic_load(&b.failed);
    cr_status status = CR_OK;
    if (failed < texts) {
        b.ids[failed].n = 0;
        if (!cr_error()) encode_text(op, t, text[failed], bytes[failed], o, 1, &b.ids[failed]);
        status = cr_error() ? cr_error_status() : cr_fail(CR_NO_MEMORY, op, "no memory for text %lld",
                                                          (long long)failed);
    }
    for (int64_t i = 0; i < texts; i++) {
        if (status != CR_OK) free(b.ids[i].at);
        ids[i] = status == CR_OK ? b.ids[i].at : NULL;
        n[i] = status == CR_OK ? b.ids[i].n : 0;
    }
    free(b.ids);
    return status;
}

/* ---- numbers to text ---- */
static cr_status check_id(const char *op, const cr_tokenizer *t, uint32_t id, int64_t at) {
    if (id >= t->size)
        return cr_fail(CR_BAD_INDEX, op, "token %u at %lld is not below the vocabulary of %lld", id, (long long)at,
                       (long long)t->size);
    return cr_fail(CR_BAD_INDEX, op, "token %u at %lld has no text: the vocabulary skips this number", id,
                   (long long)at);
}

/* Appends the text of one id; false: it is outside of the vocabulary. */
static bool decode_one(const cr_tokenizer *t, cr_decode_state *state, uint32_t id, cr_out *out) {
    char c[4];
    if (t->pipeline) return cr_pipeline_decode(t->pipeline, state, id, out);
    if (id >= t->size) return false;
    const int n = t->chars ? cr_utf8_encode(t->codes[id], c) : (c[0] = (char)id, 1);
    cr_out_put(out, c, (size_t)n);
    return true;
}

int64_t cr_tokenizer_decode(const cr_tokenizer *t, const uint32_t *ids, int64_t n, char *text, size_t room) {
    static const char op[] = "tokenizer_decode";
    if (cr_lacks(op, "the tokenizer", t)) return -1;
    if (n < 0) return cr_fail(CR_BAD_VALUE, op, "n must be at least 0, not %lld", (long long)n), -1;
    if (!ids && n) return cr_fail_null(op, "ids"), -1;
    if (!text && room) return cr_fail_null(op, "text"), -1;
    cr_out piece = {0};
    cr_decode_state state = {0};
    size_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        piece.bytes = 0;
        if (!decode_one(t, &state, ids[i], &piece)) { cr_out_free(&piece); return check_id(op, t, ids[i], i), -1; }
        if (piece.failed) { cr_out_free(&piece); return cr_fail(CR_NO_MEMORY, op, "no memory for token %u", ids[i]),
                           -1; }
        const size_t left = at < room ? room - at : 0, some = piece.bytes < left ? piece.bytes : left;
        if (some) memcpy(text + at, piece.text, some);
        at += piece.bytes;
    }
    cr_out_free(&piece);
    return (int64_t)at;
}

/* ---- a stream of numbers ---- */
struct cr_decoder {
    const cr_tokenizer *t;
    cr_decode_state state;
    int64_t count;
    cr_out text; size_t given;                      /* bytes that wait for the end of a character; given: those that the
                                                     * last call returned */
};

cr_decoder *cr_decoder_new(const cr_tokenizer *t) {
    static const char op[] = "decoder_new";
    if (cr_lacks(op, "the tokenizer", t)) return NULL;
    cr_decoder *d = calloc(1, sizeof *d);
    if (!d) return cr_fail(CR_NO_MEMORY, op, "no memory for a decoder"), NULL;
    d->t = t;
    return d;
}

void cr_decoder_free(cr_decoder *d) {
    if (!d || cr_stale("decoder_free", "the decoder", d)) return;
    cr_out_free(&d->text);
    cr_retire(d);
}

/* Bytes at the end of s that begin a character of more bytes. */
static size_t unfinished_bytes(const char *s, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char c = (unsigned char)s[n - back];
        if ((c & 0xC0) == 0x80) continue;
        const size_t bytes = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
        if (c < 0xC2 || c > 0xF4 || bytes <= back) return 0;
        if (back == 1) return 1;
        /* the second byte excludes overlong forms, surrogates, and what is above U+10FFFF */
        const unsigned char second = (unsigned char)s[n - back + 1];
        const bool bad = (c == 0xE0 && second < 0xA0) || (c == 0xED && second > 0x9F) || (c == 0xF0 && second < 0x90) ||
                         (c == 0xF4 && second > 0x8F);
        return bad ? 0 : back;
    }
    return 0;
}

static void forget_given(cr_decoder *d) {
    if (!d->given) return;
    memmove(d->text.text, d->text.text + d->given, d->text.bytes - d->given);
    d->text.bytes -= d->given;
    d->given = 0;
}

const char *cr_decoder_next(cr_decoder *d, uint32_t id, size_t *bytes) {
    static const char op[] = "decoder_next";
    if (cr_lacks(op, "the decoder", d)) return NULL;
    if (!bytes) return cr_fail_null(op, "bytes"), NULL;
    *bytes = 0;
    forget_given(d);
    if (!decode_one(d->t, &d->state, id, &d->text)) return check_id(op, d->t, id, d->count), NULL;
    if (d->text.failed) return cr_fail(CR_NO_MEMORY, op, "no memory for token %u", id), NULL;
    d->count++;
    d->given = *bytes = d->text.bytes - unfinished_bytes(d->text.text, d->text.bytes);
    return d->text.text ? d->text.text : "";
}

const char *cr_decoder_end(cr_decoder *d, size_t *bytes) {
    static const char op[] = "decoder_end";
    if (cr_lacks(op, "the decoder", d)) return NULL;
    if (!bytes) return cr_fail_null(op, "bytes"), NULL;
    forget_given(d);
    d->given = *bytes = d->text.bytes;
    d->state = (cr_decode_state){0};
    d->count = 0;
    return d->text.text ? d->text.text : "";
}

/* ---- names ---- */
int64_t cr_tokenizer_find(const cr_tokenizer *t, const char *token, size_t bytes) {
    static const char op[] = "tokenizer_find";
    if (cr_lacks(op, "the tokenizer", t)) return -1;
    if (!token && bytes) return cr_fail_null(op, "the token"), -1;
    if (t->pipeline) return cr_pipeline_find(t->pipeline, token ? token : "", bytes);
    uint32_t code = 0;
    if (!t->chars) return bytes == 1 ? (unsigned char)*token : -1;
    return bytes && cr_utf8_decode((const unsigned char *)token, bytes, &code) == (int)bytes ? token_of(t, code) : -1;
}

const char *cr_tokenizer_name(const cr_tokenizer *t, int64_t id, size_t *bytes, bool *special) {
    static const char op[] = "tokenizer_name";
    if (cr_lacks(op, "the tokenizer", t)) return NULL;
    if (!bytes) return cr_fail_null(op, "bytes"), NULL;
    if (special) *special = false;
    return t->pipeline ? cr_pipeline_name(t->pipeline, id, bytes, special) : NULL;
}

/* ---- files ---- */
cr_status cr_tokenizer_save(const cr_tokenizer *t, const char *path) {
    static const char op[] = "tokenizer_save";
    if (cr_lacks(op, "the tokenizer", t)) return cr_error_status();
    if (!path) return cr_fail_null(op, "the path");
    cr_out o = {0}, characters = {0};
    if (t->pipeline) {
        cr_status status = cr_pipeline_text(op, t->pipeline, &o);
        if (status == CR_OK) status = cr_file_save(op, path, o.text, o.bytes);
        cr_out_free(&o);
        return status;
    }
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

static cr_tokenizer *from_json(const char *op, const char *path, const cr_json *root) {
    const cr_json *version = cr_json_get(root, "version"), *kind = cr_json_get(root, "kind"),
                  *characters = cr_json_get(root, "characters");
    if (!cr_json_is(cr_json_get(root, "format"), "chainrule-tokenizer"))
        return cr_fail(CR_IO, op, "'%s' is not a tokenizer: its \"format\" is not \"chainrule-tokenizer\"", path), NULL;
    if (!version || !version->integral || version->integer != 1)
        return cr_fail(CR_IO, op, "'%s': its \"version\" must be 1", path), NULL;
    if (cr_json_is(kind, "bytes")) return make_tokenizer(op, false, 256);
    if (!cr_json_is(kind, "chars"))
        return cr_fail(CR_IO, op, "'%s': its \"kind\" must be \"bytes\" or \"chars\"", path), NULL;
    if (!characters || characters->kind != CR_JSON_STRING || !characters->bytes)
        return cr_fail(CR_IO, op, "'%s': its \"characters\" must be a string that is not empty", path), NULL;
    cr_tokenizer *t = make_tokenizer(op, true, (int64_t)characters->bytes);       /* at most */
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

/* ---- loading: the format by the contents ---- */
static cr_tokenizer *from_out(const char *op, const char *path, cr_out *o, cr_status status, bool sentencepiece) {
    if (status == CR_OK) status = cr_out_check(o, op, path);
    if (status == CR_OK) return cr_tokenizer_of(op, path, o->text, o->bytes, sentencepiece);
    cr_out_free(o);
    return NULL;
}

static cr_tokenizer *from_sentencepiece(const char *op, const char *path, const cr_mapping *m) {
    cr_out o = {0};
    cr_pieces pieces = {0};
    size_t head = 0;
    cr_tokenizer *t = NULL;
    cr_status status = cr_format_sentencepiece(op, path, m->data, m->bytes, &o, &head, &pieces);
    if (status == CR_OK) status = cr_out_check(&o, op, path);
    if (status == CR_OK) t = tokenizer_over(op, cr_pipeline_of_pieces(op, path, o.text, o.bytes, head, &pieces));
    else cr_out_free(&o);
    free(pieces.at);
    return t;
}

/* GPT-2's vocabulary and the merges next to it. */
static cr_tokenizer *from_bpe(const char *op, const char *path, const cr_mapping *m, const cr_json *root) {
    static const char *const names[] = {"merges.txt", "vocab.bpe"};
    char merges[4096];
    cr_out o = {0};
    for (int i = 0; i < 2; i++)
        if (cr_path_beside(path, names[i], merges) && cr_os_exists(merges))
            return from_out(op, path, &o,
                            cr_format_bpe(op, path, (const char *)m->data, m->bytes, root, merges, &o), false);
    return cr_fail(CR_IO, op, "'%s' is a vocabulary, but neither %s nor %s is next to it", path, names[0], names[1]),
        NULL;
}

static cr_tokenizer *from_object(const char *op, const char *path, const cr_mapping *m) {
    cr_json *root = cr_json_parse(op, path, m->data, m->bytes);
    const cr_json *model = cr_json_get(root, "model");
    cr_tokenizer *t = NULL;
    if (!root) return NULL;
    if (model && model->kind == CR_JSON_OBJECT) {
        char *text = malloc(m->bytes + 1);
        if (text) memcpy(text, m->data, m->bytes);
        if (text) t = cr_tokenizer_of(op, path, text, m->bytes, false);
        else cr_fail(CR_NO_MEMORY, op, "no memory for '%s' of %zu bytes", path, m->bytes);
    } else if (root->first && root->first->kind == CR_JSON_NUMBER && root->kind == CR_JSON_OBJECT) {
        t = from_bpe(op, path, m, root);            /* a vocabulary may have any word as a key */
    } else {
        t = from_json(op, path, root);
    }
    cr_json_free(root);
    return t;
}

static bool ends_with(const char *path, const char *name) {
    const size_t n = strlen(path), k = strlen(name);
    return n >= k && !strcmp(path + n - k, name);
}

static cr_tokenizer *from_file(const char *op, const char *path) {
    cr_mapping m;
    cr_out o = {0};
    if (cr_file_map(op, path, false, &m)) return NULL;
    cr_tokenizer *t;
    if (ends_with(path, "vocab.txt"))
        t = from_out(op, path, &o, cr_format_vocab_txt(op, path, (const char *)m.data, m.bytes, &o), false);
    else if (ends_with(path, ".model"))
        t = from_sentencepiece(op, path, &m);
    else if (cr_gguf_is(m.data, m.bytes)) {
        bool sentencepiece;
        const cr_status status = cr_format_gguf(path, &m, &o, &sentencepiece);
        t = from_out(op, path, &o, status, sentencepiece);
    }
    else t = from_object(op, path, &m);
    cr_os_unmap(&m);
    return t;
}

cr_tokenizer *cr_tokenizer_load(const char *path) {
    static const char op[] = "tokenizer_load";
    static const char *const names[] = {"tokenizer.json",  "vocab.json",  "encoder.json",
                                        "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                                        "vocab.txt"};
    char inside[4096];
    if (!path) return cr_fail_null(op, "the path"), NULL;
    if (!cr_os_is_directory(path)) return from_file(op, path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(inside, sizeof inside, "%s/%s", path, names[i]) < (int)sizeof inside && cr_os_exists(inside))
            return from_file(op, inside);
    return cr_fail(CR_IO, op, "'%s' has no tokenizer.json, vocab.json, encoder.json, tokenizer.model, spiece.model, "
                              "sentencepiece.bpe.model or vocab.txt",
                   path),
           NULL;
}
