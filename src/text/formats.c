/* formats.c - vocabularies in other formats, written as a tokenizer.json: GPT-2's two files, SentencePiece's model and
 * BERT's vocab.txt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../core/utf8.h"
#include "pipeline.h"

bool cr_path_beside(const char *path, const char *name, char out[4096]) {
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    return snprintf(out, 4096, "%.*s%s", folder, path, name) < 4096;
}

void cr_format_added(cr_out *out, const char *content, size_t bytes, uint32_t id, bool special, bool normalized) {
    if (out->bytes && out->text[out->bytes - 1] != '[') cr_out_put(out, ",", 1);
    cr_out_format(out, "\n{\"id\":%u,\"content\":", (unsigned)id);
    cr_out_string(out, content, bytes);
    cr_out_format(out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":%s,\"special\":%s}",
                  normalized ? "true" : "false", special ? "true" : "false");
}

void cr_format_begin(cr_out *out) {
    cr_out_format(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
}

void cr_format_byte_level(cr_out *out, const cr_byte_level *b) {
    static const char level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"trim_offsets\":true,"
                                "\"use_regex\":%s}";
    const char *space = b->prefix_space ? "true" : "false";
    int n = 0;
    while (n < CR_SPLITS && b->split[n]) n++;
    const bool gpt2 = !n || !strcmp(b->split[n - 1], cr_splitter_gpt2);        /* the last one is ByteLevel's own */
    if (n && gpt2) n--;
    cr_out_format(out, "],\n\"normalizer\":null,\n\"pre_tokenizer\":");
    if (n) cr_out_format(out, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < n; i++) {
        cr_out_format(out, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        cr_out_string(out, b->split[i], strlen(b->split[i]));
        cr_out_format(out, "},\"behavior\":\"Isolated\",\"invert\":false},");
    }
    cr_out_format(out, level, space, gpt2 ? "true" : "false");
    if (n) cr_out_format(out, "]}");
    cr_out_format(out, ",\n\"post_processor\":");
    if (b->post) cr_out_format(out, "%s", b->post);
    else cr_out_format(out, level, space, "true");
    cr_out_format(out, ",\n\"decoder\":");
    cr_out_format(out, level, space, "true");
    cr_out_format(out, ",\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                       "\"continuing_subword_prefix\":"
                       "null,\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,"
                       "\"ignore_merges\":%s,\n\"vocab\":",
                  b->whole ? "true" : "false");
}

/* ---- GPT-2: vocab.json + merges.txt, encoder.json + vocab.bpe ---- */

/* The parsed JSON of a file next to path, where there is one. */
static cr_status json_beside(const char *op, const char *path, const char *name, cr_json **root) {
    char beside[4096];
    cr_mapping m;
    *root = NULL;
    if (!cr_path_beside(path, name, beside) || !cr_os_exists(beside)) return CR_OK;
    cr_status status = cr_file_map(op, beside, false, &m);
    if (status != CR_OK) return status;
    *root = cr_json_parse(op, beside, m.data, m.bytes);
    cr_os_unmap(&m);
    return *root ? CR_OK : CR_IO;
}

static void add_known(cr_out *out, const cr_json *vocab, const cr_json *name) {
    if (name && name->kind == CR_JSON_OBJECT) name = cr_json_get(name, "content");
    const cr_json *id = name && name->kind == CR_JSON_STRING ? cr_json_get(vocab, name->text) : NULL;
    if (id && id->integral) cr_format_added(out, name->text, name->bytes, (uint32_t)id->integer, true, false);
}

