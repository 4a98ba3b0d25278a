/* formats.c - vocabularies in other formats, written as a tokenizer.json: GPT-2's two files, SentencePiece's model and
 * BERT's vocab.txt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/os.h"
#include "../core/status.h"
#include "../core/utf8.h"
#include "../io/folder.h"
#include "pipeline.h"

bool cr_path_beside(const char *path, const char *name, char out[4096]) {
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    return snprintf(out, 4096, "%.*s%s", folder, path, name) < 4096;
}

typedef struct flags { bool special, normalized, lstrip, rstrip, single_word; } flags;

static void put_added(cr_out *out, const char *content, size_t bytes, uint32_t id, flags f) {
    const char *const truth[] = {"false", "true"};
    if (out->bytes && out->text[out->bytes - 1] != '[') cr_out_put(out, ",", 1);
    cr_out_format(out, "\n{\"id\":%u,\"content\":", (unsigned)id);
    cr_out_string(out, content, bytes);
    cr_out_format(out, ",\"single_word\":%s,\"lstrip\":%s,\"rstrip\":%s,\"normalized\":%s,\"special\":%s}",
                  truth[f.single_word], truth[f.lstrip], truth[f.rstrip], truth[f.normalized], truth[f.special]);
}

void cr_format_added(cr_out *out, const char *content, size_t bytes, uint32_t id, bool special, bool normalized) {
    put_added(out, content, bytes, id, (flags){.special = special, .normalized = normalized});
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
    cr_out_format(out, "],\n\"normalizer\":%s,\n\"pre_tokenizer\":", b->nfc ? "{\"type\":\"NFC\"}" : "null");
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

void cr_format_around(cr_out *o, const cr_scored *const around[2]) {
    if (!around[0] && !around[1]) return;
    cr_out_format(o, "{\"type\":\"TemplateProcessing\",\"single\":[");
    for (int i = 0; i < 3; i++) {
        const cr_scored *p = i == 1 ? NULL : around[i / 2];
        if (i == 1) cr_out_format(o, "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}%s", around[1] ? "," : "");
        if (!p) continue;
        cr_out_format(o, "{\"SpecialToken\":{\"id\":");
        cr_out_string(o, p->text, p->bytes);
        cr_out_format(o, ",\"type_id\":0}}%s", i ? "" : ",");
    }
    cr_out_format(o, "],\"pair\":[],\"special_tokens\":{");
    for (int i = 0; i < 2; i++) {
        const cr_scored *p = around[i];
        if (!p || (i && p == around[0])) continue;
        if (i && around[0]) cr_out_put(o, ",", 1);
        cr_out_string(o, p->text, p->bytes);
        cr_out_format(o, ":{\"id\":");
        cr_out_string(o, p->text, p->bytes);
        cr_out_format(o, ",\"ids\":[%u],\"tokens\":[", (unsigned)p->id);
        cr_out_string(o, p->text, p->bytes);
        cr_out_format(o, "]}");
    }
    cr_out_format(o, "}}");
}

/* ---- GPT-2: vocab.json + merges.txt, encoder.json + vocab.bpe ---- */

/* The parsed JSON of a file next to path, where there is one. */
static cr_status json_beside(const char *op, const char *path, const char *name, cr_json **root) {
    char beside[4096];
    *root = NULL;
    return cr_path_beside(path, name, beside) ? cr_json_find(op, beside, root) : CR_OK;
}

/* The files that may lie beside a vocabulary, and what they say of it. */
typedef struct beside {
    const char *op, *path;
    cr_json *tokenizer, *model, *map, *added;
    const cr_tokenizer_class *class;
    const cr_json *class_name;
    const cr_words *words;                          /* the vocabulary */
    bool raw;                                       /* normalizers would put a space in front of what follows a token */
    cr_table seen;                                  /* texts that have an entry in `out`: id + 1 */
    cr_out *out;
    bool failed;
} beside;