/* Special tokens, by the files that may lie next to a vocabulary. */
static cr_status add_tokens(const char *op, const char *path, const cr_json *vocab, cr_out *out, bool *prefix_space) {
    static const char *const roles[] = {"bos_token", "eos_token",  "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    const cr_json end = {.kind = CR_JSON_STRING, .text = "<|endoftext|>", .bytes = 13};
    cr_json *added, *roles_map = NULL, *config = NULL;
    cr_status status = json_beside(op, path, "added_tokens.json", &added);
    if (status == CR_OK) status = json_beside(op, path, "special_tokens_map.json", &roles_map);
    if (status == CR_OK) status = json_beside(op, path, "tokenizer_config.json", &config);
    const cr_json *space = cr_json_get(config, "add_prefix_space");
    if (status == CR_OK) {
        add_known(out, vocab, &end);
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
            const cr_json *name = cr_json_get(roles_map, roles[i]);
            const cr_json *text = name && name->kind == CR_JSON_OBJECT ? cr_json_get(name, "content") : name;
            bool seen = text && text->kind == CR_JSON_STRING && !strcmp(text->text, end.text);
            for (size_t k = 0; k < i && !seen && text && text->kind == CR_JSON_STRING; k++) {
                const cr_json *other = cr_json_get(roles_map, roles[k]);
                if (other && other->kind == CR_JSON_OBJECT) other = cr_json_get(other, "content");
                seen = other && other->kind == CR_JSON_STRING && !strcmp(other->text, text->text);
            }
            if (!seen) add_known(out, vocab, name);
        }
        for (const cr_json *v = added && added->kind == CR_JSON_OBJECT ? added->first : NULL; v; v = v->next)
            if (v->kind == CR_JSON_NUMBER && v->integral && v->integer >= 0 && v->integer < CR_MOST_ID &&
                !cr_json_get(vocab, v->key))
                cr_format_added(out, v->key, v->key_bytes, (uint32_t)v->integer, true, false);
    }
    *prefix_space = space && space->kind == CR_JSON_BOOL && space->truth;
    cr_json_free(added);
    cr_json_free(roles_map);
    cr_json_free(config);
    return status;
}

/* "a b" a line, after a line with the version. */
static cr_status put_merges(const char *op, const char *path, const char *s, size_t n, cr_out *out) {
    bool any = false;
    size_t line = 0;
    for (size_t at = 0, end; at < n; at = end + 1) {
        const char *stop = memchr(s + at, '\n', n - at);
        end = stop ? (size_t)(stop - s) : n;
        size_t bytes = end - at;
        if (bytes && s[at + bytes - 1] == '\r') bytes--;
        line++;
        if (!bytes || (line == 1 && bytes >= 8 && !memcmp(s + at, "#version", 8))) continue;
        const char *space = memchr(s + at, ' ', bytes);
        if (!space || cr_utf8_valid(s + at, bytes) < bytes)
            return cr_fail(CR_IO, op, "'%s': line %zu is not two tokens in UTF-8", path, line);
        cr_out_put(out, any ? ",\n" : "\n", any ? 2 : 1);
        cr_out_string(out, s + at, bytes);
        any = true;
    }
    return CR_OK;
}

cr_status cr_format_bpe(const char *op, const char *path, const char *vocab, size_t bytes, const cr_json *root,
                        const char *merges, cr_out *out) {
    bool prefix_space;
    cr_mapping m;
    cr_format_begin(out);
    cr_status status = add_tokens(op, path, root, out, &prefix_space);
    if (status != CR_OK) return status;
    cr_format_byte_level(out, &(cr_byte_level){.prefix_space = prefix_space});
    cr_out_put(out, vocab, bytes);
    cr_out_format(out, ",\n\"merges\":[");
    if (cr_file_map(op, merges, false, &m)) return cr_error_status();
    status = put_merges(op, merges, (const char *)m.data, m.bytes, out);
    cr_os_unmap(&m);
    cr_out_format(out, "]}}\n");
    return status;
}

/* ---- SentencePiece: its protobuf (sentencepiece_model.proto) ---- */
typedef struct message { const unsigned char *at, *end; } message;
typedef struct field { uint32_t number; int wire; uint64_t value; message text; } field;

static bool varint(message *m, uint64_t *v) {
    *v = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char c = *m->at++;
        *v |= (uint64_t)(c & 0x7F) << shift;
        if (!(c & 0x80)) return true;
    }
    return false;
}

/* The next field; false: the end (at == end), or a damaged message (at == NULL). */
static bool next_field(message *m, field *f) {
    uint64_t key, length;
    *f = (field){0};
    if (m->at == m->end) return false;
    if (!varint(m, &key)) goto damaged;
    f->number = (uint32_t)(key >> 3);
    f->wire = (int)(key & 7);
    if (f->wire == 0) { if (!varint(m, &f->value)) goto damaged; return true; }
    length = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    if (f->wire == 2 && !varint(m, &length)) goto damaged;
    if (!length && f->wire != 2) goto damaged;
    if (length > (uint64_t)(m->end - m->at)) goto damaged;
    f->text = (message){m->at, m->at + length};
    for (uint64_t i = 0; f->wire != 2 && i < length; i++) f->value |= (uint64_t)m->at[i] << 8 * i;
    m->at += length;
    return true;
damaged:
    m->at = NULL;
    return false;
}

typedef struct spm {
    cr_scored *piece; int64_t n;
    int kind;                                       /* 1: Unigram, 2: BPE */
    bool byte_fallback, suffix, dummy_prefix, squeeze, escape;
    message charsmap;
    int64_t unk;
    const char *post;                               /* the post-processor; NULL: none */
} spm;

static bool read_piece(message m, cr_scored *p) {
    field f;
    *p = (cr_scored){.text = "", .type = CR_PIECE_NORMAL};
    while (next_field(&m, &f)) {
        if (f.number == 1 && f.wire == 2) p->text = (const char *)f.text.at,
            p->bytes = (size_t)(f.text.end - f.text.at);
        if (f.number == 2 && f.wire == 5) { const uint32_t bits = (uint32_t)f.value; memcpy(&p->score, &bits, 4); }
        if (f.number == 3 && f.wire == 0) 
            p->type = f.value >= CR_PIECE_NORMAL && f.value <= CR_PIECE_BYTE ? (int)f.value : CR_PIECE_NORMAL;
    }
    return m.at && isfinite(p->score) && cr_utf8_valid(p->text, p->bytes) == p->bytes;
}

static bool read_spec(message m, uint32_t of, spm *s) {
    field f;
    while (next_field(&m, &f)) {
        if (of == 2 && f.number == 3) s->kind = (int)f.value;
        if (of == 2 && f.number == 24) s->suffix = f.value != 0;
        if (of == 2 && f.number == 35) s->byte_fallback = f.value != 0;
        if (of == 3 && f.number == 2) s->charsmap = f.text;
        if (of == 3 && f.number == 3) s->dummy_prefix = f.value != 0;
        if (of == 3 && f.number == 4) s->squeeze = f.value != 0;
        if (of == 3 && f.number == 5) s->escape = f.value != 0;
    }
    return m.at != NULL;
}

static cr_status read_spm(const char *op, const char *path, const unsigned char *data, size_t bytes, spm *s) {
    message m = {data, data + bytes};
    field f;
    int64_t count = 0;
    *s = (spm){.kind = 1, .dummy_prefix = true, .squeeze = true, .escape = true, .unk = -1};
    while (next_field(&m, &f)) count += f.number == 1 && f.wire == 2;
    if (!m.at || !count || count > CR_MOST_ID)
        return cr_fail(CR_IO, op, "'%s' is no tokenizer: not JSON, and not a model of SentencePiece", path);
    s->piece = calloc((size_t)count, sizeof *s->piece);
    if (!s->piece) return cr_fail(CR_NO_MEMORY, op, "no memory for the %lld pieces of '%s'", (long long)count, path);
    bool ok = true;
    for (m.at = data; ok && next_field(&m, &f);) {
        if (f.wire != 2) continue;
        if (f.number == 1) {
            ok = read_piece(f.text, &s->piece[s->n]);
            s->piece[s->n].id = (uint32_t)s->n;
            if (ok && s->piece[s->n].type == CR_PIECE_UNKNOWN) s->unk = s->n;
            if (ok) s->n++;
        } else if (f.number == 2 || f.number == 3) {
            ok = read_spec(f.text, f.number, s);
        }
    }
    if (!ok) return cr_fail(CR_IO, op, "'%s': piece %lld, or what describes the model, is damaged", path,
                            (long long)s->n);
    if (s->kind != 1 && s->kind != 2)
        return cr_fail(CR_IO, op, "'%s': a SentencePiece model of kind %d; Unigram (1) and BPE (2) are known", path,
                       s->kind);
    if (s->suffix || !s->escape)
        return cr_fail(CR_IO, op, "'%s': SentencePiece's \"%s\" is not supported", path,
                       s->suffix ? "treat_whitespace_as_suffix" : "escape_whitespaces: false");
    return CR_OK;
}

static void put_base64(cr_out *out, message m) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (const unsigned char *p = m.at; p < m.end; p += 3) {
        const size_t left = (size_t)(m.end - p);
        const uint32_t v = (uint32_t)p[0] << 16 | (left > 1 ? (uint32_t)p[1] << 8 : 0) | (left > 2 ? p[2] : 0u);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=',
                        left > 2 ? digits[v & 63] : '='};
        cr_out_put(out, four, 4);
    }
}