static cr_status open_beside(beside *b, const char *op, const char *path, cr_out *out) {
    *b = (beside){.op = op, .path = path, .out = out};
    cr_status status = json_beside(op, path, "tokenizer_config.json", &b->tokenizer);
    if (status == CR_OK) status = json_beside(op, path, "config.json", &b->model);
    if (status == CR_OK) status = json_beside(op, path, "special_tokens_map.json", &b->map);
    if (status == CR_OK) status = json_beside(op, path, "added_tokens.json", &b->added);
    b->class = cr_tokenizer_class_of(b->tokenizer, b->model, &b->class_name);
    return status;
}

static void close_beside(beside *b) {
    cr_json_free(b->tokenizer);
    cr_json_free(b->model);
    cr_json_free(b->map);
    cr_json_free(b->added);
    cr_table_free(&b->seen);
}

/* The text of a token, "<s>" or {"content": "<s>"}; NULL: none. */
static const cr_json *content_of(const cr_json *token) {
    const cr_json *text = cr_json_as(cr_json_as(token, CR_JSON_OBJECT) ? cr_json_get(token, "content") : token,
                                     CR_JSON_STRING);
    return text && text->bytes ? text : NULL;
}

/* As transformers does, added_tokens_decoder hides the two files that it came to replace. */
static const cr_json *decoder_of(const beside *b) {
    return cr_json_as(cr_json_get(b->tokenizer, "added_tokens_decoder"), CR_JSON_OBJECT);
}

/* What the files say of a role, may be null; NULL: nothing. */
static const cr_json *role_of(const beside *b, const char *role) {
    const cr_json *mapped = decoder_of(b) ? NULL : cr_json_get(b->map, role);
    return mapped ? mapped : cr_json_get(b->tokenizer, role);
}

/* The token of role i: the files', or else the class's; false: none. */
static bool token_of_role(const beside *b, int i, const char **text, size_t *bytes) {
    const cr_json *said = role_of(b, cr_roles[i]), *content = content_of(said);
    *text = content ? content->text : !said && b->class ? b->class->role[i] : NULL;
    *bytes = content ? content->bytes : *text ? strlen(*text) : 0;
    return *text != NULL;
}

/* An entry for a token that has none yet.  id: -1 or the vocabulary's; where neither is there, it is left out. */
static void add_token(beside *b, const cr_json *said, const char *text, size_t bytes, int64_t id, bool special) {
    const uint32_t known = cr_words_find(b->words, text, bytes);
    uint64_t *seen = known != CR_NO_ID || id >= 0 ? cr_table_add(&b->seen, cr_hash_bytes(text, bytes) | 1) : NULL;
    if (known == CR_NO_ID && (id < 0 || id >= CR_MOST_ID)) return;
    if (!seen) b->failed = true;
    if (!seen || *seen) return;
    *seen = (uint64_t)(known != CR_NO_ID ? known : (uint32_t)id) + 1;
    flags f = {.special = special, .normalized = !special};
    const struct { const char *key; bool *flag; } read[] = {
        {"special", &f.special}, {"normalized", &f.normalized}, {"lstrip", &f.lstrip}, {"rstrip", &f.rstrip},
        {"single_word", &f.single_word}};
    for (size_t i = special ? 1 : 0; i < sizeof read / sizeof *read; i++)
        *read[i].flag = cr_json_flag(said, read[i].key, *read[i].flag);
    f.normalized &= !b->raw;
    put_added(b->out, text, bytes, known != CR_NO_ID ? known : (uint32_t)id, f);
}

static void add_list(beside *b, const cr_json *list) {
    for (const cr_json *v = cr_json_elements(list); v; v = v->next)
        if (content_of(v)) add_token(b, v, content_of(v)->text, content_of(v)->bytes, -1, true);
}

static bool is_role(const beside *b, const char *token, size_t n) {
    const char *text;
    size_t bytes;
    for (int i = 0; i < CR_ROLES; i++)
        if (token_of_role(b, i, &text, &bytes) && bytes == n && !memcmp(text, token, n)) return true;
    return false;
}