static void put_normalizers(const spm *s, cr_out *out) {
    cr_out_format(out, "],\n\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (s->charsmap.at < s->charsmap.end) {
        cr_out_format(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        put_base64(out, s->charsmap);
        cr_out_format(out, "\"},");
    }
    if (s->squeeze)
        /* spaces only: SentencePiece keeps other white space at the ends */
        cr_out_format(out, "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\A +| +\\\\z\"},\"content\":\"\"},"
                           "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"},");
    if (s->dummy_prefix) cr_out_format(out, "{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"},");
    cr_out_format(out, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]},\n"
                       "\"pre_tokenizer\":null,\n\"post_processor\":%s,\n\"decoder\":{\"type\":\"Sequence\","
                       "\"decoders\":["
                       "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xE2\x96\x81\"},\"content\":\" \"},"
                       "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}",
                  s->post ? s->post : "null");
    if (s->dummy_prefix) cr_out_format(out, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    cr_out_format(out, "]},\n\"model\":{\"type\":\"%s\",\"byte_fallback\":%s,", s->kind == 1 ? "Unigram" : "BPE",
                  s->byte_fallback ? "true" : "false");
}

static void put_score(cr_out *out, float v) {       /* whatever the locale's decimal point is */
    char text[40];
    snprintf(text, sizeof text, "%.9g", (double)v);
    for (char *c = text; *c; c++) if (*c == ',') *c = '.';
    cr_out_format(out, "%s", text);
}

static void put_unigram(const spm *s, cr_out *out) {
    if (s->unk >= 0) cr_out_format(out, "\"unk_id\":%lld,", (long long)s->unk);
    else cr_out_format(out, "\"unk_id\":null,");
    cr_out_format(out, "\n\"vocab\":[");
    for (int64_t i = 0; i < s->n; i++) {
        cr_out_put(out, i ? ",\n[" : "\n[", i ? 3 : 2);
        cr_out_string(out, s->piece[i].text, s->piece[i].bytes);
        cr_out_put(out, ",", 1);
        put_score(out, s->piece[i].score);
        cr_out_put(out, "]", 1);
    }
    cr_out_format(out, "]}}\n");
}

static int by_score(const void *a, const void *b) {
    const cr_scored *x = *(const cr_scored *const *)a, *y = *(const cr_scored *const *)b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Any two pieces whose text together is a piece merge into it: in the order of its score. */
static bool put_bpe(const spm *s, cr_out *out) {
    cr_words words = {0};
    size_t bytes = 0;
    bool any = false;
    const cr_scored **sorted = malloc((size_t)s->n * sizeof *sorted);
    for (int64_t i = 0; i < s->n; i++) bytes += s->piece[i].bytes;
    bool ok = cr_words_reserve(&words, s->n, s->n, bytes) && sorted;
    if (s->unk >= 0) {
        cr_out_format(out, "\"fuse_unk\":true,\"unk_token\":");
        cr_out_string(out, s->piece[s->unk].text, s->piece[s->unk].bytes);
        cr_out_format(out, ",");
    }
    cr_out_format(out, "\n\"vocab\":{");
    for (int64_t i = 0; ok && i < s->n; i++) {
        const cr_scored *p = &s->piece[i];
        if (p->type == CR_PIECE_NORMAL)             /* a user's piece is cut out of the text before */
            cr_words_add(&words, p->id, p->text, p->bytes);
        cr_out_put(out, i ? ",\n" : "\n", i ? 2 : 1);
        cr_out_string(out, p->text, p->bytes);
        cr_out_format(out, ":%lld", (long long)i);
        sorted[i] = p;
    }
    cr_out_format(out, "},\n\"merges\":[");
    if (ok) qsort(sorted, (size_t)s->n, sizeof *sorted, by_score);
    for (int64_t i = 0; ok && i < s->n; i++) {
        const cr_scored *p = sorted[i];
        if (p->type != CR_PIECE_NORMAL) continue;
        for (size_t cut = 1; cut < p->bytes; cut++) {
            if (((unsigned char)p->text[cut] & 0xC0) == 0x80 || cr_words_find(&words, p->text, cut) == CR_NO_ID ||
                cr_words_find(&words, p->text + cut, p->bytes - cut) == CR_NO_ID)
                continue;
            cr_out_put(out, any ? ",\n[" : "\n[", any ? 3 : 2);
            cr_out_string(out, p->text, cut);
            cr_out_put(out, ",", 1);
            cr_out_string(out, p->text + cut, p->bytes - cut);
            cr_out_put(out, "]", 1);
            any = true;
        }
    }
    cr_out_format(out, "]}}\n");
    cr_words_free(&words);
    free(sorted);
    return ok;
}

static cr_status put_spm(const char *op, const char *path, const spm *s, cr_out *out) {
    cr_format_begin(out);
    for (int64_t i = 0; i < s->n; i++) {
        const cr_scored *p = &s->piece[i];
        const bool user = p->type == CR_PIECE_USER_DEFINED;
        if (user || p->type == CR_PIECE_UNKNOWN || p->type == CR_PIECE_CONTROL)
            cr_format_added(out, p->text, p->bytes, p->id, !user, user && !s->dummy_prefix);
    }
    put_normalizers(s, out);
    if (s->kind == 1) put_unigram(s, out);
    else if (!put_bpe(s, out)) return cr_fail(CR_NO_MEMORY, op, "no memory for the merges of '%s'", path);
    return CR_OK;
}

cr_status cr_format_sentencepiece(const char *op, const char *path, const unsigned char *data, size_t bytes,
                                  cr_out *out) {
    spm s;
    cr_status status = read_spm(op, path, data, bytes, &s);
    if (status == CR_OK) status = put_spm(op, path, &s, out);
    free(s.piece);
    return status;
}

cr_status cr_format_scored(const char *op, const char *path, cr_scored *pieces, int64_t n, bool prefix,
                           const char *post, cr_out *out) {
    spm s = {.piece = pieces, .n = n, .kind = 2, .byte_fallback = true, .dummy_prefix = prefix, .unk = -1,
             .post = post};
    for (int64_t i = 0; i < n; i++) if (pieces[i].type == CR_PIECE_UNKNOWN) s.unk = i;
    return put_spm(op, path, &s, out);
}

/* ---- BERT: a token a line ---- */
cr_status cr_format_wordpiece(const char *op, const char *path, const char *text, size_t bytes, cr_out *out) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    cr_json *config;
    cr_status status = json_beside(op, path, "tokenizer_config.json", &config);
    const cr_json *lower = cr_json_get(config, "do_lower_case");
    const bool lowers = !lower || lower->kind != CR_JSON_BOOL || lower->truth;
    int64_t id_of[5] = {-1, -1, -1, -1, -1}, id = 0;
    cr_out vocab = {0};
    cr_json_free(config);
    if (status != CR_OK) return status;
    if (cr_utf8_valid(text, bytes) < bytes) return cr_fail(CR_IO, op, "'%s' is not UTF-8", path);
    for (size_t at = 0, end; at < bytes; at = end + 1, id++) {
        const char *stop = memchr(text + at, '\n', bytes - at);
        end = stop ? (size_t)(stop - text) : bytes;
        size_t n = end - at;
        if (n && text[at + n - 1] == '\r') n--;
        for (int k = 0; k < 5; k++)
            if (n == strlen(special[k]) && !memcmp(text + at, special[k], n)) id_of[k] = id;
        cr_out_put(&vocab, id ? ",\n" : "\n", id ? 2 : 1);
        cr_out_string(&vocab, text + at, n);
        cr_out_format(&vocab, ":%lld", (long long)id);
    }
    cr_format_begin(out);
    for (int k = 0; k < 5; k++)
        if (id_of[k] >= 0) cr_format_added(out, special[k], strlen(special[k]), (uint32_t)id_of[k], true, false);
    cr_out_format(out, "],\n\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                       "\"handle_chinese_chars\":true,"
                       "\"strip_accents\":null,\"lowercase\":%s},\n\"pre_tokenizer\":{"
                       "\"type\":\"BertPreTokenizer\"},\n",
                  lowers ? "true" : "false");
    if (id_of[2] >= 0 && id_of[3] >= 0)
        cr_out_format(out, "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",%lld],"
                           "\"cls\":[\"[CLS]\",%lld]},\n",
                      (long long)id_of[3], (long long)id_of[2]);
    cr_out_format(out, "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\n\"model\":{\"type\":"
                       "\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
                       "\"max_input_chars_per_word\":100,\n\"vocab\":{");
    cr_out_put(out, vocab.text ? vocab.text : "", vocab.bytes);
    cr_out_format(out, "}}}\n");
    const bool failed = vocab.failed;
    cr_out_free(&vocab);
    return failed ? cr_fail(CR_NO_MEMORY, op, "no memory for '%s'", path) : CR_OK;
}