static cr_status add_tokens(beside *b) {
    const cr_json *decoder = decoder_of(b), *added = decoder ? NULL : b->added;
    const char *text;
    size_t bytes;
    for (const cr_json *v = decoder ? decoder->first : NULL; v; v = v->next) {
        char *end;
        const long long id = strtoll(v->key, &end, 10);
        if (content_of(v) && v->key_bytes && !*end && *v->key >= '0' && *v->key <= '9')
            add_token(b, v, content_of(v)->text, content_of(v)->bytes, id,
                      is_role(b, content_of(v)->text, content_of(v)->bytes));
    }
    for (const cr_json *v = cr_json_as(added, CR_JSON_OBJECT) ? added->first : NULL; v; v = v->next)
        if (v->kind == CR_JSON_NUMBER && v->integral && v->integer >= 0 && v->key_bytes)
            add_token(b, NULL, v->key, v->key_bytes, v->integer, is_role(b, v->key, v->key_bytes));
    for (int i = 0; i < CR_ROLES; i++)
        if (token_of_role(b, i, &text, &bytes)) add_token(b, role_of(b, cr_roles[i]), text, bytes, -1, true);
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (int i = 0; i < 2; i++) {
        if (!decoder) add_list(b, cr_json_get(b->map, lists[i]));
        add_list(b, cr_json_get(b->tokenizer, lists[i]));
    }
    return b->failed ? cr_no_memory(b->op) : CR_OK;
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

/* Words with their ids; those that are no ids are found out later. */
static bool index_words(const cr_json *root, cr_words *words) {
    int64_t most = -1;
    size_t bytes = 0;
    for (const cr_json *v = root->first; v; v = v->next) {
        if (v->integral && v->integer > most && v->integer < CR_MOST_ID) most = v->integer;
        bytes += v->key_bytes;
    }
    if (!cr_words_reserve(words, most + 1, root->count, bytes)) return false;
    for (const cr_json *v = root->first; v; v = v->next)
        if (v->integral && v->integer >= 0 && v->integer <= most)
            cr_words_add(words, (uint32_t)v->integer, v->key, v->key_bytes);
    return true;
}

/* How the class reads vocab.json and merges.txt; GPT-2's way where no class is named. */
static cr_status byte_level_of(const beside *b, cr_byte_level *level) {
    static const cr_tokenizer_class gpt2 = {.byte_level = true};
    const cr_tokenizer_class *c = b->class ? b->class : &gpt2;
    const cr_json *space = cr_json_get(b->tokenizer, "add_prefix_space");
    if (!c->byte_level || (b->class_name && !b->class))
        return cr_fail(CR_IO, b->op,
                       "'%s' belongs to a '%.60s', whose files of this kind are not known here: save it as a "
                       "tokenizer.json", b->path, b->class_name ? b->class_name->text : c->names);
    *level = (cr_byte_level){.prefix_space = space && space->kind == CR_JSON_BOOL && space->truth, .nfc = c->nfc};
    if (c->splits) memcpy(level->split, cr_named_splits_find(c->splits)->pattern, sizeof level->split);
    return CR_OK;
}

/* The post-processor that puts the tokens of two roles (-1: none) around a text, where the vocabulary has them. */
static void put_around(const beside *b, int first, int last, cr_out *post) {
    cr_scored token[2] = {{0}};
    const cr_scored *around[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        const int role = i ? last : first;
        if (role < 0 || !token_of_role(b, role, &token[i].text, &token[i].bytes)) continue;
        const uint64_t *added = cr_table_find(&b->seen, cr_hash_bytes(token[i].text, token[i].bytes) | 1);
        token[i].id = added ? (uint32_t)*added - 1 : CR_NO_ID;
        if (added) around[i] = &token[i];
    }
    cr_format_around(post, around);
}

/* The post-processor by the class, and by "add_bos_token" and "add_eos_token". */
static void put_post(const beside *b, cr_out *post) {
    const cr_tokenizer_class *c = b->class;
    const bool begins = cr_json_flag(b->tokenizer, "add_bos_token", false),
               ends = cr_json_flag(b->tokenizer, "add_eos_token", false);
    if (c && c->around) put_around(b, CR_CLS, CR_SEP, post);
    else put_around(b, begins ? CR_BOS : -1, ends || (c && c->ends) ? CR_EOS : -1, post);
}

cr_status cr_format_bpe(const char *op, const char *path, const char *vocab, size_t bytes, const cr_json *root,
                        const char *merges, cr_out *out) {
    beside b;
    cr_byte_level level;
    cr_words words = {0};
    cr_out post = {0};
    cr_mapping m;
    cr_format_begin(out);
    cr_status status = open_beside(&b, op, path, out);
    b.words = &words;
    if (status == CR_OK) status = byte_level_of(&b, &level);
    if (status == CR_OK && !index_words(root, &words)) status = cr_no_memory(op);
    if (status == CR_OK) status = add_tokens(&b);
    if (status == CR_OK && !b.class)
        add_token(&b, NULL, "<|endoftext|>", 13, -1, true);
    if (status == CR_OK) put_post(&b, &post);
    if (status == CR_OK) {
        level.post = post.text;
        cr_format_byte_level(out, &level);
        cr_out_put(out, vocab, bytes);
        cr_out_format(out, ",\n\"merges\":[");
        out->failed |= post.failed;
        status = cr_file_map(op, merges, false, &m);
    }
    if (status == CR_OK) {
        status = put_merges(op, merges, (const char *)m.data, m.bytes, out);
        cr_os_unmap(&m);
    }
    cr_out_format(out, "]}}\n");
    cr_out_free(&post);
    cr_words_free(&words);
    close_beside(&b);
    return status;
}

/* ---- SentencePiece: its protobuf (sentencepiece_model.proto) ---- */
typedef struct message { const unsigned char *at, *end; } message;
typedef struct field { uint32_t number; int wire; uint64_t value; message text; } field;

static bool read_varint(message *m, uint64_t *v) {
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
    if (!read_varint(m, &key)) goto damaged;
    f->number = (uint32_t)(key >> 3);
    f->wire = (int)(key & 7);
    if (f->wire == 0) { if (!read_varint(m, &f->value)) goto damaged; return true; }
    length = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    if (f->wire == 2 && !read_varint(m, &length)) goto damaged;
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
    const char *scheme;                             /* when the mark of a space is put in front; NULL: of each text */
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
        return cr_fail(CR_IO, op, "'%s' is not a tokenizer: neither JSON nor a SentencePiece model", path);
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
    if (s->scheme)
        cr_out_format(out, "{\"type\":\"Sequence\",\"normalizers\":[]}]},\n\"pre_tokenizer\":{\"type\":\"Metaspace\","
                           "\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"%s\",\"split\":false}", s->scheme);
    else
        cr_out_format(out, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                           "\"content\":\"\xE2\x96\x81\"}]},\n\"pre_tokenizer\":null",
                      s->dummy_prefix ? "{\"type\":\"Prepend\",\"prepend\":\"\xE2\x96\x81\"}," : "");
    cr_out_format(out, ",\n\"post_processor\":%s,\n\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
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

static void put_unigram(const cr_pieces *s, cr_out *out) {
    if (s->unk >= 0) cr_out_format(out, "\"unk_id\":%lld,", (long long)s->unk);
    else cr_out_format(out, "\"unk_id\":null,");
    cr_out_format(out, "\n\"vocab\":[");
    for (int64_t i = 0; i < s->n; i++) {
        cr_out_put(out, i ? ",\n[" : "\n[", i ? 3 : 2);
        cr_out_string(out, s->at[i].text, s->at[i].bytes);
        cr_out_put(out, ",", 1);
        put_score(out, s->at[i].score);
        cr_out_put(out, "]", 1);
    }
    cr_out_format(out, "]}}\n");
}

typedef struct merges { cr_out *out; bool any; } merges;

static bool put_merge(void *to, const cr_scored *p, size_t cut) {
    merges *m = to;
    cr_out_put(m->out, m->any ? ",\n[" : "\n[", m->any ? 3 : 2);
    cr_out_string(m->out, p->text, cut);
    cr_out_put(m->out, ",", 1);
    cr_out_string(m->out, p->text + cut, p->bytes - cut);
    cr_out_put(m->out, "]", 1);
    m->any = true;
    return true;
}

static bool put_bpe(const cr_pieces *s, cr_out *out) {
    merges m = {.out = out};
    if (s->unk >= 0) {
        cr_out_format(out, "\"fuse_unk\":true,\"unk_token\":");
        cr_out_string(out, s->at[s->unk].text, s->at[s->unk].bytes);
        cr_out_format(out, ",");
    }
    cr_out_format(out, "\n\"vocab\":{");
    for (int64_t i = 0; i < s->n; i++) {
        cr_out_put(out, i ? ",\n" : "\n", i ? 2 : 1);
        cr_out_string(out, s->at[i].text, s->at[i].bytes);
        cr_out_format(out, ":%lld", (long long)i);
    }
    cr_out_format(out, "},\n\"merges\":[");
    const bool ok = cr_pieces_merges(s, put_merge, &m);
    cr_out_format(out, "]}}\n");
    return ok;
}

bool cr_format_pieces(const cr_pieces *pieces, cr_out *out) {
    if (pieces->bpe) return put_bpe(pieces, out);
    put_unigram(pieces, out);
    return true;
}

/* The words of pieces, and an entry for each special one. */
static bool put_pieces(const spm *s, cr_words *words, beside *b, cr_out *out) {
    size_t bytes = 0;
    for (int64_t i = 0; b && i < s->n; i++) bytes += s->piece[i].bytes;
    if (b && !cr_words_reserve(words, s->n, s->n, bytes)) return false;
    for (int64_t i = 0; i < s->n; i++) {
        const cr_scored *p = &s->piece[i];
        const bool user = p->type == CR_PIECE_USER_DEFINED;
        const bool special = user || p->type == CR_PIECE_UNKNOWN || p->type == CR_PIECE_CONTROL;
        if (b) cr_words_add(words, p->id, p->text, p->bytes);
        uint64_t *seen = b && special ? cr_table_add(&b->seen, cr_hash_bytes(p->text, p->bytes) | 1) : NULL;
        if (b && special && !seen) return false;
        if (seen) *seen = (uint64_t)p->id + 1;
        if (special) cr_format_added(out, p->text, p->bytes, p->id, !user, user && !s->dummy_prefix);
    }
    return true;
}

/* What the class and the files beside the model add to it. */
static cr_status put_class(spm *s, beside *b, cr_out *post) {
    const cr_tokenizer_class *c = b->class;
    cr_status status = CR_OK;
    for (int i = 0; c && i < c->sentinels; i++) {
        char name[24];
        const int n = snprintf(name, sizeof name, "<extra_id_%d>", i);
        add_token(b, NULL, name, (size_t)n, s->n + c->sentinels - 1 - i, true);
    }
    b->raw = s->dummy_prefix && !(c && c->first);
    status = add_tokens(b);
    put_post(b, post);
    const bool prefix = s->dummy_prefix && cr_json_flag(b->tokenizer, "add_prefix_space", true);
    if (c && c->first) {                            /* transformers leaves the model's normalizers out */
        s->squeeze = false;
        s->charsmap = (message){NULL, NULL};
        s->scheme = !prefix ? "never" : cr_json_flag(b->tokenizer, "legacy", false) ? "always" : "first";
    }
    s->dummy_prefix = prefix;
    if (post->bytes) s->post = post->text;
    return status != CR_OK || !post->failed ? status : cr_no_memory(b->op);
}

/* All that is in front of the vocabulary. */
static cr_status put_head(const char *op, spm *s, beside *b, cr_out *out) {
    cr_words words = {0};
    cr_out post = {0};
    cr_format_begin(out);
    cr_status status = put_pieces(s, &words, b, out) ? CR_OK : cr_no_memory(op);
    if (b) b->words = &words;
    if (b && status == CR_OK) status = put_class(s, b, &post);
    cr_words_free(&words);
    if (status == CR_OK) put_normalizers(s, out);
    cr_out_free(&post);
    return status;
}

static cr_pieces pieces_of(const spm *s) {
    return (cr_pieces){s->piece, s->n, s->unk, s->kind == 2, s->byte_fallback};
}

/* fairseq's numbers, which XLM-R's class gives to the pieces: four tokens of its own in place of the first three, and
 * mask_token behind all. */
static bool renumber_pieces(spm *s, const cr_tokenizer_class *c) {
    static const int first[] = {CR_BOS, CR_PAD, CR_EOS, CR_UNK};
    cr_scored *all = s->n >= 3 ? calloc((size_t)s->n + 2, sizeof *all) : NULL;
    if (!all) return false;
    const int64_t n = s->n + 2;
    for (int64_t i = 0; i < n; i++) {
        const int role = i < 4 ? first[i] : i == n - 1 ? CR_MASK : -1;
        if (role < 0) all[i] = s->piece[i - 1];
        else all[i] = (cr_scored){.text = c->role[role], .bytes = strlen(c->role[role]),
                                  .type = i == 3 ? CR_PIECE_UNKNOWN : CR_PIECE_CONTROL};
        all[i].id = (uint32_t)i;
    }
    free(s->piece);
    s->piece = all;
    s->n = n;
    s->unk = 3;
    return true;
}

cr_status cr_format_sentencepiece(const char *op, const char *path, const unsigned char *data, size_t bytes,
                                  cr_out *out, size_t *head, cr_pieces *pieces) {
    spm s = {0};
    beside b;
    cr_status status = open_beside(&b, op, path, out);
    if (status == CR_OK) status = read_spm(op, path, data, bytes, &s);
    if (status == CR_OK && b.class && b.class->foreign)
        status = cr_fail(CR_IO, op,
                         "'%s' belongs to a '%.60s', which numbers its pieces in a way of its own: save it as a "
                         "tokenizer.json", path, b.class_name ? b.class_name->text : b.class->names);
    if (status == CR_OK && b.class && b.class->fairseq && !renumber_pieces(&s, b.class)) status = cr_no_memory(op);
    if (status == CR_OK) status = put_head(op, &s, &b, out);
    *head = out->bytes;
    cr_out_format(out, "\"vocab\":null}}");
    *pieces = pieces_of(&s);
    close_beside(&b);
    return status;
}

cr_status cr_format_scored(const char *op, const char *path, const cr_scored_model *m, cr_out *out) {
    spm s = {.piece = m->pieces, .n = m->n, .kind = m->unigram ? 1 : 2, .byte_fallback = !m->unigram,
             .dummy_prefix = m->prefix, .squeeze = m->squeeze, .unk = -1, .post = m->post,
             .charsmap = {m->charsmap, m->charsmap ? m->charsmap + m->charsmap_bytes : NULL}};
    for (int64_t i = 0; i < m->n; i++) if (m->pieces[i].type == CR_PIECE_UNKNOWN) s.unk = i;
    cr_status status = put_head(op, &s, NULL, out);
    const cr_pieces all = pieces_of(&s);
    if (status == CR_OK && !cr_format_pieces(&all, out))
        status = cr_fail(CR_NO_MEMORY, op, "no memory for the merges of '%s'", path);
    return status;
}

/* ---- BERT: a token a line ---- */
cr_status cr_format_vocab_txt(const char *op, const char *path, const char *text, size_t bytes, cr_out *out) {
    cr_json *config;
    const cr_status status = json_beside(op, path, "tokenizer_config.json", &config);
    const bool lowers = cr_json_flag(config, "do_lower_case", true);
    cr_json_free(config);
    return status == CR_OK ? cr_format_wordpiece(op, path, text, bytes, lowers, out) : status;
}

cr_status cr_format_wordpiece(const char *op, const char *path, const char *text, size_t bytes, bool lowers,
                              cr_out *out) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    int64_t id_of[5] = {-1, -1, -1, -1, -1}, id = 0;
    cr_out vocab = {0};
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
